"""The notebooks run from anywhere, say what is wrong with a parameter, and are not executed again without need."""

import functools
import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import papermill
import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.__main__ import main
from pfpne.paper.claims import verdicts as claims
from pfpne.paper.exhibits import table1
from pfpne.paper.exhibits.maps import MAPPED_QUANTITIES
from pfpne.paper.run import batch
from pfpne.paper.run.folders import CUSTOM_FIGURES_FOLDER, FIGURES_FOLDER, NOTEBOOKS_FOLDER, SMOKE_FIGURES_FOLDER
from pfpne.paper.run.notebooks import NOTEBOOK_GROUPS, NOTEBOOKS, executions
from pfpne.paper.run.parameter_types import ParameterError
from pfpne.paper.run.parameters import HEADER, complete, find_assigned, read
from pfpne.paper.run.selections import COMPARED_ALGORITHMS, RANKED_IN_REGRET_TABLES
from pfpne.paths import INPUT_ROOT as CHECKOUT

TINY = {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 2, "n_jobs": 1}
CONSTANTS = {"c": 0.2, "Delta": "true"}
ASKED = {
    "0_how_it_works": {"horizon": 200},
    "1_synthetic_regret": {"objective": "himmelblau", "noise": 0.3, "seed": 5, "algorithms": "pf-pne,pe", **CONSTANTS},
    "2_landmine_auc": {"algorithms": ["pf-pne", "hct"]},
    "3_communication_cost": {"figures_dir": "mine"},
    "4_table1": {"horizon": 20},
    "12_claims": {"horizon": 20},
    "5_panels_and_times": {"algorithms": "pf-pne,pe"},
    "8_regime_map": {"objective": "garland", "noise": 0.1, "shift": 0.1},
    "9_why": {"n_runs": 1},
}

# What the kernel is told first. Table 1 on one objective. One claim in sixteen: test_claims has them all. And a
# constructed problem, whose horizons no parameter shortens, with those that test_lemmas has.
SHORTENED = {
    "4_table1": "from pfpne.paper.exhibits import table1\ntable1.ONE_PER_DIMENSION = ('garland',)\n",
    "12_claims": "from pfpne.paper.claims import verdicts as v\nv.evaluate_claims.__defaults__ = (v.CLAIMS[::16],)\n",
    "9_why": "from pfpne.paper.exhibits import kept_nodes\nkept_nodes.LONGEST_HORIZON = 1_600\n",
}


def make_project(root: Path) -> Path:
    """A project folder of its own, so that a test neither sees nor changes stored runs and figures."""
    (root / "notebooks").mkdir(parents=True)
    (root / "data").symlink_to(CHECKOUT / "data")
    return root


@pytest.fixture(scope="module")
def execute(tmp_path_factory):
    """execute(notebook) -> its executed copy, the project's folder, and the one where they run, far from it.

    Each is executed once, all in one kernel, which knows nothing of the one before but what is imported. (A kernel of
    its own has each that the runner executes, below.)
    """
    project, elsewhere = make_project(tmp_path_factory.mktemp("project") / "p"), tmp_path_factory.mktemp("elsewhere")
    kernel = AsyncKernelManager()

    def in_kernel(*cells):
        notebook = nbformat.v4.new_notebook(cells=list(cells))
        return NotebookClient(notebook, kernel, resources={"metadata": {"path": str(elsewhere)}}).execute()

    @functools.cache
    def execute(name: str):
        in_kernel(nbformat.v4.new_code_cell(f"{SHORTENED.get(name, '')}%reset -f\n__import__('gc').freeze()"))
        if name.startswith("3"):  # as in JupyterLab: values edited by hand, nothing injected
            cells = nbformat.read(NOTEBOOKS_FOLDER / f"{name}.ipynb", as_version=4).cells
            cell = next(cell for cell in cells if "parameters" in cell.metadata.get("tags", []))
            for asked, value in {**TINY, **ASKED[name]}.items():
                cell.source = re.sub(rf"(?m)^({asked}: .*?) = [^#]*#", rf"\1 = {value!r}  #", cell.source)
            return in_kernel(*cells)
        asked = {k: v for k, v in (TINY | ASKED[name]).items() if k in NOTEBOOKS[name].parameters}
        how = {"progress_bar": False, "cwd": elsewhere, "km": kernel}
        return papermill.execute_notebook(NOTEBOOKS_FOLDER / f"{name}.ipynb", elsewhere / f"{name}.ipynb", asked, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PFPNE_ROOT", str(project))
        patch.setenv("PFPNE_TERMINAL", "")
        in_kernel()  # it starts
    yield execute, project, elsewhere
    run_sync(kernel.shutdown_kernel)(now=True)


def check_files(folder: Path, stem: str) -> dict:
    """The four files of a figure, the only one of that name below the folder, are whole; returns its manifest."""
    (folder,) = (path.parent for path in folder.rglob(f"{stem}.json"))
    manifest = json.loads((folder / f"{stem}.json").read_text())
    assert set(manifest["files"]) == {f"{stem}.{kind}" for kind in ("pdf", "png", "csv")}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    pdf = (folder / f"{stem}.pdf").read_bytes()
    assert len(pdf) < 200_000
    assert b"/Subtype /CIDFontType2" in pdf and b"/Type3" not in pdf  # Type 42
    return manifest


# --- each notebook, as small as can be ---------------------------------------------------------------


def test_the_walkthrough(execute):
    execute, project, _ = execute
    shown = [stem for stem, _ in batch.figure_times(execute("0_how_it_works"), total=1.0)]
    assert shown == ["how_it_works"]
    check_files(project / "figures-custom", "how_it_works")


def test_regret_and_its_manifest(execute):
    execute, project, _ = execute
    execute("1_synthetic_regret")
    manifest = check_files(project / "figures-custom", "regret_himmelblau_noise0.3")
    wanted = {**TINY, **ASKED["1_synthetic_regret"], "algorithms": ["pf-pne", "pe"]}
    del wanted["n_jobs"]
    assert wanted.items() <= manifest["parameters"].items() and "n_jobs" not in manifest["parameters"]
    assert manifest["settings"]["pf-pne"]["Delta"] == "true" and manifest["settings"]["pe"]["c"] == 0.2
    assert manifest["dataset"] is None


def test_landmine(execute):
    execute, project, _ = execute
    execute("2_landmine_auc")
    for stem in ("regret_landmine_printed", "landmine_surfaces_printed"):
        manifest = check_files(project / "figures-custom", stem)
        assert set(manifest["dataset"]) == {"LandmineData.mat", "data/landmine_auc.npz"}


def test_communication_as_in_jupyterlab(execute):
    execute, _, elsewhere = execute
    execute("3_communication_cost")
    check_files(elsewhere / "mine", "communication_garland_printed")  # relative to where it was run


def test_table_1_and_the_claims(execute):
    execute, project, _ = execute
    execute("4_table1")
    execute("12_claims")
    (folder,) = (path.parent for path in project.rglob("table1.csv"))
    table = pd.read_csv(folder / "table1.csv", keep_default_na=False)
    assert set(table["algorithm"]) == set(UNLIMITED_ALGORITHMS) and table["local"].between(0, 20).all()
    growth = pd.read_csv(folder / "table1_exponents.csv")
    assert set(growth["algorithm"]) == set(UNLIMITED_ALGORITHMS) and growth["exponent"].dropna().between(-4, 5).all()
    stated = table[table["stated_regret"] != ""]
    assert set(stated["algorithm"]) == set(table1.STATED)
    stems = dict.fromkeys(("table1", "table1_exponents"), folder)
    (folder,) = (path.parent for path in project.rglob("claims.csv"))
    stems |= dict.fromkeys(("forest", "claims", "claims_primary", "claims_times"), folder)
    kept = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)
    assert set(kept["id"]) == {claim.id for claim in claims.CLAIMS[::16]}
    assert set(kept["noise"]) == {"bernoulli", "landmine"}
    for stem, folder in stems.items():
        manifest = json.loads((folder / f"{stem}.json").read_text())
        assert manifest["parameters"]["horizon"] == 20
        assert all((folder / name).exists() for name in manifest["files"])


def test_panels_and_times(execute):
    execute, project, _ = execute
    shown = [stem for stem, _ in batch.figure_times(execute("5_panels_and_times"), total=1.0)]
    panels = ["panel_main", "panel_appendix", "panel_main_cyclic", "panel_simple", "panel_communication"]
    assert shown == [f"{name}_printed" for name in (*panels, "ranking")]
    for stem in shown:
        if not stem.startswith("ranking"):  # a table
            check_files(project / "figures-custom", stem)


def test_the_map_of_one_regime(execute):
    execute, project, _ = execute
    stems = [stem for stem, _ in batch.figure_times(execute("8_regime_map"), total=1.0)]
    maps = [f"regime_{quantity}" for quantity in MAPPED_QUANTITIES]
    assert stems == ["regime_map", *maps, "break_even", "held_out", "regime_guide"]
    manifest = check_files(project / "figures-custom", "regime_map")
    assert manifest["parameters"]["n_clients"] == 2 and manifest["parameters"]["objective"] == "garland"


def test_why(execute):
    execute, project, _ = execute
    stems = [stem for stem, _ in batch.figure_times(execute("9_why"), total=1.0)]
    assert stems == ["assumptions", "assumptions_table", "why", "why_in_words", "lemmas"]
    for stem in ("assumptions", "why"):
        check_files(project / "figures-custom", stem)


def test_a_batch_makes_the_notebooks_of_its_group(monkeypatch):
    begun = []
    monkeypatch.setattr(batch, "is_unchanged", lambda *_: False)

    def make(execution):
        begun.append((execution.notebook, execution.parameters.get("reading")))
        return []

    monkeypatch.setattr(batch, "make_figures", make)
    made = {}
    for group in NOTEBOOK_GROUPS:
        assert main(["figures", "--profile", "smoke", "--group", group]) == 0
        made[group], begun[:] = Counter(begun), []
    papers = [name for name in NOTEBOOKS if name[1] == "_" and name[0] in "012345"]
    assert set(made["paper"]) == {(name, None) for name in papers}  # each of the paper's figures once
    shown = {(name, "model") for name in papers if NOTEBOOKS[name].takes_reading}
    assert set(made["evidence"]) >= {("12_claims", None), ("11_as_printed", None), ("9_why", None), *shown}
    assert set(made["map"]) == {("8_regime_map", None)}
    assert made["all"] == made["paper"] + made["evidence"] + made["map"]
    assert {name for name, _ in made["all"]} == set(NOTEBOOKS)
    assert main(["figures", "--profile", "smoke", "--only", "8_regime_map"]) == 0 and begun == [("8_regime_map", None)]


def test_nothing_is_written_but_results_and_figures(execute):
    execute, project, elsewhere = execute
    for name in ASKED:
        execute(name)
    assert sorted(os.listdir(project)) == ["data", "figures-custom", "notebooks", "results"]
    by_papermill = [f"{name}.ipynb" for name in ASKED if not name.startswith("3")]
    assert sorted(os.listdir(elsewhere)) == sorted([*by_papermill, "mine"])


# --- parameters that are wrong ----------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """IPython in this process, which has run the parameters cell of the first notebook."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False  # nothing is kept for another session
    shell.run_cell(parameters_cell("1_synthetic_regret"), store_history=True)
    yield shell
    InteractiveShell.clear_instance()


def parameters_cell(name: str) -> str:
    cells = nbformat.read(NOTEBOOKS_FOLDER / f"{name}.ipynb", as_version=4).cells
    return next(cell.source for cell in cells if "parameters" in cell.metadata.get("tags", []))


def test_a_notebook_reads_its_own_cells_and_papermills(shell):
    unchanged = complete("1_synthetic_regret", {"objective": "garland"})
    assert read("1_synthetic_regret") == unchanged, "You changed a notebook: `git checkout notebooks`"
    paths = "PAPERMILL_INPUT_PATH = 'in.ipynb'\nPAPERMILL_OUTPUT_PATH = 'out.ipynb'\n"  # as `--inject-paths` adds them
    shell.run_cell(f"# Parameters\nhorizon = 60\nprofile = 'smoke'\n{paths}", store_history=True)
    shell.run_cell("scratch = 1", store_history=True)
    asked = {"profile": "smoke", "objective": "garland", "horizon": 60}
    assert read("1_synthetic_regret") == complete("1_synthetic_regret", asked)


@pytest.mark.parametrize(
    ("injected", "message"),
    [
        ("horizn = 10", "unknown parameter 'horizn'. Did you mean 'horizon'?"),
        ("horizon = 60.5", "horizon must be an integer in 1..1000000000; got 60.5."),
    ],
)
def test_a_wrong_parameter_stops_the_notebook_with_a_sentence(shell, injected, message, capsys):
    shell.run_cell(f"# Parameters\n{injected}\n", store_history=True)
    result = shell.run_cell("import pfpne.paper.run.parameters as p; p.read('1_synthetic_regret')", store_history=True)
    assert isinstance(result.error_in_exec, ParameterError)
    shown = capsys.readouterr().out
    assert shown.startswith(f"ParameterError: {message}") and "Traceback" not in shown


def test_elsewhere_there_is_nothing_to_read():
    with pytest.raises(ParameterError, match="elsewhere call complete"):
        read("1_synthetic_regret")


ODD = (  # texts that begin as a list
    *("[", "[]", "[,]", "[1e999]", "[...]", "[*'pe']", "['pe'", "['pe'][0]", "[b'pe']", "[set()]", "[1 + 'a']"),
    *("[{[]: 1}]", "[{{}: 1}]", "[{*[[]]}]", "[\0'pe']", "[lambda: 1]", "[" * 900, f"[{'-' * 900}1]", f"[{'9' * 900}]"),
)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "garlnd"}, "Did you mean 'garland'?"),
        ({"objective": 1}, "objective must be the name of an objective; got 1"),
        ({"profile": "papr"}, "Did you mean 'paper'?"),
        ({"algorithms": "pf-pne,hctt"}, "Did you mean 'hct'?"),
        ({"algorithms": ["pe", "pe"]}, "names 'pe' more than once"),
        ({"algorithms": []}, "algorithms must be a list of names"),
        ({"algorithms": 3}, "algorithms must be a list of names"),
        *(({"algorithms": odd}, "algorithms must be a list of names") for odd in ODD),
        ({"n_clients": 0}, "n_clients must be an integer in 1..1000000; got 0"),
        ({"n_clients": True}, "n_clients must be an integer in 1..1000000; got True"),
        ({"horizon": 0}, "horizon must be an integer in 1..1000000000"),
        ({"horizon": "100k"}, "horizon must be an integer in 1..1000000000; got '100k'"),
        ({"n_runs": 1.5}, "n_runs must be an integer in 1..1000000"),
        ({"n_jobs": 0}, "n_jobs must be an integer in 1..10000"),
        ({"seed": -1}, "seed must be an integer in 0.."),
        ({"noise": -0.1}, "noise must be 0, or a number from 1e-9 to 1e9 (uniform noise on +-it), or 'bernoulli'"),
        (
            {"noise": "0.1x"},
            "noise must be 0, or a number from 1e-9 to 1e9 (uniform noise on +-it), or 'bernoulli'; got '0.1x'",
        ),
        (
            {"noise": float("nan")},
            "noise must be 0, or a number from 1e-9 to 1e9 (uniform noise on +-it), or 'bernoulli'",
        ),
        (
            {"noise": "Bernouli"},
            "noise must be 0, or a number from 1e-9 to 1e9 (uniform noise on +-it), or 'bernoulli'",
        ),
        ({"shift": -1}, "shift must be 0, or a number from 1e-9"),
        ({"rho": 1}, "rho must be a number from 1e-6"),
        ({"rho": 0.0}, "rho must be a number from 1e-6"),
        ({"nu_1": 0}, "nu_1 must be a number from 1e-9"),
        ({"c": -1}, "c must be a number from 1e-9"),
        ({"c_1": 0}, "c_1 must be a number from 1e-9"),
        ({"delta": 0}, "delta must be a number from 1e-9"),
        ({"Delta": -0.01}, "Delta must be 0, or a number from 1e-9 to 1e9, or 'true'"),
        ({"Delta": False}, "Delta must be 0, or a number from 1e-9 to 1e9, or 'true'; got False"),
        ({"figures_dir": 3}, "figures_dir must be the path of a folder"),
        ({"Horizon": 3}, "Did you mean 'horizon'?"),
        ({"algorithms": "hct", "Delta": 0.1}, "Delta is a setting of none of the algorithms hct"),
        ({"figures_dir": str(FIGURES_FOLDER), "horizon": 5}, "figures_dir must be another folder"),
        ({"figures_dir": str(FIGURES_FOLDER), "profile": "smoke"}, "figures_dir must be another folder"),
        ({"figures_dir": "\0"}, "is no path"),
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
    assert (p.profile, p.reading, p.n_clients, p.horizon, p.n_runs) == ("paper", "printed", 20, 1_000_000, 10)
    assert (p.noise, p.shift, p.seed) == (1.0, 0.1, 0)
    assert p.algorithms == RANKED_IN_REGRET_TABLES and p.settings == {}
    p = complete("1_synthetic_regret", {"reading": "model"})
    assert (p.horizon, p.noise, p.algorithms) == (100_000, "bernoulli", COMPARED_ALGORITHMS)


def test_algorithms_as_a_list_or_with_commas():
    one, two = (complete("1_synthetic_regret", {"algorithms": a}) for a in (["pe", "hct"], "pe, hct"))
    assert one.algorithms == two.algorithms == ("pe", "hct")


@pytest.mark.parametrize(
    ("parameters", "folder"),
    [
        ({}, FIGURES_FOLDER),
        ({"reading": "model", "noise": 2, "n_jobs": 1}, FIGURES_FOLDER),
        ({"reading": "model", "noise": "bernoulli", "horizon": 100_000}, FIGURES_FOLDER),
        ({"noise": 2}, CUSTOM_FIGURES_FOLDER),
        ({"noise": 0.2}, CUSTOM_FIGURES_FOLDER),
        ({"seed": 1}, CUSTOM_FIGURES_FOLDER),
        ({"algorithms": "pf-pne"}, CUSTOM_FIGURES_FOLDER),
        ({"c": 0.2}, CUSTOM_FIGURES_FOLDER),
        ({"profile": "smoke"}, SMOKE_FIGURES_FOLDER),
        ({"profile": "smoke", "n_runs": 1}, CUSTOM_FIGURES_FOLDER),
    ],
)
def test_only_the_profiles_own_figures_go_to_its_folder(parameters, folder):
    p = complete("1_synthetic_regret", {"objective": "rastrigin", **parameters})
    assert (p.figures_dir.parent if folder == CUSTOM_FIGURES_FOLDER else p.figures_dir) == folder


def test_ones_own_figures_have_a_folder_for_each_choice_of_parameters(tmp_path):
    asked = (
        {"n_clients": 3},
        {"n_clients": 6},
        {"noise": 0.3},
        {"algorithms": "pf-pne,pe"},
        {"algorithms": "pe,pf-pne"},
        {"delta": 0.2},
        {"Delta": 0.2},
    )
    folders = [complete("1_synthetic_regret", one).figures_dir for one in asked]
    names = {folder.name.lower() for folder in folders}  # as file systems that do not tell case apart see them
    assert len(names) == len(asked) and all(folder.parent == CUSTOM_FIGURES_FOLDER for folder in folders)
    assert folders[0].name == "n_clients-3"
    hostile = complete("3_communication_cost", {"figures_dir": str(tmp_path / "a b/../\N{SNOWMAN}'"), "seed": 1})
    assert hostile.figures_dir == tmp_path / "\N{SNOWMAN}'"
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="cannot be written to: .*file is no folder"):
        complete("1_synthetic_regret", {"figures_dir": str(tmp_path / "file" / "inside")})


@pytest.mark.parametrize(
    "given", ['["hct", "pe"]', "['hct','pe']", "hct,pe", " hct , pe", ["hct", "pe"], ("hct", "pe")]
)
def test_algorithms_may_come_as_a_list_or_as_text(given):
    assert complete("1_synthetic_regret", {"algorithms": given}).algorithms == ("hct", "pe")


@pytest.mark.parametrize("none", [None, "null", "None", " none "])
def test_null_is_the_profiles_value(none):
    assert complete("1_synthetic_regret", {"noise": none, "seed": none}) == complete("1_synthetic_regret", {})


@pytest.mark.parametrize(
    ("notebook", "parameters", "message"),
    [
        ("2_landmine_auc", {"objective": "garland"}, "takes no 'objective': leave it out"),
        ("1_synthetic_regret", {"objective": "landmine"}, "a notebook of its own: 2_landmine_auc"),
        ("3_communication_cost", {"objective": "landmine", "shift": 0.3}, "landmine takes no 'shift'"),
        (
            "1_synthetic_regret",
            {"profile": "smoke", "figures_dir": str(FIGURES_FOLDER / "mine")},
            "must be another folder",
        ),
        ("1_synthetic_regret", {"figures_dir": "~no-such-user/x"}, "is no path"),
    ],
)
def test_what_another_notebook_takes_is_said(notebook, parameters, message):
    with pytest.raises(ParameterError, match=message):
        complete(notebook, parameters)


def test_a_range_that_only_the_algorithm_knows_is_a_parameter_error():
    with pytest.raises(ParameterError, match="delta must be a number from 1e-9 to 1;"):
        complete("1_synthetic_regret", {"profile": "smoke", "delta": 2.0, "algorithms": "hct"}).experiment()


@pytest.mark.parametrize("profile", ["smoke", "paper"])
def test_all_that_the_runner_executes_goes_to_the_profiles_folder(profile):
    for name, parameters in executions(profile):
        home = FIGURES_FOLDER if profile == "paper" else SMOKE_FIGURES_FOLDER
        assert complete(name, {"profile": profile, **parameters}).figures_dir == home


def test_only_the_latest_parameters_count():
    own, injected = f"{HEADER}\nhorizon = 5  # T", "# Parameters\nseed = 3\n"
    assert find_assigned(["stray = 1", own, injected, "p = read()", "scratch = 2"]) == ["seed", "horizon"]
    assert find_assigned([own.replace("horizon", "horizn"), "read()", own, "read()"]) == ["horizon"]
    with pytest.raises(ParameterError, match="first run the cell"):
        find_assigned(["x = 1"])


def test_default_algorithms():
    ours = {"hct", "pe"}
    assert set(COMPARED_ALGORITHMS) == {"pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne"} | ours
    assert set(NOTEBOOKS["3_communication_cost"].algorithms) == {"fed-pne", "pf-pne"}


# --- the runner -------------------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A project whose first notebook raises an error for garland, and for others kills its process."""
    name = "1_synthetic_regret"
    content = nbformat.read(NOTEBOOKS_FOLDER / f"{name}.ipynb", as_version=4)
    kill = "import os\nif objective != 'garland':\n    os.kill(os.getpid(), 9)\nraise RuntimeError('broken on purpose')"
    content.cells.insert(2, nbformat.v4.new_code_cell(kill))
    project = make_project(tmp_path / "project")
    nbformat.write(content, project / "notebooks" / f"{name}.ipynb")
    monkeypatch.setenv("PFPNE_ROOT", str(project))
    monkeypatch.setenv("PFPNE_TERMINAL", "")
    monkeypatch.setattr(batch, "NOTEBOOKS_FOLDER", project / "notebooks")
    monkeypatch.setattr(batch, "EXECUTED_FOLDER", project / "executed")
    return project


def test_a_failing_notebook_fails_the_runner_and_leaves_the_figures(broken, monkeypatch, capsys):
    monkeypatch.setattr(batch, "executions", lambda profile: executions(profile)[1:2])
    assert main(["figures", "--profile", "smoke"]) == 1
    said = capsys.readouterr().err
    assert "1_synthetic_regret_garland failed: RuntimeError: broken on purpose" in said
    copies = [path for path in broken.rglob("*.ipynb") if path.parent.name == "smoke"]
    assert [path.name for path in copies] == ["1_synthetic_regret_garland.failed.ipynb"]
    assert str(copies[0]) in said and "Traceback" not in said
    assert sorted(os.listdir(broken)) == ["data", "executed", "notebooks"]


def test_a_notebook_whose_process_is_killed_is_named(broken):
    with pytest.raises(batch.FailedNotebook, match="1_synthetic_regret_ackley failed: its process was killed"):
        batch.make_figures(batch.Execution("smoke", "1_synthetic_regret", {"objective": "ackley"}, {"n_jobs": 1}))


@pytest.mark.parametrize(("stopped_by", "code"), [(batch.FailedNotebook, 1), (KeyboardInterrupt, 130)])
def test_after_an_error_no_other_notebook_begins(monkeypatch, stopped_by, code):
    three = ("first", "second", "third")

    def make(execution):
        begun.append(execution.notebook)
        if execution.notebook == "second":
            raise stopped_by
        return []

    monkeypatch.setattr(batch, "check_notebook", lambda _: None)
    monkeypatch.setattr(batch, "is_unchanged", lambda *_: False)
    monkeypatch.setattr(batch, "make_figures", make)
    monkeypatch.setattr(batch, "executions", lambda profile: [(name, {}) for name in three])
    monkeypatch.setattr(batch, "NOTEBOOKS", dict.fromkeys(three))
    begun = []
    assert batch.run_batch("paper") == code and begun == ["first", "second"]


def test_a_notebook_is_executed_again_only_if_something_changed(tmp_path):
    (tmp_path / "picture.csv").write_bytes(b"csv")
    (tmp_path / "picture.json").write_text(json.dumps({"files": {"picture.csv": "as in the manifest"}}))
    executed = tmp_path / "executed.ipynb"
    assert not batch.is_unchanged(SimpleNamespace(target=executed, inputs="inputs", folder=tmp_path))
    made = {"inputs": "inputs", "files": {"picture": batch.file_hashes(tmp_path, "picture")}}
    executed.write_text(json.dumps({"metadata": {"pfpne": made}}))
    assert batch.is_unchanged(SimpleNamespace(target=executed, inputs="inputs", folder=tmp_path))
    assert not batch.is_unchanged(SimpleNamespace(target=executed, inputs="other inputs", folder=tmp_path))
    (tmp_path / "picture.csv").write_bytes(b"edited")
    assert not batch.is_unchanged(SimpleNamespace(target=executed, inputs="inputs", folder=tmp_path))
    (tmp_path / "picture.csv").unlink()
    assert not batch.is_unchanged(SimpleNamespace(target=executed, inputs="inputs", folder=tmp_path))
