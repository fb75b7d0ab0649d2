"""PF-PNE+: federate while it is measurably harmless, then let each client search alone on the tree that is left.

Ours. Stage 1 is PF-PNE's (pf_pne.py), with constants that follow the measured noise, and ends where the clients are
seen to differ; stage 2 is HCT (hct.py), begun on the tree that stage 1 leaves. No Delta and no noise has to be known.
What each client is guaranteed, and what is sent: docs/pf-pne-plus.md. HCT-noise is stage 2 alone, from the root.

| symbol  | here                | meaning                                                                              |
|---------|---------------------|--------------------------------------------------------------------------------------|
| sigma^2 | variance            | variance of a reward where the search is now                                         |
| c_sigma | confidence_constant | the confidence constant that the noise asks for, in stage 2                          |
| n       | n                   | a client's pulls of a node in stage 1                                                |
| K^h     | index               | the nodes of depth h that stage 1 pulls                                              |
| het^2   | het2                | variance across clients of their objectives at the nodes of K^h                      |
| W       | equivalent_pulls    | how many pulls of its own the others' mean of a node is worth to a client            |

Each part has a switch in the settings: noise_aware, heterogeneity_test, optimistic, shared_means, own_check,
free_descent, early_descent. With all but shared_means off, this is PF-PNE.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

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
PIECES = 8  # into so many parts the pulls of a node are split, whose means tell the noise
PRIOR_PULLS = 4  # for so many pulls counts what was known of the noise at the depth above
MIN_C, C_PER_SIGMA = 0.05, 0.5
MIN_C_STAGE1, C_PER_SIGMA_STAGE1 = 0.01, 0.2  # in stage 1, whose eliminations stage 2 can undo
EARLY_RHO = 0.7
EARLY_RHO_STAGE1 = 0.63
STANDARD_ERRORS = 3  # by which het^2 must exceed what is harmless, and a client's mean must differ from the others'
MIN_ERROR = 1e-12
DECIMALS = 12  # of het^2 as it is sent, so that it is the same where only sums are known
LOUD = 10  # times the variance of the quieter half: a client above it weighs less
OWN_NOISE = 4  # times sigma^2, or a part of it: a client whose variance is beyond has a c_sigma of its own
QUIET = 0.03  # sigma below which there is nothing to average
FEW_CLIENTS = 3  # so many clients, or fewer, search together for T^(2/3) steps at most
PARTS_IN_WORDS = {  # the switches
    "noise_aware": "noise-aware constants",
    "heterogeneity_test": "heterogeneity test",
    "optimistic": "optimistic second stage",
    "shared_means": "shared means",
    "own_check": "own check",
    "free_descent": "free descent",
    "early_descent": "early descent",
}


@dataclass(frozen=True)
class PlusSettings(PFPNESettings):
    """Constants of pf-pne (Delta is used only without the heterogeneity test), a switch for each part, and safe."""

    noise_aware: bool = True  # c follows the noise: max(0.01, 0.2 sigma) in stage 1, c_sigma in stage 2; else c
    heterogeneity_test: bool = True  # stage 1 ends where the clients differ; else at Delta's H_0
    optimistic: bool = True  # stage 2 is HCT; else PE
    shared_means: bool = True  # stage 2 begins with what the others measured; else with the client's own alone
    own_check: bool = True  # but not at nodes where that differs from the client's own by three errors
    free_descent: bool = True  # the nodes that stage 1 went through are not pulled up to HCT's thresholds
    early_descent: bool = True  # stage 1 has 0.63 for rho, HCT's thresholds 0.7, if that is more; else rho
    safe: bool = False  # no part: stage 1 has T^(2/3) steps at most; stage 2 begins with the client's own pulls alone

    def __post_init__(self):
        super().__post_init__()
        for name in (*PARTS_IN_WORDS, "safe"):
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
class DepthStatistics(Message):
    """Up: the client's mean of every node of K^h, the variance of its rewards, and 1 if all of them were 0 or 1."""

    means: np.ndarray = number_array("n", statistic="mean")
    variances: np.ndarray = number_array(1, low=0, statistic="variance")
    binary: np.ndarray = integer_array(1, high=1)


@dataclass(frozen=True, eq=False)
class SharedStatistics(Message):
    """Down: the nodes of K^h that stay, the global means of all of K^h, and what the server has found.

    variances: sigma^2, het^2 so far, and the variance above which a client weighs less, 0 if all weigh the same.
    weights: the sum of the clients' weights. continues: 1 to go on together.
    """

    index: np.ndarray = integer_array("kept")
    means: np.ndarray = number_array("n", statistic="mean")
    variances: np.ndarray = number_array(3, low=0, statistic="variance")
    weights: np.ndarray = number_array(1, low=0)
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


def binary_variance(mean: np.ndarray, pulls: int) -> float:
    """Return sigma^2 of rewards that are 0 or 1, from the global means (nodes,) of so many pulls each.

    It is never 0, as a few equal rewards do not tell that there is no noise. It is at least what Jeffreys' prior makes
    of no success in all these pulls.
    """
    rare = 0.5 / (pulls * len(mean) + 1)
    return max(rare * (1 - rare), float(np.mean(mean * (1 - mean))) * pulls / max(1, pulls - 1))


def heterogeneity(spread: float, M: int, nodes: int, n: int, variance: float, binary: bool) -> tuple[float, float]:
    """Estimate het^2 from the spread: the variance across M clients of their means of n pulls, averaged over the nodes.

    Returned are the estimate, the spread less sigma^2 / n, and its precision: 1 / its variance where het = 0.
    `binary_variance` contains het^2, too, so that with binary rewards only the share 1 - 1/n of it is seen.
    """
    share = 1 - 1 / n if binary else 1.0
    if M < 2 or share == 0:
        return 0.0, 0.0
    het2 = (spread - variance / n) / share
    return het2, (M - 1) * nodes / 2 * (share / max(variance / n, MIN_ERROR)) ** 2


def weights_of(variances: np.ndarray, limit: float) -> np.ndarray:
    """Return the weights (M,) of clients with these variances: less than 1 above the limit, if there is one."""
    return np.minimum(1.0, limit / np.maximum(variances, MIN_ERROR)) if limit > 0 else np.ones(len(variances))


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
    variances: np.ndarray  # (S,): of the clients' rewards, as far as they knew it then
    c: float  # the confidence constant there
    answer: SharedStatistics

    @property
    def kept_positions(self) -> np.ndarray:
        """The positions of the nodes that the server kept."""
        return lookup_sorted(self.answer.index, self.index)[1]


def pull_root(S: int, n: int):
    """Pull the root n times, pull by pull; return the rewards (S, n)."""
    root = np.ones(S * n, dtype=np.int64)
    rewards = yield Pull(0, np.repeat(np.arange(S), n), root, root)
    return rewards.reshape(S, n)


def all_binary(rewards: np.ndarray) -> np.ndarray:
    """Return which clients' rewards (S, n) are all 0 or 1, (S,)."""
    return np.all((rewards == 0) | (rewards == 1), axis=1)


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
        self.variances, self.binary = np.zeros(self.S), np.ones(self.S, dtype=bool)
        while continues:
            means, n = yield from self.sample_root() if h == 0 else self.sample_in_pieces(h, index)
            answer = yield DepthStatistics(h, means, self.variances[:, None], self.binary[:, None].astype(np.int64))
            depth = FinishedDepth(index, parents, means, n, self.variances, self.settings.c, answer)
            depths.append(depth)
            t, continues = t + n * len(index), bool(answer.continues[0])
            self.settings = stage1_settings(s, answer.variances[0])
            if continues or not s.optimistic:
                best = answer.index[np.argmax(answer.means[depth.kept_positions])]
                yield from self.finish_depth(h, np.arange(self.S), np.full(self.S, best))
            h, parents = h + 1, np.repeat(depth.kept_positions, task.partition.k)
            index = task.partition.children(answer.index)
        return depths, t

    def sample_root(self):
        """Pull the root; return the clients' means (S, 1) and the number of pulls, and learn the noise there."""
        n = ROOT_PULLS * n_pulls_per_client(0, self.log_term, self.settings, self.task.n_clients)
        rewards = yield from pull_root(self.S, min(n, self.task.horizon + 1))
        self.binary, self.variances = all_binary(rewards), rewards.var(axis=1, ddof=1)
        return rewards.mean(axis=1, keepdims=True), rewards.shape[1]

    def sample_in_pieces(self, h: int, index: np.ndarray):
        """Pull each node of K^h in up to PIECES pieces; return the means (S, n nodes) and the pulls of each node.

        The noise is learnt from how much the means of a node's pieces differ. Rewards are taken for binary as long as
        the sums of all pieces are whole numbers that binary rewards could have; then the variance stays that of the
        root, and the server finds sigma^2 from the means.
        """
        self.index = index
        n = min(n_pulls_per_client(h, self.log_term, self.settings, self.task.n_clients), self.task.horizon + 1)
        pieces = min(n, PIECES)
        size = np.full(pieces, n // pieces) + (np.arange(pieces) < n % pieces)
        owner, nodes = np.repeat(np.arange(self.S), len(index) * pieces), np.tile(np.repeat(index, pieces), self.S)
        sums = yield Pull(h, owner, nodes, np.tile(size, self.S * len(index)))
        sums = sums.reshape(self.S, len(index), pieces)
        means = sums.sum(axis=2) / n
        self.binary = self.binary & np.all((sums == np.round(sums)) & (sums >= 0) & (sums <= size), axis=(1, 2))
        if pieces > 1:
            deviations = (sums / size - means[:, :, None]) ** 2 * size
            here = deviations.sum(axis=2).mean(axis=1) / (pieces - 1)  # the mean over the nodes of unbiased variances
            degrees = len(index) * (pieces - 1)
            updated = (degrees * here + PRIOR_PULLS * self.variances) / (degrees + PRIOR_PULLS)
            low, high = self.task.reward_limits
            self.variances = np.where(self.binary, self.variances, np.minimum(updated, (high - low) ** 2))
        return means, n

    def stage_2_by_elimination(self, depths: list[FinishedDepth]):
        """Run PE, which protects what stage 1 kept if means are shared."""
        kept_by_server, drawn = {}, {}
        for h, depth in enumerate(depths):
            kept, n = depth.answer.index, depth.n
            b = np.full(len(kept), radius(n * self.task.n_clients, self.log_term, depth.c))
            kept_by_server[h] = kept, depth.answer.means[depth.kept_positions], b
            drawn[h] = depth.index, depth.means * n, n
        yield from self.pe(kept_by_server if self.settings.shared_means and not self.settings.safe else {}, drawn)

    def stage_2(self, s: PlusSettings, depths: list[FinishedDepth], t: int) -> OwnTrees:
        """Return the clients' trees at step t, each with what is known of the nodes of stage 1."""
        variance, het2, _ = depths[-1].answer.variances  # where the search now is
        known = [(d.index, d.parents, *self.pool_with_global(d, het2)) for d in depths]
        index, _, means, _ = known[-1]
        self.best = self.task.partition.centers(len(depths) - 1, index[means.argmax(axis=1)])

        def tree(m: int) -> TreeClient:
            own = float(self.variances[m])
            differs = not self.binary[m] and not variance / OWN_NOISE <= own <= variance * OWN_NOISE
            if s.safe and self.binary[m]:
                own = max(own, binary_variance(np.zeros(1), depths[0].n))
            c = confidence_constant(own if differs or s.safe else variance) if s.noise_aware else s.c
            constants = hct_constants_for(s, c, self.task)
            return warm_start_tree(self.task, constants, known, m, t, free=s.free_descent and not s.safe)

        return OwnTrees(tree(m) for m in range(self.S))

    def pool_with_global(self, depth: FinishedDepth, het2: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what stage 2 begins with at a depth: means (S, nodes), and the pulls (S, nodes) that they count for.

        They are pooled with the means of the other clients, except where these differ too much from the client's own.
        """
        s, M, n, means = self.settings, self.task.n_clients, depth.n, depth.means
        variance, _, limit = depth.answer.variances
        own_counts = np.full(means.shape, float(n))
        if not s.shared_means or s.safe or M == 1:
            return means, own_counts
        weight, total = weights_of(depth.variances, limit)[:, None], depth.answer.weights[0]
        others = (total * depth.answer.means - weight * means) / np.maximum(total - weight, MIN_ERROR)
        W = equivalent_pulls(n, M, variance, het2)
        pooled, counts = (n * means + W * others) / (n + W), own_counts + W
        if s.own_check:
            error = np.sqrt(np.maximum(variance, depth.variances)[:, None] / n + variance / (n * (M - 1)))
            differs = np.abs(means - others) > STANDARD_ERRORS * error
            pooled, counts = np.where(differs, means, pooled), np.where(differs, own_counts, counts)
        return pooled, counts


class HCTNoise(PhasedAlgorithm):
    """Each client alone on HCT, with a c that follows from its own pulls of the root."""

    def loop(self):
        s, task = self.settings, self.task
        rewards = yield from pull_root(self.S, ROOT_PULLS)
        variances, binary = rewards.var(axis=1, ddof=1), all_binary(rewards)
        least = np.where(binary, binary_variance(np.zeros(1), ROOT_PULLS), 0.0)  # where all are 0, or all are 1
        variances = np.maximum(variances, least)
        constants = (hct_constants_for(s, confidence_constant(x), task, delta=s.delta) for x in variances)
        yield OwnTrees(warm_start_tree(task, own, [], 0, 1 + ROOT_PULLS, free=False) for own in constants)


def warm_start_tree(task: Task, constants: HCTConstants, depths: list, m: int, t: int, free: bool) -> TreeClient:
    """Return client m's tree at step t, which holds the nodes of some depths with what is known of them.

    depths: (index, parents, means (S, n), counts (S, n)) for h = 0, 1, ..., each mean counting for so many pulls;
    parents (n,) are positions in the depth above. free: the search goes deeper below the thresholds there. The node to
    deploy is the best of those that HCT pulls itself: it does not pull every depth of stage 1 again.
    """
    tree, k, first, first_above = TreeClient(task, constants), constants.k, 0, 0
    size = max(sum(len(index) for index, *_ in depths), tree.state[0]["size"])
    node = np.zeros(size + k, NODE)
    node[: len(tree.node)] = tree.node[: len(node)]
    for h, (index, parents, means, counts) in enumerate(depths):
        rows = node[first : first + len(index)]
        rows["depth"], rows["index"], rows["count"], rows["total"] = h, index, counts[m], counts[m] * means[m]
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


class Pooled(NamedTuple):
    """What the server makes of the clients' statistics at a depth, or is told of them where they are masked."""

    mean: np.ndarray  # (n,): the global means of K^h
    variance: float  # sigma^2: of a reward, times how much more a global mean varies where clients weigh differently
    mean_variance: float  # the plain mean of the clients' variances
    binary: bool  # whether all rewards of this depth were 0 or 1
    spread: float  # the variance across clients of their means, averaged over the nodes
    n_compared: int  # across how many clients
    compared_variance: float  # the mean of these clients' variances
    limit: float = 0.0  # the variance above which a client weighs less; 0 if all weigh the same
    total_weight: float = 0.0  # the sum of the weights


class PlusServer(PhasedServer):
    """PF-PNE's server, which also learns the noise, and ends stage 1 where the clients differ or need no others.

    binary: whether all rewards so far were 0 or 1. het_sums: over all depths so far, the sum of het^2 times its
    precision, and that of the precisions. n_steps: a client's pulls so far. continues: False once stage 1 has ended.
    """

    receives = (DepthStatistics,)
    tolerates_missing = False
    binary = True
    het_sums = 0.0, 0.0
    n_steps = 0
    continues = True

    def awaits(self, m: int) -> Awaited:
        return super().awaits(m) if self.continues else Awaited(self.concluded_depth)

    def rewards_in_means(self) -> int:
        return super().rewards_in_means() * (ROOT_PULLS if self.h == 0 else 1)

    def last_federated_depth(self):
        return self.task.partition.max_depth

    def conclude(self, means: np.ndarray, variances: np.ndarray, binary: np.ndarray) -> SharedStatistics:
        """Conclude a phase, from the clients' means (M, n) of K^h, variances (M, 1), and binary (M, 1)."""
        variances, is_binary, M = variances[:, 0], bool(binary.all()), len(means)
        weighs = self.settings.noise_aware and not (self.binary and is_binary)
        low, high = self.task.reward_limits
        limit = min(LOUD * float(np.sort(variances)[(M - 1) // 2]), (high - low) ** 2) if weighs else 0.0
        weights = weights_of(variances, limit)
        total, compared = float(weights.sum()), weights == 1
        mean = (weights[:, None] * means).sum(axis=0) / total
        variance = M * float((weights**2 * variances).sum()) / total**2
        spread = float(np.var(means[compared], axis=0, ddof=1).mean()) if compared.sum() > 1 else 0.0
        compared_variance = float(variances[compared].mean()) if compared.any() else 0.0
        clients = spread, int(compared.sum()), compared_variance
        return self.decide(Pooled(mean, variance, float(variances.mean()), is_binary, *clients, limit, total))

    def decide(self, pooled: Pooled) -> SharedStatistics:
        """Decide which nodes stay, and whether the clients go on together; return the broadcast."""
        index, h, M, n = self.index, self.h, self.task.n_clients, self.rewards_in_means()
        self.binary, self.n_steps = self.binary and pooled.binary, self.n_steps + n * len(index)
        kept = super().conclude(pooled.mean[None])
        variance, compared_variance = pooled.variance, pooled.compared_variance
        if self.binary:
            kept_means = pooled.mean[lookup_sorted(kept.index, index)[1]]
            variance, compared_variance = (binary_variance(mean, n * M) for mean in (kept_means, pooled.mean))
        het2, precision = heterogeneity(pooled.spread, pooled.n_compared, len(index), n, compared_variance, self.binary)
        self.het_sums = self.het_sums[0] + het2 * precision, self.het_sums[1] + precision
        weighted, precisions = self.het_sums
        estimate = weighted / precisions if precisions > 0 else 0.0
        self.settings = stage1_settings(self.settings, variance)
        goes_on = self.goes_on(h, estimate, precisions, pooled.mean_variance, len(kept.index))
        self.continues = goes_on and M > 1 and h < self.task.partition.max_depth
        variances = np.array([variance, round(max(0.0, estimate), DECIMALS), pooled.limit])
        weights, continues = np.array([pooled.total_weight or M]), np.array([int(self.continues)])
        return SharedStatistics(h, kept.index, pooled.mean, variances, weights, continues)

    def goes_on(self, h: int, het2: float, precision: float, mean_variance: float, n_kept: int) -> bool:
        """Return whether stage 1 goes on after depth h: clients may agree, rewards are noisy, and there is time."""
        s, task = self.settings, self.task
        if not s.heterogeneity_test:
            agree = h < transition_depth(s.Delta, s.nu_1, s.rho)
        else:
            lower_bound = het2 - STANDARD_ERRORS / math.sqrt(precision) if het2 > 0 else 0.0
            is_quiet = h == 0 and not self.binary and mean_variance < QUIET**2
            agree = lower_bound <= (s.nu_1 * s.rho**h) ** 2 and not is_quiet
        if s.safe or (s.heterogeneity_test and task.n_clients <= FEW_CLIENTS):
            next_phase = task.partition.k * n_kept * n_pulls_per_client(h + 1, self.log_term, s, task.n_clients)
            agree = agree and self.n_steps + next_phase <= task.horizon ** (2 / 3)
        return agree
