"""Bridges to and from PyXAB: its partition classes for our algorithms, and our cells for its algorithms."""

from typing import Any

import numpy as np

from pfpne.partition import Partition, check_domain, resolve_max_depth
from pfpne.validation import check, check_integer


class PyXABPartition:
    """One of PyXAB's partition classes, with the methods of `Partition`.

    Some of PyXAB's classes draw the dimension and the place of a split from numpy's global random state. Here each
    split draws from a state that depends on (seed, h, i) alone, and the global state is restored. So the cells do not
    depend on the order in which they are requested.

    Parameters
    ----------
    partition_class
        A subclass of PyXAB's Partition, such as BinaryPartition.
    domain
        The box, shape (d, 2).
    max_depth
        The depth at which cells are not split any more; None as in `Partition`.
    seed
        An integer in 0..2^32 - 1.

    Raises
    ------
    ValueError
        If an argument is of another kind, or out of its range.

    Examples
    --------
    >>> import pfpne
    >>> from PyXAB.partition.KaryPartition import KaryPartition
    >>> pfpne.PyXABPartition(KaryPartition, [[0.0, 1.0]]).k
    3
    """

    def __init__(self, partition_class, domain, max_depth: int | None = None, seed: int = 0):
        from PyXAB.partition.Partition import Partition as PyXABBase

        is_pyxab = isinstance(partition_class, type) and issubclass(partition_class, PyXABBase)
        check(is_pyxab, "partition_class", "one of PyXAB's partition classes, such as BinaryPartition", partition_class)
        check_integer("seed", seed, 0, 2**32 - 1)
        self.domain = check_domain(domain)
        self.d = len(self.domain)
        self.seed = seed
        self._tree = partition_class(domain=self.domain.tolist())
        self._nodes = {(0, 1): self._tree.get_root()}
        self.k = len(self._split(0, 1))
        self.max_depth = resolve_max_depth(self.k, max_depth)

    children = Partition.children

    def _split(self, h: int, i: int) -> list:
        node, global_state = self._nodes[h, i], np.random.get_state()
        try:
            np.random.set_state(np.random.RandomState([self.seed, h, i % 2**32, i // 2**32]).get_state())
            self._tree.make_children(node, newlayer=h >= self._tree.get_depth())
        finally:
            np.random.set_state(global_state)
        children: Any = node.get_children()
        self._nodes |= {(child.get_depth(), child.get_index()): child for child in children}
        return children

    def _node(self, h: int, i: int):
        if not (0 <= h <= self.max_depth and 1 <= i <= self.k**h):
            raise ValueError(f"there is no node ({h}, {i}) in this partition.")
        if (h, i) not in self._nodes:
            parent = -(-i // self.k)
            self._node(h - 1, parent)
            self._split(h - 1, parent)
        return self._nodes[h, i]

    def box(self, h: int, i) -> np.ndarray:
        """Return the boxes (n, d, 2) of the nodes (h, i)."""
        return np.reshape([self._node(h, int(j)).get_domain() for j in np.atleast_1d(i)], (-1, self.d, 2)).astype(float)

    def centers(self, h: int, i) -> np.ndarray:
        """Return the centres (n, d) of the nodes (h, i), which is where they are pulled."""
        return np.reshape([self._node(h, int(j)).get_cpoint() for j in np.atleast_1d(i)], (-1, self.d)).astype(float)


def to_pyxab(partition):
    """Make a PyXAB partition class that has the cells of a partition of ours.

    Parameters
    ----------
    partition
        A `Partition`, or a `PyXABPartition`.

    Returns
    -------
    type
        A class for the argument `partition` of PyXAB's algorithms.

    Examples
    --------
    >>> import pfpne
    >>> from PyXAB.algos.HCT import HCT
    >>> cells = pfpne.to_pyxab(pfpne.Partition([[0.0, 1.0]]))
    >>> HCT(domain=[[0.0, 1.0]], partition=cells).pull(1)
    [0.75]
    """
    from PyXAB.partition.Partition import Partition as PyXABBase

    class Shared(PyXABBase):
        def make_children(self, parent, newlayer=False):
            h, indices, children = parent.get_depth() + 1, partition.children(parent.get_index()), []
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
