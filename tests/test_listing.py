"""PF-PNE, Fed-PNE, PE and Fed1-UCB against a second writing of their listings: pull by pull, message by message."""

import math

import listing
import numpy as np
import pytest

import pfpne
from pfpne.algorithms import ALGORITHMS
from pfpne.federation import Federation, Task
from pfpne.rng import stream

HORIZONS = (1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 400, 511, 512, 513, 1000)
DRAWN = ("pf-pne", "pf-pne", "fed-pne", "pe", "fed1-ucb")  # the paper's own twice as often


class Peaks:
    """f_m(x) = top_m (1 - the mean distance from its peak, in widths, to a power): clients differ in all."""

    def __init__(self, rng, M: int, d: int, alike: float):
        self.domain = np.stack([low := rng.uniform(-3, 1, d), low + rng.uniform(0.5, 4, d)], axis=1)
        common = rng.random(d)
        self.peaks = [np.clip(common + alike * rng.normal(size=d), 0, 1) for _ in range(M)]
        self.tops = rng.uniform(0.5, 1, M) if rng.random() < 0.7 else np.ones(M)
        self.power = rng.choice([0.5, 1.5, 2.0])  # not 1: plateaus of the mean, where rounding would decide

    def values(self, m: int, x) -> np.ndarray:
        low, high = self.domain.T
        far = np.abs((x - low) / (high - low) - self.peaks[m]).mean(axis=1)
        return self.tops[m] * (1 - far**self.power)

    def problem(self, noise, seed: int, run: int):
        functions = [lambda x, m=m: self.values(m, x) for m in range(len(self.tops))]
        optima = {"optimum": self.tops, "global_optimum": self.tops.mean()}
        return pfpne.problem_from_functions(functions, self.domain, noise, seed=seed, run=run, **optima)


class Case:
    """One random setting, with the algorithm's own settings and what the listing makes of it."""

    def __init__(self, number: int):
        rng = np.random.default_rng(number)
        self.name, self.noise = DRAWN[number % len(DRAWN)], ["bernoulli", 0.1, 2.0, 0][rng.integers(4)]
        M, T, d, k = (
            int(rng.integers(1, 7)),
            int(rng.choice(HORIZONS)),
            int(rng.integers(1, 4)),
            int(rng.integers(2, 4)),
        )
        if self.name == "fed1-ucb":
            T, d = int(rng.choice([1, 2, 400, 511, 512, 513, 2000])), 1
        max_depth = int(rng.choice([0, 2, 3, 6, 20], p=[0.05, 0.1, 0.15, 0.2, 0.5]))
        self.peaks = Peaks(rng, M, d, rng.choice([0, 0.02, 0.3]))
        self.problem = self.peaks.problem(self.noise, seed := int(rng.integers(5)), run := int(rng.integers(5)))
        cells, drawn = ["random", "cyclic"][rng.integers(2)], int(rng.integers(2**62))
        self.partition = pfpne.Partition(self.problem.domain, k, max_depth, cells, drawn)
        self.draws = [stream(seed, "custom", run, m, "noise").random(T) for m in range(M)]
        self.centres, self.means = {}, {}
        self.world = listing.World(M, T, k, max_depth, self.centre, self.reward)
        self.task = Task(self.partition, M, T, self.noise, seed=seed, key=("custom", run))
        if self.name == "fed1-ucb":
            sigma = float(rng.choice([0.01, 0.1, 0.3])) if rng.random() < 0.7 else None
            self.settings = {"c_pulls": float(rng.choice([0.2, 0.5, 1.0, 3.0])), "sigma": sigma}
            if sigma is None:
                sigma = 0.5 if self.noise == "bernoulli" else self.noise / math.sqrt(3)
            streams = (stream(seed, "custom", run, key) for key in ("arms", "arms-order"))
            arms = listing.draw_arms(self.problem.domain, *streams)
            self.run = lambda: listing.fed1_ucb(self.world, arms, self.settings["c_pulls"], sigma)
            return
        delta = [None, 0.01, 0.5][rng.integers(3)]
        values = (rng.choice([0.2, 1.0]), rng.choice([0.4, 0.5, 0.7]), rng.choice([0.02, 0.1, 0.3]))
        constants = dict(zip(("nu_1", "rho", "c"), map(float, values), strict=True))
        constants |= {"c_1": float(rng.choice([1e-4, 1.0, 1.0, 3.0])), "delta": delta}
        self.settings, given = constants, listing.Constants(**constants | {"delta": 1 / M if delta is None else delta})
        if self.name == "pf-pne":
            Delta = [0.0, "true", 1e9, 0.01, 0.1, 0.3][rng.integers(6)]
            self.settings = constants | {"Delta": Delta}
            true = float(np.abs(self.peaks.tops.mean() - self.peaks.tops).max())
            self.Delta = (true if true > 1e-9 else 0.0) if Delta == "true" else Delta
            self.run = lambda: listing.pf_pne(self.world, given, self.Delta)
        else:
            self.run = lambda: {"pe": listing.pe, "fed-pne": listing.fed_pne}[self.name](self.world, given)

    def __repr__(self):
        return f"{self.name} {self.settings}, noise {self.noise}, {self.world[:4]}, {self.partition.cells} cells"

    def centre(self, node) -> tuple:
        if node not in self.centres:
            self.centres[node] = tuple(self.partition.centers(*node)[0].tolist())
        return self.centres[node]

    def reward(self, m: int, step: int, point: tuple) -> float:
        if (m, point) not in self.means:
            self.means[m, point] = self.peaks.values(m, np.array([point]))[0]
        mean, u = self.means[m, point], self.draws[m][step]
        return float(u < mean) if self.noise == "bernoulli" else mean + self.noise * (2 * u - 1)


@pytest.fixture(scope="module")
def cases() -> list:
    made = [Case(number) for number in range(200)]
    return [(case, *case.run()) for case in made]


def test_the_settings_reach_every_corner(cases):
    names = {name for name in DRAWN if any(mail and case.name == name for case, _, mail in cases)}
    assert names == {"pf-pne", "fed-pne", "fed1-ucb"}
    drawn = {(case.world.k, case.partition.cells, case.noise) for case, _, _ in cases}
    assert len(drawn) == 16 and {case.world.M for case, _, _ in cases} == set(range(1, 7))
    own = [case for case, _, _ in cases if case.name == "pf-pne"]
    assert {0.0, "true", 1e9} < {case.settings["Delta"] for case in own}
    spared = sum(len(mail) > 0 and mail[-1][0] < case.world.T / 2 for case, _, mail in cases if case.name == "pf-pne")
    assert spared > 20  # with as much to do alone as together


def test_the_objects_pull_send_and_deploy_as_the_listings_do(cases):
    for case, clients, mail in cases:
        algorithm, settings = ALGORITHMS[case.name], dict(case.settings)
        if case.name == "pf-pne":
            settings["Delta"] = case.Delta
        made = algorithm.make_server_and_clients(case.task, algorithm.settings(**settings))
        federation, seen = Federation(*made, algorithm.up_kinds, algorithm.down_kinds), []
        federation.on_mail = lambda t, up, down, seen=seen: seen.append((t, up, down))
        pulls = [[] for _ in clients]
        while federation.running:
            for m, batch in federation.ask():
                points = [tuple(point) for point in np.repeat(batch.points, batch.counts, axis=0).tolist()]
                rewards = [case.reward(m, len(pulls[m]) + n, point) for n, point in enumerate(points)]
                pulls[m] += points
                federation.tell(m, rewards)
        for m, client in enumerate(clients):
            same = pulls[m] == client.pulls  # apart, as pytest would show in what thousands of pulls differ
            assert same, case
            assert tuple(federation.clients[m].best().tolist()) == client.deployed[-1][1], case
        assert len(seen) == len(mail)
        for (t, up, down), (wanted_t, header, means, broadcast) in zip(seen, mail, strict=True):
            assert t == wanted_t and [m for m, _ in up] == [m for m, _ in down] == list(range(case.world.M))
            for (_, message), wanted in zip(up, means, strict=True):
                assert message.header == header
                np.testing.assert_allclose(message.means, wanted, rtol=1e-12, atol=1e-14)
            for _, message in down:
                assert message.header == header
                for array, wanted in zip(message.values, broadcast, strict=True):
                    np.testing.assert_allclose(array, wanted, rtol=1e-12, atol=1e-14)


def test_a_simulation_measures_what_the_listings_do(cases):
    for case, clients, mail in cases:
        settings, T = {**case.settings, "partition": case.partition, "global_regret": True}, case.world.T
        run = pfpne.simulate(case.name, case.problem, T, **settings)
        tops, C = case.peaks.tops, min(T, 500)
        t = sorted({-(-k * T // C) for k in range(1, C + 1)})
        assert run.t.tolist() == t, case
        for m, client in enumerate(clients):
            points, at = np.array(client.pulls), np.array(t) - 1
            every = np.array([case.peaks.values(i, points) for i in range(len(tops))])
            wanted = np.cumsum(tops[m] - every[m])[at], np.cumsum(tops.mean() - every.mean(axis=0))[at]
            np.testing.assert_allclose(run.regret[m], wanted[0], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(run.global_regret[m], wanted[1], rtol=1e-9, atol=1e-9)
            deployed = dict(client.deployed)  # of several at one step, the last
            steps = sorted(deployed)
            now = [deployed[steps[np.searchsorted(steps, s, side="right") - 1]] for s in t]
            simple = tops[m] - case.peaks.values(m, np.array(now))
            np.testing.assert_allclose(run.simple_regret[m], simple, atol=1e-12)
            assert tuple(run.best[m].tolist()) == now[-1]
        M = case.world.M
        sizes = [(sum(map(len, up)), M * sum(map(len, down))) for _, _, up, down in mail]
        assert run.rounds.tolist() == [[t, *size] for (t, *_), size in zip(mail, sizes, strict=True)]
