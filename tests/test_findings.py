"""The findings and the grid say what the verdicts and the comparisons say."""

import pandas as pd

from pfpne.paper import claims, findings
from pfpne.paper.findings import SHORT, grid, sentences
from pfpne.paper.looks import DASH

REGIMES = ("bernoulli", "2.0")


def made_up(verdict: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every claim with this verdict in two regimes and, where it may, with either Delta; one comparison a cell."""
    heads = [
        {"id": claim.id, "regime": regime, "Delta": Delta}
        for claim in claims.CLAIMS
        for regime in REGIMES
        for Delta in (claims.GIVEN if claim.by_Delta else ("",))
    ]
    verdicts = pd.DataFrame([{**head, "verdict": verdict, "decided_by": "Garland: 3"} for head in heads])
    compared = pd.DataFrame([{**head, "ratio": 2.0 + k % 7, "mean": -0.25} for k, head in enumerate(heads)])
    return verdicts, compared


def test_every_claim_has_a_line_of_its_own_and_every_verdict_a_sign():
    verdicts, _ = made_up("holds")
    verdicts.loc[(verdicts["id"] == "pf-stops") & (verdicts["regime"] == "2.0"), "verdict"] = "undecided"
    verdicts = verdicts[(verdicts["id"] != "bounded") | (verdicts["regime"] == "2.0")]
    table = grid(verdicts, str.upper)
    assert list(table) == ["Claim", "BERNOULLI", "2.0"] and len(table) == len(claims.CLAIMS)
    assert table["Claim"].is_unique and "PF-PNE has the smallest regret of the paper's five · Garland" in set(
        table["Claim"]
    )
    signs = table.set_index("Claim")
    assert signs.loc[SHORT["pf-stops"]].tolist() == ["\N{CHECK MARK}", "?"]
    assert signs.loc[SHORT["bounded"]].tolist() == [DASH, "\N{CHECK MARK}"]
    assert {findings._parts(claim.id)[0] for claim in claims.CLAIMS} == set(SHORT)


def test_the_sentences_count_what_holds_and_name_the_ends():
    verdicts, compared = made_up("does not hold")
    said = sentences(verdicts, compared, str)
    assert said[0].startswith("**PF-PNE has the smallest regret of the paper's five in 0 of 8 panels**")
    assert "in 0 of 2 regimes** (Garland: 3)" in said[1] and "in 0 of 6 cells" in said[2]
    mine = (verdicts["id"] == "smallest-garland") & (verdicts["regime"] == "2.0") & (verdicts["Delta"] == "0.01")
    verdicts.loc[mine, "verdict"] = "holds"
    compared.loc[mine, "ratio"] = 99.0  # not among those where it does not hold
    compared.loc[(compared["id"] == "smallest-rastrigin") & (compared["regime"] == "2.0"), "ratio"] = 50.0
    said = sentences(verdicts, compared, str)[0]
    assert "in 1 of 8 panels** of the main figure (Garland, 2.0)" in said
    assert said.endswith("to 50 (Rastrigin, 2.0) times that of the best rival.") and "99" not in said


def test_where_all_holds_nothing_is_left_to_say_of_the_rest():
    said = sentences(*made_up("holds"), str)
    assert "in 8 of 8 panels" in said[0] and "Where it has not" not in said[0]
