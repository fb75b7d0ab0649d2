"""A search by a Gaussian process on a tree of cells: PF-PNE+'s second stage with gaussian_process=True.

Ours, after Shekhar and Javidi, "Gaussian process bandits with adaptive discretization", Electronic Journal of
Statistics 12, 2018. The centres of the tree's cells are the arms. A Gaussian process models f at all of them at once,
so that each pull tells something about every cell. A client pulls the centre of the largest upper bound

    U = mean + BETA deviation

over all nodes of the tree, a few times in a row; how often follows from what one more pull would tell. A leaf is split
once f is known better at its centre than it varies within its cell: after its own pulls, or when the hyper-parameters
are chosen anew. Stage 1's means are the first values. Unlike theirs, U has no term for how f varies within a cell. In
its place, every fifth batch explores: it is for the leaf with the largest sum of U and nu_1 times the width of its
cell. Nothing is guaranteed. So a long search ends after MAX_STEPS steps, and the client goes on by HCT.

| symbol   | here               | meaning                                                                          |
|----------|--------------------|----------------------------------------------------------------------------------|
| sigma^2  | reward_variance    | variance of a reward at each node: the same at all, unless rewards are 0 or 1    |
| s^2      | hyper.variance     | variance of f about its constant mean                                            |
| l        | hyper.length       | length scale of the covariance s^2 k(distance / l), on the unit cube             |
| order    | hyper.order        | of the Matern covariance, 1/2, 3/2 or 5/2: how smooth f is                       |
| A        | A                  | the inverse of the covariance matrix of the values, with their noise             |
| K A      | weights            | the covariances of f at the nodes and at the observed nodes, times A             |

s, l and the order maximise the marginal likelihood, times a weak prior, over a grid, by steps to the best neighbour:
Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 2.25 and 2.26 with the constant mean
of 2.42, and 5.8 at this mean. The variances leave out that the mean is estimated. In between, each new value
updates K A, and the means and variances of all nodes. The update is exact.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy  # its parts are slow to import, so SciPy does so when they are first needed

from pfpne.federation import Batch, Client, Task

BETA = 2.0  # the width of the upper bounds, in posterior standard deviations
GROWTH = 0.2  # a batch adds at most this share of the information that the values have on f at its node
MAX_STEPS = 100_000  # the search ends at this step at the latest
MAX_BATCHES = 1_000  # a batch has at least 1/1000 of the steps up to the end, unless it explores
EXPLORES_EVERY = 5  # every fifth batch explores
MAX_VALUES, MAX_FIRST_VALUES = 150, 100  # how many nodes may be observed, and by stage 1 alone
RESERVED_VALUES = 30  # exploring ends where there is room for only so many more
MIN_SIGMA = 0.02  # the least sigma, in units of nu_1: a few equal rewards do not show that there is no noise
PRIOR_REWARDS = 20  # the weight of stage 1's sigma^2, in rewards
REFIT = 1.35  # the hyper-parameters are chosen anew when the number of batches has grown by this factor,
SURPRISE = 3.5  # and when a node's new rewards are so many standard errors away from its earlier ones
JITTER = 1e-6  # added to the noise, in units of s^2, for the numerics
LENGTHS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0)  # l, in units of sqrt(d)
DEVIATIONS = (0.03, 0.06, 0.12, 0.25, 0.5)  # s, in units of nu_1
ORDERS = (0.5, 1.5, 2.5)
TYPICAL, PRIOR_WEIGHT = 3, 0.3  # the prior: the most likely position in LENGTHS and DEVIATIONS, and its weight
STEPS = [(0, 0, 0), (-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1), (-1, 0, -1), (1, 0, 1)]


class Hyper(NamedTuple):
    """Hyper-parameters: the length scale l > 0, the order, and the variance s^2 of f."""

    length: float
    order: float
    variance: float

    def covariance(self, distance: np.ndarray) -> np.ndarray:
        """Return the Matern covariances of f at points with these distances, in the shape of the distances."""
        r = np.sqrt(2 * self.order) / self.length * distance
        factor = {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[self.order]
        return self.variance * factor * np.exp(-r)


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distances (n, m) of the points a (n, d) from the points b (m, d)."""
    return np.sqrt(((a[:, None] - b) ** 2).sum(axis=2))


def covariance_of_values(distance: np.ndarray, noise: np.ndarray, hyper: Hyper) -> np.ndarray:
    """Return the covariance matrix (n, n) of values with these variances about f (n,), from their distances (n, n)."""
    K = hyper.covariance(distance)
    K.flat[:: len(K) + 1] += noise + JITTER * hyper.variance
    return K


def log_likelihood(distance: np.ndarray, y: np.ndarray, noise: np.ndarray, hyper: Hyper) -> tuple[float, float]:
    """Return the log marginal likelihood of values y (n,), up to a constant, and their constant mean.

    distance (n, n): of the points from each other. noise (n,): the values' variances about f.
    """
    L = scipy.linalg.cholesky(covariance_of_values(distance, noise, hyper), lower=True, check_finite=False)
    white = scipy.linalg.solve_triangular(L, np.stack([y, np.ones(len(y))], axis=1), lower=True, check_finite=False)
    mean = float(white[:, 0] @ white[:, 1] / (white[:, 1] @ white[:, 1]))
    error = white[:, 0] - mean * white[:, 1]
    return -0.5 * float(error @ error) - float(np.log(L.diagonal()).sum()), mean


class FirstNodes(NamedTuple):
    """The nodes that a search begins with, in an order in which parents come first."""

    depth: np.ndarray  # (n,)
    index: np.ndarray  # (n,)
    is_leaf: np.ndarray  # (n,): whether the node has no children among them
    count: np.ndarray  # (n,): the number of own pulls that the mean is worth; may be fractional
    mean: np.ndarray  # (n,): of the rewards


class GPTreeClient(Client):
    """One client that searches alone, by a Gaussian process on its tree.

    Arrays with a row per node hold its depth and index, whether it is a leaf, the centres of its cell and of its
    children's cells, its point on the unit cube, the distance of its children's points from it, the count and total of
    its rewards, the count, total and total of squares of the client's own rewards in this search, the posterior mean
    and variance of f at its centre, and the variance of a reward there. `observed` lists the nodes that the model has
    a value of.
    """

    ROWS = (
        "depth",
        "index",
        "is_leaf",
        "reach",
        "count",
        "total",
        "own_count",
        "own_total",
        "own_squares",
        "mean",
        "variance",
        "reward_variance",
    )

    def __init__(self, task: Task, first: FirstNodes, first_variance: float, binary: bool, nu_1: float, steps: int):
        super().__init__(task)
        self.nu_1, self.binary, self.first_variance = nu_1, binary, first_variance
        # steps counts the client's evaluations so far, those of stage 1 too. t counts them only if `tell` is called. A
        # PlusClient calls _tell and counts its own t, so that the search's t stays as it is here.
        self.t, self.steps, self.n_batches, self.next_fit = steps, steps, 0, 4
        self.positions = TYPICAL, 1, TYPICAL  # of the hyper-parameters, in LENGTHS, ORDERS and DEVIATIONS
        self.depth, self.index, self.is_leaf = first.depth.copy(), first.index.copy(), first.is_leaf.copy()
        n, partition = len(first.depth), task.partition
        of_depths = (partition.centers(h, first.index[first.depth == h]) for h in range(int(first.depth.max()) + 1))
        self.center = np.concatenate([*of_depths])
        self.child_center = self._centers_of_children(self.depth, self.index)
        self.point, self.reach = self._on_unit_cube(self.center), self._reach(self.center, self.child_center)
        self.count, self.total, self.own_count, self.own_total, self.own_squares = np.zeros((5, n))
        known = self._first_observed(first, first_variance)
        self.count[known], self.total[known] = first.count[known], first.count[known] * first.mean[known]
        self.observed = known
        self._fit()
        self._split(np.arange(n))

    @property
    def has_begun(self) -> bool:
        """Whether the search has made a step."""
        return self.n_batches > 0

    @property
    def last_step(self) -> int:
        """The step after which the search ends."""
        return min(MAX_STEPS, self.task.horizon)

    @property
    def hands_over(self) -> bool:
        """Whether the search has ended before the horizon, so that the client goes on by HCT."""
        return self.last_step <= self.steps < self.task.horizon

    @property
    def explores(self) -> bool:
        """Whether the next batch explores."""
        is_due = self.n_batches % EXPLORES_EVERY == EXPLORES_EVERY - 1
        return is_due and len(self.observed) < MAX_VALUES - RESERVED_VALUES

    @staticmethod
    def _first_observed(first: FirstNodes, first_variance: float) -> np.ndarray:
        """Return the first nodes to observe: if there are too many, the least deep and those of the best bounds."""
        known = np.flatnonzero(first.count > 0)
        if len(known) > MAX_FIRST_VALUES:
            upper = first.mean[known] + 2 * np.sqrt(first_variance / first.count[known])
            upper[: MAX_FIRST_VALUES // 2] = np.inf  # of the least deep
            known = np.sort(known[np.argsort(-upper, kind="stable")[:MAX_FIRST_VALUES]])
        return known

    def _on_unit_cube(self, points: np.ndarray) -> np.ndarray:
        low, high = self.task.partition.domain.T
        return (points - low) / (high - low)

    def _centers_of_children(self, depth: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return the centres (n, k, d) of the children of some nodes; NaN for the smallest cells."""
        partition = self.task.partition
        centers = np.full((len(depth), partition.k, partition.d), np.nan)
        for h in np.unique(depth[depth < partition.max_depth]).tolist():
            children = partition.children(index[depth == h])
            centers[depth == h] = partition.centers(h + 1, children).reshape(-1, partition.k, partition.d)
        return centers

    def _reach(self, center: np.ndarray, child_center: np.ndarray) -> np.ndarray:
        """Return the mean distance (n,) of the children's centres from each node's own, on the unit cube."""
        difference = self._on_unit_cube(child_center) - self._on_unit_cube(center)[:, None]
        return np.sqrt((difference**2).sum(axis=2)).mean(axis=1)

    # --- the model --------------------------------------------------------------------------------------

    def _hyper(self, positions: tuple[int, int, int]) -> Hyper:
        length, order, deviation = positions
        scale = LENGTHS[length] * math.sqrt(self.point.shape[1])
        return Hyper(scale, ORDERS[order], (DEVIATIONS[deviation] * self.nu_1) ** 2)

    def mean_variance(self) -> float:
        """Return sigma^2 on average: from the spread of own rewards at each node, or from binary rewards' means."""
        seen = self.observed
        if self.binary:
            mean, n = self.total[seen] / self.count[seen], self.count[seen].sum()
            estimate = max(float((mean * (1 - mean) * self.count[seen]).sum() / n), 0.5 / (n + 1))
        else:
            own = seen[self.own_count[seen] > 0]
            spread = (self.own_squares[own] - self.own_total[own] ** 2 / self.own_count[own]).sum()
            rewards = (self.own_count[own] - 1).sum() + PRIOR_REWARDS
            estimate = float((spread + PRIOR_REWARDS * self.first_variance) / rewards)
        return max(estimate, (MIN_SIGMA * self.nu_1) ** 2)

    def _binary_variance(self) -> np.ndarray:
        """Return sigma^2 at each node (n,), from its posterior mean moved towards 1/2 by a deviation."""
        mean, deviation = np.clip(self.mean, 0, 1), np.sqrt(self.variance)
        cautious = np.where(mean > 0.5, np.maximum(mean - deviation, 0.5), np.minimum(mean + deviation, 0.5))
        return np.maximum(cautious * (1 - cautious), (MIN_SIGMA * self.nu_1) ** 2)

    def _fit(self) -> None:
        """Estimate sigma^2, choose the hyper-parameters, and compute the posterior at all nodes."""
        self.reward_variance = np.full(len(self.depth), self.mean_variance())
        self._fit_given_variance()
        if self.binary:
            self.reward_variance = self._binary_variance()
            self._fit_given_variance()

    def _fit_given_variance(self) -> None:
        y, noise = self._values(), self.reward_variance[self.observed] / self.count[self.observed]
        points = self.point[self.observed]
        distance, heights = distances(points, points), {}

        def height(positions):
            if positions not in heights:
                likelihood, mean = log_likelihood(distance, y, noise, self._hyper(positions))
                away = (positions[0] - TYPICAL) ** 2 + (positions[2] - TYPICAL) ** 2
                heights[positions] = likelihood - PRIOR_WEIGHT * away, mean
            return heights[positions]

        best, limits = None, (len(LENGTHS), len(ORDERS), len(DEVIATIONS))
        while best != self.positions and len(y) >= 4:
            best = self.positions
            around = [tuple(np.add(best, step).tolist()) for step in STEPS]
            inside = [p for p in around if all(0 <= x < limit for x, limit in zip(p, limits, strict=True))]
            self.positions = max(inside, key=lambda positions: height(positions)[0])
        self.constant_mean, self.hyper = height(self.positions)[1], self._hyper(self.positions)
        inverse = np.linalg.inv(covariance_of_values(distance, noise, self.hyper))
        self.A = (inverse + inverse.T) / 2
        self.weights, self.mean, self.variance = self._posterior(self.point)

    def _posterior(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of K A, and the mean and variance of f, at some points (n, d)."""
        covariance = self.hyper.covariance(distances(points, self.point[self.observed]))
        weights = covariance @ self.A
        variance = self._positive(self.hyper.variance - (weights * covariance).sum(axis=1))
        return weights, self._mean(weights), variance

    def _positive(self, variance: np.ndarray) -> np.ndarray:
        """Return the variances, above 0 in spite of rounding."""
        return np.maximum(variance, 1e-12 * self.hyper.variance)

    def _mean(self, weights: np.ndarray) -> np.ndarray:
        """Return the posterior mean of f at the points that these rows of K A are for."""
        return self.constant_mean + weights @ (self._values() - self.constant_mean)

    def _values(self) -> np.ndarray:
        """Return the observed nodes' mean rewards."""
        return self.total[self.observed] / self.count[self.observed]

    def _learn(self, node: int, old_count: float) -> None:
        """Update the posterior of all nodes with the new rewards of one, which had old_count rewards before."""
        noise = self.reward_variance[node] / self.count[node]
        if old_count == 0:
            covariance = self.hyper.covariance(distances(self.point, self.point[[node]])[:, 0])
            a, covariance_given_values = self.weights[node], covariance - self.weights @ covariance[self.observed]
            spread = self.variance[node] + noise + JITTER * self.hyper.variance
            gain = covariance_given_values / spread
            self.mean = self.mean + gain * (self.total[node] / self.count[node] - self.mean[node])
            self.variance = self._positive(self.variance - gain * covariance_given_values)
            self.weights = np.column_stack([self.weights - np.outer(gain, a), gain])
            column = -a[:, None] / spread
            self.A = np.block([[self.A + np.outer(a, a) / spread, column], [column.T, np.array([[1 / spread]])]])
            self.observed = np.append(self.observed, node)
        else:
            position = int(np.flatnonzero(self.observed == node)[0])
            change = self.reward_variance[node] * (1 / self.count[node] - 1 / old_count)
            factor = change / (1 + change * self.A[position, position])
            column, row = self.weights[:, position].copy(), self.A[position].copy()
            self.variance = self._positive(self.variance + factor * column**2)
            self.weights -= np.outer(factor * column, row)
            self.A -= np.outer(factor * row, row)
            self.mean = self._mean(self.weights)

    # --- the search -------------------------------------------------------------------------------------

    def _widths(self) -> np.ndarray:
        """Return nu_1 times the width (n,) of each cell, on the unit cube and if it is halved; NaN for the smallest."""
        return 4 * self.nu_1 * self.reach

    def _split(self, nodes: np.ndarray, explored: bool = False) -> None:
        """Split those of the nodes that are observed leaves and better known than f varies within their cells.

        explored: whether a batch that explored was for them. Then f is taken to vary by `_widths`, if that is more.
        """
        # The variance of f at a child minus f at its parent; NaN for the smallest cells, which are never split.
        varies = 2 * (self.hyper.variance - self.hyper.covariance(self.reach[nodes]))
        varies = np.maximum(varies, self._widths()[nodes] ** 2) if explored else varies
        is_ripe = self.is_leaf[nodes] & (self.count[nodes] > 0) & (self.variance[nodes] < varies)
        if len(self.observed) >= MAX_VALUES or not is_ripe.any():
            return
        ripe, k = nodes[is_ripe], self.task.partition.k
        self.is_leaf[ripe] = False
        depth, index = np.repeat(self.depth[ripe] + 1, k), self.task.partition.children(self.index[ripe])
        center, child_center = np.concatenate(self.child_center[ripe]), self._centers_of_children(depth, index)
        point, n = self._on_unit_cube(center), len(depth)
        weights, mean, variance = self._posterior(point)
        added = {
            "depth": depth,
            "index": index,
            "is_leaf": np.ones(n, dtype=bool),
            "center": center,
            "child_center": child_center,
            "point": point,
            "reach": self._reach(center, child_center),
            "weights": weights,
            "mean": mean,
            "variance": variance,
            "reward_variance": np.repeat(self.reward_variance[ripe], k),
            **dict.fromkeys(("count", "total", "own_count", "own_total", "own_squares"), np.zeros(n)),
        }
        for name, rows in added.items():
            setattr(self, name, np.concatenate([getattr(self, name), rows]))

    def _best_node(self) -> int:
        """Return the node to pull: the one with the largest upper bound, or the leaf to explore."""
        upper = self.mean + BETA * np.sqrt(self.variance)
        if self.explores:
            return int(np.where(self.is_leaf, upper + np.nan_to_num(self._widths()), -np.inf).argmax())
        if len(self.observed) >= MAX_VALUES:
            upper[self.count == 0] = -np.inf
        return int(upper.argmax())

    def _ask(self) -> Batch:
        node, last = self._best_node(), self.last_step
        information = int(GROWTH * self.reward_variance[node] / self.variance[node])
        n = min(information, int(self.count[node]) + 1)  # so that a wrong model cannot cost much at a new node
        n = max(1, n, 0 if self.explores else last // MAX_BATCHES)
        return Batch(self.center[[node]], np.array([min(n, last - self.steps)]))

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        node, n, explores = self._best_node(), len(rewards), self.explores
        old_count, old_total = self.count[node], self.total[node]
        self.binary = self.binary and bool(np.all((rewards == 0) | (rewards == 1)))
        for name, added in (("count", n), ("total", rewards.sum())):
            getattr(self, name)[node] += added
            getattr(self, f"own_{name}")[node] += added
        self.own_squares[node] += (rewards**2).sum()
        self.steps += n
        self.n_batches += 1
        if old_count > 0:
            error = math.sqrt(self.reward_variance[node] * (1 / n + 1 / old_count))
            if abs(rewards.mean() - old_total / old_count) > SURPRISE * error:
                self.next_fit = self.n_batches
        self._learn(node, old_count)
        if self.n_batches >= self.next_fit:
            self.next_fit = max(self.n_batches + 2, int(REFIT * self.n_batches))
            self._fit()
            self._split(np.arange(len(self.depth)))
        else:
            self._split(np.array([node]), explores)

    def best(self) -> np.ndarray:
        """Return the centre (d,) of the node whose mean minus its deviation is largest, of those that it pulled."""
        lower = np.where(self.own_count > 0, self.mean - np.sqrt(self.variance), -np.inf)
        return self.center[int(lower.argmax())].copy()
