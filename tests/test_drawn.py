"""Scenarios drawn at random: their objectives, clients and noise, and the report on them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.exhibits import untuned
from pfpne.paper.exhibits.drawn import (
    CLIENT_KINDS,
    FAMILIES,
    LOUD_FACTOR,
    MOST_PULLS,
    NOISES,
    DrawnProblem,
    DrawnScenario,
    sample_scenarios,
    simulate_drawn,
)
from pfpne.paper.run.parameters import complete

PLAIN = DrawnScenario(0, 0, "levy", 1, "alike", "uniform", 0.5, 4, 200)


@pytest.mark.parametrize(("family", "d"), [(name, d) for name, (_, dims) in FAMILIES.items() for d in dims])
def test_an_objective_is_largest_where_it_says_and_has_values_between_0_and_1(family, d):
    scenario = dataclasses.replace(PLAIN, family=family, d=d)
    problem, rng = DrawnProblem(scenario, 0), np.random.default_rng(0)
    top = problem.maximisers[0]
    near = np.clip(top + 0.03 * rng.standard_normal((4_000, d)), 0, 1)
    values = problem.client_values(0, np.concatenate([rng.random((20_000, d)), near]))
    assert values.min() >= 0 and values.max() <= problem.optimum[0] + 1e-9
    assert problem.client_values(0, top[None])[0] == pytest.approx(problem.optimum[0], abs=1e-6)
    assert values.max() > 0.9 * problem.optimum[0] and np.ptp(values) > 0.3


@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_each_client_is_largest_where_it_says(kind):
    scenario = dataclasses.replace(PLAIN, family="branin", d=2, kind=kind, n_clients=6)
    problem, x = DrawnProblem(scenario, 3), np.random.default_rng(1).random((4_000, 2))
    at_top = problem.paired_values(np.arange(6), problem.maximisers)
    assert at_top == pytest.approx(problem.optimum, abs=1e-6)
    values = problem.values(x)
    assert (values.max(axis=1) <= problem.optimum + 1e-9).all()
    same = np.all(values == values[0])
    assert same == (kind in ("alike", "one loud")) == problem.identical
    if kind in ("halves", "one outlier"):
        mirrored = problem.client_values(0, 1 - x)
        assert np.allclose(mirrored, values[-1]) and not np.allclose(values[0], values[-1])
        assert np.allclose(values[1], values[0]) == (kind == "halves")


def noise_of(noise: str, scale: float, kind: str = "alike") -> np.ndarray:
    """Many draws of what is added to the value 0.5, of clients 0 and 1."""
    scenario = dataclasses.replace(PLAIN, noise=noise, scale=scale, kind=kind)
    problem = DrawnProblem(scenario, 0)
    streams = problem.streams()
    half_width = problem.noise + problem.noise_slope * 0.5
    return np.array([half_width * (2 * rng.random(400_000) - 1) for rng in streams[:2]])


@pytest.mark.parametrize(
    ("noise", "scale", "sigma"),
    [
        ("uniform", 0.5, 0.5 / 3**0.5),
        ("gaussian", 0.3, 0.3),
        ("sparse", 0.1, 0.1 * (0.02 * 100) ** 0.5),
        ("heteroscedastic", 0.1, (0.05 + 1.5 * 0.5) / 3**0.5),
    ],
)
def test_noise_is_as_wide_as_it_says_and_a_loud_client_has_more(noise, scale, sigma):
    draws = noise_of(noise, scale)
    assert draws.mean() == pytest.approx(0, abs=4 * sigma / 800) and draws.std() == pytest.approx(sigma, rel=0.02)
    loud = noise_of(noise, scale, "one loud").std(axis=1)
    assert loud.tolist() == pytest.approx([LOUD_FACTOR * sigma, sigma], rel=0.03)


def test_heavy_tails_are_heavy():
    draws = np.abs(noise_of("heavy tails", 0.1)).ravel() / 0.1
    assert np.median(draws) == pytest.approx(0.7649, rel=0.02)  # of Student's t with three degrees of freedom
    assert np.mean(draws > 5.841) == pytest.approx(0.01, rel=0.1)


def test_what_fills_an_array_is_what_is_returned():
    one, other = (DrawnProblem(dataclasses.replace(PLAIN, noise="gaussian"), 0).streams()[1] for _ in range(2))
    filled = np.empty(5)
    assert one.random(out=filled) is filled and filled.tolist() == other.random(5).tolist()
    assert one.random() == other.random(1)[0]


def test_scenarios_are_drawn_one_by_one_and_within_bounds():
    drawn = sample_scenarios(60, 3)
    assert sample_scenarios(20, 3) == drawn[:20] and sample_scenarios(20, 4) != drawn[:20]
    assert all(s.n_clients * s.horizon <= MOST_PULLS for s in drawn)
    assert not any(s.noise == "bernoulli" and s.kind == "one loud" for s in sample_scenarios(400, 5))
    for field, names in (("family", FAMILIES), ("kind", CLIENT_KINDS), ("noise", NOISES)):
        assert {getattr(s, field) for s in sample_scenarios(400, 5)} == set(names)
    assert all(s.d in FAMILIES[s.family][1] for s in drawn)


@pytest.mark.parametrize("name", ["pf-pne+", "hct", "blin"])
def test_a_run_is_the_same_again_and_another_in_another_run(name):
    scenario = dataclasses.replace(PLAIN, noise="gaussian", kind="halves")
    one, again, other = (simulate_drawn(name, scenario, run).regret for run in (0, 0, 1))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert (np.diff(one, axis=1) >= 0).all() and one.shape == (4, 200)


def test_the_report_by_hand(monkeypatch, tmp_path):
    """PF-PNE+ has half the best rival's regret in the first scenario, and more in each that follows."""
    n_runs = untuned.REPORT_SIZES["smoke"][1]

    def mean_regret(scenario, name, given, first, n, folder):
        assert (n, folder) == (n_runs, tmp_path) and first in (0, n_runs)
        assert scenario.n_clients * scenario.horizon <= untuned.REPORT_SIZES["smoke"][2]
        if name != "pf-pne+":
            return {"hct": 2.0, "hoo": 0.5}.get(name, 3.0)
        if given == {"gaussian_process": True}:  # the order of the scenarios is the other one
            return (3.0 if first else 2.0) * (0.5 + 3 - scenario.number) / 4
        assert given == {}
        return (1.0 if first else 2.0) * (0.5 + scenario.number)

    monkeypatch.setattr(untuned, "_mean_regret", mean_regret)
    p = complete("7_beyond", {"profile": "smoke", "n_jobs": 1})
    table = untuned.measure(p, tmp_path)
    assert table["ratio"].tolist() == [0.5, 1.5, 2.5, 3.5] and table["ratio_fresh"].tolist() == [0.25, 0.75, 1.25, 1.75]
    assert table["ratio_gp"].tolist() == [3.5 / 4, 2.5 / 4, 1.5 / 4, 0.5 / 4]
    assert table["ratio_gp_fresh"].tolist() == [1.5 * x for x in table["ratio_gp"]]
    words = " ".join(untuned.sentences(table))
    assert "within 10% of the best of six rivals in 25%" in words and "1.3 times its regret in 75%" in words
    assert "at worst, in fresh runs, 1.8 times" in words and "HCT is most often within 10%" in words
    assert "HOO and BLiN among the rivals it is within 10% of the best in 0%" in words
    assert "ran the 4 settings" in words and "1 of them are above 1.3 again" in words
    near, with_gp, alone = untuned.in_short(table)  # its second stage alone has 3, where the best of the six has 2
    assert "it is within 10% of the best of six rivals in 100%, and above 1.3 times its regret in 0%" in with_gp
    assert with_gp.endswith("at worst, in fresh runs, 1.3 times.")
    assert near in words and "within 10% of the best of the six in 0%, and has" in alone
    assert f"{(3 / 1 * 3 / 3 * 3 / 5 * 3 / 7) ** 0.25:.2f} times" in alone
    exhibit = untuned.draw(table, p)
    assert {"untuned.pdf", "untuned.png", "untuned.csv"} <= set(exhibit.files)
    assert len(exhibit.files["untuned.csv"].splitlines()) == 5


def test_the_sentences_say_what_the_table_says():
    """Five settings; of the last three, which are in more dimensions, there are fresh runs."""
    ratio = np.array([0.5, 1.0, 1.2, 2.0, 8.0])
    table = pd.DataFrame({name: np.full(5, 20.0) for name in (*untuned.SIX_RIVALS, *untuned.ALSO_COMPARED)})
    table["hct"], table["pe"] = [10.0, 10.0, 10.0, 20.0, 20.0], [20.0, 20.0, 20.0, 10.0, 10.0]
    table = table.assign(**{"pf-pne+": 10 * ratio, "ratio": ratio, "ratio_fresh": [np.nan, np.nan, 1.2, 1.4, 4.0]})
    gp = np.array([0.4, 1.05, 1.2, 1.25, 4.0])
    table = table.assign(**{untuned.WITH_GP: 10 * gp, "ratio_gp": gp, "ratio_gp_fresh": [np.nan, 1, 1.2, 1.4, 3.0]})
    table["d"], table["kind"] = [1, 1, 2, 2, 2], ["alike", "halves", "alike", "shifted", "shifted"]
    near, quantiles, where, rivals, again, with_gp = untuned.sentences(table)
    assert "PF-PNE+ with `gaussian_process=True` is within 10% of the best of six rivals in 40%" in with_gp
    assert "above 1.3 times its regret in 20%; at worst, in fresh runs, 3 times." in with_gp
    assert "are 0.66 (10%), 1.1 (25%), 1.2 (50%), 1.2 (75%), 2.9 (90%)." in with_gp
    assert "in 2 of 2 settings in one dimension, and in 0 of 3 settings in more." in with_gp
    assert f"It has {(0.4 / 0.5 * 1.05 * 1.25 / 2 * 4 / 8) ** 0.2:.2f} times" in with_gp and "less in 60%." in with_gp
    assert "of six rivals in 40%, and above 1.3 times its regret in 40%; at worst, in fresh runs, 4 times." in near
    assert quantiles.endswith(" 0.7 (10%), 1 (25%), 1.2 (50%), 2 (75%), 5.6 (90%).")
    assert "within 10% in 2 of 2 settings in one dimension, and in 0 of 3 settings in more." in where
    assert where.endswith(" the share is smallest with shifted (0%) and largest with halves (100%).")
    assert "HCT is most often within 10% of the best of them, in 60%." in rivals  # PF-PNE+ itself is none of them
    assert f"has {(4 * 2 * 5 / 3 * 1 / 4) ** 0.2:.2f} times PF-PNE+'s regret" in rivals
    assert "the 3 settings" in again and "1.4 in the median and 4 at most; 2 of them are above 1.3 again." in again


def test_what_is_kept_of_a_setting_is_of_these_settings_and_runs(tmp_path):
    for given, first in (({}, 0), ({}, 2), ({"early_descent": True}, 0)):
        runs = [simulate_drawn("hct-noise", PLAIN, run, **given).regret[:, -1].mean() for run in (first, first + 1)]
        kept = untuned._mean_regret(PLAIN, "hct-noise", given, first, 2, tmp_path)
        assert kept == pytest.approx(np.mean(runs), rel=1e-12)


def test_only_the_scenarios_of_the_largest_ratios_are_run_again(monkeypatch, tmp_path):
    monkeypatch.setattr(untuned, "N_WORST_RUN_AGAIN", 2)
    monkeypatch.setattr(untuned, "_mean_regret", lambda s, name, *_: 1.0 + s.number * (name == "pf-pne+"))
    table = untuned.measure(complete("7_beyond", {"profile": "smoke", "n_jobs": 1}), tmp_path)
    assert table["ratio_fresh"].notna().tolist() == [False, False, True, True]
    assert isinstance(table, pd.DataFrame)
