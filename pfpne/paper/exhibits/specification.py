"""The comparison under every combination of the choices that can turn it: how often does each claim come out right?

A combination has one value of each of CHOICES. Every combination is run for every objective of ONE_PER_DIMENSION, over
few runs. Only the order of the means is counted, without a test, because the combinations are not a sample from a
population.
"""

import functools
import itertools
import textwrap
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pfpne import problems
from pfpne.paper.claims.claim_tests import c_of_noise
from pfpne.paper.claims.evidence import IDENTICAL_CLIENT_CHANGES, Study
from pfpne.paper.claims.outcomes import PAPER_SETTINGS
from pfpne.paper.exhibits import variants
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, log_ticks, new_figure, our_style
from pfpne.paper.show.style import LOOKS, PAGE, TITLES, Delta_in_words, listed, noise_in_words, title

CHOICES = {  # choice -> its values, the paper's or ours first
    "cells": ("random", "cyclic"),
    "T": (1.0, 0.1),  # of the study's
    "noise": (),  # of the profile
    "clients": (0.1, "alike", 0.3),  # their shift
    "Delta": (PAPER_SETTINGS.Delta, "true"),
    "c": (PAPER_SETTINGS.c, 0.05, 0.2),  # of PF-PNE, Fed-PNE and PE
    "cut phase": ("played", "not begun"),  # of PF-PNE
    "HCT's c": ("0.1", "by noise"),
}
CLAIMED_ORDERINGS = {  # name -> the algorithm, and the rivals that should have more regret
    "PF-PNE is the smallest of the five": ("pf-pne", ("hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")),
    "PF-PNE has less regret than HCT (PyXAB)": ("pf-pne", ("hct-pyxab",)),
    "PF-PNE has less regret than Fed-PNE": ("pf-pne", ("fed-pne",)),
    "PF-PNE has less regret than PE alone": ("pf-pne", ("pe",)),
    "Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB": ("fed-pne", ("hct-pyxab", "fed1-ucb", "fn-ucb")),
}


def compare_combinations(study: Study, max_values: int | None = None) -> pd.DataFrame:
    """Run the comparison under every combination.

    Parameters
    ----------
    study : Study
        The scale of the runs.
    max_values : int, optional
        If given, only so many values of each choice are tried, the first ones; by default all.

    Returns
    -------
    pandas.DataFrame
        One row per objective and combination: objective, n, the CHOICES, and each algorithm's mean R(T)/M over n runs.
    """
    conditions = [
        condition
        for condition in study.claim_conditions
        if condition.cells == "random" and ONE_PER_DIMENSION[0] in condition.objectives
    ]
    noises, rows = [condition.noise for condition in conditions], []
    for objective in ONE_PER_DIMENSION:
        horizons = [max(1, round(part * study.horizon)) for part in CHOICES["T"]]
        cells = CHOICES["cells"] if problems.OBJECTIVES[objective].d > 1 else ("random",)  # in one dimension the same
        values = {**CHOICES, "cells": cells, "T": horizons, "noise": noises}
        regrets = functools.cache(functools.partial(_mean_regret, study, objective))
        for chosen in itertools.product(*(of_one[:max_values] for of_one in values.values())):
            choice = dict(zip(values, chosen, strict=True))
            rows.append({"objective": objective, "n": study.claim_runs, **choice, **_regrets(regrets, choice)})
    return pd.DataFrame(rows)


def _regrets(regret: Callable, choice: dict) -> dict[str, float]:
    """Mean R(T)/M of each algorithm of the comparison; regret: _mean_regret of one objective, each asked for once."""
    place = choice["cells"], choice["T"], choice["noise"], choice["clients"]
    c = () if choice["c"] == PAPER_SETTINGS.c else (("c", choice["c"]),)  # the default: not to be run twice
    Delta = (("Delta", "true"),) if choice["Delta"] == "true" else ()
    hct = (("c", c_of_noise(choice["noise"])),) if choice["HCT's c"] == "by noise" else ()
    settings = {"pf-pne": c + Delta, "hct-pyxab": hct, "fed1-ucb": (), "fn-ucb": (), "fed-pne": c, "pe": c}
    variant = "whole phases" if choice["cut phase"] == "not begun" else ""
    return {
        name: regret(name, *place, own_settings, variant if name == "pf-pne" else "")
        for name, own_settings in settings.items()
    }


def _mean_regret(
    study: Study, objective: str, name: str, cells, T, noise, client_shift, settings: tuple, variant: str
) -> float:
    n = study.claim_runs
    clients = IDENTICAL_CLIENT_CHANGES if client_shift == "alike" else {"shift": client_shift}
    changes = {"cells": cells, "settings": dict(settings), **clients}
    if name == "fn-ucb":  # whose choices do not depend on T
        return study.summaries(objective, name, noise, n, **changes)[
            "regret" if T == study.horizon else "early_regret"
        ].mean()
    changes["horizon"] = T
    if variant:
        return study.variant_regrets(objective, *variants.DEVIATION_VARIANTS[variant], noise, n, **changes).mean()
    return study.summaries(objective, name, noise, n, **changes)["regret"].mean()


def claims_held(table: pd.DataFrame) -> pd.DataFrame:
    """Whether each claim of CLAIMED_ORDERINGS (one column each) is right in each row of `compare_combinations`."""
    pairs = CLAIMED_ORDERINGS.items()
    return pd.DataFrame({claim: table[name] < table[[*others]].min(axis=1) for claim, (name, others) in pairs})


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """Count the share of combinations in which each claim comes out right.

    Parameters
    ----------
    table : pandas.DataFrame
        The combinations, as `compare_combinations` returns them.

    Returns
    -------
    pandas.DataFrame
        One row per claim, one column per objective.
    """
    return claims_held(table).groupby(table["objective"], sort=False).mean().T.rename_axis(index="claim", columns=None)


# --- the figure ---------------------------------------------------------------------------------------

MAIN_CLAIM = next(iter(CLAIMED_ORDERINGS))  # what the upper two panels are about


@our_style()
def draw(table: pd.DataFrame, study: Study) -> Exhibit:
    """Draw the specification curve, one column per objective.

    Top: the ratio of PF-PNE's regret to its best rival's in every combination, in order, one curve per noise. Middle:
    how often PF-PNE is first for each value of each choice. Bottom: the share of combinations in which each claim is
    right.

    Parameters
    ----------
    table : pandas.DataFrame
        The combinations, as `compare_combinations` gives them.
    study : Study
        The scale of the runs, which the caption names.

    Returns
    -------
    Exhibit
        The figure, and as CSV the table with one column more for each of CLAIMED_ORDERINGS.
    """
    held, objectives = claims_held(table), list(table["objective"].unique())
    algorithm, rivals = CLAIMED_ORDERINGS[MAIN_CLAIM]
    ratio = table[algorithm] / table[list(rivals)].min(axis=1)
    noises = list(table["noise"].unique())
    looks = [LOOKS[name].color for name in ("fed-pne", "pf-pne", "pe", "fn-ucb", "fed1-ucb")]
    colors = dict(zip(noises, looks, strict=False))
    counts = ", ".join(f"{(table['objective'] == f).sum()} on {title(f)}" for f in objectives)
    caption = (
        f"The main comparison under every combination of choices: {counts}. The"
        " choices of Delta and of the cut phase are PF-PNE's. The choice of c is also Fed-PNE's and PE's. M ="
        f" {study.n_clients} clients, means of n = {study.claim_runs} runs, no test. Above: PF-PNE's regret over the"
        " smallest of the other four's, in increasing order, one curve per noise; below the line PF-PNE is first."
        " Middle: the share of combinations with this choice in which PF-PNE is first. Below: the share of"
        " combinations in which each statement holds."
    )
    choices = [(name, value) for name in CHOICES for value in table[name].unique()]

    heights = {"height_ratios": (1.3, 3.0, 1.2)}
    figure, axes = new_figure((PAGE, 6.8), 3, len(objectives), sharey="row", **heights)
    for (above, middle, below), objective in zip(axes.T, objectives, strict=True):
        here = table["objective"] == objective
        _draw_ratios(above, ratio[here], table["noise"], colors)
        above.set_title(TITLES[objective])
        _draw_choices(middle, table[here], held.loc[here, MAIN_CLAIM], choices, colors)
        _draw_shares(below, held[here].mean())
        for ax in (above, middle, below):
            ax.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes[0, 0].set_ylabel("PF-PNE / best other")
    axes[1, 0].set_yticks(range(len(choices)), [_choice_in_words(*choice) for choice in choices], fontsize=6.5)
    names = [textwrap.fill(name.replace("PF-PNE has less", "Less"), 44) for name in CLAIMED_ORDERINGS]
    axes[2, 0].set_yticks(range(len(names)), names, fontsize=6)
    handles = [Line2D([], [], color=colors[noise], marker="o", label=noise_in_words(noise)) for noise in noises]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure_exhibit(figure, "specification_curve", caption, pd.concat([table, held], axis=1))


def in_words(table: pd.DataFrame) -> str:
    """Say in how many combinations PF-PNE is first, and which choice moves that most.

    Parameters
    ----------
    table : pandas.DataFrame
        The combinations, as `compare_combinations` gives them.

    Returns
    -------
    str
        Two sentences.
    """
    first = claims_held(table)[MAIN_CLAIM]
    shares, moved = [], []
    for objective, rows in table.groupby("objective", sort=False):
        here = first[rows.index]
        shares.append(f"{here.mean():.0%} of {len(rows)} combinations on {title(objective)}")
        by_value = {name: here.groupby(rows[name], sort=False).mean() for name in CHOICES}
        name = max(by_value, key=lambda name: np.ptp(by_value[name]))
        low, high = by_value[name].idxmin(), by_value[name].idxmax()
        if by_value[name][low] < by_value[name][high]:
            ends = (f"{by_value[name][value]:.0%} ({_choice_in_words(name, value)})" for value in (low, high))
            moved.append(f"on {title(objective)} from {' to '.join(ends)}")
    text = f"PF-PNE has the smallest regret of the five in {listed(shares)}."
    return f"{text} The choice that changes this share most takes it {listed(moved)}." if moved else text


def _draw_ratios(ax: Axes, ratio: pd.Series, noise: pd.Series, colors: dict) -> None:
    """One curve per noise: the ratios of its combinations, in order."""
    for value, color in colors.items():
        ratios = np.sort(ratio[noise.loc[ratio.index] == value])
        ax.plot((np.arange(len(ratios)) + 0.5) / max(1, len(ratios)), ratios, color=color, linewidth=1.4)
    ax.axhline(1, color="black", linewidth=0.7)
    ax.set(yscale="log", xlim=(0, 1), xlabel="share of a noise's combinations, in order")
    log_ticks(ax.yaxis)


def _draw_choices(ax: Axes, table: pd.DataFrame, first: pd.Series, choices: list[tuple], colors: dict) -> None:
    """One row per value of a choice: the share with it in which PF-PNE is first, against that of all."""
    share_of_all = first.mean()
    ax.axvline(share_of_all, color="0.6", linewidth=0.8)
    for row, (name, value) in enumerate(choices):
        chosen = table[name] == value
        if chosen.any():
            share = first[chosen].mean()
            ax.hlines(row, share_of_all, share, color="0.75", linewidth=1)
            color = colors.get(value, "0.25") if name == "noise" else "0.25"
            ax.plot(share, row, "o", color=color, markersize=3.5)
            place = {"xycoords": ("axes fraction", "data"), "va": "center"}
            ax.annotate(f"{share:.0%}", (1.02, row), fontsize=6.5, **place)
    for row in range(1, len(choices)):
        if choices[row][0] != choices[row - 1][0]:
            ax.axhline(row - 0.5, color="0.85", linewidth=0.5)
    ax.set(xlim=(0, 1), ylim=(len(choices) - 0.5, -0.5), xlabel="share in which PF-PNE is first")
    ax.tick_params(axis="y", length=0)


def _draw_shares(ax: Axes, shares: pd.Series) -> None:
    """One bar per claim: the share of combinations in which it comes out right."""
    ax.barh(range(len(shares)), shares, color="0.6", height=0.7)
    for row, share in enumerate(shares):
        ax.annotate(f"{share:.0%}", (share + 0.02, row), va="center", fontsize=6.5)
    ax.set(xlim=(0, 1.18), ylim=(len(shares) - 0.5, -0.5), xlabel="share in which it is so")


def _choice_in_words(name: str, value) -> str:
    """The value of a choice, with the name of the choice if the value alone is not clear."""
    if name == "noise":
        return noise_in_words(value)
    if name == "clients" and value != "alike":
        return f"clients: shift {value:g}"
    words = {"Delta": Delta_in_words, "T": "{:,}".format}
    return f"{name}: {words.get(name, str)(value)}"
