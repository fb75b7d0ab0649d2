"""The summaries of runs that the claims and Table 1 use, stored beside the runs so that reading is quick.

`Study` defines the runs. `Study.summaries` has one row per run. `summarize` does so for any experiment,
and `summarize_many` for tens of thousands of runs, of which only the summaries are stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms import Algorithm
from pfpne.paper.run import cache
from pfpne.paper.run.experiment import FEW_PULLS, Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.progress import progress
from pfpne.paper.run.results import run_experiment
from pfpne.paper.run.rows import rows_of_runs
from pfpne.paper.run.selections import PAPER_SYNTHETIC_OBJECTIVES
from pfpne.paper.run.workers import run_in_order
from pfpne.problems import OBJECTIVES
from pfpne.simulation.record import Run

# The shift that all clients of a run have in common, so that runs of identical clients differ (deviation 21).
COMMON_SHIFT = 0.1
IDENTICAL_CLIENT_CHANGES = {"shift": 0.0, "common_shift": COMMON_SHIFT}


@dataclass(frozen=True)
class ClaimCondition:
    """A condition in which claims are tested: a noise, a kind of cells and the objectives.

    name: the name of the noise, or "landmine". It is the column "noise" of the tables of claims.
    """

    name: str
    noise: float | str
    objectives: tuple[str, ...]
    cells: str = "random"


@dataclass(frozen=True)
class Study:
    """The scale of all runs that a claim or Table 1 uses, with methods that return these runs.

    Parameters
    ----------
    n_clients, horizon : int
        M, and T: evaluations per client.
    claim_runs : int
        Paired runs of the claims.
    figure_runs : int
        Paired runs of the figures. They are the first of the claim_runs. Table 1, the deviations and other
        measurements that take long use these runs only.
    claim_conditions : tuple of ClaimCondition
        The conditions in which the claims are tested.
    shift : float
        The standard deviation of the clients' shifts, in widths of the domain.
    seed : int
        The root of all random streams.
    n_jobs : int or str, optional
        The workers, as in `pfpne.paper.run.workers.run_in_order`.
    folder : Path
        The folder of the stored runs and their summaries.

    Examples
    --------
    >>> Study(4, 1_000, claim_runs=3, figure_runs=3, claim_conditions=()).client_counts
    (1, 2, 4, 8, 16)
    """

    n_clients: int
    horizon: int
    claim_runs: int
    figure_runs: int
    claim_conditions: tuple[ClaimCondition, ...]
    shift: float = 0.1
    seed: int = 0
    n_jobs: int | str | None = None
    folder: Path = RESULTS_FOLDER

    @classmethod
    def from_parameters(cls, p: Parameters) -> Study:
        """Make the study for a notebook's parameters.

        Parameters
        ----------
        p : Parameters
            The notebook's parameters.

        Returns
        -------
        Study
            The study at the parameters' scale, under each noise of their profile, on both kinds of cells.
        """
        profile = PROFILES[p.profile]
        conditions = [ClaimCondition(f"{noise}", noise, PAPER_SYNTHETIC_OBJECTIVES) for noise in profile.noises]
        conditions.append(ClaimCondition("landmine", profile.landmine_noise, ("landmine",)))
        for condition in (*conditions,):  # in one dimension the two kinds of cells are the same
            wide = tuple(f for f in condition.objectives if OBJECTIVES[f].d > 1)
            conditions.append(replace(condition, objectives=wide, cells="cyclic"))
        figure_runs = min(p.n_runs, profile.figure_runs)
        return cls(p.n_clients, p.horizon, p.n_runs, figure_runs, tuple(conditions), p.shift, p.seed, p.n_jobs)

    @property
    def sweep_runs(self) -> int:
        """The paired runs of a study of many M, T, shifts or settings: half of claim_runs."""
        return -(-self.claim_runs // 2)

    @property
    def horizons(self) -> tuple[int, ...]:
        """Six horizons: T and its halves, quarters, ... (3,125 to 100,000 in the paper's profile)."""
        return tuple(sorted({max(1, self.horizon >> k) for k in range(6)}))

    @property
    def client_counts(self) -> tuple[int, ...]:
        """Five numbers of clients: M/4 to 4M."""
        return tuple(sorted({max(1, int(self.n_clients * factor)) for factor in (0.25, 0.5, 1, 2, 4)}))

    def experiment(self, objective: str, algorithm: str, noise, n_runs: int | None = None, **changes) -> Experiment:
        """One algorithm at this scale, by default in the runs of the main comparison.

        changes: other values of n_clients, horizon, shift, common_shift, cells, settings, ...
        """
        scale = {name: getattr(self, name) for name in ("n_clients", "horizon", "shift", "seed")}
        scale |= {"n_runs": n_runs or self.claim_runs, "noise": noise, **changes}
        return Experiment(objective, algorithms=(algorithm,), **scale)

    def summaries(self, objective: str, algorithm: str, noise, n_runs: int | None = None, **changes) -> pd.DataFrame:
        """One row per run of one algorithm, columns as in SUMMARY_COLUMNS; arguments as for `experiment`."""
        return summarize(self.experiment(objective, algorithm, noise, n_runs, **changes), self.n_jobs, self.folder)

    def variant_regrets(
        self, objective, base: str, algorithm, partition_class: type, noise, n_runs, **changes
    ) -> np.ndarray:
        """R(T)/M of each run (n_runs,) of a variant of the algorithm `base`, on cells of this partition class.

        algorithm: the variant, as for `simulate`.
        """
        experiment = self.experiment(objective, base, noise, n_runs, **changes)
        return self.per_run(_regret_of, experiment, algorithm, partition_class, label=f"a variant of {base}")

    def per_run(self, function: Callable, experiment: Experiment, *arguments, label: str | None = None) -> np.ndarray:
        """The values (n_runs, ...) of function(experiment, run, *arguments), in plain numbers.

        They are stored, and read the next time. label: the text of the progress bar, if not the function's name.
        """
        label = f"{experiment.objective}, {label or function.__name__}"
        return np.array(rows_of_runs(function, [experiment], self.n_jobs, self.folder, label, [arguments]))


SUMMARY_COLUMNS = {
    "algorithm": "name",
    "run": "0, 1, ...",
    "regret": "R(T)/M",
    "global_regret": "the same against f-bar, nan where it was not measured",
    "n_rounds": "the number of rounds of communication",
    "last_round_step": "the step of the last one, 0 if there was none",
    "numbers": "numbers carried, up and down",
    "numbers_up": "those of them that went up",
    "early_regret": "R(t)/M at t = T/10 or the next checkpoint",
    "simple_regret": "simple regret at T, mean over the clients",
    "last_phase_share": "share of T since a client last deployed another point, mean over the clients",
    "Delta": "what PF-PNE was given, nan for the others",
    "seconds": "wall time, the one column that is not reproducible",
}


def _summary(experiment: Experiment, rows_of: Callable[[], list[list]], folder: Path) -> pd.DataFrame:
    """The stored table of an experiment, columns as in SUMMARY_COLUMNS; without one, it is made from rows_of() now."""
    first = {name: experiment.key(name, 0) for name in experiment.algorithms}  # the others differ by their number
    key = cache.key({"first runs": first, "n_runs": experiment.n_runs}, summary_row)
    return pd.DataFrame(cache.stored_rows(key, rows_of, folder), columns=list(SUMMARY_COLUMNS))


def summarize(experiment: Experiment, n_jobs: int | str | None = None, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """One row per run of the experiment, columns as in SUMMARY_COLUMNS: read if it is stored, else run now."""
    bar = None if experiment.is_small(experiment.n_runs) else progress(experiment.objective)  # a short one flickers

    def rows() -> list[list]:
        runs = run_experiment(experiment, n_jobs, bar, folder, reduce=summary_row).runs
        return [[*pair, *numbers] for pair, numbers in runs.items()]

    return _summary(experiment, rows, folder)


def summarize_many(
    groups: list[list[Experiment]], n_jobs: int | str | None = None, bar=None, folder: Path = RESULTS_FOLDER
) -> list[list[pd.DataFrame]]:
    """The tables of `summarize` for each experiment, in groups: for tens of thousands of runs, which are not stored.

    One worker makes a group. Experiments of a group that share a problem search for its maxima once. The rows of an
    experiment are stored when it ends. bar(done, total) is called after each group.
    """
    pulls = sum(len(e.pairs) * e.n_clients * e.horizon for group in groups for e in group)
    jobs = [(group, folder) for group in groups]
    return run_in_order(_summarize_group, jobs, n_jobs, bar, here=pulls < FEW_PULLS)


def _summarize_group(group: list[Experiment], folder: Path) -> list[pd.DataFrame]:
    def rows(experiment: Experiment) -> list[list]:
        return [[*pair, *summary_row(experiment.simulate(*pair))] for pair in experiment.pairs]

    return [_summary(experiment, partial(rows, experiment), folder) for experiment in group]


def summary_row(result: Run) -> list:
    """The numbers of one run: the columns of SUMMARY_COLUMNS after the first two."""
    carried = result.communication
    global_regret = math.nan if result.global_regret is None else float(result.global_regret[:, -1].mean())
    return [
        float(result.regret[:, -1].mean()),
        global_regret,
        len(carried),
        int(carried["t"].max()) if len(carried) else 0,
        int(carried["numbers up"].sum() + carried["numbers down"].sum()),
        int(carried["numbers up"].sum()),
        float(result.regret[:, np.searchsorted(result.t, result.t[-1] / 10)].mean()),
        float(result.simple_regret[:, -1].mean()),
        last_phase_share(result),
        result.settings.get("Delta", math.nan),
        result.seconds,
    ]


def last_phase_share(result: Run) -> float:
    """The share of T after a client last deployed another point, mean over the clients.

    That a client deploys another point is inferred from its simple regret, which then changes. It is known at the
    checkpoints only, of which there are at most 500. For phased algorithms this is the share of the last phase, which
    the horizon truncates.
    """
    changes = np.diff(result.simple_regret, axis=1, prepend=np.inf) != 0
    last = result.t[result.t.size - 1 - np.argmax(changes[:, ::-1], axis=1)]
    return float(1 - last.mean() / result.t[-1])


def _regret_of(experiment: Experiment, run: int, algorithm: str | Algorithm, partition_class: type) -> float:
    return float(experiment.simulate(algorithm, run, partition_class).regret[:, -1].mean())
