"""The specification curve: each combination of choices is run as it says, and what is drawn is what the table says."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.claims.claim_tests import c_of_noise
from pfpne.paper.claims.evidence import IDENTICAL_CLIENTS, Study
from pfpne.paper.exhibits import deviations, specification
from pfpne.paper.exhibits.specification import CHOICES, COMPARISONS, compare_readings
from pfpne.paper.run.parameters import complete


@pytest.fixture
def study(tmp_path) -> Study:
    p = complete(
        "10_specification_curve", {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 1, "n_jobs": 1}
    )
    return replace(Study.from_parameters(p), folder=tmp_path)


def test_every_combination_once(study, monkeypatch):
    asked = []
    monkeypatch.setattr(specification, "_mean_regret", lambda study, *what: asked.append(what) or float(len(asked)))
    table = compare_readings(study)
    per_cells = int(np.prod([len(values) for name, values in CHOICES.items() if name not in ("cells", "noise")]))
    assert table.groupby("objective").size().to_dict() == {
        "garland": per_cells,
        "himmelblau": 2 * per_cells,
        "rastrigin": 2 * per_cells,
    }
    assert not table[["objective", *CHOICES]].duplicated().any() and set(table["T"]) == {60, 6}
    assert len(asked) == len(set(asked))  # each mean regret once


def test_a_reading_is_run_as_it_says(study, monkeypatch):
    monkeypatch.setattr(specification, "ONE_PER_DIMENSION", ("garland", "himmelblau"))  # one that has other cells, too
    first = {name: values[:1] for name, values in CHOICES.items()} | {"noise": ("bernoulli",)}

    def mean(name, **changes):
        return study.runs("garland", name, "bernoulli", **changes)["regret"].mean()

    table = compare_readings(study, most=2)
    garland = table[table["objective"] == "garland"].set_index([name for name in CHOICES if name != "cells"])
    usual = (60, "bernoulli", 0.1, 0.01, 0.1, "played", "0.1")
    assert {name: values[0] for name, values in first.items()}["c"] == 0.1
    assert garland.loc[usual, "pf-pne"] == mean("pf-pne", shift=0.1) and garland.loc[usual, "pe"] == mean("pe")
    other = (6, "bernoulli", "alike", "true", 0.05, "not begun", "by noise")
    on = {"horizon": 6, **IDENTICAL_CLIENTS, "settings": {"c": 0.05, "Delta": "true"}}
    whole = study.variant("garland", *deviations.VARIANTS["whole phases"], "bernoulli", 1, **on)
    assert garland.loc[other, "pf-pne"] == whole.mean()
    assert garland.loc[other, "hct-pyxab"] == mean(
        "hct-pyxab", horizon=6, **IDENTICAL_CLIENTS, settings={"c": c_of_noise("bernoulli")}
    )
    assert garland.loc[other, "fed-pne"] == mean("fed-pne", horizon=6, **IDENTICAL_CLIENTS, settings={"c": 0.05})
    assert garland.loc[other, "fn-ucb"] == mean("fn-ucb", horizon=6, **IDENTICAL_CLIENTS)  # read off the curve to 60
    exhibit = specification.draw(table, study)
    assert exhibit == specification.draw(table, study) and len(exhibit.files["specification_curve.pdf"]) < 200_000
    assert f"{len(garland)} on Garland" in exhibit.caption


def test_shares_count_the_smaller_means():
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe")
    rows = [("garland", 1, 2, 3, 4, 5, 6), ("garland", 3, 2, 3, 4, 5, 6), ("garland", 3, 9, 8, 7, 2, 1)]
    table = pd.DataFrame(rows, columns=["objective", *names])
    assert specification.shares(table)["garland"].tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3, 2 / 3, 1 / 3])
    assert list(specification.claims_held(table)) == list(COMPARISONS)


def test_a_mean_regret_is_the_mean_over_the_runs():
    """Of FN-UCB at another horizon, of T/10, which is all that is read off its curve."""
    runs = np.array([1.0, 2.0, 6.0])
    study = SimpleNamespace(
        n_runs=3,
        horizon=100,
        runs=lambda objective, name, *what, **changes: (
            pd.DataFrame({"regret": 2 * runs, "early_regret": 7 * runs})
            if name == "fn-ucb"
            else pd.DataFrame({"regret": runs * (changes["horizon"] / 100)})
        ),
        variant=lambda *what, **changes: 5 * runs,
    )
    on = "random", 100, "bernoulli", 0.1, ()
    assert specification._mean_regret(study, "garland", "pe", *on, "") == 3.0
    assert specification._mean_regret(study, "garland", "pf-pne", *on, "whole phases") == 15.0
    assert specification._mean_regret(study, "garland", "fn-ucb", *on, "") == 6.0
    assert specification._mean_regret(study, "garland", "fn-ucb", "random", 10, *on[2:], "") == 21.0
