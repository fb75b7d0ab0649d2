"""`python -m pfpne.paper figures --profile paper`: execute every notebook, and time each figure.

Executed copies go to executed/<profile>/; the notebooks write the figures. The first failure ends it with a non-zero
exit code; its notebook has then written no figure, and its copy is kept as *.failed.ipynb. A notebook is not
executed again while its text, its parameters, the package, the libraries, the data and its figures are what they were.
"""

import argparse
import hashlib
import json
import logging
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from pfpne.paper import store
from pfpne.paper.claims import TABLE as CLAIMS_TABLE
from pfpne.paper.exhibits import LIBRARIES, MIME
from pfpne.paper.experiment import PROFILES
from pfpne.paper.folders import EXECUTED, NOTEBOOKS, read_whole, shown
from pfpne.paper.parameters import NOTEBOOKS as KNOWN
from pfpne.paper.parameters import ParameterError, complete, executions
from pfpne.paper.tables import update_pages
from pfpne.paper.workers import end_with
from pfpne.paths import LANDMINE_TABLE, ROOT

APART = {"smoke": (), "paper": ("8_regime_map",)}  # what takes an hour is made when it is named
AT_A_TIME = {"smoke": 2, "paper": 1}  # notebooks; the simulations of `paper` use all cores by themselves


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m pfpne.paper", description="Make the figures, the tables, the README.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("figures", help="execute every notebook: all figures and tables")
    make.add_argument("--profile", choices=PROFILES, default="paper")
    who = make.add_mutually_exclusive_group()
    who.add_argument("--n-jobs", type=int, help="simulations at a time; one per processor if not given")
    who.add_argument("--scheduler", help="the address of a Dask scheduler whose workers simulate")
    make.add_argument("--only", choices=KNOWN, help="this notebook alone")
    commands.add_parser("readme", help="write what the files in figures/ say into the README and the pages of docs/")
    args = parser.parse_args(arguments)
    if "MAKELEVEL" in os.environ:
        end_with(os.getppid())  # make, without which nobody waits for this
    code = 0
    if args.command == "figures":
        code = figures(args.profile, {"n_jobs": args.n_jobs, "scheduler": args.scheduler}, args.only)
    has_pages = (ROOT / "docs" / "claims.md").exists()  # a folder of one's own, with an installed wheel, has none
    if code == 0 and (args.command == "readme" or (args.profile == "paper" and has_pages)):
        try:
            update_pages()
        except (OSError, ValueError, KeyError) as error:
            print(f"not all pages could be written: {error}", file=sys.stderr)
            code = 1
    return code


def figures(profile: str, workers: dict | None = None, only: str | None = None) -> int:
    """Execute the profile's notebooks, or one, in order, up to the first that fails; returns the exit code.

    workers: the notebooks' parameters that say who simulates.
    """
    alone = AT_A_TIME[profile] == 1
    logging.getLogger("tornado").setLevel(logging.CRITICAL)  # it reports what papermill raises, or a kernel's end
    os.environ["PFPNE_TERMINAL"] = os.ttyname(2) if alone and sys.stderr.isatty() and hasattr(os, "ttyname") else ""
    os.environ["PFPNE_RUNNER"] = f"{os.getpid()}"
    start = time.perf_counter()
    try:
        EXECUTED.mkdir(parents=True, exist_ok=True)
        # after an error the notebooks under way end, no other begins
        with FileLock(EXECUTED / f"{profile}.lock", timeout=0), ThreadPoolExecutor(AT_A_TIME[profile]) as threads:
            in_order = map if alone else threads.map  # alone, in this thread, which an interrupt reaches at once
            wanted = {only} if only else KNOWN.keys() - APART[profile]
            every = [execution for execution in executions(profile) if execution[0] in wanted]
            print(f"profile {profile}: {len(every)} notebooks to execute, unless nothing has changed", flush=True)
            made = in_order(lambda execution: make_figures(profile, *execution, workers or {}), every)
            for k, lines in enumerate(made, start=1):
                print(*(f"[{k}/{len(every)}] {line}" for line in lines), sep="\n", flush=True)
    except Timeout:
        print(f"profile {profile} is being made already, by another process: wait until it has ended", file=sys.stderr)
        return 1
    except (FailedNotebook, ParameterError, store.SourceChanged, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report nbclient's interrupted task
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    print(f"{time.perf_counter() - start:7.1f} s  in all, profile {profile}")
    return 0


class FailedNotebook(RuntimeError):
    """A notebook stopped with an error; the message says which, why, and where its copy is."""


def make_figures(profile: str, notebook: str, parameters: dict, workers: dict) -> list[str]:
    """Execute one notebook, unless nothing has changed since, and keep its copy; returns a line a figure."""
    given = {"profile": profile, **parameters}
    asked = given | {who: value for who, value in workers.items() if who in KNOWN[notebook].parameters}
    name = "_".join([notebook, *(str(value) for name, value in parameters.items() if name in ("objective", "noise"))])
    source, target = NOTEBOOKS / f"{notebook}.ipynb", EXECUTED / profile / f"{name}.ipynb"
    folder, inputs = complete(notebook, asked).figures_dir, fingerprint(source, given)
    made = made_before(target, inputs, folder)
    if made is not None:
        return [f"unchanged  {shown(folder / stem)}" for stem in made]

    import papermill  # slow, so not before it is needed

    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished, failed = target.with_suffix(".unfinished.ipynb"), target.with_suffix(".failed.ipynb")
    start = time.perf_counter()
    # All of them by name: a value that somebody changed and saved in the notebook itself is not this profile's.
    everything = dict.fromkeys(KNOWN[notebook].parameters) | asked
    try:
        quiet = {"progress_bar": False, "extra_arguments": ["--log-level=CRITICAL"]}
        done = papermill.execute_notebook(source, unfinished, everything, **quiet)
    except papermill.PapermillExecutionError as error:
        unfinished.replace(failed)
        raise FailedNotebook(f"{name} failed: {error.ename}: {error.evalue}\n(all of it: {failed})") from error
    except RuntimeError as error:  # nbclient's, of a kernel that is gone
        raise FailedNotebook(f"{name} failed: its process was killed; was there memory enough? ({error})") from error
    times = figure_times(done, time.perf_counter() - start)
    done.metadata["pfpne"] = {"inputs": inputs, "files": {stem: file_hashes(folder, stem) for stem, _ in times}}
    papermill.iorw.write_ipynb(done, str(unfinished))
    unfinished.replace(target)
    failed.unlink(missing_ok=True)
    return [f"{seconds:7.1f} s  {shown(folder / stem)}" for stem, seconds in times]


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
    """The key of all that a notebook's figures depend on: of what it imports from the package, what that reaches."""
    content = {
        "notebook": _hash(source),
        "parameters": parameters,
        "libraries": {name: version(name) for name in LIBRARIES},
        "data": {path.name: _hash(path) for path in (LANDMINE_TABLE, CLAIMS_TABLE) if path.exists()},
    }
    return store.key(content, *store.roots_of(source))


def _hash(path: Path) -> str:
    return hashlib.sha256(read_whole(path)).hexdigest()


def file_hashes(folder: Path, stem: str) -> dict[str, str]:
    """{name: SHA-256} of a figure's or table's files, its manifest among them."""
    manifest = folder / f"{stem}.json"
    return {name: _hash(folder / name) for name in (*json.loads(read_whole(manifest))["files"], manifest.name)}


def made_before(target: Path, inputs: str, folder: Path) -> list[str] | None:
    """What the executed copy made, if it was of the same inputs and all the files are as it left them; else None."""
    try:
        made = json.loads(read_whole(target))["metadata"]["pfpne"]
        whole = made["files"] and all(file_hashes(folder, stem) == files for stem, files in made["files"].items())
        return list(made["files"]) if whole and made["inputs"] == inputs else None
    except Exception:  # a file is missing or damaged, in whatever way: all of them are made again
        return None


if __name__ == "__main__":
    sys.exit(main())
