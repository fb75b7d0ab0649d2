"""Under which reading of the paper do its figures come out as its text says they do?

A *reading* is one choice of all values that the paper leaves open. A *statement* is a sentence of the paper about its
figures, a row in statements.toml. `search` counts, over a declared grid of readings and in few runs, how many
statements hold in the means: it shows where to look, and tests nothing. `confirmation` tests every statement for one
reading on other seeds, with thirty paired runs.

The grid:

| choice                                                  | in the grid                                                |
|---------------------------------------------------------|------------------------------------------------------------|
| noise, T                                                | crossed with everything                                    |
| M, shift and its unit, cells, landmine's noise and axes | moved one at a time, the others at their first values      |
| H_0, the truncated phase, Fed-PNE's competitors         | crossed with each other and with all choices above         |
| HCT's c, FN-UCB's theta_0                               | crossed, too, if M and the problem are at the first values |

Readings with M T above MAX_SEARCH_PULLS are left out: M = 100 has T up to 300,000.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms import ALGORITHMS
from pfpne.paper.claims.claim_tests import c_of_noise, has_stopped_communicating, is_still_communicating
from pfpne.paper.claims.evidence import IDENTICAL_CLIENT_CHANGES
from pfpne.paper.exhibits import variants
from pfpne.paper.run import cache
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.selections import APPENDIX_OBJECTIVES, MAIN_OBJECTIVES, PAPER_ALGORITHMS
from pfpne.paper.run.workers import run_in_order
from pfpne.partition import Partition
from pfpne.problems import make_problem
from pfpne.simulation.record import Run

STATEMENTS_FILE = Path(__file__).with_name("statements.toml")
FIGURE_OBJECTIVES = (*MAIN_OBJECTIVES, *APPENDIX_OBJECTIVES)  # the objectives of the paper's figures

# choice -> its values, our own first. First the choices about the problem, then those about the algorithms.
PROBLEM_CHOICES = {
    "shift": (0.1, 0.05, 0.2),
    "shift's unit": ("width", "own"),  # in units of the domain's width, or the same number in each domain's own units
    "cells": ("random", "cyclic"),
    "landmine's noise": ("as elsewhere", "none"),
    "landmine's axes": ("linear", "log"),
}
ALGORITHM_CHOICES = {
    "H_0": (7, 6),
    "cut phase": ("played", "not begun"),  # the phase that T truncates, in every phased algorithm
    "competitors": ("HCT, Fed1-UCB, FN-UCB", "Fed1-UCB, FN-UCB"),  # the rivals that Fed-PNE is said to beat
    "HCT's c": ("0.1", "by noise"),
    "theta_0": ("fixed", "drifting"),  # FN-UCB's initial network
}
GRID_VALUES = {  # profile -> the values of noise, T and M
    "smoke": {"noise": (1.0,), "T": (500, 1_000), "M": (4, 2)},
    "paper": {
        "noise": ("bernoulli", 0.1, 0.5, 1.0, 2.0),
        "T": (10_000, 100_000, 300_000, 1_000_000),
        "M": (20, 5, 100),
    },
}
SEARCH_SEED = 1  # the figures and the confirmation have seed 0
MAX_SEARCH_PULLS = 30_000_000  # the largest M T in the search
WHOLE_PHASE_VARIANTS = {  # algorithm -> its DEVIATION_VARIANTS row, with which it begins only phases that end by T
    "pf-pne": "whole phases",
    **{name: f"whole phases, {name}" for name in ("fed-pne", "pe", "fed1-ucb")},
}
COMPETITORS = {"HCT, Fed1-UCB, FN-UCB": ("hct-pyxab", "fed1-ucb", "fn-ucb"), "Fed1-UCB, FN-UCB": ("fed1-ucb", "fn-ucb")}
IDENTICAL_FED_PNE = "fed-pne, identical clients"
COUNTED_KINDS = ("difference", "grows", "stops")  # statements of these kinds are counted run by run, not compared
# For these algorithms, results at shorter horizons are read off the run to the longest one.
HORIZON_FREE = tuple(name for name in PAPER_ALGORITHMS if ALGORITHMS[name].ignores_horizon)


@dataclass(frozen=True)
class Statement:
    """A statement of the paper on one objective: a row of statements.toml, whose header explains the fields."""

    id: str
    where_in_paper: str
    quote: str
    hypothesis: str
    objective: str
    kind: str
    our_addition: str = ""
    numerator: str = ""
    denominators: tuple[str, ...] = ()
    than: str = ""
    below: float | None = None
    above: float | None = None
    own_runs: bool = False
    by_design: bool = False

    def holds(self, ratio: float) -> bool:
        """Whether a ratio is within the bounds."""
        return (self.below is None or ratio < self.below) and (self.above is None or ratio > self.above)

    def rivals(self, reading: Reading) -> list[str]:
        """The algorithms in the denominator of the ratio; the reading says which ones "competitors" are."""
        competitors = COMPETITORS[reading["competitors"]]
        return [n for name in self.denominators for n in (competitors if name == "competitors" else [name])]


def read_statements() -> Iterator[Statement]:
    """The statements, in the order of the table."""
    for row in tomllib.loads(STATEMENTS_FILE.read_text(encoding="utf-8"))["statement"]:
        objectives = row.pop("each")
        for objective in objectives:
            named = f"{row['id']}-{objective}" if len(objectives) > 1 or row["id"] == "smallest" else row["id"]
            yield Statement(
                **row | {"id": named, "objective": objective, "denominators": tuple(row.get("denominators", ()))}
            )


def unknown_kind(statement: Statement, where: str) -> ValueError:
    """The error about a statement whose kind a function does not know. where: the function, and its file."""
    return ValueError(
        f"the statement {statement.id!r} has the kind {statement.kind!r}, which {where} does not know. Add it there; "
        'docs/developing.md, "Where things go", lists all places that a new kind needs'
    )


STATEMENTS = tuple(read_statements())
SEARCHED_STATEMENTS = tuple(statement for statement in STATEMENTS if not statement.own_runs)


@dataclass(frozen=True)
class Reading:
    """One value for each choice. noise: the synthetic objectives' noise. T: the horizon. M: the number of clients."""

    noise: float | str
    T: int
    M: int = 20
    problem_choices: dict = field(default_factory=dict)  # the choices of PROBLEM_CHOICES that are not the first value
    algorithm_choices: dict = field(
        default_factory=dict
    )  # the choices of ALGORITHM_CHOICES that are not the first value

    def __getitem__(self, choice: str):
        if choice in PROBLEM_CHOICES:
            return self.problem_choices.get(choice, PROBLEM_CHOICES[choice][0])
        return self.algorithm_choices.get(choice, ALGORITHM_CHOICES[choice][0])

    @property
    def choices(self) -> dict:
        """The value of every choice."""
        return {
            "noise": self.noise,
            "T": self.T,
            "M": self.M,
            **{name: self[name] for name in (*PROBLEM_CHOICES, *ALGORITHM_CHOICES)},
        }

    def experiment(self, objective: str, name: str, seed: int, n_runs: int, T: int | None = None) -> Experiment:
        """The runs of one algorithm on one objective under this reading; identical clients for IDENTICAL_FED_PNE."""
        noise, settings = self.noise, {}
        if objective == "landmine":
            noise = 0.0 if self["landmine's noise"] == "none" else noise
            objective = "landmine-log" if self["landmine's axes"] == "log" else "landmine"
        shift = self["shift"]
        if self["shift's unit"] == "own" and not objective.startswith("landmine"):
            low, high = make_problem(objective, 1).domain[0]
            shift = shift / (high - low)  # a share of the width again, as make_problem has it
        if name == "pf-pne" and self["H_0"] == 6:
            settings = {"Delta": 2.0**-6}
        if name == "hct-pyxab" and self["HCT's c"] == "by noise":
            settings = {"c": c_of_noise(noise)}
        changes = {"shift": shift} if name != IDENTICAL_FED_PNE else IDENTICAL_CLIENT_CHANGES
        algorithm = "fed-pne" if name == IDENTICAL_FED_PNE else name
        scale = {"n_clients": self.M, "horizon": T or self.T, "n_runs": n_runs, "seed": seed, "noise": noise}
        return Experiment(
            objective, algorithms=(algorithm,), **scale, **changes, cells=self["cells"], settings=settings
        )

    def variant(self, name: str) -> str:
        """The row of variants.DEVIATION_VARIANTS that replaces the algorithm under this reading, or ""."""
        algorithm = "fed-pne" if name == IDENTICAL_FED_PNE else name
        if self["cut phase"] == "not begun" and algorithm in WHOLE_PHASE_VARIANTS:
            return WHOLE_PHASE_VARIANTS[algorithm]
        return "drifting" if algorithm == "fn-ucb" and self["theta_0"] == "drifting" else ""


def all_readings(profile: str) -> list[Reading]:
    """Every reading of the search, in the order of the choices."""
    noises, horizons, (M, *others) = (GRID_VALUES[profile][name] for name in ("noise", "T", "M"))
    moved = [{name: value} for name, values in PROBLEM_CHOICES.items() for value in values[1:]]
    problems = [(M, {}), *((other, {}) for other in others), *((M, problem) for problem in moved)]
    readings = []
    for clients, problem in problems:
        first = clients == M and not problem
        free = [name for name in ALGORITHM_CHOICES if first or name not in ("HCT's c", "theta_0")]
        for chosen in itertools.product(*(ALGORITHM_CHOICES[name] for name in free)):
            changed = {name: x for name, x in zip(free, chosen, strict=True) if x != ALGORITHM_CHOICES[name][0]}
            scales = itertools.product(noises, horizons)
            readings += [
                Reading(noise, T, clients, problem, changed) for noise, T in scales if clients * T <= MAX_SEARCH_PULLS
            ]
    return readings


def n_runs_of(reading: Reading) -> int:
    """The paired runs of the search: two with at most 20 clients and the problem's first values, else one."""
    return 1 if reading.problem_choices or reading.M > 20 else 2


# --- the measurements of a run ------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredRuns:
    """The measurements of one algorithm under one reading and objective: one value per run, from `measure_run`.

    regret (n,): R(T)/M. last_round_step (n,): the step of the last round of communication, 0 if there was none.
    n_rounds (n,): the number of rounds.
    """

    regret: np.ndarray
    last_round_step: np.ndarray
    n_rounds: np.ndarray

    @classmethod
    def from_rows(cls, rows: list[list]) -> MeasuredRuns:
        """Make the measurements from one row of `measure_run` per run."""
        return cls(*(np.array(column, dtype=float) for column in zip(*rows, strict=True)))


def measure_stored(experiment: Experiment, run: int, variant: str, horizons: tuple[int, ...], folder: Path) -> list:
    """The values of `measure_run` at each of the horizons of one run.

    They are read if the measurement or the run itself is stored; else the run is simulated now.
    """
    (name,) = experiment.algorithms
    base, algorithm, partition_class = variants.DEVIATION_VARIANTS[variant] if variant else (name, name, Partition)
    key = experiment.key(base, run)
    content = {"run": key, "variant": variant, "horizons": horizons}

    def make() -> list:
        result = None if variant else cache.load_run(key, folder)
        if result is None:
            result = experiment.simulate(algorithm, run, partition_class)
        return [measure_run(result, T) for T in horizons]

    return cache.stored_rows(cache.key(content, measure_run, variants.DEVIATION_VARIANTS.get(variant)), make, folder)


def measure_run(result: Run, T: int) -> list:
    """[R(T)/M, step of the last round until T, rounds until T] of a run whose checkpoints have T among them."""
    steps = result.rounds[result.rounds[:, 0] <= T, 0]
    checkpoint = int(np.searchsorted(result.t, T))
    return [float(result.regret[:, checkpoint].mean()), int(steps[-1]) if len(steps) else 0, len(steps)]


def _wanted(readings: list[Reading]) -> dict:
    """{key of a measurement: (reading, objective, algorithm)} for everything that the readings compare."""
    wanted = {}
    for reading in readings:
        for objective in FIGURE_OBJECTIVES:
            for name in (*PAPER_ALGORITHMS, "pe", IDENTICAL_FED_PNE):
                if name == IDENTICAL_FED_PNE and objective not in ("garland", "rastrigin"):
                    continue
                wanted[_key(reading, objective, name)] = reading, objective, name
    return wanted


def _key(reading: Reading, objective: str, name: str) -> tuple:
    """The part of a reading that decides the runs of an algorithm: readings with equal keys have the same runs."""
    experiment = reading.experiment(objective, name, SEARCH_SEED, n_runs_of(reading))
    settings = tuple(sorted(experiment.settings.items()))
    problem = experiment.objective, experiment.n_clients, experiment.noise, experiment.shift, experiment.common_shift
    scale = experiment.cells_for(*experiment.algorithms), experiment.horizon, experiment.n_runs
    return (*problem, *scale, name, settings, reading.variant(name))


def measure_readings(readings: list[Reading], horizons, n_jobs=None, bar=None, folder: Path = RESULTS_FOLDER) -> dict:
    """Measure all runs that the readings compare, on workers: {key as of `_key`: MeasuredRuns}, run by run."""
    jobs, places = {}, []
    for key, (reading, objective, name) in _wanted(readings).items():
        n, T = n_runs_of(reading), reading.T
        longest = max((x for x in horizons if reading.M * x <= MAX_SEARCH_PULLS), default=T)
        step = max(1, longest // 500)
        at_once = name in HORIZON_FREE and all(x % step == 0 for x in horizons)
        experiment = reading.experiment(objective, name, SEARCH_SEED, n, longest if at_once else T)
        at_horizons = tuple(x for x in horizons if x <= longest) if at_once else (T,)
        for run in range(n):
            job = (experiment.key(*experiment.pairs[run]), reading.variant(name), at_horizons)
            jobs.setdefault(job, (experiment, run, reading.variant(name), at_horizons, folder))
            places.append((key, job, at_horizons.index(T)))
    values = dict(zip(jobs, run_in_order(measure_stored, list(jobs.values()), n_jobs, bar), strict=True))
    measured: dict = {}
    for key, job, k in places:
        measured.setdefault(key, []).append(values[job][k])
    return {key: MeasuredRuns.from_rows(rows) for key, rows in measured.items()}


@functools.cache
def _mean_Delta(objective: str, M: int, shift: float, n_runs: int) -> float:
    """The true Delta, the largest |f-bar* - f_m*|: its mean over the runs of the search."""
    problems = (make_problem(objective, M, shift, seed=SEARCH_SEED, run=run) for run in range(n_runs))
    return float(np.mean([problem.Delta for problem in problems]))


def judge_statement(statement: Statement, reading: Reading, measured: dict) -> tuple[float, bool]:
    """(ratio, whether the statement holds in the means) under a reading, from `measure_readings`.

    The ratio of "grows" and "stops" is the step of the last round over T.
    """

    def measured_of(name: str) -> MeasuredRuns:
        return measured[_key(reading, statement.objective, name)]

    if statement.kind == "ratio":
        smallest = min(measured_of(name).regret.mean() for name in statement.rivals(reading))
        ratio = float(measured_of(statement.numerator).regret.mean() / smallest)
        return ratio, statement.holds(ratio)
    if statement.kind == "difference":
        pair = (reading.experiment(f, "pf-pne", SEARCH_SEED, 1) for f in (statement.objective, statement.than))
        own, other = (_mean_Delta(e.objective, e.n_clients, e.shift, n_runs_of(reading)) for e in pair)
        return own / other, own > other
    fed, pf = measured_of("fed-pne"), measured_of("pf-pne")
    if statement.kind == "grows":
        goes_on = is_still_communicating(fed.last_round_step, pf.last_round_step, reading.T)
        return float((fed.last_round_step / reading.T).mean()), bool(goes_on.all())
    if statement.kind != "stops":
        raise unknown_kind(statement, "judge_statement in readings.py")
    ended = has_stopped_communicating(pf.n_rounds, pf.last_round_step, reading["H_0"], reading.T)
    return float((pf.last_round_step / reading.T).mean()), bool(ended.all())


def search(profile: str, n_jobs=None, bar=None, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Count, for every reading of the grid, how many statements hold in the means.

    Parameters
    ----------
    profile : str
        "smoke" or "paper".
    n_jobs : int or str, optional
        Workers, as in pfpne.paper.run.workers.run_in_order.
    bar : callable, optional
        bar(done, total) is called as runs finish.
    folder : Path
        The folder of stored measurements.

    Returns
    -------
    pandas.DataFrame
        One row per reading: its choices, n (runs), n_held (the number of statements that hold), n_statements (the
        number of statements), held_ids (the ids of those that hold), and one column per statement with its ratio.
    """
    readings = all_readings(profile)
    measured = measure_readings(readings, GRID_VALUES[profile]["T"], n_jobs, bar, folder)
    rows = []
    for reading in readings:
        judged = {statement.id: judge_statement(statement, reading, measured) for statement in SEARCHED_STATEMENTS}
        held = [name for name, (_, holds) in judged.items() if holds]
        head = {
            **reading.choices,
            "n": n_runs_of(reading),
            "n_held": len(held),
            "n_statements": len(SEARCHED_STATEMENTS),
            "held_ids": " ".join(held),
        }
        rows.append(head | {name: ratio for name, (ratio, _) in judged.items()})
    return pd.DataFrame(rows)
