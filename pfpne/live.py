"""Live use: clients in places of their own, that are slow, go, come back, start again and repeat themselves.

`LiveClient` and `LiveServer` wrap the objects of a federation (see pfpne.federation) for that. They know no network:
texts come in and go out, each the JSON of a message with the digest of the plan, or "" for the server's request to go
on; a client with nothing to say says `Done`. `drive` passes them on, over whatever carries texts (examples/flower:
Flower). Each keeps what it knows in a folder, and goes on from there however its process ended.

What holds when something is missing:

- A phase ends when all clients have answered. At the deadline it ends with those that have, if they are a quorum: the
  mean of a node is the mean over those, and T_{h,i}, of which its half-width is made, their evaluations alone. With
  fewer, a TimeoutError names who is missing. pf-pne, fed-pne and fed1-ucb bear it; the others need every client.
- A client that comes back tells where it stopped, is sent what it has missed, phase by phase, and makes the same
  evaluations as the others; what is late counts for itself alone.
- A message twice, or late, is answered again as it was the first time, and changes nothing.
- An evaluation that fails, or gives no finite number, is missing. A missing reward counts as the mean of all others
  that the client has of the same point, and as the declared `missing` if there are none; half-widths are not widened.
"""

import hashlib
import json
import logging
import math
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

from pfpne.algorithms import Algorithm, make_federation
from pfpne.algorithms.fed1_ucb import Fed1UCBServer
from pfpne.algorithms.pf_pne import FedPNEServer, PhasedServer
from pfpne.algorithms.secure import SecureClient, SecureServer, new_key, secured
from pfpne.federation import Batch, Task
from pfpne.messages import LONGEST_NUMBER, Message
from pfpne.paths import write_atomically
from pfpne.saving import Journal, check_plain, load, save
from pfpne.validation import check, check_integer, is_integer, is_number, real, shown

log = logging.getLogger(__name__)

LONGEST_NODE = 3 * LONGEST_NUMBER  # characters about a node, in the message that says most: its index and two numbers


# --- servers that bear it when clients are missing -----------------------------------------------------


class _SomeOfThem:
    """Of a server that concludes phases: one may be concluded with the means of some clients alone."""

    def samples(self, h: int) -> int:
        """T_{h,i}: what those who answered have drawn of a node."""
        return super().samples(h) // self.task.n_clients * self.present

    def _exchange(self, messages: dict[int, Message]) -> dict[int, Message]:
        self.present = len(messages)
        return dict.fromkeys(messages, self.conclude(np.stack([message.means for message in messages.values()])))


class SomePFPNEServer(_SomeOfThem, PhasedServer):
    """Algorithm 1, with the clients that answered."""


class SomeFedPNEServer(_SomeOfThem, FedPNEServer):
    """Fed-PNE's, with the clients that answered."""


class SomeFed1UCBServer(_SomeOfThem, Fed1UCBServer):
    """Fed1-UCB's, with the clients that answered: means over those, and widths for as many."""


BEARS_MISSING = {PhasedServer: SomePFPNEServer, FedPNEServer: SomeFedPNEServer, Fed1UCBServer: SomeFed1UCBServer}


def plan_of(name: str, task: Task, settings: dict) -> str:
    """What server and clients must agree on, as text: the algorithm, the task, the settings."""

    def plain(x):
        return x.tolist() if hasattr(x, "tolist") else {"kind": type(x).__name__, **vars(x)}

    return json.dumps([name, task, settings], default=plain, sort_keys=True)


def _with_masks(name: str, secure: bool, settings: dict) -> tuple[str | Algorithm, dict]:
    """The algorithm, with masks or without, and the settings that belong to the plan."""
    check(isinstance(secure, bool), "secure", "True or False", secure)
    return (secured(name), {**settings, "secure": True}) if secure else (name, settings)


def digest_of(plan: str) -> str:
    """Eight hexadecimal digits that stand in every text, so that one of another plan is refused."""
    return hashlib.sha256(plan.encode()).hexdigest()[:8]


@dataclass(frozen=True, eq=False)
class Done(Message):
    """Up, in live use: the client has nothing to do. Header: the evaluations that it has made."""


def _restored(path: Path, plan: str) -> dict | None:
    """What was saved there, or None; ValueError if it is of another plan, or no plain file."""
    if not os.path.lexists(path):
        return None
    saved = load(path)
    if not isinstance(saved, dict) or saved.get("plan") != plan:
        raise ValueError(f"{path} is the state of another run: give this one a folder of its own, or remove that one.")
    return saved


def _made(folder: str | Path) -> Path:
    """The folder, there and absolute: whoever evaluates may change the working folder meanwhile."""
    folder = Path(folder).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be a folder to keep a state in: {error}. Give another.") from None
    return folder


# --- a client --------------------------------------------------------------------------------------------


def _evaluations(journal: Journal, task: Task) -> list[dict]:
    """Those of a client, a line each: t, from 1; point; reward, None if it is missing; why then.

    ValueError, with what to do, if the journal is damaged or its lines are not what evaluations of the task can be.
    """
    (low, high), d = task.rewards, len(task.partition.domain)

    def holds(line: dict, t: int) -> bool:
        point, reward = line.get("point"), line.get("reward", "")
        plain = isinstance(point, list) and len(point) == d and all(map(is_number, point))
        return line.get("t") == t and plain and (reward is None or (is_number(reward) and low <= reward <= high))

    try:
        lines = journal.read()
        wrong = next((t for t, line in enumerate(lines, 1) if not holds(line, t)), None)
        check(wrong is None, f"line {wrong} of {journal.path}", f"evaluation {wrong}, and its reward", "another line")
    except ValueError as error:
        advice = "Put it back from a copy; without one, cut it before the damage and remove the client's state"
        raise ValueError(f"{error} The journal is damaged. {advice}: what is missing is evaluated again.") from None
    return lines


class LiveClient:
    """Client m: it evaluates, and keeps a journal and its state in the folder.

    evaluate(x) -> reward, x (d,); it may fail, and is tried `retries` >= 0 times more; after `give_up` >= 1 evaluations
    in a row that all failed, the error is raised. missing: the reward of a point that has none, the worst there is.
    known: the journal of an earlier run (say, of a shorter horizon): its rewards, point by point and in their order,
    serve before anything is evaluated. secure: whether messages are masked, as at the server (see
    pfpne.algorithms.secure). Other arguments: as of `pfpne.make_federation`.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        m: int,
        evaluate: Callable[[np.ndarray], float],
        folder: str | Path,
        *,
        missing: float = 0.0,
        retries: int = 0,
        give_up: int = 10,
        known: str | Path | None = None,
        secure: bool = False,
        **settings,
    ):
        check_integer("m, the client's number,", m, 0, task.n_clients - 1)
        low, high = task.rewards
        holds = is_number(missing) and low <= missing <= high
        check(holds, "missing", f"a number in the task's range of rewards, {low:g} to {high:g}", missing)
        check_integer("retries", retries, 0)
        check_integer("give_up", give_up, 1)
        self.m, self.evaluate, self.missing, self.retries, self.give_up = m, evaluate, missing, retries, give_up
        algorithm, agreed = _with_masks(name, secure, settings)
        self._make = lambda: make_federation(algorithm, task, **settings).clients[m]
        self._make()  # what is wrong with the plan is told before anything is written
        self.folder, self.plan = _made(folder), plan_of(name, task, {**agreed, "client": m})
        self.digest = digest_of(plan_of(name, task, agreed))
        self.journal, self._failed, self._task = Journal(self.folder / "evaluations.jsonl"), 0, task
        self._known = [] if known is None else _evaluations(Journal(known), task)
        with self._alone():
            self._restore()

    def _alone(self) -> FileLock:
        return FileLock(self.folder / "lock")  # one process at a time works on a folder; another waits

    def _restore(self) -> None:
        saved = _restored(self.folder / "state", self.plan)
        if saved:
            self.client, self.outbox, self.longest = saved["client"], saved["outbox"], saved["longest"]
        else:
            self.client, self.longest = self._make(), 0  # longest: text taken so far, as one may come again
            if isinstance(self.client, SecureClient):
                self.client.key = self._key()
            self.outbox = self._text(self.client.start())
        lines, self._tape = _evaluations(self.journal, self._task), defaultdict(deque)
        if len(lines) < self.client.t:
            raise ValueError(
                f"{self.journal.path} ends at evaluation {len(lines)}, and the state beside it is at {self.client.t}: "
                "lines were lost. Put the journal back from a copy; without one, remove the state: the client then "
                "goes on from the journal, and evaluates again what is missing there."
            )
        for line in self._known:
            if line["reward"] is not None:
                self._tape[str(line["point"])].append(line["reward"])
        for line in lines:
            self._from_tape(line["point"])
        self._ahead = deque(lines[self.client.t :])
        self._rewards_at = defaultdict(list)  # point -> the client's own rewards there so far
        for line in lines[: self.client.t]:
            self._note(line["point"], line["reward"])

    def _key(self) -> np.ndarray:
        """The private key, in a file of its own: a client that lost its state is still the one that the others know."""
        path = self.folder / "key"
        if not os.path.lexists(path):
            self.folder.chmod(0o700)  # the state holds it, too
            write_atomically(path, new_key().tobytes(), durable=True)
        check_plain(path)
        content = path.read_bytes()
        check(len(content) == 32, f"{path}", "a key of 32 bytes: put it back from a copy", f"{len(content)} bytes")
        return np.frombuffer(content, np.uint8).copy()

    def _from_tape(self, point: list) -> float | None:
        left = self._tape.get(str(point))
        return left.popleft() if left else None

    def _save(self) -> None:
        state = {"plan": self.plan, "client": self.client, "outbox": self.outbox, "longest": self.longest}
        save(self.folder / "state", state)

    def _text(self, message: Message | None) -> str:
        return "" if message is None else message.to_json(self.digest)

    def answer(self, text: str = "") -> str:
        """Take what the server sent, or "", and work until there is something to tell it, or nothing to do: `Done`.

        Evaluations go on from where the last process stopped. Raises ValueError for a text that is no message, or not
        the one awaited, and leaves everything as it was; the error of `evaluate` after `give_up` failures in a row.
        """
        with self._alone():
            self._restore()
            self._receive(text)
            while not self.outbox and (batch := self.client.ask()).size:
                self.outbox = self._text(self.client.tell(self._rewards(batch)))
            self._save()
            return self.outbox or self._text(Done(self.client.t))

    def _receive(self, text: str) -> None:
        """A message that is late, or too early for one who has lost its state, leaves the outbox to be sent again."""
        if text == "":
            return
        wanted = self.client.awaits()
        ahead = LONGEST_NODE * self.client.task.horizon  # as much as a client can ever be sent about its nodes
        message = Message.from_json(text, self.digest, max(wanted.longest(), self.longest, ahead))
        if type(message) in self.client.takes and message.header > max((wanted.after, *wanted.headers)):
            log.warning("client %d: the server is ahead, at %d: going on from where this is", self.m, message.header)
        elif wanted.admits(message, self.client.takes):
            self.outbox, self.longest = self._text(self.client.receive(message)), max(self.longest, len(text))
            self._save()

    def _rewards(self, batch: Batch) -> np.ndarray:
        points = np.repeat(batch.points, batch.counts, axis=0)
        rewards = np.array([self._reward(self.client.t + i, x) for i, x in enumerate(points, 1)])
        if np.isnan(rewards).any():
            for x, of_node in zip(batch.points, np.split(rewards, np.cumsum(batch.counts)[:-1]), strict=True):
                gone, others = np.isnan(of_node), self._rewards_at[str(x.tolist())]
                if gone.any():
                    of_node[gone] = np.mean(others) if others else self.missing
                    told = (self.m, gone.sum(), len(of_node), x.tolist(), of_node[gone][0])
                    log.warning("client %d: %d of %d evaluations of %s are missing, and count as %g", *told)
        return rewards

    def _reward(self, t: int, x: np.ndarray) -> float:
        """The reward of evaluation t, NaN if it is missing: from the journal, else made and written there."""
        point = x.tolist()
        if self._ahead:
            line = self._ahead.popleft()
            if line["point"] != point:
                raise ValueError(f"{self.journal.path} is of another run: evaluation {t} is not of {point}.")
            self._note(point, line["reward"])
            return math.nan if line["reward"] is None else line["reward"]
        reward, why = self._from_tape(point), ""
        if reward is None:
            reward, why = self._evaluate(x)
        self.journal.append(t=t, point=point, reward=reward, **({"why": why} if reward is None else {}))
        self._note(point, reward)
        return math.nan if reward is None else reward

    def _note(self, point: list, reward: float | None) -> None:
        if reward is not None:
            self._rewards_at[str(point)].append(reward)

    def _evaluate(self, x: np.ndarray) -> tuple[float | None, str]:
        for _ in range(1 + self.retries):
            try:
                reward = real(self.evaluate(x.copy()))
                failure, why = None, f"it gave {reward}"
            except Exception as error:  # whatever an objective may raise
                failure, why = error, f"{type(error).__name__}: {error}"
            low, high = self.client.task.rewards
            if failure is None and low <= reward <= high:  # no NaN
                self._failed = 0
                return reward, ""
            log.warning("client %d: an evaluation of %s failed: %s", self.m, x.tolist(), why)
        self._failed += 1
        if self._failed >= self.give_up:
            self._failed = 0
            in_a_row = f"{self.give_up} evaluations in a row failed"
            raise RuntimeError(f"client {self.m}: {in_a_row}, at last: {why}") from failure
        return None, why

    @property
    def t(self) -> int:
        """The evaluations told to the algorithm."""
        return self.client.t

    def best(self) -> np.ndarray:
        """The point (d,) that the client would deploy now."""
        return self.client.best()


# --- the server ------------------------------------------------------------------------------------------


class LiveServer:
    """The server: it waits for the clients, until a deadline, and keeps its state in the folder.

    deadline: seconds > 0 from one exchange to the next, as long as there is one to come. last_deadline: the same for
    what the clients do alone after the last exchange; no limit by default. quorum: how many clients make an exchange at
    the deadline, 1..M; M, all, by default. secure: whether messages are masked, as at the clients (see
    pfpne.algorithms.secure). Other arguments: as of `pfpne.make_federation`. Raises ValueError for a quorum below M
    with an algorithm that cannot do without a client, which none can with masks, and for fn-ucb with D > 0.
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
        algorithm, agreed = _with_masks(name, secure, settings)
        M, server = task.n_clients, make_federation(algorithm, task, **settings).server
        check(is_number(deadline) and deadline > 0, "deadline", "a number of seconds > 0", deadline)
        ends = (isinstance(last_deadline, float) and last_deadline == math.inf) or is_number(last_deadline)
        check(ends and last_deadline > 0, "last_deadline", "a number of seconds > 0, or math.inf", last_deadline)
        quorum = M if quorum is None else quorum
        check_integer("quorum", quorum, 1, M)
        bears = type(server) in BEARS_MISSING or not server.takes
        check(bears or quorum == M, "quorum", f"{M}: {name} cannot do without one of its clients", quorum)
        D = getattr(server.settings, "D", 0)
        check(D == 0, "D", "0 in live use: all clients have to send at the same steps", D)
        self.M, self.deadline, self.last_deadline, self.quorum = M, deadline, last_deadline, quorum
        self.path, self.plan = _made(folder) / "state", plan_of(name, task, agreed)
        self.digest, self.ahead = digest_of(self.plan), {}  # ahead: client -> how far its last answer is ahead of here
        self.stopped, self._since = False, time.monotonic()
        with self._alone():
            saved, self._line = _restored(self.path, self.plan), self._first_line()
        if saved:
            self.server, self.inbox, self.idle = saved["server"], saved["inbox"], saved["idle"]
            self._mail, self._past, self.longest = saved["mail"], saved["past"], saved["longest"]
            return
        self.server = object.__new__(BEARS_MISSING.get(type(server), type(server)))
        vars(self.server).update(vars(server))
        self.inbox: dict[int, Message] = {}  # what has come for the next exchange
        self.idle: dict[int, bool] = {}  # the clients that have nothing to do, unless they are sent something
        self._mail = {m: message.to_json(self.digest) for m, message in self.server.start().items()}
        self._past: dict[int, str] = {}  # header -> the broadcast that answered it, for those who come late
        self.longest = 0  # text taken so far, as one may come again
        self._save()

    def _alone(self) -> FileLock:
        return FileLock(self.path.with_name("lock"))

    def _first_line(self) -> bytes:
        """Of the state on disk, which tells it from every other; b"" if there is none."""
        if not self.path.exists():
            return b""
        with self.path.open("rb") as file:
            return file.readline(1000)

    def _save(self) -> None:
        """Write the state, unless another has written there: OSError, and what is there stays."""
        state = {"plan": self.plan, "server": self.server, "inbox": self.inbox, "idle": self.idle}
        with self._alone():
            if self._first_line() != self._line:
                raise OSError(f"{self.path} is not as this server left it: another is at work there, or removed it.")
            save(self.path, {**state, "mail": self._mail, "past": self._past, "longest": self.longest})
            self._line = self._first_line()

    @property
    def running(self) -> bool:
        """Whether a client has something to do, and `stop` has not been called."""
        return len(self.idle) < self.M and not self.stopped

    def stop(self) -> None:
        """End `drive`. All is saved: another LiveServer on this folder goes on."""
        self.stopped = True

    def wanted(self) -> list[int]:
        """The clients to be asked now: those that have not answered and have something to do."""
        return [m for m in range(self.M) if m not in self.inbox and m not in self.idle and m not in self.ahead]

    def mail(self, m: int) -> str:
        """What client m is to be sent when it is asked: a message, or "" to go on."""
        return self._mail.get(m, "")

    def take(self, m: int, text: str) -> None:
        """Take what client m answered. ValueError, and nothing changes, if it is no message or a wrong one.

        RuntimeError if all clients that have anything to do are ahead of this server: then it is its state that is old.
        """
        check_integer("the sender", m, 0, self.M - 1)
        wanted = self.server.awaits(m)
        message = Message.from_json(text, self.digest, max(wanted.longest(), self.longest))
        if isinstance(message, Done):
            if wanted.kind is not None and m not in self.inbox and message.header < self.server.task.horizon:
                said = f"client {m} says that it is done, after {message.header} evaluations"
                raise ValueError(f"{said}, and its {wanted.kind.__name__} is awaited.")
            self.idle.update({} if m in self.inbox else {m: True})
        elif m in self.inbox and message.header <= self.inbox[m].header:
            log.warning("client %d: a %s came twice, or late: ignored", m, type(message).__name__)
        elif type(message) in self.server.takes and message.header > max((wanted.after, *wanted.headers[-1:])):
            self._is_ahead(m, message)
        elif wanted.admits(message, self.server.takes):
            self.inbox[m] = message
            self.idle.pop(m, None)
        elif message.header in self._past:  # it has been away: it is sent what answered its message then
            self._mail[m] = self._past[message.header]
            self.idle.pop(m, None)
        self.longest = max(self.longest, len(text))
        if self.inbox and not self.wanted():
            if len(self.inbox) >= self._needed():
                self._exchange()
            elif not self.ahead:
                self._end(f"clients {sorted(self.idle)} are done")
        self._save()

    def _is_ahead(self, m: int, message: Message) -> None:
        """Nobody is, unless the client lies or the state here was lost: it is not asked again until a deadline."""
        kind, here = type(message).__name__, self.server.awaits(m).after
        self.ahead[m] = message.header
        told = f"client {m} sent a {kind} of header {message.header}, and the last concluded here is {here}"
        if len(self.ahead) < self.M - len(self.idle):
            raise ValueError(f"{told}: it is asked again after the deadline.")
        raise RuntimeError(
            f"{told}; so it is with every client that is not done. The state of this server, {self.path}, was lost or "
            "is an old one: put it back, or begin anew, with new folders for the server and for all clients and known= "
            "the journals of before."
        )

    def _needed(self) -> int:
        """How many answers make an exchange: a quorum, or all that are awaited if they are fewer."""
        return min(self.quorum, sum(self.server.awaits(m).kind is not None for m in range(self.M)))

    def _exchange(self) -> None:
        came, self.inbox, self._since = dict(sorted(self.inbox.items())), {}, time.monotonic()
        answers = {m: message.to_json(self.digest) for m, message in self.server.exchange(came).items()}
        self._mail = answers
        for m in answers:
            self.idle.pop(m, None)
        self.idle.update({m: True for m in came if m not in answers})
        if came.keys() <= answers.keys():
            if not isinstance(self.server, PhasedServer | Fed1UCBServer | SecureServer):
                self._past.clear()  # of those, nobody can be more than one behind
            header = next(iter(came.values())).header
            self._past[header] = answers[next(iter(came))]

    def _end(self, why: str) -> None:
        """No exchange can come about any more: who waits for one is done."""
        log.warning("it ends here for clients %s: %s", [m for m in range(self.M) if m not in self.idle], why)
        self.idle = dict.fromkeys(range(self.M), True)
        self.inbox = {}

    def tick(self) -> None:
        """See to the deadline: conclude with a quorum, or raise a TimeoutError that says who is missing."""
        needed = self._needed()
        limit = self.deadline if needed else self.last_deadline
        if not self.running or time.monotonic() - self._since < limit:
            return
        missing, self._since = sorted({*self.wanted(), *self.ahead}), time.monotonic()
        self.ahead.clear()
        why = f"clients {missing} have not answered within {limit:g} s"
        if needed and len(self.inbox) >= needed:
            log.warning("%s: concluded with clients %s", why, sorted(self.inbox))
            self._exchange()
        elif self.idle and len(self.inbox) + len(self.idle) >= self.quorum:
            self._end(why)
        else:
            raise TimeoutError(f"{why}; {len(self.inbox) + len(self.idle)} have, and {self.quorum} are needed.")
        self._save()


def drive(server: LiveServer, send: Callable[[int, str], None], receive: Callable[[], Iterable]) -> None:
    """Serve until no client has anything to do, `server.stop` is called, or the server raises TimeoutError.

    send(m, text): ask client m. receive() -> what has come, (m, text) each, text None if m could not be reached: it is
    then asked again. receive waits for a moment if there is nothing.
    """
    asked = set()
    while server.running:
        for m in server.wanted():
            if m not in asked:
                asked.add(m)
                send(m, server.mail(m))
        for m, text in receive():
            if is_integer(m):
                asked.discard(m)
            try:
                if text is not None:
                    server.take(m, text)
            except (ValueError, MemoryError) as error:  # whatever a sender can cause
                log.error("client %s: refused: %s", shown(m), error)
        server.tick()
