"""The hierarchical partition of the domain, in closed form.

Node (h, i), i = 1..k^h, has the children (h+1, k i - j), j = 0..k-1, which cut its box along one dimension into k equal
parts, in increasing order (paper, Section 2.2). The box follows from (h, i) alone: no tree is stored, and a message
names a node with two integers. A node is pulled at the centre of its box.
"""

import functools
from dataclasses import dataclass

import numpy as np

from pfpne.validation import check, check_count, check_integer, is_integer

CELLS = ("random", "cyclic")


def check_domain(domain) -> np.ndarray:
    """The domain as a read-only float array (d, 2) of [low, high], or ValueError."""
    box = np.array(domain, dtype=float)
    if box.ndim != 2 or box.shape[1] != 2 or box.shape[0] == 0:
        raise ValueError(f"A domain has shape (d, 2), one [low, high] a dimension; got shape {box.shape}.")
    if not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"Every dimension of a domain needs finite low < high; got {box.tolist()}.")
    if (np.abs(box) > 1e300).any():
        raise ValueError(f"A domain must lie within +-1e300, for its width to be a number; got {box.tolist()}.")
    box.setflags(write=False)
    return box


def deepest(k: int, max_depth: int | None) -> int:
    """max_depth, or by default 40 or the deepest whose indices, up to k**max_depth, stay below 2**62."""
    if max_depth is None:
        return next(h for h in range(40, -1, -1) if k**h < 2**62)
    holds = is_integer(max_depth) and 0 <= max_depth <= 62 and k ** int(max_depth) < 2**62
    check(holds, "max_depth", f"an integer >= 0 with k**max_depth < 2**62 (k = {k})", max_depth)
    return int(max_depth)


@dataclass(frozen=True, eq=False)
class Partition:
    """A k-ary partition of a box, domain (d, 2). A cell at max_depth (see `deepest`) is not split.

    cells: what a cell of depth h is cut along, "random": a dimension drawn for each node, as in PyXAB's
    BinaryPartition, by a hash of (seed, h, i), or "cyclic": h mod d. most: how often at
    most a dimension is cut on the way to a random cell, None for no limit; else max_depth is at most d most.
    Depths h are integers in 0..max_depth; indices i are integers in 1..k**h, scalars or (n,).
    """

    domain: np.ndarray
    k: int = 2
    max_depth: int | None = None
    cells: str = "random"
    seed: int = 0
    most: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "domain", check_domain(self.domain))
        check_integer("k, the number of children of a node,", self.k, 2, 2**31)
        check(self.cells in CELLS, "cells", f"one of {', '.join(map(repr, CELLS))}", self.cells)
        check_count("seed", self.seed)
        if self.most is not None:
            check_integer("most", self.most, 1, 62, ", or None for no limit")
        object.__setattr__(self, "max_depth", deepest(self.k, self.max_depth))
        reach = self.most is None or self.max_depth <= self.d * self.most
        check(reach, "max_depth", "at most d most, how often the dimensions may be cut in all", self.max_depth)

    @property
    def d(self) -> int:
        return len(self.domain)

    def children(self, i) -> np.ndarray:
        """Indices (n k,) at depth h + 1 of the children of the nodes i at any depth h < max_depth."""
        i = np.atleast_1d(np.asarray(i, dtype=np.int64))
        return (self.k * i[:, None] - np.arange(self.k - 1, -1, -1)).ravel()

    def _cell(self, h: int, i) -> tuple[np.ndarray, np.ndarray]:
        """Integer position (n, d) of the cells along each dimension, and the number of parts there, (n, d) or (d,)."""
        i = np.atleast_1d(np.asarray(i, dtype=np.int64))
        if not 0 <= h <= self.max_depth:
            raise ValueError(f"depth must be in 0..{self.max_depth}; got {h}.")
        if i.size and not (1 <= i.min() and i.max() <= self.k**h):
            raise ValueError(f"indices at depth {h} are 1..{self.k**h}; got {i.min()}..{i.max()}.")
        if self.d == 1:
            return i[:, None] - 1, np.array([self.k**h])
        if self.cells == "cyclic":
            powers, weights, parts = _place_values(self.k, h, self.d)
            return (i[:, None] - 1) // powers % self.k @ weights, parts
        rows, parts = np.arange(len(i)), np.ones((len(i), self.d), dtype=np.int64)
        position = np.zeros_like(parts)
        for g in range(h):  # from the root: the ancestor at depth g, the dimension that it is cut along, the part
            above, part = divmod((i - 1) // self.k ** (h - 1 - g), self.k)
            along = self._draw(g, above + 1, parts)
            position[rows, along] = position[rows, along] * self.k + part
            parts[rows, along] *= self.k
        return position, parts

    def _draw(self, h: int, i: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Random dimensions (n,) for the nodes (h, i); parts (n, d): how finely they are cut along each already."""
        u = (_hash(self.seed, h, i) >> np.uint64(11)) * 2.0**-53  # uniform in [0, 1)
        if self.most is None:
            return (u * self.d).astype(np.int64)
        free = parts < self.k**self.most
        rank = (u * free.sum(axis=1)).astype(np.int64)
        return (np.cumsum(free, axis=1) == rank[:, None] + 1).argmax(axis=1)

    def box(self, h: int, i) -> np.ndarray:
        """Boxes (n, d, 2) of the nodes (h, i)."""
        position, parts = self._cell(h, i)
        low, high = self.domain[:, :1], self.domain[:, 1:]
        edges, parts = np.stack([position, position + 1], axis=-1), parts[..., None]
        return np.where(edges == parts, high, low + (high - low) * (edges / parts))  # the domain's own end

    def centers(self, h: int, i) -> np.ndarray:
        """The points (n, d) where the nodes (h, i) are pulled."""
        position, parts = self._cell(h, i)
        low, high = self.domain.T
        centers = low + (high - low) * ((2 * position + 1) / (2 * parts))
        return np.minimum(centers, high, out=centers)  # rounding can pass the end of a deep cell


def _hash(seed: int, h: int, i: np.ndarray) -> np.ndarray:
    """64 well mixed bits (n,) for each node (h, i): SplitMix64's finalizer, once for each of the three numbers."""
    with np.errstate(over="ignore"):
        bits = np.full(len(i), seed, dtype=np.uint64)
        for number in (np.uint64(h), i.astype(np.uint64)):
            bits = bits + number * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = bits ^ (bits >> np.uint64(31))
    return bits


@functools.lru_cache(maxsize=256)
def _place_values(k: int, h: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How i - 1 in base k, first digit first, tells a cyclic cell: digit g is its part along dimension g mod d.

    The value (h,) of each digit in i - 1; its value (h, d) in the position along each dimension; parts (d,).
    """
    digit = np.arange(h)
    weights = np.zeros((h, d), dtype=np.int64)
    weights[digit, digit % d] = k ** ((h - 1 - digit) // d)
    return k ** (h - 1 - digit), weights, np.array([k ** len(range(j, h, d)) for j in range(d)], dtype=np.int64)
