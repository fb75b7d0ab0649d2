"""The files around the package: they agree with each other, and hold nothing of the machine they were made on."""

import ast
import inspect
import json
import re
import subprocess
import tomllib
import types
from pathlib import Path

import papermill
import papermill.cli
import pytest

import pfpne
from pfpne.paper.run import notebooks, parameters
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paper.run.parameter_types import PARAMETERS
from pfpne.paper.show.style import TITLES
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.problems import OBJECTIVES

NOTEBOOK_NAMES = sorted(path.stem for path in NOTEBOOKS_FOLDER.glob("*.ipynb"))
CONDA_NAMES = {"matplotlib-base": "matplotlib"}  # conda-forge's matplotlib without a window toolkit


def requirement(line: str) -> tuple[str, str]:
    """("numpy", ">=2.0") from "numpy>=2.0", names in lower case."""
    name, bounds = re.fullmatch(r"([\w.-]+)\s*([<>=!~].*)?", line.strip()).groups()
    return CONDA_NAMES.get(name, name).lower(), bounds or ""


def pyproject() -> dict:
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def asked_for(*extras: str) -> list[str]:
    project = pyproject()
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


def test_environment_asks_for_what_pyproject_asks_for():
    project = pyproject()
    wanted = {requirement(line) for line in asked_for("paper", "test", "docs", "lint")}
    wanted.add(("python", project["requires-python"]))
    lines = [line.split("#")[0].strip() for line in (CHECKOUT / "environment.yml").read_text().splitlines()]
    asked = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    own = {"conda-forge", "pip", "pip:", "-e ."}
    assert own <= set(asked)
    assert {requirement(line) for line in asked if line not in own} == wanted


def test_lock_pins_every_dependency_and_names_no_index():
    text = (CHECKOUT / "requirements.lock").read_text()
    assert not re.search(r"://|^\s*-(?!-hash=sha256:)", text, re.MULTILINE)
    pinned = {line.split("==")[0].lower() for line in text.splitlines() if "==" in line and not line.startswith(" ")}
    for line in asked_for("paper", "test", "docs", "lint"):
        assert requirement(line)[0] in pinned


def test_what_is_installed_is_what_was_locked():
    """Each pin has the hashes of its files, and `make` takes no other."""
    pins = (CHECKOUT / "requirements.lock").read_text().replace("\\\n", "").splitlines()
    assert len(pins) > 100
    for pin in pins:
        assert re.fullmatch(r"[\w.-]+==\S+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", pin), pin[:80]
    install = [line for line in (CHECKOUT / "Makefile").read_text().splitlines() if "-r requirements.lock" in line]
    assert len(install) == 1 and "--require-hashes" in install[0] and "--no-deps" in install[0]


@pytest.mark.parametrize("name", NOTEBOOK_NAMES)
def test_notebook_is_committed_clean(name):
    content = json.loads((NOTEBOOKS_FOLDER / f"{name}.ipynb").read_text())
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    tags = [cell["metadata"].get("tags", []) for cell in content["cells"]]
    clean = (
        all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
        and tags.count(["parameters"]) == 1
        and all(not tag or tag == ["parameters"] for tag in tags)
        and all(set(cell["metadata"]) <= {"tags"} for cell in content["cells"])
        and set(content["metadata"]) <= {"kernelspec", "language_info"}
        and content["metadata"]["kernelspec"]["name"] == "python3"
        and content["metadata"]["language_info"] == {"name": "python"}
        and code[0]["metadata"]["tags"] == ["parameters"]
        and code[0]["source"][0].rstrip() == parameters.HEADER
    )
    assert clean, f"{name} has outputs or settings of its last run. You changed a notebook: `git checkout notebooks`"


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_each_parameter_is_in_the_notebook_with_its_meaning(name):
    found = papermill.inspect_notebook(NOTEBOOKS_FOLDER / f"{name}.ipynb")
    assert tuple(found) == notebooks.NOTEBOOKS[name].parameters
    assert all(parameter["help"] for parameter in found.values())
    for parameter in found.values():  # `papermill --help-notebook` shows the types
        hint, default = parameter["inferred_type_name"], ast.literal_eval(parameter["default"])
        assert hint.removesuffix(" or None") == PARAMETERS[parameter["name"]].hint
        assert type(default).__name__.removesuffix("Type") in re.split(", | or ", hint)
    if name == "1_synthetic_regret":  # which takes all; others may say more of their own
        declared = {key: row.meaning for key, row in PARAMETERS.items() if key not in ("profile", "objective")}
        assert declared.items() <= {key: parameter["help"] for key, parameter in found.items()}.items()


def committed() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [CHECKOUT / name for name in listed.stdout.split("\0") if name and (CHECKOUT / name).is_file()]


def test_committed_files_hold_no_path_of_a_machine():
    home = re.escape(f"{Path.home()}/".encode())
    pattern = re.compile(rb"(?<![\w.~*])/(?:home|Users|root|work|tmp|opt)/\w|" + home)
    found = {}
    for path in committed():
        match = pattern.search(path.read_bytes())
        if match:
            found[path.name] = match.group()
    assert not found


def test_readme_code_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = (CHECKOUT / "docs" / "baselines.md").read_text().split("## Running one from Python")[1]
    text = (CHECKOUT / "README.md").read_text() + examples
    blocks = re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", text, re.DOTALL)
    assert len(blocks) == 3 and blocks[0][1]
    for block, said in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
        shown = capsys.readouterr().out
        assert not said or shown == said


def test_readme_commands_use_parameters_that_exist():
    commands = re.findall(r"papermill notebooks/(\w+)\.ipynb out\.ipynb([^`\n]*)", (CHECKOUT / "README.md").read_text())
    assert len(commands) >= 5
    for name, arguments in commands:
        given = dict(re.findall(r"-p (\w+) (\S+)", arguments))
        assert set(given) <= set(papermill.inspect_notebook(NOTEBOOKS_FOLDER / f"{name}.ipynb"))
        parameters.complete(name, {key: papermill.cli._resolve_type(value) for key, value in given.items()})


def test_readme_takes_five_minutes():
    text = (CHECKOUT / "README.md").read_text()
    assert len(text.splitlines()) <= 130 and len(text.split()) <= 1400
    found = text.partition("## What was found")[2].partition("\n## ")[0]
    bullets = [line.removeprefix("- ").split() for line in found.splitlines() if line.startswith("- ")]
    assert 0 < len(bullets) <= 8 and all(len(words) <= 40 for words in bullets)


def test_readme_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", (CHECKOUT / "README.md").read_text())
    made = () if (CHECKOUT / "figures").exists() else tuple(link for link in links if link.startswith("figures/"))
    assert [link for link in links if not (CHECKOUT / link).exists() and link not in made] == []


def test_every_deviation_cited_is_listed():
    listed = re.findall(r"^\| (\d+) \|", (CHECKOUT / "docs" / "deviations.md").read_text(), re.MULTILINE)
    assert listed == [str(n + 1) for n in range(len(listed))] and len(listed) >= 19
    cited = {n for path in (CHECKOUT / "pfpne").rglob("*.py") for n in re.findall(r"deviation (\d+)", path.read_text())}
    assert cited <= set(listed)


def test_the_first_page_of_jupyterlab_shows_every_notebook_and_its_links_lead_somewhere():
    content = json.loads((CHECKOUT / "index.ipynb").read_text())
    text = "".join("".join(cell["source"]) for cell in content["cells"])
    assert all(f"(notebooks/{name}.ipynb)" in text for name in NOTEBOOK_NAMES)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (CHECKOUT / link).exists() and not link.startswith("figures/")] == []


def test_saving_an_untouched_notebook_in_jupyterlab_leaves_it_as_it_was():
    settings = types.SimpleNamespace(ServerApp=None, LabApp=None, FileContentsManager=None)
    for name in vars(settings):
        setattr(settings, name, types.SimpleNamespace())
    config = CHECKOUT / "notebooks" / "lab_config.py"
    exec(config.read_text(), {"c": settings, "__file__": str(config)})
    committed = json.loads((NOTEBOOKS_FOLDER / "1_synthetic_regret.ipynb").read_text())
    opened = json.loads(json.dumps(committed))
    opened["metadata"]["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
    opened["metadata"]["language_info"] |= {"version": "3.11.7", "file_extension": ".py"}
    settings.FileContentsManager.pre_save_hook(model={"type": "notebook", "content": opened}, path="")
    assert opened == committed
    settings.FileContentsManager.pre_save_hook(model={"type": "file", "content": "text"}, path="")
    assert settings.ServerApp.root_dir == str(CHECKOUT)


def test_every_objective_has_a_title():
    assert set(TITLES) == set(OBJECTIVES)


def test_what_a_name_of_the_public_api_takes_is_said_by_its_docstring():
    assert sorted(pfpne._WHERE) == pfpne.__all__  # which is written out, for type checkers
    for name in pfpne.__all__:
        public = getattr(pfpne, name)
        said = f"{inspect.getdoc(public)} {inspect.getdoc(public.__init__)}"
        taken = set(inspect.signature(public).parameters)
        assert {parameter for parameter in taken if not re.search(rf"\b{parameter}\b", said)} == set(), name
