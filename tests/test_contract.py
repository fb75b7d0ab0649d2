"""What every algorithm keeps, whoever wrote it: a new row of pfpne.algorithms.ALGORITHMS meets all of it by itself."""

import dataclasses
import functools
import pickle
import random

import numpy as np
import pytest
from conftest import HORIZONS

import pfpne
from pfpne.algorithms import ALGORITHMS, UNLIMITED_ALGORITHMS, make_federation
from pfpne.algorithms.pf_pne import KeptIndex, NodeMeans
from pfpne.algorithms.secure import secured
from pfpne.federation import EMPTY_BATCH, Batch, Client, Federation, Server, Task
from pfpne.messages import Awaited, Message
from pfpne.partition import Partition
from pfpne.simulation.fast import fast_simulation_of
from pfpne.tuning.searches import SEARCHES

M, T = 3, 60
SQUARE = [[0.0, 1.0], [0.0, 2.0]]
LINE = [[0.0, 1.0]]
ALL = [*SEARCHES]  # tune's random search, too
WRONG = (np.nan, np.inf, -np.inf, 1e10, 10**400, 1j, "a", None)  # rewards


def at_most(horizon: int, name: str) -> int:
    """The horizon, or that of HORIZONS if it is shorter."""
    return min(horizon, HORIZONS.get(name, horizon))


def federation(name, domain=SQUARE, horizon=None) -> Federation:
    task = Task(Partition(domain), M, horizon or at_most(T, name), noise="bernoulli")
    return make_federation(SEARCHES[name], task)


def rewards(m: int, t: int, batch) -> np.ndarray:
    """What client m gets for its evaluations t + 1, t + 2, ...: drawn anew by (m, t), so that a copy gets the same."""
    values = np.repeat(1 - np.abs(batch.points - 0.3 * (m + 1)).max(axis=1) / 2, batch.counts)
    return (np.random.default_rng([m, t]).random(batch.size) < values).astype(float)


def sweep(run: Federation) -> list:
    """One sweep, told; returns what was pulled."""
    pulled = []
    for m, batch in run.ask():
        pulled.append((m, batch.points.tolist(), batch.counts.tolist()))
        run.tell(m, rewards(m, run.clients[m].t, batch))
    return pulled


@pytest.mark.parametrize("name", ALL)
def test_a_longer_run_begins_as_a_shorter_one_where_the_row_says_so(name):
    few = at_most(40, name)

    def first_points(horizon: int) -> list:
        run, points = federation(name, horizon=horizon), {m: [] for m in range(M)}
        while any(client.t < few for client in run.clients):
            for m, own, counts in sweep(run):
                points[m] += [point for point, n in zip(own, counts, strict=True) for _ in range(n)]
        return [points[m][:few] for m in range(M)]

    assert (first_points(few) == first_points(1_500)) == SEARCHES[name].ignores_horizon


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("horizon", [1, 2, 7, T])
def test_the_budget_is_spent_exactly_inside_the_domain(name, horizon):
    horizon = at_most(horizon, name)
    run, spent = federation(name, horizon=horizon), np.zeros(M, dtype=int)
    while run.running:
        for m, points, counts in sweep(run):
            spent[m] += sum(counts)
            assert np.all((np.array(points) >= 0) & (np.array(points) <= [1, 2])) and min(counts) >= 1
    assert spent.tolist() == [horizon] * M
    for client in run.clients:
        assert client.t == horizon and client.ask().size == 0
        assert client.best().shape == (2,) and ((client.best() >= 0) & (client.best() <= [1, 2])).all()


@pytest.mark.parametrize("name", ALL)
def test_asking_twice_changes_nothing_and_wrong_rewards_are_refused(name):
    once, twice = federation(name), federation(name)
    while once.running:
        for _ in range(2):
            for client in twice.clients:
                client.ask()
            (m, batch), *_ = twice.ask()
        with pytest.raises(ValueError, match="read-only"):
            batch.points[:] = 9
        before = pickle.dumps(twice)
        for told in [np.zeros(batch.size + 1), np.zeros((batch.size, 1)), *([x] * batch.size for x in WRONG), {}]:
            with pytest.raises(ValueError, match="reward"):
                twice.tell(m, told)
        with pytest.raises(ValueError, match="no batch"):
            twice.tell(M, np.zeros(batch.size))
        assert pickle.dumps(twice) == before
        assert sweep(once) == sweep(twice)


@pytest.mark.parametrize("name", ALL)
def test_a_state_saved_at_any_moment_goes_on_as_if_nothing_had_been(name):
    run, pulled = federation(name), []
    while run.running:
        pulled += sweep(run)
    run, again = federation(name), []
    while run.running:
        for m, _ in run.ask():
            run = pickle.loads(pickle.dumps(run))  # at each turn, also with some clients told and others not
            batch = dict(run.ask())[m]
            again.append((m, batch.points.tolist(), batch.counts.tolist()))
            run.tell(m, rewards(m, run.clients[m].t, batch))
    assert again == pulled


@pytest.mark.parametrize("name", ALL)
def test_nothing_but_declared_messages_passes_and_their_text_is_enough(name):
    """Each message goes by as JSON, in what it declares, and the pulls are the same."""
    plain, wired = (federation(name, LINE, HORIZONS.get(name)) for _ in range(2))
    kinds = {"up": set(), "down": set()}

    def by_text(mail, direction):
        kinds[direction] |= {type(message) for message in mail.values()}
        return {m: Message.from_json(message.to_json()) for m, message in mail.items()}

    first_messages, exchange = wired.server.first_messages, wired.server.exchange
    wired.server.first_messages = lambda: by_text(first_messages(), "down")
    wired.server.exchange = lambda mail: by_text(exchange(by_text(mail, "up")), "down")
    while plain.running:
        assert sweep(plain) == sweep(wired)
    row = SEARCHES[name]
    assert kinds["up"] <= set(row.up_kinds) and kinds["down"] <= set(row.down_kinds)
    assert bool(row.up_kinds) == bool(kinds["up"])  # what is declared is used


@pytest.mark.parametrize("name", [name for name in UNLIMITED_ALGORITHMS if ALGORITHMS[name].down_kinds])
def test_the_nodes_and_arms_that_stay_are_some_of_those_before(name):
    """Whatever the fields are called: a client says which integers a message may hold, and they lie below the last."""
    run = federation(name, LINE, HORIZONS.get(name))

    def watched(client, receive):
        last = {}

        def take(message):
            known = client.awaits().subset_of
            fields = [
                f for f in dataclasses.fields(message)[1:] if f.metadata["kinds"] == "i" and f.metadata["high"] > 1
            ]
            assert {f.name for f in fields} <= known.keys()
            for field, own in known.items():
                h, kept = last.get(field, (message.header, own))
                above = (own - 1) // 2 ** (message.header - h) + 1  # nodes: an arm has none above it
                assert np.isin(own, kept).all() or np.isin(above, kept).all()
                last[field] = message.header, getattr(message, field)
            return receive(message)

        return take

    for client in run.clients:
        client.receive = watched(client, client.receive)
    while run.running:
        sweep(run)


@pytest.mark.parametrize("name", [name for name in UNLIMITED_ALGORITHMS if ALGORITHMS[name].up_kinds])
def test_what_is_not_declared_is_refused(name):
    run = federation(name, LINE, HORIZONS.get(name))
    run.up_kinds = run.down_kinds = ()
    with pytest.raises(TypeError, match="does not declare"):
        while run.running:
            sweep(run)


def test_all_algorithms_but_the_tuners_are_compared():
    assert set(UNLIMITED_ALGORITHMS) == set(ALGORITHMS) - {"gp", "gp-shared"} and len(UNLIMITED_ALGORITHMS) == len(
        set(UNLIMITED_ALGORITHMS)
    )


def assert_equal_runs(a, b):
    """Bit for bit, all but the seconds."""
    for name in ("t", "regret", "simple_regret", "best", "global_regret", "rounds"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None and y is None) or np.array_equal(x, y), name
    assert a.settings == b.settings


@functools.cache
def problem_of_two(objective: str, noise):
    """A problem with two clients, whose maximum of the mean objective is searched for once, at its first use."""
    return pfpne.make_problem(objective, n_clients=2, noise=noise)


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
@pytest.mark.parametrize("noise", ["bernoulli", 0.1, 0])
def test_regret_never_falls_and_the_fast_form_is_the_objects(name, noise):
    for horizon, objective in ((1, "himmelblau"), (2, "garland"), (10, "rastrigin"), (at_most(150, name), "garland")):
        problem = problem_of_two(objective, noise)
        before, before_python = np.random.get_state()[1].copy(), random.getstate()
        run = pfpne.simulate(name, problem, horizon, global_regret=True)
        assert np.array_equal(np.random.get_state()[1], before) and random.getstate() == before_python
        assert run.t[-1] == horizon and run.regret.shape == run.simple_regret.shape == (2, len(run.t))
        for regret in (run.regret, run.global_regret):
            assert (np.diff(regret, axis=1, prepend=0) >= 0).all()
        assert (run.simple_regret >= 0).all() and (run.communication["t"] <= horizon).all()
        if fast_simulation_of(ALGORITHMS[name]) is not None:
            assert_equal_runs(run, pfpne.simulate(name, problem, horizon, global_regret=True, objects=True))


def test_an_algorithm_is_called_by_its_name_in_messages():
    task = Task(Partition(LINE), M, T)
    for algorithm, called in (("pf-pne", "pf-pne"), (ALGORITHMS["hct"], "hct"), (secured("pf-pne"), "pf-pne, secured")):
        with pytest.raises(ValueError, match=f"^{called}: .*'cc'"):
            make_federation(algorithm, task, cc=1)


def test_a_row_has_the_fast_form_that_its_name_has(monkeypatch):
    problem = pfpne.make_problem("garland", n_clients=2)
    runs = [pfpne.simulate("hct", problem, 50)]
    monkeypatch.setattr("pfpne.simulation.simulate.run_objects", None)
    runs.append(pfpne.simulate(ALGORITHMS["hct"], problem, 50))
    assert_equal_runs(*runs)


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_communication_is_the_sum_of_the_messages(name):
    run = pfpne.simulate(name, pfpne.make_problem("garland", n_clients=2), 100, messages=True)
    sent = {}
    for t, direction, _, message in run.messages:
        sent[t, direction] = sent.get((t, direction), 0) + message.n_numbers
    for t, up, down in run.rounds.tolist():
        assert (sent.get((t, "up"), 0), sent.get((t, "down"), 0)) == (up, down)
    assert {t for t, _ in sent} == set(run.rounds[:, 0].tolist())
    table = run.communication
    assert (table["bytes"] == 8 * (table["numbers up"] + table["numbers down"])).all()


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_a_seed_decides_everything_and_another_seed_is_another_run(name):
    problem, other = (pfpne.make_problem("himmelblau", n_clients=2, seed=seed) for seed in (0, 1))
    first = pfpne.simulate(name, problem, 200)
    np.random.random(3)
    assert_equal_runs(first, pfpne.simulate(name, problem, 200))
    assert not np.array_equal(first.regret, pfpne.simulate(name, other, 200).regret)


@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_another_run_is_another_run(name):
    """The same objectives in both, so that noise, cells and arms alone can tell them apart: each of them does."""
    problem = pfpne.problem_from_functions(
        [lambda x: 1 - np.abs(x).mean(axis=1) / 2] * 2, [[-1, 1], [-1, 2]], optimum=1.0
    )
    first, second = (pfpne.simulate(name, problem, 200, run=run) for run in (0, 1))
    assert not np.array_equal(first.regret, second.regret)
    silent = pfpne.problem_from_functions(problem.functions, problem.domain, noise=0, optimum=1.0)
    first, second = (pfpne.simulate(name, silent, 200, run=run) for run in (0, 1))
    same = np.array_equal(first.regret, second.regret)
    assert same == (name == "blin")  # which searches a grid of its own: without noise nothing is left to chance


@pytest.mark.parametrize("reward_range", [(0.5, 0.5), (1, 0), (0, 2e9), (0, np.nan), (0, 1, 2), "01"])
def test_a_range_of_rewards_has_two_ends_in_order(reward_range):
    with pytest.raises(ValueError, match="reward_range must be"):
        Task(Partition([[0, 1]]), 2, 10, reward_range=reward_range)


def test_what_is_asked_for_cannot_be_changed():
    batch = make_federation("hct", Task(Partition([[0, 1]]), 2, 10)).clients[0].ask()
    assert not batch.points.flags.writeable and not batch.counts.flags.writeable


def test_candidates_and_messages_are_copies_that_cannot_be_changed():
    points, means = np.array([[0.25], [0.75]]), np.array([0.5])
    task, message = Task(Partition([[0, 1]]), 2, 10, candidates=points), NodeMeans(0, means)
    points[0], means[0] = 0.5, 0.75
    assert task.candidates.tolist() == [[0.25], [0.75]] and message.means.tolist() == [0.5]
    assert not task.candidates.flags.writeable and not message.means.flags.writeable


def test_a_federation_that_is_told_before_it_was_asked_asks_first():
    run = make_federation("hct", Task(Partition([[0, 1]]), 1, 10))
    for t in (1, 2, 3):
        run.tell(0, [0.5])
        assert run.clients[0].t == t


def test_a_batch_is_told_once_and_still_to_be_told_after_rewards_that_are_refused():
    run = make_federation("hct", Task(Partition([[0, 1]]), 2, 10))
    run.tell(0, [0.5])
    for wrong in ([np.nan], [0.5, 0.5], [[0.5]]):
        with pytest.raises(ValueError, match="reward"):
            run.tell(1, wrong)
    with pytest.raises(ValueError, match="client 0 has no batch to be told about"):
        run.tell(0, [0.5])
    assert [m for m, _ in run.ask()] == [1] and run.clients[0].t == 1
    run.tell(1, [0.5])
    assert [client.t for client in run.clients] == [1, 1]


class UnevenClient(Client):
    """Client m pulls 3 - m times, sends that number, and waits for the answer."""

    receives = (KeptIndex,)

    def __init__(self, task, m):
        super().__init__(task)
        self.n, self.round, self.waits = 3 - m, 0, False

    def awaits(self):
        return Awaited(self.round - 1, KeptIndex, range(self.round, self.round + 1)) if self.waits else Awaited(-1)

    def _receive(self, message):
        self.round, self.waits = self.round + 1, False

    def _ask(self):
        center = self.task.partition.domain.mean(axis=1)[None]
        return EMPTY_BATCH if self.waits else Batch(center, np.array([min(self.n, self.task.horizon - self.t)]))

    def _tell(self, batch, rewards):
        self.waits = True
        return KeptIndex(self.round, np.array([batch.size]))

    def best(self):
        return self.task.partition.domain.mean(axis=1)


class AddingServer(Server):
    """Answers the clients' numbers with their sum."""

    receives = (KeptIndex,)
    round = 0

    def awaits(self, m):
        return Awaited(self.round - 1, KeptIndex, range(self.round, self.round + 1))

    def conclude(self, n):
        self.round += 1
        return KeptIndex(self.round - 1, n.sum(axis=0))


def test_an_exchange_is_dated_by_the_sender_that_is_furthest_on():
    task, dates = Task(Partition(LINE), 3, 9), []
    run = Federation(AddingServer(task), [UnevenClient(task, m) for m in range(3)], (KeptIndex,), (KeptIndex,))
    run.on_mail = lambda t, up, down: dates.append((t, [run.clients[m].t for m, _ in up]))
    for _ in range(2):
        for m, batch in run.ask():
            run.tell(m, np.zeros(batch.size))
    assert dates == [(3, [3, 2, 1]), (6, [6, 4, 2])]


def test_the_answer_does_not_depend_on_the_order_in_which_messages_arrive():
    """The rows are in the order of the clients: a sum in another order may have another last bit."""

    class Stacking(AddingServer):
        def conclude(self, n):
            stacked.append(n[:, 0].tolist())
            return super().conclude(n)

    stacked, messages = [], {m: KeptIndex(0, np.array([m + 1])) for m in range(3)}
    for order in ((0, 1, 2), (2, 0, 1)):
        Stacking(Task(Partition(LINE), 3, 9)).exchange({m: messages[m] for m in order})
    assert stacked == [[1, 2, 3]] * 2
