"""Centralized HCT: one tree for all M T evaluations, at a server that sees every reward.

It is not a federation: it shows the regret that the clients would have if their rewards need not stay with them.
Client j mod M makes evaluation j, at the point that the server names.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pfpne.algorithms.hct import HCTSettings, TreeClient, hct_constants
from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.messages import Awaited, Message, number_array


@dataclass(frozen=True, eq=False)
class RewardReport(Message):
    """Up: the reward (1,) of the point received. Header: the evaluations that this client has made, from 1."""

    reward: np.ndarray = number_array(1, statistic="mean")


@dataclass(frozen=True, eq=False)
class NextPoint(Message):
    """Down: the point (d,) to evaluate. Header: the evaluations that all clients together have made, from 0."""

    point: np.ndarray = number_array("d")


class CentralizedServer(Server):
    """One HCT for all M T evaluations; client j mod M makes evaluation j = 0, 1, ..."""

    receives = (RewardReport,)

    def __init__(self, task: Task, settings: HCTSettings):
        super().__init__(task, settings)
        whole = replace(task, n_clients=1, horizon=task.n_clients * task.horizon)
        self.hct = TreeClient(whole, hct_constants(settings, whole.partition, whole.horizon))

    def first_messages(self) -> dict[int, Message]:
        return self._next_point()

    def _next_point(self) -> dict[int, Message]:
        """Return the next point, for the client whose turn it is; nothing after the last evaluation."""
        points = self.hct.ask().points
        return {self.hct.t % self.task.n_clients: NextPoint(self.hct.t, points[0])} if len(points) else {}

    def awaits(self, m: int) -> Awaited:
        """Await the reward of the current evaluation from the client in turn; header: that client's evaluations."""
        rounds, turn = divmod(self.hct.t, self.task.n_clients)
        if m != turn or self.hct.t == self.hct.task.horizon:
            return Awaited(rounds + (m < turn))
        ranges = self.task.statistic_ranges(RewardReport)
        return Awaited(rounds, RewardReport, range(rounds + 1, rounds + 2), ranges=ranges)

    def is_due(self, m: int, n_evaluated: int) -> bool:
        return len(self.awaits(m).headers) > 0  # a message for each evaluation

    def _exchange(self, messages: dict[int, Any]) -> dict[int, Message]:
        for message in messages.values():  # one, from the client whose turn it is
            self.hct.tell(message.reward)
        return self._next_point()


class CentralizedClient(Client):
    """Evaluates the server's point and sends the reward; its recommendation is the last point it evaluated."""

    receives = (NextPoint,)

    def __init__(self, task: Task, m: int):
        super().__init__(task)
        self.m = m
        self._best, self._next = task.partition.centers(0, 1)[0], EMPTY_BATCH

    def awaits(self) -> Awaited:
        """Await the point of its next evaluation, unless it has one: evaluation m, m + M, m + 2 M, ... of all."""
        (low, high), M = self.task.partition.domain.T, self.task.n_clients
        j = self.t * M + self.m
        if self._next.size or self.t == self.task.horizon:
            return Awaited(j if self._next.size else j - M)
        return Awaited(j - M, NextPoint, range(j, j + 1), {"d": len(low)}, ranges={"point": (low, high)})

    def _receive(self, message: NextPoint) -> None:
        self._next = Batch(message.point[None], np.array([1]))

    def _ask(self) -> Batch:
        return self._next

    def _tell(self, batch: Batch, rewards: np.ndarray) -> RewardReport:
        self._best, self._next = batch.points[0], EMPTY_BATCH
        return RewardReport(self.t, rewards)

    def best(self) -> np.ndarray:
        return self._best


def make_centralized(task: Task, settings: HCTSettings) -> tuple[Server, list[Client]]:
    """Make the server that runs HCT, and its M thin clients."""
    return CentralizedServer(task, settings), [CentralizedClient(task, m) for m in range(task.n_clients)]
