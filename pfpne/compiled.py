"""Compiled functions, whose machine code is kept on disk in a folder of its own for each state of the sources.

A function's machine code contains the machine code of the functions that it calls. Numba compiles a function again only
if the function's own file has changed, so after an edit in another file it would run old code. Here every edit of the
package leads to another folder, which holds no old code.
"""

import atexit
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.core.config

from pfpne.paths import PACKAGE_FOLDER, source_files

config: Any = numba.core.config
A_DAY = 86_400  # seconds


def source_digest(package: Path) -> str:
    """Hash the sources of the package (16 hex digits), but for `paper`, which compiles nothing."""
    digest = hashlib.sha256()
    for path in sorted(map(Path, source_files(package, without="paper"))):
        name = path.relative_to(package).as_posix()
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def last_changes(package: Path) -> dict[str, tuple[int, ...]]:
    """Return when each source was written last, and its size: to read them all takes ten times as long.

    Who edits a file can set the time of its content back (`st_mtime_ns`), but not that of its entry (`st_ctime_ns`).
    """
    states = source_files(package, without="paper").items()
    return {path: (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino) for path, state in states}


# Before any compiled function of the package is loaded; an edit between the two is taken for a later one.
LAST_CHANGES = last_changes(PACKAGE_FOLDER)
SOURCE_DIGEST = source_digest(PACKAGE_FOLDER)


def _make_folder() -> Path:
    """Make the folder for this state of the sources, in the first place that can be written to.

    The places are Numba's own setting, the package, and the user's cache; else a temporary folder, which processes
    started by this one share, and which ends with it.
    """
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "pfpne"
    for place in filter(None, (config.CACHE_DIR, PACKAGE_FOLDER / "__pycache__", user_cache)):
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home
            folder = Path(place).expanduser().absolute() / "pfpne-compiled" / SOURCE_DIGEST
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)  # it is in use
            _remove_unused(folder.parent)
            return folder
    os.environ["NUMBA_CACHE_DIR"] = temporary = tempfile.mkdtemp(prefix="pfpne-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary) / "pfpne-compiled" / SOURCE_DIGEST


def _remove_unused(folders: Path) -> None:
    """Remove the folders that no process has started with for a day. A process that still uses one makes it again."""
    for folder in folders.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > A_DAY:
                shutil.rmtree(folder)


COMPILED_FOLDER = _make_folder()


def njit(**options) -> Callable[[Callable], Callable]:
    """Do what numba.njit does, with cache=True in COMPILED_FOLDER.

    Nothing is kept where that folder cannot be used, or where the sources were edited after this process had begun to
    load them.
    """

    def decorate(function: Callable) -> Callable:
        setting, config.CACHE_DIR = config.CACHE_DIR, str(COMPILED_FOLDER)
        try:
            compiled = numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = setting
        if (
            COMPILED_FOLDER in Path(compiled.stats.cache_path or "").parents
            and last_changes(PACKAGE_FOLDER) == LAST_CHANGES
        ):
            return compiled
        not_kept: dict[str, Any] = {**options, "cache": False}
        return numba.njit(**not_kept)(function)

    return decorate
