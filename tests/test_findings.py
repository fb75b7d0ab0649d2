"""The findings and the table of signs say what the verdicts and the comparisons say."""

import pandas as pd
import pytest

from pfpne.paper.claims import verdicts as claims
from pfpne.paper.exhibits import findings, specification
from pfpne.paper.exhibits.findings import SIGNS, TOPICS_IN_WORDS, sentences, sign_table
from pfpne.paper.show.style import DASH, title

SCALE = {"n_clients": 20, "horizon": 100_000, "shift": 0.1, "claim_runs": 30, "figure_runs": 10, "sweep_runs": 15}
SCALE |= {"client_counts": "5, 20", "horizons": "10, 100"}
CONDITIONS = (("bernoulli", "random"), ("2.0", "random"), ("2.0", "cyclic"))


def made_up(verdict: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every claim with this verdict in three columns and, where it may, with either Delta; one comparison a cell."""
    heads = [
        {
            **{"id": claim.id, "noise": noise, "cells": cells, "Delta": Delta},
            "runs": claim.runs_in_words.format_map(SCALE),
        }
        for claim in claims.CLAIMS
        for noise, cells in CONDITIONS
        for Delta in (claims.PF_PNE_DELTAS if claim.by_Delta else ("",))
    ]
    more = {
        "verdict": verdict,
        "decided_by": "Garland: 3",
        "measured": "Garland: eliminated of 2.5 of 20 clients on average",
    }
    verdicts = pd.DataFrame([{**head, **more} for head in heads])
    rows = [{**head, "what": "PF-PNE - PE", "ratio": 2.0 + k % 7, "mean": -0.25} for k, head in enumerate(heads)]
    return verdicts, pd.DataFrame(rows)


@pytest.fixture
def specifications():
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe")
    rows = [("garland", 1, 2, 3, 4, 5, 6), ("garland", 3, 2, 3, 4, 5, 6), ("rastrigin", 1, 2, 3, 4, 5, 6)]
    phases = {"cut phase": ["played", "not begun", "played"]}
    return pd.DataFrame(rows, columns=["objective", *names]).assign(n=5, noise="bernoulli", **phases)


def test_every_kind_of_claim_has_a_line_and_every_objective_a_sign():
    verdicts, _ = made_up("holds")
    verdicts.loc[(verdicts["id"] == "pf-stops") & (verdicts["cells"] == "cyclic"), "verdict"] = "undecided"
    verdicts.loc[(verdicts["id"] == "smallest-himmelblau") & (verdicts["noise"] == "2.0"), "verdict"] = "does not hold"
    verdicts = verdicts[(verdicts["id"] != "bounded") | (verdicts["noise"] == "2.0")]
    table = sign_table(verdicts)
    assert list(table) == ["Claim", "Bernoulli rewards", "noise ±2"] and len(table) == len(TOPICS_IN_WORDS)
    ours = {name for name in table["Claim"] if " (ours)" in name}
    assert (
        f"{TOPICS_IN_WORDS['beats-pe']} (ours) · Garland, Himmelblau, Rastrigin, DoubleSine, Ackley, Landmine" in ours
    )
    assert len(ours) == len(findings.OUR_TOPICS)
    signs = table.set_index("Claim")
    first = f"{TOPICS_IN_WORDS['smallest']} · Garland, Himmelblau, Rastrigin, Landmine"
    assert signs.loc[first].tolist() == ["✓ ✓ ✓ ✓", "✓ ✗ ✓ ✓"]
    assert signs.loc[TOPICS_IN_WORDS["pf-stops"]].tolist() == ["✓", "✓/?"]
    assert signs.loc[TOPICS_IN_WORDS["bounded"]].tolist() == [DASH, "✓"]
    assert {claim.topic for claim in claims.CLAIMS} == set(TOPICS_IN_WORDS)
    assert len(set(SIGNS.values())) == len(claims.VERDICTS)


def test_the_sentences_count_groups_of_verdicts(specifications):
    verdicts, compared = made_up("does not hold")
    said = sentences(verdicts, compared, specifications)
    assert "0/12/0; with the true Delta: 0/12/0." in said[0] and "unfinished" not in said[0]
    assert "it has 2 to 8 times a rival's regret" in said[0]
    assert "Garland 50%; Rastrigin 100%" in said[1] and "fail on 6 of 6 objectives" in said[3]
    assert said[6].endswith("**Privacy** is refuted: Garland: 3.")
    garland = verdicts["id"].eq("smallest-garland") & verdicts["noise"].eq("2.0") & verdicts["Delta"].eq("0.01")
    garland &= verdicts["cells"] == "cyclic"
    verdicts.loc[garland, "verdict"] = "holds"
    compared.loc[garland, "ratio"] = 99.0  # not among those that are refuted
    worst = compared["id"].eq("smallest-rastrigin") & compared["noise"].eq("2.0") & compared["cells"].eq("random")
    compared.loc[worst, "ratio"] = 50.0
    said = sentences(verdicts, compared, specifications)[0]
    assert "1/11/0; with" in said and said.endswith("has 2 to 50 times a rival's regret.")


def test_of_a_refuted_case_the_worst_rival_is_told():
    place = {"id": "smallest-garland", "noise": "bernoulli", "cells": "random", "Delta": "0.01"}
    other = place | {"id": "smallest-rastrigin"}
    verdicts = pd.DataFrame([{**place, "verdict": "does not hold"}, {**other, "verdict": "does not hold"}])
    compared = pd.DataFrame([{**p, "ratio": x} for p, x in ((place, 1.5), (place, 3.0), (other, 0.9), (other, 7.0))])
    assert findings._ClaimResults(verdicts, compared).range_in_words("smallest", "ratio", refuted=True) == "3 to 7"


def test_what_a_phase_leaves_open_is_counted_with_who_is_ahead():
    """Four cases: one is refuted; of the three that a phase leaves open, a rival is ahead in two."""
    place = {"id": "smallest-garland", "noise": "bernoulli", "cells": "random", "Delta": "0.01"}
    places = [place, place | {"cells": "cyclic"}, place | {"noise": "0.1"}, place | {"id": "smallest-rastrigin"}]
    cut = {"verdict": "not decidable", "decided_by": "62% of T is one phase"}
    verdicts = [{**p, **cut} for p in places[:3]]
    verdicts += [{**places[3], "verdict": "does not hold", "decided_by": "A / B = 9"}]
    ratios = ((0.5, 1.4), (0.9, 0.8), (0.7, 1.1), (9.0, 1.0))
    compared = [{**p, "ratio": x} for p, pair in zip(places, ratios, strict=True) for x in pair]
    table = findings._ClaimResults(pd.DataFrame(verdicts), pd.DataFrame(compared))
    why = "only because T truncates PF-PNE's last phase"
    assert table.unfinished_in_words("smallest") == f" 3 are open {why}; rivals lead in 2."
    table = findings._ClaimResults(pd.DataFrame([verdicts[0], verdicts[3]]), pd.DataFrame(compared))
    assert table.unfinished_in_words("smallest") == f" 1 are open {why}; rivals lead in all."


def test_the_most_clients_that_lose_their_best_cell_with_either_Delta():
    rows = [("0.01", "2.5 of 20"), ("0.01", "0 of 20"), ("true", "12.1 of 20"), ("true", "3 of 20")]
    verdicts = pd.DataFrame(
        [
            {"id": "safe-garland", "Delta": Delta, "measured": f"Garland: eliminated of {words} clients on average, in"}
            for Delta, words in rows
        ]
    )
    words = findings._ClaimResults(verdicts, pd.DataFrame()).eliminated_in_words("safe")
    assert words == "the optimal cell of 2.5 of 20 clients (mean over runs; with the true Delta 12.1)"


def test_where_all_is_shown_nothing_is_said_of_refutations(specifications):
    said = sentences(*made_up("holds"), specifications)
    assert said[6].endswith("**Privacy** holds.") and "fail on 0 of 6 objectives" in said[3]
    assert "12/0/0; with" in said[0] and "Where refuted" not in said[0]


@pytest.mark.parametrize("verdict", claims.VERDICTS)
def test_every_verdict_counts_once(verdict):
    count = findings._ClaimResults(*made_up(verdict)).count("falls-with-M")
    assert count.pop("of") == 9 and sorted(count.values()) == [0, 0, 9]
    assert count["open"] == (9 if verdict in ("undecided", "not decidable") else 0)
    assert count["refuted"] == (9 if verdict in ("does not hold", "better than claimed") else 0)


def test_the_runs_are_the_profiles():
    assert "M = 20, T = 100,000" in findings.claims_scale_in_words()
    assert "30 paired runs" in findings.claims_scale_in_words()


def test_what_changes_with_T_is_a_ratio_an_objective():
    verdicts, compared = made_up("holds")
    compared["what"] = "PF-PNE - HCT (PyXAB)"
    found = findings._ClaimResults(verdicts, compared).against("hct-pyxab", ("smallest", "later"), "2.0")
    ratio = compared[(compared["noise"] == "2.0") & (compared["Delta"] == "0.01")].drop_duplicates("id")
    ratio = ratio.set_index("id")["ratio"]
    three = ("garland", "himmelblau", "rastrigin")
    each = {f: ", ".join(f"{ratio[f'{k}-{f}']:.2f}" for k in ("smallest", "later")) for f in three}
    assert found == "; ".join(f"{title(f)} {ratios}" for f, ratios in each.items())


def test_shares_of_readings(specifications):
    shares = specification.shares(specifications)
    assert list(shares) == ["garland", "rastrigin"] and shares.iloc[0].tolist() == [0.5, 1.0]
    held = specification.claims_held(specifications)
    assert held["PF-PNE has less regret than PE alone"].all()
    assert not held[list(specification.CLAIMED_ORDERINGS)[-1]].any()  # Fed-PNE is behind all three
