"""What the paper assumes of a problem, measured on the cells of a partition.

| paper                               | here               | meaning                                                   |
|-------------------------------------|--------------------|-----------------------------------------------------------|
| Delta (Assumption 3)                | problem.Delta      | the largest abs(f-bar* - f_m*)                            |
| Delta, omega (Assumption 4)         | Delta_4, omega     | f_m* - f_m(x) <= Delta + omega (f-bar* - f-bar(x))        |
| diam(P_{h,i}) (Assumption 2)        | diameters          | the least that its fourth condition leaves room for       |
| nu_1, rho (Assumption 2)            | smoothness         | diam(P_{h,i}) <= nu_1 rho^h                               |
| N_f(a nu rho^h, .) (Definition 1)   | near_optimal       | how many cells of depth h hold an a nu rho^h-optimal x    |
| d_m, d-bar, d_new (Definitions 1, 2)| dimension          | N ~ rho^(-d h)                                            |

Rows 0..M-1 of an array are the clients, the last is f-bar. Depths are h = 0..H.
"""

import itertools
import math

import numpy as np

from pfpne.partition import Partition
from pfpne.problems.base import Problem
from pfpne.problems.synthetic import Rastrigin

LOCAL, GLOBAL = 12, 6  # of the near-optimal sets of f_m and of f-bar (below Definition 1)
BELOW = 6  # depths below a cell whose centres tell its range
TOLERANCE = 1e-6  # of a value at a maximum: next to a square-root cusp, rounding alone costs 1e-8


def way(partition: Partition, points: np.ndarray, depth: int) -> list[np.ndarray]:
    """Indices (n,) of the nodes that hold the points (n, d), at each depth 0..depth; on a border, the first."""
    nodes = [np.ones(len(points), dtype=np.int64)]
    for h in range(1, depth + 1):
        children = partition.children(nodes[-1]).reshape(-1, partition.k)
        box = partition.box(h, children.ravel()).reshape(*children.shape, *points.shape[1:], 2)
        inside = ((box[..., 0] <= points[:, None]) & (points[:, None] <= box[..., 1])).all(axis=-1)
        nodes.append(children[np.arange(len(points)), inside.argmax(axis=1)])
    return nodes


def ranges(problem: Problem, partition: Partition, H: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The lowest and highest values (M + 1, k^h) on the cells of each depth, that of the partition at most.

    Seen at the centres of the cells down to BELOW depths deeper, at the corners, and at the maximisers: the lowest are
    a little too high, the highest of cells without a maximiser too low. Of rastrigin, exact to 1e-4 in any dimension;
    of its f-bar before the clipping at 0, which is a bound from below.
    """
    if isinstance(problem, Rastrigin):
        return _separable(problem, partition, H)
    deepest, k = min(H + BELOW, partition.max_depth), partition.k
    low = high = None
    lows, highs = [], []
    for h in range(deepest, -1, -1):
        index = np.arange(1, k**h + 1)
        points = [partition.centers(h, index)]
        if h <= H and problem.candidates is None:
            box = partition.box(h, index)
            points += [box[:, np.arange(problem.d), ends] for ends in itertools.product((0, 1), repeat=problem.d)]
        values = np.stack([problem.values(x) for x in points])  # (points of a cell, M, k^h)
        values = np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1)
        below = low, high
        low, high = values.min(axis=0), values.max(axis=0)
        if below[0] is not None:
            inner = [side.reshape(len(low), -1, k) for side in below]
            low, high = np.minimum(low, inner[0].min(axis=-1)), np.maximum(high, inner[1].max(axis=-1))
        if h <= H:
            lows.insert(0, low)
            highs.insert(0, high.copy())
    points = np.concatenate([problem.maximisers, problem.global_maximiser[None]])
    best = optima(problem)
    for h, index in enumerate(way(partition, points, H)):
        highs[h][np.arange(len(points)), index - 1] = best
    return lows, highs


def _separable(problem: Rastrigin, partition: Partition, H: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of a mean over the dimensions of functions of one coordinate: its extremes on a box are the means of theirs."""
    (bottom, top), d, parts = problem.domain[0], problem.d, 2**14
    x = np.linspace(bottom, top, parts + 1)  # the ends of the finest intervals, 64 to a period or more
    columns = [problem.function((x[None, :] - problem.shifts[:, j, None]).reshape(-1, 1)) for j in range(d)]
    table = np.stack(columns).reshape(d, problem.n_clients, -1)
    table = np.concatenate([table, table.mean(axis=1, keepdims=True)], axis=1)  # (d, M + 1, parts + 1)
    sides = {"low": {}, "high": {}}
    for level in range(min(H, 14) + 1):  # the extremes on the intervals that halving the domain so often makes
        first = np.arange(2**level) * (parts >> level)
        for side, of in (("low", np.minimum), ("high", np.maximum)):
            inner = of.reduceat(table[..., :-1], first, axis=-1)
            sides[side][level] = of(inner, table[..., first + (parts >> level)])
    lows, highs = [], []
    for h in range(H + 1):
        box = partition.box(h, np.arange(1, partition.k**h + 1))
        level = np.rint(np.log2((top - bottom) / (box[..., 1] - box[..., 0]))).astype(int)  # (n, d)
        place = np.rint((box[..., 0] - bottom) / (top - bottom) * 2.0**level).astype(int)
        for side, found in (("low", lows), ("high", highs)):
            total = np.zeros((problem.n_clients + 1, len(box)))
            for j in range(d):
                for of in np.unique(level[:, j]):
                    at = np.flatnonzero(level[:, j] == of)
                    total[:, at] += sides[side][of][j][:, place[at, j]]
            found.append(np.clip(total / d, 0.0, 1.0))
    return lows, highs


def optima(problem: Problem) -> np.ndarray:
    """f_m* of every client and f-bar*, (M + 1,)."""
    return np.append(problem.optimum, problem.global_optimum)


def diameters(best: np.ndarray, lows: list, highs: list) -> np.ndarray:
    """The least diameters (M + 1, H + 1) that Assumption 2 allows: of the worst cell of each depth.

    Its fourth condition, f* - f(y) <= f* - f(x) + max(f* - f(x), l(x, y)), asks l(x, y) >= f(x) - f(y) wherever that
    exceeds f* - f(x). In a cell it asks most where x is its best point and y its worst.
    """
    found = []
    for low, high in zip(lows, highs, strict=True):
        varies = high - low
        found.append(np.where(varies > best[:, None] - high, varies, 0.0).max(axis=1))
    return np.stack(found, axis=1)


def smoothness(diameters: np.ndarray) -> tuple[float, float]:
    """(nu_1, rho) with diameters (H + 1,) <= nu_1 rho^h: rho by least squares of logarithms, nu_1 the least then."""
    depth = np.flatnonzero(diameters > 0)
    slope = np.polyfit(depth, np.log(diameters[depth]), 1)[0] if len(depth) > 1 else 0.0
    return float(np.exp(np.max(np.log(diameters[depth]) - slope * depth))), float(np.exp(slope))


def near_optimal(best: np.ndarray, highs: list, nu_1: float, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """How many cells of each depth hold a near-optimal point: (M + 1, H + 1), LOCAL nu_1 rho^h of a client's optimum,
    GLOBAL nu_1 rho^h of f-bar*; and (M, H + 1), those of each client that are none of f-bar's.
    """
    every, different = [], []
    for h, high in enumerate(highs):
        factor = np.append(np.full(len(best) - 1, LOCAL), GLOBAL)
        near = best[:, None] - high <= (factor * nu_1 * rho**h)[:, None]
        every.append(near.sum(axis=1))
        different.append((near[:-1] & ~near[-1]).sum(axis=1))
    return np.stack(every, axis=1), np.stack(different, axis=1)


def dimension(counts: np.ndarray, nu_1: float, rho: float) -> np.ndarray:
    """d >= 0 with counts (n, H + 1) ~ rho^(-d h), (n,): by least squares, of one cell where there is none.

    From the depth on where not every point is near-optimal for f_m; nan if that leaves fewer than two depths.
    """
    H = counts.shape[1] - 1
    depth = np.array([h for h in range(H + 1) if LOCAL * nu_1 * rho**h < 1])
    if len(depth) < 2:
        return np.full(len(counts), math.nan)
    x = depth * math.log(1 / rho)
    return np.maximum(0.0, np.log(np.maximum(counts[:, depth], 1)) @ (x - x.mean()) / np.var(x) / len(x))


def Delta_4(problem: Problem) -> float:
    """The least Delta that any omega of Assumption 4 goes with: the largest f_m* - f_m at the maximiser of f-bar."""
    least = float(np.max(problem.optimum - problem.values(problem.global_maximiser[None])[:, 0]))
    return least if least > TOLERANCE else 0.0


def omega(problem: Problem, partition: Partition, H: int, Delta: float) -> float:
    """The least omega >= 1 of Assumption 4 with this Delta, at the centres down to depth H; infinite if none serves."""
    if Delta < Delta_4(problem):
        return math.inf
    found = 1.0
    for h in range(H + 1):
        values = problem.values(partition.centers(h, np.arange(1, partition.k**h + 1)))
        excess = (problem.optimum[:, None] - values).max(axis=0) - Delta
        short = problem.global_optimum - values.mean(axis=0)
        asks = excess > TOLERANCE
        found = max(found, float(np.max(excess[asks] / short[asks], initial=1.0)))
    return found
