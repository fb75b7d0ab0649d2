"""The finite sets of arms of the baselines that do not search a continuous domain (fed1-ucb, fn-ucb)."""

import numpy as np

from pfpne.federation import Task

VALUES_PER_DIMENSION = 20  # in 1-D and 2-D: all their combinations are arms
POINTS = 1000  # in more dimensions: random points


def draw_arms(task: Task) -> np.ndarray:
    """The arms (K, d) of a run: the same for every algorithm, since the stream "arms" of the task names them.

    Values and points are uniform; combinations (K = 20 or 400) with the last dimension varying fastest. Where the task
    has candidates, values or points are drawn from theirs without replacement, all of them if there are fewer.
    """
    rng, candidates = task.stream("arms"), task.candidates
    low, high = task.partition.domain.T
    if len(low) > 2 and candidates is None:
        return low + (high - low) * rng.random((POINTS, len(low)))
    if len(low) > 2:
        return rng.permutation(candidates)[:POINTS]
    if candidates is None:
        axes = low[:, None] + (high - low)[:, None] * rng.random((len(low), VALUES_PER_DIMENSION))
    else:
        axes = [rng.permutation(np.unique(column))[:VALUES_PER_DIMENSION] for column in candidates.T]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
