"""The parameters of a notebook: read, checked, completed from the profile.

A notebook has one cell tagged `parameters`, of literals, whose first line is HEADER. Papermill adds a
cell of its own after it. The next cell calls `read`, which stops the notebook within seconds, with a
sentence that says what to write, when a name is unknown or a value is not of the type wanted.
"""

from __future__ import annotations

import ast
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from pfpne.algorithms import NAMES
from pfpne.checks import is_integer, is_number, unknown
from pfpne.paper.experiment import PROFILES, Experiment, Results, run_experiment
from pfpne.paths import FIGURES, FIGURES_CUSTOM, FIGURES_SMOKE
from pfpne.algorithms import get_algorithm, settings_of

HEADER = "# Parameters, with their meaning"
PAPERMILL_HEADER = "# Parameters"

SYNTHETIC = ("garland", "himmelblau", "rastrigin", "doublesine", "ackley")
MAIN = ("garland", "himmelblau", "rastrigin", "landmine")  # the paper's main figure
APPENDIX = ("doublesine", "ackley")  # its appendix's
COMMUNICATION = ("garland", "himmelblau", "rastrigin", "ackley")  # its communication figure's

COMPARED = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "hct", "pe")  # the paper's five, then ours


class ParameterError(ValueError):
    """A parameter of a notebook that cannot be used. The message says what to write instead."""

    def _render_traceback_(self):  # IPython shows this instead of a traceback
        return [f"ParameterError: {self}"]


def _known(what: str, name: str, names: Iterable[str]) -> None:
    names = list(names)
    if name not in names:
        raise ParameterError(unknown(what, name, names))


# --- what each parameter may be ---------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What a parameter must be, in words and as a test."""

    wanted: str
    holds: Callable[[object], bool]


def _is_text(x) -> bool:
    return isinstance(x, str) and bool(x.strip())


def _is_names(x) -> bool:
    return _is_text(x) or (isinstance(x, (list, tuple)) and len(x) > 0 and all(map(_is_text, x)))


POSITIVE_INTEGER = Kind("an integer >= 1", lambda x: is_integer(x) and x >= 1)
POSITIVE = Kind("a number > 0", lambda x: is_number(x) and x > 0)
NOT_NEGATIVE = Kind("a number >= 0", lambda x: is_number(x) and x >= 0)

KINDS = {
    "profile": Kind("the name of a profile", _is_text),
    "objective": Kind("the name of an objective", _is_text),
    "algorithms": Kind("a list of names, or names with commas between them", _is_names),
    "n_clients": POSITIVE_INTEGER,
    "horizon": POSITIVE_INTEGER,
    "n_runs": POSITIVE_INTEGER,
    "noise": Kind("a number >= 0 or 'bernoulli'", lambda x: x == "bernoulli" or NOT_NEGATIVE.holds(x)),
    "shift": NOT_NEGATIVE,
    "seed": Kind("an integer >= 0", lambda x: is_integer(x) and x >= 0),
    "nu_1": POSITIVE,
    "rho": Kind("a number between 0 and 1, both excluded", lambda x: is_number(x) and 0 < x < 1),
    "c": POSITIVE,
    "c_1": POSITIVE,
    "delta": POSITIVE,
    "Delta": Kind("a number >= 0 or 'true'", lambda x: x == "true" or NOT_NEGATIVE.holds(x)),
    "n_jobs": POSITIVE_INTEGER,
    "figures_dir": Kind("the path of a folder, as a string", _is_text),
}
SETTINGS = ("nu_1", "rho", "c", "c_1", "delta", "Delta")  # of algorithms; each goes to those that take it


def check_type(name: str, value) -> None:
    """Raise ParameterError, with the type wanted and what came, unless `value` is what `name` must be."""
    kind = KINDS[name]
    if kind.holds(value):
        return
    came = f"{value!r} ({type(value).__name__})"
    hint = f" Write {int(value)}." if isinstance(value, float) and value.is_integer() and kind.holds(int(value)) else ""
    raise ParameterError(f"{name} must be {kind.wanted}; got {came}.{hint}")


# --- the notebooks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notebook:
    """A notebook's parameters.

    objectives: the objectives that it can be run for, with an `objective` parameter if more than one is given.
    algorithms: compared by default. without: the parameters that mean nothing for it. runs: which field of the
    profile n_runs stands for; None: one run. communication: whether it shows that alone, so that one must have some.
    """

    objectives: tuple[str, ...]
    algorithms: tuple[str, ...]
    without: tuple[str, ...] = ()
    runs: str | None = "n_runs"
    communication: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name for name in KINDS if name not in self.without)


NOTEBOOKS = {
    "0_how_it_works": Notebook(
        ("garland",), ("pf-pne",), without=("objective", "algorithms", "n_runs", "n_jobs", *SETTINGS[:-1]), runs=None
    ),
    "1_synthetic_regret": Notebook(SYNTHETIC, COMPARED),
    "2_landmine_auc": Notebook(("landmine",), COMPARED, without=("objective", "shift")),
    "3_communication_cost": Notebook((*SYNTHETIC, "landmine"), ("fed-pne", "pf-pne"), communication=True),
    "4_table1_and_claims": Notebook(
        (*SYNTHETIC, "landmine"), NAMES, without=("objective", "algorithms", "noise", *SETTINGS), runs="claim_runs"
    ),
    "5_panels_and_times": Notebook((*SYNTHETIC, "landmine"), COMPARED, without=("objective", "noise")),
}


def parameters_of(notebook: str) -> tuple[str, ...]:
    return NOTEBOOKS[notebook].parameters


HOW_IT_WORKS = {"n_clients": 3, "horizon": 10_000, "Delta": 0.1}  # few clients, so that a picture can hold them


def executions(profile: str) -> list[tuple[str, dict]]:
    """What `python -m pfpne.paper figures` executes, in order: (notebook, the parameters besides `profile`)."""
    regimes = PROFILES[profile].noises
    return [
        ("0_how_it_works", HOW_IT_WORKS),
        *(("1_synthetic_regret", {"objective": f, "noise": noise}) for noise in regimes for f in SYNTHETIC),
        ("2_landmine_auc", {}),
        *(("3_communication_cost", {"objective": f}) for f in COMMUNICATION),
        ("5_panels_and_times", {}),
        ("4_table1_and_claims", {}),
    ]


@dataclass(frozen=True)
class Parameters:
    """A notebook's parameters, checked, with the profile's values where None was given.

    asked: what the notebook was given, None left out. official: whether these are the parameters of a figure
    of the profile, as opposed to somebody's own. settings: the algorithms' settings that were given.
    """

    notebook: str
    profile: str
    objective: str | None
    algorithms: tuple[str, ...]
    n_clients: int
    horizon: int
    n_runs: int
    noise: float | str | None
    shift: float
    seed: int
    settings: dict[str, float | str]
    n_jobs: int | None
    figures_dir: Path
    asked: dict
    official: bool

    def experiment(self, objective: str | None = None, noise=None, algorithms: tuple | None = None) -> Experiment:
        """What to simulate: for the notebook's own objective, noise and algorithms, or for those given."""
        objective = objective or self.objective
        if noise is None:
            noise = self.noise if self.noise is not None else _default_noise(self.profile, objective)
        try:
            return Experiment(
                objective=objective,
                algorithms=algorithms or self.algorithms,
                n_clients=self.n_clients,
                horizon=self.horizon,
                n_runs=self.n_runs,
                noise=noise,
                shift=self.shift,
                seed=self.seed,
                settings=self.settings,
            )
        except ValueError as error:  # a range that only the algorithm knows
            raise ParameterError(str(error)) from None

    def run(self, objective: str | None = None, noise=None, algorithms: tuple | None = None) -> Results:
        """The results of `experiment`: read where they are stored, else simulated now."""
        experiment = self.experiment(objective, noise, algorithms)
        return run_experiment(experiment, n_jobs=self.n_jobs, progress=progress(experiment.objective))

    @property
    def command(self) -> str:
        """The command that makes this notebook's figures again, from the project's folder."""
        given = {name: value for name, value in self.asked.items() if name not in ("n_jobs", "figures_dir")}
        words = (f"-p {name} {_as_word(value)}" for name, value in given.items())
        return " ".join([f"papermill notebooks/{self.notebook}.ipynb out.ipynb", *words])


def _as_word(value) -> str:
    return shlex.quote(",".join(value) if isinstance(value, (list, tuple)) else f"{value}")


def complete(notebook: str, given: dict) -> Parameters:
    """Check the parameters given (None: not given) and take the others from the profile.

    Raises ParameterError for an unknown name, objective, algorithm or profile, for a value of the wrong type or out
    of range, and for a setting that none of the algorithms takes.
    """
    for name in given:
        _check_name(notebook, name)
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        check_type(name, value)
    completed = _completed(notebook, given)
    profile = completed["profile"]
    official = any(
        completed == _completed(notebook, {"profile": profile, **parameters})
        for name, parameters in executions(profile)
        if name == notebook
    )
    return Parameters(
        notebook=notebook,
        n_jobs=given.get("n_jobs"),
        figures_dir=_figures_dir(given.get("figures_dir"), profile, official),
        asked={"profile": profile, **{name: value for name, value in given.items() if name != "profile"}},
        official=official,
        **completed,
    )


def _check_name(notebook: str, name: str) -> None:
    """Raise ParameterError unless the notebook has a parameter of that name."""
    if name in KINDS and name not in NOTEBOOKS[notebook].parameters:
        others = ", ".join(other for other, known in NOTEBOOKS.items() if name in known.parameters)
        raise ParameterError(f"notebook {notebook} takes no {name!r}: leave it out. It is a parameter of {others}.")
    _known("parameter", name, NOTEBOOKS[notebook].parameters)


def _completed(notebook: str, given: dict) -> dict:
    """The parameters that decide a result, completed from the profile. given: of the right types, none of them None."""
    known = NOTEBOOKS[notebook]
    name = given.get("profile", "paper")
    _known("profile", name, PROFILES)
    profile = PROFILES[name]
    objective = None
    if "objective" in known.parameters:
        objective = given.get("objective", known.objectives[0])
        if objective == "landmine" and objective not in known.objectives:
            raise ParameterError("landmine has a notebook of its own: 2_landmine_auc.")
        _known("objective", objective, known.objectives)
        if objective == "landmine" and "shift" in given:
            raise ParameterError("landmine takes no 'shift': its clients differ by their fields. Leave it None.")
    elif len(known.objectives) == 1:
        objective = known.objectives[0]
    noise = None
    if "noise" in known.parameters:
        noise = given.get("noise", _default_noise(name, objective))
        noise = noise if noise == "bernoulli" else float(noise)
    algorithms = _algorithms(given.get("algorithms", known.algorithms))
    if known.communication:
        talking = [name for name in NAMES if get_algorithm(name).up]
        if not set(algorithms) & set(talking):
            raise ParameterError(f"none of {', '.join(algorithms)} communicates. Add one of: {', '.join(talking)}.")
    return {
        "profile": name,
        "objective": objective,
        "algorithms": algorithms,
        "n_clients": int(given.get("n_clients", profile.n_clients)),
        "horizon": int(given.get("horizon", profile.horizon)),
        "n_runs": int(given.get("n_runs", getattr(profile, known.runs) if known.runs else 1)),
        "noise": noise,
        "shift": float(given.get("shift", profile.shift)),
        "seed": int(given.get("seed", 0)),
        "settings": _settings(given, algorithms),
    }


def _default_noise(profile: str, objective: str) -> float | str:
    return PROFILES[profile].landmine_noise if objective == "landmine" else PROFILES[profile].noises[0]


def _algorithms(value) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (value.split(",") if isinstance(value, str) else value))
    for name in names:
        _known("algorithm", name, NAMES)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ParameterError(f"algorithms names {twice[0]!r} more than once.")
    return names


def _settings(given: dict, algorithms: tuple[str, ...]) -> dict[str, float | str]:
    settings = {}
    for name in SETTINGS:
        if name not in given:
            continue
        if not any(name in settings_of(algorithm) for algorithm in algorithms):
            raise ParameterError(
                f"{name} is a setting of none of the algorithms {', '.join(algorithms)}. Leave it None, or add one of: "
                f"{', '.join(a for a in NAMES if name in settings_of(a))}."
            )
        settings[name] = given[name] if given[name] == "true" else float(given[name])
    return settings


def _figures_dir(given: str | None, profile: str, official: bool) -> Path:
    home = FIGURES_CUSTOM if not official else FIGURES if profile == "paper" else FIGURES_SMOKE
    try:
        folder = Path(given).expanduser().resolve() if given else home
    except RuntimeError as error:
        raise ParameterError(f"figures_dir {given!r} is no path: {error}") from None
    if folder.is_relative_to(FIGURES.resolve()) and home != FIGURES:
        raise ParameterError(
            "figures_dir must be another folder: figures/ is kept for the figures of the paper profile, unchanged."
        )
    return folder


# --- inside a notebook ------------------------------------------------------------------------------


def read(notebook: str) -> Parameters:
    """The parameters of the notebook that calls this, checked and completed. Raises ParameterError, see `complete`."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise ParameterError("read() reads a notebook's cells; elsewhere call complete(notebook, {name: value}).")
    for name in assigned(shell.history_manager.input_hist_parsed):
        _check_name(notebook, name)
    return complete(notebook, {name: shell.user_ns.get(name) for name in NOTEBOOKS[notebook].parameters})


def assigned(cells: list[str]) -> list[str]:
    """The names assigned by the latest parameters cell and by those that papermill added after it.

    cells: the sources executed so far, in order. Other cells, and earlier runs of the parameters cell, do not count:
    a scratch variable is no misspelt parameter.
    """
    names = []
    for source in reversed(cells):
        if source.lstrip().startswith(PAPERMILL_HEADER):
            names += [node.id for node in ast.walk(ast.parse(source)) if _is_target(node)]
        if source.lstrip().startswith(HEADER):
            return names
    raise ParameterError(f"no parameters: first run the cell that begins with {HEADER!r}.")


def _is_target(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def progress(what: str) -> Callable[[int, int], None] | None:
    """A progress bar, called with (done, total): in the cell's output, or in the terminal named by PFPNE_TERMINAL.

    `python -m pfpne.paper figures` sets PFPNE_TERMINAL to its own terminal, or to nothing when it has none: then there is
    no bar, and a log stays readable.
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
            bar = tqdm(total=total, initial=done, desc=what, unit="run", file=place, leave=False)
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return update
