"""What a key covers: all that a result can depend on, nothing else. What a stored file may look like: anything."""

import ast
import functools
import os
import pickle
import sys
from dataclasses import replace

import pytest

import pfpne
from pfpne.algorithms import NAMES
from pfpne.paper.claims import events, evidence
from pfpne.paper.exhibits import assumptions, deviations, sites, why
from pfpne.paper.run import cache, experiment, parameters
from pfpne.paper.run.closure import Definitions, read_sources
from pfpne.paper.run.experiment import Experiment, simulated
from pfpne.paper.run.folders import NOTEBOOKS
from pfpne.paths import PACKAGE

SOURCES = read_sources(PACKAGE)
LOADED = Definitions(SOURCES)
SYNTHETIC = "pfpne.problems.synthetic"


def roots(algorithm: str, objective: str = "garland") -> list[tuple]:
    first, *rows = experiment.roots((algorithm,), (objective,))
    return [(first.__module__, first.__name__), *rows]


def edited(*edits: tuple[str, str, str]) -> Definitions:
    """The package with edits (module, old, new): `old`, of which the module has one, becomes `new`."""
    sources = dict(SOURCES)
    for module, old, new in edits:
        text = sources[module].decode()
        assert text.count(old) == 1, f"{module} has {text.count(old)} of {old!r}"
        sources[module] = text.replace(old, new).encode()
    return Definitions(sources)


@functools.cache
def ours(algorithm: str) -> str:
    return LOADED.closure(*roots(algorithm))[0]


def changed(other: Definitions) -> set[str]:
    """The algorithms whose key, on garland, is another than ours."""
    return {name for name in NAMES if other.closure(*roots(name))[0] != ours(name)}


@pytest.mark.parametrize(
    ("module", "old", "new", "whose"),
    [
        ("pfpne.algorithms.arms", "VALUES_PER_DIMENSION = 20", "VALUES_PER_DIMENSION = 21", {"fed1-ucb", "fn-ucb"}),
        ("pfpne.algorithms.blin", "def pulls_of_cube(", "@functools.cache\ndef pulls_of_cube(", {"blin"}),
        ("pfpne.simulation.noise", "u -= 0.5", "u -= 0.25", set(NAMES)),
        ("pfpne.rng", "digest_size=8", "digest_size=16", set(NAMES)),
        (SYNTHETIC, "(4 - np.sqrt(", "(5 - np.sqrt(", set(NAMES)),
        (SYNTHETIC, "b * b) / 890", "b * b) / 891", set()),  # himmelblau
        ("pfpne.pyxab", "self.seed = seed", "self.seed = seed + 1", set()),
    ],
)
def test_a_changed_helper_changes_the_keys_of_what_uses_it_and_no_other(module, old, new, whose):
    assert changed(edited((module, old, new))) == whose


def test_a_changed_objective_changes_its_own_key_alone():
    other = edited((SYNTHETIC, "b * b) / 890", "b * b) / 891"))
    assert other.closure(*roots("pe", "himmelblau")) != LOADED.closure(*roots("pe", "himmelblau"))
    assert other.closure(*roots("pe", "ackley")) == LOADED.closure(*roots("pe", "ackley"))


NEW_ROWS = [
    ("pfpne.algorithms", '    "pe": ', '    "new": Algorithm(hct.HCTSettings, hct.make_hct),\n    "pe": '),
    ("pfpne.simulation.fast", '    "hct": ', '    "new": hct.fast_hct,\n    "hct": '),
    ("pfpne.problems", '    "himmelblau": ', '    "new": None,\n    "himmelblau": '),
]


def test_what_decides_no_number_changes_no_key():
    noise, driver = "pfpne.simulation.noise", "pfpne.simulation.simulate"
    future = "from __future__ import annotations\n"
    edits = [
        ("pfpne.simulation.record", "recorded optimum: the", "recorded one: the"),  # a sentence of an error
        (noise, '"""One stream a client:', '"""A stream a client:'),
        (noise, "    u -= 0.5", "    # why\n    u -= 0.5"),
        (noise, "u: np.ndarray) -> np.ndarray", "u) -> object"),
        (driver, 'check_count("horizon", horizon)', 'check_count("horizon", horizon, " or so")'),
        (driver, "same_domain = np.array_equal(", "same_domain = np.allclose("),  # what a check alone reads
        ("pfpne.validation", "is_number(x) and 1e-9 <= x", "is_number(x) and 1e-8 <= x"),
        ("pfpne.federation", "if m not in self._pending:", "if m >= 0 and m not in self._pending:"),
        *NEW_ROWS,
        ("pfpne.algorithms.hoo", future, f"{future}\nNEW = 1\n"),
        ("pfpne.paper.run.experiment", "claim_runs=30", "claim_runs=31"),
        ("pfpne.paper.claims.stats", "EXACT = 40", "NEW = 1\nEXACT = 40"),
    ]
    assert changed(edited(*edits)) == set()


def test_a_new_row_changes_no_key_of_any_kind(monkeypatch, tmp_path):
    asked = {}  # kind -> the roots of its key

    def note(kind, of):
        monkeypatch.setattr(cache, "key", lambda content, *found: asked.setdefault(kind, found) and "0" * 64)
        of()

    one = Experiment("garland", ("pf-pne",), 2, 20, 1)
    monkeypatch.setattr(Experiment, "key", lambda self, *pair: "run")
    monkeypatch.setattr(cache, "rows", lambda *_: [])
    note("summary", lambda: evidence._key(one, evidence._numbers))
    note("events", lambda: evidence._key(one, events.of_run))
    for name in deviations.VARIANTS:
        base, row = deviations.VARIANTS[name][0], (deviations.__name__, "VARIANTS", name)
        note(name, lambda row=row, base=base: evidence._key(replace(one, algorithms=(base,)), evidence._regret_of, row))
    note("depths", lambda: why._stored(one, "pf-pne", 0, tmp_path))
    note("sites", lambda: sites.results(parameters.complete("6_tune_your_own", {"profile": "smoke"}), folder=tmp_path))
    note("assumptions", lambda: assumptions._stored(tmp_path, 3, "garland"))
    other = edited(*NEW_ROWS)
    assert len(asked) == 5 + len(deviations.VARIANTS)
    for kind, found in asked.items():
        named = [root if isinstance(root, tuple) else (root.__module__, root.__name__) for root in found]
        assert other.closure(*named)[0] == LOADED.closure(*named)[0], kind


def test_what_is_left_out_of_a_definition():
    def text(source: str) -> str:
        return Definitions({"m": source.encode()}).closure(("m", "f"))[1]["m", "f"]

    plain = text("def f(x, y):\n    z = g(x)\n    return z")
    assert plain == text('def f(x: int, y: list[g]) -> "g":\n    z = g(x)\n    return z')
    checked = """
def f(x, y):
    '''Doc.'''
    holds = h(x) and x > 0  # read by a check alone
    check(holds, "x", "wanted", x)
    for name in y:
        checks.check_noise(name)
    if x < 0:
        limit = h(y)
        raise ValueError(f"{limit} is too much.")
    z = g(x)
    if z is None:
        if y:
            raise KeyError("y")
    return z
"""
    assert text(checked.replace("        limit = h(y)\n", "").replace("{limit}", "{h(y)}")) == plain
    kept = ("z = g(x)", "if (n := g(x)):\n        raise ValueError", "w = rng.random()", "for n in g(x):\n        pass")
    for line in kept:
        assert text(f"def f(x):\n    {line}\n    return 1") != text("def f(x):\n    return 1"), line


def test_names_are_followed_through_modules_and_rows():
    sources = {
        "p": b"",
        "p.a": b"from p import b\nimport p.c as c\nT = {'x': b.f, 'y': c.g}\nN = tuple(T)\ndef use(): return T, N",
        "p.b": b"X = 1\nunused = 2\ndef f():\n    from p.c import h\n    return h(X)",
        "p.c": b"def g(): pass\ndef h(f): return f",
    }
    d = Definitions(sources)
    assert set(d.closure(("p.a", "use"), ("p.a", "T", "x"))[1]) == {
        *(("p.a", "use"), ("p.a", "N"), ("p.a", "T", "x")),
        *(("p.b", "f"), ("p.b", "X"), ("p.c", "h")),
    }
    assert set(d.closure(("p.a", "use"), ("p.a", "T", "none"))[1]) == {("p.a", "use"), ("p.a", "N")}
    assert ("p.c", "g") in d.closure(("p.a", "use"))[1]  # a dict of which no root names a row: all of it
    assert d.imported("from p import a, b\nimport p.c\na.use()\nb = p.c.g") == [("p.a", "use"), ("p.c", "g")]
    with pytest.raises(LookupError, match=r"p\.a\.gone is not defined"):
        d.closure(("p.a", "gone"))


def test_every_module_is_made_of_definitions_and_imports_that_are_found():
    for module, source in SOURCES.items():
        for statement in ast.parse(source).body:
            script = isinstance(statement, ast.If) and ast.unparse(statement.test) in (
                "TYPE_CHECKING",
                "__name__ == '__main__'",
            )
            doc = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            kinds = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)
            assert script or doc or isinstance(statement, kinds), (module, ast.unparse(statement))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "pfpne":
                for alias in node.names:
                    known = f"{node.module}.{alias.name}" in SOURCES or LOADED._find(node.module, alias.name)
                    assert known, (module, ast.unparse(node))


def only_checks(name: str) -> bool:
    return name in ("is_integer", "is_number", "settings_of") or name == "check" or name.startswith("check_")


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_key_covers_everything_that_a_run_calls(name, objects):
    called = set()

    def run():
        problem = pfpne.make_problem("garland", 2, noise=0.1)
        pfpne.simulate(name, problem, 60, objects=objects, global_regret=True)

    def seen(frame, event, argument):
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if event == "call" and module.partition(".")[0] == "pfpne" and code.co_name != "<module>":
            called.add((module, code.co_qualname.partition(".")[0]))

    run()  # all is loaded and compiled
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    covered = {node[:2] for node in LOADED.closure(*roots(name))[1]}
    missed = {name for _, name in called - covered if not name.startswith(("<", "__create_fn__"))}  # no dataclass's own
    assert len(called) > 20 and all(map(only_checks, missed)), missed


def test_a_variant_and_a_notebook_follow_their_own_code():
    row = (deviations.__name__, "VARIANTS", "fresh")
    own = {node[1] for node in LOADED.closure(row)[1] if node[0] == deviations.__name__}
    assert own == {"VARIANTS", "Fresh", "_phased"}
    found = cache.roots_of(NOTEBOOKS / "1_synthetic_regret.ipynb")
    assert ("pfpne.paper.exhibits.regret", "regret") in found and (
        "pfpne.paper.exhibits.regret",
        "surfaces",
    ) not in found
    assert ("pfpne.algorithms", "ALGORITHMS") in LOADED.closure(*found)[1]  # all of it


def test_an_edit_after_loading_stops_the_run_if_it_changes_what_is_computed(tmp_path, monkeypatch):
    (tmp_path / "pfpne").mkdir()
    module = tmp_path / "pfpne" / "m.py"
    module.write_text("def f():\n    return 1\n\n\ndef g():\n    return 1\n")
    monkeypatch.setattr(cache, "PACKAGE", module.parent)
    monkeypatch.setattr(cache, "_stamps", cache._stamps.__wrapped__)
    monkeypatch.setattr(cache, "_AT_START", cache._stamps(0))
    monkeypatch.setattr(cache, "LOADED", Definitions(read_sources(module.parent)))
    before = cache.key({}, ("pfpne.m", "f"))
    module.write_text("def f():\n    return 1  # a comment\n\n\ndef g():\n    return 2\n")
    assert cache.key({}, ("pfpne.m", "f")) == before
    with pytest.raises(cache.SourceChanged, match=r"pfpne\.m was edited .* restart the kernel"):
        cache.key({}, ("pfpne.m", "g"))
    module.write_text("def f(:")
    with pytest.raises(cache.SourceChanged, match="restart the kernel"):
        cache.key({}, ("pfpne.m", "f"))


def test_a_key_covers_the_content_and_the_versions(monkeypatch):
    root = (simulated.__module__, "simulated")
    key = cache.key({"a": 1}, root)
    assert key == cache.key({"a": 1}, simulated) != cache.key({"a": 2}, root)
    monkeypatch.setattr(cache, "versions", lambda: {"numpy": "0"})
    assert cache.key({"a": 1}, root) != key


# --- files ------------------------------------------------------------------------------------------


def as_bytes(content: bytes):
    def put(path):
        path.write_bytes(content)

    return put


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def folder(path):
    path.unlink()
    path.mkdir()


def fifo(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = [cut, flip, folder, fifo, *map(as_bytes, (b"", b"text", b"[]", b"null", b"\xff\xfe", b"[" * 100_000))]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows_are_made_again(tmp_path, damage):
    made = []

    def make():
        made.append(1)
        return [["pe", 0, 0.1, float("inf"), 3]]

    key = cache.key({}, simulated)
    first = cache.rows(key, make, tmp_path)
    assert cache.rows(key, make, tmp_path) == first and len(made) == 1
    (path,) = (tmp_path / "summaries").iterdir()
    damage(path)
    with pytest.warns(cache.DamagedResult, match="is damaged"):
        assert cache.rows(key, make, tmp_path) == first
    assert len(made) == 2


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_made_again(tmp_path, damage):
    experiment = Experiment("garland", ("pe",), 2, 20, 1)
    key = experiment.key("pe", 0)

    def make():
        return simulated(experiment, "pe", 0)

    first = cache.run(key, make, tmp_path)
    damage(cache.path_of(key, tmp_path))
    with pytest.warns(cache.DamagedResult, match="is damaged"):
        again = cache.run(key, make, tmp_path)
    assert (again.regret == first.regret).all() and again.rounds.shape == first.rounds.shape


def test_another_results_file_is_not_taken(tmp_path):
    keys = [cache.key({"n": n}, simulated) for n in range(2)]
    for n, key in enumerate(keys):
        cache.rows(key, lambda n=n: [n], tmp_path)
    one, other = (tmp_path / "summaries" / f"{key[:32]}.json" for key in keys)
    other.write_bytes(one.read_bytes())
    with pytest.warns(cache.DamagedResult, match="another's"):
        assert cache.rows(keys[1], lambda: [1], tmp_path) == [1]


def test_a_variant_is_played_once(tmp_path, monkeypatch):
    base, algorithm, partition = deviations.VARIANTS["decreasing"]
    root = (deviations.__name__, "VARIANTS", "decreasing")
    scale = evidence.Study(2, 60, 2, 2, (), folder=tmp_path)
    regrets = scale.variant("garland", base, algorithm, partition, "bernoulli", 2, root).tolist()
    problem = pfpne.make_problem("garland", 2, run=1)
    mirrored = pfpne.simulate(algorithm, problem, 60, partition=partition(problem.domain, max_depth=problem.max_depth))
    assert regrets[1] == mirrored.regret[:, -1].mean()
    monkeypatch.setattr(evidence, "unordered", None)
    assert scale.variant("garland", base, algorithm, partition, "bernoulli", 2, root).tolist() == regrets
    assert pickle.loads(pickle.dumps(deviations.VARIANTS)).keys() == deviations.VARIANTS.keys()  # for workers
