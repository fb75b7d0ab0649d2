"""The simulation of hct.py and hoo.py, compiled from the steps of their objects, and so equal to them pull for pull."""

import numpy as np
from numba import njit

from pfpne.algorithms.hct import TreeClient, hct_theory, learn, traverse, with_room
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
def run(node, state, theory, cell, child, value, start, clients, uniform, bernoulli, a, pulled, best):
    """Steps up to the last evaluation (DONE), or until nodes lack room (FULL), or a node's children values (its row).

    cell (nodes,): the cell of a node, or 0. start: steps of the tree before the first of these. clients (M,): they pull
    in turn. uniform (M, n): the draws of their pulls. pulled, best (M, n): the cell of each pull, and of the node to
    deploy after it.
    """
    s = state[0]
    M, n = uniform.shape
    t, m = (s.t - 1 - start) // M, (s.t - 1 - start) % M
    while t < n:
        if s.size + theory.k > len(node):
            return FULL
        v = traverse(node, state, theory)
        if cell[v] == 0 and v > 0:
            parent = node[v].parent
            if child[cell[parent]] == 0:
                return parent
            cell[v] = child[cell[parent]] + v - node[parent].child
        f, u = value[cell[v], clients[m]], uniform[m, t]
        learn(node, state, theory, v, (1.0 if u < f else 0.0) if bernoulli else f + a * (2.0 * u - 1.0))
        pulled[m, t], best[m, t] = cell[v], cell[s.best]
        t, m = (t, m + 1) if m + 1 < M else (t + 1, 0)
    return DONE


def play(cells: Cells, tree: TreeClient, n: int, clients: list[int], noise_streams) -> np.ndarray:
    """One tree, n pulls of each client in turn: the cells (2, clients, n) that they pull and, after it, that are best."""
    bernoulli = cells.problem.noise == "bernoulli"
    uniform, start, theory = np.empty((len(clients), n)), int(tree.state[0]["t"]) - 1, tree.theory
    for m, row in zip(clients, uniform, strict=True):
        noise_streams[m].random(out=row)
    draws = np.array(clients), uniform, bernoulli, 0.0 if bernoulli else float(cells.problem.noise)
    played = np.empty((2, *uniform.shape), dtype=np.int32)
    cell = np.zeros(len(tree.node), dtype=np.int64)
    for v, row in enumerate(tree.node[: tree.state[0]["size"]]):  # those that the tree starts with; it makes the others
        if v > 0:
            above = tree.node[row["parent"]]
            if cells.child[cell[row["parent"]]] == 0:
                cells.look_below(cell[row["parent"]], int(above["depth"]), above["index"])
            cell[v] = cells.child[cell[row["parent"]]] + v - above["child"]
    while (stop := run(tree.node, tree.state, theory, cell, cells.child, cells.value, start, *draws, *played)) != DONE:
        tree.node = with_room(tree.node, tree.state[0]["size"] + theory.k)
        cell = with_room(cell, len(tree.node))
        if stop != FULL:
            cells.look_below(cell[stop], int(tree.node[stop]["depth"]), tree.node[stop]["index"])
    return played


def measure(cells: Cells, pulled, deployed, rounds, t: np.ndarray, global_regret: bool) -> Traces:
    """The Traces at the checkpoints t of the cells (M, T) that were pulled, and deployed after each pull."""
    problem, at, shared = cells.problem, t - 1, None
    local, deployed = gaps(problem.optimum, cells.value[: cells.n]).T, deployed[:, at]
    regret = np.stack([np.cumsum(gap[w])[at] for gap, w in zip(local, pulled, strict=True)])
    if global_regret:
        gap = gaps(problem.global_optimum, problem.mean_values(cells.point[: cells.n]))
        shared = np.stack([np.cumsum(gap[w])[at] for w in pulled])
    simple_regret = np.take_along_axis(local, deployed, axis=1)
    return Traces(regret, shared, simple_regret, rounds, cells.point[deployed[:, -1]])


def simulate_alone(theory, problem, task, settings, noise_streams, t, global_regret) -> Traces:
    """The simulation of make_alone."""
    cells, constants = Cells(problem, task.partition), theory(settings, task.partition, task.horizon)
    trees = [TreeClient(task, constants) for _ in range(task.n_clients)]
    played = [play(cells, tree, task.horizon, [m], noise_streams) for m, tree in enumerate(trees)]
    return measure(cells, *np.concatenate(played, axis=1), np.empty((0, 3), dtype=np.int64), t, global_regret)


def simulate_centralized(problem, task, settings, noise_streams, t, global_regret) -> Traces:
    """The simulation of make_centralized: a client deploys what it pulled last."""
    cells, M, T, d = Cells(problem, task.partition), task.n_clients, task.horizon, task.partition.d
    tree = TreeClient(task, hct_theory(settings, task.partition, M * T))
    pulled, _ = play(cells, tree, T, list(range(M)), noise_streams)
    rounds = np.array([0, M, M * d]) + np.arange(T + 1)[:, None] * [1, 0, 0]
    rounds[0, 1:] = 0, d  # the first point goes down before any evaluation
    rounds[T, 2] -= d  # and none after the last
    return measure(cells, pulled, pulled, rounds, t, global_regret)
