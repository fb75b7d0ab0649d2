"""Any partition, any rewards, any settings in their ranges: the budget is spent exactly, sets are nested, a state that
was saved goes on as if nothing had been, and no exception comes."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfpne
from pfpne.algorithms import UNLIMITED_ALGORITHMS, get_algorithm, make_federation
from pfpne.algorithms.phases import Pull
from pfpne.federation import Federation, Task
from pfpne.partition import CELLS, Partition
from pfpne.simulation.simulate import partition_of

SHORT = settings(max_examples=40, derandomize=True)
LONG = settings(max_examples=1_000)
SLOW = {"fn-ucb": {"width": 2, "steps": 2}}  # inverts a matrix at each pull: here a small one
REWARDS = {  # (rng, shape) -> in [0, 1]
    "uniform": lambda rng, shape: rng.random(shape),
    "bernoulli": lambda rng, shape: rng.integers(2, size=shape).astype(float),
    "all equal": lambda rng, shape: np.full(shape, rng.random()),
    "0": lambda rng, shape: np.zeros(shape),
    "1": lambda rng, shape: np.ones(shape),
    "rising": lambda rng, shape: np.broadcast_to(np.linspace(0, 1, shape[1]), shape),
    "tiny": lambda rng, shape: 1e-300 * rng.random(shape),
}


@st.composite
def tasks(draw, evaluations: int) -> tuple[str, Task]:
    """evaluations: at most, of all clients together; a few make a short test."""
    name, k, d = draw(st.sampled_from(UNLIMITED_ALGORITHMS)), draw(st.integers(2, 4)), draw(st.integers(1, 6))
    M = draw(st.integers(1, 20))
    each = evaluations // (2 * M if name in SLOW else M)
    T = draw(st.integers(1, min(500, max(8, each))))
    low = draw(st.sampled_from([-1e6, -1.0, 0.0]))
    domain = [[low, low + draw(st.sampled_from([1e-3, 1.0, 1e6]))] for _ in range(d)]
    depth = draw(st.sampled_from([0, 1, 2, 7, None]))
    cells = Partition(domain, k, depth, draw(st.sampled_from(CELLS)), draw(st.integers(0, 2**64 - 1)))
    noise = draw(st.sampled_from([None, "bernoulli", 0, 0.3, 1e9]))
    return name, Task(cells, M, T, noise, seed=draw(st.integers(0, 9)))


def sweep(run: Federation, rewards: np.ndarray) -> list:
    """One sweep, told; returns what was pulled. rewards (M, T): of each client's evaluations, one after another."""
    pulled = []
    for m, batch in run.ask():
        t, domain = run.clients[m].t, run.clients[m].task.partition.domain
        assert 1 <= batch.counts.min() and batch.counts.sum() <= rewards.shape[1] - t
        assert ((domain[:, 0] <= batch.points) & (batch.points <= domain[:, 1])).all()
        pulled.append((m, batch.points.tolist(), batch.counts.tolist()))
        run.tell(m, rewards[m, t : t + batch.size])
    return pulled


class Nested:
    """Sets of nodes, each of which lies below the one before it."""

    def __init__(self, k: int):
        self.k, self.h, self.index = k, 0, np.array([1])

    def then(self, h: int, index: np.ndarray) -> None:
        assert h >= self.h and (np.diff(index) > 0).all() and 1 <= index[0] and index[-1] <= self.k**h
        assert np.isin((index - 1) // self.k ** (h - self.h) + 1, self.index).all()
        self.h, self.index = h, index


def watch(run: Federation, k: int) -> None:
    """The sets of nodes, or of arms, that the server broadcasts are nested."""
    kept, arms = Nested(k), []

    def on_mail(t, up, down):
        for _, message in down[:1]:
            if "index" in message.payload():
                kept.then(message.header, np.asarray(message.index))
            if "arms" in message.payload():
                arms.append(message.arms)
                assert np.isin(arms[-1], arms[-2:][0]).all()

    run.on_mail = on_mail


def hold(task: tuple[str, Task], kind: str, moment: int, seed: int) -> None:
    name, task = task
    rewards = REWARDS[kind](np.random.default_rng(seed), (task.n_clients, task.horizon))
    run, n, pulled, saved = make_federation(name, task, **SLOW.get(name, {})), 0, [], None
    watch(run, task.partition.k)
    own = [Nested(2 if name == "blin" else task.partition.k) for _ in run.clients]  # what each client pulls
    while run.running:
        for client, nodes in zip(run.clients, own, strict=True):
            if isinstance(request := getattr(client, "_request", None), Pull):
                nodes.then(request.h, np.unique(request.index))
        if n == moment:
            on_mail, run.on_mail = run.on_mail, None  # a test's own function
            saved, from_here = pickle.dumps(run), len(pulled)
            run.on_mail = on_mail
        pulled += sweep(run, rewards)
        n += 1
    for client in run.clients:
        domain = task.partition.domain
        assert client.t == task.horizon and client.ask().size == 0
        assert ((domain[:, 0] <= client.best()) & (client.best() <= domain[:, 1])).all()
    if saved is not None:
        again, run = [], pickle.loads(saved)
        while run.running:
            again += sweep(run, rewards)
        assert again == pulled[from_here:]


def anything(evaluations: int):
    moments = st.integers(0, 5) | st.integers(0, 300)  # sweeps before it is saved, if there are as many
    return given(tasks(evaluations), st.sampled_from(sorted(REWARDS)), moments, st.integers(0, 99))


test_whatever_the_task_and_the_rewards = SHORT(anything(300)(hold))
test_whatever_the_task_and_the_rewards_for_long = pytest.mark.slow(LONG(anything(10_000)(hold)))


# --- settings at the ends of their ranges -------------------------------------------------------------

ENDS = {
    **dict.fromkeys(("nu_1", "c", "c_1", "lambda_", "rate", "c_pulls"), (1e-9, 0.1, 1.0, 1e9)),
    **dict.fromkeys(("Delta", "c_gap", "nu", "nu_2", "sigma"), (0.0, 1e-9, 0.1, 1e9)),
    "rho": (1e-6, 0.5, 1 - 1e-6),
    "delta": (1e-9, 0.1, 1.0),
}


@st.composite
def simulations(draw) -> tuple:
    name = draw(st.sampled_from(UNLIMITED_ALGORITHMS))
    own = [field.name for field in dataclasses.fields(get_algorithm(name).settings) if field.name in ENDS]
    given = {setting: draw(st.sampled_from(ENDS[setting])) for setting in own if draw(st.booleans())}
    problem = {"name": draw(st.sampled_from(["garland", "himmelblau"])), "n_clients": draw(st.integers(1, 4))}
    problem |= {name: draw(st.sampled_from([0, 1e-9, 0.1, 1e9])) for name in ("shift", "common_shift")}
    problem |= {"noise": draw(st.sampled_from(["bernoulli", 0, 1e-9, 0.1, 1e9])), "run": draw(st.integers(0, 9))}
    return name, problem, draw(st.integers(1, 300)), draw(st.sampled_from(CELLS)), given


def end(simulation: tuple) -> None:
    name, problem, T, cells, given = simulation
    problem = pfpne.make_problem(**problem)
    partition = partition_of(problem, cells, 0, 0)
    try:
        run = pfpne.simulate(name, problem, T, partition=partition, global_regret=True, **given)
    except FloatingPointError as error:  # a network that diverges says so
        assert name == "fn-ucb" and "diverged" in str(error)
        return
    for regret in (run.regret, run.global_regret):
        assert np.isfinite(regret).all() and (np.diff(regret, axis=1) >= 0).all()
        assert (regret <= run.t * (1 + 1e-9)).all()
    assert np.isfinite(run.best).all() and (run.simple_regret >= 0).all()


test_settings_at_their_ends = SHORT(given(simulations())(end))
test_settings_at_their_ends_for_long = pytest.mark.slow(LONG(given(simulations())(end)))
