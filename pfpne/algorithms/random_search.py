"""Random search, the baseline of `tune`: each client alone, points uniform in the domain, the best seen is deployed."""

from dataclasses import dataclass

import numpy as np

from pfpne.federation import Batch, Client, Server, Task


@dataclass(frozen=True)
class RandomSearchSettings:
    """It takes none."""


class RandomClient(Client):
    """A new random point at each step; of noisy rewards, the highest is deployed."""

    def __init__(self, task: Task, m: int):
        super().__init__(task)
        self._random, self._domain = task.stream(f"random search {m}"), task.partition.domain
        self._best, self._highest = task.partition.centers(0, 1)[0], -np.inf
        self._next = self._draw()

    def _draw(self) -> Batch:
        low, high = self._domain.T
        return Batch(self._random.uniform(low, high)[None], np.array([1]))

    def _ask(self) -> Batch:
        return self._next

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        if rewards[0] > self._highest:
            self._best, self._highest = batch.points[0], rewards[0]
        self._next = self._draw()

    def best(self) -> np.ndarray:
        """The point (d,) of the highest reward; the domain's centre before the first."""
        return self._best


def make_random_search(task: Task, settings: RandomSearchSettings) -> tuple[Server, list[Client]]:
    """A server that says nothing, and M clients."""
    return Server(task), [RandomClient(task, m) for m in range(task.n_clients)]
