"""The parameters of a notebook: read, checked, completed from the profile.

A notebook has one cell tagged `parameters`, of literals, whose first line is HEADER. Papermill adds a cell of its own
after it. The next cell calls `read`. If a name is unknown or a value has the wrong type, `read` stops the notebook
within seconds, and its error says what to write.
"""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pfpne import validation
from pfpne.algorithms import UNLIMITED_ALGORITHMS, get_algorithm, settings_of
from pfpne.paper.run.destinations import choose_folder, name_folder
from pfpne.paper.run.experiment import Experiment, ProblemSetup
from pfpne.paper.run.notebooks import NOTEBOOKS, Notebook, executions
from pfpne.paper.run.parameter_types import SETTINGS, WORKERS, ParameterError, as_parameter_error, plain, read_value
from pfpne.paper.run.profiles import PROFILES, READING_PRESETS, default_noise
from pfpne.paper.run.progress import progress
from pfpne.paper.run.results import Results, run_experiment
from pfpne.paper.run.selections import PF_PNE_WITH_TRUE_DELTA
from pfpne.paper.run.workers import end_with_parent

# The fields of Parameters that decide a number, besides the settings.
EXPERIMENT_PARAMETERS = (
    *("objective", "algorithms", "n_clients", "horizon", "n_runs"),
    *("noise", "shift", "cells", "seed"),
)
HEADER = "# Parameters, with their meaning"
PAPERMILL_HEADER = "# Parameters"
PAPERMILL_PATHS = (
    "PAPERMILL_INPUT_PATH",
    "PAPERMILL_OUTPUT_PATH",
)  # `papermill --inject-paths` adds these, which change nothing


@dataclass(frozen=True)
class Parameters:
    """A notebook's parameters, checked, with the profile's values where None was given.

    Parameters
    ----------
    notebook : str
        The name of the notebook.
    profile, reading : str
        Keys of PROFILES and of READING_PRESETS; no reading for a notebook that shows no figure of the paper.
    objective : str or None
        None for a notebook about many.
    algorithms : tuple of str
        What is compared.
    n_clients, horizon, n_runs, noise, shift, cells, seed
        As in ProblemSetup and Experiment; None where a notebook is about many.
    settings : dict
        {name: value}, the given settings of algorithms.
    n_jobs : int, str or None
        The number of workers, or the address of a scheduler that has some.
    figures_dir : Path
        The folder of the figures.
    folder_name : str
        The changes of the parameters as the name of a folder.
    command : str
        The command that makes the notebook's figures again, from the project's folder.
    """

    notebook: str
    profile: str
    reading: str | None
    objective: str | None
    algorithms: tuple[str, ...]
    n_clients: int | None
    horizon: int | None
    n_runs: int
    noise: float | str | None
    shift: float | None
    cells: str
    seed: int
    settings: dict[str, float | str]
    n_jobs: int | str | None
    figures_dir: Path
    folder_name: str
    command: str

    def problem_setup(self, objective: str | None = None, noise: float | str | None = None) -> ProblemSetup:
        """Return the ProblemSetup of the notebook, with another objective or noise if one is given.

        Raises ParameterError if the objective, which may have a range of its own, does not take a value.
        """
        objective = objective or self.objective
        noise = self.noise if noise is None else noise
        noise = default_noise(self.profile, self.reading, objective) if noise is None else noise
        with as_parameter_error():
            return ProblemSetup(objective, self.n_clients, self.horizon, noise, self.shift, self.cells, self.seed)

    def experiment(
        self, objective: str | None = None, noise: float | str | None = None, algorithms: tuple | None = None, **changes
    ) -> Experiment:
        """Return the Experiment of the notebook.

        Parameters
        ----------
        objective, noise, algorithms : optional
            Instead of the notebook's own.
        **changes
            To any other field of Experiment.

        Raises
        ------
        ParameterError
            If a value is out of a range that only an algorithm knows.
        """
        setup = self.problem_setup(objective, noise)
        with as_parameter_error():
            own = setup.experiment(algorithms or self.algorithms, self.n_runs, settings=self.settings)
            return replace(own, **changes)

    def reading_in_name(self, experiment: Experiment) -> str:
        """Return the reading in the name of a figure: "printed" if the experiment has that reading's noise, or ""."""
        printed_noise = default_noise("paper", "printed", experiment.objective)
        return "printed" if self.reading == "printed" and experiment.noise == printed_noise else ""

    def run(self, objective: str | None = None, noise=None, algorithms: tuple | None = None, **changes) -> Results:
        """Return the results of `experiment`: read where they are stored, else simulated now."""
        experiment = self.experiment(objective, noise, algorithms, **changes)
        return run_experiment(experiment, n_jobs=self.n_jobs, progress=progress(experiment.objective))

    def run_with_true_Delta(self, objective: str | None = None, noise=None, **changes) -> Results:
        """Return the results of `run`, and those of PF-PNE with the true Delta under the name PF_PNE_WITH_TRUE_DELTA.

        PF-PNE is not run a second time if Delta was given.
        """
        results = self.run(objective, noise, **changes)
        if "pf-pne" not in self.algorithms or "Delta" in self.settings:
            return results
        changes["settings"] = {**self.settings, "Delta": "true"}
        informed = self.run(objective, noise, ("pf-pne",), **changes).runs
        renamed = {(PF_PNE_WITH_TRUE_DELTA, run): informed[name, run] for name, run in informed}
        return Results(results.experiment, {**results.runs, **renamed})


# --- completing -------------------------------------------------------------------------------------


def complete(notebook: str, given: dict) -> Parameters:
    """Check the parameters that were given, and take the others from the profile.

    Parameters
    ----------
    notebook : str
        The name of a notebook.
    given : dict
        {name: value}; None, or the text null, means that no value is given.

    Raises
    ------
    ParameterError
        If a name, an objective, an algorithm or a profile is unknown, a value is of the wrong type or out of range, or
        none of the algorithms takes a setting. The message says what to write instead.

    Examples
    --------
    >>> complete("1_synthetic_regret", {"profile": "smoke", "horizon": "2e3"}).horizon
    2000
    """
    _check_names(notebook, given)
    row = NOTEBOOKS[notebook]
    read_values = {name: read_value(name, value) for name, value in given.items() if plain(value) is not None}
    given = {"profile": "paper"} | read_values
    completed = _complete_from_profile(row, given)
    _check_algorithms(row, completed["algorithms"], completed["settings"])
    with as_parameter_error():
        validation.check_evaluations(completed["n_clients"] or 1, completed["horizon"] or 1)
    n_jobs, scheduler, folder = (given.pop(name, None) for name in (*WORKERS, "figures_dir"))
    if n_jobs and scheduler:
        raise ParameterError(
            "n_jobs is for workers of this machine, and scheduler has its own: leave one of them None."
        )
    profile = given["profile"]
    in_batch = [{"profile": profile, **parameters} for name, parameters in executions(profile) if name == notebook]
    completed_executions = [_complete_from_profile(row, parameters) for parameters in in_batch]
    folder_name = _folder_name(row, given, completed, in_batch[0], completed_executions)
    folder = choose_folder(folder, completed, completed_executions, folder_name)
    n_jobs, command = scheduler or n_jobs, _command(notebook, given)
    return Parameters(
        notebook, **completed, n_jobs=n_jobs, figures_dir=folder, folder_name=folder_name, command=command
    )


def _folder_name(
    row: Notebook, given: dict, completed: dict, first_execution: dict, completed_executions: list[dict]
) -> str:
    """Name the folder after what the given parameters change.

    The changes are against the parameters of the batch's first execution, with the given reading and objective.
    """
    unchanged = {
        name: value for name, value in first_execution.items() if name not in ("reading", "objective", "noise")
    }
    unchanged |= {name: given[name] for name in ("reading", "objective") if name in given}
    unchanged = _complete_from_profile(row, unchanged)
    if completed["objective"] not in {one["objective"] for one in completed_executions}:
        unchanged["objective"] = None
    return name_folder(completed, unchanged, completed["reading"] in (None, next(iter(READING_PRESETS))))


def _check_known(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise ParameterError(validation.unknown_name(kind, name, names))


def _check_names(notebook: str, names: Iterable[str]) -> None:
    """Refuse an unknown notebook, and names that are not parameters of this notebook."""
    _check_known("notebook", notebook, NOTEBOOKS)
    for name in names:
        takers = [other for other, row in NOTEBOOKS.items() if name in row.parameters]
        if takers and notebook not in takers:
            others = ", ".join(takers)
            raise ParameterError(f"notebook {notebook} takes no {name!r}: leave it out. It is a parameter of {others}.")
        _check_known("parameter", name, NOTEBOOKS[notebook].parameters)


def _complete_from_profile(row: Notebook, given: dict) -> dict:
    """Return all parameters that decide a result: the given values, and the profile's for the others."""
    profile, objective, reading = (
        _choose_profile(given),
        _choose_objective(row, given),
        _choose_reading(row, given),
    )
    scale = PROFILES[profile]
    horizon = READING_PRESETS[reading].horizon if reading and profile == "paper" else scale.horizon
    n_runs = scale.claim_runs if row.uses_claim_runs else min(scale.figure_runs, row.max_runs or scale.figure_runs)
    defaults = {
        "profile": profile,
        "reading": reading,
        "objective": objective,
        "algorithms": row.default_algorithms(reading),
        "n_clients": scale.n_clients,
        "horizon": min(horizon, row.max_horizon or horizon),
        "n_runs": 1 if "n_runs" in row.without else n_runs,
        "noise": default_noise(profile, reading, objective) if "noise" in row.parameters else None,
        "shift": scale.shift,
        "cells": scale.cells,
        "seed": 0,
    }
    if row.narrows_grid:
        defaults |= dict.fromkeys(("objective", "n_clients", "horizon", "noise", "shift"))
    settings = {name: given[name] for name in SETTINGS if name in given}
    return {name: given.get(name, value) for name, value in defaults.items()} | {"settings": settings}


def _choose_profile(given: dict) -> str:
    _check_known("profile", given["profile"], PROFILES)
    return given["profile"]


def _choose_objective(row: Notebook, given: dict) -> str | None:
    objective = given.get("objective", next(iter(row.objectives), None))
    if objective == "landmine" and objective not in row.objectives:
        raise ParameterError("landmine has a notebook of its own: 2_landmine_auc.")
    if objective is not None:
        _check_known("objective", objective, row.objectives)
    if objective == "landmine" and "shift" in given:
        raise ParameterError("landmine takes no 'shift': its clients differ by their fields. Leave it None.")
    return objective


def _choose_reading(row: Notebook, given: dict) -> str | None:
    if not row.takes_reading:
        return None
    reading = given.get("reading", next(iter(READING_PRESETS)))
    _check_known("reading", reading, READING_PRESETS)
    return reading


def _check_algorithms(row: Notebook, algorithms: tuple[str, ...], settings: dict) -> None:
    """Refuse unknown algorithms, and what none of the algorithms has."""
    for name in algorithms:
        _check_known("algorithm", name, UNLIMITED_ALGORITHMS)
        if algorithms.count(name) > 1:
            raise ParameterError(f"algorithms names {name!r} more than once.")
    listed = ", ".join(algorithms)
    none = f"is a setting of none of the algorithms {listed}. Leave it None, or add"
    takers = {f"{name} {none}": [a for a in UNLIMITED_ALGORITHMS if name in settings_of(a)] for name in settings}
    if row.needs_communication:
        takers[f"none of {listed} communicates. Add"] = [a for a in UNLIMITED_ALGORITHMS if get_algorithm(a).up_kinds]
    for sentence, names in takers.items():
        if not set(names) & set(algorithms):
            raise ParameterError(f"{sentence} one of: {', '.join(names)}.")


def _command(notebook: str, given: dict) -> str:
    """The papermill command that requests the same parameters."""
    words = ["papermill", f"notebooks/{notebook}.ipynb", "out.ipynb"]
    for name, value in given.items():
        words += ["-p", name, ",".join(value) if isinstance(value, tuple) else f"{value}"]
    return shlex.join(words)


# --- reading a notebook -----------------------------------------------------------------------------


def read(notebook: str) -> Parameters:
    """Return the parameters of the notebook that calls this, checked and completed.

    Raises ParameterError: see `complete`.
    """
    from IPython import get_ipython

    shell, batch = get_ipython(), os.environ.get("PFPNE_RUNNER")
    # If the batch started this kernel, end with it. We compare with JPY_PARENT_PID, because after the batch is killed
    # the parent process is another.
    if batch is not None and batch == os.environ.get("JPY_PARENT_PID"):
        end_with_parent(int(batch))
    if shell is None:
        raise ParameterError("read() reads a notebook's cells; elsewhere call complete(notebook, {name: value}).")
    _check_known("notebook", notebook, NOTEBOOKS)
    names = [*NOTEBOOKS[notebook].parameters, *find_assigned(shell.history_manager.input_hist_parsed)]
    return complete(notebook, {name: shell.user_ns.get(name) for name in names if name not in PAPERMILL_PATHS})


def find_assigned(cells: list[str]) -> list[str]:
    """Return the names assigned by the latest parameters cell and by those that papermill added after it.

    Other cells, and earlier runs of the parameters cell, do not count: a scratch variable is no misspelt parameter.

    Parameters
    ----------
    cells : list of str
        The sources executed so far, in order.

    Raises
    ------
    ParameterError
        If there is no parameters cell, or if papermill's cell came before the notebook's own. (Papermill puts its cell
        first if no cell has the tag `parameters`; then the notebook's values would override it.)
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
