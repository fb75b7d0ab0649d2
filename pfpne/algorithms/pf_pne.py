"""PF-PNE, Fed-PNE and PE: phased elimination of the nodes of a partition, together and alone.

Sources: PF-PNE and PE are Algorithms 1 (server), 2 (client) and 3 (PE) of "Personalized Federated
X-armed Bandit"; Fed-PNE is Li, Song, Honorio and Lin, "Federated X-armed Bandit" (2022). Where a
listing is silent or contradicts itself, docs/deviations.md says what is done here and why; numbers
in "(deviation n)" are its entries.

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

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pfpne.checks import check, check_number, check_scale, is_number
from pfpne.federation import NOTHING, Batch, Client, Message, Server, Task

# --- bounds -----------------------------------------------------------------------------------------


def log_term(T: int, c_1: float, delta: float) -> float:
    """log(c_1 T / delta), floored at 0 (deviation 8). c_1 > 0, delta > 0, T >= 1."""
    return max(0.0, math.log(c_1 * T / delta))


def tau(h: int, log: float, c: float, nu_1: float, rho: float) -> int:
    """Samples wanted of a node at depth h: ceil(c^2 log(c_1 T/delta) rho^(-2h) / nu_1^2), at least 1.

    Paper, Section 3.1; log is log_term(T, c_1, delta). Beyond 2^62 it is 2^62: more than any horizon.
    """
    if -2 * h * math.log2(rho) > 900:
        return 2**62
    return max(1, math.ceil(min(2.0**62, c**2 * log * rho ** (-2 * h) / nu_1**2)))


def radius(n, log: float, c: float):
    """b = c sqrt(log(c_1 T/delta) / n) for a mean of n >= 1 samples, in units of the reward (paper, Section 3.1)."""
    return c * np.sqrt(log / n)


def transition_depth(Delta: float, nu_1: float, rho: float) -> float:
    """H_0, the smallest h >= 0 with nu_1 rho^h <= Delta; infinity when Delta is 0 (deviation 1).

    Depths are tried one after another, from a little above the quotient of logarithms, which alone would round
    wrongly in places.
    """
    if Delta == 0:
        return math.inf
    h = max(0, math.floor(math.log(Delta / nu_1) / math.log(rho)) - 2)
    while h > 0 and nu_1 * rho**h <= Delta:
        h -= 1
    while nu_1 * rho**h > Delta:
        h += 1
    return h


def kept(mean: np.ndarray, b, best, h: int, nu_1: float, rho: float) -> np.ndarray:
    """Which nodes (n,) of depth h the elimination keeps: not mean + b + nu_1 rho^h < best mean - its b.

    Paper, Algorithm 1, line 11; Algorithm 3, line 9. b: (n,). best: the position of the arg max, one for
    all nodes or (n,), one for each. Rewards' units throughout.
    """
    return ~(mean + b + nu_1 * rho**h < mean[best] - b[best])


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
            check_scale(name, getattr(self, name))
        check_number("rho", self.rho, "in (0, 1)")
        valid = self.delta is None or (is_number(self.delta) and self.delta > 0)
        check(valid, "delta", "a number > 0, or None for 1/M", self.delta)

    def log_term(self, task: Task) -> float:
        """log(c_1 T / delta) of the bounds."""
        return log_term(task.horizon, self.c_1, 1 / task.n_clients if self.delta is None else self.delta)


@dataclass(frozen=True)
class PFPNESettings(PhasedSettings):
    """Constants of pf-pne: those of the phases, and Delta >= 0, the bound of |f-bar* - f_m*| (Assumption 3)."""

    Delta: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_number("Delta", self.Delta, ">= 0")


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


# --- the steps, for one client or for many at once ---------------------------------------------------
# Nodes lie in flat arrays, client after client and in increasing index; owner (N,) says whose they are.


def pulls_each(h: int, log: float, s: PhasedSettings, M: int) -> int:
    """ceil(tau_h / M): how often each of M clients pulls a node of depth h (Algorithm 2, line 6)."""
    return -(-tau(h, log, s.c, s.nu_1, s.rho) // M)


def expand(task: Task, s: PhasedSettings, log: float, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
    """Fed-PNE's expansion: while |K| tau_h <= M, one pull a client would be too many; go deeper (deviation 11)."""
    while h < task.partition.max_depth and len(index) * tau(h, log, s.c, s.nu_1, s.rho) <= task.n_clients:
        h, index = h + 1, task.partition.children(index)
    return h, index


def steps(values: np.ndarray) -> np.ndarray:
    """Which of the values (N,), N >= 1, differ from the one before; the first does."""
    return np.append(True, values[1:] != values[:-1])


def firsts(owner: np.ndarray) -> np.ndarray:
    """Where each owner's nodes begin in the flat arrays (S,)."""
    return np.flatnonzero(steps(owner))


def arg_max(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Position (S,) of the largest value of each owner; of equal ones the smallest index (deviation 10)."""
    if len(start) == 1:
        return np.atleast_1d(np.argmax(values))
    top = np.repeat(np.maximum.reduceat(values, start), np.diff(start, append=len(values)))
    at = np.flatnonzero(values == top)
    return at[np.searchsorted(at, start)]


def cut(counts: np.ndarray, start: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The counts (N,) that fit into what is left (S,) of each owner's horizon, in pulling order (deviation 9)."""
    size = np.diff(start, append=len(counts))
    after = np.cumsum(counts)
    after -= np.repeat((after - counts)[start], size)
    return np.clip(np.repeat(left, size) - (after - counts), 0, counts)


def node_sums(rewards: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sums (n,) of the rewards of each node, which was pulled counts (n,) >= 1 times in a row."""
    start = firsts(counts)  # of the runs of nodes that were pulled equally often
    rows = np.split(rewards, (np.cumsum(counts) - counts)[start[1:]])
    return np.concatenate([r.reshape(-1, n).sum(axis=1) for r, n in zip(rows, counts[start], strict=True)])


def find(index: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of `index` (n,) are in the increasing `table`, and the positions there of those that are."""
    at = np.minimum(np.searchsorted(table, index), len(table) - 1)
    found = table[at] == index
    return found, at[found]


# --- the clients: the listings ------------------------------------------------------------------------


class Pull(NamedTuple):
    """Evaluations that a loop wants: node (h, index) by client `owner`, `counts` >= 1 times, each (N,), in this order.

    It goes on with their sums (N,). A client that the horizon cuts is done: its sums mean nothing.
    """

    h: int
    owner: np.ndarray
    index: np.ndarray
    counts: np.ndarray


class Report(NamedTuple):
    """The clients' means (S, n) of K^h, for the server. The loop goes on with its answer."""

    h: int
    means: np.ndarray


class Phases:
    """S clients that go through the same phases, each alone on its objective: one in a deployment, M in a simulation.

    A subclass gives `loop`, which yields what it wants, a Pull or a Report, and is sent what came of it. done (S,):
    whose last phase the horizon has cut; set by who runs the loop. best (S, d): the points they would deploy.
    """

    def __init__(self, task: Task, settings: PhasedSettings, S: int):
        self.task, self.settings, self.S = task, settings, S
        self.log = settings.log_term(task)
        self.done = np.zeros(S, dtype=bool)
        self.best = np.repeat(task.partition.centers(0, 1), S, axis=0)
        self._best_depth = -1

    def loop(self) -> Iterator[Pull | Report]:
        raise NotImplementedError

    @staticmethod
    def start(task: Task) -> tuple[int, np.ndarray]:
        """Depth and indices of K^0 = {(0, 1)}, the same for clients and server (deviation 3)."""
        return 0, np.array([1])

    arg_max = staticmethod(arg_max)

    def pull_each(self, h: int, index: np.ndarray):
        """Algorithm 2, lines 5-7: pull each node of K^h ceil(tau_h / M) times. Returns sums (S, n) and that number."""
        n = min(pulls_each(h, self.log, self.settings, self.task.n_clients), self.task.horizon + 1)
        owner = np.repeat(np.arange(self.S), len(index))
        sums = yield Pull(h, owner, np.tile(index, self.S), np.full(len(owner), n))
        return sums.reshape(self.S, -1), n

    def finish(self, h: int, owners: np.ndarray, nodes: np.ndarray) -> None:
        """A depth is finished: its best node is what a client would deploy, unless it knows a deeper one."""
        going = ~self.done[owners]
        if h >= self._best_depth:
            self._best_depth = h
            self.best[owners[going]] = self.task.partition.centers(h, nodes[going])

    def play(self, owners: np.ndarray, nodes: np.ndarray) -> Pull:
        """Cells at max_depth are not split: the best of them is played to the horizon, more than anyone has left."""
        return Pull(self.task.partition.max_depth, owners, nodes, np.full(len(owners), self.task.horizon + 1))

    def pe(self, shared: dict, own: dict):
        """Algorithm 3, PE, from the root: each client eliminates alone, sparing what the federation kept.

        shared: h -> (index, mean, b), K^h after elimination and its global statistics; nothing beyond H_0.
        own: h -> (index, sums (S, n nodes), n), what each client drew of K^h before elimination, n pulls a node.
        """
        s, partition, most = self.settings, self.task.partition, self.task.horizon + 1  # most: more than anyone can pull
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
                mean[protected], b[protected] = shared[h][1][at], shared[h][2][at]
            first = firsts(owner)
            best = self.arg_max(mean, first)  # line 8, over all of K_m^h (deviation 7)
            of_each = np.repeat(best, np.diff(first, append=len(mean)))
            keep = kept(mean, b, of_each, h, s.nu_1, s.rho) | protected  # line 9
            self.finish(h, owner[best], index[best])
            if h == partition.max_depth:
                going = best[~self.done[owner[best]]]
                yield self.play(owner[going], index[going])
            keep &= ~self.done[owner]
            owner, index = np.repeat(owner[keep], partition.k), partition.children(index[keep])  # line 10
            h += 1  # line 11


class PFPNE(Phases):
    """Algorithm 2: evaluate K^h with the others down to depth H_0, then run PE alone."""

    def __init__(self, task: Task, settings: PFPNESettings, S: int):
        super().__init__(task, settings, S)
        self.H_0 = transition_depth(settings.Delta, settings.nu_1, settings.rho)  # line 2

    def loop(self):
        shared, own = {}, {}
        h, index = self.start(self.task)  # line 2, K^0
        while h <= self.H_0:  # lines 3-4 (deviation 4)
            sums, n = yield from self.pull_each(h, index)  # lines 5-7
            answer = yield Report(h, sums / n)  # lines 8-10
            own[h], shared[h] = (index, sums, n), (answer.index, answer.means, answer.bounds)  # line 11
            best = np.full(self.S, answer.index[np.argmax(answer.means)])
            self.finish(h, np.arange(self.S), best)
            if h == self.task.partition.max_depth:
                yield self.play(np.arange(self.S), best)
            h, index = h + 1, self.task.partition.children(answer.index)  # lines 12-13
        yield from self.pe(shared, own)  # lines 15-17


class FedPNE(Phases):
    """Fed-PNE's client: stage 1 of PF-PNE without end, with the expansion criterion (deviation 11)."""

    def loop(self):
        h, index = expand(self.task, self.settings, self.log, *self.start(self.task))
        while True:
            sums, n = yield from self.pull_each(h, index)
            answer = yield Report(h, sums / n)
            means = (sums / n)[:, find(index, answer.index)[0]]
            best = answer.index[np.argmax(means, axis=1)]
            self.finish(h, np.arange(self.S), best)
            if h == self.task.partition.max_depth:
                yield self.play(np.arange(self.S), best)
            h, index = expand(self.task, self.settings, self.log, h + 1, self.task.partition.children(answer.index))


class PE(Phases):
    """Algorithm 3 alone, no node spared: phased elimination from the root (deviation 18)."""

    def loop(self):
        yield from self.pe({}, {})


# --- one client of a deployment, and the server -------------------------------------------------------


class PhasedClient(Client):
    """One client: asks for what its loop wants, and tells it the sums of the rewards."""

    def __init__(self, task: Task, settings: PhasedSettings, phases: type[Phases]):
        super().__init__(task)
        self._made_of = phases, task, settings
        self._begin([])

    def _begin(self, sent: list) -> None:
        """Run the loop from its start through all that it was sent before."""
        phases, task, settings = self._made_of
        self._phases, self._sent = phases(task, settings, 1), []
        self._loop = self._phases.loop()
        self._step = next(self._loop)
        for value in sent:
            self._go_on(value)

    def _go_on(self, value) -> None:
        self._sent.append(value)
        self._step = self._loop.send(value)

    def __getstate__(self):  # a loop under way cannot be written down; what it was sent can, and leads to the same place
        return {name: value for name, value in vars(self).items() if name not in ("_phases", "_loop", "_step")}

    def __setstate__(self, state):
        vars(self).update(state)
        self._begin(state["_sent"])

    def _ask(self) -> Batch:
        if isinstance(self._step, Report):
            return NOTHING
        h, _, index, counts = self._step
        left = self.task.horizon - self.t
        if counts.sum() > left:
            counts = cut(counts, np.array([0]), np.array([left]))
            counts, index = counts[counts > 0], index[counts > 0]
        return Batch(self.task.partition.centers(h, index), counts)

    def _tell(self, batch: Batch, rewards: np.ndarray) -> NodeMeans | None:
        if batch.size < self._step.counts.sum():
            return None  # a phase that the horizon has cut communicates nothing (deviation 9)
        self._go_on(node_sums(rewards, batch.counts))
        return NodeMeans(self._step.h, self._step.means[0]) if isinstance(self._step, Report) else None

    def receive(self, message: Kept | KeptIndex) -> None:
        """Take the server's answer. One that is late, or comes twice, is ignored; one too early is a ValueError."""
        awaited = self._step.h if isinstance(self._step, Report) else None
        if message.header != awaited:
            if awaited is not None and message.header > awaited:
                raise ValueError(f"a message of depth {message.header} came, and that of depth {awaited} is awaited.")
            logging.getLogger(__name__).warning("a message of depth %d is late: ignored", message.header)
            return
        self._go_on(message)

    def best(self) -> np.ndarray:
        """The centre (d,) of the node with the highest mean in the deepest finished depth; at first the domain's."""
        return self._phases.best[0].copy()


class PhasedServer(Server):
    """Algorithm 1: average the clients' means, eliminate, broadcast what stays.

    It follows the same K^h as the clients: from the same K^0, by the same rules.
    """

    start_at = staticmethod(Phases.start)

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task, settings)
        self.log = settings.log_term(task)
        self.h, self.index = self._begin(*self.start_at(task))  # line 2

    def _begin(self, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
        return h, index

    def _answer(self, h: int, index: np.ndarray, mean: np.ndarray, b: np.ndarray) -> Message:
        return Kept(h, index, mean, b)

    def samples(self, h: int) -> int:
        """T_{h,i}: what was really drawn of a node, M ceil(tau_h / M) (deviation 6)."""
        return self.task.n_clients * pulls_each(h, self.log, self.settings, self.task.n_clients)

    def exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        h, M = self.h, self.task.n_clients
        if len(messages) != M or any(message.header != h for message in messages.values()):
            raise ValueError(f"phase {h} ends when all {M} clients have sent their means of depth {h}.")
        answer = self.conclude(np.stack([messages[m].means for m in range(M)]))
        return {m: answer for m in range(M)}

    def conclude(self, means: np.ndarray) -> Message:
        """One phase: from the clients' means (M, n) of K^h (line 6) to the broadcast; K^{h+1} is next."""
        h, s, partition = self.h, self.settings, self.task.partition
        mean = means.mean(axis=0)  # lines 7-9
        b = np.full(len(mean), radius(self.samples(h), self.log, s.c))
        keep = kept(mean, b, np.argmax(mean), h, s.nu_1, s.rho)  # lines 10-11
        index = self.index[keep]  # line 12
        if h < partition.max_depth:
            self.h, self.index = self._begin(h + 1, partition.children(index))  # lines 14, 4
        return self._answer(h, index, mean[keep], b[keep])  # line 13


class FedPNEServer(PhasedServer):
    """The same with Fed-PNE's expansion, and indices alone in the broadcast."""

    def _begin(self, h, index):
        return expand(self.task, self.settings, self.log, h, index)

    def _answer(self, h, index, mean, b):
        return KeptIndex(h, index)


def make_phased(phases: type[Phases], server: type[Server], task: Task, settings: PhasedSettings, client=PhasedClient):
    """The server and the M clients of an algorithm; pe's server says nothing."""
    return server(task, settings), [client(task, settings, phases) for _ in range(task.n_clients)]
