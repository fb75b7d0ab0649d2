"""Runs of pf-pne, fed-pne and pe that are watched: the algorithm's own clients and server run, and the clients record.

`watch` returns the nodes that the server and each client kept, the means that were sent, and each client's pulls.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfpne.algorithms import ALGORITHMS
from pfpne.algorithms.phases import PhasedClient
from pfpne.federation import Server
from pfpne.partition import Partition
from pfpne.problems.base import Problem
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import simulate


@dataclass(frozen=True, eq=False)
class NotedPartition(Partition):
    """A partition that records the nodes whose children are requested, depth by depth: these are the kept nodes."""

    kept: list = field(default_factory=list)

    def children(self, i):
        self.kept.append(i)
        return super().children(i)


class WatchedClient(PhasedClient):
    """A client that records its pulls and the nodes that it keeps, first with the server, then alone.

    pulled[h, i]: (pulls, sum of rewards) of each node.
    """

    def __init__(self, task, settings, phases):
        self.noted_partition, self.pulled = NotedPartition(**vars(task.partition)), {}
        super().__init__(replace(task, partition=self.noted_partition), settings, phases)

    def _tell(self, batch, rewards):
        sums = np.add.reduceat(rewards, np.cumsum(batch.counts) - batch.counts)
        h, index = self._request.h, self._request.index.tolist()
        for i, n, total in zip(index, batch.counts, sums, strict=False):  # the horizon may cut some
            before = self.pulled.get((h, i), (0, 0.0))
            self.pulled[h, i] = before[0] + n, before[1] + total
        return super()._tell(batch, rewards)


class Watched(NamedTuple):
    """The record of a run.

    kept_by_server: the nodes kept by the server at each depth 0, 1, ..., or split unsampled by Fed-PNE's expansion.
    kept_alone: for each client, the nodes that it kept alone. means: {h: the clients' means (M, n) of K^h}, as sent.
    """

    run: Run
    server: Server
    clients: list[WatchedClient]
    kept_by_server: list[np.ndarray]
    kept_alone: list[list[np.ndarray]]
    means: dict[int, np.ndarray]

    @property
    def pulls(self) -> pd.DataFrame:
        """One row per client m and node (depth, index) that it pulled: n pulls, and total, the sum of the rewards."""
        pulled = [(m, *node, *sums) for m, client in enumerate(self.clients) for node, sums in client.pulled.items()]
        return pd.DataFrame(pulled, columns=["m", "depth", "index", "n", "total"])


def watch(name: str, problem: Problem, horizon: int, **options) -> Watched:
    """Run pf-pne, fed-pne or pe on a problem and record what happens. options: as for `simulate`."""
    made = []

    def make(task, chosen):
        made.extend(ALGORITHMS[name].make_server_and_clients(task, chosen, client=WatchedClient))
        return made

    run = simulate(replace(ALGORITHMS[name], make_server_and_clients=make), problem, horizon, messages=True, **options)
    server, clients = made
    up = [message for _, direction, _, message in run.messages if direction == "up"]
    means = {h: np.stack([message.means for message in up if message.header == h]) for h in {m.header for m in up}}
    n_federated = max(means, default=-1) + 1  # the depths that the server decided on, including expanded ones
    kept = [client.noted_partition.kept for client in clients]
    return Watched(run, server, clients, kept[0][:n_federated], [nodes[n_federated:] for nodes in kept], means)


def nodes_before_elimination(partition: Partition, kept: list[np.ndarray]) -> list[np.ndarray]:
    """The nodes of each depth before elimination: the root, then the children of the kept nodes."""
    return [np.array([1]), *map(partition.children, kept)]
