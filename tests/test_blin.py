"""BLiN on cases small enough to work by hand, and what must hold on all."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest

from pfpne.algorithms.blin import BLiNSettings, first_parts, is_kept, make_blin, pulls_of_cube
from pfpne.federation import Federation, Task
from pfpne.partition import Partition

UNIT = Partition([[0, 1]])


def federate(task, **settings):
    return Federation(*make_blin(task, BLiNSettings(**settings)))


def play(federation, value, sweeps=None):
    """Evaluate until the end, or for some sweeps; return each client's list of (point, count).

    value(m, x) gives one reward for each row of x, which has a row an evaluation.
    """
    played = [[] for _ in federation.clients]
    while federation.running and sweeps != 0:
        for m, batch in federation.ask():
            federation.tell(m, value(m, np.repeat(batch.points, batch.counts, axis=0)))
            played[m] += [(tuple(x), int(n)) for x, n in zip(batch.points.tolist(), batch.counts, strict=True)]
        sweeps = None if sweeps is None else sweeps - 1
    return played


def points(played):
    """The points of one dimension, one an evaluation, of each client."""
    return [[x for (x,), n in moves for _ in range(n)] for moves in played]


def identity(m, x):
    return x[:, 0]


# --- the bounds -------------------------------------------------------------------------------------


def test_pulls_of_a_cube():
    assert pulls_of_cube(0, 100_000, 16.0) == 185  # 16 * 11.5129 = 184.2
    assert pulls_of_cube(1, 100_000, 16.0) == 737  # 4 times 184.207 = 736.8
    assert pulls_of_cube(3, 1, 16.0) == 1  # log 1 = 0: at least one


def test_elimination():
    # 4 r = 1/2 at r = 1/8: the last is more than 1/2 below the best, the second exactly 1/2
    assert is_kept(np.array([0.75, 0.25, 0.75, 0.1875]), 1 / 8, 4.0).tolist() == [True, True, True, False]


def test_parts_of_a_cube():
    plane = Partition([[-5, 5], [0, 4]], cells="cyclic")
    assert first_parts(plane, np.array([1]), 4).tolist() == [1, 2, 3, 4]
    assert plane.centers(2, [1, 2, 3, 4]).tolist() == [[-2.5, 1], [-2.5, 3], [2.5, 1], [2.5, 3]]
    # cubes 2 and 4 of edge 1/2: cells 5..8 and 13..16 two depths below
    assert first_parts(plane, np.array([2, 4]), 8).tolist() == [5, 6, 7, 8, 13, 14, 15, 16]
    assert first_parts(plane, np.array([2, 4]), 5).tolist() == [5, 6, 7, 8, 13]
    assert first_parts(plane, np.array([2, 4]), 99).tolist() == [5, 6, 7, 8, 13, 14, 15, 16]
    box = plane.box(4, 5)[0]  # the first part of cube 2 = [-5, 0] x [2, 4]
    assert box.tolist() == [[-5, -2.5], [2, 3]]


# --- whole runs by hand -----------------------------------------------------------------------------


def test_four_batches_by_hand():
    # T = 100, log T = 4.6052, c_pulls = 1/4, c_gap = 1/2, rewards f(x) = x.
    # r = 1:   ceil(1.15) = 2 pulls of 0.5, t = 2.
    # r = 1/2: ceil(4.61) = 5 pulls of 0.25 and 0.75, t = 12; they differ by 0.5 > 1/2 * 1/2: the first goes.
    # r = 1/4: ceil(18.4) = 19 pulls of 0.625 and 0.875, t = 50; they differ by 0.25 > 1/8: the first goes.
    # r = 1/8: ceil(73.7) = 74 pulls of 0.8125 and 0.9375; 50 are left, 25 for each.
    federation = federate(Task(UNIT, n_clients=2, horizon=100), c_pulls=0.25, c_gap=0.5)
    expected = [0.5] * 2 + [0.25, 0.75] * 5 + [0.625, 0.875] * 19 + [0.8125, 0.9375] * 25
    assert points(play(federation, identity)) == [expected] * 2
    assert federation.clients[0].best().tolist() == [0.875]  # of the last batch finished


def test_a_cube_exactly_at_the_gap_stays():
    # c_gap = 1: at r = 1/2 the two differ by 0.5 = 1 * 1/2; both are split. At r = 1/4 (4 * 19 pulls, t = 88),
    # 0.625 is exactly 1/4 below 0.875 and stays; the 12 evaluations left go to their four halves, in turn.
    federation = federate(Task(UNIT, 1, 100), c_pulls=0.25, c_gap=1.0)
    played = points(play(federation, identity))[0][12:]
    assert played == [0.125, 0.375, 0.625, 0.875] * 19 + [0.5625, 0.6875, 0.8125, 0.9375] * 3


def test_equal_cubes_all_stay_and_the_first_is_best():
    # 2, 2 * 5 and 4 * 19 pulls: t = 88; the 12 evaluations left go to the 8 cubes of edge 1/8, and 4 of them again.
    federation = federate(Task(UNIT, 1, 100), c_pulls=0.25, c_gap=0.0)
    played = points(play(federation, lambda m, x: np.ones(len(x))))[0][12:]
    eighths = [0.0625, 0.1875, 0.3125, 0.4375, 0.5625, 0.6875, 0.8125, 0.9375]
    assert played == [0.125, 0.375, 0.625, 0.875] * 19 + eighths + eighths[:4]
    assert federation.clients[0].best().tolist() == [0.125]


def test_clients_are_alone():
    # Client 1 sees 1 - x: the mirror image of client 0's run.
    federation = federate(Task(UNIT, n_clients=2, horizon=100), c_pulls=0.25, c_gap=0.5)
    right, left = points(play(federation, lambda m, x: x[:, 0] if m == 0 else 1 - x[:, 0]))
    assert sorted(left) == sorted(1 - x for x in right)
    assert federation.clients[1].best().tolist() == [0.125]


def test_the_smallest_cubes_are_not_split():
    # max_depth = 1: after r = 1/2 (t = 12) the better of its two cubes is played for the other 88.
    federation = federate(Task(Partition([[0, 1]], max_depth=1), 1, 100), c_pulls=0.25, c_gap=0.5)
    assert points(play(federation, identity))[0] == [0.5] * 2 + [0.25, 0.75] * 5 + [0.75] * 88
    # d = 2 and max_depth = 3: a cube of edge 1/4 would be at depth 4, so edge 1/2 is the smallest.
    federation = federate(Task(Partition([[0, 1]] * 2, max_depth=3), 1, 100), c_pulls=0.25, c_gap=0.0)
    assert play(federation, lambda m, x: x.sum(axis=1))[0][-1] == ((0.75, 0.75), 100 - 2 - 4 * 5)


def test_on_the_landmine_grid_every_centre_is_a_grid_point():
    partition = Partition([[0, 128], [0, 128]], max_depth=12)
    federation = federate(Task(partition, 1, 100_000), c_pulls=1e-4, c_gap=0.5)
    played = play(federation, lambda m, x: -np.abs(x - 100.3).sum(axis=1) / 128)
    points = np.array([x for x, _ in played[0]])
    assert (points == np.round(points)).all()
    # edges 1, 1/2, ..., 1/64 are done, and the best cube is played to the end
    assert (points[-1] == federation.clients[0].best()).all() and played[0][-1][1] > pulls_of_cube(6, 100_000, 1e-4)
    assert [n for _, n in played[0][:-1]] == [1] * (len(played[0]) - 1)


def test_a_batch_that_ends_at_the_horizon_counts():
    # T = 39, log T = 3.6636: ceil(0.92) = 1, ceil(3.66) = 4 and ceil(14.65) = 15 pulls of 1, 2 and 2 cubes:
    # the third batch ends at 1 + 2 * 4 + 2 * 15 = 39 = T.
    federation = federate(Task(UNIT, 1, 39), c_pulls=0.25, c_gap=0.5)
    play(federation, identity)
    assert federation.clients[0].best().tolist() == [0.875]


def test_a_batch_cut_between_two_cubes_does_not_count():
    # T = 22, log T = 3.0910: ceil(0.77) = 1 pull, 2 cubes * ceil(3.09) = 4 pulls, t = 9; then 13 of the
    # 2 * ceil(12.36) = 26 pulls of 0.625 and 0.875.
    federation = federate(Task(UNIT, 1, 22), c_pulls=0.25, c_gap=0.5)
    assert points(play(federation, identity))[0][9:] == [0.625, 0.875] * 6 + [0.625]
    assert federation.clients[0].best().tolist() == [0.75]


def test_with_the_theorys_constants_nothing_is_dropped_by_100_000():
    # Means in [0, 1] differ by more than 4 r only for r <= 1/8. In 1-D the batches to there take
    # 185 + 2 * 737 + 4 * 2948 + 8 * 11790 = 107,771 evaluations; in 10-D r = 1/2 alone takes 1024 * 737 = 754,688.
    pulls = [pulls_of_cube(level, 100_000, 16.0) for level in range(4)]
    assert pulls == [185, 737, 2948, 11790]
    assert sum(2**level * n for level, n in enumerate(pulls)) == 107_771
    federation = federate(Task(UNIT, 1, 100_000), c_pulls=16.0, c_gap=4.0)
    played = points(play(federation, lambda m, x: (x[:, 0] > 0.9).astype(float)))[0]
    assert len(set(played)) == 1 + 2 + 4 + 8  # the horizon cuts the batch of edge 1/8


# --- what must hold always --------------------------------------------------------------------------


@pytest.mark.parametrize("d, horizon", [(1, 1), (1, 2000), (2, 2000), (10, 2000)])
def test_over_many_batches_the_budget_is_exact_and_a_saved_state_goes_on_the_same(d, horizon):
    task = Task(Partition([[-1, 1]] * d), n_clients=2, horizon=horizon)
    federation, played = federate(task, c_pulls=0.001, c_gap=0.5), []
    whole = play(federate(task, c_pulls=0.001, c_gap=0.5), lambda m, x: np.cos(m + x.sum(axis=1)))
    while federation.running:
        federation.ask()  # asked and not yet told
        federation = pickle.loads(pickle.dumps(federation))
        played += play(federation, lambda m, x: np.cos(m + x.sum(axis=1)), sweeps=1)[1]
    assert played == whole[1]
    assert [sum(n for _, n in moves) for moves in whole] == [horizon] * 2 and min(n for _, n in played) >= 1
    assert all((np.abs(client.best()) < 1).all() for client in federation.clients)


def test_in_ten_dimensions_only_what_can_be_pulled_is_made():
    # One pull a cube and no elimination: 1 + 1024 cubes, then 1,048,576 of which the budget reaches 98,975.
    task = Task(Partition([[-1, 1]] * 10), n_clients=1, horizon=100_000)
    federation = federate(task, c_pulls=1e-6, c_gap=100.0)
    play(federation, identity, sweeps=1)
    tracemalloc.start()
    try:
        play(federation, identity, sweeps=1)
        ((_, batch),) = federation.ask()
        assert len(batch.points) == 100_000 - 1 - 1024
        assert tracemalloc.get_traced_memory()[1] < 50e6  # all the cubes' centres alone would take 84 MB
    finally:
        tracemalloc.stop()


def test_a_cube_may_have_more_parts_than_can_be_counted():
    # 2^60 parts of one cube in 60 dimensions: the first 5 are made, and nothing more.
    partition = Partition([[0, 1]] * 60, max_depth=61)
    assert first_parts(partition, np.array([1]), 5).tolist() == [1, 2, 3, 4, 5]


def test_its_cells_are_those_of_the_cyclic_partition():
    partition = Partition([[-5, 5], [-5, 5]], cells="cyclic")
    client = make_blin(Task(Partition([[-5, 5], [-5, 5]]), 1, 10), BLiNSettings())[1][0]
    cubes = np.arange(1, 17)
    assert (client.task.partition.centers(4, cubes) == partition.centers(4, cubes)).all()
    assert (np.diff(partition.box(4, cubes), axis=-1) == 10 / 4).all()  # cubes of edge 1/4 of the domain


@pytest.mark.parametrize("bad", [{"c_pulls": 0}, {"c_pulls": None}, {"c_gap": -1}, {"c_gap": math.inf}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        BLiNSettings(**bad)
