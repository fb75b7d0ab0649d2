"""Execute notebooks with papermill, time each figure, and skip unchanged notebooks.

Executed copies go to executed/<profile>/; the notebooks write the figures. The first failure ends the batch with a
non-zero exit code. The failed notebook has then written no figure, and its copy is kept as *.failed.ipynb. A notebook
is executed again only if its text, its parameters, the package, the libraries, the data or its figures have changed.
"""

import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from pfpne.paper.run import cache, provenance, sources
from pfpne.paper.run.folders import (
    EXECUTED_FOLDER,
    FIGURE_MIME_TYPE,
    FIGURES_FOLDER,
    NOTEBOOKS_FOLDER,
    SMOKE_FIGURES_FOLDER,
    read_whole,
    short_path,
)
from pfpne.paper.run.notebooks import NOTEBOOKS, executions, group_of
from pfpne.paper.run.parameter_types import ParameterError
from pfpne.paper.run.parameters import HEADER, complete
from pfpne.paper.run.versions import library_versions
from pfpne.paper.run.workers import processors
from pfpne.paths import LANDMINE_TABLE, PACKAGE_FOLDER

TOML_FILES = sorted((PACKAGE_FOLDER / "paper").rglob("*.toml"))  # claims and statements, which the figures depend on
NOTEBOOKS_AT_A_TIME = {"smoke": 2, "paper": 1}  # notebooks; the simulations of `paper` use all cores by themselves
KERNEL_TIMEOUT = 600  # seconds that a kernel may owe an answer: another process may have the processors
FIRST_FIGURE = "panel_main_printed.png"  # what to look at first


class FailedNotebook(RuntimeError):
    """A notebook stopped with an error; the message says which, why, and where its copy is."""


class DamagedNotebook(ValueError):
    """A file is no notebook that can be executed with parameters; the message says why and what to do."""


@dataclass(frozen=True)
class Execution:
    """One execution of a notebook.

    Parameters
    ----------
    profile, notebook : str
        The names of both.
    parameters : dict
        The notebook's other parameters that decide a result.
    workers : dict
        Those that say who simulates.
    """

    profile: str
    notebook: str
    parameters: dict
    workers: dict = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The notebook, and what tells this execution from its others."""
        values = [f"{value}" for name, value in self.parameters.items() if name in ("reading", "objective", "noise")]
        return "_".join([self.notebook, *values])

    @property
    def source(self) -> Path:
        """The notebook's file."""
        return NOTEBOOKS_FOLDER / f"{self.notebook}.ipynb"

    @property
    def target(self) -> Path:
        """Where the executed copy goes."""
        return EXECUTED_FOLDER / self.profile / f"{self.name}.ipynb"

    @property
    def given(self) -> dict:
        """The parameters that the notebook is given."""
        workers = {name: value for name, value in self.workers.items() if name in NOTEBOOKS[self.notebook].parameters}
        return {"profile": self.profile, **self.parameters, **workers}

    @property
    def folder(self) -> Path:
        """Where the figures go."""
        return complete(self.notebook, self.given).figures_dir

    @property
    def inputs(self) -> str:
        """The key of all that the figures depend on."""
        return fingerprint(self.source, {"profile": self.profile, **self.parameters})

    @property
    def expected_seconds(self) -> float | None:
        """How long the execution took the last time, or else as measured once; None if neither is known."""
        try:
            return float(json.loads(read_whole(self.target))["metadata"]["papermill"]["duration"])
        except Exception:  # there is none, or it is damaged, in whatever way
            return NOTEBOOKS[self.notebook].seconds if self.profile == "smoke" else None


# --- a batch ----------------------------------------------------------------------------------------


def run_batch(profile: str, workers: dict | None = None, only: str | None = None, group: str = "all") -> int:
    """Execute the notebooks of a group, or one, up to the first that fails.

    Parameters
    ----------
    profile : str
        Of PROFILES.
    workers : dict, optional
        The notebooks' parameters that say who simulates: n_jobs or scheduler.
    only : str, optional
        One notebook.
    group : str
        Of NOTEBOOK_GROUPS, if it is not one notebook.

    Returns
    -------
    int
        The exit code: 0, or 1 after a failure, 130 after an interrupt. What went wrong is printed.
    """
    n_parallel = min(NOTEBOOKS_AT_A_TIME[profile], processors())
    logging.getLogger("tornado").setLevel(logging.CRITICAL)  # it reports what papermill raises, or a kernel's end
    shows_progress = n_parallel == 1 and sys.stderr.isatty() and hasattr(os, "ttyname")
    os.environ["PFPNE_TERMINAL"] = os.ttyname(2) if shows_progress else ""
    os.environ["PFPNE_RUNNER"] = f"{os.getpid()}"
    start = time.perf_counter()
    try:
        EXECUTED_FOLDER.mkdir(parents=True, exist_ok=True)
        with FileLock(EXECUTED_FOLDER / f"{profile}.lock", timeout=0):
            for leftover in (EXECUTED_FOLDER / profile).glob("*.unfinished.ipynb"):  # by a batch that was killed
                leftover.unlink()
            planned = executions(profile)
            if only:
                planned = [row for row in planned if row[0] == only]
            elif group != "all":
                planned = [row for row in planned if group_of(*row) == group]
            batch = [Execution(profile, *row, workers or {}) for row in planned]
            committed = commit_or_reason()
            execute_all(batch, n_parallel)
            if profile == "paper" and only is None:
                note_commit(committed, workers or {})
    except Timeout:
        print(f"profile {profile} is being made already, by another process: wait until it has ended", file=sys.stderr)
        return 1
    except (FailedNotebook, DamagedNotebook, ParameterError, sources.SourceChanged, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report nbclient's interrupted task
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    print(f"{time.perf_counter() - start:7.1f} s  in all, profile {profile}")
    folder = FIGURES_FOLDER if profile == "paper" else SMOKE_FIGURES_FOLDER
    first_figure = f"; open {short_path(folder / FIRST_FIGURE)} first" if (folder / FIRST_FIGURE).exists() else ""
    copies = short_path(EXECUTED_FOLDER / profile)
    print(f"Figures and tables are in {short_path(folder)}/{first_figure}. Executed notebooks are in {copies}/.")
    return 0


def execute_all(batch: list[Execution], n_parallel: int) -> None:
    """Execute each changed notebook, `n_parallel` at a time, and print which are running, done and left.

    Several at a time start with the longest, so that no long one is left at the end; one at a time keep their order. If
    a notebook raises an error, the running ones finish, and no other begins.
    """
    waiting, n_done = [], 0
    for execution in batch:
        check_notebook(execution.source)
    for execution in batch:
        if is_unchanged(execution):
            n_done += 1
            print(f"[{n_done}/{len(batch)}] unchanged  {execution.name}", flush=True)
        else:
            waiting.append(execution)
    expected = {execution.name: execution.expected_seconds for execution in waiting}
    if n_parallel > 1:
        waiting.sort(key=lambda execution: -(expected[execution.name] or 0.0))
    print(f"profile {batch[0].profile}: {len(waiting)} of {len(batch)} notebooks to execute", flush=True)
    actual, started, under_way = {}, {}, {}  # seconds by name; when each started; {future: name}
    with ThreadPoolExecutor(n_parallel) as threads:
        # One at a time is executed in this thread, which an interrupt reaches at once.
        submit = threads.submit if n_parallel > 1 else _call_now
        while waiting or under_way:
            while waiting and len(under_way) < n_parallel:
                execution = waiting.pop(0)
                started[execution.name] = time.perf_counter()
                names = ", ".join([*under_way.values(), execution.name])
                if n_parallel == 1 or not waiting or len(under_way) + 1 == n_parallel:
                    print(f"now: {names}{say_time_left(expected, actual, started, n_parallel)}", flush=True)
                under_way[submit(make_figures, execution)] = execution.name
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                name = under_way.pop(future)
                lines = future.result()
                actual[name] = time.perf_counter() - started.pop(name)
                n_done += 1
                print(*(f"[{n_done}/{len(batch)}] {line}" for line in lines), sep="\n", flush=True)


def _call_now(function: Callable, *arguments) -> Future:
    future = Future()
    future.set_result(function(*arguments))
    return future


def say_time_left(expected: dict, actual: dict, started: dict, n_parallel: int) -> str:
    """Say about how long the batch still takes, or nothing if the expected time of a remaining notebook is not known.

    The remaining notebooks are assumed to be slower or faster than expected by the same factor as the finished ones.

    Parameters
    ----------
    expected, actual : dict
        Seconds by name: expected for all notebooks, actual for the finished ones.
    started : dict
        The start times of the running notebooks.
    n_parallel : int
        How many notebooks are executed at a time.
    """
    remaining = {name: seconds for name, seconds in expected.items() if name not in actual}
    if None in remaining.values():
        return ""
    known = [name for name in actual if expected[name]]
    pace = sum(actual[name] for name in known) / sum(expected[name] for name in known) if known else 1.0
    now = time.perf_counter()
    seconds = [max(pace * remaining[name] - (now - started.get(name, now)), 0.0) for name in remaining]
    total = max(sum(seconds) / n_parallel, *seconds)
    return f" (about {total / 60:.0f} min left)" if total >= 60 else " (less than a minute left)"


def commit_or_reason() -> tuple[str | None, str]:
    """Return (the commit of this checkout, ""), or (None, the reason why no commit can be named)."""
    try:
        return provenance.commit(), ""
    except provenance.NoCommit as error:
        return None, f"{error}"


def note_commit(committed: tuple[str | None, str], workers: dict) -> None:
    """Write which commit made a whole batch of the paper profile, if the tree was clean throughout.

    Skipped executions are recorded under this commit, too, if they are unchanged.
    """
    commit, reason = committed if committed == commit_or_reason() else (None, "another commit is checked out by now")
    if commit is None:
        print(f"{short_path(provenance.PATH)} is left as it was, without this batch: {reason}.")
        return
    batch = [Execution("paper", *row, workers) for row in executions("paper")]
    unchanged = filter(is_unchanged, batch)
    digests = {execution.name: provenance.digest(execution.notebook, execution.parameters) for execution in unchanged}
    provenance.write(commit, digests)
    print(f"{short_path(provenance.PATH)} says that commit {commit[:10]} made them.")


# --- one notebook -----------------------------------------------------------------------------------


def check_notebook(source: Path) -> None:
    """Raise DamagedNotebook unless the file is a notebook whose code can be read and whose parameters can be given."""
    try:
        cells = json.loads(read_whole(source).decode("utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        sources.imported_by(source)
        tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
        if len(tagged) != 1 or not tagged[0].startswith(HEADER) or code.index(tagged[0]) > 0:
            raise ValueError("its first code cell must have the tag `parameters`, and no other cell may have it")
    except (ValueError, LookupError, TypeError, AttributeError, SyntaxError, RecursionError) as error:
        place = short_path(source)
        raise DamagedNotebook(
            f"{place} is no notebook that can be executed ({type(error).__name__}: {error}): "
            f"mend it, or bring it back with `git checkout {place}`."
        ) from None


def make_figures(execution: Execution) -> list[str]:
    """Execute one notebook and keep its copy.

    Returns
    -------
    list of str
        One line per figure: how long it took, and where it is.

    Raises
    ------
    FailedNotebook
        If the notebook raises an error, or its process ends.
    """
    import papermill  # slow, so not before it is needed
    from nbclient.exceptions import DeadKernelError

    name, source, target, folder = execution.name, execution.source, execution.target, execution.folder
    inputs = execution.inputs
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished, failed = target.with_suffix(".unfinished.ipynb"), target.with_suffix(".failed.ipynb")
    start = time.perf_counter()
    # All of them by name: a value that somebody changed and saved in the notebook itself is not this profile's.
    parameters = dict.fromkeys(NOTEBOOKS[execution.notebook].parameters) | execution.given
    quiet = {"progress_bar": False, "extra_arguments": ["--log-level=CRITICAL"]}
    patient = {"start_timeout": KERNEL_TIMEOUT, "iopub_timeout": KERNEL_TIMEOUT}
    try:
        copy = papermill.execute_notebook(source, unfinished, parameters, **quiet, **patient)
        times = figure_times(copy, time.perf_counter() - start)
        copy.metadata["pfpne"] = {"inputs": inputs, "files": {stem: file_hashes(folder, stem) for stem, _ in times}}
        _keep_copy(copy, source, unfinished, target)
    except papermill.PapermillExecutionError as error:
        _keep_copy(papermill.iorw.load_notebook_node(str(unfinished)), source, unfinished, failed)
        raise FailedNotebook(f"{name} failed: {error.ename}: {error.evalue}\n(all of it: {failed})") from error
    except (RuntimeError, TimeoutError) as error:  # nbclient's
        killed = "its process was killed; was there memory enough? " if isinstance(error, DeadKernelError) else ""
        raise FailedNotebook(f"{name} failed: {killed}({error})") from error
    finally:
        unfinished.unlink(missing_ok=True)
    failed.unlink(missing_ok=True)
    return [f"{seconds:7.1f} s  {short_path(folder / stem)}" for stem, seconds in times]


def _keep_copy(copy, source: Path, unfinished: Path, path: Path) -> None:
    """Keep the executed copy at the path, with no path of this machine in what papermill wrote about it."""
    import papermill

    paths = {
        "input_path": source.relative_to(NOTEBOOKS_FOLDER.parent),
        "output_path": path.relative_to(EXECUTED_FOLDER.parent),
    }
    copy.metadata.papermill.update({name: path.as_posix() for name, path in paths.items()})
    papermill.iorw.write_ipynb(copy, str(unfinished))
    unfinished.replace(path)


def figure_times(copy, total: float) -> list[tuple[str, float]]:
    """Return (figure, seconds) for each figure or table that an executed copy shows.

    The time of a figure is the time since the figure before it. The rest of the `total` seconds, in which the kernel
    started and ended, counts for the first figure.
    """
    times, elapsed = [], 0.0
    for cell in copy.cells:
        elapsed += cell.metadata.get("papermill", {}).get("duration") or 0.0
        figures = [
            output["data"][FIGURE_MIME_TYPE]
            for output in cell.get("outputs", [])
            if FIGURE_MIME_TYPE in output.get("data", {})
        ]
        times += [(figure, elapsed / len(figures)) for figure in figures]
        elapsed = 0.0 if figures else elapsed
    rest = total - sum(seconds for _, seconds in times)
    return [(figure, seconds + (0.0 if i else rest)) for i, (figure, seconds) in enumerate(times)]


# --- what has not changed ---------------------------------------------------------------------------


def fingerprint(source: Path, parameters: dict) -> str:
    """Return the key of everything that a notebook's figures depend on, such as the modules that its cells import."""
    content = {
        "notebook": _hash(source),
        "parameters": parameters,
        "package": sources.source_hash(sources.imported_by(source), follow_all=True),
        "libraries": library_versions(),
        "data": {path.name: _hash(path) for path in (LANDMINE_TABLE, *TOML_FILES)},
    }
    return cache.key(content)


def _hash(path: Path) -> str:
    return hashlib.sha256(read_whole(path)).hexdigest()


def file_hashes(folder: Path, stem: str) -> dict[str, str]:
    """Return {name: SHA-256} of a figure's or table's files, its manifest among them."""
    manifest = folder / f"{stem}.json"
    return {name: _hash(folder / name) for name in (*json.loads(read_whole(manifest))["files"], manifest.name)}


def is_unchanged(execution: Execution) -> bool:
    """Return whether the executed copy has the same inputs, and none of the files that it made has changed."""
    try:
        made = json.loads(read_whole(execution.target))["metadata"]["pfpne"]
        intact = all(file_hashes(execution.folder, stem) == files for stem, files in made["files"].items())
        return bool(made["files"]) and intact and made["inputs"] == execution.inputs
    except Exception:  # a file is missing or damaged, in whatever way: all of them are made again
        return False
