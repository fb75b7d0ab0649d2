"""What every test stands on: folders of its own, the notebooks that git knows, one thread per process, no deadline."""

import gc
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Linear algebra on one thread per process: there is one process per core, and small matrices are slower on many
# threads. It is set before joblib loads NumPy; kernels and other children have it, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import joblib
import pytest
from hypothesis import HealthCheck, settings

MEMORY = Path("/dev/shm")  # where Linux keeps files in memory


def holds_folders(memory: Path) -> bool:
    """Whether the tests' folders may be there: it has a gigabyte to spare, and programs can be run from it."""
    if not os.access(memory, os.W_OK):
        return False
    state = os.statvfs(memory)
    return state.f_bavail * state.f_frsize > 2**30 and not state.f_flag & os.ST_NOEXEC


# Tests write, replace and remove thousands of small files; on a disk they wait for it. The slow ones set up whole
# environments, which would fill the memory. A worker has the folder of the process that started it.
IN_MEMORY = "TMPDIR" not in os.environ and holds_folders(MEMORY)

# Whatever a test stores, draws or locks is in a folder of its own, not in the checkout: set before pfpne is loaded.
OWN = tempfile.TemporaryDirectory(prefix="pfpne-tests-", dir=MEMORY if IN_MEMORY else None)
os.environ["PFPNE_ROOT"] = f"{OWN.name}/root"

# jsonschema would build a grammar of international URLs, for two seconds in each process that reads a notebook. None
# needs it. The processes that tests start find a module in its place that cannot be imported.
sys.modules["rfc3987_syntax"] = None
(Path(OWN.name) / "instead").mkdir()
(Path(OWN.name) / "instead" / "rfc3987_syntax.py").write_text("raise ImportError\n")


USUAL_PATH = os.environ.get("PYTHONPATH")


def python_path(*folders: str | Path) -> str:
    """PYTHONPATH of a process that is to find these folders first."""
    return os.pathsep.join(filter(None, (*map(str, folders), f"{OWN.name}/instead", USUAL_PATH)))


os.environ["PYTHONPATH"] = python_path()

# A file need not outlive a power cut here. Tests of what is written when put a function of their own in this place.
os.fsync = lambda file: None

settings.register_profile("pfpne", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
settings.load_profile("pfpne")

# Evaluations of a client by which an algorithm, with three, has communicated twice or more; 60 where none is said.
# An evaluation takes milliseconds where they are few.
HORIZONS = {"fed1-ucb": 4_000, "fn-ucb": 12, "gp": 14, "gp-shared": 14}


# The files that take longest come first: the last ones are short, so that no worker waits for another at the end.
LONGEST = (
    *("notebooks", "compiled", "batch", "contract", "tuning", "live", "fn_ucb", "pf_pne_plus", "listing"),
    *("experiment", "developing", "recovery", "walkthrough", "saving", "hct", "pyxab", "secure", "simulate"),
    *("claims", "parameters", "deviations", "regimes", "problems"),
)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which may be switched off
def pytest_xdist_auto_num_workers() -> int:
    """One more worker than this process may use processors, at most four: some tests wait for other processes."""
    return min(4, 1 + joblib.cpu_count())


def in_git(*arguments: str) -> subprocess.CompletedProcess:
    from pfpne.paths import INPUT_ROOT

    return subprocess.run(["git", "-C", str(INPUT_ROOT), *arguments], capture_output=True, text=True)


def keep_compiled_code(package: Path) -> None:
    """Give a copy of the package what Numba keeps of the package itself: to compile all again takes most of the time.

    It is kept in folders that Numba names after their paths. Numba does not use it for a file that was edited.
    """
    from pfpne import compiled

    folder = package / "__pycache__" / "pfpne-compiled" / compiled.source_digest(package)
    for kept in compiled.COMPILED_FOLDER.iterdir():
        room = kept.name.partition("_")[0]
        shutil.copytree(kept, folder / f"{room}_{hashlib.sha1(str(package / room).encode()).hexdigest()}")


def changed_notebooks() -> list[str]:
    """The notebooks that differ from those in git's index; none where there is no git."""
    try:
        listed = in_git("diff", "--name-only", "-z", "--relative", "--", "notebooks")
    except OSError:
        return []
    return listed.stdout.split("\0")[:-1] if listed.returncode == 0 else []


def pytest_configure(config) -> None:
    """Let the tests read the notebooks that git knows: to save one with other values is no reason to fail.

    Without the slow tests, temporary folders are made in memory, also by the processes that tests start.
    """
    if IN_MEMORY and config.option.markexpr == "not slow":
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    if changed_notebooks():
        from pfpne.paper.run import folders

        names = in_git("ls-files", "-z", "--", "notebooks").stdout.split("\0")[:-1]
        in_git("checkout-index", f"--prefix={OWN.name}/", "--", *names).check_returncode()
        folders.NOTEBOOKS_FOLDER = Path(OWN.name) / "notebooks"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let Python look for garbage only in what comes later: what is imported here stays. It saves seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items) -> None:
    rank = {f"test_{name}": i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))  # stable: within a file nothing changes


def pytest_terminal_summary(terminalreporter) -> None:
    if names := changed_notebooks():
        terminalreporter.write_line(
            f"You changed a notebook ({', '.join(names)}), and the tests read it as it was before: "
            "`git checkout notebooks` undoes the change, `git add notebooks` has it tested."
        )
