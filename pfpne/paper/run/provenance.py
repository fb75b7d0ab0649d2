"""figures/PROVENANCE.json: the commit that made the figures, and a digest of what the numbers in them depend on.

The file holds {"python": version, "commits": {commit: {execution: digest}}}: most often one commit that made all. The
regime map, which a batch leaves out unless it is named, may stand under an older one.
"""

import hashlib
import json
import platform
import subprocess
from pathlib import Path

from pfpne.paper.run import sources
from pfpne.paper.run.folders import FIGURES, NOTEBOOKS_FOLDER, read_whole
from pfpne.paper.run.parameters import DECIDING_PARAMETERS, complete
from pfpne.paths import LANDMINE_TABLE, ROOT, write_atomically

PATH = FIGURES / "PROVENANCE.json"
MADE_FROM = ("pfpne", "notebooks", "data")  # what decides the figures; all else may differ from the commit
# Modules that decide no number: they draw and write what others have computed, read parameters, keep files.
WITHOUT_NUMBERS = {"pfpne.validation", "pfpne.paths"} | {
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


def commit(root: Path = ROOT) -> str:
    """Return the commit that the checkout at this folder stands at.

    Raises NoCommit unless all of MADE_FROM is as in it.
    """

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
    """Return the SHA-256 of what the numbers of an execution depend on: its parameters, the data, and the code.

    Unlike the key of a result it has no versions of libraries in it and nothing of the machine. Lists of what is run
    count as code that computes.
    """
    p = complete(notebook, {"profile": "paper", **parameters})
    imported = frozenset(sources.imported_by(NOTEBOOKS_FOLDER / f"{notebook}.ipynb"))
    hashes = sources.LOADED.reached(imported, whole=True)
    code = {name: hashes[name] for name in hashes if name not in WITHOUT_NUMBERS}
    data = hashlib.sha256(read_whole(LANDMINE_TABLE)).hexdigest()
    deciding = {name: getattr(p, name) for name in (*DECIDING_PARAMETERS, "settings")}
    content = json.dumps([deciding, code, data], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def read() -> dict:
    """Return {"python": version, "commits": {commit: {execution: digest}}}, with nothing in it without a file."""
    if not PATH.exists():
        return {"python": None, "commits": {}}
    return json.loads(read_whole(PATH))


def write(made_by: str, digests: dict[str, str]) -> None:
    """Note that this commit made these executions; others stay under the commit that made them."""
    commits = {made_by: {}, **read()["commits"]}
    for made in commits.values():
        for name in digests:
            made.pop(name, None)
    commits[made_by] = dict(sorted({**commits[made_by], **digests}.items()))
    content = {"python": python_version(), "commits": {old: made for old, made in commits.items() if made}}
    write_atomically(PATH, f"{json.dumps(content, indent=2)}\n".encode())


def python_version() -> str:
    """Return the version of Python, without its last part: another one may give other digests."""
    return ".".join(platform.python_version_tuple()[:2])
