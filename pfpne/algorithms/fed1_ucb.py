"""Fed1-UCB: all clients pull the same arms, a server averages their means and drops the worst arms.

Source: Shi and Shen, "Federated Multi-Armed Bandits", AAAI 2021, all clients from the first phase on, with a phase's
length, B_p and the constants of its public code, github.com/ShenGroup/FMAB, file Fed1_UCB_CR.py.

| paper | here       | meaning                                                                 |
|-------|------------|-------------------------------------------------------------------------|
| K     | len(arms)  | arms, drawn at random in the domain, the same for all clients           |
| f(p)  | pulls      | pulls of each active arm by each client in a phase, the same in every p |
| F(p)  | n          | pulls so far of each active arm by each client, p f(p)                  |
| B_p   | half_width | half-width of the confidence interval of the clients' average           |

A client's mean of an arm is over all its pulls of the arm so far. Two features of the public code are left out: there a
dropped arm's mean can still be the best mean that others are compared with, and a phase that the horizon has truncated
still ends in an exchange.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfpne.algorithms.arms import draw_arms
from pfpne.algorithms.phases import clip_to_budget, node_sums
from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.messages import Awaited, Message, integer_array, number_array
from pfpne.validation import check_amount, check_scale


@dataclass(frozen=True)
class Fed1UCBSettings:
    """Constants of the public code."""

    c_pulls: float = 10.0  # > 0: an active arm is pulled int(c_pulls log T) times in a phase
    sigma: float | None = None  # >= 0: standard deviation of a reward; None: what the task's noise says

    def __post_init__(self):
        check_scale("c_pulls", self.c_pulls)
        if self.sigma is not None:
            check_amount("sigma", self.sigma, ", or None to follow the noise")


@dataclass(frozen=True, eq=False)
class ArmMeans(Message):
    """Up: the client's mean (n,) of every active arm, in increasing order. Header: the phase, from 1."""

    means: np.ndarray = number_array("n", statistic="mean")

    def rewards_in_means(self, evaluations: int) -> int:
        """Return the number of rewards in a mean, over all phases so far."""
        return self.header * super().rewards_in_means(evaluations)


@dataclass(frozen=True, eq=False)
class SurvivingArms(Message):
    """Down: the arms (n,) that stay active, in increasing order. Header: the phase, from 1."""

    answers_cumulative_means = True
    arms: np.ndarray = integer_array("kept")


def reward_deviation(noise: float | str | None) -> float:
    """Return sigma: a/sqrt(3) for uniform noise on +-a, else 1/2, as in the public code."""
    return 0.5 if noise is None or isinstance(noise, str) else noise / math.sqrt(3)


def pulls_of_phase(T: int, c_pulls: float) -> int:
    """Return f(p) = c_pulls log T, truncated as in the public code, at least 1."""
    return max(1, int(c_pulls * math.log(T)))


def confidence_half_width(n: int, M: int, T: int, sigma: float) -> float:
    """Return B_p = sqrt(4 sigma^2 log T / (M n)), for the average of M clients' means of n pulls each."""
    return math.sqrt(4 * sigma**2 * math.log(T) / (M * n))


def is_kept(mean: np.ndarray, half_width: float) -> np.ndarray:
    """Return which arms (n,) are kept: all but the set E_p, those with mean + B_p < best mean - B_p."""
    return ~(mean + half_width < mean.max() - half_width)


class Fed1UCBServer(Server):
    """Averages the clients' means of the active arms, and drops arms; phase, from 1, is the one under way."""

    receives = (ArmMeans,)
    tolerates_missing = True

    def __init__(self, task: Task, n_arms: int, pulls: int, sigma: float):
        super().__init__(task)
        self.active, self.pulls, self.sigma, self.phase = np.arange(n_arms), pulls, sigma, 1

    def awaits(self, m: int) -> Awaited:
        """Await the client's means of this phase, as long as more than one arm is left."""
        if len(self.active) == 1:
            return Awaited(self.phase - 1)
        headers, ranges = range(self.phase, self.phase + 1), self.task.statistic_ranges(ArmMeans)
        return Awaited(self.phase - 1, ArmMeans, headers, {"n": len(self.active)}, ranges=ranges)

    def rewards_in_means(self) -> int:
        return self.phase * self.pulls

    def phase_evaluations(self) -> int:
        return self.pulls * len(self.active)

    def conclude(self, means: np.ndarray) -> SurvivingArms:
        """Conclude a phase: from the clients' means (M, n) of the active arms to the arms that are kept."""
        mean, phase = means.mean(axis=0), self.phase  # server: average of the local means
        n = phase * self.pulls  # F(p)
        half_width = confidence_half_width(n, len(means), self.task.horizon, self.sigma)  # B_p
        self.active, self.phase = self.active[is_kept(mean, half_width)], phase + 1  # server: drop E_p
        return SurvivingArms(phase, self.active)


class Fed1UCBClient(Client):
    """Pulls every active arm equally often, and sends its means; arms (K, d) are in the order of play."""

    receives = (SurvivingArms,)

    def __init__(self, task: Task, arms: np.ndarray, pulls: int):
        super().__init__(task)
        self.arms, self.pulls, self.active = arms, pulls, np.arange(len(arms))
        self.phase, self.sums = 1, np.zeros(len(arms))  # sums: of the rewards of all phases finished
        self.waiting = False  # for the server's answer
        self._best = arms[0] if len(arms) == 1 else task.partition.centers(0, 1)[0]

    def _ask(self) -> Batch:
        if self.waiting:
            return EMPTY_BATCH
        budget = self.task.horizon - self.t
        pulls = self.pulls if len(self.active) > 1 else budget  # one arm left: no more exploration
        counts = clip_to_budget(np.full(len(self.active), pulls), np.array([0]), np.array([budget]))
        return Batch(self.arms[self.active[counts > 0]], counts[counts > 0])

    def _tell(self, batch: Batch, rewards: np.ndarray) -> ArmMeans | None:
        if len(self.active) == 1 or batch.size < len(self.active) * self.pulls:
            return None  # nothing left to choose, or a phase that the horizon has cut
        self.sums[self.active] += node_sums(rewards, batch.counts)
        self.waiting = True
        return ArmMeans(self.phase, self.sums[self.active] / (self.phase * self.pulls))  # client: send the local means

    def awaits(self) -> Awaited:
        """Await the kept arms, once the means of the active arms are sent."""
        headers = range(self.phase, self.phase + 1) if self.waiting else range(0)
        return Awaited(self.phase - 1, SurvivingArms, headers, subset_of={"arms": self.active})

    def _receive(self, message: SurvivingArms) -> None:
        self.active, self.phase, self.waiting = message.arms, message.header + 1, False
        self._best = self.arms[self.active[np.argmax(self.sums[self.active])]]

    def best(self) -> np.ndarray:
        """Return the active arm of this client's highest mean after the last phase; at first the domain's centre."""
        return self._best.copy()


def make_fed1_ucb(task: Task, settings: Fed1UCBSettings) -> tuple[Server, Sequence[Client]]:
    """Make the server and the M clients; the order of the arms comes from the task's stream "arms-order"."""
    arms = task.stream("arms-order").permutation(draw_arms(task))
    pulls = pulls_of_phase(task.horizon, settings.c_pulls)
    sigma = reward_deviation(task.noise) if settings.sigma is None else settings.sigma
    clients = [Fed1UCBClient(task, arms, pulls) for _ in range(task.n_clients)]
    return Fed1UCBServer(task, len(arms), pulls, sigma), clients
