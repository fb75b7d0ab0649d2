"""Many runs: the same numbers for any workers, any order and after any interruption; nothing stale, nothing lost."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from pfpne.paper.exhibits.rates import _Delta_of
from pfpne.paper.run import cache, rows, workers
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.results import run_experiment
from pfpne.paper.run.workers import run_unordered

SMALL = dict(objective="garland", algorithms=("pf-pne", "fed-pne", "pe"), n_clients=3, horizon=300, n_runs=2)


def same(one, other) -> bool:
    """Whether two runs hold the same numbers, wall time aside."""
    arrays = ("t", "regret", "simple_regret", "best")
    return all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays) and one.communication.equals(
        other.communication
    )


def test_tables_are_tidy(tmp_path):
    results = run_experiment(Experiment(**SMALL), folder=tmp_path)
    table = results.regret
    assert len(table) == 3 * 2 * 300
    assert list(table.columns) == ["objective", "noise", "algorithm", "run", "t", "regret", "simple_regret"]
    assert (table.groupby(["algorithm", "run"]).regret.diff().dropna() >= 0).all()
    assert set(results.communication.algorithm) == {"pf-pne", "fed-pne"}
    assert len(results.seconds) == 6 and (results.seconds.seconds > 0).all()


def test_rows_of_runs_come_in_order_whichever_ends_first_and_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "run_unordered", lambda *job: reversed([*run_unordered(*job)]))
    sizes = ((0.3, 2), (0.1, 1))
    experiments = [Experiment("garland", 2, 9, algorithms=("pe",), n_runs=n, shift=shift) for shift, n in sizes]
    wanted = [[[e.problem(run).Delta]] for e in experiments for run in range(e.n_runs)]
    assert rows.rows_of_runs(_Delta_of, experiments, 1, tmp_path) == wanted
    kept = sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file())
    assert len(kept) >= 3 and rows.rows_of_runs(_Delta_of, experiments, 1, tmp_path) == wanted
    assert kept == sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file())


def test_workers_order_and_backend_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("pfpne.paper.run.experiment.FEW_PULLS", 0)  # let even small jobs go to workers
    first = run_experiment(Experiment(**SMALL), n_jobs=1, folder=tmp_path / "1")
    two = run_experiment(Experiment(**SMALL), n_jobs=2, folder=tmp_path / "2")
    reordered = run_experiment(
        Experiment(**{**SMALL, "algorithms": ("pe", "pf-pne"), "n_runs": 1}), n_jobs=1, folder=tmp_path / "3"
    )
    assert all(same(first.runs[pair], two.runs[pair]) for pair in first.runs)
    assert all(same(first.runs[pair], reordered.runs[pair]) for pair in reordered.runs)


def test_a_stored_run_is_not_computed_again(tmp_path, monkeypatch):
    first = run_experiment(Experiment(**SMALL), folder=tmp_path)

    def refuse(*args, **kwargs):
        raise AssertionError("computed again")

    monkeypatch.setattr("pfpne.paper.run.experiment.simulate", refuse)
    again = run_experiment(Experiment(**SMALL), folder=tmp_path)
    assert all(same(first.runs[pair], again.runs[pair]) for pair in first.runs)
    with pytest.raises(AssertionError, match="computed again"):
        run_experiment(Experiment(**{**SMALL, "n_runs": 3}), folder=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"n_clients": 4},
        {"horizon": 301},
        {"noise": 0.1},
        {"shift": 0.2},
        {"seed": 1},
        {"settings": {"c": 0.2}},
        {"settings": {"Delta": "true"}},
        {"objective": "doublesine"},
        {"global_regret": True},
    ],
)
def test_the_key_covers_the_settings(change):
    assert Experiment(**SMALL).key("pf-pne", 0) != Experiment(**{**SMALL, **change}).key("pf-pne", 0)


def test_the_key_is_of_one_run_whatever_else_the_experiment_has():
    experiment = Experiment(**SMALL)
    key = experiment.key("pf-pne", 0)
    assert key != experiment.key("pf-pne", 1) and key != experiment.key("pe", 0)
    assert key == Experiment(**{**SMALL, "n_runs": 9, "algorithms": ("pf-pne",)}).key("pf-pne", 0)


def test_equal_experiments_have_equal_keys():
    plain = Experiment(**{**SMALL, "noise": 2.0, "settings": {"c": 0.5}})
    numpys = {"n_clients": np.int64(3), "horizon": np.int32(300), "noise": 2, "settings": {"c": np.float32(0.5)}}
    assert Experiment(**{**SMALL, **numpys}).key("pe", 0) == plain.key("pe", 0)


def test_another_runs_file_is_reported_and_not_taken(tmp_path):
    experiment = Experiment(**SMALL)
    first = run_experiment(experiment, folder=tmp_path)
    path, other = (cache.path_of(experiment.key("pf-pne", run), tmp_path) for run in (1, 0))
    path.write_bytes(other.read_bytes())
    with pytest.warns(cache.DamagedResult, match="holds another run"):
        again = run_experiment(experiment, folder=tmp_path)
    assert all(same(first.runs[pair], again.runs[pair]) for pair in first.runs)
    assert same(cache.load_run(experiment.key("pf-pne", 1), tmp_path), first.runs["pf-pne", 1])


def under_way(code: str, folder) -> subprocess.Popen:
    """A process that runs `code`, with the folder as its argument, once it has stored five runs there."""
    job = subprocess.Popen([sys.executable, "-c", code, str(folder)])
    while len(list(folder.rglob("*.npz"))) < 5:
        assert job.poll() is None, "it ended before that"
        time.sleep(0.02)
    return job


def test_of_a_killed_job_the_workers_end_and_only_the_runs_in_flight_are_lost(tmp_path):
    code = (
        "import sys; from pathlib import Path; from pfpne.paper.run import experiment, results\n"
        "experiment.FEW_PULLS = 0\n"
        "wanted = experiment.Experiment('garland', 4, 5000, algorithms=('pf-pne',), n_runs=2000)\n"
        "results.run_experiment(wanted, n_jobs=2, folder=Path(sys.argv[1]))"
    )
    job = under_way(code, tmp_path)
    children = psutil.Process(job.pid).children(recursive=True)
    workers = [child for child in children if "LokyProcess" in " ".join(child.cmdline())]
    assert len(workers) == 2
    job.kill()
    job.wait()
    _, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive
    finished = {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert 5 <= len(finished) < 2000
    experiment = Experiment("garland", 4, 5000, algorithms=("pf-pne",), n_runs=min(len(finished) + 1, 20))
    resumed = run_experiment(experiment, folder=tmp_path)
    assert all(os.stat(path).st_mtime_ns == when for path, when in finished.items())  # none computed again
    fresh = run_experiment(experiment, folder=tmp_path / "fresh")
    assert all(same(resumed.runs[pair], fresh.runs[pair]) for pair in fresh.runs)


def test_a_failing_run_fails_the_experiment(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("no such luck")

    monkeypatch.setattr("pfpne.paper.run.experiment.simulate", fail)
    with pytest.raises(RuntimeError, match="no such luck"):
        run_experiment(Experiment(**SMALL), folder=tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "garlnd"}, "Did you mean 'garland'"),
        ({"algorithms": ("pfpne",)}, "Did you mean 'pf-pne'"),
        ({"algorithms": ()}, "at least one of pf-pne"),
        ({"algorithms": ("pe", "pe")}, "each once"),
        ({"n_clients": 0}, "n_clients must be an integer in 1.."),
        ({"horizon": 0}, "horizon must be an integer in 1.."),
        ({"horizon": 10.0}, "horizon must be an integer in 1.."),
        ({"n_runs": True}, "n_runs must be an integer in 1.."),
        ({"noise": -0.1}, "noise must be 0, or a number from 1e-9"),
        ({"noise": "bernouli"}, "'bernoulli'"),
        ({"noise": float("nan")}, "noise must be 0, or a number from 1e-9"),
        ({"shift": -1}, "shift"),
        ({"seed": -1}, "seed"),
        ({"d": 7}, "the dimension of garland"),
        ({"global_regret": "yes"}, "global_regret must be True or False"),
        ({"settings": {"rho": 1.0}}, "rho must be a number from 1e-6"),
        ({"settings": {"Delta": -0.1}}, "Delta must be 0, or a number"),
        ({"settings": {"delt": 0.1}}, "Did you mean 'delta'"),
        ({"algorithms": ("pe",), "settings": {"Delta": 0.1}}, "pe: unknown setting 'Delta'"),
    ],
)
def test_bad_input_says_what_to_do(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Experiment(**{**SMALL, **change})


def test_profiles_are_the_declared_ones():
    paper = PROFILES["paper"]
    assert (paper.n_clients, paper.horizon, paper.figure_runs, paper.claim_runs) == (20, 100_000, 10, 30)
    assert paper.noises == ("bernoulli", 0.1, 2.0) and paper.landmine_noise == 0 and paper.shift == 0.1
    smoke = PROFILES["smoke"]
    assert (smoke.n_clients, smoke.horizon, smoke.figure_runs, smoke.noises) == (4, 1_000, 3, ("bernoulli",))


def test_landmine_keys_follow_the_table():
    landmine, other = (
        Experiment("landmine", 2, 50, algorithms=("pe",), n_runs=1, noise=0.0, shift=shift) for shift in (0.1, 0.2)
    )
    assert landmine.key("pe", 0) == other.key("pe", 0) and landmine.data_hash == landmine.problem(0).data_hash
    object.__setattr__(other, "data_hash", "another")
    assert landmine.key("pe", 0) != other.key("pe", 0)


@pytest.mark.parametrize("n_jobs", [0, True, 1.5])
def test_the_number_of_workers_is_checked_whatever_there_is_to_do(n_jobs, tmp_path):
    with pytest.raises(ValueError, match="n_jobs must be an integer in 1.."):
        run_experiment(Experiment(**SMALL), n_jobs=n_jobs, folder=tmp_path)
    with pytest.raises(ValueError, match="n_jobs"):
        run_unordered(len, [], n_jobs=n_jobs)


def test_jobs_are_told_of_as_they_finish():
    told = []
    made = list(run_unordered(divmod, [(7, 2), (9, 4)], n_jobs=1, bar=lambda *counts: told.append(counts)))
    assert made == [(0, (3, 1)), (1, (2, 1))] and told == [(1, 2), (2, 2)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no way to allow a process one processor here")
def test_workers_are_as_many_as_the_processors_that_this_process_may_use():
    code = (
        "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n"
        "from pfpne.paper.run.workers import run_unordered\n"
        "print({pid for _, pid in run_unordered(os.getpid, [()] * 4)} == {os.getpid()})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
