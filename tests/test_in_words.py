"""The sentences under the figures: each says what a small table, made up by hand, shows."""

import pandas as pd
import pytest

from pfpne.paper.exhibits import communication, forest_plot, landmine, maps, panels, regret, specification, table1
from pfpne.paper.exhibits.regimes import RANKED_ON_MAP
from pfpne.paper.exhibits.specification import CHOICES, CLAIMED_ORDERINGS
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import complete
from pfpne.paper.run.results import Results
from pfpne.paper.run.selections import PF_PNE_WITH_TRUE_DELTA, RANKED_IN_REGRET_TABLES
from pfpne.paper.show.style import HCT_NOISE_EARLY, algorithm_in_words, listed, rounded, times_as_much


def last_of(runs: int = 10, **rows: tuple[float, float]) -> pd.DataFrame:
    """A row per algorithm (with _ for -): the mean and the standard deviation of its regret at the horizon."""
    rows = {name.replace("_", "-"): (runs, *row) for name, row in rows.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["runs", "mean", "std"])


START = "After T = 1,000 evaluations per client "


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (
            last_of(pf_pne=(140.0, 30.0), hct=(100.0, 11.0), pe=(120.0, 1.0)),
            "HCT has the smallest mean regret R(T)/M, 100. PF-PNE has 1.4 times as much. "
            "Their intervals of one standard deviation on either side of the mean overlap.",
        ),
        (
            last_of(pf_pne=(100.0, 1.0), hct=(104.2, 3.0)),
            "PF-PNE has the smallest mean regret R(T)/M, 100. HCT has 1.04 times as much. "
            "Their intervals of one standard deviation on either side of the mean do not overlap.",
        ),
        (
            last_of(1, fed_pne=(5210.0, 0.0), pe=(52100.0, 0.0)),
            "Fed-PNE has the smallest mean regret R(T)/M, 5,200. PE has 10 times as much. "
            "It is one run, which says nothing about chance.",
        ),
        (last_of(pe=(123.0, 4.56)), "the mean regret R(T)/M of PE is 120. The standard deviation over 10 runs is 4.6."),
        (
            last_of(1, pe=(123.0, 0.0)),
            "the mean regret R(T)/M of PE is 120. It is one run, which says nothing about chance.",
        ),
        (
            last_of(pf_pne=(7.0, 0.0), fed_pne=(7.0, 0.0)),
            "PF-PNE and Fed-PNE have the smallest mean regret R(T)/M, 7.",
        ),
        (
            last_of(pe=(0.0, 0.0), pf_pne=(3.0, 1.0)),
            "PE has the smallest mean regret R(T)/M, 0. PF-PNE has 3. "
            "Their intervals of one standard deviation on either side of the mean do not overlap.",
        ),
    ],
)
def test_who_loses_least(last, words):
    assert regret.compared_in_words(last, 1000) == START + words


def test_few_runs_are_no_test():
    words = regret.compared_in_words(last_of(2, pf_pne=(100.0, 1.0), hct=(110.0, 3.0)), 1000)
    assert words.endswith("do not overlap. With 2 runs this is no test.")


def test_what_pf_pne_was_told_and_how_long_its_last_phase_is():
    p = complete("1_synthetic_regret", {"profile": "smoke", "horizon": 400, "n_runs": 2, "algorithms": "pf-pne,pe"})
    results = p.run_with_true_Delta()
    words = regret.in_words(results, p)
    Deltas = sorted(p.experiment().problem(run).Delta for run in (0, 1))
    assert f"The true Delta is from {Deltas[0]:.2g} to {Deltas[1]:.2g}, by run." in words
    assert "PF-PNE's last phase, which T cuts, takes " in words
    given = regret.in_words(p.run(), p)
    assert "true Delta" not in given


def of_runs(monkeypatch, regrets: dict[str, float], **given) -> tuple:
    """Results and parameters of two runs of 60 evaluations, with these regrets at the end, and 1 less in the first."""
    p = complete("1_synthetic_regret", {"profile": "smoke", "horizon": 60, "n_runs": 2, **given})
    rows = [
        {"objective": "garland", "noise": p.noise, "algorithm": name, "run": run, "t": t, "regret": value + run - 1}
        for name, value in regrets.items()
        for run in (0, 1)
        for t in (30, 60)
    ]
    table = pd.DataFrame(rows)
    table.loc[table["t"] == 30, "regret"] = 0.0  # what counts is the end
    monkeypatch.setattr(Results, "regret", table)
    return Results(p.experiment(), {}), p


def test_only_who_is_drawn_is_compared(monkeypatch):
    regrets = {name: 101.0 + k for k, name in enumerate(RANKED_IN_REGRET_TABLES)}
    regrets |= {"hct": 11.0, "blin": 12.0, "hoo": 51.0}
    results, p = of_runs(monkeypatch, regrets)
    assert p.reading_in_name(results.experiment) == "printed"  # its figure has neither HCT nor BLiN
    words = regret.in_words(results, p)
    assert words.startswith("After T = 60 evaluations per client HOO has the smallest mean regret R(T)/M, 50. PF-PNE")
    results, p = of_runs(monkeypatch, regrets, algorithms="hct,pf-pne,blin")  # a figure with all of them
    assert "HCT has the smallest mean regret R(T)/M, 10. PF-PNE has 9.6 times" in regret.in_words(results, p)
    results, p = of_runs(monkeypatch, {"hct": 11.0}, algorithms="hct")
    assert "of HCT is 10. The standard deviation over 2 runs is 0.71." in regret.in_words(results, p)


def test_who_is_first_on_how_many_objectives(monkeypatch):
    ends = {"garland": (3.0, 1.0, 2.0), "ackley": (3.0, 2.0, 1.0), "himmelblau": (1.0, 3.0, 2.0)}
    rows = [
        {"objective": objective, "algorithm": name, "run": 0, "t": t, "regret": value if t == 9 else 0.0}
        for objective, values in ends.items()
        for name, value in zip(("hoo", "pf-pne", "pe"), values, strict=True)
        for t in (4, 9)
    ]
    table = pd.DataFrame(rows)
    monkeypatch.setattr(Results, "regret", property(lambda self: table))
    results = Results(Experiment("garland", 2, 9, algorithms=("pe",), n_runs=1), {})
    words = regret.ranking_in_words([results])
    assert words.startswith("Of 3 algorithms, the smallest mean regret is that of ")
    for part in ("that of HOO on 1", "that of PF-PNE on 1", "that of PE on 1", "on 1 of 3 objectives. "):
        assert part in words
    assert words.endswith("PF-PNE's rank is 1 on Garland, 2 on Ackley and 3 on Himmelblau.")
    table = table[table["algorithm"] != "pf-pne"]
    words = regret.ranking_in_words([results])
    assert words == (
        "Of 2 algorithms, the smallest mean regret is that of PE on 2 and that of HOO on 1 of 3 objectives."
    )


def test_what_is_sent(monkeypatch):
    rounds = [("fed-pne", 0, 1, 5, 10, 20), ("fed-pne", 0, 2, 1_500, 10, 20), ("fed-pne", 1, 1, 7, 40, 80)]
    rounds += [("pf-pne", 0, 1, 3, 100, 300), ("pf-pne", 1, 1, 12, 100, 300)]
    columns = ["algorithm", "run", "round", "t", "up", "down"]
    table = pd.DataFrame(rounds, columns=columns).assign(objective="garland", noise=0.1, bytes=8)
    monkeypatch.setattr(Results, "communication", property(lambda self: table))
    two = Results(Experiment("garland", 2, 2_000, algorithms=("pf-pne", "fed-pne"), n_runs=2), {})
    assert communication.in_words(two) == (
        "This is how many numbers are sent on average until T = 2,000, up and down together: Fed-PNE 90 and PF-PNE "
        "400. The latest round in any of 2 runs is that of Fed-PNE at t = 1,500 and that of PF-PNE at t = 12."
    )
    table = table[(table["algorithm"] == "pf-pne") & (table["run"] == 0)]
    one = Results(Experiment("garland", 2, 2_000, algorithms=("pf-pne",), n_runs=1), {})
    assert communication.in_words(one) == (
        "This is how many numbers are sent on average until T = 2,000, up and down together: PF-PNE 400. The latest "
        "round in the run is that of PF-PNE at t = 3."
    )
    assert communication.in_words(two).endswith(
        "PF-PNE 200. The latest round in any of 2 runs is that of PF-PNE at t = 3."
    )
    table = table[:0]
    assert communication.in_words(one) == "Nothing is sent in the 2,000 evaluations per client."


def test_how_fast_regret_grows():
    nan = float("nan")
    rows = [("pf-pne", "garland", 50, 0.2, 0.1, 0.3)]  # not at the longest T
    rows += [("pf-pne", "garland", 100, 0.98, 0.9, 1.06), ("hoo", "garland", 100, 0.4, 0.3, 0.5)]
    rows += [("pf-pne", "ackley", 100, 0.7, 0.6, 0.8), ("hoo", "ackley", 100, 0.8, 0.7, 0.9)]
    rows += [("blin", "ackley", 100, 0.1, 0.1, 0.1), ("pe", "ackley", 100, nan, nan, nan)]  # not drawn, not known
    table = pd.DataFrame(rows, columns=["algorithm", "objective", "T", "exponent", "low", "high"])
    smallest = "The smallest exponents are 0.40 on Garland (HOO) and 0.70 on Ackley (PF-PNE)."
    ours = "PF-PNE's is 0.98 on Garland and 0.70 on Ackley."
    assert table1.in_words(table) == (
        "Over the last doubling, to T = 100, regret grows more slowly than T in 3 of 4 cases of an algorithm and an "
        f"objective (the 95 % interval of the exponent is below 1). {smallest} {ours}"
    )
    assert table1.in_words(table.assign(low=nan, high=nan)) == (
        f"Over the last doubling, to T = 100, nothing is shown, because one run has no interval. {smallest} {ours}"
    )
    assert "PF-PNE's" not in table1.in_words(table[table["algorithm"] == "hoo"])
    assert table1.in_words(table[:0]) == "No exponent could be measured: there is one T alone, or regret is 0."


def test_who_is_first_on_the_map():
    rows = [("garland", 0.0, "pf-pne", True), ("garland", 0.1, "pe", False), ("landmine", 0.0, "pe", True)]
    table = pd.DataFrame(
        [
            {
                "objective": objective,
                "shift": shift,
                **dict.fromkeys(RANKED_ON_MAP, 2.0),
                best: 1.0,
                "best": best,
                "clear": clear,
            }
            for objective, shift, best, clear in rows
        ]
    )
    assert maps.in_words(table) == (
        "This is who has the smallest mean regret in 3 regimes: PE in 2 and PF-PNE in 1. The lead over every other is "
        "more than two standard errors in 2. PF-PNE has less regret than PE, its own search without a federation, in "
        "1 of 1 with identical clients and 0 of 2 with differing clients."
    )
    assert maps.in_words(table[1:2]).startswith("This is who has the smallest mean regret in 1 regime: PE in 1. ")
    assert maps.in_words(table[1:2]).endswith("in 0 of 1 with differing clients.")


def test_the_grid_of_the_map_in_words():
    words, _, _, _, *rows = maps.grid_in_words(complete("8_regime_map", {"profile": "smoke"})).splitlines()
    assert words.startswith("The map has 6 regimes, with 3 paired runs of each, random cells and seed 0. Landmine's")
    assert [row.split(" | ")[1].strip(" |") for row in rows] == [
        "Garland, Landmine",
        "Bernoulli rewards, noise ±0.1",
        "0, 0.1",
        "4",
        "1,000",
    ]
    whole = maps.grid_in_words(complete("8_regime_map", {}))
    assert whole.startswith("The map has 2,109 regimes")
    assert "If M T is 10,000,000 or more, a regime has only this noise: Bernoulli rewards." in whole
    narrow = {"noise": 0.3, "n_clients": 8, "objective": "garland"}
    assert maps.grid_in_words(complete("8_regime_map", narrow)).startswith("The map has 18 regimes, ")


def test_which_choice_moves_most():
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe")
    usual = {name: values[0] if values else "bernoulli" for name, values in CHOICES.items()}
    rows = [  # PF-PNE is first in the first, second and third of four; of T = 100 in 1 of 2
        usual | {"T": 10, "c": 0.1},
        usual | {"T": 10, "c": 0.05},
        usual | {"T": 100, "c": 0.1},
        usual | {"T": 100, "c": 0.05},
    ]
    regrets = [1.0, 1.0, 1.0, 9.0]
    table = pd.DataFrame(
        [
            {"objective": "garland", **row, **dict(zip(names, (ours, 2, 3, 4, 5, 6), strict=True))}
            for row, ours in zip(rows, regrets, strict=True)
        ]
    )
    assert next(iter(CLAIMED_ORDERINGS)) == specification.MAIN_CLAIM
    assert specification.in_words(table) == (
        "PF-PNE has the smallest regret of the five in 75% of 4 combinations on Garland. The choice that changes this "
        "share most takes it on Garland from 50% (T: 100) to 100% (T: 10)."
    )
    assert specification.in_words(table[:1]) == (
        "PF-PNE has the smallest regret of the five in 100% of 1 combinations on Garland."
    )


def test_who_has_less_regret_than_pf_pne():
    nan = float("nan")
    rows = [
        ("random", "pe", 0.5, 0.4, 0.6),
        ("random", "pe", 1.0, 0.9, 1.1),
        ("random", PF_PNE_WITH_TRUE_DELTA, 2.0, 1.5, 2.5),
    ]
    rows += [("cyclic", "pe", 0.5, 0.4, 0.6), ("random", "fn-ucb", 3.0, nan, nan)]  # other cells; one run
    table = pd.DataFrame(rows, columns=["cells", "algorithm", "ratio", "low", "high"])
    assert forest_plot.in_words(table) == (
        "On random cells, the interval of the ratio is below 1, where an algorithm has less regret than PF-PNE, in 1 "
        "of 3 cases. It is above 1 in 1, and contains 1 in 1. In this order, by algorithm: PF-PNE with the true Delta "
        "0/1/0 and PE 1/0/1."
    )
    assert forest_plot.in_words(table[4:]) == "No ratio has an interval, so nothing is shown about who has less regret."


def test_what_the_points_on_landmine_lose():
    rows = [("pf-pne", 0.70, 5.0), ("pf-pne", 0.60, 5.0), ("pe", 0.75, 1.0), ("pe", 0.75, 2.0)]
    table = pd.DataFrame(rows, columns=["algorithm", "auc", "C"]).assign(gamma=1.0, best_auc=0.8)
    assert landmine.in_words(table) == (
        "In the first run PE loses least AUC at the points that its clients would use, against the best point of the "
        "grid: 0.05 on average. PF-PNE loses 0.15. It gives its 2 clients the same point."
    )
    table.loc[1, "C"] = 6.0
    assert landmine.in_words(table).endswith("It gives its 2 clients 2 different points.")
    assert landmine.in_words(table[2:]) == (
        "In the first run PE loses 0.05 of AUC on average, at the points that its clients would use, against the best "
        "point of the grid."
    )


def test_numbers_and_names_as_a_sentence_has_them():
    assert [rounded(x) for x in (69_028.8, 0.0123, 1.0)] == ["69,000", "0.012", "1"]
    assert [times_as_much(x) for x in (1.043, 1.449, 12.3)] == [f"{x} times as much" for x in ("1.04", "1.4", "12")]
    assert [listed("a"), listed("ab"), listed("abc")] == ["a", "a and b", "a, b and c"]
    assert (
        algorithm_in_words(HCT_NOISE_EARLY) == "HCT with measured noise and early descent"
        and algorithm_in_words("pe") == "PE"
    )


def test_the_settings_in_use_are_said():
    asked = {"profile": "smoke", "algorithms": "pf-pne,pe,blin", "c": 0.25, "n_clients": 5}
    words, _, _, _, *rows = panels.settings_in_words(complete("1_synthetic_regret", asked)).splitlines()
    assert words.startswith("Garland (1-D), noise ±1: M = 5 clients, T = 1,000 evaluations per client, n = 3 runs, ")
    assert words.endswith(" random cells, shift 0.1, seed 0.")
    assert rows == [
        "| PF-PNE | nu_1 = 1, rho = 0.5, c = 0.25, c_1 = 1, delta = 0.2, Delta = 0.01 |",
        "| PE | nu_1 = 1, rho = 0.5, c = 0.25, c_1 = 1, delta = 0.2 |",
        "| BLiN | c_pulls = 0.75, c_gap = 0.25 |",
    ]
    landmine = complete("2_landmine_auc", {"profile": "smoke", "algorithms": "pe"})
    assert "random cells, seed 0." in panels.settings_in_words(landmine)
