"""Numerical maxima of functions over a box (d, 2) (deviation 16).

A maximum with a closed form is exact. Any other maximum is the largest value found plus ACCURACY (`with_margin`), so
that rounding lets no evaluation exceed it. `branch_and_bound` is for the clients' mean in one dimension: the largest
value that it finds is at most ACCURACY below the maximum. `alternate` is for the mean of clipped functions,
`search_maximum` for everything else.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from pfpne.rng import stream

ACCURACY = 1e-9  # the accuracy of a maximum without a closed form, which is added to it
GRID_SIDE = 129  # points per dimension of the first grid, in two dimensions


def with_margin(value):
    """Return a numerical maximum plus ACCURACY, at most 1."""
    return np.minimum(value + ACCURACY, 1.0)


def inside(x: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """Return which points x (..., d) lie in the domain."""
    return np.all((domain[:, 0] <= x) & (x <= domain[:, 1]), axis=-1)


def cartesian_product(axes: Iterable[np.ndarray]) -> np.ndarray:
    """Return all combinations (n, d) of the axes' values, the last dimension varying fastest."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    return points.reshape(-1, points.shape[-1])


def scan_points(domain: np.ndarray) -> np.ndarray:
    """Return points (n, d) spread over the domain and its border: a grid in one dimension and in two.

    In more dimensions they are random points and the corners, or the centre instead of more than 2^10 corners.
    """
    d = len(domain)
    if d <= 2:
        return cartesian_product(np.linspace(low, high, 2**14 + 1 if d == 1 else GRID_SIDE) for low, high in domain)
    corners = cartesian_product(domain) if d <= 10 else domain.mean(axis=1)[None]
    spread = domain[:, 0] + (domain[:, 1] - domain[:, 0]) * stream(0, "scan").random((2**14, d))
    return np.concatenate([corners, spread])


def golden_section(function: Callable, a: np.ndarray, b: np.ndarray, steps: int = 80) -> np.ndarray:
    """Return where an elementwise function is largest in [a, b], by golden-section search, all brackets at once.

    Exact to rounding where the function rises and then falls; never worse than the ends.
    """
    low, high = a, b
    share = (math.sqrt(5) - 1) / 2
    for _ in range(steps):
        inner_low, inner_high = high - share * (high - low), low + share * (high - low)
        falls = function(inner_low) > function(inner_high)
        low, high = np.where(falls, low, inner_low), np.where(falls, inner_high, high)
    candidates = np.stack([(low + high) / 2, a, b])
    best_position = np.argmax(np.stack([function(x) for x in candidates]), axis=0)
    return np.take_along_axis(candidates, best_position[None], axis=0)[0]


def _climb(function: Callable, domain: np.ndarray, x: np.ndarray, step: float, last: float) -> np.ndarray:
    """Climb from each of the points x (n, d) by compass search, with steps in units of the width."""
    d = len(domain)
    directions = np.concatenate([np.eye(d), -np.eye(d)])
    if d == 2:
        directions = np.concatenate([directions, [[1, 1], [1, -1], [-1, 1], [-1, -1]]])
    directions = directions * (domain[:, 1] - domain[:, 0])
    x, value, steps = x.copy(), function(x), np.full(len(x), step)
    for _ in range(1000):  # a bound for functions with long narrow ridges
        climbing = np.flatnonzero(steps > last)
        if climbing.size == 0:
            break
        trial = x[climbing, None] + steps[climbing, None, None] * directions
        trial = np.clip(trial, domain[:, 0], domain[:, 1])
        trial_value = function(trial.reshape(-1, d)).reshape(trial.shape[:2])
        best_trial = np.arange(len(climbing)), trial_value.argmax(axis=1)
        better = trial_value[best_trial] > value[climbing]
        x[climbing[better]], value[climbing[better]] = trial[best_trial][better], trial_value[best_trial][better]
        steps[climbing[~better]] /= 2
    return x


def search_maximum(function: Callable, domain: np.ndarray, extra: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Search for the maximum over the domain, by a dense scan and local searches; return the point (d,) and its value.

    function: (n, d) -> (n,). extra: points (n, d) of the domain to try besides the points of the scan.
    """
    from scipy.ndimage import maximum_filter
    from scipy.optimize import minimize

    def highest(x, n):
        return x[np.argsort(-function(x), kind="stable")[:n]]

    d = len(domain)
    extra = np.empty((0, d)) if extra is None else extra
    points = scan_points(domain)
    values = function(points)
    on_grid = values.reshape(-1, GRID_SIDE) if d == 2 else values
    local = np.flatnonzero(on_grid == maximum_filter(on_grid, size=3, mode="nearest"))  # no neighbour is higher
    local = local[np.argsort(-values[local], kind="stable")[: 256 if d == 1 else 32]]
    if d == 1:
        low, high = points[np.maximum(local - 1, 0), 0], points[np.minimum(local + 1, len(points) - 1), 0]
        x = golden_section(lambda t: function(t[:, None]), low, high)[:, None]
    else:
        extra = highest(extra, 32)
        x = highest(_climb(function, domain, np.concatenate([points[local], extra]), step=1 / 128, last=1e-4), 4)
        descents = [minimize(lambda y: -function(y[None])[0], y, bounds=domain, method="L-BFGS-B").x for y in x]
        x = _climb(function, domain, np.clip(descents, domain[:, 0], domain[:, 1]), step=1e-4, last=1e-11)
    x = np.concatenate([x, extra, points[[values.argmax()]]])
    values = function(x)
    return x[values.argmax()], float(values.max())


def branch_and_bound(
    function: Callable, domain: np.ndarray, peaks: np.ndarray, peak_values: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the point (1,) where the clients' mean is largest, to ACCURACY, and the mean there; in one dimension.

    function: (n, 1) -> (M, n), the values of M clients, which are one function moved by each client's shift (M, 1).
    peaks (p,): all local maxima of this function, in order. peak_values (p,): its values there, which rise up to the
    largest and then fall. On an interval, a client's maximum is at an end or at a peak inside, and the mean of the
    clients' maxima bounds their mean. Intervals that cannot hold a better point are dropped, the others halved.
    """
    top = int(peak_values.argmax())
    # a client's own peak is worth its exact value: a cusp is missed by rounding alone
    client, which = np.nonzero(inside(peaks[:, None] + shifts[:, None], domain))
    points = peaks[which] + shifts[client, 0]
    values = function(points[:, None])
    values[client, np.arange(len(points))] = peak_values[which]
    edges = np.linspace(domain[0, 0], domain[0, 1], 4097)
    table = np.concatenate([edges[None], function(edges[:, None])])  # (1 + M, n): points, and under each its values
    x = np.concatenate([points, edges])
    mean = np.concatenate([values.mean(axis=0), table[1:].mean(axis=0)])
    best_x, best_value = x[mean.argmax()], mean.max()
    low, high = table[:, :-1], table[:, 1:]
    while True:
        first, after = np.searchsorted(peaks, low[0] - shifts), np.searchsorted(peaks, high[0] - shifts, side="right")
        between = np.where(first < after, peak_values[np.minimum(np.maximum(first, top), after - 1)], 0.0)
        bound = np.maximum(np.maximum(low[1:], high[1:]), between).mean(axis=0)
        alive = bound > best_value + ACCURACY
        if not alive.any() or high[0, 0] - low[0, 0] < 1e-15:
            return np.array([best_x]), float(best_value)
        low, high = low[:, alive], high[:, alive]
        x = (low[0] + high[0]) / 2
        middle = np.concatenate([x[None], function(x[:, None])])
        mean = middle[1:].mean(axis=0)
        if mean.max() > best_value:
            best_x, best_value = x[mean.argmax()], mean.max()
        low, high = np.concatenate([low, middle], axis=1), np.concatenate([middle, high], axis=1)


def alternate(function: Callable, best_for: Callable, starts: np.ndarray) -> tuple[np.ndarray, float]:
    """Search for the maximum of the mean of M functions clipped from below at 0; return the point (d,) and the mean.

    function: (n, d) -> (M, n). best_for: sets (k, M) of clients, none empty -> (k, d), where each set's sum, not
    clipped, is largest. starts (n, d): points to start from, every client's own maximiser among them.
    At x, the mean equals the largest sum_{m in S} f_m(x) / M, unclipped, over sets S of clients; the maximising S holds
    the clients that are not clipped at 0. Given S the best x is known, and given x the best S. So start from many S and
    alternate until neither changes. If no S is left, every client is 0 at its own maximiser, and the mean 0 everywhere.
    """
    active = function(starts).T > 0
    active = np.concatenate([np.ones_like(active[:1]), active])  # and all of them
    best_x, best_value, before = starts[0], -1.0, np.empty(0)
    for _ in range(50):  # two or three in practice
        active = np.unique(active[active.any(axis=1)], axis=0)
        if active.size == 0 or np.array_equal(active, before):
            break
        x = best_for(active)
        values = function(x)
        mean = values.mean(axis=0)
        if mean.max() > best_value:
            best_x, best_value = x[mean.argmax()], mean.max()
        before, active = active, values.T > 0
    return best_x, float(best_value)
