"""PF-PNE+: federate while it is measurably harmless, then let each client search alone on the tree that is left.

Ours. Stage 1 is PF-PNE's (pf_pne.py), with constants that follow the measured noise, and ends where the clients are
seen to differ; stage 2 is HCT (hct.py), begun on the tree that stage 1 leaves. No Delta and no noise has to be known.
What each client is guaranteed, and what is sent: docs/pf-pne-plus.md. HCT-noise is stage 2 alone, from the root.

| symbol  | here                | meaning                                                                              |
|---------|---------------------|--------------------------------------------------------------------------------------|
| sigma^2 | variance            | variance of a reward, from the pulls of the root; of a binary one, from kept nodes   |
| c_sigma | confidence_constant | the confidence constant that the noise asks for, in stage 2                          |
| n       | n                   | a client's pulls of a node in stage 1                                                |
| het^2   | het2                | variance across clients of their objectives at the nodes kept                        |
| W       | equivalent_pulls    | how many pulls of its own the others' mean of a node is worth to a client            |

Each part has a switch in the settings: noise_aware, heterogeneity_test, optimistic, shared_means, free_descent,
early_descent. With all but shared_means off, this is PF-PNE.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pfpne.algorithms.hct import (
    NODE,
    HCTConstants,
    HCTSettings,
    TreeClient,
    TreeSettings,
    epoch_of,
    hct_constants,
    refresh,
)
from pfpne.algorithms.pf_pne import (
    Elimination,
    Kept,
    NodeMeans,
    PFPNESettings,
    PhasedServer,
    n_pulls_per_client,
    radius,
    transition_depth,
)
from pfpne.algorithms.phases import PhasedAlgorithm, PhasedClient, Pull, lookup_sorted
from pfpne.federation import Batch, Task
from pfpne.messages import Awaited, Message, integer_array, number_array
from pfpne.validation import check, check_scale

ROOT_PULLS = 8  # how many times more often than by PF-PNE the root is pulled: enough to estimate a variance
MIN_C, C_PER_SIGMA = 0.05, 0.7
MIN_C_STAGE1, C_PER_SIGMA_STAGE1 = 0.02, 0.2  # in stage 1, whose eliminations stage 2 can undo
EARLY_RHO = 0.7
EARLY_RHO_STAGE1 = 0.65
STANDARD_ERRORS = 3  # by which het^2 must exceed what is harmless
MIN_ERROR = 1e-12
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
    """Constants of pf-pne (Delta is used only without the heterogeneity test), and one switch for each part."""

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
    """Constants of hct-noise: nu_1, rho and delta of hct, and one part of PF-PNE+ that needs no federation."""

    delta: float = HCTSettings.delta
    early_descent: bool = False  # HCT's thresholds have 0.7 for rho, if that is more

    def __post_init__(self):
        super().__post_init__()
        check_scale("delta", self.delta, high=1)
        check(isinstance(self.early_descent, bool), "early_descent", "True or False", self.early_descent)


@dataclass(frozen=True, eq=False)
class RootStatistics(Message):
    """Up, at depth 0: the client's mean (1,) of the root, and the sample variance (1,) of its rewards there."""

    means: np.ndarray = number_array(1, statistic="mean")
    variances: np.ndarray = number_array(1, low=0, statistic="variance")


@dataclass(frozen=True, eq=False)
class SharedStatistics(Message):
    """Down: the nodes of K^h that stay, the global means of all of K^h, sigma^2 and het^2 so far, 1 to go on."""

    index: np.ndarray = integer_array("kept")
    means: np.ndarray = number_array("n", statistic="mean")
    variances: np.ndarray = number_array(2, low=0, statistic="variance")
    continues: np.ndarray = integer_array(1, high=1)


def confidence_constant(variance: float) -> float:
    """Return c_sigma, from the variance of a reward."""
    return max(MIN_C, C_PER_SIGMA * math.sqrt(variance))


def stage1_settings(s: PlusSettings, variance: float) -> PlusSettings:
    """Return the settings of stage 1 at the next depth, from the variance of a reward at the last one."""
    c = max(MIN_C_STAGE1, C_PER_SIGMA_STAGE1 * math.sqrt(variance)) if s.noise_aware else s.c
    return replace(s, c=c, rho=threshold_rho(s, EARLY_RHO_STAGE1))


def threshold_rho(s: PlusSettings | NoiseHCTSettings, early_rho: float = EARLY_RHO) -> float:
    """Return the rho of the thresholds: at least early_rho under early_descent, so that they are lower."""
    return max(s.rho, early_rho) if s.early_descent else s.rho


def hct_constants_for(s: PlusSettings | NoiseHCTSettings, c: float, task: Task, **settings) -> HCTConstants:
    """Return HCT's constants with this c, and with thresholds that follow early_descent."""
    plain, early = (
        hct_constants(HCTSettings(s.nu_1, rho, c, **settings), task.partition, task.horizon)
        for rho in (s.rho, threshold_rho(s))
    )
    return plain._replace(threshold=early.threshold)


def binary_variance(means: np.ndarray, n: int) -> float:
    """Return sigma^2 of rewards that are 0 or 1, which follows from the clients' means (M, nodes) of n pulls each."""
    pulls, mean = n * len(means), means.mean(axis=0)
    return float(np.mean(mean * (1 - mean)) * pulls / max(1, pulls - 1))


def heterogeneity(means: np.ndarray, n: int, variance: float, binary: bool) -> tuple[float, float]:
    """Estimate het^2 from the clients' means (M, nodes) of n pulls each.

    Returned are the estimate, the variance across clients less sigma^2 / n, and its precision: 1 / its variance where
    het = 0.
    """
    M, nodes = means.shape
    variance_across_clients = float(np.var(means, axis=0, ddof=1).mean()) if M > 1 else 0.0
    return heterogeneity_from_variance(variance_across_clients, M, nodes, n, variance, binary)


def heterogeneity_from_variance(
    variance_across_clients: float, M: int, nodes: int, n: int, variance: float, binary: bool
) -> tuple[float, float]:
    """Do as `heterogeneity`, from the variance across M clients of their means, averaged over the nodes.

    `binary_variance` contains het^2, too, so that with binary rewards only the share 1 - 1/n of it is seen.
    """
    share = 1 - 1 / n if binary else 1.0
    if M == 1 or share == 0:
        return 0.0, 0.0
    het2 = (variance_across_clients - variance / n) / share
    return het2, (M - 1) * nodes / 2 * (share / max(variance / n, MIN_ERROR)) ** 2


def equivalent_pulls(n: int, M: int, variance: float, het2: float) -> float:
    """Return W, the pulls of its own that the mean of the other M - 1 clients is worth to a client.

    W is sigma^2, the variance of a reward, over that of this mean of n pulls each as an estimate of f_m. The latter has
    two parts: that of M - 1 clients and of one around the mean of all, het^2 M / (M - 1), and sigma^2 / (n (M - 1)).
    """
    return n * (M - 1) * (variance / (variance + n * M * het2) if het2 > 0 else 1.0)


# --- the clients ---------------------------------------------------------------------------------------


class OwnTrees(NamedTuple):
    """The last thing that a loop yields: one tree per client, on which it goes on alone; each is made when taken."""

    trees: Iterator[TreeClient]


class FinishedDepth(NamedTuple):
    """A depth that stage 1 has gone through."""

    index: np.ndarray  # (n,): its nodes
    parents: np.ndarray | None  # (n,): the positions of their parents in the depth above; None at the root
    means: np.ndarray  # (S, n): the clients' means
    n: int  # pulls of each node by each client
    c: float  # the confidence constant there
    answer: SharedStatistics

    @property
    def kept_positions(self) -> np.ndarray:
        """The positions of the nodes that the server kept."""
        return lookup_sorted(self.answer.index, self.index)[1]


def pull_root(S: int, n: int):
    """Pull the root n times, pull by pull; return the clients' means (S, 1) and sample variances (S, 1)."""
    root = np.ones(S * n, dtype=np.int64)
    rewards = yield Pull(0, np.repeat(np.arange(S), n), root, root)
    rewards = rewards.reshape(S, n)
    return rewards.mean(axis=1, keepdims=True), rewards.var(axis=1, ddof=1, keepdims=True)


class PFPNEPlus(Elimination):
    """Federated elimination, then one HCT for each client, on the tree that is left."""

    receives = (SharedStatistics,)

    def loop(self):
        s = self.settings
        depths, t = yield from self.stage_1()
        if not s.optimistic:
            yield from self.stage_2_by_elimination(depths)
        yield self.stage_2(s, depths, t)

    def stage_1(self):
        """Search together until the server ends it; return the depths gone through, and the next step's number."""
        s, task, depths, t = self.settings, self.task, [], 1
        (h, index), parents, continues = self.first_nodes(task), None, True
        while continues:
            if h == 0:
                n = min(ROOT_PULLS * n_pulls_per_client(0, self.log_term, s, task.n_clients), task.horizon + 1)
                means, variances = yield from pull_root(self.S, n)
                answer = yield RootStatistics(0, means, variances)
            else:
                sums, n = yield from self.pull_all_nodes(h, index)
                means = sums / n
                answer = yield NodeMeans(h, means)
            depth = FinishedDepth(index, parents, means, n, self.settings.c, answer)
            depths.append(depth)
            t, continues = t + n * len(index), bool(answer.continues[0])
            self.settings = stage1_settings(s, answer.variances[0])
            if continues or not s.optimistic:
                best = answer.index[np.argmax(answer.means[depth.kept_positions])]
                yield from self.finish_depth(h, np.arange(self.S), np.full(self.S, best))
            h, parents = h + 1, np.repeat(depth.kept_positions, task.partition.k)
            index = task.partition.children(answer.index)
        return depths, t

    def stage_2_by_elimination(self, depths: list[FinishedDepth]):
        """Run PE, which protects what stage 1 kept if means are shared."""
        kept_by_server, drawn = {}, {}
        for h, (index, _, means, n, c, answer) in enumerate(depths):
            b = np.full(len(answer.index), radius(n * self.task.n_clients, self.log_term, c))
            kept_by_server[h] = answer.index, answer.means[depths[h].kept_positions], b
            drawn[h] = index, means * n, n
        yield from self.pe(kept_by_server if self.settings.shared_means else {}, drawn)

    def stage_2(self, s: PlusSettings, depths: list[FinishedDepth], t: int) -> OwnTrees:
        """Return the clients' trees at step t, each with what is known of the nodes of stage 1."""
        variance, het2 = depths[-1].answer.variances  # where the search now is
        known = [(d.index, d.parents, *self.pool_with_global(d.means, d.n, d.answer, het2)) for d in depths]
        constants = hct_constants_for(s, confidence_constant(variance) if s.noise_aware else s.c, self.task)
        index, _, means, _ = known[-1]
        self.best = self.task.partition.centers(len(depths) - 1, index[means.argmax(axis=1)])
        return OwnTrees(warm_start_tree(self.task, constants, known, m, t, free=s.free_descent) for m in range(self.S))

    def pool_with_global(
        self, means: np.ndarray, n: int, answer: SharedStatistics, het2: float
    ) -> tuple[np.ndarray, float]:
        """Return what stage 2 begins with: pooled means (S, nodes), and how many pulls each of them counts for."""
        M, variance = self.task.n_clients, answer.variances[0]
        if not self.settings.shared_means or M == 1:
            return means, n
        others, W = (M * answer.means - means) / (M - 1), equivalent_pulls(n, M, variance, het2)
        return (n * means + W * others) / (n + W), n + W


class HCTNoise(PhasedAlgorithm):
    """Each client alone on HCT, with a c that follows from its own pulls of the root."""

    def loop(self):
        s, task = self.settings, self.task
        _, variances = yield from pull_root(self.S, ROOT_PULLS)
        constants = (hct_constants_for(s, confidence_constant(x), task, delta=s.delta) for x in variances[:, 0])
        yield OwnTrees(warm_start_tree(task, own, [], 0, 1 + ROOT_PULLS, free=False) for own in constants)


def warm_start_tree(task: Task, constants: HCTConstants, depths: list, m: int, t: int, free: bool) -> TreeClient:
    """Return client m's tree at step t, which holds the nodes of some depths with what is known of them.

    depths: (index, parents, means (S, n), count) for h = 0, 1, ..., each mean counting for so many pulls; parents (n,)
    are positions in the depth above. free: the search goes deeper below the thresholds there. The node to deploy is the
    best of those that HCT pulls itself: it does not pull every depth of stage 1 again.
    """
    tree, k, first, first_above = TreeClient(task, constants), constants.k, 0, 0
    size = max(sum(len(index) for index, *_ in depths), tree.state[0]["size"])
    node = np.zeros(size + k, NODE)
    node[: len(tree.node)] = tree.node[: len(node)]
    for h, (index, parents, means, count) in enumerate(depths):
        rows = node[first : first + len(index)]
        rows["depth"], rows["index"], rows["count"], rows["total"] = h, index, count, count * means[m]
        if h > 0:
            rows["parent"], rows["child"] = first_above + parents, -1
            node["child"][rows["parent"][::k]] = np.arange(first, first + len(index), k)
            node["free"][rows["parent"]] = free
        first_above, first = first, first + len(index)
    tree.node, tree.t = node, t - 1
    tree.state[0] = (t, epoch_of(t), size, 0, -1, 0)
    refresh(tree.node, tree.state, constants)
    return tree


class PlusClient(PhasedClient):
    """One client: as in the phases, then on its tree."""

    tree: TreeClient | None = None

    def _go_on(self, value) -> None:
        super()._go_on(value)
        if isinstance(self._step, OwnTrees):
            (self.tree,) = self._step.trees

    def _ask(self) -> Batch:
        return super()._ask() if self.tree is None else self.tree._ask()

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        return super()._tell(batch, rewards) if self.tree is None else self.tree._tell(batch, rewards)

    def best(self) -> np.ndarray:
        """As in the phases, the centre (d,); then the tree's, once it has made a step of its own."""
        if self.tree is not None and self.tree.state[0]["t"] > self.tree.t + 1:
            return self.tree.best()
        return super().best()


# --- the server ----------------------------------------------------------------------------------------


class PlusServer(PhasedServer):
    """PF-PNE's server, which also learns the noise at the root, and ends stage 1 where the clients differ.

    root_variance: sigma^2 at the root. binary: whether all rewards there were 0 or 1. het_sums: over all depths so far,
    the sum of het^2 times its precision, and that of the precisions. continues: False once stage 1 has ended.
    """

    receives = (RootStatistics, NodeMeans)
    tolerates_missing = False
    root_variance: Any = None
    binary = False
    het_sums = 0.0, 0.0
    continues = True

    def awaits(self, m: int) -> Awaited:
        if not self.continues:
            return Awaited(self.concluded_depth)
        if self.root_variance is None:
            return super().awaits(m)
        return replace(super().awaits(m), kind=NodeMeans, ranges=self.task.statistic_ranges(NodeMeans))

    def rewards_in_means(self) -> int:
        return super().rewards_in_means() * (ROOT_PULLS if self.root_variance is None else 1)

    def last_federated_depth(self):
        return self.task.partition.max_depth

    def conclude(self, means: np.ndarray, variances: np.ndarray | None = None) -> SharedStatistics:
        """Conclude a phase, from the clients' means (M, n) of K^h, and their variances (M, 1) at the root."""
        index, n = self.index, n_pulls_per_client(self.h, self.log_term, self.settings, self.task.n_clients)
        if variances is not None:
            n, self.root_variance = n * ROOT_PULLS, float(variances.mean())
            if_binary = means * (1 - means) * n / (n - 1)  # the largest variance that rewards in [0, 1] can have
            self.binary = bool(self.root_variance > 0 and np.allclose(variances, if_binary, atol=0))
        kept = super().conclude(means)
        kept_means = means[:, lookup_sorted(kept.index, index)[1]]
        variance = binary_variance(kept_means, n) if self.binary else self.root_variance
        return self.decide(kept, means.mean(axis=0), variance, *heterogeneity(kept_means, n, variance, self.binary))

    def decide(self, kept: Kept, mean: np.ndarray, variance: float, het2: float, precision: float) -> SharedStatistics:
        """Decide whether the clients go on together, from het^2 as this depth shows it; return the broadcast."""
        h, s, M = kept.header, self.settings, self.task.n_clients
        weighted, precisions = self.het_sums[0] + het2 * precision, self.het_sums[1] + precision
        self.het_sums = weighted, precisions
        estimate = weighted / precisions if precisions > 0 else 0.0
        lower_bound = estimate - STANDARD_ERRORS / math.sqrt(precisions) if estimate > 0 else 0.0
        goes_on = lower_bound <= (s.nu_1 * s.rho**h) ** 2
        if not s.heterogeneity_test:
            goes_on = h < transition_depth(s.Delta, s.nu_1, s.rho)
        self.settings = stage1_settings(s, variance)
        self.continues = goes_on and M > 1 and h < self.task.partition.max_depth
        variances, continues = np.array([variance, max(0.0, estimate)]), np.array([int(self.continues)])
        return SharedStatistics(h, kept.index, mean, variances, continues)
