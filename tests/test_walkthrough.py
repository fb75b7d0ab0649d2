"""The walkthrough draws what the algorithm did: its evaluations, its regret, its messages, its nodes."""

import numpy as np
import pytest

from pfpne import make_problem, simulate
from pfpne.paper.exhibits import walkthrough
from pfpne.paper.run.notebooks import WALKTHROUGH_PARAMETERS
from pfpne.paper.run.parameters import complete


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
    trace, run = walkthrough.trace(problem, T, 5, **settings), simulate("pf-pne", problem, T, seed=5, **settings)
    assert np.array_equal(trace.run.regret, run.regret) and np.array_equal(trace.run.best, run.best)
    assert trace.sent[["t", "up", "down"]].to_numpy().tolist() == run.rounds.tolist()
    nodes = trace.nodes
    assert not nodes.duplicated(["who", "depth", "index"]).any()
    own = nodes[nodes["who"] != "server"]
    assert own.groupby("who")["pulls"].sum().tolist() == [T] * M
    for who, mine in own.groupby("who"):
        m = int(who[-1]) - 1
        values = problem.client_values(m, (mine[["low"]].to_numpy() + mine[["high"]].to_numpy()) / 2)
        assert np.isclose(mine["pulls"] @ (problem.optimum[m] - values), run.regret[m, -1])
        assert noise or np.allclose(mine["mean"][mine["pulls"] > 0], values[mine["pulls"] > 0])
    walkthrough.in_words(trace, problem)


def test_every_node_has_the_fate_that_its_children_show():
    problem = make_problem("garland", 3)
    nodes = walkthrough.trace(problem, 10_000, 0, Delta=0.1).nodes
    kept = nodes["fate"].isin([walkthrough.KEPT_BY_SERVER, walkthrough.KEPT_BY_CLIENT, walkthrough.KEPT_BY_CLIENT_ONLY])
    for _, mine in nodes.groupby("who"):
        here = set(zip(mine["depth"], mine["index"], strict=True))
        deepest = mine["depth"].max()
        for h, i, stays in zip(mine["depth"], mine["index"], kept[mine.index], strict=True):
            if h < deepest:
                assert ((h + 1, 2 * i) in here) == ((h + 1, 2 * i - 1) in here) == stays
    stays = nodes[nodes["fate"] == walkthrough.KEPT_BY_SERVER].groupby("who")[["depth", "index"]].agg(list)
    assert len(stays) == 4 and all(stays[column].map(tuple).nunique() == 1 for column in stays)  # what was broadcast


@pytest.mark.parametrize("Delta", [0.1, "true"])
def test_every_slider_moved_draws_another_picture(Delta):
    p = complete("0_how_it_works", {**WALKTHROUGH_PARAMETERS, "horizon": 500, "Delta": Delta})
    *rows, picture = walkthrough.explore(p).children
    sliders = [slider for row in rows for slider in row.children]
    start = [p.experiment().problem(0).Delta if Delta == "true" else Delta, "bernoulli", 0.1, 3]
    assert [slider.value for slider in sliders] == start
    seen = [bytes(picture.value)]
    for slider, value in zip(sliders, (0.03, 1.0, 0.2, 7), strict=True):
        slider.value = value
        seen.append(bytes(picture.value))
    assert len(set(seen)) == 5 and all(png.startswith(b"\x89PNG") for png in seen)
    for slider, value in zip(sliders, start, strict=True):
        slider.value = value
    assert bytes(picture.value) == seen[0]  # where it was before
