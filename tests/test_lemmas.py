"""What is counted of the paper's lemmas, corollary and remarks: by cases that are worked out by hand."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pfpne.algorithms.hct import HCTSettings, hct_constants
from pfpne.algorithms.hoo import hoo_constants
from pfpne.algorithms.pf_pne import transition_depth
from pfpne.paper.claims.depths import optima, watch
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import theory_settings
from pfpne.paper.exhibits import hoo_and_hct, kept_nodes, rates
from pfpne.paper.exhibits.kept_nodes import BIASED_SETTINGS, UNIT, biased_problem, count_kept_nodes, lemma_case
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import complete
from pfpne.partition import Partition
from pfpne.problems import make_problem, problem_from_functions
from pfpne.simulation.simulate import partition_of, simulate

CELLS, T = Partition([[0.0, 1.0]]), 1_200_000  # with which PE finishes depth 3 of the constructed problem


def settings(n_clients: int, **changes) -> dict:
    return theory_settings(n_clients) | BIASED_SETTINGS | changes


def columns(rows: list[dict], *names: str) -> list[tuple]:
    return [tuple(row[name] for name in names) for row in rows]


# --- Lemmas A.3 and A.4 -----------------------------------------------------------------------------


def test_kept_nodes_are_counted_as_by_hand():
    """The server keeps the root, both halves, then the right quarters; every client alone, all eighths on the right.

    There client 1 is 26/64 below its optimum and the three others at theirs; Lemma A.4 allows 11/64 + 13/64.
    """
    rows = count_kept_nodes(biased_problem(4), T, CELLS, **settings(4))
    assert columns(rows, "lemma", "depth", "bound", "kept", "within", "worst") == [
        ("A.3", 0, 6.0, 1, 1, 0.0),
        ("A.3", 1, 6 / 4, 2, 2, (45 - 50 / 4) * UNIT),
        ("A.3", 2, 6 / 16, 2, 2, 0.0),
        ("A.4", 3, 24 * UNIT, 16, 12, 26 * UNIT),
    ]
    assert all(row["good"] and row["smooth"] and row["valid"] for row in rows)
    assert [lemma_case(row) for row in rows] == [
        kept_nodes.VACUOUS,
        kept_nodes.VACUOUS,
        kept_nodes.HOLDS,
        kept_nodes.REFUTING,
    ]


def test_a_premise_that_fails_excuses():
    """With a Delta that is too small, or intervals that are, the same nodes are kept and the lemma says nothing."""
    invalid = count_kept_nodes(biased_problem(4), T, CELLS, **settings(4, Delta=12 * UNIT))
    assert columns(invalid[-1:], "lemma", "kept", "within", "valid") == [("A.4", 16, 12, False)]
    assert lemma_case(invalid[-1]) == kept_nodes.EXCUSED and invalid[0]["valid"]  # Lemma A.3 has no Delta
    narrow = count_kept_nodes(biased_problem(3, "bernoulli"), 3_000, CELLS, **settings(3, c=0.05))
    assert (
        narrow
        and not narrow[-1]["good"]
        and lemma_case(narrow[-1] | {"bound": 0.5}) in (kept_nodes.HOLDS_ANYWAY, kept_nodes.EXCUSED)
    )


def test_the_good_event_is_about_the_means_of_finished_phases(monkeypatch):
    """Clients 0 and 1 finish depth 3 alone, client 2 depth 4, which T cuts for them. One mean at a time is spoilt."""
    problem, constants = make_problem("garland", 3, 0.1, 0.2), {"c": 0.1, "nu_1": 0.5, "Delta": 0.1}
    cells = partition_of(problem, "random", 0, 0)
    seen = watch("pf-pne", problem, 600, partition=cells, **constants)
    assert [len(own) for own in seen.own] == [4, 4, 5] and len(seen.shared) == 4
    monkeypatch.setattr(kept_nodes, "watch", lambda *_, **__: seen)

    def good() -> dict:
        rows = count_kept_nodes(problem, 600, cells, **constants)
        for row in rows:
            factor, more = (6, 0.0) if row["lemma"] == "A.3" else (11, 0.1)
            assert row["bound"] == pytest.approx(factor * 0.5 * 0.5 ** row["depth"] + more)
        return {(row["lemma"], row["depth"]): row["good"] for row in rows}

    every = [*(("A.3", h) for h in range(4)), *(("A.4", h) for h in (2, 3, 4))]
    assert good() == dict.fromkeys(every, True)
    for m, h, wrong in ((0, 4, []), (2, 4, [("A.4", 4)]), (0, 3, [("A.4", 3), ("A.4", 4)])):
        pulled = seen.clients[m].pulled
        shared = seen.shared[h] if h < 4 else []
        node = next(node for node in pulled if node[0] == h and node[1] not in shared)
        (n, total), pulled[node] = pulled[node], (pulled[node][0], 9.0 * pulled[node][0])
        assert [place for place, so in sorted(good().items()) if not so] == wrong
        pulled[node] = n, total
    seen.means[3][:, 0] += 9.0  # the server has decided before a client is alone
    assert [place for place, so in sorted(good().items()) if not so] == [("A.3", 3), *every[4:]]


def test_smoothness_is_that_of_the_cells_with_an_optimum_down_to_the_depth():
    """1 - x falls by 2^-(h+1) from the optimum to the centre of its cell: more than 1/4^h from depth 2 on."""
    hill = problem_from_functions([lambda x: 1 - x[:, 0]] * 2, [[0.0, 1.0]], noise=0, optimum=1.0, global_optimum=1.0)
    hill.maximisers, hill.global_maximiser = np.zeros((2, 1)), np.zeros(1)
    rows = count_kept_nodes(hill, 30_000, CELLS, c=0.5, rho=0.25, Delta=0.1)
    by_server = [row for row in rows if row["lemma"] == "A.3"]
    assert columns(by_server, "depth", "smooth") == [(0, True), (1, True), (2, False)]
    by_client = [row for row in rows if row["lemma"] == "A.4"]
    assert by_client and not any(row["smooth"] for row in by_client if row["depth"] > 1)


def test_fates_are_counted_in_threes():
    head = {"lemma": "A.3", "kept": 4, "within": 4, "bound": 0.5, "good": True, "smooth": True, "valid": True}
    cases = {
        "shown": [{}, {"bound": 1.5, "within": 0}],
        "refuted": [{}, {"within": 3}],
        "open": [{"good": False}, {"within": 1, "smooth": False}],
    }
    rows = [head | change | {"Delta": name} for name, changes in cases.items() for change in changes]
    counts = kept_nodes.count_cases(pd.DataFrame(rows), ["lemma", "Delta"]).set_index("Delta")
    assert counts["verdict"].to_dict() == {name: name for name in cases}
    assert counts["share"].tolist() == [1, 7 / 8, 5 / 8] and counts.loc["open", ["good", "smooth"]].tolist() == [1, 1]
    assert counts.loc["open", [kept_nodes.HOLDS_ANYWAY, kept_nodes.EXCUSED]].tolist() == [1, 1]
    assert counts.loc["shown", [kept_nodes.HOLDS, kept_nodes.VACUOUS]].tolist() == [1, 1]


# --- a client that loses its optimum although every premise holds ------------------------------------


@pytest.mark.parametrize("n_clients", [3, 4])
def test_every_premise_holds_where_an_optimum_is_lost(n_clients):
    problem, s = biased_problem(n_clients), settings(n_clients)
    depth, x = 6, CELLS.centers(6, np.arange(1, 65))  # all functions are constant on smaller cells
    values = problem.values(x)
    values = np.vstack([values, values.mean(axis=0)])
    assert (values.max(axis=1) == optima(problem)).all()  # the optima are what the problem says

    # Assumption 2: l(x, y) = nu_1 rho^g, g the depth of the smallest cell that holds both
    cells = np.array([np.arange(64) >> (depth - h) for h in range(depth + 1)])
    shared = (cells[:, :, None] == cells[:, None, :]).sum(axis=0) - 1
    distance = np.where(shared == depth, 0, s["nu_1"] * s["rho"] ** np.minimum(shared, depth))
    for h in range(depth):
        together = cells[h][:, None] == cells[h][None, :]
        assert distance[together].max() == s["nu_1"] * s["rho"] ** h  # diam <= nu_1 rho^h
        assert ((distance <= s["nu_1"] * s["rho"] ** h) == together).all()  # the balls, nu_2 = nu_1, are the cells
    for f, best in zip(values, optima(problem), strict=True):
        short = best - f
        assert (short[None, :] <= short[:, None] + np.maximum(short[:, None], distance)).all()

    # Assumption 3; and, with 3 clients, Assumption 4 for some omega
    assert problem.Delta == s["Delta"] and problem.optimum[0] < problem.global_optimum
    excess = (optima(problem)[:-1, None] - values[:-1]).max(axis=0) - s["Delta"]
    at_optimum = values[-1] == problem.global_optimum
    assert (excess[at_optimum] <= 0).all() == (n_clients == 3)
    assert s["c"] >= 2 and s["c_1"] >= (2 * n_clients**2) ** (1 / 8)  # Lemma A.2

    seen = watch("pf-pne", problem, 100_000, partition=CELLS, **s)
    assert transition_depth(s["Delta"], s["nu_1"], s["rho"]) == 2
    assert [index.tolist() for index in seen.shared] == [[1], [1, 2], [3, 4]]
    assert [index.tolist() for index in seen.own[0]] == [[1], [1, 2], [3, 4]]  # client 1's optimum is in (1, 1)
    assert all(row["good"] for row in count_kept_nodes(problem, 100_000, CELLS, **s))
    alone = watch("pe", problem, 100_000, partition=CELLS, **{name: s[name] for name in s if name != "Delta"})
    assert alone.own[0][-1].tolist() == [1, 2]
    wide = watch("pf-pne", problem, 100_000, partition=CELLS, **settings(n_clients, Delta=16 * UNIT))  # H_0 = 1
    assert len(wide.shared) == 2 and wide.own[0][2].tolist() == [1, 2]


@pytest.mark.parametrize("noise", [0.0, "bernoulli"])
def test_what_is_lost_is_lost_at_every_pull(noise):
    """13 (M - 2) / 64 at each pull from there on, whatever T; PE alone loses nothing in the end."""
    for n_clients, horizon in itertools.product((3, 4), (100_000, 400_000)):
        problem = biased_problem(n_clients, noise)
        run = simulate("pf-pne", problem, horizon, partition=CELLS, **settings(n_clients))
        start = np.searchsorted(run.t, horizon // 2)
        rate = np.diff(run.regret[:, [start, -1]])[:, 0] / (run.t[-1] - run.t[start])
        assert rate[0] == pytest.approx(13 * (n_clients - 2) * UNIT)


# --- Corollary 3.1 ----------------------------------------------------------------------------------


def parameters(**changes):
    return replace(complete("9_why", {"profile": "smoke", "n_jobs": 1}), **changes)


def test_differences_shrink_as_the_corollary_wants(tmp_path):
    assert rates.bound_on_Delta(1_000, 20, 0) == pytest.approx(np.sqrt(np.log(20_000) / 1_000))
    p, horizons = parameters(n_runs=2, n_clients=3), (50, 400, 3_200)
    shifts = rates.shifts_for("garland", 0.0, horizons, p, tmp_path)
    assert shifts[50] == pytest.approx(p.shift) and shifts[50] > shifts[400] > shifts[3_200] > 0
    Deltas = []
    for horizon, shift in shifts.items():
        experiment = Experiment("garland", 3, 10, algorithms=("pf-pne",), n_runs=2, shift=shift)
        Deltas.append(
            np.mean([experiment.problem(run).Delta for run in range(2)]) / rates.bound_on_Delta(horizon, 3, 0)
        )
    assert Deltas == pytest.approx([Deltas[0]] * 3, rel=0.25)
    alike = rates.shifts_for("garland", 0.0, horizons, parameters(n_runs=2, n_clients=1), tmp_path)
    assert set(alike.values()) == {p.shift}


@pytest.mark.parametrize(("exponent", "idle", "verdict"), [(0.4, 0.1, "shown"), (0.9, 0.1, "open"), (0.4, 0.7, "open")])
def test_an_exponent_is_held_against_what_is_allowed(exponent, idle, verdict):
    rows = [
        {"T": horizon, "run": run, "regret": (2 + run) * horizon**exponent, "alone": horizon**0.5}
        for horizon in (100, 1_000, 10_000)
        for run in range(3)
    ]
    head = {"objective": "garland", "noise": 1.0, "d": 0.5, "idle": idle}  # of_bound: the largest of all runs counts
    of_T = {T: {"Delta": 0.2 / T, "of_bound": 0.3 - (T - 1_000) ** 2 * 1e-9} for T in (100, 1_000, 10_000)}
    table = pd.DataFrame([head | of_T[row["T"]] | row for row in rows])
    row = rates.shrink_slopes(table, parameters(n_clients=20)).iloc[0]
    # (T log(MT))^(1.5/2.5): T to the power of 0.6, and the slope of the logarithm's own from end to end
    logs = np.log(20 * np.array([100.0, 10_000.0]))
    assert row["allowed"] == pytest.approx(0.6 * (1 + np.log(logs[1] / logs[0]) / np.log(100)))
    assert (row["first_Delta"], row["last_Delta"], row["constant"]) == pytest.approx((0.002, 0.00002, 0.3))
    assert row["first_ratio"] == pytest.approx(3 * 100 ** (exponent - 0.5))
    assert row["slope"] == pytest.approx(exponent) and row["alone_slope"] == pytest.approx(0.5)
    assert row["verdict"] == verdict
    assert row["last_ratio"] == pytest.approx(3 * 10_000 ** (exponent - 0.5))


# --- Section A.1, and HOO ---------------------------------------------------------------------------


def test_what_rounding_up_costs():
    """One client draws tau_h. Of four, with tau_h = 1 and 2 at depths 0 and 1: 3 of 4 and, of two nodes, 4 of 8."""
    alone = Experiment("garland", 1, 500, algorithms=("fed-pne",), n_runs=1)
    (unspent, spent, depth), *_ = rates._budget_shares(alone, 0)
    assert unspent == 0 and 0 < spent <= 1 and depth >= 3
    four = Experiment("garland", 4, 60, algorithms=("fed-pne",), n_runs=1)
    (unspent, spent, _), *_ = rates._budget_shares(four, 0)
    assert 0 < unspent < spent <= 1


def test_fed_pne_is_faster_where_its_regret_is_a_smaller_multiple(monkeypatch):
    regrets = {"fed-pne": [2.0, 4.0, 3.0], "pe": [8.0, 16.0, 12.0], "hct": [1.0, 2.0, 1.5]}  # ratios 1/4 and 2
    monkeypatch.setattr(Study, "runs", lambda self, f, name, *how, **changes: pd.DataFrame({"regret": regrets[name]}))
    monkeypatch.setattr(rates, "rows_of_runs", lambda *how: [[[0.1, 0.5, 3.0]], [[0.3, 0.7, 5.0]]])
    table = rates.compare_speed(parameters(n_runs=3))
    reached = table[["rival", "ratio", "low", "high", "verdict"]].drop_duplicates()
    assert reached.values.tolist() == [["pe", 0.25, 0.25, 0.25, "shown"], ["hct", 2.0, 2.0, 2.0, "refuted"]]
    assert table[["unspent", "spent", "depth"]].drop_duplicates().values.tolist() == [pytest.approx([0.2, 0.6, 4.0])]
    regrets["hct"] = [1.0, 9.0, 2.0]
    assert table["runs"].eq(3).all() and rates.compare_speed(parameters(n_runs=3))["verdict"].iloc[1] == "open"


def test_the_variants_lead_from_hct_to_hoo():
    partition = Partition([[0.0, 1.0]] * 2, cells="cyclic")
    for parts, made in (((), hct_constants), (("width", "credit", "splits"), hoo_constants)):
        wanted, theory_of_parts = (
            made(HCTSettings(), partition, 500),
            hoo_and_hct.constants_with_parts(parts, partition, 500),
        )
        for one, other in zip(wanted, theory_of_parts, strict=True):
            np.testing.assert_array_equal(one, other)
    experiment = Experiment("himmelblau", 2, 400, algorithms=("hct",), n_runs=1)
    rows = {search: hoo_and_hct._play_trees(experiment, 0, search) for search in hoo_and_hct.MIXTURES}
    for name, search in (("hct", "HCT"), ("hoo", "HOO")):
        run = simulate(name, experiment.problem(0), 400)
        assert rows[search][0] == pytest.approx(run.regret[:, -1].mean(), rel=1e-12)
    for _, mean_depth, deepest, nodes in rows.values():
        assert 0 < mean_depth <= deepest and nodes <= 400
