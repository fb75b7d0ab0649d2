"""The statistics of the claims and of Table 1: small functions of numbers, one value per paired run."""

import functools

import numpy as np
import scipy  # scipy.stats is slow to import, so SciPy does so when it is first needed

MAX_EXACT = 40  # up to so many values the sign-flip test enumerates all 2^n signs
RESAMPLES = 9_999  # in the bootstrap, and in the sign-flip test beyond MAX_EXACT


def sign_flip(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """p-values under the nulls "the mean is not below 0" and "is not above 0", from paired differences (n,), n >= 1.

    If differences are symmetric about 0, all 2^n choices of signs are equally likely. The p-values are the shares of
    choices whose sum is at most, or at least, the observed sum. They are exact for n <= MAX_EXACT; beyond, RESAMPLES
    choices are drawn. Both are 1 if a value is not finite.
    """
    values = np.asarray(values, dtype=float)
    n, observed = len(values), values.sum()
    if not np.isfinite(values).all():
        return 1.0, 1.0
    if n > MAX_EXACT:
        how = {"permutation_type": "samples", "n_resamples": RESAMPLES, "rng": rng}
        test = functools.partial(scipy.stats.permutation_test, (values,), np.mean, **how)
        return tuple(float(test(alternative=side).pvalue) for side in ("less", "greater"))
    # Every sum is a sum over the first half plus a sum over the second half: two lists of 2^(n/2), not one of 2^n.
    halves = (zip(half, -half) for half in np.split(values, [n // 2]))
    first, second = (functools.reduce(np.add.outer, signs, np.zeros(1)).ravel() for signs in halves)
    second, rounding = np.sort(second), 1e-12 * np.abs(values).sum()
    # The sums come in pairs s, -s: as many are at least `observed` as are at most -observed.
    limits = (bound + rounding - first for bound in (observed, -observed))
    return tuple(float(np.searchsorted(second, limit, side="right").sum() / 2.0**n) for limit in limits)


def mean_interval(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % bootstrap interval (BCa) of the mean of values (n,); a point if all are equal, nan if n = 1."""
    values, mean = np.asarray(values, dtype=float), float(np.mean(values))
    if len(values) == 1 or not np.isfinite(values).all():
        return np.nan, np.nan
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return mean, mean
    ends = scipy.stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, rng=rng).confidence_interval
    return float(ends.low), float(ends.high)


def ratio_interval(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean of a (n,) over mean of b (n,), and the ends of its 95 % bootstrap interval: percentiles, over the pairs.

    A point if all pairs have one ratio; nan ends if there is one pair; all nan if a value of b is 0.
    """
    if not b.all():
        return np.nan, np.nan, np.nan
    of_means = float(a.mean() / b.mean())
    if len(a) == 1:
        return of_means, np.nan, np.nan
    if np.allclose(a, of_means * b, rtol=1e-12, atol=0):
        return of_means, of_means, of_means
    how = {"paired": True, "n_resamples": RESAMPLES, "method": "percentile", "rng": rng}
    ends = scipy.stats.bootstrap((a, b), lambda a, b, axis: a.mean(axis) / b.mean(axis), **how).confidence_interval
    return of_means, float(ends.low), float(ends.high)


def growth_exponents(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The exponents (n,) of y ~ x^a: slopes of log y on log x by least squares, for each row of y (n, k); x (k,).

    nan for a row that is not above 0 throughout, and if k = 1.
    """
    u, y = np.log(np.asarray(x, dtype=float)), np.asarray(y, dtype=float)
    u = u - u.mean()
    return np.log(np.where(y > 0, y, np.nan)) @ u / (u @ u or np.nan)


def combine_p_values(p: np.ndarray) -> tuple[float, float]:
    """A claim's p_right and p_wrong (see pfpne.paper.claims.verdicts), from those of its comparisons, n >= 1.

    p (n, 2): its columns are p_right and p_wrong of the comparisons. The claim is right if all comparisons are right
    ("smaller than each of the others"), so its p_right is the largest of theirs. It is wrong if any comparison is
    wrong, so its p_wrong is n times the smallest of theirs, at most 1.
    """
    p_right, p_wrong = p.T
    return p_right.max(), min(1.0, len(p) * p_wrong.min())


def holm_adjusted(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values (n,): for the k-th smallest, the largest (n - j + 1) p_j over j = 1..k, at most 1."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order])
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, steps)
    return adjusted


def probability_of_improvement(a: np.ndarray, b: np.ndarray) -> float:
    """The share of pairs of runs in which a (n,) is below b (n,), over all pairs; a tie counts one half."""
    a, b = np.asarray(a)[:, None], np.asarray(b)[None, :]
    return float(np.mean((a < b) + 0.5 * (a == b)))


def improvement_interval(pairs: list[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % interval of the mean probability over several comparisons: a bootstrap over the runs of each."""
    means = np.zeros(RESAMPLES // 5)
    for a, b in pairs:
        for k in range(len(means)):
            means[k] += probability_of_improvement(rng.choice(a, len(a)), rng.choice(b, len(b))) / len(pairs)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
