"""What each party of a federation could learn of a client, counted from the messages that passed.

A mean of a client's rewards is *disclosed* to a party that is sent it, or can compute it from what it is sent and what
it knows itself. The parties are the server, one other site, and all the other sites together. The server sends means
over several clients; all but one of these, who put their own means together, compute that of the last one, and of two
clients each computes the other's. A sum that is masked discloses nothing to the server.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd

from pfpne.messages import Message

SERVER, ONE, OTHERS = "the server", "one other site", "all other sites together"
PARTIES = SERVER, ONE, OTHERS


def _means(message: Message | None) -> int:
    """Return how many means of rewards a message carries."""
    return sum(getattr(message, f.name).size for f in _fields(message) if f.metadata["statistic"] == "mean")


def _others(message: Message | None) -> int:
    """Return how many numbers it carries that are neither means nor integers."""
    return sum(
        getattr(message, f.name).size
        for f in _fields(message)
        if f.metadata["kinds"] != "i" and f.metadata["statistic"] != "mean"
    )


def _fields(message: Message | None) -> tuple:
    return () if message is None else dataclasses.fields(message)[1:]


class Disclosure:
    """Counts as messages pass what each party could learn.

    M: the number of clients. exact: whether equal points give equal rewards, so that a mean of any number of them is
    one of them.
    """

    def __init__(self, M: int, exact: bool = False):
        self.M, self.exact = M, exact
        self.means = {party: [Counter() for _ in range(M)] for party in PARTIES}  # rewards in a mean -> how many means
        self.others = {party: [0] * M for party in PARTIES}
        self.sent: dict[int, tuple[int, list[int]]] = {}  # header -> rewards in a mean, and who has sent theirs
        self._t, self._n, self._present = 0, 1, set()  # of the exchange under way

    def add(
        self, up: dict[int, Message], down: dict[int, Message], n: int, present: Iterable[int] | None = None
    ) -> None:
        """Count an exchange: the clients' messages and the answers, client -> message.

        n: the rewards in each mean of a client. present: the clients that a mean in the answers is over; None for those
        that sent a message.
        """
        n = 1 if self.exact else n
        for m, message in up.items():
            self.sent.setdefault(message.header, (n, []))
            self.add_sent(m, message)
        answer, present = next(iter(down.values()), None), set(up if present is None else present)
        for m in present:
            if self.M > 1:
                self._count(OTHERS, m, _means(answer), n)
            if self.M > 1 and len(present) <= 2:
                self._count(ONE, m, _means(answer), n)
        for party in (ONE, OTHERS):
            for m in range(self.M):
                self.others[party][m] += _others(answer)

    def add_sent(self, m: int, message: Message) -> None:
        """Count what client m sent, once: in an exchange, or late, after an exchange was concluded without it."""
        n, senders = self.sent.get(message.header, (1, []))
        if m not in senders:
            senders.append(m)
            self._count(SERVER, m, _means(message), n)
            self.others[SERVER][m] += _others(message)

    def _count(self, party: str, m: int, means: int, n: int) -> None:
        if means:
            self.means[party][m][n] += means

    def mail(self, t: int, up: list, down: list) -> None:
        """Count an exchange as `Federation.on_mail` sees it: t, and lists of (client, message)."""
        sent, answers = dict(up), dict(down)
        made, first, answer = t - self._t, next(iter(sent.values()), None), next(iter(answers.values()), None)
        if made > 0:
            self._t, self._n, self._present = t, _rewards(first, answer, made), set(sent)
        self.add(sent, answers, self._n, self._present & set(sent) if _means(first) else self._present)

    def table(self) -> pd.DataFrame:
        """Return a row for each party, about the client of which it learns the most means.

        How many means of this client it could compute, the fewest and the median number of rewards in them, how many of
        them are single rewards, and how many numbers it was sent besides that are no means.
        """
        rows = []
        for party in PARTIES:
            m = max(range(self.M), key=lambda m: (self.means[party][m].total(), self.means[party][m][1]))
            counts = self.means[party][m]
            n = np.repeat(list(counts.keys()), list(counts.values())) if counts else np.array([np.nan])
            rows.append([party, counts.total(), n.min(), np.median(n), counts[1], self.others[party][m]])
        columns = ["who", "means", "fewest rewards", "median rewards", "single rewards", "other numbers"]
        return pd.DataFrame(rows, columns=columns)

    def state(self) -> dict:
        """Return plain values to be saved, which `restore` takes."""
        means = {
            party: [[[n, k] for n, k in counts.items()] for counts in of_all] for party, of_all in self.means.items()
        }
        return {"means": means, "others": self.others, "sent": self.sent}

    def restore(self, state: dict) -> None:
        """Go on from what `state` returned."""
        self.others, self.sent = state["others"], state["sent"]
        self.means = {
            party: [Counter(dict(map(tuple, pairs))) for pairs in of_all] for party, of_all in state["means"].items()
        }


def _rewards(up: Message | None, answer: Message | None, made: int) -> int:
    """Return how many rewards are in each mean of an exchange for which a client made so many evaluations.

    Where messages are masked, their lengths are those of the nodes times the parts of the sum. An answer with a mean
    for each node says how many nodes there are.
    """
    if up is not None and _means(up):
        return up.rewards_in_means(made)
    mean_per_node = any(f.metadata["statistic"] == "mean" and f.metadata["shape"] == ("n",) for f in _fields(answer))
    nodes = _means(answer) if mean_per_node else len(getattr(up, "masked", ())) or 1
    return made // nodes


def what_each_could_learn(messages: list, n_clients: int, exact: bool = False) -> pd.DataFrame:
    """Return the table of `Disclosure`, from a simulation's messages: (t, "up" or "down", client, Message)."""
    disclosure, exchanges = Disclosure(n_clients, exact), []
    for t, way, m, message in messages:
        if not exchanges or (way == "up" and exchanges[-1][2]) or exchanges[-1][0] != t:
            exchanges.append((t, [], []))
        exchanges[-1][1 if way == "up" else 2].append((m, message))
    for exchange in exchanges:
        disclosure.mail(*exchange)
    return disclosure.table()
