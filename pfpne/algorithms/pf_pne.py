"""PF-PNE, Fed-PNE and PE: phased elimination of the nodes of a partition, together and alone.

Sources: PF-PNE and PE are Algorithms 1 (server), 2 (client) and 3 (PE) of "Personalized Federated
X-armed Bandit"; Fed-PNE is Li, Song, Honorio and Lin, "Federated X-armed Bandit" (2022). Where a
listing is silent or contradicts itself, docs/deviations.md says what is done here and why; numbers
in "(deviation n)" are its entries.

| paper                           | here                     | meaning                                         |
|---------------------------------|--------------------------|-------------------------------------------------|
| (h, i)                          | h, index                 | node: depth and index, 1-based                  |
| K^h                             | server.index, shared     | the server's active nodes of depth h            |
| K_m^h                           | Elimination.index        | the client's own active nodes of depth h        |
| E^h, E_m^h                      | ~keep                    | what the server, the client eliminates          |
| T_{m,h,i}                       | n                        | the client's own samples of a node              |
| mu-hat_{m,h,i}, b_{m,h,i}       | mean, b in Elimination   | the client's mean of a node and its half-width  |
| mu-bar_{h,i}, b_{h,i}           | mean, b in PhasedServer  | the global mean of a node and its half-width    |
| tau_h, H_0                      | bounds.tau, H_0          | samples wanted at depth h; last federated depth |
| nu_1, rho, c, c_1, delta, Delta | settings                 | constants fixed by theory or by the user        |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfpne.algorithms.bounds import kept, log_term, radius, tau, transition_depth
from pfpne.checks import check, check_scale, is_number
from pfpne.federation import Batch, Client, Message, Server, Task
from pfpne.simulation.noise import noisy
from pfpne.simulation.record import Recorder

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
        check(is_number(self.rho) and 0 < self.rho < 1, "rho", "a number in (0, 1)", self.rho)
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


# --- the steps, for one client or for many at once ---------------------------------------------------
# Nodes lie in flat arrays, client after client and in increasing index; owner (N,) says whose they are.
# A client of a deployment is the case of one owner; the simulator takes all through a depth together.


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


class Elimination:
    """Algorithm 3, PE, from the root: each owner eliminates alone, sparing the nodes that the federation kept.

    shared: h -> (index, mean, b), K^h after elimination and its global statistics; empty beyond H_0.
    own: h -> (index, sums, n), what was drawn of K^h before elimination in stage 1: sums (S, n nodes), n pulls a node.
    Evolving state: depth h, and owner, index (N,), the nodes of K_m^h.
    """

    def __init__(self, task: Task, settings: PhasedSettings, owners: int, shared: dict, own: dict):
        self.partition, self.settings = task.partition, settings
        self.shared, self.own = shared, own
        self.h, self.owner, self.index = 0, np.arange(owners), np.ones(owners, dtype=np.int64)  # line 2
        self._log = settings.log_term(task)
        self._most = task.horizon + 1  # more pulls than anyone has: keeps sums of counts small

    def lacking(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lines 4-6: owner, index and count of what K_m^h without K^h still lacks of tau_h samples (deviation 5)."""
        h, s = self.h, self.settings
        self._sums, self._n = np.zeros(len(self.index)), np.zeros(len(self.index), dtype=np.int64)
        self._protected, self._global = np.zeros(len(self.index), dtype=bool), np.empty(0, dtype=np.int64)
        if h in self.shared:
            index, sums, n = self.own[h]
            drawn, at = find(self.index, index)
            self._sums[drawn], self._n[drawn] = sums[self.owner[drawn], at], n
            self._protected, self._global = find(self.index, self.shared[h][0])
        lack = np.maximum(0, min(tau(h, self._log, s.c, s.nu_1, s.rho), self._most) - self._n)
        lack[self._protected] = 0
        self._lack = np.flatnonzero(lack)
        return self.owner[self._lack], self.index[self._lack], lack[self._lack]

    def forget(self, done: np.ndarray) -> None:
        """Leave out the owners m with done[m]."""
        going = ~done[self.owner]
        self.owner, self.index = self.owner[going], self.index[going]

    def learn(self, sums: np.ndarray, counts: np.ndarray) -> None:
        """The sums of the rewards of the nodes that were lacking, pulled `counts` times each."""
        self._sums[self._lack] += sums
        self._n[self._lack] += counts

    def eliminate(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Lines 7-11: eliminate, go to the children. Returns the depth finished, each owner and its best node (S,).

        At max_depth, where no cell can be split, h does not change.
        """
        h, s = self.h, self.settings
        mean = self._sums / self._n  # line 7
        b = radius(self._n, self._log, s.c)
        if self._global.size:
            _, global_mean, global_b = self.shared[h]
            mean[self._protected], b[self._protected] = global_mean[self._global], global_b[self._global]
        start = firsts(self.owner)
        best = arg_max(mean, start)  # line 8, over all of K_m^h (deviation 7)
        owners, nodes = self.owner[best], self.index[best]
        of_each = np.repeat(best, np.diff(start, append=len(mean)))
        keep = kept(mean, b, of_each, h, s.nu_1, s.rho) | self._protected  # line 9
        self.owner, self.index = self.owner[keep], self.index[keep]
        if h < self.partition.max_depth:
            self.owner = np.repeat(self.owner, self.partition.k)
            self.index = self.partition.children(self.index)  # line 10
            self.h = h + 1  # line 11
        return h, owners, nodes


# --- the server -------------------------------------------------------------------------------------


class PhasedServer(Server):
    """Algorithm 1: average the clients' means, eliminate, broadcast what stays.

    It follows the same K^h as the clients: from the same K^0, by the same rules.
    """

    def __init__(self, task: Task, settings: PhasedSettings):
        self.task, self.settings = task, settings
        self._log = settings.log_term(task)
        self.h, self.index = self._begin(0, np.array([1]))  # K^0 = {(0, 1)} (deviation 3)

    def _begin(self, h: int, index: np.ndarray) -> tuple[int, np.ndarray]:
        return h, index

    def _answer(self, h: int, index: np.ndarray, mean: np.ndarray, b: np.ndarray) -> Message:
        return Kept(h, index, mean, b)

    def exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        h, M = self.h, self.task.n_clients
        if len(messages) != M or any(message.header != h for message in messages.values()):
            raise ValueError(f"phase {h} ends when all {M} clients have sent their means of depth {h}.")
        answer = self.conclude(np.stack([messages[m].means for m in range(M)]))  # Algorithm 1, line 6
        return {m: answer for m in range(M)}

    def conclude(self, means: np.ndarray) -> Message:
        """Lines 7-14: from the clients' means (M, n) of K^h to the broadcast; K^{h+1} is next."""
        h, s, M = self.h, self.settings, self.task.n_clients
        mean = means.mean(axis=0)  # lines 7-9
        b = np.full(len(mean), radius(M * pulls_each(h, self._log, s, M), self._log, s.c))  # deviation 6
        keep = kept(mean, b, np.argmax(mean), h, s.nu_1, s.rho)  # lines 10-12
        index = self.index[keep]
        if h < self.task.partition.max_depth:
            self.h, self.index = self._begin(h + 1, self.task.partition.children(index))  # line 14
        return self._answer(h, index, mean[keep], b[keep])  # line 13


class FedPNEServer(PhasedServer):
    """The same with Fed-PNE's expansion, and indices alone in the broadcast."""

    def _begin(self, h, index):
        return expand(self.task, self.settings, self._log, h, index)

    def _answer(self, h, index, mean, b):
        return KeptIndex(h, index)


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
        if counts.sum() > left:
            counts = cut(counts, np.array([0]), np.array([left]))
            counts, index = counts[counts > 0], index[counts > 0]
        return Batch(self.task.partition.centers(self._h, index), counts)

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        if self._final is not None or batch.size < self._counts.sum():
            return None  # nothing to learn, or a phase that the horizon cut: it communicates nothing
        return self._conclude(node_sums(rewards, batch.counts))

    def _pull(self, h: int, index: np.ndarray, counts: np.ndarray) -> None:
        """Make (h, index), `counts` times each, the phase that ask() returns next; none: wait."""
        self._h, self._index, self._counts = h, index, counts

    def _pull_each(self, h: int, index: np.ndarray) -> None:
        """Algorithm 2, lines 5-7: pull each node of K^h ceil(tau_h / M) times."""
        n = min(pulls_each(h, self._log, self.settings, self.task.n_clients), self.task.horizon + 1)
        self._pull(h, index, np.full(len(index), n))

    def _finished(self, h: int, best: int) -> None:
        """A depth is finished: the client would deploy its best node, unless it knows a deeper one."""
        if h >= self._best_depth:
            self._best_depth = h
            self._best = self.task.partition.centers(h, best)

    def _stop_splitting(self) -> None:
        """Only cells at max_depth are left: play the best of them to the horizon."""
        self._final = self._best

    def best(self) -> np.ndarray:
        """The centre (d,) of the node with the highest mean in the deepest finished depth; at first the domain's."""
        return self._best[0].copy()

    def _conclude(self, sums: np.ndarray) -> Message | None:
        """Learn the sums (n,) of the rewards of the phase's nodes; return the message for the server, or None."""
        raise NotImplementedError


class PEClient(PhasedClient):
    """Algorithm 3 by one client. Alone (`pe`), no node is spared: phased elimination from the root."""

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task, settings)
        self._start()

    def _start(self) -> None:
        self._run_pe({}, {})

    def _run_pe(self, shared: dict, own: dict) -> None:
        self._local = Elimination(self.task, self.settings, 1, shared, own)
        self._begin_local()

    def _begin_local(self) -> None:
        """Ask for what is lacking; a depth that lacks nothing is eliminated at once."""
        while self._final is None:
            _, index, counts = self._local.lacking()
            if len(index):
                return self._pull(self._local.h, index, counts)
            self._eliminate()

    def _eliminate(self) -> None:
        h, _, best = self._local.eliminate()
        self._finished(h, best[0])
        if self._local.h == h:
            self._stop_splitting()

    def _conclude(self, sums):
        self._local.learn(sums, self._counts)
        self._eliminate()
        self._begin_local()


class PFPNEClient(PEClient):
    """Algorithm 2: evaluate K^h with the others down to depth H_0, then run PE alone."""

    def __init__(self, task: Task, settings: PFPNESettings):
        self.H_0 = transition_depth(settings.Delta, settings.nu_1, settings.rho)  # line 2
        super().__init__(task, settings)

    def _start(self):
        self._together = True
        self._shared, self._own = {}, {}  # as in Elimination
        self._pull_each(0, np.array([1]))  # K^0 = {(0, 1)} (deviation 3)

    def _conclude(self, sums):
        if not self._together:
            return super()._conclude(sums)
        h, index, n = self._h, self._index, self._counts[0]
        self._own[h] = (index, sums[None], n)
        self._pull(h, index[:0], self._counts[:0])  # wait for the server
        return NodeMeans(h, sums / n)  # lines 8-9

    def receive(self, message: Kept) -> None:
        """Lines 10-13: take K^h and its global statistics, and go on to the next depth (deviation 4)."""
        h = message.header
        self._shared[h] = (message.index, message.means, message.bounds)  # lines 10-11
        self._finished(h, message.index[np.argmax(message.means)])
        if h + 1 > self.H_0:  # lines 3, 15-17
            self._together = False
            self._run_pe(self._shared, self._own)
        elif h == self.task.partition.max_depth:
            self._stop_splitting()
        else:
            self._pull_each(h + 1, self.task.partition.children(message.index))  # lines 12-13


class FedPNEClient(PhasedClient):
    """Fed-PNE's client: stage 1 of PF-PNE without end, with the expansion criterion (deviation 11)."""

    def __init__(self, task: Task, settings: PhasedSettings):
        super().__init__(task, settings)
        self._begin(0, np.array([1]))

    def _begin(self, h: int, index: np.ndarray) -> None:
        self._pull_each(*expand(self.task, self.settings, self._log, h, index))

    def _conclude(self, sums):
        self._sent = NodeMeans(self._h, sums / self._counts[0])
        self._pulled = self._index
        self._pull(self._h, self._index[:0], self._counts[:0])  # wait for the server
        return self._sent

    def receive(self, message: KeptIndex) -> None:
        h, index = message.header, message.index
        means = self._sent.means[find(self._pulled, index)[0]]
        self._finished(h, index[np.argmax(means)])
        if h == self.task.partition.max_depth:
            self._stop_splitting()
        else:
            self._begin(h + 1, self.task.partition.children(index))


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


# --- the simulation of all clients at once ------------------------------------------------------------


BLOCK = 2**15  # pulls whose noise is drawn, turned into rewards and summed in one go: they fit into the cache


class _Crowd:
    """The M clients of a simulation, taken through each phase together: what PhasedClient does for one.

    Every client goes through the same depths, each in its own time. t (M,): evaluations so far. done (M,):
    whose last phase the horizon cut. A test shows that it equals the objects, bit for bit.
    """

    def __init__(self, problem, task: Task, noise_streams: list):
        self.problem, self.task, self.noise_streams = problem, task, noise_streams
        self.everyone = np.arange(task.n_clients)
        self.t = np.zeros(task.n_clients, dtype=np.int64)
        self.done = np.zeros(task.n_clients, dtype=bool)
        self.recorder = Recorder()
        self._best = np.repeat(task.partition.centers(0, 1), task.n_clients, axis=0)
        self._best_depth = -1
        self.recorder.deploys(self.everyone, self.t.copy(), self._best.copy())

    def finished(self, h: int, owners: np.ndarray, best: np.ndarray) -> None:
        """These owners have finished depth h, with these best nodes; see PhasedClient."""
        if h >= self._best_depth:
            self._best_depth = h
            self._best[owners] = self.task.partition.centers(h, best)
            self.recorder.deploys(owners, self.t[owners], self._best[owners])

    def evaluate(self, owner: np.ndarray, points: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Sums (N,) of the noisy rewards of the points (N, d), pulled counts (N,) >= 1 times by their owners."""
        values, noise = self.problem.paired_values(owner, points), self.problem.noise
        sums = np.empty(len(owner))
        for a, b, u in self._uniforms(owner, counts):
            means = values[a:b, None]
            rewards = np.broadcast_to(means, u.shape) if noise == 0 else noisy(means, noise, u)
            rewards.sum(axis=1, out=sums[a:b])
        self.recorder.pulled(owner, points, values, counts)
        start = firsts(owner)
        self.t[owner[start]] += np.add.reduceat(counts, start)
        return sums

    def _uniforms(self, owner: np.ndarray, counts: np.ndarray):
        """The uniforms of the pulls, each owner's from its own stream, block by block: (a, b, u (b - a, n)).

        A block is nodes a..b-1, pulled n times each, of one or more owners. It fits into the cache, and is
        overwritten by the next. With noise 0 nothing is drawn.
        """
        new_block = steps(counts) | steps((np.cumsum(counts) - counts) // BLOCK)
        block = np.flatnonzero(new_block)
        piece = np.flatnonzero(new_block | steps(owner))  # one owner's part of a block
        size = np.add.reduceat(counts, block)
        pieces = zip(owner[piece].tolist(), np.add.reduceat(counts, piece).tolist(), strict=True)
        u = np.empty(size.max())
        for a, n, pulls in zip(block.tolist(), counts[block].tolist(), size.tolist(), strict=True):
            drawn = pulls if self.problem.noise == 0 else 0
            while drawn < pulls:
                m, k = next(pieces)
                self.noise_streams[m].random(out=u[drawn : drawn + k])
                drawn += k
            yield a, a + pulls // n, u[:pulls].reshape(-1, n)

    def pull(self, h: int, owner: np.ndarray, index: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Pull the nodes of a phase; owners whom the horizon cuts are done, and their sums mean nothing."""
        start = firsts(owner)
        left = self.task.horizon - self.t[owner[start]]
        short = np.add.reduceat(counts, start) > left
        self.done[owner[start][short]] = True
        fitting = cut(counts, start, left) if short.any() else counts
        at = np.flatnonzero(fitting)
        sums = np.zeros(len(counts))
        if len(at):
            sums[at] = self.evaluate(owner[at], self.task.partition.centers(h, index[at]), fitting[at])
        return sums

    def phases_together(self, server: PhasedServer):
        """Stage 1, phase by phase: yields index (n,), sums (M, n), pulls of each node, and the server's answer."""
        M, T = self.task.n_clients, self.task.horizon
        while True:
            h, index = server.h, server.index
            n = min(pulls_each(h, server.settings.log_term(self.task), server.settings, M), T + 1)
            sums = self.pull(h, np.repeat(self.everyone, len(index)), np.tile(index, M), np.full(M * len(index), n))
            if self.done.any():
                return  # all of them, at the same step: the phase communicates nothing
            sums = sums.reshape(M, -1)
            answer = server.conclude(sums / n)
            self.recorder.exchanged(int(self.t[0]), M * len(index), M * answer.numbers)
            yield index, sums, n, answer
            if h == self.task.partition.max_depth:
                return self.play_best(self.everyone)

    def phases_alone(self, local: Elimination) -> None:
        """Algorithm 3, from the root to the horizon."""
        while len(local.owner):
            owner, index, counts = local.lacking()
            if len(owner):
                local.learn(self.pull(local.h, owner, index, counts), counts)
            h, owners, best = local.eliminate()
            going = ~self.done[owners]
            self.finished(h, owners[going], best[going])
            if local.h == h:
                return self.play_best(owners[going])
            local.forget(self.done)

    def play_best(self, owners: np.ndarray) -> None:
        """Only cells at max_depth are left: play the best of them to the horizon."""
        owners = owners[self.t[owners] < self.task.horizon]
        if len(owners):
            self.evaluate(owners, self._best[owners], self.task.horizon - self.t[owners])


def fast_pf_pne(problem, task: Task, settings: PFPNESettings, noise_streams, checkpoints, global_regret):
    """PF-PNE, all clients at once; see registry.Algorithm."""
    crowd = _Crowd(problem, task, noise_streams)
    H_0 = transition_depth(settings.Delta, settings.nu_1, settings.rho)
    shared, own = {}, {}
    for index, sums, n, answer in crowd.phases_together(PhasedServer(task, settings)):
        h = answer.header
        own[h], shared[h] = (index, sums, n), (answer.index, answer.means, answer.bounds)
        best = answer.index[np.argmax(answer.means)]
        crowd.finished(h, crowd.everyone, np.full(task.n_clients, best))
        if h + 1 > H_0:
            crowd.phases_alone(Elimination(task, settings, task.n_clients, shared, own))
            break
    return crowd.recorder.traces(problem, checkpoints, global_regret)


def fast_fed_pne(problem, task: Task, settings: PhasedSettings, noise_streams, checkpoints, global_regret):
    """Fed-PNE, all clients at once; see registry.Algorithm."""
    crowd = _Crowd(problem, task, noise_streams)
    for index, sums, n, answer in crowd.phases_together(FedPNEServer(task, settings)):
        means = (sums / n)[:, find(index, answer.index)[0]]
        crowd.finished(answer.header, crowd.everyone, answer.index[np.argmax(means, axis=1)])
    return crowd.recorder.traces(problem, checkpoints, global_regret)


def fast_pe(problem, task: Task, settings: PhasedSettings, noise_streams, checkpoints, global_regret):
    """PE, all clients at once; see registry.Algorithm."""
    crowd = _Crowd(problem, task, noise_streams)
    crowd.phases_alone(Elimination(task, settings, task.n_clients, {}, {}))
    return crowd.recorder.traces(problem, checkpoints, global_regret)
