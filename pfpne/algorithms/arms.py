"""The finite sets of arms of fed1-ucb and fn-ucb, which do not search a continuous domain."""

import numpy as np

from pfpne.federation import Task

VALUES_PER_DIMENSION = 20  # in 1-D and 2-D: all their combinations are arms
RANDOM_ARMS = 1000  # in more dimensions: random points


def draw_arms(task: Task) -> np.ndarray:
    """Draw the arms (K, d) of a run from the task's stream "arms": the same for every algorithm.

    In one or two dimensions, they are all combinations of 20 uniform values per dimension (K = 20 or 400), the last
    dimension varying fastest; in more, 1000 uniform points. If the task has candidates, the values or points are drawn
    from the candidates' without replacement; if there are fewer candidates, all of them are used.
    """
    rng, candidates = task.stream("arms"), task.candidates
    low, high = task.partition.domain.T
    if len(low) > 2:
        if candidates is None:
            return low + (high - low) * rng.random((RANDOM_ARMS, len(low)))
        return rng.permutation(candidates)[:RANDOM_ARMS]
    if candidates is None:
        axes = low[:, None] + (high - low)[:, None] * rng.random((len(low), VALUES_PER_DIMENSION))
    else:
        axes = [rng.permutation(np.unique(column))[:VALUES_PER_DIMENSION] for column in candidates.T]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
