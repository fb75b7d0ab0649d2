"""Runs on the workers of a Dask scheduler: bit-equal to those of this process, whoever is killed on the way."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from pfpne.paper.run import experiment, versions, workers
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import NOTEBOOKS_FOLDER
from pfpne.paper.run.parameter_types import ParameterError
from pfpne.paper.run.parameters import complete
from pfpne.paper.run.results import run_experiment
from pfpne.paper.run.workers import WorkersError, run_unordered
from pfpne.paths import INPUT_ROOT as CHECKOUT

TLS_CERTIFICATE, TLS_KEY = (f"DASK_DISTRIBUTED__COMM__TLS__CLIENT__{name}" for name in ("CERT", "KEY"))
CLUSTERED = ("pf-pne", "fed-pne", "hct", "fn-ucb")
WANTED = Experiment("himmelblau", 4, 300, algorithms=CLUSTERED, n_runs=4, noise=0.3, global_regret=True)


def dask(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "dask", *arguments], stderr=subprocess.DEVNULL)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A scheduler of this machine and its three workers, processes of their own: (address, workers)."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(experiment, "FEW_PULLS", 0)  # even small runs go to the workers
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "1")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)  # that a job has one thread is not of the tests' making
    known = tmp_path / "scheduler.json"
    scheduler = dask(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", f"{known}"
    )
    own = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", f"{tmp_path}"]
    workers = [dask("worker", "--scheduler-file", f"{known}", *own) for _ in range(3)]
    while not known.exists():
        assert scheduler.poll() is None
        time.sleep(0.1)
    yield json.loads(known.read_text())["address"], workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def same(one, other) -> bool:
    names = ("t", "regret", "global_regret", "simple_regret", "best", "rounds")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.slow
def test_any_workers_make_the_same_runs_and_one_may_be_killed(cluster, tmp_path):
    address, workers = cluster
    alone = run_experiment(WANTED, n_jobs=1, folder=tmp_path / "1").runs

    when_killed = []

    def kill_one():
        while len(list((tmp_path / address[-5:]).rglob("*.npz"))) < 4:
            time.sleep(0.05)
        workers[0].kill()
        when_killed.append(len(list((tmp_path / address[-5:]).rglob("*.npz"))))

    killer = threading.Thread(target=kill_one)
    killer.start()
    for n_jobs in (2, 4, address):
        runs = run_experiment(WANTED, n_jobs=n_jobs, folder=tmp_path / f"{n_jobs}"[-5:]).runs
        assert all(same(runs[pair], alone[pair]) for pair in alone), n_jobs
    killer.join()
    assert 4 <= when_killed[0] < len(WANTED.pairs)  # midway
    assert workers[0].wait() < 0 and all(worker.poll() is None for worker in workers[1:])


@pytest.mark.slow
def test_a_worker_has_one_thread_and_a_job_that_kills_workers_is_named(cluster):
    address, _ = cluster
    for n_jobs in (2, address):
        found = [pools for _, pools in run_unordered(threadpoolctl.threadpool_info, [(), ()], n_jobs)]
        assert len(found) == 2 and all(pools and {pool["num_threads"] for pool in pools} == {1} for pools in found)
    with pytest.raises(WorkersError, match="were killed, one after another"):
        list(run_unordered(os._exit, [(1,)], address))


@pytest.mark.slow
def test_a_notebook_gives_its_runs_to_the_workers_of_its_scheduler(cluster, tmp_path):
    from distributed import Client

    address, _ = cluster
    scale = {"algorithms": "pf-pne,hct", "n_clients": 20, "horizon": 5_000, "n_runs": 2}
    notebook = str(NOTEBOOKS_FOLDER / "1_synthetic_regret.ipynb")
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", notebook, "out.ipynb"]
    tables = []
    with Client(address, set_as_default=False) as client:
        for who in ({"n_jobs": 1}, {"scheduler": address}):
            asked = {**scale, **who, "figures_dir": str(tmp_path / "figures")}
            words = [word for name, value in asked.items() for word in ("-p", name, str(value))]
            root = tmp_path / next(iter(who))
            root.mkdir()
            environment = {**os.environ, "PFPNE_ROOT": str(root)}
            done = subprocess.run(command + words, cwd=root, env=environment, capture_output=True)
            assert done.returncode == 0, done.stderr[-2000:]
            (table,) = (tmp_path / "figures").glob("*.csv")
            events = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log))
            tables.append((table.read_bytes(), events > 0))
    (alone, by_none), (on_workers, by_workers) = tables
    assert alone == on_workers and not by_none and by_workers


@pytest.mark.slow
def test_a_worker_that_would_make_other_runs_is_refused(cluster, monkeypatch):
    address, _ = cluster
    other = {**versions.worker_identity(), "numpy": "another"}
    monkeypatch.setattr(workers, "worker_identity", lambda: other)
    with pytest.raises(WorkersError, match="has another version of numpy"):
        list(run_unordered(divmod, [(7, 2)], address))


@pytest.mark.slow  # to give up takes ten seconds
def test_a_scheduler_that_does_not_answer_is_said():
    pytest.importorskip("distributed")
    with pytest.raises(WorkersError, match="no Dask scheduler answers at tcp://127.0.0.1:9"):
        list(run_unordered(divmod, [(7, 2)], "tcp://127.0.0.1:9"))


def test_what_is_no_address_is_refused():
    wrong = ("127.0.0.1", "tcp://", "tcp://here", "tcp://here:0", "tcp://here:99999", "tcp://[:1", "a://here:1")
    for address in (*wrong, "tcp://a b:1", "tcp://h:1\n"):
        with pytest.raises(ValueError, match="address of a Dask scheduler"):
            run_unordered(divmod, [(7, 2)], address)
    with pytest.raises(ParameterError, match="leave one of them None"):
        complete("1_synthetic_regret", {"n_jobs": 2, "scheduler": "tcp://127.0.0.1:9"})
    assert complete("1_synthetic_regret", {"scheduler": "tcp://127.0.0.1:9"}).n_jobs == "tcp://127.0.0.1:9"


@pytest.mark.slow
def test_the_commands_of_the_page_on_trust_serve_whom_they_name_and_no_stranger(tmp_path):
    """A scheduler and a worker with certificates of one authority; a batch without is not answered."""
    pytest.importorskip("distributed")
    page = (CHECKOUT / "docs" / "trust.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")}
    authority, workers, serve, batch = (
        block.replace("\\\n", " ").strip().splitlines()
        for part in ("Flower", "Dask")
        for block in re.findall(r"```sh\n(.*?)```", sections[part], flags=re.DOTALL)[: 1 if part == "Flower" else 3]
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(CHECKOUT)

    def here(command: str) -> str:
        return command.replace("server.example", "localhost").replace("8786", port)

    for line in (*authority, *workers):
        subprocess.run(here(line), shell=True, check=True, cwd=tmp_path, capture_output=True)
    address = f"tls://localhost:{port}"
    assert here(batch[-1]).endswith(f'"--scheduler {address}"')
    ask = f"from pfpne.paper.run.workers import run_unordered; print([*run_unordered(divmod, [(7, 2)], {address!r})])"
    for name, value in (line.removeprefix("export ").split("=") for line in batch[:-1]):
        environment[name] = value
    strange = {name: value for name, value in environment.items() if "TLS" not in name}
    subprocess.run(
        here(authority[0]).replace("ca.", "stranger."), shell=True, check=True, cwd=tmp_path, capture_output=True
    )
    impostor = {**environment, TLS_CERTIFICATE: "stranger.pem", TLS_KEY: "stranger.key"}
    started = [
        subprocess.Popen(
            ["/bin/sh", "-c", f"exec {here(line)}"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
        )
        for line in serve
    ]
    try:
        answers = [
            subprocess.run([sys.executable, "-c", ask], env=who, cwd=tmp_path, capture_output=True, text=True)
            for who in (environment, strange, impostor)
        ]
    finally:
        for process in started:
            process.terminate()
            process.wait()
    assert answers[0].returncode == 0 and "(3, 1)" in answers[0].stdout, answers[0].stderr
    for refused in answers[1:]:
        assert refused.returncode != 0 and "3, 1" not in refused.stdout
