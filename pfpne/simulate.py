"""Run one algorithm on one problem, and keep the regret, the communication and the point deployed.

The simulator drives the same clients and server as a deployment would. An algorithm may bring a faster
form of the same (`Algorithm.fast`): compiled, or all clients at once. Tests show it equal to the
objects. Noise wraps the objective's noiseless values, so regret needs no second evaluation.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pfpne.checks import check, is_integer
from pfpne.federation import Federation, Task
from pfpne.objectives import Problem
from pfpne.partition import Partition
from pfpne.registry import get_algorithm, make_settings
from pfpne.rng import stream

SLACK = 1e-9  # how far above its optimum a value may be by rounding; beyond, the optimum is wrong


@dataclass(frozen=True, eq=False)
class Traces:
    """What a simulation records. M clients, C checkpoints.

    regret (M, C): sum over s <= t of f_m* - f_m(x_{m,s}). global_regret: the same with f-bar, or None.
    simple_regret (M, C): f_m* - f_m(best()) after step t and the exchange that it set off.
    communication (rounds, 3) int64: t, numbers up, numbers down, in increasing t. best (M, d): best() at T.
    """

    regret: np.ndarray
    global_regret: np.ndarray | None
    simple_regret: np.ndarray
    communication: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, eq=False)
class Run:
    """The result of one simulation; arrays as in Traces.

    t (C,): checkpoints, the last is the horizon. communication: a row a round, with columns t, round,
    numbers up, numbers down, bytes. seconds: wall time, the one value that is not reproducible.
    messages: (t, "up" or "down", client, Message) of every message, if they were asked for.
    """

    algorithm: str
    settings: dict
    t: np.ndarray
    regret: np.ndarray
    global_regret: np.ndarray | None
    simple_regret: np.ndarray
    communication: pd.DataFrame
    best: np.ndarray
    seconds: float
    messages: list | None = None


def checkpoints(T: int) -> np.ndarray:
    """The distinct ceil(k T / C), k = 1..C, C = min(T, 500)."""
    C = min(T, 500)
    return np.unique(-(-np.arange(1, C + 1, dtype=np.int64) * T // C))


def gaps(optimum, values: np.ndarray) -> np.ndarray:
    """optimum - values, never negative; RuntimeError if a value is above the optimum by more than rounding."""
    gap = optimum - values
    if gap.size and gap.min() < -SLACK:
        raise RuntimeError(f"a value is {-gap.min():.3g} above the recorded optimum: the optimum is wrong.")
    return np.maximum(gap, 0.0)


def noisy(means: np.ndarray, noise, u: np.ndarray) -> np.ndarray:
    """Rewards of pulls with these means and uniforms u in [0, 1), written over u; means broadcast to u.

    Bernoulli: 1 with probability mean. A number a: mean + a (2u - 1).
    """
    if noise == "bernoulli":
        u[...] = u < means
        return u
    u -= 0.5  # exact, and so the same as a (2u - 1) with one pass less
    u *= 2 * noise
    u += means
    return u


def draw_rewards(values: np.ndarray, counts: np.ndarray, noise, rng: np.random.Generator) -> np.ndarray:
    """Noisy rewards (sum counts,): each of the values (n,) drawn counts (n,) times, in order.

    One uniform a pull, in order, so that the noise of a client's pull t is the same whatever it pulls; none
    is drawn when noise is 0.
    """
    means = np.repeat(values, counts)
    return means if noise == 0 else noisy(means, noise, rng.random(len(means)))


class Recorder:
    """Collects what the clients pulled and would deploy, and sums it up at the end."""

    def __init__(self):
        self._pulls: list[tuple] = []  # owner (n,), values (n,), counts (n,), points (n, d); a client's own in order
        self._bests: list[tuple] = []  # owner (n,), t from which on (n,), points (n, d)
        self._rounds: dict[int, list] = {}  # t -> [numbers up, numbers down]

    def pulled(self, owner: np.ndarray, points: np.ndarray, values: np.ndarray, counts: np.ndarray) -> None:
        """The clients `owner` (n,) pulled these points (n, d), which are worth `values`, `counts` times each."""
        self._pulls.append((owner, values, counts, points))

    def deploys(self, owner: np.ndarray, t: np.ndarray, points: np.ndarray) -> None:
        """From step t (n,) on, the clients `owner` (n,) would deploy these points (n, d)."""
        self._bests.append((owner, t, points))

    def exchanged(self, t: int, up: int, down: int) -> None:
        """At step t these numbers were carried up and down."""
        row = self._rounds.setdefault(t, [0, 0])
        row[0] += up
        row[1] += down

    def traces(self, problem, t: np.ndarray, global_regret: bool) -> Traces:
        owner, values, counts, points = _by_owner(self._pulls)
        regret = _cumulative(t, owner, counts, gaps(problem.optimum[owner], values))
        shared = None
        if global_regret:
            shared = _cumulative(t, owner, counts, gaps(problem.global_optimum, problem.mean_values(points)))
        owner, since, points = _by_owner(self._bests)
        gap = gaps(problem.optimum[owner], problem.paired_values(owner, points))
        M, T = problem.n_clients, t[-1]
        at = np.searchsorted(owner * (T + 1) + since, np.arange(M)[:, None] * (T + 1) + t, side="right") - 1
        rounds = np.array([[s, *self._rounds[s]] for s in sorted(self._rounds)], dtype=np.int64).reshape(-1, 3)
        return Traces(regret, shared, gap[at], rounds, points[at[:, -1]])


def _by_owner(records: list[tuple]) -> list[np.ndarray]:
    """The columns of the records, client after client, a client's own in the order they came."""
    columns = [np.concatenate(column) for column in zip(*records, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return [column[order] for column in columns]


def _cumulative(t: np.ndarray, owner: np.ndarray, counts: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Cumulative regret (M, C) at steps t (C,): every client made t[-1] pulls, counts (n,) in a row with gap (n,)."""
    first = np.searchsorted(owner, np.arange(owner[-1] + 2))  # where each client's rows begin, and the end
    after = np.cumsum(counts)
    before = after - counts
    total = np.zeros(len(gap) + 1)
    for a, b in zip(first[:-1], first[1:], strict=True):
        np.cumsum(gap[a:b] * counts[a:b], out=total[a + 1 : b + 1])
    total[first] = 0.0  # each client's sum starts anew
    steps = t[-1] * np.arange(len(first) - 1)[:, None] + t
    at = np.searchsorted(after, steps)  # the row that each step belongs to
    return np.maximum.accumulate(total[at] + gap[at] * (steps - before[at]), axis=1)


def _drive(
    federation: Federation, problem, noise_streams: list, t: np.ndarray, global_regret: bool, messages
) -> Traces:
    """Drive the objects to the horizon: ask, evaluate, tell, stop."""
    recorder = Recorder()

    def deploys(m, client):
        recorder.deploys(np.array([m]), np.array([client.t]), client.best()[None])

    def on_mail(step, up, down):
        recorder.exchanged(step, *(sum(message.numbers for _, message in mail) for mail in (up, down)))
        if messages is not None:
            messages.extend((step, "up", m, message) for m, message in up)
            messages.extend((step, "down", m, message) for m, message in down)

    federation.on_mail = on_mail
    while federation.running:
        sweep = federation.ask()
        for m, batch in sweep:
            deploys(m, federation.clients[m])
            values = problem.client_values(m, batch.points)
            recorder.pulled(np.full(len(values), m), batch.points, values, batch.counts)
            federation.tell(m, draw_rewards(values, batch.counts, problem.noise, noise_streams[m]))
    for m, client in enumerate(federation.clients):
        deploys(m, client)
    return recorder.traces(problem, t, global_regret)


def noise_streams(problem, seed: int, run: int) -> list[np.random.Generator]:
    """One stream a client: the noise of client m at step t is the same for every algorithm of the run."""
    return [stream(seed, problem.name, run, m, "noise") for m in range(problem.n_clients)]


def simulate(
    name: str,
    problem: Problem,
    horizon: int,
    *,
    seed: int | None = None,
    run: int | None = None,
    partition=None,
    global_regret: bool = False,
    messages: bool = False,
    objects: bool = False,
    **settings,
) -> Run:
    """Run algorithm `name` on `problem` for `horizon` evaluations a client.

    seed, run: of the noise, arms and initial weights, integers >= 0; the problem's by default.
    partition: a Partition or PyXABPartition of the problem's domain; the halving of SPEC by default.
    global_regret: also measure the regret against f-bar. messages: keep every message.
    objects: drive the clients and the server even where a faster form is at hand (messages implies it).
    settings: the algorithm's own, by name; Delta="true" stands for the problem's real one.
    Raises ValueError for a wrong value, an unknown algorithm, or a setting that the algorithm does not take.
    """
    algorithm = get_algorithm(name)
    check(isinstance(problem, Problem), "problem", "made by make_problem or problem_from_functions", problem)
    check(is_integer(horizon) and horizon >= 1, "horizon (T)", "an integer >= 1", horizon)
    seed = problem.seed if seed is None else seed
    run = problem.run if run is None else run
    check(is_integer(run) and run >= 0, "run", "an integer >= 0", run)
    if partition is not None:
        holds = np.array_equal(getattr(partition, "domain", None), problem.domain)
        check(holds, "partition", f"one of the problem's domain, {problem.domain.tolist()}", partition)
    chosen = make_settings(name, settings, problem)
    task = Task(
        partition=partition or Partition(problem.domain, max_depth=problem.max_depth),
        n_clients=problem.n_clients,
        horizon=int(horizon),
        noise=problem.noise,
        candidates=problem.candidates,
        seed=seed,
        key=(problem.name, run),
    )
    t = checkpoints(int(horizon))
    streams = noise_streams(problem, seed, run)
    mail = [] if messages else None
    start = time.perf_counter()
    if algorithm.fast is not None and not messages and not objects:
        traces = algorithm.fast(problem, task, chosen, streams, t, global_regret)
    else:
        federation = Federation(*algorithm.make(task, chosen), algorithm.up, algorithm.down)
        traces = _drive(federation, problem, streams, t, global_regret, mail)
    seconds = time.perf_counter() - start
    table = pd.DataFrame(traces.communication, columns=["t", "numbers up", "numbers down"])
    table.insert(1, "round", np.arange(1, len(table) + 1))
    table["bytes"] = 8 * (table["numbers up"] + table["numbers down"])
    return Run(
        algorithm=name,
        settings=dataclasses.asdict(chosen),
        t=t,
        regret=traces.regret,
        global_regret=traces.global_regret,
        simple_regret=traces.simple_regret,
        communication=table,
        best=traces.best,
        seconds=seconds,
        messages=mail,
    )
