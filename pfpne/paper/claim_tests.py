"""How the claims are tested: a kind of test (KINDS) is one function, of the runs of one column and of its arguments.

The first kinds give comparisons, which are tested; the others give facts, which are counted. What follows from them for
one claim among the others is decided in pfpne.paper.claims.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from pfpne.algorithms.pf_pne import PFPNESettings, log_term, transition_depth
from pfpne.paper import stats
from pfpne.paper.evidence import Regime, Study
from pfpne.paper.looks import label, title

MUCH = 2.0  # "much slower": by this factor at least; "similar": by no more
MOST = 0.8  # of the runs, for what is measured with error: times
PAPER = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")  # the five that the paper compares
DIMENSIONS = ("garland", "himmelblau", "rastrigin")  # one objective of each dimension: 1, 2, 10
SETTINGS = PFPNESettings()  # the paper's


@dataclass(frozen=True)
class Column:
    """The runs that a claim is tested on: in one regime, on those of the claim's objectives that are in it.

    own_Delta: whether PF-PNE is given the clients' own Delta, instead of the paper's.
    """

    study: Study
    regime: Regime
    objectives: Sequence[str]
    own_Delta: bool = False

    def summary(self, objective: str, algorithm: str = "pf-pne", **changes) -> pd.DataFrame:
        """A row a run, see Study.summary; `settings` among the changes come before the column's Delta."""
        settings = {"Delta": "true"} if self.own_Delta and algorithm == "pf-pne" else {}
        settings |= changes.pop("settings", None) or {}
        if settings.get("Delta") == SETTINGS.Delta:
            del settings["Delta"]  # the default, which the runs of the figures have: not to be run twice
        return self.study.summary(objective, algorithm, self.regime.noise, settings=settings, **changes)

    def regret(self, objective: str, algorithm: str = "pf-pne", **changes) -> np.ndarray:
        """R(T)/M of each run (n,)."""
        return self.summary(objective, algorithm, **changes)["regret"].to_numpy()

    def slopes(self, objective: str, of: str, values: Sequence[int], **changes) -> np.ndarray:
        """Exponents (n,) of n_clients or horizon, as `of` says, in PF-PNE's R(T)/M, from runs with these values."""
        regret = [self.regret(objective, **{of: value}, **changes) for value in values]
        return stats.power(values, np.stack(regret, axis=1))


@dataclass(frozen=True, eq=False)
class Comparison:
    """One inequality, a number a run. excess (n,): by how much it fails; below 0 where the claim is right.

    shown (n,): what is reported, a slope or a difference; base (n,): of a difference, what it is relative to.
    """

    what: str
    excess: np.ndarray
    shown: np.ndarray
    base: np.ndarray | None = None

    @property
    def value(self) -> float:
        """The mean slope, or the ratio of the two means; nan if there is nothing to divide by."""
        return float(self.shown.mean() if self.base is None else 1 + self.shown.mean() / (self.base.mean() or math.nan))

    @property
    def margin(self) -> float:
        """How far from right it is on the whole, in a unit that the comparisons of a claim share; below 0 is right."""
        return float(np.nan_to_num(self.excess.mean() / (1 if self.base is None else self.base.mean() or math.nan)))

    @property
    def brief(self) -> str:
        """The one number that a cell of a table has room for."""
        if " - " in self.what:
            return f"{self.what.replace(' - ', ' / ')} = {number(self.value)}"
        return f"{self.what}: {'' if self.base is None else 'ratio '}{number(self.value)}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a test found: comparisons, every one of them claimed, or one at least; or facts, all claimed to be True.

    facts: None where a run ended too early to tell. measured: all in words, comparisons one by one if empty; against:
    of these words, those on what refutes the facts first.
    """

    comparisons: Sequence[Comparison] = ()
    every: bool = True
    facts: Sequence[bool | None] = ()
    measured: str = ""
    against: str = ""

    def p(self, rng: np.random.Generator) -> np.ndarray:
        """p-values (k, 2) of "it is false" and "it is true", of each comparison."""
        return np.array([stats.sign_flip(comparison.excess, rng) for comparison in self.comparisons])


# --- words ------------------------------------------------------------------------------------------


def number(x: float) -> str:
    """Three digits, or whole with commas."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def extremes(comparisons: Sequence[Comparison]) -> str:
    """The lowest and the highest value, where there are too many to list."""
    found = (choose(comparisons, key=lambda comparison: comparison.value) for choose in (min, max))
    return " to ".join(f"{number(comparison.value)} ({comparison.what})" for comparison in found)


def spread(values: Sequence, form="{:,}") -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def cost(rows: pd.DataFrame) -> str:
    rounds, last, numbers = (spread(rows[column]) for column in ("rounds", "last", "numbers"))
    return f"{rounds} rounds, the last at t = {last}, {numbers} numbers in all"


def in_words(Delta: float | str) -> str:
    return "the clients' own" if Delta == "true" else f"{Delta:g}"


# --- kinds that compare -----------------------------------------------------------------------------


def inequalities(a: np.ndarray, b: np.ndarray, what: str, below=None, above=None) -> list[Comparison]:
    """a < below * b, and a > above * b, where they are given; of the runs that both have."""
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    excesses = ([] if below is None else [a - below * b]) + ([] if above is None else [above * b - a])
    return [Comparison(what, excess, a - b, b) for excess in excesses]


def compare(column: Column, others, algorithm="pf-pne", below=None, above=None, every=True, settings=None, **changes):
    """The algorithm's R(T)/M is below and above so many times that of every other (or of one), on one objective.

    settings: the algorithm's. changes: to all these runs, see Study.experiment.
    """
    (objective,), comparisons = column.objectives, []
    mine = column.regret(objective, algorithm, settings=settings, **changes)
    for other in others:
        theirs = column.regret(objective, other, **changes)
        comparisons += inequalities(mine, theirs, f"{label(algorithm)} - {label(other)}", below, above)
    return Outcome(comparisons, every)


def compare_shifts(column: Column, algorithm: str, above: float) -> Outcome:
    """The algorithm's R(T)/M is above so many times what it has with clients that are alike, on one objective."""
    (objective,) = column.objectives
    apart, alike = column.regret(objective, algorithm), column.regret(objective, algorithm, shift=0.0)
    return Outcome(inequalities(apart, alike, f"shift {column.study.shift:g} - shift 0", above=above))


def move_settings(column: Column, ranges: dict[str, Sequence[float]], within: float) -> Outcome:
    """Each setting, moved alone to these values, changes PF-PNE's R(T)/M by less than a factor, on one objective."""
    (objective,) = column.objectives
    ours, *rivals = (column.regret(objective, name) for name in PAPER)
    comparisons, places = [], []
    for name, value in [(name, value) for name in ranges for value in ranges[name]]:
        if not (name == "Delta" and column.own_Delta):
            moved = column.regret(objective, settings={name: value})
            comparisons += inequalities(moved, ours, f"{name} = {value:g}", within, 1 / within)
            places.append(place(moved, rivals))
    measured = (
        f"ratio of R(T)/M to that at the paper's values: {extremes(comparisons)}; "
        f"place among the paper's five: {place(ours, rivals)}, and {min(places)} to {max(places)} when moved"
    )
    return Outcome(comparisons, measured=measured)


def place(mine: np.ndarray, rivals: Sequence[np.ndarray]) -> int:
    """The place of the mean of `mine` among the rivals', 1 for the smallest; each compared on the runs it has."""
    return 1 + sum(theirs.mean() < mine[: len(theirs)].mean() for theirs in rivals)


def slope_on_M(column: Column, below: float) -> Outcome:
    """With clients that are alike, PF-PNE's R(T)/M ~ M^a with a < below, on one objective."""
    (objective,) = column.objectives
    slopes = column.slopes(objective, "n_clients", column.study.clients, shift=0.0)
    return Outcome([Comparison("slope", slopes - below, slopes)])


def slope_on_T(column: Column, deltas: Sequence[float | str]) -> Outcome:
    """PF-PNE's R(T) ~ T^a with a < 1, on each objective with each of these Delta."""
    comparisons = []
    for objective, Delta in itertools.product(column.objectives, deltas):
        slopes = column.slopes(objective, "horizon", column.study.horizons, settings={"Delta": Delta})
        what = f"slope on {title(objective)}, Delta = {in_words(Delta)}"
        comparisons.append(Comparison(what, slopes - 1, slopes))
    return Outcome(comparisons, measured=f"from {extremes(comparisons)}")


# --- kinds that count -------------------------------------------------------------------------------


def count(facts: Callable, column: Column, **arguments) -> Outcome:
    """What facts(column, objective) says on each objective: (one fact a run, what was measured, in words)."""
    found = {title(objective): facts(column, objective, **arguments) for objective in column.objectives}
    measured = [f"{name}{words}" for name, (_, words) in found.items()]
    against = next((f"{name}{words}" for name, (here, words) in found.items() if False in here), "")
    return Outcome(facts=sum((here for here, _ in found.values()), []), measured="; ".join(measured), against=against)


def grows(column: Column, objective: str) -> tuple[list, str]:
    """Fed-PNE has a round after T/10: if it never stops, it must, for a phase is at most 8 times the one before."""
    fed, pf = (column.summary(objective, name) for name in ("fed-pne", "pf-pne"))
    later, outlasts = fed["last"] > column.study.horizon / 10, fed["last"] > pf["last"]
    words = f"after T/10 in {later.sum()}, after PF-PNE's last round in {outlasts.sum()} of {len(fed)} runs"
    return later.tolist(), f": {words}; Fed-PNE: {cost(fed)}"


def stops(column: Column, objective: str) -> tuple[list, str]:
    """PF-PNE's stage 1 ends before T, and nothing is sent after it; None if the horizon ends within stage 1."""
    rows = column.summary(objective)
    runs = zip(rows["rounds"], last_depth(rows) + 1, rows["last"] < column.study.horizon, strict=True)
    facts = [None if rounds < stage_1 else rounds == stage_1 and before_T for rounds, stage_1, before_T in runs]
    return facts, f": {cost(rows)}"


def costs_bounded(column: Column, objective: str) -> tuple[list, str]:
    """PF-PNE has at most H_0 + 1 rounds, and carries at most what these would if no node were ever eliminated."""
    rows, M = column.summary(objective), column.study.n_clients
    H_0 = last_depth(rows)
    # 2^h nodes at each depth h = 0..H_0: of each, every client sends one number and receives three
    most = H_0.map(lambda h: 4 * M * (2 ** (h + 1) - 1))
    facts = (rows["rounds"] <= H_0 + 1) & (rows["numbers"] <= most)
    return facts.tolist(), f": {cost(rows)}, bound {spread(most)}"


def costs_as_fed_pne(column: Column, objective: str, within: float) -> tuple[list, str]:
    """With Delta = 0, PF-PNE carries as many numbers as Fed-PNE, within a factor."""
    zero, fed = column.summary(objective, settings={"Delta": 0.0}), column.summary(objective, "fed-pne")
    ratio = zero["numbers"] / fed["numbers"]
    words = f": {number(ratio.min())} to {number(ratio.max())} times Fed-PNE's numbers"
    return ratio.between(1 / within, within).tolist(), words


def within_Delta(column: Column, objective: str) -> tuple[list, str]:
    """|f-bar* - f_m*| is at most the paper's Delta, for every client."""
    true = column.summary(objective, settings={"Delta": "true"})["Delta"]
    return (true <= SETTINGS.Delta).tolist(), f": {number(true.min())} to {number(true.max())}"


def rounds_bounded(column: Column, objective: str, deltas: Sequence[float | str]) -> tuple[list, str]:
    """PF-PNE's rounds are at most `rounds_bound`, with each of these Delta and T."""
    horizons, facts, by_Delta = column.study.horizons, [], []
    for Delta in deltas:
        at = []
        for T in horizons:
            rows = column.summary(objective, horizon=T, settings={"Delta": Delta})
            bounds = [rounds_bound(given, T, column.study.n_clients) for given in rows["Delta"]]
            facts += (rows["rounds"] <= bounds).tolist()
            at.append(f"{spread(rows['rounds'])} (bound {spread(bounds, '{:.1f}')})")
        by_Delta.append(f"{in_words(Delta)}: {at[0]}, {at[-1]}")
    return facts, f", rounds at T = {horizons[0]:,} and {horizons[-1]:,} by Delta: {', '.join(by_Delta)}"


def last_depth(rows: pd.DataFrame) -> pd.Series:
    """H_0 of each run of PF-PNE, which communicates once for each depth 0..H_0."""
    return rows["Delta"].map(lambda Delta: transition_depth(Delta, SETTINGS.nu_1, SETTINGS.rho))


def rounds_bound(Delta: float, T: int, M: int) -> float:
    """The theorem's bound on exchanges, spelt out in claims.toml ("rounds-bound"), at the paper's settings; at least 1.

    The first term: depths 0..H_0, H_0 <= 1 + C_1 log(nu_1/Delta). The second: a finished depth h has tau_h <= MT.
    """
    s, a_depth = SETTINGS, math.log(1 / SETTINGS.rho)
    log = log_term(T, s.c_1, 1 / M if s.delta is None else s.delta)
    by_depth = 2 + max(0.0, math.log(s.nu_1 / Delta) / a_depth) if Delta > 0 else math.inf
    by_samples = 1 + (math.log(M * T) + math.log(s.nu_1**2 / (s.c**2 * log))) / (2 * a_depth) if log else math.inf
    return max(1.0, min(by_depth, by_samples))


def count_times(column: Column, fact: str) -> Outcome:
    """A fact of most runs on each objective, "slower" or "alike" of `times`: True of MOST, False of MOST, or None."""
    facts = [True if share >= MOST else False if share <= 1 - MOST else None for share in times(column)[fact]]
    return Outcome(facts=facts, measured="see claims_times.csv")  # not the same twice: kept apart from what must be


def times(column: Column) -> pd.DataFrame:
    """A row an objective: the median seconds of one run of each of the paper's five, in the runs of the figures.

    slower, alike: the share of these runs in which FN-UCB takes at least MUCH times as long as each of the others, and
    in which none of the others takes more than MUCH times as long as another.
    """
    n, rows = column.study.figure_runs, []
    for objective in column.objectives:
        seconds = pd.DataFrame({name: column.summary(objective, name)["seconds"][:n] for name in PAPER})
        others = seconds.drop(columns="fn-ucb")
        longest, shortest = others.max(axis=1), others.min(axis=1)
        shares = {"slower": (seconds["fn-ucb"] >= MUCH * longest).mean(), "alike": (longest <= MUCH * shortest).mean()}
        rows.append({"regime": column.regime.name, "objective": objective, "runs": n, **seconds.median(), **shares})
    return pd.DataFrame(rows)


FACTS = (grows, stops, costs_bounded, costs_as_fed_pne, within_Delta, rounds_bounded)
KINDS = {
    **{kind.__name__: kind for kind in (compare, compare_shifts, move_settings, slope_on_M, slope_on_T, count_times)},
    **{facts.__name__: partial(count, facts) for facts in FACTS},
}
