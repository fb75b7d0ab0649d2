"""When federation pays: the algorithm with the least regret in each regime of a grid, and PF-PNE's regret by Delta."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms.fed1_ucb import reward_deviation
from pfpne.paper.claims.evidence import COMMON_SHIFT, summarize_many
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.selections import MAP_ALGORITHMS, MAP_OBJECTIVES
from pfpne.paper.show.style import HCT_NOISE_EARLY, PF_PNE_WITH_TRUE_DELTA
from pfpne.problems import OBJECTIVES, make_problem
from pfpne.simulation.simulate import partition_of

LARGE_RUN = 10**7  # M T: a run takes seconds


@dataclass(frozen=True)
class Grid:
    """The regimes of the map: every combination of these values.

    Regimes with M T >= LARGE_RUN are included only for noises_of_large_runs. Landmine has no shift, so it is included
    for one shift only.
    """

    objectives: tuple[str, ...]
    noises: tuple
    shifts: tuple[float, ...]
    n_clients: tuple[int, ...]
    horizons: tuple[int, ...]
    noises_of_large_runs: tuple

    def regimes(self) -> list[tuple]:
        """(objective, noise, shift, M, T) of each regime; those that share a problem follow each other."""
        combinations = itertools.product(self.objectives, self.noises, self.shifts, self.n_clients, self.horizons)
        return [
            (objective, noise, shift, M, T)
            for objective, noise, shift, M, T in combinations
            if (objective != "landmine" or shift == self.shifts[0])
            and (M * T < LARGE_RUN or noise in self.noises_of_large_runs)
        ]

    @classmethod
    def from_parameters(cls, p: Parameters, grids: dict[str, Grid] | None = None) -> Grid:
        """Make the grid for a notebook's parameters.

        Parameters
        ----------
        p : Parameters
            The notebook's parameters. Each given parameter narrows its side of the grid to one value.
        grids : dict, optional
            {profile: Grid}; GRIDS by default.

        Returns
        -------
        Grid
            The profile's grid, narrowed.
        """
        sides = {"objectives": p.objective, "noises": p.noise, "shifts": p.shift, "n_clients": p.n_clients}
        sides |= {"horizons": p.horizon, "noises_of_large_runs": p.noise}
        narrowed = {name: (value,) for name, value in sides.items() if value is not None}
        return replace((GRIDS if grids is None else grids)[p.profile], **narrowed)

    @property
    def one_noise(self) -> Grid:
        """The grid under one noise (Bernoulli rewards, if it has them) and at its longest T only."""
        noise = "bernoulli" if "bernoulli" in self.noises else self.noises[0]
        return replace(self, noises=(noise,), horizons=(max(self.horizons),), noises_of_large_runs=(noise,))


GRIDS = {
    "smoke": Grid(("garland", "landmine"), ("bernoulli", 0.1), (0.0, 0.1), (4,), (1_000,), ("bernoulli", 0.1)),
    "paper": Grid(
        MAP_OBJECTIVES,
        (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, "bernoulli"),
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        (5, 20, 100),
        (1_000, 10_000, 100_000),
        ("bernoulli",),
    ),
}
# The held-out regimes, fixed before any of them was run. They differ from the map in the seed, in M and T, in all
# shifts except 0 and in all noises except Bernoulli, and they add rastrigin, in HELD_OUT_DIMENSIONS dimensions.
# docs/pf-pne-plus.md says what they share with the tuning.
HELD_OUT = {
    "smoke": Grid(("garland", "rastrigin"), ("bernoulli",), (0.0, 0.15), (3,), (500,), ("bernoulli",)),
    "paper": Grid(
        ("garland", "doublesine", "himmelblau", "ackley", "landmine", "rastrigin"),
        (0.3, 1.5, "bernoulli"),
        (0.0, 0.03, 0.15),
        (10, 30),
        (3_000, 30_000),
        ("bernoulli",),
    ),
}
HELD_OUT_DIMENSIONS = {"rastrigin": 2}
# Three sets, each a part of the next. MAP_ALGORITHMS are algorithms with their default settings. RANKED_ON_MAP has one
# more, an algorithm with other settings; the best of a regime is one of these. MAP_CONTENDERS are all that are run, and
# have one more that is not ranked: PF-PNE with the true Delta, which nobody knows.
RANKED_ON_MAP = [*MAP_ALGORITHMS, HCT_NOISE_EARLY]
MAP_CONTENDERS = {  # name -> (algorithm, settings)
    **{name: (name, {}) for name in MAP_ALGORITHMS},
    HCT_NOISE_EARLY: ("hct-noise", {"early_descent": True}),
    PF_PNE_WITH_TRUE_DELTA: ("pf-pne", {"Delta": "true"}),
}
REGIME_COLUMNS = ["objective", "noise", "shift", "clients", "horizon"]
SPREAD_DEPTH = 8  # the spread of the clients is measured at the centres of the cells of this depth
BREAK_EVEN_DELTAS = (
    0.0,
    *(2.0**-h for h in range(12, -1, -1)),
)  # H_0 is infinite, 12, 11, ..., 0; others give no other run


def run_regimes(
    p: Parameters, regimes: list[tuple], contenders: dict, progress_name: str, folder: Path, **changes
) -> pd.DataFrame:
    """Run contenders in regimes, with the runs, the seed and the cells of the map.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters.
    regimes : list of tuple
        (objective, noise, shift, M, T) of each. Those that share a problem should follow each other.
    contenders : dict
        {name: (algorithm, settings)}.
    progress_name : str
        What the bar of progress is called.
    folder : Path
        The folder of stored measurements.
    **changes
        Another seed, other cells, and d, the {objective: d} of objectives with an unusual dimension.

    Returns
    -------
    pandas.DataFrame
        One row per regime, contender and run: REGIME_COLUMNS, contender, run, regret R(T)/M, Delta.
    """
    same = {"n_runs": p.n_runs, "seed": p.seed, "cells": p.cells, "common_shift": COMMON_SHIFT, "d": {}} | changes

    def experiments(objective, noise, shift, M, T) -> list[Experiment]:
        scale = {"noise": noise, "shift": shift, "n_clients": M, "horizon": T, "d": same["d"].get(objective)}
        return [
            Experiment(objective, algorithms=(name,), settings=settings, **same | scale)
            for name, settings in contenders.values()
        ]

    # The regimes of a group share their problem.
    groups = [[*group] for _, group in itertools.groupby(regimes, key=lambda regime: regime[:4])]
    asked = [sum((experiments(*regime) for regime in group), []) for group in groups]
    tables = sum(summarize_many(asked, p.n_jobs, progress(progress_name), folder), [])
    places = [dict(zip(REGIME_COLUMNS, regime, strict=True)) for group in groups for regime in group]
    parts = [
        table[["run", "regret", "Delta"]].assign(**place, contender=name)
        for (place, name), table in zip(itertools.product(places, contenders), tables, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def measure(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Measure the regret of every algorithm in the regimes of the map.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; given ones narrow the profile's grid.
    folder : Path
        The folder of stored measurements.

    Returns
    -------
    pandas.DataFrame
        One row per regime: REGIME_COLUMNS, and the mean R(T)/M of each of MAP_CONTENDERS. Further columns describe the
        regime: sigma, the standard deviation of the noise (1/2 for Bernoulli rewards, its largest value); spread, the
        standard deviation across clients of f_m at a point, as a root mean square over the cells of depth SPREAD_DEPTH;
        and Delta, the true one. best is the algorithm of RANKED_ON_MAP with the smallest mean; clear says whether it
        leads every other one by more than two standard errors.
    """
    rows = run_regimes(p, Grid.from_parameters(p).regimes(), MAP_CONTENDERS, "regimes", folder)
    regret = rows.pivot_table("regret", [*REGIME_COLUMNS, "run"], "contender", sort=False)[[*MAP_CONTENDERS]]
    groups = regret.groupby(REGIME_COLUMNS, sort=False)
    table = groups.mean()
    table["Delta"] = (
        rows[rows["contender"] == PF_PNE_WITH_TRUE_DELTA].groupby(REGIME_COLUMNS, sort=False)["Delta"].mean()
    )
    table["best"] = table[RANKED_ON_MAP].idxmin(axis=1)
    table["clear"] = [_is_clear(regrets[RANKED_ON_MAP], table.loc[regime, "best"]) for regime, regrets in groups]
    table = table.reset_index()
    problems = ["objective", "shift", "clients"]
    spreads = [[*key, _spread(p, *key)] for key in table[problems].drop_duplicates().itertuples(index=False)]
    table = table.merge(pd.DataFrame(spreads, columns=[*problems, "spread"]), on=problems)
    table["sigma"] = table["noise"].map(reward_deviation)
    return table


def held_out(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Measure the held-out regimes.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; given ones narrow the grid.
    folder : Path
        The folder of stored measurements.

    Returns
    -------
    pandas.DataFrame
        One row per regime of HELD_OUT and kind of cells: REGIME_COLUMNS, the mean R(T)/M of each of RANKED_ON_MAP, and
        cells.
    """
    grid, contenders, tables = (
        Grid.from_parameters(p, HELD_OUT),
        {name: MAP_CONTENDERS[name] for name in RANKED_ON_MAP},
        [],
    )
    for cells in ("random", "cyclic"):
        if regimes := [regime for regime in grid.regimes() if cells == "random" or OBJECTIVES[regime[0]].d > 1]:
            rows = run_regimes(
                p,
                regimes,
                contenders,
                f"held out, {cells}",
                folder,
                seed=p.seed + 1,
                cells=cells,
                d=HELD_OUT_DIMENSIONS,
            )
            means = rows.pivot_table("regret", REGIME_COLUMNS, "contender", sort=False)[RANKED_ON_MAP]
            tables.append(means.rename_axis(columns=None).reset_index().assign(cells=cells))
    return pd.concat(tables, ignore_index=True)


def identical_clients(table: pd.DataFrame) -> pd.Series:
    """Whether all clients of a regime, a row of the table, have the same objective; landmine's clients never do."""
    return table["shift"].eq(0) & table["objective"].ne("landmine")


def _is_clear(regret: pd.DataFrame, best: str) -> bool:
    """Whether the best leads every other by more than two standard errors.

    regret: one row per run, one column per algorithm.
    """
    leads = regret.drop(columns=best).sub(regret[best], axis=0)
    return bool((leads.mean() > 2 * leads.sem()).all())


def _spread(p: Parameters, objective: str, shift: float, M: int) -> float:
    """The standard deviation across clients of f_m at a point: its root mean square over cells and runs."""
    variances = []
    for run in range(p.n_runs):
        problem = make_problem(objective, M, shift, seed=p.seed, run=run, common_shift=COMMON_SHIFT)
        partition = partition_of(problem, p.cells, p.seed, run)
        values = problem.values(partition.centers(SPREAD_DEPTH, np.arange(1, 2**SPREAD_DEPTH + 1)))
        variances.append(values.var(axis=0, ddof=min(1, M - 1)).mean())
    return math.sqrt(np.mean(variances))


def break_even(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Measure PF-PNE with each of BREAK_EVEN_DELTAS, at one noise and the longest T of the map.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; given ones narrow the profile's grid.
    folder : Path
        The folder of stored measurements.

    Returns
    -------
    pandas.DataFrame
        One row per Delta and regime: REGIME_COLUMNS; given, one of BREAK_EVEN_DELTAS; ratio, PF-PNE's mean R(T)/M over
        PE's; ratio_true_Delta and ratio_fed_pne, this ratio for PF-PNE with the true Delta and for Fed-PNE; Delta, the
        true one.
    """
    contenders = {Delta: ("pf-pne", {"Delta": Delta}) for Delta in BREAK_EVEN_DELTAS}
    contenders |= {name: MAP_CONTENDERS[name] for name in ("pe", "fed-pne", PF_PNE_WITH_TRUE_DELTA)}
    rows = run_regimes(p, Grid.from_parameters(p).one_noise.regimes(), contenders, "break-even", folder)
    means = rows.pivot_table("regret", REGIME_COLUMNS, "contender", sort=False)
    ratios = means.div(means["pe"], axis=0)
    table = ratios[[*BREAK_EVEN_DELTAS]].rename_axis(columns="given").stack().rename("ratio").reset_index()
    more = ratios[[PF_PNE_WITH_TRUE_DELTA, "fed-pne"]].set_axis(["ratio_true_Delta", "ratio_fed_pne"], axis=1)
    more["Delta"] = (
        rows[rows["contender"] == PF_PNE_WITH_TRUE_DELTA].groupby(REGIME_COLUMNS, sort=False)["Delta"].mean()
    )
    return table.merge(more.reset_index(), on=REGIME_COLUMNS)
