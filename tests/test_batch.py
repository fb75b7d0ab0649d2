"""What runs the notebooks: it says what it does, waits for slow kernels, and refuses a damaged notebook at once."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from conftest import python_path
from papermill.clientwrap import PapermillNotebookClient

from pfpne.paper.__main__ import main
from pfpne.paper.run import batch
from pfpne.paper.run.batch import Execution
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paper.run.notebooks import NOTEBOOKS, Notebook, executions
from pfpne.paper.run.parameter_types import ParameterError
from pfpne.paper.run.parameters import HEADER, find_assigned
from pfpne.paper.run.progress import progress
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.paths import PACKAGE_FOLDER

NAME = "1_synthetic_regret"
SOURCE = NOTEBOOKS_FOLDER / f"{NAME}.ipynb"
EXECUTION = Execution("smoke", NAME, {"objective": "garland", "noise": "bernoulli"})


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder of its own for the runner in this process and for the kernels that it starts."""
    folder = tmp_path / "project"
    (folder / "notebooks").mkdir(parents=True)
    monkeypatch.setenv("PFPNE_ROOT", str(folder))
    monkeypatch.setenv("PFPNE_TERMINAL", "")
    for constant, name in (("NOTEBOOKS_FOLDER", "notebooks"), ("EXECUTED_FOLDER", "executed")):
        monkeypatch.setattr(batch, constant, folder / name)
    return folder


def write_notebook(project: Path, *cells: str) -> Path:
    """The first notebook with its own cell of parameters, and these cells instead of its others."""
    content = nbformat.read(SOURCE, as_version=4)
    own = next(cell for cell in content.cells if cell.metadata.get("tags") == ["parameters"])
    content.cells = [own, *map(nbformat.v4.new_code_cell, cells)]
    path = project / "notebooks" / SOURCE.name
    nbformat.write(content, path)
    return path


# --- while a notebook is executed -------------------------------------------------------------------


def test_a_kernel_that_is_silent_for_a_while_is_waited_for(project, monkeypatch):
    """The cell has answered, but the kernel says that it is idle later than the runner would wait by itself."""
    begin = PapermillNotebookClient.__init__
    impatient = lambda self, *arguments, **options: begin(self, *arguments, **{"iopub_timeout": 1, **options})  # noqa: E731
    monkeypatch.setattr(PapermillNotebookClient, "__init__", impatient)
    late = (
        "import time\n"
        "publish = get_ipython().kernel._publish_status\n"
        "def publish_late(status, *arguments, **options):\n"
        "    time.sleep(3 if status == 'idle' else 0)\n"
        "    publish(status, *arguments, **options)\n"
        "get_ipython().kernel._publish_status = publish_late"
    )
    write_notebook(project, late)
    assert batch.make_figures(EXECUTION) == []


def test_executed_copies_hold_no_path_of_this_machine(project):
    write_notebook(project, "1 + 1")
    batch.make_figures(EXECUTION)
    name = EXECUTION.name
    copy = project / "executed" / "smoke" / f"{name}.ipynb"
    assert str(project) not in copy.read_text() and not re.search(r'": "/\w', copy.read_text())
    write_notebook(project, "raise RuntimeError('broken on purpose')")
    with pytest.raises(batch.FailedNotebook, match="broken on purpose"):
        batch.make_figures(EXECUTION)
    failed = json.loads(copy.with_suffix(".failed.ipynb").read_text())
    paths = [failed["metadata"]["papermill"][name] for name in ("input_path", "output_path")]
    assert [Path(path).name for path in paths] == [SOURCE.name, f"{name}.failed.ipynb"]


def test_a_notebook_that_is_stopped_leaves_no_unfinished_copy(project):
    write_notebook(project, "raise KeyboardInterrupt")
    with pytest.raises(batch.FailedNotebook):
        batch.make_figures(EXECUTION)
    write_notebook(project, "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(batch.FailedNotebook, match=f"{NAME}_garland_bernoulli failed: its process was killed"):
        batch.make_figures(EXECUTION)
    assert list(project.rglob("*.unfinished.ipynb")) == []


# --- damaged notebooks ------------------------------------------------------------------------------


def without_tag(path: Path) -> None:
    content = nbformat.read(path, as_version=4)
    for cell in content.cells:
        cell.metadata.pop("tags", None)
    nbformat.write(content, path)


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes().replace(b"#", b"\xff")),
    "syntax error": lambda path: write_notebook(path.parents[1], "p = read("),
    "no cells": lambda path: path.write_text('{"cells": []}'),
    "no tag": without_tag,
    **{text: lambda path, text=text: path.write_text(text) for text in ("{}", "[]", "null", "3", "[" * 100_000)},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_notebook_is_one_sentence_before_anything_is_executed(project, monkeypatch, capsys, damage):
    for name in NOTEBOOKS:
        (project / "notebooks" / f"{name}.ipynb").write_bytes((NOTEBOOKS_FOLDER / f"{name}.ipynb").read_bytes())
    DAMAGES[damage](project / "notebooks" / SOURCE.name)
    monkeypatch.setattr(batch, "make_figures", lambda *_: pytest.fail("a notebook was executed"))
    assert main(["figures", "--profile", "smoke"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"notebooks/{SOURCE.name}`." in said and "git checkout" in said


def test_values_that_came_before_the_notebooks_own_are_refused():
    """As papermill has it where the tag is lost: the notebook's own values win, and its own figure would be drawn."""
    own, injected = f"{HEADER}\nhorizon = None", "# Parameters\nhorizon = 60\n"
    assert set(find_assigned([own, injected, "read()"])) == {"horizon"}
    with pytest.raises(ParameterError, match="has lost its tag `parameters`: .*git checkout notebooks"):
        find_assigned([injected, own, "read()"])


# --- what is said ----------------------------------------------------------------------------------


@pytest.fixture
def three(project, monkeypatch):
    """Three executions of notebooks that take so many hundredths of a second; returns what was begun, in its order."""
    begun = []

    def make(execution):
        begun.append(execution.notebook)
        time.sleep(batch.NOTEBOOKS[execution.notebook].seconds / 100)
        return [f"made by {execution.notebook}"]

    seconds = {"short": 20, "long": 120, "same": 1}
    names = tuple(seconds)
    monkeypatch.setattr(batch, "NOTEBOOKS", {name: Notebook("paper", seconds[name], ()) for name in names})
    monkeypatch.setattr(batch, "executions", lambda _: [(name, {}) for name in names])
    monkeypatch.setattr(batch, "check_notebook", lambda _: None)
    monkeypatch.setattr(batch, "is_unchanged", lambda execution: execution.notebook == "same")
    monkeypatch.setattr(batch, "make_figures", make)
    monkeypatch.setattr(batch, "processors", lambda: 2)
    return begun


def test_what_is_under_way_done_and_left_is_said(three, capsys):
    assert main(["figures", "--profile", "smoke"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:6] == [
        "[1/3] unchanged  same",
        "profile smoke: 2 of 3 notebooks to execute",
        "now: long, short (about 2 min left)",
        "[2/3] made by short",  # as it ends, although the other began before
        "[3/3] made by long",
        said[5],
    ]
    assert "in all, profile smoke" in said[5] and "figures-smoke/" in said[6] and "executed/smoke/" in said[6]
    assert three == ["long", "short"]


def test_one_at_a_time_keeps_the_order(three, monkeypatch, capsys):
    monkeypatch.setattr(batch, "processors", lambda: 1)
    assert main(["figures", "--profile", "smoke"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert three == ["short", "long"] and said[2] == "now: short (about 2 min left)" and said[4].startswith("now: long")


def test_the_time_left_follows_the_pace_so_far(monkeypatch):
    monkeypatch.setattr(batch.time, "perf_counter", lambda: 1000.0)
    expected = {"a": 60.0, "b": 60.0, "c": 240.0}
    assert batch.say_time_left(expected, {}, {}, 1) == " (about 6 min left)"
    assert batch.say_time_left(expected, {}, {}, 2) == " (about 4 min left)"  # no sooner than the longest
    assert batch.say_time_left(expected, {"a": 120.0}, {}, 1) == " (about 10 min left)"  # twice as slow
    assert batch.say_time_left(expected, {"a": 120.0}, {"c": 760.0}, 1) == " (about 6 min left)"
    assert batch.say_time_left(expected, {"a": 60.0, "c": 240.0}, {"b": 990.0}, 1) == " (less than a minute left)"
    assert batch.say_time_left(expected | {"d": None}, {"a": 60.0}, {}, 1) == ""


def test_the_last_execution_says_how_long_the_next_takes(project):
    assert EXECUTION.expected_seconds == NOTEBOOKS[NAME].seconds
    copy = EXECUTION.target
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps({"metadata": {"papermill": {"duration": 12.5}}}))
    assert EXECUTION.expected_seconds == 12.5
    assert {name for name, _ in executions("smoke")} == NOTEBOOKS.keys()


def test_what_a_killed_batch_left_is_taken_away(three, project):
    left = project / "executed" / "smoke" / "long.unfinished.ipynb"
    left.parent.mkdir(parents=True)
    left.write_text("")
    assert main(["figures", "--profile", "smoke"]) == 0 and not left.exists()


# --- make -------------------------------------------------------------------------------------------


def test_the_runner_ends_if_make_was_killed_before_it_looked(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    environment = {
        **os.environ,
        "PFPNE_ROOT": str(tmp_path),
        "PYTHONPATH": python_path(PACKAGE_FOLDER.parent),
        "PFPNE_MAKE": str(gone.pid),
    }
    command = [sys.executable, "-m", "pfpne.paper", "figures", "--profile", "smoke", "--only", NAME]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "in all" not in done.stdout


@pytest.mark.parametrize("target", ["figures", "map"])
def test_make_says_who_it_is(target, tmp_path):
    show = "import os; print(os.environ['PFPNE_MAKE'] == str(os.getppid()))"
    (tmp_path / "show.py").write_text(show)
    (tmp_path / "ready").touch()
    variables = [f"RUN={sys.executable} {tmp_path / 'show.py'}", f"READY={tmp_path / 'ready'}"]
    done = subprocess.run(
        ["make", "--silent", "-C", CHECKOUT, target, *variables], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


# --- interrupts -------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, threading, time
from IPython.core.interactiveshell import InteractiveShell
from pfpne.paper.run.workers import run_unordered

def play(n_jobs):
    for position, _ in run_unordered(time.sleep, [(0,), (0,), (30,), (30,)], n_jobs):
        if position == 1:
            threading.Timer(1, os.killpg, (0, signal.SIGINT)).start()

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process that began in the background ignores it
shell = InteractiveShell.instance()
shell.user_ns["play"] = play
shell.run_cell("play(%d)")
print("alive")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_is_one_sentence(n_jobs, tmp_path):
    """As a kernel is interrupted: its whole process group gets the signal, its workers too."""
    environment = {**os.environ, "PYTHONPATH": python_path(PACKAGE_FOLDER.parent), "IPYTHONDIR": str(tmp_path)}
    options = {"env": environment, "capture_output": True, "text": True, "timeout": 120, "start_new_session": True}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED % n_jobs], **options)
    assert done.stdout == "Stopped. What had finished is stored: run this again to go on from here.\nalive\n"
    assert done.stderr == ""


def test_after_an_interrupt_the_next_progress_bar_is_drawn_in_the_same_place(monkeypatch):
    monkeypatch.delenv("PFPNE_TERMINAL", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    interrupted, again = progress("interrupted"), progress("again")
    interrupted(1, 4)
    for done in range(5):
        again(done, 4)
    assert "again" in sys.stderr.getvalue() and "\x1b[A" not in sys.stderr.getvalue()
