"""Random search, the baseline of `tune`: each client alone, at uniform random points; it deploys the best one seen."""

from dataclasses import dataclass

import numpy as np

from pfpne.federation import Batch, Client, Server, Task


@dataclass(frozen=True)
class RandomSearchSettings:
    """Random search has no settings."""


class RandomClient(Client):
    """Evaluates a new random point at each step, and would deploy the point with the highest reward, noisy or not."""

    def __init__(self, task: Task, m: int):
        super().__init__(task)
        low, high = task.partition.domain.T
        self._points = task.stream(f"random search {m}").uniform(low, high, (task.horizon, len(low)))
        self._best, self._highest = task.partition.centers(0, 1)[0], -np.inf

    def _ask(self) -> Batch:
        return Batch(self._points[self.t][None], np.array([1]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        if rewards[0] > self._highest:
            self._best, self._highest = batch.points[0], float(rewards[0])

    def best(self) -> np.ndarray:
        """Return the point (d,) of the highest reward; before the first one, the domain's centre."""
        return self._best


def make_random_search(task: Task, settings: RandomSearchSettings) -> tuple[Server, list[Client]]:
    """Make a server that sends no message, and M clients."""
    return Server(task), [RandomClient(task, m) for m in range(task.n_clients)]
