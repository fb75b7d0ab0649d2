"""How long a round of fn-ucb takes in its fast form and by the objects; its memory against t; and a run of T = 10^6.

    python benchmarks/bench_fn_ucb.py

K = 1000 arms in 10 dimensions, M = 10 clients, while the networks train and after. The median of warm repetitions.
"""

import resource
import sys
import time
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

import pfpne
from pfpne.algorithms.fn_ucb import FNUCBSettings
from pfpne.federation import Task
from pfpne.partition import Partition
from pfpne.simulation.neural import NeuralSimulation
from pfpne.simulation.noise import noise_streams

M, OBJECTIVE = 10, "rastrigin"
TRAINING, SETTLED = 1_900, 3_000  # steps at which both are timed
PORTION = 200  # steps between two checkpoints at T = 100,000


def start(objective: str, n_clients: int) -> NeuralSimulation:
    """A run of the compiled form before its first step."""
    problem = pfpne.make_problem(objective, n_clients=n_clients, noise="bernoulli")
    task = Task(Partition(problem.domain), n_clients, 100_000, problem.noise, None, 0, (problem.name, 0))
    return NeuralSimulation(problem, task, FNUCBSettings(), noise_streams(problem, 0, 0))


def seconds_a_round(run: NeuralSimulation, rounds: int) -> float:
    begin = time.perf_counter()
    run.play(rounds)
    return (time.perf_counter() - begin) / rounds


def print_times(phase: str, t: int, rounds: int, wanted: float, objects: float) -> None:
    """Print a round's time from step t on; wanted: milliseconds. objects: seconds that a round takes them."""
    run = start(OBJECTIVE, M)
    run.play(t)
    ours = median(seconds_a_round(run, rounds) for _ in range(5))
    print(
        f"fn-ucb, {OBJECTIVE}, K = 1000, d = 10, M = {M}, {phase}: {1e3 * ours:.4f} ms a round (at most {wanted}); "
        f"the objects, in their first rounds: {1e3 * objects:.0f} ms; ratio {objects / ours:.0f}"
    )


def seconds_of_objects(rounds: int) -> float:
    """A round of the clients and the server, over the first ones."""
    problem = pfpne.make_problem(OBJECTIVE, n_clients=M, noise="bernoulli")
    runs = [pfpne.simulate("fn-ucb", problem, rounds, objects=True) for _ in range(3)]
    return median(run.seconds for run in runs) / rounds


def draw(n_clients: int, horizon: int) -> float:
    """Seconds of the processor that numpy takes for the uniform values of a run."""
    rng, begin = np.random.default_rng(0), time.process_time()
    for _ in range(n_clients):
        rng.random(horizon)
    return time.process_time() - begin


def compare_long(objective: str, noise, n_clients: int = 20, horizon: int = 1_000_000) -> None:
    """Print what a long run takes, and its ratio to drawing the same number of uniform values."""
    problem = pfpne.make_problem(objective, n_clients, noise=noise)
    problem.optimum  # found once a problem, not once a run  # noqa: B018
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        pfpne.simulate("fn-ucb", problem, horizon)
        seconds.append((time.process_time() - begin, draw(n_clients, horizon)))
    ours, drawing = (median(column) for column in zip(*seconds, strict=True))
    print(
        f"fn-ucb, {objective}, noise {noise}, M = {n_clients}, T = {horizon}: {ours:.1f} s; "
        f"{n_clients * horizon} uniform values: {drawing:.2f} s; ratio {ours / drawing:.0f}"
    )


def peak_megabytes() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    start(OBJECTIVE, M).play(2_010)  # compiled, or read from the disk
    run = start(OBJECTIVE, M)
    for t in (3_000, 10_000, 100_000):
        while run.t < t:
            run.play(PORTION)
        print(f"fn-ucb, {OBJECTIVE}, M = {M}: peak memory {peak_megabytes():.0f} MB after {run.t} rounds")
    objects = seconds_of_objects(12)
    print_times("training", TRAINING, 20, 20, objects)
    print_times("after training", SETTLED, 2_000, 1, objects)
    for objective in ("garland", "himmelblau", OBJECTIVE):
        run = start(objective, 20)
        first = seconds_a_round(run, 2_000)
        later = seconds_a_round(run, 20_000)
        print(f"fn-ucb, {objective:10}, M = 20: {1e3 * first:.3f} ms a round to t = 2,000, then {1e3 * later:.4f} ms")
    for objective in ("garland", OBJECTIVE, "ackley"):  # one arm for ever; so, of 1000 arms; arms that alternate
        compare_long(objective, 1.0)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
