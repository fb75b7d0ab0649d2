"""BLiN, batched Lipschitz narrowing, in its doubling version D-BLiN: each client alone, cube by cube.

Source: Feng, Huang and Wang, "Lipschitz Bandits with Batched Feedback", NeurIPS 2022, Algorithm 1 with the
edge lengths of D-BLiN, on the domain scaled to [0, 1]^d; constants and order of pulls of its public code,
github.com/FengYasong-fifol/Batched-Lipschitz-Narrowing.

| paper | here      | meaning                                                |
|-------|-----------|--------------------------------------------------------|
| m     | level + 1 | the batch, or phase                                    |
| r_m   | 2^-level  | edge of the cubes of the batch: 1, 1/2, 1/4, ...       |
| A_m   | cubes     | the cubes of the batch, as many as the budget reaches  |
| n_m   | pulls     | pulls of each cube: anywhere in it, here at its centre |

The cubes of edge 2^-l are the cells of the cyclic binary partition at depth d l. A cube's 2^d parts are its descendants
d depths below. A batch pulls its cubes in turn, once per round. There is no clean-up batch, which would pull any
remaining arm: batches follow one another until the horizon truncates the last one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from pfpne.algorithms.phases import ClientGroup, Pull, make_phased
from pfpne.federation import Client, Server, Task
from pfpne.partition import Partition
from pfpne.pyxab import PyXABPartition
from pfpne.validation import check_amount, check_scale


@dataclass(frozen=True)
class BLiNSettings:
    """Constants of the public code; the theory's are 16 and 4."""

    c_pulls: float = 0.75  # > 0: n_m = ceil(c_pulls log T / r_m^2)
    c_gap: float = 0.25  # >= 0: a cube goes when more than c_gap r_m below the best

    def __post_init__(self):
        check_scale("c_pulls", self.c_pulls)
        check_amount("c_gap", self.c_gap)


def pulls_of_cube(level: int, T: int, c_pulls: float) -> int:
    """Return n_m = ceil(c_pulls log T / r_m^2), at least 1, with r_m = 2^-level."""
    return max(1, math.ceil(c_pulls * math.log(T) * 4.0**level))


def is_kept(mean: np.ndarray, edge: float, c_gap: float) -> np.ndarray:
    """Return which cubes (n,) are kept: all but those with best mean - mean > c_gap r_m (Algorithm 1, elimination)."""
    return ~(mean.max() - mean > c_gap * edge)


def first_parts(partition: Partition | PyXABPartition, cubes: np.ndarray, limit: int) -> np.ndarray:
    """Return the indices, d depths below, of the first `limit` parts of the cubes, each cut into 2^d.

    No others are made: in 10 dimensions a thousand cubes have a million parts, more than can ever be pulled.
    """
    for halvings_left in reversed(range(partition.d)):
        cubes = partition.children(cubes)[: -(-limit // 2**halvings_left)]
    return cubes


class BLiN(ClientGroup):
    """One client (S = 1); best_points is the centre of the best cube of the last batch that was finished."""

    def loop(self):
        """Algorithm 1: yield the pulls of a batch; once it is finished, take the sums of their rewards."""
        s, T, partition = self.settings, self.task.horizon, self.task.partition
        cubes, budget = np.array([1]), T  # A_1 = the whole domain
        for level in count():
            h, pulls = partition.d * level, min(pulls_of_cube(level, T, s.c_pulls), T + 1)
            if level:
                cubes = first_parts(partition, cubes, budget + 1)  # A_m: the survivors are split
            rounds = min(pulls, budget // len(cubes) + 1)  # over all cubes, one pull each; no more than T cuts
            turns = np.tile(cubes, rounds)
            sums = yield Pull(h, *np.broadcast_arrays(0, turns, 1))
            budget -= len(turns)
            mean = sums.reshape(rounds, -1).sum(axis=0) / pulls
            best_cube = cubes[[np.argmax(mean)]]
            self.best_points = partition.centers(h, best_cube)
            if h + partition.d > partition.max_depth:  # the smallest cubes are not split: the best is played to the end
                yield Pull(h, np.zeros(1, dtype=np.int64), best_cube, np.array([T + 1]))
            cubes = cubes[is_kept(mean, 2.0**-level, s.c_gap)]  # Algorithm 1, elimination


def make_blin(task: Task, settings: BLiNSettings) -> tuple[Server, Sequence[Client]]:
    """Make a server that sends no message, and M clients, each on its own."""
    halving = Partition(task.partition.domain, k=2, max_depth=task.partition.max_depth, cells="cyclic")
    return make_phased(BLiN, Server, replace(task, partition=halving), settings)
