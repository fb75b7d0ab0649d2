"""The notebooks run by papermill from anywhere, say what is wrong with a parameter, and draw the same bytes twice."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from nbclient import NotebookClient

from pfpne.paper import notebook
from pfpne.paper.__main__ import figure_times, file_hashes, made_before
from pfpne.paper.exhibits import Exhibit, save
from pfpne.paper.notebook import ParameterError, assigned, complete
from pfpne.paths import DATA, FIGURES, FIGURES_CUSTOM, FIGURES_SMOKE, NOTEBOOKS

TINY = {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 2, "n_jobs": 1}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder of its own, so that a test neither sees nor changes stored runs and figures."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "data").symlink_to(DATA)
    (root / "notebooks").symlink_to(NOTEBOOKS)
    monkeypatch.setenv("PFPNE_ROOT", str(root))
    monkeypatch.setenv("PFPNE_TERMINAL", "")
    return root


def execute(name: str, project: Path, **parameters):
    """Run the notebook from a folder that has nothing to do with the project."""
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    source, target = NOTEBOOKS / f"{name}.ipynb", elsewhere / "out.ipynb"
    return papermill.execute_notebook(source, target, parameters, progress_bar=False, cwd=elsewhere)


def check_files(folder: Path, stem: str) -> dict:
    """The four files of a figure are whole; returns its manifest."""
    manifest = json.loads((folder / f"{stem}.json").read_text())
    assert set(manifest["files"]) == {f"{stem}.{kind}" for kind in ("pdf", "png", "csv")}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    pdf = (folder / f"{stem}.pdf").read_bytes()
    assert len(pdf) < 200_000
    assert b"/Subtype /CIDFontType2" in pdf and b"/Type3" not in pdf  # Type 42
    return manifest


# --- each notebook ----------------------------------------------------------------------------------


def test_regret_and_its_manifest(project):
    asked = {"objective": "himmelblau", "noise": 0.3, "c": 0.2, "Delta": "true", "algorithms": "pf-pne,pe", "seed": 5}
    execute("1_synthetic_regret", project, **TINY, **asked)
    folder = project / "figures-custom"
    assert sorted(os.listdir(project)) == ["data", "figures-custom", "notebooks", "results"]
    manifest = check_files(folder, "regret_himmelblau_noise0.3")
    wanted = {**TINY, **asked, "algorithms": ["pf-pne", "pe"]}
    del wanted["n_jobs"]
    assert wanted.items() <= manifest["parameters"].items() and "n_jobs" not in manifest["parameters"]
    assert manifest["settings"]["pf-pne"]["Delta"] == "true" and manifest["settings"]["pe"]["c"] == 0.2
    assert manifest["dataset"] is None


def test_landmine(project):
    execute("2_landmine_auc", project, **TINY, algorithms=["pf-pne", "hct"])
    for stem in ("regret_landmine", "landmine_surfaces"):
        manifest = check_files(project / "figures-custom", stem)
        assert set(manifest["dataset"]) == {"LandmineData.mat", "data/landmine_auc.npz"}


def test_communication_as_in_jupyterlab(project):
    content = nbformat.read(NOTEBOOKS / "3_communication_cost.ipynb", as_version=4)
    cell = next(cell for cell in content.cells if "parameters" in cell.metadata.get("tags", []))
    for name, value in {**TINY, "figures_dir": "mine"}.items():  # values edited by hand, nothing injected
        cell.source = re.sub(rf"^{name} = [^#]*#", f"{name} = {value!r}  #", cell.source, flags=re.MULTILINE)
    NotebookClient(content, resources={"metadata": {"path": str(project)}}).execute()
    check_files(project / "mine", "communication_garland")  # relative to where it was run


def test_panels_and_times(project):
    executed = execute("5_panels_and_times", project, **TINY, algorithms="pf-pne,pe")
    shown = [stem for stem, _ in figure_times(executed, total=1.0)]
    panels = ["panel_main_bernoulli", "panel_appendix_bernoulli", "panel_main_regimes", "panel_communication"]
    assert shown == [*panels, "times"]
    for stem in shown:
        check_files(project / "figures-custom", stem)


# --- parameters that are wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"horizn": 10}, "unknown parameter 'horizn'. Did you mean 'horizon'?"),
        ({"horizon": 60.0}, "horizon must be an integer >= 1; got 60.0 (float). Write 60."),
    ],
)
def test_a_wrong_parameter_stops_the_notebook(project, parameters, message):
    with pytest.raises(papermill.PapermillExecutionError, match="ParameterError") as caught:
        execute("1_synthetic_regret", project, **(TINY | {"objective": "garland"} | parameters))
    assert message in caught.value.evalue
    assert sorted(os.listdir(project)) == ["data", "notebooks"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "garlnd"}, "Did you mean 'garland'?"),
        ({"objective": 1}, "objective must be the name of an objective; got 1 (int)"),
        ({"profile": "papr"}, "Did you mean 'paper'?"),
        ({"algorithms": "pf-pne,hctt"}, "Did you mean 'hct'?"),
        ({"algorithms": ["pe", "pe"]}, "names 'pe' more than once"),
        ({"algorithms": []}, "algorithms must be a list of names"),
        ({"algorithms": 3}, "algorithms must be a list of names"),
        ({"n_clients": 0}, "n_clients must be an integer >= 1; got 0"),
        ({"n_clients": True}, "n_clients must be an integer >= 1; got True (bool)"),
        ({"horizon": 0}, "horizon must be an integer >= 1"),
        ({"horizon": "100"}, "horizon must be an integer >= 1; got '100' (str)"),
        ({"n_runs": 1.5}, "n_runs must be an integer >= 1"),
        ({"n_jobs": 0}, "n_jobs must be an integer >= 1"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"noise": -0.1}, "noise must be a number >= 0 or 'bernoulli'"),
        ({"noise": "0.1"}, "noise must be a number >= 0 or 'bernoulli'; got '0.1' (str)"),
        ({"noise": float("nan")}, "noise must be a number >= 0 or 'bernoulli'"),
        ({"noise": "Bernoulli"}, "noise must be a number >= 0 or 'bernoulli'"),
        ({"shift": -1}, "shift must be a number >= 0"),
        ({"rho": 1}, "rho must be a number between 0 and 1"),
        ({"rho": 0.0}, "rho must be a number between 0 and 1"),
        ({"nu_1": 0}, "nu_1 must be a number > 0"),
        ({"c": -1}, "c must be a number > 0"),
        ({"c_1": 0}, "c_1 must be a number > 0"),
        ({"delta": 0}, "delta must be a number > 0"),
        ({"Delta": -0.01}, "Delta must be a number >= 0 or 'true'"),
        ({"Delta": True}, "Delta must be a number >= 0 or 'true'; got True (bool)"),
        ({"figures_dir": 3}, "figures_dir must be the path of a folder"),
        ({"Horizon": 3}, "Did you mean 'horizon'?"),
        ({"algorithms": "hct", "Delta": 0.1}, "Delta is a setting of none of the algorithms hct"),
        ({"figures_dir": str(FIGURES), "horizon": 5}, "figures_dir must be another folder"),
        ({"figures_dir": str(FIGURES), "profile": "smoke"}, "figures_dir must be another folder"),
    ],
)
def test_what_is_wrong_is_said(parameters, message):
    with pytest.raises(ParameterError) as caught:
        complete("1_synthetic_regret", {"objective": "garland", **parameters})
    assert message in str(caught.value)


def test_parameters_that_mean_nothing_for_a_notebook_are_refused():
    with pytest.raises(ParameterError, match="takes no 'objective'"):
        complete("2_landmine_auc", {"objective": "garland"})


def test_communication_is_not_drawn_of_algorithms_that_have_none():
    with pytest.raises(ParameterError, match="none of pe, hct communicates. Add one of: pf-pne, fed-pne"):
        complete("3_communication_cost", {"algorithms": "pe,hct"})
    assert complete("3_communication_cost", {"algorithms": "pe,centralized"}).algorithms == ("pe", "centralized")


# --- parameters that are right ----------------------------------------------------------------------


def test_none_is_the_profiles_value():
    p = complete("1_synthetic_regret", {"objective": "garland", "horizon": None, "algorithms": None})
    assert (p.profile, p.n_clients, p.horizon, p.n_runs) == ("paper", 20, 100_000, 10)
    assert (p.noise, p.shift, p.seed) == ("bernoulli", 0.1, 0)
    assert p.algorithms == notebook.COMPARED and p.settings == {}


def test_algorithms_as_a_list_or_with_commas():
    one, two = (complete("1_synthetic_regret", {"algorithms": a}) for a in (["pe", "hct"], "pe, hct"))
    assert one.algorithms == two.algorithms == ("pe", "hct")


@pytest.mark.parametrize(
    ("parameters", "folder"),
    [
        ({}, FIGURES),
        ({"noise": 2, "n_jobs": 1}, FIGURES),
        ({"noise": "bernoulli", "horizon": 100_000}, FIGURES),
        ({"noise": 0.2}, FIGURES_CUSTOM),
        ({"seed": 1}, FIGURES_CUSTOM),
        ({"algorithms": "pf-pne"}, FIGURES_CUSTOM),
        ({"c": 0.2}, FIGURES_CUSTOM),
        ({"profile": "smoke"}, FIGURES_SMOKE),
        ({"profile": "smoke", "n_runs": 1}, FIGURES_CUSTOM),
    ],
)
def test_only_the_profiles_own_figures_go_to_its_folder(parameters, folder):
    p = complete("1_synthetic_regret", {"objective": "rastrigin", **parameters})
    assert p.figures_dir == folder and p.official == (folder != FIGURES_CUSTOM)


@pytest.mark.parametrize(
    ("notebook", "parameters", "message"),
    [
        ("2_landmine_auc", {"objective": "garland"}, "takes no 'objective': leave it out"),
        ("1_synthetic_regret", {"objective": "landmine"}, "a notebook of its own: 2_landmine_auc"),
        ("3_communication_cost", {"objective": "landmine", "shift": 0.3}, "landmine takes no 'shift'"),
        ("1_synthetic_regret", {"profile": "smoke", "figures_dir": str(FIGURES / "mine")}, "must be another folder"),
        ("1_synthetic_regret", {"figures_dir": "~no-such-user/x"}, "is no path"),
    ],
)
def test_what_another_notebook_takes_is_said(notebook, parameters, message):
    with pytest.raises(ParameterError, match=message):
        complete(notebook, parameters)


def test_a_range_that_only_the_algorithm_knows_is_a_parameter_error():
    with pytest.raises(ParameterError, match="delta must be a number in"):
        complete("1_synthetic_regret", {"profile": "smoke", "delta": 2.0, "algorithms": "hct"}).experiment()


@pytest.mark.parametrize("profile", ["smoke", "paper"])
def test_everything_that_the_runner_executes_is_official(profile):
    for name, parameters in notebook.executions(profile):
        if name in notebook.NOTEBOOKS:
            assert complete(name, {"profile": profile, **parameters}).official


def test_only_the_latest_parameters_count():
    own, injected = f"{notebook.HEADER}\nhorizon = 5  # T", "# Parameters\nseed = 3\n"
    assert assigned(["stray = 1", own, injected, "p = read()", "scratch = 2"]) == ["seed", "horizon"]
    assert assigned([own.replace("horizon", "horizn"), "read()", own, "read()"]) == ["horizon"]
    with pytest.raises(ParameterError, match="first run the cell"):
        assigned(["x = 1"])


def test_default_algorithms():
    ours = {"hct", "pe"}
    assert set(notebook.COMPARED) == {"pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne"} | ours
    assert set(notebook.NOTEBOOKS["3_communication_cost"].algorithms) == {"fed-pne", "pf-pne"}


# --- the runner -------------------------------------------------------------------------------------


def test_a_failing_notebook_fails_the_runner_and_leaves_the_figures(project):
    (project / "notebooks").unlink()
    (project / "notebooks").mkdir()
    name, _ = notebook.executions("smoke")[0]
    broken = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    broken.cells.insert(-1, nbformat.v4.new_code_cell("raise RuntimeError('broken on purpose')"))
    nbformat.write(broken, project / "notebooks" / f"{name}.ipynb")
    command = [sys.executable, "-m", "pfpne.paper", "figures", "--profile", "smoke"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project)
    assert done.returncode != 0
    assert "RuntimeError: broken on purpose" in done.stderr and "Traceback" not in done.stderr
    assert not (project / "figures-smoke").exists()
    assert {path.suffixes[-2] for path in (project / "executed" / "smoke").iterdir()} == {".failed"}


def test_a_notebook_is_executed_again_only_if_something_changed(tmp_path):
    picture = Exhibit("picture", "caption", {"picture.pdf": b"pdf", "picture.csv": b"csv"}, {})
    p = complete("1_synthetic_regret", {**TINY, "figures_dir": str(tmp_path)})
    save(p, picture)
    executed = tmp_path / "executed.ipynb"
    assert made_before(executed, "inputs", tmp_path) is None
    made = {"inputs": "inputs", "files": {"picture": file_hashes(tmp_path, "picture")}}
    executed.write_text(json.dumps({"metadata": {"pfpne": made}}))
    assert made_before(executed, "inputs", tmp_path) == ["picture"]
    assert made_before(executed, "other inputs", tmp_path) is None
    (tmp_path / "picture.csv").write_bytes(b"edited")
    assert made_before(executed, "inputs", tmp_path) is None
    (tmp_path / "picture.csv").unlink()
    assert made_before(executed, "inputs", tmp_path) is None
