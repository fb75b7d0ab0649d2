"""What the claims and Table 1 read: a few numbers a run, kept beside the runs so that reading again is quick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms import Algorithm
from pfpne.paper import store
from pfpne.paper.experiment import PROFILES, SMALL, Experiment, each_run, simulated
from pfpne.paper.parameters import SYNTHETIC_NAMES, Parameters, progress
from pfpne.paths import RESULTS
from pfpne.simulation.record import Run
from pfpne.workers import unordered


@dataclass(frozen=True)
class Regime:
    """One column of verdicts: a noise, and the objectives that are run under it."""

    name: str
    noise: float | str
    objectives: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """The scale of every run that a claim or Table 1 uses, and the way to those runs.

    n_clients (M), horizon (T), shift, seed: as in Experiment. n_runs: paired runs of the claims. figure_runs: those
    of the figures, the first of the claims'; FN-UCB, Table 1 and the deviations have no more.
    """

    n_clients: int
    horizon: int
    n_runs: int
    figure_runs: int
    regimes: tuple[Regime, ...]
    shift: float = 0.1
    seed: int = 0
    n_jobs: int | None = None
    folder: Path = RESULTS

    @classmethod
    def of(cls, p: Parameters) -> Study:
        """As the notebook's parameters say."""
        profile = PROFILES[p.profile]
        synthetic = tuple(Regime(f"{noise}", noise, SYNTHETIC_NAMES) for noise in profile.noises)
        return cls(
            n_clients=p.n_clients,
            horizon=p.horizon,
            n_runs=p.n_runs,
            figure_runs=min(p.n_runs, profile.n_runs),
            regimes=(*synthetic, Regime("landmine", profile.landmine_noise, ("landmine",))),
            shift=p.shift,
            seed=p.seed,
            n_jobs=p.n_jobs,
        )

    @property
    def horizons(self) -> tuple[int, ...]:
        """Six horizons: T and its halves, quarters, ... (3,125 to 100,000 in the paper's profile)."""
        return tuple(sorted({max(1, self.horizon >> k) for k in range(6)}))

    @property
    def clients(self) -> tuple[int, ...]:
        """Five numbers of clients: M/4 to 4M."""
        return tuple(sorted({max(1, int(self.n_clients * factor)) for factor in (0.25, 0.5, 1, 2, 4)}))

    def runs_of(self, algorithm: str) -> int:
        return self.figure_runs if algorithm == "fn-ucb" else self.n_runs

    def experiment(self, objective: str, algorithms: tuple[str, ...], noise, n_runs: int, **changes) -> Experiment:
        """The experiment of this scale, with changes to n_clients, horizon, shift, settings or global_regret."""
        scale = {"n_clients": self.n_clients, "horizon": self.horizon, "shift": self.shift, "seed": self.seed}
        return Experiment(
            objective=objective, algorithms=algorithms, noise=noise, n_runs=n_runs, **{**scale, **changes}
        )

    def summary(self, objective: str, algorithms: str | tuple[str, ...], noise, n_runs: int | None = None, **changes):
        """A row a run (see `summarize`) of one or several algorithms; n_runs: of the main comparison by default."""
        algorithms = (algorithms,) if isinstance(algorithms, str) else algorithms
        n_runs = self.runs_of(algorithms[0]) if n_runs is None else n_runs
        return summarize(self.experiment(objective, algorithms, noise, n_runs, **changes), self.n_jobs, self.folder)

    def regret(self, objective: str, algorithm: str, noise, n_runs: int | None = None, **changes) -> np.ndarray:
        """R(T)/M of each run (n_runs,)."""
        return self.summary(objective, algorithm, noise, n_runs, **changes)["regret"].to_numpy()

    def variant(
        self, objective: str, base: str, algorithm: str | Algorithm, partition: type, noise, n_runs: int, root: tuple
    ) -> np.ndarray:
        """R(T)/M of each run (n_runs,) of a variant of the algorithm `base`, played on cells of the class `partition`.

        algorithm: what simulate runs. root: (module, table, row), where the variant is defined.
        """
        experiment = self.experiment(objective, (base,), noise, n_runs)
        small = experiment.is_small(n_runs)
        bar = None if small else progress(f"{objective}, {root[-1]}")

        def play() -> list[float]:
            jobs = [(experiment, algorithm, run, partition) for run in range(n_runs)]
            return [regret for _, regret in sorted(unordered(_regret_of, jobs, self.n_jobs, bar, small))]

        return np.array(store.rows(_key(experiment, _regret_of, root), play, self.folder))


COLUMNS = {
    "algorithm": "name",
    "run": "0, 1, ...",
    "regret": "R(T)/M",
    "global_regret": "the same against f-bar, nan where it was not measured",
    "rounds": "rounds of communication",
    "last": "the step of the last one, 0 if there was none",
    "numbers": "numbers carried, up and down",
    "Delta": "what PF-PNE was given, nan for the others",
    "seconds": "wall time, the one column that is not reproducible",
}


def _key(experiment: Experiment, *roots) -> str:
    """The key of what these roots make of the runs of an experiment."""
    keys = [experiment.key(algorithm, run) for algorithm in experiment.algorithms for run in range(experiment.n_runs)]
    return store.key({"runs": keys}, *roots)


def summarize(experiment: Experiment, n_jobs: int | None = None, folder: Path = RESULTS) -> pd.DataFrame:
    """The experiment in a row a run, columns as in COLUMNS: read if it was summarized before, else run now."""
    bar = None if experiment.is_small(experiment.n_runs) else progress(experiment.objective)  # for less it flickers

    def run() -> list[list]:
        numbers = each_run(experiment, _numbers, n_jobs, bar, folder)
        return [[algorithm, run, *of_run] for (algorithm, run), of_run in numbers.items()]

    return pd.DataFrame(store.rows(_key(experiment, _numbers), run, folder), columns=list(COLUMNS))


def sketch(groups: list[list[Experiment]], n_jobs: int | None = None, bar=None, folder: Path = RESULTS) -> list:
    """The rows of `summarize` of each experiment, in groups: for tens of thousands of runs, which are not kept.

    One worker makes a group; the experiments of one that share their problems look for its maxima once. What is kept
    is the rows of an experiment, written as it ends. bar(done, total) is called after each group.
    """
    pulls = sum(len(e.algorithms) * e.n_runs * e.n_clients * e.horizon for group in groups for e in group)
    jobs, made = [(group, folder) for group in groups], {}
    for position, tables in unordered(_sketched, jobs, n_jobs, bar, here=pulls < SMALL):
        made[position] = tables
    return [made[position] for position in range(len(groups))]


def _sketched(group: list[Experiment], folder: Path) -> list[pd.DataFrame]:
    def run(experiment: Experiment) -> list[list]:
        pairs = [(name, run) for name in experiment.algorithms for run in range(experiment.n_runs)]
        return [[*pair, *_numbers(simulated(experiment, *pair))] for pair in pairs]

    def key(experiment: Experiment) -> str:
        runs = {name: experiment.key(name, 0) for name in experiment.algorithms}  # the others differ by their number
        return store.key({"first runs": runs, "n_runs": experiment.n_runs}, _numbers)

    rows = (store.rows(key(experiment), partial(run, experiment), folder) for experiment in group)
    return [pd.DataFrame(of, columns=list(COLUMNS)) for of in rows]


def _numbers(result: Run) -> list:
    """The columns of COLUMNS after the first two."""
    carried = result.communication
    shared = math.nan if result.global_regret is None else float(result.global_regret[:, -1].mean())
    return [
        float(result.regret[:, -1].mean()),
        shared,
        len(carried),
        int(carried["t"].max()) if len(carried) else 0,
        int(carried["numbers up"].sum() + carried["numbers down"].sum()),
        result.settings.get("Delta", math.nan),
        result.seconds,
    ]


def _regret_of(experiment: Experiment, algorithm: str | Algorithm, run: int, partition: type) -> float:
    return float(simulated(experiment, algorithm, run, partition).regret[:, -1].mean())
