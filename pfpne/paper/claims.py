"""Every claim of the paper that runs can test, as data, and its verdict: holds, does not hold, undecided.

How a verdict is reached:

- A *tested* claim is turned into numbers that are below 0 where it is right, one a paired run (the same clients
  and the same noise for every algorithm). The sign-flip test gives two p-values: of "the claim is false" and of
  "the claim is true". Both, of all the tested claims of one column (a noise regime, with one Delta for PF-PNE),
  go through Holm's correction together. The claim holds if the first is rejected at ALPHA, does not hold if the
  second is, and is undecided otherwise.
- A claim of several parts ("smaller than each of the others") holds if every part does, so its p-value is the
  largest of theirs; it does not hold if any part does not: the smallest of theirs times how many they are. For
  "at least one" it is the other way round.
- A *counted* claim says what happens in every run, or compares measured times. It needs no test: one run (or one
  objective) against it refutes it, and a run that ended too early to tell leaves it undecided.

No verdict is written here: all come from the runs (pfpne.paper.evidence) through `evaluate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pfpne.paper import stats
from pfpne.paper.claim_tests import (
    DELTAS,
    DIMENSIONS,
    MOST,
    MUCH,
    SIMILAR,
    VALID,
    AlikeInTime,
    BetterThanAlone,
    Bounded,
    Comparison,
    DeltaBounds,
    DependsOnSimilarity,
    FallsWithM,
    Insensitive,
    KeepsGrowing,
    Part,
    RoundsBounded,
    SameCost,
    Similar,
    Slower,
    Stops,
    Sublinear,
    Test,
    Tested,
    Unsatisfactory,
    in_words,
    number,
    ranges_in_words,
    seconds,
    title,
)
from pfpne.paper.evidence import Evidence, Regime
from pfpne.paper.parameters import MAIN
from pfpne.algorithms.pf_pne import PFPNESettings
from pfpne.rng import stream

ALPHA = 0.05  # the chance, at most, of any false verdict in one column

PLACES = (  # the paper's structure, as printed
    "Abstract",
    "Section 1",
    "Table 1",
    "Assumption 3",
    "Section 3.2",
    "Theorem 3.1",
    "Remark 3.2",
    "Corollary 3.1",
    "Remark 3.4",
    "Remark 3.5",
    "Section 4",
    "Figure 1",
    "Appendix C.1",
    "Appendix C.3",
    "Figure 2",
    "Appendix C.4",
    "Figure 3",
)

STATED_SLOPES = {d: -1 / (d + 2) for d in (0, 1, 2)}  # of log R(T)/M on log M, d the near-optimality dimension

GIVEN = (f"{PFPNESettings().Delta:g}", "true")  # the Delta that PF-PNE is given: the paper's, or the clients' own


# --- verdicts ---------------------------------------------------------------------------------------


VERDICTS = ("holds", "does not hold", "undecided")


def count(facts: tuple[bool | None, ...]) -> str:
    """The verdict on a counted claim."""
    if False in facts:
        return "does not hold"
    return "undecided" if None in facts else "holds"


@dataclass(frozen=True, eq=False)
class Weighed:
    """A tested claim's p-values, before the correction for the other claims.

    right (k,), wrong (k,): of "this part is false", "this part is true". p_right, p_wrong: the same of the claim.
    """

    right: np.ndarray
    wrong: np.ndarray
    p_right: float
    p_wrong: float


def weigh(outcome: Tested, rng: np.random.Generator) -> Weighed:
    """The p-values of the outcome's parts, and of all together."""
    right, wrong = map(np.array, zip(*(stats.sign_flip(part.values, rng) for part in outcome.parts), strict=True))
    k = len(outcome.parts)
    if outcome.every:
        return Weighed(right, wrong, right.max(), min(1.0, k * wrong.min()))
    return Weighed(right, wrong, min(1.0, k * right.min()), wrong.max())


def judge(p_right: float, p_wrong: float) -> str:
    """The verdict on a tested claim, from its two corrected p-values."""
    if p_right <= ALPHA:
        return "holds"
    return "does not hold" if p_wrong <= ALPHA else "undecided"


def decisive(outcome: Tested, weighed: Weighed, verdict: str, corrected: np.ndarray) -> Part:
    """The part that says most: where all are claimed, the one furthest from right, else the one closest to it.

    If the claim does not hold (or one part makes it hold), it is one of those that would show so alone. corrected (2,):
    the claim's p_right and p_wrong after Holm's correction, whose factor is applied to the parts, too.
    """
    parts, k = outcome.parts, len(outcome.parts)
    side = (
        (weighed.wrong, weighed.p_wrong, corrected[1])
        if outcome.every
        else (weighed.right, weighed.p_right, corrected[0])
    )
    if verdict == ("does not hold" if outcome.every else "holds"):
        p, before, after = side
        parts = [part for part, value in zip(parts, p, strict=True) if k * value * after / before <= ALPHA]
    return (max if outcome.every else min)(parts, key=lambda part: part.margin)


# --- the claims -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """One claim. place: where the paper makes it; quote: its words, formulas spelt out; statement: what test tests."""

    id: str
    place: str
    quote: str
    statement: str
    test: Test


OTHERS = ("hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")  # PF-PNE's competitors in the paper


def _smallest(objective: str, place: str, quote: str) -> Claim:
    return Claim(
        f"smallest-{objective}",
        place,
        quote,
        f"On {title(objective)}, PF-PNE has the smallest regret of the paper's five",
        Comparison(objective, "pf-pne", OTHERS),
    )


def _fed_better(objective: str) -> Claim:
    return Claim(
        f"fed-better-{objective}",
        "Section 4, Figure 1",
        "the performance of Fed-PNE, although better than its competitors",
        f"On {title(objective)}, Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB",
        Comparison(objective, "fed-pne", ("hct-pyxab", "fed1-ucb", "fn-ucb")),
    )


def _unsatisfactory(objective: str) -> Claim:
    return Claim(
        f"fed-far-{objective}",
        "Section 4, Figure 1",
        "is far from satisfactory",
        f"On {title(objective)}, Fed-PNE has at least {MUCH:g} times the regret of one of the other four",
        Unsatisfactory(objective),
    )


def _depends(objective: str) -> Claim:
    return Claim(
        f"fed-depends-{objective}",
        "Section 4",
        "The performance of Fed-PNE largely depends on the similarity between the local objectives and the global "
        "objective",
        f"On {title(objective)}, Fed-PNE has at least {MUCH:g} times the regret that it has with alike clients",
        DependsOnSimilarity(objective),
    )


def _alike(objective: str) -> tuple[Claim, ...]:
    """What the paper says of clients that are alike, on one objective."""
    here = f"On {title(objective)}, with clients that are alike,"
    stated = max(STATED_SLOPES.values())
    alone = (
        "Remark 3.4",
        "the cumulative regret will be smaller than running the X-armed bandit algorithms ... separately on the "
        "clients",
    )
    return (
        Claim(
            f"falls-with-M-{objective}",
            "Table 1",
            "Õ(M^{-1/(d+2)} T^{(d+1)/(d+2)} + T^{(d_new+1)/(d_new+2)})",
            f"{here} PF-PNE's average regret falls as M grows",
            FallsWithM(objective, 0.0),
        ),
        Claim(
            f"falls-as-stated-{objective}",
            "Remark 3.4",
            "on average, the client-wise regret is of order Õ(M^{-1/(d_min+2)} T^{(d_min+1)/(d_min+2)})",
            f"{here} it falls at least as fast as M to the power of -1/(d+2) for d = 2 ({_stated_slopes()})",
            FallsWithM(objective, stated),
        ),
        Claim(
            f"better-than-hct-{objective}",
            *alone,
            f"{here} PF-PNE has less regret than HCT, as published, alone",
            BetterThanAlone(objective, "hct"),
        ),
        Claim(
            f"better-than-pe-{objective}",
            *alone,
            f"{here} PF-PNE has less regret than PE alone, its own second stage",
            BetterThanAlone(objective, "pe"),
        ),
    )


def _insensitive(objective: str) -> Claim:
    return Claim(
        f"settings-{objective}",
        "Appendix C.1",
        "Tuning these hyper-parameters will not affect the final result too much",
        f"On {title(objective)}, moving one setting alone ({ranges_in_words()}) changes PF-PNE's regret by less than a "
        f"factor {SIMILAR:g}",
        Insensitive(objective),
    )


def _stated_slopes() -> str:
    return ", ".join(f"{slope:.3g} for d = {d}" for d, slope in STATED_SLOPES.items())


_OFTEN = f"in at least {MOST:.0%} of the runs on each objective of Figure 1 (refuted by at most {1 - MOST:.0%} on one)"
_MAIN_QUOTE = "PF-PNE has the smallest averaged cumulative regret"
CLAIMS = (
    _smallest("garland", "Section 4, Figure 1", _MAIN_QUOTE),
    _smallest("himmelblau", "Section 4, Figure 1", _MAIN_QUOTE),
    _smallest("rastrigin", "Section 4, Figure 1", _MAIN_QUOTE),
    _smallest("landmine", "Section 4, Figure 1", "our algorithm achieves the smallest regret"),
    _fed_better("garland"),
    _fed_better("rastrigin"),
    _unsatisfactory("garland"),
    _unsatisfactory("rastrigin"),
    _depends("garland"),
    _depends("rastrigin"),
    Claim(
        "doublesine-hct",
        "Appendix C.3, Figure 2",
        "PF-PNE performs slightly better than HCT",
        f"On DoubleSine, PF-PNE has less regret than HCT (PyXAB), by less than a factor {SIMILAR:g}",
        Comparison("doublesine", "pf-pne", ("hct-pyxab",), "slightly"),
    ),
    Claim(
        "doublesine-fed",
        "Appendix C.3, Figure 2",
        "and much better than Fed-PNE on Doublesine",
        f"On DoubleSine, PF-PNE has less than 1/{MUCH:g} of Fed-PNE's regret",
        Comparison("doublesine", "pf-pne", ("fed-pne",), "much"),
    ),
    Claim(
        "ackley-hct",
        "Appendix C.3, Figure 2",
        "PF-PNE performs similarly as HCT and Fed-PNE on Ackley",
        f"On Ackley, PF-PNE's regret is within a factor {SIMILAR:g} of HCT's (PyXAB)",
        Similar("ackley", "hct-pyxab"),
    ),
    Claim(
        "ackley-fed",
        "Appendix C.3, Figure 2",
        "PF-PNE performs similarly as HCT and Fed-PNE on Ackley",
        f"On Ackley, PF-PNE's regret is within a factor {SIMILAR:g} of Fed-PNE's",
        Similar("ackley", "fed-pne"),
    ),
    Claim(
        "time-fn-ucb",
        "Figure 1",
        "FNUCB runs much slower compared with the other algorithms due to the training of neural nets",
        f"As implemented here, FN-UCB takes at least {MUCH:g} times as long as each of the other four, {_OFTEN}",
        Slower(),
    ),
    Claim(
        "time-others",
        "Figure 1",
        "The other four algorithms take similar time",
        f"As implemented here, none of the other four takes more than {MUCH:g} times as long as another, {_OFTEN}",
        AlikeInTime(),
    ),
    Claim(
        "fed-grows",
        "Appendix C.4, Figure 3",
        "the communication cost of Fed-PNE keeps increasing",
        "Fed-PNE communicates after T/10, in every run (so it must, by its design)",
        KeepsGrowing(),
    ),
    Claim(
        "pf-stops",
        "Appendix C.4, Figure 3",
        "the communication cost of PF-PNE stops to increase after a certain point",
        "PF-PNE's last round, that of depth H_0, comes before the horizon, in every run (none can follow, by design)",
        Stops(),
    ),
    Claim(
        "bounded",
        "Remark 3.5",
        "In all our experiments, we observe that the communication cost is always bounded",
        "On every objective and in every run, PF-PNE has at most H_0 + 1 rounds, and carries at most what these would "
        "without any elimination (so it must, by its design)",
        Bounded(),
    ),
    Claim(
        "rounds-bound",
        "Theorem 3.1",
        "The number of communication rounds of PF-PNE scales as min{C_1 M log 1/Delta, C_2 (M log MT)}",
        "PF-PNE's exchanges never exceed min{2 + C_1 log(nu_1/Delta), 1 + C_2 (log MT - log(c^2 log(c_1 T/delta) / "
        "nu_1^2))}, C_1 = 2 C_2 = 1/log(1/rho), which follows from its design: the theorem's two terms (it counts each "
        "exchange M times), and the additive ones without which neither can hold (at Delta = 1 the first would be 0), "
        f"for Delta = {in_words(*DELTAS)} and six T",
        RoundsBounded(),
    ),
    Claim(
        "delta-bounds",
        "Assumption 3, Appendix C.1",
        "we have set it to be Delta = 0.01 in all the experiments",
        f"Delta = {PFPNESettings().Delta:g} is at least the distance of every client's maximum from the global "
        "objective's, in every run, with our shifts and fields (the paper implies it, and does not say it)",
        DeltaBounds(),
    ),
    *(claim for objective in DIMENSIONS for claim in _alike(objective)),
    *(
        Claim(
            f"delta-zero-{objective}",
            "Remark 3.5",
            "the PF-PNE algorithm will degenerate to almost the same as Fed-PNE",
            f"On {title(objective)}, PF-PNE with Delta = 0 has a regret within a factor {SIMILAR:g} of Fed-PNE's",
            Similar(objective, "fed-pne", (("Delta", 0.0),)),
        )
        for objective in DIMENSIONS
    ),
    Claim(
        "delta-zero-cost",
        "Remark 3.5",
        "In this case, the communication cost would be the same as Fed-PNE",
        f"With Delta = 0 PF-PNE carries as many numbers as Fed-PNE, within a factor {SIMILAR:g}, in every run, on one "
        "objective of each dimension",
        SameCost(),
    ),
    Claim(
        "sublinear",
        "Theorem 3.1, Remark 3.2",
        "both two terms are sublinear with respect to T",
        "Over six horizons, PF-PNE's regret grows more slowly than T where Delta bounds the clients' differences, as "
        f"the theorem supposes (Delta = {in_words(*VALID)}), on one objective of each dimension and on landmine",
        Sublinear(VALID),
    ),
    Claim(
        "sublinear-any",
        "Remark 3.2",
        "PF-PNE is always capable of finding the optimums of the local objective, regardless of whether the prior "
        "knowledge of Delta is small or large",
        f"The same with Delta = {in_words(*DELTAS)}, whether or not it bounds the differences",
        Sublinear(),
    ),
    *(_insensitive(objective) for objective in MAIN),
)


# --- all verdicts -----------------------------------------------------------------------------------


def evaluate(evidence: Evidence, claims: tuple[Claim, ...] = CLAIMS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every claim in every regime, with either Delta: (verdicts, a row each; comparisons, a row a part).

    verdicts: id, place, quote, statement, regime, Delta ("0.01", "true", "" where it makes no difference), verdict,
    decided_by (the comparison furthest from the claim; of a counted claim, what refutes it), measured, statistic, runs,
    p_right, p_wrong (Holm's), nan for counted claims.
    comparisons: id, regime, Delta, what, n; mean, low, high: of the difference or slope, with its 95 % bootstrap
    interval; ratio, ratio_low, ratio_high: the same of the ratio of means. Intervals are not corrected.
    """
    verdicts, comparisons = [], []
    for regime in evidence.regimes:
        for Delta in GIVEN:
            rows, parts = _column(evidence, claims, regime, Delta)
            verdicts += rows
            comparisons += parts
    order = {claim.id: k for k, claim in enumerate(claims)}
    verdicts = pd.DataFrame(verdicts).sort_values("id", key=lambda ids: ids.map(order), kind="stable")
    columns = ["id", "regime", "Delta", "what", "n", "mean", "low", "high", "ratio", "ratio_low", "ratio_high"]
    comparisons = pd.DataFrame(comparisons, columns=columns).sort_values(
        "id", key=lambda ids: ids.map(order), kind="stable"
    )
    return verdicts.reset_index(drop=True), comparisons.reset_index(drop=True)


def _column(evidence: Evidence, claims: tuple[Claim, ...], regime: Regime, Delta: str) -> tuple[list, list]:
    """The verdicts of one column, corrected together, and their comparisons."""
    outcomes = []
    for claim in claims:
        objectives = tuple(name for name in claim.test.objectives if name in regime.objectives)
        if objectives and (claim.test.uses_pf_pne or Delta == GIVEN[0]):
            outcomes.append((claim, claim.test.evaluate(evidence, regime.noise, objectives, Delta)))
    tested = [(claim, outcome) for claim, outcome in outcomes if isinstance(outcome, Tested)]
    weighed = {
        claim.id: weigh(outcome, stream(evidence.seed, "claims", claim.id, regime.name, Delta))
        for claim, outcome in tested
    }
    corrected = stats.holm(np.ravel([(w.p_right, w.p_wrong) for w in weighed.values()])).reshape(-1, 2)
    p = dict(zip(weighed, corrected, strict=True))
    rows, comparisons = [], []
    for claim, outcome in outcomes:
        head = {"id": claim.id, "regime": regime.name, "Delta": Delta if claim.test.uses_pf_pne else ""}
        if isinstance(outcome, Tested):
            rng = stream(evidence.seed, "claims", claim.id, regime.name, Delta, "interval")
            parts = _reported(outcome, rng)
            comparisons += [{**head, **part} for part in parts]
            p_right, p_wrong = p[claim.id]
            verdict, measured = judge(p_right, p_wrong), outcome.measured or "; ".join(map(_in_words, parts))
            decided_by = decisive(outcome, weighed[claim.id], verdict, p[claim.id]).brief
        else:
            p_right, p_wrong = math.nan, math.nan
            verdict, measured, decided_by = count(outcome.facts), outcome.measured, outcome.against
        rows.append(
            {
                "id": claim.id,
                "place": claim.place,
                "quote": claim.quote,
                "statement": claim.statement,
                **{name: head[name] for name in ("regime", "Delta")},
                "verdict": verdict,
                "decided_by": decided_by,
                "measured": measured,
                "statistic": claim.test.statistic,
                "runs": claim.test.runs(evidence),
                "p_right": p_right,
                "p_wrong": p_wrong,
            }
        )
    return rows, comparisons


def _reported(outcome: Tested, rng: np.random.Generator) -> list[dict]:
    """Each comparison once (one that is tested on two sides counts as one), with the interval of its mean."""
    reported = {}
    for part in outcome.parts:
        if part.what not in reported:
            low, high = stats.interval(part.shown, rng)
            numbers = {
                "n": len(part.shown),
                "mean": float(part.shown.mean()),
                "low": low,
                "high": high,
            }
            if part.base is not None:
                ratio = stats.ratio(part.shown + part.base, part.base, rng)
                numbers |= dict(zip(("ratio", "ratio_low", "ratio_high"), ratio, strict=True))
            reported[part.what] = {"what": part.what, **numbers}
    return list(reported.values())


def _in_words(part: dict) -> str:
    words = f"{part['what']}: {number(part['mean'])} [{number(part['low'])}, {number(part['high'])}]"
    if "ratio" not in part:
        return words
    ratio, low, high = (number(part[name]) for name in ("ratio", "ratio_low", "ratio_high"))
    return f"{words}, ratio {ratio} [{low}, {high}]"


def times(evidence: Evidence) -> pd.DataFrame:
    """The seconds behind the claims on time: a row a regime and objective, not the same twice.

    regime, objective, runs; the median seconds of one run of each of the paper's five; slower, alike: the share of the
    runs in which FN-UCB is slower than each of the others, and in which these are alike (see claim_tests).
    """
    rows = []
    for regime in evidence.regimes:
        for objective in [name for name in MAIN if name in regime.objectives]:
            table = seconds(evidence, objective, regime.noise, GIVEN[0])
            shares = {"slower": Slower.fact(table).mean(), "alike": AlikeInTime.fact(table).mean()}
            head = {"regime": regime.name, "objective": objective, "runs": len(table)}
            rows.append({**head, **table.median(), **shares})
    return pd.DataFrame(rows)
