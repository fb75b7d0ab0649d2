"""Execute notebooks with papermill, time each figure, and leave out what has not changed.

Executed copies go to executed/<profile>/; the notebooks write the figures. The first failure ends it with a non-zero
exit code; its notebook has then written no figure, and its copy is kept as *.failed.ipynb. A notebook is not
executed again while its text, its parameters, the package, the libraries, the data and its figures are what they were.
"""

import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from filelock import FileLock, Timeout

from pfpne.paper.run import cache, provenance, sources
from pfpne.paper.run.declarations import ParameterError
from pfpne.paper.run.folders import EXECUTED, FIGURES, FIGURES_SMOKE, MIME, NOTEBOOKS, read_whole, shown
from pfpne.paper.run.notebooks import GROUPS, executions
from pfpne.paper.run.notebooks import NOTEBOOKS as KNOWN
from pfpne.paper.run.parameters import HEADER, complete
from pfpne.paper.run.versions import library_versions
from pfpne.paper.run.workers import processors
from pfpne.paths import LANDMINE_TABLE, PACKAGE

TABLES = sorted((PACKAGE / "paper").rglob("*.toml"))  # claims and statements, which the figures depend on
AT_A_TIME = {"smoke": 2, "paper": 1}  # notebooks; the simulations of `paper` use all cores by themselves
PATIENCE = 600  # seconds that a kernel may be silent where it owes an answer: another process may have the processors
FIRST = "panel_main_printed.png"  # of what is made, what to look at first


def figures(profile: str, workers: dict | None = None, only: str | None = None, group: str = "all") -> int:
    """Execute the notebooks of a group, or one, up to the first that fails; returns the exit code.

    workers: the notebooks' parameters that say who simulates. group: of GROUPS.
    """
    lanes = min(AT_A_TIME[profile], processors())
    logging.getLogger("tornado").setLevel(logging.CRITICAL)  # it reports what papermill raises, or a kernel's end
    bar = lanes == 1 and sys.stderr.isatty() and hasattr(os, "ttyname")
    os.environ["PFPNE_TERMINAL"] = os.ttyname(2) if bar else ""
    os.environ["PFPNE_RUNNER"] = f"{os.getpid()}"
    start = time.perf_counter()
    try:
        EXECUTED.mkdir(parents=True, exist_ok=True)
        with FileLock(EXECUTED / f"{profile}.lock", timeout=0):
            for left in (EXECUTED / profile).glob("*.unfinished.ipynb"):  # by a batch that was killed
                left.unlink()
            wanted = {only} if only else GROUPS[group]
            every = [execution for execution in executions(profile) if execution[0] in wanted]
            committed = commit_or_reason()
            execute_all(profile, every, workers or {}, lanes)
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
    folder = FIGURES if profile == "paper" else FIGURES_SMOKE
    first = f"; open {shown(folder / FIRST)} first" if (folder / FIRST).exists() else ""
    print(f"Figures and tables are in {shown(folder)}/{first}. Executed notebooks are in {shown(EXECUTED / profile)}/.")
    return 0


class FailedNotebook(RuntimeError):
    """A notebook stopped with an error; the message says which, why, and where its copy is."""


class DamagedNotebook(ValueError):
    """A file is no notebook that can be executed with parameters; the message says why and what to do."""


def execute_all(profile: str, every: list[tuple[str, dict]], workers: dict, lanes: int) -> None:
    """Execute each notebook that has changed, `lanes` at a time, and print what is under way, done, and left.

    Several at a time start with the longest, so that none is left alone at the end. One at a time keep their order. If
    one raises an error, those under way end, and no other begins.
    """
    waiting, n_done = [], 0
    for execution in every:
        check_notebook(NOTEBOOKS / f"{execution[0]}.ipynb")
    for execution in every:
        if is_unchanged(profile, *execution, workers):
            n_done += 1
            print(f"[{n_done}/{len(every)}] unchanged  {name_of(*execution)}", flush=True)
        else:
            waiting.append(execution)
    expected = {name_of(*execution): expected_seconds(profile, *execution) for execution in waiting}
    if lanes > 1:
        waiting.sort(key=lambda execution: -(expected[name_of(*execution)] or 0.0))
    print(f"profile {profile}: {len(waiting)} of {len(every)} notebooks to execute", flush=True)
    actual, begun, under_way = {}, {}, {}  # seconds by name; when each began; {future: name}
    with ThreadPoolExecutor(lanes) as threads:
        # One at a time is executed in this thread, which an interrupt reaches at once.
        submit = threads.submit if lanes > 1 else _done_here
        while waiting or under_way:
            while waiting and len(under_way) < lanes:
                execution = waiting.pop(0)
                name = name_of(*execution)
                begun[name] = time.perf_counter()
                names = ", ".join([*under_way.values(), name])
                if lanes == 1 or not waiting or len(under_way) + 1 == lanes:
                    print(f"now: {names}{left_in_words(expected, actual, begun, lanes)}", flush=True)
                under_way[submit(make_figures, profile, *execution, workers)] = name
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                name = under_way.pop(future)
                lines = future.result()
                actual[name] = time.perf_counter() - begun.pop(name)
                n_done += 1
                print(*(f"[{n_done}/{len(every)}] {line}" for line in lines), sep="\n", flush=True)


def commit_or_reason() -> tuple[str | None, str]:
    """The commit of this checkout, and nothing; or None, and why there is none to name."""
    try:
        return provenance.commit(), ""
    except provenance.NoCommit as error:
        return None, f"{error}"


def note_commit(committed: tuple[str | None, str], workers: dict) -> None:
    """After a whole batch of the paper profile, write which commit made it, if the tree was clean from begin to end.

    What the batch left out is noted with it if it, too, is what this commit makes.
    """
    made_by, reason = committed if committed == commit_or_reason() else (None, "another commit is checked out by now")
    if made_by is None:
        print(f"{shown(provenance.PATH)} is left as it was, without this batch: {reason}.")
        return
    whole = [execution for execution in executions("paper") if is_unchanged("paper", *execution, workers)]
    provenance.write(made_by, {name_of(*execution): provenance.digest(*execution) for execution in whole})
    print(f"{shown(provenance.PATH)} says that commit {made_by[:10]} made them.")


def _done_here(function: Callable, *arguments) -> Future:
    future = Future()
    future.set_result(function(*arguments))
    return future


def left_in_words(expected: dict, actual: dict, begun: dict, lanes: int) -> str:
    """About how long the batch still takes, or nothing if that is not known of every notebook that is left.

    expected, actual: seconds by name, of all notebooks to execute and of those that are done. begun: when those under
    way began. What is left is as much slower or faster than expected as what is done.
    """
    left = {name: seconds for name, seconds in expected.items() if name not in actual}
    if None in left.values():
        return ""
    known = [name for name in actual if expected[name]]
    pace = sum(actual[name] for name in known) / sum(expected[name] for name in known) if known else 1.0
    now = time.perf_counter()
    seconds = [max(pace * left[name] - (now - begun.get(name, now)), 0.0) for name in left]
    total = max(sum(seconds) / lanes, *seconds)
    return f" (about {total / 60:.0f} min left)" if total >= 60 else " (less than a minute left)"


def expected_seconds(profile: str, notebook: str, parameters: dict) -> float | None:
    """How long the execution took the last time, or else as measured once; None if neither is known."""
    try:
        copy = json.loads(read_whole(target_of(profile, notebook, parameters)))
        return float(copy["metadata"]["papermill"]["duration"])
    except Exception:  # there is none, or it is damaged, in whatever way
        return KNOWN[notebook].seconds if profile == "smoke" else None


def name_of(notebook: str, parameters: dict) -> str:
    """What an execution is called: its notebook, and what tells it from others of that."""
    telling = [f"{value}" for name, value in parameters.items() if name in ("reading", "objective", "noise")]
    return "_".join([notebook, *telling])


def target_of(profile: str, notebook: str, parameters: dict) -> Path:
    """Where the executed copy goes."""
    return EXECUTED / profile / f"{name_of(notebook, parameters)}.ipynb"


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
        place = shown(source)
        raise DamagedNotebook(
            f"{place} is no notebook that can be executed ({type(error).__name__}: {error}): "
            f"mend it, or bring it back with `git checkout {place}`."
        ) from None


def make_figures(profile: str, notebook: str, parameters: dict, workers: dict) -> list[str]:
    """Execute one notebook and keep its copy; returns a line per figure."""
    import papermill  # slow, so not before it is needed
    from nbclient.exceptions import DeadKernelError

    name, source = name_of(notebook, parameters), NOTEBOOKS / f"{notebook}.ipynb"
    target, asked, folder = _plan(profile, notebook, parameters, workers)
    inputs = fingerprint(source, {"profile": profile, **parameters})
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished, failed = target.with_suffix(".unfinished.ipynb"), target.with_suffix(".failed.ipynb")
    start = time.perf_counter()
    # All of them by name: a value that somebody changed and saved in the notebook itself is not this profile's.
    everything = dict.fromkeys(KNOWN[notebook].parameters) | asked
    quiet = {"progress_bar": False, "extra_arguments": ["--log-level=CRITICAL"]}
    patient = {"start_timeout": PATIENCE, "iopub_timeout": PATIENCE}
    try:
        done = papermill.execute_notebook(source, unfinished, everything, **quiet, **patient)
        times = figure_times(done, time.perf_counter() - start)
        done.metadata["pfpne"] = {"inputs": inputs, "files": {stem: file_hashes(folder, stem) for stem, _ in times}}
        _keep(done, source, unfinished, target)
    except papermill.PapermillExecutionError as error:
        _keep(papermill.iorw.load_notebook_node(str(unfinished)), source, unfinished, failed)
        raise FailedNotebook(f"{name} failed: {error.ename}: {error.evalue}\n(all of it: {failed})") from error
    except (RuntimeError, TimeoutError) as error:  # nbclient's
        killed = "its process was killed; was there memory enough? " if isinstance(error, DeadKernelError) else ""
        raise FailedNotebook(f"{name} failed: {killed}({error})") from error
    finally:
        unfinished.unlink(missing_ok=True)
    failed.unlink(missing_ok=True)
    return [f"{seconds:7.1f} s  {shown(folder / stem)}" for stem, seconds in times]


def _plan(profile: str, notebook: str, parameters: dict, workers: dict) -> tuple[Path, dict, Path]:
    """Where the executed copy goes, the parameters that the notebook is given, and where its figures go."""
    who = {name: value for name, value in workers.items() if name in KNOWN[notebook].parameters}
    asked = {"profile": profile, **parameters, **who}
    return target_of(profile, notebook, parameters), asked, complete(notebook, asked).figures_dir


def _keep(notebook, source: Path, unfinished: Path, path: Path) -> None:
    """Keep the executed notebook at the path, with no path of this machine in what papermill wrote about it."""
    import papermill

    paths = {"input_path": source.relative_to(NOTEBOOKS.parent), "output_path": path.relative_to(EXECUTED.parent)}
    notebook.metadata.papermill.update({name: path.as_posix() for name, path in paths.items()})
    papermill.iorw.write_ipynb(notebook, str(unfinished))
    unfinished.replace(path)


def figure_times(notebook, total: float) -> list[tuple[str, float]]:
    """(figure, seconds) for each figure or table shown: the time since the ones before, `total` seconds in all."""
    times, elapsed = [], 0.0
    for cell in notebook.cells:
        elapsed += cell.metadata.get("papermill", {}).get("duration") or 0.0
        shown = [output["data"][MIME] for output in cell.get("outputs", []) if MIME in output.get("data", {})]
        times += [(figure, elapsed / len(shown)) for figure in shown]
        elapsed = 0.0 if shown else elapsed
    around = total - sum(seconds for _, seconds in times)  # the kernel's start and end
    return [(figure, seconds + (0.0 if i else around)) for i, (figure, seconds) in enumerate(times)]


def fingerprint(source: Path, parameters: dict) -> str:
    """Return the key of all that a notebook's figures depend on: among it the package, as far as the cells reach it."""
    content = {
        "notebook": _hash(source),
        "parameters": parameters,
        "package": sources.source_hash(sources.imported_by(source), whole=True),
        "libraries": library_versions(),
        "data": {path.name: _hash(path) for path in (LANDMINE_TABLE, *TABLES)},
    }
    return cache.key(content)


def _hash(path: Path) -> str:
    return hashlib.sha256(read_whole(path)).hexdigest()


def file_hashes(folder: Path, stem: str) -> dict[str, str]:
    """{name: SHA-256} of a figure's or table's files, its manifest among them."""
    manifest = folder / f"{stem}.json"
    return {name: _hash(folder / name) for name in (*json.loads(read_whole(manifest))["files"], manifest.name)}


def is_unchanged(profile: str, notebook: str, parameters: dict, workers: dict) -> bool:
    """Whether the executed copy is of the same inputs, and all the files that it made are as it left them."""
    target, _, folder = _plan(profile, notebook, parameters, workers)
    inputs = fingerprint(NOTEBOOKS / f"{notebook}.ipynb", {"profile": profile, **parameters})
    return made_before(target, inputs, folder) is not None


def made_before(target: Path, inputs: str, folder: Path) -> list[str] | None:
    """What the executed copy made, if it was of the same inputs and all the files are as it left them; else None."""
    try:
        made = json.loads(read_whole(target))["metadata"]["pfpne"]
        whole = made["files"] and all(file_hashes(folder, stem) == files for stem, files in made["files"].items())
        return list(made["files"]) if whole and made["inputs"] == inputs else None
    except Exception:  # a file is missing or damaged, in whatever way: all of them are made again
        return None
