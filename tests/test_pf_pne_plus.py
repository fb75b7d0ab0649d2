"""PF-PNE+ and HCT-noise: the small functions by hand, the tree handed over, the switches, and the fast form."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import pfpne
from pfpne.algorithms import make_federation
from pfpne.algorithms.hct import HCTSettings, hct_constants
from pfpne.algorithms.pf_pne import n_pulls_per_client
from pfpne.algorithms.pf_pne_plus import (
    PARTS_IN_WORDS,
    PIECES,
    PRIOR_PULLS,
    ROOT_PULLS,
    FinishedDepth,
    HCTNoise,
    NoiseHCTSettings,
    PFPNEPlus,
    PlusSettings,
    SharedStatistics,
    StartingDepth,
    all_binary,
    binary_variance,
    confidence_constant,
    equivalent_pulls,
    hct_constants_for,
    heterogeneity,
    stage1_settings,
    warm_start_tree,
    weights_of,
)
from pfpne.algorithms.phases import Pull
from pfpne.federation import Task
from pfpne.partition import Partition

LINE = Partition([[0.0, 1.0]])
PEAKS = (0.2, 0.9)


def value(m: int, x: np.ndarray) -> np.ndarray:
    return 1 - np.abs(x[:, 0] - PEAKS[m])


def pulls(name: str, T: int, noise=0.0, **settings) -> tuple[list, list]:
    """What client 0 pulls, (point, times) in order, and all messages of a run of two clients."""
    run, pulled, mail = make_federation(name, Task(LINE, 2, T), **settings), [], []
    run.on_mail = lambda t, up, down: mail.append((t, [m for _, m in up], [m for _, m in down]))
    rng = np.random.default_rng(0)
    while run.running:
        for m, batch in run.ask():
            if m == 0:
                for x, n in zip(batch.points[:, 0].tolist(), batch.counts.tolist(), strict=True):
                    if pulled and pulled[-1][0] == x and name == "pf-pne+":  # the next piece of the same node
                        n += pulled.pop()[1]
                    pulled.append((x, n))
            rewards = np.repeat(value(m, batch.points), batch.counts)
            run.tell(m, rewards + noise * (2 * rng.random(len(rewards)) - 1))
    return pulled, mail


def binary(flags) -> np.ndarray:
    """The flags of M clients, as the server is sent them."""
    return np.array(flags, dtype=np.int64).reshape(-1, 1)


def test_constants_by_hand():
    assert confidence_constant(0.0) == 0.05 and confidence_constant(0.25) == pytest.approx(0.25)
    # two nodes, three clients, a spread of 0.02; less 0.001, less 3 x 0.001 sqrt(2 / 4)
    assert heterogeneity(0.02, 3, 2, 4, 0.004, False) == pytest.approx((0.02 - 0.001, 2 / 0.001**2))
    assert heterogeneity(0.02, 3, 2, 4, 0.004, True) == pytest.approx(((0.02 - 0.001) / 0.75, 2 * 0.75**2 / 0.001**2))
    assert heterogeneity(0.0, 1, 2, 4, 0.0, False) == (0, 0) == heterogeneity(0.02, 3, 2, 1, 0.2, True)
    # twelve pulls of each node, a third and a half of them 1: the sample variances of all of them
    assert binary_variance(np.array([1 / 3, 1 / 2]), 12) == pytest.approx((2 / 9 + 1 / 4) / 2 * 12 / 11)
    # no success in 24 pulls: Jeffreys' prior makes 1/50 of it
    assert binary_variance(np.zeros(2), 12) == pytest.approx(0.02 * 0.98) == binary_variance(np.ones(2), 12)
    assert equivalent_pulls(4, 5, 0.3, 0.0) == 16 and equivalent_pulls(4, 5, 0.0, 0.1) == 0
    # het^2 M / (M - 1) + sigma^2 / (n (M - 1)) = 0.125 + 0.3 / 16; 0.3 over that
    assert equivalent_pulls(4, 5, 0.3, 0.1) == pytest.approx(0.3 / (0.125 + 0.3 / 16))
    assert weights_of(np.array([0.0, 0.2, 0.8]), 0.2).tolist() == [1, 1, 0.25]
    assert weights_of(np.array([0.0, 0.2, 0.8]), 0.0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("is_binary", [False, True])
def test_het_is_found_as_it_is_and_as_surely_as_it_says(is_binary):
    rng = np.random.default_rng(1)
    for het in (0.0, 0.1):
        found = []
        for _ in range(400):
            values = 0.5 + het * rng.normal(0, 1, (20, 4))
            means = rng.binomial(8, values.clip(0, 1)) / 8 if is_binary else rng.normal(values, 0.5 / np.sqrt(8))
            variance = binary_variance(means.mean(axis=0), 160) if is_binary else 0.25
            found.append(heterogeneity(means.var(axis=0, ddof=1).mean(), 20, 4, 8, variance, is_binary))
        found, precision = np.transpose(found)
        assert found.mean() == pytest.approx(het**2, abs=4 * found.std() / 20)
        if het == 0:
            assert found.std() == pytest.approx((precision**-0.5).mean(), rel=0.15)


def loop_of(task: Task, **settings):
    """The algorithm of all clients at once, its loop, and what it wants first."""
    algorithm = PFPNEPlus(task, PlusSettings(**settings), task.n_clients)
    loop = algorithm.loop()
    return algorithm, loop, next(loop)


def test_a_client_says_what_it_has_seen_of_the_noise():
    """The root's sample variance; then the variance of the means of pieces, beside what was known before."""
    _, loop, pull = loop_of(Task(LINE, 2, 1_000), c=0.5)
    n = ROOT_PULLS * n_pulls_per_client(0, PlusSettings().log_term_for(1_000, 2), PlusSettings(c=0.5), 2)
    rewards = np.random.default_rng(3).random((2, n))
    message = loop.send(rewards.ravel())
    assert message.variances[:, 0].tolist() == pytest.approx(rewards.var(axis=1, ddof=1).tolist())
    assert message.binary.ravel().tolist() == [0, 0]
    pull = loop.send(SharedStatistics(0, [1], message.means.mean(axis=0), [60.0, 0.0, 0.0], [2.0], [1]))
    while not isinstance(pull, Pull):  # the node deployed
        pull = loop.send(None)
    size = pull.counts[:PIECES]
    assert len(pull.counts) == 2 * 2 * PIECES and np.ptp(size) <= 1 and size.sum() > PIECES + 1
    assert pull.index.tolist() == [1] * PIECES + [2] * PIECES + [1] * PIECES + [2] * PIECES
    sums = np.random.default_rng(4).random((4, PIECES)) * size
    message = loop.send(sums.ravel())
    means = sums.sum(axis=1) / size.sum()
    assert message.means.ravel().tolist() == pytest.approx(means.tolist())
    here = ((sums / size - means[:, None]) ** 2 * size).sum(axis=1) / (PIECES - 1)
    here, degrees = here.reshape(2, 2).mean(axis=1), 2 * (PIECES - 1)
    expected = (degrees * here + PRIOR_PULLS * rewards.var(axis=1, ddof=1)) / (degrees + PRIOR_PULLS)
    assert message.variances[:, 0].tolist() == pytest.approx(expected.tolist())


def test_the_variance_from_pieces_is_right_on_average():
    rng, sizes, found = np.random.default_rng(0), np.array([3, 3, 3, 2, 2, 2, 2, 2]), []
    task = Task(LINE, 1, 10**6)
    algorithm = PFPNEPlus(task, replace(PlusSettings(), c=1.0), 1)
    for _ in range(600):
        algorithm.variances, algorithm.binary = np.zeros(1), np.zeros(1, dtype=bool)
        sampling = algorithm.sample_in_pieces(0, np.array([1]))
        pull = next(sampling)
        sizes = pull.counts
        with pytest.raises(StopIteration):
            sampling.send(np.array([rng.normal(0.3, 0.5, size).sum() for size in sizes]))
        found.append(algorithm.variances[0] * (PIECES - 1 + PRIOR_PULLS) / (PIECES - 1))
    assert np.mean(found) == pytest.approx(0.25, abs=4 * np.std(found) / np.sqrt(600))


def test_the_variance_from_pieces_is_one_that_a_reward_can_have():
    """Pieces of 7 pulls, all 0 or all 1 in turn: 7 / 4 x 8 / 7 = 2, and 7 x 2 / (7 + 4) with what was known before."""
    task = Task(LINE, 1, 10**6, reward_range=(0, 1))
    algorithm = PFPNEPlus(task, replace(PlusSettings(), c=2.0), 1)
    algorithm.variances, algorithm.binary = np.zeros(1), np.zeros(1, dtype=bool)
    sampling = algorithm.sample_in_pieces(0, np.array([1]))
    size = next(sampling).counts
    with pytest.raises(StopIteration):
        sampling.send(size * (np.arange(PIECES) % 2.0))
    assert size.tolist() == [7] * PIECES and algorithm.variances.tolist() == [1.0]


def test_binary_rewards_are_seen_to_be_binary():
    def server(rewards):
        server = make_federation("pf-pne+", Task(LINE, 2, 1_000)).server
        variances = rewards.var(axis=1, ddof=1, keepdims=True)
        return server, server.conclude(rewards.mean(axis=1, keepdims=True), variances, binary(all_binary(rewards)))

    n = ROOT_PULLS * n_pulls_per_client(0, PlusSettings().log_term_for(1_000, 2), PlusSettings(), 2)
    rng = np.random.default_rng(0)
    zeros_and_ones, others = rng.integers(0, 2, (2, n)).astype(float), rng.random((2, n))
    assert server(zeros_and_ones)[0].binary and not server(others)[0].binary
    assert not server(np.vstack([zeros_and_ones[:1], others[:1]]))[0].binary  # one client's are not
    rare, answer = server(np.zeros((2, n)))  # no success yet is not "no noise"
    p = 0.5 / (2 * n + 1)
    assert rare.binary and answer.estimates[0] == pytest.approx(p * (1 - p)) and answer.continues.tolist() == [1]


def test_rewards_that_are_not_whole_later_are_not_binary():
    """All 0 at the root, where the values are 0, and other values below: no longer binary."""
    task = Task(LINE, 2, 2_000)
    run, flags = make_federation("pf-pne+", task), []
    run.on_mail = lambda t, up, down: flags.append([int(message.binary[0]) for _, message in up])
    while run.running:
        for m, batch in run.ask():
            run.tell(m, np.repeat(np.where(batch.points[:, 0] == 0.5, 0.0, 0.3), batch.counts))
    assert flags[0] == [1, 1] and flags[1] == [0, 0]


@pytest.mark.parametrize("successes", [0, 8])
def test_hct_noise_takes_eight_equal_binary_rewards_for_no_lack_of_noise(successes):
    algorithm = HCTNoise(Task(LINE, 1, 100), NoiseHCTSettings(), 1)
    loop = algorithm.loop()
    next(loop)
    (tree,) = loop.send(np.full(8, float(successes > 0))).trees
    variance = (0.5 / 9) * (1 - 0.5 / 9)
    expected = hct_constants(HCTSettings(c=0.5 * np.sqrt(variance)), LINE, 100)
    assert tree.constants.squared_half_width.tolist() == pytest.approx(expected.squared_half_width.tolist())
    (quiet,) = [*quiet_trees()]
    assert quiet.constants.squared_half_width[-1] == pytest.approx(
        hct_constants(HCTSettings(c=0.05), LINE, 100).squared_half_width[-1]
    )


def quiet_trees():
    """The tree of a client whose eight rewards are all 0.3."""
    loop = HCTNoise(Task(LINE, 1, 100), NoiseHCTSettings(), 1).loop()
    next(loop)
    return loop.send(np.full(8, 0.3)).trees


@pytest.mark.parametrize(("nu_1", "going"), [(0.4, True), (0.378, True), (0.37, False)])
def test_stage_1_ends_where_het_less_three_standard_errors_is_more_than_the_smoothness(nu_1, going):
    # five clients, 8 pulls each: variance of the means 0.16, less 0.04 / 8: het^2 = 0.155, standard error
    # 0.005 sqrt(2 / 4) = 0.003536. 0.155 - 0.0106 = 0.1444, below 0.382^2 and above 0.379^2
    server = make_federation("pf-pne+", Task(LINE, 5, 1_000), nu_1=nu_1 + 0.004).server
    means = np.array([[0.5 - 0.4 * np.sqrt(2)], [0.5], [0.5], [0.5], [0.5 + 0.4 * np.sqrt(2)]])
    answer = server.conclude(means, np.array([[0.01], [0.02], [0.04], [0.04], [0.09]]), binary([0] * 5))
    assert answer.estimates[:2].tolist() == pytest.approx([0.04, 0.155])
    assert answer.continues.tolist() == [going] and server.continues == going


def test_het_is_of_all_nodes_also_of_those_that_are_eliminated():
    """One client of five sees the better half elsewhere: the node that goes is where it differs."""
    server = make_federation("pf-pne+", Task(LINE, 5, 10**5), nu_1=0.2).server
    server.conclude(np.full((5, 1), 0.5), np.full((5, 1), 0.2), binary([0] * 5))
    means, n = np.array([[0.9, 0.9]] + [[0.9, 0.1]] * 4), server.rewards_in_means()
    answer = server.conclude(means, np.full((5, 1), 0.01), binary([0] * 5))
    assert answer.index.tolist() == [1] and answer.continues.tolist() == [0]
    first, weight = 2 * (8 / 0.2) ** 2, 4 * (n / 0.01) ** 2
    het2 = (-0.2 / 8 * first + (0.128 / 2 - 0.01 / n) * weight) / (first + weight)
    assert answer.estimates[1] == pytest.approx(het2)


def test_what_depths_show_of_het_is_weighted_by_how_surely_they_do():
    # depth 0: het^2 = 0.16 - 0.04 / 8 = 0.155, precision 4/2 (8 / 0.04)^2. Depth 1, two nodes, n pulls each: the
    # variances 0.01 and 0.04, less 0.04 / n; twice as many nodes, (n / 0.04)^2 each.
    server = make_federation("pf-pne+", Task(LINE, 5, 1_000), nu_1=2.0).server
    spread = np.array([-np.sqrt(2), 0, 0, 0, np.sqrt(2)])[:, None]
    server.conclude(0.5 + 0.4 * spread, np.full((5, 1), 0.04), binary([0] * 5))
    n = n_pulls_per_client(1, server.log_term, server.settings, 5)
    answer = server.conclude(0.5 + spread * [0.1, 0.2], np.full((5, 1), 0.04), binary([0] * 5))
    first, weight = 2 * (8 / 0.04) ** 2, 4 * (n / 0.04) ** 2
    het2 = (0.155 * first + (0.025 - 0.04 / n) * weight) / (first + weight)
    assert answer.estimates[:2].tolist() == pytest.approx([0.04, max(0.0, het2)])


def test_a_loud_client_weighs_less_and_is_not_compared():
    """Variances 0.01, 0.02 and 0.8: the limit is ten times that of the quieter half, 0.2, and the last weighs 1/4."""
    server = make_federation("pf-pne+", Task(LINE, 3, 1_000)).server
    answer = server.conclude(np.array([[0.4], [0.6], [0.9]]), np.array([[0.01], [0.02], [0.8]]), binary([0] * 3))
    assert answer.total_weight.tolist() == [2.25] and answer.estimates[2] == pytest.approx(0.2)
    assert answer.means.tolist() == pytest.approx([(0.4 + 0.6 + 0.9 / 4) / 2.25])
    # three times the variance of the weighted mean, per pull
    assert answer.estimates[0] == pytest.approx(3 * (0.01 + 0.02 + 0.8 / 16) / 2.25**2)
    assert answer.estimates[1] == pytest.approx(0.02 - 0.015 / 8)  # across the first two
    plain = make_federation("pf-pne+", Task(LINE, 3, 1_000), noise_aware=False).server
    answer = plain.conclude(np.array([[0.4], [0.6], [0.9]]), np.array([[0.01], [0.02], [0.8]]), binary([0] * 3))
    assert answer.total_weight.tolist() == [3] and answer.means.tolist() == pytest.approx([1.9 / 3])


@pytest.mark.parametrize("quieter", [[0.02], [0.01, 0.02, 0.03]])
def test_with_an_even_number_of_clients_the_limit_is_ten_times_the_lower_variance_in_the_middle(quieter):
    """The middle of 0.02 and 0.8 is 0.02, as that of 0.01, 0.02, 0.03 and 0.8: the last client weighs 0.2 / 0.8."""
    M = len(quieter) + 1
    server = make_federation("pf-pne+", Task(LINE, M, 1_000)).server
    means, variances = np.array([[0.4]] * (M - 1) + [[0.9]]), np.array([[v] for v in (*quieter, 0.8)])
    answer = server.conclude(means, variances, binary([0] * M))
    assert answer.estimates[2] == pytest.approx(0.2) and answer.total_weight.tolist() == [M - 0.75]
    assert answer.means.tolist() == pytest.approx([(0.4 * (M - 1) + 0.9 / 4) / (M - 0.75)])


@pytest.mark.parametrize(("sigma", "going"), [(0.029, 0), (0.031, 1)])
def test_where_there_is_next_to_no_noise_clients_do_not_search_together(sigma, going):
    server = make_federation("pf-pne+", Task(LINE, 4, 1_000)).server
    answer = server.conclude(np.full((4, 1), 0.5), np.full((4, 1), sigma**2), binary([0] * 4))
    assert answer.continues.tolist() == [going]


@pytest.mark.parametrize(
    ("M", "safe", "limited"), [(2, False, True), (3, False, True), (4, False, False), (4, True, True)]
)
def test_few_clients_and_safe_ones_search_together_for_a_limited_time(M, safe, limited):
    problem = pfpne.make_problem("garland", n_clients=M, shift=0.0, common_shift=0.1, noise=0.5)
    last = pfpne.simulate("pf-pne+", problem, 8_000, safe=safe).communication["t"].max()
    assert (last <= 400) == limited  # 8,000^(2/3)


def test_one_client_is_alone_at_once():
    server = make_federation("pf-pne+", Task(LINE, 1, 1_000)).server
    answer = server.conclude(np.array([[0.5]]), np.array([[0.01]]), binary([0]))
    assert answer.continues.tolist() == [0] and not server.continues


def shared(h: int, index, means, het2: float, limit=0.0, total=3.0, going=1) -> SharedStatistics:
    return SharedStatistics(h, index, means, [0.4, het2, limit], [total], [going])


def finished(means, answer, n=4, parents=None, c=0.1, variances=0.4) -> FinishedDepth:
    index, S = np.arange(1, len(answer.means) + 1), len(means)
    return FinishedDepth(index, parents, means, n, np.broadcast_to(variances, (S,)), c, answer)


def test_what_a_client_knows_is_its_own_mean_and_that_of_the_others():
    algorithm = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3)
    means = np.array([[0.3], [0.6], [0.9]])  # of the others: 0.75, 0.6, 0.45
    depth = finished(means, shared(0, [1], [0.6], 0.1))
    # alike: the others' 8 pulls count as 8, and all know the mean of all
    known, counts = algorithm.combine_with_others(depth, 0.0)
    assert counts.ravel().tolist() == [12] * 3 and known[:, 0].tolist() == pytest.approx([0.6, 0.6, 0.6])
    # het^2 = 0.1: 8 x 0.4 / (0.4 + 4 x 3 x 0.1) = 2 pulls; (4 x 0.3 + 2 x 0.75) / 6, ...
    known, counts = algorithm.combine_with_others(depth, 0.1)
    assert counts.ravel().tolist() == pytest.approx([6] * 3) and known[:, 0].tolist() == pytest.approx(
        [0.45, 0.6, 0.75]
    )
    # for a search by a Gaussian process the others' mean counts as at most the client's own 4 pulls
    modelled = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(gaussian_process=True), 3)
    known, counts = modelled.combine_with_others(depth, 0.0)
    assert counts.ravel().tolist() == [8] * 3 and known[:, 0].tolist() == pytest.approx([0.525, 0.6, 0.675])
    assert modelled.combine_with_others(depth, 0.1)[1].ravel().tolist() == pytest.approx([6] * 3)
    for alone in ({"shared_means": False}, {"safe": True}):
        known, counts = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(**alone), 3).combine_with_others(depth, 0.1)
        assert known is means and counts.ravel().tolist() == [4] * 3


def test_a_client_keeps_its_own_mean_where_the_others_differ_too_much():
    """Three errors of the difference of a mean of 4 and one of 8: 3 sqrt(0.4 / 4 + 0.4 / 8) = 1.16."""
    algorithm = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3)
    means = np.array([[0.0, 0.0], [1.15, 1.17], [1.15, 1.17]])
    depth = finished(means, shared(1, [1, 2], means.mean(axis=0), 0.0))
    known, counts = algorithm.combine_with_others(depth, 0.0)
    assert counts[0].tolist() == [12, 4] and known[0].tolist() == pytest.approx([2.3 / 3, 0.0])
    assert counts[1].tolist() == [12, 12]  # from the mean of the two others these differ by half as much
    loud = depth._replace(variances=np.array([0.5, 0.4, 0.4]))  # of a noise of its own: 3 sqrt(0.5 / 4 + 0.4 / 8)
    assert algorithm.combine_with_others(loud, 0.0)[1][0].tolist() == [12, 12]
    trusting = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(own_check=False), 3)
    assert trusting.combine_with_others(depth, 0.0)[1].tolist() == [[12, 12]] * 3


def test_a_loud_client_takes_its_own_share_out_of_the_global_mean():
    """Weights 1, 1 and 1/4: the global mean is (0.4 + 0.6 + 0.8 / 4) / 2.25."""
    algorithm = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(own_check=False), 3)
    means = np.array([[0.4], [0.6], [0.8]])
    answer = shared(0, [1], [1.2 / 2.25], 0.0, limit=0.2, total=2.25)
    known, _ = algorithm.combine_with_others(finished(means, answer, variances=np.array([0.01, 0.02, 0.8])), 0.0)
    others = np.array([(0.6 + 0.2) / 1.25, (0.4 + 0.2) / 1.25, 0.5])
    assert known[:, 0].tolist() == pytest.approx(((4 * means[:, 0] + 8 * others) / 12).tolist())


@pytest.mark.parametrize(("own", "expected"), [(0.4, 0.4), (1.5, 0.4), (1.7, 1.7), (0.11, 0.4), (0.09, 0.09)])
def test_a_client_of_another_noise_has_a_c_of_its_own(own, expected):
    """sigma^2 is 0.4: a client's own variance counts if it is more than four times that, or less than a quarter."""
    algorithm = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3)
    algorithm.variances, algorithm.binary = np.array([own, 0.4, 0.4]), np.zeros(3, dtype=bool)
    depths = [finished(np.full((3, 1), 0.5), shared(0, [1], [0.5], 0.0, going=0))]
    first, second, _ = (
        tree.constants.squared_half_width[-1] for tree in algorithm.stage_2(PlusSettings(), depths, 5).trees
    )
    assert first / second == pytest.approx(expected / 0.4)
    safe = PlusSettings(safe=True)  # then each has the c of its own noise
    first, second, _ = (tree.constants.squared_half_width[-1] for tree in algorithm.stage_2(safe, depths, 5).trees)
    assert first / second == pytest.approx(own / 0.4)
    algorithm.binary[:] = True  # the variance of binary rewards follows from where they are
    first, second, _ = (
        tree.constants.squared_half_width[-1] for tree in algorithm.stage_2(PlusSettings(), depths, 5).trees
    )
    assert first == second
    algorithm.variances = np.zeros(3)  # all four rewards at the root were equal: that is no lack of noise
    tree, *_ = algorithm.stage_2(safe, depths, 5).trees
    expected = hct_constants(HCTSettings(c=0.5 * np.sqrt(0.1 * 0.9)), LINE, 100)
    assert tree.constants.squared_half_width[-1] == pytest.approx(expected.squared_half_width[-1])


def test_safe_counts_the_pulls_of_the_root_where_all_binary_rewards_there_were_equal():
    """No success in the 4 pulls of the root is 0.5 / 5 of one, however many pulls the depth below has."""
    algorithm, means = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3), np.zeros((3, 1))
    algorithm.variances, algorithm.binary = np.zeros(3), np.ones(3, dtype=bool)
    root, last = shared(0, [1], [0.0], 0.0), shared(1, [1, 2], [0.0, 0.0], 0.0, going=0)
    depths = [finished(means, root), finished(np.tile(means, 2), last, n=40, parents=np.array([0, 0]))]
    tree = next(algorithm.stage_2(PlusSettings(safe=True), depths, 85).trees)
    expected = hct_constants(HCTSettings(c=0.5 * np.sqrt(0.1 * 0.9)), LINE, 100)
    assert tree.constants.squared_half_width[-1] == pytest.approx(expected.squared_half_width[-1])


def test_how_far_the_clients_differ_at_the_last_depth_decides_for_all_depths():
    algorithm, means = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3), np.array([[0.3], [0.6], [0.9]])
    algorithm.variances, algorithm.binary = np.full(3, 0.4), np.zeros(3, dtype=bool)
    root = shared(0, [1], [0.6], 0.0)  # alike so far
    last = shared(1, [1, 2], [0.6, 0.6], 0.1, going=0)  # as above: worth 2 pulls, not 8
    depths = [finished(means, root), finished(np.tile(means, 2), last, parents=np.array([0, 0]))]
    node = next(algorithm.stage_2(PlusSettings(), depths, 13).trees).node[:3]
    assert node["count"].tolist() == pytest.approx([6, 6, 6])
    assert (node["total"] / node["count"]).tolist() == pytest.approx([0.45, 0.45, 0.45])


@pytest.mark.parametrize(("shared_means", "safe"), [(True, False), (False, False), (True, True)])
def test_what_elimination_is_handed_in_the_place_of_a_tree(monkeypatch, shared_means, safe):
    """Three clients, other constants at each depth; of two nodes the second stays, whose mean is of 3 n rewards."""
    settings = PlusSettings(shared_means=shared_means, safe=safe, delta=0.2)
    algorithm, given = PFPNEPlus(Task(LINE, 3, 100), settings, 3), []
    monkeypatch.setattr(PFPNEPlus, "pe", lambda self, kept, drawn: given.extend((kept, drawn)) or iter(()))
    means = np.array([[0.3, 0.7], [0.6, 0.7], [0.9, 0.1]])
    depths = [
        finished(means[:, :1], shared(0, [1], [0.6], 0.0), n=8, c=0.5),
        finished(means, shared(1, [2], [0.6, 0.5], 0.1, going=0), parents=np.array([0, 0])),
    ]
    assert [*algorithm.stage_2_by_elimination(depths)] == []
    kept, drawn = given
    assert {h: tuple(array.tolist() for array in message.values) for h, message in kept.items()} == (
        {
            0: ([1], [0.6], pytest.approx([0.5 * np.sqrt(np.log(500) / 24)])),
            1: ([2], [0.5], pytest.approx([0.1 * np.sqrt(np.log(500) / 12)])),
        }
        if shared_means and not safe
        else {}
    )
    assert [(index.tolist(), n) for index, _, n in drawn.values()] == [([1], 8), ([1, 2], 4)]
    assert np.array_equal(drawn[0][1], 8 * means[:, :1]) and np.array_equal(drawn[1][1], 4 * means)


def test_the_trees_have_the_smoothness_that_is_given():
    """nu_1 in the U-values and the thresholds of stage 2; its rho in the U-values, 0.7 in the thresholds."""
    task, settings = Task(LINE, 2, 200), PlusSettings(nu_1=0.3, rho=0.4)
    (ours, alone) = (hct_constants_for(s, 0.2, task) for s in (settings, NoiseHCTSettings(nu_1=0.3, rho=0.4)))
    assert ours.diameter[:3].tolist() == pytest.approx([0.3, 0.12, 0.048])
    plain, early = (hct_constants(HCTSettings(0.3, rho, 0.2), LINE, 200) for rho in (0.4, 0.7))
    assert np.array_equal(ours.threshold, early.threshold) and np.array_equal(alone.threshold, plain.threshold)
    assert all(np.array_equal(made.squared_half_width, plain.squared_half_width) for made in (ours, alone))
    assert plain.threshold[-1, 2] == np.ceil(plain.squared_half_width[-1] * 0.4**-4 / 0.09)


def test_until_its_own_first_step_a_client_deploys_the_best_of_the_last_depth():
    problem = pfpne.make_problem("garland", 3, shift=0.2, noise=0.1)
    task = Task(LINE, 3, 500)
    run, handed, rng = make_federation("pf-pne+", task), 0, np.random.default_rng(0)
    while run.running:
        for m, batch in run.ask():
            client = run.clients[m]
            if client.tree is not None and client.tree.state[0]["next_step"] == client.tree.t + 1:
                node = client.tree.node[: client.tree.state[0]["size"]]
                last = node[(node["depth"] == node["depth"].max()) & (node["count"] > 0)]
                best = last[np.argmax(last["total"] / last["count"])]
                assert len(last) > 1 and client.best() == LINE.centers(best["depth"], best["index"])
                handed += 1
            values = np.repeat(problem.client_values(m, batch.points), batch.counts)
            run.tell(m, values + 0.2 * rng.standard_normal(len(values)))
    assert handed == 3


def test_a_tree_is_handed_over_with_its_bounds():
    theory = hct_constants(HCTSettings(), LINE, 100)
    warm_start = [
        StartingDepth(np.array([1]), None, np.array([[0.5]]), np.array([[8.0]])),
        StartingDepth(np.array([1, 2]), np.array([0, 0]), np.array([[0.3, 0.7]]), np.array([[4.5, 3.5]])),
        StartingDepth(np.array([3, 4]), np.array([1, 1]), np.array([[0.6, 0.9]]), np.array([[2.0, 2.0]])),
    ]
    tree = warm_start_tree(Task(LINE, 1, 100), theory, warm_start, 0, 15, free=True)
    node = tree.node[:5]
    assert node["index"].tolist() == [1, 1, 2, 3, 4] and node["depth"].tolist() == [0, 1, 1, 2, 2]
    assert node["parent"].tolist() == [-1, 0, 0, 2, 2] and node["first_child"].tolist() == [1, -1, 3, -1, -1]
    assert node["free"].tolist() == [1, 0, 1, 0, 0] and node["count"].tolist() == [8, 4.5, 3.5, 2, 2]
    U = 0.9 + 0.25 + np.sqrt(theory.squared_half_width[4] / 2)  # t = 15: t+ = 16
    assert node["U"][4] == pytest.approx(U) and node["B"][2] == min(node["U"][2], node["B"][3:].max())
    assert tree._ask().points.tolist() == [[7 / 8]] and tree.best() == [1 / 2]  # what it deploys is its own to find
    tree._tell(tree._ask(), np.array([0.9]))
    assert tree.best() == [7 / 8]


def test_without_its_parts_it_is_pf_pne_save_for_the_root():
    off = dict.fromkeys([part for part in PARTS_IN_WORDS if part != "shared_means"], False)
    for Delta in (0.1, 0.01):
        plain, _ = pulls("pf-pne", 2_000, c=0.3, Delta=Delta)
        ours, _ = pulls("pf-pne+", 2_000, c=0.3, Delta=Delta, **off)
        n = min(len(plain), len(ours)) - 2  # the horizon cuts the last at another pull
        assert ours[0] == (0.5, ROOT_PULLS * plain[0][1]) and n > 10 and ours[1:n] == plain[1:n]


def test_every_part_matters():
    problem = pfpne.make_problem("garland", n_clients=6, shift=0.05, noise=1.0)
    whole = pfpne.simulate("pf-pne+", problem, 3_000).regret
    for part in PARTS_IN_WORDS:
        assert not np.array_equal(whole, pfpne.simulate("pf-pne+", problem, 3_000, **{part: False}).regret), part


def test_stage_1_ends_where_clients_are_seen_to_differ_and_goes_on_where_they_are_alike():
    _, mail = pulls("pf-pne+", 5_000, noise=0.1)
    assert [answer[0].continues.tolist() for _, _, answer in mail][-1] == [0] and mail[-1][0] < 100
    alike = pfpne.make_problem("garland", n_clients=5, shift=0.0, common_shift=0.1, noise=0.3)
    assert pfpne.simulate("pf-pne+", alike, 2_000).communication["t"].max() > 1_000


def test_a_phase_of_stage_1_has_the_c_that_the_noise_of_the_one_before_asks_for():
    settings = PlusSettings()
    assert (
        stage1_settings(settings, 0.09) == replace(settings, c=0.2 * 0.3, rho=0.63)
        and stage1_settings(settings, 0.0).c == 0.01
    )
    assert stage1_settings(replace(settings, noise_aware=False, early_descent=False), 0.09) == replace(
        settings, noise_aware=False, early_descent=False
    )
    problem = pfpne.make_problem("himmelblau", n_clients=4, shift=0.0, common_shift=0.1, noise="bernoulli")
    every = pfpne.simulate("pf-pne+", problem, 20_000, messages=True).messages
    mail = [(t, message) for t, way, m, message in every if way == "down" and m == 0]
    log_term, noises = settings.log_term_for(20_000, 4), set()
    for (before, answer), (after, _) in itertools.pairwise(mail):
        n = n_pulls_per_client(answer.header + 1, log_term, stage1_settings(settings, answer.estimates[0]), 4)
        assert after - before == 2 * len(answer.index) * n
        noises.add(answer.estimates[0])
    assert len(mail) > 5 and len(noises) > 5 and n > 1


def test_what_is_sent():
    _, mail = pulls("pf-pne+", 500, noise=0.1)
    for depth, (_, up, down) in enumerate(mail):
        assert [type(m).__name__ for m in up] == ["DepthStatistics"] * 2
        n = len(up[0].means)
        assert up[0].header == depth and up[0].n_numbers == n + 2
        assert down[0].n_numbers == len(down[0].index) + n + 5


@pytest.mark.parametrize("name", ["pf-pne+", "hct-noise"])
@pytest.mark.parametrize("noise", ["bernoulli", 0.5])
def test_the_fast_form_is_the_objects(name, noise):
    problem = pfpne.make_problem("himmelblau", n_clients=3, shift=0.02, noise=noise)
    tries = [{"partition": Partition(problem.domain, max_depth=depth)} for depth in (0, 1, 5)]
    tries += [{}, {"partition": Partition(problem.domain, k=3, max_depth=20)}]
    # what is left out has nothing to do with the kind of cells, and cyclic ones are found faster
    cyclic = Partition(problem.domain, cells="cyclic")
    tries += [{part: False, "partition": cyclic} for part in PARTS_IN_WORDS if name == "pf-pne+"]
    for given in tries:
        fast, slow = (pfpne.simulate(name, problem, 200, global_regret=True, objects=o, **given) for o in (False, True))
        for field in ("regret", "global_regret", "simple_regret", "rounds", "best"):
            assert np.array_equal(getattr(fast, field), getattr(slow, field)), (given, field)


def test_switches_are_booleans():
    with pytest.raises(ValueError, match="optimistic"):
        PlusSettings(optimistic=1)


def test_safe_starts_from_its_own_pulls_and_pulls_nodes_up_to_their_thresholds():
    problem, trees = pfpne.make_problem("garland", n_clients=4, shift=0.0, common_shift=0.1, noise=1.0), {}
    for safe in (False, True):
        run, sums = make_federation("pf-pne+", Task(LINE, 4, 3_000), safe=safe), {}
        rng = np.random.default_rng(1)
        while run.running:
            for m, batch in run.ask():
                client = run.clients[m]
                if client.tree is not None and (safe, m) not in trees:
                    trees[safe, m] = client.tree.node[: client.tree.state[0]["size"]].copy(), dict(sums)
                rewards = np.repeat(problem.client_values(m, batch.points), batch.counts)
                rewards = rewards + rng.uniform(-1, 1, len(rewards))
                if m == 0:
                    for x, part in zip(
                        batch.points[:, 0], np.split(rewards, np.cumsum(batch.counts)[:-1]), strict=True
                    ):
                        total, count = sums.get(x, (0.0, 0))
                        sums[x] = total + part.sum(), count + len(part)
                run.tell(m, rewards)
    node, sums = trees[True, 0]
    pulled = node[node["count"] > 0]
    assert len(pulled) > 5 and not node["free"].any()
    for row in pulled:
        total, count = sums[LINE.centers(row["depth"], row["index"])[0, 0]]
        assert row["count"] == count and row["total"] == pytest.approx(total)


def test_the_limit_of_the_weights_is_one_that_clients_take():
    """Nearly binary rewards of a known range: ten times their variance is more than any can be."""
    task, rng = Task(LINE, 5, 200, reward_range=(0, 1)), np.random.default_rng(0)
    run = make_federation("pf-pne+", task)
    while run.running:
        for m, batch in run.ask():
            run.tell(m, rng.choice([0.0, 0.5, 1.0], batch.size, p=[0.45, 0.1, 0.45]))
    assert all(client.t == 200 for client in run.clients)
