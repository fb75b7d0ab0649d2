"""Fed1-UCB on cases small enough to work by hand, and what must hold on all."""

import math
import pickle

import numpy as np
import pytest

from pfpne.algorithms.fed1_ucb import (
    ArmMeans,
    Fed1UCBServer,
    Fed1UCBSettings,
    SurvivingArms,
    confidence_half_width,
    is_kept,
    make_fed1_ucb,
    pulls_of_phase,
    reward_deviation,
)
from pfpne.federation import Federation, Task
from pfpne.partition import Partition

UNIT = Partition([[0, 1]])
ARMS = np.array([[0.1], [0.5], [0.8]])  # by hand: three arms, a, b and c
VALUES = {0.1: (0.9, 0.5), 0.5: (0.2, 0.6), 0.8: (0.6, 0.7)}  # for two clients: averages 0.7, 0.4 and 0.65


def federate(task, **settings):
    """The federation of a task, and the list that its exchanges go to: (t, up, down)."""
    federation = Federation(
        *make_fed1_ucb(task, Fed1UCBSettings(**settings)), up_kinds=(ArmMeans,), down_kinds=(SurvivingArms,)
    )
    mail = []
    federation.on_mail = lambda t, up, down: mail.append((t, up, down))
    return federation, mail


def play(federation, reward, sweeps=None):
    """Evaluate until the end, or for some sweeps; return each client's list of (point, count)."""
    played = [[] for _ in federation.clients]
    while federation.running and sweeps != 0:
        for m, batch in federation.ask():
            rewards = [reward(m, x) for x, n in zip(batch.points, batch.counts, strict=True) for _ in range(n)]
            federation.tell(m, rewards)
            played[m] += [(tuple(x), int(n)) for x, n in zip(batch.points, batch.counts, strict=True)]
        sweeps = None if sweeps is None else sweeps - 1
    return played


def by_hand(m, x):
    return VALUES[x[0]][m]


def counted(mail):
    return [(t, sum(x.n_numbers for _, x in up), sum(x.n_numbers for _, x in down)) for t, up, down in mail]


def three_arms(horizon, noise=None):
    return Task(UNIT, n_clients=2, horizon=horizon, noise=noise, candidates=ARMS)


# --- the bounds -------------------------------------------------------------------------------------


def test_pulls_of_a_phase():
    assert pulls_of_phase(100_000, 10.0) == 115  # 10 * 11.5129... = 115.129...
    assert pulls_of_phase(2, 10.0) == 6  # 10 * 0.6931... = 6.93...
    assert pulls_of_phase(1, 10.0) == 1  # log 1 = 0: at least one


def test_confidence_half_width():
    # 4 * 0.5^2 * log(e^2) / (2 * 4) = 2 / 8 = 1/4; the horizon e^2 is not an integer, and need not be here
    assert confidence_half_width(n=4, M=2, T=math.exp(2), sigma=0.5) == pytest.approx(0.5)
    assert confidence_half_width(n=4, M=2, T=1, sigma=0.5) == 0


def test_the_width_is_that_of_the_clients_that_have_answered():
    # 2 B_1 = 2 sqrt(4 * 0.01 * log(100) / (4 * 4)) = 0.215 with all four clients, 0.303 with two: the arm stays
    task = Task(UNIT, n_clients=4, horizon=100)
    for present, kept in ((4, [0]), (2, [0, 1])):
        server = Fed1UCBServer(task, n_arms=2, pulls=4, sigma=0.1)
        assert server.conclude(np.array([[0.5, 0.25]] * present)).arms.tolist() == kept


def test_elimination():
    # width 1/8: an arm goes below 3/4 - 2/8 = 1/2; exactly there it stays
    assert is_kept(np.array([0.75, 0.5, 0.4375, 0.75]), 0.125).tolist() == [True, True, False, True]
    assert is_kept(np.array([0.3, 0.3, 0.2]), 0.0).tolist() == [True, True, False]  # a tie keeps both


@pytest.mark.parametrize(
    ("noise", "sigma"), [("bernoulli", 0.5), (None, 0.5), (0, 0.0), (0.1, 0.1 / 3**0.5), (2.0, 2 / 3**0.5)]
)
def test_sigma_follows_the_noise(noise, sigma):
    assert reward_deviation(noise) == pytest.approx(sigma)
    server, _ = make_fed1_ucb(three_arms(20, noise), Fed1UCBSettings())
    assert server.sigma == pytest.approx(sigma)
    for given in (0.3, 0.0):
        assert make_fed1_ucb(three_arms(20, noise), Fed1UCBSettings(sigma=given))[0].sigma == given


# --- whole runs by hand -----------------------------------------------------------------------------


def test_two_phases_by_hand():
    # f = int(1.1 log 20) = int(3.295) = 3. Phase 1: 3 arms x 3 pulls, t = 9.
    #   B_1 = sqrt(4 * 0.01 * 2.9957 / (2 * 3)) = 0.1413; 0.4 + B < 0.7 - B: b goes, 0.65 stays.
    # Phase 2: 2 arms x 3 pulls, t = 15; B_2 = sqrt(4 * 0.01 * 2.9957 / (2 * 6)) = 0.0999: both stay.
    # Phase 3 would take 6 pulls; 5 are left: the first arm 3 times, the second twice, and no message.
    federation, mail = federate(three_arms(20), c_pulls=1.1, sigma=0.1)
    played = play(federation, by_hand)
    order = [tuple(x) for x in federation.clients[0].arms]
    left = [x for x in order if x != (0.5,)]
    assert played[0] == [(x, 3) for x in order] + [(x, 3) for x in left] + [(left[0], 3), (left[1], 2)]
    assert played[1] == played[0]
    assert counted(mail) == [(9, 2 * 3, 2 * 2), (15, 2 * 2, 2 * 2)]
    assert [client.best().tolist() for client in federation.clients] == [[0.1], [0.8]]  # each by its own means


def test_an_arm_that_only_the_second_phase_can_drop():
    # f = int(log 30) = 3. B_1 = sqrt(4 * 0.0004 * 3.4012 / (2 * 3)) = 0.0301: 0.65 + B > 0.7 - B, c stays; B_2 =
    # sqrt(4 * 0.0004 * 3.4012 / (2 * 6)) = 0.0213: 0.6713 < 0.6787, c goes.
    federation, mail = federate(three_arms(30), c_pulls=1.0, sigma=0.02)
    play(federation, by_hand)
    assert counted(mail) == [(9, 2 * 3, 2 * 2), (15, 2 * 2, 2 * 1)]


def test_messages_carry_means_up_and_arms_down():
    federation, mail = federate(three_arms(20), c_pulls=1.1, sigma=0.1)
    play(federation, by_hand)
    order = [x[0] for x in federation.clients[0].arms]
    (_, up, down), (_, up_2, _) = mail
    for m in (0, 1):
        assert up[m][0] == down[m][0] == m
        assert up[m][1].means.tolist() == pytest.approx([VALUES[x][m] for x in order])
        assert [order[arm] for arm in down[m][1].arms] == [x for x in order if x != 0.5]
        assert up_2[m][1].means.tolist() == pytest.approx([VALUES[x][m] for x in order if x != 0.5])


def test_means_are_over_all_phases():
    # Client rewards of an arm: 1 in phase 1, 0 in phase 2. The mean sent after phase 2 is 1/2.
    federation, mail = federate(Task(UNIT, 1, 20, candidates=ARMS), c_pulls=1.1, sigma=10.0)
    play(federation, lambda m, x: float(federation.clients[0].t < 9))
    assert mail[0][1][0][1].means.tolist() == [1, 1, 1]
    assert mail[1][1][0][1].means.tolist() == [0.5, 0.5, 0.5]


def test_a_phase_that_ends_at_the_horizon_communicates():
    # f = int(1.2 log 15) = int(3.250) = 3. Phase 1 ends at 9 (B = 0.1344: b goes), phase 2 at 9 + 6 = 15 = T.
    federation, mail = federate(three_arms(15), c_pulls=1.2, sigma=0.1)
    play(federation, by_hand)
    assert counted(mail) == [(9, 6, 4), (15, 4, 4)]


@pytest.mark.parametrize(
    ("horizon", "n_evaluated", "due"), [(15, 6, True), (14, 6, False), (9, 0, True), (8, 0, False)]
)
def test_the_means_of_a_phase_that_ends_at_the_horizon_are_due(horizon, n_evaluated, due):
    """Three arms, three pulls each: a phase has 9 evaluations."""
    server = Fed1UCBServer(three_arms(horizon), n_arms=3, pulls=3, sigma=0.1)
    assert server.is_due(0, n_evaluated) is due


def test_the_last_arm_is_played_to_the_end_in_silence():
    # No noise: sigma = 0, B = 0, only the best average stays. f = int(10 log 200) = int(52.98) = 52, t = 156.
    federation, mail = federate(three_arms(200, noise=0))
    played = play(federation, by_hand)
    assert played[0][3:] == played[1][3:] == [((0.1,), 44)]
    assert counted(mail) == [(156, 6, 2)]
    assert federation.clients[1].best().tolist() == [0.1]


def test_equal_arms_all_stay_and_the_first_is_best():
    federation, _ = federate(three_arms(20), c_pulls=1.1, sigma=0.0)
    play(federation, lambda m, x: 0.5)
    assert federation.server.active.tolist() == [0, 1, 2]
    assert federation.clients[0].best().tolist() == federation.clients[0].arms[0].tolist()


def test_a_single_arm_needs_no_server():
    federation, mail = federate(Task(UNIT, 2, 20, candidates=ARMS[:1]))
    assert play(federation, by_hand) == [[((0.1,), 20)]] * 2
    assert mail == [] and federation.clients[0].best().tolist() == [0.1]


def test_in_ten_dimensions_the_first_phase_is_longer_than_the_horizon():
    # 1000 arms * 115 pulls = 115,000 > 100,000: 869 arms are pulled in full, the next one 65 times, and no message.
    federation, mail = federate(Task(Partition([[0, 1]] * 10), n_clients=1, horizon=100_000))
    counts = [n for _, n in play(federation, lambda m, x: 0.5)[0]]
    assert counts == [115] * 869 + [65] and mail == []


# --- what must hold always --------------------------------------------------------------------------


@pytest.mark.parametrize("d, horizon", [(1, 1), (1, 2000), (2, 2000), (10, 4000)])
def test_over_many_phases_the_budget_is_exact_and_a_saved_state_goes_on_the_same(d, horizon):
    task = Task(Partition([[-1, 1]] * d), n_clients=2, horizon=horizon)
    (federation, _), (other, mail) = (federate(task, c_pulls=0.1, sigma=0.01) for _ in range(2))
    whole, played = play(other, lambda m, x: np.cos(m + x.sum())), []
    federation.on_mail = None  # a function of this test, which cannot be pickled
    while federation.running:
        federation.ask()  # asked and not yet told
        federation = pickle.loads(pickle.dumps(federation))
        played += play(federation, lambda m, x: np.cos(m + x.sum()), sweeps=1)[1]
    assert played == whole[1] and bool(mail) == (horizon > 1)
    assert [sum(n for _, n in moves) for moves in whole] == [horizon] * 2 and min(n for _, n in played) >= 1
    assert all((np.abs(client.best()) <= 1).all() for client in federation.clients)


def test_the_seed_names_the_arms_and_their_order():
    def arms(seed, n_clients=1):
        return make_fed1_ucb(Task(UNIT, n_clients, 10, seed=seed), Fed1UCBSettings())[1][-1].arms

    assert (arms(1) == arms(1, n_clients=4)).all()
    assert not np.isin(arms(1), arms(2)).any()
    grid = make_fed1_ucb(Task(Partition([[0, 1]] * 2), 1, 10), Fed1UCBSettings())[1][0].arms
    assert grid.shape == (400, 2) and len(np.unique(grid[:20, 0])) > 1  # not one column after another


@pytest.mark.parametrize(
    "bad", [{"c_pulls": 0}, {"c_pulls": "10"}, {"c_pulls": math.nan}, {"sigma": -1}, {"sigma": "auto"}, {"sigma": True}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Fed1UCBSettings(**bad)


def test_the_server_waits_for_every_client():
    server, _ = make_fed1_ucb(three_arms(20), Fed1UCBSettings())
    with pytest.raises(ValueError, match="all 2 clients"):
        server.exchange({0: ArmMeans(1, np.zeros(3))})
