"""Where things are and where they go, and how a file is written whole or not at all."""

import contextlib
import glob
import os
import tempfile
import time
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# data/ and notebooks/ are in the package where it was installed from a wheel, beside it in a checkout.
SHIPPED = PACKAGE if (PACKAGE / "data").is_dir() else PACKAGE.parent
# Where results and figures go: the checkout, else the working folder; PFPNE_ROOT names another.
ROOT = Path(os.environ.get("PFPNE_ROOT") or (Path.cwd() if SHIPPED == PACKAGE else SHIPPED)).absolute()
DATA = ROOT / "data"  # what one adds to it
LANDMINE_TABLE = SHIPPED / "data" / "landmine_auc.npz"
NOTEBOOKS = SHIPPED / "notebooks"
RESULTS = ROOT / "results"  # stored runs; git ignores it
EXECUTED = ROOT / "executed"  # executed notebooks; git ignores it
FIGURES = ROOT / "figures"  # the paper profile's
FIGURES_SMOKE = ROOT / "figures-smoke"  # git ignores it
FIGURES_CUSTOM = ROOT / "figures-custom"  # any other parameters; git ignores it

AN_HOUR = 3600  # seconds: longer than anyone writes a file


def shown(path: Path) -> Path:
    """The path as a person at the project's folder would write it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def read_whole(path: Path) -> bytes:
    """The content of a file; OSError, at once, for what is none, such as a pipe that nobody writes to."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file: move it away.")
    return path.read_bytes()


def write_atomically(path: Path, content: bytes) -> Path:
    """Write content to path under a temporary name first, so that a killed process never leaves half a file."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, and a file has to go there: move it away.")
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):  # by killed processes
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > AN_HOUR:
                left.unlink()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
