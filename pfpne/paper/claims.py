"""Every claim of the paper that runs can test, as a table, and its verdict: holds, does not hold, undecided.

A *tested* claim is one or more comparisons, each a number a paired run (the same clients and the same noise for every
algorithm) that is below 0 where it is right. Sign-flip tests give p-values of "the claim is false" and "the claim is
true". Both, of all the tested claims of one column (a noise regime, with one Delta for PF-PNE), go through Holm's
correction together. A *counted* claim says what happens in every run, or compares measured times, and needs no test.

No verdict is written here: all come from the runs (pfpne.paper.evidence) through `evaluate`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pfpne.paper import claim_tests, stats
from pfpne.paper.claim_tests import (
    DELTAS,
    DIMENSIONS,
    MOST,
    MUCH,
    PAPER,
    RANGES,
    SETTINGS,
    SIMILAR,
    VALID,
    Column,
    Comparison,
    Outcome,
    compare,
    compare_shifts,
    costs_as_fed_pne,
    costs_bounded,
    count,
    count_times,
    grows,
    in_words,
    move_settings,
    number,
    over_horizons,
    rounds_bounded,
    slope_on_M,
    slope_on_T,
    stops,
    within_Delta,
)  # fmt: skip
from pfpne.paper.evidence import Study
from pfpne.paper.looks import title
from pfpne.paper.parameters import COMMUNICATION, MAIN, SYNTHETIC_NAMES
from pfpne.rng import stream

ALPHA = 0.05  # the chance, at most, of any false verdict in one column
GIVEN = (f"{SETTINGS.Delta:g}", "true")  # the Delta that PF-PNE is given: the paper's, or the clients' own
VERDICTS = ("holds", "does not hold", "undecided")

# --- the claims -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Claim:
    """place: where the paper makes it; quote: its words, formulas spelt out; statement: what is tested.

    kind, arguments: the test, a function of pfpne.paper.claim_tests, on those of the objectives that are run.
    by_Delta: whether it makes a difference which Delta PF-PNE is given.
    """

    id: str
    place: str
    quote: str
    statement: str
    objectives: Sequence[str]
    kind: Callable[..., Outcome]
    arguments: dict = field(default_factory=dict)
    by_Delta: bool = True


EVERYWHERE = (*SYNTHETIC_NAMES, "landmine")
FED_WORSE = ("garland", "rastrigin")  # where the paper speaks of Fed-PNE's lag
SMALLEST = dict.fromkeys(DIMENSIONS, "PF-PNE has the smallest averaged cumulative regret")
SMALLEST["landmine"] = "our algorithm achieves the smallest regret"
ALONE = "the cumulative regret will be smaller than running the X-armed bandit algorithms ... separately on the clients"
STATED_SLOPES = {d: -1 / (d + 2) for d in (0, 1, 2)}  # of log R(T)/M on log M, d the near-optimality dimension
STATED = ", ".join(f"{slope:.3g} for d = {d}" for d, slope in STATED_SLOPES.items())
MOVED = ", ".join(f"{name} to {low:g} or {high:g}" for name, (low, high) in RANGES.items())
OFTEN = f"in at least {MOST:.0%} of the runs on each objective of Figure 1 (refuted by at most {1 - MOST:.0%} on one)"

# fmt: off
CLAIMS = (
    *(Claim(f"smallest-{f}", "Section 4, Figure 1", quote,
            f"On {title(f)}, PF-PNE has the smallest regret of the paper's five",
            [f], compare, {"others": PAPER[1:], "below": 1})
      for f, quote in SMALLEST.items()),
    *(Claim(f"fed-better-{f}", "Section 4, Figure 1",
            "the performance of Fed-PNE, although better than its competitors",
            f"On {title(f)}, Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB",
            [f], compare, {"algorithm": "fed-pne", "others": PAPER[1:-1], "below": 1}, by_Delta=False)
      for f in FED_WORSE),
    *(Claim(f"fed-far-{f}", "Section 4, Figure 1", "is far from satisfactory",
            f"On {title(f)}, Fed-PNE has at least {MUCH:g} times the regret of one of the other four",
            [f], compare, {"algorithm": "fed-pne", "others": PAPER[:-1], "above": MUCH, "every": False})
      for f in FED_WORSE),
    *(Claim(f"fed-depends-{f}", "Section 4",
            "The performance of Fed-PNE largely depends on the similarity between the local objectives and the global "
            "objective",
            f"On {title(f)}, Fed-PNE has at least {MUCH:g} times the regret that it has with alike clients",
            [f], compare_shifts, {"algorithm": "fed-pne", "above": MUCH}, by_Delta=False)
      for f in FED_WORSE),
    Claim("doublesine-hct", "Appendix C.3, Figure 2", "PF-PNE performs slightly better than HCT",
          f"On DoubleSine, PF-PNE has less regret than HCT (PyXAB), by less than a factor {SIMILAR:g}",
          ["doublesine"], compare, {"others": ["hct-pyxab"], "below": 1, "above": 1 / SIMILAR}),
    Claim("doublesine-fed", "Appendix C.3, Figure 2", "and much better than Fed-PNE on Doublesine",
          f"On DoubleSine, PF-PNE has less than 1/{MUCH:g} of Fed-PNE's regret",
          ["doublesine"], compare, {"others": ["fed-pne"], "below": 1 / MUCH}),
    *(Claim(f"ackley-{short}", "Appendix C.3, Figure 2", "PF-PNE performs similarly as HCT and Fed-PNE on Ackley",
            f"On Ackley, PF-PNE's regret is within a factor {SIMILAR:g} of {whose}",
            ["ackley"], compare, {"others": [other], "below": SIMILAR, "above": 1 / SIMILAR})
      for short, other, whose in (("hct", "hct-pyxab", "HCT's (PyXAB)"), ("fed", "fed-pne", "Fed-PNE's"))),
    Claim("time-fn-ucb", "Figure 1",
          "FNUCB runs much slower compared with the other algorithms due to the training of neural nets",
          f"As implemented here, FN-UCB takes at least {MUCH:g} times as long as each of the other four, {OFTEN}",
          MAIN, count_times, {"fact": "slower"}),
    Claim("time-others", "Figure 1", "The other four algorithms take similar time",
          f"As implemented here, none of the other four takes more than {MUCH:g} times as long as another, {OFTEN}",
          MAIN, count_times, {"fact": "alike"}),
    Claim("fed-grows", "Appendix C.4, Figure 3", "the communication cost of Fed-PNE keeps increasing",
          "Fed-PNE communicates after T/10, in every run (so it must, by its design)",
          COMMUNICATION, count, {"facts": grows, "of": "the step of the last round of each run"}, by_Delta=False),
    Claim("pf-stops", "Appendix C.4, Figure 3",
          "the communication cost of PF-PNE stops to increase after a certain point",
          "PF-PNE's last round, that of depth H_0, comes before the horizon, in every run (none can follow, by design)",
          COMMUNICATION, count,
          {"facts": stops, "of": "rounds of each run against H_0 + 1, and the step of the last one"}),
    Claim("bounded", "Remark 3.5", "In all our experiments, we observe that the communication cost is always bounded",
          "On every objective and in every run, PF-PNE has at most H_0 + 1 rounds, and carries at most what these "
          "would without any elimination (so it must, by its design)",
          EVERYWHERE, count, {"facts": costs_bounded, "of": "rounds and numbers of each run less their bounds"}),
    Claim("rounds-bound", "Theorem 3.1",
          "The number of communication rounds of PF-PNE scales as min{C_1 M log 1/Delta, C_2 (M log MT)}",
          "PF-PNE's exchanges never exceed min{2 + C_1 log(nu_1/Delta), 1 + C_2 (log MT - log(c^2 log(c_1 T/delta) / "
          "nu_1^2))}, C_1 = 2 C_2 = 1/log(1/rho), which follows from its design: the theorem's two terms (it counts "
          "each exchange M times), and the additive ones without which neither can hold (at Delta = 1 the first would "
          f"be 0), for Delta = {in_words(*DELTAS)} and six T",
          (*DIMENSIONS, "landmine"), count,
          {"facts": rounds_bounded, "of": "rounds of each run less the bound", "runs": over_horizons}, by_Delta=False),
    Claim("delta-bounds", "Assumption 3, Appendix C.1", "we have set it to be Delta = 0.01 in all the experiments",
          f"Delta = {SETTINGS.Delta:g} is at least the distance of every client's maximum from the global objective's, "
          "in every run, with our shifts and fields (the paper implies it, and does not say it)",
          EVERYWHERE, count, {"facts": within_Delta, "of": "the largest |f-bar* - f_m*| over the clients of each run"},
          by_Delta=False),
    *(claim for f in DIMENSIONS for here in [f"On {title(f)}, with clients that are alike,"] for claim in (
        Claim(f"falls-with-M-{f}", "Table 1", "Õ(M^{-1/(d+2)} T^{(d+1)/(d+2)} + T^{(d_new+1)/(d_new+2)})",
              f"{here} PF-PNE's average regret falls as M grows", [f], slope_on_M, {"below": 0.0}),
        Claim(f"falls-as-stated-{f}", "Remark 3.4",
              "on average, the client-wise regret is of order Õ(M^{-1/(d_min+2)} T^{(d_min+1)/(d_min+2)})",
              f"{here} it falls at least as fast as M to the power of -1/(d+2) for d = 2 ({STATED})",
              [f], slope_on_M, {"below": STATED_SLOPES[2]}),
        Claim(f"better-than-hct-{f}", "Remark 3.4", ALONE,
              f"{here} PF-PNE has less regret than HCT, as published, alone",
              [f], compare, {"others": ["hct"], "below": 1, "shift": 0.0}),
        Claim(f"better-than-pe-{f}", "Remark 3.4", ALONE,
              f"{here} PF-PNE has less regret than PE alone, its own second stage",
              [f], compare, {"others": ["pe"], "below": 1, "shift": 0.0}),
    )),
    *(Claim(f"delta-zero-{f}", "Remark 3.5", "the PF-PNE algorithm will degenerate to almost the same as Fed-PNE",
            f"On {title(f)}, PF-PNE with Delta = 0 has a regret within a factor {SIMILAR:g} of Fed-PNE's",
            [f], compare, {"others": ["fed-pne"], "below": SIMILAR, "above": 1 / SIMILAR, "Delta": 0.0}, by_Delta=False)
      for f in DIMENSIONS),
    Claim("delta-zero-cost", "Remark 3.5", "In this case, the communication cost would be the same as Fed-PNE",
          f"With Delta = 0 PF-PNE carries as many numbers as Fed-PNE, within a factor {SIMILAR:g}, in every run, on "
          "one objective of each dimension",
          DIMENSIONS, count, {"facts": costs_as_fed_pne, "of": "numbers of each run over Fed-PNE's"}, by_Delta=False),
    Claim("sublinear", "Theorem 3.1, Remark 3.2", "both two terms are sublinear with respect to T",
          "Over six horizons, PF-PNE's regret grows more slowly than T where Delta bounds the clients' differences, as "
          f"the theorem supposes (Delta = {in_words(*VALID)}), on one objective of each dimension and on landmine",
          (*DIMENSIONS, "landmine"), slope_on_T, {"deltas": VALID}, by_Delta=False),
    Claim("sublinear-any", "Remark 3.2",
          "PF-PNE is always capable of finding the optimums of the local objective, regardless of whether the prior "
          "knowledge of Delta is small or large",
          f"The same with Delta = {in_words(*DELTAS)}, whether or not it bounds the differences",
          (*DIMENSIONS, "landmine"), slope_on_T, {"deltas": DELTAS}, by_Delta=False),
    *(Claim(f"settings-{f}", "Appendix C.1", "Tuning these hyper-parameters will not affect the final result too much",
            f"On {title(f)}, moving one setting alone ({MOVED}) changes PF-PNE's regret by less than a factor "
            f"{SIMILAR:g}",
            [f], move_settings, {"within": SIMILAR})
      for f in MAIN),
)
# fmt: on

# --- verdicts ---------------------------------------------------------------------------------------


def evaluate(study: Study, claims: Sequence[Claim] = CLAIMS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every claim in every regime, with either Delta: (verdicts, comparisons), a row each.

    verdicts: id, place, quote, statement, regime, Delta ("0.01", "true", "" where it makes no difference), verdict,
    decided_by (the comparison furthest from the claim; of a counted claim, what refutes it), measured, statistic, runs,
    p_right, p_wrong (Holm's), nan for counted claims.
    comparisons: id, regime, Delta, what, n; mean, low, high: of the difference or slope, with its 95 % bootstrap
    interval; ratio, ratio_low, ratio_high: the same of the ratio of means. Intervals are not corrected.
    """
    outcomes, p, corrected = {}, {}, {}  # of each claim in each column; p (k, 2): of its comparisons, see `together`
    for case in itertools.product(claims, study.regimes, GIVEN):
        claim, regime, Delta = case
        objectives = [name for name in claim.objectives if name in regime.objectives]
        if not objectives or not (claim.by_Delta or Delta == GIVEN[0]):
            continue
        outcome = claim.kind(Column(study, regime, objectives, own_Delta=Delta == "true"), **claim.arguments)
        outcomes[case] = outcome
        if outcome.comparisons:
            rng = stream(study.seed, "claims", claim.id, regime.name, Delta)
            p[case] = np.array([stats.sign_flip(comparison.excess, rng) for comparison in outcome.comparisons])
    for column in itertools.product(study.regimes, GIVEN):
        cases = [case for case in p if case[1:] == column]
        of_claims = np.ravel([together(p[case], outcomes[case].every) for case in cases])
        corrected |= zip(cases, stats.holm(of_claims).reshape(-1, 2), strict=True)
    verdicts, comparisons = [], []
    for case, outcome in outcomes.items():
        claim, regime, Delta = case
        head = {"id": claim.id, "regime": regime.name, "Delta": Delta if claim.by_Delta else ""}
        p_right, p_wrong = corrected.get(case, (math.nan, math.nan))
        if case in p:
            verdict = judge(p_right, p_wrong)
            decided_by = deciding(outcome, verdict, p[case], corrected[case]).brief
            rows = report(outcome, stream(study.seed, "claims", claim.id, regime.name, Delta, "interval"))
            measured = outcome.measured or "; ".join(map(in_one_line, rows))
            comparisons += [head | row for row in rows]
        else:
            verdict, decided_by, measured = judge_facts(outcome.facts), outcome.against, outcome.measured
        found = {"verdict": verdict, "decided_by": decided_by, "measured": measured}
        verdicts.append(vars(claim) | vars(outcome) | head | found | {"p_right": p_right, "p_wrong": p_wrong})
    return pd.DataFrame(verdicts, columns=VERDICT_COLUMNS), pd.DataFrame(comparisons, columns=COMPARISON_COLUMNS)


VERDICT_COLUMNS = [
    *("id", "place", "quote", "statement", "regime", "Delta"),
    *("verdict", "decided_by", "measured", "statistic", "runs", "p_right", "p_wrong"),
]
COMPARISON_COLUMNS = ["id", "regime", "Delta", "what", "n", "mean", "low", "high", "ratio", "ratio_low", "ratio_high"]


def together(p: np.ndarray, every: bool) -> tuple[float, float]:
    """p-values of "the claim is false" and "the claim is true", from those of its comparisons (k, 2).

    A claim of every comparison ("smaller than each of the others") is right if all are, so its first p-value is the
    largest of theirs; it is wrong if any is: the smallest of theirs times how many they are. For "at least one" it is
    the other way round.
    """
    of_all, of_any = p.max(axis=0), np.minimum(1.0, len(p) * p.min(axis=0))
    return (of_all[0], of_any[1]) if every else (of_any[0], of_all[1])


def judge(p_right: float, p_wrong: float) -> str:
    """The verdict on a tested claim, from its corrected p-values: it holds if "it is false" is rejected, and so on."""
    return "holds" if p_right <= ALPHA else "does not hold" if p_wrong <= ALPHA else "undecided"


def judge_facts(facts: Sequence[bool | None]) -> str:
    """The verdict on a counted claim: one run against it refutes it, one that ended too early leaves it undecided."""
    return "does not hold" if False in facts else "undecided" if None in facts else "holds"


def deciding(outcome: Outcome, verdict: str, p: np.ndarray, corrected: Sequence[float]) -> Comparison:
    """The comparison that says most: where all are claimed, the one furthest from right, else the one closest to it.

    Where one is enough for the verdict, it is one that would be enough alone: by its p (k, 2), times the number of
    comparisons and the factor of Holm's correction, by which the claim's own two p-values became `corrected` (2,).
    """
    candidates = outcome.comparisons
    if verdict == ("does not hold" if outcome.every else "holds"):
        side = 1 if outcome.every else 0
        alone = len(p) * p[:, side] * corrected[side] / together(p, outcome.every)[side] <= ALPHA
        candidates = [comparison for comparison, enough in zip(candidates, alone, strict=True) if enough]
    return (max if outcome.every else min)(candidates, key=lambda comparison: comparison.margin)


def report(outcome: Outcome, rng: np.random.Generator) -> list[dict]:
    """Each comparison once (one that is tested on two sides counts as one), with the intervals of its means."""
    rows = {}
    for found in outcome.comparisons:
        if found.what in rows:
            continue
        low, high = stats.interval(found.shown, rng)
        mean = {"n": len(found.shown), "mean": float(found.shown.mean()), "low": low, "high": high}
        ratio = () if found.base is None else stats.ratio(found.shown + found.base, found.base, rng)
        rows[found.what] = {"what": found.what, **mean, **dict(zip(("ratio", "ratio_low", "ratio_high"), ratio))}
    return list(rows.values())


def in_one_line(row: dict) -> str:
    words = f"{row['what']}: {number(row['mean'])} [{number(row['low'])}, {number(row['high'])}]"
    if "ratio" not in row:
        return words
    return f"{words}, ratio {number(row['ratio'])} [{number(row['ratio_low'])}, {number(row['ratio_high'])}]"


def times(study: Study) -> pd.DataFrame:
    """Seconds behind the claims on time, a row a regime and objective (see claim_tests.times), not the same twice."""
    columns = [Column(study, regime, [f for f in MAIN if f in regime.objectives]) for regime in study.regimes]
    return pd.concat([claim_tests.times(column) for column in columns], ignore_index=True)
