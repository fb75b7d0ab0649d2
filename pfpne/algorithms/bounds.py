"""The bounds of the phased algorithms, each one small pure function.

| paper       | here    | meaning                                                   |
|-------------|---------|-----------------------------------------------------------|
| tau_h       | tau     | samples wanted of a node at depth h                       |
| b_{h,i}     | radius  | half-width of a node's confidence interval                |
| H_0         | H_0     | the last depth of the federated stage                     |
| E^h, E_m^h  | ~keep   | the nodes that the elimination removes                    |
"""

from __future__ import annotations

import math

import numpy as np


def log_term(T: int, c_1: float, delta: float) -> float:
    """log(c_1 T / delta), floored at 0 (deviation 8). c_1 > 0, delta > 0, T >= 1."""
    return max(0.0, math.log(c_1 * T / delta))


def tau(h: int, log: float, c: float, nu_1: float, rho: float) -> int:
    """Samples wanted of a node at depth h: ceil(c^2 log(c_1 T/delta) rho^(-2h) / nu_1^2), at least 1.

    Paper, Section 3.1; log is log_term(T, c_1, delta). Beyond 2^62 it is 2^62: more than any horizon.
    """
    if -2 * h * math.log2(rho) > 900:
        return 2**62
    return max(1, math.ceil(min(2.0**62, c**2 * log * rho ** (-2 * h) / nu_1**2)))


def radius(n, log: float, c: float):
    """b = c sqrt(log(c_1 T/delta) / n) for a mean of n >= 1 samples, in units of the reward (paper, Section 3.1)."""
    return c * np.sqrt(log / n)


def transition_depth(Delta: float, nu_1: float, rho: float) -> float:
    """H_0, the smallest h >= 0 with nu_1 rho^h <= Delta; infinity when Delta is 0 (deviation 1).

    Depths are tried one after another, from a little above the quotient of logarithms, which alone would round
    wrongly in places.
    """
    if Delta == 0:
        return math.inf
    h = max(0, math.floor(math.log(Delta / nu_1) / math.log(rho)) - 2)
    while h > 0 and nu_1 * rho**h <= Delta:
        h -= 1
    while nu_1 * rho**h > Delta:
        h += 1
    return h


def kept(mean: np.ndarray, b, best, h: int, nu_1: float, rho: float) -> np.ndarray:
    """Which nodes (n,) of depth h the elimination keeps: not mean + b + nu_1 rho^h < best mean - its b.

    Paper, Algorithm 1, line 11; Algorithm 3, line 9. b: (n,). best: the position of the arg max, one for
    all nodes or (n,), one for each. Rewards' units throughout.
    """
    return ~(mean + b + nu_1 * rho**h < mean[best] - b[best])
