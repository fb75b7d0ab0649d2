"""The claims: the statistics by hand, each kind of test on made-up runs, the verdicts, the notebook from end to end."""

import itertools
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import papermill
import pytest

import pfpne
from pfpne.algorithms import NAMES
from pfpne.paper import __main__ as runner
from pfpne.paper import claims, stats, table1
from pfpne.paper.claim_tests import MOST, MUCH, Column, Comparison, Outcome, in_words, inequalities, last_depth
from pfpne.paper.claim_tests import place, rounds_bound
from pfpne.paper.evidence import COLUMNS, Regime, Study, summarize
from pfpne.paper.parameters import SYNTHETIC_NAMES
from pfpne.paths import DATA, NOTEBOOKS


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
def test_sign_flip_agrees_with_all_signs_one_by_one(n):
    values = np.random.default_rng(n).normal(-0.3, 1, n)
    sums = np.array([np.dot(signs, values) for signs in itertools.product((-1, 1), repeat=n)])
    below, above = (sums <= values.sum() + 1e-12).mean(), (sums >= values.sum() - 1e-12).mean()
    assert stats.sign_flip(values, rng()) == (below, above)


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
class MadeUp(Study):
    """Study whose runs are computed from `tell(algorithm, run, **what it was asked)`, a dict of COLUMNS."""

    tell: object = None

    def summary(self, objective, algorithms, noise, n_runs=None, **changes):
        n_runs = self.runs_of(algorithms) if n_runs is None else n_runs
        asked = {"objective": objective, "noise": noise, "n_clients": self.n_clients, "horizon": self.horizon}
        asked |= {"settings": {}, **changes}
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


CLAIMS = {claim.id: claim for claim in claims.CLAIMS}


def outcome(claim_id: str, study: Study, own_Delta=False) -> Outcome:
    """What one claim's test finds under Bernoulli rewards."""
    return CLAIMS[claim_id].test(study, study.regimes[0], claims.GIVEN[own_Delta])


def verdict(claim_id: str, study: Study) -> str:
    """The verdict on one claim alone, without correction."""
    found = outcome(claim_id, study)
    if not found.comparisons:
        return claims.judge_facts(found.facts)
    return claims.judge(*claims.together(found.p(rng()), found.every))


def test_a_column_gives_pf_pne_its_Delta_unless_the_claim_says_otherwise():
    asked = []
    study = made_up(lambda algorithm, run, what: asked.append((algorithm, what["settings"])) or {}, n_runs=1)
    paper, own = (Column(study, study.regimes[0], ["garland"], own_Delta) for own_Delta in (False, True))
    for column in (paper, own):
        column.summary("garland")
        column.summary("garland", "fed-pne")
        column.summary("garland", settings={"c": 0.2})
        column.summary("garland", settings={"Delta": 0.0})
    paper.summary("garland", settings={"Delta": 0.01})  # the default
    pf_pne, fed_pne = [{}, {"c": 0.2}, {"Delta": 0.0}], {}
    true = {"Delta": "true"}
    assert [settings for name, settings in asked if name == "fed-pne"] == [fed_pne, fed_pne]
    found = [settings for name, settings in asked if name == "pf-pne"]
    assert found == [*pf_pne, true, true | {"c": 0.2}, {"Delta": 0.0}, {}]


# --- comparisons ------------------------------------------------------------------------------------

ALL = {"fed1_ucb": 140, "fn_ucb": 150, "fed_pne": 130}


@pytest.mark.parametrize(("hct", "expected"), [(120, "holds"), (80, "does not hold"), (100, "undecided")])
def test_the_smallest_is_smaller_than_each(hct, expected):
    assert verdict("smallest-garland", with_regrets(pf_pne=100, hct_pyxab=hct, **ALL)) == expected


def test_ten_runs_count_where_fn_ucb_takes_part_and_too_few_decide_nothing():
    study = with_regrets(pf_pne=100, hct_pyxab=200, **ALL)
    found = outcome("smallest-garland", study)
    assert [len(comparison.excess) for comparison in found.comparisons] == [30, 30, 10, 30]
    assert verdict("smallest-garland", replace(study, n_runs=3, figure_runs=3)) == "undecided"


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "does not hold"), (190, "holds"), (230, "does not hold")])
def test_slightly_better_is_better_but_not_much(pf_pne, expected):
    assert verdict("doublesine-hct", with_regrets(pf_pne=pf_pne, hct_pyxab=220)) == expected


@pytest.mark.parametrize(("pf_pne", "expected"), [(100, "holds"), (120, "does not hold"), (300, "does not hold")])
def test_much_better_is_half_at_most(pf_pne, expected):
    assert verdict("doublesine-fed", with_regrets(pf_pne=pf_pne, fed_pne=220)) == expected


SIMILAR_TO_220 = {180: "holds", 260: "holds", 160: "does not hold", 300: "does not hold", 275: "undecided"}


@pytest.mark.parametrize(("pf_pne", "expected"), SIMILAR_TO_220.items())
def test_similar_has_to_be_shown(pf_pne, expected):
    assert verdict("ackley-hct", with_regrets(pf_pne=pf_pne, hct_pyxab=220)) == expected


@pytest.mark.parametrize(("best", "expected"), [(100, "holds"), (290, "does not hold")])
@pytest.mark.parametrize("whose", ["pf_pne", "hct_pyxab"])
def test_far_from_satisfactory_is_twice_the_regret_of_another(whose, best, expected):
    regrets = {"fed_pne": 300, "pf_pne": 400, "hct_pyxab": 350, "fed1_ucb": 500, "fn_ucb": 500, whose: best}
    assert verdict("fed-far-garland", with_regrets(**regrets)) == expected


@pytest.mark.parametrize(("alike", "expected"), [(100, "holds"), (200, "does not hold")])
def test_fed_pne_depends_on_the_similarity_of_the_clients(alike, expected):
    def tell(algorithm, run, asked):
        assert algorithm == "fed-pne"
        return {"regret": (alike if asked.get("shift") == 0 else 300) + np.sin(run)}

    assert verdict("fed-depends-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("alone", "expected"), [(300, "holds"), (80, "does not hold")])
def test_better_than_alone(alone, expected):
    def tell(algorithm, run, asked):
        assert asked["shift"] == 0
        return {"regret": {"pf-pne": 100, "pe": alone}[algorithm] + np.sin(run)}

    assert verdict("better-than-pe-garland", made_up(tell)) == expected


@pytest.mark.parametrize(("zero", "expected"), [(110, "holds"), (200, "does not hold")])
def test_similar_with_a_Delta_of_its_own(zero, expected):
    def tell(algorithm, run, asked):
        Delta = asked["settings"].get("Delta", 0.01)
        return {"regret": {("pf-pne", 0.0): zero, ("fed-pne", 0.01): 100}[algorithm, Delta] + np.sin(run)}

    assert verdict("delta-zero-garland", made_up(tell)) == expected


@pytest.mark.parametrize(
    ("exponent", "falls", "as_stated"),
    [(-0.4, "holds", "holds"), (-0.1, "holds", "does not hold"), (0.1, "does not hold", "does not hold")],
)
def test_falls_with_M(exponent, falls, as_stated):
    def tell(algorithm, run, asked):
        assert asked["shift"] == 0
        return {"regret": (1 + 0.01 * np.sin(run)) * asked["n_clients"] ** (exponent + 0.001 * np.cos(run))}

    assert verdict("falls-with-M-garland", made_up(tell)) == falls
    assert verdict("falls-as-stated-garland", made_up(tell)) == as_stated  # -1/4


@pytest.mark.parametrize(("exponent", "expected"), [(0.8, "holds"), (1.1, "does not hold")])
@pytest.mark.parametrize("worst", [1.0, 0.0])
def test_sublinear_whatever_Delta(worst, exponent, expected):
    def tell(algorithm, run, asked):
        bad = asked["settings"].get("Delta") == worst
        return {"regret": asked["horizon"] ** ((exponent if bad else 0.7) + 0.001 * np.cos(run))}

    assert verdict("sublinear-any", made_up(tell)) == expected
    assert verdict("sublinear", made_up(tell)) == (expected if worst == 1.0 else "holds")  # 0 bounds nothing


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "holds"), (1.5, "does not hold")])
def test_settings_matter_little_unless_one_does(factor, expected):
    def tell(algorithm, run, asked):
        return {"regret": (factor if asked["settings"].get("c") == 0.2 else 1.0) * (100.0 + run)}

    assert verdict("settings-garland", made_up(tell)) == expected
    found = outcome("settings-garland", made_up(tell))
    assert len(found.comparisons) == 20 and ("to 1.5 (c = 0.2)" in found.measured) == (factor == 1.5)
    assert len(outcome("settings-garland", made_up(tell), own_Delta=True).comparisons) == 16  # Delta cannot be moved


def test_the_place_among_rivals():
    mine = np.array([3.0, 3.0, 9.0])
    assert place(mine, [np.array([first, first]) for first in (1.0, 2.0, 3.0, 4.0)]) == 3  # the third has no rival


# --- facts ------------------------------------------------------------------------------------------


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
        ("pf-stops", {}, "holds"),
        ("pf-stops", {"rounds": 7}, "undecided"),
        ("pf-stops", {"rounds": 9}, "does not hold"),
        ("pf-stops", {"last": 100_000}, "does not hold"),
        ("bounded", {"numbers": MOST_NUMBERS}, "holds"),
        ("bounded", {"numbers": MOST_NUMBERS + 1}, "does not hold"),
        ("bounded", {"rounds": 9}, "does not hold"),
        ("fed-grows", {}, "holds"),
        ("fed-grows", {"fed_last": 9_000}, "does not hold"),
        ("fed-grows", {"last": 50_000}, "holds"),
        ("delta-zero-cost", {"numbers": 9_000}, "holds"),
        ("delta-zero-cost", {"numbers": 12_000}, "does not hold"),
        ("delta-zero-cost", {"numbers": 7_000}, "does not hold"),
        ("delta-bounds", {}, "holds"),
        ("delta-bounds", {"Delta": 0.02}, "does not hold"),
    ],
)
def test_communication_is_counted(claim_id, changed, expected):
    numbers = {"rounds": 8, "last": 5_000, "numbers": 3_000, "fed_last": 40_000, "Delta": 0.01, **changed}
    fed = {"rounds": 12, "last": numbers.pop("fed_last"), "numbers": 9_000, "Delta": math.nan}
    study = made_up(lambda algorithm, run, asked: numbers if algorithm == "pf-pne" else fed)
    assert verdict(claim_id, study) == expected
    against = outcome(claim_id, study).against
    assert against.startswith("Garland: ") if expected == "does not hold" else against == ""


@pytest.mark.parametrize(("more", "expected"), [(0, "holds"), (1, "does not hold")])
def test_rounds_within_the_bound(more, expected):
    def tell(algorithm, run, asked):
        Delta = asked["settings"].get("Delta", 0.01)
        Delta = 0.2 if Delta == "true" else Delta
        return {"Delta": Delta, "rounds": int(rounds_bound(Delta, asked["horizon"], 20)) + more}

    assert verdict("rounds-bound", made_up(tell)) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(20.0, "holds"), (3.0, "does not hold"), (3.95, "undecided")])
def test_times_decide_without_being_told(seconds, expected):
    study = made_up(lambda algorithm, run, asked: {"seconds": seconds + run / 100 if algorithm == "fn-ucb" else 2.0})
    assert verdict("time-others", study) == "holds"
    assert verdict("time-fn-ucb", study) == expected
    assert f"{seconds:g}" not in outcome("time-fn-ucb", study).measured
    times = claims.times(study)
    assert times["fn-ucb"].max() == pytest.approx(seconds + 0.045) and (times["alike"] == 1).all()
    assert times["slower"].tolist() == [np.mean(seconds + np.arange(10) / 100 >= 4)] * len(times)
    assert times["objective"].tolist() == ["garland", "himmelblau", "rastrigin", "landmine"]


# --- how a verdict is reached -----------------------------------------------------------------------


def test_judging():
    assert claims.judge(0.05, 1.0) == "holds" and claims.judge(1.0, 0.05) == "does not hold"
    assert claims.judge(0.051, 0.051) == "undecided"
    assert claims.judge_facts((True, True)) == "holds"
    assert claims.judge_facts((True, None)) == "undecided"
    assert claims.judge_facts((True, None, False)) == "does not hold"


def test_the_comparisons_of_a_claim_taken_together():
    low, high = (1 / 32, 1.0), (1.0, 1 / 32)  # surely right, surely wrong
    assert claims.together(np.array([low, low]), every=True) == (1 / 32, 1.0)
    assert claims.together(np.array([low, high]), every=True) == (1.0, 2 / 32)
    assert claims.together(np.array([low, high]), every=False) == (2 / 32, 1.0)
    assert claims.together(np.array([high, high]), every=False) == (1.0, 1 / 32)


def test_what_decides_is_the_furthest_from_the_claim_and_refutes_what_does_not_hold():
    nearer, further = (Comparison("", np.full(5, margin), np.zeros(5)) for margin in (0.1, 0.3))
    every, one = (Outcome((nearer, further), every) for every in (True, False))

    def decides(found, verdict, p_nearer, p_further, corrected):
        column = 1 if found.every else 0
        p = np.ones((2, 2))
        p[:, column] = p_nearer, p_further
        return claims.deciding(found, verdict, p, (1.0, corrected) if found.every else (corrected, 1.0))

    assert decides(every, "does not hold", 0.001, 0.9, 0.02) is nearer
    assert decides(every, "undecided", 0.001, 0.9, 0.02) is further
    assert decides(every, "does not hold", 0.001, 0.01, 0.02) is nearer  # 2 * 0.01 alone, 0.2 once corrected
    assert decides(one, "holds", 0.9, 0.001, 0.02) is further  # at least one of them, and it is this
    assert decides(one, "undecided", 0.9, 0.001, 0.02) is nearer


def test_comparisons_in_brief():
    mine, theirs = np.array([2.0, 4.0]), np.array([1.0, 3.0])
    (below,), (above,) = inequalities(mine, theirs, "A - B", below=1), inequalities(mine, theirs, "c = 0.2", above=2)
    assert below.brief == "A / B = 1.5" and below.margin == 0.5 and below.excess.tolist() == [1, 1]
    assert above.brief == "c = 0.2: ratio 1.5" and above.margin == 0.5 and above.excess.tolist() == [0, 2]
    assert len(inequalities(mine, theirs, "", 1.25, 0.8)) == 2
    slopes = np.array([0.8, 0.9])
    assert Comparison("slope", slopes - 1, slopes).brief == "slope: 0.85"


# --- the list of claims -----------------------------------------------------------------------------


PLACE = r"Abstract|(Section|Table|Figure|Assumption|Theorem|Remark|Corollary|Appendix) [C\d](\.\d)?"


def test_every_claim_has_an_id_of_its_own_and_a_place_in_the_paper():
    assert len(CLAIMS) == len(claims.CLAIMS)
    for claim in claims.CLAIMS:
        assert all(re.fullmatch(PLACE, where) for where in claim.place.split(", "))


def test_statements_say_what_the_tests_are_given():
    for claim in claims.CLAIMS:
        given, said = claim.arguments, claim.statement.replace("1/2", "0.5")
        compared = claim.kind.startswith("compare") or claim.kind == "costs_as_fed_pne"
        bounds = [given.get("within"), *(given.get(side) for side in ("below", "above") if compared)]
        for bound in {max(x, 1 / x) if x != 0.5 else x for x in bounds if x} - {1}:
            assert f"{bound:g}" in said, claim.id
        assert ", ".join(map(in_words, given.get("deltas", []))) in said
        for name, (low, high) in given.get("ranges", {}).items():
            assert f"{name} to {low:g} or {high:g}" in said
        if claim.kind == "count_times":
            assert f" {MUCH:g} times" in said and f"{MOST:.0%}" in said and f"{1 - MOST:.0%}" in said
    assert f"Delta = {claims.GIVEN[0]} " in CLAIMS["delta-bounds"].statement


def test_another_claim_makes_the_notebooks_again(monkeypatch, tmp_path):
    notebook = NOTEBOOKS / "4_table1_and_claims.ipynb"
    before, edited = runner.fingerprint(notebook, {}), tmp_path / claims.TABLE.name
    edited.write_text(claims.TABLE.read_text(encoding="utf-8").replace("below = 1.25", "below = 1.3"), encoding="utf-8")
    monkeypatch.setattr(runner, "CLAIMS_TABLE", edited)
    assert runner.fingerprint(notebook, {}) != before


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
    assert table["id"].unique().tolist() == list(CLAIMS)
    assert set(table["verdict"]) <= set(claims.VERDICTS)
    assert (table[["quote", "statement", "measured", "statistic", "runs"]] != "").all(axis=None)
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


# --- runs -------------------------------------------------------------------------------------------


def test_runs_are_summarized_once_and_damage_is_noticed(tmp_path):
    study = Study(2, 60, 2, 2, (), n_jobs=1, folder=tmp_path)
    rows = study.summary("garland", "pf-pne", "bernoulli", global_regret=True, settings={"Delta": "true"})
    run = pfpne.simulate(
        "pf-pne", pfpne.make_problem("garland", n_clients=2, run=1), 60, global_regret=True, Delta="true"
    )
    row = rows.iloc[1]
    assert row["regret"] == run.regret[:, -1].mean() and row["global_regret"] == run.global_regret[:, -1].mean()
    assert row["rounds"] == len(run.communication) and row["last"] == run.communication["t"].max()
    assert row["numbers"] == run.communication["bytes"].sum() / 8 and row["Delta"] == run.settings["Delta"]
    (kept,) = (tmp_path / "summaries").iterdir()
    before = kept.read_bytes()
    experiment = study.experiment(
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
    (folder,) = (project / "figures-custom").iterdir()
    table = pd.read_csv(folder / "table1.csv", keep_default_na=False)
    assert set(table["algorithm"]) == set(NAMES) and table["local_slope"].between(0, 3).all()
    stated = table[table["stated_regret"] != ""]
    assert set(stated["algorithm"]) == set(table1.STATED)
    kept = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)
    assert set(kept["id"]) == {claim.id for claim in claims.CLAIMS} and set(kept["regime"]) == {"bernoulli", "landmine"}
    for stem in ("table1", "claims", "claims_times"):
        manifest = json.loads((folder / f"{stem}.json").read_text())
        assert manifest["parameters"]["horizon"] == 60
        assert all((folder / name).exists() for name in manifest["files"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    papermill.execute_notebook(source, target, tiny, progress_bar=False, cwd=project.parent)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}  # from what is stored, times too
