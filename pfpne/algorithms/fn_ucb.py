"""FN-UCB, federated neural UCB: one network and one linear model of its gradients, shared by all clients.

Source: Dai et al., "Federated Neural Bandits", ICLR 2023, Section 3.4 (less communication), not diagonal, with the
constants of its public code, github.com/daizhongxiang/Federated-Neural-Bandits, file run_fn_ucb.py. Steps t count
from 0, as there; a message's header is the number of evaluations made.

| paper            | here                 | meaning                                                                  |
|------------------|----------------------|--------------------------------------------------------------------------|
| N, K             | M, len(points)       | clients; arms, drawn once per run, the same for all clients              |
| f(x; theta)      | network              | network d-width-1, ReLU; p numbers theta                                 |
| theta_0          | theta_0              | its initial weights and biases, all N(0, 1), the same for all clients    |
| g(x; theta_0)    | gradients            | gradient of f at theta_0, which stays fixed                              |
| W_sync, B_sync   | shared.gram, .moment | sum of g g^T, of r g, over all synchronised data of all clients          |
| W_new,i, B_new,i | gram, moment         | the same over the client's own data since the last communication         |
| V_{t,i}^-1       | inverse              | the inverse of lambda I + W_sync + W_new,i                               |
| V_{t,i}^local    | prior + gram_own     | lambda I + the sum of g g^T over all of the client's own data            |
| V_sync,NN^-1     | shared.inverse       | the mean over clients of the inverse of V_{t,i}^local, last communicated |
| theta_{t,i}      | theta                | the client's weights, trained on its own data                            |
| theta_sync,NN    | shared.weights       | their mean over clients, last communicated                               |
| alpha_t          | alpha                | weight of UCB_a, the network's, against UCB_b, the linear model's        |

Departures from the public code: theta_0 does not drift, and inputs are scaled (docs/baselines.md). In the public code a
client trains only on the last evaluation before each communication, and W is first made at t = 3. Here it trains on all
evaluations since t = 3, and W is made from the first communication on: the same when D = 0. Ties between bounds go to
the smallest index.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pfpne.algorithms.arms import draw_arms
from pfpne.compiled import njit
from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.messages import Awaited, Message, number_array
from pfpne.validation import check_amount, check_integer, check_scale


@dataclass(frozen=True)
class FNUCBSettings:
    """Constants of the public code."""

    lambda_: float = 0.1  # > 0: regularisation
    nu: float = 0.1  # >= 0: width of UCB_b
    nu_2: float = 0.1  # >= 0: width of UCB_a
    width: int = 20  # >= 1: hidden units
    D: float = 0.0  # >= 0: a client with more news than this wants to communicate
    start: int = 3  # >= 2: the step from which a client learns its network, and alpha_t = 0
    ramp: int = 700  # >= 1: steps until alpha_t = 1
    stop: int = 2000  # >= 0: the step from which nothing is trained
    steps: int = 30  # >= 1: of gradient descent before a communication
    rate: float = 0.01  # > 0: of the descent

    def __post_init__(self):
        check_integer("width", self.width, 1, 1000)
        for name, least in (("start", 2), ("ramp", 1), ("stop", 0), ("steps", 1)):
            check_integer(name, getattr(self, name), least)
        for name in ("lambda_", "rate"):
            check_scale(name, getattr(self, name))
        for name in ("nu", "nu_2", "D"):
            check_amount(name, getattr(self, name))

    def alpha(self, t: int) -> float:
        """Return alpha_t = clip((t - start) / ramp, 0, 1)."""
        return min(max((t - self.start) / self.ramp, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class NeuralStatistics(Message):
    """Up: one client's sums, weights and inverse. Down: sums over all clients' data, and means over the clients.

    Header: the number of evaluations that each client has made.
    """

    gram: np.ndarray = number_array("p", "p")  # (p, p): sum of g g^T, for one client since the last communication
    moment: np.ndarray = number_array("p")  # (p,): sum of r g, likewise
    weights: np.ndarray = number_array("p")  # (p,): the weights of the client's own network
    inverse: np.ndarray = number_array(
        "p", "p"
    )  # (p, p): the inverse of lambda I + the sum of g g^T over the client's own data


@dataclass(frozen=True, eq=False)
class NewsRequest(Message):
    """Down: another client wants to communicate, so all have to. It carries no number.

    Header: the number of evaluations that each client has made.
    """


@njit(cache=True, fastmath={"contract", "reassoc"})
def network(theta, inputs, width):
    """Return f(x; theta) (n,) at inputs (d + 1, n), and the hidden units before ReLU (width, n).

    theta (p,): for each hidden unit its d weights and its bias, then the output's weights (width,) and bias.
    """
    q, n = inputs.shape
    v = theta[width * q :]
    f, z = np.full(n, v[width]), np.zeros((width, n))
    for j in range(width):
        for i in range(q):
            w = theta[j * q + i]
            for k in range(n):
                z[j, k] += w * inputs[i, k]
        for k in range(n):
            f[k] += v[j] * max(z[j, k], 0.0)
    return f, z


def gradients(theta: np.ndarray, inputs: np.ndarray, width: int) -> np.ndarray:
    """Return the gradients (n, p) of f(x; theta) with respect to theta, at inputs (d + 1, n); ReLU'(0) = 0."""
    f, z = network(theta, inputs, width)
    hidden = ((z > 0) * theta[len(inputs) * width : -1, None])[:, None, :] * inputs  # (width, d + 1, n)
    return np.concatenate([hidden.reshape(-1, len(f)), np.maximum(z, 0.0), np.ones((1, len(f)))]).T.copy()


@njit(cache=True, fastmath={"contract", "reassoc"})
def descend(theta, inputs, share, mean, decay, rate, steps, width):
    """Do gradient descent on every client's network theta (M, p), in place, on its own history.

    A history holds arm k (inputs (d + 1, n)) a share (n,) of the time, with mean rewards mean (M, n): the mean squared
    error is sum_k share_k (f(x_k) - mean_k)^2 plus a constant. A step: theta -= rate (its gradient + decay theta).
    """
    q, n = inputs.shape
    keep = 1.0 - rate * decay
    for m in range(len(theta)):
        w = theta[m, : width * q].reshape(width, q)
        v = theta[m, width * q :]
        for _ in range(steps):
            e, z = network(theta[m], inputs, width)
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
    seen, n = np.flatnonzero(counts), counts.sum()
    share, mean = counts[seen] / n, totals[:, seen] / counts[seen]
    descend(theta, inputs.take(seen, axis=1), share, mean, s.lambda_ / n, s.rate, s.steps, s.width)
    if not np.isfinite(theta).all():
        hint = f"rewards are expected near [0, 1], and a smaller rate than {s.rate} may help."
        raise FloatingPointError(f"the weights of fn-ucb's network diverged after {n} evaluations: {hint}")


class Arms:
    """What all clients know from the start: the arms' points (K, d), theta_0 (p,), and the gradients g (K, p) there.

    inputs (d + 1, K) are the points scaled to [0, 1]^d, over sqrt d, with a last row of ones for the biases.
    """

    def __init__(self, task: Task, width: int):
        self.points, (low, high) = draw_arms(task), task.partition.domain.T
        unit = (self.points - low) / (high - low)
        self.inputs = np.concatenate([unit.T / np.sqrt(len(low)), np.ones((1, len(unit)))])
        self.theta_0 = task.stream("weights").standard_normal(width * len(self.inputs) + width + 1)
        self.g = gradients(self.theta_0, self.inputs, width)


@njit(cache=True)
def upper_bound(value, variance, nu, lambda_):
    """Return value + nu sqrt(lambda) sqrt(variance) (K,): UCB_b with variance g V^-1 g, UCB_a with g W g and nu_2."""
    return value + nu * np.sqrt(lambda_) * np.sqrt(np.maximum(variance, 0.0))


class FNUCBServer(Server):
    """Adds the clients' sums, averages their weights and inverses, and makes all communicate together.

    synced is the step of the last communication, inbox what clients have sent for the next one.
    """

    receives = (NeuralStatistics,)
    gram: Any
    moment: Any
    inbox: dict[int, Any]

    def __init__(self, task: Task, settings: FNUCBSettings):
        super().__init__(task, settings)
        self.gram, self.moment, self.inbox, self.synced = 0.0, 0.0, {}, 1  # numbers, then arrays

    def awaits(self, m: int) -> Awaited:
        """Await the statistics of a client that has not sent them, of the step that the others' are of."""
        step = next((message.header for message in self.inbox.values()), None)
        headers = range(self.synced + 1, self.task.horizon + 1) if step is None else range(step, step + 1)
        if m in self.inbox:
            return Awaited(self.inbox[m].header)
        p = self.settings.width * (len(self.task.partition.domain) + 2) + 1
        return Awaited(self.synced, NeuralStatistics, headers, {"p": p})

    def is_due(self, m: int, n_evaluated: int) -> bool:
        return len(self.awaits(m).headers) > 0  # a message for each evaluation

    def _exchange(self, messages: dict[int, Any]) -> dict[int, Message]:
        self.inbox.update(messages)
        header, clients = max(message.header for message in messages.values()), range(self.task.n_clients)
        missing = [m for m in clients if m not in self.inbox]
        if missing:
            return dict.fromkeys(missing, NewsRequest(header))
        news, self.synced = [self.inbox.pop(m) for m in clients], header
        self.gram = self.gram + sum(message.gram for message in news)  # W_sync += sum_i W_new,i
        self.moment = self.moment + sum(message.moment for message in news)  # B_sync += sum_i B_new,i
        weights = np.mean([message.weights for message in news], axis=0)
        inverse: Any = sum(message.inverse for message in news) / len(news)  # V_sync,NN^-1
        return dict.fromkeys(clients, NeuralStatistics(header, self.gram, self.moment, weights, inverse))


class FNUCBClient(Client):
    """Plays the arm of the largest bound alpha_t UCB_a + (1 - alpha_t) UCB_b, one evaluation at a time."""

    receives = (NeuralStatistics, NewsRequest)

    def __init__(self, task: Task, settings: FNUCBSettings, arms: Arms):
        super().__init__(task)
        K, p = arms.g.shape
        self.settings, self.arms, self.prior = settings, arms, settings.lambda_ * np.eye(p)  # prior: lambda I
        # The last aggregates: initially empty, with header 1, so that step 0 sends nothing.
        self.shared = NeuralStatistics(1, np.zeros((p, p)), np.zeros(p), arms.theta_0, np.eye(p) / settings.lambda_)
        self.gram, self.moment, self.gram_own = np.zeros((p, p)), np.zeros(p), np.zeros((p, p))
        self.counts, self.training_counts = np.zeros((2, K), dtype=np.int64)  # plays of each arm; those since t = start
        self.theta, self.totals = arms.theta_0.copy(), np.zeros(K)  # totals: sums of the rewards since t = start
        self.waiting = False  # for the server's answer

    def _ask(self) -> Batch:
        if self.waiting:
            return EMPTY_BATCH
        s, g, shared, models = self.settings, self.arms.g, self.shared, []
        alpha, bounds = s.alpha(self.t), np.zeros(len(g))
        if alpha < 1:  # UCB_b
            inverse = np.linalg.inv(self.prior + shared.gram + self.gram)
            models.append((1 - alpha, g @ (inverse @ (shared.moment + self.moment)), inverse, s.nu))
        if alpha > 0:  # UCB_a; weights writable: compiled once, not twice
            models.append((alpha, network(shared.weights.copy(), self.arms.inputs, s.width)[0], shared.inverse, s.nu_2))
        for weight, value, inverse, nu in models:
            variance = np.einsum("kp,kp->k", g @ inverse, g)  # g . inverse g, arm by arm
            bounds += weight * upper_bound(value, variance, nu, s.lambda_)
        return Batch(self.arms.points[[np.argmax(bounds)]], np.array([1]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> NeuralStatistics | None:
        k = int(np.flatnonzero((self.arms.points == batch.points[0]).all(axis=1))[0])
        g, reward = self.arms.g[k], rewards[0]
        self.gram += np.outer(g, g)
        self.moment += reward * g
        self.gram_own += np.outer(g, g)
        self.counts[k] += 1
        if self.t - 1 >= self.settings.start:  # the reward just told is from step t - 1
            self.training_counts[k] += 1
            self.totals[k] += reward
        synced = self.prior + self.shared.gram
        before, now = (np.log(np.diag(V)).sum() for V in (synced, synced + self.gram))  # as the public code measures it
        return self._news() if (self.t - self.shared.header) * (now - before) > self.settings.D else None

    def _news(self) -> NeuralStatistics:
        s = self.settings
        if s.start <= self.t - 1 < s.stop:
            train(self.theta[None], self.arms.inputs, self.training_counts, self.totals[None], s)
        self.waiting = True
        return NeuralStatistics(self.t, self.gram, self.moment, self.theta, np.linalg.inv(self.prior + self.gram_own))

    def awaits(self) -> Awaited:
        """Await the sums over all clients once the client has sent its own.

        Otherwise await a request to send, if there were evaluations since the last communication.
        """
        synced, this_step = self.shared.header, range(self.t, self.t + 1)
        if self.waiting:
            return Awaited(self.t, NeuralStatistics, this_step, {"p": len(self.theta)})
        return Awaited(synced, NewsRequest, this_step if self.t > synced else range(0))

    def _receive(self, message: NeuralStatistics | NewsRequest) -> NeuralStatistics | None:
        if isinstance(message, NewsRequest):
            return self._news()
        self.shared, self.waiting = message, False
        self.gram[:], self.moment[:] = 0.0, 0.0

    def best(self) -> np.ndarray:
        """Return the arm that this client has played most, of equal ones the first."""
        return self.arms.points[int(np.argmax(self.counts))]


def make_fn_ucb(task: Task, settings: FNUCBSettings) -> tuple[Server, list[Client]]:
    """Make the server and the M clients."""
    arms = Arms(task, settings.width)
    return FNUCBServer(task, settings), [FNUCBClient(task, settings, arms) for _ in range(task.n_clients)]
