"""The objectives against PyXAB's, their maxima against grids and local searches, and what is refused."""

import itertools
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PyXAB.synthetic_obj.Ackley import Ackley_Normalized
from PyXAB.synthetic_obj.DoubleSine import DoubleSine
from PyXAB.synthetic_obj.Garland import Garland
from PyXAB.synthetic_obj.Himmelblau import Himmelblau_Normalized
from PyXAB.synthetic_obj.Rastrigin import Rastrigin
from scipy.optimize import minimize

from pfpne.partition import CELLS
from pfpne.problems import OBJECTIVES, landmine, make_problem, maxima, problem_from_functions
from pfpne.problems.maxima import scan_points
from pfpne.problems.synthetic import ShiftedProblem, Synthetic
from pfpne.simulation.simulate import partition_of, simulate

SYNTHETIC = {name: objective for name, objective in OBJECTIVES.items() if isinstance(objective, Synthetic)}

PYXAB = {  # its function, and what brings it to [0, 1]
    "garland": (Garland(), lambda v, d: v),
    "doublesine": (DoubleSine(), lambda v, d: 1 + v),
    "himmelblau": (Himmelblau_Normalized(), lambda v, d: 1 + v),
    "ackley": (Ackley_Normalized(), lambda v, d: 1 + v),
    "rastrigin": (Rastrigin(), lambda v, d: 1 + v / (20.2513 * d)),
}
GARLAND_MAXIMUM = 2 * math.pi / 3 * (1 - math.pi / 6)  # 4 x (1 - x) at the cusp x = 10 pi / 60


def box(name, d=None):
    objective = SYNTHETIC[name]
    return np.array([[objective.low, objective.high]] * (d or objective.d))


def spread(domain, n, seed=0):
    """n random points of the domain."""
    return domain[:, 0] + (domain[:, 1] - domain[:, 0]) * np.random.default_rng(seed).random((n, len(domain)))


def dense(problem):
    """Very many points of the domain: a grid in one and two dimensions, random ones beyond, and every client's peaks.

    For doublesine, also points at distances 2^-1 .. 2^-40 from every client's centre.
    """
    domain, d = problem.domain, problem.d
    if d <= 2:
        axes = [np.linspace(low, high, 20_001 if d == 1 else 201) for low, high in domain]
        x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    else:
        x = spread(domain, 8_000)
    peaks = (problem.peaks + problem.shifts[:, None]).reshape(-1, d)
    if problem.name == "doublesine":
        distance = np.exp2(np.linspace(-40, -1, 1500))
        offsets = np.concatenate([-distance, distance])[:, None]
        peaks = np.concatenate([peaks, *(0.5 + s + offsets for s in problem.shifts)])
    return np.clip(np.concatenate([x, peaks]), domain[:, 0], domain[:, 1])


def climb(function, x, domain):
    """The highest value that L-BFGS-B reaches from any of the points x (n, d)."""
    arguments = {"bounds": domain, "method": "L-BFGS-B", "options": {"ftol": 1e-15, "gtol": 1e-10}}
    ends = [minimize(lambda y: -function(y[None])[0], y, **arguments).x for y in x]
    return function(np.clip(ends, domain[:, 0], domain[:, 1])).max()


def attained(problem, x):
    """The clients' values (M,) at a point x (d,), as exact numbers would have them.

    doublesine rises so steeply that its centre, 1/2 + s_m, rounded to a double, is worth 1 - 1e-5: it counts as 1.
    """
    values = problem.values(x[None])[:, 0]
    if problem.name == "doublesine":
        values[np.abs(x[0] - 0.5 - problem.shifts[:, 0]) < 1e-15] = 1.0
    return values


# --- the functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name, d", [*((name, None) for name in PYXAB), ("rastrigin", 1), ("rastrigin", 3)])
def test_agrees_with_pyxab(name, d):
    reference, scale = PYXAB[name]
    domain = box(name, d)
    inside, beyond = spread(domain, 300), spread(1.7 * domain - 0.3, 300)
    for x in (inside, beyond, domain.T, domain.mean(axis=1)[None]):
        expected = [scale(reference.f(point.tolist()), len(domain)) for point in x]
        np.testing.assert_allclose(SYNTHETIC[name].function(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_in_unit_interval_before_the_clip(name):
    x = dense(make_problem(name, 1, shift=0))
    values = SYNTHETIC[name].function(x)
    assert -1e-12 <= values.min() and values.max() <= 1 + 1e-12
    assert values.min() < 0.1 or name == "rastrigin"  # the scale is not a loose one
    assert SYNTHETIC["rastrigin"].function(np.full((1, 10), 0.502)).item() < 1e-4


@pytest.mark.parametrize("name", ["levy", "styblinski"])
def test_smooth_objectives_fill_the_unit_interval_and_are_parabolas_at_their_top(name):
    objective = SYNTHETIC[name]
    (((top,),), _), x = objective.peaks, np.linspace(objective.low, objective.high, 1_000_001)[:, None]
    values = objective.function(x)
    assert values.min() == pytest.approx(0, abs=1e-9)
    assert values.max() == pytest.approx(1, abs=1e-9)
    assert x[values.argmax(), 0] == pytest.approx(top, abs=2e-5)
    near, nearer = (1 - objective.function(np.array([[top + h]])).item() for h in (0.02, 0.01))
    assert near / nearer == pytest.approx(4, rel=0.05)  # a quarter at half the distance


def test_smooth_objectives_by_their_published_minima():
    """Levy's function is 0 at 1, and Styblinski's and Tang's is -39.16599 at -2.903534; both are known at 0."""
    levy, styblinski = (SYNTHETIC[name].function for name in ("levy", "styblinski"))
    assert levy(np.array([[1.0]])) == 1
    assert levy(np.array([[0.0]])) == pytest.approx(1 - (0.5 + 0.0625 * 2) / 15.625)  # w = 3/4: sin^2 = 1/2 and 1
    assert styblinski(np.array([[-2.903534]])) == pytest.approx(1)
    assert styblinski(np.array([[0.0]])) == pytest.approx(125 / (125 + 39.166166))


def test_doublesine_at_its_centre_has_no_nan():
    u = np.array([0.5, 0.5 + 1e-16, 0.5 - 2**-54, 0.5 + 2**-53])[:, None]
    values = SYNTHETIC["doublesine"].function(u)
    assert values[0] == 1 and np.isfinite(values).all() and (values > 1 - 1e-4).all()


@pytest.mark.parametrize(
    "name, x, maximum",
    [
        ("garland", [[math.pi / 6]], GARLAND_MAXIMUM),
        ("doublesine", [[0.5]], 1),
        ("himmelblau", [[3, 2], [-2.805118, 3.131313], [-3.779310, -3.283186], [3.584428, -1.848127]], 1),
        ("ackley", [[0, 0]], 1),
        ("rastrigin", [[0] * 10], 1),
    ],
)
def test_known_maxima(name, x, maximum):
    problem = make_problem(name, 3, shift=0)
    np.testing.assert_allclose(problem.client_values(0, x), maximum, atol=3e-8)  # a cusp is rounded away by 2e-8
    assert problem.optimum.tolist() == [maximum] * 3
    assert problem.global_optimum == maximum
    assert problem.Delta == 0
    assert min(np.abs(problem.maximisers[0] - np.array(x)).max(axis=1)) < 1e-6


def test_garland_maximum_is_not_one():
    assert f"{GARLAND_MAXIMUM:.5f}" == "0.99777"


def test_himmelblau_peaks_are_roots():
    x1, x2 = np.transpose(SYNTHETIC["himmelblau"].peaks[0])
    assert np.abs(x1**2 + x2 - 11).max() < 1e-13 and np.abs(x1 + x2**2 - 7).max() < 1e-13


@pytest.mark.parametrize("name", ["garland", "doublesine"])
def test_no_local_maximum_is_missing(name):
    """Between neighbouring peaks, the function falls and then rises: the branch and bound relies on it."""
    peaks, values = SYNTHETIC[name].peaks
    peaks = peaks[:, 0]
    top = values.argmax()
    assert (np.diff(peaks) > 0).all()
    assert (np.diff(values[: top + 1]) >= 0).all() and (np.diff(values[top:]) <= 0).all()
    for low, high in zip([0.0, *peaks], [*peaks, 1.0], strict=True):
        if high - low < 1e-6:  # doublesine's, ever closer to its centre
            continue
        f = SYNTHETIC[name].function(np.linspace(low, high, 4001)[:, None])
        rises = np.diff(f) > 1e-13
        assert (np.diff(rises.astype(int)) >= 0).all(), (low, high)


# --- the maxima --------------------------------------------------------------------------------------

CASES = [
    (name, d, shift, seed)
    for name, d in [*((name, None) for name in SYNTHETIC), ("rastrigin", 1), ("rastrigin", 2)]
    for shift in (0.1, 0.5)
    for seed in range(2)
]
CASES += [("doublesine", None, 0.001, seed) for seed in (2, 3)]  # centres that nearly meet: best between grid points
CASES += [("rastrigin", d, 1.0, 2) for d in (1, 2)]  # clients clipped at f-bar's best point


@pytest.mark.parametrize("name, d, shift, seed", CASES)
def test_maxima_are_reached_and_never_exceeded(name, d, shift, seed):
    problem = make_problem(name, 4, shift=shift, seed=seed, d=d)
    x = dense(problem)
    values = problem.values(x)
    for m in range(problem.n_clients):
        best = x[np.argsort(-values[m])[:2]]
        found = climb(lambda y, m=m: problem.client_values(m, y), best, problem.domain)
        assert max(found, values[m].max()) <= problem.optimum[m]
        assert problem.optimum[m] <= attained(problem, problem.maximisers[m])[m] + 1e-6
    mean = values.mean(axis=0)
    found = climb(problem.mean_values, x[np.argsort(-mean)[:4]], problem.domain)
    assert max(found, mean.max()) <= problem.global_optimum
    assert problem.global_optimum <= attained(problem, problem.global_maximiser).mean() + 1e-6
    for point in (*problem.maximisers, problem.global_maximiser):
        assert (problem.domain[:, 0] <= point).all() and (point <= problem.domain[:, 1]).all()
    assert problem.Delta == np.abs(problem.global_optimum - problem.optimum).max() > 0


@pytest.mark.parametrize("name", ["garland", "doublesine", "himmelblau", "ackley", "rastrigin"])
def test_global_maximum_of_many_clients(name):
    """At the paper profile's size, where f-bar has thousands of local maxima."""
    problem = make_problem(name, 20, seed=3)
    x = dense(problem)[:: 1 if problem.d < 3 else 4]
    mean = problem.mean_values(x)
    found = climb(problem.mean_values, x[np.argsort(-mean)[:3]], problem.domain)
    assert max(found, mean.max()) <= problem.global_optimum
    assert problem.global_optimum <= attained(problem, problem.global_maximiser).mean() + 1e-6
    assert problem.global_optimum <= problem.optimum.mean() + 1e-8


def test_an_optimum_pushed_out_of_the_domain_is_on_the_border():
    """Two cases by hand: with s < -1/2 doublesine's centre is below 0; with |s| > 1 rastrigin's best is a neighbour."""
    problem = make_problem("rastrigin", 40, shift=0.6, d=1)
    m = int(np.flatnonzero(problem.shifts[:, 0] > 1.05)[0])
    centre = problem.shifts[m, 0]  # s > 1: the maximum at s is outside, the next, near s - 1, is inside
    assert problem.maximisers[m, 0] == pytest.approx(centre - 0.99, abs=0.01) or problem.maximisers[m, 0] == 1
    problem = make_problem("ackley", 40, shift=0.7)
    m = int(np.flatnonzero(np.abs(problem.shifts).max(axis=1) > 1)[0])
    assert problem.optimum[m] < 1 - 1e-3
    problem = make_problem("garland", 40, shift=1.0)
    away = np.abs(problem.shifts[:, 0]) > 1  # nothing of the function is left in the domain
    assert away.any() and (problem.optimum[away] <= 1e-8).all() and (problem.optimum[~away] > 1e-8).all()


@pytest.mark.parametrize("n_clients, d", [(2, None), (3, 1), (1, 4)])
def test_rastrigin_where_every_client_is_clipped_everywhere(n_clients, d):
    """Shifts so far that nothing of the function is left in the domain: every f_m, and so f-bar, is 0."""
    problem = make_problem("rastrigin", n_clients, shift=30.0, d=d)
    assert problem.values(np.concatenate([dense(problem), problem.maximisers])).max() == 0
    assert problem.optimum == pytest.approx(0, abs=1e-8) and 0 <= problem.global_optimum <= 1e-8
    assert problem.Delta == 0 and (np.abs(problem.global_maximiser) <= 1).all()
    far = make_problem("rastrigin", n_clients=2, shift=3.0)  # nothing is left of either
    assert (far.optimum <= 1e-8).all() and far.global_optimum == pytest.approx(0, abs=1e-8)
    assert simulate("pf-pne", far, 50, Delta="true").settings["Delta"] == far.Delta == 0
    some = make_problem("rastrigin", 5, shift=3.0)  # two clients are left, in different places
    assert (some.optimum > 1e-8).sum() == 2
    assert some.optimum.max() / 5 - 1e-8 <= some.global_optimum <= some.optimum.sum() / 5


@pytest.mark.parametrize("d", [1, 2])
def test_a_new_objective_is_a_row_and_a_function(monkeypatch, d):
    row = Synthetic(lambda x: 0.9 - ((x - 0.25) ** 2).sum(axis=1), -1.0, 1.0, d=d, problem=ShiftedProblem)
    monkeypatch.setitem(OBJECTIVES, "bowl", row)
    problem = make_problem("bowl", 3, shift=0.1)
    assert problem.optimum == pytest.approx(0.9, abs=1e-8)
    assert problem.maximisers == pytest.approx(0.25 + problem.shifts, abs=1e-4)
    assert problem.global_maximiser == pytest.approx(0.25 + problem.shifts.mean(axis=0), abs=1e-4)
    assert problem.global_optimum == pytest.approx(0.9 - problem.shifts.var(axis=0).sum(), abs=1e-8)


def test_the_mean_is_tried_at_every_peak_of_a_client_not_at_its_first_alone(monkeypatch):
    """Two spikes of height 1, too narrow for a scan: the first alone, the second on top of a hill of height 0.9."""

    def spikes(x):
        hill = np.maximum(0.0, 0.9 - (x[:, 0] - 0.5) ** 2)
        return np.where(np.abs(np.abs(x[:, 0]) - 0.5) < 1e-7, 1.0, hill)

    row = Synthetic(spikes, -1.0, 1.0, (np.array([[-0.5], [0.5]]), np.ones(2)), d=1, problem=ShiftedProblem)
    monkeypatch.setitem(OBJECTIVES, "spikes", row)
    problem = make_problem("spikes", 2, shift=0.01)
    assert problem.maximisers == pytest.approx(-0.5 + problem.shifts)
    assert problem.global_optimum == pytest.approx((1 + 0.9) / 2, abs=0.005)


def test_one_client_or_alike_clients_have_no_gap():
    alone = (make_problem(name, 1, shift=0.5, seed=2) for name in ("himmelblau", "garland"))
    for problem in (*alone, make_problem("rastrigin", 5, shift=0)):
        assert problem.Delta == 0 and problem.global_optimum == problem.optimum[0]
        assert np.array_equal(problem.global_maximiser, problem.maximisers[0])  # not another that was searched for


# --- shifts and randomness ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", SYNTHETIC)
def test_shifts_depend_on_seed_run_and_client_alone(name):
    few, many = make_problem(name, 3, seed=5, run=2), make_problem(name, 7, noise=0.1, seed=5, run=2)
    assert np.array_equal(few.shifts, many.shifts[:3])
    for other in (make_problem(name, 3, seed=6, run=2), make_problem(name, 3, seed=5, run=3)):
        assert not np.isclose(other.shifts, few.shifts).any()
    assert np.array_equal(make_problem(name, 3, shift=0.2, seed=5, run=2).shifts, 2 * few.shifts)
    x = spread(few.domain, 20)
    assert np.array_equal(few.values(x), many.values(x)[:3])
    moved = np.clip(few.function(x - few.shifts[1]), 0, 1)
    assert np.array_equal(few.client_values(1, x), moved)


def test_shifts_are_normal_with_the_stated_spread():
    shifts = make_problem("himmelblau", 2000, shift=0.1).shifts
    assert shifts.std(axis=0) == pytest.approx([1.0, 1.0], abs=0.08)  # 0.1 of a width of 10
    assert shifts.mean(axis=0) == pytest.approx([0.0, 0.0], abs=0.1)
    assert abs(np.corrcoef(shifts.T)[0, 1]) < 0.1
    assert 0.04 < (np.abs(shifts) > 2).mean() < 0.052  # 4.6 % of a normal


def test_global_random_states_are_untouched():
    numpy_before, python_before = np.random.get_state(), random.getstate()
    for name in OBJECTIVES:
        problem = make_problem(name, 2, shift=0.5)
        problem.global_optimum, problem.Delta, problem.values(problem.maximisers)
    problem_from_functions([lambda x: 1 - x.max(axis=1)], [[0, 1]] * 3).optimum
    numpy_after = np.random.get_state()
    assert all(np.array_equal(a, b) for a, b in zip(numpy_before, numpy_after, strict=True))
    assert random.getstate() == python_before


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SYNTHETIC)
@pytest.mark.parametrize("n", [1, 3, 50, 1023, 1024])
def test_values_do_not_depend_on_the_batch(name, n):
    problem = make_problem(name, 20, shift=0.3)
    x = spread(problem.domain, n)
    values, mean = problem.values(x), problem.mean_values(x)
    assert values.shape == (20, n) and mean.shape == (n,)
    assert 0 <= values.min() and values.max() <= 1
    for m in (0, 1, 19):
        assert np.array_equal(values[m], problem.client_values(m, x))
        assert np.array_equal(values[m], problem.client_values(m, np.asfortranarray(x)))
    for k in {0, n // 2, n - 1}:
        assert np.array_equal(values[:, k], problem.values(x[k : k + 1])[:, 0])
        assert mean[k] == problem.mean_values(x[k : k + 1])[0]
    in_order = values[0].copy()
    for row in values[1:]:
        in_order += row
    assert np.array_equal(mean, in_order / 20)


@pytest.mark.parametrize("name", [*SYNTHETIC, "landmine", "own"])
def test_paired_values(name):
    own = problem_from_functions([lambda x, a=a: a * x[:, 0] for a in (0.2, 0.5, 0.9)], [[0, 1]])
    problem = own if name == "own" else make_problem(name, 3, noise=0)
    x = spread(problem.domain, 40) if problem.candidates is None else problem.candidates[::401]
    clients = np.arange(len(x)) * 7 % 3
    assert np.array_equal(problem.paired_values(clients, x), problem.values(x)[clients, np.arange(len(x))])


def test_no_points_no_values():
    assert make_problem("garland", 3).values(np.empty((0, 1))).shape == (3, 0)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_problem_survives_pickling(name):
    problem = make_problem(name, 3, seed=4)
    again, x = pickle.loads(pickle.dumps(problem)), spread(problem.domain, 9)
    assert np.array_equal(again.values(x), problem.values(x)) and again.global_optimum == problem.global_optimum


@settings(max_examples=30)
@given(
    name=st.sampled_from(["garland", "doublesine", "himmelblau", "rastrigin"]),
    shift=st.just(0.0) | st.floats(1e-9, 1.5),
    seed=st.integers(0, 10**6),
    share=st.lists(st.floats(0, 1), min_size=20, max_size=20),
)
def test_no_value_exceeds_its_optimum(name, shift, seed, share):
    problem = make_problem(name, 3, shift=shift, seed=seed, d=3 if name == "rastrigin" else None)
    d = problem.d
    x = problem.domain[:, 0] + np.reshape(share[: 20 // d * d], (-1, d)) * np.ptp(problem.domain, axis=1)
    x = np.concatenate([x, problem.maximisers])
    values = problem.values(x)
    assert (0 <= values).all() and (values <= problem.optimum[:, None]).all()
    assert problem.mean_values(x).max() <= problem.global_optimum <= problem.optimum.max() + 1e-8


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 60))
def test_clients_are_added_without_changing_the_others(seed, n_clients, n):
    fewer, more = (make_problem("rastrigin", M, seed=seed, d=2) for M in (n_clients, n_clients + 1))
    x = spread(fewer.domain, n, seed)
    assert np.array_equal(fewer.values(x), more.values(x)[:-1])
    assert np.array_equal(fewer.optimum, more.optimum[:-1])


# --- landmine ----------------------------------------------------------------------------------------


def test_landmine_fields_and_values():
    problem, table = make_problem("landmine", 6, noise=0, seed=1), landmine.load_table()
    assert np.array_equal(problem.fields, make_problem("landmine", 9, noise=0, seed=1).fields[:6])
    for other in ({"seed": 2}, {"seed": 1, "run": 1}):
        assert not np.array_equal(problem.fields, make_problem("landmine", 6, noise=0, **other).fields)
    assert (problem.shift, problem.max_depth, problem.d, problem.noise) == (None, 12, 2, 0)
    assert problem.data_hash == table.sha256
    assert problem.candidates.shape == (127 * 127, 2)
    expected = table.auc[problem.fields].reshape(6, -1)
    assert np.array_equal(problem.values(problem.candidates), expected)
    assert np.array_equal(problem.optimum, expected.max(axis=1))
    for m in range(6):
        assert problem.client_values(m, problem.maximisers[[m]])[0] == problem.optimum[m]
    assert problem.global_optimum == problem.mean_values(problem.candidates).max()
    assert problem.global_optimum == problem.mean_values(problem.global_maximiser[None])[0]
    one = problem.candidates[[127 * 3 + 5]]
    assert one.tolist() == [[landmine.grid_values()[0][3], landmine.grid_values()[1][5]]]
    assert problem.client_values(2, one)[0] == table.auc[problem.fields[2], 3, 5]


def test_landmine_fields_are_drawn_with_replacement():
    fields = make_problem("landmine", 200).fields
    assert set(fields.tolist()) == set(range(29))


@pytest.mark.parametrize("cells", CELLS)
def test_landmine_holds_every_node_of_the_partition(cells):
    problem = make_problem("landmine", 2)
    partition = partition_of(problem, cells, seed=3, run=2)
    for h in range(13):
        values = problem.client_values(1, partition.centers(h, np.arange(1, 2**h + 1)))
        assert values.shape == (2**h,) and (values <= problem.optimum[1]).all()


def test_landmine_refuses_points_off_the_grid():
    problem = make_problem("landmine", 2)
    between = problem.candidates[:2].mean(axis=0)
    for x in (between, problem.domain[:, 0], problem.domain[:, 1], problem.candidates[0] + [0, 1e-5]):
        with pytest.raises(ValueError, match=r"recorded grid[\s\S]*pfpne\.problems\.landmine\.live_auc"):
            problem.values(np.stack([problem.candidates[7], x]))


# --- one's own functions -----------------------------------------------------------------------------


def test_own_functions_in_one_dimension():
    functions = [lambda x: 1 - np.sqrt(np.abs(x[:, 0] - 0.3) / 3), lambda x: 0.8 - 0.1 * (x[:, 0] - 1.234) ** 2]
    problem = problem_from_functions(functions, [[-1, 2]], noise=0.2)
    assert (problem.n_clients, problem.d, problem.noise, problem.max_depth, problem.shift) == (2, 1, 0.2, 40, None)
    assert problem.optimum == pytest.approx([1, 0.8], abs=1e-7)  # a square-root cusp loses 1e-8 to rounding
    assert problem.maximisers[:, 0] == pytest.approx([0.3, 1.234], abs=1e-6)
    grid = np.linspace(-1, 2, 100_001)[:, None]
    assert (problem.values(grid) <= problem.optimum[:, None]).all()
    assert problem.mean_values(grid).max() <= problem.global_optimum <= problem.mean_values(grid).max() + 1e-3
    assert problem.mean_values(problem.global_maximiser[None])[0] == pytest.approx(problem.global_optimum, abs=1e-8)


def test_own_functions_in_more_dimensions():
    def ridge(x):  # long, narrow and oblique: 1 at (0.31, 0.62), 100 times steeper across
        a, b = x[:, 0] - 0.31, x[:, 1] - 0.62
        return 1 / (1 + (a + b) ** 2 + 100 * (a - b) ** 2)

    problem = problem_from_functions([ridge], [[0, 1], [0, 1]])
    assert problem.optimum[0] == pytest.approx(1, abs=1e-8) and problem.Delta == 0
    peak = np.array([0.2, 0.9, 0.4, 0.5])
    bowls = [lambda x, s=s: 1 - ((x - peak - s) ** 2).sum(axis=1) / 8 for s in (0.0, 0.1)]
    problem = problem_from_functions(bowls, [[0, 1]] * 4)
    assert problem.optimum == pytest.approx([1, 1], abs=1e-8)
    assert problem.global_optimum == pytest.approx(1 - 4 * 0.05**2 / 8, abs=1e-8)
    assert problem.global_maximiser == pytest.approx(peak + 0.05, abs=1e-4)


def test_a_maximum_that_was_searched_for_is_raised_but_not_above_1():
    problem = problem_from_functions([lambda x: np.full(len(x), 0.5), lambda x: np.ones(len(x))], [[0, 1]])
    assert problem.optimum.tolist() == [0.5 + 1e-9, 1.0] and problem.global_optimum == 0.75 + 1e-9


@pytest.mark.parametrize("beside", [-0.3, 0.3])
def test_a_maximum_between_two_points_of_the_grid_is_found_on_either_side(beside):
    peak = 0.25 + beside / 2**14  # in units of the grid's step
    (x,), value = maxima.search_maximum(lambda x: 1 - (x[:, 0] - peak) ** 2, np.array([[0.0, 1.0]]))
    assert x == pytest.approx(peak, abs=1e-7) and value == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("peak", [0.3 / 2**14, 1 - 0.3 / 2**14])
def test_a_maximum_between_an_end_of_the_domain_and_the_next_point_of_the_grid_is_found(peak):
    (x,), value = maxima.search_maximum(lambda x: 1 - np.abs(x[:, 0] - peak), np.array([[0.0, 1.0]]))
    assert x == pytest.approx(peak, abs=1e-14) and value == pytest.approx(1, abs=1e-14)


def test_a_cusp_has_the_height_that_it_is_said_to_have():
    """A client's cusp is at 0.3 + 0.1, and 0.4 - 0.1 - 0.3 is not exactly 0: by rounding its value there is below 1."""

    def values(x):
        return 1 - np.sqrt(np.abs(x[:, 0] - 0.1 - 0.3))[None]

    shift = np.array([[0.1]])
    (x,), value = maxima.branch_and_bound(values, np.array([[0.0, 1.0]]), np.array([0.3]), np.ones(1), shift)
    assert x == pytest.approx(0.4) and value == 1.0 and values(np.array([[0.4]])) < 1 - maxima.ACCURACY


def test_the_mean_of_moved_hills_is_largest_between_them_in_any_domain():
    """Two hills at 3.5 - 0.25 and 3.5 + 0.5, the second beyond the domain's end: the best point is halfway."""
    domain, shifts = np.array([[2.0, 3.875]]), np.array([[-0.25], [0.5]])

    def values(x):
        return 1 - (x[:, 0] - 3.5 - shifts) ** 2

    (x,), value = maxima.branch_and_bound(values, domain, np.array([3.5]), np.ones(1), shifts)
    assert x == pytest.approx(3.625, abs=1e-4) and value == pytest.approx(1 - 0.375**2, abs=2e-9)


def test_the_mean_is_tried_where_each_client_is_largest():
    """A hill that is narrower than the scan's steps, which is known of the clients, is found of their mean, too."""
    hill = lambda x: np.where(np.abs(x[:, 0] - 0.12345) < 1e-7, 1.0, 0.5)  # noqa: E731
    problem = problem_from_functions([hill, hill], [[0, 1]], optimum=1.0)
    problem.maximisers = np.full((2, 1), 0.12345)
    assert problem.global_optimum == 1.0 and problem.global_maximiser == 0.12345


def test_given_maxima_are_used():
    function = lambda x: 0.5 * x[:, 0]  # noqa: E731
    problem = problem_from_functions([function, function], [[0, 1]], optimum=[0.5, 0.6], global_optimum=0.55)
    assert problem.optimum.tolist() == [0.5, 0.6] and problem.global_optimum == 0.55
    assert problem.Delta == pytest.approx(0.05)


def test_own_functions_are_evaluated_when_asked_and_not_before():
    points = []

    def function(x):
        points.append(len(x))
        return 0.5 * x[:, 0]

    problem = problem_from_functions([function], [[0, 1]], noise=0, optimum=math.nan)
    assert not points
    run = simulate("hct", problem, horizon=30, objects=True)
    assert np.isnan(run.regret).all() and np.isnan(run.simple_regret).all() and 0.5 < run.best[0, 0] <= 1
    assert sum(points) < 100  # the pulls, and the points deployed on the way
    known = problem_from_functions([function], [[0, 1]], noise=0, optimum=0.5)
    assert simulate("hct", known, horizon=30, objects=True).regret[0, -1] > 0 and sum(points) < 200
    with pytest.raises(RuntimeError, match="above the recorded optimum"):
        simulate("hct", problem_from_functions([function], [[0, 1]], noise=0, optimum=0.3), horizon=30)
    asked = problem_from_functions([function], [[0, 1]])
    del points[:]
    assert asked.optimum == pytest.approx(0.5) and sum(points) > 10_000


def test_own_functions_that_are_refused():
    domain = [[0, 1]]
    with pytest.raises(ValueError, match=r"functions\[1\] must have its values in \[0, 1\]; it is 1\.\d+ at"):
        problem_from_functions([lambda x: x[:, 0], lambda x: 1.5 * x[:, 0]], domain).optimum
    with pytest.raises(ValueError, match=r"values in \[0, 1\]; it is nan"):
        problem_from_functions([lambda x: np.full(len(x), np.nan)], domain).optimum
    with pytest.raises(ValueError, match=r"must return 16385 values"):
        problem_from_functions([lambda x: x], domain).optimum
    with pytest.raises(ValueError, match=r"functions\[0\] must be callable"):
        problem_from_functions([0.5], domain)
    with pytest.raises(ValueError, match=r"n_clients"):
        problem_from_functions([], domain)
    with pytest.raises(ValueError, match=r"shape \(d, 2\)"):
        problem_from_functions([lambda x: x[:, 0]], [0, 1])
    with pytest.raises(ValueError, match=r"optimum must be in \[0, 1\]"):
        problem_from_functions([lambda x: x[:, 0]], domain, optimum=[-0.9])
    with pytest.raises(ValueError, match=r"optimum must be in \[0, 1\]"):
        problem_from_functions([lambda x: x[:, 0]] * 2, domain, optimum=[0.9, 1.5])
    with pytest.raises(ValueError, match=r"optimum must be a number, or of shape \(1,\)"):
        problem_from_functions([lambda x: x[:, 0]], domain, optimum=[1, 1])
    with pytest.raises(ValueError, match=r"global_optimum must be in \[0, 1\]"):
        problem_from_functions([lambda x: x[:, 0]], domain, global_optimum=1.5)
    with pytest.raises(ValueError, match=r"noise"):
        problem_from_functions([lambda x: x[:, 0]], domain, noise="gaussian")
    with pytest.raises(ValueError, match=r"max_depth"):
        problem_from_functions([lambda x: x[:, 0]], domain, max_depth=-1)
    with pytest.raises(ValueError, match=r"name"):
        problem_from_functions([lambda x: x[:, 0]], domain, name="")


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"name": "garlnd"}, r"unknown objective 'garlnd'. Did you mean 'garland'\?"),
        ({"name": "Himmelblau"}, r"Did you mean 'himmelblau'\? There are: garland, doublesine.*landmine"),
        ({"name": 3}, r"unknown objective 3"),
        ({"n_clients": 0}, r"n_clients"),
        ({"n_clients": 2.5}, r"n_clients"),
        ({"n_clients": True}, r"n_clients"),
        ({"shift": -0.1}, r"shift must be 0, or a number from 1e-9 to 1e9; got -0\.1"),
        ({"shift": math.nan}, r"shift"),
        ({"shift": "0.1"}, r"shift"),
        ({"common_shift": -0.1}, r"common_shift must be 0, or a number"),
        ({"noise": -1}, r"noise"),
        ({"noise": "gaussian"}, r"noise must be 0, or a number .* or 'bernoulli'; got 'gaussian'"),
        ({"noise": None}, r"noise"),
        ({"seed": -1}, r"seed"),
        ({"run": 0.5}, r"run"),
        ({"d": 2}, r"d must be 1 \(or None\), the dimension of garland; got 2"),
        ({"name": "landmine", "d": 3}, r"d must be 2 \(or None\), the dimension of landmine"),
        ({"name": "rastrigin", "d": 0}, r"d must be an integer in 1..1000"),
        ({"name": "landmine", "n_clients": 0}, r"n_clients"),
        ({"name": "landmine", "shift": "0.1"}, r"shift"),
        ({"noise": 1e308}, r"noise must be 0, or a number"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_problem(**{"name": "garland", "n_clients": 3, **arguments})


@pytest.mark.parametrize("m", [-1, 2, 0.5, None])
@pytest.mark.parametrize("name", ["garland", "landmine", "own"])
def test_no_such_client(name, m):
    own = problem_from_functions([lambda x: x[:, 0]] * 2, [[0, 1]], name="own")
    problem = own if name == "own" else make_problem(name, 2)
    with pytest.raises(ValueError, match=rf"clients of {name} are 0\.\.1; got"):
        problem.client_values(m, problem.domain[None, :, 0])


@pytest.mark.parametrize("x", [0.5, [0.5], [[0.5, 0.5]], np.zeros((2, 1, 1))])
def test_points_of_the_wrong_shape(x):
    problem = make_problem("garland", 3)
    for evaluate in (problem.values, problem.mean_values, lambda x: problem.client_values(0, x)):
        with pytest.raises(ValueError, match=r"points of garland have shape \(n, 1\)"):
            evaluate(x)


def test_the_dimension_may_be_named():
    assert make_problem("garland", 1, d=1).d == 1
    assert [make_problem("rastrigin", 1, d=d).d for d in (None, 1, 25)] == [10, 1, 25]


def test_the_common_shift_is_drawn_anew_for_each_run_and_shared_by_its_clients():
    first, *others = (
        make_problem("himmelblau", 3, shift=0.0, common_shift=0.1, seed=seed, run=run)
        for seed, run in ((0, 0), (0, 1), (1, 0))
    )
    for other in others:
        assert (other.shifts == other.shifts[0]).all() and not np.isclose(other.shifts, first.shifts).any()
    drawn = [make_problem("himmelblau", 1, shift=0.0, common_shift=0.1, run=run).shifts[0] for run in range(200)]
    assert np.std(drawn) == pytest.approx(0.1 * 10, rel=0.15)  # in widths of the domain


@pytest.mark.parametrize(("optimum", "Delta"), [([1.0, 0.2, 0.7], 0.4), ([0.3, 0.7, 0.65], 0.3)])
def test_Delta_is_the_largest_distance_on_either_side(optimum, Delta):
    functions = [lambda x: 0 * x[:, 0]] * 3
    problem = problem_from_functions(functions, [[0, 1]], optimum=optimum, global_optimum=0.6)
    assert problem.Delta == pytest.approx(Delta)
    for gap, known in ((1.5e-9, 0.0), (3e-9, 3e-9)):  # below the accuracy of two maxima there is none
        problem = problem_from_functions(functions, [[0, 1]], optimum=[0.6, 0.6 + gap, 0.6], global_optimum=0.6)
        assert problem.Delta == pytest.approx(known, rel=1e-3)


@pytest.mark.parametrize("way", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_a_climb_follows_a_diagonal_ridge_either_way(way):
    """A step along an axis leaves the ridge, and costs ten times what it gains."""
    way, top = np.array(way), np.array([0.5, 0.5])

    def ridge(x):
        along, across = (x - top) @ way / 2, (x - top) @ (way * [1, -1]) / 2
        return -np.abs(along) - 10 * np.abs(across)

    start = (top - 0.375 * way)[None]
    (x,) = maxima._climb(ridge, np.array([[0.0, 1.0], [0.0, 1.0]]), start, step=1 / 8, last=1e-6)
    np.testing.assert_allclose(x, top, atol=1e-5)


def test_points_are_scanned_over_all_of_the_domain_and_its_corners():
    domain = np.array([[1.0, 2.0], [-3.0, 5.0], [10.0, 10.5]])
    points = scan_points(domain)
    assert {*itertools.product(*domain.tolist())} <= {*map(tuple, points.tolist())}
    unit = (points - domain[:, 0]) / (domain[:, 1] - domain[:, 0])
    assert unit.min() >= 0 and unit.max() <= 1
    shares = [np.histogram(column, bins=8, range=(0, 1))[0] / len(points) for column in unit.T]
    np.testing.assert_allclose(shares, 1 / 8, atol=0.01)


@pytest.mark.parametrize(("d", "first"), [(10, 2**10), (11, 1)])
def test_up_to_ten_dimensions_the_corners_are_scanned_and_in_more_the_centre(d, first):
    points = scan_points(np.array([[0.0, 1.0]] * d))
    assert len(points) == first + 2**14 and (points[:first] % 1 == 0).all() == (d == 10)
    assert d == 10 or (points[0] == 0.5).all()


@pytest.mark.parametrize("domain", [[[-1.0, 2.0], [10.0, 10.5]], [[0.0, 0.001], [-30.0, 300.0], [5.0, 5.1]]])
def test_a_maximum_is_searched_for_in_all_of_the_domain_and_nowhere_else(domain):
    """A cusp near the last dimension's end, in units of each dimension's width, with a ridge towards it."""
    low, high = np.array(domain).T
    peak = np.linspace(0.3, 0.93, len(low))

    def cusp(x):
        assert (low <= x).all() and (x <= high).all()
        distance = np.abs((x - low) / (high - low) - peak)
        return 1 - distance.max(axis=1) - distance.mean(axis=1) / 10

    x, value = maxima.search_maximum(cusp, np.array(domain))
    assert (x - low) / (high - low) == pytest.approx(peak, abs=1e-6) and value == pytest.approx(1, abs=1e-6)


def test_no_maximum_is_below_a_point_that_was_scanned():
    """The hill is 2e-6 wide around a point of the grid, and beside it the function rises to the right."""
    (x,), value = maxima.search_maximum(
        lambda x: np.where(np.abs(x[:, 0] - 0.25) < 1e-6, 1.0, 0.5 * x[:, 0]), np.array([[0.0, 1.0]])
    )
    assert (x, value) == (0.25, 1.0)


def test_a_client_whose_highest_peak_is_outside_has_its_best_value_elsewhere():
    problem, x = make_problem("garland", 40, shift=0.6), np.linspace(0, 1, 50_001)[:, None]
    seen = np.array([problem.client_values(m, x).max() for m in range(40)])
    assert (seen <= problem.optimum).all() and (problem.optimum - seen).max() < 0.01
    assert ((problem.maximisers == 0) | (problem.maximisers == 1)).sum() > 3  # on the border
