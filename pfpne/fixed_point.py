"""Numbers in fixed point, modulo 2^62, whose sums are exact: the form in which clients send masked numbers."""

import math

import numpy as np

BITS = 62  # masked numbers are modulo 2^62
MOST_PRECISE = 48  # bits of the largest number: those of a float's 53 that a few roundings leave exact


def precision(limit: float, M: int) -> int:
    """Return the number of bits behind the point with which the sum of M numbers within +-limit stays within +-2^61.

    The resolution is 2^-bits: 2^-48 for numbers in [0, 1] and up to 4,096 clients, 2^-18 for the widest range allowed.
    Sums of integers are exact, so they reveal no rounding errors of their summands.
    """
    return min(MOST_PRECISE, BITS - 2 - math.ceil(math.log2(M))) - math.ceil(math.log2(limit))


def to_fixed(values: np.ndarray, bits: int) -> np.ndarray:
    """Return the values (n,) as integers modulo 2^62, each rounded to 2^-bits."""
    return np.rint(np.ldexp(values, bits)).astype(np.int64) & (2**BITS - 1)


def from_fixed(total: np.ndarray, bits: int) -> np.ndarray:
    """Return the sums (n,) that these integers modulo 2^62 stand for."""
    return np.ldexp(np.where(total >= 2 ** (BITS - 1), total - 2**BITS, total).astype(float), -bits)


def sum_masked(numbers: list[np.ndarray]) -> np.ndarray:
    """Return the sum (n,) of the arrays modulo 2^62."""
    total = np.zeros_like(numbers[0])
    for x in numbers:
        total = (total + x) & (2**BITS - 1)  # both below 2^62: no overflow
    return total
