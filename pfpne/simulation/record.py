"""What is measured of a run: regret from noiseless values, communication, and the point deployed."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd

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
    """Collects what the clients do, n rows a record and a client's own in order, and sums it up at the end.

    pulls: (owner (n,), their noiseless values (n,), counts (n,), points (n, d)). bests: (owner (n,), the steps t (n,)
    from which on they would deploy, points (n, d)). rounds: t -> the numbers carried then, up and down.
    """

    def __init__(self):
        self.pulls, self.bests = [], []
        self.rounds = defaultdict(lambda: np.zeros(2, dtype=np.int64))

    def traces(self, problem, t: np.ndarray, global_regret: bool) -> Traces:
        owner, values, counts, points = _by_owner(self.pulls)
        regret, shared = _cumulative(t, owner, counts, gaps(problem.optimum[owner], values)), None
        if global_regret:
            shared = _cumulative(t, owner, counts, gaps(problem.global_optimum, problem.mean_values(points)))
        owner, since, points = _by_owner(self.bests)
        gap = gaps(problem.optimum[owner], problem.paired_values(owner, points))
        M, T = problem.n_clients, t[-1]
        at = np.searchsorted(owner * (T + 1) + since, np.arange(M)[:, None] * (T + 1) + t, side="right") - 1
        rounds = np.array([(s, *self.rounds[s]) for s in sorted(self.rounds)], dtype=np.int64).reshape(-1, 3)
        return Traces(regret, shared, gap[at], rounds, points[at[:, -1]])


def _by_owner(records: list[tuple]) -> list[np.ndarray]:
    """The columns of the records, client after client."""
    columns = [np.concatenate(column) for column in zip(*records, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return [column[order] for column in columns]


def _cumulative(t: np.ndarray, owner: np.ndarray, counts: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Cumulative regret (M, C) at steps t (C,): every client made t[-1] pulls, counts (n,) in a row with gap (n,)."""
    first = np.searchsorted(owner, np.arange(owner[-1] + 2))  # where each client's rows begin, and the end
    after = np.cumsum(counts)
    total = np.zeros(len(gap) + 1)  # before each row; each client's sum starts anew
    for a, b in zip(first[:-1], first[1:], strict=True):
        np.cumsum(gap[a:b] * counts[a:b], out=total[a + 1 : b + 1])
    total[first] = 0.0
    steps = t[-1] * np.arange(len(first) - 1)[:, None] + t
    at = np.searchsorted(after, steps)  # the row that each step belongs to
    return np.maximum.accumulate(total[at] + gap[at] * (steps - (after - counts)[at]), axis=1)
