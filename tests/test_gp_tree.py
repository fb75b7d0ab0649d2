"""The search by a Gaussian process on a tree: its model by the textbook, its batches, and its place in PF-PNE+."""

import copy
import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

import pfpne
from pfpne.algorithms import gp_tree, make_federation
from pfpne.algorithms.gp_tree import DEVIATIONS, LENGTHS, ORDERS, TYPICAL, FirstNodes, GPTreeClient, Hyper
from pfpne.algorithms.hct import TreeClient
from pfpne.algorithms.pf_pne_plus import (
    PlusSettings,
    StartingDepth,
    confidence_constant,
    first_nodes_of,
    hct_constants_for,
)
from pfpne.federation import Task
from pfpne.live.states import from_bytes, to_bytes
from pfpne.partition import Partition

SQUARE = Partition([[0.0, 2.0], [-1.0, 1.0]], seed=3)
ROOT = FirstNodes(*(np.array([x]) for x in (0, 1)), np.array([True]), np.array([8.0]), np.array([0.4]))


def f(points: np.ndarray) -> np.ndarray:
    """A smooth hill on SQUARE, with its top at (1.5, 0.4)."""
    return np.exp(-2 * (points[:, 0] - 1.5) ** 2 - 3 * (points[:, 1] - 0.4) ** 2)


def search(T: int = 3_000, partition=SQUARE, first=ROOT, variance=0.04, binary=False, nu_1=1.0) -> GPTreeClient:
    return GPTreeClient(Task(partition, 2, T), first, variance, binary, nu_1, int(first.count.sum()))


def play(client, batches: int, sigma: float = 0.2, seed: int = 0):
    """Let a client make some batches; return the client."""
    rng = np.random.default_rng(seed)
    for _ in range(batches):
        batch = client.ask()
        assert batch.size > 0
        client.tell(np.repeat(f(batch.points), batch.counts) + sigma * rng.standard_normal(batch.size))
    return client


def posterior(client: GPTreeClient) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of f at all nodes, from the formulas for a Gaussian process with a constant mean."""
    seen, hyper = client.observed, client.hyper
    noise = client.reward_variance[seen] / client.count[seen] + gp_tree.JITTER * hyper.variance
    K = hyper.covariance(cdist(client.point[seen], client.point[seen])) + np.diag(noise)
    k = hyper.covariance(cdist(client.point, client.point[seen]))
    error = client.total[seen] / client.count[seen] - client.constant_mean
    mean = client.constant_mean + k @ np.linalg.solve(K, error)
    return mean, hyper.variance - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))


@pytest.mark.parametrize("order", ORDERS)
def test_covariances_are_matern_s(order):
    from sklearn.gaussian_process.kernels import Matern

    points = np.random.default_rng(0).random((5, 2))
    ours = Hyper(0.3, order, 0.5).covariance(gp_tree.distances(points, points))
    assert ours == pytest.approx(0.5 * Matern(0.3, nu=order)(points))


def test_the_likelihood_is_that_of_a_normal_distribution_with_the_best_constant_mean():
    rng, hyper = np.random.default_rng(1), Hyper(0.2, 1.5, 0.3)
    points, y, noise = rng.random((6, 2)), rng.random(6), 0.1 + rng.random(6)
    distance = gp_tree.distances(points, points)
    K = hyper.covariance(distance) + np.diag(noise + gp_tree.JITTER * hyper.variance)
    height, mean = gp_tree.log_likelihood(distance, y, noise, hyper)
    ones = np.ones(6)
    assert mean == pytest.approx((ones @ np.linalg.solve(K, y)) / (ones @ np.linalg.solve(K, ones)))
    exact = multivariate_normal(np.full(6, mean), K).logpdf(y)
    assert height == pytest.approx(exact + 3 * math.log(2 * math.pi))


def test_the_posterior_is_exact_after_each_value_whether_it_is_fitted_or_updated():
    client, fitted = search(), 0
    for _ in range(60):
        before = client.next_fit
        play(client, 1, seed=client.n_batches)
        fitted += client.next_fit != before
        mean, variance = posterior(client)
        assert client.mean == pytest.approx(mean, abs=1e-7) and client.variance == pytest.approx(variance, abs=1e-7)
    assert 3 <= fitted < 30 and len(client.observed) > 10 and client.count.max() > 20  # both kinds of update happened


def test_hyper_parameters_are_no_worse_than_their_neighbours():
    client = play(search(), 40)
    client._fit()
    seen = client.observed
    distance, y = cdist(client.point[seen], client.point[seen]), client.total[seen] / client.count[seen]
    noise = client.reward_variance[seen] / client.count[seen]

    def height(length: int, order: int, deviation: int) -> float:
        hyper = Hyper(LENGTHS[length] * math.sqrt(2), ORDERS[order], DEVIATIONS[deviation] ** 2)
        away = (length - TYPICAL) ** 2 + (deviation - TYPICAL) ** 2
        return gp_tree.log_likelihood(distance, y, noise, hyper)[0] - gp_tree.PRIOR_WEIGHT * away

    length, order, deviation = client.positions
    best = height(length, order, deviation)
    for a, b, c in ((length + a, order + b, deviation + c) for a, b, c in gp_tree.STEPS):
        if 0 <= a < len(LENGTHS) and 0 <= b < len(ORDERS) and 0 <= c < len(DEVIATIONS):
            assert height(a, b, c) <= best + 1e-9
    assert (client.positions[1], client.hyper.order) != (0, 0.5)  # the hill is smooth


def test_few_values_have_the_typical_hyper_parameters_in_units_of_nu_1():
    client = search(nu_1=2.0)
    assert client.hyper == Hyper(0.25 * math.sqrt(2), 1.5, (0.25 * 2) ** 2) and client.constant_mean == pytest.approx(
        0.4
    )


def test_the_node_with_the_largest_upper_bound_is_pulled():
    client = play(search(), 25)
    upper = client.mean + gp_tree.BETA * np.sqrt(client.variance)
    batch = client.ask()
    assert np.array_equal(batch.points[0], client.center[upper.argmax()])
    assert np.array_equal(client.ask().points, batch.points)  # asking changes nothing
    told = copy.deepcopy(client)
    told.tell(np.full(batch.size, 0.5))
    assert told.count[upper.argmax()] == client.count[upper.argmax()] + batch.size


def test_a_batch_adds_a_fifth_of_what_is_known_and_ends_with_the_horizon():
    client = search()
    while client.explores or client.count[client._best_node()] < 50:
        play(client, 1, seed=client.n_batches)
    node = client._best_node()
    information = client.reward_variance[node] / client.variance[node]
    assert client.ask().size == int(0.2 * information) and 3 < 0.2 * information < client.count[node]
    late = search(T=10)
    assert late.ask().size == 1 and late.t == 8
    play(late, 2)
    assert late.t == late.steps == 10 and late.ask().size == 0
    assert search(T=50_000).ask().size == 50  # a thousandth of the horizon


def test_a_batch_at_most_doubles_what_a_node_has_and_adds_one():
    client = search(T=100)
    client.variance[:] = 1e-9  # the model is very sure, so that a fifth of what is known is many pulls
    client.mean[1] = 5.0
    new = client._best_node()
    assert client.count[new] == 0 and client._ask().size == 1
    client.count[new] = 7
    assert client._ask().size == 8


def exploring(client: GPTreeClient) -> GPTreeClient:
    """The client before its next batch that explores."""
    while not client.explores:
        play(client, 1, seed=client.n_batches)
    return client


def test_every_fifth_batch_explores_the_leaf_of_the_largest_bound_and_cell():
    client, explored = search(T=100_000), []
    for _ in range(21):
        explored += [client.n_batches] if client.explores else []
        play(client, 1, seed=client.n_batches)
    assert explored == [4, 9, 14, 19]
    client = exploring(client)
    width = 4 * client.reach  # a halved side of 1 has its halves' centres at 1/4 from its own
    best = np.where(client.is_leaf, client.mean + gp_tree.BETA * np.sqrt(client.variance) + width, -np.inf).argmax()
    assert client._best_node() == best != (client.mean + gp_tree.BETA * np.sqrt(client.variance)).argmax()
    assert np.array_equal(client.ask().points[0], client.center[best])
    assert client.ask().size < 100  # a thousandth of the horizon


def test_widths_of_cells_are_in_units_of_nu_1():
    assert search(partition=Partition([[0.0, 8.0]]), nu_1=3.0)._widths().tolist() == [3.0, 1.5, 1.5]


def test_what_was_explored_is_split_once_it_is_known_to_the_width_of_its_cell():
    client = exploring(play(search(T=100_000, nu_1=1.0), 20))
    node = client._best_node()
    client.hyper = client.hyper._replace(length=50.0)  # f hardly varies within a cell, says the model
    client.count[node] = 1
    client.variance[node] = 0.9 * client._widths()[node] ** 2
    n = len(client.depth)
    client._split(np.array([node]))
    assert len(client.depth) == n
    client.variance[node] = 1.1 * client._widths()[node] ** 2
    client._split(np.array([node]), explored=True)
    assert len(client.depth) == n
    client.variance[node] = 0.9 * client._widths()[node] ** 2
    client._split(np.array([node]), explored=True)
    assert len(client.depth) == n + 2 and not client.is_leaf[node]


def test_a_batch_that_explores_may_split_what_another_may_not():
    client = exploring(play(search(T=100_000), 20))
    told = []
    client._split = lambda nodes, explored=False: told.append(explored)
    client.next_fit = 1_000
    for _ in range(6):
        play(client, 1)
    assert told == [True, False, False, False, False, True]


def test_exploring_ends_where_the_values_are_needed_for_the_best_nodes(monkeypatch):
    client = exploring(play(search(T=100_000), 20))
    monkeypatch.setattr(gp_tree, "MAX_VALUES", len(client.observed) + 30)
    assert not client.explores
    monkeypatch.setattr(gp_tree, "MAX_VALUES", len(client.observed) + 31)
    assert client.explores


def test_the_smallest_cells_have_no_width_to_explore():
    client = play(search(partition=Partition([[0.0, 2.0], [-1.0, 1.0]], max_depth=2), T=10_000), 24)
    client = exploring(client)
    upper = client.mean + gp_tree.BETA * np.sqrt(client.variance)
    assert (
        client.is_leaf[client.depth == 2].all() and client._best_node() == np.where(client.is_leaf, upper, -9).argmax()
    )


def test_a_leaf_is_split_when_it_is_better_known_than_f_varies_within_its_cell():
    client = play(search(), 30)
    varies = 2 * (client.hyper.variance - client.hyper.covariance(client.reach))
    ripe = client.is_leaf & (client.count > 0) & (client.variance < varies)
    assert client.next_fit > client.n_batches and not ripe[client.observed[-1]]
    inner = np.flatnonzero(~client.is_leaf)
    for node in inner:
        children = SQUARE.children(client.index[[node]])
        below = np.flatnonzero(client.depth == client.depth[node] + 1)
        rows = below[np.isin(client.index[below], children)]
        assert len(rows) == 2 and np.array_equal(client.center[rows], client.child_center[node])
        assert np.array_equal(client.center[rows], SQUARE.centers(int(client.depth[node]) + 1, client.index[rows]))
    assert 5 < len(inner) and len(client.depth) == 1 + 2 * len(inner)


def test_points_are_on_the_unit_cube_and_reach_is_to_the_children_s_centres():
    client = play(search(), 10)
    assert client.point == pytest.approx((client.center - [0, -1]) / 2)
    to_children = [
        cdist(client.point[[v]], (client.child_center[v] - [0, -1]) / 2).mean() for v in range(len(client.point))
    ]
    assert client.reach == pytest.approx(to_children)


def test_the_smallest_cells_are_not_split():
    shallow = Partition([[0.0, 2.0], [-1.0, 1.0]], max_depth=2)
    client = play(search(partition=shallow, T=10_000), 40)
    assert client.depth.max() == 2 and len(client.depth) == 7 and client.is_leaf[client.depth == 2].all()


def test_as_many_nodes_are_observed_as_there_is_room_for(monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_VALUES", 8)
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 1_000_000)
    client = play(search(T=1_000_000), 60)
    assert len(client.observed) == 8 and client.n_batches == 60
    assert np.count_nonzero(client.count) == 8


def test_the_noise_is_measured_from_own_rewards_at_each_node():
    client = play(search(variance=1.0), 60, sigma=0.2)
    own = client.own_count > 0
    spread = client.own_squares[own].sum() - (client.own_total[own] ** 2 / client.own_count[own]).sum()
    n = (client.own_count[own] - 1).sum()
    assert client.mean_variance() == pytest.approx((spread + 20 * 1.0) / (n + 20))
    assert spread / n == pytest.approx(0.04, rel=0.2)


def test_noise_of_binary_rewards_follows_from_the_means_and_is_never_0():
    client = search(binary=True, first=ROOT._replace(mean=np.array([0.25])))
    assert client.mean_variance() == pytest.approx(0.25 * 0.75)
    nothing = search(binary=True, first=ROOT._replace(mean=np.array([0.0])))
    assert nothing.mean_variance() == pytest.approx(0.5 / 9)
    nothing.tell([0.3] * nothing.ask().size)
    assert not nothing.binary  # a reward was neither 0 nor 1
    assert (search(variance=0.0).reward_variance == 0.02**2).all()
    assert search(variance=0.0, nu_1=3.0).reward_variance == pytest.approx(0.06**2)


def test_noise_of_binary_rewards_is_that_of_each_node_s_mean_a_deviation_nearer_to_one_half():
    client = search(binary=True)
    client.mean, client.variance = np.array([0.9, 0.2, 1.3]), np.array([0.01, 0.04, 1e-12])
    assert client._binary_variance() == pytest.approx([0.8 * 0.2, 0.4 * 0.6, 0.0004], rel=1e-3)
    client.mean, client.variance = np.array([0.6, 0.4, 0.0]), np.array([0.04, 0.04, 0.01])
    assert client._binary_variance() == pytest.approx([0.25, 0.25, 0.09])


def test_binary_rewards_are_fitted_again_with_the_noise_of_each_node():
    rng, client = np.random.default_rng(4), search(binary=True)
    while client.n_batches < 30:
        batch = client.ask()
        client.tell((rng.random(batch.size) < f(batch.points)[0]).astype(float))
    client._fit()
    fitted, mean, variance = client.reward_variance.copy(), client.mean, client.variance
    assert np.ptp(fitted) > 0.05 and mean == pytest.approx(posterior(client)[0], abs=1e-7)
    client.reward_variance = np.full(len(client.depth), client.mean_variance())
    client._fit_given_variance()
    assert client._binary_variance() == pytest.approx(fitted)  # from the fit that knows the average alone
    assert not np.allclose(client.variance, variance)


def test_children_have_the_noise_of_their_parent_until_the_next_fit():
    client = search(binary=True)
    client.reward_variance = np.array([0.1, 0.2, 0.3])
    client.count[2], client.variance[2] = 1, 0.0
    client._split(np.array([2]))
    assert client.reward_variance.tolist() == [0.1, 0.2, 0.3, 0.3, 0.3]


def test_a_surprise_is_followed_by_a_fit():
    client = play(search(), 20)
    while client.count[client._best_node()] == 0 or client.n_batches + 1 >= client.next_fit:
        play(client, 1, seed=client.n_batches)
    node = client._best_node()
    usual, surprised = copy.deepcopy(client), copy.deepcopy(client)
    n, mean = client.ask().size, client.total[node] / client.count[node]
    error = math.sqrt(client.reward_variance[node] * (1 / n + 1 / client.count[node]))
    usual.tell(np.full(n, mean + 3.4 * error))
    surprised.tell(np.full(n, mean + 3.6 * error))
    assert usual.next_fit == client.next_fit != surprised.next_fit


def test_it_deploys_the_node_whose_value_is_surely_large():
    client = play(search(), 80)
    pulled = np.flatnonzero(client.own_count)
    best = pulled[np.argmax(client.mean[pulled] - np.sqrt(client.variance[pulled]))]
    assert np.array_equal(client.best(), client.center[best]) and f(client.best()[None])[0] > 0.95


def test_it_begins_with_what_stage_1_knows():
    parents = np.array([0, 0])
    warm_start = [
        StartingDepth(np.array([1]), None, np.array([[0.5], [0.6]]), np.array([[8.0], [9.0]])),
        StartingDepth(
            np.array([1, 2]), parents, np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[2.0, 3.0], [4.0, 5.0]])
        ),
        StartingDepth(np.array([3, 4]), np.array([1, 1]), np.array([[0.7, 0.8], [0.9, 1.0]]), np.full((2, 2), 6.5)),
    ]
    first = first_nodes_of(warm_start, 1)
    assert first.depth.tolist() == [0, 1, 1, 2, 2] and first.index.tolist() == [1, 1, 2, 3, 4]
    assert first.is_leaf.tolist() == [False, True, False, True, True]
    assert first.mean.tolist() == [0.6, 0.3, 0.4, 0.9, 1.0] and first.count.tolist() == [9.0, 4.0, 5.0, 6.5, 6.5]
    client = search(first=first)
    assert client.observed.tolist() == [0, 1, 2, 3, 4]
    seen = client.total[:5] / client.count[:5]
    assert seen.tolist() == pytest.approx([0.6, 0.3, 0.4, 0.9, 1.0])


def test_of_many_nodes_it_begins_with_the_least_deep_and_those_that_may_be_largest(monkeypatch):
    mean, count = np.array([0.1, 0.2, 0.45, 0.5, 0.4]), np.full(5, 100.0)
    depth, index, is_leaf = np.array([0, 1, 1, 2, 2]), np.array([1, 1, 2, 1, 2]), np.array([False, False, *[True] * 3])
    first = FirstNodes(depth, index, is_leaf, count, mean)
    monkeypatch.setattr(gp_tree, "MAX_FIRST_VALUES", 3)
    client = search(first=first)
    assert client.observed.tolist() == [0, 2, 3] and client.count[1] == client.count[4] == 0
    monkeypatch.setattr(gp_tree, "MAX_FIRST_VALUES", 4)
    assert search(first=first).observed.tolist() == [0, 1, 2, 3]
    without_root = first._replace(count=np.array([0.0, 100, 100, 100, 100]))
    assert search(first=without_root).observed.tolist() == [1, 2, 3, 4]


def test_among_the_first_nodes_the_bound_decides_not_the_mean(monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_FIRST_VALUES", 1)
    mean, count = np.array([0.5, 0.45]), np.array([16.0, 4.0])  # upper bounds 0.6 and 0.65
    first = FirstNodes(np.array([0, 1]), np.array([1, 1]), np.array([False, True]), count, mean)
    assert search(first=first).observed.tolist() == [1]


def test_jitter_is_noise_of_a_new_value_too(monkeypatch):
    monkeypatch.setattr(gp_tree, "JITTER", 0.01)  # large enough to be seen
    client = play(search(), 3)
    while client.count[client._best_node()] > 0 or client.n_batches + 1 >= client.next_fit:
        play(client, 1, seed=client.n_batches)
    n_observed = len(client.observed)
    play(client, 1)
    mean, variance = posterior(client)
    assert len(client.observed) == n_observed + 1
    assert client.mean == pytest.approx(mean, abs=1e-9) and client.variance == pytest.approx(variance, abs=1e-9)


def test_hyper_parameters_are_chosen_anew_on_schedule(monkeypatch):
    monkeypatch.setattr(gp_tree, "SURPRISE", math.inf)
    client, fits = search(), []
    for _ in range(30):
        before = client.next_fit
        play(client, 1, seed=client.n_batches)
        fits += [client.n_batches] if client.next_fit != before else []
    assert fits == [4, 6, 8, 10, 13, 17, 22, 29]


def test_few_values_leave_the_hyper_parameters_where_they_are_and_four_do_not(monkeypatch):
    client, counts = search(), []
    monkeypatch.setattr(gp_tree, "log_likelihood", lambda distance, *_: (counts.append(len(distance)) or 0.0, 0.4))
    client.observed = client.observed[[0, 0, 0]]
    client._fit()
    assert len(counts) == 1  # of the present ones alone, for the constant mean
    client.observed = client.observed[[0, 0, 0, 0]]
    client._fit()
    assert len(counts) > 5


def test_the_prior_draws_both_the_length_and_the_deviation_to_the_typical_ones(monkeypatch):
    client = play(search(), 12)
    monkeypatch.setattr(gp_tree, "log_likelihood", lambda *_: (0.0, 0.4))
    client.positions = 0, 1, 0
    client._fit()
    assert client.positions == (TYPICAL, 1, TYPICAL)


def test_hyper_parameters_are_sought_from_the_last_ones(monkeypatch):
    client = play(search(), 12)
    shortest = LENGTHS[0] * math.sqrt(2)
    monkeypatch.setattr(gp_tree, "log_likelihood", lambda *given: (100.0 * (given[3].length == shortest), 0.4))
    client.positions = 0, 1, TYPICAL
    client._fit()
    assert client.positions == (0, 1, TYPICAL)  # a walk from the typical ones would not come here


def test_the_root_is_split_at_once_and_all_ripe_leaves_after_a_fit():
    assert len(search().depth) == 3
    client, n_fits = search(), 0
    for _ in range(60):
        before = client.next_fit
        play(client, 1, seed=client.n_batches)
        if client.next_fit != before:
            varies = 2 * (client.hyper.variance - client.hyper.covariance(client.reach))
            assert not np.any(client.is_leaf & (client.count > 0) & (client.variance < varies))
            n_fits += 1
    assert n_fits > 3


def test_nothing_is_split_when_there_is_no_room_for_more_values(monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_VALUES", 12)
    client = search(T=100_000)
    while len(client.observed) < 12:
        play(client, 1, seed=client.n_batches)
    n_nodes = len(client.depth)
    assert client.t < 100_000 and len(play(client, 10).depth) == n_nodes


def test_it_deploys_nothing_that_it_has_not_pulled():
    best = FirstNodes(
        np.array([0, 1, 1]), np.array([1, 1, 2]), np.array([False, True, True]), np.full(3, 50.0), np.array([0, 0, 5.0])
    )
    client = search(first=best)
    client.own_count[1] = 1
    assert client.mean[2] > client.mean[1] and np.array_equal(client.best(), client.center[1])


def test_noise_of_binary_rewards_is_weighted_by_their_number():
    count, mean = np.array([90.0, 10.0]), np.array([0.5, 0.1])
    first = FirstNodes(np.array([0, 1]), np.array([1, 1]), np.array([False, True]), count, mean)
    assert search(binary=True, first=first).mean_variance() == pytest.approx(0.9 * 0.25 + 0.1 * 0.09)


def test_rewards_that_were_once_not_binary_are_not_binary_again():
    client = search(binary=True)
    client.tell([0.3] * client.ask().size)
    client.tell([1.0] * client.ask().size)
    assert not client.binary


@pytest.mark.parametrize("d", [1, 3])
def test_lengths_are_in_units_of_the_root_of_the_dimension(d):
    client = search(partition=Partition([[0.0, 1.0]] * d))
    assert client.hyper.length == pytest.approx(0.25 * math.sqrt(d))


def test_reach_is_the_mean_over_the_children():
    client = search(partition=Partition([[0.0, 3.0]], k=3))  # centres at 0.5, 1.5, 2.5
    assert client.reach[0] == pytest.approx(2 / 9)


def run_in_both_forms(problem, T: int, **given):
    """The fast simulation with a Gaussian process, after a check that the objects measure the same."""
    fast, objects = (
        pfpne.simulate("pf-pne+", problem, T, objects=flag, gaussian_process=True, global_regret=True, **given)
        for flag in (False, True)
    )
    for name in ("regret", "global_regret", "simple_regret", "rounds", "best"):
        assert np.array_equal(getattr(fast, name), getattr(objects, name)), name
    return fast


@pytest.mark.parametrize(("noise", "M", "cells"), [(0.3, 5, "random"), ("bernoulli", 3, "cyclic"), (0.0, 2, "random")])
def test_the_fast_form_is_the_objects(noise, M, cells):
    problem = pfpne.make_problem("ackley", M, noise=noise, seed=2, run=1)
    fast = run_in_both_forms(problem, 700, cells=cells)
    assert not np.array_equal(fast.regret, pfpne.simulate("pf-pne+", problem, 700, cells=cells).regret)


@pytest.mark.parametrize(("noise", "M"), [(0.3, 4), ("bernoulli", 2), (0.0, 1)])
def test_a_long_search_goes_on_by_hct_as_the_objects_do(noise, M, monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 402)  # a checkpoint of 1,500 steps
    problem = pfpne.make_problem("garland", M, noise=noise, seed=2, run=1)
    fast = run_in_both_forms(problem, 1_500)
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 1_500)
    alone = pfpne.simulate("pf-pne+", problem, 1_500, gaussian_process=True)
    assert not np.array_equal(fast.regret, alone.regret)


def test_the_tree_after_a_search_has_the_rewards_of_both_at_the_nodes_of_stage_1(monkeypatch):
    client = in_stage_2().clients[0]
    monkeypatch.setattr(gp_tree, "MAX_STEPS", client.t + 30)
    search = client.tree
    while client.tree is search:
        play(client, 1, seed=client.t)
    assert client.t == search.steps == gp_tree.MAX_STEPS and np.array_equal(client.best(), search.best())
    without = copy.deepcopy(search)
    without.own_count[:], without.own_total[:] = 0, 0
    tree, before = (client._request.tree_after(0, x).node for x in (search, without))
    n = int(client.tree.state[0]["size"])
    assert np.array_equal(client.tree.node, tree) and search.own_count[:n].sum() > 0 == search.own_count[0]
    assert search.depth[:n].tolist() == tree["depth"][:n].tolist()
    assert search.index[:n].tolist() == tree["index"][:n].tolist()
    assert tree["count"][:n] == pytest.approx(before["count"][:n] + search.own_count[:n])
    assert tree["total"][:n] == pytest.approx(before["total"][:n] + search.own_total[:n])
    mean = tree["total"][:n] / tree["count"][:n]
    diameter = client.tree.constants.diameter[tree["depth"][:n]]
    assert (tree["U"][:n] > mean + diameter).all()
    c = confidence_constant(search.mean_variance())
    assert client.tree.constants.squared_half_width == pytest.approx(
        hct_constants_for(PlusSettings(), c, client.task).squared_half_width
    )


def test_the_search_s_recommendation_stays(monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 200)
    problem = pfpne.make_problem("himmelblau", 2, noise=0.1, seed=2, run=1)
    run = pfpne.simulate("pf-pne+", problem, 500, gaussian_process=True)
    at = {t: run.simple_regret[:, run.t == t].tolist() for t in (199, 200, 201, 500)}
    assert at[200] == at[201] == at[500]
    run_in_both_forms(problem, 400)


def test_a_search_without_a_step_hands_over_at_once_and_stage_1_s_recommendation_stays(monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 1)
    problem = pfpne.make_problem("garland", 2, noise=0.3, seed=2, run=1)
    run_in_both_forms(problem, 300)


def test_stage_1_ends_after_two_thirds_of_the_exponent_for_any_number_of_clients():
    problem = pfpne.make_problem("garland", 8, shift=0.0, noise=0.5, seed=1, run=0)
    last = pfpne.simulate("pf-pne+", problem, 2_000, gaussian_process=True).communication["t"].max()
    assert last <= 2_000 ** (2 / 3) < pfpne.simulate("pf-pne+", problem, 2_000).communication["t"].max()


@pytest.mark.parametrize("given", [{"safe": True}, {"optimistic": False}])
def test_what_it_excludes_is_refused(given):
    with pytest.raises(ValueError, match="gaussian_process must be False with safe=True, whose theorem is HCT's"):
        PlusSettings(gaussian_process=True, **given)


def test_a_loud_client_has_its_own_noise_there():
    task, rng = Task(Partition([[0.0, 1.0]]), 4, 2_000), np.random.default_rng(0)
    run, sigma = make_federation("pf-pne+", task, gaussian_process=True), (0.1, 0.1, 0.1, 2.0)
    while run.running and any(client.tree is None for client in run.clients):
        for m, batch in run.ask():
            run.tell(m, 0.5 + sigma[m] * rng.standard_normal(batch.size))
    variances = [client.tree.reward_variance[0] for client in run.clients]
    assert variances[3] > 1 and max(variances[:3]) < 1


def test_it_has_less_regret_than_a_tree_on_a_smooth_hill():
    def regret(run: int, gaussian_process: bool) -> float:
        problem = pfpne.problem_from_functions([f, f], [[0.0, 2.0], [-1.0, 1.0]], 0.5, optimum=1.0, seed=4, run=run)
        return pfpne.simulate("pf-pne+", problem, 5_000, gaussian_process=gaussian_process).regret[:, -1].mean()

    with_model, without = (sum(regret(run, flag) for run in range(4)) for flag in (True, False))
    assert with_model < 0.9 * without


def in_stage_2(T: int = 400):
    """A federation whose clients have left stage 1, and made a few steps alone."""
    run = make_federation("pf-pne+", Task(SQUARE, 2, T), gaussian_process=True)
    rng = np.random.default_rng(0)
    while any(client.tree is None or client.tree.n_batches < 8 for client in run.clients):
        for m, batch in run.ask():
            run.tell(m, np.repeat(f(batch.points), batch.counts) + rng.normal(0, 0.3, batch.size))
    return run


def test_a_saved_search_goes_on_as_if_nothing_had_been(monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 300)  # so that it goes on by HCT, too
    run = in_stage_2()
    client, restored = run.clients[0], from_bytes(to_bytes(run.clients[0]))
    rng = np.random.default_rng(1)
    while client.t < 400:
        batch = client.ask()
        rewards = np.repeat(f(batch.points), batch.counts) + rng.normal(0, 0.3, batch.size)
        assert np.array_equal(restored.ask().points, batch.points) and restored.ask().size == batch.size
        client.tell(rewards)
        restored.tell(rewards)
        assert np.array_equal(restored.best(), client.best())
        restored = from_bytes(to_bytes(restored))
    assert isinstance(client.tree, TreeClient)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("best_of_search", "abc"),
        ("best_of_search", np.array([np.nan, 0.0])),
        ("best_of_search", np.array([9.0, 0.0])),
        ("best_of_search", np.zeros(3)),
        ("best_of_search", True),
        ("tree", None),
    ],
)
def test_a_recommendation_that_no_search_made_is_not_restored(name, value, monkeypatch):
    monkeypatch.setattr(gp_tree, "MAX_STEPS", 300)
    client = in_stage_2().clients[0]
    while client.t < 310:
        play(client, 1, seed=client.t)
    assert np.array_equal(from_bytes(to_bytes(client)).best(), client.best_of_search)
    setattr(client, name, value)
    with pytest.raises(ValueError, match="this saved state cannot be read"):
        from_bytes(to_bytes(client))


@pytest.mark.parametrize("nu_1", [1, np.float32(1), np.int64(1)])
def test_a_search_is_restored_whatever_kind_of_number_nu_1_is(nu_1):
    run = make_federation("pf-pne+", Task(SQUARE, 1, 60), gaussian_process=True, nu_1=nu_1)
    while run.clients[0].tree is None:
        for m, batch in run.ask():
            run.tell(m, f(batch.points).repeat(batch.counts))
    assert from_bytes(to_bytes(run.clients[0])).tree.nu_1 == 1


def test_a_search_that_has_ended_is_not_restored(monkeypatch):
    client = in_stage_2().clients[0]
    monkeypatch.setattr(gp_tree, "MAX_STEPS", client.t)
    with pytest.raises(ValueError, match="a search must be followed by a tree, once it has ended"):
        from_bytes(to_bytes(client))


def test_a_client_with_a_tree_in_stage_1_is_not_restored():
    client = make_federation("pf-pne+", Task(SQUARE, 2, 400), gaussian_process=True).clients[0]
    client.tree, client.t = search(), 8
    with pytest.raises(ValueError, match="a client with a tree must be in stage 2"):
        from_bytes(to_bytes(client))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observed", np.array([10**6])),
        ("observed", np.array([-1])),
        ("mean", np.zeros(3)),
        ("weights", np.zeros((1, 1))),
        ("A", np.zeros((2, 2))),
        ("child_center", np.zeros((1, 2, 2))),
        ("observed", np.array([1.0])),
        ("is_leaf", np.zeros(3)),
        ("center", [0.0]),
        ("variance", 0.0),
        ("mean", np.nan),
        ("count", -1.0),
        ("positions", (10**6, 0, 0)),
        ("positions", "abc"),
        ("reward_variance", 1e308),
        ("reward_variance", 0.0),
        ("reward_variance", [0.1]),
        ("steps", 0),
        ("steps", 2.5),
        ("steps", -(10**12)),
        ("n_batches", "a"),
        ("n_batches", 10**59),
        ("binary", np.zeros(2)),
        ("observed", np.array([0])),
        ("next_fit", -1),
        ("constant_mean", None),
        ("first_variance", "a"),
        ("first_variance", -1.0),
        ("nu_1", 0.0),
        ("nu_1", 1e300),
        ("hyper", None),
        ("hyper", (1.0, 2.5, 3.0)),
        ("hyper", Hyper(0.0, 2.5, 1.0)),
        ("hyper", Hyper(1.0, 2.0, 1.0)),
        ("count", 1e-300),
    ],
)
def test_a_search_that_leads_out_of_its_arrays_is_not_restored(name, value):
    client = in_stage_2().clients[0]
    if name == "observed" or (name in ("variance", "mean", "count", "reward_variance") and np.ndim(value) == 0):
        whole = getattr(client.tree, name)
        value = np.where(np.arange(len(whole)) == 1, value, whole)
    setattr(client.tree, name, value)
    with pytest.raises(ValueError, match="this saved state cannot be read: .* search"):
        from_bytes(to_bytes(client))
