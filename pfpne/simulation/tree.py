"""Trees (hct.py, hoo.py, pf_pne_plus.py) simulated: compiled from the steps of the objects, and equal pull for pull."""

import numpy as np

from pfpne.algorithms.hct import TreeClient, hct_theory, learn, traverse, with_room
from pfpne.compiled import njit
from pfpne.simulation.record import Traces, gaps

LOOK_AHEAD = 64  # cells of the last depth whose values are computed at once: few calls, few cells never pulled
BLOCK = 128  # clients whose trees share cells: the values of more leave the cache
PULLS = 10**8  # and fewer (but for global regret), if they make more pulls than this: memory holds a block's
DONE, FULL = -1, -2


class Cells:
    """The cells that the trees of some clients have reached, or soon may. clients: S of them, in a row.

    Row 0 is the domain; n rows are in use. child (n,): the row of the first of a cell's k children, 0 where they
    are not computed yet. point (n, d): the centre. value (n, S): its noiseless value for each of the clients.
    """

    def __init__(self, problem, partition, clients: range):
        self.problem, self.partition, self.clients, self.n = problem, partition, clients, 1
        self.child, self.point = np.zeros(1, dtype=np.int64), partition.centers(0, 1)
        self.value = self._values(self.point)

    def _values(self, points: np.ndarray) -> np.ndarray:
        owner = np.tile(self.clients, len(points))
        return self.problem.paired_values(owner, np.repeat(points, len(self.clients), axis=0)).reshape(len(points), -1)

    def look_below(self, w: int, h: int, i: int) -> None:
        """Compute the next depths below cell w, node (h, i)."""
        k, index, points = self.partition.k, np.array([i]), []
        while h < self.partition.max_depth and (not points or k * len(index) <= LOOK_AHEAD):
            h, index = h + 1, self.partition.children(index)
            points.append(self.partition.centers(h, index))
        new = np.concatenate(points)
        first, last, n = self.n, self.n + len(new) - len(index), self.n + len(new)
        self.child, self.point, self.value = (with_room(rows, n) for rows in (self.child, self.point, self.value))
        self.point[first:n], self.value[first:n] = new, self._values(new)
        self.child[w] = first
        self.child[first:last] = first + k * np.arange(1, last - first + 1)  # all children in a row, w's own first
        self.n = n


@njit(cache=True)
def run(node, state, theory, cell, child, value, start, clients, uniform, bernoulli, a, pulled, best):
    """Steps up to the last evaluation (DONE), or until nodes lack room (FULL), or a node's children values (its row).

    cell (nodes,): the cell of a node, or 0. start: steps of the tree before the first of these. clients (S,): columns
    of value; they pull in turn. uniform (n, S): the draws of their pulls. pulled, best (n, S): the cell of each pull,
    and of the node to deploy after it.
    """
    s = state[0]
    n, S = uniform.shape
    t, m = (s.t - 1 - start) // S, (s.t - 1 - start) % S
    while t < n:
        if s.size + theory.k > len(node):
            return FULL
        v = traverse(node, state, theory)
        if cell[v] == 0 and v > 0:
            parent = node[v].parent
            if child[cell[parent]] == 0:
                return parent
            cell[v] = child[cell[parent]] + v - node[parent].child
        f, u = value[cell[v], clients[m]], uniform[t, m]
        learn(node, state, theory, v, (1.0 if u < f else 0.0) if bernoulli else f + a * (2.0 * u - 1.0))
        pulled[t, m], best[t, m] = cell[v], cell[s.best]
        t, m = (t, m + 1) if m + 1 < S else (t + 1, 0)
    return DONE


def play(cells: Cells, tree: TreeClient, n: int, clients: range, noise_streams) -> np.ndarray:
    """One tree, n pulls of each client in turn: the cells (2, S, n) that they pull and, after it, that are best."""
    bernoulli = cells.problem.noise == "bernoulli"
    uniform, start, theory = np.empty((n, len(clients))), int(tree.state[0]["t"]) - 1, tree.theory
    for column, m in enumerate(clients):
        uniform[:, column] = noise_streams[m].random(n)
    columns = np.array(clients) - cells.clients[0]
    draws = columns, uniform, bernoulli, 0.0 if bernoulli else float(cells.problem.noise)
    played = np.empty((2, *uniform.shape), dtype=np.int32)
    cell = np.zeros(len(tree.node), dtype=np.int64)
    for v in range(1, tree.state[0]["size"]):  # those that the tree starts with; it makes the others
        parent = tree.node[v]["parent"]
        above = tree.node[parent]
        if cells.child[cell[parent]] == 0:
            cells.look_below(cell[parent], int(above["depth"]), above["index"])
        cell[v] = cells.child[cell[parent]] + v - above["child"]
    while (stop := run(tree.node, tree.state, theory, cell, cells.child, cells.value, start, *draws, *played)) != DONE:
        tree.node = with_room(tree.node, tree.state[0]["size"] + theory.k)
        cell = with_room(cell, len(tree.node))
        if stop != FULL:
            cells.look_below(cell[stop], int(tree.node[stop]["depth"]), tree.node[stop]["index"])
    return played.transpose(0, 2, 1)


def measure(cells: Cells, pulled, deployed, at: np.ndarray, before: np.ndarray) -> tuple:
    """What the cells (S, n) that are pulled, and deployed after each pull, cost; at (C,): after how many of the pulls.

    before (1 or 2, S): the regret up to them, local and, if there is one, global. Returns such regrets (., S, C), the
    simple regret (S, C) of the at > 0, and the points (S, d) deployed in the end.
    """
    problem, clients = cells.problem, cells.clients
    gap = [gaps(problem.optimum[clients], cells.value[: cells.n]).T]
    if len(before) == 2:
        shared = gaps(problem.global_optimum, problem.mean_values(cells.point[: cells.n]))
        gap.append(np.broadcast_to(shared, gap[0].shape))
    regret = [
        [np.cumsum(np.append(b, own[w]))[at] for b, own, w in zip(starts, table, pulled, strict=True)]
        for starts, table in zip(before, gap, strict=True)
    ]
    simple = np.take_along_axis(gap[0], deployed[:, at[at > 0] - 1], axis=1)
    return np.array(regret), simple, cells.point[deployed[:, -1]]


def search(trees, problem, task, noise_streams, t: np.ndarray, start: int, before: np.ndarray) -> tuple:
    """Each client plays its tree, from evaluation `start` < T on, alone: `measure` of all, at checkpoints >= start."""
    M, parts = task.n_clients, []
    size = min(BLOCK, max(1, PULLS // task.horizon))
    if len(before) == 2:  # means over all clients are made once a cell: all then share the cells
        size = M
    for clients in (range(a, min(a + size, M)) for a in range(0, M, size)):
        cells = Cells(problem, task.partition, clients)
        played = [play(cells, next(trees), task.horizon - start, range(m, m + 1), noise_streams) for m in clients]
        parts.append(measure(cells, *np.concatenate(played, axis=1), t[t >= start] - start, before[:, clients]))
    regret, simple, best = zip(*parts, strict=True)
    return np.concatenate(regret, axis=1), np.concatenate(simple), np.concatenate(best)


def simulate_alone(theory, problem, task, settings, noise_streams, t, global_regret) -> Traces:
    """The simulation of make_alone."""
    constants = theory(settings, task.partition, task.horizon)
    trees = (TreeClient(task, constants) for _ in range(task.n_clients))
    before = np.zeros((1 + global_regret, task.n_clients))
    regret, simple, best = search(trees, problem, task, noise_streams, t, 0, before)
    return Traces(regret[0], regret[1] if global_regret else None, simple, np.empty((0, 3), dtype=np.int64), best)


def simulate_centralized(problem, task, settings, noise_streams, t, global_regret) -> Traces:
    """The simulation of make_centralized: a client deploys what it pulled last."""
    M, T, d = task.n_clients, task.horizon, task.partition.d
    tree = TreeClient(task, hct_theory(settings, task.partition, M * T))
    cells = Cells(problem, task.partition, range(M))
    pulled, _ = play(cells, tree, T, range(M), noise_streams)
    rounds = np.array([0, M, M * d]) + np.arange(T + 1)[:, None] * [1, 0, 0]
    rounds[0, 1:] = 0, d  # the first point goes down before any evaluation
    rounds[T, 2] -= d  # and none after the last
    regret, simple, best = measure(cells, pulled, pulled, t, np.zeros((1 + global_regret, M)))
    return Traces(regret[0], regret[1] if global_regret else None, simple, rounds, best)
