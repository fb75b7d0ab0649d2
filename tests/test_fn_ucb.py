"""fn-ucb: its network, its steps written out, its fast form against the objects, its messages."""

import dataclasses

import numpy as np
import pytest

import pfpne
from pfpne.algorithms import make_federation
from pfpne.algorithms.arms import draw_arms
from pfpne.algorithms.fn_ucb import Arms, FNUCBSettings, NeuralStatistics, NewsRequest, gradients, network, train
from pfpne.federation import Task
from pfpne.partition import Partition
from pfpne.paths import LANDMINE_TABLE
from pfpne.problems import problem_from_functions
from pfpne.rng import stream
from pfpne.simulation import neural
from pfpne.simulation.neural import NeuralSimulation, mean_variance
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import Measurements

SHORT = {"ramp": 40, "stop": 90}  # alpha reaches 1 and training stops within a test


def make_problem(d=1, M=3, noise="bernoulli", run=0):
    """Smooth clients on a domain that is not the unit cube: f_m(x) = exp(-4 |u - s_m|^2 / d), u in [0,1]^d."""
    domain = np.stack([-1.0 - np.arange(d), 2.0 + np.arange(d)], axis=1)
    low, high = domain.T

    def bump(centre):
        return lambda x: np.exp(-4 / d * (((x - low) / (high - low) - centre) ** 2).sum(axis=1))

    functions = [bump(stream(1, "centre", run, m).random(d)) for m in range(M)]
    return problem_from_functions(functions, domain, noise, np.ones(M), 1.0, "smooth", seed=5, run=run)


def make_task(problem, T):
    partition = Partition(problem.domain)
    return Task(partition, problem.n_clients, T, problem.noise, problem.candidates, seed=5, key=("smooth", problem.run))


def simulation(problem, T, **settings):
    """The fast form before its first step."""
    streams = noise_streams(problem, 5, problem.run)
    return NeuralSimulation(problem, make_task(problem, T), FNUCBSettings(**settings), streams)


def play_objects(problem, T, **settings):
    """Arms (M, T) of the objects, the mail as (t, up, down), and the federation at the end."""
    task = make_task(problem, T)
    federation, points = make_federation("fn-ucb", task, **settings), draw_arms(task)
    mail, played, rngs = [], [[] for _ in federation.clients], noise_streams(problem, 5, problem.run)
    federation.on_mail = lambda t, up, down: mail.append((t, up, down))
    while federation.running:
        for m, batch in federation.ask():
            assert batch.size == 1
            played[m].append(int(np.flatnonzero((points == batch.points[0]).all(axis=1))[0]))
            values = problem.client_values(m, batch.points)
            federation.tell(m, draw_rewards(values, batch.counts, problem.noise, rngs[m]))
    return np.array(played), mail, federation


# --- arms and network -------------------------------------------------------------------------------


@pytest.mark.parametrize("d, K", [(1, 20), (2, 400), (3, 1000), (10, 1000)])
def test_arms_of_the_whole_domain(d, K):
    task = make_task(make_problem(d), 10)
    arms = draw_arms(task)
    assert arms.shape == (K, d)
    assert (task.partition.domain[:, 0] <= arms).all() and (arms <= task.partition.domain[:, 1]).all()
    assert len(np.unique(arms, axis=0)) == K
    low, high = task.partition.domain.T
    assert (np.ptp(arms, axis=0) > 0.7 * (high - low)).all()  # all over each dimension, of another width each
    np.testing.assert_array_equal(arms, draw_arms(task))
    assert not np.array_equal(arms, draw_arms(make_task(make_problem(d, run=1), 10)))
    if d == 2:
        assert len(np.unique(arms[:, 0])) == len(np.unique(arms[:, 1])) == 20
        first, last = arms.reshape(20, 20, 2).transpose(2, 0, 1)
        assert (first == first[:, :1]).all() and (last == last[:1]).all()  # the last dimension varies fastest


def test_arms_are_drawn_from_the_candidates():
    axes = np.linspace(0, 1, 127), np.linspace(0.1, 1.5, 127)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    problem = make_problem(2)
    problem.candidates = grid
    arms = draw_arms(make_task(problem, 10))
    assert arms.shape == (400, 2) and len(np.unique(arms, axis=0)) == 400
    assert {tuple(point) for point in arms} <= {tuple(point) for point in grid}
    assert len(np.unique(arms[:, 0])) == len(np.unique(arms[:, 1])) == 20
    problem.candidates = grid[: 127 * 3]  # three values on the first axis
    few = draw_arms(make_task(problem, 10))
    assert len(np.unique(few[:, 0])) == 3 and len(few) == 60


def test_in_more_dimensions_arms_are_drawn_from_all_candidates():
    problem = make_problem(3)
    problem.candidates = candidates = np.random.default_rng(0).random((1500, 3))
    arms, others = (draw_arms(make_task(problem, 10)) for problem.run in (0, 1))
    index = [np.flatnonzero((candidates == arm).all(axis=1)).item() for arm in arms]
    assert len(set(index)) == 1000 and 600 < np.less(index, 1000).sum() < 734  # about two of three
    assert not np.array_equal(arms, others)
    problem.candidates = candidates[:4]
    assert np.array_equal(np.unique(draw_arms(make_task(problem, 10)), axis=0), np.unique(candidates[:4], axis=0))


@pytest.mark.parametrize("d", [1, 2, 10])
def test_gradients_against_finite_differences(d):
    rng = np.random.default_rng(0)
    task = make_task(make_problem(d), 1)
    arms, (low, high) = Arms(task, 20), task.partition.domain.T
    inputs = arms.inputs[:, :7]
    np.testing.assert_allclose(inputs[:d].T * np.sqrt(d), (arms.points[:7] - low) / (high - low), atol=1e-15)
    assert (np.linalg.norm(arms.inputs[:d], axis=0) <= 1).all() and (arms.inputs[d] == 1).all()
    theta = rng.standard_normal(20 * d + 41)
    layer, output = theta[: 20 * (d + 1)].reshape(20, d + 1), theta[20 * (d + 1) :]
    by_hand = np.maximum(layer @ inputs, 0).T @ output[:20] + output[20]
    np.testing.assert_allclose(network(theta, inputs, 20)[0], by_hand, atol=1e-13)
    found, step = gradients(theta, inputs, 20), 1e-6
    for i, e in enumerate(step * np.eye(len(theta))):
        difference = network(theta + e, inputs, 20)[0] - network(theta - e, inputs, 20)[0]
        np.testing.assert_allclose(found[:, i], difference / (2 * step), atol=1e-7)


def descended(theta, inputs, r, s):
    """The weights after gradient descent on the mean squared error over a whole history: inputs (d + 1, n), r (n,)."""
    for _ in range(s.steps):
        error = network(theta, inputs, s.width)[0] - r
        slope = 2 * gradients(theta, inputs, s.width).T @ error / len(r)
        theta = theta - s.rate * (slope + s.lambda_ / len(r) * theta)
    return theta


def test_training_by_arms_is_training_on_the_history():
    rng = np.random.default_rng(1)
    s, d, M = FNUCBSettings(), 2, 3
    inputs = Arms(make_task(make_problem(d), 1), s.width).inputs[:, ::70]  # six of the 400
    history = np.array([0, 3, 3, 5, 0, 3, 1])
    r = rng.random((M, len(history)))
    theta = np.tile(rng.standard_normal(20 * d + 41), (M, 1))
    wanted = [descended(theta[m], inputs[:, history], r[m], s) for m in range(M)]
    counts = np.bincount(history, minlength=6)
    totals = np.array([np.bincount(history, weights=row, minlength=6) for row in r])
    alone = theta[[1]]
    train(theta, inputs, counts, totals, s)
    np.testing.assert_allclose(theta, wanted, atol=1e-13)
    train(alone, inputs, counts, totals[[1]], s)
    np.testing.assert_array_equal(alone[0], theta[1])  # bit for bit the same, whoever else trains


def test_diverging_weights_are_an_error():
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="diverged"):
        train(np.ones((1, 61)), np.ones((2, 1)), np.array([1]), np.array([[1e300]]), FNUCBSettings())


def test_alpha():
    s = FNUCBSettings()
    assert [s.alpha(t) for t in (0, 3, 4, 353, 703, 10**6)] == [0, 0, 1 / 700, 0.5, 1, 1]


# --- the class, written out -------------------------------------------------------------------------


@pytest.mark.parametrize("D, talks", [(0.0, [*range(2, 13)]), (4.0, None)])
def test_steps_written_out(D, talks):
    """Two clients without noise: every play kept, every matrix inverted anew, training on the whole history."""
    M, T, s = 2, 12, FNUCBSettings(D=D, start=2, ramp=4, stop=9)
    problem = make_problem(1, M, 0)
    arms = Arms(make_task(problem, T), s.width)
    g, x, r, prior = arms.g, arms.inputs, problem.values(arms.points), 0.1 * np.eye(61)
    theta, average, W = [arms.theta_0] * M, arms.theta_0, np.linalg.inv(prior)
    played, synced, t_last, done = np.zeros((M, T), dtype=int), 0, 0, []
    for t in range(T):
        alpha, wants = min(max((t - 2) / 4, 0), 1), []
        common = [(i, k) for i in range(M) for k in played[i, :synced]]
        V_synced = prior + sum((np.outer(g[k], g[k]) for _, k in common), 0 * prior)
        for m in range(M):
            data = common + [(m, k) for k in played[m, synced:t]]
            V = prior + sum((np.outer(g[k], g[k]) for _, k in data), 0 * prior)
            estimate = np.linalg.inv(V) @ sum((r[i, k] * g[k] for i, k in data), np.zeros(61))
            ucb_b = [v @ estimate + 0.1 * np.sqrt(0.1) * np.sqrt(v @ np.linalg.inv(V) @ v) for v in g]
            ucb_a = network(average, x, 20)[0] + 0.1 * np.sqrt(0.1) * np.sqrt([v @ W @ v for v in g])
            k = played[m, t] = np.argmax(alpha * ucb_a + (1 - alpha) * np.array(ucb_b))
            growth = np.log(np.diag(V + np.outer(g[k], g[k]))).sum() - np.log(np.diag(V_synced)).sum()
            wants.append((t - t_last) * growth > D)
        if any(wants):
            if 2 <= t < 9:
                seen = played[:, 2 : t + 1]
                theta = [descended(theta[m], x[:, seen[m]], r[m, seen[m]], s) for m in range(M)]
            average = np.mean(theta, axis=0)
            W = np.mean([np.linalg.inv(prior + g[own].T @ g[own]) for own in played[:, : t + 1]], axis=0)
            synced, t_last = t + 1, t
            done.append(t + 1)
    found, mail, _ = play_objects(problem, T, **dataclasses.asdict(s))
    np.testing.assert_array_equal(found, played)
    assert [t for t, _, down in mail if isinstance(down[-1][1], NeuralStatistics)] == done
    assert done == talks if D == 0 else 1 < len(done) < T - 1


# --- the fast form ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "d, M, noise, T, schedule",
    [
        (1, 3, "bernoulli", 150, SHORT),
        (1, 1, 0, 120, SHORT),
        (1, 4, 2.0, 120, SHORT),
        (2, 2, 0.1, 60, {"ramp": 20, "stop": 40}),
        (10, 2, "bernoulli", 20, {"ramp": 8, "stop": 12}),
        (1, 3, 0.5, 90, {"ramp": 60, "stop": 30}),  # whichever of training and alpha ends first
        (1, 3, 0.5, 90, {"ramp": 10, "stop": 60}),
        (1, 3, 0.5, 90, {"ramp": 40, "stop": 0}),
    ],
)
def test_the_fast_form_is_the_objects(d, M, noise, T, schedule):
    assert_forms_agree(make_problem(d, M, noise), T, schedule)


def assert_forms_agree(problem, T, schedule):
    runs = [pfpne.simulate("fn-ucb", problem, T, global_regret=True, objects=o, **schedule) for o in (False, True)]
    for field in dataclasses.fields(Measurements):
        np.testing.assert_array_equal(*(getattr(run, field.name) for run in runs), err_msg=field.name)


def test_the_fast_form_is_the_objects_on_the_landmine_grid():
    if not LANDMINE_TABLE.is_file():
        pytest.skip("the recorded table is not there")
    assert_forms_agree(pfpne.make_problem("landmine", n_clients=3, noise=0), 60, {"ramp": 20, "stop": 40})


@pytest.mark.parametrize("schedule", [{"ramp": 60, "stop": 30}, {"ramp": 10, "stop": 35}])
def test_both_forms_train_their_networks_equally_often(schedule):
    """One training more or less may change no arm; it does change the weights."""
    problem = make_problem(1, 3, 0.5)
    run = simulation(problem, 40, **schedule)
    run.play(40)
    _, _, federation = play_objects(problem, 40, **schedule)
    np.testing.assert_allclose(run.theta, [client.theta for client in federation.clients], rtol=1e-9)
    assert np.abs(run.theta - run.arms.theta_0).max() > 0.01


def test_clients_differ_in_the_second_step():
    """The paper's clients part at t = 1 alone, which is what the common inverse is corrected for."""
    played = simulation(make_problem(1, 8, 2.0), 4).play(4)
    assert len(np.unique(played[:, 0])) == 1 and len(np.unique(played[:, 1])) > 1
    assert (played[:, 2:] == played[0, 2:]).all()


def test_steps_in_any_portions_are_the_same_steps():
    problem = make_problem(2, 3, 0.1)
    whole, run = (simulation(problem, 400, **SHORT) for _ in range(2))
    parts = [run.play(n) for n in (1, 1, 87, 2, 100, 209)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole.play(400))


@pytest.mark.parametrize("d", [1, 2])
def test_widths_do_not_drift(d, monkeypatch):
    """After 20,000 rank-one updates they are those that the counts give."""
    monkeypatch.setattr(neural, "last_arm", lambda *model: -1)  # all plays are counted
    run = simulation(make_problem(d, 3, 0.1), 20_000, ramp=300, stop=500)
    g = run.arms.g
    W = np.mean([np.linalg.inv(0.1 * np.eye(len(g[0])) + g[own].T @ g[own]) for own in run.play(20_000)], axis=0)
    widths = mean_variance(run.one_client_model, *run.first_arms)
    np.testing.assert_allclose(np.sqrt(widths), np.sqrt(((g @ W) * g).sum(axis=1)), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("d", "noise", "settles"), [(1, 0.1, False), (1, 1.0, True), (2, "bernoulli", True)])
def test_the_arm_said_to_be_the_last_is(d, noise, settles, monkeypatch):
    """Where it is known, and no play is counted from then on, the plays are those of a run that counts all."""
    last_arms, played, last_arm = [], [], neural.last_arm
    for answer in (lambda *model: last_arms.append(last_arm(*model)) or last_arms[-1], lambda *model: -1):
        monkeypatch.setattr(neural, "last_arm", answer)
        run = simulation(make_problem(d, 3, noise), 4_000, ramp=300, stop=500)
        played.append(np.concatenate([run.play(n) for n in [500, *[100] * 35]], axis=1))
    np.testing.assert_array_equal(*played)
    assert (last_arms[-1] >= 0) == settles


def test_weights_stay_finite():
    run = simulation(make_problem(10, 3, 2.0), 3_000)
    run.play(3_000)
    assert np.isfinite(run.theta).all() and np.abs(run.theta).max() < 20
    assert np.isfinite(run.value).all()


def test_no_reward_changes_a_choice_once_training_has_stopped():
    plain, moved = (simulation(make_problem(1, 2, 0.1), 300, **SHORT) for _ in range(2))
    for run in (plain, moved):
        run.play(90)
    moved.values = 1 - moved.values
    np.testing.assert_array_equal(plain.play(200), moved.play(200))


# --- messages ---------------------------------------------------------------------------------------


def test_communication_by_hand():
    """p = 20 d + 41 = 61; two clients; up and down 2 p^2 + 2 p = 7564 numbers each a client."""
    run = pfpne.simulate("fn-ucb", make_problem(1, 2), 5)
    assert run.rounds.tolist() == [[t, 15128, 15128] for t in (2, 3, 4, 5)]


def test_when_one_client_wants_to_communicate_all_do():
    """With noise and D > 0 clients differ in what they have to tell, so some are asked for theirs."""
    asked = 0
    for run in range(5):
        _, mail, _ = play_objects(make_problem(2, 4, 2.0, run), 40, D=4.0)
        talks = [t for t, _, down in mail if isinstance(down[0][1], NeuralStatistics)]
        assert 1 < len(talks) < 20
        for _, up, down in mail:
            if isinstance(down[0][1], NewsRequest):
                assert sorted([m for m, _ in up] + [m for m, _ in down]) == [0, 1, 2, 3]
                assert all(message.n_numbers == 0 for _, message in down)
                asked += len(down)
    assert asked > 0


def test_messages_carry_what_is_declared_and_no_more():
    _, mail, federation = play_objects(make_problem(1, 2), 12)
    _, up, down = mail[-1]
    for _, message in up + down:
        shapes = {name: getattr(message, name).shape for name in message.payload()}
        assert shapes == {"gram": (61, 61), "moment": (61,), "weights": (61,), "inverse": (61, 61)}
        assert message.header == 12
    for name in ("weights", "inverse"):
        np.testing.assert_allclose(getattr(down[0][1], name), np.mean([getattr(sent, name) for _, sent in up], axis=0))
    for name in ("gram", "moment"):
        total = sum(getattr(message, name) for _, sent, _ in mail for _, message in sent)
        np.testing.assert_allclose(getattr(down[0][1], name), total)
    theta = [client.theta for client in federation.clients]
    assert not np.allclose(theta[0], theta[1])  # the average does not overwrite a client's own weights


@pytest.mark.parametrize(
    "wrong",
    [
        *({"lambda_": 0}, {"rate": "fast"}, {"nu": -1}, {"nu_2": np.nan}, {"D": -0.1}, {"width": 0}, {"width": 2.5}),
        *({"start": 1}, {"ramp": 0}, {"stop": -1}, {"steps": 0}),
    ],
)
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FNUCBSettings(**wrong)
