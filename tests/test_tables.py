"""Tables: the Markdown, the LaTeX and the CSV of one say the same; the pages show the committed numbers."""

import zlib
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne import make_problem, simulate
from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import ClaimCondition, Study
from pfpne.paper.claims.outcomes import long_last_phase_reason
from pfpne.paper.exhibits import deviations, pages, table1, verdict_tables
from pfpne.paper.show.export import Exhibit, in_latex
from pfpne.paper.show.style import DASH
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.rng import stream

EVIDENCE = SimpleNamespace(
    n_clients=20,
    horizon=100_000,
    horizons=(50_000, 100_000),
    client_counts=(5, 10, 20, 40, 80),
    claim_runs=30,
    sweep_runs=15,
    figure_runs=10,
    shift=0.1,
    claim_conditions=(SimpleNamespace(noise="bernoulli"),),
)
FIRST, SECOND, THIRD = (
    ("smallest", "Figure 1", "PF-PNE | 50%"),
    ("stops", "Remark 3.5", "at most H_0 + 1"),
    ("field", "Section 4", "on Landmine"),
)
VERDICTS = pd.DataFrame(
    [  # two claims with two Delta, one counted, one on landmine alone
        (*FIRST, "bernoulli", "random", "0.01", "does not hold", "A / B = 1.4", 0.9, "A - B: 2"),
        (*FIRST, "bernoulli", "random", "true", "holds", "A / B = 0.7", 0.01, "A - B: -2"),
        (*FIRST, "0.1", "random", "0.01", "holds", "rho = 0.4", 0.02, "A - B: -1"),
        (*FIRST, "0.1", "random", "true", "holds", "rho = 0.6", 0.02, "A - B: -1"),
        (*SECOND, "bernoulli", "random", "", "undecided", "", np.nan, "never"),
        (*THIRD, "landmine", "random", "0.01", "does not hold", "slope: 1", 1.0, "-"),
        (*FIRST, "bernoulli", "cyclic", "0.01", "does not hold", "A / B = 1.3", 0.9, "A - B: 2"),
        (*FIRST, "bernoulli", "cyclic", "true", "undecided", "A / B = 1.1", 0.9, "A - B: 2"),
        (*SECOND, "bernoulli", "cyclic", "", "not decidable", "too short", np.nan, "never"),
    ],
    columns=[
        "id",
        "where_in_paper",
        "hypothesis",
        "noise",
        "cells",
        "Delta",
        "verdict",
        "decided_by",
        "p_right",
        "measured",
    ],
)
VERDICTS = VERDICTS.assign(
    whose=VERDICTS["id"].map({"field": "ours"}).fillna("the paper's"),
    over_noises=VERDICTS["id"].map({"stops": "once"}).fillna(""),
)
BOTH = "does not hold (A / B = 1.4); true Delta: holds (A / B = 0.7); cyclic cells, true Delta: undecided (A / B = 1.1)"
SHOWN = [
    ["Figure 1", "PF-PNE | 50%", BOTH, "holds (rho = 0.4)", DASH],
    ["Remark 3.5", "at most H_0 + 1", "undecided; cyclic cells: not decidable (too short)", DASH, DASH],
    ["ours, on Section 4", "on Landmine", DASH, DASH, "does not hold (slope: 1)"],
]


@pytest.fixture
def exhibit(monkeypatch) -> Exhibit:
    monkeypatch.setattr(verdict_tables, "evaluate_claims", lambda study: (VERDICTS, VERDICTS[["id"]], VERDICTS[["id"]]))
    return verdict_tables.tabulate_claims(EVIDENCE)


def rows_of_markdown(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace(r"\|", "|") for cell in line[1:-1].split(" | ")] for line in lines[2:]]


def rows_of_latex(text: str) -> list[list[str]]:
    body = text.split(r"\endlastfoot")[-1].split(r"\midrule")[-1]
    lines = [line.removeprefix(r"\addlinespace ") for line in body.splitlines() if line.endswith(r" \\")]
    return [[cell.strip() for cell in line.removesuffix(r"\\").split(" & ")] for line in lines]


def test_verdicts_are_shown_a_row_a_claim():
    table = verdict_tables.claims_as_strings(VERDICTS)
    headings = ["Bernoulli rewards", "noise \N{PLUS-MINUS SIGN}0.1", "landmine, no noise"]
    assert list(table.columns) == ["In the paper", "Claim, as tested", *headings]
    assert table.to_numpy().tolist() == SHOWN
    assert verdict_tables.tally(VERDICTS) == (  # of the claim whatever the noise, one
        "Of 4 verdicts on claims of the paper, 1 are shown, 2 refuted, 1 open. "
        "Of 1 verdicts on questions of ours, 0 are shown, 1 refuted, 0 open."
    )
    heads = verdict_tables.counts_by_column(VERDICTS).set_index("Column")
    assert list(heads.index) == [
        *("Bernoulli rewards, random cells", "noise \N{PLUS-MINUS SIGN}0.1, random cells", verdict_tables.EVERY_NOISE),
        *("landmine, no noise, random cells", "Bernoulli rewards, cyclic cells"),
    ]
    assert heads.loc["landmine, no noise, random cells", "refuted"] == "0 + 1"
    assert heads.loc[verdict_tables.EVERY_NOISE, "open"] == "1 + 0"


def test_the_files_of_the_claims_agree(exhibit):
    kept = pd.read_csv(BytesIO(exhibit.files["claims.csv"]), dtype=str, keep_default_na=False)
    assert verdict_tables.claims_as_strings(kept).to_numpy().tolist() == SHOWN and verdict_tables.tally(
        kept
    ) == verdict_tables.tally(VERDICTS)
    assert rows_of_markdown(exhibit.shown["text/markdown"]) == SHOWN
    latex = exhibit.files["claims.tex"].decode()
    assert rows_of_latex(latex) == [[in_latex(cell) for cell in row] for row in SHOWN]
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")
    assert latex.count(in_latex(exhibit.caption)) == 1 and "The same, continued." in latex
    measured = rows_of_markdown(exhibit.details)
    assert measured[0] == [
        "smallest",
        "the paper's",
        "Bernoulli rewards",
        "random",
        "0.01",
        "does not hold",
        "A - B: 2",
    ]
    assert len(measured) == len(VERDICTS) and exhibit.details in exhibit.files["claims.md"].decode()
    assert exhibit == verdict_tables.tabulate_claims(EVIDENCE)  # the same bytes twice


def test_the_files_of_table_1_agree(monkeypatch):
    row = {"n": 10, "local": 1234.5, "local_sd": 10.0, "global": 50.0, "global_sd": np.nan}
    row |= {"M_slope": -0.25, "M_low": -0.5, "M_high": -0.001, "rounds": 8.0, "numbers": 3e9, "noise": "bernoulli"}
    row |= {"rounds_per_doubling": 50_000.0, "undecidable_reason": "60% of T is one phase"}
    heads = []
    for name in ("hoo", "fed-pne", "pe"):
        stated = table1.STATED.get(name, table1.Stated())
        head = {"algorithm": name, "stated_regret": stated.stated_regret, "stated_rounds": stated.stated_rounds}
        heads += [{**head, "personalized": stated.personalized, "objective": f, **row} for f in ("garland", "ackley")]
    monkeypatch.setattr(table1, "measure", lambda study: pd.DataFrame(heads))
    found = table1.tabulate(EVIDENCE)
    rows = rows_of_markdown(found.files["table1.md"].decode())
    numbers = ["1,234 (10)", "50", f"-0.25 [-0.50, 0.00]{table1.NO_FIT}", "8", "50,000", "3,000,000,000"]
    assert rows[0] == ["HOO", f"${table1.STATED['hoo'].stated_regret}$", "N.A.", "yes", "Garland", *numbers]
    assert rows[1] == ["", "", "", "", "Ackley", *numbers]
    assert rows[2][0] == "Fed-PNE*" and rows[4][:4] == ["PE", DASH, DASH, DASH]
    latex = found.files["table1.tex"].decode()
    assert rows_of_latex(latex) == [[in_latex(cell) for cell in row] for row in rows]
    assert latex.count(r"\addlinespace") == 2 and r"\multicolumn{2}{c}{Rounds}" in latex


def test_latex_is_escaped_and_symbols_are_formulas():
    assert in_latex("Delta = 5 % of nu_1") == r"$\Delta$ = 5 \% of $\nu_1$"
    assert in_latex("$c_1$ stays, claims_times.csv & rho") == r"$c_1$ stays, claims\_times.csv \& $\rho$"
    assert in_latex("c^2 {a} ~ #_") == r"c\^{}2 \{a\} \~{} \#\_"
    assert in_latex("1\N{EN DASH}2 \N{PLUS-MINUS SIGN}0.1") == r"1--2 $\pm$0.1"


def test_times_and_ratios_are_shown(monkeypatch):
    seconds = {
        "noise": ["0.1"],
        "cells": ["random"],
        "objective": ["garland"],
        "runs": [10],
        **{name: [1 / 3] for name in verdict_tables.PAPER_ALGORITHMS},
    }
    monkeypatch.setattr(
        verdict_tables, "times_by_objective", lambda study: pd.DataFrame({**seconds, "slower": [0.8], "similar": [1.0]})
    )
    times = verdict_tables.tabulate_times(EVIDENCE)
    assert rows_of_markdown(times.shown["text/markdown"]) == [
        ["0.1", "random", "garland", "10", *["0.333"] * 5, "80%", "100%"]
    ]
    cells = [(1, "pf-pne", "one", "garland", 1.5, 1.25, np.nan), (1, "pf-pne", "one", "ackley", 1.0, 1.0, 1.0)]
    cells += [(2, "pe", "two", "ackley", 0.5, 0.25, 0.75), (1, "pe", "one", "garland", 0.5, np.nan, np.nan)]
    names = ["deviation", "algorithm", "other_choice", "objective", "ratio", "low", "high"]
    assert deviations.as_strings(pd.DataFrame(cells, columns=names)).to_numpy().tolist() == [
        ["*1*", "pf-pne", "one", "1.500 [1.250, nan]", "1 in every run"],
        ["*2*", "pe", "two", DASH, "0.500 [0.250, 0.750]"],
        ["*1*", "pe", "one", "0.500", DASH],
    ]


def test_a_block_is_put_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- claims: begin -->\nstale\n<!-- claims: end -->\nafter\n")
    for _ in range(2):
        pages.update_block(page, "claims", "fresh\n")
        assert page.read_text() == "before\n<!-- claims: begin -->\nfresh\n<!-- claims: end -->\nafter\n"
    with pytest.raises(ValueError, match="needs the lines"):
        pages.update_block(page, "measured", "block")


@pytest.mark.skipif(not (CHECKOUT / "figures" / "claims.csv").exists(), reason="notebook 4 makes it first")
def test_the_pages_show_what_is_committed(tmp_path):
    names = ("README.md", *(path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "docs").glob("*.md")))
    (tmp_path / "docs").mkdir()
    for page in names:
        (tmp_path / page).write_text((CHECKOUT / page).read_text(encoding="utf-8"), encoding="utf-8")
    pages.update_pages(tmp_path, CHECKOUT / "figures")
    for page in names:
        same = (tmp_path / page).read_text(encoding="utf-8") == (CHECKOUT / page).read_text(encoding="utf-8")
        assert same, f"{page}: run `python -m pfpne.paper readme`"


def number_of(*parts) -> float:
    """An irregular number from 1 to 100 that depends on all the parts and on their order."""
    return 1 + 99 * float(np.random.default_rng(zlib.crc32(repr(parts).encode())).random())


class MadeUpStudy(SimpleNamespace):
    """A study with made-up runs: each number depends on what was asked for, and nothing is simulated."""

    def summaries(self, objective, algorithm, noise, n_runs, **changes) -> pd.DataFrame:
        self.asked.append((objective, algorithm, noise, n_runs, changes))
        told = {name: changes[name] for name in sorted(changes)}
        columns = ("regret", "global_regret", "n_rounds", "numbers", "last_phase_share")
        rows = [[number_of(objective, algorithm, noise, told, kind, run) for kind in columns] for run in range(n_runs)]
        table = pd.DataFrame(rows, columns=columns)
        table["last_phase_share"] *= 0.002 * changes.get("n_clients", 0)  # one phase is most of T where M is large
        return (
            table if algorithm not in self.silent else table.assign(n_rounds=[0.0, *table["n_rounds"][1:]], numbers=0.0)
        )


def made_up_study(n_runs: int, **changes) -> MadeUpStudy:
    conditions = (SimpleNamespace(noise=0.5), SimpleNamespace(noise="bernoulli"))
    scale = {
        "claim_conditions": conditions,
        "figure_runs": n_runs,
        "claim_runs": 7,
        "seed": 3,
        "horizon": 60,
        "horizons": (15, 30, 60),
    }
    return MadeUpStudy(**scale | {"client_counts": (2, 3, 5, 11), "n_clients": 3, "silent": (), "asked": []} | changes)


def test_table_1_has_a_row_for_each_algorithm_and_objective(monkeypatch):
    monkeypatch.setattr(table1, "_row", lambda study, name, objective: {"algorithm": name, "objective": objective})
    table = table1.measure(EVIDENCE)
    pairs = list(zip(table["algorithm"], table["objective"], strict=True))
    ours = [name for name in UNLIMITED_ALGORITHMS if name not in table1.STATED]
    names = ["hoo", "blin", "centralized", "fed-pne", "pf-pne", *ours]
    assert len(ours) > 3 and pairs == [(name, f) for name in names for f in ("garland", "himmelblau", "rastrigin")]


@pytest.mark.parametrize(
    ("name", "n_runs", "changes", "has_slopes", "talks"),
    [
        ("fed-pne", 4, {}, True, True),
        ("pf-pne", 3, {"client_counts": (2, 3, 5, 7, 9)}, True, True),
        ("pf-pne", 1, {"horizons": (30, 60)}, True, True),
        ("centralized", 4, {"silent": ("centralized",)}, True, False),  # one run of four has no round
        ("fed1-ucb", 4, {"horizons": (60,)}, False, False),  # not in the paper's table; T is never doubled
        ("hoo", 2, {"silent": ("hoo",)}, False, False),
    ],
)
def test_a_row_of_table_1_recomputed(name, n_runs, changes, has_slopes, talks):
    study = made_up_study(n_runs, **changes)
    row = table1._row(study, name, "garland")
    at_T, before = (
        study.summaries("garland", name, 0.5, n_runs, horizon=T, global_regret=True)
        for T in (60, study.horizons[-2 if len(study.horizons) > 1 else -1])
    )
    stated = table1.STATED.get(name, ("", "", ""))
    expected = {"algorithm": name, "stated_regret": stated[0], "stated_rounds": stated[1], "personalized": stated[2]}
    expected |= {"objective": "garland", "noise": 0.5, "n": n_runs}
    for kind, column in (("local", "regret"), ("global", "global_regret")):
        values = list(at_T[column])
        mean = sum(values) / n_runs
        spread = sum((x - mean) ** 2 for x in values) / (n_runs - 1) if n_runs > 1 else np.nan
        expected |= {kind: mean, f"{kind}_sd": spread**0.5}
    expected |= {"M_slope": np.nan, "M_low": np.nan, "M_high": np.nan, "undecidable_reason": ""}
    if has_slopes:
        clients = study.client_counts[:-1]
        at_M = [
            study.summaries("garland", name, 0.5, n_runs, n_clients=M, shift=0.0, common_shift=0.1) for M in clients
        ]
        regrets = np.stack([table["regret"] for table in at_M], axis=1)
        slopes = stats.growth_exponents(clients, regrets)
        assert slopes == pytest.approx(np.polyfit(np.log(clients), np.log(regrets.T), 1)[0])
        low, high = stats.mean_interval(slopes, stream(3, "table 1", name, "garland"))
        expected |= {"M_slope": slopes.mean(), "M_low": low, "M_high": high}
        expected["undecidable_reason"] = long_last_phase_reason(at_M[-1]["last_phase_share"])
    expected |= {"rounds": at_T["n_rounds"].mean(), "numbers": at_T["numbers"].mean()}
    expected["rounds_per_doubling"] = (at_T["n_rounds"] - before["n_rounds"]).mean() if talks else np.nan
    assert list(row) == list(expected)
    for column, value in expected.items():
        same = row[column] == value if isinstance(value, str) else row[column] == pytest.approx(value, nan_ok=True)
        assert same, column


def test_a_fit_of_one_phase_is_marked():
    """Of five runs each, at the largest M that is fitted: 9 clients here, and 2 there."""
    marks = {
        name: table1._slopes_of_M(made_up_study(5, client_counts=clients), "himmelblau", name)[1]
        for name, clients in (("pf-pne", (2, 9, 40)), ("fed-pne", (1, 2, 9)))
    }
    assert marks["fed-pne"] == "" and marks["pf-pne"].endswith("of T is one phase")


@pytest.mark.parametrize("name", ["fed-pne", "fn-ucb"])
def test_what_table_1_shows_at_each_horizon_is_what_is_simulated(tmp_path, name):
    """FN-UCB's numbers at shorter horizons are read off the run to the longest."""
    study = Study(
        2, 40, 3, 2, (ClaimCondition("0.5", 0.5, ("garland",)),), shift=0.2, seed=3, n_jobs=1, folder=tmp_path
    )
    study = replace(study, horizon=24)
    found = table1._at_horizons(study, "garland", name)
    assert set(found) == {"local", "global", "rounds", "numbers"} and study.horizons == (1, 3, 6, 12, 24)
    for run in range(2):
        problem = make_problem("garland", 2, 0.2, 0.5, seed=3, run=run)
        for k, T in enumerate(study.horizons):
            one = simulate(name, problem, 24 if name == "fn-ucb" else T, global_regret=True)
            at, talked = list(one.t).index(T), one.rounds[one.rounds[:, 0] <= T]
            assert found["local"][run, k] == pytest.approx(one.regret[:, at].mean())
            assert found["global"][run, k] == pytest.approx(one.global_regret[:, at].mean())
            assert (found["rounds"][run, k], found["numbers"][run, k]) == (len(talked), talked[:, 1:].sum())
    assert {values.shape for values in found.values()} == {(2, 5)}


def test_between_checkpoints_a_curve_is_straight(monkeypatch):
    """Two runs of FN-UCB, two and three rounds, read at horizons that are no checkpoints; the first has one at 15."""
    curves = SimpleNamespace(
        t=np.array([10, 20, 60]),
        regret=np.array([[1.0, 4.0, 12.0], [3.0, 5.0, 20.0]]),
        global_regret=np.array([[0.0, 3.0, 7.0], [1.0, 2.0, 2.0]]),
    )
    talked = ([(15, 7, 2), (31, 3, 1)], [(14, 1, 1), (29, 4, 2), (60, 5, 8)])
    runs = {}
    for run, rounds in enumerate(talked):
        table = pd.DataFrame(rounds, columns=["t", "numbers up", "numbers down"])
        runs["fn-ucb", run] = SimpleNamespace(
            **vars(curves) | {"regret": curves.regret * (run + 1)}, communication=table
        )
    asked = []
    monkeypatch.setattr(
        table1, "run_experiment", lambda *what, **how: asked.append((what, how)) or SimpleNamespace(runs=runs)
    )
    study = made_up_study(2, experiment=lambda *what, **how: (what, how), n_jobs=5, folder="a folder")
    found = table1._at_horizons(study, "himmelblau", "fn-ucb")
    assert asked == [
        (((("himmelblau", "fn-ucb", 0.5, 2), {"global_regret": True}),), {"n_jobs": 5, "folder": "a folder"})
    ]
    local = np.array([3.25, 4.5 + 0.25 * 11.5, 16.0])  # means over the clients: 2, 4.5, 16 at 10, 20, 60
    np.testing.assert_allclose(found["local"], [local, 2 * local])
    np.testing.assert_allclose(found["global"], [[1.5, 2.5 + 0.25 * 2.0, 4.5]] * 2)
    assert found["rounds"].tolist() == [[1, 1, 2], [1, 2, 3]]
    assert found["numbers"].tolist() == [[9, 9, 13], [2, 8, 21]]


def test_exponents_of_T_recomputed(monkeypatch):
    """A regret that is four times as large at twice the T has the exponent 2; none is where regret was 0."""
    monkeypatch.setattr(stats, "RESAMPLES", 99)
    study = made_up_study(3, horizons=(15, 30, 60))
    regrets = {name: np.array([[1.0, 4.0, 9.0], [2.0, 3.0, 5.0], [7.0, 7.0, 8.0]]) for name in ("pf-pne", "pe")}
    regrets["hoo"] = np.array([[0.0, 4.0, 8.0], [2.0, 3.0, 5.0], [7.0, 7.0, 8.0]])
    monkeypatch.setattr(table1, "ONE_PER_DIMENSION", ("garland", "ackley"))
    scale = {"garland": 1.0, "ackley": np.array([1.0, 2.0, 3.0])}
    monkeypatch.setattr(
        table1,
        "_at_horizons",
        lambda s, f, name: {"local": regrets.get(name, regrets["pe"]) * scale[f], "global": None},
    )
    table = table1.exponents(study).set_index(["algorithm", "objective", "T"])
    assert len(table) == 2 * 2 * len({*table1.STATED, *UNLIMITED_ALGORITHMS}) and set(table["n"]) == {3}
    for name, objective in (("pf-pne", "garland"), ("pe", "ackley"), ("hoo", "garland")):
        values, rng = regrets[name] * scale[objective], stream(3, "exponents", name, objective)
        for k, T in enumerate((30, 60)):
            exponents = [np.nan] * 3 if name == "hoo" and k == 0 else np.log2(values[:, k + 1] / values[:, k])
            expected = [np.mean(exponents), *stats.mean_interval(np.array(exponents), rng)]
            row = table.loc[(name, objective, T)]
            assert row[["exponent", "low", "high"]].to_list() == pytest.approx(expected, nan_ok=True)


def test_what_the_primary_family_comes_to_without_the_rule_on_phases():
    rows = [("garland", 0.01, 1.0, "open"), ("rastrigin", 1.0, 0.05, "open"), ("landmine", 0.06, 0.9, "open")]
    table = pd.DataFrame([*rows, ("all", np.nan, np.nan, None)], columns=["objective", "p_right", "p_wrong", "verdict"])
    said = verdict_tables.without_phase_rule(table)
    assert said == "Without the rule on unfinished phases 1 would be shown, 1 refuted and 1 open."
