"""The measurements of a run: regret from noiseless values, communication, and the points deployed."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pfpne.compiled import njit
from pfpne.disclosure import communication_table, what_each_could_learn
from pfpne.validation import check

SLACK = 1e-9  # a value may exceed the optimum by this much through rounding; by more, the optimum is wrong


@dataclass(frozen=True, eq=False)
class Measurements:
    """What a simulation measures of M clients at C checkpoints.

    Attributes
    ----------
    regret
        (M, C): the sum over s <= t of f_m* - f_m(x_{m,s}).
    global_regret
        (M, C): the sum over s <= t of f-bar* - f-bar(x_{m,s}), or None.
    simple_regret
        (M, C): f_m* - f_m(best()) after step t and the exchange that followed it.
    rounds
        (n, 3) integers: t, numbers up, numbers down, in increasing t.
    best
        (M, d): best() at T.
    """

    regret: np.ndarray
    global_regret: np.ndarray | None
    simple_regret: np.ndarray
    rounds: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Run(Measurements):
    """The result of one simulation.

    Attributes
    ----------
    t
        (C,): the checkpoints; the last one is the horizon.
    seconds
        The wall time, the one value that is not reproducible.
    messages
        (t, "up" or "down", client, Message) for every message, if they were asked for; else None.
    exact
        Whether the rewards were without noise.
    algorithm, settings
        The algorithm that was run, with its settings.
    """

    algorithm: Any  # its name, or the Algorithm that was given
    settings: dict
    t: np.ndarray
    seconds: float
    messages: list | None = None
    exact: bool = False

    @property
    def communication(self) -> pd.DataFrame:
        """A table with one row per round: t, round, numbers up, numbers down, bytes."""
        return communication_table(self.rounds)

    @property
    def disclosure(self) -> pd.DataFrame:
        """A table with one row for each party: what it could learn about a client (see pfpne.disclosure).

        ValueError if the messages were not kept.
        """
        check(self.messages is not None, "messages", "kept for this: simulate(..., messages=True)", None)
        return what_each_could_learn(self.messages or [], len(self.regret), self.exact)


def checkpoints_of(T: int) -> np.ndarray:
    """Return the distinct ceil(k T / C), k = 1..C, with C = min(T, 500)."""
    C = min(T, 500)
    return np.unique(-(-np.arange(1, C + 1, dtype=np.int64) * T // C))


def gaps(optimum, values: np.ndarray) -> np.ndarray:
    """Return optimum - values, never negative; RuntimeError if a value exceeds its optimum by more than rounding."""
    gap = optimum - values
    if gap.size and gap.min() < -SLACK:
        raise RuntimeError(f"a value is {-gap.min():.3g} above the recorded optimum: the optimum is wrong.")
    return np.maximum(gap, 0.0)


@njit(cache=True)
def add_pulls(owner, counts, gap, checkpoints, n_pulled, reached, total, regret):
    """Add pulls to their clients' regret, and record the regret at each checkpoint that the clients reach.

    owner, counts (n,): the client of each row, and its number of pulls; gap (kinds, n): the regret of one such pull;
    checkpoints (C,). Updated are n_pulled (M,), the pulls so far, reached (M,), the number of checkpoints so far, total
    (kinds, M), the regret so far, and regret (kinds, M, C).
    """
    for row in range(len(owner)):
        m, n = owner[row], counts[row]
        while reached[m] < len(checkpoints) and checkpoints[reached[m]] <= n_pulled[m] + n:
            pulls = checkpoints[reached[m]] - n_pulled[m]
            for kind in range(len(gap)):
                regret[kind, m, reached[m]] = total[kind, m] + gap[kind, row] * pulls
            reached[m] += 1
        for kind in range(len(gap)):
            total[kind, m] += gap[kind, row] * n
        n_pulled[m] += n


class Recorder:
    """Accumulates regret and communication during a run, since all its evaluations would not fit into memory.

    Attributes
    ----------
    deployments
        Records (owner (n,), steps t (n,), points (n, d)): from step t on, the owner would deploy the point. The records
        of one client are in order.
    rounds
        {t: the numbers sent at that step, up and down}.
    total
        (kinds, M): the regret so far, local and, if it is measured, global.
    """

    def __init__(self, problem, checkpoints: np.ndarray, global_regret: bool):
        self.problem, self.checkpoints, self.deployments = problem, checkpoints, []
        self.rounds = defaultdict(lambda: np.zeros(2, dtype=np.int64))
        kinds, M = 1 + global_regret, problem.n_clients
        self._n_pulled, self._reached = np.zeros((2, M), dtype=np.int64)  # by client: of pulls, and of checkpoints
        self.total, self._regret = np.zeros((kinds, M)), np.zeros((kinds, M, len(checkpoints)))

    def record_pulls(self, owner: np.ndarray, values: np.ndarray, counts: np.ndarray, points: np.ndarray) -> None:
        """Record the next pulls of some clients, in order: each of the n points is pulled counts >= 1 times.

        owner (n,); values (n,), noiseless; counts (n,); points (n, d).
        """
        gap = gaps(self.problem.optimum[owner], values)[None]
        if len(self.total) == 2:
            gap = np.stack([gap[0], gaps(self.problem.global_optimum, self.problem.mean_values(points))])
        add_pulls(owner, counts, gap, self.checkpoints, self._n_pulled, self._reached, self.total, self._regret)

    def measurements(self) -> Measurements:
        """Return the measurements at all checkpoints; at those that a client has not reached, they mean nothing."""
        problem, checkpoints = self.problem, self.checkpoints
        regret, *global_regret = np.maximum.accumulate(self._regret, axis=2, out=self._regret)
        columns = [np.concatenate(column) for column in zip(*self.deployments, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        owner, since, points = (column[order] for column in columns)
        gap = gaps(problem.optimum[owner], problem.paired_values(owner, points))
        M, T = problem.n_clients, checkpoints[-1]
        ends = np.arange(M)[:, None] * (T + 1) + checkpoints
        last = np.searchsorted(owner * (T + 1) + since, ends, side="right") - 1  # deployment before each
        rounds = np.array([(s, *self.rounds[s]) for s in sorted(self.rounds)], dtype=np.int64).reshape(-1, 3)
        return Measurements(regret, global_regret[0] if global_regret else None, gap[last], rounds, points[last[:, -1]])
