"""What a user may call says what it does, takes, gives and raises, with an example that runs."""

import ast
import doctest
import inspect
import re
from pathlib import Path

import pytest

import pfpne
from pfpne.paths import PACKAGE
from pfpne.problems import make_problem

SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Notes", "Examples")
NAMELESS = {"found", "of", "mine", "at", "each", "those", "every", "holds"}  # no variable is called so
LIBRARY = [path for path in sorted(PACKAGE.rglob("*.py")) if "paper" not in path.parts]


def sections(text: str) -> dict[str, str]:
    """The sections of a numpydoc docstring; that before the first heading is the summary."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return {"Summary": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(text: str) -> set[str]:
    """The names that a section describes, those with several on a line among them."""
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return {name.strip("* ") for line in lines for name in line.split(",")}


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


@pytest.mark.parametrize("name", pfpne.__all__)
def test_the_examples_run(name):
    tests = doctest.DocTestFinder(recurse=False).find(getattr(pfpne, name), name)
    results = [doctest.DocTestRunner().run(test) for test in tests]
    assert sum(result.attempted for result in results) > 0
    assert sum(result.failed for result in results) == 0


def test_federation_s_example_runs():
    from pfpne import federation

    assert doctest.testmod(federation).failed == 0


def variables(tree: ast.Module) -> set[str]:
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.relative_to(PACKAGE).as_posix())
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
