"""A client on a machine of its own: it evaluates, keeps a journal and its state, and answers the server's texts."""

import hashlib
import json
import logging
import math
import os
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from pfpne.algorithms import make_federation
from pfpne.algorithms.secure import (
    LEAST_REWARDS,
    PublicKeys,
    RecoveringClient,
    Reveal,
    SecureClient,
    key_for,
    new_key,
)
from pfpne.federation import Batch, Client, Task
from pfpne.journal import Journal, check_plain
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
from pfpne.messages import MAX_CHARACTERS, Awaited, Head, Message, read_head
from pfpne.paths import write_atomically
from pfpne.validation import check, check_integer, is_integer, is_number, to_float

logger = logging.getLogger(__name__)

ENTRIES = {"run", "client", "outgoing", "server_header"}  # of a saved state, besides its plan
RECOVERY_HINT = (
    "remove it: its journal and what the server keeps are enough, but for fn-ucb and centralized, which begin anew."
)
RESTART_HINT = "remove the whole folder, at all sites, and begin anew: masks may not be used twice."


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_evaluations(journal: Journal, task: Task, secure: bool = False) -> list[dict]:
    """Return the rows of a client's journal: t = 1, 2, ...; point; reward, or None and the reason why it is missing.

    ValueError, which says what to do, if the journal is damaged or a row cannot be an evaluation of the task.
    """
    (low, high), d = task.reward_limits, len(task.partition.domain)

    def is_right(line: dict, t: int) -> bool:
        point, reward = line.get("point"), line.get("reward", "")
        plain = isinstance(point, list) and len(point) == d and all(map(is_number, point))
        return line.get("t") == t and plain and (reward is None or (is_number(reward) and low <= reward <= high))

    try:
        lines = journal.read()
        wrong = next((t for t, line in enumerate(lines, 1) if not is_right(line, t)), None)
        check(wrong is None, f"line {wrong} of {journal.path}", f"evaluation {wrong}, and its reward", "another line")
    except ValueError as error:
        advice = "cut it before the damage and remove the client's state: what is missing is evaluated again."
        advice = f"Put it back from a copy; without one, {RESTART_HINT if secure else advice}"
        raise ValueError(f"{error} The journal is damaged. {advice}") from None
    return lines


class LiveClient:
    """Client m of a federation whose sites are on separate machines.

    It evaluates, and keeps a journal of its evaluations and its state in a folder.

    Parameters
    ----------
    name, task, **settings
        As for `pfpne.make_federation`, and the same at all sites.
    m
        The client's number, in 0..M-1.
    evaluate
        A function of a point x (d,) that returns the reward. It may raise an error.
    folder
        The folder of this client alone.
    missing
        The reward that replaces missing rewards at a point without any other reward: give the worst possible one. With
        masks it replaces every missing reward, and all rewards of a point that has fewer than least_rewards. It must
        not change within a folder.
    retries
        The number of retries of a failed evaluation, >= 0.
    give_up
        The number of failed evaluations in a row after which the error is raised, >= 1.
    known
        The journal of an earlier run, such as one with a shorter horizon. Its rewards, point by point and in their
        order, are used before anything is evaluated. Not with masks: the same rewards in two sums could be subtracted.
    secure
        Whether messages are masked, as at the server (see pfpne.algorithms.secure).
    quorum
        As at the server. It matters only with masks.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the folder holds something else than this client's state.

    Examples
    --------
    >>> import json, tempfile
    >>> import pfpne
    >>> from pfpne.live import LiveClient
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=2, horizon=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     client = LiveClient("pf-pne", task, 0, lambda x: 1 - abs(x[0] - 0.25), folder)
    ...     json.loads(client.answer())["means"]
    [0.75]
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
        quorum: int | None = None,
        **settings,
    ):
        check_integer("m, the client's number,", m, 0, task.n_clients - 1)
        low, high = task.reward_limits
        in_range = is_number(missing) and low <= missing <= high
        check(in_range, "missing", f"a number in the task's range of rewards, {low:g} to {high:g}", missing)
        check_integer("retries", retries, 0)
        check_integer("give_up", give_up, 1)
        self.m, self.evaluate, self.missing, self.retries, self.give_up = m, evaluate, missing, retries, give_up
        expected = "None with masks, as the same rewards in other sums could be subtracted: begin without"
        check(known is None or secure is not True, "known", expected, known)
        settings = with_quorum(secure, settings, quorum, task.n_clients)
        algorithm, agreed_settings = with_masks(name, secure, settings)
        self._make = lambda: make_federation(algorithm, task, **settings).clients[m]
        self._new = self._make()  # errors in the plan are raised before anything is written
        # Everything that decides this client's messages: the plan that all sites agree on, and what is this site's own.
        own_settings = {**agreed_settings, "client": m, "missing": float(missing)}
        self.folder, self.own_plan = make_folder(folder), describe_plan(name, task, own_settings)
        self._agreed_plan_digest = plan_digest(describe_plan(name, task, agreed_settings))
        self.run = ""  # as the server named it
        self.journal, self._failures_in_a_row, self._task = Journal(self.folder / "evaluations.jsonl"), 0, task
        self._secure = secure
        # fewer rewards than this at a point are not averaged with `missing` for the others: the mean would reveal them
        self._least_rewards = settings.get("least_rewards", LEAST_REWARDS) if secure else 0
        # With masks: the digests of this client's plan and of the public keys that it has accepted.
        self._accepted_file = self.folder / "agreed.json"
        self._revealed = Journal(self.folder / "revealed.jsonl")  # shares given, which must not be given again
        self._known = [] if known is None else _read_evaluations(Journal(known), task)
        with self._lock():
            self._restore()

    def _lock(self) -> FileLock:
        check_plain(self.folder / "lock")
        return FileLock(self.folder / "lock")  # one process at a time works on a folder; another waits

    @property
    def _run_tag(self) -> str:
        return self._agreed_plan_digest + self.run

    def _restore(self) -> None:
        advice = RESTART_HINT if self._secure else RECOVERY_HINT
        saved = load_state(self.folder / "state", self.own_plan, ENTRIES, advice)
        if saved:
            with refuse_nonsense(self.folder / "state", advice):
                self._check_saved(saved)
        lines, self._known_rewards = _read_evaluations(self.journal, self._task, self._secure), defaultdict(deque)
        self._check_accepted(bool(lines), saved["client"] if saved else None)
        if saved:
            self.client, self.outgoing, self.run = saved["client"], saved["outgoing"], saved["run"]
            self.server_header = saved["server_header"]
            if isinstance(self.client, SecureClient):
                self._check_key(self.client)
        else:
            self.client, self.server_header = self._make(), -1  # server_header: of the server's early message
            if isinstance(self.client, SecureClient):
                self.client.key = self._key(begun=bool(lines))
            self.outgoing, self.run = self.client.first_message(), ""
        if isinstance(self.client, RecoveringClient):
            self._restore_revealed(self.client, begun=bool(lines))
        if len(lines) < self.client.t:
            advice = "remove the state: the client then goes on from the journal, and evaluates again what is missing."
            raise ValueError(
                f"{self.journal.path} ends at evaluation {len(lines)}, and the state beside it is at {self.client.t}: "
                f"lines were lost. Put the journal back from a copy; without one, "
                f"{RESTART_HINT if self._secure else advice}"
            )
        for line in self._known:
            if line["reward"] is not None:
                self._known_rewards[str(line["point"])].append(line["reward"])
        for line in lines:
            self._take_known(line["point"])
        self._journal_left = deque(lines[self.client.t :])
        self._rewards_at = defaultdict(list)  # point -> the rewards there so far
        for line in lines[: self.client.t]:
            self._record_reward(line["point"], line["reward"])

    def _check_saved(self, saved: dict) -> None:
        """Raise a ValueError, or another error, if the entries of a state are malformed."""
        client, outgoing = saved["client"], saved["outgoing"]
        check_complete(client, self._new)
        check(outgoing is None or isinstance(outgoing, Message), "what a client sends next", "a message", outgoing)
        check(isinstance(saved["run"], str), "the run in a state", "a text", saved["run"])
        check(is_integer(saved["server_header"]), "a header in a state", "an integer", saved["server_header"])
        check(is_integer(client.t), "the evaluations in a state", "an integer", client.t)
        batch = (client.client if isinstance(client, SecureClient) else client)._batch
        check(batch is None or isinstance(batch, Batch), "what a client evaluates next", "a batch", batch)
        client.awaits()
        if isinstance(client, SecureClient) and client.keys is not None:
            self._digests(client.keys)

    def _restore_revealed(self, client: RecoveringClient, begun: bool) -> None:
        """Set `client.revealed` from the journal of revealed shares, because the saved state may be older.

        ValueError if the journal is damaged, or lost although the client has begun to evaluate.
        """
        remedy = f"Put it back from a copy; without one, {RESTART_HINT}"
        try:
            headers: list[Any] = [line.get("header") for line in self._revealed.read()]
        except ValueError as error:
            raise ValueError(f"{error} {remedy}") from None
        wrong = [number for number, header in enumerate(headers, 1) if not is_integer(header) or header < 0]
        if wrong:
            what = f"line {wrong[0]} of {self._revealed.path} has no header of an exchange"
            raise ValueError(f"{what}. {remedy}")
        if begun and not headers:  # a line of header 0 is written with the key
            what = f"{self._revealed.path} is lost, which says in which exchanges this client gave shares"
            raise ValueError(f"{what}. {remedy}")
        written = max(headers, default=0)
        if client.revealed > written:
            what = f"{self._revealed.path} ends at exchange {written}, and the state beside it is at"
            raise ValueError(f"{what} {client.revealed}: lines were lost. {remedy}")
        client.revealed = written

    def _key(self, begun: bool) -> np.ndarray:
        """Return the private key. It is derived from this client's plan and from a secret in a file of its own.

        So a client that loses its state keeps its key. If the journal is empty, the secret may be from an earlier run:
        a new one is made, so that no mask is used twice. ValueError if the secret is lost. begun: whether the journal
        has evaluations.
        """
        path = self.folder / "key"
        if not begun:
            check_plain(path)
            self._accepted_file.unlink(missing_ok=True)  # it is about the previous key
            self.folder.chmod(0o700)  # the state holds the key, too
            write_atomically(path, new_key().tobytes(), durable=True)
            if isinstance(self.client, RecoveringClient):
                self._revealed.check_plain()
                self._revealed.path.unlink(missing_ok=True)  # it is about exchanges under the previous key
                self._record_revealed(0)
        if not os.path.lexists(path):
            raise ValueError(
                f"{path} is lost, and so is the state, which had it, too. Put one back; else {RESTART_HINT}"
            )
        return self._read_key(path)

    def _read_key(self, path: Path) -> np.ndarray:
        check_plain(path)
        content = path.read_bytes()
        check(len(content) == 32, f"{path}", "a key of 32 bytes: put it back from a copy", f"{len(content)} bytes")
        return key_for(content, self.own_plan)

    def _check_key(self, client: SecureClient) -> None:
        """Raise a ValueError if there is a file with a key, and it is not the key of the state."""
        path = self.folder / "key"
        if os.path.lexists(path) and not np.array_equal(self._read_key(path), client.key):
            advice = "Put it back from a copy, or remove it: the state has what it needs of it, as long as it is there."
            raise ValueError(f"{path} is not the key of the state beside it. {advice}")

    # With masks a file has the digests of the plan and of all public keys that this client has worked with. It is on
    # disk before the first evaluation. So a journal without it belongs to another plan, and a lost state is noticed.

    def _read_accepted(self) -> dict:
        """Return the digests; {} if there are none, or if they cannot be read."""
        check_plain(self._accepted_file)
        try:
            accepted = json.loads(self._accepted_file.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return accepted if isinstance(accepted, dict) else {}

    def _digests(self, keys: np.ndarray) -> dict:
        return {"plan": _digest(self.own_plan.encode()), "keys": _digest(keys.astype(np.uint8).tobytes())}

    def _check_accepted(self, begun: bool, client: Client | None) -> None:
        """Raise a ValueError if the journal, or the client in the state, does not belong to the agreed plan."""
        accepted, keys = self._read_accepted(), client.keys if isinstance(client, SecureClient) else None
        if keys is not None:
            is_right = accepted == self._digests(keys)
        else:
            same_plan = accepted.get("plan") == _digest(self.own_plan.encode())
            same_plan = same_plan and isinstance(accepted.get("keys"), str)
            is_right = same_plan or not begun or not (self._secure or accepted)
        if not is_right:
            file = self._accepted_file.name
            what = f"the journal in {self.folder} is of another run, or {file} there is not as it was"
            remedy = "Give each federation a folder of its own, or put that file back from a copy. Without one,"
            raise ValueError(f"{what}. {remedy} {RESTART_HINT}")

    def _check_same_keys(self, keys: np.ndarray) -> None:
        """Raise a ValueError if this client has worked with other public keys, and has lost its state since."""
        if self._read_accepted().get("keys") not in (None, self._digests(keys)["keys"]):
            which = f"client {self.m} lost its state, and these are not the public keys that it had before"
            raise ValueError(f"{which}: whoever made them could read what it sends. With them, {RESTART_HINT}")

    def _take_known(self, point: list) -> float | None:
        rewards = self._known_rewards.get(str(point))
        return rewards.popleft() if rewards else None

    def _save(self) -> None:
        state = {"plan": self.own_plan, "run": self.run, "client": self.client, "outgoing": self.outgoing}
        save(self.folder / "state", {**state, "server_header": self.server_header})

    @property
    def outbox(self) -> str:
        """The text that the server is to be sent next, or again; "" if there is none."""
        return "" if self.outgoing is None else self.outgoing.to_json(self._run_tag)

    def answer(self, text: str = "") -> str:
        """Take the server's text, work, and return the text for the server.

        Evaluations continue from the last one of the previous process.

        Parameters
        ----------
        text
            The server's text, or "" to continue. The first text names the run, and every later text must name it, too.
            With masks and no quorum, a client that knows the run answers "" by asking for the server's newest message:
            otherwise an older copy of its folder would evaluate again.

        Returns
        -------
        str
            A message, or a `Done` if there is nothing to do.

        Raises
        ------
        ValueError
            For a text that is no message, or not the awaited message; nothing changes then.
        RuntimeError
            After give_up failed evaluations in a row, from the error of the last one.
        """
        with self._lock():
            self._restore()
            if text == "" and self.run and self._is_in_every_sum():
                # without the run: the server then sends its newest message
                return GoOn(0).to_json(self._agreed_plan_digest)
            self._receive(text)
            while self.outgoing is None and (batch := self.client.ask()).size:
                self.outgoing = self.client.tell(self._rewards(batch))
            self._save()
            return self.outbox or Done(self.client.t).to_json(self._run_tag)

    def _receive(self, text: str) -> None:
        """Take a text of the server.

        | what it is                    | what is done                                                                 |
        |-------------------------------|------------------------------------------------------------------------------|
        | ""                            | nothing                                                                      |
        | no message, or a wrong one    | ValueError                                                                   |
        | of another run                | ValueError; a `GoOn` leaves a line in the log                                |
        | `GoOn`                        | nothing, but that it names the run                                           |
        | early: of a later exchange    | the client lost its state, and goes on from where it is; with masks and      |
        |                               | without a quorum it keeps the header: see `_check_is_newest`                 |
        | late: of an earlier exchange  | nothing, with a line in the log                                              |
        | awaited                       | the client receives it                                                       |
        """
        if text == "":
            return
        awaited, run, receives = self.client.awaits(), run_named(text), self.client.receives
        tag = self._agreed_plan_digest + run
        head, message = self._read(text, tag, awaited)
        is_short = message is not None
        check(run != "", "a text of the server", "one that names its run", text)
        if run != (self.run or run):
            another = "the server is in another run of this plan: its state was lost, or this folder is an older one"
            if head.kind is not GoOn:
                raise ValueError(f"client {self.m}: {another}.")
            logger.warning("client %d: %s", self.m, another)  # it is told where this client is, and cannot take it
            return
        is_early = head.kind in receives and awaited.is_early(head.header)
        # At most M T exchanges cost evaluations, and at most max_depth + 1 only go deeper.
        latest = self._task.n_clients * self._task.horizon + self._task.partition.max_depth + 1
        came = f"the header of the server's {head.kind.__name__}"
        check(not is_early or head.header <= latest, came, f"at most {latest}, the last in this plan", head.header)
        if message is None and (not self.run or (is_early and self._is_in_every_sum())):
            message = Message.from_json(text, tag, MAX_CHARACTERS)  # its header is kept only if it is a message
        if not self.run:
            self.run = run
            self._save()
        if head.kind is GoOn:
            return
        if is_early:
            logger.warning("client %d: the server is ahead, at %d: going on from where this is", self.m, head.header)
            if self._is_in_every_sum():
                self.server_header = max(self.server_header, head.header)
                self._save()
        elif not is_short:
            logger.warning("a long %s of header %d is late: ignored", head.kind.__name__, head.header)
        elif message is not None and awaited.accepts(message, receives):
            self._take(message)

    def _read(self, text, tag: str, awaited: Awaited) -> tuple[Head, Message | None]:
        """Return the head and the message of a text; None for the message if the text is longer than the awaited one.

        A longer text is accepted only if its head shows that it is late or early. ValueError for any other.
        """
        longest = awaited.max_characters()
        head = read_head(text, tag) if isinstance(text, str) and len(text) > longest else None
        if head is not None and head.kind in self.client.receives and awaited.is_late_or_early(*head):
            return head, None
        message = Message.from_json(text, tag, longest)
        return Head(type(message), message.header), message

    def _take(self, message: Message) -> None:
        """Take the awaited message, and save the state."""
        if isinstance(message, PublicKeys):
            self._check_same_keys(message.keys)
        self.outgoing = self.client.receive(message)
        if isinstance(message, PublicKeys):
            write_atomically(self._accepted_file, json.dumps(self._digests(message.keys)).encode(), durable=True)
        if isinstance(message, Reveal):
            self._record_revealed(message.header)
        self._save()

    def _record_revealed(self, header: int) -> None:
        """Record that shares were given, before they are sent: a client gives shares once per exchange."""
        self._revealed.read()
        self._revealed.append(header=header)

    def _rewards(self, batch: Batch) -> np.ndarray:
        points = np.repeat(batch.points, batch.counts, axis=0)
        rewards = np.array([self._reward(self.client.t + i, x) for i, x in enumerate(points, 1)])
        if np.isnan(rewards).any():
            distinct, node = np.unique(points, axis=0, return_inverse=True)
            node = node.ravel()
            for i in np.unique(node[np.isnan(rewards)]):
                x, positions = distinct[i], np.flatnonzero(node == i)
                is_missing, others = np.isnan(rewards[positions]), self._rewards_at[str(x.tolist())]
                substitute = np.mean(others) if others and not self._secure else self.missing
                too_few = positions[~is_missing] if (~is_missing).sum() < self._least_rewards else []
                rewards[positions[is_missing]] = rewards[too_few] = substitute
                values = self.m, is_missing.sum(), len(positions), x.tolist(), substitute
                logger.warning("client %d: %d of %d evaluations of %s are missing, and count as %g", *values)
                if len(too_few):
                    why = "with masks, as a mean of so few could tell them"
                    logger.warning("client %d: neither do the other %d there count, %s", self.m, len(too_few), why)
        return rewards

    def _reward(self, t: int, x: np.ndarray) -> float:
        """Return the reward of evaluation t, NaN if it is missing: from the journal, or made now and written there."""
        point = x.tolist()
        if self._journal_left:
            line = self._journal_left.popleft()
            if line["point"] != point:
                raise ValueError(f"{self.journal.path} is of another run: evaluation {t} is not of {point}.")
            self._record_reward(point, line["reward"])
            return math.nan if line["reward"] is None else line["reward"]
        reward, why = self._take_known(point), ""
        if reward is None:
            self._check_is_newest(t)
            reward, why = self._evaluate(x)
        self.journal.append(t=t, point=point, reward=reward, **({"why": why} if reward is None else {}))
        self._record_reward(point, reward)
        return math.nan if reward is None else reward

    def _is_in_every_sum(self) -> bool:
        """Whether the server's sums always include this client's numbers: with masks, and without a quorum."""
        return isinstance(self.client, SecureClient) and not isinstance(self.client, RecoveringClient)

    def _check_is_newest(self, t: int) -> None:
        """Raise a ValueError if the server's sums include numbers of this client that its journal does not contain.

        Then the folder is an older copy, and other numbers would be sent under masks that were used before. With a
        quorum this cannot be concluded, because the server may have continued without this client.
        """
        if self._is_in_every_sum() and self.server_header > self.client.awaits().last_header:
            after = f"after evaluation {t - 1}, where {self.journal.path} ends"
            remedy = f"this folder is an older copy. Put the newest back; without it, {RESTART_HINT}"
            raise ValueError(f"the server has sums with what client {self.m} sent {after}: {remedy}")

    def _record_reward(self, point: list, reward: float | None) -> None:
        if reward is not None:
            self._rewards_at[str(point)].append(reward)

    def _evaluate(self, x: np.ndarray) -> tuple[float | None, str]:
        failure, why = None, ""
        for _ in range(1 + self.retries):
            try:
                reward = to_float(self.evaluate(x.copy()))
                failure, why = None, f"it gave {reward}"
            except Exception as error:  # whatever an objective may raise
                failure, why = error, f"{type(error).__name__}: {error}"
            low, high = self.client.task.reward_limits
            if failure is None and low <= reward <= high:  # no NaN
                self._failures_in_a_row = 0
                return reward, ""
            logger.warning("client %d: an evaluation of %s failed: %s", self.m, x.tolist(), why)
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= self.give_up:
            self._failures_in_a_row = 0
            in_a_row = f"{self.give_up} evaluations in a row failed"
            raise RuntimeError(f"client {self.m}: {in_a_row}, at last: {why}") from failure
        return None, why

    @property
    def t(self) -> int:
        """The number of evaluations told to the algorithm."""
        return self.client.t

    def best(self) -> np.ndarray:
        """Return the point (d,) that the client would deploy now."""
        return self.client.best()
