"""Each bound against numbers worked out by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfpne.algorithms.pf_pne import compute_log_term, compute_tau, half_width, is_kept, transition_depth


def test_the_logarithm_is_of_c_1_T_over_delta_and_never_negative():
    assert compute_log_term(100, 2.0, 0.5) == pytest.approx(5.99146, abs=1e-5)  # log 400
    assert compute_log_term(1, 1.0, 1.0) == 0.0
    assert compute_log_term(1, 1.0, 2.0) == 0.0  # log(1/2), floored


@pytest.mark.parametrize(
    ("h", "log_term", "c", "nu_1", "rho", "wanted"),
    [
        (0, 1.5, 2.0, 1.0, 0.5, 6),  # 4 x 1.5
        (1, 1.5, 2.0, 1.0, 0.5, 24),  # 4 x 1.5 x 4
        (1, 1.5, 2.0, 2.0, 0.5, 6),  # 24 / 4
        (2, 1.5, 1.0, 1.0, 0.25, 384),  # 1.5 x 4^4
        (0, 1.3, 1.0, 1.0, 0.5, 2),  # 1.3 rounded up
        (0, math.log(2e6), 0.1, 1.0, 0.5, 1),  # the paper's constants, T = 100,000 and M = 20: log = 14.5087
        (3, math.log(2e6), 0.1, 1.0, 0.5, 10),  # 0.145087 x 64 = 9.29
        (7, math.log(2e6), 0.1, 1.0, 0.5, 2378),  # 0.145087 x 16,384 = 2377.1
        (5, 0.0, 0.1, 1.0, 0.5, 1),  # a mean needs a sample
        (40, 14.5, 0.1, 1.0, 0.5, 2**62),  # 0.145 x 2^80: more than any horizon
        (10**6, 14.5, 0.1, 1.0, 0.5, 2**62),
        (400, 14.5, 1e5, 1.0, 0.5, 2**62),
    ],
)
def test_tau(h, log_term, c, nu_1, rho, wanted):
    assert compute_tau(h, log_term, c, nu_1, rho) == wanted


def test_radius():
    assert half_width(1, 4.0, 0.1) == pytest.approx(0.2)  # 0.1 x 2
    np.testing.assert_allclose(half_width(np.array([4, 16]), 4.0, 0.1), [0.1, 0.05])
    assert half_width(7, 0.0, 0.1) == 0.0


@pytest.mark.parametrize(
    ("Delta", "nu_1", "rho", "wanted"),
    [
        (0.01, 1.0, 0.5, 7),  # the paper's setting: 2^-6 = 0.0156, 2^-7 = 0.0078
        (1.0, 1.0, 0.5, 0),
        (3.0, 1.0, 0.5, 0),
        (0.3, 1.0, 0.5, 2),
        (0.25, 1.0, 0.5, 2),  # equality counts
        (0.3, 4.0, 0.5, 4),
        (0.02, 1.0, 0.1, 2),
        (0.0, 1.0, 0.5, math.inf),  # no transition
    ],
)
def test_transition_depth(Delta, nu_1, rho, wanted):
    assert transition_depth(Delta, nu_1, rho) == wanted


def test_transition_depth_where_the_quotient_of_logarithms_rounds_wrongly():
    powers = range(64)
    assert [transition_depth(2.0**-k, 1.0, 0.5) for k in powers] == list(powers)
    assert [k for k in powers if math.ceil(math.log(2.0**-k) / math.log(0.5)) != k]  # it does: at 29, 31, ...


@given(nu_1=st.floats(1e-3, 1e3), Delta=st.floats(1e-12, 1e3))
def test_transition_depth_is_the_smallest(nu_1, Delta):
    h = transition_depth(Delta, nu_1, 0.5)
    assert Fraction(nu_1) / 2**h <= Fraction(Delta)
    assert h == 0 or Fraction(nu_1) / 2 ** (h - 1) > Fraction(Delta)


def test_elimination():
    # best mean less its b: 0.9 - 0.05 = 0.85. nu_1 rho^h = 0.5 at depth 1
    mean = np.array([0.9, 0.3, 0.2, 0.2])
    b = np.array([0.05, 0.02, 0.10, 0.20])
    # 1.45, 0.82, 0.80, 0.90 against 0.85: a wide interval saves the last
    assert is_kept(mean, b, 0, 1, 1.0, 0.5).tolist() == [True, False, False, True]
    # at depth 0 nu_1 rho^h = 1 saves all
    assert is_kept(mean, b, 0, 0, 1.0, 0.5).all()


def test_elimination_needs_a_strict_inequality():
    mean, b = np.array([0.0, 1.0]), np.array([0.25, 0.25])
    assert is_kept(mean, b, 1, 1, 1.0, 0.5).tolist() == [True, True]  # 0 + 0.25 + 0.5 = 1 - 0.25
    mean[0] = -1e-9
    assert is_kept(mean, b, 1, 1, 1.0, 0.5).tolist() == [False, True]


def test_elimination_of_several_clients_compares_each_node_with_its_own_best():
    mean, b = np.array([0.0, 1.0, 0.0, 0.1]), np.zeros(4)
    assert is_kept(mean, b, np.array([1, 1, 3, 3]), 1, 1.0, 0.5).tolist() == [False, True, True, True]
