"""How much a deviation from the paper changes a curve: R(T)/M under another reading, over R(T)/M under ours.

docs/deviations.md lists the deviations, by number, and has the table that `measure` makes of READINGS. The classes are
VARIANTS of our algorithms, with one thing changed, which `simulate` runs on the same problems and the same noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from pfpne.algorithms import Algorithm
from pfpne.algorithms.pf_pne import PFPNE, FedPNE, FedPNEServer, Kept, KeptIndex, NodeMeans, PFPNESettings
from pfpne.algorithms.pf_pne import PhasedClient, PhasedServer, PhasedSettings, Pull, find, make_phased, tau
from pfpne.federation import Batch
from pfpne.paper import stats
from pfpne.paper.evidence import Study
from pfpne.partition import Partition
from pfpne.rng import stream

OBJECTIVES = ("garland", "himmelblau", "rastrigin")
NOISE = "bernoulli"


class DepthOne(PFPNE):
    """Deviation 3: server, clients and PE start at depth 1, with the root's children. No partition ends at depth 0."""

    @staticmethod
    def start(task):
        return 1, task.partition.children(1)


class DepthOneServer(PhasedServer):
    start_at = staticmethod(DepthOne.start)


class Fresh(PFPNE):
    """Deviation 5: PE takes tau_h new samples of every node that the server eliminated."""

    def pe(self, shared, own):
        protected = {h: find(index, shared[h][0])[0] for h, (index, *_) in own.items()}
        drawn = {h: (index[protected[h]], sums[:, protected[h]], n) for h, (index, sums, n) in own.items()}
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
        return len(values) - 1 - PFPNE.arg_max(values[::-1], len(values) - ends[::-1])[::-1]


class Mirrored(Partition):
    """The same cells, those of a depth numbered from the other end: increasing index is decreasing, last is first."""

    def box(self, h, i):
        return super().box(h, self.k**h + 1 - np.asarray(i))

    def centers(self, h, i):
        return super().centers(h, self.k**h + 1 - np.asarray(i))


def _pf_pne(phases=PFPNE, server=PhasedServer, client=PhasedClient) -> Algorithm:
    return Algorithm(PFPNESettings, partial(make_phased, phases, server, client=client), (NodeMeans,), (Kept,))


_FED_PNE = Algorithm(PhasedSettings, partial(make_phased, FedPNE, TauFedPNEServer), (NodeMeans,), (KeptIndex,))

# name -> the algorithm that it is a variant of, what simulate runs, on which partition
VARIANTS = {
    "depth one": ("pf-pne", _pf_pne(DepthOne, DepthOneServer), Partition),
    "fresh": ("pf-pne", _pf_pne(Fresh), Partition),
    "decreasing": ("pf-pne", _pf_pne(Last), Mirrored),  # ties as ever
    "tau": ("pf-pne", _pf_pne(server=TauServer), Partition),
    "tau, fed-pne": ("fed-pne", _FED_PNE, Partition),
    "own best": ("pf-pne", _pf_pne(OwnBest), Partition),
    "whole phases": ("pf-pne", _pf_pne(client=WholePhasesClient), Partition),
    "last": ("pf-pne", _pf_pne(Last), Partition),
    "first child, hct": ("hct", "hct", Mirrored),
    "first child, hct-pyxab": ("hct-pyxab", "hct-pyxab", Mirrored),
}


@dataclass(frozen=True)
class Reading:
    """Another reading of what a deviation (its number) is about, and the algorithm that it is compared with.

    It is a variant, a row of VARIANTS; or a registered algorithm, the same if no other is named, under another noise or
    with other settings (one that is a function is called with M); or the same runs, their regret against another
    maximum of each client, maximum(problem), one for all or (M,).
    """

    deviation: int
    algorithm: str
    what: str
    variant: str = ""
    other: str = ""
    noise: float | str = NOISE
    settings: dict = field(default_factory=dict)
    maximum: Callable | None = None
    objectives: tuple[str, ...] = OBJECTIVES

    def regret(self, study: Study, objective: str) -> np.ndarray:
        """R(T)/M (runs,) under this reading, run by run paired with ours."""
        n_runs = study.figure_runs
        if self.variant:
            root = (__name__, "VARIANTS", self.variant)
            return study.variant(objective, *VARIANTS[self.variant], NOISE, n_runs, root)
        settings = {name: x(study.n_clients) if callable(x) else x for name, x in self.settings.items()}
        regret = study.regret(objective, self.other or self.algorithm, self.noise, n_runs, settings=settings)
        if self.maximum is None:
            return regret
        experiment = study.experiment(objective, (self.algorithm,), NOISE, n_runs)
        problems = [experiment.problem(run) for run in range(n_runs)]
        return regret + [study.horizon * (self.maximum(problem) - problem.optimum).mean() for problem in problems]


def of_a_grid(problem) -> np.ndarray:
    """Each client's largest value (M,) on GRID points from one end of a domain of one dimension to the other."""
    low, high = problem.domain[0]
    return problem.values(np.linspace(low, high, GRID)[:, None]).max(axis=1)


GRID = 1_001
THEORY = {"c": 2.0, "c_1": lambda M: (2 * M**2) ** (1 / 8)}

READINGS = (
    Reading(1, "pf-pne", "H_0 = 6, one less", settings={"Delta": 2.0**-6}),
    Reading(1, "pf-pne", "the largest h, not the smallest: no transition", settings={"Delta": 0.0}),
    Reading(1, "pf-pne", "the minus sign as printed: no federated stage, which is pe", other="pe"),
    Reading(3, "pf-pne", "start at depth 1", "depth one"),
    Reading(5, "pf-pne", "new samples only", "fresh"),
    Reading(5, "pf-pne", "nodes pulled in decreasing index", "decreasing"),
    Reading(6, "pf-pne", "tau_h samples in b", "tau"),
    Reading(6, "fed-pne", "tau_h samples in b", "tau, fed-pne"),
    Reading(7, "pf-pne", "the best of the client's own nodes", "own best"),
    Reading(8, "pf-pne", "c = 2, c_1 = (2 M^2)^(1/8)", settings=THEORY),
    Reading(8, "fed-pne", "c = 2, c_1 = (2 M^2)^(1/8)", settings=THEORY),
    Reading(9, "pf-pne", "no phase is begun that T cuts; the best node is played", "whole phases"),
    Reading(10, "pf-pne", "the largest index", "last"),
    Reading(10, "hct", "the first child", "first child, hct"),
    Reading(10, "hct-pyxab", "the first child", "first child, hct-pyxab"),
    Reading(11, "fed-pne", "no expansion: the pulls of pf-pne with Delta = 0", other="pf-pne", settings={"Delta": 0.0}),
    Reading(14, "pf-pne", "1 for the maximum", maximum=lambda problem: 1.0, objectives=("garland",)),
    Reading(15, "hct", "hct-pyxab", other="hct-pyxab"),
    Reading(16, "pf-pne", f"the maximum of a grid of {GRID:,} points", maximum=of_a_grid, objectives=("garland",)),
    Reading(17, "pf-pne", "uniform noise on ±0.1", noise=0.1),
    Reading(17, "pf-pne", "uniform noise on ±2", noise=2.0),
)
COLUMNS = ("deviation", "algorithm", "other reading", "objective", "runs", "ratio", "low", "high")


def measure(study: Study) -> pd.DataFrame:
    """A row a reading and objective. ratio: mean R(T)/M, other reading over ours; low, high: its 95 % interval."""
    rows = []
    for reading in READINGS:
        for objective in reading.objectives:
            head = (reading.deviation, reading.algorithm, reading.what, objective)
            ours = study.regret(objective, reading.algorithm, NOISE, study.figure_runs)
            ratio = stats.ratio(reading.regret(study, objective), ours, stream(study.seed, "deviations", *head))
            rows.append((*head, len(ours), *ratio))
    return pd.DataFrame(rows, columns=COLUMNS)
