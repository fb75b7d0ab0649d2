"""Every claim of the paper that runs can test, from claims.toml, and its verdict.

The rule. A *tested* claim is one or more comparisons, each a number a paired run (the same clients and the same noise
for every algorithm) that is on the declared side of its limit where the claim is right. Sign-flip tests give p-values
of "the claim is false" and "the claim is true". One of these two is true, and only an error about that one is an error:
so of a family of k claims, k hypotheses can be rejected wrongly, and each p-value times k (Bonferroni's correction,
which supposes nothing of how the claims depend on each other) keeps the chance of any wrong verdict in the family at
ALPHA. Families are declared in claims.toml, and hold in one column: a noise, a kind of cells, a Delta for PF-PNE.
"Holds": "it is false" is rejected. "Does not hold": "it is true" is; "better than claimed", if a limit is missed only
on the better side. "Undecided": neither. A *counted* claim says what happens in every run, and needs no test: one run
refutes it. "True by construction": the algorithm's design leaves nothing else. "Not decidable": what the claim as
tested supposes fails, nothing moves, or the runs are of a kind that cannot tell. A claim supposes what its statement
says: "whatever Delta" waives the premise that Delta is valid, in every claim that quotes it.

No verdict is written down: all come from the runs (pfpne.paper.claims.evidence) through `evaluate`.
"""

import itertools
import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.paper.claims import stats, tests
from pfpne.paper.claims.evidence import Regime, Study
from pfpne.paper.claims.tests import CUT, KINDS, PAPERS, Column, Outcome, number
from pfpne.paper.run.groups import MAIN, PAPER
from pfpne.paper.show.style import title
from pfpne.rng import stream

ALPHA = 0.05  # the chance, at most, of any false verdict in one family
GIVEN = (f"{PAPERS.Delta:g}", "true")  # the Delta that PF-PNE is given: the paper's, or the clients' own
VERDICTS = ("holds", "better than claimed", "true by construction", "does not hold", "undecided", "not decidable")
TABLE = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True, eq=False)
class Claim:
    """A row of claims.toml, which says what is what; arguments: what its test is given besides the column."""

    id: str
    place: str
    quote: str
    statement: str
    short: str
    objectives: Sequence[str]
    kind: str
    arguments: dict
    runs: str = "main comparison: M = {n_clients}, T = {horizon:,}, shift = {shift:g}, n = {n_runs}"
    by_Delta: bool = True
    family: str = ""
    ours: bool = False
    once: bool = False
    noise: float | str = ""
    cells: str = ""
    better_low: bool = False
    by_design: bool = False
    excuse: str = ""

    def test(self, study: Study, regime: Regime, Delta: str) -> Outcome | None:
        """What its test finds, with one of GIVEN; None where there is nothing to test, or the other of GIVEN tells."""
        columns = [Column(study, regime, f, Delta == "true") for f in self.objectives if f in regime.objectives]
        here = self.noise in ("", regime.noise) and self.cells in ("", regime.cells)
        if columns and here and (self.by_Delta or Delta == GIVEN[0]):
            return KINDS[self.kind](*columns, **self.arguments)


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
COLUMNS = [  # of the three tables that `evaluate` makes
    "id whose once family place statement regime cells Delta verdict decided_by measured runs k p_right p_wrong",
    "id regime cells Delta what n mean low high ratio ratio_low ratio_high side limit p_right p_wrong why_not",
    "id regime cells Delta what side excess",
]


def evaluate(study: Study, claims: Sequence[Claim] = CLAIMS) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Every claim in every regime, with either Delta: (verdicts, comparisons, runs), a row each, runs one a comparison.

    verdicts: Delta "0.01", "true", or "" where it makes no difference; decided_by: the comparison furthest from the
    claim, or what refutes a counted one, or why nothing is decided; k: the claims of its family that are tested there;
    p_right, p_wrong: of "it is false" and "it is true", times k; nan for counted claims.
    comparisons: mean, low, high: of the difference or slope over n runs, with its 95 % bootstrap interval; ratio,
    ratio_low, ratio_high: the same of the ratio of means; side, limit: what is claimed of the mean slope or the ratio;
    p_right, p_wrong: of this comparison alone. Intervals and these p-values are not corrected.
    runs: of decidable ones; excess: by how much each run fails, below 0 where it is right: what the tests are given.
    """
    clients, horizons = ", ".join(map(str, study.clients)), ", ".join(f"{T:,}" for T in study.horizons)
    scale = vars(study) | {"clients": clients, "horizons": horizons, "sweep_runs": study.sweep_runs}  # in words
    columns = [*itertools.product(study.regimes, GIVEN)]
    every = {(claim, *column): claim.test(study, *column) for claim in claims for column in columns}
    outcomes = {test: outcome for test, outcome in every.items() if outcome}
    tested = Counter((claim.family, *column) for (claim, *column), outcome in outcomes.items() if outcome.comparisons)
    verdicts, comparisons = [], []
    for (claim, regime, Delta), outcome in outcomes.items():
        random = partial(stream, study.seed, "claims", claim.id, regime.name, regime.cells, Delta)
        p = outcome.p(random())
        head = vars(claim) | {
            "whose": "ours" if claim.ours else "the paper's",
            "once": "once" if claim.once else "",
            "regime": regime.name,
            "cells": regime.cells,
            "Delta": Delta if claim.by_Delta else "",
            "runs": claim.runs.format_map(scale),
        }
        rows = report(outcome, p, random("interval"))
        found = judge(claim, outcome, p, tested[claim.family, regime, Delta])
        measured = outcome.measured or "; ".join(dict.fromkeys(map(in_one_line, rows)))
        verdicts.append(head | found | {"measured": measured})
        comparisons += [head | row for row in rows]
    runs = [row for row in comparisons if "excess" in row]
    tables = zip((verdicts, comparisons, runs), COLUMNS, strict=True)
    return tuple(pd.DataFrame(rows, columns=names.split()) for rows, names in tables)


def together(p: np.ndarray) -> tuple[float, float]:
    """p-values of "the claim is false" and "the claim is true", from those of its comparisons (n, 2), n >= 1.

    It is right if all are ("smaller than each of the others"), so the first is the largest of theirs; it is wrong if
    any is: the smallest of theirs times n.
    """
    return p[:, 0].max(), min(1.0, len(p) * p[:, 1].min())


def judge(claim: Claim, outcome: Outcome, p: np.ndarray, k: int) -> dict:
    """The verdict, by the rule above, from the p-values (n, 2) of the decidable comparisons; k: as `evaluate` has it.

    Of a counted claim one run against it refutes it; of one that ended too early nothing follows.
    """
    holds = "true by construction" if claim.by_design or outcome.by_design else "holds"
    excuse = claim.excuse or outcome.excuse
    if not outcome.comparisons:
        found = outcome.facts
        if not excuse and False not in found and None in found:
            excuse = "the horizon cuts the phase that would tell"
        verdict = "not decidable" if excuse else "does not hold" if False in found else holds
        return {"verdict": verdict, "decided_by": excuse or outcome.against}
    why_not = next((one.why_not for one in outcome.comparisons if one.why_not), outcome.vacuous)
    if excuse or not outcome.decidable:
        why = excuse or why_not
        return {"verdict": "not decidable", "decided_by": why, "k": k, "p_right": math.nan, "p_wrong": math.nan}
    p_right, p_wrong = (min(1.0, k * x) for x in together(p))
    refuted = [c for c, alone in zip(outcome.decidable, k * len(p) * p[:, 1] <= ALPHA, strict=True) if alone]
    decided_by = max(refuted or outcome.decidable, key=lambda comparison: comparison.margin).brief
    if refuted:
        verdict = "better than claimed" if claim.better_low and all(c.low for c in refuted) else "does not hold"
    elif why_not:
        verdict, decided_by = "not decidable", why_not
    else:
        verdict = "undecided" if p_right > ALPHA else holds
    return {"verdict": verdict, "decided_by": decided_by, "k": k, "p_right": p_right, "p_wrong": p_wrong}


def report(outcome: Outcome, p: np.ndarray, rng: np.random.Generator) -> list[dict]:
    """A row a comparison, with the intervals of its means; p (n, 2): of the decidable ones, which have an `excess`."""
    rows, intervals, alone = [], {}, iter(p)
    for found in outcome.comparisons:
        if found.what not in intervals:  # one that is tested on two sides has one
            shown, base = found.shown, found.base
            low, high = stats.interval(shown, rng)
            row = {"what": found.what, "n": len(shown), "mean": shown.mean(), "low": low, "high": high}
            ratio = () if base is None else stats.ratio(shown + base, base, rng)
            intervals[found.what] = row | dict(zip(("ratio", "ratio_low", "ratio_high"), ratio))
        row = {"side": "above" if found.low else "below", "limit": found.limit, "why_not": found.why_not}
        if not found.why_not:
            row |= dict(zip(("p_right", "p_wrong"), next(alone)), excess=" ".join(f"{x:.5g}" for x in found.excess))
        rows.append(intervals[found.what] | row)
    return rows


def in_one_line(row: dict) -> str:
    words = "{what}: {mean} [{low}, {high}]" + (", ratio {ratio} [{ratio_low}, {ratio_high}]" if "ratio" in row else "")
    return words.format(**{name: number(x) if isinstance(x, float) else x for name, x in row.items()})


def primary(study: Study) -> pd.DataFrame:
    """The primary family: is PF-PNE the smallest of the paper's five in each panel of the main figure, random cells?

    One row per objective and noise, and one for all. rival: the one of the other four with the smallest mean. ratio,
    low, high: of PF-PNE's mean regret to the rival's, with a 95 % bootstrap interval. improvement, and its interval:
    the probability that a run of PF-PNE has less regret than one of the rival's. p_right, p_wrong: of "it is not the
    smallest" and "it is" (sign-flip tests of the paired differences to all four), with Holm's correction over the rows.
    verdict: shown, refuted, or open; open as well where more than half of T is one phase that T cuts.
    """
    rows, pairs = [], []
    regimes = [regime for regime in study.regimes if regime.cells == "random"]
    for regime, objective in ((regime, f) for regime in regimes for f in regime.objectives if f in MAIN):
        column = Column(study, regime, objective)
        summary = column.summary()
        ours, phase = summary["regret"].to_numpy(), summary["idle"].mean()
        theirs = {name: column.values(name) for name in PAPER if name != "pf-pne"}
        rival = min(theirs, key=lambda name: theirs[name].mean())
        rng = partial(stream, study.seed, "primary", objective, regime.name)
        p = np.array([stats.sign_flip(ours - regret, rng()) for regret in theirs.values()])
        ratio, low, high = stats.ratio(ours, theirs[rival], rng("ratio"))
        chance = stats.improvement(ours, theirs[rival])
        ends = stats.improvement_interval([(ours, theirs[rival])], rng("improvement"))
        head = {"objective": objective, "regime": regime.name, "n": len(ours), "rival": rival, "phase": phase}
        head |= {"ratio": ratio, "low": low, "high": high, "improvement": chance}
        head |= dict(zip(("improvement_low", "improvement_high"), ends, strict=True))
        rows.append(head | {"p_right": p[:, 0].max(), "p_wrong": min(1.0, len(p) * p[:, 1].min())})
        pairs.append((ours, theirs[rival]))
    table = pd.DataFrame(rows)
    right, wrong = (stats.holm(table[name].to_numpy()) for name in ("p_right", "p_wrong"))
    verdict = np.where(right <= ALPHA, "shown", np.where(wrong <= ALPHA, "refuted", "open"))
    table = table.assign(p_right=right, p_wrong=wrong, verdict=np.where(table["phase"] > CUT, "open", verdict))
    low, high = stats.improvement_interval(pairs, stream(study.seed, "primary", "all"))
    every = {
        "objective": "all",
        "improvement": table["improvement"].mean(),
        "improvement_low": low,
        "improvement_high": high,
    }
    return pd.concat([table, pd.DataFrame([every])], ignore_index=True)


def times(study: Study) -> pd.DataFrame:
    """Seconds behind the claims on time, a row a regime and objective (see tests.times), not the same twice."""
    every = itertools.product(study.regimes, MAIN)
    return pd.DataFrame([tests.times(Column(study, *one)) for one in every if one[1] in one[0].objectives])
