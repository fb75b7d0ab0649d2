"""The claims: the statistics by hand, each verdict on made-up runs, the files, the notebook from end to end."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import papermill
import pytest
from scipy.stats import permutation_test

import pfpne
from pfpne.paper import claim_tests, claims, stats, table1, tables
from pfpne.algorithms import NAMES
from pfpne.paper.claim_tests import (
    VALID,
    AlikeInTime,
    BetterThanAlone,
    Bounded,
    Comparison,
    Counted,
    DeltaBounds,
    DependsOnSimilarity,
    FallsWithM,
    Insensitive,
    KeepsGrowing,
    Part,
    RoundsBounded,
    SameCost,
    Similar,
    Slower,
    Stops,
    Sublinear,
    Unsatisfactory,
    last_depth,
    less,
    more,
    numbers_bound,
    rank,
    rounds_bound,
    slope_below,
    stopped,
)
from pfpne.paper.evidence import COLUMNS, Evidence, Regime, summarize
from pfpne.paper.parameters import SYNTHETIC_NAMES
from pfpne.paths import DATA, FIGURES, NOTEBOOKS, ROOT


def rng():
    return np.random.default_rng(0)


# --- statistics, by hand ----------------------------------------------------------------------------


def test_sign_flip_by_hand():
    # The eight sums of +-1 +-2 +-3 are -6, -4, -2, 0, 0, 2, 4, 6.
    assert stats.sign_flip([-1, -2, -3], rng()) == (1 / 8, 1.0)
    assert stats.sign_flip([1, -2, -3], rng()) == (2 / 8, 7 / 8)
    assert stats.sign_flip([1, 2, -3], rng()) == (5 / 8, 5 / 8)
    assert stats.sign_flip([-5], rng()) == (1 / 2, 1.0)
    assert stats.sign_flip([0, 0, 0, 0], rng()) == (1.0, 1.0)
    assert stats.sign_flip([1.0, np.nan], rng()) == (1.0, 1.0)


@pytest.mark.parametrize("n", [2, 5, 9, 10])
def test_sign_flip_agrees_with_scipy(n):
    values = np.random.default_rng(n).normal(-0.3, 1, n)
    how = {"permutation_type": "samples", "n_resamples": 5_000}  # more than 2^n: exact
    for found, side in zip(stats.sign_flip(values, rng()), ("less", "greater"), strict=True):
        assert found == pytest.approx(permutation_test((values,), np.mean, alternative=side, **how).pvalue)


def test_sign_flip_beyond_the_exact_one_is_drawn_from_the_generator():
    values = np.random.default_rng(3).normal(-0.3, 1, stats.EXACT + 1)
    first, again = stats.sign_flip(values, rng()), stats.sign_flip(values, rng())
    exact_without_last = stats.sign_flip(values[:-1], rng())
    assert first == again and first[0] == pytest.approx(exact_without_last[0], abs=0.05)


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.5, 0.2, 0.9]) == pytest.approx([1.0, 0.6, 1.0])
    assert stats.holm([0.02]) == pytest.approx([0.02])
    assert len(stats.holm([])) == 0


def test_power_law_is_recovered():
    x = np.array([3_125, 6_250, 12_500, 25_000, 50_000, 100_000])
    assert stats.power(x, np.stack([3 * x**0.75, 0.2 * x**-0.25])) == pytest.approx([0.75, -0.25])
    assert stats.per_log(x, [7 + 2 * np.log(x)]) == pytest.approx([2.0])
    assert np.isnan(stats.power(x, np.array([[1, 2, 0, 4, 5, 6]]))).all()
    assert np.isnan(stats.power([5], np.array([[1.0]]))).all()


def test_interval_and_standard_error():
    values = np.random.default_rng(1).normal(2, 1, 30)
    low, high = stats.interval(values, rng())
    assert low < values.mean() < high and (low, high) == stats.interval(values, rng())
    assert high - low == pytest.approx(2 * 1.96 * stats.standard_error(values), rel=0.15)
    assert stats.interval([0.3, 0.3, 0.3], rng()) == pytest.approx((0.3, 0.3))
    assert np.isnan(stats.interval([1.0], rng())).all() and math.isnan(stats.standard_error([1.0]))
    assert stats.standard_error([1.0, 3.0]) == 1.0


def test_a_ratio_by_hand():
    assert stats.ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0]), rng()) == (2.0, 2.0, 2.0)
    assert stats.ratio(np.array([3.0]), np.array([2.0]), rng())[0] == 1.5
    found, low, high = stats.ratio(np.array([1.0, 9.0, 2.0]), np.array([1.0, 2.0, 3.0]), rng())
    assert found == 2.0 and low == pytest.approx(2 / 3) and high == pytest.approx(9 / 2)  # (2, 2, 2) and (9, 9, 9)
    assert np.isnan(stats.ratio(np.array([1.0, 2.0]), np.array([0.0, 1.0]), rng())).all()


# --- made-up runs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MadeUp(Evidence):
    """Evidence whose runs are computed from `tell(algorithm, run, **what it was asked)`, a dict of COLUMNS."""

    tell: object = None

    def summary(self, objective, algorithms, noise, n_runs=None, **changes):
        n_runs = self.runs_of(algorithms) if n_runs is None else n_runs
        asked = {
            "objective": objective,
            "noise": noise,
            "n_clients": self.n_clients,
            "horizon": self.horizon,
            **changes,
        }
        asked["settings"] = changes.get("settings", {})
        rows = [{"algorithm": algorithms, "run": run, **self.tell(algorithms, run, asked)} for run in range(n_runs)]
        return pd.DataFrame(rows, columns=list(COLUMNS))


def made_up(tell, n_runs=30) -> MadeUp:
    regimes = (Regime("bernoulli", "bernoulli", SYNTHETIC_NAMES), Regime("landmine", 0.0, ("landmine",)))
    return MadeUp(20, 100_000, n_runs, min(10, n_runs), regimes, tell=tell)


def with_regrets(**means) -> MadeUp:
    """Runs whose regret is near means[algorithm, with _ for -], the same luck for every algorithm of a run."""

    def tell(algorithm, run, asked):
        own = np.random.default_rng([run, sorted(means).index(algorithm.replace("-", "_"))]).normal(0, 1)
        return {"regret": means[algorithm.replace("-", "_")] + 20 * np.sin(run) + own}

    return made_up(tell)


def verdict(test, evidence, Delta="0.01") -> str:
    """The verdict on one claim alone, without correction."""
    outcome = test.evaluate(evidence, "bernoulli", test.objectives, Delta)
    if isinstance(outcome, Counted):
        return claims.count(outcome.facts)
    weighed = claims.weigh(outcome, rng())
    return claims.judge(weighed.p_right, weighed.p_wrong)


SMALLEST = Comparison("garland", "pf-pne", claims.OTHERS)


def test_the_smallest_is_smaller_than_each():
    others = {"fed1_ucb": 140, "fn_ucb": 150, "fed_pne": 130}
    assert verdict(SMALLEST, with_regrets(pf_pne=100, hct_pyxab=120, **others)) == "holds"
    assert verdict(SMALLEST, with_regrets(pf_pne=100, hct_pyxab=80, **others)) == "does not hold"
    assert verdict(SMALLEST, with_regrets(pf_pne=100, hct_pyxab=100, **others)) == "undecided"


def test_ten_runs_count_where_fn_ucb_takes_part():
    outcome = SMALLEST.evaluate(
        with_regrets(pf_pne=1, hct_pyxab=2, fed1_ucb=2, fn_ucb=2, fed_pne=2), "bernoulli", (), "0.01"
    )
    assert [len(part.values) for part in outcome.parts] == [30, 30, 10, 30]


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "does not hold"), (190, "holds"), (230, "does not hold")])
def test_slightly_better_is_better_but_not_much(pf_pne, expected):
    test = Comparison("doublesine", "pf-pne", ("hct-pyxab",), "slightly")
    assert verdict(test, with_regrets(pf_pne=pf_pne, hct_pyxab=220)) == expected


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "holds"), (120, "does not hold"), (300, "does not hold")])
def test_much_better_is_half_at_most(pf_pne, expected):
    test = Comparison("doublesine", "pf-pne", ("fed-pne",), "much")
    assert verdict(test, with_regrets(pf_pne=pf_pne, fed_pne=220)) == expected


@pytest.mark.parametrize(
    ("pf_pne", "expected"),
    [
        (220, "holds"),
        (180, "holds"),
        (260, "holds"),
        (160, "does not hold"),
        (300, "does not hold"),
        (275, "undecided"),
    ],
)
def test_similar_has_to_be_shown(pf_pne, expected):
    assert verdict(Similar("ackley", "hct-pyxab"), with_regrets(pf_pne=pf_pne, hct_pyxab=220)) == expected


def test_too_few_runs_decide_nothing():
    evidence = replace(with_regrets(pf_pne=100, hct_pyxab=200, fed1_ucb=200, fn_ucb=200, fed_pne=200), n_runs=3)
    assert verdict(SMALLEST, replace(evidence, figure_runs=3)) == "undecided"


@pytest.mark.parametrize(("best", "expected"), [(100, "holds"), (290, "does not hold")])
@pytest.mark.parametrize("whose", ["pf_pne", "hct_pyxab"])
def test_far_from_satisfactory_is_twice_the_regret_of_another(whose, best, expected):
    regrets = {"fed_pne": 300, "pf_pne": 400, "hct_pyxab": 350, "fed1_ucb": 500, "fn_ucb": 500, whose: best}
    assert verdict(Unsatisfactory("garland"), with_regrets(**regrets)) == expected


@pytest.mark.parametrize(("alike", "expected"), [(100, "holds"), (200, "does not hold")])
def test_fed_pne_depends_on_the_similarity_of_the_clients(alike, expected):
    def tell(algorithm, run, asked):
        assert algorithm == "fed-pne"
        return {"regret": (alike if asked.get("shift") == 0 else 300) + np.sin(run)}

    assert verdict(DependsOnSimilarity("garland"), made_up(tell)) == expected


@pytest.mark.parametrize(("alone", "expected"), [(300, "holds"), (80, "does not hold")])
def test_better_than_alone(alone, expected):
    def tell(algorithm, run, asked):
        assert asked["shift"] == 0
        return {"regret": {"pf-pne": 100, "pe": alone}[algorithm] + np.sin(run)}

    assert verdict(BetterThanAlone("garland", "pe"), made_up(tell)) == expected


@pytest.mark.parametrize(("zero", "expected"), [(110, "holds"), (200, "does not hold")])
def test_similar_with_a_Delta_of_its_own(zero, expected):
    def tell(algorithm, run, asked):
        Delta = asked["settings"].get("Delta", 0.01)
        return {"regret": {("pf-pne", 0.0): zero, ("fed-pne", 0.01): 100}[algorithm, Delta] + np.sin(run)}

    test = Similar("garland", "fed-pne", (("Delta", 0.0),))
    assert verdict(test, made_up(tell)) == expected and not test.uses_pf_pne


@pytest.mark.parametrize(("exponent", "expected"), [(-0.4, "holds"), (0.1, "does not hold")])
def test_falls_with_M(exponent, expected):
    def tell(algorithm, run, asked):
        assert asked["shift"] == 0
        return {"regret": (1 + 0.01 * np.sin(run)) * asked["n_clients"] ** (exponent + 0.001 * np.cos(run))}

    assert verdict(FallsWithM("garland", 0.0), made_up(tell)) == expected
    assert verdict(FallsWithM("garland", -0.25), made_up(tell)) == expected
    assert verdict(FallsWithM("garland", -0.5), made_up(tell)) == "does not hold"


@pytest.mark.parametrize(("exponent", "expected"), [(0.8, "holds"), (1.1, "does not hold")])
@pytest.mark.parametrize("worst", [1.0, 0.0])
def test_sublinear_whatever_Delta(worst, exponent, expected):
    def tell(algorithm, run, asked):
        bad = asked["settings"].get("Delta") == worst
        return {"regret": asked["horizon"] ** ((exponent if bad else 0.7) + 0.001 * np.cos(run))}

    assert verdict(Sublinear(), made_up(tell)) == expected
    assert verdict(Sublinear(VALID), made_up(tell)) == (expected if worst == 1.0 else "holds")  # 0 bounds nothing


def test_settings_matter_little_unless_one_does():
    def tell(algorithm, run, asked, factor=1.0):
        mine = {"regret": 100.0 + run}
        return {"regret": factor * mine["regret"]} if asked["settings"].get("c") == 0.2 else mine

    assert verdict(Insensitive("garland"), made_up(tell)) == "holds"
    evidence = made_up(lambda *asked: tell(*asked, factor=1.5))
    assert verdict(Insensitive("garland"), evidence) == "does not hold"
    measured = Insensitive("garland").evaluate(evidence, "bernoulli", (), "0.01").measured
    assert "to 1.5 (c = 0.2)" in measured
    mine = np.array([3.0, 3.0, 9.0])
    assert rank(mine, [np.array([first, first]) for first in (1.0, 2.0, 3.0, 4.0)]) == 3  # the third has no rival


# --- counted claims ---------------------------------------------------------------------------------


def test_counting():
    assert claims.count((True, True)) == "holds"
    assert claims.count((True, None)) == "undecided"
    assert claims.count((True, None, False)) == "does not hold"


def test_the_parts_of_a_claim_taken_together():
    low, high = (Part("", np.full(5, sign), np.zeros(5), sign) for sign in (-1.0, 1.0))  # p = 1/32 and 1
    both = {"right": (1 / 32, 1.0), "wrong": (1.0, 1 / 32)}  # of low and of high
    for parts, every, right, wrong in (
        ((low, low), True, 1 / 32, 1.0),
        ((low, high), True, 1.0, 2 / 32),
        ((low, high), False, 2 / 32, 1.0),
        ((high, high), False, 1.0, 1 / 32),
    ):
        found = claims.weigh(claim_tests.Tested(parts, every), rng())
        assert (found.p_right, found.p_wrong) == (right, wrong)
        assert found.right.tolist() == [both["right"][part is high] for part in parts]
        assert found.wrong.tolist() == [both["wrong"][part is high] for part in parts]


def test_what_decides_is_the_furthest_from_the_claim_and_refutes_what_does_not_hold():
    sure, unsure = (Part(what, np.zeros(5), np.zeros(5), margin) for what, margin in (("sure", 0.1), ("unsure", 0.3)))
    refuted = claims.Weighed(np.ones(2), np.array([0.001, 0.9]), 1.0, 0.002)
    assert claims.decisive(claim_tests.Tested((sure, unsure)), refuted, "does not hold", (1.0, 0.02)) is sure
    assert claims.decisive(claim_tests.Tested((sure, unsure)), refuted, "undecided", (1.0, 0.02)) is unsure
    weaker = claims.Weighed(np.ones(2), np.array([0.001, 0.01]), 1.0, 0.002)  # 2 * 0.01 alone, 0.2 once corrected
    assert claims.decisive(claim_tests.Tested((sure, unsure)), weaker, "does not hold", (1.0, 0.02)) is sure
    shown = claims.Weighed(np.array([0.9, 0.001]), np.ones(2), 0.002, 1.0)  # at least one of them, and it is `unsure`
    assert claims.decisive(claim_tests.Tested((sure, unsure), every=False), shown, "holds", (0.02, 1.0)) is unsure
    assert claims.decisive(claim_tests.Tested((sure, unsure), every=False), shown, "undecided", (0.02, 1.0)) is sure
    mine, theirs = np.array([2.0, 4.0]), np.array([1.0, 3.0])
    assert less(mine, theirs, "A - B").brief == "A / B = 1.5" and less(mine, theirs, "A - B").margin == 0.5
    assert more(mine, theirs, "c = 0.2", 2).brief == "c = 0.2: ratio 1.5" and more(mine, theirs, "", 2).margin == 0.5
    assert slope_below(1.0, np.array([0.8, 0.9]), "slope").brief == "slope: 0.85"


def test_bounds_by_hand():
    assert [last_depth(Delta) for Delta in (0.01, 1.0, 0.3)] == [7, 0, 2]
    assert numbers_bound(1, M=3) == 4 * 3 * (1 + 2)
    assert stopped(8, 5_000, 7, 100_000) is True
    assert stopped(7, 5_000, 7, 100_000) is None
    assert stopped(9, 5_000, 7, 100_000) is False
    # 2 + log2(100); 1 + log2(2e6 / (0.01 log(2e6))) / 2
    assert rounds_bound(0.01, 100_000, 20) == pytest.approx(2 + math.log2(100))
    assert rounds_bound(0.0, 100_000, 20) == pytest.approx(1 + math.log2(2e6 / (0.01 * math.log(2e6))) / 2)
    assert rounds_bound(1.0, 100_000, 20) == 2


def _communication(algorithm, run, asked, *, rounds=8, last=5_000, numbers=3_000, fed_last=40_000):
    mine = {"rounds": rounds, "last": last, "numbers": numbers, "Delta": 0.01}
    return mine if algorithm == "pf-pne" else {"rounds": 12, "last": fed_last, "numbers": 9_000, "Delta": math.nan}


@pytest.mark.parametrize(
    ("kind", "changed", "expected"),
    [
        (Stops(), {}, "holds"),
        (Stops(), {"rounds": 7}, "undecided"),
        (Stops(), {"rounds": 9}, "does not hold"),
        (Bounded(), {}, "holds"),
        (Bounded(), {"numbers": numbers_bound(7, 20) + 1}, "does not hold"),
        (KeepsGrowing(), {}, "holds"),
        (KeepsGrowing(), {"fed_last": 9_000}, "does not hold"),
        (KeepsGrowing(), {"last": 50_000}, "holds"),
        (SameCost(), {"numbers": 9_000}, "holds"),
        (SameCost(), {"numbers": 12_000}, "does not hold"),
        (DeltaBounds(), {}, "holds"),
    ],
)
def test_communication_is_counted(kind, changed, expected):
    evidence = made_up(lambda *asked: _communication(*asked, **changed))
    assert verdict(kind, evidence) == expected
    against = kind.evaluate(evidence, "bernoulli", kind.objectives, "0.01").against
    assert against.startswith("Garland: ") if expected == "does not hold" else against == ""


def test_rounds_within_the_bound():
    def tell(algorithm, run, asked, more=0):
        Delta = asked["settings"].get("Delta", 0.01)
        Delta = 0.2 if Delta == "true" else Delta
        return {"Delta": Delta, "rounds": int(rounds_bound(Delta, asked["horizon"], 20)) + more}

    assert verdict(RoundsBounded(), made_up(tell)) == "holds"
    assert verdict(RoundsBounded(), made_up(lambda *asked: tell(*asked, more=1))) == "does not hold"


@pytest.mark.parametrize(("seconds", "expected"), [(20.0, "holds"), (3.0, "does not hold"), (3.95, "undecided")])
def test_times_decide_without_being_told(seconds, expected):
    evidence = made_up(lambda algorithm, run, asked: {"seconds": seconds + run / 100 if algorithm == "fn-ucb" else 2.0})
    assert verdict(AlikeInTime(), evidence) == "holds"
    outcome = Slower().evaluate(evidence, "bernoulli", ("garland",), "0.01")
    assert claims.count(outcome.facts) == expected and f"{seconds:g}" not in outcome.measured
    times = claims.times(evidence)
    assert times["fn-ucb"].max() == pytest.approx(seconds + 0.045) and (times["alike"] == 1).all()
    assert times["slower"].tolist() == [np.mean(seconds + np.arange(10) / 100 >= 4)] * len(times)


# --- the list of claims -----------------------------------------------------------------------------


def test_every_claim_has_a_place_in_the_paper_and_a_test():
    assert len({claim.id for claim in claims.CLAIMS}) == len(claims.CLAIMS)
    for claim in claims.CLAIMS:
        assert all(place in claims.PLACES for place in claim.place.split(", "))
        assert claim.quote and claim.statement and claim.test.statistic and claim.test.objectives
        assert claim.test.runs(made_up(None)) and callable(claim.test.evaluate)


def _every_number(algorithm, run, asked):
    bases = {"hct-pyxab": 110, "fed1-ucb": 150, "fn-ucb": 120, "fed-pne": 140, "pe": 160, "hct": 115}
    base = bases.get(algorithm, 100)
    given = asked["settings"].get("Delta", 0.01)
    Delta = (0.2 if given == "true" else given) if algorithm == "pf-pne" else math.nan
    growth = asked["horizon"] ** 0.7 * asked["n_clients"] ** -0.3
    luck = 1 + 0.01 * np.sin(run + len(algorithm)) - 0.1 * (given == "true")
    numbers = {"regret": base * growth * luck, "rounds": 4, "last": 300, "numbers": 500, "seconds": 1.0}
    return {**numbers, "Delta": Delta}


@pytest.fixture(scope="module")
def verdicts():
    return claims.evaluate(made_up(_every_number))


def test_each_claim_in_each_regime_with_either_Delta(verdicts):
    table, comparisons = verdicts
    assert set(table["id"]) == {claim.id for claim in claims.CLAIMS}
    assert set(table["verdict"]) <= set(claims.VERDICTS)
    assert not table.duplicated(["id", "regime", "Delta"]).any()
    for (claim_id, regime), mine in table.groupby(["id", "regime"]):
        assert mine["Delta"].tolist() in ([""], list(claims.GIVEN))
        assert (regime == "landmine") == (claim_id.endswith("landmine")) or not claim_id.endswith("landmine")
    smallest = comparisons.query("id == 'smallest-garland' and regime == 'bernoulli' and Delta == 'true'")
    assert smallest["what"].tolist()[0] == "PF-PNE - HCT (PyXAB)" and (smallest["mean"] < 0).all()
    for low, middle, high in (("low", "mean", "high"), ("ratio_low", "ratio", "ratio_high")):
        found = comparisons[comparisons[middle].notna()]
        assert len(found) and (found[low] <= found[middle]).all() and (found[middle] <= found[high]).all()


def test_the_verdicts_are_corrected_for_the_number_of_claims(verdicts):
    table = verdicts[0].query("regime == 'bernoulli' and Delta != 'true'")
    tested = table[table["p_right"].notna()]
    smallest = tested.set_index("id").loc["smallest-garland"]
    assert smallest["p_right"] > 1 / 2**10  # of the ten runs with FN-UCB, before
    assert smallest["p_right"] <= 2 * len(tested) / 2**10
    assert smallest["verdict"] == "holds"


# --- files ------------------------------------------------------------------------------------------


def cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(separator)]


def test_the_files_of_the_claims_agree(verdicts):
    table = tables.make_claims(made_up(_every_number))
    kept = pd.read_csv(pd.io.common.BytesIO(table.files["claims.csv"]), dtype=str, keep_default_na=False)
    assert kept["verdict"].tolist() == verdicts[0]["verdict"].tolist()
    _, rows = tables.summary(kept)
    assert rows == tables.summary(verdicts[0])[1]
    markdown = table.files["claims.md"].decode().splitlines()[2 : 2 + len(rows)]
    assert [cells(line, "|") for line in markdown] == rows
    latex = [line for line in table.files["claims.tex"].decode().splitlines() if line.endswith(r"\\")]
    latex = [line for line in latex if line != latex[0]]  # the headings, at the top of each part
    assert [cells(line.removesuffix(r"\\"), "&")[2:] for line in latex] == [
        [tables.in_latex(cell) for cell in row[2:]] for row in rows
    ]
    assert table == tables.make_claims(made_up(_every_number))  # the same bytes twice


def test_latex_is_escaped_and_symbols_are_formulas():
    assert tables.in_latex("Delta = 5 % of nu_1") == r"$\Delta$ = 5 \% of $\nu_1$"
    assert tables.in_latex("$c_1$ stays, claims_times.csv & rho") == r"$c_1$ stays, claims\_times.csv \& $\rho$"
    assert tables.in_latex("c^2 {a} ~ #_") == r"c\^{}2 \{a\} \~{} \#\_"
    latex = tables.as_latex(["a", "b"], [["x", "1"], ["", "2"], ["y", "3"]], "ll", "What", "name")
    assert latex.count("{") == latex.count("}") and latex.count(r"\addlinespace") == 1
    assert all(rule in latex for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\label{tab:name}"))


def test_a_long_latex_table_is_in_parts_that_fit_a_page():
    rows = [[f"{k}", "x" * 200] for k in range(100)]
    latex = tables.as_latex_pages(["a", "b"], rows, (0.1, 0.5), "What. " * 50, "name")
    parts = latex.split(r"\begin{table*}")[1:]
    in_part = [sum(line.endswith(r"\\") for line in part.splitlines()) - 1 for part in parts]
    assert sum(in_part) == 100 and len(parts) > 1 and latex.count(r"\label") == 1
    assert all(4 * n <= tables.LINES for n in in_part)  # 200 characters in lines of 65
    assert in_part[0] < in_part[1]  # the caption takes some of the first page


def test_the_readme_shows_the_verdicts_of_claims_csv():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if not (FIGURES / "claims.csv").exists():
        pytest.skip("figures/claims.csv is not there yet")
    assert tables.readme_block(tables.read_claims()) in readme, "run `python -m pfpne readme`"


def test_the_readme_block_is_put_between_its_markers(tmp_path, verdicts):
    (tmp_path / "claims.csv").write_bytes(tables.as_csv(verdicts[0]))
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{tables.BEGIN}\nstale text\n{tables.END}\nafter\n")
    tables.update_readme(readme, tmp_path)
    text = readme.read_text()
    assert (
        text.startswith(f"before\n{tables.BEGIN}\n") and text.endswith(f"{tables.END}\nafter\n") and "stale" not in text
    )
    landmine = verdicts[0].query("regime == 'landmine' and Delta != 'true'")
    counted = landmine["p_right"].isna().sum()
    assert (
        f"landmine, no noise: {len(landmine) - counted} tested (holds" in text and f"{counted} counted (holds" in text
    )
    tables.update_readme(readme, tmp_path)
    assert readme.read_text() == text
    with pytest.raises(ValueError, match="needs the lines"):
        tables.with_block("no markers", "block")


# --- runs -------------------------------------------------------------------------------------------


def test_runs_are_summarized_once_and_damage_is_noticed(tmp_path):
    evidence = Evidence(2, 60, 2, 2, (), n_jobs=1, folder=tmp_path)
    rows = evidence.summary("garland", "pf-pne", "bernoulli", global_regret=True, settings={"Delta": "true"})
    run = pfpne.simulate(
        "pf-pne", pfpne.make_problem("garland", n_clients=2, run=1), 60, global_regret=True, Delta="true"
    )
    row = rows.iloc[1]
    assert row["regret"] == run.regret[:, -1].mean() and row["global_regret"] == run.global_regret[:, -1].mean()
    assert row["rounds"] == len(run.communication) and row["last"] == run.communication["t"].max()
    assert row["numbers"] == run.communication["bytes"].sum() / 8 and row["Delta"] == run.settings["Delta"]
    (kept,) = (tmp_path / "summaries").iterdir()
    before = kept.read_bytes()
    experiment = evidence.experiment(
        "garland", ("pf-pne",), "bernoulli", 2, global_regret=True, settings={"Delta": "true"}
    )
    pd.testing.assert_frame_equal(rows, summarize(experiment, folder=tmp_path))
    kept.write_bytes(before.replace(b"garland", b"x")[:-9])
    pd.testing.assert_frame_equal(rows, summarize(experiment, folder=tmp_path))
    assert kept.read_bytes() == before


@pytest.mark.skipif("fn-ucb" not in NAMES, reason="not registered")
def test_what_is_read_off_a_curve_does_not_depend_on_the_horizon(tmp_path):
    for name in table1.ANYTIME:
        short, long = (pfpne.simulate(name, pfpne.make_problem("garland", n_clients=2), T) for T in (20, 40))
        assert long.t.tolist() == list(range(1, 41))
        np.testing.assert_array_equal(long.regret[:, :20], short.regret)
        pd.testing.assert_frame_equal(long.communication.query("t <= 20"), short.communication)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "data").symlink_to(DATA)
    monkeypatch.setenv("PFPNE_ROOT", str(root))
    monkeypatch.setenv("PFPNE_TERMINAL", "")
    return root


def test_the_notebook_from_end_to_end(project):
    tiny = {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 2, "n_jobs": 1}
    source, target = NOTEBOOKS / "4_table1_and_claims.ipynb", project.parent / "out.ipynb"
    papermill.execute_notebook(source, target, tiny, progress_bar=False, cwd=project.parent)
    folder = project / "figures-custom"
    table = pd.read_csv(folder / "table1.csv", keep_default_na=False)
    assert set(table["algorithm"]) == set(NAMES) and table["local_slope"].between(0, 3).all()
    stated = table[table["stated_regret"] != ""]
    assert set(stated["algorithm"]) == set(table1.STATED)
    markdown = (folder / "table1.md").read_text().splitlines()[2 : 2 + len(table)]
    latex = [
        line.removesuffix(r"\\") for line in (folder / "table1.tex").read_text().splitlines() if line.endswith(r"\\")
    ]
    shown = [[tables.in_latex(cell) for cell in cells(line, "|")] for line in markdown]
    assert [cells(line, "&") for line in latex[2:]] == shown
    kept = tables.read_claims(folder)
    assert set(kept["id"]) == {claim.id for claim in claims.CLAIMS} and set(kept["regime"]) == {"bernoulli", "landmine"}
    for stem in ("table1", "claims", "claims_times"):
        manifest = json.loads((folder / f"{stem}.json").read_text())
        assert manifest["parameters"]["horizon"] == 60
        assert all((folder / name).exists() for name in manifest["files"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    papermill.execute_notebook(source, target, tiny, progress_bar=False, cwd=project.parent)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}  # from what is stored, times too
