"""What every algorithm shares: frozen settings, frozen messages, clients, the server, the driver.

A client says which points to evaluate (`ask`), is told the rewards (`tell`), and may answer with a message for the
server, which answers messages with messages. They share nothing else, so they serve simulation and deployment alike:

    federation = pfpne.make_federation("pf-pne", Task(Partition(domain), n_clients=3, horizon=500))
    while federation.running:
        for m, batch in federation.ask():
            federation.tell(m, my_rewards(m, batch))
"""

import dataclasses
import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pfpne.partition import Partition
from pfpne.pyxab import PyXABPartition
from pfpne.rng import stream
from pfpne.validation import (
    MOST_REWARD,
    check,
    check_count,
    check_evaluations,
    check_noise,
    check_rewards,
    is_integer,
    is_number,
    shown,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """All that an algorithm may know of the problem before it starts.

    n_clients: M. horizon: T, evaluations a client. Ranges: pfpne.validation.COUNTS. noise: as in `check_noise`, or None
    when it is not known.
    candidates: (n, d), where arms may be drawn from; None for the whole domain. (seed, key): names the random streams.
    reward_range: (low, high), what every reward lies in; None for 0 and 1 if they are binary, else for +-1e9. A client
    takes no other reward, and nobody takes a mean beyond it.
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
        known = isinstance(self.partition, (Partition, PyXABPartition))
        check(known, "partition", "a Partition or a PyXABPartition", self.partition)
        check_count("n_clients", self.n_clients)
        check_count("horizon", self.horizon)
        check_evaluations(self.n_clients, self.horizon)
        check_count("seed", self.seed)
        if self.noise is not None:
            check_noise("noise", self.noise)
        if self.reward_range is not None:
            two = isinstance(self.reward_range, (tuple, list)) and len(self.reward_range) == 2
            holds = two and all(is_number(x) and abs(x) <= MOST_REWARD for x in self.reward_range)
            holds = holds and self.reward_range[0] < self.reward_range[1]
            check(holds, "reward_range", "(low, high), two numbers within +-1e9, low < high", self.reward_range)
        if self.candidates is not None:
            points, domain = np.array(self.candidates, dtype=float), self.partition.domain
            holds = points.shape[1:] == (len(domain),) and len(points) > 0
            check(holds, "candidates", f"points of shape (n, {len(domain)}), n >= 1", points.shape)
            inside = ((domain[:, 0] <= points) & (points <= domain[:, 1])).all(axis=1)
            check(inside.all(), "candidates", f"in the domain {domain.tolist()}", points[~inside][:1].tolist())
            points.setflags(write=False)
            object.__setattr__(self, "candidates", points)

    @property
    def rewards(self) -> tuple[float, float]:
        """What a reward lies in, low and high."""
        if self.reward_range is not None:
            return float(self.reward_range[0]), float(self.reward_range[1])
        return (0.0, 1.0) if self.noise == "bernoulli" else (-MOST_REWARD, MOST_REWARD)

    def bounds(self, kind: type["Message"]) -> dict[str, tuple[float, float]]:
        """What the arrays of a kind of message that declares it can be here: name -> (least, most).

        A mean lies in the range of the rewards, a variance in 0..its square (an unbiased one is at most half of that).
        Rounding may add a little.
        """
        low, high = self.rewards
        width = high - low
        ends = {"mean": (low - 1e-9 * width, high + 1e-9 * width), "variance": (0.0, (1 + 1e-9) * width**2)}
        return {f.name: ends[f.metadata["of"]] for f in dataclasses.fields(kind)[1:] if f.metadata["of"]}

    def stream(self, role: str) -> np.random.Generator:
        """The random stream of a role ("arms", "weights"), the same for every algorithm of the run."""
        return stream(self.seed, *self.key, role)


LARGEST = 1e100  # number in a message: its square, and sums of those, are still numbers
LONGEST = 2**26  # text of a message, in characters
LONGEST_NUMBER = 32  # characters of a number in it: 17 digits, sign, point, exponent, and what parts it from the next
LONGEST_HEAD = 300  # characters of all that is no number


def numbers(*shape: int | str, least: float = -LARGEST, most: float = LARGEST, of: str = ""):
    """A field of a message: finite numbers in least..most, at least one. shape: lengths, or names of lengths.

    of: "mean" or "variance" of rewards (a reward is the mean of one), whose range the task knows; "" of all else.
    """
    return field(metadata={"kinds": "iuf", "shape": shape, "least": least, "most": most, "of": of})


def integers(*shape: int | str, least: int = 0, most: int = 2**62):
    """A field of a message: integers in least..most, at least one. shape: lengths, or names of lengths."""
    return field(metadata={"kinds": "i", "shape": shape, "least": least, "most": most, "of": ""})


@dataclass(frozen=True, eq=False)
class Message:
    """What passes between a client and the server: a header, and the arrays of a subclass, its payload; no more.

    A kind declares its arrays by `numbers` and `integers`; equal names of lengths stand for equal lengths.
    """

    header: int  # the depth or phase, or the step; not counted

    def __post_init__(self):
        for name in self.payload():
            values = np.array(getattr(self, name))
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def payload(cls) -> tuple[str, ...]:
        return tuple(f.name for f in dataclasses.fields(cls) if f.name != "header")

    @property
    def values(self) -> tuple[np.ndarray, ...]:
        """The arrays of the payload, in their order."""
        return tuple(getattr(self, name) for name in self.payload())

    @property
    def numbers(self) -> int:
        """How many numbers the message carries."""
        return sum(value.size for value in self.values)

    def check(self, sizes: dict[str, int] | None = None) -> None:
        """Raise ValueError unless all is as the kind declares, with these sizes of the lengths that are named."""
        kind, sizes = type(self).__name__, dict(sizes or {})
        check(is_integer(self.header) and 0 <= self.header < 2**62, f"{kind}'s header", "an integer >= 0", self.header)
        for f in dataclasses.fields(self)[1:]:
            x, declared, name = getattr(self, f.name), f.metadata, f"{kind}'s {f.name}"
            what = "integers" if declared["kinds"] == "i" else "numbers"
            check(x.dtype.kind in declared["kinds"], name, what, f"an array of {x.dtype}")
            lengths = x.shape if x.ndim == len(declared["shape"]) else (0,) * len(declared["shape"])
            shape = [
                sizes.setdefault(n, length) if isinstance(n, str) else n
                for n, length in zip(declared["shape"], lengths, strict=True)
            ]
            check(x.shape == tuple(shape) and x.size > 0, name, f"of shape {declared['shape']} {sizes}", x.shape)
            least, most = declared["least"], declared["most"]
            check(least <= x.min() and x.max() <= most, name, f"{what} in [{least:g}, {most:g}]", (x.min(), x.max()))

    def to_json(self, plan: str = "") -> str:
        """The message as text. plan: what tells those who have agreed on one from others, up to 100 characters."""
        content = {name: getattr(self, name).tolist() for name in self.payload()}
        head = {"plan": plan} if plan else {}
        return json.dumps({**head, "kind": type(self).__name__, "header": self.header, **content})

    @staticmethod
    def from_json(text: str, plan: str | None = None, longest: int = LONGEST) -> "Message":
        """The message that `to_json` wrote, of a kind that an imported algorithm declares; ValueError for all else.

        plan: the one that the text must be of, None for any. longest: how many characters it may have. It costs no more
        than what a message of that length may hold: what was parsed is looked at before an array is made of it.
        """
        if not isinstance(text, str) or len(text) > min(longest, LONGEST):
            came = f"one of {len(text)}" if isinstance(text, str) else shown(text)
            raise ValueError(
                f"not a message: a text of at most {min(longest, LONGEST)} characters is wanted; got {came}."
            )
        try:
            # A message is one dict of few names, and of lists of numbers, at most two of which are square arrays.
            holds = text.count("{") == 1 and text.count('"') <= 30 and text.count("[") <= 10 + 4 * len(text) ** 0.5
            holds = holds and not any(word in text for word in ("null", "true", "false", "NaN", "Infinity"))
            check(holds, "a message", "one dict of lists of numbers", text[:80])
            content = json.loads(text, object_pairs_hook=_once)
            of = content.pop("plan", "")
            check(plan is None or of == plan, "the plan of a message", f"{plan!r}, as agreed on here", of)
            kinds = {kind.__name__: kind for kind in Message.__subclasses__()}
            name = content.pop("kind")
            check(isinstance(name, str) and name in kinds, "the kind of a message", f"one of {', '.join(kinds)}", name)
            kind = kinds[name]
            if set(content) != {"header", *kind.payload()}:
                raise ValueError(f"a {kind.__name__} has header, {', '.join(kind.payload())}")
            for f in dataclasses.fields(kind)[1:]:
                holds = _is_array(content[f.name], len(f.metadata["shape"]))
                check(holds, f"{kind.__name__}'s {f.name}", "an array of numbers", content[f.name])
            message = kind(**content)
            message.check()
        except MALFORMED as error:
            raise ValueError(f"not a message: {shown(text)} ({str(error)[:250]})") from None
        return message


# What a text that is no message can raise, to be told as a ValueError.
MALFORMED = ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError


def _once(pairs: list[tuple]) -> dict:
    """The dict of a JSON object; ValueError if a name stands there twice."""
    content = dict(pairs)
    check(len(content) == len(pairs), "a name in a message", "there once", [name for name, _ in pairs])
    return content


def _is_array(values, dimensions: int) -> bool:
    """Whether they are lists in lists of int and float, of equal lengths, so deep; before NumPy makes what it likes."""
    if type(values) is not list:
        return False
    if dimensions == 1:
        return set(map(type, values)) <= {int, float}
    rows = all(_is_array(row, dimensions - 1) for row in values)
    return rows and len({len(row) for row in values}) <= 1


@dataclass(frozen=True, eq=False)
class Awaited:
    """The message that a receiver waits for: its kind (None: it waits for none) and which headers it may have.

    after: a message up to this header is late. sizes: of the lengths named. among: name -> the increasing integers that
    the array must be some of, in increasing order. within: name -> its least and its largest values, each (n,).
    """

    after: int
    kind: type[Message] | None = None
    headers: range = range(0)
    sizes: dict[str, int] = field(default_factory=dict)
    among: dict[str, np.ndarray] = field(default_factory=dict)
    within: dict[str, tuple] = field(default_factory=dict)

    def longest(self) -> int:
        """How many characters the text of this message may have."""
        lengths = {**self.sizes, **{name: len(known) for name, known in self.among.items()}}
        numbers = 0
        for f in dataclasses.fields(self.kind)[1:] if self.kind is not None else ():
            most = [n if isinstance(n, int) else lengths.get(n) for n in f.metadata["shape"]]
            if None in most:  # as many as those that it must be some of
                most = [max(lengths.values(), default=0) if n is None else n for n in most]
            numbers += math.prod(most)
        return LONGEST_HEAD + LONGEST_NUMBER * numbers

    def admits(self, message: Message, declared: tuple[type[Message], ...]) -> bool:
        """Whether it is the message awaited; False, and a line in the log, if late or repeated; ValueError if wrong.

        declared: the kinds that the receiver takes at any time.
        """
        kind = type(message).__name__
        if type(message) not in declared:
            takes = ", ".join(each.__name__ for each in declared) or "none"
            raise ValueError(f"messages taken here: {takes}; got one of kind {kind[:80]}.")
        check(is_integer(message.header) and message.header >= 0, f"{kind}'s header", "an integer >= 0", message.header)
        if type(message) is not self.kind or message.header not in self.headers:
            if message.header <= self.after:
                log.warning("a %s of header %d is late or repeated: ignored", kind, message.header)
                return False
            wait, headers = "no message", self.headers
            if self.kind is not None and len(headers):
                wait = f"a {self.kind.__name__} of header {' to '.join(map(str, sorted({headers[0], headers[-1]})))}"
            raise ValueError(f"a {kind} of header {message.header} came, and {wait} is awaited.")
        message.check(self.sizes)
        for name, known in self.among.items():
            x = getattr(message, name)
            check(len(x) <= len(known), f"the length of {kind}'s {name}", f"at most {len(known)}", len(x))
            holds = (np.diff(x) > 0).all() and np.isin(x, known).all()
            check(holds, f"{kind}'s {name}", f"some of {known[:9].tolist()} ({len(known)}), increasing", x[:9].tolist())
        for name, (low, high) in self.within.items():
            x = getattr(message, name)
            within = ((low <= x) & (x <= high)).all()
            check(within, f"{kind}'s {name}", f"in {low}..{high}, which is what it can be", x)
        return True


@dataclass(frozen=True, eq=False)
class Batch:
    """Evaluations, `size` in all, that a client asks for: points (n, d), in order, each counts (n,) times in a row."""

    points: np.ndarray
    counts: np.ndarray
    size: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "size", int(np.sum(self.counts)))
        self.points.setflags(write=False)  # they may be part of the client's state
        self.counts.setflags(write=False)


NOTHING = Batch(np.empty((0, 0)), np.empty(0, dtype=np.int64))


class Client(ABC):
    """One client. Every state of it can be pickled and restored. t: the evaluations told so far, 0..horizon.

    takes: the kinds of message that it may receive.
    """

    takes: tuple[type[Message], ...] = ()

    def __init__(self, task: Task):
        self.task, self.t = task, 0
        self._batch: Batch | None = None  # what was asked for, until it is told

    def start(self) -> Message | None:
        """A message that the client sends before anything else, or None."""
        return None

    def ask(self) -> Batch:
        """The evaluations wanted now, the same until told; none when the client waits for the server or is done."""
        if self._batch is None:
            batch = self._ask() if self.t < self.task.horizon else NOTHING
            if batch.size == 0:
                return NOTHING  # not kept: a message may come
            self._batch = batch
        return self._batch

    def tell(self, rewards) -> Message | None:
        """Take the rewards (batch.size,) of the asked batch, in its order; return a message for the server, or None.

        Raises ValueError, with the state unchanged, for a wrong number of rewards, and for one that is no number, NaN
        or beyond the task's range of rewards.
        """
        batch = self.ask()
        check_rewards(rewards, batch.size, *self.task.rewards)
        rewards = np.asarray(rewards, dtype=float)
        if batch.size == 0:
            return None
        self._batch = None
        self.t += batch.size
        return self._tell(batch, rewards)

    def receive(self, message: Message) -> Message | None:
        """Take a message from the server; return an answer, or None.

        One that is late or repeated is ignored, with a line in the log; a wrong one is a ValueError. Neither changes
        the state.
        """
        return self._receive(message) if self.awaits().admits(message, self.takes) else None

    def awaits(self) -> Awaited:
        """The message that the client waits for now."""
        return Awaited(-1)

    def _receive(self, message: Message) -> Message | None:
        """Take the message awaited."""

    @abstractmethod
    def _ask(self) -> Batch:
        """The next batch, of at most horizon - t evaluations, without changing any state."""

    @abstractmethod
    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        """Learn from the rewards of the batch; self.t already counts them."""

    @abstractmethod
    def best(self) -> np.ndarray:
        """The point (d,) that the client would deploy now."""


class Server:
    """The server of an algorithm whose clients send nothing. takes: the kinds of message that another may be sent."""

    takes: tuple[type[Message], ...] = ()

    def __init__(self, task: Task, settings=None):
        self.task, self.settings = task, settings

    def start(self) -> dict[int, Message]:
        """Messages (client -> message) that the server sends before any evaluation."""
        return {}

    def exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        """Answer the clients' messages (client -> message) with messages (client -> message).

        Those that are late or repeated are ignored, with a line in the log. A ValueError if one is wrong, or one that
        is needed is missing. Neither changes the state.
        """
        check(isinstance(messages, dict), "messages", "a dict, {client: message}", messages)
        for m in messages:
            last = self.task.n_clients - 1
            check(is_integer(m) and 0 <= m <= last, "the sender of a message", f"a client, 0..{last}", m)
        if not messages:
            raise ValueError("there is no message to answer.")
        taken = {m: message for m, message in messages.items() if self.awaits(m).admits(message, self.takes)}
        headers = sorted({message.header for message in taken.values()})
        check(len(headers) <= 1, "messages that are exchanged together", "of one header", headers)
        return self._exchange(taken) if taken else {}

    def awaits(self, m: int) -> Awaited:
        """The message that the server waits for from client m now."""
        return Awaited(-1)

    def _exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        """Answer messages that are awaited, one or more: here those of all clients, who are all told the same."""
        M = self.task.n_clients
        if len(messages) != M:
            raise ValueError(f"a phase ends when all {M} clients have sent theirs; {len(messages)} did.")
        answer = self.conclude(*map(np.stack, zip(*(messages[m].values for m in range(M)), strict=True)))
        return dict.fromkeys(range(M), answer)

    def conclude(self, *arrays: np.ndarray) -> Message:
        """The answer to all, from the arrays of their messages, each with a row a client."""
        raise NotImplementedError


class Federation:
    """A server, its clients and their mail, in sweeps: all that want evaluations are told theirs, then messages pass.

    up, down: the kinds of message that the algorithm declares; TypeError for another. on_mail(t, up, down), if given,
    sees each exchange: the step t of the senders and the messages, lists of (client, message).
    """

    def __init__(self, server: Server, clients: list[Client], up: tuple = (), down: tuple = ()):
        self.server, self.clients, self.up, self.down = server, clients, up, down
        self.on_mail: Callable | None = None
        self._pending: dict[int, Batch] | None = None  # the sweep's batches not yet told; None before the first
        self._outbox: dict[int, Message] = {}

    @property
    def running(self) -> bool:
        """Whether any client has evaluations left before the horizon."""
        return any(client.t < client.task.horizon for client in self.clients)

    def ask(self) -> list[tuple[int, Batch]]:
        """The (client, batch) pairs that are still to be evaluated in this sweep; asking twice changes nothing."""
        if self._pending is None:
            self._outbox = {m: first for m, client in enumerate(self.clients) if (first := client.start()) is not None}
            self._post({}, self.server.start())
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
        if m not in self._pending:
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
        for declared, mail in ((self.up, up), (self.down, down)):
            for message in mail.values():
                if not isinstance(message, declared):
                    raise TypeError(f"this algorithm does not declare messages of kind {type(message).__name__}")
        for m, message in down.items():
            answer = self.clients[m].receive(message)
            if answer is not None:
                self._outbox[m] = answer
        if self.on_mail is not None and (up or down):
            self.on_mail(max(self.clients[m].t for m in up or down), list(up.items()), list(down.items()))
