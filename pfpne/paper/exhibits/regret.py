"""Curves of regret, one figure per objective or panels of several, and the ranking of all algorithms.

They are drawn from `Results.regret` of pfpne.paper.run.experiment. A curve on its own, and the panels of the paper's
reward model, have a legend. Under the reading "printed" each line is named at its end, and the bands are fewer.
"""

from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import last_phase_share
from pfpne.paper.exhibits.panels import (
    ONE_RUN,
    label_panels,
    legend_columns,
    name_of_file,
    panel_figure,
    problem_in_words,
    scale_in_words,
)
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.results import Results
from pfpne.paper.run.selections import (
    APPENDIX_OBJECTIVES,
    MAIN_OBJECTIVES,
    OWN_DELTA,
    PAPER_ALGORITHMS,
    RANKED_ALGORITHMS,
)
from pfpne.paper.show.export import Exhibit, as_csv
from pfpne.paper.show.plot import (
    figure_exhibit,
    in_order,
    legend,
    linear_ticks,
    log_ticks,
    name_line_ends,
    new_figure,
    our_style,
)
from pfpne.paper.show.style import (
    COLUMN,
    LOOKS,
    PAGE,
    label,
    listed,
    noise_in_name,
    noise_in_words,
    rounded,
    spoken,
    times_as_much,
    title,
)
from pfpne.rng import stream

# Of a ranking the paper's five are drawn, and, thinner, two that its figures leave out; and two bands.
DRAWN_ALGORITHMS, THIN_ALGORITHMS = PAPER_ALGORITHMS, ("pe", "hoo")
BANDED_ALGORITHMS = ("pf-pne", "hct-pyxab")
FEW_RUNS = 10  # fewer say little of chance
MAX_BANDS = 4  # that can be told apart
HCT_OF_THE_PAPER = "HCT (PyXAB) is HCT in the version that the paper ran."


def draw(results: Results, p: Parameters) -> Exhibit:
    """Draw the average cumulative regret of each algorithm on one objective, under one noise.

    Parameters
    ----------
    results : Results
        The runs of several algorithms on one objective, as `Parameters.run_compared` gives them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and its curves as CSV: objective, noise, algorithm, t, runs, mean and std of R(t)/M.
    """
    experiment = results.experiment
    stem, subject = f"regret_{name_of_file(experiment, p)}", f" on {problem_in_words(experiment)}"
    if p.reading_in_name(experiment):
        return _draw_with_named_lines([results], stem, subject, p, n_points=250)
    return _draw_with_legend([[results]], stem, subject, p, n_points=250)


def main_panels(synthetic: dict, landmine: Results, p: Parameters) -> list[Exhibit]:
    """Draw the paper's main figure, its appendix's figure for each noise, and all noises of the main one together.

    Parameters
    ----------
    synthetic : dict
        {(objective, noise): Results}, for each noise of the reading.
    landmine : Results
        Landmine has one noise alone, and stands beside the first.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    list of Exhibit
        The main figure under the first noise; the appendix's under each; the main one under all, if there are several.
    """
    noises = _noises_of(synthetic)
    main = [synthetic[objective, noises[0]] for objective in MAIN_OBJECTIVES if objective != "landmine"] + [landmine]
    appendix = {noise: [synthetic[objective, noise] for objective in APPENDIX_OBJECTIVES] for noise in noises}
    if p.reading == "printed":
        return [
            _printed_panel(main, "main", p),
            *(_printed_panel(panels, "appendix", p) for panels in appendix.values()),
        ]
    return [
        _panel([main], f"main_{noise_in_name(noises[0])}", p),
        *(_panel([panels], f"appendix_{noise_in_name(noise)}", p) for noise, panels in appendix.items()),
        _panel(_rows_by_noise(synthetic, landmine), "main_regimes", p),
    ]


def cells_panel(results: list[Results], cells: str, p: Parameters) -> Exhibit:
    """Draw the main figure with another kind of cells.

    Parameters
    ----------
    results : list of Results
        One for each objective of the main figure.
    cells : str
        The kind of cells, for the name of the file.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and its curves as CSV.
    """
    if p.reading == "printed":
        return _printed_panel(results, f"main_{cells}", p)
    return _panel([results], f"main_{cells}", p)


def simple_panel(synthetic: dict, landmine: Results, p: Parameters) -> Exhibit:
    """Draw the simple regret of the points deployed: the main figure's objectives, under each noise of the reading.

    Parameters
    ----------
    synthetic : dict
        {(objective, noise): Results}, for each noise of the reading.
    landmine : Results
        Landmine has one noise alone, and stands beside the first.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and its curves as CSV.
    """
    rows = _rows_by_noise(synthetic, landmine)
    if p.reading == "printed":
        return _printed_panel(rows[0], "simple", p, simple=True)
    return _panel(rows, "simple_regimes", p, simple=True)


def _noises_of(synthetic: dict) -> list:
    return list(dict.fromkeys(noise for _, noise in synthetic))


def _rows_by_noise(synthetic: dict, landmine: Results) -> list[list[Results | None]]:
    """One row of the main figure's results for each noise; landmine stands in the first."""
    rows = [[synthetic.get((objective, noise)) for objective in MAIN_OBJECTIVES] for noise in _noises_of(synthetic)]
    rows[0][-1] = landmine
    return rows


# --- with a legend ------------------------------------------------------------------------------------


def _panel(rows: list[list[Results | None]], name: str, p: Parameters, simple: bool = False) -> Exhibit:
    """Several objectives side by side: one row for each noise, None for an empty place."""
    noises = ", ".join(noise_in_words(row[0].experiment.noise) for row in rows)
    landmine = any(results and results.experiment.objective == "landmine" for row in rows for results in row)
    subject = f", {noises}{' (landmine: no noise)' if landmine else ''}"
    return _draw_with_legend(rows, f"panel_{name}", subject, p, n_points=60, simple=simple)


def _draw_with_legend(
    rows: list[list[Results | None]], stem: str, subject: str, p: Parameters, n_points: int, simple: bool = False
) -> Exhibit:
    column = "simple_regret" if simple else "regret"
    curves = [
        [results and regret_curves(_thinned(results.regret, n_points), column) for results in row] for row in rows
    ]
    experiments = [[results and results.experiment for results in row] for row in rows]
    return draw_curves(curves, experiments, stem, subject, p, simple)


@our_style()
def draw_curves(
    curves: list[list[pd.DataFrame | None]],
    experiments: list[list[Experiment | None]],
    stem: str,
    subject: str,
    p: Parameters,
    simple: bool,
) -> Exhibit:
    """Draw tables of `regret_curves`, one panel per experiment; None leaves a place empty."""
    table = pd.concat([part for row in curves for part in row if part is not None], ignore_index=True)
    names = in_order(table["algorithm"])
    banded = _banded(names)
    quantity = "Simple regret of the point deployed" if simple else "Average cumulative regret"
    bands = "2 standard errors of these means" if simple else "1 standard deviation over the runs"
    caption = (
        f"{quantity}{subject}: {scale_in_words(p, table['runs'].max())}, {experiments[0][0].cells} cells. "
        f"Lines are means over the runs. Bands, for {_bands_in_words(banded, names)}, are "
        f"\N{PLUS-MINUS SIGN}{bands}, and are cut where they leave the range of the lines."
        + (f" {HCT_OF_THE_PAPER}" if "hct-pyxab" in names else "")
    )
    symbol = "simple regret" if simple else "regret $R(t)/M$"
    ylabels = [f"{noise_in_words(row[0].noise)}\n{symbol}" for row in experiments]
    if len(experiments[0]) == 1:
        ylabels = [f"average cumulative {symbol}"]

    figure, axes = panel_figure(len(curves), len(curves[0]))
    for (i, j), ax in np.ndenumerate(axes):
        if curves[i][j] is not None:
            draw_simple_regret(ax, curves[i][j], banded) if simple else draw_regret(ax, curves[i][j], banded)
    if simple:
        _share_limits(axes)
    label_panels(axes, experiments, ylabels)
    legend(figure, names, legend_columns(*axes.shape))
    return figure_exhibit(figure, stem, caption, table)


def _banded(names: list[str]) -> list[str]:
    """The algorithms that have a band: all if they are few, else two."""
    two = [name for name in names if name in BANDED_ALGORITHMS]
    return two or names[:2] if len(names) > MAX_BANDS else names


def _bands_in_words(banded: list[str], names: list[str]) -> str:
    return "all" if banded == names else listed(map(spoken, banded))


def _share_limits(axes: np.ndarray) -> None:
    """Give the axes of each column, which show one objective, the limits that hold all their lines."""
    for column in axes.T:
        drawn = [ax for ax in column if ax.lines]
        lows, highs = zip(*(ax.get_ylim() for ax in drawn), strict=True)
        for ax in drawn:
            ax.set_ylim(min(lows), max(highs))
            log_ticks(ax.yaxis, (1, 3) if max(highs) > 30 * min(lows) else (1, 2, 5))
            if max(highs) < 4 * min(lows):
                ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def _thinned(table: pd.DataFrame, n_points: int) -> pd.DataFrame:
    """The table Results.regret at no more than n_points of its steps t, the last one among them."""
    steps = np.sort(table["t"].unique())
    return table[table["t"].isin(steps[::-1][:: -(-len(steps) // n_points)])]


def regret_curves(table: pd.DataFrame, column: str = "regret") -> pd.DataFrame:
    """Mean and standard deviation over the runs, at each t, of a column of Results.regret."""
    groups = table.groupby(["objective", "noise", "algorithm", "t"], sort=False)[column]
    return groups.agg(runs="count", mean="mean", std="std").reset_index().fillna({"std": 0.0})  # of one run


def draw_regret(ax: Axes, curves: pd.DataFrame, banded: Collection[str]) -> None:
    """Draw a table of `regret_curves`: mean lines, and bands of one standard deviation for these algorithms."""
    _draw_lines(ax, curves, banded, curves["std"])
    ax.set_ylim(0, 1.08 * curves["mean"].max() or None)  # a wide band hides no line
    linear_ticks(ax.yaxis, 6)


def draw_simple_regret(ax: Axes, curves: pd.DataFrame, banded: Collection[str]) -> None:
    """Draw a table of `regret_curves` of simple regret: mean lines, and bands of two standard errors for these."""
    _draw_lines(ax, curves, banded, 2 * curves["std"] / np.sqrt(curves["runs"]))
    means = curves["mean"]
    low, high = means[means > 0].min() if (means > 0).any() else 1, means.max()
    ax.set(yscale="log", ylim=(0.8 * low, 1.25 * high or None))


def _draw_lines(ax: Axes, curves: pd.DataFrame, banded: Collection[str], widths: pd.Series) -> None:
    """Mean lines against t, with bands of these half widths for some."""
    names, spacing = in_order(curves["algorithm"]), max(1, curves["t"].nunique() // 6)
    for k, name in enumerate(names):
        look, line = LOOKS[name], curves[curves["algorithm"] == name]
        t, mean, width = line["t"].to_numpy(), line["mean"].to_numpy(), widths[line.index].to_numpy()
        marks = {"marker": look.marker, "markevery": (k * spacing // len(names), spacing)}  # none hides another
        ax.plot(t, mean, color=look.color, linestyle=look.linestyle, clip_on=False, zorder=3 - k / 100, **marks)
        if name in banded:
            edges = {"facecolor": (look.color, 0.12), "edgecolor": (look.color, 0.5), "linewidth": 0.3}
            ax.fill_between(t, mean - width, mean + width, **edges)
    ax.set_xlim(0, curves["t"].max())
    linear_ticks(ax.xaxis, 4)


# --- with each line named at its end ------------------------------------------------------------------


def _printed_panel(results: list[Results], name: str, p: Parameters, simple: bool = False) -> Exhibit:
    """Several objectives under one reading, two side by side."""
    noise = results[0].experiment.noise
    subject = f' under the reading "{p.reading}": {noise_in_words(noise)}'
    landmine = [result.experiment.noise for result in results if result.experiment.objective == "landmine"]
    if landmine and landmine[0] != noise:
        subject += f" (landmine: {noise_in_words(landmine[0])})"
    return _draw_with_named_lines(results, f"panel_{name}_{p.reading}", subject, p, n_points=100, simple=simple)


def _draw_with_named_lines(
    results: list[Results], stem: str, subject: str, p: Parameters, n_points: int, simple: bool = False
) -> Exhibit:
    column = "simple_regret" if simple else "regret"
    parts = [regret_curves(_thinned(result.regret, n_points), column) for result in results]
    curves, experiments = pd.concat(parts, ignore_index=True), [result.experiment for result in results]
    return draw_named_curves(curves, experiments, stem, subject, p, simple)


@our_style()
def draw_named_curves(
    curves: pd.DataFrame, experiments: list[Experiment], stem: str, subject: str, p: Parameters, simple: bool
) -> Exhibit:
    """Draw a table of `regret_curves`, one panel per experiment, with each line named at its end."""
    usual = set(p.algorithms) == set(RANKED_ALGORITHMS)
    names = _drawn_names(curves["algorithm"], usual)
    banded = _banded(names)
    left_out = ", ".join(label(name) for name in in_order(curves["algorithm"]) if name not in names)
    caption = (
        f"{'Simple regret of the point deployed' if simple else 'Average cumulative regret'}{subject}. "
        f"{scale_in_words(p, curves['runs'].max())}, {experiments[0].cells} cells. Lines are means over the runs. "
        f"Bands, for {_bands_in_words(banded, names)}, are \N{PLUS-MINUS SIGN}1 standard "
        "deviation over the runs. They are cut where they leave the range of the lines."
        + (f" {HCT_OF_THE_PAPER}" if "hct-pyxab" in names else "")
        + (f" The CSV also has {left_out}." if left_out else "")
    )
    widths = {name: 0.8 if usual and name in THIN_ALGORITHMS else 1.6 if name == "pf-pne" else 1.2 for name in names}
    columns = min(2, len(experiments))
    rows = -(-len(experiments) // columns)

    figure, axes = new_figure((COLUMN, 2.4) if len(experiments) == 1 else (PAGE, 0.3 + 2.1 * rows), rows, columns)
    for ax in axes.flat[len(experiments) :]:
        ax.set_axis_off()
    for letter, ax, experiment in zip("abcd", axes.flat, experiments, strict=False):
        mean_lines = curves[curves["objective"] == experiment.objective]
        _draw_named_lines(ax, mean_lines, widths, banded, log_scale=simple)
        ax.set_title(f"{f'({letter}) ' if len(experiments) > 1 else ''}{problem_in_words(experiment)}")
        ax.set_xlabel("evaluations per client $t$")
    for ax in axes[:, 0]:
        ax.set_ylabel("simple regret" if simple else "average cumulative regret $R(t)/M$")
    return figure_exhibit(figure, stem, caption, curves)


def _drawn_names(algorithms: Iterable[str], usual: bool) -> list[str]:
    """The algorithms that have a line: all that were asked for, or those of the usual ones that are drawn."""
    return [name for name in in_order(algorithms) if not usual or name in (*DRAWN_ALGORITHMS, *THIN_ALGORITHMS)]


def _draw_named_lines(ax: Axes, curves: pd.DataFrame, widths: dict, banded: list[str], log_scale: bool) -> None:
    """Mean lines of one objective, of these widths, with bands of some, and the algorithm's name at each end."""
    last_values, positive = {}, []
    for name, width in widths.items():
        look, line = LOOKS[name], curves[curves["algorithm"] == name]
        t, mean = line["t"].to_numpy(), line["mean"].to_numpy()
        spacing = max(1, len(t) // 5)
        marks = {"marker": look.marker, "markevery": (spacing // 2, spacing), "markersize": 3}
        ax.plot(t, mean, color=look.color, linestyle=look.linestyle, linewidth=width, clip_on=False, **marks)
        if name in banded:
            low, high = mean - line["std"].to_numpy(), mean + line["std"].to_numpy()
            ax.fill_between(t, low, high, color=look.color, alpha=0.15, linewidth=0)
        last_values[name] = mean[-1]
        positive += mean[mean > 0].tolist()
    ax.set_xlim(0, curves["t"].max())
    if log_scale:
        ax.set(yscale="log", ylim=(0.8 * min(positive), None))
        log_ticks(ax.yaxis)
    else:
        ax.set_ylim(0, 1.05 * max(last_values.values()))
        linear_ticks(ax.yaxis, 5)
    linear_ticks(ax.xaxis, 4)
    name_line_ends(ax, last_values)


# --- in words -----------------------------------------------------------------------------------------


def in_words(results: Results, p: Parameters) -> str:
    """Say who loses least at the horizon among the algorithms that `draw` draws, and how PF-PNE compares.

    Parameters
    ----------
    results : Results
        The runs that `draw` was given.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    str
        A few sentences. Where PF-PNE is the first or was not run, it is the next algorithm that is compared. Then what
        PF-PNE was given as the true Delta, and how much of T its last phase takes.
    """
    T = results.experiment.horizon
    last = regret_curves(results.regret[results.regret["t"] == T]).set_index("algorithm")
    usual = bool(p.reading_in_name(results.experiment)) and set(p.algorithms) == set(RANKED_ALGORITHMS)
    names = _drawn_names(last.index, usual)
    sentences = [compared_in_words(last.loc[names], T)]
    runs = {name: [run for (other, _), run in results.runs.items() if other == name] for name in ("pf-pne", OWN_DELTA)}
    if runs["pf-pne"]:
        share = np.mean([last_phase_share(run) for run in runs["pf-pne"]])
        sentences.append(f"PF-PNE's last phase, which T cuts, takes {share:.0%} of T.")
    if runs[OWN_DELTA] and OWN_DELTA in names:
        low, high = (rounded(f(run.settings["Delta"] for run in runs[OWN_DELTA])) for f in (min, max))
        sentences.append(f"The true Delta is {low if low == high else f'from {low} to {high}, by run'}.")
    return " ".join(sentences)


def compared_in_words(last: pd.DataFrame, horizon: int) -> str:
    """The words of `in_words`. last: one row per algorithm, with the columns runs, mean and std of R(T)/M."""
    last = last.sort_values("mean", kind="stable")
    least, n_runs = last["mean"].iloc[0], last["runs"].max()
    first, behind = last[last["mean"] == least], last[last["mean"] > least]
    names, alone = listed(map(spoken, first.index)), len(last) == 1
    verb = "has" if len(first) == 1 else "have"
    who = f"the mean regret R(T)/M of {names} is" if alone else f"{names} {verb} the smallest mean regret R(T)/M,"
    sentences = [f"After T = {horizon:,} evaluations per client {who} {rounded(least)}."]
    other = "pf-pne" if "pf-pne" in behind.index else next(iter(behind.index), None)
    if other is not None:
        mean = behind.loc[other, "mean"]
        sentences.append(f"{spoken(other)} has {times_as_much(mean / least) if least else rounded(mean)}.")
    if n_runs == 1:
        sentences.append(ONE_RUN)
    elif alone:
        sentences.append(f"The standard deviation over {n_runs} runs is {rounded(first['std'].iloc[0])}.")
    elif other is not None:
        overlap = mean - least <= first["std"].max() + behind.loc[other, "std"]
        verb = "overlap" if overlap else "do not overlap"
        sentences.append(f"Their intervals of one standard deviation on either side of the mean {verb}.")
        if n_runs < FEW_RUNS:
            sentences.append(f"With {n_runs} runs this is no test.")
    return " ".join(sentences)


def ranking_in_words(results: list[Results]) -> str:
    """Say who is first on how many objectives, and where PF-PNE stands.

    Parameters
    ----------
    results : list of Results
        As `ranking` takes them.

    Returns
    -------
    str
        Two sentences; of one where PF-PNE was not run.
    """
    table = _ranked(_at_horizon(results))
    n_objectives, n_algorithms = table["objective"].nunique(), table["algorithm"].nunique()
    least = table["mean"] == table.groupby("objective")["mean"].transform("min")
    firsts = table.loc[least, "algorithm"].value_counts()
    best = listed([f"that of {spoken(name)} on {count}" for name, count in firsts.items()])
    text = f"Of {n_algorithms} algorithms, the smallest mean regret is {best} of {n_objectives} objectives."
    ours = table[table["algorithm"] == "pf-pne"]
    ranks = [f"{row.rank} on {title(row.objective)}" for row in ours.itertuples()]
    return f"{text} PF-PNE's rank is {listed(ranks)}." if ranks else text


# --- tables -------------------------------------------------------------------------------------------


def final_regret(results: Results) -> pd.DataFrame:
    """Tabulate the average cumulative regret at the horizon, best first.

    Parameters
    ----------
    results : Results
        The runs of several algorithms on one objective.

    Returns
    -------
    pandas.DataFrame
        One row per algorithm: runs, and the mean and the standard deviation of R(T)/M over them.
    """
    last = results.regret[results.regret["t"] == results.experiment.horizon]
    table = last.groupby("algorithm")["regret"].agg(runs="count", mean="mean", std="std")
    return table.sort_values("mean").rename(index=label)


def _against_pf_pne(last: pd.DataFrame, table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The columns wins, p_less and p_more of `ranking`, for the rows of its table; last: the regret of each run."""
    by_run = last.pivot(index="run", columns=["objective", "algorithm"], values="regret")
    rows = []
    for objective, algorithm in table[["objective", "algorithm"]].itertuples(index=False):
        if algorithm == "pf-pne" or (objective, "pf-pne") not in by_run:
            rows.append((np.nan, np.nan, np.nan))
            continue
        difference = (by_run[objective, algorithm] - by_run[objective, "pf-pne"]).dropna().to_numpy()
        less, more = stats.sign_flip(difference, stream(seed, "ranking", objective, algorithm))
        rows.append(((difference < 0).sum(), less, more))
    return pd.DataFrame(rows, columns=["wins", "p_less", "p_more"], index=table.index)


def _at_horizon(results: list[Results]) -> pd.DataFrame:
    """The rows of Results.regret at the horizon, each run once."""
    parts = [result.regret[result.regret["t"] == result.experiment.horizon] for result in results]
    last = pd.concat(parts, ignore_index=True)
    return last.drop_duplicates(["objective", "algorithm", "run"])


def _ranked(last: pd.DataFrame) -> pd.DataFrame:
    """One row per objective and algorithm: runs, mean and std of R(T)/M, and rank; last: the regret of each run."""
    table = last.groupby(["objective", "algorithm"], sort=False)["regret"].agg(runs="count", mean="mean", std="std")
    table = table.reset_index()
    return table.assign(rank=table.groupby("objective")["mean"].rank().astype(int))


def ranking(results: list[Results], p: Parameters) -> Exhibit:
    """Tabulate everyone's regret at the horizon: means, standard deviations and ranks, best first on average.

    Parameters
    ----------
    results : list of Results
        One or more for each objective, whose algorithms are ranked together.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The table, and as CSV one row per objective and algorithm: runs, mean, std, rank, and, against PF-PNE, wins
        (runs with less regret) and the p-values of sign-flip tests: p_less of "not less regret", p_more of "not more".
    """
    last = _at_horizon(results)
    table = _ranked(last)
    table = pd.concat([table, _against_pf_pne(last, table, p.seed)], axis=1)
    caption = (
        f'Average cumulative regret R(T)/M of every algorithm under the reading "{p.reading}"'
        f" ({noise_in_words(results[0].experiment.noise)}; "
        f"{scale_in_words(p, table['runs'].max())}): mean over the runs, standard deviation, and rank. Best "
        "first by average"
        " rank."
    )
    markdown = ranking_cells(table).to_markdown(index=False)
    stem = f"ranking_{p.reading}"
    files = {f"{stem}.csv": as_csv(table, digits=10), f"{stem}.md": f"{markdown}\n\n{caption}\n".encode()}
    return Exhibit(stem, caption, files, {"text/markdown": markdown})


def ranking_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `ranking` as strings: one row per algorithm, one column per objective."""
    order = table.groupby("algorithm")["rank"].mean().sort_values(kind="stable").index
    cells = table.assign(
        cell=[
            f"{float(f'{mean:.3g}'):,.0f} \N{PLUS-MINUS SIGN} {float(f'{std:.2g}'):,.0f} ({rank})"
            for mean, std, rank in zip(table["mean"], table["std"].fillna(0), table["rank"], strict=True)
        ]
    )
    cells = cells.pivot(index="algorithm", columns="objective", values="cell").loc[order, table["objective"].unique()]
    return cells.rename(index=label, columns=title).rename_axis(index="Algorithm", columns=None).reset_index()
