"""fn-ucb: its network, its first steps written out, its fast form against the objects, its messages."""

import dataclasses
import random

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import pfpne
from pfpne.algorithms import fn_ucb
from pfpne.algorithms.arms import draw_arms
from pfpne.algorithms.fn_ucb import FNUCBSettings, NeuralAggregates, NeuralSums, NewsRequest
from pfpne.federation import Federation, Message, Task
from pfpne.partition import Partition
from pfpne.paths import LANDMINE_TABLE
from pfpne.problems import problem_from_functions
from pfpne.rng import stream
from pfpne.simulation import neural
from pfpne.simulation.record import checkpoints

SHORT = {"ramp": 40, "stop": 90}  # alpha reaches 1 and training stops within a test
KINDS = (NeuralSums,), (NeuralAggregates, NewsRequest)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The dense form's small matrices are slower on many threads, much slower on a busy machine."""
    with threadpool_limits(1):
        yield


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


def streams(problem):
    return [stream(5, "noise", problem.run, m) for m in range(problem.n_clients)]


def reward(value, noise, rng):
    if noise == "bernoulli":
        return float(rng.random() < value)
    return value if noise == 0 else value + noise * (2 * rng.random() - 1)


def fast_arms(problem, task, s, T):
    arms = fn_ucb.make_arms(task, s.width)
    return neural.NeuralSimulation(problem.values(arms.points), problem.noise, streams(problem), s, arms).play(T)


def object_arms(problem, task, s):
    """Arms (M, T) of the objects, the mail as (t, up, down), and the federation at the end."""
    federation = Federation(*fn_ucb.make(task, s), *KINDS)
    points = draw_arms(task)
    mail, played, rngs = [], [[] for _ in federation.clients], streams(problem)
    federation.on_mail = lambda t, up, down: mail.append((t, up, down))
    while federation.running:
        for m, batch in federation.ask():
            assert batch.size == 1
            played[m].append(int(np.flatnonzero((points == batch.points[0]).all(axis=1))[0]))
            value = problem.client_values(m, batch.points)[0]
            federation.tell(m, [reward(value, problem.noise, rngs[m])])
    return np.array(played), mail, federation


def run_fast(problem, T, want_global=False, **settings):
    task = make_task(problem, T)
    t = checkpoints(T)
    return neural.simulate_fn_ucb(problem, task, FNUCBSettings(**settings), streams(problem), t, want_global)


# --- arms and network -------------------------------------------------------------------------------


@pytest.mark.parametrize("d, K", [(1, 20), (2, 400), (3, 1000), (10, 1000)])
def test_arms_of_the_whole_domain(d, K):
    task = make_task(make_problem(d), 10)
    arms = draw_arms(task)
    assert arms.shape == (K, d)
    assert (task.partition.domain[:, 0] <= arms).all() and (arms <= task.partition.domain[:, 1]).all()
    assert len(np.unique(arms, axis=0)) == K
    np.testing.assert_array_equal(arms, draw_arms(task))
    assert not np.array_equal(arms, draw_arms(make_task(make_problem(d, run=1), 10)))
    if d == 2:
        assert len(np.unique(arms[:, 0])) == len(np.unique(arms[:, 1])) == 20


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


@pytest.mark.parametrize("d", [1, 2, 10])
def test_gradients_against_finite_differences(d):
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 2, (7, d))
    inputs = fn_ucb.network_inputs(points, np.array([[-1.0, 2.0]] * d))
    assert (np.linalg.norm(inputs[:d], axis=0) <= 1).all() and (inputs[d] == 1).all()
    theta = rng.standard_normal(fn_ucb.n_parameters(d, 20))
    assert len(theta) == 20 * d + 41
    found = fn_ucb.gradients(theta, inputs, 20)
    step = 1e-6
    for i in range(len(theta)):
        e = step * np.eye(len(theta))[i]
        difference = fn_ucb.predict(theta + e, inputs, 20) - fn_ucb.predict(theta - e, inputs, 20)
        np.testing.assert_allclose(found[:, i], difference / (2 * step), atol=1e-7)
    layer, output = theta[: 20 * (d + 1)].reshape(20, d + 1), theta[20 * (d + 1) :]
    by_hand = np.maximum(layer @ inputs, 0).T @ output[:20] + output[20]
    np.testing.assert_allclose(fn_ucb.predict(theta, inputs, 20), by_hand, atol=1e-13)


def test_training_by_arms_is_training_on_the_history():
    """Gradient descent on the mean squared error of the whole history, with finite differences for the gradient."""
    rng = np.random.default_rng(1)
    s, d, M = FNUCBSettings(width=3, steps=2), 2, 3
    inputs = fn_ucb.network_inputs(rng.random((6, d)), np.array([[0.0, 1.0]] * d))
    history = np.array([0, 3, 3, 5, 0, 3, 1])
    r = rng.random((M, len(history)))
    theta = np.tile(rng.standard_normal(fn_ucb.n_parameters(d, 3)), (M, 1))

    def loss(weights, m):
        return ((fn_ucb.predict(weights, inputs[:, history], 3) - r[m]) ** 2).mean()

    wanted, step = theta.copy(), 1e-6
    for m in range(M):
        for _ in range(s.steps):
            ends = (
                [wanted[m] + step * e for e in np.eye(theta.shape[1])],
                [wanted[m] - step * e for e in np.eye(len(theta[0]))],
            )
            slope = np.array([(loss(up, m) - loss(down, m)) / (2 * step) for up, down in zip(*ends, strict=True)])
            wanted[m] -= s.rate * (slope + s.lambda_ / len(history) * wanted[m])
    counts = np.bincount(history, minlength=6)
    totals = np.array([np.bincount(history, weights=row, minlength=6) for row in r])
    alone = theta[[1]]
    fn_ucb.train(theta, inputs, counts, totals, s)
    np.testing.assert_allclose(theta, wanted, atol=1e-7)
    fn_ucb.train(alone, inputs, counts, totals[[1]], s)
    np.testing.assert_array_equal(alone[0], theta[1])  # bit for bit the same, whoever else trains


def test_diverging_weights_are_an_error():
    inputs = fn_ucb.network_inputs(np.array([[0.5]]), np.array([[0.0, 1.0]]))
    theta = np.ones((1, fn_ucb.n_parameters(1, 20)))
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="diverged"):
        fn_ucb.train(theta, inputs, np.array([1]), np.array([[1e300]]), FNUCBSettings())


def test_alpha_and_the_steps_that_train():
    s = FNUCBSettings()
    assert [s.alpha(t) for t in (0, 3, 4, 353, 703, 10**6)] == [0, 0, 1 / 700, 0.5, 1, 1]
    assert [s.trains(t) for t in (2, 3, 1999, 2000)] == [False, True, True, False]


# --- the class, written out, and its fast form --------------------------------------------------------


def test_the_first_steps_written_out():
    """Two clients, no training, alpha = 0 up to t = 2 and 1/2 at t = 3: every inverse explicit, every sum a loop."""
    T, M, s = 4, 2, FNUCBSettings(start=2, ramp=2, stop=0)
    problem = make_problem(1, M, 0)
    task = make_task(problem, T)
    arms = fn_ucb.make_arms(task, s.width)
    g, x, values = arms.g, arms.inputs, problem.values(arms.points)
    prior = s.lambda_ * np.eye(g.shape[1])
    own, shared, wanted = [[] for _ in range(M)], [], np.zeros((M, T), dtype=int)
    W = np.linalg.inv(prior)
    for t in range(T):
        alpha = {0: 0, 1: 0, 2: 0, 3: 0.5}[t]
        for m in range(M):
            data = shared + (own[m] if t == 1 else [])  # at t = 0 nothing is sent, after t = 1 all is shared
            inverse = np.linalg.inv(prior + sum((np.outer(g[k], g[k]) for k, _ in data), np.zeros_like(prior)))
            moment = sum((r * g[k] for k, r in data), np.zeros(len(prior)))
            ucb_b = [v @ inverse @ moment + s.nu * np.sqrt(s.lambda_ * (v @ inverse @ v)) for v in g]
            net = fn_ucb.predict(arms.theta_0, x, s.width)
            ucb_a = [f + s.nu_2 * np.sqrt(s.lambda_ * (v @ W @ v)) for f, v in zip(net, g, strict=True)]
            wanted[m, t] = np.argmax(alpha * np.array(ucb_a) + (1 - alpha) * np.array(ucb_b))
        for m in range(M):
            own[m].append((wanted[m, t], values[m, wanted[m, t]]))
        if t >= 1:
            shared = own[0] + own[1]
            W = np.mean([np.linalg.inv(prior + sum(np.outer(g[k], g[k]) for k, _ in mine)) for mine in own], axis=0)
    np.testing.assert_array_equal(object_arms(problem, task, s)[0], wanted)
    np.testing.assert_array_equal(fast_arms(problem, task, s, T), wanted)


@pytest.mark.parametrize("schedule", [{"ramp": 60, "stop": 30}, {"ramp": 10, "stop": 60}, {"stop": 0, "ramp": 40}])
def test_fast_whichever_of_training_and_alpha_ends_first(schedule):
    problem, s, T = make_problem(1, 3, 0.5), FNUCBSettings(**schedule), 90
    task = make_task(problem, T)
    np.testing.assert_array_equal(fast_arms(problem, task, s, T), object_arms(problem, task, s)[0])


def test_fast_plays_the_arms_of_the_objects_in_10_dimensions():
    problem, s, T = make_problem(10, 2, "bernoulli"), FNUCBSettings(ramp=8, stop=12), 20
    task = make_task(problem, T)
    np.testing.assert_array_equal(fast_arms(problem, task, s, T), object_arms(problem, task, s)[0])


def test_clients_differ_in_the_second_step():
    """The paper's clients part at t = 1 alone, which is what the common inverse is corrected for."""
    played = fast_arms(make_problem(1, 8, 2.0), make_task(make_problem(1, 8, 2.0), 4), FNUCBSettings(), 4)
    assert len(np.unique(played[:, 0])) == 1 and len(np.unique(played[:, 1])) > 1
    assert (played[:, 2:] == played[0, 2:]).all()


def test_steps_in_any_portions_are_the_same_steps():
    problem = make_problem(2, 3, 0.1)
    task, s = make_task(problem, 400), FNUCBSettings(**SHORT)
    whole = fast_arms(problem, task, s, 400)
    arms = fn_ucb.make_arms(task, s.width)
    run = neural.NeuralSimulation(problem.values(arms.points), problem.noise, streams(problem), s, arms)
    parts = [run.play(n) for n in (1, 1, 87, 2, 100, 209)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("d", [1, 2])
def test_widths_do_not_drift(d):
    """After 20,000 rank-one updates they are those that the counts give."""
    problem = make_problem(d, 3, 0.1)
    task, s = make_task(problem, 20_000), FNUCBSettings(ramp=300, stop=500)
    arms = fn_ucb.make_arms(task, s.width)
    run = neural.NeuralSimulation(problem.values(arms.points), problem.noise, streams(problem), s, arms)
    played = run.play(20_000)
    mine = np.mean([np.linalg.inv(0.1 * np.eye(arms.g.shape[1]) + arms.g[a].T @ arms.g[a]) for a in played], axis=0)
    widths = neural.mean_spread(run.common, run.odd, run.odd_share)
    np.testing.assert_allclose(np.sqrt(widths), np.sqrt(fn_ucb.quadratic(arms.g, mine)), rtol=0, atol=1e-8)


def test_weights_stay_finite():
    problem = make_problem(10, 3, 2.0)
    task, s = make_task(problem, 3_000), FNUCBSettings()
    arms = fn_ucb.make_arms(task, s.width)
    run = neural.NeuralSimulation(problem.values(arms.points), problem.noise, streams(problem), s, arms)
    run.play(3_000)
    assert np.isfinite(run.theta).all() and np.abs(run.theta).max() < 20
    assert np.isfinite(run.value).all()


def test_no_reward_changes_a_choice_once_training_has_stopped():
    problem = make_problem(1, 2, 0.1)
    task, s = make_task(problem, 300), FNUCBSettings(**SHORT)
    arms = fn_ucb.make_arms(task, s.width)
    values = problem.values(arms.points)
    plain = neural.NeuralSimulation(values, problem.noise, streams(problem), s, arms)
    moved = neural.NeuralSimulation(values, problem.noise, streams(problem), s, arms)
    for run in (plain, moved):
        run.play(90)
    moved.values = 1 - values
    np.testing.assert_array_equal(plain.play(200), moved.play(200))


# --- server and clients -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "d, M, noise, T", [(1, 3, "bernoulli", 150), (2, 2, 0.1, 60), (1, 1, 0, 120), (1, 4, 2.0, 120)]
)
def test_objects_play_the_arms_of_the_fast_form(d, M, noise, T):
    s = FNUCBSettings(**SHORT)
    problem = make_problem(d, M, noise)
    task = make_task(problem, T)
    played, mail, federation = object_arms(problem, task, s)
    np.testing.assert_array_equal(played, fast_arms(problem, task, s, T))
    traces = run_fast(problem, T, **SHORT)
    rows = [(t, sum(msg.numbers for _, msg in up), sum(msg.numbers for _, msg in down)) for t, up, down in mail]
    np.testing.assert_array_equal(np.array(rows), traces.rounds)
    np.testing.assert_array_equal(traces.best, [client.best() for client in federation.clients])
    gap = 1 - problem.values(draw_arms(task))
    regret = np.take_along_axis(gap, played, axis=1).cumsum(axis=1)
    np.testing.assert_allclose(traces.regret, regret[:, checkpoints(T) - 1], atol=1e-10)


def test_communication_by_hand():
    """p = 20 d + 41 = 61; two clients; up and down 2 p^2 + 2 p = 7564 numbers each a client."""
    traces = run_fast(make_problem(1, 2), 5)
    assert traces.rounds.tolist() == [[t, 15128, 15128] for t in (2, 3, 4, 5)]


@pytest.mark.parametrize("D", [2.0, 30.0])
@pytest.mark.parametrize("d, M, noise", [(1, 3, "bernoulli")])
def test_when_one_client_wants_to_communicate_all_do(D, d, M, noise):
    T, s = 150, FNUCBSettings(D=D, **SHORT)
    problem = make_problem(d, M, noise)
    task = make_task(problem, T)
    played, mail, _ = object_arms(problem, task, s)
    assert run_fast(problem, T, D=D, **SHORT) is None  # it is the objects that run
    talks = [t for t, _, down in mail if all(isinstance(message, NeuralAggregates) for _, message in down)]
    assert 1 < len(talks) < T / 2
    requests = [(t, up, down) for t, up, down in mail if isinstance(down[0][1], NewsRequest)]
    for _, up, down in requests:
        assert sorted([m for m, _ in up] + [m for m, _ in down]) == list(range(M))
        assert all(message.numbers == 0 for _, message in down)


def test_a_client_that_is_asked_for_news_answers():
    """With noise and D > 0 clients differ in what they have to tell, so some are asked."""
    asked = 0
    for run in range(5):
        problem = make_problem(2, 4, 2.0, run)
        _, mail, _ = object_arms(problem, make_task(problem, 40), FNUCBSettings(D=4.0))
        asked += sum(isinstance(message, NewsRequest) for _, _, down in mail for _, message in down)
    assert asked > 0


def test_messages_carry_what_is_declared_and_no_more():
    problem = make_problem(1, 2)
    _, mail, federation = object_arms(problem, make_task(problem, 12), FNUCBSettings())
    _, up, down = mail[-1]
    for _, message in up + down:
        shapes = {name: getattr(message, name).shape for name in message.payload()}
        assert shapes == {"gram": (61, 61), "moment": (61,), "weights": (61,), "inverse": (61, 61)}
        again = Message.from_json(message.to_json())
        assert type(again) is type(message) and again.header == message.header == 12
        for name in message.payload():
            np.testing.assert_array_equal(getattr(again, name), getattr(message, name))
    np.testing.assert_allclose(down[0][1].weights, np.mean([message.weights for _, message in up], axis=0))
    np.testing.assert_allclose(down[0][1].inverse, np.mean([message.inverse for _, message in up], axis=0))
    grams = sum(message.gram for _, sent, _ in mail for _, message in sent)
    np.testing.assert_allclose(down[0][1].gram, grams)
    theta = [client.theta for client in federation.clients]
    assert not np.allclose(theta[0], theta[1])  # the average does not overwrite a client's own weights


# --- runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["bernoulli", 0.1, 2.0, 0])
def test_regret_never_falls_and_a_run_repeats(noise):
    problem = make_problem(1, 3, noise)
    state, python_state = np.random.get_state()[1].copy(), random.getstate()
    first, second = (run_fast(problem, 2_500, want_global=True) for _ in range(2))
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    assert random.getstate() == python_state
    for name in ("regret", "global_regret"):
        steps = np.diff(getattr(first, name), axis=1, prepend=0)
        assert (steps >= 0).all()
    for field in dataclasses.fields(first):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))
    assert (first.simple_regret >= 0).all()
    other = make_problem(1, 3, noise, run=1)
    assert not np.array_equal(run_fast(other, 2_500).regret, first.regret)
    assert run_fast(problem, 5).global_regret is None


def test_on_the_landmine_grid():
    if not LANDMINE_TABLE.is_file():
        pytest.skip("the recorded table is not there")
    problem = pfpne.make_problem("landmine", n_clients=3, noise=0)
    task = Task(Partition(problem.domain, max_depth=12), 3, 60, 0, problem.candidates, 0, ("landmine", 0))
    s = FNUCBSettings(ramp=20, stop=40)
    traces = neural.simulate_fn_ucb(problem, task, s, streams(problem), checkpoints(60), False)
    played, _, _ = object_arms(problem, task, s)
    gap = problem.optimum[:, None] - problem.values(draw_arms(task))
    np.testing.assert_allclose(traces.regret[:, -1], np.take_along_axis(gap, played, axis=1).sum(axis=1), atol=1e-10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lambda_": 0},
        {"nu": -1},
        {"nu_2": np.nan},
        {"width": 0},
        {"width": 2.5},
        {"D": -0.1},
        {"start": 1},
        {"ramp": 0},
        {"stop": -1},
        {"steps": 0},
        {"rate": "fast"},
    ],
)
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FNUCBSettings(**wrong)
