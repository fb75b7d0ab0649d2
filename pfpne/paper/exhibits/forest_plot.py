"""The forest plot: each algorithm's regret over PF-PNE's, on every objective and under every noise."""

import numpy as np
import pandas as pd

from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import PAPER_SETTINGS
from pfpne.paper.run.selections import APPENDIX_OBJECTIVES
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, in_order, legend, log_ticks, new_figure, our_style
from pfpne.paper.show.style import (
    LOOKS,
    PAGE,
    PF_PNE_WITH_TRUE_DELTA,
    TITLES,
    algorithm_in_words,
    listed,
    noise_in_words,
    title,
)
from pfpne.rng import stream

FOREST_RIVALS = (PF_PNE_WITH_TRUE_DELTA, "fed-pne", "pe", "hct-pyxab", "fed1-ucb", "fn-ucb")


def ratios(study: Study) -> pd.DataFrame:
    """Measure R(T)/M of each of FOREST_RIVALS over PF-PNE's, in paired runs.

    Parameters
    ----------
    study : Study
        The scale of the runs. FN-UCB on the appendix's objectives has only the runs of the figures.

    Returns
    -------
    pandas.DataFrame
        One row per noise, cells, objective and algorithm: n (runs), ratio (of the means), and the ends low and high
        of its 95 % bootstrap interval.
    """
    rows = []
    for condition in study.claim_conditions:
        for objective in condition.objectives:
            pf_pne = study.summaries(objective, "pf-pne", condition.noise, cells=condition.cells)["regret"].to_numpy()
            for rival in FOREST_RIVALS:
                name, settings = ("pf-pne", {"Delta": "true"}) if rival == PF_PNE_WITH_TRUE_DELTA else (rival, {})
                n = study.figure_runs if rival == "fn-ucb" and objective in APPENDIX_OBJECTIVES else study.claim_runs
                runs = study.summaries(objective, name, condition.noise, n, cells=condition.cells, settings=settings)
                theirs = runs["regret"].to_numpy()
                head = condition.name, condition.cells, objective, rival
                rows.append((*head, n, *stats.ratio_interval(theirs, pf_pne[:n], stream(study.seed, "ratios", *head))))
    columns = ["noise", "cells", "objective", "algorithm", "n", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def in_words(table: pd.DataFrame) -> str:
    """Say how often each algorithm has less regret than PF-PNE, on random cells.

    Parameters
    ----------
    table : pandas.DataFrame
        The ratios, as `ratios` gives them.

    Returns
    -------
    str
        Three sentences, which count whole intervals on either side of 1; or one, because a single run has no interval.
    """
    rows = table[table["cells"] == "random"].dropna(subset=["low", "high"])
    if rows.empty:
        return "No ratio has an interval, so nothing is shown about who has less regret."
    counts = rows.assign(less=rows["high"] < 1, more=rows["low"] > 1).groupby("algorithm")[["less", "more"]].sum()
    counts["open"] = rows.groupby("algorithm").size() - counts["less"] - counts["more"]
    parts = [f"{algorithm_in_words(name)} {'/'.join(map(str, counts.loc[name]))}" for name in in_order(counts.index)]
    less, more, undecided = counts.sum()
    return (
        "On random cells, the interval of the ratio is below 1, where an algorithm has less regret than PF-PNE, in "
        f"{less} of {len(rows)} cases. It is above 1 in {more}, and contains 1 in {undecided}. In this order, by "
        f"algorithm: {listed(parts)}."
    )


@our_style()
def draw(table: pd.DataFrame, study: Study) -> Exhibit:
    """Draw the ratios with their intervals: one row per objective and kind of cells, one panel per noise.

    Parameters
    ----------
    table : pandas.DataFrame
        The ratios, as `ratios` gives them.
    study : Study
        The scale of the runs, which the caption names. Landmine, which has no noise, has the last panel.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    names, runs = in_order(table["algorithm"]), sorted(set(table["n"]))
    noises = list(dict.fromkeys(condition.name for condition in study.claim_conditions if condition.name != "landmine"))
    row_names = table["objective"].map(title) + np.where(table["cells"] == "cyclic", ", cyclic", "")
    table = table.assign(row=row_names)
    order = [row for f in TITLES for row in (title(f), f"{title(f)}, cyclic") if row in set(row_names)]
    of_landmine = set(row_names[table["objective"] == "landmine"])
    synthetic = [row for row in order if row not in of_landmine]
    landmine = [row for row in order if row in of_landmine]
    caption = (
        f"Regret R(T)/M of each algorithm over PF-PNE's (Delta = {PAPER_SETTINGS.Delta:g}): left of the line an"
        f" algorithm has less regret than PF-PNE. M = {study.n_clients} clients, T = {study.horizon:,}, n ="
        f" {' or '.join(map(str, runs))} paired runs. Ratios of means with bootstrap 95 % intervals. Pale: cyclic"
        " cells, which PyXAB's default does not use."
    )

    width = PAGE if len(noises) > 1 else 0.75 * PAGE
    size = (width, 1.2 + 0.42 * max(len(synthetic), len(landmine)))
    widths = [*[1.0] * len(noises), 0.8]
    figure, ((*axes,),) = new_figure(size, columns=len(noises) + 1, sharex=True, width_ratios=widths)
    for ax, noise in zip(axes, [*noises, "landmine"], strict=True):
        rows = landmine if noise == "landmine" else synthetic
        for k, name in enumerate(names):
            points, look = table[(table["noise"] == noise) & (table["algorithm"] == name)], LOOKS[name]
            for cells, strength in (("random", 1.0), ("cyclic", 0.35)):
                drawn = points[points["cells"] == cells]
                heights = drawn["row"].map(rows.index) + 0.66 * (k / max(1, len(names) - 1) - 0.5)
                ax.hlines(heights, drawn["low"], drawn["high"], color=look.color, linewidth=1, alpha=strength)
                marks = {"markersize": 3.2, "markeredgewidth": 0.6, "alpha": strength}
                ax.plot(drawn["ratio"], heights, look.marker, color=look.color, **marks)
        ax.axvline(1, color="black", linewidth=0.8, zorder=0)
        whole_width = ax.get_yaxis_transform()
        ax.hlines(np.arange(1, len(rows)) - 0.5, 0, 1, color="0.8", linewidth=0.4, transform=whole_width)
        ax.set(xscale="log", title=noise_in_words(noise), ylim=(len(rows) - 0.5, -0.5))
        ax.set_xlabel("$R(T)/M$ over PF-PNE's\n\N{LEFTWARDS ARROW} less regret", fontsize=7.5)
        log_ticks(ax.xaxis)
        ax.tick_params(axis="y", length=0)
        named = ax is axes[0] or noise == "landmine"
        ax.set_yticks(range(len(rows)), rows if named else [])
    legend(figure, names, 6 if len(noises) > 1 else 3, lines=False)
    return figure_exhibit(figure, "forest", caption, table.drop(columns="row"))
