"""How the claims are tested: a kind of test (KINDS) is one function, of columns of runs and of its arguments.

The first kinds give comparisons, on one objective, which are tested; the others give facts, on several, which are
counted. Either may say why the runs cannot decide. What follows for one claim among the others is decided in
pfpne.paper.claims.verdicts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from pfpne.algorithms.fed1_ucb import reward_deviation
from pfpne.algorithms.pf_pne import PFPNESettings, log_term, pulls_each, transition_depth
from pfpne.paper.claims import depths, stats
from pfpne.paper.claims.evidence import ALIKE, Regime, Study
from pfpne.paper.run.groups import PAPER
from pfpne.paper.show.style import Delta_in_words, label, title

MUCH = 2.0  # "much slower": by this factor at least; "similar": by no more
MOST = 0.8  # of the runs, for what is measured with error: times
PAPERS = PFPNESettings()  # the paper's
CUT = 0.5  # of T: beyond, the phase that the horizon cuts is most of the run
CHANCE = 0.8  # of the regret of uniformly drawn points: beyond, an algorithm has learnt next to nothing


def theory(M: int) -> dict:
    """The c and c_1 that the paper's theory wants."""
    return {"c": 2.0, "c_1": (2 * M**2) ** (1 / 8)}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One inequality, a number a run: a slope or a difference, shown (n,), with the mean below its limit.

    base (n,): of a difference a - b, the b; the limit is then that of a / b. low: above the limit instead.
    why_not: what keeps these runs from deciding it, if anything.
    """

    what: str
    shown: np.ndarray
    base: np.ndarray | None = None
    limit: float = 1.0
    low: bool = False
    why_not: str = ""

    @property
    def excess(self) -> np.ndarray:
        """By how much (n,) it fails; below 0 where it is right."""
        above = self.shown - self.limit if self.base is None else self.shown + (1 - self.limit) * self.base
        return -above if self.low else above

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
    """What a test found: comparisons, every one of them claimed, or facts, all claimed to be True.

    facts: None where a run ended too early to tell. measured: all in words, comparisons one by one if empty; against:
    of these words, those on what refutes the facts first. vacuous: why it could hardly fail here, if so; excuse: which
    of its premises fails, if one does: then nothing is decided. by_design: nothing else can come out here.
    """

    comparisons: Sequence[Comparison] = ()
    facts: Sequence[bool | None] = ()
    measured: str = ""
    against: str = ""
    vacuous: str = ""
    excuse: str = ""
    by_design: bool = False

    @property
    def decidable(self) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if not comparison.why_not]

    def p(self, rng: np.random.Generator) -> np.ndarray:
        """p-values (k, 2) of "it is false" and "it is true", of each decidable comparison."""
        p = [stats.sign_flip(comparison.excess, rng) for comparison in self.decidable]
        return np.array(p).reshape(-1, 2)


@dataclass(frozen=True)
class Column:
    """The runs that a claim is tested on: of one of its objectives, in one regime.

    own_Delta: whether PF-PNE is given the clients' own Delta, instead of the paper's.
    """

    study: Study
    regime: Regime
    objective: str
    own_Delta: bool = False

    def _ask(self, method: Callable, algorithm: str = "pf-pne", settings: dict | None = None, **changes):
        """What a method of Study says; `settings` come before the column's Delta."""
        settings = ({"Delta": "true"} if self.own_Delta and algorithm == "pf-pne" else {}) | (settings or {})
        if settings.get("Delta") == PAPERS.Delta:
            del settings["Delta"]  # the default, which the runs of the figures have: not to be run twice
        changes = {"cells": self.regime.cells, "settings": settings, **changes}
        return method(self.objective, algorithm, self.regime.noise, **changes)

    def summary(self, algorithm: str = "pf-pne", **changes) -> pd.DataFrame:
        """A row a run, see Study.summary."""
        return self._ask(self.study.summary, algorithm, **changes)

    def values(self, algorithm: str = "pf-pne", of: str = "regret", **changes) -> np.ndarray:
        """R(T)/M of each run (n,), or another of COLUMNS."""
        return self.summary(algorithm, **changes)[of].to_numpy()

    def events(self, settings: dict | None = None) -> pd.DataFrame:
        """A row a run of PF-PNE, see Study.events."""
        return self._ask(self.study.events, settings=settings)

    def of_problems(self, of: Callable, *arguments) -> np.ndarray:
        """See Study.of_problems."""
        return self.study.of_problems(of, self.objective, self.regime, *arguments)

    @property
    def sweep(self) -> dict:
        """What the runs of a study of many values have of their own."""
        return {"n_runs": self.study.sweep_runs}


def one_phase(rows: pd.DataFrame) -> str:
    """Why runs say little of how regret grows, if half of T is one phase, which the horizon cuts: it is a straight line
    there, whatever the algorithm."""
    share = rows["idle"].mean()
    return f"{share:.0%} of T is one phase" if share > CUT else ""


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


# --- kinds that compare -----------------------------------------------------------------------------


def inequalities(a: np.ndarray, b: np.ndarray, what: str, below=None, above=None) -> list[Comparison]:
    """a < below * b, and a > above * b, where they are given; of the runs that both have."""
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    limits = [(limit, low) for limit, low in ((below, False), (above, True)) if limit is not None]
    return [Comparison(what, a - b, b, limit, low) for limit, low in limits]


def compare(
    column: Column,
    others,
    algorithm="pf-pne",
    below=None,
    above=None,
    of="regret",
    settings=None,
    alike=False,
    times_T=1.0,
    few=False,
    tuned=False,
) -> Outcome:
    """The algorithm's R(T)/M is below and above so many times that of every other.

    of: what is compared, see Column.values. settings: the algorithm's. alike: with clients of one objective.
    times_T: at so many times the study's T. few: on the runs of the figures. tuned: the others' c follows the noise.
    """
    changes, comparisons = {"of": of, **(ALIKE if alike else {})}, []
    if times_T != 1:
        changes["horizon"] = max(1, round(times_T * column.study.horizon))
    if few:
        changes["n_runs"] = column.study.figure_runs
    theirs = {"c": c_of_noise(column.regime.noise)} if tuned else {}
    mine = column.values(algorithm, settings=settings, **changes)
    for other in others:
        found = column.values(other, settings=theirs, **changes)
        comparisons += inequalities(mine, found, f"{label(algorithm)} - {label(other)}", below, above)
    return Outcome(comparisons)


def c_of_noise(noise: float | str) -> float:
    """HCT's c for a noise: 0.7 of its standard deviation (of Bernoulli rewards: 1/2, its bound), at least 0.05."""
    return max(0.05, 0.7 * reward_deviation(noise))


def compare_global(column: Column, algorithm: str) -> Outcome:
    """The algorithm's global R(T)/M, against f-bar's maximum, is below its local one."""
    rows = column.summary(algorithm, global_regret=True, n_runs=column.study.figure_runs)
    return Outcome(inequalities(rows["global_regret"].to_numpy(), rows["regret"].to_numpy(), "global - local", below=1))


def compare_alike(column: Column, algorithm: str, above: float) -> Outcome:
    """The algorithm's R(T)/M is above so many times what it has with clients that are alike."""
    apart, alike = column.values(algorithm), column.values(algorithm, **ALIKE)
    return Outcome(inequalities(apart, alike, f"shift {column.study.shift:g} - alike", above=above))


def finds_own(column: Column) -> Outcome:
    """At T, PF-PNE's simple regret is below that of the global maximiser for all."""
    shared = column.of_problems(depths.gaps_at_global_maximum).mean(axis=1)
    return Outcome(inequalities(column.values(of="deployed"), shared, "PF-PNE - global maximiser", below=1))


def move_settings(column: Column, ranges: dict[str, Sequence[float]], within: float) -> Outcome:
    """Each setting, moved alone to these values, changes PF-PNE's R(T)/M by less than a factor.

    Vacuous where PF-PNE does as badly as points drawn at random: there is nothing to lose.
    """
    (ours, *rivals), comparisons, places = map(column.values, PAPER), [], []
    for name, value in [(name, value) for name in ranges for value in ranges[name]]:
        if not (name == "Delta" and column.own_Delta):
            moved = column.values(settings={name: value}, **column.sweep)
            comparisons += inequalities(moved, ours, f"{name} = {value:g}", within, 1 / within)
            places.append(place(moved, rivals))
    of_chance = ours.mean() / (column.study.horizon * column.of_problems(depths.gap_of_random_points)).mean()
    measured = (
        f"ratio of R(T)/M to that at the paper's values: {extremes(comparisons)}; "
        f"place among the paper's five: {place(ours, rivals)}, and {min(places)} to {max(places)} when moved; "
        f"{of_chance:.0%} of the regret of points drawn at random"
    )
    vacuous = f"nothing to move: {of_chance:.0%} of the regret of random points" if of_chance > CHANCE else ""
    return Outcome(comparisons, measured=measured, vacuous=vacuous)


def any_Delta(column: Column, deltas: Sequence[float], below: float) -> Outcome:
    """With each of these Delta, PF-PNE's R(T)/M is below so many times that of PE alone."""
    alone, comparisons = column.values("pe"), []
    for Delta in deltas:
        mine = column.values(settings={"Delta": Delta}, **column.sweep)
        comparisons += inequalities(mine, alone, f"Delta = {Delta:g}", below)
    return Outcome(comparisons)


def any_shift(column: Column, shifts: Sequence[float], below: float, above=None) -> Outcome:
    """With clients this far apart, PF-PNE's R(T)/M is below (and above) so many times PE's alone."""
    comparisons = []
    for shift in shifts:
        changes = ({"shift": shift} if shift else ALIKE) | column.sweep
        mine, alone = (column.values(name, **changes) for name in ("pf-pne", "pe"))
        comparisons += inequalities(mine, alone, f"shift {shift:g}" if shift else "alike", below, above)
    return Outcome(comparisons)


def place(mine: np.ndarray, rivals: Sequence[np.ndarray]) -> int:
    """The place of the mean of `mine` among the rivals', 1 for the smallest; each compared on the runs it has."""
    return 1 + sum(theirs.mean() < mine[: len(theirs)].mean() for theirs in rivals)


def slope(column: Column, along: str, below: float, of="regret", deltas=(None,)) -> Outcome:
    """A column of COLUMNS of PF-PNE ~ M^a, with clients that are alike, or ~ T^a, a < below; with each of these Delta.

    Of regret it is not decidable if one_phase says why.
    """
    scales = {"M": ("n_clients", column.study.clients, ALIKE), "T": ("horizon", column.study.horizons, {})}
    (name, values, changes), comparisons = scales[along], []
    for Delta in deltas:
        settings = {} if Delta is None else {"Delta": Delta}
        rows = [column.summary(**{name: x}, settings=settings, **column.sweep, **changes) for x in values]
        slopes = stats.power(values, np.stack([table[of] for table in rows], axis=1))
        what = "slope" if Delta is None else f"slope, Delta = {Delta_in_words(Delta)}"
        why_not = one_phase(rows[-1]) if of == "regret" else ""
        comparisons.append(Comparison(what, slopes, limit=below, why_not=why_not))
    return Outcome(comparisons)


# --- kinds that count -------------------------------------------------------------------------------


def count(facts: Callable, *columns: Column, **arguments) -> Outcome:
    """What facts(column) says on each objective: (one fact a run, what was measured, in words).

    Of these words the part before the first semicolon says what refutes.
    """
    found = {title(column.objective): facts(column, **arguments) for column in columns}
    measured = "; ".join(f"{name}{words}" for name, (_, words) in found.items())
    against = next((f"{name}{words.split(';')[0]}" for name, (here, words) in found.items() if False in here), "")
    return Outcome(facts=sum((here for here, _ in found.values()), []), measured=measured, against=against)


def grows(column: Column) -> tuple[list, str]:
    """Fed-PNE has a round after T/10 and after PF-PNE's last; None if the horizon cuts the phase that it has begun."""
    fed, pf, T = column.summary("fed-pne"), column.summary("pf-pne"), column.study.horizon
    later, cut = (fed["last"] > T / 10) & (fed["last"] > pf["last"]), T - fed["last"] > CUT * T
    words = f": after T/10 and PF-PNE's last round in {later.sum()} of {len(fed)} runs"
    facts = [True if so else None if ends else False for so, ends in zip(later, cut, strict=True)]
    return facts, f"{words}; Fed-PNE: {cost(fed)}; PF-PNE: {cost(pf)}"


def stops(column: Column) -> tuple[list, str]:
    """PF-PNE's stage 1 ends before T, and nothing is sent after it; None if the horizon ends within stage 1."""
    rows = column.summary()
    runs = zip(rows["rounds"], last_depth(rows) + 1, rows["last"] < column.study.horizon, strict=True)
    facts = [None if rounds < stage_1 else rounds == stage_1 and before_T for rounds, stage_1, before_T in runs]
    return facts, f": {cost(rows)}"


def costs_bounded(column: Column) -> tuple[list, str]:
    """PF-PNE has at most H_0 + 1 rounds, and carries at most what these would if no node were ever eliminated."""
    rows, M = column.summary(), column.study.n_clients
    H_0 = last_depth(rows)
    # 2^h nodes at each depth h = 0..H_0: of each, every client sends one number and receives three
    most = H_0.map(lambda h: 4 * M * (2 ** (h + 1) - 1))
    facts = (rows["rounds"] <= H_0 + 1) & (rows["numbers"] <= most)
    return facts.tolist(), f": {cost(rows)}, bound {spread(most)}"


def within_Delta(column: Column) -> tuple[list, str]:
    """|f-bar* - f_m*| is at most the paper's Delta, for every client."""
    true = column.values(of="Delta", settings={"Delta": "true"})
    return (true <= PAPERS.Delta).tolist(), f": {number(true.min())} to {number(true.max())}"


def near_optimal(column: Column) -> tuple[list, str]:
    """At the global maximum, every client is within the paper's Delta of its own: Assumption 4, epsilon 0."""
    gaps = column.of_problems(depths.gaps_at_global_maximum).max(axis=1)
    return (gaps <= PAPERS.Delta).tolist(), f": {number(gaps.min())} to {number(gaps.max())}"


def smooth(column: Column, depth: int) -> tuple[list, str]:
    """At each depth to this one, the cell with a client's maximum has a centre within nu_1 rho^h of it."""
    gaps = column.of_problems(depths.gaps_at_depths, depth)  # (n, depth + 1)
    ratio = gaps / (PAPERS.nu_1 * PAPERS.rho ** np.arange(depth + 1))
    words = f": up to {number(ratio.max())} times nu_1 rho^h, at depth {int(ratio.max(axis=0).argmax())}"
    return (ratio <= 1).all(axis=1).tolist(), words


def within_width(column: Column, settings: dict) -> tuple[list, str]:
    """Every mean that PF-PNE eliminates by is within its half-width of what it estimates."""
    rows = column.events(settings)
    outside, every = rows["outside"], rows["means"]
    words = f": {outside.sum():,} of {every.sum():,} means outside, in {(outside > 0).sum()} of {len(rows)} runs"
    return (outside == 0).tolist(), words


def safe(column: Column) -> tuple[list, str]:
    """No client's maximum is eliminated by PF-PNE."""
    lost, M = column.events()["lost"], column.study.n_clients
    words = f"eliminated of {number(lost.mean())} of {M} clients on average, in {(lost > 0).sum()} of {len(lost)} runs"
    return (lost == 0).tolist(), f": {words}"


def rounds_bounded(column: Column, deltas: Sequence[float | str]) -> tuple[list, str]:
    """PF-PNE's rounds are at most `rounds_bound`, with each of these Delta and T."""
    horizons, facts, by_Delta = column.study.horizons, [], []
    for Delta in deltas:
        at = []
        for T in horizons:
            rows = column.summary(horizon=T, settings={"Delta": Delta}, **column.sweep)
            bounds = [rounds_bound(given, T, column.study.n_clients) for given in rows["Delta"]]
            facts += (rows["rounds"] <= bounds).tolist()
            at.append(f"{spread(rows['rounds'])} (bound {spread(bounds, '{:.1f}')})")
        by_Delta.append(f"{Delta_in_words(Delta)}: {at[0]}, {at[-1]}")
    return facts, f", rounds at T = {horizons[0]:,} and {horizons[-1]:,} by Delta: {', '.join(by_Delta)}"


def last_depth(rows: pd.DataFrame) -> pd.Series:
    """H_0 of each run of PF-PNE, which communicates once for each depth 0..H_0."""
    return rows["Delta"].map(lambda Delta: transition_depth(Delta, PAPERS.nu_1, PAPERS.rho))


def rounds_bound(Delta: float, T: int, M: int) -> float:
    """The theorem's bound on exchanges, spelt out in claims.toml ("rounds-bound"), at the paper's settings; at least 1.

    The first term: depths 0..H_0, H_0 <= 1 + C_1 log(nu_1/Delta). The second: a finished depth h has tau_h <= MT.
    """
    s, a_depth = PAPERS, math.log(1 / PAPERS.rho)
    log = log_term(T, s.c_1, 1 / M if s.delta is None else s.delta)
    by_depth = 2 + max(0.0, math.log(s.nu_1 / Delta) / a_depth) if Delta > 0 else math.inf
    by_samples = 1 + (math.log(M * T) + math.log(s.nu_1**2 / (s.c**2 * log))) / (2 * a_depth) if log else math.inf
    return max(1.0, min(by_depth, by_samples))


def confidential(column: Column, *_) -> Outcome:
    """Every mean that PF-PNE's clients send is of at least two rewards, which M and T alone decide."""
    T, M = column.study.horizon, column.study.n_clients
    log, H_0 = log_term(T, PAPERS.c_1, 1 / M), transition_depth(PAPERS.Delta, PAPERS.nu_1, PAPERS.rho)
    pulls = [pulls_each(h, log, PAPERS, M) for h in range(H_0 + 1)]
    single = [h for h, n in enumerate(pulls) if n == 1]
    words = f"the means sent at depths {single[0]} to {single[-1]} are single rewards" if single else ""
    measured = f"{words or 'no mean sent is a single reward'} (depths 0 to {H_0})"
    return Outcome(facts=[n > 1 for n in pulls], measured=measured, against=words)


def good_event(*columns: Column, as_in_theory: bool) -> Outcome:
    """`within_width`, whose premise is that the rewards of one point are within an interval of length 1.

    Without noise every mean is what it estimates. as_in_theory: with its c and c_1, not the paper's.
    """
    settings = theory(columns[0].study.n_clients) if as_in_theory else {}
    found, noise = count(within_width, *columns, settings=settings), columns[0].regime.noise
    wide = noise != "bernoulli" and noise > 0.5
    return replace(found, excuse="rewards are not in [0, 1]" if wide else "", by_design=not noise)


def count_times(*columns: Column, fact: str) -> Outcome:
    """A fact of most runs on each objective, "slower" or "alike" of `times`: True of MOST, False of MOST, or None."""
    shares = [times(column)[fact] for column in columns]
    facts = [True if share >= MOST else False if share <= 1 - MOST else None for share in shares]
    return Outcome(facts=facts, measured="see claims_times.csv")  # not the same twice: kept apart from what must be


def times(column: Column) -> dict:
    """The median seconds of one run of each of the paper's five, in the runs of the figures.

    slower, alike: the share of these runs in which FN-UCB takes at least MUCH times as long as each of the others, and
    in which none of the others takes more than MUCH times as long as another.
    """
    n, place = column.study.figure_runs, {"regime": column.regime.name, "cells": column.regime.cells}
    seconds = pd.DataFrame({name: column.values(name, of="seconds")[:n] for name in PAPER})
    others = seconds.drop(columns="fn-ucb")
    longest, shortest = others.max(axis=1), others.min(axis=1)
    shares = {"slower": (seconds["fn-ucb"] >= MUCH * longest).mean(), "alike": (longest <= MUCH * shortest).mean()}
    return {**place, "objective": column.objective, "runs": n, **seconds.median(), **shares}


COMPARING = (compare, compare_alike, compare_global, finds_own, move_settings, any_Delta, any_shift, slope)
FACTS = (grows, stops, costs_bounded, rounds_bounded, within_Delta, near_optimal, smooth, safe)
KINDS = {
    **{kind.__name__: kind for kind in (*COMPARING, count_times, good_event, confidential)},
    **{facts.__name__: partial(count, facts) for facts in FACTS},
}
