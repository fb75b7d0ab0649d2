"""Every claim of the paper that runs can test, from claims.toml, and its verdict.

No verdict is typed in: `evaluate_claims` computes all of them from the runs (pfpne.paper.claims.evidence).

Each claim has a test, a function of CLAIM_TESTS. By what the test returns, the claim is *compared* or *counted*.

A *compared* claim is one or more comparisons. A comparison has one value per paired run, in which every algorithm meets
the same clients and the same noise. The claim is right if the mean of these values is on the declared side of a limit.
Two sign-flip tests give two p-values, which have these names in every table:

- p_right is the p-value under the null "the claim is false". If it is small, the claim is right.
- p_wrong is the p-value under the null "the claim is true". If it is small, the claim is wrong.

Each claim has two nulls, and exactly one of them is true. Only a true null can be rejected wrongly. So in a family of k
claims, k rejections could be wrong, although there are 2k tests: Bonferroni's factor is k. With this factor, the
probability of any wrong verdict in the family is at most ALPHA, however the claims depend on each other. Families are
declared in claims.toml. A family is tested separately for each noise, kind of cells and Delta of PF-PNE.

A *counted* claim says what happens in every run. It needs no p-value: one counterexample refutes it.

| verdict              | when                                                                                       |
|----------------------|--------------------------------------------------------------------------------------------|
| holds                | p_right is at most ALPHA; or every run is as claimed                                       |
| does not hold        | p_wrong of a comparison is at most ALPHA; or one run is not as claimed                     |
| better than claimed  | as "does not hold", but violated only on the side that is better; it counts as refuted     |
| undecided            | the claim was tested, and neither p-value is small                                         |
| true by construction | it holds, and the algorithm's design allows no other outcome                               |
| not decidable        | the runs cannot test it: a premise fails, the test is vacuous, or T cuts too long a phase  |

A claim's premises are named in its field `hypothesis`. A claim that quotes "whatever Delta" does not have the premise
that Delta is valid.
"""

import itertools
import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.paper.claims import stats
from pfpne.paper.claims.claim_tests import CLAIM_TESTS, measure_times
from pfpne.paper.claims.evidence import ClaimCondition, Study
from pfpne.paper.claims.outcomes import (
    MAX_LAST_PHASE_SHARE,
    PAPER_SETTINGS,
    ClaimCase,
    Comparison,
    Outcome,
    format_number,
)
from pfpne.paper.run.selections import MAIN_OBJECTIVES, PAPER_ALGORITHMS
from pfpne.paper.show.style import title
from pfpne.rng import stream

ALPHA = 0.05  # the family-wise error rate: the largest probability of any false verdict in one family
PF_PNE_DELTAS = (f"{PAPER_SETTINGS.Delta:g}", "true")  # the Delta that PF-PNE is given: the paper's, or the true one
VERDICTS = ("holds", "better than claimed", "true by construction", "does not hold", "undecided", "not decidable")
SHOWN, REFUTED, OPEN = "shown", "refuted", "open"  # the groups of verdicts
CLAIMS_FILE = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True, eq=False)
class Claim:
    """A row of claims.toml, whose header explains the fields.

    topic: the id without the name of an objective at its end. arguments: the arguments of the claim's test besides the
    cases.
    """

    id: str
    topic: str
    where_in_paper: str
    quote: str
    hypothesis: str
    short: str
    objectives: Sequence[str]
    kind: str
    arguments: dict
    runs_in_words: str = "main comparison: M = {n_clients}, T = {horizon:,}, shift = {shift:g}, n = {claim_runs}"
    by_Delta: bool = True
    family: str = ""
    is_ours: bool = False
    by_noise: bool = True
    noise: float | str = ""
    cells: str = ""
    low_is_better: bool = False
    by_design: bool = False
    undecidable_reason: str = ""

    def test(self, study: Study, condition: ClaimCondition, Delta: str) -> Outcome | None:
        """The outcome of the claim's test with one of PF_PNE_DELTAS.

        None if the claim is not tested in this condition, or if Delta makes no difference and is not the first.
        """
        cases = [ClaimCase(study, condition, f, Delta == "true") for f in self.objectives if f in condition.objectives]
        tested_here = self.noise in ("", condition.noise) and self.cells in ("", condition.cells)
        if cases and tested_here and (self.by_Delta or Delta == PF_PNE_DELTAS[0]):
            return CLAIM_TESTS[self.kind](*cases, **self.arguments)


def read_claims() -> Iterator[Claim]:
    """The claims of CLAIMS_FILE, in their order."""
    names = {field.name for field in fields(Claim)}
    for row in tomllib.loads(CLAIMS_FILE.read_text(encoding="utf-8"))["claim"]:
        parts, objectives = row.pop("parts", [{}]), row.pop("each", [""])
        for objective, part in itertools.product(objectives, parts):
            whole = row | part
            whole["topic"] = whole["id"]
            if objective:
                whole |= {"id": f"{whole['id']}-{objective}", "objectives": [objective]}
                whole["hypothesis"] = whole["hypothesis"].replace("$objective", title(objective))
            arguments = {name: value for name, value in whole.items() if name not in names}
            yield Claim(**{name: whole[name] for name in whole.keys() & names}, arguments=arguments)


CLAIMS = tuple(read_claims())
CLAIM_TABLE_COLUMNS = [  # the columns of the three tables of `evaluate_claims`; "noise": the name of a ClaimCondition
    (
        *("id", "whose", "over_noises", "family", "where_in_paper", "hypothesis", "noise", "cells", "Delta"),
        *("verdict", "decided_by", "measured", "runs", "k", "p_right", "p_wrong"),
    ),
    (
        *("id", "noise", "cells", "Delta", "what", "n", "mean", "low", "high", "ratio", "ratio_low", "ratio_high"),
        *("side", "limit", "p_right", "p_wrong", "undecidable_reason"),
    ),
    ("id", "noise", "cells", "Delta", "what", "side", "violation"),
]


def evaluate_claims(study: Study, claims: Sequence[Claim] = CLAIMS) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Test every claim in every condition, with either Delta.

    Parameters
    ----------
    study : Study
        The runs.
    claims : sequence of Claim
        The claims, all of claims.toml by default.

    Returns
    -------
    verdicts : pandas.DataFrame
        One row per claim, condition and Delta ("0.01", "true", or "" if Delta makes no difference). over_noises: "once"
        if the noise makes no difference to the claim, so that its verdict counts once over all noises; else "", and the
        verdict under each noise counts. decided_by: the comparison furthest from the claim, the counterexample to a
        counted claim, or the reason why it is not decidable. k: the number of compared claims of the family in this
        condition. p_right, p_wrong: the corrected p-values, times k; nan for counted claims.
    comparisons : pandas.DataFrame
        One row per comparison. mean, low, high: the mean difference or slope over n runs, with its 95 % bootstrap
        interval. ratio, ratio_low, ratio_high: the ratio of means, with its interval. side, limit: the claimed bound
        on the ratio or on the mean slope. p_right, p_wrong: the comparison's own p-values. Intervals and these p-values
        are not corrected.
    violations : pandas.DataFrame
        One row per decidable comparison. violation: the violation in each run (negative if the claim holds), the input
        of the sign-flip test.
    """
    tests = itertools.product(claims, study.claim_conditions, PF_PNE_DELTAS)
    results = {(claim, condition, Delta): claim.test(study, condition, Delta) for claim, condition, Delta in tests}
    outcomes = {test: outcome for test, outcome in results.items() if outcome}
    compared = [test for test, outcome in outcomes.items() if outcome.comparisons]
    family_sizes = Counter((claim.family, condition, Delta) for claim, condition, Delta in compared)
    verdicts, comparisons = [], []
    for (claim, condition, Delta), outcome in outcomes.items():
        random = partial(stream, study.seed, "claims", claim.id, condition.name, condition.cells, Delta)
        p = outcome.p_values(random())
        head = head_of_rows(claim, study, condition, Delta)
        rows = comparison_rows(outcome, p, random("interval"))
        verdict = judge(claim, outcome, p, family_sizes[claim.family, condition, Delta])
        measured = outcome.measured_in_words or "; ".join(dict.fromkeys(map(in_one_line, rows)))
        verdicts.append(head | verdict | {"measured": measured})
        comparisons += [head | row for row in rows]
    violations = [row for row in comparisons if "violation" in row]
    tables = zip((verdicts, comparisons, violations), CLAIM_TABLE_COLUMNS, strict=True)
    return tuple(pd.DataFrame(rows, columns=names) for rows, names in tables)


def head_of_rows(claim: Claim, study: Study, condition: ClaimCondition, Delta: str) -> dict:
    """The common columns of a claim's rows in one condition with one Delta."""
    client_counts, horizons = ", ".join(map(str, study.client_counts)), ", ".join(f"{T:,}" for T in study.horizons)
    scale = vars(study) | {"client_counts": client_counts, "horizons": horizons, "sweep_runs": study.sweep_runs}
    return vars(claim) | {
        "whose": "ours" if claim.is_ours else "the paper's",
        "over_noises": "" if claim.by_noise else "once",
        "noise": condition.name,
        "cells": condition.cells,
        "Delta": Delta if claim.by_Delta else "",
        "runs": claim.runs_in_words.format_map(scale),
    }


def judge(claim: Claim, outcome: Outcome, p: np.ndarray, k: int) -> dict:
    """The verdict by the rule above, and the reason for it.

    p (n, 2): p_right and p_wrong of the decidable comparisons. k: the number of compared claims in the family.
    """
    return judge_compared(claim, outcome, p, k) if outcome.comparisons else judge_counted(claim, outcome)


def judge_counted(claim: Claim, outcome: Outcome) -> dict:
    """The verdict on a claim about every run: one counterexample refutes it; a run that ended too early does not."""
    reason = claim.undecidable_reason or outcome.undecidable_reason
    if not reason and False not in outcome.as_claimed and None in outcome.as_claimed:
        reason = "the horizon cuts the phase that would tell"
    if reason:
        return {"verdict": "not decidable", "decided_by": reason}
    verdict = "does not hold" if False in outcome.as_claimed else _verdict_if_right(claim, outcome)
    return {"verdict": verdict, "decided_by": outcome.counterexample}


def judge_compared(claim: Claim, outcome: Outcome, p: np.ndarray, k: int) -> dict:
    """The verdict on a claim that is one or more comparisons, with Bonferroni's correction for k claims."""
    reason_for_all = claim.undecidable_reason or outcome.undecidable_reason
    reasons = [comparison.undecidable_reason for comparison in outcome.comparisons]
    reason_for_some = next(filter(None, reasons), outcome.vacuous_reason)
    if reason_for_all or not outcome.decidable:
        verdict = {"verdict": "not decidable", "decided_by": reason_for_all or reason_for_some}
        return verdict | {"k": k, "p_right": math.nan, "p_wrong": math.nan}
    p_right, p_wrong = (min(1.0, k * x) for x in stats.combine_p_values(p))
    corrected = {"k": k, "p_right": p_right, "p_wrong": p_wrong}
    _, p_wrong_of_each = p.T
    is_refuted = k * len(p) * p_wrong_of_each <= ALPHA
    refuted = [comparison for comparison, wrong in zip(outcome.decidable, is_refuted, strict=True) if wrong]
    furthest = max(refuted or outcome.decidable, key=lambda comparison: comparison.mean_violation)
    if refuted:
        better = claim.low_is_better and all(comparison.is_above for comparison in refuted)
        verdict = "better than claimed" if better else "does not hold"
    elif reason_for_some:
        return {"verdict": "not decidable", "decided_by": reason_for_some, **corrected}
    else:
        verdict = "undecided" if p_right > ALPHA else _verdict_if_right(claim, outcome)
    return {"verdict": verdict, "decided_by": furthest.brief, **corrected}


def _verdict_if_right(claim: Claim, outcome: Outcome) -> str:
    return "true by construction" if claim.by_design or outcome.by_design else "holds"


def comparison_rows(outcome: Outcome, p: np.ndarray, rng: np.random.Generator) -> list[dict]:
    """One row per comparison, with the intervals of its means.

    p (n, 2): p_right and p_wrong of the decidable comparisons, whose rows also have a `violation`.
    """
    rows, intervals, p_of_decidable = [], {}, iter(p)
    for comparison in outcome.comparisons:
        if comparison.name not in intervals:  # a quantity that is tested on two sides has one interval
            intervals[comparison.name] = _interval_row(comparison, rng)
        side = "above" if comparison.is_above else "below"
        row = {"side": side, "limit": comparison.limit, "undecidable_reason": comparison.undecidable_reason}
        if not comparison.undecidable_reason:
            row["p_right"], row["p_wrong"] = next(p_of_decidable)
            row["violation"] = " ".join(f"{x:.5g}" for x in comparison.violation)
        rows.append(intervals[comparison.name] | row)
    return rows


def _interval_row(comparison: Comparison, rng: np.random.Generator) -> dict:
    """The mean over the runs and, for a difference, the ratio of the means, with their intervals."""
    values, b = comparison.slopes_or_differences, comparison.b
    low, high = stats.mean_interval(values, rng)
    row = {"what": comparison.name, "n": len(values), "mean": values.mean(), "low": low, "high": high}
    if b is not None:
        a = values + b  # the values are the differences a - b
        names = ("ratio", "ratio_low", "ratio_high")
        row |= dict(zip(names, stats.ratio_interval(a, b, rng), strict=True))
    return row


def in_one_line(row: dict) -> str:
    """A row of the comparisons in words."""
    form = "{what}: {mean} [{low}, {high}]" + (", ratio {ratio} [{ratio_low}, {ratio_high}]" if "ratio" in row else "")
    return form.format(**{name: format_number(x) if isinstance(x, float) else x for name, x in row.items()})


def decide_by_holm(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a family, each with its verdict (shown, refuted or open) by Holm's correction over the rows.

    Both sides are tested, so each corrected p-value is doubled: the probability of any false verdict is at most ALPHA.
    table: it has the columns p_right and p_wrong, which are corrected here, and last_phase_share, the share of T in
    the last phase, which T truncates (nan without one). Beyond MAX_LAST_PHASE_SHARE the regret says more about T than
    about the algorithms. Such a row is open, unless the column by_design says that the definitions allow no other
    outcome.
    """
    right, wrong = (np.minimum(1.0, 2 * stats.holm_adjusted(table[name].to_numpy())) for name in ("p_right", "p_wrong"))
    verdict = np.where(right <= ALPHA, SHOWN, np.where(wrong <= ALPHA, REFUTED, OPEN))
    is_long = table["last_phase_share"].fillna(0) > MAX_LAST_PHASE_SHARE
    if "by_design" in table:
        is_long &= ~table["by_design"]
    return table.assign(p_right=right, p_wrong=wrong, verdict=np.where(is_long, OPEN, verdict))


def primary_family(study: Study) -> pd.DataFrame:
    """Test the primary family: has PF-PNE the smallest regret of the paper's five in each panel of the main figure?

    Parameters
    ----------
    study : Study
        The runs; only runs on random cells are compared.

    Returns
    -------
    pandas.DataFrame
        One row per objective and noise, and one for all. rival: the algorithm with the smallest mean regret of the
        other four. ratio, low, high: PF-PNE's mean regret over the rival's, with a 95 % bootstrap interval.
        improvement, and its interval: the probability that a run of PF-PNE has less regret than a run of the rival.
        p_right, p_wrong: p-values under the nulls "PF-PNE's regret is not the smallest" and "it is" (sign-flip tests of
        the paired differences to all four), corrected by `decide_by_holm`, which gives the verdict.
        last_phase_share: the share of T in PF-PNE's last phase.
    """
    rows, pairs = [], []
    conditions = [condition for condition in study.claim_conditions if condition.cells == "random"]
    for case in _main_cases(study, conditions):
        condition, objective = case.condition, case.objective
        runs = case.summaries()
        pf_pne, last_phase_share = runs["regret"].to_numpy(), runs["last_phase_share"].mean()
        theirs = {name: case.summaries(name)["regret"].to_numpy() for name in PAPER_ALGORITHMS if name != "pf-pne"}
        rival = min(theirs, key=lambda name: theirs[name].mean())
        random = partial(stream, study.seed, "primary", objective, condition.name)
        p = np.array([stats.sign_flip(pf_pne - regret, random()) for regret in theirs.values()])
        p_right, p_wrong = stats.combine_p_values(p)
        ratio, low, high = stats.ratio_interval(pf_pne, theirs[rival], random("ratio"))
        improvement_low, improvement_high = stats.improvement_interval([(pf_pne, theirs[rival])], random("improvement"))
        rows.append(
            {
                **{"objective": objective, "noise": condition.name, "n": len(pf_pne), "rival": rival},
                "last_phase_share": last_phase_share,
                **{"ratio": ratio, "low": low, "high": high},
                "improvement": stats.probability_of_improvement(pf_pne, theirs[rival]),
                **{"improvement_low": improvement_low, "improvement_high": improvement_high},
                **{"p_right": p_right, "p_wrong": p_wrong},
            }
        )
        pairs.append((pf_pne, theirs[rival]))
    table = decide_by_holm(pd.DataFrame(rows))
    low, high = stats.improvement_interval(pairs, stream(study.seed, "primary", "all"))
    overall = {"objective": "all", "improvement": table["improvement"].mean()}
    overall |= {"improvement_low": low, "improvement_high": high}
    return pd.concat([table, pd.DataFrame([overall])], ignore_index=True)


def times_by_objective(study: Study) -> pd.DataFrame:
    """The seconds behind the claims on time, which vary between batches: one row per condition and objective."""
    return pd.DataFrame([measure_times(case) for case in _main_cases(study, study.claim_conditions)])


def _main_cases(study: Study, conditions: Sequence[ClaimCondition]) -> list[ClaimCase]:
    """The cases of the objectives of the main figure."""
    pairs = [(condition, f) for condition in conditions for f in condition.objectives if f in MAIN_OBJECTIVES]
    return [ClaimCase(study, *pair) for pair in pairs]
