"""The simulator: what it records, what it must never touch, and its fast form against the objects."""

import numpy as np
import pytest

import pfpne
from pfpne.algorithms import ALGORITHMS, get_algorithm, make_federation, make_settings
from pfpne.federation import Task
from pfpne.messages import Message
from pfpne.partition import CELLS, Partition
from pfpne.problems import problem_from_functions
from pfpne.pyxab import PyXABPartition
from pfpne.rng import stream
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import Recorder, checkpoints_of, gaps
from pfpne.simulation.simulate import partition_of, simulate

PHASED = ("pf-pne", "fed-pne", "pe")


def assert_equal_runs(a, b):
    """Bit for bit, all but the seconds."""
    for name in ("t", "regret", "simple_regret", "best", "global_regret"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None and y is None) or np.array_equal(x, y), name
    assert a.communication.equals(b.communication)
    assert a.settings == b.settings


# --- what is recorded -----------------------------------------------------------------------------------


def test_checkpoints():
    assert checkpoints_of(1).tolist() == [1]
    assert checkpoints_of(10).tolist() == list(range(1, 11))
    t = checkpoints_of(1001)  # ceil(k 1001 / 500): 2.002 -> 3, 4.004 -> 5, ...
    assert len(t) == 500 and t[:2].tolist() == [3, 5] and t[-1] == 1001


def test_gaps_are_never_negative_and_a_wrong_optimum_is_noticed():
    assert gaps(1.0, np.array([0.5, 1.0 + 1e-12])).tolist() == [0.5, 0.0]
    for beyond in (2e-9, 1e-3):
        with pytest.raises(RuntimeError, match="above the recorded optimum"):
            gaps(1.0, np.array([1.0 + beyond]))


def test_rewards():
    values, counts = np.array([0.2, 0.9]), np.array([3, 2])
    u = np.random.default_rng(5).random(5)
    mean = np.array([0.2, 0.2, 0.2, 0.9, 0.9])
    assert np.array_equal(draw_rewards(values, counts, "bernoulli", np.random.default_rng(5)), (u < mean).astype(float))
    uniform = draw_rewards(values, counts, 0.5, np.random.default_rng(5))
    np.testing.assert_allclose(uniform, mean + 0.5 * (2 * u - 1), rtol=1e-15)
    wider = draw_rewards(values, counts, 0.5, np.random.default_rng(5), slope=2.0)
    np.testing.assert_allclose(wider, mean + (0.5 + 2 * (1 - mean)) * (2 * u - 1), rtol=1e-15)
    rng = np.random.default_rng(5)
    assert np.array_equal(draw_rewards(values, counts, 0, rng), mean)
    assert rng.random() == u[0]  # nothing was drawn


def test_recorder_by_hand():
    # optimum 1. Client 0: x = 0.5 twice, then 0.75 twice; client 1: 1.0 once, 0.25 three times
    functions = [lambda x: x[:, 0]] * 2
    problem = problem_from_functions(functions, [[0, 1]], noise=0, optimum=[1.0, 1.0], global_optimum=1.0)
    recorder = Recorder(problem, np.array([1, 2, 3, 4]), global_regret=True)
    recorder.record_pulls(np.array([0]), np.array([0.5]), np.array([2]), np.array([[0.5]]))
    owner, x, counts = np.array([0, 1, 1]), np.array([0.75, 1.0, 0.25]), np.array([2, 1, 3])
    recorder.record_pulls(owner, x, counts, x[:, None])
    both = np.array([0, 1])
    recorder.deployments.append((both, np.array([0, 0]), np.array([[0.5], [0.5]])))
    recorder.deployments.append((both, np.array([2, 1]), np.array([[0.75], [1.0]])))
    recorder.deployments.append(
        (np.array([0]), np.array([2]), np.array([[0.9]]))
    )  # at the same step, after the exchange
    recorder.rounds[2] += (3, 5)
    recorder.rounds[2] += (1, 0)
    traces = recorder.measurements()
    np.testing.assert_allclose(traces.regret, [[0.5, 1.0, 1.25, 1.5], [0.0, 0.75, 1.5, 2.25]])
    np.testing.assert_allclose(traces.global_regret, traces.regret)
    np.testing.assert_allclose(traces.simple_regret, [[0.5, 0.1, 0.1, 0.1], [0, 0, 0, 0]], atol=1e-15)
    assert traces.best.tolist() == [[0.9], [1.0]]
    assert traces.rounds.tolist() == [[2, 4, 5]]


def test_each_client_is_measured_against_its_own_optimum():
    problem = problem_from_functions([lambda x: x[:, 0]] * 2, [[0, 1]], noise=0, optimum=[1.0, 0.6], global_optimum=0.9)
    recorder = Recorder(problem, np.array([1, 2]), global_regret=True)
    owner, x = np.array([0, 1]), np.array([0.5, 0.5])
    recorder.record_pulls(owner, x, np.array([2, 2]), x[:, None])
    recorder.deployments.append((owner, np.array([0, 0]), x[:, None]))
    traces = recorder.measurements()
    np.testing.assert_allclose(traces.regret, [[0.5, 1.0], [0.1, 0.2]])
    np.testing.assert_allclose(traces.global_regret, [[0.4, 0.8], [0.4, 0.8]])
    np.testing.assert_allclose(traces.simple_regret, [[0.5, 0.5], [0.1, 0.1]])


# --- randomness -------------------------------------------------------------------------------------------


def test_another_client_or_another_order_of_algorithms_changes_nothing_else():
    def runs(names, M):
        problem = pfpne.make_problem("garland", n_clients=M)
        return {name: simulate(name, problem, 1500, delta=0.1) for name in names}

    forwards, backwards = runs(PHASED, 2), runs(PHASED[::-1], 2)
    for name in PHASED:
        assert_equal_runs(forwards[name], backwards[name])
    more = runs(["pe"], 3)["pe"]  # each client alone: the third concerns no one
    assert np.array_equal(more.regret[:2], forwards["pe"].regret)
    assert np.array_equal(more.best[:2], forwards["pe"].best)


def test_noise_is_common_to_all_algorithms():
    problem = pfpne.make_problem("garland", n_clients=2)
    first, second = (noise_streams(problem, 0, 0) for _ in range(2))
    assert np.array_equal(first[1].random(5), second[1].random(5))
    assert not np.array_equal(first[0].random(5), first[1].random(5))


def test_noise_and_cells_are_others_for_another_seed_objective_run_or_client():
    problem, other = (pfpne.make_problem(name, n_clients=2) for name in ("himmelblau", "ackley"))
    whose = [(problem, 0, 0), (problem, 0, 1), (problem, 1, 0), (other, 0, 0)]
    draws = [rng.random() for of in whose for rng in noise_streams(*of)]
    assert len(set(draws)) == len(draws) == 8
    numbers = (0, 1, 2**32, 2**32 + 1, 2**33)  # a part of a key has as many digits as it needs
    assert len({stream(seed, "x", part).random() for seed in (0, 2**32) for part in numbers}) == 10
    cells = [partition_of(p, "random", seed, run).seed for p, seed, run in whose]
    assert len(set(cells)) == len(cells) and partition_of(problem, "random", 0, 0).seed == cells[0]
    cyclic = partition_of(problem, "cyclic", 0, 0)
    assert (cyclic.cells, cyclic.seed, cyclic.max_depth) == ("cyclic", 0, problem.max_depth)


@pytest.mark.parametrize(("name", "T"), [("pf-pne", 60), ("fed1-ucb", 450)])
def test_a_seed_and_a_run_that_are_given_decide_all_that_is_drawn(name, T):
    """0 among them: noise, cells and arms are those of a problem that has this seed and this run."""
    functions, domain = [lambda x: x.mean(axis=1), lambda x: 1 - x[:, 0] ** 2], [[0, 1]] * 2
    one, other = (
        problem_from_functions(functions, domain, 0.3, 1.0, 0.8, seed=seed, run=run) for seed, run in ((0, 0), (3, 2))
    )
    own = [simulate(name, problem, T) for problem in (one, other)]
    assert_equal_runs(own[0], simulate(name, other, T, seed=0, run=0))
    assert_equal_runs(own[1], simulate(name, one, T, seed=3, run=2))
    halves = [simulate(name, one, T, **given) for given in ({"seed": 3}, {"run": 2})]
    assert len({run.regret.tobytes() for run in (*own, *halves)}) == 4


# --- the fast form ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PHASED)
@pytest.mark.parametrize("noise", ["bernoulli", 0.1, 2.0, 0])
@pytest.mark.parametrize("objective", ["garland", "himmelblau", "rastrigin"])
def test_fast_equals_the_objects_bit_for_bit(name, noise, objective):
    cases = [(1, 3, 40), (2, 1, 40), (10, 3, 40), (997, 3, 5), (4001, 2, 40), (1500, 5, 2)]
    for seed, (T, M, max_depth) in enumerate(cases):
        problem = pfpne.make_problem(objective, n_clients=M, noise=noise, seed=seed)
        partition = Partition(problem.domain, max_depth=max_depth)
        options = {"Delta": (0.0, 0.01, 0.1, 0.3, 1.0, 0.3)[seed]} if name == "pf-pne" else {}
        options |= {"partition": partition, "global_regret": objective == "garland"}
        assert_equal_runs(simulate(name, problem, T, **options), simulate(name, problem, T, objects=True, **options))


@pytest.mark.parametrize("name", PHASED)
@pytest.mark.parametrize("settings", [{"c": 1.0}, {"rho": 0.7, "nu_1": 0.3}, {"c_1": 1e-9}, {"delta": 0.5, "c": 0.02}])
def test_fast_equals_the_objects_with_other_settings(name, settings):
    problem = pfpne.make_problem("doublesine", n_clients=4, noise=0.3)
    settings = settings | ({"Delta": 0.12} if name == "pf-pne" else {})
    fast, objects = (simulate(name, problem, 3001, objects=objects, **settings) for objects in (False, True))
    assert_equal_runs(fast, objects)


@pytest.mark.parametrize("name", PHASED)
def test_fast_equals_the_objects_on_other_partitions_and_own_functions(name):
    from PyXAB.partition.RandomBinaryPartition import RandomBinaryPartition

    functions = [lambda x: x[:, 0] * x[:, 1], lambda x: 1 - x[:, 0] / 2]
    problem = problem_from_functions(functions, [[0, 1], [0, 1]], optimum=[1.0, 1.0])
    for partition in (Partition(problem.domain, k=3), PyXABPartition(RandomBinaryPartition, problem.domain, seed=1)):
        assert_equal_runs(
            simulate(name, problem, 901, partition=partition),
            simulate(name, problem, 901, partition=partition, objects=True),
        )


# --- what it says of the method -------------------------------------------------------------------------------


def test_slope_of_the_regret():
    """(d+1)/(d+2), d the near-optimality dimension: 1/2 to 2/3 for d = 0, 1, and a logarithm more."""
    horizons = np.array([16_000, 64_000, 256_000])

    def slope(name, shift):
        problems = [pfpne.make_problem("garland", n_clients=8, shift=shift, run=run) for run in range(3)]
        regret = [np.mean([simulate(name, problem, T).regret[:, -1] for problem in problems]) for T in horizons]
        return np.polyfit(np.log(horizons), np.log(regret), 1)[0]

    for name in PHASED:  # all clients alike
        assert 0.5 < slope(name, shift=0.0) < 0.85
    assert 0.5 < slope("pe", shift=0.1) < 0.85
    assert slope("fed-pne", shift=0.1) > 0.9  # clients differ, and it looks for one point for all


# --- bad input ------------------------------------------------------------------------------------------------


def test_bad_input_is_refused():
    problem = pfpne.make_problem("garland", n_clients=2)
    for horizon in (0, -1, 2.5, "10", None):
        with pytest.raises(ValueError, match="horizon"):
            simulate("pe", problem, horizon)
    for flag in ("global_regret", "messages", "objects"):
        with pytest.raises(ValueError, match=f"{flag} must be True or False"):
            simulate("pe", problem, 10, **{flag: "no"})
    with pytest.raises(ValueError, match="pf-pne"):
        simulate("pf-pn", problem, 10)
    with pytest.raises(ValueError, match="Delta"):
        simulate("pf-pne", problem, 10, Delta=-0.1)
    with pytest.raises(ValueError, match="pe: unknown setting .Delta."):
        simulate("pe", problem, 10, Delta=0.1)
    with pytest.raises(ValueError, match="unknown algorithm"):
        simulate(["pe"], problem, 10)
    for wrong in (None, "garland"):
        with pytest.raises(ValueError, match="problem must be made by make_problem"):
            simulate("pe", wrong, 10)
    with pytest.raises(ValueError, match="task must be a Task"):
        make_federation("pe", [[0, 1]])
    with pytest.raises(ValueError, match="functions must be a list"):
        pfpne.problem_from_functions(lambda x: x[:, 0], [[0, 1]])
    with pytest.raises(ValueError, match="n_clients"):
        Task(Partition([[0, 1]]), 0, 10)
    for candidates in ([0.5], [[0.5, 0.5]], np.empty((0, 1)), [[0.5], [1.5]], [[np.nan]]):
        with pytest.raises(ValueError, match="candidates must be"):
            Task(Partition([[0, 1]]), 2, 10, candidates=candidates)
    assert Task(Partition([[0, 1]]), 2, 10, candidates=[[0.0], [1.0]]).candidates.tolist() == [[0.0], [1.0]]  # its ends
    with pytest.raises(ValueError, match="needs a problem"):
        make_federation("pf-pne", Task(Partition([[0, 1]]), 2, 10), Delta="true")


def test_true_Delta_is_the_problem_s_own():
    problem = pfpne.make_problem("garland", n_clients=2)
    assert make_settings("pf-pne", {"Delta": "true"}, problem).Delta == problem.Delta > 0.01
    assert get_algorithm("pf-pne").settings().Delta == 0.01
    with pytest.raises(ValueError, match="Delta must be"):  # no other word stands for it
        make_settings("pf-pne", {"Delta": "yes"}, problem)


# --- without the federation's help, and what may not come in ------------------------------------------


def test_clients_and_server_work_over_any_transport():
    """Asked while they wait, in another process that knows only the messages' text: the same pulls."""
    task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=2, horizon=60)
    server, clients = get_algorithm("pf-pne").make_server_and_clients(task, make_settings("pf-pne", {}))
    federation = pfpne.make_federation("pf-pne", task)
    while federation.running:
        sent = {}
        for m, batch in federation.ask():
            assert np.array_equal(batch.points, clients[m].ask().points)
            rewards = np.repeat(batch.points[:, 0], batch.counts)
            message = clients[m].tell(rewards)
            federation.tell(m, rewards)
            if message is not None:
                sent[m] = Message.from_json(message.to_json())
                assert clients[m].ask().size == clients[m].ask().size == 0
        if sent:
            for m, answer in server.exchange(sent).items():
                clients[m].receive(Message.from_json(answer.to_json()))
    assert all(client.t == 60 for client in clients)


@pytest.mark.parametrize("text", ["null", "[1]", '"a"', '{"kind": "Kept"}', '{"kind": "Other", "header": 1}', "{}"])
def test_what_is_not_a_message_is_refused(text):
    with pytest.raises(ValueError, match="not a message"):
        Message.from_json(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partition": pfpne.Partition([[0.0, 3.0]])}, "partition must be one of the problem's domain"),
        ({"partition": "halves"}, "partition must be"),
        ({"run": 9.0}, "run must be an integer"),
        ({"run": True}, "run must be an integer"),
        ({"seed": -1}, "seed must be an integer"),
        ({"c": 1e200}, "c must be a number"),
        ({"nu_1": 1e-200}, "nu_1 must be a number"),
        ({"c": 2**2000}, "c must be a number"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments, message):
    problem = pfpne.make_problem("garland", 1)
    with pytest.raises(ValueError, match=message):
        pfpne.simulate("pe", problem, 50, **arguments)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_other_cells_change_what_searches_cells_and_nothing_else(name):
    """So results of the others are kept once for all cells."""
    problem, T = pfpne.make_problem("himmelblau", 2, shift=0.1), {"fn-ucb": 3, "gp": 12, "gp-shared": 12}.get(name, 90)
    regrets = [simulate(name, problem, T, partition=partition_of(problem, cells, 0, 0)).regret for cells in CELLS]
    assert np.array_equal(*regrets) == (not ALGORITHMS[name].uses_task_cells)


@pytest.mark.parametrize(("name", "T"), [("pf-pne", 400), ("pf-pne+", 400), ("hct", 400), ("fn-ucb", 12)])
def test_noise_that_depends_on_the_point_is_the_same_in_both_forms(name, T):
    problem = pfpne.make_problem("garland", 3, noise=0.1, seed=3)
    plain = simulate(name, problem, T)
    problem.noise_slope = 1.5
    fast, objects = (simulate(name, problem, T, objects=objects) for objects in (False, True))
    assert np.array_equal(fast.regret, objects.regret)
    assert not np.array_equal(fast.regret, plain.regret)
