"""The pictures of pfpne.paper.exhibits.regimes: heat maps of who wins and by how much, and regret against Delta."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pfpne.paper.claims.evidence import COMMON
from pfpne.paper.exhibits.regimes import RIVALS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import CELL_SHADES, EARLY, LOOKS, OWN_DELTA, PAGE, TITLES, label, noise_in_words, title

LETTERS = dict(zip(RIVALS, "P+FEHND", strict=True))
LOW, HIGH = 0.5, 4.0  # of the ratios that shades tell apart
PAGES = ("best", "pf_pne_plus", "federated")  # each has a figure of the whole map; the overview has all


# What a heat map may show but the best: what it is called, whose regret, and over whose, the least of these.
RATIOS = {
    "pf_pne": ("PF-PNE / best other", "pf-pne", [name for name in RIVALS if name != "pf-pne"]),
    "pf_pne_plus": ("PF-PNE+ / best other", "pf-pne+", [name for name in RIVALS if name != "pf-pne+"]),
    "federated": ("PF-PNE / PE", "pf-pne", ["pe"]),
    "federated_own": ("PF-PNE, own $\\Delta$ / PE", OWN_DELTA, ["pe"]),
    "federated_plus": ("PF-PNE+ / its search alone", "pf-pne+", [EARLY]),
}
NAMES = {"best": "smallest regret"} | {quantity: name for quantity, (name, *_) in RATIOS.items()}


def ratio(table: pd.DataFrame, quantity: str) -> pd.Series:
    """A quantity of RATIOS, of the table's rows."""
    _, name, others = RATIOS[quantity]
    return table[name] / table[others].min(axis=1)


def draw_overview(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw every quantity for one M and T, the middle one and the longest.

    There is one row per quantity and one column per objective. table: of `regimes.measure`.
    """
    M, T = sorted(table["clients"].unique())[table["clients"].nunique() // 2], table["horizon"].max()
    regimes = table[(table["clients"] == M) & (table["horizon"] == T)]
    rows = [(name.replace(" / ", "\n/ "), regimes, quantity) for quantity, name in NAMES.items()]
    subject = f"Who has the smallest regret, and by how much: M = {M}, T = {T:,}. "
    return _draw_maps("regime_map", subject, regimes, rows, p, 1.0)


def draw_quantity(table: pd.DataFrame, quantity: str, p: Parameters) -> Exhibit:
    """Draw one quantity (of PAGES) in all of the map: one row per M and T, one column per objective.

    table: of `regimes.measure`.
    """
    groups, name = table.groupby(["clients", "horizon"]), NAMES[quantity]
    rows = [(f"$M = {M}$\n$T = 10^{{{np.log10(T):.2g}}}$", regimes, quantity) for (M, T), regimes in groups]
    subject = f"{name[0].upper()}{name[1:]}. "  # PF-PNE keeps its capitals
    return _draw_maps(f"regime_{quantity}", subject, table, rows, p, 0.83)


@our_style()
def _draw_maps(stem: str, subject: str, table: pd.DataFrame, rows: list, p: Parameters, height: float) -> Exhibit:
    """Heat maps of noise and shift: rows (name, table, quantity), one column per objective."""
    letters = ", ".join(f"{letter} {label(name)}" for name, letter in LETTERS.items())
    caption = (
        f"{subject}Numbers are ratios of mean R(T)/M over n = {p.n_runs} paired runs; below 1, in bold, the first is "
        f"ahead. Letters name the algorithm with the smallest regret: {letters}. There is no letter where its lead is "
        "less than two standard errors. The horizontal axis is the noise: uniform on \N{PLUS-MINUS SIGN}a, or "
        "Bernoulli rewards (B). The vertical axis is the standard deviation of the clients' own shifts, in widths of "
        f"the domain. (All clients share another shift, of {COMMON:g}; landmine has none.) Blank: not run. "
        f"{p.cells.capitalize()} cells."
    )
    quantities = {quantity for *_, quantity in rows}
    if "federated_plus" in quantities:
        caption += f" PF-PNE+'s search alone is {label(EARLY)}."
    objectives = [name for name in TITLES if name in set(table["objective"])]
    noises = sorted(table["noise"].unique(), key=lambda x: (x == "bernoulli", x))

    widths = [1.0 if name != "landmine" else 0.8 for name in objectives]
    size = (PAGE, 0.75 + height * len(rows))
    figure, axes = new_figure(size, len(rows), len(objectives), width_ratios=widths)
    for (name, regimes, quantity), line in zip(rows, axes, strict=True):
        for ax, objective in zip(line, objectives, strict=True):
            _draw_map(ax, regimes[regimes["objective"] == objective], quantity, noises)
            ax.set_title(title(objective) if ax in axes[0] else "")
            ax.set_xlabel("noise" if ax in axes[-1] else "", fontsize=7)
            ax.set_ylabel(name if ax is line[0] else "", fontsize=7)
            ax.tick_params(length=0, labelsize=5.5, pad=1, labelrotation=0)
            if ax not in axes[-1]:
                ax.set_xticks([])
            if ax is not line[0]:
                ax.set_yticks([])
    if quantities != {"best"}:
        ratios = ScalarMappable(LogNorm(LOW, HIGH), "mako_r")
        bar = figure.colorbar(ratios, ax=axes, shrink=0.5, aspect=40, pad=0.01, extend="both")
        bar.set_ticks([LOW, 1, 2, HIGH], labels=[f"{LOW:g}", "1", "2", f"{HIGH:g}"])
        bar.ax.minorticks_off()
    if "best" in quantities:
        patches = [Patch(color=LOOKS[name].color, label=f"{LETTERS[name]}  {label(name)}") for name in RIVALS]
        figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=7)
    return figure_exhibit(figure, stem, caption, table)


def _draw_map(ax: Axes, table: pd.DataFrame, quantity: str, noises: list) -> None:
    """Draw one map: rows the shifts, the largest on top; columns the noises, blank where they were not run."""
    values = table["best"] if quantity == "best" else ratio(table, quantity)
    cells, clear = (
        table.assign(value=values).pivot(index="shift", columns="noise", values=name).reindex(columns=noises).iloc[::-1]
        for name in ("value", "clear")
    )
    names = {"xticklabels": ["B" if x == "bernoulli" else f"{x:g}" for x in noises]}
    names["yticklabels"] = [f"{x:g}" for x in cells.index]
    look = {"ax": ax, "cbar": False, "linewidths": 0.4, "linecolor": "white", "fmt": "", **names}
    if quantity == "best":
        letters = cells.replace(LETTERS).where(clear.eq(True), "").fillna("")
        numbers = cells.replace({name: k for k, name in enumerate(RIVALS)}).astype(float)
        palette = ListedColormap([LOOKS[name].color for name in RIVALS])
        limits = {"vmin": -0.5, "vmax": len(RIVALS) - 0.5}
        sns.heatmap(numbers, annot=letters, cmap=palette, annot_kws={"fontsize": 5.5}, **limits, **look)
        return
    words = cells.map(lambda x: f"{x:.2f}" if x < 0.995 else f"{x:.1f}" if x < 9.95 else f"{x:.0f}")
    sns.heatmap(cells, annot=words, cmap="mako_r", norm=LogNorm(LOW, HIGH), annot_kws={"fontsize": 4.6}, **look)
    for number in ax.texts:
        if "." in number.get_text() and float(number.get_text()) < 0.995:
            number.set_fontweight("bold")


@our_style()
def draw_break_even(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw PF-PNE's regret over PE's against the Delta that it is given: one row per M, one column per objective.

    table: of `regimes.break_even`.
    """
    objectives = [name for name in TITLES if name in set(table["objective"])]
    clients, shifts = sorted(table["clients"].unique()), sorted(table["shift"].unique())
    noise, T = table["noise"].iloc[0], table["horizon"].iloc[0]
    caption = (
        "Mean R(T)/M of PF-PNE over that of PE alone, against the Delta that PF-PNE is given: "
        f"{noise_in_words(noise)}, T = {T:,}, n = {p.n_runs} paired runs, {p.cells} cells. Below 1 federation pays; "
        "where a curve rises above 1 it stops paying. Shades are the standard deviations of the clients' own shifts "
        f"(all clients share another shift, of {COMMON:g}). Discs are PF-PNE with the true Delta, at the left end if "
        "that is 0. Squares are Fed-PNE."
    )
    colors = dict(zip(shifts, sns.color_palette("flare", len(shifts)), strict=True))
    at_zero = min(x for x in table["given"].unique() if x > 0) / 4

    size = (PAGE, 0.7 + 1.35 * len(clients))
    figure, axes = new_figure(size, len(clients), len(objectives), sharex=True, sharey=True)
    for M, line in zip(clients, axes, strict=True):
        for ax, objective in zip(line, objectives, strict=True):
            rows = table[(table["objective"] == objective) & (table["clients"] == M)]
            for shift, curve in rows.groupby("shift"):
                x = curve["given"].where(curve["given"] > 0, at_zero)
                ax.plot(x, curve["ratio"], color=colors[shift], linewidth=0.9)
                first = curve.iloc[0]
                disc = {"markersize": 4, "color": colors[shift], "markeredgecolor": "black", "zorder": 3}
                ax.plot(max(first["Delta"], at_zero), first["own"], "o", markeredgewidth=0.5, **disc)
                ax.plot(at_zero / 2.5, first["fed"], "s", markersize=2.6, color=colors[shift], zorder=3)
            ax.axhline(1, color="0.4", linewidth=0.6, linestyle=":")
            ax.set(xscale="log", yscale="log", xlabel="given $\\Delta$" if M == clients[-1] else "")
            ax.set_title(title(objective) if M == clients[0] else "")
        line[0].set_ylabel(f"$M = {M}$\nregret / PE's")
    axes[0, 0].set_xticks([at_zero, 1e-3, 1e-2, 1e-1, 1], labels=["0", "", ".01", ".1", "1"])
    axes[0, 0].set_yticks([0.25, 0.5, 1, 2, 4], labels=["1/4", "1/2", "1", "2", "4"])
    axes[0, 0].minorticks_off()
    handles = [Line2D([], [], color=color, label=f"shift {shift:g}") for shift, color in colors.items()]
    marks = (("o", "own $\\Delta$"), ("s", label("fed-pne")))
    handles += [Line2D([], [], color="0.5", marker=mark, linestyle="none", label=name) for mark, name in marks]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
    return figure_exhibit(figure, "break_even", caption, table)


@our_style()
def draw_held_out(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw each algorithm's regret over the smallest in the same regime, where the regimes were held out.

    table: of `regimes.held_out`.
    """
    ratios = table[RIVALS].div(table[RIVALS].min(axis=1), axis=0).rename(columns=label)
    long = table[["cells", "objective"]].join(ratios)
    long = long.melt(["cells", "objective"], var_name="algorithm", value_name="ratio")
    counts = ", ".join(f"{n} on {cells} cells" for cells, n in table["cells"].value_counts(sort=False).items())
    caption = (
        f"Mean R(T)/M of each algorithm over the smallest in the same regime, in {len(table)} regimes that are not on "
        f"the map ({counts}), with n = {p.n_runs} paired runs each. A dot is a regime, a larger mark the median, a "
        "bar the middle half of the regimes. Rastrigin is in two dimensions."
    )
    objectives = [name for name in TITLES if name in set(table["objective"])]

    figure, ((*axes,),) = new_figure((PAGE, 2.5), columns=len(objectives), sharex=True, sharey=True)
    for ax, objective in zip(axes, objectives, strict=True):
        rows = long[long["objective"] == objective]
        look = {"hue": "cells", "hue_order": [*CELL_SHADES], "palette": CELL_SHADES, "legend": False, "ax": ax}
        sns.stripplot(rows, x="ratio", y="algorithm", dodge=True, jitter=False, size=1.6, alpha=0.5, **look)
        bars = {"estimator": "median", "errorbar": ("pi", 50), "linewidth": 1.6}
        marks = {"markers": ["o", "s"], "markersize": 3, "linestyle": "none"}
        sns.pointplot(rows, x="ratio", y="algorithm", dodge=0.4, **bars, **marks, **look)
        ax.axvline(1.1, color="0.4", linewidth=0.6, linestyle=":")
        ax.set(xscale="log", xlabel="", ylabel="", title=title(objective))
    axes[0].set_xlim(0.85, 1.1 * long["ratio"].max())
    axes[0].set_xticks([1, 2, 5, 10, 20], labels=["1", "2", "5", "10", "20"])
    for ax in axes:
        ax.minorticks_off()
    figure.supxlabel("regret / smallest regret (dotted: 1.1)", fontsize=7)
    marks = zip(CELL_SHADES.items(), "os", strict=True)
    handles = [Line2D([], [], color=c, marker=mark, label=f"{cells} cells") for (cells, c), mark in marks]
    figure.legend(handles=handles, loc="outside lower right", ncols=2, fontsize=7)
    return figure_exhibit(figure, "held_out", caption, table)
