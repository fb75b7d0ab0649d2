"""The sample of the map that was run with a Gaussian process: its regimes, its pairing with the map, and its page."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.exhibits.guide import ratio_to_others
from pfpne.paper.exhibits.regimes import REGIME_COLUMNS
from pfpne.paths import INPUT_ROOT as CHECKOUT


@pytest.fixture(scope="module")
def sample():
    """The benchmark, as a module."""
    spec = importlib.util.spec_from_file_location("gp_on_map", CHECKOUT / "benchmarks" / "gp_on_map.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sample_is_what_the_seed_draws_from_the_committed_map(sample):
    rows = pd.read_csv(sample.TABLE)
    drawn = sample.drawn_regimes(len(rows))
    assert len(rows) == 200 and rows[REGIME_COLUMNS].astype(str).equals(drawn[REGIME_COLUMNS].astype(str))
    assert np.allclose(rows["pf-pne+"], drawn["pf-pne+"], rtol=1e-9)
    assert np.allclose(rows["pf-pne+ / best other"], ratio_to_others(drawn), rtol=1e-8)
    assert np.allclose(rows["gp / best other"] / rows["pf-pne+ / best other"], rows["gp"] / rows["pf-pne+"], rtol=1e-8)


def test_the_page_s_table_follows_from_the_sample(sample):
    page = (CHECKOUT / "docs" / "pf-pne-plus.md").read_text(encoding="utf-8")
    assert sample.table_of(pd.read_csv(sample.TABLE)) in page


def test_shares_by_hand(sample):
    rows = pd.DataFrame({"pf-pne+ / best other": [1.0, 1.2, 1.4, 2.0], "gp / best other": [0.5, 1.1, 1.3, 8.0]})
    words = sample.shares("four", rows)
    assert words["Regimes"] == "four (4)"
    assert (words["Within 10%"], words["Within 10%, GP"]) == ("25%", "50%")
    assert (words["Above 1.3 times"], words["Above 1.3 times, GP"]) == ("50%", "25%")
    assert (words["At worst"], words["At worst, GP"], words["Regret, GP / without"]) == ("2.0", "8.0", "1.14")


def test_a_regime_is_run_as_on_the_map(sample):
    p = sample.complete("8_regime_map", {"profile": "paper"})
    rows = sample.drawn_regimes(200)
    small = rows[rows["clients"] * rows["horizon"] <= 5_000].head(1)
    assert len(small) == 1
    assert sample.mean_regrets(small, p) == pytest.approx(small["pf-pne+"].to_numpy(), rel=1e-8)
