"""What a result depends on, found from the code: every definition that is reached, by name, from a few roots.

The definitions are the functions, classes and assignments at the top of the package's modules. Each reaches those that
it mentions, through imports wherever they stand; `module.name` reaches that name alone. What can decide no number is
left out: docstrings, comments, annotations of arguments, calls of `check` or `check_...` as statements, the arguments
of `raise`, an `if` or a `for` that does no more than these, and what is assigned for these alone.

A root (module, table, row) names a row of a table, a dict at the top of a module. Of a table only the rows that roots
name are reached. To mention it reaches nothing, nor do names derived from it (`NAMES = tuple(TABLE)`): these choose no
row, and a new row must change nothing for the others. Where no root names a row of a dict, it is reached as a whole.
"""

import ast
import functools
import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

Name = tuple[str, ...]  # a dotted name; as a node or a root: (module, name) or (module, table, row)


def read_sources(package: Path) -> dict[str, bytes]:
    """The sources of the package at this folder, by the names of its modules."""
    names = {path: ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in package.rglob("*.py")}
    return {name.removesuffix(".__init__"): path.read_bytes() for path, name in names.items()}


class Definitions:
    """The definitions of a package with these sources, {module: source}."""

    def __init__(self, sources: dict[str, bytes]):
        self.sources = sources
        alone = threading.RLock()
        for method in ("_module", "_text", "closure", "imported"):  # each is asked again and again
            setattr(self, method, _once(getattr(self, method), alone))

    def closure(self, *roots: Name) -> tuple[str, dict[Name, str]]:
        """A SHA-256 of all that the roots reach, and {node: text} of it; of the whole package without roots.

        LookupError for a root that is not defined. A row that its table has not reaches nothing.
        """
        tables, ahead, texts = set(), set(), {}
        for root in roots or [(module,) for module in self.sources]:
            found = self._find(*root[:2])
            if not found and roots:
                raise LookupError(f"{'.'.join(root)} is not defined in the package.")
            rows = {node: self._rows(*node) for node in found if len(root) == 3 and self._rows(*node)}
            tables |= rows.keys()
            ahead |= found - rows.keys() | {(*node, root[2]) for node in rows if root[2] in rows[node]}
        while ahead:
            node = ahead.pop()
            texts[node], mentioned = self._text(*node)
            for name in mentioned:
                ahead |= self._find(node[0], *name) - texts.keys() - tables
        lines = (f"{':'.join(node)}\n{texts[node]}\n" for node in sorted(texts))
        return hashlib.sha256("".join(lines).encode()).hexdigest(), texts

    def imported(self, script: str) -> list[Name]:
        """The definitions of the package that a script imports and mentions."""
        tree = ast.parse(script)
        imports = _parts(tree)[1]
        named = ((*target, *name[1:]) for name in _dotted(tree) for target in imports.get(name[0], ()))
        return sorted(set().union(*(self._find(*name) for name in named)))

    def _module(self, module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, set[Name]]]:
        return _parts(ast.parse(self.sources[module]))

    def _find(self, module: str, *name: str) -> set[Name]:
        """The nodes that a dotted name in a module stands for: all of the module's if it is empty."""
        if module not in self.sources:
            return set()
        definitions, imports = self._module(module)
        if not name or name[0] in definitions:
            return {(module, own) for own in name[:1] or definitions}
        targets = imports.get(name[0], set()) - {(module, name[0])} or {(f"{module}.{name[0]}",)}
        return set().union(*(self._find(*target, *name[1:]) for target in targets))

    def _rows(self, module: str, name: str) -> dict[str, ast.expr]:
        """The rows of a definition that is one dict with constants for keys; else none."""
        first, *more = self._module(module)[0][name]
        table = getattr(first, "value", None)
        if more or not isinstance(table, ast.Dict) or not all(isinstance(key, ast.Constant) for key in table.keys):
            return {}
        return {key.value: row for key, row in zip(table.keys, table.values, strict=True)}

    def _text(self, module: str, name: str, row: str | None = None) -> tuple[str, set[Name]]:
        """The text of a node, and the names that it mentions."""
        body = self._module(module)[0][name] if row is None else [ast.Expr(self._rows(module, name)[row])]
        tree = _Stripped().visit(ast.Module(body, []))  # which takes what it is given apart
        return ast.unparse(tree), {*_dotted(tree)}


def _once(method: Callable, alone: threading.RLock) -> Callable:
    """The method, run once for each of its arguments, and while no other runs: Python 3.11's ast is for one thread."""
    cached = functools.cache(method)

    def call(*arguments):
        with alone:
            return cached(*arguments)

    return call


def _parts(tree: ast.Module) -> tuple[dict[str, list[ast.stmt]], dict[str, set[Name]]]:
    """A module's statements by the names that they define, and what each import, at any depth, stands for."""
    definitions, imports = defaultdict(list), defaultdict(set)
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            definitions[statement.name].append(statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            for target in getattr(statement, "targets", None) or [statement.target]:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        definitions[node.id].append(statement)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                imports[alias.asname or whole].add((whole,))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imports[alias.asname or alias.name].add((node.module, alias.name))
    return definitions, imports


def _dotted(node: ast.AST) -> Iterator[Name]:
    """The dotted names that are read in a tree, each whole: ("a", "b", "c") for a.b.c."""
    start, parts = node, ()
    while isinstance(start, ast.Attribute):
        start, parts = start.value, (start.attr, *parts)
    if isinstance(start, ast.Name) and isinstance(start.ctx, ast.Load):
        yield start.id, *parts
    else:
        for child in ast.iter_child_nodes(start):
            yield from _dotted(child)


class _Stripped(ast.NodeTransformer):
    """Takes out what can decide no number; see the top of this file."""

    idle = set()  # variables of the function at hand that are read only by what is taken out

    def generic_visit(self, node):
        super().generic_visit(node)
        if getattr(node, "body", None) == []:
            if isinstance(node, (ast.If, ast.For)) and not node.orelse:
                return None
            node.body = [ast.Pass()]
        return node

    def visit_FunctionDef(self, node):
        around, read, node.returns = self.idle, _read(node), None
        self.idle, idle = None, set()
        while self.idle != idle:
            self.idle = idle
            self.generic_visit(node)
            idle = read - _read(node)
        self.idle = around
        return node

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_AnnAssign(self, node):
        if not isinstance(node.annotation, ast.Constant):
            node.annotation = ast.Constant(ast.unparse(node.annotation))  # of a field: part of the text, no mention
        return self.generic_visit(node)

    def visit_Assign(self, node):
        idle = all(isinstance(target, ast.Name) and target.id in self.idle for target in node.targets)
        return None if idle else self.generic_visit(node)

    def visit_Expr(self, node):
        called = [*_dotted(node.value.func)] if isinstance(node.value, ast.Call) else []
        checks = len(called) == 1 and (called[0][-1] == "check" or called[0][-1].startswith("check_"))
        return None if checks or isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node):
        return ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)

    def visit_If(self, node):
        binds = any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node.test))
        node = self.generic_visit(node)
        only_raises = node and not node.orelse and all(isinstance(inner, ast.Raise) for inner in node.body)
        return None if only_raises and not binds else node


def _read(function: ast.FunctionDef) -> set[str]:
    """The names that a function reads."""
    return {name for name, *_ in _dotted(function)}
