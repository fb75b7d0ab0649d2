"""Hostile parameters, on every notebook: each is taken rightly, or refused at once with a sentence that names it."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import pfpne
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paper.run.notebooks import NOTEBOOKS
from pfpne.paper.run.parameter_types import PARAMETERS, ParameterError
from pfpne.paper.run.parameters import complete
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.problems import OBJECTIVES
from pfpne.validation import INTEGER_ARGUMENTS

LONG = "a" * 1_000_000
ANYWHERE = (  # values that no parameter takes
    *(math.nan, math.inf, -math.inf, 1e308, 5e-324, -1, -0.5, 10**30, 10**5000, 2**64, True, False, 1j),
    *("", " ", "nan", "1e400", "0.1.2", "nul", "x'; rm -rf /", LONG, "[" * 500, "[1, 2]", "[{[]:1}]", "\ud800"),
    *(
        "{}",
        b"pe",
        [],
        {},
        [[]],
        [1],
        ["pe", None],
        {"a": 1},
        np.array([0.1, 0.2]),
        np.array(["pe"]),
        pd.NA,
        pd.NaT,
        object(),
    ),
)
PATHS = (
    "nan",
    "1e400",
    "0.1.2",
    "nul",
    "x'; rm -rf /",
    "[" * 200,
    "[1, 2]",
    "[{[]:1}]",
    "{}",
)  # strange names of folders
TAKEN = {
    **dict.fromkeys(("n_clients", "horizon", "n_runs", "n_jobs"), (1, 3, np.int64(2))),
    "seed": (0, 2**64 - 1, np.uint8(3)),
    "noise": (0, 0.0, 1e-9, 1e9, np.float32(0.5), "bernoulli"),
    "shift": (0, 1e9, 0.5),
    **dict.fromkeys(("nu_1", "c", "c_1"), (1, 1e-9, 1e9)),
    "rho": (1e-6, 0.5, 1 - 1e-6),
    "delta": (1e-9, 1.0),
    "Delta": (0, 1e-9, 1e9, "true"),
    "cells": ("random", "cyclic"),
    "algorithms": ("pf-pne,hct,fed-pne", ["hct", "pf-pne"], "['pf-pne', 'pe']"),
    "profile": ("smoke", "paper"),
    "reading": ("printed", "model"),
    "objective": ("garland", "ackley"),
    "scheduler": ("tcp://127.0.0.1:8786", "tls://cluster:1"),
    "figures_dir": ("a b/c", "../x", "it's", "\N{SNOWMAN}", "x" * 200, *PATHS),
}
BOTH = [(name, parameter) for name, notebook in NOTEBOOKS.items() for parameter in notebook.parameters]


def accepted(notebook: str, parameter: str, value):
    """What the notebook starts with: its parameters and, where it has one objective, the experiment."""
    scale = {
        "profile": "smoke",
        "algorithms": ["pf-pne", "hct"],
        **({"n_clients": 1} if parameter == "horizon" else {}),
    }
    known = {name: usual for name, usual in scale.items() if name in NOTEBOOKS[notebook].parameters}
    p = complete(notebook, {**known, parameter: value})
    simulates = p.objective in OBJECTIVES and not NOTEBOOKS[notebook].narrows_grid
    return p.experiment() if simulates else p


def test_the_table_is_of_every_parameter():
    assert set(TAKEN) == set(PARAMETERS)


@pytest.mark.parametrize(("notebook", "parameter"), BOTH)
def test_every_value_is_taken_or_refused_with_a_sentence(notebook, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (None, "null", "None", *TAKEN[parameter]):
        accepted(notebook, parameter, value)
    for value in ANYWHERE:
        if parameter == "figures_dir" and isinstance(value, str) and value in PATHS:
            continue
        if parameter == "Delta" and value is True:  # what YAML and a shell make of "true"
            continue
        with pytest.raises(ParameterError) as caught:
            accepted(notebook, parameter, value)
        sentence = str(caught.value)
        assert parameter.rstrip("s") in sentence and len(sentence) < 600 and "\n" not in sentence
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [parameter for parameter in PARAMETERS if parameter in INTEGER_ARGUMENTS])
def test_a_count_is_taken_up_to_its_limit(name):
    notebook = "1_synthetic_regret"
    least, most = INTEGER_ARGUMENTS[name]
    for value in (least, most):
        accepted(notebook, name, value)
    for value in (least - 1, most + 1, least + 0.5):
        with pytest.raises(ParameterError, match=f"{name} must be an integer in {least}..{most}"):
            accepted(notebook, name, value)
    accepted(notebook, name, 2e3)


def test_what_no_memory_holds_is_refused():
    """Each count is in its range, and all evaluations together are too many."""
    with pytest.raises(ParameterError, match="n_clients times horizon must be at most 1,000,000,000"):
        complete("1_synthetic_regret", {"n_clients": 10**6, "horizon": 10**6})
    with pytest.raises(ValueError, match="n_clients times horizon must be at most 1,000,000,000"):
        pfpne.simulate("centralized", pfpne.make_problem("garland", 2), 600_000_000)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
@pytest.mark.parametrize("name", ["horizn", "Horizon", "HORIZON ", "__class__", "n-runs", LONG, "\0"])
def test_a_name_that_is_none_is_refused(notebook, name):
    with pytest.raises(ParameterError, match="unknown parameter .* There are: ") as caught:
        complete(notebook, {name: 1})
    assert len(str(caught.value)) < 600


def executed(arguments: list[str], project, where) -> subprocess.CompletedProcess:
    """papermill on the command line, in a project's folder of its own."""
    environment = {**os.environ, "PFPNE_ROOT": str(project), "PFPNE_TERMINAL": ""}
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", *arguments]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "a project"
    (root / "notebooks").mkdir(parents=True)
    (root / "data").symlink_to(CHECKOUT / "data")
    return root


REFUSED = [  # parameter, arguments, what is said
    ("horizon", ["-p", "horizn", "10"], "Did you mean 'horizon'?"),
    ("horizon", ["-p", "horizon", "1e-3"], "horizon must be an integer in 1.."),
    ("horizon", ["-p", "horizon", "9" * 30], "horizon must be an integer in 1.."),
    ("n_clients", ["-p", "n_clients", "-2"], "n_clients must be an integer in 1.."),
    ("n_runs", ["-p", "n_runs", "true"], "n_runs must be an integer in 1.."),
    ("seed", ["-r", "seed", "7.5"], "seed must be an integer in 0.."),
    ("shift", ["-y", "{shift: .nan}"], "shift must be 0, or a number"),
    ("shift", ["-p", "shift", "1e400"], "shift must be 0, or a number"),
    ("algorithms", ["-p", "algorithms", "['pe', 'pee']"], "Did you mean 'pe'?"),
    ("figures_dir", ["-y", "{figures_dir: [a, b]}"], "figures_dir must be the path of a folder"),
    ("figures_dir", ["-y", '{figures_dir: "\\0"}'], "figures_dir"),
]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_on_the_command_line_wrong_ones_are_refused_and_nothing_is_written(notebook, project, tmp_path):
    for arguments, sentence in [wrong for name, *wrong in REFUSED if name in NOTEBOOKS[notebook].parameters]:
        done = executed([str(NOTEBOOKS_FOLDER / f"{notebook}.ipynb"), "out.ipynb", *arguments], project, tmp_path)
        assert done.returncode == 1 and sentence in done.stderr, (arguments, done.stderr[-500:])
        assert sorted(os.listdir(project)) == ["data", "notebooks"]
        assert sorted(os.listdir(tmp_path)) == ["a project", "out.ipynb"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ['it\'s "here" $HOME', "../up/\N{SNOWMAN}", "[1, 2]"])
def test_on_the_command_line_strange_folders_are_taken_and_no_other_is_written(folder, project, tmp_path):
    where = tmp_path / "some where"
    where.mkdir()
    small = {"profile": "smoke", "n_clients": 2, "horizon": 40, "n_runs": 2, "algorithms": "['pf-pne', \"pe\"]"}
    arguments = [word for name, value in small.items() for word in ("-p", name, str(value))]
    given = ["-y", json.dumps({"figures_dir": folder})]
    done = executed(
        [str(NOTEBOOKS_FOLDER / "1_synthetic_regret.ipynb"), "out.ipynb", *arguments, *given], project, where
    )
    assert done.returncode == 0, done.stderr[-500:]
    made = sorted(path.name for path in (where / folder).resolve().iterdir())
    assert made == [f"regret_garland_bernoulli.{kind}" for kind in ("csv", "json", "pdf", "png")]
    assert sorted(os.listdir(project)) == ["data", "notebooks", "results"]
    outside = {"a project", "some where"} | ({"up"} if folder.startswith("..") else set())
    assert set(os.listdir(tmp_path)) == outside


@pytest.mark.slow
def test_pages_that_are_not_there_are_named(tmp_path):
    command = [sys.executable, "-m", "pfpne.paper", "readme"]
    done = subprocess.run(command, env={**os.environ, "PFPNE_ROOT": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1 and "claims.csv" in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []
