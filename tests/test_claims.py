"""The claims: each kind of test on made-up runs, the verdicts, and what Table 1 measures."""

import math
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pfpne
from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.claims import assumption_checks, claim_tests, evidence, outcomes, stats
from pfpne.paper.claims import verdicts as claims
from pfpne.paper.claims.claim_tests import (
    COUNTING,
    LARGE_FACTOR,
    MOST_RUNS_SHARE,
    c_of_noise,
    inequalities,
    last_depth,
    rank_among,
    rounds_bound,
)
from pfpne.paper.claims.evidence import SUMMARY_COLUMNS, ClaimCondition, Study, summarize
from pfpne.paper.claims.outcomes import ClaimCase, Comparison, Outcome
from pfpne.paper.exhibits import forest_plot, table1
from pfpne.paper.run import batch
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paper.run.selections import PAPER_SYNTHETIC_OBJECTIVES
from pfpne.paper.show.style import Delta_in_words


def rng():
    return np.random.default_rng(0)


# --- made-up runs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MadeUp(Study):
    """Study whose runs are computed from `tell(algorithm, run, **what it was asked)`, a dict of SUMMARY_COLUMNS."""

    tell: object = None

    def summaries(self, objective, algorithms, noise, n_runs=None, **changes):
        n_runs = self.claim_runs if n_runs is None else n_runs
        asked = {"objective": objective, "noise": noise, "n_clients": self.n_clients, "horizon": self.horizon}
        asked |= {"settings": {}, **changes}
        same = {"algorithm": algorithms, "simple_regret": 5e-10}
        rows = [{**same, "run": run, **self.tell(algorithms, run, asked)} for run in range(n_runs)]
        return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))

    def per_run(self, function, experiment, *arguments):
        if function is assumption_checks.count_events:
            return np.array([[9, 0, 0]] * self.claim_runs)
        if function is assumption_checks.gap_of_random_points:
            return np.full(self.claim_runs, 1_000.0 / self.horizon)
        return np.full((self.claim_runs, arguments[0] + 1 if arguments else self.n_clients), 1e-9)


def made_up(tell, n_runs=30) -> MadeUp:
    conditions = (
        ClaimCondition("bernoulli", "bernoulli", PAPER_SYNTHETIC_OBJECTIVES),
        ClaimCondition("landmine", 0.0, ("landmine",)),
        ClaimCondition("bernoulli", "bernoulli", ("rastrigin",), "cyclic"),
    )
    return MadeUp(20, 100_000, n_runs, min(10, n_runs), conditions, tell=tell)


def with_regrets(**means) -> MadeUp:
    """Runs whose regret is near means[algorithm, with _ for -], the same luck for every algorithm of a run."""

    def tell(algorithm, run, asked):
        own = np.random.default_rng([run, sorted(means).index(algorithm.replace("-", "_"))]).normal(0, 1)
        return {"regret": means[algorithm.replace("-", "_")] + 20 * np.sin(run) + own}

    return made_up(tell)


CLAIMS = {claim.id: claim for claim in claims.CLAIMS}


def outcome(claim_id: str, study: Study, true_Delta=False) -> Outcome:
    """What one claim's test finds under Bernoulli rewards."""
    return CLAIMS[claim_id].test(study, study.claim_conditions[0], claims.PF_PNE_DELTAS[true_Delta])


def verdict(claim_id: str, study: Study, true_Delta=False) -> str:
    """The verdict on one claim alone, without correction."""
    found = outcome(claim_id, study, true_Delta)
    return claims.judge(CLAIMS[claim_id], found, found.p_values(rng()), k=1)["verdict"]


def test_a_case_gives_pf_pne_its_Delta_unless_the_claim_says_otherwise():
    asked = []
    study = made_up(lambda algorithm, run, what: asked.append((algorithm, what["settings"])) or {}, n_runs=1)
    paper, own = (ClaimCase(study, study.claim_conditions[0], "garland", true_Delta) for true_Delta in (False, True))
    for case in (paper, own):
        case.summaries()
        case.summaries("fed-pne")
        case.summaries(settings={"c": 0.2})
        case.summaries(settings={"Delta": 0.0})
    paper.summaries(settings={"Delta": 0.01})  # the default
    pf_pne, fed_pne = [{}, {"c": 0.2}, {"Delta": 0.0}], {}
    true = {"Delta": "true"}
    assert [settings for name, settings in asked if name == "fed-pne"] == [fed_pne, fed_pne]
    found = [settings for name, settings in asked if name == "pf-pne"]
    assert found == [*pf_pne, true, true | {"c": 0.2}, {"Delta": 0.0}, {}]


def test_what_is_looked_up_in_runs_is_of_the_noise_and_the_cells_of_the_case(monkeypatch):
    asked = []
    monkeypatch.setattr(MadeUp, "per_run", lambda self, _, experiment: asked.append(experiment) or np.zeros((1, 3)))
    case = ClaimCase(made_up(None), ClaimCondition("2.0", 2.0, ("rastrigin",), "cyclic"), "rastrigin", True)
    case.events({"c": 2.0})
    case.per_run(assumption_checks.gaps_at_global_maximum)
    events, problems = asked
    assert (events.noise, events.cells, events.settings) == (2.0, "cyclic", {"c": 2.0, "Delta": "true"})
    assert problems.cells == "cyclic" and {e.objective for e in asked} == {"rastrigin"}


# --- comparisons ------------------------------------------------------------------------------------

ALL = {"fed1_ucb": 140, "fn_ucb": 150, "fed_pne": 130}


@pytest.mark.parametrize(("hct", "expected"), [(120, "holds"), (80, "does not hold"), (100, "undecided")])
def test_the_smallest_is_smaller_than_each(hct, expected):
    assert verdict("smallest-garland", with_regrets(pf_pne=100, hct_pyxab=hct, **ALL)) == expected


def test_too_few_runs_decide_nothing():
    study = with_regrets(pf_pne=100, hct_pyxab=200, **ALL)
    assert [len(comparison.violation) for comparison in outcome("smallest-garland", study).comparisons] == [30] * 4
    assert verdict("smallest-garland", replace(study, claim_runs=3, figure_runs=3)) == "undecided"


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "better than claimed"), (190, "holds"), (230, "does not hold")])
def test_slightly_better_is_better_but_not_much(pf_pne, expected):
    assert verdict("doublesine-hct", with_regrets(pf_pne=pf_pne, hct_pyxab=220)) == expected


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "holds"), (120, "does not hold"), (300, "does not hold")])
def test_much_better_is_half_at_most(pf_pne, expected):
    assert verdict("doublesine-fed", with_regrets(pf_pne=pf_pne, fed_pne=220)) == expected


SIMILAR_TO_220 = {180: "holds", 260: "holds", 160: "better than claimed", 300: "does not hold", 275: "undecided"}


@pytest.mark.parametrize(("pf_pne", "expected"), SIMILAR_TO_220.items())
def test_similar_has_to_be_shown(pf_pne, expected):
    assert verdict("ackley-hct", with_regrets(pf_pne=pf_pne, hct_pyxab=220)) == expected


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "holds"), (290, "does not hold")])
def test_far_from_satisfactory_is_twice_the_regret_of_pf_pne(pf_pne, expected):
    assert verdict("fed-far-garland", with_regrets(fed_pne=300, pf_pne=pf_pne)) == expected


@pytest.mark.parametrize(("alike", "expected"), [(100, "holds"), (200, "does not hold")])
def test_fed_pne_depends_on_the_similarity_of_the_clients(alike, expected):
    def tell(algorithm, run, asked):
        assert algorithm == "fed-pne"
        return {"regret": (alike if asked.get("common_shift") == 0.1 else 300) + np.sin(run)}

    assert verdict("fed-depends-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("cut", "expected"), [("apart", "not decidable"), ("identical", "holds")])
def test_how_fed_pne_depends_on_the_clients_is_open_where_T_cuts_most_of_the_runs_with_other_clients(cut, expected):
    def tell(algorithm, run, asked):
        clients, regret = ("identical", 100) if asked.get("common_shift") == 0.1 else ("apart", 300)
        return {"regret": regret + np.sin(run), "last_phase_share": 0.9 if clients == cut else 0.1}

    assert verdict("fed-depends-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("alone", "expected"), [(300, "holds"), (80, "does not hold")])
def test_better_than_alone(alone, expected):
    def tell(algorithm, run, asked):
        assert (asked["shift"], asked["common_shift"]) == (0.0, 0.1)
        return {"regret": {"pf-pne": 100, "pe": alone}[algorithm] + np.sin(run)}

    assert verdict("better-than-pe-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("zero", "expected"), [(110, "holds"), (200, "does not hold")])
def test_similar_with_a_Delta_of_its_own(zero, expected):
    def tell(algorithm, run, asked):
        Delta = asked["settings"].get("Delta", 0.01)
        return {"regret": {("pf-pne", 0.0): zero, ("fed-pne", 0.01): 100}[algorithm, Delta] + np.sin(run)}

    assert verdict("delta-zero-garland", made_up(tell)) == expected


@pytest.mark.parametrize(
    ("exponent", "falls", "as_stated", "last_phase"),
    [
        (-0.4, "holds", "holds", 0.1),
        (-0.1, "holds", "does not hold", 0.1),
        (0.1, "does not hold", "does not hold", 0.1),
        (0.1, "not decidable", "not decidable", 0.6),  # one phase, a straight line
    ],
)
def test_falls_with_M(exponent, falls, as_stated, last_phase):
    def tell(algorithm, run, asked):
        assert (asked["shift"], asked["common_shift"]) == (0.0, 0.1)
        regret = (1 + 0.01 * np.sin(run)) * asked["n_clients"] ** (exponent + 0.001 * np.cos(run))
        return {"regret": regret, "last_phase_share": last_phase}

    assert verdict("falls-with-M-garland", made_up(tell)) == falls
    assert verdict("falls-as-stated-garland", made_up(tell)) == as_stated  # -1/4


@pytest.mark.parametrize(("cut_at", "expected"), [(80, "not decidable"), (5, "holds")])
def test_an_exponent_needs_that_the_largest_scale_is_not_one_phase(cut_at, expected):
    def tell(algorithm, run, asked):  # M is 5, 10, 20, 40, 80
        regret = (1 + 0.01 * np.sin(run)) * asked["n_clients"] ** (-0.4 + 0.001 * np.cos(run))
        return {"regret": regret, "last_phase_share": 0.9 if asked["n_clients"] == cut_at else 0.1}

    assert verdict("falls-with-M-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("exponent", "expected"), [(0.8, "holds"), (1.1, "does not hold")])
@pytest.mark.parametrize("worst", [1.0, 0.0])
def test_sublinear_where_Delta_bounds_the_differences(worst, exponent, expected):
    def tell(algorithm, run, asked):
        Delta = asked["settings"].get("Delta")
        slope = (exponent if Delta == worst else 0.7) + 0.001 * np.cos(run)
        return {
            "regret": asked["horizon"] ** slope,
            "last_phase_share": 0.1,
            "Delta": 0.2 if Delta == "true" else Delta,
        }

    bounds = worst == 1.0  # the true one is 0.2
    assert verdict("sublinear-garland", made_up(tell)) == (expected if bounds else "holds")
    assert verdict("sublinear-any-garland", made_up(tell)) == expected  # valid or not, as the paper has it


@pytest.mark.parametrize(("exponent", "expected"), [(0.8, "holds"), (1.1, "does not hold")])
def test_information_grows_more_slowly_than_T(exponent, expected):
    def tell(algorithm, run, asked):  # that half of T is one phase is of no matter to what is carried
        slope = (exponent if asked["settings"] else 0.0) + 0.001 * np.cos(run)
        return {"numbers": 9 * asked["horizon"] ** slope, "regret": asked["horizon"], "last_phase_share": 0.9}

    assert verdict("information-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "holds"), (130, "does not hold"), (70, "better than claimed")])
def test_far_apart_pf_pne_is_as_pe(pf_pne, expected):
    def tell(algorithm, run, asked):
        assert asked["shift"] == 0.3
        return {"regret": {"pf-pne": pf_pne, "pe": 100}[algorithm] + np.sin(run)}

    assert verdict("approaches-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("shared", "expected"), [(80, "true by construction"), (120, "does not hold")])
def test_fed_pne_is_better_against_the_global_optimum(shared, expected):
    def tell(algorithm, run, asked):
        assert algorithm == "fed-pne" and asked["global_regret"] and run < 10
        return {"regret": 100.0 + np.sin(run), "global_regret": shared + np.sin(run)}

    assert verdict("fed-local-garland", made_up(tell)) == expected
    assert (
        CLAIMS["fed-local-rastrigin"].test(made_up(tell), made_up(tell).claim_conditions[2], "0.01") is None
    )  # cyclic


@pytest.mark.parametrize(("mine", "expected"), [(0.5, "holds"), (2.0, "does not hold")])
def test_own_optima_are_found_where_no_shared_point_does_as_well(mine, expected):
    def tell(algorithm, run, asked):  # the global maximiser loses 1e-9
        return {"simple_regret": 1e-9 * (1 + 0.01 * np.sin(run)) * {"pf-pne": mine}.get(algorithm, 1)}

    study = made_up(tell)
    assert verdict("finds-own-garland", study) == verdict("finds-own-hct-garland", study) == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "holds"), (1.5, "does not hold")])
def test_settings_matter_little_unless_one_does(factor, expected):
    def tell(algorithm, run, asked):
        return {"regret": (factor if asked["settings"].get("c") == 0.2 else 1.0) * (100.0 + run)}

    assert verdict("settings-garland", made_up(tell)) == expected
    no_better = replace(made_up(tell), tell=lambda *asked: {"regret": 9 * tell(*asked)["regret"]})  # of 1,000 by chance
    assert verdict("settings-garland", no_better) == ("not decidable" if factor == 1 else expected)
    found = outcome("settings-garland", made_up(tell))
    assert len(found.comparisons) == 20 and ("to 1.5 (c = 0.2)" in found.measured_in_words) == (factor == 1.5)
    assert len(outcome("settings-garland", made_up(tell), true_Delta=True).comparisons) == 16  # Delta cannot be moved


def test_the_place_among_five_is_told_of_the_settings_that_are_moved_too():
    def tell(algorithm, run, asked):
        rivals = {"hct-pyxab": 90.0, "fed1-ucb": 110.0, "fn-ucb": 120.0, "fed-pne": 140.0}
        return {"regret": rivals.get(algorithm) or {0.05: 80.0, 0.2: 125.0}.get(asked["settings"].get("c"), 100.0)}

    words = outcome("settings-garland", made_up(tell)).measured_in_words
    assert "place among the paper's five: 2, and 1 to 4 when moved" in words


@pytest.mark.parametrize(
    ("test", "values", "name"),
    [
        (claim_tests.any_Delta, {"deltas": [0.1, 0.2]}, "Delta = 0.2"),
        (claim_tests.any_shift, {"shifts": [0.1, 0.2]}, "shift 0.2"),
    ],
)
def test_only_where_T_cuts_most_of_PF_PNE_s_run_nothing_is_decided(test, values, name):
    def tell(algorithm, run, asked):
        is_cut = algorithm == "pe" or 0.2 in (asked.get("shift"), asked["settings"].get("Delta"))
        return {"regret": 10.0 + run, "last_phase_share": 0.6 if is_cut else 0.1}

    study = made_up(tell)
    compared = test(ClaimCase(study, study.claim_conditions[0], "garland"), below=1.0, **values).comparisons
    assert [(c.name, c.undecidable_reason) for c in compared][1] == (name, "60% of T is one phase")
    assert [bool(c.undecidable_reason) for c in compared] == [False, True]


def test_the_rank_is_that_on_the_common_first_runs():
    assert rank_among(np.array([3.0, 3.0]), [np.array([2.0, 2.0, 9.0]), np.array([4.0, 4.0, 0.0])]) == 2


def test_the_rank_among_rivals():
    mine = np.array([3.0, 3.0, 9.0])
    assert rank_among(mine, [np.array([first, first]) for first in (1.0, 2.0, 3.0, 4.0)]) == 3  # the third has no rival


# --- counts -----------------------------------------------------------------------------------------


def test_bounds_by_hand():
    assert last_depth(pd.DataFrame({"Delta": [0.01, 1.0, 0.3]})).tolist() == [7, 0, 2]
    # 2 + log2(100); 1 + log2(2e6 / (0.01 log(2e6))) / 2
    assert rounds_bound(0.01, 100_000, 20) == pytest.approx(2 + math.log2(100))
    assert rounds_bound(0.0, 100_000, 20) == pytest.approx(1 + math.log2(2e6 / (0.01 * math.log(2e6))) / 2)
    assert rounds_bound(1.0, 100_000, 20) == 2


MOST_NUMBERS = 20 * (1 + 3) * (1 + 2 + 4 + 8 + 16 + 32 + 64 + 128)  # of 20 clients, at depths 0..7


@pytest.mark.parametrize(
    ("claim_id", "changed", "expected"),
    [
        ("pf-stops", {}, "true by construction"),
        ("pf-stops", {"n_rounds": 7}, "not decidable"),
        ("pf-stops", {"n_rounds": 9}, "does not hold"),
        ("pf-stops", {"last_round_step": 100_000}, "does not hold"),
        ("bounded", {"numbers": MOST_NUMBERS}, "true by construction"),
        ("bounded", {"numbers": MOST_NUMBERS + 1}, "does not hold"),
        ("bounded", {"n_rounds": 9}, "does not hold"),
        ("fed-grows", {}, "holds"),
        ("fed-grows", {"fed_last": 4_000}, "not decidable"),  # PF-PNE's is at 5,000, and the rest one phase
        ("fed-grows", {"fed_last": 9_000}, "not decidable"),
        (
            "fed-grows",
            {"last_round_step": 60_000},
            "not decidable",
        ),  # the rest of Fed-PNE's run is one phase, not PF-PNE's
        ("fed-grows", {"fed_last": 60_000, "last_round_step": 70_000}, "does not hold"),
        ("delta-bounds-garland", {}, "holds"),
        ("delta-bounds-garland", {"Delta": 0.02}, "does not hold"),
    ],
)
def test_communication_is_counted(claim_id, changed, expected):
    numbers = {"n_rounds": 8, "last_round_step": 5_000, "numbers": 3_000, "fed_last": 40_000, "Delta": 0.01, **changed}
    fed = {"n_rounds": 12, "last_round_step": numbers.pop("fed_last"), "numbers": 9_000, "Delta": math.nan}
    study = made_up(lambda algorithm, run, asked: numbers if algorithm == "pf-pne" else fed)
    assert verdict(claim_id, study) == expected
    reason = outcome(claim_id, study).counterexample
    assert reason.startswith("Garland: ") if expected == "does not hold" else reason == ""


def test_each_run_is_held_against_the_depths_that_its_own_Delta_gives():
    """H_0 = 2 with Delta = 0.3: 3 rounds, and at most 20 (1 + 3) (1 + 2 + 4) numbers. With 0.01 it is 7."""

    def tell(algorithm, run, asked):
        Delta, rounds, numbers = [(0.3, 3, 560), (0.3, 3, 561), (0.01, 8, MOST_NUMBERS), (0.01, 3, 100)][run]
        return {"Delta": Delta, "n_rounds": rounds, "numbers": numbers, "last_round_step": 100}

    study = made_up(tell, n_runs=4)
    case = ClaimCase(study, study.claim_conditions[0], "garland", True)
    assert claim_tests.costs_bounded(case).as_claimed == [True, False, True, True]
    assert claim_tests.stops_communicating(case).as_claimed == [True, True, True, None]


def test_rounds_are_held_against_the_bound_of_their_own_horizon():
    """With Delta = 0 the bound grows with T; at the smallest T there is one round more than it allows."""

    def tell(algorithm, run, asked):
        T = asked["horizon"]
        return {"Delta": 0.0, "n_rounds": int(rounds_bound(0.0, T, 20)) + (T == 3_125)}

    study = made_up(tell, n_runs=2)
    found = claim_tests.rounds_bounded(ClaimCase(study, study.claim_conditions[0], "garland"), [0.0])
    assert found.as_claimed == [False] + [True] * 5
    first, last = (rounds_bound(0.0, T, 20) for T in (3_125, 100_000))
    words = f"{int(first) + 1} (bound {first:.1f}), {int(last)} (bound {last:.1f})"
    assert found.finding.startswith(", rounds at T = 3,125 and 100,000") and found.finding.endswith(words)


def test_events_are_told_as_sums_and_means(monkeypatch):
    events = pd.DataFrame({"means": [9, 8, 10], "outside": [0, 2, 3], "lost": [0, 0, 6]})
    monkeypatch.setattr(ClaimCase, "events", lambda *_: events)
    case = ClaimCase(made_up(None), made_up(None).claim_conditions[0], "garland")
    lost, outside = claim_tests.keeps_optima(case), claim_tests.within_width(case, {})
    assert lost[:2] == ([True, True, False], ": eliminated of 2 of 20 clients on average, in 1 of 3 runs")
    assert outside[:2] == ([True, False, False], ": 5 of 27 means outside, in 2 of 3 runs")


def test_the_communication_of_both_is_told_by_name():
    fed, pf = {"n_rounds": 12, "last_round_step": 40_000}, {"n_rounds": 8, "last_round_step": 5_000}
    study = made_up(lambda algorithm, run, asked: {"numbers": 9 + run, **(pf if algorithm == "pf-pne" else fed)})
    words = outcome("fed-grows", study).measured_in_words
    assert "Fed-PNE: 12 rounds, the last at t = 40,000, 9 to 38 numbers in all; PF-PNE: 8 rounds" in words


@dataclass(frozen=True)
class Looked(MadeUp):
    """Made-up runs, whose problems have these gaps."""

    gaps: object = None
    chance: float | tuple[float, ...] = 0.0  # of all runs, or one for each

    def per_run(self, function, experiment, *arguments):
        return (
            np.full(self.claim_runs, self.chance)
            if function is assumption_checks.gap_of_random_points
            else np.asarray(self.gaps)
        )


def looked(tell=None, **more) -> Looked:
    return Looked(20, 100_000, 2, 2, made_up(None).claim_conditions, tell=tell, **more)


def test_assumptions_are_held_against_the_papers_constants():
    paper = ClaimCase(looked(gaps=[[0.01, 0.0], [0.0, 0.011]]), made_up(None).claim_conditions[0], "garland")
    assert claim_tests.near_optimal(paper).as_claimed == [True, False]  # Delta = 0.01, of the worst client
    gaps = 0.5 ** np.arange(4) * np.array([[1, 1, 1, 0.1], [0.9, 0.1, 0.1, 1.01]])  # nu_1 rho^h
    smooth = claim_tests.smooth(ClaimCase(looked(gaps=gaps), made_up(None).claim_conditions[0], "garland"), 3)
    assert smooth[:2] == ([True, False], ": up to 1.01 times nu_1 rho^h, at depth 3")
    assert outcomes.theory_settings(8) == {"c": 2.0, "c_1": 128 ** (1 / 8)}


def test_what_a_shared_point_loses_is_the_mean_over_the_clients():
    study = looked(lambda algorithm, run, asked: {"simple_regret": 2.0}, gaps=[[1.0, 2.0, 9.0], [2.0, 2.0, 8.0]])
    (found,) = claim_tests.finds_own(ClaimCase(study, study.claim_conditions[0], "garland")).comparisons
    assert found.estimate == 0.5 and found.b.tolist() == [4.0, 4.0]


@pytest.mark.parametrize(("share", "vacuous"), [(0.79, False), (0.81, True)])
def test_settings_move_nothing_where_nothing_is_learnt(share, vacuous):
    """With a gap of 0.001 per random point, points drawn at random have R(T)/M = 100."""
    study = looked(lambda algorithm, run, asked: {"regret": 100 * share + run - 0.5}, chance=0.001)
    found = outcome("settings-garland", study)
    assert (
        bool(found.vacuous_reason) == vacuous
        and f"{share:.0%} of the regret of points drawn at random" in found.measured_in_words
    )


def test_what_points_drawn_at_random_lose_is_a_mean_over_the_runs():
    """Regret 90 in two runs in which they have 100 and 300: 45%, not the mean of 90% and 30%."""
    study = looked(lambda algorithm, run, asked: {"regret": 90.0}, chance=(0.001, 0.003))
    assert "45% of the regret of points drawn at random" in outcome("settings-garland", study).measured_in_words


@pytest.mark.parametrize(("last_phase", "why"), [(0.5, ""), (0.52, "52% of T is one phase")])
def test_more_than_half_of_T_in_one_phase_is_one_phase(last_phase, why):
    assert outcomes.long_last_phase_reason(pd.Series([last_phase - 0.1, last_phase + 0.1])) == why


@pytest.mark.parametrize(("share", "expected"), [(0.8, True), (0.7, None), (0.3, None), (0.1, False)])
def test_a_fact_of_most_runs_is_one_of_eight_in_ten(share, expected):
    def tell(algorithm, run, asked):
        return {"seconds": 2.0 if algorithm == "fn-ucb" and run < 10 * share else 1.0}

    case = ClaimCase(made_up(tell), made_up(tell).claim_conditions[0], "garland")
    one_slow = made_up(lambda name, *_: {"seconds": {"hct-pyxab": 2.1, "fn-ucb": 4.0}.get(name, 1.0)})
    shares = claim_tests.measure_times(ClaimCase(one_slow, one_slow.claim_conditions[0], "garland"))
    assert (shares["similar"], shares["slower"]) == (0.0, 0.0)  # than each of the others, and none more than another
    twice = made_up(lambda name, *_: {"seconds": {"hct-pyxab": 2.0, "fn-ucb": 4.0}.get(name, 1.0)})
    shares = claim_tests.measure_times(ClaimCase(twice, twice.claim_conditions[0], "garland"))
    assert (shares["similar"], shares["slower"]) == (1.0, 1.0)  # twice is at most twice, and at least
    assert claim_tests.count_times(case, quantity="slower").as_claimed == [expected]
    assert claim_tests.measure_times(case)["similar"] == 1.0 and claim_tests.measure_times(case)[
        "slower"
    ] == pytest.approx(share)


@pytest.mark.parametrize(("more", "expected"), [(0, "true by construction"), (1, "does not hold")])
def test_rounds_within_the_bound(more, expected):
    def tell(algorithm, run, asked):
        Delta = asked["settings"].get("Delta", 0.01)
        Delta = 0.2 if Delta == "true" else Delta
        return {"Delta": Delta, "n_rounds": int(rounds_bound(Delta, asked["horizon"], 20)) + more}

    assert verdict("rounds-bound", made_up(tell)) == expected


@pytest.mark.parametrize(("up", "expected"), [(100, "holds"), (130, "does not hold"), (70, "does not hold")])
def test_with_Delta_0_as_many_numbers_go_up(up, expected):
    study = made_up(lambda algorithm, run, asked: {"numbers_up": up if algorithm == "pf-pne" else 100})
    assert verdict("delta-zero-cost-garland", study) == expected


@pytest.mark.parametrize("topic", ["adapts", "approaches", "any-Delta", "settings", "sublinear", "falls-with-M"])
def test_where_many_values_are_run_half_of_the_runs_are_as_the_claim_says(topic):
    study = made_up(lambda algorithm, run, asked: {"regret": 10.0 + run, "last_phase_share": 0.1, "Delta": 0.1})
    compared = outcome(f"{topic}-garland", study).comparisons
    assert {len(comparison.slopes_or_differences) for comparison in compared} == {study.sweep_runs} == {15}
    assert "n = {sweep_runs}" in CLAIMS[f"{topic}-garland"].runs_in_words


def test_whose_c_follows_the_noise():
    asked = []
    study = made_up(
        lambda algorithm, run, what: asked.append((algorithm, what["settings"])) or {"regret": 1.0}, n_runs=1
    )
    outcome("beats-tuned-hct-garland", study)
    assert asked == [("pf-pne", {}), ("hct-pyxab", {"c": 0.35})]
    assert c_of_noise(2.0) == pytest.approx(1.4 / math.sqrt(3)) and c_of_noise(0.1) == 0.05


def test_other_horizons_are_asked_for():
    asked = []
    study = made_up(lambda algorithm, run, what: asked.append((run, what["horizon"])) or {"regret": 1.0})
    outcome("later-garland", study)
    assert set(asked) == {(run, 1_000_000) for run in range(10)}  # the runs of the figures
    asked.clear()
    outcome("sooner-garland", study)
    assert set(asked) == {(run, 10_000) for run in range(30)}


def test_times_are_measured_and_say_nothing_of_the_papers_programs():
    study = made_up(lambda algorithm, run, asked: {"seconds": 3.95 + run / 100 if algorithm == "fn-ucb" else 2.0})
    assert verdict("time-others", study) == verdict("time-fn-ucb", study) == "not decidable"
    times = claims.times_by_objective(study)
    assert times["fn-ucb"].max() == pytest.approx(3.995) and (times["similar"] == 1).all()
    assert times["slower"].tolist() == [np.mean(3.95 + np.arange(10) / 100 >= 4)] * len(times)
    assert times["objective"].tolist() == ["garland", "himmelblau", "rastrigin", "landmine", "rastrigin"]


def test_the_seconds_of_one_run_are_the_median_over_the_runs():
    """Of 0, 1, 4, ..., 81 that is 20.5; the mean is 28.5."""
    study = made_up(lambda algorithm, run, asked: {"seconds": float(run**2)})
    times = claim_tests.measure_times(ClaimCase(study, study.claim_conditions[0], "garland"))
    assert times["runs"] == 10 and {times[name] for name in claim_tests.PAPER_ALGORITHMS} == {20.5}


def test_single_rewards_are_counted():
    study = made_up(lambda *asked: {})
    found = outcome("confidential", study)  # tau_h = 1, 1, 3, 10, 38, ...: up to 20 one pull a client
    assert found.as_claimed == [False] * 4 + [True] * 4
    assert found.measured_in_words == "the means sent at depths 0 to 3 are single rewards (depths 0 to 7)"


@pytest.mark.parametrize(("noise", "expected"), [(0.0, "true by construction"), (0.5, "holds"), (2.0, "not decidable")])
def test_without_noise_every_mean_is_what_it_estimates(noise, expected):
    study, claim = made_up(lambda *asked: {}), CLAIMS["good-event"]
    found = claim.test(study, replace(study.claim_conditions[0], noise=noise), "0.01")
    assert claims.judge(claim, found, found.p_values(rng()), k=1)["verdict"] == expected


# --- how a verdict is reached -----------------------------------------------------------------------


def comparison(margin: float, low=False, why_not="") -> Comparison:
    """One whose mean is so much beyond its limit, in 30 runs."""
    shown = np.full(30, 1.0 + (-margin if low else margin)) + 0.01 * np.sin(np.arange(30))
    return Comparison(f"{margin}", shown, is_above=low, undecidable_reason=why_not)


def judged(*comparisons, k=1, **of_claim) -> tuple[str, str]:
    claim = replace(CLAIMS["smallest-garland"], **of_claim)
    found = Outcome(comparisons)
    verdict = claims.judge(claim, found, found.p_values(rng()), k)
    return verdict["verdict"], verdict["decided_by"]


def test_judging():
    right, wrong, unclear = comparison(-0.5), comparison(0.5), comparison(0.0)
    assert judged(right, right)[0] == "holds" and judged(right, wrong)[0] == "does not hold"
    assert judged(right, unclear)[0] == "undecided"
    assert judged(right, by_design=True)[0] == "true by construction"
    assert judged(comparison(0.5, low=True), right, low_is_better=True)[0] == "better than claimed"
    assert judged(comparison(0.5, low=True), wrong, low_is_better=True)[0] == "does not hold"
    assert judged(comparison(0.5, low=True), right)[0] == "does not hold"
    assert judged(right, comparison(0.5, why_not="too short")) == ("not decidable", "too short")
    assert judged(wrong, comparison(0.5, why_not="too short"))[0] == "does not hold"
    assert judged(wrong, undecidable_reason="not these") == ("not decidable", "not these")


@pytest.mark.parametrize(
    ("as_claimed", "expected"), [([True], "holds"), ([None, True], "not decidable"), ([None, False], "does not hold")]
)
def test_judging_counts(as_claimed, expected):
    for excuse, verdict in (("", expected), ("x", "not decidable")):
        found = Outcome(as_claimed=as_claimed, undecidable_reason=excuse)
        assert claims.judge(CLAIMS["fed-grows"], found, found.p_values(rng()), k=0)["verdict"] == verdict


def test_one_hypothesis_a_claim():
    """Each p-value is multiplied by the number of claims, not of hypotheses."""
    p, found = np.array([[0.009, 1.0]]), Outcome([comparison(-0.1)])
    assert claims.judge(CLAIMS["smallest-garland"], found, p, 5)["verdict"] == "holds"
    assert claims.judge(CLAIMS["smallest-garland"], found, p, 6)["verdict"] == "undecided"


def test_no_more_than_the_level_of_families_has_an_error():
    """Families of 5 claims on their borders, half of them right by a hair: at most 5 % of the families err."""
    random, erring = np.random.default_rng(5), 0
    for _ in range(400):
        for true in (True, False, True, False, True):
            shown = random.normal(1.0 - 1e-9 if true else 1.0 + 1e-9, 1.0, 12)
            found = Outcome([Comparison("", shown)])
            verdict = claims.judge(CLAIMS["smallest-garland"], found, found.p_values(rng()), 5)["verdict"]
            if verdict == ("does not hold" if true else "holds"):
                erring += 1
                break
    assert 0 < erring <= 400 * 0.05 + 2 * math.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ((0.05, 1.0), "holds"),
        ((0.0501, 1.0), "undecided"),
        ((1.0, 0.05), "does not hold"),
        ((1.0, 0.0501), "undecided"),
    ],
)
def test_a_verdict_errs_in_five_of_a_hundred_at_most(p, expected):
    claim, found = CLAIMS["smallest-garland"], Outcome([comparison(-0.1)])
    assert claims.judge(claim, found, np.array([p]), 1)["verdict"] == expected
    two, p_of_two = Outcome([comparison(-0.1)] * 2), np.array([[p[0], p[1] / 2], [0.0, 1.0]])
    assert claims.judge(claim, two, p_of_two, 1)["verdict"] == expected  # "it is true" is tested twice


def test_what_decides_is_the_furthest_from_the_claim_and_refutes_what_does_not_hold():
    nearer, further = comparison(0.1), comparison(0.3)
    found = Outcome((nearer, further))
    for p_further, decides in ((0.9, nearer), (0.001, further)):
        p = np.array([[1.0, 0.001], [1.0, p_further]])
        assert claims.judge(CLAIMS["smallest-garland"], found, p, 5)["decided_by"] == decides.brief
    p = np.array([[1.0, 0.9], [1.0, 0.9]])
    assert claims.judge(CLAIMS["smallest-garland"], found, p, 5)["decided_by"] == further.brief


def test_comparisons_in_brief():
    mine, theirs = np.array([2.0, 4.0]), np.array([1.0, 3.0])
    (below,), (above,) = inequalities(mine, theirs, ("A", "B"), below=1), inequalities(mine, theirs, "c = 0.2", above=2)
    assert below.brief == "A / B = 1.5" and below.mean_violation == 0.5 and below.violation.tolist() == [1, 1]
    assert above.brief == "c = 0.2: ratio 1.5" and above.mean_violation == 0.5 and above.violation.tolist() == [0, 2]
    assert len(inequalities(mine, theirs, "", 1.25, 0.8)) == 2
    slopes = Comparison("slope", np.array([0.8, 0.9]), limit=0.5)
    assert slopes.brief == "slope: 0.85" and slopes.violation == pytest.approx([0.3, 0.4])
    assert Comparison("slope", np.array([0.8]), limit=0.5, is_above=True).violation == pytest.approx([-0.3])


def test_a_margin_is_measured_from_the_limit():
    """One that is further from 0, or from a ratio of 1, can be nearer to its limit, or within it."""
    a, b = np.array([3.0, 5.0]), np.array([1.0, 3.0])  # the ratio of the means is 2
    limits = {"below": 2.25, "above": 1.75}
    assert [c.mean_violation for c in inequalities(a, b, "", **limits)] == pytest.approx([-0.25, -0.25])
    slopes = [Comparison("slope", np.array([0.8, 0.9]), limit=0.5, is_above=is_above) for is_above in (False, True)]
    assert [c.mean_violation for c in slopes] == pytest.approx([0.35, -0.35])
    steep = Comparison("slope, Delta = 0", np.array([0.95, 0.95]), limit=0.9)
    assert judged(steep, slopes[0])[1] == slopes[0].brief  # the lower slope is further above its limit


# --- the list of claims -----------------------------------------------------------------------------


PLACE = r"Abstract|(Section|Table|Figure|Assumption|Theorem|Remark|Corollary|Appendix) [AC\d](\.\d)?"


def test_every_claim_has_an_id_of_its_own_and_a_place_in_the_paper():
    assert len(CLAIMS) == len(claims.CLAIMS)
    for claim in claims.CLAIMS:
        assert all(re.fullmatch(PLACE, where) for where in claim.where_in_paper.split(", "))


def test_what_is_tested_says_what_the_tests_are_given():
    for claim in claims.CLAIMS:
        given, said = claim.arguments, claim.hypothesis.replace("half of", "0.5 times").replace("twice", "2 times")
        compared = claim.kind.startswith(("compare", "any"))
        bounds = [given.get("within"), *(given.get(side) for side in ("below", "above") if compared)]
        for bound in {max(x, 1 / x) if x != 0.5 else x for x in bounds if x} - {1}:
            assert f"{bound:g}" in said, claim.id
        listed = claim.kind != "any_Delta"  # that says which H_0
        for Delta in map(Delta_in_words, given.get("deltas", []) if listed else []):
            assert re.search(rf"(?<![\d.]){Delta}(?![\d.]*\d)", said), claim.id
        for shift in given.get("shifts", [])[1:]:
            assert f"{shift:g}" in said
        assert "depth" not in given or f"depths 0 to {given['depth']}" in said
        for name, (low, high) in given.get("ranges", {}).items():
            assert f"{name} to {low:g} or {high:g}" in said
        if claim.kind == "count_times":
            assert (
                f" {LARGE_FACTOR:g} times" in said
                and f"{MOST_RUNS_SHARE:.0%}" in said
                and f"{1 - MOST_RUNS_SHARE:.0%}" in said
            )
    assert f"Delta = {claims.PF_PNE_DELTAS[0]} " in CLAIMS["delta-bounds-garland"].hypothesis
    H_0 = [last_depth(pd.DataFrame({"Delta": [Delta]}))[0] for Delta in CLAIMS["any-Delta-garland"].arguments["deltas"]]
    assert H_0 == [*range(10), math.inf]


def test_what_is_compared_has_a_family_and_what_is_counted_has_none():
    for claim in claims.CLAIMS:
        counted = claim.kind in {test.__name__ for test in COUNTING} | {"count_times", "good_event", "confidential"}
        assert bool(claim.family) != counted, claim.id


def test_another_claim_makes_the_notebooks_again(monkeypatch, tmp_path):
    notebook = NOTEBOOKS_FOLDER / "12_claims.ipynb"
    before, edited = batch.fingerprint(notebook, {}), tmp_path / claims.CLAIMS_FILE.name
    edited.write_text(
        claims.CLAIMS_FILE.read_text(encoding="utf-8").replace("below = 1.25", "below = 1.3"), encoding="utf-8"
    )
    monkeypatch.setattr(batch, "TOML_FILES", [edited])
    assert batch.fingerprint(notebook, {}) != before


def _every_number(algorithm, run, asked):
    bases = {"hct-pyxab": 110, "fed1-ucb": 150, "fn-ucb": 120, "fed-pne": 140, "pe": 160, "hct": 115}
    base = bases.get(algorithm, 100)
    given = asked["settings"].get("Delta", 0.01)
    Delta = (0.2 if given == "true" else given) if algorithm == "pf-pne" else math.nan
    growth = asked["horizon"] ** 0.7 * asked["n_clients"] ** -0.3
    luck = 1 + 0.01 * np.sin(run + len(algorithm)) - 0.1 * (given == "true")
    numbers = {
        "regret": base * growth * luck,
        "n_rounds": 4,
        "last_round_step": 300,
        "numbers": 500,
        "seconds": 1.0,
        "last_phase_share": 0.2,
    }
    numbers |= {"numbers_up": 250, "global_regret": 0.5 * base * growth * luck}
    return {**numbers, "Delta": Delta}


@pytest.fixture(scope="module")
def verdicts():
    return claims.evaluate_claims(made_up(_every_number))


def test_each_claim_under_each_noise_with_either_Delta(verdicts):
    table, comparisons, _ = verdicts
    column = ["noise", "cells", "Delta"]
    assert table["id"].unique().tolist() == list(CLAIMS)
    assert set(table["verdict"]) <= set(claims.VERDICTS)
    assert (table[["hypothesis", "measured", "runs"]] != "").all(axis=None)
    assert not table.duplicated(["id", *column]).any()
    for (claim_id, noise, cells), mine in table.groupby(["id", "noise", "cells"]):
        assert mine["Delta"].tolist() in ([""], list(claims.PF_PNE_DELTAS))
        assert (noise == "landmine") == (claim_id.endswith("landmine")) or not claim_id.endswith("landmine")
        assert cells == "random" or not claim_id.endswith(("garland", "himmelblau"))
    smallest = comparisons.query("id == 'smallest-garland' and noise == 'bernoulli' and Delta == 'true'")
    assert smallest["what"].tolist()[0] == "PF-PNE - HCT (PyXAB)" and (smallest["mean"] < 0).all()
    for low, middle, high in (("low", "mean", "high"), ("ratio_low", "ratio", "ratio_high")):
        found = comparisons[comparisons[middle].notna()]
        assert len(found) and (found[low] <= found[middle]).all() and (found[middle] <= found[high]).all()


def test_a_verdict_follows_from_the_table_of_comparisons(verdicts):
    """A referee who has the two tables alone comes to the same verdicts."""
    table, comparisons, _ = verdicts
    column, words = ["id", "noise", "cells", "Delta"], {"better than claimed": "does not hold"}
    words["true by construction"] = "holds"
    comparisons = comparisons.set_index(column).sort_index()
    for row in table[table["p_right"].notna()].to_dict("records"):
        mine = comparisons.loc[[tuple(row[name] for name in column)]]
        told = mine[mine["undecidable_reason"] == ""]
        wrong = row["k"] * len(told) * told["p_wrong"].min() <= claims.ALPHA
        holds = row["k"] * told["p_right"].max() <= claims.ALPHA
        expected = "does not hold" if wrong else "holds" if holds else "undecided"
        assert words.get(row["verdict"], row["verdict"]) in (expected, "not decidable"), row["id"]
        assert row["verdict"] != "not decidable" or not wrong
        value = told["ratio"].fillna(told["mean"])
        beyond = np.where(told["side"] == "below", value - told["limit"], told["limit"] - value)
        assert (beyond < 0).all() if holds and not wrong else (beyond > 0).any() if wrong else True


def test_p_values_follow_from_what_each_run_was(verdicts):
    _, comparisons, runs = verdicts
    column = ["id", "noise", "cells", "Delta", "what", "side"]
    told = comparisons[comparisons["undecidable_reason"] == ""].set_index(column)
    assert set(runs.set_index(column).index) == set(told.index)
    for row in runs[::7].to_dict("records"):
        violations = [float(x) for x in row["violation"].split()]
        found = told.loc[tuple(row[name] for name in column)]
        assert len(violations) == found["n"]
        assert stats.sign_flip(violations, rng()) == pytest.approx(
            (found["p_right"], found["p_wrong"]), rel=0.02, abs=1e-6
        )


def test_whose_a_claim_is_and_whether_noise_matters_is_declared(verdicts):
    table = verdicts[0]
    assert set(table[table["whose"] == "ours"]["id"]) == {claim.id for claim in claims.CLAIMS if claim.is_ours}
    counted_once = {claim.kind for claim in claims.CLAIMS if not claim.by_noise}
    assert counted_once == {"within_Delta", "near_optimal", "smooth", "confidential"}
    assert set(table[table["over_noises"] == "once"]["id"]) == {
        claim.id for claim in claims.CLAIMS if not claim.by_noise
    }
    assert set(table["over_noises"]) == {"once", ""}
    ours = set(table[table["whose"] == "ours"]["id"])
    assert {"beats-tuned-hct-garland", "sooner-garland", "later-pe-garland"} <= ours and "later-garland" not in ours


def test_the_verdicts_are_corrected_for_the_number_of_claims_of_the_family(verdicts):
    table = verdicts[0].query("noise == 'bernoulli' and cells == 'random' and Delta != 'true'")
    of = table[table["k"].notna()].groupby("family")["id"].nunique()
    assert of["comparison"] == len([c for c in claims.CLAIMS if c.family == "comparison" and "landmine" not in c.id])
    assert (
        table.dropna(subset="k").set_index("id")["k"] == table.dropna(subset="k").set_index("id")["family"].map(of)
    ).all()


def test_the_ratios_are_the_rivals_over_pf_pne():
    def tell(algorithm, run, asked):
        assert asked["shift"] == 0.1 if "shift" in asked else True
        base = {"pf-pne": 100, "fed-pne": 200, "pe": 50, "hct-pyxab": 300, "fed1-ucb": 400, "fn-ucb": 800}[algorithm]
        return {"regret": (base if not asked["settings"] else 25) * (1 + 0.1 * np.sin(run))}

    table = forest_plot.ratios(made_up(tell)).query(
        "noise == 'bernoulli' and cells == 'random' and objective == 'garland'"
    )
    wanted = {
        forest_plot.PF_PNE_WITH_TRUE_DELTA: 0.25,
        "fed-pne": 2,
        "pe": 0.5,
        "hct-pyxab": 3,
        "fed1-ucb": 4,
        "fn-ucb": 8,
    }
    assert dict(zip(table["algorithm"], table["ratio"], strict=True)) == pytest.approx(wanted)
    assert (table["n"] == 30).all() and (
        forest_plot.ratios(made_up(tell, 12)).query("algorithm == 'pe'")["n"] == 12
    ).all()
    ackley = (
        forest_plot.ratios(made_up(tell)).query("objective == 'ackley' and noise == 'bernoulli'").set_index("algorithm")
    )
    assert ackley.loc["fn-ucb", "n"] == 10 and ackley.loc["pe", "n"] == 30


def test_the_last_phase_is_the_mean_over_the_clients_of_the_time_since_they_moved():
    # of T = 10, client 1 moved last at 2, client 2 at 8, client 3 at 1, where it began: 0.8, 0.2 and 0.9
    moved = [[5, 4, 4, 4, 4, 4, 4, 4, 4, 4], [5, 4, 4, 4, 3, 3, 3, 2, 2, 2], [1] * 10]
    run = SimpleNamespace(simple_regret=np.array(moved, dtype=float), t=np.arange(1, 11))
    assert evidence.last_phase_share(run) == pytest.approx(1.9 / 3)


def test_the_numbers_of_a_run_by_hand():
    """Three clients (a mean is no median), checkpoints 10, 20, ..., 100; two rounds."""
    t = np.arange(10, 101, 10)
    regret = np.outer([1.0, 2.0, 9.0], t)
    run = SimpleNamespace(
        t=t,
        regret=regret,
        global_regret=2 * regret,
        simple_regret=np.tile(np.linspace(1, 0.1, 10), (3, 1)) * [[1.0], [2.0], [9.0]],
        communication=pd.DataFrame({"t": [3, 40], "numbers up": [5, 7], "numbers down": [11, 13]}),
        settings={"Delta": 0.25},
        seconds=1.5,
    )
    numbers = dict(zip(list(SUMMARY_COLUMNS)[2:], evidence.summary_row(run), strict=True))
    wanted = {
        "regret": 400,
        "global_regret": 800,
        "n_rounds": 2,
        "last_round_step": 40,
        "numbers": 36,
        "numbers_up": 12,
        "early_regret": 40,
    }
    wanted |= {"simple_regret": 0.4, "last_phase_share": 0.0, "Delta": 0.25, "seconds": 1.5}
    assert numbers == pytest.approx(wanted)
    run.communication, run.global_regret, run.settings = run.communication[:0], None, {}
    numbers = dict(zip(list(SUMMARY_COLUMNS)[2:], evidence.summary_row(run), strict=True))
    assert (numbers["n_rounds"], numbers["last_round_step"], numbers["numbers"], numbers["numbers_up"]) == (0, 0, 0, 0)
    assert math.isnan(numbers["global_regret"]) and math.isnan(numbers["Delta"])


def test_the_scales_of_a_study():
    study = Study(20, 100_000, 31, 10, ())
    assert study.client_counts == (5, 10, 20, 40, 80) and study.sweep_runs == 16
    assert study.horizons == (3_125, 6_250, 12_500, 25_000, 50_000, 100_000)
    assert Study(1, 8, 1, 1, ()).client_counts == (1, 2, 4) and Study(1, 8, 1, 1, ()).horizons == (1, 2, 4, 8)


def test_exponents_of_table_1_are_logarithms_to_base_two():
    study = made_up(
        lambda algorithm, run, asked: {"regret": asked["horizon"] ** 0.75 * (1 + run), "global_regret": 1.0}, 2
    )
    table = table1.exponents(replace(study, folder=None)) if table1.INTERPOLATED == () else _exponents_but_for(study)
    assert set(table["T"]) == set(study.horizons[1:]) and (table["n"] == 2).all()
    np.testing.assert_allclose(table[["exponent", "low", "high"]], 0.75, rtol=0.01)


def _exponents_but_for(study):
    """The exponents, those that are read off curves as if they were not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table1, "INTERPOLATED", ())
        return table1.exponents(study)


def test_what_is_read_off_a_curve_by_hand(monkeypatch):
    """Three clients, regret t, 2 t and 9 t, of which 4 t is the mean; a round at each of T/2 and T."""
    study = Study(3, 80, 1, 1, made_up(None).claim_conditions, n_jobs=1)
    t = np.arange(1, 81)
    sent = pd.DataFrame({"t": [1, 40, 80], "numbers up": [1, 2, 3], "numbers down": [10, 20, 30]})
    run = SimpleNamespace(
        t=t, regret=np.outer([1.0, 2, 9], t), global_regret=np.outer([2.0, 4, 18], t), communication=sent
    )
    monkeypatch.setattr(table1, "run_experiment", lambda *of, **how: SimpleNamespace(runs={("fn-ucb", 0): run}))
    found = table1._interpolate(study, "garland", "fn-ucb")
    assert study.horizons == (2, 5, 10, 20, 40, 80)
    assert found["local"].tolist() == [[8, 20, 40, 80, 160, 320]] and (found["global"] == 2 * found["local"]).all()
    assert found["rounds"].tolist() == [[1, 1, 1, 1, 2, 3]] and found["numbers"].tolist() == [[11] * 4 + [33, 66]]


def test_a_row_of_table_1_by_hand():
    def tell(algorithm, run, asked):
        T, M = asked["horizon"], asked["n_clients"]
        rounds = {100_000: 9, 50_000: 5, 25_000: 3}.get(T, 2) + run
        regret = 80.0 * T / 100_000 * (M / 20) ** -0.25 + 2 * run
        shared = {"global_regret": regret + 1} if asked.get("global_regret") else {}
        return {"regret": regret, "n_rounds": rounds, "numbers": 7 * rounds, "last_phase_share": 0.1, **shared}

    row = table1._row(made_up(tell, 2), "fed-pne", "garland")
    assert (row["local"], row["global"], row["n"], row["personalized"]) == (81.0, 82.0, 2, "no")
    assert row["local_sd"] == row["global_sd"] == pytest.approx(math.sqrt(2))
    assert (row["rounds"], row["numbers"], row["rounds_per_doubling"]) == (9.5, 66.5, 4.0)
    assert row["M_slope"] == pytest.approx(-0.25, abs=0.01) and row["undecidable_reason"] == ""
    alone = table1._row(made_up(lambda *of: tell(*of) | {"n_rounds": 0}, 2), "pe", "garland")
    assert math.isnan(alone["rounds_per_doubling"]) and math.isnan(alone["M_slope"])


# --- runs -------------------------------------------------------------------------------------------


def test_runs_are_summarized_once_and_damage_is_noticed(tmp_path):
    study = Study(2, 60, 2, 2, (), n_jobs=1, folder=tmp_path)
    rows = study.summaries("garland", "pf-pne", "bernoulli", global_regret=True, settings={"Delta": "true"})
    run = pfpne.simulate(
        "pf-pne", pfpne.make_problem("garland", n_clients=2, run=1), 60, global_regret=True, Delta="true"
    )
    row = rows.iloc[1]
    assert row["regret"] == run.regret[:, -1].mean() and row["global_regret"] == run.global_regret[:, -1].mean()
    assert row["n_rounds"] == len(run.communication) and row["last_round_step"] == run.communication["t"].max()
    assert row["numbers"] == run.communication["bytes"].sum() / 8 and row["Delta"] == run.settings["Delta"]
    (kept,) = (tmp_path / "summaries").iterdir()
    before = kept.read_bytes()
    experiment = study.experiment("garland", "pf-pne", "bernoulli", 2, global_regret=True, settings={"Delta": "true"})
    pd.testing.assert_frame_equal(rows, summarize(experiment, folder=tmp_path))
    kept.write_bytes(before.replace(b"garland", b"x")[:-9])
    pd.testing.assert_frame_equal(rows, summarize(experiment, folder=tmp_path))
    assert kept.read_bytes() == before


def test_more_runs_of_an_experiment_are_another_summary(tmp_path):
    """The first runs are the same, and what is kept of one of them is not all of two."""
    one, two = (Experiment("garland", 2, 20, algorithms=("pe",), n_runs=n) for n in (1, 2))
    assert [len(summarize(experiment, 1, tmp_path)) for experiment in (one, two, one)] == [1, 2, 1]


@pytest.mark.skipif("fn-ucb" not in UNLIMITED_ALGORITHMS, reason="not registered")
def test_what_is_read_off_a_curve_does_not_depend_on_the_horizon(tmp_path):
    for name in table1.INTERPOLATED:
        short, long = (pfpne.simulate(name, pfpne.make_problem("garland", n_clients=2), T) for T in (20, 40))
        assert long.t.tolist() == list(range(1, 41))
        np.testing.assert_array_equal(long.regret[:, :20], short.regret)
        pd.testing.assert_frame_equal(long.communication.query("t <= 20"), short.communication)


def test_the_primary_family_by_hand(monkeypatch):
    """Two comparisons of eight runs: one whose every difference is below 0, one in which a phase decides."""
    conditions = (ClaimCondition("bernoulli", "bernoulli", ("garland",)), ClaimCondition("2.0", 2.0, ("garland",)))
    study = Study(2, 100, 6, 4, (*conditions, ClaimCondition("2.0", 2.0, ("garland",), "cyclic")))

    def summaries(self, algorithm="pf-pne", **changes):
        level = {"pf-pne": 1.0, "hct-pyxab": 2.0, "fn-ucb": 1.6}.get(algorithm, 3.0)
        regret = level + np.linspace(0.0, 0.5, 8)
        regret[-1] += 20.0 * (algorithm == "fn-ucb")  # of the rivals the smallest median, and the largest mean
        last_phase = 0.6 if self.condition.noise == 2.0 else [0.1] * 7 + [0.9]  # in one run the most of T
        return pd.DataFrame({"regret": regret, "last_phase_share": last_phase})

    monkeypatch.setattr(outcomes.ClaimCase, "summaries", summaries)
    table = claims.primary_family(study)
    assert table["objective"].tolist() == ["garland", "garland", "all"]  # cyclic cells are left out
    first = table.iloc[0]
    assert first["rival"] == "hct-pyxab" and first["ratio"] == pytest.approx(1.25 / 2.25)
    assert first["p_right"] == pytest.approx(4 / 2**8)  # Holm: twice the smallest of two; twice again for both sides
    assert first["p_wrong"] == 1.0
    assert table["verdict"].tolist()[:2] == ["shown", "open"]
    assert table["last_phase_share"].tolist()[:2] == pytest.approx([0.2, 0.6])
    assert table["improvement"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("last_phase", "why"), [(0.4, ""), (0.6, "60% of T is one phase")])
def test_a_cut_phase_leaves_a_comparison_of_regrets_open(monkeypatch, last_phase, why):
    """What is compared at T is decided by the phase that T cuts; communication is not."""

    def summaries(self, algorithm="pf-pne", settings=None, **changes):
        return pd.DataFrame(
            {
                "regret": np.full(4, 1.0 if algorithm == "pf-pne" else 2.0),
                "numbers": 3.0,
                "last_phase_share": last_phase,
            }
        )

    monkeypatch.setattr(outcomes.ClaimCase, "summaries", summaries)
    case = ClaimCase(Study(2, 100, 6, 4, ()), ClaimCondition("bernoulli", "bernoulli", ("garland",)), "garland")
    assert [one.undecidable_reason for one in claim_tests.compare(case, ["hct"], below=1).comparisons] == [why]
    assert [
        one.undecidable_reason for one in claim_tests.compare(case, ["hct"], below=1, quantity="numbers").comparisons
    ] == [""]
    assert [one.undecidable_reason for one in claim_tests.compare(case, ["pf-pne"], "hct", below=2).comparisons] == [""]
