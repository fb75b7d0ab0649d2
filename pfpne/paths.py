"""Where things are and where they go, and how a file is written whole or not at all."""

import os
import tempfile
from pathlib import Path

ROOT = Path(os.environ.get("PFPNE_ROOT") or Path(__file__).resolve().parent.parent)
DATA = ROOT / "data"
NOTEBOOKS = ROOT / "notebooks"
LANDMINE_TABLE = DATA / "landmine_auc.npz"
RESULTS = ROOT / "results"  # stored runs; git ignores it
EXECUTED = ROOT / "executed"  # executed notebooks; git ignores it
FIGURES = ROOT / "figures"  # the paper profile's
FIGURES_SMOKE = ROOT / "figures-smoke"  # git ignores it
FIGURES_CUSTOM = ROOT / "figures-custom"  # any other parameters; git ignores it


def write_atomically(path: Path, content: bytes) -> Path:
    """Write content to path under a temporary name first, so that a killed process never leaves half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
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
