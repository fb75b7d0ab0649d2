"""Scenarios drawn at random from declared families: objectives, clients, noise, M and T.

The families were declared before the last change of PF-PNE+. `sample_scenarios` draws from them with a seed. Every
objective lies on the unit cube, with values in [0, 1]. Its maximum is known, or found by a search: in one or two
dimensions of the whole cube, in more from the published point. Clients differ in ways that keep every client's maximum
known. Noise is uniform, Gaussian, heavy-tailed, sparse or wider where the objective is low, or rewards are binary.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pfpne.algorithms import Algorithm, get_algorithm, make_settings
from pfpne.federation import Task
from pfpne.problems.base import Problem
from pfpne.problems.maxima import search_maximum
from pfpne.rng import stream
from pfpne.simulation.fast import fast_simulation_of
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.record import Measurements, checkpoints_of
from pfpne.simulation.simulate import partition_of, run_objects

MOST_PULLS = 500_000  # the largest M T: longer horizons are shortened
CLIENT_COUNTS = (2, 5, 10, 20, 50)
HORIZONS = (1_000, 3_000, 10_000, 30_000)
LOUD_FACTOR = 15.0  # the loud client's noise, in units of the others'
UNIT = np.array([[0.0, 1.0]])


# --- objectives, (n, d) -> (n,) on the unit cube, with where they are largest ----------------------------------


@dataclass(frozen=True)
class DrawnObjective:
    """An objective on the unit cube: its function, in [0, 1]; a point (d,) where it is largest; and the value there."""

    function: Callable[[np.ndarray], np.ndarray]
    top: np.ndarray
    height: float


def _scaled(
    function: Callable, low: float, high: float, worst: float, lowest: float, top: list[float]
) -> DrawnObjective:
    """An objective from a function to be minimised on [low, high]^d, with values in lowest..worst."""

    def value(x: np.ndarray) -> np.ndarray:
        return np.clip(1 - (function(low + (high - low) * x) - lowest) / (worst - lowest), 0, 1)

    return DrawnObjective(value, (np.array(top) - low) / (high - low), 1.0)


def _levy(d: int, rng) -> DrawnObjective:
    def function(x):
        w = 1 + (x - 1) / 4
        inner = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)
        last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
        return np.sin(np.pi * w[:, 0]) ** 2 + inner.sum(axis=1) + last

    return _scaled(function, -10, 10, 16.0 + 80 * (d - 1), 0, [1.0] * d)


def _schwefel(d: int, rng) -> DrawnObjective:
    top = 420.968746
    return _scaled(
        lambda x: -(x * np.sin(np.sqrt(np.abs(x)))).sum(axis=1),
        -500,
        500,
        418.983 * d,
        -418.982887272434 * d,
        [top] * d,
    )


def _branin(d: int, rng) -> DrawnObjective:
    def function(x):
        a, b = 15 * x[:, 0] - 5, 15 * x[:, 1]
        bowl = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
        return bowl**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10

    return _scaled(function, 0, 1, 308.2, 0.39788735772973816, [(np.pi + 5) / 15, 2.275 / 15])


_HARTMANN_3 = (
    np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
)
_HARTMANN_6 = (
    np.array(
        [
            *([10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14]),
            *([3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]),
        ]
    ),
    1e-4
    * np.array(
        [
            *([1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991]),
            *([2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]),
        ]
    ),
)
_HARTMANN_TOPS = {  # the published minimisers, from which a local search starts
    3: [0.114614, 0.555649, 0.852547],
    6: [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573],
}


def _hartmann(d: int, rng) -> DrawnObjective:
    A, P = _HARTMANN_3 if d == 3 else _HARTMANN_6

    def height(x):
        return np.exp(-((x[:, None] - P) ** 2 * A).sum(axis=2)) @ np.array([1.0, 1.2, 3.0, 3.2])

    top = _climbed(height, np.array(_HARTMANN_TOPS[d]))
    highest = float(height(top[None])[0])
    return DrawnObjective(lambda x: np.clip(height(x) / highest, 0, 1), top, 1.0)


def _climbed(height: Callable, x: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    return minimize(lambda y: -height(y[None])[0], x, bounds=[(0, 1)] * len(x), tol=1e-14).x


def _styblinski(d: int, rng) -> DrawnObjective:
    return _scaled(
        lambda x: (x**4 - 16 * x**2 + 5 * x).sum(axis=1) / 2, -5, 5, 125.0 * d, -39.16616570377142 * d, [-2.9035340] * d
    )


def _rosenbrock(d: int, rng) -> DrawnObjective:
    def function(x):
        return np.log1p(100 * (x[:, 1] - x[:, 0] ** 2) ** 2 + (1 - x[:, 0]) ** 2)

    return _scaled(function, -2, 2, math.log1p(3609), 0, [1.0, 1.0])


def _griewank(d: int, rng) -> DrawnObjective:
    def function(x):
        return 1 + (x**2).sum(axis=1) / 4000 - np.cos(x / np.sqrt(np.arange(1, d + 1))).prod(axis=1)

    return _scaled(function, -17, 23, 2.3, 0, [0.0] * d)


def _rastrigin(d: int, rng) -> DrawnObjective:
    return _scaled(
        lambda x: 10 * d + (x**2 - 10 * np.cos(2 * np.pi * x)).sum(axis=1), -1.2, 2.3, 25.3 * d, 0, [0.0] * d
    )


def _searched(height: Callable, d: int) -> DrawnObjective:
    """An objective from heights of any range, in one or two dimensions: scaled by its largest and smallest values."""
    domain = np.repeat(UNIT, d, axis=0)
    top, highest = search_maximum(height, domain)
    lowest = -search_maximum(lambda x: -height(x), domain)[1]
    return DrawnObjective(lambda x: np.clip((height(x) - lowest) / (highest - lowest), 0, 1), top, 1.0)


def _random_field(d: int, rng, length: float, bend: Callable) -> DrawnObjective:
    """A smooth random field, of 128 waves, with this length scale."""
    frequency, phase = rng.standard_normal((d, 128)) / length, 2 * np.pi * rng.random(128)
    return _searched(lambda x: bend(np.cos(x @ frequency + phase).sum(axis=1) / 8), d)


def _gaussian_process(d: int, rng) -> DrawnObjective:
    return _random_field(d, rng, 0.15 if d == 1 else 0.25, lambda z: z)


def _peaky_field(d: int, rng) -> DrawnObjective:
    return _random_field(d, rng, 0.15 if d == 1 else 0.25, np.exp)


def _waves(d: int, rng) -> DrawnObjective:
    frequency, phase = np.pi * rng.integers(2, 14, (d, 6)), 2 * np.pi * rng.random(6)
    return _searched(lambda x: np.sin(x @ frequency + phase).sum(axis=1), d)


def _distance(x: np.ndarray, top: np.ndarray) -> np.ndarray:
    return np.abs(x - top).max(axis=1)


def _plateau(d: int, rng) -> DrawnObjective:
    top = 0.2 + 0.6 * rng.random(d)
    return DrawnObjective(lambda x: 1 - np.clip(2 * (_distance(x, top) - 0.05), 0, 1), top, 1.0)


def _needle(d: int, rng) -> DrawnObjective:
    top = 0.2 + 0.6 * rng.random(d)
    return DrawnObjective(lambda x: 0.3 + 0.7 * np.maximum(0, 1 - _distance(x, top) / 0.1), top, 1.0)


def _steps(d: int, rng) -> DrawnObjective:
    top = 0.2 + 0.6 * rng.random(d)
    return DrawnObjective(lambda x: np.floor(7 * np.clip(1.1 - 1.5 * _distance(x, top) ** 0.7, 0, 1)) / 7, top, 1.0)


def _border(d: int, rng) -> DrawnObjective:
    return DrawnObjective(lambda x: 1 - x.mean(axis=1) ** 0.8, np.zeros(d), 1.0)


def _rare(d: int, rng) -> DrawnObjective:
    """0 in most of the domain, with a single hill of height 0.4."""
    top = 0.2 + 0.6 * rng.random(d)
    return DrawnObjective(lambda x: 0.4 * np.maximum(0, 1 - _distance(x, top) / 0.2), top, 0.4)


FAMILIES: dict[str, tuple[Callable, tuple[int, ...]]] = {  # name -> (makes an objective, the dimensions it may have)
    "levy": (_levy, (1, 2, 3)),
    "schwefel": (_schwefel, (1, 2)),
    "branin": (_branin, (2,)),
    "hartmann": (_hartmann, (3, 6)),
    "styblinski": (_styblinski, (1, 2)),
    "rosenbrock": (_rosenbrock, (2,)),
    "griewank": (_griewank, (1, 2)),
    "rastrigin": (_rastrigin, (1, 2)),
    "gaussian process": (_gaussian_process, (1, 2)),
    "peaky field": (_peaky_field, (1, 2)),
    "waves": (_waves, (1, 2)),
    "plateau": (_plateau, (1, 2)),
    "needle": (_needle, (1, 2)),
    "steps": (_steps, (1, 2)),
    "border": (_border, (1, 2)),
    "rare": (_rare, (1, 2)),
}
CLIENT_KINDS = (
    "alike",
    "small shifts",
    "shifts",
    "heights",
    "offsets",
    "halves",
    "one outlier",
    "one loud",
)  # of clients
NOISES = ("uniform", "gaussian", "heavy tails", "sparse", "heteroscedastic", "bernoulli")
SCALES = {"uniform": (0.05, 0.1, 0.5, 1.0), "gaussian": (0.03, 0.1, 0.3, 0.6)}  # half-widths; standard deviations


# --- one scenario ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnScenario:
    """A drawn scenario: family and d, kind of clients, noise and its scale, M, and T. number names its streams."""

    seed: int
    number: int
    family: str
    d: int
    kind: str
    noise: str
    scale: float
    n_clients: int
    horizon: int


def sample_scenarios(n: int, seed: int) -> list[DrawnScenario]:
    """Draw n scenarios. Binary rewards have no loud client, whose noise cannot be larger."""
    drawn = []
    for number in range(n):
        rng = stream(seed, "drawn settings", number)  # another name would draw others
        family = [*FAMILIES][rng.integers(len(FAMILIES))]
        d = int(rng.choice(FAMILIES[family][1]))
        kind, noise = (names[rng.integers(len(names))] for names in (CLIENT_KINDS, NOISES))
        if noise == "bernoulli" and kind == "one loud":
            kind = "alike"
        M, T = int(rng.choice(CLIENT_COUNTS)), int(rng.choice(HORIZONS))
        scale = float(rng.choice(SCALES.get(noise, (0.1,))))
        drawn.append(DrawnScenario(seed, number, family, d, kind, noise, scale, M, min(T, MOST_PULLS // M)))
    return drawn


class DrawnProblem(Problem):
    """One run of a scenario: each client's own form of the objective."""

    def __init__(self, scenario: DrawnScenario, run: int):
        noise = {"bernoulli": "bernoulli", "heteroscedastic": 0.05, "uniform": scenario.scale}.get(scenario.noise, 1.0)
        super().__init__(
            f"drawn {scenario.number}",
            np.repeat(UNIT, scenario.d, axis=0),
            scenario.n_clients,
            noise,
            scenario.seed,
            run,
        )
        self.scenario, self.base, M = scenario, _objective(scenario), scenario.n_clients
        if scenario.noise == "heteroscedastic":
            self.noise_slope = 1.5
        rng = stream(scenario.seed, "drawn clients", scenario.number, run)
        kind, top = scenario.kind, self.base.top
        self.offset, self.factor, shifts = np.zeros(M), np.ones(M), np.zeros((M, scenario.d))
        self.mirrored = np.zeros(M, dtype=bool)
        if kind in ("small shifts", "shifts"):
            width = 0.02 if kind == "small shifts" else 0.1
            shifts = np.clip(top + width * rng.standard_normal((M, scenario.d)), 0, 1) - top
        elif kind == "heights":
            self.factor = 0.6 + 0.4 * rng.random(M)
        elif kind == "offsets":
            self.factor, self.offset = np.full(M, 0.7), 0.3 * rng.random(M)
        elif kind == "halves":
            self.mirrored[: M // 2] = True
        elif kind == "one outlier":
            self.mirrored[0] = True
        self.shifts = shifts
        self.identical = kind in ("alike", "one loud")
        tops = top + shifts
        self.maximisers = np.where(self.mirrored[:, None], 1 - tops, tops)
        self.optimum = self.factor * self.base.height + self.offset

    def _evaluated(self, clients, x):
        clients = np.broadcast_to(clients, len(x))
        x = np.where(self.mirrored[clients, None], 1 - x, x)
        value = self.base.function(np.clip(x - self.shifts[clients], 0, 1))
        return np.clip(self.factor[clients] * value + self.offset[clients], 0, 1)

    def streams(self) -> list:
        """The clients' noise: uniforms, or transformed uniforms if the noise is not uniform."""
        scenario, streams = self.scenario, noise_streams(self, self.seed, self.run)
        loud = [LOUD_FACTOR if m == 0 and scenario.kind == "one loud" else 1.0 for m in range(self.n_clients)]
        if scenario.noise in ("bernoulli", "heteroscedastic", "uniform"):
            return [
                rng if times == 1 else Transformed(rng, functools.partial(_widened, times=times))
                for rng, times in zip(streams, loud, strict=True)
            ]
        quantile = {"gaussian": _gaussian, "heavy tails": _heavy_tailed, "sparse": _sparse}[scenario.noise]
        return [
            Transformed(rng, functools.partial(_as_uniform, quantile=quantile, scale=times * scenario.scale))
            for rng, times in zip(streams, loud, strict=True)
        ]


@functools.lru_cache(maxsize=4)
def _objective(scenario: DrawnScenario) -> DrawnObjective:
    return FAMILIES[scenario.family][0](scenario.d, stream(scenario.seed, "drawn objective", scenario.number))


class Transformed:
    """A stream of transformed uniforms, from which a simulation of uniform noise makes rewards with another noise."""

    def __init__(self, rng: np.random.Generator, transform: Callable[[np.ndarray], np.ndarray]):
        self.rng, self.transform = rng, transform

    def random(self, n: int | None = None, out: np.ndarray | None = None):
        """Return n transformed uniforms, or one, or fill `out` with them."""
        u = self.transform(np.atleast_1d(self.rng.random(n if out is None else len(out))))
        if out is None:
            return u if n is not None else float(u[0])
        out[:] = u
        return out


def _widened(u: np.ndarray, times: float) -> np.ndarray:
    """The transform for uniform noise that is wider by a factor."""
    return 0.5 + times * (u - 0.5)


def _as_uniform(u: np.ndarray, quantile: Callable, scale: float) -> np.ndarray:
    """The transform u for which f + (2 u - 1) has noise with this quantile function."""
    return 0.5 + scale * quantile(np.clip(u, 1e-12, 1 - 1e-12)) / 2


def _gaussian(u: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(u)


def _heavy_tailed(u: np.ndarray) -> np.ndarray:
    """Student's t with three degrees of freedom."""
    from scipy.special import stdtrit

    return stdtrit(3, u)


def _sparse(u: np.ndarray) -> np.ndarray:
    """0 in 98 of 100, else a spike of +-10 scales."""
    return np.where(u < 0.01, -10.0, np.where(u > 0.99, 10.0, 0.0))


def simulate_drawn(name: str, scenario: DrawnScenario, run: int, cells: str = "random", **settings) -> Measurements:
    """Simulate an algorithm in one run of a scenario: problem, cells and noise are the same for every algorithm."""
    problem = DrawnProblem(scenario, run)
    return simulate_with_streams(problem.streams(), name, problem, scenario.horizon, cells=cells, **settings)


def simulate_with_streams(
    streams: list, name: str | Algorithm, problem: Problem, horizon: int, noise=None, cells: str = "random", **settings
) -> Measurements:
    """Simulate an algorithm as `pfpne.simulate` does, with these streams instead of the problem's own.

    noise: the noise in the algorithm's Task.
    """
    algorithm, seed, run = get_algorithm(name), problem.seed, problem.run
    partition = partition_of(problem, cells, seed, run)
    task = Task(partition, problem.n_clients, horizon, noise, None, seed, key=(problem.name, run))
    fast, made_settings, checkpoints = (
        fast_simulation_of(algorithm),
        make_settings(name, settings),
        checkpoints_of(horizon),
    )
    if fast is not None:
        return fast(problem, task, made_settings, streams, checkpoints, False)
    return run_objects(algorithm.federation(task, made_settings), problem, streams, checkpoints, False, None)
