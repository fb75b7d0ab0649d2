"""The statistics of the claims by hand: sign flips, intervals, exponents, corrections."""

import itertools
import math

import numpy as np
import pytest

from pfpne.paper.claims import stats


def rng():
    return np.random.default_rng(0)


def test_sign_flip_by_hand():
    # The eight sums of +-1 +-2 +-3 are -6, -4, -2, 0, 0, 2, 4, 6.
    assert stats.sign_flip([-1, -2, -3], rng()) == (1 / 8, 1.0)
    assert stats.sign_flip([1, -2, -3], rng()) == (2 / 8, 7 / 8)
    assert stats.sign_flip([1, 2, -3], rng()) == (5 / 8, 5 / 8)
    assert stats.sign_flip([-5], rng()) == (1 / 2, 1.0)
    assert stats.sign_flip([0, 0, 0, 0], rng()) == (1.0, 1.0)
    assert stats.sign_flip([1.0, np.nan], rng()) == (1.0, 1.0)


@pytest.mark.parametrize("n", [2, 5, 9, 10])
def test_sign_flip_agrees_with_all_signs_one_by_one(n):
    values = np.random.default_rng(n).normal(-0.3, 1, n)
    sums = np.array([np.dot(signs, values) for signs in itertools.product((-1, 1), repeat=n)])
    below, above = (sums <= values.sum() + 1e-12).mean(), (sums >= values.sum() - 1e-12).mean()
    assert stats.sign_flip(values, rng()) == (below, above)


def test_sign_flip_beyond_the_exact_one_is_drawn_from_the_generator():
    values = np.random.default_rng(3).normal(-0.3, 1, stats.MAX_EXACT + 1)
    first, again = stats.sign_flip(values, rng()), stats.sign_flip(values, rng())
    exact_without_last = stats.sign_flip(values[:-1], rng())
    assert first == again and first[0] == pytest.approx(exact_without_last[0], abs=0.05)


def test_power_law_is_recovered():
    x = np.array([3_125, 6_250, 12_500, 25_000, 50_000, 100_000])
    assert stats.growth_exponents(x, np.stack([3 * x**0.75, 0.2 * x**-0.25])) == pytest.approx([0.75, -0.25])
    assert np.isnan(stats.growth_exponents(x, np.array([[1, 2, 0, 4, 5, 6]]))).all()
    assert np.isnan(stats.growth_exponents([5], np.array([[1.0]]))).all()


def test_an_interval_by_hand():
    values = np.random.default_rng(1).normal(2, 1, 30)
    low, high = stats.mean_interval(values, rng())
    assert low < values.mean() < high and (low, high) == stats.mean_interval(values, rng())
    assert high - low == pytest.approx(2 * 1.96 * values.std(ddof=1) / math.sqrt(30), rel=0.15)
    assert stats.mean_interval([0.3, 0.3, 0.3], rng()) == pytest.approx((0.3, 0.3))
    assert np.isnan(stats.mean_interval([1.0], rng())).all()


def test_a_ratio_by_hand():
    assert stats.ratio_interval(np.array([2.0, 4.0]), np.array([1.0, 2.0]), rng()) == (2.0, 2.0, 2.0)
    assert stats.ratio_interval(np.array([3.0]), np.array([2.0]), rng())[0] == 1.5
    found, low, high = stats.ratio_interval(np.array([1.0, 9.0, 2.0]), np.array([1.0, 2.0, 3.0]), rng())
    assert found == 2.0 and low == pytest.approx(2 / 3) and high == pytest.approx(9 / 2)  # (2, 2, 2) and (9, 9, 9)
    assert np.isnan(stats.ratio_interval(np.array([1.0, 2.0]), np.array([0.0, 1.0]), rng())).all()
    ratio, low, high = stats.ratio_interval(np.array([3.0, 5.0]), np.array([1.0, 3.0]), rng())  # each 2 above
    assert (ratio, low, high) == (2.0, pytest.approx(5 / 3), 3.0)


def test_the_sign_flip_test_is_exact_for_up_to_forty_runs():
    values = np.random.default_rng(7).normal(0, 1, 41)
    first, other = (stats.sign_flip(values[:40], np.random.default_rng(seed)) for seed in (1, 2))
    drawn, again = stats.sign_flip(values, rng()), stats.sign_flip(values, np.random.default_rng(2))
    assert first == other and drawn != again
    assert sum(drawn) == pytest.approx(1, abs=0.02)  # of one side each
    signs = 1 - 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1)
    sums, observed = signs @ values[:16], values[:16].sum()
    wanted = (sums <= observed + 1e-12).mean(), (sums >= observed - 1e-12).mean()
    assert stats.sign_flip(values[:16], rng()) == pytest.approx(wanted)


def test_intervals_are_of_95_percent():
    values = np.random.default_rng(1).normal(2, 1, 400)
    width = 2 * 1.96 * values.std(ddof=1) / 20
    low, high = stats.mean_interval(values, rng())
    assert high - low == pytest.approx(width, rel=0.05)
    _, low, high = stats.ratio_interval(values + 3, np.ones(400), rng())
    assert high - low == pytest.approx(width, rel=0.05)
    base = np.random.default_rng(2).uniform(1, 2, 400)  # paired: what the two have in common is no luck
    _, low, high = stats.ratio_interval(base * (1 + 0.01 * values), base, rng())
    assert high - low < 0.01


def test_the_comparisons_of_a_claim_taken_together():
    low, high = (1 / 32, 1.0), (1.0, 1 / 32)  # surely right, surely wrong
    assert stats.combine_p_values(np.array([low, low])) == (1 / 32, 1.0)
    assert stats.combine_p_values(np.array([low, high])) == (1.0, 2 / 32)


def test_holm_by_hand():
    assert stats.holm_adjusted(np.array([0.01, 0.04, 0.03, 0.5])).tolist() == pytest.approx([0.04, 0.09, 0.09, 0.5])


def test_improvement_counts_every_pair_of_runs():
    assert stats.probability_of_improvement(np.array([1.0, 3.0]), np.array([2.0, 3.0])) == pytest.approx(2.5 / 4)
    certain = (np.zeros(2), np.ones(2)), (np.ones(3), np.zeros(3)), (np.ones(2), np.ones(2))  # 1, 0, and 1/2
    assert stats.improvement_interval([*certain], np.random.default_rng(0)) == pytest.approx((0.5, 0.5))
    low, high = stats.improvement_interval([(np.arange(9.0), np.arange(9.0))], np.random.default_rng(0))
    assert 0.1 < low < 0.5 < high < 0.9
    runs = np.arange(60.0)  # the standard error of Mann and Whitney's statistic is sqrt((m + n + 1) / (12 m n))
    low, high = stats.improvement_interval([(runs, runs + 0.5), (runs, runs - 0.5)], np.random.default_rng(0))
    error = math.sqrt(121 / (12 * 60**2)) / math.sqrt(2)  # of the mean of two
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.07) and low + high == pytest.approx(1, abs=0.03)
