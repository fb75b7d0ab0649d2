"""Other choices than ours: each variant does what it says, nothing else; the page shows what was measured."""

import io
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pfpne
from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.fed1_ucb import Fed1UCBSettings
from pfpne.algorithms.fn_ucb import FNUCBSettings, gradients, network, train
from pfpne.algorithms.pf_pne import PFPNE, Kept, PFPNEServer, PFPNESettings, SampledNodes, compute_tau, transition_depth
from pfpne.federation import Task
from pfpne.paper.claims import evidence
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import theory_settings
from pfpne.paper.exhibits import deviations
from pfpne.paper.exhibits.deviations import OTHER_CHOICES
from pfpne.paper.exhibits.readings import WHOLE_PHASE_VARIANTS
from pfpne.paper.exhibits.variants import (
    DEVIATION_VARIANTS,
    Centred,
    Drifting,
    LastOfEqual,
    Mirrored,
    OwnBest,
    TauServer,
    Undivided,
)
from pfpne.paper.run import workers
from pfpne.partition import Partition
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.problems import problem_from_functions
from pfpne.simulation.neural import NeuralSimulation
from pfpne.simulation.simulate import simulate

UNIT = Partition([[0, 1]])
OURS = ALGORITHMS["pf-pne"]


def variant(name: str) -> Algorithm:
    return DEVIATION_VARIANTS[name][1]


def pulls(row: Algorithm, functions, T, settings) -> list[list]:
    """The (point, count) pulls of each client, with no noise."""
    federation = row.federation(Task(UNIT, len(functions), T), settings)
    made = [[] for _ in functions]
    while federation.running:
        for m, batch in federation.ask():
            x = batch.points[:, 0]
            made[m] += zip(x.tolist(), batch.counts.tolist(), strict=True)
            federation.tell(m, np.repeat(functions[m](x), batch.counts))
    return made


def final(algorithm, problem, T=2_000, **options) -> float:
    return float(simulate(algorithm, problem, T, **options).regret[:, -1].mean())


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


@pytest.mark.parametrize(
    ("row", "T", "wanted"),
    [
        (OURS, 25, FIRST + TOGETHER + DEPTH_3),
        (variant("depth one"), 24, TOGETHER + DEPTH_3),
        (variant("fresh"), 26, FIRST + TOGETHER + [(1 / 8, 1)] + DEPTH_3),  # node 1's single sample is forgotten
        (variant("whole phases"), 25, FIRST + TOGETHER + DEPTH_3),
        # 10 left where depth 4 (from 21/32 on, 11 pulls each) would begin: the best of depth 3 is played
        (variant("whole phases"), 35, [*FIRST, *TOGETHER, *DEPTH_3, (15 / 16, 10)]),
    ],
)
def test_pulls_by_hand(row, T, wanted):
    assert pulls(row, [identity], T, line(T)) == [wanted]


def test_the_best_of_the_clients_own_nodes():
    """At depth 1 the server keeps node 2; of a client's own nodes, 1 is then the only one, and cannot go."""
    kept_by_server = {0: Kept(0, [1], [0.5], [0.1]), 1: Kept(1, [2], [1.0], [0.1])}
    root, depth_1 = np.array([1]), np.array([1, 2])
    drawn = {0: SampledNodes(root, np.array([[0.5]]), 1), 1: SampledNodes(depth_1, np.array([[0.0, 1.0]]), 1)}
    for phases, stays in ((PFPNE, [3, 4]), (OwnBest, [1, 2, 3, 4])):  # 0 + 0.2 + 1/2 < 1 - 0.1
        want = next(phases(Task(UNIT, 1, 25), line(25), 1).pe(kept_by_server, drawn))
        assert (want.h, want.index.tolist()) == (2, stays)


def test_of_equal_means_the_last():
    means, first = np.array([0.5, 0.5, 0.5, 0.5, 0.7, 0.5]), np.array([0, 3])
    assert PFPNE.arg_max(means, first).tolist() == [0, 4] and LastOfEqual.arg_max(means, first).tolist() == [2, 4]
    assert LastOfEqual.arg_max(means[:3], first[:1]).tolist() == [2]


# --- against the real algorithms ----------------------------------------------------------------------


def garland(M=3, noise=0.1, **more):
    return pfpne.make_problem("garland", n_clients=M, noise=noise, **more)


def test_variants_whose_difference_cannot_matter():
    assert final(variant("last"), garland()) == pytest.approx(final("pf-pne", garland()), rel=1e-12)  # no ties
    for name, base in (("tau", "pf-pne"), ("tau, fed-pne", "fed-pne")):  # one client: ceil(tau_h / 1) = tau_h
        assert final(variant(name), garland(M=1)) == pytest.approx(final(base, garland(M=1)), rel=1e-12)
    flat = [lambda x: np.full(len(x), 0.5)] * 2  # nothing is eliminated
    ours = pulls(OURS, flat, 200, PFPNESettings(Delta=0.3))
    for name in ("fresh", "own best"):
        assert pulls(variant(name), flat, 200, PFPNESettings(Delta=0.3)) == ours


def test_b_of_tau_samples_is_wider():
    task, settings = Task(UNIT, 20, 100_000), PFPNESettings()
    b = [server(task, settings).conclude(np.zeros((20, 1))).half_widths[0] for server in (PFPNEServer, TauServer)]
    # one sample, of which each of 20 clients drew one
    assert compute_tau(0, settings.log_term_for(100_000, 20), 0.1, 1.0, 0.5) == 1
    assert b[1] == pytest.approx(b[0] * math.sqrt(20))


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
        assert final(algorithm, rising, 1, partition=kind([[0, 1]])) == pytest.approx(1 - first)
    falling = problem_from_functions([lambda x: 1 - x[:, 0]], [[0, 1]], noise=0)  # the same, seen from the other end
    mirrored = final(algorithm, rising, 500, partition=Mirrored([[0, 1]]))
    assert mirrored == pytest.approx(final(algorithm, falling, 500), rel=1e-12)


def test_fed1_ucb_with_arms_in_order():
    settings, task = Fed1UCBSettings(), Task(Partition([[0, 1], [0, 1]]), 2, 100)
    ours, other = (
        row.make_server_and_clients(task, settings)[1] for row in (ALGORITHMS["fed1-ucb"], variant("increasing"))
    )
    arms = [tuple(arm) for arm in other[0].arms.tolist()]
    assert arms == sorted(map(tuple, ours[0].arms.tolist())) != ours[0].arms.tolist()
    assert all(np.array_equal(client.arms, other[0].arms) for client in other)


def neural(kind: type, T: int, settings=FNUCBSettings()):  # noqa: B008
    """FN-UCB on himmelblau with other inputs, before the first step; and its arms on [0, 1]^2."""
    problem = pfpne.make_problem("himmelblau", 2, noise=0)
    task = Task(Partition(problem.domain), 2, T)
    run = kind(problem, task, settings, [])
    return run, (run.arms.points - problem.domain[:, 0]) / (problem.domain[:, 1] - problem.domain[:, 0])


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        (NeuralSimulation, lambda unit: unit / math.sqrt(2)),
        (Centred, lambda unit: (2 * unit - 1) / math.sqrt(2)),
        (Undivided, lambda unit: unit),
    ],
)
def test_inputs_of_fn_ucb(kind, inputs):
    run, unit = neural(kind, 20)
    np.testing.assert_allclose(run.arms.inputs, np.append(inputs(unit), np.ones((len(unit), 1)), axis=1).T, atol=1e-12)
    g = gradients(run.arms.theta_0, run.arms.inputs, 20)
    for ridge in (run.pooled, run.one_client_model):
        assert np.array_equal(ridge.g, g) and np.allclose(ridge.variance, (g * g).sum(axis=1) / 0.1)
    assert run.play(20).shape == (2, 20)


def test_a_network_that_is_never_trained_does_not_drift():
    settings = FNUCBSettings(nu=2.0, nu_2=1.0, lambda_=0.3, start=3, stop=3, ramp=40)
    runs = [neural(kind, 30, settings)[0].play(30) for kind in (Drifting, NeuralSimulation)]
    np.testing.assert_array_equal(*runs)
    assert len(np.unique(runs[0])) > 3


@pytest.mark.parametrize(("seed", "M"), [(6, 3), (0, 4)])
def test_a_drifting_network_play_by_play(seed, M):
    """Against lists of all (g, reward) of each client, and matrices made of them anew at every step."""
    s = FNUCBSettings(nu=0.3, nu_2=0.9, lambda_=0.3, width=8, start=3, ramp=4, stop=6, steps=5, rate=0.05)
    functions = [lambda x, m=m: (m % 2) * (0.6 + 0.3 * np.sin(3 * x @ [1, 2] + m)) for m in range(M)]
    problem, T = problem_from_functions(functions, [[0, 1], [-1, 2]], noise=0), 25
    run = Drifting(problem, Task(Partition(problem.domain), M, T, seed=seed), s, [])
    inputs, theta, values = run.arms.inputs, run.arms.theta_0.copy(), problem.values(run.arms.points)
    value, prior = network(theta, inputs, s.width)[0], s.lambda_ * np.eye(len(theta))
    data, learned, plays = [[] for _ in range(M)], [[] for _ in range(M)], []
    for t in range(T):
        g, alpha = gradients(theta, inputs, s.width), s.alpha(t)
        inverses = [np.linalg.inv(prior + sum(np.outer(x, x) for x, _ in own)) for own in data]
        common = np.mean([np.einsum("kp,pq,kq->k", g, inverse, g) for inverse in inverses], axis=0)
        plays.append([])
        for m in range(M):
            known = data[m] if t < 2 else [pair for own in data for pair in own]
            inverse = np.linalg.inv(prior + sum(np.outer(x, x) for x, _ in known))
            mean = g @ inverse @ sum((r * x for x, r in known), np.zeros(len(theta)))
            variance = np.einsum("kp,pq,kq->k", g, inverse, g)
            bounds = (1 - alpha) * (mean + s.nu * np.sqrt(s.lambda_ * variance))
            bounds += alpha * (value + s.nu_2 * np.sqrt(s.lambda_ * common))
            plays[t].append(int(np.argmax(bounds)))
        for m, arm in enumerate(plays[t]):
            data[m].append((g[arm], values[m, arm]))
            if t >= s.start:
                learned[m].append((arm, values[m, arm]))
        if s.start <= t < s.stop:
            for own in learned:  # one network, trained by one client after the other
                counts = np.bincount([arm for arm, _ in own], minlength=len(value))
                totals = np.bincount([arm for arm, _ in own], [r for _, r in own], minlength=len(value))
                train(theta[None], inputs, counts, totals[None], s)
            value = network(theta, inputs, s.width)[0]
    assert len(set(plays[1])) > 1 and len({arm for row in plays[2:] for arm in row}) > 3
    assert run.play(T).T.tolist() == plays


def test_fn_ucb_diverges_on_raw_coordinates():
    class Raw(Centred):
        @staticmethod
        def scaled(inputs):
            return 10 * np.sqrt(2) * inputs - 5

    with pytest.raises(FloatingPointError, match="diverged"):
        neural(Raw, 2_000)[0].play(2_000)


# --- the table, and the page ----------------------------------------------------------------------------


def test_the_choices_that_are_settings():
    assert transition_depth(0.01, 1.0, 0.5) == 7
    first = [choice.settings for choice in OTHER_CHOICES if choice.deviation == 1]
    assert [transition_depth(given.get("Delta", 0.01), 1.0, 0.5) for given in first] == [6, math.inf, 7]
    last = OTHER_CHOICES[-1].settings
    assert callable(last) and last(8) == {"delta": 1 / 8}
    assert [r.settings(8)["c_1"] for r in OTHER_CHOICES if r.deviation == 8] == pytest.approx([128 ** (1 / 8)] * 2)
    assert theory_settings(20)["c_1"] == pytest.approx(800 ** (1 / 8))


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    return Study(2, 60, 4, 2, (), n_jobs=1, folder=tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def table(study) -> pd.DataFrame:
    return deviations.measure_deviations(study)


def test_every_choice_is_measured(table):
    assert list(table.columns) == list(deviations.DEVIATION_COLUMNS)
    assert len(table) == sum(len(choice.objectives) for choice in OTHER_CHOICES)
    assert (table["runs"] == 2).all() and (table["ratio"] > 0).all()
    assert ((table["low"] <= table["ratio"] + 1e-12) & (table["ratio"] <= table["high"] + 1e-12)).all()


def test_the_table_is_shown_and_kept(study, table):
    exhibit = deviations.tabulate(study)
    assert "2 paired runs" in exhibit.caption
    kept = pd.read_csv(io.BytesIO(exhibit.files["deviations.csv"]))
    assert kept["ratio"].tolist() == pytest.approx(table["ratio"].tolist(), rel=1e-5)


def test_another_maximum_is_added_step_by_step(study, table):
    experiment = study.experiment("garland", "pf-pne", "bernoulli", 2)
    ours = study.summaries("garland", "pf-pne", "bernoulli", 2)["regret"].to_numpy()
    more = [60 * (1 - experiment.problem(run).optimum).mean() for run in range(2)]
    row = table[table["deviation"] == 14].iloc[0]
    assert row["ratio"] == pytest.approx((ours + more).mean() / ours.mean())
    assert (deviations.maximum_on_grid(experiment.problem(0)) <= experiment.problem(0).optimum).all()


def test_another_choice_is_compared_with_ours_under_the_noise_of_both(monkeypatch):
    choice = deviations.OtherChoice(26, "fed1-ucb", "x", noise=2.0, settings={"sigma": 0.5}, objectives=("garland",))
    monkeypatch.setattr(deviations, "OTHER_CHOICES", (choice,))

    def summaries(objective, name, noise, n_runs, settings=None, **cells):
        return pd.DataFrame({"regret": np.array([1.0, 2.0]) * (1 if noise != 2.0 else 6 if settings else 3)})

    study = SimpleNamespace(figure_runs=2, n_clients=3, seed=0, summaries=summaries)
    assert deviations.measure_deviations(study)["ratio"].tolist() == [2.0]


def test_another_maximum_may_be_another_one_for_each_client():
    choice = deviations.OtherChoice(14, "pf-pne", "x", maximum=lambda problem: np.array([1.0, 0.5]))
    problem = SimpleNamespace(optimum=np.array([0.8, 0.4]))
    study = SimpleNamespace(
        figure_runs=2,
        n_clients=2,
        horizon=100,
        summaries=lambda *_, **__: pd.DataFrame({"regret": [3.0, 4.0]}),
        experiment=lambda *_: SimpleNamespace(problem=lambda run: problem),
    )
    assert choice.regret(study, "garland") == pytest.approx([18.0, 19.0])  # 100 times the mean of 0.2 and 0.1 more


def test_the_grid_has_1001_points_with_both_ends():
    peaks = 0.0, 0.3, 0.3005, 1.0  # the third is in the middle between two points
    problem = problem_from_functions([lambda x, peak=peak: 1 - np.abs(x[:, 0] - peak) for peak in peaks], [[0.0, 1.0]])
    assert deviations.maximum_on_grid(problem) == pytest.approx([1, 1, 1 - 0.0005, 1])


def test_measuring_again_reads_what_was_kept(study, table, monkeypatch):
    names = sorted(path.name for path in (study.folder / "summaries").iterdir())
    monkeypatch.setattr(evidence, "run_in_order", None)  # nothing is to be played
    pd.testing.assert_frame_equal(deviations.measure_deviations(study), table)
    assert sorted(path.name for path in (study.folder / "summaries").iterdir()) == names


def test_the_order_in_which_runs_end_changes_nothing(study, monkeypatch, tmp_path):
    finished = workers.run_unordered
    choice = next(choice for choice in OTHER_CHOICES if choice.variant == "fresh")
    monkeypatch.setattr(workers, "run_unordered", lambda *job: reversed(list(finished(*job))))
    other = replace(study, folder=tmp_path)
    assert choice.regret(other, "garland").tolist() == choice.regret(study, "garland").tolist()


def test_every_variant_is_used_and_every_number_is_on_the_page():
    used = {choice.variant: choice.algorithm for choice in OTHER_CHOICES if choice.variant}
    used |= {variant: name for name, variant in WHOLE_PHASE_VARIANTS.items()}
    assert used == {name: base for name, (base, *_) in DEVIATION_VARIANTS.items()}
    page = (CHECKOUT / "docs" / "deviations.md").read_text(encoding="utf-8")
    for choice in OTHER_CHOICES:
        row = next(line for line in page.splitlines() if line.startswith(f"| {choice.deviation} |"))
        assert row.rsplit("|", 2)[1].strip().startswith("yes")
