"""The findings and the grid say what the verdicts and the comparisons say."""

import pandas as pd
import pytest

from pfpne.paper import claims, findings, specification
from pfpne.paper.findings import SHORT, SIGNS, grid, sentences
from pfpne.paper.looks import DASH, title

SCALE = {"n_clients": 20, "horizon": 100_000, "shift": 0.1, "n_runs": 30, "figure_runs": 10, "sweep_runs": 15}
SCALE |= {"clients": "5, 20", "horizons": "10, 100"}
REGIMES = (("bernoulli", "random"), ("2.0", "random"), ("2.0", "cyclic"))


def made_up(verdict: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every claim with this verdict in three columns and, where it may, with either Delta; one comparison a cell."""
    heads = [
        {"id": claim.id, "regime": regime, "cells": cells, "Delta": Delta, "runs": claim.runs.format_map(SCALE)}
        for claim in claims.CLAIMS
        for regime, cells in REGIMES
        for Delta in (claims.GIVEN if claim.by_Delta else ("",))
    ]
    more = {"verdict": verdict, "decided_by": "Garland: 3", "measured": "Garland: none"}
    verdicts = pd.DataFrame([{**head, **more} for head in heads])
    rows = [{**head, "what": "PF-PNE - PE", "ratio": 2.0 + k % 7, "mean": -0.25} for k, head in enumerate(heads)]
    return verdicts, pd.DataFrame(rows)


@pytest.fixture
def readings():
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe")
    rows = [("garland", 1, 2, 3, 4, 5, 6), ("garland", 3, 2, 3, 4, 5, 6), ("rastrigin", 1, 2, 3, 4, 5, 6)]
    phases = {"cut phase": ["played", "not begun", "played"]}
    return pd.DataFrame(rows, columns=["objective", *names]).assign(n=5, **phases)


def test_every_kind_of_claim_has_a_line_and_every_objective_a_sign():
    verdicts, _ = made_up("holds")
    verdicts.loc[(verdicts["id"] == "pf-stops") & (verdicts["cells"] == "cyclic"), "verdict"] = "undecided"
    verdicts.loc[(verdicts["id"] == "smallest-himmelblau") & (verdicts["regime"] == "2.0"), "verdict"] = "does not hold"
    verdicts = verdicts[(verdicts["id"] != "bounded") | (verdicts["regime"] == "2.0")]
    table = grid(verdicts)
    assert list(table) == ["Claim", "Bernoulli rewards", "noise ±2"] and len(table) == len(SHORT)
    ours = {name for name in table["Claim"] if " (ours)" in name}
    assert f"{SHORT['beats-pe']} (ours) · Garland, Himmelblau, Rastrigin, DoubleSine, Ackley, Landmine" in ours
    assert len(ours) == len(findings.OURS)
    signs = table.set_index("Claim")
    first = f"{SHORT['smallest']} · Garland, Himmelblau, Rastrigin, Landmine"
    assert signs.loc[first].tolist() == ["✓ ✓ ✓ ✓", "✓ ✗ ✓ ✓"]
    assert signs.loc[SHORT["pf-stops"]].tolist() == ["✓", "✓/?"]
    assert signs.loc[SHORT["bounded"]].tolist() == [DASH, "✓"]
    assert {findings._parts(claim.id)[0] for claim in claims.CLAIMS} == set(SHORT)
    assert len(set(SIGNS.values())) == len(claims.VERDICTS)


def test_where_a_claim_stands_in_the_paper_decides_whether_the_readme_shows_it():
    places = {claim.id: claim.place for claim in claims.CLAIMS}
    shown = []
    for verdict in claims.VERDICTS:
        verdicts, _ = made_up(verdict)
        verdicts["place"] = verdicts["id"].map(places)
        shown.append(findings.main_text(verdicts)["id"].unique().tolist())
    assert all(some == shown[0] for some in shown)
    assert set(shown[0]) == {
        *(id for id, place in places.items() if place in ("Section 4, Figure 1", "Figure 1", "Table 1")),
        *(id for id, place in places.items() if place.startswith("Theorem")),
    }
    assert {"smallest-landmine", "sublinear-garland"} <= set(shown[0]) and "doublesine-hct" not in shown[0]


def test_the_sentences_count_what_holds_and_name_the_ends(readings):
    verdicts, compared = made_up("does not hold")
    said = sentences(verdicts, compared, readings)
    assert said[0].startswith("**PF-PNE has the smallest regret of the paper's five in 0 of 12 comparisons**")
    assert "Where the contrary was shown (12 of 12)" in said[0] and said[0].endswith("; 0 undecided.")
    assert "50.0% (100.0%) on Garland; 100.0%" not in said[1] and "50.0% (100.0%) on Garland" in said[1]
    assert "means of 5 runs" in said[1] and "on 0 of 6 objectives" in said[3] and "shift 0.1" in said[4]
    assert "0 of 9 cells (9 refuted)" in said[5] and "At M = 20 and T = 100,000, Garland: none" in said[7]
    mine = verdicts["id"].eq("smallest-garland") & verdicts["regime"].eq("2.0") & verdicts["Delta"].eq("0.01")
    mine &= verdicts["cells"] == "cyclic"
    verdicts.loc[mine, "verdict"] = "holds"
    compared.loc[mine, "ratio"] = 99.0  # not among those where it does not hold
    worst = compared["id"].eq("smallest-rastrigin") & compared["regime"].eq("2.0") & compared["cells"].eq("random")
    compared.loc[worst, "ratio"] = 50.0
    said = sentences(verdicts, compared, readings)[0]
    assert "in 1 of 12 comparisons** (objective, noise, kind of cells; Garland, noise ±2, cyclic cells)" in said
    assert said.endswith("to 50 (Rastrigin, noise ±2) times that of the best rival; 0 undecided.") and "99" not in said


def test_of_a_cell_that_is_refuted_the_worst_of_its_comparisons_is_told():
    cell = {"id": "smallest-garland", "regime": "bernoulli", "cells": "random", "Delta": "0.01"}
    other = cell | {"id": "smallest-rastrigin"}
    verdicts = pd.DataFrame([{**cell, "verdict": "does not hold"}, {**other, "verdict": "does not hold"}])
    compared = pd.DataFrame([{**of, "ratio": x} for of, x in ((cell, 1.5), (cell, 3.0), (other, 0.9), (other, 7.0))])
    told = findings._Verdicts(verdicts, compared).span("smallest", "ratio", refuted=True)
    assert told == "3 (Garland, Bernoulli rewards) to 7 (Rastrigin, Bernoulli rewards)"


def test_where_all_holds_nothing_is_left_to_say_of_the_rest(readings):
    said = sentences(*made_up("holds"), readings)
    assert "in 12 of 12 comparisons" in said[0] and "Where the contrary" not in said[0]


@pytest.mark.parametrize(
    ("verdict", "words"), [("undecided", "no cell of 9 decided (9 undecided)"), ("holds", "9 of 9 cells")]
)
def test_what_became_of_each_cell_is_said(verdict, words):
    found = findings._Verdicts(*made_up(verdict))
    assert found.decided("falls-with-M") == words
    assert found.decidable("good-event").startswith(f"{3 * (verdict == 'holds')} of the 3 decidable columns")


def test_the_runs_are_told_once():
    told = findings.scale(made_up("holds")[0])
    assert told.startswith("M = 20 clients, T = 100,000 evaluations a client, shift 0.1")
    assert "n = 30 paired runs (15 where many values are swept, 10 at 10 T)" in told


def test_what_changes_with_T_is_a_ratio_an_objective():
    verdicts, compared = made_up("holds")
    compared["what"] = "PF-PNE - HCT (PyXAB)"
    found = findings._Verdicts(verdicts, compared).against("HCT (PyXAB)", ("sooner", "smallest", "later"), "2.0")
    ratio = compared[(compared["regime"] == "2.0") & (compared["Delta"] == "0.01")].drop_duplicates("id")
    ratio = ratio.set_index("id")["ratio"]
    three = ("garland", "himmelblau", "rastrigin")
    each = {f: ", ".join(f"{ratio[f'{k}-{f}']:g}" for k in ("sooner", "smallest", "later")) for f in three}
    assert found == "; ".join(f"{title(f)} {ratios}" for f, ratios in each.items())


def test_shares_of_readings(readings):
    shares = specification.shares(readings)
    assert list(shares) == ["garland", "rastrigin"] and shares.iloc[0].tolist() == [0.5, 1.0]
    held = specification.right(readings)
    assert held["PF-PNE has less regret than PE alone"].all()
    assert not held[list(specification.COMPARISONS)[-1]].any()  # Fed-PNE is behind all three
