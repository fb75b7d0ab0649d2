"""Secure aggregation: sums that are right, parts that say nothing, the same decisions, and who cannot work this way."""

import json
import math
import re
import shutil
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_client import objective, task
from test_live import in_one_process, state

import pfpne
from pfpne.algorithms import ALGORITHMS, UNLIMITED_ALGORITHMS, make_federation
from pfpne.algorithms.pf_pne import Kept
from pfpne.algorithms.pf_pne_plus import SharedStatistics
from pfpne.algorithms.secret_shares import mask_from_seed, seeds
from pfpne.algorithms.secure import (
    BITS,
    SECURED,
    Masked,
    MaskedStatistics,
    PublicKey,
    PublicKeys,
    RecoveringClient,
    TwiceMasked,
    from_fixed,
    key_for,
    mask,
    new_key,
    pair_mask,
    precision,
    public_key,
    secured,
    sum_masked,
    to_fixed,
)
from pfpne.federation import Batch, Task
from pfpne.live import LiveClient, LiveServer
from pfpne.live.states import from_bytes, to_bytes
from pfpne.partition import Partition
from pfpne.paths import INPUT_ROOT as CHECKOUT

pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
M = 3
SITES = {"pf-pne+": 4}  # which asks for four with masks, and goes less deep with three
FED1 = {"c_pulls": 1.0, "sigma": 0.15}  # that arms go within a small horizon


def until_it_sends(client, evaluate):
    """Return the client's next message; evaluate: points (n,) -> rewards (n,)."""
    message = None
    while message is None:
        batch = client.ask()
        message = client.tell(evaluate(np.repeat(batch.points[:, 0], batch.counts)))
    return message


def decisions(messages: list) -> dict[int, list]:
    """Header of the algorithm -> the nodes or arms kept, of what a simulation kept of its messages."""
    down = [message for _, way, m, message in messages if way == "down" and m == 0]
    shift = isinstance(down[0], PublicKeys)
    return {message.header - shift: message.values[0].tolist() for message in down[shift:]}


@pytest.mark.parametrize("name", SECURED)
@pytest.mark.parametrize("noise", ["bernoulli", 0.2])
def test_the_same_nodes_are_kept_as_without(name, noise):
    """For 1,000 runs: benchmarks/secure_aggregation.py."""
    settings = FED1 if name == "fed1-ucb" else {}
    horizon = 300 if name == "pf-pne+" else 600
    for run in range(2):
        problem = pfpne.make_problem("garland", SITES.get(name, M), shift=0.1, noise=noise, run=run)
        kept = [
            pfpne.simulate(algorithm, problem, horizon, messages=True, **settings, **more)
            for algorithm, more in ((name, {}), (secured(name), {"least_rewards": 1}))
        ]
        plain, masked = (decisions(each.messages) for each in kept)
        assert plain == masked and len(plain) >= 2
        assert np.array_equal(kept[0].regret, kept[1].regret)
        up = {type(message) for _, way, _, message in kept[1].messages if way == "up"}
        assert up == {PublicKey, MaskedStatistics if name == "pf-pne+" else Masked}


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.floats(1e-3, 1e6), st.integers(0, 2**32))
def test_fixed_point_sums_are_right_to_the_resolution_and_never_overflow(M, most, seed):
    bits, rng = precision(most, M), np.random.default_rng(seed)
    values = np.concatenate([rng.uniform(-most, most, (M, 3)), np.full((M, 1), most), np.full((M, 1), -most)], axis=1)
    total = from_fixed(sum_masked([to_fixed(row, bits) for row in values]), bits)
    exact = np.array([math.fsum(column) for column in values.T])
    assert np.abs(total - exact).max() <= M * 2.0 ** -(bits + 1) + abs(exact).max() * 2.0**-52
    assert bits == 48 - math.ceil(math.log2(most))


@pytest.mark.parametrize("M", [4_096, 4_097, 10**6])
@pytest.mark.parametrize("largest", [1.0, -1.0])
def test_a_sum_of_the_largest_numbers_fits_for_as_many_clients_as_there_may_be(M, largest):
    bits = precision(1.0, M)
    total = M * int(to_fixed(np.array([largest]), bits)[0]) % 2**BITS
    assert from_fixed(np.array([total]), bits).tolist() == [M * largest]


@pytest.mark.parametrize("name", SECURED)
def test_the_rounding_of_the_parts_does_not_show_in_their_sum(name):
    """Sums of binary rewards are the same if their squares are, too, whoever has which part of them.

    Means of five, rounded, were not: the last bits of their sum told how many of them were above 1/2.
    """
    totals = []
    for parts in ((0, 3, 3), (1, 1, 4)):  # of five
        settings, T, rounds = {"c_pulls": 1.0} if name == "fed1-ucb" else {}, 200, 1
        if name == "pf-pne+":
            T, rounds = 2_000, 2  # the root, and a depth below
        run = make_federation(
            secured(name), Task(Partition([[0.0, 1.0]]), M, T, noise="bernoulli"), least_clients=3, **settings
        )
        run.ask()  # the keys pass
        totals.append([])
        for _ in range(rounds):
            sent = {}
            for m, client in enumerate(run.clients):

                def evaluate(x, part=parts[m]):
                    n = len(x) // (n_nodes := len(np.unique(x)))
                    assert n % 5 == 0
                    return np.tile(np.arange(n) < part * n // 5, n_nodes).astype(float)

                sent[m] = until_it_sends(client, evaluate)
            totals[-1] += sum_masked([np.concatenate(message.values) for message in sent.values()]).tolist()
            for m, answer in run.server.exchange(sent).items() if rounds > 1 else ():
                run.clients[m].receive(answer)
        assert rounds == 1 or len(totals[-1]) == 1 + 3 + 2 + 3
    assert totals[0] == totals[1]


@pytest.mark.parametrize("n", [5, 7, 12])
def test_scores_of_a_step_that_is_a_power_of_two_have_no_last_bits(n):
    """As the page on trust advises: other steps are rounded at each site, and the last bits tell of these roundings."""
    rng, bits = np.random.default_rng(n), precision(n * 1.1, 3)
    steps = rng.integers(0, 129, (200, n))
    exact = (steps.sum(axis=1) << (bits - 7)) & (2**BITS - 1)
    assert np.array_equal(to_fixed(n * np.mean(steps / 128, axis=1), bits), exact)
    hundredths = np.ldexp(n * np.mean(steps / 100, axis=1), bits)
    assert np.any(hundredths != np.rint(hundredths))


def test_masks_cancel_in_the_sum_of_all_and_in_no_other():
    keys = [new_key() for _ in range(4)]
    public = np.stack([public_key(key) for key in keys])
    masks = {header: [mask(keys[m], m, public, header, 50) for m in range(4)] for header in (1, 2)}
    for of_all in masks.values():
        assert not sum_masked(of_all).any()
        for left_out in range(4):
            assert (sum_masked(of_all[:left_out] + of_all[left_out + 1 :]) != 0).all()
    assert not np.isin(masks[1], masks[2]).any()  # a mask is used once


@pytest.mark.parametrize("quorum", [None, 4])
def test_masks_do_not_cancel_where_clients_were_told_different_things(quorum):
    """A server that sends one client elsewhere reads no sum of its rewards there and of the others' somewhere else."""

    def masked(told: list[int]) -> tuple[list, list]:
        run = make_federation(secured("pf-pne"), task(5, 200), quorum=quorum)
        keys = PublicKeys(0, np.stack([client.first_message().key for client in run.clients]))
        for client in run.clients:
            client.receive(keys)
        for index in ([1], told):
            for client, i in zip(run.clients, index * (5 // len(index)), strict=True):
                first = client.tell(np.ones(client.ask().size))
                client.receive(Kept(first.header, np.array([i]), np.array([0.5]), np.array([0.1])))
        return [client.tell(np.ones(client.ask().size)) for client in run.clients], run.clients

    def total(told: list[int]) -> np.ndarray:
        sent, clients = masked(told)
        own = [np.zeros(2, dtype=np.int64)] * 5
        if quorum:  # what the server takes off once a quorum has revealed it
            own = [
                -mask_from_seed(seeds(c.key, c.m, c.keys, sent[0].header, c.broadcast_digest)[c.m], 2, BITS)
                & (2**BITS - 1)
                for c in clients
            ]
        return from_fixed(sum_masked([*(message.masked for message in sent), *own]), precision(5, 5))

    assert total([1] * 5).tolist() == [25, 25]
    assert np.abs(total([2, 1, 1, 1, 1])).min() > 100


def test_nothing_adds_up_where_pf_pne_plus_was_told_that_different_nodes_stay():
    """All rewards are 1, so that means and statistics are the same whichever nodes stay."""

    def total(told: list[int]) -> list[int]:
        run = make_federation(secured("pf-pne+"), task(5, 2_000))
        up = {m: client.first_message() for m, client in enumerate(run.clients)}
        has_lied = False
        while not has_lied:
            down = run.server.exchange(up)
            if isinstance(down[0], SharedStatistics) and len(down[0].index) > 1:
                down = {m: replace(down[m], index=np.array([i])) for m, i in enumerate(told)}
                has_lied = True
            for m, message in down.items():
                run.clients[m].receive(message)
            up = {m: until_it_sends(client, lambda x: np.ones(len(x))) for m, client in enumerate(run.clients)}
        return sum_masked([np.concatenate(message.values) for message in up.values()]).tolist()

    right, wrong = total([1] * 5), total([2, 1, 1, 1, 1])
    assert right == total([2] * 5) and len(right) == 2 + 3
    assert not np.isin(wrong, right).any()


def test_sites_that_conspire_can_let_what_stays_tell_the_last_ones_rewards():
    """fed-pne tells no mean. Of three sites two send such means that one set of the third's rewards alone decides."""

    def n_kept(of_the_third: list[int]) -> int:
        """How many of the first four nodes stay. of_the_third: its five rewards at one of them; 0 at the others."""
        run, up = make_federation(secured("fed-pne"), Task(Partition([[0.0, 1.0]]), M, 300, noise="bernoulli")), {}
        run.ask()  # the keys pass
        for m, at_the_first in enumerate(([1, 0, 0, 0, 0], [0] * 5, of_the_third)):
            rewards = np.array([*at_the_first, *[0] * 15], dtype=float)
            up[m] = until_it_sends(run.clients[m], lambda x, rewards=rewards: rewards)
        return len(run.server.exchange(up)[0].values[0])

    assert n_kept([1, 1, 1, 1, 1]) == 1  # so both know all of its twenty rewards there
    assert n_kept([1, 1, 1, 1, 0]) == 4


def test_with_fed1_ucb_the_arms_that_stay_can_tell_them_too():
    """From the second phase on: two of three sites send such sums that an arm goes only if the third has ten ones."""

    def n_kept(ones_of_the_third: tuple[int, int]) -> int:
        """How many of twenty arms stay. Ones: of five rewards at the first arm, in each phase; 0 at the others."""
        plan = Task(Partition([[0.0, 1.0]]), M, 300, noise="bernoulli")
        run, kept = make_federation(secured("fed1-ucb"), plan, c_pulls=1.0), 0
        run.ask()  # the keys pass
        for phase in (0, 1):
            up = {}
            for m, ones in enumerate(((5, 5), (5, 2), ones_of_the_third)):
                rewards = np.zeros(100)
                rewards[: ones[phase]] = 1
                up[m] = until_it_sends(run.clients[m], lambda x, rewards=rewards: rewards)
            down = run.server.exchange(up)
            for m, client in enumerate(run.clients):
                client.receive(down[m])
            kept = len(down[0].values[0])
        return kept

    assert n_kept((5, 5)) == 1  # so both know all of its 200 rewards
    assert n_kept((5, 4)) == 20


def test_all_sites_but_one_have_the_variance_of_the_last_ones_rewards():
    """Of scores of a known step, and noise of half a step, mean and variance tell which rewards there were."""
    sites, step = 4, 128
    plan = Task(Partition([[0.0, 1.0]]), sites, 2_000, reward_range=(0, 1))
    run, rng, rewards = make_federation(secured("pf-pne+"), plan), np.random.default_rng(0), []
    run.ask()  # the keys pass

    def evaluate(x):
        rewards.append(rng.integers(60, 62, len(x)) / step)
        return rewards[-1]

    up = {m: until_it_sends(client, evaluate) for m, client in enumerate(run.clients)}
    answer, drawn = run.server.exchange(up)[0], np.array(rewards)
    mean = sites * answer.means[0] - drawn[:3].mean(axis=1).sum()
    variance = sites * answer.estimates[0] - drawn[:3].var(axis=1, ddof=1).sum()
    n = drawn.shape[1]
    squares = (n - 1) * variance + n * mean**2
    assert np.isclose(mean, drawn[3].mean()) and np.isclose(variance, drawn[3].var(ddof=1))
    high = round(n * mean * step - 60 * n)  # so many are 61/128, and the others 60/128: no other set has these two
    assert high == np.sum(drawn[3] == 61 / step)
    assert np.isclose(squares * step**2, high * 61**2 + (n - high) * 60**2)


@pytest.mark.parametrize("least", [1, 5])
def test_statistics_of_binary_rewards_are_whole_numbers_at_each_depth(least):
    """So that no rounding of the parts shows in the sums: of n rewards, the sums k, the squares k^2, and n k - k^2."""
    run = make_federation(
        secured("pf-pne+"), Task(Partition([[0.0, 1.0]]), 5, 2_000, noise="bernoulli"), least_rewards=least
    )
    run.ask()
    rng, root = np.random.default_rng(least), 0
    for h in range(3):
        sent, counted = {}, []
        for m, client in enumerate(run.clients):
            rewards = {}

            def evaluate(x, rewards=rewards):
                rewards.update(points=x, values=(rng.random(len(x)) < 0.3 + 0.4 * x).astype(float))
                return rewards["values"]

            sent[m] = until_it_sends(client, evaluate)
            nodes = np.unique(rewards["points"])
            k, n = [int(rewards["values"][rewards["points"] == x].sum()) for x in nodes], len(rewards["points"])
            counted.append((k, sum(successes**2 for successes in k)))
            if h == 0:
                root += n * k[0] - k[0] ** 2
        n //= len(nodes)
        *sums, squares, variance, binary = sum_masked([np.concatenate(message.values) for message in sent.values()])
        limits = n, n**2 * len(nodes), 8 * least * (8 * least - 1), 1
        bits = [precision(limit, 5) for limit in limits]
        assert [x >> bits[0] for x in sums] == [sum(of_all) for of_all in zip(*(k for k, _ in counted), strict=True)]
        assert squares == sum(of_one for _, of_one in counted) << bits[1]
        assert (variance, binary) == (root << bits[2], 5 << bits[3])
        assert all(x % 2 ** bits[0] == 0 for x in sums)
        for m, answer in run.server.exchange(sent).items():
            run.clients[m].receive(answer)


def test_the_fingerprint_is_too_long_to_find_two_sets_of_keys_that_have_it():
    """A server that lies would need two: it tries 2^(n/2) for n bits."""
    run = make_federation(secured("pf-pne"), task(3, 200))
    keys = np.stack([client.first_message().key for client in run.clients])
    for client in run.clients:
        client.receive(PublicKeys(0, keys))
    fingerprints = {client.fingerprint for client in run.clients}
    assert len(fingerprints) == 1 and re.fullmatch(r"([0-9a-f]{4} ){9}[0-9a-f]{4}", fingerprints.pop())


def test_two_clients_keep_their_secret_from_all_the_others_together():
    """The server and clients 2 and 3 take off all masks that they know: what is left is masked by 0's and 1's own."""
    keys = [new_key() for _ in range(4)]
    public = np.stack([public_key(key) for key in keys])
    value = to_fixed(np.full(1000, 0.5), 52)
    sent = (value + mask(keys[0], 0, public, 1, 1000)) & (2**BITS - 1)
    known = np.zeros(1000, dtype=np.int64)
    for other in (2, 3):  # what each adds, against 0 alone
        known += pair_mask(keys[other], other, 0, public, 1, 1000)
    left = (sent + known) & (2**BITS - 1)
    bits = (left[:, None] >> np.arange(BITS)) & 1
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.1  # 6 standard deviations
    assert not (left == value).any()


def test_a_masked_text_says_nothing_of_the_values():
    """Bits of the masked numbers are even, of zeros and of ones; those of the values are not."""
    run = make_federation(secured("fed1-ucb"), Task(Partition([[0.0, 1.0]]), M, 4_000, noise="bernoulli"))
    seen = []
    run.on_mail = lambda t, up, down: seen.extend(message for _, message in up if isinstance(message, Masked))
    for m, batch in run.ask():
        run.tell(m, np.zeros(batch.size) if m else np.ones(batch.size))
    masked = np.concatenate([message.masked for message in seen])
    assert len(masked) == M * 20 and len(set(masked.tolist())) == len(masked)
    bits = (masked[:, None] >> np.arange(BITS)) & 1
    assert 0.45 < bits.mean() < 0.55 and (np.abs(bits.mean(axis=1) - 0.5) < 0.35).all()


@pytest.mark.parametrize("name", [name for name in UNLIMITED_ALGORITHMS if name not in SECURED])
def test_who_cannot_work_this_way_says_so_in_a_sentence(name):
    with pytest.raises(ValueError, match="secure aggregation is for pf-pne, fed-pne") as refused:
        secured(name)
    sends_nothing = not ALGORITHMS[name].up_kinds
    assert str(refused.value).startswith(name) and ("sends nothing" in str(refused.value)) == sends_nothing
    with pytest.raises(ValueError, match="unknown algorithm 'pf_pne'. Did you mean 'pf-pne'"):
        secured("pf_pne")
    for no_name in (list, ["pf-pne"], None):
        with pytest.raises(ValueError, match="unknown algorithm"):
            secured(no_name)


def test_least_numbers_of_clients_and_of_rewards():
    line = Partition([[0.0, 1.0]])
    with pytest.raises(ValueError, match="n_clients must be at least least_clients, 3"):
        make_federation(secured("pf-pne"), Task(line, 2, 60, noise="bernoulli"))
    make_federation(secured("pf-pne"), Task(line, 2, 60, noise="bernoulli"), least_clients=2)
    with pytest.raises(ValueError, match="a phase of fed1-ucb must be of at least least_rewards, 500"):
        make_federation(secured("fed1-ucb"), Task(line, 3, 60, noise="bernoulli"), least_rewards=500)
    with pytest.raises(ValueError, match="the task's reward_range must be narrower"):
        make_federation(secured("pf-pne+"), Task(line, 4, 60))
    with pytest.raises(ValueError, match="n_clients must be at least least_clients, 4"):
        make_federation(secured("pf-pne+"), Task(line, 3, 60, noise="bernoulli"))
    make_federation(secured("pf-pne+"), Task(line, 3, 60, noise="bernoulli"), least_clients=3)
    for wrong in ({"least_rewards": 0}, {"least_clients": 1}, {"least_clients": 2.5}):
        with pytest.raises(ValueError, match="least_"):
            make_federation(secured("pf-pne"), Task(line, 3, 60, noise="bernoulli"), **wrong)


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne", "pf-pne+"])
@pytest.mark.parametrize("least", [1, 5])
def test_no_mean_is_of_fewer_rewards(name, least):
    run = make_federation(secured(name), Task(Partition([[0.0, 1.0]]), 4, 200, noise="bernoulli"), least_rewards=least)
    fewest, sent = math.inf, []
    run.on_mail = lambda t, up, down: sent.extend(message for _, message in up if not isinstance(message, PublicKey))
    while run.running:
        for m, batch in run.ask():
            before = run.clients[m].awaits().last_header
            run.tell(m, np.repeat(batch.points[:, 0] > 0.4, batch.counts).astype(float))
            awaited = run.clients[m].awaits()
            if awaited.kind is not None or awaited.last_header > before:  # a message was made of these rewards
                points = np.repeat(batch.points[:, 0], batch.counts)
                fewest = min(fewest, *np.unique(points, return_counts=True)[1])
    assert len(sent) >= 2 * 4 and fewest >= least and (least > 1 or fewest < 5)


def test_a_mean_over_all_beyond_the_range_ends_it():
    """A client that lies cannot be told apart; what it says is not taken for a mean."""
    run = make_federation(secured("pf-pne"), Task(Partition([[0.0, 1.0]]), M, 60, noise="bernoulli"))
    run.ask()
    sent = {m: client.tell(np.ones(client.ask().size)) for m, client in enumerate(run.clients)}
    for lie in (2**52, 2**60, -(2**52)):  # beyond either end
        false = Masked(1, (sent[0].masked + lie) & (2**BITS - 1))
        with pytest.raises(RuntimeError, match="one of them lies or is broken"):
            run.server.exchange({**sent, 0: false})
    assert run.server.exchange(sent)[0].means.tolist() == [1.0]


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("statistic", [0, 1, 2])
def test_statistics_over_all_beyond_the_range_end_pf_pne_plus(statistic, depth):
    """The mean of the squares, the variance, and whether rewards are binary: none below 0, none above its limit."""
    run = make_federation(secured("pf-pne+"), Task(Partition([[0.0, 1.0]]), 4, 2_000, reward_range=(-1, 4)))
    run.ask()
    rng = np.random.default_rng(statistic)
    for h in range(depth + 1):
        sent = {m: until_it_sends(client, lambda x: rng.uniform(-1, 4, len(x))) for m, client in enumerate(run.clients)}
        for lie in (2**52, 2**60, -(2**52)) if h == depth else ():
            statistics = sent[0].statistics.copy()
            statistics[statistic] = (statistics[statistic] + lie) & (2**BITS - 1)
            with pytest.raises(RuntimeError, match=f"of phase {h} is beyond .*: one of them lies or is broken"):
                run.server.exchange({**sent, 0: replace(sent[0], statistics=statistics)})
        for m, answer in run.server.exchange(sent).items():
            run.clients[m].receive(answer)


@pytest.mark.parametrize("n", [2, 3, 100])
def test_a_clients_variance_stays_within_the_range_however_its_rewards_fall(n):
    """Pieces of a node's pulls that are at one end each tell of a variance beyond it; its masked number would not fit.

    Twice its pulls of the root are at one end, too.
    """
    task = Task(Partition([[0.0, 1.0]]), 4, 20_000, reward_range=(-1, 4))
    hidden, plain = (make_federation(secured("pf-pne+"), task, least_rewards=n) for _ in range(2))
    hidden.ask(), plain.ask()
    for h in range(2):
        messages = []
        for run in (hidden, plain):
            clients = run.clients if run is hidden else [client.client for client in run.clients]

            def at_the_ends(x, h=h):
                per_node = len(x) // len(np.unique(x))
                piece = max(1, -(-per_node // 8)) if h else 1
                return np.tile(np.where(np.arange(per_node) // piece % 2, 4.0, -1.0), len(np.unique(x)))

            messages.append({m: until_it_sends(client, at_the_ends) for m, client in enumerate(clients)})
        variance = messages[1][0].variances[0]
        assert 0 < variance <= 25 and (variance == 25) == (h == 1 and n == 100)
        answers = hidden.server.exchange(messages[0])
        assert answers[0].estimates[0] == pytest.approx(variance)
        for m, answer in answers.items():
            hidden.clients[m].receive(answer)
            plain.clients[m].client.receive(replace(answer, header=h))


def test_masks_of_pf_pne_plus_are_used_once(monkeypatch):
    """One for each header, of one exchange; header 0 is a look at the keys, and nothing is sent under it."""
    used, whole = [], mask

    def counted(key, own, keys, header, n, broadcast_digest=""):
        used.append((own, header))
        return whole(key, own, keys, header, n, broadcast_digest)

    monkeypatch.setattr("pfpne.algorithms.secure.mask", counted)
    problem = pfpne.make_problem("garland", 4, shift=0.1, noise="bernoulli")
    run = pfpne.simulate(secured("pf-pne+"), problem, 600, messages=True)
    sent = [(m, message.header) for _, way, m, message in run.messages if way == "up"]
    assert sorted(used) == sorted(sent) and len(set(used)) == len(used)
    assert {header for _, header in sent} == set(range(len(sent) // 4)) and len(sent) >= 3 * 4


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.x25519", None)
    with pytest.raises(ValueError, match=r'pip install "pfpne\[secure\]"'):
        make_federation(secured("pf-pne"), Task(Partition([[0.0, 1.0]]), M, 60, noise="bernoulli"))


def together(horizon: int):
    run = make_federation(secured("pf-pne"), task(M, horizon))
    while run.running:
        for m, batch in run.ask():
            run.tell(m, np.repeat([objective(m, x) for x in batch.points], batch.counts))
    return run


def test_in_live_use_it_is_as_in_one_process_and_a_lost_state_does_no_harm(tmp_path):
    """Server and clients start again at each answer; a client that loses its state is still known by its key."""
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    assert (tmp_path / "client-1" / "key").stat().st_size == 32
    assert (tmp_path / "client-1").stat().st_mode & 0o077 == 0
    (tmp_path / "client-1" / "state").unlink()
    clients = in_one_process("pf-pne", tmp_path, 60, secure=True)
    run = together(60)
    for m, client in enumerate(run.clients):
        assert state(tmp_path, m).t == client.t == 60
        assert np.array_equal(state(tmp_path, m).best(), client.best())
    assert len({client.client.fingerprint for client in clients.values()}) == 1


def test_with_masks_nobody_is_told_to_evaluate_again(tmp_path):
    """Other rewards under the same masks would show their difference to the server."""
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    path = tmp_path / "client-1" / "evaluations.jsonl"
    whole = path.read_bytes()
    for content in (whole.splitlines(keepends=True)[0], whole.replace(b'"t": 2', b'"t": 7')):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match="remove the whole folder, at all sites, .* masks may not be used twice"
        ) as e:
            LiveClient("pf-pne", task(M, 60), 1, lambda x: 0.5, tmp_path / "client-1", secure=True)
        assert "evaluate" not in str(e.value).replace("evaluations.jsonl", "").replace(str(tmp_path), "")


def test_with_masks_a_missing_reward_is_none_of_the_others(tmp_path):
    """Else a mean of six rewards, one of them missing, would be of five."""
    values = iter([*5 * [1.0], math.nan])
    client = LiveClient("pf-pne", task(M, 60), 0, lambda x: next(values), tmp_path, secure=True, missing=0.25)
    assert client._rewards(Batch(np.array([[0.5]]), np.array([6]))).tolist() == [*5 * [1.0], 0.25]


@pytest.mark.parametrize("counts", [[5], [1, 1, 1, 1, 1]])
def test_with_masks_fewer_rewards_than_the_least_number_do_not_count(tmp_path, counts):
    """Four of five evaluations fail: the sum of 0.8 and four times 0 tells the others, together, a single reward."""
    values = iter([math.nan, 0.8, *3 * [math.nan], *5 * [0.5]])
    client = LiveClient("pf-pne", task(M, 60), 0, lambda x: next(values), tmp_path, secure=True)
    points = np.array([[0.5]] * len(counts) + [[0.25]])
    assert client._rewards(Batch(points, np.array([*counts, 5]))).tolist() == [*5 * [0.0], *5 * [0.5]]


def test_the_least_number_that_counts_is_the_settings(tmp_path):
    values = iter([math.nan, 0.5, 0.75])
    client = LiveClient(
        "pf-pne", task(M, 60), 0, lambda x: next(values), tmp_path, secure=True, least_rewards=2, missing=0.25
    )
    assert client._rewards(Batch(np.array([[0.5]]), np.array([3]))).tolist() == [0.25, 0.5, 0.75]


def test_no_other_run_has_the_masks_of_a_key_that_was_left_behind(tmp_path):
    """Without the state alone, the same run goes on; without its journal, too, or with another plan, the key is
    another.
    """

    def a_client(horizon):
        plan = "pf-pne", task(M, horizon)
        return LiveClient(*plan, 1, lambda x: objective(1, x), tmp_path / "client-1", secure=True)

    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    keys = [a_client(60).client.key.tobytes()]
    (tmp_path / "client-1" / "state").unlink()
    assert a_client(60).client.key.tobytes() == keys[0]
    (tmp_path / "client-1" / "evaluations.jsonl").unlink()
    keys += [a_client(horizon).client.key.tobytes() for horizon in (60, 61)]
    assert len(set(keys)) == 3
    assert not np.array_equal(key_for(bytes(32), "one plan"), key_for(bytes(32), "another"))


def test_a_journal_that_was_left_behind_does_not_serve_in_another_federation(tmp_path):
    """With a site more among the others, the two sums could be subtracted."""

    def a_client(n_clients=M, horizon=60, **more):
        return LiveClient("pf-pne", task(n_clients, horizon), 1, lambda x: 0.5, tmp_path / "client-1", **more)

    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    for more in ({"n_clients": M + 1}, {"horizon": 61}, {"missing": 0.5}):
        with pytest.raises(ValueError, match="is the state of another run: give this one a folder of its own.$"):
            a_client(**more, secure=True)
    (tmp_path / "client-1" / "state").unlink()
    for more in ({"n_clients": M + 1}, {"horizon": 61}, {"missing": 0.5}, {"secure": False}):
        with pytest.raises(ValueError, match="the journal in .* is of another run.* remove the whole folder"):
            a_client(**{"secure": True, **more})
    assert a_client(secure=True).client.t == 0
    agreed = tmp_path / "client-1" / "agreed.json"
    whole = json.loads(agreed.read_bytes())
    for content in (b"", b"[]", b"\xff", json.dumps({"plan": whole["plan"]}).encode()):
        agreed.write_bytes(content)
        with pytest.raises(ValueError, match="or agreed.json there is not as it was"):
            a_client(secure=True)
    agreed.unlink()
    with pytest.raises(ValueError, match="or agreed.json there is not as it was"):
        a_client(secure=True)


@pytest.mark.parametrize("lost", [("state",), ()])
def test_a_client_takes_no_other_public_keys_than_it_had(lost, tmp_path):
    """Of the same sums, under masks of keys that the server made, it could read each."""
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    folder = tmp_path / "client-1"
    server = LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600, secure=True)
    keys = server.server.keys.copy()
    keys[0] = public_key(new_key())
    for name in lost:
        (folder / name).unlink()
    client = LiveClient("pf-pne", task(M, 60), 1, lambda x: objective(1, x), folder, secure=True)
    if lost:
        with pytest.raises(ValueError, match="are not the public keys that it had before.* remove the whole folder"):
            client.answer(PublicKeys(0, keys).to_json(server.run_tag))
        assert client.client.keys is None
        client.answer(PublicKeys(0, server.server.keys).to_json(server.run_tag))
    else:
        client.answer(PublicKeys(0, keys).to_json(server.run_tag))  # late: ignored
    assert np.array_equal(client.client.keys, server.server.keys)
    agreed = folder / "agreed.json"
    agreed.write_bytes(agreed.read_bytes().replace(b'"keys": "', b'"keys": "0'))
    with pytest.raises(ValueError, match="or agreed.json there is not as it was"):
        client.answer()


def test_public_keys_that_are_refused_are_not_kept(tmp_path):
    """The right ones are taken afterwards."""
    clients = [LiveClient("pf-pne", task(M, 60), m, lambda x: 0.5, tmp_path / f"{m}", secure=True) for m in range(M)]
    server = LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600, secure=True)
    for m, client in enumerate(clients):
        server.take(m, client.answer(server.mail(m)))
    keys = server.server.keys.copy()
    keys[0] = public_key(new_key())
    with pytest.raises(ValueError, match="the public key of client 0 must be its own"):
        clients[0].answer(PublicKeys(0, keys).to_json(server.run_tag))
    assert '"Masked"' in clients[0].answer(server.mail(0))


def test_a_client_whose_key_is_lost_is_no_member_any_more(tmp_path):
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    for name in ("state", "key"):
        (tmp_path / "client-1" / name).unlink()

    def a_client():
        return LiveClient("pf-pne", task(M, 60), 1, lambda x: objective(1, x), tmp_path / "client-1", secure=True)

    with pytest.raises(ValueError, match="key is lost, and so is the state.* remove the whole folder"):
        a_client()
    (tmp_path / "client-1" / "key").write_bytes(bytes(32))
    client = a_client()
    server = LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600, secure=True)
    server.take(1, client.answer(server.mail(1)))
    with pytest.raises(ValueError, match="the public key of client 1 must be its own: begin anew"):
        client.answer(PublicKeys(0, server.server.keys).to_json(server.run_tag))


EXCHANGING = ("pf-pne", 200, 9), ("pf-pne+", 600, 6)  # after so many answers more, masked numbers are still sent


def is_good(m: int, x) -> float:
    """Binary rewards, so that pf-pne+ does not take them for exact and end its first stage at the root."""
    return float(objective(m, x) > 0.5)


@pytest.mark.parametrize(("name", "T", "further"), EXCHANGING)
def test_an_older_copy_of_a_folder_does_not_evaluate_again(name, T, further, tmp_path):
    """Other rewards under the same masks would show their difference to the server."""
    more = {"evaluate": is_good, "secure": True, "least_clients": 3}
    in_one_process(name, tmp_path, T, stop_after=6, **more)
    folder, older, newest = tmp_path / "client-1", tmp_path / "older", tmp_path / "newest"
    shutil.copytree(folder, older)
    in_one_process(name, tmp_path, T, stop_after=further, **more)
    shutil.copytree(folder, newest)
    shutil.rmtree(folder)
    older.rename(folder)
    journal = (folder / "evaluations.jsonl").read_bytes()
    for _ in range(2):  # and it stays so
        with pytest.raises(ValueError, match="ends: this folder is an older copy. Put the newest back"):
            in_one_process(name, tmp_path, T, **{**more, "evaluate": lambda m, x: 0.5})
    assert (folder / "evaluations.jsonl").read_bytes() == journal
    shutil.rmtree(folder)
    newest.rename(folder)
    (folder / "state").unlink()
    in_one_process(name, tmp_path, T, **more)
    assert [state(tmp_path, m).t for m in range(M)] == [T] * M


@pytest.mark.parametrize(("name", "T", "further"), EXCHANGING)
def test_an_older_copy_that_is_greeted_first_evaluates_nothing(name, T, further, tmp_path):
    """As over Flower, where a site that is started again is first sent an empty text."""
    more = {"secure": True, "least_clients": 3}
    folder, older, kept = tmp_path / "client-1", tmp_path / "older", tmp_path / "kept"
    in_one_process(name, tmp_path, T, stop_after=6, evaluate=is_good, **more)
    shutil.copytree(folder, older)
    in_one_process(name, tmp_path, T, stop_after=further, evaluate=is_good, **more)
    shutil.copytree(folder, kept)
    for _ in range(2):  # also if it is put back again
        shutil.rmtree(folder)
        shutil.copytree(older, folder)
        server = LiveServer(name, task(M, T), tmp_path / "server", deadline=600, **more)
        client = LiveClient(name, task(M, T), 1, lambda x: pytest.fail("it evaluated"), folder, **more)
        text, journal = "", (folder / "evaluations.jsonl").read_bytes()
        with pytest.raises(ValueError, match="this folder is an older copy"):
            for _ in range(4):
                server.take(1, client.answer(text))
                text = server.mail(1)
        assert (folder / "evaluations.jsonl").read_bytes() == journal
    shutil.rmtree(folder)
    kept.rename(folder)
    client = LiveClient(name, task(M, T), 1, lambda x: pytest.fail("it evaluated"), folder, **more)
    assert '"GoOn"' in client.answer()  # nothing is evaluated before the server has said where it is
    in_one_process(name, tmp_path, T, evaluate=is_good, **more)
    assert [state(tmp_path, m).t for m in range(M)] == [T] * M


@pytest.mark.parametrize("text", ['{"x": 1}', '{"header": "a"}', '{"header": -1}', '{"header": ' + "[" * 10**5 + "}"])
def test_a_forged_line_of_what_was_revealed_is_told_in_words(text, tmp_path):
    def a_client():
        more = {"secure": True, "quorum": 3}
        return LiveClient("pf-pne", task(4, 60), 0, lambda x: 0.5, tmp_path / "client", **more)

    a_client().answer()
    line = text.encode()
    crc = b', "crc": "%08x"}\n' % zlib.crc32(line)
    (tmp_path / "client" / "revealed.jsonl").write_bytes(line[:-1] + crc)
    with pytest.raises(ValueError, match="revealed.jsonl"):
        a_client()


def test_a_folder_in_the_place_of_the_lock_is_told_in_words(tmp_path):
    for name in ("client", "server"):
        (tmp_path / name / "lock").mkdir(parents=True)
    with pytest.raises(ValueError, match="lock is a folder, a pipe"):
        LiveClient("pf-pne", task(M, 60), 0, lambda x: 0.5, tmp_path / "client")
    with pytest.raises(ValueError, match="lock is a folder, a pipe"):
        LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600)


def test_the_head_of_a_text_that_is_no_message_changes_nothing(tmp_path):
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    server = LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600, secure=True)
    client = LiveClient("pf-pne", task(M, 60), 0, lambda x: 0.5, tmp_path / "client-0", secure=True)
    before = (tmp_path / "client-0" / "state").read_bytes()
    text = f'{{"plan": "{server.run_tag}", "kind": "Kept", "header": 77, "index": [{"1, " * 10**5}}}'
    with pytest.raises(ValueError, match="not a message"):
        client.answer(text)
    assert (tmp_path / "client-0" / "state").read_bytes() == before
    in_one_process("pf-pne", tmp_path, 60, secure=True)
    assert [state(tmp_path, m).t for m in range(M)] == [60] * M


def test_a_header_beyond_the_plan_is_refused_and_does_not_stop_a_client_for_good(tmp_path):
    """A client with masks remembers how far ahead its server is, and evaluates nothing for one that has its sums."""
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    server = LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600, secure=True)
    client = LiveClient("pf-pne", task(M, 60), 0, lambda x: 0.5, tmp_path / "client-0", secure=True)
    before = (tmp_path / "client-0" / "state").read_bytes()
    kept = Kept(10**17, np.array([1]), np.array([0.5]), np.array([0.5]))
    latest = M * 60 + client._task.partition.max_depth + 1
    with pytest.raises(ValueError, match=f"the header of the server's Kept must be at most {latest}, the last in this"):
        client.answer(kept.to_json(server.run_tag))
    assert (tmp_path / "client-0" / "state").read_bytes() == before
    in_one_process("pf-pne", tmp_path, 60, secure=True)
    assert [state(tmp_path, m).t for m in range(M)] == [60] * M


def test_a_key_that_was_changed_is_noticed_while_the_state_is_there(tmp_path):
    """Afterwards it would be too late."""
    in_one_process("pf-pne", tmp_path, 60, stop_after=9, secure=True)
    path = tmp_path / "client-1" / "key"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="key is not the key of the state beside it. Put it back"):
        in_one_process("pf-pne", tmp_path, 60, secure=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="key must be a key of 32 bytes"):
        in_one_process("pf-pne", tmp_path, 60, secure=True)
    path.unlink()  # as the error says
    in_one_process("pf-pne", tmp_path, 60, secure=True)
    assert [state(tmp_path, m).t for m in range(M)] == [60] * M


def test_a_quorum_of_all_clients_is_none_in_the_plan(tmp_path):
    server = LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=600, quorum=M, secure=True)
    client = LiveClient("pf-pne", task(M, 60), 0, lambda x: 0.5, tmp_path / "client", secure=True)
    server.take(0, client.answer(server.mail(0)))
    assert sorted(server.inbox) == [0]


def test_a_quorum_of_two_is_refused_as_each_would_have_the_others_mean(tmp_path):
    with pytest.raises(ValueError, match="quorum with secure aggregation must be at least 3 of 3 clients"):
        LiveServer("pf-pne", task(M, 60), tmp_path / "server", deadline=1, quorum=2, secure=True)
    assert not (tmp_path / "server").exists()


@pytest.mark.parametrize("name", SECURED)
def test_it_is_saved_and_restored(name):
    settings, all_means = FED1 if name == "fed1-ucb" else {}, set()
    horizon = 100 if name == "pf-pne+" else 200
    plain, apart = (make_federation(secured(name), task(SITES.get(name, M), horizon), **settings) for _ in range(2))
    while plain.running:
        for run in (plain, apart):
            for m, batch in run.ask():
                run.tell(m, np.repeat([is_good(m, x) for x in batch.points], batch.counts))
        means = [run.server.means for run in (plain, apart)]
        assert means[0] is means[1] is None or np.array_equal(*means)
        if means[0] is not None:
            all_means.add(tuple(means[0].tolist()))
        apart = from_bytes(to_bytes(apart))
        for mine, other in zip(apart.clients, plain.clients, strict=True):
            assert mine.t == other.t and np.array_equal(mine.best(), other.best())
    assert len(all_means) >= 2  # it was saved between exchanges


def test_the_page_on_trust_runs_as_it_stands():
    page = (CHECKOUT / "docs" / "trust.md").read_text(encoding="utf-8")
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)), names)
    assert type(names["federation"].clients[0]) is RecoveringClient


def test_a_public_key_has_header_0_and_a_masked_number_has_62_bits():
    server = make_federation(secured("fed-pne"), task(M, 60)).server
    keys = {m: PublicKey(0, public_key(new_key())) for m in range(M)}
    with pytest.raises(ValueError, match="header"):
        server.exchange({m: PublicKey(1, key.key) for m, key in keys.items()})
    server.exchange(keys)
    awaited, largest = server.awaits(0), 2**BITS - 1
    numbers = np.zeros(awaited.sizes["n"], dtype=np.int64)
    assert awaited.accepts(Masked(awaited.headers.start, numbers + largest), (Masked,))
    for wrong in (largest + 1, -1):
        with pytest.raises(ValueError, match="masked"):
            awaited.accepts(Masked(awaited.headers.start, numbers + wrong), (Masked,))
    for kind in (Masked, MaskedStatistics, TwiceMasked):
        assert kind.__dataclass_fields__["masked"].metadata["high"] == 2**62 - 1


def test_a_key_that_is_none_is_refused():
    run = make_federation(secured("pf-pne"), Task(Partition([[0.0, 1.0]]), M, 60, noise="bernoulli"))
    client = run.clients[0]
    own = client.first_message().key
    for others in ([np.zeros(32, int)] * 2, [own, own], [public_key(new_key()), np.zeros(32, int)]):
        with pytest.raises(ValueError):
            client.receive(PublicKeys(0, np.stack([own, *others])))
        assert client.keys is None and client.ask().size == 0


def test_a_key_that_cannot_be_used_and_one_of_another_are_refused_on_arrival(tmp_path):
    """Taken, they would end the federation: every client refuses the keys, and the server asks for none again."""
    server = LiveServer("pf-pne", task(M, 60), tmp_path, deadline=600, secure=True)
    own = [PublicKey(0, public_key(new_key())) for _ in range(M)]
    server.take(1, own[1].to_json(server.run_tag))
    for wrong, why in ((np.zeros(32, int), "client 0 cannot be used"), (own[1].key, "client 0 is that of client 1")):
        with pytest.raises(ValueError, match=f"the public key of {why}"):
            server.take(0, PublicKey(0, wrong).to_json(server.run_tag))
        with pytest.raises(ValueError, match="the public key of client"):
            server.server.exchange(dict(enumerate([PublicKey(0, wrong), *own[1:]])))
    assert sorted(server.inbox) == [1] and server.server.keys is None
    for m in (0, 2):
        server.take(m, own[m].to_json(server.run_tag))
    assert server.server.keys.shape == (M, 32)


def test_an_algorithm_that_sends_something_is_not_said_to_send_nothing(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "another", ALGORITHMS["fn-ucb"])
    with pytest.raises(ValueError, match="another needs more than sums over the clients: secure aggregation is for"):
        secured("another")


@pytest.mark.parametrize("name", SECURED)
def test_wrong_settings_of_the_algorithm_are_refused_with_masks_too(name):
    own = {"c_pulls": -1.0} if name == "fed1-ucb" else {"nu_1": -1.0}
    some = Task(Partition([[0.0, 1.0]]), 3, 600, "bernoulli")
    with pytest.raises(ValueError, match=f"{next(iter(own))} must be"):
        make_federation(secured(name), some, **own)


def test_pf_pne_plus_sends_three_numbers_besides_the_means():
    """Of a depth whose nodes are many: with the squares of each, three means would be known at nearly every node."""
    problem = pfpne.make_problem("garland", 4, shift=0.1, noise="bernoulli")
    run = pfpne.simulate(secured("pf-pne+"), problem, 600, messages=True)
    sent = [message for _, way, m, message in run.messages if way == "up" and m == 0][1:]
    assert {type(message) for message in sent} == {MaskedStatistics}
    assert [message.header for message in sent] == list(range(1, len(sent) + 1))
    assert {len(message.statistics) for message in sent} == {3} and len(sent[0].masked) == 1
    assert all(len(message.masked) >= 2 for message in sent[1:]) and max(len(message.masked) for message in sent) >= 4


def test_known_rewards_do_not_pass_a_second_time_under_masks(tmp_path):
    """With another site among them, or one less, the two sums could be subtracted."""
    LiveClient("pf-pne", task(M, 60), 0, lambda x: 0.5, tmp_path / "before").answer()
    known = tmp_path / "before" / "evaluations.jsonl"
    with pytest.raises(ValueError, match="known must be None with masks"):
        LiveClient("pf-pne", task(M, 60), 0, lambda x: 0.5, tmp_path / "now", known=known, secure=True)
    assert not (tmp_path / "now").exists()
