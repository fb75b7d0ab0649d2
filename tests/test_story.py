"""The story draws what the algorithm did: its evaluations, its regret, its messages, its nodes."""

import numpy as np
import pytest

from pfpne import make_problem, simulate
from pfpne.paper import story


@pytest.mark.parametrize(
    ("M", "T", "noise", "settings"),
    [
        (3, 10_000, "bernoulli", {"Delta": 0.1}),
        (4, 1_000, 0.1, {"Delta": 0.0}),  # the horizon comes while all are together
        (2, 300, "bernoulli", {"Delta": 2.0}),  # the root alone is shared
        (1, 200, 0.0, {"Delta": "true"}),
        (2, 3, "bernoulli", {"c": 10.0}),  # before anything is sent
    ],
)
def test_the_trace_is_the_algorithms_own_run(M, T, noise, settings):
    problem = make_problem("garland", M, 0.1, noise)
    trace, run = story.trace(problem, T, 5, **settings), simulate("pf-pne", problem, T, seed=5, **settings)
    assert np.array_equal(trace.run.regret, run.regret) and np.array_equal(trace.run.best, run.best)
    assert trace.sent[["t", "up", "down"]].to_numpy().tolist() == run.rounds.tolist()
    cells = trace.cells
    assert not cells.duplicated(["who", "depth", "index"]).any()
    own = cells[cells["who"] != "server"]
    assert own.groupby("who")["pulls"].sum().tolist() == [T] * M
    for who, mine in own.groupby("who"):
        m = int(who[-1]) - 1
        values = problem.client_values(m, (mine[["low"]].to_numpy() + mine[["high"]].to_numpy()) / 2)
        assert np.isclose(mine["pulls"] @ (problem.optimum[m] - values), run.regret[m, -1])
        assert noise or np.allclose(mine["mean"][mine["pulls"] > 0], values[mine["pulls"] > 0])
    story.in_words(trace, problem)


def test_every_node_has_the_fate_that_its_children_show():
    problem = make_problem("garland", 3)
    cells = story.trace(problem, 10_000, 0, Delta=0.1).cells
    kept = cells["fate"].isin([story.BY_SERVER, story.BY_CLIENT, story.BROUGHT_BACK])
    for who, mine in cells.groupby("who"):
        nodes = set(zip(mine["depth"], mine["index"], strict=True))
        deepest = mine["depth"].max()
        for h, i, stays in zip(mine["depth"], mine["index"], kept[mine.index], strict=True):
            if h < deepest:
                assert ((h + 1, 2 * i) in nodes) == ((h + 1, 2 * i - 1) in nodes) == stays
    stays = cells[cells["fate"] == story.BY_SERVER].groupby("who")[["depth", "index"]].agg(list)
    assert len(stays) == 4 and all(stays[column].map(tuple).nunique() == 1 for column in stays)  # what was broadcast
