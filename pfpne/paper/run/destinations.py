"""Where a notebook's figures go: to the profile's own folder if nothing was changed, else to one named after what was.

What a notebook was run for is a dict here, `result_parameters`: {parameter: value} of all that decide a result.
"""

import hashlib
import os
from pathlib import Path

from pfpne.paper.run.declarations import PARAMETERS, SETTINGS, ParameterError
from pfpne.paper.run.folders import FIGURES, FIGURES_CUSTOM, FIGURES_SMOKE
from pfpne.validation import brief

NAMES_IN_FOLDERS = {"delta": "delta_of_confidence"}  # in the names of folders, where case does not tell it from Delta
MAX_NAME_CHARACTERS = 200  # characters of a folder's name


def choose_folder(wanted: str | None, result_parameters: dict, executed: list[dict]) -> Path:
    """Return the folder that figures go to.

    Parameters
    ----------
    wanted : str, optional
        The folder that was asked for.
    result_parameters : dict
        What the notebook is run for.
    executed : list of dict
        What the batch executes this notebook for: its figures fill the profile's folder.

    Raises
    ------
    ParameterError
        If it cannot be written to, or if it is figures/ and something was changed.
    """
    home = FIGURES if result_parameters["profile"] == "paper" else FIGURES_SMOKE
    if result_parameters not in executed:
        home = FIGURES_CUSTOM / name_changes(result_parameters, executed)
    try:
        folder = Path(wanted).expanduser().resolve() if wanted else home
        existing = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, RuntimeError, ValueError) as error:
        raise ParameterError(f"figures_dir {brief(wanted)} is no path that can be used: {brief(str(error))}") from None
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise ParameterError(
            f"figures_dir {wanted or str(folder)!r} cannot be written to: {existing} is no folder, or locked."
        )
    if folder.is_relative_to(FIGURES.resolve()) and home != FIGURES:
        raise ParameterError("figures_dir must be another folder: figures/ is for the paper profile's own, unchanged.")
    return folder


def name_changes(result_parameters: dict, executed: list[dict]) -> str:
    """Name a folder after how a notebook's parameters differ from those of the nearest execution of the batch.

    What differs is named, numbers first, and nothing of it is cut. Two names never differ by case alone, which some
    file systems do not tell apart.
    """
    values = _flatten(result_parameters)
    others = [_flatten(other) for other in executed]
    changed = min(({name for name in values if values[name] != other[name]} for other in others), key=len)
    texts = {name: _as_text(values[name]) for name in PARAMETERS if name in changed}
    words = [texts.pop(name) for name in ("objective", "cells", "algorithms") if name in changed]
    numbers = [f"{NAMES_IN_FOLDERS.get(name, name)}-{text}" for name, text in texts.items()]
    profile = [] if result_parameters["profile"] == "paper" else [result_parameters["profile"]]
    name = "_".join([*numbers, *words, *profile]) or result_parameters["profile"]
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[: MAX_NAME_CHARACTERS - 10]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _flatten(result_parameters: dict) -> dict:
    return {**dict.fromkeys(SETTINGS), **result_parameters, **result_parameters["settings"], "settings": None}


def _as_text(value) -> str:
    """A value in the name of a folder; many algorithms by their number and a hash."""
    if value is None:
        return "default"
    if not isinstance(value, tuple):
        return f"{value}".removesuffix(".0")
    names = "+".join(value)
    return names if len(names) <= 60 else f"{len(value)}-algorithms-{hashlib.sha256(names.encode()).hexdigest()[:6]}"
