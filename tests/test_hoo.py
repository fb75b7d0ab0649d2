"""Truncated HOO by hand, and its compiled simulation against the objects. Against PyXAB's: test_pyxab.py."""

import math
import pickle

import numpy as np
import pytest

import pfpne
from pfpne.federation import Task
from pfpne.algorithms.hoo import HOOSettings, make_hoo, truncation_depth
from pfpne.partition import Partition

UNIT = Partition([[0, 1]])


def pulls(client, f, n):
    """The first coordinates of a client's next n pulls, with noiseless rewards f(x)."""
    played = []
    for _ in range(n):
        batch = client.ask()
        client.tell([f(x) for x in batch.points])
        played.append(float(batch.points[0, 0]))
    return played


def test_truncation_depth_by_hand():
    assert truncation_depth(1, HOOSettings()) == 0
    assert truncation_depth(8, HOOSettings()) == 2  # log2(8) / 2 = 1.5
    assert truncation_depth(1000, HOOSettings()) == 5  # 4.98
    assert truncation_depth(1000, HOOSettings(nu_1=0.01)) == -1  # 4.98 - 6.64: only the root is split


def test_bad_settings_are_refused():
    for bad in ({"nu_1": 0}, {"rho": 1.0}, {"rho": -0.5}, {"nu_1": math.inf}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            HOOSettings(**bad)


def test_hoo_by_hand():
    # f(x) = x on [0, 1], no noise, T = 8: U = mean + 2^-h + sqrt(2 log 8 / n), roots 2.039, 1.442, 1.177, 1.020, 0.912
    # for n = 1..5; leaves to depth 2 are split, so depth 3 is the last.
    #  t  pulled  x       U and B after it
    #  1  (1,2)  0.75     0.75 + 0.5 + 2.039 = 3.289; the last of two at infinity
    #  2  (1,1)  0.25     2.789
    #  3  (2,4)  0.875    (1,2): mean 0.8125, U = B = 2.755; (2,4): 3.164
    #  4  (2,2)  0.375    since 2.789 > 2.755; (1,1): mean 0.3125, 2.255; (2,2): 2.664
    #  5  (2,3)  0.625    (1,2): mean 0.75, 2.427; (2,3): 0.875 + 2.039 = 2.914
    #  6  (3,8)  0.9375   (2,4) 3.164 > (2,3) 2.914; (1,2): mean 0.7969, 2.317; (2,4): mean 0.9063, 2.598
    #  7  (3,6)  0.6875   (2,3) 2.914 > 2.598; (1,2): mean 0.775, 2.187
    #  8  (2,1)  0.125    (1,1) 2.255 > 2.187
    client = make_hoo(Task(UNIT, 1, 8), HOOSettings())[1][0]
    assert pulls(client, lambda x: x[0], 8) == [0.75, 0.25, 0.875, 0.375, 0.625, 0.9375, 0.6875, 0.125]
    assert client.best() == [0.6875]  # one pull each of (3,6) and (3,8): the smaller index


@pytest.mark.parametrize("noise", ["bernoulli", 0.1, 2.0, 0])
@pytest.mark.parametrize("settings", [{}, {"nu_1": 0.01}, {"rho": 0.9}])
def test_the_compiled_form_equals_the_objects(noise, settings):
    problem = pfpne.make_problem("himmelblau", n_clients=2, noise=noise)
    for T in (1, 2, 10, 300):
        both = (dict(objects=objects, global_regret=True, **settings) for objects in (False, True))
        fast, slow = (pfpne.simulate("hoo", problem, T, **given) for given in both)
        for field in ("regret", "global_regret", "simple_regret", "best"):
            assert np.array_equal(getattr(fast, field), getattr(slow, field))
        assert (np.diff(fast.regret, axis=1) >= 0).all() and len(fast.communication) == len(slow.communication) == 0
        assert ((problem.domain[:, 0] <= fast.best) & (fast.best <= problem.domain[:, 1])).all()


def test_max_depth_and_budget():
    client = make_hoo(Task(Partition([[0, 1]], max_depth=2), 1, 200), HOOSettings())[1][0]
    played = pulls(client, lambda x: x[0], 200)
    assert set(played) <= {0.25, 0.75, 0.125, 0.375, 0.625, 0.875}
    assert client.ask().size == 0


def test_a_saved_state_goes_on_the_same():
    client = make_hoo(Task(UNIT, 1, 200), HOOSettings())[1][0]
    pulls(client, lambda x: x[0], 100)
    copy = pickle.loads(pickle.dumps(client))
    assert pulls(client, lambda x: x[0], 100) == pulls(copy, lambda x: x[0], 100)
