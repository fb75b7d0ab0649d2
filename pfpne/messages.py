"""Messages between clients and the server: what a kind of message declares, and what a receiver waits for.

A message from outside is checked here before anything changes: its text, its kind, its header, its arrays.
"""

import dataclasses
import json
import logging
import math
from dataclasses import dataclass, field

import numpy as np

from pfpne.validation import check, is_integer, shown

log = logging.getLogger(__name__)

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
