"""Experiments as data: the named profiles, and many paired runs of several algorithms on one problem."""

from __future__ import annotations

import functools
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController

from pfpne.paper import store
from pfpne.algorithms import NAMES
from pfpne.checks import check, check_noise, is_integer, is_number, unknown
from pfpne.problems import NAMES as OBJECTIVES
from pfpne.problems import make_problem
from pfpne.paths import RESULTS
from pfpne.algorithms import make_settings, settings_of
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import simulate


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


PROFILES = {
    "smoke": Profile(n_clients=4, horizon=1_000, n_runs=3, claim_runs=3),
    "paper": Profile(n_clients=20, horizon=100_000, n_runs=10, claim_runs=30, noises=("bernoulli", 0.1, 2.0)),
}


@dataclass(frozen=True)
class Experiment:
    """Several algorithms on the same runs of one problem.

    objective: a name of pfpne.problems.NAMES. algorithms: names, each once. n_clients (M), horizon (T), n_runs >= 1.
    noise: "bernoulli" or the half-width of uniform noise. shift >= 0: standard deviation of the clients'
    shifts, in widths of the domain; landmine has none. seed >= 0. settings: {name: value}, each given to
    every algorithm here that takes it. d: dimension, for objectives of any. Everything is checked at once.
    """

    objective: str
    algorithms: tuple[str, ...]
    n_clients: int
    horizon: int
    n_runs: int
    noise: float | str = "bernoulli"
    shift: float = 0.1
    seed: int = 0
    settings: dict = field(default_factory=dict)
    global_regret: bool = False
    d: int | None = None

    def __post_init__(self):
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown("objective", self.objective, OBJECTIVES))
        if not self.algorithms:
            raise ValueError(f"algorithms is empty; name at least one of {', '.join(NAMES)}.")
        for name in self.algorithms:
            if name not in NAMES:
                raise ValueError(unknown("algorithm", name, NAMES))
        check(len(set(self.algorithms)) == len(self.algorithms), "algorithms", "names, each once", self.algorithms)
        for name, least in (("n_clients", 1), ("horizon", 1), ("n_runs", 1), ("seed", 0)):
            value = getattr(self, name)
            check(is_integer(value) and value >= least, name, f"an integer >= {least}", value)
            object.__setattr__(self, name, int(value))  # plain numbers: equal experiments have equal keys
        check(is_number(self.shift) and self.shift >= 0, "shift", "a number >= 0", self.shift)
        check_noise(self.noise)
        check(isinstance(self.global_regret, bool), "global_regret", "True or False", self.global_regret)
        object.__setattr__(self, "shift", float(self.shift))
        object.__setattr__(self, "noise", self.noise if isinstance(self.noise, str) else float(self.noise))
        plain = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in self.settings.items()
        }
        object.__setattr__(self, "settings", plain)
        make_problem(**{**self._problem_arguments(0), "n_clients": 1})  # refuses what is left to refuse, such as d
        for setting, value in self.settings.items():
            takers = [name for name in self.algorithms if setting in settings_of(name)]
            if not takers:
                every = sorted({s for name in self.algorithms for s in settings_of(name)})
                raise ValueError(f"{', '.join(self.algorithms)}: {unknown('setting', setting, every)}")
            for name in takers:
                make_settings(name, {setting: 0.0 if (setting, value) == ("Delta", "true") else value})

    def settings_for(self, algorithm: str) -> dict:
        """The settings given here that this algorithm takes."""
        taken = settings_of(algorithm)
        return {name: value for name, value in self.settings.items() if name in taken}

    def problem(self, run: int):
        """The problem of one run: the same for every algorithm."""
        return make_problem(**self._problem_arguments(run))

    def _problem_arguments(self, run: int) -> dict:
        arguments = {
            "name": self.objective,
            "n_clients": self.n_clients,
            "noise": self.noise,
            "seed": self.seed,
            "run": run,
        }
        if self.objective != "landmine":
            arguments["shift"] = self.shift
        if self.d is not None:
            arguments["d"] = self.d
        return arguments

    def key(self, algorithm: str, run: int) -> str:
        """The key of one run in the store."""
        data_hash = None
        if self.objective == "landmine":
            from pfpne.problems.landmine import load_table

            data_hash = load_table().sha256
        return store.run_key(
            algorithm,
            self.settings_for(algorithm),
            self._problem_arguments(run),
            self.horizon,
            self.global_regret,
            data_hash,
        )


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


def _end_with(parent: int) -> None:
    """Let this worker end when the process that started it was killed, instead of waiting for more work for ever."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# A worker meets the same problems again under other algorithms and settings, and to find their maxima can take longer
# than to run PF-PNE. As many are kept as a claim has runs.
_problem = functools.lru_cache(maxsize=PROFILES["paper"].claim_runs)(make_problem)


@functools.cache
def _threads() -> ThreadpoolController:
    """Sets the threads of every library that uses some; to look for them takes long beside a short run."""
    import scipy.linalg  # noqa: F401  so that its own is loaded when they are looked for

    return ThreadpoolController()


def _run_one(experiment: Experiment, algorithm: str, run: int, of: Callable, folder: Path) -> tuple[str, int, object]:
    """Compute one run and store it, unless another process just did; return what is wanted of it."""
    key = experiment.key(algorithm, run)
    guard = store.lock(key, folder)
    with guard, _threads().limit(limits=1):  # one thread: the same sums for any number of workers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", store.DamagedResult)  # reported before
            found = store.load(key, folder)
        if found is None:
            found = simulate(
                algorithm,
                _problem(**experiment._problem_arguments(run)),
                experiment.horizon,
                global_regret=experiment.global_regret,
                **experiment.settings_for(algorithm),
            )
            store.save(key, found, folder)
    Path(guard.lock_file).unlink(missing_ok=True)
    return algorithm, run, of(found)


SMALL = 300_000  # pulls; fewer in all are done here sooner than workers start


def each_run(
    experiment: Experiment,
    of: Callable[[Run], object],
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    folder: Path = RESULTS,
) -> dict[tuple[str, int], object]:
    """What `of` makes of each run of the experiment, {(algorithm, run): of(Run)}: see run_experiment.

    One run at a time is in memory: a run with a round of communication at every pull can take 100 MB.
    """
    valid = n_jobs is None or is_integer(n_jobs) and n_jobs >= 1
    check(valid, "n_jobs", "an integer >= 1, or None for one a core", n_jobs)
    wanted = [(algorithm, run) for algorithm in experiment.algorithms for run in range(experiment.n_runs)]
    made, missing = dict.fromkeys(wanted), []
    for pair in wanted:
        found = store.load(experiment.key(*pair), folder)
        if found is None:
            missing.append(pair)
        else:
            made[pair] = of(found)
    missing.sort(key=lambda pair: pair[0] != "fn-ucb")  # the slow ones first, so that no worker is left alone with one
    if progress is not None:
        progress(len(wanted) - len(missing), len(wanted))
    if len(missing) * experiment.n_clients * experiment.horizon < SMALL:
        n_jobs = 1
    start = {"initializer": _end_with, "initargs": (os.getpid(),)}
    workers = joblib.Parallel(n_jobs=n_jobs or os.cpu_count(), return_as="generator_unordered", batch_size=1, **start)
    jobs = (joblib.delayed(_run_one)(experiment, *pair, of, folder) for pair in missing)
    for done, (algorithm, run, result) in enumerate(workers(jobs) if missing else (), start=1):
        made[algorithm, run] = result
        if progress is not None:
            progress(len(wanted) - len(missing) + done, len(wanted))
    return made


def run_experiment(
    experiment: Experiment,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    folder: Path = RESULTS,
) -> Results:
    """The runs of the experiment: those stored are read, the others computed and stored as each finishes.

    n_jobs: workers, >= 1; None for one a core. progress(done, total) is called as runs finish.
    The result does not depend on n_jobs, nor on interruptions.
    """
    return Results(experiment, each_run(experiment, _whole, n_jobs, progress, folder))


def _whole(run: Run) -> Run:
    return run
