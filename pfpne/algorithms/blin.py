"""BLiN, batched Lipschitz narrowing, in its doubling version D-BLiN: each client alone, cube by cube.

Source: Feng, Huang and Wang, "Lipschitz Bandits with Batched Feedback", NeurIPS 2022, Algorithm 1 with the
edge lengths of D-BLiN, on the domain scaled to [0, 1]^d.

| paper | here      | meaning                                               |
|-------|-----------|-------------------------------------------------------|
| m     | level + 1 | the batch, or phase                                   |
| r_m   | 2^-level  | edge of the cubes of the batch: 1, 1/2, 1/4, ...      |
| A_m   | cubes     | the cubes of the batch                                |
| n_m   | pulls     | pulls of each cube: anywhere in it, here at its centre |

The cubes of edge 2^-l are the cells of the binary partition at depth d l, so they have the same centres as everybody's
cells, and a cube's 2^d parts are its descendants d depths below. The paper's clean-up batch (any arm left) does not
occur: batches follow one another to the horizon, which cuts the last one.
"""

import math
from dataclasses import dataclass

import numpy as np

from pfpne.checks import check_number
from pfpne.federation import Batch, Client, Server, Task, in_turn
from pfpne.partition import Partition


@dataclass(frozen=True)
class BLiNSettings:
    """Constants of the paper's Algorithm 1."""

    c_pulls: float = 16.0  # > 0: n_m = ceil(c_pulls log T / r_m^2)
    c_gap: float = 4.0  # >= 0: a cube goes when more than c_gap r_m below the best

    def __post_init__(self):
        check_number("c_pulls", self.c_pulls, "> 0")
        check_number("c_gap", self.c_gap, ">= 0")


def pulls_of_cube(level: int, T: int, c_pulls: float) -> int:
    """n_m = ceil(c_pulls log T / r_m^2), r_m = 2^-level; at least 1."""
    return max(1, math.ceil(c_pulls * math.log(T) * 4.0**level))


def kept(mean: np.ndarray, edge: float, c_gap: float) -> np.ndarray:
    """Which cubes (n,) stay: not best mean - mean > c_gap r_m (Algorithm 1, elimination)."""
    return ~(mean.max() - mean > c_gap * edge)


def first_parts(partition: Partition, cubes: np.ndarray, limit: int) -> np.ndarray:
    """The first `limit` of the 2^d parts of each of the cubes, as indices d depths below theirs, in increasing order.

    Only those are made: in 10 dimensions a thousand cubes have a million parts, more than can ever be pulled.
    """
    for halvings_left in reversed(range(partition.d)):
        cubes = partition.children(cubes)[: -(-limit // 2**halvings_left)]
    return cubes


class BLiNClient(Client):
    """One client, alone. cubes: the part of A_m that the budget can reach; n_cubes: the size of A_m."""

    def __init__(self, task: Task, settings: BLiNSettings):
        super().__init__(task)
        self.settings = settings
        self.partition = Partition(task.partition.domain, k=2, max_depth=task.partition.max_depth)
        self.max_level = task.partition.max_depth // self.partition.d
        self.level, self.cubes, self.n_cubes = 0, np.array([1]), 1  # A_1 = the whole domain
        self._best = self.partition.centers(0, 1)[0]  # of the last batch finished

    @property
    def pulls(self) -> int:
        return pulls_of_cube(self.level, self.task.horizon, self.settings.c_pulls)

    def _ask(self) -> Batch:
        budget = self.task.horizon - self.t
        if self.level > self.max_level:  # the smallest cubes are done, and not split
            return in_turn(self._best[None], budget, budget)
        return in_turn(self.partition.centers(self.partition.d * self.level, self.cubes), self.pulls, budget)

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        if self.level > self.max_level or batch.size < self.n_cubes * self.pulls:
            return  # nothing left to choose, or a batch that the horizon has cut
        mean = rewards.reshape(self.n_cubes, self.pulls).mean(axis=1)
        self._best = batch.points[np.argmax(mean)].copy()
        survivors = self.cubes[kept(mean, 2.0**-self.level, self.settings.c_gap)]  # Algorithm 1, elimination
        self.level += 1
        self.n_cubes = len(survivors) * 2**self.partition.d  # Algorithm 1: survivors are split, A_{m+1}
        if self.level <= self.max_level:
            reach = -(-(self.task.horizon - self.t) // self.pulls)
            self.cubes = first_parts(self.partition, survivors, reach)

    def best(self) -> np.ndarray:
        """The centre of the best cube of the last batch finished; the domain's centre before that."""
        return self._best.copy()


def make_blin(task: Task, settings: BLiNSettings) -> tuple[Server, list[Client]]:
    """A server that says nothing, and M clients that run alone."""
    return Server(), [BLiNClient(task, settings) for _ in range(task.n_clients)]
