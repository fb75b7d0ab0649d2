"""The synthetic objectives: PyXAB's functions, scaled to [0, 1], moved by each client's shift and clipped.

f_m(x) = clip(f(x - s_m), 0, 1), where s_m = s_0 + e_m is shifts[m] (d,). In each dimension both summands are normal.
s_0 is shared by all clients and has standard deviation common_shift x width; e_m is the client's own and has shift x
width.
Source: paper, Section 4 (deviation 21). A function is (n, d) -> (n,), elementwise, with sums in a fixed order: a value
does not depend on the other points of the call.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pfpne.problems.base import Objective, Problem
from pfpne.problems.maxima import (
    alternate,
    branch_and_bound,
    golden_section,
    inside,
    scan_points,
    search_maximum,
    with_margin,
)
from pfpne.rng import stream

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


def _doublesine_peaks() -> tuple[np.ndarray, np.ndarray]:
    """The centre, and on either side the maxima near log2 u = -3/2, -7/2, ..., where the sine is 1.

    There are infinitely many; those nearer to the centre than a double can tell are left out.
    """
    touch = np.arange(-51.5, 0, 2.0)
    u = np.exp2(golden_section(lambda z: _doublesine_at(np.exp2(z)), touch - 1, touch + 1))
    height = np.maximum.accumulate(_doublesine_at(u[::-1]))[::-1]  # they fall with u, rounding apart
    points = np.concatenate([0.5 - u[::-1] / 2, [0.5], 0.5 + u / 2])
    return points[:, None], np.concatenate([height[::-1], [1.0], height])


# Local maxima, before the shift: points (p, d), or (p, 1) for any d, and their heights (p,), or one for all.
NOWHERE = ((math.nan,),), 1.0  # for unknown maxima: a point in no domain, so that every client is searched
ORIGIN = ((0.0,),), 1.0  # one maximum of height 1, at the origin
_CUSPS = np.arange(20)[:, None] * math.pi / 60  # where the sine is 0
GARLAND_PEAKS = _CUSPS, (4 * _CUSPS * (1 - _CUSPS))[:, 0]
DOUBLESINE_PEAKS = _doublesine_peaks()
_ROOTS = (  # of both squares, to rounding
    *((3.0, 2.0), (-2.805118086952745, 3.131312518250573)),
    *((-3.779310253377747, -3.2831859912861696), (3.5844283403304917, -1.8481265269644034)),
)
HIMMELBLAU_PEAKS = _ROOTS, 1.0


class ShiftedProblem(Problem):
    """f_m(x) = clip(f(x - s_m), 0, 1). A client whose highest peak has left the domain is searched for its maximum."""

    def __init__(self, objective, name, d, n_clients, shift, common_shift, noise, seed, run):
        super().__init__(name, [[objective.low, objective.high]] * d, n_clients, noise, seed, run)
        self.objective, self.function = objective, objective.function
        self.shift, self.common_shift = float(shift), float(common_shift)
        self.peaks, self.heights = map(np.asarray, objective.peaks)
        draws = [stream(seed, name, run, m, "shift").standard_normal(d) for m in range(n_clients)]
        shared = stream(seed, name, run, "common shift").standard_normal(d)
        width = objective.high - objective.low
        self.shifts = self.shift * width * np.array(draws) + self.common_shift * width * shared  # (M, d)
        self.shifts.setflags(write=False)
        self.identical = bool(np.all(self.shifts == self.shifts[0]))

    def _evaluated(self, clients, x):
        return self._clipped(x - self.shifts[clients])

    def values(self, x) -> np.ndarray:
        """f_m(x) of every client, (M, n), at points x (n, d) of the domain."""
        shifted = self._points(x) - self.shifts[:, None]  # all clients in one call
        return self._clipped(shifted.reshape(-1, self.d)).reshape(shifted.shape[:2])

    def _clipped(self, shifted: np.ndarray) -> np.ndarray:
        value = self.function(shifted)
        np.maximum(value, 0.0, out=value)
        return np.minimum(value, 1.0, out=value)

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        points = self.peaks + self.shifts[:, None]  # (M, p, d)
        values = np.where(inside(points, self.domain), self.heights, -1.0)
        best = np.arange(self.n_clients), values.argmax(axis=1)
        points, values = points[best], values[best]
        if not self.objective.closed_form:
            values = with_margin(values)
        without_top = np.flatnonzero(values < self.heights.max())  # their highest peak has left the domain
        for m, x in zip(without_top, self._besides_peaks(without_top), strict=True):
            value = self.client_values(int(m), x[None])[0]
            if value > values[m]:
                points[m], values[m] = x, with_margin(value)
        return points, values

    def _besides_peaks(self, clients: np.ndarray) -> np.ndarray:
        """The best points (k, d) of the k clients that are not peaks: mostly on the domain's border."""
        return self._search_client_maxima(clients)[0]

    def _search_mean_maximum(self) -> tuple[np.ndarray, float]:
        peaks = self.peaks + self.shifts[:, None]
        extra = np.concatenate([self.maximisers, peaks[inside(peaks, self.domain)]])
        return search_maximum(self.mean_values, self.domain, extra)


class KnownPeaksProblem(ShiftedProblem):
    """A shifted problem in one dimension whose local maxima are all known.

    A maximum over the domain is at a peak, or at an end of the domain.
    """

    def _besides_peaks(self, clients):
        return self.domain.T[self.values(self.domain.T)[clients].argmax(axis=1)]

    def _search_mean_maximum(self):
        return branch_and_bound(self.values, self.domain, self.peaks[:, 0], self.heights, self.shifts)


class Rastrigin(ShiftedProblem):
    """Shifted rastrigin, a sum over the dimensions: each term is maximised by itself."""

    def _besides_peaks(self, clients):
        return self._best_for(np.eye(self.n_clients)[clients])

    def _search_mean_maximum(self):
        return alternate(self.values, self._best_for, np.concatenate([self.maximisers, scan_points(self.domain)[::4]]))

    def _best_for(self, active: np.ndarray) -> np.ndarray:
        """The points (k, d) of the domain where k sums of unclipped objectives are largest.

        active (k, M): the clients in each sum, at least one. In each dimension a sum, divided by its number of clients,
        is 10 R cos(2 pi (x - phi)) - (x - s)^2 plus a constant.
        """
        weights = active / active.sum(axis=1, keepdims=True)
        angles = 2 * math.pi * self.shifts
        parts = (self.shifts, np.cos(angles), np.sin(angles))
        mean, cosine, sine = (np.einsum("km,md->kd", weights, part)[:, :, None] for part in parts)

        def height(x):
            return 10 * (cosine * np.cos(2 * math.pi * x) + sine * np.sin(2 * math.pi * x)) - (x - mean) ** 2

        left, right = self.domain[0]
        edges = np.linspace(left, right, 17)  # an eighth of the period: no maximum shares a bracket with another
        low, high = (np.broadcast_to(e, (*mean.shape[:2], 16)) for e in (edges[:-1], edges[1:]))
        x = golden_section(height, low, high, steps=45)
        return np.take_along_axis(x, height(x).argmax(axis=-1)[:, :, None], axis=-1)[:, :, 0]


@dataclass(frozen=True)
class Synthetic(Objective):
    """One synthetic objective on [low, high]^d: its function and its peaks. Their heights are exact if closed_form.

    For KnownPeaksProblem the peaks are all local maxima, in increasing x, with heights that rise up to the largest and
    then fall. For other problems they are the global maxima, or NOWHERE.
    """

    function: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    peaks: tuple = NOWHERE
    closed_form: bool = True
