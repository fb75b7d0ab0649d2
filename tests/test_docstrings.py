"""What a user may call says what it does, takes, gives and raises, with an example that runs."""

import ast
import doctest
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

import pfpne
from pfpne.paths import INPUT_ROOT, PACKAGE_FOLDER
from pfpne.problems import make_problem

SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Notes", "Examples")
NAMELESS = {"found", "of", "mine", "at", "each", "those", "every", "holds"}  # no variable is called so
LIBRARY = [path for path in sorted(PACKAGE_FOLDER.rglob("*.py")) if "paper" not in path.parts]


def sections(text: str) -> dict[str, str]:
    """The sections of a numpydoc docstring; that before the first heading is the summary."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return {"Summary": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(text: str) -> set[str]:
    """The names that a section describes, those with several on a line among them."""
    lines = [line.split(" : ")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    return {name.strip("* ") for line in lines for name in line.split(",")}


def called(source: str) -> set[tuple[str, str]]:
    """The functions of claims/ and exhibits/ that a source calls, each as (module, its name there)."""
    tree, modules, calls = ast.parse(source), {}, set()
    rooms = ("pfpne.paper.exhibits", "pfpne.paper.claims")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith(rooms):
            imported = {alias.asname or alias.name: alias.name for alias in node.names}
            if node.module in rooms:
                modules |= {name: (f"{node.module}.{module}", "") for name, module in imported.items()}
            else:
                modules |= {name: (node.module, thing) for name, thing in imported.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            path = ast.unparse(node.func)
            root, *names = path.split(".")
            if root in modules and re.fullmatch(r"[\w.]+", path):  # not a method of what a function returns
                module, thing = modules[root]
                calls.add((module, ".".join(filter(None, [thing, *names]))))
    return calls


def called_by_notebooks_and_pages() -> list[tuple[str, str]]:
    sources = [(PACKAGE_FOLDER / "paper" / "exhibits" / "pages.py").read_text(encoding="utf-8")]
    for path in sorted((INPUT_ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources.append("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    return sorted(set().union(*map(called, sources)))


@pytest.mark.parametrize("name", pfpne.__all__)
def test_a_public_name_has_a_docstring_in_full(name):
    thing = getattr(pfpne, name)
    parts = sections(thing.__doc__)
    summary = parts["Summary"].split("\n\n")[0]
    assert summary.endswith((".", ":")) and "\n" not in summary.rstrip() and len(summary) > 20
    assert "Examples" in parts
    names = [p.name for p in inspect.signature(thing).parameters.values()]
    if not ("Attributes" in parts and "Parameters" not in parts):  # what the package makes, not its user
        assert described(parts.get("Parameters", "")) == set(names) - described(parts.get("Attributes", ""))
    if inspect.isfunction(thing):
        assert "Returns" in parts and "Raises" in parts | {"Raises": name.startswith("to_")}


@pytest.mark.parametrize(("module", "name"), called_by_notebooks_and_pages(), ids=lambda part: part.split(".")[-1])
def test_what_a_notebook_or_a_page_calls_has_a_docstring_in_full(module, name):
    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    parts, signature = sections(function.__doc__), inspect.signature(function)
    assert len(parts["Summary"].split("\n\n")[0]) > 20 and parts["Summary"].strip().endswith((".", ":"))
    assert described(parts.get("Parameters", "")) == set(signature.parameters)
    assert "Returns" in parts or signature.return_annotation in (None, "None", signature.empty)


@pytest.mark.parametrize("name", pfpne.__all__)
def test_the_examples_run(name):
    tests = doctest.DocTestFinder(recurse=False).find(getattr(pfpne, name), name)
    results = [doctest.DocTestRunner().run(test) for test in tests]
    assert sum(result.attempted for result in results) > 0
    assert sum(result.failed for result in results) == 0


@pytest.mark.parametrize("module", ["federation", "live.client", "live.server"])
def test_the_examples_of_classes_beside_them_run(module):
    results = doctest.testmod(importlib.import_module(f"pfpne.{module}"))
    assert results.attempted > 0 and results.failed == 0


def variables(tree: ast.Module) -> set[str]:
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.relative_to(PACKAGE_FOLDER).as_posix())
def test_a_variable_is_called_after_what_it_holds(path: Path):
    of_users = {"found"} if path.name == "result.py" else set()  # Tuned.found, which people use
    assert variables(ast.parse(path.read_text(encoding="utf-8"))) & NAMELESS == of_users


def frames_in_between(name: str, monkeypatch, **options) -> int:
    """Return how many calls of the library there are from `simulate` to the first values: `simulate` counts, too."""
    problem, depths = make_problem("garland", 3), []

    def spy(method):
        def call(*arguments):
            names = [frame.frame.f_globals["__name__"] for frame in inspect.stack()]
            depths.append(sum(name.startswith("pfpne.") for name in names))
            return method(*arguments)

        return call

    for method in ("client_values", "paired_values"):
        monkeypatch.setattr(problem, method, spy(getattr(problem, method)))
    pfpne.simulate(name, problem, horizon=50, **options)
    return depths[0]


@pytest.mark.parametrize(("name", "options"), [("pf-pne", {}), ("pf-pne+", {}), ("pf-pne", {"objects": True})])
def test_the_way_from_simulate_to_a_pull_is_short(name, options, monkeypatch):
    assert frames_in_between(name, monkeypatch, **options) <= 4
