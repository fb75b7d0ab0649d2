"""Messages between clients and the server: the declaration of a kind of message, and the check by its receiver.

A message from outside is checked here before anything changes: its text, its kind, its header, its arrays.
"""

import dataclasses
import json
import logging
import math
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pfpne.validation import brief, check, is_integer

logger = logging.getLogger(__name__)

MAX_MAGNITUDE = 1e100  # the largest number in a message: sums of squares of such numbers do not overflow
MAX_CHARACTERS = 2**26  # the longest text of a message
USUAL_CHARACTERS = 2**22  # the longest text if the receiver does not say what it awaits: 130,000 numbers
NUMBER_CHARACTERS = 32  # the longest number in a text: 17 digits, sign, point, exponent, and a separator
HEAD_CHARACTERS = 300  # the length of everything else in a text


def number_array(*shape: int | str, low: float = -MAX_MAGNITUDE, statistic: str = ""):
    """Declare an array of finite numbers as a field of a message.

    Parameters
    ----------
    *shape
        The array's lengths, or names of lengths: equal names in one message stand for equal lengths. An array is never
        empty.
    low
        The smallest number allowed; the largest is MAX_MAGNITUDE.
    statistic
        "mean" or "variance" if the array holds these statistics of rewards, whose range the task knows; else "".
    """
    return field(metadata={"kinds": "iuf", "shape": shape, "low": low, "high": MAX_MAGNITUDE, "statistic": statistic})


def integer_array(*shape: int | str, high: int = 2**62):
    """Declare an array of integers in 0..high as a field of a message; shape as in `number_array`."""
    return field(metadata={"kinds": "i", "shape": shape, "low": 0, "high": high, "statistic": ""})


@dataclass(frozen=True, eq=False)
class Message:
    """A message between a client and the server: a header and the arrays that a subclass declares, nothing else.

    The header says which exchange the message belongs to. The docstring of each kind says what it counts. With masks,
    the headers of the algorithm's own messages are larger by 1, because the exchange of keys has header 0.

    The arrays, its payload, are declared by `number_array` and `integer_array`. They are copied, and read-only.

    Two attributes of a kind say what pfpne.disclosure has to know. masks_cancel: whether the array `masked` holds sums
    of rewards with masks that cancel in the sum over all clients. answers_cumulative_means: whether the means that the
    message answers are over all phases so far, and not over the last phase alone. Such a message has `arms`, those that
    stay, and its header is the phase.
    """

    masks_cancel: ClassVar[bool] = False
    answers_cumulative_means: ClassVar[bool] = False
    header: int  # an integer >= 0; it is not counted as a number sent

    def __post_init__(self):
        for name in self.payload():
            values = np.array(getattr(self, name))
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def payload(cls) -> tuple[str, ...]:
        """The names of the arrays, in their order."""
        return tuple(f.name for f in dataclasses.fields(cls) if f.name != "header")

    @property
    def values(self) -> tuple[np.ndarray, ...]:
        """The arrays of the payload, in their order."""
        return tuple(getattr(self, name) for name in self.payload())

    @property
    def n_numbers(self) -> int:
        """How many numbers the message carries."""
        return sum(value.size for value in self.values)

    def rewards_in_means(self, evaluations: int) -> int:
        """Return the number of rewards in each mean. evaluations: the client's evaluations since its last message."""
        return evaluations // len(self.values[0])

    def check(self, sizes: dict[str, int] | None = None) -> None:
        """Raise a ValueError unless the message is as its kind declares, with these sizes of the named lengths."""
        kind, sizes = type(self).__name__, dict(sizes or {})
        check(is_integer(self.header) and 0 <= self.header < 2**62, f"{kind}'s header", "an integer >= 0", self.header)
        for f in dataclasses.fields(self)[1:]:
            x, declared, name = getattr(self, f.name), f.metadata, f"{kind}'s {f.name}"
            content = "integers" if declared["kinds"] == "i" else "numbers"
            check(x.dtype.kind in declared["kinds"], name, content, f"an array of {x.dtype}")
            lengths = x.shape if x.ndim == len(declared["shape"]) else (0,) * len(declared["shape"])
            shape = [
                sizes.setdefault(n, length) if isinstance(n, str) else n
                for n, length in zip(declared["shape"], lengths, strict=True)
            ]
            check(x.shape == tuple(shape) and x.size > 0, name, f"of shape {declared['shape']} {sizes}", x.shape)
            low, high = declared["low"], declared["high"]
            check(low <= x.min() and x.max() <= high, name, f"{content} in [{low:g}, {high:g}]", (x.min(), x.max()))

    def to_json(self, plan: str = "") -> str:
        """Return the message as a text.

        plan: a name of up to 100 characters for the senders' agreement. It distinguishes the messages of different
        agreements.
        """
        content = {name: getattr(self, name).tolist() for name in self.payload()}
        head = {"plan": plan} if plan else {}
        return json.dumps({**head, "kind": type(self).__name__, "header": self.header, **content})

    @staticmethod
    def from_json(text: str, plan: str | None = None, limit: int = USUAL_CHARACTERS) -> "Message":
        """Return the message that `to_json` wrote; ValueError for every other text.

        An imported algorithm must declare its kind. The content that JSON gives is checked before an array is made of
        it, so that reading a text needs no more memory than a message of its length.

        Parameters
        ----------
        text
            The text.
        plan
            The plan that the text must name; None for any.
        limit
            The largest number of characters. A receiver gives `Awaited.max_characters`. The default, 4 million, is
            enough for every message of small runs.
        """
        limit = min(limit, MAX_CHARACTERS)
        if not isinstance(text, str) or len(text) > limit:
            got = f"one of {len(text)}" if isinstance(text, str) else brief(text)
            raise ValueError(f"not a message: a text of at most {limit} characters is wanted; got {got}.")
        try:
            # A message is one dict of few names, and of lists of numbers, at most two of which are square arrays.
            plausible = text.count("{") == 1 and text.count('"') <= 30 and text.count("[") <= 10 + 4 * len(text) ** 0.5
            plausible = plausible and not any(word in text for word in ("null", "true", "false", "NaN", "Infinity"))
            check(plausible, "a message", "one dict of lists of numbers", text[:80])
            content = json.loads(text, object_pairs_hook=_without_repeats)
            named_plan = content.pop("plan", "")
            check(
                plan is None or named_plan == plan, "the plan of a message", f"{plan!r}, as agreed on here", named_plan
            )
            kinds = {kind.__name__: kind for kind in Message.__subclasses__()}
            name = content.pop("kind")
            check(isinstance(name, str) and name in kinds, "the kind of a message", f"one of {', '.join(kinds)}", name)
            kind = kinds[name]
            if set(content) != {"header", *kind.payload()}:
                raise ValueError(f"a {kind.__name__} has header, {', '.join(kind.payload())}")
            for f in dataclasses.fields(kind)[1:]:
                is_array = _is_array(content[f.name], len(f.metadata["shape"]))
                check(is_array, f"{kind.__name__}'s {f.name}", "an array of numbers", content[f.name])
            message = kind(**content)
            message.check()
        except MALFORMED as error:
            raise ValueError(f"not a message: {brief(text)} ({str(error)[:250]})") from None
        return message


class Head(NamedTuple):
    """The kind and the header of a message."""

    kind: type[Message]
    header: int


def read_head(text: str, plan: str) -> Head | None:
    """Return the head of a text of this plan as `to_json` begins it, and look no further; None for any other text."""
    match = re.match(r'\{"plan": "(\w{1,100})", "kind": "(\w{1,80})", "header": (\d{1,18}),', text[:HEAD_CHARACTERS])
    if match is None or match[1] != plan:
        return None
    kind = {kind.__name__: kind for kind in Message.__subclasses__()}.get(match[2])
    return None if kind is None else Head(kind, int(match[3]))


# What a text that is no message can raise, to be told as a ValueError.
MALFORMED = ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError


def _without_repeats(pairs: list[tuple]) -> dict:
    """Return the dict of a JSON object; ValueError if a name stands in it twice."""
    content = dict(pairs)
    check(len(content) == len(pairs), "a name in a message", "there once", [name for name, _ in pairs])
    return content


def _is_array(values, dimensions: int) -> bool:
    """Whether the values are lists in lists of int and float, of equal lengths and so many dimensions."""
    if type(values) is not list:
        return False
    if dimensions == 1:
        return set(map(type, values)) <= {int, float}
    rows = all(_is_array(row, dimensions - 1) for row in values)
    return rows and len({len(row) for row in values}) <= 1


@dataclass(frozen=True, eq=False)
class Awaited:
    """The message that a receiver waits for.

    last_header: a message up to this header is late. kind: the kind of message, None if none is awaited. headers: the
    possible headers. sizes: the sizes of named lengths. subset_of: {array: increasing integers}, a set of which the
    array must be an increasing subset. ranges: {array: (low, high)}, each one number or one for each entry (n,).
    """

    last_header: int
    kind: type[Message] | None = None
    headers: range = range(0)
    sizes: dict[str, int] = field(default_factory=dict)
    subset_of: dict[str, np.ndarray] = field(default_factory=dict)
    ranges: dict[str, tuple] = field(default_factory=dict)

    def max_characters(self) -> int:
        """The largest number of characters that the text of this message may have."""
        lengths = {**self.sizes, **{name: len(allowed) for name, allowed in self.subset_of.items()}}
        n_numbers = 0
        for f in dataclasses.fields(self.kind)[1:] if self.kind is not None else ():
            shape: list[Any] = [n if isinstance(n, int) else lengths.get(n) for n in f.metadata["shape"]]
            if None in shape:  # as long as the array that it must be a part of
                shape = [max(lengths.values(), default=0) if n is None else n for n in shape]
            n_numbers += math.prod(shape)
        return HEAD_CHARACTERS + NUMBER_CHARACTERS * n_numbers

    def is_late(self, kind: type[Message], header: int) -> bool:
        """Whether a message of this kind and header is late or repeated."""
        return header <= self.last_header and not (kind is self.kind and header in self.headers)

    def is_early(self, header: int) -> bool:
        """Whether a message of this header belongs to a later exchange than the awaited message."""
        return header > max((self.last_header, *self.headers[-1:]))

    def is_late_or_early(self, kind: type[Message], header: int) -> bool:
        """Whether a message of this kind and header is late, repeated or early."""
        return self.is_late(kind, header) or self.is_early(header)

    def accepts(self, message: Message, declared: tuple[type[Message], ...]) -> bool:
        """Whether this is the message awaited.

        False, with a line in the log, for a message that is late or repeated; ValueError for a wrong one. declared: the
        kinds of message that the receiver takes at any time.
        """
        kind = type(message).__name__
        if type(message) not in declared:
            known = ", ".join(k.__name__ for k in declared) or "none"
            raise ValueError(f"messages taken here: {known}; got one of kind {kind[:80]}.")
        check(is_integer(message.header) and message.header >= 0, f"{kind}'s header", "an integer >= 0", message.header)
        if self.is_late(type(message), message.header):
            logger.warning("a %s of header %d is late or repeated: ignored", kind, message.header)
            return False
        if type(message) is not self.kind or message.header not in self.headers:
            wait, headers = "no message", self.headers
            if self.kind is not None and len(headers):
                wait = f"a {self.kind.__name__} of header {' to '.join(map(str, sorted({headers[0], headers[-1]})))}"
            raise ValueError(f"a {kind} of header {message.header} came, and {wait} is awaited.")
        message.check(self.sizes)
        for name, allowed in self.subset_of.items():
            x = getattr(message, name)
            check(len(x) <= len(allowed), f"the length of {kind}'s {name}", f"at most {len(allowed)}", len(x))
            part = (np.diff(x) > 0).all() and np.isin(x, allowed).all()
            expected = f"some of {allowed[:9].tolist()} ({len(allowed)}), increasing"
            check(part, f"{kind}'s {name}", expected, x[:9].tolist())
        for name, (low, high) in self.ranges.items():
            x = getattr(message, name)
            inside = ((low <= x) & (x <= high)).all()
            check(inside, f"{kind}'s {name}", f"in {low}..{high}, which is what it can be", x)
        return True
