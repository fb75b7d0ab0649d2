"""GP: a search by a Gaussian process at each client, for tens to hundreds of evaluations; ours, not the paper's.

A client begins with a few points of a Sobol sequence, and then evaluates where the augmented expected improvement is
largest: Huang, Allen, Notz and Zeng, "Global Optimization of Stochastic Black-Box Systems via Sequential Kriging
Meta-Models", 2006, equations 11 to 13. It is the expected improvement over the point that is believed best, times a
factor that is small where the next value would be mostly noise.

`gp` is each client alone. In `gp-shared` the clients also exchange *beliefs* after n_0, 2 n_0, 4 n_0, ... evaluations:
a client's centred posterior means on a common grid, and the number of evaluations that each mean is worth. The server
adds the beliefs up. A client models the others' beliefs as a second output of its process. It estimates the correlation
rho of this output with its own function; rho is 0 where the others are of no use. No reward is sent. Nothing depends on
the horizon: a shorter search is a prefix of a longer one.

| symbol | here         | meaning                                                                |
|--------|--------------|------------------------------------------------------------------------|
| sigma  | model.sigma  | standard deviation of the noise of one evaluation                      |
| n_0    | first_points | evaluations before the model is used                                   |
| g      | grid_points  | points of the grid on which beliefs are told                           |
| EI     | improvement  | E max(f(x) - best, 0) (1 - sigma / sqrt(deviation^2 + sigma^2))        |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are slow to import, so SciPy does so when they are first needed

from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.gaussian import GaussianProcess, Hyper, Values, fit
from pfpne.messages import Awaited, Message, number_array
from pfpne.rng import stream
from pfpne.validation import check

MAX_CLIENT_EVALUATIONS = 2_000  # at most: the cost of an evaluation grows with the square of their number so far
GROWTH = 1.15  # hyper-parameters are estimated anew when the number of values has grown by this factor
N_CANDIDATES, N_AROUND, AROUND_WIDTHS = 160, 20, (0.1, 0.03)  # where to look: in all the cube, and near the best


@dataclass(frozen=True)
class GPSettings:
    """Settings of gp and gp-shared.

    noise_aware: rewards are noisy, and the noise is estimated; without it, equal points have equal rewards.
    """

    noise_aware: bool = True

    def __post_init__(self):
        check(isinstance(self.noise_aware, bool), "noise_aware", "True or False", self.noise_aware)


def first_points(d: int) -> int:
    """Return n_0, in d dimensions."""
    return min(2 * d + 2, 16)


def grid_points(d: int) -> int:
    """Return g, in d dimensions."""
    return min(16 * d, 64)


def sobol(task: Task, role: str, n: int) -> np.ndarray:
    """Return the first n points (n, d) of a scrambled Sobol sequence in the unit cube, the same for all clients."""
    from scipy.stats import qmc  # slow, so not before it is needed

    engine = qmc.Sobol(len(task.partition.domain), rng=task.stream(role))
    return engine.random(2 ** math.ceil(math.log2(max(2, n))))[:n].copy()


def improvement(mean: np.ndarray, deviation: np.ndarray, best: float, sigma: float) -> np.ndarray:
    """Return the augmented expected improvement (n,), over best, of Gaussian values seen with noise of sigma."""
    z = (mean - best) / np.maximum(deviation, 1e-12)
    expected = deviation * (z * scipy.special.ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
    return expected * (1 - sigma / np.sqrt(deviation**2 + sigma**2 + 1e-300))


@dataclass(frozen=True, eq=False)
class Beliefs(Message):
    """Up: the client's posterior means on the grid (g,), less their average, and how many evaluations each is worth.

    Header: the number of exchanges before this one.
    """

    means: np.ndarray = number_array("g")
    counts: np.ndarray = number_array("g", low=0)


@dataclass(frozen=True, eq=False)
class AllBeliefs(Message):
    """Down: the means of all clients' beliefs (g,), weighted by their counts, and the sums of the counts.

    Header: the number of exchanges before this one.
    """

    means: np.ndarray = number_array("g")
    counts: np.ndarray = number_array("g", low=0)


class GPClient(Client):
    """Client m, alone. x, y: the points (in the unit cube) and rewards so far; hyper: the current hyper-parameters."""

    def __init__(self, task: Task, settings: GPSettings, m: int):
        super().__init__(task)
        check(
            task.horizon <= MAX_CLIENT_EVALUATIONS,
            "horizon",
            f"at most {MAX_CLIENT_EVALUATIONS} for a Gaussian process",
            task.horizon,
        )
        self.settings, self.m = settings, m
        d, M = len(task.partition.domain), task.n_clients
        self._first = sobol(task, "first points", M * first_points(d))[m::M].copy()
        self.x, self.y = np.empty((0, d)), np.empty(0)
        self.hyper, self._due = Hyper.typical(d, settings.noise_aware), 0

    @property
    def stage(self) -> str:
        """What the next evaluation is for, "first points" or "search"."""
        return "first points" if self.t < len(self._first) else "search"

    def with_others(self, own: Values) -> Values:
        """Return the client's own values, together with the others' beliefs if it has any."""
        return own

    def _values(self) -> Values:
        return self.with_others(Values.single(self.x, self.y))

    def model(self) -> GaussianProcess:
        return GaussianProcess(self._values(), self.hyper)

    def learn(self, points, rewards) -> None:
        """Take evaluations that were not asked for: points (n, d) of the domain, rewards (n,)."""
        low, high = self.task.partition.domain.T
        self.x = np.concatenate([self.x, (np.asarray(points) - low) / (high - low)])
        self.y = np.concatenate([self.y, rewards])
        if len(self.y) >= max(self._due, 3):
            self._estimate()

    def _estimate(self) -> None:
        self.hyper = fit(self._values(), self.hyper)
        self._due = max(math.ceil(GROWTH * len(self.y)), len(self.y) + 1)

    def _in_domain(self, u: np.ndarray) -> np.ndarray:
        low, high = self.task.partition.domain.T
        return np.clip(low + u * (high - low), low, high)

    def _ask(self) -> Batch:
        u = self._first[self.t] if self.t < len(self._first) else self._most_promising()
        return Batch(self._in_domain(u)[None], np.array([1]))

    def _most_promising(self) -> np.ndarray:
        """The candidate (d,) with the largest expected improvement over the incumbent.

        The incumbent is the evaluated point with the largest posterior mean less one standard deviation.
        """
        model, d = self.model(), self.x.shape[1]
        rng = stream(self.task.seed, *self.task.key, "candidates", self.m, self.t)
        mean, deviation = model.predict(self.x)
        best = mean[(mean - deviation).argmax()]
        tops = self.x[np.argsort(-mean, kind="stable")[:3]]
        around = [np.clip(top + by * rng.standard_normal((N_AROUND, d)), 0, 1) for top in tops for by in AROUND_WIDTHS]
        u = np.concatenate([rng.random((N_CANDIDATES, d)), *around])
        return u[improvement(*model.predict(u), best, model.sigma).argmax()]

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Message | None:
        self.learn(batch.points, rewards)
        return None

    def best(self) -> np.ndarray:
        """The evaluated point (d,) with the largest posterior mean less one standard deviation; at first the centre."""
        if not len(self.y):
            return self.task.partition.centers(0, 1)[0]
        mean, deviation = self.model().predict(self.x)
        return self._in_domain(self.x[(mean - deviation).argmax()])


class SharedGPClient(GPClient):
    """Client m, which sends its beliefs and learns from the others' means and counts.

    exchanges: the number of exchanges so far. own_hyper: the hyper-parameters of the process of its own rewards alone,
    from which its beliefs come.
    """

    receives = (AllBeliefs,)

    def __init__(self, task: Task, settings: GPSettings, m: int):
        super().__init__(task, settings, m)
        d = len(task.partition.domain)
        self.grid, self.others = sobol(task, "grid of beliefs", grid_points(d)), None
        self.own_hyper = self.hyper
        self.exchanges = 0
        self._sent: Any = None  # the beliefs sent, while the client waits for the answer

    def with_others(self, own: Values) -> Values:
        """Return these values, with the others' beliefs as a second output."""
        if self.others is None:
            return own
        means, counts = self.others
        informative = counts > 1e-3
        return own.with_second_output(self.grid[informative], means[informative], counts[informative])

    def _ask(self) -> Batch:
        return super()._ask() if self._sent is None else EMPTY_BATCH

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Beliefs | None:
        super()._tell(batch, rewards)
        if self.task.n_clients == 1 or self.t != len(self._first) * 2**self.exchanges or self.t == self.task.horizon:
            return None
        own = Values.single(self.x, self.y)
        self.own_hyper = fit(own, self.own_hyper)
        model = GaussianProcess(own, self.own_hyper)
        mean, deviation = model.predict(self.grid)
        gain = np.maximum(model.variance / np.maximum(deviation**2, 1e-12 * model.variance) - 1, 0.0)
        counts = self.t * gain / max(gain.sum(), 1e-12)
        self._sent = mean - mean.mean(), counts
        return Beliefs(self.exchanges, *self._sent)

    def awaits(self) -> Awaited:
        """Await the server's answer to the beliefs that were sent."""
        if self._sent is None:
            return Awaited(self.exchanges - 1)
        return Awaited(self.exchanges - 1, AllBeliefs, range(self.exchanges, self.exchanges + 1), {"g": len(self.grid)})

    def _receive(self, message: AllBeliefs) -> None:
        means, counts = self._sent
        other_counts = np.maximum(message.counts - counts, 0.0)
        other_means = (message.counts * message.means - counts * means) / np.maximum(other_counts, 1e-9)
        self.others, self._sent = (other_means, other_counts), None
        self.exchanges += 1
        self._estimate()


class GPServer(Server):
    """Adds up the clients' beliefs; exchanges: the number of exchanges so far."""

    receives = (Beliefs,)

    def __init__(self, task: Task, settings: GPSettings):
        super().__init__(task, settings)
        self.exchanges = 0

    def awaits(self, m: int) -> Awaited:
        sizes = {"g": grid_points(len(self.task.partition.domain))}
        return Awaited(self.exchanges - 1, Beliefs, range(self.exchanges, self.exchanges + 1), sizes)

    def is_due(self, m: int, n_evaluated: int) -> bool:
        next_exchange = first_points(len(self.task.partition.domain)) * 2**self.exchanges
        return self.task.n_clients > 1 and next_exchange < self.task.horizon

    def conclude(self, means: np.ndarray, counts: np.ndarray) -> AllBeliefs:
        """Return the weighted means over the clients, from their means and counts (M, g)."""
        total = counts.sum(axis=0)
        self.exchanges += 1
        return AllBeliefs(self.exchanges - 1, (means * counts).sum(axis=0) / np.maximum(total, 1e-12), total)


def make_gp(task: Task, settings: GPSettings) -> tuple[Server, Sequence[Client]]:
    """Make a server that sends no message, and M clients, each alone."""
    return Server(task), [GPClient(task, settings, m) for m in range(task.n_clients)]


def make_shared_gp(task: Task, settings: GPSettings) -> tuple[Server, Sequence[Client]]:
    """Make the server that adds up the beliefs, and M clients."""
    return GPServer(task, settings), [SharedGPClient(task, settings, m) for m in range(task.n_clients)]
