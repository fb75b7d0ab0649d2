"""The machinery of phased algorithms: S clients at once, one in a deployment, all M in a simulation.

Nodes lie in flat arrays, client after client and in increasing index; owner (N,) is the client of each node. A
phased algorithm is a subclass of `ClientGroup`, whose `loop` is a generator: it yields its requests and receives the
answers. `PhasedClient` runs it for one client, and pfpne.simulation.phased for all clients.
"""

from typing import NamedTuple

import numpy as np

from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.messages import Awaited, Message

# --- flat arrays -----------------------------------------------------------------------------------------


def starts_new_value(values: np.ndarray) -> np.ndarray:
    """Return where a run of equal values begins, (N,) for values (N,), N >= 1; the first one does."""
    return np.append(True, values[1:] != values[:-1])


def first_positions(owner: np.ndarray) -> np.ndarray:
    """Return the position (S,) of each owner's first node."""
    return np.flatnonzero(starts_new_value(owner))


def clip_to_budget(counts: np.ndarray, first: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Return the counts (N,) of pulls that fit into each owner's budget (S,), in pulling order (deviation 9).

    first (S,): the position of each owner's first node.
    """
    size = np.diff(first, append=len(counts))
    pulls_after = np.cumsum(counts)
    pulls_after -= np.repeat((pulls_after - counts)[first], size)
    return np.clip(np.repeat(budget, size) - (pulls_after - counts), 0, counts)


def node_sums(rewards: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the sums (n,) of the rewards of each node, which was pulled counts (n,) >= 1 times in a row.

    Nodes that were pulled equally often are summed as rows of one array, as in a simulation: np.add.reduceat adds in
    another order, and would give other last bits.
    """
    first = first_positions(counts)
    blocks = np.split(rewards, (np.cumsum(counts) - counts)[first[1:]])
    return np.concatenate([block.reshape(-1, n).sum(axis=1) for block, n in zip(blocks, counts[first], strict=True)])


def lookup_sorted(index: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which entries of index (n,) are in the increasing table, and the positions there of those that are."""
    if len(table) == 0:
        return np.zeros(len(index), dtype=bool), np.empty(0, dtype=np.int64)
    position = np.minimum(np.searchsorted(table, index), len(table) - 1)
    is_there = table[position] == index
    return is_there, position[is_there]


# --- the clients -----------------------------------------------------------------------------------------


class Pull(NamedTuple):
    """A request of a loop for evaluations.

    Client owner[j] is to pull node (h, index[j]) counts[j] >= 1 times, for j = 0..N-1. The loop receives the sums (N,)
    of the rewards. If the horizon truncates a client's pulls, the client is done, and its sums mean nothing.
    """

    h: int
    owner: np.ndarray
    index: np.ndarray
    counts: np.ndarray


class ClientGroup:
    """S clients that go through the same phases, each on its own objective.

    A phased algorithm is a subclass. Its loop() yields a Pull and receives the sums of the rewards, or it yields a
    message for the server and receives the answer. The arrays of that message have one row per client.

    Attributes
    ----------
    is_truncated
        (S,): whether the horizon has truncated the client's last phase. The caller of the loop sets it.
    best_points
        (S, d): the points that the clients would deploy; at first the domain's centre.
    index
        (n,): the nodes K^h whose means go to the server.
    receives
        The kinds of message that the clients accept.
    """

    receives: tuple[type[Message], ...] = ()

    def __init__(self, task: Task, settings, S: int):
        self.task, self.settings, self.S = task, settings, S
        self.is_truncated, self.index = np.zeros(S, dtype=bool), self.first_nodes(task)[1]
        self.best_points, self._best_depth = np.repeat(task.partition.centers(0, 1), S, axis=0), -1

    @staticmethod
    def first_nodes(task: Task) -> tuple[int, np.ndarray]:
        """Return depth and indices of K^0 = {(0, 1)}, the same for clients and server (deviation 3)."""
        return 0, np.array([1])

    def loop(self):
        """Yield pulls and messages and receive the answers, until the horizon."""
        raise NotImplementedError

    @staticmethod
    def arg_max(values: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return the position (S,) of each owner's largest value; ties go to the smallest index (deviation 10)."""
        largest = np.repeat(np.maximum.reduceat(values, first), np.diff(first, append=len(values)))
        positions = np.flatnonzero(values == largest)
        return positions[np.searchsorted(positions, first)]

    def deploy_best(self, h: int, owners: np.ndarray, best_index: np.ndarray):
        """Deploy the best node of a finished depth, unless a deeper depth is finished already; at max_depth, play it.

        owners (n,) and best_index (n,): the clients that have finished the depth, and the index of each one's best
        node. Cells at max_depth are not split: the client plays the best one until the horizon.
        """
        unfinished = ~self.is_truncated[owners]
        owners, best_index = owners[unfinished], best_index[unfinished]
        if h >= self._best_depth:
            self._best_depth = h
            self.best_points[owners] = self.task.partition.centers(h, best_index)
        if h == self.task.partition.max_depth:
            yield Pull(h, owners, best_index, np.full(len(owners), self.task.horizon + 1))


class PhasedClient(Client):
    """One client: it asks for the evaluations that its loop yields, and sends the loop the sums of the rewards.

    A generator cannot be pickled. So the client stores everything that was sent to it, and replays it when restored.
    The record grows by the sums and the answer of each phase. _request is what the loop has yielded last.
    """

    _made_of: tuple
    _sent: list

    def __init__(self, task: Task, settings, group_class: type[ClientGroup]):
        super().__init__(task)
        self.__setstate__({"_made_of": (group_class, settings), "_sent": []})

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in ("_group", "_loop", "_request")}

    def __setstate__(self, state):
        vars(self).update(state)
        group_class, settings = self._made_of
        self._group = group_class(self.task, settings, 1)
        self._loop = self._group.loop()
        self._request = next(self._loop)
        for value in self._sent:
            self._request = self._loop.send(value)

    def _advance(self, value) -> None:
        self._sent.append(value)
        self._request = self._loop.send(value)

    def _ask(self) -> Batch:
        if isinstance(self._request, Message):
            return EMPTY_BATCH
        h, _, index, counts = self._request
        if counts.sum() > (budget := self.task.horizon - self.t):
            counts = clip_to_budget(counts, np.array([0]), np.array([budget]))
        if not counts.all():
            index, counts = index[counts > 0], counts[counts > 0]
        return Batch(self.task.partition.centers(h, index), counts)

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        if batch.size < self._request.counts.sum():
            return None  # a phase that the horizon has cut communicates nothing (deviation 9)
        self._advance(node_sums(rewards, batch.counts))
        request = self._request
        if not isinstance(request, Message):
            return None
        return type(request)(request.header, *(rows[0] for rows in request.values))

    @property
    def receives(self) -> tuple[type[Message], ...]:
        return self._group.receives

    def awaits(self) -> Awaited:
        """Await the server's answer, once the means of K^h are sent. The answer may name only nodes of K^h."""
        last_header = max((value.header for value in self._sent if isinstance(value, Message)), default=-1)
        if not isinstance(self._request, Message):
            return Awaited(last_header)
        h, index = self._request.header, self._group.index
        kind, ranges = self.receives[0], self.task.statistic_ranges(self.receives[0])
        return Awaited(last_header, kind, range(h, h + 1), {"n": len(index)}, {"index": index}, ranges)

    def _receive(self, message: Message) -> None:
        self._advance(message)

    def best(self) -> np.ndarray:
        """Return the centre (d,) of the best node of the deepest finished depth; at first the domain's centre."""
        return self._group.best_points[0].copy()


def make_phased(group_class: type[ClientGroup], server_class: type[Server], task: Task, settings, client=PhasedClient):
    """Make the server and the M clients of an algorithm."""
    return server_class(task, settings), [client(task, settings, group_class) for _ in range(task.n_clients)]
