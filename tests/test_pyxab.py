"""Our algorithms pull what PyXAB's own classes pull, given the same rewards on the same cells; and our random cells."""

import numpy as np
import pytest
from PyXAB.algos.HCT import HCT
from PyXAB.algos.HOO import T_HOO
from PyXAB.partition.BinaryPartition import BinaryPartition
from scipy.stats import ks_2samp

import pfpne
from pfpne.algorithms.hct import HCTSettings, TreeClient, TreeSettings, pyxab_constants
from pfpne.algorithms.hoo import hoo_constants
from pfpne.federation import Task
from pfpne.partition import Partition
from pfpne.pyxab import PyXABPartition, to_pyxab
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.tree import simulate_tree_clients

HCT_CASE = (HCT, {}, pyxab_constants, HCTSettings(), 1_300)  # the tree is refreshed at 1,024
HOO_CASE = (T_HOO, {"rounds": 1_000}, hoo_constants, TreeSettings(), 1_000)


@pytest.mark.parametrize(("algorithm", "given", "theory", "settings", "T"), [HCT_CASE, HOO_CASE], ids=["hct", "hoo"])
@pytest.mark.parametrize(
    ("objective", "noise", "seed"), [("garland", "bernoulli", 0), ("himmelblau", 0.1, 1), ("rastrigin", 2.0, 2)]
)
def test_the_same_pulls(algorithm, given, theory, settings, T, objective, noise, seed):
    problem = pfpne.make_problem(objective, n_clients=1, noise=noise, seed=seed)
    partition = Partition(problem.domain, cells="random", seed=seed)
    task = Task(partition, 1, T, noise)
    theirs = algorithm(domain=problem.domain.tolist(), partition=to_pyxab(partition), **given)
    ours = TreeClient(task, theory(settings, partition, T))
    rng, values, gaps = noise_streams(problem, seed, 0)[0], {}, []
    for t in range(1, T + 1):
        point = tuple(theirs.pull(t))
        assert point == tuple(ours.ask().points[0])
        if point not in values:
            values[point] = problem.client_values(0, np.array([point]))
        reward = draw_rewards(values[point], np.array([1]), noise, rng)
        theirs.receive_reward(t, reward[0])
        ours.tell(reward)
        gaps.append(problem.optimum[0] - values[point][0])
    streams, t = noise_streams(problem, seed, 0), np.arange(1, T + 1)
    assert np.array_equal(
        simulate_tree_clients(theory, problem, task, settings, streams, t, False).regret[0], np.cumsum(gaps)
    )


@pytest.mark.parametrize(("objective", "told_from_cyclic"), [("rastrigin", True), ("himmelblau", False)])
def test_random_cells_give_the_regret_that_pyxabs_own_give(objective, told_from_cyclic):
    regret = np.empty((3, 30))
    for run in range(30):
        problem = pfpne.make_problem(objective, n_clients=2, run=run)
        theirs = PyXABPartition(BinaryPartition, problem.domain, max_depth=problem.max_depth, seed=run)
        for row, how in zip(regret, ({"cells": "random"}, {"partition": theirs}, {"cells": "cyclic"}), strict=True):
            row[run] = pfpne.simulate("pe", problem, 5_000, **how).regret[:, -1].mean()
    assert ks_2samp(regret[0], regret[1]).pvalue > 0.1
    assert (ks_2samp(regret[0], regret[2]).pvalue < 1e-6) == told_from_cyclic  # so that it can tell
