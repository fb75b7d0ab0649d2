"""PF-PNE+ and its rivals in random scenarios, on which nothing was tuned.

The families and the draw are in pfpne.paper.exhibits.drawn. The criteria were fixed before the scenarios were drawn.
Two forms of PF-PNE+ are judged, as it is and with gaussian_process=True, each by itself. The ratio is the form's mean
regret over the smallest of six rivals' mean regrets. Reported are the shares of scenarios with a ratio of at most
NEAR_BEST and above FAR_BEHIND, and the ratio's quantiles. The form's N_WORST_RUN_AGAIN scenarios with the largest
ratios are run again with fresh seeds, to correct for selection bias. HOO and BLiN are reported, too, but not among the
six. The sentences for readers call a scenario a setting.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from pfpne.algorithms import ALGORITHMS
from pfpne.paper.exhibits.drawn import CLIENT_KINDS, MOST_PULLS, NOISES, DrawnScenario, sample_scenarios, simulate_drawn
from pfpne.paper.exhibits.guide import FAR_BEHIND, NEAR_BEST
from pfpne.paper.exhibits.regimes import MAP_CONTENDERS, RANKED_ON_MAP
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import run_in_order
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import HCT_NOISE_EARLY, PAGE, algorithm_in_words, rounded
from pfpne.simulation.fast import fast_simulation_of

MEASURED_ALGORITHM = "pf-pne+"
SIX_RIVALS = [name for name in RANKED_ON_MAP if name != MEASURED_ALGORITHM]
WITH_GP = "pf-pne+, gaussian process"
RATIO_COLUMNS = {MEASURED_ALGORITHM: "ratio", WITH_GP: "ratio_gp"}  # of the two forms
STAGE_2_ALONE = HCT_NOISE_EARLY  # the rival that is PF-PNE+'s second stage alone
ALSO_COMPARED = ("hoo", "blin")
COMPARED_SEARCHES = {
    **{name: MAP_CONTENDERS[name] for name in RANKED_ON_MAP},
    WITH_GP: (MEASURED_ALGORITHM, {"gaussian_process": True}),
    **{name: (name, {}) for name in ALSO_COMPARED},
}
REPORT_SIZES = {"smoke": (4, 2, 20_000), "paper": (64, 10, MOST_PULLS)}  # scenarios, runs, the largest M T
N_WORST_RUN_AGAIN = 10
DRAW_NUMBER = 3  # the scenarios of draws 0, 1 and 2 were seen before the last change of PF-PNE+
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def measure(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Run PF-PNE+ and its rivals in every scenario that the seed p.seed + DRAW_NUMBER draws.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters, of which only the profile, the seed and the workers count.
    folder : Path
        The folder of stored measurements.

    Returns
    -------
    pandas.DataFrame
        One row per scenario: its drawn values; the mean R(T)/M of both forms of PF-PNE+, of the six rivals, of HOO and
        of BLiN; ratio and ratio_gp, each form's mean over the smallest of the six; and ratio_fresh and ratio_gp_fresh,
        the same in fresh runs for the scenarios where the form's ratio is largest, NaN for the others.
    """
    n_scenarios, n_runs, most_pulls = REPORT_SIZES[p.profile]
    scenarios = [
        dataclasses.replace(scenario, horizon=min(scenario.horizon, most_pulls // scenario.n_clients))
        for scenario in sample_scenarios(n_scenarios, p.seed + DRAW_NUMBER)
    ]
    table = pd.DataFrame([dataclasses.asdict(scenario) for scenario in scenarios]).drop(columns="seed")
    table = table.join(_means(scenarios, 0, n_runs, p, folder, COMPARED_SEARCHES))
    for form, ratio_column in RATIO_COLUMNS.items():
        table[ratio_column] = table[form] / table[SIX_RIVALS].min(axis=1)
        worst = table[ratio_column].nlargest(N_WORST_RUN_AGAIN).index
        contenders = {name: COMPARED_SEARCHES[name] for name in (form, *SIX_RIVALS)}
        fresh = _means([scenarios[i] for i in worst], n_runs, n_runs, p, folder, contenders)
        fresh.index = worst
        table[f"{ratio_column}_fresh"] = fresh[form] / fresh[SIX_RIVALS].min(axis=1)
    return table


def _means(
    scenarios: list[DrawnScenario], first: int, n_runs: int, p: Parameters, folder: Path, contenders: dict
) -> pd.DataFrame:
    """The mean R(T)/M over runs first, first + 1, ...: one row per scenario, one column per contender."""
    jobs = [(s, name, settings, first, n_runs, folder) for s in scenarios for name, settings in contenders.values()]
    regrets = run_in_order(_mean_regret, jobs, p.n_jobs, progress("scenarios"))
    return pd.DataFrame(np.reshape(regrets, (len(scenarios), len(contenders))), columns=[*contenders])


def _mean_regret(scenario: DrawnScenario, name: str, settings: dict, first: int, n_runs: int, folder: Path) -> float:
    row = ALGORITHMS[name]
    content = {"scenario": dataclasses.asdict(scenario), "settings": settings, "first": first, "n_runs": n_runs}
    key = cache.key(content, simulate_drawn, row, fast_simulation_of(row))

    def make() -> list[list]:
        runs = range(first, first + n_runs)
        return [[float(simulate_drawn(name, scenario, run, **settings).regret[:, -1].mean())] for run in runs]

    return float(np.mean(cache.stored_rows(key, make, folder)))


def sentences(table: pd.DataFrame) -> list[str]:
    """Say in sentences how PF-PNE+ does in the random scenarios.

    Parameters
    ----------
    table : pandas.DataFrame
        As `measure` returns it.

    Returns
    -------
    list of str
        The sentences, in Markdown.
    """
    ratio, everything = table["ratio"], table[[*SIX_RIVALS, *ALSO_COMPARED]].min(axis=1)
    fresh, with_gp = table["ratio_fresh"].dropna(), table["ratio_gp"]
    flat = table["d"].eq(1)
    shares = {name: _near_the_six(table, name) for name in SIX_RIVALS}
    best = max(shares, key=lambda name: shares[name])
    by_kind = (ratio <= NEAR_BEST).groupby(table["kind"]).mean()
    return [
        (
            f"**Drawn at random.** {_settings(table)} PF-PNE+ {_how_near(table, 'ratio')} With HOO and BLiN among the"
            f" rivals it is within {NEAR_BEST - 1:.0%} of the best in"
            f" {(table[MEASURED_ALGORITHM] <= NEAR_BEST * everything).mean():.0%}."
        ),
        f"**Quantiles of its regret over that of the best of the six.** {_quantiles(ratio)}.",
        (
            f"**Where.** It is within {NEAR_BEST - 1:.0%} in {_share(ratio[flat])} in one dimension, and in"
            f" {_share(ratio[~flat])} in more. By kind of clients the share is smallest with {by_kind.idxmin()}"
            f" ({by_kind.min():.0%}) and largest with {by_kind.idxmax()} ({by_kind.max():.0%})."
        ),
        (
            f"**The rivals.** Of the six, {algorithm_in_words(best)} is most often within {NEAR_BEST - 1:.0%} of the"
            f" best of them, in {shares[best]:.0%}. PF-PNE+'s stage 2 alone ({algorithm_in_words(STAGE_2_ALONE)}) has"
            f" {_mean_ratio(table[STAGE_2_ALONE] / table[MEASURED_ALGORITHM])} times PF-PNE+'s regret (geometric mean)."
        ),
        (
            f"**The worst again.** We ran the {len(fresh)} settings of the largest ratios again, with fresh runs. There"
            f" the ratio is {rounded(fresh.median())} in the median and {rounded(fresh.max())} at most;"
            f" {(fresh > FAR_BEHIND).sum()} of them are above {FAR_BEHIND:g} again."
        ),
        (
            f"**With a Gaussian process.** In the same settings PF-PNE+ with `gaussian_process=True`"
            f" {_how_near(table, 'ratio_gp')} The quantiles of its regret over that of the best of the six are"
            f" {_quantiles(with_gp)}. It is within {NEAR_BEST - 1:.0%} in {_share(with_gp[flat])} in one dimension, and"
            f" in {_share(with_gp[~flat])} in more. It has {_mean_ratio(table[WITH_GP] / table[MEASURED_ALGORITHM])}"
            f" times PF-PNE+'s regret without it (geometric mean), and less in"
            f" {(table[WITH_GP] < table[MEASURED_ALGORITHM]).mean():.0%}."
        ),
    ]


def in_short(table: pd.DataFrame) -> list[str]:
    """Say in three sentences how PF-PNE+ does in the random scenarios, for README.

    Parameters
    ----------
    table : pandas.DataFrame
        As `measure` returns it.

    Returns
    -------
    list of str
        The sentences.
    """
    return [
        f"{_settings(table)} PF-PNE+ {_how_near(table, 'ratio')}",
        f"With a Gaussian process in its second stage (`gaussian_process=True`) it {_how_near(table, 'ratio_gp')}",
        (
            f"Its second stage alone (`hct-noise`, `early_descent=True`) sends nothing. It is within"
            f" {NEAR_BEST - 1:.0%} of the best of the six in {_near_the_six(table, STAGE_2_ALONE):.0%}, and has"
            f" {_mean_ratio(table[STAGE_2_ALONE] / table[MEASURED_ALGORITHM])} times PF-PNE+'s regret (geometric mean)."
        ),
    ]


def _settings(table: pd.DataFrame) -> str:
    return f"In {len(table)} settings drawn at random (other draws of the same families were used for tuning),"


def _how_near(table: pd.DataFrame, ratio_column: str) -> str:
    """Say how often a form of PF-PNE+ is near the best, and how often far from it. The sentence lacks its subject."""
    values = table[ratio_column]
    return (
        f"is within {NEAR_BEST - 1:.0%} of the best of six rivals in {(values <= NEAR_BEST).mean():.0%}, and above"
        f" {FAR_BEHIND:g} times its regret in {(values > FAR_BEHIND).mean():.0%}; at worst, in fresh runs,"
        f" {rounded(table[f'{ratio_column}_fresh'].max())} times."
    )


def _quantiles(ratio: pd.Series) -> str:
    return ", ".join(f"{rounded(ratio.quantile(q))} ({q:.0%})" for q in QUANTILES)


def _near_the_six(table: pd.DataFrame, name: str) -> float:
    """The share of the scenarios in which an algorithm is near the best of the six."""
    return (table[name] <= NEAR_BEST * table[SIX_RIVALS].min(axis=1)).mean()


def _share(ratio: pd.Series) -> str:
    return f"{(ratio <= NEAR_BEST).sum()} of {len(ratio)} settings"


def _mean_ratio(ratio: pd.Series) -> str:
    return f"{np.exp(np.log(ratio).mean()):.2f}"


@our_style()
def draw(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the ratio of PF-PNE+'s regret to the best rival's in every scenario, by kind of clients and by noise.

    Parameters
    ----------
    table : pandas.DataFrame
        As `measure` returns it.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    n_runs = REPORT_SIZES[p.profile][1]
    caption = (
        f"The mean R(T)/M of PF-PNE+, above as it is and below with gaussian_process=True, over the smallest of six"
        f" rivals, in {len(table)} settings that were drawn at random, with n = {n_runs} paired runs each. A dot is a"
        f" setting, a cross the same setting in fresh runs (of the {table['ratio_fresh'].notna().sum()} largest), a bar"
        f" the median. The settings are the same in all panels."
    )
    figure, axes = new_figure((PAGE, 4.9), rows=2, columns=2, sharex=True)
    groupings = ("kind", CLIENT_KINDS, "by kind of clients"), ("noise", NOISES, "by noise")
    for of_form, (ratio_column, form) in zip(
        axes, (("ratio", "as it is"), ("ratio_gp", "Gaussian process")), strict=True
    ):
        for ax, (column, names, title) in zip(of_form, groupings, strict=True):
            _draw_ratios(ax, table, ratio_column, column, names)
            ax.set_title(f"{form}, {title}")
    drawn = table[[*RATIO_COLUMNS.values()]]
    low, high = drawn.min(axis=None) / 1.3, drawn.max(axis=None) * 1.3
    ticks = [x for x in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if low <= x <= high]
    axes[0][0].set_xticks(ticks, labels=[f"{x:g}" for x in ticks])
    for ax in axes.flat:
        ax.minorticks_off()
    figure.supxlabel("\N{LEFTWARDS ARROW} less regret: PF-PNE+ / best of six (dotted: 1.1)", fontsize=8.5)
    looks = {"marker": "o", "color": "0.35", "markersize": 3}, {"marker": "x", "color": "C3", "markersize": 4}
    names = "a setting", "the same, fresh runs"
    handles = [Line2D([], [], linestyle="none", label=name, **look) for name, look in zip(names, looks, strict=True)]
    handles.append(Line2D([], [], color="C0", linewidth=1.6, label="median"))
    figure.legend(handles=handles, loc="outside upper right", ncols=3, fontsize=7)
    return figure_exhibit(figure, "untuned", caption, table)


def _draw_ratios(ax, table: pd.DataFrame, ratio_column: str, column: str, names: tuple[str, ...]) -> None:
    """Draw a form's ratio in every scenario, one row for each of the column's names."""
    for row, name in enumerate(names[::-1]):
        group = table[table[column] == name].sort_values(ratio_column)
        spread = np.linspace(-0.25, 0.25, max(2, len(group)))[: len(group)] if len(group) > 1 else np.zeros(len(group))
        ax.plot(group[ratio_column], row + spread, "o", color="0.35", markersize=2.4, alpha=0.8, markeredgewidth=0)
        ax.plot(group[f"{ratio_column}_fresh"], row + spread, "x", color="C3", markersize=3.2, markeredgewidth=0.8)
        if len(group):
            ax.plot([group[ratio_column].median()] * 2, [row - 0.38, row + 0.38], color="C0", linewidth=1.6)
    ax.axvline(1, color="0.4", linewidth=0.6)
    ax.axvline(NEAR_BEST, color="0.4", linewidth=0.6, linestyle=":")
    ax.set_yticks(range(len(names)), names[::-1])
    ax.set_xscale("log")
