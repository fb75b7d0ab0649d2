"""An experiment as data: the set-up of a problem, and the algorithms that are run on it."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field

import numpy as np

from pfpne.algorithms import ALGORITHMS, UNLIMITED_ALGORITHMS, Algorithm, get_algorithm, make_settings, settings_of
from pfpne.federation import Task
from pfpne.paper.run import cache
from pfpne.partition import Partition
from pfpne.problems import OBJECTIVES, Problem, make_problem
from pfpne.simulation.fast import fast_simulation_of
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import partition_of, simulate
from pfpne.validation import check, check_count, unknown_name

FEW_PULLS = 300_000  # pulls that one process makes sooner than workers start

# A worker meets the same problems again under other algorithms and settings, and to find their maxima can take longer
# than to run PF-PNE. As many are kept as a claim has runs.
_make_problem = functools.lru_cache(maxsize=30)(make_problem)


@dataclass(frozen=True)
class ProblemSetup:
    """The problem and the scale of an experiment. All values are checked, and made plain Python, at once.

    Parameters
    ----------
    objective : str
        The name of an objective, as in `pfpne.make_problem`.
    n_clients, horizon : int
        M, and T: evaluations per client.
    noise : float or "bernoulli"
        As in `pfpne.make_problem`, and so are shift, common_shift, seed and d.
    shift, common_shift : float
        Standard deviations of the clients' own shifts and of the shift that they share, in widths of the domain.
    cells : str
        "random" or "cyclic", as in `pfpne.simulate`.
    seed : int
        The root of all random streams.
    d : int, optional
        The dimension, for an objective that has any.

    Attributes
    ----------
    data_hash : str or None
        The SHA-256 of the data that the objective's values come from.

    Raises
    ------
    ValueError
        If a value is out of its range; the message says what is wanted.

    Examples
    --------
    >>> setup = ProblemSetup("garland", n_clients=4, horizon=1000, noise=0.1)
    >>> setup.problem(run=0).n_clients
    4
    """

    objective: str
    n_clients: int
    horizon: int
    noise: float | str = "bernoulli"
    shift: float = 0.1
    cells: str = "random"
    seed: int = 0
    common_shift: float = 0.0
    d: int | None = None
    data_hash: str | None = field(init=False, repr=False)

    def __post_init__(self):
        problem = self._one_client
        Task(Partition(problem.domain, cells=self.cells), self.n_clients, self.horizon)
        self._make_plain(
            **{name: int(getattr(self, name)) for name in ("n_clients", "horizon", "seed")},
            noise=self.noise if isinstance(self.noise, str) else float(self.noise),
            shift=problem.shift or 0.0,  # landmine has none
            common_shift=problem.common_shift or 0.0,
            d=problem.d,
            data_hash=problem.data_hash,
        )

    @property
    def _one_client(self) -> Problem:
        """The problem with one client, which costs little to make and refuses every wrong value."""
        return make_problem(
            self.objective, 1, self.shift, self.noise, self.seed, d=self.d, common_shift=self.common_shift
        )

    def _make_plain(self, **values) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _problem_arguments(self, run: int) -> dict:
        names = ("n_clients", "noise", "seed", "shift", "common_shift", "d")
        return {"name": self.objective, "run": run, **{name: getattr(self, name) for name in names}}

    def problem(self, run: int) -> Problem:
        """Return the problem of a run: the same one for every algorithm."""
        return _make_problem(**self._problem_arguments(run))

    def experiment(self, algorithms: tuple[str, ...], n_runs: int, **options) -> Experiment:
        """Return the experiment of these algorithms on this problem. options: the other fields of Experiment."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(ProblemSetup) if field.init}
        return Experiment(**own, algorithms=algorithms, n_runs=n_runs, **options)

    def partition(self, run: int, partition_class: type[Partition] = Partition) -> Partition:
        """Return the cells of a run: the same ones for every algorithm."""
        return partition_of(self.problem(run), self.cells, self.seed, run, partition_class)


@dataclass(frozen=True, kw_only=True)
class Experiment(ProblemSetup):
    """Several algorithms on one problem, each in the same runs. Equal experiments have equal keys.

    Parameters
    ----------
    algorithms : tuple of str
        The names of the algorithms, each once.
    n_runs : int
        Run 0, 1, ... of each.
    settings : dict
        {name: value}; each is given to every algorithm here that takes it.
    global_regret : bool
        Whether the regret against f-bar is measured, too.

    Raises
    ------
    ValueError
        If a value is out of its range, an algorithm is unknown, or none of them takes a setting.

    Examples
    --------
    >>> experiment = Experiment("garland", n_clients=4, horizon=1000, algorithms=("pf-pne", "pe"), n_runs=2)
    >>> experiment.pairs
    [('pf-pne', 0), ('pf-pne', 1), ('pe', 0), ('pe', 1)]
    """

    algorithms: tuple[str, ...]
    n_runs: int
    settings: dict = field(default_factory=dict)
    global_regret: bool = False

    def __post_init__(self):
        listed = isinstance(self.algorithms, (list, tuple)) and all(isinstance(name, str) for name in self.algorithms)
        valid = listed and 0 < len(set(self.algorithms)) == len(self.algorithms)
        check(
            valid, "algorithms", f"names, each once, at least one of {', '.join(UNLIMITED_ALGORITHMS)}", self.algorithms
        )
        super().__post_init__()
        check_count("n_runs", self.n_runs)
        check(isinstance(self.global_regret, bool), "global_regret", "True or False", self.global_regret)
        check(isinstance(self.settings, dict), "settings", "a dict, {name: value}", self.settings)
        known = sorted({setting for name in self.algorithms for setting in settings_of(name)})
        for setting in self.settings:
            if setting not in known:
                raise ValueError(f"{', '.join(self.algorithms)}: {unknown_name('setting', setting, known)}")
        problem = self._one_client
        for name in self.algorithms:
            make_settings(name, self.settings_for(name), problem)
        settings = {name: x.item() if isinstance(x, np.generic) else x for name, x in self.settings.items()}
        self._make_plain(n_runs=int(self.n_runs), settings=settings)

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """(algorithm, run) of all runs."""
        return [(algorithm, run) for algorithm in self.algorithms for run in range(self.n_runs)]

    def is_small(self, n_simulations: int) -> bool:
        """Return whether so many simulations are done in this process sooner than workers start."""
        return n_simulations * self.n_clients * self.horizon < FEW_PULLS

    def settings_for(self, algorithm: str | Algorithm) -> dict:
        """Return the settings given here that this algorithm takes."""
        known = settings_of(algorithm)
        return {name: value for name, value in self.settings.items() if name in known}

    def cells_for(self, algorithm: str) -> str | None:
        """Return the kind of cells, or None where it decides nothing: in one dimension, or off the cells."""
        return self.cells if self.d > 1 and get_algorithm(algorithm).uses_task_cells else None

    def key(self, algorithm: str, run: int) -> str:
        """Return the key of one run in the store: see `pfpne.paper.run.cache.key`."""
        content = {
            "algorithm": algorithm,
            "cells": self.cells_for(algorithm),
            "settings": self.settings_for(algorithm),
            "problem": self._problem_arguments(run),
            "horizon": self.horizon,
            "global_regret": self.global_regret,
            "data": self.data_hash,
        }
        row = ALGORITHMS[algorithm]
        return cache.key(content, Experiment, row, fast_simulation_of(row), OBJECTIVES[self.objective])

    def simulate(self, algorithm: str | Algorithm, run: int, partition_class: type[Partition] = Partition) -> Run:
        """Simulate one run now.

        Parameters
        ----------
        algorithm : str or Algorithm
            A name, or an Algorithm of one's own: a variant.
        run : int
            The number of the run, which names its random streams.
        partition_class : type
            The class of the cells.

        Returns
        -------
        Run
            The measurements; they are not stored.
        """
        changes = {**self.settings_for(algorithm), "global_regret": self.global_regret}
        partition = self.partition(run, partition_class)
        return simulate(algorithm, self.problem(run), self.horizon, partition=partition, **changes)
