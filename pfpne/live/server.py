"""The server for sites on separate machines: it waits for the clients until a deadline, and keeps its state."""

import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
from filelock import FileLock

from pfpne.algorithms import make_federation
from pfpne.algorithms.fn_ucb import FNUCBSettings
from pfpne.algorithms.secure import (
    Masked,
    MaskedStatistics,
    PublicKey,
    RecoveringServer,
    Reveal,
    Revealed,
    SecureServer,
    TwiceMasked,
    check_public_keys,
)
from pfpne.disclosure import Disclosure
from pfpne.federation import Server, Task
from pfpne.journal import check_plain
from pfpne.live.plan import (
    Done,
    GoOn,
    check_complete,
    describe_plan,
    load_state,
    make_folder,
    plan_digest,
    refuse_nonsense,
    run_named,
    with_masks,
    with_quorum,
)
from pfpne.live.states import save
from pfpne.messages import Awaited, Message
from pfpne.validation import brief, check, check_integer, is_integer, is_number

logger = logging.getLogger(__name__)

# Seconds. If a client's answer brings no progress, the client is sent the same text again: first after PAUSE, then
# after twice the previous pause, up to MAX_PAUSE.
PAUSE, MAX_PAUSE = 0.05, 10.0
SHORT_PAUSE = 0.01  # after a look for answers that finds none
# Entries of a state.
ENTRIES = {"run", "server", "inbox", "idle", "disclosure", "evaluated", "mail", "past_broadcasts", "longest_text"}
RESTART_HINT = "begin anew, with new folders for the server and all clients."


class LiveServer:
    """The server of a federation whose sites are on separate machines.

    It waits for the clients, until a deadline, and keeps its state in a folder.

    Parameters
    ----------
    name, task, **settings
        As for `pfpne.make_federation`, and the same at all sites.
    folder
        The folder of the server alone.
    deadline
        Seconds > 0 from one exchange to the next.
    last_deadline
        Seconds > 0 for the clients' work alone after the last exchange; no limit by default.
    quorum
        The number of clients that suffice for an exchange at the deadline, in 1..M; None for all M.
    secure
        Whether messages are masked, as at the clients (see pfpne.algorithms.secure).

    Raises
    ------
    ValueError
        If an argument is out of its range; for a quorum below M with an algorithm that needs every client; with masks,
        for a quorum so small that a lying server could learn a sum over fewer than least_clients; and for fn-ucb with D
        > 0.

    Examples
    --------
    >>> import tempfile
    >>> import pfpne
    >>> from pfpne.live import LiveServer
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=2, horizon=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LiveServer("pf-pne", task, folder, deadline=60.0).clients_to_ask()
    [0, 1]
    """

    def __init__(
        self,
        name: str,
        task: Task,
        folder: str | Path,
        *,
        deadline: float,
        last_deadline: float = math.inf,
        quorum: int | None = None,
        secure: bool = False,
        **settings,
    ):
        settings = with_quorum(secure, settings, quorum, task.n_clients)
        algorithm, agreed_settings = with_masks(name, secure, settings)
        M, server = task.n_clients, make_federation(algorithm, task, **settings).server
        check(is_number(deadline) and deadline > 0, "deadline", "a number of seconds > 0", deadline)
        is_limit = (isinstance(last_deadline, float) and last_deadline == math.inf) or is_number(last_deadline)
        check(is_limit and last_deadline > 0, "last_deadline", "a number of seconds > 0, or math.inf", last_deadline)
        quorum = M if quorum is None else quorum
        check_integer("quorum", quorum, 1, M)
        any_quorum = server.tolerates_missing or not server.receives
        check(any_quorum or quorum == M, "quorum", f"{M}: {name} cannot do without one of its clients", quorum)
        if isinstance(server.settings, FNUCBSettings):
            D = server.settings.D
            check(D == 0, "D", "0 in live use: all clients have to send at the same steps", D)
        self.M, self.deadline, self.last_deadline, self.quorum = M, deadline, last_deadline, quorum
        self.path, self.agreed_plan = make_folder(folder) / "state", describe_plan(name, task, agreed_settings)
        self.ahead: dict[int, int] = {}  # client -> its header, where that is beyond ours
        self.stopped, self._since = False, time.monotonic()
        with self._lock():
            saved = load_state(self.path, self.agreed_plan, ENTRIES, RESTART_HINT)
            self._state_signature = self._signature_on_disk()
        is_known = task.reward_range is not None or task.noise == "bernoulli"
        self._disclosure = Disclosure(M, exact=task.noise == 0, ends=task.reward_limits if is_known else (0.0, 1.0))
        self.run = saved["run"] if saved else secrets.token_hex(8)  # what tells this run from others of the same plan
        self.run_tag = f"{plan_digest(self.agreed_plan)}{self.run}"  # of every message of this run
        self._go_on_text = GoOn(0).to_json(self.run_tag)
        if saved:
            with refuse_nonsense(self.path, RESTART_HINT):
                self._take_saved(saved, server)
        else:
            self.server = server
            self.inbox: dict[int, Message] = {}  # what has come for the next exchange
            self.idle: set[int] = set()  # the clients that have nothing to do, unless they are sent something
            self._mail = {m: message.to_json(self.run_tag) for m, message in server.first_messages().items()}
            # header -> the broadcast that answered it, for those who come late
            self._past_broadcasts: dict[int, str] = {}
            self.longest_text = 0  # that was allowed so far, as a text may come again, or late
            # the number of evaluations that each client had made at the last exchange: see Server.is_due
            self.n_evaluated = 0
        self.server.quorum = quorum
        if not saved:
            self._save()

    def _take_saved(self, saved: dict, new: Server) -> None:
        """Continue from a saved state. ValueError, or another error, if it is not the state of such a server."""
        self.server, self.inbox, self.idle = saved["server"], saved["inbox"], set(saved["idle"])
        self._mail, self._past_broadcasts = saved["mail"], saved["past_broadcasts"]
        self.longest_text, self.n_evaluated = saved["longest_text"], saved["evaluated"]
        check(isinstance(self.run, str), "the run in a state", "a text", self.run)
        check_complete(self.server, new)
        for name, held in (("inbox", Message), ("mail", str), ("past_broadcasts", str)):
            right = isinstance(saved[name], dict) and all(isinstance(x, held) for x in saved[name].values())
            right = right and all(is_integer(key) for key in saved[name])
            check(right, f"{name} in a state", f"a dict of {held.__name__}", saved[name])
        right = isinstance(saved["idle"], list) and all(map(is_integer, saved["idle"]))
        check(right, "idle in a state", "a list of clients", saved["idle"])
        for name in ("longest_text", "evaluated"):
            check(is_integer(saved[name]) and saved[name] >= 0, f"{name} in a state", "an integer >= 0", saved[name])
        self._disclosure.restore(saved["disclosure"])
        self._disclosure.table()
        for m in range(self.M):
            self.server.awaits(m)

    def _lock(self) -> FileLock:
        check_plain(self.path.with_name("lock"))
        return FileLock(self.path.with_name("lock"))

    def _signature_on_disk(self) -> bytes:
        """Return the first line of the state on disk, which has a hash of the rest; b"" if there is no state."""
        if not self.path.exists():
            return b""
        with self.path.open("rb") as file:
            return file.readline(1000)

    def _save(self) -> None:
        """Write the state; OSError, and nothing is written, if another process has written there."""
        state = {"plan": self.agreed_plan, "run": self.run, "server": self.server, "inbox": self.inbox}
        state |= {"idle": sorted(self.idle), "disclosure": self._disclosure.state(), "evaluated": self.n_evaluated}
        with self._lock():
            if self._signature_on_disk() != self._state_signature:
                raise OSError(f"{self.path} is not as this server left it: another is at work there, or removed it.")
            state |= {"mail": self._mail, "past_broadcasts": self._past_broadcasts, "longest_text": self.longest_text}
            save(self.path, state)
            self._state_signature = self._signature_on_disk()

    @property
    def running(self) -> bool:
        """Whether a client has something to do, and `stop` has not been called."""
        return len(self.idle) < self.M and not self.stopped

    def stop(self) -> None:
        """End `drive`. The state is saved: another LiveServer on this folder continues."""
        self.stopped = True

    def clients_to_ask(self) -> list[int]:
        """Return the clients to be asked now: those that have something to do and have not answered yet."""
        not_now = {*self.inbox, *self.idle, *self.ahead, *self.server.left_out}
        return [m for m in range(self.M) if m not in not_now]

    def mail(self, m: int) -> str:
        """Return the text for client m when it is asked: a message, or `GoOn`."""
        return self._mail.get(m, self._go_on_text)

    def take(self, m: int, text: str) -> None:
        """Take client m's answer.

        Raises a ValueError, and nothing changes, if the text is no message, a wrong one, or of another run; a
        RuntimeError if all clients that have something to do are ahead of this server, whose state is then an old one.

        | what it is                            | what is done                                                        |
        |---------------------------------------|---------------------------------------------------------------------|
        | it names no run                       | the client is asked again, and so is told the run                   |
        | of another run, and not ahead         | ValueError                                                          |
        | `Done`                                | the client is idle; ValueError if its message is awaited            |
        | no newer than its answer in the inbox | nothing, with a line in the log                                     |
        | ahead: of a later exchange            | ValueError; RuntimeError if so are all                              |
        | awaited                               | it goes to the inbox                                                |
        | its message of round 1 once more      | the client is sent the request to reveal again (masks and a quorum) |
        | late: of a concluded exchange         | the client is sent the broadcast that concluded it                  |

        If nobody is to be asked then, the exchange is made.
        """
        check_integer("the sender", m, 0, self.M - 1)
        awaited = self.server.awaits(m)
        run, longest = run_named(text), max(awaited.max_characters(), self.longest_text)
        message = Message.from_json(text, plan_digest(self.agreed_plan) + run, longest)
        if run == "":
            logger.info("client %d does not know the run yet: it is asked again, and told", m)
            past, server = self._past_broadcasts, self.server
            if past and isinstance(server, SecureServer) and not isinstance(server, RecoveringServer):
                self._mail[m] = past[max(past)]  # the newest: an older copy of its folder sees it
                self._save()
            return
        is_ahead = awaited.is_early(message.header) and type(message) in self.server.receives
        if run != self.run and not is_ahead:
            raise ValueError(f"client {m} is in another run of this plan: its folder is of an earlier one.")
        if isinstance(message, Done):
            self._take_done(m, message, awaited)
        elif run == self.run and m in self.inbox and message.header <= self.inbox[m].header:
            logger.warning("client %d: a %s came twice, or late: ignored", m, type(message).__name__)
        elif is_ahead:
            self._refuse_ahead(m, message)
        elif awaited.accepts(message, self.server.receives):
            if isinstance(message, PublicKey):  # later, it would end the whole federation
                came = {u: key.key for u, key in self.inbox.items() if isinstance(key, PublicKey) and u != m}
                check_public_keys({**came, m: message.key})
            self.inbox[m] = message
            self.idle.discard(m)
            self.ahead.pop(m, None)
        elif request := self._request_again(m, message):
            self._mail[m] = request
        elif message.header in self._past_broadcasts:  # it has been away: it is sent what answered its message then
            self._mail[m] = self._past_broadcasts[message.header]
            self._disclosure.add_sent(m, message)
            self.idle.discard(m)
        self.longest_text = max(self.longest_text, awaited.max_characters())
        if self.inbox and not self.clients_to_ask():
            if len(self.inbox) >= self._needed():
                self._exchange()
            elif not self.ahead:
                self._end(f"clients {sorted(self.idle)} are done")
        self._save()

    def _take_done(self, m: int, message: Done, awaited: Awaited) -> None:
        """Count client m as idle, unless the server has its message; ValueError if its message is still to come."""
        self._check_possible(m, message)
        due = message.header < self.server.task.horizon or self.server.is_due(m, self.n_evaluated)
        if awaited.kind is not None and m not in self.inbox and due:
            claim = f"client {m} says that it is done, after {message.header} evaluations"
            raise ValueError(f"{claim}, and its {awaited.kind.__name__} is awaited.")
        if m not in self.inbox:
            self.idle.add(m)

    def _request_again(self, m: int, message: Message) -> str:
        """Return the request to reveal if client m has lost its state before answering it; else ""."""
        server = self.server
        if not isinstance(server, RecoveringServer) or m in self.inbox or m not in server.received:
            return ""
        is_same = isinstance(message, TwiceMasked) and message.header == server.received[m].header
        return server.request(m).to_json(self.run_tag) if is_same else ""

    def _check_possible(self, m: int, message: Done) -> None:
        """Raise a ValueError if client m cannot be done after this number of evaluations."""
        horizon = self.server.task.horizon
        claim = f"client {m} says that it is done, after {message.header} evaluations"
        if message.header > horizon:
            raise ValueError(f"{claim}, and there are {horizon}.")
        if isinstance(self.server, SecureServer) and self.server.keys is None:
            raise ValueError(f"{claim}, and evaluates only once all public keys have come.")

    def _inner_server(self):
        """The server of the algorithm itself."""
        return self.server.server if isinstance(self.server, SecureServer) else self.server

    def _refuse_ahead(self, m: int, message: Message) -> None:
        """Refuse a client that is ahead: it lies, or the server's state was lost. It is asked again at the deadline."""
        kind, last_header = type(message).__name__, self.server.awaits(m).last_header
        self.ahead[m] = message.header
        sent = f"client {m} sent a {kind} of header {message.header}"
        report = f"{sent}, and the last concluded here is {last_header}"
        if len(self.ahead) < self.M - len(self.idle):
            raise ValueError(f"{report}: it is asked again after the deadline.")
        known = "" if isinstance(self.server, SecureServer) else ", and known= the journals of before"
        raise RuntimeError(
            f"{report}; so it is with every client that is not done. The state of this server, {self.path}, was lost "
            f"or is an old one: put it back, or begin anew, with new folders for the server and all clients{known}."
        )

    def _needed(self) -> int:
        """Return the number of answers needed: all for the exchange of keys, else a quorum or the fewer awaited."""
        if isinstance(self.server, SecureServer) and self.server.keys is None:
            return self.M
        return min(self.quorum, sum(self.server.awaits(m).kind is not None for m in range(self.M)))

    def _exchange(self) -> None:
        messages, self.inbox, self._since = dict(sorted(self.inbox.items())), {}, time.monotonic()
        n_rewards, present = self.server.rewards_in_means(), self._senders(messages)
        evaluations, header_before = self.server.phase_evaluations(), self._inner_server().awaits(0).last_header
        down = self.server.exchange(messages)
        if self._inner_server().awaits(0).last_header > header_before:
            self.n_evaluated += evaluations
        is_sum = any(isinstance(message, (Masked, MaskedStatistics, Revealed)) for message in messages.values())
        means = self.server.means if is_sum and isinstance(self.server, SecureServer) else None
        self._disclosure.add(messages, down, n_rewards, present, means)
        for m in messages:
            self.ahead.pop(m, None)  # whatever it said besides
        texts = {m: message.to_json(self.run_tag) for m, message in down.items()}
        between_rounds = any(isinstance(message, Reveal) for message in down.values())
        self._mail = texts
        for m in texts:
            self.idle.discard(m)
        self.idle.update(messages.keys() - texts.keys())
        if messages.keys() <= texts.keys() and not between_rounds:
            if evaluations == 0:
                self._past_broadcasts.clear()  # without equal phases, nobody can be more than one exchange behind
            sender, message = next(iter(messages.items()))
            self._past_broadcasts[message.header] = texts[sender]

    def _senders(self, messages: dict[int, Message]) -> list[int]:
        """Return the clients whose numbers are in the exchange: with masks, those that have answered in round 1."""
        received = self.server.received if isinstance(self.server, RecoveringServer) else None
        return sorted(received or messages)

    def disclosure(self) -> pd.DataFrame:
        """Return what each party could learn about a client so far, one row per party (see pfpne.disclosure)."""
        return self._disclosure.table()

    def _end(self, why: str) -> None:
        """End the exchanges: no further one is possible, so clients that wait for one are done."""
        logger.warning("it ends here for clients %s: %s", [m for m in range(self.M) if m not in self.idle], why)
        self.idle = set(range(self.M))
        self.inbox = {}

    def tick(self) -> None:
        """Apply the deadline: conclude with a quorum, or raise a TimeoutError that names the missing clients."""
        needed = self._needed()
        limit = self.deadline if needed else self.last_deadline
        if not self.running or time.monotonic() - self._since < limit:
            return
        missing, self._since = sorted({*self.clients_to_ask(), *self.ahead}), time.monotonic()
        self.ahead.clear()
        why = f"clients {missing} have not answered within {limit:g} s"
        if needed and len(self.inbox) >= needed:
            logger.warning("%s: concluded with clients %s", why, self._senders(self.inbox))
            self._exchange()
        elif self.idle and len(self.inbox) + len(self.idle) >= self.quorum:
            self._end(why)
        else:
            answered, needed = len(self.inbox) + len(self.idle), needed or self.quorum
            raise TimeoutError(f"{why}; {answered} have, and {needed} are needed.")
        self._save()


def drive(server: LiveServer, send: Callable[[int, str], None], receive: Callable[[], Iterable]) -> None:
    """Serve until no client has anything to do, `server.stop` is called, or the server raises a TimeoutError.

    Parameters
    ----------
    server
        The server.
    send
        send(m, text) asks client m.
    receive
        receive() returns the texts received, as pairs (m, text). text is None if client m could not be reached; the
        client is then asked again.

    Notes
    -----
    If a client's answer brings no progress, the client is asked the same again after a pause, which grows from 0.05 to
    10 seconds.

    Examples
    --------
    Here the clients are in the same process, and a list carries the texts.

    >>> import tempfile
    >>> import pfpne
    >>> from pfpne.live import LiveClient, LiveServer, drive
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=2, horizon=100)
    >>> answers = []
    >>> def receive():
    ...     return [answers.pop(0)] if answers else []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     server = LiveServer("pf-pne", task, f"{folder}/server", deadline=60.0)
    ...     clients = [
    ...         LiveClient("pf-pne", task, m, lambda x: 1 - abs(x[0] - 0.25), f"{folder}/client{m}") for m in range(2)
    ...     ]
    ...     drive(server, lambda m, text: answers.append((m, clients[m].answer(text))), receive)
    >>> [client.t for client in clients]
    [100, 100]
    """
    asked, sent = set(), {}  # sent: client -> (its last text, when it was sent, the pause before it is sent again)
    while server.running:
        for m in server.clients_to_ask():
            text, now = server.mail(m), time.monotonic()
            last, since, pause = sent.get(m, ("", now, 0.0))
            if m in asked or (text == last and now - since < pause):
                continue
            asked.add(m)
            sent[m] = text, now, min(MAX_PAUSE, 2 * pause) if text == last else PAUSE
            send(m, text)
        came = 0
        for m, text in receive():
            came += 1
            if is_integer(m):
                asked.discard(m)
            try:
                if text is not None:
                    server.take(m, text)
            except (ValueError, MemoryError) as error:  # whatever a sender can cause
                logger.error("client %s: refused: %s", brief(m), error)
        if not came:
            time.sleep(SHORT_PAUSE)
        server.tick()
