"""Make the recorded tables, the AUC of every landmine field on a grid, from the original dataset.

    python data/make_landmine_auc.py PATH/TO/LandmineData.mat              # data/landmine_auc.npz
    python data/make_landmine_auc.py PATH/TO/LandmineData.mat --axes log   # data/landmine_auc_log.npz
    python data/make_landmine_auc.py --download

What the table is, and how a value is computed, stands in pfpne/problems/landmine.py.
"""

import argparse
import io
import json
import platform
import zipfile
from pathlib import Path

import numpy as np
import pooch
import scipy
import sklearn
from tqdm import tqdm

from pfpne.paper.run.workers import run_unordered
from pfpne.paths import write_atomically
from pfpne.problems import landmine

SITES = ("http://www.ee.duke.edu", "https://people.ee.duke.edu")  # the first does not answer everywhere
URLS = tuple(f"{site}/~lcarin/LandmineData.zip" for site in SITES)


def download(urls: tuple[str, ...] = URLS) -> Path:
    """Fetch the dataset into data/, from the first address that serves the right file."""
    refused = []
    for url in urls:
        try:
            archive = Path(pooch.retrieve(url, known_hash=None, path=pooch.os_cache("pfpne"), progressbar=False))
            content = archive.read_bytes()
            archive.unlink()  # unchecked bytes must not be served again from the cache
            if zipfile.is_zipfile(io.BytesIO(content)):
                with zipfile.ZipFile(io.BytesIO(content)) as z:
                    content = z.read(next(name for name in z.namelist() if name.endswith("LandmineData.mat")))
            return write_atomically(
                landmine.DATASET_FOLDER / "LandmineData.mat", landmine.check_hash(content, "what came")
            )
        except Exception as error:  # every failure means: try the next address
            refused.append(f"{url}: {error}")
    raise landmine.DatasetUnavailable("No address served the dataset.\n" + "\n".join(refused))


def _row(path: Path, field: int, C: float, axes: landmine.Axes = landmine.LINEAR) -> np.ndarray:
    """The AUC (grid - 1,) of one field at one coordinate of C and every coordinate of gamma."""
    data, gammas = landmine.load_fields(path)[field], landmine.grid_values(axes)[1]
    return np.array([landmine.auc(data, axes.machine(C), axes.machine(gamma)) for gamma in gammas])


def make_table(dataset: Path, out: Path | None = None, n_jobs: int | None = None, axes=landmine.LINEAR) -> Path:
    """Compute a whole table from the dataset (about 40 minutes on two cores, 10 on logarithmic axes) and write it.

    out: where to, by default where the project ships it. n_jobs: worker processes, one per processor by default.
    """
    path = Path(dataset).resolve()
    landmine.load_fields(path)  # a wrong file is refused before any worker starts
    tasks = [(path, field, C, axes) for field in range(landmine.N_FIELDS) for C in landmine.grid_values(axes)[0]]
    values = np.empty((len(tasks), axes.parts - 1))
    for k, row in tqdm(run_unordered(_row, tasks, n_jobs), total=len(tasks), desc="AUC rows", disable=None):
        values[k] = row
    libraries = {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    kind = "logarithmic" if axes.logarithmic else "linear"
    meta = {
        "dataset_sha256": landmine.SHA256,
        "split": landmine.SPLIT,
        "axes": f"field 0..28, C, gamma; both {kind}, j/{axes.parts} of the range, j = 1..{axes.parts - 1}",
        "versions": {"python": platform.python_version(), **libraries},
        "command": f"{landmine.TABLE_COMMAND} LandmineData.mat" + (" --axes log" if axes.logarithmic else ""),
    }
    buffer = io.BytesIO()
    shaped = values.reshape(landmine.N_FIELDS, axes.parts - 1, axes.parts - 1)
    np.savez_compressed(buffer, auc=shaped, meta=json.dumps(meta, sort_keys=True))
    return write_atomically(Path(out or axes.table), buffer.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description="Make data/landmine_auc.npz from the landmine dataset.")
    parser.add_argument("dataset", nargs="?", type=Path, help="path of LandmineData.mat")
    parser.add_argument("--download", action="store_true", help="fetch the dataset into data/ first")
    parser.add_argument("--axes", choices=("linear", "log"), default="linear", help="those of C and gamma")
    parser.add_argument("--out", type=Path, help="the file to write, by default the one in data/")
    parser.add_argument("--n-jobs", type=int, help="worker processes; one per processor by default")
    args = parser.parse_args()
    dataset = download() if args.download else args.dataset or landmine.find_dataset()
    if dataset is None:
        parser.error(f"no dataset: {landmine.DATASET_HINT}.")
    axes = landmine.LOG if args.axes == "log" else landmine.LINEAR
    print(make_table(dataset, args.out, args.n_jobs, axes))


if __name__ == "__main__":
    main()
