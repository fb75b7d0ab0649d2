"""When federation pays: who has the smallest regret over a grid of regimes, and PF-PNE's regret against its Delta."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms.fed1_ucb import reward_deviation
from pfpne.paper.claims.evidence import COMMON_SHIFT, summarize_many
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.selections import MAP_ALGORITHMS, MAP_OBJECTIVES
from pfpne.paper.show.export import Exhibit, text_exhibit
from pfpne.paper.show.style import EARLY, OWN_DELTA, label, rounded
from pfpne.problems import OBJECTIVES, make_problem
from pfpne.simulation.simulate import partition_of

LARGE_RUN = 10**7  # M T: a run takes seconds


@dataclass(frozen=True)
class Grid:
    """The regimes of the map: every combination of these, where M T >= LARGE_RUN, only those of noises_of_large_runs.

    landmine, which has no shift, is in it once.
    """

    objectives: tuple[str, ...]
    noises: tuple
    shifts: tuple[float, ...]
    clients: tuple[int, ...]
    horizons: tuple[int, ...]
    noises_of_large_runs: tuple

    def regimes(self) -> list[tuple]:
        """(objective, noise, shift, M, T) of each regime; those that share a problem follow each other."""
        combinations = itertools.product(self.objectives, self.noises, self.shifts, self.clients, self.horizons)
        return [
            (objective, noise, shift, M, T)
            for objective, noise, shift, M, T in combinations
            if (objective != "landmine" or shift == self.shifts[0])
            and (M * T < LARGE_RUN or noise in self.noises_of_large_runs)
        ]

    @classmethod
    def from_parameters(cls, p: Parameters, grids: dict[str, Grid] | None = None) -> Grid:
        """Make the grid that a notebook's parameters ask for.

        Parameters
        ----------
        p : Parameters
            The notebook's parameters. Each that is given narrows its side of the grid to one value.
        grids : dict, optional
            {profile: Grid}; GRIDS if they are not given.

        Returns
        -------
        Grid
            The profile's, narrowed.
        """
        given = {"objectives": p.objective, "noises": p.noise, "shifts": p.shift, "clients": p.n_clients}
        given |= {"horizons": p.horizon, "noises_of_large_runs": p.noise}
        narrowed = {name: (value,) for name, value in given.items() if value is not None}
        return replace((GRIDS if grids is None else grids)[p.profile], **narrowed)

    @property
    def one_noise(self) -> Grid:
        """The grid under one noise (Bernoulli rewards, if they are in it) and at the longest T alone."""
        noise = "bernoulli" if "bernoulli" in self.noises else self.noises[0]
        return replace(self, noises=(noise,), horizons=(max(self.horizons),), noises_of_large_runs=(noise,))


GRIDS = {
    "smoke": Grid(("garland", "landmine"), ("bernoulli", 0.1), (0.0, 0.1), (4,), (1_000,), ("bernoulli", 0.1)),
    "paper": Grid(
        MAP_OBJECTIVES,
        (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, "bernoulli"),
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        (5, 20, 100),
        (1_000, 10_000, 100_000),
        ("bernoulli",),
    ),
}
# A report apart, fixed before any of it was run: the next seed, other M and T than the map's, other shifts but for 0,
# other noises but for Bernoulli, and rastrigin, in as many dimensions as HELD_OUT_DIMENSIONS says. What it has in
# common with the tuning: docs/pf-pne-plus.md.
HELD_OUT = {
    "smoke": Grid(("garland", "rastrigin"), ("bernoulli",), (0.0, 0.15), (3,), (500,), ("bernoulli",)),
    "paper": Grid(
        (*MAP_OBJECTIVES, "rastrigin"),
        (0.3, 1.5, "bernoulli"),
        (0.0, 0.03, 0.15),
        (10, 30),
        (3_000, 30_000),
        ("bernoulli",),
    ),
}
HELD_OUT_DIMENSIONS = {"rastrigin": 2}
MAP_VARIANTS = {  # what is compared on the map: the algorithm, its settings
    **{name: (name, {}) for name in MAP_ALGORITHMS},
    EARLY: ("hct-noise", {"early_descent": True}),
    OWN_DELTA: ("pf-pne", {"Delta": "true"}),
}
REGIME_COLUMNS = ["objective", "noise", "shift", "clients", "horizon"]
RANKED_ON_MAP = [*MAP_ALGORITHMS, EARLY]
SPREAD_DEPTH = 8  # the depth of the cells whose centres tell the spread
BREAK_EVEN_DELTAS = (
    0.0,
    *(2.0**-h for h in range(12, -1, -1)),
)  # H_0 is infinite, 12, 11, ..., 0; others give no other run


def _run_regimes(
    p: Parameters, regimes: list[tuple], variants: dict, progress_name: str, folder: Path, **changes
) -> pd.DataFrame:
    """One row per regime, variant and run: REGIME_COLUMNS, variant, run, regret R(T)/M, Delta.

    variants: {name: (algorithm, settings)}. changes: to the seed, the cells, and to d, {objective: d} where it is not
    the usual one.
    """
    same = {"n_runs": p.n_runs, "seed": p.seed, "cells": p.cells, "common": COMMON_SHIFT, "d": {}} | changes

    def experiments(objective, noise, shift, M, T) -> list[Experiment]:
        scale = {"noise": noise, "shift": shift, "n_clients": M, "horizon": T, "d": same["d"].get(objective)}
        return [
            Experiment(objective, algorithms=(name,), settings=given, **same | scale)
            for name, given in variants.values()
        ]

    # The regimes of a group share their problem.
    groups = [[*group] for _, group in itertools.groupby(regimes, key=lambda regime: regime[:4])]
    asked = [sum((experiments(*regime) for regime in group), []) for group in groups]
    tables = sum(summarize_many(asked, p.n_jobs, progress(progress_name), folder), [])
    places = [dict(zip(REGIME_COLUMNS, regime, strict=True)) for group in groups for regime in group]
    parts = [
        table[["run", "regret", "Delta"]].assign(**place, variant=name)
        for (place, name), table in zip(itertools.product(places, variants), tables, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def measure(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """Measure the map.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; those that are given narrow the profile's grid.
    folder : Path
        Where what was measured before is kept.

    Returns
    -------
    pandas.DataFrame
        One row per regime: REGIME_COLUMNS, and the mean R(T)/M of each of MAP_VARIANTS. Then what a person could know
        of it: sigma, the noise's standard deviation (1/2 for Bernoulli rewards, the most that it can be); spread, the
        standard deviation across clients of f_m at a point, its root mean square over cells of depth SPREAD_DEPTH; and
        Delta, the clients' own. Then best, the one of RANKED_ON_MAP with the smallest mean, and clear, whether it leads
        every other by two standard errors.
    """
    rows = _run_regimes(p, Grid.from_parameters(p).regimes(), MAP_VARIANTS, "regimes", folder)
    regret = rows.pivot_table("regret", [*REGIME_COLUMNS, "run"], "variant", sort=False)[[*MAP_VARIANTS]]
    groups = regret.groupby(REGIME_COLUMNS, sort=False)
    table = groups.mean()
    table["Delta"] = rows[rows["variant"] == OWN_DELTA].groupby(REGIME_COLUMNS, sort=False)["Delta"].mean()
    table["best"] = table[RANKED_ON_MAP].idxmin(axis=1)
    table["clear"] = [_is_clear(regrets[RANKED_ON_MAP], table.loc[regime, "best"]) for regime, regrets in groups]
    table = table.reset_index()
    problems = ["objective", "shift", "clients"]
    spreads = [[*key, _spread(p, *key)] for key in table[problems].drop_duplicates().itertuples(index=False)]
    table = table.merge(pd.DataFrame(spreads, columns=[*problems, "spread"]), on=problems)
    table["sigma"] = table["noise"].map(reward_deviation)
    return table


def held_out(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """Measure what was held out.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; those that are given narrow the grid.
    folder : Path
        Where what was measured before is kept.

    Returns
    -------
    pandas.DataFrame
        One row per regime of HELD_OUT and kind of cells: REGIME_COLUMNS, the mean R(T)/M of each of RANKED_ON_MAP, and
        cells.
    """
    grid, variants, tables = Grid.from_parameters(p, HELD_OUT), {name: MAP_VARIANTS[name] for name in RANKED_ON_MAP}, []
    for cells in ("random", "cyclic"):
        if regimes := [regime for regime in grid.regimes() if cells == "random" or OBJECTIVES[regime[0]].d > 1]:
            rows = _run_regimes(
                p, regimes, variants, f"held out, {cells}", folder, seed=p.seed + 1, cells=cells, d=HELD_OUT_DIMENSIONS
            )
            means = rows.pivot_table("regret", REGIME_COLUMNS, "variant", sort=False)[RANKED_ON_MAP]
            tables.append(means.rename_axis(columns=None).reset_index().assign(cells=cells))
    return pd.concat(tables, ignore_index=True)


def _is_clear(regret: pd.DataFrame, best: str) -> bool:
    """Whether the best leads every other by more than two standard errors.

    regret: one row per run, one column per algorithm.
    """
    leads = regret.drop(columns=best).sub(regret[best], axis=0)
    return bool((leads.mean() > 2 * leads.sem()).all())


def _spread(p: Parameters, objective: str, shift: float, M: int) -> float:
    """The standard deviation across clients of f_m at a point: its root mean square over cells and runs."""
    variances = []
    for run in range(p.n_runs):
        problem = make_problem(objective, M, shift, seed=p.seed, run=run, common=COMMON_SHIFT)
        partition = partition_of(problem, p.cells, p.seed, run)
        values = problem.values(partition.centers(SPREAD_DEPTH, np.arange(1, 2**SPREAD_DEPTH + 1)))
        variances.append(values.var(axis=0, ddof=min(1, M - 1)).mean())
    return math.sqrt(np.mean(variances))


def break_even(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """Measure PF-PNE with each Delta that it may be given, at one noise and the longest T of the map.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters; those that are given narrow the profile's grid.
    folder : Path
        Where what was measured before is kept.

    Returns
    -------
    pandas.DataFrame
        One row per Delta and regime: REGIME_COLUMNS; given, one of BREAK_EVEN_DELTAS; ratio, of the mean R(T)/M to
        PE's; own and fed, the same ratio of PF-PNE given the clients' own Delta, and of Fed-PNE; Delta, the clients'
        own.
    """
    variants = {Delta: ("pf-pne", {"Delta": Delta}) for Delta in BREAK_EVEN_DELTAS}
    variants |= {name: MAP_VARIANTS[name] for name in ("pe", "fed-pne", OWN_DELTA)}
    rows = _run_regimes(p, Grid.from_parameters(p).one_noise.regimes(), variants, "break-even", folder)
    means = rows.pivot_table("regret", REGIME_COLUMNS, "variant", sort=False)
    ratios = means.div(means["pe"], axis=0)
    table = ratios[[*BREAK_EVEN_DELTAS]].rename_axis(columns="given").stack().rename("ratio").reset_index()
    more = ratios[[OWN_DELTA, "fed-pne"]].set_axis(["own", "fed"], axis=1)
    more["Delta"] = rows[rows["variant"] == OWN_DELTA].groupby(REGIME_COLUMNS, sort=False)["Delta"].mean()
    return table.merge(more.reset_index(), on=REGIME_COLUMNS)


# --- in words -----------------------------------------------------------------------------------------

KNOWN_IN_ADVANCE = {  # what a person may know, in words
    "sigma": "noise",
    "spread": "clients' spread",
    "clients": "M",
    "horizon": "T",
}
NEAR_BEST = 1.1  # as good as the best
STRONG_NOISE = 0.18  # noise that is not small
TUNED_OBJECTIVES = (
    "garland",
    "doublesine",
    "himmelblau",
    "ackley",
)  # the objectives that PF-PNE+ was tuned on, with other seeds


def guide(table: pd.DataFrame, given: pd.DataFrame, unseen: pd.DataFrame) -> Exhibit:
    """Say in rules and sentences when to federate, how, and with which Delta.

    Parameters
    ----------
    table : pandas.DataFrame
        The map, as `measure` returns it.
    given : pandas.DataFrame
        The curves of `break_even`.
    unseen : pandas.DataFrame
        What `held_out` returns.

    Returns
    -------
    Exhibit
        The text, in Markdown.
    """
    rules, trust = _rules(table)
    sentences = [*trust, _words_on_ours(table), _words_on_unseen(unseen), _which_Delta(given)]
    parts = [
        (
            "The last three columns compare each choice with the best algorithm of each regime. They are the"
            " geometric mean of the additional regret, the share of regimes in which it is at most "
            f"{NEAR_BEST - 1:.0%}, and"
            " the worst ratio of the two regrets."
        ),
        rules.to_markdown(index=False),
        "".join(f"- {sentence}\n" for sentence in sentences).rstrip(),
        "How often a search with a federation has less regret than the same search alone:",
        _federation_adds(table).to_markdown(index=False),
    ]
    text = "\n\n".join(parts) + "\n"
    return text_exhibit("regime_guide", "When to federate, with which algorithm, and which Delta.", text)


def _federation_adds(table: pd.DataFrame) -> pd.DataFrame:
    """The share of regimes in which a federated search has less regret than the same one alone: one row per pair."""
    identical, rows = table["shift"].eq(0) & table["objective"].ne("landmine"), []
    for name, other in (("pf-pne+", EARLY), ("pf-pne", "pe"), (OWN_DELTA, "pe"), ("fed-pne", "pe")):
        counted = table["noise"].ne("bernoulli") | (name != "pf-pne+")  # there it knows more of the noise, too
        less = table[name] < table[other]
        note = " (uniform noise alone)" if name == "pf-pne+" else ""
        row = {"Federated": _label(name) + note, "Alone": label(other)}
        for clients, mask in (("Identical clients", identical), ("Differing clients", ~identical)):
            row[clients] = f"{less[mask & counted].mean():.0%}"
        rows.append(row)
    return pd.DataFrame(rows)


def _words_on_ours(table: pd.DataFrame) -> str:
    """How near PF-PNE+ comes to the best of the others, where it was tuned and where not."""
    lead = ratio_to_others(table)[
        table["shift"].eq(0) & table["objective"].ne("landmine") & table["sigma"].gt(STRONG_NOISE)
    ]
    return (
        f"**{label('pf-pne+')} everywhere.** It is within {NEAR_BEST - 1:.0%} of the best of the others "
        f"{_near_the_best(table, [])} With identical clients and noise above {STRONG_NOISE}, it has at least 30% "
        "less regret "
        f"than any other in {(lead <= 0.7).sum()} of {len(lead)} regimes."
    )


def _words_on_unseen(unseen: pd.DataFrame) -> str:
    """How near PF-PNE+ comes to the best of the others in the regimes that were held out."""
    lead = ratio_to_others(unseen)[unseen["shift"].eq(0) & unseen["objective"].ne("landmine")]
    return (
        f"**Held out.** {len(unseen)} regimes were fixed before any of them was run. They have another seed, and M "
        "and T that are not on the map. Shifts other than 0 and noises other than Bernoulli are not on the map "
        f"either. Rastrigin is in two dimensions. There {label('pf-pne+')} is within {NEAR_BEST - 1:.0%} of the "
        "best of "
        f"the others {_near_the_best(unseen, ['cells'])} With identical clients it has at least 30% less regret than "
        f"any other in {(lead <= 0.7).sum()} of {len(lead)}."
    )


def ratio_to_others(table: pd.DataFrame) -> pd.Series:
    """PF-PNE+'s mean regret over that of the best of the others."""
    return table["pf-pne+"] / table[[name for name in RANKED_ON_MAP if name != "pf-pne+"]].min(axis=1)


def _near_the_best(table: pd.DataFrame, by: list[str]) -> str:
    """How often PF-PNE+ is within NEAR_BEST of the best of the others, by these columns and whether tuned there."""
    ratio, parts = ratio_to_others(table), []
    rows = table[by].assign(near=ratio <= NEAR_BEST, tuned=table["objective"].isin(TUNED_OBJECTIVES))
    for kinds, group in rows.groupby(by, sort=False) if by else [((), rows)]:
        where = "".join(f"on {kind} cells " for kind in kinds)
        sides = [
            f"in {side['near'].mean():.0%} of {len(side):,} regimes with {objectives}"
            for objectives, side in (
                ("objectives that it was tuned on", group[group["tuned"]]),
                ("other objectives", group[~group["tuned"]]),
            )
            if len(side)
        ]
        parts.append(where + " and ".join(sides))
    return f"{'; '.join(parts)}. At worst it has {ratio.max():.2g} times the regret of the best."


def _label(name: str) -> str:
    return f"{label('pf-pne')} with the true Delta" if name == OWN_DELTA else label(name)


def _rules(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Which of RANKED_ON_MAP to use, one row per rule, by what a person could know; and a sentence on its worth.

    The worth is that on an objective left out. On a map of one objective nothing can be left out: no sentence.
    """
    behind = table[RANKED_ON_MAP].div(table[RANKED_ON_MAP].min(axis=1), axis=0)
    known = np.log(table[[*KNOWN_IN_ADVANCE]].clip(lower=1e-3))
    tree, leaf = _tree(known, behind)
    rules = []
    for node, conditions in _leaves(tree.tree_):
        regimes = behind[leaf == node]
        best = np.log(regimes).mean().idxmin()
        rules.append({"If": _in_words(conditions), "Take": label(best), **_behind_the_best(regimes[best])})
    objectives, parts = table["objective"].unique(), []
    if len(objectives) == 1:
        return pd.DataFrame(rules), []
    for objective in objectives:
        out = table["objective"] == objective
        tree, leaf = _tree(known[~out], behind[~out])
        names = np.log(behind[~out]).groupby(leaf).mean().idxmin(axis=1)
        chosen = names.loc[tree.apply(known[out])]
        parts.append(
            pd.Series([ratios[name] for (_, ratios), name in zip(behind[out].iterrows(), chosen, strict=True)])
        )
    more, near, worst = _behind_the_best(pd.concat(parts)).values()
    trust = (
        "**How far to trust the rules.** We made them without one objective and followed them on that objective, for "
        f"each in turn. Then they have {more} more regret than the best algorithm, on average, and are within "
        f"{NEAR_BEST - 1:.0%} of it in {near}. At worst they have {worst} times its regret."
    )
    return pd.DataFrame(rules), [trust]


def _tree(known: pd.DataFrame, behind: pd.DataFrame) -> tuple:
    """A regression tree of the logarithms of `behind` (ratios to the best), and the leaf of each row."""
    from sklearn.tree import DecisionTreeRegressor  # slow, so not before it is needed

    tree = DecisionTreeRegressor(max_leaf_nodes=5, min_samples_leaf=max(1, len(known) // 20), random_state=0)
    return tree, tree.fit(known, np.log(behind)).apply(known)


def _behind_the_best(behind: pd.Series) -> dict[str, str]:
    """The geometric mean of what is above 1 of ratios to the best, how often they are near 1, and the largest."""
    return {
        "More regret": f"{np.exp(np.log(behind).mean()) - 1:.0%}",
        f"Within {NEAR_BEST - 1:.0%}": f"{(behind <= NEAR_BEST).mean():.0%} of {len(behind):,} regimes",
        "At worst": f"{behind.max():.2g}",
    }


def _leaves(tree, node: int = 0, conditions: tuple = ()) -> list[tuple]:
    """(leaf, conditions), a condition (feature, whether below, threshold), of a fitted tree of scikit-learn."""
    if tree.children_left[node] < 0:
        return [(node, conditions)]
    split = [*KNOWN_IN_ADVANCE][tree.feature[node]], math.exp(tree.threshold[node])
    sides = (tree.children_left[node], True), (tree.children_right[node], False)
    return sum((_leaves(tree, child, (*conditions, (split[0], below, split[1]))) for child, below in sides), [])


def _in_words(conditions: tuple) -> str:
    """The conditions of a leaf as the condition of a rule."""
    parts = []
    for feature, feature_name in KNOWN_IN_ADVANCE.items():
        highest = min((x for name, below, x in conditions if name == feature and below), default=None)
        lowest = max((x for name, below, x in conditions if name == feature and not below), default=None)
        if lowest and highest:
            parts.append(f"{feature_name} between {rounded(lowest)} and {rounded(highest)}")
        elif lowest or highest:
            parts.append(f"{feature_name} {'above' if lowest else 'below'} {rounded(lowest or highest)}")
    return ", ".join(parts) or "always"


def _which_Delta(given: pd.DataFrame) -> str:
    """Which Delta to give PF-PNE, from the curves of `break_even`."""
    rows = []
    for _, curve in given.sort_values("given").groupby(REGIME_COLUMNS):
        first, best = curve.iloc[0], curve.loc[curve["ratio"].idxmin()]  # Delta = 0, and the best of them
        pays = curve["ratio"].le(1.01)[::-1].cummin()[::-1]  # from this Delta on, a percent apart
        row = {"own": first["Delta"], "ratio": first["own"], "behind": first["own"] / best["ratio"]}
        rows.append({**row, "best": best["given"], "pays": curve.loc[pays, "given"].min(), "zero": first["ratio"]})
    cases = pd.DataFrame(rows)
    differ, alike = cases[cases["own"] > 0], cases[cases["own"] == 0]
    again = (differ["pays"] > 0) & (differ["zero"] < 1)
    return (
        f"**Which Delta to give {label('pf-pne')}.** Ranges are medians and quartiles. With differing clients, the "
        f"true Delta is {_range(differ['own'])}. Given it, the regret is within {NEAR_BEST - 1:.0%} of that of "
        "the best "
        f"Delta in {(differ['behind'] <= NEAR_BEST).sum()} of {len(differ)} cases, and below PE's in "
        f"{(differ['ratio'] < 1).sum()}. The best Delta is {_range(differ['best'])}. Below a Delta of "
        f"{_range(differ['pays'])} federating stops paying; at 0 it pays again in {again.sum()}. With identical "
        f"clients, Delta = 0 is within {NEAR_BEST - 1:.0%} of the best in {(alike['behind'] <= NEAR_BEST).sum()} of "
        f"{len(alike)}."
    )


def _range(values: pd.Series) -> str:
    low, middle, high = values.quantile([0.25, 0.5, 0.75])
    return f"{middle:.2g} ({low:.2g} to {high:.2g})"
