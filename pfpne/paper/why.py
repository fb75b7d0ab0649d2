"""Why PF-PNE wins or loses, depth by depth: what its elimination removes, what its intervals cover, where T goes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pfpne.algorithms.pf_pne import radius
from pfpne.paper.watch import levels, watch
from pfpne.problems import Problem
from pfpne.problems.assumptions import path

PHASED = ("pf-pne", "fed-pne", "pe")
COLUMNS = {  # of a depth of a run; nan where there is nothing to count
    "depth": "0, 1, ...",
    "removed": "share of the clients for which no cell around their own optimum is kept",
    "own": "share of the intervals of clients' own means that hold f_m at the centre",
    "global": "share of the server's intervals that hold f-bar at the centre",
    "borrowed": "share of the server's intervals of nodes that stay, which every client uses, that hold f_m at the centre",
    "nodes": "nodes that a client pulls, in phases that end before T",
    "spent": "share of T",
    "cut": "share of T in phases that the horizon cuts",
}


_NONE = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)


def _by_depth(pulled: dict) -> dict[int, tuple]:
    """What WatchedClient.pulled says, {h: (indices, pulls, means)}."""
    found = {}
    for (h, i), (n, total) in sorted(pulled.items()):
        found.setdefault(h, []).append((i, n, total / n))
    return {h: tuple(map(np.array, zip(*rows, strict=True))) for h, rows in found.items()}


def _mean(values: list) -> float:
    return float(np.mean(values)) if values else np.nan


def depths(name: str, problem: Problem, horizon: int, **options) -> pd.DataFrame:
    """A row a depth, COLUMNS, of a run of pf-pne, fed-pne or pe; options: as simulate's."""
    seen = watch(name, problem, horizon, **options)
    task, s = seen.server.task, seen.server.settings
    log, M, partition = s.log_term(task), problem.n_clients, task.partition
    kept = [seen.shared] * M if name == "fed-pne" else seen.own
    pulls = [_by_depth(client.pulled) for client in seen.clients]
    H = max(max(of) for of in pulls)
    optima = np.array([path(partition, x, H) for x in problem.maximisers])  # (M, H + 1)
    K, rows = levels(partition, seen.shared), []
    for h in range(H + 1):
        row, protected = dict.fromkeys(COLUMNS, np.nan) | {"depth": h}, np.empty(0, dtype=np.int64)
        if h in seen.means:
            mean, b = seen.means[h].mean(axis=0), radius(seen.server.samples(h), log, s.c)
            f = problem.values(partition.centers(h, K[h]))
            row["global"] = np.mean(np.abs(mean - f.mean(axis=0)) <= b)
            protected = seen.shared[h]
            stays = np.isin(K[h], protected)
            row["borrowed"] = np.mean(np.abs(mean - f)[:, stays] <= b)
        done = [m for m in range(M) if h < len(kept[m])]
        row["removed"] = _mean([optima[m, h] not in kept[m][h] for m in done])
        covered, nodes = [], []
        for m in done:
            index, n, mean = pulls[m].get(h, _NONE)
            alone = ~np.isin(index, protected)
            if name != "fed-pne" and alone.any():
                f = problem.client_values(m, partition.centers(h, index[alone]))
                covered += (np.abs(mean[alone] - f) <= radius(n[alone], log, s.c)).tolist()
            nodes.append(len(index))
        row["own"], row["nodes"] = _mean(covered), _mean(nodes)
        spent = np.array([of[h][1].sum() if h in of else 0 for of in pulls]) / horizon
        row["spent"], row["cut"] = spent.mean(), sum(spent[m] for m in range(M) if m not in done) / M
        rows.append(row)
    return pd.DataFrame(rows)
