"""Run one algorithm on one problem, and keep the regret, the communication and the points deployed.

The simulator drives the same clients and server as a deployment. If an algorithm has a fast simulation
(pfpne.simulation.fast), which tests show to be equal, the fast simulation runs instead.
"""

import dataclasses
import time
from typing import Any

import numpy as np

from pfpne.algorithms import Algorithm, get_algorithm, make_settings
from pfpne.federation import Federation, Task
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.rng import stream
from pfpne.simulation.fast import fast_simulation_of
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import Measurements, Recorder, Run, checkpoints_of
from pfpne.validation import check, check_count


def run_objects(
    federation: Federation,
    problem,
    noise_streams: list,
    checkpoints: np.ndarray,
    global_regret: bool,
    mail: list | None,
) -> Measurements:
    """Drive the objects to the horizon: ask, evaluate, tell, stop. mail, if not None, gets every message."""
    recorder = Recorder(problem, checkpoints, global_regret)

    def record_deployment(m, client):
        recorder.deployments.append(([m], [client.t], client.best()[None]))

    def on_mail(step, up, down):
        recorder.rounds[step] += [sum(message.n_numbers for _, message in sent) for sent in (up, down)]
        if mail is not None:
            mail.extend((step, "up", m, message) for m, message in up)
            mail.extend((step, "down", m, message) for m, message in down)

    federation.on_mail = on_mail
    while federation.running:
        for m, batch in federation.ask():
            record_deployment(m, federation.clients[m])
            values = problem.client_values(m, batch.points)
            recorder.record_pulls(np.full(len(values), m), values, batch.counts, batch.points)
            rng, slope = noise_streams[m], problem.noise_slope
            federation.tell(m, draw_rewards(values, batch.counts, problem.noise, rng, slope))
    for m, client in enumerate(federation.clients):
        record_deployment(m, client)
    return recorder.measurements()


def partition_of(
    problem: Problem, cells: str, seed: int, run: int, partition_class: type[Partition] = Partition
) -> Partition:
    """Return the binary partition of a run, the same for all clients and algorithms."""
    cell_seed = 0
    if cells == "random":
        cell_seed = int(stream(seed, problem.name, run, "cells").integers(2**64, dtype=np.uint64))
    return partition_class(
        problem.domain, max_depth=problem.max_depth, cells=cells, seed=cell_seed, max_cuts=problem.max_cuts
    )


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
    """Run one algorithm on one problem.

    Parameters
    ----------
    name
        The name of an algorithm, a key of pfpne.algorithms.ALGORITHMS, or an Algorithm that `secured` returns.
    problem
        A problem from `make_problem` or `problem_from_functions`.
    horizon
        T, the number of evaluations of each client, in 1..10^9; M T is at most 10^9.
    seed, run
        Integers >= 0 that decide noise, cells, arms and initial weights; None for the problem's own.
    cells
        "random" or "cyclic", as in `Partition`.
    partition
        A `Partition` or `PyXABPartition` of the problem's domain, which replaces the one made from cells, seed and run.
    global_regret
        Whether the regret against the mean of all clients' objectives is measured, too.
    messages
        Whether every message is kept.
    objects
        Whether to run the client and server objects even if a fast simulation exists; messages implies it.
    **settings
        The algorithm's own settings, by name. Delta="true" stands for the Delta of the problem.

    Returns
    -------
    Run
        The checkpoints t (C,), the last of which is the horizon; the regret (M, C), cumulative and in units of the
        reward; the simple regret (M, C); the communication as a table; and the points (M, d) deployed in the end.

    Raises
    ------
    ValueError
        If a value is out of its range, or there is no such algorithm or setting.

    Examples
    --------
    >>> import pfpne
    >>> problem = pfpne.make_problem("garland", n_clients=3, shift=0.1, noise="bernoulli", seed=0, run=0)
    >>> run = pfpne.simulate("pf-pne", problem, horizon=1_000)
    >>> run.regret.shape
    (3, 500)
    >>> list(run.communication.columns)
    ['t', 'round', 'numbers up', 'numbers down', 'bytes']
    """
    algorithm = get_algorithm(name)
    check(isinstance(problem, Problem), "problem", "made by make_problem or problem_from_functions", problem)
    check_count("horizon", horizon)
    for switch, value in (("global_regret", global_regret), ("messages", messages), ("objects", objects)):
        check(isinstance(value, bool), switch, "True or False", value)
    seed, run = problem.seed if seed is None else seed, problem.run if run is None else run
    check_count("seed", seed)
    check_count("run", run)
    if partition is None:
        partition = partition_of(problem, cells, seed, run)
    domain: Any = getattr(partition, "domain", None)
    same_domain = np.array_equal(domain, problem.domain)
    check(same_domain, "partition", f"one of the problem's domain, {problem.domain.tolist()}", partition)
    made_settings, T = make_settings(name, settings, problem), int(horizon)
    task = Task(partition, problem.n_clients, T, problem.noise, problem.candidates, seed, key=(problem.name, run))
    checkpoints, streams, mail = checkpoints_of(T), noise_streams(problem, seed, run), [] if messages else None
    start, measurements = time.perf_counter(), None
    fast = fast_simulation_of(algorithm)
    if fast is not None and not (messages or objects):
        measurements = fast(problem, task, made_settings, streams, checkpoints, global_regret)
    if measurements is None:
        federation = algorithm.federation(task, made_settings)
        measurements = run_objects(federation, problem, streams, checkpoints, global_regret, mail)
    return Run(
        **vars(measurements),
        algorithm=name,
        settings=dataclasses.asdict(made_settings),
        t=checkpoints,
        seconds=time.perf_counter() - start,
        messages=mail,
        exact=problem.noise == 0,
    )
