"""The two commands as a stranger has them: an empty home, a space in the path, no UTF-8, no network once installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pfpne.paths import PACKAGE_FOLDER

CHECKOUT = PACKAGE_FOLDER.parent
BLOCK = """
import socket

def refused(self, address):
    if self.family != getattr(socket, "AF_UNIX", None) and not str(address[0]).startswith(("127.", "::1", "localhost")):
        raise OSError(f"blocked: {address}")
    return connect(self, address)

connect, socket.socket.connect = socket.socket.connect, refused
"""
WHOLE = "import ensurepip, venv, sys; print(sys.executable)"  # what pyenv's scripts lead to


def interpreters() -> list[str]:
    """The oldest and the newest Python found that the project is for."""
    names = [f"python3.{minor}" for minor in range(11, 20)]
    folders = [*os.environ["PATH"].split(os.pathsep), *map(str, Path.home().glob(".pyenv/versions/*/bin"))]
    found = {}
    for name in names:
        for path in filter(None, (shutil.which(name, path=folder) for folder in folders)):
            whole = subprocess.run([path, "-c", WHOLE], capture_output=True, text=True)
            if whole.returncode == 0:
                found.setdefault(name, whole.stdout.strip())
    return list(dict.fromkeys([*found.values()][:1] + [*found.values()][-1:])) or [sys.executable]


def run(command: list[str], where: Path, environment: dict) -> str:
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, timeout=3600)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said[-5000:]
    return said


@pytest.fixture
def machine(tmp_path) -> tuple[Path, dict]:
    """A project's folder, and an environment that has little more than a path and where packages come from."""
    project, home = tmp_path / "my project", tmp_path / "home"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True)
    if names.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, names.stdout.split("\0")):
        if (CHECKOUT / name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, project / name)
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith(("PIP_", "SSL_"))}
    return project, {**kept, "HOME": str(home), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def blocked(environment: dict, folder: Path) -> dict:
    """The environment without a network: only this machine can be connected to."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BLOCK)
    return {**environment, "PYTHONPATH": str(folder)}


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1], ids=["oldest", "newest"])
def test_the_two_commands(place, machine, tmp_path):
    project, environment = machine
    pythons = interpreters()
    if place == len(pythons):
        pytest.skip("one version of Python was found, and it is tried as the oldest")
    python = pythons[place]
    run(["make", ".venv/.ready", f"PYTHON={python}"], project, environment)
    alone = blocked(environment, tmp_path / "blocked")
    with pytest.raises(AssertionError, match="blocked"):
        code = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
        run([str(project / ".venv" / "bin" / "python"), "-c", code], project, alone)
    said = run(["make", "figures", "PROFILE=smoke"], project, alone)
    assert "in all, profile smoke" in said
    assert len(list((project / "figures-smoke").glob("*.json"))) >= 20
    assert "unchanged" in run(["make", "figures", "PROFILE=smoke"], project, alone)
    run(["make", "test"], project, alone)
    status = subprocess.run(
        ["find", ".", "-newer", ".venv/.ready", "-path", "./figures/*"], cwd=project, capture_output=True
    )
    assert status.stdout == b""  # the paper's figures are as they came


@pytest.mark.slow
def test_a_wheel_is_enough(machine, tmp_path):
    project, environment = machine
    installed, where = tmp_path / "site", tmp_path / "some where"
    where.mkdir()
    wheel = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(project)]
    run([sys.executable, *wheel], tmp_path, environment)
    (file,) = tmp_path.glob("*.whl")
    run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(installed), str(file)],
        tmp_path,
        environment,
    )
    alone = blocked(environment, tmp_path / "blocked")
    alone["PYTHONPATH"] = os.pathsep.join([str(installed), alone["PYTHONPATH"]])
    found = run([sys.executable, "-c", "import pfpne; print(pfpne.__file__)"], where, alone)
    assert found.startswith(str(installed))
    run([sys.executable, "-m", "pfpne.paper", "figures", "--profile", "smoke"], where, alone)
    assert sorted(os.listdir(where)) == ["executed", "figures-smoke", "results"]
    manifests = [json.loads(path.read_text(encoding="utf-8")) for path in (where / "figures-smoke").glob("*.json")]
    assert len(manifests) >= 20 and all(manifest["files"] for manifest in manifests)


@pytest.mark.slow
def test_nothing_but_the_temporary_folder_can_be_written_to():
    """As in a container that runs as whoever."""
    code = (
        "import os, pfpne\n"
        "pfpne.simulate('hct', pfpne.make_problem('garland', 2), 50)\n"
        "print(os.environ['NUMBA_CACHE_DIR'], len(os.listdir(os.environ['NUMBA_CACHE_DIR'])))"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(CHECKOUT)}
    try:
        subprocess.run([*nobody, "-c", "import numpy"], env=environment, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nobody cannot be had here")
    folder, kept = run([*nobody, "-c", code], Path("/"), environment).split()
    assert int(kept) > 0 and not os.path.exists(folder)
