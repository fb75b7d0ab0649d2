"""A client in a place of its own: it evaluates, keeps a journal and its state, and answers the server's texts."""

import logging
import math
import os
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from filelock import FileLock

from pfpne.algorithms import make_federation
from pfpne.algorithms.secure import SecureClient, new_key
from pfpne.federation import Batch, Task
from pfpne.journal import Journal, check_plain
from pfpne.live.plan import Done, digest_of, made_folder, plan_of, restored_state, with_masks
from pfpne.live.states import save
from pfpne.messages import NUMBER_CHARACTERS, Message
from pfpne.paths import write_atomically
from pfpne.validation import check, check_integer, is_number, to_float

log = logging.getLogger(__name__)

LONGEST_NODE = (
    3 * NUMBER_CHARACTERS
)  # characters about a node, in the message that says most: its index and two numbers


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
        algorithm, agreed = with_masks(name, secure, settings)
        self._make = lambda: make_federation(algorithm, task, **settings).clients[m]
        self._make()  # what is wrong with the plan is told before anything is written
        self.folder, self.plan = made_folder(folder), plan_of(name, task, {**agreed, "client": m})
        self.digest = digest_of(plan_of(name, task, agreed))
        self.journal, self._failed, self._task = Journal(self.folder / "evaluations.jsonl"), 0, task
        self._known = [] if known is None else _evaluations(Journal(known), task)
        with self._alone():
            self._restore()

    def _alone(self) -> FileLock:
        return FileLock(self.folder / "lock")  # one process at a time works on a folder; another waits

    def _restore(self) -> None:
        saved = restored_state(self.folder / "state", self.plan)
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
        message = Message.from_json(text, self.digest, max(wanted.max_characters(), self.longest, ahead))
        if type(message) in self.client.takes and message.header > max((wanted.last_header, *wanted.headers)):
            log.warning("client %d: the server is ahead, at %d: going on from where this is", self.m, message.header)
        elif wanted.accepts(message, self.client.takes):
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
                reward = to_float(self.evaluate(x.copy()))
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
