"""Whether the paper's assumptions about the cells hold, and whether PF-PNE's intervals cover the true values.

The first part measures the paper's assumptions on a problem and on the cells of a partition:

| paper                               | here               | meaning                                                   |
|-------------------------------------|--------------------|-----------------------------------------------------------|
| Delta (Assumption 3)                | problem.Delta      | the largest abs(f-bar* - f_m*)                            |
| Delta, omega (Assumption 4)         | Delta_4, omega     | f_m* - f_m(x) <= Delta + omega (f-bar* - f-bar(x))        |
| diam(P_{h,i}) (Assumption 2)        | diameters          | the smallest diameter that its fourth condition allows    |
| nu_1, rho (Assumption 2)            | smoothness         | diam(P_{h,i}) <= nu_1 rho^h                               |
| N_f(a nu rho^h, .) (Definition 1)   | count_near_optimal | the number of cells with an a nu rho^h-optimal point      |
| d_m, d-bar, d_new (Definitions 1, 2)| near_optimality_dimension | N ~ rho^(-d h)                                     |

Rows 0..M-1 of an array are the clients, the last is f-bar. Depths are h = 0..H.

The second part runs PF-PNE and checks each mean that it eliminates nodes by against the true value. The third part has
the functions that the claims apply to a run: each takes (experiment, run) and returns plain numbers.
"""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np

from pfpne.algorithms import ALGORITHMS
from pfpne.algorithms.pf_pne import PFPNE, PFPNEServer, half_width
from pfpne.algorithms.phases import Pull, lookup_sorted
from pfpne.paper.run.experiment import Experiment
from pfpne.partition import Partition
from pfpne.problems.base import Problem
from pfpne.problems.synthetic import Rastrigin
from pfpne.rng import stream
from pfpne.simulation.phased import simulate_phases

LOCAL_FACTOR, GLOBAL_FACTOR = 12, 6  # the factors a in the near-optimal sets of f_m and of f-bar (below Definition 1)
EXTRA_DEPTHS = 6  # a cell's range is taken over the centres of its descendants down to so many depths below
TOLERANCE = 1e-6  # for values at a maximum: next to a square-root cusp, rounding alone costs 1e-8
RANDOM_POINTS = 1_000
EVENTS = {
    "means": "means that nodes are eliminated by, the server's and the clients'",
    "outside": "those further from what they estimate than their half-width",
    "lost": "clients whose maximum lies in a node that was eliminated",
}


def cells_on_path(partition: Partition, points: np.ndarray, depth: int) -> list[np.ndarray]:
    """Find the nodes that hold the points (n, d): indices (n,) at each depth 0..depth; on a border, the first node."""
    nodes = [np.ones(len(points), dtype=np.int64)]
    for h in range(1, depth + 1):
        children = partition.children(nodes[-1]).reshape(-1, partition.k)
        box = partition.box(h, children.ravel()).reshape(*children.shape, *points.shape[1:], 2)
        inside = ((box[..., 0] <= points[:, None]) & (points[:, None] <= box[..., 1])).all(axis=-1)
        nodes.append(children[np.arange(len(points)), inside.argmax(axis=1)])
    return nodes


# --- the assumptions ----------------------------------------------------------------------------------


def cell_extremes(problem: Problem, partition: Partition, H: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Find the lowest and the highest values (M + 1, k^h) on the cells of each depth down to H.

    They are taken over the cells' corners, the centres of cells down to EXTRA_DEPTHS depths deeper, and the maximisers.
    So the lowest values are a little too high, and the highest are a little too low in cells without a maximiser. For
    rastrigin both are exact to 1e-4 in any dimension; for its f-bar they ignore the clipping at 0, and bound the values
    from below.
    """
    if isinstance(problem, Rastrigin):
        return _separable_extremes(problem, partition, H)
    deepest, k = min(H + EXTRA_DEPTHS, partition.max_depth), partition.k
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
    optimum = optima(problem)
    for h, index in enumerate(cells_on_path(partition, points, H)):
        highs[h][np.arange(len(points)), index - 1] = optimum
    return lows, highs


def _separable_extremes(problem: Rastrigin, partition: Partition, H: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """`cell_extremes` of a mean of functions of one coordinate: on a box, it averages the functions' extremes."""
    (bottom, top), d, parts = problem.domain[0], problem.d, 2**14
    x = np.linspace(bottom, top, parts + 1)  # the ends of the finest intervals, 64 to a period or more
    columns = [problem.function((x[None, :] - problem.shifts[:, j, None]).reshape(-1, 1)) for j in range(d)]
    table = np.stack(columns).reshape(d, problem.n_clients, -1)
    table = np.concatenate([table, table.mean(axis=1, keepdims=True)], axis=1)  # (d, M + 1, parts + 1)
    sides = {"low": {}, "high": {}}
    for level in range(min(H, 14) + 1):  # the extremes on the intervals that halving the domain so often makes
        first = np.arange(2**level) * (parts >> level)
        for side, extreme in (("low", np.minimum), ("high", np.maximum)):
            inner = extreme.reduceat(table[..., :-1], first, axis=-1)
            sides[side][level] = extreme(inner, table[..., first + (parts >> level)])
    lows, highs = [], []
    for h in range(H + 1):
        box = partition.box(h, np.arange(1, partition.k**h + 1))
        level = np.rint(np.log2((top - bottom) / (box[..., 1] - box[..., 0]))).astype(int)  # (n, d)
        place = np.rint((box[..., 0] - bottom) / (top - bottom) * 2.0**level).astype(int)
        for side, extremes in (("low", lows), ("high", highs)):
            total = np.zeros((problem.n_clients + 1, len(box)))
            for j in range(d):
                for halvings in np.unique(level[:, j]):
                    columns = np.flatnonzero(level[:, j] == halvings)
                    total[:, columns] += sides[side][halvings][j][:, place[columns, j]]
            extremes.append(np.clip(total / d, 0.0, 1.0))
    return lows, highs


def optima(problem: Problem) -> np.ndarray:
    """f_m* of every client and f-bar*, (M + 1,)."""
    return np.append(problem.optimum, problem.global_optimum)


def diameters(optimum: np.ndarray, lows: list, highs: list) -> np.ndarray:
    """The smallest diameters (M + 1, H + 1) that Assumption 2 allows, maximised over the cells of each depth.

    By its fourth condition, f* - f(y) <= f* - f(x) + max(f* - f(x), l(x, y)), a dissimilarity l satisfies l(x, y) >=
    f(x) - f(y) whenever f(x) - f(y) > f* - f(x). Let f vary by V = max f - min f over a cell. If V > f* - max f, the
    cell's diameter is at least V. Otherwise the condition asks nothing of it, and we take 0.
    """
    largest = []
    for low, high in zip(lows, highs, strict=True):
        varies = high - low
        largest.append(np.where(varies > optimum[:, None] - high, varies, 0.0).max(axis=1))
    return np.stack(largest, axis=1)


def smoothness(diameters: np.ndarray) -> tuple[float, float]:
    """(nu_1, rho) with diameters (H + 1,) <= nu_1 rho^h: rho by log-linear least squares, then the smallest nu_1."""
    depth = np.flatnonzero(diameters > 0)
    slope = np.polyfit(depth, np.log(diameters[depth]), 1)[0] if len(depth) > 1 else 0.0
    return float(np.exp(np.max(np.log(diameters[depth]) - slope * depth))), float(np.exp(slope))


def count_near_optimal(optimum: np.ndarray, highs: list, nu_1: float, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Count the cells of each depth that hold a near-optimal point.

    Returned are two arrays. The first, (M + 1, H + 1), counts the cells with a point within LOCAL_FACTOR nu_1 rho^h of
    a client's optimum, or within GLOBAL_FACTOR nu_1 rho^h of f-bar*. The second, (M, H + 1), counts the cells that are
    near-optimal for a client, but not for f-bar.
    """
    near_all, different = [], []
    for h, high in enumerate(highs):
        factor = np.append(np.full(len(optimum) - 1, LOCAL_FACTOR), GLOBAL_FACTOR)
        near = optimum[:, None] - high <= (factor * nu_1 * rho**h)[:, None]
        near_all.append(near.sum(axis=1))
        different.append((near[:-1] & ~near[-1]).sum(axis=1))
    return np.stack(near_all, axis=1), np.stack(different, axis=1)


def near_optimality_dimension(counts: np.ndarray, nu_1: float, rho: float) -> np.ndarray:
    """d >= 0 (n,) with counts (n, H + 1) ~ rho^(-d h): by log-linear least squares, with 1 for a count of 0.

    Only depths at which not every point is near-optimal for f_m are used; nan if there are fewer than two.
    """
    H = counts.shape[1] - 1
    depth = np.array([h for h in range(H + 1) if LOCAL_FACTOR * nu_1 * rho**h < 1])
    if len(depth) < 2:
        return np.full(len(counts), math.nan)
    x = depth * math.log(1 / rho)
    return np.maximum(0.0, np.log(np.maximum(counts[:, depth], 1)) @ (x - x.mean()) / np.var(x) / len(x))


def Delta_4(problem: Problem) -> float:
    """The smallest Delta for which Assumption 4 has an omega: the largest f_m* - f_m at the maximiser of f-bar."""
    least = float(np.max(problem.optimum - problem.values(problem.global_maximiser[None])[:, 0]))
    return least if least > TOLERANCE else 0.0


def omega(problem: Problem, partition: Partition, H: int, Delta: float) -> float:
    """The smallest omega >= 1 of Assumption 4 with this Delta, over the centres down to depth H; infinite if none."""
    if Delta < Delta_4(problem):
        return math.inf
    least = 1.0
    for h in range(H + 1):
        values = problem.values(partition.centers(h, np.arange(1, partition.k**h + 1)))
        excess = (problem.optimum[:, None] - values).max(axis=0) - Delta
        short = problem.global_optimum - values.mean(axis=0)
        binding = excess > TOLERANCE
        least = max(least, float(np.max(excess[binding] / short[binding], initial=1.0)))
    return least


# --- the means that nodes are eliminated by -----------------------------------------------------------


class CheckedPFPNE(PFPNE):
    """PF-PNE that records whether each confidence interval used for elimination covers the true value.

    misses: whether each interval misses the true value. lost (M,): whether the client's maximum was eliminated.
    """

    def __init__(self, task, settings, S, problem):
        super().__init__(task, settings, S)
        self.problem, self.misses, self.lost = problem, [], np.zeros(S, dtype=bool)
        self.maxima = cells_on_path(task.partition, problem.maximisers, task.partition.max_depth)
        self.kept_by_server = self.sampled_in_stage_1 = None  # the arguments of PE

    def loop(self):
        loop, result, pulled = super().loop(), None, None
        while True:
            request, before = loop.send(result), ~self.is_truncated
            result = yield request
            if not isinstance(request, Pull):
                self.check_server_means(pulled, request.means)
            elif self.sampled_in_stage_1 is not None and request.h < self.task.partition.max_depth:
                # In PE; at max_depth the client plays the best node.
                self.check_client_means(request, result, before)
            pulled = request

    def pe(self, kept_by_server, sampled_in_stage_1):
        self.kept_by_server, self.sampled_in_stage_1 = kept_by_server, sampled_in_stage_1
        return super().pe(kept_by_server, sampled_in_stage_1)

    def note_misses(self, mean: np.ndarray, value: np.ndarray, n) -> None:
        """Record for each mean of n rewards whether its confidence interval misses the true value."""
        self.misses.append(np.abs(mean - value) > half_width(n, self.log_term, self.settings.c))

    def check_server_means(self, pulled: Pull, means: np.ndarray) -> None:
        """Check the means (S, n) that the clients send for the nodes just pulled."""
        points = self.task.partition.centers(pulled.h, pulled.index[: means.shape[1]])
        self.note_misses(means.mean(axis=0), self.problem.mean_values(points), len(means) * pulled.counts[0])

    def check_client_means(self, pulled: Pull, sums: np.ndarray, before: np.ndarray) -> None:
        """Check the means of one depth of PE. before (S,): the clients that were not done before this depth."""
        h, owner, index, n = pulled
        s, sums, n, protected = self.settings, sums.copy(), n.copy(), np.zeros(self.S, dtype=bool)
        if h in self.sampled_in_stage_1:
            sampled = self.sampled_in_stage_1[h]
            known, column = lookup_sorted(index, sampled.index)
            sums[known] += sampled.sums[owner[known], column]
            n[known] += sampled.n_pulls
            protected, _ = lookup_sorted(self.maxima[h], self.kept_by_server[h].index)
            if sampled.n_pulls >= s.tau_at(h, self.log_term):
                return  # nodes that stage 1 sampled enough are not pulled, so they do not appear here
        present = np.isin(np.arange(self.S), owner[index == self.maxima[h][owner]])
        self.lost |= before & ~present & ~protected
        whole = ~self.is_truncated[owner]  # the pulls that the horizon has not truncated
        value = self.problem.paired_values(owner[whole], self.task.partition.centers(h, index[whole]))
        self.note_misses(sums[whole] / n[whole], value, n[whole])


# --- functions that the claims apply to a run ---------------------------------------------------------


def gap_of_random_points(experiment: Experiment, run: int) -> float:
    """f_m* minus the mean of f_m over uniform random points of the domain, or over all candidates if there are any."""
    problem = experiment.problem(run)
    x = problem.candidates
    if x is None:
        x = stream(experiment.seed, problem.name, run, "chance").uniform(*problem.domain.T, (RANDOM_POINTS, problem.d))
    return float((problem.optimum - problem.values(x).mean(axis=1)).mean())


def gaps_at_global_maximum(experiment: Experiment, run: int) -> list[float]:
    """f_m* - f_m of each client at the global objective's maximum."""
    problem = experiment.problem(run)
    return (problem.optimum - problem.values(problem.global_maximiser[None])[:, 0]).tolist()


def gaps_at_depths(experiment: Experiment, run: int, depth: int) -> list[float]:
    """At each depth down to this one, the largest f_m* - f_m over clients m, at the centre of m's optimal cell."""
    problem = experiment.problem(run)
    partition, owner = experiment.partition(run), np.arange(problem.n_clients)
    nodes = cells_on_path(partition, problem.maximisers, depth)
    values = [problem.paired_values(owner, partition.centers(h, index)) for h, index in enumerate(nodes)]
    return [float((problem.optimum - value).max()) for value in values]


def count_events(experiment: Experiment, run: int) -> list[int]:
    """Run PF-PNE again, with the experiment's settings, and count EVENTS."""
    problem, checked = experiment.problem(run), []

    def make_checked(*arguments):
        checked.append(CheckedPFPNE(*arguments, problem))
        return checked[0]

    algorithm = replace(ALGORITHMS["pf-pne"], fast=partial(simulate_phases, make_checked, PFPNEServer))
    experiment.simulate(algorithm, run)
    misses = np.concatenate(checked[0].misses)
    return [len(misses), int(misses.sum()), int(checked[0].lost.sum())]
