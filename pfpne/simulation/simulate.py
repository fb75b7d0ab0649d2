"""Run one algorithm on one problem, and keep the regret, the communication and the point deployed.

The simulator drives the same clients and server as a deployment would. Where there is a faster form of the same
(pfpne.simulation.fast) it runs that, which tests show to be equal.
"""

from __future__ import annotations

import dataclasses
import time

import numpy as np


from pfpne.algorithms import Algorithm, get_algorithm, make_settings
from pfpne.checks import check, is_integer
from pfpne.federation import Federation, Task
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import Recorder, Run, Traces, checkpoints


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


def simulate(
    name: str | Algorithm,
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
    from pfpne.simulation.fast import FAST

    fast = None if messages or objects or isinstance(name, Algorithm) else FAST.get(name)
    traces = fast and fast(problem, task, chosen, streams, t, global_regret)
    if traces is None:
        federation = Federation(*algorithm.make(task, chosen), algorithm.up, algorithm.down)
        traces = _drive(federation, problem, streams, t, global_regret, mail)
    seconds = time.perf_counter() - start
    return Run(
        **vars(traces), algorithm=name, settings=dataclasses.asdict(chosen), t=t, seconds=seconds, messages=mail
    )
