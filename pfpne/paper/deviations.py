"""How much a deviation from the paper changes a curve: R(T)/M under another reading, over R(T)/M under ours.

docs/deviations.md lists the deviations, by number. Some other readings are another setting of a registered algorithm,
or another one; the rest are small subclasses with one thing changed, which `simulate` runs on the same problems and
the same noise. READINGS has them all; `measure` makes the table of docs/deviations.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from pfpne.algorithms import Algorithm
from pfpne.algorithms.pf_pne import (
    PFPNE,
    FedPNE,
    FedPNEServer,
    Kept,
    KeptIndex,
    NodeMeans,
    PFPNESettings,
    PhasedClient,
    PhasedServer,
    PhasedSettings,
    Pull,
    find,
    make_phased,
    tau,
)
from pfpne.federation import Batch
from pfpne.paper import stats
from pfpne.paper.evidence import Study
from pfpne.partition import Partition
from pfpne.rng import stream

OBJECTIVES = ("garland", "himmelblau", "rastrigin")
NOISE = "bernoulli"

# --- variants: one thing changed ----------------------------------------------------------------------


class DepthOne(PFPNE):
    """Deviation 3: server, clients and PE start at depth 1, with the root's children. No partition ends at depth 0."""

    @staticmethod
    def start(task):
        return 1, task.partition.children(1)


class DepthOneServer(PhasedServer):
    """Deviation 3."""

    start_at = staticmethod(DepthOne.start)


class Fresh(PFPNE):
    """Deviation 5: PE takes tau_h new samples of every node that the server eliminated."""

    def pe(self, shared, own):
        drawn = {}
        for h, (index, sums, n) in own.items():
            protected, _ = find(index, shared[h][0])
            drawn[h] = index[protected], sums[:, protected], n
        return super().pe(shared, drawn)


class TauServer(PhasedServer):
    """Deviation 6: b takes tau_h for the number of samples, not M ceil(tau_h / M)."""

    def samples(self, h):
        return tau(h, self.log, self.settings.c, self.settings.nu_1, self.settings.rho)


class TauFedPNEServer(TauServer, FedPNEServer):
    """Deviation 6, in Fed-PNE."""


class OwnBest(PFPNE):
    """Deviation 7: PE's arg max leaves out the protected nodes. A mean of -inf is never the largest, and they stay."""

    def pe(self, shared, own):
        never = {h: (index, np.full(len(mean), -np.inf), b) for h, (index, mean, b) in shared.items()}
        return super().pe(never, own)


class WholePhasesClient(PhasedClient):
    """Deviation 9: a phase that the horizon would cut is not begun; the best node known is played instead."""

    def _ask(self):
        left = self.task.horizon - self.t
        if isinstance(self._step, Pull) and self._step.counts.sum() > left:
            return Batch(self.best()[None], np.array([left]))
        return super()._ask()


class Last(PFPNE):
    """Deviation 10: of equal means the largest index wins. The server's b are equal: there a tie changes no pull."""

    @staticmethod
    def arg_max(values, start):
        ends = np.append(start[1:], len(values))
        top = np.repeat(np.maximum.reduceat(values, start), ends - start)
        at = np.flatnonzero(values == top)
        return at[np.searchsorted(at, ends) - 1]


class Mirrored(Partition):
    """The same cells, those of a depth numbered from the other end: increasing index is decreasing, last is first."""

    def box(self, h, i):
        return super().box(h, self.k**h + 1 - np.asarray(i))

    def centers(self, h, i):
        return super().centers(h, self.k**h + 1 - np.asarray(i))


def _pf_pne(phases=PFPNE, server=PhasedServer, client=PhasedClient) -> Algorithm:
    return Algorithm(PFPNESettings, partial(make_phased, phases, server, client=client), (NodeMeans,), (Kept,))


# name -> the algorithm that it is a variant of, what simulate runs, on which partition
VARIANTS = {
    "depth one": ("pf-pne", _pf_pne(DepthOne, DepthOneServer), Partition),
    "fresh": ("pf-pne", _pf_pne(Fresh), Partition),
    "decreasing": ("pf-pne", _pf_pne(Last), Mirrored),  # ties as ever
    "tau": ("pf-pne", _pf_pne(server=TauServer), Partition),
    "tau, fed-pne": (
        "fed-pne",
        Algorithm(PhasedSettings, partial(make_phased, FedPNE, TauFedPNEServer), (NodeMeans,), (KeptIndex,)),
        Partition,
    ),
    "own best": ("pf-pne", _pf_pne(OwnBest), Partition),
    "whole phases": ("pf-pne", _pf_pne(client=WholePhasesClient), Partition),
    "last": ("pf-pne", _pf_pne(Last), Partition),
    "first child, hct": ("hct", "hct", Mirrored),
    "first child, hct-pyxab": ("hct-pyxab", "hct-pyxab", Mirrored),
}

# --- where the regrets of a reading come from --------------------------------------------------------


def given(algorithm: str, noise=NOISE, **settings):
    """A registered algorithm with these settings; one that is a function is called with M."""

    def regret(study: Study, objective: str) -> np.ndarray:
        values = {name: value(study.n_clients) if callable(value) else value for name, value in settings.items()}
        return study.regret(objective, algorithm, noise, study.figure_runs, settings=values)

    return regret


def varied(name: str):
    """A variant, run once and kept beside the summaries of the other runs."""

    def regret(study: Study, objective: str) -> np.ndarray:
        base, algorithm, partition = VARIANTS[name]
        root = (__name__, "VARIANTS", name)
        return study.variant(objective, base, algorithm, partition, NOISE, study.figure_runs, root)

    return regret


def against(algorithm: str, maximum: Callable):
    """The algorithm's own runs, their regret against another maximum (M,) of each client: maximum(problem)."""

    def regret(study: Study, objective: str) -> np.ndarray:
        n_runs, T = study.figure_runs, study.horizon
        experiment = study.experiment(objective, (algorithm,), NOISE, n_runs)
        problems = [experiment.problem(run) for run in range(n_runs)]
        more = [T * (maximum(problem) - problem.optimum).mean() for problem in problems]
        return study.regret(objective, algorithm, NOISE, n_runs) + more

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

    regret(study, objective): R(T)/M (runs,) under this reading, run by run paired with ours.
    """

    deviation: int
    algorithm: str
    what: str
    regret: Callable[[Study, str], np.ndarray]
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


def measure(study: Study) -> pd.DataFrame:
    """A row a reading and objective. ratio: mean R(T)/M, other reading over ours; low, high: its 95 % interval."""
    rows = []
    for reading in READINGS:
        for objective in reading.objectives:
            ours = study.regret(objective, reading.algorithm, NOISE, study.figure_runs)
            other = reading.regret(study, objective)
            rng = stream(study.seed, "deviations", reading.deviation, reading.algorithm, reading.what, objective)
            head = (reading.deviation, reading.algorithm, reading.what, objective, len(ours))
            rows.append((*head, *stats.ratio(other, ours, rng)))
    return pd.DataFrame(rows, columns=COLUMNS)
