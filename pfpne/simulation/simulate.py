"""Run one algorithm on one problem, and keep the regret, the communication and the point deployed.

The simulator drives the same clients and server as a deployment would, or, where there is one, a faster form of the
same (pfpne.simulation.fast), which tests show to be equal.
"""

import dataclasses
import time

import numpy as np

from pfpne.algorithms import Algorithm, get_algorithm, make_settings
from pfpne.federation import Federation, Task
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.rng import stream
from pfpne.simulation.fast import FAST
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import Recorder, Run, Traces, checkpoints
from pfpne.validation import check, check_count


def _drive(federation: Federation, problem, noise_streams: list, t: np.ndarray, global_regret: bool, kept) -> Traces:
    """Drive the objects to the horizon: ask, evaluate, tell, stop."""
    recorder = Recorder(problem, t, global_regret)

    def deploys(m, client):
        recorder.bests.append(([m], [client.t], client.best()[None]))

    def on_mail(step, up, down):
        recorder.rounds[step] += [sum(message.numbers for _, message in mail) for mail in (up, down)]
        if kept is not None:
            kept.extend((step, way, m, message) for way, mail in (("up", up), ("down", down)) for m, message in mail)

    federation.on_mail = on_mail
    while federation.running:
        for m, batch in federation.ask():
            deploys(m, federation.clients[m])
            values = problem.client_values(m, batch.points)
            recorder.pulled(np.full(len(values), m), values, batch.counts, batch.points)
            federation.tell(m, draw_rewards(values, batch.counts, problem.noise, noise_streams[m]))
    for m, client in enumerate(federation.clients):
        deploys(m, client)
    return recorder.traces()


def partition_of(problem: Problem, cells: str, seed: int, run: int, kind: type[Partition] = Partition) -> Partition:
    """The binary partition of a run, the same for all its clients and algorithms. kind: the class of its cells."""
    drawn = int(stream(seed, problem.name, run, "cells").integers(2**64, dtype=np.uint64)) if cells == "random" else 0
    return kind(problem.domain, max_depth=problem.max_depth, cells=cells, seed=drawn, max_cuts=problem.max_cuts)


def simulate(
    name: str | Algorithm,
    problem: Problem,
    horizon: int,
    *,
    seed: int | None = None,
    run: int | None = None,
    cells: str = "random",
    partition=None,
    global_regret: bool = False,
    messages: bool = False,
    objects: bool = False,
    **settings,
) -> Run:
    """Run algorithm `name` on `problem` for `horizon` evaluations a client.

    seed, run: of the noise, cells, arms and initial weights, integers >= 0; the problem's by default.
    cells: "random" or "cyclic", as in Partition. partition: a Partition or PyXABPartition of the problem's domain
    instead of the one that `partition_of` makes.
    global_regret: also measure the regret against f-bar. messages: keep every message.
    objects: drive the clients and the server even where a faster form is at hand (messages implies it).
    settings: the algorithm's own, by name; Delta="true" stands for the problem's real one.
    Raises ValueError for a wrong value, an unknown algorithm, or a setting that the algorithm does not take.
    """
    algorithm = get_algorithm(name)
    check(isinstance(problem, Problem), "problem", "made by make_problem or problem_from_functions", problem)
    check_count("horizon", horizon)
    for what, flag in (("global_regret", global_regret), ("messages", messages), ("objects", objects)):
        check(isinstance(flag, bool), what, "True or False", flag)
    seed, run = problem.seed if seed is None else seed, problem.run if run is None else run
    check_count("seed", seed)
    check_count("run", run)
    if partition is None:
        partition = partition_of(problem, cells, seed, run)
    holds = np.array_equal(getattr(partition, "domain", None), problem.domain)
    check(holds, "partition", f"one of the problem's domain, {problem.domain.tolist()}", partition)
    chosen, T = make_settings(name, settings, problem), int(horizon)
    task = Task(partition, problem.n_clients, T, problem.noise, problem.candidates, seed, key=(problem.name, run))
    t, streams, mail = checkpoints(T), noise_streams(problem, seed, run), [] if messages else None
    start = time.perf_counter()
    fast = algorithm.fast if isinstance(name, Algorithm) else FAST.get(name)
    traces = None
    if fast is not None and not (messages or objects):
        traces = fast(problem, task, chosen, streams, t, global_regret)
    if traces is None:
        federation = Federation(*algorithm.make(task, chosen), algorithm.up, algorithm.down)
        traces = _drive(federation, problem, streams, t, global_regret, mail)
    found = {"t": t, "seconds": time.perf_counter() - start, "messages": mail}
    return Run(**vars(traces), algorithm=name, settings=dataclasses.asdict(chosen), **found)
