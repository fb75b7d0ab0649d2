"""The paper's Table 1, with what is measured beside what it states."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from pfpne.algorithms import NAMES
from pfpne.paper import stats
from pfpne.paper.claim_tests import DIMENSIONS
from pfpne.paper.evidence import Study
from pfpne.paper.experiment import run_experiment
from pfpne.paper.looks import DASH, label, noise_in_words, title


class Stated(NamedTuple):
    """What the paper's Table 1 states: average regret and communication rounds, in LaTeX, and whether personalized."""

    stated_regret: str = ""
    stated_rounds: str = ""
    personalized: str = ""


_ALONE = r"\widetilde{\mathcal{O}}(T^{(d+1)/(d+2)})"
_TOGETHER = r"\widetilde{\mathcal{O}}(M^{-1/(d+2)} T^{(d+1)/(d+2)})"
_BOTH = r"\widetilde{\mathcal{O}}(M^{-1/(d+2)} T^{(d+1)/(d+2)} + T^{(d_{\mathrm{new}}+1)/(d_{\mathrm{new}}+2)})"
_PHASES = r"\widetilde{\mathcal{O}}(M \log T)"
STATED = {
    "hoo": Stated(_ALONE, "N.A.", "yes"),
    "blin": Stated(_ALONE, "N.A.", "yes"),
    "centralized": Stated(_TOGETHER, r"\mathcal{O}(MT)", "no"),
    "fed-pne": Stated(_TOGETHER, _PHASES, "no"),
    "pf-pne": Stated(_BOTH, _PHASES, "yes"),
}

# FN-UCB's choices do not depend on the horizon: its regret at a shorter one is read off the curves of the longest, as
# running it again would take longer than everything else.
ANYTIME = ("fn-ucb",)


def table1(study: Study) -> pd.DataFrame:
    """Table 1: a row an algorithm (the paper's, then ours) and objective, one of each dimension.

    Means over n runs, under the profile's first noise; exponents are fitted to each run and averaged. algorithm,
    stated_regret, stated_rounds, personalized ("" for ours); objective, noise, n; local_slope and global_slope, the
    exponents of T in R(T)/M and in the global regret, with their standard errors *_se; rounds and numbers of
    communication at the longest T; rounds_per_doubling of T; numbers_slope_T, rounds_slope_M, numbers_slope_M,
    exponents of T and M. nan: no communication to fit, or a single run or horizon.
    """
    names = dict.fromkeys([*STATED, *NAMES])
    return pd.DataFrame([_row(study, name, objective) for name in names for objective in DIMENSIONS])


def _row(study: Study, name: str, objective: str) -> dict:
    horizons = study.horizons
    each = [{"horizon": T, "global_regret": True} for T in horizons]
    measured = _read_off(study, objective, name) if name in ANYTIME else _again(study, objective, name, each)
    row = {"algorithm": name, **STATED.get(name, Stated())._asdict()}
    row |= {"objective": objective, "noise": study.regimes[0].noise, "n": study.figure_runs}
    for kind in ("local", "global"):
        slopes = stats.power(horizons, measured[kind])
        row |= {f"{kind}_slope": slopes.mean(), f"{kind}_slope_se": stats.standard_error(slopes)}
    rounds, numbers = measured["rounds"], measured["numbers"]
    row |= {"rounds": rounds[:, -1].mean(), "numbers": numbers[:, -1].mean()}
    talks = rounds[:, -1].min() > 0
    row["rounds_per_doubling"] = (rounds[:, -1] - rounds[:, -2]).mean() if talks and len(horizons) > 1 else np.nan
    row["numbers_slope_T"] = stats.power(horizons, numbers).mean()
    clients, T = _on_M(study)
    again = _again(study, objective, name, [{"horizon": T, "n_clients": M} for M in clients]) if talks else {}
    for what in ("rounds", "numbers"):
        row[f"{what}_slope_M"] = stats.power(clients, again[what]).mean() if talks else np.nan
    return row


def _on_M(study: Study) -> tuple[tuple[int, ...], int]:
    """The M and the T that the exponents of M are fitted over: M/4 to 2M clients, an eighth of the horizon."""
    return study.clients[:-1], max(1, study.horizon >> 3)


def _again(study: Study, objective: str, name: str, each: list[dict]) -> dict[str, np.ndarray]:
    """Local and global regret, rounds and numbers, (n, k), of runs with each of k changes to the study's scale."""
    noise, n = study.regimes[0].noise, study.figure_runs
    tables = [study.summary(objective, name, noise, n, **changes) for changes in each]
    columns = {"local": "regret", "global": "global_regret", "rounds": "rounds", "numbers": "numbers"}
    return {kind: np.stack([table[column] for table in tables], axis=1) for kind, column in columns.items()}


def _read_off(study: Study, objective: str, name: str) -> dict[str, np.ndarray]:
    """The same at each horizon, from the curves of the runs to the longest."""
    noise, n, T = study.regimes[0].noise, study.figure_runs, np.array(study.horizons)
    experiment = study.experiment(objective, (name,), noise, n, global_regret=True)
    rows = []
    for run in run_experiment(experiment, n_jobs=study.n_jobs, folder=study.folder).runs.values():
        so_far = run.communication["t"].to_numpy() <= T[:, None]
        numbers = (run.communication["numbers up"] + run.communication["numbers down"]).to_numpy()
        local, shared = (np.interp(T, run.t, curves.mean(axis=0)) for curves in (run.regret, run.global_regret))
        rows.append({"local": local, "global": shared, "rounds": so_far.sum(axis=1), "numbers": so_far @ numbers})
    return {kind: np.stack([row[kind] for row in rows]) for kind in rows[0]}


def caption(study: Study) -> str:
    M, T = _on_M(study)
    return (
        "The paper's Table 1 (average regret, communication rounds and whether the local objectives are optimized, as "
        "it states them, for one near-optimality dimension d of all objectives; a dash for systems that are not in it; "
        "an asterisk where it calls the comparison not completely fair, as the server sees everything or the global "
        "objective is optimized), and what is measured: exponents of T over "
        f"T = {', '.join(map('{:,}'.format, study.horizons))}, with M = {study.n_clients} clients, fitted to "
        f"each run and averaged over n = {study.figure_runs} runs (in brackets the standard error over the runs, "
        "which knows nothing of how well a power law fits); rounds (exchanges between the server and all clients; the "
        f"paper counts each M times) and numbers carried at T = {study.horizon:,}, the rounds that the last "
        f"doubling of T added, and exponents of M over M = {', '.join(map(str, M))} at T = {T:,}. "
        f"{noise_in_words(study.regimes[0].noise).capitalize()}. FN-UCB's are read off its curves. "
        "Blank: nothing is communicated, at one of these T or M at least."
    )


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table in strings, formulas in LaTeX, a pair (group or "", heading) a column."""
    stated = table[list(Stated._fields)].map(lambda x: f"${x}$" if x.startswith("\\") else x or DASH)
    stated.insert(0, "system", table["algorithm"].map(label) + np.where(table["personalized"] == "no", "*", ""))
    stated[table["objective"] != table["objective"].iloc[0]] = ""  # the first row of a system names it
    headings = ("System", "Average regret (paper)", "Rounds (paper)", "Personalized")
    columns = {("", heading): stated[name] for heading, name in zip(headings, stated, strict=True)}
    columns["", "Objective"] = table["objective"].map(title)
    for kind in ("local", "global"):
        pairs = zip(table[f"{kind}_slope"], table[f"{kind}_slope_se"], strict=True)
        cells = [f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ({error:.3f})" for mean, error in pairs]
        columns["Exponent of T in regret", kind] = cells
    for group, heading, name, cell in (
        ("Rounds", "at T", "rounds", "{:,.0f}".format),
        ("Rounds", "per doubling of T", "rounds_per_doubling", _decimal),
        ("Rounds", "exponent of M", "rounds_slope_M", _decimal),
        ("Numbers", "at T", "numbers", "{:,.0f}".format),
        ("Numbers", "exponent of T", "numbers_slope_T", _decimal),
        ("Numbers", "exponent of M", "numbers_slope_M", _decimal),
    ):
        columns[group, heading] = table[name].map(cell)
    return pd.DataFrame(columns)


def _decimal(x: float) -> str:
    return "" if np.isnan(x) else f"{x:,.0f}" if abs(x) >= 100 else f"{0.0 + round(x, 2):.2f}"
