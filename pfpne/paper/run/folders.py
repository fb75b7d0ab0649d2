"""The folders of the notebooks and of their output, and the MIME type that names the figure in an output."""

from pathlib import Path

from pfpne.paths import INPUT_ROOT, OUTPUT_ROOT

NOTEBOOKS_FOLDER = INPUT_ROOT / "notebooks"
RESULTS_FOLDER = OUTPUT_ROOT / "results"  # stored runs; git ignores it
EXECUTED_FOLDER = OUTPUT_ROOT / "executed"  # executed notebooks; git ignores it
FIGURES_FOLDER = OUTPUT_ROOT / "figures"  # the paper profile's
SMOKE_FIGURES_FOLDER = OUTPUT_ROOT / "figures-smoke"  # git ignores it
CUSTOM_FIGURES_FOLDER = OUTPUT_ROOT / "figures-custom"  # any other parameters; git ignores it
FIGURE_MIME_TYPE = "application/vnd.pfpne.figure+json"  # of the output whose text is the name of the figure shown


def short_path(path: Path) -> Path:
    """Return the path as a person at the project's folder would write it."""
    return path.relative_to(OUTPUT_ROOT) if path.is_relative_to(OUTPUT_ROOT) else path


def read_whole(path: Path) -> bytes:
    """Return the content of a file.

    Raises OSError, at once, if the path is not a plain file, such as a pipe that nobody writes to.
    """
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file: move it away.")
    return path.read_bytes()
