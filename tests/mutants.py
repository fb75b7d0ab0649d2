"""`make mutants`: small wrong changes of the package, one at a time, which the tests of that module should notice.

Cosmic Ray's operators make them, and a few of our own for the slips that people make. A random sample is run on a copy
of the checkout. Wording is left out: strings, annotations, `raise`, and what only draws. survivors.md lists what passed
and why.

    make mutants N=50 ARGS="--seed 3 --only pfpne/algorithms/"
"""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import hypothesis  # noqa: F401
import numba
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

ROOT = Path(__file__).parent.parent
PHASES = "pf_pne bounds listing simulate fuzz contract"
TREES = "hct hoo contract"
CLAIMS = "claims tables findings"
TESTS = {  # module -> the tests that should notice, the quickest first
    "algorithms/arms": "fed1_ucb listing fn_ucb landmine contract",
    "algorithms/blin": "blin contract",
    "algorithms/centralized": "hct contract",
    "algorithms/fed1_ucb": "fed1_ucb listing contract fuzz",
    "algorithms/fn_ucb": "fn_ucb contract",
    "algorithms/hct": TREES,
    "algorithms/hoo": TREES,
    "algorithms/pf_pne": PHASES,
    "algorithms/phases": PHASES,
    "algorithms/pf_pne_plus": "pf_pne_plus contract fuzz",
    "algorithms/random_search": "tuning contract",
    "simulation/neural": "fn_ucb contract",
    "simulation/noise": "simulate listing contract",
    "simulation/phased": PHASES,
    "simulation/record": "simulate listing hct contract",
    "simulation/simulate": "simulate listing contract partition",
    "simulation/tree": TREES,
    "problems/__init__": "problems",
    "problems/base": "problems landmine",
    "problems/landmine": "landmine problems",
    "problems/maxima": "problems",
    "problems/own": "problems simulate",
    "problems/synthetic": "problems",
    "federation": "contract door fuzz pf_pne live",
    "messages": "door contract fuzz live",
    "partition": "partition listing bounds",
    "rng": "problems partition simulate",
    "tuning/evaluate": "tuning",
    "tuning/history": "tuning",
    "tuning/search": "tuning",
    "tuning/space": "space tuning",
    "paper/exhibits/assumptions": "assumptions",
    "paper/exhibits/beyond": "beyond",
    "paper/claims/tests": CLAIMS,
    "paper/claims/verdicts": CLAIMS,
    "paper/exhibits/deviations": "deviations",
    "paper/claims/events": "events claims",
    "paper/claims/evidence": "claims experiment regimes",
    "paper/exhibits/findings": "findings",
    "paper/claims/premises": "assumptions events",
    "paper/exhibits/regimes": "regimes",
    "paper/exhibits/specification": "specification findings",
    "paper/claims/stats": CLAIMS,
    "paper/exhibits/table1": "claims tables",
    "paper/exhibits/why": "why",
}
DRAWING = {"draw", "curves", "ablation"}  # functions whose output is looked at
PLAUSIBLE = re.compile(  # of the operators: those whose change keeps the types, and so may go unnoticed
    r"BinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Mul_Add|Div_Mul|Pow_Mul|FloorDiv_Div|Mod_FloorDiv|BitAnd_BitOr|BitOr_BitAnd)$"
    r"|ComparisonOperator_(Lt_LtE|Lt_Gt|LtE_Lt|LtE_GtE|Gt_GtE|Gt_Lt|GtE_Gt|GtE_LtE|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)$"
    r"|UnaryOperator_(USub_UAdd|Delete_Not|Invert_Delete)|AddNot|True|AndWithOr|OrWithAnd|Break|Continue|NumberReplacer$"
)
NAMES = (
    "mean median",
    "min max",
    "argmin argmax",
    "idxmin idxmax",
    "minimum maximum",
    "any all",
    "floor ceil",
    "sum mean",
)
NAMES += ("low high", "first last", "up down", "ours theirs", "own shared", "left right", "append prepend", "log log2")
SWAPPED = {a: b for pair in NAMES for a, b in (pair.split(), pair.split()[::-1])} | {"sum": "mean"}
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


class _Ours(Operator):
    @classmethod
    def examples(cls):
        return ()


class SwapNames(_Ours):
    """median for mean, max for min, high for low."""

    def mutation_positions(self, node):
        if node.type == "name" and node.value in SWAPPED and not node.is_definition():
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        node.value = SWAPPED[node.value]
        return node


class SwapArguments(_Ours):
    """f(b, a) for f(a, b)."""

    def _pairs(self, node):
        values = node.children[::2] if node.type == "arglist" else []
        plain = [value.type not in ("argument", "keyword") for value in values]
        codes = [value.get_code(include_prefix=False) for value in values]
        return [2 * i for i in range(len(values) - 1) if plain[i] and plain[i + 1] and codes[i] != codes[i + 1]]

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
    """0.9 for 1.0."""

    def mutation_positions(self, node):
        if node.type == "number" and "." in node.value:
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
        if parent.type == "funcdef" and (child is parent.annotation or parent.name.value in DRAWING):
            return False
        child, parent = parent, parent.parent
    return True


class Places(Visitor):
    """found: (position, operator's name, occurrence), every mutation of a module that counts."""

    def __init__(self):
        self.found, self.seen = [], Counter()

    def visit(self, node):
        for name, operator in OPERATORS.items():
            for start, _ in operator.mutation_positions(node):
                if counts(node):
                    self.found.append((start, name, self.seen[name]))
                self.seen[name] += 1
        return node


def mutants(only: str) -> dict:
    """(module, line, column) -> [(operator's name, occurrence), ...]."""
    places = {}
    for module in TESTS:
        visitor = Places()
        visitor.walk(get_ast((ROOT / "pfpne" / f"{module}.py").read_text(encoding="utf-8")))
        for (line, column), name, occurrence in visitor.found:
            if only in f"pfpne/{module}.py:{line}:":
                places.setdefault((module, line, column), []).append((name, occurrence))
    return places


def run(copy: Path, module: str, cache: str, seconds: float = 600) -> str:
    """What the tests of the module say of the copy: the first that fails, "too long", or nothing.

    They run in a fork of this process, which has imported all but the package: that is half of the time.
    """
    said = copy.parent / "said"
    if (child := os.fork()) == 0:
        os.chdir(copy)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        sys.path[:0] = [str(copy), str(copy / "tests")]
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONUTF8": "1", "CI": "1", "NUMBA_CACHE_DIR": cache}
        numba.config.CACHE_DIR = cache  # machine code of another mutant would be run else
        sys.dont_write_bytecode = True
        tests = [f"tests/test_{name}.py" for name in TESTS[module].split()]
        os._exit(pytest.main(["-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", *tests]))
    end = time.monotonic() + seconds
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "too long"
        time.sleep(0.05)
    if done[1] == 0:
        return ""
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), f"status {done[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", default=20, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="places that hold this text, such as pfpne/rng.py:31:")
    asked = parser.parse_args()
    places, rng = mutants(asked.only), random.Random(asked.seed)
    drawn = rng.sample(sorted(places), min(asked.number, len(places)))
    print(f"{len(drawn)} of {len(places)} places, seed {asked.seed}", flush=True)
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", ".mutants", "results*", "executed", "site", "__pycache__", ".*cache"
        )
        shutil.copytree(ROOT, copy, ignore=ignored)
        for module, line, column in drawn:
            path, (name, occurrence) = copy / "pfpne" / f"{module}.py", rng.choice(places[module, line, column])
            source = path.read_text(encoding="utf-8")
            changed = mutate_code(source, OPERATORS[name], occurrence)
            path.write_text(changed, encoding="utf-8")
            compiled = module.startswith(("algorithms/", "simulation/"))
            with tempfile.TemporaryDirectory() as own:
                noticed = run(copy, module, own if compiled else str(Path(folder) / "numba"))
            path.write_text(source, encoding="utf-8")
            passed += not noticed
            old, new = source.splitlines()[line - 1].strip(), changed.splitlines()[line - 1].strip()
            print(f"{'noticed ' if noticed else 'SURVIVED'} pfpne/{module}.py:{line}:{column} {name.split('/')[-1]}")
            print(f"    {old}\n    {new}\n    {noticed[:150]}", flush=True)
    print(f"{passed} of {len(drawn)} survived")


if __name__ == "__main__":
    main()
