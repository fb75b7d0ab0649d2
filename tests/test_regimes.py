"""The regime map: which runs there are, that they are the ones of everything else, what is drawn and said of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.claims.evidence import summarize, summarize_many
from pfpne.paper.exhibits import guide, maps, regimes
from pfpne.paper.exhibits.regimes import GRIDS, LARGE_RUN, RANKED_ON_MAP, REGIME_COLUMNS, Grid
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import complete
from pfpne.paper.show.style import HCT_NOISE_EARLY, PF_PNE_WITH_TRUE_DELTA
from pfpne.problems import make_problem
from pfpne.simulation.simulate import partition_of

TINY = {"profile": "smoke", "objective": "garland", "n_clients": 2, "horizon": 60, "n_runs": 2, "n_jobs": 1}


@pytest.fixture(scope="module")
def parameters():
    return complete("8_regime_map", TINY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def table(parameters, folder):
    return regimes.measure(parameters, folder)


def test_the_map_has_every_regime_once_but_the_largest_under_few_noises():
    grid = GRIDS["paper"]
    every = grid.regimes()
    assert len(set(every)) == len(every)
    plain = [regime for regime in every if regime[0] == "garland"]
    assert len(plain) == 7 * 6 * 9 - 6 * 6  # of the largest M and T, one noise of seven
    assert sum(regime[0] == "landmine" for regime in every) == 7 * 9 - 6
    assert {shift for objective, _, shift, *_ in every if objective == "landmine"} == {grid.shifts[0]}
    assert {noise for _, noise, _, M, T in every if M * T >= LARGE_RUN} == set(grid.noises_of_large_runs)


def test_parameters_that_are_given_narrow_it():
    grid = Grid.from_parameters(complete("8_regime_map", {"objective": "rastrigin", "noise": 0.3, "horizon": 10**6}))
    assert {regime[:2] + regime[4:] for regime in grid.regimes()} == {("rastrigin", 0.3, 10**6)}
    assert len(grid.regimes()) == 6 * 3
    assert Grid.from_parameters(complete("8_regime_map", {})) == GRIDS["paper"]
    one = GRIDS["paper"].one_noise
    assert (one.noises, one.horizons) == (("bernoulli",), (100_000,)) and len(one.regimes()) == 6 * 6 * 3 + 3


def test_a_sketch_is_the_summary_and_is_made_once(folder, monkeypatch):
    experiment = Experiment("garland", 2, 60, algorithms=("pf-pne", "hct"), n_runs=2, common_shift=0.1)
    (table,) = summarize_many([[experiment]], 1, folder=folder)[0]
    expected = summarize(experiment, 1, folder)
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), expected.drop(columns="seconds"))
    monkeypatch.setattr(Experiment, "simulate", None)  # not called again
    pd.testing.assert_frame_equal(summarize_many([[experiment]], 1, folder=folder)[0][0], table)


def test_measured_regimes(parameters, table, folder):
    assert len(table) == 4 and not table.duplicated(REGIME_COLUMNS).any()
    first = table.iloc[0]
    own = {"noise": first["noise"], "shift": first["shift"], "common_shift": regimes.COMMON_SHIFT}
    experiment = Experiment("garland", 2, 60, algorithms=("hct",), n_runs=2, **own)
    assert first["hct"] == pytest.approx(summarize(experiment, 1, folder)["regret"].mean())
    assert (table[RANKED_ON_MAP].min(axis=1) == [row[row["best"]] for _, row in table.iterrows()]).all()
    alike = table[table["shift"] == 0]
    assert (alike["spread"] < 1e-12).all() and (alike["Delta"] == 0).all() and (table["spread"].iloc[-1] > 0.01)
    assert set(table["sigma"]) == {0.5, 0.1 / np.sqrt(3)}


def replace_runs(monkeypatch, table_of) -> list:
    """Let table_of(experiment) stand for the runs of each experiment; return the list of those that are asked for."""
    asked = []

    def summarize_many(groups, *_):
        asked.extend(experiment for group in groups for experiment in group)
        return [[table_of(experiment) for experiment in group] for group in groups]

    monkeypatch.setattr(regimes, "summarize_many", summarize_many)
    return asked


def test_the_map_has_the_parameters_seed_and_cells_and_ranks_what_needs_no_Delta(monkeypatch):
    """PE has regret 1, PF-PNE with the clients' own Delta less or as much, which is not ranked, and the others 2."""

    def table_of(experiment):
        (name,), Delta = experiment.algorithms, experiment.settings.get("Delta")
        regret = [1.0, 0.9] if Delta else [1.0, 1.0] if name == "pe" else [2.0, 2.0]
        return pd.DataFrame({"run": [0, 1], "regret": regret, "Delta": [0.2, 0.4] if Delta else 0.01})

    asked = replace_runs(monkeypatch, table_of)
    table = regimes.measure(complete("8_regime_map", TINY | {"noise": 0.1, "seed": 5, "cells": "cyclic"}))
    assert {(e.seed, e.cells, e.common_shift, e.n_runs) for e in asked} == {(5, "cyclic", regimes.COMMON_SHIFT, 2)}
    assert table["best"].tolist() == ["pe"] * 2 and table["clear"].all()
    assert table[PF_PNE_WITH_TRUE_DELTA].tolist() == [0.95] * 2 and table["Delta"].tolist() == pytest.approx([0.3] * 2)


def made_up(behind: dict) -> pd.DataFrame:
    """A map in which the algorithm behind(sigma) is 1, every other 2, on two objectives."""
    rows = []
    for objective in ("garland", "ackley"):
        for sigma in (0.05, 0.1, 0.5, 1.0):
            for M in (5, 20):
                values = dict.fromkeys([*RANKED_ON_MAP, PF_PNE_WITH_TRUE_DELTA], 2.0) | {behind[sigma > 0.2]: 1.0}
                place = {"objective": objective, "noise": sigma, "shift": 0.1 * (M == 5), "clients": M, "horizon": 100}
                rows.append({**place, **values, "sigma": sigma, "spread": 0.1, "Delta": 0.1})
    return pd.DataFrame(rows)


def test_the_rules_find_what_decides():
    rules, (trust,) = guide._rules(made_up({False: "hct", True: "pf-pne+"}))
    taken = dict(zip(rules["If"], rules["Take"], strict=True))
    assert taken == {"noise below 0.22": "HCT", "noise above 0.22": "PF-PNE+"}
    assert set(rules["More regret"]) == {"0%"} and set(rules["Within 10%"]) == {"100% of 8 regimes"}
    assert trust.endswith("within 10% of it in 100% of 16 regimes. At worst they have 1 times its regret.")
    between = (("horizon", False, 3162.0), ("horizon", True, 31623.0), ("spread", True, 0.0361))
    assert guide._in_words(between) == "clients' spread below 0.036, T between 3,200 and 32,000"


def test_a_rule_names_the_closest_bounds_of_a_quantity_that_is_split_again():
    shorter = (("horizon", True, 31623.0), ("clients", False, 20.0), ("horizon", True, 3162.0))
    assert guide._in_words(shorter) == "M above 20, T below 3,200"
    within = (("sigma", False, 0.1), ("sigma", True, 2.0), ("sigma", False, 0.3), ("sigma", True, 1.0))
    assert guide._in_words(within) == "noise between 0.3 and 1"
    assert guide._in_words(within[::-1]) == "noise between 0.3 and 1"


def test_a_rule_takes_what_is_best_in_the_geometric_mean():
    """Over four regimes of one leaf PE has 1, 1, 1 and 6 times the best, HCT 2, 2, 2 and 1: 6^(1/4) and 8^(1/4)."""
    table = made_up({False: "hct", True: "hct"}).iloc[:4].assign(sigma=0.1, shift=0.1, clients=5)
    table[RANKED_ON_MAP] = 10.0
    table["pe"], table["hct"] = [1.0, 1.0, 1.0, 6.0], [2.0, 2.0, 2.0, 1.0]
    rules, trust = guide._rules(table)
    assert rules.iloc[0].tolist() == ["always", "PE", "57%", "75% of 4 regimes", "6"] and trust == []


def test_rules_are_followed_on_an_objective_that_they_were_made_without():
    """What is best at little noise on one objective is best at strong noise on the other: each misleads about it."""
    one, other = made_up({False: "hct", True: "pf-pne+"}), made_up({False: "pf-pne+", True: "hct"})
    _, (trust,) = guide._rules(pd.concat([one[one["objective"] == "garland"], other[other["objective"] == "ackley"]]))
    assert "they have 100% more regret than the best" in trust and "within 10% of it in 0% of 16 regimes" in trust


def test_how_near_ours_comes_where_it_was_tuned_and_where_not():
    other = made_up({False: "pf-pne+", True: "pf-pne+"}).assign(objective="x")
    table = pd.concat([made_up({False: "hct", True: "pf-pne+"}), other])
    words = guide._words_on_ours(table)
    assert "in 50% of 16 regimes with objectives that it was tuned on and 100% of 16 regimes with other" in words
    assert "At worst it has 2 times the regret of the best" in words and "than any other in 8 of 8 regimes." in words


def test_the_worst_of_ours_may_be_on_an_objective_that_it_was_not_tuned_on():
    tuned = made_up({False: "hct", True: "pf-pne+"})  # where PF-PNE+ has twice the regret of the best
    words = guide._words_on_ours(pd.concat([tuned, tuned.assign(objective="x", hct=0.5)]))
    assert "At worst it has 4 times the regret of the best" in words


def test_what_was_held_out_is_counted_with_identical_clients_apart():
    """With strong noise it has half the regret of any other, in 8 of 16 regimes; half of these have shift 0."""
    words = guide._words_on_held_out(made_up({False: "hct", True: "pf-pne+"}).assign(cells="random"))
    assert words.endswith("With identical clients it has at least 30% less regret than any other in 4 of 8.")


def test_a_lead_of_30_percent_is_counted_and_a_smaller_one_is_not():
    """With identical clients and strong noise PF-PNE+ has 0.65 times the regret of the best of the others, or 0.75."""
    table = made_up({False: "pf-pne+", True: "pf-pne+"}).assign(cells="random", sigma=0.5, shift=0.0)
    table["pf-pne+"] = 2 * np.array([0.65, 0.65, 0.65, *[0.75] * 13])
    assert "than any other in 3 of 16 regimes." in guide._words_on_ours(table)
    assert guide._words_on_held_out(table).endswith("at least 30% less regret than any other in 3 of 16.")


def test_how_near_ours_comes_on_each_objective():
    """Over the best of the others PF-PNE+ has 1, 1.2, 1.4 and 2 times on one objective, and 1 on the other."""
    table = pd.DataFrame({name: np.full(5, 1.0) for name in RANKED_ON_MAP})
    table["objective"] = ["garland"] * 4 + ["levy"]
    table["pf-pne+"] = [1.0, 1.2, 1.4, 2.0, 1.0]
    (words,) = guide._words_by_objective(table)
    assert words.endswith("1.3 times the regret: 100% (0%) on Levy and 25% (50%) on Garland.")
    assert guide._words_by_objective(table[:4]) == []


def test_how_often_a_federation_adds_is_counted_where_both_know_as_much():
    """Four regimes with identical clients, three of them of PF-PNE+; landmine's clients differ. All others tie."""
    table = pd.DataFrame({name: np.full(6, 2.0) for name in (*RANKED_ON_MAP, PF_PNE_WITH_TRUE_DELTA)})
    table = table.assign(objective=["garland"] * 5 + ["landmine"], shift=[0.0, 0.0, 0.0, 0.0, 0.1, 0.0])
    table["noise"] = ["bernoulli", 0.1, 0.5, 1.0, 0.1, 0.1]
    table["pf-pne+"] = [3.0, 1.0, 1.0, 3.0, 1.0, 3.0]
    table["pf-pne"] = [1.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    table[PF_PNE_WITH_TRUE_DELTA] = [3.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    shares = guide._federation_adds(table)[["Identical clients", "Differing clients"]]
    assert shares.values.tolist() == [["67%", "50%"], ["25%", "0%"], ["75%", "100%"], ["0%", "0%"]]


def test_what_is_held_out_is_nowhere_on_the_map(parameters, folder):
    unseen, grid = regimes.HELD_OUT["paper"], GRIDS["paper"]
    for name in ("noises", "shifts", "n_clients", "horizons"):
        both = {*getattr(unseen, name)} & {*getattr(grid, name)}
        assert both <= {"bernoulli", 0.0}, name
    table = regimes.held_out(parameters, folder)  # garland, narrowed: one dimension has one kind of cells
    assert set(table["cells"]) == {"random"} and len(table) == 2 and not table.duplicated(REGIME_COLUMNS).any()
    first = table.iloc[0]
    own = {
        "noise": first["noise"],
        "shift": first["shift"],
        "seed": parameters.seed + 1,
        "common_shift": regimes.COMMON_SHIFT,
    }
    other_seed = Experiment("garland", 2, 60, algorithms=("hct",), n_runs=2, **own)
    assert first["hct"] == pytest.approx(summarize(other_seed, 1, folder)["regret"].mean())
    words = guide._words_on_held_out(pd.concat([table, table.assign(cells="cyclic", objective="rastrigin")]))
    near = (guide.ratio_to_others(table) <= 1.1).mean()
    assert f"on random cells in {near:.0%} of 2 regimes with objectives that it was tuned on;" in words
    assert f"on cyclic cells in {near:.0%} of 2 regimes with other objectives." in words
    both_kinds = regimes.held_out(complete("8_regime_map", TINY | {"objective": "rastrigin", "noise": 0.5}), folder)
    assert [*both_kinds["cells"]] == ["random"] * 2 + ["cyclic"] * 2


def test_rastrigin_is_held_out_in_two_dimensions(monkeypatch):
    row = pd.DataFrame({"run": [0], "regret": [1.0], "Delta": [np.nan]})
    asked = replace_runs(monkeypatch, lambda experiment: row)
    regimes.held_out(complete("8_regime_map", {"profile": "smoke", "n_runs": 1}))
    assert {(e.objective, e.d, e.cells) for e in asked} == {
        *(("garland", 1, "random"), ("rastrigin", 2, "random"), ("rastrigin", 2, "cyclic"))
    }


def test_which_Delta_is_read_off_the_curves(parameters, folder):
    given = regimes.break_even(parameters, folder)
    assert len(given) == 2 * len(regimes.BREAK_EVEN_DELTAS) and set(given["given"]) == set(regimes.BREAK_EVEN_DELTAS)
    made = pd.DataFrame(
        {
            "given": [0.0, 0.25, 0.5, 1.0],
            "ratio": [2.0, 0.5, 0.8, 1.0],
            "ratio_true_Delta": 0.9,
            "ratio_fed_pne": 2.0,
            "Delta": 0.3,
        }
    )
    words = guide._which_Delta(made.assign(objective="garland", noise=0.1, shift=0.1, clients=5, horizon=10))
    assert "below PE's in 1 of 1 cases, and within 10% of that with the best Delta in 0." in words
    assert "With every Delta from 0.25 (0.25 to 0.25) upwards, the regret is at most 1% above PE's. In 0 cases" in words


def test_pictures(parameters, table, folder):
    given = regimes.break_even(parameters, folder)
    for drawing in (maps.draw_quantity(table, "best", parameters), maps.draw_break_even(given, parameters)):
        pdf = drawing.files[f"{drawing.stem}.pdf"]
        assert len(pdf) < 200_000 and b"/Subtype /CIDFontType2" in pdf and b"/Type3" not in pdf
    unseen = regimes.held_out(parameters, folder)
    assert maps.draw_held_out(unseen, parameters).files["held_out.csv"].count(b"\n") == 1 + len(unseen)
    rules = guide.write_guide(table, given, unseen)
    written = rules.files["regime_guide.md"].decode()
    assert all(f"\n| {name}" in written for name in ("If", "Federated", "Fed-PNE")) and written.count("\n- **") >= 3


def test_quantities_by_hand():
    row = pd.DataFrame([dict(zip(RANKED_ON_MAP, [4.0, 2.0, 8.0, 2.5, 1.0, 16.0, 32.0], strict=True))])
    assert RANKED_ON_MAP == ["pf-pne", "pf-pne+", "fed-pne", "pe", "hct", "hct-noise", HCT_NOISE_EARLY]
    wanted = {"pf_pne_plus": 2, "federated": 1.6}
    assert {name: maps.quantity_ratio(row, name).iloc[0] for name in maps.RATIOS} == wanted


@pytest.mark.parametrize(("leads", "clear"), [([1.0, 2.0, 3.0], True), ([0.0, 1.0, 2.0], False), ([-3, -2, -1], False)])
def test_a_lead_is_clear_beyond_two_standard_errors_over_every_other(leads, clear):
    # the standard error of the mean is 1 / sqrt 3 = 0.577 in each: 2 and 1 are to be more than 1.155
    regret = pd.DataFrame({"pe": [10.0, 11.0, 9.0]})
    regret["hct"], regret["fed-pne"] = regret["pe"] + leads, regret["pe"] + 100
    assert regimes._is_clear(regret, "pe") == clear


def test_the_spread_is_the_root_of_the_mean_variance_across_clients(parameters):
    variances = []
    for run in range(parameters.n_runs):
        problem = make_problem("garland", 3, 0.1, seed=parameters.seed, run=run, common_shift=regimes.COMMON_SHIFT)
        values = problem.values((2 * np.arange(256)[:, None] + 1) / 512)  # the cells of depth 8
        variances.append([np.var(column, ddof=1) for column in values.T])
    assert regimes._spread(parameters, "garland", 0.1, 3) == pytest.approx(np.sqrt(np.mean(variances)))
    assert regimes._spread(parameters, "garland", 0.1, 1) == 0


@pytest.mark.parametrize(("cells", "seed"), [("random", 0), ("cyclic", 3)])
def test_the_spread_is_that_of_the_parameters_seed_and_cells(parameters, cells, seed):
    p, variances = replace(parameters, cells=cells, seed=seed, n_runs=2), []
    for run in range(2):
        problem = make_problem("himmelblau", 3, 0.1, seed=seed, run=run, common_shift=regimes.COMMON_SHIFT)
        values = problem.values(partition_of(problem, cells, seed, run).centers(8, np.arange(1, 257)))
        variances.append(values.var(axis=0, ddof=1).mean())
    assert regimes._spread(p, "himmelblau", 0.1, 3) == pytest.approx(np.sqrt(np.mean(variances)))


def test_break_even_is_measured_against_pe(parameters, folder):
    given = regimes.break_even(parameters, folder)
    row = given[(given["shift"] > 0) & (given["given"] == 0.25)].iloc[0]
    same = {"noise": "bernoulli", "shift": row["shift"], "common_shift": regimes.COMMON_SHIFT}

    def mean(name, **settings):
        experiment = Experiment("garland", 2, 60, algorithms=(name,), n_runs=2, **same, settings=settings)
        return summarize(experiment, 1, folder)["regret"].mean()

    assert row["ratio"] == pytest.approx(mean("pf-pne", Delta=0.25) / mean("pe"))
    assert row["ratio_fed_pne"] == pytest.approx(mean("fed-pne") / mean("pe"))
    assert row["ratio_true_Delta"] == pytest.approx(mean("pf-pne", Delta="true") / mean("pe"))


def test_federating_pays_down_to_the_delta_below_which_it_costs_more_than_a_percent():
    made = pd.DataFrame(
        {
            "given": [0.0, 0.25, 0.5, 1.0],
            "ratio": [0.9, 1.1, 1.005, 1.0],
            "ratio_true_Delta": 1.05,
            "ratio_fed_pne": 2.0,
        }
    )
    made = made.assign(Delta=0.3, objective="garland", noise=0.1, shift=0.1, clients=5, horizon=10)
    words = guide._which_Delta(made)
    assert "every Delta from 0.5 (" in words and "In 1 cases some smaller Delta costs more" in words
    assert (
        "below PE's in 0 of 1 cases, and within 10% of that with the best Delta in 0." in words
        and "The best Delta is 0 (" in words
    )


def test_of_Delta_the_cases_with_identical_clients_are_counted_apart():
    """With differing clients the best Delta is 0.5. With identical ones 0 is the best, or 1.6 times as bad."""
    curves = []
    for M, (shift, ratio) in enumerate([(0.1, [2.0, 0.9, 0.5]), (0.0, [0.6, 0.7, 1.0]), (0.0, [0.8, 0.5, 1.0])]):
        curve = pd.DataFrame({"given": [0.0, 0.25, 0.5], "ratio": ratio, "Delta": 3 * shift, "shift": shift})
        own = 0.52 if shift else ratio[0]  # with identical clients the true Delta is 0
        curves.append(curve.assign(ratio_true_Delta=own, clients=M, objective="garland", noise=0.1, horizon=10))
    words = guide._which_Delta(pd.concat(curves))
    assert (
        "below PE's in 1 of 1 cases, and within 10% of that with the best Delta in 1. The best Delta is 0.5 (" in words
    )
    assert words.endswith("With identical clients, Delta = 0 is within 10% of the best in 1 of 2 cases.")


def test_where_federating_never_stops_paying_it_does_not_pay_again():
    made = pd.DataFrame(
        {
            "given": [0.0, 0.5, 1.0],
            "ratio": [0.9, 0.8, 1.0],
            "ratio_true_Delta": 0.8,
            "ratio_fed_pne": 2.0,
            "Delta": 0.3,
        }
    )
    words = guide._which_Delta(made.assign(objective="garland", noise=0.1, shift=0.1, clients=5, horizon=10))
    assert "every Delta from 0 (0 to 0) upwards" in words and "In 0 cases some smaller Delta" in words


def test_a_range_is_a_median_with_its_quartiles():
    assert guide._range(pd.Series([1.0, 2.0, 4.0, 7.0, 20.0])) == "4 (2 to 7)"
