"""Tables: the Markdown, the LaTeX and the CSV of one say the same; the pages show the committed numbers."""

from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.exhibits import deviations, pages, table1, verdict_tables
from pfpne.paper.show.export import Exhibit, in_latex
from pfpne.paper.show.style import DASH
from pfpne.paths import SHIPPED as CHECKOUT

EVIDENCE = SimpleNamespace(
    n_clients=20,
    horizon=100_000,
    horizons=(50_000, 100_000),
    clients=(5, 10, 20, 40, 80),
    n_runs=30,
    sweep_runs=15,
    figure_runs=10,
    shift=0.1,
    regimes=(SimpleNamespace(noise="bernoulli"),),
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
    columns=["id", "place", "statement", "regime", "cells", "Delta", "verdict", "decided_by", "p_right", "measured"],
)
VERDICTS = VERDICTS.assign(
    whose=VERDICTS["id"].map({"field": "ours"}).fillna("the paper's"),
    once=VERDICTS["id"].map({"stops": "once"}).fillna(""),
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
    table = verdict_tables.claim_cells(VERDICTS)
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
    assert verdict_tables.claim_cells(kept).to_numpy().tolist() == SHOWN and verdict_tables.tally(
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
    row |= {"rounds_per_doubling": 50_000.0, "one_phase": "60% of T is one phase"}
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
        "regime": ["0.1"],
        "cells": ["random"],
        "objective": ["garland"],
        "runs": [10],
        **{name: [1 / 3] for name in verdict_tables.PAPER_ALGORITHMS},
    }
    monkeypatch.setattr(
        verdict_tables, "times_by_objective", lambda study: pd.DataFrame({**seconds, "slower": [0.8], "alike": [1.0]})
    )
    times = verdict_tables.tabulate_times(EVIDENCE)
    assert rows_of_markdown(times.shown["text/markdown"]) == [
        ["0.1", "random", "garland", "10", *["0.333"] * 5, "80%", "100%"]
    ]
    cells = [(1, "pf-pne", "one", "garland", 1.5, 1.25, np.nan), (1, "pf-pne", "one", "ackley", 1.0, 1.0, 1.0)]
    cells += [(2, "pe", "two", "ackley", 0.5, 0.25, 0.75), (1, "pe", "one", "garland", 0.5, np.nan, np.nan)]
    names = ["deviation", "algorithm", "other reading", "objective", "ratio", "low", "high"]
    assert deviations.table_cells(pd.DataFrame(cells, columns=names)).to_numpy().tolist() == [
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
