"""How many of PyXAB's HCT pulls the compiled hct-pyxab makes meanwhile: one ratio from one run; and hoo's time a pull.

    python benchmarks/bench_hct.py

Both run the same objective, cells and noise, one client, T = 20,000, in the same process, the objective's
evaluation included; that the pulls are the same is checked. PyXAB is timed once, ours as the median of
repetitions when warm (compiled code comes from the disk).
"""

import time
from statistics import median

import numpy as np
from PyXAB.algos.HCT import HCT as PyXABHCT

import pfpne
from pfpne.algorithms import make_settings
from pfpne.federation import Task
from pfpne.partition import Partition
from pfpne.pyxab import to_pyxab
from pfpne.simulation.fast import FAST
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import checkpoints

REPETITIONS = 15
T = 20_000


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
    return taken, np.cumsum(gaps)[checkpoints(T) - 1]


def time_ours(name: str, problem, horizon: int) -> tuple[float, np.ndarray]:
    """Median seconds of a simulation, and its cumulative regret (M, C)."""
    task, taken = Task(Partition(problem.domain), problem.n_clients, horizon, problem.noise), []
    settings = make_settings(name, {})
    for _ in range(REPETITIONS + 1):
        streams = noise_streams(problem, 0, 0)
        start = time.perf_counter()
        traces = FAST[name](problem, task, settings, streams, checkpoints(horizon), False)
        taken.append(time.perf_counter() - start)
    return median(taken[1:]), traces.regret


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


if __name__ == "__main__":
    main()
