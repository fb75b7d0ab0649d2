"""The plan that all sites must agree on before they begin, and the folder in which each site keeps its state."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pfpne import __version__
from pfpne.algorithms import Algorithm
from pfpne.algorithms.secure import secured
from pfpne.federation import Client, Server, Task
from pfpne.live.states import load
from pfpne.messages import MALFORMED, Message
from pfpne.validation import check


def describe_plan(name: str, task: Task, settings: dict) -> str:
    """Return the plan of server and clients as a text: the algorithm, the task, the settings, the package's version.

    The version is part of the plan because versions may differ in how they count or write messages.
    """

    def plain(x):
        return x.tolist() if hasattr(x, "tolist") else {"kind": type(x).__name__, **vars(x)}

    return json.dumps([name, task, settings, __version__], default=plain, sort_keys=True)


def with_masks(name: str, secure: bool, settings: dict) -> tuple[str | Algorithm, dict]:
    """Return the algorithm, which masks its messages if secure is True, and the settings for the plan."""
    check(isinstance(secure, bool), "secure", "True or False", secure)
    return (secured(name), {**settings, "secure": True}) if secure else (name, settings)


def with_quorum(secure: bool, settings: dict, quorum: int | None, M: int) -> dict:
    """Return the settings, with the quorum added if messages are masked and fewer than M clients suffice."""
    return {**settings, "quorum": quorum} if secure is True and quorum not in (None, M) else settings


def plan_digest(plan: str) -> str:
    """Return eight hexadecimal digits that every text contains, so that texts of other plans are refused."""
    return hashlib.sha256(plan.encode()).hexdigest()[:8]


def run_named(text) -> str:
    """Return the run that a text names after its plan: 16 hexadecimal digits drawn by the server, or ""."""
    named = re.search(r'"plan": "[0-9a-f]{8}([0-9a-f]{16})"', text[:100]) if isinstance(text, str) else None
    return named[1] if named else ""


@dataclass(frozen=True, eq=False)
class GoOn(Message):
    """Down: the client is to continue from its current state. Header: 0."""


@dataclass(frozen=True, eq=False)
class Done(Message):
    """Up: the client has nothing to do. Header: the number of evaluations that it has made."""


def load_state(path: Path, plan: str, entries: set[str], advice: str) -> dict | None:
    """Return the state saved at the path, or None; ValueError if it is of another plan, damaged, or lacks entries."""
    if not os.path.lexists(path):
        return None
    remedy = f"Put it back from a copy; without one, {advice}"
    try:
        saved = load(path)
    except ValueError as error:
        raise ValueError(f"{error} {remedy}") from None
    if not isinstance(saved, dict) or saved.get("plan") != plan:
        raise ValueError(f"{path} is the state of another run: give this one a folder of its own.")
    if missing := sorted(entries - saved.keys()):
        raise ValueError(f"{path} lacks {', '.join(missing)}. {remedy}")
    return saved


@contextmanager
def refuse_nonsense(path: Path, advice: str) -> Iterator[None]:
    """Turn every error that a made-up state raises at its first use into a ValueError that says what to do."""
    try:
        yield
    except (*MALFORMED, IndexError) as error:
        nonsense = f"{path} holds what no run has saved ({type(error).__name__}: {str(error)[:200]})"
        raise ValueError(f"{nonsense}. Put it back from a copy; without one, {advice}") from None


def check_complete(restored, new: Client | Server) -> None:
    """Raise a ValueError unless a restored client or server, and one inside it, has all attributes of a new one."""
    kind = type(new)
    check(type(restored) is kind, "what a state is of", kind.__name__, restored)
    lacking = sorted(vars(new).keys() - vars(restored).keys())
    check(not lacking, f"a {kind.__name__} in a state", "complete", f"one without {', '.join(lacking)}")
    for name, part in vars(new).items():
        if isinstance(part, (Client, Server)):
            check_complete(getattr(restored, name), part)


def make_folder(folder: str | Path) -> Path:
    """Make the folder; return its absolute path, because the user's `evaluate` may change the working folder."""
    folder = Path(folder).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be a folder to keep a state in: {error}. Give another.") from None
    return folder
