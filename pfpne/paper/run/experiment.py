"""Experiments as data: the named profiles, and many paired runs of several algorithms on one problem."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms import NAMES, Algorithm, get_algorithm, make_settings, settings_of
from pfpne.federation import Task
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.workers import unordered
from pfpne.partition import Partition
from pfpne.problems import make_problem
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import partition_of, simulate
from pfpne.validation import check, check_count, unknown_name

SMALL = 300_000  # pulls


@dataclass(frozen=True)
class Profile:
    """One scale at which everything is run: M, T, the paired runs, and the noise regimes."""

    n_clients: int
    horizon: int
    n_runs: int
    claim_runs: int
    noises: tuple = ("bernoulli",)
    landmine_noise: float = 0.0
    shift: float = 0.1
    cells: str = "random"


PROFILES = {
    "smoke": Profile(n_clients=4, horizon=1_000, n_runs=3, claim_runs=3),
    "paper": Profile(n_clients=20, horizon=100_000, n_runs=10, claim_runs=30, noises=("bernoulli", 0.1, 2.0)),
}


@dataclass(frozen=True)
class Scale:
    """What a named reading of the paper says of the choices that it leaves open and that its figures depend on most.

    noises: of the synthetic objectives, the first one that of the figures. landmine_noise: of landmine. horizon (T): of
    the paper profile; the smoke profile has its own.
    """

    noises: tuple
    landmine_noise: float
    horizon: int


# "printed": the reading under which most of what the paper says of its figures comes out: see notebook 11.
# "model": the paper's reward model, rewards in [0, 1], at the scale of the evidence; and the other noises beside it.
READINGS = {
    "printed": Scale(noises=(1.0,), landmine_noise=1.0, horizon=1_000_000),
    "model": Scale(noises=PROFILES["paper"].noises, landmine_noise=0.0, horizon=PROFILES["paper"].horizon),
}


@dataclass(frozen=True)
class Experiment:
    """Several algorithms on the same runs of one problem.

    objective, n_clients (M), noise, shift, common, seed, d: as in make_problem. algorithms: names, each once. cells: as
    in simulate. horizon (T), n_runs: see pfpne.validation.COUNTS. settings: {name: value}, each given to every
    algorithm here that takes it.
    Everything is checked at once, and made plain: equal experiments have equal keys. data_hash: see Problem.
    """

    objective: str
    algorithms: tuple[str, ...]
    n_clients: int
    horizon: int
    n_runs: int
    noise: float | str = "bernoulli"
    shift: float = 0.1
    seed: int = 0
    cells: str = "random"
    common: float = 0.0
    settings: dict = field(default_factory=dict)
    global_regret: bool = False
    d: int | None = None
    data_hash: str | None = field(init=False, repr=False)

    def __post_init__(self):
        listed = isinstance(self.algorithms, (list, tuple)) and all(isinstance(name, str) for name in self.algorithms)
        valid = listed and 0 < len(set(self.algorithms)) == len(self.algorithms)
        check(valid, "algorithms", f"names, each once, at least one of {', '.join(NAMES)}", self.algorithms)
        one = make_problem(self.objective, 1, self.shift, self.noise, self.seed, d=self.d, common=self.common)
        Task(Partition(one.domain, cells=self.cells), self.n_clients, self.horizon)
        check_count("n_runs", self.n_runs)
        check(isinstance(self.global_regret, bool), "global_regret", "True or False", self.global_regret)
        check(isinstance(self.settings, dict), "settings", "a dict, {name: value}", self.settings)
        every = sorted({setting for name in self.algorithms for setting in settings_of(name)})
        for setting in self.settings:
            if setting not in every:
                raise ValueError(f"{', '.join(self.algorithms)}: {unknown_name('setting', setting, every)}")
        for name in self.algorithms:
            make_settings(name, self.settings_for(name), one)
        plain = {name: int(getattr(self, name)) for name in ("n_clients", "horizon", "n_runs", "seed")}
        plain["noise"] = self.noise if isinstance(self.noise, str) else float(self.noise)
        plain["settings"] = {k: v.item() if isinstance(v, np.generic) else v for k, v in self.settings.items()}
        plain |= {"shift": one.shift or 0.0, "common": one.common or 0.0}  # landmine has none
        plain |= {"d": one.d, "data_hash": one.data_hash}
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """(algorithm, run) of each run."""
        return [(algorithm, run) for algorithm in self.algorithms for run in range(self.n_runs)]

    def is_small(self, n_runs: int) -> bool:
        """Whether so many runs are done in this process sooner than workers start."""
        return n_runs * self.n_clients * self.horizon < SMALL

    def settings_for(self, algorithm: str | Algorithm) -> dict:
        """The settings given here that this algorithm takes."""
        taken = settings_of(algorithm)
        return {name: value for name, value in self.settings.items() if name in taken}

    def problem(self, run: int):
        """The problem of one run: the same for every algorithm, and made once."""
        return _problem(**self._problem_arguments(run))

    def _problem_arguments(self, run: int) -> dict:
        names = ("n_clients", "noise", "seed", "shift", "common", "d")
        return {"name": self.objective, "run": run, **{name: getattr(self, name) for name in names}}

    def key(self, algorithm: str, run: int) -> str:
        """The key of one run in the store."""
        content = {
            "algorithm": algorithm,
            "cells": self.cells if self.d > 1 and get_algorithm(algorithm).on_cells else None,
            "settings": self.settings_for(algorithm),
            "problem": self._problem_arguments(run),
            "horizon": self.horizon,
            "global_regret": self.global_regret,
            "data": self.data_hash,
        }
        return cache.key(content, *roots((algorithm,), (self.objective,)))


def roots(algorithms: Iterable[str], objectives: Iterable[str]) -> list:
    """What the runs of these algorithms on these objectives are computed with (see pfpne.paper.run.closure)."""
    tables = ("pfpne.algorithms", "ALGORITHMS"), ("pfpne.simulation.fast", "FAST")
    rows = [(*table, name) for table in tables for name in algorithms]
    return [simulated, *rows, *(("pfpne.problems", "OBJECTIVES", name) for name in objectives)]


@dataclass(frozen=True, eq=False)
class Results:
    """The runs of an experiment, {(algorithm, run): Run}, and the tidy tables made of them."""

    experiment: Experiment
    runs: dict[tuple[str, int], Run]

    def without_communication(self) -> Results:
        """The same with empty tables of communication, of which FN-UCB's have a row a step: many fit in memory."""
        runs = {pair: replace(run, rounds=run.rounds[:0]) for pair, run in self.runs.items()}
        return Results(self.experiment, runs)

    def _table(self, columns: Callable[[Run], dict]) -> pd.DataFrame:
        head = {"objective": self.experiment.objective, "noise": self.experiment.noise}
        parts = [pd.DataFrame({**head, "algorithm": a, "run": r, **columns(run)}) for (a, r), run in self.runs.items()]
        return pd.concat(parts, ignore_index=True)

    @property
    def regret(self) -> pd.DataFrame:
        """A row a checkpoint: objective, noise, algorithm, run, t, and averages over clients of the regrets.

        regret = R(t)/M; simple_regret; global_regret where it was measured.
        """

        def columns(run: Run) -> dict:
            measured = {"t": run.t, "regret": run.regret.mean(axis=0), "simple_regret": run.simple_regret.mean(axis=0)}
            if run.global_regret is not None:
                measured["global_regret"] = run.global_regret.mean(axis=0)
            return measured

        return self._table(columns)

    @property
    def communication(self) -> pd.DataFrame:
        """A row a round: objective, noise, algorithm, run, round, t, up, down (numbers), bytes."""
        names = {"round": "round", "t": "t", "numbers up": "up", "numbers down": "down", "bytes": "bytes"}
        return self._table(lambda run: {new: run.communication[old].to_numpy() for old, new in names.items()})

    @property
    def seconds(self) -> pd.DataFrame:
        """A row a run: objective, noise, algorithm, run, seconds (wall time of the simulation)."""
        return self._table(lambda run: {"seconds": [run.seconds]})


# A worker meets the same problems again under other algorithms and settings, and to find their maxima can take longer
# than to run PF-PNE. As many are kept as a claim has runs.
_problem = functools.lru_cache(maxsize=30)(make_problem)


def simulated(experiment: Experiment, algorithm: str | Algorithm, run: int, partition: type = Partition) -> Run:
    """One run, simulated now; of a variant, if an Algorithm of its own or another class of cells is given."""
    problem = _problem(**experiment._problem_arguments(run))  # named here: the key of a run covers what it reaches
    changes = experiment.settings_for(algorithm) | {"global_regret": experiment.global_regret}
    cells = partition_of(problem, experiment.cells, experiment.seed, run, partition)
    return simulate(algorithm, problem, experiment.horizon, partition=cells, **changes)


@functools.cache
def _compile(algorithm: str, objective: str, noise: float | str, cells: str) -> None:
    """Run as little as possible of it: what is compiled, is before the time of a run is taken."""
    simulated(Experiment(objective, (algorithm,), 2, 20, 1, noise, cells=cells), algorithm, 0)


def _stored(experiment: Experiment, algorithm: str, run: int, of: Callable, folder: Path):
    """What is wanted of a run, which is simulated and stored unless another process just did."""
    _compile(algorithm, experiment.objective, experiment.noise, experiment.cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cache.DamagedResult)  # reported before
        return of(cache.run(experiment.key(algorithm, run), lambda: simulated(experiment, algorithm, run), folder))


def each_run(experiment: Experiment, of: Callable, n_jobs=None, progress=None, folder: Path = RESULTS) -> dict:
    """What `of` makes of each run of the experiment, {(algorithm, run): of(Run)}: see run_experiment.

    One run at a time is in memory: a run with a round of communication at every pull can take 100 MB.
    """
    made = {}
    for pair in experiment.pairs:
        found = cache.load(experiment.key(*pair), folder)
        made[pair] = None if found is None else of(found)
    missing = [pair for pair in made if made[pair] is None]
    missing.sort(key=lambda pair: pair[0] != "fn-ucb")  # the slow ones first, so that no worker is left alone with one

    def bar(done: int, _: int) -> None:
        if progress is not None:
            progress(len(made) - len(missing) + done, len(made))

    bar(0, len(missing))
    jobs = [(experiment, *pair, of, folder) for pair in missing]
    for position, result in unordered(_stored, jobs, n_jobs, bar, experiment.is_small(len(missing))):
        made[missing[position]] = result
    return made


def run_experiment(experiment: Experiment, n_jobs=None, progress=None, folder: Path = RESULTS) -> Results:
    """The runs of the experiment: those stored are read, the others computed and stored as each finishes.

    n_jobs: workers, as in pfpne.paper.run.workers.unordered. progress(done, total) is called as runs finish.
    The result does not depend on n_jobs, nor on interruptions.
    """
    return Results(experiment, each_run(experiment, _whole, n_jobs, progress, folder))


def _whole(run: Run) -> Run:
    return run
