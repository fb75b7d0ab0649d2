"""Secure aggregation: the server learns the sums over all clients that an algorithm needs, and no client's summand.

    run = pfpne.make_federation(pfpne.secured("pf-pne"), task)

Source: Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017, the protocol
with pairwise masks. Each client makes a key pair and sends the public half; the server passes all of them on. Clients u
and v then share a secret (X25519), from which each phase derives a mask (HKDF-SHA256, ChaCha20) that u adds and v
subtracts, if the server has told both the same. A client sends its numbers in fixed point plus all its masks, modulo
2^62. Such a message is uniform, whatever the numbers are; in the sum over all clients the masks cancel exactly. The
numbers are sums of rewards, not means, because sums of binary rewards are integers and need no rounding.

Public keys are not signed, so a server that lies about them can read everything. If it does not lie,
`SecureClient.fingerprint` is the same at all sites; compare it over another channel.

With these masks alone every client is needed: the server waits for a client that is away, and a client that comes back
sends the same text again. With a quorum a client may drop out:

    run = pfpne.make_federation(pfpne.secured("pf-pne"), task, quorum=4)

This is the paper's protocol with two masks. Pairs of clients share masks as above, from a seed that is new in each
exchange. Each client adds one more mask of its own. An exchange has two rounds:

1. Each client sends its numbers with both kinds of masks. It also sends Shamir's shares of the seeds of all its masks:
   for each client one share of each seed, encrypted for that client.
2. The server says which clients are *present* (their numbers have arrived), and passes the shares on. Each client
   answers with its shares of the present clients' own masks, and of the masks that present clients share with missing
   ones. A quorum of answers suffices to remove these masks from the sum. A client that leaves between the rounds is
   still in the sum.

| paper                 | here               | meaning                                                          |
|-----------------------|--------------------|------------------------------------------------------------------|
| n, t                  | M, quorum          | clients; how many shares give a secret back                      |
| U_2                   | present            | the clients whose masked numbers have come                       |
| b_u                   | seed (u, u)        | the seed of client u's own mask                                  |
| s_{u,v}               | seed (u, v)        | the seed of a pair's mask; here a new one in each exchange       |

A client shares the seeds of this exchange, and not its private key as in the paper: the shares revealed about a missing
client say nothing about other exchanges. A client answers once in an exchange. For each client it reveals one of two
things: its share of that client's own mask, if it is present; or its shares of the masks that present clients share
with it, if it is missing. `least_sum` bounds what a lying server can gain. The shares of one exchange cost each client
M^2 numbers. The first exchange, of the keys, needs all clients.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.fed1_ucb import Fed1UCBSettings, SurvivingArms, pulls_of_phase
from pfpne.algorithms.pf_pne import (
    FedPNESettings,
    Kept,
    KeptIndex,
    NodeMeans,
    PFPNESettings,
)
from pfpne.algorithms.pf_pne_plus import ROOT_PULLS, Aggregates, PlusSettings, SharedStatistics
from pfpne.algorithms.secret_shares import (
    SEED_BYTES,
    Envelopes,
    agree,
    derive,
    from_words,
    join_keys,
    join_shares,
    mask_from_seed,
    random_numbers,
    seeds,
    split_secret,
    to_words,
    words_for,
)
from pfpne.federation import EMPTY_BATCH, Batch, Client, Server, Task
from pfpne.fixed_point import BITS, from_fixed, precision, sum_masked, to_fixed
from pfpne.messages import Awaited, Message, integer_array
from pfpne.validation import check, check_integer, unknown_name

LEAST_PRECISE = 20
LEAST_REWARDS = 5  # the default: fewer rewards of one client are not averaged
LEAST_CLIENTS = 3  # the default: with two clients, each can compute the other's means from the averages
LEAST_CLIENTS_PLUS = 4  # with three clients, each can compute the others' means at the root, from sum and squares
WHY_NOT = {  # the algorithms whose messages cannot be replaced by sums over the clients
    "fn-ucb": "fn-ucb sends matrices of its network after every evaluation, and is not made for sums alone here",
    "centralized": "centralized sends every reward to its server, which decides by each",
}


# --- settings --------------------------------------------------------------------------------------------
# least_rewards: the least number of rewards in a client's mean of a node; it raises the number of pulls where needed.
# least_clients: no sum over fewer clients is made. quorum: how many clients suffice for an exchange if others are gone;
# None for all.


@dataclass(frozen=True)
class SecureSettings:
    """The three settings that secure aggregation adds to an algorithm's own."""

    least_rewards: int = LEAST_REWARDS
    least_clients: int = LEAST_CLIENTS
    quorum: int | None = None

    def __post_init__(self):
        super().__post_init__()  # pyright: ignore[reportAttributeAccessIssue]  of the algorithm's settings
        check_integer("least_rewards", self.least_rewards, 1)
        check_integer("least_clients", self.least_clients, 2)
        if self.quorum is not None:
            check_integer("quorum", self.quorum, 2, also=", or None for all clients")


@dataclass(frozen=True)
class SecureFedPNESettings(SecureSettings, FedPNESettings):
    """Settings of fed-pne with secure aggregation."""


@dataclass(frozen=True)
class SecurePFPNESettings(SecureSettings, PFPNESettings):
    """Settings of pf-pne with secure aggregation."""


@dataclass(frozen=True)
class SecurePlusSettings(SecureSettings, PlusSettings):
    """Settings of pf-pne+ with secure aggregation."""

    least_clients: int = LEAST_CLIENTS_PLUS


@dataclass(frozen=True)
class SecureFed1UCBSettings(SecureSettings, Fed1UCBSettings):
    """Settings of fed1-ucb with secure aggregation."""


# --- messages --------------------------------------------------------------------------------------------
# The exchange of keys has header 0. So all messages of the algorithm's exchange with header h have header h + 1 here.


@dataclass(frozen=True, eq=False)
class PublicKey(Message):
    """Up, before all else: the public key of the client, byte by byte. Header: 0."""

    key: np.ndarray = integer_array(32, high=255)


@dataclass(frozen=True, eq=False)
class PublicKeys(Message):
    """Down: the public keys of all clients, one row per client. Header: 0."""

    keys: np.ndarray = integer_array("M", 32, high=255)


@dataclass(frozen=True, eq=False)
class Masked(Message):
    """Up: the sums of the client's rewards in fixed point, and its masks, modulo 2^62.

    Header: one more than that of the message without masks, which is a depth or a phase.
    """

    masks_cancel = True
    masked: np.ndarray = integer_array("n", high=2**BITS - 1)


@dataclass(frozen=True, eq=False)
class MaskedStatistics(Message):
    """Up (pf-pne+): as `Masked`, and the statistics of `PlusSums`, masked too. Header: as in `Masked`."""

    masks_cancel = True
    masked: np.ndarray = integer_array("n", high=2**BITS - 1)
    statistics: np.ndarray = integer_array(3, high=2**BITS - 1)


# With a quorum. Bytes are packed four to a number.


@dataclass(frozen=True, eq=False)
class TwiceMasked(Message):
    """Up, with a quorum: as `Masked`, with a second mask of the client's own, and shares of the masks' seeds.

    shares: for each client in turn, its shares, encrypted for it. Header: as in `Masked`.
    """

    masked: np.ndarray = integer_array("n", high=2**BITS - 1)
    shares: np.ndarray = integer_array("s", high=2**32 - 1)


@dataclass(frozen=True, eq=False)
class Reveal(Message):
    """Down: which clients' numbers have arrived (1 or 0), and the shares that these clients sent to the receiver.

    Header: that of the masked numbers that it is about.
    """

    present: np.ndarray = integer_array("M", high=1)
    shares: np.ndarray = integer_array("s", high=2**32 - 1)


@dataclass(frozen=True, eq=False)
class Revealed(Message):
    """Up: for each pair of clients in turn, the sender's share of the mask to be removed; zeros for other pairs.

    Header: that of the masked numbers that it is about.
    """

    shares: np.ndarray = integer_array("s", high=2**32 - 1)


# --- masks -----------------------------------------------------------------------------------------------


def new_key() -> np.ndarray:
    """Return a new private key (32,), byte by byte, from the system's randomness, not from a run's random streams."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return np.frombuffer(X25519PrivateKey.generate().private_bytes_raw(), np.uint8).copy()


def key_for(secret: bytes, plan: str) -> np.ndarray:
    """Return the private key (32,) for a secret and a plan. Different plans have different masks."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"pfpne key" + hashlib.sha256(plan.encode()).digest()
    return np.frombuffer(HKDF(SHA256(), 32, salt=None, info=info).derive(secret), np.uint8).copy()


def public_key(key: np.ndarray) -> np.ndarray:
    """Return the public key (32,) of a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    public = X25519PrivateKey.from_private_bytes(key.tobytes()).public_key().public_bytes_raw()
    return np.frombuffer(public, np.uint8).astype(np.int64)


def check_public_keys(keys: dict[int, np.ndarray]) -> None:
    """Raise a ValueError that names the client if a public key (client -> key) is unusable, or not unique."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    own, seen = X25519PrivateKey.generate(), {}  # own: for this alone
    for m, key in keys.items():
        content = key.astype(np.uint8).tobytes()
        try:
            own.exchange(X25519PublicKey.from_public_bytes(content))
        except ValueError:
            raise ValueError(f"the public key of client {m} cannot be used: no secret comes of it.") from None
        if content in seen:
            raise ValueError(f"the public key of client {m} is that of client {seen[content]}, too.")
        seen[content] = m


def digest_with(broadcast_digest: str, message: Message) -> str:
    """Return the digest of all broadcasts so far, updated with one more message."""
    return hashlib.sha256(f"{broadcast_digest}{message.to_json()}".encode()).hexdigest()


def pair_mask(
    key: np.ndarray, own: int, other: int, keys: np.ndarray, header: int, n: int, broadcast_digest: str = ""
) -> np.ndarray:
    """Return the mask (n,) modulo 2^62 that client `own` shares with one other client, for the numbers of this header.

    The other client adds the opposite, if it has received the same broadcasts. keys (M, 32): the public keys;
    ValueError if one is no public key.
    """
    salt = join_keys(keys, own, other) + broadcast_digest.encode()
    derived = derive(agree(key, keys, other), salt, b"mask", header, 32)
    numbers = random_numbers(derived, n, BITS)
    return numbers if own < other else -numbers & (2**BITS - 1)


def mask(key: np.ndarray, own: int, keys: np.ndarray, header: int, n: int, broadcast_digest: str = "") -> np.ndarray:
    """Return the sum (n,) modulo 2^62 of the masks that client `own` shares with all others."""
    pairs = (
        pair_mask(key, own, other, keys, header, n, broadcast_digest) for other in range(len(keys)) if other != own
    )
    return sum_masked([np.zeros(n, dtype=np.int64), *pairs])


# --- what is summed --------------------------------------------------------------------------------------


class Sums:
    """The sums over the clients that the server needs. In this class, they are the sums of the rewards at each node.

    sent: the kind of the masked messages. sums_again: whether a later sum is over the same rewards, too.

    A client sends sums, not means: sums of binary rewards are integers. Rounded means leaked information: the summed
    rounding errors of three means of five rewards told how many of them were above 1/2.
    """

    sent: type[Message] = Masked
    sums_again = False

    def __init__(self, task: Task):
        self.task, self.limit = task, max(map(abs, task.reward_limits))  # limit: each mean lies within +-limit

    @property
    def limits(self) -> list[float]:
        """The limits of all summands."""
        return [self.limit]

    def shift_header(self, awaited: Awaited) -> Awaited:
        """Return the awaited message with its header shifted by one, for the exchange of keys."""
        headers = range(awaited.headers.start + 1, awaited.headers.stop + 1) if len(awaited.headers) else range(0)
        return replace(awaited, last_header=awaited.last_header + 1, headers=headers)

    def to_summands(self, message: Any, n: int) -> np.ndarray:
        """Return the numbers of a client's message in fixed point; n: the number of rewards in each mean."""
        return to_fixed(n * message.means, precision(n * self.limit, self.task.n_clients))

    def to_message(self, header: int, masked: np.ndarray) -> Message:
        """Return the message that carries these masked numbers."""
        return Masked(header, masked)

    def conclude(self, server: Any, total: np.ndarray, n_present: int) -> tuple[np.ndarray, Message]:
        """Return the means (n,) over n_present clients and the server's answer, from the sum of the clients' numbers.

        ValueError if it cannot be a sum of valid numbers.
        """
        means = self.means_of(server, total, n_present)
        return means, server.conclude(means[None])

    def means_of(self, server: Any, total: np.ndarray, n_present: int) -> np.ndarray:
        """Return the means over the clients; ValueError if they are out of the rewards' range."""
        n = server.rewards_in_means()
        sums = from_fixed(total, precision(n * self.limit, self.task.n_clients)) / n
        low, high = self.task.statistic_ranges(NodeMeans)["means"]
        possible = n_present * low <= sums.min() and sums.max() <= n_present * high
        check(possible, "the sum", "of means in the range of the rewards", "another")
        return sums / n_present


class ArmSums(Sums):
    """The sums of fed1-ucb: of a client's rewards of each arm, in all phases so far."""

    sums_again = True

    def conclude(self, server, total, n_present):
        means = self.means_of(server, total, n_present)
        return means, server.conclude(np.repeat(means[None], n_present, axis=0))  # one row per client: it counts them


class PlusSums(Sums):
    """The sums of PF-PNE+: of the rewards at each node, and of three statistics per client.

    The statistics are the mean over the nodes of K^h of the client's squared means; the variance of its rewards; and 1
    if its rewards are binary. The squares are averaged over the nodes, because the sum and the sum of squares of a
    single node would reveal the means of three clients. All clients weigh the same, since the server knows no client's
    variance. root_pulls: a client's pulls of the root, known once the root's phase is.
    """

    sent = MaskedStatistics
    root_pulls = ROOT_PULLS

    @property
    def limits(self):
        return [self.limit, *self.statistics_limits]

    @property
    def statistics_limits(self) -> list[float]:
        """The limits of the statistics: each lies in 0..limit."""
        low, high = self.task.reward_limits
        return [self.limit**2, (high - low) ** 2, 1.0]

    def precisions(self, n: int, n_nodes: int) -> list[tuple[float, int]]:
        """Return (scale, bits) of each statistic. Scaled, a statistic of binary rewards, n in each mean, is an integer.

        The variance of binary rewards stays at its value from the root.
        """
        scales = [n**2 * n_nodes, self.root_pulls * (self.root_pulls - 1), 1]
        M = self.task.n_clients
        return [
            (scale, precision(scale * limit, M)) for scale, limit in zip(scales, self.statistics_limits, strict=True)
        ]

    def to_summands(self, message, n):
        self.root_pulls = n if message.header == 0 else self.root_pulls
        statistics = [float(np.mean(message.means**2)), float(message.variances[0]), float(message.binary[0])]
        scaled = [
            to_fixed(np.array([scale * x]), bits)
            for x, (scale, bits) in zip(statistics, self.precisions(n, len(message.means)), strict=True)
        ]
        return np.concatenate([super().to_summands(message, n), *scaled])

    def to_message(self, header, masked):
        return MaskedStatistics(header, masked[:-3], masked[-3:])

    def conclude(self, server, total, n_present):
        M, n, n_nodes = self.task.n_clients, server.rewards_in_means(), len(total) - 3
        self.root_pulls = n if server.h == 0 else self.root_pulls
        mean = self.means_of(server, total[:-3], n_present)
        sums = [
            float(from_fixed(x[None], bits)[0]) / scale
            for x, (scale, bits) in zip(total[-3:], self.precisions(n, n_nodes), strict=True)
        ]
        possible = all(
            -1e-9 <= x / (M * limit) <= 1 + 1e-9 for x, limit in zip(sums, self.statistics_limits, strict=True)
        )
        check(possible, "the sum", "of statistics in the range of the rewards", "another")
        squares, variances, n_binary = sums
        spread = max(0.0, squares - M * float(np.mean(mean**2))) / max(1, M - 1)
        variance = max(0.0, variances / M)
        return mean, server.decide(Aggregates(mean, variance, variance, round(n_binary) == M, spread, M, variance))


# --- client and server -----------------------------------------------------------------------------------


class SecureClient(Client):
    """A client of the algorithm whose messages are masked on their way out.

    key (32,): its private key, made when it is first needed if none was given. keys (M, 32): all public keys.
    broadcast_digest: a digest of all broadcasts. Masks depend on it, so that they do not cancel if a server tells
    clients different things, such as different nodes.
    """

    broadcast_digest = ""

    def __init__(self, client: Client, m: int, sums: Any, least_clients: int):
        self.client, self.m, self.sums, self.least_clients = client, m, sums, least_clients
        self.key: Any = None
        self.keys: Any = None
        super().__init__(client.task)

    @property
    def t(self) -> int:
        """The evaluations told to the client within."""
        return self.client.t

    @t.setter
    def t(self, value: int) -> None:
        pass  # which counts them itself

    @property
    def receives(self) -> tuple[type[Message], ...]:
        return (PublicKeys, *self.client.receives)

    @property
    def fingerprint(self) -> str:
        """40 hexadecimal digits of all public keys: the same at all sites, unless the server has lied to one.

        With fewer digits a server could search for two sets of keys with equal digits: some 2^33 tries for 16 digits.
        """
        check(self.keys is not None, "a fingerprint", "asked for once the keys have come", "none yet")
        digits = hashlib.sha256(self.keys.astype(np.uint8).tobytes()).hexdigest()
        return " ".join(digits[i : i + 4] for i in range(0, 40, 4))

    def first_message(self) -> PublicKey:
        self.key = new_key() if self.key is None else self.key
        return PublicKey(0, public_key(self.key))

    def ask(self) -> Batch:
        return EMPTY_BATCH if self.keys is None else self.client.ask()

    def tell(self, rewards) -> Message | None:
        if self.keys is None:
            return super().tell(rewards)
        message = self.client.tell(rewards)
        return None if message is None else self.hide_means(message, message.rewards_in_means(len(rewards)))

    def hide_means(self, message: Any, n: int) -> Message:
        """Return the masked replacement for a message of the inner client; n: the number of rewards in each mean."""
        return self.hide(message.header + 1, self.sums.to_summands(message, n))

    def hide(self, header: int, numbers: np.ndarray) -> Message:
        """Return the message that carries the numbers (n,), masked, modulo 2^62."""
        masked = numbers + mask(self.key, self.m, self.keys, header, len(numbers), self.broadcast_digest)
        return self.sums.to_message(header, masked & (2**BITS - 1))

    def awaits(self) -> Awaited:
        """Await the keys of all clients; then the messages that the inner client awaits."""
        if self.keys is None:
            return Awaited(-1, PublicKeys, range(1), {"M": self.task.n_clients})
        return self.sums.shift_header(self.client.awaits())

    def _receive(self, message: Message) -> None:
        if isinstance(message, PublicKeys):
            n_keys = len({row.tobytes() for row in message.keys})
            check(n_keys >= self.least_clients, "the public keys", f"of {self.least_clients} or more", n_keys)
            own_is_there = np.array_equal(message.keys[self.m], public_key(self.key))
            check(own_is_there, f"the public key of client {self.m}", "its own: begin anew, in new folders", "another")
            mask(self.key, self.m, message.keys, 0, 1)  # raises if one of them cannot be used
            self.keys = message.keys
        else:
            self.client.receive(replace(message, header=message.header - 1))
        self.broadcast_digest = digest_with(self.broadcast_digest, message)

    def _ask(self) -> Batch:
        return EMPTY_BATCH

    def _tell(self, batch: Batch, rewards: np.ndarray) -> None:
        """Take nothing: nothing is told before the keys have come."""

    def best(self) -> np.ndarray:
        return self.client.best()


class SecureServer(Server):
    """The algorithm's server, which receives only sums over all clients. means (n,): the latest means over clients."""

    receives = (PublicKey, Masked, MaskedStatistics)
    means: Any = None

    def __init__(self, task: Task, server: Server, sums: Any):
        super().__init__(task)
        self.server, self.sums, self.keys = server, sums, None

    def awaits(self, m: int) -> Awaited:
        """Await the client's public key; then its masked means, whenever the inner server awaits means."""
        if self.keys is None:
            return Awaited(-1, PublicKey, range(1))
        awaited = self.server.awaits(m)
        if awaited.kind is None:
            return self.sums.shift_header(awaited)
        return self.sums.shift_header(
            replace(awaited, kind=self.sums.sent, sizes={"n": awaited.sizes.get("n", 1)}, ranges={})
        )

    def rewards_in_means(self) -> int:
        return self.server.rewards_in_means()

    def phase_evaluations(self) -> int:
        return self.server.phase_evaluations()

    def is_due(self, m: int, n_evaluated: int) -> bool:
        return self.server.is_due(m, n_evaluated)

    def _exchange(self, messages: dict[int, Any]) -> dict[int, Message]:
        M = self.task.n_clients
        if len(messages) != M:
            raise ValueError(f"a sum is of all {M} clients, and {len(messages)} have sent their parts.")
        if self.keys is None:
            check_public_keys({m: message.key for m, message in messages.items()})
            self.keys = np.stack([messages[m].key for m in range(M)])
            return dict.fromkeys(range(M), PublicKeys(0, self.keys))
        total = sum_masked([np.concatenate(messages[m].values) for m in range(M)])
        return dict.fromkeys(range(M), self.conclude_sum(total, M))

    def conclude_sum(self, total: np.ndarray, n_present: int) -> Message:
        """Return the answer to all, from the sum (n,) modulo 2^62 over n_present clients.

        RuntimeError if it cannot be a sum of valid numbers.
        """
        try:
            self.means, answer = self.sums.conclude(self.server, total, n_present)
        except ValueError:
            header = self.server.awaits(0).headers.start
            beyond = f"the mean over the clients of phase {header} is beyond the range of the rewards"
            raise RuntimeError(
                f"{beyond}: one of them lies or is broken, and with masks nobody can tell which."
            ) from None
        return replace(answer, header=answer.header + 1)


# --- secure aggregation with a quorum ----------------------------------------------------------------------


def least_sum(M: int, quorum: int) -> int:
    """Return the fewest clients whose sum a server can get, even if it tells clients different things.

    To exclude w clients from a sum, the server must tell a quorum of clients that each of them is missing. Each of the
    M clients answers once, and can be told of at most M - quorum missing ones. So w <= M (M - quorum) / quorum.
    """
    return M - M * (M - quorum) // quorum


def signed_mask(seed: bytes, u: int, v: int, n: int) -> np.ndarray:
    """Return the mask (n,) that client u shares with client v, with the sign for u; for v = u, its own mask."""
    numbers = mask_from_seed(seed, n, BITS)
    return numbers if u <= v else -numbers & (2**BITS - 1)


@dataclass(frozen=True, eq=False)
class AnswerOrReveal(Awaited):
    """Awaits the server's answer; or, before the answer, its request to reveal shares, which `reveal` describes."""

    reveal: Awaited = field(default_factory=lambda: Awaited(-1))

    def max_characters(self) -> int:
        return max(super().max_characters(), self.reveal.max_characters())

    def is_late(self, kind, header):
        return self.reveal.is_late(kind, header) if kind is Reveal else super().is_late(kind, header)

    def accepts(self, message, declared):
        if isinstance(message, Reveal):
            return self.reveal.accepts(message, declared)
        return super().accepts(message, declared)


class RecoveringClient(SecureClient):
    """A client whose numbers are masked twice. revealed: the header of the last exchange in which it gave shares."""

    def __init__(self, client: Client, m: int, sums: Sums, least_clients: int, quorum: int):
        super().__init__(client, m, sums, least_clients)
        self.quorum, self.revealed = quorum, 0

    @property
    def receives(self):
        return (PublicKeys, Reveal, *self.client.receives)

    def hide(self, header: int, numbers: np.ndarray) -> TwiceMasked:
        """Return the client's message of round 1."""
        M, m, n = self.task.n_clients, self.m, len(numbers)
        own = seeds(self.key, m, self.keys, header, self.broadcast_digest)
        masked = sum_masked([numbers, *(signed_mask(seed, m, v, n) for v, seed in enumerate(own))])
        shares = [split_secret(seed, self.quorum, M) for seed in own]
        envelopes = Envelopes(self.key, m, self.keys, header)
        sealed = [envelopes.seal(v, b"".join(seed_shares[v] for seed_shares in shares)) for v in range(M)]
        return TwiceMasked(header, masked, np.concatenate(sealed))

    def awaits(self) -> Awaited:
        """Await the keys; then the server's answer, or its request to reveal, which is answered once per exchange."""
        awaited, M = super().awaits(), self.task.n_clients
        if self.keys is None or awaited.kind is None:
            return awaited
        header, reveal = awaited.headers.start, Awaited(awaited.headers.start)
        if header > self.revealed:
            sizes = {"M": M, "s": M * words_for(M)}
            reveal = Awaited(header - 1, Reveal, range(header, header + 1), sizes)
        return AnswerOrReveal(**vars(awaited), reveal=reveal)

    def _receive(self, message: Message) -> Message | None:
        return self._reveal(message) if isinstance(message, Reveal) else super()._receive(message)

    def _reveal(self, message: Reveal) -> Revealed:
        """Return the client's message of round 2: its shares of the masks to be removed.

        To be removed are the own masks of the present clients, and the masks that they share with the missing ones.
        """
        M, present = self.task.n_clients, message.present.astype(bool)
        enough = present[self.m] and present.sum() >= self.quorum
        expected = f"this client, {self.m}, and others, {self.quorum} or more together"
        check(enough, "the clients whose numbers have come", expected, np.flatnonzero(present).tolist())
        envelopes = Envelopes(self.key, self.m, self.keys, message.header)
        sealed, revealed = message.shares.reshape(M, -1), np.zeros((M, M, SEED_BYTES // 4), dtype=np.int64)
        for u in np.flatnonzero(present).tolist():
            shares = to_words(envelopes.open(u, sealed[u])).reshape(M, -1)
            needed = ~present
            needed[u] = True
            revealed[u, needed] = shares[needed]
        self.revealed = message.header
        return Revealed(message.header, revealed.ravel())


class RecoveringServer(SecureServer):
    """A server that receives the sum over the clients whose numbers have arrived.

    received: client -> its message of round 1, between the rounds.
    """

    receives = (PublicKey, TwiceMasked, Revealed)
    tolerates_missing = True

    def __init__(self, task: Task, server: Server, sums: Sums, quorum: int):
        super().__init__(task, server, sums)
        self.quorum = quorum
        self.received: dict[int, Any] = {}

    @property
    def left_out(self) -> tuple[int, ...]:
        """The missing clients, from the end of round 1 to the end of round 2."""
        return tuple(m for m in range(self.task.n_clients) if self.received and m not in self.received)

    def awaits(self, m: int) -> Awaited:
        """Await all clients' twice masked numbers in round 1, then shares from the clients whose numbers arrived."""
        awaited, M = super().awaits(m), self.task.n_clients
        if awaited.kind is not Masked:
            return awaited
        if not self.received:
            return replace(awaited, kind=TwiceMasked, sizes={**awaited.sizes, "s": M * words_for(M)})
        header = awaited.headers.start
        if m not in self.received:
            return Awaited(header)
        return Awaited(header, Revealed, range(header, header + 1), {"s": M * M * SEED_BYTES // 4})

    def _exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        if self.keys is None:
            return super()._exchange(messages)
        if len(messages) < self.quorum:
            raise ValueError(f"{self.quorum} clients make an exchange, and {len(messages)} have answered.")
        if self.received:
            return self._unmasked(messages)
        self.received = messages
        return {v: self.request(v) for v in messages}

    def request(self, v: int) -> Reveal:
        """Return the request to client v, from the end of round 1 to the end of round 2."""
        M, (header, *_) = self.task.n_clients, (message.header for message in self.received.values())
        present, sealed = np.zeros(M, dtype=np.int64), np.zeros((M, words_for(M)), dtype=np.int64)
        for u, message in self.received.items():
            present[u], sealed[u] = 1, message.shares.reshape(M, -1)[v]
        return Reveal(header, present, sealed.ravel())

    def _unmasked(self, messages: dict[int, Any]) -> dict[int, Message]:
        """Return the answer to all clients whose numbers have arrived, from the shares of a quorum of them."""
        M, received = self.task.n_clients, self.received
        shares = {v: messages[v].shares.reshape(M, M, -1) for v in sorted(messages)[: self.quorum]}
        parts = [message.masked for message in received.values()]
        n = len(parts[0])
        for u in received:
            for v in (u, *self.left_out):
                seed = join_shares({w: from_words(revealed[u, v]) for w, revealed in shares.items()})
                parts.append(-signed_mask(seed, u, v, n) & (2**BITS - 1))
        self.n_present = self.server.n_present = len(received)
        answer = self.conclude_sum(sum_masked(parts), len(received))
        self.received = {}
        return dict.fromkeys(received, answer)


# --- the algorithms --------------------------------------------------------------------------------------

# name -> (its settings, the sums that its server needs, the kinds of message that its clients receive)
SECURED: dict[str, tuple[type, type[Sums], tuple[type[Message], ...]]] = {
    "pf-pne": (SecurePFPNESettings, Sums, (Kept,)),
    "fed-pne": (SecureFedPNESettings, Sums, (KeptIndex,)),
    "pf-pne+": (SecurePlusSettings, PlusSums, (SharedStatistics,)),
    "fed1-ucb": (SecureFed1UCBSettings, ArmSums, (SurvivingArms,)),
}


def secured(name: str) -> Algorithm:
    """Return an algorithm with secure aggregation, to be used in place of its name.

    Parameters
    ----------
    name
        "pf-pne", "fed-pne", "pf-pne+" or "fed1-ucb".

    Returns
    -------
    Algorithm
        An argument for `make_federation` and `simulate`. It has three more settings: least_rewards, the least number of
        rewards in a client's mean of a node (5); least_clients, the least number of clients in a sum (3, or 4 for
        pf-pne+); and quorum, the number of clients that suffice for an exchange if others are gone (None for all; see
        docs/trust.md).

    Raises
    ------
    ValueError
        If there is no such algorithm, or it sends nothing, or needs more than sums over the clients.

    Examples
    --------
    >>> import pfpne
    >>> problem = pfpne.make_problem("garland", n_clients=3)
    >>> run = pfpne.simulate(pfpne.secured("pf-pne"), problem, horizon=100)
    >>> run.regret.shape
    (3, 100)
    """
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise ValueError(unknown_name("algorithm", name, ALGORITHMS))
    if name not in SECURED:
        reason = f"{name} sends nothing, so that there is nothing to hide"
        if ALGORITHMS[name].up_kinds:
            reason = WHY_NOT.get(name, f"{name} needs more than sums over the clients")
        raise ValueError(f"{reason}: secure aggregation is for {', '.join(SECURED)}.")
    settings, sums, receives = SECURED[name]
    make = partial(_make, ALGORITHMS[name].make_server_and_clients, sums)
    up_kinds = PublicKey, Masked, MaskedStatistics, TwiceMasked, Revealed
    return Algorithm(settings, make, up_kinds, (PublicKeys, Reveal, *receives), name=f"{name}, secured")


def _make(make: Callable, sums: type[Sums], task: Task, settings: Any) -> tuple[SecureServer, Sequence[SecureClient]]:
    """Make the server and the clients of one run."""
    M, least = task.n_clients, settings.least_clients
    check(M >= least, "n_clients", f"at least least_clients, {least}, with secure aggregation", M)
    if isinstance(settings, SecureFed1UCBSettings):
        pulls = pulls_of_phase(task.horizon, settings.c_pulls)
        expected = f"of at least least_rewards, {settings.least_rewards}, pulls: give a larger c_pulls"
        check(pulls >= settings.least_rewards, "a phase of fed1-ucb", expected, pulls)
    if task.reward_range is None and task.noise is not None and not isinstance(task.noise, str):
        task = replace(task, reward_range=(-task.noise, 1 + task.noise))  # of values in [0, 1] and this noise
    bits = min(precision(limit, M) for limit in sums(task).limits)
    expected = f"narrower, such as (0, 1): sums of {M} clients then have {LEAST_PRECISE} bits behind the point"
    check(bits >= LEAST_PRECISE, "the task's reward_range", expected, task.reward_limits)
    try:
        new_key()
    except ImportError:
        raise ValueError('secure aggregation needs the package cryptography: pip install "pfpne[secure]".') from None
    server, clients = make(task, settings)
    if settings.quorum not in (None, M):
        return _make_recovering(task, server, clients, sums(task), least, settings.quorum)
    return SecureServer(task, server, sums(task)), [
        SecureClient(client, m, sums(task), least) for m, client in enumerate(clients)
    ]


def _make_recovering(
    task: Task, server: Server, clients: list[Client], sums: Sums, least_clients: int, quorum: int
) -> tuple[RecoveringServer, list[RecoveringClient]]:
    """Make the server and the clients of one run; ValueError if a quorum is not possible with them."""
    M = task.n_clients
    check(server.tolerates_missing, "quorum", f"{M}: pf-pne+ cannot do without one of its clients", quorum)
    again = "is averaged again, and sums over other clients could be subtracted"
    check(not sums.sums_again, "quorum", f"{M} with masks: in fed1-ucb the mean of an arm {again}", quorum)
    odd = (
        f"{M} with masks and a partition of odd k: the centre of a node is that of its middle child, so that it {again}"
    )
    check(task.partition.k % 2 == 0, "quorum", odd, quorum)
    check(quorum < M, "quorum", f"at most n_clients, {M}", quorum)
    least = next(q for q in range(1, M + 1) if least_sum(M, q) >= least_clients)
    expected = f"at least {least} of {M} clients, so that no sum is over fewer than {least_clients} (least_clients)"
    check(quorum >= least, "quorum with secure aggregation", expected, quorum)
    try:
        split_secret(bytes(SEED_BYTES), 2, 2)
    except ImportError:
        raise ValueError('a quorum needs the package pycryptodome: pip install "pfpne[secure]".') from None
    return RecoveringServer(task, server, sums, quorum), [
        RecoveringClient(client, m, sums, least_clients, quorum) for m, client in enumerate(clients)
    ]
