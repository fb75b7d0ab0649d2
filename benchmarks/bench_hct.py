"""How fast the compiled trees are: beside PyXAB's HCT, beside drawing their noise, and each per pull.

    python benchmarks/bench_hct.py

Both run the same objective, cells and noise, one client, T = 20,000, in the same process, the objective's
evaluation included; that the pulls are the same is checked. PyXAB is timed once, ours as the median of
repetitions when warm (compiled code comes from the disk).

The long runs (M = 20, T = 10^6) are timed in turn with numpy drawing the same number of uniform values, in seconds of
the processor, and the ratio is that of the medians.
"""

import time
from functools import partial
from statistics import median

import numpy as np
from bench_pf_pne import draw
from PyXAB.algos.HCT import HCT as PyXABHCT

import pfpne
from pfpne.algorithms import ALGORITHMS, make_settings
from pfpne.federation import Task
from pfpne.partition import Partition
from pfpne.pyxab import to_pyxab
from pfpne.simulation.fast import fast_simulation_of
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import checkpoints_of

REPETITIONS = 15
T = 20_000
LONG_M, LONG_T, LONG_REPETITIONS = 20, 1_000_000, 3


def time_pyxab(problem, partition) -> tuple[float, np.ndarray]:
    """Seconds of PyXAB's HCT for T pulls, and its cumulative regret at the checkpoints."""
    one, rng, gaps = np.array([1]), noise_streams(problem, 0, 0)[0], []
    start = time.perf_counter()
    algorithm = PyXABHCT(domain=problem.domain.tolist(), partition=to_pyxab(partition))
    taken = time.perf_counter() - start
    for t in range(1, T + 1):
        start = time.perf_counter()
        point = algorithm.pull(t)
        taken += time.perf_counter() - start
        value = problem.client_values(0, np.array([point]))
        reward = draw_rewards(value, one, problem.noise, rng)[0]
        start = time.perf_counter()
        algorithm.receive_reward(t, reward)
        taken += time.perf_counter() - start
        gaps.append(problem.optimum[0] - value[0])
    return taken, np.cumsum(gaps)[checkpoints_of(T) - 1]


def time_ours(name: str, problem, horizon: int) -> tuple[float, np.ndarray]:
    """Median seconds of a simulation, and its cumulative regret (M, C)."""
    task, taken = Task(Partition(problem.domain), problem.n_clients, horizon, problem.noise), []
    settings, simulate = make_settings(name, {}), fast_simulation_of(ALGORITHMS[name])
    assert simulate is not None
    for _ in range(REPETITIONS + 1):
        streams = noise_streams(problem, 0, 0)
        start = time.perf_counter()
        traces = simulate(problem, task, settings, streams, checkpoints_of(horizon), False)
        taken.append(time.perf_counter() - start)
    return median(taken[1:]), traces.regret


def compare_long(objective: str, noise) -> None:
    """Print the nanoseconds per pull of long runs, and their ratio to drawing."""
    problem = pfpne.make_problem(objective, LONG_M, noise=noise)
    problem.optimum  # found once a problem, not once a run  # noqa: B018
    names = ("hct", "hct-pyxab", "hoo")
    jobs = [partial(draw, LONG_M, LONG_T), *(partial(pfpne.simulate, name, problem, LONG_T) for name in names)]
    seconds = [[] for _ in jobs]
    for name in names:  # compiled, or read from the disk
        pfpne.simulate(name, problem, 1_000)
    for _ in range(LONG_REPETITIONS):
        for job, taken in zip(jobs, seconds, strict=True):
            start = time.process_time()
            job()
            taken.append(time.process_time() - start)
    drawing, *running = (1e9 * median(taken) / (LONG_M * LONG_T) for taken in seconds)
    for name, ns in zip(names, running, strict=True):
        print(
            f"{name}, {objective}, noise {noise}, M = {LONG_M}, T = {LONG_T}: {ns:.0f} ns per pull (hct: at most 110); "
            f"a uniform value: {drawing:.1f} ns; ratio {ns / drawing:.0f}"
        )


def main() -> None:
    for objective in ("garland", "himmelblau", "rastrigin"):
        problem = pfpne.make_problem(objective, n_clients=1, noise="bernoulli")
        ours, regret = time_ours("hct-pyxab", problem, T)
        theirs, expected = time_pyxab(problem, Partition(problem.domain))
        same = "the same pulls" if np.array_equal(regret[0], expected) else "OTHER PULLS"
        print(
            f"hct-pyxab, {objective}, T = {T}: {1e6 * ours / T:.2f} us a pull; PyXAB's HCT: {1e6 * theirs / T:.0f} us "
            f"(without the objective); ratio {theirs / ours:.0f} (at least 300); {same}"
        )
    for name in ("hct", "centralized", "hoo"):
        for M, horizon in ((1, 25_000), (1, 100_000), (10, 100_000)):
            problem = pfpne.make_problem("garland", n_clients=M, noise="bernoulli")
            taken, _ = time_ours(name, problem, horizon)
            print(f"{name}, garland, M = {M:2}, T = {horizon:6}: {1e6 * taken / (M * horizon):.2f} us a pull")
    for objective, noise in (("garland", "bernoulli"), ("rastrigin", 1.0)):
        compare_long(objective, noise)


if __name__ == "__main__":
    main()
