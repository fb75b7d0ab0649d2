"""What the paper assumes, measured on our objectives: a table, a figure, and what it says in words."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from pfpne.algorithms.pf_pne import PhasedSettings
from pfpne.paper.claims import premises
from pfpne.paper.claims.evidence import COMMON
from pfpne.paper.exhibits.regimes import GRIDS
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import unordered
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import ASSUMED_LOOK, CELL_LOOKS, DASH, NEAR_OPTIMAL_LOOKS, PAGE, TITLES, title
from pfpne.partition import CELLS
from pfpne.problems import OBJECTIVES, make_problem
from pfpne.simulation.simulate import partition_of

DEEPEST = {"smoke": 7, "paper": 10}  # PF-PNE reaches depth 8 or 9 in the paper's
OF = PhasedSettings()  # the nu_1 and rho that every algorithm here is given
PLACE = ["objective", "shift", "cells", "run"]
COLUMNS = {
    "Delta": "the least of Assumption 3",
    "Delta_4": "the least of Assumption 4, with any omega",
    "omega": "the least of Assumption 4, with the Delta of Assumption 3",
    "omega_4": "the same with Delta_4",
    "nu_1": "of the worst client, with rho: what its cells satisfy; infinite where no rho < 1 serves",
    "rho": "",
    "nu_1_mean": "of f-bar",
    "rho_mean": "",
    "d_min": "near-optimality dimension, with nu_1 = 1 and rho = 0.5, of the clients",
    "d_max": "",
    "d_mean": "of f-bar",
    "d_new": "optimality-difference dimension",
}
BY_DEPTH = {
    "depth": "h",
    "diameter": "the least that Assumption 2 allows a cell, of the worst client",
    "diameter_mean": "of f-bar",
    "near": "cells that hold a point within 12 nu_1 rho^h of the optimum, of the client that has most",
    "near_mean": "within 6 nu_1 rho^h, of f-bar",
    "different": "of the first kind and not of the second, of the client that has most",
}


def of_problem(deepest: int, objective: str, M: int, shift: float, cells: str, seed: int, run: int) -> list[list]:
    """The values of COLUMNS, of the problem of one run, and a row of BY_DEPTH a depth."""
    problem = make_problem(objective, M, shift, seed=seed, run=run, common=COMMON)
    partition = partition_of(problem, cells, seed, run)
    H = min(deepest, partition.max_depth - 4)  # of landmine, whose grid ends
    lows, highs = premises.ranges(problem, partition, H)
    best = premises.optima(problem)
    diameters = premises.diameters(best, lows, highs)
    near, different = premises.near_optimal(best, highs, OF.nu_1, OF.rho)
    d = premises.dimension(near, OF.nu_1, OF.rho)
    d_new = np.minimum(d[:-1], premises.dimension(different, OF.nu_1, OF.rho))  # what serves f_m serves its part
    worst, Delta_4 = diameters[:-1].max(axis=0), premises.Delta_4(problem)
    omegas = [premises.omega(problem, partition, H, Delta) for Delta in (problem.Delta, Delta_4)]
    smooth = premises.smoothness(worst), premises.smoothness(diameters[-1])
    found = [problem.Delta, Delta_4, *omegas, *smooth[0], *smooth[1], d[:-1].min(), d[:-1].max(), d[-1], d_new.max()]
    by_depth = worst, diameters[-1], near[:-1].max(axis=0), near[-1], different.max(axis=0)
    return [[*map(float, found)], *([h, *map(float, row)] for h, row in enumerate(zip(*by_depth, strict=True)))]


def _stored(folder: Path, deepest: int, objective: str, *arguments) -> list[list]:
    arguments = deepest, objective, *arguments
    key = cache.key({"of": arguments}, of_problem, OBJECTIVES[objective])
    return cache.rows(key, lambda: of_problem(*arguments), folder)


def measure(p: Parameters, folder: Path = RESULTS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row a problem, PLACE and COLUMNS; and a row a depth of it, PLACE and BY_DEPTH.

    Every objective, with the shifts of the map, on both kinds of cells where they differ.
    """
    places = [
        (objective, shift, cells, run)
        for objective, row in OBJECTIVES.items()
        for shift in (GRIDS[p.profile].shifts if objective != "landmine" else (0.0,))
        for cells in (CELLS if row.d > 1 else CELLS[:1])
        for run in range(p.n_runs)
    ]
    scale = folder, DEEPEST[p.profile]
    jobs = [(*scale, objective, p.n_clients, shift, cells, p.seed, run) for objective, shift, cells, run in places]
    found = [rows for _, rows in sorted(unordered(_stored, jobs, p.n_jobs, progress("assumptions")))]
    problems = [[*place, *first] for place, (first, *_) in zip(places, found, strict=True)]
    depths = [[*place, *row] for place, (_, *rows) in zip(places, found, strict=True) for row in rows]
    return pd.DataFrame(problems, columns=[*PLACE, *COLUMNS]), pd.DataFrame(depths, columns=[*PLACE, *BY_DEPTH])


@our_style()
def draw(depths: pd.DataFrame, p: Parameters) -> Exhibit:
    """The diameters that the cells need, and the near-optimal cells, against depth: one column per objective."""
    shifts, depth = depths["shift"].unique(), np.arange(depths["depth"].max() + 1)
    shift = shifts[np.abs(shifts - p.shift).argmin()]  # the profile's own, or the nearest that was measured
    shown = depths[(depths["shift"] == shift) | (depths["objective"] == "landmine")].drop(columns=["run", "shift"])
    table = shown.groupby(["objective", "cells", "depth"], sort=False).mean().reset_index()
    caption = (
        f"What the cells of the partition satisfy: M = {p.n_clients} clients, shift {shift:g}, means of {p.n_runs} "
        "problems. Top: the smallest diameter that the paper's smoothness (Assumption 2) allows a cell of depth h, "
        "for the worst cell of the worst client. The grey line is the nu_1 rho^h that the algorithms assume. Bottom, "
        "for random cells: how many cells contain a near-optimal point, within 12 nu_1 rho^h of the optimum for f_m "
        "(the client that has most) and within 6 nu_1 rho^h for f-bar; how many are f_m's and not f-bar's; and, in "
        "grey, all cells."
    )
    objectives = [name for name in TITLES if name in set(table["objective"])]

    figure, axes = new_figure((PAGE, 3.6), 2, len(objectives), sharex=True, sharey="row")
    for (top, bottom), objective in zip(axes.T, objectives, strict=True):
        for cells, rows in table[table["objective"] == objective].groupby("cells"):
            top.plot(rows["depth"], rows["diameter"], **CELL_LOOKS[cells])
            for name in NEAR_OPTIMAL_LOOKS if cells == "random" else ():
                bottom.plot(rows["depth"], rows[name].where(rows[name] > 0), **NEAR_OPTIMAL_LOOKS[name])
        top.plot(depth, OF.nu_1 * OF.rho**depth, **ASSUMED_LOOK)
        bottom.plot(depth, 2.0**depth, **ASSUMED_LOOK)
        top.set(title=title(objective), yscale="log", ylim=(0.5 ** depth[-1], 1.5))
        bottom.set(yscale="log", xlabel="depth $h$", ylim=(0.8, 2.0 ** depth[-1]), xticks=depth[::2])
    axes[0, 0].set_ylabel("diameter")
    axes[1, 0].set_ylabel("near-optimal cells")
    handles = [Line2D([], [], **look) for look in (*CELL_LOOKS.values(), *NEAR_OPTIMAL_LOOKS.values(), ASSUMED_LOOK)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
    return figure_exhibit(figure, "assumptions", caption, table)


def summary(problems: pd.DataFrame) -> pd.DataFrame:
    """Medians over runs: one row per objective, shift and kind of cells."""
    medians = problems.drop(columns=["run", "nu_1_mean", "rho_mean"]).groupby(PLACE[:-1], sort=False).median()
    shown = medians.map(lambda x: "none" if math.isinf(x) else f"{x:.3g}")
    shown.loc[medians["rho"] > 0.995, ["nu_1", "rho"]] = DASH  # a rho of 1 is no smoothness
    shown = shown.reset_index()
    return shown.assign(objective=shown["objective"].map(title), shift=shown["shift"].map("{:g}".format))
