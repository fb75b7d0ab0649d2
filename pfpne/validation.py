"""Checks of what comes in: unless x is what is wanted, a ValueError says what is wanted and what came."""

import difflib
import math
import reprlib
from collections.abc import Collection

import numpy as np

MOST_EVALUATIONS = 10**9  # M T of a run: beyond, memory gives out
MOST_REWARD = 1e9 + 1  # either side of 0: what the most noise makes of a value in [0, 1]

CLOSE = 0.7  # how alike (0 to 1) a wrong name and a known one must be for the known one to be suggested

# The integers that are asked for, least and most.
COUNTS = {
    "n_clients": (1, 10**6),
    "horizon": (1, 10**9),
    "n_runs": (1, 10**6),
    "n_jobs": (1, 10**4),
    "d": (1, 1000),
    **dict.fromkeys(("seed", "run"), (0, 2**64 - 1)),
}


class _Shown(reprlib.Repr):
    def repr_int(self, x, level):
        return repr(x) if abs(x) < 10**40 else f"an integer of {x.bit_length()} bits"


_shown = _Shown()
_shown.maxstring = _shown.maxother = 100


def shown(x) -> str:
    """repr(x), cut where it is long."""
    return _shown.repr(x)


def check(holds: bool, name: str, wanted: str, got) -> None:
    """Raise ValueError, naming the setting, what is wanted and what came, unless `holds`."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}; got {shown(got)}.")


def is_integer(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def is_number(x) -> bool:
    """Whether x is a finite number that a float can hold; a bool is none."""
    try:
        return (is_integer(x) or isinstance(x, (float, np.floating))) and math.isfinite(x)
    except OverflowError:
        return False


def real(x) -> float:
    """x as a float; NaN for all that is no real number, of what `float` takes too: truth values, texts, complex ones.

    Arrays of no dimension, and what else turns itself into a float, are taken.
    """
    if isinstance(x, (bool, np.bool_, str, bytes, bytearray, complex, np.complexfloating)):
        return math.nan
    if getattr(x, "shape", ()) != () or getattr(getattr(x, "dtype", None), "kind", "f") not in "iuf":
        return math.nan
    try:
        return float(x)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def check_integer(name: str, x, least: int, most: int = 10**9, more: str = "") -> None:
    """An integer in least..most; `more` adds to the sentence what else is allowed."""
    check(is_integer(x) and least <= x <= most, name, f"an integer in {least}..{most}{more}", x)


def check_count(name: str, x, more: str = "") -> None:
    """One of COUNTS, by its name there."""
    check_integer(name, x, *COUNTS[name], more)


def check_evaluations(n_clients: int, horizon: int) -> None:
    """M T, in MOST_EVALUATIONS."""
    wanted = f"at most {MOST_EVALUATIONS:,}, evaluations of all clients together: ask for fewer of either"
    check(n_clients * horizon <= MOST_EVALUATIONS, "n_clients times horizon", wanted, n_clients * horizon)


def check_rewards(rewards, n: int, low: float = -MOST_REWARD, high: float = MOST_REWARD) -> None:
    """n numbers in low..high, within MOST_REWARD."""
    try:
        x = np.asarray(rewards, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"rewards must be numbers, one an evaluation, {n} in all; got {shown(rewards)}.") from None
    if x.shape != (n,):
        raise ValueError(f"{n} rewards were asked for, in one dimension; got shape {x.shape}.")
    if n > 0 and not -MOST_REWARD <= x.min() <= x.max() <= MOST_REWARD:  # nor with a NaN
        if not np.isfinite(x).all():
            raise ValueError("a reward is NaN or infinite: every reward must be a finite number.")
        raise ValueError(f"a reward is beyond +-{MOST_REWARD - 1:g}: scale the objective, best to values in [0, 1].")
    if n > 0 and not low <= x.min() <= x.max() <= high:
        got = float(x.min() if x.min() < low else x.max())
        raise ValueError(
            f"a reward of the task lies in [{low:g}, {high:g}] (its reward_range, or its noise); got {got!r}."
        )


def check_scale(name: str, x, most: float = 1e9, more: str = "") -> None:
    """A constant that multiplies or divides: within what its square and its powers can bear."""
    check(is_number(x) and 1e-9 <= x <= most, name, f"a number from 1e-9 to {most:g}{more}", x)


def check_amount(name: str, x, more: str = "") -> None:
    """The same, or nothing of it."""
    check(is_number(x) and (x == 0 or 1e-9 <= x <= 1e9), name, f"0, or a number from 1e-9 to 1e9{more}", x)


def check_rho(name: str, x) -> None:
    """A share whose powers neither vanish at once nor never."""
    check(is_number(x) and 1e-6 <= x <= 1 - 1e-6, name, "a number from 1e-6 to 1 - 1e-6", x)


def check_noise(name: str, x) -> None:
    """Noise is "bernoulli" or the half-width of uniform noise."""
    if not (isinstance(x, str) and x == "bernoulli"):
        check_amount(name, x, " (uniform noise on +-it), or 'bernoulli'")


def unknown(what: str, name, names: Collection[str]) -> str:
    """The sentence about a name that is none of `names`: the one most like it, if it is close, and all of them."""
    given = str(name)[:100]

    def likeness(known: str) -> list[float]:  # the case tells delta from Delta, no more
        pairs = (given.lower(), known.lower()), (given, known)
        return [difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs]

    near = max(names, key=likeness, default="")
    guess = f" Did you mean {near!r}?" if near and likeness(near)[0] >= CLOSE else ""
    return f"unknown {what} {shown(name)}.{guess} There are: {', '.join(names) or 'none'}."
