"""How the claims are tested: each test of CLAIM_TESTS is one function of columns of runs and of its own arguments.

The first tests give comparisons, on one objective, which are decided by p-values. The others give facts, on several
objectives, which are counted. Either may say why the runs cannot decide. What follows for one claim among the others
is decided in pfpne.paper.claims.verdicts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfpne.algorithms.fed1_ucb import reward_deviation
from pfpne.algorithms.pf_pne import PFPNESettings, log_term, pulls_each, transition_depth
from pfpne.paper.claims import depths, stats
from pfpne.paper.claims.evidence import IDENTICAL_CLIENTS, Regime, Study
from pfpne.paper.run.selections import PAPER_ALGORITHMS
from pfpne.paper.show.style import Delta_in_words, label, title

LARGE_FACTOR = 2.0  # "much slower": by this factor at least; "similar": by no more
MOST_RUNS, FEW_RUNS = 0.8, 0.2  # of the runs, for what is measured with error: times
PAPER_SETTINGS = PFPNESettings()
MAX_CUT_SHARE = 0.5  # of T: beyond, the phase that the horizon cuts is most of the run
MAX_RANDOM_SHARE = 0.8  # of the regret of random points: beyond, an algorithm has learnt next to nothing
PHASED = ("pf-pne", "fed-pne", "pe")  # what regret they have at T depends on the phase that T cuts


def theory_settings(M: int) -> dict:
    """The c and c_1 that the paper's theory wants."""
    return {"c": 2.0, "c_1": (2 * M**2) ** (1 / 8)}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One inequality, one value per run: a slope or a difference, whose mean is claimed to be below its limit.

    name: what it is called. values (n,): of each run. reference (n,): of a difference a - b, the b; the limit is then
    that of a / b. above: the value is claimed to be above the limit instead. undecidable: why these runs cannot decide
    it, if so. pair: the names of a and b, where each has one.
    """

    name: str
    values: np.ndarray
    reference: np.ndarray | None = None
    limit: float = 1.0
    above: bool = False
    undecidable: str = ""
    pair: tuple[str, str] | None = None

    @property
    def excess(self) -> np.ndarray:
        """By how much (n,) it fails; below 0 where it is right."""
        allowed = self.limit if self.reference is None else (self.limit - 1) * self.reference
        beyond = self.values - allowed
        return -beyond if self.above else beyond

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
            return f"{' / '.join(self.pair)} = {number(self.value)}"
        return f"{self.name}: {'' if self.reference is None else 'ratio '}{number(self.value)}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a test gives: comparisons, every one of them claimed, or facts, all claimed to be True.

    facts: None where a run ended too early to tell. measured: all in words, comparisons one by one if empty. reason:
    the words on what refutes the facts first. vacuous: why it could hardly fail here, if so. excuse: which of its
    premises fails, if one does: then nothing is decided. by_design: nothing else can come out here.
    """

    comparisons: Sequence[Comparison] = ()
    facts: Sequence[bool | None] = ()
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
    """What was counted on one objective: a fact per run, in words what decides, and what else was measured."""

    facts: list[bool | None]
    reason: str
    details: str = ""


@dataclass(frozen=True)
class Column:
    """The runs that a claim is tested on: those of one objective in one regime.

    own_Delta: whether PF-PNE is given the clients' own Delta, instead of the paper's.
    """

    study: Study
    regime: Regime
    objective: str
    own_Delta: bool = False

    def runs(self, algorithm: str = "pf-pne", settings: dict | None = None, **changes) -> pd.DataFrame:
        """One row per run of an algorithm, columns as in pfpne.paper.claims.evidence.COLUMNS.

        settings: the algorithm's, before the column's Delta. changes: as Study.experiment takes them.
        """
        changes = {"cells": self.regime.cells, "settings": self.settings_for(algorithm, settings), **changes}
        return self.study.runs(self.objective, algorithm, self.regime.noise, **changes)

    def settings_for(self, algorithm: str, settings: dict | None = None) -> dict:
        """The settings that an algorithm is given here: these, and for PF-PNE the column's Delta."""
        settings = ({"Delta": "true"} if self.own_Delta and algorithm == "pf-pne" else {}) | (settings or {})
        if settings.get("Delta") == PAPER_SETTINGS.Delta:
            del settings["Delta"]  # the default, which the runs of the figures have: not to be run twice
        return settings

    def events(self, settings: dict | None = None) -> pd.DataFrame:
        """One row per run of PF-PNE, columns as in pfpne.paper.claims.depths.EVENTS."""
        changes = {"cells": self.regime.cells, "settings": self.settings_for("pf-pne", settings)}
        experiment = self.study.experiment(self.objective, "pf-pne", self.regime.noise, **changes)
        return pd.DataFrame(self.study.look_up(depths.count_events, experiment), columns=[*depths.EVENTS])

    def look_up(self, function: Callable, *arguments) -> np.ndarray:
        """What function(experiment, run, *arguments) says of the problem and the cells of each run (n_runs, ...)."""
        experiment = self.study.experiment(self.objective, "pe", "bernoulli", cells=self.regime.cells)
        return self.study.look_up(function, experiment, *arguments)  # the same with any algorithm and noise

    @property
    def sweep(self) -> dict:
        """What the runs of a study of many values have of their own."""
        return {"n_runs": self.study.sweep_runs}


def one_phase(runs: pd.DataFrame) -> str:
    """Why runs say little of an algorithm's regret, if half of T is one phase, which the horizon cuts; else nothing.

    There regret is a straight line, whatever the algorithm; nothing is learnt from the phase. runs: the table of
    Study.runs.
    """
    share = runs["idle"].mean()
    return f"{share:.0%} of T is one phase" if share > MAX_CUT_SHARE else ""


# --- words ------------------------------------------------------------------------------------------


def number(x: float) -> str:
    """Three digits, or whole with commas."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def extremes(comparisons: Sequence[Comparison]) -> str:
    """The lowest and the highest value, where there are too many to list."""
    ends = (choose(comparisons, key=lambda comparison: comparison.value) for choose in (min, max))
    return " to ".join(f"{number(comparison.value)} ({comparison.name})" for comparison in ends)


def spread(values: Sequence, form="{:,}") -> str:
    """From the smallest to the largest value."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def cost(runs: pd.DataFrame) -> str:
    """What runs communicate: rounds, the step of the last one, numbers."""
    rounds, last, numbers = (spread(runs[column]) for column in ("rounds", "last", "numbers"))
    return f"{rounds} rounds, the last at t = {last}, {numbers} numbers in all"


def difference_name(first: str, second: str) -> str:
    """What the comparison of two algorithms is called: "PF-PNE - PE"."""
    return f"{label(first)} - {label(second)}"


# --- tests that compare -----------------------------------------------------------------------------


def why_level_open(algorithm: str, quantity: str, runs: pd.DataFrame) -> str:
    """Why the regret that an algorithm has at T in these runs cannot be compared; nothing if it can."""
    return one_phase(runs) if algorithm in PHASED and quantity == "regret" else ""


def inequalities(
    a: np.ndarray, b: np.ndarray, name: str | tuple[str, str], below=None, above=None, undecidable=""
) -> list[Comparison]:
    """a < below * b, and a > above * b, where they are given; of the runs that both have.

    name: of the comparison, or the names of a and of b. undecidable: what keeps the runs from deciding it.
    """
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    pair = None if isinstance(name, str) else name
    name = " - ".join(pair) if pair else name
    limits = [(limit, is_above) for limit, is_above in ((below, False), (above, True)) if limit is not None]
    return [Comparison(name, a - b, b, limit, is_above, undecidable, pair=pair) for limit, is_above in limits]


def compare(
    column: Column,
    others,
    algorithm="pf-pne",
    below=None,
    above=None,
    quantity="regret",
    settings=None,
    alike=False,
    times_T=1.0,
    few=False,
    tuned=False,
) -> Outcome:
    """The algorithm's R(T)/M is below and above so many times that of every other.

    quantity: the column of the runs that is compared. settings: the algorithm's. alike: with identical clients.
    times_T: at so many times the study's T. few: on the runs of the figures. tuned: the others' c follows the noise.
    """
    changes, comparisons = {**IDENTICAL_CLIENTS} if alike else {}, []
    if times_T != 1:
        changes["horizon"] = max(1, round(times_T * column.study.horizon))
    if few:
        changes["n_runs"] = column.study.figure_runs
    other_settings = {"c": c_of_noise(column.regime.noise)} if tuned else {}
    runs = column.runs(algorithm, settings, **changes)
    undecidable = why_level_open(algorithm, quantity, runs)
    for other in others:
        theirs = column.runs(other, other_settings, **changes)[quantity].to_numpy()
        pair = label(algorithm), label(other)
        comparisons += inequalities(runs[quantity].to_numpy(), theirs, pair, below, above, undecidable)
    return Outcome(comparisons)


def c_of_noise(noise: float | str) -> float:
    """HCT's c for a noise: 0.7 of its standard deviation (of Bernoulli rewards: 1/2, its bound), at least 0.05."""
    return max(0.05, 0.7 * reward_deviation(noise))


def compare_global(column: Column, algorithm: str) -> Outcome:
    """The algorithm's global R(T)/M, against f-bar's maximum, is below its local one."""
    runs = column.runs(algorithm, global_regret=True, n_runs=column.study.figure_runs)
    shared, local = runs["global_regret"].to_numpy(), runs["regret"].to_numpy()
    return Outcome(inequalities(shared, local, ("global", "local"), below=1))


def compare_alike(column: Column, algorithm: str, above: float) -> Outcome:
    """The algorithm's R(T)/M is above so many times what it has with identical clients."""
    apart, identical = (column.runs(algorithm, **changes) for changes in ({}, IDENTICAL_CLIENTS))
    pair, undecidable = (f"shift {column.study.shift:g}", "alike"), why_level_open(algorithm, "regret", apart)
    regrets = apart["regret"].to_numpy(), identical["regret"].to_numpy()
    return Outcome(inequalities(*regrets, pair, above=above, undecidable=undecidable))


def finds_own(column: Column) -> Outcome:
    """At T, PF-PNE's simple regret is below that of the global maximiser for all."""
    deployed = column.runs()["deployed"].to_numpy()
    shared = column.look_up(depths.gaps_at_global_maximum).mean(axis=1)
    return Outcome(inequalities(deployed, shared, ("PF-PNE", "global maximiser"), below=1))


def move_settings(column: Column, ranges: dict[str, Sequence[float]], within: float) -> Outcome:
    """Each setting, moved alone to these values, changes PF-PNE's R(T)/M by less than a factor.

    Vacuous where PF-PNE does as badly as points drawn at random: there is nothing to lose.
    """
    runs = {name: column.runs(name) for name in PAPER_ALGORITHMS}
    ours, *rivals = (table["regret"].to_numpy() for table in runs.values())
    undecidable = why_level_open("pf-pne", "regret", runs["pf-pne"])
    comparisons, places = [], []
    for name, value in [(name, value) for name in ranges for value in ranges[name]]:
        if not (name == "Delta" and column.own_Delta):
            moved = column.runs(settings={name: value}, **column.sweep)["regret"].to_numpy()
            comparisons += inequalities(moved, ours, f"{name} = {value:g}", within, 1 / within, undecidable)
            places.append(place(moved, rivals))
    random_regret = column.study.horizon * column.look_up(depths.gap_of_random_points)
    share = ours.mean() / random_regret.mean()
    measured = (
        f"ratio of R(T)/M to that at the paper's values: {extremes(comparisons)}; "
        f"place among the paper's five: {place(ours, rivals)}, and {min(places)} to {max(places)} when moved; "
        f"{share:.0%} of the regret of points drawn at random"
    )
    vacuous = f"nothing to move: {share:.0%} of the regret of random points" if share > MAX_RANDOM_SHARE else ""
    return Outcome(comparisons, measured=measured, vacuous=vacuous)


def any_Delta(column: Column, deltas: Sequence[float], below: float) -> Outcome:
    """With each of these Delta, PF-PNE's R(T)/M is below so many times that of PE alone."""
    alone, comparisons = column.runs("pe")["regret"].to_numpy(), []
    for Delta in deltas:
        runs = column.runs(settings={"Delta": Delta}, **column.sweep)
        ours, undecidable = runs["regret"].to_numpy(), why_level_open("pf-pne", "regret", runs)
        comparisons += inequalities(ours, alone, f"Delta = {Delta:g}", below, undecidable=undecidable)
    return Outcome(comparisons)


def any_shift(column: Column, shifts: Sequence[float], below: float, above=None) -> Outcome:
    """With clients this far apart, PF-PNE's R(T)/M is below (and above) so many times PE's alone."""
    comparisons = []
    for shift in shifts:
        changes = ({"shift": shift} if shift else IDENTICAL_CLIENTS) | column.sweep
        runs, alone = (column.runs(name, **changes) for name in ("pf-pne", "pe"))
        what, undecidable = f"shift {shift:g}" if shift else "alike", why_level_open("pf-pne", "regret", runs)
        regrets = runs["regret"].to_numpy(), alone["regret"].to_numpy()
        comparisons += inequalities(*regrets, what, below, above, undecidable)
    return Outcome(comparisons)


def place(ours: np.ndarray, rivals: Sequence[np.ndarray]) -> int:
    """The place of our mean among the rivals', 1 for the smallest; each is compared on the runs that it has."""
    return 1 + sum(theirs.mean() < ours[: len(theirs)].mean() for theirs in rivals)


def slope(column: Column, along: str, below: float, quantity="regret", deltas=(None,)) -> Outcome:
    """A column of PF-PNE's runs grows like M^a, with identical clients, or like T^a, with a below a limit.

    deltas: with each of these Delta. Of regret it is not decidable if `one_phase` says why.
    """
    scales = {
        "M": ("n_clients", column.study.clients, IDENTICAL_CLIENTS),
        "T": ("horizon", column.study.horizons, {}),
    }
    (parameter, scale, changes), comparisons = scales[along], []
    for Delta in deltas:
        settings = {} if Delta is None else {"Delta": Delta}
        tables = [column.runs(settings=settings, **{parameter: x}, **column.sweep, **changes) for x in scale]
        slopes = stats.power(scale, np.stack([table[quantity] for table in tables], axis=1))
        name = "slope" if Delta is None else f"slope, Delta = {Delta_in_words(Delta)}"
        undecidable = one_phase(tables[-1]) if quantity == "regret" else ""
        comparisons.append(Comparison(name, slopes, limit=below, undecidable=undecidable))
    return Outcome(comparisons)


# --- tests that count -------------------------------------------------------------------------------


def count(facts: Callable, *columns: Column, **arguments) -> Outcome:
    """What facts(column), a function that returns Counted, says on each objective."""
    counted = {title(column.objective): facts(column, **arguments) for column in columns}
    measured = "; ".join(f"{name}{one.reason}{one.details}" for name, one in counted.items())
    reason = next((f"{name}{one.reason}" for name, one in counted.items() if False in one.facts), "")
    return Outcome(facts=sum((one.facts for one in counted.values()), []), measured=measured, reason=reason)


def goes_on(fed_last, pf_last, T: int):
    """Whether Fed-PNE has a round after T/10 and after PF-PNE's last: steps of last rounds (n,), 0 without a round."""
    return (fed_last > T / 10) & (fed_last > pf_last)


def has_ended(rounds, last, H_0, T: int):
    """Whether PF-PNE has communicated once for each depth 0..H_0, and before T: rounds and last steps (n,)."""
    return (rounds == H_0 + 1) & (last < T)


def grows(column: Column) -> Counted:
    """Fed-PNE has a round after T/10 and after PF-PNE's last; None if the horizon cuts the phase that it has begun."""
    fed, pf, T = column.runs("fed-pne"), column.runs(), column.study.horizon
    later, cut = goes_on(fed["last"], pf["last"], T), T - fed["last"] > MAX_CUT_SHARE * T
    facts = [True if so else None if ends else False for so, ends in zip(later, cut, strict=True)]
    reason = f": after T/10 and PF-PNE's last round in {later.sum()} of {len(fed)} runs"
    return Counted(facts, reason, f"; Fed-PNE: {cost(fed)}; PF-PNE: {cost(pf)}")


def stops(column: Column) -> Counted:
    """PF-PNE's stage 1 ends before T, and nothing is sent after it; None if the horizon ends within stage 1."""
    runs = column.runs()
    H_0 = last_depth(runs)
    ended = has_ended(runs["rounds"], runs["last"], H_0, column.study.horizon)
    facts = [None if within else so for within, so in zip(runs["rounds"] < H_0 + 1, ended, strict=True)]
    return Counted(facts, f": {cost(runs)}")


def costs_bounded(column: Column) -> Counted:
    """PF-PNE has at most H_0 + 1 rounds, and carries at most what these would if no node were ever eliminated."""
    runs, M = column.runs(), column.study.n_clients
    H_0 = last_depth(runs)
    # 2^h nodes at each depth h = 0..H_0: of each, every client sends one number and receives three
    bound = H_0.map(lambda h: 4 * M * (2 ** (h + 1) - 1))
    facts = (runs["rounds"] <= H_0 + 1) & (runs["numbers"] <= bound)
    return Counted(facts.tolist(), f": {cost(runs)}, bound {spread(bound)}")


def within_Delta(column: Column) -> Counted:
    """|f-bar* - f_m*| is at most the paper's Delta, for every client."""
    true = column.runs(settings={"Delta": "true"})["Delta"].to_numpy()
    return Counted((true <= PAPER_SETTINGS.Delta).tolist(), f": {number(true.min())} to {number(true.max())}")


def near_optimal(column: Column) -> Counted:
    """At the global maximum, every client is within the paper's Delta of its own: Assumption 4, epsilon 0."""
    gaps = column.look_up(depths.gaps_at_global_maximum).max(axis=1)
    return Counted((gaps <= PAPER_SETTINGS.Delta).tolist(), f": {number(gaps.min())} to {number(gaps.max())}")


def smooth(column: Column, depth: int) -> Counted:
    """At each depth to this one, the cell with a client's maximum has a centre within nu_1 rho^h of it."""
    gaps = column.look_up(depths.gaps_at_depths, depth)  # (n, depth + 1)
    ratio = gaps / (PAPER_SETTINGS.nu_1 * PAPER_SETTINGS.rho ** np.arange(depth + 1))
    reason = f": up to {number(ratio.max())} times nu_1 rho^h, at depth {int(ratio.max(axis=0).argmax())}"
    return Counted((ratio <= 1).all(axis=1).tolist(), reason)


def within_width(column: Column, settings: dict) -> Counted:
    """Every mean that PF-PNE eliminates by is within its half-width of what it estimates."""
    events = column.events(settings)
    outside, n_means = events["outside"], events["means"].sum()
    runs = f"in {(outside > 0).sum()} of {len(events)} runs"
    return Counted((outside == 0).tolist(), f": {outside.sum():,} of {n_means:,} means outside, {runs}")


def safe(column: Column) -> Counted:
    """No client's maximum is eliminated by PF-PNE."""
    lost, M = column.events()["lost"], column.study.n_clients
    mean, runs = number(lost.mean()), f"in {(lost > 0).sum()} of {len(lost)} runs"
    return Counted((lost == 0).tolist(), f": eliminated of {mean} of {M} clients on average, {runs}")


def rounds_bounded(column: Column, deltas: Sequence[float | str]) -> Counted:
    """PF-PNE's rounds are at most `rounds_bound`, with each of these Delta and T."""
    horizons, facts, by_Delta = column.study.horizons, [], []
    for Delta in deltas:
        by_T = []
        for T in horizons:
            runs = column.runs(horizon=T, settings={"Delta": Delta}, **column.sweep)
            bounds = [rounds_bound(given, T, column.study.n_clients) for given in runs["Delta"]]
            facts += (runs["rounds"] <= bounds).tolist()
            by_T.append(f"{spread(runs['rounds'])} (bound {spread(bounds, '{:.1f}')})")
        by_Delta.append(f"{Delta_in_words(Delta)}: {by_T[0]}, {by_T[-1]}")
    head = f", rounds at T = {horizons[0]:,} and {horizons[-1]:,} by Delta"
    return Counted(facts, f"{head}: {', '.join(by_Delta)}")


def last_depth(runs: pd.DataFrame) -> pd.Series:
    """H_0 of each run of PF-PNE, which communicates once for each depth 0..H_0."""
    return runs["Delta"].map(lambda Delta: transition_depth(Delta, PAPER_SETTINGS.nu_1, PAPER_SETTINGS.rho))


def rounds_bound(Delta: float, T: int, M: int) -> float:
    """The theorem's bound on exchanges, spelt out in claims.toml ("rounds-bound"), at the paper's settings; at least 1.

    The first term: depths 0..H_0, H_0 <= 1 + C_1 log(nu_1/Delta). The second: a finished depth h has tau_h <= MT.
    """
    s, per_depth = PAPER_SETTINGS, math.log(1 / PAPER_SETTINGS.rho)
    log = log_term(T, s.c_1, 1 / M if s.delta is None else s.delta)
    by_depth = 2 + max(0.0, math.log(s.nu_1 / Delta) / per_depth) if Delta > 0 else math.inf
    by_samples = 1 + (math.log(M * T) + math.log(s.nu_1**2 / (s.c**2 * log))) / (2 * per_depth) if log else math.inf
    return max(1.0, min(by_depth, by_samples))


def confidential(column: Column, *_) -> Outcome:
    """Every mean that PF-PNE's clients send is of at least two rewards, which M and T alone decide."""
    T, M, s = column.study.horizon, column.study.n_clients, PAPER_SETTINGS
    log, H_0 = log_term(T, s.c_1, 1 / M), transition_depth(s.Delta, s.nu_1, s.rho)
    pulls = [pulls_each(h, log, s, M) for h in range(H_0 + 1)]
    single = [h for h, n in enumerate(pulls) if n == 1]
    reason = f"the means sent at depths {single[0]} to {single[-1]} are single rewards" if single else ""
    measured = f"{reason or 'no mean sent is a single reward'} (depths 0 to {H_0})"
    return Outcome(facts=[n > 1 for n in pulls], measured=measured, reason=reason)


def good_event(*columns: Column, as_in_theory: bool) -> Outcome:
    """`within_width`, whose premise is that the rewards of one point are within an interval of length 1.

    Without noise every mean is what it estimates. as_in_theory: with its c and c_1, not the paper's.
    """
    settings = theory_settings(columns[0].study.n_clients) if as_in_theory else {}
    outcome, noise = count(within_width, *columns, settings=settings), columns[0].regime.noise
    wide = noise != "bernoulli" and noise > 0.5
    return replace(outcome, excuse="rewards are not in [0, 1]" if wide else "", by_design=not noise)


def count_times(*columns: Column, fact: str) -> Outcome:
    """A fact of most runs on each objective, "slower" or "alike" of `measure_times`.

    True if it is so in MOST_RUNS, False if it is so in FEW_RUNS at most, else None.
    """
    shares = [measure_times(column)[fact] for column in columns]
    facts = [True if share >= MOST_RUNS else False if share <= FEW_RUNS else None for share in shares]
    return Outcome(facts=facts, measured="see claims_times.csv")  # not the same twice: kept apart from what must be


def measure_times(column: Column) -> dict:
    """The median seconds of one run of each of the paper's five, in the runs of the figures.

    slower, alike: the share of these runs in which FN-UCB takes at least LARGE_FACTOR times as long as each of the
    others, and in which none of the others takes more than LARGE_FACTOR times as long as another.
    """
    n, head = column.study.figure_runs, {"regime": column.regime.name, "cells": column.regime.cells}
    seconds = pd.DataFrame({name: column.runs(name)["seconds"].to_numpy()[:n] for name in PAPER_ALGORITHMS})
    others = seconds.drop(columns="fn-ucb")
    longest, shortest = others.max(axis=1), others.min(axis=1)
    slower, alike = seconds["fn-ucb"] >= LARGE_FACTOR * longest, longest <= LARGE_FACTOR * shortest
    shares = {"slower": slower.mean(), "alike": alike.mean()}
    return {**head, "objective": column.objective, "runs": n, **seconds.median(), **shares}


COMPARING = (compare, compare_alike, compare_global, finds_own, move_settings, any_Delta, any_shift, slope)
FACTS = (grows, stops, costs_bounded, rounds_bounded, within_Delta, near_optimal, smooth, safe)
CLAIM_TESTS = {  # the `kind` of a claim -> its test, a function of columns and of the claim's arguments
    **{test.__name__: test for test in (*COMPARING, count_times, good_event, confidential)},
    **{facts.__name__: partial(count, facts) for facts in FACTS},
}
