"""The runs of an experiment, read if they are stored, else simulated and stored; and tables of these runs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from pfpne.paper.run import cache
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.workers import run_unordered
from pfpne.simulation.record import Run


@dataclass(frozen=True, eq=False)
class Results:
    """The runs of an experiment, and the tidy tables made of them.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    runs : dict
        {(algorithm, run): Run}.
    """

    experiment: Experiment
    runs: dict[tuple[str, int], Run]

    def without_communication(self) -> Results:
        """Return the results without communication: FN-UCB has one row per step, and many such tables fill memory."""
        runs = {pair: replace(run, rounds=run.rounds[:0]) for pair, run in self.runs.items()}
        return Results(self.experiment, runs)

    def _table(self, columns: Callable[[Run], dict]) -> pd.DataFrame:
        head = {"objective": self.experiment.objective, "noise": self.experiment.noise}
        parts = [pd.DataFrame({**head, "algorithm": a, "run": r, **columns(run)}) for (a, r), run in self.runs.items()]
        return pd.concat(parts, ignore_index=True)

    @property
    def regret(self) -> pd.DataFrame:
        """One row per checkpoint: objective, noise, algorithm, run, t, and means over the clients of the regrets.

        They are regret, R(t)/M; simple_regret; and global_regret where it was measured.
        """

        def columns(run: Run) -> dict:
            measured = {"t": run.t, "regret": run.regret.mean(axis=0), "simple_regret": run.simple_regret.mean(axis=0)}
            if run.global_regret is not None:
                measured["global_regret"] = run.global_regret.mean(axis=0)
            return measured

        return self._table(columns)

    @property
    def communication(self) -> pd.DataFrame:
        """One row per round: objective, noise, algorithm, run, round, t, up, down (numbers), bytes."""
        names = {"round": "round", "t": "t", "numbers up": "up", "numbers down": "down", "bytes": "bytes"}
        return self._table(lambda run: {new: run.communication[old].to_numpy() for old, new in names.items()})

    @property
    def seconds(self) -> pd.DataFrame:
        """One row per run: objective, noise, algorithm, run, seconds (wall time of the simulation)."""
        return self._table(lambda run: {"seconds": [run.seconds]})


def run_experiment(
    experiment: Experiment,
    n_jobs: int | str | None = None,
    progress: Callable[[int, int], None] | None = None,
    folder: Path = RESULTS_FOLDER,
    reduce: Callable[[Run], object] | None = None,
) -> Results:
    """Read the runs of an experiment that are stored, and simulate and store the others, as each finishes.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    n_jobs : int or str, optional
        The workers, as in `pfpne.paper.run.workers.run_unordered`.
    progress : callable, optional
        progress(done, total) is called as runs finish.
    folder : Path
        Where runs are stored.
    reduce : callable, optional
        reduce(run) replaces the run, so that only one run at a time is in memory: a run with a round of communication
        at every pull can take 100 MB. Workers must be able to import the function.

    Returns
    -------
    Results
        The same for any n_jobs, and after any interruption.

    Raises
    ------
    ValueError
        If n_jobs is none that can be.
    """
    runs = {}
    for pair in experiment.pairs:
        run = cache.load_run(experiment.key(*pair), folder)
        runs[pair] = run if run is None or reduce is None else reduce(run)
    missing = [pair for pair in runs if runs[pair] is None]
    missing.sort(key=lambda pair: pair[0] != "fn-ucb")  # the slow ones first, so that no worker is left alone with one

    def advance(done: int, _: int) -> None:
        if progress is not None:
            progress(len(runs) - len(missing) + done, len(runs))

    advance(0, len(missing))
    jobs = [(experiment, *pair, reduce, folder) for pair in missing]
    for position, result in run_unordered(
        _simulate_and_store, jobs, n_jobs, advance, experiment.is_small(len(missing))
    ):
        runs[missing[position]] = result
    return Results(experiment, runs)


def _simulate_and_store(experiment: Experiment, algorithm: str, number: int, reduce: Callable | None, folder: Path):
    """Return a run, or reduce(run); it is simulated and stored now, unless another process has just stored it."""
    _compile(algorithm, experiment.objective, experiment.noise, experiment.cells)
    key = experiment.key(algorithm, number)
    with warnings.catch_warnings(), cache.locked(key, folder):
        warnings.simplefilter("ignore", cache.DamagedResult)  # reported before
        run = cache.load_run(key, folder)
        if run is None:
            run = experiment.simulate(algorithm, number)
            cache.save_run(key, run, folder)
    return run if reduce is None else reduce(run)


@functools.cache
def _compile(algorithm: str, objective: str, noise: float | str, cells: str) -> None:
    """Run a minimal part of the experiment, so that code is compiled before a run is timed."""
    small = Experiment(objective, 2, 20, noise, cells=cells, algorithms=(algorithm,), n_runs=1)
    small.simulate(algorithm, 0)
