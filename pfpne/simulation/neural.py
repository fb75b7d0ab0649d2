"""FN-UCB for all clients at once, equal to the objects, when all clients send at every step but the first (D = 0).

From t = 2 on, all clients then share V and the averages, and play the same arm. Once training has stopped and alpha_t
is 1, rewards no longer affect the choices.

The arms are fixed. So V = lambda I + sum_k n_k g_k g_k^T follows from n_k, the number of plays of each arm. From the
inverse of V, only the numbers g_k V^-1 g_a are needed, for arms a that were played. A play changes them by a rank-one
update, which shrinks the variances together with their rounding errors. After 100,000 steps, the square roots of the
variances are accurate to 1e-10; with an explicit inverse they would be accurate to 1e-9.
"""

from typing import NamedTuple

import numpy as np

from pfpne.algorithms.fn_ucb import Arms, FNUCBSettings, network, train, upper_bound
from pfpne.compiled import njit
from pfpne.federation import Task
from pfpne.simulation.noise import noisy
from pfpne.simulation.record import Measurements, gaps

MARGIN = 1e-6  # of bounds, above their rounding


class Ridge(NamedTuple):
    """The linear model of the gradients g (K, p), for A = lambda I + sum_k n_k g_k g_k^T."""

    g: np.ndarray
    mean: np.ndarray  # (K,): g_k A^-1 sum r g
    variance: np.ndarray  # (K,): g_k A^-1 g_k
    rows: np.ndarray  # (K, K): row a is g_a A^-1 g_k, for the tracked arms a
    tracked_arms: np.ndarray  # (K,): these arms, in the order in which they were first needed; -1 beyond them
    inverse: np.ndarray  # (p, p): A^-1 without the pending plays
    pending: np.ndarray  # (K,): the plays that `inverse` does not contain yet


@njit(cache=True, fastmath={"contract", "reassoc"})
def product(matrix, vector):
    """Return matrix (n, p) . vector (p,), without threads."""
    out = np.empty(len(matrix))
    for k in range(len(matrix)):
        total = 0.0
        for i in range(len(vector)):
            total += matrix[k, i] * vector[i]
        out[k] = total
    return out


@njit(cache=True, fastmath={"contract", "reassoc"})
def covariance(ridge, a):
    """Return g_a A^-1 g_k (K,), a view that `add_plays` keeps up to date; arm a is tracked from now on."""
    if not (ridge.tracked_arms == a).any():
        tracked = ridge.tracked_arms[ridge.tracked_arms >= 0]
        for b in tracked:
            if ridge.pending[b] > 0:  # Sherman-Morrison, all plays of an arm at once
                u = product(ridge.inverse, ridge.g[b])
                c = ridge.pending[b] / (1.0 + ridge.pending[b] * product(ridge.g[b : b + 1], u)[0])
                for i in range(len(u)):
                    for j in range(len(u)):
                        ridge.inverse[i, j] -= c * u[i] * u[j]
                ridge.pending[b] = 0.0
        ridge.rows[a] = product(ridge.g, product(ridge.inverse, ridge.g[a]))
        ridge.tracked_arms[len(tracked)] = a
    return ridge.rows[a]


@njit(cache=True, fastmath={"contract", "reassoc"})
def add_plays(ridge, a, n, total):
    """Add n > 0 plays of arm a, their rewards summing to total, by Sherman-Morrison."""
    h = covariance(ridge, a).copy()
    c = n / (1.0 + n * h[a])
    gain = (total - n * ridge.mean[a]) / (1.0 + n * h[a])
    for k in range(len(h)):
        ridge.mean[k] += gain * h[k]
        ridge.variance[k] -= c * h[k] * h[k]
    for b in ridge.tracked_arms[ridge.tracked_arms >= 0]:
        f = c * ridge.rows[b, a]
        for k in range(len(h)):
            ridge.rows[b, k] -= f * h[k]
    ridge.pending[a] += n


@njit(cache=True, fastmath={"contract", "reassoc"})
def mean_variance(ridge, first_arms, share):
    """Return the variance g_k W g_k (K,) of each arm, where W is the mean over the clients of their A^-1.

    All clients share the data of ridge. In addition, each client has one play of its own first arm. first_arms (n,):
    these arms, without repeats. share (n,): the fraction of the clients whose first arm it is.
    """
    variance = ridge.variance.copy()
    for b in range(len(first_arms)):
        h = covariance(ridge, first_arms[b])
        c = share[b] / (1.0 + h[first_arms[b]])
        for k in range(len(h)):
            variance[k] -= c * h[k] * h[k]
    return variance


@njit(cache=True)
def last_arm(ridge, first_arms, share, value, nu_2, lambda_):
    """Return the arm that is played for ever, once alpha_t = 1 and the network's value (K,) does not change; or -1.

    Plays never raise a variance. So an arm is played for ever if its value alone exceeds the current bounds of all
    other arms.
    """
    others = upper_bound(value, mean_variance(ridge, first_arms, share), nu_2, lambda_)
    best_arm = np.argmax(others)
    others[best_arm] = -np.inf
    return best_arm if value[best_arm] > others.max() + MARGIN else -1


@njit(cache=True)
def settled_plays(ridge, first_arms, share, value, nu_2, lambda_, n):
    """Return the next n arms (n,), the arg max of UCB_a, once alpha_t = 1 and the network's value (K,) is fixed."""
    arms = np.empty(n, dtype=np.int64)
    for t in range(n):
        arms[t] = np.argmax(upper_bound(value, mean_variance(ridge, first_arms, share), nu_2, lambda_))
        add_plays(ridge, arms[t], 1.0, 0.0)
    return arms


class NeuralSimulation:
    """All clients at once: their common state is stored once, and no message is made."""

    def __init__(self, problem, task: Task, settings: FNUCBSettings, noise_streams: list):
        self.noise, self.slope = problem.noise, problem.noise_slope
        self.streams, self.settings = noise_streams, settings
        self.arms = arms = Arms(task, settings.width)
        self.values = problem.values(arms.points)  # (M, K), noiseless
        (M, K), p, g = self.values.shape, len(arms.theta_0), arms.g
        prior = np.zeros(K), (g * g).sum(axis=1) / settings.lambda_, np.empty((K, K)), np.full(K, -1)
        self.pooled = Ridge(g, *prior, np.eye(p) / settings.lambda_, np.zeros(K))  # V: all data of all clients
        self.one_client_model = Ridge(*map(np.copy, self.pooled))  # lambda I + one client's data without t = 1
        self.linear = self.pooled  # the model of UCB_b, which at t = 1 differs from client to client
        # The arms played at t = 1, and the share of the clients that played each.
        self.first_arms = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.theta, self.t = np.tile(arms.theta_0, (M, 1)), 0
        self.value, _ = network(arms.theta_0, arms.inputs, settings.width)  # of the average network
        # The plays of each arm since t = start, and the sums of their rewards.
        self.training_counts, self.totals = np.zeros(K, dtype=np.int64), np.zeros((M, K))

    def play(self, n: int) -> np.ndarray:
        """Make the next n > 0 steps; return the clients' arms (M, n)."""
        s, M, end, columns = self.settings, len(self.values), self.t + n, []
        while self.t < end:
            if self.t >= s.stop and s.alpha(self.t) == 1:
                model, left = (self.one_client_model, *self.first_arms, self.value, s.nu_2, s.lambda_), end - self.t
                last = last_arm(*model)  # its plays change nothing, so they are not counted in `one_client_model`
                arms = settled_plays(*model, left) if last < 0 else np.full(left, last)
                columns.append(np.broadcast_to(arms, (M, len(arms))))
            else:
                columns.append(self._step()[:, None])
            self.t += columns[-1].shape[1]
        return np.concatenate(columns, axis=1)  # the layout in memory decides how sums over steps are rounded

    def _step(self) -> np.ndarray:
        """One step of all clients, with training and, but for t = 0, a communication; return their arms (M,)."""
        s, M, alpha = self.settings, len(self.values), self.settings.alpha(self.t)
        bounds = (1 - alpha) * upper_bound(self.linear.mean, self.linear.variance, s.nu, s.lambda_)  # UCB_b
        if alpha > 0:
            bounds += alpha * upper_bound(
                self.value, mean_variance(self.one_client_model, *self.first_arms), s.nu_2, s.lambda_
            )  # UCB_a
        arms = np.full(M, np.argmax(bounds, axis=-1))
        rewards = self.values[np.arange(M), arms]
        if self.noise != 0:
            rewards = noisy(rewards, self.noise, np.array([rng.random() for rng in self.streams]), self.slope)
        k = arms[0]  # the arm of all clients, except at t = 1
        different, counts = np.unique(arms, return_counts=True)
        if self.t == 1:
            self.first_arms, self.linear = (different, counts / M), self.pooled
        else:
            add_plays(self.one_client_model, k, 1.0, 0.0)
        if self.t == 0:  # each client knows its own reward r alone, of arm a: the mean is r g_k V^-1 g_a
            self.linear = self.one_client_model._replace(mean=np.outer(rewards, covariance(self.one_client_model, k)))
        if alpha < 1:  # alpha never falls, so from alpha = 1 on UCB_b is not needed
            for a, count in zip(different, counts, strict=True):
                add_plays(self.pooled, a, float(count), rewards[arms == a].sum())
        if self.t >= s.start:
            self.training_counts[k] += 1
            self.totals[:, k] += rewards
        if s.start <= self.t < s.stop:
            train(self.theta, self.arms.inputs, self.training_counts, self.totals, s)
            self.value, _ = network(np.mean(self.theta, axis=0), self.arms.inputs, s.width)
        return arms


def simulate_fn_ucb(
    problem, task, settings, noise_streams, checkpoints, global_regret: bool, simulation=NeuralSimulation
) -> Measurements | None:
    """Simulate a run with the same arms as the objects; None with D > 0, where the objects have to run."""
    if settings.D > 0:
        return None
    run, columns = simulation(problem, task, settings, noise_streams), []
    values, points = run.values, run.arms.points
    tables = [gaps(problem.optimum[:, None], values)]  # (M, K) each: the regret of a play, local and global
    if global_regret:
        tables.append(np.broadcast_to(gaps(problem.global_optimum, problem.mean_values(points)), values.shape))
    clients, counts = np.arange(len(values))[:, None], np.zeros(values.shape, dtype=np.int64)
    for n in np.diff(checkpoints, prepend=0):
        played = run.play(int(n))
        np.add.at(counts, (clients, played), 1)
        best_arms = counts.argmax(axis=1)
        columns.append([*(gap[clients, played].sum(axis=1) for gap in tables), tables[0][clients[:, 0], best_arms]])
    *added, simple = np.stack(columns, axis=-1)
    regret, *shared = (gap.cumsum(axis=1) for gap in added)
    p, rounds = len(run.theta[0]), np.empty((task.horizon - 1, 3), dtype=np.int64)
    rounds[:, 0], rounds[:, 1:] = np.arange(2, task.horizon + 1), len(values) * (2 * p * p + 2 * p)
    return Measurements(regret, shared[0] if global_regret else None, simple, rounds, points[best_arms])
