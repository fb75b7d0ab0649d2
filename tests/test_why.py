"""Runs that are watched, and what is counted of them, depth by depth."""

from dataclasses import replace

import numpy as np
import pytest

from pfpne.algorithms.pf_pne import tau
from pfpne.paper.claims.watch import levels, watch
from pfpne.paper.exhibits import why
from pfpne.paper.run.parameters import complete
from pfpne.problems import make_problem
from pfpne.simulation.simulate import partition_of, simulate

T = 3_000


def problem_and_cells(name="himmelblau", noise=0.5):
    problem = make_problem(name, 3, 0.1, noise)
    return problem, partition_of(problem, "random", 0, 0)


@pytest.mark.parametrize("name", why.PHASED)
def test_to_watch_changes_nothing(name):
    problem, cells = problem_and_cells()
    seen = watch(name, problem, T, partition=cells)
    np.testing.assert_array_equal(seen.run.regret, simulate(name, problem, T).regret)
    assert all(sum(n for n, _ in client.pulled.values()) == T for client in seen.clients)
    for h, index in enumerate(levels(cells, seen.shared)):
        assert h not in seen.means or seen.means[h].shape == (3, len(index))


@pytest.mark.parametrize("name", why.SHOWN)
def test_shares(name):
    problem, cells = problem_and_cells("garland", "bernoulli")
    of = why.depths_of_phases if name in why.PHASED else why.depths_of_trees
    rows = of(name, problem, T, cells)
    assert [row["depth"] for row in rows] == list(range(len(rows))) and set(rows[0]) == set(why.COLUMNS)
    assert sum(row["spent"] for row in rows) == pytest.approx(1)
    for column in ("removed", "own", "global", "borrowed", "missed", "spent", "cut"):
        values = np.array([row[column] for row in rows], dtype=float)
        assert np.nanmin(np.append(values, 0)) >= 0 and np.nanmax(np.append(values, 0)) <= 1
    removed = np.array([row["removed"] for row in rows], dtype=float)
    assert (np.diff(removed[~np.isnan(removed)]) >= 0).all()  # what is gone stays gone
    assert name == "pf-pne+" or rows[-1]["cut"] > 0


def test_without_noise_every_interval_covers_and_pe_pulls_what_it_keeps():
    problem, cells = problem_and_cells("garland", 0)
    rows = why.depths_of_phases("pe", problem, T, cells)
    seen = watch("pe", problem, T, partition=cells)
    s, log = seen.server.settings, seen.server.settings.log_term(seen.server.task)
    for h, row in enumerate(rows[:-2]):
        K = [levels(cells, own)[h] for own in seen.own]
        assert row["own"] == 1 and row["nodes"] == np.mean([len(index) for index in K])
        spent = row["nodes"] * tau(h, log, s.c, s.nu_1, s.rho) / T
        assert row["spent"] == pytest.approx(spent)


def test_the_words_say_what_the_table_says(tmp_path):
    p = replace(complete("9_why", {"profile": "smoke", "n_jobs": 1}), n_runs=1, horizon=T)
    table = why.measure(p, tmp_path)
    assert set(table["algorithm"]) == set(why.SHOWN) and set(table["noise"]) == {"bernoulli"}
    pe = table[(table["algorithm"] == "pe") & table["removed"].notna()]
    words = why.in_words(table, p).files["why_in_words.md"].decode()
    assert f"under PE for {pe['removed'].iloc[-1]:.0%}." in words and "under PE " in words
    drawing = why.draw(table, p)
    assert drawing.stem == "why" and len(drawing.files["why.pdf"]) < 200_000


def test_coverage_is_counted_with_the_half_width_that_the_algorithm_uses():
    """PE on Bernoulli rewards, c = 0.1: b = 0.1 sqrt(log(M T) / n), which is too small to cover all means, or none."""
    problem, cells = problem_and_cells("garland", "bernoulli")
    rows, seen = why.depths_of_phases("pe", problem, T, cells), watch("pe", problem, T, partition=cells)
    partial = 0
    for h, row in enumerate(rows[:-2]):
        held = []
        for m, client in enumerate(seen.clients):
            for (depth, i), (n, total) in client.pulled.items():
                if depth == h and h < len(seen.own[m]):
                    value = problem.client_values(m, cells.centers(h, i))[0]
                    held.append(abs(total / n - value) <= 0.1 * np.sqrt(np.log(3 * T) / n))
        assert row["own"] == pytest.approx(np.mean(held))
        partial += 0 < row["own"] < 1
    assert partial >= 3


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne"])
def test_the_server_s_part_of_a_depth_by_another_way(name):
    """Node by node and client by client, from the messages alone."""
    problem, cells = problem_and_cells("garland", "bernoulli")
    rows, log = why.depths_of_phases(name, problem, T, cells), np.log(3 * T)
    run = simulate(name, problem, T, messages=True)
    mine = [message for _, way, m, message in run.messages if way == "down" and m == 0]
    index, last = np.array([1]), mine[0].header
    for _ in range(last):
        index = cells.children(index)  # where Fed-PNE expands
    for answer in mine:
        h = answer.header
        means = np.mean(
            [x.means for *_, x in run.messages if hasattr(x, "means") and not hasattr(x, "index") and x.header == h], 0
        )
        b = 0.1 * np.sqrt(log / (3 * -(-max(1, np.ceil(0.01 * log * 4**h)) // 3)))
        each = problem.values(cells.centers(h, index))
        assert rows[h]["global"] == pytest.approx(np.mean(np.abs(means - each.mean(axis=0)) <= b))
        stay = np.isin(index, answer.index)
        assert rows[h]["borrowed"] == pytest.approx(np.mean(np.abs(means - each)[:, stay] <= b))
        if name == "fed-pne":
            boxes = cells.box(h, answer.index)[:, 0]
            lost = [not any(low <= x <= high for low, high in boxes) for x in problem.maximisers[:, 0]]
            assert rows[h]["removed"] == pytest.approx(np.mean(lost))
        index = cells.children(answer.index)
    assert len(mine) >= 4
    for h, row in enumerate(rows):
        width = 2.0**-h
        missed = np.ceil(run.best[:, 0] / width) != np.ceil(problem.maximisers[:, 0] / width)  # on a border, the first
        assert row["missed"] == pytest.approx(missed.mean())
    cut = sum(row["cut"] for row in rows)
    if name == "fed-pne":
        assert cut == pytest.approx(1 - run.rounds[-1, 0] / T)
