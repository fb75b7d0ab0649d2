"""The paper's assumptions about the cells, measured on our objectives: a figure and a table.

Measured are the smallest Delta, omega, nu_1 and rho with which the assumptions hold, and the number of near-optimal
cells.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from pfpne.algorithms.pf_pne import FedPNESettings
from pfpne.paper.claims import assumption_checks
from pfpne.paper.claims.evidence import COMMON_SHIFT
from pfpne.paper.exhibits.regimes import GRIDS
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.selections import PAPER_SYNTHETIC_OBJECTIVES
from pfpne.paper.run.workers import run_in_order
from pfpne.paper.show.export import Exhibit, as_latex, table_exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import (
    ASSUMED_LOOK,
    CELL_LOOKS,
    DASH,
    NEAR_OPTIMAL_LOOKS,
    PAGE,
    TITLES,
    title,
)
from pfpne.partition import CELLS
from pfpne.problems import OBJECTIVES, make_problem
from pfpne.simulation.simulate import partition_of

DEEPEST_MEASURED = {"smoke": 7, "paper": 10}  # the depth of the smallest cells; PF-PNE reaches 8 or 9 in the paper's
SMOOTHNESS = FedPNESettings()  # its nu_1 and rho are given to every algorithm
PROBLEM_COLUMNS = ["objective", "shift", "cells", "run"]
ASSUMPTIONS = {  # the columns of one problem
    "Delta": "the least of Assumption 3",
    "Delta_4": "the least of Assumption 4, with any omega",
    "omega": "the least of Assumption 4, with the Delta of Assumption 3",
    "omega_4": "the same with Delta_4",
    "nu_1": "of the worst client, with rho: what its cells satisfy; infinite where no rho < 1 serves",
    "rho": "",
    "nu_1_f_bar": "of f-bar",
    "rho_f_bar": "",
    "d_min": "near-optimality dimension, with nu_1 = 1 and rho = 0.5, of the clients",
    "d_max": "",
    "d_f_bar": "of f-bar",
    "d_new": "optimality-difference dimension",
}
ASSUMPTIONS_BY_DEPTH = {  # the columns of one depth of a problem
    "depth": "h",
    "diameter": "the least that Assumption 2 allows a cell, of the worst client",
    "diameter_f_bar": "of f-bar",
    "near": "cells that hold a point within 12 nu_1 rho^h of the optimum, of the client that has most",
    "near_f_bar": "within 6 nu_1 rho^h, of f-bar",
    "different": "of the first kind and not of the second, of the client that has most",
}


def measure_problem(deepest: int, objective: str, M: int, shift: float, cells: str, seed: int, run: int) -> list[list]:
    """The values of ASSUMPTIONS for the problem of one run, then one row of ASSUMPTIONS_BY_DEPTH per depth."""
    problem = make_problem(objective, M, shift, seed=seed, run=run, common_shift=COMMON_SHIFT)
    partition = partition_of(problem, cells, seed, run)
    H = min(deepest, partition.max_depth - 4)  # less on landmine, because its grid ends
    lows, highs = assumption_checks.cell_extremes(problem, partition, H)
    best = assumption_checks.optima(problem)
    diameters = assumption_checks.diameters(best, lows, highs)
    near, different = assumption_checks.count_near_optimal(best, highs, SMOOTHNESS.nu_1, SMOOTHNESS.rho)
    d = assumption_checks.near_optimality_dimension(near, SMOOTHNESS.nu_1, SMOOTHNESS.rho)
    d_new = np.minimum(
        d[:-1], assumption_checks.near_optimality_dimension(different, SMOOTHNESS.nu_1, SMOOTHNESS.rho)
    )  # as d_m serves a part, too
    worst, Delta_4 = diameters[:-1].max(axis=0), assumption_checks.Delta_4(problem)
    omegas = [assumption_checks.omega(problem, partition, H, Delta) for Delta in (problem.Delta, Delta_4)]
    smooth = assumption_checks.smoothness(worst), assumption_checks.smoothness(diameters[-1])
    whole = [problem.Delta, Delta_4, *omegas, *smooth[0], *smooth[1], d[:-1].min(), d[:-1].max(), d[-1], d_new.max()]
    by_depth = worst, diameters[-1], near[:-1].max(axis=0), near[-1], different.max(axis=0)
    return [[*map(float, whole)], *([h, *map(float, row)] for h, row in enumerate(zip(*by_depth, strict=True)))]


def _stored_problem(folder: Path, deepest: int, objective: str, *arguments) -> list[list]:
    arguments = deepest, objective, *arguments
    key = cache.key({"of": arguments}, measure_problem, OBJECTIVES[objective])
    return cache.stored_rows(key, lambda: measure_problem(*arguments), folder)


def measure_assumptions(p: Parameters, folder: Path = RESULTS_FOLDER) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measure the paper's assumptions on every objective, with the shifts of the map, on both kinds of cells.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters.
    folder : Path
        The folder of stored measurements.

    Returns
    -------
    problems : pandas.DataFrame
        One row per problem: PROBLEM_COLUMNS and ASSUMPTIONS.
    by_depth : pandas.DataFrame
        One row per problem and depth: PROBLEM_COLUMNS and ASSUMPTIONS_BY_DEPTH.
    """
    places = [
        (objective, shift, cells, run)
        for objective, row in OBJECTIVES.items()
        if objective in (*PAPER_SYNTHETIC_OBJECTIVES, "landmine")  # the paper's
        for shift in (GRIDS[p.profile].shifts if objective != "landmine" else (0.0,))
        for cells in (CELLS if row.d > 1 else CELLS[:1])  # in one dimension both kinds are the same
        for run in range(p.n_runs)
    ]
    scale = folder, DEEPEST_MEASURED[p.profile]
    jobs = [(*scale, objective, p.n_clients, shift, cells, p.seed, run) for objective, shift, cells, run in places]
    measured = run_in_order(_stored_problem, jobs, p.n_jobs, progress("assumptions"))
    problems = [[*place, *first] for place, (first, *_) in zip(places, measured, strict=True)]
    by_depth = [[*place, *row] for place, (_, *rows) in zip(places, measured, strict=True) for row in rows]
    columns = [*PROBLEM_COLUMNS, *ASSUMPTIONS], [*PROBLEM_COLUMNS, *ASSUMPTIONS_BY_DEPTH]
    return pd.DataFrame(problems, columns=columns[0]), pd.DataFrame(by_depth, columns=columns[1])


@our_style()
def draw_assumptions(by_depth: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the diameters that the cells need, and the near-optimal cells, against depth: one column per objective.

    Parameters
    ----------
    by_depth : pandas.DataFrame
        The second table of `measure_assumptions`.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the means over the runs as CSV.
    """
    shifts, depth = by_depth["shift"].unique(), np.arange(by_depth["depth"].max() + 1)
    shift = shifts[np.abs(shifts - p.shift).argmin()]  # the profile's own, or the nearest that was measured
    rows = by_depth[(by_depth["shift"] == shift) | (by_depth["objective"] == "landmine")]
    groups = rows.drop(columns=["run", "shift"]).groupby(["objective", "cells", "depth"], sort=False)
    table = groups.mean().reset_index()
    caption = (
        f"What the cells of the partition satisfy: M = {p.n_clients} clients, shift {shift:g}, means of {p.n_runs} "
        "problems. Top: the smallest diameter that the paper's smoothness (Assumption 2) allows a cell of depth h, "
        "for the worst cell of the worst client. The grey line is the nu_1 rho^h that the algorithms assume. Bottom, "
        "for random cells: how many cells contain a near-optimal point, within 12 nu_1 rho^h of the optimum for f_m "
        "(the client that has most) and within 6 nu_1 rho^h for f-bar; how many are f_m's and not f-bar's; and, in "
        "grey, all cells."
    )
    objectives = [name for name in TITLES if name in set(table["objective"])]

    figure, axes = new_figure((PAGE, 3.8), 2, len(objectives), sharex=True, sharey="row")
    for (top, bottom), objective in zip(axes.T, objectives, strict=True):
        for cells, means in table[table["objective"] == objective].groupby("cells"):
            top.plot(means["depth"], means["diameter"], **CELL_LOOKS[cells])
            for name in NEAR_OPTIMAL_LOOKS if cells == "random" else ():
                bottom.plot(means["depth"], means[name].where(means[name] > 0), **NEAR_OPTIMAL_LOOKS[name])
        top.plot(depth, SMOOTHNESS.nu_1 * SMOOTHNESS.rho**depth, **ASSUMED_LOOK)
        bottom.plot(depth, 2.0**depth, **ASSUMED_LOOK)
        top.set(title=title(objective), yscale="log", ylim=(0.5 ** depth[-1], 1.5))
        bottom.set(yscale="log", xlabel="depth $h$", ylim=(0.8, 2.0 ** depth[-1]), xticks=depth[::2])
    axes[0, 0].set_ylabel("diameter")
    axes[1, 0].set_ylabel("near-optimal cells")
    above = [*CELL_LOOKS.values(), ASSUMED_LOOK | {"label": r"assumed: $\nu_1\rho^h$"}]
    below = [*NEAR_OPTIMAL_LOOKS.values(), ASSUMED_LOOK | {"label": "all cells"}]
    for looks, place in ((above, "upper"), (below, "lower")):
        handles = [Line2D([], [], **look) for look in looks]
        figure.legend(handles=handles, loc=f"outside {place} center", ncols=len(handles), columnspacing=1.2)
    return figure_exhibit(figure, "assumptions", caption, table)


def tabulate_assumptions(problems: pd.DataFrame, p: Parameters) -> Exhibit:
    """Tabulate the medians over the runs: one row per objective, shift and kind of cells.

    Parameters
    ----------
    problems : pandas.DataFrame
        The first table of `measure_assumptions`, which is written as CSV.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The table.
    """
    caption = (
        f"Medians over {p.n_runs} problems of M = {p.n_clients} clients, cells down to depth "
        f"{DEEPEST_MEASURED[p.profile]}. Delta is the smallest that satisfies Assumption 3. Delta (4) is the "
        "smallest that satisfies Assumption 4 with any omega. The two omega are the smallest with Delta (or none) "
        "and with Delta (4). nu_1 and rho are what the cells of the worst client satisfy, rho by least squares, with "
        "a dash if cells do not shrink. The dimensions are counted with 1 and 0.5, which the algorithms are given: "
        "the smallest and the largest of the clients, that of f-bar, and d_new. They are slopes over these depths, "
        "not limits."
    )
    names = {"Delta_4": "Delta (4)", "omega_4": "omega (4)", "d_f_bar": "d-bar"}
    strings = medians_as_strings(problems)
    strings = strings.rename(columns=names | {name: name.capitalize() for name in PROBLEM_COLUMNS})
    latex = as_latex(strings, "lrl" + "r" * (len(strings.columns) - 3))
    return table_exhibit("assumptions_table", caption, strings, {"assumptions_table": problems}, latex)


def medians_as_strings(problems: pd.DataFrame) -> pd.DataFrame:
    """The medians over the runs as strings: one row per objective, shift and kind of cells."""
    medians = (
        problems.drop(columns=["run", "nu_1_f_bar", "rho_f_bar"]).groupby(PROBLEM_COLUMNS[:-1], sort=False).median()
    )
    strings = medians.map(lambda x: "none" if math.isinf(x) else f"{x:.3g}")
    strings.loc[medians["rho"] > 0.995, ["nu_1", "rho"]] = DASH  # a rho of 1 is no smoothness
    strings = strings.reset_index()
    return strings.assign(objective=strings["objective"].map(title), shift=strings["shift"].map("{:g}".format))
