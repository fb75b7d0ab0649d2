"""The growth of regret with T (Corollary 3.1), and Fed-PNE's speed against single-client searches (Section A.1)."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import IDENTICAL_CLIENT_CHANGES, Study
from pfpne.paper.claims.outcomes import long_last_phase_reason
from pfpne.paper.claims.verdicts import OPEN, REFUTED, SHOWN
from pfpne.paper.claims.watching import watch
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.rows import rows_of_runs
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.rng import stream

SHRINKING_DELTA_OBJECTIVES = ("garland", "himmelblau")
SHRINKING_DELTA_NOISES = ("bernoulli", 1.0)
SHIFT_FACTORS = 3.0 ** -np.arange(7)  # times the profile's shift: the shifts at which the clients' Delta is measured


def bound_on_Delta(T: int, M: int, d: float) -> float:
    """Return (log(MT) / T)^(1 / (d + 2)), d = max(d_min, d_new): Corollary 3.1 bounds Delta by a multiple of it."""
    return (math.log(M * T) / T) ** (1 / (d + 2))


def _Delta_of(experiment: Experiment, run: int) -> list[list]:
    return [[experiment.problem(run).Delta]]


def shifts_for(objective: str, d: float, horizons, p: Parameters, folder: Path = RESULTS_FOLDER) -> dict[int, float]:
    """A shift for each T, such that the clients' mean Delta is proportional to `bound_on_Delta`.

    At the smallest T the shift is p.shift. Shifts are interpolated log-linearly between a few measured ones; if the
    clients do not differ, all are p.shift.
    """
    shifts = p.shift * SHIFT_FACTORS
    experiments = [p.experiment(objective, "bernoulli", ("pf-pne",), shift=shift, cells="random") for shift in shifts]
    Deltas = np.array(rows_of_runs(_Delta_of, experiments, p.n_jobs, folder)).reshape(len(shifts), -1).mean(axis=1)
    if not (Deltas > 0).all():
        return dict.fromkeys(horizons, p.shift)
    first = bound_on_Delta(horizons[0], p.n_clients, d)
    wanted = [Deltas[0] * bound_on_Delta(T, p.n_clients, d) / first for T in horizons]
    order = np.argsort(Deltas)
    interpolated = np.exp(np.interp(np.log(wanted), np.log(Deltas[order]), np.log(shifts[order])))
    return dict(zip(horizons, map(float, interpolated), strict=True))


def measure_shrinking_Delta(problems: pd.DataFrame, p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """One row per objective, noise, T and run: d, shift, Delta and R(T)/M of pf-pne (given the true Delta) and of pe.

    The shifts, and with them Delta, shrink as T grows: see `shifts_for`. Delta_over_bound: Delta over `bound_on_Delta`.

    problems: the first table of pfpne.paper.exhibits.assumptions.measure_assumptions. d is the median of max(d_min,
    d_new) over its rows with the shift nearest to p.shift.
    """
    study = Study(p.n_clients, p.horizon, p.n_runs, p.n_runs, (), p.shift, p.seed, p.n_jobs, folder)
    parts = []
    for objective in SHRINKING_DELTA_OBJECTIVES:
        rows = problems[(problems["objective"] == objective) & (problems["cells"] == "random")]
        rows = rows[rows["shift"] == rows["shift"].iloc[(rows["shift"] - p.shift).abs().argmin()]]
        d = float(rows[["d_min", "d_new"]].max(axis=1).median())
        d = 0.0 if math.isnan(d) else round(d, 2)  # nan where a profile has too few depths
        shifts = shifts_for(objective, d, study.horizons, p, folder)
        for noise, T in itertools.product(SHRINKING_DELTA_NOISES, study.horizons):
            changes = {"horizon": T, "shift": shifts[T]}
            ours = study.summaries(objective, "pf-pne", noise, settings={"Delta": "true"}, **changes)
            alone = study.summaries(objective, "pe", noise, **changes)
            part = ours[["run", "Delta", "regret"]].assign(alone=alone["regret"])
            part["last_phase_share"], part["alone_last_phase_share"] = (
                ours["last_phase_share"],
                alone["last_phase_share"],
            )
            part["Delta_over_bound"] = part["Delta"] / bound_on_Delta(T, p.n_clients, d)
            parts.append(part.assign(objective=objective, noise=noise, d=d, T=T, shift=shifts[T]))
    columns = ["objective", "noise", "d", "T", "shift", "run", "Delta", "Delta_over_bound"]
    columns += ["regret", "last_phase_share", "alone", "alone_last_phase_share"]
    return pd.concat(parts, ignore_index=True)[columns]


def exponents_with_shrinking_Delta(shrinking: pd.DataFrame, p: Parameters) -> pd.DataFrame:
    """One row per objective and noise: the exponent of T that Corollary 3.1 allows, and the measured one.

    allowed: the exponent of (T log(MT))^((d+1)/(d+2)) over the same T, so the logarithm is included. constant: the
    smallest C_3 for which the corollary's condition on Delta holds in all runs. verdict: shown if the interval of the
    measured exponent is at most `allowed` and no truncated phase takes more than half of T; else open. Even an exponent
    above `allowed` is open, because the corollary's other premises (smoothness, c >= 2) do not hold in these runs.
    """
    rows = []
    for (objective, noise), group in shrinking.groupby(["objective", "noise"], sort=False):
        horizons, d = np.sort(group["T"].unique()), group["d"].iloc[0]
        allowed = stats.growth_exponents(
            horizons, ((horizons * np.log(p.n_clients * horizons)) ** ((d + 1) / (d + 2)))[None]
        )[0]
        row = {
            "objective": objective,
            "noise": noise,
            "d": d,
            "first_Delta": group["Delta"][group["T"] == horizons[0]],
        }
        row["last_Delta"] = group["Delta"][group["T"] == horizons[-1]]
        row = {name: value.mean() if isinstance(value, pd.Series) else value for name, value in row.items()}
        row |= {"constant": group["Delta_over_bound"].max(), "allowed": allowed}
        for name, column in (("", "regret"), ("alone_", "alone")):
            slopes = stats.growth_exponents(horizons, group.pivot(index="run", columns="T", values=column).to_numpy())
            low, high = stats.mean_interval(slopes, stream(p.seed, "corollary", objective, str(noise), column))
            row |= {f"{name}slope": slopes.mean(), f"{name}low": low, f"{name}high": high}
        means = group.groupby("T")[["regret", "alone"]].mean()
        ratio = means["regret"] / means["alone"]
        row |= {"first_ratio": ratio.iloc[0], "last_ratio": ratio.iloc[-1]}
        row["undecidable_reason"] = long_last_phase_reason(group["last_phase_share"][group["T"] == horizons[-1]])
        below = row["high"] <= allowed and not row["undecidable_reason"]
        rows.append(row | {"verdict": SHOWN if below else OPEN})
    return pd.DataFrame(rows)


CLIENT_CHANGES = {"identical": IDENTICAL_CLIENT_CHANGES, "shifted": {}}
SINGLE_CLIENT_SEARCHES = ("pe", "hct")


def _budget_shares(experiment: Experiment, run: int) -> list[list]:
    """Watch a run of fed-pne; return one row: two shares of T, and the last finished depth.

    The first share goes to rounding tau_h / M up to whole pulls, the second to all finished phases.
    """
    problem = experiment.problem(run)
    partition = experiment.partition(run)
    watched = watch("fed-pne", problem, experiment.horizon, partition=partition)
    s, M = watched.server.settings, problem.n_clients
    drawn = {h: means.shape[1] * watched.server.n_samples(h) for h, means in watched.means.items()}
    wanted = {
        h: means.shape[1] * s.tau_at(h, s.log_term_for(experiment.horizon, M)) for h, means in watched.means.items()
    }
    budget = M * experiment.horizon
    return [
        [(sum(drawn.values()) - sum(wanted.values())) / budget, sum(drawn.values()) / budget, max(drawn, default=0)]
    ]


def compare_speed(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """One row per objective, kind of clients and single-client search: R(T)/M of fed-pne over R(T)/M of the search.

    Rewards are Bernoulli. rounding_excess: the share of T that fed-pne draws beyond tau_h, since M ceil(tau_h / M) >=
    tau_h. spent: the share of T in finished phases. depth: the last finished depth, mean over runs. verdict: the
    verdict on "Fed-PNE is faster".
    """
    study = Study(p.n_clients, p.horizon, p.n_runs, p.n_runs, (), p.shift, p.seed, p.n_jobs, folder)
    rows = []
    for objective, (clients, changes) in itertools.product(ONE_PER_DIMENSION, CLIENT_CHANGES.items()):
        experiment = study.experiment(objective, "fed-pne", "bernoulli", **changes)
        spent = np.array(rows_of_runs(_budget_shares, [experiment], p.n_jobs, folder)).reshape(-1, 3).mean(axis=0)
        ours = study.summaries(objective, "fed-pne", "bernoulli", **changes)["regret"].to_numpy()
        for rival in SINGLE_CLIENT_SEARCHES:
            theirs = study.summaries(objective, rival, "bernoulli", **changes)["regret"].to_numpy()
            rng = stream(p.seed, "speed", objective, clients, rival)
            ratio, low, high = stats.ratio_interval(ours, theirs, rng)
            verdict = SHOWN if high < 1 else REFUTED if low > 1 else OPEN
            head = {"objective": objective, "clients": clients, "rival": rival, "runs": len(ours)}
            measured = {"ratio": ratio, "low": low, "high": high, "verdict": verdict}
            rows.append(head | measured | dict(zip(("rounding_excess", "spent", "depth"), spent, strict=True)))
    return pd.DataFrame(rows)
