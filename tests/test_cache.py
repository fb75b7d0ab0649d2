"""What a key covers: all that a result can depend on, nothing else. What a stored file may look like: anything."""

import io
import os
import pickle
import sys
import zipfile
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import pfpne
from pfpne.algorithms import ALGORITHMS, UNLIMITED_ALGORITHMS
from pfpne.paper.claims import evidence
from pfpne.paper.exhibits import deviations
from pfpne.paper.run import cache, sources
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paper.run.results import run_experiment
from pfpne.paper.run.sources import LOADED, Sources

SYNTHETIC = "pfpne.problems.synthetic"


def edited(*edits: tuple[str, str, str]) -> Sources:
    """The package with edits (module, old, new): what the module has of `old` becomes `new`."""
    package = Sources()
    for module, old, new in edits:
        text = package.modules[module].decode()
        assert old in text, (module, old)
        package.modules[module] = text.replace(old, new).encode()
    return package


def key(monkeypatch, algorithm: str, objective: str = "garland", package: Sources = LOADED) -> str:
    with monkeypatch.context() as patch:
        patch.setattr(sources, "LOADED", package)
        return Experiment(objective, 2, 20, algorithms=(algorithm,), n_runs=1).key(algorithm, 0)


def changed(monkeypatch, package: Sources, objective: str = "garland") -> set[str]:
    """The algorithms whose key is another than ours."""
    pairs = {
        name: [key(monkeypatch, name, objective, one) for one in (LOADED, package)] for name in UNLIMITED_ALGORITHMS
    }
    return {name for name, (ours, theirs) in pairs.items() if ours != theirs}


# --- keys -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "old", "new", "whose"),
    [
        ("pfpne.algorithms.arms", "VALUES_PER_DIMENSION = 20", "VALUES_PER_DIMENSION = 21", {"fed1-ucb", "fn-ucb"}),
        ("pfpne.algorithms.blin", "def pulls_of_cube(", "@functools.cache\ndef pulls_of_cube(", {"blin"}),
        ("pfpne.algorithms.hoo", "import math\n", "import math\n\nNEW = 1\n", {"hoo"}),
        ("pfpne.simulation.neural", "import numpy as np\n", "import numpy as np\n\nNEW = 1\n", {"fn-ucb"}),
        ("pfpne.simulation.noise", "u -= 0.5", "u -= 0.25", set(UNLIMITED_ALGORITHMS)),
        ("pfpne.rng", "digest_size=8", "digest_size=16", set(UNLIMITED_ALGORITHMS)),
        (SYNTHETIC, "(4 - np.sqrt(", "(5 - np.sqrt(", set(UNLIMITED_ALGORITHMS)),
        ("pfpne.problems.landmine", "import zlib\n", "import zlib\n\nNEW = 1\n", set()),
        ("pfpne.tuning.search", "import numpy as np\n", "import numpy as np\n\nNEW = 1\n", set()),
        (
            "pfpne.problems",
            "d = objective.d if d is None",
            "d = 2 if d is None",
            set(UNLIMITED_ALGORITHMS),
        ),  # what a registry does
    ],
)
def test_a_changed_module_changes_the_keys_of_what_imports_it_and_no_other(monkeypatch, module, old, new, whose):
    assert changed(monkeypatch, edited((module, old, new))) == whose


def test_a_changed_objective_changes_no_key_of_another_module(monkeypatch):
    package = edited((SYNTHETIC, "b * b) / 890", "b * b) / 891"))
    assert (
        changed(monkeypatch, package, "himmelblau") == set(UNLIMITED_ALGORITHMS)
        and changed(monkeypatch, package, "landmine") == set()
    )


def test_what_decides_no_number_changes_no_key(monkeypatch):
    noise = "pfpne.simulation.noise"
    package = edited(
        (noise, '"""Add noise', '"""This adds noise'),
        (noise, "    u -= 0.5", "\n    # why\n    u -= 0.5"),
        ("pfpne.algorithms", '    "pe": ', '    "new": Algorithm(hct.HCTSettings, hct.make_hct),\n    "pe": '),
        ("pfpne.algorithms", "import blin,", "import new, blin,"),
        ("pfpne.simulation.fast", "    make_tree_clients: ", "    new.make: new.simulate,\n    make_tree_clients: "),
        ("pfpne.problems", '    "himmelblau": ', '    "new": None,\n    "himmelblau": '),
        ("pfpne.paper.run.profiles", "claim_runs=30", "claim_runs=31"),
        ("pfpne.paper.run.workers", "import time\n", "import time\n\nNEW = 1\n"),
        ("pfpne.paper.show.style", "DASH", "HYPHEN"),
        ("pfpne.paper.claims.stats", "EXACT = 40", "EXACT = 41"),
    )
    assert changed(monkeypatch, package) == set()


def test_a_changed_row_changes_its_own_keys(monkeypatch):
    ours = {name: key(monkeypatch, name) for name in ("pe", "hct")}
    monkeypatch.setitem(ALGORITHMS, "hct", ALGORITHMS["hct-pyxab"])
    assert key(monkeypatch, "hct") != ours["hct"] and key(monkeypatch, "pe") == ours["pe"]


@dataclass(frozen=True)
class Row:
    values: dict
    function: object


def test_a_part_counts_by_its_values_and_by_the_modules_of_its_functions(monkeypatch):
    hashed = []
    monkeypatch.setattr(cache, "source_hash", lambda modules: hashed.append({*modules}))
    rows = [
        Row({"a": np.array(array), "b": (1, "x", None)}, partial(pfpne.simulate, horizon, {"c": 0.5}))
        for array, horizon in (([1.0, 2.0], 10), ([1.0, 3.0], 10), ([1.0, 2.0], 20), ([1.0, 2.0], 10))
    ]
    keys = [cache.key({}, row) for row in rows]
    assert keys[0] == keys[3] and len(set(keys)) == 3
    assert hashed[0] == {__name__, "pfpne.simulation.simulate"}


def test_code_outside_the_package_has_no_key():
    with pytest.raises(LookupError, match=f"{__name__} is no module of the package"):
        cache.key({}, edited)


def test_every_import_is_followed_wherever_it_stands(tmp_path):
    package = tmp_path / "p"
    (package / "paper" / "show").mkdir(parents=True)
    texts = {
        "__init__": "",
        "a": "from p import b\nimport p.c as c",
        "b": "def f():\n    from p.d import g",
        "c": "import numpy",
        "d": "from p.paper.show.e import h",
        "paper/show/e": "import p.f",
        "f": "",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    followed = Sources(package).reached(frozenset({"p.a"}))
    assert set(followed) == {"p.a", "p.b", "p.c", "p.d", "p.paper.show.e", "p.f"}


def test_a_notebook_is_known_by_all_that_its_cells_import():
    imported = sources.imported_by(NOTEBOOKS_FOLDER / "1_synthetic_regret.ipynb")
    assert "pfpne.paper.exhibits.regret" in imported and "pfpne.paper.exhibits.assumptions" not in imported
    whole = LOADED.reached(frozenset(imported), follow_all=True)
    assert {"pfpne.paper.show.style", "pfpne.paper.run.parameters", "pfpne.algorithms", "pfpne.algorithms.gp"} <= {
        *whole
    }


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("name", UNLIMITED_ALGORITHMS)
def test_a_key_covers_every_module_that_a_run_calls(monkeypatch, name, objects):
    reached, called = [], set()
    monkeypatch.setattr(cache, "source_hash", lambda modules: reached.append(LOADED.reached(frozenset(modules))))
    Experiment("garland", 2, 60, algorithms=(name,), n_runs=1).key(name, 0)

    def run():
        problem = pfpne.make_problem("garland", 2, noise=0.1)
        pfpne.simulate(name, problem, 60, objects=objects, global_regret=True)

    def note(frame, event, argument):
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if event == "call" and module.partition(".")[0] == "pfpne" and code.co_name != "<module>":
            called.add(module)

    run()  # all is loaded and compiled
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    assert len(called) > 8 and called <= set(reached[0])


def test_an_edit_after_loading_stops_the_run_if_it_changes_what_is_computed(tmp_path, monkeypatch):
    (tmp_path / "pfpne").mkdir()
    module, other = (tmp_path / "pfpne" / name for name in ("m.py", "n.py"))
    module.write_text("def f():\n    return 1\n")
    other.write_text("import pfpne.m\n")
    monkeypatch.setattr(sources, "PACKAGE_FOLDER", module.parent)
    monkeypatch.setattr(sources, "_stamps", sources._stamps.__wrapped__)
    monkeypatch.setattr(sources, "_AT_START", sources._stamps(0))
    monkeypatch.setattr(sources, "LOADED", Sources(module.parent))
    before = sources.source_hash(["pfpne.n"])
    module.write_text("def f():\n    return 1  # a comment\n")
    assert sources.source_hash(["pfpne.n"]) == before
    module.write_text("def f():\n    return 2\n")
    with pytest.raises(sources.SourceChanged, match=r"pfpne\.m was edited .* restart the kernel"):
        sources.source_hash(["pfpne.n"])
    module.write_text("def f(:")
    with pytest.raises(sources.SourceChanged, match="restart the kernel"):
        sources.source_hash(["pfpne.n"])


def test_a_key_covers_the_content_and_the_versions(monkeypatch):
    key = cache.key({"a": 1}, pfpne.simulate)
    assert key == cache.key({"a": 1}, pfpne.simulate) != cache.key({"a": 2}, pfpne.simulate)
    monkeypatch.setattr(cache, "numerical_environment", lambda: {"numpy": "0"})
    assert cache.key({"a": 1}, pfpne.simulate) != key


# --- files ------------------------------------------------------------------------------------------


def as_bytes(content: bytes):
    def put(path):
        path.write_bytes(content)

    return put


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    # In the first array of a run, since parts of a header between two are never read; in the middle of rows.
    content[len(content) // (8 if path.suffix == ".npz" else 2)] ^= 1
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

    key = cache.key({}, pfpne.simulate)
    first = cache.stored_rows(key, make, tmp_path)
    assert cache.stored_rows(key, make, tmp_path) == first and len(made) == 1
    (path,) = (tmp_path / "summaries").iterdir()
    damage(path)
    with pytest.warns(cache.DamagedResult, match="is damaged"):
        assert cache.stored_rows(key, make, tmp_path) == first
    assert len(made) == 2


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_made_again(tmp_path, damage):
    experiment = Experiment("garland", 2, 20, algorithms=("pe",), n_runs=1)
    first = run_experiment(experiment, folder=tmp_path).runs["pe", 0]
    damage(cache.path_of(experiment.key("pe", 0), tmp_path))
    with pytest.warns(cache.DamagedResult, match="is damaged"):
        again = run_experiment(experiment, folder=tmp_path).runs["pe", 0]
    assert (again.regret == first.regret).all() and again.rounds.shape == first.rounds.shape


class Opens:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def object_array(entry) -> bytes:
    file, array = io.BytesIO(), np.empty(1, dtype=object)
    array[0] = entry
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize("member", ["regret.npy", "meta.npy", "more.npy"])
def test_a_made_up_run_is_not_unpickled_and_not_believed(tmp_path, member):
    experiment = Experiment("garland", 2, 20, algorithms=("pe",), n_runs=1)
    key, opened = experiment.key("pe", 0), Opens(tmp_path / "opened")
    cache.save_run(key, experiment.simulate("pe", 0), tmp_path)
    path = cache.path_of(key, tmp_path)
    with zipfile.ZipFile(path) as file:
        right = {name: file.read(name) for name in file.namelist()}
    for wrong in (object_array(opened), pickle.dumps(opened), b"no array"):
        with zipfile.ZipFile(path, "w") as file:
            for name, content in {**right, member: wrong}.items():
                file.writestr(name, content)
        with pytest.warns(cache.DamagedResult, match="is damaged"):
            assert cache.load_run(key, tmp_path) is None
    assert not opened.path.exists()


def test_another_runs_file_is_not_taken(tmp_path):
    experiment = Experiment("garland", 2, 20, algorithms=("pe",), n_runs=2)
    one, other = (experiment.key("pe", run) for run in range(2))
    cache.save_run(one, experiment.simulate("pe", 0), tmp_path)
    cache.path_of(other, tmp_path).parent.mkdir(exist_ok=True)
    cache.path_of(other, tmp_path).write_bytes(cache.path_of(one, tmp_path).read_bytes())
    with pytest.warns(cache.DamagedResult, match="it holds another run"):
        assert cache.load_run(other, tmp_path) is None


def test_another_results_file_is_not_taken(tmp_path):
    keys = [cache.key({"n": n}, pfpne.simulate) for n in range(2)]
    for n, key in enumerate(keys):
        cache.stored_rows(key, lambda n=n: [n], tmp_path)
    one, other = (tmp_path / "summaries" / f"{key[:32]}.json" for key in keys)
    other.write_bytes(one.read_bytes())
    with pytest.warns(cache.DamagedResult, match="another's"):
        assert cache.stored_rows(keys[1], lambda: [1], tmp_path) == [1]


def test_a_variant_is_played_once(tmp_path, monkeypatch):
    base, algorithm, partition = deviations.DEVIATION_VARIANTS["decreasing"]
    scale = evidence.Study(2, 60, 2, 2, (), folder=tmp_path)
    regrets = scale.variant_regrets("garland", base, algorithm, partition, "bernoulli", 2).tolist()
    problem = pfpne.make_problem("garland", 2, run=1)
    mirrored = pfpne.simulate(algorithm, problem, 60, partition=partition(problem.domain, max_depth=problem.max_depth))
    assert regrets[1] == mirrored.regret[:, -1].mean()
    monkeypatch.setattr("pfpne.paper.run.rows._make_rows", None)
    assert scale.variant_regrets("garland", base, algorithm, partition, "bernoulli", 2).tolist() == regrets
    assert (
        pickle.loads(pickle.dumps(deviations.DEVIATION_VARIANTS)).keys() == deviations.DEVIATION_VARIANTS.keys()
    )  # for workers
