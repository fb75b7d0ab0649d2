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
    PARTS,
    ROOT_PULLS,
    FinishedDepth,
    NoiseHCTSettings,
    PFPNEPlus,
    PlusSettings,
    SharedStatistics,
    binary_variance,
    confidence_constant,
    equivalent_pulls,
    hct_constants_for,
    heterogeneity,
    stage1_settings,
    warm_start_tree,
)
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
                pulled += zip(batch.points[:, 0].tolist(), batch.counts.tolist(), strict=True)
            rewards = np.repeat(value(m, batch.points), batch.counts)
            run.tell(m, rewards + noise * (2 * rng.random(len(rewards)) - 1))
    return pulled, mail


def test_constants_by_hand():
    assert confidence_constant(0.0) == 0.05 and confidence_constant(0.25) == pytest.approx(0.35)
    # two nodes, three clients: variances 0.01 and 0.03, mean 0.02; less 0.001, less 3 x 0.001 sqrt(2 / 4)
    means = np.array([[0.1, 0.0], [0.2, np.sqrt(0.03)], [0.3, -np.sqrt(0.03)]])
    assert heterogeneity(means, 4, 0.004, False) == pytest.approx((0.02 - 0.001, 2 / 0.001**2))
    assert heterogeneity(means, 4, 0.004, True) == pytest.approx(((0.02 - 0.001) / 0.75, 2 * 0.75**2 / 0.001**2))
    assert heterogeneity(means[:1], 4, 0.0, False) == (0, 0) == heterogeneity(means, 1, 0.2, True)
    # twelve pulls of each node, a third and a half of them 1: the sample variances of all of them
    assert binary_variance(np.array([[0.25, 0.5], [0.5, 0.5], [0.25, 0.5]]), 4) == pytest.approx(
        (2 / 9 + 1 / 4) / 2 * 12 / 11
    )
    assert equivalent_pulls(4, 5, 0.3, 0.0) == 16 and equivalent_pulls(4, 5, 0.0, 0.1) == 0
    # het^2 M / (M - 1) + sigma^2 / (n (M - 1)) = 0.125 + 0.3 / 16; 0.3 over that
    assert equivalent_pulls(4, 5, 0.3, 0.1) == pytest.approx(0.3 / (0.125 + 0.3 / 16))


@pytest.mark.parametrize("binary", [False, True])
def test_het_is_found_as_it_is_and_as_surely_as_it_says(binary):
    rng = np.random.default_rng(1)
    for het in (0.0, 0.1):
        found = []
        for _ in range(400):
            values = 0.5 + het * rng.normal(0, 1, (20, 4))
            means = rng.binomial(8, values.clip(0, 1)) / 8 if binary else rng.normal(values, 0.5 / np.sqrt(8))
            variance = binary_variance(means, 8) if binary else 0.25
            found.append(heterogeneity(means, 8, variance, binary))
        found, precision = np.transpose(found)
        assert found.mean() == pytest.approx(het**2, abs=4 * found.std() / 20)
        if het == 0:
            assert found.std() == pytest.approx((precision**-0.5).mean(), rel=0.15)


def test_binary_rewards_are_seen_to_be_binary():
    def server(rewards):
        server, _ = make_federation("pf-pne+", Task(LINE, 2, 1_000)).server, None
        server.conclude(rewards.mean(axis=1, keepdims=True), rewards.var(axis=1, ddof=1, keepdims=True))
        return server

    n = ROOT_PULLS * n_pulls_per_client(0, PlusSettings().log_term(1_000, 2), PlusSettings(), 2)
    rng = np.random.default_rng(0)
    zeros_and_ones, others = rng.integers(0, 2, (2, n)).astype(float), rng.random((2, n))
    assert server(zeros_and_ones).binary and not server(others).binary and not server(np.ones((2, n))).binary


@pytest.mark.parametrize(("nu_1", "going"), [(0.4, True), (0.378, True), (0.37, False)])
def test_stage_1_ends_where_het_less_three_standard_errors_is_more_than_the_smoothness(nu_1, going):
    # three clients, 8 pulls each: variance of the means 0.16, less 0.04 / 8: het^2 = 0.155, standard error 0.005.
    # 0.155 - 0.015 = 0.14, below 0.378^2 = 0.1429 and above 0.37^2 = 0.1369
    server = make_federation("pf-pne+", Task(LINE, 3, 1_000), nu_1=nu_1).server
    answer = server.conclude(np.array([[0.1], [0.5], [0.9]]), np.array([[0.01], [0.02], [0.09]]))
    assert answer.variances.tolist() == pytest.approx([0.04, 0.155])
    assert answer.continues.tolist() == [going] and server.continues == going


def test_what_depths_show_of_het_is_weighted_by_how_surely_they_do():
    # depth 0 as above: het^2 = 0.155, precision (8 / 0.04)^2 = 40,000. Depth 1, two nodes, n pulls each: the variances
    # 0.01 and 0.04, less 0.04 / n; twice as many nodes, (n / 0.04)^2 each.
    server = make_federation("pf-pne+", Task(LINE, 3, 1_000), nu_1=2.0).server
    server.conclude(np.array([[0.1], [0.5], [0.9]]), np.full((3, 1), 0.04))
    n = n_pulls_per_client(1, server.log_term, server.settings, 3)
    answer = server.conclude(np.array([[0.4, 0.3], [0.5, 0.5], [0.6, 0.7]]))
    weight = 2 * (n / 0.04) ** 2
    het2 = (0.155 * 40_000 + (0.025 - 0.04 / n) * weight) / (40_000 + weight)
    assert answer.variances.tolist() == pytest.approx([0.04, max(0.0, het2)])


def test_one_client_is_alone_at_once():
    server = make_federation("pf-pne+", Task(LINE, 1, 1_000)).server
    assert server.conclude(np.array([[0.5]]), np.array([[0.01]])).continues.tolist() == [0] and not server.continues


def test_what_a_client_knows_is_its_own_mean_and_that_of_the_others():
    phases = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3)
    means = np.array([[0.3], [0.6], [0.9]])  # of the others: 0.75, 0.6, 0.45
    answer = SharedStatistics(0, [1], [0.6], [0.4, 0.1], [1])
    # alike: the others' 8 pulls count as 8, and all know the mean of all
    known, count = phases.pool_with_global(means, 4, answer, 0.0)
    assert count == 12 and known[:, 0].tolist() == pytest.approx([0.6, 0.6, 0.6])
    # het^2 = 0.1: 8 x 0.4 / (0.4 + 4 x 3 x 0.1) = 2 pulls; (4 x 0.3 + 2 x 0.75) / 6, ...
    known, count = phases.pool_with_global(means, 4, answer, 0.1)
    assert count == pytest.approx(6) and known[:, 0].tolist() == pytest.approx([0.45, 0.6, 0.75])
    alone = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(shared_means=False), 3)
    assert alone.pool_with_global(means, 4, answer, 0.1)[1] == 4


def test_how_far_the_clients_differ_at_the_last_depth_decides_for_all_depths():
    phases, means = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(), 3), np.array([[0.3], [0.6], [0.9]])
    root = SharedStatistics(0, [1], [0.6], [0.4, 0.0], [1])  # alike so far
    last = SharedStatistics(1, [1, 2], [0.6, 0.6], [0.4, 0.1], [0])  # as above: worth 2 pulls, not 8
    depths = [
        FinishedDepth(np.array([1]), None, means, 4, 0.1, root),
        FinishedDepth(np.array([1, 2]), np.array([0, 0]), np.tile(means, 2), 4, 0.1, last),
    ]
    node = next(phases.stage_2(PlusSettings(), depths, 13).trees).node[:3]
    assert node["count"].tolist() == pytest.approx([6, 6, 6])
    assert (node["total"] / node["count"]).tolist() == pytest.approx([0.45, 0.45, 0.45])


@pytest.mark.parametrize("shared_means", [True, False])
def test_what_elimination_is_handed_in_the_place_of_a_tree(monkeypatch, shared_means):
    """Three clients, other constants at each depth; of two nodes the second stays, whose mean is of 3 n rewards."""
    phases, given = PFPNEPlus(Task(LINE, 3, 100), PlusSettings(shared_means=shared_means, delta=0.2), 3), []
    monkeypatch.setattr(PFPNEPlus, "pe", lambda self, shared, own: given.extend((shared, own)) or iter(()))
    means = np.array([[0.3, 0.7], [0.6, 0.7], [0.9, 0.1]])
    root = SharedStatistics(0, [1], [0.6], [0.4, 0.0], [1])
    last = SharedStatistics(1, [2], [0.6, 0.5], [0.4, 0.1], [0])
    depths = [
        FinishedDepth(np.array([1]), None, means[:, :1], 8, 0.5, root),
        FinishedDepth(np.array([1, 2]), np.array([0, 0]), means, 4, 0.1, last),
    ]
    assert [*phases.stage_2_by_elimination(depths)] == []
    shared, own = given
    assert {h: (index.tolist(), mean.tolist(), b.tolist()) for h, (index, mean, b) in shared.items()} == (
        {
            0: ([1], [0.6], pytest.approx([0.5 * np.sqrt(np.log(500) / 24)])),
            1: ([2], [0.5], pytest.approx([0.1 * np.sqrt(np.log(500) / 12)])),
        }
        if shared_means
        else {}
    )
    assert [(index.tolist(), n) for index, _, n in own.values()] == [([1], 8), ([1, 2], 4)]
    assert np.array_equal(own[0][1], 8 * means[:, :1]) and np.array_equal(own[1][1], 4 * means)


def test_the_trees_have_the_smoothness_that_is_given():
    """nu_1 in the U-values and the thresholds of stage 2; its rho in the U-values, 0.7 in the thresholds."""
    task, settings = Task(LINE, 2, 200), PlusSettings(nu_1=0.3, rho=0.4)
    (ours, alone) = (hct_constants_for(s, 0.2, task) for s in (settings, NoiseHCTSettings(nu_1=0.3, rho=0.4)))
    assert ours.diameter[:3].tolist() == pytest.approx([0.3, 0.12, 0.048])
    plain, early = (hct_constants(HCTSettings(0.3, rho, 0.2), LINE, 200) for rho in (0.4, 0.7))
    assert np.array_equal(ours.threshold, early.threshold) and np.array_equal(alone.threshold, plain.threshold)
    assert all(np.array_equal(made.squared_width, plain.squared_width) for made in (ours, alone))
    assert plain.threshold[-1, 2] == np.ceil(plain.squared_width[-1] * 0.4**-4 / 0.09)


def test_until_its_own_first_step_a_client_deploys_the_best_of_the_last_depth():
    problem = pfpne.make_problem("garland", 3, shift=0.2, noise=0.1)
    task = Task(LINE, 3, 500)
    run, handed = make_federation("pf-pne+", task), 0
    while run.running:
        for m, batch in run.ask():
            client = run.clients[m]
            if client.tree is not None and client.tree.state[0]["t"] == client.tree.t + 1:
                node = client.tree.node[: client.tree.state[0]["size"]]
                last = node[(node["depth"] == node["depth"].max()) & (node["count"] > 0)]
                best = last[np.argmax(last["total"] / last["count"])]
                assert len(last) > 1 and client.best() == LINE.centers(best["depth"], best["index"])
                handed += 1
            run.tell(m, np.repeat(problem.client_values(m, batch.points), batch.counts))
    assert handed == 3


def test_a_tree_is_handed_over_with_its_bounds():
    theory = hct_constants(HCTSettings(), LINE, 100)
    depths = [
        (np.array([1]), None, np.array([[0.5]]), 8),
        (np.array([1, 2]), np.array([0, 0]), np.array([[0.3, 0.7]]), 4.5),
        (np.array([3, 4]), np.array([1, 1]), np.array([[0.6, 0.9]]), 2),
    ]
    tree = warm_start_tree(Task(LINE, 1, 100), theory, depths, 0, 15, free=True)
    node = tree.node[:5]
    assert node["index"].tolist() == [1, 1, 2, 3, 4] and node["depth"].tolist() == [0, 1, 1, 2, 2]
    assert node["parent"].tolist() == [-1, 0, 0, 2, 2] and node["child"].tolist() == [1, -1, 3, -1, -1]
    assert node["free"].tolist() == [1, 0, 1, 0, 0] and node["count"].tolist() == [8, 4.5, 4.5, 2, 2]
    U = 0.9 + 0.25 + np.sqrt(theory.squared_width[4] / 2)  # t = 15: t+ = 16
    assert node["U"][4] == pytest.approx(U) and node["B"][2] == min(node["U"][2], node["B"][3:].max())
    assert tree._ask().points.tolist() == [[7 / 8]] and tree.best() == [1 / 2]  # what it deploys is its own to find
    tree._tell(tree._ask(), np.array([0.9]))
    assert tree.best() == [7 / 8]


def test_without_its_parts_it_is_pf_pne_save_for_the_root():
    off = dict.fromkeys([part for part in PARTS if part != "shared_means"], False)
    for Delta in (0.1, 0.01):
        plain, _ = pulls("pf-pne", 2_000, c=0.3, Delta=Delta)
        ours, _ = pulls("pf-pne+", 2_000, c=0.3, Delta=Delta, **off)
        n = min(len(plain), len(ours) - ROOT_PULLS * plain[0][1]) - 2  # the horizon cuts the last at another pull
        assert n > 10 and ours[ROOT_PULLS * plain[0][1] :][:n] == plain[1:][:n]


def test_every_part_matters():
    problem = pfpne.make_problem("garland", n_clients=6, shift=0.2, noise=0.3)
    whole = pfpne.simulate("pf-pne+", problem, 3_000).regret
    for part in PARTS:
        assert not np.array_equal(whole, pfpne.simulate("pf-pne+", problem, 3_000, **{part: False}).regret), part


def test_stage_1_ends_where_clients_are_seen_to_differ_and_goes_on_where_they_are_alike():
    _, mail = pulls("pf-pne+", 5_000, noise=0.1)
    assert [answer[0].continues.tolist() for _, _, answer in mail][-1] == [0] and mail[-1][0] < 100
    alike = pfpne.make_problem("garland", n_clients=5, shift=0.0, common=0.1, noise=0)
    assert pfpne.simulate("pf-pne+", alike, 2_000).communication["t"].max() > 1_000


def test_a_phase_of_stage_1_has_the_c_that_the_noise_of_the_one_before_asks_for():
    settings = PlusSettings()
    assert (
        stage1_settings(settings, 0.09) == replace(settings, c=0.2 * 0.3, rho=0.65)
        and stage1_settings(settings, 0.0).c == 0.02
    )
    assert stage1_settings(replace(settings, noise_aware=False, early_descent=False), 0.09) == replace(
        settings, noise_aware=False, early_descent=False
    )
    problem = pfpne.make_problem("himmelblau", n_clients=4, shift=0.0, common=0.1, noise="bernoulli")
    every = pfpne.simulate("pf-pne+", problem, 20_000, messages=True).messages
    mail = [(t, message) for t, way, m, message in every if way == "down" and m == 0]
    log_term, noises = settings.log_term(20_000, 4), set()
    for (before, answer), (after, _) in itertools.pairwise(mail):
        n = n_pulls_per_client(answer.header + 1, log_term, stage1_settings(settings, answer.variances[0]), 4)
        assert after - before == 2 * len(answer.index) * n
        noises.add(answer.variances[0])
    assert len(mail) > 5 and len(noises) > 5 and n > 1


def test_what_is_sent():
    _, mail = pulls("pf-pne+", 500, noise=0.1)
    for depth, (_, up, down) in enumerate(mail):
        assert [type(m).__name__ for m in up] == ["RootStatistics" if depth == 0 else "NodeMeans"] * 2
        n = len(up[0].means)
        assert up[0].n_numbers == (2 if depth == 0 else n)
        assert down[0].n_numbers == len(down[0].index) + n + 3


@pytest.mark.parametrize("name", ["pf-pne+", "hct-noise"])
@pytest.mark.parametrize("noise", ["bernoulli", 0.5])
def test_the_fast_form_is_the_objects(name, noise):
    problem = pfpne.make_problem("himmelblau", n_clients=3, shift=0.02, noise=noise)
    tries = [{"partition": Partition(problem.domain, max_depth=depth)} for depth in (0, 1, 5)]
    tries += [{}, {"partition": Partition(problem.domain, k=3, max_depth=20)}]
    tries += [{part: False} for part in PARTS if name == "pf-pne+"]
    for given in tries:
        fast, slow = (pfpne.simulate(name, problem, 300, global_regret=True, objects=o, **given) for o in (False, True))
        for field in ("regret", "global_regret", "simple_regret", "rounds", "best"):
            assert np.array_equal(getattr(fast, field), getattr(slow, field)), (given, field)


def test_switches_are_booleans():
    with pytest.raises(ValueError, match="optimistic"):
        PlusSettings(optimistic=1)
