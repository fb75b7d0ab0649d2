"""PF-PNE, Fed-PNE and PE: phased elimination of the nodes of a partition, together and alone.

Sources: PF-PNE and PE are Algorithms 1 (server), 2 (client) and 3 (PE) of "Personalized Federated
X-armed Bandit"; Fed-PNE is Li, Song, Honorio and Lin, "Federated X-armed Bandit" (2022). Where a
listing is silent or contradicts itself, docs/deviations.md says what is done here and why; numbers
in "(deviation n)" are its entries.

| paper                  | here                  | meaning                                                |
|------------------------|-----------------------|--------------------------------------------------------|
| (h, i)                 | h, index              | node: depth and index, 1-based                         |
| K^h                    | self._index, shared   | the server's active nodes of depth h                   |
| K_m^h                  | self._local           | the client's own active nodes of depth h               |
| E^h, E_m^h             | ~kept(...)            | what the server, the client eliminates                 |
| T_{m,h,i}              | n                     | the client's own samples of a node                     |
| mu-hat_{m,h,i}, b_{m,h,i} | mean, radius(n, ..) | the client's mean of a node and its half-width         |
| mu-bar_{h,i}, b_{h,i}  | means in `Kept`       | the global mean of a node and its half-width           |
| tau_h, H_0             | bounds.tau, self.H_0  | samples wanted at depth h; last federated depth        |
| nu_1, rho, c, c_1, delta, Delta | settings     | constants fixed by theory or by the user               |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfpne.bounds import kept, log_term, radius, tau, transition_depth
from pfpne.federation import Batch, Client, Message, Server, Task, check, is_number

# --- settings ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhasedSettings:
    """Constants of fed-pne and pe (paper, Appendix C.1).

    nu_1 > 0, rho in (0, 1): smoothness, in units of the reward. c > 0, c_1 > 0, delta > 0: confidence;
    delta None means 1/M (Theorem 3.1).
    """

    nu_1: float = 1.0
    rho: float = 0.5
    c: float = 0.1
    c_1: float = 1.0
    delta: float | None = None

    def __post_init__(self):
        for name in ("nu_1", "c", "c_1"):
            value = getattr(self, name)
            check(is_number(value) and value > 0, name, "a number > 0", value)
        check(is_number(self.rho) and 0 < self.rho < 1, "rho", "a number in (0, 1)", self.rho)
        check(self.delta is None or is_number(self.delta) and self.delta > 0, "delta", "a number > 0, or None for 1/M", self.delta)

    def log_term(self, task: Task) -> float:
        """log(c_1 T / delta) of the bounds."""
        return log_term(task.horizon, self.c_1, 1 / task.n_clients if self.delta is None else self.delta)


@dataclass(frozen=True)
class PFPNESettings(PhasedSettings):
    """Constants of pf-pne: those of the phases, and Delta >= 0, the bound of |f-bar* - f_m*| (Assumption 3)."""

    Delta: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check(is_number(self.Delta) and self.Delta >= 0, "Delta", "a number >= 0", self.Delta)


# --- messages ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NodeMeans(Message):
    """Up: the client's mean of every node of K^h, in increasing index."""

    means: np.ndarray


@dataclass(frozen=True, eq=False)
class Kept(Message):
    """Down (pf-pne): the nodes that stay, their global means and half-widths."""

    index: np.ndarray
    means: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True, eq=False)
class KeptIndex(Message):
    """Down (fed-pne): the nodes that stay."""

    index: np.ndarray


# --- the server -------------------------------------------------------------------------------------


class PhasedServer(Server):
    """Algorithm 1: average the clients' means, eliminate, broadcast what stays.

    It follows the same K^h as the clients: from the same K^0, by the same rules.
    """

    def __init__(self, task: Task, settings: PhasedSettings):
        self.task, self.settings = task, settings
        self._log = settings.log_term(task)
        self._h, self._index = self._begin(0, np.array([1]))  # K^0 = {(0, 1)} (deviation 3)

    def _begin(self, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
        return h, index

    def _answer(self, h: int, index: np.ndarray, mean: np.ndarray, b: float) -> Message:
        return Kept(h, index, mean, np.full(len(index), b))

    def exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        h, s, M = self._h, self.settings, self.task.n_clients
        if len(messages) != M:
            raise ValueError(f"phase {h} ends when all {M} clients have sent their means; {len(messages)} did.")
        mean = np.mean([messages[m].means for m in range(M)], axis=0)  # Algorithm 1, lines 6-9
        b = radius(M * pulls_each(h, self._log, s, M), self._log, s.c)  # deviation 6
        keep = kept(mean, b, h, s.nu_1, s.rho)  # lines 10-12
        index = self._index[keep]
        answer = self._answer(h, index, mean[keep], b)  # line 13
        if h < self.task.partition.max_depth:
            self._h, self._index = self._begin(h + 1, self.task.partition.children(index))  # line 14
        return {m: answer for m in range(M)}


class FedPNEServer(PhasedServer):
    """The same with Fed-PNE's expansion, and indices alone in the broadcast."""

    def _begin(self, h, index):
        return expand(self.task, self.settings, self._log, h, index)

    def _answer(self, h, index, mean, b):
        return KeptIndex(h, index)


def pulls_each(h: int, log: float, s: PhasedSettings, M: int) -> int:
    """ceil(tau_h / M): how often each of M clients pulls a node of depth h (Algorithm 2, line 6)."""
    return -(-tau(h, log, s.c, s.nu_1, s.rho) // M)


def expand(task: Task, s: PhasedSettings, log: float, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
    """Fed-PNE's expansion: while |K| tau_h <= M, one pull a client would be too many; go deeper (deviation 11)."""
    while h < task.partition.max_depth and len(index) * tau(h, log, s.c, s.nu_1, s.rho) <= task.n_clients:
        h, index = h + 1, task.partition.children(index)
    return h, index


# --- the clients ------------------------------------------------------------------------------------


class PhasedClient(Client):
    """Pulls the nodes of a phase one after another, in increasing index, then concludes the phase."""

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task)
        self.settings = settings
        self._log = settings.log_term(task)
        self._h = 0
        self._index = np.empty(0, dtype=np.int64)  # the nodes to pull in this phase
        self._counts = np.empty(0, dtype=np.int64)  # and how often each; both empty while waiting
        self._final: np.ndarray | None = None  # the point (1, d) played once no cell can be split
        self._best = task.partition.centers(0, 1)
        self._best_depth = -1

    def _ask(self) -> Batch:
        left = self.task.horizon - self.t
        if self._final is not None:
            return Batch(self._final, np.array([left]))
        counts, index = self._counts, self._index
        if counts.sum() > left:  # the last phase is cut at T, in pulling order (deviation 9)
            counts = np.diff(np.minimum(np.cumsum(counts), left), prepend=0)
            counts, index = counts[counts > 0], index[counts > 0]
        return Batch(self.task.partition.centers(self._h, index), counts)

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        if self._final is not None or batch.size < self._counts.sum():
            return None  # nothing to learn, or a phase that the horizon cut: it communicates nothing
        if (batch.counts == batch.counts[0]).all():
            sums = rewards.reshape(len(batch.counts), -1).sum(axis=1)
        else:
            sums = np.add.reduceat(rewards, np.cumsum(batch.counts) - batch.counts)
        return self._conclude(sums)

    def _pull(self, h: int, index: np.ndarray, counts: np.ndarray) -> None:
        """Make (h, index), `counts` times each, the phase that ask() returns next."""
        self._h, self._index = h, index
        self._counts = np.minimum(counts, self.task.horizon + 1)  # more cannot be pulled: keeps the sums small

    def _finished(self, h: int, index: np.ndarray, mean: np.ndarray) -> None:
        """A depth is finished: the client would deploy its best node, unless it knows a deeper one."""
        if h >= self._best_depth:
            self._best_depth = h
            self._best = self.task.partition.centers(h, index[np.argmax(mean)])

    def _stop_splitting(self) -> None:
        """Only cells at max_depth are left: play the best of them to the horizon."""
        self._final = self._best

    def best(self) -> np.ndarray:
        """The centre (d,) of the node with the highest mean in the deepest finished depth; at first the domain's."""
        return self._best[0]

    def _conclude(self, sums: np.ndarray) -> Message | None:
        """Learn the sums (n,) of the rewards of the phase's nodes; return the message for the server, or None."""
        raise NotImplementedError


class PEClient(PhasedClient):
    """Algorithm 3, PE: each client eliminates alone, sparing the nodes that the federation kept.

    Alone (`pe`), there are no such nodes, and it is phased elimination from the root.
    """

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task, settings)
        self._shared: dict[int, tuple] = {}  # h -> (index, mean, b): K^h after elimination, global statistics
        self._own: dict[int, tuple] = {}  # h -> (index, sums, n): what the client drew of K^h in stage 1
        self._local = np.empty(0, dtype=np.int64)  # K_m^h
        self._start()

    def _start(self) -> None:
        self._begin_local(0, np.array([1]))  # Algorithm 3, line 2

    def _begin_local(self, h: int, local: np.ndarray) -> None:
        """Lines 3-5: what K_m^h without K^h still lacks of tau_h samples is pulled; skip phases that lack none."""
        s = self.settings
        while True:
            self._local = local
            alone = self._alone(h)
            self._local_sums, self._local_n = self._drawn(h, local[alone])
            lack = np.maximum(0, tau(h, self._log, s.c, s.nu_1, s.rho) - self._local_n)  # deviation 5
            self._lacking = lack > 0
            if self._lacking.any():
                return self._pull(h, local[alone][self._lacking], lack[self._lacking])
            local = self._eliminate(h)
            if self._final is not None:
                return
            h += 1

    def _alone(self, h: int) -> np.ndarray:
        """Which nodes of K_m^h are not in K^h."""
        if h not in self._shared:
            return np.ones(len(self._local), dtype=bool)
        return ~np.isin(self._local, self._shared[h][0], assume_unique=True)

    def _drawn(self, h: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums and numbers of the samples that the client drew of these nodes in stage 1."""
        sums, n = np.zeros(len(index)), np.zeros(len(index), dtype=np.int64)
        if h in self._own:
            own_index, own_sums, own_n = self._own[h]
            _, here, there = np.intersect1d(index, own_index, assume_unique=True, return_indices=True)
            sums[here], n[here] = own_sums[there], own_n
        return sums, n

    def _eliminate(self, h: int) -> np.ndarray:
        """Lines 7-9: the next K_m^h, the children of what the second elimination spares."""
        s, alone = self.settings, self._alone(h)
        mean, b = np.empty(len(alone)), np.empty(len(alone))
        mean[alone] = self._local_sums / self._local_n  # line 6
        b[alone] = radius(self._local_n, self._log, s.c)
        if not alone.all():
            index, shared_mean, shared_b = self._shared[h]
            at = np.searchsorted(index, self._local[~alone])
            mean[~alone], b[~alone] = shared_mean[at], shared_b[at]  # biased but spared (deviation 7)
        self._finished(h, self._local, mean)
        spared = kept(mean, b, h, s.nu_1, s.rho) | ~alone  # lines 7-8
        if h == self.task.partition.max_depth:
            self._stop_splitting()
            return self._local[spared]
        return self.task.partition.children(self._local[spared])  # line 9

    def _conclude(self, sums):
        self._local_sums[self._lacking] += sums
        self._local_n[self._lacking] += self._counts
        h = self._h
        local = self._eliminate(h)
        if self._final is None:
            self._begin_local(h + 1, local)  # line 10
        return None


class PFPNEClient(PEClient):
    """Algorithm 2: evaluate K^h with the others down to depth H_0, then run PE alone."""

    def __init__(self, task: Task, settings: PFPNESettings):
        self.H_0 = transition_depth(settings.Delta, settings.nu_1, settings.rho)
        super().__init__(task, settings)

    def _start(self):
        self._together = True
        self._begin_shared(0, np.array([1]))

    def _begin_shared(self, h: int, index: np.ndarray) -> None:
        s = self.settings
        n = pulls_each(h, self._log, s, self.task.n_clients)
        self._pull(h, index, np.full(len(index), n))  # Algorithm 2, lines 5-7

    def _conclude(self, sums):
        if not self._together:
            return super()._conclude(sums)
        n = self._counts[0]
        self._own[self._h] = (self._index, sums, n)
        self._counts = self._counts[:0]  # wait for the server
        return NodeMeans(self._h, sums / n)  # lines 8-9

    def receive(self, message: Kept) -> None:
        """Lines 10-13: take K^h and its global statistics, and go on to the next depth (deviation 4)."""
        h = message.header
        self._shared[h] = (message.index, message.means, message.bounds)  # lines 10-11
        self._finished(h, message.index, message.means)
        if h + 1 > self.H_0:  # lines 3, 14-17
            self._together = False
            PEClient._start(self)
        elif h == self.task.partition.max_depth:
            self._stop_splitting()
        else:
            self._begin_shared(h + 1, self.task.partition.children(message.index))  # lines 12-13


class FedPNEClient(PhasedClient):
    """Fed-PNE's client: stage 1 of PF-PNE without end, with the expansion criterion (deviation 11)."""

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task, settings)
        self._begin(0, np.array([1]))

    def _begin(self, h: int, index: np.ndarray) -> None:
        h, index = expand(self.task, self.settings, self._log, h, index)
        n = pulls_each(h, self._log, self.settings, self.task.n_clients)
        self._pull(h, index, np.full(len(index), n))

    def _conclude(self, sums):
        self._sent = NodeMeans(self._h, sums / self._counts[0])
        self._counts = self._counts[:0]  # wait for the server
        return self._sent

    def receive(self, message: KeptIndex) -> None:
        h = message.header
        at = np.searchsorted(self._index, message.index)
        self._finished(h, message.index, self._sent.means[at])
        if h == self.task.partition.max_depth:
            self._stop_splitting()
        else:
            self._begin(h + 1, self.task.partition.children(message.index))


# --- what the registry needs ------------------------------------------------------------------------


def make_pf_pne(task: Task, settings: PFPNESettings):
    """The server and the M clients of PF-PNE."""
    return PhasedServer(task, settings), [PFPNEClient(task, settings) for _ in range(task.n_clients)]


def make_fed_pne(task: Task, settings: PhasedSettings):
    """The server and the M clients of Fed-PNE."""
    return FedPNEServer(task, settings), [FedPNEClient(task, settings) for _ in range(task.n_clients)]


def make_pe(task: Task, settings: PhasedSettings):
    """M clients that run PE alone (deviation 18)."""
    return Server(), [PEClient(task, settings) for _ in range(task.n_clients)]
