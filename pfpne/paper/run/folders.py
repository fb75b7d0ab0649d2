"""The folders of the notebooks and of their output, and the MIME type that names the figure in an output."""

from pathlib import Path

from pfpne.paths import ROOT, SHIPPED

NOTEBOOKS_FOLDER = SHIPPED / "notebooks"
RESULTS = ROOT / "results"  # stored runs; git ignores it
EXECUTED = ROOT / "executed"  # executed notebooks; git ignores it
FIGURES = ROOT / "figures"  # the paper profile's
FIGURES_SMOKE = ROOT / "figures-smoke"  # git ignores it
FIGURES_CUSTOM = ROOT / "figures-custom"  # any other parameters; git ignores it
MIME = "application/vnd.pfpne.figure+json"  # of the output whose text is the name of the figure shown


def short_path(path: Path) -> Path:
    """Return the path as a person at the project's folder would write it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def read_whole(path: Path) -> bytes:
    """Return the content of a file.

    Raises OSError, at once, if the path is not a plain file, such as a pipe that nobody writes to.
    """
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file: move it away.")
    return path.read_bytes()
