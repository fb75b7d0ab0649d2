"""The comparison under every combination of the choices that can turn it: how often does each claim come out right?

A reading is a choice of each; each is run for every objective of DIMENSIONS, over few runs. What is counted is which
mean is smaller: no test, for these readings are no sample of anything.
"""

import functools
import itertools
from collections.abc import Callable

import pandas as pd

from pfpne import problems
from pfpne.paper.claims.evidence import ALIKE, Study
from pfpne.paper.claims.tests import c_of_noise
from pfpne.paper.exhibits import deviations
from pfpne.paper.run.groups import DIMENSIONS

CHOICES = {  # what it is -> the values, the paper's or ours first
    "cells": ("random", "cyclic"),
    "T": (1.0, 0.1),  # of the study's
    "noise": (),  # of the profile
    "clients": (0.1, "alike", 0.3),  # their shift
    "Delta": (0.01, "true"),
    "c": (0.1, 0.05, 0.2),  # of PF-PNE, Fed-PNE and PE
    "cut phase": ("played", "not begun"),  # of PF-PNE
    "HCT's c": ("0.1", "by noise"),
}
COMPARISONS = {  # name -> the algorithm, and those that it has less regret than
    "PF-PNE is the smallest of the five": ("pf-pne", ("hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")),
    "PF-PNE has less regret than HCT (PyXAB)": ("pf-pne", ("hct-pyxab",)),
    "PF-PNE has less regret than Fed-PNE": ("pf-pne", ("fed-pne",)),
    "PF-PNE has less regret than PE alone": ("pf-pne", ("pe",)),
    "Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB": ("fed-pne", ("hct-pyxab", "fed1-ucb", "fn-ucb")),
}


def readings(study: Study, most: int | None = None) -> pd.DataFrame:
    """A row an objective and reading: objective, n, the CHOICES, and each algorithm's mean R(T)/M over n runs.

    most: so many values of each choice, the first; all of them by default.
    """
    regimes = [regime for regime in study.regimes if regime.cells == "random" and DIMENSIONS[0] in regime.objectives]
    noises, rows = [regime.noise for regime in regimes], []
    for objective in DIMENSIONS:
        horizons = [max(1, round(part * study.horizon)) for part in CHOICES["T"]]
        cells = CHOICES["cells"] if problems.OBJECTIVES[objective].d > 1 else ("random",)  # in one dimension the same
        values = {**CHOICES, "cells": cells, "T": horizons, "noise": noises}
        regrets = functools.cache(functools.partial(_mean_regret, study, objective))
        for chosen in itertools.product(*(of_one[:most] for of_one in values.values())):
            choice = dict(zip(values, chosen, strict=True))
            rows.append({"objective": objective, "n": study.n_runs, **choice, **_regrets(regrets, choice)})
    return pd.DataFrame(rows)


def _regrets(regret: Callable, choice: dict) -> dict[str, float]:
    """Mean R(T)/M of each algorithm of the comparison; regret: _mean_regret of one objective, each asked for once."""
    on = choice["cells"], choice["T"], choice["noise"], choice["clients"]
    c = () if choice["c"] == 0.1 else (("c", choice["c"]),)  # the default: not to be run twice
    Delta = (("Delta", "true"),) if choice["Delta"] == "true" else ()
    hct = (("c", c_of_noise(choice["noise"])),) if choice["HCT's c"] == "by noise" else ()
    settings = {"pf-pne": c + Delta, "hct-pyxab": hct, "fed1-ucb": (), "fn-ucb": (), "fed-pne": c, "pe": c}
    variant = "whole phases" if choice["cut phase"] == "not begun" else ""
    return {name: regret(name, *on, given, variant if name == "pf-pne" else "") for name, given in settings.items()}


def _mean_regret(
    study: Study, objective: str, name: str, cells, T, noise, clients, settings: tuple, variant: str
) -> float:
    n, clients = study.n_runs, ALIKE if clients == "alike" else {"shift": clients}
    changes = {"cells": cells, "settings": dict(settings), **clients}
    if name == "fn-ucb":  # whose choices do not depend on T
        return study.summary(objective, name, noise, n, **changes)["regret" if T == study.horizon else "sooner"].mean()
    changes["horizon"] = T
    if variant:
        return study.variant(objective, *deviations.VARIANTS[variant], noise, n, **changes).mean()
    return study.regret(objective, name, noise, n, **changes).mean()


def right(table: pd.DataFrame) -> pd.DataFrame:
    """Whether each claim of COMPARISONS comes out right, a column each, in each row of `readings`."""
    pairs = COMPARISONS.items()
    return pd.DataFrame({claim: table[name] < table[[*others]].min(axis=1) for claim, (name, others) in pairs})


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """The share of readings in which each claim comes out right: a row a claim, a column an objective."""
    return right(table).groupby(table["objective"], sort=False).mean().T.rename_axis(index="claim", columns=None)
