"""The common parts of figures of curves: the grid of axes, their titles, the names of files, the scale in words."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.show.export import as_markdown, settings_used
from pfpne.paper.show.plot import new_figure
from pfpne.paper.show.style import COLUMN, PAGE, TITLES, label, noise_in_name, noise_in_words

ONE_RUN = "It is one run, which says nothing about chance."


def scale_in_words(p: Parameters, n_runs: int) -> str:
    """The clients, the horizon and the runs of a figure, in words."""
    runs = f"{n_runs} {'run' if n_runs == 1 else 'runs'}"
    return f"M = {p.n_clients} clients, T = {p.horizon:,} evaluations per client, n = {runs}"


def settings_in_words(p: Parameters) -> str:
    """Describe the problem on which the algorithms are compared, with their settings as a table in Markdown.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    str
        A sentence, and a table with one row per algorithm.
    """
    experiment = p.experiment()
    shift = "" if experiment.objective == "landmine" else f" shift {experiment.shift:g},"
    scale = scale_in_words(p, p.n_runs)
    words = f"{problem_in_words(experiment)}: {scale}, {experiment.cells} cells,{shift} seed {p.seed}."
    rows = []
    for name in p.algorithms:
        used = settings_used(name, p.settings, p.n_clients).items()
        values = (f"{key} = {x:g}" if isinstance(x, float) else f"{key} = {x}" for key, x in used if x is not None)
        rows.append((label(name), ", ".join(values)))
    return f"{words}\n\n{as_markdown(pd.DataFrame(rows, columns=['Algorithm', 'Settings']))}"


def problem_in_words(experiment: Experiment) -> str:
    """The objective and the noise of an experiment."""
    return f"{TITLES[experiment.objective]}, {noise_in_words(experiment.noise)}"


def name_of_file(experiment: Experiment, p: Parameters, usual_noise: str | None = None) -> str:
    """The experiment in the name of a file: its objective, with its reading, or with its noise.

    The noise is left out if the objective has only one, or if it is the usual one.
    """
    if mark := p.reading_in_name(experiment):
        return f"{experiment.objective}_{mark}"
    plain = experiment.objective == "landmine" or experiment.noise == usual_noise
    return experiment.objective if plain else f"{experiment.objective}_{noise_in_name(experiment.noise)}"


def panel_figure(rows: int, columns: int) -> tuple[Figure, np.ndarray]:
    """A figure of curves side by side, and its axes (rows, columns); a single one is as wide as a column of a page."""
    if rows == columns == 1:
        return new_figure((COLUMN, 2.7))
    return new_figure((PAGE, 0.5 + 1.6 * rows if columns > 2 else 0.3 + 2.1 * rows), rows, columns)


def label_panels(axes: np.ndarray, experiments: list[list[Experiment | None]], ylabels: list[str]) -> None:
    """Give each axes (rows, columns) its title and the labels of its own axis; None leaves a place empty.

    ylabels: one for each row, shown on the left. Where there is room, a title names the noise, and has a letter.
    """
    wide = axes.shape[1] <= 2
    for k, ((i, j), ax) in enumerate(np.ndenumerate(axes)):
        experiment = experiments[i][j]
        if experiment is None:
            ax.set_axis_off()
            continue
        ax.set(xlabel="evaluations per client $t$", ylabel="" if j else ylabels[i])
        letter = f"({'abcd'[k]}) " if wide and axes.size > 1 else ""
        with_noise = wide or experiment.objective == "landmine"
        ax.set_title(letter + (problem_in_words(experiment) if with_noise else TITLES[experiment.objective]))


def legend_columns(columns: int) -> int:
    """The number of columns in the legend of a figure, from its number of panels side by side."""
    return 7 if columns > 2 else 3
