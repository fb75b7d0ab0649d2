"""HCT, high-confidence tree: each client alone (hct, hct-pyxab). All as one: centralized.py.

Source: Azar, Lazaric and Brunskill, "Online Stochastic Optimization under Correlated Bandit Feedback", ICML 2014,
Algorithm 1 (HCT-iid), in the order of steps of PyXAB 0.3.0's class HCT.

| paper                  | here                      | meaning                                                    |
|------------------------|---------------------------|------------------------------------------------------------|
| T_t, (h, i)            | node, depth and index     | the tree; a node is a row of an array, the root row 0      |
| (h_t, i_t)             | v                         | the node pulled at step t                                  |
| T_{h,i}                | count                     | its pulls; total is the sum of their rewards               |
| U_{h,i}, B_{h,i}       | U, B                      | upper bounds of f on its cell: its own, its subtree's      |
| t, t^+                 | next_step, 2^epoch        | step, and the power of two that is not below it            |
| c^2 log(1/delta~(t^+)) | squared_half_width[epoch] | the half-width of a confidence interval, one pull, squared |
| tau_h(t)               | threshold[epoch, h]       | pulls of a node of depth h before the search goes deeper   |

hct-pyxab equals PyXAB's HCT pull for pull. It splits a node again whenever the node reaches a threshold that has
grown since its children were made, and forgets the subtree. Algorithm 1 splits leaves only: that is hct, the same code
with one switch off. Both depart from the listing as PyXAB does: ties between B-values go to the last child, not to the
first; at t = t^+ the tree is refreshed after the node is chosen, not before; the U of the pulled node uses the t^+ of
this step, not of the next; in tau_h, delta~ is at most 1/2 (no matter for delta <= 1/2). A cell at the partition's
max_depth is not split.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pfpne.compiled import njit
from pfpne.federation import Batch, Client, Server, Task
from pfpne.validation import check_rho, check_scale


@dataclass(frozen=True)
class TreeSettings:
    """The smoothness: nu_1 > 0, in units of the reward, and rho in (0, 1)."""

    nu_1: float = 1.0
    rho: float = 0.5

    def __post_init__(self):
        check_scale("nu_1", self.nu_1)
        check_rho("rho", self.rho)


@dataclass(frozen=True)
class HCTSettings(TreeSettings):
    """TreeSettings, and the confidence: c > 0 and delta in (0, 1].

    The defaults are PyXAB's. The theory of HCT wants c = 2 / sqrt(1 - rho).
    """

    c: float = 0.1
    delta: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_scale("c", self.c)
        check_scale("delta", self.delta, high=1)


class HCTConstants(NamedTuple):
    """The numbers that HCT looks up, for epochs e = 0, 1, ... (t^+ = 2^e) and depths h = 0..max_depth."""

    threshold: np.ndarray  # (epochs, depths): tau_h; infinite where nodes are never split
    squared_half_width: np.ndarray  # (epochs,): c^2 log(1/delta~(t^+))
    diameter: np.ndarray  # (depths,): nu_1 rho^h
    k: int  # children of a node
    split_again: bool = False  # PyXAB's re-expansion
    credit_path: bool = False  # HOO (hoo.py): a reward also counts at every node above the one pulled


def epoch_of(t: int) -> int:
    """Return e with 2^e = t^+, the smallest power of two >= t, for 1 <= t; PyXAB's floats agree for t < 2^29."""
    return (t - 1).bit_length()


def squared_half_width_at(t_plus: int, max_delta: float, settings: HCTSettings) -> float:
    """Return c^2 log(1/delta~(t^+)), delta~(t^+) = min(max_delta, c_1 delta / t^+), c_1 = (rho / (3 nu_1))^(1/8)."""
    c_1 = np.power(settings.rho / (3 * settings.nu_1), 1.0 / 8)
    return settings.c**2 * math.log(1 / min(max_delta, c_1 * settings.delta / t_plus))


def threshold_at(h: int, squared_half_width, settings: HCTSettings):
    """Return tau_h = ceil(squared_half_width rho^(-2h) / nu_1^2), elementwise; 0 at the root, which is never pulled."""
    with np.errstate(over="ignore"):
        return np.ceil(squared_half_width * np.float64(settings.rho) ** (-2 * h) / settings.nu_1**2) * (h > 0)


def hct_constants(settings: HCTSettings, partition, T: int) -> HCTConstants:
    """Return the constants of HCT for steps 1..T."""
    depths, powers = range(partition.max_depth + 1), [2**e for e in range(epoch_of(T) + 1)]
    squared_half_width = np.array([squared_half_width_at(t_plus, 1.0, settings) for t_plus in powers])
    in_thresholds = np.array([squared_half_width_at(t_plus, 0.5, settings) for t_plus in powers])
    threshold = np.stack([threshold_at(h, in_thresholds, settings) for h in depths], axis=1)
    threshold[:, -1] = np.inf
    diameter = np.array([settings.nu_1 * settings.rho**h for h in depths])
    return HCTConstants(threshold, squared_half_width, diameter, partition.k)


def pyxab_constants(settings: HCTSettings, partition, T: int) -> HCTConstants:
    """Return HCT's constants, with PyXAB's re-expansion switched on."""
    return hct_constants(settings, partition, T)._replace(split_again=True)


# --- the algorithm ----------------------------------------------------------------------------------

# Fields of a node. parent, first_child and largest are rows, or -1: the parent, the first of the k children, whose rows
# follow one another, and the child with the largest B (the last one at a tie). free is 1 if the search may descend from
# it before it reaches its threshold. count may be fractional: the prior pulls of a warm start need not be whole
# (pf_pne_plus.py).
# Fields of the state, which is one record; its name in the code is now. next_step is the number of the next step, size
# the number of nodes, best the node to deploy. just_split is the node that was split in the last step, or -1. Its B is
# still from before the split, and the next step computes it from the children. top is a node from which the next
# descent may start: the path from the root to it is the same as in the last step.
INTEGERS, FLOATS = ("depth", "index", "parent", "first_child", "largest", "free"), ("count", "total", "U", "B")
NODE = np.dtype([(name, "i8") for name in INTEGERS] + [(name, "f8") for name in FLOATS])
STATE = np.dtype([(name, "i8") for name in ("next_step", "epoch", "size", "best", "just_split", "top")])

part_of_step = njit(cache=True, inline="always")  # else counting references to arrays would take most of the time


@part_of_step
def traverse(node, state, constants):
    """Return the node to pull: OptTraverse, from the root to the child of largest B again and again.

    The descent ends at a leaf, or at a node short of its threshold. It starts at node `top`: the path from the root to
    `top` is the same as in the last step.
    """
    threshold = constants.threshold[state[0].epoch]
    v = state[0].top
    while node[v].first_child >= 0 and (node[v].free or node[v].count >= threshold[node[v].depth]):
        v = node[v].largest
    return v


@part_of_step
def update_tree(node, state, constants, v, reward):
    """Update the tree with the reward of node v: refresh it at t = t^+, update v and the B-values above, split v."""
    now, pulled = state[0], node[v]
    at_t_plus = now.next_step == 1 << now.epoch
    # In most steps only B-values above v change. More change if a node was just split, those above it, and at t = t^+,
    # all of them and all thresholds. The next path may then leave this one at any node, so it starts at the root.
    starts_at_root = now.just_split >= 0 or at_t_plus
    if at_t_plus:
        refresh(node, state, constants)
    if now.just_split >= 0:
        update_B(node, now.just_split, constants)
        now.just_split = -1
    u = v
    while u >= 0:
        node[u].count += 1
        node[u].total += reward
        node[u].U = upper_bound(node[u], now.epoch, constants)
        u = node[u].parent if constants.credit_path else -1
    highest_turn = update_B(node, v, constants)
    now.top = 0 if starts_at_root else highest_turn
    best = node[now.best]  # the most pulled of the deepest ever pulled, forgotten ones too
    if (pulled.depth, pulled.count, -pulled.index) > (best.depth, best.count, -best.index):
        now.best = v
    may_split = pulled.first_child < 0 or constants.split_again
    if may_split and pulled.count >= constants.threshold[now.epoch, pulled.depth]:
        split(node, state, constants, v)
    now.next_step += 1
    now.epoch += now.next_step > 1 << now.epoch


@njit(cache=True)
def refresh(node, state, constants):
    """Compute all U and B anew, from the leaves up: a child's row comes after its parent's row."""
    for u in range(state[0].size - 1, -1, -1):
        node[u].U = upper_bound(node[u], state[0].epoch, constants)
        set_B(node, u, constants.k)


@part_of_step
def upper_bound(row, epoch, constants):
    """Return U = mean + nu_1 rho^h + sqrt(c^2 log(1/delta~(t^+)) / T_{h,i}); infinity before the first pull."""
    if row.count == 0:
        return np.inf
    mean, diameter = row.total / row.count, constants.diameter[row.depth]
    half_width = math.sqrt(constants.squared_half_width[epoch] / row.count)
    # In the order of PyXAB's sums, to the last bit.
    return mean + half_width + diameter if constants.credit_path else mean + diameter + half_width


@part_of_step
def set_B(node, v, k):
    """Set B = min(U, the largest B of the children), or U at a leaf, and which child has the largest."""
    parent = node[v]
    parent.largest = parent.first_child
    for u in range(parent.first_child + 1, parent.first_child + k if parent.first_child >= 0 else 0):
        if node[u].B >= node[parent.largest].B:  # the last of equal children
            parent.largest = u
    parent.B = min(parent.U, node[parent.largest].B) if parent.first_child >= 0 else parent.U


@part_of_step
def update_B(node, v, constants):
    """Update the B-values from v upwards until one does not change (UpdateB); return where the next descent may start.

    With credit_path all U-values above v have changed, so the update always goes to the root. Returned is the highest
    node whose child with the largest B has changed, or v if there is none.
    """
    highest_turn = v
    while v >= 0:
        B, largest = node[v].B, node[v].largest
        set_B(node, v, constants.k)
        if node[v].largest != largest:
            highest_turn = v
        v = node[v].parent if node[v].B != B or constants.credit_path else -1
    return highest_turn


@njit(cache=True)
def split(node, state, constants, v):
    """Give v k new, unpulled children; its old subtree is forgotten."""
    now, parent, k = state[0], node[v], constants.k
    parent.first_child, parent.largest, now.just_split = now.size, now.size + k - 1, v
    for j in range(k):
        child = node[now.size + j]
        child.depth, child.index = parent.depth + 1, k * (parent.index - 1) + 1 + j
        child.parent, child.first_child, child.largest, child.U, child.B = v, -1, -1, np.inf, np.inf
    now.size += k


# --- clients and server -----------------------------------------------------------------------------


def grow_rows(rows: np.ndarray, n: int) -> np.ndarray:
    """Return the rows, padded with zeros to n or more. The number of rows at least doubles, so that copies are rare."""
    if n <= len(rows):
        return rows
    added = max(n, 2 * len(rows)) - len(rows)
    return np.concatenate([rows, np.zeros((added, *rows.shape[1:]), rows.dtype)])


class TreeClient(Client):
    """One client that searches alone, on its tree."""

    def __init__(self, task: Task, constants: HCTConstants):
        super().__init__(task)
        self.constants = constants
        self.node, self.state = np.zeros(64 + constants.k, NODE), np.zeros(1, STATE)
        self.node[0] = (0, 1, -1, -1, -1, 0, 0.0, 0.0, math.inf, math.inf)
        self.state[0] = (1, 0, 1, 0, -1, 0)
        if task.partition.max_depth > 0:
            split(self.node, self.state, constants, 0)

    @property
    def has_begun(self) -> bool:
        """Whether a PlusClient has made a step with this tree. It calls _tell, so the tree's own t stays as it was."""
        return bool(self.state[0]["next_step"] > self.t + 1)

    def _centers(self, v: int) -> np.ndarray:
        return self.task.partition.centers(int(self.node[v]["depth"]), self.node[v]["index"])

    def _ask(self) -> Batch:
        return Batch(self._centers(traverse(self.node, self.state, self.constants)), np.array([1]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        self.node = grow_rows(self.node, self.state[0]["size"] + self.constants.k)
        v = traverse(self.node, self.state, self.constants)
        update_tree(self.node, self.state, self.constants, v, rewards[0])

    def best(self) -> np.ndarray:
        """Return the centre (d,) of the most pulled node of the deepest depth; at first the domain's centre."""
        return self._centers(self.state[0]["best"])[0]


def make_tree_clients(constants_of, task: Task, settings: TreeSettings) -> tuple[Server, list[Client]]:
    """Make a server that sends no message, and M clients, each on its own tree.

    constants_of: `hct_constants`, or a function like it.
    """
    constants = constants_of(settings, task.partition, task.horizon)
    return Server(task), [TreeClient(task, constants) for _ in range(task.n_clients)]
