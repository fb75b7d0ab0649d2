"""What is looked up in a run of PF-PNE: the way to a maximum, the good event, what was eliminated."""

from types import SimpleNamespace

import numpy as np
import pytest

from pfpne.algorithms.pf_pne import PFPNESettings, PhasedServer
from pfpne.algorithms.phases import Pull
from pfpne.federation import Task
from pfpne.paper.claims import events
from pfpne.paper.run.experiment import Experiment
from pfpne.partition import Partition
from pfpne.problems import problem_from_functions
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.phased import simulate_phases


@pytest.mark.parametrize("cells", ["cyclic", "random"])
def test_the_way_to_a_point_leads_through_the_cells_that_hold_it(cells):
    partition, points = (
        Partition([[0, 1], [-5, 5]], cells=cells, seed=3),
        np.random.default_rng(0).uniform(0, 1, (50, 2)),
    )
    for h, index in enumerate(events.way(partition, points, 9)):
        box = partition.box(h, index)
        assert ((box[..., 0] <= points) & (points <= box[..., 1])).all()
    assert [index.tolist() for index in events.way(Partition([[0, 1]]), np.array([[0.7]]), 3)] == [[1], [2], [3], [6]]


def watched(functions, T, **settings) -> events.Observed:
    problem = problem_from_functions(functions, [[0.0, 1.0]], noise=0.0)
    task, made = Task(Partition(problem.domain), problem.n_clients, T), []

    def phases(*arguments):
        made.append(events.Observed(*arguments, problem))
        return made[0]

    run = noise_streams(problem, 0, 0), np.array([T]), False
    simulate_phases(phases, PhasedServer, problem, task, PFPNESettings(**settings), *run)
    return made[0]


def hill(peak):
    return lambda x: 1 - np.abs(x[:, 0] - peak)


def test_no_maximum_of_smooth_functions_is_eliminated_and_no_mean_is_off():
    found = watched([hill(0.2), hill(0.3), hill(0.25)], 20_000, c=0.1, Delta=0.1)
    assert not found.lost.any() and sum(map(len, found.errors)) > 50 and not np.concatenate(found.errors).any()


def test_a_maximum_that_the_cells_centres_hide_is_eliminated():
    """A spike at 0.9 that no centre above depth 9 sees, beside a hill at 0.2: its cells look bad at depth 2 or 3."""

    def spike(x):
        return np.where(np.abs(x[:, 0] - 0.9) < 2e-4, 1.0, 0.9 * hill(0.2)(x))

    found = watched([spike, hill(0.2)], 20_000, c=0.1, Delta=0.1)
    assert found.problem.maximisers[:, 0] == pytest.approx([0.9, 0.2], abs=1e-3)
    assert found.lost.tolist() == [True, False]


def test_means_that_are_off_are_counted():
    """With a c of nothing every half-width is nothing, and noise puts nearly every mean outside."""
    experiment = Experiment(
        "garland", 3, 300, algorithms=("pf-pne",), n_runs=1, noise=0.1, settings={"c": 1e-6, "Delta": 0.3}
    )
    means, outside, _ = events.of_run(experiment, 0)
    assert outside > 0.9 * means > 0
    wide = Experiment("garland", 3, 300, algorithms=("pf-pne",), n_runs=1, noise=0.1, settings={"c": 5.0})
    assert events.of_run(wide, 0)[1] == 0


def test_gaps_of_a_problem():
    experiment = Experiment("himmelblau", 4, 100, algorithms=("pe",), n_runs=1)
    problem, gaps = experiment.problem(0), events.gaps_on_the_way(experiment, 0, 12)
    middle = problem.values(problem.domain.mean(axis=1)[None])[:, 0]
    assert len(gaps) == 13 and gaps[0] == pytest.approx((problem.optimum - middle).max()) and gaps[12] < gaps[0] / 10
    assert min(events.gaps_at_global_maximum(experiment, 0)) >= 0
    one = Experiment("himmelblau", 1, 100, algorithms=("pe",), n_runs=1)
    assert events.gaps_at_global_maximum(one, 0) == pytest.approx([0], abs=1e-6)
    chance = events.gap_of_chance(experiment, 0)
    fine = np.stack(np.meshgrid(*[np.linspace(low, high, 200) for low, high in problem.domain]), axis=-1).reshape(-1, 2)
    assert chance == pytest.approx((problem.optimum - problem.values(fine).mean(axis=1)).mean(), rel=0.1)


def test_a_mean_is_off_by_more_than_its_half_width():
    """Two clients, 4 pulls each: b = c sqrt(log / 8) for the server's mean; alone, c sqrt(log / n) of one's own n."""
    found = watched([hill(0.2), hill(0.2)], 200, c=0.5, Delta=0.1)
    found.errors.clear()
    b, values = 0.5 * np.sqrt(found.log / 8), found.problem.mean_values(np.array([[0.25], [0.75]]))
    pulled = Pull(1, np.array([0, 0, 1, 1]), np.array([1, 2, 1, 2]), np.full(4, 4))
    found.together(pulled, values + np.array([[0.99 * b, 0.0], [0.99 * b, -2.02 * b]]))
    assert found.errors[0].tolist() == [False, True]  # off by 0.99 b, and by 1.01 b


def test_what_chance_costs_is_measured_against_each_client_s_own_optimum():
    functions = [lambda x: np.full(len(x), 0.5), lambda x: x[:, 0], lambda x: x[:, 0]]
    problem = problem_from_functions(functions, [[0.0, 1.0]], optimum=[0.5, 1.0, 1.0])
    experiment = SimpleNamespace(problem=lambda run: problem, seed=0)
    assert events.gap_of_chance(experiment, 0) == pytest.approx((0 + 0.5 + 0.5) / 3, abs=0.03)


def test_the_largest_gap_on_the_way_is_of_the_worst_client():
    functions = [lambda x: 1 - x[:, 0], lambda x: 1 - 0.5 * x[:, 0], lambda x: 1 - 0.1 * x[:, 0]]
    problem = problem_from_functions(functions, [[0.0, 1.0]], optimum=1.0)
    problem.maximisers = np.zeros((3, 1))
    experiment = SimpleNamespace(problem=lambda run: problem, seed=0, cells="random")
    assert events.gaps_on_the_way(experiment, 0, 3) == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 16])
