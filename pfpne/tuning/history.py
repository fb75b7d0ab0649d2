"""The file of a search: every evaluation, in order, so that the same call continues where it was stopped."""

import json
import re
from collections import deque
from pathlib import Path

from filelock import FileLock, Timeout

from pfpne import __version__
from pfpne.journal import Journal
from pfpne.tuning.result import Tuned
from pfpne.tuning.searches import (
    DEFAULT_FOR_FEW,
    DEFAULT_FOR_MANY,
    DEFAULT_SETTINGS_FOR_MANY,
    FEW_EVALUATIONS,
    SEARCHES,
)
from pfpne.validation import check, is_number

LONGEST_QUOTED = 300  # characters of what a file says
ROW_FIELDS = {"client", "u", "parameters", "value", "seconds", "why"}  # of a history


class History:
    """The evaluations of a search, in order: earlier ones, which are taken first, and those made now.

    A row is {client, u, parameters, value, seconds, why}. u, the point of the unit cube, shows whether the row is for
    the requested point; value is None if it is missing. An open history holds the lock of its file, so that no other
    search writes there. Raises ValueError, before anything is evaluated, for a file that is damaged, in use, or of
    another search.
    """

    def __init__(self, before: str | Path | Tuned | None, search):
        check(before is None or isinstance(before, (str, Path, Tuned)), "history", "a path or a result", before)
        self.request, self.space, self.reward = search.request, search.space, search.reward
        self.rows, self._journal = [], None
        self._earlier = {text: deque() for text in self.request["clients"]}  # by client: rows that are not taken yet
        self._count = dict.fromkeys(self.request["clients"], 0)  # by client: rows taken or made
        if isinstance(before, Tuned):
            self._check_same(before.request, self.request, "the result given as history")
            self._begin([self._in_range(row, n) for n, row in enumerate(before.rows, 1)])
        elif before is not None:
            check(str(before) not in ("", "."), "history", "the name of a file", str(before))
            for name in search.names:
                check(_is_reproducible(name), "with a history, the name of a client", REPRODUCIBLE_VALUE, name)
            for name, parameter in self.space.parameters.items():
                for choice in getattr(parameter, "choices", ()):
                    check(_is_reproducible(choice), f"with a history, a choice of {name!r}", REPRODUCIBLE_VALUE, choice)
            try:
                path = Path(before).resolve()
                path.parent.mkdir(parents=True, exist_ok=True)
                self._journal = Journal(path)
                self._journal.check_plain()
                self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
            except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a file among the folders, a NUL
                raise ValueError(_not_writable(error)) from None

    def _begin(self, rows: list[dict]) -> None:
        self.rows = rows
        for row in rows:
            self._earlier[row["client"]].append(row)

    def open(self) -> None:
        """Lock the file, and read it."""
        if self._journal is not None:
            try:
                self._lock.acquire()
            except Timeout:
                other = "another search is using it. Wait until that has ended, or give another history"
                raise ValueError(f"history {self._journal.path}: {other}.") from None
            except OSError as error:
                raise ValueError(_not_writable(error)) from None
            try:
                self._read(self._journal)
            except BaseException:
                self._lock.release()
                raise

    def close(self) -> None:
        """Release the file."""
        if self._journal is not None:
            self._lock.release()

    def _read(self, journal: Journal) -> None:
        """Read the file, or begin it."""
        path, request = journal.path, json.loads(json.dumps(self.request))
        try:
            lines = journal.read()
            path.open("ab").close()  # that it can be written to is known before anything is evaluated
        except OSError as error:
            raise ValueError(_not_writable(error)) from None
        except ValueError as error:
            advice = (
                "If tune wrote it, put it back from a copy, or cut it before the damage: the rest is evaluated again."
            )
            raise ValueError(f"history must be a file that tune wrote, or a new one; {error} {advice}") from None
        is_history = lines[0].keys() == request.keys() | {"pfpne"} if lines else path.stat().st_size == 0
        check(is_history, "history", "a file that tune wrote, or a new one", str(path))
        if not lines:
            journal.append(pfpne=__version__, **request)
            return
        self._check_same(lines[0], {"pfpne": __version__, **request}, path)
        self._begin([self._checked(row, n) for n, row in enumerate(lines[1:], 1)])

    def _check_same(self, before: dict, request: dict, source) -> None:
        algorithm = SEARCHES[request["algorithm"]]
        for name in sorted(request, key="algorithm".__ne__):  # the algorithm first: its default follows from the rest
            old, value = before.get(name), request[name]
            may_differ = False
            if name == "n_evaluations":
                may_differ = algorithm.ignores_horizon and old is not None
            elif name == "reward":
                same_direction = isinstance(old, list) and old[2:] == value[2:]
                may_differ = algorithm.ignores_reward_range and same_direction
            if old != value and not may_differ:
                raise ValueError(f"{source} is of another search: {_difference(name, old, value)}")

    def _checked(self, row: dict, n: int) -> dict:
        """Return the row with its original objects, as before writing, instead of the values that JSON gives."""
        what = f"evaluation {n} of the history"
        check(row.keys() == ROW_FIELDS, what, f"a row of {', '.join(sorted(ROW_FIELDS))}", row)
        check(row["client"] in self.request["clients"], what, f"of one of {self.request['clients']}", row["client"])
        u = row["u"]
        inside = isinstance(u, list) and len(u) == self.space.d and all(is_number(x) and 0 <= x <= 1 for x in u)
        check(inside, what, f"at a point of [0, 1]^{self.space.d}", u)
        parameters = self.space.point(u)
        check(row["parameters"] == json.loads(json.dumps(parameters, default=repr)), what, f"of {parameters}", row)
        seconds, why = row["seconds"], row["why"]
        check(seconds is None or is_number(seconds), what, "of a number of seconds", seconds)
        check(isinstance(why, str), what, "of a text that says why it is missing", why)
        return {**self._in_range(row, n), "parameters": parameters}

    def _in_range(self, row: dict, n: int) -> dict:
        """Return the row, its value as a float; ValueError if it is outside the range."""
        try:
            return {**row, "value": None if row["value"] is None else self.reward.number(row["value"])}
        except ValueError as error:
            raise ValueError(f"evaluation {n} of the history: {error}") from None

    def count(self, m: int) -> int:
        """Return the number of evaluations of client m so far."""
        return self._count[self.request["clients"][m]]

    def take_earlier(self, m: int, u: list[float]) -> dict | None:
        """Return the next earlier evaluation of client m, which must be at u; None if there is none left."""
        client = self.request["clients"][m]
        if not self._earlier[client]:
            return None
        row = self._earlier[client].popleft()
        self._count[client] += 1
        what = f"evaluation {self._count[client]} of client {client} in the history"
        check(row["u"] == u, what, f"at {u}, as now asked for", row["u"])
        return row

    def add(self, m: int, row: dict) -> None:
        """Add an evaluation of client m."""
        self.rows.append(row)
        self._count[self.request["clients"][m]] += 1
        if self._journal is not None:
            self._journal.append(**row)

    def check_all_taken(self) -> None:
        """Raise a ValueError if there are more earlier evaluations than the search asked for."""
        surplus = sum(map(len, self._earlier.values()))
        if surplus:
            asked = f"{len(self.rows) - surplus} evaluations, which is all that this call asks for"
            source = "" if self._journal is None else f" {self._journal.path}:"
            raise ValueError(
                f"history{source} must be of at most {asked}; got {len(self.rows)}. Give a larger n_evaluations."
            )


DEFAULT_SETTINGS_AS_TEXT = {name: repr(value) for name, value in DEFAULT_SETTINGS_FOR_MANY.items()}


def _difference(name: str, old, value) -> str:
    """Return how a search differs from the search of its history, and what to do."""
    advice = "Give what was given then, or another history."
    if name == "space" and _is_pairs(old) and dict(old) != dict(value):
        before, now = dict(old), dict(value)
        pairs = {key: (before.get(key, "not there"), now.get(key, "not there")) for key in {**before, **now}}
        changes = [
            f"{key[:80]} was {str(was)[:LONGEST_QUOTED]}, and is {is_now} here"
            for key, (was, is_now) in pairs.items()
            if was != is_now
        ]
        return f"in the space, {'; '.join(changes)}. {advice} A new search can have the old values that fit as known=."
    if name == "known" and isinstance(old, list) and all(isinstance(pairs, list) for pairs in old):
        n_before, n_now = (sum(map(len, pairs)) for pairs in (old, value))
        counts = f"{n_before} values were known, and {n_now} are here, or others"
        return f"{counts}. {advice} A new search can have the old values, too, as known=."
    if name == "algorithm" and all(x in (DEFAULT_FOR_FEW, DEFAULT_FOR_MANY) for x in (old, value)):
        default = f"{DEFAULT_FOR_FEW} up to {FEW_EVALUATIONS:,} evaluations, and {DEFAULT_FOR_MANY} beyond, with"
        default += f" {', '.join(f'{key}={x}' for key, x in DEFAULT_SETTINGS_FOR_MANY.items())}"
        advice += f" A call that names no algorithm takes {default}."
    if name == "settings" and value == DEFAULT_SETTINGS_AS_TEXT and old == {}:
        advice += f" A search that names no algorithm has these settings beyond {FEW_EVALUATIONS:,} evaluations;"
        advice += f" one with algorithm={DEFAULT_FOR_MANY!r} alone has none."
    return f"{name} was {repr(old)[:LONGEST_QUOTED]}, and is {value!r} here. {advice}"


def _is_pairs(x) -> bool:
    """Whether x is a list of pairs, a text first: the head of a file may have been written by anyone."""
    return isinstance(x, list) and all(isinstance(y, list) and len(y) == 2 and isinstance(y[0], str) for y in x)


def _not_writable(error: Exception) -> str:
    return f"history must be the name of a file that can be written; {str(error).rstrip('.')}."


REPRODUCIBLE_VALUE = (
    "one that reads the same in every process (a number, a text, a tuple of them): give names, and look them up in the "
    "objective"
)


def _is_reproducible(x) -> bool:
    """Whether repr(x) is the same in another process: no address of memory, no order that follows hashes."""
    if isinstance(x, tuple):
        return all(map(_is_reproducible, x))
    return not isinstance(x, (set, frozenset)) and re.search(r" at 0x[0-9a-fA-F]+", repr(x)) is None
