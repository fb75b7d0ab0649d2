"""How long PF-PNE takes beside drawing its noise: one ratio from one run, and growth in T and in M.

    python benchmarks/bench_pf_pne.py

The yardstick is numpy drawing the same number of uniform values, horizon by horizon, one client after
another. Both are timed in turn in the same process, once warm, and the ratio is that of the medians.
"""

import time
from statistics import median

import numpy as np

import pfpne

REPETITIONS = 7


def draw(n_clients: int, horizon: int) -> None:
    """Draw M x T uniform values with numpy."""
    rng = np.random.default_rng(0)
    for _ in range(n_clients):
        rng.random(horizon)


def medians(*jobs) -> list[float]:
    """Median seconds of each job, taken in turn after one warm-up."""
    seconds = [[] for _ in jobs]
    for repetition in range(REPETITIONS + 1):
        for job, taken in zip(jobs, seconds, strict=True):
            start = time.perf_counter()
            job()
            if repetition > 0:
                taken.append(time.perf_counter() - start)
    return [median(taken) for taken in seconds]


def simulation(n_clients: int, horizon: int, noise, name: str = "pf-pne", objective: str = "garland"):
    """A job: one simulation of a fresh problem whose maxima are known."""
    problem = pfpne.make_problem(objective, n_clients=n_clients, noise=noise)
    problem.optimum  # found once a problem, not once a run  # noqa: B018
    return lambda: pfpne.simulate(name, problem, horizon=horizon)


def main() -> None:
    M, T = 100, 100_000
    for noise in ("bernoulli", 0.1):
        drawing, running = medians(lambda: draw(M, T), simulation(M, T, noise))
        print(
            f"pf-pne, garland, M = {M}, T = {T}, noise {noise}: {1e3 * running:.0f} ms; "
            f"{M * T} uniform values: {1e3 * drawing:.0f} ms; ratio {running / drawing:.2f} (at most 3)"
        )
    sizes = [(25, T), (50, T), (100, T), (M, T // 4), (M, T // 2), (M, 2 * T)]
    for (m, t), running in zip(sizes, medians(*(simulation(m, t, "bernoulli") for m, t in sizes)), strict=True):
        print(f"pf-pne, garland, M = {m:3}, T = {t:6}: {1e9 * running / (m * t):.1f} ns a pull")


if __name__ == "__main__":
    main()
