"""Lemmas A.3 and A.4 in runs: the distance of the kept nodes from the optimum.

The second part is a problem of our own that satisfies every premise of Lemma A.4, but PF-PNE loses a client's optimum.
"""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms.pf_pne import PFPNESettings, half_width
from pfpne.paper.claims.assumption_checks import cells_on_path
from pfpne.paper.claims.outcomes import theory_settings
from pfpne.paper.claims.verdicts import OPEN, REFUTED, SHOWN
from pfpne.paper.claims.watching import nodes_before_elimination, watch
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.rows import rows_of_runs
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.partition import Partition
from pfpne.problems import Problem, problem_from_functions
from pfpne.simulation.simulate import simulate

FACTORS = {"A.3": 6, "A.4": 11}  # lemma -> the factor of nu_1 rho^h in its bound; Lemma A.4 adds Delta
NODE_COLUMNS = {  # for one lemma at one depth of one run
    "lemma": "A.3 or A.4",
    "depth": "h",
    "bound": "the largest distance from the optimum that the lemma allows a kept node",
    "kept": "nodes that are kept (A.4: by each client beside those that the server keeps, all clients together)",
    "within": "those of them that satisfy the bound",
    "worst": "the largest distance from the optimum among them",
    "good": "whether every mean that decided so far is within its half-width (the event of Lemma A.2)",
    "smooth": "whether the cells down to h that hold an optimum have a centre within nu_1 rho^h of it (Assumption 2)",
    "valid": "whether Delta bounds the clients' differences (Assumption 3); Lemma A.3 does not need it",
}
HOLDS, HOLDS_ANYWAY = "holds, premises hold", "holds, a premise fails"
EXCUSED, REFUTING = "fails, a premise fails", "fails, premises hold"
VACUOUS = "the bound is 1 or more"  # no value in [0, 1] is so far from another
LEMMA_CASES = (HOLDS, HOLDS_ANYWAY, EXCUSED, REFUTING, VACUOUS)
CONSTANTS = ("the experiments'", "the theory's")
DELTA_CHOICES = {f"{PFPNESettings.Delta:g}": PFPNESettings.Delta, "own": "true"}  # the paper's, and the clients' own
CASE_COLUMNS = ["lemma", "objective", "noise", "constants", "Delta"]


def count_kept_nodes(problem: Problem, horizon: int, partition: Partition, **settings) -> list[dict]:
    """Watch one run of pf-pne, and check the kept nodes of each depth against Lemmas A.3 and A.4.

    problem, horizon, partition, settings: as for `simulate`. Returns one dict, with the keys NODE_COLUMNS, per lemma
    and depth at which a node is kept. The premises are those that the proofs use: the good event and the smoothness at
    depths 0..h.
    """
    watched = watch("pf-pne", problem, horizon, partition=partition, **settings)
    s, M = watched.server.settings, problem.n_clients
    log_term, kept_by_server = s.log_term_for(horizon, problem.n_clients), watched.kept_by_server
    depths = max(len(kept_by_server), *map(len, watched.kept_alone), 1)
    optima, K = np.append(problem.optimum, problem.global_optimum), nodes_before_elimination(partition, kept_by_server)
    paths = np.array(cells_on_path(partition, np.vstack([problem.maximisers, problem.global_maximiser]), depths - 1))
    pulled = watched.pulls
    ends = np.array([len(own) for own in watched.kept_alone])  # the number of depths that each client finished alone

    good = np.ones((2, depths), dtype=bool)  # the means of the server, of the clients
    smooth = np.empty((2, depths), dtype=bool)  # f-bar, every f_m
    gaps = {}  # (lemma, depth): the gaps of the kept nodes
    for h in range(depths):
        centers = partition.centers(h, paths[h])
        at_optima = np.append(problem.paired_values(np.arange(M), centers[:M]), problem.mean_values(centers[M:]))
        near = optima - at_optima <= s.nu_1 * s.rho**h
        smooth[:, h] = near[M], near[:M].all()
        protected = kept_by_server[h] if h < len(kept_by_server) else np.empty(0, dtype=np.int64)
        if h < len(kept_by_server):
            f_bar = problem.mean_values(partition.centers(h, K[h]))
            b = half_width(watched.server.n_samples(h), log_term, s.c)
            good[0, h] = (np.abs(watched.means[h].mean(axis=0) - f_bar) <= b).all()
            gaps["A.3", h] = problem.global_optimum - f_bar[np.isin(K[h], protected)]
        decided = pulled[(pulled["depth"] == h) & ~pulled["index"].isin(protected)]
        decided = decided[ends[decided["m"]] > h]
        f = problem.paired_values(decided["m"].to_numpy(), partition.centers(h, decided["index"].to_numpy()))
        good[1, h] = (np.abs(decided["total"] / decided["n"] - f) <= half_width(decided["n"], log_term, s.c)).all()
        kept = {m: nodes[h] for m, nodes in enumerate(watched.kept_alone) if len(nodes) > h}
        alone = [(m, i) for m in kept for i in np.setdiff1d(kept[m], protected)]
        owner, index = np.array(alone, dtype=np.int64).reshape(-1, 2).T
        gaps["A.4", h] = problem.optimum[owner] - problem.paired_values(owner, partition.centers(h, index))

    so_far = np.logical_and.accumulate(good, axis=1)
    events = {
        "A.3": so_far[0],
        "A.4": so_far[1] & good[0].all(),
    }  # the server has decided all before a client is alone
    smooth = dict(zip(FACTORS, np.logical_and.accumulate(smooth, axis=1), strict=True))
    rows = []
    for (lemma, h), gap in gaps.items():
        bound = FACTORS[lemma] * s.nu_1 * s.rho**h + (s.Delta if lemma == "A.4" else 0)
        counted = [lemma, h, bound, len(gap), int((gap <= bound).sum()), float(gap.max(initial=0))]
        premises = bool(events[lemma][h]), bool(smooth[lemma][h]), lemma == "A.3" or problem.Delta <= s.Delta
        if len(gap):
            rows.append(dict(zip(NODE_COLUMNS, [*counted, *premises], strict=True)))
    return rows


def lemma_case(row: dict) -> str:
    """The entry of LEMMA_CASES for one row of `count_kept_nodes`."""
    if row["bound"] >= 1:
        return VACUOUS
    premises, holds = row["good"] and row["smooth"] and row["valid"], row["within"] == row["kept"]
    return (HOLDS if premises else HOLDS_ANYWAY) if holds else (REFUTING if premises else EXCUSED)


def _count_run(experiment: Experiment, run: int) -> list[list]:
    problem = experiment.problem(run)
    partition = experiment.partition(run)
    rows = count_kept_nodes(problem, experiment.horizon, partition, **experiment.settings)
    return [[value if isinstance(value, str) else float(value) for value in row.values()] for row in rows]


def count_lemmas(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """One row per lemma, depth and run: CASE_COLUMNS without the lemma, run, and NODE_COLUMNS.

    The runs are pf-pne on each of ONE_PER_DIMENSION under each noise of the profile, with the experiments' and with the
    theory's c and c_1, and with the paper's and the true Delta.
    """
    settings = {CONSTANTS[0]: {}, CONSTANTS[1]: theory_settings(p.n_clients)}
    places = [*itertools.product(ONE_PER_DIMENSION, PROFILES[p.profile].noises, CONSTANTS, DELTA_CHOICES)]
    experiments = [
        p.experiment(objective, noise, ("pf-pne",), settings=settings[constants] | {"Delta": DELTA_CHOICES[Delta]})
        for objective, noise, constants, Delta in places
    ]
    runs = [(*place, run) for place, e in zip(places, experiments, strict=True) for run in range(e.n_runs)]
    measured = rows_of_runs(_count_run, experiments, p.n_jobs, folder)
    rows = [[*head, *row] for head, rows in zip(runs, measured, strict=True) for row in rows]
    table = pd.DataFrame(rows, columns=[*CASE_COLUMNS[1:], "run", *NODE_COLUMNS])
    return table.astype(
        dict.fromkeys(("depth", "kept", "within"), int) | dict.fromkeys(("good", "smooth", "valid"), bool)
    )


def count_cases(nodes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Count the depths of runs in each of LEMMA_CASES: one row per value of the columns `by` of `count_lemmas`.

    share: the share of kept nodes that are within the bound, over depths with a bound below 1. verdict: refuted if one
    case contradicts the lemma; shown if at least one case satisfies it with all premises; else open.
    """
    rows = []
    nodes = nodes.assign(lemma_case=nodes.apply(lemma_case, axis=1)) if len(nodes) else nodes.assign(lemma_case="")
    for key, group in nodes.groupby(by, sort=False):
        counts = {name: int((group["lemma_case"] == name).sum()) for name in LEMMA_CASES}
        decided = group[group["lemma_case"] != VACUOUS]
        share = decided["within"].sum() / decided["kept"].sum() if len(decided) else math.nan
        fails = {name: int((~decided[name]).sum()) for name in ("good", "smooth", "valid")}
        verdict = REFUTED if counts[REFUTING] else SHOWN if counts[HOLDS] else OPEN
        rows.append(dict(zip(by, key, strict=True)) | counts | {"share": share} | fails | {"verdict": verdict})
    return pd.DataFrame(rows)


SIXTY_FOURTH = 1 / 64  # the unit of the values below, which are exact in binary
BIASED_SETTINGS = {"nu_1": 1.0, "rho": 0.25, "Delta": 13 * SIXTY_FOURTH}  # with which the premises below hold
LONGEST_HORIZON = 1_200_000  # T of the last of the runs below


def biased_problem(n_clients: int, noise: float | str = 0.0) -> Problem:
    """M >= 3 clients on [0, 1] that satisfy Lemma A.4's premises for BIASED_SETTINGS; PF-PNE loses client 1's optimum.

    Values on the left and the right half, in units of 1/64: f_1 = 32 and 32 - 13 (M - 2); the other f_m = 6 and 58. So
    f-bar has its maximum, 45, on the right, and |f-bar* - f_m*| = 13 = Delta for every client.

    Assumption 2 holds with the distance nu_1 rho^g, where g is the depth of the smallest cell that holds both points: a
    cell of depth h has diameter nu_1 rho^h and is a ball of this radius, and the functions differ only between the
    halves, by less than nu_1 rho^0 (for M <= 6). H_0 is 2. At depth 2 the server has eliminated the cells of the left
    half. Client 1 then compares its own mean on the left, 32, with the global mean on the right, 45, and eliminates the
    left half: 32 + b + nu_1 rho^2 < 45 - b, since b is at most nu_1 rho^2 = 4. From then on it has only points that are
    13 (M - 2) below its optimum. The inequality f-bar* <= f_m* + Delta does not exclude this: only f_m* >= f-bar*
    would.
    """
    first, second = 32, 32 - 13 * (n_clients - 2)

    def halves(left: float, right: float):
        return lambda x: np.where(x[:, 0] < 0.5, left, right) * SIXTY_FOURTH

    functions = [halves(first, second), *[halves(6, 58)] * (n_clients - 1)]
    optimum = np.array([first, *[58] * (n_clients - 1)]) * SIXTY_FOURTH
    problem = problem_from_functions(
        functions, [[0.0, 1.0]], noise, optimum, 45 * SIXTY_FOURTH, name=f"biased comparison, M = {n_clients}"
    )
    problem.maximisers = np.array([[0.25], *[[0.75]] * (n_clients - 1)])
    problem.global_maximiser = np.array([0.75])
    return problem


def run_biased_problem() -> pd.DataFrame:
    """One row per M, noise and T: the regret of client 1 under pf-pne and pe, over T, and the check of Lemma A.4.

    The constants are the theory's. regret: R_1(T) / T. last: the regret per step in the last quarter of T. kept,
    within: the numbers of kept nodes, and of those within Lemma A.4's bound, at depths where its premises hold;
    deepest: the deepest of these depths.
    """
    rows = []
    for n_clients, noise in itertools.product((3, 4), (0.0, "bernoulli")):
        problem, cells = biased_problem(n_clients, noise), Partition([[0.0, 1.0]])
        settings = theory_settings(n_clients) | BIASED_SETTINGS
        alone = {name: value for name, value in settings.items() if name != "Delta"}
        for T in (LONGEST_HORIZON // 16, LONGEST_HORIZON // 4, LONGEST_HORIZON):
            runs = {
                "pf-pne": simulate("pf-pne", problem, T, partition=cells, **settings),
                "pe": simulate("pe", problem, T, partition=cells, **alone),
            }
            counts = [row for row in count_kept_nodes(problem, T, cells, **settings) if row["lemma"] == "A.4"]
            counts = [row for row in counts if row["good"] and row["smooth"] and row["valid"]]
            row = {"n_clients": n_clients, "noise": noise, "T": T}
            for name, run in runs.items():
                start = np.searchsorted(run.t, 0.75 * T)
                row[name] = run.regret[0, -1] / T
                row[f"{name}, last"] = (run.regret[0, -1] - run.regret[0, start]) / (T - run.t[start])
            row |= {name: sum(count[name] for count in counts) for name in ("kept", "within")}
            rows.append(row | {"deepest": max((count["depth"] for count in counts), default=-1)})
    return pd.DataFrame(rows)
