"""Compiled code follows its source: an edit of any compiled function shows in the next process."""

import ast
import functools
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import keep_compiled_code

from pfpne import compiled
from pfpne.paths import PACKAGE_FOLDER

Function = tuple[str, str]  # its module ("pfpne.algorithms.hct") and its name

# Runs small simulations. Writes the last call of each outer function, with its arguments from before, and its result.
RECORD = """
import importlib, pickle, sys
import pfpne
from replay import result

def record(module, name):
    module = importlib.import_module(module)
    function = getattr(module, name)

    def call(*arguments):
        calls[module.__name__, name] = pickle.dumps(arguments)
        return function(*arguments)

    setattr(module, name, call)
    return function

calls = {}
functions = {tuple(word.split(":")): record(*word.split(":")) for word in sys.argv[2:]}
problem = pfpne.make_problem("garland", 2)
pfpne.simulate("hct", problem, 60)
pfpne.simulate("pf-pne", problem, 60)
pfpne.simulate("fn-ucb", problem, 12, ramp=1, start=2, stop=4, steps=2, width=2)
with open(sys.argv[1], "wb") as file:
    pickle.dump({name: (call, result(functions[name], call)) for name, call in calls.items()}, file)
"""
# Makes some of these calls again.
REPLAY = """
import hashlib, importlib, pickle, sys
import numpy as np

def content(x):
    if isinstance(x, tuple):
        return b"".join(map(content, x))
    return b"" if x is None else np.asarray(x).tobytes()

def result(function, call):
    arguments = pickle.loads(call)
    try:  # what it returns, and what became of its arguments
        return hashlib.sha256(content((function(*arguments), *arguments))).hexdigest()
    except Exception as error:
        return repr(error)

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        calls = pickle.load(file)
    for module, name in (word.split(":") for word in sys.argv[2:]):
        print(result(getattr(importlib.import_module(module), name), calls[module, name][0]))
"""


def names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def compilers(tree: ast.Module) -> set[str]:
    """njit, and the names that a module gives to it with some options."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and "njit" in names_in(node.value)]
    return {"njit"} | {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}


def is_compiled(node: ast.AST, compilers: set[str]) -> bool:
    return any(names_in(decorator) & compilers for decorator in getattr(node, "decorator_list", []))


@functools.cache
def compiled_functions() -> dict[Function, set[Function]]:
    """Every compiled function of the package, with the compiled functions that it calls."""
    nodes, meanings = {}, {}
    for path in PACKAGE_FOLDER.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "njit" not in text:  # it compiles nothing, and most files do not: each worker collects these tests
            continue
        tree = ast.parse(text)
        module, ours = ".".join(path.relative_to(PACKAGE_FOLDER.parent).with_suffix("").parts), compilers(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                meanings |= {(module, alias.asname or alias.name): (node.module, alias.name) for alias in node.names}
            elif is_compiled(node, ours):
                nodes[module, node.name] = node
    calls = {}
    for function, node in nodes.items():
        names = {(function[0], part.id) for part in ast.walk(node) if isinstance(part, ast.Name)}
        calls[function] = {meanings.get(name, name) for name in names} & nodes.keys()
    return calls


def reached(function: Function) -> set[Function]:
    """The function and the compiled functions whose code its own contains."""
    found, ahead = set(), {function}
    while ahead:
        found |= ahead
        ahead = set().union(*(compiled_functions()[one] for one in ahead)) - found
    return found


def outer_functions() -> set[Function]:
    """The compiled functions that no other one calls."""
    return compiled_functions().keys() - set().union(*compiled_functions().values())


def called_across_files() -> set[Function]:
    return {to for function, calls in compiled_functions().items() for to in calls if to[0] != function[0]}


def edit(package: Path, function: Function) -> tuple[Path, str]:
    """Let a function of this copy of the package raise an error; return its file, and what that held before."""
    path = package.parent.joinpath(*function[0].split(".")).with_suffix(".py")
    before = path.read_text(encoding="utf-8")
    tree = ast.parse(before)
    node = next(node for node in tree.body if getattr(node, "name", None) == function[1])
    node.body = ast.parse("raise ValueError('edited')").body  # alone, so that Numba has little to compile
    path.write_text(ast.unparse(tree), encoding="utf-8")
    return path, before


def copy_package(folder: Path) -> Path:
    return Path(
        shutil.copytree(PACKAGE_FOLDER, folder / "pfpne", ignore=shutil.ignore_patterns("__pycache__", "paper"))
    )


def run(package: Path, code: str, *arguments: str, **environment: str) -> str:
    """What a new process of this copy of the package prints."""
    own = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    own |= {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    # Which code is run is the question here, not how fast; with NUMBA_OPT=0 Numba would keep none of it.
    own |= {"NUMBA_OPT": "1", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env=own, cwd=package.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    """A copy of the package whose functions are compiled and kept, beside a file with calls of the outer ones."""
    package = copy_package(tmp_path_factory.mktemp("copy"))
    keep_compiled_code(package)
    (package.parent / "replay.py").write_text(REPLAY)
    run(package, RECORD, "calls", *map(":".join, outer_functions()))
    return package


def check_edit_shows(package: Path, function: Function) -> None:
    calls = pickle.loads((package.parent / "calls").read_bytes())
    outer = sorted(outer for outer in outer_functions() if function in reached(outer))
    path, text = edit(package, function)
    after = run(package, REPLAY, "calls", *map(":".join, outer)).splitlines()
    path.write_text(text, encoding="utf-8")
    for one, result in zip(outer, after, strict=True):
        assert result != calls[one][1], f"after an edit of {function} the old code of {one} was run"


def test_without_an_edit_the_results_are_the_same(warm):
    calls = pickle.loads((warm.parent / "calls").read_bytes())
    assert calls.keys() == outer_functions()
    kept = {path.name.partition("-")[0] for path in warm.rglob("*.nbi")}
    assert {f"{module.rpartition('.')[2]}.{name}" for module, name in calls} <= kept  # else no edit could go unseen
    assert run(warm, REPLAY, "calls", *map(":".join, calls)).splitlines() == [result for _, result in calls.values()]


@pytest.mark.parametrize("function", sorted(called_across_files()), ids=".".join)
def test_an_edit_of_what_another_file_compiles_in_shows(warm, function):
    check_edit_shows(warm, function)


@pytest.mark.slow
@pytest.mark.parametrize("function", sorted(compiled_functions()), ids=".".join)
def test_an_edit_of_any_compiled_function_shows(warm, function):
    check_edit_shows(warm, function)


def test_every_compiled_function_is_kept_in_the_folder_of_these_sources(tmp_path):
    assert len(called_across_files()) >= 3 and len(compiled_functions()) > len(called_across_files())
    for module, name in compiled_functions():
        function = getattr(__import__(module, fromlist=[name]), name)
        assert compiled.COMPILED_FOLDER in Path(function.stats.cache_path or "").parents, (
            f"{module}.{name} is kept elsewhere"
        )
    package = copy_package(tmp_path)
    assert compiled.COMPILED_FOLDER.name == compiled.source_digest(PACKAGE_FOLDER) == compiled.source_digest(package)
    digests = {compiled.source_digest(package)}
    for function in compiled_functions():
        path, text = edit(package, function)
        digests.add(compiled.source_digest(package))
        path.write_text(text, encoding="utf-8")
    assert len(digests) == 1 + len(compiled_functions())


def test_only_one_file_uses_numba():
    users = set()
    for path in PACKAGE_FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            users |= {path.name for name in names if name.partition(".")[0] == "numba"}
            if isinstance(node, ast.ImportFrom) and node.module == "pfpne.compiled":
                assert "paper" not in path.parts, "an edit in paper/ does not lead to another folder"
    assert users == {"compiled.py"}


def test_after_an_edit_of_what_is_loaded_nothing_is_kept(tmp_path):
    package = copy_package(tmp_path)
    code = """
    import pathlib, pfpne.algorithms.hct as hct
    before = pathlib.Path(hct.__file__).read_text()
    pathlib.Path(hct.__file__).write_text(before + "# edited")
    from pfpne.simulation.tree import play_on
    print(hct.update_tree.stats.cache_path is not None, play_on.stats.cache_path)
    """
    assert run(package, code) == "True None"


WHERE = "from pfpne.compiled import COMPILED_FOLDER; print(COMPILED_FOLDER)"


def test_the_folder_is_in_the_first_place_that_can_be_written_to(tmp_path):
    package, home, chosen = copy_package(tmp_path), tmp_path / "home", tmp_path / "chosen"
    inside = Path("pfpne-compiled") / compiled.source_digest(package)
    where = functools.partial(run, package, WHERE, HOME=str(home), XDG_CACHE_HOME="")
    assert where(NUMBA_CACHE_DIR=str(chosen)) == str(chosen / inside)
    assert where() == str(package / "__pycache__" / inside)
    shutil.rmtree(package / "__pycache__")
    (package / "__pycache__").write_text("")  # as good as a folder that is read-only, for which root is no test
    assert where() == str(home / ".cache" / "pfpne" / inside)
    shutil.rmtree(home)
    home.write_text("")
    code = f"""
    import pathlib, subprocess, sys
    from pfpne.compiled import COMPILED_FOLDER
    from pfpne.simulation.tree import play_on
    print(COMPILED_FOLDER, COMPILED_FOLDER in pathlib.Path(play_on.stats.cache_path).parents, flush=True)
    subprocess.run([sys.executable, "-c", "{WHERE}"], check=True)
    """
    own, kept, of_child = run(package, code, HOME=str(home), XDG_CACHE_HOME="", TMPDIR=str(tmp_path)).split()
    assert own == of_child and kept == "True"
    assert Path(own).is_relative_to(tmp_path) and not list(tmp_path.glob("pfpne-*"))  # it ends with the process


def test_only_folders_that_are_old_and_not_in_use_are_removed(tmp_path):
    package = copy_package(tmp_path)
    folders = tmp_path / "pfpne-compiled"
    own = folders / compiled.source_digest(package)
    for folder, days in {own: 3, folders / "old": 1.01, folders / "recent": 0.99, tmp_path / "pfpne-other": 3}.items():
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - days * 86_400,) * 2)
    run(package, WHERE, NUMBA_CACHE_DIR=str(tmp_path))
    assert {path.name for path in folders.iterdir()} == {own.name, "recent"}
    assert (tmp_path / "pfpne-other").exists() and time.time() - own.stat().st_mtime < 3600
