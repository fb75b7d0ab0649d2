"""The landmine objective: tune an RBF support vector machine on one field of radar images.

A client owns one of 29 fields. Its objective is the area under the ROC curve (AUC) on the test half
of the field, as a function of the regularization C in [1e-4, 10] and the kernel width gamma in
[0.01, 10] (paper, Section 4, "Landmine Detection", and Appendix C.2).

The AUC comes from `decision_function`, never from Platt-scaled probabilities: those depend on a seed
and can reverse the order of the scores (deviation 13).

The dataset has no stated licence, so the project ships only what it computes from it: the AUC of
every field on a grid that holds the centre of every cell of the partition down to depth 12. Make the
table again with

    python -m pfpne.problems.landmine PATH/TO/LandmineData.mat
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfpne.checks import check
from pfpne.paths import DATA, LANDMINE_TABLE, write_atomically

SHA256 = "2163ab20a80e33a8b65593c48cf283c540599dcb291105e63fa4af2ce24c2bea"
# The paper's address is a zip that no longer answers everywhere; each entry is tried in turn.
URLS = (
    "http://www.ee.duke.edu/~lcarin/LandmineData.zip",
    "https://people.ee.duke.edu/~lcarin/LandmineData.zip",
)
DOMAIN = np.array([[1e-4, 10.0], [0.01, 10.0]])  # C, gamma
N_FIELDS = 29
GRID = 128  # the table holds the points j/128 of each range, j = 1..127
MAX_DEPTH = 12  # deeper cells have centres off the grid
SPLIT = "train_test_split(test_size=0.5, stratify=label, random_state=0), one per field"


class DatasetUnavailable(FileNotFoundError):
    """A point off the recorded grid was asked for, and the dataset is not at hand."""


HOW_TO_GET_IT = (
    "Set PFPNE_LANDMINE to the path of LandmineData.mat, or put the file into data/, "
    "or let `python -m pfpne.problems.landmine --download` fetch it."
)


@dataclass(frozen=True)
class Field:
    """One field, split in halves; the features are used as they come."""

    x_train: np.ndarray  # (n, 9)
    y_train: np.ndarray  # (n,)
    x_test: np.ndarray
    y_test: np.ndarray


def check_hash(path: Path) -> Path:
    """Return path if its SHA-256 is that of the original dataset, else raise ValueError."""
    found = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(
            f"{path} is not the original landmine dataset: its SHA-256 is {found}, "
            f"{SHA256} is wanted. Get the original LandmineData.mat. {HOW_TO_GET_IT}"
        )
    return Path(path)


def find_dataset() -> Path | None:
    """The dataset's path: $PFPNE_LANDMINE, else data/LandmineData.mat, else None. Never downloads.

    Raises FileNotFoundError if the variable names no file, ValueError if the hash is wrong.
    """
    named = os.environ.get("PFPNE_LANDMINE")
    if named:
        if not Path(named).is_file():
            raise FileNotFoundError(f"PFPNE_LANDMINE is {named!r}, and there is no such file.")
        return check_hash(Path(named))
    local = DATA / "LandmineData.mat"
    return check_hash(local) if local.is_file() else None


def download(urls: tuple[str, ...] = URLS) -> Path:
    """Fetch the dataset into data/, from the first address that serves the right file."""
    import io

    import pooch

    refused = []
    for url in urls:
        try:
            archive = Path(pooch.retrieve(url, known_hash=None, path=pooch.os_cache("pfpne"), progressbar=False))
            content = archive.read_bytes()
            archive.unlink()  # unchecked bytes must not be served again from the cache
            if zipfile.is_zipfile(io.BytesIO(content)):
                with zipfile.ZipFile(io.BytesIO(content)) as z:
                    name = next(n for n in z.namelist() if n.endswith("LandmineData.mat"))
                    content = z.read(name)
            if hashlib.sha256(content).hexdigest() != SHA256:
                raise ValueError("what came has another SHA-256 than the original")
        except Exception as error:  # every failure means: try the next address
            refused.append(f"{url}: {error}")
            continue
        return write_atomically(DATA / "LandmineData.mat", content)
    raise DatasetUnavailable("No address served the dataset.\n" + "\n".join(refused))


@functools.lru_cache(maxsize=2)
def load_fields(path: Path) -> tuple[Field, ...]:
    """The 29 fields of the dataset at path, each split in halves (SPLIT)."""
    from scipy.io import loadmat
    from sklearn.model_selection import train_test_split

    mat = loadmat(check_hash(path))
    features, labels = mat["feature"].ravel(), mat["label"].ravel()
    fields = []
    for x, y in zip(features, labels, strict=True):
        x, y = np.asarray(x, dtype=float), np.asarray(y).ravel().astype(int)
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
        fields.append(Field(x_train, y_train, x_test, y_test))
    if len(fields) != N_FIELDS:
        raise ValueError(f"{path} holds {len(fields)} fields, {N_FIELDS} are wanted.")
    return tuple(fields)


def auc(field: Field, C: float, gamma: float) -> float:
    """AUC in [0, 1] on the test half of an RBF SVM fitted to the training half.

    Computed as the Mann-Whitney statistic, ties at one half: what `sklearn.metrics.roc_auc_score`
    returns, in a twentieth of the time, which counts over half a million machines.
    """
    from scipy.stats import rankdata
    from sklearn.svm import SVC

    machine = SVC(C=C, gamma=gamma, kernel="rbf").fit(field.x_train, field.y_train)
    ranks = rankdata(machine.decision_function(field.x_test))
    positive = field.y_test == 1
    n1, n0 = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def grid_values() -> tuple[np.ndarray, np.ndarray]:
    """The values of C and of gamma on the grid, (127,) each, with the partition's own rounding."""
    share = np.arange(1, GRID) / GRID
    low, width = DOMAIN[:, 0], DOMAIN[:, 1] - DOMAIN[:, 0]
    return low[0] + width[0] * share, low[1] + width[1] * share


def grid_indices(x: np.ndarray, atol: float = 1e-9) -> np.ndarray:
    """Grid positions (n, 2), 0-based, of the points x (n, 2), or -1 in a row that is off the grid.

    atol is in units of the range: far below the grid's step (1/128), far above rounding.
    """
    share = (np.atleast_2d(x) - DOMAIN[:, 0]) / (DOMAIN[:, 1] - DOMAIN[:, 0]) * GRID
    j = np.rint(np.nan_to_num(share, nan=-1.0, posinf=-1.0, neginf=-1.0))
    on = np.all((np.abs(share - j) <= atol * GRID) & (j >= 1) & (j <= GRID - 1), axis=1)
    return np.where(on[:, None], j.astype(np.int64) - 1, -1)


@dataclass(frozen=True)
class Table:
    """The recorded AUC, (field, C, gamma) -> value, and what it was made from."""

    auc: np.ndarray  # (29, 127, 127)
    sha256: str  # of the table file itself
    meta: dict  # dataset hash, split, library versions, command


@functools.lru_cache(maxsize=1)
def load_table(path: Path = LANDMINE_TABLE) -> Table:
    """The table that the project ships; ValueError if it is damaged or of another dataset."""
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"{path} is missing; take it from the project, or make it: `python -m pfpne.problems.landmine DATASET`."
        )
    content = Path(path).read_bytes()
    try:
        with np.load(path, allow_pickle=False) as z:
            values, meta = z["auc"], json.loads(str(z["meta"]))
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); take it from the project again.") from error
    if values.shape != (N_FIELDS, GRID - 1, GRID - 1) or not np.isfinite(values).all():
        raise ValueError(f"{path} is not a whole landmine table; make it again: `python -m pfpne.problems.landmine DATASET`.")
    if meta["dataset_sha256"] != SHA256:
        raise ValueError(f"{path} was made from another dataset ({meta['dataset_sha256']}); make it again.")
    values.setflags(write=False)
    return Table(values, hashlib.sha256(content).hexdigest(), meta)


def live_auc(fields: np.ndarray, x: np.ndarray) -> np.ndarray:
    """AUC (len(fields), n) at any points x (n, 2) of the domain, by fitting the machines now.

    fields: integers 0..28. Raises ValueError for another field or a point outside the domain, DatasetUnavailable,
    with what to do, where the dataset is not at hand.
    """
    fields, points = np.asarray(fields), np.asarray(x, dtype=float)
    valid = fields.ndim == 1 and fields.dtype.kind in "iu" and ((fields >= 0) & (fields < N_FIELDS)).all()
    check(bool(valid), "fields", f"integers in 0..{N_FIELDS - 1}, shape (m,)", fields.tolist())
    inside = points.ndim == 2 and points.shape[1] == 2 and ((DOMAIN[:, 0] <= points) & (points <= DOMAIN[:, 1])).all()
    check(bool(inside), "x", f"points (C, gamma), shape (n, 2), in {DOMAIN.tolist()}", points.tolist())
    path = find_dataset()
    if path is None:
        raise DatasetUnavailable(f"A point off the recorded grid needs the landmine dataset. {HOW_TO_GET_IT}")
    split = load_fields(path)
    return np.array([[auc(split[f], C, gamma) for C, gamma in points] for f in fields])


def _row(path: Path, field: int, C: float) -> np.ndarray:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return np.array([auc(load_fields(path)[field], C, gamma) for gamma in grid_values()[1]])


def make_table(dataset: Path, out: Path = LANDMINE_TABLE, n_jobs: int = -1) -> Path:
    """Compute the whole table from the dataset (about 40 minutes on two cores) and write it."""
    import platform

    import joblib
    import scipy
    import sklearn
    from tqdm import tqdm

    path = check_hash(Path(dataset)).resolve()
    tasks = [(f, C) for f in range(N_FIELDS) for C in grid_values()[0]]
    rows = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(joblib.delayed(_row)(path, f, C) for f, C in tasks)
    values = np.stack(list(tqdm(rows, total=len(tasks), desc="AUC rows", disable=None)))
    meta = {
        "dataset_sha256": SHA256,
        "split": SPLIT,
        "axes": "field 0..28, C, gamma; both linear, j/128 of the range, j = 1..127",
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "command": "python -m pfpne.problems.landmine LandmineData.mat",
    }
    import io

    buffer = io.BytesIO()
    np.savez_compressed(buffer, auc=values.reshape(N_FIELDS, GRID - 1, GRID - 1), meta=json.dumps(meta, sort_keys=True))
    return write_atomically(Path(out), buffer.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description="Make data/landmine_auc.npz from the landmine dataset.")
    parser.add_argument("dataset", nargs="?", type=Path, help="path of LandmineData.mat")
    parser.add_argument("--download", action="store_true", help="fetch the dataset into data/ first")
    parser.add_argument("--out", type=Path, default=LANDMINE_TABLE)
    parser.add_argument("--n-jobs", type=int, default=-1)
    args = parser.parse_args()
    dataset = download() if args.download else args.dataset or find_dataset()
    if dataset is None:
        parser.error(f"no dataset. {HOW_TO_GET_IT}")
    print(make_table(dataset, args.out, args.n_jobs))


if __name__ == "__main__":
    from pfpne import landmine  # so that the workers find _row by its module's name

    landmine.main()
