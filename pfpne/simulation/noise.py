"""Add noise to noiseless values, with one uniform draw for each pull."""

import numpy as np

from pfpne.rng import stream


def noisy(means: np.ndarray, noise, u: np.ndarray, slope: float = 0.0) -> np.ndarray:
    """Turn the uniforms u in [0, 1) into rewards, in place, and return them.

    A reward is u < mean (Bernoulli), or mean + a (2u - 1) with a = noise + slope (1 - mean). The means are broadcast to
    the shape of u.
    """
    if noise == "bernoulli":
        u[...] = u < means
        return u
    u -= 0.5  # exact, so the same as a (2u - 1), with one pass less over the array
    u *= 2 * (noise + slope * (1 - means)) if slope else 2 * noise
    u += means
    return u


def draw_rewards(
    values: np.ndarray, counts: np.ndarray, noise, rng: np.random.Generator, slope: float = 0.0
) -> np.ndarray:
    """Return rewards (sum of counts,): each of the values (n,) counts (n,) times, in order; noise 0 draws nothing."""
    means = np.repeat(values, counts)
    return means if noise == 0 else noisy(means, noise, rng.random(len(means)), slope)


def noise_streams(problem, seed: int, run: int) -> list[np.random.Generator]:
    """Return one stream for each client. The noise at step t is the same for all algorithms (common random numbers)."""
    return [stream(seed, problem.name, run, m, "noise") for m in range(problem.n_clients)]
