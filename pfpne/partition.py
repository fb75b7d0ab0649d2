"""The hierarchical partition of the domain, in closed form.

Node (h, i), i = 1..k^h, has the children (h+1, k i - j), j = 0..k-1, in increasing order of the
coordinate that is split (paper, Section 2.2). The cell at depth h is cut into k equal parts along
dimension h mod d. So the box of a node follows from (h, i) alone: no tree is stored, and a message
names a node with two integers. A node is pulled at the centre of its box.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from pfpne.checks import check, is_integer


def check_domain(domain) -> np.ndarray:
    """The domain as a read-only float array (d, 2) of [low, high], or ValueError."""
    box = np.array(domain, dtype=float)
    if box.ndim != 2 or box.shape[1] != 2 or box.shape[0] == 0:
        raise ValueError(f"A domain has shape (d, 2), one [low, high] a dimension; got shape {box.shape}.")
    if not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"Every dimension of a domain needs finite low < high; got {box.tolist()}.")
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
    """A k-ary partition of a box. A cell at max_depth is not split.

    domain: (d, 2). k >= 2. max_depth >= 0, with k**max_depth < 2**62; 40 by default, 39 for k = 3.
    Depths h are integers in 0..max_depth; indices i are integers in 1..k**h, scalars or (n,).
    """

    domain: np.ndarray
    k: int = 2
    max_depth: int | None = None
    _low: np.ndarray = field(init=False, repr=False)
    _width: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "domain", check_domain(self.domain))
        check(is_integer(self.k) and self.k >= 2, "k, the number of children of a node,", "an integer >= 2", self.k)
        object.__setattr__(self, "max_depth", deepest(self.k, self.max_depth))
        object.__setattr__(self, "_low", self.domain[:, 0])
        object.__setattr__(self, "_width", self.domain[:, 1] - self.domain[:, 0])

    @property
    def d(self) -> int:
        return len(self.domain)

    def children(self, i) -> np.ndarray:
        """Indices (n k,) at depth h + 1 of the children of the nodes i at any depth h < max_depth."""
        i = np.atleast_1d(np.asarray(i, dtype=np.int64))
        return (self.k * i[:, None] - np.arange(self.k - 1, -1, -1)).ravel()

    def _cell(self, h: int, i) -> tuple[np.ndarray, np.ndarray]:
        """Integer position (n, d) of the cells along each dimension, and the number of parts (d,)."""
        i = np.atleast_1d(np.asarray(i, dtype=np.int64))
        if not 0 <= h <= self.max_depth:
            raise ValueError(f"depth must be in 0..{self.max_depth}; got {h}.")
        if i.size and not (1 <= i.min() and i.max() <= self.k**h):
            raise ValueError(f"indices at depth {h} are 1..{self.k**h}; got {i.min()}..{i.max()}.")
        powers, weights, parts = _place_values(self.k, h, self.d)
        if self.d == 1:
            return i[:, None] - 1, parts
        return (i[:, None] - 1) // powers % self.k @ weights, parts

    def box(self, h: int, i) -> np.ndarray:
        """Boxes (n, d, 2) of the nodes (h, i)."""
        position, parts = self._cell(h, i)
        edges = np.stack([position, position + 1], axis=-1)
        inside = self._low[:, None] + self._width[:, None] * (edges / parts[:, None])
        return np.where(edges == parts[:, None], self.domain[:, 1:], inside)  # the domain's end, not its rounding

    def centers(self, h: int, i) -> np.ndarray:
        """The points (n, d) where the nodes (h, i) are pulled."""
        position, parts = self._cell(h, i)
        centers = self._low + self._width * ((2 * position + 1) / (2 * parts))
        return np.minimum(centers, self.domain[:, 1], out=centers)  # rounding can pass the end of a deep cell


@functools.lru_cache(maxsize=256)
def _place_values(k: int, h: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How i - 1 in base k, most significant digit first, tells the cell: digit g is the part along dimension g mod d.

    The value (h,) of each digit in i - 1; its value (h, d) in the position along each dimension; parts (d,).
    """
    parts = np.array([k ** len(range(j, h, d)) for j in range(d)], dtype=np.int64)
    powers = k ** np.arange(h - 1, -1, -1, dtype=np.int64)
    weights = np.zeros((h, d), dtype=np.int64)
    for g in range(h):
        weights[g, g % d] = k ** ((h - 1 - g) // d)
    return powers, weights, parts
