"""The ablation's table, sentences and lower curve."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.exhibits import beyond
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import complete
from pfpne.partition import Partition
from pfpne.problems import problem_from_functions


def test_the_lower_curve_by_hand():
    """Garland, two alike clients, no noise: each depth costs both children once, shared, at the best centre so far."""
    of = Experiment("garland", 2, 1_000, algorithms=("pf-pne+",), n_runs=1, noise=0.0, shift=0.0)
    problem = of.problem(0)
    best = problem.client_values(0, np.array([[0.25], [0.75]])).max()
    curve = beyond.oracle_regret(of, 0, np.array([1, 1_000]))
    assert curve[0] == pytest.approx(problem.optimum[0] - best)  # one step: two pulls over two clients
    assert 0 <= curve[0] <= curve[1] < 0.05 * 1_000
    noisy = Experiment("garland", 2, 1_000, algorithms=("pf-pne+",), n_runs=1, noise=1.0, shift=0.0)
    assert beyond.oracle_regret(noisy, 0, np.array([1_000])) > curve[1]


@pytest.mark.parametrize(
    ("noise", "M", "first"), [(1.0, 1, 16 / 3), (1.0, 2, 8 / 3), (2.0, 1, 64 / 3), ("bernoulli", 1, 3.0)]
)
def test_the_lower_curve_pays_for_the_noise_by_hand(noise, M, first):
    """f(x) = x: depth 1 has 0.25 and 0.75, a gap of 1/2, depth 2 0.625 and 0.875, a gap of 1/4.

    Noise on +-1 has the variance 1/3: 2 x 2 / 3 / (1/2)^2 = 16/3 samples in all, then 2 x 2 / 3 / (1/4)^2 = 64/3. On
    +-2 the variance is 4/3, and all samples are four times as many. Of binary rewards it is 0.1875, the mean of
    f (1 - f): 2 x 0.375 x 4 = 3; then 0.1719: 2 x 0.34375 x 16 = 11.
    """
    problem = problem_from_functions([lambda x: x[:, 0]] * M, [[0, 1]], noise=noise, optimum=1.0)
    problem.maximisers = np.ones((M, 1))
    second = 11.0 if noise == "bernoulli" else 4 * first
    both = first + second
    T = int(both) + 1  # depth 3 costs more than is left: it is told, and so are all below
    curve = beyond._client_curve(problem, Partition([[0, 1]]), 0, T, np.array([first, both, T]))
    at_both = first * 0.25 + second * 0.125
    np.testing.assert_allclose(curve, [first * 0.25, at_both, at_both + (T - both) * 2.0**-25], rtol=1e-9)
    np.testing.assert_allclose(beyond._client_curve(problem, Partition([[0, 1]]), 0, 1, np.ones(1)), 2.0**-25)


def test_the_lower_curve_pays_no_more_than_at_the_best_centre_so_far():
    """The centres of the way to the maximum, at 1, are worse at depth 2 (0.4, 0.5) than at depth 1 (0.2, 0.8)."""
    way = [0, 0.25, 0.625, 0.75, 0.875, 1], [0.2, 0.2, 0.4, 0.8, 0.5, 1]
    problem = problem_from_functions([lambda x: np.interp(x[:, 0], *way)], [[0, 1]], noise=0.0, optimum=1.0)
    problem.maximisers = np.ones((1, 1))
    curve = beyond._client_curve(problem, Partition([[0, 1]]), 0, 1_000, np.array([2, 4]))  # two pulls at each depth
    np.testing.assert_allclose(curve, [2 * 0.2, 4 * 0.2])


def test_variants_are_compared_with_ours_run_by_run(monkeypatch):
    monkeypatch.setattr(beyond, "oracle_regret", lambda experiment, run, t: 2.0 * t + run)  # at T = 5

    def runs(name, *values):  # three clients: a mean is no median
        experiment = SimpleNamespace(algorithms=(name,), n_runs=len(values), horizon=5)
        regret = {
            (name, run): SimpleNamespace(regret=value * np.array([[0.0, 0], [0, 0], [0, 3]]))
            for run, value in enumerate(values)
        }
        return SimpleNamespace(experiment=experiment, runs=regret)

    variants = {"pf-pne+": runs("pf-pne+", 10, 20, 30, 40, 50), "pe": runs("pe", 21, 42, 63, 84, 105)}
    table = beyond.compare_contenders({("garland", 0.1, "alike"): variants}, SimpleNamespace(seed=0)).set_index(
        "variant"
    )
    assert table.loc["pe", "ratio"] == pytest.approx(2.1) and table.loc["pe", "regret"] == pytest.approx(63)
    assert (table.loc["pe", "p_less"], table.loc["pe", "p_more"]) == (1.0, 1 / 32)
    assert (table["lower"] == 12.0).all() and (table["n"] == 5).all() and table.loc["pf-pne+", "ratio"] == 1


def test_the_curves_are_means_over_the_runs_at_the_same_steps_as_the_oracle_s(monkeypatch):
    monkeypatch.setattr(beyond, "oracle_regret", lambda experiment, run, t: t * (1.0 + 9 * (run == 2)))  # no median

    def results(level):
        rows = pd.MultiIndex.from_product([("pf-pne+", "pe"), range(3), range(1, 397)], names=["algorithm", "run", "t"])
        data = rows.to_frame(index=False)
        factor = level * (1 + 9 * (data["run"] == 2)) * (1 + (data["algorithm"] == "pe"))
        return SimpleNamespace(regret=data.assign(regret=factor * data["t"]), experiment=SimpleNamespace(n_runs=3))

    places = itertools.product(beyond.CURVE_OBJECTIVES, (0.1, "bernoulli"), beyond.CLIENT_SHIFTS)
    levels = {place: float(n + 1) for n, place in enumerate(places)}
    table = beyond.measure_curves({place: {beyond.REFERENCE: results(level)} for place, level in levels.items()})
    steps = np.arange(396, 0, -3)[::-1]  # some hundred, the last among them
    for (objective, noise, clients), level in levels.items():
        curves = table[(table["objective"] == objective) & (table["clients"] == clients)]
        assert noise != 0.1 or set(curves["algorithm"]) == {"pf-pne+", "pe", beyond.ORACLE}  # under the first noise
        for name, factor in (("pf-pne+", 4 * level), ("pe", 8 * level), (beyond.ORACLE, 4.0)) if noise == 0.1 else ():
            own = curves[curves["algorithm"] == name]
            assert own["t"].tolist() == steps.tolist() and own["regret"].tolist() == pytest.approx(factor * steps)


def test_every_cell_says_how_its_clients_differ():
    found = {(clients, *sorted(changes.items())) for *_, clients, changes in beyond.scenarios(complete("7_beyond", {}))}
    common = ("common_shift", beyond.COMMON_SHIFT)
    assert found == {
        ("alike", common, ("shift", 0.0)),
        ("shifted", common, ("shift", 0.1)),
        (beyond.LANDMINE_CLIENT_KIND,),
    }


def test_the_sentences_say_what_the_table_says():
    rows = []
    for clients, ours, rival in (("alike", 6.0, 10.0), ("shifted", 10.0, 8.0)):
        cell = {"objective": "garland", "noise": 0.1, "clients": clients, "lower": 2.0}
        rows += [{**cell, "variant": "pf-pne+", "regret": ours, "ratio": 1.0}]
        rows += [{**cell, "variant": name, "regret": rival, "ratio": rival / ours} for name in beyond.BEYOND_RIVALS]
        rows += [{**cell, "variant": part, "regret": 2 * ours, "ratio": 2.0} for part in beyond.PARTS_IN_WORDS]
    first, tuned, second, third = beyond.sentences(pd.DataFrame(rows))
    assert "in 1 of 2 settings" in first and "best rival in 1." in first and "any rival in 1 of 1." in first
    assert "At its worst (Garland, noise ±0.1, shifted clients) it has 1.25 times" in first
    assert "in 1 of 2 settings" in tuned and "it is in 0 of 0." in tuned
    assert second.count("2.00") == len(beyond.PARTS_IN_WORDS)
    assert "is 4, the range 3 to 5." in third and "in 0 of 2 settings" in third


def test_what_is_said_of_identical_clients_counts_no_others():
    """With shifted clients it has 40% less regret than any rival, with identical ones as much."""
    rows = []
    for clients, ours in (("alike", 10.0), ("shifted", 6.0)):
        cell = {"objective": "garland", "noise": 0.1, "clients": clients, "lower": 2.0, "ratio": 1.0}
        rows += [{**cell, "variant": "pf-pne+", "regret": ours}]
        rows += [{**cell, "variant": name, "regret": 10.0} for name in beyond.BEYOND_RIVALS]
    first, *_ = beyond.sentences(pd.DataFrame(rows))
    assert "With identical clients it has at least 30% less regret than any rival in 0 of 1." in first


def test_factors_are_geometric_means_and_the_oracle_is_compared_by_the_median():
    """Without a part the regret is once and 4 times as much; over the oracle's it is 1/2, 3 and 20."""
    rows = []
    for noise, regret, factor in ((0.1, 1.0, 1.0), (0.5, 6.0, 4.0), (1.0, 40.0, 2.0)):
        cell = {"objective": "garland", "noise": noise, "clients": "shifted", "lower": 2.0, "ratio": 1.0}
        rows += [{**cell, "variant": name, "regret": regret} for name in ("pf-pne+", *beyond.BEYOND_RIVALS)]
        rows += [
            {**cell, "variant": part, "regret": factor * regret, "ratio": factor} for part in beyond.PARTS_IN_WORDS
        ]
    *_, parts, far = beyond.sentences(pd.DataFrame(rows))
    assert parts.count(" 2.00") == len(beyond.PARTS_IN_WORDS)
    assert "over the oracle's is 3, the range 0.5 to 20. It is below 1 in 1 of 3 settings" in far


def test_each_variant_is_run_with_its_one_change():
    """On the same settings in each case, beside those that were asked for."""
    p = SimpleNamespace(profile="smoke", shift=0.3, settings={"delta": 0.2}, seed=0)
    p.run = lambda *asked, **changes: (asked, changes)
    runs = beyond.run_contenders(p)
    assert list(runs) == [tuple(scenario[:3]) for scenario in beyond.scenarios(p)] and len(runs) > 3
    for objective, noise, clients, changes in beyond.scenarios(p):
        variants = runs[objective, noise, clients]
        assert list(variants) == [*beyond.BEYOND_ALGORITHMS, beyond.HCT_NOISE_EARLY, *beyond.PARTS_IN_WORDS]
        for name in beyond.BEYOND_ALGORITHMS:
            assert variants[name] == ((objective, noise, beyond.BEYOND_ALGORITHMS), changes)
        early = {**changes, "settings": {"delta": 0.2, "early_descent": True}}
        assert variants[beyond.HCT_NOISE_EARLY] == ((objective, noise, ("hct-noise",)), early)
        for part in beyond.PARTS_IN_WORDS:
            without = {**changes, "settings": {"delta": 0.2, part: False}}
            assert variants[part] == ((objective, noise, ("pf-pne+",)), without)
    shifts = {clients: changes.get("shift") for *_, clients, changes in beyond.scenarios(p)}
    assert shifts == {"alike": 0.0, "shifted": 0.3, beyond.LANDMINE_CLIENT_KIND: None}


def test_what_a_part_adds_at_the_sites_is_the_row_of_all_sites(monkeypatch):
    p, asked = complete("7_beyond", {"profile": "smoke", "seed": 3}), []
    rows = [("all", "whole", 0.0125, 0.001, 0.03), ("site 1", "whole", 0.5, 0.4, 0.6)]
    rows += [("all", "no test", -0.02, -0.04, -0.01), ("all", "alone", 0.0, -0.01, 0.012)]
    table = pd.DataFrame(rows, columns=["site", "against", "difference", "low", "high"])
    monkeypatch.setattr(beyond.sites, "results", lambda p, *what: asked.append((p, *what)) or "runs")
    monkeypatch.setattr(beyond.sites, "compare", lambda *what: asked.append(what) or table)
    exhibit = beyond.tabulate_sites(p)
    (scale, *what), compared = asked
    scale_of_sites = beyond.SITES_PARAMETERS["smoke"]
    assert {name: getattr(scale, name) for name in scale_of_sites} == scale_of_sites and scale.seed == 3
    assert what == [beyond.sites.WAYS_IN_PARTS, (beyond.sites.UNLIKE_SITES,)]
    assert compared == ("runs", 3, beyond.sites.PF_PNE_PLUS)
    assert "above 0 in 1 of 3 rows, and below 0 in 1." in exhibit.caption
    assert (
        f"{scale.n_clients} sites of notebook 6, {scale.horizon} fits per site, {scale.n_runs} paired"
        in exhibit.caption
    )
    latex = exhibit.files["beyond_sites.tex"].decode()
    assert "+0.0125 [+0.0010, +0.0300]" in latex and "-0.0200 [-0.0400, -0.0100]" in latex and "0.5000" not in latex
