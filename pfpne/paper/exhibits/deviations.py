"""How much a deviation from the paper changes a curve: R(T)/M with another choice, over R(T)/M with ours.

docs/deviations.md lists the deviations by number, with the table that `tabulate` makes from OTHER_CHOICES. The module
`variants` has variants of our algorithms, each with one change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import theory_settings
from pfpne.paper.exhibits.variants import DEVIATION_VARIANTS
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.paper.show.export import Exhibit, table_exhibit
from pfpne.paper.show.style import DASH
from pfpne.rng import stream


@dataclass(frozen=True)
class OtherChoice:
    """Another choice at a numbered deviation, compared with our choice on one algorithm. It has one of three forms:

    - a variant of the algorithm, a row of DEVIATION_VARIANTS;
    - a registered algorithm (`other`, by default the same one) under other_noise, on other cells or with other settings
      (a dict, or a function of M that returns it);
    - the same runs, with regret against other maxima: maximum(problem) returns one number, or one per client (M,).

    noise: the noise of both choices, unless other_noise is given.
    """

    deviation: int
    algorithm: str
    change: str
    variant: str = ""
    other: str = ""
    noise: float | str = "bernoulli"
    other_noise: float | str | None = None
    settings: dict | Callable[[int], dict] = field(default_factory=dict)
    cells: str = "random"
    maximum: Callable | None = None
    objectives: tuple[str, ...] = ONE_PER_DIMENSION

    def regret(self, study: Study, objective: str) -> np.ndarray:
        """R(T)/M (runs,) with this choice, run by run paired with ours."""
        n_runs = study.figure_runs
        if self.variant:
            return study.variant_regrets(objective, *DEVIATION_VARIANTS[self.variant], self.noise, n_runs)
        settings = self.settings(study.n_clients) if callable(self.settings) else self.settings
        noise, other = self.noise if self.other_noise is None else self.other_noise, self.other or self.algorithm
        runs = study.summaries(objective, other, noise, n_runs, settings=settings, cells=self.cells)
        regret = runs["regret"].to_numpy()
        if self.maximum is None:
            return regret
        experiment = study.experiment(objective, self.algorithm, self.noise, n_runs)
        problems = [experiment.problem(run) for run in range(n_runs)]
        return regret + [study.horizon * (self.maximum(problem) - problem.optimum).mean() for problem in problems]


def maximum_on_grid(problem) -> np.ndarray:
    """Each client's largest value (M,) on a grid of GRID_POINTS points, in one dimension, with both ends."""
    low, high = problem.domain[0]
    return problem.values(np.linspace(low, high, GRID_POINTS)[:, None]).max(axis=1)


GRID_POINTS = 1_001
OTHER_CHOICES = (
    OtherChoice(1, "pf-pne", "H_0 = 6, one less", settings={"Delta": 2.0**-6}),
    OtherChoice(1, "pf-pne", "the largest h, not the smallest: no transition", settings={"Delta": 0.0}),
    OtherChoice(1, "pf-pne", "the minus sign as printed: no federated stage, which is pe", other="pe"),
    OtherChoice(3, "pf-pne", "start at depth 1", "depth one"),
    OtherChoice(5, "pf-pne", "new samples only", "fresh"),
    OtherChoice(5, "pf-pne", "nodes pulled in decreasing index", "decreasing"),
    OtherChoice(6, "pf-pne", "tau_h samples in b", "tau"),
    OtherChoice(6, "fed-pne", "tau_h samples in b", "tau, fed-pne"),
    OtherChoice(7, "pf-pne", "the best of the client's own nodes", "own best"),
    OtherChoice(8, "pf-pne", "c = 2, c_1 = (2 M^2)^(1/8)", settings=theory_settings),
    OtherChoice(8, "fed-pne", "c = 2, c_1 = (2 M^2)^(1/8)", settings=theory_settings),
    OtherChoice(9, "pf-pne", "no phase is begun that T cuts; the best node is played", "whole phases"),
    OtherChoice(10, "pf-pne", "the largest index", "last"),
    OtherChoice(10, "hct", "the first child", "first child, hct"),
    OtherChoice(10, "hct-pyxab", "the first child", "first child, hct-pyxab"),
    OtherChoice(
        11, "fed-pne", "no expansion: the pulls of pf-pne with Delta = 0", other="pf-pne", settings={"Delta": 0.0}
    ),
    OtherChoice(14, "pf-pne", "1 for the maximum", maximum=lambda problem: 1.0, objectives=("garland",)),
    OtherChoice(15, "hct", "hct-pyxab", other="hct-pyxab"),
    OtherChoice(
        16,
        "pf-pne",
        f"the maximum of a grid of {GRID_POINTS:,} points",
        maximum=maximum_on_grid,
        objectives=("garland",),
    ),
    OtherChoice(17, "pf-pne", "uniform noise on ±0.1", other_noise=0.1),
    OtherChoice(17, "pf-pne", "uniform noise on ±2", other_noise=2.0),
    *(
        OtherChoice(20, name, "cyclic cells", cells="cyclic", objectives=("himmelblau", "ackley", "rastrigin"))
        for name in ("pf-pne", "fed-pne", "pe", "hct", "hct-pyxab")
    ),
    OtherChoice(
        24, "fn-ucb", "theta_0 drifts, as in the public code", "drifting", objectives=("garland", "himmelblau")
    ),
    OtherChoice(26, "blin", "the theory's 16 and 4", settings={"c_pulls": 16.0, "c_gap": 4.0}),
    *(
        OtherChoice(
            26, "fed1-ucb", f"both with noise ±{a:g}: the public code's sigma", noise=a, settings={"sigma": 0.5}
        )
        for a in (0.1, 2.0)
    ),
    OtherChoice(26, "fed1-ucb", "arms in increasing order, not in a random one", "increasing"),
    OtherChoice(26, "fn-ucb", "inputs on [-1, 1]^d over sqrt d", "centred", objectives=("garland", "himmelblau")),
    OtherChoice(26, "fn-ucb", "inputs on [0, 1]^d, not over sqrt d", "undivided", objectives=("himmelblau",)),
    *(  # where PF-PNE is the smallest of the five
        OtherChoice(number, "fn-ucb", f"both with noise ±2: {change}", variant, noise=2.0, objectives=("rastrigin",))
        for number, variant, change in (
            (24, "drifting", "theta_0 drifts"),
            (26, "centred", "inputs on [-1, 1]^d over sqrt d"),
            (26, "undivided", "inputs on [0, 1]^d, not over sqrt d"),
        )
    ),
    OtherChoice(26, "hct-pyxab", "delta = 1/M, as PF-PNE's", settings=lambda M: {"delta": 1 / M}),
)
DEVIATION_COLUMNS = ("deviation", "algorithm", "other_choice", "objective", "runs", "ratio", "low", "high")


def measure_deviations(study: Study) -> pd.DataFrame:
    """Measure every other choice: one row per choice and objective.

    ratio: mean R(T)/M with the other choice over mean R(T)/M with ours; low, high: the ends of its 95 % interval.
    """
    rows = []
    for choice in OTHER_CHOICES:
        for objective in choice.objectives:
            head = (choice.deviation, choice.algorithm, choice.change, objective)
            runs = study.summaries(objective, choice.algorithm, choice.noise, study.figure_runs)
            ours = runs["regret"].to_numpy()
            ratio = stats.ratio_interval(choice.regret(study, objective), ours, stream(study.seed, "deviations", *head))
            rows.append((*head, len(ours), *ratio))
    return pd.DataFrame(rows, columns=DEVIATION_COLUMNS)


def tabulate(study: Study) -> Exhibit:
    """Tabulate the effect of other choices.

    Parameters
    ----------
    study : Study
        The scale of the runs.

    Returns
    -------
    Exhibit
        The table, and the table of `measure_deviations` as CSV.
    """
    table = measure_deviations(study)
    caption = (
        "Mean R(T)/M with another choice over mean R(T)/M with ours, with a bootstrap 95 % interval. "
        f"M = {study.n_clients}, T = {study.horizon:,}, {study.figure_runs} paired runs, Bernoulli rewards unless "
        "another noise is named."
    )
    return table_exhibit("deviations", caption, as_strings(table), {"deviations": table})


def as_strings(table: pd.DataFrame) -> pd.DataFrame:
    """Put the table of `measure_deviations` into strings.

    Parameters
    ----------
    table : pandas.DataFrame
        As `measure_deviations` returns it.

    Returns
    -------
    pandas.DataFrame
        One row per choice, one column per objective.
    """
    names = {"deviation": "#", "algorithm": "Algorithm", "other_choice": "Other choice"}
    strings = table.assign(deviation=table["deviation"].map("*{}*".format), text=table.apply(_ratio_in_words, axis=1))
    strings = strings.set_index([*names, "objective"])["text"].unstack(sort=False, fill_value=DASH)
    return strings[table["objective"].unique()].rename_axis(columns=None).reset_index().rename(columns=names)


def _ratio_in_words(row: pd.Series) -> str:
    if all(f"{row[name]:.6g}" == "1" for name in ("ratio", "low", "high")):  # as the CSV has it
        return "1 in every run"
    return f"{row['ratio']:.3f}" if pd.isna(row["low"]) else "{ratio:.3f} [{low:.3f}, {high:.3f}]".format(**row)
