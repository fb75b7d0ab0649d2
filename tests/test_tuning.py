"""One call that tunes one's own functions: what it finds, how often it calls, and that nothing is lost."""

import functools
import itertools
import math
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import wait as futures_wait
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pfpne
from pfpne.algorithms import gp
from pfpne.algorithms.random_search import RandomSearchSettings, make_random_search
from pfpne.federation import Task
from pfpne.gaussian import GaussianProcess, Hyper, Values, fit
from pfpne.journal import Journal
from pfpne.partition import Partition
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.tuning import search as tuning_search
from pfpne.tuning.searches import SEARCHES

SPACE = {"C": pfpne.Float(1e-3, 1e3, log=True), "n": pfpne.Int(1, 4)}
PEAKS = {"Oslo": 1.0, "Rome": -1.0}
SLOW = {"fn-ucb", "gp", "gp-shared"}  # an evaluation takes milliseconds; those that exchange messages do so twice in 14


class Objective:
    """A peak at log10 C = `peak`, noisy if told so; counts its calls, and does at call `fails` what it is told."""

    def __init__(self, peak: float, noise: float = 0.0, fails: int | None = None, how=None):
        self.peak, self.noise, self.fails, self.how = peak, noise, fails, how
        self.calls, self.rng = [], np.random.default_rng(0)

    def __call__(self, p: dict) -> float:
        if len(self.calls) == self.fails:
            self.fails = None
            return self.how()
        self.calls.append(dict(p))
        u = self.rng.random()
        return 0.9 - abs(math.log10(p["C"]) - self.peak) / 8 + self.noise * (2 * u - 1)


def objectives(**how) -> dict[str, Objective]:
    return {name: Objective(peak, **how) for name, peak in PEAKS.items()}


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Two histories are equal but for how long the evaluations took."""
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"))


def tune(functions, n=60, **how):
    return pfpne.tune(functions, SPACE, n, progress=False, **how)


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_each_function_is_called_as_often_as_the_budget_says_and_not_once_more(algorithm):
    functions, n = objectives(noise=0.05), 14 if algorithm in SLOW else 25
    result = tune(functions, n, algorithm=algorithm, **({"Delta": 0.1} if algorithm == "pf-pne" else {}))
    assert [len(f.calls) for f in functions.values()] == [n, n]
    assert result.history.groupby("client").size().to_dict() == {"Oslo": n, "Rome": n}
    for name, f in functions.items():
        own = result.history[result.history["client"] == name]
        assert own["evaluation"].tolist() == list(range(1, n + 1))
        assert own[["C", "n"]].to_dict("records") == f.calls
        assert set(result.deploy[name]) == {"C", "n"} and 1e-3 <= result.deploy[name]["C"] <= 1e3
        assert isinstance(result.deploy[name]["n"], int)


def test_what_comes_back():
    functions = objectives(noise=0.02)
    result = tune(functions, 60)
    for name, peak in PEAKS.items():
        assert abs(math.log10(result.deploy[name]["C"]) - peak) < 0.5
        means = result.history[result.history["client"] == name].groupby(["C", "n"])["value"].mean()
        assert (result.found[name]["C"], result.found[name]["n"]) == means.idxmax()
        row = result.summary.query("client == @name and choice == 'found'").iloc[0]
        assert row["value"] == pytest.approx(means.max())
        at = result.history.query("client == @name and C == @row.C and n == @row.n")
        assert row["evaluations"] == len(at)
    assert result.summary[["client", "choice"]].values.tolist() == [[m, c] for m in PEAKS for c in ("deploy", "found")]
    assert "Oslo deploy" in repr(result)
    assert list(result.history) == ["client", "evaluation", "C", "n", "value", "seconds", "stage", "why"]
    assert (result.history["seconds"] >= 0).all() and set(result.history["stage"]) == {"first points", "search"}


def test_clients_in_a_list_have_numbers_for_names():
    assert list(tune(list(objectives().values()), 5).deploy) == ["0", "1"]


def test_the_best_of_a_loss_is_the_lowest():
    loss = {name: lambda p, f=f: 40 * (1 - f(p)) for name, f in objectives().items()}
    high = tune(objectives(), 40, noise=0)
    low = tune(loss, 40, noise=0, direction="minimize", reward_range=(0, 40))
    for name in PEAKS:
        assert low.deploy[name] == high.deploy[name] and low.found[name] == high.found[name]
    lowest, highest = (result.summary.query("choice == 'found'")["value"] for result in (low, high))
    assert lowest.max() < 40 * 0.12 and lowest.tolist() == [40 * (1 - value) for value in highest]


def test_of_noisy_losses_what_is_deployed_is_low_and_certain_as_of_rewards_it_is_high_and_certain():
    loss = {name: lambda p, f=f: 40 * (1 - f(p)) for name, f in objectives(noise=0.1).items()}
    high = tune(objectives(noise=0.1), 30, algorithm="random")
    low = tune(loss, 30, algorithm="random", direction="minimize", reward_range=(0, 40))
    assert low.deploy == high.deploy and low.found == high.found
    scaled, errors = 1 - low.summary["value"] / 40, low.summary["error"] / 40  # those of `found`, too, in its unit
    assert scaled.tolist() == pytest.approx(high.summary["value"].tolist())
    assert errors.tolist() == pytest.approx(high.summary["error"].tolist()) and (errors > 0).all()


@pytest.mark.parametrize("algorithm", ["fed1-ucb", "gp"])
def test_noise_is_in_units_of_the_value(algorithm):
    """The algorithms learn from rewards in [0, 1]: noise on +-4 of values in -10..30 is noise on +-0.1 of these."""
    search = pfpne.Search(list(PEAKS), SPACE, 20, algorithm=algorithm, noise=4.0, reward_range=(-10, 30))
    server, clients = search.federation.server, search.federation.clients
    assert [party.task.noise for party in (server, *clients)] == [0.1] * 3
    assert algorithm == "gp" or server.sigma == pytest.approx(0.1 / math.sqrt(3))


@pytest.mark.parametrize("algorithm", ["hct", "pe", "random"])
def test_without_noise_no_point_is_paid_for_twice(algorithm):
    functions = objectives()
    result = tune(functions, 100, noise=0, algorithm=algorithm)
    for f in functions.values():
        different = {tuple(p.values()) for p in f.calls}
        assert len(different) == len(f.calls) <= 100
        assert len(f.calls) >= 20
    assert (result.summary["evaluations"] <= 1).all()
    if algorithm != "random":
        assert all(abs(math.log10(result.deploy[name]["C"]) - peak) < 0.05 for name, peak in PEAKS.items())


@pytest.mark.parametrize(("given", "c"), [({}, 1e-9), ({"c": 0.5}, 0.5)])
def test_without_noise_c_is_next_to_nothing_unless_it_is_given(given, c):
    search = pfpne.Search(["a"], SPACE, 20, algorithm="fed-pne", noise=0, **given)
    assert search.federation.server.settings.c == c


def test_messages_are_counted_as_in_a_simulation():
    result = tune(objectives(noise=0.1), 60, algorithm="fed-pne")
    table = result.communication
    assert (table["numbers up"] > 0).all() and (table["numbers down"] > 0).all()
    assert (table["bytes"] == 8 * (table["numbers up"] + table["numbers down"])).all()
    assert table["round"].tolist() == list(range(1, len(table) + 1)) and table["t"].is_monotonic_increasing
    problem = pfpne.problem_from_functions([lambda x: 0.5 + 0 * x[:, 0]] * 2, [[0, 1]] * 2, noise=0.1, optimum=0.5)
    run = pfpne.simulate("fed-pne", problem, horizon=60)
    assert list(table.drop(columns="single scores")) == list(run.communication)
    assert table["numbers up"].iloc[0] == run.communication["numbers up"].iloc[0]
    assert tune(objectives(), 20, algorithm="random").communication.empty


def test_the_seed_decides():
    runs = [tune(objectives(noise=0.1), 40, seed=seed, algorithm="random").history for seed in (3, 3, 4)]
    assert_same(runs[0], runs[1])
    assert not runs[0]["C"].equals(runs[2]["C"])
    state = np.random.get_state()[1].tolist()
    tune(objectives(), 20)
    assert state == np.random.get_state()[1].tolist()


def test_random_search_would_deploy_the_point_of_its_highest_reward():
    _, (client,) = make_random_search(Task(Partition([[0, 1]]), 1, 4), RandomSearchSettings())
    assert client.best() == [0.5]  # before any reward
    points = []
    for reward in (-3.0, 0.7, 0.7, 0.1):
        points.append(client.ask().points[0])
        client.tell([reward])
        assert client.best() == points[:2][-1]


def test_in_random_search_each_client_has_points_of_its_own():
    _, clients = make_random_search(Task(Partition([[0, 1], [2, 4]]), 3, 20), RandomSearchSettings())
    points = np.empty((3, 20, 2))
    for t in range(20):
        for m, client in enumerate(clients):
            points[m, t] = client.ask().points[0]
            client.tell([0.5])
    assert len(np.unique(points.reshape(-1, 2), axis=0)) == 60
    assert ((points >= [0, 2]) & (points <= [1, 4])).all()


@pytest.mark.parametrize("algorithm", ["gp", "gp-shared"])
def test_the_first_points_of_the_clients_of_a_gaussian_process_are_all_different(algorithm):
    """Together they are a Sobol sequence: of 3 clients and 6 points, 16 of 18 have a sixteenth of either range each."""
    clients = pfpne.make_federation(algorithm, Task(Partition([[0, 1], [2, 4]]), 3, 6)).clients
    points = np.empty((6, 3, 2))
    for t, m in itertools.product(range(6), range(3)):
        points[t, m] = clients[m].ask().points[0]
        clients[m].tell([0.5])
    sixteenths = ((points.reshape(-1, 2)[:16] - [0, 2]) / [1, 2] * 16).astype(int)
    assert np.sort(sixteenths, axis=0).tolist() == [[n, n] for n in range(16)]
    assert len(np.unique(points.reshape(-1, 2), axis=0)) == 18


def test_first_points_and_points_of_the_grid_are_limited_in_many_dimensions():
    assert [gp.first_points(d) for d in (1, 2, 7, 8, 20)] == [4, 6, 16, 16, 16]
    assert [gp.grid_points(d) for d in (1, 3, 4, 5, 20)] == [16, 48, 64, 64, 64]


def test_candidates_are_others_for_each_client_step_seed_and_run():
    """With the same values behind them, since the candidates alone can tell these clients apart."""
    asked = []
    for m, t, seed, run in ((0, 6, 0, 0), (1, 6, 0, 0), (0, 7, 0, 0), (0, 6, 1, 0), (0, 6, 0, 1)):
        client = gp.GPClient(Task(Partition([[0, 1]]), 2, 9, seed=seed, key=("f", run)), gp.GPSettings(), m)
        client.learn([[0.1], [0.4], [0.5], [0.9]], [0.3, 0.8, 0.7, 0.1])
        client.t = t
        asked.append(client.ask().points[0, 0])
    assert len(set(asked)) == 5


def test_a_gaussian_process_is_fitted_anew_when_it_has_15_percent_more_values(monkeypatch):
    fitted, fit = [], gp.fit
    monkeypatch.setattr(gp, "fit", lambda values, hyper: fitted.append(len(values.x)) or fit(values, hyper))
    client = gp.GPClient(Task(Partition([[0, 1]]), 1, 30), gp.GPSettings(), 0)
    for reward in np.random.default_rng(0).random(30):
        client.ask()
        client.tell([reward])
    assert fitted == [3, 4, 5, 6, 7, 9, 11, 13, 15, 18, 21, 25, 29]  # each 1.15 times the one before, rounded up


@pytest.mark.parametrize("algorithm", ["gp", "gp-shared"])
def test_a_client_learns_each_reward_once(algorithm):
    client = pfpne.make_federation(algorithm, Task(Partition([[-1.0, 3.0]]), 2, 9)).clients[0]
    points, rewards = [], [0.5, 0.25, 1.0]
    for reward in rewards:
        points.append(client.ask().points[0])
        client.tell([reward])
    assert 4 * client.x - 1 == pytest.approx(np.array(points)) and client.y.tolist() == rewards


def test_an_improvement_by_hand():
    """Over a best of 2, of a normal value: at 2 it is a share of the deviation; else its integral; 2/5 is no noise."""
    mean, deviation, sigma = np.array([2.0, 2.5, 0.5, 3.0]), np.array([4.0, 1.0, 4.0, 0.0]), 3.0
    f = np.linspace(-20, 24, 400_001)
    density = [
        np.exp(-0.5 * ((f - m) / s) ** 2) / (s * math.sqrt(2 * math.pi))
        for m, s in zip(mean[:3], deviation[:3], strict=True)
    ]
    gain = [np.trapezoid(np.maximum(f - 2, 0) * p, f) for p in density]
    assert gain[0] == pytest.approx(4 / math.sqrt(2 * math.pi))
    wanted = [gain[0] * 0.4, gain[1] * (1 - 3 / math.sqrt(10)), gain[2] * 0.4, 0.0]  # nothing is left to learn
    assert gp.improvement(mean, deviation, 2.0, sigma) == pytest.approx(wanted, rel=1e-6)
    assert gp.improvement(mean, deviation, 2.0, 0.0)[:3] == pytest.approx(gain, rel=1e-6)


def test_what_is_best_by_a_gaussian_process_is_surely_good(monkeypatch):
    """Nine values around 0.6 at one point of [-1, 3], and 0.8 once at another: that is believed better, less surely."""
    rng, asked = np.random.default_rng(4), []
    client = gp.GPClient(Task(Partition([[-1.0, 3.0]]), 1, 30), gp.GPSettings(), 0)
    client.learn([[0.2]] * 9 + [[2.8]], np.append(0.6 + 0.3 * rng.uniform(-1, 1, 9), 0.8))
    client.t = len(client._first)  # these are behind it
    mean, _ = client.model().predict(client.x)
    assert mean.argmax() == 9 and client.best() == pytest.approx([0.2])

    def improvement(mean, deviation, best, sigma):
        asked.append((len(mean), best, sigma))
        return np.arange(len(mean)) == 190  # around the point that is believed best

    monkeypatch.setattr(gp, "improvement", improvement)
    point = client.ask().points[0]
    n_candidates = gp.N_CANDIDATES + 3 * 2 * gp.N_AROUND
    assert asked == [(n_candidates, pytest.approx(mean[0]), pytest.approx(client.model().sigma))]
    assert abs(point[0] - 2.8) < 4 * 4 * 0.03 and point[0] != 2.8


def test_a_reward_is_of_the_point_that_was_asked_for_whatever_was_learnt_meanwhile():
    """A client keeps the batch that it asked for: with the value that it learns here, it would ask for another."""
    client = gp.GPClient(Task(Partition([[0.0, 1.0]]), 1, 9), gp.GPSettings(), 0)
    for reward in (0.1, 0.4, 0.3, 0.2):
        client.ask()
        client.tell([reward])
    asked = client.ask().points[0]
    client.learn([[0.02]], [5.0])
    client.tell([0.5])
    assert client.x[4:, 0].tolist() == [0.02, *asked]


def test_what_a_client_learns_from_others_leaves_its_own_beliefs_out():
    task, mail = Task(Partition([[0.0, 1.0]]), n_clients=3, horizon=20), []
    search = pfpne.make_federation(SEARCHES["gp-shared"], task)
    search.on_mail = lambda t, up, down: mail.append([message for _, message in up])
    while not mail:
        for m, batch in search.ask():
            search.tell(m, 1 - np.abs(batch.points[:, 0] - (0.1, 0.5, 0.9)[m]))
    own, *others = mail[0]
    assert own.counts.sum() == pytest.approx(search.clients[0].t)
    means, counts = search.clients[0].others
    expected = sum(x.counts for x in others)
    assert expected.min() > 0 and counts.tolist() == pytest.approx(expected.tolist())
    assert (counts * means).tolist() == pytest.approx(sum(x.counts * x.means for x in others).tolist())
    assert np.abs(means - own.means).max() > 0.1


def test_beliefs_are_the_centred_posterior_means_of_the_clients_own_rewards():
    """In the second exchange, too, when it knows the beliefs of the other. The grid, of 16 points, is that of all."""
    task, told, sent = Task(Partition([[-1.0, 3.0]]), 2, 12), [], []
    run, hyper = pfpne.make_federation("gp-shared", task), Hyper.typical(1)
    run.on_mail = lambda t, up, down: sent.append(dict(up)[0])
    while run.running:
        for m, batch in run.ask():
            x = batch.points[0]
            reward = math.sin(3 * x[0] + m)
            told += [((x + 1) / 4, reward)] if m == 0 else []
            run.tell(m, [reward])
    assert len(sent) == 2
    for message, n in zip(sent, (4, 8), strict=True):
        values = Values.single(*map(np.array, zip(*told[:n], strict=True)))
        hyper = fit(values, hyper)
        model = GaussianProcess(values, hyper)
        mean, deviation = model.predict(gp.sobol(task, "grid of beliefs", 16))
        worth = model.variance / deviation**2 - 1
        assert message.means == pytest.approx(mean - mean.mean(), rel=0, abs=1e-9)
        assert message.counts == pytest.approx(n * worth.clip(0) / worth.clip(0).sum(), rel=0, abs=1e-9)


def test_a_belief_is_worth_nothing_where_the_model_has_learnt_nothing(monkeypatch):
    """The worth is in proportion to prior over posterior variance, less 1: here 0, 0 and 3, with a prior of 4."""
    deviation = np.array([3.0] * 4 + [2.0] * 4 + [1.0] * 8)

    class Model:
        variance = 4.0

        def __init__(self, values, hyper):
            pass

        def predict(self, x):
            return np.zeros(len(x)), deviation[: len(x)]

    client = pfpne.make_federation("gp-shared", Task(Partition([[0.0, 1.0]]), n_clients=2, horizon=20)).clients[0]
    for reward in (0.2, 0.4, 0.1):
        client.ask()
        client.tell([reward])
    client.ask()
    monkeypatch.setattr(gp, "GaussianProcess", Model)
    counts = client.tell([0.3]).counts
    assert counts.tolist() == pytest.approx([0.0] * 8 + [4 / 8] * 8)  # of four evaluations


@pytest.mark.parametrize(("horizon", "exchanges"), [(16, [4, 8]), (17, [4, 8, 16])])
def test_beliefs_are_exchanged_after_4_8_and_16_evaluations(horizon, exchanges):
    """In one dimension; at the horizon they would be of no use any more."""
    run, mail = pfpne.make_federation("gp-shared", Task(Partition([[0.0, 1.0]]), 2, horizon)), []
    run.on_mail = lambda t, up, down: mail.append((t, [message.header for _, message in up + down]))
    while run.running:
        for m, batch in run.ask():
            run.tell(m, 1 - abs(batch.points[:, 0] - 0.3))
    assert mail == [(t, [number] * 4) for number, t in enumerate(exchanges)]


def test_clients_of_pf_pne_plus_search_together_until_they_are_seen_to_differ_and_then_alone():
    history = tune(objectives(noise=0.01), 200, algorithm="pf-pne+").history
    for _, stages in history.groupby("client")["stage"]:
        assert stages.iloc[0] == "together" and stages.iloc[-1] == "alone" and (stages != stages.shift()).sum() == 2
    assert len(set(history.groupby("client")["stage"].value_counts())) == 2  # both clients at the same time
    assert set(tune(objectives(noise=0.01), 20, algorithm="hct").history["stage"]) == {""}


def test_a_deployed_point_is_believed_by_a_model_and_not_by_luck():
    """The right half is fifteen times as noisy and worse: neither the point nor its value profits from that."""
    space, truth = {"x": pfpne.Float(0, 1)}, lambda x: 0.62 if x < 0.5 else 0.47
    wrong, shown, found = 0, [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)

        def f(p, rng=rng):
            return truth(p["x"]) + (0.03 if p["x"] < 0.5 else 0.45) * rng.uniform(-1, 1)

        result = pfpne.tune([f], space, 60, reward_range=(0, 1), seed=seed, algorithm="random", progress=False)
        deploy, best = result.summary.itertuples()
        wrong += deploy.x >= 0.5
        shown.append((deploy.value - truth(deploy.x), deploy.error))
        found.append(best.value - truth(best.x))
    errors, claimed = map(np.array, zip(*shown, strict=True))
    assert wrong <= 2 and abs(errors.mean()) < 0.05 and np.median(np.abs(errors)) < 0.02
    assert np.mean(np.abs(errors) < 3 * claimed) > 0.7 and np.mean(found) > 0.2


def test_the_error_of_what_was_found_is_that_of_a_mean_of_its_values():
    """Noise on +-0.3 has the deviation 0.3 / sqrt(3), and the mean of n such values that over the root of n."""
    rng = np.random.default_rng(0)

    def f(p):
        return 0.5 + 0.3 * rng.uniform(-1, 1)

    result = pfpne.tune([f], {"n": pfpne.Int(1, 40)}, 300, algorithm="random", progress=False)
    found = result.summary.query("choice == 'found'").iloc[0]
    assert found["evaluations"] >= 4
    assert found["error"] == pytest.approx(0.3 / math.sqrt(3 * found["evaluations"]), rel=0.2)


def test_the_final_model_is_made_of_the_points_that_were_evaluated_most(monkeypatch):
    given, local = [], tuning_search.with_local_noise
    monkeypatch.setattr(tuning_search, "MAX_MODEL_VALUES", 5)
    monkeypatch.setattr(
        tuning_search, "with_local_noise", lambda values, hyper: given.append(values) or local(values, hyper)
    )
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, 20, algorithm="random", reward_range=(0, 2))
    points, count = [(x / 8,) for x in range(9)], np.array([1, 3, 1, 4, 1, 5, 2, 1, 2])
    believed, _, _ = search._believed(0, points, np.linspace(0.2, 1.0, 9), count)
    (values,) = given
    assert values.x[:, 0].tolist() == [1 / 8, 3 / 8, 5 / 8, 6 / 8, 1.0] and values.count.tolist() == [3, 4, 5, 2, 2]
    assert values.y.tolist() == pytest.approx([0.15, 0.25, 0.35, 0.4, 0.5]) and len(believed) == 9


@pytest.mark.parametrize(("algorithm", "outputs"), [("gp", [0]), ("gp-shared", [0, 1])])
def test_the_final_model_knows_what_the_client_was_told_of_others(monkeypatch, algorithm, outputs):
    """Their beliefs are a second output of the model, as they are in the client's own."""
    given, local = [], tuning_search.with_local_noise
    monkeypatch.setattr(
        tuning_search, "with_local_noise", lambda values, hyper: given.append(values) or local(values, hyper)
    )
    functions = [lambda p: p["x"], lambda p: 1 - p["x"]]
    pfpne.tune(functions, {"x": pfpne.Float(0, 1)}, 6, algorithm=algorithm, progress=False)
    assert [np.unique(values.output).tolist() for values in given] == [outputs] * 2


@pytest.mark.parametrize(("horizon", "due"), [(8, False), (9, True)])
def test_beliefs_are_not_due_at_the_horizon(horizon, due):
    """In one dimension they are told after 4, 8, ... evaluations, if others follow."""
    server = pfpne.make_federation("gp-shared", Task(Partition([[0, 1]]), 2, horizon)).server
    server.conclude(np.zeros((2, 16)), np.ones((2, 16)))
    assert server.exchanges == 1 and server.is_due(0, 0) == due


def test_values_of_before_are_learnt_from_and_cost_nothing():
    functions = objectives(noise=0.02)
    known = {"Oslo": [({"C": 10.0, "n": 2}, 0.9), ({"C": 0.1, "n": 1}, 0.65)]}
    result, plain = tune(functions, 8, known=known), tune(objectives(noise=0.02), 8)
    assert [len(f.calls) for f in functions.values()] == [8, 8] and len(result.history) == 16
    assert not result.history.equals(plain.history)
    assert tune(objectives(), 2, known=known).found["Oslo"] == {"C": 10.0, "n": 2}
    assert tune(objectives(), 9, known=known, noise=0).history.query("client == 'Oslo' and C == 10.0").empty
    earlier = [(row["parameters"], row["value"]) for row in plain.rows if row["client"] == "Oslo"]  # as the page says
    wider = SPACE | {"n": pfpne.Int(1, 9)}
    assert len(pfpne.tune(functions, wider, 2, known={"Oslo": earlier}, progress=False).history) == 4
    fine, pairs = ({"C": 1.0, "n": 1}, 0.5), "known of client Oslo must be a list of pairs"
    for wrong, message in (
        ({"Bonn": []}, "known must be a dict by some of the clients"),
        ({"Oslo": 3}, pairs),
        ({"Oslo": {"C": 1.0, "n": 1}}, pairs),
        ({"Oslo": [3]}, pairs),
        ({"Oslo": [fine, ({"C": 1.0}, 0.5)]}, "known of client Oslo, pair 2: a point must be a dict of C, n"),
        ({"Oslo": [fine, ({"C": 1e9, "n": 1}, 0.5)]}, "known of client Oslo, pair 2: parameter 'C': a value must be"),
        ({"Oslo": [({"C": 1.0, "n": 1}, 5)]}, "known of client Oslo, pair 1: a value must be a number in [0, 1]"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            tune(objectives(fails=0, how=fail), 8, known=wrong)


@pytest.mark.parametrize("algorithm", ["gp", "gp-shared"])
def test_a_gaussian_process_learns_losses_as_rewards_from_0_to_1(algorithm):
    """Those that were known before, and that of a random point which replaces one that fails."""
    known = {"b": [({"x": 0.25}, 30.0), ({"x": 0.75}, 0.0)]}
    plan = {"algorithm": algorithm, "direction": "minimize", "reward_range": (0, 40)}
    search = pfpne.Search(["a", "b"], {"x": pfpne.Float(0, 1)}, 9, known=known, **plan)
    a, b = search.federation.clients
    assert b.x.tolist() == [[0.25], [0.75]] and b.y.tolist() == [0.25, 1.0]
    asked = []
    for value in (None, None, 10.0):
        (trial,) = (trial for trial in search.ask() if trial.client == "a")
        search.tell(trial, value)
        asked.append(trial.u[0])
    assert a.x[:, 0].tolist() == [asked[2], asked[0]] and a.y.tolist() == [0.75, 0.75]


def test_known_parameters_may_be_in_another_order_than_the_space():
    found = tune(objectives(), 2, known={"Oslo": [({"n": 2, "C": 10.0}, 0.9)]}).found["Oslo"]
    assert found == {"C": 10.0, "n": 2}


@pytest.mark.parametrize("algorithm", [name for name, row in SEARCHES.items() if row.ignores_horizon])
def test_a_longer_search_goes_on_from_a_shorter_one(algorithm, tmp_path):
    file, functions = tmp_path / "history.jsonl", objectives(noise=0.05)
    few, many = (8, 16) if algorithm in SLOW else (14, 30)
    tune(functions, few, algorithm=algorithm, history=file)
    longer = tune(functions, many, algorithm=algorithm, history=file)
    assert [len(f.calls) for f in functions.values()] == [many, many]
    assert_same(longer.history, tune(objectives(noise=0.05), many, algorithm=algorithm).history)
    refused = f"history.jsonl: must be of at most {2 * few} evaluations.*; got {2 * many}. Give"
    with pytest.raises(ValueError, match=refused):
        tune(objectives(fails=0, how=fail), few, algorithm=algorithm, history=file)


@pytest.mark.parametrize("algorithm", [name for name, row in SEARCHES.items() if row.ignores_reward_range])
def test_a_search_whose_range_was_too_narrow_goes_on_with_a_wider_one(algorithm, tmp_path):
    """Its points do not depend on the range, so that what was paid for serves."""
    file, wide = tmp_path / "history.jsonl", {"reward_range": (-2, 9), "algorithm": algorithm}
    functions = objectives(noise=0.05, fails=9, how=lambda: 7.5)
    cure = r"in \[0, 1\], the reward_range; got 7.5. Give a wider range, or cut values off at its ends"
    with pytest.raises(pfpne.EvaluationError, match=cure) as caught:
        tune(functions, 14, algorithm=algorithm, history=file)
    assert len(caught.value.result.history) == 18
    for history in (caught.value.result, file):
        own = objectives(noise=0.05)
        assert len(tune(own, 14, history=history, **wide).history) == 28
        assert [len(f.calls) for f in own.values()] == [5, 5]
    with pytest.raises(ValueError, match="reward was .*'maximize'], and is .*'minimize'"):
        tune(functions, 14, history=file, direction="minimize", **wide)
    for history in (caught.value.result, file):
        with pytest.raises(ValueError, match="evaluation 1 of the history: a value must be a number in"):
            tune(functions, 14, history=history, algorithm=algorithm, reward_range=(0.99, 1))


def test_a_search_that_searches_nothing_says_so():
    words = "All evaluations are of one point"
    assert words in repr(tune(objectives(), 30, algorithm="pf-pne+", nu_1=0.03))
    assert words not in repr(tune(objectives(), 30)) and words not in repr(tune(objectives(), 1))


def nothing_more():
    raise MemoryError("diverged")


@pytest.mark.parametrize("algorithm", ["gp-shared", "hct-noise", "fed-pne", "random"])
@pytest.mark.parametrize("how", [nothing_more, lambda: math.nan, lambda: 1 + 0j, lambda: 7.0])
def test_a_failed_evaluation_is_missing_and_the_search_goes_on(algorithm, how, tmp_path):
    class Sometimes(Objective):
        def __call__(self, p):
            value = super().__call__(p)
            return self.how() if len(self.calls) % 6 == 2 else value

    functions, file = {name: Sometimes(peak, noise=0.05, how=how) for name, peak in PEAKS.items()}, tmp_path / "h"
    n, n_missing = (18, 3) if algorithm in SLOW else (40, 7)  # of each client
    result = tune(functions, n, algorithm=algorithm, catch=(MemoryError, ValueError), history=file)
    missing = result.history[result.history["value"].isna()]
    assert len(result.history) == 2 * n and len(missing) == 2 * n_missing
    assert f"{2 * n_missing} of them missing" in repr(result)
    assert missing["why"].str.match("MemoryError: diverged|ValueError: a value must be").all()
    assert (result.history["why"] == "").sum() == 2 * (n - n_missing)
    again = tune(objectives(fails=0, how=fail), n, algorithm=algorithm, history=file)
    assert_same(again.history, result.history)
    with pytest.raises(pfpne.EvaluationError):
        tune({name: Sometimes(0.0, how=how) for name in PEAKS}, n, algorithm=algorithm, catch=KeyError)


def test_a_missing_value_counts_as_the_mean_of_the_others_at_its_point():
    search = pfpne.Search(["a"], {"n": pfpne.Int(1, 2)}, 20, algorithm="random", give_up=20)
    tell, seen, told = search.federation.tell, {1: 0, 2: 0}, []
    search.federation.tell = lambda m, rewards: (told.extend(rewards), tell(m, rewards))
    while trials := search.ask():
        n = trials[0].parameters["n"]
        search.tell(trials[0], (0.0, 0.1, 0.8)[seen[n]] if seen[n] < 3 else None)
        seen[n] += 1
    is_missing = search.result().history["value"].isna()
    assert is_missing.sum() == 14 and min(seen.values()) > 3
    assert np.array(told)[is_missing].tolist() == pytest.approx([0.3] * 14)


@pytest.mark.parametrize(("direction", "worst"), [("maximize", 0.2), ("minimize", 0.3)])
def test_a_missing_value_at_a_new_point_counts_as_the_worst_so_far(direction, worst):
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, 4, algorithm="random", direction=direction)
    tell, told = search.federation.tell, []
    search.federation.tell = lambda m, rewards: (told.extend(rewards), tell(m, rewards))
    for value in (0.4, 0.2, 0.7, None):
        (trial,) = search.ask()
        search.tell(trial, value)
    assert told[3] == pytest.approx(worst) and told[3] == min(told[:3])


def test_a_first_evaluation_that_fails_is_made_again_and_many_in_a_row_are_an_error():
    function = Objective(0.0, fails=0, how=fail)
    result = pfpne.tune([function], SPACE, 5, catch=OSError, algorithm="hct-noise", progress=False)
    assert result.history["value"].isna().tolist() == [True] + [False] * 5
    assert result.history["C"][0] == result.history["C"][1]
    with pytest.raises(
        pfpne.EvaluationError, match="3 evaluations in a row failed, at last: OSError: the disk is full"
    ):
        pfpne.tune([lambda p: fail()], SPACE, 5, catch=OSError, give_up=3, progress=False)
    turns = itertools.cycle([lambda: 0.5, fail, fail])  # two of three, but never three in a row
    result = pfpne.tune(
        [lambda p: next(turns)()], SPACE, 12, catch=OSError, give_up=3, algorithm="random", progress=False
    )
    assert result.history["value"].isna().tolist() == [False, True, True] * 4


@pytest.mark.parametrize("algorithm", ["gp", "gp-shared", "hct-noise", "fed-pne", "random"])
def test_a_first_point_that_always_fails_does_not_end_the_search(algorithm, tmp_path):
    space = {"kernel": pfpne.Choice(["linear", "poly", "rbf"]), "C": pfpne.Float(0, 1)}
    first = pfpne.Search(["a"], space, 20, algorithm=algorithm).ask()[0].parameters["kernel"]

    def function(p):
        if p["kernel"] == first:
            raise ValueError("no such kernel here")
        return p["C"]

    call = {"space": space, "algorithm": algorithm, "history": tmp_path / "h", "catch": ValueError, "progress": False}
    result = pfpne.tune({"a": function}, n_evaluations=20, **call)
    missing = result.history["value"].isna()
    n_failed = int(missing.to_numpy().argmin())
    assert n_failed >= 2 and len(result.history) == 20 + n_failed
    assert result.history["C"][0] == result.history["C"][1] != result.history["C"][2]
    assert result.deploy["a"]["kernel"] != first
    again = pfpne.tune({"a": lambda p: fail()}, n_evaluations=20, **call)
    assert_same(again.history, result.history)


def test_a_search_that_goes_on_after_it_gave_up_counts_failures_anew():
    calls, result = [], None

    def fails(parameters):
        calls.append(parameters)
        raise OSError("no disk")

    given = {"catch": OSError, "give_up": 3, "algorithm": "random", "progress": False}
    for n in (3, 6, 9):
        with pytest.raises(pfpne.EvaluationError, match="3 evaluations in a row failed") as failed:
            pfpne.tune([fails], SPACE, 20, history=result, **given)
        result = failed.value.result
        assert len(calls) == n == len(result.history)


def test_failures_in_a_row_are_counted_anew_after_those_that_were_told_of():
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, 20, give_up=2)

    def fails() -> dict:
        (trial,) = search.ask()
        return search.tell(trial, None, why="no disk")

    for _ in range(2):
        assert fails()["why"] == "no disk"
        with pytest.raises(pfpne.EvaluationError, match="2 evaluations in a row failed, at last: no disk"):
            fails()
    x = search.result().history["x"].tolist()
    assert len(x) == 4 and x[0] == x[1] and len(set(x)) == 3  # the first point is not made a third time


def test_random_points_that_replace_a_first_one_are_all_different():
    points = []
    for seed in (0, 1):
        search = pfpne.Search(["a", "b"], {"x": pfpne.Float(0, 1)}, 9, algorithm="random", seed=seed)
        for _ in range(4):
            for trial in search.ask():
                search.tell(trial, None)
                points.append(trial.u)
    assert len(set(points)) == 2 * 2 * 3  # by seed and client: the first, made twice, and two others


def test_a_client_with_fewer_evaluations_comes_first():
    search = pfpne.Search(["a", "b"], {"n": pfpne.Int(1, 9)}, 60, algorithm="hct-noise")
    for client in "abab":
        assert [trial.client for trial in search.ask()] == [client, "b" if client == "a" else "a"]
        search.tell(search.ask()[0], 0.5)


def test_a_trial_is_told_once_though_the_next_one_is_of_the_same_point():
    search = pfpne.Search(["a"], {"n": pfpne.Int(1, 9)}, 60, algorithm="hct-noise")
    (first,) = search.ask()
    search.tell(first, 0.5)
    (second,) = search.ask()
    assert second.u == first.u
    with pytest.raises(ValueError, match="a trial must be one of those that `ask` gives now"):
        search.tell(first, 0.5)
    assert search.n_evaluated == 1


def test_a_trial_of_another_search_is_not_told():
    one, other = (pfpne.Search(["a"], SPACE, 9, algorithm="random", seed=seed) for seed in (0, 1))
    (own,), (wrong,) = one.ask(), other.ask()
    with pytest.raises(ValueError, match="a trial must be one of those that `ask` gives now"):
        one.tell(wrong, 0.5)
    one.tell(own, 0.5)


def test_an_evaluation_that_was_spared_is_one_of_the_evaluations():
    search = pfpne.Search(["a"], {"n": pfpne.Int(1, 2)}, 30, algorithm="random", noise=0)
    while trials := search.ask():
        search.tell(trials[0], 0.5)
    assert len(search.result().history) == 2 and search.n_evaluated == 30


def test_of_fewer_than_four_points_the_best_is_deployed():
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, 3, algorithm="random")
    for value in (0.1, 0.9, 0.2):
        search.tell(search.ask()[0], value)
    result = search.result()
    assert result.deploy["a"]["x"] == result.found["a"]["x"] == result.history["x"][1]


@pytest.mark.parametrize("algorithm", ["gp-shared", "fed-pne"])
def test_any_number_at_a_time_finds_the_same(algorithm):
    names, results, most = "abcd", [], []
    for n_jobs in (1, 3):
        under_way = {name: 0 for name in names}

        def watched(f, name, under_way=under_way):
            def call(p):
                under_way[name] += 1
                most.append((sum(under_way.values()), under_way[name]))
                time.sleep(0.002)
                value = f(p)
                under_way[name] -= 1
                return value

            return call

        functions = {name: watched(Objective(i - 1.5, noise=0.05), name) for i, name in enumerate(names)}
        results.append(tune(functions, 14, algorithm=algorithm, n_jobs=n_jobs))
    one, three = (r.history.drop(columns="seconds").sort_values(["client", "evaluation"]) for r in results)
    pd.testing.assert_frame_equal(one.reset_index(drop=True), three.reset_index(drop=True))
    assert results[0].deploy == results[1].deploy
    assert max(together for together, _ in most) == 3 and max(own for _, own in most) == 1


def test_with_many_at_a_time_nothing_paid_for_is_lost():
    functions = objectives(noise=0.05)
    functions["Rome"].fails, functions["Rome"].how = 4, fail
    with pytest.raises(pfpne.EvaluationError, match="client Rome") as caught:
        tune(functions, 12, n_jobs=2)
    made = len(functions["Oslo"].calls) + len(functions["Rome"].calls)
    assert len(caught.value.result.history) == made
    assert len(tune(functions, 12, n_jobs=2, history=caught.value.result).history) == 24
    assert [len(f.calls) for f in functions.values()] == [12, 12]


def test_of_two_that_fail_at_a_time_the_first_is_named():
    oslo_fails = threading.Event()

    def oslo(p):
        oslo_fails.set()
        raise OSError("no disk")

    def rome(p):
        assert oslo_fails.wait(10)
        time.sleep(0.05)  # so that Oslo's error has come when this one is raised
        raise OSError("no network")

    with pytest.raises(pfpne.EvaluationError, match="client Oslo .* no disk") as caught:
        pfpne.tune({"Oslo": oslo, "Rome": rome}, {"x": pfpne.Float(0, 1)}, 12, n_jobs=2, progress=False)
    assert caught.value.result.history.empty


def test_after_an_error_nothing_more_begins_while_others_are_under_way(monkeypatch):
    """Rome's first evaluation ends when the error of Oslo's has been seen, and is told."""
    calls, n_waits, seen = [], 0, threading.Event()

    def wait(futures, return_when):
        nonlocal n_waits
        n_waits += 1
        if n_waits == 2:
            seen.set()
        return futures_wait(futures, return_when=return_when)

    def oslo(p):
        calls.append("Oslo")
        raise OSError("no disk")

    def rome(p):
        calls.append("Rome")
        assert seen.wait(10)
        return 0.5

    monkeypatch.setattr("pfpne.tuning.evaluate.wait", wait)
    with pytest.raises(pfpne.EvaluationError, match="no disk") as caught:
        pfpne.tune({"Oslo": oslo, "Rome": rome}, {"x": pfpne.Float(0, 1)}, 9, n_jobs=2, progress=False)
    assert sorted(calls) == ["Oslo", "Rome"] and caught.value.result.history["client"].tolist() == ["Rome"]


def test_a_search_can_be_stopped_by_a_callback_or_a_clock():
    seen = []

    def watch(search, row):
        seen.append(row["value"])
        if len(seen) == 9:
            search.stop()

    for n_jobs in (1, 2):
        seen.clear()
        result = tune(objectives(), 40, callbacks=[watch], n_jobs=n_jobs)
        assert (
            9 <= len(result.history) <= 8 + n_jobs  # an evaluation under way is told; none begins
            and result.history["value"].tolist() == seen
            and set(result.deploy) == {*PEAKS}
            and repr(result).startswith(f"gp, {len(result.history)} of 80 evaluations\n")
        )
    slow = {name: lambda p, f=f: time.sleep(0.05) or f(p) for name, f in objectives().items()}
    start = time.monotonic()
    assert 1 <= len(tune(slow, 500, timeout=0.3).history) <= 12 and time.monotonic() - start < 5


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_no_evaluation_begins_after_the_timeout(n_jobs, monkeypatch):
    """An evaluation takes a second of this clock: those that begin at 0 are told, and there are no others."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter)
    monkeypatch.setattr("pfpne.tuning.evaluate.time", clock)

    def function(p):
        now[0] += 1
        return 0.5

    call = {"algorithm": "random", "timeout": 0.5, "n_jobs": n_jobs, "progress": False}
    result = pfpne.tune([function] * 3, {"x": pfpne.Float(0, 1)}, 12, **call)
    assert sorted(result.history["client"]) == ["0", "1"][:n_jobs]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_seconds_of_an_evaluation_are_those_of_its_call(n_jobs, monkeypatch):
    now = [100.0]
    clock = SimpleNamespace(monotonic=time.monotonic, perf_counter=lambda: now[0])
    monkeypatch.setattr("pfpne.tuning.evaluate.time", clock)

    def function(p):
        now[0] += 2.5
        return 0.5

    call = {"algorithm": "random", "n_jobs": n_jobs, "progress": False}
    assert pfpne.tune([function], SPACE, 4, **call).history["seconds"].tolist() == [2.5] * 4


def test_an_objective_may_change_the_dict_that_it_is_given():
    def takes_out(p):
        return p.pop("C") / 1e3

    history = pfpne.tune([takes_out], SPACE, 5, algorithm="random", progress=False).history
    assert history["value"].tolist() == (history["C"] / 1e3).tolist()


def test_a_search_keeps_its_names_and_parameters_when_the_lists_given_are_changed():
    names, space, sizes = ["a"], {"x": pfpne.Float(0, 1)}, ["S", "L"]
    space["size"] = pfpne.Ordinal(sizes)
    search = pfpne.Search(names, space, 9, algorithm="random")
    names.append("b")
    sizes[:] = ["M", "M"]
    del space["x"]
    (trial,) = search.ask()
    search.tell(trial, 0.5)
    assert set(trial.parameters) == {"x", "size"} and trial.parameters["size"] in ("S", "L")
    assert search.n_evaluated == 1 and search.result().deploy == {"a": trial.parameters}


def test_all_callbacks_are_called_in_their_order():
    called = []
    callbacks = [lambda search, row, n=n: called.append((n, search.n_evaluated)) for n in (1, 2)]
    tune([Objective(0.0)], 3, algorithm="random", callbacks=callbacks)
    assert called == [(n, t) for t in (1, 2, 3) for n in (1, 2)]


def test_a_client_waits_for_its_turn_until_another_is_told():
    """With two at a time, the third client's evaluation does not begin where the first to end stops the search."""
    call = {"n_jobs": 2, "callbacks": [lambda search, row: search.stop()], "progress": False}
    result = pfpne.tune([lambda p: 0.5] * 3, {"x": pfpne.Float(0, 1)}, 12, **call)
    assert sorted(result.history["client"]) == ["0", "1"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_that_raises_loses_nothing(n_jobs):
    def watch(search, row):
        if search.n_evaluated == 9:
            raise LookupError("no such board")

    functions = objectives(noise=0.1)
    with pytest.raises(LookupError, match="no such board") as caught:
        tune(functions, 14, callbacks=[watch], n_jobs=n_jobs)
    assert "Nothing is lost" in caught.value.__notes__[0]
    assert 9 <= len(caught.value.result.history) == sum(len(f.calls) for f in functions.values())
    assert len(tune(functions, 14, history=caught.value.result).history) == 28
    assert [len(f.calls) for f in functions.values()] == [14, 14]


def test_a_result_stays_as_it_was_while_the_search_goes_on():
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, 9, algorithm="random")
    search.tell(search.ask()[0], 0.5)
    result = search.result()
    search.tell(search.ask()[0], 0.75)
    assert len(result.rows) == len(result.history) == 1 and len(search.result().rows) == 2


def test_a_search_that_is_closed_before_its_history_was_taken_is_no_error(tmp_path):
    tune([Objective(0.0)], 9, algorithm="random", history=tmp_path / "h")
    with pfpne.Search(["0"], SPACE, 9, algorithm="random", history=tmp_path / "h") as search:
        assert search.n_evaluated == 0
    assert len(tune([fail], 9, algorithm="random", history=tmp_path / "h").history) == 9


def test_a_search_is_asked_and_told(tmp_path):
    """As tune does; also when trials are told in another order, and after a restart in the middle."""
    whole, functions = tune(objectives(noise=0.05), 20), objectives(noise=0.05)
    for most in (13, 100):
        with pfpne.Search([*PEAKS], SPACE, 20, history=tmp_path / "history.jsonl") as search:
            while (trials := search.ask()) and most > 0:
                assert [trial.parameters for trial in search.ask()] == [trial.parameters for trial in trials]
                for trial in reversed(trials):
                    search.tell(trial, functions[trial.client](trial.parameters))
                    most -= 1
                    with pytest.raises(ValueError, match="a trial must be one of those that `ask` gives now"):
                        search.tell(trial, 0.5)
    assert search.result().deploy == whole.deploy and [len(f.calls) for f in functions.values()] == [20, 20]
    search = pfpne.Search(["a"], SPACE, 3)
    for wrong in (2.0, True, "0.5"):
        with pytest.raises(ValueError, match="a value must be a number in"):
            search.tell(search.ask()[0], wrong)


@pytest.mark.parametrize("names", [(0, 1), ("0", 0), ((1, "a"), None), (True, 2.5)])
def test_clients_may_have_any_name_that_survives_a_file(names, tmp_path):
    functions = dict(zip(names, objectives(noise=0.05).values(), strict=True))
    for result in (tune(functions, 6, history=tmp_path / "h"), tune(functions, 6, history=tmp_path / "h")):
        assert set(result.deploy) == set(names) and all(any(x is y for y in names) for x in result.history["client"])
    result.plot()
    with pytest.raises(ValueError, match="with a history, the name of a client must be one that reads the same"):
        tune({object(): Objective(0.0)}, 6, history=tmp_path / "other")
    assert len(tune({object(): Objective(0.0)}, 6).deploy) == 1


def test_choices_without_an_order():
    """None is nearer to one than to another, and the best is found wherever it stands."""
    names = ["rbf", "linear", "poly", "sigmoid"]
    choice = pfpne.Choice(names)
    assert choice.d == 4 and [choice.at(choice.unit(name)) for name in names] == names
    space = pfpne.Space({"kernel": choice, "C": pfpne.Float(0, 1), "two": pfpne.Choice([1, 2])})
    assert space.d == 6 and space.point(space.unit({"kernel": "poly", "C": 0.25, "two": 2})) == {
        "kernel": "poly",
        "C": 0.25,
        "two": 2,
    }
    apart = [np.linalg.norm(choice.unit(a) - choice.unit(b)) for a in names for b in names if a != b]
    assert np.allclose(apart, apart[0])
    counts = [choice.at(u) for u in np.random.default_rng(0).random((4000, 4))]
    assert all(900 < counts.count(name) < 1100 for name in names)
    for best in ("linear", "sigmoid"):
        f = lambda p, best=best: 0.4 + 0.3 * (p["kernel"] == best) - 0.2 * (p["C"] - 0.3) ** 2  # noqa: E731
        result = pfpne.tune([f], {"kernel": choice, "C": pfpne.Float(0, 1)}, 30, progress=False)
        assert result.deploy["0"]["kernel"] == best


def test_single_scores_that_were_sent_and_calls_that_were_saved_are_counted():
    result = tune(objectives(noise=0.05), 60, algorithm="fed-pne")
    up = result.communication
    assert up["single scores"].sum() > 0 and (up["single scores"] <= up["numbers up"]).all()
    beliefs = tune(objectives(noise=0.05), 14, algorithm="gp-shared").communication
    assert len(beliefs) and beliefs["single scores"].sum() == 0  # beliefs are no scores
    f = objectives()
    saving = tune(f, 60, algorithm="hct", noise=0)
    assert saving.n_spared == 120 - sum(len(g.calls) for g in f.values()) > 0
    assert f"{saving.n_spared} calls saved" in repr(saving) and tune(objectives(), 9).n_spared == 0
    assert repr(saving).startswith(f"hct, {120 - saving.n_spared} evaluations")  # all of them: it was not stopped


def test_numbers_of_evaluations_are_no_scores_though_they_may_equal_one():
    beliefs = gp.Beliefs(1, means=np.array([0.25, 0.5]), counts=np.array([1.0, 0.0]))
    assert tuning_search._possible_scores(beliefs) == [0.25, 0.5]


@pytest.mark.parametrize(("n", "modelled"), [(3, False), (4, True)])
def test_of_four_points_there_is_a_model_and_seconds_are_told_to_the_millionth(n, modelled):
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, n, algorithm="random")
    while trials := search.ask():
        row = search.tell(trials[0], 0.5 + 0.1 * trials[0].u[0], seconds=0.12345678)
        assert row["seconds"] == 0.123457
    assert search.result().summary["error"].notna().tolist() == [modelled, modelled]


def test_a_number_is_a_score_of_the_client_that_sends_it_in_units_of_the_range():
    search = pfpne.Search(["a", "b"], {"x": pfpne.Float(0, 1)}, 9, algorithm="gp-shared", reward_range=(0, 100))
    search._record_value(0, {"x": 0.5}, 25.0)
    search._record_value(1, {"x": 0.5}, 50.0)
    search._disclosure.mail = lambda *mail: None
    first, second = (
        gp.Beliefs(1, means=np.array(means), counts=np.ones(3)) for means in ([0.25, 0.5, 0], [0.25, 1, 0])
    )
    search._on_mail(4, [(0, first), (1, second)], [])
    assert search._rounds[4].tolist() == [12, 0, 1]  # numbers up and down, and client a's 0.25
    search._on_mail(4, [], [(0, first)])  # at the same time
    assert search._rounds[4].tolist() == [12, 6, 1]


def test_values_that_were_read_and_not_called_for_are_counted(tmp_path):
    """Who changes a function beside its history reads in the first line that the old values were taken."""
    file = tmp_path / "history.jsonl"
    first, longer = (tune(objectives(), n, history=file) for n in (9, 12))
    n = len(first.deploy)
    assert first.n_read == 0 and "read from the history" not in repr(first)
    assert longer.n_read == 9 * n and f"{12 * n} evaluations, {9 * n} of them read from the history" in repr(longer)


@pytest.mark.parametrize(("direction", "chosen"), [("maximize", 0), ("minimize", 2)])
def test_a_value_that_is_less_sure_is_deployed_only_if_it_is_better_by_more(direction, chosen, monkeypatch):
    believed, error = np.array([0.5, 0.6, 0.4, 0.3]), np.array([0.01, 0.3, 0.01, 0.3])
    monkeypatch.setattr(pfpne.Search, "_believed", lambda *of: (believed, error, 0.1))
    search = pfpne.Search(["a"], {"x": pfpne.Float(0, 1)}, 4, algorithm="random", direction=direction)
    asked = []
    while trials := search.ask():
        for trial in trials:
            asked.append(trial.parameters["x"])
            search.tell(trial, 0.5)
    result = search.result()
    assert result.deploy["a"]["x"] == asked[chosen]


def test_progress_is_true_or_false():
    with pytest.raises(ValueError, match="progress must be True or False; got 'no'"):
        pfpne.tune(objectives(), SPACE, 3, progress="no")


def test_a_result_can_be_drawn(monkeypatch):
    figure = tune(objectives(noise=0.05), 14).plot()
    assert [axes.get_xlabel() for axes in figure.axes] == ["evaluation", "C", "n", "evaluations of a client"]
    assert [line.get_label() for line in figure.axes[0].lines] == [*PEAKS]
    assert figure.axes[1].get_xscale() == "log" and figure.axes[2].get_xscale() == "linear"
    assert all(np.all(np.diff(line.get_ydata()) >= 0) for line in figure.axes[0].lines)
    for algorithm, n_rounds in (("gp", 0), ("gp-shared", 2)):
        result = tune(objectives(), 14, algorithm=algorithm)
        up, _ = result.plot().axes[-1].lines
        assert len(result.communication) == n_rounds and len(up.get_xdata()) == n_rounds + 2
        assert (up.get_xdata()[0], up.get_ydata()[0], up.get_xdata()[-1]) == (0, 0, 14)
        assert up.get_ydata()[-1] == result.communication["numbers up"].sum()
    narrow = {"C": pfpne.Float(0.5, 4, log=True), "n": pfpne.Float(1e-3, 4)}
    scales = [axes.get_xscale() for axes in pfpne.tune([Objective(0.0)], narrow, 9, progress=False).plot().axes]
    assert scales[1:3] == ["log", "linear"]
    loss = tune({"a": lambda p: 1 - Objective(0.0)(p)}, 9, direction="minimize").plot()
    assert np.all(np.diff(loss.axes[0].lines[0].get_ydata()) <= 0)
    space = {"kind": pfpne.Choice([None, "b", "a"]), "size": pfpne.Ordinal([8, 64]), "x": pfpne.Float(0, 1)}
    result = pfpne.tune({("a", 1): lambda p: p["x"] * (p["kind"] == "b")}, space, 12, progress=False)
    kind, size, x = result.plot().axes[1:4]
    assert [label.get_text() for label in kind.get_xticklabels()] == ["None", "b", "a"]
    dots, star = kind.lines
    assert dots.get_xdata().tolist() == [space["kind"].choices.index(row["parameters"]["kind"]) for row in result.rows]
    assert star.get_xdata() == [1] and set(size.lines[0].get_xdata()) == {8, 64}
    (deployed,) = result.deploy.values()
    assert [x.lines[1].get_xdata()[0], x.lines[1].get_ydata()[0]] == [deployed["x"], result.summary["value"][0]]
    with pytest.raises(ValueError, match="there is none yet"):
        pfpne.Search(["a"], space, 5).result().plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="result.plot.* needs matplotlib: pip install matplotlib"):
        tune(objectives(), 5).plot()


def test_names_are_at_the_top_and_the_page_runs_as_it_stands(capsys):
    assert {"tune", "Search", "Trial", "Tuned", "Reward", "Choice", "simulate"} <= set(dir(pfpne))
    page = (CHECKOUT / "docs" / "own-problem.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(code, {})
    found = re.findall(r"'C': ([\d.]+)", capsys.readouterr().out)
    assert len(found) == 2 and all(1.5 < float(C) < 2.7 for C in found)


def test_the_default_follows_the_budget():
    few = [pfpne.Search(["a"], SPACE, n).request for n in (1, 30, 1000)]
    assert [(request["algorithm"], request["settings"]) for request in few] == [("gp", {})] * 3
    for given, used in (
        ({}, {"gaussian_process": "True"}),
        ({"c": 0.2}, {"c": "0.2", "gaussian_process": "True"}),
        ({"safe": True}, {"safe": "True"}),
        ({"optimistic": False}, {"optimistic": "False"}),
        ({"gaussian_process": False}, {"gaussian_process": "False"}),
        ({"noise": 0}, {}),
        ({"algorithm": "pf-pne+"}, {}),
    ):
        request = pfpne.Search(["a"], SPACE, 1001, **given).request
        assert request["algorithm"] == "pf-pne+" and request["settings"] == used
    with pytest.raises(ValueError, match="horizon must be at most 2000 for a Gaussian process"):
        tune(objectives(fails=0, how=fail), 2001, algorithm="gp")


# --- what goes wrong --------------------------------------------------------------------------------


def fail():
    raise OSError("the disk is full")


@functools.cache
def whole_search(algorithm):
    """A search in which nothing fails: what others, in which something does, have to end as."""
    return tune(objectives(noise=0.1), 30, algorithm=algorithm)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (fail, "OSError: the disk is full"),
        (lambda: math.nan, r"a value must be a number in \[0, 1\], the reward_range; got nan"),
        (lambda: 1.5, r"a number in \[0, 1\], the reward_range; got 1.5"),
        (lambda: None, "the reward_range; got None"),
    ],
)
@pytest.mark.parametrize("algorithm", ["hct", "fed-pne", "random"])
def test_an_evaluation_that_fails_is_named_and_nothing_is_lost(how, message, algorithm):
    whole = whole_search(algorithm)
    functions = objectives(noise=0.1)
    functions["Rome"].fails, functions["Rome"].how = 17, how
    with pytest.raises(pfpne.EvaluationError, match=message) as caught:
        tune(functions, 30, algorithm=algorithm)
    assert str(caught.value).startswith("client Rome at {'C': ")
    assert f"With catch={type(caught.value.__cause__).__name__} it counts as missing" in str(caught.value)
    before = caught.value.result
    assert len(before.history.query("client == 'Rome'")) == 17
    assert_same(before.history, whole.history[: len(before.history)])
    after = tune(functions, 30, algorithm=algorithm, history=before)
    assert_same(after.history, whole.history)
    assert [len(f.calls) for f in functions.values()] == [30, 30]
    assert after.deploy == whole.deploy


def test_the_first_evaluation_may_fail():
    with pytest.raises(pfpne.EvaluationError) as caught:
        tune([Objective(0.0, fails=0, how=fail)])
    assert caught.value.result.history.empty and caught.value.result.found == {}
    assert repr(caught.value.result) == "gp, 0 of 60 evaluations\nThere is no value yet."


def test_a_search_goes_on_from_its_file(tmp_path):
    whole, file = whole_search("gp"), tmp_path / "new folder" / "history.jsonl"
    functions = objectives(noise=0.1, fails=12, how=fail)
    for _ in PEAKS:  # each client fails once
        with pytest.raises(pfpne.EvaluationError):
            tune(functions, 30, history=file)
    with file.open("ab") as half:
        half.write(b'{"client": "Oslo", "u": [0.')  # a process killed while it wrote
    found = tune(functions, 30, history=str(file))
    assert_same(found.history, whole.history)
    assert [len(f.calls) for f in functions.values()] == [30, 30]
    done = file.read_bytes()
    again = tune(objectives(fails=0, how=fail), 30, history=file)  # nothing is called
    assert_same(again.history, whole.history)
    assert file.read_bytes() == done and len(done.splitlines()) == 61


def test_a_killed_process_loses_one_evaluation_at_most(tmp_path):
    file, calls = tmp_path / "history.jsonl", []

    def search(last: int) -> None:
        """Search from the file on; the process ends in evaluation number `last` of its own."""

        def f(p):
            calls.append(p)
            return os._exit(9) if len(calls) == last else 0.5

        pfpne.tune([f], {"C": pfpne.Float(0, 1)}, 30, history=file, progress=False)

    process = multiprocessing.get_context("fork").Process(target=search, args=(20,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert len(file.read_bytes().splitlines()) == 1 + 19 and not calls
    search(31)
    assert len(calls) == 11


@pytest.fixture
def heeded():
    """A process that a shell began in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)  # Python raises it here


@pytest.mark.parametrize("to_file", [True, False])
def test_ctrl_c_gives_what_was_found_and_the_search_goes_on(to_file, tmp_path, heeded):
    whole, file = whole_search("gp"), tmp_path / "history.jsonl" if to_file else None
    functions = objectives(noise=0.1)
    functions["Rome"].fails, functions["Rome"].how = 17, interrupt
    with pytest.raises(KeyboardInterrupt, match="Nothing is lost: the same call with history=error.result") as caught:
        tune(functions, 30, history=file)
    before = caught.value.result
    assert len(before.history.query("client == 'Rome'")) == 17 and set(before.deploy) == set(PEAKS)
    assert_same(before.history, whole.history[: len(before.history)])
    assert_same(tune(functions, 30, history=file or before).history, whole.history)
    assert [len(f.calls) for f in functions.values()] == [30, 30]


def test_ctrl_c_in_a_shell_says_how_to_go_on():
    """Whenever it comes, in an evaluation or between two."""
    script = (
        "import os, pfpne, signal, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "stop = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))\n"
        "def f(p):\n    stop.is_alive() or stop.start()\n    return 0.5\n"
        "pfpne.tune([f], {'C': pfpne.Float(0, 1)}, 10**6, algorithm='random', progress=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT
    assert re.search(r"KeyboardInterrupt: \(Nothing is lost: .* goes on from here", done.stderr)


def test_a_search_that_named_the_default_does_not_go_on_without_the_name(tmp_path):
    file = tmp_path / "history.jsonl"
    with pfpne.Search(["a"], SPACE, 1001, algorithm="pf-pne+", history=file) as search:
        search.tell(search.ask()[0], 0.5)
    with pytest.raises(ValueError, match="one with algorithm='pf-pne\\+' alone has none"):
        pfpne.Search(["a"], SPACE, 1001, history=file)
    with pfpne.Search(["a"], SPACE, 1001, algorithm="pf-pne+", history=file) as search:
        search.ask()
        assert search.n_read == 1


def test_another_search_does_not_go_on_from_a_file(tmp_path):
    file = tmp_path / "history.jsonl"
    algorithm = {"algorithm": "pf-pne+"}
    result = tune(objectives(), 10, history=file, **algorithm)
    for changed, message in (
        ({"n": 11}, "n_evaluations was 10, and is 11 here"),
        ({"algorithm": "pe"}, "algorithm was 'pf-pne+', and is 'pe' here"),
        ({"seed": 1}, "seed was 0"),
        ({"c": 0.2}, "settings was {}"),
        ({"reward_range": (0, 2)}, "reward was [0.0, 1.0, 'maximize']"),
        ({"n": 11, "algorithm": "gp"}, "algorithm was 'pf-pne+', and is 'gp' here"),
        (
            {"algorithm": None},
            "A call that names no algorithm takes gp up to 1,000 evaluations, and pf-pne+ beyond, with ",
        ),
        ({"known": {"Oslo": [({"C": 1.0, "n": 1}, 0.5)]}}, "0 values were known, and 1 are here, or others."),
    ):
        for before in (file, result):
            with pytest.raises(ValueError, match=re.escape(message)):
                tune(objectives(fails=0, how=fail), **{"n": 10, **algorithm, **changed}, history=before)
    for space, message in (
        ({**SPACE, "n": pfpne.Int(1, 5)}, "in the space, n was Int(low=1, high=4, log=False), and is Int(low=1"),
        ({"C": SPACE["C"]}, "in the space, n was Int(low=1, high=4, log=False), and is not there here."),
        ({"n": SPACE["n"], "C": SPACE["C"]}, "space was [['C',"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            pfpne.tune(objectives(fails=0, how=fail), space, 10, history=file, progress=False, **algorithm)
    with pytest.raises(ValueError, match=r"a file is wanted\.$"):
        tune(objectives(fails=0, how=fail), 10, history=tmp_path)
    lines = file.read_text().splitlines(keepends=True)
    for wrong in ("", "[1]\n", "\x00\xff\n", "{}\n", lines[0] + "{}\n", lines[0] + "[]\n", "no JSON"):
        (tmp_path / "wrong").write_text(wrong, encoding="latin-1")
        if wrong == "":  # a process killed before it wrote anything
            assert len(tune(objectives(), 10, history=tmp_path / "wrong", **algorithm).history) == 20
            continue
        with pytest.raises(ValueError, match="history must be a file that tune wrote, or a new one"):
            tune(objectives(fails=0, how=fail), 10, history=tmp_path / "wrong", **algorithm)
        assert (tmp_path / "wrong").read_text(encoding="latin-1") == wrong
    head, *rows = Journal(file).read()
    elsewhere = {"u": [0.1, 0.1], "parameters": pfpne.Space(SPACE).point([0.1, 0.1])}
    for changed, message in (
        ([{**head, "pfpne": "99"}, *rows], "pfpne was '99'"),
        ([{**head, "space": [1, 2, 3]}, *rows], "space was [1, 2, 3], and is"),
        ([{**head, "space": [["C", {}, 3], "n"]}, *rows], "space was [['C', {}, 3], 'n'], and is"),
        ([{**head, "known": [1, 2]}, *rows], "known was [1, 2], and is"),
        ([{**head, "clients": "a" * 10**6}, *rows], f"clients was '{299 * 'a'}, and is"),
        ([head, rows[0], {**rows[1], "u": [0.1, 0.1]}], "evaluation 2 of the history must be of {'C'"),
        ([head, rows[0], {**rows[1], "u": [0.1]}], "at a point of"),
        ([head, rows[0], {**rows[1], "client": "Bonn"}], "evaluation 2 of the history must be of one of"),
        ([head, rows[0], {**rows[1], **elsewhere}], "evaluation 1 of client Rome in the history must be at"),
        ([head, {**rows[0], "parameters": None}], "evaluation 1 of the history must be of {'C'"),
        ([head, {**rows[0], "value": -5}], "evaluation 1 of the history: a value must be a number in"),
        ([head, {**rows[0], "value": True}], "evaluation 1 of the history: a value must be a number in"),
        ([head, {**rows[0], "value": "0.5"}], "evaluation 1 of the history: a value must be a number in"),
        ([head, *rows, rows[-1]], "must be of at most 20 evaluations, which is all that this call asks for; got 21"),
        ([head, {"client": "Oslo"}], "evaluation 1 of the history must be a row of client"),
    ):
        path = tmp_path / f"{message[:40].replace('/', ' ')} {len(changed)}"
        for line in changed:
            Journal(path).read()
            journal = Journal(path)
            journal.read()
            journal.append(**{key: x for key, x in line.items() if key != "crc"})
        with pytest.raises(ValueError, match=re.escape(message)):
            tune(objectives(fails=0, how=fail), 10, history=path, **algorithm)


def test_a_damaged_digit_is_seen_and_the_error_says_what_to_do(tmp_path):
    file = tmp_path / "history.jsonl"
    tune(objectives(noise=0.1), 10, history=file)
    whole = file.read_bytes()
    for position in np.random.default_rng(0).integers(0, len(whole) - 1, 40).tolist():
        damaged = bytearray(whole)
        damaged[position] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="history must be a file that tune wrote, or .* cut it before the damage"):
            tune(objectives(fails=0, how=fail), 10, history=file)


def test_two_searches_on_one_file_are_refused_before_anything_is_paid(tmp_path):
    """In this process, in another, and by another path to the same file."""
    file, seen = tmp_path / "history.jsonl", []
    (tmp_path / "link").symlink_to(file)
    second = (
        "import pfpne, sys\n"
        "def f(p):\n    print('paid')\n    return 0.5\n"
        "pfpne.tune([f], {'C': pfpne.Float(0, 1)}, 5, history=sys.argv[1], progress=False)\n"
    )

    def other(p):
        if not seen:
            for path in (file, tmp_path / "link"):
                function = Objective(0.0)
                with pytest.raises(ValueError, match="another search is using it") as caught:
                    pfpne.tune([function], SPACE, 5, history=path, progress=False)
                seen.append((str(caught.value), function.calls))
            done = subprocess.run([sys.executable, "-c", second, str(file)], capture_output=True, text=True)
            seen.append((done.stderr, done.stdout))
        return 0.5

    result = pfpne.tune([other], {"C": pfpne.Float(0, 1)}, 5, history=file, progress=False)
    assert "another search is using it" in seen[2][0] and [len(paid) for _, paid in seen] == [0, 0, 0]
    again = pfpne.tune([fail], {"C": pfpne.Float(0, 1)}, 5, history=file, progress=False)
    assert_same(again.history, result.history)


def test_an_objective_may_change_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    function = Objective(0.0)

    def wanders(p):
        os.chdir(tmp_path / "elsewhere")
        return function(p)

    pfpne.tune([wanders], SPACE, 5, history="h.jsonl", progress=False)
    assert len(Journal(tmp_path / "h.jsonl").read()) == 6 and not list((tmp_path / "elsewhere").iterdir())


def test_a_file_that_is_changed_under_way_is_left_alone(tmp_path):
    file, function = tmp_path / "history.jsonl", Objective(0.0)

    def cuts(p):
        if len(function.calls) == 3:
            file.write_bytes(file.read_bytes()[:100])
        return function(p)

    with pytest.raises(pfpne.EvaluationError, match="was changed by somebody else") as caught:
        pfpne.tune([cuts], SPACE, 6, history=file, progress=False)
    assert file.stat().st_size == 100 and len(caught.value.result.history) == 4
    assert (caught.value.result.history["stage"] == "first points").all()  # the last one was learnt, too
    assert len(pfpne.tune([function], SPACE, 6, history=caught.value.result, progress=False).history) == 6
    assert len(function.calls) == 6


@pytest.mark.parametrize("kind", ["", ".", "folder", "pipe", "device", "socket", "loop", "long", "nul", "under a file"])
def test_what_cannot_be_a_history_is_refused_with_a_sentence(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("")
    paths = {"": "", ".": ".", "device": "/dev/null", "long": "x" * 300, "nul": "a\0b", "under a file": "file/history"}
    function = Objective(0.0)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")  # the path of a socket has to be short
        with pytest.raises(ValueError, match="^history ") as caught:
            pfpne.tune([function], SPACE, 5, history=paths.get(kind, tmp_path / kind), progress=False)
    assert not function.calls and "\n" not in str(caught.value)


def test_choices_are_the_same_objects_after_a_resume(tmp_path):
    space = {"layers": pfpne.Ordinal([(32,), (64,), (64, 64)]), "kind": pfpne.Ordinal([b"a", Path("b"), None])}
    file = tmp_path / "history.jsonl"
    for n in (5, None):
        function = Objective(0.0, fails=n, how=fail)
        loss = lambda p, f=function: f({"C": len(p["layers"])})  # noqa: E731
        if n is None:
            result = pfpne.tune([loss], space, 12, history=file, progress=False)
        else:
            with pytest.raises(pfpne.EvaluationError):
                pfpne.tune([loss], space, 12, history=file, progress=False)
    assert len(result.history) == 12 and len(function.calls) == 7
    for name, choices in (("layers", [(32,), (64,), (64, 64)]), ("kind", [b"a", Path("b"), None])):
        assert all(any(x is y or (x == y and type(x) is type(y)) for y in choices) for x in result.history[name])


@pytest.mark.parametrize(
    "choices", [[math.sin, lambda x: x], [object(), 1], [(1, (object(),)), 2], [frozenset("ab"), 1]]
)
def test_choices_that_read_otherwise_in_another_process_need_no_history(choices, tmp_path):
    function, space = Objective(0.0), {"x": pfpne.Ordinal(choices)}
    with pytest.raises(
        ValueError, match="with a history, a choice of 'x' must be one that reads the same .* give names"
    ):
        pfpne.tune([function], space, 5, history=tmp_path / "history.jsonl", progress=False)
    assert not function.calls and not list(tmp_path.iterdir())
    assert len(pfpne.tune([lambda p: 0.5], space, 5, progress=False).history) == 5


def test_an_error_that_cannot_be_told_or_is_endless_loses_nothing():
    class Mute(Exception):
        def __str__(self):
            raise TypeError

    class Endless(Exception):
        def __str__(self):
            return "x" * 10**7

    for kind in (Mute, Endless):

        def fails(p, kind=kind):
            raise kind

        with pytest.raises(pfpne.EvaluationError, match=kind.__name__) as caught:
            pfpne.tune([fails], SPACE, 5, progress=False)
        assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objectives": []}, "objectives must be functions, in a list"),
        ({"objectives": {"Oslo": 3}}, "the objective of client Oslo must be a function of a dict"),
        ({"space": {}}, "space must be a dict"),
        ({"space": {"value": pfpne.Int(0, 1)}}, "the name of a parameter must be none of client"),
        ({"n_evaluations": 0}, "n_evaluations must be an integer in 1.."),
        ({"algorithm": "hcct"}, "Did you mean 'hct'?"),
        ({"algorithm": 3}, "unknown algorithm 3"),
        ({"algorithm": "hct", "zeta": 1}, "unknown setting 'zeta'. There are: nu_1"),
        ({"algorithm": "pf-pne"}, "pf-pne needs Delta"),
        ({"Delta": 0.1, "algorithm": "hct"}, "hct: unknown setting 'Delta'"),
        ({"algorithm": "hct", "nu1": 1}, "Did you mean 'nu_1'?"),
        ({"timout": 3}, "tune has no argument 'timout'. Did you mean 'timeout'?"),
        ({"name": 1}, "unknown setting 'name'"),
        ({"task": 1}, "unknown setting 'task'"),
        ({"Delta": 0.1, "algorithm": "random"}, "random must be given no settings"),
        ({"reward_range": 1}, "reward_range must be"),
        ({"reward_range": (1, 0)}, "reward_range must be"),
        ({"direction": "max"}, "direction must be"),
        ({"noise": -1}, "noise must be"),
        ({"catch": "ValueError"}, "catch must be a class of errors"),
        ({"catch": KeyboardInterrupt}, "catch must be a class of errors"),
        ({"timeout": 0}, "timeout must be a number of seconds > 0"),
        ({"n_jobs": 0}, "n_jobs must be an integer in 1.."),
        ({"callbacks": [3]}, "callbacks must be a list of functions"),
        ({"give_up": 0}, "give_up must be an integer in 1.."),
        ({"early_stopping": 3}, "unknown setting 'early_stopping'. There are: noise_aware"),
        ({"seed": -1}, "seed must be"),
        ({"history": 3}, "history must be a path or a result"),
    ],
)
def test_what_is_wrong_in_a_call_is_said_before_anything_is_evaluated(wrong, message):
    function = Objective(0.0)
    call = {"objectives": [function], "space": SPACE, "n_evaluations": 5, "progress": False} | wrong
    with pytest.raises(ValueError) as caught:
        pfpne.tune(**call)
    assert message in str(caught.value) and not function.calls


def test_an_argument_that_a_search_does_not_have_is_named():
    for wrong, message in (
        ({"directon": "minimize"}, "Search has no argument 'directon'. Did you mean 'direction'?"),
        ({"timeout": 3}, "Search has no argument 'timeout'. It is one of tune, which calls the objectives"),
        ({"zeta": 3}, "gp: unknown setting 'zeta'. There are: noise_aware."),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            pfpne.Search(["a"], SPACE, 5, **wrong)


def test_the_progress_bar_is_shown_and_can_be_switched_off(capsys):
    pfpne.tune([Objective(0.0)], SPACE, 5)
    assert "5/5" in capsys.readouterr().err
    tune([Objective(0.0)], 5)
    assert capsys.readouterr().err == ""
