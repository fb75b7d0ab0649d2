"""What every family of objectives shares: M clients' values on one domain, and their maxima.

| paper  | here                | meaning                                                  |
|--------|---------------------|----------------------------------------------------------|
| X      | domain              | box (d, 2) of [low, high]                                |
| f_m    | client_values(m, x) | local objective, with values in [0, 1]                   |
| f-bar  | mean_values(x)      | global objective, the mean of the f_m                    |
| f_m*   | optimum[m]          | maximum of f_m over X, attained at maximisers[m]         |
| f-bar* | global_optimum      | maximum of f-bar over X, attained at global_maximiser    |
| Delta  | Delta               | the largest distance between f-bar* and an f_m*          |

Source: paper, Section 2.1.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pfpne.partition import check_domain
from pfpne.problems.maxima import ACCURACY, search_maximum, with_margin
from pfpne.validation import check_count, check_integer, check_noise, is_integer

DEFAULT_MAX_DEPTH = 40  # of the partition, unless the objective sets its own
MANY_POINTS = 1024  # from so many points on, clients are computed one by one: a table of all would not fit the cache


class Problem:
    """M clients' noiseless objectives on one domain.

    A family of objectives is a subclass: it defines `_evaluated`, and may define `_client_maxima` and `_mean_maximum`,
    or the numerical searches for them.

    Attributes
    ----------
    name
        The name of the objective.
    domain
        The box (d, 2); d is its dimension.
    n_clients
        M.
    noise
        "bernoulli", or the half-width of uniform noise.
    noise_slope
        The half-width at f_m = 0 minus the half-width at f_m = 1; in between it is linear in f_m. Most often 0.
    shift, common_shift
        The standard deviations of the clients' shifts, or None.
    seed, run
        Integers that name the random streams.
    max_depth, max_cuts
        Arguments of its partition.
    candidates
        (n, d), the only points with a value; None for the whole domain.
    data_hash
        The SHA-256 of the data that the values come from, or None.
    maximisers, optimum
        (M, d) and (M,): where each f_m is largest, and how large; found when they are first asked for.
    global_maximiser, global_optimum
        (d,) and a number: where f-bar is largest, and how large.
    identical
        Whether all clients are known to have the same objective.
    """

    shift: float | None = None
    common_shift: float | None = None
    candidates: np.ndarray | None = None
    max_cuts: int | None = None
    data_hash: str | None = None
    noise_slope: float = 0.0

    def __init__(self, name, domain, n_clients, noise, seed, run, max_depth=DEFAULT_MAX_DEPTH):
        for setting, value in (("n_clients", n_clients), ("seed", seed), ("run", run)):
            check_count(setting, value)
        check_integer("max_depth", max_depth, 0, 62)
        check_noise("noise", noise)
        self.name, self.n_clients, self.noise, self.seed, self.run = name, int(n_clients), noise, int(seed), int(run)
        self.domain, self.max_depth, self.identical = check_domain(domain), int(max_depth), n_clients == 1
        self.d = len(self.domain)

    def _points(self, x) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        if x.ndim != 2 or x.shape[1] != self.d:
            raise ValueError(f"points of {self.name} have shape (n, {self.d}); got {x.shape}.")
        return x

    def _client(self, m: int) -> int:
        if not (is_integer(m) and 0 <= m < self.n_clients):
            raise ValueError(f"clients of {self.name} are 0..{self.n_clients - 1}; got {m!r}.")
        return m

    def _evaluated(self, clients, x: np.ndarray) -> np.ndarray:
        """Return f_m(x) (n,), in [0, 1], at checked points x (n, d), for clients m, or (n,), one for each point.

        The value of a client at a point does not depend on the other clients and points of the call.
        """
        raise NotImplementedError

    def client_values(self, m: int, x) -> np.ndarray:
        """Return f_m(x) (n,), in [0, 1], at points x (n, d) of the domain; bit-equal to values(x)[m]."""
        return self._evaluated(self._client(m), self._points(x))

    def paired_values(self, clients: np.ndarray, x) -> np.ndarray:
        """Return f_m(x) (n,) at points x (n, d), one client m per point; bit-equal to client_values."""
        return self._evaluated(clients, self._points(x))

    def values(self, x) -> np.ndarray:
        """Return f_m(x) of every client, (M, n), at points x (n, d) of the domain."""
        return np.stack([self.client_values(m, x) for m in range(self.n_clients)])

    def mean_values(self, x) -> np.ndarray:
        """Return f-bar(x) (n,), the mean over clients, summed in their order."""
        x = self._points(x)
        clients = self.values(x) if len(x) < MANY_POINTS else (self.client_values(m, x) for m in range(self.n_clients))
        return functools.reduce(np.add, clients) / self.n_clients

    def _search_client_maxima(self, clients: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """Search for the maxima of k clients; return the points (k, d) and their values (k,)."""
        maxima = [search_maximum(functools.partial(self.client_values, m), self.domain) for m in clients]
        return np.array([x for x, _ in maxima]).reshape(-1, self.d), np.array([value for _, value in maxima])

    def _search_mean_maximum(self) -> tuple[np.ndarray, float]:
        """Search for the maximum of f-bar; return the point (d,) and its value."""
        return search_maximum(self.mean_values, self.domain, self.maximisers)

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        points, values = self._search_client_maxima(range(self.n_clients))
        return points, with_margin(values)

    @functools.cached_property
    def _mean_maximum(self) -> tuple[np.ndarray, float]:
        if self.identical:
            return self.maximisers[0], float(self.optimum[0])
        x, value = self._search_mean_maximum()
        return x, float(with_margin(value))

    maximisers = functools.cached_property(lambda self: self._client_maxima[0])
    optimum = functools.cached_property(lambda self: self._client_maxima[1])
    global_maximiser = functools.cached_property(lambda self: self._mean_maximum[0])
    global_optimum = functools.cached_property(lambda self: self._mean_maximum[1])

    @functools.cached_property
    def Delta(self) -> float:
        """The largest |f-bar* - f_m*| over the clients; 0 if it is below the accuracy of the maxima."""
        gap = float(np.max(np.abs(self.global_optimum - self.optimum)))
        return gap if gap > 2 * ACCURACY else 0.0


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A row of the table of objectives, of any family. d: the dimension; any_d: d is only the default.

    problem(objective, name, d, n_clients, shift, common_shift, noise, seed, run) -> Problem; objective is the row
    itself.
    """

    problem: Callable[..., Problem]
    d: int
    any_d: bool = False
