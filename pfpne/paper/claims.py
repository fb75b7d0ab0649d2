"""Every claim of the paper that runs can test, from claims.toml, and its verdict: holds, does not hold, undecided.

A *tested* claim is one or more comparisons, each a number a paired run (the same clients and the same noise for every
algorithm) that is below 0 where it is right. Sign-flip tests give p-values of "the claim is false" and "the claim is
true". Both, of all the tested claims of one column (a noise regime, with one Delta for PF-PNE), go through Holm's
correction together. A *counted* claim says what happens in every run, or compares measured times, and needs no test.

No verdict is written down: all come from the runs (pfpne.paper.evidence) through `evaluate`.
"""

import itertools
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.paper import claim_tests, stats
from pfpne.paper.claim_tests import KINDS, SETTINGS, Column, Comparison, Outcome, number
from pfpne.paper.evidence import Regime, Study
from pfpne.paper.looks import title
from pfpne.paper.parameters import MAIN
from pfpne.rng import stream

ALPHA = 0.05  # the chance, at most, of any false verdict in one column
GIVEN = (f"{SETTINGS.Delta:g}", "true")  # the Delta that PF-PNE is given: the paper's, or the clients' own
VERDICTS = ("holds", "does not hold", "undecided")
TABLE = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True, eq=False)
class Claim:
    """A row of claims.toml, which says what is what; arguments: what its test is given besides the column."""

    id: str
    place: str
    quote: str
    statement: str
    objectives: Sequence[str]
    kind: str
    arguments: dict
    statistic: str = "paired difference of R(T)/M"
    runs: str = "main comparison: M = {n_clients}, T = {horizon:,}, n = {n_runs}"
    by_Delta: bool = True

    def test(self, study: Study, regime: Regime, Delta: str) -> Outcome | None:
        """What its test finds, with one of GIVEN; None where there is nothing to test, or the other of GIVEN tells."""
        objectives = [name for name in self.objectives if name in regime.objectives]
        if not objectives or not (self.by_Delta or Delta == GIVEN[0]):
            return None
        return KINDS[self.kind](Column(study, regime, objectives, own_Delta=Delta == "true"), **self.arguments)


def read() -> Iterator[Claim]:
    """The claims of TABLE, in their order."""
    for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["claim"]:
        parts, each = row.pop("parts", [{}]), row.pop("each", [""])
        for objective, part in itertools.product(each, parts):
            arguments = row | part
            own = {name: arguments.pop(name) for name in Claim.__annotations__ if name in arguments}
            if objective:
                own |= {"id": f"{own['id']}-{objective}", "objectives": [objective]}
                own["statement"] = own["statement"].replace("$objective", title(objective))
            yield Claim(**own, arguments=arguments)


CLAIMS = tuple(read())
VERDICT_COLUMNS = (
    *("id", "place", "quote", "statement", "regime", "Delta"),
    *("verdict", "decided_by", "measured", "statistic", "runs", "p_right", "p_wrong"),
)
COMPARISON_COLUMNS = ("id", "regime", "Delta", "what", "n", "mean", "low", "high", "ratio", "ratio_low", "ratio_high")


def evaluate(study: Study, claims: Sequence[Claim] = CLAIMS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every claim in every regime, with either Delta: (verdicts, comparisons), a row each.

    verdicts: Delta "0.01", "true", or "" where it makes no difference; decided_by: the comparison furthest from the
    claim, or what refutes a counted one; p_right, p_wrong: Holm's, nan for counted claims.
    comparisons: mean, low, high: of the difference or slope over n runs, with its 95 % bootstrap interval; ratio,
    ratio_low, ratio_high: the same of the ratio of means. Intervals are not corrected.
    """
    clients, horizons = ", ".join(map(str, study.clients)), ", ".join(f"{T:,}" for T in study.horizons)
    scale = vars(study) | {"clients": clients, "horizons": horizons}  # of the runs, in words
    verdicts, comparisons = {claim: [] for claim in claims}, {claim: [] for claim in claims}
    for regime, Delta in itertools.product(study.regimes, GIVEN):
        outcomes = {claim: outcome for claim in claims if (outcome := claim.test(study, regime, Delta))}
        random = {claim: partial(stream, study.seed, "claims", claim.id, regime.name, Delta) for claim in outcomes}
        p = {claim: outcome.p(random[claim]()) for claim, outcome in outcomes.items() if outcome.comparisons}
        both = np.ravel([together(p[claim], outcomes[claim].every) for claim in p])
        corrected = dict(zip(p, stats.holm(both).reshape(-1, 2), strict=True))
        for claim, outcome in outcomes.items():
            head = {"id": claim.id, "regime": regime.name, "Delta": Delta if claim.by_Delta else ""}
            p_right, p_wrong = corrected.get(claim, (math.nan, math.nan))
            verdict, decided_by, measured = judge_facts(outcome.facts), outcome.against, outcome.measured
            if claim in p:
                verdict = judge(p_right, p_wrong)
                decided_by = deciding(outcome, verdict, p[claim], corrected[claim]).brief
                rows = report(outcome, random[claim]("interval"))
                measured = measured or "; ".join(map(in_one_line, rows))
                comparisons[claim] += [head | row for row in rows]
            found = {"verdict": verdict, "decided_by": decided_by, "measured": measured}
            found |= {"runs": claim.runs.format_map(scale), "p_right": p_right, "p_wrong": p_wrong}
            verdicts[claim].append(vars(claim) | head | found)
    tables = ((verdicts, VERDICT_COLUMNS), (comparisons, COMPARISON_COLUMNS))
    return tuple(pd.DataFrame(sum(rows.values(), []), columns=list(columns)) for rows, columns in tables)


def together(p: np.ndarray, every: bool) -> tuple[float, float]:
    """p-values of "the claim is false" and "the claim is true", from those of its comparisons (k, 2).

    A claim of every comparison ("smaller than each of the others") is right if all are, so its first p-value is the
    largest of theirs; it is wrong if any is: the smallest of theirs times k. For "at least one" it is the other way.
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

    Where one is enough for the verdict, it is one that would be enough alone: by its p (k, 2), times k and the factor
    of Holm's correction, by which the claim's own two p-values became `corrected` (2,).
    """
    candidates, side = outcome.comparisons, int(outcome.every)
    if verdict == ("does not hold" if outcome.every else "holds"):
        alone = len(p) * p[:, side] * corrected[side] / together(p, outcome.every)[side] <= ALPHA
        candidates = itertools.compress(candidates, alone)
    return (max if outcome.every else min)(candidates, key=lambda comparison: comparison.margin)


def report(outcome: Outcome, rng: np.random.Generator) -> list[dict]:
    """Each comparison once (one that is tested on two sides counts as one), with the intervals of its means."""
    rows = []
    for found in {found.what: found for found in outcome.comparisons}.values():
        low, high = stats.interval(found.shown, rng)
        rows.append({"what": found.what, "n": len(found.shown), "mean": found.shown.mean(), "low": low, "high": high})
        if found.base is not None:
            ratio = stats.ratio(found.shown + found.base, found.base, rng)
            rows[-1] |= zip(("ratio", "ratio_low", "ratio_high"), ratio, strict=True)
    return rows


def in_one_line(row: dict) -> str:
    words = "{what}: {mean} [{low}, {high}]" + (", ratio {ratio} [{ratio_low}, {ratio_high}]" if "ratio" in row else "")
    return words.format(**{name: value if name == "what" else number(value) for name, value in row.items()})


def times(study: Study) -> pd.DataFrame:
    """Seconds behind the claims on time, a row a regime and objective (see claim_tests.times), not the same twice."""
    columns = [Column(study, regime, [f for f in MAIN if f in regime.objectives]) for regime in study.regimes]
    return pd.concat([claim_tests.times(column) for column in columns], ignore_index=True)
