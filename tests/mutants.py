"""`make mutants`: small wrong changes of the package, one at a time, which the tests of that module should notice.

Cosmic Ray's operators make them, and a few of our own for the slips that people make. A random sample is run on a copy
of the checkout. Wording is left out: strings, annotations, `raise`, and what only draws. survivors.md lists what passed
and why.

    make mutants N=50 ARGS="--seed 3 --only pfpne/algorithms/"
"""

import argparse
import ast
import functools
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded

import hypothesis  # noqa: F401
import numba
import numpy as np
import pandas  # noqa: F401
import parso
import pytest
import scipy.optimize
import scipy.stats  # noqa: F401
import seaborn  # noqa: F401
import sklearn.svm  # noqa: F401
from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from numba.core import caching

ROOT = Path(__file__).parent.parent
REACHED = ROOT / ".mutants" / "reached.json"  # what each test reaches, and how long it takes
FOLDERS = {"algorithms", "problems", "simulation", "tuning"}  # what is changed: the modules in these folders,
MODULES = {"federation", "messages", "partition", "rng"}  # and these: those that compute,
MODULES |= {
    "assumption_checks",
    "watching",
    "evidence",
    "stats",
    "claim_tests",
    "outcomes",
    "verdicts",
}  # and those of claims and exhibits
MODULES |= {
    "assumptions",
    "beyond",
    "causes",
    "confirmation",
    "deviations",
    "findings",
    "guide",
    "hoo_and_hct",
    "kept_nodes",
}
MODULES |= {"lemmas", "rates", "readings", "regimes", "specification", "table1", "untuned", "variants"}
MACHINERY = {"baselines_page", "clean_machine", "cluster", "compiled", "figures", "flower", "hostile", "installs"}
MACHINERY |= {"interruptions", "notebooks", "project", "provenance", "rooms", "batch"}  # tests of other things
LONGEST = 240  # seconds of the tests of one change: what waits in vain takes no time of the processor
TEST_SECONDS = (
    5  # of the processor, of a test that is run as plain Python: those that take longer are run with compiled code only
)
BATCHES = (3.0, 15.0)  # seconds, as measured: of the tests that are run at first, and of those that are run then
DATASET = ROOT.parent / "shared" / "data" / "LandmineData.mat"  # where tests look for it, too
DRAWING = re.compile("_?draw")  # how functions are called whose output is looked at
PLAUSIBLE = re.compile(  # of the operators: those whose change keeps the types, and so may go unnoticed
    r"BinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Mul_Add|Div_Mul|Pow_Mul|FloorDiv_Div|Mod_FloorDiv|BitAnd_BitOr|BitOr_BitAnd)$"
    r"|ComparisonOperator_(Lt_LtE|Lt_Gt|LtE_Lt|LtE_GtE|Gt_GtE|Gt_Lt|GtE_Gt|GtE_LtE|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)$"
    r"|UnaryOperator_(USub_UAdd|Delete_Not|Invert_Delete)|AddNot|True|AndWithOr|OrWithAnd|Break|Continue|NumberReplacer$"
)
NAME_PAIRS = (
    "mean median",
    "min max",
    "argmin argmax",
    "idxmin idxmax",
    "minimum maximum",
    "any all",
    "floor ceil",
    "sum mean",
)
NAME_PAIRS += ("low high", "first last", "up down", "ours theirs", "kept_by_server kept_alone", "left right")
NAME_PAIRS += ("append prepend", "log log2")
SWAPPED = {a: b for pair in NAME_PAIRS for a, b in (pair.split(), pair.split()[::-1])} | {"sum": "mean"}
DROPPED = {
    "axis",
    "ddof",
    "side",
    "prepend",
    "append",
    "paired",
    "method",
    "alternative",
    "initial",
    "run",
    "seed",
    "key",
}


# Functions whose arguments may be swapped, and how many of the first: none is given a NaN, for which max depends on the
# order. np.clip takes the middle one of three numbers whichever of x and low is named first, since low <= high.
SYMMETRIC = {"max": 99, "min": 99, "maximum": 2, "minimum": 2, "hypot": 2, "array_equal": 2, "clip": 2}
SYMMETRIC |= {"stream": 99, "derive": 99}  # other names of random numbers or of a key give others, which are as good


class _Ours(Operator):
    @classmethod
    def examples(cls):
        return ()


def keyword(value) -> str:
    """The name of an argument that is given by name."""
    return value.children[0].value if value.type == "argument" and value.children[1] == "=" else ""


class SwapNames(_Ours):
    """median for mean, max for min, high for low."""

    def mutation_positions(self, node):
        if node.type == "name" and node.value in SWAPPED and not node.is_definition():
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        node.value = SWAPPED[node.value]
        return node


class SwapArguments(_Ours):
    """f(b, a) for f(a, b), where f is not symmetric."""

    def _pairs(self, node):
        if node.type != "arglist":
            return []
        values = node.children[::2]
        plain = [value.type not in ("argument", "keyword") for value in values]
        codes = [value.get_code(include_prefix=False) for value in values]
        pairs = [i for i in range(len(values) - 1) if plain[i] and plain[i + 1] and codes[i] != codes[i + 1]]
        name = node.parent.get_previous_leaf().value
        symmetric = SYMMETRIC.get(name, 0) if "key" not in map(keyword, values) else 0
        return [2 * i for i in pairs if i + 2 > symmetric and (name != "check" or i == 0)]  # the others are a sentence

    def mutation_positions(self, node):
        for i in self._pairs(node):
            yield node.children[i].start_pos, node.children[i + 2].end_pos

    def mutate(self, node, index):
        i = self._pairs(node)[index]
        node.children[i], node.children[i + 2] = node.children[i + 2], node.children[i]
        return node


class DropKeyword(_Ours):
    """f(x) for f(x, axis=1)."""

    def mutation_positions(self, node):
        if node.type == "argument" and node.parent.type == "arglist" and node.children[0].value in DROPPED:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return parso.parse(f"{node.get_first_leaf().prefix}**{{}}")


class DropStatement(_Ours):
    """Nothing for x += 1, x[i] = 1 or f(x)."""

    def mutation_positions(self, node):
        if node.type == "expr_stmt":
            plain = node.children[0].type == "name" and getattr(node.children[1], "value", "") == "="
            drop = not plain and node.children[1].type != "annassign"
        else:
            drop = node.type in ("atom_expr", "power") and node.parent.type == "simple_stmt"
        if drop:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return parso.parse(f"{node.get_first_leaf().prefix}pass")


class ShiftConstant(_Ours):
    """0.9 for 1.0, where that is another number."""

    def mutation_positions(self, node):
        if node.type == "number" and "." in node.value and float(node.value) != 0:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        node.value = repr(0.9 * float(node.value))
        return node


OPERATORS = {name: get_operator(name)() for name in operator_names() if PLAUSIBLE.search(name)}
OPERATORS |= {kind.__name__: kind() for kind in _Ours.__subclasses__()}


def counts(node) -> bool:
    """Whether a change of the node is one of what is computed, not of how it is said or shown."""
    child, parent = node, node.parent
    while parent is not None:
        if parent.type in ("fstring", "raise_stmt", "import_from", "import_name", "decorator", "assert_stmt"):
            return False
        if parent.type in ("annassign", "tfpdef") and child is parent.children[1]:
            return False
        if parent.type == "param" and child is not parent.default:
            return False
        if parent.type == "funcdef" and (child is parent.annotation or DRAWING.match(parent.name.value)):
            return False
        child, parent = parent, parent.parent
    return True


def is_huge(node) -> bool:
    """Whether the number is the same with 1 added, as 1e100 is."""
    number = ast.literal_eval(node.value)
    return number + 1 == number


def span(node) -> range:
    """The lines of the statement, or of the head of the block, that holds the node."""
    while node.parent.type not in ("simple_stmt", "suite", "file_input") and not node.parent.type.endswith("_stmt"):
        node = node.parent
    return range(node.start_pos[0], node.end_pos[0] + 1)


def function(node) -> tuple[range, list[int], bool]:
    """The lines of the function that holds the node; else those that mention what is assigned. Is it compiled?"""
    statement = node
    while node.parent.parent is not None and node.type != "funcdef":
        statement = node if node.type == "simple_stmt" else statement
        node = node.parent
    if node.type != "funcdef":
        lines = node.get_root_node().get_code().splitlines()
        names = re.findall(r"\w+", re.split("[:=]", statement.get_code(include_prefix=False))[0])
        mentions = [i for i, line in enumerate(lines, 1) if any(re.search(rf"\b{name}\b", line) for name in names)]
        return range(0), mentions, "njit" in "".join(lines)
    decorated = node.parent.get_code().split("def ")[0] if node.parent.type == "decorated" else ""
    compiled = bool(re.search(r"@(njit|part_of_step)\b", decorated))
    return range(node.start_pos[0], node.end_pos[0] + 1), [], compiled


@dataclass(frozen=True)
class Place:
    """Where a module can be changed."""

    module: str
    line: int
    column: int
    statement: range = field(compare=False)
    function: range = field(compare=False)
    mentions: list[int] = field(
        compare=False
    )  # the lines with a name that the statement gives, if it is in no function
    compiled: bool = field(compare=False)


class Places(Visitor):
    """found: (node, position, operator's name, occurrence), every mutation of a module that counts."""

    def __init__(self):
        self.found, self.seen = [], Counter()

    def visit(self, node):
        for name, operator in OPERATORS.items():
            for start, _ in operator.mutation_positions(node):
                if counts(node) and not (name.endswith("NumberReplacer") and is_huge(node)):
                    self.found.append((node, start, name, self.seen[name]))
                self.seen[name] += 1
        return node


def modules(root: Path) -> list[str]:
    """The modules that are changed, by their paths below the package."""
    package = root / "pfpne"
    paths = [path for path in package.rglob("*.py") if path.parent.name in FOLDERS or path.stem in MODULES]
    return sorted(path.relative_to(package).as_posix() for path in paths)


def mutants(only: str) -> dict[Place, list[tuple[str, int]]]:
    """(operator's name, occurrence), for each place."""
    places = defaultdict(list)
    for module in modules(ROOT):
        visitor = Places()
        visitor.walk(get_ast((ROOT / "pfpne" / module).read_text(encoding="utf-8")))
        for node, (line, column), name, occurrence in visitor.found:
            if only in f"pfpne/{module}:{line}:":
                place = Place(module, line, column, span(node), *function(node))
                places[place].append((name, occurrence))
    return places


class Chosen:
    """A plugin of pytest: runs these tests in this order, each for so many seconds at most; all where none are named.

    seconds: how long each took, infinite where it did not pass.
    """

    def __init__(self, limits: dict[str, float] | None, limit: float = math.inf, watch=None):
        self.limits, self.limit, self.watch, self.seconds, self.failed = limits, limit, watch, {}, set()

    def pytest_collection_modifyitems(self, items):
        if self.limits is not None:
            by_name = {item.nodeid: item for item in items}
            items[:] = [by_name[name] for name in self.limits if name in by_name]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        def stop(*_):
            pytest.fail("too long")

        signal.signal(signal.SIGPROF, stop)
        limit = self.limits[item.nodeid] if self.limits else self.limit
        signal.setitimer(signal.ITIMER_PROF, limit if math.isfinite(limit) else 0)
        if self.watch:
            self.watch.switch_context(item.nodeid)
        start = time.process_time()
        self.seconds[item.nodeid] = math.inf
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            if item.nodeid not in self.failed:
                self.seconds[item.nodeid] = round(time.process_time() - start, 3)

    def pytest_runtest_logreport(self, report):
        if not report.passed:
            self.failed.add(report.nodeid)


def in_a_fork(copy: Path, work, seconds: float) -> int | None:
    """The status of a fork of this process that does the work in the copy; None where it took too long.

    This process has imported all but the package: that is half of the time.
    """
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        status = 9
        try:
            os.setsid()
            os.chdir(copy)
            os.dup2(os.open(copy.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.dup2(1, 2)
            sys.path[:0] = [str(copy), str(copy / "tests")]
            os.environ |= {"PYTHONPATH": str(copy), "PYTHONUTF8": "1", "CI": "1"}
            if DATASET.exists():
                os.environ["PFPNE_LANDMINE"] = str(DATASET)
            sys.dont_write_bytecode = True
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)
    return done[1]


class Rows:
    """An array with fields as compiled code sees it: rows[3].count is a number, and can be set."""

    def __init__(self, array):
        self.columns, self.size = {name: array[name] for name in array.dtype.names}, len(array)

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return Row(self.columns, i)


class Row:
    """One row of it."""

    __slots__ = ("_columns", "_i")

    def __init__(self, columns, i):
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_i", i)

    def __getattr__(self, name):
        return self._columns[name].item(self._i)

    def __setattr__(self, name, value):
        self._columns[name][self._i] = value


def plain_python(**options):
    """What stands in for pfpne.compiled.njit: the function itself, which runs slowly, and starts at once."""

    def decorate(function):
        @functools.wraps(function)
        def call(*arguments):
            return function(*(Rows(x) if isinstance(x, np.ndarray) and x.dtype.names else x for x in arguments))

        return call

    return decorate


def machine_code(folder: Path, compiled: bool, shared: bool) -> None:
    """Have plain Python instead of compiled code, or machine code in the folder.

    shared: it is the machine code of the package as it was: no compiled function has been changed.
    """
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(folder)
    if not compiled or shared:
        from pfpne import compiled as ours

        if not compiled:
            ours.njit = plain_python
            return
        ours.COMPILED_FOLDER = folder / "pfpne-compiled" / "shared"
        ours.COMPILED_FOLDER.mkdir(parents=True, exist_ok=True)
        caching._SourceFileBackedLocatorMixin.get_source_stamp = lambda locator: (0, 0)


PYTEST = ["-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]


def run(copy: Path, limits: dict[str, float], folder: Path, compiled: bool, shared: bool, seconds: float) -> str:
    """What these tests say of the copy: the first that fails, "too long", or nothing."""

    def work() -> int:
        machine_code(folder, compiled, shared)
        files = sorted({name.split("::")[0] for name in limits})
        return int(pytest.main([*PYTEST, *files], plugins=[Chosen(limits)]))

    status = in_a_fork(copy, work, seconds)
    if status == 0:
        return ""
    if status is None:
        return "too long"
    lines = (copy.parent / "said").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), f"status {status}: {lines[-1:]}")


def reach(copy: Path, folder: Path) -> dict:
    """What each test reaches of the modules, as measured before; test files that have changed are measured again.

    file of tests -> its digest; seconds of each test as plain Python (infinite where it is not to be run so);
    for each module, line -> tests.
    """
    known = json.loads(REACHED.read_text()) if REACHED.exists() else {}
    sources = [*sorted((copy / "pfpne").rglob("*.py")), copy / "tests" / "conftest.py", copy / "tests" / "listing.py"]
    common = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    files = [path for path in sorted((copy / "tests").glob("test_*.py")) if path.stem[5:] not in MACHINERY]
    found = {}
    for path in files:
        name = f"tests/{path.name}"
        digest = hashlib.sha256(common.encode() + path.read_bytes()).hexdigest()
        if known.get(name, {}).get("digest") == digest:
            found[name] = known[name]
            continue
        result = copy.parent / "reach.json"

        def work(name=name, digest=digest, result=result) -> int:
            import coverage

            machine_code(folder, compiled=False, shared=True)
            watch = coverage.Coverage(data_file=None, include=[f"{copy}/pfpne/*"])
            watch.start()
            watch.switch_context("import")
            chosen = Chosen(None, TEST_SECONDS, watch)
            status = pytest.main([*PYTEST[1:], name], plugins=[chosen])
            watch.stop()
            if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
                return int(status)
            data = watch.get_data()
            lines = {}
            for module in modules(copy):
                by_line = data.contexts_by_lineno(str(copy / "pfpne" / module)) or {}
                by_line = {line: sorted(set(tests) - {"import", ""}) for line, tests in by_line.items()}
                lines[module] = {line: tests for line, tests in by_line.items() if tests}
            result.write_text(json.dumps({"digest": digest, "seconds": chosen.seconds, "lines": lines}))
            return 0

        result.unlink(missing_ok=True)
        start = time.monotonic()
        status = in_a_fork(copy, work, 900)
        if status != 0:
            said = (copy.parent / "said").read_text(encoding="utf-8", errors="replace")
            raise SystemExit(f"{name} was not measured, so what it would notice would survive: {said[-2000:]}")
        found[name] = json.loads(result.read_text())
        print(f"    {name} in {time.monotonic() - start:.0f} s", flush=True)
        REACHED.write_text(json.dumps({**known, **found}))
    return found


def chosen_tests(place: Place, reached: dict) -> dict[str, float]:
    """Seconds of each test that may notice a change of the place, in the order in which they are run.

    The quickest of those that reach its statement are first, then the quickest of the same files: what they see may
    have been computed before, in a fixture. Where no test reaches the statement, those that reach the function;
    for what runs at import, those that reach a line that mentions it, or else the module.
    """
    seconds = {test: value for file in reached.values() for test, value in file["seconds"].items()}
    by_line = defaultdict(set)
    for file in reached.values():
        for line, tests in file["lines"].get(place.module, {}).items():
            by_line[int(line)] |= set(tests)
    for lines in (place.statement, place.function, place.mentions, list(by_line)):
        if direct := set().union(*(by_line[line] for line in lines)):
            break
    files = {test.split("::")[0] for test in direct}
    beside = {test for test in seconds if test.split("::")[0] in files} - direct
    ordered = [*sorted(direct, key=seconds.get), *sorted(beside, key=seconds.get)]
    return {test: seconds[test] for test in ordered}


def as_compiled(copy: Path, reached: dict, shared: Path) -> dict[str, float]:
    """Seconds of those tests that are not to be run as plain Python and that pass with compiled code."""
    names = [test for file in reached.values() for test, value in file["seconds"].items() if math.isinf(value)]
    result = copy.parent / "compiled.json"

    def work() -> int:
        machine_code(shared, compiled=True, shared=True)
        chosen = Chosen(dict.fromkeys(names, math.inf))
        pytest.main([*PYTEST[1:], *sorted({name.split("::")[0] for name in names})], plugins=[chosen])
        result.write_text(json.dumps(chosen.seconds))
        return 0

    in_a_fork(copy, work, 3600)
    seconds = json.loads(result.read_text())
    return {test: value for test, value in seconds.items() if math.isfinite(value)}


def noticed_by(copy: Path, place: Place, reached: dict, compiled: dict[str, float], shared: Path) -> str:
    """What the tests say of the changed copy: the first that fails, or nothing."""
    seconds = chosen_tests(place, reached)
    batches, total = ([], []), 0.0
    for test in seconds:
        total += seconds[test]
        if math.isfinite(total) and total <= sum(BATCHES):
            batches[total > BATCHES[0]].append(test)
    slow = {test: math.inf for test in seconds if test in compiled}
    for tests in filter(None, batches):
        limits = {test: 20 + 10 * seconds[test] for test in tests}
        if said := run(copy, limits, shared, not place.compiled, True, LONGEST):
            return said
    if not place.compiled:
        return run(copy, slow, shared, True, True, LONGEST) if slow else ""
    with tempfile.TemporaryDirectory() as own:  # what is said of compiled code only
        return run(copy, dict.fromkeys(batches[0], math.inf) | slow, Path(own), True, False, LONGEST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", default=20, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="how many of them have been run before")
    parser.add_argument("--only", default="", help="places that hold this text, such as pfpne/rng.py:31:")
    asked = parser.parse_args()
    places, rng = mutants(asked.only), random.Random(asked.seed)
    in_order = sorted(places, key=lambda place: (place.module, place.line, place.column))
    drawn = rng.sample(in_order, min(asked.number, len(places)))
    drawn = [(place, rng.choice(places[place])) for place in drawn]
    print(f"{len(drawn)} of {len(places)} places, seed {asked.seed}", flush=True)
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy, shared = Path(folder) / "checkout", Path(folder) / "numba"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", ".mutants", ".pyright", "results", "executed", "site", "__pycache__", ".*cache"
        )
        shutil.copytree(ROOT, copy, ignore=ignored)
        reached = reach(copy, shared)
        compiled = as_compiled(copy, reached, shared)
        print(f"{sum(len(file['seconds']) for file in reached.values())} tests", flush=True)
        for i, (place, (name, occurrence)) in enumerate(drawn[asked.skip :], asked.skip + 1):
            path, start = copy / "pfpne" / place.module, time.monotonic()
            source = path.read_text(encoding="utf-8")
            changed = mutate_code(source, OPERATORS[name], occurrence)
            path.write_text(changed, encoding="utf-8")
            noticed = noticed_by(copy, place, reached, compiled, shared)
            path.write_text(source, encoding="utf-8")
            passed += not noticed
            old, new = (text.splitlines()[place.line - 1].strip() for text in (source, changed))
            verdict = "noticed " if noticed else "SURVIVED"
            print(
                f"{i} {verdict} pfpne/{place.module}:{place.line}:{place.column} {name.split('/')[-1]}"
                f" {time.monotonic() - start:.0f} s\n    {old}\n    {new}\n    {noticed[:150]}",
                flush=True,
            )
    print(f"{passed} of {len(drawn) - asked.skip} survived")


if __name__ == "__main__":
    main()
