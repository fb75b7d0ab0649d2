"""Every parameter of a notebook, declared once: its type, its meaning, and how what somebody writes is read.

A shell passes text, YAML reads `yes` as True and `1e5` as text, and Python has the numbers of NumPy: one word means
the same, however it comes.
"""

import ast
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from pfpne import validation
from pfpne.paper.run.workers import check_scheduler
from pfpne.partition import CELLS


class ParameterError(ValueError):
    """A parameter of a notebook that cannot be used. The message says what to write instead."""

    def _render_traceback_(self):  # IPython shows this instead of a traceback
        return [f"ParameterError: {self}"]


@contextlib.contextmanager
def as_parameter_error():
    """Turn a ValueError into a ParameterError, which a notebook shows as one sentence."""
    try:
        yield
    except ValueError as error:
        raise ParameterError(str(error)) from None


# What YAML reads as these, whatever the case; a shell passes it as text.
WORDS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("null", "none", "~"), None),
}


def plain(value):
    """Return a number, a truth value or None, if the value is one however it was written; else the value as it is.

    Whole numbers become int, -0.0 becomes 0.
    """
    if isinstance(value, np.floating):
        value = float(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        word = value.strip()
        if word.lower() in WORDS:
            return WORDS[word.lower()]
        try:
            number = Decimal(word)
            float(word)
        except (ArithmeticError, ValueError):
            return value
        if not number.is_finite() or abs(number) > 10**30:
            return value
        return int(number) if number == number.to_integral_value() else float(number)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 10**30 else value


# --- how values are read: read(name, value) -> plain Python, or a ValueError that says what is wanted ----------------


def _text(wanted: str) -> Callable:
    def read(name: str, x) -> str:
        validation.check(isinstance(x, str) and x.strip() != "", name, wanted, x)
        return str(x)

    return read


def _read_cells(name: str, x) -> str:
    validation.check(isinstance(x, str) and x in CELLS, name, f"one of {', '.join(map(repr, CELLS))}", x)
    return str(x)


def _read_scheduler(name: str, x) -> str:
    check_scheduler(name, x)
    return str(x)


def _read_names(name: str, x) -> tuple[str, ...]:
    """Names, in a list, with commas between them, or as the text of a list: a shell passes nothing but text."""
    parts = x
    if isinstance(x, str) and len(x) < 1000:
        with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # literal_eval's
            parts = ast.literal_eval(x.strip()) if x.lstrip().startswith("[") else x.split(",")
    listed = isinstance(parts, (list, tuple)) and parts and all(isinstance(p, str) and p.strip() for p in parts)
    validation.check(listed, name, "a list of names, or names with commas between them", x)
    return tuple(part.strip() for part in parts)


def _number(kind: type, check: Callable, word: str | None = None) -> Callable:
    """Reads numbers of this kind, and the word in any case; "true" stands for the truth value."""

    def read(name: str, x):
        value = plain(x)
        written = "true" if value is True else value.strip().lower() if isinstance(value, str) else None
        if word is not None and written == word:
            return word
        check(name, value)
        return kind(value)

    return read


def _check_delta(name: str, x) -> None:
    validation.check_amount(name, x, ", or 'true'")


_count = _number(int, validation.check_count)
_amount = _number(float, validation.check_amount)
_scale = _number(float, validation.check_scale)


@dataclass(frozen=True)
class NotebookParameter:
    """A parameter of a notebook.

    Parameters
    ----------
    hint : str
        Its type, as the notebooks have it and `papermill --help-notebook` shows it; it may be None, too.
    meaning : str
        What it is; a notebook that needs more words has its own.
    read : callable
        read(name, value) returns plain Python, or raises a ValueError that says what is wanted and what came. Ranges
        are pfpne.validation's; an algorithm's narrower ranges are checked with the experiment.
    """

    hint: str
    meaning: str
    read: Callable


PARAMETERS = {
    "profile": NotebookParameter(
        "str", 'the scale: "paper", or "smoke" for a first look', _text("the name of a profile")
    ),
    "reading": NotebookParameter(
        "str",
        'what the paper leaves open: "printed", or "model" for its own reward model',
        _text("the name of a reading"),
    ),
    "objective": NotebookParameter("str", "the name of an objective", _text("the name of an objective")),
    "algorithms": NotebookParameter(
        "str, list", "names with commas between them, or a list; docs/baselines.md has them all", _read_names
    ),
    "n_clients": NotebookParameter("int", "M, how many clients", _count),
    "horizon": NotebookParameter("int", "T, evaluations per client", _count),
    "n_runs": NotebookParameter("int", "independent runs, the same for every algorithm", _count),
    "noise": NotebookParameter(
        "float, str",
        '"bernoulli", or a number a from 0 on: uniform noise on [-a, a]',
        _number(float, validation.check_noise, "bernoulli"),
    ),
    "shift": NotebookParameter("float", "standard deviation of the clients' shifts, in widths of the domain", _amount),
    "cells": NotebookParameter(
        "str", 'a cell is halved along a "random" dimension, or each in turn ("cyclic")', _read_cells
    ),
    "seed": NotebookParameter("int", "root of all randomness, an integer from 0 on", _count),
    "nu_1": NotebookParameter("float", "smoothness: a cell at depth h varies by at most nu_1 rho^h", _scale),
    "rho": NotebookParameter("float", "smoothness, between 0 and 1", _number(float, validation.check_rho)),
    "c": NotebookParameter("float", "width of the confidence intervals", _scale),
    "c_1": NotebookParameter("float", "factor of T in log(c_1 T / delta)", _scale),
    "delta": NotebookParameter("float", "confidence level", _scale),
    "Delta": NotebookParameter(
        "float, str", 'how much PF-PNE is told that clients differ, or "true"', _number(float, _check_delta, "true")
    ),
    "n_jobs": NotebookParameter("int", "simulations at a time; None: one per processor", _count),
    "scheduler": NotebookParameter(
        "str", "address of a Dask scheduler, whose workers simulate instead", _read_scheduler
    ),
    "figures_dir": NotebookParameter(
        "str",
        "folder of the figures; None: the profile's if unchanged, else figures-custom/",
        _text("the path of a folder, as a string, such as './mine'"),
    ),
}
SETTINGS = ("nu_1", "rho", "c", "c_1", "delta", "Delta")  # of algorithms; each goes to those that take it
WORKERS = ("n_jobs", "scheduler")  # who simulates: no matter for the results


def read_value(name: str, value):
    """Return the value of a parameter as plain Python.

    Raises ParameterError, which names the allowed and the given value, if the parameter does not allow it.
    """
    with as_parameter_error():
        return PARAMETERS[name].read(name, value)
