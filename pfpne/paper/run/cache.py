"""Finished results on disk: each is computed once, written whole or not at all, and stored under a key.

The key of a run, or of rows of numbers made from runs, covers the request, the code that computes the result (see
pfpne.paper.run.sources), and everything else that decides its last bits (see pfpne.paper.run.versions): the versions of
Python and of the numerical libraries, and the processor. If any of these changes, the result is computed again. A file
that is damaged, or holds the result of another key, is reported and not used. Files are never executed, but they are
not signed: whoever may write to the folder can change the numbers.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from filelock import FileLock

from pfpne.paper.run.folders import RESULTS_FOLDER, read_whole
from pfpne.paper.run.sources import source_hash
from pfpne.paper.run.versions import numerical_environment
from pfpne.paths import write_atomically
from pfpne.simulation.record import Run


class DamagedResult(UserWarning):
    """A stored result could not be read, and is computed again."""


# --- keys -------------------------------------------------------------------------------------------


def key(content: dict, *parts) -> str:
    """Return the key of a result.

    Parameters
    ----------
    content : dict
        The request, in plain values.
    *parts
        The functions, classes and rows of registries that compute the result. Their values count, and so do the modules
        that define their functions and classes, with all imports of these modules.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    SourceChanged
        If one of the modules was edited after this process loaded it.

    Examples
    --------
    >>> from pfpne.algorithms import ALGORITHMS
    >>> key({"horizon": 10}, ALGORITHMS["hct"]) == key({"horizon": 10}, ALGORITHMS["pe"])
    False
    """
    modules: set[str] = set()
    described = [_describe(part, modules) for part in parts]
    everything = {**content, "parts": described, "source": source_hash(modules), "versions": numerical_environment()}
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def _describe(part, modules: set[str]):
    """Put a part into plain values, and its functions' and classes' modules into `modules`."""
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    if isinstance(part, (list, tuple)):
        return [_describe(item, modules) for item in part]
    if isinstance(part, dict):
        return [_describe(item, modules) for item in part.items()]
    if isinstance(part, np.ndarray):
        return part.tolist()
    if isinstance(part, functools.partial):
        return _describe((part.func, part.args, part.keywords), modules)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return _describe((type(part), values), modules)
    if part.__module__ != "builtins":
        modules.add(part.__module__)
    return f"{part.__module__}.{part.__qualname__}"


# --- files ------------------------------------------------------------------------------------------


def path_of(key: str, folder: Path = RESULTS_FOLDER) -> Path:
    """Return the file of the run with this key."""
    return folder / key[:2] / f"{key[2:34]}.npz"


@contextlib.contextmanager
def locked(key: str, folder: Path = RESULTS_FOLDER) -> Iterator[None]:
    """Let no other process make the run with this key: it waits, and then finds it stored."""
    path = path_of(key, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")) as lock:
        yield
    Path(lock.lock_file).unlink(missing_ok=True)


def save_run(key: str, run: Run, folder: Path = RESULTS_FOLDER) -> None:
    """Store a run."""
    arrays = {name: value for name, value in vars(run).items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in vars(run).items() if name not in arrays}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, meta=json.dumps({"key": key, **rest}))
    _write(path_of(key, folder), buffer.getvalue())


def load_run(key: str, folder: Path = RESULTS_FOLDER) -> Run | None:
    """Return the stored run, or None. A damaged file is reported with a DamagedResult warning, and is None."""

    def read(path: Path) -> Run:
        with np.load(io.BytesIO(read_whole(path)), allow_pickle=False) as z:
            arrays = dict(z)
        meta = json.loads(str(arrays.pop("meta")))
        if meta.pop("key") != key:
            raise ValueError("it holds another run")
        if not all(isinstance(x, np.ndarray) and x.dtype.kind in "iuf" for x in arrays.values()):
            raise ValueError("it holds what is no array of numbers")
        return Run(**arrays, **meta)

    return _read(path_of(key, folder), read)


def load_rows(key: str, folder: Path = RESULTS_FOLDER):
    """Return the plain numbers and names stored under a key, or None; a damaged file as in `load_run`."""

    def read(path: Path):
        stored = json.loads(read_whole(path))
        if stored["sha256"] != _digest(key, stored["rows"]):
            raise ValueError("its rows are not the ones written, or another's")
        return stored["rows"]

    return _read(_path_of_rows(key, folder), read)


def save_rows(key: str, rows, folder: Path = RESULTS_FOLDER) -> None:
    """Store plain numbers and names, one or lists of them."""
    content = {"key": key, "rows": rows, "sha256": _digest(key, rows)}
    _write(_path_of_rows(key, folder), json.dumps(content).encode())


def stored_rows(key: str, make: Callable[[], list], folder: Path = RESULTS_FOLDER) -> list:
    """Return the rows stored under a key; if there are none, the rows that make() returns, after storing them."""
    rows = load_rows(key, folder)
    if rows is None:
        rows = make()
        save_rows(key, rows, folder)
    return rows


def _path_of_rows(key: str, folder: Path) -> Path:
    return folder / "summaries" / f"{key[:32]}.json"


def _digest(key: str, rows) -> str:
    return hashlib.sha256(json.dumps([key, rows]).encode()).hexdigest()


def _read(path: Path, read: Callable[[Path], object]):
    """Return read(path), or None if there is no such file or, with a warning, if it is damaged."""
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except Exception as error:
        warnings.warn(f"{path.name} is damaged ({error}); the result is computed again.", DamagedResult, stacklevel=3)
        return None


def _write(path: Path, content: bytes) -> None:
    if not path.is_dir():  # else it was reported
        write_atomically(path, content)
