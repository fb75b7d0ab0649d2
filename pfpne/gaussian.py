"""A Gaussian process of noisy values on the unit cube: a model of a function from a few dozen evaluations.

f is Gaussian with a constant mean and the covariance s^2 k(x, x'), k the Matern kernel of order 5/2 with a length scale
for each dimension; a value is f(x) plus noise of variance s^2 v / count. There may be a second output, a function whose
correlation with f is rho, such as the other clients' beliefs. Source: Rasmussen and Williams, "Gaussian Processes for
Machine Learning", 2006, equations 2.25, 2.26, 2.41, 2.42 (constant mean) and 5.8 (marginal likelihood).

The hyper-parameters (length scales, v, rho) maximise the marginal likelihood, times weak priors, over a small grid,
by steps to the best neighbour; s^2 and the constant means maximise it given these.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import scipy  # its parts are slow to import, so SciPy does so when they are first needed

SCALES = np.geomspace(0.06, 4.0, 9)
NOISE_VARIANCES = np.geomspace(1e-4, 10.0, 11)  # v, the noise variance of one evaluation, in units of s^2
NOISELESS_VARIANCE = 1e-6  # v without noise: a jitter for the numerics
RHOS = np.array([0.0, 0.4, 0.7, 0.9, 0.97])
TYPICAL_SCALE, TYPICAL_VARIANCE = (0.4, 0.9), (0.5, 1.5)  # the priors: median, and standard deviation of the logarithm


@dataclass(frozen=True, eq=False)
class Values:
    """Values y (n,) at points x (n, d).

    count (n,) is the number of evaluations that each value averages; it may be fractional. output (n,) is 0 for values
    of f, and 1 for values of the second output.
    """

    x: np.ndarray
    y: np.ndarray
    count: np.ndarray
    output: np.ndarray

    @staticmethod
    def single(x, y) -> "Values":
        """Return values that are one evaluation of f each."""
        return Values(np.asarray(x), np.asarray(y), np.ones(len(y)), np.zeros(len(y), dtype=int))

    def with_second_output(self, x, y, count) -> "Values":
        """Return these values followed by values of the second output, with count > 0 (n,)."""
        pairs = ((self.x, x), (self.y, y), (self.count, count), (self.output, np.ones(len(y), dtype=int)))
        return Values(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters of a `GaussianProcess`, as positions: scale in SCALES, variance in NOISE_VARIANCES, rho in RHOS.

    variance: the variance of the noise; None for NOISELESS_VARIANCE. The class of the same name in
    pfpne.algorithms.gp_tree is for another process, on a tree, and holds the values themselves.
    """

    scale: tuple[int, ...]
    variance: int | None
    rho: int

    @staticmethod
    def typical(d: int, noisy: bool = True) -> "Hyper":
        """Return the hyper-parameters that a fit begins with, in d dimensions."""
        return Hyper((4,) * d, 6 if noisy else None, 3)

    def neighbours(self, has_second: bool) -> list["Hyper"]:
        """Return the neighbours on the grid, one step along one axis. rho is moved only with a second output."""
        steps = []
        for j, by in itertools.product(range(len(self.scale)), (-1, 1)):
            if 0 <= self.scale[j] + by < len(SCALES):
                scale = tuple(s + by * (i == j) for i, s in enumerate(self.scale))
                steps.append(replace(self, scale=scale))
        for name, grid in (("variance", NOISE_VARIANCES), ("rho", RHOS)):
            index = getattr(self, name)
            if index is not None and (has_second or name == "variance"):
                steps += [replace(self, **{name: index + by}) for by in (-1, 1) if 0 <= index + by < len(grid)]
        return steps

    def log_prior(self) -> float:
        """Return the logarithm of the prior density, up to a constant."""
        parts = [(SCALES[s], *TYPICAL_SCALE) for s in self.scale]
        if self.variance is not None:
            parts.append((NOISE_VARIANCES[self.variance], *TYPICAL_VARIANCE))
        return -0.5 * sum((np.log(x / median) / deviation) ** 2 for x, median, deviation in parts)


# LAPACK's routines are called as such. Of a few dozen values, scipy.linalg's own functions for the same take more than
# twice as long, and a fit makes hundreds of these models.
def _cholesky(a: np.ndarray) -> np.ndarray:
    """Return the lower triangle L with L L^T = a. Raises LinAlgError if a is not positive definite."""
    L, info = scipy.linalg.lapack.dpotrf(a, lower=1, clean=1)
    if info:
        raise np.linalg.LinAlgError("The covariances of the values are not positive definite.")
    return L


def _solve_lower(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return x with L x = b, L a lower triangle."""
    return scipy.linalg.lapack.dtrtrs(L, b, lower=1)[0]


class GaussianProcess:
    """f given some values and hyper-parameters. constant_means (outputs,): the constant means; variance: s^2."""

    def __init__(self, values: Values, hyper: Hyper):
        self.values, self.hyper = values, hyper
        self._scale, self._rho = SCALES[list(hyper.scale)], RHOS[hyper.rho]
        self._noise_variance = NOISELESS_VARIANCE if hyper.variance is None else NOISE_VARIANCES[hyper.variance]
        K = self._covariance(values.x, values.output, values.x, values.output)
        K.flat[:: len(K) + 1] += self._noise_variance / values.count  # the diagonal
        self._L = _cholesky(K)
        self._H = (values.output[:, None] == np.arange(values.output.max() + 1)).astype(float)
        self._H_white = _solve_lower(self._L, self._H)
        y_white = _solve_lower(self._L, values.y)
        self._R = _cholesky(self._H_white.T @ self._H_white)
        self.constant_means = scipy.linalg.lapack.dpotrs(self._R, self._H_white.T @ y_white, lower=1)[0]
        self._white = y_white - self._H_white @ self.constant_means
        self.variance = max(float(self._white @ self._white) / len(values.y), 1e-18)

    def _covariance(self, x, output, x_other, output_other) -> np.ndarray:
        a, b = x / self._scale, x_other / self._scale
        square = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
        r = np.sqrt(5 * np.maximum(square, 0.0))
        k = (1 + r + r * r / 3) * np.exp(-r)
        return (
            k
            if output.max() == output_other.max() == 0
            else k * np.where(output[:, None] == output_other, 1.0, self._rho)
        )

    def log_posterior(self) -> float:
        """Return the log posterior of the hyper-parameters, up to a constant, at the best s^2."""
        n = len(self.values.y)
        return -0.5 * n * np.log(self.variance) - np.log(self._L.diagonal()).sum() + self.hyper.log_prior()

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the standard deviation (n,) of f itself, without noise, at x (n, d)."""
        k = self._covariance(self.values.x, self.values.output, x, np.zeros(len(x), dtype=int))
        white = _solve_lower(self._L, k)
        mean = self.constant_means[0] + white.T @ self._white
        missed = -self._H_white.T @ white  # for the uncertainty of the constant means
        missed[0] += 1
        added = _solve_lower(self._R, missed)
        share = np.maximum(1 - (white * white).sum(axis=0), 0.0) + (added * added).sum(axis=0)
        return mean, np.sqrt(self.variance * share)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise of one evaluation."""
        return float(np.sqrt(self.variance * self._noise_variance))

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the leave-one-out residuals (n,) of the values, and the residuals' variances (equation 5.12)."""
        inverse = scipy.linalg.cho_solve((self._L, True), np.eye(len(self.values.y)), check_finite=False)
        variance = 1 / inverse.diagonal()  # in units of s^2
        return inverse @ (self.values.y - self._H @ self.constant_means) * variance, self.variance * variance


def fit(values: Values, start: Hyper, steps: int = 20) -> Hyper:
    """Return the hyper-parameters that explain the values best, by steps uphill from start."""
    has_second = values.output.max() == 1
    top, heights = start, {}
    for _ in range(steps):
        candidates = [top, *top.neighbours(has_second)]
        for hyper in candidates:
            if hyper not in heights:
                heights[hyper] = GaussianProcess(values, hyper).log_posterior()
        best = max(candidates, key=heights.__getitem__)
        if best == top:
            break
        top = best
    return top


NOISE_NEIGHBOURHOOD = 0.2  # width of the neighbourhood over which the local noise is averaged
AVERAGE_NOISE_WEIGHT = 4.0  # the weight of the average noise, in numbers of values
MAX_MODEL_VALUES = 500  # the largest number of values in the final model, since the cost is cubic


def with_local_noise(values: Values, start: Hyper) -> tuple[Values, Hyper]:
    """Return the values with counts that follow the local noise, and hyper-parameters for them.

    Each count is divided by the local noise relative to the average noise. Noise is measured by the squared
    leave-one-out residuals over their predicted variances. The local noise is their mean over the value's
    neighbourhood, shrunk towards the mean over all values.
    """
    hyper, own = fit(values, start), values.output == 0
    if hyper.variance is None:
        return values, hyper
    difference, variance = GaussianProcess(values, hyper).leave_one_out()
    surprise = (difference**2 / variance)[own]
    square = ((values.x[own, None] - values.x[own]) ** 2).sum(axis=2)
    weight = np.exp(-0.5 * square / NOISE_NEIGHBOURHOOD**2)
    local = (weight @ surprise + AVERAGE_NOISE_WEIGHT * surprise.mean()) / (weight.sum(axis=1) + AVERAGE_NOISE_WEIGHT)
    counts = values.count.copy()
    counts[own] /= np.clip(local / max(surprise.mean(), 1e-300), 0.01, 100)
    values = replace(values, count=counts)
    return values, fit(values, hyper)
