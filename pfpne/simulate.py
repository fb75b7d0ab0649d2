"""Run one algorithm on one problem, and keep the regret, the communication and the point deployed.

The simulator drives the same clients and server as a deployment would. An algorithm that decides pull
by pull may bring a compiled form of the same (`Algorithm.fast`), which tests show to be equal to the
objects. Noise wraps the objective's noiseless values, so regret needs no second evaluation.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pfpne.federation import Batch, Federation, Task, check, is_integer
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


def draw_rewards(values: np.ndarray, counts: np.ndarray, noise, rng: np.random.Generator) -> np.ndarray:
    """Noisy rewards (sum counts,): each of the values (n,) drawn counts (n,) times, in order.

    Bernoulli: 1 with probability value. A number a: value + a (2u - 1). One uniform u a pull, in order, so
    that the noise of a client's pull t is the same whatever it pulls; none is drawn when noise is 0.
    """
    if isinstance(noise, (int, float)) and noise == 0:
        return np.repeat(values, counts)
    u = rng.random(int(counts.sum()))
    if (counts == counts[0]).all():  # broadcast instead of repeating each value
        rows, means = u.reshape(len(counts), -1), values[:, None]
    else:
        rows, means = u, np.repeat(values, counts)
    if noise == "bernoulli":
        return (rows < means).astype(float).ravel()
    rows *= 2.0
    rows -= 1.0
    rows *= noise
    rows += means
    return u


class _Recorder:
    """Collects what the clients pulled and would deploy, and sums it up at the end."""

    def __init__(self, M: int):
        self.pulls = [[] for _ in range(M)]  # (points, values, counts), in order
        self.bests = [[] for _ in range(M)]  # (t from which on, point)
        self.rounds: dict[int, list] = {}  # t -> [numbers up, numbers down]

    def mail(self, t: int, up: list, down: list) -> None:
        row = self.rounds.setdefault(t, [0, 0])
        row[0] += sum(message.numbers for _, message in up)
        row[1] += sum(message.numbers for _, message in down)

    def traces(self, problem, t: np.ndarray, global_regret: bool) -> Traces:
        M = len(self.pulls)
        regret, simple = np.empty((M, len(t))), np.empty((M, len(t)))
        shared = np.empty((M, len(t))) if global_regret else None
        for m in range(M):
            points, values, counts = zip(*self.pulls[m], strict=True)
            n = np.cumsum(np.concatenate(counts))
            regret[m] = _at(t, n, gaps(problem.optimum[m], np.concatenate(values)))
            if global_regret:
                shared[m] = _at(t, n, gaps(problem.global_optimum, problem.mean_values(np.concatenate(points))))
            since, bests = zip(*self.bests[m], strict=True)
            gap = gaps(problem.optimum[m], problem.client_values(m, np.stack(bests)))
            simple[m] = gap[np.searchsorted(since, t, side="right") - 1]
        best = np.stack([bests[-1][1] for bests in self.bests])
        rounds = np.array([[s, *self.rounds[s]] for s in sorted(self.rounds)], dtype=np.int64).reshape(-1, 3)
        return Traces(regret, shared, simple, rounds, best)


def _at(t: np.ndarray, n: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Cumulative regret at steps t (C,), where the pulls up to n (k,) had the gaps (k,), in order."""
    before = np.concatenate([[0], n[:-1]])
    total = np.concatenate([[0.0], np.cumsum(gap * (n - before))])
    at = np.searchsorted(n, t)  # the run of pulls that step t belongs to
    return np.maximum.accumulate(total[at] + gap[at] * (t - before[at]))


def _drive(federation: Federation, problem, noise_streams: list, t: np.ndarray, global_regret: bool, messages) -> Traces:
    """Drive the objects to the horizon: ask, evaluate, tell, stop."""
    recorder = _Recorder(len(federation.clients))

    def on_mail(step, up, down):
        recorder.mail(step, up, down)
        if messages is not None:
            messages.extend((step, "up", m, message) for m, message in up)
            messages.extend((step, "down", m, message) for m, message in down)

    federation.on_mail = on_mail
    while federation.running:
        sweep = federation.ask()
        for m, batch in sweep:
            client = federation.clients[m]
            best = client.best()
            if not recorder.bests[m] or best is not recorder.bests[m][-1][1]:
                recorder.bests[m].append((client.t, best))
            values = problem.client_values(m, batch.points)
            recorder.pulls[m].append((batch.points, values, batch.counts))
            federation.tell(m, draw_rewards(values, batch.counts, problem.noise, noise_streams[m]))
    for m, client in enumerate(federation.clients):
        recorder.bests[m].append((client.t, client.best()))
    return recorder.traces(problem, t, global_regret)


def noise_streams(problem, seed: int, run: int) -> list[np.random.Generator]:
    """One stream a client: the noise of client m at step t is the same for every algorithm of the run."""
    return [stream(seed, problem.name, run, m, "noise") for m in range(problem.n_clients)]


def simulate(
    name: str,
    problem,
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
    objects: drive the clients and the server even where a compiled form is at hand (messages implies it).
    settings: the algorithm's own, by name; Delta="true" stands for the problem's real one.
    Raises ValueError for a wrong value, an unknown algorithm, or a setting that the algorithm does not take.
    """
    algorithm = get_algorithm(name)
    check(is_integer(horizon) and horizon >= 1, "horizon (T)", "an integer >= 1", horizon)
    seed = problem.seed if seed is None else seed
    run = problem.run if run is None else run
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
