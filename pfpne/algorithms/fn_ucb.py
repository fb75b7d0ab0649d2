"""FN-UCB, federated neural UCB: one network and one linear model of its gradients, shared by all clients.

Source: Dai et al., "Federated Neural Bandits", ICLR 2023, the less-communication variant (Section 3.4), not
diagonal, with the constants of its public code, github.com/daizhongxiang/Federated-Neural-Bandits, file
run_fn_ucb.py. Steps t count from 0, as there; the time of a message is the number of evaluations made.

| paper                  | here            | meaning                                                                  |
|------------------------|-----------------|--------------------------------------------------------------------------|
| N, K                   | M, len(points)  | clients; arms, drawn once a run, the same for all clients                |
| f(x; theta)            | predict         | network d-width-1, ReLU; p numbers theta                                 |
| theta_0                | theta_0         | its initial weights and biases, all N(0, 1), the same for all clients    |
| g(x; theta_0)          | gradients       | gradient of f at theta_0, which stays fixed                              |
| W_sync, B_sync         | gram, moment    | sum of g g^T, of r g, over all synchronised data of all clients          |
| W_new,i, B_new,i       | gram_new, ...   | the same over the client's own data since the last communication         |
| V_{t,i}                | V               | lambda I + W_sync + W_new,i                                              |
| V_{t,i}^local          | gram_own        | lambda I + gram_own, over all of the client's own data                   |
| V_sync,NN^-1           | W               | the mean over clients of the inverse of V_{t,i}^local, last communicated |
| theta_{t,i}            | theta           | the client's weights, trained on its own data                            |
| theta_sync,NN          | theta_bar       | their mean over clients, last communicated                               |
| alpha_t                | alpha           | weight of UCB_a, the network's, against UCB_b, the linear model's        |
| D                      | D               | a client with more news than this wants to communicate                   |

Departures from the public code: there theta_0 shares its storage with the networks that are trained, so the
gradients drift; here they do not. There a client trains on the last evaluation before each communication alone, and
W is first made at t = 3; here on all evaluations since t = 3, and from the first communication on, which is the same
when D = 0. There contexts have norm 1; here inputs are points scaled to [0,1]^d, over sqrt d. Of equal bounds the
smallest index wins.

With D = 0 all communicate at every step but the first, and so share V and the averages: from t = 2 on all clients
play the same arm. Once training has stopped and alpha_t = 1, no reward changes a choice. `fast` lives on this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from pfpne.algorithms.arms import draw_arms
from pfpne.checks import check, is_integer, is_number
from pfpne.federation import NOTHING, Batch, Client, Message, Server, Task
from pfpne.simulation.noise import noisy
from pfpne.simulation.record import Traces, gaps


@dataclass(frozen=True)
class FNUCBSettings:
    """Constants of the public code.

    lambda_ > 0: regularisation. nu, nu_2 >= 0: width of UCB_b, of UCB_a. width >= 1: hidden units. D >= 0: news
    that a client keeps to itself. start >= 2: the step from which a client learns its network, and alpha_t = 0;
    ramp >= 1: steps until alpha_t = 1. stop >= 0: the step from which nothing is trained. steps >= 1: of gradient
    descent before a communication, at the rate > 0.
    """

    lambda_: float = 0.1
    nu: float = 0.1
    nu_2: float = 0.1
    width: int = 20
    D: float = 0.0
    start: int = 3
    ramp: int = 700
    stop: int = 2000
    steps: int = 30
    rate: float = 0.01

    def __post_init__(self):
        for name, low in (("width", 1), ("start", 2), ("ramp", 1), ("stop", 0), ("steps", 1)):
            value = getattr(self, name)
            check(is_integer(value) and value >= low, name, f"an integer >= {low}", value)
        for name in ("nu", "nu_2", "D"):
            value = getattr(self, name)
            check(is_number(value) and value >= 0, name, "a number >= 0", value)
        for name in ("lambda_", "rate"):
            value = getattr(self, name)
            check(is_number(value) and value > 0, name, "a number > 0", value)

    def alpha(self, t: int) -> float:
        """alpha_t = clip((t - start) / ramp, 0, 1)."""
        return min(max((t - self.start) / self.ramp, 0.0), 1.0)

    def trains(self, t: int) -> bool:
        """Whether a communication after the evaluation of step t is preceded by training."""
        return self.start <= t < self.stop


# --- messages ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NeuralSums(Message):
    """Up: a client's news. Header: the evaluations made. With gram and inverse (p, p), the others (p,)."""

    gram: np.ndarray  # sum of g g^T since the last communication
    moment: np.ndarray  # sum of r g since the last communication
    weights: np.ndarray  # of the client's own network
    inverse: np.ndarray  # of lambda I + sum of g g^T over the client's own data


@dataclass(frozen=True, eq=False)
class NeuralAggregates(Message):
    """Down: what all clients know together. Header: the evaluations made. Shapes as in NeuralSums."""

    gram: np.ndarray  # sum of g g^T over all data of all clients
    moment: np.ndarray  # sum of r g over all data of all clients
    weights: np.ndarray  # mean over clients
    inverse: np.ndarray  # mean over clients


@dataclass(frozen=True, eq=False)
class NewsRequest(Message):
    """Down: another client wants to communicate, so all do. Header: the evaluations made. Carries no number."""


# --- the network ------------------------------------------------------------------------------------
# theta (p,): for each hidden unit its d weights and its bias, then the output's weights (width,) and bias.


def network_inputs(points: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """The points (K, d) as inputs (d + 1, K): scaled to [0,1]^d, over sqrt d; a last row of ones for the biases."""
    low, high = domain.T
    unit = (points - low) / (high - low)
    return np.concatenate([unit.T / np.sqrt(len(domain)), np.ones((1, len(points)))])


def n_parameters(d: int, width: int) -> int:
    """p, the weights and biases of the network."""
    return width * (d + 1) + width + 1


@njit(cache=True, fastmath={"contract", "reassoc"})
def hidden(theta, inputs, z):
    """Write the hidden units' inputs (width, n), before ReLU, into z."""
    width, n = z.shape
    q = len(inputs)
    for j in range(width):
        z[j] = 0.0
        for i in range(q):
            w = theta[j * q + i]
            for k in range(n):
                z[j, k] += w * inputs[i, k]


@njit(cache=True, fastmath={"contract", "reassoc"})
def predict(theta, inputs, width):
    """f(x; theta) (n,) at inputs (d + 1, n)."""
    n = inputs.shape[1]
    z = np.empty((width, n))
    hidden(theta, inputs, z)
    v = theta[len(inputs) * width :]  # the output's weights, then its bias
    f = np.full(n, v[width])
    for j in range(width):
        for k in range(n):
            f[k] += v[j] * max(z[j, k], 0.0)
    return f


def gradients(theta: np.ndarray, inputs: np.ndarray, width: int) -> np.ndarray:
    """The gradients (n, p) of f(x; theta) with respect to theta, at inputs (d + 1, n); ReLU'(0) = 0."""
    n = inputs.shape[1]
    z = np.empty((width, n))
    hidden(theta, inputs, z)
    v = theta[len(inputs) * width : -1]
    of_hidden = ((z > 0) * v[:, None])[:, None, :] * inputs  # (width, d + 1, n)
    return np.concatenate([of_hidden.reshape(-1, n), np.maximum(z, 0.0), np.ones((1, n))]).T.copy()


@njit(cache=True, fastmath={"contract", "reassoc"})
def descend(theta, inputs, share, mean, decay, rate, steps, width):
    """Gradient descent of every client's network theta (M, p), in place, on its own history.

    The history of client m holds arm k (inputs (d + 1, n)) a share (n,) of the time, with mean reward mean[m, k]
    (mean (M, n)). The mean squared error differs from sum_k share_k (f(x_k) - mean_k)^2 by a constant only. Each
    step: theta -= rate (gradient of that loss + decay theta).
    """
    q, n = inputs.shape
    keep = 1.0 - rate * decay
    z = np.empty((width, n))
    e = np.empty(n)
    for m in range(len(theta)):
        w = theta[m, : width * q].reshape(width, q)
        v = theta[m, width * q :]
        for _ in range(steps):
            hidden(theta[m], inputs, z)
            e[:] = v[width]
            for j in range(width):
                for k in range(n):
                    e[k] += v[j] * max(z[j, k], 0.0)
            total = 0.0
            for k in range(n):
                e[k] = 2.0 * share[k] * (e[k] - mean[m, k])  # d loss / d f(x_k)
                total += e[k]
            v[width] = keep * v[width] - rate * total
            for j in range(width):
                vj, total = v[j], 0.0
                for k in range(n):
                    active = e[k] if z[j, k] > 0.0 else 0.0
                    total += active * z[j, k]
                    z[j, k] = active
                v[j] = keep * vj - rate * total
                for i in range(q):
                    total = 0.0
                    for k in range(n):
                        total += z[j, k] * inputs[i, k]
                    w[j, i] = keep * w[j, i] - rate * vj * total


def train(theta: np.ndarray, inputs: np.ndarray, counts: np.ndarray, totals: np.ndarray, s: FNUCBSettings) -> None:
    """Train the networks theta (M, p), in place, before a communication.

    counts (K,): how often each arm is in the clients' histories; totals (M, K): sums of their rewards.
    Raises FloatingPointError if a weight is not finite any more.
    """
    seen = np.flatnonzero(counts)
    n = counts.sum()
    share, mean = counts[seen] / n, totals[:, seen] / counts[seen]
    descend(theta, inputs.take(seen, axis=1), share, mean, s.lambda_ / n, s.rate, s.steps, s.width)
    if not np.isfinite(theta).all():
        raise FloatingPointError(
            f"the weights of fn-ucb's network diverged after {n} evaluations: rewards are expected near [0, 1], "
            f"and a smaller rate than {s.rate} may help."
        )


@dataclass(frozen=True, eq=False)
class Arms:
    """What all clients know from the start: arms, initial weights, and the gradients there."""

    points: np.ndarray  # (K, d)
    inputs: np.ndarray  # (d + 1, K)
    theta_0: np.ndarray  # (p,), from the task's stream "weights"
    g: np.ndarray  # (K, p)


def make_arms(task: Task, width: int) -> Arms:
    points = draw_arms(task)
    inputs = network_inputs(points, task.partition.domain)
    theta_0 = task.stream("weights").standard_normal(n_parameters(task.partition.d, width))
    return Arms(points, inputs, theta_0, gradients(theta_0, inputs, width))


# --- the bounds -------------------------------------------------------------------------------------


def upper_bound(value: np.ndarray, width: np.ndarray, nu: float, lambda_: float) -> np.ndarray:
    """UCB = value + nu sqrt(lambda) sqrt(width) (K,), width = g V^-1 g for UCB_b, g W g for UCB_a (nu: nu_2)."""
    return value + nu * np.sqrt(lambda_) * np.sqrt(np.maximum(width, 0.0))


def quadratic(g: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """g . inverse g (K,) for each row of g (K, p)."""
    return np.einsum("kp,kp->k", g @ inverse, g)


def log_diagonal(V: np.ndarray) -> float:
    """sum log diag V: the information in V, as the public code measures it."""
    return float(np.log(np.diag(V)).sum())


# --- server and clients -----------------------------------------------------------------------------


class FNUCBServer(Server):
    """Adds the clients' sums, averages their weights and inverses, and sees to it that all communicate together."""

    def __init__(self, M: int, p: int):
        self.M = M
        self.gram, self.moment = np.zeros((p, p)), np.zeros(p)
        self.inbox: dict[int, NeuralSums] = {}

    def exchange(self, messages: dict[int, NeuralSums]) -> dict[int, Message]:
        self.inbox.update(messages)
        header = max(message.header for message in messages.values())
        missing = [m for m in range(self.M) if m not in self.inbox]
        if missing:
            return {m: NewsRequest(header) for m in missing}
        news = [self.inbox[m] for m in range(self.M)]
        self.inbox = {}
        self.gram = self.gram + sum(message.gram for message in news)  # W_sync += sum_i W_new,i
        self.moment = self.moment + sum(message.moment for message in news)  # B_sync += sum_i B_new,i
        weights = np.mean([message.weights for message in news], axis=0)
        inverse = sum(message.inverse for message in news) / self.M  # V_sync,NN^-1
        answer = NeuralAggregates(header, self.gram, self.moment, weights, inverse)
        return {m: answer for m in range(self.M)}


class FNUCBClient(Client):
    """Plays the arm of the largest bound, one evaluation at a time."""

    def __init__(self, task: Task, settings: FNUCBSettings, arms: Arms):
        super().__init__(task)
        self.settings, self.arms = settings, arms
        (K, p), identity = arms.g.shape, np.eye(arms.g.shape[1])
        self.prior = settings.lambda_ * identity  # lambda I
        self.gram, self.moment = np.zeros((p, p)), np.zeros(p)
        self.gram_new, self.moment_new = np.zeros((p, p)), np.zeros(p)
        self.gram_own = np.zeros((p, p))
        self.theta = arms.theta_0.copy()
        self.theta_bar = arms.theta_0.copy()
        self.W = identity / settings.lambda_
        self.t_last, self.log_last = 0, log_diagonal(self.prior)
        self.counts = np.zeros(K, dtype=np.int64)
        self.history = np.zeros(K, dtype=np.int64)  # plays since t = start, and the sums of their rewards
        self.totals = np.zeros(K)
        self.waiting = False  # for the server's answer

    @property
    def V(self) -> np.ndarray:
        return self.prior + self.gram + self.gram_new

    def bounds(self) -> np.ndarray:
        """What the arms (K,) are ranked by at this step: alpha_t UCB_a + (1 - alpha_t) UCB_b."""
        s, g = self.settings, self.arms.g
        alpha = s.alpha(self.t)
        bounds = np.zeros(len(g))
        if alpha < 1:
            inverse = np.linalg.inv(self.V)
            value = g @ (inverse @ (self.moment + self.moment_new))
            bounds += (1 - alpha) * upper_bound(value, quadratic(g, inverse), s.nu, s.lambda_)  # UCB_b
        if alpha > 0:
            value = predict(self.theta_bar, self.arms.inputs, s.width)
            bounds += alpha * upper_bound(value, quadratic(g, self.W), s.nu_2, s.lambda_)  # UCB_a
        return bounds

    def _ask(self) -> Batch:
        if self.waiting:
            return NOTHING
        k = int(np.argmax(self.bounds()))
        return Batch(self.arms.points[[k]], np.array([1]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> NeuralSums | None:
        t, reward = self.t - 1, rewards[0]  # the evaluation just told is that of step t
        k = int(np.flatnonzero((self.arms.points == batch.points[0]).all(axis=1))[0])
        g = self.arms.g[k]
        self.gram_new += np.outer(g, g)
        self.moment_new += reward * g
        self.gram_own += np.outer(g, g)
        self.counts[k] += 1
        if t >= self.settings.start:
            self.history[k] += 1
            self.totals[k] += reward
        wants = (t - self.t_last) * (log_diagonal(self.V) - self.log_last) > self.settings.D
        return self._news() if wants else None

    def _news(self) -> NeuralSums:
        if self.settings.trains(self.t - 1):
            train(self.theta[None], self.arms.inputs, self.history, self.totals[None], self.settings)
        self.waiting = True
        inverse = np.linalg.inv(self.prior + self.gram_own)
        return NeuralSums(self.t, self.gram_new, self.moment_new, self.theta, inverse)

    def receive(self, message: NeuralAggregates | NewsRequest) -> NeuralSums | None:
        if isinstance(message, NewsRequest):
            return self._news()
        self.gram, self.moment = message.gram, message.moment
        self.gram_new, self.moment_new = np.zeros_like(self.gram_new), np.zeros_like(self.moment_new)
        self.theta_bar, self.W = message.weights.copy(), message.inverse
        self.t_last, self.log_last = self.t - 1, log_diagonal(self.prior + self.gram)
        self.waiting = False
        return None

    def best(self) -> np.ndarray:
        """The arm that this client has played most, of equals the first; the first arm before it has played."""
        return self.arms.points[int(np.argmax(self.counts))]


def make(task: Task, settings: FNUCBSettings) -> tuple[Server, list[Client]]:
    """The server and the M clients of one run."""
    arms = make_arms(task, settings.width)
    clients = [FNUCBClient(task, settings, arms) for _ in range(task.n_clients)]
    return FNUCBServer(task.n_clients, len(arms.theta_0)), clients


# --- the same without messages, for D = 0 -----------------------------------------------------------
# The arms are fixed, so V = lambda I + sum_k n_k g_k g_k^T follows from counts, and of its inverse only the numbers
# g_k V^-1 g_a are ever read, a an arm that was played. Their rank-one updates shrink what they update, and its rounding
# with it: after 100,000 steps the square roots of the widths are right to 1e-10, where an explicit inverse gives 1e-9.


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


class Fast:
    """All clients at once, for D = 0: what is common to them is kept once, and no message is made."""

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


def fast(problem, task: Task, settings: FNUCBSettings, noise_streams, checkpoints, want_global: bool) -> Traces:
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
    run = Fast(values, problem.noise, noise_streams, settings, arms)
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
