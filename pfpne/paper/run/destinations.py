"""The folder of a notebook's figures: the profile's own if no parameter was changed, else one named after the changes.

`completed` is the dict {parameter: value} of all parameters that decide a result, given or not.
"""

import hashlib
import os
from pathlib import Path

from pfpne.paper.run.folders import CUSTOM_FIGURES_FOLDER, FIGURES_FOLDER, SMOKE_FIGURES_FOLDER, short_path
from pfpne.paper.run.parameter_types import PARAMETERS, SETTINGS, ParameterError
from pfpne.validation import brief

NAMES_IN_FOLDERS = {"delta": "delta_of_confidence"}  # not "delta": some file systems do not distinguish it from "Delta"
MAX_NAME_CHARACTERS = 200  # characters of a folder's name
HASH_CHARACTERS = 12  # characters of the hash that replaces the rest of a longer name


def choose_folder(wanted: str | None, completed: dict, completed_executions: list[dict], folder_name: str) -> Path:
    """Return the folder that figures go to.

    Parameters
    ----------
    wanted : str, optional
        The requested folder.
    completed : dict
        The parameters of this run of the notebook.
    completed_executions : list of dict
        The parameters with which the batch executes this notebook: those figures fill the profile's folder.
    folder_name : str
        The changes of the parameters as the name of a folder: see `name_folder`.

    Raises
    ------
    ParameterError
        If the folder cannot be written to, or if it is a profile's folder and a parameter was changed.
    """
    home = FIGURES_FOLDER if completed["profile"] == "paper" else SMOKE_FIGURES_FOLDER
    if completed not in completed_executions:
        home = CUSTOM_FIGURES_FOLDER / folder_name
    try:
        folder = Path(wanted).expanduser().resolve() if wanted else home
        existing = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, RuntimeError, ValueError) as error:
        raise ParameterError(f"figures_dir {brief(wanted)} is no path that can be used: {brief(str(error))}") from None
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise ParameterError(
            f"figures_dir {wanted or str(folder)!r} cannot be written to: {existing} is no folder, or locked."
        )
    for profile, its_folder in (("paper", FIGURES_FOLDER), ("smoke", SMOKE_FIGURES_FOLDER)):
        if folder.is_relative_to(its_folder.resolve()) and home != its_folder:
            raise ParameterError(
                f"figures_dir must be another folder: {short_path(its_folder)}/ is for the {profile} profile's own, "
                "unchanged."
            )
    return folder


def name_folder(completed: dict, unchanged: dict, has_default_reading: bool) -> str:
    """Name a folder after the changes of a notebook's parameters.

    The name lists the changed parameters, numbers first, and no value is shortened. Different parameters give different
    folder names, except that the batch's objectives share a folder (their file names differ). Names never differ by
    case alone, because some file systems do not distinguish it.

    Parameters
    ----------
    completed : dict
        The parameters of this run of the notebook.
    unchanged : dict
        The parameters without a change, with this profile, reading and objective. The objective is None if the batch
        does not execute the notebook for this objective, so that the folder is named after the objective.
    has_default_reading : bool
        Whether the reading is the default one, which is not named.
    """
    values, others = _flatten(completed), _flatten(unchanged)
    texts = {name: _as_text(values[name]) for name in PARAMETERS if name in values and values[name] != others[name]}
    words = [texts.pop(name) for name in ("objective", "cells", "algorithms") if name in texts]
    words += [] if has_default_reading else [f"reading-{completed['reading']}"]
    numbers = [f"{NAMES_IN_FOLDERS.get(name, name)}-{text}" for name, text in texts.items()]
    profile = [] if completed["profile"] == "paper" else [completed["profile"]]
    name = "_".join([*numbers, *words, *profile]) or completed["profile"]
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[: MAX_NAME_CHARACTERS - HASH_CHARACTERS - 1]}_{_short_hash(name)}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_CHARACTERS]


def _flatten(completed: dict) -> dict:
    return {**dict.fromkeys(SETTINGS), **completed, **completed["settings"], "settings": None}


def _as_text(value) -> str:
    """A value in the name of a folder; a long list of algorithms is given by its length and a hash."""
    if value is None:
        return "default"
    if not isinstance(value, tuple):
        return f"{value}".removesuffix(".0")
    names = "+".join(value)
    return names if len(names) <= 60 else f"{len(value)}-algorithms-{_short_hash(names)}"
