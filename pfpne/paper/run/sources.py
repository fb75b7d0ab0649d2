"""A hash of the code that computes a result: the modules that define its parts, and all modules that they import.

A module counts as its syntax tree without docstrings, so that comments and blank lines do not matter. Imports within
the package are followed wherever they stand. Two kinds of modules count differently:

- A registry lists algorithms or objectives. Its functions and classes count; its table and its imports do not, so that
  a new row leaves other results valid. The row that a result uses is one of its parts (see pfpne.paper.run.cache).
- Modules that keep files, read parameters or draw decide no number, and are not followed.

For an executed notebook, which also shows figures, every module counts in full.
"""

import ast
import functools
import hashlib
import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from pfpne.paths import PACKAGE_FOLDER, source_files

REGISTRIES = ("pfpne.algorithms", "pfpne.problems", "pfpne.simulation.fast")
NOT_FOLLOWED = ("pfpne.paper.run.", "pfpne.paper.show.")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_one_at_a_time = threading.Lock()  # Python 3.11's ast is for one thread


class SourceChanged(RuntimeError):
    """The package was edited after this process loaded it: its results would not belong to its files."""


@functools.cache
def _parse(text: bytes, is_registry: bool = False) -> tuple[str, list[tuple[str, str]]]:
    """Hash a module's code, and list what it imports as (module, name), the name empty for a whole module."""
    with _one_at_a_time:
        tree = ast.parse(text)
        imports = []
        if is_registry:
            tree.body = [node for node in tree.body if isinstance(node, DEFINITIONS)]
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, *DEFINITIONS)) and ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
            elif isinstance(node, ast.Import):
                imports += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imports += [(node.module, alias.name) for alias in node.names]
        return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports


class Sources:
    """The modules of a package, {name: source}, as they are in a folder now."""

    def __init__(self, package: Path = PACKAGE_FOLDER):
        files = {path: path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py")}
        self.modules = {".".join(name.parts).removesuffix(".__init__"): f.read_bytes() for f, name in files.items()}

    def imported(self, text: bytes, is_registry: bool = False) -> set[str]:
        """Return the modules of the package that a source imports."""
        names = ((f"{module}.{name}", module) for module, name in _parse(text, is_registry)[1])
        return {both[0] if both[0] in self.modules else both[1] for both in names} & self.modules.keys()

    @functools.cache  # noqa: B019  there are one or two of these in a process
    def reached(self, modules: frozenset[str], follow_all: bool = False) -> dict[str, str]:
        """Return {module: hash} of these modules and all that they reach.

        follow_all: follow every import and count registries in full, as for an executed notebook.
        """
        hashes, ahead = {}, {*modules}
        while ahead:
            name = ahead.pop()
            if name not in self.modules:
                raise LookupError(f"{name} is no module of the package.")
            text, is_registry = self.modules[name], name in REGISTRIES and not follow_all
            hashes[name] = _parse(text, is_registry)[0]
            followed = self.imported(text, is_registry)
            ahead |= {other for other in followed if follow_all or not other.startswith(NOT_FOLLOWED)} - hashes.keys()
        return hashes


@functools.lru_cache(maxsize=1)
def _stamps(tick: int) -> frozenset:
    """The name, the time of the last change and the size of each file of the package.

    As long as these are the same, no file has changed. tick is the time in tenths of a second. Thousands of keys are
    made in a row, and the files are looked at only once per tick.
    """
    states = source_files(PACKAGE_FOLDER).items()
    return frozenset((path, state.st_mtime_ns, state.st_size) for path, state in states)


@functools.lru_cache(maxsize=1)
def _on_disk(stamps: frozenset) -> Sources:
    return Sources(PACKAGE_FOLDER)


_AT_START, LOADED = _stamps(-1), Sources(PACKAGE_FOLDER)  # as they were when this process began


def source_hash(modules: Iterable[str], follow_all: bool = False) -> str:
    """Return the SHA-256 of these modules and of all modules that they reach, as `Sources.reached` follows them.

    Raises SourceChanged if one of them has changed since this process loaded it.
    """
    return _hash_loaded(LOADED, frozenset(modules), follow_all, _stamps(int(10 * time.monotonic())))


@functools.lru_cache
def _hash_loaded(loaded: Sources, modules: frozenset[str], follow_all: bool, stamps: frozenset) -> str:
    hashes = loaded.reached(modules, follow_all)
    if stamps != _AT_START:
        disk = _on_disk(stamps)
        try:
            same = disk.reached(modules, follow_all) == hashes
        except (SyntaxError, LookupError):
            same = False
        if not same:
            edited = {name for name in hashes if disk.modules.get(name) != loaded.modules[name]}
            names = ", ".join(sorted(edited)) or "the package"
            raise SourceChanged(f"{names} was edited after it was loaded: restart the kernel, then run again.")
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def imported_by(notebook: Path) -> set[str]:
    """Return the modules of the package that a notebook's code cells import."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code").splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))
    return LOADED.imported(code.encode())
