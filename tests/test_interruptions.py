"""Kill a batch at any moment, damage what it left, run two at once: nothing wrong, nothing lost, nobody left behind."""

import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from pfpne.paper.run import batch, cache, experiment, sources
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paths import PACKAGE_FOLDER

MEASURED = ("times", "claims_times")  # figures and tables of seconds, which are never the same twice
SMOKE = [sys.executable, "-m", "pfpne.paper", "figures", "--profile", "smoke"]
FEW = [*SMOKE, "--only", "3_communication_cost"]  # notebooks: where what is damaged matters, not when
KILLED = ("1_synthetic_regret", "12_claims")  # one notebook for each objective, and the longest


def start(root: Path, command=FEW, site: Path = PACKAGE_FOLDER.parent, **options) -> subprocess.Popen:
    """A batch in a project's folder of its own, in a process group of its own. site: found first by every Python."""
    root.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PFPNE_ROOT": str(root), "PYTHONPATH": f"{site}{os.pathsep}{PACKAGE_FOLDER.parent}"}
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, env=environment, cwd=PACKAGE_FOLDER.parent, start_new_session=True, **options)


def finished(root: Path, **options) -> subprocess.CompletedProcess:
    batch = start(root, **options)
    _, said = batch.communicate(timeout=1800)
    return subprocess.CompletedProcess(batch.args, batch.returncode, stderr=said)


def figures(root: Path) -> dict[str, str]:
    """{file: SHA-256} of all that must be the same twice."""
    files = (root / "figures-smoke").iterdir()
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.stem not in MEASURED}


def by_make(root: Path, only: str) -> list[str]:
    ready = root / "ready"  # what is set up already, says make
    ready.touch()
    variables = {"PROFILE": "smoke", "ARGS": f"--only {only}", "RUN": sys.executable, "READY": ready}
    return ["make", "--no-print-directory", "figures", *(f"{name}={value}" for name, value in variables.items())]


def whole(root: Path) -> None:
    """Every manifest's files are there, and as it says."""
    for manifest in (root / "figures-smoke").glob("*.json"):
        for name, digest in json.loads(manifest.read_text())["files"].items():
            assert hashlib.sha256((manifest.parent / name).read_bytes()).hexdigest() == digest


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The folder of a batch that nobody disturbed."""
    root = tmp_path_factory.mktemp("undisturbed")
    done = finished(root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def copy(undisturbed, tmp_path) -> Path:
    """The same once more, to be damaged."""
    return Path(shutil.copytree(undisturbed, tmp_path / "copy"))


@pytest.mark.slow
def test_damage_is_made_good(undisturbed, copy):
    shutil.rmtree(copy / "executed" / "smoke")
    runs = sorted((copy / "results").glob("*/*.npz"))
    first, second = (path.read_bytes() for path in runs[:2])
    runs[0].write_bytes(second)  # each under the other's name
    runs[1].write_bytes(first)
    runs[2].write_bytes(runs[2].read_bytes()[:-100])
    for path in (runs[3], next((copy / "figures-smoke").glob("*.csv"))):
        path.unlink()
        os.mkfifo(path)
    next((copy / "figures-smoke").glob("*.json")).write_text("[]")
    done = finished(copy)
    assert done.returncode == 0, done.stderr
    assert figures(copy) == figures(undisturbed)


@pytest.mark.slow
def test_a_folder_in_the_place_of_a_file_is_named(copy):
    for place in (next((copy / "figures-smoke").glob("*.pdf")), next((copy / "executed" / "smoke").glob("*.ipynb"))):
        place.unlink()
        place.mkdir()
        done = finished(copy)
        assert done.returncode == 1 and place.name in done.stderr and "Traceback" not in done.stderr
        place.rmdir()


@pytest.fixture
def disk(tmp_path):
    """resize(how) -> a folder that is a disk of its own, of the size that `how` ("200k") says."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def resize(how: str) -> Path:
        kind = ["-o", f"remount,size={how}"] if folder.is_mount() else ["-t", "tmpfs", "-o", f"size={how}", "tmpfs"]
        if shutil.which("mount") is None or subprocess.run(["mount", *kind, folder], capture_output=True).returncode:
            pytest.skip("a disk of its own cannot be had here")
        return folder

    yield resize
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["200k", "600k"])  # full before the first figure, and after some
def test_a_full_disk_is_said(undisturbed, disk, size):
    done = finished(disk(size))
    assert done.returncode == 1 and "No space left on device" in done.stderr and "Traceback" not in done.stderr
    root = disk("1g")
    whole(root)
    assert finished(root).returncode == 0
    assert figures(root) == figures(undisturbed)


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_said_and_nothing_is_half_written(undisturbed, tmp_path):
    limit = 30_000  # bytes a file: a picture is larger

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = finished(tmp_path, preexec_fn=full)
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    whole(tmp_path)
    assert finished(tmp_path).returncode == 0
    assert figures(tmp_path) == figures(undisturbed)


def read_only(folder: Path) -> list[str]:
    """What to write before a command that shall find the folder read-only; skip where that cannot be had."""
    if os.geteuid():
        folder.chmod(0o555)
        return []
    bind = f'mount --bind "{folder}" "{folder}" && mount -o remount,ro,bind "{folder}" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", bind, "sh"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("root may write anywhere here")
    return command


@pytest.mark.slow
def test_results_that_are_read_only_are_read_and_where_they_lack_it_is_said(undisturbed, copy):
    shutil.rmtree(copy / "executed" / "smoke")
    shutil.rmtree(copy / "figures-smoke")
    done = finished(copy, command=[*read_only(copy / "results"), *FEW])
    assert done.returncode == 0, done.stderr
    assert figures(copy) == figures(undisturbed)
    (copy / "results").chmod(0o755)
    shutil.rmtree(copy / "results")
    shutil.rmtree(copy / "executed" / "smoke")
    (copy / "results").mkdir()
    done = finished(copy, command=[*read_only(copy / "results"), *FEW])
    (copy / "results").chmod(0o755)
    assert done.returncode == 1 and str(copy / "results") in done.stderr and "Traceback" not in done.stderr
    assert figures(copy) == figures(undisturbed)


@pytest.mark.slow
def test_of_two_batches_at_once_the_second_is_refused(undisturbed, tmp_path):
    first = start(tmp_path)
    while not (tmp_path / "executed" / "smoke").exists():
        assert first.poll() is None
        time.sleep(0.1)
    second = finished(tmp_path)
    assert second.returncode == 1 and "being made already, by another process" in second.stderr
    _, said = first.communicate(timeout=1800)
    assert first.returncode == 0, said
    assert figures(tmp_path) == figures(undisturbed)


@pytest.mark.slow
def test_a_killed_worker_is_named_and_nobody_is_left_behind(tmp_path):
    code = (
        "from pathlib import Path; from pfpne.paper.run import experiment, results; experiment.FEW_PULLS = 0\n"
        "wanted = experiment.Experiment('garland', 4, 5000, algorithms=('pf-pne',), n_runs=5000)\n"
        f"results.run_experiment(wanted, n_jobs=2, folder=Path({str(tmp_path)!r}))"
    )
    job = start(tmp_path, [sys.executable, "-c", code])
    while len(list(tmp_path.rglob("*.npz"))) < 5:
        assert job.poll() is None
        time.sleep(0.05)
    children = psutil.Process(job.pid).children(recursive=True)
    next(child for child in children if "LokyProcess" in " ".join(child.cmdline())).kill()
    _, said = job.communicate(timeout=30)
    assert job.returncode == 1 and "WorkersError: a worker process was killed" in said
    _, left = psutil.wait_procs(children, timeout=5)
    assert left == []


WORKERS_FOR_ALL = """
import sys
if "ipykernel_launcher" in sys.orig_argv:  # a smoke batch is too small to have workers
    from pfpne.paper.run import experiment
    experiment.FEW_PULLS = 0
"""

SAID = {"kernel": "its process was killed", "worker": "a worker process was killed"}


def victims(batch: subprocess.Popen, kind: str, moment: float) -> list[psutil.Process]:
    """Who is killed of a batch by make, which leads its group. A worker that began after the moment has work."""
    make = psutil.Process(batch.pid)
    everyone = make.children(recursive=True)
    if kind in ("group", "make", "parent"):
        of_group = [make, *(process for process in everyone if os.getpgid(process.pid) == batch.pid)]
        return {"group": of_group, "make": [make], "parent": everyone[:1]}[kind]
    name, since = {"kernel": ("ipykernel", 0), "worker": ("LokyProcess", moment)}[kind]
    return [one for one in everyone if name in " ".join(one.cmdline()) and one.create_time() > since][:1]


def written(root: Path) -> dict[Path, int]:
    """{file: when it was written} of all that is not to be made again."""
    executed = (path for path in (root / "executed" / "smoke").glob("*.ipynb") if "." not in path.stem)
    return {path: path.stat().st_mtime_ns for path in [*(root / "results").rglob("*.npz"), *executed]}


def same_as(reference: Path, root: Path) -> None:
    """What a batch has made so far is what it should be. (A file that is none may be one that was being written.)"""
    wanted, made = figures(reference), figures(root) if (root / "figures-smoke").exists() else {}
    assert {name for name in made.keys() & wanted if made[name] != wanted[name]} == set()


def all_made(root: Path) -> None:
    for only in KILLED:
        done = finished(root, command=[*SMOKE, "--only", only])
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_batch_killed_at_twenty_moments_ends_with_the_same_bytes(tmp_path_factory, tmp_path):
    reference, begun = tmp_path_factory.mktemp("reference"), time.monotonic()
    all_made(reference)
    seconds = time.monotonic() - begun
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(WORKERS_FOR_ALL)
    rng, killed = random.Random(0), []
    for attempt in range(60):  # at some moments there is no such process, or it has done its work
        kind = ("group", "make", "parent", "kernel", "worker")[len(killed) % 5]
        before, targets = written(tmp_path), []
        batch = start(
            tmp_path, by_make(tmp_path, KILLED[attempt % 2]), site if kind == "worker" else PACKAGE_FOLDER.parent
        )
        time.sleep(rng.uniform(1, seconds / 4))
        moment = time.time()
        while not targets and batch.poll() is None:
            time.sleep(0.05)
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                everyone = psutil.Process(batch.pid).children(recursive=True)
                targets = victims(batch, kind, moment)
        for process in targets:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # Who is killed is missed soon; but a worker whose work is done, or whoever had ended before.
        _, said = batch.communicate(timeout=60 if targets and kind != "worker" else 1800)
        if batch.returncode == 0:  # all was made: once more from nothing
            same_as(reference, tmp_path)
            shutil.rmtree(tmp_path / "executed")
            shutil.rmtree(tmp_path / "results")
            continue
        assert batch.returncode == (-signal.SIGKILL if kind in ("group", "make") else 2), said
        assert SAID.get(kind, "") in said
        _, left = psutil.wait_procs(everyone, timeout=5)
        assert left == [], (kind, left)
        now = written(tmp_path)
        assert {path: when for path, when in before.items() if now.get(path) != when} == {}
        whole(tmp_path)
        killed.append(kind)
        same_as(reference, tmp_path)
        if len(killed) == 20:
            break
    assert len(killed) == 20
    all_made(tmp_path)
    assert figures(tmp_path) == figures(reference)
    before = written(tmp_path)
    all_made(tmp_path)
    assert written(tmp_path) == before


# --- what a damaged file may look like ----------------------------------------------------------------


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


TEXTS = ("", "[]", "null", "3", "{", "[" * 100_000, '{"metadata": null}', '{"metadata": {"pfpne": {"files": {}}}}')
DAMAGES = [make_folder, make_fifo, *(lambda path, text=text: path.write_text(text) for text in TEXTS)]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", ["executed.ipynb", "picture.json", "picture.csv"])
def test_a_notebook_is_executed_again_where_anything_is_damaged(tmp_path, damage, place):
    (tmp_path / "picture.csv").write_bytes(b"csv")
    (tmp_path / "picture.json").write_text(json.dumps({"files": {"picture.csv": "as in the manifest"}}))
    made = {"inputs": "inputs", "files": {"picture": batch.file_hashes(tmp_path, "picture")}}
    executed = tmp_path / "executed.ipynb"
    executed.write_text(json.dumps({"metadata": {"pfpne": made}}))
    assert batch.is_unchanged(SimpleNamespace(target=executed, inputs="inputs", folder=tmp_path))
    damage(tmp_path / place)
    assert not batch.is_unchanged(SimpleNamespace(target=executed, inputs="inputs", folder=tmp_path))


def test_notebooks_at_once_are_known_by_what_they_are_known_by_alone(monkeypatch):
    notebooks = [NOTEBOOKS_FOLDER / f"{name}.ipynb" for name in ("1_synthetic_regret", "3_communication_cost")]
    alone = [batch.fingerprint(notebook, {}) for notebook in notebooks]
    monkeypatch.setattr(sources, "LOADED", sources.Sources())  # as at the start, with nothing parsed yet
    sources._parse.cache_clear()
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(batch.fingerprint, notebooks, [{}, {}])] == alone


@pytest.mark.slow
def test_a_flipped_bit_of_a_stored_run_changes_nothing_or_is_seen(tmp_path):
    wanted = experiment.Experiment("garland", 2, 20, algorithms=("pf-pne",), n_runs=1)
    key = wanted.key("pf-pne", 0)
    first = wanted.simulate("pf-pne", 0)
    cache.save_run(key, first, tmp_path)
    path = cache.path_of(key, tmp_path)
    content, seen = path.read_bytes(), 0
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cache.load_run(key, tmp_path)
        seen += found is None
        same = found is None or all(np.array_equal(getattr(found, name), value) for name, value in vars(first).items())
        assert same, bit
    assert seen > 4 * len(content)
