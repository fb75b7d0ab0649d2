"""Argument checks: each raises a ValueError that names the allowed range and the value that was given."""

import difflib
import math
import reprlib
from collections.abc import Collection

import numpy as np

MAX_RUN_EVALUATIONS = 10**9  # the upper limit of M T in one run, for the sake of memory
MAX_REWARD = 1e9 + 1  # the largest |reward|: a value in [0, 1] plus the largest noise allowed

SIMILARITY = 0.7  # from 0 to 1: the least similarity to a wrong name for which a name is suggested

# The integer arguments of the package, with the smallest and the largest allowed value.
INTEGER_ARGUMENTS = {
    "n_clients": (1, 10**6),
    "horizon": (1, 10**9),
    "n_runs": (1, 10**6),
    "n_jobs": (1, 10**4),
    "d": (1, 1000),
    **dict.fromkeys(("seed", "run"), (0, 2**64 - 1)),
}


class _ShortRepr(reprlib.Repr):
    def repr_int(self, x, level):
        return repr(x) if abs(x) < 10**40 else f"an integer of {x.bit_length()} bits"


_short_repr = _ShortRepr()
_short_repr.maxstring = _short_repr.maxother = 100


def brief(x) -> str:
    """Return repr(x), shortened where it is long."""
    return _short_repr.repr(x)


def check(condition: bool | np.bool_, name: str, expected: str, value) -> None:
    """Raise a ValueError that says "name must be expected; got value", unless the condition holds."""
    if not condition:
        raise ValueError(f"{name} must be {expected}; got {brief(value)}.")


def is_integer(x) -> bool:
    """Whether x is an integer; a truth value is not."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def is_number(x) -> bool:
    """Whether x is a finite number that a float can hold; a truth value is not."""
    try:
        return (is_integer(x) or isinstance(x, (float, np.floating))) and math.isfinite(x)
    except OverflowError:
        return False


def to_float(x) -> float:
    """Return x as a float, or NaN if it is not a real number.

    Truth values, texts and complex numbers give NaN, although `float` accepts some of them. Arrays without a dimension
    are accepted, and so is every other object that converts itself to a float.
    """
    if isinstance(x, (bool, np.bool_, str, bytes, bytearray, complex, np.complexfloating)):
        return math.nan
    if getattr(x, "shape", ()) != () or getattr(getattr(x, "dtype", None), "kind", "f") not in "iuf":
        return math.nan
    try:
        return float(x)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def check_integer(name: str, x, low: int, high: int = 10**9, also: str = "") -> None:
    """Check for an integer in low..high; `also` names what else is allowed, for the error."""
    check(is_integer(x) and low <= x <= high, name, f"an integer in {low}..{high}{also}", x)


def check_count(name: str, x, also: str = "") -> None:
    """Check an integer argument of the package, which INTEGER_ARGUMENTS lists by its name."""
    low, high = INTEGER_ARGUMENTS[name]
    check_integer(name, x, low, high, also)


def check_evaluations(n_clients: int, horizon: int) -> None:
    """Check that M T is at most MAX_RUN_EVALUATIONS."""
    expected = f"at most {MAX_RUN_EVALUATIONS:,}, evaluations of all clients together: ask for fewer of either"
    check(n_clients * horizon <= MAX_RUN_EVALUATIONS, "n_clients times horizon", expected, n_clients * horizon)


def check_rewards(rewards, n: int, low: float = -MAX_REWARD, high: float = MAX_REWARD) -> None:
    """Check for n finite numbers in low..high, none of them beyond MAX_REWARD."""
    try:
        x = np.asarray(rewards, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"rewards must be numbers, one an evaluation, {n} in all; got {brief(rewards)}.") from None
    if x.shape != (n,):
        raise ValueError(f"{n} rewards were asked for, in one dimension; got shape {x.shape}.")
    if n > 0 and not -MAX_REWARD <= x.min() <= x.max() <= MAX_REWARD:  # nor with a NaN
        if not np.isfinite(x).all():
            raise ValueError("a reward is NaN or infinite: every reward must be a finite number.")
        raise ValueError(f"a reward is beyond +-{MAX_REWARD - 1:g}: scale the objective, best to values in [0, 1].")
    if n > 0 and not low <= x.min() <= x.max() <= high:
        got = float(x.min() if x.min() < low else x.max())
        raise ValueError(
            f"a reward of the task lies in [{low:g}, {high:g}] (its reward_range, or its noise); got {got!r}."
        )


def check_scale(name: str, x, high: float = 1e9, also: str = "") -> None:
    """Check a positive factor: from 1e-9 to high, so that its powers do not overflow."""
    check(is_number(x) and 1e-9 <= x <= high, name, f"a number from 1e-9 to {high:g}{also}", x)


def check_amount(name: str, x, also: str = "") -> None:
    """Check for 0 or a number from 1e-9 to 1e9."""
    check(is_number(x) and (x == 0 or 1e-9 <= x <= 1e9), name, f"0, or a number from 1e-9 to 1e9{also}", x)


def check_rho(name: str, x) -> None:
    """Check for a ratio strictly between 0 and 1, such that its powers fall neither at once nor too slowly."""
    check(is_number(x) and 1e-6 <= x <= 1 - 1e-6, name, "a number from 1e-6 to 1 - 1e-6", x)


def check_noise(name: str, x) -> None:
    """Check for "bernoulli" or the half-width of uniform noise, a number >= 0."""
    if not (isinstance(x, str) and x == "bernoulli"):
        check_amount(name, x, " (uniform noise on +-it), or 'bernoulli'")


def nearest_name(name, names: Collection[str]) -> str:
    """Return the name that is most similar to a wrong one; "" if none is similar."""
    given = str(name)[:100]

    def similarity(candidate: str) -> list[float]:  # the case of letters only tells delta from Delta
        pairs = (given.lower(), candidate.lower()), (given, candidate)
        return [difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs]

    nearest = max(names, key=similarity, default="")
    return nearest if nearest and similarity(nearest)[0] >= SIMILARITY else ""


def unknown_name(kind: str, name, names: Collection[str]) -> str:
    """Write the error about a name that is not among `names`: it suggests the most similar name, and lists all."""
    nearest = nearest_name(name, names)
    guess = f" Did you mean {nearest!r}?" if nearest else ""
    return f"unknown {kind} {brief(name)}.{guess} There are: {', '.join(names) or 'none'}."
