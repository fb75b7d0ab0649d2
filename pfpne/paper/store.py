"""Finished runs on disk: each is computed once, written whole or not at all, and known by what it depends on.

A run's key covers its settings, the source of the modules that it depends on (comments and docstrings
aside, drawing not included), the versions of the numerical libraries and the hash of the data. So a
change in any of them computes the run again, and nothing stale is ever served.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import io
import json
import platform
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
from filelock import FileLock

from pfpne.paths import RESULTS, write_atomically
from pfpne.simulation.record import Run

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite")


class DamagedResult(UserWarning):
    """A stored run could not be read and is computed again."""


# What reading a damaged file can raise: its zip container, its arrays, or what they say.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError),
    *(ValueError, KeyError, TypeError, AttributeError),
)


class SourceChanged(RuntimeError):
    """The package was edited after this process loaded it: what it computes is not what its files say."""


@functools.cache
def _hash_of(source: bytes) -> str:
    """SHA-256 of a module's syntax tree without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


PACKAGE = Path(__file__).parent.parent
_LOADED = {str(path.relative_to(PACKAGE)): path.read_bytes() for path in PACKAGE.rglob("*.py")}  # as they were when this process began


def source_hash() -> str:
    """SHA-256 of what the modules of pfpne do: their syntax trees without docstrings."""
    digest = hashlib.sha256()
    for module in sorted(_LOADED):
        digest.update(f"{module}:{_hash_of(_LOADED[module])}".encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """What a result may change with, besides its settings and the source."""
    found = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version(), "machine": platform.machine(), **found}


def run_key(
    algorithm: str, settings: dict, problem: dict, horizon: int, global_regret: bool, data_hash: str | None
) -> str:
    """The key (64 hex digits) of one run of one algorithm. problem: the arguments of make_problem."""
    content = {
        "algorithm": algorithm,
        "settings": settings,
        "problem": problem,
        "horizon": horizon,
        "global_regret": global_regret,
        "data": data_hash,
        "source": source_hash(),
        "versions": versions(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def path_of(key: str, folder: Path = RESULTS) -> Path:
    return folder / key[:2] / f"{key[2:34]}.npz"


def lock(key: str, folder: Path = RESULTS) -> FileLock:
    """Held while a run is computed, so that two processes do not compute it twice."""
    path = path_of(key, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_suffix(".lock"))


def save(key: str, run: Run, folder: Path = RESULTS) -> Path:
    """Write the run under its key, whole or not at all."""
    meta = {"key": key, "algorithm": run.algorithm, "settings": run.settings, "seconds": run.seconds}
    arrays = {"t": run.t, "regret": run.regret, "simple_regret": run.simple_regret, "best": run.best}
    if run.global_regret is not None:
        arrays["global_regret"] = run.global_regret
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, rounds=run.rounds, meta=json.dumps(meta))
    return write_atomically(path_of(key, folder), buffer.getvalue())


def load(key: str, folder: Path = RESULTS) -> Run | None:
    """The stored run, or None. A damaged file is reported with a DamagedResult warning, and is None."""
    path = path_of(key, folder)
    try:
        with np.load(path, allow_pickle=False) as z:
            content = {name: z[name] for name in z.files}
        meta = json.loads(str(content.pop("meta")))
        if meta.pop("key") != key:
            raise ValueError("it holds another run")
        content.setdefault("global_regret", None)
        return Run(**meta, **content)
    except FileNotFoundError:
        return None
    except DAMAGE as error:
        warnings.warn(f"{path.name} is damaged ({error}); the run is computed again.", DamagedResult, stacklevel=2)
        return None
