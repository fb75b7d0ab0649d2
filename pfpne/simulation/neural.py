"""FN-UCB for all clients of a simulation at once, where they communicate at every step (D = 0), equal to the objects.

The arms are fixed, so V = lambda I + sum_k n_k g_k g_k^T follows from counts, and of its inverse only the numbers
g_k V^-1 g_a are ever read, a an arm that was played. Their rank-one updates shrink what they update, and its rounding
with it: after 100,000 steps the square roots of the widths are right to 1e-10, where an explicit inverse gives 1e-9.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pfpne.algorithms.fn_ucb import Arms, FNUCBSettings, make_arms, predict, train, upper_bound
from pfpne.federation import Task
from pfpne.simulation.noise import noisy
from pfpne.simulation.record import Traces, gaps


class Ridge(NamedTuple):
    """The linear model of the gradients g (K, p), for A = lambda I + sum_k n_k g_k g_k^T."""

    g: np.ndarray
    mean: np.ndarray  # (K,): g_k A^-1 sum r g
    spread: np.ndarray  # (K,): g_k A^-1 g_k
    row_of: np.ndarray  # (K,): the row of an arm in `rows`, -1 where it has none
    rows: np.ndarray  # (K, K): g_a A^-1 g_k for each arm a that has been asked for
    arm_of: np.ndarray  # (K,): the arm of a row
    n_rows: np.ndarray  # (1,)
    inverse: np.ndarray  # (p, p): A^-1, but for the counts that are pending
    pending: np.ndarray  # (K,)


def make_ridge(g: np.ndarray, lambda_: float) -> Ridge:
    """The model before any data."""
    K, p = g.shape
    return Ridge(
        g=g,
        mean=np.zeros(K),
        spread=(g * g).sum(axis=1) / lambda_,
        row_of=np.full(K, -1),
        rows=np.empty((K, K)),
        arm_of=np.zeros(K, dtype=np.int64),
        n_rows=np.zeros(1, dtype=np.int64),
        inverse=np.eye(p) / lambda_,
        pending=np.zeros(K),
    )


@njit(cache=True, fastmath={"contract", "reassoc"})
def times(matrix, vector):
    """matrix (n, p) . vector (p,), with no thread."""
    out = np.empty(len(matrix))
    for k in range(len(matrix)):
        total = 0.0
        for i in range(len(vector)):
            total += matrix[k, i] * vector[i]
        out[k] = total
    return out


@njit(cache=True, fastmath={"contract", "reassoc"})
def row(ridge, a):
    """g_a A^-1 g_k (K,), a view that `add` keeps up to date."""
    if ridge.row_of[a] < 0:
        for b in ridge.arm_of[: ridge.n_rows[0]]:
            if ridge.pending[b] > 0:  # Sherman-Morrison, all plays of an arm at once
                u = times(ridge.inverse, ridge.g[b])
                c = ridge.pending[b] / (1.0 + ridge.pending[b] * times(ridge.g[b : b + 1], u)[0])
                for i in range(len(u)):
                    for j in range(len(u)):
                        ridge.inverse[i, j] -= c * u[i] * u[j]
                ridge.pending[b] = 0.0
        new = ridge.n_rows[0]
        ridge.rows[new] = times(ridge.g, times(ridge.inverse, ridge.g[a]))
        ridge.row_of[a], ridge.arm_of[new] = new, a
        ridge.n_rows[0] += 1
    return ridge.rows[ridge.row_of[a]]


@njit(cache=True, fastmath={"contract", "reassoc"})
def add(ridge, a, n, total):
    """Add n > 0 plays of arm a, their rewards summing to total, by Sherman-Morrison."""
    h = row(ridge, a).copy()
    c = n / (1.0 + n * h[a])
    gain = (total - n * ridge.mean[a]) / (1.0 + n * h[a])
    for k in range(len(h)):
        ridge.mean[k] += gain * h[k]
        ridge.spread[k] -= c * h[k] * h[k]
    for b in range(ridge.n_rows[0]):
        f = c * ridge.rows[b, a]
        for k in range(len(h)):
            ridge.rows[b, k] -= f * h[k]
    ridge.pending[a] += n


@njit(cache=True, fastmath={"contract", "reassoc"})
def mean_spread(ridge, odd, share):
    """g W g (K,). ridge: the data that every client has; a share (n,) of the clients has one play of odd (n,) more."""
    spread = ridge.spread.copy()
    for b in range(len(odd)):
        h = row(ridge, odd[b])
        c = share[b] / (1.0 + h[odd[b]])
        for k in range(len(h)):
            spread[k] -= c * h[k] * h[k]
    return spread


@njit(cache=True)
def settled_plays(ridge, odd, share, value, scale, n):
    """The next n arms (n,), once alpha_t = 1 and value (K,), the network's, does not change: arg max of UCB_a."""
    arms = np.empty(n, dtype=np.int64)
    for t in range(n):
        spread = mean_spread(ridge, odd, share)
        best, arms[t] = -np.inf, 0
        for k in range(len(value)):
            bound = value[k] + scale * np.sqrt(max(spread[k], 0.0))
            if bound > best:
                best, arms[t] = bound, k
        add(ridge, arms[t], 1.0, 0.0)
    return arms


class NeuralSimulation:
    """All clients at once: what is common to them is kept once, and no message is made."""

    def __init__(self, values: np.ndarray, noise, streams: list, settings: FNUCBSettings, arms: Arms):
        """values (M, K): noiseless values of the arms. streams: the clients' noise."""
        self.values, self.noise, self.streams, self.settings, self.arms = values, noise, streams, settings, arms
        M, K = values.shape
        self.t = 0
        self.shared = make_ridge(arms.g, settings.lambda_)  # V: all data of all clients
        self.common = make_ridge(arms.g, settings.lambda_)  # lambda I + the data that each client has, its t = 1 apart
        self.first, self.first_rewards = 0, np.zeros(M)  # the arm of t = 0, what each client got
        self.odd, self.odd_share = np.zeros(0, dtype=np.int64), np.zeros(0)  # arms of t = 1, and their share of clients
        self.theta = np.tile(arms.theta_0, (M, 1))
        self.value = predict(arms.theta_0, arms.inputs, settings.width)  # of theta_bar
        self.history = np.zeros(K, dtype=np.int64)
        self.totals = np.zeros((M, K))

    def play(self, n: int) -> np.ndarray:
        """Make the next n > 0 steps; return the clients' arms (M, n)."""
        s, M = self.settings, len(self.values)
        columns = []
        while n > 0:
            if self.t >= s.stop and s.alpha(self.t) == 1:
                scale = s.nu_2 * np.sqrt(s.lambda_)
                arms = settled_plays(self.common, self.odd, self.odd_share, self.value, scale, n)
                columns.append(np.broadcast_to(arms, (M, n)))
            else:
                step = (self._first, self._second)[self.t] if self.t < 2 else self._step
                columns.append(step()[:, None])
            n -= columns[-1].shape[1]
            self.t += columns[-1].shape[1]
        return np.concatenate(columns, axis=1)

    def _rewards(self, arms: np.ndarray) -> np.ndarray:
        """Rewards (M,) of the clients' arms (M,)."""
        means = self.values[np.arange(len(arms)), arms]
        return means if self.noise == 0 else noisy(means, self.noise, np.array([rng.random() for rng in self.streams]))

    def _first(self) -> np.ndarray:
        """t = 0: the prior alone, so the same arm for all; nothing is sent."""
        s, M = self.settings, len(self.values)
        k = int(np.argmax(upper_bound(self.shared.mean, self.shared.spread, s.nu, s.lambda_)))
        arms = np.full(M, k)
        self.first, self.first_rewards = k, self._rewards(arms)
        return arms

    def _second(self) -> np.ndarray:
        """t = 1: each client knows its own first reward; then all communicate for the first time."""
        s, M = self.settings, len(self.values)
        add(self.common, self.first, 1.0, 0.0)
        h = row(self.common, self.first)  # g_k V^-1 g_a, V of a client with one play of a, so that its mean is r h
        width = upper_bound(np.zeros(len(h)), self.common.spread, s.nu, s.lambda_)
        arms = np.array([int(np.argmax(r * h + width)) for r in self.first_rewards])
        rewards = self._rewards(arms)
        add(self.shared, self.first, float(M), self.first_rewards.sum())
        self.odd, counts = np.unique(arms, return_counts=True)
        self.odd_share = counts / M
        for k, count in zip(self.odd, counts, strict=True):
            add(self.shared, k, float(count), rewards[arms == k].sum())
        return arms

    def _step(self) -> np.ndarray:
        """A later step: one arm for all, then training and a communication."""
        s, M, alpha = self.settings, len(self.values), self.settings.alpha(self.t)
        bounds = np.zeros(len(self.value))
        if alpha < 1:
            bounds += (1 - alpha) * upper_bound(self.shared.mean, self.shared.spread, s.nu, s.lambda_)  # UCB_b
        if alpha > 0:
            spread = mean_spread(self.common, self.odd, self.odd_share)
            bounds += alpha * upper_bound(self.value, spread, s.nu_2, s.lambda_)  # UCB_a
        k = int(np.argmax(bounds))
        arms = np.full(M, k)
        rewards = self._rewards(arms)
        add(self.common, k, 1.0, 0.0)
        if alpha < 1:  # it never falls: UCB_b is not read again
            add(self.shared, k, float(M), rewards.sum())
        if self.t >= s.start:
            self.history[k] += 1
            self.totals[:, k] += rewards
        if s.trains(self.t):
            train(self.theta, self.arms.inputs, self.history, self.totals, s)
            self.value = predict(np.mean(self.theta, axis=0), self.arms.inputs, s.width)
        return arms


def communication(M: int, p: int, T: int) -> np.ndarray:
    """The rounds (T - 1, 3) when D = 0: t, numbers up, numbers down. All send at every step but the first."""
    t = np.arange(2, T + 1, dtype=np.int64)
    numbers = np.full(len(t), M * (2 * p * p + 2 * p))
    return np.stack([t, numbers, numbers], axis=1)


def simulate_fn_ucb(
    problem, task: Task, settings: FNUCBSettings, noise_streams, checkpoints, want_global: bool
) -> Traces:
    """Simulate a run: the same arms as the objects'. None with D > 0: it is the objects that run."""
    if settings.D > 0:
        return None
    arms = make_arms(task, settings.width)
    values = problem.values(arms.points)
    gap = gaps(problem.optimum[:, None], values)
    global_gap = gaps(problem.global_optimum, problem.mean_values(arms.points)) if want_global else None
    M, C = len(values), len(checkpoints)
    clients = np.arange(M)
    regret, simple = np.empty((M, C)), np.empty((M, C))
    global_regret = np.empty((M, C)) if want_global else None
    counts = np.zeros(values.shape, dtype=np.int64)
    run = NeuralSimulation(values, problem.noise, noise_streams, settings, arms)
    for c, steps in enumerate(np.diff(checkpoints, prepend=0)):
        played = run.play(int(steps))
        regret[:, c] = gap[clients[:, None], played].sum(axis=1)
        if want_global:
            global_regret[:, c] = global_gap[played].sum(axis=1)
        np.add.at(counts, (clients[:, None], played), 1)
        best = counts.argmax(axis=1)
        simple[:, c] = gap[clients, best]
    np.cumsum(regret, axis=1, out=regret)
    if want_global:
        np.cumsum(global_regret, axis=1, out=global_regret)
    rounds = communication(M, len(arms.theta_0), task.horizon)
    return Traces(regret, global_regret, simple, rounds, arms.points[best])
