"""The assumptions of the paper, measured: by hand where they are known, and by brute force where they are not."""

import itertools
import math

import numpy as np
import pytest

from pfpne.paper.claims import premises
from pfpne.paper.exhibits import assumptions
from pfpne.partition import Partition
from pfpne.problems import make_problem, problem_from_functions

HALVES = Partition([[0.0, 1.0]])


def squares(*peaks):
    functions = [lambda x, peak=peak: 1 - (x[:, 0] - peak) ** 2 for peak in peaks]
    return problem_from_functions(functions, [[0.0, 1.0]])


def measured(problem, partition, H):
    return premises.optima(problem), *premises.ranges(problem, partition, H)


def test_the_path_to_a_point_is_a_line_of_cells_that_hold_it():
    partition, x = Partition([[0.0, 1.0], [-5.0, 5.0]], seed=3), np.array([0.3, 4.2])
    index = np.concatenate(premises.way(partition, x[None], 9))
    assert index[0] == 1 and all(b in partition.children(a) for a, b in itertools.pairwise(index))
    for h, i in enumerate(index):
        (box,) = partition.box(h, i)
        assert ((box[:, 0] <= x) & (x <= box[:, 1])).all()


@pytest.mark.parametrize("name", ["himmelblau", "rastrigin"])
def test_ranges_are_those_of_a_fine_grid(name):
    problem = make_problem(name, 2, 0.1, d=2 if name == "rastrigin" else None)
    partition, side = Partition(problem.domain, seed=1), np.linspace(*problem.domain[0], 513)
    x = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    values = np.vstack([problem.values(x), problem.mean_values(x)])
    lows, highs = premises.ranges(problem, partition, 5)
    for h in (0, 2, 5):
        for i, box in enumerate(partition.box(h, np.arange(1, 2**h + 1))):
            inside = values[:, ((box[:, 0] <= x) & (x <= box[:, 1])).all(axis=1)]
            np.testing.assert_allclose(lows[h][:, i], inside.min(axis=1), atol=0.05)
            np.testing.assert_allclose(highs[h][:, i], inside.max(axis=1), atol=0.05)


def test_a_peak_of_slope_one_needs_what_its_cells_measure():
    problem = problem_from_functions([lambda x: 1 - x[:, 0]], [[0.0, 1.0]])
    best, lows, highs = measured(problem, HALVES, 6)
    diameters = premises.diameters(best, lows, highs)
    np.testing.assert_allclose(diameters[0], 0.5 ** np.arange(7), rtol=0.02)
    nu_1, rho = premises.smoothness(diameters[0])
    assert rho == pytest.approx(0.5, rel=0.01) and nu_1 == pytest.approx(1, rel=0.02)
    assert (diameters[0] <= nu_1 * rho ** np.arange(7) * (1 + 1e-12)).all()


def test_a_cell_far_below_the_optimum_may_vary_as_it_likes():
    best, low, high = np.array([1.0]), [np.array([[0.1, 0.5]])], [np.array([[0.5, 1.0]])]
    assert premises.diameters(best, low, high).tolist() == [[0.5]]  # not the first: 0.4 is no more than 1 - 0.5
    assert premises.diameters(best, [np.array([[0.1]])], [np.array([[0.6]])]).tolist() == [[0.5]]


def test_near_optimal_cells_are_counted():
    best = np.array([1.0, 1.0])  # a client, and f-bar
    highs = [np.array([[1.0], [1.0]]), np.array([[0.2, 1.0], [0.8, 0.3]])]
    near, different = premises.near_optimal(best, highs, nu_1=0.1, rho=0.5)  # 1.2, 0.6 for the client; 0.6, 0.3
    assert near.tolist() == [[1, 1], [1, 1]] and different.tolist() == [[0, 1]]


def test_dimensions():
    depth = np.arange(9)
    counts = np.stack([2**depth, 4 * 2 ** (depth // 2), np.full(9, 7), 0 * depth])
    found = premises.dimension(counts, 1.0, 0.5)
    assert found[0] == pytest.approx(1) and found[1:] == pytest.approx([0.5, 0, 0], abs=1e-9)
    assert math.isnan(premises.dimension(counts[:, :5], 1.0, 0.5)[0])  # 12/16 at depth 4 alone


def test_Delta_and_omega_by_hand():
    problem = squares(0.4, 0.6)  # f-bar = 0.99 - (x - 0.5)^2
    assert problem.Delta == pytest.approx(0.01, abs=1e-6) and premises.Delta_4(problem) == pytest.approx(0.01, abs=1e-6)
    # f_m* - f_m(1/2 + u) = (0.1 + u)^2, so omega asks (0.2 u + u^2) / u^2: most at the centre 9/16
    found = premises.omega(problem, HALVES, 3, premises.Delta_4(problem))
    assert found == pytest.approx(1 + 0.2 * 16, rel=1e-3)
    assert premises.omega(problem, HALVES, 3, 0.005) == math.inf
    alike = squares(0.4, 0.4)
    assert premises.Delta_4(alike) == 0 and premises.omega(alike, HALVES, 3, 0.0) == 1


@pytest.mark.parametrize(("deepest", "last"), [(20, 8), (3, 3)])
def test_landmine_is_measured_down_to_where_its_grid_tells_a_cell_s_range(deepest, last):
    (first, *depths) = assumptions.of_problem(deepest, "landmine", 2, 0.0, "random", 0, 0)
    assert [row[0] for row in depths] == list(range(last + 1)) and len(first) == len(assumptions.COLUMNS)
    problem = make_problem("landmine", 2)
    measured = dict(zip(assumptions.COLUMNS, first, strict=True))
    assert measured["Delta"] == problem.Delta and measured["Delta_4"] == premises.Delta_4(problem)


def test_near_optimal_cells_by_hand():
    # nu_1 = 0.01, depth 0 and 1: within 0.12 and 0.06 of the client's optimum, within 0.06 and 0.03 of f-bar's
    best = np.array([1.0, 0.8])
    highs = [np.array([[0.89], [0.73]]), np.array([[1.0, 0.95, 0.93], [0.76, 0.78, 0.8]])]
    near, different = premises.near_optimal(best, highs, 0.01, 0.5)
    assert near.tolist() == [[1, 2], [0, 2]] and different.tolist() == [[1, 1]]
