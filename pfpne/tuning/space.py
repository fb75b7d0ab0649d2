"""Named parameters as users write them, and the unit cube in which the algorithms search.

The words are those of Optuna and ConfigSpace. Points that lie close in the cube should behave alike. Therefore there
are log scales, and choices share one side of the cube only if their order makes sense; else each has a side of its own.
Every integer and every choice has an equal share of its side of the cube. (In ConfigSpace and scikit-optimize the first
and the last one have half a share.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pfpne.validation import brief, check, is_integer, is_number, to_float

# Beyond these, floats between 0 and 1 do not tell all integers apart. The limit is lower on a log scale, where a
# rounding error is a share of the number itself.
LARGEST_INT = 2**48
LARGEST_LOG_INT = 2**40
DIRECTIONS = ("maximize", "minimize")


@dataclass(frozen=True)
class Float:
    """A real number in [low, high].

    Parameters
    ----------
    low, high
        The range, low < high.
    log
        Whether equal ratios have equal shares of the search, for low > 0; else equal differences have.

    Raises
    ------
    ValueError
        If low and high are not finite numbers with low < high, or if log is True and low is not above 0.

    Examples
    --------
    >>> import pfpne
    >>> round(pfpne.Float(1, 100, log=True).at(0.5), 6)
    10.0
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self):
        _check_range(self, is_number, "a number", float)
        check(math.isfinite(self.high - self.low), "high", f"such that high - {self.low:g} is a number", self.high)

    def at(self, u: float) -> float:
        """Return the value at u in [0, 1]; at 0 and 1 exactly low and high."""
        if u <= 0 or u >= 1:
            return self.low if u <= 0 else self.high
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low * (1 - u) + high * u
        return min(max(math.exp(value) if self.log else value, self.low), self.high)

    def unit(self, value) -> float:
        """Return the u of a value; ValueError unless it is a number in [low, high]."""
        check(is_number(value) and self.low <= value <= self.high, "a value", f"a number of {self}", value)
        scale = math.log if self.log else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))


@dataclass(frozen=True)
class Int:
    """An integer in low..high.

    Parameters
    ----------
    low, high
        The range, low < high, within +-2^48, or 2^40 on a log scale.
    log
        Whether n has the share that [n - 1/2, n + 1/2] has on a log scale, for low >= 1; else all have equal shares.

    Raises
    ------
    ValueError
        If low and high are not integers in their range with low < high, or if log is True and low is below 1.

    Examples
    --------
    >>> import pfpne
    >>> [pfpne.Int(1, 3).at(u) for u in (0.0, 0.5, 1.0)]
    [1, 2, 3]
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self):
        _check_range(self, is_integer, "an integer", int)
        limit = LARGEST_LOG_INT if self.log else LARGEST_INT
        in_range = -limit <= self.low and self.high <= limit
        scale = " on a log scale" if self.log else ""
        check(in_range, "low and high", f"within +-{limit}{scale}", (self.low, self.high))

    @property
    def _between(self) -> Float:
        return Float(self.low - 0.5, self.high + 0.5, self.log)

    def at(self, u: float) -> int:
        """Return the value at u in [0, 1]."""
        return min(max(math.floor(self._between.at(u) + 0.5), self.low), self.high)

    def unit(self, value) -> float:
        """Return the u of a value; ValueError unless it is an integer in low..high."""
        check(is_integer(value) and self.low <= value <= self.high, "a value", f"an integer of {self}", value)
        return self._between.unit(int(value))


@dataclass(frozen=True)
class Ordinal:
    """One of some choices, in an order in which neighbours behave alike.

    Parameters
    ----------
    choices
        A list of two or more values, all different and hashable.

    Raises
    ------
    ValueError
        If choices is no such list.

    Examples
    --------
    >>> import pfpne
    >>> pfpne.Ordinal(["S", "M", "L"]).at(0.99)
    'L'
    """

    choices: Sequence

    def __post_init__(self):
        is_list = isinstance(self.choices, Sequence) and not isinstance(self.choices, str)
        check(is_list, "choices", "a list", self.choices)
        object.__setattr__(self, "choices", tuple(self.choices))
        try:
            different = len(set(self.choices)) == len(self.choices) >= 2
        except TypeError:  # a list among them
            different = False
        check(different, "choices", "two or more, all different and hashable (tuples, no lists)", self.choices)

    def at(self, u: float):
        """Return the choice at u in [0, 1]."""
        return self.choices[min(int(u * len(self.choices)), len(self.choices) - 1)]

    def unit(self, value) -> float:
        """Return the u of a choice; ValueError for another value."""
        check(value in self.choices, "a value", f"a choice of {self}", value)
        return (self.choices.index(value) + 0.5) / len(self.choices)


@dataclass(frozen=True)
class Choice(Ordinal):
    """One of some choices without an order, none of which is nearer to one than to another.

    Three or more have one side of the unit cube each, and the largest coordinate says which choice it is.

    Parameters
    ----------
    choices
        A list of two or more values, all different and hashable.

    Raises
    ------
    ValueError
        If choices is no such list.

    Examples
    --------
    >>> import pfpne
    >>> pfpne.Choice(["rbf", "poly", "linear"]).at([0.2, 0.9, 0.4])
    'poly'
    """

    @property
    def d(self) -> int:
        """The number of its coordinates."""
        return len(self.choices) if len(self.choices) > 2 else 1

    def at(self, u):
        """Return the choice at u, a number in [0, 1], or an array (d,) of them."""
        return super().at(u) if self.d == 1 else self.choices[int(np.argmax(u))]

    def unit(self, value):
        """Return the u of a choice, a number or an array (d,); ValueError for another value."""
        u = super().unit(value)
        return u if self.d == 1 else (np.arange(self.d) == self.choices.index(value)).astype(float)


Parameter = Float | Int | Ordinal


def _check_range(parameter: Float | Int, is_right, expected: str, kind: type) -> None:
    """Check low, high and log of a parameter, and make low and high of the kind."""
    low, high, log = parameter.low, parameter.high, parameter.log
    check(isinstance(log, bool), "log", "True or False", log)
    check(is_right(low), "low", expected, low)
    check(is_right(high) and high > low, "high", f"{expected} > low = {low!r}", high)
    if log:
        check(low > 0, "low", "> 0 on a log scale", low)
    for name in ("low", "high"):
        object.__setattr__(parameter, name, kind(getattr(parameter, name)))


class Space:
    """Parameters by name, in the order given; the algorithms search the unit cube [0, 1]^d.

    Parameters
    ----------
    parameters
        {name: Float, Int, Ordinal or Choice}, with at least one name; or a Space.

    Raises
    ------
    ValueError
        If it is neither, or a name is no text or an empty one.

    Examples
    --------
    >>> import pfpne
    >>> space = pfpne.Space({"C": pfpne.Float(1e-3, 1e3, log=True), "size": pfpne.Ordinal(["S", "M", "L"])})
    >>> space.point([0.5, 0.99])
    {'C': 1.0, 'size': 'L'}
    >>> space.unit({"C": 1.0, "size": "M"})
    array([0.5, 0.5])
    """

    def __init__(self, parameters: "Mapping[str, Parameter] | Space"):
        if isinstance(parameters, Space):
            parameters = parameters.parameters
        is_filled = isinstance(parameters, Mapping) and len(parameters) > 0
        check(is_filled, "space", 'a dict, such as {"C": Float(1e-3, 1e3, log=True)}', parameters)
        for name, parameter in parameters.items():
            check(isinstance(name, str) and name != "", "the name of a parameter", "a string", name)
            check(
                isinstance(parameter, Parameter),
                f"parameter {name!r}",
                "a Float, an Int, an Ordinal or a Choice",
                parameter,
            )
        self.parameters = dict(parameters)

    def __repr__(self) -> str:
        return f"Space({self.parameters})"

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return sum(getattr(parameter, "d", 1) for parameter in self.parameters.values())

    @property
    def domain(self) -> np.ndarray:
        """The unit cube (d, 2), for a Partition."""
        return np.tile([0.0, 1.0], (self.d, 1))

    def point(self, u) -> dict:
        """Return the parameters, {name: value}, at u (d,) of the unit cube."""
        u, point = list(map(float, u)), {}
        check(len(u) == self.d, "u", f"{self.d} numbers", u)
        for name, parameter in self.parameters.items():
            d = getattr(parameter, "d", 1)
            own, u = u[:d], u[d:]
            point[name] = parameter.at(own[0] if d == 1 else own)
        return point

    def unit(self, point: Mapping) -> np.ndarray:
        """Return the u (d,) of parameters {name: value}; point(u) gives them back, floats to rounding."""
        check(set(point) == set(self.parameters), "a point", f"a dict of {', '.join(self.parameters)}", point)
        u = []
        for name, parameter in self.parameters.items():
            try:
                u.append(np.atleast_1d(parameter.unit(point[name])))
            except ValueError as error:
                raise ValueError(f"parameter {name!r}: {error}") from None
        return np.concatenate(u)


@dataclass(frozen=True)
class Reward:
    """What an objective returns, and how it is scaled to [0, 1], from which the algorithms learn.

    Parameters
    ----------
    low, high
        The range of the values, low < high.
    direction
        "maximize" or "minimize".

    Raises
    ------
    ValueError
        If low and high are not numbers with low < high, or the direction is another word.

    Examples
    --------
    >>> import pfpne
    >>> pfpne.Reward(0, 150, "minimize").scaled(30.0)
    0.8
    """

    low: float = 0.0
    high: float = 1.0
    direction: str = "maximize"

    def __post_init__(self):
        is_range = is_number(self.low) and is_number(self.high) and self.low < self.high
        check(is_range, "reward_range", "(low, high), two numbers, low < high", (self.low, self.high))
        width = float(self.high) - float(self.low)
        check(
            0 < width < math.inf, "reward_range", "(low, high), whose difference is a number > 0", (self.low, self.high)
        )
        check(self.direction in DIRECTIONS, "direction", " or ".join(map(repr, DIRECTIONS)), self.direction)
        for name in ("low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def number(self, value) -> float:
        """Return the value as a float; ValueError, which names the range, if it is outside by more than rounding."""
        number = to_float(value)
        slack = 1e-9 * (self.high - self.low)
        expected = f"a number in [{self.low:g}, {self.high:g}], the reward_range"
        if math.isfinite(number) and not self.low - slack <= number <= self.high + slack:
            cure = "Give a wider range, or cut values off at its ends"
            raise ValueError(f"a value must be {expected}; got {brief(value)}. {cure}.")
        check(math.isfinite(number), "a value", expected, value)
        return min(max(number, self.low), self.high)

    def scaled(self, number):
        """Return a number, or an array of them, scaled to [0, 1], where 1 is best."""
        share = (number - self.low) / (self.high - self.low)
        return share if self.direction == "maximize" else 1.0 - share

    def unscaled(self, share):
        """Return the number, or the array of them, of a scaled one."""
        return self.low + (self.high - self.low) * (share if self.direction == "maximize" else 1.0 - share)
