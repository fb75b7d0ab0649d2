"""Truncated HOO by hand. Its compiled simulation: test_hct.py; against PyXAB's: test_pyxab.py."""

import math

import pytest

from pfpne.algorithms.hct import TreeClient, TreeSettings
from pfpne.algorithms.hoo import hoo_constants, truncation_depth
from pfpne.federation import Task
from pfpne.partition import Partition


def pulls(client: TreeClient, n: int) -> list[float]:
    """The next n pulls of a client, with noiseless rewards f(x) = x on [0, 1]."""
    played = []
    for _ in range(n):
        played.append(float(client.ask().points[0, 0]))
        client.tell([played[-1]])
    return played


def client(T: int, max_depth=None) -> TreeClient:
    partition = Partition([[0, 1]], max_depth=max_depth)
    return TreeClient(Task(partition, 1, T), hoo_constants(TreeSettings(), partition, T))


def test_truncation_depth_by_hand():
    assert truncation_depth(1, TreeSettings()) == 0
    assert truncation_depth(8, TreeSettings()) == 2  # log2(8) / 2 = 1.5
    assert truncation_depth(1000, TreeSettings()) == 5  # 4.98
    assert truncation_depth(1000, TreeSettings(nu_1=0.01)) == -1  # 4.98 - 6.64: only the root is split


def test_bad_settings_are_refused():
    for bad in ({"nu_1": 0}, {"rho": 1.0}, {"rho": -0.5}, {"nu_1": math.inf}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            TreeSettings(**bad)


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
    hoo = client(8)
    assert pulls(hoo, 8) == [0.75, 0.25, 0.875, 0.375, 0.625, 0.9375, 0.6875, 0.125]
    assert hoo.best() == [0.6875]  # one pull each of (3,6) and (3,8): the smaller index


def test_the_root_is_split_however_small_nu_1_is():
    partition, settings = Partition([[0, 1]]), TreeSettings(nu_1=0.001)  # the truncation depth is below -1
    hoo = TreeClient(Task(partition, 1, 20), hoo_constants(settings, partition, 20))
    assert truncation_depth(20, settings) < -1 and set(pulls(hoo, 20)) == {0.25, 0.75}


def test_max_depth_is_respected():
    assert set(pulls(client(200, max_depth=2), 200)) <= {0.25, 0.75, 0.125, 0.375, 0.625, 0.875}
