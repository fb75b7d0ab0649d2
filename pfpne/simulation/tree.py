"""The simulation of the algorithms on a tree (hct.py, hoo.py), compiled: pull for pull what the objects do.

The loop steps by the algorithm's own functions. It stops for what it cannot make itself: room, and values.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pfpne.algorithms.hct import Theory, TreeClient, hct_theory, learn, traverse, with_room
from pfpne.simulation.record import Traces, gaps

LOOK_AHEAD = 64  # cells of the last depth whose values are computed at once: few calls, few cells never pulled
DONE, FULL = -1, -2


class Cells:
    """The cells that the trees have reached, or soon may; all trees of a simulation share them.

    Row 0 is the domain; n rows are in use. child (n,): the row of the first of a cell's k children, 0 where they
    are not computed yet. point (n, d): the centre. value (n, M): its noiseless value for each client.
    """

    def __init__(self, problem, partition):
        self.problem, self.partition, self.n = problem, partition, 1
        self.child, self.point = np.zeros(1, dtype=np.int64), partition.centers(0, 1)
        self.value = problem.values(self.point).T

    def look_below(self, w: int, h: int, i: int) -> None:
        """Compute the next depths below cell w, node (h, i)."""
        k, index, points = self.partition.k, np.array([i]), []
        while h < self.partition.max_depth and (not points or k * len(index) <= LOOK_AHEAD):
            h, index = h + 1, self.partition.children(index)
            points.append(self.partition.centers(h, index))
        new = np.concatenate(points)
        first, last, n = self.n, self.n + len(new) - len(index), self.n + len(new)
        self.child, self.point, self.value = (with_room(rows, n) for rows in (self.child, self.point, self.value))
        self.point[first:n], self.value[first:n] = new, self.problem.values(new).T
        self.child[w] = first
        self.child[first:last] = first + k * np.arange(1, last - first + 1)  # all children in a row, w's own first
        self.n = n


@njit(cache=True)
def run(node, state, theory, cell, child, value, clients, uniform, bernoulli, a, pulled, best):
    """Steps up to the last evaluation (DONE), or until nodes lack room (FULL), or a node's children values (its row).

    cell (nodes,): the cell of a node, or 0. clients: who make evaluations j = 0, 1, ... in turn. uniform: the draw of
    evaluation j. pulled, best: the cells that it pulls, and that would be deployed after it.
    """
    s = state[0]
    while s.t <= len(uniform):
        if s.size + theory.k > len(node):
            return FULL
        v = traverse(node, state, theory)
        if cell[v] == 0 and v > 0:
            parent = node[v].parent
            if child[cell[parent]] == 0:
                return parent
            cell[v] = child[cell[parent]] + v - node[parent].child
        j = s.t - 1
        f, u = value[cell[v], clients[j % len(clients)]], uniform[j]
        learn(node, state, theory, v, (1.0 if u < f else 0.0) if bernoulli else f + a * (2.0 * u - 1.0))
        pulled[j], best[j] = cell[v], cell[s.best]
    return DONE


def play(cells: Cells, task, theory: Theory, clients: list[int], noise_streams) -> np.ndarray:
    """One tree, the clients' pulls in turn: the cells (2, clients, T) that they pull and, after it, that are best."""
    M, T, noise = len(clients), task.horizon, cells.problem.noise
    uniform = np.zeros((T, M))
    if noise != 0:
        for j, m in enumerate(clients):
            uniform[:, j] = noise_streams[m].random(T)
    tree, cell, played = TreeClient(task, theory), np.zeros(1, dtype=np.int64), np.empty((2, T * M), dtype=np.int32)
    bernoulli = noise == "bernoulli"
    draws = np.array(clients), uniform.ravel(), bernoulli, 0.0 if bernoulli else float(noise)
    stop = FULL
    while stop != DONE:
        if stop == FULL:
            tree.node = with_room(tree.node, tree.state[0]["size"] + theory.k)
            cell = with_room(cell, len(tree.node))
        else:
            cells.look_below(cell[stop], int(tree.node[stop]["depth"]), tree.node[stop]["index"])
        stop = run(tree.node, tree.state, theory, cell, cells.child, cells.value, *draws, *played)
    return played.reshape(2, T, M).swapaxes(1, 2)


def measure(cells: Cells, pulled, deployed, rounds, t: np.ndarray, global_regret: bool) -> Traces:
    """The Traces at the checkpoints t of the cells (M, T) that were pulled, and deployed after each pull."""
    problem, value, at = cells.problem, cells.value[: cells.n], t - 1
    local, deployed = gaps(problem.optimum, value), deployed[:, at]
    regret = np.stack([np.cumsum(local[w, m])[at] for m, w in enumerate(pulled)])
    simple_regret = np.stack([local[w, m] for m, w in enumerate(deployed)])
    shared = None
    if global_regret:
        gap = gaps(problem.global_optimum, problem.mean_values(cells.point[: cells.n]))
        shared = np.stack([np.cumsum(gap[w])[at] for w in pulled])
    return Traces(regret, shared, simple_regret, rounds, cells.point[deployed[:, -1]])


def simulate_alone(theory, problem, task, settings, noise_streams, t, global_regret) -> Traces:
    """The simulation of make_alone."""
    cells, constants = Cells(problem, task.partition), theory(settings, task.partition, task.horizon)
    played = [play(cells, task, constants, [m], noise_streams) for m in range(task.n_clients)]
    return measure(cells, *np.concatenate(played, axis=1), np.empty((0, 3), dtype=np.int64), t, global_regret)


def simulate_centralized(problem, task, settings, noise_streams, t, global_regret) -> Traces:
    """The simulation of make_centralized: a client deploys what it pulled last."""
    cells, M, T, d = Cells(problem, task.partition), task.n_clients, task.horizon, task.partition.d
    theory = hct_theory(settings, task.partition, M * T)
    pulled, _ = play(cells, task, theory, list(range(M)), noise_streams)
    rounds = np.array([(s, M, M * d) for s in range(T + 1)])
    rounds[0, 1:] = 0, d  # the first point goes down before any evaluation
    rounds[T, 2] -= d  # and none after the last
    return measure(cells, pulled, pulled, rounds, t, global_regret)
