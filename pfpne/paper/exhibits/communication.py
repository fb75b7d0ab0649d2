"""The numbers that the server and the clients send each other, against t."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from pfpne.paper.exhibits.panels import (
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
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, in_order, legend, line_looks, linear_ticks, our_style
from pfpne.paper.show.style import LOOKS, algorithm_in_words, label, listed, noise_in_words, rounded

LAST_ROUND_LABEL = "PF-PNE's last round (bold run)"
MAX_ROUNDS_PLOTTED = 200  # per run; an algorithm that communicates at every step has T rounds


def draw(results: list[Results], p: Parameters) -> Exhibit:
    """Draw the numbers sent so far against t, on one objective or on several side by side.

    Parameters
    ----------
    results : list of Results
        One for each objective.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and as CSV one row per drawn round: see `communication_steps`.
    """
    steps = [communication_steps(result.communication) for result in results]
    return draw_steps(steps, [result.experiment for result in results], p)


@our_style()
def draw_steps(steps: list[pd.DataFrame], experiments: list[Experiment], p: Parameters) -> Exhibit:
    """Draw tables of `communication_steps`, one panel per experiment."""
    experiment = experiments[0]
    stem = f"communication_{name_of_file(experiment, p, usual_noise='bernoulli')}"
    subject = f" on {problem_in_words(experiment)}"
    if len(experiments) > 1:
        stem = f"panel_communication{'_printed' * bool(p.reading_in_name(experiment))}"
        subject = f", {noise_in_words(experiment.noise)}"
    table = pd.concat(steps, ignore_index=True)
    silent = ", ".join(label(name) for name in experiment.algorithms if name not in set(table["algorithm"]))
    caption = (
        f"Communication{subject}: {scale_in_words(p, p.n_runs)}. Lines are the numbers sent so far, up and down. "
        "A broadcast "
        "counts once for each client. A mark is a round of communication. Bold lines are the first run, thin lines "
        f"the others.{f' Nothing is sent by {silent}.' if silent else ''}"
    )
    more = [Line2D([], [], color="0.5", linewidth=0.6, label="thin: other runs")] if p.n_runs > 1 else []
    last_round = Line2D([], [], color=LOOKS["pf-pne"].color, linewidth=0.8, linestyle=":", label=LAST_ROUND_LABEL)

    figure, axes = panel_figure(1, len(experiments))
    marked = [draw_communication(ax, steps_of_one, p.horizon) for ax, steps_of_one in zip(axes[0], steps, strict=True)]
    if any(marked):
        more.append(last_round)
        caption += f" The dotted line is {LAST_ROUND_LABEL}: it differs from run to run."
    label_panels(axes, [experiments], ["numbers sent so far"])
    legend(figure, in_order(table["algorithm"]), legend_columns(axes.shape[1]), more=more)
    return figure_exhibit(figure, stem, caption, table)


def communication_steps(communication: pd.DataFrame) -> pd.DataFrame:
    """The numbers sent so far, both ways (column cumulative), after each round of each run.

    communication: a table Results.communication. If a run has more than MAX_ROUNDS_PLOTTED rounds, so many are kept,
    evenly spaced on a logarithmic axis, with the first and the last round.
    """
    table = communication.drop(columns="bytes").assign(cumulative=communication["up"] + communication["down"])
    kept = []
    for _, rounds in table.groupby(["objective", "noise", "algorithm", "run"], sort=False):
        steps, n = rounds.assign(cumulative=rounds["cumulative"].cumsum()), len(rounds)
        evenly = np.unique(np.geomspace(1, n, MAX_ROUNDS_PLOTTED).round().astype(int)) - 1
        kept.append(steps.iloc[evenly] if n > MAX_ROUNDS_PLOTTED else steps)
    return pd.concat(kept or [table], ignore_index=True)


def draw_communication(ax: Axes, steps: pd.DataFrame, horizon: int) -> bool:
    """Draw the numbers sent against t, one step per round. The first run is bold, its rounds marked, a few if many.

    Returns whether a dotted line marks PF-PNE's last round in the first run.
    """
    if steps.empty:
        return False
    names, to_the_end = in_order(steps["algorithm"]), steps.groupby(["algorithm", "run"]).tail(1).assign(t=horizon)
    looks = {"units": "run", "estimator": None, "sort": False, "drawstyle": "steps-post", **line_looks(names)}
    sns.lineplot(pd.concat([steps, to_the_end]), x="t", y="cumulative", ax=ax, **looks)
    first = np.cumsum([0, *steps.groupby("algorithm")["run"].nunique()[names]])  # lines are by algorithm and run
    for k, line in enumerate(ax.lines):
        rounds = len(line.get_xdata()) - 1
        marked = {"zorder": 3, "markevery": [*range(0, rounds, 1 + rounds // 50)]}
        line.set(**marked if k in first else {"alpha": 0.3, "linewidth": 0.6, "marker": ""})
    few_numbers = set(names) <= {"fed-pne", "pf-pne"}  # others send so much more that these would be a line at 0
    ax.set(xscale="log", yscale="linear" if few_numbers else "log")
    ax.set_xlim(right=horizon)
    if few_numbers:
        ax.set_ylim(bottom=0)
        linear_ticks(ax.yaxis, 5)
    for axis in (ax.xaxis,) if few_numbers else (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_minor_formatter(NullFormatter())
    pf_pne_steps = steps[steps["algorithm"] == "pf-pne"]
    if not few_numbers or pf_pne_steps.empty:
        return False
    last = pf_pne_steps[pf_pne_steps["run"] == pf_pne_steps["run"].min()]["t"].max()
    ax.axvline(last, color=LOOKS["pf-pne"].color, linewidth=0.8, linestyle=":")
    return True


def in_words(results: Results) -> str:
    """Say how much each algorithm sends until the horizon, and when it sends for the last time.

    Parameters
    ----------
    results : Results
        The runs that `draw` draws.

    Returns
    -------
    str
        Two sentences, which begin with the algorithm that sends least; or one, if nothing is sent.
    """
    T, n_runs = results.experiment.horizon, results.experiment.n_runs
    steps = communication_steps(results.communication)
    by_run = steps.groupby(["algorithm", "run"], as_index=False).agg(sent=("cumulative", "last"), t=("t", "last"))
    table = by_run.groupby("algorithm").agg(sent=("sent", "sum"), last=("t", "max")).sort_values("sent")
    if table.empty:
        return f"Nothing is sent in the {T:,} evaluations per client."
    sent = listed([f"{algorithm_in_words(name)} {rounded(row.sent / n_runs)}" for name, row in table.iterrows()])
    last = listed([f"that of {algorithm_in_words(name)} at t = {row['last']:,.0f}" for name, row in table.iterrows()])
    runs = "the run" if n_runs == 1 else f"any of {n_runs} runs"
    return (
        f"This is how many numbers are sent on average until T = {T:,}, up and down together: {sent}. The latest round "
        f"in {runs} is {last}."
    )


def total_communication(results: Results) -> pd.DataFrame:
    """Sum the communication up to the horizon, as means over the runs.

    Parameters
    ----------
    results : Results
        The runs of one or more algorithms on one objective.

    Returns
    -------
    pandas.DataFrame
        One row per algorithm that communicates: rounds, last_round_at (its step t), and the numbers up and down.
    """
    by_run = results.communication.groupby(["algorithm", "run"])
    table = by_run.agg(rounds=("round", "max"), last_round_at=("t", "max"), up=("up", "sum"), down=("down", "sum"))
    return table.groupby("algorithm").mean().rename(index=label)
