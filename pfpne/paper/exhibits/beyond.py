"""PF-PNE+, part by part: its regret with each part switched off, its rivals' regret, and the regret of an oracle.

A scenario is an objective, a noise of the profile, and either identical or shifted clients. (Landmine has only one kind
of clients.) The sentences for readers call it a setting. A contender is an algorithm, or PF-PNE+ with one part switched
off.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pfpne.algorithms.pf_pne_plus import PARTS_IN_WORDS
from pfpne.paper.claims import stats
from pfpne.paper.claims.assumption_checks import cells_on_path
from pfpne.paper.claims.evidence import COMMON_SHIFT
from pfpne.paper.exhibits import sites
from pfpne.paper.exhibits.guide import NEAR_BEST, TUNED_OBJECTIVES
from pfpne.paper.exhibits.panels import scale_in_words
from pfpne.paper.exhibits.regret import draw_regret
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.notebooks import SITES_PARAMETERS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.results import Results
from pfpne.paper.run.selections import BEYOND_ALGORITHMS, PAPER_SYNTHETIC_OBJECTIVES
from pfpne.paper.show.export import Exhibit, as_latex, table_exhibit
from pfpne.paper.show.plot import figure_exhibit, in_order, legend, new_figure, our_style
from pfpne.paper.show.style import (
    HCT_NOISE_EARLY,
    ORACLE_LOOK,
    PAGE,
    TITLES,
    in_few_digits,
    label,
    noise_in_brief,
    noise_in_words,
    rounded,
    title,
)
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.rng import stream

REFERENCE, *OTHER_ALGORITHMS = BEYOND_ALGORITHMS  # what all are compared with, PF-PNE+, and the others
BEYOND_RIVALS = [HCT_NOISE_EARLY, *OTHER_ALGORITHMS]
CLIENT_SHIFTS = {"alike": 0.0, "shifted": None}  # client kind -> shift; None for the parameter's
CLIENT_KINDS_IN_WORDS = {"alike": "identical", "shifted": "shifted"}
LANDMINE_CLIENT_KIND = "as they are"
CURVE_OBJECTIVES = ("garland", "doublesine", "himmelblau", "ackley")  # the curves
ORACLE = "lower curve"  # as the CSV of the curves calls it
ORACLE_MAX_DEPTH = 24  # deeper cells differ by less than any regret


def scenarios(p: Parameters) -> Iterator[tuple[str, float | str, str, dict]]:
    """(objective, noise, client kind, changes of the experiment) of each scenario."""
    for client_kind, shift in CLIENT_SHIFTS.items():
        changes = {"shift": p.shift if shift is None else shift, "common_shift": COMMON_SHIFT}
        for objective in PAPER_SYNTHETIC_OBJECTIVES:
            for noise in PROFILES[p.profile].noises:
                yield objective, noise, client_kind, changes
    yield "landmine", PROFILES[p.profile].landmine_noise, LANDMINE_CLIENT_KIND, {}


def run_contenders(p: Parameters) -> dict[tuple, dict[str, Results]]:
    """Run PF-PNE+, each variant of it with a part switched off, and its rivals in every scenario.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    dict
        {(objective, noise, client kind): {contender: Results}}.
    """
    runs = {}
    for objective, noise, client_kind, changes in scenarios(p):
        together = p.run(objective, noise, BEYOND_ALGORITHMS, **changes)
        early = p.run(objective, noise, ("hct-noise",), **changes, settings={**p.settings, "early_descent": True})
        without = {
            part: p.run(objective, noise, (REFERENCE,), **changes, settings={**p.settings, part: False})
            for part in PARTS_IN_WORDS
        }
        all_together = dict.fromkeys(BEYOND_ALGORITHMS, together)
        runs[objective, noise, client_kind] = all_together | {HCT_NOISE_EARLY: early} | without
    return runs


def regrets(results: Results, contender: str) -> np.ndarray:
    """R(T)/M of each run (n,) of a contender, which names the algorithm if the results are of several."""
    names, n_runs = results.experiment.algorithms, results.experiment.n_runs
    name = names[0] if len(names) == 1 else contender
    return np.array([results.runs[name, run].regret[:, -1].mean() for run in range(n_runs)])


def compare_contenders(runs: dict, p: Parameters) -> pd.DataFrame:
    """Compare each contender with PF-PNE+ in the same runs.

    Parameters
    ----------
    runs : dict
        As `run_contenders` returns them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    pandas.DataFrame
        One row per scenario and contender, named in the column variant. ratio, low, high: the contender's mean R(T)/M
        over PF-PNE+'s, with a 95 % interval. p_less, p_more: the p-values of sign-flip tests under the nulls
        "not less regret than PF-PNE+" and "not more". regret, n: the mean, and the number of runs. lower: R(T)/M of the
        oracle.
    """
    rows = []
    for (objective, noise, client_kind), contenders in runs.items():
        reference, experiment = regrets(contenders[REFERENCE], REFERENCE), contenders[REFERENCE].experiment
        T, n_runs = np.array([experiment.horizon]), experiment.n_runs
        lower = np.mean([oracle_regret(experiment, run, T)[0] for run in range(n_runs)])
        for contender, results in contenders.items():
            theirs = regrets(results, contender)
            rng = stream(p.seed, objective, str(noise), client_kind, contender, "beyond")
            ratio, low, high = stats.ratio_interval(theirs, reference, rng)
            p_less, p_more = stats.sign_flip(theirs - reference, rng)
            row = {"objective": objective, "noise": noise, "clients": client_kind, "variant": contender, "n": n_runs}
            row |= {"regret": theirs.mean(), "ratio": ratio, "low": low, "high": high}
            rows.append(row | {"p_less": p_less, "p_more": p_more, "lower": lower})
    return pd.DataFrame(rows)


def oracle_regret(experiment: Experiment, run: int, t: np.ndarray) -> np.ndarray:
    """R(t)/M (C,) at steps t (C,) of an oracle: a yardstick for algorithms that search cell by cell.

    The oracle descends to the cell of f_m*, depth by depth. It knows everything except which child of a cell holds
    f_m*. To learn this it takes 2 (sigma / gap)^2 samples of each child, where gap is the difference between the values
    of the best and the worst child: a likelihood test of these two values would then err once in six times. All
    clients' samples count as the oracle's own. The regret of each step is only the gap of the best centre seen so far.
    It skips depths for which T is too short.
    """
    problem = experiment.problem(run)
    partition, T = experiment.partition(run), experiment.horizon
    return np.mean([_client_curve(problem, partition, m, T, t) for m in range(problem.n_clients)], axis=0)


def _client_curve(problem: Problem, partition: Partition, m: int, T: int, t: np.ndarray) -> np.ndarray:
    """R_m(t) of the oracle for one client."""
    x, best, steps, regret = problem.maximisers[m], -np.inf, [0.0], [0.0]
    deepest = min(partition.max_depth, ORACLE_MAX_DEPTH)
    for h, index in enumerate(cells_on_path(partition, x[None], deepest)[:deepest], start=1):
        values = problem.client_values(m, partition.centers(h, partition.children(index)))
        best = max(best, values.max())
        variance = np.mean(values * (1 - values)) if problem.noise == "bernoulli" else problem.noise**2 / 3
        gap = np.ptp(values)
        pulls = partition.k * max(1.0, 2 * variance / gap**2) / problem.n_clients if gap > 0 else np.inf
        if pulls <= T:
            steps.append(steps[-1] + pulls)
            regret.append(regret[-1] + pulls * max(0.0, problem.optimum[m] - best))
    last = max(0.0, problem.optimum[m] - best) * np.maximum(0.0, t - steps[-1])
    return np.interp(t, steps, regret) + last


def sentences(table: pd.DataFrame) -> list[str]:
    """Summarise the table of `compare_contenders` in sentences.

    Parameters
    ----------
    table : pandas.DataFrame
        As `compare_contenders` returns it.

    Returns
    -------
    list of str
        The sentences, in Markdown.
    """
    by_scenario = table.groupby(["objective", "noise", "clients"], sort=False)[["variant", "regret", "lower"]]
    best = by_scenario.apply(lambda rows: rows.loc[rows["variant"].isin(BEYOND_RIVALS), "regret"].min())
    reference = by_scenario.apply(lambda rows: rows[rows["variant"] == REFERENCE].iloc[0])
    ratio = reference["regret"].astype(float) / best
    identical = ratio[ratio.index.get_level_values("clients") == "alike"]
    worst = ratio.idxmax()
    scenario = f"{title(worst[0])}, {noise_in_words(worst[1])}"
    scenario += f", {CLIENT_KINDS_IN_WORDS[worst[2]]} clients" if worst[2] in CLIENT_KINDS_IN_WORDS else ""
    parts = table[table["variant"].isin(PARTS_IN_WORDS)].groupby("variant", sort=False)["ratio"]
    factors = ", ".join(f"{PARTS_IN_WORDS[name]} {np.exp(np.log(ratios).mean()):.2f}" for name, ratios in parts)
    far = (reference["regret"] / reference["lower"].replace(0, np.nan)).astype(float).dropna()
    tuned = ratio.index.get_level_values("objective").isin(TUNED_OBJECTIVES)
    text = [
        f"**PF-PNE+ against {len(BEYOND_RIVALS)} rivals.** It has the smallest mean regret in {(ratio <= 1).sum()} of "
        f"{len(ratio)} settings, and is within 10% of the best rival in {(ratio <= NEAR_BEST).sum()}. With identical "
        f"clients it has at least 30% less regret than any rival in {(identical <= 0.7).sum()} of {len(identical)}. At "
        f"its worst ({scenario}) it has {ratio.max():.2f} times the best rival's regret.",
        f"**Where it was tuned.** Its constants were chosen on {', '.join(map(title, TUNED_OBJECTIVES))}, with "
        "another seed. There it is within 10% of the best rival in "
        f"{(ratio[tuned] <= NEAR_BEST).sum()} of {tuned.sum()} settings. On the other objectives it is in"
        f" {(ratio[~tuned] <= NEAR_BEST).sum()} of {(~tuned).sum()}.",
        f"**What each part is worth.** This is how many times larger the regret is without it (geometric mean over the "
        f"settings): {factors}.",
    ]
    if len(far):
        text.append(
            "**How far from the oracle.** The oracle is a search that is told everything except which half of a cell "
            f"holds the best value. The median of PF-PNE+'s regret over the oracle's is {rounded(far.median())}, the "
            f"range {rounded(far.min())} to {rounded(far.max())}. It is below 1 in {(far < 1).sum()} of {len(far)} "
            "settings, so the oracle is a yardstick and not a bound."
        )
    return text


@our_style()
def draw_ablation(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the ratios of `compare_contenders`: one row per contender, one column per scenario.

    Parameters
    ----------
    table : pandas.DataFrame
        The ratios, as `compare_contenders` returns them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    caption = (
        "Mean regret R(T)/M of each variant over that of PF-PNE+ in the same runs: "
        f"{scale_in_words(p, p.n_runs)}. In a red "
        "tile the variant does worse, in a blue one better. In a grey tile, the bootstrap 95 % interval of the ratio "
        "contains 1 or there is none. Left: identical clients. Right: shifted clients; landmine's are as they are. A "
        "column is an objective and a noise: Bernoulli rewards (B), or uniform noise on \N{PLUS-MINUS SIGN}a."
    )
    order = [name for name in table["variant"].unique() if name in PARTS_IN_WORDS]
    rows = [*order, *BEYOND_RIVALS]
    names = [*(f"without {PARTS_IN_WORDS[name]}" for name in order), *map(label, BEYOND_RIVALS)]

    sides = [table[table["clients"] == "alike"], table[table["clients"] != "alike"]]
    widths = [side.groupby(["objective", "noise"]).ngroups for side in sides]
    size = (PAGE, 1.0 + 0.24 * len(rows))
    figure, axes = new_figure(size, columns=2, sharey=True, width_ratios=widths)
    for ax, side, heading in zip(axes[0], sides, ("identical clients", "shifted clients"), strict=True):
        columns = [*side[["objective", "noise"]].drop_duplicates().itertuples(index=False, name=None)]
        ratios, low, high = (
            side.pivot(index="variant", columns=["objective", "noise"], values=name).loc[rows, columns].set_axis(names)
            for name in ("ratio", "low", "high")
        )
        text = {"annot": ratios.map(in_few_digits), "fmt": "", "annot_kws": {"size": 6}, "linewidths": 0.3}
        sure = (low > 1) | (high < 1)
        for shown, look in ((sure, {"cmap": "vlag"}), (~sure, {"cmap": ListedColormap(["0.93"])})):
            sns.heatmap(ratios, mask=~shown, ax=ax, norm=LogNorm(1 / 8, 8), cbar=False, **look, **text)
        ax.axhline(len(order), color="black", linewidth=0.8)
        _draw_column_names(ax, columns)
        ax.set(xlabel="", ylabel="", title=heading)
        ax.tick_params(axis="y", length=0)
    colors = sns.color_palette("vlag", 9)
    meanings = ((colors[-1], "more regret than PF-PNE+"), (colors[0], "less"), ("0.93", "no clear difference"))
    patches = [Patch(color=color, label=meaning) for color, meaning in meanings]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=7)
    return figure_exhibit(figure, "beyond", caption, table)


def _draw_column_names(ax: Axes, columns: list[tuple]) -> None:
    """Name the columns (objective, noise) of a heat map: noises, and below them each objective once."""
    noises = [noise_in_brief(noise) for _, noise in columns]
    ax.set_xticks(np.arange(len(columns)) + 0.5, noises, rotation=0, fontsize=6)
    ax.tick_params(axis="x", length=0, pad=1)
    below = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top", "fontsize": 7}
    start = 0
    for objective, group in itertools.groupby(columns, key=lambda column: column[0]):
        width = len([*group])
        if start:
            ax.axvline(start, color="white", linewidth=2.5)
        if width > 1:
            ax.annotate(title(objective), (start + width / 2, 0), (0, -11), ha="center", **below)
        else:  # the name is wider than the column
            ax.annotate(title(objective), (start + width, 0), (0, -11 - 8 * (start > 0)), ha="right", **below)
        start += width


def measure_curves(runs: dict) -> pd.DataFrame:
    """Mean regret against t under the profile's first noise, of every algorithm of BEYOND_ALGORITHMS and of the oracle.

    Parameters
    ----------
    runs : dict
        As `run_contenders` returns them.

    Returns
    -------
    pandas.DataFrame
        One row per client kind, objective of CURVE_OBJECTIVES, algorithm and t: regret, a mean over the runs. The
        oracle's rows have the algorithm "lower curve".
    """
    noise, means = next(noise for _, noise, _ in runs), []
    for client_kind, objective in itertools.product(CLIENT_SHIFTS, CURVE_OBJECTIVES):
        results, place = (
            runs[objective, noise, client_kind][REFERENCE],
            {"clients": client_kind, "objective": objective},
        )
        data, n_runs = results.regret, results.experiment.n_runs
        steps = np.sort(data["t"].unique())[::-1]
        t = steps[:: max(1, len(steps) // 100)][::-1]  # the last among them
        lower = np.mean([oracle_regret(results.experiment, run, t) for run in range(n_runs)], axis=0)
        mean = data[data["t"].isin(t)].groupby(["algorithm", "t"], sort=False)["regret"].mean().reset_index()
        means += [mean.assign(**place), pd.DataFrame({"algorithm": ORACLE, "t": t, "regret": lower, **place})]
    return pd.concat(means, ignore_index=True)


@our_style()
def draw_curves(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw regret against t, of every algorithm and of the oracle, for identical and for shifted clients.

    Parameters
    ----------
    table : pandas.DataFrame
        As `measure_curves` returns it.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and its table as CSV.
    """
    noise = PROFILES[p.profile].noises[0]
    caption = (
        f"Average cumulative regret, {noise_in_words(noise)}: {scale_in_words(p, p.n_runs)}. Above: identical "
        "clients. Below: "
        "shifted clients. Lines are means over the runs. The grey line is an oracle that searches cell by cell."
    )
    figure, axes = new_figure((PAGE, 3.5), len(CLIENT_SHIFTS), len(CURVE_OBJECTIVES))
    for ax, (client_kind, objective) in zip(axes.flat, itertools.product(CLIENT_SHIFTS, CURVE_OBJECTIVES), strict=True):
        curves = table[(table["clients"] == client_kind) & (table["objective"] == objective)]
        oracle = curves[curves["algorithm"] == ORACLE]
        curves = curves[curves["algorithm"] != ORACLE]
        draw_regret(ax, curves.rename(columns={"regret": "mean"}).assign(std=0.0), banded=())
        ax.plot(oracle["t"], oracle["regret"], **ORACLE_LOOK)
        ax.set(title=TITLES[objective] if client_kind == "alike" else "", xlabel="", ylabel="")
    for client_kind, ax in zip(CLIENT_SHIFTS, axes[:, 0], strict=True):
        ax.set_ylabel(f"{CLIENT_KINDS_IN_WORDS[client_kind]} clients\nregret $R(t)/M$")
    for ax in axes[-1]:
        ax.set_xlabel("evaluations per client $t$")
    legend(figure, in_order(BEYOND_ALGORITHMS), 7, more=[Line2D([], [], **ORACLE_LOOK)])
    return figure_exhibit(figure, "beyond_curves", caption, table)


def tabulate_sites(p: Parameters) -> Exhibit:
    """Tabulate the contribution of each part of PF-PNE+ to the AUC on unseen images, on the problem of notebook 6.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; the scale is notebook 6's.

    Returns
    -------
    Exhibit
        The table, and as CSV one row per variant and site.
    """
    p = replace(p, **SITES_PARAMETERS[p.profile])
    table = sites.compare(sites.results(p, sites.WAYS_IN_PARTS, (sites.UNLIKE_SITES,)), p.seed, sites.PF_PNE_PLUS)
    pooled = table[table["site"] == "all"]
    caption = (
        "How far the AUC of PF-PNE+ on images never seen is above that of each variant, with a bootstrap 95 % "
        f"interval: the {p.n_clients} sites of notebook 6, {p.horizon} fits per site, {p.n_runs} paired runs. The "
        f"interval is above 0 in {(pooled['low'] > 0).sum()} of {len(pooled)} rows, and below 0 in "
        f"{(pooled['high'] < 0).sum()}."
    )
    strings = pd.DataFrame({"Variant": pooled["against"]})
    strings["PF-PNE+ minus it"] = [
        f"{row.difference:+.4f} [{row.low:+.4f}, {row.high:+.4f}]" for row in pooled.itertuples()
    ]
    return table_exhibit("beyond_sites", caption, strings, {"beyond_sites": table}, as_latex(strings, "lr"))
