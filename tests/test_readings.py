"""The statements, the grid of readings, and how a statement is judged: by hand, and against the paper's text."""

import re
import zlib
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne import Partition, make_problem, simulate
from pfpne.federation import Task
from pfpne.paper.claims import stats
from pfpne.paper.exhibits import as_printed, confirmation, readings, variants
from pfpne.paper.exhibits.readings import (
    ALGORITHM_CHOICES,
    FIGURE_OBJECTIVES,
    IDENTICAL_FED_PNE,
    PROBLEM_CHOICES,
    SEARCHED_STATEMENTS,
    MeasuredRuns,
    Reading,
)
from pfpne.paper.run import cache
from pfpne.paper.run.profiles import READING_PRESETS
from pfpne.paper.show.style import title
from pfpne.rng import stream

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
    assert len(BY_ID) == len(readings.STATEMENTS) == 33 and len(readings.SEARCHED_STATEMENTS) == 25
    assert {statement.objective for statement in readings.STATEMENTS} == set(FIGURE_OBJECTIVES)
    kinds = {"ratio", "difference", "grows", "stops", "settings", "global"}
    assert {statement.kind for statement in readings.STATEMENTS} == kinds
    factors = [s for s in readings.STATEMENTS if {s.below, s.above} - {None, 1}]
    assert all(statement.our_addition for statement in factors)  # a factor that the paper does not name is marked


def test_a_ratio_at_a_bound_is_not_within():
    smallest, settings = BY_ID["smallest-garland"], replace(BY_ID["fed-far-garland"], below=2.0, above=0.5)
    assert [smallest.holds(ratio) for ratio in (0.999, 1.0)] == [True, False]
    assert [settings.holds(ratio) for ratio in (0.5, 0.501, 1.999, 2.0)] == [False, True, True, False]


def test_the_grid_is_crossed_as_declared():
    grid = readings.all_readings("paper")
    scales = {(r.noise, r.T) for r in grid}
    assert len(scales) == 20 and len(grid) == len({str(r.choices) for r in grid}) == 1880
    assert max(r.M * r.T for r in grid) <= readings.MAX_SEARCH_PULLS
    moved = [r for r in grid if r.problem_choices or r.M != 20]
    assert all(len(r.problem_choices) + (r.M != 20) == 1 for r in moved)  # one at a time
    assert {"HCT's c", "theta_0"}.isdisjoint(name for r in moved for name in r.algorithm_choices)
    first = [r for r in grid if r not in moved]
    assert len(first) == 20 * 2 ** len(ALGORITHM_CHOICES)
    assert {name for r in moved for name in r.problem_choices} == set(PROBLEM_CHOICES)
    assert {readings.n_runs_of(r) for r in [*first, *(r for r in moved if r.M == 5)]} == {2}
    assert {readings.n_runs_of(r) for r in moved if r.M != 5} == {1}


def test_the_named_readings_are_in_the_grid():
    for name, scale in READING_PRESETS.items():
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
    silent = Reading(1.0, 1_000, 20, {"landmine's noise": "none"}, {"HCT's c": "by noise"})
    assert silent.experiment("landmine", "hct-pyxab", 0, 1).settings == {"c": 0.05}  # its own noise counts
    identical = reading.experiment("garland", IDENTICAL_FED_PNE, 0, 1)
    assert (identical.shift, identical.common_shift, identical.algorithms) == (0.0, 0.1, ("fed-pne",))
    assert (
        Reading(1.0, 10, 20, {"landmine's axes": "log"}).experiment("landmine", "pe", 0, 1).objective == "landmine-log"
    )


def measured_by(reading: Reading, regrets: dict, last: dict | None = None, rounds: int = 8) -> dict:
    """Measurements of Garland in which each algorithm has one regret in both runs."""
    made = {}
    for name, regret in regrets.items():
        steps = np.full(2, (last or {}).get(name, 0))
        made[readings._key(reading, "garland", name)] = MeasuredRuns(np.full(2, regret), steps, np.full(2, rounds))
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
        federation = algorithm.federation(task, algorithm.settings(**given))
        rngs, made = [np.random.default_rng(m) for m in range(3)], [[], [], []]
        while federation.running:
            for m, batch in federation.ask():
                made[m].append((batch.points.tolist(), batch.counts.tolist()))
                noise = rngs[m].uniform(-1, 1, batch.size)
                federation.tell(m, np.repeat(problem.client_values(m, batch.points), batch.counts) + noise)
        assert all(client.t == T for client in federation.clients)
        return made

    whole = batches(variants.DEVIATION_VARIANTS[readings.WHOLE_PHASE_VARIANTS[name]][1])
    published = batches(variants.ALGORITHMS[name])
    assert [len(own[-1][1]) for own in whole] == [1, 1, 1]
    assert max(len(own[-1][1]) for own in published) > 1
    for own, ours in zip(whole, published, strict=True):
        assert own[:-1] == ours[: len(own) - 1] and len(own) >= len(ours) > 1


@pytest.mark.parametrize("name", readings.HORIZON_FREE)
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
        | {"wins": 30, "p_right": p_right, "p_wrong": p_wrong, "last_phase_share": phase, "other_last_phase_share": 0.0}
        for s in readings.STATEMENTS
    ]
    return pd.DataFrame(rows)


def test_statements_are_shown_refuted_or_open():
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
    rivals = [comparisons(0.9, 0.0, 1.0).assign(other_last_phase_share=phase) for phase in (0.1, 0.7, 0.2)]
    assert set(confirmation.decide_statements(pd.concat(rivals, ignore_index=True))["other_last_phase_share"]) == {0.7}


def test_the_answer_in_sentences_by_hand():
    """One reading in the search, in which two statements hold; everything shown but one statement, which is open."""
    reading = confirmation.complete_reading("printed", "paper")
    row = {**reading.choices, "n": 2, "n_held": 2, "n_statements": 27, "held_ids": "smallest-garland fed-grows-garland"}
    first = {**row, **{name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()}}
    others = [first | {"noise": 0.1, "T": T, "n_held": held} for T, held in ((10, 4), (20, 1))]
    others += [
        first | {"noise": 0.1, "T": 20, "H_0": 6, "n_held": 9, "held_ids": "smallest-ackley"}
    ]  # with another choice
    table, tests_ = pd.DataFrame([row, first, *others]), comparisons(0.9, 0.0, 1.0)
    tests_.loc[tests_["id"] == "fed-far-rastrigin", "p_right"] = 0.5
    tests_.loc[tests_["id"] == "smallest-garland", "other_last_phase_share"] = 0.7
    tests_.loc[tests_["id"] == "global-garland", ["last_phase_share", "other_last_phase_share"]] = (
        0.8,
        0.9,
    )  # by design: both are cut anyway
    tests_.loc[tests_["id"] == "settings-landmine", "ratio"] = 1.8
    tests_.loc[tests_["id"] == "settings-himmelblau", "ratio"] = 0.4
    verdicts = confirmation.decide_statements(tests_)
    sentences = as_printed.answer(table, reading, verdicts, tests_)
    counts = "6 are true by construction; of the others 26 are shown (20 about regret), 0 refuted and 1 open"
    assert (
        f"Of 33 statements {counts}" in sentences[0]
        and "Fed1-UCB and FN-UCB" in sentences[0]
        and "30 paired runs)" in sentences[0]
    )
    assert sentences[1].endswith("to the rivals, too, only Himmelblau, Rastrigin and Landmine would remain shown.)")
    searched = " We searched 5 readings. No reading makes more than 9 of the 25 searched statements hold;"
    searched += " 1 reading reaches 9."
    searched += " *Printed* is the simplest of these."
    assert as_printed.in_short(table, verdicts, reading) == [sentences[0] + searched, sentences[1], "Refuted: nothing."]
    assert sentences[2:4] == ["Refuted: nothing.", "Open:\n  - Fed-PNE has twice PF-PNE's regret (Rastrigin)"]
    assert 'Under "printed" it is 2 in the search\'s two runs' in sentences[4]
    assert "For each of 5 readings" in sentences[4] and "At most 9 do, in 1 readings." in sentences[4]
    assert "But 0 of the 25 hold in at least 97% of all readings, and under the median reading 2 hold." in sentences[4]
    by_noise = re.findall(r"(\d+) \((\d+)\) with ", sentences[5])  # with the first value of each choice, and with all
    assert by_noise == [("4", "9"), ("2", "2")] and f"of the {len(SEARCHED_STATEMENTS)} hold" in sentences[5]
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
    said = as_printed.algorithms_not_plotted_in_words(table, by_name=True)
    assert "Compared with PF-PNE on 2 objectives, PE has less regret on Garland" in said
    assert "PE has less regret on Garland and more on Ackley; HOO has less regret on Garland;" in said
    assert "BLiN has neither less nor more regret for certain. On the other objectives it is open which" in said
    assert said.endswith("it is open which of the two has less (10 paired runs).")
    counted = as_printed.algorithms_not_plotted_in_words(table, by_name=False)
    assert "PE has less regret on 1 and more on 1; HOO has less regret on 1; BLiN has neither" in counted
    table.loc[2, "p_less"] = 0.0051
    said = as_printed.algorithms_not_plotted_in_words(table, by_name=True)
    assert "HOO has neither less nor more regret for certain;" in said


def test_what_is_refuted_is_counted_by_group():
    rows = comparisons(0.9, 0.0, 1.0)
    wrong = ["settings-garland", "settings-landmine", "fed-better-rastrigin", "ackley-hct"]
    rows.loc[rows["id"].isin(wrong), ["p_right", "p_wrong"]] = (1.0, 0.0)
    verdicts = confirmation.decide_statements(rows)
    search = pd.DataFrame({"n_held": [20]})
    assert as_printed.in_short(search, verdicts, confirmation.complete_reading("printed", "paper"))[2] == (
        "Refuted: 1 about Fed-PNE (Rastrigin), 2 that one of PF-PNE's settings matters little (Garland, Landmine) and "
        "1 that PF-PNE is close to a rival (Ackley: it has 0.90 times the rival's regret)."
    )


def test_each_run_that_is_counted_and_each_ratio_has_to_be_as_stated():
    rows = comparisons(0.9, 0.0, 1.0)
    some = rows.assign(wins=29)
    assert as_printed.holds_in_means(BY_ID["pf-stops-garland"], rows)
    assert not as_printed.holds_in_means(BY_ID["pf-stops-garland"], some)
    assert as_printed.holds_in_means(BY_ID["smallest-garland"], some)
    both = pd.concat([some, some.assign(ratio=1.1)])
    assert not as_printed.holds_in_means(BY_ID["smallest-garland"], both)


def test_where_every_rival_is_cut_no_lead_would_remain_and_each_ratio_of_a_close_rival_is_told():
    rows = comparisons(0.9, 0.0, 1.0).assign(other_last_phase_share=0.7)
    close = rows["id"].isin(["ackley-hct", "ackley-fed"])
    rows.loc[close, ["p_right", "p_wrong"]] = (1.0, 0.0)
    rows.loc[rows["id"] == "ackley-fed", "ratio"] = 0.4
    verdicts = confirmation.decide_statements(rows)
    printed = confirmation.complete_reading("printed", "paper")
    _, leads, refuted = as_printed.in_short(pd.DataFrame({"n_held": [20]}), verdicts, printed)
    assert leads.endswith("to the rivals, too, none would remain shown.)")
    assert "(Ackley: it has 0.90 and 0.40 times the rival's regret)" in refuted


def test_a_new_topic_says_where_its_words_go(monkeypatch):
    """A topic whose beginning is that of another is a new one, too; none gets the words of another."""
    assert {as_printed._topic(id_) for id_ in BY_ID} == set(as_printed.STATEMENT_TOPICS)
    assert set(as_printed.STATEMENT_GROUPS) == set(as_printed.STATEMENT_TOPICS)
    for id_ in ("blin-first", "fed-grows-faster", "settings-more-garland"):
        with pytest.raises(ValueError, match="STATEMENT_TOPICS and to STATEMENT_GROUPS in as_printed.py"):
            as_printed._topic(id_)
    monkeypatch.setitem(as_printed.STATEMENT_TOPICS, "blin-first", "BLiN has less regret than PF-PNE")
    with pytest.raises(ValueError, match="'blin-first' has no group: add it to STATEMENT_GROUPS"):
        as_printed._statement_group("blin-first-garland")


def test_a_new_kind_of_statement_says_where_it_is_missing(monkeypatch):
    """Each function that asks for the kind refuses an unknown one, before any run and also where others know it."""
    statement, reading = replace(BY_ID["settings-garland"], id="new", kind="fewest rounds"), Reading(1.0, 1_000)
    measured = measured_by(reading, {"pf-pne": 1.0, "fed-pne": 1.0})
    with pytest.raises(ValueError, match="'fewest rounds', which judge_statement in readings.py does not know"):
        readings.judge_statement(statement, reading, measured)
    monkeypatch.setattr(confirmation, "run_in_order", lambda *_: pytest.fail("nothing should run"))
    monkeypatch.setattr(confirmation, "STATEMENTS", (statement,))
    with pytest.raises(ValueError, match="_compared_algorithms in confirmation.py does not know"):
        confirmation.confirm(reading, 2)
    arguments = statement, reading, None, 2, 1, None
    with pytest.raises(ValueError, match="_measured_algorithm in confirmation.py does not know"):
        confirmation._compare(*arguments)
    monkeypatch.setattr(confirmation, "_measured_algorithm", lambda statement: "pf-pne")
    with pytest.raises(ValueError, match="_pairs in confirmation.py does not know"):
        confirmation._compare(*arguments)
    for module in (confirmation, as_printed):
        monkeypatch.setattr(module, "COUNTED_KINDS", (*readings.COUNTED_KINDS, "fewest rounds"))
    with pytest.raises(ValueError, match="_count in confirmation.py does not know"):
        confirmation._compare(statement, reading, lambda objective, name: None, 2, 1, None)
    with pytest.raises(ValueError, match="_verdict_in_words in as_printed.py does not know"):
        as_printed._verdict_in_words(statement, pd.Series({"ratio": 1.0}))


def test_what_the_page_says_of_the_paper_s_own_reward_model_by_hand(monkeypatch):
    first = {name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()} | {"M": 20}
    longest = max(readings.GRID_VALUES["paper"]["T"])
    rows = [
        first | {"noise": "bernoulli", "T": longest, "held_ids": "smallest-landmine fed-grows-garland"},
        first | {"noise": "bernoulli", "T": longest, "held_ids": "smallest-garland", "H_0": 6},
        first | {"noise": 0.1, "T": longest, "held_ids": "smallest-rastrigin"},
        first | {"noise": "bernoulli", "T": 10_000, "held_ids": "smallest-himmelblau"},
    ]
    assert READING_PRESETS["model"].noises[0] == "bernoulli" and "smallest-landmine" in {
        s.id for s in SEARCHED_STATEMENTS
    }
    words = as_printed.longer_model_in_words(pd.DataFrame(rows[::-1]))
    assert f"{longest:,}" in words and [name for name in map(title, FIGURE_OBJECTIVES) if name in words] == ["Landmine"]

    means = {"garland": (3.0, 4.0), "rastrigin": (3.0, 2.0)}
    ranking = [
        (name, f, x) for f, pair in means.items() for name, x in zip(("fed-pne", "hct-pyxab"), pair, strict=True)
    ]
    table = pd.DataFrame(ranking, columns=["algorithm", "objective", "mean"])
    assert "0.75 on Garland and 1.5 on Rastrigin" in as_printed.hct_in_words(table)

    verdicts = ["shown"] * 5 + ["refuted"] * 3 + ["open"] * 25
    statements = pd.DataFrame({"id": [*BY_ID], "verdict": verdicts, "objective": [s.objective for s in BY_ID.values()]})
    statements = statements.assign(by_design=[n in (0, 6, 7) for n in range(33)], reading="model")
    words = as_printed.model_in_words(pd.concat([statements.assign(reading="printed", verdict="open"), statements]))
    assert (
        "4 are shown (4 about regret), 1 refuted and 25 open" in words and "(Bernoulli; no noise on Landmine)" in words
    )
    uniform = replace(READING_PRESETS["model"], noises=(0.1,))
    monkeypatch.setitem(READING_PRESETS, "model", uniform)
    assert "(noise \N{PLUS-MINUS SIGN}0.1; no noise on Landmine)" in as_printed.model_in_words(statements)


def test_the_regret_of_fed_pne_is_smaller_against_the_global_optimum_by_arithmetic():
    """Why that statement is true by construction: max over x of the mean of f_m is at most the mean of their maxima."""
    (statement,) = (s for s in readings.STATEMENTS if s.id == "global-garland")
    assert statement.by_design
    problem = make_problem("garland", 5, noise=1.0)
    run = simulate("fed-pne", problem, 500, global_regret=True)
    assert (run.global_regret.sum(axis=0) <= run.regret.sum(axis=0) + 1e-9).all()


def test_contributions_compare_readings_that_differ_in_one_choice():
    first = {name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()}
    rows = [first | {"noise": 1.0, "T": 10, "M": 20, "n_held": 5}, first | {"noise": 1.0, "T": 10, "M": 5, "n_held": 8}]
    rows += [first | {"noise": 2.0, "T": 10, "M": 5, "n_held": 9}]  # has no partner
    table = as_printed.contributions(pd.DataFrame(rows))
    row = table.iloc[0]
    assert (row["choice"], row["value"], row["n"], row["change"]) == ("M", 5, 1, 3.0)


# --- from measurements to the table of the search, on made-up numbers -------------------------------------------------


def number_of(*parts) -> float:
    """An irregular number from 1 to 100 that depends on all the parts and on their order."""
    return 1 + 99 * float(np.random.default_rng(zlib.crc32(repr(parts).encode())).random())


@pytest.mark.parametrize(
    ("horizons", "most", "longest"),
    [  # longest: {M: the horizon of a run from which shorter ones are read, None where every horizon is run}
        ((10, 41, 100), 200, {2: 100, 3: 41, 50: 10}),  # no horizon is short enough for 50 clients
        ((333, 1_000), 10_000, {2: None, 3: None, 50: None}),  # of every second step a value is kept: 333 has none
        ((600, 1_498), 10_000, {2: 1_498, 3: 1_498, 50: None}),
        ((499, 998), 10_000, {2: 998, 3: 998}),
    ],
)
def test_measurements_are_collected_run_by_run(monkeypatch, tmp_path, horizons, most, longest):
    """Each run is made once, and each number gets to its reading, algorithm and run."""
    monkeypatch.setattr(readings, "FIGURE_OBJECTIVES", ("garland", "himmelblau"))
    monkeypatch.setattr(readings, "MAX_SEARCH_PULLS", most)
    asked = []

    def made_up(experiment, run, variant, T) -> list:
        setup = (
            experiment.objective,
            *experiment.algorithms,
            experiment.n_clients,
            experiment.common_shift,
            experiment.seed,
        )
        return [number_of(*setup, run, variant, T), T - run, T % 7 + run]

    def measure(experiment, run, variant, at, folder) -> list:
        asked.append((experiment, run, variant, at))
        assert folder == tmp_path and experiment.n_runs > run
        return [made_up(experiment, run, variant, T) for T in at]

    def run(function, jobs, n_jobs, bar):
        assert (n_jobs, bar) == (2, "a bar")
        return [function(*job) for job in jobs]

    monkeypatch.setattr(readings, "measure_stored", measure)
    monkeypatch.setattr(readings, "run_in_order", run)
    whole = {"cut phase": "not begun", "theta_0": "drifting"}
    asked_for = [Reading(1.0, horizons[0], M) for M in longest]
    asked_for += [Reading(1.0, horizons[1], 2, {"shift": 0.2}), Reading(1.0, horizons[1], 2, {}, whole)]
    measured = readings.measure_readings(asked_for, horizons, 2, "a bar", tmp_path)

    wanted, expected_jobs = {}, set()
    for reading in asked_for:
        n = 2 if reading.M <= 20 and not reading.problem_choices else 1
        for objective in ("garland", "himmelblau"):
            names = ["pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe"]
            for name in names + [IDENTICAL_FED_PNE] * (objective == "garland"):
                at = (reading.T,)
                if name in ("hct-pyxab", "fn-ucb") and longest[reading.M] is not None:
                    at = tuple(T for T in horizons if T <= longest[reading.M])
                experiment = reading.experiment(objective, name, 1, n, at[-1])
                runs = [made_up(experiment, k, reading.variant(name), reading.T) for k in range(n)]
                wanted[readings._key(reading, objective, name)] = runs
                expected_jobs |= {(str(experiment), k, reading.variant(name), at) for k in range(n)}
    assert set(measured) == set(wanted)
    for key, runs in wanted.items():
        columns = measured[key].regret, measured[key].last_round_step, measured[key].n_rounds
        assert np.array_equal(np.column_stack(columns), runs)
    jobs = [(str(experiment), *rest) for experiment, *rest in asked]
    assert len(jobs) == len(set(jobs)) and set(jobs) == expected_jobs


def test_readings_share_a_key_if_they_share_their_runs():
    grid = [r for r in readings.all_readings("smoke") if r.T == 500]
    grid = [*grid[:32:7], *[r for r in grid if r.problem_choices and len(r.algorithm_choices) == 1][::3]]
    keys, runs = [], []
    for reading in grid:
        for objective in ("garland", "himmelblau", "landmine"):
            for name in ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe", IDENTICAL_FED_PNE):
                experiment = reading.experiment(objective, name, 1, 1)
                at_scale = reading.T, readings.n_runs_of(reading), name, reading.variant(name)
                keys.append(readings._key(reading, objective, name))
                runs.append((experiment.key(*experiment.pairs[0]), *at_scale))
    assert len(set(keys)) == len(set(runs)) == len(set(zip(keys, runs, strict=True))) < len(keys)


def test_the_variant_of_an_algorithm_under_a_reading():
    names = ("pf-pne", "fed-pne", IDENTICAL_FED_PNE, "pe", "fed1-ucb", "fn-ucb", "hct-pyxab")
    whole = ["whole phases", *["whole phases, fed-pne"] * 2, "whole phases, pe", "whole phases, fed1-ucb"]
    said = {
        (cut, theta): [Reading(1.0, 40, 2, {}, {"cut phase": cut, "theta_0": theta}).variant(name) for name in names]
        for cut in ("played", "not begun")
        for theta in ("fixed", "drifting")
    }
    assert said == {
        ("played", "fixed"): [""] * 7,
        ("played", "drifting"): [""] * 5 + ["drifting", ""],
        ("not begun", "fixed"): [*whole, "", ""],
        ("not begun", "drifting"): [*whole, "drifting", ""],
    }


@pytest.mark.parametrize("variant", ["", "made up", "mirrored"])
def test_a_measurement_is_made_once_and_kept(monkeypatch, tmp_path, variant):
    """What is asked for, the variant and how it is measured decide whether it is made anew."""
    monkeypatch.setitem(variants.DEVIATION_VARIANTS, "made up", ("pe", "hct", variants.Partition))
    monkeypatch.setitem(variants.DEVIATION_VARIANTS, "mirrored", ("pe", "hct", variants.Mirrored))
    simulated, keys = [], []

    def played(*arguments):
        simulated.append(arguments)
        rounds = np.array([[3, 8, 1], [7, 8, 1], [19, 2, 1]])
        regret = np.array([[1.0, 4.0, 8.0, 9.0], [2.0, 5.0, 5.5, 40.0]])
        return SimpleNamespace(rounds=rounds, t=np.array([2, 7, 18, 30]), regret=regret)

    made_up = SimpleNamespace(
        algorithms=("fed-pne",), key=lambda *pair: keys.append(pair) or f"{pair}", simulate=played
    )

    def measure(run=4, variant=variant, horizons=(2, 7, 30)):
        return readings.measure_stored(made_up, run, variant, horizons, tmp_path)

    for _ in range(2):
        assert measure() == [[1.5, 0, 0], [4.5, 7, 2], [24.5, 19, 3]]
        assert simulated == [
            ("hct", 4, variants.DEVIATION_VARIANTS[variant][2]) if variant else ("fed-pne", 4, Partition)
        ]
        assert keys.pop() == ("pe" if variant else "fed-pne", 4)
    assert measure(horizons=(18,)) == [[6.75, 7, 2]] and len(simulated) == 2
    assert measure(run=5) == measure() and len(simulated) == 3 and simulated[-1][1] == 5
    monkeypatch.setitem(variants.DEVIATION_VARIANTS, "made up", ("pe", "hct", variants.Mirrored))
    assert measure() and len(simulated) == 3 + (variant == "made up")
    assert measure(variant="made up") and len(simulated) == 4
    assert measure(variant="") and len(simulated) == 4 + (variant != "")
    parts = []
    monkeypatch.setattr(cache, "key", lambda content, *parts_: parts.append(parts_) or "anew")
    assert measure() and len(simulated) == 5 + (variant != "")
    assert parts == [(readings.measure_run, variants.DEVIATION_VARIANTS.get(variant))]  # its code decides, too
    assert len(list((tmp_path / "summaries").iterdir())) == len(simulated)


def test_what_is_measured_is_what_is_simulated(monkeypatch, tmp_path):
    """From a reading to its numbers, against runs made one by one; HCT's at T = 17 is read off a run to 40."""
    monkeypatch.setattr(readings, "FIGURE_OBJECTIVES", ("garland",))
    monkeypatch.setattr(readings, "PAPER_ALGORITHMS", ("pf-pne", "hct-pyxab"))
    choices = {"H_0": 6, "cut phase": "not begun", "HCT's c": "by noise"}
    reading = Reading(0.5, 17, 2, {}, choices)
    measured = readings.measure_readings([reading], (17, 40), 1, None, tmp_path)
    assert len(measured) == 4
    played = {
        "pf-pne": (variants.DEVIATION_VARIANTS["whole phases"][1], 17, {"Delta": 2.0**-6}, {"shift": 0.1}),
        "hct-pyxab": ("hct-pyxab", 40, {"c": max(0.05, 0.7 * 0.5 / np.sqrt(3))}, {"shift": 0.1}),
        "pe": (variants.DEVIATION_VARIANTS["whole phases, pe"][1], 17, {}, {"shift": 0.1}),
        IDENTICAL_FED_PNE: (
            variants.DEVIATION_VARIANTS["whole phases, fed-pne"][1],
            17,
            {},
            {"shift": 0.0, "common_shift": 0.1},
        ),
    }
    for name, (algorithm, T, settings, shifts) in played.items():
        problems = [make_problem("garland", 2, noise=0.5, seed=1, run=run, **shifts) for run in range(2)]
        runs = [simulate(algorithm, problem, T, **settings) for problem in problems]
        steps = [[t for t in run.rounds[:, 0] if t <= 17] for run in runs]
        got = measured[readings._key(reading, "garland", name)]
        assert got.regret == pytest.approx([run.regret[:, list(run.t).index(17)].mean() for run in runs], rel=1e-12)
        assert got.last_round_step.tolist() == [max(s, default=0) for s in steps]
        assert got.n_rounds.tolist() == [len(s) for s in steps]


def irregular(reading: Reading, objective: str, T_scale: int = 1) -> tuple[dict, dict]:
    """Three runs of each algorithm on an objective: made-up measurements, and the regrets by name."""
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe", IDENTICAL_FED_PNE)
    regrets = {name: [number_of(objective, name, run) for run in range(3)] for name in names}
    made = {}
    for name, regret in regrets.items():
        made[readings._key(reading, objective, name)] = MeasuredRuns(np.array(regret), np.zeros(3), np.zeros(3))
    return made, regrets


@pytest.mark.parametrize("competitors", ["HCT, Fed1-UCB, FN-UCB", "Fed1-UCB, FN-UCB"])
def test_every_ratio_is_judged_as_its_row_says(competitors):
    reading = Reading(1.0, 300, 3, {}, {"competitors": competitors})
    meant = {"HCT, Fed1-UCB, FN-UCB": ["hct-pyxab", "fed1-ucb", "fn-ucb"], "Fed1-UCB, FN-UCB": ["fed1-ucb", "fn-ucb"]}
    outcomes = set()
    for statement in readings.STATEMENTS:
        if statement.kind != "ratio":
            continue
        measured, regrets = irregular(reading, statement.objective)
        rivals = sum(([name] if name != "competitors" else meant[competitors] for name in statement.denominators), [])
        ratio = sum(regrets[statement.numerator]) / min(sum(regrets[name]) for name in rivals)
        low = -np.inf if statement.above is None else statement.above
        high = np.inf if statement.below is None else statement.below
        assert readings.judge_statement(statement, reading, measured) == (pytest.approx(ratio), low < ratio < high)
        outcomes.add(low < ratio < high)
    assert outcomes == {True, False}


def test_a_ratio_at_its_bound_is_not_within():
    one = replace(BY_ID["smallest-garland"], below=1.0, above=None)
    assert [one.holds(x) for x in (0.75, 1.0, 1.25)] == [True, False, False]
    both = replace(one, below=1.25, above=0.5)
    assert [both.holds(x) for x in (0.25, 0.5, 0.75, 1.25, 2.0)] == [False, False, True, False, False]
    over = replace(one, below=None, above=2.0)
    assert [over.holds(x) for x in (1.5, 2.0, 2.5)] == [False, False, True]


@pytest.mark.parametrize(
    ("fed", "pf", "rounds", "grows", "stops"),
    [  # T = 300: Fed-PNE's last round has to be after step 30 and after PF-PNE's; H_0 = 6: PF-PNE has 7 rounds
        ((31, 90, 44), (30, 89, 43), (7, 7, 7), True, True),
        ((31, 90, 30), (29, 89, 28), (7, 7, 8), False, False),
        ((31, 90, 44), (31, 89, 43), (7, 7, 7), False, True),
        ((301, 302, 303), (299, 299, 300), (7, 7, 7), True, False),
    ],
)
def test_communication_is_judged_in_every_run(fed, pf, rounds, grows, stops):
    reading = Reading(0.5, 300, 3, {}, {"H_0": 6})
    measured = {
        readings._key(reading, "rastrigin", name): MeasuredRuns(np.ones(3), np.array(last), np.array(n))
        for name, last, n in (("fed-pne", fed, (1, 2, 4)), ("pf-pne", pf, rounds))
    }
    growing, stopping = (replace(BY_ID[f"{x}-garland"], objective="rastrigin") for x in ("fed-grows", "pf-stops"))
    for statement, last, holds in ((growing, fed, grows), (stopping, pf, stops)):
        judged = readings.judge_statement(statement, reading, measured)
        assert judged == (pytest.approx(sum(last) / 3 / 300), holds) and type(judged[1]) is bool


def test_the_largest_distances_are_compared(monkeypatch):
    statement = replace(BY_ID["differ-garland"], objective="doublesine", than="garland")
    Deltas, asked = {"doublesine": 3.0, "garland": 4.0}, []
    monkeypatch.setattr(readings, "_mean_Delta", lambda *what: asked.append(what) or Deltas[what[0]])
    reading = Reading(1.0, 40, 3, {"shift": 0.05})
    assert readings.judge_statement(statement, reading, {}) == (0.75, False)
    assert asked == [("doublesine", 3, 0.05, 1), ("garland", 3, 0.05, 1)]
    Deltas["doublesine"] = 4.0
    assert readings.judge_statement(statement, reading, {}) == (1.0, False)
    Deltas["doublesine"] = 5.0
    assert readings.judge_statement(statement, Reading(1.0, 40, 2), {}) == (1.25, True)
    assert asked[-2:] == [("doublesine", 2, 0.1, 2), ("garland", 2, 0.1, 2)]
    monkeypatch.undo()
    for n in (1, 2, 3):
        distances = [make_problem("garland", 3, 0.15, seed=1, run=run).Delta for run in range(n)]
        assert readings._mean_Delta("garland", 3, 0.15, n) == pytest.approx(sum(distances) / n)


def test_the_search_counts_what_holds(monkeypatch, tmp_path):
    grid = [Reading(0.5, 40, 3, {"shift": 0.2}, {"H_0": 6}), Reading(1.0, 300, 20), Reading(2.0, 40, 21)]
    searched = tuple(BY_ID[name] for name in ("fed-far-rastrigin", "smallest-garland", "pf-stops-garland"))
    outcomes = {
        (0, 0): (0.3, True),
        (0, 1): (1.7, False),
        (0, 2): (0.9, True),
        (1, 0): (2.5, False),
        (1, 1): (0.1, False),
        (1, 2): (0.2, False),
        (2, 0): (7.0, False),
        (2, 1): (8.0, True),
        (2, 2): (9.5, False),
    }

    def measure(of, horizons, n_jobs, bar, folder):
        assert (of, horizons, n_jobs, bar, folder) == (grid, (500, 1_000), 3, "a bar", tmp_path)
        return "measured"

    def judge(statement, reading, measured):
        assert measured == "measured"
        return outcomes[grid.index(reading), searched.index(statement)]

    monkeypatch.setattr(readings, "all_readings", lambda profile: grid if profile == "smoke" else [])
    monkeypatch.setattr(readings, "SEARCHED_STATEMENTS", searched)
    monkeypatch.setattr(readings, "measure_readings", measure)
    monkeypatch.setattr(readings, "judge_statement", judge)
    table = readings.search("smoke", 3, "a bar", tmp_path)
    assert list(table) == [*grid[0].choices, "n", "n_held", "n_statements", "held_ids", *(s.id for s in searched)]
    assert table[list(grid[0].choices)].to_dict("records") == [r.choices for r in grid]
    names = [s.id for s in searched]
    assert table[["n", "n_held", "n_statements", "held_ids", *names]].to_numpy().tolist() == [
        [1, 2, 3, "fed-far-rastrigin pf-stops-garland", 0.3, 1.7, 0.9],
        [2, 0, 3, "", 2.5, 0.1, 0.2],
        [1, 1, 3, "smallest-garland", 7.0, 8.0, 9.5],
    ]
    assert grid[0].choices == {  # the values that were chosen, and the first ones of all others
        **{"noise": 0.5, "T": 40, "M": 3},
        **{name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()},
        **{"shift": 0.2, "H_0": 6},
    }


# --- the confirmation, on made-up numbers -----------------------------------------------------------------------------

ONE_OF_EACH = tuple(
    replace(BY_ID[like], id=id_, objective=objective, **changes)
    for id_, like, objective, changes in [
        ("below", "fed-better-garland", "garland", {"below": 1.1, "above": None}),
        ("above", "fed-far-garland", "himmelblau", {"below": None, "above": 0.9}),
        ("between", "depends-garland", "garland", {"below": 1.3, "above": 0.7}),
        ("apart", "differ-garland", "garland", {"than": "himmelblau"}),
        ("never apart", "differ-garland", "himmelblau", {"than": "garland"}),
        ("grows", "fed-grows-garland", "garland", {}),
        ("stops", "pf-stops-garland", "himmelblau", {}),
        ("tuned", "settings-garland", "garland", {"below": 1.25, "above": 0.8}),
        ("shared", "global-garland", "himmelblau", {"below": 1.2}),
    ]
)
CONFIRMED = Reading(0.5, 300, 3, {"shift": 0.2}, {"H_0": 6, "competitors": "Fed1-UCB, FN-UCB", "theta_0": "drifting"})


def made_up_run(objective: str, name: str, run: int) -> list:
    """[regret, step of the last round, rounds] of one run; PF-PNE's is the last to talk in run 2 alone."""
    last = {"pf-pne": (31, 100, 280), "fed-pne": (32, 120, 270)}.get(name, (0, 0, 0))[run]
    return [number_of(objective, name, run), last, 6 + (run != 1)]


def made_up_summary(experiment) -> pd.DataFrame:
    """The columns that are read of a summary; global regret is there only if it was asked for."""
    asked = experiment.objective, experiment.algorithms, experiment.common_shift, experiment.seed, experiment.horizon
    settings = sorted(experiment.settings.items())
    rows = [[number_of(*asked, settings, kind, run) for kind in ("r", "g", "l")] for run in range(experiment.n_runs)]
    table = pd.DataFrame(rows, columns=["regret", "global_regret", "last_phase_share"])
    return table if experiment.global_regret else table.assign(global_regret=np.nan)


def sign_flips(x: list) -> tuple[float, float]:
    """Of all choices of signs: the share whose sum is at most, and at least, that of the numbers themselves."""
    sums = [sum(s * value for s, value in zip(signs, x, strict=True)) for signs in product((1, -1), repeat=len(x))]
    return tuple(np.mean([side * s <= side * sum(x) + 1e-9 for s in sums]) for side in (1, -1))


@pytest.fixture
def confirmed(monkeypatch, tmp_path) -> pd.DataFrame:
    """What `confirm` makes of the made-up runs of one statement of each kind."""

    def run(function, jobs, n_jobs, bar):
        assert function is readings.measure_stored and (n_jobs, bar) == (2, "a bar")
        for experiment, k, variant, T, folder in jobs:
            (name,) = experiment.algorithms
            assert T == (experiment.horizon,) == (300,) and folder == tmp_path and 0 <= k < experiment.n_runs == 3
            assert (experiment.seed, experiment.n_clients, experiment.noise) == (0, 3, 0.5)
            assert variant == ("drifting" if name == "fn-ucb" else "")
        setups = [(job[0].objective, *job[0].algorithms, job[0].shift, job[0].common_shift, job[1]) for job in jobs]
        assert len(setups) == len(set(setups)) == 3 * 7
        slow = [name in ("fn-ucb", "hct-pyxab") for _, name, *_ in setups]
        assert slow == sorted(slow, reverse=True) and any(slow)
        made = []
        for objective, name, shift, common, k in setups:
            identical = name == "fed-pne" and (shift, common) == (0.0, 0.1)
            assert identical or (shift, common) == (0.2, 0.0)
            made.append(made_up_run(objective, IDENTICAL_FED_PNE if identical else name, k))
        return [[one] for one in made]

    def summarize(experiment, n_jobs, folder):
        assert (n_jobs, folder) == (2, tmp_path) and experiment.n_runs == 3 and experiment.horizon == 300
        return made_up_summary(experiment)

    monkeypatch.setattr(confirmation, "STATEMENTS", ONE_OF_EACH)
    monkeypatch.setattr(confirmation, "run_in_order", run)
    monkeypatch.setattr(confirmation, "summarize", summarize)
    monkeypatch.setattr(stats, "RESAMPLES", 99)
    return confirmation.confirm(CONFIRMED, 3, 2, "a bar", tmp_path)


def test_every_comparison_is_confirmed_as_its_statement_says(confirmed):
    names = {"fed-pne": "Fed-PNE", "pf-pne": "PF-PNE", "fed1-ucb": "Fed1-UCB", "fn-ucb": "FN-UCB"}
    names[IDENTICAL_FED_PNE] = "Fed-PNE with identical clients"
    settings = [("nu_1", 0.5), ("nu_1", 2.0), ("rho", 0.4), ("rho", 0.6), ("c", 0.05), ("c", 0.2)]
    settings += [("c_1", 0.5), ("c_1", 2.0), ("Delta", 0.005), ("Delta", 0.02)]

    def summary(objective, name, **changes):
        return made_up_summary(replace(CONFIRMED.experiment(objective, name, 0, 3), **changes))

    def phase(objective, name):
        in_phases = ("pf-pne", "fed-pne", IDENTICAL_FED_PNE)
        return summary(objective, name)["last_phase_share"].mean() if name in in_phases else 0.0

    expected = []  # (statement, objective, what is compared, a, b, at most, at least, subject, other)
    for statement, objective, over, under, below, above in [
        ("below", "garland", "fed-pne", ("fed1-ucb", "fn-ucb"), 1.1, None),
        ("above", "himmelblau", "fed-pne", ("pf-pne",), None, 0.9),
        ("between", "garland", "fed-pne", (IDENTICAL_FED_PNE,), 1.3, 0.7),
    ]:
        for other in under:
            a, b = ([made_up_run(objective, name, run)[0] for run in range(3)] for name in (over, other))
            what = f"{names[over]} / {names[other]}"
            expected.append((statement, objective, what, a, b, below, above, over, other))
    ours = summary("garland", "pf-pne")["regret"]
    for setting, value in settings:
        moved = summary("garland", "pf-pne", settings={setting: value})["regret"]
        what = f"{setting} = {str(value).removesuffix('.0')}"
        expected.append(("tuned", "garland", what, moved, ours, 1.25, 0.8, "pf-pne", "pf-pne"))
    both = summary("himmelblau", "fed-pne", global_regret=True)
    regrets = both["global_regret"], both["regret"]
    expected.append(("shared", "himmelblau", "global / local", *regrets, 1.2, None, "fed-pne", "fed-pne"))

    tested = confirmed[confirmed["what"].str.contains("[/=]")]
    assert tested[["id", "objective", "what"]].to_numpy().tolist() == [list(row[:3]) for row in expected]
    wins = []
    for (_, row), (statement, objective, what, a, b, below, above, subject, other) in zip(
        tested.iterrows(), expected, strict=True
    ):
        a, b = np.array(a), np.array(b)
        interval = stats.ratio_interval(a, b, stream(0, "statements", statement, what))
        assert (row["ratio"], row["low"], row["high"]) == pytest.approx(interval)
        assert row["ratio"] == pytest.approx(sum(a) / sum(b)) and row["n"] == 3
        inside = [(below is None or x < below) and (above is None or x > above) for x in a / b]
        assert row["wins"] == sum(inside)
        wins.append(sum(inside))
        sides = [] if below is None else [sign_flips(list(a - below * b))]
        sides += [] if above is None else [sign_flips(list(above * b - a))]
        right, wrong = zip(*sides, strict=True)
        assert row["p_right"] == pytest.approx(max(right)) and row["p_wrong"] == pytest.approx(
            min(1, len(sides) * min(wrong))
        )
        assert (row["last_phase_share"], row["other_last_phase_share"]) == pytest.approx(
            (phase(objective, subject), phase(objective, other))
        )
    assert len(set(wins)) > 2  # the numbers are not all on one side


def test_what_is_counted_is_confirmed_in_every_run(confirmed):
    Delta = {
        f: np.array([make_problem(f, 3, 0.2, seed=0, run=run).Delta for run in range(3)])
        for f in ("garland", "himmelblau")
    }
    apart, never = (sum(Delta[f] > Delta[g]) for f, g in (("garland", "himmelblau"), ("himmelblau", "garland")))
    counted = confirmed[~confirmed["what"].str.contains("[/=]")].set_index("id")
    assert apart + never == 3
    of_means = Delta["garland"].mean() / Delta["himmelblau"].mean()
    expected = {  # T/10 = 30; PF-PNE talks last in run 2, and has 6 rounds in run 1, where H_0 + 1 = 7
        "apart": ("difference", of_means, apart),
        "never apart": ("difference", 1 / of_means, never),
        "grows": ("grows", (32 + 120 + 270) / 900, 2),
        "stops": ("stops", (31 + 100 + 280) / 900, 2),
    }
    assert list(counted.index) == list(expected)
    for name, (kind, ratio, wins) in expected.items():
        row = counted.loc[name]
        assert (row["what"], row["n"], row["wins"], row["ratio"]) == (kind, 3, wins, pytest.approx(ratio))
        assert (row["p_right"], row["p_wrong"]) == ((0.0, 1.0) if wins == 3 else (1.0, 0.0))


@pytest.mark.parametrize(
    ("kind", "objective", "last", "rounds", "ratio", "wins"),
    [  # T = 40, H_0 = 7; three runs: the steps of the last rounds of each algorithm, PF-PNE's numbers of rounds
        ("grows", "garland", {"fed-pne": (5, 9, 40), "pf-pne": (4, 8, 39)}, (8, 8, 8), 54 / 120, 3),
        ("grows", "garland", {"fed-pne": (4, 9, 40), "pf-pne": (3, 9, 39)}, (8, 8, 8), 53 / 120, 1),
        ("stops", "ackley", {"pf-pne": (39, 20, 1)}, (8, 8, 8), 60 / 120, 3),
        ("stops", "ackley", {"pf-pne": (40, 20, 1)}, (8, 8, 9), 61 / 120, 1),
    ],
)
def test_a_count_is_right_only_if_it_is_so_in_every_run(kind, objective, last, rounds, ratio, wins):
    statement = replace(next(s for s in readings.STATEMENTS if s.kind == kind), objective=objective)

    def measured_of(f, name):
        assert f == objective
        return MeasuredRuns(np.full(3, np.nan), np.array(last[name], dtype=float), np.array(rounds, dtype=float))

    (row,) = confirmation._compare(statement, Reading(1.0, 40, 2), measured_of, 3, 1, None)
    all_of_it = wins == 3
    assert row == {
        **{"id": statement.id, "objective": objective, "what": kind, "n": 3, "ratio": pytest.approx(ratio)},
        **{"wins": wins, "p_right": 1.0 - all_of_it, "p_wrong": 0.0 + all_of_it},
    }


@pytest.mark.parametrize(("own", "wins"), [((1.0, 2.0, 6.0), 1), ((2.0, 2.5, 6.0), 3)])
def test_as_large_a_distance_is_not_larger(own, wins):
    Delta = {"garland": own, "himmelblau": (1.0, 2.0, 5.0)}

    def experiment(objective, *what):
        assert what == ("pf-pne", 0, 3)
        return SimpleNamespace(problem=lambda run: SimpleNamespace(Delta=Delta[objective][run]))

    statement = BY_ID["differ-garland"]
    (row,) = confirmation._compare(statement, SimpleNamespace(experiment=experiment), None, 3, 1, None)
    assert row["ratio"] == pytest.approx(sum(own) / 8.0) and row["wins"] == wins
    assert (row["p_right"], row["p_wrong"]) == ((0.0, 1.0) if wins == 3 else (1.0, 0.0))


def test_a_tie_with_its_bound_is_no_win(monkeypatch):
    """Of three runs one has the ratio of the bound itself: it is not counted, on either side."""
    monkeypatch.setattr(stats, "RESAMPLES", 99)
    columns = {"fed-pne": np.array([1.0, 4.0, 3.0]), "pf-pne": np.array([2.0, 4.0, 1.0])}
    measured = {name: MeasuredRuns(regrets, np.zeros(3), np.zeros(3)) for name, regrets in columns.items()}
    monkeypatch.setattr(
        confirmation, "summarize", lambda experiment, *_: pd.DataFrame({"last_phase_share": [0.25, 0.5]})
    )
    for below, above, wins in ((1.0, None, 1), (None, 1.0, 1), (1.0, 0.5, 0), (3.0, 0.5, 1), (3.5, 0.75, 2)):
        statement = replace(BY_ID["fed-far-garland"], below=below, above=above)
        (row,) = confirmation._compare(statement, Reading(1.0, 40, 2), lambda f, name: measured[name], 3, 1, None)
        assert (row["wins"], row["last_phase_share"], row["other_last_phase_share"]) == (wins, 0.375, 0.375), (
            below,
            above,
        )


@pytest.mark.parametrize(
    ("name", "played"),
    [("pf-pne", "whole phases"), (IDENTICAL_FED_PNE, "whole phases, fed-pne"), ("hct-pyxab", "")],
)
def test_a_run_of_the_confirmation_is_what_is_simulated(monkeypatch, tmp_path, name, played):
    reading = Reading(0.5, 60, 2, {}, {"cut phase": "not begun"})
    experiment = reading.experiment("garland", name, 0, 2)
    made = readings.measure_stored(experiment, 1, reading.variant(name), (60,), tmp_path)
    shifts = {"shift": 0.0, "common_shift": 0.1} if name == IDENTICAL_FED_PNE else {}
    problem = make_problem("garland", 2, noise=0.5, seed=0, run=1, **shifts)
    run = simulate(variants.DEVIATION_VARIANTS[played][1] if played else name, problem, 60)
    assert made == [[run.regret[:, -1].mean(), max(run.rounds[:, 0], default=0), len(run.rounds)]]
    monkeypatch.setattr(type(experiment), "simulate", lambda *_: pytest.fail("it is kept"))
    assert readings.measure_stored(experiment, 1, reading.variant(name), (60,), tmp_path) == made


@pytest.mark.parametrize("variant", ["", "made up"])
def test_a_stored_run_is_read_unless_it_is_of_a_variant(monkeypatch, tmp_path, variant):
    monkeypatch.setitem(variants.DEVIATION_VARIANTS, "made up", ("pe", "hct", variants.Mirrored))
    stored, anew = (
        SimpleNamespace(rounds=np.array([[step, 1, 1]]), t=np.array([20, 40]), regret=np.array([[1.0, x], [3.0, 5.0]]))
        for step, x in ((11, 2.0), (50, 8.0))
    )
    loaded, played, parts = [], [], []
    monkeypatch.setattr(cache, "load_run", lambda key, folder: loaded.append((key, folder)) or stored)
    monkeypatch.setattr(cache, "key", lambda content, *rest: parts.append((content, *rest)) or f"{len(parts)}")
    made_up = SimpleNamespace(
        algorithms=("fed-pne",),
        key=lambda name, run: f"{name} {run}",
        simulate=lambda *what: played.append(what) or anew,
    )
    at_both = readings.measure_stored(made_up, 3, variant, (40, 20), tmp_path)
    assert at_both == ([[6.5, 0, 0], [2.0, 0, 0]] if variant else [[3.5, 11, 1], [2.0, 11, 1]])
    assert played == ([("hct", 3, variants.Mirrored)] if variant else [])
    assert loaded == ([] if variant else [("fed-pne 3", tmp_path)])
    content = {"run": "pe 3" if variant else "fed-pne 3", "variant": variant, "horizons": (40, 20)}
    assert parts == [(content, readings.measure_run, variants.DEVIATION_VARIANTS.get(variant))]
    monkeypatch.setattr(cache, "load_run", lambda key, folder: None)
    assert readings.measure_stored(made_up, 2, variant, (40,), tmp_path) == [[6.5, 0, 0]]
    assert played[-1] == (("hct", 2, variants.Mirrored) if variant else ("fed-pne", 2, Partition))


def test_the_statements_as_they_are_are_confirmed(monkeypatch, tmp_path):
    """All of the table, from made-up runs: one row per comparison, on seeds that the search has not seen."""
    assert confirmation.CONFIRMATION_SEED != readings.SEARCH_SEED
    monkeypatch.setattr(stats, "RESAMPLES", 9)
    monkeypatch.setattr(confirmation, "summarize", lambda experiment, *_: made_up_summary(experiment))
    monkeypatch.setattr(
        confirmation,
        "measure_stored",
        lambda experiment, run, *_: [made_up_run(experiment.objective, *experiment.algorithms, run)],
    )
    reading = replace(confirmation.complete_reading("printed", "smoke"), T=60)
    table = confirmation.confirm(reading, 2, 1, folder=tmp_path)
    assert set(table["id"]) == set(BY_ID) and (table["n"] == 2).all()
    rows = table.groupby("id").size()
    assert rows["smallest-garland"] == 4 and rows["settings-garland"] == 10  # one for each rival, and for each value
    assert rows["fed-better-garland"] == 2


def test_how_far_a_ratio_is_from_its_bounds():
    ratio = pd.Series([0.5, 2.0, 1.25], index=[7, 3, 5])
    bounds = {(0.8, None): ratio / 0.8, (None, 1.5): 1.5 / ratio, (0.8, 1.5): [1.5 / 0.5, 2.0 / 0.8, 1.25 / 0.8]}
    for (below, above), factors in bounds.items():
        distance = confirmation._distance(ratio, SimpleNamespace(below=below, above=above))
        assert distance.index.tolist() == [7, 3, 5] and distance.tolist() == pytest.approx(np.log(factors).tolist())
    assert confirmation._distance(ratio, SimpleNamespace(below=None, above=None)).tolist() == [0, 0, 0]
