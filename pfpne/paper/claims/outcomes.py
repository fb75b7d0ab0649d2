"""What the claims are tested on, and what a test gives: cases, comparisons and counts, and how numbers are said."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfpne.algorithms.pf_pne import PFPNESettings
from pfpne.paper.claims import depths, stats
from pfpne.paper.claims.evidence import ClaimSetting, Study
from pfpne.paper.show.style import label

PAPER_SETTINGS = PFPNESettings()
MAX_CUT_SHARE = 0.5  # of T: beyond, the phase that the horizon cuts is most of the run


def theory_settings(M: int) -> dict:
    """The c and c_1 that the paper's theory wants."""
    return {"c": 2.0, "c_1": (2 * M**2) ** (1 / 8)}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One inequality, one value per run: a slope or a difference, whose mean is claimed to be below its limit.

    name: what it is called. values (n,): the slope or the difference of each run. reference (n,): if the values are
    differences a - b, the b of each run; the limit is then one of the ratio a / b. None if they are slopes. is_above:
    the value is claimed to be above the limit instead. undecidable: why these runs cannot decide it, if so. pair: the
    names of a and b, where each has one.
    """

    name: str
    values: np.ndarray
    reference: np.ndarray | None = None
    limit: float = 1.0
    is_above: bool = False
    undecidable: str = ""
    pair: tuple[str, str] | None = None

    @property
    def excess(self) -> np.ndarray:
        """By how much (n,) it fails; below 0 where it is right."""
        allowed = self.limit if self.reference is None else (self.limit - 1) * self.reference
        beyond = self.values - allowed
        return -beyond if self.is_above else beyond

    @property
    def value(self) -> float:
        """The mean slope, or the ratio of the two means; nan if there is nothing to divide by."""
        if self.reference is None:
            return float(self.values.mean())
        return float(1 + self.values.mean() / (self.reference.mean() or math.nan))

    @property
    def margin(self) -> float:
        """How far from right it is on the whole, in a unit that the comparisons of a claim share; below 0 is right."""
        unit = 1 if self.reference is None else self.reference.mean() or math.nan
        return float(np.nan_to_num(self.excess.mean() / unit))

    @property
    def brief(self) -> str:
        """The one number that a cell of a table has room for."""
        if self.pair:
            return f"{' / '.join(self.pair)} = {format_number(self.value)}"
        return f"{self.name}: {'' if self.reference is None else 'ratio '}{format_number(self.value)}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a test gives: comparisons, every one of them claimed, or whether it is as claimed in each run.

    as_claimed: one value per run and objective, None where a run ended too early to tell. measured: all in words,
    comparisons one by one if empty. reason: the words on the first objective that refutes the claim. vacuous: why it
    could hardly fail here, if so. excuse: which of its premises fails, if one does: then nothing is decided. by_design:
    nothing else can come out here.
    """

    comparisons: Sequence[Comparison] = ()
    as_claimed: Sequence[bool | None] = ()
    measured: str = ""
    reason: str = ""
    vacuous: str = ""
    excuse: str = ""
    by_design: bool = False

    @property
    def decidable(self) -> list[Comparison]:
        """The comparisons that these runs can decide."""
        return [comparison for comparison in self.comparisons if not comparison.undecidable]

    def p_values(self, rng: np.random.Generator) -> np.ndarray:
        """p-values (k, 2) of "it is false" and "it is true", of each decidable comparison."""
        p = [stats.sign_flip(comparison.excess, rng) for comparison in self.decidable]
        return np.array(p).reshape(-1, 2)


class Counted(NamedTuple):
    """What was counted on one objective: whether each run is as claimed, and in words what decides, and details."""

    as_claimed: list[bool | None]
    reason: str
    details: str = ""


@dataclass(frozen=True)
class ClaimCase:
    """One case in which a claim is tested: the runs of one objective in one setting, with one Delta for PF-PNE.

    setting: the noise and the kind of cells; what an algorithm is given is called settings. own_Delta: whether PF-PNE
    is given the clients' own Delta, instead of the paper's.
    """

    study: Study
    setting: ClaimSetting
    objective: str
    own_Delta: bool = False

    def runs(self, algorithm: str = "pf-pne", settings: dict | None = None, **changes) -> pd.DataFrame:
        """One row per run of an algorithm, columns as in pfpne.paper.claims.evidence.RUN_COLUMNS.

        settings: the algorithm's, before the case's Delta. changes: as Study.experiment takes them.
        """
        changes = {"cells": self.setting.cells, "settings": self.settings_for(algorithm, settings), **changes}
        return self.study.runs(self.objective, algorithm, self.setting.noise, **changes)

    def settings_for(self, algorithm: str, settings: dict | None = None) -> dict:
        """The settings that an algorithm is given here: these, and for PF-PNE the case's Delta."""
        settings = ({"Delta": "true"} if self.own_Delta and algorithm == "pf-pne" else {}) | (settings or {})
        if settings.get("Delta") == PAPER_SETTINGS.Delta:
            del settings["Delta"]  # the default, which the runs of the figures have: not to be run twice
        return settings

    def events(self, settings: dict | None = None) -> pd.DataFrame:
        """One row per run of PF-PNE, columns as in pfpne.paper.claims.depths.EVENTS."""
        changes = {"cells": self.setting.cells, "settings": self.settings_for("pf-pne", settings)}
        experiment = self.study.experiment(self.objective, "pf-pne", self.setting.noise, **changes)
        return pd.DataFrame(self.study.per_run(depths.count_events, experiment), columns=[*depths.EVENTS])

    def per_run(self, function: Callable, *arguments) -> np.ndarray:
        """What function(experiment, run, *arguments) says of the problem and the cells of each run (n_runs, ...)."""
        experiment = self.study.experiment(self.objective, "pe", "bernoulli", cells=self.setting.cells)
        return self.study.per_run(function, experiment, *arguments)  # the same with any algorithm and noise

    @property
    def sweep(self) -> dict:
        """The changes to the main comparison where many values of M, T, a shift or a setting are run: fewer runs."""
        return {"n_runs": self.study.sweep_runs}


def why_one_phase(last_phase: pd.Series) -> str:
    """Why runs say little of an algorithm's regret, if half of T is one phase, which the horizon cuts; else nothing.

    There regret is a straight line, whatever the algorithm; nothing is learnt from the phase. last_phase: that column
    of Study.runs.
    """
    share = last_phase.mean()
    return f"{share:.0%} of T is one phase" if share > MAX_CUT_SHARE else ""


# --- words ------------------------------------------------------------------------------------------


def format_number(x: float) -> str:
    """Three digits, or whole with commas."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def extremes_in_words(comparisons: Sequence[Comparison]) -> str:
    """The lowest and the highest value, where there are too many to list."""
    ends = (choose(comparisons, key=lambda comparison: comparison.value) for choose in (min, max))
    return " to ".join(f"{format_number(comparison.value)} ({comparison.name})" for comparison in ends)


def range_in_words(values: Sequence, form="{:,}") -> str:
    """From the smallest to the largest value."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def communication_in_words(runs: pd.DataFrame) -> str:
    """What runs communicate: rounds, the step of the last one, numbers."""
    rounds, last, numbers = (range_in_words(runs[column]) for column in ("rounds", "last_round", "numbers"))
    return f"{rounds} rounds, the last at t = {last}, {numbers} numbers in all"


def difference_name(first: str, second: str) -> str:
    """What the comparison of two algorithms is called: "PF-PNE - PE"."""
    return f"{label(first)} - {label(second)}"
