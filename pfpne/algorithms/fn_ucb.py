"""FN-UCB, federated neural UCB: one network and one linear model of its gradients, shared by all clients.

Source: Dai et al., "Federated Neural Bandits", ICLR 2023, the less-communication variant (Section 3.4), not
diagonal, with the constants of its public code, github.com/daizhongxiang/Federated-Neural-Bandits, file
run_fn_ucb.py. Steps t count from 0, as there; the time of a message is the number of evaluations made.

| paper            | here                 | meaning                                                                  |
|------------------|----------------------|--------------------------------------------------------------------------|
| N, K             | M, len(points)       | clients; arms, drawn once a run, the same for all clients                |
| f(x; theta)      | predict              | network d-width-1, ReLU; p numbers theta                                 |
| theta_0          | theta_0              | its initial weights and biases, all N(0, 1), the same for all clients    |
| g(x; theta_0)    | gradients            | gradient of f at theta_0, which stays fixed                              |
| W_sync, B_sync   | shared.gram, .moment | sum of g g^T, of r g, over all synchronised data of all clients          |
| W_new,i, B_new,i | gram, moment         | the same over the client's own data since the last communication         |
| V_{t,i}          | V                    | lambda I + W_sync + W_new,i                                              |
| V_{t,i}^local    | prior + gram_own     | lambda I + the sum of g g^T over all of the client's own data            |
| V_sync,NN^-1     | shared.inverse       | the mean over clients of the inverse of V_{t,i}^local, last communicated |
| theta_{t,i}      | theta                | the client's weights, trained on its own data                            |
| theta_sync,NN    | shared.weights       | their mean over clients, last communicated                               |
| alpha_t          | alpha                | weight of UCB_a, the network's, against UCB_b, the linear model's        |
| D                | D                    | a client with more news than this wants to communicate                   |

Departures from the public code: theta_0 does not drift, and inputs are points scaled to [0,1]^d, over sqrt d, which
docs/baselines.md explains. There a client trains on the last evaluation before each communication alone, and W is
first made at t = 3; here on all evaluations since t = 3, and from the first communication on, which is the same when
D = 0. Of equal bounds the smallest index wins.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from pfpne.algorithms.arms import draw_arms
from pfpne.checks import check_integer, check_number
from pfpne.federation import NOTHING, Batch, Client, Message, Server, Task


@dataclass(frozen=True)
class FNUCBSettings:
    """Constants of the public code."""

    lambda_: float = 0.1  # > 0: regularisation
    nu: float = 0.1  # >= 0: width of UCB_b
    nu_2: float = 0.1  # >= 0: width of UCB_a
    width: int = 20  # >= 1: hidden units
    D: float = 0.0  # >= 0: news that a client keeps to itself
    start: int = 3  # >= 2: the step from which a client learns its network, and alpha_t = 0
    ramp: int = 700  # >= 1: steps until alpha_t = 1
    stop: int = 2000  # >= 0: the step from which nothing is trained
    steps: int = 30  # >= 1: of gradient descent before a communication
    rate: float = 0.01  # > 0: of the descent

    def __post_init__(self):
        for name, least in (("width", 1), ("start", 2), ("ramp", 1), ("stop", 0), ("steps", 1)):
            check_integer(name, getattr(self, name), least)
        for name, bound in (("lambda_", "> 0"), ("nu", ">= 0"), ("nu_2", ">= 0"), ("D", ">= 0"), ("rate", "> 0")):
            check_number(name, getattr(self, name), bound)

    def alpha(self, t: int) -> float:
        """alpha_t = clip((t - start) / ramp, 0, 1)."""
        return min(max((t - self.start) / self.ramp, 0.0), 1.0)

    def trains(self, t: int) -> bool:
        """Whether a communication after the evaluation of step t is preceded by training."""
        return self.start <= t < self.stop


@dataclass(frozen=True, eq=False)
class NeuralSums(Message):
    """Up: a client's news. Header: the evaluations made. gram and inverse (p, p), moment and weights (p,)."""

    gram: np.ndarray  # sum of g g^T since the last communication
    moment: np.ndarray  # sum of r g since the last communication
    weights: np.ndarray  # of the client's own network
    inverse: np.ndarray  # of lambda I + sum of g g^T over the client's own data


@dataclass(frozen=True, eq=False)
class NeuralAggregates(Message):
    """Down: sums over all data of all clients, and means over clients. Header and shapes as in NeuralSums."""

    gram: np.ndarray
    moment: np.ndarray
    weights: np.ndarray
    inverse: np.ndarray


@dataclass(frozen=True, eq=False)
class NewsRequest(Message):
    """Down: another client wants to communicate, so all do. Header: the evaluations made. Carries no number."""


def network_inputs(points: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """The points (K, d) as inputs (d + 1, K): scaled to [0,1]^d, over sqrt d; a last row of ones for the biases."""
    low, high = domain.T
    unit = (points - low) / (high - low)
    return np.concatenate([unit.T / np.sqrt(len(domain)), np.ones((1, len(points)))])


@njit(cache=True, fastmath={"contract", "reassoc"})
def forward(theta, inputs, z, f):
    """Write the hidden units' inputs, before ReLU, into z (width, n), and f(x; theta) into f (n,).

    theta (p,): for each hidden unit its d weights and its bias, then the output's weights (width,) and bias.
    """
    width, n = z.shape
    q = len(inputs)
    v = theta[width * q :]  # the output's weights, then its bias
    f[:] = v[width]
    for j in range(width):
        z[j] = 0.0
        for i in range(q):
            w = theta[j * q + i]
            for k in range(n):
                z[j, k] += w * inputs[i, k]
        for k in range(n):
            f[k] += v[j] * max(z[j, k], 0.0)


def predict(theta: np.ndarray, inputs: np.ndarray, width: int) -> np.ndarray:
    """f(x; theta) (n,) at inputs (d + 1, n)."""
    z, f = np.empty((width, inputs.shape[1])), np.empty(inputs.shape[1])
    forward(theta, inputs, z, f)
    return f


def gradients(theta: np.ndarray, inputs: np.ndarray, width: int) -> np.ndarray:
    """The gradients (n, p) of f(x; theta) with respect to theta, at inputs (d + 1, n); ReLU'(0) = 0."""
    z, f = np.empty((width, inputs.shape[1])), np.empty(inputs.shape[1])
    forward(theta, inputs, z, f)
    v = theta[len(inputs) * width : -1]
    of_hidden = ((z > 0) * v[:, None])[:, None, :] * inputs  # (width, d + 1, n)
    return np.concatenate([of_hidden.reshape(-1, len(f)), np.maximum(z, 0.0), np.ones((1, len(f)))]).T.copy()


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
            forward(theta[m], inputs, z, e)
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
    """What all clients know from the start."""

    points: np.ndarray  # (K, d)
    inputs: np.ndarray  # (d + 1, K)
    theta_0: np.ndarray  # (p,), from the task's stream "weights"
    g: np.ndarray  # (K, p)


def make_arms(task: Task, width: int) -> Arms:
    points = draw_arms(task)
    inputs = network_inputs(points, task.partition.domain)
    theta_0 = task.stream("weights").standard_normal(width * len(inputs) + width + 1)
    return Arms(points, inputs, theta_0, gradients(theta_0, inputs, width))


@njit(cache=True)
def upper_bound(value, variance, nu, lambda_):
    """UCB = value + nu sqrt(lambda) sqrt(variance) (K,), variance = g V^-1 g for UCB_b, g W g for UCB_a (nu: nu_2)."""
    return value + nu * np.sqrt(lambda_) * np.sqrt(np.maximum(variance, 0.0))


def quadratic(g: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """g . inverse g (K,) for each row of g (K, p)."""
    return np.einsum("kp,kp->k", g @ inverse, g)


def information(V: np.ndarray) -> float:
    """sum log diag V, as the public code measures it."""
    return float(np.log(np.diag(V)).sum())


class FNUCBServer(Server):
    """Adds the clients' sums, averages their weights and inverses, and sees to it that all communicate together."""

    def __init__(self, M: int, p: int):
        super().__init__()
        self.M = M
        self.gram, self.moment = np.zeros((p, p)), np.zeros(p)
        self.inbox: dict[int, NeuralSums] = {}

    def exchange(self, messages: dict[int, NeuralSums]) -> dict[int, Message]:
        self.inbox.update(messages)
        header = max(message.header for message in messages.values())
        missing = [m for m in range(self.M) if m not in self.inbox]
        if missing:
            return dict.fromkeys(missing, NewsRequest(header))
        news = [self.inbox.pop(m) for m in range(self.M)]
        self.gram = self.gram + sum(message.gram for message in news)  # W_sync += sum_i W_new,i
        self.moment = self.moment + sum(message.moment for message in news)  # B_sync += sum_i B_new,i
        weights = np.mean([message.weights for message in news], axis=0)
        inverse = sum(message.inverse for message in news) / self.M  # V_sync,NN^-1
        return dict.fromkeys(range(self.M), NeuralAggregates(header, self.gram, self.moment, weights, inverse))


class FNUCBClient(Client):
    """Plays the arm of the largest bound, one evaluation at a time."""

    def __init__(self, task: Task, settings: FNUCBSettings, arms: Arms):
        super().__init__(task)
        self.settings, self.arms = settings, arms
        (K, p), identity = arms.g.shape, np.eye(arms.g.shape[1])
        self.prior = settings.lambda_ * identity  # lambda I
        # What was communicated last; at first nothing, as of step 0, whose news therefore waits.
        self.shared = NeuralAggregates(1, np.zeros((p, p)), np.zeros(p), arms.theta_0, identity / settings.lambda_)
        self.gram, self.moment, self.gram_own = np.zeros((p, p)), np.zeros(p), np.zeros((p, p))
        self.theta = arms.theta_0.copy()
        self.counts = np.zeros(K, dtype=np.int64)
        self.history, self.totals = np.zeros(K, dtype=np.int64), np.zeros(K)  # plays since t = start; their rewards
        self.waiting = False  # for the server's answer

    @property
    def V(self) -> np.ndarray:
        return self.prior + self.shared.gram + self.gram

    def bounds(self) -> np.ndarray:
        """What the arms (K,) are ranked by at this step: alpha_t UCB_a + (1 - alpha_t) UCB_b."""
        s, g = self.settings, self.arms.g
        alpha, bounds = s.alpha(self.t), np.zeros(len(g))
        if alpha < 1:
            inverse = np.linalg.inv(self.V)
            value = g @ (inverse @ (self.shared.moment + self.moment))
            bounds += (1 - alpha) * upper_bound(value, quadratic(g, inverse), s.nu, s.lambda_)  # UCB_b
        if alpha > 0:
            value = predict(self.shared.weights.copy(), self.arms.inputs, s.width)  # writable: compiled once, not twice
            bounds += alpha * upper_bound(value, quadratic(g, self.shared.inverse), s.nu_2, s.lambda_)  # UCB_a
        return bounds

    def _ask(self) -> Batch:
        if self.waiting:
            return NOTHING
        return Batch(self.arms.points[[np.argmax(self.bounds())]], np.array([1]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> NeuralSums | None:
        k = int(np.flatnonzero((self.arms.points == batch.points[0]).all(axis=1))[0])
        g, reward = self.arms.g[k], rewards[0]
        self.gram += np.outer(g, g)
        self.moment += reward * g
        self.gram_own += np.outer(g, g)
        self.counts[k] += 1
        if self.t - 1 >= self.settings.start:  # the evaluation just told is that of step t - 1
            self.history[k] += 1
            self.totals[k] += reward
        growth = information(self.V) - information(self.prior + self.shared.gram)
        return self._news() if (self.t - self.shared.header) * growth > self.settings.D else None

    def _news(self) -> NeuralSums:
        if self.settings.trains(self.t - 1):
            train(self.theta[None], self.arms.inputs, self.history, self.totals[None], self.settings)
        self.waiting = True
        return NeuralSums(self.t, self.gram, self.moment, self.theta, np.linalg.inv(self.prior + self.gram_own))

    def receive(self, message: NeuralAggregates | NewsRequest) -> NeuralSums | None:
        if isinstance(message, NewsRequest):
            return self._news()
        self.shared, self.waiting = message, False
        self.gram[:], self.moment[:] = 0.0, 0.0
        return None

    def best(self) -> np.ndarray:
        """The arm that this client has played most, of equals the first; the first arm before it has played."""
        return self.arms.points[int(np.argmax(self.counts))]


def make_fn_ucb(task: Task, settings: FNUCBSettings) -> tuple[Server, list[Client]]:
    """The server and the M clients of one run."""
    arms = make_arms(task, settings.width)
    clients = [FNUCBClient(task, settings, arms) for _ in range(task.n_clients)]
    return FNUCBServer(task.n_clients, len(arms.theta_0)), clients
