"""Landmine's objectives as surfaces, one for each field, with the clients' recommended points."""

import math

import numpy as np
import pandas as pd

from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.results import Results
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, in_order, legend, new_figure, our_style
from pfpne.paper.show.style import LOOKS, PAGE, algorithm_in_words, label, rounded
from pfpne.problems.landmine import LandmineProblem


def tabulate_deployed(results: Results) -> pd.DataFrame:
    """Tabulate the points that the clients would use at the end of the first run.

    Parameters
    ----------
    results : Results
        The runs on landmine.

    Returns
    -------
    pandas.DataFrame
        One row per algorithm and client: algorithm, client, field, C, gamma, auc, and best_auc of the grid.
    """
    problem, tables = results.experiment.problem(run=0), []
    for name in in_order(name for name, _ in results.runs):
        points = results.runs[name, 0].best  # (M, 2)
        C, gamma = points.T
        reached = [problem.client_values(m, point[None])[0] for m, point in enumerate(points)]
        clients = {"algorithm": name, "client": np.arange(1, len(points) + 1), "field": problem.fields + 1}
        table = pd.DataFrame({**clients, "C": C, "gamma": gamma, "auc": reached, "best_auc": problem.optimum})
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def draw(results: Results, p: Parameters) -> Exhibit:
    """Draw the AUC of each field in use against C and gamma, and the points that its clients would use at T.

    Parameters
    ----------
    results : Results
        The runs on landmine; the first run is shown.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        One panel per field, and the table of `tabulate_deployed` as CSV.
    """
    stem = f"landmine_surfaces{'_printed' * bool(p.reading_in_name(results.experiment))}"
    return draw_surfaces(tabulate_deployed(results), results.experiment.problem(run=0), stem, p)


@our_style()
def draw_surfaces(table: pd.DataFrame, problem: LandmineProblem, stem: str, p: Parameters) -> Exhibit:
    """Draw the table of `tabulate_deployed`. problem: the problem of the first run."""
    names, first = in_order(table["algorithm"]), p.algorithms[0]
    by_field = table.groupby("field")
    columns = min(5, len(by_field))
    rows = -(-len(by_field) // columns)
    caption = (
        "AUC of the support vector machine of each landmine field against C and gamma, in the first run: M = "
        f"{p.n_clients} clients, T = {p.horizon:,} evaluations per client. The axis of gamma is logarithmic. A white "
        "star is the best point of the grid. A mark is the point that a client would use at T; marks of one algorithm "
        "in one panel are clients that share the field. A title has the best AUC of the grid, and the AUC at "
        f"{label(first)}'s mark (the mean, if clients share the field)."
    )
    auc = problem.values(problem.candidates)
    gammas = np.unique(problem.candidates[:, 1])
    log_low, log_high = np.log10(gammas[[0, -1]])
    heights = np.linspace(log_low, log_high, len(gammas))
    nearest = np.abs(np.log10(gammas)[:, None] - heights).argmin(axis=0)  # the row of the grid at each height

    figure, axes = new_figure((PAGE, 0.85 + 1.45 * rows), rows, columns, sharex=True, sharey=True)
    for ax in axes.flat[len(by_field) :]:
        ax.set_axis_off()
    pixels = {"cmap": "cividis", "origin": "lower", "aspect": "auto", "interpolation": "none"}  # stored as they are
    extent = (*problem.domain[0], log_low, log_high)
    star = {"color": "white", "markeredgecolor": "black", "markeredgewidth": 0.5, "clip_on": False}
    disc = {"markeredgecolor": "white", "markeredgewidth": 0.5, "linestyle": "none", "clip_on": False}
    for ax, (field, points) in zip(axes.flat, by_field, strict=False):
        surface = auc[points["client"].iloc[0] - 1]
        grid = surface.reshape(math.isqrt(len(surface)), -1).T  # rows are gamma
        image = ax.imshow(grid[nearest], extent=extent, vmin=auc.min(), vmax=auc.max(), **pixels)
        C, gamma = problem.candidates[np.argmax(surface)]
        ax.plot(C, np.log10(gamma), "*", markersize=7, zorder=3, **star)
        for name in names:
            own, look = points[points["algorithm"] == name], LOOKS[name]
            size, order = (4.5, 5) if name == first else (3.8, 4)
            ax.plot(
                own["C"], np.log10(own["gamma"]), look.marker, color=look.color, markersize=size, zorder=order, **disc
            )
        reached = points.loc[points["algorithm"] == first, "auc"].mean()
        ax.set_title(f"field {field}\nbest {points['best_auc'].iloc[0]:.3f}, {label(first)} {reached:.3f}", fontsize=7)
    powers = np.arange(math.ceil(log_low), math.floor(log_high) + 1)
    axes[0, 0].set_yticks(powers, [f"{10.0**power:g}" for power in powers])
    figure.colorbar(image, ax=axes, label="AUC on the test half", shrink=0.8, pad=0.01)
    for ax in axes[-1]:  # not one for all, which the legend would cover
        ax.set_xlabel("regularization $C$", fontsize=7.5)
    figure.supylabel(r"kernel parameter $\gamma$", fontsize=8.5)
    legend(figure, names, 5, lines=False)
    return figure_exhibit(figure, stem, caption, table)


def in_words(table: pd.DataFrame) -> str:
    """Say how much AUC the clients' points lose against the best of the grid, and whether PF-PNE's differ.

    Parameters
    ----------
    table : pandas.DataFrame
        The points, as `tabulate_deployed` gives them.

    Returns
    -------
    str
        Up to three sentences.
    """
    lost = (table["best_auc"] - table["auc"]).groupby(table["algorithm"], sort=False).mean().sort_values(kind="stable")
    best = lost.index[0]
    text = (
        f"In the first run {algorithm_in_words(best)} loses least AUC at the points that its clients would use, "
        f"against the best point of the grid: {rounded(lost[best])} on average."
        if len(lost) > 1
        else f"In the first run {algorithm_in_words(best)} loses {rounded(lost[best])} of AUC on average, at the "
        "points that its clients would use, against the best point of the grid."
    )
    if "pf-pne" not in lost:
        return text
    if best != "pf-pne":
        text += f" PF-PNE loses {rounded(lost['pf-pne'])}."
    pf_pne_rows = table[table["algorithm"] == "pf-pne"]
    different = len(pf_pne_rows.drop_duplicates(["C", "gamma"]))
    points = "the same point" if different == 1 else f"{different} different points"
    return f"{text} It gives its {len(pf_pne_rows)} clients {points}." if len(pf_pne_rows) > 1 else text
