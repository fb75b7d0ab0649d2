"""figures/PROVENANCE.json: the commit that made the figures, and a digest of everything that their numbers depend on.

The file holds {"python": version, "commits": {commit: {execution: digest}}}, usually with one commit for all. The
regime map may have an older commit, because a batch leaves it out unless it is named.
"""

import hashlib
import json
import platform
import subprocess
from pathlib import Path

from pfpne.paper.run import sources
from pfpne.paper.run.folders import FIGURES_FOLDER, NOTEBOOKS_FOLDER, read_whole
from pfpne.paper.run.parameters import EXPERIMENT_PARAMETERS, complete
from pfpne.paths import LANDMINE_TABLE, OUTPUT_ROOT, write_atomically

PATH = FIGURES_FOLDER / "PROVENANCE.json"
MADE_FROM = ("pfpne", "notebooks", "data")  # the figures depend on these folders; other files may be edited
# Modules that decide no number: they draw and write the results of other modules, read parameters, or keep files.
WITHOUT_NUMBERS = {"pfpne.validation", "pfpne.paths", "pfpne.live.states"} | {
    f"pfpne.paper.{name}"
    for name in (
        *("exhibits.communication", "exhibits.findings", "exhibits.landmine", "exhibits.maps", "exhibits.pages"),
        *("exhibits.panels", "exhibits.regret", "exhibits.verdict_tables", "show.export", "show.plot", "show.style"),
        *("run.cache", "run.parameter_types", "run.destinations", "run.folders", "run.notebooks", "run.parameters"),
        *("run.progress", "run.rows", "run.sources", "run.versions", "run.workers"),
    )
}


class NoCommit(RuntimeError):
    """No commit can be named; the message says why."""


def commit(root: Path = OUTPUT_ROOT) -> str:
    """Return the commit of the checkout at this folder. Raises NoCommit if a file of MADE_FROM differs from it."""

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise NoCommit("this folder is no git checkout") from None
        return done.stdout

    edited = git("status", "--porcelain", "--untracked-files=all", "--", *MADE_FROM).splitlines()
    if edited:
        raise NoCommit(f"{edited[0][3:]} is not as it was committed: commit it, then run again")
    return git("rev-parse", "HEAD").strip()


def digest(notebook: str, parameters: dict) -> str:
    """Return the SHA-256 of everything that an execution's numbers depend on: its parameters, the data and the code.

    Unlike a result's key, it depends neither on versions of libraries nor on the machine. A module that lists runs
    counts as code.
    """
    p = complete(notebook, {"profile": "paper", **parameters})
    imported = frozenset(sources.imported_by(NOTEBOOKS_FOLDER / f"{notebook}.ipynb"))
    hashes = sources.LOADED.reached(imported, follow_all=True)
    code = {name: hashes[name] for name in hashes if name not in WITHOUT_NUMBERS}
    data = hashlib.sha256(read_whole(LANDMINE_TABLE)).hexdigest()
    deciding = {name: getattr(p, name) for name in (*EXPERIMENT_PARAMETERS, "settings")}
    content = json.dumps([deciding, code, data], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def read() -> dict:
    """Return {"python": version, "commits": {commit: {execution: digest}}}; None and {} if there is no file."""
    if not PATH.exists():
        return {"python": None, "commits": {}}
    return json.loads(read_whole(PATH))


def write(made_by: str, digests: dict[str, str]) -> None:
    """Record that this commit made these executions; other executions keep their commits."""
    commits = {made_by: {}, **read()["commits"]}
    for made in commits.values():
        for name in digests:
            made.pop(name, None)
    commits[made_by] = dict(sorted({**commits[made_by], **digests}.items()))
    content = {"python": python_version(), "commits": {old: made for old, made in commits.items() if made}}
    write_atomically(PATH, f"{json.dumps(content, indent=2)}\n".encode())


def python_version() -> str:
    """Return the version of Python without its last part; digests may differ between versions."""
    return ".".join(platform.python_version_tuple()[:2])
