"""Clients, their server, and the loop that drives both: the parts of every algorithm of the package.

A client says which points it wants evaluated (`ask`), is told the rewards (`tell`), and may return a message for the
server. The server answers messages with messages. Client and server share nothing else, so the same objects serve in a
simulation and in a deployment.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pfpne.messages import Awaited, Message
from pfpne.partition import Partition
from pfpne.pyxab import PyXABPartition
from pfpne.rng import stream
from pfpne.validation import (
    MAX_REWARD,
    check,
    check_count,
    check_evaluations,
    check_noise,
    check_rewards,
    is_integer,
    is_number,
)


@dataclass(frozen=True)
class Task:
    """An algorithm's knowledge of a problem before it starts.

    Parameters
    ----------
    partition
        The hierarchical partition of the domain, the same for server and clients.
    n_clients
        M, the number of clients, in 1..10^6.
    horizon
        T, the number of evaluations of each client, in 1..10^9; M T is at most 10^9.
    noise
        "bernoulli" for rewards 0 and 1, the half-width of uniform noise, or None if the noise is unknown.
    candidates
        Points (n, d) that arms may be drawn from; None for the whole domain.
    seed, key
        The names of the run's random streams: an integer >= 0, and a tuple of names and integers >= 0.
    reward_range
        (low, high), in which every reward lies. None stands for (0, 1) if the noise is "bernoulli", else for +-1e9. A
        client refuses a reward outside of this range, and a receiver of messages refuses a mean outside of it.

    Raises
    ------
    ValueError
        If an argument is out of its range, or a candidate lies outside of the domain.

    Examples
    --------
    >>> import pfpne
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=3, horizon=500, noise="bernoulli")
    >>> task.reward_limits
    (0.0, 1.0)
    """

    partition: Partition | PyXABPartition
    n_clients: int
    horizon: int
    noise: float | str | None = None
    candidates: np.ndarray | None = None
    seed: int = 0
    key: tuple = ()
    reward_range: tuple[float, float] | None = None

    def __post_init__(self):
        is_partition = isinstance(self.partition, (Partition, PyXABPartition))
        check(is_partition, "partition", "a Partition or a PyXABPartition", self.partition)
        check_count("n_clients", self.n_clients)
        check_count("horizon", self.horizon)
        check_evaluations(self.n_clients, self.horizon)
        check_count("seed", self.seed)
        if self.noise is not None:
            check_noise("noise", self.noise)
        if self.reward_range is not None:
            is_pair = isinstance(self.reward_range, (tuple, list)) and len(self.reward_range) == 2
            is_range = is_pair and all(is_number(x) and abs(x) <= MAX_REWARD for x in self.reward_range)
            is_range = is_range and self.reward_range[0] < self.reward_range[1]
            check(is_range, "reward_range", "(low, high), two numbers within +-1e9, low < high", self.reward_range)
        if self.candidates is not None:
            points, domain = np.array(self.candidates, dtype=float), self.partition.domain
            right_shape = points.shape[1:] == (len(domain),) and len(points) > 0
            check(right_shape, "candidates", f"points of shape (n, {len(domain)}), n >= 1", points.shape)
            inside = ((domain[:, 0] <= points) & (points <= domain[:, 1])).all(axis=1)
            check(inside.all(), "candidates", f"in the domain {domain.tolist()}", points[~inside][:1].tolist())
            points.setflags(write=False)
            object.__setattr__(self, "candidates", points)

    @property
    def reward_limits(self) -> tuple[float, float]:
        """The smallest and the largest possible reward: reward_range, or its default."""
        if self.reward_range is not None:
            return float(self.reward_range[0]), float(self.reward_range[1])
        return (0.0, 1.0) if self.noise == "bernoulli" else (-MAX_REWARD, MAX_REWARD)

    def statistic_ranges(self, kind: type["Message"]) -> dict[str, tuple[float, float]]:
        """Return {array: (low, high)} for the arrays of this kind of message that declare a statistic of rewards.

        A mean lies in the range of the rewards; a variance lies between 0 and the square of the range's width. Both
        limits are a little wider, for rounding.
        """
        low, high = self.reward_limits
        width = high - low
        ranges = {"mean": (low - 1e-9 * width, high + 1e-9 * width), "variance": (0.0, (1 + 1e-9) * width**2)}
        statistics = {f.name: f.metadata["statistic"] for f in dataclasses.fields(kind)[1:]}
        return {name: ranges[statistic] for name, statistic in statistics.items() if statistic}

    def stream(self, role: str) -> np.random.Generator:
        """Return the random stream of a role ("arms", "weights"), the same for every algorithm of the run."""
        return stream(self.seed, *self.key, role)


@dataclass(frozen=True, eq=False)
class Batch:
    """The evaluations that a client asks for, in order: points (n, d), each counts (n,) times; size in all."""

    points: np.ndarray
    counts: np.ndarray
    size: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "size", int(np.sum(self.counts)))
        self.points.setflags(write=False)  # they may be part of the client's state
        self.counts.setflags(write=False)


EMPTY_BATCH = Batch(np.empty((0, 0)), np.empty(0, dtype=np.int64))


class Client(ABC):
    """One client of an algorithm. It can be pickled and restored in every state.

    t: the number of evaluations told so far, 0..horizon. receives: the kinds of message that it accepts.
    """

    receives: tuple[type[Message], ...] = ()

    def __init__(self, task: Task):
        self.task, self.t = task, 0
        self._batch: Batch | None = None  # the batch that was asked for, until its rewards are told

    def first_message(self) -> Message | None:
        """Return the message that the client sends before anything else, or None."""
        return None

    def ask(self) -> Batch:
        """Return the evaluations wanted now, the same until they are told.

        The batch is empty while the client waits for the server, and once it is done.
        """
        if self._batch is None:
            batch = self._ask() if self.t < self.task.horizon else EMPTY_BATCH
            if batch.size == 0:
                return EMPTY_BATCH  # not kept: a message may come
            self._batch = batch
        return self._batch

    def tell(self, rewards) -> Message | None:
        """Take the rewards (batch.size,) of the asked batch, in its order; return a message for the server, or None.

        Raises ValueError, with the state unchanged, for a wrong number of rewards, and for one that is no number, NaN
        or beyond the task's range of rewards.
        """
        batch = self.ask()
        check_rewards(rewards, batch.size, *self.task.reward_limits)
        rewards = np.asarray(rewards, dtype=float)
        if batch.size == 0:
            return None
        self._batch = None
        self.t += batch.size
        return self._tell(batch, rewards)

    def receive(self, message: Message) -> Message | None:
        """Take a message from the server; return an answer, or None.

        A late or repeated message is ignored, with a line in the log; a wrong message is a ValueError. Neither changes
        the state.
        """
        return self._receive(message) if self.awaits().accepts(message, self.receives) else None

    def awaits(self) -> Awaited:
        """Return a description of the message that the client waits for; `receive` checks messages against it."""
        return Awaited(-1)

    def _receive(self, message: Message) -> Message | None:
        """Take the message awaited; return an answer, or None."""

    @abstractmethod
    def _ask(self) -> Batch:
        """Return the next batch, of at most horizon - t evaluations, without changing any state."""

    @abstractmethod
    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        """Learn from the rewards of the batch; self.t already counts them."""

    @abstractmethod
    def best(self) -> np.ndarray:
        """Return the point (d,) that the client would deploy now."""


class Server:
    """The server of an algorithm; this one serves clients that send nothing.

    receives: the kinds of message that it accepts. tolerates_missing: whether a phase can be concluded without some of
    the clients. quorum: the number of clients that have to answer. n_present: the number of clients that have answered
    in the current phase. left_out: the clients without which the current exchange continues.
    """

    receives: tuple[type[Message], ...] = ()
    tolerates_missing = False
    left_out: tuple[int, ...] = ()

    def __init__(self, task: Task, settings: Any = None):
        self.task, self.settings = task, settings
        self.quorum = self.n_present = task.n_clients

    def first_messages(self) -> dict[int, Message]:
        """Return the messages (client -> message) that the server sends before any evaluation."""
        return {}

    def exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        """Answer the clients' messages (client -> message) with messages (client -> message).

        A message that is late or repeated is ignored, with a line in the log. A wrong message, or a missing one that is
        needed, raises a ValueError. Neither changes the state.
        """
        check(isinstance(messages, dict), "messages", "a dict, {client: message}", messages)
        for m in messages:
            last = self.task.n_clients - 1
            check(is_integer(m) and 0 <= m <= last, "the sender of a message", f"a client, 0..{last}", m)
        if not messages:
            raise ValueError("there is no message to answer.")
        taken = {m: message for m, message in messages.items() if self.awaits(m).accepts(message, self.receives)}
        headers = sorted({message.header for message in taken.values()})
        check(len(headers) <= 1, "messages that are exchanged together", "of one header", headers)
        return self._exchange(taken) if taken else {}

    def awaits(self, m: int) -> Awaited:
        """Return a description of the message that the server now waits for from client m."""
        return Awaited(-1)

    def rewards_in_means(self) -> int:
        """Return the number of rewards in each of a client's means, in the exchange that the server waits for."""
        return 1

    def phase_evaluations(self) -> int:
        """Return the number of a client's evaluations between two exchanges; 0 if it is not known."""
        return 0

    def is_due(self, m: int, n_evaluated: int) -> bool:
        """Whether client m still owes a message: whether it can finish the current phase before the horizon.

        n_evaluated: the number of evaluations that each client had made at the last exchange. It is the same for all
        clients, because they evaluate equally often in a phase. An algorithm where they do not has its own `is_due`.
        """
        return 0 < self.phase_evaluations() <= self.task.horizon - n_evaluated

    def _exchange(self, messages: dict[int, Any]) -> dict[int, Message]:
        """Answer one or more awaited messages. Here they come from a quorum of clients, and all get the same answer."""
        M, senders = self.task.n_clients, sorted(messages)
        if len(senders) < self.quorum:
            all_or_some = "all" if self.quorum == M else f"{self.quorum} of the"
            raise ValueError(f"a phase ends when {all_or_some} {M} clients have sent theirs; {len(senders)} did.")
        self.n_present = len(senders)
        answer = self.conclude(*map(np.stack, zip(*(messages[m].values for m in senders), strict=True)))
        return dict.fromkeys(senders, answer)

    def conclude(self, *arrays: np.ndarray) -> Message:
        """Return the answer to all clients, from the arrays of their messages: one row for each client."""
        raise NotImplementedError


class Federation:
    """A server, its clients and the messages between them, driven in sweeps.

    In a sweep, every client that wants evaluations is told theirs; then messages pass until nobody has any.

    Parameters
    ----------
    server, clients
        What `make_federation` makes for an algorithm.
    up_kinds, down_kinds
        The kinds of message that the clients may send, and that the server may send. Another kind raises a TypeError.

    Attributes
    ----------
    on_mail
        None, or a function (t, up, down) that sees each exchange: the number of evaluations t of the senders, and the
        messages, as lists of (client, message).

    Examples
    --------
    >>> import pfpne
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=2, horizon=100)
    >>> federation = pfpne.make_federation("pf-pne", task)
    >>> while federation.running:
    ...     for m, batch in federation.ask():
    ...         points = batch.points.repeat(batch.counts, axis=0)
    ...         federation.tell(m, 1 - abs(points[:, 0] - 0.3))
    >>> federation.clients[0].best()
    array([0.28125])
    """

    def __init__(self, server: Server, clients: Sequence[Client], up_kinds: tuple = (), down_kinds: tuple = ()):
        self.server, self.clients, self.up_kinds, self.down_kinds = server, clients, up_kinds, down_kinds
        self.on_mail: Callable | None = None
        self._pending: dict[int, Batch] | None = None  # the sweep's batches not yet told; None before the first
        self._outbox: dict[int, Message] = {}

    @property
    def running(self) -> bool:
        """Whether any client has evaluations left before the horizon."""
        return any(client.t < client.task.horizon for client in self.clients)

    def ask(self) -> list[tuple[int, Batch]]:
        """Return the (client, batch) pairs still to be evaluated in this sweep; asking twice changes nothing."""
        if self._pending is None:
            first = {m: client.first_message() for m, client in enumerate(self.clients)}
            self._outbox = {m: message for m, message in first.items() if message is not None}
            self._post({}, self.server.first_messages())
            self._exchange()
        if not self._pending:
            self._pending = {m: batch for m, client in enumerate(self.clients) if (batch := client.ask()).size}
            if self.running and not self._pending:
                raise RuntimeError("every client waits for the server: a message was lost.")
        return list(self._pending.items())

    def tell(self, m: int, rewards) -> None:
        """Tell client m the rewards of its batch. The last one told in a sweep sets off the exchange."""
        check(is_integer(m), "the client to be told", "an integer", m)
        if not self._pending:
            self.ask()
        if self._pending is None or m not in self._pending:
            raise ValueError(f"client {m} has no batch to be told about; ask() lists those that have.")
        message = self.clients[m].tell(rewards)
        del self._pending[m]
        if message is not None:
            self._outbox[m] = message
        if not self._pending:
            self._exchange()

    def _exchange(self) -> None:
        """Pass messages on until nobody has any."""
        while self._outbox:
            up, self._outbox = self._outbox, {}
            self._post(up, self.server.exchange(up))

    def _post(self, up: dict[int, Message], down: dict[int, Message]) -> None:
        for declared, mail in ((self.up_kinds, up), (self.down_kinds, down)):
            for message in mail.values():
                if not isinstance(message, declared):
                    raise TypeError(f"this algorithm does not declare messages of kind {type(message).__name__}")
        for m, message in down.items():
            answer = self.clients[m].receive(message)
            if answer is not None:
                self._outbox[m] = answer
        if self.on_mail is not None and (up or down):
            self.on_mail(max(self.clients[m].t for m in up or down), list(up.items()), list(down.items()))
