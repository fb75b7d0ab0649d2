"""The landmine data: the recorded table against the machines, the loader, the hash."""

import dataclasses
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.problems import landmine

MAKER = CHECKOUT / "data" / "make_landmine_auc.py"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "LandmineData.mat"


@pytest.fixture(scope="module")
def maker():
    """The script that makes the table, as a module."""
    spec = importlib.util.spec_from_file_location("make_landmine_auc", MAKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dataset() -> Path:
    """The original dataset, where it is at hand."""
    found = landmine.find_dataset() if os.environ.get("PFPNE_LANDMINE") else SHARED
    if found is None or not found.is_file():
        pytest.skip("the landmine dataset is not at hand: its table was not checked against it")
    return found


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without the dataset."""
    monkeypatch.delenv("PFPNE_LANDMINE", raising=False)
    monkeypatch.setattr(landmine, "DATASET_FOLDER", tmp_path)
    return tmp_path


def test_dataset_is_the_papers(dataset):
    fields = landmine.load_fields(dataset)
    assert len(fields) == 29
    assert sum(len(f.y_train) + len(f.y_test) for f in fields) == 14_820
    assert all(f.x_train.shape[1] == 9 and set(f.y_train) == set(f.y_test) == {0, 1} for f in fields)
    assert all(abs(len(f.y_train) - len(f.y_test)) <= 1 for f in fields)


def test_table_agrees_with_the_machines(dataset):
    table = landmine.load_table()
    assert not table.auc.flags.writeable
    fields = landmine.load_fields(dataset)
    Cs, gammas = landmine.grid_values()
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))  # another sample each time
    for f, i, j in zip(rng.integers(29, size=60), rng.integers(127, size=60), rng.integers(127, size=60), strict=True):
        value = landmine.auc(fields[f], Cs[i], gammas[j])
        assert abs(table.auc[f, i, j] - value) < 1e-6, f"field {f}, C = {Cs[i]}, gamma = {gammas[j]}"


def test_auc_is_the_one_of_scikit_learn(dataset):
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import SVC

    field = landmine.load_fields(dataset)[14]
    scores = SVC(C=1.0, gamma=0.1).fit(field.x_train, field.y_train).decision_function(field.x_test)
    value = landmine.auc(field, 1.0, 0.1)
    assert value == pytest.approx(roc_auc_score(field.y_test, scores), abs=1e-12)
    assert value == pytest.approx(0.902, abs=5e-4)  # Platt scaling can give 0.098 here (deviation 13)


@pytest.mark.parametrize("half, labels", [("training", [0, 0, 0]), ("training", [1, 1, 1]), ("test", [0, 0, 0])])
def test_auc_of_a_half_with_one_class(half, labels):
    x, y = np.arange(27.0).reshape(3, 9), np.array([0, 1, 0])
    field = landmine.Field(number=7, x_train=x, x_test=x, y_train=y, y_test=y)
    assert landmine.auc(field, 1.0, 0.1) >= 0
    field = dataclasses.replace(field, **{"y_train" if half == "training" else "y_test": np.array(labels)})
    with pytest.raises(ValueError, match=rf"field 7, {half} half, must be of both classes; got '{sum(labels)} mines"):
        landmine.auc(field, 1.0, 0.1)


def test_the_table_is_made_again(maker, dataset, tmp_path, monkeypatch):
    """Rows arrive in any order; one of them is computed here, the others are the shipped ones."""
    table, row = landmine.load_table(), maker._row
    Cs = landmine.grid_values()[0].tolist()

    def shuffled(function, arguments, n_jobs):
        assert function is row and n_jobs == 2
        for k in np.random.default_rng(0).permutation(len(arguments)):
            path, field, C, _ = arguments[k]
            i = Cs.index(C)
            yield k, row(path, field, C) if (field, i) == (14, 3) else table.auc[field, i]

    monkeypatch.setattr(maker, "run_unordered", shuffled)
    again = landmine.load_table.__wrapped__(maker.make_table(dataset, tmp_path / "table.npz", n_jobs=2))
    np.testing.assert_allclose(again.auc, table.auc, rtol=0, atol=1e-6)
    assert again.meta.keys() == table.meta.keys()
    assert all(again.meta[key] == table.meta[key] for key in ("dataset_sha256", "split", "axes"))


def test_live_values_at_any_point(dataset, monkeypatch):
    monkeypatch.setenv("PFPNE_LANDMINE", str(dataset))
    points = np.array([[0.123, 0.456], [7.0, 9.9]])
    values = landmine.live_auc(np.array([3, 3, 20]), points)
    assert values.shape == (3, 2)
    fields = landmine.load_fields(dataset)
    assert values.tolist() == [[landmine.auc(fields[f], C, gamma) for C, gamma in points] for f in (3, 3, 20)]


def test_table_is_whole():
    table = landmine.load_table()
    assert table.auc.shape == (29, 127, 127)
    assert np.isfinite(table.auc).all() and (table.auc >= 0).all() and (table.auc <= 1).all()
    assert table.meta["dataset_sha256"] == landmine.SHA256
    assert "scikit-learn" in table.meta["versions"] and "train_test_split" in table.meta["split"]
    assert not table.auc.flags.writeable


@pytest.mark.parametrize("cells", ["random", "cyclic"])
def test_every_cell_centre_to_depth_12_is_on_the_grid(cells):
    from pfpne import Partition

    partition = Partition(
        landmine.DOMAIN, max_depth=landmine.MAX_DEPTH, cells=cells, seed=7, max_cuts=landmine.MAX_CUTS
    )
    Cs, gammas = landmine.grid_values()
    for h in range(landmine.MAX_DEPTH + 1):
        centers = partition.centers(h, np.arange(1, 2**h + 1))
        at = landmine.grid_indices(centers)
        assert (at >= 0).all()
        np.testing.assert_allclose(np.stack([Cs[at[:, 0]], gammas[at[:, 1]]], axis=1), centers, rtol=1e-13)


def test_points_off_the_grid_are_told_apart():
    Cs, gammas = landmine.grid_values()
    points = np.array([[Cs[0], gammas[5]], [Cs[0] + 0.001, gammas[5]], [1e-4, gammas[5]], [10.0, 10.0]])
    assert landmine.grid_indices(points).tolist() == [[0, 5], [-1, -1], [-1, -1], [-1, -1]]


def test_wrong_dataset_is_refused(tmp_path, monkeypatch):
    other = tmp_path / "LandmineData.mat"
    other.write_bytes(b"something else")
    monkeypatch.setenv("PFPNE_LANDMINE", str(other))
    with pytest.raises(ValueError, match="SHA-256 of .*LandmineData.mat must be 2163.*PFPNE_LANDMINE"):
        landmine.find_dataset()
    monkeypatch.setenv("PFPNE_LANDMINE", str(tmp_path / "missing.mat"))
    with pytest.raises(FileNotFoundError, match="PFPNE_LANDMINE"):
        landmine.find_dataset()


def test_without_the_dataset_a_live_point_says_how_to_get_it(nowhere):
    assert landmine.find_dataset() is None
    with pytest.raises(landmine.DatasetUnavailable, match="PFPNE_LANDMINE"):
        landmine.live_auc(np.array([0]), np.array([[1.0, 1.0]]))


@pytest.mark.parametrize(
    ("fields", "x", "message"),
    [
        ([29], [[1, 1]], "fields must be integers in 0..28"),
        ([-1], [[1, 1]], "fields"),
        ([0.5], [[1, 1]], "fields"),
        (0, [[1, 1]], "fields"),
        ([0], [[1, 11]], "x must be points"),
        ([0], [[np.nan, 1]], "x must be points"),
        ([0], [1, 1], "x must be points"),
    ],
)
def test_live_auc_refuses_other_fields_and_points(fields, x, message):
    with pytest.raises(ValueError, match=message):
        landmine.live_auc(fields, x)


def test_download_keeps_only_the_right_file(maker, nowhere, tmp_path, monkeypatch):
    import pooch

    served = tmp_path / "served"

    def retrieve(url, **kwargs):
        served.write_bytes(b"a page that says 404")
        return str(served)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(landmine.DatasetUnavailable, match="SHA-256"):
        maker.download(("http://somewhere/LandmineData.zip",))
    assert not (nowhere / "LandmineData.mat").exists()


def test_a_damaged_table_is_refused(tmp_path):
    table = tmp_path / "table.npz"
    np.savez(table, auc=np.full((29, 127, 127), np.nan), meta="{}")
    with pytest.raises(ValueError, match="not a whole landmine table"):
        landmine.load_table.__wrapped__(table)


def test_the_auc_by_hand_with_a_tie():
    """A machine of two points decides by the distance to them. Of the four pairs of a mine and none, one is a tie."""
    train, test = np.zeros((2, 9)), np.zeros((4, 9))
    train[:, 0], test[:, 0] = [0, 1], [1, 0.5, 0.5, 0]
    field = landmine.Field(0, train, test, np.array([0, 1]), np.array([1, 1, 0, 0]))
    assert landmine.auc(field, 1.0, 1.0) == 3.5 / 4
    assert landmine.auc(dataclasses.replace(field, y_test=np.array([0, 0, 1, 1])), 1.0, 1.0) == 0.5 / 4


def test_the_logarithmic_table_agrees_with_the_machines(dataset):
    log = landmine.LOG
    table = landmine.load_table(log.table, log.parts)
    assert table.auc.shape == (29, 63, 63) and table.meta["command"].endswith("--axes log")
    fields = landmine.load_fields(dataset)
    Cs, gammas = landmine.grid_values(log)
    rng = np.random.default_rng(0)
    for f, i, j in zip(rng.integers(29, size=30), rng.integers(63, size=30), rng.integers(63, size=30), strict=True):
        value = landmine.auc(fields[f], 10.0 ** Cs[i], 10.0 ** gammas[j])
        assert abs(table.auc[f, i, j] - value) < 1e-6, f"field {f}, log C = {Cs[i]}, log gamma = {gammas[j]}"


@pytest.mark.parametrize("cells", ["random", "cyclic"])
def test_every_cell_centre_to_depth_10_is_on_the_logarithmic_grid(cells):
    from pfpne import Partition

    log = landmine.LOG
    partition = Partition(log.domain, max_depth=log.max_depth, cells=cells, seed=7, max_cuts=log.max_cuts)
    for h in range(log.max_depth + 1):
        assert (landmine.grid_indices(partition.centers(h, np.arange(1, 2**h + 1)), log) >= 0).all()


def test_the_same_clients_have_the_same_fields_on_either_axes():
    from pfpne import make_problem

    linear, log = (make_problem(name, 12, seed=3, run=1) for name in ("landmine", "landmine-log"))
    assert linear.fields.tolist() == log.fields.tolist()
    np.testing.assert_allclose(log.domain, np.log10(linear.domain))
    assert log.values(log.candidates[:5]).shape == (12, 5) and log.data_hash != linear.data_hash
    with pytest.raises(ValueError, match="off the recorded grid"):
        log.values(log.candidates[:1] + 0.01)


@pytest.mark.parametrize(("name", "axes"), [("landmine", landmine.LINEAR), ("landmine-log", landmine.LOG)])
def test_the_deepest_cells_of_a_run_have_values_on_either_axes(name, axes):
    """Were a range cut more often, or a cell at all, its centre would be off the grid."""
    from pfpne import make_problem
    from pfpne.simulation.simulate import partition_of

    problem = make_problem(name, 2)
    partition = partition_of(problem, "random", seed=3, run=2)
    assert (partition.max_depth, partition.max_cuts) == (axes.max_depth, axes.max_cuts)
    deepest = partition.centers(partition.max_depth, np.arange(1, 2**partition.max_depth + 1))
    assert (problem.values(deepest) <= problem.optimum[:, None]).all()


def test_a_point_off_the_logarithmic_grid_is_named_by_its_C_and_gamma():
    from pfpne import make_problem

    with pytest.raises(ValueError, match=r"\(C, gamma\) = \(0\.01\d*, 1\.0\) is off the recorded grid"):
        make_problem("landmine-log", 1).values([[-2.0, 0.0]])
