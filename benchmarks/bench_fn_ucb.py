"""How long a round of fn-ucb takes beside the dense form, while it trains and after; and its memory against t.

    python benchmarks/bench_fn_ucb.py

K = 1000 arms in 10 dimensions, M = 10 clients. The dense form keeps a matrix and a full history for each client,
inverts explicitly, and trains with numpy; it is timed in the same process on the history that the compiled form has
made, as the median of a few rounds. Compiled code is warm.
"""

import resource
import sys
import time
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

import pfpne
from pfpne.federation import Task
from pfpne.algorithms.fn_ucb import FNUCBSettings, make_arms, predict
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
    settings = FNUCBSettings()
    arms = make_arms(task, settings.width)
    return NeuralSimulation(problem.values(arms.points), problem.noise, noise_streams(problem, 0, 0), settings, arms)


def dense_training(theta, x, r, s: FNUCBSettings):
    """One client's training on its full history: inputs x (n, d), rewards r (n,), theta changed in place."""
    w = theta[: -s.width - 1].reshape(s.width, -1)
    v, b = theta[-s.width - 1 : -1], theta[-1:]
    x1 = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    for _ in range(s.steps):
        z = x1 @ w.T
        h = np.maximum(z, 0)
        e = 2 * (h @ v + b - r) / len(r)
        back = (e[:, None] * v * (z > 0)).T @ x1
        decay = s.lambda_ / len(r)
        v -= s.rate * (e @ h + decay * v)
        b -= s.rate * (e.sum() + decay * b)
        w -= s.rate * (back + decay * w)


def dense_round(run: NeuralSimulation, played: np.ndarray, rewards: np.ndarray, t: int) -> None:
    """One round of all clients, as it is written down: played, rewards (M, t)."""
    g, s, lambda_ = run.arms.g, run.settings, run.settings.lambda_
    alpha, prior = s.alpha(t), lambda_ * np.eye(g.shape[1])
    W = np.mean([np.linalg.inv(prior + g[a].T @ g[a]) for a in played], axis=0)
    for m in range(M):
        value = predict(run.theta.mean(axis=0), run.arms.inputs, s.width)
        bounds = alpha * (value + s.nu_2 * np.sqrt(lambda_) * np.sqrt(np.einsum("kp,kp->k", g @ W, g)))
        if alpha < 1:
            data = g[played.ravel()]
            inverse = np.linalg.inv(prior + data.T @ data)
            value = g @ (inverse @ (data.T @ rewards.ravel()))
            bounds += (1 - alpha) * (value + s.nu * np.sqrt(lambda_) * np.sqrt(np.einsum("kp,kp->k", g @ inverse, g)))
        np.argmax(bounds)
        if s.trains(t):
            dense_training(run.theta[m].copy(), run.arms.inputs[:-1, played[m, s.start :]].T, rewards[m, s.start :], s)


def seconds_a_round(run: NeuralSimulation, rounds: int) -> float:
    begin = time.perf_counter()
    run.play(rounds)
    return (time.perf_counter() - begin) / rounds


def compare(phase: str, t: int, rounds: int, wanted: float) -> None:
    """Print a round's time in both forms at step t; wanted: milliseconds."""
    run = start(OBJECTIVE, M)
    played = run.play(t)
    rewards = np.random.default_rng(0).random(played.shape)
    dense = []
    for _ in range(4):
        begin = time.perf_counter()
        dense_round(run, played, rewards, t)
        dense.append(time.perf_counter() - begin)
    ours = median(seconds_a_round(run, rounds) for _ in range(5))
    print(
        f"fn-ucb, {OBJECTIVE}, K = 1000, d = 10, M = {M}, {phase}: {1e3 * ours:.4f} ms a round (at most {wanted}); "
        f"dense: {1e3 * median(dense[1:]):.0f} ms; ratio {median(dense[1:]) / ours:.0f}"
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
    compare("training", TRAINING, 20, 20)
    compare("after training", SETTLED, 2_000, 1)
    for objective in ("garland", "himmelblau", OBJECTIVE):
        run = start(objective, 20)
        first = seconds_a_round(run, 2_000)
        later = seconds_a_round(run, 20_000)
        print(f"fn-ucb, {objective:10}, M = 20: {1e3 * first:.3f} ms a round to t = 2,000, then {1e3 * later:.4f} ms")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
