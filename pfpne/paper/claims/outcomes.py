"""The cases that claims are tested on, the outcomes of tests (comparisons and counts), and their numbers in words."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfpne.algorithms.pf_pne import PFPNESettings
from pfpne.paper.claims import assumption_checks, stats
from pfpne.paper.claims.evidence import ClaimCondition, Study
from pfpne.paper.show.style import label

PAPER_SETTINGS = PFPNESettings()
MAX_LAST_PHASE_SHARE = 0.5  # of T: where the last phase, which T truncates, is longer, regret is not compared
LONG_LAST_PHASE = "of T is one phase"  # how the reason of `long_last_phase_reason` ends


def theory_settings(M: int) -> dict:
    """The c and c_1 that the paper's theory requires."""
    return {"c": 2.0, "c_1": (2 * M**2) ** (1 / 8)}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One inequality: the claim that the mean of a slope or of a difference is below a limit, with one value per run.

    name: the name of the slope or the difference. slopes_or_differences (n,): its value in each run; a difference is
    a - b. b (n,): the values of b, for differences; the limit then bounds the ratio a / b. None for slopes. is_above:
    whether the claim is "above the limit" instead. undecidable_reason: why these runs cannot decide it, or "". pair:
    the names of a and b, or None.
    """

    name: str
    slopes_or_differences: np.ndarray
    b: np.ndarray | None = None
    limit: float = 1.0
    is_above: bool = False
    undecidable_reason: str = ""
    pair: tuple[str, str] | None = None

    @property
    def violation(self) -> np.ndarray:
        """The violation of the inequality in each run (n,); negative where it holds."""
        allowed = self.limit if self.b is None else (self.limit - 1) * self.b
        beyond = self.slopes_or_differences - allowed
        return -beyond if self.is_above else beyond

    @property
    def estimate(self) -> float:
        """The mean slope, or the ratio of the two means; nan if the denominator is 0."""
        if self.b is None:
            return float(self.slopes_or_differences.mean())
        return float(1 + self.slopes_or_differences.mean() / (self.b.mean() or math.nan))

    @property
    def mean_violation(self) -> float:
        """The mean violation, negative if the inequality holds. It is divided by the mean of b, if there is a b.

        So the comparisons of one claim can be ordered by it.
        """
        unit = 1 if self.b is None else self.b.mean() or math.nan
        return float(np.nan_to_num(self.violation.mean() / unit))

    @property
    def brief(self) -> str:
        """The comparison in one number, short enough for a cell of a table."""
        if self.pair:
            return f"{' / '.join(self.pair)} = {format_number(self.estimate)}"
        return f"{self.name}: {'' if self.b is None else 'ratio '}{format_number(self.estimate)}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a test: either comparisons, all of which the claim asserts, or whether each run is as claimed.

    as_claimed: one value per run and objective, or per objective or depth, as the test says; None where nothing is
    decided, as for a run that ended too early. measured_in_words: the measurements; if empty, the comparisons are
    listed. counterexample: the words on the first objective that refutes the claim. vacuous_reason: why the claim could
    hardly fail here, or "". undecidable_reason: the premise that fails, or ""; if one fails, nothing is decided.
    by_design: whether the design allows no other outcome here.
    """

    comparisons: Sequence[Comparison] = ()
    as_claimed: Sequence[bool | None] = ()
    measured_in_words: str = ""
    counterexample: str = ""
    vacuous_reason: str = ""
    undecidable_reason: str = ""
    by_design: bool = False

    @property
    def decidable(self) -> list[Comparison]:
        """The comparisons that these runs can decide."""
        return [comparison for comparison in self.comparisons if not comparison.undecidable_reason]

    def p_values(self, rng: np.random.Generator) -> np.ndarray:
        """p_right and p_wrong of each decidable comparison, (n, 2): under the nulls "it is false" and "it is true"."""
        p = [stats.sign_flip(comparison.violation, rng) for comparison in self.decidable]
        return np.array(p).reshape(-1, 2)


class Counted(NamedTuple):
    """The count on one objective: whether each run is as claimed, the finding in words, and details."""

    as_claimed: list[bool | None]
    finding: str
    details: str = ""


@dataclass(frozen=True)
class ClaimCase:
    """One case in which a claim is tested: the runs of one objective in one condition, with one Delta for PF-PNE.

    condition: the noise and the kind of cells. true_Delta: whether PF-PNE is given the clients' true Delta, instead of
    the paper's.
    """

    study: Study
    condition: ClaimCondition
    objective: str
    true_Delta: bool = False

    def summaries(self, algorithm: str = "pf-pne", settings: dict | None = None, **changes) -> pd.DataFrame:
        """One row per run of an algorithm, columns as in pfpne.paper.claims.evidence.SUMMARY_COLUMNS.

        settings: the algorithm's settings, without the case's Delta. changes: as for Study.experiment.
        """
        changes = {"cells": self.condition.cells, "settings": self.settings_for(algorithm, settings), **changes}
        return self.study.summaries(self.objective, algorithm, self.condition.noise, **changes)

    def settings_for(self, algorithm: str, settings: dict | None = None) -> dict:
        """The given settings and, for PF-PNE, the case's Delta."""
        settings = ({"Delta": "true"} if self.true_Delta and algorithm == "pf-pne" else {}) | (settings or {})
        if settings.get("Delta") == PAPER_SETTINGS.Delta:
            del settings["Delta"]  # the default, as in the runs of the figures, so that they are not run twice
        return settings

    def events(self, settings: dict | None = None) -> pd.DataFrame:
        """One row per run of PF-PNE, columns as in pfpne.paper.claims.assumption_checks.EVENTS."""
        changes = {"cells": self.condition.cells, "settings": self.settings_for("pf-pne", settings)}
        experiment = self.study.experiment(self.objective, "pf-pne", self.condition.noise, **changes)
        return pd.DataFrame(
            self.study.per_run(assumption_checks.count_events, experiment), columns=[*assumption_checks.EVENTS]
        )

    def per_run(self, function: Callable, *arguments) -> np.ndarray:
        """The values (n_runs, ...) of function(experiment, run, *arguments), about each run's problem and cells."""
        experiment = self.study.experiment(self.objective, "pe", "bernoulli", cells=self.condition.cells)
        return self.study.per_run(function, experiment, *arguments)  # the same with any algorithm and noise

    @property
    def sweep_changes(self) -> dict:
        """What `summaries` has to change in a sweep over M, T, a shift or a setting: it has fewer runs."""
        return {"n_runs": self.study.sweep_runs}


def long_last_phase_reason(last_phase_share: pd.Series) -> str:
    """The reason why an algorithm's regret cannot be compared if its last phase takes more than half of T; else "".

    In a phase that T truncates, regret is a straight line, whatever the algorithm, and nothing is learnt from it.
    last_phase_share: this column of Study.summaries.
    """
    share = last_phase_share.mean()
    return f"{share:.0%} {LONG_LAST_PHASE}" if share > MAX_LAST_PHASE_SHARE else ""


# --- words ------------------------------------------------------------------------------------------


def format_number(x: float) -> str:
    """Three digits, or whole with commas."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def extremes_in_words(comparisons: Sequence[Comparison]) -> str:
    """The lowest and the highest value, for lists that are too long."""
    ends = (choose(comparisons, key=lambda comparison: comparison.estimate) for choose in (min, max))
    return " to ".join(f"{format_number(comparison.estimate)} ({comparison.name})" for comparison in ends)


def range_in_words(values: Sequence, form="{:,}") -> str:
    """From the smallest to the largest value."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def communication_in_words(runs: pd.DataFrame) -> str:
    """The communication of runs: rounds, the step of the last round, numbers."""
    rounds, last, numbers = (range_in_words(runs[column]) for column in ("n_rounds", "last_round_step", "numbers"))
    return f"{rounds} rounds, the last at t = {last}, {numbers} numbers in all"


def difference_name(first: str, second: str) -> str:
    """The name of the comparison of two algorithms: "PF-PNE - PE"."""
    return f"{label(first)} - {label(second)}"
