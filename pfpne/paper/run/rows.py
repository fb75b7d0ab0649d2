"""Rows of plain numbers that a function computes from each run of some experiments, stored beside the runs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pfpne.paper.run import cache
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import run_in_order


def rows_of_runs(
    function: Callable,
    experiments: list[Experiment],
    n_jobs: int | str | None = None,
    folder: Path = RESULTS_FOLDER,
    label: str | None = None,
    arguments: Sequence[tuple] = ((),),
) -> list:
    """Return a function's rows for each run of each experiment: read if they are stored, else computed and stored.

    Parameters
    ----------
    function : callable
        function(experiment, run, *more) returns plain numbers and names, one or lists of them. It must be one that
        workers can import.
    experiments : list of Experiment
        One or more, each of one algorithm.
    n_jobs : int or str, optional
        The workers, as in `pfpne.paper.run.workers.run_in_order`.
    folder : Path
        The folder of the stored rows.
    label : str, optional
        The text of the progress bar; by default the name of the function.
    arguments : sequence of tuple
        Further arguments: the function is called once for each of these tuples `more`.

    Returns
    -------
    list
        The function's return values, run by run and experiment by experiment.
    """
    runs = [(experiment, run) for experiment in experiments for run in range(experiment.n_runs)]
    calls = [(function, *pair, *more) for pair in runs for more in arguments]
    keys = [_key(*call) for call in calls]
    rows = [cache.load_rows(key, folder) for key in keys]
    missing = [position for position, kept in enumerate(rows) if kept is None]
    is_small = experiments[0].is_small(len(missing))
    bar = None if is_small else progress(label or function.__name__.strip("_").replace("_", " "))
    jobs = [(keys[position], folder, *calls[position]) for position in missing]
    for position, made in zip(missing, run_in_order(_make_rows, jobs, n_jobs, bar, is_small), strict=True):
        rows[position] = made
    return rows


def _key(function: Callable, experiment: Experiment, run: int, *more) -> str:
    return cache.key({"run": experiment.key(experiment.algorithms[0], run)}, function, *more)


def _make_rows(key: str, folder: Path, function: Callable, *arguments):
    rows = function(*arguments)
    cache.save_rows(key, rows, folder)
    return rows
