"""What each party of a federation could learn about a client, counted from the messages.

A mean of a client's rewards is *disclosed* to a party that receives it, or can compute it from received messages and
its own rewards. The parties are the server, one other site, and all other sites together. The server sends means over
several clients. If all but one of these clients combine their own means, they can compute the last client's mean; of
two clients, each can compute the other's. From masked means the server learns only the sum.

The means of fed1-ucb are over all phases so far; counted are their differences, phase by phase.

A mean at an end of the rewards' range (0 or 1 by default) reveals every reward in it. A mean over the clients at an end
reveals the rewards of all clients. Such rewards are counted as single rewards.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from pfpne.fixed_point import from_fixed, precision, sum_masked
from pfpne.messages import Message

SERVER, ONE_SITE, OTHER_SITES = "the server", "one other site", "all other sites together"
PARTIES = SERVER, ONE_SITE, OTHER_SITES


def _count_other_numbers(message: Message | None) -> int:
    """Return how many numbers of a message are neither means nor integers."""
    return sum(
        getattr(message, f.name).size
        for f in _fields(message)
        if f.metadata["kinds"] != "i" and f.metadata["statistic"] != "mean"
    )


def _fields(message: Message | None) -> tuple:
    return () if message is None else dataclasses.fields(message)[1:]


def _means(message: Message | None) -> np.ndarray:
    """Return the means of rewards that a message carries, (n,)."""
    return np.concatenate(
        [np.empty(0), *(getattr(message, f.name) for f in _fields(message) if f.metadata["statistic"] == "mean")]
    )


class Disclosure:
    """Counts, message by message, what each party could learn.

    M: the number of clients. exact: whether equal points give equal rewards, so that a mean equals each of its rewards.
    ends: the smallest and the largest possible reward.
    """

    def __init__(self, M: int, exact: bool = False, ends: tuple[float, float] = (0.0, 1.0)):
        self.M, self.exact, self.ends = M, exact, ends
        self.means = {party: [Counter() for _ in range(M)] for party in PARTIES}  # rewards in a mean -> how many means
        self.singles: dict[str, list[float]] = {party: [0] * M for party in PARTIES}  # NaN where messages do not tell
        self.other_numbers = {party: [0] * M for party in PARTIES}
        self.sent: dict[int, tuple[int, list[int]]] = {}  # header -> rewards in a mean, and the clients that have sent
        self.earlier: dict = {}  # fed1-ucb: client, or the server -> rewards, arms and sums of the last phase
        self._t, self._n, self._present = 0, 1, set()  # of the exchange under way

    def add(
        self,
        up: dict[int, Message],
        down: dict[int, Message],
        n: int,
        present: Iterable[int] | None = None,
        means: np.ndarray | None = None,
    ) -> None:
        """Count an exchange: the clients' messages and the answers, client -> message.

        n: the number of rewards in each mean of a client. present: the clients that the answers' means are over; None
        for the senders of the messages. means: the means over the clients that the server has learnt, if these messages
        do not contain them.
        """
        answer = next(iter(down.values()), None)
        if means is None:
            means = self._unmasked(up, n)
        if answer is not None and answer.answers_cumulative_means:
            up, means, n = self._of_last_phase(up, means, n, answer)
        n = 1 if self.exact else n
        for m, message in up.items():
            self.sent.setdefault(message.header, (n, []))
            self.add_sent(m, message)
        present = sorted(up if present is None else present)
        if means is not None:
            at_ends = self._at_ends(means)
            for m in present:
                self._count(SERVER, m, at_ends, n)
        if self.M > 1 and len(present) and len(sent_means := _means(answer)):
            self._count_of_sites(present, up, sent_means, n)
        for party in (ONE_SITE, OTHER_SITES):
            for m in range(self.M):
                self.other_numbers[party][m] += _count_other_numbers(answer)

    def _count_of_sites(self, present: list[int], up: dict[int, Message], means: np.ndarray, n: int) -> None:
        """Count what the sites learn about one another from the means (k,) over the present clients.

        All but one of the clients together can compute the last one's mean. One client can compute the mean of all
        others. If there is one other, this is a single client's mean. If it is at an end of the rewards' range, it
        reveals the means of all others.
        """
        own = np.array([_means(up[m]) for m in present]) if all(m in up for m in present) else np.empty((1, 0))
        if own.shape[1] > len(means):  # some are sent; of nodes of equal means, all have been kept, or none
            is_sent = np.isin(own.mean(axis=0).astype(np.float32), means.astype(np.float32))  # equal but for rounding
            own = own[:, is_sent]
        if own.shape[1] != len(means):  # masked
            for m in present:
                self._count(OTHER_SITES, m, np.full(len(means), np.nan), n)
                self._count(ONE_SITE, m, self._at_ends(means), n)
                self.singles[ONE_SITE][m] += np.nan if len(means) and n > 1 else 0
            return
        seen = np.zeros(own.shape, dtype=bool) if len(present) > 2 else np.ones(own.shape, dtype=bool)
        for end in self.ends:
            seen |= (own == end) & (np.sum(own != end, axis=0) <= 1)
        for m, own_means, seen_by_one in zip(present, own, seen, strict=True):
            self._count(OTHER_SITES, m, own_means, n)
            self._count(ONE_SITE, m, own_means[seen_by_one], n)

    def _of_last_phase(self, up: dict[int, Message], means: np.ndarray | None, n: int, answer: Any):
        """Return messages, means over the clients and rewards in a mean, of the last phase alone (fed1-ucb).

        The means sent are over all phases so far. Their receivers can subtract the earlier phases.
        """
        pulls = n // (answer.header - (means is not None))

        def of_phase(who, values):
            before, arms, sums = self.earlier.get(who, (0, np.arange(len(values)), np.zeros(len(values))))
            if before + pulls != n:  # it was away
                return values
            stay = np.isin(arms, answer.arms)
            self.earlier[who] = n, arms[stay], (n * values)[stay]
            return np.round((n * values - sums) / pulls, 9)  # rewards at an end have a mean there, but for rounding

        if means is not None:
            return up, of_phase(SERVER, means), pulls
        kinds: dict[int, Any] = {m: type(message) for m, message in up.items()}
        return {m: kinds[m](up[m].header, of_phase(m, _means(up[m]))) for m in up}, None, pulls

    def _unmasked(self, up: dict[int, Message], n: int) -> np.ndarray | None:
        """Return the means over all clients that follow from masked sums of n rewards; None if there are none."""
        with_masks: list[Any] = [message for message in up.values() if message.masks_cancel]
        masked = [message.masked for message in with_masks]
        if len(masked) < self.M:
            return None
        return from_fixed(sum_masked(masked), precision(n * max(map(abs, self.ends)), self.M)) / (n * self.M)

    def _at_ends(self, means: np.ndarray) -> np.ndarray:
        """Return the means that are at an end of the rewards' range: all rewards in them are at that end, too."""
        return means[np.isin(means, self.ends)]

    def add_sent(self, m: int, message: Message) -> None:
        """Count client m's message once, whether it came in time or after the exchange was concluded without it."""
        n, senders = self.sent.get(message.header, (1, []))
        if m not in senders:
            senders.append(m)
            self._count(SERVER, m, _means(message), n)
            self.other_numbers[SERVER][m] += _count_other_numbers(message)

    def _count(self, party: str, m: int, means: np.ndarray, n: int) -> None:
        """Count client m's means (k,), of n rewards each.

        NaN: the party can compute this mean, but it cannot be read from the messages.
        """
        if len(means):
            self.means[party][m][n] += len(means)
            unknown = bool(np.isnan(means).any()) and n > 1
            self.singles[party][m] += np.nan if unknown else len(means) if n == 1 else n * len(self._at_ends(means))

    def mail(self, t: int, up: list, down: list) -> None:
        """Count an exchange as `Federation.on_mail` sees it: t, and lists of (client, message)."""
        sent, answers = dict(up), dict(down)
        evaluations, first = t - self._t, next(iter(sent.values()), None)
        if evaluations > 0:
            self._t, self._present = t, set(sent)
            self._n = _rewards_in_means(first, evaluations, next(iter(answers.values()), None))
        self.add(sent, answers, self._n, self._present & set(sent) if len(_means(first)) else self._present)

    def table(self) -> pd.DataFrame:
        """Return one row per party, about the client of which the party learns the most means.

        The columns are the number of this client's means that the party could compute, the smallest and the median
        number of rewards in them, the number of single rewards that it could compute, and the number of other numbers
        that it received. Single rewards are NaN if masks hide them from this count, though not from a party that knows
        all other masks.
        """
        rows = []
        for party in PARTIES:
            singles, means = np.array(self.singles[party], dtype=float), self.means[party]
            m = max(range(self.M), key=lambda m: (means[m].total(), np.nan_to_num(singles[m])))
            counts = means[m]
            n = np.repeat(list(counts.keys()), list(counts.values())) if counts else np.array([np.nan])
            rows.append([party, counts.total(), n.min(), np.median(n), singles[m], self.other_numbers[party][m]])
        columns = ["who", "means", "fewest rewards", "median rewards", "single rewards", "other numbers"]
        return pd.DataFrame(rows, columns=columns)

    def state(self) -> dict:
        """Return the state as plain values, to be saved and given to `restore`."""
        means = {
            party: [[[n, k] for n, k in counts.items()] for counts in of_all] for party, of_all in self.means.items()
        }
        state = {"means": means, "singles": self.singles, "other_numbers": self.other_numbers, "sent": self.sent}
        return {**state, "earlier": self.earlier}

    def restore(self, state: dict) -> None:
        """Continue from a state that `state` returned."""
        self.singles, self.other_numbers, self.sent = state["singles"], state["other_numbers"], state["sent"]
        self.earlier = state["earlier"]
        self.means = {
            party: [Counter(dict(map(tuple, pairs))) for pairs in of_all] for party, of_all in state["means"].items()
        }


def _rewards_in_means(up: Message | None, evaluations: int, answer: Any) -> int:
    """Return the number of rewards in each mean of an exchange, from a client's number of evaluations for it."""
    if up is not None and len(_means(up)):
        return up.rewards_in_means(evaluations)
    n = evaluations // (len(getattr(up, "masked", ())) or 1)
    return n * (answer.header - 1) if answer is not None and answer.answers_cumulative_means else n


def what_each_could_learn(messages: list, n_clients: int, exact: bool = False) -> pd.DataFrame:
    """Return the table of `Disclosure`, from a simulation's messages: (t, "up" or "down", client, Message)."""
    disclosure, exchanges = Disclosure(n_clients, exact), []
    for t, direction, m, message in messages:
        if not exchanges or (direction == "up" and exchanges[-1][2]) or exchanges[-1][0] != t:
            exchanges.append((t, [], []))
        exchanges[-1][1 if direction == "up" else 2].append((m, message))
    for exchange in exchanges:
        disclosure.mail(*exchange)
    return disclosure.table()


def communication_table(rounds, *more: str) -> pd.DataFrame:
    """Return a table with one row for each round: t, round, numbers up, numbers down, bytes.

    rounds: one row (t, numbers up, numbers down) per round, followed by the further counts named in `more`.
    """
    table = pd.DataFrame(rounds, columns=["t", "numbers up", "numbers down", *more])
    table.insert(1, "round", np.arange(1, len(table) + 1))
    table.insert(4, "bytes", 8 * (table["numbers up"] + table["numbers down"]))
    return table
