"""PF-PNE+: federate while it is measurably harmless, then let each client search alone on the tree that is left.

Ours. Stage 1 is PF-PNE's (pf_pne.py) with constants that follow the measured noise. It ends at the depth where a test
finds that the clients differ. Stage 2 is HCT (hct.py), warm-started on the tree of stage 1, or with gaussian_process a
search by a Gaussian process on this tree (gp_tree.py). Neither Delta nor the noise has to be known. For guarantees and
messages see docs/pf-pne-plus.md. HCT-noise is stage 2 alone, from the root.

| symbol  | here                | meaning                                                                              |
|---------|---------------------|--------------------------------------------------------------------------------------|
| sigma^2 | variance            | variance of a reward at the current depth                                            |
| c_sigma | confidence_constant | the confidence constant that the noise asks for, in stage 2                          |
| n       | n                   | a client's pulls of a node in stage 1                                                |
| K^h     | index               | the nodes of depth h that stage 1 pulls                                              |
| het^2   | het2                | variance across clients of their objectives at the nodes of K^h                      |
| W       | equivalent_pulls    | the number of own pulls that the other clients' mean of a node is worth to a client  |

Each part has a switch in the settings: noise_aware, heterogeneity_test, optimistic, shared_means, own_check,
free_descent, early_descent. With all but shared_means off, this is PF-PNE.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pfpne.algorithms.gp_tree import FirstNodes, GPTreeClient
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
    PFPNEServer,
    PFPNESettings,
    SampledNodes,
    half_width,
    n_pulls_per_client,
    transition_depth,
)
from pfpne.algorithms.phases import ClientGroup, PhasedClient, Pull, lookup_sorted
from pfpne.federation import Batch, Task
from pfpne.messages import Awaited, Message, integer_array, number_array
from pfpne.validation import check, check_scale

ROOT_PULLS = 8  # factor on PF-PNE's pulls of the root: enough to estimate a variance
PIECES = 8  # the pulls of a node are split into at most this many parts; the spread of their means estimates the noise
PRIOR_PULLS = 4  # the weight, in pulls, of the noise estimate from the depth above
MIN_C, C_PER_SIGMA = 0.05, 0.5
MIN_C_STAGE1, C_PER_SIGMA_STAGE1 = 0.01, 0.2  # in stage 1, whose eliminations stage 2 can undo
EARLY_RHO = 0.7
EARLY_RHO_STAGE1 = 0.63
STANDARD_ERRORS = 3  # the critical value of the heterogeneity test and of own_check
MIN_ERROR = 1e-12
DECIMALS = 12  # het^2 is sent with so many decimals, so that it is the same with and without masks
LOUD_MULTIPLE = 10  # a client weighs less if its variance exceeds this multiple of the (lower) median variance
OWN_NOISE = 4  # a client has its own c_sigma if its variance differs from sigma^2 by more than this factor
QUIET = 0.03  # sigma below which averaging does not help
FEW_CLIENTS = 3  # with at most this many clients, stage 1 has at most T^(2/3) steps
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
    """Constants of pf-pne (Delta is used only without the heterogeneity test), a switch for each part, and two more."""

    noise_aware: bool = True  # c follows the noise: max(0.01, 0.2 sigma) in stage 1, c_sigma in stage 2; else c
    heterogeneity_test: bool = True  # stage 1 ends at the depth where the clients differ; else at Delta's H_0
    optimistic: bool = True  # stage 2 is HCT; else PE
    shared_means: bool = True  # stage 2 starts from all clients' means; else from the client's own means
    own_check: bool = True  # the others' mean of a node is ignored if more than 3 standard errors from the client's own
    free_descent: bool = True  # HCT may descend through the nodes of stage 1 before they reach its thresholds
    early_descent: bool = True  # rho is at least 0.63 in stage 1, and at least 0.7 in HCT's thresholds; else rho
    safe: bool = False  # not a part: stage 1 has at most T^(2/3) steps; stage 2 starts from the client's own pulls
    gaussian_process: bool = (
        False  # nor this: stage 1 has at most T^(2/3) steps; stage 2 is gp_tree.py's search; W <= n
    )

    def __post_init__(self):
        super().__post_init__()
        for name in (*PARTS_IN_WORDS, "safe", "gaussian_process"):
            check(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))
        possible = not self.gaussian_process or (self.optimistic and not self.safe)
        check(possible, "gaussian_process", "False with safe=True, whose theorem is HCT's, or optimistic=False", True)


@dataclass(frozen=True)
class NoiseHCTSettings(TreeSettings):
    """Constants of hct-noise: nu_1, rho and delta of hct, and one part of PF-PNE+ that needs no federation."""

    delta: float = HCTSettings.delta
    early_descent: bool = False  # rho is at least 0.7 in HCT's thresholds

    def __post_init__(self):
        super().__post_init__()
        check_scale("delta", self.delta, high=1)
        check(isinstance(self.early_descent, bool), "early_descent", "True or False", self.early_descent)


@dataclass(frozen=True, eq=False)
class DepthStatistics(Message):
    """Up: the client's mean of every node of K^h, the variance of its rewards, and 1 if all of them were 0 or 1.

    Header: the depth h.
    """

    means: np.ndarray = number_array("n", statistic="mean")
    variances: np.ndarray = number_array(1, low=0, statistic="variance")
    binary: np.ndarray = integer_array(1, high=1)


class Estimates(NamedTuple):
    """The server's estimates, in the order in which they are sent."""

    variance: float  # sigma^2
    het2: float  # het^2, from all depths so far
    loud_variance: float  # the variance above which a client weighs less; 0 if all weigh the same


@dataclass(frozen=True, eq=False)
class SharedStatistics(Message):
    """Down: the kept nodes of K^h, the global means of all nodes of K^h, and the server's estimates.

    estimates: as in `Estimates`. total_weight: the sum of the clients' weights. continues: 1 if stage 1 continues.
    Header: the depth h.
    """

    index: np.ndarray = integer_array("kept")
    means: np.ndarray = number_array("n", statistic="mean")
    estimates: np.ndarray = number_array(3, low=0, statistic="variance")
    total_weight: np.ndarray = number_array(1, low=0)
    continues: np.ndarray = integer_array(1, high=1)

    @property
    def named_estimates(self) -> Estimates:
        """The estimates, by their names."""
        return Estimates(*self.estimates)


def confidence_constant(variance: float) -> float:
    """Return c_sigma, from the variance of a reward."""
    return max(MIN_C, C_PER_SIGMA * math.sqrt(variance))


def stage1_settings(s: PlusSettings, variance: float) -> PlusSettings:
    """Return the settings of stage 1 at the next depth, from the variance of a reward at the last one."""
    c = max(MIN_C_STAGE1, C_PER_SIGMA_STAGE1 * math.sqrt(variance)) if s.noise_aware else s.c
    return replace(s, c=c, rho=threshold_rho(s, EARLY_RHO_STAGE1))


def threshold_rho(s: PlusSettings | NoiseHCTSettings, early_rho: float = EARLY_RHO) -> float:
    """Return the rho of stage 1, or of HCT's thresholds: at least early_rho under early_descent."""
    return max(s.rho, early_rho) if s.early_descent else s.rho


def hct_constants_for(s: PlusSettings | NoiseHCTSettings, c: float, task: Task, **settings) -> HCTConstants:
    """Return HCT's constants with this c, and with thresholds that follow early_descent."""
    plain, early = (
        hct_constants(HCTSettings(s.nu_1, rho, c, **settings), task.partition, task.horizon)
        for rho in (s.rho, threshold_rho(s))
    )
    return plain._replace(threshold=early.threshold)


def binary_variance(mean: np.ndarray, pulls: int) -> float:
    """Return sigma^2 of binary rewards, from the global means (nodes,), each over the given number of pulls.

    It is never 0, because a few equal rewards do not show that there is no noise. Its floor is the variance that
    Jeffreys' prior gives for no success in all these pulls.
    """
    rare = 0.5 / (pulls * len(mean) + 1)
    return max(rare * (1 - rare), float(np.mean(mean * (1 - mean))) * pulls / max(1, pulls - 1))


def heterogeneity(spread: float, M: int, nodes: int, n: int, variance: float, binary: bool) -> tuple[float, float]:
    """Estimate het^2 from the spread: the variance across M clients of their means of n pulls, averaged over the nodes.

    Return the estimate, spread - sigma^2 / n, and its precision, 1 / variance under het = 0. With binary rewards
    `binary_variance` includes het^2, so the difference contains only the share 1 - 1/n of het^2, and is divided by it.
    """
    share = 1 - 1 / n if binary else 1.0
    if M < 2 or share == 0:
        return 0.0, 0.0
    het2 = (spread - variance / n) / share
    return het2, (M - 1) * nodes / 2 * (share / max(variance / n, MIN_ERROR)) ** 2


def weights_of(variances: np.ndarray, loud_variance: float) -> np.ndarray:
    """Return the weights (M,) of clients with these variances: less than 1 above loud_variance, unless that is 0."""
    if loud_variance == 0:
        return np.ones(len(variances))
    return np.minimum(1.0, loud_variance / np.maximum(variances, MIN_ERROR))


def equivalent_pulls(n: int, M: int, variance: float, het2: float) -> float:
    """Return W, the number of own pulls that the mean of the other M - 1 clients, n pulls each, is worth to a client.

    W = sigma^2 / v, where v is the mean squared error of the others' mean as an estimate of f_m. v has two parts:
    heterogeneity, het^2 M / (M - 1), and noise, sigma^2 / (n (M - 1)).
    """
    return n * (M - 1) * (variance / (variance + n * M * het2) if het2 > 0 else 1.0)


# --- the clients ---------------------------------------------------------------------------------------


class OwnTrees(NamedTuple):
    """The last item that a loop yields: one tree per client, for its search alone, made when it is taken.

    tree_after(m, search): the tree with which client m goes on after its search by a Gaussian process, if it has one.
    """

    trees: Iterator[TreeClient | GPTreeClient]
    tree_after: Callable[[int, GPTreeClient], TreeClient] | None = None


class FinishedDepth(NamedTuple):
    """A depth that stage 1 has finished."""

    index: np.ndarray  # (nodes,)
    parents: np.ndarray | None  # (nodes,): the positions of their parents in the depth above; None at the root
    means: np.ndarray  # (S, nodes): the clients' means
    n: int  # pulls of each node by each client
    variances: np.ndarray  # (S,): the clients' estimates of their rewards' variances at that time
    c: float  # the confidence constant there
    answer: SharedStatistics

    @property
    def kept_positions(self) -> np.ndarray:
        """The positions of the nodes that the server kept."""
        return lookup_sorted(self.answer.index, self.index)[1]


class StartingDepth(NamedTuple):
    """A depth's nodes, with the statistics that stage 2 begins with. A warm start has one for each depth 0, 1, ..."""

    index: np.ndarray  # (nodes,)
    parents: np.ndarray | None  # as in FinishedDepth
    means: np.ndarray  # (S, nodes): the clients' means, of their own and of the others' pulls
    counts: np.ndarray  # (S, nodes): the number of own pulls that each mean is worth; may be fractional


def pull_root(S: int, n: int):
    """Pull the root n times, pull by pull; return the rewards (S, n)."""
    root = np.ones(S * n, dtype=np.int64)
    rewards = yield Pull(0, np.repeat(np.arange(S), n), root, root)
    return rewards.reshape(S, n)


def all_binary(rewards: np.ndarray) -> np.ndarray:
    """Return which clients' rewards (S, n) are all 0 or 1, (S,)."""
    return np.all((rewards == 0) | (rewards == 1), axis=1)


class PFPNEPlus(Elimination):
    """Federated elimination, then one search for each client, on the remaining tree."""

    receives = (SharedStatistics,)

    def loop(self):
        s = self.settings
        depths, next_step = yield from self.stage_1()
        if not s.optimistic:
            yield from self.stage_2_by_elimination(depths)
        yield self.stage_2(s, depths, next_step)

    def stage_1(self):
        """Search together until the server ends stage 1; return the finished depths and the number of the next step."""
        s, task, depths, next_step = self.settings, self.task, [], 1
        (h, index), parents, continues = self.first_nodes(task), None, True
        self.variances, self.binary = np.zeros(self.S), np.ones(self.S, dtype=bool)
        while continues:
            means, n = yield from self.sample_root() if h == 0 else self.sample_in_pieces(h, index)
            answer = yield DepthStatistics(h, means, self.variances[:, None], self.binary[:, None].astype(np.int64))
            depth = FinishedDepth(index, parents, means, n, self.variances, self.settings.c, answer)
            depths.append(depth)
            next_step, continues = next_step + n * len(index), bool(answer.continues[0])
            self.settings = stage1_settings(s, answer.named_estimates.variance)
            if continues or not s.optimistic:
                best_node = answer.index[np.argmax(answer.means[depth.kept_positions])]
                yield from self.deploy_best(h, np.arange(self.S), np.full(self.S, best_node))
            h, parents = h + 1, np.repeat(depth.kept_positions, task.partition.k)
            index = task.partition.children(answer.index)
        return depths, next_step

    def sample_root(self):
        """Pull the root; return the clients' means (S, 1) and the number of pulls, and learn the noise there."""
        n = ROOT_PULLS * n_pulls_per_client(0, self.log_term, self.settings, self.task.n_clients)
        rewards = yield from pull_root(self.S, min(n, self.task.horizon + 1))
        self.binary, self.variances = all_binary(rewards), rewards.var(axis=1, ddof=1)
        return rewards.mean(axis=1, keepdims=True), rewards.shape[1]

    def sample_in_pieces(self, h: int, index: np.ndarray):
        """Pull each node of K^h in up to PIECES pieces; return the means (S, n nodes) and the pulls of each node.

        The noise is estimated from the spread of a node's pieces. Rewards count as binary as long as the sums of all
        pieces could be sums of binary rewards. While they do, the client's variance stays at its value from the root,
        and the server computes sigma^2 from the means.
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
        """Run PE, which protects the nodes that stage 1 kept if means are shared."""
        kept_by_server, sampled_in_stage_1 = {}, {}
        for h, depth in enumerate(depths):
            kept, n = depth.answer.index, depth.n
            b = np.full(len(kept), half_width(n * self.task.n_clients, self.log_term, depth.c))
            kept_by_server[h] = Kept(h, kept, depth.answer.means[depth.kept_positions], b)
            sampled_in_stage_1[h] = SampledNodes(depth.index, depth.means * n, n)
        protects = self.settings.shared_means and not self.settings.safe
        yield from self.pe(kept_by_server if protects else {}, sampled_in_stage_1)

    def stage_2(self, s: PlusSettings, depths: list[FinishedDepth], next_step: int) -> OwnTrees:
        """Return the clients' trees before their next step, each warm-started with the statistics of stage 1."""
        variance, het2, _ = depths[-1].answer.named_estimates  # at the current depth
        warm_start = [StartingDepth(d.index, d.parents, *self.combine_with_others(d, het2)) for d in depths]
        best_index = warm_start[-1].index[warm_start[-1].means.argmax(axis=1)]
        self.best_points = self.task.partition.centers(len(depths) - 1, best_index)

        def hct(m: int, variance: float, next_step: int) -> TreeClient:
            c = confidence_constant(variance) if s.noise_aware else s.c
            constants, free = hct_constants_for(s, c, self.task), s.free_descent and not s.safe
            return warm_start_tree(self.task, constants, warm_start, m, next_step, free)

        def tree_after(m: int, search: GPTreeClient) -> TreeClient:
            tree, n = hct(m, search.mean_variance(), search.steps + 1), sum(len(depth.index) for depth in depths)
            tree.node["count"][:n] += search.own_count[:n]
            tree.node["total"][:n] += search.own_total[:n]
            refresh(tree.node, tree.state, tree.constants)
            return tree

        def tree(m: int) -> TreeClient | GPTreeClient:
            own_variance = float(self.variances[m])
            differs = not self.binary[m] and not variance / OWN_NOISE <= own_variance <= variance * OWN_NOISE
            if s.safe and self.binary[m]:
                own_variance = max(own_variance, binary_variance(np.zeros(1), depths[0].n))
            client_variance = own_variance if differs or s.safe else variance
            if s.gaussian_process:
                first = first_nodes_of(warm_start, m)
                return GPTreeClient(self.task, first, client_variance, bool(self.binary[m]), s.nu_1, next_step - 1)
            return hct(m, client_variance, next_step)

        return OwnTrees((tree(m) for m in range(self.S)), tree_after if s.gaussian_process else None)

    def combine_with_others(self, depth: FinishedDepth, het2: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the warm start of stage 2 at a depth: means (S, nodes) and the numbers of pulls (S, nodes) in them.

        A client's mean is combined with the others' mean, except where the two differ too much.
        """
        s, M, n, means = self.settings, self.task.n_clients, depth.n, depth.means
        variance, _, loud_variance = depth.answer.named_estimates
        own_counts = np.full(means.shape, float(n))
        if not s.shared_means or s.safe or M == 1:
            return means, own_counts
        weight, total = weights_of(depth.variances, loud_variance)[:, None], depth.answer.total_weight[0]
        others = (total * depth.answer.means - weight * means) / np.maximum(total - weight, MIN_ERROR)
        W = equivalent_pulls(n, M, variance, het2)
        W = min(W, n) if s.gaussian_process else W
        combined, counts = (n * means + W * others) / (n + W), own_counts + W
        if s.own_check:
            error = np.sqrt(np.maximum(variance, depth.variances)[:, None] / n + variance / (n * (M - 1)))
            differs = np.abs(means - others) > STANDARD_ERRORS * error
            combined, counts = np.where(differs, means, combined), np.where(differs, own_counts, counts)
        return combined, counts


class HCTNoise(ClientGroup):
    """HCT for each client alone, with a c estimated from the client's own pulls of the root."""

    def loop(self):
        s, task = self.settings, self.task
        rewards = yield from pull_root(self.S, ROOT_PULLS)
        variances, binary = rewards.var(axis=1, ddof=1), all_binary(rewards)
        least = np.where(binary, binary_variance(np.zeros(1), ROOT_PULLS), 0.0)  # where all are 0, or all are 1
        variances = np.maximum(variances, least)
        constants = (hct_constants_for(s, confidence_constant(x), task, delta=s.delta) for x in variances)
        yield OwnTrees(warm_start_tree(task, own, [], 0, 1 + ROOT_PULLS, free=False) for own in constants)


def warm_start_tree(
    task: Task, constants: HCTConstants, warm_start: list[StartingDepth], m: int, next_step: int, free: bool
) -> TreeClient:
    """Return client m's tree before its next step. It has the nodes of the warm start, with their statistics.

    free: whether the search may descend through these nodes before they reach their thresholds. The recommendation
    considers only nodes that HCT itself pulls.
    """
    tree, k, first, first_above = TreeClient(task, constants), constants.k, 0, 0
    size = max(sum(len(depth.index) for depth in warm_start), tree.state[0]["size"])
    node = np.zeros(size + k, NODE)
    node[: len(tree.node)] = tree.node[: len(node)]
    for h, (index, parents, means, counts) in enumerate(warm_start):
        rows = node[first : first + len(index)]
        rows["depth"], rows["index"], rows["count"], rows["total"] = h, index, counts[m], counts[m] * means[m]
        if parents is not None:
            rows["parent"], rows["first_child"] = first_above + parents, -1
            node["first_child"][rows["parent"][::k]] = np.arange(first, first + len(index), k)
            node["free"][rows["parent"]] = free
        first_above, first = first, first + len(index)
    tree.node, tree.t = node, next_step - 1
    tree.state[0] = (next_step, epoch_of(next_step), size, 0, -1, 0)
    refresh(tree.node, tree.state, constants)
    return tree


def first_nodes_of(warm_start: list[StartingDepth], m: int) -> FirstNodes:
    """Return the nodes that client m's search by a Gaussian process begins with."""
    is_leaf = [np.ones(len(depth.index), dtype=bool) for depth in warm_start]
    for of_depth, below in zip(is_leaf, warm_start[1:], strict=False):
        of_depth[below.parents] = False
    return FirstNodes(
        depth=np.repeat(np.arange(len(warm_start)), [len(depth.index) for depth in warm_start]),
        index=np.concatenate([depth.index for depth in warm_start]),
        is_leaf=np.concatenate(is_leaf),
        count=np.concatenate([depth.counts[m] for depth in warm_start]),
        mean=np.concatenate([depth.means[m] for depth in warm_start]),
    )


class PlusClient(PhasedClient):
    """One client: a `PhasedClient` in stage 1, then a `TreeClient`, or a `GPTreeClient` and then a `TreeClient`.

    best_of_search is what the search by a Gaussian process recommended in the end, or None. It stays the client's
    recommendation: that of a tree is its deepest node, which says little until the tree has made many steps of its own.
    """

    tree: TreeClient | GPTreeClient | None = None
    best_of_search: np.ndarray | None = None

    def _advance(self, value) -> None:
        super()._advance(value)
        if isinstance(self._request, OwnTrees):
            (self.tree,) = self._request.trees
            self._hand_over()

    def _hand_over(self) -> None:
        """Go on by HCT, if a search by a Gaussian process has ended."""
        search = self.tree
        if isinstance(search, GPTreeClient) and search.hands_over:
            self.best_of_search = search.best() if search.has_begun else None
            self.tree = self._request.tree_after(0, search)

    def _ask(self) -> Batch:
        return super()._ask() if self.tree is None else self.tree._ask()

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        if self.tree is None:
            return super()._tell(batch, rewards)
        self.tree._tell(batch, rewards)
        self._hand_over()
        return None

    def best(self) -> np.ndarray:
        """Return the recommendation (d,) of stage 1; of the search or the tree, once that has made a step."""
        if self.best_of_search is not None:
            return self.best_of_search.copy()
        return self.tree.best() if self.tree is not None and self.tree.has_begun else super().best()


# --- the server ----------------------------------------------------------------------------------------


class Aggregates(NamedTuple):
    """The server's aggregates of the clients' statistics of a depth; with masks, it knows nothing else."""

    mean: np.ndarray  # (n,): the global means of K^h
    variance: float  # sigma^2: M times the variance of the weighted mean of one reward per client
    mean_variance: float  # the plain mean of the clients' variances
    binary: bool  # whether all rewards of this depth were 0 or 1
    spread: float  # the variance across clients of their means, averaged over the nodes
    n_compared: int  # the number of clients in the spread
    compared_variance: float  # the mean of their variances
    loud_variance: float = 0.0  # as in Estimates
    total_weight: float = 0.0  # the sum of the weights


class PlusServer(PFPNEServer):
    """PF-PNE's server, which also estimates the noise, and ends stage 1 when clients differ or averaging is useless.

    binary: whether all rewards so far were 0 or 1. het_sums: the sum over all depths of het^2 times its precision, and
    the sum of the precisions. n_steps: a client's pulls so far. continues: False once stage 1 has ended.
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
        median = float(np.sort(variances)[(M - 1) // 2])
        loud_variance = min(LOUD_MULTIPLE * median, (high - low) ** 2) if weighs else 0.0
        weights = weights_of(variances, loud_variance)
        total, compared = float(weights.sum()), weights == 1
        mean = (weights[:, None] * means).sum(axis=0) / total
        variance = M * float((weights**2 * variances).sum()) / total**2
        spread = float(np.var(means[compared], axis=0, ddof=1).mean()) if compared.sum() > 1 else 0.0
        compared_variance = float(variances[compared].mean()) if compared.any() else 0.0
        clients = spread, int(compared.sum()), compared_variance
        weighting = loud_variance, total
        return self.decide(Aggregates(mean, variance, float(variances.mean()), is_binary, *clients, *weighting))

    def decide(self, aggregates: Aggregates) -> SharedStatistics:
        """Decide which nodes are kept and whether stage 1 continues; return the broadcast."""
        index, h, M, n = self.index, self.h, self.task.n_clients, self.rewards_in_means()
        self.binary, self.n_steps = self.binary and aggregates.binary, self.n_steps + n * len(index)
        kept = super().conclude(aggregates.mean[None])
        variance, compared_variance = aggregates.variance, aggregates.compared_variance
        if self.binary:
            kept_means = aggregates.mean[lookup_sorted(kept.index, index)[1]]
            variance, compared_variance = (binary_variance(mean, n * M) for mean in (kept_means, aggregates.mean))
        het2, precision = heterogeneity(
            aggregates.spread, aggregates.n_compared, len(index), n, compared_variance, self.binary
        )
        self.het_sums = self.het_sums[0] + het2 * precision, self.het_sums[1] + precision
        weighted, precisions = self.het_sums
        estimate = weighted / precisions if precisions > 0 else 0.0
        self.settings = stage1_settings(self.settings, variance)
        pays = self.may_continue(h, estimate, precisions, aggregates.mean_variance, len(kept.index))
        self.continues = pays and M > 1 and h < self.task.partition.max_depth
        estimates = Estimates(variance, round(max(0.0, estimate), DECIMALS), aggregates.loud_variance)
        total_weight, continues = np.array([aggregates.total_weight or M]), np.array([int(self.continues)])
        return SharedStatistics(h, kept.index, aggregates.mean, np.array(estimates), total_weight, continues)

    def may_continue(self, h: int, het2: float, precision: float, mean_variance: float, n_kept: int) -> bool:
        """Return whether stage 1 continues after depth h: clients may agree, rewards are noisy, and there is time."""
        s, task = self.settings, self.task
        if not s.heterogeneity_test:
            agree = h < transition_depth(s.Delta, s.nu_1, s.rho)
        else:
            lower_bound = het2 - STANDARD_ERRORS / math.sqrt(precision) if het2 > 0 else 0.0
            is_quiet = h == 0 and not self.binary and mean_variance < QUIET**2
            agree = lower_bound <= (s.nu_1 * s.rho**h) ** 2 and not is_quiet
        if s.safe or s.gaussian_process or (s.heterogeneity_test and task.n_clients <= FEW_CLIENTS):
            next_phase = task.partition.k * n_kept * n_pulls_per_client(h + 1, self.log_term, s, task.n_clients)
            agree = agree and self.n_steps + next_phase <= task.horizon ** (2 / 3)
        return agree
