"""HCT by hand, and the compiled simulation of all trees (HOO's too) against the objects. PyXAB's: test_pyxab.py."""

import math
import pickle

import numpy as np
import pytest
from PyXAB.algos.HCT import compute_t_plus
from PyXAB.partition.RandomBinaryPartition import RandomBinaryPartition

import pfpne
from pfpne.algorithms.centralized import CentralizedServer, NextPoint, RewardReport, make_centralized
from pfpne.algorithms.hct import (
    HCTSettings,
    TreeClient,
    epoch_of,
    hct_constants,
    pyxab_constants,
    squared_half_width_at,
    threshold_at,
    traverse,
)
from pfpne.algorithms.hoo import hoo_constants
from pfpne.federation import Federation, Task
from pfpne.partition import Partition
from pfpne.pyxab import PyXABPartition
from pfpne.simulation import tree

UNIT = Partition([[0, 1]])
TREES = ("hct", "hct-pyxab", "centralized", "hoo")


def client(T: int, theory=hct_constants, partition=UNIT, **settings) -> TreeClient:
    """A client alone."""
    return TreeClient(Task(partition, 1, T), theory(HCTSettings(**settings), partition, T))


def pulls(client, f, n):
    """The first coordinates of a client's next n pulls, and what it learns from noiseless rewards f(x)."""
    played = []
    for _ in range(n):
        batch = client.ask()
        assert batch.counts.tolist() == [1]
        client.tell([f(x) for x in batch.points])
        played.append(float(batch.points[0, 0]))
    return played


# --- the constants ----------------------------------------------------------------------------------


def test_t_plus_is_pyxabs_for_all_horizons_in_use():
    for t in [1, 3, 5, 6, 7, *(2**e + s for e in range(2, 29) for s in (-1, 0, 1))]:
        assert 2 ** epoch_of(t) == compute_t_plus(t)
    assert [epoch_of(t) for t in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]


def test_thresholds_by_hand():
    s = HCTSettings()  # c_1 = (1/6)^(1/8) = 0.799338
    by_hand = 0.01 * math.log(1024 / 0.00799338)  # 0.117606
    assert squared_half_width_at(1024, 1.0, s) == pytest.approx(by_hand, rel=1e-6)
    steep = HCTSettings(nu_1=2.0)  # c_1 = (1/12)^(1/8) = 0.732996
    assert squared_half_width_at(1024, 1.0, steep) == pytest.approx(0.01 * math.log(1024 / 0.00732996), rel=1e-6)
    assert squared_half_width_at(1, 0.5, HCTSettings(delta=1.0)) == pytest.approx(0.01 * math.log(2))  # c_1 > 1/2: cut
    tau = [threshold_at(h, squared_half_width_at(1024, 0.5, s), s) for h in range(6)]
    assert tau == [0, 1, 2, 8, 31, 121]  # 0.117606 4^h, rounded up
    constants = hct_constants(HCTSettings(c=10, delta=1.0), UNIT, 1)  # cut at 1/2 in the thresholds, at 1 in the widths
    assert constants.threshold[0, :3].tolist() == [0, 278, 1110]  # 100 log 2 = 69.3147 times 4^h, rounded up
    assert constants.squared_half_width == pytest.approx([100 * math.log(1 / 0.799338)], rel=1e-5)


def test_bad_settings_are_refused():
    for bad in ({"nu_1": 0}, {"rho": 1.0}, {"rho": 0}, {"c": -1}, {"delta": 0}, {"delta": 2}, {"c": math.nan}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            HCTSettings(**bad)
    problem = pfpne.make_problem("garland", n_clients=1)
    with pytest.raises(ValueError, match="Delta"):
        pfpne.simulate("hct", problem, 10, Delta=0.1)


# --- by hand ----------------------------------------------------------------------------------------

# f(x) = x on [0, 1], no noise, nu_1 = 1, rho = c = 1/2, delta = 1. The squared width c^2 log(1/delta~(t^+)), which is
# (log t^+ - log c_1) / 4 with c_1 = 0.799338, is 0.0560, 0.2293, 0.4026, 0.5759 for t^+ = 1, 2, 4, 8. tau_1, four times
# that (but log 2 = 0.6931 at t^+ = 1, where delta~ is cut at 1/2) rounded up, is 1, 1, 2, 3; tau_2 is 3, 4, 7, 10.
# U = mean + 2^-h + sqrt(squared width / count).
#
#  t  pulled   x     U of the node pulled                 why, and what follows
#  1  (1,2)  0.75    0.75 + 0.5 + sqrt(0.0560) = 1.487    last of two at infinity; 1 >= tau_1 = 1: split
#  2  (1,1)  0.25    0.25 + 0.5 + sqrt(0.2293) = 1.229    split; the refresh had put (1,2) at 1.25 + 0.479 = 1.729
#  3  (1,2)  0.75    1.25 + sqrt(0.4026/2) = 1.699        1 < tau_1 = 2: pulled itself; now 2: PyXAB splits it again
#  4  (2,4)  0.875   0.875 + 0.25 + sqrt(0.4026) = 1.759  last of two at infinity; B of (1,2) stays 1.699
#  5  (1,2)  0.75    1.25 + sqrt(0.5759/3) = 1.688        2 < tau_1 = 3: pulled; now 3: PyXAB forgets (2,4)
#     hct:
#  6  (2,3)  0.625   0.625 + 0.25 + sqrt(0.5759) = 1.634  at infinity, (2,4) at 1.759
#  7  (2,4)  0.875   1.125 + sqrt(0.5759/2) = 1.662
#  8  (2,4)  0.875   1.125 + sqrt(0.5759/3) = 1.563       1.662 > 1.634
#     hct-pyxab:
#  6  (2,4)  0.875   1.125 + sqrt(0.5759) = 1.884         last of two new ones
#  7  (2,3)  0.625   1.634
#  8  (2,4)  0.875   1.125 + sqrt(0.5759/2) = 1.662       1.884 > 1.634
BY_HAND = {"nu_1": 1, "rho": 0.5, "c": 0.5, "delta": 1.0}


def test_hct_by_hand():
    hct = client(8, **BY_HAND)
    assert hct.best() == [0.5]
    assert pulls(hct, lambda x: x[0], 8) == [0.75, 0.25, 0.75, 0.875, 0.75, 0.625, 0.875, 0.875]
    assert hct.best() == [0.875]


def test_hct_pyxab_by_hand():
    assert pulls(client(8, pyxab_constants, **BY_HAND), lambda x: x[0], 8) == [
        *(0.75, 0.25, 0.75, 0.875, 0.75),
        *(0.875, 0.625, 0.875),
    ]


def test_with_three_children_all_are_compared_and_lie_in_their_parent():
    """In 54ths of the domain, with the defaults: each leaf is split at its first pull; of equal children the last is
    pulled first; and 53, 51 and 49 are the children of 51, a child of 45.
    """
    hct = client(12, partition=Partition([[0, 1]], k=3))
    played = pulls(hct, lambda x: x[0], 12)
    assert np.multiply(played, 54) == pytest.approx([45, 27, 9, 51, 45, 39, 51, 53, 51, 49, 53, 45])
    assert hct.best() * 54 == pytest.approx([53])


def test_best_is_the_most_pulled_of_the_deepest():
    hct, best = client(20), []
    for _ in range(7):
        pulls(hct, lambda x: x[0], 1)
        best.append(hct.best()[0])
    # defaults: pulls 0.75, 0.25, 0.875, 0.625, 0.875, 0.9375, 0.8125; of equal counts the smaller index
    assert best == [0.75, 0.25, 0.875, 0.625, 0.875, 0.9375, 0.8125]


def test_max_depth_is_respected():
    played = pulls(client(300, partition=Partition([[0, 1]], max_depth=2)), lambda x: 1 - abs(x[0] - 0.4), 300)
    assert set(played) <= {0.25, 0.75, 0.125, 0.375, 0.625, 0.875}
    assert played[-100:].count(0.375) > 50


@pytest.mark.parametrize("theory", [hct_constants, pyxab_constants, hoo_constants])
def test_the_way_down_from_the_top_is_that_from_the_root(theory):
    """A descent from the root that compares all children ends at the same node as the descent that is resumed."""
    settings, rng = HCTSettings(c=0.5, delta=1.0), np.random.default_rng(0)
    tree, resumed = TreeClient(Task(UNIT, 1, 600), theory(settings, UNIT, 600)), 0
    for _ in range(600):
        node, state = tree.node, tree.state[0]
        v = 0
        threshold = tree.constants.threshold[state["epoch"]]
        while node[v]["first_child"] >= 0 and node[v]["count"] >= threshold[node[v]["depth"]]:
            children = node["B"][node[v]["first_child"] :][:2]
            v = node[v]["first_child"] + 1 - np.argmax(children[::-1])  # the last of equal ones
        assert traverse(node, tree.state, tree.constants) == v
        resumed += state["top"] > 0
        tree.tell((rng.random(1) < np.sin(13 * tree.ask().points[0]) ** 2).astype(float))
    assert resumed > 300


# --- the compiled simulation is the objects ---------------------------------------------------------


def both(name, problem, T, **given):
    """The compiled run equals that of the objects to the last bit."""
    fast, slow = (pfpne.simulate(name, problem, T, global_regret=True, objects=o, **given) for o in (False, True))
    for field in ("t", "regret", "global_regret", "simple_regret", "rounds", "best"):
        assert np.array_equal(getattr(fast, field), getattr(slow, field)), field
    assert (np.diff(fast.regret, axis=1) >= 0).all() and (np.diff(fast.global_regret, axis=1) >= 0).all()


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(("objective", "noise", "T"), [("garland", "bernoulli", 400), ("rastrigin", 2.0, 150)])
def test_the_compiled_form_equals_the_objects(name, objective, noise, T):
    """Runs of other noise, and of one step and two: test_contract.py."""
    both(name, pfpne.make_problem(objective, n_clients=3, noise=noise, seed=4), T)


@pytest.mark.parametrize("name", TREES)
def test_so_it_does_on_other_partitions_and_with_other_settings(name):
    problem = pfpne.make_problem("himmelblau", n_clients=2, noise=0.1)
    both(name, problem, 150, partition=Partition(problem.domain, k=3, max_depth=20))
    both(name, problem, 150, partition=PyXABPartition(RandomBinaryPartition, problem.domain, max_depth=20))
    for depth in (0, 1, 2):
        both(name, problem, 60, partition=Partition(problem.domain, max_depth=depth))
    for settings in ({"nu_1": 0.01}, {"rho": 0.9}):
        both(name, problem, 150, **settings)


@pytest.mark.parametrize("name", ["hct", "hoo", "hct-noise", "pf-pne+"])
def test_blocks_of_clients_change_nothing(name, monkeypatch):
    problem = pfpne.make_problem("garland", n_clients=5, shift=0.8, noise=0.1)  # with other maxima, too
    at_once = pfpne.simulate(name, problem, 600)
    monkeypatch.setattr(tree, "BLOCK", 2)  # the last block has one
    in_blocks = pfpne.simulate(name, problem, 600)
    for field in ("t", "regret", "simple_regret", "rounds", "best"):
        assert np.array_equal(getattr(at_once, field), getattr(in_blocks, field)), field


def test_the_switch_matters():
    problem = pfpne.make_problem("himmelblau", n_clients=2)
    a, b = (pfpne.simulate(name, problem, 3000) for name in ("hct", "hct-pyxab"))
    assert not np.array_equal(a.regret, b.regret)


# --- centralized ------------------------------------------------------------------------------------


def test_centralized_with_one_client_is_hct():
    problem = pfpne.make_problem("himmelblau", n_clients=1, noise=0.1)
    a, b = (pfpne.simulate(name, problem, 3000) for name in ("hct", "centralized"))
    assert np.array_equal(a.regret, b.regret)


def test_centralized_messages_by_hand():
    # as hct by hand: the one tree pulls 0.75, 0.25, 0.75, 0.875, whoever evaluates; each sees f(x) = x
    task = Task(UNIT, n_clients=2, horizon=2)
    server, clients = make_centralized(task, HCTSettings(**BY_HAND))
    federation, mail, played = Federation(server, clients, (RewardReport,), (NextPoint,)), [], []
    federation.on_mail = lambda t, up, down: mail.append(
        (t, [(m, x.reward.tolist()) for m, x in up], [(m, x.point.tolist()) for m, x in down])
    )
    assert [client.best().tolist() for client in clients] == [[0.5], [0.5]]
    while federation.running:
        for m, batch in federation.ask():
            played.append((m, batch.points[0, 0]))
            federation.tell(m, batch.points[:, 0])
    assert played == [(0, 0.75), (1, 0.25), (0, 0.75), (1, 0.875)]
    assert mail == [
        (0, [], [(0, [0.75])]),
        (1, [(0, [0.75])], [(1, [0.25])]),
        (1, [(1, [0.25])], [(0, [0.75])]),
        (2, [(0, [0.75])], [(1, [0.875])]),
        (2, [(1, [0.875])], []),
    ]
    assert [client.best().tolist() for client in clients] == [[0.75], [0.875]]
    assert server.hct.best().tolist() == [0.875]


def test_centralized_communication_is_one_row_a_step():
    run = pfpne.simulate("centralized", pfpne.make_problem("himmelblau", n_clients=3, noise=0), 4)
    assert run.rounds.tolist() == [[0, 0, 2], [1, 3, 6], [2, 3, 6], [3, 3, 6], [4, 3, 4]]


def test_centralized_refuses_rewards_out_of_turn_or_no_numbers():
    server = CentralizedServer(Task(UNIT, 2, 2), HCTSettings())
    server.first_messages()
    for messages, match in (
        ({1: RewardReport(1, [0.5])}, "no message is awaited"),
        ({0: RewardReport(1, [math.nan])}, "nan"),
    ):
        with pytest.raises(ValueError, match=match):
            server.exchange(messages)
    before = pickle.dumps(server)
    assert list(server.exchange({0: RewardReport(1, [0.5])})) == [1]
    assert before != pickle.dumps(server) and server.exchange({0: RewardReport(1, [0.5])}) == {}
