"""Rows of plain numbers that a function makes of each run of some experiments, kept beside the runs."""

from collections.abc import Callable
from pathlib import Path

from pfpne.paper.run import cache
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import run_in_order


def rows_of_runs(
    function: Callable,
    experiments: list[Experiment],
    n_jobs: int | str | None = None,
    folder: Path = RESULTS,
    label: str | None = None,
) -> list[list]:
    """Return what a function makes of each run of each experiment: read where it is kept, else computed and kept.

    Parameters
    ----------
    function : callable
        function(experiment, run) returns rows of plain numbers and names. It must be one that workers can import.
    experiments : list of Experiment
        One or more, each of one algorithm.
    n_jobs : int or str, optional
        The workers, as in `pfpne.paper.run.workers.run_in_order`.
    folder : Path
        Where rows are kept.
    label : str, optional
        What the progress bar says; the name of the function if it is not given.

    Returns
    -------
    list of list
        The rows of each run, run by run and experiment by experiment.
    """
    jobs = [(function, experiment, run, folder) for experiment in experiments for run in range(experiment.n_runs)]
    is_small = experiments[0].is_small(len(jobs))
    bar = None if is_small else progress(label or function.__name__.strip("_").replace("_", " "))
    return run_in_order(_stored_rows, jobs, n_jobs, bar, is_small)


def _stored_rows(function: Callable, experiment: Experiment, run: int, folder: Path) -> list:
    key = cache.key({"run": experiment.key(experiment.algorithms[0], run)}, function)
    return cache.stored_rows(key, lambda: function(experiment, run), folder)
