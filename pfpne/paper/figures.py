"""Every figure: how it looks, how it is drawn from tidy tables, how it is written.

Drawing is apart from simulating: each function takes the tables of `pfpne.paper.experiment.Results` and returns
a Drawing, already rendered as PDF, PNG and CSV. `save` writes drawings with a manifest that says how to make
them again. The same tables give the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import platform
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from pfpne.problems.landmine import SHA256, load_table
from pfpne.paper.parameters import SETTINGS, Parameters
from pfpne.paths import ROOT, write_atomically
from pfpne.algorithms import get_algorithm, make_settings, settings_of
from pfpne.paper.store import source_hash

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "pandas", "matplotlib", "scikit-learn", "PyXAB")

# --- looks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    label: str
    color: str
    linestyle: str | tuple
    marker: str


# One look an algorithm, in every figure, and the order of legends. Hues of Okabe and Ito, completed from Tol's;
# line style and marker tell them apart in grey.
LOOKS = {
    "pf-pne": Look("PF-PNE", "#D55E00", "-", "o"),
    "pf-pne+": Look("PF-PNE+", "#882255", "-", "*"),
    "fed-pne": Look("Fed-PNE", "#0072B2", "--", "s"),
    "pe": Look("PE", "#009E73", "-.", "^"),
    "hct": Look("HCT", "#000000", ":", "v"),
    "hct-pyxab": Look("HCT (PyXAB)", "#7F7F7F", (0, (4, 1, 1, 1)), "D"),
    "fed1-ucb": Look("Fed1-UCB", "#E69F00", (0, (6, 2)), ">"),
    "fn-ucb": Look("FN-UCB", "#CC79A7", (0, (3, 1, 1, 1, 1, 1)), "<"),
    "hoo": Look("HOO", "#56B4E9", (0, (1, 1)), "P"),
    "blin": Look("BLiN", "#999933", (0, (8, 2, 2, 2)), "X"),
    "centralized": Look("Centralized", "#332288", (0, (2, 1)), "h"),
}

TITLES = {
    "garland": "Garland (1-D)",
    "doublesine": "DoubleSine (1-D)",
    "himmelblau": "Himmelblau (2-D)",
    "ackley": "Ackley (2-D)",
    "rastrigin": "Rastrigin (10-D)",
    "landmine": "Landmine",
}

COLUMN = 3.4  # inches: a column of a two-column page
PAGE = 7.0  # inches: its full width
STYLE = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "savefig.dpi": 200,
}


@contextmanager
def _style():
    """Our looks and matplotlib's defaults for the rest, whatever the user's own configuration says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def noise_in_words(noise: float | str) -> str:
    if noise == "bernoulli":
        return "Bernoulli rewards"
    return f"noise \N{PLUS-MINUS SIGN}{noise:g}" if noise else "no noise"


def noise_in_name(noise: float | str) -> str:
    return noise if noise == "bernoulli" else f"noise{noise:g}"


# --- a figure, rendered -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawing:
    """A figure as files: name without extension, PDF and PNG bytes, the table drawn (CSV bytes), a caption."""

    stem: str
    caption: str
    pdf: bytes
    png: bytes
    csv: bytes

    def _repr_mimebundle_(self, include=None, exclude=None):
        # The last entry lets `python -m pfpne.paper figures` find the figures of an executed notebook.
        return {"image/png": self.png, "text/plain": self.caption, MIME: self.stem}, {"image/png": {"width": 640}}


MIME = "application/vnd.pfpne.figure+json"


def _render(figure: Figure, stem: str, caption: str, table: pd.DataFrame) -> Drawing:
    pdf, png = io.BytesIO(), io.BytesIO()
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    figure.savefig(png, format="png", metadata={"Software": None})
    csv = table.to_csv(index=False, lineterminator="\n", float_format="%.10g")
    return Drawing(stem, caption, pdf.getvalue(), png.getvalue(), csv.encode())


def _legend(figure: Figure, algorithms: Sequence[str], columns: int, lines: bool = True, more: tuple = ()) -> None:
    """One legend under the axes, where it hides nothing; of markers alone without lines. more: handles after them."""
    handles = [
        Line2D([], [], color=k.color, linestyle=k.linestyle if lines else "none", marker=k.marker, label=k.label)
        for k in (LOOKS[name] for name in LOOKS if name in algorithms)
    ]
    handles += more
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(1, min(columns, len(handles))),
        columnspacing=1.2,
        handlelength=2.6 if lines else 1.0,
        handletextpad=0.5,
    )


def _in_words(p: Parameters, runs: int) -> str:
    count = f"n = {runs} run" if runs == 1 else f"n = {runs} runs"
    return f"M = {p.n_clients} clients, T = {p.horizon:,} evaluations a client, {count}"


# --- regret -----------------------------------------------------------------------------------------


def regret_curves(regret: pd.DataFrame, points: int) -> pd.DataFrame:
    """Mean and standard deviation over runs of the average cumulative regret R(t)/M.

    regret: the table Results.regret. At most `points` steps t a curve, the last one among them.
    """
    steps = np.sort(regret["t"].unique())
    stride = -(-len(steps) // points)
    drawn = regret[regret["t"].isin(steps[::-1][::stride])]
    groups = drawn.groupby(["objective", "noise", "algorithm", "t"], sort=False)["regret"]
    table = groups.agg(runs="count", mean="mean", std="std").reset_index()
    return table.fillna({"std": 0.0})  # of one run


def draw_regret(ax: Axes, curves: pd.DataFrame) -> None:
    """Draw the curves of one objective and noise: mean lines, bands of one standard deviation."""
    names = [name for name in LOOKS if name in set(curves["algorithm"])]
    for k, name in enumerate(names):
        curve, look = curves[curves["algorithm"] == name], LOOKS[name]
        t, mean, std = (curve[column].to_numpy() for column in ("t", "mean", "std"))
        ax.fill_between(t, mean - std, mean + std, color=look.color, alpha=0.12, linewidth=0)
        for edge in (mean - std, mean + std):  # tells bands apart where they overlap
            ax.plot(t, edge, color=look.color, alpha=0.5, linewidth=0.3)
        every = max(1, len(t) // 6)
        ax.plot(
            t,
            mean,
            color=look.color,
            linestyle=look.linestyle,
            marker=look.marker,
            markevery=(k * every // len(names), every),  # staggered, so that no marker hides another
            clip_on=False,  # a marker at the border is whole
        )
    ax.set_xlim(0, curves["t"].max())
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(_thousands))
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(_thousands))


def _thousands(x: float, _=None) -> str:
    return f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}"


T_LABEL = "evaluations per client $t$"
REGRET_LABEL = "average cumulative regret $R(t)/M$"
BANDS = "Lines are means over the runs, bands \N{PLUS-MINUS SIGN}1 standard deviation over them."


def regret(results, p: Parameters) -> Drawing:
    """The average cumulative regret of each algorithm on one objective, under one noise."""
    curves = regret_curves(results.regret, points=250)
    objective, noise = curves["objective"].iloc[0], curves["noise"].iloc[0]
    where = f"{TITLES[objective]}, {noise_in_words(noise)}"
    stem = "regret_landmine" if objective == "landmine" else f"regret_{objective}_{noise_in_name(noise)}"
    caption = f"Average cumulative regret on {where}: {_in_words(p, curves['runs'].max())}. {BANDS}"
    with _style():
        figure = Figure(figsize=(COLUMN, 2.7))
        ax = figure.add_subplot()
        draw_regret(ax, curves)
        ax.set(title=where, xlabel=T_LABEL, ylabel=REGRET_LABEL)
        _legend(figure, p.algorithms, columns=3)
        return _render(figure, stem, caption, curves)


def final_regret(results) -> pd.DataFrame:
    """The average cumulative regret at the horizon, over the runs: mean and standard deviation, best first."""
    at_end = results.regret[results.regret["t"] == results.experiment.horizon]
    table = at_end.groupby("algorithm")["regret"].agg(runs="count", mean="mean", std="std").sort_values("mean")
    return table.rename(index={name: look.label for name, look in LOOKS.items()})


# --- communication ----------------------------------------------------------------------------------


MOST_ROUNDS = 200  # drawn of one run; an algorithm that communicates at every step has as many as steps


def communication_steps(communication: pd.DataFrame) -> pd.DataFrame:
    """The numbers carried so far, both ways, after each round of each run.

    Of a run with more than MOST_ROUNDS, that many, evenly spaced on a logarithmic axis, the first and last among them.
    """
    runs = communication.groupby(["objective", "noise", "algorithm", "run"], sort=False)
    table = communication.assign(cumulative=communication["up"] + communication["down"])
    table["cumulative"] = table.groupby(["objective", "noise", "algorithm", "run"])["cumulative"].cumsum()
    kept = [rounds.index[_spread(len(rounds))] for _, rounds in runs]
    columns = ["objective", "noise", "algorithm", "run", "round", "t", "up", "down", "cumulative"]
    return table.loc[np.concatenate(kept) if kept else [], columns].reset_index(drop=True)


def _spread(n: int) -> np.ndarray:
    """Up to MOST_ROUNDS of the positions 0..n-1, n >= 1: all of them if they are few enough."""
    if n <= MOST_ROUNDS:
        return np.arange(n)
    return np.unique(np.geomspace(1, n, MOST_ROUNDS).round().astype(int)) - 1


def draw_communication(ax: Axes, steps: pd.DataFrame, horizon: int) -> None:
    """Draw the numbers carried against t: a step at each round. The first run is bold, its rounds marked.

    Where there are too many rounds to tell apart, a few are marked.
    """
    for name in [name for name in LOOKS if name in set(steps["algorithm"])]:
        look, mine = LOOKS[name], steps[steps["algorithm"] == name]
        for run, rounds in mine.groupby("run"):
            first = run == mine["run"].min()
            t = np.append(rounds["t"], horizon)
            total = np.append(rounds["cumulative"], rounds["cumulative"].iloc[-1])
            looks = {"color": look.color, "linestyle": look.linestyle, "drawstyle": "steps-post"}
            if first:
                marked = list(range(0, len(rounds), 1 + len(rounds) // 50))
                ax.plot(t, total, marker=look.marker, markevery=marked, zorder=3, **looks)
            else:
                ax.plot(t, total, alpha=0.3, linewidth=0.6, **looks)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(right=horizon)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_minor_formatter(NullFormatter())


NUMBERS_LABEL = "numbers carried so far"
STEPS = (
    "Numbers carried up and down, a broadcast counted once for each client; a mark is a round of communication. "
    "The bold lines are the first run, the thin ones the others."
)


def _other_runs(p: Parameters) -> tuple:
    """The legend's entry for the thin lines, if there are any."""
    return (Line2D([], [], color="0.5", linewidth=0.6, label="other runs"),) if p.n_runs > 1 else ()


def communication(results, p: Parameters) -> Drawing:
    """The numbers carried between server and clients against t, on one objective."""
    steps = communication_steps(results.communication)
    where = f"{TITLES[p.objective]}, {noise_in_words(p.noise)}"
    usual = p.noise == "bernoulli" or p.objective == "landmine"
    name = p.objective if usual else f"{p.objective}_{noise_in_name(p.noise)}"
    talking = [name for name in p.algorithms if name in set(steps["algorithm"])]
    silent = ", ".join(LOOKS[name].label for name in p.algorithms if name not in talking)
    caption = f"Communication on {where}: {_in_words(p, p.n_runs)}. {STEPS}"
    if silent:
        caption += f" Nothing is sent by {silent}."
    with _style():
        figure = Figure(figsize=(COLUMN, 2.6))
        ax = figure.add_subplot()
        draw_communication(ax, steps, p.horizon)
        ax.set(title=where, xlabel=T_LABEL, ylabel=NUMBERS_LABEL)
        _legend(figure, talking, columns=3, more=_other_runs(p))
        return _render(figure, f"communication_{name}", caption, steps)


def total_communication(results) -> pd.DataFrame:
    """Rounds, step of the last round, and numbers carried by the horizon: means over the runs."""
    by_run = results.communication.groupby(["algorithm", "run"])
    table = by_run.agg(rounds=("round", "max"), last_round_at=("t", "max"), up=("up", "sum"), down=("down", "sum"))
    return table.groupby("algorithm").mean().rename(index={name: look.label for name, look in LOOKS.items()})


# --- landmine ---------------------------------------------------------------------------------------


def surfaces(results, p: Parameters) -> Drawing:
    """What the clients of the first run tune: the AUC of each field in use, as a function of C and gamma.

    With the grid's best point, and the point that each client would deploy at the horizon, by the first algorithm.
    """
    algorithm, problem = p.algorithms[0], results.experiment.problem(run=0)
    look, tuned = LOOKS[algorithm], results.runs[algorithm, 0].best  # (M, 2)
    grid = math.isqrt(len(problem.candidates))
    auc = problem.values(problem.candidates)
    reached = np.array([problem.client_values(m, tuned[m : m + 1])[0] for m in range(p.n_clients)])
    fields = sorted(set(problem.fields.tolist()))
    table = pd.DataFrame(
        {
            "client": np.arange(1, p.n_clients + 1),
            "field": problem.fields + 1,
            "C": tuned[:, 0],
            "gamma": tuned[:, 1],
            "auc": reached,
            "best_auc": problem.optimum,
        }
    )
    (C_low, C_high), (gamma_low, gamma_high) = problem.domain
    columns = min(5, len(fields))
    rows = -(-len(fields) // columns)
    caption = (
        f"AUC of the support vector machine of each landmine field against C and gamma, in the first run: "
        f"M = {p.n_clients} clients, T = {p.horizon:,} evaluations a client. "
        f"White stars: the best point of the grid. Marks: the point that {look.label} would deploy at T, "
        "one a client. Titles: the AUC at the marks (their mean, if clients share a field), and the best of the grid."
    )
    with _style():
        figure = Figure(figsize=(PAGE, 0.45 + 1.35 * rows))
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for ax in axes.flat[len(fields) :]:
            ax.set_axis_off()
        for ax, field in zip(axes.flat, fields, strict=False):
            clients = np.flatnonzero(problem.fields == field)
            surface = auc[clients[0]].reshape(grid, grid).T  # rows are gamma
            best = problem.candidates[np.argmax(auc[clients[0]])]
            image = ax.imshow(
                surface,
                origin="lower",
                extent=(C_low, C_high, gamma_low, gamma_high),
                aspect="auto",
                cmap="cividis",
                vmin=auc.min(),
                vmax=auc.max(),
                interpolation="none",  # stored in the PDF as it is, 127 x 127
            )
            mark = {"linestyle": "none", "clip_on": False, "zorder": 3}
            star = {"marker": "*", "markersize": 7, "color": "white", "markeredgecolor": "black"}
            disc = {"marker": look.marker, "markersize": 4, "color": look.color, "markeredgecolor": "white"}
            ax.plot(*best, **mark, **star, markeredgewidth=0.5)
            ax.plot(*tuned[clients].T, **mark, **disc, markeredgewidth=0.6)
            title = f"field {field + 1}: {reached[clients].mean():.3f} of {problem.optimum[clients[0]]:.3f}"
            ax.set_title(title, fontsize=7.5)
        figure.colorbar(image, ax=axes, label="AUC on the test half", shrink=0.8, pad=0.01)
        figure.supxlabel("regularization $C$", fontsize=8.5)
        figure.supylabel(r"kernel parameter $\gamma$", fontsize=8.5)
        return _render(figure, "landmine_surfaces", caption, table)


# --- panels and times -------------------------------------------------------------------------------


def regret_panel(rows: list[list], name: str, p: Parameters) -> Drawing:
    """Regret on several objectives, side by side: a row of results a noise regime, None for an empty place."""
    cells = [[results and regret_curves(results.regret, points=60) for results in row] for row in rows]
    curves = pd.concat([cell for row in cells for cell in row if cell is not None], ignore_index=True)
    noises = [row[0]["noise"].iloc[0] for row in cells]
    regimes = ", ".join(noise_in_words(noise) for noise in noises)
    landmine = ", landmine without" if "landmine" in set(curves["objective"]) else ""
    caption = f"Average cumulative regret, {regimes}{landmine}: {_in_words(p, curves['runs'].max())}. {BANDS}"

    def draw(ax, cell):
        draw_regret(ax, cell)
        objective, noise = cell["objective"].iloc[0], cell["noise"].iloc[0]
        ax.set_title(f"Landmine, {noise_in_words(noise)}" if objective == "landmine" else TITLES[objective])

    labels = [f"{noise_in_words(noise)}\nregret $R(t)/M$" for noise in noises]
    return _panel(cells, draw, labels, f"panel_{name}", caption, curves, p.algorithms)


def communication_panel(results: list, p: Parameters) -> Drawing:
    """Communication on several objectives, side by side."""
    cells = [[communication_steps(one.communication) for one in results]]
    table = pd.concat(cells[0], ignore_index=True)
    caption = f"Communication, {noise_in_words(table['noise'].iloc[0])}: {_in_words(p, p.n_runs)}. {STEPS}"

    def draw(ax, cell):
        draw_communication(ax, cell, p.horizon)
        ax.set_title(TITLES[cell["objective"].iloc[0]])

    algorithms, name = tuple(table["algorithm"].unique()), "panel_communication"
    return _panel(cells, draw, [NUMBERS_LABEL], name, caption, table, algorithms, _other_runs(p))


def _panel(cells, draw, ylabels: list[str], stem: str, caption: str, table, algorithms, more: tuple = ()) -> Drawing:
    """Axes side by side: cells (rows of tables or None), each drawn by draw(ax, cell); a label for each row."""
    columns = len(cells[0])
    with _style():
        figure = Figure(figsize=(PAGE if columns > 2 else 0.62 * PAGE, 0.5 + 1.5 * len(cells)))
        axes = figure.subplots(len(cells), columns, squeeze=False)
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                if cell is None:
                    axes[i, j].set_axis_off()
                    continue
                draw(axes[i, j], cell)
                if i == len(cells) - 1 or cells[i + 1][j] is None:  # nothing below
                    axes[i, j].set_xlabel(T_LABEL)
            axes[i, 0].set_ylabel(ylabels[i])
        _legend(figure, algorithms, columns=7 if columns > 2 else 4, more=more)
        return _render(figure, stem, caption, table)


def times(results: list, p: Parameters) -> Drawing:
    """The measured wall time of one run of each algorithm on each objective. Not the same bytes on another day."""
    seconds = pd.concat([one.seconds for one in results])
    table = seconds.groupby(["objective", "algorithm"], sort=False)["seconds"].agg(["count", "median", "min", "max"])
    table = table.reset_index().rename(columns={"count": "runs"})
    objectives = [name for name in TITLES if name in set(table["objective"])]
    names = [name for name in LOOKS if name in set(table["algorithm"])]
    caption = (
        f"Wall time of one run, {_in_words(p, table['runs'].max())}: median, with the range over the runs. "
        "As implemented here, several runs at a time on one machine; the first ones may wait for the compiler."
    )
    with _style():
        figure = Figure(figsize=(COLUMN, 2.8))
        ax = figure.add_subplot()
        for k, name in enumerate(names):
            mine, look = table[table["algorithm"] == name].set_index("objective").loc[objectives], LOOKS[name]
            x = np.arange(len(objectives)) + (k - (len(names) - 1) / 2) * 0.8 / len(names)
            spread = [mine["median"] - mine["min"], mine["max"] - mine["median"]]
            looks = {"color": look.color, "marker": look.marker, "linestyle": "none"}
            ax.errorbar(x, mine["median"], yerr=spread, elinewidth=0.7, **looks)
        ax.set_yscale("log")
        ax.set_xticks(range(len(objectives)), [TITLES[name].split(" ")[0] for name in objectives], rotation=25)
        ax.set_ylabel("seconds a run")
        _legend(figure, names, columns=3, lines=False)
        return _render(figure, "times", caption, table)


# --- writing ----------------------------------------------------------------------------------------


def save(p: Parameters, *drawings: Drawing) -> list[Path]:
    """Write each drawing as PDF, PNG, CSV and manifest (JSON) into p.figures_dir; return the PDFs' paths.

    Called last in a notebook: one that fails before leaves the folder as it was.
    """
    for drawing in drawings:
        files = {f"{drawing.stem}.{kind}": getattr(drawing, kind) for kind in ("pdf", "png", "csv")}
        text = json.dumps(manifest(p, drawing, files), indent=2, ensure_ascii=False) + "\n"
        for name, content in {**files, f"{drawing.stem}.json": text.encode()}.items():
            write_atomically(p.figures_dir / name, content)
    return [_shown(p.figures_dir / f"{drawing.stem}.pdf") for drawing in drawings]


def manifest(p: Parameters, drawing: Drawing, files: dict[str, bytes]) -> dict:
    """How to make the drawing again, and what came out: nothing of the machine, the time or the folder in it."""
    return {
        "figure": drawing.stem,
        "caption": drawing.caption,
        "notebook": f"notebooks/{p.notebook}.ipynb",
        "command": p.command,
        "parameters": {
            "profile": p.profile,
            "objective": p.objective,
            "algorithms": list(p.algorithms),
            "n_clients": p.n_clients,
            "horizon": p.horizon,
            "n_runs": p.n_runs,
            "noise": p.noise,
            "shift": p.shift,
            "seed": p.seed,
            **{name: p.settings.get(name) for name in SETTINGS},
        },
        "settings": {name: settings_used(name, p.settings, p.n_clients) for name in p.algorithms},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "source": {
            "simulation": source_hash(),
            "drawing": source_hash(),
        },
        "dataset": dataset_hash() if p.objective in (None, "landmine") else None,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }


def settings_used(algorithm: str, given: dict, M: int) -> dict:
    """The algorithm's settings, its defaults where none was given. Delta may be "true": the problem's own."""
    taken = {name: value for name, value in given.items() if name in settings_of(algorithm)}
    numbers = {name: value for name, value in taken.items() if value != "true"}
    settings = {**dataclasses.asdict(make_settings(algorithm, numbers)), **taken}
    return {name: 1 / M if name == "delta" and value is None else value for name, value in settings.items()}


def dataset_hash() -> dict[str, str]:
    return {"LandmineData.mat": SHA256, "data/landmine_auc.npz": load_table().sha256}


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
