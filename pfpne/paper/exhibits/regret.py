"""Curves of regret, one figure per objective or panels of several, and the ranking of all algorithms.

They are drawn from `Results.regret` of pfpne.paper.run.results. Each line is named at its end. With more than two
panels side by side there is no room for names, and the figure has a legend.
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
    PAPER_ALGORITHMS,
    PF_PNE_WITH_TRUE_DELTA,
    RANKED_IN_REGRET_TABLES,
)
from pfpne.paper.show.export import Exhibit, as_csv
from pfpne.paper.show.plot import (
    figure_exhibit,
    in_order,
    legend,
    linear_ticks,
    log_ticks,
    name_line_ends,
    our_style,
)
from pfpne.paper.show.style import (
    LOOKS,
    algorithm_in_words,
    label,
    listed,
    noise_in_name,
    noise_in_words,
    rounded,
    times_as_much,
    title,
)
from pfpne.rng import stream

# From a ranking, the paper's five are drawn, two algorithms that its figures leave out (thinner lines), and two bands.
PLOTTED_ALGORITHMS, THIN_ALGORITHMS = PAPER_ALGORITHMS, ("pe", "hoo")
BANDED_ALGORITHMS = ("pf-pne", "hct-pyxab")
PANEL_POINTS = {"printed": 100, "model": 60}  # of each curve in a figure of several objectives
FEW_RUNS = 10  # fewer runs say little about chance
MAX_BANDS = 4  # more bands cannot be told apart
HCT_OF_THE_PAPER = "HCT (PyXAB) is HCT in the version that the paper ran."


def draw(results: Results, p: Parameters) -> Exhibit:
    """Draw the average cumulative regret of each algorithm on one objective, under one noise.

    Parameters
    ----------
    results : Results
        The runs of several algorithms on one objective, as `Parameters.run_with_true_Delta` gives them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and its curves as CSV: objective, noise, algorithm, t, runs, mean and std of R(t)/M.
    """
    experiment = results.experiment
    stem, caption_subject = f"regret_{name_of_file(experiment, p)}", f" on {problem_in_words(experiment)}"
    return _draw([[results]], stem, caption_subject, p, n_points=250)


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
    rows = _rows_by_noise(synthetic, landmine)
    marks = {noise: "printed" if p.reading == "printed" else noise_in_name(noise) for noise in _noises_of(synthetic)}
    figures = [_panel(_two_by_two(rows[0]), f"main_{next(iter(marks.values()))}", p)]
    for noise, mark in marks.items():
        figures.append(
            _panel([[synthetic[objective, noise] for objective in APPENDIX_OBJECTIVES]], f"appendix_{mark}", p)
        )
    return figures + ([_panel(rows, "main_noises", p)] if len(rows) > 1 else [])


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
    return _panel(_two_by_two(results), f"main_{cells}{'_printed' * (p.reading == 'printed')}", p)


def simple_regret_panel(synthetic: dict, landmine: Results, p: Parameters) -> Exhibit:
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
    if len(rows) == 1:
        return _panel(_two_by_two(rows[0]), f"simple_{p.reading}", p, simple=True)
    return _panel(rows, "simple_noises", p, simple=True)


def _noises_of(synthetic: dict) -> list:
    return list(dict.fromkeys(noise for _, noise in synthetic))


def _rows_by_noise(synthetic: dict, landmine: Results) -> list[list[Results | None]]:
    """One row of the main figure's results for each noise; landmine stands in the first."""
    rows = [[synthetic.get((objective, noise)) for objective in MAIN_OBJECTIVES] for noise in _noises_of(synthetic)]
    rows[0][-1] = landmine
    return rows


def _two_by_two(results: list[Results]) -> list[list[Results]]:
    """The results of one noise, in rows of two."""
    return [results[k : k + 2] for k in range(0, len(results), 2)]


# --- drawing ------------------------------------------------------------------------------------------


def _panel(rows: list[list[Results | None]], name: str, p: Parameters, simple: bool = False) -> Exhibit:
    """Several objectives side by side, None for an empty place: in rows of two, or in one row per noise."""
    noises = list(dict.fromkeys(row[0].experiment.noise for row in rows))
    caption_subject = f' under the reading "{p.reading}": {", ".join(map(noise_in_words, noises))}'
    landmine = [
        results.experiment.noise
        for row in rows
        for results in row
        if results and results.experiment.objective == "landmine"
    ]
    if landmine and landmine[0] not in noises:
        caption_subject += f" (landmine: {noise_in_words(landmine[0])})"
    return _draw(rows, f"panel_{name}", caption_subject, p, PANEL_POINTS[p.reading], simple)


def _draw(
    rows: list[list[Results | None]],
    stem: str,
    caption_subject: str,
    p: Parameters,
    n_points: int,
    simple: bool = False,
) -> Exhibit:
    column = "simple_regret" if simple else "regret"
    curves = [
        [results and regret_curves(_thin_out(results.regret, n_points), column) for results in row] for row in rows
    ]
    experiments = [[results and results.experiment for results in row] for row in rows]
    return draw_curves(curves, experiments, stem, caption_subject, p, simple)


@our_style()
def draw_curves(
    curves: list[list[pd.DataFrame | None]],
    experiments: list[list[Experiment | None]],
    stem: str,
    caption_subject: str,
    p: Parameters,
    simple: bool,
) -> Exhibit:
    """Draw tables of `regret_curves`, one panel per experiment; None leaves a place empty.

    More than two panels side by side are one row per noise.
    """
    table = pd.concat([part for row in curves for part in row if part is not None], ignore_index=True)
    names = _choose_plotted(table["algorithm"], p)
    banded = _choose_banded(names)
    left_out = ", ".join(label(name) for name in in_order(table["algorithm"]) if name not in names)
    caption = (
        f"{'Simple regret of the point deployed' if simple else 'Average cumulative regret'}{caption_subject}. "
        f"{scale_in_words(p, table['runs'].max())}, {experiments[0][0].cells} cells. Lines are means over the runs. "
        f"Bands, for {_bands_in_words(banded, names)}, are \N{PLUS-MINUS SIGN}1 standard "
        "deviation over the runs. They are cut where they leave the range of the lines."
        + (f" {HCT_OF_THE_PAPER}" if "hct-pyxab" in names else "")
        + (f" The CSV also has {left_out}." if left_out else "")
    )
    thin = THIN_ALGORITHMS if left_out else ()
    widths = {name: 0.8 if name in thin else 1.6 if name == "pf-pne" else 1.2 for name in names}
    by_noise = len(curves[0]) > 2

    figure, axes = panel_figure(len(curves), len(curves[0]))
    for (i, j), ax in np.ndenumerate(axes):
        if curves[i][j] is not None:
            draw_regret(ax, curves[i][j], banded, widths, log_scale=simple)
    if by_noise:
        symbol = "simple regret" if simple else "regret $R(t)/M$"
        label_panels(axes, experiments, [f"{noise_in_words(row[0].noise)}\n{symbol}" for row in experiments])
        if simple:
            _share_limits(axes)
        legend(figure, names, legend_columns(axes.shape[1]))
    else:
        quantity = "simple regret" if simple else "average cumulative regret $R(t)/M$"
        label_panels(axes, experiments, [quantity] * len(experiments))
        for (i, j), ax in np.ndenumerate(axes):
            name_line_ends(ax, curves[i][j].groupby("algorithm")["mean"].last()[names].to_dict())
    return figure_exhibit(figure, stem, caption, table)


def _choose_plotted(algorithms: Iterable[str], p: Parameters) -> list[str]:
    """The algorithms that have a line: all that were given, or a selection of the default ones."""
    is_default = set(p.algorithms) == set(RANKED_IN_REGRET_TABLES)
    return [name for name in in_order(algorithms) if not is_default or name in (*PLOTTED_ALGORITHMS, *THIN_ALGORITHMS)]


def _choose_banded(names: list[str]) -> list[str]:
    """The algorithms that have a band: all if they are few, else two."""
    two = [name for name in names if name in BANDED_ALGORITHMS]
    return two or names[:2] if len(names) > MAX_BANDS else names


def _bands_in_words(banded: list[str], names: list[str]) -> str:
    return "all" if banded == names else listed(map(algorithm_in_words, banded))


def _share_limits(axes: np.ndarray) -> None:
    """Give the axes of each column, which show one objective, common limits that contain all their lines."""
    for column in axes.T:
        with_lines = [ax for ax in column if ax.lines]
        lows, highs = zip(*(ax.get_ylim() for ax in with_lines), strict=True)
        for ax in with_lines:
            ax.set_ylim(min(lows), max(highs))
            log_ticks(ax.yaxis, (1, 3) if max(highs) > 30 * min(lows) else (1, 2, 5))
            if max(highs) < 4 * min(lows):
                ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def _thin_out(table: pd.DataFrame, n_points: int) -> pd.DataFrame:
    """The table Results.regret at no more than n_points of its steps t, the last one among them."""
    steps = np.sort(table["t"].unique())
    return table[table["t"].isin(steps[::-1][:: -(-len(steps) // n_points)])]


def regret_curves(table: pd.DataFrame, column: str = "regret") -> pd.DataFrame:
    """Mean and standard deviation over the runs, at each t, of a column of Results.regret."""
    groups = table.groupby(["objective", "noise", "algorithm", "t"], sort=False)[column]
    return groups.agg(runs="count", mean="mean", std="std").reset_index().fillna({"std": 0.0})  # of one run


def draw_regret(
    ax: Axes, curves: pd.DataFrame, banded: Collection[str], widths: dict | None = None, log_scale: bool = False
) -> None:
    """Draw a table of `regret_curves`: mean lines against t, and bands of one standard deviation for some algorithms.

    widths: {algorithm: width of its line}, of those that are drawn; if it is not given, all are, equally wide.
    """
    names = in_order(curves["algorithm"] if widths is None else widths)
    plotted, spacing = curves[curves["algorithm"].isin(names)], max(1, curves["t"].nunique() // 6)
    for k, name in enumerate(names):
        look, line = LOOKS[name], plotted[plotted["algorithm"] == name]
        t, mean, std = (line[column].to_numpy() for column in ("t", "mean", "std"))
        shape = {"marker": look.marker, "markevery": (k * spacing // len(names), spacing)}  # no mark hides another
        shape |= {"linestyle": look.linestyle, "linewidth": widths and widths[name]}
        ax.plot(t, mean, color=look.color, clip_on=False, zorder=3 - k / 100, **shape)
        if name in banded:
            edges = {"facecolor": (look.color, 0.12), "edgecolor": (look.color, 0.5), "linewidth": 0.3}
            ax.fill_between(t, mean - std, mean + std, **edges)
    ax.set_xlim(0, curves["t"].max())
    linear_ticks(ax.xaxis, 4)
    positive = plotted["mean"][plotted["mean"] > 0]
    if log_scale:
        ax.set(yscale="log", ylim=(0.8 * positive.min(), 1.25 * positive.max()) if len(positive) else None)
        log_ticks(ax.yaxis)
    else:
        ax.set_ylim(0, 1.08 * plotted["mean"].max() or None)  # a wide band hides no line
        linear_ticks(ax.yaxis, 6)


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
        A few sentences. The best algorithm is compared with PF-PNE, or with the second best if PF-PNE is the best or
        was not run. Then the true Delta that PF-PNE was given, and the share of T in its last phase.
    """
    T = results.experiment.horizon
    last = regret_curves(results.regret[results.regret["t"] == T]).set_index("algorithm")
    names = _choose_plotted(last.index, p)
    sentences = [compared_in_words(last.loc[names], T)]
    runs = {
        name: [run for (other, _), run in results.runs.items() if other == name]
        for name in ("pf-pne", PF_PNE_WITH_TRUE_DELTA)
    }
    if runs["pf-pne"]:
        share = np.mean([last_phase_share(run) for run in runs["pf-pne"]])
        sentences.append(f"PF-PNE's last phase, which T cuts, takes {share:.0%} of T.")
    if runs[PF_PNE_WITH_TRUE_DELTA] and PF_PNE_WITH_TRUE_DELTA in names:
        low, high = (rounded(f(run.settings["Delta"] for run in runs[PF_PNE_WITH_TRUE_DELTA])) for f in (min, max))
        sentences.append(f"The true Delta is {low if low == high else f'from {low} to {high}, by run'}.")
    return " ".join(sentences)


def compared_in_words(last: pd.DataFrame, horizon: int) -> str:
    """The words of `in_words`. last: one row per algorithm, with the columns runs, mean and std of R(T)/M."""
    last = last.sort_values("mean", kind="stable")
    least, n_runs = last["mean"].iloc[0], last["runs"].max()
    first, behind = last[last["mean"] == least], last[last["mean"] > least]
    names, alone = listed(map(algorithm_in_words, first.index)), len(last) == 1
    verb = "has" if len(first) == 1 else "have"
    who = f"the mean regret R(T)/M of {names} is" if alone else f"{names} {verb} the smallest mean regret R(T)/M,"
    sentences = [f"After T = {horizon:,} evaluations per client {who} {rounded(least)}."]
    other = "pf-pne" if "pf-pne" in behind.index else next(iter(behind.index), None)
    if other is not None:
        mean = behind.loc[other, "mean"]
        sentences.append(f"{algorithm_in_words(other)} has {times_as_much(mean / least) if least else rounded(mean)}.")
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
        Two sentences; or one if PF-PNE was not run.
    """
    table = _rank(_at_horizon(results))
    n_objectives, n_algorithms = table["objective"].nunique(), table["algorithm"].nunique()
    least = table["mean"] == table.groupby("objective")["mean"].transform("min")
    firsts = table.loc[least, "algorithm"].value_counts()
    best = listed([f"that of {algorithm_in_words(name)} on {count}" for name, count in firsts.items()])
    text = f"Of {n_algorithms} algorithms, the smallest mean regret is {best} of {n_objectives} objectives."
    pf_pne_rows = table[table["algorithm"] == "pf-pne"]
    ranks = [f"{row.rank} on {title(row.objective)}" for row in pf_pne_rows.itertuples()]
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


def _rank(last: pd.DataFrame) -> pd.DataFrame:
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
        (runs with less regret) and the p-values of sign-flip tests under the nulls "not less regret" (p_less) and "not
        more" (p_more).
    """
    last = _at_horizon(results)
    table = _rank(last)
    table = pd.concat([table, _against_pf_pne(last, table, p.seed)], axis=1)
    caption = (
        f'Average cumulative regret R(T)/M of every algorithm under the reading "{p.reading}"'
        f" ({noise_in_words(results[0].experiment.noise)}; "
        f"{scale_in_words(p, table['runs'].max())}): mean over the runs, standard deviation, and rank. Best "
        "first by average"
        " rank."
    )
    markdown = ranking_as_strings(table).to_markdown(index=False)
    stem = f"ranking_{p.reading}"
    files = {f"{stem}.csv": as_csv(table, digits=10), f"{stem}.md": f"{markdown}\n\n{caption}\n".encode()}
    return Exhibit(stem, caption, files, {"text/markdown": markdown})


def ranking_as_strings(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `ranking` as strings: one row per algorithm, one column per objective."""
    order = table.groupby("algorithm")["rank"].mean().sort_values(kind="stable").index
    strings = table.assign(
        text=[
            f"{float(f'{mean:.3g}'):,.0f} \N{PLUS-MINUS SIGN} {float(f'{std:.2g}'):,.0f} ({rank})"
            for mean, std, rank in zip(table["mean"], table["std"].fillna(0), table["rank"], strict=True)
        ]
    )
    strings = strings.pivot(index="algorithm", columns="objective", values="text")
    strings = strings.loc[order, table["objective"].unique()]
    return strings.rename(index=label, columns=title).rename_axis(index="Algorithm", columns=None).reset_index()
