"""Checks of what comes in: unless x is what is wanted, a ValueError says what is wanted and what came."""

import difflib
import math
from collections.abc import Collection

import numpy as np


def check(holds: bool, name: str, wanted: str, got) -> None:
    """Raise ValueError, naming the setting, what is wanted and what came, unless `holds`."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}; got {got!r}.")


def is_integer(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def is_number(x) -> bool:
    """Whether x is a finite number that a float can hold; a bool is none."""
    try:
        return (is_integer(x) or isinstance(x, (float, np.floating))) and math.isfinite(x)
    except OverflowError:
        return False


def check_integer(name: str, x, least: int, most: float = math.inf, more: str = "") -> None:
    """An integer in least..most; `more` adds to the sentence what else is allowed."""
    wanted = f"an integer >= {least}" if most == math.inf else f"an integer in {least}..{most}"
    check(is_integer(x) and least <= x <= most, name, wanted + more, x)


def check_number(name: str, x, bound: str, more: str = "") -> None:
    """A finite number within the bound, "> 0", ">= 0" or "in (0, 1)"."""
    holds = {"> 0": lambda: x > 0, ">= 0": lambda: x >= 0, "in (0, 1)": lambda: 0 < x < 1}[bound]
    check(is_number(x) and holds(), name, f"a number {bound}{more}", x)


def check_scale(name: str, x) -> None:
    """A constant that multiplies or divides: within what its square and its powers can bear."""
    check(is_number(x) and 1e-9 <= x <= 1e9, name, "a number > 0 (from 1e-9 to 1e9)", x)


def check_noise(noise) -> None:
    """Noise is "bernoulli" or a number in 0..1e9, the half-width of uniform noise."""
    holds = noise == "bernoulli" if isinstance(noise, str) else is_number(noise) and 0 <= noise <= 1e9
    check(holds, "noise", "a number >= 0 (uniform on +-noise; at most 1e9) or 'bernoulli'", noise)


def unknown(what: str, name, names: Collection[str]) -> str:
    """The sentence about a name that is none of `names`: the one most like it, whatever the case, and all of them."""
    given = str(name)

    def likeness(known: str) -> list[float]:  # the case tells delta from Delta, no more
        pairs = (given.lower(), known.lower()), (given, known)
        return [difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs]

    near = max(names, key=likeness)
    return f"unknown {what} {name!r}. Did you mean {near!r}? There are: {', '.join(names)}."
