"""The paper's Table 1, with what is measured beside what it states.

A row an algorithm and objective, one objective of each dimension. Exponents are fitted to each run over six
horizons (or several numbers of clients) and averaged over the runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from pfpne.algorithms import NAMES
from pfpne.paper import stats
from pfpne.paper.claim_tests import DIMENSIONS
from pfpne.paper.evidence import Study
from pfpne.paper.experiment import run_experiment
from pfpne.paper.looks import DASH, label, noise_in_words, title


@dataclass(frozen=True)
class Stated:
    """What the paper's Table 1 states: average regret and communication rounds, in LaTeX, and whether personalized."""

    stated_regret: str = ""
    stated_rounds: str = ""
    personalized: str = ""


_ALONE = r"\widetilde{\mathcal{O}}(T^{(d+1)/(d+2)})"
_TOGETHER = r"\widetilde{\mathcal{O}}(M^{-1/(d+2)} T^{(d+1)/(d+2)})"
STATED = {
    "hoo": Stated(_ALONE, "N.A.", "yes"),
    "blin": Stated(_ALONE, "N.A.", "yes"),
    "centralized": Stated(_TOGETHER, r"\mathcal{O}(MT)", "no"),
    "fed-pne": Stated(_TOGETHER, r"\widetilde{\mathcal{O}}(M \log T)", "no"),
    "pf-pne": Stated(
        r"\widetilde{\mathcal{O}}(M^{-1/(d+2)} T^{(d+1)/(d+2)} + T^{(d_{\mathrm{new}}+1)/(d_{\mathrm{new}}+2)})",
        r"\widetilde{\mathcal{O}}(M \log T)",
        "yes",
    ),
}
SYSTEMS = (*STATED, *(name for name in NAMES if name not in STATED))  # the paper's, then ours

# FN-UCB's choices do not depend on the horizon: its regret at a shorter one is read off the curves of the longest, as
# running it again would take longer than everything else.
ANYTIME = ("fn-ucb",)


def table1(study: Study) -> pd.DataFrame:
    """Table 1: a row an algorithm and objective, under the profile's first noise, means over n runs.

    algorithm, stated_regret, stated_rounds, personalized ("" for ours); objective, noise, n; local_slope and
    global_slope, the exponents of T in R(T)/M and in the global regret, with their standard errors *_se; rounds and
    numbers of communication at the longest T; rounds_per_doubling of T; numbers_slope_T, rounds_slope_M,
    numbers_slope_M, exponents of T and M. nan: no communication to fit, or a single run or horizon.
    """
    return pd.DataFrame([_row(study, name, objective) for name in SYSTEMS for objective in DIMENSIONS])


def _row(study: Study, name: str, objective: str) -> dict:
    T, noise, n = study.horizons, study.regimes[0].noise, study.figure_runs
    measure = _read_off if name in ANYTIME else _run_again
    local, shared, rounds, numbers = measure(study, objective, name, noise, n)
    local_slopes, global_slopes = stats.power(T, local), stats.power(T, shared)
    talks = rounds[:, -1].min() > 0
    M_rounds, M_numbers = _against_M(study, objective, name, noise, n) if talks else (np.nan, np.nan)
    return {
        "algorithm": name,
        **asdict(STATED.get(name, Stated())),
        "objective": objective,
        "noise": noise,
        "n": n,
        "local_slope": local_slopes.mean(),
        "local_slope_se": stats.standard_error(local_slopes),
        "global_slope": global_slopes.mean(),
        "global_slope_se": stats.standard_error(global_slopes),
        "rounds": rounds[:, -1].mean(),
        "numbers": numbers[:, -1].mean(),
        "rounds_per_doubling": (rounds[:, -1] - rounds[:, -2]).mean() if talks and len(T) > 1 else np.nan,
        "numbers_slope_T": stats.power(T, numbers).mean(),
        "rounds_slope_M": M_rounds,
        "numbers_slope_M": M_numbers,
    }


def _run_again(study: Study, objective: str, name: str, noise, n: int) -> tuple[np.ndarray, ...]:
    """Local and global regret, rounds and numbers, each (n, horizons), from a run to each horizon."""
    tables = [study.summary(objective, name, noise, n, horizon=T, global_regret=True) for T in study.horizons]
    return tuple(np.stack([t[c] for t in tables], axis=1) for c in ("regret", "global_regret", "rounds", "numbers"))


def _read_off(study: Study, objective: str, name: str, noise, n: int) -> tuple[np.ndarray, ...]:
    """The same from the curves of the runs to the longest horizon."""
    experiment = study.experiment(objective, (name,), noise, n, global_regret=True)
    runs = run_experiment(experiment, n_jobs=study.n_jobs, folder=study.folder).runs.values()
    T = np.array(study.horizons)
    local = np.stack([np.interp(T, run.t, run.regret.mean(axis=0)) for run in runs])
    shared = np.stack([np.interp(T, run.t, run.global_regret.mean(axis=0)) for run in runs])
    so_far = [run.communication["t"].to_numpy() <= T[:, None] for run in runs]
    numbers = [(run.communication["numbers up"] + run.communication["numbers down"]).to_numpy() for run in runs]
    rounds = np.stack([at.sum(axis=1) for at in so_far])
    return local, shared, rounds, np.stack([at @ x for at, x in zip(so_far, numbers, strict=True)])


def _against_M(study: Study, objective: str, name: str, noise, n: int) -> tuple[float, float]:
    """The exponents of M in rounds and numbers, from M/4 to 2M clients at an eighth of the horizon; nan if any is 0."""
    clients, T = study.clients[:-1], max(1, study.horizon >> 3)
    tables = [study.summary(objective, name, noise, n, horizon=T, n_clients=M) for M in clients]
    rounds, numbers = (np.stack([t[c] for t in tables], axis=1) for c in ("rounds", "numbers"))
    return stats.power(clients, rounds).mean(), stats.power(clients, numbers).mean()


# --- as it is shown ---------------------------------------------------------------------------------


def caption(study: Study) -> str:
    horizons = ", ".join(f"{T:,}" for T in study.horizons)
    clients = ", ".join(map(str, study.clients[:-1]))
    noise = noise_in_words(study.regimes[0].noise).capitalize()
    return (
        "The paper's Table 1 (average regret, communication rounds and whether the local objectives are optimized, as "
        "it states them, for one near-optimality dimension d of all objectives; a dash for systems that are not in it; "
        "an asterisk where it calls the comparison not completely fair, as the server sees everything or the global "
        "objective is optimized), and what is measured: exponents of T over "
        f"T = {horizons}, with M = {study.n_clients} clients, fitted to each "
        f"run and averaged over n = {study.figure_runs} runs "
        "(in brackets the standard error over the runs, which knows nothing of how well a power law fits); rounds "
        "(exchanges between the server and all clients; the paper counts each M times) and numbers carried at "
        f"T = {study.horizon:,}, the rounds that the last doubling of T added, and exponents of M over "
        f"M = {clients} at T = {max(1, study.horizon >> 3):,}. {noise}. FN-UCB's are read off its curves. "
        "Blank: nothing is communicated, at one of these T or M at least."
    )


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table in strings, formulas in LaTeX, a pair (group or "", heading) a column."""
    first = table["objective"] == table["objective"].iloc[0]  # the rows that name their system
    of_system = {
        "System": table["algorithm"].map(label) + np.where(table["personalized"] == "no", "*", ""),
        "Average regret (paper)": table["stated_regret"].map(_formula),
        "Rounds (paper)": table["stated_rounds"].map(_formula),
        "Personalized": table["personalized"].replace("", DASH),
    }
    measured = {
        ("Exponent of T in regret", "local"): _with_errors(table, "local_slope"),
        ("Exponent of T in regret", "global"): _with_errors(table, "global_slope"),
        ("Rounds", "at T"): table["rounds"].map("{:,.0f}".format),
        ("Rounds", "per doubling of T"): table["rounds_per_doubling"].map(_decimal),
        ("Rounds", "exponent of M"): table["rounds_slope_M"].map(_decimal),
        ("Numbers", "at T"): table["numbers"].map("{:,.0f}".format),
        ("Numbers", "exponent of T"): table["numbers_slope_T"].map(_decimal),
        ("Numbers", "exponent of M"): table["numbers_slope_M"].map(_decimal),
    }
    names = {("", heading): column.where(first, "") for heading, column in of_system.items()}
    return pd.DataFrame({**names, ("", "Objective"): table["objective"].map(title), **measured})


def _formula(stated: str) -> str:
    return f"${stated}$" if stated.startswith("\\") else stated or DASH


def _with_errors(table: pd.DataFrame, column: str) -> list[str]:
    pairs = zip(table[column], table[f"{column}_se"], strict=True)
    return [f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ({error:.3f})" for mean, error in pairs]


def _decimal(x: float) -> str:
    return "" if np.isnan(x) else f"{x:,.0f}" if abs(x) >= 100 else f"{0.0 + round(x, 2):.2f}"
