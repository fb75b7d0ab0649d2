"""How the claims are tested: each kind of test turns runs into numbers a run, or into facts.

A kind is a frozen dataclass that says where (`objectives`), of what (`runs`, `statistic`), and what those runs show
(`evaluate`). What follows from it, for one claim among the others, is decided in pfpne.paper.claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd

from pfpne.paper import stats
from pfpne.algorithms.bounds import log_term, transition_depth
from pfpne.paper.evidence import Evidence
from pfpne.paper.figures import LOOKS, TITLES
from pfpne.paper.parameters import COMMUNICATION, MAIN, SYNTHETIC_NAMES
from pfpne.algorithms.pf_pne import PFPNESettings

MUCH = 2.0  # "much better", "much slower", "far from": by this factor at least
MOST = 0.8  # of the runs, for what is measured with error: times
SIMILAR = 1.25  # "similar", "slightly", "too much": a ratio within 1/SIMILAR and SIMILAR, or beyond

PAPER = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")  # the five that the paper compares
DIMENSIONS = ("garland", "himmelblau", "rastrigin")  # one objective of each dimension: 1, 2, 10
DELTAS = (1.0, 0.1, 0.01, 0.0, "true")  # "whatever Delta"
VALID = (1.0, "true")  # those of DELTAS that bound the clients' real differences, as the theorem supposes
RANGES = {  # around the paper's nu_1 = 1, rho = 0.5, c = 0.1, c_1 = 1, Delta = 0.01
    "nu_1": (0.5, 2.0),
    "rho": (0.4, 0.6),
    "c": (0.05, 0.2),
    "c_1": (0.5, 2.0),
    "Delta": (0.005, 0.02),
}

# --- outcomes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """One comparison. values (n,): below 0 where the claim is right, a value a run.

    shown (n,): what is reported of it, a slope or a difference; base (n,): what the difference is relative to.
    margin: how far from right it is on the whole, in a unit that the parts of a claim share; above 0 it is wrong.
    """

    what: str
    values: np.ndarray
    shown: np.ndarray
    margin: float
    base: np.ndarray | None = None

    @property
    def ratio(self) -> float:
        """Of the means, if it is a difference; nan if there is nothing to divide by."""
        return math.nan if self.base is None else float(1 + self.shown.mean() / (self.base.mean() or math.nan))

    @property
    def brief(self) -> str:
        """The one number that a cell of a table has room for."""
        if self.base is None:
            return f"{self.what}: {number(self.shown.mean())}"
        if " - " in self.what:
            return f"{self.what.replace(' - ', ' / ')} = {number(self.ratio)}"
        return f"{self.what}: ratio {number(self.ratio)}"


@dataclass(frozen=True, eq=False)
class Tested:
    """What a test found, before the correction. every: whether all parts are claimed, or at least one."""

    parts: tuple[Part, ...]
    every: bool = True
    measured: str = ""  # in words; made of the parts if empty


@dataclass(frozen=True, eq=False)
class Counted:
    """Facts that are claimed to be True: True, False, or None where a run ended too early to tell.

    against: of what was measured, what refutes the claim first; empty if nothing does.
    """

    facts: tuple[bool | None, ...]
    measured: str
    against: str = ""


# --- comparisons ------------------------------------------------------------------------------------


def label(algorithm: str) -> str:
    return LOOKS[algorithm].label


def title(objective: str) -> str:
    return TITLES[objective].split(" ")[0]


def number(x: float) -> str:
    """A number for a sentence: three digits, or whole with commas."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def settings_of_pf_pne(Delta: str) -> dict:
    """None for the paper's own (the runs of the figures), else the clients' own."""
    return {"Delta": "true"} if Delta == "true" else {}


def final(evidence: Evidence, objective: str, algorithm: str, noise, Delta: str, **changes) -> np.ndarray:
    """R(T)/M (n,) of the main comparison; Delta goes to PF-PNE alone."""
    if algorithm == "pf-pne":
        changes["settings"] = {**settings_of_pf_pne(Delta), **changes.get("settings", {})}
    return evidence.regret(objective, algorithm, noise, **changes)


def less(a: np.ndarray, b: np.ndarray, what: str, factor: float = 1.0) -> Part:
    """The claim that a is less than factor times b, from the runs that both have."""
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    values = a - factor * b
    return Part(what, values, a - b, float(np.nan_to_num(values.mean() / (b.mean() or np.nan))), b)


def more(a: np.ndarray, b: np.ndarray, what: str, factor: float = 1.0) -> Part:
    """The claim that a is more than factor times b."""
    part = less(a, b, what, factor)
    return Part(what, -part.values, part.shown, -part.margin, part.base)


def slope_below(bound: float, slopes: np.ndarray, what: str) -> Part:
    """The claim that the slopes (n,) are below the bound."""
    return Part(what, slopes - bound, slopes, float(slopes.mean() - bound))


def alike(a: np.ndarray, b: np.ndarray, what: str) -> tuple[Part, Part]:
    """The claim that a is within a factor SIMILAR of b: two one-sided tests."""
    return less(a, b, what, SIMILAR), more(a, b, what, 1 / SIMILAR)


# --- the tests --------------------------------------------------------------------------------------


class Test(Protocol):
    """How a claim is tested. objectives: where; uses_pf_pne: whether Delta makes a difference."""

    statistic: ClassVar[str]
    uses_pf_pne: ClassVar[bool]

    @property
    def objectives(self) -> tuple[str, ...]: ...

    def runs(self, evidence: Evidence) -> str:
        """Which runs, in words."""

    def evaluate(self, evidence: Evidence, noise, objectives: tuple[str, ...], Delta: str) -> Tested | Counted:
        """What those runs say, under one noise; objectives: the part of self.objectives that is run under it."""


def _main(evidence: Evidence) -> str:
    return f"main comparison: M = {evidence.n_clients}, T = {evidence.horizon:,}, n = {evidence.n_runs}"


@dataclass(frozen=True)
class OnOneObjective:
    """A test of one objective, of the runs of the main comparison unless it says otherwise."""

    objective: str

    @property
    def objectives(self):
        return (self.objective,)

    def runs(self, evidence):
        return _main(evidence)


@dataclass(frozen=True)
class Comparison(OnOneObjective):
    """`algorithm` has (much, slightly) less regret than each of `others`, on one objective.

    much: by the factor MUCH. slightly: less, but not by the factor SIMILAR.
    """

    algorithm: str
    others: tuple[str, ...]
    degree: str = ""  # "", "slightly" or "much"

    statistic: ClassVar[str] = "paired difference of R(T)/M"

    @property
    def uses_pf_pne(self) -> bool:
        return "pf-pne" in (self.algorithm, *self.others)

    def runs(self, evidence):
        short = f" ({evidence.figure_runs} with FN-UCB)" if "fn-ucb" in self.others else ""
        return _main(evidence) + short

    def evaluate(self, evidence, noise, objectives, Delta):
        mine = final(evidence, self.objective, self.algorithm, noise, Delta)
        parts = []
        for other in self.others:
            theirs, what = (
                final(evidence, self.objective, other, noise, Delta),
                f"{label(self.algorithm)} - {label(other)}",
            )
            parts.append(less(mine, theirs, what, 1 / MUCH if self.degree == "much" else 1.0))
            if self.degree == "slightly":
                parts.append(more(mine, theirs, what, 1 / SIMILAR))
        return Tested(tuple(parts))


@dataclass(frozen=True)
class Unsatisfactory(OnOneObjective):
    """Fed-PNE is far from satisfactory: its regret is at least MUCH times that of one of the other four, at least."""

    statistic: ClassVar[str] = "paired difference of R(T)/M"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        return f"{_main(evidence)} ({evidence.figure_runs} with FN-UCB)"

    def evaluate(self, evidence, noise, objectives, Delta):
        mine = final(evidence, self.objective, "fed-pne", noise, Delta)
        others = {name: final(evidence, self.objective, name, noise, Delta) for name in PAPER if name != "fed-pne"}
        parts = (more(mine, theirs, f"Fed-PNE - {label(name)}", MUCH) for name, theirs in others.items())
        return Tested(tuple(parts), every=False)


@dataclass(frozen=True)
class DependsOnSimilarity(OnOneObjective):
    """Fed-PNE's regret with clients that are alike, times MUCH, is at most that with the clients of the figures."""

    statistic: ClassVar[str] = "paired difference of R(T)/M"
    uses_pf_pne: ClassVar[bool] = False

    def runs(self, evidence):
        return f"{_main(evidence)}, with shift = {evidence.shift:g} and shift = 0"

    def evaluate(self, evidence, noise, objectives, Delta):
        apart = final(evidence, self.objective, "fed-pne", noise, Delta)
        alike = final(evidence, self.objective, "fed-pne", noise, Delta, shift=0.0)
        return Tested((more(apart, alike, f"shift {evidence.shift:g} - shift 0", MUCH),))


@dataclass(frozen=True)
class Similar(OnOneObjective):
    """PF-PNE's regret is within a factor SIMILAR of the other's. settings: of PF-PNE, instead of the column's Delta."""

    other: str
    settings: tuple[tuple[str, float], ...] = ()

    statistic: ClassVar[str] = "paired difference of R(T)/M, two one-sided tests"

    @property
    def uses_pf_pne(self) -> bool:
        return not self.settings

    def evaluate(self, evidence, noise, objectives, Delta):
        mine = final(evidence, self.objective, "pf-pne", noise, Delta, settings=dict(self.settings))
        theirs = final(evidence, self.objective, self.other, noise, Delta)
        return Tested(alike(mine, theirs, f"PF-PNE - {label(self.other)}"))


@dataclass(frozen=True)
class FallsWithM(OnOneObjective):
    """With clients that are alike, R(T)/M ~ M^a with a < at_most, on one objective."""

    at_most: float

    statistic: ClassVar[str] = "slope of log R(T)/M on log M, fitted to each run"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        clients = ", ".join(map(str, evidence.clients))
        return f"shift = 0: M = {clients}, T = {evidence.horizon:,}, n = {evidence.n_runs}"

    def evaluate(self, evidence, noise, objectives, Delta):
        regret = [
            final(evidence, self.objective, "pf-pne", noise, Delta, shift=0.0, n_clients=M) for M in evidence.clients
        ]
        slopes = stats.power(evidence.clients, np.stack(regret, axis=1))
        return Tested((slope_below(self.at_most, slopes, "slope"),))


@dataclass(frozen=True)
class BetterThanAlone(OnOneObjective):
    """With clients that are alike, PF-PNE has less regret than the other algorithm, by which each client is alone."""

    other: str

    statistic: ClassVar[str] = "paired difference of R(T)/M"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        return f"shift = 0: M = {evidence.n_clients}, T = {evidence.horizon:,}, n = {evidence.n_runs}"

    def evaluate(self, evidence, noise, objectives, Delta):
        mine, theirs = (
            final(evidence, self.objective, name, noise, Delta, shift=0.0) for name in ("pf-pne", self.other)
        )
        return Tested((less(mine, theirs, f"PF-PNE - {label(self.other)}"),))


@dataclass(frozen=True)
class Sublinear:
    """R(T) ~ T^a with a < 1, with each of these Delta given to PF-PNE."""

    deltas: tuple[float | str, ...] = DELTAS

    objectives: ClassVar[tuple[str, ...]] = (*DIMENSIONS, "landmine")
    statistic: ClassVar[str] = "slope of log R(T) on log T, fitted to each run"
    uses_pf_pne: ClassVar[bool] = False  # the Delta of the columns plays no part

    def runs(self, evidence):
        horizons = ", ".join(f"{T:,}" for T in evidence.horizons)
        return f"M = {evidence.n_clients}, T = {horizons}, n = {evidence.n_runs}, Delta = {in_words(*self.deltas)}"

    def evaluate(self, evidence, noise, objectives, Delta):
        parts = []
        for objective in objectives:
            for given in self.deltas:
                regret = [study(evidence, objective, noise, given, T)["regret"] for T in evidence.horizons]
                slopes = stats.power(evidence.horizons, np.stack(regret, axis=1))
                parts.append(slope_below(1.0, slopes, f"slope on {title(objective)}, Delta = {in_words(given)}"))
        return Tested(tuple(parts), measured=_extremes(parts))


def study(evidence: Evidence, objective: str, noise, Delta: float | str, T: int) -> pd.DataFrame:
    """The runs of PF-PNE (a row each) with horizon T and one of DELTAS."""
    settings = {} if Delta == PFPNESettings().Delta else {"Delta": Delta}
    return evidence.summary(objective, "pf-pne", noise, horizon=T, settings=settings)


def ranges_in_words() -> str:
    return ", ".join(f"{name} to {low:g} or {high:g}" for name, (low, high) in RANGES.items())


def in_words(*deltas: float | str) -> str:
    return ", ".join("the clients' own" if Delta == "true" else f"{Delta:g}" for Delta in deltas)


def _extremes(parts: list[Part]) -> str:
    """The lowest and the highest of the parts, when they are too many to list."""
    low, high = (choose(parts, key=lambda part: part.shown.mean()) for choose in (min, max))
    return f"from {number(low.shown.mean())} ({low.what}) to {number(high.shown.mean())} ({high.what})"


@dataclass(frozen=True)
class Insensitive(OnOneObjective):
    """Each setting, moved alone through its range, changes PF-PNE's regret by less than a factor SIMILAR."""

    statistic: ClassVar[str] = "paired difference of R(T)/M, two one-sided tests for each value of each setting"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        return f"M = {evidence.n_clients}, T = {evidence.horizon:,}, n = {evidence.n_runs} for each value"

    def evaluate(self, evidence, noise, objectives, Delta):
        base = final(evidence, self.objective, "pf-pne", noise, Delta)
        rivals = [final(evidence, self.objective, name, noise, Delta) for name in PAPER if name != "pf-pne"]
        parts, ranks = [], []
        for name, values in RANGES.items():
            if name == "Delta" and Delta == "true":
                continue
            for value in values:
                moved = final(evidence, self.objective, "pf-pne", noise, Delta, settings={name: value})
                parts += alike(moved, base, f"{name} = {value:g}")
                ranks.append(rank(moved, rivals))
        low, high = (choose(parts, key=lambda part: part.ratio) for choose in (min, max))
        measured = (
            f"ratio of R(T)/M to that at the paper's values: {number(low.ratio)} ({low.what}) to {number(high.ratio)} "
            f"({high.what}); place among the paper's five: {rank(base, rivals)}, "
            f"and {min(ranks)} to {max(ranks)} when moved"
        )
        return Tested(tuple(parts), measured=measured)


def rank(mine: np.ndarray, rivals: list[np.ndarray]) -> int:
    """The place of the mean of `mine` among the rivals', 1 for the smallest; each compared on the runs it has."""
    return 1 + sum(theirs.mean() < mine[: len(theirs)].mean() for theirs in rivals)


# --- counted tests ----------------------------------------------------------------------------------


def _rows(evidence: Evidence, objective: str, algorithm: str, noise, Delta: str) -> pd.DataFrame:
    settings = settings_of_pf_pne(Delta) if algorithm == "pf-pne" else {}
    return evidence.summary(objective, algorithm, noise, settings=settings)


def _spread(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _cost(rows: pd.DataFrame) -> str:
    rounds, last, numbers = (_spread(rows[column]) for column in ("rounds", "last", "numbers"))
    return f"{rounds} rounds, the last at t = {last}, {numbers} numbers in all"


class CountedByObjective:
    """A counted test that looks at one objective after the other: look(...) -> (facts, what was measured there)."""

    def evaluate(self, evidence, noise, objectives, Delta):
        found = [self.look(evidence, objective, noise, Delta) for objective in objectives]
        measured = [f"{title(objective)}{words}" for objective, (_, words) in zip(objectives, found, strict=True)]
        against = [words for words, (facts, _) in zip(measured, found, strict=True) if False in facts]
        facts = tuple(fact for some, _ in found for fact in some)
        return Counted(facts, "; ".join(measured), "".join(against[:1]))


def last_depth(Delta: float) -> float:
    """H_0 at the paper's nu_1 and rho: PF-PNE communicates once for each depth 0..H_0."""
    s = PFPNESettings()
    return transition_depth(Delta, s.nu_1, s.rho)


@dataclass(frozen=True)
class KeepsGrowing(CountedByObjective):
    """Fed-PNE's communication keeps increasing: it has a round after T/10, in every run.

    A phase is at most 8 times as long as the one before (twice the nodes, four times the pulls), so that an
    algorithm that never stops has a round in the last nine tenths of any horizon.
    """

    objectives: ClassVar[tuple[str, ...]] = COMMUNICATION
    statistic: ClassVar[str] = "the step of the last round of each run"
    uses_pf_pne: ClassVar[bool] = False

    def runs(self, evidence):
        return _main(evidence)

    def look(self, evidence, objective, noise, Delta):
        fed, pf = (_rows(evidence, objective, name, noise, Delta) for name in ("fed-pne", "pf-pne"))
        later, outlasts = fed["last"] > evidence.horizon / 10, fed["last"] > pf["last"]
        words = f"after T/10 in {later.sum()}, after PF-PNE's last round in {outlasts.sum()} of {len(fed)} runs"
        return later.tolist(), f": {words}; Fed-PNE: {_cost(fed)}"


@dataclass(frozen=True)
class SameCost(CountedByObjective):
    """With Delta = 0 PF-PNE carries as many numbers as Fed-PNE, within a factor SIMILAR, in every run."""

    objectives: ClassVar[tuple[str, ...]] = DIMENSIONS
    statistic: ClassVar[str] = "numbers of each run over Fed-PNE's"
    uses_pf_pne: ClassVar[bool] = False  # the Delta of the columns plays no part

    def runs(self, evidence):
        return _main(evidence)

    def look(self, evidence, objective, noise, Delta):
        zero = study(evidence, objective, noise, 0.0, evidence.horizon)["numbers"]
        ratio = zero / _rows(evidence, objective, "fed-pne", noise, Delta)["numbers"]
        facts = ((ratio <= SIMILAR) & (ratio >= 1 / SIMILAR)).tolist()
        return facts, f": {number(ratio.min())} to {number(ratio.max())} times Fed-PNE's numbers"


@dataclass(frozen=True)
class Stops(CountedByObjective):
    """PF-PNE's communication stops: its stage 1 ends before T, and nothing is sent after it, in every run.

    A run whose horizon ends within stage 1 leaves it undecided.
    """

    objectives: ClassVar[tuple[str, ...]] = COMMUNICATION
    statistic: ClassVar[str] = "rounds of each run against H_0 + 1, and the step of the last one"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        return _main(evidence)

    def look(self, evidence, objective, noise, Delta):
        rows = _rows(evidence, objective, "pf-pne", noise, Delta)
        facts = [
            stopped(rounds, last, last_depth(given), evidence.horizon)
            for rounds, last, given in zip(rows["rounds"], rows["last"], rows["Delta"], strict=True)
        ]
        return facts, f": {_cost(rows)}"


def stopped(rounds: int, last: int, H_0: float, T: int) -> bool | None:
    """Whether a run of PF-PNE has ceased to communicate before T; None if its stage 1 was not over by then."""
    if rounds < H_0 + 1:
        return None
    return rounds == H_0 + 1 and last < T


@dataclass(frozen=True)
class Bounded(CountedByObjective):
    """PF-PNE's communication is bounded: by H_0 + 1 rounds, and the numbers if no node were ever eliminated."""

    objectives: ClassVar[tuple[str, ...]] = (*SYNTHETIC_NAMES, "landmine")
    statistic: ClassVar[str] = "rounds and numbers of each run less their bounds"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        return _main(evidence)

    def look(self, evidence, objective, noise, Delta):
        rows = _rows(evidence, objective, "pf-pne", noise, Delta)
        H_0 = rows["Delta"].map(last_depth)
        most = H_0.map(lambda h: numbers_bound(h, evidence.n_clients))
        facts = ((rows["rounds"] <= H_0 + 1) & (rows["numbers"] <= most)).tolist()
        return facts, f": {_cost(rows)}, bound {_spread(most)}"


def numbers_bound(H_0: int, M: int) -> int:
    """The numbers that PF-PNE carries if it never eliminates.

    For each of M clients, at each depth h = 0..H_0, each of 2^h nodes takes one number up and three down.
    """
    return 4 * M * (2 ** (H_0 + 1) - 1)


@dataclass(frozen=True)
class RoundsBounded(CountedByObjective):
    """Rounds are at most the smaller of two bounds, one of log(1/Delta), one of log(MT), whatever Delta and T.

    The theorem leaves its constants open, and counts each exchange M times. Ours follow from H_0 and from
    tau_h <= MT at the last depth h: C_1 = 1 / log(1/rho), C_2 = 1 / (2 log(1/rho)), see `rounds_bound`.
    """

    objectives: ClassVar[tuple[str, ...]] = (*DIMENSIONS, "landmine")
    statistic: ClassVar[str] = "rounds of each run less the bound"
    uses_pf_pne: ClassVar[bool] = False  # every Delta is in it

    def runs(self, evidence):
        return Sublinear().runs(evidence)

    def look(self, evidence, objective, noise, Delta):
        facts, by_delta = [], []
        for given in DELTAS:
            at = {}
            for T in evidence.horizons:
                rows = study(evidence, objective, noise, given, T)
                bounds = [rounds_bound(D, T, evidence.n_clients) for D in rows["Delta"]]
                facts += [bool(r <= bound) for r, bound in zip(rows["rounds"], bounds, strict=True)]
                low, high = f"{min(bounds):.1f}", f"{max(bounds):.1f}"
                at[T] = f"{_spread(rows['rounds'])} (bound {low if low == high else f'{low} to {high}'})"
            by_delta.append(f"{in_words(given)}: {at[evidence.horizons[0]]}, {at[evidence.horizons[-1]]}")
        first, last = evidence.horizons[0], evidence.horizons[-1]
        return facts, f", rounds at T = {first:,} and {last:,} by Delta: {', '.join(by_delta)}"


def rounds_bound(Delta: float, T: int, M: int) -> float:
    """The theorem's bound on exchanges, with its constants worked out at the paper's settings.

    min(2 + C_1 log(nu_1/Delta), 1 + C_2 (log MT + log(nu_1^2 / (c^2 log(c_1 T/delta))))), and at least 1.
    The first: depths 0..H_0, H_0 <= 1 + C_1 log(nu_1/Delta). The second: a finished depth h has tau_h <= MT.
    """
    s = PFPNESettings()
    by_depth = 2 + max(0.0, math.log(s.nu_1 / Delta) / math.log(1 / s.rho)) if Delta > 0 else math.inf
    log = log_term(T, s.c_1, 1 / M if s.delta is None else s.delta)
    if log == 0:
        return by_depth
    by_samples = 1 + (math.log(M * T) + math.log(s.nu_1**2 / (s.c**2 * log))) / (2 * math.log(1 / s.rho))
    return max(1.0, min(by_depth, by_samples))


@dataclass(frozen=True)
class DeltaBounds(CountedByObjective):
    """|f-bar* - f_m*| <= Delta = 0.01 for every client of every run."""

    objectives: ClassVar[tuple[str, ...]] = (*SYNTHETIC_NAMES, "landmine")
    statistic: ClassVar[str] = "the largest |f-bar* - f_m*| over the clients of each run"
    uses_pf_pne: ClassVar[bool] = False

    def runs(self, evidence):
        return _main(evidence)

    def look(self, evidence, objective, noise, Delta):
        true = _rows(evidence, objective, "pf-pne", noise, "true")["Delta"]
        return (true <= PFPNESettings().Delta).tolist(), f": {number(true.min())} to {number(true.max())}"


class CountedTimes:
    """A counted test of `seconds`: each objective gives one fact, whether `fact` is true of most of its runs."""

    objectives: ClassVar[tuple[str, ...]] = MAIN
    statistic: ClassVar[str] = "seconds of each run"
    uses_pf_pne: ClassVar[bool] = True

    def runs(self, evidence):
        return f"those of the figures: M = {evidence.n_clients}, T = {evidence.horizon:,}, n = {evidence.figure_runs}"

    def evaluate(self, evidence, noise, objectives, Delta):
        tables = (seconds(evidence, name, noise, Delta) for name in objectives)
        return Counted(tuple(mostly(self.fact(table)) for table in tables), TIMES)


@dataclass(frozen=True)
class Slower(CountedTimes):
    """As implemented here, FN-UCB takes at least MUCH times as long as each of the other four, on every objective."""

    @staticmethod
    def fact(table: pd.DataFrame) -> pd.Series:
        """In which runs it does, from their `seconds`."""
        return table["fn-ucb"] >= MUCH * table.drop(columns="fn-ucb").max(axis=1)


@dataclass(frozen=True)
class AlikeInTime(CountedTimes):
    """As implemented here, none of the four besides FN-UCB takes more than MUCH times as long as another, anywhere."""

    @staticmethod
    def fact(table: pd.DataFrame) -> pd.Series:
        """In which runs none does, from their `seconds`."""
        others = table.drop(columns="fn-ucb")
        return others.max(axis=1) <= MUCH * others.min(axis=1)


TIMES = "see claims_times.csv"  # seconds are not the same twice: kept apart from what must be


def mostly(facts: pd.Series) -> bool | None:
    """True if most of the facts are (MOST of them), False if most are not, else None: a time is measured with error."""
    share = facts.mean()
    return True if share >= MOST else False if share <= 1 - MOST else None


def seconds(evidence: Evidence, objective: str, noise, Delta: str) -> pd.DataFrame:
    """The seconds of each run of the figures, a column for each of the paper's five; Delta goes to PF-PNE alone."""
    n = evidence.figure_runs
    return pd.DataFrame({name: _rows(evidence, objective, name, noise, Delta)["seconds"][:n] for name in PAPER})
