"""The parameters of a notebook: read, checked, completed from the profile.

A notebook has one cell tagged `parameters`, of literals, whose first line is HEADER. Papermill adds a cell of its own
after it. The next cell calls `read`, which stops the notebook within seconds, with a sentence that says what to write,
when a name is unknown or a value is not of the type wanted.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
from tqdm import tqdm

from pfpne import validation
from pfpne.algorithms import NAMES, get_algorithm, settings_of
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import FIGURES, FIGURES_CUSTOM, FIGURES_SMOKE
from pfpne.paper.run.profiles import PROFILES, READINGS
from pfpne.paper.run.results import Results, run_experiment
from pfpne.paper.run.workers import check_scheduler, end_with
from pfpne.partition import CELLS

HEADER = "# Parameters, with their meaning"
PAPERMILL_HEADER = "# Parameters"
PATHS = ("PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH")  # `papermill --inject-paths` adds these, which change nothing

OWN_DELTA = "pf-pne, own Delta"  # PF-PNE given the clients' own, beside PF-PNE with the paper's
SYNTHETIC_NAMES = ("garland", "himmelblau", "rastrigin", "doublesine", "ackley")  # in the paper's order
MAIN = ("garland", "himmelblau", "rastrigin", "landmine")  # the paper's main figure
APPENDIX = ("doublesine", "ackley")  # its appendix's
DIMENSIONS = ("garland", "himmelblau", "rastrigin")  # one of each dimension: 1, 2, 10
COMMUNICATION = ("garland", "himmelblau", "rastrigin", "ackley")  # its communication figure's
MAP = ("garland", "doublesine", "himmelblau", "ackley", "landmine")  # the regime map's
MAPPED = ("pf-pne", "pf-pne+", "fed-pne", "pe", "hct", "hct-noise")  # what it compares
PAPER = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")  # the five that the paper compares
READ = (*PAPER, "pe")  # of the specification curve
COMPARED = (*PAPER, "hct", "pe")  # the paper's five, then ours
ALONE = ("hoo", "blin")  # single-client searches of the paper's Table 1, which its figures leave out
RANKED = (*COMPARED, *ALONE)
BEYOND = ("pf-pne+", "hct-noise", "hct", "pe", "fed-pne", "pf-pne")  # ours, and what it is compared with


class ParameterError(ValueError):
    """A parameter of a notebook that cannot be used. The message says what to write instead."""

    def _render_traceback_(self):  # IPython shows this instead of a traceback
        return [f"ParameterError: {self}"]


# What YAML reads as these, whatever the case; a shell passes it as text.
WORDS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("null", "none", "~"), None),
}


def plain(value):
    """A number, a truth value or None, if the value is one however it was written; else the value as it is.

    A shell passes text, YAML reads `yes` as True and `1e5` as text, and Python has the numbers of NumPy. Whole numbers
    become int, -0.0 becomes 0.
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


def _check_text(wanted: str) -> Callable:
    return lambda name, x: validation.check(isinstance(x, str) and x.strip() != "", name, wanted, x)


def _check_cells(name: str, x) -> None:
    validation.check(isinstance(x, str) and x in CELLS, name, f"one of {', '.join(map(repr, CELLS))}", x)


def _check_delta(name: str, x) -> None:
    validation.check_amount(name, x, ", or 'true'")


def _names(name: str, x) -> tuple[str, ...]:
    """Names, in a list, with commas between them, or as the text of a list: a shell passes nothing but text."""
    parts = x
    if isinstance(x, str) and len(x) < 1000:
        with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # literal_eval's
            parts = ast.literal_eval(x.strip()) if x.lstrip().startswith("[") else x.split(",")
    listed = isinstance(parts, (list, tuple)) and parts and all(isinstance(p, str) and p.strip() for p in parts)
    validation.check(listed, name, "a list of names, or names with commas between them", x)
    return tuple(part.strip() for part in parts)


def _text(check_it: Callable) -> Callable:
    def read(name: str, x) -> str:
        check_it(name, x)
        return str(x)

    return read


def _number(kind: type, check_it: Callable, word: str | None = None) -> Callable:
    """Reads numbers of this kind, and the word; "true" stands for the truth value."""

    def read(name: str, x):
        value = plain(x)
        if word is not None and (value is True if word == "true" else isinstance(value, str) and value == word):
            return word
        check_it(name, value)
        return kind(value)

    return read


# What makes plain Python of each parameter, (name, value) -> value; ValueError unless it is what the name wants, in the
# range of pfpne.validation. An algorithm's own, narrower ranges are checked with the experiment.
KINDS = {
    "profile": _text(_check_text("the name of a profile")),
    "reading": _text(_check_text("the name of a reading")),
    "objective": _text(_check_text("the name of an objective")),
    "algorithms": _names,
    **dict.fromkeys(("n_clients", "horizon", "n_runs"), _number(int, validation.check_count)),
    "noise": _number(float, validation.check_noise, "bernoulli"),
    "shift": _number(float, validation.check_amount),
    "cells": _text(_check_cells),
    "seed": _number(int, validation.check_count),
    "nu_1": _number(float, validation.check_scale),
    "rho": _number(float, validation.check_rho),
    **dict.fromkeys(("c", "c_1", "delta"), _number(float, validation.check_scale)),
    "Delta": _number(float, _check_delta, "true"),
    "n_jobs": _number(int, validation.check_count),
    "scheduler": _text(check_scheduler),
    "figures_dir": _text(_check_text("the path of a folder, as a string, such as './mine'")),
}
WORKERS = ("n_jobs", "scheduler")  # who simulates: no matter for the results
IN_NAMES = {"delta": "delta_of_confidence"}  # in the names of folders, where case does not tell it from Delta
SETTINGS = ("nu_1", "rho", "c", "c_1", "delta", "Delta")  # of algorithms; each goes to those that take it


@dataclass(frozen=True)
class Notebook:
    """What a notebook can be run for."""

    algorithms: tuple[str, ...]  # compared by default
    objectives: tuple[str, ...] = ()  # one of these, the first by default; () for many at a time
    without: tuple[str, ...] = ()  # the parameters that mean nothing for it
    claims: bool = False  # whether n_runs stands for the profile's claim_runs
    grid: bool = False  # whether its scale, None by default, narrows the grid of pfpne.paper.exhibits.regimes
    n_runs: int | None = None  # at most, if not the profile's
    horizon: int | None = None  # at most, if not the profile's
    communication: bool = False  # whether it shows that alone, so that one algorithm must have some
    read: bool = False  # whether it shows a figure of the paper, and so takes a reading

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name for name in KINDS if name not in self.without and (self.read or name != "reading"))

    def usual_algorithms(self, reading: str | None) -> tuple[str, ...]:
        """What is compared by default. The figures of "model" are older than the ranking, and keep their lines."""
        return RANKED if self.algorithms == COMPARED and reading == "printed" else self.algorithms


# What the story is told with, in every profile; the notebook has the same numbers.
STORY = {"n_clients": 3, "horizon": 10_000, "Delta": 0.1}
SITES = {  # the paper's are in the notebook, too
    "smoke": {"n_clients": 3, "horizon": 16, "n_runs": 2},
    "paper": {"n_clients": 3, "horizon": 120, "n_runs": 20},
}
MANY = ("objective", "algorithms", "noise", *SETTINGS)  # no parameters where many are run
NOTEBOOKS = {
    "0_how_it_works": Notebook(
        ("pf-pne",), ("garland",), without=("objective", "algorithms", "n_runs", *WORKERS, "cells", *SETTINGS[:-1])
    ),
    "1_synthetic_regret": Notebook(COMPARED, SYNTHETIC_NAMES, read=True),
    "2_landmine_auc": Notebook(COMPARED, ("landmine",), without=("objective", "shift"), read=True),
    "3_communication_cost": Notebook(
        ("fed-pne", "pf-pne"), (*SYNTHETIC_NAMES, "landmine"), communication=True, read=True
    ),
    "4_table1": Notebook(NAMES, without=(*MANY, "cells"), claims=True),
    "12_claims": Notebook(NAMES, without=(*MANY, "cells"), claims=True),
    "5_panels_and_times": Notebook(COMPARED, without=("objective", "noise"), read=True),
    "10_specification_curve": Notebook(READ, without=(*MANY, "cells", "shift"), n_runs=5),
    "11_as_printed": Notebook(PAPER, without=(*MANY, "n_clients", "horizon", "seed", "cells", "shift"), claims=True),
    "6_tune_your_own": Notebook(("pf-pne+", "hct-noise"), ("digits",), without=(*MANY, "cells", "shift")),
    "7_beyond": Notebook(BEYOND, without=MANY, n_runs=5, horizon=20_000),
    "8_regime_map": Notebook(MAPPED, (*MAP, "rastrigin"), without=("algorithms", *SETTINGS), n_runs=5, grid=True),
    "9_why": Notebook(
        ("pf-pne", "pf-pne+", "fed-pne", "pe"), SYNTHETIC_NAMES, without=("algorithms", "noise", *SETTINGS), n_runs=5
    ),
}


def executions(profile: str) -> list[tuple[str, dict]]:
    """What `python -m pfpne.paper figures` executes, in order: (notebook, the parameters besides `profile`)."""
    regimes, model = PROFILES[profile].noises, {"reading": "model"}
    return [
        ("0_how_it_works", STORY),
        *(("1_synthetic_regret", {"objective": f}) for f in SYNTHETIC_NAMES),
        ("2_landmine_auc", {}),
        *(("3_communication_cost", {"objective": f}) for f in COMMUNICATION),
        ("5_panels_and_times", {}),
        *(("1_synthetic_regret", {**model, "objective": f, "noise": n}) for n in regimes for f in SYNTHETIC_NAMES),
        ("2_landmine_auc", model),
        *(("3_communication_cost", {**model, "objective": f}) for f in COMMUNICATION),
        ("5_panels_and_times", model),
        ("4_table1", {}),
        ("12_claims", {}),
        ("6_tune_your_own", SITES[profile]),
        ("7_beyond", {}),
        ("8_regime_map", {}),
        ("9_why", {}),
        ("10_specification_curve", {}),
        ("11_as_printed", {}),
    ]


@dataclass(frozen=True)
class Parameters:
    """A notebook's parameters, checked, with the profile's values where None was given."""

    notebook: str
    profile: str
    reading: str | None  # of READINGS, for a notebook that shows a figure of the paper
    objective: str | None
    algorithms: tuple[str, ...]
    n_clients: int | None
    horizon: int | None
    n_runs: int
    noise: float | str | None
    shift: float | None
    cells: str
    seed: int
    settings: dict[str, float | str]  # those of the algorithms that were given
    n_jobs: int | str | None  # workers, or the scheduler that has some
    figures_dir: Path
    command: str  # that makes the notebook's figures again, from the project's folder

    def experiment(self, objective: str | None = None, noise=None, algorithms: tuple | None = None, **changes):
        """The Experiment, of the notebook's own objective, noise, algorithms, or those given; changes to the rest."""
        objective, algorithms = objective or self.objective, algorithms or self.algorithms
        noise = self.noise if noise is None else noise
        noise = _usual_noise(self.profile, self.reading, objective) if noise is None else noise
        setting = objective, self.n_clients, self.horizon, noise, self.shift, self.cells, self.seed
        try:
            experiment = Experiment(*setting, algorithms=algorithms, n_runs=self.n_runs, settings=self.settings)
            return replace(experiment, **changes)
        except ValueError as error:  # a range that only the algorithm knows
            raise ParameterError(str(error)) from None

    def mark(self, experiment: Experiment) -> str:
        """The reading in the name of a figure of this experiment: "printed" if it has that reading's noise, or ""."""
        usual = self.reading == "printed" and experiment.noise == _usual_noise("paper", "printed", experiment.objective)
        return "printed" if usual else ""

    def run(self, objective: str | None = None, noise=None, algorithms: tuple | None = None, **changes) -> Results:
        """The results of `experiment`: read where they are stored, else simulated now."""
        experiment = self.experiment(objective, noise, algorithms, **changes)
        return run_experiment(experiment, n_jobs=self.n_jobs, progress=progress(experiment.objective))

    def run_compared(self, objective: str | None = None, noise=None, **changes) -> Results:
        """The same with PF-PNE once more, given the clients' own Delta, as OWN_DELTA; unless Delta was asked for."""
        results = self.run(objective, noise, **changes)
        if "pf-pne" not in self.algorithms or "Delta" in self.settings:
            return results
        changes["settings"] = {**self.settings, "Delta": "true"}
        own = self.run(objective, noise, ("pf-pne",), **changes).runs
        return Results(results.experiment, {**results.runs, **{(OWN_DELTA, run): own[_, run] for _, run in own}})


def complete(notebook: str, given: dict) -> Parameters:
    """Check the parameters given (None, or the text null: not given) and take the others from the profile.

    Raises ParameterError for an unknown name, objective, algorithm or profile, for a value of the wrong type or out
    of range, and for a setting that none of the algorithms takes.
    """
    _known("notebook", notebook, NOTEBOOKS)
    for name in given:
        takers = [other for other, known in NOTEBOOKS.items() if name in known.parameters]
        if takers and notebook not in takers:
            others = ", ".join(takers)
            raise ParameterError(f"notebook {notebook} takes no {name!r}: leave it out. It is a parameter of {others}.")
        _known("parameter", name, NOTEBOOKS[notebook].parameters)
    given = {"profile": "paper"} | {name: value for name, value in given.items() if plain(value) is not None}
    asked = {name: _checked(name, value) for name, value in given.items()}
    usual = _usual(NOTEBOOKS[notebook], asked)
    decided = _completed(usual, asked)
    _check_algorithms(NOTEBOOKS[notebook], decided["algorithms"], decided["settings"])
    try:
        validation.check_evaluations(*(decided.get(name) or 1 for name in ("n_clients", "horizon")))
    except ValueError as error:
        raise ParameterError(str(error)) from None
    profile = {"profile": asked["profile"]}
    alike = [
        _completed(_usual(NOTEBOOKS[notebook], profile | parameters), parameters)
        for name, parameters in executions(asked["profile"])
        if name == notebook
    ]
    home = FIGURES_CUSTOM if decided not in alike else FIGURES if asked["profile"] == "paper" else FIGURES_SMOKE
    n_jobs, scheduler, folder = (asked.pop(name, None) for name in (*WORKERS, "figures_dir"))
    if n_jobs and scheduler:
        raise ParameterError(
            "n_jobs is for workers of this machine, and scheduler has its own: leave one of them None."
        )
    as_text = {name: ",".join(value) if isinstance(value, tuple) else f"{value}" for name, value in asked.items()}
    folder = _folder(folder, home / _name_of(decided, alike) if home == FIGURES_CUSTOM else home)
    words = ["papermill", f"notebooks/{notebook}.ipynb", "out.ipynb"]
    for name, text in as_text.items():
        words += ["-p", name, text]
    return Parameters(notebook, **decided, n_jobs=scheduler or n_jobs, figures_dir=folder, command=shlex.join(words))


def _completed(usual: dict, asked: dict) -> dict:
    """The parameters that decide a result: what is asked for, and the usual of the others."""
    settings = {name: asked[name] for name in SETTINGS if name in asked}
    return {name: asked.get(name, value) for name, value in usual.items()} | {"settings": settings}


def _name_of(decided: dict, made: list[dict]) -> str:
    """The name of the folder of one's own figures: how it differs from what is made for the profile's own folder.

    decided: the parameters that decide a result. made: those of the executions that fill the profile's folder, where
    files of one notebook have names of their own; the nearest is compared with. What differs is named, numbers first,
    and nothing of it is cut. Two names never differ by case alone, which some file systems do not tell apart.
    """
    own = _flat(decided)
    nearest = min(({name for name in own if own[name] != _flat(other)[name]} for other in made), key=len)
    texts = {name: _in_name(own[name]) for name in KINDS if name in nearest}
    words = [texts.pop(name) for name in ("objective", "cells", "algorithms") if name in nearest]
    numbers = [f"{IN_NAMES.get(name, name)}-{text}" for name, text in texts.items()]
    profile = [] if decided["profile"] == "paper" else [decided["profile"]]
    name = "_".join([*numbers, *words, *profile]) or decided["profile"]
    return name if len(name) <= 200 else f"{name[:190]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _flat(decided: dict) -> dict:
    return {**dict.fromkeys(SETTINGS), **decided, **decided["settings"], "settings": None}


def _in_name(value) -> str:
    """A value in the name of a folder; many algorithms by their number and a hash."""
    if value is None:
        return "default"
    if not isinstance(value, tuple):
        return f"{value}".removesuffix(".0")
    names = "+".join(value)
    return names if len(names) <= 60 else f"{len(value)}-algorithms-{hashlib.sha256(names.encode()).hexdigest()[:6]}"


def _known(what: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise ParameterError(validation.unknown_name(what, name, names))


def _checked(name: str, value):
    """The value as plain Python; ParameterError, with what is wanted and what came, unless `name` may be that."""
    try:
        return KINDS[name](name, value)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def _usual(notebook: Notebook, asked: dict) -> dict:
    """The parameters that decide a result, if no more is asked for than a profile and an objective."""
    _known("profile", asked["profile"], PROFILES)
    profile = PROFILES[asked["profile"]]
    objective = asked.get("objective", next(iter(notebook.objectives), None))
    if objective == "landmine" and objective not in notebook.objectives:
        raise ParameterError("landmine has a notebook of its own: 2_landmine_auc.")
    if objective is not None:
        _known("objective", objective, notebook.objectives)
    if objective == "landmine" and "shift" in asked:
        raise ParameterError("landmine takes no 'shift': its clients differ by their fields. Leave it None.")
    reading = asked.get("reading", next(iter(READINGS))) if notebook.read else None
    if reading is not None:
        _known("reading", reading, READINGS)
    horizon = READINGS[reading].horizon if reading and asked["profile"] == "paper" else profile.horizon
    n_runs = min(profile.n_runs, notebook.n_runs or profile.n_runs)
    usual = {
        "profile": asked["profile"],
        "reading": reading,
        "objective": objective,
        "algorithms": notebook.usual_algorithms(reading),
        "n_clients": profile.n_clients,
        "horizon": min(horizon, notebook.horizon or horizon),
        "n_runs": 1 if "n_runs" in notebook.without else profile.claim_runs if notebook.claims else n_runs,
        "noise": _usual_noise(asked["profile"], reading, objective) if "noise" in notebook.parameters else None,
        "shift": profile.shift,
        "cells": profile.cells,
        "seed": 0,
        "settings": {},
    }
    if notebook.grid:
        usual |= dict.fromkeys(("objective", "n_clients", "horizon", "noise", "shift"))
    return usual


def _usual_noise(profile: str, reading: str | None, objective: str) -> float | str:
    scale = READINGS[reading] if reading else PROFILES[profile]
    return scale.landmine_noise if objective == "landmine" else scale.noises[0]


def _check_algorithms(notebook: Notebook, algorithms: tuple[str, ...], settings: dict) -> None:
    for name in algorithms:
        _known("algorithm", name, NAMES)
        if algorithms.count(name) > 1:
            raise ParameterError(f"algorithms names {name!r} more than once.")
    these = ", ".join(algorithms)
    none = f"is a setting of none of the algorithms {these}. Leave it None, or add"
    able = {f"{name} {none}": [a for a in NAMES if name in settings_of(a)] for name in settings}
    if notebook.communication:
        able[f"none of {these} communicates. Add"] = [a for a in NAMES if get_algorithm(a).up]
    for sentence, some in able.items():
        if not set(some) & set(algorithms):
            raise ParameterError(f"{sentence} one of: {', '.join(some)}.")


def _folder(given: str | None, home: Path) -> Path:
    """Where the figures go: a folder that can be written to, given or home; figures/ only for what belongs there."""
    try:
        folder = Path(given).expanduser().resolve() if given else home
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, RuntimeError, ValueError) as error:
        raise ParameterError(
            f"figures_dir {validation.brief(given)} is no path that can be used: {validation.brief(str(error))}"
        ) from None
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise ParameterError(
            f"figures_dir {given or str(folder)!r} cannot be written to: {there} is no folder, or locked."
        )
    if folder.is_relative_to(FIGURES.resolve()) and home != FIGURES:
        raise ParameterError("figures_dir must be another folder: figures/ is for the paper profile's own, unchanged.")
    return folder


def read(notebook: str) -> Parameters:
    """The parameters of the notebook that calls this, checked and completed. Raises ParameterError, see `complete`."""
    from IPython import get_ipython

    shell, runner = get_ipython(), os.environ.get("PFPNE_RUNNER")
    # `python -m pfpne.paper figures`, if it started this kernel: without it nobody waits for this. It may have been
    # killed by now, so we ask who started this kernel, and not who its parent is.
    if runner is not None and runner == os.environ.get("JPY_PARENT_PID"):
        end_with(int(runner))
    if shell is None:
        raise ParameterError("read() reads a notebook's cells; elsewhere call complete(notebook, {name: value}).")
    _known("notebook", notebook, NOTEBOOKS)
    names = [*NOTEBOOKS[notebook].parameters, *assigned(shell.history_manager.input_hist_parsed)]
    return complete(notebook, {name: shell.user_ns.get(name) for name in names if name not in PATHS})


def assigned(cells: list[str]) -> list[str]:
    """The names assigned by the latest parameters cell and by those that papermill added after it.

    cells: the sources executed so far, in order. Other cells, and earlier runs of the parameters cell, do not count:
    a scratch variable is no misspelt parameter. Raises ParameterError if papermill's cell came before the notebook's
    own, whose values then count: papermill puts it first where no cell has the tag `parameters`.
    """
    first = next((cell.lstrip() for cell in cells if cell.lstrip().startswith(PAPERMILL_HEADER)), HEADER)
    if not first.startswith(HEADER):
        raise ParameterError(
            "the values given were overwritten by the notebook's own, because its cell of parameters has lost its tag "
            "`parameters`: bring it back with `git checkout notebooks`."
        )
    names = []
    for source in reversed(cells):
        if source.lstrip().startswith(PAPERMILL_HEADER):
            nodes = ast.walk(ast.parse(source))
            names += [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        if source.lstrip().startswith(HEADER):
            return names
    raise ParameterError(f"no parameters: first run the cell that begins with {HEADER!r}.")


_bars = []  # that are drawn: at most one


def progress(what: str) -> Callable[[int, int], None] | None:
    """A progress bar, called with (done, total): in the cell's output, or in the terminal named by PFPNE_TERMINAL.

    `python -m pfpne.paper figures` sets PFPNE_TERMINAL to its own terminal, or to nothing when it has none: then there
    is no bar, and a log stays readable. A bar that an interrupt left behind is closed when the next is drawn, which
    would otherwise be drawn below it.
    """
    terminal = os.environ.get("PFPNE_TERMINAL")
    if terminal == "":
        return None
    bar = None

    def update(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            if done == total:  # all of it was stored
                return
            place = open(terminal, "w") if terminal else sys.stderr
            while _bars:
                _bars.pop().close()
            bar = tqdm(total=total, initial=done, desc=what, unit="run", file=place, leave=False)
            _bars.append(bar)
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return update
