"""The fast simulation of trees (hct.py, hoo.py, pf_pne_plus.py): the objects' steps compiled, equal pull for pull."""

from typing import NamedTuple

import numpy as np

from pfpne.algorithms.hct import TreeClient, grow_rows, hct_constants, traverse, update_tree
from pfpne.compiled import njit
from pfpne.simulation.record import Measurements, gaps

LOOK_AHEAD = 64  # values are computed for up to so many cells of a depth at once: few calls, few cells never pulled
BLOCK = 128  # the number of clients whose trees share cells: more clients' values would not fit into the cache
MAX_PULLS = 10**8  # the pulls of a block, limited to save memory: with a long horizon a block has fewer clients
DONE, NO_ROOM, NO_VALUES = range(3)


class ReachedCells:
    """The cells that the trees of S neighbouring clients have reached, or may reach soon.

    Row 0 is the domain; n rows are in use. first_child (n,) is the row of a cell's first child, 0 if the k children are
    not computed yet; point (n, d) the centre; value (n, S) the centre's noiseless value for each client.
    """

    def __init__(self, problem, partition, clients: range):
        self.problem, self.partition, self.clients, self.n = problem, partition, clients, 1
        self.first_child, self.point = np.zeros(1, dtype=np.int64), partition.centers(0, 1)
        self.value = self._values(self.point)

    def _values(self, points: np.ndarray) -> np.ndarray:
        owner = np.tile(self.clients, len(points))
        return self.problem.paired_values(owner, np.repeat(points, len(self.clients), axis=0)).reshape(len(points), -1)

    def look_below(self, w: int, h: int, i: int) -> None:
        """Compute the next depths below cell w, which is node (h, i)."""
        k, index, points = self.partition.k, np.array([i]), []
        while h < self.partition.max_depth and (not points or k * len(index) <= LOOK_AHEAD):
            h, index = h + 1, self.partition.children(index)
            points.append(self.partition.centers(h, index))
        new = np.concatenate(points)
        first, last, n = self.n, self.n + len(new) - len(index), self.n + len(new)
        rows = self.first_child, self.point, self.value
        self.first_child, self.point, self.value = (grow_rows(column, n) for column in rows)
        self.point[first:n], self.value[first:n] = new, self._values(new)
        self.first_child[w] = first
        # All new cells are in a row, w's children first; so the children of each follow those of the one before.
        self.first_child[first:last] = first + k * np.arange(1, last - first + 1)
        self.n = n


class Draws(NamedTuple):
    """What turns the values of cells into rewards."""

    clients: np.ndarray  # (S,): the columns of the values; these clients pull in turn
    uniform: np.ndarray  # (n, S): the uniform draw of each of their pulls
    bernoulli: bool  # whether rewards are 0 or 1
    half_width: float  # of uniform noise where f = 1; 0 with binary rewards
    slope: float  # the half-width at f = 0 minus the half-width at f = 1


@njit(cache=True)
def play_on(node, state, constants, cell, first_child, value, steps_before, draws, pulled, recommended):
    """Make steps up to the last evaluation, or until something is missing; return (reason for the stop, row).

    The reason is DONE; NO_ROOM if the array of nodes is full; or NO_VALUES if the children of the node in that row have
    no values yet. cell (nodes,): the cell of each node, or 0. first_child, value: as in ReachedCells. steps_before: the
    steps of the tree before the first of these draws. pulled, recommended (n, S): the cell of each pull, and the one
    recommended next.
    """
    now = state[0]
    n, S = draws.uniform.shape
    t, m = divmod(now.next_step - 1 - steps_before, S)
    while t < n:
        if now.size + constants.k > len(node):
            return NO_ROOM, 0
        v = traverse(node, state, constants)
        if cell[v] == 0 and v > 0:
            parent = node[v].parent
            if first_child[cell[parent]] == 0:
                return NO_VALUES, parent
            cell[v] = first_child[cell[parent]] + v - node[parent].first_child
        f, u = value[cell[v], draws.clients[m]], draws.uniform[t, m]
        half_width = draws.half_width + draws.slope * (1.0 - f)
        reward = (1.0 if u < f else 0.0) if draws.bernoulli else f + half_width * (2.0 * u - 1.0)
        update_tree(node, state, constants, v, reward)
        pulled[t, m], recommended[t, m] = cell[v], cell[now.best]
        t, m = (t, m + 1) if m + 1 < S else (t + 1, 0)
    return DONE, 0


def play(cells: ReachedCells, tree: TreeClient, n: int, clients: range, noise_streams) -> np.ndarray:
    """Play a tree, n pulls by each client in turn; return the pulled cells and the recommended ones, (2, S, n)."""
    noise, steps_before = cells.problem.noise, int(tree.state[0]["next_step"]) - 1
    uniform = np.empty((n, len(clients)))
    for column, m in enumerate(clients):
        uniform[:, column] = noise_streams[m].random(n)
    is_binary = noise == "bernoulli"
    half_width, slope = 0.0 if is_binary else float(noise), cells.problem.noise_slope
    draws = Draws(np.array(clients) - cells.clients[0], uniform, is_binary, half_width, slope)
    played = np.empty((2, *uniform.shape), dtype=np.int32)
    cell = np.zeros(len(tree.node), dtype=np.int64)
    for v in range(1, tree.state[0]["size"]):  # the nodes that the tree starts with; play_on adds the others
        parent = tree.node[v]["parent"]
        above = tree.node[parent]
        if cells.first_child[cell[parent]] == 0:
            cells.look_below(int(cell[parent]), int(above["depth"]), int(above["index"]))
        cell[v] = cells.first_child[cell[parent]] + v - above["first_child"]
    while True:
        state = tree.node, tree.state, tree.constants, cell, cells.first_child, cells.value
        status, row = play_on(*state, steps_before, draws, *played)
        if status == DONE:
            return played.transpose(0, 2, 1)
        tree.node = grow_rows(tree.node, tree.state[0]["size"] + tree.constants.k)
        cell = grow_rows(cell, len(tree.node))
        if status == NO_VALUES:
            cells.look_below(int(cell[row]), int(tree.node[row]["depth"]), int(tree.node[row]["index"]))


def measure_played(cells: ReachedCells, pulled, deployed, steps: np.ndarray, regret_before: np.ndarray) -> tuple:
    """Measure the regret of the pulled cells (S, n), and the simple regret of the cells deployed after each pull.

    steps (C,): the numbers of pulls after which to measure. regret_before (1 or 2, S): the regret before the first
    pull, local and, if it is measured, global. Returns the regret (1 or 2, S, C), the simple regret (S, C) at the
    steps > 0, and the points (S, d) deployed in the end.
    """
    problem, clients = cells.problem, cells.clients
    gap = [gaps(problem.optimum[clients], cells.value[: cells.n]).T]
    if len(regret_before) == 2:
        global_gap = gaps(problem.global_optimum, problem.mean_values(cells.point[: cells.n]))
        gap.append(np.broadcast_to(global_gap, gap[0].shape))
    regret = [
        [np.cumsum(np.append(b, costs[w]))[steps] for b, costs, w in zip(before, table, pulled, strict=True)]
        for before, table in zip(regret_before, gap, strict=True)
    ]
    simple = np.take_along_axis(gap[0], deployed[:, steps[steps > 0] - 1], axis=1)
    return np.array(regret), simple, cells.point[deployed[:, -1]]


def play_trees(
    trees, problem, task, noise_streams, checkpoints: np.ndarray, t_before: int, regret_before: np.ndarray
) -> tuple:
    """Play each client's tree after t_before < T evaluations; return the results of `measure_played` for all."""
    M, parts = task.n_clients, []
    size = min(BLOCK, max(1, MAX_PULLS // task.horizon))
    if len(regret_before) == 2:  # means over all clients are computed once for each cell, so that all share the cells
        size = M
    for clients in (range(a, min(a + size, M)) for a in range(0, M, size)):
        cells = ReachedCells(problem, task.partition, clients)
        played = [play(cells, next(trees), task.horizon - t_before, range(m, m + 1), noise_streams) for m in clients]
        pulled, deployed = np.concatenate(played, axis=1)
        steps = checkpoints[checkpoints >= t_before] - t_before
        parts.append(measure_played(cells, pulled, deployed, steps, regret_before[:, clients]))
    regret, simple, best_points = zip(*parts, strict=True)
    return np.concatenate(regret, axis=1), np.concatenate(simple), np.concatenate(best_points)


def simulate_tree_clients(
    constants_of, problem, task, settings, noise_streams, checkpoints, global_regret
) -> Measurements:
    """Simulate the clients that make_tree_clients makes."""
    constants = constants_of(settings, task.partition, task.horizon)
    trees = (TreeClient(task, constants) for _ in range(task.n_clients))
    no_regret = np.zeros((1 + global_regret, task.n_clients))
    regret, simple, best_points = play_trees(trees, problem, task, noise_streams, checkpoints, 0, no_regret)
    return Measurements(
        regret[0], regret[1] if global_regret else None, simple, np.empty((0, 3), dtype=np.int64), best_points
    )


def simulate_centralized(problem, task, settings, noise_streams, checkpoints, global_regret) -> Measurements:
    """Simulate the clients that make_centralized makes. A client deploys the cell that it pulled last."""
    M, T, d = task.n_clients, task.horizon, task.partition.d
    tree = TreeClient(task, hct_constants(settings, task.partition, M * T))
    cells = ReachedCells(problem, task.partition, range(M))
    pulled, _ = play(cells, tree, T, range(M), noise_streams)
    rounds = np.array([0, M, M * d]) + np.arange(T + 1)[:, None] * [1, 0, 0]
    rounds[0, 1:] = 0, d  # the first point goes down before any evaluation
    rounds[T, 2] -= d  # and none after the last
    regret, simple, best_points = measure_played(cells, pulled, pulled, checkpoints, np.zeros((1 + global_regret, M)))
    return Measurements(regret[0], regret[1] if global_regret else None, simple, rounds, best_points)
