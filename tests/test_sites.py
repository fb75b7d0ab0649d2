"""What notebook 6 says of its sites: whether federation paid, by what every way of tuning alone would have given."""

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.exhibits import sites


def table(n_runs: int = 20, **gains: float) -> pd.DataFrame:
    """Made-up AUC of three sites, of every way; gains: by how much those of the ways with this word are higher."""
    rows, rng = [], np.random.default_rng(0)
    for way, run, site in np.ndindex(len(sites.WAYS), n_runs, 3):
        name = [*sites.WAYS][way]
        gain = sum(by for word, by in gains.items() if word in name)
        value = 0.8 + gain + 0.001 * rng.standard_normal()
        rows.append([sites.ALIKE_SITES.name, name, run, site, 60, 1.0, 0.01, value])
    return pd.DataFrame(rows, columns=[*sites.SITE_COLUMNS])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"alone": -0.02}, "federation paid: every way of tuning alone is worse.**"),
        (
            {"alone": -0.02, "random": 0.02},
            "it is open whether federation pays.** Within chance these are as good: random search, each",
        ),
        (
            {"Optuna": 0.02},
            "federation did not pay.** This way of tuning alone is better for certain: Optuna's TPE, each alone.",
        ),
        ({"pooled": 0.02, "alone": -0.02}, "federation paid"),
        ({"n_runs": 3}, "there are too few runs for a verdict.** The AUC of"),
    ],
)
def test_federation_paid_if_every_way_alone_is_worse(how, said):
    (sentence,) = sites.sentences(sites.compare(table(**how), seed=0))
    assert f"**With alike sites, few fits each, {said}" in sentence
    assert all(way in sentence for way in sites.WAYS if way != sites.GP_SHARED)
