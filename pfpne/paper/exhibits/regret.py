"""Every figure, drawn by seaborn from the tidy tables of `pfpne.paper.run.experiment.Results`.

Drawing is apart from simulating: each function returns an Exhibit, rendered as PDF and PNG, with the CSV that it was
drawn from. The same tables give the same bytes.
"""

import functools
import math
import textwrap
from collections.abc import Callable

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from pfpne.paper.exhibits.specification import CHOICES, COMPARISONS, right
from pfpne.paper.run.groups import APPENDIX, MAIN, PAPER, RANKED
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import (
    figure_exhibit,
    in_order,
    in_thousands,
    legend,
    line_looks,
    linear_ticks,
    log_ticks,
    name_line_ends,
    our_style,
)
from pfpne.paper.show.style import (
    COLUMN,
    LOOKS,
    PAGE,
    TITLES,
    Delta_in_words,
    label,
    noise_in_name,
    noise_in_words,
    title,
)

MOST_ROUNDS = 200  # drawn of one run; an algorithm that communicates at every step has as many as steps


def render(stem: str, caption: str, table: pd.DataFrame, size, draw: Callable[[Figure], None]) -> Exhibit:
    """What draw(figure) puts on a figure of this size (inches; None: it sets it), in our style, as files."""
    with our_style():
        figure = Figure(figsize=size)
        draw(figure)
        return figure_exhibit(figure, stem, caption, table)


def _side_by_side(stem: str, caption: str, table: pd.DataFrame, rows: list, draw: Callable, ylabels: list, more=()):
    """An Exhibit of axes, each drawn by draw(ax, data) for an (experiment, data) of rows, or empty for None.

    ylabels: one for each row. more: handles of the legend after the algorithms'.
    """
    columns, alone = len(rows[0]), len(rows) == len(rows[0]) == 1
    size = (COLUMN, 2.7) if alone else (PAGE if columns > 2 else 0.62 * PAGE, 0.5 + 1.6 * len(rows))

    def panels(figure: Figure) -> None:
        for (i, j), ax in np.ndenumerate(figure.subplots(len(rows), columns, squeeze=False)):
            if rows[i][j] is None:
                ax.set_axis_off()
                continue
            of, data = rows[i][j]
            draw(ax, data)
            ax.set(xlabel="evaluations per client $t$", ylabel="" if j else ylabels[i])
            ax.set_title(_where(of) if alone or of.objective == "landmine" else TITLES[of.objective])
        legend(figure, in_order(table["algorithm"]), 7 if columns > 2 else 3 if alone else 4, more=more)

    return render(stem, caption, table, size, panels)


def _where(of) -> str:
    return f"{TITLES[of.objective]}, {noise_in_words(of.noise)}"


def _name(of, p: Parameters, usual: str | None = None) -> str:
    """The experiment in the name of a file: its reading, or its noise where the objective has several, not as usual."""
    if mark := p.mark(of):
        return f"{of.objective}_{mark}"
    plain = of.objective == "landmine" or of.noise == usual
    return of.objective if plain else f"{of.objective}_{noise_in_name(of.noise)}"


def scale(p: Parameters, runs: int) -> str:
    n = f"{runs} {'run' if runs == 1 else 'runs'}"
    return f"M = {p.n_clients} clients, T = {p.horizon:,} evaluations per client, n = {n}"


def regret(results, p: Parameters) -> Exhibit:
    """The average cumulative regret of each algorithm on one objective, under one noise."""
    of = results.experiment
    stem, what = f"regret_{_name(of, p)}", f" on {_where(of)}"
    if p.mark(of):
        return _labelled([results], stem, what, p, points=250)
    return _regret([[results]], stem, what, p, points=250)


def printed_panel(results: list, name: str, p: Parameters, simple: bool = False) -> Exhibit:
    """Regret on several objectives under one reading, two side by side, each line named at its end."""
    what = f' under the reading "{p.reading}": {noise_in_words(results[0].experiment.noise)}'
    landmine = [one.experiment.noise for one in results if one.experiment.objective == "landmine"]
    if landmine and landmine[0] != results[0].experiment.noise:
        what += f" (landmine: {noise_in_words(landmine[0])})"
    return _labelled(results, f"panel_{name}_{p.reading}", what, p, points=100, simple=simple)


# What is drawn of a ranking: the paper's five, and, thinner, the two that its figures leave out.
DRAWN, BESIDE = PAPER, ("pe", "hoo")
BANDS = ("pf-pne", "hct-pyxab")
SHORT = {"hct-pyxab": "HCT"}  # at the end of a line


def _labelled(results: list, stem: str, what: str, p: Parameters, points: int, simple: bool = False) -> Exhibit:
    """Curves of R(t)/M, or of the simple regret, with the name of each algorithm at the end of its line."""
    of = "simple_regret" if simple else "regret"
    tables = [_thinned(one.regret, points) for one in results]
    curves = pd.concat([regret_curves(table, of) for table in tables], ignore_index=True)
    usual = set(p.algorithms) == set(RANKED)
    names = [name for name in in_order(curves["algorithm"]) if not usual or name in (*DRAWN, *BESIDE)]
    banded = [name for name in names if not usual or name in BANDS]
    columns = min(2, len(results))
    rows = -(-len(results) // columns)
    left_out = ", ".join(label(name) for name in in_order(curves["algorithm"]) if name not in names)
    caption = (
        f"{'Simple regret of the point deployed' if simple else 'Average cumulative regret'}{what}. "
        f"{scale(p, curves['runs'].max())}, {results[0].experiment.cells} cells. Lines are means over the runs. "
        f"Bands, for {' and '.join(map(label, banded)) if usual else 'all'}, are \N{PLUS-MINUS SIGN}1 standard "
        "deviation over the runs. They are cut where they leave the range of the lines."
        + (f" The CSV also has {left_out}." if left_out else "")
    )
    size = (COLUMN, 2.4) if len(results) == 1 else (PAGE, 0.3 + 2.1 * rows)
    with our_style():
        figure = Figure(figsize=size)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in axes[len(results) :]:
            ax.set_axis_off()
        for letter, ax, one in zip("abcd", axes, results, strict=False):
            mine = curves[curves["objective"] == one.experiment.objective]
            _draw_labelled(ax, mine, names, banded, usual, log=simple)
            ax.set_title(f"{f'({letter}) ' if len(results) > 1 else ''}{_where(one.experiment)}")
            ax.set_xlabel("evaluations per client $t$")
        for ax in axes[::columns]:
            ax.set_ylabel("simple regret" if simple else "average cumulative regret $R(t)/M$")
        return figure_exhibit(figure, stem, caption, curves)


def _draw_labelled(ax: Axes, curves: pd.DataFrame, names: list[str], banded: list[str], usual: bool, log: bool) -> None:
    """Mean lines of one objective, with bands of some, and each algorithm's name at the end of its line."""
    ends = {}
    for name in names:
        look, line = LOOKS[name], curves[curves["algorithm"] == name]
        thin = usual and name in BESIDE
        t, mean = line["t"].to_numpy(), line["mean"].to_numpy()
        width = 0.8 if thin else 1.6 if name == "pf-pne" else 1.2
        every = max(1, len(t) // 5)
        marks = {"marker": look.marker, "markevery": (every // 2, every), "markersize": 3}
        ax.plot(t, mean, color=look.color, linestyle=look.linestyle, linewidth=width, clip_on=False, **marks)
        if name in banded:
            low, high = mean - line["std"].to_numpy(), mean + line["std"].to_numpy()
            ax.fill_between(t, low, high, color=look.color, alpha=0.15, linewidth=0)
        ends[name] = mean[-1]
    top = max(ends.values())
    ax.set_xlim(0, curves["t"].max())
    if log:
        low = min(
            m[m > 0].min() for m in (curves.loc[curves["algorithm"] == n, "mean"] for n in names) if (m > 0).any()
        )
        ax.set(yscale="log", ylim=(0.8 * low, None))
        log_ticks(ax.yaxis, (1, 2, 5))
    else:
        ax.set_ylim(0, 1.05 * top)
        linear_ticks(ax.yaxis, 5)
    linear_ticks(ax.xaxis, 4)
    name_line_ends(ax, ends, SHORT)


def regret_panel(rows: list[list], name: str, p: Parameters, simple: bool = False) -> Exhibit:
    """Regret on several objectives, side by side: one row of results per kind of noise, None for an empty place.

    simple: the simple regret instead, of the points that the clients would deploy.
    """
    regimes = ", ".join(noise_in_words(row[0].experiment.noise) for row in rows)
    landmine = any(one and one.experiment.objective == "landmine" for row in rows for one in row)
    what = f", {regimes}{', landmine without' if landmine else ''}"
    return _regret(rows, f"panel_{name}", what, p, points=60, simple=simple)


def main_panels(synthetic: dict, landmine, p: Parameters) -> list[Exhibit]:
    """The paper's main figure under the first noise and under all, and its appendix's under each noise of the reading.

    synthetic: {(objective, noise): results}. Landmine has one noise alone, and stands beside the first.
    """
    noises = list(dict.fromkeys(noise for _, noise in synthetic))
    main = [synthetic[objective, noises[0]] for objective in MAIN if objective != "landmine"] + [landmine]
    appendix = {noise: [synthetic[objective, noise] for objective in APPENDIX] for noise in noises}
    if p.reading == "printed":
        panels = [printed_panel(results, "appendix", p) for results in appendix.values()]
        return [printed_panel(main, "main", p), *panels]
    panels = [regret_panel([results], f"appendix_{noise_in_name(noise)}", p) for noise, results in appendix.items()]
    all_noises = regret_panel(_by_noise(synthetic, landmine, noises), "main_regimes", p)
    return [regret_panel([main], f"main_{noise_in_name(noises[0])}", p), *panels, all_noises]


def cells_panel(results: list, cells: str, p: Parameters) -> Exhibit:
    """The main figure with another kind of cells."""
    if p.reading == "printed":
        return printed_panel(results, f"main_{cells}", p)
    return regret_panel([results], f"main_{cells}", p)


def simple_panel(synthetic: dict, landmine, p: Parameters) -> Exhibit:
    """The simple regret on the objectives of the main figure, under each noise of the reading."""
    noises = list(dict.fromkeys(noise for _, noise in synthetic))
    rows = _by_noise(synthetic, landmine, noises)
    if p.reading == "printed":
        return printed_panel(rows[0], "simple", p, simple=True)
    return regret_panel(rows, "simple_regimes", p, simple=True)


def _by_noise(synthetic: dict, landmine, noises: list) -> list[list]:
    """One row of the main figure's results for each noise; landmine stands in the first."""
    rows = [[synthetic.get((objective, noise)) for objective in MAIN] for noise in noises]
    rows[0][-1] = landmine
    return rows


def _regret(rows: list[list], stem: str, what: str, p: Parameters, points: int, simple: bool = False) -> Exhibit:
    of = "simple_regret" if simple else "regret"
    cells = [[one and (one.experiment, _thinned(one.regret, points)) for one in row] for row in rows]
    table = pd.concat([regret_curves(cell[1], of) for row in cells for cell in row if cell], ignore_index=True)
    name = "Simple regret of the point deployed" if simple else "Average cumulative regret"
    bands = "1 standard deviation over the runs, and are cut where they leave the range of the lines"
    bands = "2 standard errors of these means" if simple else bands
    caption = (
        f"{name}{what}: {scale(p, table['runs'].max())}, {rows[0][0].experiment.cells} cells. "
        f"Lines are means over the runs. Bands are \N{PLUS-MINUS SIGN}{bands}."
    )
    symbol = "simple regret" if simple else "regret $R(t)/M$"
    labels = [f"{noise_in_words(of.noise)}\n{symbol}" for (of, _), *_ in cells]
    if len(rows[0]) == 1:
        labels = [f"average cumulative {symbol}"]
    return _side_by_side(stem, caption, table, cells, draw_simple_regret if simple else draw_regret, labels)


def _thinned(regret: pd.DataFrame, points: int) -> pd.DataFrame:
    """The table Results.regret at no more than `points` of its steps t, the last one among them."""
    steps = np.sort(regret["t"].unique())
    return regret[regret["t"].isin(steps[::-1][:: -(-len(steps) // points)])]


def regret_curves(regret: pd.DataFrame, of: str = "regret") -> pd.DataFrame:
    """Mean and standard deviation over runs of a column of Results.regret, R(t)/M by default, at each t."""
    groups = regret.groupby(["objective", "noise", "algorithm", "t"], sort=False)[of]
    return groups.agg(runs="count", mean="mean", std="std").reset_index().fillna({"std": 0.0})  # of one run


def draw_regret(ax: Axes, regret: pd.DataFrame) -> None:
    """Draw the runs of one objective and noise: mean lines, bands of one standard deviation."""
    _curves(ax, regret, "regret", "sd", clip_on=False)
    highest = max(line.get_ydata().max() for line in ax.lines)  # a wide band hides no line
    ax.set_ylim(0, 1.08 * highest or None)


def _curves(ax: Axes, regret: pd.DataFrame, of: str, errorbar, **options) -> None:
    """Mean lines of a column against t, with bands, on linear axes."""
    names, every = in_order(regret["algorithm"]), max(1, regret["t"].nunique() // 6)
    sns.lineplot(regret, x="t", y=of, errorbar=errorbar, ax=ax, **options, **line_looks(names))
    for k, (name, line, band) in enumerate(zip(names, ax.lines, ax.collections, strict=True)):
        line.set_markevery((k * every // len(names), every))  # staggered, so that no marker hides another
        color = LOOKS[name].color
        band.set(alpha=None, facecolor=(color, 0.12), edgecolor=(color, 0.5), linewidth=0.3)  # edges tell bands apart
    ax.set_xlim(0, regret["t"].max())
    linear_ticks(ax.xaxis, 4)
    linear_ticks(ax.yaxis, 6)


def draw_simple_regret(ax: Axes, regret: pd.DataFrame) -> None:
    """Draw the runs of one objective and noise: mean simple regret, bands of two standard errors."""
    _curves(ax, regret, "simple_regret", ("se", 2))
    drawn = [line.get_ydata() for line in ax.lines]
    low, high = min(y[y > 0].min(initial=1) for y in drawn), max(y.max() for y in drawn)
    ax.set(yscale="log", ylim=(0.8 * low, 1.25 * high or None))
    log_ticks(ax.yaxis, (1, 3) if high > 10 * low else (1, 2, 3, 5))
    if high < 4 * low:
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def final_regret(results) -> pd.DataFrame:
    """The average cumulative regret at the horizon, over the runs: mean and standard deviation, best first."""
    at_end = results.regret[results.regret["t"] == results.experiment.horizon]
    table = at_end.groupby("algorithm")["regret"].agg(runs="count", mean="mean", std="std")
    return table.sort_values("mean").rename(index=label)


def ranking(results: list, p: Parameters) -> Exhibit:
    """Everyone's regret at the horizon, side by side: a table of means and standard deviations, best first on average.

    results: of one or more experiments per objective, whose algorithms are ranked together.
    """
    at_end = pd.concat([one.regret[one.regret["t"] == one.experiment.horizon] for one in results], ignore_index=True)
    at_end = at_end.drop_duplicates(["objective", "algorithm", "run"])
    table = at_end.groupby(["objective", "algorithm"], sort=False)["regret"].agg(runs="count", mean="mean", std="std")
    table = table.reset_index()
    table["rank"] = table.groupby("objective")["mean"].rank().astype(int)
    order = table.groupby("algorithm")["rank"].mean().sort_values(kind="stable").index
    cells = table.assign(
        cell=[
            f"{mean:,.0f} \N{PLUS-MINUS SIGN} {std:,.0f} ({rank})"
            for mean, std, rank in zip(table["mean"], table["std"].fillna(0), table["rank"], strict=True)
        ]
    )
    shown = cells.pivot(index="algorithm", columns="objective", values="cell").loc[order, table["objective"].unique()]
    shown = shown.rename(index=label, columns=title).rename_axis(index="Algorithm", columns=None).reset_index()
    of = results[0].experiment
    caption = (
        f'Average cumulative regret R(T)/M of every algorithm under the reading "{p.reading}"'
        f" ({noise_in_words(of.noise)}; "
        f"{scale(p, table['runs'].max())}): mean over the runs, standard deviation, and rank. Best first by average"
        " rank."
    )
    markdown = shown.to_markdown(index=False)
    stem = f"ranking_{p.reading}"
    csv = table.to_csv(index=False, lineterminator="\n", float_format="%.10g").encode()
    files = {f"{stem}.csv": csv, f"{stem}.md": f"{markdown}\n\n{caption}\n".encode()}
    return Exhibit(stem, caption, files, {"text/markdown": markdown})


def communication(results: list, p: Parameters) -> Exhibit:
    """The numbers carried between server and clients against t, on one objective or, side by side, on several."""
    of = results[0].experiment
    stem, what = f"communication_{_name(of, p, usual='bernoulli')}", f" on {_where(of)}"
    if len(results) > 1:
        stem, what = f"panel_communication{'_printed' * bool(p.mark(of))}", f", {noise_in_words(of.noise)}"
    cells = [(one.experiment, communication_steps(one.communication)) for one in results]
    table = pd.concat([steps for _, steps in cells], ignore_index=True)
    silent = ", ".join(label(name) for name in of.algorithms if name not in set(table["algorithm"]))
    caption = (
        f"Communication{what}: {scale(p, p.n_runs)}. Lines are the numbers sent so far, up and down. A broadcast "
        "counts once for each client. A mark is a round of communication. Bold lines are the first run, thin lines "
        f"the others.{f' Nothing is sent by {silent}.' if silent else ''}"
    )
    others = [Line2D([], [], color="0.5", linewidth=0.6, label="thin lines: other runs")] if p.n_runs > 1 else []
    draw = functools.partial(draw_communication, horizon=p.horizon)
    return _side_by_side(stem, caption, table, [cells], draw, ["numbers sent so far"], others)


def communication_steps(communication: pd.DataFrame) -> pd.DataFrame:
    """The numbers carried so far, both ways, after each round of each run.

    Of a run with more than MOST_ROUNDS, that many, evenly spaced on a logarithmic axis, the first and last among them.
    """
    table = communication.drop(columns="bytes").assign(cumulative=communication["up"] + communication["down"])
    steps = []
    for _, rounds in table.groupby(["objective", "noise", "algorithm", "run"], sort=False):
        every, n = rounds.assign(cumulative=rounds["cumulative"].cumsum()), len(rounds)
        evenly = np.unique(np.geomspace(1, n, MOST_ROUNDS).round().astype(int)) - 1
        steps.append(every.iloc[evenly] if n > MOST_ROUNDS else every)
    return pd.concat(steps or [table], ignore_index=True)


def draw_communication(ax: Axes, steps: pd.DataFrame, horizon: int) -> None:
    """Draw the numbers carried against t: a step a round. The first run is bold, its rounds marked, a few if many."""
    if steps.empty:
        return
    names, to_the_end = in_order(steps["algorithm"]), steps.groupby(["algorithm", "run"]).tail(1).assign(t=horizon)
    looks = {"units": "run", "estimator": None, "sort": False, "drawstyle": "steps-post", **line_looks(names)}
    sns.lineplot(pd.concat([steps, to_the_end]), x="t", y="cumulative", ax=ax, **looks)
    first = np.cumsum([0, *steps.groupby("algorithm")["run"].nunique()[names]])  # lines are by algorithm and run
    for k, line in enumerate(ax.lines):
        rounds = len(line.get_xdata()) - 1
        few = {"zorder": 3, "markevery": [*range(0, rounds, 1 + rounds // 50)]}
        line.set(**few if k in first else {"alpha": 0.3, "linewidth": 0.6, "marker": ""})
    few = set(names) <= {"fed-pne", "pf-pne"}  # others send so much more that these would be a line at 0
    ax.set(xscale="log", yscale="linear" if few else "log")
    ax.set_xlim(right=horizon)
    if few:
        ax.set_ylim(bottom=0)
        linear_ticks(ax.yaxis, 5)
    for axis in (ax.xaxis,) if few else (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_minor_formatter(NullFormatter())
    ours = steps[steps["algorithm"] == "pf-pne"]
    if few and len(ours):
        last = ours[ours["run"] == ours["run"].min()]["t"].max()
        ax.axvline(last, color=LOOKS["pf-pne"].color, linewidth=0.6, linestyle=":")
        where = {"xycoords": ("data", "axes fraction"), "rotation": 90, "va": "bottom", "ha": "left", "fontsize": 6}
        ax.annotate("PF-PNE's last round", (last, 0.02), color=LOOKS["pf-pne"].color, **where)


def total_communication(results) -> pd.DataFrame:
    """Rounds, step of the last round, and numbers carried by the horizon: means over the runs."""
    by_run = results.communication.groupby(["algorithm", "run"])
    table = by_run.agg(rounds=("round", "max"), last_round_at=("t", "max"), up=("up", "sum"), down=("down", "sum"))
    return table.groupby("algorithm").mean().rename(index=label)


def surfaces(results, p: Parameters) -> Exhibit:
    """The AUC of each field in use as a function of C and gamma, in the first run, and what the clients chose of it.

    That is, the point that each would deploy at the horizon, by the first algorithm; beside it, the grid's best point.
    """
    look, problem = LOOKS[p.algorithms[0]], results.experiment.problem(run=0)
    C, gamma = tuned = results.runs[p.algorithms[0], 0].best.T  # (2, M)
    reached = [problem.client_values(m, best[None])[0] for m, best in enumerate(tuned.T)]
    clients = {"client": np.arange(1, p.n_clients + 1), "field": problem.fields + 1, "C": C, "gamma": gamma}
    table = pd.DataFrame({**clients, "auc": reached, "best_auc": problem.optimum})
    by_field = table.groupby("field")
    columns = min(5, len(by_field))
    rows = -(-len(by_field) // columns)
    caption = (
        "AUC of the support vector machine of each landmine field against C and gamma, in the first run: M = "
        f"{p.n_clients} clients, T = {p.horizon:,} evaluations per client. A white star is the best point of the "
        f"grid. A mark is the point that {look.label} would deploy at T, one per client. A title has the AUC at the "
        "marks (their mean, if clients share a field), then the best AUC of the grid."
    )

    def draw(figure: Figure) -> None:
        auc = problem.values(problem.candidates)
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for ax in axes.flat[len(by_field) :]:
            ax.set_axis_off()
        pixels = {"cmap": "cividis", "origin": "lower", "aspect": "auto", "interpolation": "none"}  # stored as they are
        above = {"clip_on": False, "zorder": 3}
        star = {"markersize": 7, "color": "white", "markeredgecolor": "black", "markeredgewidth": 0.5, **above}
        disc = {"markersize": 4, "color": look.color, "markeredgecolor": "white", "markeredgewidth": 0.6, **above}
        for ax, (field, mine) in zip(axes.flat, by_field, strict=False):
            surface = auc[mine.index[0]]
            grid = surface.reshape(math.isqrt(len(surface)), -1).T  # rows are gamma
            image = ax.imshow(grid, extent=problem.domain.ravel(), vmin=auc.min(), vmax=auc.max(), **pixels)
            ax.plot(*problem.candidates[np.argmax(surface)], "*", **star)
            ax.plot(mine["C"], mine["gamma"], look.marker, **disc)
            ax.set_title(f"field {field}: {mine['auc'].mean():.3f} of {mine['best_auc'].iloc[0]:.3f}", fontsize=7.5)
        figure.colorbar(image, ax=axes, label="AUC on the test half", shrink=0.8, pad=0.01)
        figure.supxlabel("regularization $C$", fontsize=8.5)
        figure.supylabel(r"kernel parameter $\gamma$", fontsize=8.5)

    stem = f"landmine_surfaces{'_printed' * bool(p.mark(results.experiment))}"
    return render(stem, caption, table, (PAGE, 0.45 + 1.35 * rows), draw)


def forest(table: pd.DataFrame, study) -> Exhibit:
    """Ratios of regret to PF-PNE's with their intervals: one row per objective and kind of cells, one panel per noise.

    table: see pfpne.paper.claims.evidence.ratios. Landmine, which has no noise, has the last panel.
    """
    names, runs = in_order(table["algorithm"]), sorted(set(table["n"]))
    noises = list(dict.fromkeys(regime.name for regime in study.regimes if regime.name != "landmine"))
    where = table["objective"].map(title) + np.where(table["cells"] == "cyclic", ", cyclic", "")
    table = table.assign(where=where)
    order = [place for f in TITLES for place in (title(f), f"{title(f)}, cyclic") if place in set(where)]
    places = [place for place in order if not place.startswith("Landmine")]
    own = [place for place in order if place.startswith("Landmine")]
    caption = (
        "Regret R(T)/M of each algorithm over PF-PNE's (Delta = 0.01): left of the line an algorithm has less regret"
        f" than PF-PNE. M = {study.n_clients} clients, T = {study.horizon:,}, n = {' or '.join(map(str, runs))} paired"
        " runs. Ratios of means with bootstrap 95 % intervals. Pale: cyclic cells, which PyXAB's default does not use."
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots(
            1, len(noises) + 1, squeeze=False, sharex=True, width_ratios=[*[1.0] * len(noises), 0.8]
        )[0]
        for ax, noise in zip(axes, [*noises, "landmine"], strict=True):
            rows = own if noise == "landmine" else places
            for k, name in enumerate(names):
                mine, look = table[(table["regime"] == noise) & (table["algorithm"] == name)], LOOKS[name]
                for cells, strength in (("random", 1.0), ("cyclic", 0.35)):
                    drawn = mine[mine["cells"] == cells]
                    at = drawn["where"].map(rows.index) + 0.66 * (k / max(1, len(names) - 1) - 0.5)
                    ax.hlines(at, drawn["low"], drawn["high"], color=look.color, linewidth=1, alpha=strength)
                    marks = {"markersize": 3.2, "markeredgewidth": 0.6, "alpha": strength}
                    ax.plot(drawn["ratio"], at, look.marker, color=look.color, **marks)
            ax.axvline(1, color="black", linewidth=0.8, zorder=0)
            across = ax.get_yaxis_transform()
            ax.hlines(np.arange(1, len(rows)) - 0.5, 0, 1, color="0.8", linewidth=0.4, transform=across)
            ax.set(xscale="log", title=noise_in_words(noise), ylim=(len(rows) - 0.5, -0.5))
            ax.set_xlabel("$R(T)/M$ over PF-PNE's\n\N{LEFTWARDS ARROW} less regret", fontsize=7.5)
            log_ticks(ax.xaxis)
            ax.tick_params(axis="y", length=0)
            first = ax is axes[0] or noise == "landmine"
            ax.set_yticks(range(len(rows)), rows if first else [])
        legend(figure, names, 6 if len(noises) > 1 else 3, lines=False)

    width = PAGE if len(noises) > 1 else 0.75 * PAGE
    return render(
        "forest", caption, table.drop(columns="where"), (width, 1.2 + 0.42 * max(len(places), len(own))), draw
    )


def exponents(table: pd.DataFrame, study) -> Exhibit:
    """Local exponents of regret against T, one panel per objective: see pfpne.paper.exhibits.table1.exponents."""
    names, objectives = in_order(table["algorithm"]), list(table["objective"].unique())
    caption = (
        "How fast regret grows: the local exponent of T, which is log2 of R(T)/M at T over that at T/2. M = "
        f"{study.n_clients} clients, {noise_in_words(study.regimes[0].noise)}, random cells, means over n = "
        f"{table['n'].max()} runs of each length T, with bootstrap 95 % intervals. Marks of one T stand side by side. "
        "Each panel has its own vertical axis. At 1 (solid line) regret grows like T. The paper's (d+1)/(d+2) is 1/2 "
        "for d = 0 (dotted line, if it is in sight)."
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(objectives), squeeze=False)[0]
        for ax, objective in zip(axes, objectives, strict=True):
            mine = table[table["objective"] == objective]
            beside = mine["algorithm"].map(names.index) / max(1, len(names) - 1) - 0.5
            mine = mine.assign(at=mine["T"] * 2 ** (0.6 * beside))  # within 0.6 of the way from one T to the next
            sns.lineplot(mine, x="at", y="exponent", ax=ax, **(line_looks(names) | {"linewidth": 0.5}))
            colors = [LOOKS[name].color for name in mine["algorithm"]]
            ax.vlines(mine["at"], mine["low"], mine["high"], colors=colors, linewidth=0.8)
            for at, dots in ((1, "-"), (0.5, ":")):
                ax.axhline(at, color="black", linewidth=0.7, linestyle=dots, zorder=0)
            low, high = mine["low"].min(), mine["high"].max()
            ax.set(xscale="log", xlabel="$T$", ylabel="exponent of $T$", title=TITLES[objective])
            ax.set_ylim(*(low, high) + 0.04 * (high - low) * np.array([-1, 1]) if low < high else (None, None))
            ax.set_xticks(mine["T"].unique(), [in_thousands(T) for T in mine["T"].unique()])
            ax.minorticks_off()
        legend(figure, names, columns=6)

    return render("table1_exponents", caption, table, (PAGE, 3.4), draw)


def specification(table: pd.DataFrame, study) -> Exhibit:
    """The specification curve, one column per objective. table: see pfpne.paper.exhibits.specification.readings.

    Above, PF-PNE's regret over the least of its rivals' in every reading, in order, coloured by noise. In the middle,
    how often PF-PNE is first for each value of each choice. Below, the share of readings in which each claim is so.
    """
    held, objectives = right(table), list(table["objective"].unique())
    (first, (ours, rivals)), *_ = COMPARISONS.items()
    ratio = table[ours] / table[list(rivals)].min(axis=1)
    values = [(name, value) for name in CHOICES for value in table[name].unique()]
    noises = list(table["noise"].unique())
    colors = dict(
        zip(noises, [LOOKS[name].color for name in ("fed-pne", "pf-pne", "pe", "fn-ucb", "fed1-ucb")], strict=False)
    )
    counts = ", ".join(f"{(table['objective'] == f).sum()} on {title(f)}" for f in objectives)
    caption = (
        f"The main comparison under every combination of choices: {counts} readings. Delta and the cut phase are"
        f" PF-PNE's; c is its own, Fed-PNE's and PE's. M = {study.n_clients} clients, means of n = {study.n_runs} runs,"
        " no test. Above: PF-PNE's regret over the least of the other four's, one point per reading, in order,"
        " coloured by noise; below the line PF-PNE is first. Middle: the share of readings with this choice in which"
        " PF-PNE is first. Below: the share of readings in which each statement is so."
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots(3, len(objectives), sharey="row", squeeze=False, height_ratios=(1.3, 3.0, 1.2))
        for (above, middle, below), objective in zip(axes.T, objectives, strict=True):
            mine = ratio[table["objective"] == objective].sort_values()
            of, wins = table.loc[mine.index], held.loc[mine.index]
            rank = np.arange(len(mine))
            for noise in noises:
                here = (of["noise"] == noise).to_numpy()
                dots = {"markersize": 1.6, "markeredgewidth": 0, "label": noise_in_words(noise)}
                above.plot(rank[here], mine[here], "o", color=colors[noise], **dots)
            above.axhline(1, color="black", linewidth=0.7)
            above.set(
                yscale="log", xlim=(0, len(mine)), xticks=[], title=TITLES[objective], xlabel="readings, in order"
            )
            log_ticks(above.yaxis)
            every = wins[first].mean()
            middle.axvline(every, color="0.6", linewidth=0.8)
            for row, (name, value) in enumerate(values):
                who = of[name] == value
                if who.any():
                    share = wins.loc[who, first].mean()
                    middle.hlines(row, every, share, color="0.75", linewidth=1)
                    middle.plot(
                        share, row, "o", color=colors.get(value, "0.25") if name == "noise" else "0.25", markersize=3.5
                    )
                    middle.annotate(
                        f"{share:.0%}", (1.02, row), xycoords=("axes fraction", "data"), fontsize=6.5, va="center"
                    )
            for row in range(1, len(values)):
                if values[row][0] != values[row - 1][0]:
                    middle.axhline(row - 0.5, color="0.85", linewidth=0.5)
            middle.set(xlim=(0, 1), ylim=(len(values) - 0.5, -0.5), xlabel="share in which PF-PNE is first")
            middle.tick_params(axis="y", length=0)
            shares = wins.mean()
            below.barh(range(len(shares)), shares, color="0.6", height=0.7)
            for row, share in enumerate(shares):
                below.annotate(f"{share:.0%}", (share + 0.02, row), va="center", fontsize=6.5)
            below.set(xlim=(0, 1.18), ylim=(len(shares) - 0.5, -0.5), xlabel="share in which it is so")
            for ax in (middle, below):
                ax.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
        axes[0, 0].set_ylabel("PF-PNE / best other")
        axes[1, 0].set_yticks(range(len(values)), [_choice(*pair) for pair in values], fontsize=6.5)
        names = [textwrap.fill(name.replace("PF-PNE has less", "Less"), 44) for name in COMPARISONS]
        axes[2, 0].set_yticks(range(len(names)), names, fontsize=6)
        handles = [
            Line2D([], [], color=colors[n], marker="o", linestyle="none", label=noise_in_words(n)) for n in noises
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))

    return render("specification_curve", caption, pd.concat([table, held], axis=1), (PAGE, 6.8), draw)


def _choice(name: str, value) -> str:
    """A choice of the specification curve in words."""
    words = {"Delta": Delta_in_words, "T": "{:,}".format, "clients": lambda x: x if x == "alike" else f"shift {x:g}"}
    return noise_in_words(value) if name == "noise" else f"{name}: {words.get(name, str)(value)}"
