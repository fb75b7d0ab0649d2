"""The hierarchical partition of the domain, in closed form.

Node (h, i), i = 1..k^h, has the children (h+1, k i - j), j = 0..k-1, which cut its box along one dimension into k equal
parts, in increasing order (paper, Section 2.2). The box follows from (h, i) alone: no tree is stored, and a message
names a node with two integers. A node is pulled at the centre of its box.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pfpne.validation import check, check_count, check_integer, is_integer

CELLS = ("random", "cyclic")
NODES_AT_ONCE = 4096  # whose paths are followed together: enough to be fast, few enough for a processor's cache


def check_domain(domain) -> np.ndarray:
    """Return the domain as a read-only float array (d, 2) of [low, high]; ValueError if it is not a box."""
    box = np.array(domain, dtype=float)
    if box.ndim != 2 or box.shape[1] != 2 or box.shape[0] == 0:
        raise ValueError(f"A domain has shape (d, 2), one [low, high] a dimension; got shape {box.shape}.")
    if not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"Every dimension of a domain needs finite low < high; got {box.tolist()}.")
    if (np.abs(box) > 1e300).any():
        raise ValueError(f"A domain must lie within +-1e300, for its width to be a number; got {box.tolist()}.")
    box.setflags(write=False)
    return box


def resolve_max_depth(k: int, max_depth: int | None) -> int:
    """Return max_depth; for None, 40 or the largest depth whose indices, up to k**max_depth, stay below 2**62."""
    if max_depth is None:
        return next(h for h in range(40, -1, -1) if k**h < 2**62)
    in_range = is_integer(max_depth) and 0 <= max_depth <= 62 and k ** int(max_depth) < 2**62
    check(in_range, "max_depth", f"an integer >= 0 with k**max_depth < 2**62 (k = {k})", max_depth)
    return int(max_depth)


@dataclass(frozen=True, eq=False)
class Partition:
    """A k-ary partition of a box, which fixes where every node (h, i) lies.

    Parameters
    ----------
    domain
        The box, shape (d, 2): one [low, high] for each dimension.
    k
        The number of children of a node, an integer >= 2.
    max_depth
        The depth at which cells are not split any more; None for 40, or less where indices would not fit into 62 bits.
    cells
        The rule for the dimension that a cell is cut along. "random": drawn for each node by a hash of (seed, h, i), as
        PyXAB's BinaryPartition draws it. "cyclic": h mod d for a node of depth h.
    seed
        The seed of random cells, an integer >= 0.
    max_cuts
        The largest number of cuts per dimension on the path to a random cell, in 1..62; None for no limit. With a
        limit, max_depth is at most d max_cuts.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    In every method, a depth h is an integer in 0..max_depth, and indices i are integers in 1..k**h, one or an array
    (n,) of them.

    Examples
    --------
    >>> import pfpne
    >>> halves = pfpne.Partition([[0.0, 1.0]])
    >>> halves.centers(1, [1, 2])
    array([[0.25],
           [0.75]])
    >>> halves.children(2)
    array([3, 4])
    """

    domain: Any  # (d, 2), [low, high] a dimension; an array once it is made
    k: int = 2
    max_depth: Any = None  # an integer or None; an integer once it is made
    cells: str = "random"
    seed: int = 0
    max_cuts: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "domain", check_domain(self.domain))
        check_integer("k, the number of children of a node,", self.k, 2, 2**31)
        check(self.cells in CELLS, "cells", f"one of {', '.join(map(repr, CELLS))}", self.cells)
        check_count("seed", self.seed)
        if self.max_cuts is not None:
            check_integer("max_cuts", self.max_cuts, 1, 62, ", or None for no limit")
        object.__setattr__(self, "max_depth", resolve_max_depth(self.k, self.max_depth))
        enough_cuts = self.max_cuts is None or self.max_depth <= self.d * self.max_cuts
        check(
            enough_cuts, "max_depth", "at most d max_cuts, how often the dimensions may be cut in all", self.max_depth
        )

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return len(self.domain)

    def children(self, i) -> np.ndarray:
        """Return the indices (n k,), one depth below, of the children of the nodes with indices i, of any depth."""
        i = np.atleast_1d(np.asarray(i, dtype=np.int64))
        return (self.k * i[:, None] - np.arange(self.k - 1, -1, -1)).ravel()

    def _cell(self, h: int, i) -> tuple[np.ndarray, np.ndarray]:
        """Return the integer positions (n, d) of cells along each dimension, and the number of parts there.

        The number of parts has shape (d,) where all cells of the depth are cut alike, else (n, d).
        """
        i = np.atleast_1d(np.asarray(i, dtype=np.int64))
        if not 0 <= h <= self.max_depth:
            raise ValueError(f"depth must be in 0..{self.max_depth}; got {h}.")
        if i.size and not (1 <= i.min() and i.max() <= self.k**h):
            raise ValueError(f"indices at depth {h} are 1..{self.k**h}; got {i.min()}..{i.max()}.")
        if self.d == 1:
            return i[:, None] - 1, np.array([self.k**h])
        return self._cyclic_cell(h, i) if self.cells == "cyclic" else self._random_cell(h, i)

    def _cyclic_cell(self, h: int, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `_cell`, for cells that are cut along one dimension after another: parts (d,)."""
        powers, weights, parts = _place_values(self.k, h, self.d)
        return (i[:, None] - 1) // powers % self.k @ weights, parts

    def _random_cell(self, h: int, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `_cell`, for cells that are cut along random dimensions, followed from the root: parts (n, d)."""
        position, parts = np.zeros((len(i), self.d), dtype=np.int64), np.ones((len(i), self.d), dtype=np.int64)
        for first in range(0, len(i) if h > 0 else 0, NODES_AT_ONCE):
            block = slice(first, first + NODES_AT_ONCE)
            self._follow(h, i[block], position[block], parts[block])
        return position, parts

    def _follow(self, h: int, i: np.ndarray, position: np.ndarray, parts: np.ndarray) -> None:
        """Follow the paths from the root to the nodes (h, i), h >= 1: update their position and parts in place."""
        depths = np.arange(h + 1)[:, None]
        path = (i - 1) // self.k ** (h - depths)  # (h + 1, n): i - 1 of the nodes on each path
        bits = _hash(self.seed, depths[:-1], path[:-1] + 1)
        uniforms = (bits >> np.uint64(11)) * 2.0**-53  # (h, n): in [0, 1)
        children = (path[1:] - self.k * path[:-1])[..., None]  # (h, n, 1): which child comes next on the path
        for u, child in zip(uniforms, children, strict=True):
            is_cut = self._is_cut(u[:, None], parts)
            factor = np.where(is_cut, self.k, 1)
            parts *= factor
            position *= factor
            position += is_cut * child

    def _is_cut(self, u: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Return whether nodes are cut along each dimension (n, d), for the uniform numbers u (n, 1) of the nodes.

        parts (n, d): the number of parts per dimension on the path to a node; a dimension with k^max_cuts parts is not
        cut again.
        """
        if self.max_cuts is None:
            return (u * self.d).astype(np.int64) == np.arange(self.d)
        free = parts < self.k**self.max_cuts
        rank = (u * free.sum(axis=1, keepdims=True)).astype(np.int64)
        return free & (np.cumsum(free, axis=1) == rank + 1)

    def box(self, h: int, i) -> np.ndarray:
        """Return the boxes (n, d, 2) of the nodes (h, i)."""
        position, parts = self._cell(h, i)
        low, high = self.domain[:, :1], self.domain[:, 1:]
        edges, parts = np.stack([position, position + 1], axis=-1), parts[..., None]
        return np.where(
            edges == parts, high, low + (high - low) * (edges / parts)
        )  # the end of the domain itself, not rounded

    def centers(self, h: int, i) -> np.ndarray:
        """Return the centres (n, d) of the nodes (h, i), which is where they are pulled."""
        position, parts = self._cell(h, i)
        low, high = self.domain.T
        centers = low + (high - low) * ((2 * position + 1) / (2 * parts))
        return np.minimum(centers, high, out=centers)  # rounding can pass the end of a deep cell


def _hash(seed: int, h: np.ndarray, i: np.ndarray) -> np.ndarray:
    """Return 64 well mixed bits for each node (h, i): SplitMix64's finalizer, applied to seed, h and i in turn.

    h and i are arrays whose shapes match, and the bits have the shape of both: NumPy would warn of single numbers that
    overflow, as they should here.
    """
    bits = np.full(np.broadcast_shapes(h.shape, i.shape), seed, dtype=np.uint64)
    for number in (h.astype(np.uint64), i.astype(np.uint64)):
        bits += number * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    return bits


@functools.lru_cache(maxsize=256)
def _place_values(k: int, h: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the place values that turn i - 1 in base k, most significant digit first, into a cyclic cell's position.

    Digit g is the part that the cell takes along dimension g mod d. Returned are the place value (h,) of each digit in
    i - 1, its place value (h, d) in the position along each dimension, and the number of parts (d,) of each dimension.
    """
    digit = np.arange(h)
    weights = np.zeros((h, d), dtype=np.int64)
    weights[digit, digit % d] = k ** ((h - 1 - digit) // d)
    return k ** (h - 1 - digit), weights, np.array([k ** len(range(j, h, d)) for j in range(d)], dtype=np.int64)
