"""The rooms of the package, and which way its imports point."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import pfpne
from pfpne.paths import INPUT_ROOT as CHECKOUT

PACKAGE = CHECKOUT / "pfpne"
# MAY says from which rooms each may import.
ROOMS = ("base", "algorithms", "live", "problems", "simulation", "tuning", "paper")
MAY = {
    "base": {"base"},
    "algorithms": {"base", "algorithms"},
    "live": {"base", "algorithms", "live"},
    "problems": {"base", "problems"},
    "simulation": {"base", "algorithms", "problems", "simulation"},
    "tuning": {"base", "algorithms", "tuning"},
    "paper": set(ROOMS),
}
# The rooms of paper/, the lowest first: a module may import from its own room and from those below it.
PAPER_ROOMS = ("run", "show", "claims", "exhibits", "__main__")
STATISTICS = (
    *("claims.stats", "claims.verdicts", "claims.evidence", "claims.assumption_checks", "claims.watching"),
    *("exhibits.regimes", "exhibits.variants", "exhibits.deviations", "exhibits.readings"),
)
# `import pfpne` hands out names of every room but paper/, and loads each when it is first used. live/ and tuning/
# import `__version__` from there, which loads none of them; `graph` leaves these arrows out.
FRONT_DOOR = "pfpne.__init__"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "base"


def imports(source: str, modules: set[str]) -> set[str]:
    """The modules of pfpne that a source imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
            found |= {pfpne._WHERE.get(alias.name) for alias in node.names if node.module == "pfpne"}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pfpne":
            found.add(pfpne._WHERE.get(node.attr))
    known = {name.removesuffix(".__init__") for name in modules}
    return {name for name in found if name in known}


@functools.cache
def graph() -> dict[str, set[str]]:
    sources = {module_of(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    return {name: imports(source, set(sources)) - {"pfpne"} for name, source in sources.items()}


def points_back(of: dict[str, set[str]]) -> list[str]:
    return [
        f"{name} imports {other}"
        for name, others in sorted(of.items())
        if name != FRONT_DOOR
        for other in sorted(others)
        if room_of(other) not in MAY[room_of(name)]
    ]


def paper_room_of(module: str) -> str:
    """The room of a module of paper/; the package itself, which holds nothing, counts as the lowest."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[2] != "__init__" else PAPER_ROOMS[0]


def climbs(graph: dict[str, set[str]]) -> list[str]:
    """The imports in paper/ that point to a room above."""
    return [
        f"{name} imports {other}"
        for name, others in sorted(graph.items())
        if room_of(name) == "paper"
        for other in sorted(others)
        if room_of(other) == "paper"
        and PAPER_ROOMS.index(paper_room_of(other)) > PAPER_ROOMS.index(paper_room_of(name))
    ]


def circles(of: dict[str, set[str]]) -> list[str]:
    """What is left when, again and again, the modules that import nothing left are taken away."""
    left = {name.removesuffix(".__init__"): others for name, others in of.items() if name != FRONT_DOOR}
    while True:
        free = {name for name, others in left.items() if not (others & left.keys()) - {name}}
        if not free:
            return sorted(left)
        left = {name: others for name, others in left.items() if name not in free}


def test_imports_point_one_way_and_never_in_a_circle():
    assert points_back(graph()) == []
    assert circles(graph()) == []
    assert not any(name.startswith("pfpne.paper") for name in graph()[FRONT_DOOR])


def test_paper_has_four_rooms_and_the_command_on_top_and_imports_point_down():
    rooms = {paper_room_of(name) for name in graph() if room_of(name) == "paper"}
    assert rooms == set(PAPER_ROOMS)
    assert climbs(graph()) == []


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("run.cache", "show.style"),
        ("show.plot", "claims.evidence"),
        ("claims.verdicts", "exhibits.findings"),
        ("exhibits.pages", "__main__"),
    ],
)
def test_an_import_that_climbs_is_seen(lower, upper):
    lower, upper = f"pfpne.paper.{lower}", f"pfpne.paper.{upper}"
    wrong = {**graph(), lower: graph()[lower] | {upper}}
    assert climbs(wrong) == [f"{lower} imports {upper}"]


def test_an_import_that_points_back_is_seen():
    wrong = dict(graph())
    wrong["pfpne.algorithms.hct"] = wrong["pfpne.algorithms.hct"] | {"pfpne.simulation.simulate"}
    assert points_back(wrong) == ["pfpne.algorithms.hct imports pfpne.simulation.simulate"]
    wrong["pfpne.rng"] = {"pfpne.validation"}
    wrong["pfpne.validation"] = {"pfpne.rng"}
    assert {"pfpne.rng", "pfpne.validation"} <= set(circles(wrong))
    by_the_front_door = "from pfpne import simulate", "import pfpne\nrun = pfpne.simulate"
    assert all("pfpne.simulation.simulate" in imports(source, set(graph())) for source in by_the_front_door)


def test_statistics_and_verdicts_draw_nothing_and_the_package_opens_fast():
    for modules, without in (
        ("pfpne", ("numba", "pandas", "scipy", "matplotlib", "joblib")),
        (
            ", ".join(f"pfpne.paper.{name}" for name in STATISTICS),
            ("matplotlib", "seaborn", "scipy.stats", "scipy.linalg"),
        ),
    ):
        code = f"import {modules}, sys; print([name for name in {without} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", modules
