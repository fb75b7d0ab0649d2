"""Cells worked out by hand, and the bridges to and from PyXAB."""

import itertools
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PyXAB.algos.HCT import HCT
from PyXAB.partition.BinaryPartition import BinaryPartition
from PyXAB.partition.DimensionBinaryPartition import DimensionBinaryPartition
from PyXAB.partition.KaryPartition import KaryPartition
from PyXAB.partition.RandomBinaryPartition import RandomBinaryPartition
from PyXAB.partition.RandomKaryPartition import RandomKaryPartition
from scipy.stats import chi2

from pfpne.partition import Partition
from pfpne.pyxab import PyXABPartition, to_pyxab

PYXAB = [BinaryPartition, DimensionBinaryPartition, KaryPartition, RandomBinaryPartition, RandomKaryPartition]
RANDOM = [KaryPartition, RandomBinaryPartition, RandomKaryPartition]


@pytest.mark.parametrize(
    ("k", "domain", "h", "i", "box"),
    [
        (2, [[0, 1]], 0, 1, [[0, 1]]),
        (2, [[0, 1]], 3, 6, [[5 / 8, 6 / 8]]),
        # i - 1 = 5 is 101 in base 2: dimension 0 takes the digits 1 and 1, part 3 of 4; dimension 1 takes 0 of 2
        (2, [[-5, 5], [-5, 5]], 3, 6, [[2.5, 5], [-5, 0]]),
        # 11 is 1011: dimension 0 takes 1 and 1, part 3 of 4; dimension 1 takes 0 of 2; dimension 2 takes 1 of 2
        (2, [[0, 8], [0, 8], [0, 8]], 4, 12, [[6, 8], [0, 4], [4, 8]]),
        (2, [[0, 8], [0, 8], [0, 8]], 1, 2, [[4, 8], [0, 8], [0, 8]]),  # dimensions 1 and 2 are not split yet
        (3, [[0, 9]], 2, 6, [[5, 6]]),
        # 19 is 201 in base 3: dimension 0 takes 2 and 1, part 7 of 9; dimension 1 takes 0 of 3
        (3, [[0, 9], [0, 3]], 3, 20, [[7, 8], [0, 1]]),
        # 21 is 210: parts 2, 1 and 0 of 3
        (3, [[0, 3], [0, 3], [0, 3]], 3, 22, [[2, 3], [1, 2], [0, 1]]),
    ],
)
def test_box_and_centre(k, domain, h, i, box):
    partition = Partition(domain, k, cells="cyclic")
    np.testing.assert_allclose(partition.box(h, i), [box], rtol=1e-15)
    np.testing.assert_allclose(partition.centers(h, i), [np.mean(box, axis=1)], rtol=1e-15)


def test_children():
    assert Partition([[0, 1]], 2).children(3).tolist() == [5, 6]
    assert Partition([[0, 1]], 3).children([1, 4]).tolist() == [1, 2, 3, 10, 11, 12]


def test_default_depth_is_40_or_what_fits():
    assert Partition([[0, 1]]).max_depth == 40
    assert Partition([[0, 1]], 3).max_depth == 39  # 3^39 < 2^62 < 3^40
    assert Partition([[0, 1]], 4).max_depth == 30  # 4^31 = 2^62 does not fit
    assert PyXABPartition(DimensionBinaryPartition, [[0, 1]] * 4).max_depth == 15  # 16^15 = 2^60


@given(
    data=st.data(),
    k=st.sampled_from([2, 3]),
    d=st.integers(1, 3),
    h=st.integers(0, 12),
    cells=st.sampled_from(["cyclic", "random"]),
    max_cuts=st.sampled_from([None, 5]),
)
def test_children_tile_their_parent_in_increasing_order(data, k, d, h, cells, max_cuts):
    domain = data.draw(st.lists(st.tuples(st.floats(-10, 0), st.floats(0.1, 10)), min_size=d, max_size=d))
    if max_cuts is not None and cells == "random":
        h = min(h, d * max_cuts - 1)
        partition = Partition(domain, k, d * max_cuts, cells, data.draw(st.integers(0, 2**64 - 1)), max_cuts)
    else:
        partition = Partition(domain, k, cells=cells, seed=data.draw(st.integers(0, 2**64 - 1)))
    i = data.draw(st.integers(1, k**h))
    parent, children = partition.box(h, i)[0], partition.box(h + 1, partition.children(i))
    (split,) = np.flatnonzero((children[0] != parent).any(axis=1))
    if cells == "cyclic":
        assert split == h % d
    assert np.array_equal(children[0, split, 0], parent[split, 0])  # edges agree to the last bit
    assert np.array_equal(children[-1, split, 1], parent[split, 1])
    assert np.array_equal(children[1:, split, 0], children[:-1, split, 1])
    for j in set(range(d)) - {split}:
        assert (children[:, j] == parent[j]).all()
    centers = partition.centers(h + 1, partition.children(i))
    assert ((children[:, :, 0] < centers) & (centers < children[:, :, 1])).all()


def split_dimensions(partition, h, i) -> np.ndarray:
    """The dimension (n,) that each of the nodes (h, i) is cut along."""
    first = partition.box(h + 1, partition.children(i)[:: partition.k])
    return (first != partition.box(h, i)).any(axis=2).argmax(axis=1)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_random_dimensions_are_uniform_over_nodes_and_over_seeds(d):
    def chi_square(counts):
        expected = counts.sum() / d
        return ((counts - expected) ** 2 / expected).sum()

    nodes = split_dimensions(Partition([[0, 1]] * d, cells="random", seed=5), 11, np.arange(1, 2049))
    seeds = [split_dimensions(Partition([[0, 1]] * d, cells="random", seed=s), 3, [6])[0] for s in range(1000)]
    for dimensions in (nodes, np.array(seeds)):
        assert chi_square(np.bincount(dimensions, minlength=d)) < chi2.isf(1e-4, d - 1)
    assert abs(np.corrcoef(nodes[:-1], nodes[1:])[0, 1]) < 4 / np.sqrt(len(nodes))  # siblings are drawn apart


def test_the_dimension_of_a_cut_depends_on_the_depth_too_and_on_all_of_the_seed():
    """Nodes of index 1, from the root down, are not all cut along one dimension; 2^32 more is another seed."""
    dimensions = {
        seed: [int(split_dimensions(Partition([[0, 1]] * 2, seed=seed), h, [1])[0]) for h in range(30)]
        for seed in (5, 2**32 + 5)
    }
    assert all(5 < sum(path) < 25 for path in dimensions.values())
    assert dimensions[5] != dimensions[2**32 + 5]


def test_nothing_depends_on_who_asks_first():
    some, all_ = (Partition([[0, 1]] * 3, cells="random", seed=9) for _ in range(2))
    deep = some.box(20, [1, 77, 2**20])
    for h in range(20):
        all_.box(h, np.arange(1, min(2**h, 50) + 1))
    assert np.array_equal(all_.box(20, [1, 77, 2**20]), deep)
    assert np.array_equal(np.concatenate([some.centers(7, i) for i in range(1, 129)]), some.centers(7, range(1, 129)))
    assert not np.array_equal(Partition([[0, 1]] * 3, cells="random", seed=8).box(20, [1, 77]), deep[:2])


@pytest.mark.parametrize("max_cuts", [None, 8])
def test_nothing_depends_on_how_many_paths_are_followed_together(monkeypatch, max_cuts):
    partition = Partition([[0, 1]] * 2, max_depth=16, seed=9, max_cuts=max_cuts)
    boxes = partition.box(16, range(1, 101))
    monkeypatch.setattr("pfpne.partition.NODES_AT_ONCE", 7)
    assert np.array_equal(partition.box(16, range(1, 101)), boxes)


def test_random_cells_with_a_limit_stay_on_the_grid():
    partition = Partition([[0, 128]] * 2, max_depth=12, cells="random", seed=1, max_cuts=6)
    for h in range(13):
        centers = partition.centers(h, np.arange(1, 2**h + 1))
        assert np.array_equal(centers, np.rint(centers)) and (1 <= centers).all() and (centers <= 127).all()
    assert len(np.unique(partition.centers(12, np.arange(1, 4097)), axis=0)) == 4096
    with pytest.raises(ValueError, match="max_depth must be at most d max_cuts"):  # 13 cuts of two dimensions
        Partition([[0, 128]] * 2, max_depth=13, cells="random", seed=1, max_cuts=6)


@pytest.mark.parametrize("k", [2, 3])
def test_a_dimension_is_cut_as_often_as_the_limit_says(k):
    """At depth d max_cuts every cell is one of the k^max_cuts equal parts of each dimension."""
    partition, parts = Partition([[0, 1]] * 2, k, max_depth=6, cells="random", seed=1, max_cuts=3), k**3
    centers = partition.centers(6, np.arange(1, k**6 + 1))
    axis = (2 * np.arange(parts) + 1) / (2 * parts)
    np.testing.assert_allclose(np.unique(centers.round(12), axis=0), [(x, y) for x in axis for y in axis], atol=1e-12)


def test_in_one_dimension_both_kinds_of_cells_are_the_same():
    for h in range(20):
        cells = [Partition([[0, 1]], cells=cells).box(h, [1, 2**h]) for cells in ("random", "cyclic")]
        assert np.array_equal(*cells)


@given(st.floats(-1e3, 0), st.floats(1e-3, 1e3), st.sampled_from([2, 3]))
def test_the_last_cell_ends_where_the_domain_does(low, high, k):
    partition = Partition([[low, high]], k, max_depth=39)
    assert partition.box(39, k**39)[0, 0, 1] == high  # -0.1 + (0.3 - -0.1), say, is more than 0.3
    assert low <= partition.centers(39, k**39)[0, 0] <= high


@pytest.mark.parametrize("cells", ["cyclic", "random"])
def test_the_cells_of_a_depth_begin_and_end_exactly_where_the_domain_does(cells):
    low, high = np.array([-0.1, -0.7]), np.array([0.3, 0.1])
    assert (np.sign(low + (high - low) - high) == [1, -1]).all()  # rounded, one end lies beyond, one before
    for k, h in itertools.product((2, 3), range(7)):
        box = Partition(np.stack([low, high], axis=1), k, cells=cells).box(h, np.arange(1, k**h + 1))
        assert (box[..., 0].min(axis=0) == low).all() and (box[..., 1].max(axis=0) == high).all()


@pytest.mark.parametrize(("k", "h"), [(2, 61), (3, 39)])
def test_the_deepest_centres_are_in_the_domain_where_its_width_is_rounded_up(k, h):
    low, high = -0.1, 0.3
    assert low + (high - low) > high
    partition = Partition([[low, high]], k, max_depth=h)
    assert (partition.centers(h, [1, k**h])[:, 0] == [low, high]).all()  # to rounding, the cells are points


def test_a_domain_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Partition([[0, 1]]).domain[0, 1] = 2.0


def test_another_kind_of_cells_is_refused():
    with pytest.raises(ValueError, match="cells must be one of 'random', 'cyclic'; got 'round'"):
        Partition([[0, 1]], cells="round")


@pytest.mark.parametrize("h", [-1, 41])
def test_a_depth_that_is_none_is_refused(h):
    with pytest.raises(ValueError, match=r"depth must be in 0\.\.40"):
        Partition([[0, 1]]).centers(h, 1)


def test_bad_input_is_refused():
    for domain in ([0, 1], [[0, 1, 2]], [], [[1, 1]], [[2, 1]], [[0, np.inf]], [[0, np.nan]], [[-1e308, 1e308]]):
        with pytest.raises(ValueError, match=r"[Dd]omain|dimension"):
            Partition(domain)
    with pytest.raises(ValueError, match="k, the number of children"):
        Partition([[0, 1]], k=1)
    for depth in (-1, 62):
        with pytest.raises(ValueError, match="max_depth"):
            Partition([[0, 1]], max_depth=depth)
    partition = Partition([[0, 1]], max_depth=3)
    for h, i in ((4, 1), (-1, 1), (2, 0), (2, 5)):
        with pytest.raises(ValueError, match="depth"):
            partition.centers(h, i)


# --- PyXAB's partitions behind our interface ----------------------------------------------------------


def cells(partition, nodes) -> dict:
    return {(h, i): (partition.box(h, i).tolist(), partition.centers(h, i).tolist()) for h, i in nodes}


@pytest.mark.parametrize("partition_class", PYXAB)
def test_adapter_leaves_the_global_random_state_alone(partition_class):
    before, before_python = np.random.get_state(), random.getstate()
    partition = PyXABPartition(partition_class, [[0, 1], [0, 1]])
    partition.centers(4, np.arange(1, partition.k**4 + 1))
    after = np.random.get_state()
    assert before[0] == after[0] and (before[1] == after[1]).all() and before[2:] == after[2:]
    assert random.getstate() == before_python


@pytest.mark.parametrize("partition_class", PYXAB)
def test_adapter_cells_do_not_depend_on_the_asking_order(partition_class):
    first, second = (PyXABPartition(partition_class, [[0, 1], [0, 1]], seed=3) for _ in range(2))
    nodes = [(h, i) for h in range(4) for i in range(1, first.k**h + 1)]
    backwards = cells(second, reversed(nodes))
    np.random.random()  # whatever happens outside
    assert cells(first, nodes) == backwards
    assert cells(pickle.loads(pickle.dumps(first)), nodes) == backwards


@pytest.mark.parametrize("partition_class", PYXAB)
def test_adapter_children_tile_their_parent(partition_class):
    partition = PyXABPartition(partition_class, [[0, 2], [0, 1]])
    for h, i in ((0, 1), (1, 2), (2, 3)):
        parent, children = partition.box(h, i)[0], partition.box(h + 1, partition.children(i))
        volumes = np.prod(children[..., 1] - children[..., 0], axis=1)
        assert volumes.sum() == pytest.approx(np.prod(parent[:, 1] - parent[:, 0]))
        assert (children[..., 0] >= parent[:, 0]).all() and (children[..., 1] <= parent[:, 1]).all()


@pytest.mark.parametrize("partition_class", RANDOM)
def test_adapter_seed_names_the_cells(partition_class):
    nodes = [(3, i) for i in range(1, 9)]
    boxes = [cells(PyXABPartition(partition_class, [[0, 1], [0, 1]], seed=seed), nodes) for seed in range(4)]
    assert any(other != boxes[0] for other in boxes[1:])


def test_adapter_agrees_with_ours_in_one_dimension():
    nodes = [(h, i) for h in range(6) for i in range(1, 2**h + 1)]
    assert cells(PyXABPartition(BinaryPartition, [[0, 1]]), nodes) == cells(Partition([[0, 1]]), nodes)
    assert PyXABPartition(DimensionBinaryPartition, [[0, 1], [0, 1]]).k == 4


def test_no_nodes_no_cells():
    for partition in (Partition([[0, 1], [0, 1]]), PyXABPartition(BinaryPartition, [[0, 1], [0, 1]])):
        none = np.empty(0, dtype=int)
        assert partition.centers(2, none).shape == (0, 2) and partition.box(2, none).shape == (0, 2, 2)


def test_adapter_refuses_bad_arguments():
    for wrong in ([[0, 1]], "BinaryPartition", Partition, None):
        with pytest.raises(ValueError, match="partition_class must be one of PyXAB's"):
            PyXABPartition(wrong, [[0, 1]])
    for seed in (-1, 2**32, 0.5, None):
        with pytest.raises(ValueError, match="seed must be an integer in"):
            PyXABPartition(BinaryPartition, [[0, 1]], seed=seed)


def test_adapter_refuses_what_is_not_there():
    partition = PyXABPartition(BinaryPartition, [[0, 1]], max_depth=3)
    for h, i in ((4, 1), (2, 0), (2, 5)):
        with pytest.raises(ValueError, match="no node"):
            partition.centers(h, i)


# --- our cells in PyXAB's algorithms --------------------------------------------------------------------


@pytest.mark.parametrize(("k", "domain"), [(2, [[0, 1]]), (2, [[-5, 5], [-5, 5]]), (3, [[-0.1, 0.3], [0, 2]])])
def test_to_pyxab_runs_a_pyxab_algorithm_on_our_cells(k, domain):
    partition = Partition(domain, k)
    algorithm = HCT(domain=domain, partition=to_pyxab(partition))
    for t in range(1, 301):
        x = algorithm.pull(t)
        algorithm.receive_reward(t, 1 - abs(x[0] - 0.2) / 10)
    layers = algorithm.partition.get_node_list()
    assert len(layers) > 4
    for h, nodes in enumerate(layers):
        index = [node.get_index() for node in nodes]
        assert np.array_equal([node.get_domain() for node in nodes], partition.box(h, index))
        if h > 0:  # PyXAB makes the root itself, the midpoint of the same box
            assert np.array_equal([node.get_cpoint() for node in nodes], partition.centers(h, index))
