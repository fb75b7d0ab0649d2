"""Secure aggregation without a client that is gone: the sum over those there, the same decisions, and nobody's part."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from pfpne.algorithms import make_federation
from pfpne.algorithms.secret_shares import (
    Envelopes,
    from_words,
    join_shares,
    mask_from_seed,
    seeds,
    split_secret,
    to_words,
)
from pfpne.algorithms.secure import (
    BITS,
    Masked,
    PublicKey,
    PublicKeys,
    Reveal,
    Revealed,
    TwiceMasked,
    from_fixed,
    least_sum,
    new_key,
    public_key,
    secured,
    signed_mask,
    sum_masked,
)
from pfpne.disclosure import OTHER_SITES
from pfpne.federation import Task
from pfpne.fixed_point import precision, to_fixed
from pfpne.journal import Journal
from pfpne.live import LiveClient, LiveServer
from pfpne.live.states import from_bytes, to_bytes
from pfpne.partition import Partition

pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
pytest.importorskip("Crypto", reason="pfpne[secure] is not installed")

LINE = Partition([[0.0, 1.0]])


def four_sites(noise="bernoulli", horizon=60, **settings):
    """A federation of four, of whom three make an exchange, after the exchange of keys."""
    task = Task(LINE, 4, horizon, noise=noise)
    run = make_federation(secured("pf-pne"), task, **{"quorum": 3, "least_rewards": 1, **settings})
    down = run.server.exchange({m: client.first_message() for m, client in enumerate(run.clients)})
    for m, message in down.items():
        run.clients[m].receive(message)
    return run


def masked_numbers(run, values=(0.0, 1.0, 1.0, 0.0)) -> dict[int, TwiceMasked]:
    return {m: c.tell(np.full(c.ask().size, values[m])) for m, c in enumerate(run.clients)}


# --- the parts -------------------------------------------------------------------------------------------


def test_a_quorum_of_shares_gives_a_secret_back_and_fewer_do_not():
    secret = bytes(range(16))
    shares = dict(enumerate(split_secret(secret, 3, 5)))
    for some in itertools.combinations(range(5), 3):
        assert join_shares({m: shares[m] for m in some}) == secret
    assert join_shares({m: shares[m] for m in (0, 3)}) != secret


def test_a_seed_is_known_to_a_pair_alone_and_is_new_in_each_exchange():
    keys = [new_key() for _ in range(3)]
    public = np.stack([public_key(key) for key in keys])
    of_all = {(m, header): seeds(keys[m], m, public, header) for m in range(3) for header in (1, 2)}
    assert of_all[0, 1][2] == of_all[2, 1][0]
    assert len({seed for own in of_all.values() for seed in own}) == 2 * (3 + 3)  # three pairs and three own, twice
    masks = [signed_mask(of_all[m, 1][v], m, v, 20) for m in range(3) for v in range(3) if v != m]
    assert not sum_masked(masks).any() and all(mask.any() for mask in masks)
    assert np.array_equal(signed_mask(of_all[0, 1][0], 0, 0, 20), mask_from_seed(of_all[0, 1][0], 20, BITS))


def test_shares_are_read_by_whom_they_are_for():
    keys = [new_key() for _ in range(3)]
    public = np.stack([public_key(key) for key in keys])
    sealed = Envelopes(keys[0], 0, public, 5).seal(1, b"a secret")
    assert Envelopes(keys[1], 1, public, 5).open(0, to_words(from_words(sealed))) == b"a secret"
    changed = sealed.copy()
    changed[4] ^= 1
    readers = [(2, keys[2], 5, 0, sealed), (1, keys[1], 6, 0, sealed), (1, keys[1], 5, 2, sealed)]
    for m, key, header, sender, words in [*readers, (1, keys[1], 5, 0, changed)]:
        with pytest.raises(ValueError, match="are not those that it sent for this exchange"):
            Envelopes(key, m, public, header).open(sender, words)


def reachable(M: int, quorum: int, told: tuple) -> bool:
    """Whether a server that tells client v of told[v] gets a sum over fewer than a quorum; how small it is."""
    present = {u for u in range(M) if sum(u in of_v for of_v in told) >= quorum}
    gone = {w for w in range(M) if sum(w not in of_v for of_v in told) >= quorum}
    return len(present) if present and present | gone == set(range(M)) else M


@pytest.mark.parametrize(("M", "quorum"), [(3, 2), (4, 2), (4, 3), (5, 4)])
def test_whatever_a_server_tells_each_client_no_sum_is_over_fewer_than_least_sum(M, quorum):
    """All that it can say: each client is told of a set that it is in, of a quorum or more."""
    sets = [[s for k in range(quorum, M + 1) for s in itertools.combinations(range(M), k) if v in s] for v in range(M)]
    smallest = min(reachable(M, quorum, told) for told in itertools.product(*sets))
    assert smallest >= max(1, least_sum(M, quorum))


# --- an exchange -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", range(4))
def test_without_one_the_sum_is_that_of_the_others_and_no_message_says_more(gone):
    run = four_sites()
    sent = masked_numbers(run)
    there = {m: message for m, message in sent.items() if m != gone}
    asked = run.server.exchange(there)
    assert {type(message) for message in asked.values()} == {Reveal} and run.server.left_out == (gone,)
    said = {m: run.clients[m].receive(message) for m, message in asked.items()}
    assert {type(message) for message in said.values()} == {Revealed}
    answer = run.server.exchange(said)[min(there)]
    assert answer.means.tolist() == [np.mean([(0.0, 1.0, 1.0, 0.0)[m] for m in there])]
    numbers = [from_fixed(message.masked, 52)[0] for message in sent.values()]
    assert not set(numbers) & {0.0, 1.0}
    assert run.clients[gone].receive(answer) is None and run.clients[gone].ask().size > 0  # it comes back


def test_fewer_answers_than_a_quorum_open_no_mask():
    run = four_sites()
    asked = run.server.exchange(masked_numbers(run))
    said = {m: client.receive(asked[m]).shares.reshape(4, 4, -1) for m, client in enumerate(run.clients)}
    first = run.clients[0]
    own = seeds(first.key, 0, first.keys, 1, first.broadcast_digest)[0]
    for n, opened in ((2, False), (3, True)):
        for answered in itertools.combinations(range(4), n):
            assert (join_shares({m: from_words(said[m][0, 0]) for m in answered}) == own) is opened


def test_one_that_goes_between_the_rounds_is_in_the_sum():
    run = four_sites()
    asked = run.server.exchange(masked_numbers(run))
    said = {m: run.clients[m].receive(asked[m]) for m in (0, 1, 3)}
    with pytest.raises(ValueError, match="3 clients make an exchange, and 2 have answered"):
        run.server.exchange({m: said[m] for m in (0, 1)})
    answers = run.server.exchange(said)
    assert sorted(answers) == [0, 1, 2, 3] and answers[2].means.tolist() == [0.5]
    run.clients[2].receive(answers[2])
    assert run.clients[2].ask().size > 0


def test_the_number_of_a_client_that_is_said_to_be_gone_stays_masked_by_its_own():
    """The server has its message, says that it has not, and takes off all masks that it is told of."""
    run = four_sites()
    sent = masked_numbers(run)
    asked = run.server.exchange({m: sent[m] for m in (0, 1, 2)})
    said = {m: run.clients[m].receive(asked[m]) for m in (0, 1, 2)}
    left = sent[3].masked
    for u in (0, 1, 2):
        pair = join_shares({m: from_words(message.shares.reshape(4, 4, 4)[u, 3]) for m, message in said.items()})
        left = (left + signed_mask(pair, u, 3, 1)) & (2**BITS - 1)
        own = [message.shares.reshape(4, 4, 4)[3] for message in said.values()]
        assert not np.any(own)  # no share of what it shared itself
    assert from_fixed(left, 52)[0] not in (0.0, 1.0)
    own = mask_from_seed(
        seeds(run.clients[3].key, 3, run.clients[3].keys, 1, run.clients[3].broadcast_digest)[3], 1, BITS
    )
    assert from_fixed((left - own) & (2**BITS - 1), 52)[0] == 0.0  # all that was left


def test_a_client_answers_once_and_for_itself_and_a_quorum_alone():
    run = four_sites()
    sent = masked_numbers(run)
    asked = run.server.exchange({m: sent[m] for m in (0, 1, 2)})
    client = run.clients[0]
    for present in ([1, 1, 0, 0], [0, 1, 1, 1]):
        with pytest.raises(ValueError, match="this client, 0, and others, 3 or more together"):
            client.receive(replace(asked[0], present=np.array(present)))
    with pytest.raises(ValueError, match="the shares of client 3 are not those that it sent"):
        client.receive(replace(asked[0], present=np.ones(4, dtype=int)))
    assert isinstance(client.receive(asked[0]), Revealed)
    rest = np.stack([message.shares.reshape(4, -1)[0] for message in sent.values()])
    for present in (asked[0].present, np.array([1, 1, 0, 1]), np.ones(4, dtype=int)):
        assert client.receive(Reveal(1, present, rest.ravel())) is None  # whatever it is asked
    restored = from_bytes(to_bytes(client))
    assert restored.receive(Reveal(1, np.array([1, 1, 0, 1]), rest.ravel())) is None


def test_too_few_for_a_sum_are_refused():
    def make(M, quorum, name="pf-pne", **more):
        return make_federation(secured(name), Task(LINE, M, 60, noise="bernoulli"), quorum=quorum, **more)

    with pytest.raises(ValueError, match="quorum with secure aggregation must be at least 3 of 3 clients"):
        make(3, 2)
    with pytest.raises(ValueError, match="must be at least 4 of 5 clients, so that no sum is over fewer than 3"):
        make(5, 3)
    with pytest.raises(ValueError, match=r"quorum must be 4: pf-pne\+ cannot do without one of its clients"):
        make(4, 3, "pf-pne+")
    with pytest.raises(
        ValueError, match="quorum must be 4 with masks: in fed1-ucb the mean of an arm is averaged again"
    ):
        make(4, 3, "fed1-ucb")
    with pytest.raises(ValueError, match="4 with masks and a partition of odd k"):
        make_federation(secured("pf-pne"), Task(Partition([[0.0, 1.0]], k=3), 4, 60, noise=0.1), quorum=3)
    assert type(make(4, 4, "fed1-ucb").clients[0].first_message()) is PublicKey
    with pytest.raises(ValueError, match="quorum must be an integer in 2"):
        make(4, 1)
    assert type(make(4, 4).clients[0].first_message()) is PublicKey and Masked in make(4, 4).server.receives
    assert [least_sum(4, 3), least_sum(5, 4), least_sum(6, 4), least_sum(20, 11)] == [3, 4, 3, 4]


def test_shares_that_lie_end_in_a_sum_beyond_what_it_can_be():
    run = four_sites()
    asked = run.server.exchange(masked_numbers(run))
    said = {m: run.clients[m].receive(asked[m]) for m in (0, 1, 2)}
    false = Revealed(1, (said[0].shares + 1) % 2**32)
    with pytest.raises(RuntimeError, match="one of them lies or is broken"):
        run.server.exchange({**said, 0: false})
    assert run.server.exchange(said)[0].means.tolist() == [0.5]


@pytest.mark.parametrize(("total", "is_possible"), [(3.0, True), (3.5, False), (0.0, True), (-0.5, False)])
def test_a_sum_over_three_of_four_is_no_more_than_three_can_have(total, is_possible):
    run = four_sites()
    sums, n = run.server.sums, run.server.rewards_in_means()
    numbers = to_fixed(np.array([n * total]), precision(n * sums.limit, 4))
    if is_possible:
        assert sums.means_of(run.server, numbers, 3).tolist() == [total / 3]
    else:
        with pytest.raises(ValueError, match="the sum must be of means in the range of the rewards"):
            sums.means_of(run.server, numbers, 3)


# --- the same decisions ----------------------------------------------------------------------------------


def exchange(run, there: set, answer_twice: set) -> dict | None:
    """One exchange among clients in `there`; of those, `answer_twice` are still there after the first round."""
    sent = {m: client._sent_last for m, client in enumerate(run.clients) if m in there}
    down = run.server.exchange(sent)
    if isinstance(next(iter(down.values())), Reveal):
        said = {m: run.clients[m].receive(down[m]) for m in answer_twice}
        down = run.server.exchange(said)
    return next(iter(down.values()))


def decisions(name: str, M: int, quorum: int, seed: int, masks: bool) -> list:
    """What the server decided in a small run of which random clients are gone at each exchange, and come back."""
    rng = np.random.default_rng(seed)
    noise = ("bernoulli", 0.2)[seed % 2]
    task = Task(LINE, M, 60, noise=noise, seed=seed)
    more = {"quorum": quorum, "least_rewards": 1} if masks else {}
    run = make_federation(secured(name) if masks else name, task, **more)
    run.server.quorum = quorum
    if masks:
        keys = run.server.exchange({m: client.first_message() for m, client in enumerate(run.clients)})
        for m, client in enumerate(run.clients):
            client.receive(keys[m])
    decided, rewards = [], [np.random.default_rng([seed, m]) for m in range(M)]
    while True:
        sending = 0
        for m, client in enumerate(run.clients):
            client._sent_last = None
            while client._sent_last is None and (batch := client.ask()).size:
                x = np.repeat(batch.points[:, 0], batch.counts)
                mean = 0.5 + 0.4 * np.sin(5 * x + m / M)
                drawn = rewards[m].random(len(x))
                client._sent_last = client.tell(drawn < mean if noise == "bernoulli" else mean + 0.4 * drawn - 0.2)
            sending += client._sent_last is not None
        there = rng.permutation(M)[: rng.integers(quorum, M + 1)].tolist()
        after = there[: rng.integers(quorum, len(there) + 1)]
        if sending < M:
            return decided
        answer = exchange(run, set(there), set(after))
        decided.append((len(there), answer.header - masks, *(x.tolist() for x in answer.values)))
        for client in run.clients:  # those that were gone are back, and are sent what they missed
            client.receive(answer)


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne"])
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 100), marks=pytest.mark.slow)], ids=str)
def test_decisions_are_those_of_the_quorum_without_masks(name, seeds):
    """Of 4 or 5 clients, of whom up to one may be gone at each exchange, and others after round 1."""
    exchanges = short = 0
    for seed in seeds:
        M = 4 + seed % 2
        plain, masked = (decisions(name, M, M - 1, seed, masks) for masks in (False, True))
        assert [row[:3] for row in plain] == [row[:3] for row in masked]
        for row, other in zip(plain, masked, strict=True):
            for x, y in zip(row[3:], other[3:], strict=True):
                assert np.allclose(x, y, atol=1e-12, rtol=0)
        exchanges, short = exchanges + len(plain), short + sum(row[0] < M for row in plain)
    assert exchanges >= len(seeds) and short > exchanges / 5


# --- live ------------------------------------------------------------------------------------------------


class Sites:
    """A live server and its clients in one process; both are made anew from their folders at every answer."""

    def __init__(self, folder, name, M, quorum, horizon, **settings):
        self.folder, self.M, self.spread = folder, M, 1  # spread: how far they differ
        self.plan = name, Task(LINE, M, horizon, noise=0)
        self.more = {"quorum": quorum, **settings}

    def server(self) -> LiveServer:
        return LiveServer(*self.plan, self.folder / "server", deadline=1e-9, **self.more)

    def client(self, m: int) -> LiveClient:
        def evaluate(x):
            return 0.5 + 0.4 * np.sin(5 * x[0] + self.spread * m / self.M)

        return LiveClient(*self.plan, m, evaluate, self.folder / f"client-{m}", **self.more)

    def ask(self, there: set, server: LiveServer) -> None:
        for m in sorted(there & set(server.clients_to_ask())):
            server.take(m, self.client(m).answer(server.mail(m)))


def live(folder, seed, secure, name="pf-pne", M=4, horizon=40, **settings) -> list[np.ndarray]:
    """A run with random drop-outs, drawn by round of an exchange; the best point of each client."""
    sites = Sites(
        folder, name, M, M - 1, horizon, **({"secure": True, "least_rewards": 1} if secure else {}), **settings
    )
    rng, server = np.random.default_rng(seed), sites.server()
    if secure:
        sites.ask(set(range(M)), server)
    while server.running:
        there = set(range(M)) - {int(rng.integers(2 * M))}  # half of the time all are there
        concluded = len(server._past_broadcasts)
        while server.running and len(server._past_broadcasts) == concluded:
            server = sites.server()
            for _ in range(3):  # those that come back are first sent what they missed
                sites.ask(there, server)
            if len(server._past_broadcasts) == concluded and not server.inbox and not server.server.left_out:
                break  # each is alone now
            if len(server._past_broadcasts) == concluded and server.inbox:
                server.tick()
    return [sites.client(m).best() for m in range(M)]


def test_live_a_lost_client_holds_nobody_up_and_may_come_back(tmp_path):
    """It is gone in the second exchange, whole; then its late text is ignored, and it is sent what it missed."""
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server, everyone = sites.server(), {0, 1, 2, 3}
    sites.ask(everyone, server)  # the keys
    assert isinstance(server.server.keys, np.ndarray)
    sites.ask(everyone, server)
    sites.ask(everyone, server)
    assert list(server._past_broadcasts) == [0, 1]
    late = sites.client(3).answer(server.mail(3))
    for _ in range(2):
        sites.ask({0, 1, 2}, sites.server())
        server = sites.server()
        if server.inbox:
            server.tick()
            server = sites.server()
            assert server.server.left_out == (3,) and server.clients_to_ask() == [0, 1, 2]
            server.take(3, late + 100 * " ")  # between the rounds, and longer than what the others sent
            assert server.clients_to_ask() == [0, 1, 2] and 2 not in server._past_broadcasts
    assert list(server._past_broadcasts) == [0, 1, 2] and "GoOn" in server.mail(3)
    for _ in range(40):
        sites.ask(everyone, server)
    assert not server.running and [sites.client(m).t for m in everyone] == [60] * 4


def test_live_the_numbers_of_one_that_goes_between_the_rounds_are_counted_as_disclosed(tmp_path):
    """They are in the sum, which the others open."""
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server, everyone = sites.server(), {0, 1, 2, 3}
    for there in (everyone, everyone, {0, 1, 2}):  # the keys, and the two rounds
        sites.ask(there, server)
    server.tick()
    assert list(server._past_broadcasts) == [0, 1]
    assert [counts.total() for counts in server._disclosure.means[OTHER_SITES]] == [1, 1, 1, 1]


def test_live_the_keys_need_everyone(tmp_path):
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True)
    server = sites.server()
    sites.ask({0, 1, 2}, server)
    with pytest.raises(TimeoutError, match="3 have, and 4 are needed"):
        server.tick()
    sites.ask({3}, server)
    assert list(server._past_broadcasts) == [0]


def test_live_a_client_that_lost_its_state_does_not_reveal_twice(tmp_path):
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server = sites.server()
    for _ in range(2):
        sites.ask({0, 1, 2, 3}, server)
    asked = server.mail(0)
    assert '"Reveal"' in asked
    assert '"Revealed"' in sites.client(0).answer(asked)
    (tmp_path / "client-0" / "state").unlink()
    server.stop()
    again = sites.client(0)
    again.answer(server._past_broadcasts[0])
    assert '"TwiceMasked"' in again.answer(asked) and again.client.revealed == 1


def test_live_a_client_that_lost_its_state_between_the_rounds_is_asked_to_reveal_again(tmp_path):
    """It is sent all answers anew, one by one, which are not to take the place of the request that it has to answer."""
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server = sites.server()
    for _ in range(4):
        sites.ask({0, 1, 2, 3}, server)
    assert [json.loads(server.mail(m))["kind"] for m in range(4)] == 4 * ["Reveal"]
    assert list(server._past_broadcasts) == [0, 1]
    (tmp_path / "client-0" / "state").unlink()
    for _ in range(5):
        sites.ask({0}, server)
    assert isinstance(server.inbox[0], Revealed)
    sites.ask({1, 2}, server)
    server = sites.server()
    server.tick()
    assert list(server._past_broadcasts) == [0, 1, 2]


def test_live_a_client_with_an_old_copy_of_its_state_does_not_reveal_twice(tmp_path):
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server = sites.server()
    for _ in range(2):
        sites.ask({0, 1, 2, 3}, server)
    asked, state = server.mail(0), tmp_path / "client-0" / "state"
    old = state.read_bytes()
    assert '"Revealed"' in sites.client(0).answer(asked)
    state.write_bytes(old)
    assert '"TwiceMasked"' in sites.client(0).answer(asked) and sites.client(0).client.revealed == 1


def test_live_a_line_that_says_what_was_revealed_is_missed_by_the_state(tmp_path):
    """Its end flipped, or cut, makes a line one that a crash left unfinished."""
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server = sites.server()
    for _ in range(3):
        sites.ask({0, 1, 2, 3}, server)
    path = tmp_path / "client-0" / "revealed.jsonl"
    whole = path.read_bytes()
    assert whole.count(b"\n") - 1 == sites.client(0).client.revealed == 1  # it begins with a line for none
    for damaged in (whole[:-1] + b"\x0b", whole[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="ends at exchange 0, and the state .* is at 1: lines were lost"):
            sites.client(0)
    path.write_bytes(whole)
    assert sites.client(0).client.revealed == 1


def test_live_what_was_revealed_under_an_earlier_key_holds_nobody_up(tmp_path):
    """A file that was left behind says that shares were given in exchanges that are still to come."""
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    sites.client(0)
    revealed = tmp_path / "client-0" / "revealed.jsonl"
    journal = Journal(revealed)
    journal.read()
    journal.append(header=99)
    assert sites.client(0).client.revealed == 0
    revealed.unlink()
    revealed.mkdir()
    with pytest.raises(ValueError, match="revealed.jsonl is a folder"):
        sites.client(0)


@pytest.mark.parametrize("lost", [("revealed.jsonl",), ("revealed.jsonl", "state")])
def test_live_a_client_that_lost_what_it_revealed_reveals_nothing_any_more(lost, tmp_path):
    """Without it and without the state, it would give shares again: those of masks that it kept back before."""
    sites = Sites(tmp_path, "pf-pne", 4, 3, 60, secure=True, least_rewards=1)
    server = sites.server()
    for _ in range(3):
        sites.ask({0, 1, 2, 3}, server)
    assert sites.client(0).client.revealed == 1
    for name in lost:
        (tmp_path / "client-0" / name).unlink()
    with pytest.raises(ValueError, match="revealed.jsonl is lost, which says .* Put it back from a copy; without one,"):
        sites.client(0)
    (tmp_path / "client-0" / "revealed.jsonl").write_bytes(b"\n")
    with pytest.raises(ValueError, match="line 1 is not what was written .* Put it back from a copy; without one,"):
        sites.client(0)


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne"])
def test_live_with_random_drop_outs_it_is_as_without_masks(name, tmp_path):
    for seed in range(2):
        plain, masked = (live(tmp_path / f"{seed} {secure}", seed, secure, name) for secure in (False, True))
        assert np.array_equal(plain, masked)


def test_live_pf_pne_plus_needs_all_until_its_second_stage_and_nobody_then(tmp_path):
    sites = Sites(tmp_path, "pf-pne+", 3, None, 200, secure=True, least_rewards=2, least_clients=3)
    sites.spread = 6
    server = sites.server()
    for _ in range(20):
        sites.ask({0, 1, 2} if server._needed() else {0, 1}, server)  # client 2 is gone in the second stage
    assert [sites.client(m).t for m in (0, 1)] == [200, 200] and server.clients_to_ask() == [2]
    assert PublicKeys in sites.client(0).client.receives
