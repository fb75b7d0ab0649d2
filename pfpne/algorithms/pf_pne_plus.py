"""PF-PNE+: federate while it is measurably harmless, then let each client search alone on the tree that is left.

Ours. Stage 1 is PF-PNE's (pf_pne.py), with constants that follow the measured noise, and ends where the clients are
seen to differ; stage 2 is HCT (hct.py), begun on the tree that stage 1 leaves. No Delta and no noise has to be known.
What each client is guaranteed, and what is sent: docs/pf-pne-plus.md. HCT-noise is stage 2 alone, from the root.

| symbol                  | here           | meaning                                                             |
|-------------------------|----------------|---------------------------------------------------------------------|
| sigma^2                 | noise          | variance of a reward, from the pulls of the root; of a binary one,  |
|                         |                | from the means of the nodes that stay                               |
| c_sigma                 | c_of           | confidence constant that the noise asks for, in stage 2             |
| n                       | n              | a client's pulls of a node in stage 1                               |
| het^2                   | het2           | variance across clients of their objectives at the nodes that stay  |
| W                       | worth          | what the others' mean of a node counts for, in pulls of one's own   |

The parts, each with a switch in the settings (off but for shared_means: PF-PNE): noise_aware, heterogeneity_test,
optimistic, shared_means, free_descent, early_descent.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pfpne.algorithms.hct import NODE, HCTSettings, Theory, TreeClient, TreeSettings, epoch, hct_theory, refresh
from pfpne.algorithms.pf_pne import (
    Elimination,
    Kept,
    NodeMeans,
    PFPNESettings,
    PhasedServer,
    pulls_each,
    radius,
    transition_depth,
)
from pfpne.algorithms.phases import PhasedClient, Phases, Pull, find
from pfpne.federation import Batch, Task
from pfpne.messages import Awaited, Message, integers, numbers
from pfpne.validation import check, check_scale

ROOT_PULLS = 8  # times more than PF-PNE's: enough for a variance
LEAST_C, C_PER_SIGMA = 0.05, 0.7
LEAST_C_TOGETHER, C_PER_SIGMA_TOGETHER = 0.02, 0.2  # in stage 1: what it eliminates is not lost if stage 2 comes
EARLY_RHO = 0.7
EARLY_RHO_TOGETHER = 0.65  # in stage 1
STANDARD_ERRORS = 3
LEAST_ERROR = 1e-12
PARTS = {  # the switches, in words
    "noise_aware": "noise-aware constants",
    "heterogeneity_test": "heterogeneity test",
    "optimistic": "optimistic second stage",
    "shared_means": "shared means",
    "free_descent": "free descent",
    "early_descent": "early descent",
}


@dataclass(frozen=True)
class PlusSettings(PFPNESettings):
    """Constants of pf-pne, Delta used without the test alone, and a switch a part."""

    noise_aware: bool = True  # c follows the noise: max(0.02, 0.2 sigma) in stage 1, c_sigma in stage 2; else c
    heterogeneity_test: bool = True  # stage 1 ends where the clients differ; else at Delta's H_0
    optimistic: bool = True  # stage 2 is HCT; else PE
    shared_means: bool = True  # stage 2 begins with what the others measured; else with the client's own alone
    free_descent: bool = True  # the nodes that stage 1 went through are not pulled up to HCT's thresholds
    early_descent: bool = True  # stage 1 has 0.65 for rho, HCT's thresholds 0.7, if that is more; else rho

    def __post_init__(self):
        super().__post_init__()
        for name in PARTS:
            check(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))


@dataclass(frozen=True)
class NoiseHCTSettings(TreeSettings):
    """Constants of hct-noise: nu_1, rho and delta of hct, and the one part of PF-PNE+ that needs no federation."""

    delta: float = HCTSettings.delta
    early_descent: bool = False  # HCT's thresholds have 0.7 for rho, if that is more

    def __post_init__(self):
        super().__post_init__()
        check_scale("delta", self.delta, high=1)
        check(isinstance(self.early_descent, bool), "early_descent", "True or False", self.early_descent)


@dataclass(frozen=True, eq=False)
class RootStatistics(Message):
    """Up, at depth 0: the client's mean (1,) of the root, and the sample variance (1,) of its rewards there."""

    means: np.ndarray = numbers(1, statistic="mean")
    variances: np.ndarray = numbers(1, low=0, statistic="variance")


@dataclass(frozen=True, eq=False)
class Shared(Message):
    """Down: the nodes of K^h that stay, the global mean of each of K^h, sigma^2 and het^2 so far, 1 or 0: go on?"""

    index: np.ndarray = integers("kept")
    means: np.ndarray = numbers("n", statistic="mean")
    variances: np.ndarray = numbers(2, low=0, statistic="variance")
    going: np.ndarray = integers(1, high=1)


def c_of(noise: float) -> float:
    """c_sigma of the variance of a reward."""
    return max(LEAST_C, C_PER_SIGMA * math.sqrt(noise))


def together(s: PlusSettings, noise: float) -> PlusSettings:
    """The settings of stage 1 at the next depth, from the noise at the last."""
    c = max(LEAST_C_TOGETHER, C_PER_SIGMA_TOGETHER * math.sqrt(noise)) if s.noise_aware else s.c
    return replace(s, c=c, rho=early(s, EARLY_RHO_TOGETHER))


def early(s: PlusSettings | NoiseHCTSettings, rho: float = EARLY_RHO) -> float:
    """The rho that says how soon to go deeper."""
    return max(s.rho, rho) if s.early_descent else s.rho


def alone(s: PlusSettings | NoiseHCTSettings, c: float, task: Task, **more) -> Theory:
    """The constants of HCT with this c, its thresholds those of early descent."""
    settings = [HCTSettings(s.nu_1, rho, c, **more) for rho in (s.rho, early(s))]
    bounds, sooner = (hct_theory(each, task.partition, task.horizon) for each in settings)
    return bounds._replace(threshold=sooner.threshold)


def binary_noise(means: np.ndarray, n: int) -> float:
    """sigma^2 of rewards that are 0 or 1, from the clients' means (M, nodes) of n pulls each: it follows from them."""
    pulls, mean = n * len(means), means.mean(axis=0)
    return float(np.mean(mean * (1 - mean)) * pulls / max(1, pulls - 1))


def heterogeneity(means: np.ndarray, n: int, noise: float, binary: bool) -> tuple[float, float]:
    """het^2, as the clients' means (M, nodes) of n pulls each show it, and its precision, 1 / its variance at het = 0.

    The variance across clients, less sigma^2 / n. binary_noise holds het^2, too, so that 1 - 1/n of it are left to see.
    """
    M, nodes = means.shape
    spread = float(np.var(means, axis=0, ddof=1).mean()) if M > 1 else 0.0
    return excess_of(spread, M, nodes, n, noise, binary)


def excess_of(spread: float, M: int, nodes: int, n: int, noise: float, binary: bool) -> tuple[float, float]:
    """The same from the variance across M clients of their means, the mean of it over the nodes."""
    share = 1 - 1 / n if binary else 1.0
    if M == 1 or share == 0:
        return 0.0, 0.0
    return (spread - noise / n) / share, (M - 1) * nodes / 2 * (share / max(noise / n, LEAST_ERROR)) ** 2


def worth(n: int, M: int, noise: float, het2: float) -> float:
    """W = sigma^2 / variance, in pulls, of the mean over the other M - 1 clients, n pulls each, as one of f_m there.

    Its variance: of M - 1 and of one client around the mean of all, het^2 M / (M - 1), and sigma^2 / (n (M - 1)).
    """
    return n * (M - 1) * (noise / (noise + n * M * het2) if het2 > 0 else 1.0)


# --- the clients ---------------------------------------------------------------------------------------


class Search(NamedTuple):
    """What a loop ends with: from now on each client is alone, on its tree. Each is made when its turn comes."""

    trees: Iterator[TreeClient]


def pull_root(S: int, n: int):
    """Pull the root n times, pull by pull; returns the clients' means (S, 1) and sample variances (S, 1)."""
    root = np.ones(S * n, dtype=np.int64)
    rewards = yield Pull(0, np.repeat(np.arange(S), n), root, root)
    rewards = rewards.reshape(S, n)
    return rewards.mean(axis=1, keepdims=True), rewards.var(axis=1, ddof=1, keepdims=True)


class PFPNEPlus(Elimination):
    """Both stages."""

    answers = (Shared,)

    def loop(self):
        s, task, k, shared, own, depths, t = self.settings, self.task, self.task.partition.k, {}, {}, [], 1
        (h, index), parents, going = self.start(task), None, True
        while going:
            if h == 0:
                n = min(ROOT_PULLS * pulls_each(0, self.log, s, task.n_clients), task.horizon + 1)
                means, variances = yield from pull_root(self.S, n)
                answer = yield RootStatistics(0, means, variances)
            else:
                sums, n = yield from self.pull_each(h, index)
                means = sums / n
                answer = yield NodeMeans(h, means)
            t, going = t + n * len(index), bool(answer.going[0])
            depths.append((index, parents, means, n, answer))
            kept = find(answer.index, index)[1]
            b = np.full(len(kept), radius(n * task.n_clients, self.log, self.settings.c))
            own[h], shared[h] = (index, means * n, n), (answer.index, answer.means[kept], b)
            self.settings = together(s, answer.variances[0])
            if going or not s.optimistic:
                best = answer.index[np.argmax(answer.means[kept])]
                yield from self.finish(h, np.arange(self.S), np.full(self.S, best))
            h, index, parents = h + 1, task.partition.children(answer.index), np.repeat(kept, k)
        if not s.optimistic:
            yield from self.pe(shared if s.shared_means else {}, own)
        noise, het2 = answer.variances  # where the search now is
        depths = [(index, parents, *self.known(means, n, of, het2)) for index, parents, means, n, of in depths]
        theory, (index, _, means, _) = alone(s, c_of(noise) if s.noise_aware else s.c, task), depths[-1]
        self.best = task.partition.centers(h - 1, index[means.argmax(axis=1)])
        yield Search(grown(task, theory, depths, m, t, s.free_descent) for m in range(self.S))

    def known(self, means: np.ndarray, n: int, answer: Shared, het2: float) -> tuple[np.ndarray, float]:
        """What stage 2 begins with: the means (S, n) of a depth's nodes, and the pulls that each counts for."""
        M, noise = self.task.n_clients, answer.variances[0]
        if not self.settings.shared_means or M == 1:
            return means, n
        others, W = (M * answer.means - means) / (M - 1), worth(n, M, noise, het2)
        return (n * means + W * others) / (n + W), n + W


class HCTNoise(Phases):
    """Each client alone, its c from its own pulls of the root."""

    def loop(self):
        s, task = self.settings, self.task
        _, variances = yield from pull_root(self.S, ROOT_PULLS)
        every = (alone(s, c_of(noise), task, delta=s.delta) for noise in variances[:, 0])
        yield Search(grown(task, theory, [], 0, 1 + ROOT_PULLS, False) for theory in every)


def grown(task: Task, theory: Theory, depths: list, m: int, t: int, free: bool) -> TreeClient:
    """Client m's tree at step t, with the nodes of these depths, known to it: their U and B are of what is known.

    depths: (index, parents, means (S, n), count) for h = 0, 1, ...; parents (n,): positions in the depth above. The one
    to deploy is HCT's among those that it pulls itself: a depth that stage 1 reached is not always pulled again.
    """
    tree, k, at, above = TreeClient(task, theory), theory.k, 0, 0
    size = max(sum(len(index) for index, *_ in depths), tree.state[0]["size"])
    node = np.zeros(size + k, NODE)
    node[: len(tree.node)] = tree.node[: len(node)]
    for h, (index, parents, means, count) in enumerate(depths):
        rows = node[at : at + len(index)]
        rows["depth"], rows["index"], rows["count"], rows["total"] = h, index, count, count * means[m]
        if h > 0:
            rows["parent"], rows["child"] = above + parents, -1
            node["child"][rows["parent"][::k]] = np.arange(at, at + len(index), k)
            node["free"][rows["parent"]] = free
        above, at = at, at + len(index)
    tree.node, tree.t = node, t - 1
    tree.state[0] = (t, epoch(t), size, 0, -1, 0)
    refresh(tree.node, tree.state, theory)
    return tree


class PlusClient(PhasedClient):
    """One client: as in the phases, then on its tree."""

    tree: TreeClient | None = None

    def _go_on(self, value) -> None:
        super()._go_on(value)
        if isinstance(self._step, Search):
            (self.tree,) = self._step.trees

    def _ask(self) -> Batch:
        return super()._ask() if self.tree is None else self.tree._ask()

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        return super()._tell(batch, rewards) if self.tree is None else self.tree._tell(batch, rewards)

    def best(self) -> np.ndarray:
        """As in the phases, the centre (d,); then the tree's, once it has made a step of its own."""
        alone = self.tree is not None and self.tree.state[0]["t"] > self.tree.t + 1
        return self.tree.best() if alone else super().best()


# --- the server ----------------------------------------------------------------------------------------


class PlusServer(PhasedServer):
    """PF-PNE's, which learns of the noise at the root, and ends stage 1 where the clients differ."""

    takes = (RootStatistics, NodeMeans)
    noise: float | None = None  # at the root
    binary = False  # whether all rewards there were 0 or 1
    evidence = 0.0, 0.0  # of all depths so far: the sum of het^2 times its precision, and that of the precisions
    going = True  # until then

    def awaits(self, m: int) -> Awaited:
        if not self.going:
            return Awaited(self.heard)
        if self.noise is None:
            return super().awaits(m)
        return replace(super().awaits(m), kind=NodeMeans, bounds=self.task.bounds(NodeMeans))

    def deepest(self):
        return self.task.partition.max_depth

    def conclude(self, means: np.ndarray, variances: np.ndarray | None = None) -> Shared:
        """One phase: from the clients' means (M, n) of K^h, and variances (M, 1) of the root, to the broadcast."""
        index, n = self.index, pulls_each(self.h, self.log, self.settings, self.task.n_clients)
        if variances is not None:
            n, self.noise = n * ROOT_PULLS, float(variances.mean())
            of_binary = means * (1 - means) * n / (n - 1)  # the most that the variance of rewards in [0, 1] can be
            self.binary = bool(self.noise > 0 and np.allclose(variances, of_binary, atol=0))
        kept = super().conclude(means)
        staying = means[:, find(kept.index, index)[1]]
        noise = binary_noise(staying, n) if self.binary else self.noise
        return self.decide(kept, means.mean(axis=0), noise, *heterogeneity(staying, n, noise, self.binary))

    def decide(self, kept: Kept, mean: np.ndarray, noise: float, found: float, precision: float) -> Shared:
        """Whether the clients go on together below the nodes kept, from het^2 as this depth shows it; the broadcast."""
        h, s, M = kept.header, self.settings, self.task.n_clients
        self.evidence = self.evidence[0] + found * precision, self.evidence[1] + precision
        het2 = self.evidence[0] / self.evidence[1] if self.evidence[1] > 0 else 0.0
        surely = het2 - STANDARD_ERRORS / math.sqrt(self.evidence[1]) if het2 > 0 else 0.0
        alike = surely <= (s.nu_1 * s.rho**h) ** 2
        if not s.heterogeneity_test:
            alike = h < transition_depth(s.Delta, s.nu_1, s.rho)
        self.settings = together(s, noise)
        self.going = alike and M > 1 and h < self.task.partition.max_depth
        return Shared(h, kept.index, mean, [noise, max(0.0, het2)], [int(self.going)])
