"""Exhibits (figures, tables and texts), and how they are written as files with a manifest.

The manifest (JSON) says how to make the files again. The Markdown and the LaTeX file of a table come from the same
strings, the CSV from the numbers behind them.
"""

import csv
import dataclasses
import hashlib
import io
import itertools
import json
import platform
import re
import shlex
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pandas as pd

from pfpne.algorithms import make_settings, settings_of
from pfpne.paper.run.folders import (
    CUSTOM_FIGURES_FOLDER,
    FIGURE_MIME_TYPE,
    FIGURES_FOLDER,
    SMOKE_FIGURES_FOLDER,
    read_whole,
    short_path,
)
from pfpne.paper.run.parameter_types import SETTINGS
from pfpne.paper.run.parameters import EXPERIMENT_PARAMETERS, Parameters
from pfpne.paper.run.versions import library_versions
from pfpne.paths import write_atomically
from pfpne.problems.landmine import SHA256, load_table


@dataclass(frozen=True)
class Exhibit:
    """A figure, a table or a text, as a notebook shows it and as its files.

    stem: the stem of its files' names. files: {name: content}. shown: {MIME type: content} for a notebook. details:
    more Markdown, for a notebook to show where it wants.
    """

    stem: str
    caption: str
    files: dict[str, bytes]
    shown: dict[str, bytes | str]
    details: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        # The last entry lets `python -m pfpne.paper figures` find what an executed notebook shows.
        bundle = {**self.shown, "text/plain": self.caption, FIGURE_MIME_TYPE: self.stem}
        return bundle, {"image/png": {"width": 640}} if "image/png" in bundle else {}


def table_exhibit(
    stem: str, caption: str, strings: pd.DataFrame, csv_tables: dict[str, pd.DataFrame], latex="", page="", details=""
) -> Exhibit:
    """A table as Markdown, and the numbers behind it as CSV files.

    strings: the table, every value a string. csv_tables: {name: table}, one CSV file each. latex: the LaTeX file;
    without it neither a LaTeX nor a Markdown file is written. page: Markdown that the Markdown file ends with. details:
    as in `Exhibit`.
    """
    markdown = as_markdown(strings)
    files = {f"{name}.csv": as_csv(table) for name, table in csv_tables.items()}
    if latex:
        files |= {f"{stem}.md": f"{markdown}\n{caption}\n{page}".encode(), f"{stem}.tex": latex.encode()}
    return Exhibit(stem, caption, files, {"text/markdown": markdown}, details)


def text_exhibit(stem: str, caption: str, text: str, csv_tables: dict[str, pd.DataFrame] | None = None) -> Exhibit:
    """Sentences (Markdown), and the numbers behind them, {name: table}, as CSV files."""
    files = {f"{name}.csv": as_csv(table) for name, table in (csv_tables or {}).items()}
    return Exhibit(stem, caption, files | {f"{stem}.md": text.encode()}, {"text/markdown": text})


# --- tables as text -----------------------------------------------------------------------------------

IN_LATEX = {
    **{name: rf"$\{name}$" for name in ("nu_1", "rho", "Delta", "delta")},
    **{name: f"${name}$" for name in ("c_1", "C_1", "C_2", "H_0")},
    **{"\N{EN DASH}": "--", "\N{DAGGER}": r"\dag{}", "\N{PLUS-MINUS SIGN}": r"$\pm$"},
    **{special: rf"\{special}" for special in "&%#_{}"},
    **{accent: rf"\{accent}{{}}" for accent in "~^"},  # over nothing
}
_SYMBOLS = (rf"\b{key}\b" if key[0].isalpha() else re.escape(key) for key in IN_LATEX)
_FORMULA_OR_SYMBOL = re.compile("|".join([r"\$[^$]*\$", *_SYMBOLS]))


def as_csv(table: pd.DataFrame, digits: int = 6) -> bytes:
    """The table as the content of a CSV file, with numbers in the given number of digits."""
    return table.to_csv(index=False, lineterminator="\n", float_format=f"%.{digits}g").encode()


def in_latex(text: str) -> str:
    """The text with the paper's symbols as formulas and the rest escaped; formulas between dollars stay as they are."""
    return _FORMULA_OR_SYMBOL.sub(lambda match: IN_LATEX.get(match[0], match[0]), text)


def as_latex(strings: pd.DataFrame, columns: str, **options) -> str:
    """A table of strings in LaTeX (booktabs).

    columns: as tabular takes them. A row whose first cell is filled is set off from one above whose first is empty.
    options: as `DataFrame.to_latex` takes them.
    """
    escaped, first = strings.map(in_latex).rename(columns=in_latex), strings.iloc[:, 0]
    set_off = (first != "") & (first.shift() == "")
    escaped.iloc[:, 0] = escaped.iloc[:, 0].mask(set_off, r"\addlinespace " + escaped.iloc[:, 0])
    return escaped.to_latex(index=False, escape=False, column_format=columns, **options)


def as_markdown(strings: pd.DataFrame) -> str:
    """A table of strings in Markdown."""
    escaped = strings.map(lambda cell: f"{cell}".replace("|", r"\|"))
    return escaped.to_markdown(index=False, disable_numparse=True, stralign=None) + "\n"


def as_list(sentences: list[str]) -> str:
    """The sentences as a list in Markdown."""
    return "".join(f"- {sentence}\n" for sentence in sentences)


# --- files --------------------------------------------------------------------------------------------


def save(p: Parameters, *exhibits: Exhibit) -> None:
    """Write the files of each exhibit and its manifest (JSON) into p.figures_dir; print where the first is.

    It is called last in a notebook, so that a notebook that fails leaves the folder as it was. Exhibits of other
    parameters stay, too: see `free_folder`.
    """
    for exhibit in exhibits:
        content = manifest(p, exhibit)
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        folder = free_folder(p, exhibit, content["parameters"])
        # The manifest first: after an interruption, the files written so far are known to have these parameters.
        for name, data in {f"{exhibit.stem}.json": text.encode(), **exhibit.files}.items():
            write_atomically(folder / name, data)
        print(short_path(folder / next(iter(exhibit.files))))
    if p.figures_dir.parent == CUSTOM_FIGURES_FOLDER:
        write_index(CUSTOM_FIGURES_FOLDER)


def free_folder(p: Parameters, exhibit: Exhibit, parameters: dict) -> Path:
    """Return a folder into which the exhibit can be written without overwriting an exhibit of other parameters.

    This is p.figures_dir, unless it has files of these names that are not known to have the same parameters: then it is
    a folder inside, named after the parameters. The batch always overwrites the files in a profile's own folder.
    """
    if p.figures_dir in (FIGURES_FOLDER, SMOKE_FIGURES_FOLDER):
        return p.figures_dir
    parameters, names = json.loads(json.dumps(parameters)), [f"{exhibit.stem}.json", *exhibit.files]
    inside = (p.figures_dir / (p.folder_name if n == 1 else f"{p.folder_name}_{n}") for n in itertools.count(1))
    return next(
        folder
        for folder in itertools.chain([p.figures_dir], inside)
        if not any((folder / name).is_file() for name in names) or _parameters_of(folder / names[0]) == parameters
    )


def _parameters_of(path: Path) -> dict | None:
    """The parameters in a manifest; None if there is no manifest, or it is damaged."""
    try:
        return json.loads(read_whole(path))["parameters"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def write_index(home: Path) -> None:
    """Write home/index.csv: one row per folder, notebook and parameters given, with the day of the last figure.

    It is made from the manifests in the folders, so that it lists the existing exhibits even if some were removed or
    damaged.
    """
    rows = {}
    for path in sorted(home.glob("*/**/*.json")):
        try:
            content = json.loads(read_whole(path))
            _, notebook, _, *given = shlex.split(content["command"])
            parameters = " ".join(word for word in given if word != "-p")
        except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is no manifest of ours
            continue
        place, day = path.parent.relative_to(home).as_posix(), f"{date.fromtimestamp(path.stat().st_mtime)}"
        row = place, Path(notebook).stem, parameters
        rows[row] = max(rows.get(row, ""), day)
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["folder", "notebook", "parameters", "date"])
    table.writerows([*row, day] for row, day in rows.items())
    write_atomically(home / "index.csv", lines.getvalue().encode())


def manifest(p: Parameters, exhibit: Exhibit) -> dict:
    """How to make the exhibit again, with hashes of its files; it does not depend on machine, time or folder."""
    landmine = p.objective in (None, "landmine")
    parameters = {name: getattr(p, name) for name in ("profile", "reading", *EXPERIMENT_PARAMETERS)}
    return {
        "figure": exhibit.stem,
        "caption": exhibit.caption,
        "notebook": f"notebooks/{p.notebook}.ipynb",
        "command": p.command,
        "parameters": parameters | {name: p.settings.get(name) for name in SETTINGS},
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
