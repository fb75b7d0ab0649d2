"""PF-PNE, Fed-PNE and PE: cases worked by hand, and what must hold in every run."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfpne
from pfpne.algorithms import get_algorithm, make_federation, pf_pne, phases
from pfpne.federation import Federation, Task
from pfpne.messages import Message
from pfpne.partition import Partition
from pfpne.problems import problem_from_functions
from pfpne.simulation.simulate import simulate

PHASED = ("pf-pne", "fed-pne", "pe")
UNIT = Partition([[0, 1]])


def play(federation, functions, draw=None):
    """Drive a federation; return the pulls of each client, (point, count), and the mail, (t, up, down)."""
    pulls, mail = [[] for _ in functions], []
    federation.on_mail = lambda t, up, down: mail.append((t, up, down))
    while federation.running:
        for m, batch in federation.ask():
            x, counts = batch.points[:, 0], batch.counts
            pulls[m] += zip(x.tolist(), counts.tolist(), strict=True)
            rewards = np.repeat(functions[m](x), counts)
            federation.tell(m, rewards if draw is None else (draw.random(len(rewards)) < rewards).astype(float))
    return pulls, mail


def test_a_server_awaits_nothing_beyond_the_depth_of_the_partition():
    """H_0 is 7; cells of depth 1 are not split, so that nobody sends means of depth 2, or those of depth 1 again."""
    server = make_federation("pf-pne", Task(Partition([[0, 1]], max_depth=1), 2, 100)).server
    for depth in (0, 1):
        assert server.awaits(0).headers == range(depth, depth + 1)
        server.conclude(np.full((2, 2**depth), 0.5))
    assert server.awaits(0).kind is None


# --- one client, no noise -------------------------------------------------------------------------------
# f(x) = x on [0, 1]. c_1 = e delta / T makes log(c_1 T / delta) = 1; nu_1 = 1, rho = 1/2, c = 0.2:
#   tau_h = ceil(0.04 x 4^h): 0.04, 0.16, 0.64, 2.56, 10.24 -> 1, 1, 1, 3, 11
#   b = 0.2 / sqrt(n), so at depth h a node goes when it is more than 2 b + 2^-h below the best:
#   depth 0, one node: pulled at 1/2.
#   depth 1, n = 1: 0.4 + 0.5 = 0.9. Centres 1/4, 3/4, gap 1/2: both stay.
#   depth 2, n = 1: 0.4 + 0.25 = 0.65. Centres 1/8, 3/8, 5/8, 7/8, gaps 3/4, 1/2, 1/4, 0: node 1 goes.
#   depth 3, n = 3: 2 x 0.1155 + 0.125 = 0.356. Nodes 3..8, centres 5/16 ... 15/16, gaps 10/16, 8/16, 6/16 (0.375),
#     4/16 (0.25), ...: nodes 3, 4, 5 go.
#   depth 4: nodes 11..16, centres 21/32, 23/32, 25/32, ..., 11 pulls each. The horizon cuts.

LINE = {"nu_1": 1.0, "rho": 0.5, "c": 0.2, "delta": 1.0}
DEPTH_0 = [(1 / 2, 1)]
DEPTH_1 = [(1 / 4, 1), (3 / 4, 1)]
DEPTH_2 = [(1 / 8, 1), (3 / 8, 1), (5 / 8, 1), (7 / 8, 1)]
DEPTH_3 = [(i / 16, 3) for i in (5, 7, 9, 11, 13, 15)]


@pytest.mark.parametrize(
    ("name", "more", "wanted"),
    [
        # 1 + 2 + 4 + 18 = 25 pulls to depth 3, 25 left
        ("pe", {}, [*DEPTH_0, *DEPTH_1, *DEPTH_2, *DEPTH_3, (21 / 32, 11), (23 / 32, 11), (25 / 32, 3)]),
        # H_0 = 2, the smallest h with 2^-h <= 0.3. Then PE, from the root: what the client drew down to depth 2 is
        # enough; (2,1), which the server eliminated, goes again: 1/8 + 0.2 + 1/4 = 0.575 < 7/8 - 0.2 = 0.675
        (
            "pf-pne",
            {"Delta": 0.3},
            [*DEPTH_0, *DEPTH_1, *DEPTH_2, *DEPTH_3, (21 / 32, 11), (23 / 32, 11), (25 / 32, 3)],
        ),
        # |K^0| tau_0 = 1 <= M = 1: depth 0 is not sampled; |K^1| tau_1 = 2 > 1. 24 pulls to depth 3, 26 left
        ("fed-pne", {}, [*DEPTH_1, *DEPTH_2, *DEPTH_3, (21 / 32, 11), (23 / 32, 11), (25 / 32, 4)]),
    ],
)
def test_one_client_without_noise(name, more, wanted):
    T = 50
    federation = make_federation(name, Task(UNIT, 1, T), **LINE, c_1=math.e / T, **more)
    (pulls,), _ = play(federation, [lambda x: x])
    assert pulls == wanted

    # the simulator's regret is that of these pulls: the sum of 1 - x
    problem = problem_from_functions([lambda x: x[:, 0]], [[0, 1]], noise=0, optimum=[1.0])
    run = simulate(name, problem, T, **LINE, c_1=math.e / T, **more)
    points, counts = zip(*wanted, strict=True)
    np.testing.assert_allclose(run.regret[0], np.cumsum(1 - np.repeat(points, counts)), rtol=1e-12)


# --- two clients, two phases together ---------------------------------------------------------------------
# f_1(x) = x, f_2(x) = min(1, 0.45 + 0.6 x). log(c_1 T / delta) = 1 again; nu_1 = 0.2, rho = 1/2, c = 0.26:
#   tau_h = ceil(1.69 x 4^h): 1.69, 6.76, 27.04 -> 2, 7, 28;  b = 0.26 / sqrt(n)
# PF-PNE, Delta = 0.15: 0.2 > 0.15, 0.1 <= 0.15: H_0 = 1.
#   depth 0: ceil(2/2) = 1 pull each; t = 1. Up 2 x 1 mean, down 2 x 3 numbers.
#   depth 1: ceil(7/2) = 4 pulls each of 1/4 and 3/4; t = 9. Means 0.25 and 0.6, 0.75 and 0.9: global 0.425 and 0.825.
#     b = 0.26 / sqrt 8 = 0.0919: 0.425 + 0.0919 + 0.1 < 0.825 - 0.0919: node (1,1) goes. Up 2 x 2, down 2 x 3.
#   PE, depth 1: (1,1) lacks 7 - 4 = 3 pulls, (1,2) is protected with its global mean. b = 0.26 / sqrt 7 = 0.0983:
#     client 1: 0.25 + 0.0983 + 0.1 = 0.448 < 0.825 - 0.0919 = 0.733: gone for good;
#     client 2: 0.60 + 0.0983 + 0.1 = 0.798 > 0.733: it stays.
#   depth 2, 28 pulls each, t = 12: client 1 has the centres 5/8 and 7/8, client 2 1/8, 3/8, 5/8, 7/8.
# Fed-PNE: |K^0| tau_0 = 2 <= M = 2, |K^1| tau_1 = 14 > 2: it starts at depth 1.
#   depth 1: 4 pulls each, t = 8; node (1,1) goes as above. Up 2 x 2, down 2 x 1 index.
#   depth 2: ceil(28/2) = 14 pulls each of 5/8 and 7/8; t = 36. Means 0.625 and 0.825, 0.875 and 0.975: global 0.725
#     and 0.925; b = 0.26 / sqrt 28 = 0.0491: 0.725 + 0.0491 + 0.05 < 0.925 - 0.0491: node (2,3) goes. Up 4, down 2.
#   depth 3: ceil(109/2) = 55 pulls each of 13/16 and 15/16.

TWO = [lambda x: x, lambda x: np.minimum(1, 0.45 + 0.6 * x)]
PAIR = {"nu_1": 0.2, "rho": 0.5, "c": 0.26, "delta": 1.0}


def two_problem():
    functions = [lambda x, f=f: f(x[:, 0]) for f in TWO]
    return problem_from_functions(functions, [[0, 1]], noise=0, optimum=[1.0, 1.0])


def test_two_clients_pf_pne():
    T = 50
    federation = make_federation("pf-pne", Task(UNIT, 2, T), **PAIR, c_1=math.e / T, Delta=0.15)
    pulls, mail = play(federation, TWO)
    together = [(1 / 2, 1), (1 / 4, 4), (3 / 4, 4), (1 / 4, 3)]
    assert pulls[0] == [*together, (5 / 8, 28), (7 / 8, 10)]
    assert pulls[1] == [*together, (1 / 8, 28), (3 / 8, 10)]

    assert [(t, len(up), len(down)) for t, up, down in mail] == [(1, 2, 2), (9, 2, 2)]
    (_, up), (_, answer) = mail[1][1][0], mail[1][2][0]
    np.testing.assert_allclose(up.means, [0.25, 0.75])
    assert answer.header == 1 and answer.index.tolist() == [2]
    np.testing.assert_allclose(answer.means, [0.825])
    np.testing.assert_allclose(answer.half_widths, [0.26 / math.sqrt(8)])

    rounds = simulate("pf-pne", two_problem(), T, **PAIR, c_1=math.e / T, Delta=0.15).communication
    assert rounds["t"].tolist() == [1, 9] and rounds["round"].tolist() == [1, 2]
    assert rounds["numbers up"].tolist() == [2, 4]
    assert rounds["numbers down"].tolist() == [6, 6]
    assert rounds["bytes"].tolist() == [64, 80]


def test_two_clients_fed_pne():
    T = 40
    federation = make_federation("fed-pne", Task(UNIT, 2, T), **PAIR, c_1=math.e / T)
    pulls, mail = play(federation, TWO)
    assert pulls[0] == pulls[1] == [(1 / 4, 4), (3 / 4, 4), (5 / 8, 14), (7 / 8, 14), (13 / 16, 4)]
    assert [answer.index.tolist() for _, _, down in mail for _, answer in down] == [[2], [2], [4], [4]]

    rounds = simulate("fed-pne", two_problem(), T, **PAIR, c_1=math.e / T).communication
    assert rounds["t"].tolist() == [8, 36]
    assert rounds["numbers up"].tolist() == [4, 4]
    assert rounds["numbers down"].tolist() == [2, 2]
    assert rounds["bytes"].tolist() == [48, 48]


@pytest.mark.parametrize(("T", "rounds"), [(7, []), (8, [8]), (9, [8]), (35, [8]), (36, [8, 36]), (40, [8, 36])])
def test_a_phase_cut_by_the_horizon_communicates_nothing_and_one_that_ends_there_does(T, rounds):
    for objects in (False, True):
        run = simulate("fed-pne", two_problem(), T, objects=objects, **PAIR, c_1=math.e / T)
        assert run.communication["t"].tolist() == rounds


def test_best_is_the_highest_mean_of_the_deepest_finished_depth():
    T = 50
    federation = make_federation("pf-pne", Task(UNIT, 2, T), **PAIR, c_1=math.e / T, Delta=0.15)
    assert [client.best().tolist() for client in federation.clients] == [[0.5], [0.5]]
    play(federation, TWO)
    assert [client.best().tolist() for client in federation.clients] == [[0.75], [0.75]]  # depth 2 was cut


def test_the_server_averages_three_clients():
    # depth 1, b = 0.2 / sqrt 3 = 0.1155: both stay. The medians would be 0.3 and 0.5, and the other node the best.
    server = pf_pne.PFPNEServer(Task(UNIT, 3, 50), pf_pne.PFPNESettings(**LINE, c_1=math.e / 50))
    server.conclude(np.zeros((3, 1)))
    answer = server.conclude(np.array([[0.0, 0.5], [0.3, 0.5], [0.9, 0.1]]))
    np.testing.assert_allclose(answer.means, [0.4, 1.1 / 3])
    np.testing.assert_allclose(answer.half_widths, 0.2 / math.sqrt(3))


@pytest.mark.parametrize(("b", "kept"), [(0.1, [3, 4]), (0.25, [1, 2, 3, 4])])
def test_a_protected_node_has_the_server_s_half_width(b, kept):
    # depth 1: both nodes were drawn 4 times, 0.2 / sqrt 4 = 0.1. The first, 0 + 0.1 + 0.5 = 0.6, is held against the
    # protected one, 0.8 - b: its own half-width, 0.1, would always eliminate the first.
    clients = pf_pne.PFPNE(Task(UNIT, 1, 50), pf_pne.PFPNESettings(**LINE, c_1=math.e / 50), 1)
    sampled = pf_pne.SampledNodes(np.array([1, 2]), np.array([[0.0, 3.9]]), 4)
    loop = clients.pe({1: pf_pne.Kept(1, [2], [0.8], [b])}, {1: sampled})
    assert next(loop).h == 0  # the root is pulled; at depth 1 there is enough
    following = loop.send(np.array([0.5]))
    assert following.h == 2 and following.index.tolist() == kept
    assert clients.best_points.tolist() == [[0.75]]  # of the global mean 0.8, not of its own, 0.975


def test_a_client_deploys_its_own_best_of_the_last_depth_that_it_shared():
    # H_0 = 1. Means at 1/4 and 3/4: 0.8 and 0.5, 0 and 1: global 0.4, 0.75; b = 0.0919, so (1,1) goes: 0.592 < 0.658.
    # PE, depth 1: client 1 has 0.8 at 1/4, more than the protected 0.75; client 2 has 0. Depth 2 is cut.
    functions = [lambda x: np.where(x < 0.5, 0.8, 0.5), lambda x: (x >= 0.5) * 1.0]
    federation = make_federation("pf-pne", Task(UNIT, 2, 50), **PAIR, c_1=math.e / 50, Delta=0.15)
    play(federation, functions)
    assert [client.best().tolist() for client in federation.clients] == [[0.25], [0.75]]


# --- the smallest pieces ----------------------------------------------------------------------------------


def test_arg_max_of_each_client_takes_the_smallest_index_of_equal_ones():
    values, start = np.array([1.0, 3.0, 3.0, 5.0, 2.0, 2.0]), np.array([0, 3, 4])
    assert pf_pne.PFPNE.arg_max(values, start).tolist() == [1, 3, 4]
    assert pf_pne.PFPNE.arg_max(values[:3], start[:1]).tolist() == [1]


def test_what_is_left_of_the_budget_is_spent_in_pulling_order():
    counts, start = np.array([3, 3, 3, 2, 2]), np.array([0, 3])
    assert phases.clip_to_budget(counts, start, np.array([5, 4])).tolist() == [3, 2, 0, 2, 2]
    assert phases.clip_to_budget(counts, start, np.array([0, 1])).tolist() == [0, 0, 0, 1, 0]


def test_node_sums():
    rewards = np.arange(9.0)
    assert phases.node_sums(rewards, np.array([3, 3, 3])).tolist() == [3, 12, 21]
    assert phases.node_sums(rewards, np.array([2, 2, 1, 4])).tolist() == [1, 5, 4, 26]


@pytest.mark.parametrize(
    "wrong",
    [
        {"nu_1": 0},
        {"rho": 1.0},
        {"rho": 0.0},
        {"c": -0.1},
        {"c": "a"},
        {"c_1": math.inf},
        {"delta": 0},
        {"Delta": -0.01},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        pf_pne.PFPNESettings(**wrong)


# --- what must hold in every run ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    M=st.integers(1, 4),
    T=st.integers(1, 400),
    Delta=st.sampled_from([0.0, 0.1, 0.3, 1.0]),
    k=st.sampled_from([2, 3]),
    max_depth=st.integers(0, 6),
)
def test_K_is_inside_K_m_and_the_budget_is_exact(seed, M, T, Delta, k, max_depth):
    rng = np.random.default_rng(seed)
    offsets = rng.random(M)
    seen = []

    class Spy(pf_pne.PFPNE):
        def pe(self, kept_by_server, drawn):
            self.kept_by_server = kept_by_server
            return super().pe(kept_by_server, drawn)

        def draw_lacking(self, h, owner, index, protected, sums, n_samples):  # index: K_m^h as PE holds it
            if h in self.kept_by_server:
                kept = self.kept_by_server[h].index
                seen.append(len(kept) > 0 and np.isin(kept, index).all())
            return super().draw_lacking(h, owner, index, protected, sums, n_samples)

    task, settings = Task(Partition([[0, 1]], k, max_depth), M, T), pf_pne.PFPNESettings(Delta=Delta)
    made = phases.make_phased(Spy, pf_pne.PFPNEServer, task, settings)
    functions = [lambda x, a=a: np.abs(np.sin(5 * x + 3 * a)) for a in offsets]
    pulls, _ = play(Federation(*made, (pf_pne.NodeMeans,), (pf_pne.Kept,)), functions, rng)
    assert all(seen)
    assert [sum(n for _, n in own) for own in pulls] == [T] * M
    assert all(0 <= x <= 1 for own in pulls for x, _ in own)


@pytest.mark.parametrize(
    ("name", "more"), [("pf-pne", {"Delta": 0.0}), ("pf-pne", {"Delta": 0.3}), ("fed-pne", {}), ("pe", {})]
)
def test_at_max_depth_the_best_cell_is_played_to_the_horizon(name, more):
    T = 1000
    federation = make_federation(name, Task(Partition([[0, 1]], max_depth=3), 2, T), **more)
    pulls, mail = play(federation, [lambda x: x, lambda x: x])
    for own, client in zip(pulls, federation.clients, strict=True):
        assert own[-1][0] == 15 / 16 and own[-1][1] > 800  # in one batch
        assert client.best().tolist() == [15 / 16]
    assert all(message.header <= 3 for _, up, down in mail for _, message in up + down)


# --- what leaves a client -------------------------------------------------------------------------------------


def test_declared_messages():
    kinds = (pf_pne.NodeMeans, pf_pne.Kept, pf_pne.KeptIndex)
    fields = {kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in kinds}
    assert fields == {
        pf_pne.NodeMeans: ("header", "means"),
        pf_pne.Kept: ("header", "index", "means", "half_widths"),
        pf_pne.KeptIndex: ("header", "index"),
    }
    declared = {name: (get_algorithm(name).up_kinds, get_algorithm(name).down_kinds) for name in PHASED}
    assert declared == {
        "pf-pne": ((pf_pne.NodeMeans,), (pf_pne.Kept,)),
        "fed-pne": ((pf_pne.NodeMeans,), (pf_pne.KeptIndex,)),
        "pe": ((), ()),
    }


@pytest.mark.parametrize("name", PHASED)
def test_only_one_mean_a_node_leaves_a_client(name):
    problem = pfpne.make_problem("garland", n_clients=3)
    run = simulate(name, problem, 2000, messages=True)
    algorithm = get_algorithm(name)
    assert (len(run.messages) > 0) == (name != "pe")
    pulled = 0
    for t, direction, _, message in run.messages:
        assert isinstance(message, algorithm.up_kinds if direction == "up" else algorithm.down_kinds)
        if direction == "up":
            assert message.means.shape == (message.n_numbers,)  # a mean a node, and nothing else
            pulled = max(pulled, t)
    ups = [message.n_numbers for _, direction, client, message in run.messages if direction == "up" and client == 0]
    assert sum(ups) < max(pulled, 1)  # far fewer numbers than rewards


def test_the_order_of_a_node_s_rewards_cannot_be_seen_by_anyone():
    streams = [np.random.default_rng(0), np.random.default_rng(0)]
    federations = [make_federation("pf-pne", Task(UNIT, 2, 500), Delta=0.1) for _ in streams]
    mails = []
    for federation, rng, sort in zip(federations, streams, (False, True), strict=True):
        mail = []
        federation.on_mail = lambda t, up, down, mail=mail: mail.extend(m.to_json() for _, m in up + down)
        while federation.running:
            for m, batch in federation.ask():
                rewards = np.split((rng.random(batch.size) < 0.5).astype(float), np.cumsum(batch.counts)[:-1])
                federation.tell(m, np.concatenate([np.sort(r) if sort else r for r in rewards]))
        mails.append(mail)
    assert mails[0] == mails[1] and mails[0]


def test_messages_survive_json():
    for message in (
        pf_pne.NodeMeans(3, np.array([0.1, 1 / 3])),
        pf_pne.Kept(2, np.array([1, 2**40]), np.array([0.1, 0.7]), np.array([1e-17, 0.2])),
        pf_pne.KeptIndex(40, np.array([2**40, 3])),
    ):
        back = Message.from_json(message.to_json())
        assert type(back) is type(message) and back.header == message.header
        for name in message.payload():
            assert np.array_equal(getattr(back, name), getattr(message, name))
            assert getattr(back, name).dtype == getattr(message, name).dtype
    for text in (
        '{"kind": "Rewards", "header": 1}',
        '{"kind": "NodeMeans", "header": 1}',
        '{"kind": "NodeMeans", "header": 1, "means": [1], "rewards": [1]}',
    ):
        with pytest.raises(ValueError, match="not a message"):
            Message.from_json(text)


def test_the_server_waits_for_every_client():
    server, clients = get_algorithm("pf-pne").make_server_and_clients(Task(UNIT, 2, 50), pf_pne.PFPNESettings())
    messages = [client.tell(np.zeros(client.ask().size)) for client in clients]
    with pytest.raises(ValueError, match="all 2 clients"):
        server.exchange({0: messages[0]})
    with pytest.raises(ValueError, match="header 0 is awaited"):
        server.exchange({0: messages[0], 1: pf_pne.NodeMeans(1, np.zeros(1))})
    for three in ({1: pf_pne.NodeMeans(0, np.zeros(3))}, {m: pf_pne.NodeMeans(0, np.zeros(3)) for m in range(2)}):
        with pytest.raises(ValueError, match="means"):
            server.exchange({0: messages[0], **three})
    assert server.exchange(dict(enumerate(messages)))[1].index.tolist() == [1]


def test_a_broadcast_that_comes_twice_or_late_is_ignored_and_one_too_early_refused(caplog):
    """Delta = 1: H_0 = 0, so that the first broadcast is the last. Twice, it must not send PE back to the root."""
    server, (client,) = get_algorithm("pf-pne").make_server_and_clients(
        Task(UNIT, 1, 500), pf_pne.PFPNESettings(Delta=1.0)
    )
    answer = server.exchange({0: client.tell(np.zeros(client.ask().size))})[0]
    with pytest.raises(ValueError, match="header 1 came, and a Kept of header 0 is awaited"):
        client.receive(pf_pne.Kept(1, answer.index, answer.means, answer.half_widths))
    client.receive(answer)
    for _ in range(4):
        before, state = client.ask().points.tolist(), pickle.dumps(client)
        client.receive(answer)
        assert pickle.dumps(client) == state and client.ask().points.tolist() == before
        client.tell(np.zeros(client.ask().size))
    assert len(caplog.records) == 4 and all("late" in record.message for record in caplog.records)
