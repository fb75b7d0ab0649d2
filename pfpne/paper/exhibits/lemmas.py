"""What the paper's lemmas, Corollary 3.1, its remarks on speed and its proof say, counted in runs.

| paper                 | here              | what is counted |
|---|---|---|
| Lemma A.3             | count_kept_nodes  | nodes that the server keeps, within 6 nu_1 rho^h of f-bar* |
| Lemma A.4             | count_kept_nodes  | nodes that a client keeps alone, within 11 nu_1 rho^h + Delta of f_m* |
| Lemma A.4, first case | biased_problem    | a client whose optimum goes although every premise holds |
| Corollary 3.1         | measure_shrinking            | regret against T where Delta <= C_3 (log(MT) / T)^(1/(d+2)) |
| Section A.1 | compare_speed | Fed-PNE against single-client searches, and the cost of rounding tau_h up |
| Table 1, HOO          | vary_trees        | which of the differences between HOO and HCT decides on rastrigin |

Every answer is "shown", "refuted" or "open": open where neither was seen, or where a premise fails.
"""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms.hct import HCTConstants, HCTSettings, TreeClient, hct_constants
from pfpne.algorithms.hoo import hoo_constants
from pfpne.algorithms.pf_pne import PFPNESettings, radius, tau
from pfpne.federation import Task
from pfpne.paper.claims import stats
from pfpne.paper.claims.depths import cells_on_path, nodes_before_elimination, watch
from pfpne.paper.claims.evidence import IDENTICAL_CLIENTS, Study
from pfpne.paper.claims.outcomes import theory_settings, why_one_phase
from pfpne.paper.claims.verdicts import OPEN, REFUTED, SHOWN
from pfpne.paper.run import cache
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.progress import progress
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.paper.run.workers import run_unordered
from pfpne.paper.show.export import Exhibit, as_markdown, text_exhibit
from pfpne.paper.show.style import label, noise_in_words, title
from pfpne.partition import Partition
from pfpne.problems import Problem, problem_from_functions
from pfpne.rng import stream
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.simulate import partition_of, simulate
from pfpne.simulation.tree import Cells, play

# --- Lemmas A.3 and A.4 -----------------------------------------------------------------------------

FACTORS = {"A.3": 6, "A.4": 11}  # of nu_1 rho^h; Lemma A.4 adds Delta
NODE_COLUMNS = {  # of one lemma at one depth of one run
    "lemma": "A.3 or A.4",
    "depth": "h",
    "bound": "what the lemma allows a node that is kept to fall short of the optimum",
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
DELTAS_GIVEN = {"0.01": PFPNESettings.Delta, "own": "true"}  # the paper's, and the clients' own
CASE_COLUMNS = ["lemma", "objective", "noise", "constants", "Delta"]


def count_kept_nodes(problem: Problem, horizon: int, partition: Partition, **settings) -> list[dict]:
    """Watch one run of pf-pne, and hold the nodes that each depth keeps against Lemmas A.3 and A.4.

    problem, horizon, partition, settings: as in simulate. Returns one dict, the keys of NODE_COLUMNS, per lemma and
    depth at which a node is kept. The premises are those that the proofs use: the event and the smoothness at depths
    0..h.
    """
    seen = watch("pf-pne", problem, horizon, partition=partition, **settings)
    s, M = seen.server.settings, problem.n_clients
    log, shared = s.log_term(seen.server.task), seen.shared
    depths = max(len(shared), *map(len, seen.own), 1)
    optima, K = np.append(problem.optimum, problem.global_optimum), nodes_before_elimination(partition, shared)
    paths = np.array(cells_on_path(partition, np.vstack([problem.maximisers, problem.global_maximiser]), depths - 1))
    pulled = [(m, *node, *drawn) for m, client in enumerate(seen.clients) for node, drawn in client.pulled.items()]
    pulled = pd.DataFrame(pulled, columns=["m", "depth", "index", "n", "total"])
    ends = np.array([len(own) for own in seen.own])  # how many depths each client has finished alone

    good = np.ones((2, depths), dtype=bool)  # the means of the server, of the clients
    smooth = np.empty((2, depths), dtype=bool)  # f-bar, every f_m
    gaps = {}  # (lemma, depth): how far from the optimum the nodes are that are kept
    for h in range(depths):
        centers = partition.centers(h, paths[h])
        at_optima = np.append(problem.paired_values(np.arange(M), centers[:M]), problem.mean_values(centers[M:]))
        near = optima - at_optima <= s.nu_1 * s.rho**h
        smooth[:, h] = near[M], near[:M].all()
        protected = shared[h] if h < len(shared) else np.empty(0, dtype=np.int64)
        if h < len(shared):
            f_bar, b = problem.mean_values(partition.centers(h, K[h])), radius(seen.server.samples(h), log, s.c)
            good[0, h] = (np.abs(seen.means[h].mean(axis=0) - f_bar) <= b).all()
            gaps["A.3", h] = problem.global_optimum - f_bar[np.isin(K[h], protected)]
        decided = pulled[(pulled["depth"] == h) & ~pulled["index"].isin(protected)]
        decided = decided[ends[decided["m"]] > h]
        f = problem.paired_values(decided["m"].to_numpy(), partition.centers(h, decided["index"].to_numpy()))
        good[1, h] = (np.abs(decided["total"] / decided["n"] - f) <= radius(decided["n"], log, s.c)).all()
        alone = [(m, i) for m, own in enumerate(seen.own) if len(own) > h for i in np.setdiff1d(own[h], protected)]
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
    """Which of LEMMA_CASES one row of `count_kept_nodes` is."""
    if row["bound"] >= 1:
        return VACUOUS
    premises, holds = row["good"] and row["smooth"] and row["valid"], row["within"] == row["kept"]
    return (HOLDS if premises else HOLDS_ANYWAY) if holds else (REFUTING if premises else EXCUSED)


def _count_run(experiment: Experiment, run: int) -> list[list]:
    problem = experiment.problem(run)
    partition = partition_of(problem, experiment.cells, experiment.seed, run)
    rows = count_kept_nodes(problem, experiment.horizon, partition, **experiment.settings)
    return [[value if isinstance(value, str) else float(value) for value in row.values()] for row in rows]


def _stored(function, experiment: Experiment, run: int, folder: Path) -> list[list]:
    """function(experiment, run), plain rows: read, or computed and kept."""
    key = cache.key({"run": experiment.key(experiment.algorithms[0], run)}, function)
    return cache.rows(key, lambda: function(experiment, run), folder)


def _measured(function, experiments: list[Experiment], p: Parameters, folder: Path) -> list[list[list]]:
    """The rows of each run of each experiment, in their order; by as many workers as p says."""
    jobs = [(function, experiment, run, folder) for experiment in experiments for run in range(experiment.n_runs)]
    small = experiments[0].is_small(len(jobs))
    bar = None if small else progress(function.__name__.strip("_").replace("_", " "))
    return [rows for _, rows in sorted(run_unordered(_stored, jobs, p.n_jobs, bar, small))]


def count_lemmas(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """One row per lemma, depth and run: CASE_COLUMNS without the lemma, run, and NODE_COLUMNS.

    The runs of pf-pne on each of ONE_PER_DIMENSION under each noise of the profile, with the experiments' c and c_1 and
    with the theory's, given the paper's Delta and the clients' own.
    """
    settings = {CONSTANTS[0]: {}, CONSTANTS[1]: theory_settings(p.n_clients)}
    places = [*itertools.product(ONE_PER_DIMENSION, PROFILES[p.profile].noises, CONSTANTS, DELTAS_GIVEN)]
    experiments = [
        p.experiment(objective, noise, ("pf-pne",), settings=settings[constants] | {"Delta": DELTAS_GIVEN[Delta]})
        for objective, noise, constants, Delta in places
    ]
    runs = [(*place, run) for place, e in zip(places, experiments, strict=True) for run in range(e.n_runs)]
    measured = _measured(_count_run, experiments, p, folder)
    rows = [[*head, *row] for head, rows in zip(runs, measured, strict=True) for row in rows]
    table = pd.DataFrame(rows, columns=[*CASE_COLUMNS[1:], "run", *NODE_COLUMNS])
    return table.astype(
        dict.fromkeys(("depth", "kept", "within"), int) | dict.fromkeys(("good", "smooth", "valid"), bool)
    )


def count_cases(nodes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How many depths of runs have each of LEMMA_CASES: one row per value of the columns `by` of `count_lemmas`.

    share: of the nodes kept where the bound is below 1, those within it. verdict: refuted by one case against it; shown
    where the premises hold in one case at least; else open.
    """
    rows = []
    nodes = nodes.assign(lemma_case=nodes.apply(lemma_case, axis=1)) if len(nodes) else nodes.assign(lemma_case="")
    for place, group in nodes.groupby(by, sort=False):
        counts = {name: int((group["lemma_case"] == name).sum()) for name in LEMMA_CASES}
        told = group[group["lemma_case"] != VACUOUS]
        share = told["within"].sum() / told["kept"].sum() if len(told) else math.nan
        fails = {name: int((~told[name]).sum()) for name in ("good", "smooth", "valid")}
        verdict = REFUTED if counts[REFUTING] else SHOWN if counts[HOLDS] else OPEN
        rows.append(dict(zip(by, place, strict=True)) | counts | {"share": share} | fails | {"verdict": verdict})
    return pd.DataFrame(rows)


# --- Lemma A.4's first case -------------------------------------------------------------------------

UNIT = 1 / 64  # values that are exact in binary
BIASED_SETTINGS = {"nu_1": 1.0, "rho": 0.25, "Delta": 13 * UNIT}  # with which the premises below hold
LONGEST_HORIZON = 1_200_000  # T of the last of the runs below


def biased_problem(n_clients: int, noise: float | str = 0.0) -> Problem:
    """M >= 3 clients on [0, 1], with the premises of Lemma A.4 for BIASED_SETTINGS, of which PF-PNE robs the first.

    In units of 1/64, on the left half and on the right one: f_1 = 32, 32 - 13 (M - 2); the others, 6 and 58; so
    f-bar = 45 on the right, its maximum. Its distances from f_m* are 13, Delta, for every client.

    Assumption 2 holds with the distance nu_1 rho^g, g the depth of the smallest cell that holds both points: a cell of
    depth h has diameter nu_1 rho^h and is a ball of this radius; and the functions differ between the halves alone, by
    less than nu_1 rho^0 (for M <= 6). H_0 is 2. At depth 2 the server has eliminated the left half's cells, and client
    1, alone, holds its own mean there, 32, against the mean of all on the right, 45: 32 + b + nu_1 rho^2 < 45 - b, as b
    is at most nu_1 rho^2 = 4. From there on it has only points that are 13 (M - 2) below its optimum. The inequality
    f-bar* <= f_m* + Delta does not exclude it: only f_m* >= f-bar* would.
    """
    first, second = 32, 32 - 13 * (n_clients - 2)

    def halves(left: float, right: float):
        return lambda x: np.where(x[:, 0] < 0.5, left, right) * UNIT

    functions = [halves(first, second), *[halves(6, 58)] * (n_clients - 1)]
    optimum = np.array([first, *[58] * (n_clients - 1)]) * UNIT
    problem = problem_from_functions(
        functions, [[0.0, 1.0]], noise, optimum, 45 * UNIT, name=f"biased comparison, M = {n_clients}"
    )
    problem.maximisers = np.array([[0.25], *[[0.75]] * (n_clients - 1)])
    problem.global_maximiser = np.array([0.75])
    return problem


def run_biased_problem() -> pd.DataFrame:
    """One row per M, noise and T: the regret of client 1 under pf-pne and pe, over T, and what Lemma A.4 says.

    The constants are the theory's. regret: R_1(T) / T. last: over the last quarter of T, 0 where nothing is lost.
    kept, within, deepest: of Lemma A.4, nodes at the depths where its premises hold, and the deepest of these.
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


# --- Corollary 3.1 ----------------------------------------------------------------------------------

SHRINKING_OBJECTIVES = ("garland", "himmelblau")
SHRINKING_NOISES = ("bernoulli", 1.0)
SHIFT_FACTORS = 3.0 ** -np.arange(7)  # of the profile's shift: where the clients' differences are looked up


def bound_on_Delta(T: int, M: int, d: float) -> float:
    """(log(MT) / T)^(1 / (d + 2)), below a constant times which Corollary 3.1 wants Delta; d = max(d_min, d_new)."""
    return (math.log(M * T) / T) ** (1 / (d + 2))


def _Delta_of(experiment: Experiment, run: int) -> list[list]:
    return [[experiment.problem(run).Delta]]


def shifts_for(objective: str, d: float, horizons, p: Parameters, folder: Path = RESULTS) -> dict[int, float]:
    """A shift for each T: the clients' mean Delta shrinks as `bound_on_Delta`, from that of p.shift at the first.

    By interpolation between the logarithms of a few shifts; p.shift itself where clients do not differ.
    """
    shifts = p.shift * SHIFT_FACTORS
    experiments = [p.experiment(objective, "bernoulli", ("pf-pne",), shift=shift, cells="random") for shift in shifts]
    Deltas = np.array(_measured(_Delta_of, experiments, p, folder)).reshape(len(shifts), -1).mean(axis=1)
    if not (Deltas > 0).all():
        return dict.fromkeys(horizons, p.shift)
    first = bound_on_Delta(horizons[0], p.n_clients, d)
    wanted = [Deltas[0] * bound_on_Delta(T, p.n_clients, d) / first for T in horizons]
    order = np.argsort(Deltas)
    interpolated = np.exp(np.interp(np.log(wanted), np.log(Deltas[order]), np.log(shifts[order])))
    return dict(zip(horizons, map(float, interpolated), strict=True))


def measure_shrinking(problems: pd.DataFrame, p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """One row per objective, noise, T and run: d, shift, Delta and R(T)/M of pf-pne (given its Delta) and of pe.

    problems: what pfpne.paper.exhibits.depths.measure_assumptions returns first; d_min and d_new are the medians at the
    shift next to p.shift.
    """
    study = Study(p.n_clients, p.horizon, p.n_runs, p.n_runs, (), p.shift, p.seed, p.n_jobs, folder)
    parts = []
    for objective in SHRINKING_OBJECTIVES:
        rows = problems[(problems["objective"] == objective) & (problems["cells"] == "random")]
        rows = rows[rows["shift"] == rows["shift"].iloc[(rows["shift"] - p.shift).abs().argmin()]]
        d = float(rows[["d_min", "d_new"]].max(axis=1).median())
        d = 0.0 if math.isnan(d) else round(d, 2)  # nan where a profile has too few depths
        shifts = shifts_for(objective, d, study.horizons, p, folder)
        for noise, T in itertools.product(SHRINKING_NOISES, study.horizons):
            changes = {"horizon": T, "shift": shifts[T]}
            ours = study.runs(objective, "pf-pne", noise, settings={"Delta": "true"}, **changes)
            alone = study.runs(objective, "pe", noise, **changes)
            part = ours[["run", "Delta", "regret"]].assign(alone=alone["regret"])
            part = part.assign(idle=ours["last_phase"], alone_idle=alone["last_phase"])
            part["of_bound"] = part["Delta"] / bound_on_Delta(T, p.n_clients, d)
            parts.append(part.assign(objective=objective, noise=noise, d=d, T=T, shift=shifts[T]))
    columns = ["objective", "noise", "d", "T", "shift", "run", "Delta", "of_bound", "regret", "idle", "alone"]
    return pd.concat(parts, ignore_index=True)[[*columns, "alone_idle"]]


def shrink_slopes(shrunk: pd.DataFrame, p: Parameters) -> pd.DataFrame:
    """One row per objective and noise: exponents of T, of what Corollary 3.1 allows and of what was measured.

    allowed: of (T log(MT))^((d+1)/(d+2)), its own logarithm included. constant: the least C_3 for which its condition
    on Delta holds in all of these runs. verdict: open where the horizon cuts half of a run, or as soon as the interval
    holds `allowed`; for the corollary's other premises (smoothness, c >= 2) do not hold in these runs, a slope that is
    above is open, too.
    """
    rows = []
    for (objective, noise), group in shrunk.groupby(["objective", "noise"], sort=False):
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
        row |= {"constant": group["of_bound"].max(), "allowed": allowed}
        for name, column in (("", "regret"), ("alone_", "alone")):
            slopes = stats.growth_exponents(horizons, group.pivot(index="run", columns="T", values=column).to_numpy())
            low, high = stats.mean_interval(slopes, stream(p.seed, "corollary", objective, str(noise), column))
            row |= {f"{name}slope": slopes.mean(), f"{name}low": low, f"{name}high": high}
        means = group.groupby("T")[["regret", "alone"]].mean()
        ratio = means["regret"] / means["alone"]
        row |= {"first_ratio": ratio.iloc[0], "last_ratio": ratio.iloc[-1]}
        row["one_phase"] = why_one_phase(group["idle"][group["T"] == horizons[-1]])
        below = row["high"] <= allowed and not row["one_phase"]
        rows.append(row | {"verdict": SHOWN if below else OPEN})
    return pd.DataFrame(rows)


# --- Section A.1 ------------------------------------------------------------------------------------

CLIENT_CHANGES = {"identical": IDENTICAL_CLIENTS, "shifted": {}}
SINGLE_CLIENT_SEARCHES = ("pe", "hct")


def _budget_shares(experiment: Experiment, run: int) -> list[list]:
    """[[share of T that rounding tau_h / M up adds to the phases of fed-pne, share of T in phases that end, depth]]."""
    problem = experiment.problem(run)
    partition = partition_of(problem, experiment.cells, experiment.seed, run)
    seen = watch("fed-pne", problem, experiment.horizon, partition=partition)
    s, M, log = seen.server.settings, problem.n_clients, seen.server.settings.log_term(seen.server.task)
    drawn = {h: means.shape[1] * seen.server.samples(h) for h, means in seen.means.items()}
    wanted = {h: means.shape[1] * tau(h, log, s.c, s.nu_1, s.rho) for h, means in seen.means.items()}
    budget = M * experiment.horizon
    return [
        [(sum(drawn.values()) - sum(wanted.values())) / budget, sum(drawn.values()) / budget, max(drawn, default=0)]
    ]


def compare_speed(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """One row per objective, kind of clients and single-client search: R(T)/M of fed-pne over its, with an interval.

    Bernoulli rewards. unspent: the share of T that fed-pne draws beyond tau_h, since M ceil(tau_h / M) >= tau_h; spent:
    in phases that end; depth: of the last that ends, mean over runs. verdict: on "Fed-PNE is faster".
    """
    study = Study(p.n_clients, p.horizon, p.n_runs, p.n_runs, (), p.shift, p.seed, p.n_jobs, folder)
    rows = []
    for objective, (clients, changes) in itertools.product(ONE_PER_DIMENSION, CLIENT_CHANGES.items()):
        experiment = study.experiment(objective, "fed-pne", "bernoulli", **changes)
        spent = np.array(_measured(_budget_shares, [experiment], p, folder)).reshape(-1, 3).mean(axis=0)
        ours = study.runs(objective, "fed-pne", "bernoulli", **changes)["regret"].to_numpy()
        for rival in SINGLE_CLIENT_SEARCHES:
            theirs = study.runs(objective, rival, "bernoulli", **changes)["regret"].to_numpy()
            rng = stream(p.seed, "speed", objective, clients, rival)
            ratio, low, high = stats.ratio_interval(ours, theirs, rng)
            verdict = SHOWN if high < 1 else REFUTED if low > 1 else OPEN
            head = {"objective": objective, "clients": clients, "rival": rival, "runs": len(ours)}
            measured = {"ratio": ratio, "low": low, "high": high, "verdict": verdict}
            rows.append(head | measured | dict(zip(("unspent", "spent", "depth"), spent, strict=True)))
    return pd.DataFrame(rows)


# --- HOO and HCT ------------------------------------------------------------------------------------

SEARCHES = {  # where a search departs from HCT, towards HOO
    "HCT": (),
    "HCT, HOO's width": ("width",),
    "HCT, HOO's credit": ("credit",),
    "HCT, HOO's splits": ("splits",),
    "HOO, HCT's width": ("credit", "splits"),
    "HOO, HCT's credit": ("width", "splits"),
    "HOO, HCT's splits": ("width", "credit"),
    "HOO": ("width", "credit", "splits"),
}
HOO_PARTS = {
    "width": "the interval of a node: sqrt(2 log T / n) instead of c sqrt(log(1/delta~) / n), c = 0.1",
    "credit": "a reward counts at every node above the one pulled, too",
    "splits": "a node is split at its first pull, down to the truncation depth, instead of after tau_h pulls",
}


def constants_with_parts(parts: tuple[str, ...], partition: Partition, horizon: int) -> HCTConstants:
    """HCT's constants, with these HOO_PARTS of HOO's in their place."""
    settings = HCTSettings()
    hct, hoo = (make(settings, partition, horizon) for make in (hct_constants, hoo_constants))
    if "splits" in parts:
        hct = hct._replace(threshold=hoo.threshold)
    if "width" in parts:
        hct = hct._replace(squared_width=hoo.squared_width)
    return hct._replace(credit_path="credit" in parts)


def _play_trees(experiment: Experiment, run: int, search: str) -> list[float]:
    """A search of SEARCHES, means over the clients: R(T), the mean depth of a pull, the deepest, the nodes pulled."""
    problem, T, parts = experiment.problem(run), experiment.horizon, SEARCHES[search]
    partition = partition_of(problem, experiment.cells, experiment.seed, run)
    task = Task(partition, problem.n_clients, T, problem.noise, problem.candidates, experiment.seed)
    cells, streams = Cells(problem, partition, range(problem.n_clients)), noise_streams(problem, experiment.seed, run)
    totals = []
    for m in range(problem.n_clients):
        tree = TreeClient(task, constants_with_parts(parts, partition, T))
        pulled, _ = play(cells, tree, T, range(m, m + 1), streams)
        node = tree.node[: tree.state[0]["size"]]
        pulls = node["count"].copy()
        if "credit" in parts:  # what was pulled below a node counts there, too
            np.subtract.at(pulls, node["parent"][1:], node["count"][1:])
        regret = (problem.optimum[m] - cells.value[pulled[0], m]).sum()
        totals.append([regret, pulls @ node["depth"] / T, node["depth"][pulls > 0].max(), (pulls > 0).sum()])
    return np.mean(totals, axis=0).tolist()


def _stored_trees(experiment: Experiment, search: str, folder: Path) -> list[float]:
    key = cache.key({"run": experiment.key("hct", 0), "search": search}, _play_trees)
    return cache.rows(key, lambda: _play_trees(experiment, 0, search), folder)


def vary_trees(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """One row per search of SEARCHES: means over the clients of the first run on rastrigin, Bernoulli rewards."""
    experiment = p.experiment("rastrigin", "bernoulli", ("hct",), n_runs=1)
    jobs, small = [(experiment, search, folder) for search in SEARCHES], experiment.is_small(len(SEARCHES))
    played = sorted(run_unordered(_stored_trees, jobs, p.n_jobs, None if small else progress("HOO and HCT"), small))
    table = pd.DataFrame([row for _, row in played], columns=["regret", "depth", "deepest", "nodes"])
    return table.assign(search=[*SEARCHES])[["search", *table.columns]]


# --- what all of it says ----------------------------------------------------------------------------

MANAGEABLE_SHARE = 0.1  # of T: what "manageable" means here, for the paper gives no number


def verdicts(fates: pd.DataFrame, lost: pd.DataFrame, slopes: pd.DataFrame, speed: pd.DataFrame) -> pd.DataFrame:
    """One row per statement: statement, runs (on which), verdict, measured; of the tables that are made above.

    fates: by lemma, constants and Delta.
    """
    rows = []
    for row in fates.to_dict("records"):
        told = sum(row[name] for name in LEMMA_CASES if name != VACUOUS)
        fails = ", ".join(f"{name} at {row[key]}" for key, name in PREMISES.items() if row[key])
        words = f"{row['share']:.0%} of the nodes kept are within the bound. Of {told} depths with a bound below 1, "
        words += "; ".join(IN_WORDS[name].format(row[name]) for name in LEMMA_CASES if row[name] and name != VACUOUS)
        words += f". What fails: {fails}." if fails else "."
        runs = f"{row['constants']} c and c_1, {'Delta = 0.01' if row['Delta'] == '0.01' else 'the true Delta'}"
        rows.append((f"Lemma {row['lemma']}", runs, row["verdict"], words if told else f"{VACUOUS.capitalize()}."))
    for M, runs in lost.groupby("n_clients"):
        final = runs[runs["T"] == runs["T"].max()]
        outside = int((final["kept"] - final["within"]).sum())
        head = f"the constructed problem, M = {M}"
        words = (
            f"Of {final['kept'].sum()} nodes kept at depths that the longest runs finish, {outside} break the bound."
        )
        rows.append(("Lemma A.4", head, REFUTED if outside else SHOWN, words))
        rate = runs.groupby("T")["pf-pne, last"].min()
        words = (
            f"In the last quarter of a run client 1 loses {rate.iloc[-1]:.2f} per pull with T = {rate.index[-1]:,}, "
        )
        words += (
            f"and {rate.iloc[0]:.2f} with T = {rate.index[0]:,}. With PE alone it loses {final['pe, last'].max():.2g}."
        )
        linear = rate.iloc[-1] > 0 and rate.iloc[-1] >= rate.iloc[0]
        rows.append(("Theorem 3.1, regret sublinear in T", head, REFUTED if linear else OPEN, words))
    for row in slopes.to_dict("records"):
        words = f"The exponent of T is {_interval(row['slope'], row['low'], row['high'])}; "
        words += f"{row['allowed']:.2f} is allowed."
        words += f" {row['one_phase']}." if row["one_phase"] else ""
        runs = f"{title(row['objective'])}, {noise_in_words(row['noise'])}"
        rows.append(("Corollary 3.1, Delta shrinking with T", runs, row["verdict"], words))
    for clients, group in speed.groupby("clients", sort=False):
        for rival, part in group.groupby("rival", sort=False):
            ratios = [
                f"{title(x['objective'])} {_interval(x['ratio'], x['low'], x['high'])}" for _, x in part.iterrows()
            ]
            reached = [*part["verdict"]]
            verdict = REFUTED if REFUTED in reached else OPEN if OPEN in reached else SHOWN
            words = f"Regret over that of {label(rival)}: {', '.join(ratios)}."
            rows.append((f"Section A.1, Fed-PNE faster than {label(rival)}", f"{clients} clients", verdict, words))
    unspent = speed["unspent"]
    words = f"{unspent.min():.3%} to {unspent.max():.3%} of T is drawn beyond tau_h. "
    words += f"The limit of {MANAGEABLE_SHARE:.0%} is ours."
    verdict = SHOWN if unspent.max() <= MANAGEABLE_SHARE else REFUTED
    rows.append(("Section A.1, unspent budget manageable", "Fed-PNE, all of these", verdict, words))
    return pd.DataFrame(rows, columns=["statement", "runs", "verdict", "measured"])


IN_WORDS = {
    HOLDS: "it holds at {} where all premises hold",
    HOLDS_ANYWAY: "it holds at {} where a premise fails",
    EXCUSED: "it fails at {} where a premise fails",
    REFUTING: "it fails at {} where all premises hold",
}
PREMISES = {"good": "the good event", "smooth": "smoothness", "valid": "Delta"}


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"


def trees_in_words(trees: pd.DataFrame) -> str:
    """What each part of HOO does to HCT's regret, and HCT's to HOO's, in three sentences."""
    means = trees.set_index("search")
    regret = means["regret"]
    into = {part: regret[f"HCT, HOO's {part}"] / regret["HCT"] for part in ("width", "credit", "splits")}
    back = {part: regret[f"HOO, HCT's {part}"] / regret["HOO"] for part in into}

    def listed(ratios: dict) -> str:
        return ", ".join(f"{part} {ratio:.2f}" for part, ratio in ratios.items())

    both = means.loc[["HOO", "HCT"]]
    return (
        f"R(T)/M is {_three_digits(regret['HOO'])} with HOO and {_three_digits(regret['HCT'])} with HCT, as means"
        " over the clients of one run. If HCT takes one part from HOO, its regret is multiplied by this: "
        f"{listed(into)}. If HOO takes one part from HCT, its regret is multiplied by this: {listed(back)}. On average "
        f"HOO pulls at depth {both['depth'].iloc[0]:.1f} and HCT at depth {both['depth'].iloc[1]:.1f}. A client pulls "
        f"{both['nodes'].iloc[0]:,.0f} nodes with HOO and {both['nodes'].iloc[1]:,.0f} with HCT."
    )


def tabulate(problems: pd.DataFrame, p: Parameters, folder: Path = RESULTS) -> Exhibit:
    """Count all of this and tabulate the verdicts.

    Parameters
    ----------
    problems : pandas.DataFrame
        What pfpne.paper.exhibits.depths.measure_assumptions returns first.
    p : Parameters
        The notebook's parameters.
    folder : Path
        Where runs, and what was counted in them, are kept.

    Returns
    -------
    Exhibit
        lemmas.md has the verdicts and the comparison of HOO with HCT; lemmas.csv and lemmas_*.csv have the numbers.
    """
    nodes = count_lemmas(p, folder)
    lost, trees, speed = run_biased_problem(), vary_trees(p, folder), compare_speed(p, folder)
    shrunk = measure_shrinking(problems, p, folder)
    slopes = shrink_slopes(shrunk, p)
    table = verdicts(count_cases(nodes, ["lemma", "constants", "Delta"]), lost, slopes, speed)
    caption = (
        f"What the paper's lemmas, corollary and remarks say, counted: M = {p.n_clients}, T = {p.horizon:,}, shift"
        f" {p.shift:g}, {p.n_runs} runs, on {', '.join(map(title, ONE_PER_DIMENSION))} (the corollary on"
        f" {' and '.join(map(title, SHRINKING_OBJECTIVES))}). A lemma is shown where it holds and all of its "
        "premises do, refuted"
        " where it fails although they do, and open where a premise fails or the bound is 1 or more. The counts are"
        " of one depth of one run. Ratios and exponents have bootstrap 95 % intervals."
    )
    forms = {"regret": _three_digits, "depth": "{:.1f}".format, "deepest": "{:.1f}".format, "nodes": "{:,.0f}".format}
    shown = trees.assign(**{name: trees[name].map(form) for name, form in forms.items()})
    names = {"search": "Search", "regret": "R(T)/M", "depth": "mean depth", "deepest": "deepest", "nodes": "nodes"}
    text = (
        f"{as_markdown(table.rename(columns=str.capitalize))}\n{caption}\n\n"
        f"**HOO against HCT on {title('rastrigin')}.** {trees_in_words(trees)}\n\n"
        f"{as_markdown(shown.rename(columns=names))}"
    )
    tables = {
        "": table,
        "_nodes": count_cases(nodes, CASE_COLUMNS),
        "_lost": lost,
        "_shrinking": shrunk,
        "_speed": speed,
    }
    numbers = {f"lemmas{name}": part for name, part in (tables | {"_trees": trees}).items()}
    return text_exhibit("lemmas", caption, text, numbers)
