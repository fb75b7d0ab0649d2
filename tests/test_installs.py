"""A wheel in an environment of its own, from a folder of its own, at both ends of the declared versions."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pfpne.paths import INPUT_ROOT as CHECKOUT

pytestmark = pytest.mark.slow

USE = """
import pathlib, sys, pfpne, pfpne.paths
package = pathlib.Path(pfpne.__file__).parent
assert pfpne.paths.INPUT_ROOT == package and pfpne.paths.OUTPUT_ROOT == pathlib.Path.cwd() != package.parent
assert "PyXAB" not in sys.modules and "sklearn" not in sys.modules
result = pfpne.tune([lambda p: 1 - abs(p["x"] - 0.3)] * 2, {"x": pfpne.Float(0, 1)}, 200, noise=0, progress=False)
assert abs(result.deploy["0"]["x"] - 0.3) < 0.01, result
for name in ("pf-pne", "hct", "fed1-ucb", "fn-ucb"):
    run = pfpne.simulate(name, pfpne.make_problem("landmine", 3, noise=0), horizon=50)
    assert run.regret.shape == (3, 50)
print(pfpne.__version__)
"""


def oldest() -> list[str]:
    """Every direct requirement of the library and the notebooks at its lowest declared version."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["paper"]]
    return [re.sub(">=", "==", line) for line in lines]


def command(*words, **how) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **how)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=CHECKOUT)
    (made,) = folder.glob("*.whl")
    return made


def install(folder: Path, *what) -> Path:
    """The Python of a new environment, in a folder with a space in its name."""
    home = folder / "an environment"
    command(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    command(python, "-m", "pip", "install", "--quiet", *what)
    return python


def use(python: Path, folder: Path, *words) -> str:
    """Run from an empty folder that has no checkout near it; nothing may be written into the package."""
    work = folder / "my work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PFPNE", "PYTHON"))}
    package = next((python.parent.parent / "lib").glob("python*/site-packages/pfpne"))

    def files() -> set[Path]:
        return {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}

    before = files()
    said = command(python, *words, cwd=work, env=environment)
    assert files() == before
    return said


def test_a_wheel_works_from_any_folder_with_few_packages(wheel, tmp_path):
    python = install(tmp_path, wheel)
    assert use(python, tmp_path, "-c", USE).strip() == "0.1.0"
    listed = command(python, "-m", "pip", "list", "--format=freeze").splitlines()
    assert len(listed) <= 15, listed
    assert not list((tmp_path / "my work").iterdir())


def test_the_notebooks_of_a_wheel_are_executed_at_the_newest_versions(wheel, tmp_path):
    python = install(tmp_path, f"{wheel}[paper]")
    said = use(python, tmp_path, "-m", "pfpne.paper", "figures", "--profile", "smoke", "--only", "1_synthetic_regret")
    assert "figures-smoke" in said
    work = tmp_path / "my work"
    assert {"executed", "figures-smoke", "results"} <= {path.name for path in work.iterdir()}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the oldest versions are for the oldest Python")
def test_a_wheel_works_with_the_oldest_declared_versions(wheel, tmp_path):
    python = install(tmp_path, f"{wheel}[paper]", *oldest())
    assert use(python, tmp_path, "-c", USE).strip() == "0.1.0"
    script = (
        "from pfpne.paper.run.experiment import Experiment\n"
        "from pfpne.paper.run.results import run_experiment\n"
        "print(len(run_experiment(Experiment('garland', 2, 50, algorithms=('hct',), n_runs=1)).regret))"
    )
    assert command(python, "-c", script, cwd=tmp_path / "my work").strip() == "50"
