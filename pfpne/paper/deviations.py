"""How much a deviation from the paper changes a curve: R(T)/M under another reading, over R(T)/M under ours.

docs/deviations.md lists the deviations, by number. Some other readings are another setting of a registered algorithm,
or another one; the rest are small variants of the real objects, each with one thing changed, and are played here on
the same problems and the same noise. READINGS has them all; `measure` makes the table of docs/deviations.md.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from pfpne.paper import stats
from pfpne.algorithms.bounds import kept, radius, tau
from pfpne.paper.evidence import Evidence, read_rows, write_rows
from pfpne.paper.experiment import SMALL, Experiment
from pfpne.federation import Batch, Federation, Task
from pfpne.paper.parameters import progress
from pfpne.partition import Partition
from pfpne.algorithms.pf_pne import (
    Elimination,
    FedPNEClient,
    FedPNEServer,
    Kept,
    KeptIndex,
    NodeMeans,
    PFPNEClient,
    PFPNESettings,
    PhasedServer,
    PhasedSettings,
    find,
)
from pfpne.rng import stream
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import gaps
from pfpne.simulation.simulate import simulate
from pfpne.paper.store import source_hash

OBJECTIVES = ("garland", "himmelblau", "rastrigin")
NOISE = "bernoulli"

# --- variants: the real objects, one thing changed ---------------------------------------------------


class VariedClient(PFPNEClient):
    """PF-PNE's client, with an Elimination of its own."""

    elimination = Elimination

    def _run_pe(self, shared, own):
        self._local = self.elimination(self.task, self.settings, 1, shared, own)
        self._begin_local()


class DepthOneServer(PhasedServer):
    """Deviation 3: the server starts at depth 1, with the root's children."""

    def __init__(self, task, settings):
        super().__init__(task, settings)
        self.h, self.index = 1, task.partition.children(1)


class DepthOneElimination(Elimination):
    """Deviation 3: PE starts at depth 1, too."""

    def __init__(self, task, settings, owners, shared, own):
        super().__init__(task, settings, owners, shared, own)
        self.h, self.owner, self.index = 1, np.repeat(self.owner, task.partition.k), task.partition.children(self.index)


class DepthOneClient(VariedClient):
    """Deviation 3: as the server. No partition ends at depth 0 here."""

    elimination = DepthOneElimination

    def _start(self):
        super()._start()
        self._pull_each(1, self.task.partition.children(1))


class FreshClient(VariedClient):
    """Deviation 5: PE takes tau_h new samples of every node that the server eliminated."""

    def _run_pe(self, shared, own):
        drawn = {}
        for h, (index, sums, n) in own.items():
            protected, _ = find(index, shared[h][0])
            drawn[h] = index[protected], sums[:, protected], n
        super()._run_pe(shared, drawn)


class TauServer(PhasedServer):
    """Deviation 6: b takes tau_h for the number of samples, not M ceil(tau_h / M)."""

    def conclude(self, means):
        h, s = self.h, self.settings
        mean = means.mean(axis=0)
        b = np.full(len(mean), radius(tau(h, self._log, s.c, s.nu_1, s.rho), self._log, s.c))  # the change
        keep = kept(mean, b, np.argmax(mean), h, s.nu_1, s.rho)
        index = self.index[keep]
        if h < self.task.partition.max_depth:
            self.h, self.index = self._begin(h + 1, self.task.partition.children(index))
        return self._answer(h, index, mean[keep], b[keep])


class TauFedPNEServer(TauServer, FedPNEServer):
    """Deviation 6, in Fed-PNE."""


class OwnBestClient(VariedClient):
    """Deviation 7: PE's arg max leaves out the protected nodes. A mean of -inf is never the largest, and they stay."""

    def _run_pe(self, shared, own):
        never = {h: (index, np.full(len(mean), -np.inf), b) for h, (index, mean, b) in shared.items()}
        super()._run_pe(never, own)


class WholePhasesClient(VariedClient):
    """Deviation 9: a phase that the horizon would cut is not begun; the best node known is played instead."""

    def _ask(self):
        left = self.task.horizon - self.t
        if self._final is None and self._counts.sum() > left:
            return Batch(self._best, np.array([left]))
        return super()._ask()


class LastElimination(Elimination):
    """Deviation 10: of equal means the largest index wins. The nodes are looked through from the other end."""

    def eliminate(self):
        for name in ("owner", "index", "_sums", "_n", "_protected", "_global"):
            setattr(self, name, getattr(self, name)[::-1])
        done = super().eliminate()
        order = np.lexsort((self.index, self.owner))
        self.owner, self.index = self.owner[order], self.index[order]
        return done


class LastClient(VariedClient):
    """Deviation 10. At the server all b are equal, so there a tie changes nothing that is pulled."""

    elimination = LastElimination


class Mirrored(Partition):
    """The same cells, those of a depth numbered from the other end: increasing index is decreasing, last is first."""

    def box(self, h, i):
        return super().box(h, self.k**h + 1 - np.asarray(i))

    def centers(self, h, i):
        return super().centers(h, self.k**h + 1 - np.asarray(i))


def play_phased(problem, horizon: int, server, client, settings, partition=Partition) -> float:
    """R(T)/M of these objects, driven as simulate drives its own."""
    M = problem.n_clients
    task = Task(partition(problem.domain, max_depth=problem.max_depth), M, horizon, problem.noise)
    clients = [client(task, settings) for _ in range(M)]
    federation = Federation(server(task, settings), clients, up=(NodeMeans,), down=(Kept, KeptIndex))
    streams = noise_streams(problem, problem.seed, problem.run)
    regret = np.zeros(M)
    while federation.running:
        for m, batch in federation.ask():
            values = problem.client_values(m, batch.points)
            regret[m] += gaps(problem.optimum[m], values) @ batch.counts
            federation.tell(m, draw_rewards(values, batch.counts, problem.noise, streams[m]))
    return float(regret.mean())


def play_mirrored(problem, horizon: int, algorithm: str) -> float:
    """R(T)/M of a registered algorithm on the mirrored cells."""
    partition = Mirrored(problem.domain, max_depth=problem.max_depth)
    return float(simulate(algorithm, problem, horizon, partition=partition).regret[:, -1].mean())


def _pf_pne(server, client, **more) -> Callable[..., float]:
    return functools.partial(play_phased, server=server, client=client, settings=PFPNESettings(), **more)


# name -> the algorithm that it is a variant of, and (problem, horizon) -> R(T)/M
VARIANTS = {
    "depth one": ("pf-pne", _pf_pne(DepthOneServer, DepthOneClient)),
    "fresh": ("pf-pne", _pf_pne(PhasedServer, FreshClient)),
    "decreasing": ("pf-pne", _pf_pne(PhasedServer, LastClient, partition=Mirrored)),  # ties as ever
    "tau": ("pf-pne", _pf_pne(TauServer, PFPNEClient)),
    "tau, fed-pne": (
        "fed-pne",
        functools.partial(play_phased, server=TauFedPNEServer, client=FedPNEClient, settings=PhasedSettings()),
    ),
    "own best": ("pf-pne", _pf_pne(PhasedServer, OwnBestClient)),
    "whole phases": ("pf-pne", _pf_pne(PhasedServer, WholePhasesClient)),
    "last": ("pf-pne", _pf_pne(PhasedServer, LastClient)),
    "first child, hct": ("hct", functools.partial(play_mirrored, algorithm="hct")),
    "first child, hct-pyxab": ("hct-pyxab", functools.partial(play_mirrored, algorithm="hct-pyxab")),
}

# --- where the regrets of a reading come from --------------------------------------------------------


def given(algorithm: str, noise=NOISE, **settings):
    """A registered algorithm with these settings; one that is a function is called with M."""

    def regret(evidence: Evidence, objective: str) -> np.ndarray:
        values = {name: value(evidence.n_clients) if callable(value) else value for name, value in settings.items()}
        return evidence.regret(objective, algorithm, noise, evidence.figure_runs, settings=values)

    return regret


def varied(name: str):
    """A variant, played once and kept beside the summaries of the other runs."""

    def regret(evidence: Evidence, objective: str) -> np.ndarray:
        algorithm, n_runs = VARIANTS[name][0], evidence.figure_runs
        experiment = evidence.experiment(objective, (algorithm,), NOISE, n_runs)
        keys = [experiment.key(algorithm, run) for run in range(n_runs)]
        key = hashlib.sha256("".join([*keys, name, source_hash()]).encode()).hexdigest()
        path = evidence.folder / "summaries" / f"{key[:32]}.json"
        rows = read_rows(path)
        if rows is None:
            rows = _play_runs(name, experiment, evidence.n_jobs)
            write_rows(path, rows)
        return np.array(rows)

    return regret


def _play_runs(name: str, experiment: Experiment, n_jobs: int | None) -> list[float]:
    n_runs = experiment.n_runs
    small = n_runs * experiment.n_clients * experiment.horizon < SMALL
    bar = None if small else progress(f"{experiment.objective}, {name}")
    workers = joblib.Parallel(n_jobs=1 if small else n_jobs or os.cpu_count(), return_as="generator")
    regrets = []
    for regret in workers(joblib.delayed(_play_run)(name, experiment, run) for run in range(n_runs)):
        regrets.append(regret)
        if bar is not None:
            bar(len(regrets), n_runs)
    return regrets


def _play_run(name: str, experiment: Experiment, run: int) -> float:
    with threadpool_limits(1):
        return VARIANTS[name][1](experiment.problem(run), experiment.horizon)


def against(algorithm: str, maximum: Callable):
    """The algorithm's own runs, their regret against another maximum (M,) of each client: maximum(problem)."""

    def regret(evidence: Evidence, objective: str) -> np.ndarray:
        n_runs, T = evidence.figure_runs, evidence.horizon
        experiment = evidence.experiment(objective, (algorithm,), NOISE, n_runs)
        problems = [experiment.problem(run) for run in range(n_runs)]
        more = [T * (maximum(problem) - problem.optimum).mean() for problem in problems]
        return evidence.regret(objective, algorithm, NOISE, n_runs) + more

    return regret


def of_a_grid(problem) -> np.ndarray:
    """Each client's largest value (M,) on GRID points from one end of a domain of one dimension to the other."""
    low, high = problem.domain[0]
    return problem.values(np.linspace(low, high, GRID)[:, None]).max(axis=1)


GRID = 1_001


# --- the readings, and what they change ---------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Another reading of what a deviation (its number) is about, and the algorithm that it is compared with.

    regret(evidence, objective): R(T)/M (runs,) under this reading, run by run paired with ours.
    """

    deviation: int
    algorithm: str
    what: str
    regret: Callable[[Evidence, str], np.ndarray]
    objectives: tuple[str, ...] = OBJECTIVES


THEORY = {"c": 2.0, "c_1": lambda M: (2 * M**2) ** (1 / 8)}

READINGS = (
    Reading(1, "pf-pne", "H_0 = 6, one less", given("pf-pne", Delta=2.0**-6)),
    Reading(1, "pf-pne", "the largest h, not the smallest: no transition", given("pf-pne", Delta=0.0)),
    Reading(1, "pf-pne", "the minus sign as printed: no federated stage, which is pe", given("pe")),
    Reading(3, "pf-pne", "start at depth 1", varied("depth one")),
    Reading(5, "pf-pne", "new samples only", varied("fresh")),
    Reading(5, "pf-pne", "nodes pulled in decreasing index", varied("decreasing")),
    Reading(6, "pf-pne", "tau_h samples in b", varied("tau")),
    Reading(6, "fed-pne", "tau_h samples in b", varied("tau, fed-pne")),
    Reading(7, "pf-pne", "the best of the client's own nodes", varied("own best")),
    Reading(8, "pf-pne", "c = 2, c_1 = (2 M^2)^(1/8)", given("pf-pne", **THEORY)),
    Reading(8, "fed-pne", "c = 2, c_1 = (2 M^2)^(1/8)", given("fed-pne", **THEORY)),
    Reading(9, "pf-pne", "no phase is begun that T cuts; the best node is played", varied("whole phases")),
    Reading(10, "pf-pne", "the largest index", varied("last")),
    Reading(10, "hct", "the first child", varied("first child, hct")),
    Reading(10, "hct-pyxab", "the first child", varied("first child, hct-pyxab")),
    Reading(11, "fed-pne", "no expansion: the pulls of pf-pne with Delta = 0", given("pf-pne", Delta=0.0)),
    Reading(14, "pf-pne", "1 for the maximum", against("pf-pne", lambda problem: 1.0), ("garland",)),
    Reading(15, "hct", "hct-pyxab", given("hct-pyxab")),
    Reading(16, "pf-pne", f"the maximum of a grid of {GRID:,} points", against("pf-pne", of_a_grid), ("garland",)),
    Reading(17, "pf-pne", "uniform noise on ±0.1", given("pf-pne", 0.1)),
    Reading(17, "pf-pne", "uniform noise on ±2", given("pf-pne", 2.0)),
)

COLUMNS = ("deviation", "algorithm", "other reading", "objective", "runs", "ratio", "low", "high")


def measure(evidence: Evidence) -> pd.DataFrame:
    """A row a reading and objective. ratio: mean R(T)/M, other reading over ours; low, high: its 95 % interval."""
    rows = []
    for reading in READINGS:
        for objective in reading.objectives:
            ours = evidence.regret(objective, reading.algorithm, NOISE, evidence.figure_runs)
            other = reading.regret(evidence, objective)
            rng = stream(evidence.seed, "deviations", reading.deviation, reading.algorithm, reading.what, objective)
            head = (reading.deviation, reading.algorithm, reading.what, objective, len(ours))
            rows.append((*head, *stats.ratio(other, ours, rng)))
    return pd.DataFrame(rows, columns=COLUMNS)
