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
play the same arm. Once training has stopped and alpha_t = 1, no reward changes a choice. pfpne.simulation.neural lives
on this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from pfpne.algorithms.arms import draw_arms
from pfpne.checks import check_integer, check_number
from pfpne.federation import NOTHING, Batch, Client, Message, Server, Task


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
            check_integer(name, getattr(self, name), low)
        for name in ("nu", "nu_2", "D"):
            check_number(name, getattr(self, name), ">= 0")
        for name in ("lambda_", "rate"):
            check_number(name, getattr(self, name), "> 0")

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
