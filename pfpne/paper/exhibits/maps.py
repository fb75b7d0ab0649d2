"""The figures of pfpne.paper.exhibits.regimes: heat maps of the best algorithm and of ratios, and regret by Delta."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pfpne.paper.claims.evidence import COMMON_SHIFT
from pfpne.paper.exhibits.regimes import LARGE_RUN, RANKED_ON_MAP, Grid, identical_clients
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.show.export import Exhibit, as_markdown
from pfpne.paper.show.plot import figure_exhibit, log_ticks, new_figure, our_style
from pfpne.paper.show.style import (
    CELL_SHADES,
    LOOKS,
    PAGE,
    TITLES,
    algorithm_in_words,
    in_few_digits,
    label,
    listed,
    noise_in_brief,
    noise_in_words,
    short_decimal,
    title,
)

LETTERS = dict(zip(RANKED_ON_MAP, "P+FEHND", strict=True))
LOWEST_RATIO, HIGHEST_RATIO = 0.25, 4.0  # the range of ratios that shades distinguish
MAPPED_QUANTITIES = ("best", "pf_pne_plus", "federated")  # each has a row of the overview, and a whole map


# The ratios that a heat map may show: the name, the algorithm, and the rivals whose smallest regret is the denominator.
RATIOS = {
    "pf_pne_plus": ("PF-PNE+ / best other", "pf-pne+", [name for name in RANKED_ON_MAP if name != "pf-pne+"]),
    "federated": ("PF-PNE / PE", "pf-pne", ["pe"]),
}
QUANTITY_NAMES = {"best": "smallest regret"} | {quantity: name for quantity, (name, *_) in RATIOS.items()}


def grid_in_words(p: Parameters) -> str:
    """Say which regimes the map has, in a sentence and a table in Markdown.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    str
        The sentence, and the table with one row per side of the grid.
    """
    grid = Grid.from_parameters(p)
    regimes = grid.regimes()
    runs = f"{p.n_runs} paired {'run' if p.n_runs == 1 else 'runs'}"
    words = f"The map has {len(regimes):,} regimes, with {runs} of each, {p.cells} cells and seed {p.seed}."
    in_use = [{*column} for column in zip(*regimes, strict=True)]
    sides = {
        "objective": (grid.objectives, title),
        "noise": (grid.noises, noise_in_words),
        "clients' own shifts, in widths of the domain": (grid.shifts, "{:g}".format),
        "M, clients": (grid.n_clients, "{:,}".format),
        "T, evaluations per client": (grid.horizons, "{:,}".format),
    }
    rows = [
        (name, ", ".join(in_this_form(value) for value in values if value in present))
        for (name, (values, in_this_form)), present in zip(sides.items(), in_use, strict=True)
    ]
    large = any(M * T >= LARGE_RUN for *_, M, T in regimes)
    if large and set(grid.noises) - set(grid.noises_of_large_runs):
        only = listed(map(noise_in_words, grid.noises_of_large_runs))
        words += f" If M T is {LARGE_RUN:,} or more, a regime has only this noise: {only}."
    if "landmine" in grid.objectives:
        words += " Landmine's clients are as they are, without a shift."
    return f"{words}\n\n{as_markdown(pd.DataFrame(rows, columns=['What varies', 'Values']))}"


def quantity_ratio(table: pd.DataFrame, quantity: str) -> pd.Series:
    """A quantity of RATIOS, of the table's rows."""
    _, name, others = RATIOS[quantity]
    return table[name] / table[others].min(axis=1)


def draw_overview(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the quantities of MAPPED_QUANTITIES for one M and T, the middle one and the longest.

    Parameters
    ----------
    table : pandas.DataFrame
        As `pfpne.paper.exhibits.regimes.measure` returns it.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, with one row per quantity and one column per objective, and its regimes as CSV.
    """
    M, T = sorted(table["clients"].unique())[table["clients"].nunique() // 2], table["horizon"].max()
    regimes = table[(table["clients"] == M) & (table["horizon"] == T)]
    rows = [(QUANTITY_NAMES[quantity], regimes, quantity) for quantity in MAPPED_QUANTITIES]
    subject = f"Who has the smallest regret, and by how much: M = {M}, T = {T:,}. "
    return _draw_maps("regime_map", subject, regimes, rows, p, 1.6)


def draw_quantity(table: pd.DataFrame, quantity: str, p: Parameters) -> Exhibit:
    """Draw one quantity in all of the map: one row per M and T, one column per objective.

    Parameters
    ----------
    table : pandas.DataFrame
        As `pfpne.paper.exhibits.regimes.measure` returns it.
    quantity : str
        Of MAPPED_QUANTITIES.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    groups, name = table.groupby(["clients", "horizon"]), QUANTITY_NAMES[quantity]
    rows = [(f"$M = {M}$, $T = 10^{{{np.log10(T):.2g}}}$", regimes, quantity) for (M, T), regimes in groups]
    subject = f"{name[0].upper()}{name[1:]}. "  # PF-PNE keeps its capitals
    return _draw_maps(f"regime_{quantity}", subject, table, rows, p, 0.95)


@our_style()
def _draw_maps(stem: str, subject: str, table: pd.DataFrame, rows: list, p: Parameters, height: float) -> Exhibit:
    """Heat maps of noise and shift: rows (name, table, quantity), one column per objective."""
    quantities = {quantity for *_, quantity in rows}
    letters = ", ".join(f"{letter} is {algorithm_in_words(name)}" for name, letter in LETTERS.items())
    caption = (
        f"{subject}Numbers are ratios of mean R(T)/M over n = {p.n_runs} paired runs. Below 1 (blue) the first is "
        f"ahead. Letters name the algorithm with the smallest regret: {letters}. A tile is pale where its lead is less "
        "than two standard errors. The horizontal axis is the noise: uniform on \N{PLUS-MINUS SIGN}a, or Bernoulli "
        "rewards (B), in the order of their standard deviations. The vertical axis is the standard deviation of the "
        f"clients' own shifts, in widths of the domain. (All clients share another shift, of {COMMON_SHIFT:g}; "
        "landmine has "
        f"none.) Blank: not run. {p.cells.capitalize()} cells."
    )
    objectives = [name for name in TITLES if name in set(table["objective"])]
    noises = [*table.sort_values("sigma", kind="stable")["noise"].unique()]

    number_size = 6 if len(objectives) <= 5 else 5  # in points: numbers side by side must not touch
    size = (PAGE, 0.8 + height * len(rows))
    figure, axes = new_figure(size, len(rows), len(objectives))
    for (name, regimes, quantity), line in zip(rows, axes, strict=True):
        for ax, objective in zip(line, objectives, strict=True):
            _draw_map(ax, regimes[regimes["objective"] == objective], quantity, noises, number_size)
            ax.set_title(title(objective) if ax in axes[0] else "")
            ax.set_xlabel("noise" if ax in axes[-1] else "", fontsize=7)
            ax.set_ylabel(f"{name}\nclients' shift" if ax is line[0] else "", fontsize=7)
            ax.tick_params(length=0, labelsize=6, pad=1, labelrotation=0)
            if ax not in axes[-1]:
                ax.set_xticks([])
            if ax is not line[0]:
                ax.set_yticks([])
    if quantities != {"best"}:
        ratios = ScalarMappable(LogNorm(LOWEST_RATIO, HIGHEST_RATIO), "vlag")
        bar = figure.colorbar(ratios, ax=axes, shrink=0.5, aspect=40, pad=0.01, extend="both")
        bar.set_ticks([LOWEST_RATIO, 0.5, 1, 2, HIGHEST_RATIO], labels=["1/4", "1/2", "1", "2", "4"])
        bar.ax.minorticks_off()
    if "best" in quantities:
        first = [name for name in RANKED_ON_MAP if name in set(table["best"])]
        patches = [Patch(color=LOOKS[name].color, label=f"{LETTERS[name]}  {label(name)}") for name in first]
        patches.append(Patch(color=_pale("black"), label="pale: no clear lead"))
        figure.legend(handles=patches, loc="outside lower center", ncols=-(-len(patches) // 2), fontsize=7)
    return figure_exhibit(figure, stem, caption, table)


def _draw_map(ax: Axes, table: pd.DataFrame, quantity: str, noises: list, number_size: float) -> None:
    """Draw one map: rows the shifts, the largest on top; columns the noises, blank where they were not run."""
    values = table["best"] if quantity == "best" else quantity_ratio(table, quantity)
    cells, clear = (
        table.assign(value=values).pivot(index="shift", columns="noise", values=name).reindex(columns=noises).iloc[::-1]
        for name in ("value", "clear")
    )
    names = {"xticklabels": [noise_in_brief(noise) for noise in noises]}
    names["yticklabels"] = [short_decimal(f"{x:g}") for x in cells.index]
    look = {"ax": ax, "cbar": False, "linewidths": 0.4, "linecolor": "white", "fmt": "", **names}
    if quantity == "best":
        shades = [
            shade for name in RANKED_ON_MAP for shade in (LOOKS[name].color, _pale(LOOKS[name].color))
        ]  # of a clear lead, and of another
        numbers = cells.replace({name: 2 * k for k, name in enumerate(RANKED_ON_MAP)}).astype(float) + ~clear.eq(True)
        limits = {"vmin": -0.5, "vmax": len(shades) - 0.5}
        letters = cells.replace(LETTERS).fillna("")
        sns.heatmap(numbers, annot=letters, cmap=ListedColormap(shades), annot_kws={"fontsize": 6.5}, **limits, **look)
        return
    words = cells.map(in_few_digits)
    ratios = LogNorm(LOWEST_RATIO, HIGHEST_RATIO)
    sns.heatmap(cells, annot=words, cmap="vlag", norm=ratios, annot_kws={"fontsize": number_size}, **look)


def _pale(color: str) -> np.ndarray:
    """The colour mixed with white."""
    return 0.35 * np.array(to_rgb(color)) + 0.65


def in_words(table: pd.DataFrame) -> str:
    """Say in how many regimes each algorithm has the smallest regret, and how often federating pays.

    Parameters
    ----------
    table : pandas.DataFrame
        The map, as `regimes.measure` returns it.

    Returns
    -------
    str
        Two or three sentences.
    """
    n, times_first = len(table), table["best"].value_counts()
    counts = listed([f"{algorithm_in_words(name)} in {count}" for name, count in times_first.items()])
    identical = identical_clients(table)
    less = table["pf-pne"] < table["pe"]
    parts = [
        f"{less[mask].sum()} of {mask.sum()} with {clients} clients"
        for clients, mask in (("identical", identical), ("differing", ~identical))
        if mask.any()
    ]
    return (
        f"This is who has the smallest mean regret in {n} {'regime' if n == 1 else 'regimes'}: {counts}. The lead over "
        f"every other is more than two standard errors in {table['clear'].sum()}. PF-PNE has less regret than PE, its "
        f"own search without a federation, in {listed(parts)}."
    )


@our_style()
def draw_break_even(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw PF-PNE's regret over PE's against the Delta that it is given, for the middle M.

    Parameters
    ----------
    table : pandas.DataFrame
        The curves, as `pfpne.paper.exhibits.regimes.break_even` returns them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, one panel per objective, and the curves of every M as CSV.
    """
    objectives = [name for name in TITLES if name in set(table["objective"])]
    clients, shifts = sorted(table["clients"].unique()), sorted(table["shift"].unique())
    M, noise, T = clients[len(clients) // 2], table["noise"].iloc[0], table["horizon"].iloc[0]
    others = f" The CSV has M = {', '.join(map(str, clients))}." if len(clients) > 1 else ""
    caption = (
        f"Mean R(T)/M of PF-PNE over that of PE alone, against the Delta that PF-PNE is given: M = {M} clients, "
        f"{noise_in_words(noise)}, T = {T:,}, n = {p.n_runs} paired runs, {p.cells} cells. Federation pays below 1, "
        "where the ground is blue. Lines are named by the standard deviations of the clients' own shifts (all clients "
        f"share another shift, of {COMMON_SHIFT:g}; landmine has none). Discs are PF-PNE with the true Delta, at "
        "the left "
        f"end if that is 0. Squares are Fed-PNE.{others}"
    )
    colors = dict(zip(shifts, sns.color_palette("flare", len(shifts)), strict=True))
    at_zero = min(x for x in table["given"].unique() if x > 0) / 4
    plotted = table[table["clients"] == M]
    ratios = plotted[["ratio", "ratio_true_Delta", "ratio_fed_pne"]]
    lowest, highest = ratios.min().min(), ratios.max().max()

    figure, ((*axes,),) = new_figure((PAGE, 2.5), columns=len(objectives), sharex=True, sharey=True)
    for ax, objective in zip(axes, objectives, strict=True):
        for shift, curve in plotted[plotted["objective"] == objective].groupby("shift"):
            x = curve["given"].where(curve["given"] > 0, at_zero)
            ax.plot(x, curve["ratio"], color=colors[shift], linewidth=1)
            first = curve.iloc[0]
            disc = {"markersize": 4, "color": colors[shift], "markeredgecolor": "black", "zorder": 3}
            ax.plot(max(first["Delta"], at_zero), first["ratio_true_Delta"], "o", markeredgewidth=0.5, **disc)
            ax.plot(at_zero / 2.5, first["ratio_fed_pne"], "s", markersize=2.6, color=colors[shift], zorder=3)
        ax.axhspan(lowest / 2, 1, color=LOOKS["fed-pne"].color, alpha=0.07, linewidth=0)
        ax.set(xscale="log", yscale="log", xlabel="given $\\Delta$", title=title(objective))
        ax.set_ylim(lowest / 1.15, 1.15 * highest)
    axes[0].set_ylabel(f"regret / PE's, $M = {M}$")
    axes[0].set_xticks([at_zero, 1e-3, 1e-2, 1e-1, 1], labels=["0", ".001", "", ".1", "1"])  # not all: they touch
    log_ticks(axes[0].yaxis)
    for ax in axes:
        ax.minorticks_off()
    axes[0].annotate("federation pays", (0.97, 0.03), xycoords="axes fraction", fontsize=7, ha="right")
    handles = [Line2D([], [], color=color, label=f"shift {shift:g}") for shift, color in colors.items()]
    marks = (("o", "true $\\Delta$"), ("s", label("fed-pne")))
    handles += [Line2D([], [], color="0.5", marker=mark, linestyle="none", label=name) for mark, name in marks]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2, fontsize=7)
    return figure_exhibit(figure, "break_even", caption, table)


@our_style()
def draw_held_out(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the ratio of each algorithm's regret to the smallest one, over the held-out regimes.

    Parameters
    ----------
    table : pandas.DataFrame
        As `pfpne.paper.exhibits.regimes.held_out` returns it.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    ratios = table[RANKED_ON_MAP].div(table[RANKED_ON_MAP].min(axis=1), axis=0).rename(columns=label)
    long = table[["cells", "objective"]].join(ratios)
    long = long.melt(["cells", "objective"], var_name="algorithm", value_name="ratio")
    counts = ", ".join(f"{n} on {cells} cells" for cells, n in table["cells"].value_counts(sort=False).items())
    caption = (
        f"Mean R(T)/M of each algorithm over the smallest in the same regime, in {len(table)} regimes that are not on "
        f"the map ({counts}), with n = {p.n_runs} paired runs each. A dot is a regime, a larger mark the median, a "
        "bar the middle half of the regimes; the algorithm with the smallest median over all is on top. Rastrigin is "
        "in two dimensions."
    )
    order = [*ratios.median().sort_values(kind="stable").index]
    objectives = [name for name in TITLES if name in set(table["objective"])]

    figure, ((*axes,),) = new_figure((PAGE, 2.8), columns=len(objectives), sharex=True, sharey=True)
    for ax, objective in zip(axes, objectives, strict=True):
        rows = long[long["objective"] == objective]
        look = {"hue": "cells", "hue_order": [*CELL_SHADES], "palette": CELL_SHADES, "legend": False, "order": order}
        look["ax"] = ax
        sns.stripplot(rows, x="ratio", y="algorithm", dodge=True, jitter=False, size=1.6, alpha=0.5, **look)
        bars = {"estimator": "median", "errorbar": ("pi", 50), "linewidth": 2.4}
        marks = {"markers": ["o", "s"], "markersize": 3.4, "linestyle": "none"}
        sns.pointplot(rows, x="ratio", y="algorithm", dodge=0.4, **bars, **marks, **look)
        for line in ax.lines:
            line.set(markerfacecolor="white", markeredgewidth=0.8)  # so that the bar is seen beside it
        ax.axvline(1.1, color="0.4", linewidth=0.6, linestyle=":")
        ax.set(xscale="log", xlabel="", ylabel="", title=title(objective))
    axes[0].set_xlim(0.85, 1.1 * long["ratio"].max())
    axes[0].set_xticks([1, 2, 5, 10, 20], labels=["1", "2", "5", "10", "20"])
    for ax in axes:
        ax.minorticks_off()
    figure.supxlabel("\N{LEFTWARDS ARROW} less regret: regret / smallest regret (dotted: 1.1)", fontsize=8.5)
    marks = zip(CELL_SHADES.items(), "os", strict=True)
    handles = [
        Line2D([], [], color=c, marker=mark, markerfacecolor="white", label=f"{cells} cells")
        for (cells, c), mark in marks
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, fontsize=7)
    return figure_exhibit(figure, "held_out", caption, table)
