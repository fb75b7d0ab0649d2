"""Runs of pf-pne, fed-pne and pe that are watched: their own clients and server run; the clients note what happens."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pfpne.algorithms import ALGORITHMS
from pfpne.algorithms.phases import PhasedClient
from pfpne.federation import Server
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import simulate


@dataclass(frozen=True, eq=False)
class _Cells(Partition):
    """A partition that notes of which nodes the children were asked for, one depth after another: of those kept."""

    kept: list = field(default_factory=list)

    def children(self, i):
        self.kept.append(i)
        return super().children(i)


class WatchedClient(PhasedClient):
    """A client that notes what it kept, first with the server, then alone, and pulled[h, i] = (pulls, rewards)."""

    def __init__(self, task, settings, phases):
        self.cells, self.pulled = _Cells(**vars(task.partition)), {}
        super().__init__(replace(task, partition=self.cells), settings, phases)

    def _tell(self, batch, rewards):
        sums = np.add.reduceat(rewards, np.cumsum(batch.counts) - batch.counts)
        for i, n, total in zip(self._step.index.tolist(), batch.counts, sums, strict=False):  # the horizon may cut some
            before = self.pulled.get((self._step.h, i), (0, 0.0))
            self.pulled[self._step.h, i] = before[0] + n, before[1] + total
        return super()._tell(batch, rewards)


class Watched(NamedTuple):
    """What was seen of a run.

    shared: the nodes kept at each depth 0, 1, ... by the server, or passed on by Fed-PNE's expansion; own: of each
    client, those that it kept alone. means: {h: the clients' means (M, n) of K^h}, as they were sent.
    """

    run: Run
    server: Server
    clients: list[WatchedClient]
    shared: list[np.ndarray]
    own: list[list[np.ndarray]]
    means: dict[int, np.ndarray]


def watch(name: str, problem: Problem, horizon: int, **options) -> Watched:
    """Run pf-pne, fed-pne or pe on a problem; options: as simulate's."""
    made = []

    def make(task, chosen):
        made.extend(ALGORITHMS[name].make(task, chosen, client=WatchedClient))
        return made

    run = simulate(replace(ALGORITHMS[name], make=make), problem, horizon, messages=True, **options)
    server, clients = made
    up = [message for _, way, _, message in run.messages if way == "up"]
    means = {h: np.stack([message.means for message in up if message.header == h]) for h in {m.header for m in up}}
    together = max(means, default=-1) + 1  # the depths that the server decided on, expanded ones among them
    kept = [client.cells.kept for client in clients]
    return Watched(run, server, clients, kept[0][:together], [own[together:] for own in kept], means)


def levels(partition: Partition, kept: list[np.ndarray]) -> list[np.ndarray]:
    """The nodes of each depth before elimination: the root, then the children of those kept."""
    return [np.array([1]), *map(partition.children, kept)]
