"""The statements, the grid of readings, and how a statement is judged: by hand, and against the paper's text."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne import Partition, make_problem, simulate
from pfpne.federation import Federation, Task
from pfpne.paper.exhibits import confirmation, printed, readings, variants
from pfpne.paper.exhibits.readings import (
    ALGORITHM_CHOICES,
    FIGURE_OBJECTIVES,
    IDENTICAL_FED_PNE,
    PROBLEM_CHOICES,
    SEARCHED,
    Measured,
    Reading,
)
from pfpne.paper.run.profiles import READINGS
from pfpne.paper.show.style import title

PAPER = Path(__file__).resolve().parents[2] / "shared" / "paper" / "pf-pne.tex"
BY_ID = {statement.id: statement for statement in readings.STATEMENTS}


def plain(text: str) -> str:
    """Letters and digits alone, without the commands of TeX."""
    text = re.sub(r"\\(citep?|ref|label|textbf|texttt|footnotesize)\b", " ", text)
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def test_the_statements_are_the_papers_words():
    if not PAPER.exists():
        pytest.skip("the paper's source is not at hand: the quotations were not checked against it")
    paper = plain(PAPER.read_text(encoding="utf-8"))
    rows = readings.tomllib.loads(readings.STATEMENTS_FILE.read_text(encoding="utf-8"))
    for row in rows["statement"] + rows["untested"]:
        for part in row["quote"].split("..."):
            assert plain(part) in paper, part


def test_statements_are_whole():
    assert len(BY_ID) == len(readings.STATEMENTS) == 33 and len(readings.SEARCHED) == 25
    assert {statement.objective for statement in readings.STATEMENTS} == set(FIGURE_OBJECTIVES)
    kinds = {"ratio", "difference", "grows", "stops", "settings", "global"}
    assert {statement.kind for statement in readings.STATEMENTS} == kinds
    factors = [s for s in readings.STATEMENTS if {s.below, s.above} - {None, 1}]
    assert all(statement.ours for statement in factors)  # a factor that the paper does not name is marked


def test_a_ratio_at_a_bound_is_not_within():
    smallest, settings = BY_ID["smallest-garland"], replace(BY_ID["fed-far-garland"], below=2.0, above=0.5)
    assert [smallest.holds(ratio) for ratio in (0.999, 1.0)] == [True, False]
    assert [settings.holds(ratio) for ratio in (0.5, 0.501, 1.999, 2.0)] == [False, True, True, False]


def test_the_grid_is_crossed_as_declared():
    grid = readings.all_readings("paper")
    scales = {(r.noise, r.T) for r in grid}
    assert len(scales) == 20 and len(grid) == len({str(r.choices) for r in grid}) == 1880
    assert max(r.M * r.T for r in grid) <= readings.MAX_SEARCH_PULLS
    moved = [r for r in grid if r.problem or r.M != 20]
    assert all(len(r.problem) + (r.M != 20) == 1 for r in moved)  # one at a time
    assert {"HCT's c", "theta_0"}.isdisjoint(name for r in moved for name in r.algorithms)
    first = [r for r in grid if r not in moved]
    assert len(first) == 20 * 2 ** len(ALGORITHM_CHOICES)
    assert {name for r in moved for name in r.problem} == set(PROBLEM_CHOICES)
    assert {readings.n_runs_of(r) for r in [*first, *(r for r in moved if r.M == 5)]} == {2}
    assert {readings.n_runs_of(r) for r in moved if r.M != 5} == {1}


def test_the_named_readings_are_in_the_grid():
    for name, scale in READINGS.items():
        reading = confirmation.complete_reading(name, "paper")
        assert (reading.noise, reading.T) == (scale.noises[0], scale.horizon)
        assert reading.choices in [r.choices for r in readings.all_readings("paper")]
        assert reading.experiment("landmine", "pe", 0, 1).noise == scale.landmine_noise


def test_a_reading_is_what_it_says():
    reading = Reading(1.0, 1_000, 20, {"shift's unit": "own"}, {"H_0": 6, "HCT's c": "by noise"})
    assert reading.experiment("himmelblau", "pe", 0, 1).shift == pytest.approx(0.01)
    assert reading.experiment("garland", "pe", 0, 1).shift == 0.1
    assert reading.experiment("garland", "pf-pne", 0, 1).settings == {"Delta": 2.0**-6}
    assert reading.experiment("garland", "hct-pyxab", 0, 1).settings["c"] == pytest.approx(0.7 / np.sqrt(3))
    identical = reading.experiment("garland", IDENTICAL_FED_PNE, 0, 1)
    assert (identical.shift, identical.common, identical.algorithms) == (0.0, 0.1, ("fed-pne",))
    assert (
        Reading(1.0, 10, 20, {"landmine's axes": "log"}).experiment("landmine", "pe", 0, 1).objective == "landmine-log"
    )


def measured_by(reading: Reading, regrets: dict, last: dict | None = None, rounds: int = 8) -> dict:
    """Measurements of Garland in which each algorithm has one regret in both runs."""
    made = {}
    for name, regret in regrets.items():
        steps = np.full(2, (last or {}).get(name, 0))
        made[readings._key(reading, "garland", name)] = Measured(np.full(2, regret), steps, np.full(2, rounds))
    return made


def test_judged_by_hand():
    reading = Reading(1.0, 1_000)
    regrets = {
        "pf-pne": 10.0,
        "hct-pyxab": 12.0,
        "fed1-ucb": 31.0,
        "fn-ucb": 40.0,
        "fed-pne": 21.0,
        IDENTICAL_FED_PNE: 11.0,
    }
    measured = measured_by(reading, regrets)
    assert readings.judge_statement(BY_ID["smallest-garland"], reading, measured) == (pytest.approx(10 / 12), True)
    assert readings.judge_statement(BY_ID["fed-far-garland"], reading, measured) == (pytest.approx(2.1), True)
    assert readings.judge_statement(BY_ID["depends-garland"], reading, measured) == (pytest.approx(21 / 11), False)
    better = BY_ID["fed-better-garland"]
    assert readings.judge_statement(better, reading, measured) == (pytest.approx(21 / 12), False)
    federated = Reading(1.0, 1_000, 20, {}, {"competitors": "Fed1-UCB, FN-UCB"})
    assert readings.judge_statement(better, federated, measured) == (pytest.approx(21 / 31), True)


@pytest.mark.parametrize(
    ("fed", "pf", "rounds", "grows", "stops"),
    [(500, 300, 8, True, True), (90, 80, 8, False, True), (300, 500, 8, False, True), (500, 300, 7, True, False)],
)
def test_communication_judged_by_hand(fed, pf, rounds, grows, stops):
    reading = Reading(1.0, 1_000)
    measured = measured_by(reading, {"pf-pne": 1.0, "fed-pne": 1.0}, {"pf-pne": pf, "fed-pne": fed}, rounds)
    assert readings.judge_statement(BY_ID["fed-grows-garland"], reading, measured)[1] is grows
    assert readings.judge_statement(BY_ID["pf-stops-garland"], reading, measured)[1] is stops


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne", "pe", "fed1-ucb"])
def test_no_phase_is_begun_that_the_horizon_cuts(name):
    """The last batch of every client is one point, played to the horizon; as published, it is a phase cut short.

    Until then it evaluates what is evaluated as published.
    """
    problem, T = make_problem("himmelblau", 3, noise=1.0), 8_000 if name == "fed1-ucb" else 3_000
    task = Task(Partition(problem.domain), 3, T, 1.0, problem.candidates, 0, key=("himmelblau", 0))
    given = {"c_pulls": 1.0, "sigma": 0.15} if name == "fed1-ucb" else {}  # with which a phase ends

    def batches(algorithm) -> list[list]:
        federation = Federation(*algorithm.make(task, algorithm.settings(**given)), algorithm.up, algorithm.down)
        rngs, made = [np.random.default_rng(m) for m in range(3)], [[], [], []]
        while federation.running:
            for m, batch in federation.ask():
                made[m].append((batch.points.tolist(), batch.counts.tolist()))
                noise = rngs[m].uniform(-1, 1, batch.size)
                federation.tell(m, np.repeat(problem.client_values(m, batch.points), batch.counts) + noise)
        assert all(client.t == T for client in federation.clients)
        return made

    whole = batches(variants.VARIANTS[readings.WHOLE_PHASE_VARIANTS[name]][1])
    published = batches(variants.ALGORITHMS[name])
    assert [len(own[-1][1]) for own in whole] == [1, 1, 1]
    assert max(len(own[-1][1]) for own in published) > 1
    for own, ours in zip(whole, published, strict=True):
        assert own[:-1] == ours[: len(own) - 1] and len(own) >= len(ours) > 1


@pytest.mark.parametrize("name", readings.READ_OFF)
def test_a_long_run_holds_the_shorter_ones(name):
    problem = make_problem("garland", 2, noise=1.0)
    long, short = simulate(name, problem, 1_000), simulate(name, problem, 400)
    at = np.searchsorted(long.t, 400)
    np.testing.assert_allclose(long.regret[:, at], short.regret[:, -1], rtol=1e-12)  # sums are made block by block
    assert readings.measure_run(long, 400)[0] == pytest.approx(short.regret[:, -1].mean(), rel=1e-12)


@pytest.mark.parametrize(("T", "wanted"), [(20, [6.0, 0, 0]), (30, [9.0, 30, 1]), (60, [18.0, 50, 3])])
def test_what_is_kept_of_a_run_by_hand(T, wanted):
    """Three clients (a mean is no median), checkpoints at 10, 20, ...; rounds at 30, 41, 50 and 61."""
    t = np.arange(10, 101, 10)
    rounds = np.array([(step, 5, 7) for step in (30, 41, 50, 61)])
    run = SimpleNamespace(t=t, regret=np.outer([0.1, 0.2, 0.6], t), rounds=rounds)
    assert readings.measure_run(run, T) == pytest.approx(wanted)


def comparisons(ratio: float, p_right: float, p_wrong: float, phase: float = 0.1) -> pd.DataFrame:
    rows = [
        {"id": s.id, "objective": s.objective, "what": "a / b", "n": 30, "ratio": ratio, "low": 0.5, "high": 0.9}
        | {"wins": 30, "p_right": p_right, "p_wrong": p_wrong, "phase": phase, "other_phase": 0.0}
        for s in readings.STATEMENTS
    ]
    return pd.DataFrame(rows)


def test_verdicts_in_threes():
    N = len(readings.STATEMENTS)
    assert set(confirmation.decide_statements(comparisons(0.9, 0.02 / N, 1.0))["verdict"]) == {"shown"}
    assert set(confirmation.decide_statements(comparisons(0.9, 1.0, 0.02 / N))["verdict"]) == {"refuted"}
    both_sides = confirmation.decide_statements(comparisons(0.9, 1.0, 0.03 / N))  # are tested
    assert set(both_sides["verdict"]) == {"open"}
    assert set(confirmation.decide_statements(comparisons(0.9, 0.04, 1.0))["verdict"]) == {"open"}  # Holm: all at once
    cut = confirmation.decide_statements(
        comparisons(0.9, 0.0, 1.0, phase=0.6)
    )  # one phase decides, but for what is so by design
    assert set(cut.loc[~cut["by_design"], "verdict"]) == {"open"} and set(cut.loc[cut["by_design"], "verdict"]) == {
        "shown"
    }


def test_of_the_rivals_of_a_statement_the_one_with_the_longest_phase_counts():
    rivals = [comparisons(0.9, 0.0, 1.0).assign(other_phase=phase) for phase in (0.1, 0.7, 0.2)]
    assert set(confirmation.decide_statements(pd.concat(rivals, ignore_index=True))["other_phase"]) == {0.7}


def test_the_answer_in_sentences_by_hand():
    """One reading in the search, in which two statements hold; everything shown but one statement, which is open."""
    reading = confirmation.complete_reading("printed", "paper")
    row = {**reading.choices, "n": 2, "held": 2, "of": 27, "which": "smallest-garland fed-grows-garland"}
    first = {**row, **{name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()}}
    others = [first | {"noise": 0.1, "T": T, "held": held} for T, held in ((10, 4), (20, 1))]
    others += [first | {"noise": 0.1, "T": 20, "H_0": 6, "held": 9, "which": "smallest-ackley"}]  # with another choice
    table, tests_ = pd.DataFrame([row, first, *others]), comparisons(0.9, 0.0, 1.0)
    tests_.loc[tests_["id"] == "fed-far-rastrigin", "p_right"] = 0.5
    tests_.loc[tests_["id"] == "smallest-garland", "other_phase"] = 0.7
    tests_.loc[tests_["id"] == "global-garland", ["phase", "other_phase"]] = 0.8, 0.9  # by design: both are cut anyway
    tests_.loc[tests_["id"] == "settings-landmine", "ratio"] = 1.8
    tests_.loc[tests_["id"] == "settings-himmelblau", "ratio"] = 0.4
    tested = confirmation.decide_statements(tests_)
    sentences = printed.answer(table, reading, tested, tests_)
    counts = "Of 33 statements 6 are true by construction; of the others 26 are shown, 0 refuted and 1 open"
    assert counts in sentences[0] and "Fed1-UCB and FN-UCB" in sentences[0] and "30 paired runs)" in sentences[0]
    assert sentences[1].endswith("it would be shown on Himmelblau, Rastrigin and Landmine.")
    assert printed.in_short(tested, reading) == [*sentences[:2], "Refuted: nothing."]
    assert sentences[2:4] == ["Refuted: nothing.", "Open:\n  - Fed-PNE has twice PF-PNE's regret (Rastrigin)"]
    assert 'Under "printed" it is 2 in the search\'s two runs' in sentences[4]
    assert "For each of 5 readings" in sentences[4] and "At most 9 do, in 1 readings." in sentences[4]
    by_noise = re.findall(r"(\d+) with ", sentences[5])  # the largest of all T, with the first value of each choice
    assert by_noise == ["4", "2"] and f"of the {len(SEARCHED)} hold" in sentences[5]
    assert "1 more would be open: PF-PNE has the smallest regret of the paper's five (Garland)." in sentences[6]
    factors = dict(re.findall(r"(\w+) (\d\.\d)", sentences[7].split(" We call")[0]))  # of a change in either direction
    assert factors == dict.fromkeys(map(title, FIGURE_OBJECTIVES), "1.1") | {"Landmine": "1.8", "Himmelblau": "2.5"}
    below_2 = sentences[7].split("begins at 2")[1]
    assert [title(name) in below_2 for name in FIGURE_OBJECTIVES] == [
        name != "himmelblau" for name in FIGURE_OBJECTIVES
    ]


def test_who_has_less_regret_than_pf_pne_is_tested():
    """Six comparisons, two sides: Holm multiplies the smallest p by 12, the next by 10. HOO on Garland is at 0.05."""
    rows = [
        ("pe", "garland", 0.001, 1.0),
        ("pe", "ackley", 1.0, 0.001),
        ("hoo", "garland", 0.0049, 1.0),
        ("hoo", "ackley", 0.2, 0.8),
        ("blin", "garland", 0.03, 0.9),
        ("blin", "ackley", 0.5, 0.5),
    ]
    table = pd.DataFrame(rows, columns=["algorithm", "objective", "p_less", "p_more"]).assign(runs=10)
    said = printed.algorithms_not_drawn_in_words(table, by_name=True)
    assert "Against PF-PNE's on 2 objectives, PE's regret is less on Garland" in said
    assert "PE's regret is less on Garland and more on Ackley; HOO's is less on Garland;" in said
    assert "BLiN's is neither less nor more for certain. The rest is open (10 paired runs)." in said
    counted = printed.algorithms_not_drawn_in_words(table, by_name=False)
    assert "PE's regret is less on 1 and more on 1; HOO's is less on 1; BLiN's is neither" in counted
    table.loc[2, "p_less"] = 0.0051
    said = printed.algorithms_not_drawn_in_words(table, by_name=True)
    assert "HOO's is neither less nor more for certain;" in said


def test_what_is_refuted_is_counted_by_subject():
    rows = comparisons(0.9, 0.0, 1.0)
    wrong = ["settings-garland", "settings-landmine", "fed-better-rastrigin", "ackley-hct"]
    rows.loc[rows["id"].isin(wrong), ["p_right", "p_wrong"]] = (1.0, 0.0)
    tested = confirmation.decide_statements(rows)
    assert printed.in_short(tested, confirmation.complete_reading("printed", "paper"))[2] == (
        "Refuted: 1 about Fed-PNE (Rastrigin), 2 that one of PF-PNE's settings matters little (Garland, Landmine) and "
        "1 that PF-PNE is close to a rival (Ackley)."
    )


def test_what_the_page_says_of_the_paper_s_own_reward_model_by_hand():
    first = {name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()} | {"M": 20}
    longest = max(readings.GRID_VALUES["paper"]["T"])
    rows = [
        first | {"noise": "bernoulli", "T": longest, "which": "smallest-landmine fed-grows-garland"},
        first | {"noise": "bernoulli", "T": longest, "which": "smallest-garland", "H_0": 6},
        first | {"noise": 0.1, "T": longest, "which": "smallest-rastrigin"},
        first | {"noise": "bernoulli", "T": 10_000, "which": "smallest-himmelblau"},
    ]
    assert READINGS["model"].noises[0] == "bernoulli" and "smallest-landmine" in {s.id for s in SEARCHED}
    words = printed.longer_model_in_words(pd.DataFrame(rows[::-1]))
    assert f"{longest:,}" in words and [name for name in map(title, FIGURE_OBJECTIVES) if name in words] == ["Landmine"]

    means = {"garland": (3.0, 4.0), "rastrigin": (3.0, 2.0)}
    ranking = [
        (name, f, x) for f, pair in means.items() for name, x in zip(("fed-pne", "hct-pyxab"), pair, strict=True)
    ]
    table = pd.DataFrame(ranking, columns=["algorithm", "objective", "mean"])
    assert "0.75 on Garland and 1.5 on Rastrigin" in printed.hct_in_words(table)

    verdicts = ["shown"] * 5 + ["refuted"] * 3 + ["open"] * 25
    tested = pd.DataFrame({"id": [*BY_ID], "verdict": verdicts, "objective": [s.objective for s in BY_ID.values()]})
    tested = tested.assign(by_design=[n in (0, 6, 7) for n in range(33)], reading="model")
    words = printed.model_in_words(pd.concat([tested.assign(reading="printed", verdict="open"), tested]))
    assert "4 are shown, 1 refuted and 25 open" in words


def test_the_regret_of_fed_pne_is_smaller_against_the_global_optimum_by_arithmetic():
    """Why that statement is true by construction: max over x of the mean of f_m is at most the mean of their maxima."""
    (statement,) = (s for s in readings.STATEMENTS if s.id == "global-garland")
    assert statement.by_design
    problem = make_problem("garland", 5, noise=1.0)
    run = simulate("fed-pne", problem, 500, global_regret=True)
    assert (run.global_regret.sum(axis=0) <= run.regret.sum(axis=0) + 1e-9).all()


def test_contributions_compare_readings_that_differ_in_one_choice():
    first = {name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()}
    rows = [first | {"noise": 1.0, "T": 10, "M": 20, "held": 5}, first | {"noise": 1.0, "T": 10, "M": 5, "held": 8}]
    rows += [first | {"noise": 2.0, "T": 10, "M": 5, "held": 9}]  # has no partner
    table = printed.contributions(pd.DataFrame(rows))
    row = table.iloc[0]
    assert (row["choice"], row["value"], row["n"], row["change"]) == ("M", 5, 1, 3.0)


def test_the_confirmation_has_runs_of_its_own(tmp_path):
    assert confirmation.CONFIRMATION_SEED != readings.SEARCH_SEED
    reading = replace(confirmation.complete_reading("printed", "smoke"), T=60)
    table = confirmation.confirm(reading, 2, 1, folder=tmp_path)
    assert set(table["id"]) == set(BY_ID) and (table["n"] == 2).all()
    assert len(table[table["id"] == "smallest-garland"]) == 4  # one for each rival
    assert len(table[table["id"] == "settings-garland"]) == 10
    ratio = table.set_index("id").loc["doublesine-fed", "ratio"]
    runs = [reading.experiment("doublesine", name, 0, 2) for name in ("pf-pne", "fed-pne")]
    means = [
        np.mean([simulate(name, e.problem(r), 60).regret[:, -1].mean() for r in (0, 1)])
        for name, e in zip(("pf-pne", "fed-pne"), runs, strict=True)
    ]
    assert ratio == pytest.approx(means[0] / means[1])
