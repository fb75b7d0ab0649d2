"""PF-PNE, Fed-PNE and PE: phased elimination of the nodes of a partition, together and alone.

Sources: Algorithms 1 (server), 2 (client) and 3 (PE) of "Personalized Federated X-armed Bandit"; Fed-PNE is Li, Song,
Honorio and Lin, "Federated X-armed Bandit" (2022). Where a listing is silent or contradicts itself, "(deviation n)"
names the entry of docs/deviations.md that says what is done here and why.

| paper                           | here                 | meaning                                                |
|---------------------------------|----------------------|--------------------------------------------------------|
| (h, i)                          | h, index             | node: depth and index, 1-based                         |
| K^h                             | index, shared[h]     | the server's active nodes of depth h                   |
| K_m^h                           | owner, index in pe   | the client's own active nodes of depth h               |
| E^h, E_m^h                      | ~keep                | what the server, the client eliminates                 |
| T_{m,h,i}                       | n                    | the client's own samples of a node                     |
| mu-hat_{m,h,i}, b_{m,h,i}       | mean, b in pe        | the client's mean of a node and its half-width         |
| mu-bar_{h,i}, b_{h,i}           | mean, b in conclude  | the global mean of a node and its half-width           |
| tau_h, H_0                      | tau, H_0             | samples wanted at depth h; last federated depth        |
| nu_1, rho, c, c_1, delta, Delta | settings             | constants fixed by theory or by the user               |
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pfpne.algorithms.phases import Phases, Pull, find, firsts
from pfpne.federation import Server, Task
from pfpne.messages import Awaited, Message, integers, numbers
from pfpne.validation import check_amount, check_rho, check_scale


def log_term(T: int, c_1: float, delta: float) -> float:
    """log(c_1 T / delta), floored at 0 (deviation 8). c_1 > 0, delta > 0, T >= 1."""
    return max(0.0, math.log(c_1 * T / delta))


def tau(h: int, log: float, c: float, nu_1: float, rho: float) -> int:
    """Samples wanted of a node at depth h, in 1..2^62: ceil(c^2 log rho^(-2h) / nu_1^2) (paper, Section 3.1)."""
    if -2 * h * math.log2(rho) > 900:  # the power would overflow; 2^62 is more than any horizon
        return 2**62
    return max(1, math.ceil(min(2.0**62, c**2 * log * rho ** (-2 * h) / nu_1**2)))


def radius(n, log: float, c: float):
    """b = c sqrt(log / n) for a mean of n >= 1 samples, in units of the reward (paper, Section 3.1)."""
    return c * np.sqrt(log / n)


def transition_depth(Delta: float, nu_1: float, rho: float) -> float:
    """H_0, the smallest h >= 0 with nu_1 rho^h <= Delta; infinity when Delta is 0 (deviation 1)."""
    if Delta == 0:
        return math.inf
    # depths are tried one after another, from near the quotient of logarithms, which alone rounds wrongly in places
    h = max(0, math.floor(math.log(Delta / nu_1) / math.log(rho)) - 2)
    while h > 0 and nu_1 * rho**h <= Delta:
        h -= 1
    while nu_1 * rho**h > Delta:
        h += 1
    return h


def kept(mean: np.ndarray, b, best, h: int, nu_1: float, rho: float) -> np.ndarray:
    """Which nodes (n,) of depth h the elimination keeps: not mean + b + nu_1 rho^h < best mean - its b.

    Algorithm 1, line 11; Algorithm 3, line 9. best: the position of the arg max, one for all nodes or one each (n,).
    """
    return ~(mean + b + nu_1 * rho**h < mean[best] - b[best])


@dataclass(frozen=True)
class PhasedSettings:
    """Constants of fed-pne and pe (paper, Appendix C.1): nu_1 > 0, in units of the reward, and rho in (0, 1) of the
    smoothness; c > 0, c_1 > 0 and delta > 0 of the confidence, delta None for 1/M (Theorem 3.1).
    """

    least_rewards: ClassVar[int] = 1  # of which a client's mean is made; a setting in pfpne.algorithms.secure
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

    def log_term(self, task: Task) -> float:
        """log(c_1 T / delta) of the bounds."""
        return log_term(task.horizon, self.c_1, 1 / task.n_clients if self.delta is None else self.delta)


@dataclass(frozen=True)
class PFPNESettings(PhasedSettings):
    """Constants of pf-pne: those of the phases, and Delta >= 0, the bound of |f-bar* - f_m*| (Assumption 3)."""

    Delta: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_amount("Delta", self.Delta)


@dataclass(frozen=True, eq=False)
class NodeMeans(Message):
    """Up: the client's mean of every node of K^h, in increasing index."""

    means: np.ndarray = numbers("n", statistic="mean")


@dataclass(frozen=True, eq=False)
class Kept(Message):
    """Down (pf-pne): the nodes that stay, their global means and half-widths."""

    index: np.ndarray = integers("kept")
    means: np.ndarray = numbers("kept", statistic="mean")
    bounds: np.ndarray = numbers("kept", low=0)


@dataclass(frozen=True, eq=False)
class KeptIndex(Message):
    """Down (fed-pne): the nodes that stay."""

    index: np.ndarray = integers("kept")


# --- the steps -----------------------------------------------------------------------------------------


def pulls_each(h: int, log: float, s: PhasedSettings, M: int) -> int:
    """ceil(tau_h / M), or least_rewards: how often each of M clients pulls a node of depth h (Algorithm 2, line 6)."""
    return max(s.least_rewards, -(-tau(h, log, s.c, s.nu_1, s.rho) // M))


def expand(task: Task, s: PhasedSettings, log: float, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
    """Fed-PNE's expansion: while |K| tau_h <= M, one pull a client would be too many; go deeper (deviation 11)."""
    while h < task.partition.max_depth and len(index) * tau(h, log, s.c, s.nu_1, s.rho) <= task.n_clients:
        h, index = h + 1, task.partition.children(index)
    return h, index


# --- the clients: the listings ------------------------------------------------------------------------


class Elimination(Phases):
    """What the paper's three algorithms do alike: sample the nodes of a depth, and eliminate alone."""

    @property
    def log(self) -> float:
        """log(c_1 T / delta)."""
        return self.settings.log_term(self.task)

    def pull_each(self, h: int, index: np.ndarray):
        """Pull each node of K^h ceil(tau_h / M) times; returns the sums (S, n) and that number."""
        self.index, n = index, min(pulls_each(h, self.log, self.settings, self.task.n_clients), self.task.horizon + 1)
        owner = np.repeat(np.arange(self.S), len(index))
        sums = yield Pull(h, owner, np.tile(index, self.S), np.full(len(owner), n))
        return sums.reshape(self.S, -1), n

    def pe(self, shared: dict, own: dict):
        """Algorithm 3, PE, from the root: each client eliminates alone, sparing what the federation kept.

        shared: h -> (index, mean, b), K^h after elimination and its global statistics; nothing beyond H_0.
        own: h -> (index, sums (S, n nodes), n), what each client drew of K^h before elimination, n pulls a node.
        """
        s, partition, most = self.settings, self.task.partition, self.task.horizon + 1  # most: more than anyone pulls
        h, index = self.start(self.task)  # line 2
        owner, index = np.repeat(np.arange(self.S), len(index)), np.tile(index, self.S)
        while len(owner):  # line 3: until the horizon has cut every client's phase
            sums, n = np.zeros(len(index)), np.zeros(len(index), dtype=np.int64)
            protected, at = np.zeros(len(index), dtype=bool), np.empty(0, dtype=np.int64)
            if h in shared:
                nodes, drawn_sums, drawn_n = own[h]
                drawn, column = find(index, nodes)
                sums[drawn], n[drawn] = drawn_sums[owner[drawn], column], drawn_n
                protected, at = find(index, shared[h][0])
            lack = np.maximum(0, min(tau(h, self.log, s.c, s.nu_1, s.rho), most) - n)  # line 4 (deviation 5)
            lack[protected] = 0
            short = np.flatnonzero(lack)
            if len(short):
                sums[short] += yield Pull(h, owner[short], index[short], lack[short])  # lines 5-6
                n[short] += lack[short]
            mean, b = sums / n, radius(n, self.log, s.c)  # line 7
            if at.size:
                mean[protected], b[protected] = shared[h][1][at], shared[h][2][at]  # Algorithm 2, line 11
            first = firsts(owner)
            best = self.arg_max(mean, first)  # line 8, over all of K_m^h (deviation 7)
            of_each = np.repeat(best, np.diff(first, append=len(mean)))
            keep = kept(mean, b, of_each, h, s.nu_1, s.rho) | protected  # line 9
            yield from self.finish(h, owner[best], index[best])
            keep &= ~self.done[owner]
            owner, index = np.repeat(owner[keep], partition.k), partition.children(index[keep])  # line 10
            h += 1  # line 11


class PFPNE(Elimination):
    """Algorithm 2: evaluate K^h with the others down to depth H_0, then run PE alone."""

    answers = (Kept,)

    def loop(self):
        shared, own = {}, {}
        H_0 = transition_depth(self.settings.Delta, self.settings.nu_1, self.settings.rho)  # line 2
        h, index = self.start(self.task)  # line 2, K^0
        while h <= H_0:  # lines 3-4 (deviation 4); the horizon cuts whoever asks for more (deviation 9)
            sums, n = yield from self.pull_each(h, index)  # lines 5-7
            answer = yield NodeMeans(h, sums / n)  # lines 8-10
            own[h], shared[h] = (index, sums, n), (answer.index, answer.means, answer.bounds)  # line 11
            best = answer.index[np.argmax(answer.means)]
            yield from self.finish(h, np.arange(self.S), np.full(self.S, best))
            h, index = h + 1, self.task.partition.children(answer.index)  # lines 12-13
        yield from self.pe(shared, own)  # lines 15-17


class FedPNE(Elimination):
    """Fed-PNE's client: stage 1 of PF-PNE without end, with the expansion criterion (deviation 11)."""

    answers = (KeptIndex,)

    def loop(self):
        h, index = self.start(self.task)
        while True:
            h, index = expand(self.task, self.settings, self.log, h, index)
            sums, n = yield from self.pull_each(h, index)
            answer = yield NodeMeans(h, sums / n)
            means = (sums / n)[:, find(index, answer.index)[0]]
            yield from self.finish(h, np.arange(self.S), answer.index[np.argmax(means, axis=1)])
            h, index = h + 1, self.task.partition.children(answer.index)


class PE(Elimination):
    """Algorithm 3 alone, no node spared: phased elimination from the root (deviation 18)."""

    def loop(self):
        return self.pe({}, {})


class PhasedServer(Server):
    """Algorithm 1: average the clients' means, eliminate, broadcast what stays. K^h goes on as the clients' does."""

    takes = (NodeMeans,)
    start_at = staticmethod(Phases.start)

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task, settings)
        self.heard = -1  # the depth concluded last
        self.log = settings.log_term(task)
        self.h, self.index = self._begin(*self.start_at(task))  # line 2

    def _begin(self, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
        return h, index

    def samples(self, h: int) -> int:
        """T_{h,i}: what was really drawn of a node, M ceil(tau_h / M) (deviation 6)."""
        return self.task.n_clients * pulls_each(h, self.log, self.settings, self.task.n_clients)

    def awaits(self, m: int) -> Awaited:
        """Means of K^h, down to the last depth that the federation goes to (line 3: T is the clients' to see)."""
        if self.heard >= self.deepest():
            return Awaited(self.heard)
        kind, within = self.takes[0], self.task.bounds(self.takes[0])
        return Awaited(self.heard, kind, range(self.h, self.h + 1), {"n": len(self.index)}, bounds=within)

    def deepest(self) -> float:
        """The last depth whose means the clients send: H_0 (line 5), or that of the partition."""
        s = self.settings
        return min(self.task.partition.max_depth, transition_depth(s.Delta, s.nu_1, s.rho))

    def conclude(self, means: np.ndarray) -> Message:
        """One phase: from the clients' means (M, n) of K^h (line 6) to the broadcast; K^{h+1} is next."""
        h, s = self.h, self.settings
        mean = means.mean(axis=0)  # lines 7-9
        b = np.full(len(mean), radius(self.samples(h), self.log, s.c))
        keep = kept(mean, b, np.argmax(mean), h, s.nu_1, s.rho)  # lines 10-11
        index, self.heard = self.index[keep], h  # line 12
        if h < self.task.partition.max_depth:
            self.h, self.index = self._begin(h + 1, self.task.partition.children(index))  # lines 14, 4
        return Kept(h, index, mean[keep], b[keep])  # line 13


class FedPNEServer(PhasedServer):
    """The same with Fed-PNE's expansion, and indices alone in the broadcast."""

    def deepest(self):
        return self.task.partition.max_depth

    def _begin(self, h, index):
        return expand(self.task, self.settings, self.log, h, index)

    def conclude(self, means):
        answer = super().conclude(means)
        return KeptIndex(answer.header, answer.index)
