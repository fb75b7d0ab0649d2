"""The objectives of the clients: synthetic functions, shifted and clipped, the landmine grid, your own.

    problem = make_problem("garland", n_clients=20, shift=0.1, noise="bernoulli", seed=0, run=0)
    problem.values(x)        # x (n, d) -> (M, n), noiseless f_m(x)
    problem.optimum          # (M,), f_m*

Source: paper, Section 2.1 and 4; the functions are PyXAB's, scaled to [0, 1].

| paper           | here                 | meaning                                                       |
|-----------------|----------------------|---------------------------------------------------------------|
| X               | domain               | box (d, 2) of [low, high]                                     |
| f_m             | client_values(m, x)  | local objective clip(f(x - s_m), 0, 1)                        |
| f-bar           | mean_values(x)       | global objective, the mean of the f_m                         |
| f_m*            | optimum[m]           | maximum of f_m over X, attained at maximisers[m]              |
| f-bar*          | global_optimum       | maximum of f-bar over X, attained at global_maximiser         |
| Delta           | Delta                | the largest distance between f-bar* and an f_m*               |
| s_m             | shifts[m]            | normal, standard deviation shift x width in each dimension    |

How the maxima are found (deviation 16). A maximum that has a closed form is exact. Any other is the best
value found, raised by ACCURACY, so that no evaluation exceeds it by rounding:
- one dimension: every local maximum of f is known, so the maximum of f_m over an interval is exact,
  and a branch and bound encloses f-bar* between two numbers ACCURACY apart;
- rastrigin: f is a sum over dimensions, each maximised by itself; the clip is handled by alternating
  between the set of clients that are not clipped and the point that is best for them;
- himmelblau, ackley, your own functions: a dense grid, every client's peaks, and a local search from the
  best of both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pfpne.problems import landmine
from pfpne.checks import check, check_noise, is_integer, is_number, unknown
from pfpne.partition import check_domain
from pfpne.rng import stream

ACCURACY = 1e-9  # of a maximum that has no closed form; what it is raised by
MAX_DEPTH = 40  # of the partition, unless the objective sets its own

# --- the five synthetic objectives, (n, d) -> (n,) ---------------------------------------------------
# Elementwise, with sums in a fixed order: a value does not depend on the points beside it.

E1, E2 = -math.log2(0.3), -math.log2(0.8)
ACKLEY_BOUND = 20 + math.e - 20 * math.exp(-0.2 / math.sqrt(2)) - math.exp(-1)
RASTRIGIN_BOUND = 20.2513


def garland(x: np.ndarray) -> np.ndarray:
    """x (1 - x) (4 - sqrt|sin 60 x|), in [0, 1] on [0, 1]: a maximum of 0.99777... at a square-root cusp."""
    x = x[:, 0]
    return x * (1 - x) * (4 - np.sqrt(np.abs(np.sin(60 * x))))


def doublesine(x: np.ndarray) -> np.ndarray:
    """A sine in log2|x - 1/2| between the envelopes 1 - u^E1 and 1 - u^E2, u = 2|x - 1/2|; 1 at the centre."""
    return _doublesine_at(2 * np.abs(x[:, 0] - 0.5))


def _doublesine_at(u: np.ndarray) -> np.ndarray:
    u = np.maximum(u, 1e-300)  # log2(0) is minus infinity; the limit at u = 0 is 1, and so is the value here
    lower = u**E2
    return 1 + (np.sin(math.pi * np.log2(u)) + 1) / 2 * (lower - u**E1) - lower


def himmelblau(x: np.ndarray) -> np.ndarray:
    """1 - ((x1^2 + x2 - 11)^2 + (x1 + x2^2 - 7)^2) / 890, in [0, 1] on [-5, 5]^2; 1 at four points."""
    x1, x2 = x[:, 0], x[:, 1]
    a, b = x1 * x1 + x2 - 11, x1 + x2 * x2 - 7
    return 1 - (a * a + b * b) / 890


def ackley(x: np.ndarray) -> np.ndarray:
    """1 + A(x)/B, A the negated Ackley function, B = PyXAB's bound of -A on [-1, 1]^2; 1 at the origin."""
    x1, x2 = x[:, 0], x[:, 1]
    cone = 20 * np.exp(-0.2 * np.sqrt(0.5 * (x1 * x1 + x2 * x2)))
    waves = np.exp(0.5 * (np.cos(2 * math.pi * x1) + np.cos(2 * math.pi * x2)))
    return 1 + (cone + waves - math.e - 20) / ACKLEY_BOUND


def rastrigin(x: np.ndarray) -> np.ndarray:
    """1 - sum(10 + x^2 - 10 cos 2 pi x) / (20.2513 d), in [0, 1] on [-1, 1]^d; 1 at the origin."""
    terms = 10 + x * x - 10 * np.cos(2 * math.pi * x)
    return 1 - np.add.accumulate(terms, axis=1)[:, -1] / (RASTRIGIN_BOUND * x.shape[1])


# --- their local maxima, before the shift: points (p, d) and values (p,) -----------------------------


def _golden(function: Callable, a: np.ndarray, b: np.ndarray, steps: int = 80) -> np.ndarray:
    """Where an elementwise function is largest in [a, b]: golden-section search, all brackets at once.

    Exact to rounding where the function rises and then falls; never worse than the ends.
    """
    low, high = np.array(a, dtype=float), np.array(b, dtype=float)
    share = (math.sqrt(5) - 1) / 2
    for _ in range(steps):
        left, right = high - share * (high - low), low + share * (high - low)
        falls = function(left) > function(right)
        low, high = np.where(falls, low, left), np.where(falls, right, high)
    ends = np.stack([(low + high) / 2, a, b])
    best = np.argmax(np.stack([function(x) for x in ends]), axis=0)
    return np.take_along_axis(ends, best[None], axis=0)[0]


@functools.cache
def _garland_peaks() -> tuple[np.ndarray, np.ndarray]:
    """The cusps k pi / 60, where the sine is 0 and the value is 4 x (1 - x)."""
    x = np.arange(20) * math.pi / 60
    return x[:, None], 4 * x * (1 - x)


@functools.cache
def _doublesine_peaks() -> tuple[np.ndarray, np.ndarray]:
    """The centre, and on either side the maxima near log2 u = -3/2, -7/2, ..., where the sine is 1.

    There are infinitely many; those nearer to the centre than a double can tell are left out.
    """
    touch = np.arange(-51.5, 0, 2.0)
    u = np.exp2(_golden(lambda z: _doublesine_at(np.exp2(z)), touch - 1, touch + 1))
    value = np.maximum.accumulate(_doublesine_at(u[::-1]))[::-1]  # they fall with u, rounding apart
    points = np.concatenate([0.5 - u[::-1] / 2, [0.5], 0.5 + u / 2])
    return points[:, None], np.concatenate([value[::-1], [1.0], value])


@functools.cache
def _himmelblau_peaks() -> tuple[np.ndarray, np.ndarray]:
    """The four common roots of both squares."""
    x = np.array([[3.0, 2.0], [-2.8, 3.13], [-3.78, -3.28], [3.58, -1.85]])
    for _ in range(8):  # Newton's method
        x1, x2 = x.T
        residual = np.stack([x1**2 + x2 - 11, x1 + x2**2 - 7], axis=1)
        jacobian = np.moveaxis(np.array([[2 * x1, np.ones(4)], [np.ones(4), 2 * x2]]), -1, 0)
        x = x - np.linalg.solve(jacobian, residual[:, :, None])[:, :, 0]
    return x, np.ones(4)


def _origin_peak(d: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((1, d)), np.ones(1)


@dataclass(frozen=True)
class Synthetic:
    """One synthetic objective on [low, high]^d. any_d: d is only the default.

    peaks(d): in one dimension all local maxima, in the order of x, with values that rise up to the
    largest and then fall; else the global maxima. closed_form: their values are exact.
    """

    function: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    d: int
    peaks: Callable[[int], tuple[np.ndarray, np.ndarray]]
    closed_form: bool = True
    any_d: bool = False


SYNTHETIC = {
    "garland": Synthetic(garland, 0.0, 1.0, 1, lambda d: _garland_peaks()),
    "doublesine": Synthetic(doublesine, 0.0, 1.0, 1, lambda d: _doublesine_peaks(), closed_form=False),
    "himmelblau": Synthetic(himmelblau, -5.0, 5.0, 2, lambda d: _himmelblau_peaks()),
    "ackley": Synthetic(ackley, -1.0, 1.0, 2, _origin_peak),
    "rastrigin": Synthetic(rastrigin, -1.0, 1.0, 10, _origin_peak, any_d=True),
}
NAMES = (*SYNTHETIC, "landmine")


# --- maximising over a box ---------------------------------------------------------------------------


def _raised(value):
    """A maximum found numerically, raised by ACCURACY, at most 1."""
    return np.minimum(value + ACCURACY, 1.0)


def _inside(x: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """Which points x (..., d) lie in the domain (d, 2)."""
    return np.all((domain[:, 0] <= x) & (x <= domain[:, 1]), axis=-1)


def _corners(domain: np.ndarray) -> np.ndarray:
    """The corners (2^d, d) of the domain; only its centre beyond ten dimensions."""
    if len(domain) > 10:
        return domain.mean(axis=1)[None]
    return np.stack(np.meshgrid(*domain, indexing="ij"), axis=-1).reshape(-1, len(domain))


def _scan(domain: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Points (n, d) spread over the domain, its border included, and the shape of their grid."""
    d = len(domain)
    if d <= 2:
        axes = [np.linspace(low, high, 2**14 + 1 if d == 1 else 129) for low, high in domain]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d), tuple(map(len, axes))
    spread = domain[:, 0] + (domain[:, 1] - domain[:, 0]) * stream(0, "scan").random((2**14, d))
    points = np.concatenate([_corners(domain), spread])
    return points, (len(points),)


def _grid_maxima(values: np.ndarray, shape: tuple[int, ...], most: int) -> np.ndarray:
    """Indices of the largest `most` values that no neighbour on the grid exceeds."""
    from scipy.ndimage import maximum_filter

    grid = values.reshape(shape)
    local = np.flatnonzero((grid == maximum_filter(grid, size=3, mode="nearest")).ravel())
    return local[np.argsort(-values[local], kind="stable")[:most]]


def _climb(function: Callable, domain: np.ndarray, x: np.ndarray, step: float, last: float) -> np.ndarray:
    """Compass search from each of the points x (n, d), steps in units of the width, halved at a summit."""
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
        found = function(trial.reshape(-1, d)).reshape(trial.shape[:2])
        best = found.argmax(axis=1)
        found, trial = found[np.arange(len(best)), best], trial[np.arange(len(best)), best]
        better = found > value[climbing]
        x[climbing[better]], value[climbing[better]] = trial[better], found[better]
        steps[climbing[~better]] /= 2
    return x


def _search(function: Callable, domain: np.ndarray, extra: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """The best point (d,) found over the domain, and its value: dense scan, then local searches.

    function: (n, d) -> (n,). extra: points (n, d) of the domain to try besides the scan's.
    """
    from scipy.optimize import minimize

    extra = np.empty((0, len(domain))) if extra is None else extra
    points, shape = _scan(domain)
    values = function(points)
    if len(domain) == 1:
        peaks = _grid_maxima(values, shape, most=256)
        low, high = points[np.maximum(peaks - 1, 0), 0], points[np.minimum(peaks + 1, len(points) - 1), 0]
        x = _golden(lambda t: function(t[:, None]), low, high)[:, None]
    else:
        extra = extra[np.argsort(-function(extra), kind="stable")[:32]]
        x = np.concatenate([points[_grid_maxima(values, shape, most=32)], extra])
        x = _climb(function, domain, x, step=1 / 128, last=1e-4)
        x = x[np.argsort(-function(x), kind="stable")[:4]]
        descents = [minimize(lambda y: -function(y[None])[0], y, bounds=domain, method="L-BFGS-B").x for y in x]
        x = _climb(function, domain, np.clip(descents, domain[:, 0], domain[:, 1]), step=1e-4, last=1e-11)
    x = np.concatenate([x, extra, points[[values.argmax()]]])
    values = function(x)
    return x[values.argmax()], float(values.max())


# --- problems ----------------------------------------------------------------------------------------


class Problem:
    """M clients' noiseless objectives on one domain, and their maxima.

    Attributes: name; domain (d, 2); d; n_clients, M; noise, as in `federation.check_noise`; shift (None
    where there is none); seed, run: what names the random streams; max_depth of the partition;
    candidates (n, d), the only points with a value, or None for the whole domain; data_hash, the
    SHA-256 of the data that the values come from, or None.
    """

    def __init__(self, name, domain, n_clients, noise, seed, run):
        check(is_integer(n_clients) and n_clients >= 1, "n_clients (M)", "an integer >= 1", n_clients)
        check(is_integer(seed) and seed >= 0, "seed", "an integer >= 0", seed)
        check(is_integer(run) and run >= 0, "run", "an integer >= 0", run)
        check_noise(noise)
        self.name, self.n_clients, self.noise, self.seed, self.run = name, int(n_clients), noise, int(seed), int(run)
        self.domain = check_domain(domain)
        self.d = len(self.domain)
        self.shift: float | None = None
        self.max_depth = MAX_DEPTH
        self.candidates: np.ndarray | None = None
        self.data_hash: str | None = None

    def _points(self, x) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        if x.ndim != 2 or x.shape[1] != self.d:
            raise ValueError(f"points of {self.name} have shape (n, {self.d}); got {x.shape}.")
        return x

    def _client(self, m: int) -> int:
        if not (is_integer(m) and 0 <= m < self.n_clients):
            raise ValueError(f"clients of {self.name} are 0..{self.n_clients - 1}; got {m!r}.")
        return m

    def client_values(self, m: int, x) -> np.ndarray:
        """f_m(x) (n,), in [0, 1], at points x (n, d) of the domain; bit-equal to values(x)[m]."""
        raise NotImplementedError

    def values(self, x) -> np.ndarray:
        """f_m(x) of every client, (M, n), at points x (n, d) of the domain."""
        return np.stack([self.client_values(m, x) for m in range(self.n_clients)])

    def paired_values(self, clients: np.ndarray, x) -> np.ndarray:
        """f_m(x) (n,) at points x (n, d), each of the client m that clients (n,) names; bit-equal to client_values."""
        x = self._points(x)
        value = np.empty(len(x))
        for m in np.unique(clients):
            value[clients == m] = self.client_values(m, x[clients == m])
        return value

    def mean_values(self, x) -> np.ndarray:
        """f-bar(x) (n,), the mean over clients, summed in their order."""
        x = self._points(x)
        if len(x) < 1024:
            return np.add.accumulate(self.values(x), axis=0)[-1] / self.n_clients
        total = self.client_values(0, x)
        for m in range(1, self.n_clients):  # the same sum, without the whole table
            total = total + self.client_values(m, x)
        return total / self.n_clients

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        """maximisers (M, d) and optimum (M,)."""
        raise NotImplementedError

    @functools.cached_property
    def _mean_maximum(self) -> tuple[np.ndarray, float]:
        """global_maximiser (d,) and global_optimum."""
        raise NotImplementedError

    @property
    def maximisers(self) -> np.ndarray:
        """A point (M, d) where each f_m is largest, to rounding."""
        return self._client_maxima[0]

    @property
    def optimum(self) -> np.ndarray:
        """f_m* (M,)."""
        return self._client_maxima[1]

    @property
    def global_maximiser(self) -> np.ndarray:
        """A point (d,) where f-bar is largest, to rounding."""
        return self._mean_maximum[0]

    @property
    def global_optimum(self) -> float:
        """f-bar*."""
        return self._mean_maximum[1]

    @functools.cached_property
    def Delta(self) -> float:
        """max over m of |f-bar* - f_m*|, the true one; 0 if it is below the maxima's accuracy."""
        gap = float(np.max(np.abs(self.global_optimum - self.optimum)))
        return gap if gap > 2 * ACCURACY else 0.0


class ShiftedProblem(Problem):
    """f_m(x) = clip(f(x - s_m), 0, 1), f a synthetic objective, s_m (d,) normal."""

    def __init__(self, name, n_clients, shift, noise, seed, run, d):
        objective = SYNTHETIC[name]
        check(d is None or (is_integer(d) and d >= 1), "d", "an integer >= 1, or None", d)
        d = objective.d if d is None else int(d)
        check(objective.any_d or d == objective.d, "d", f"{objective.d} (or None), the dimension of {name}", d)
        super().__init__(name, [[objective.low, objective.high]] * d, n_clients, noise, seed, run)
        self.objective, self.function, self.shift = objective, objective.function, float(shift)
        scale = self.shift * (objective.high - objective.low)
        draws = [stream(seed, name, run, m, "shift").standard_normal(d) for m in range(n_clients)]
        self.shifts = scale * np.array(draws)  # (M, d)
        self.shifts.setflags(write=False)

    def client_values(self, m: int, x) -> np.ndarray:
        return self._clipped(self._points(x) - self.shifts[self._client(m)])

    def paired_values(self, clients: np.ndarray, x) -> np.ndarray:
        return self._clipped(self._points(x) - self.shifts[clients])

    def _clipped(self, shifted: np.ndarray) -> np.ndarray:
        value = self.function(shifted)
        np.maximum(value, 0.0, out=value)
        return np.minimum(value, 1.0, out=value)

    def values(self, x) -> np.ndarray:
        x = self._points(x)
        if len(x) >= 1024:
            return super().values(x)
        shifted = (x - self.shifts[:, None]).reshape(-1, self.d)  # all clients in one call
        return self._clipped(shifted).reshape(self.n_clients, len(x))

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        peaks, peak_values = self.objective.peaks(self.d)
        points = peaks + self.shifts[:, None]  # (M, p, d)
        values = np.where(_inside(points, self.domain), peak_values, -1.0)
        best = values.argmax(axis=1)
        clients = np.arange(self.n_clients)
        points, values = points[clients, best], values[clients, best]
        if not self.objective.closed_form:
            values = _raised(values)
        without_top = np.flatnonzero(values < peak_values.max())  # their highest peak has left the domain
        for m, x in zip(without_top, self._besides_peaks(without_top), strict=True):
            value = self.client_values(m, x[None])[0]
            if value > values[m]:
                points[m], values[m] = x, _raised(value)
        return points, values

    def _besides_peaks(self, clients: np.ndarray) -> np.ndarray:
        """The best points (k, d) of some clients besides their peaks: on the domain's border, mostly."""
        if self.name == "rastrigin":
            return _separable_maximum(self.shifts[clients], np.eye(len(clients)), self.domain[0])
        if self.d == 1:
            return self.domain.T[self.values(self.domain.T)[clients].argmax(axis=1)]
        searches = [_search(functools.partial(self.client_values, m), self.domain) for m in clients]
        return np.array([x for x, _ in searches]).reshape(-1, self.d)

    @functools.cached_property
    def _mean_maximum(self) -> tuple[np.ndarray, float]:
        if np.all(self.shifts == self.shifts[0]):
            return self.maximisers[0], float(self.optimum[0])
        if self.name == "rastrigin":
            x, value = self._alternate()
        elif self.d == 1:
            x, value = self._branch_and_bound()
        else:
            x, value = _search(self.mean_values, self.domain, np.concatenate([self.maximisers, self._peaks_inside()]))
        return x, float(_raised(value))

    def _peaks_inside(self) -> np.ndarray:
        """Every client's peaks (n, d) that lie in the domain."""
        points = self.objective.peaks(self.d)[0] + self.shifts[:, None]
        return points[_inside(points, self.domain)]

    def _branch_and_bound(self) -> tuple[np.ndarray, float]:
        """A point and its f-bar, which no other exceeds by more than ACCURACY. One dimension.

        All local maxima of f being known, the largest f_m on an interval is the largest of its ends and of
        the peaks inside; the mean of these bounds f-bar there. Intervals that cannot hold a better
        point are dropped, the others halved.
        """
        peaks, peak_values = self.objective.peaks(1)
        peaks, top = peaks[:, 0], int(peak_values.argmax())
        shifts = self.shifts  # (M, 1)

        def bound(low, high, value_low, value_high):
            first, after = np.searchsorted(peaks, low - shifts), np.searchsorted(peaks, high - shifts, side="right")
            inside = np.where(first < after, peak_values[np.minimum(np.maximum(first, top), after - 1)], 0.0)
            return np.maximum(np.maximum(value_low, value_high), inside).mean(axis=0)

        # a client's own peak is worth its exact value: a cusp is missed by rounding alone
        client, which = np.nonzero(_inside(peaks[:, None] + shifts[:, None], self.domain))
        points = peaks[which] + shifts[client, 0]
        values = self.values(points[:, None])
        values[client, np.arange(len(points))] = peak_values[which]
        best_x, best = np.nan, -1.0
        edges = np.linspace(*self.domain[0], 4097)
        at_edges = self.values(edges[:, None])
        for x, value in ((points, values.mean(axis=0)), (edges, at_edges.mean(axis=0))):
            if x.size and value.max() > best:
                best_x, best = x[value.argmax()], value.max()

        low, high, value_low, value_high = edges[:-1], edges[1:], at_edges[:, :-1], at_edges[:, 1:]
        while True:
            alive = bound(low, high, value_low, value_high) > best + ACCURACY
            if not alive.any() or high[0] - low[0] < 1e-15:
                return np.array([best_x]), float(best)
            low, high, value_low, value_high = low[alive], high[alive], value_low[:, alive], value_high[:, alive]
            middle = (low + high) / 2
            value = self.values(middle[:, None])
            mean = value.mean(axis=0)
            if mean.max() > best:
                best_x, best = middle[mean.argmax()], mean.max()
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
            value_low = np.concatenate([value_low, value], axis=1)
            value_high = np.concatenate([value, value_high], axis=1)

    def _alternate(self) -> tuple[np.ndarray, float]:
        """The best point found and its f-bar, for rastrigin.

        f-bar is the largest, over sets S of clients, of sum_{m in S} f(x - s_m) / M, and S at its best
        holds the clients that are not clipped at 0. Given S, the best x is found dimension by dimension;
        given x, the best S is known. From many S, repeat until neither changes.
        """
        starts = np.concatenate([self.maximisers, _scan(self.domain)[0][::4]])
        everyone = np.ones((1, self.n_clients), dtype=bool)
        active = np.unique(np.concatenate([everyone, self.values(starts).T > 0]), axis=0)
        best_x, best = starts[0], -1.0
        for _ in range(50):  # two or three in practice
            active = active[active.any(axis=1)]
            x = _separable_maximum(self.shifts, active, self.domain[0])
            values = self.values(x)
            mean = values.mean(axis=0)
            if mean.max() > best:
                best_x, best = x[mean.argmax()], mean.max()
            before, active = active, np.unique(values.T > 0, axis=0)
            if np.array_equal(active, before):
                break
        return best_x, float(best)


def _separable_maximum(shifts: np.ndarray, active: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Where sums of unclipped rastrigins, shifted by shifts (M, d), are largest in the cube, (k, d).

    active (k, M): which clients count in each of the k sums, at least one. In each dimension such a sum,
    divided by its number of clients, is 10 R cos(2 pi (x - phi)) - (x - s)^2 plus a constant.
    """
    weights = active / active.sum(axis=1, keepdims=True)
    mean, cosine, sine = (
        np.einsum("km,md->kd", weights, part)[:, :, None]
        for part in (shifts, np.cos(2 * math.pi * shifts), np.sin(2 * math.pi * shifts))
    )

    def height(x):
        return 10 * (cosine * np.cos(2 * math.pi * x) + sine * np.sin(2 * math.pi * x)) - (x - mean) ** 2

    edges = np.linspace(*interval, 17)  # an eighth of the period: no maximum shares a bracket with another
    low, high = (np.broadcast_to(e, (*mean.shape[:2], 16)) for e in (edges[:-1], edges[1:]))
    x = _golden(height, low, high, steps=45)
    return np.take_along_axis(x, height(x).argmax(axis=-1)[:, :, None], axis=-1)[:, :, 0]


class LandmineProblem(Problem):
    """f_m(C, gamma): the recorded AUC of the client's field, on the grid alone (deviation 19).

    fields (M,): the field 0..28 of each client, drawn with replacement.
    """

    def __init__(self, n_clients, noise, seed, run):
        super().__init__("landmine", landmine.DOMAIN, n_clients, noise, seed, run)
        table = landmine.load_table()
        self.max_depth, self.data_hash = landmine.MAX_DEPTH, table.sha256
        draws = [stream(seed, "landmine", run, m, "field").integers(landmine.N_FIELDS) for m in range(n_clients)]
        self.fields = np.array(draws)
        self.fields.setflags(write=False)
        self._auc = table.auc[self.fields]  # (M, 127, 127)
        self.candidates = np.stack(np.meshgrid(*landmine.grid_values(), indexing="ij"), axis=-1).reshape(-1, 2)
        self.candidates.setflags(write=False)

    def client_values(self, m: int, x) -> np.ndarray:
        """The recorded AUC (n,); ValueError for a point off the grid."""
        return self.paired_values(self._client(m), x)

    def paired_values(self, clients, x) -> np.ndarray:
        x = self._points(x)
        i, j = landmine.grid_indices(x).T
        if (i < 0).any():
            raise ValueError(
                f"the landmine point (C, gamma) = {tuple(x[i < 0][0].tolist())} is off the recorded grid. Regret runs "
                "use that grid alone (the centres of the binary partition's cells down to depth 12). "
                "pfpne.problems.landmine.live_auc evaluates any point where the dataset is at hand."
            )
        return self._auc[clients, i, j]

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        values = self._auc.reshape(self.n_clients, -1)
        return self.candidates[values.argmax(axis=1)], values.max(axis=1)

    @functools.cached_property
    def _mean_maximum(self) -> tuple[np.ndarray, float]:
        values = self.mean_values(self.candidates)
        return self.candidates[values.argmax()], float(values.max())


class FunctionsProblem(Problem):
    """One's own functions; see `problem_from_functions`."""

    def __init__(self, functions, domain, noise, optimum, global_optimum, name, seed, run, max_depth):
        check(isinstance(name, str) and name != "", "name", "a string that is not empty", name)
        check(isinstance(functions, Iterable), "functions", "a list of functions, one a client", functions)
        functions = list(functions)
        for m, function in enumerate(functions):
            check(callable(function), f"functions[{m}]", "callable, (n, d) -> (n,)", function)
        super().__init__(name, domain, len(functions), noise, seed, run)
        check(is_integer(max_depth) and max_depth >= 0, "max_depth", "an integer >= 0", max_depth)
        self.functions, self.max_depth = functions, int(max_depth)
        scan = _scan(self.domain)[0]
        highest = np.array([self.client_values(m, scan).max() for m in range(self.n_clients)])
        self._optimum = None if optimum is None else self._given(optimum, highest, "optimum")
        self._global_optimum = None
        if global_optimum is not None:
            highest = np.array(self.mean_values(scan).max())
            self._global_optimum = float(self._given(global_optimum, highest, "global_optimum"))

    @staticmethod
    def _given(maximum, highest: np.ndarray, name: str) -> np.ndarray:
        """A given maximum, raised to the highest value found; ValueError if it is below that, rounding apart."""
        maximum = np.array(maximum, dtype=float)
        check(maximum.shape == highest.shape, name, f"of shape {highest.shape}", maximum.shape)
        holds = (highest <= maximum + ACCURACY) & (maximum <= 1)
        wanted = f"at most 1, and at least {highest.tolist()}, which is attained"
        check(bool(holds.all()), name, wanted, maximum.tolist())
        return np.maximum(maximum, highest)

    @property
    def optimum(self) -> np.ndarray:
        """f_m* (M,): as given, or found."""
        return super().optimum if self._optimum is None else self._optimum

    @property
    def global_optimum(self) -> float:
        """f-bar*: as given, or found."""
        return super().global_optimum if self._global_optimum is None else self._global_optimum

    def client_values(self, m: int, x) -> np.ndarray:
        """f_m(x) (n,); ValueError unless the function returns n numbers in [0, 1]."""
        x = self._points(x)
        value = np.asarray(self.functions[self._client(m)](x), dtype=float)
        if value.shape != (len(x),):
            raise ValueError(f"functions[{m}] must return {len(x)} values, shape ({len(x)},); got {value.shape}.")
        wrong = ~((value >= 0) & (value <= 1))
        if wrong.any():
            raise ValueError(
                f"functions[{m}] must have its values in [0, 1]; it is {float(value[wrong][0])!r} "
                f"at {x[wrong][0].tolist()}. Scale it."
            )
        return value

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        found = [_search(functools.partial(self.client_values, m), self.domain) for m in range(self.n_clients)]
        return np.array([x for x, _ in found]), _raised(np.array([value for _, value in found]))

    @functools.cached_property
    def _mean_maximum(self) -> tuple[np.ndarray, float]:
        if self.n_clients == 1:
            return self.maximisers[0], float(self.optimum[0])
        x, value = _search(self.mean_values, self.domain, self.maximisers)
        return x, float(_raised(value))


def make_problem(
    name: str,
    n_clients: int,
    shift: float = 0.1,
    noise: float | str = "bernoulli",
    seed: int = 0,
    run: int = 0,
    d: int | None = None,
) -> Problem:
    """The local objectives of one run.

    name: garland, doublesine, himmelblau, ackley, rastrigin or landmine. n_clients: M >= 1.
    shift >= 0: standard deviation of the shifts, in units of the domain's width; no matter for landmine.
    noise: "bernoulli" or the half-width >= 0 of uniform noise. (seed, run), integers >= 0, name the
    random streams; a client's shift or field does not depend on M. d: dimension, of rastrigin alone (10).
    Raises ValueError for anything else, with the nearest name if it is the name that is wrong.
    """
    if name not in NAMES:
        raise ValueError(unknown("objective", name, NAMES))
    check(is_number(shift) and shift >= 0, "shift", "a number >= 0", shift)
    if name == "landmine":
        check(d is None or (is_integer(d) and d == 2), "d", "2 (or None), the dimension of landmine", d)
        return LandmineProblem(n_clients, noise, seed, run)
    return ShiftedProblem(name, n_clients, shift, noise, seed, run, d)


def problem_from_functions(
    functions: Sequence[Callable[[np.ndarray], np.ndarray]],
    domain,
    noise: float | str = "bernoulli",
    optimum=None,
    global_optimum: float | None = None,
    name: str = "custom",
    seed: int = 0,
    run: int = 0,
    max_depth: int = MAX_DEPTH,
) -> Problem:
    """A problem made of one's own functions, one a client, each (n, d) -> (n,) with values in [0, 1].

    domain: (d, 2), [low, high] a dimension. optimum (M,), global_optimum: the maxima over the domain where
    they are known; else they are searched for when first asked for, which is reliable in one or two dimensions
    for functions that vary on scales above 1/100 of the width, and without warranty otherwise.
    Raises ValueError if a value is outside [0, 1], or a given maximum is below a value found.
    """
    return FunctionsProblem(functions, domain, noise, optimum, global_optimum, name, seed, run, max_depth)
