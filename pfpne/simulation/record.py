"""What is measured of a run: regret from noiseless values, communication, and the point deployed."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pfpne.algorithms.phases import firsts

SLACK = 1e-9  # how far above its optimum a value may be by rounding; beyond, the optimum is wrong


@dataclass(frozen=True, eq=False)
class Traces:
    """What a simulation measures. M clients, C checkpoints.

    regret (M, C): sum over s <= t of f_m* - f_m(x_{m,s}). global_regret: the same with f-bar, or None.
    simple_regret (M, C): f_m* - f_m(best()) after step t and the exchange that it set off.
    rounds (n, 3) int64: t, numbers up, numbers down, in increasing t. best (M, d): best() at T.
    """

    regret: np.ndarray
    global_regret: np.ndarray | None
    simple_regret: np.ndarray
    rounds: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Run(Traces):
    """The result of one simulation.

    t (C,): checkpoints, the last is the horizon. seconds: wall time, the one value that is not reproducible.
    messages: (t, "up" or "down", client, Message) of every message, if they were asked for.
    """

    algorithm: str
    settings: dict
    t: np.ndarray
    seconds: float
    messages: list | None = None

    @property
    def communication(self) -> pd.DataFrame:
        """A row a round: t, round, numbers up, numbers down, bytes."""
        table = pd.DataFrame(self.rounds, columns=["t", "numbers up", "numbers down"])
        table.insert(1, "round", np.arange(1, len(table) + 1))
        return table.assign(bytes=8 * (table["numbers up"] + table["numbers down"]))


def checkpoints(T: int) -> np.ndarray:
    """The distinct ceil(k T / C), k = 1..C, C = min(T, 500)."""
    C = min(T, 500)
    return np.unique(-(-np.arange(1, C + 1, dtype=np.int64) * T // C))


def gaps(optimum, values: np.ndarray) -> np.ndarray:
    """optimum - values, never negative; RuntimeError if a value is above the optimum by more than rounding."""
    gap = optimum - values
    if gap.size and gap.min() < -SLACK:
        raise RuntimeError(f"a value is {-gap.min():.3g} above the recorded optimum: the optimum is wrong.")
    return np.maximum(gap, 0.0)


class Recorder:
    """Sums up what the clients do as they do it: a run of many clients has more evaluations than memory has room for.

    bests: records (owner (n,), the steps t (n,) from which on they would deploy, points (n, d)), a client's own in
    order. rounds: t -> the numbers carried then, up and down. total (kinds, M): the regret so far, local and global.
    """

    def __init__(self, problem, t: np.ndarray, global_regret: bool):
        self.problem, self.t, self.bests = problem, t, []
        self.rounds = defaultdict(lambda: np.zeros(2, dtype=np.int64))
        kinds, M = 1 + global_regret, problem.n_clients
        self._done, self.total = np.zeros(M, dtype=np.int64), np.zeros((kinds, M))
        self._regret = np.zeros((kinds, M, len(t)))

    def pulled(self, owner: np.ndarray, values: np.ndarray, counts: np.ndarray, points: np.ndarray) -> None:
        """The next evaluations of some clients: n rows, client after client, each one's own in order.

        owner (n,); values (n,), noiseless; counts (n,) >= 1, in a row; points (n, d).
        """
        problem, t = self.problem, self.t
        gap = [gaps(problem.optimum[owner], values)]
        if len(self._regret) == 2:
            gap.append(gaps(problem.global_optimum, problem.mean_values(points)))
        first = firsts(owner)
        client, last = owner[first], np.append(first[1:], len(owner)) - 1
        after = np.cumsum(counts)
        before = after - counts
        ahead = self._done[client] - before[first]  # of this record's own count of steps
        low, high = np.searchsorted(t, [self._done[client], ahead + after[last]], side="right")
        reached = np.repeat(np.arange(len(client)), high - low)  # a checkpoint each: whose, and which
        column = np.arange(len(reached)) - np.repeat(np.cumsum(high - low) - high, high - low)
        step = t[column] - ahead[reached]
        row = np.searchsorted(after, step)  # that the step belongs to
        for total, regret, g in zip(self.total, self._regret, gap, strict=True):
            sums = g * counts
            sums[first] += total[client]
            for a, b in zip(first.tolist(), (last + 1).tolist(), strict=True):
                np.cumsum(sums[a:b], out=sums[a:b])
            sum_before = np.where(row > first[reached], sums[row - 1], total[client[reached]])
            regret[client[reached], column] = sum_before + g[row] * (step - before[row])
            total[client] = sums[last]
        self._done[client] = ahead + after[last]

    def traces(self) -> Traces:
        """What was measured, at checkpoints that every client has reached; beyond, 0."""
        problem, t = self.problem, self.t
        regret, *shared = np.maximum.accumulate(self._regret, axis=2, out=self._regret)
        columns = [np.concatenate(column) for column in zip(*self.bests, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        owner, since, points = (column[order] for column in columns)
        gap = gaps(problem.optimum[owner], problem.paired_values(owner, points))
        M, T = problem.n_clients, t[-1]
        at = np.searchsorted(owner * (T + 1) + since, np.arange(M)[:, None] * (T + 1) + t, side="right") - 1
        rounds = np.array([(s, *self.rounds[s]) for s in sorted(self.rounds)], dtype=np.int64).reshape(-1, 3)
        return Traces(regret, shared[0] if shared else None, gap[at], rounds, points[at[:, -1]])
