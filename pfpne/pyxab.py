"""Bridges to and from PyXAB: its partition classes behind our interface, and our cells for its algorithms."""

from __future__ import annotations

import numpy as np

from pfpne.checks import check, is_integer
from pfpne.partition import Partition, check_domain, deepest


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
