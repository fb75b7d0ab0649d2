"""Figures and tables as files, and how they are written: each with a manifest that says how to make it again."""

import csv
import dataclasses
import hashlib
import io
import json
import platform
import shlex
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pfpne.algorithms import make_settings, settings_of
from pfpne.paper.run.declarations import SETTINGS
from pfpne.paper.run.folders import FIGURES_CUSTOM, MIME, read_whole, short_path
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.versions import library_versions
from pfpne.paths import write_atomically
from pfpne.problems.landmine import SHA256, load_table

SCALE = (
    "profile",
    "reading",
    "objective",
    "algorithms",
    "n_clients",
    "horizon",
    "n_runs",
    "noise",
    "shift",
    "cells",
    "seed",
)


@dataclass(frozen=True)
class Exhibit:
    """A figure or a table: its files {name: content}, named after stem; shown: what a notebook shows, by MIME type."""

    stem: str
    caption: str
    files: dict[str, bytes]
    shown: dict[str, bytes | str]
    details: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        # The last entry lets `python -m pfpne.paper figures` find what an executed notebook shows.
        bundle = {**self.shown, "text/plain": self.caption, MIME: self.stem}
        return bundle, {"image/png": {"width": 640}} if "image/png" in bundle else {}


def words(stem: str, caption: str, text: str) -> Exhibit:
    """Sentences, Markdown."""
    return Exhibit(stem, caption, {f"{stem}.md": text.encode()}, {"text/markdown": text})


def save(p: Parameters, *exhibits: Exhibit) -> None:
    """Write the files of each exhibit and its manifest (JSON) into p.figures_dir; print where the first is.

    Called last in a notebook: one that fails before leaves the folder as it was.
    """
    for exhibit in exhibits:
        text = json.dumps(manifest(p, exhibit), indent=2, ensure_ascii=False) + "\n"
        for name, content in {**exhibit.files, f"{exhibit.stem}.json": text.encode()}.items():
            write_atomically(p.figures_dir / name, content)
        print(short_path(p.figures_dir / next(iter(exhibit.files))))
    if p.figures_dir.parent == FIGURES_CUSTOM:
        write_index(FIGURES_CUSTOM)


def write_index(home: Path) -> None:
    """Write home/index.csv: a row per folder and notebook, with the parameters given and the day of the last figure.

    It is made of the manifests in the folders, so that it lists what there is, whatever was removed or damaged.
    """
    rows = {}
    for path in sorted(home.glob("*/*.json")):
        try:
            content = json.loads(read_whole(path))
            _, notebook, _, *given = shlex.split(content["command"])
            parameters = " ".join(word for word in given if word != "-p")
        except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is no manifest of ours
            continue
        place, day = (path.parent.name, Path(notebook).stem), f"{date.fromtimestamp(path.stat().st_mtime)}"
        rows[place] = max(rows.get(place, ("", "")), (day, parameters))
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["folder", "notebook", "parameters", "date"])
    table.writerows([*place, parameters, day] for place, (day, parameters) in rows.items())
    write_atomically(home / "index.csv", lines.getvalue().encode())


def manifest(p: Parameters, exhibit: Exhibit) -> dict:
    """How to make the exhibit again, and what came out: nothing of the machine, the time or the folder in it."""
    landmine = p.objective in (None, "landmine")
    return {
        "figure": exhibit.stem,
        "caption": exhibit.caption,
        "notebook": f"notebooks/{p.notebook}.ipynb",
        "command": p.command,
        "parameters": {name: getattr(p, name) for name in SCALE} | {name: p.settings.get(name) for name in SETTINGS},
        "settings": {name: settings_used(name, p.settings, p.n_clients) for name in p.algorithms},
        "versions": {"python": platform.python_version(), **library_versions()},
        "dataset": {"LandmineData.mat": SHA256, "data/landmine_auc.npz": load_table().sha256} if landmine else None,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in exhibit.files.items()},
    }


def settings_used(algorithm: str, given: dict, M: int | None) -> dict:
    """The algorithm's settings, its defaults where none was given. Delta may be "true": the problem's own."""
    taken = {name: value for name, value in given.items() if name in settings_of(algorithm)}
    numbers = {name: value for name, value in taken.items() if value != "true"}
    settings = {**dataclasses.asdict(make_settings(algorithm, numbers)), **taken}
    return {name: 1 / M if name == "delta" and value is None and M else value for name, value in settings.items()}
