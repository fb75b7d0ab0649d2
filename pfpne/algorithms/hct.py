"""HCT, high-confidence tree: each client alone (hct, hct-pyxab), or all as one (centralized).

Source: Azar, Lazaric and Brunskill, "Online Stochastic Optimization under Correlated Bandit Feedback", ICML 2014,
Algorithm 1 (HCT-iid), in the order of steps of PyXAB 0.3.0's class HCT.

| paper              | here                  | meaning                                                              |
|--------------------|-----------------------|----------------------------------------------------------------------|
| T_t, (h, i)        | node, depth and index | the tree; a node is a row of an array, the root row 0                |
| (h_t, i_t)         | v                     | the node pulled at step t                                            |
| T_{h,i}            | count                 | its pulls; total is the sum of their rewards                         |
| U_{h,i}, B_{h,i}   | U, B                  | upper bounds of f on its cell: its own, and that of its subtree      |
| t, t^+             | t, 2^epoch            | step, and the power of two that is not below it                      |
| c^2 log(1/delta~(t^+)) | theory.log[epoch] | delta~(t^+) = min(c_1 delta / t^+, 1), c_1 = (rho / (3 nu_1))^(1/8)  |
| tau_h(t)           | theory.tau[epoch, h]  | c^2 log(1/delta~(t^+)) rho^(-2h) / nu_1^2, pulls before going deeper |
| nu_1, rho, c, delta | settings             | constants                                                            |

PyXAB's HCT, hct-pyxab here and pull for pull equal to it, splits a node again whenever it is pulled up to a
threshold that has grown since its children were made, and forgets the subtree. Algorithm 1 splits leaves only:
that is hct, the same code with one switch off. Both depart from the listing as PyXAB does: of equal B-values the
last child's wins (there the first); at t = t^+ the tree is refreshed after the node is chosen, not before; the U of
the node pulled takes t^+ of its own step, not of the next; in tau_h, delta~ is at most 1/2 (no matter for
delta <= 1/2). A cell at the partition's max_depth is not split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from pfpne.checks import check, check_scale, is_number
from pfpne.federation import NOTHING, Batch, Client, Message, Server, Task
from pfpne.simulation.record import Traces, gaps

# --- settings, and the constants that theory makes of them ------------------------------------------


@dataclass(frozen=True)
class HCTSettings:
    """Constants of hct, hct-pyxab and centralized, PyXAB's defaults (the theory of HCT wants c = 2 / sqrt(1 - rho)).

    nu_1 > 0, rho in (0, 1): smoothness, in units of the reward. c > 0, delta in (0, 1]: confidence.
    """

    nu_1: float = 1.0
    rho: float = 0.5
    c: float = 0.1
    delta: float = 0.01

    def __post_init__(self):
        check_scale("nu_1", self.nu_1)
        check_scale("c", self.c)
        check(is_number(self.rho) and 0 < self.rho < 1, "rho", "a number in (0, 1)", self.rho)
        check(is_number(self.delta) and 0 < self.delta <= 1, "delta", "a number in (0, 1]", self.delta)


class Theory(NamedTuple):
    """What the algorithm looks up: epochs e = 0, 1, ... (t^+ = 2^e), depths h = 0..max_depth."""

    tau: np.ndarray  # (epochs, depths): tau_h
    log: np.ndarray  # (epochs,): c^2 log(1/delta~(t^+))
    diameter: np.ndarray  # (depths,): nu_1 rho^h
    k: int  # children of a node
    max_depth: int
    split_again: bool  # PyXAB's re-expansion
    credit_path: bool  # HOO (hoo.py): a reward counts at every node above the one pulled, too


def epoch(t: int) -> int:
    """e with 2^e = t^+, the smallest power of two >= t; t >= 1. (PyXAB's floats agree for t < 2^29.)"""
    return (t - 1).bit_length()


def log_term(t_plus: int, most: float, s: HCTSettings) -> float:
    """c^2 log(1/delta~(t^+)), delta~(t^+) = min(most, c_1 delta / t^+), c_1 = (rho / (3 nu_1))^(1/8)."""
    c_1 = np.power(s.rho / (3 * s.nu_1), 1.0 / 8)
    return s.c**2 * math.log(1 / min(most, c_1 * s.delta / t_plus))


def tau(h: int, log_term, s: HCTSettings):
    """tau_h = c^2 log(1/delta~(t^+)) rho^(-2h) / nu_1^2, rounded up; 0 for the root, which is not pulled.

    log_term: the first factors, of any shape. Infinite at depths that no budget reaches.
    """
    with np.errstate(over="ignore"):
        return np.ceil(log_term * np.float64(s.rho) ** (-2 * h) / s.nu_1**2) * (h > 0)


def theory(s: HCTSettings, partition, evaluations: int, split_again: bool = False) -> Theory:
    """The constants of HCT for steps 1..evaluations."""
    depths, powers = range(partition.max_depth + 1), [2**e for e in range(epoch(evaluations) + 1)]
    halved = np.array([log_term(t_plus, 0.5, s) for t_plus in powers])
    return Theory(
        tau=np.stack([tau(h, halved, s) for h in depths], axis=1),
        log=np.array([log_term(t_plus, 1.0, s) for t_plus in powers]),
        diameter=np.array([s.nu_1 * s.rho**h for h in depths]),
        k=partition.k,
        max_depth=partition.max_depth,
        split_again=split_again,
        credit_path=False,
    )


# --- the algorithm ----------------------------------------------------------------------------------

NODE = np.dtype(
    [("depth", "i8"), ("index", "i8"), ("parent", "i8"), ("child", "i8")]  # child: the first of k in a row, or -1
    + [("count", "i8"), ("total", "f8"), ("U", "f8"), ("B", "f8")]
)
STATE = np.dtype(
    [("t", "i8"), ("epoch", "i8")]  # the step to come, and its epoch
    + [("size", "i8"), ("best", "i8")]  # nodes made so far; the node to deploy
    + [("split", "i8")]  # the node whose B has not yet seen its new children, or -1
)


def new_tree(partition) -> tuple[np.ndarray, np.ndarray]:
    """The root and its children, and the state (1,) before step 1."""
    node, state = np.zeros(64 + partition.k, NODE), np.zeros(1, STATE)
    node[0] = (0, 1, -1, -1, 0, 0.0, math.inf, math.inf)
    state[0] = (1, 0, 1, 0, -1)
    if partition.max_depth > 0:
        split(node, state, 0, partition.k)
    return node, state


def with_room(node: np.ndarray, size: int, k: int) -> np.ndarray:
    """The nodes, in an array with room for k more than the `size` there are."""
    return node if size + k <= len(node) else np.concatenate([node, np.zeros(len(node), NODE)])


@njit(cache=True)
def traverse(node, state, theory):
    """OptTraverse: from the root to the child of largest B, down to a leaf or a node short of its threshold."""
    tau = theory.tau[state[0].epoch]
    v = 0
    while node[v].count >= tau[node[v].depth] and node[v].child >= 0:
        first = node[v].child
        v = first
        for u in range(first + 1, first + theory.k):
            if node[u].B >= node[v].B:  # the last of equal children
                v = u
    return v


@njit(cache=True)
def learn(node, state, theory, v, reward):
    """The rest of a step, once v is pulled: refresh at t = t^+, update v and the B-values above it, split it."""
    s, n = state[0], node[v]
    if s.t == 1 << s.epoch:
        refresh(node, state, theory)
    credit(node, state, theory, v, reward)
    update_B(node, v, theory.k, theory.credit_path)
    if s.split >= 0:
        update_B(node, s.split, theory.k, theory.credit_path)
        s.split = -1
    keep_best(node, state, v)
    if n.count >= theory.tau[s.epoch, n.depth] and (n.child < 0 or theory.split_again) and n.depth < theory.max_depth:
        split(node, state, v, theory.k)
    s.t += 1
    if s.t > 1 << s.epoch:
        s.epoch += 1


@njit(cache=True)
def credit(node, state, theory, v, reward):
    """Count the reward at v, and in HOO at all the nodes above it, and update U there."""
    while v >= 0:
        n = node[v]
        n.count += 1
        n.total += reward
        n.U = upper_bound(n, state[0].epoch, theory)
        v = n.parent if theory.credit_path else -1


@njit(cache=True)
def upper_bound(n, epoch, theory):
    """U = mean + nu_1 rho^h + sqrt(c^2 log(1/delta~(t^+)) / T_{h,i}), infinite before the first pull."""
    if n.count == 0:
        return np.inf
    mean, width, diameter = n.total / n.count, math.sqrt(theory.log[epoch] / n.count), theory.diameter[n.depth]
    return mean + width + diameter if theory.credit_path else mean + diameter + width  # to PyXAB's last bit


@njit(cache=True)
def bound_of_subtree(node, v, k):
    """B = min(U, the largest B of the children); U at a leaf."""
    first = node[v].child
    if first < 0:
        return node[v].U
    largest = -np.inf
    for u in range(first, first + k):
        largest = max(largest, node[u].B)
    return min(node[v].U, largest)


@njit(cache=True)
def update_B(node, v, k, whole_path):
    """UpdateB: the B-values from v up to the root; the others do not depend on v.

    Above a B that stays as it was nothing changes, unless the U-values there did too (whole_path).
    """
    while v >= 0:
        before = node[v].B
        node[v].B = bound_of_subtree(node, v, k)
        if node[v].B == before and not whole_path:
            return
        v = node[v].parent


@njit(cache=True)
def refresh(node, state, theory):
    """The refresh phase: every U with the present t^+, then every B, from the deepest up."""
    s = state[0]
    for v in range(s.size):
        node[v].U = upper_bound(node[v], s.epoch, theory)
    for v in range(s.size - 1, -1, -1):  # a child's row comes after its parent's
        node[v].B = bound_of_subtree(node, v, theory.k)


@njit(cache=True)
def split(node, state, v, k):
    """Give v k new children; old ones, if any, are forgotten with all that is below them."""
    s = state[0]
    node[v].child = s.size
    for j in range(k):
        child = node[s.size]
        child.depth, child.index = node[v].depth + 1, k * (node[v].index - 1) + 1 + j
        child.parent, child.child = v, -1
        child.count, child.total, child.U, child.B = 0, 0.0, np.inf, np.inf
        s.size += 1
    s.split = v


@njit(cache=True)
def keep_best(node, state, v):
    """Of the deepest nodes ever pulled, forgotten ones too, the most pulled; of equal ones the smallest index."""
    n, best = node[v], node[state[0].best]
    if n.depth != best.depth:
        better = n.depth > best.depth
    elif n.count != best.count:
        better = n.count > best.count
    else:
        better = n.index < best.index
    if better:
        state[0].best = v


class Tree:
    """The algorithm with its state: the point to pull now, and what its reward changes."""

    def __init__(self, partition, theory: Theory):
        self.partition, self._theory = partition, theory
        self._node, self._state = new_tree(partition)

    def _center(self, v: int) -> np.ndarray:
        return self.partition.centers(int(self._node[v]["depth"]), self._node[v]["index"])[0]

    def point(self) -> np.ndarray:
        """The point (d,) to pull now."""
        return self._center(traverse(self._node, self._state, self._theory))

    def learn(self, reward: float) -> None:
        """Take the reward of point()."""
        self._node = with_room(self._node, self._state[0]["size"], self._theory.k)
        v = traverse(self._node, self._state, self._theory)
        learn(self._node, self._state, self._theory, v, reward)

    def best(self) -> np.ndarray:
        """The centre (d,) of the most pulled of the deepest nodes; the domain's before the first reward."""
        return self._center(self._state[0]["best"])


# --- clients and server -----------------------------------------------------------------------------


class TreeClient(Client):
    """One client, alone on its tree."""

    def __init__(self, task: Task, theory: Theory):
        super().__init__(task)
        self.tree = Tree(task.partition, theory)

    def _ask(self) -> Batch:
        return Batch(self.tree.point()[None], np.array([1]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        self.tree.learn(rewards[0])

    def best(self) -> np.ndarray:
        """The centre (d,) of the most pulled of the deepest nodes; the domain's before the first reward."""
        return self.tree.best()


@dataclass(frozen=True, eq=False)
class Reward(Message):
    """Up (centralized): the reward (1,) of the point received."""

    reward: np.ndarray


@dataclass(frozen=True, eq=False)
class NextPoint(Message):
    """Down (centralized): the point (d,) to evaluate."""

    point: np.ndarray


class CentralizedServer(Server):
    """One HCT over all M T evaluations; client j mod M makes evaluation j = 0, 1, ..."""

    def __init__(self, task: Task, settings: HCTSettings):
        self.task = task
        self.evaluations = task.n_clients * task.horizon
        self.tree = Tree(task.partition, theory(settings, task.partition, self.evaluations))
        self._j = 0

    def start(self) -> dict[int, Message]:
        return self._send()

    def exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        turn = self._j % self.task.n_clients
        if list(messages) != [turn]:
            raise ValueError(f"it is client {turn}'s turn to send a reward; messages came from {list(messages)}.")
        self.tree.learn(messages[turn].reward[0])
        self._j += 1
        return self._send()

    def _send(self) -> dict[int, Message]:
        if self._j == self.evaluations:
            return {}
        return {self._j % self.task.n_clients: NextPoint(self._j, self.tree.point())}

    def best(self) -> np.ndarray:
        """The point (d,) that the server would deploy; no message tells the clients."""
        return self.tree.best()


class CentralizedClient(Client):
    """Evaluates what the server sends, and sends the reward. It would deploy the last point that it evaluated."""

    def __init__(self, task: Task):
        super().__init__(task)
        self._points = np.empty((0, task.partition.d))  # received, not yet evaluated: one or none
        self._best = task.partition.centers(0, 1)[0]

    def receive(self, message: NextPoint) -> None:
        self._points = message.point[None]

    def _ask(self) -> Batch:
        return Batch(self._points, np.ones(1, dtype=np.int64)) if len(self._points) else NOTHING

    def _tell(self, batch: Batch, rewards: np.ndarray) -> Reward:
        self._best, self._points = batch.points[0], self._points[:0]
        return Reward(self.t, rewards)

    def best(self) -> np.ndarray:
        return self._best


def make_alone(task: Task, theory: Theory) -> tuple[Server, list[Client]]:
    """A server that says nothing, and M clients, each alone on its tree."""
    return Server(), [TreeClient(task, theory) for _ in range(task.n_clients)]


def make_hct(task: Task, settings: HCTSettings) -> tuple[Server, list[Client]]:
    """M clients that run HCT alone."""
    return make_alone(task, theory(settings, task.partition, task.horizon))


def make_hct_pyxab(task: Task, settings: HCTSettings) -> tuple[Server, list[Client]]:
    """M clients that run PyXAB's HCT alone."""
    return make_alone(task, theory(settings, task.partition, task.horizon, split_again=True))


def make_centralized(task: Task, settings: HCTSettings) -> tuple[Server, list[Client]]:
    """The server that runs HCT, and its M thin clients."""
    return CentralizedServer(task, settings), [CentralizedClient(task) for _ in range(task.n_clients)]


# --- compiled simulation, equal to the objects pull for pull ----------------------------------------

LOOK_AHEAD = 6  # depths whose values are computed at once: few calls, and few cells that are never pulled
DONE, FULL = -1, -2


class Cells:
    """The noiseless values at the cells' centres, computed some depths at a time, as the simulation reaches them.

    child (n,): the first of the k children of a cell in a row, or -1 where not yet computed; cell 0 is the root.
    value (n, clients). gap (1 or 2, n, clients): local, then global, what a pull of the cell adds to the regret.
    known: the global gaps below a cell (depth, index), for all the trees of a run; None where they are not wanted.
    """

    def __init__(self, problem, partition, clients: list[int], known: dict | None):
        self.problem, self.partition, self.clients, self._known = problem, partition, clients, known
        self._depth, self._index = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
        self.child = np.full(1, -1)
        self.value, self.gap = self._evaluate(None, partition.centers(0, 1))

    def _evaluate(self, above: tuple[int, int] | None, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        problem = self.problem
        value = np.stack([problem.client_values(m, x) for m in self.clients], axis=1)
        gap = [gaps(problem.optimum[self.clients], value)]
        if self._known is not None:
            if above not in self._known:
                self._known[above] = gaps(problem.global_optimum, problem.mean_values(x))
            gap.append(np.broadcast_to(self._known[above][:, None], value.shape))
        return value, np.stack(gap)

    def look_below(self, w: int) -> None:
        """Compute the cells at the LOOK_AHEAD depths below cell w."""
        k, h, size = self.partition.k, self._depth[w], len(self.child)
        index, depths, indices, points = self._index[[w]], [], [], []
        for g in range(h + 1, min(h + LOOK_AHEAD, self.partition.max_depth) + 1):
            index = self.partition.children(index)
            depths.append(np.full(len(index), g))
            indices.append(index)
            points.append(self.partition.centers(int(g), index))
        new = sum(map(len, indices))
        self.child[w] = size
        child = size + k * np.arange(1, new + 1)  # the children of the new cells follow one another, after w's own
        child[new - len(index) :] = -1
        self.child = np.concatenate([self.child, child])
        self._depth = np.concatenate([self._depth, *depths])
        self._index = np.concatenate([self._index, *indices])
        value, gap = self._evaluate((int(h), int(self._index[w])), np.concatenate(points))
        self.value, self.gap = np.concatenate([self.value, value]), np.concatenate([self.gap, gap], axis=1)


class Record(NamedTuple):
    """What a compiled run writes down, for M clients at C checkpoints."""

    total: np.ndarray  # (1 or 2, M): regret so far, local and global
    regret: np.ndarray  # (1 or 2, M, C): the same at the checkpoints
    simple_regret: np.ndarray  # (M, C)
    deployed: np.ndarray  # (M,): the node of best() at the last checkpoint


@njit(cache=True)
def run(node, state, theory, place, child, value, gap, uniform, bernoulli, a, thin, checkpoints, record):
    """Steps up to the last evaluation (DONE), or until a cell's children lack values (the cell), or nodes room (FULL).

    place (nodes,): the cell of a node, or -1. uniform (M, T): client m's draw at its step t. thin: best() of a
    client is the last node that it pulled, not the tree's best.
    """
    s = state[0]
    M, T = uniform.shape
    t, m = (s.t - 1) // M, (s.t - 1) % M
    c = np.searchsorted(checkpoints, t + 1)
    while t < T:
        if s.size + theory.k > len(node):
            return FULL
        v = traverse(node, state, theory)
        if place[v] < 0:
            parent = node[v].parent
            if child[place[parent]] < 0:
                return place[parent]
            place[v] = child[place[parent]] + v - node[parent].child
        w = place[v]
        f, u = value[w, m], uniform[m, t]
        learn(node, state, theory, v, (1.0 if u < f else 0.0) if bernoulli else f + a * (2.0 * u - 1.0))
        for g in range(len(gap)):
            record.total[g, m] += gap[g, w, m]
        if t + 1 == checkpoints[c]:
            record.regret[:, m, c] = record.total[:, m]
            record.deployed[m] = v if thin else s.best
            record.simple_regret[m, c] = gap[0, place[record.deployed[m]], m]
        m += 1
        if m == M:
            c += t + 1 == checkpoints[c]
            t, m = t + 1, 0
    return DONE


def play(problem, task, theory: Theory, clients: list[int], noise_streams, checkpoints, known, thin=False):
    """One tree played to the horizon by the clients, in turn: the Record, and the deployed points (clients, d)."""
    cells = Cells(problem, task.partition, clients, known)
    M, T, C, G = len(clients), task.horizon, len(checkpoints), len(cells.gap)
    bernoulli = problem.noise == "bernoulli"
    a = 0.0 if bernoulli else float(problem.noise)
    uniform = np.zeros((M, T))
    if bernoulli or a:
        for row, m in zip(uniform, clients, strict=True):
            noise_streams[m].random(out=row)
    record = Record(np.zeros((G, M)), np.empty((G, M, C)), np.empty((M, C)), np.zeros(M, dtype=np.int64))
    (node, state), place = new_tree(task.partition), np.zeros(1, dtype=np.int64)
    stop = FULL
    while stop != DONE:
        if stop == FULL:
            node = with_room(node, state[0]["size"], theory.k)
            place = np.concatenate([place, np.full(len(node) - len(place), -1)])
        else:
            cells.look_below(stop)
        values = cells.child, cells.value, cells.gap
        stop = run(node, state, theory, place, *values, uniform, bernoulli, a, thin, checkpoints, record)
    points = [task.partition.centers(int(v["depth"]), v["index"])[0] for v in node[record.deployed]]
    return record, np.stack(points)


def gather(played: list[tuple[Record, np.ndarray]], communication: np.ndarray, global_regret: bool) -> Traces:
    """The Traces of trees that were played one after another, for clients in increasing order."""
    records, points = zip(*played, strict=True)
    regret = np.concatenate([record.regret for record in records], axis=1)
    simple_regret = np.concatenate([record.simple_regret for record in records])
    shared = regret[1] if global_regret else None
    return Traces(regret[0], shared, simple_regret, communication, np.concatenate(points))


def fast_alone(problem, task: Task, theory: Theory, noise_streams, checkpoints, global_regret) -> Traces:
    """The simulation of make_alone: each client's tree is played, one after another."""
    clients, known = range(task.n_clients), {} if global_regret else None
    played = [play(problem, task, theory, [m], noise_streams, checkpoints, known) for m in clients]
    return gather(played, np.empty((0, 3), dtype=np.int64), global_regret)


def fast_hct(problem, task, settings: HCTSettings, noise_streams, checkpoints, global_regret) -> Traces:
    """The simulation of hct."""
    constants = theory(settings, task.partition, task.horizon)
    return fast_alone(problem, task, constants, noise_streams, checkpoints, global_regret)


def fast_hct_pyxab(problem, task, settings: HCTSettings, noise_streams, checkpoints, global_regret) -> Traces:
    """The simulation of hct-pyxab."""
    constants = theory(settings, task.partition, task.horizon, split_again=True)
    return fast_alone(problem, task, constants, noise_streams, checkpoints, global_regret)


def fast_centralized(problem, task, settings: HCTSettings, noise_streams, checkpoints, global_regret) -> Traces:
    """The simulation of centralized: one tree, the clients take turns."""
    M, T, d = task.n_clients, task.horizon, task.partition.d
    constants = theory(settings, task.partition, M * T)
    known = {} if global_regret else None
    played = play(problem, task, constants, list(range(M)), noise_streams, checkpoints, known, thin=True)
    t = np.arange(T + 1)
    communication = np.stack([t, np.full(T + 1, M), np.full(T + 1, M * d)], axis=1)
    communication[0, 1:] = 0, d  # the first point goes down before any evaluation
    communication[T, 2] -= d  # and none after the last
    return gather([played], communication, global_regret)
