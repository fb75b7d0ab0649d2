"""The other readings of the paper: each variant does what it says, nothing else; the page shows what was measured."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pfpne
from pfpne.paper import deviations
from pfpne.algorithms.pf_pne import tau, transition_depth
from pfpne.paper.deviations import (
    READINGS,
    VARIANTS,
    DepthOneClient,
    DepthOneServer,
    FreshClient,
    LastClient,
    LastElimination,
    Mirrored,
    OwnBestClient,
    TauFedPNEServer,
    TauServer,
    VariedClient,
    WholePhasesClient,
    play_mirrored,
    play_phased,
)
from pfpne.paper.evidence import Evidence
from pfpne.federation import Federation, Task
from pfpne.problems import problem_from_functions
from pfpne.partition import Partition
from pfpne.paths import ROOT
from pfpne.algorithms.pf_pne import (
    Elimination,
    FedPNEClient,
    Kept,
    NodeMeans,
    PFPNEClient,
    PFPNESettings,
    PhasedServer,
    PhasedSettings,
)
from pfpne.simulation.simulate import simulate

UNIT = Partition([[0, 1]])


def pulls(server, client, functions, T, settings, partition=UNIT) -> list[list]:
    """The (point, count) pulls of each client, with no noise."""
    task = Task(partition, len(functions), T)
    clients = [client(task, settings) for _ in functions]
    federation = Federation(server(task, settings), clients, up=(NodeMeans,), down=(Kept,))
    made = [[] for _ in functions]
    while federation.running:
        for m, batch in federation.ask():
            x = batch.points[:, 0]
            made[m] += zip(x.tolist(), batch.counts.tolist(), strict=True)
            federation.tell(m, np.repeat(functions[m](x), batch.counts))
    return made


# --- one client, no noise: f(x) = x on [0, 1], worked out in test_pf_pne.py ---------------------------
# log(c_1 T / delta) = 1, tau_h = 1, 1, 1, 3, 11. With H_0 = 2 the first phases are the server's: depth 0, one node;
# depth 1, both stay; depth 2, node 1 (at 1/8) goes. Then PE from the root: at depth 2 the client has what it wants of
# node 1. Mean 1/8 + b 0.2 + 1/4 < 7/8 - 0.2: node 1 goes for good. Depth 3: nodes 3..8, 3 pulls each: 25 pulls in all.


def line(T: int) -> PFPNESettings:
    return PFPNESettings(c=0.2, c_1=math.e / T, delta=1.0, Delta=0.3)


def identity(x):
    return x


FIRST = [(1 / 2, 1)]
TOGETHER = [(1 / 4, 1), (3 / 4, 1), (1 / 8, 1), (3 / 8, 1), (5 / 8, 1), (7 / 8, 1)]
DEPTH_3 = [(i / 16, 3) for i in (5, 7, 9, 11, 13, 15)]


def test_ours_and_the_start_at_depth_one():
    assert pulls(PhasedServer, PFPNEClient, [identity], 25, line(25)) == [FIRST + TOGETHER + DEPTH_3]
    assert pulls(DepthOneServer, DepthOneClient, [identity], 24, line(24)) == [TOGETHER + DEPTH_3]


def test_new_samples_of_what_the_server_eliminated():
    expected = [FIRST + TOGETHER + [(1 / 8, 1)] + DEPTH_3]  # one more of node 1, its single sample forgotten
    assert pulls(PhasedServer, FreshClient, [identity], 26, line(26)) == expected


def test_no_phase_is_begun_that_the_horizon_cuts():
    assert pulls(PhasedServer, WholePhasesClient, [identity], 25, line(25)) == [FIRST + TOGETHER + DEPTH_3]
    # 10 left where depth 4 (from 21/32 on, 11 pulls each) would begin: the best of depth 3 is played
    assert pulls(PhasedServer, WholePhasesClient, [identity], 35, line(35)) == [
        [*FIRST, *TOGETHER, *DEPTH_3, (15 / 16, 10)]
    ]


def test_the_best_of_the_clients_own_nodes():
    """At depth 1 the server keeps node 2; of a client's own nodes, 1 is then the only one, and cannot go."""
    task, settings = Task(UNIT, 1, 25), line(25)
    b = np.array([0.1])
    shared = {0: (np.array([1]), np.array([0.5]), b), 1: (np.array([2]), np.array([1.0]), b)}
    own = {0: (np.array([1]), np.array([[0.5]]), 1), 1: (np.array([1, 2]), np.array([[0.0, 1.0]]), 1)}

    def stays(client):
        client = client(task, settings)
        client._run_pe(shared, own)
        return client._local.h, client._local.index.tolist()

    assert stays(VariedClient) == (2, [3, 4])  # 0 + 0.2 + 1/2 < 1 - 0.1
    assert stays(OwnBestClient) == (2, [1, 2, 3, 4])


def test_of_equal_means_the_last():
    """Two own nodes alike, a protected one between, of the same mean and another half-width, on two clients."""
    settings, depth_2 = line(25), np.array([1, 2, 3])

    def outcome(kind, middle):
        local = kind(Task(UNIT, 2, 25), settings, 2, {2: (np.array([2]), np.array([middle]), np.array([0.4]))}, {})
        local.own = {2: (depth_2, np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.9]]), 1)}
        local.h, local.owner, local.index = 2, np.repeat([0, 1], 3), np.tile(depth_2, 2)
        local.lacking()
        h, owners, best = local.eliminate()
        of = {m: local.index[local.owner == m].tolist() for m in (0, 1)}
        return dict(zip(owners.tolist(), best.tolist(), strict=True)), of, local.owner.tolist()

    ours, last = outcome(Elimination, 0.5), outcome(LastElimination, 0.5)
    assert ours[0] == {0: 1, 1: 3} and last[0] == {0: 3, 1: 3}
    assert ours[1:] == last[1:]
    assert outcome(Elimination, 0.7)[0] == outcome(LastElimination, 0.7)[0] == {0: 2, 1: 3}


# --- against the real algorithms ----------------------------------------------------------------------


def garland(M=3, noise=0.1, **more):
    return pfpne.make_problem("garland", n_clients=M, noise=noise, **more)


@pytest.mark.parametrize("noise", [0.1, "bernoulli"])
@pytest.mark.parametrize("objective", ["garland", "rastrigin"])
def test_the_real_objects_give_the_real_regret(objective, noise):
    problem = pfpne.make_problem(objective, n_clients=3, noise=noise)
    for client in (PFPNEClient, VariedClient):
        played = play_phased(problem, 2_000, PhasedServer, client, PFPNESettings())
        assert played == pytest.approx(simulate("pf-pne", problem, 2_000).regret[:, -1].mean(), rel=1e-12)


def test_variants_whose_difference_cannot_matter():
    same = garland(), 2_000
    ours = simulate("pf-pne", *same).regret[:, -1].mean()
    assert play_phased(*same, PhasedServer, LastClient, PFPNESettings()) == pytest.approx(ours, rel=1e-12)  # no ties
    alone = garland(M=1), 2_000  # ceil(tau_h / 1) = tau_h
    for name, server, client, settings in (
        ("pf-pne", TauServer, PFPNEClient, PFPNESettings()),
        ("fed-pne", TauFedPNEServer, FedPNEClient, PhasedSettings()),
    ):
        ours = simulate(name, *alone).regret[:, -1].mean()
        assert play_phased(*alone, server, client, settings) == pytest.approx(ours, rel=1e-12)
    flat = [lambda x: np.full(len(x), 0.5)] * 2  # nothing is eliminated
    ours = pulls(PhasedServer, PFPNEClient, flat, 200, PFPNESettings(Delta=0.3))
    for client in (FreshClient, OwnBestClient):
        assert pulls(PhasedServer, client, flat, 200, PFPNESettings(Delta=0.3)) == ours


def test_b_of_tau_samples_is_wider():
    task, settings = Task(UNIT, 20, 100_000), PFPNESettings()
    b = {}
    for server in (PhasedServer, TauServer):
        b[server] = server(task, settings).conclude(np.zeros((20, 1))).bounds[0]
    assert tau(0, settings.log_term(task), 0.1, 1.0, 0.5) == 1  # of which each of 20 clients drew one
    assert b[TauServer] == pytest.approx(b[PhasedServer] * math.sqrt(20))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_mirrored_cells_are_the_same_cells(d):
    plain, mirrored = (kind([[0.0, 1.0]] * d) for kind in (Partition, Mirrored))
    for h in range(5):
        i = np.arange(1, 2**h + 1)
        np.testing.assert_array_equal(mirrored.centers(h, i), plain.centers(h, i)[::-1])
        np.testing.assert_array_equal(mirrored.box(h, i), plain.box(h, i)[::-1])
    for i in range(1, 9):  # a child's box lies in its parent's
        parent, children = mirrored.box(3, i), mirrored.box(4, mirrored.children(i))
        assert (children[..., 0] >= parent[..., 0]).all() and (children[..., 1] <= parent[..., 1]).all()


@pytest.mark.parametrize("algorithm", ["hct", "hct-pyxab"])
def test_the_first_child_wins_a_tie(algorithm):
    rising = problem_from_functions([lambda x: x[:, 0]], [[0, 1]], noise=0)
    for kind, first in ((Partition, 3 / 4), (Mirrored, 1 / 4)):
        regret = simulate(algorithm, rising, 1, partition=kind([[0, 1]])).regret
        assert regret[0, 0] == pytest.approx(1 - first)
    falling = problem_from_functions([lambda x: 1 - x[:, 0]], [[0, 1]], noise=0)  # the same, seen from the other end
    ours = simulate(algorithm, falling, 500).regret[:, -1].mean()
    assert play_mirrored(rising, 500, algorithm) == pytest.approx(ours, rel=1e-12)


# --- the table, and the page ----------------------------------------------------------------------------


def test_the_readings_that_are_settings():
    assert transition_depth(0.01, 1.0, 0.5) == 7 and transition_depth(2.0**-6, 1.0, 0.5) == 6
    assert deviations.THEORY["c_1"](20) == pytest.approx(800 ** (1 / 8))
    problem = garland(M=4, noise="bernoulli")
    bare = play_phased(problem, 2_000, PhasedServer, PFPNEClient, PFPNESettings(Delta=0.0))
    assert bare == pytest.approx(simulate("pf-pne", problem, 2_000, Delta=0.0).regret[:, -1].mean(), rel=1e-12)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> Evidence:
    return Evidence(2, 60, 4, 2, (), n_jobs=1, folder=tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def table(evidence) -> pd.DataFrame:
    return deviations.measure(evidence)


def test_every_reading_is_measured(table):
    assert list(table.columns) == list(deviations.COLUMNS)
    assert len(table) == sum(len(reading.objectives) for reading in READINGS)
    assert (table["runs"] == 2).all() and (table["ratio"] > 0).all()
    assert ((table["low"] <= table["ratio"] + 1e-12) & (table["ratio"] <= table["high"] + 1e-12)).all()


def test_another_maximum_is_added_step_by_step(evidence, table):
    experiment = evidence.experiment("garland", ("pf-pne",), "bernoulli", 2)
    ours = evidence.regret("garland", "pf-pne", "bernoulli", 2)
    more = [60 * (1 - experiment.problem(run).optimum).mean() for run in range(2)]
    row = table[table["deviation"] == 14].iloc[0]
    assert row["ratio"] == pytest.approx((ours + more).mean() / ours.mean())
    assert (deviations.of_a_grid(experiment.problem(0)) <= experiment.problem(0).optimum).all()


def test_measuring_again_reads_what_was_kept(evidence, table, monkeypatch):
    names = sorted(path.name for path in (evidence.folder / "summaries").iterdir())
    monkeypatch.setattr(deviations, "_play_run", None)
    pd.testing.assert_frame_equal(deviations.measure(evidence), table)
    assert sorted(path.name for path in (evidence.folder / "summaries").iterdir()) == names


def test_a_damaged_file_is_played_again(evidence, table):
    for path in (evidence.folder / "summaries").iterdir():
        path.write_bytes(path.read_bytes()[:-5])
    pd.testing.assert_frame_equal(deviations.measure(evidence), table)


def test_the_number_of_workers_changes_nothing(evidence, table, monkeypatch, tmp_path):
    monkeypatch.setattr(deviations, "SMALL", 0)
    monkeypatch.setenv("PFPNE_TERMINAL", "")
    other = replace(evidence, n_jobs=2, folder=tmp_path)
    ours = deviations.varied("fresh")(evidence, "garland")
    assert deviations.varied("fresh")(other, "garland").tolist() == ours.tolist()


def test_every_variant_is_used_and_every_number_is_on_the_page():
    page = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    source = (ROOT / "pfpne" / "deviations.py").read_text(encoding="utf-8")
    assert all(f'varied("{name}")' in source for name in VARIANTS)
    for reading in READINGS:
        row = next(line for line in page.splitlines() if line.startswith(f"| {reading.deviation} |"))
        assert row.rsplit("|", 2)[1].strip().startswith("yes")
