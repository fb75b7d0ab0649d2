"""The hierarchical partition of the domain, in closed form, and bridges to and from PyXAB.

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


class PyXABPartition:
    """One of PyXAB's partition classes behind the interface of `Partition`.

    Some of PyXAB's classes split along a random dimension, or at a random point, with numpy's global
    random state. Here each split draws from a state that depends on (seed, h, i) alone, and the
    global state is put back: the cells do not depend on who asks first, and nothing leaks.
    """

    def __init__(self, partition_class, domain, max_depth: int | None = None, seed: int = 0):
        """partition_class: a subclass of PyXAB.partition.Partition.Partition, such as BinaryPartition.

        seed: an integer in 0..2^32 - 1. max_depth: as in Partition. Raises ValueError for anything else.
        """
        from PyXAB.partition.Partition import Partition as PyXABBase

        holds = isinstance(partition_class, type) and issubclass(partition_class, PyXABBase)
        check(holds, "partition_class", "one of PyXAB's partition classes, such as BinaryPartition", partition_class)
        check(is_integer(seed) and 0 <= seed < 2**32, "seed", "an integer in 0..2**32 - 1", seed)
        self.domain = check_domain(domain)
        self.seed = seed
        self._tree = partition_class(domain=self.domain.tolist())
        self._nodes = {(0, 1): self._tree.get_root()}
        self.k = len(self._split(0, 1))
        self.max_depth = deepest(self.k, max_depth)

    @property
    def d(self) -> int:
        return len(self.domain)

    children = Partition.children

    def _split(self, h: int, i: int) -> list:
        node = self._nodes[h, i]
        if node.get_children() is None:
            outside = np.random.get_state()
            try:
                np.random.set_state(np.random.RandomState([self.seed, h, i % 2**32, i // 2**32]).get_state())
                self._tree.make_children(node, newlayer=h >= self._tree.get_depth())
            finally:
                np.random.set_state(outside)
            for child in node.get_children():
                self._nodes[child.get_depth(), child.get_index()] = child
        return node.get_children()

    def _node(self, h: int, i: int):
        if not (0 <= h <= self.max_depth and 1 <= i <= getattr(self, "k", 1) ** h):
            raise ValueError(f"there is no node ({h}, {i}) in this partition.")
        if (h, i) not in self._nodes:
            parent = -(-i // self.k)
            self._node(h - 1, parent)
            self._split(h - 1, parent)
        return self._nodes[h, i]

    def box(self, h: int, i) -> np.ndarray:
        """Boxes (n, d, 2) of the nodes (h, i)."""
        boxes = [self._node(h, int(j)).get_domain() for j in np.atleast_1d(i)]
        return np.array(boxes, dtype=float).reshape(-1, self.d, 2)

    def centers(self, h: int, i) -> np.ndarray:
        """The points (n, d) where the nodes (h, i) are pulled."""
        points = [self._node(h, int(j)).get_cpoint() for j in np.atleast_1d(i)]
        return np.array(points, dtype=float).reshape(-1, self.d)


def to_pyxab(partition):
    """A PyXAB partition class whose cells are those of `partition`.

    Pass it as the `partition` argument of a PyXAB algorithm, so that it runs on the cells that ours use.
    """
    from PyXAB.partition.Partition import Partition as PyXABBase

    class Shared(PyXABBase):
        def make_children(self, parent, newlayer=False):
            h = parent.get_depth() + 1
            indices = partition.children(parent.get_index())
            children = []
            for i, box, center in zip(indices, partition.box(h, indices), partition.centers(h, indices), strict=True):
                child = self.node(h, int(i), parent, box.tolist())
                child.c_point = center.tolist()  # the same rounding as ours
                children.append(child)
            parent.update_children(children)
            if newlayer:
                self.node_list.append(list(children))  # a copy: the layer grows, the parent's list must not
                self.depth += 1
            else:
                self.node_list[h] += children

    return Shared
