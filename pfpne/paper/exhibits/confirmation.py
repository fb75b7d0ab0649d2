"""The statements of the paper about its figures, tested under one reading, on seeds that the search has not seen."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.paper.claims import stats
from pfpne.paper.claims.claim_tests import has_stopped_communicating, is_still_communicating
from pfpne.paper.claims.evidence import summarize
from pfpne.paper.claims.verdicts import decide_by_holm
from pfpne.paper.exhibits.readings import (
    COUNTED_KINDS,
    IDENTICAL_FED_PNE,
    STATEMENTS,
    MeasuredRuns,
    Reading,
    Statement,
    measure_stored,
    unknown_kind,
)
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.profiles import PROFILES, READING_PRESETS
from pfpne.paper.run.workers import run_in_order
from pfpne.paper.show.style import label
from pfpne.rng import stream

CONFIRMATION_SEED = 0  # the seed of the figures and of the confirmation; the search has another
MOVED_SETTINGS = {  # for the statement on tuning: each setting is moved alone, to these values
    "nu_1": (0.5, 2.0),
    "rho": (0.4, 0.6),
    "c": (0.05, 0.2),
    "c_1": (0.5, 2.0),
    "Delta": (0.005, 0.02),
}
# The choices about algorithms of the two named readings that are not the first value. Of the readings under which the
# most statements hold, "printed" is the simplest: besides noise and T, it chooses Fed-PNE's competitors alone.
NAMED_ALGORITHM_CHOICES = {"printed": {"competitors": "Fed1-UCB, FN-UCB"}, "model": {}}


def complete_reading(name: str, profile: str) -> Reading:
    """Make a named reading complete: a value for each choice, at the scale of a profile.

    Parameters
    ----------
    name : str
        "printed" or "model".
    profile : str
        A key of pfpne.paper.run.profiles.PROFILES.

    Returns
    -------
    Reading
        The named reading's own values, and for each other choice its first value.
    """
    preset, profile_values = READING_PRESETS[name], PROFILES[profile]
    noise = preset.noises[0]
    return Reading(
        noise,
        T=preset.horizon if profile == "paper" else profile_values.horizon,
        M=profile_values.n_clients,
        problem_choices={} if preset.landmine_noise == noise else {"landmine's noise": "none"},
        algorithm_choices=NAMED_ALGORITHM_CHOICES[name],
    )


def confirm(reading: Reading, n_runs: int, n_jobs=None, bar=None, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Test every statement under a reading, on paired runs with another seed than the search's.

    Parameters
    ----------
    reading : Reading
        The reading.
    n_runs : int
        The number of paired runs.
    n_jobs : int or str, optional
        Workers, as in pfpne.paper.run.workers.run_in_order.
    bar : callable, optional
        bar(done, total) is called as runs finish.
    folder : Path
        The folder of stored runs and measurements.

    Returns
    -------
    pandas.DataFrame
        One row per statement and comparison: id, objective, what (the name of the comparison), n, ratio (of means) with
        its 95 % bootstrap interval low, high, wins (the number of runs in which the comparison is as stated), p_right
        and p_wrong (p-values under the nulls "it is false" and "it is true", by sign-flip tests of the paired
        differences, not corrected), last_phase_share (the mean share of T in the last phase of the measured algorithm,
        if that is PF-PNE or Fed-PNE), other_last_phase_share (this share for the algorithm that it is compared with).
    """
    jobs = {}
    for statement in STATEMENTS:
        for name in _compared_algorithms(statement, reading):
            for run in range(n_runs):
                experiment = reading.experiment(statement.objective, name, CONFIRMATION_SEED, n_runs)
                jobs[statement.objective, name, run] = experiment, run, reading.variant(name), (reading.T,), folder
    order = sorted(jobs, key=lambda job: job[1] not in ("fn-ucb", "hct-pyxab"))  # the long ones first
    measured = run_in_order(measure_stored, [jobs[job] for job in order], n_jobs, bar)
    values = {job: at_horizons[0] for job, at_horizons in zip(order, measured, strict=True)}

    def measured_of(objective: str, name: str) -> MeasuredRuns:
        return MeasuredRuns.from_rows([values[objective, name, run] for run in range(n_runs)])

    rows = []
    for statement in STATEMENTS:
        rows += _compare(statement, reading, measured_of, n_runs, n_jobs, folder)
    return pd.DataFrame(rows)


def _compared_algorithms(statement: Statement, reading: Reading) -> list[str]:
    """The algorithms whose runs a statement compares."""
    if statement.kind == "ratio":
        return [statement.numerator, *statement.rivals(reading)]
    names = {"grows": ["fed-pne", "pf-pne"], "stops": ["pf-pne"], "difference": [], "settings": [], "global": []}
    if statement.kind not in names:
        raise unknown_kind(statement, "_compared_algorithms in confirmation.py")
    return names[statement.kind]


def _measured_algorithm(statement: Statement) -> str:
    """The algorithm whose regret a statement is about."""
    names = {"ratio": statement.numerator, "settings": "pf-pne", "global": "fed-pne"}
    if statement.kind not in names:
        raise unknown_kind(statement, "_measured_algorithm in confirmation.py")
    return names[statement.kind]


def _compare(statement: Statement, reading: Reading, measured_of, n_runs: int, n_jobs, folder: Path) -> list[dict]:
    """The rows of one statement: one per comparison."""
    head = {"id": statement.id, "objective": statement.objective}
    if statement.kind in COUNTED_KINDS:
        as_stated, value = _count(statement, reading, measured_of, n_runs)
        row = {"what": statement.kind, "n": n_runs, "ratio": value, "wins": int(np.sum(as_stated))}
        is_shown = all(as_stated)
        return [{**head, **row, "p_right": 0.0 if is_shown else 1.0, "p_wrong": 1.0 if is_shown else 0.0}]
    pairs = _pairs(statement, reading, measured_of, n_runs, n_jobs, folder)
    share_of = functools.partial(_last_phase_share, statement.objective, reading, n_runs, n_jobs, folder)
    algorithm = _measured_algorithm(statement)
    others = statement.rivals(reading) if statement.kind == "ratio" else [algorithm] * len(pairs)
    rows = []
    for (name, a, b), other in zip(pairs, others, strict=True):
        rng = stream(CONFIRMATION_SEED, "statements", statement.id, name)
        ratio, low, high = stats.ratio_interval(a, b, rng)
        violations = [a - statement.below * b] if statement.below is not None else []
        violations += [statement.above * b - a] if statement.above is not None else []
        p = np.array([stats.sign_flip(violation, rng) for violation in violations])
        row = {"what": name, "n": n_runs, "ratio": ratio, "low": low, "high": high}
        row |= {"wins": int(np.all([violation < 0 for violation in violations], axis=0).sum())}
        p_right, p_wrong = stats.combine_p_values(p)
        row |= {"p_right": p_right, "p_wrong": p_wrong}
        row |= {"last_phase_share": share_of(algorithm), "other_last_phase_share": share_of(other)}
        rows.append(head | row)
    return rows


def _count(statement: Statement, reading: Reading, measured_of, n_runs: int) -> tuple[list[bool], float]:
    """(whether each run is as stated; the mean value to show) for a statement of one of COUNTED_KINDS."""
    if statement.kind == "difference":
        pair = (
            reading.experiment(f, "pf-pne", CONFIRMATION_SEED, n_runs) for f in (statement.objective, statement.than)
        )
        own, other = (np.array([e.problem(run).Delta for run in range(n_runs)]) for e in pair)
        return list(own > other), float(own.mean() / other.mean())
    pf = measured_of(statement.objective, "pf-pne")
    if statement.kind == "grows":
        fed = measured_of(statement.objective, "fed-pne")
        goes_on = is_still_communicating(fed.last_round_step, pf.last_round_step, reading.T)
        return list(goes_on), float(fed.last_round_step.mean() / reading.T)
    if statement.kind != "stops":
        raise unknown_kind(statement, "_count in confirmation.py")
    ended = has_stopped_communicating(pf.n_rounds, pf.last_round_step, reading["H_0"], reading.T)
    return list(ended), float(pf.last_round_step.mean() / reading.T)


def _pairs(statement: Statement, reading: Reading, measured_of, n_runs: int, n_jobs, folder: Path) -> list[tuple]:
    """(name, a, b) of each comparison of a statement: paired regrets (n,) whose ratio a / b is bounded."""
    if statement.kind == "ratio":
        a = measured_of(statement.objective, statement.numerator).regret
        regrets = {name: measured_of(statement.objective, name).regret for name in statement.rivals(reading)}
        return [(f"{_label(statement.numerator)} / {_label(name)}", a, b) for name, b in regrets.items()]
    experiment = reading.experiment(statement.objective, _measured_algorithm(statement), CONFIRMATION_SEED, n_runs)
    if statement.kind == "global":
        rows = summarize(replace(experiment, global_regret=True), n_jobs, folder)
        return [("global / local", rows["global_regret"].to_numpy(), rows["regret"].to_numpy())]
    if statement.kind != "settings":
        raise unknown_kind(statement, "_pairs in confirmation.py")
    unmoved = summarize(experiment, n_jobs, folder)["regret"].to_numpy()
    moved = [(setting, value) for setting, values in MOVED_SETTINGS.items() for value in values]
    return [
        (
            f"{setting} = {value:g}",
            summarize(replace(experiment, settings={setting: value}), n_jobs, folder)["regret"].to_numpy(),
            unmoved,
        )
        for setting, value in moved
    ]


def _last_phase_share(objective: str, reading: Reading, n_runs: int, n_jobs, folder: Path, name: str) -> float:
    """The mean share of T in the last phase of PF-PNE or Fed-PNE, which T truncates; 0 for the other algorithms."""
    if name not in ("pf-pne", "fed-pne", IDENTICAL_FED_PNE):
        return 0.0
    runs = summarize(reading.experiment(objective, name, CONFIRMATION_SEED, n_runs), n_jobs, folder)
    return float(runs["last_phase_share"].mean())


def _label(name: str) -> str:
    return "Fed-PNE with identical clients" if name == IDENTICAL_FED_PNE else label(name)


def decide_statements(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Decide each statement: shown, refuted or open, by `decide_by_holm` over the statements of a reading.

    A statement is shown if all its comparisons are, and refuted if one of them is. If its subject spends more than half
    of T in its last phase, a ratio says more about T than about the algorithms, and the statement is open.

    Parameters
    ----------
    comparisons : pandas.DataFrame
        As `confirm` returns them.

    Returns
    -------
    pandas.DataFrame
        One row per statement, with the comparison that is furthest from the statement. other_last_phase_share: the
        largest share of T in the last phase of an algorithm that the subject is compared with, which the rule ignores.
        by_design: whether the definitions allow no other outcome; such a statement is shown, and counted apart.
    """
    rows = []
    for statement in STATEMENTS:
        rows_of_one = comparisons[comparisons["id"] == statement.id]
        worst = rows_of_one.loc[_distance(rows_of_one["ratio"], statement).idxmax()]
        p_right, p_wrong = stats.combine_p_values(rows_of_one[["p_right", "p_wrong"]].to_numpy())
        row = {"id": statement.id, "objective": statement.objective, "what": worst["what"], "n": int(worst["n"])}
        row |= {name: worst.get(name) for name in ("ratio", "low", "high", "wins", "last_phase_share")}
        other_shares = rows_of_one.get("other_last_phase_share", pd.Series(0.0))
        row |= {"other_last_phase_share": other_shares.max(), "by_design": statement.by_design}
        rows.append(row | {"p_right": p_right, "p_wrong": p_wrong})
    return decide_by_holm(pd.DataFrame(rows))


def _distance(ratio: pd.Series, statement: Statement) -> pd.Series:
    """The violation of a statement's bound by a ratio, on a log scale; the largest is the comparison that decides."""
    if statement.below is None and statement.above is None:
        return ratio * 0
    above = np.log(ratio / statement.below) if statement.below is not None else -np.inf
    below = np.log(statement.above / ratio) if statement.above is not None else -np.inf
    return pd.Series(np.maximum(above, below), index=ratio.index)
