"""PF-PNE, Fed-PNE and PE: phased elimination of the nodes of a partition, together and alone.

Sources: Algorithms 1 (server), 2 (client) and 3 (PE) of "Personalized Federated X-armed Bandit"; Fed-PNE is Li, Song,
Honorio and Lin, "Federated X-armed Bandit" (2022). Where a listing is silent or contradicts itself, "(deviation n)"
names the entry of docs/deviations.md that explains our choice.

Each loop() is a generator that runs S clients in step. It yields a Pull and receives the sums of the rewards, or it
yields a message and receives the server's answer. deploy_best is not in the paper: after each depth it records the
point that each client would deploy, and at max_depth it plays that point until T.

| paper                           | here                 | meaning                                                |
|---------------------------------|----------------------|--------------------------------------------------------|
| (h, i)                          | h, index             | node: depth and index, 1-based                         |
| K^h                             | index in loop        | before elimination: the active nodes of depth h        |
| K^h                             | kept_by_server[h]    | after elimination: those that the server keeps         |
| K_m^h                           | owner, index in pe   | the client's own active nodes of depth h               |
| E^h, E_m^h                      | ~keep                | what the server, the client eliminates                 |
| T_{m,h,i}                       | n_samples in pe      | the client's own samples of a node                     |
| mu-hat_{m,h,i}, b_{m,h,i}       | mean, b in pe        | the client's mean of a node and its half-width         |
| mu-bar_{h,i}, b_{h,i}           | mean, b in conclude  | the global mean of a node and its half-width           |
| tau_h, H_0                      | tau_at, H_0          | samples wanted at depth h; last federated depth        |
| nu_1, rho, c, c_1, delta, Delta | settings             | constants fixed by theory or by the user               |
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pfpne.algorithms.phases import ClientGroup, Pull, first_positions, lookup_sorted
from pfpne.federation import Server, Task
from pfpne.messages import Awaited, Message, integer_array, number_array
from pfpne.validation import check_amount, check_rho, check_scale


def compute_log_term(T: int, c_1: float, delta: float) -> float:
    """Return log(c_1 T / delta), floored at 0 (deviation 8), for c_1 > 0, delta > 0, T >= 1."""
    return max(0.0, math.log(c_1 * T / delta))


def compute_tau(h: int, log_term: float, c: float, nu_1: float, rho: float) -> int:
    """Return tau_h = ceil(c^2 log_term rho^(-2h) / nu_1^2), the samples that a node needs, in 1..2^62 (Section 3.1)."""
    if -2 * h * math.log2(rho) > 900:  # the power would overflow; 2^62 is more than any horizon
        return 2**62
    return max(1, math.ceil(min(2.0**62, c**2 * log_term * rho ** (-2 * h) / nu_1**2)))


def half_width(n, log_term: float, c: float):
    """Return b = c sqrt(log_term / n), the half-width for a mean of n >= 1 samples (paper, Section 3.1)."""
    return c * np.sqrt(log_term / n)


def transition_depth(Delta: float, nu_1: float, rho: float) -> float:
    """Return H_0, the smallest h >= 0 with nu_1 rho^h <= Delta, or infinity if Delta is 0 (deviation 1)."""
    if Delta == 0:
        return math.inf
    # Depths are tried from near the quotient of logarithms, which alone rounds wrongly in places.
    h = max(0, math.floor(math.log(Delta / nu_1) / math.log(rho)) - 2)
    while h > 0 and nu_1 * rho**h <= Delta:
        h -= 1
    while nu_1 * rho**h > Delta:
        h += 1
    return h


def is_kept(mean: np.ndarray, b, best_position, h: int, nu_1: float, rho: float) -> np.ndarray:
    """Return which nodes (n,) of depth h are kept: all but those with mean + b + nu_1 rho^h < best mean - its b.

    Algorithm 1, line 11; Algorithm 3, line 9. best_position: the position of the best node, one for all nodes, or one
    for each node (n,).
    """
    return ~(mean + b + nu_1 * rho**h < mean[best_position] - b[best_position])


@dataclass(frozen=True)
class FedPNESettings:
    """Constants of fed-pne and pe (paper, Appendix C.1).

    Parameters
    ----------
    nu_1, rho
        The smoothness of the objectives: nu_1 > 0, in units of the reward, and rho in (0, 1).
    c, c_1
        The width of the confidence intervals, both > 0.
    delta
        The confidence, > 0; None for 1/M (Theorem 3.1).
    """

    least_rewards: ClassVar[int] = 1  # in a client's mean of a node; a setting in pfpne.algorithms.secure
    nu_1: float = 1.0
    rho: float = 0.5
    c: float = 0.1
    c_1: float = 1.0
    delta: float | None = None

    def __post_init__(self):
        for name in ("nu_1", "c", "c_1"):
            check_scale(name, getattr(self, name))
        check_rho("rho", self.rho)
        if self.delta is not None:
            check_scale("delta", self.delta, also=", or None for 1/M")

    def log_term_for(self, T: int, M: int) -> float:
        """Return log(c_1 T / delta) of the bounds, for T evaluations of each of M clients."""
        return compute_log_term(T, self.c_1, 1 / M if self.delta is None else self.delta)

    def tau_at(self, h: int, log_term: float) -> int:
        """Return tau_h, the samples that a node of depth h needs, from the log(c_1 T / delta) of the bounds."""
        return compute_tau(h, log_term, self.c, self.nu_1, self.rho)


@dataclass(frozen=True)
class PFPNESettings(FedPNESettings):
    """Constants of pf-pne: fed-pne's constants, and Delta >= 0, the bound of |f-bar* - f_m*| (Assumption 3)."""

    Delta: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_amount("Delta", self.Delta)


@dataclass(frozen=True, eq=False)
class NodeMeans(Message):
    """Up: the client's mean of every node of K^h, in increasing index. Header: the depth h."""

    means: np.ndarray = number_array("n", statistic="mean")


@dataclass(frozen=True, eq=False)
class Kept(Message):
    """Down (pf-pne): the nodes that stay, their global means and half-widths. Header: the depth."""

    index: np.ndarray = integer_array("kept")
    means: np.ndarray = number_array("kept", statistic="mean")
    half_widths: np.ndarray = number_array("kept", low=0)


@dataclass(frozen=True, eq=False)
class KeptIndex(Message):
    """Down (fed-pne): the nodes that stay. Header: the depth."""

    index: np.ndarray = integer_array("kept")


# --- the steps -----------------------------------------------------------------------------------------


def n_pulls_per_client(h: int, log_term: float, settings: FedPNESettings, M: int) -> int:
    """Return how often each of M clients pulls a node of depth h: ceil(tau_h / M), at least least_rewards times.

    Algorithm 2, line 6.
    """
    return max(settings.least_rewards, -(-settings.tau_at(h, log_term) // M))


def expand(task: Task, settings: FedPNESettings, log_term: float, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
    """Split the nodes, unsampled, while all of them together need at most M samples: |K| tau_h <= M.

    Return the depth reached and its nodes (Fed-PNE, deviation 11).
    """
    while h < task.partition.max_depth and len(index) * settings.tau_at(h, log_term) <= task.n_clients:
        h, index = h + 1, task.partition.children(index)
    return h, index


# --- the clients: the listings ------------------------------------------------------------------------


class SampledNodes(NamedTuple):
    """The nodes K^h of a depth that stage 1 has sampled, before elimination, and the clients' samples of them."""

    index: np.ndarray  # (nodes,)
    sums: np.ndarray  # (S, nodes): of each client's rewards
    n_pulls: int  # of each node by each client


class Elimination(ClientGroup):
    """The steps that the paper's three algorithms share: sampling the nodes of a depth, and Algorithm 3."""

    @property
    def log_term(self) -> float:
        """log(c_1 T / delta)."""
        return self.settings.log_term_for(self.task.horizon, self.task.n_clients)

    def pull_all_nodes(self, h: int, index: np.ndarray):
        """Pull each node of K^h ceil(tau_h / M) times; return the sums (S, n) of rewards and the number of pulls."""
        self.index = index
        n_pulls = n_pulls_per_client(h, self.log_term, self.settings, self.task.n_clients)
        n_pulls = min(n_pulls, self.task.horizon + 1)  # no client pulls more often
        owner = np.repeat(np.arange(self.S), len(index))
        sums = yield Pull(h, owner, np.tile(index, self.S), np.full(len(owner), n_pulls))
        return sums.reshape(self.S, -1), n_pulls

    def pe(self, kept_by_server: dict[int, Kept], sampled_in_stage_1: dict[int, SampledNodes]):
        """Algorithm 3, PE, from the root: each client eliminates alone; the nodes kept by the server are protected.

        Both dicts are by depth h. kept_by_server has no entry beyond H_0.
        """
        none = np.empty(0, dtype=np.int64)
        h, root = self.first_nodes(self.task)  # line 2
        owner, index = np.repeat(np.arange(self.S), len(root)), np.tile(root, self.S)
        while len(owner):  # line 3: until the horizon has cut every client's phase
            kept = kept_by_server.get(h, Kept(h, none, none, none))
            protected, position = lookup_sorted(index, kept.index)
            sums, n_samples = self.stage_1_samples(owner, index, sampled_in_stage_1.get(h))
            yield from self.draw_lacking(h, owner, index, protected, sums, n_samples)  # lines 4-6
            mean, b = sums / n_samples, half_width(n_samples, self.log_term, self.settings.c)  # line 7
            mean[protected], b[protected] = kept.means[position], kept.half_widths[position]  # Algorithm 2, line 11
            best_position, keep = self.eliminate(h, owner, mean, b)  # lines 8-9
            yield from self.deploy_best(h, owner[best_position], index[best_position])
            keep = (keep | protected) & ~self.is_truncated[owner]  # line 9: only K_m^h without K^h is eliminated
            owner = np.repeat(owner[keep], self.task.partition.k)
            h, index = h + 1, self.task.partition.children(index[keep])  # lines 10-11

    @staticmethod
    def stage_1_samples(owner, index, sampled: SampledNodes | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums (N,) and the numbers (N,) of the clients' stage-1 samples of their nodes."""
        sums, n_samples = np.zeros(len(index)), np.zeros(len(index), dtype=np.int64)
        if sampled is not None:
            is_sampled, column = lookup_sorted(index, sampled.index)
            sums[is_sampled], n_samples[is_sampled] = sampled.sums[owner[is_sampled], column], sampled.n_pulls
        return sums, n_samples

    def draw_lacking(self, h: int, owner, index, protected, sums, n_samples):
        """Sample each unprotected node up to tau_h samples; update sums and n_samples in place (deviation 5)."""
        enough = min(self.settings.tau_at(h, self.log_term), self.task.horizon + 1)  # no client pulls more often
        lacking = np.where(protected, 0, np.maximum(0, enough - n_samples))
        short = np.flatnonzero(lacking)
        if len(short):
            sums[short] += yield Pull(h, owner[short], index[short], lacking[short])
            n_samples[short] += lacking[short]

    def eliminate(self, h: int, owner, mean, b) -> tuple[np.ndarray, np.ndarray]:
        """Return the position (S,) of each client's best node, over K_m^h (deviation 7), and which nodes stay."""
        first = first_positions(owner)
        best_position = self.arg_max(mean, first)  # line 8
        own_best_position = np.repeat(best_position, np.diff(first, append=len(mean)))
        return best_position, is_kept(mean, b, own_best_position, h, self.settings.nu_1, self.settings.rho)  # line 9


class PFPNE(Elimination):
    """Algorithm 2: evaluate K^h with the others down to depth H_0, then run PE alone."""

    receives = (Kept,)

    def loop(self):
        kept_by_server, sampled_in_stage_1 = {}, {}
        H_0 = transition_depth(self.settings.Delta, self.settings.nu_1, self.settings.rho)  # line 2
        h, index = self.first_nodes(self.task)  # line 2, K^0
        while h <= H_0:  # lines 3-4 (deviation 4); the horizon cuts whoever asks for more (deviation 9)
            sums, n_pulls = yield from self.pull_all_nodes(h, index)  # lines 5-7
            answer = yield NodeMeans(h, sums / n_pulls)  # lines 8-10
            sampled_in_stage_1[h] = SampledNodes(index, sums, n_pulls)
            kept_by_server[h] = answer  # line 11
            best_node = answer.index[np.argmax(answer.means)]
            yield from self.deploy_best(h, np.arange(self.S), np.full(self.S, best_node))
            h, index = h + 1, self.task.partition.children(answer.index)  # lines 12-13
        yield from self.pe(kept_by_server, sampled_in_stage_1)  # lines 15-17


class FedPNE(Elimination):
    """Fed-PNE's client: stage 1 of PF-PNE without end, with the expansion criterion (deviation 11)."""

    receives = (KeptIndex,)

    def loop(self):
        h, index = self.first_nodes(self.task)
        while True:
            h, index = expand(self.task, self.settings, self.log_term, h, index)
            sums, n_pulls = yield from self.pull_all_nodes(h, index)
            answer = yield NodeMeans(h, sums / n_pulls)
            means = (sums / n_pulls)[:, lookup_sorted(index, answer.index)[0]]
            yield from self.deploy_best(h, np.arange(self.S), answer.index[np.argmax(means, axis=1)])
            h, index = h + 1, self.task.partition.children(answer.index)


class PE(Elimination):
    """Algorithm 3 alone, no node protected: phased elimination from the root (deviation 18)."""

    def loop(self):
        return self.pe({}, {})


class PFPNEServer(Server):
    """Algorithm 1: average the clients' means, eliminate nodes, broadcast the kept ones.

    The server derives the next K^h by the same rule as the clients.
    """

    receives = (NodeMeans,)
    tolerates_missing = True
    first_nodes = staticmethod(ClientGroup.first_nodes)

    def __init__(self, task: Task, settings: FedPNESettings):
        super().__init__(task, settings)
        self.concluded_depth = -1  # the last depth whose phase was concluded
        self.log_term = settings.log_term_for(task.horizon, task.n_clients)
        self.h, self.index = self._begin(*self.first_nodes(task))  # line 2

    def _begin(self, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the depth and the nodes of the next phase: the given ones, or deeper ones in a subclass."""
        return h, index

    def n_samples(self, h: int) -> int:
        """Return T_{h,i}, the number of samples actually drawn of a node: M ceil(tau_h / M) (deviation 6).

        If clients are missing, only the samples of the clients that answered count.
        """
        return self.n_present * n_pulls_per_client(h, self.log_term, self.settings, self.task.n_clients)

    def rewards_in_means(self) -> int:
        return n_pulls_per_client(self.h, self.log_term, self.settings, self.task.n_clients)

    def phase_evaluations(self) -> int:
        return self.rewards_in_means() * len(self.index)

    def awaits(self, m: int) -> Awaited:
        """Await the client's means of K^h, down to the last federated depth (line 3; the clients watch T)."""
        if self.concluded_depth >= self.last_federated_depth():
            return Awaited(self.concluded_depth)
        kind, ranges = self.receives[0], self.task.statistic_ranges(self.receives[0])
        return Awaited(self.concluded_depth, kind, range(self.h, self.h + 1), {"n": len(self.index)}, ranges=ranges)

    def last_federated_depth(self) -> float:
        """Return the last depth whose means the clients send: H_0 (line 5), but at most max_depth."""
        settings = self.settings
        H_0 = transition_depth(settings.Delta, settings.nu_1, settings.rho)
        return min(self.task.partition.max_depth, H_0)

    def conclude(self, means: np.ndarray) -> Kept:
        """Conclude a phase: make the broadcast from the clients' means (M, n) of K^h (line 6), and derive K^{h+1}."""
        h, settings = self.h, self.settings
        mean = means.mean(axis=0)  # lines 7-9
        b = np.full(len(mean), half_width(self.n_samples(h), self.log_term, settings.c))
        keep = is_kept(mean, b, np.argmax(mean), h, settings.nu_1, settings.rho)  # lines 10-11
        index, self.concluded_depth = self.index[keep], h  # line 12
        if h < self.task.partition.max_depth:
            self.h, self.index = self._begin(h + 1, self.task.partition.children(index))  # lines 14, 4
        return Kept(h, index, mean[keep], b[keep])  # line 13


class FedPNEServer(PFPNEServer):
    """PF-PNE's server with Fed-PNE's expansion. It broadcasts only indices."""

    def last_federated_depth(self):
        return self.task.partition.max_depth

    def _begin(self, h, index):
        return expand(self.task, self.settings, self.log_term, h, index)

    def conclude(self, means):
        answer = super().conclude(means)
        return KeptIndex(answer.header, answer.index)
