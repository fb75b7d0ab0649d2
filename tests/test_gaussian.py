"""The Gaussian process, against the book's equations written plainly, and against scikit-learn's."""

import dataclasses

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from pfpne import gaussian
from pfpne.gaussian import NOISE_VARIANCES, RHOS, SCALES, GaussianProcess, Hyper, Values

HYPER = Hyper(scale=(3, 6), variance=4, rho=2)


def draw_values(n: int, n_of_second: int, seed: int = 0) -> Values:
    rng = np.random.default_rng(seed)
    values = Values.single(rng.random((n, 2)), rng.normal(3.0, 2.0, n))
    values = dataclasses.replace(values, count=rng.integers(1, 5, n).astype(float))
    more = rng.random((n_of_second, 2)), rng.normal(-1.0, 2.0, n_of_second), rng.integers(1, 5, n_of_second)
    return values.with_second_output(*more) if n_of_second else values


def covariance(x, output, other, output_of_other, hyper: Hyper = HYPER) -> np.ndarray:
    """Matern 5/2 in units of s^2, entry by entry."""
    k = np.empty((len(x), len(other)))
    for i, j in np.ndindex(*k.shape):
        r = np.sqrt(5 * sum(((a - b) / SCALES[s]) ** 2 for a, b, s in zip(x[i], other[j], hyper.scale, strict=True)))
        k[i, j] = (1 + r + r**2 / 3) * np.exp(-r) * (1 if output[i] == output_of_other[j] else RHOS[hyper.rho])
    return k


def by_the_book(values: Values, x: np.ndarray, hyper: Hyper = HYPER):
    """The constant means, s^2, and the mean and standard deviation of f at x: equations 2.41 and 2.42."""
    K = covariance(values.x, values.output, values.x, values.output, hyper)
    K += np.diag(NOISE_VARIANCES[hyper.variance] / values.count)
    H = np.eye(values.output.max() + 1)[values.output]
    inverse = np.linalg.inv(K)
    means = np.linalg.solve(H.T @ inverse @ H, H.T @ inverse @ values.y)
    rest = values.y - H @ means
    variance = rest @ inverse @ rest / len(values.y)
    k = covariance(values.x, values.output, x, np.zeros(len(x), dtype=int), hyper)
    h = np.zeros((H.shape[1], len(x)))
    h[0] = 1
    R = h - H.T @ inverse @ k
    share = 1 - np.diag(k.T @ inverse @ k) + np.diag(R.T @ np.linalg.solve(H.T @ inverse @ H, R))
    return means, variance, means[0] + k.T @ inverse @ rest, np.sqrt(variance * share), K


@pytest.mark.parametrize("n_of_second", [0, 6])
def test_it_is_that_of_the_book(n_of_second):
    values, x = draw_values(9, n_of_second), np.random.default_rng(5).random((7, 2))
    means, variance, mean, deviation, K = by_the_book(values, x)
    process = GaussianProcess(values, HYPER)
    assert process.constant_means == pytest.approx(means) and process.variance == pytest.approx(variance)
    assert process.sigma == pytest.approx(np.sqrt(variance * NOISE_VARIANCES[HYPER.variance]))
    predicted = process.predict(x)
    assert predicted[0] == pytest.approx(mean) and predicted[1] == pytest.approx(deviation)
    n = len(values.y)
    likelihood = -0.5 * n * np.log(variance) - 0.5 * np.linalg.slogdet(K)[1]  # at the best s^2, but for a constant
    assert process.log_posterior() == pytest.approx(likelihood + HYPER.log_prior())


def test_its_mean_and_deviation_are_those_of_scikit_learn():
    """Scikit-learn takes the mean for known; where it is, the deviation is the same up to what not knowing it adds."""
    values, x = draw_values(12, 0), np.random.default_rng(6).random((5, 2))
    process = GaussianProcess(values, HYPER)
    kernel = process.variance * Matern(SCALES[list(HYPER.scale)], nu=2.5)
    noise = process.variance * NOISE_VARIANCES[HYPER.variance] / values.count
    other = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    other.fit(values.x, values.y - process.constant_means[0])
    mean, deviation = other.predict(x, return_std=True)
    predicted = process.predict(x)
    assert predicted[0] == pytest.approx(mean + process.constant_means[0])
    assert (predicted[1] > deviation).all() and predicted[1] == pytest.approx(deviation, rel=0.3)


def test_what_the_others_predict_of_each_value():
    """Equation 5.12 is the prediction of a process without that value, at the same means and the same s^2."""
    values = draw_values(8, 5)
    process = GaussianProcess(values, HYPER)
    difference, variance = process.leave_one_out()
    *_, K = by_the_book(values, values.x)
    rest = values.y - process.constant_means[values.output]
    for i in range(len(rest)):
        others = np.arange(len(rest)) != i
        weights = np.linalg.solve(K[np.ix_(others, others)], K[others, i])
        assert difference[i] == pytest.approx(rest[i] - weights @ rest[others])
        assert variance[i] == pytest.approx(process.variance * (K[i, i] - weights @ K[others, i]))


@pytest.mark.parametrize("n_of_second", [0, 8])
def test_a_fit_ends_where_no_neighbour_explains_the_values_better(n_of_second):
    values = draw_values(14, n_of_second, seed=3)
    start = Hyper.typical(2)
    fitted = gaussian.fit(values, start)

    def height(hyper):
        return GaussianProcess(values, hyper).log_posterior()

    assert fitted != start and height(fitted) > height(start)
    assert all(height(hyper) <= height(fitted) for hyper in fitted.neighbours(n_of_second > 0))
    assert n_of_second or fitted.rho == start.rho  # without a second output nothing is known of rho


def test_neighbours_are_a_step_away_and_on_the_grid():
    corner = Hyper(scale=(0, len(SCALES) - 1), variance=0, rho=len(RHOS) - 1)
    expected = {
        dataclasses.replace(corner, scale=(1, len(SCALES) - 1)),
        dataclasses.replace(corner, scale=(0, len(SCALES) - 2)),
        dataclasses.replace(corner, variance=1),
    }
    assert set(corner.neighbours(False)) == expected
    assert set(corner.neighbours(True)) == expected | {dataclasses.replace(corner, rho=len(RHOS) - 2)}
    noiseless = Hyper.typical(2, noisy=False)
    assert all(hyper.variance is None for hyper in noiseless.neighbours(True))


def test_the_prior_is_highest_at_what_is_typical():
    """A logarithm away from the median by one standard deviation costs 1/2."""
    heights = {s: Hyper((s,), None, 0).log_prior() for s in range(len(SCALES))}
    assert max(heights, key=heights.__getitem__) == np.argmin(abs(np.log(SCALES / 0.4)))
    assert heights[0] == pytest.approx(-0.5 * (np.log(SCALES[0] / 0.4) / 0.9) ** 2)
    added = Hyper((2,), 3, 0).log_prior() - heights[2]
    assert added == pytest.approx(-0.5 * (np.log(NOISE_VARIANCES[3] / 0.5) / 1.5) ** 2)


def test_where_noise_is_stronger_values_count_for_less():
    """Values of a constant with noise of 0.1 on the left and of 2 on the right; those of others keep their counts."""
    rng = np.random.default_rng(4)
    x = rng.random((60, 1))
    y = rng.normal(0.0, np.where(x[:, 0] < 0.5, 0.1, 2.0))
    values = Values.single(x, y).with_second_output(x[:3], y[:3], np.full(3, 2.0))
    local, _ = gaussian.with_local_noise(values, Hyper.typical(1))
    left, right = local.count[:60][x[:, 0] < 0.3], local.count[:60][x[:, 0] > 0.7]
    assert left.min() > 3 * right.max() and (local.count[60:] == 2.0).all()
    same, hyper = gaussian.with_local_noise(values, Hyper.typical(1, noisy=False))
    assert same is values and hyper.variance is None


def test_the_local_noise_of_a_value_is_that_of_its_neighbours_in_all_dimensions():
    """Value by value, as the docstring says; and the hyper-parameters are those for the new counts."""
    values = draw_values(12, 5, seed=3)
    local, hyper = gaussian.with_local_noise(values, HYPER)
    before = gaussian.fit(values, HYPER)
    difference, variance = GaussianProcess(values, before).leave_one_out()
    surprise = (difference**2 / variance)[:12]
    for i in range(12):
        weight = np.exp([-0.5 * sum((values.x[i] - x) ** 2) / 0.2**2 for x in values.x[:12]])
        noise = (weight @ surprise + 4 * surprise.mean()) / (weight.sum() + 4)
        assert local.count[i] == pytest.approx(values.count[i] * surprise.mean() / noise)
    assert (local.count[12:] == values.count[12:]).all()
    assert hyper == gaussian.fit(local, before) != before


def test_values_that_are_all_0_have_a_model():
    process = GaussianProcess(Values.single([[0.1], [0.4], [0.7]], [0.0, 0.0, 0.0]), Hyper.typical(1))
    mean, deviation = process.predict(np.array([[0.2]]))
    assert np.isfinite(process.log_posterior()) and mean == 0 and 0 < deviation < 1e-6


def test_values_that_contradict_each_other_without_noise_are_an_error(monkeypatch):
    values = Values.single([[0.5], [0.5]], [0.0, 1.0])
    assert np.isfinite(GaussianProcess(values, Hyper((4,), None, 0)).log_posterior())  # the least variance is added
    monkeypatch.setattr(gaussian, "NOISELESS_VARIANCE", 0.0)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        GaussianProcess(values, Hyper((4,), None, 0))
