"""Where the package finds its files and puts new ones, and how a file is written whole or not at all."""

import contextlib
import glob
import os
import tempfile
import time
from pathlib import Path

PACKAGE_FOLDER = Path(__file__).resolve().parent
# data/ and notebooks/ are in the package where it was installed from a wheel, beside it in a checkout.
INPUT_ROOT = PACKAGE_FOLDER if (PACKAGE_FOLDER / "data").is_dir() else PACKAGE_FOLDER.parent
# The folder for all output: the checkout, else the working folder; PFPNE_ROOT names another.
OUTPUT_ROOT = Path(
    os.environ.get("PFPNE_ROOT") or (Path.cwd() if INPUT_ROOT == PACKAGE_FOLDER else INPUT_ROOT)
).absolute()
DATASET_FOLDER = OUTPUT_ROOT / "data"  # the folder in which you may put the landmine dataset
LANDMINE_TABLE = INPUT_ROOT / "data" / "landmine_auc.npz"
LANDMINE_LOG_TABLE = INPUT_ROOT / "data" / "landmine_auc_log.npz"

AN_HOUR = 3600  # seconds: longer than writing a file takes


def write_atomically(path: Path, content: bytes, durable: bool = False) -> Path:
    """Write a file under a temporary name, then rename it, so that a killed process never leaves half a file.

    With durable, the file is on disk before this returns, and a power cut leaves either the old content or the new.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, and a file has to go there: move it away.")
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*"):  # of killed processes
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > AN_HOUR:
                leftover.unlink()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        if durable and os.name == "posix":  # elsewhere a folder cannot be opened
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise write_error(path, error) from None
        raise
    return path


def write_error(path: Path, error: OSError) -> OSError:
    """Return the error, of a full disk for example, with the file that could not be written, and what to do."""
    advice = "what it held before is whole. Make room, and start again"
    return OSError(error.errno, f"{error.strerror}: it was not written, and {advice}", str(path))


def source_files(folder: Path, without: str = "") -> dict[str, os.stat_result]:
    """Return the path and the state of each Python file below a folder, but for subfolders of the name `without`.

    Path.rglob takes seven times as long, and this is done ten times a second while keys of results are made.
    """
    states, folders = {}, [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py") and not entry.name.startswith("."):
                    states[entry.path] = entry.stat()
                elif entry.is_dir(follow_symlinks=False) and entry.name not in ("__pycache__", without):
                    folders.append(entry.path)
    return states
