"""The comparison with PyXAB's own classes: the same cells and noise for all, and no global random state."""

import importlib.util
import random

import numpy as np
import pytest
from PyXAB.algos.HOO import T_HOO

import pfpne
from pfpne.paths import INPUT_ROOT as CHECKOUT

BENCHMARK = CHECKOUT / "benchmarks" / "pyxab_rivals.py"
REGRETS, REFERENCE = np.array([[1.0, 3.0], [8.0, 8.0]]), np.array([[4.0, 4.0], [1.0, 3.0]])  # ratios of 1/2 and 4


@pytest.fixture(scope="module")
def rivals():
    """The benchmark, as a module."""
    spec = importlib.util.spec_from_file_location("pyxab_rivals", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_algorithm_runs_and_the_seed_decides(rivals):
    numpy_state, python_state = np.random.get_state(), random.getstate()
    first, again, other = (rivals.final_regrets("garland", 0.1, n_runs=1, horizon=30, seed=seed) for seed in (0, 0, 1))
    assert str(np.random.get_state()) == str(numpy_state)
    assert random.getstate() == python_state
    assert list(first) == [*rivals.PYXAB, *rivals.OURS]
    for label, regret in first.items():
        assert regret.shape == (1,)
        assert np.isfinite(regret[0])
        assert regret[0] >= 0
        assert regret == again[label]
        assert regret != other[label]


def test_pyxabs_classes_have_the_cells_and_the_noise_of_ours(rivals):
    problem = pfpne.make_problem("himmelblau", n_clients=1, noise="bernoulli", seed=3, run=2)
    ours = pfpne.simulate("hoo", problem, 100).regret[0, -1]
    theirs = rivals.pyxab_regret(lambda **given: T_HOO(rounds=100, **given), problem, 100)
    assert theirs == pytest.approx(ours, rel=1e-12)


def test_the_numbers_of_the_table(rivals):
    assert rivals.ratios(REGRETS, REFERENCE).tolist() == [0.5, 4]
    assert rivals.geometric_mean(REGRETS, REFERENCE) == pytest.approx(2**0.5)
    # without run 0 the ratios are 3/4 and 8/3, without run 1 they are 1/4 and 8: both times sqrt 2
    assert rivals.standard_error(REGRETS, REFERENCE) == pytest.approx(0, abs=1e-12)
    # without run 0 the ratio is 1, without run 1 it is 1/9: logarithms that are log 9 / 2 from their mean
    assert rivals.standard_error(np.array([[1.0, 9.0]]), np.array([[9.0, 9.0]])) == pytest.approx(np.log(9) / 2)
    assert rivals.cell(REGRETS, REFERENCE) == "1.41 (50 %)"
    assert rivals.verdict(REGRETS, REFERENCE) == "higher"
    assert rivals.verdict(REFERENCE, REGRETS) == "lower"
    assert rivals.verdict(REFERENCE, REFERENCE) == "equal"
