"""The machinery of algorithms that go in phases: S clients at once, one in a deployment, all M in a simulation.

Nodes lie in flat arrays, client after client and in increasing index; owner (N,) says whose they are. An algorithm is a
loop (`Phases`) that yields what it wants, and is sent what came of it. `PhasedClient` makes one client of such a loop.
"""

from typing import NamedTuple

import numpy as np

from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.messages import Awaited, Message

# --- flat arrays -----------------------------------------------------------------------------------------


def steps(values: np.ndarray) -> np.ndarray:
    """Which of the values (N,), N >= 1, differ from the one before; the first does."""
    return np.append(True, values[1:] != values[:-1])


def firsts(owner: np.ndarray) -> np.ndarray:
    """Where each owner's nodes begin in the flat arrays (S,)."""
    return np.flatnonzero(steps(owner))


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


# --- the clients ---------------------------------------------------------------------------------------


class Pull(NamedTuple):
    """Node (h, index) is to be evaluated by client `owner`, `counts` >= 1 times, each (N,), in this order.

    The sums (N,) of the rewards come back. A client that the horizon cuts is done: its sums mean nothing.
    """

    h: int
    owner: np.ndarray
    index: np.ndarray
    counts: np.ndarray


class Phases:
    """S clients that go through the same phases, each alone on its objective: one in a deployment, M in a simulation.

    A subclass's loop() yields what they want, a Pull, or a message for the server whose arrays have a row a client, and
    is sent what came of it.
    done (S,): whose last phase the horizon has cut; set by who runs the loop. best (S, d): what they would deploy.
    answers: the kinds of message that the server answers with; index (n,): the nodes K^h that it is sent the means of.
    """

    answers: tuple[type[Message], ...] = ()

    def __init__(self, task: Task, settings, S: int):
        self.task, self.settings, self.S = task, settings, S
        self.done, self.index = np.zeros(S, dtype=bool), self.start(task)[1]
        self.best, self._best_depth = np.repeat(task.partition.centers(0, 1), S, axis=0), -1

    @staticmethod
    def start(task: Task) -> tuple[int, np.ndarray]:
        """Depth and indices of K^0 = {(0, 1)}, the same for clients and server (deviation 3)."""
        return 0, np.array([1])

    @staticmethod
    def arg_max(values: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Position (S,) of the largest value of each owner; of equal ones the smallest index (deviation 10)."""
        top = np.repeat(np.maximum.reduceat(values, start), np.diff(start, append=len(values)))
        at = np.flatnonzero(values == top)
        return at[np.searchsorted(at, start)]

    def finish(self, h: int, owners: np.ndarray, nodes: np.ndarray):
        """A depth is finished: its best node is what a client would deploy, unless it knows a deeper one.

        Cells at max_depth are not split: the best of them is played to the horizon, more than anyone has left.
        """
        going = ~self.done[owners]
        owners, nodes = owners[going], nodes[going]
        if h >= self._best_depth:
            self._best_depth = h
            self.best[owners] = self.task.partition.centers(h, nodes)
        if h == self.task.partition.max_depth:
            yield Pull(h, owners, nodes, np.full(len(owners), self.task.horizon + 1))


class PhasedClient(Client):
    """One client: asks for what its loop wants, and tells it the sums of the rewards."""

    def __init__(self, task: Task, settings, phases: type[Phases]):
        super().__init__(task)
        self.__setstate__({"_made_of": (phases, settings), "_sent": []})

    def __getstate__(self):  # a loop under way cannot be written down; what it was sent can, and leads to the same
        return {name: value for name, value in vars(self).items() if name not in ("_phases", "_loop", "_step")}

    def __setstate__(self, state):
        vars(self).update(state)
        phases, settings = self._made_of
        self._phases = phases(self.task, settings, 1)
        self._loop = self._phases.loop()
        self._step = next(self._loop)
        for value in self._sent:
            self._step = self._loop.send(value)

    def _go_on(self, value) -> None:
        self._sent.append(value)
        self._step = self._loop.send(value)

    def _ask(self) -> Batch:
        if isinstance(self._step, Message):
            return EMPTY_BATCH
        h, _, index, counts = self._step
        if counts.sum() > (left := self.task.horizon - self.t):
            counts = cut(counts, np.array([0]), np.array([left]))
        if not counts.all():
            index, counts = index[counts > 0], counts[counts > 0]
        return Batch(self.task.partition.centers(h, index), counts)

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        if batch.size < self._step.counts.sum():
            return None  # a phase that the horizon has cut communicates nothing (deviation 9)
        self._go_on(node_sums(rewards, batch.counts))
        step = self._step
        return type(step)(step.header, *(rows[0] for rows in step.values)) if isinstance(step, Message) else None

    @property
    def takes(self) -> tuple[type[Message], ...]:
        return self._phases.answers

    def awaits(self) -> Awaited:
        """The server's answer, on some of the nodes whose means it was sent."""
        after = max((value.header for value in self._sent if isinstance(value, Message)), default=-1)
        if not isinstance(self._step, Message):
            return Awaited(after)
        h, index = self._step.header, self._phases.index
        kind, within = self.takes[0], self.task.bounds(self.takes[0])
        return Awaited(after, kind, range(h, h + 1), {"n": len(index)}, {"index": index}, within)

    def _receive(self, message: Message) -> None:
        self._go_on(message)

    def best(self) -> np.ndarray:
        """The centre (d,) of the node with the highest mean in the deepest finished depth; at first the domain's."""
        return self._phases.best[0].copy()


def make_phased(phases: type[Phases], server: type[Server], task: Task, settings, client=PhasedClient):
    """The server and the M clients of an algorithm; pe's server says nothing."""
    return server(task, settings), [client(task, settings, phases) for _ in range(task.n_clients)]
