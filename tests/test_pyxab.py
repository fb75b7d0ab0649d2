"""Our algorithms pull what PyXAB's own classes pull, given the same rewards on the same cells."""

import numpy as np
import pytest
from PyXAB.algos.HCT import HCT
from PyXAB.algos.HOO import T_HOO

import pfpne
from pfpne.federation import Task
from pfpne.algorithms.hct import HCTSettings, Tree, fast_hct_pyxab
from pfpne.algorithms.hct import theory as hct_theory
from pfpne.algorithms.hoo import HOOSettings, fast_hoo
from pfpne.algorithms.hoo import theory as hoo_theory
from pfpne.partition import Partition, to_pyxab
from pfpne.simulation.noise import draw_rewards, noise_streams


def hct(domain, partition, T):
    theirs = HCT(domain=domain, partition=to_pyxab(partition))
    return theirs, Tree(partition, hct_theory(HCTSettings(), partition, T, split_again=True))


def hoo(domain, partition, T):
    theirs = T_HOO(domain=domain, partition=to_pyxab(partition), rounds=T)
    return theirs, Tree(partition, hoo_theory(HOOSettings(), partition, T))


@pytest.mark.parametrize(
    ("make", "fast", "settings", "T"),
    [(hct, fast_hct_pyxab, HCTSettings(), 5_000), (hoo, fast_hoo, HOOSettings(), 1_000)],
)
@pytest.mark.parametrize("objective", ["garland", "himmelblau", "rastrigin"])
@pytest.mark.parametrize(("noise", "seed"), [("bernoulli", 0), (0.1, 1), (2.0, 2)])
def test_the_same_pulls(make, fast, settings, T, objective, noise, seed):
    problem = pfpne.make_problem(objective, n_clients=1, noise=noise, seed=seed)
    partition = Partition(problem.domain)
    theirs, ours = make(problem.domain.tolist(), partition, T)
    rng, values, gaps = noise_streams(problem, seed, 0)[0], {}, []
    for t in range(1, T + 1):
        point = tuple(theirs.pull(t))
        assert point == tuple(ours.point())
        if point not in values:
            values[point] = problem.client_values(0, np.array([point]))
        reward = draw_rewards(values[point], np.array([1]), noise, rng)[0]
        theirs.receive_reward(t, reward)
        ours.learn(reward)
        gaps.append(problem.optimum[0] - values[point][0])
    task, streams = Task(partition, 1, T, noise), noise_streams(problem, seed, 0)
    traces = fast(problem, task, settings, streams, np.arange(1, T + 1), False)
    assert np.array_equal(traces.regret[0], np.cumsum(gaps))
