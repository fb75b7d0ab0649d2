"""What is counted of the paper's lemmas, corollary and remarks: by cases that are worked out by hand."""

import itertools
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne.algorithms.hct import HCTSettings, TreeClient, hct_constants
from pfpne.algorithms.hoo import hoo_constants
from pfpne.algorithms.pf_pne import transition_depth
from pfpne.federation import Task
from pfpne.paper.claims.assumption_checks import optima
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import theory_settings
from pfpne.paper.claims.watching import watch
from pfpne.paper.exhibits import hoo_and_hct, kept_nodes, lemmas, rates
from pfpne.paper.exhibits.kept_nodes import BIASED_SETTINGS, SIXTY_FOURTH, biased_problem, count_kept_nodes, lemma_case
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import complete
from pfpne.paper.run.profiles import PROFILES
from pfpne.partition import Partition
from pfpne.problems import make_problem, problem_from_functions
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.simulate import partition_of, simulate
from pfpne.simulation.tree import ReachedCells, play

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
        ("A.3", 1, 6 / 4, 2, 2, (45 - 50 / 4) * SIXTY_FOURTH),
        ("A.3", 2, 6 / 16, 2, 2, 0.0),
        ("A.4", 3, 24 * SIXTY_FOURTH, 16, 12, 26 * SIXTY_FOURTH),
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
    invalid = count_kept_nodes(biased_problem(4), T, CELLS, **settings(4, Delta=12 * SIXTY_FOURTH))
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
    assert [len(own) for own in seen.kept_alone] == [4, 4, 5] and len(seen.kept_by_server) == 4
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
        shared = seen.kept_by_server[h] if h < 4 else []
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
    assert [index.tolist() for index in seen.kept_by_server] == [[1], [1, 2], [3, 4]]
    assert [index.tolist() for index in seen.kept_alone[0]] == [[1], [1, 2], [3, 4]]  # client 1's optimum is in (1, 1)
    assert all(row["good"] for row in count_kept_nodes(problem, 100_000, CELLS, **s))
    alone = watch("pe", problem, 100_000, partition=CELLS, **{name: s[name] for name in s if name != "Delta"})
    assert alone.kept_alone[0][-1].tolist() == [1, 2]
    wide = watch("pf-pne", problem, 100_000, partition=CELLS, **settings(n_clients, Delta=16 * SIXTY_FOURTH))  # H_0 = 1
    assert len(wide.kept_by_server) == 2 and wide.kept_alone[0][2].tolist() == [1, 2]


@pytest.mark.parametrize("noise", [0.0, "bernoulli"])
def test_what_is_lost_is_lost_at_every_pull(noise):
    """13 (M - 2) / 64 at each pull from there on, whatever T; PE alone loses nothing in the end."""
    for n_clients, horizon in itertools.product((3, 4), (100_000, 400_000)):
        problem = biased_problem(n_clients, noise)
        run = simulate("pf-pne", problem, horizon, partition=CELLS, **settings(n_clients))
        start = np.searchsorted(run.t, horizon // 2)
        rate = np.diff(run.regret[:, [start, -1]])[:, 0] / (run.t[-1] - run.t[start])
        assert rate[0] == pytest.approx(13 * (n_clients - 2) * SIXTY_FOURTH)


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


def test_a_shift_is_looked_up_by_the_mean_of_Delta_over_the_runs(monkeypatch):
    """Delta is the shift in one run, and its square in the other; at the second T it may be as at the third shift."""
    p = parameters(shift=0.9)
    shifts = p.shift * rates.SHIFT_FACTORS
    first, *_ = Deltas = (shifts + shifts**2) / 2
    monkeypatch.setattr(rates, "rows_of_runs", lambda *how: [[[x], [x**2]] for x in shifts])
    monkeypatch.setattr(rates, "bound_on_Delta", lambda T, M, d: {10: first, 80: Deltas[2]}[T])
    assert rates.shifts_for("garland", 0.0, (10, 80), p) == pytest.approx({10: 0.9, 80: 0.1})


@pytest.mark.parametrize(("exponent", "idle", "verdict"), [(0.4, 0.1, "shown"), (0.9, 0.1, "open"), (0.4, 0.7, "open")])
def test_an_exponent_is_held_against_what_is_allowed(exponent, idle, verdict):
    rows = [
        {"T": horizon, "run": run, "regret": (2 + run) * horizon**exponent, "alone": horizon**0.5}
        for horizon in (100, 1_000, 10_000)
        for run in range(3)
    ]
    head = {
        "objective": "garland",
        "noise": 1.0,
        "d": 0.5,
        "last_phase_share": idle,
    }  # Delta_over_bound: the largest of all runs counts
    of_T = {T: {"Delta": 0.2 / T, "Delta_over_bound": 0.3 - (T - 1_000) ** 2 * 1e-9} for T in (100, 1_000, 10_000)}
    table = pd.DataFrame([head | of_T[row["T"]] | row for row in rows])
    row = rates.exponents_with_shrinking_Delta(table, parameters(n_clients=20)).iloc[0]
    # (T log(MT))^(1.5/2.5): T to the power of 0.6, and the slope of the logarithm's own from end to end
    logs = np.log(20 * np.array([100.0, 10_000.0]))
    assert row["allowed"] == pytest.approx(0.6 * (1 + np.log(logs[1] / logs[0]) / np.log(100)))
    assert (row["first_Delta"], row["last_Delta"], row["constant"]) == pytest.approx((0.002, 0.00002, 0.3))
    assert row["first_ratio"] == pytest.approx(3 * 100 ** (exponent - 0.5))
    assert row["slope"] == pytest.approx(exponent) and row["alone_slope"] == pytest.approx(0.5)
    assert row["verdict"] == verdict
    assert row["last_ratio"] == pytest.approx(3 * 10_000 ** (exponent - 0.5))


@pytest.mark.parametrize(("exponents", "verdict"), [((0.2, 0.3, 0.5, 1.1), "open"), ((0.4, 0.45, 0.5, 0.55), "shown")])
def test_an_exponent_is_shown_to_be_allowed_by_all_of_its_interval(exponents, verdict):
    """Both means are below what is allowed. Where the runs differ much, the interval goes beyond it."""
    head = {
        "objective": "garland",
        "noise": 1.0,
        "d": 0.5,
        "last_phase_share": 0.1,
        "Delta": 0.1,
        "Delta_over_bound": 0.3,
    }
    rows = [
        head | {"T": T, "run": run, "regret": T**exponent, "alone": T**0.5}
        for T in (100, 1_000, 10_000)
        for run, exponent in enumerate(exponents)
    ]
    row = rates.exponents_with_shrinking_Delta(pd.DataFrame(rows), parameters(n_clients=20)).iloc[0]
    assert row["slope"] == pytest.approx(np.mean(exponents)) and row["low"] < row["slope"] < row["allowed"]
    assert (row["high"] <= row["allowed"]) == (verdict == "shown")
    assert row["verdict"] == verdict


@pytest.mark.parametrize(("first", "last", "verdict"), [(0.9, 0.1, "shown"), (0.1, 0.9, "open")])
def test_whether_a_run_is_one_phase_is_read_at_the_longest_T(first, last, verdict):
    head = {"objective": "garland", "noise": 1.0, "d": 0.5, "Delta": 0.1, "Delta_over_bound": 0.3, "run": 0}
    rows = [
        head | {"T": T, "regret": T**0.4, "alone": T**0.5, "last_phase_share": idle, "run": run}
        for T, idle in ((100, first), (1_000, 0.4), (10_000, last))
        for run in range(2)
    ]
    assert rates.exponents_with_shrinking_Delta(pd.DataFrame(rows), parameters(n_clients=20))["verdict"].tolist() == [
        verdict
    ]


def test_what_shrinks_is_measured_with_the_larger_dimension_at_the_nearest_shift(monkeypatch):
    """d: the median over the runs of max(d_min, d_new), of random cells and the shift next to that of the profile."""
    dimensions = [(0.1, 0.5), (0.9, 0.2), (0.3, 0.7)]  # the larger ones: 0.5, 0.9, 0.7
    rows = [(f, "random", 0.11, *pair) for f in rates.SHRINKING_DELTA_OBJECTIVES for pair in dimensions]
    rows += [(f, "random", 0.2, 5.0, 5.0) for f in rates.SHRINKING_DELTA_OBJECTIVES for _ in range(9)]
    rows += [(f, "cyclic", 0.1, 5.0, 5.0) for f in rates.SHRINKING_DELTA_OBJECTIVES for _ in range(9)]
    problems, given, asked = pd.DataFrame(rows, columns=["objective", "cells", "shift", "d_min", "d_new"]), [], []

    def summaries(self, objective, name, noise, horizon, shift, settings=None):
        asked.append((objective, name, noise, horizon, shift, settings))
        one = {"run": [0, 1], "Delta": [0.1, 0.3], "regret": [1.0, 2.0], "last_phase_share": [0.3, 0.4]}
        return pd.DataFrame(one) * (1 if name == "pf-pne" else 10)

    monkeypatch.setattr(rates, "shifts_for", lambda *how: given.append(how[:2]) or {T: 0.1 + 1 / T for T in how[2]})
    monkeypatch.setattr(Study, "summaries", summaries)
    table = rates.measure_shrinking_Delta(problems, parameters(n_clients=5, horizon=320, shift=0.1))
    assert given == [(f, 0.7) for f in rates.SHRINKING_DELTA_OBJECTIVES] and (table["d"] == 0.7).all()
    assert table["T"].unique().tolist() == [10, 20, 40, 80, 160, 320] and len(table) == 2 * 2 * 6 * 2
    assert (table["shift"] == 0.1 + 1 / table["T"]).all()
    bound = (np.log(5 * table["T"]) / table["T"]) ** (1 / 2.7)
    assert table["Delta_over_bound"].tolist() == pytest.approx((table["Delta"] / bound).tolist())
    measured = table[
        ["run", "Delta", "regret", "last_phase_share", "alone", "alone_last_phase_share"]
    ].drop_duplicates()
    assert measured.values.tolist() == [pytest.approx([0, 0.1, 1, 0.3, 10, 3]), pytest.approx([1, 0.3, 2, 0.4, 20, 4])]
    assert {(name, str(settings)) for _, name, *_, settings in asked} == {
        ("pf-pne", "{'Delta': 'true'}"),
        ("pe", "None"),
    }
    assert {(f, noise) for f, _, noise, *_ in asked} == set(
        itertools.product(rates.SHRINKING_DELTA_OBJECTIVES, rates.SHRINKING_DELTA_NOISES)
    )


def test_an_exponent_has_an_interval_around_it():
    rows = [
        {
            "objective": "garland",
            "noise": 1.0,
            "d": 0.0,
            "Delta": 0.1,
            "Delta_over_bound": 0.3,
            "last_phase_share": 0.1,
            "T": T,
            "run": run,
        }
        | {"regret": T ** (0.3 + 0.05 * run), "alone": T ** (0.6 + 0.02 * run)}
        for T in (100, 1_000)
        for run in range(6)
    ]
    row = rates.exponents_with_shrinking_Delta(pd.DataFrame(rows), parameters()).iloc[0]
    assert row["low"] < row["slope"] - 0.03 and row["slope"] + 0.03 < row["high"]
    assert row["alone_low"] < row["alone_slope"] - 0.01 and row["alone_slope"] + 0.01 < row["alone_high"]
    assert row["slope"] == pytest.approx(0.425) and row["alone_slope"] == pytest.approx(0.65)


# --- Section A.1, and HOO ---------------------------------------------------------------------------


def test_what_rounding_up_costs():
    """One client draws tau_h. Of four, with tau_h = 1 and 2 at depths 0 and 1: 3 of 4 and, of two nodes, 4 of 8."""
    alone = Experiment("garland", 1, 500, algorithms=("fed-pne",), n_runs=1)
    (rounding_excess, spent, depth), *_ = rates._budget_shares(alone, 0)
    assert rounding_excess == 0 and 0 < spent <= 1 and depth >= 3
    four = Experiment("garland", 4, 60, algorithms=("fed-pne",), n_runs=1)
    (rounding_excess, spent, depth), *_ = rates._budget_shares(four, 0)
    assert 0 < rounding_excess < spent <= 1
    watched = watch("fed-pne", four.problem(0), 60, partition=four.partition(0))
    assert depth == max(watched.means) > len(watched.means) - 1  # the first depths were passed


def test_fed_pne_is_faster_where_its_regret_is_a_smaller_multiple(monkeypatch):
    regrets = {"fed-pne": [2.0, 4.0, 3.0], "pe": [8.0, 16.0, 12.0], "hct": [1.0, 2.0, 1.5]}  # ratios 1/4 and 2
    monkeypatch.setattr(
        Study, "summaries", lambda self, f, name, *how, **changes: pd.DataFrame({"regret": regrets[name]})
    )
    monkeypatch.setattr(rates, "rows_of_runs", lambda *how: [[[0.1, 0.5, 3.0]], [[0.3, 0.7, 5.0]]])
    table = rates.compare_speed(parameters(n_runs=3))
    reached = table[["rival", "ratio", "low", "high", "verdict"]].drop_duplicates()
    assert reached.values.tolist() == [["pe", 0.25, 0.25, 0.25, "shown"], ["hct", 2.0, 2.0, 2.0, "refuted"]]
    assert table[["rounding_excess", "spent", "depth"]].drop_duplicates().values.tolist() == [
        pytest.approx([0.2, 0.6, 4.0])
    ]
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
    rows = {search: hoo_and_hct._run_mixture(experiment, 0, search) for search in hoo_and_hct.MIXTURES}
    for name, search in (("hct", "HCT"), ("hoo", "HOO")):
        run = simulate(name, experiment.problem(0), 400)
        assert rows[search][0] == pytest.approx(run.regret[:, -1].mean(), rel=1e-12)
    problem, cells = experiment.problem(0), partition_of(experiment.problem(0), "random", 0, 0)
    task = Task(cells, 2, 400, problem.noise, problem.candidates)
    for search, (_, mean_depth, deepest, nodes) in rows.items():
        drawn, streams = ReachedCells(problem, cells, range(2)), noise_streams(problem, 0, 0)
        constants = hoo_and_hct.constants_with_parts(hoo_and_hct.MIXTURES[search], cells, 400)
        clients = [play(drawn, TreeClient(task, constants), 400, range(m, m + 1), streams)[0][0] for m in range(2)]
        assert nodes == np.mean([len(np.unique(pulled)) for pulled in clients])
        assert 0 < mean_depth <= deepest


def numbers_in(text: str) -> list[str]:
    """The numbers of a sentence, in order."""
    return re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?%?", text)


def test_what_each_part_of_hoo_does_is_said_in_multiples_of_hct_s_regret_and_back():
    trees = pd.DataFrame(
        {"mixture": [*hoo_and_hct.MIXTURES], "regret": [1000.0, 1200, 1700, 800, 300, 2600, 1100, 2000]}
    )
    trees = trees.assign(depth=np.arange(8) + 2.5, deepest=20.0, nodes=100.0 * np.arange(8) + 1_000)
    assert numbers_in(hoo_and_hct.mixtures_in_words(trees)) == [
        *("2,000", "1,000"),  # HOO's and HCT's; then width, credit and splits, of HOO in HCT and of HCT in HOO
        *("1.20", "1.70", "0.80", "0.15", "1.30", "0.55"),
        *("9.5", "2.5", "1,700", "1,000"),
    ]


def test_what_client_1_loses_is_per_pull_and_of_the_last_quarter(monkeypatch):
    """It loses 2 per pull until 7 T / 10, and 1 from there on; with PE 1 and 0."""
    nodes = [
        {"lemma": lemma, "depth": h, "kept": 10 * h, "within": h, "good": h != 3, "smooth": h != 4, "valid": h != 5}
        for lemma, h in (("A.3", 1), ("A.4", 1), ("A.4", 2), *(("A.4", h) for h in (3, 4, 5)))
    ]
    monkeypatch.setattr(kept_nodes, "count_kept_nodes", lambda *_, **__: nodes)
    asked = []

    def simulate(name, problem, T, partition, **given):
        asked.append((name, T, given))
        t = T * np.arange(1, 41) // 40
        lost = np.minimum(t, 7 * T // 10) + (name == "pf-pne") * t
        return SimpleNamespace(t=t, regret=np.stack([lost, 9 * lost, 9 * lost]).astype(float))

    monkeypatch.setattr(kept_nodes, "simulate", simulate)
    monkeypatch.setattr(kept_nodes, "LONGEST_HORIZON", 1_600)
    table = kept_nodes.run_biased_problem()
    assert table[["n_clients", "noise", "T"]].values.tolist() == [
        [M, noise, T] for M in (3, 4) for noise in (0.0, "bernoulli") for T in (100, 400, 1_600)
    ]
    columns = ["pf-pne", "pf-pne, last", "pe", "pe, last", "kept", "within", "deepest"]
    assert table[columns].drop_duplicates().values.tolist() == [pytest.approx([1.7, 1.0, 0.7, 0.0, 30, 3, 2], abs=0.02)]
    assert all(("Delta" in given) == (name == "pf-pne") and given["rho"] == 0.25 for name, _, given in asked)


def test_the_lemmas_are_judged_as_by_hand():
    counts = dict.fromkeys(kept_nodes.LEMMA_CASES, 0)
    told = {kept_nodes.HOLDS: 3, kept_nodes.HOLDS_ANYWAY: 2, kept_nodes.REFUTING: 1, kept_nodes.VACUOUS: 7}
    head = {"good": 4, "smooth": 0, "valid": 5, "share": 0.75}
    case_counts = [
        {"lemma": "A.3", "constants": "the theory's", "Delta": "0.01", **counts, **told, **head, "verdict": "refuted"},
        {"lemma": "A.4", "constants": "the theory's", "Delta": "own", **counts, **head, "verdict": "open"},
    ]
    lost = pd.DataFrame(  # the longest runs alone break the bound or not, and lose least of all noises
        [
            *((3, 0.0, 100, 0.2, 5, 1, 0.5), (3, "bernoulli", 100, 0.3, 5, 1, 0.5)),
            *((3, 0.0, 400, 0.25, 10, 10, 0.001), (3, "bernoulli", 400, 0.4, 12, 9, 0.002)),
            *((4, 0.0, 100, 0.4, 5, 1, 0.5), (4, "bernoulli", 100, 0.3, 5, 1, 0.5)),
            *((4, 0.0, 400, 0.9, 7, 7, 0.003), (4, "bernoulli", 400, 0.1, 8, 8, 0.0)),
        ],
        columns=["n_clients", "noise", "T", "pf-pne, last", "kept", "within", "pe, last"],
    )
    slopes = {"objective": "garland", "noise": 0.1, "slope": 0.5, "low": 0.4, "high": 0.61, "allowed": 0.72}
    slopes = pd.DataFrame([slopes | {"undecidable_reason": "", "verdict": "shown"}])
    reached = {("identical", "pe"): ["refuted", "open"], ("identical", "hct"): ["shown", "open"]}
    reached[("shifted", "pe")] = ["shown", "shown"]
    speed = [
        {"objective": f, "clients": clients, "rival": rival, "ratio": 0.5, "low": 0.4, "high": 1.2, "verdict": verdict}
        for (clients, rival), verdicts in reached.items()
        for f, verdict in zip(("garland", "ackley"), verdicts, strict=True)
    ]
    speed = pd.DataFrame(speed).assign(rounding_excess=[0.02, 0.05, 0.12, 0.03, 0.03, 0.03])
    table = lemmas.judge_lemmas(pd.DataFrame(case_counts), lost, slopes, speed)
    assert table["verdict"].tolist() == [
        *("refuted", "open"),
        *("refuted", "refuted", "shown", "open"),  # with 3 clients, with 4: the bound; growth like T
        *("shown", "refuted", "open", "shown", "refuted"),
    ]
    measured = [numbers_in(words) for words in table["measured"]]
    assert measured[0][:5] == ["75%", "6", "1", "3", "2"] and measured[0][5:] == ["1", "4", "5"]
    assert measured[2:6] == [
        *(["22", "3"], ["1", "0.25", "400", "0.20", "100", "0.002"]),
        *(["15", "0"], ["1", "0.10", "400", "0.30", "100", "0.003"]),
    ]
    assert measured[6] == ["0.50", "0.40", "0.61", "0.72"] and measured[7] == ["0.50", "0.40", "1.20"] * 2
    assert measured[-1] == ["2.000%", "12.000%", "10%"]
    assert (
        lemmas.judge_lemmas(pd.DataFrame(case_counts), lost, slopes, speed.assign(rounding_excess=0.1))["verdict"].iloc[
            -1
        ]
        == "shown"
    )


def test_each_search_of_the_table_is_the_one_of_its_name(tmp_path):
    p = parameters(n_clients=2, horizon=150)
    table = hoo_and_hct.run_mixtures(p, tmp_path)
    experiment = p.experiment("rastrigin", "bernoulli", ("hct",), n_runs=1)
    assert table["mixture"].tolist() == list(hoo_and_hct.MIXTURES)
    for _, search, *measured in table.itertuples():
        assert measured == hoo_and_hct._run_mixture(experiment, 0, search)
    assert len(table.drop(columns="mixture").drop_duplicates()) > 4
    pd.testing.assert_frame_equal(hoo_and_hct.run_mixtures(p, tmp_path), table)  # as it was kept


# --- the tables of the notebook, and the verdicts -----------------------------------------------------


def test_the_lemmas_are_counted_run_by_run(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_nodes, "ONE_PER_DIMENSION", ("garland", "himmelblau"))
    p = parameters(n_clients=3, horizon=400, n_runs=2)
    table = kept_nodes.count_lemmas(p, tmp_path)
    places = [*table.groupby(["objective", "noise", "constants", "Delta", "run"], sort=False)]
    noises, differ = PROFILES["smoke"].noises, set()
    assert [place for place, _ in places] == [
        *itertools.product(("garland", "himmelblau"), noises, kept_nodes.CONSTANTS, ("0.01", "own"), (0, 1))
    ]
    for (objective, noise, constants, Delta, run), rows in places:
        constant = theory_settings(3) if constants == "the theory's" else {}
        given = constant | {"Delta": 0.01 if Delta == "0.01" else "true"}
        experiment = Experiment(
            objective, 3, 400, noise=noise, algorithms=("pf-pne",), n_runs=2, shift=p.shift, settings=given
        )
        problem = experiment.problem(run)
        wanted = count_kept_nodes(problem, 400, partition_of(problem, "random", p.seed, run), **given)
        assert rows[list(kept_nodes.NODE_COLUMNS)].to_dict("records") == wanted
        differ.add(str(wanted))
    assert len(differ) > len(places) / 2 and table["bound"].min() < 1 < table["bound"].max()


def test_differences_that_shrink_are_run_as_the_columns_say(tmp_path, monkeypatch):
    """d is the median of the larger dimension, at the shift next to the profile's."""
    monkeypatch.setattr(rates, "SHRINKING_DELTA_NOISES", ("bernoulli",))
    p = parameters(n_clients=2, horizon=320, n_runs=2)
    problems = pd.DataFrame(
        [(f, cells, shift, d_min + k, d_new) for f, k in (("garland", 0), ("himmelblau", math.nan))
         for cells in ("random", "cyclic")
         for shift, d_min, d_new in ((0.5, 7, 7), (0.01, 9, 9),
                                     (p.shift, 0.2, 0.1), (p.shift, 0.1, 0.437), (p.shift, 0.3, 0.6))],
        columns=["objective", "cells", "shift", "d_min", "d_new"],
    )  # fmt: skip
    problems.loc[problems["objective"] == "himmelblau", "d_new"] = math.nan
    problems.loc[problems["cells"] == "cyclic", "d_min"] = 5.0
    table = rates.measure_shrinking_Delta(problems, p, tmp_path)
    assert table.index.is_unique and set(table["objective"]) == {"garland", "himmelblau"}
    assert table.groupby("objective")["d"].unique().map(list).to_dict() == {"garland": [0.44], "himmelblau": [0.0]}
    horizons = (10, 20, 40, 80, 160, 320)
    for (objective, noise, horizon), rows in table.groupby(["objective", "noise", "T"]):
        d = rows["d"].iloc[0]
        shift = rates.shifts_for(objective, d, horizons, p, tmp_path)[horizon]
        assert rows["shift"].eq(shift).all() and rows["run"].tolist() == [0, 1]
        for _, row in rows.iterrows():
            experiment = Experiment(objective, 2, horizon, noise=noise, algorithms=("pe",), n_runs=2, shift=shift)
            problem = experiment.problem(row["run"])
            assert row["Delta"] == problem.Delta
            assert row["Delta_over_bound"] == pytest.approx(problem.Delta / rates.bound_on_Delta(horizon, 2, d))
            for column, name, given in (("regret", "pf-pne", {"Delta": "true"}), ("alone", "pe", {})):
                cells = partition_of(problem, "random", 0, row["run"])
                run = simulate(name, problem, horizon, partition=cells, run=row["run"], **given)
                assert row[column] == pytest.approx(run.regret[:, -1].mean(), rel=1e-12)
    assert {*table["noise"]} == {"bernoulli"} and {*table["T"]} == {*horizons}
    assert (table["last_phase_share"] != table["alone_last_phase_share"]).any() and table[
        ["last_phase_share", "alone_last_phase_share"]
    ].notna().all(axis=None)
