"""Finished results on disk: each is computed once, written whole or not at all, and known by what it depends on.

Runs, rows of numbers made of runs, and executed notebooks have one kind of key. It covers what was asked for, the
definitions that it is computed with (see pfpne.paper.run.closure), and the versions of the numerical libraries. A
change in any of them computes the result again; a file that is damaged, or holds another's result, is reported and not
used.
"""

import functools
import hashlib
import io
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from filelock import FileLock

from pfpne.paper.run.closure import Definitions, read_sources
from pfpne.paper.run.folders import RESULTS, read_whole
from pfpne.paper.run.versions import versions
from pfpne.paths import PACKAGE, write_atomically
from pfpne.simulation.record import Run


class DamagedResult(UserWarning):
    """A stored result could not be read, and is computed again."""


class SourceChanged(RuntimeError):
    """The package was edited after this process loaded it: what it computes is not what its files say."""


# --- keys -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _stamps(tick: int) -> frozenset:
    """What tells whether a file of the package may have changed. Looked at once a tick: keys are made by thousands."""
    return frozenset((path, path.stat().st_mtime_ns, path.stat().st_size) for path in PACKAGE.rglob("*.py"))


@functools.lru_cache(maxsize=1)
def _on_disk(stamps: frozenset) -> Definitions:
    return Definitions(read_sources(PACKAGE))


_AT_START, LOADED = _stamps(-1), Definitions(read_sources(PACKAGE))  # as they were when this process began


def source_hash(*roots: tuple | Callable) -> str:
    """SHA-256 of all definitions that the roots reach (see `closure`); without roots, of the whole package.

    Raises SourceChanged if one of them is another by now than when this process loaded it.
    """
    roots = [root if isinstance(root, tuple) else (root.__module__, root.__name__) for root in roots]
    digest, texts = LOADED.closure(*roots)
    stamps = _stamps(int(10 * time.monotonic()))
    if stamps != _AT_START:
        disk = _on_disk(stamps)
        try:
            same = disk.closure(*roots)[0] == digest
        except (SyntaxError, LookupError):
            same = False
        if not same:
            edited = {module for module, *_ in texts if disk.sources.get(module) != LOADED.sources[module]}
            names = ", ".join(sorted(edited)) or "the package"
            raise SourceChanged(f"{names} was edited after it was loaded: restart the kernel, then run again.")
    return digest


def key(content: dict, *roots: tuple | Callable) -> str:
    """The key (64 hex digits) of a result: of what was asked for, in plain values, and what its roots reach."""
    everything = {**content, "source": source_hash(*roots), "versions": versions()}
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def roots_of(notebook: Path) -> list[tuple[str, ...]]:
    """The roots of a notebook: what its code cells import from the package and mention."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code").splitlines()
    return LOADED.imported("\n".join(line for line in lines if not line.lstrip().startswith(("%", "!"))))


# --- files ------------------------------------------------------------------------------------------


def path_of(key: str, folder: Path = RESULTS) -> Path:
    return folder / key[:2] / f"{key[2:34]}.npz"


def run(key: str, make: Callable[[], Run], folder: Path = RESULTS) -> Run:
    """The stored run, or else the one that make() returns now, which is stored; no two processes make the same."""
    path = path_of(key, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")) as guard:
        found = load(key, folder)
        if found is None:
            found = make()
            arrays = {name: value for name, value in vars(found).items() if isinstance(value, np.ndarray)}
            rest = {name: value for name, value in vars(found).items() if name not in arrays}
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **arrays, meta=json.dumps({"key": key, **rest}))
            _write(path, buffer.getvalue())
    Path(guard.lock_file).unlink(missing_ok=True)
    return found


def load(key: str, folder: Path = RESULTS) -> Run | None:
    """The stored run, or None. A damaged file is reported with a DamagedResult warning, and is None."""

    def content(path: Path) -> Run:
        with np.load(io.BytesIO(read_whole(path)), allow_pickle=False) as z:
            arrays = dict(z)
        meta = json.loads(str(arrays.pop("meta")))
        if meta.pop("key") != key:
            raise ValueError("it holds another run")
        return Run(**arrays, **meta)

    return _read(path_of(key, folder), content)


def rows(key: str, make: Callable[[], list], folder: Path = RESULTS) -> list:
    """The rows of plain numbers and names that are kept under the key, or else those that make() returns now."""
    path = folder / "summaries" / f"{key[:32]}.json"

    def digest(rows: list) -> str:
        return hashlib.sha256(json.dumps([key, rows]).encode()).hexdigest()

    def content(path: Path) -> list:
        kept = json.loads(read_whole(path))
        if kept["sha256"] != digest(kept["rows"]):
            raise ValueError("its rows are not the ones written, or another's")
        return kept["rows"]

    found = _read(path, content)
    if found is None:
        found = make()
        _write(path, json.dumps({"key": key, "rows": found, "sha256": digest(found)}).encode())
    return found


def _read(path: Path, content: Callable[[Path], object]):
    """content(path), or None if there is no such file or, with a warning, if it is damaged."""
    try:
        return content(path)
    except FileNotFoundError:
        return None
    except Exception as error:
        warnings.warn(f"{path.name} is damaged ({error}); the result is computed again.", DamagedResult, stacklevel=3)
        return None


def _write(path: Path, content: bytes) -> None:
    if not path.is_dir():  # else it was reported
        write_atomically(path, content)
