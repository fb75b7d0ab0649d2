"""Every figure, drawn by seaborn from the tidy tables of `pfpne.paper.experiment.Results`.

Drawing is apart from simulating: each function returns an Exhibit, rendered as PDF and PNG, with the CSV that it was
drawn from. The same tables give the same bytes.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Iterable
from contextlib import contextmanager

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from pfpne.paper.exhibits import Exhibit, save  # noqa: F401  (notebooks say figures.save)
from pfpne.paper.looks import COLUMN, LOOKS, PAGE, STYLE, TITLES, label, noise_in_name, noise_in_words, title
from pfpne.paper.parameters import Parameters

# --- what all figures share -------------------------------------------------------------------------


@contextmanager
def style():
    """Our looks and matplotlib's defaults for the rest, whatever the user's own configuration says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def render(stem: str, caption: str, table: pd.DataFrame, draw: Callable[[], Figure], by: str = __name__) -> Exhibit:
    """What draw() returns, in our style, as files."""
    pdf, png = io.BytesIO(), io.BytesIO()
    with style():
        figure = draw()
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
        figure.savefig(png, format="png", metadata={"Software": None})
    csv = table.to_csv(index=False, lineterminator="\n", float_format="%.10g").encode()
    files = {f"{stem}.pdf": pdf.getvalue(), f"{stem}.png": png.getvalue(), f"{stem}.csv": csv}
    return Exhibit(stem, caption, files, {"image/png": png.getvalue()}, by)


def _side_by_side(
    stem: str, caption: str, table: pd.DataFrame, rows: list[list], draw: Callable, ylabels: list[str], more: tuple = ()
) -> Exhibit:
    """Axes side by side, a label for each row: one for each (experiment, data) of rows, by draw(ax, data), or None."""
    columns, alone = len(rows[0]), len(rows) == len(rows[0]) == 1
    names = _in_order(table["algorithm"])

    def panel() -> Figure:
        height = 0.5 + 1.5 * len(rows)
        figure = Figure(figsize=(COLUMN, 2.7) if alone else (PAGE if columns > 2 else 0.62 * PAGE, height))
        axes = figure.subplots(len(rows), columns, squeeze=False)
        for i, j in np.ndindex(axes.shape):
            if rows[i][j] is None:
                axes[i, j].set_axis_off()
                continue
            of, data = rows[i][j]
            draw(axes[i, j], data)
            nothing_below = i == len(rows) - 1 or rows[i + 1][j] is None
            axes[i, j].set(xlabel="evaluations per client $t$" if nothing_below else "", ylabel="" if j else ylabels[i])
            axes[i, j].set_title(_where(of) if alone or of.objective == "landmine" else TITLES[of.objective])
        _legend(figure, names, 7 if columns > 2 else 3 if alone else 4, more=more)
        return figure

    return render(stem, caption, table, panel)


def _legend(figure: Figure, names: list[str], columns: int, lines: bool = True, more: tuple = ()) -> None:
    """One legend under the axes, where it hides nothing; of markers alone without lines. more: handles after them."""
    handles = []
    for look in (LOOKS[name] for name in names):
        style = "none" if not lines else (0, look.dashes) if look.dashes else "-"
        handles.append(Line2D([], [], color=look.color, linestyle=style, marker=look.marker, label=look.label))
    figure.legend(
        handles=[*handles, *more],
        loc="outside lower center",
        ncols=max(1, min(columns, len(handles) + len(more))),
        columnspacing=1.2,
        handlelength=2.6 if lines else 1.0,
        handletextpad=0.5,
    )


def _in_order(algorithms: Iterable[str]) -> list[str]:
    """The algorithms, each once, in the order of legends."""
    present = set(algorithms)
    return [name for name in LOOKS if name in present]


def _lines(names: list[str]) -> dict:
    """How seaborn tells the lines of these algorithms apart."""
    return {
        **dict.fromkeys(("hue", "style"), "algorithm"),
        **dict.fromkeys(("hue_order", "style_order"), names),
        "palette": {name: LOOKS[name].color for name in names},
        "dashes": {name: LOOKS[name].dashes for name in names},
        "markers": {name: LOOKS[name].marker for name in names},
        **{"markeredgecolor": "auto", "markeredgewidth": 1},  # seaborn's own edge is white
        "legend": False,
    }


def _where(experiment) -> str:
    return f"{TITLES[experiment.objective]}, {noise_in_words(experiment.noise)}"


def _scale(p: Parameters, runs: int) -> str:
    """M, T and n in words."""
    count = f"n = {runs} run" if runs == 1 else f"n = {runs} runs"
    return f"M = {p.n_clients} clients, T = {p.horizon:,} evaluations a client, {count}"


# --- regret -----------------------------------------------------------------------------------------


def regret(results, p: Parameters) -> Exhibit:
    """The average cumulative regret of each algorithm on one objective, under one noise."""
    of = results.experiment
    name = "landmine" if of.objective == "landmine" else f"{of.objective}_{noise_in_name(of.noise)}"
    return _regret([[results]], f"regret_{name}", f" on {_where(of)}", p, points=250)


def regret_panel(rows: list[list], name: str, p: Parameters) -> Exhibit:
    """Regret on several objectives, side by side: a row of results a noise regime, None for an empty place."""
    regimes = ", ".join(noise_in_words(row[0].experiment.noise) for row in rows)
    landmine = any(results and results.experiment.objective == "landmine" for row in rows for results in row)
    without = ", landmine without" if landmine else ""
    return _regret(rows, f"panel_{name}", f", {regimes}{without}", p, points=60)


def _regret(rows: list[list], stem: str, what: str, p: Parameters, points: int) -> Exhibit:
    cells = [[results and (results.experiment, _thinned(results.regret, points)) for results in row] for row in rows]
    table = pd.concat([regret_curves(cell[1]) for row in cells for cell in row if cell], ignore_index=True)
    caption = (
        f"Average cumulative regret{what}: {_scale(p, table['runs'].max())}. "
        "Lines are means over the runs, bands \N{PLUS-MINUS SIGN}1 standard deviation over them."
    )
    labels = [f"{noise_in_words(row[0].experiment.noise)}\nregret $R(t)/M$" for row in rows]
    if len(rows[0]) == 1:
        labels = ["average cumulative regret $R(t)/M$"]
    return _side_by_side(stem, caption, table, cells, draw_regret, labels)


def _thinned(regret: pd.DataFrame, points: int) -> pd.DataFrame:
    """The table Results.regret at no more than `points` of its steps t, the last one among them."""
    steps = np.sort(regret["t"].unique())
    return regret[regret["t"].isin(steps[::-1][:: -(-len(steps) // points)])]


def regret_curves(regret: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over runs of the average cumulative regret R(t)/M, at each t."""
    groups = regret.groupby(["objective", "noise", "algorithm", "t"], sort=False)["regret"]
    return groups.agg(runs="count", mean="mean", std="std").reset_index().fillna({"std": 0.0})  # of one run


def draw_regret(ax: Axes, regret: pd.DataFrame) -> None:
    """Draw the runs of one objective and noise: mean lines, bands of one standard deviation."""
    names = _in_order(regret["algorithm"])
    sns.lineplot(regret, x="t", y="regret", errorbar="sd", clip_on=False, ax=ax, **_lines(names))
    every = max(1, regret["t"].nunique() // 6)
    for k, (name, line, band) in enumerate(zip(names, ax.lines, ax.collections, strict=True)):
        line.set_markevery((k * every // len(names), every))  # staggered, so that no marker hides another
        color = LOOKS[name].color
        band.set(alpha=None, facecolor=(color, 0.12), edgecolor=(color, 0.5), linewidth=0.3)  # edges tell bands apart
    ax.set_xlim(0, regret["t"].max())
    ax.set_ylim(bottom=0)
    for axis, ticks in ((ax.xaxis, 4), (ax.yaxis, 6)):
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}"))


def final_regret(results) -> pd.DataFrame:
    """The average cumulative regret at the horizon, over the runs: mean and standard deviation, best first."""
    at_end = results.regret[results.regret["t"] == results.experiment.horizon]
    table = at_end.groupby("algorithm")["regret"].agg(runs="count", mean="mean", std="std")
    return table.sort_values("mean").rename(index=label)


# --- communication ----------------------------------------------------------------------------------

MOST_ROUNDS = 200  # drawn of one run; an algorithm that communicates at every step has as many as steps


def communication(results, p: Parameters) -> Exhibit:
    """The numbers carried between server and clients against t, on one objective."""
    of = results.experiment
    usual = of.noise == "bernoulli" or of.objective == "landmine"
    name = of.objective if usual else f"{of.objective}_{noise_in_name(of.noise)}"
    return _communication([results], f"communication_{name}", f" on {_where(of)}", p)


def communication_panel(results: list, p: Parameters) -> Exhibit:
    """Communication on several objectives, side by side."""
    what = f", {noise_in_words(results[0].experiment.noise)}"
    return _communication(results, "panel_communication", what, p)


def _communication(results: list, stem: str, what: str, p: Parameters) -> Exhibit:
    cells = [(one.experiment, communication_steps(one.communication)) for one in results]
    table = pd.concat([steps for _, steps in cells], ignore_index=True)
    silent = ", ".join(label(name) for name in results[0].experiment.algorithms if name not in set(table["algorithm"]))
    caption = (
        f"Communication{what}: {_scale(p, p.n_runs)}. "
        "Numbers carried up and down, a broadcast counted once for each client; a mark is a round of communication. "
        "The bold lines are the first run, the thin ones the others."
    )
    caption += f" Nothing is sent by {silent}." if silent else ""
    others = (Line2D([], [], color="0.5", linewidth=0.6, label="other runs"),) if p.n_runs > 1 else ()
    draw = functools.partial(draw_communication, horizon=p.horizon)
    return _side_by_side(stem, caption, table, [cells], draw, ["numbers carried so far"], others)


def communication_steps(communication: pd.DataFrame) -> pd.DataFrame:
    """The numbers carried so far, both ways, after each round of each run.

    Of a run with more than MOST_ROUNDS, that many, evenly spaced on a logarithmic axis, the first and last among them.
    """
    table = communication.drop(columns="bytes").assign(cumulative=communication["up"] + communication["down"])
    steps = []
    for _, rounds in table.groupby(["objective", "noise", "algorithm", "run"], sort=False):
        n = len(rounds)
        evenly = np.unique(np.geomspace(1, n, MOST_ROUNDS).round().astype(int)) - 1
        drawn = evenly if n > MOST_ROUNDS else slice(None)
        steps.append(rounds.assign(cumulative=rounds["cumulative"].cumsum()).iloc[drawn])
    return pd.concat(steps or [table], ignore_index=True)


def draw_communication(ax: Axes, steps: pd.DataFrame, horizon: int) -> None:
    """Draw the numbers carried against t: a step at each round. The first run is bold, its rounds marked.

    Where there are too many rounds to tell apart, a few are marked.
    """
    if steps.empty:
        return
    names, to_the_end = _in_order(steps["algorithm"]), steps.groupby(["algorithm", "run"]).tail(1).assign(t=horizon)
    looks = {"units": "run", "estimator": None, "sort": False, "drawstyle": "steps-post", **_lines(names)}
    sns.lineplot(pd.concat([steps, to_the_end]), x="t", y="cumulative", ax=ax, **looks)
    runs = steps.groupby("algorithm")["run"].nunique()
    first = np.cumsum([0, *runs[names]])  # the lines are ordered by algorithm and run
    for k, line in enumerate(ax.lines):
        if k not in first:
            line.set(alpha=0.3, linewidth=0.6, marker="")
        else:
            rounds = len(line.get_xdata()) - 1
            line.set(zorder=3, markevery=list(range(0, rounds, 1 + rounds // 50)))
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(right=horizon)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_minor_formatter(NullFormatter())


def total_communication(results) -> pd.DataFrame:
    """Rounds, step of the last round, and numbers carried by the horizon: means over the runs."""
    by_run = results.communication.groupby(["algorithm", "run"])
    table = by_run.agg(rounds=("round", "max"), last_round_at=("t", "max"), up=("up", "sum"), down=("down", "sum"))
    return table.groupby("algorithm").mean().rename(index=label)


# --- landmine, and times ----------------------------------------------------------------------------


def surfaces(results, p: Parameters) -> Exhibit:
    """What the clients of the first run tune: the AUC of each field in use, as a function of C and gamma.

    With the grid's best point, and the point that each client would deploy at the horizon, by the first algorithm.
    """
    look, problem = LOOKS[p.algorithms[0]], results.experiment.problem(run=0)
    tuned = results.runs[p.algorithms[0], 0].best  # (M, 2)
    reached = np.array([problem.client_values(m, tuned[m : m + 1])[0] for m in range(p.n_clients)])
    clients = {"client": np.arange(1, p.n_clients + 1), "field": problem.fields + 1}
    table = pd.DataFrame(
        {**clients, "C": tuned[:, 0], "gamma": tuned[:, 1], "auc": reached, "best_auc": problem.optimum}
    )
    caption = (
        f"AUC of the support vector machine of each landmine field against C and gamma, in the first run: "
        f"M = {p.n_clients} clients, T = {p.horizon:,} evaluations a client. "
        f"White stars: the best point of the grid. Marks: the point that {look.label} would deploy at T, "
        "one a client. Titles: the AUC at the marks (their mean, if clients share a field), and the best of the grid."
    )

    def draw() -> Figure:
        auc, by_field = problem.values(problem.candidates), table.groupby("field")
        columns = min(5, len(by_field))
        rows = -(-len(by_field) // columns)
        figure = Figure(figsize=(PAGE, 0.45 + 1.35 * rows))
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for ax in axes.flat[len(by_field) :]:
            ax.set_axis_off()
        mark = {"linestyle": "none", "clip_on": False, "zorder": 3}
        star = {"marker": "*", "markersize": 7, "color": "white", "markeredgecolor": "black", "markeredgewidth": 0.5}
        disc = {"marker": look.marker, "markersize": 4, "color": look.color, "markeredgecolor": "white"}
        for ax, (field, mine) in zip(axes.flat, by_field, strict=False):
            surface = auc[mine.index[0]]
            image = ax.imshow(
                surface.reshape(math.isqrt(len(surface)), -1).T,  # rows are gamma
                origin="lower",
                extent=problem.domain.ravel(),
                aspect="auto",
                cmap="cividis",
                vmin=auc.min(),
                vmax=auc.max(),
                interpolation="none",  # stored in the PDF as it is, 127 x 127
            )
            ax.plot(*problem.candidates[np.argmax(surface)], **mark, **star)
            ax.plot(mine["C"], mine["gamma"], **mark, **disc, markeredgewidth=0.6)
            ax.set_title(f"field {field}: {mine['auc'].mean():.3f} of {mine['best_auc'].iloc[0]:.3f}", fontsize=7.5)
        figure.colorbar(image, ax=axes, label="AUC on the test half", shrink=0.8, pad=0.01)
        figure.supxlabel("regularization $C$", fontsize=8.5)
        figure.supylabel(r"kernel parameter $\gamma$", fontsize=8.5)
        return figure

    return render("landmine_surfaces", caption, table, draw)


def times(results: list, p: Parameters) -> Exhibit:
    """The measured wall time of one run of each algorithm on each objective. Not the same bytes on another day."""
    seconds = pd.concat([one.seconds for one in results])
    table = seconds.groupby(["objective", "algorithm"], sort=False)["seconds"].agg(["count", "median", "min", "max"])
    table = table.reset_index().rename(columns={"count": "runs"})
    objectives = [name for name in TITLES if name in set(table["objective"])]
    names = _in_order(table["algorithm"])
    caption = (
        f"Wall time of one run, {_scale(p, table['runs'].max())}: median, with the range over the runs. "
        "As implemented here, several runs at a time on one machine; the first ones may wait for the compiler."
    )

    def draw() -> Figure:
        figure = Figure(figsize=(COLUMN, 2.8))
        ax = figure.add_subplot()
        ranges = {"estimator": "median", "errorbar": ("pi", 100), "err_kws": {"linewidth": 0.7}, "linestyle": "none"}
        size = {"markersize": STYLE["lines.markersize"], "markeredgewidth": 1}
        looks = {"palette": [LOOKS[name].color for name in names], "markers": [LOOKS[name].marker for name in names]}
        order = {"order": objectives, "hue_order": names, "dodge": 0.8 - 0.8 / len(names), "legend": False}
        sns.pointplot(seconds, x="objective", y="seconds", hue="algorithm", ax=ax, **ranges, **looks, **size, **order)
        ax.set(yscale="log", xlabel="", ylabel="seconds a run")
        ax.set_xticks(range(len(objectives)), [title(name) for name in objectives], rotation=25)
        _legend(figure, names, columns=3, lines=False)
        return figure

    return render("times", caption, table, draw)
