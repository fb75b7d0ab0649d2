"""Checks of what comes in: each says what is wanted and what came."""

from __future__ import annotations

import math

import numpy as np


def check(holds: bool, name: str, wanted: str, got) -> None:
    """Raise ValueError, naming the setting, what is wanted and what came, unless `holds`."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}; got {got!r}.")


def is_integer(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def is_number(x) -> bool:
    """Whether x is a finite number that a float can hold; a bool is none."""
    if not isinstance(x, (int, float, np.integer, np.floating)) or isinstance(x, bool):
        return False
    try:
        return math.isfinite(x)
    except OverflowError:
        return False


def check_scale(name: str, x) -> None:
    """A constant that multiplies or divides: within what its square and its powers can bear."""
    check(is_number(x) and 1e-9 <= x <= 1e9, name, "a number > 0 (from 1e-9 to 1e9)", x)


def check_noise(noise) -> None:
    """Noise is "bernoulli" or a number >= 0, the half-width of uniform noise; else ValueError."""
    holds = noise == "bernoulli" if isinstance(noise, str) else is_number(noise) and noise >= 0
    check(holds, "noise", "a number >= 0 (uniform on +-noise) or 'bernoulli'", noise)
