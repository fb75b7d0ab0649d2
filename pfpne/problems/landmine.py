"""The landmine objective: tune an RBF support vector machine on one field of radar images.

A client owns one of 29 fields. Its objective is the area under the ROC curve (AUC) on the test half of the field,
as a function of the regularization C in [1e-4, 10] and the kernel width gamma in [0.01, 10] (paper, Section 4,
"Landmine Detection", and Appendix C.2).

The AUC comes from `decision_function`, never from Platt-scaled probabilities: those depend on a seed and can
reverse the order of the scores (deviation 13).

The dataset has no stated licence, so the project ships only what it computes from it: the AUC of every field on a
grid that holds the centre of every cell of the partition down to a depth. There are two such tables. "landmine" has
linear axes and goes down to depth 12. "landmine-log" has logarithmic axes, which the paper does not rule out, and
goes down to depth 10 (deviation 28). Make the tables again with

    python data/make_landmine_auc.py PATH/TO/LandmineData.mat
    python data/make_landmine_auc.py PATH/TO/LandmineData.mat --axes log
"""

import functools
import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pfpne.paths import DATASET_FOLDER, LANDMINE_LOG_TABLE, LANDMINE_TABLE
from pfpne.problems.base import Problem
from pfpne.problems.maxima import cartesian_product, inside
from pfpne.rng import stream
from pfpne.validation import check

SHA256 = "2163ab20a80e33a8b65593c48cf283c540599dcb291105e63fa4af2ce24c2bea"
DOMAIN = np.array([[1e-4, 10.0], [0.01, 10.0]])  # C, gamma
N_FIELDS = 29
PARTS = 128  # the table of linear axes holds the points j/128 of each range, j = 1..127
MAX_DEPTH, MAX_CUTS = 12, 6  # the partition's depth, the cuts of each range: finer cells have centres off the grid
SPLIT = "train_test_split(test_size=0.5, stratify=label, random_state=0), one per field"
TABLE_COMMAND = "python data/make_landmine_auc.py"  # in the project's folder
DATASET_HINT = (
    f"set PFPNE_LANDMINE to its path, put LandmineData.mat into data/, or let `{TABLE_COMMAND} --download` do so"
)
TABLE_HINT = f"take it from the project again, or make it: `{TABLE_COMMAND} DATASET`."


class Axes(NamedTuple):
    """The two axes of a recorded table, and the partition whose cell centres lie on it.

    domain (2, 2): the ranges that are searched and halved. parts: the table holds the points j/parts of each range,
    j = 1..parts - 1. max_depth, max_cuts: of the partition, and of each range. table: the file.
    logarithmic: whether a coordinate is the base-10 logarithm of C or gamma.
    """

    name: str
    domain: np.ndarray
    parts: int
    max_depth: int
    max_cuts: int
    table: Path
    logarithmic: bool = False

    def machine(self, x):
        """C or gamma at the coordinate x."""
        return 10.0**x if self.logarithmic else x


LINEAR = Axes("linear", DOMAIN, PARTS, MAX_DEPTH, MAX_CUTS, LANDMINE_TABLE)
LOG = Axes("log", np.log10(DOMAIN), 64, 10, 5, LANDMINE_LOG_TABLE, logarithmic=True)


class DatasetUnavailable(FileNotFoundError):
    """A point off the recorded grid was asked for, and the dataset is not at hand."""


def check_hash(content: bytes, source) -> bytes:
    """Return the content; ValueError unless its SHA-256 is the original dataset's."""
    digest = hashlib.sha256(content).hexdigest()
    check(digest == SHA256, f"the SHA-256 of {source}", f"{SHA256}, the original dataset's ({DATASET_HINT})", digest)
    return content


def find_dataset() -> Path | None:
    """Return the dataset's path: $PFPNE_LANDMINE, else data/LandmineData.mat, else None. Nothing is downloaded.

    Raises FileNotFoundError if the variable names no file, ValueError if the hash is wrong.
    """
    named = os.environ.get("PFPNE_LANDMINE")
    path = Path(named or DATASET_FOLDER / "LandmineData.mat")
    if path.is_file():
        check_hash(path.read_bytes(), path)
        return path
    if named:
        raise FileNotFoundError(f"PFPNE_LANDMINE is {named!r}, and there is no such file.")
    return None


@dataclass(frozen=True)
class Field:
    """One field, 0..28, split in halves; the features are used as they come."""

    number: int
    x_train: np.ndarray  # (n, 9)
    x_test: np.ndarray
    y_train: np.ndarray  # (n,)
    y_test: np.ndarray


@functools.lru_cache(maxsize=2)
def load_fields(path: Path) -> tuple[Field, ...]:
    """Return the 29 fields of the dataset at path, each split in halves (SPLIT)."""
    from scipy.io import loadmat
    from sklearn.model_selection import train_test_split

    mat = loadmat(io.BytesIO(check_hash(Path(path).read_bytes(), path)))
    fields = []
    for x, y in zip(mat["feature"].ravel(), mat["label"].ravel(), strict=True):
        x, y = np.asarray(x, dtype=float), np.asarray(y).ravel().astype(int)
        halves: Any = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
        fields.append(Field(len(fields), *halves))
    check(len(fields) == N_FIELDS, f"the number of fields in {path}", str(N_FIELDS), len(fields))
    return tuple(fields)


def auc(field: Field, C: float, gamma: float) -> float:
    """Return the AUC on the test half of an RBF SVM fitted to the training half; ValueError if a half has one class.

    Computed as the Mann-Whitney statistic, with ties at one half. This equals `sklearn.metrics.roc_auc_score` and is
    twenty times as fast, which matters for half a million machines.
    """
    from scipy.stats import rankdata
    from sklearn.svm import SVC

    for half, y in (("training", field.y_train), ("test", field.y_test)):
        mines = np.count_nonzero(y == 1)
        name = f"the labels of landmine field {field.number}, {half} half,"
        check(0 < mines < len(y), name, "of both classes", f"{mines} mines among {len(y)}")
    settings: Any = {"C": C, "gamma": gamma, "kernel": "rbf"}
    machine = SVC(**settings).fit(field.x_train, field.y_train)
    ranks = rankdata(machine.decision_function(field.x_test))
    positive = field.y_test == 1
    n1, n0 = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def grid_values(axes: Axes = LINEAR) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of C and of gamma on the grid, (parts - 1,) each, rounded as the partition does."""
    share = np.arange(1, axes.parts) / axes.parts
    return tuple(low + (high - low) * share for low, high in axes.domain)


def grid_indices(x: np.ndarray, axes: Axes = LINEAR) -> np.ndarray:
    """Return the grid positions (n, 2), 0-based, of the points x (n, 2); -1 in the row of a point off the grid."""
    atol = 1e-9  # of the range: far below the grid's step (1/128), far above rounding
    low, high = axes.domain.T
    share = (np.atleast_2d(x) - low) / (high - low) * axes.parts
    j = np.rint(np.nan_to_num(share, nan=-1.0, posinf=-1.0, neginf=-1.0))
    on_grid = np.all((np.abs(share - j) <= atol * axes.parts) & (j >= 1) & (j <= axes.parts - 1), axis=1)
    return np.where(on_grid[:, None], j.astype(np.int64) - 1, -1)


@dataclass(frozen=True)
class Table:
    """The recorded AUC, (field, C, gamma) -> value, and its origin."""

    auc: np.ndarray  # (29, parts - 1, parts - 1)
    sha256: str  # of the table file itself
    meta: dict  # dataset hash, split, library versions, command


@functools.lru_cache(maxsize=2)
def load_table(path: Path = LANDMINE_TABLE, parts: int = PARTS) -> Table:
    """Read a table that the project ships; ValueError if it is damaged or of another dataset."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is missing; {TABLE_HINT}")
    content = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as z:
            values, meta = z["auc"], json.loads(str(z["meta"]))
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); {TABLE_HINT}") from error
    if values.shape != (N_FIELDS, parts - 1, parts - 1) or not np.isfinite(values).all():
        raise ValueError(f"{path} is not a whole landmine table; {TABLE_HINT}")
    if meta["dataset_sha256"] != SHA256:
        raise ValueError(f"{path} was made from another dataset ({meta['dataset_sha256']}); {TABLE_HINT}")
    values.setflags(write=False)
    return Table(values, hashlib.sha256(content).hexdigest(), meta)


class LandmineProblem(Problem):
    """f_m(C, gamma): the recorded AUC of the field, on the grid alone (deviation 19). It ignores the shifts.

    fields (M,): the field 0..28 of each client, drawn with replacement; the same on either axes.
    """

    axes = LINEAR
    candidates: np.ndarray

    def __init__(self, objective, name, d, n_clients, shift, common_shift, noise, seed, run):
        super().__init__(name, self.axes.domain, n_clients, noise, seed, run, self.axes.max_depth)
        self.max_cuts = self.axes.max_cuts
        table = load_table(self.axes.table, self.axes.parts)
        self.data_hash = table.sha256
        self.fields = np.array([stream(seed, "landmine", run, m, "field").integers(N_FIELDS) for m in range(n_clients)])
        self._auc = table.auc[self.fields]  # (M, parts - 1, parts - 1)
        self.candidates = cartesian_product(grid_values(self.axes))
        for array in (self.fields, self.candidates):
            array.setflags(write=False)

    def _evaluated(self, clients, x):
        i, j = grid_indices(x, self.axes).T
        if (i < 0).any():
            raise ValueError(
                f"the landmine point (C, gamma) = {tuple(self.axes.machine(x[i < 0][0]).tolist())} is off the recorded "
                f"grid. Regret runs use that grid alone (the centres of the binary partition's cells down to depth "
                f"{self.axes.max_depth}). pfpne.problems.landmine.live_auc evaluates any point where the dataset is at "
                "hand."
            )
        return self._auc[clients, i, j]

    @functools.cached_property
    def _client_maxima(self) -> tuple[np.ndarray, np.ndarray]:
        values = self._auc.reshape(self.n_clients, -1)
        return self.candidates[values.argmax(axis=1)], values.max(axis=1)

    @functools.cached_property
    def _mean_maximum(self) -> tuple[np.ndarray, float]:
        values = self.mean_values(self.candidates)
        return self.candidates[values.argmax()], float(values.max())


class LogLandmineProblem(LandmineProblem):
    """The landmine problem on logarithmic axes: a point is (log10 C, log10 gamma)."""

    axes = LOG


def live_auc(fields: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the AUC (len(fields), n) at any points x (n, 2) of the domain, by fitting the machines now.

    fields: integers 0..28. Raises ValueError for another field or a point outside the domain, DatasetUnavailable,
    with what to do, where the dataset is not at hand.
    """
    fields, points = np.asarray(fields), np.asarray(x, dtype=float)
    valid = fields.ndim == 1 and fields.dtype.kind in "iu" and ((fields >= 0) & (fields < N_FIELDS)).all()
    check(bool(valid), "fields", f"integers in 0..{N_FIELDS - 1}, shape (m,)", fields.tolist())
    valid = points.ndim == 2 and points.shape[1] == 2 and inside(points, DOMAIN).all()
    check(bool(valid), "x", f"points (C, gamma), shape (n, 2), in {DOMAIN.tolist()}", points.tolist())
    path = find_dataset()
    if path is None:
        raise DatasetUnavailable(f"A point off the recorded grid needs the landmine dataset: {DATASET_HINT}.")
    split = load_fields(path)
    return np.array([[auc(split[f], C, gamma) for C, gamma in points] for f in fields])
