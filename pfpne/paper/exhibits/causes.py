"""Why PF-PNE wins or loses, counted in runs depth by depth: a figure, and the explanation in words.

Counted are the optimal cells that elimination removes, the coverage of the confidence intervals, and the use of T.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pfpne.algorithms import make_settings
from pfpne.algorithms.hct import epoch_of
from pfpne.algorithms.pf_pne import FedPNESettings, half_width
from pfpne.algorithms.pf_pne_plus import PFPNEPlus, PlusServer
from pfpne.federation import Task
from pfpne.paper.claims.assumption_checks import cells_on_path
from pfpne.paper.claims.claim_tests import ELIMINATION_ALGORITHMS
from pfpne.paper.claims.watching import nodes_before_elimination, watch
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.rows import rows_of_runs
from pfpne.paper.run.selections import EXPLAINED_ALGORITHMS
from pfpne.paper.show.export import Exhibit, text_exhibit
from pfpne.paper.show.plot import figure_exhibit, legend, new_figure, our_style
from pfpne.paper.show.style import (
    COLUMN,
    DASH,
    LOOKS,
    PAGE,
    TITLES,
    listed,
    noise_in_words,
)
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.phased import Evaluations, run_phases
from pfpne.simulation.tree import ReachedCells, play

# The columns of one depth of a run; nan if there is nothing to count. coverage_own is the coverage of f_m by the
# clients' own intervals, coverage_server that of f-bar by the server's, coverage_shared that of f_m by the server's.
CAUSES = {
    "depth": "0, 1, ...",
    "removed": "share of the clients for which no cell around their own optimum is kept",
    "coverage_own": "share of the intervals of clients' own means that hold f_m at the centre",
    "coverage_server": "share of the server's intervals that hold f-bar at the centre",
    "coverage_shared": "share of the server's intervals of nodes that stay, as every client uses them, that hold f_m",
    "missed": "share of the clients that would deploy, at T, a point outside the cell around their own optimum",
    "nodes": "nodes that a client pulls, in phases that end before T",
    "spent": "share of T",
    "cut": "share of T in phases that the horizon cuts",
}
NO_COUNTS = dict.fromkeys(CAUSES, np.nan)


def count_phases(name: str, problem: Problem, horizon: int, partition: Partition) -> list[dict]:
    """One row per depth (CAUSES) of a run of pf-pne, fed-pne or pe."""
    watched = watch(name, problem, horizon, partition=partition)
    M, s = problem.n_clients, watched.server.settings
    log_term = s.log_term_for(horizon, problem.n_clients)
    kept = [watched.kept_by_server] * M if name == "fed-pne" else watched.kept_alone
    table = watched.pulls
    H = table["depth"].max()
    optima, deployed = (
        np.transpose(cells_on_path(partition, points, H)) for points in (problem.maximisers, watched.run.best)
    )
    K, rows = nodes_before_elimination(partition, watched.kept_by_server), []
    for h in range(H + 1):
        nodes = table[table["depth"] == h]  # empty at depths that Fed-PNE splits unsampled
        row, protected = NO_COUNTS | {"depth": h}, ()
        if h in watched.means:
            mean, b = watched.means[h].mean(axis=0), half_width(watched.server.n_samples(h), log_term, s.c)
            f, protected = problem.values(partition.centers(h, K[h])), watched.kept_by_server[h]
            row["coverage_server"] = np.mean(np.abs(mean - f.mean(axis=0)) <= b)
            row["coverage_shared"] = np.mean(np.abs(mean - f)[:, np.isin(K[h], protected)] <= b)
        row["missed"] = np.mean(deployed[:, h] != optima[:, h])
        is_finished = np.array([h < len(by_depth) for by_depth in kept])  # the clients that finish this phase
        is_whole = is_finished[nodes["m"]]
        if is_finished.any():
            row["removed"] = np.mean([optima[m, h] not in kept[m][h] for m in np.flatnonzero(is_finished)])
            row["nodes"] = is_whole.sum() / is_finished.sum()
        decided = nodes[is_whole & ~nodes["index"].isin(protected)]  # by a client alone
        if name != "fed-pne" and len(decided):
            f = problem.paired_values(decided["m"].to_numpy(), partition.centers(h, decided["index"].to_numpy()))
            is_covered = np.abs(decided["total"] / decided["n"] - f) <= half_width(decided["n"], log_term, s.c)
            row["coverage_own"] = np.mean(is_covered)
        rows.append(row | {"spent": nodes["n"].sum() / M / horizon, "cut": nodes["n"][~is_whole].sum() / M / horizon})
    return rows


class _CountedEvaluations(Evaluations):
    """Evaluations that record the number of a client's evaluations at each depth."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.made = Counter()

    def pull(self, request, is_truncated):
        before = self.t.sum()
        sums = super().pull(request, is_truncated)
        self.made[request.h] += (self.t.sum() - before) / self.task.n_clients  # at the horizon, fewer than requested
        return sums


def count_trees(name: str, problem: Problem, horizon: int, partition: Partition) -> list[dict]:
    """One row per depth (CAUSES) of a run of pf-pne+, which eliminates no node for good and has no truncated phase.

    coverage_own: the coverage of its trees' intervals at T. The trees contain the other clients' means, too.
    """
    settings, M, seed, run = make_settings(name, {}, problem), problem.n_clients, problem.seed, problem.run
    task = Task(partition, M, horizon, problem.noise, problem.candidates, seed, key=(problem.name, run))
    streams = noise_streams(problem, seed, run)
    arguments = problem, task, settings, streams, np.array([horizon]), False
    evaluations, own_trees = run_phases(PFPNEPlus, PlusServer, *arguments, evaluations_class=_CountedEvaluations)
    if own_trees is None:  # the horizon ends the run in stage 1
        return [NO_COUNTS | {"depth": h, "spent": n / horizon} for h, n in evaluations.made.items()]
    cells, left, parts, deployed = ReachedCells(problem, partition, range(M)), horizon - int(evaluations.t[0]), [], []
    for m, tree in enumerate(own_trees.trees):
        size = tree.state[0]["size"]
        before = tree.node["count"][:size].copy()
        _, best = play(cells, tree, left, range(m, m + 1), streams)
        deployed.append(cells.point[best[0, -1]])
        node = tree.node[: tree.state[0]["size"]]
        made = node["count"] - np.pad(before, (0, len(node) - size))
        table = pd.DataFrame({"m": m, "depth": node["depth"], "index": node["index"], "made": made})
        table["b"] = np.sqrt(tree.constants.squared_half_width[epoch_of(horizon)] / np.maximum(node["count"], 1))
        table["mean"] = node["total"] / np.maximum(node["count"], 1)
        parts.append(table[node["count"] > 0])
    table, rows = pd.concat(parts), []
    H = table["depth"].max()
    deployed, optima = (
        np.transpose(cells_on_path(partition, points, H)) for points in (np.array(deployed), problem.maximisers)
    )
    for h, nodes in table.groupby("depth"):
        f = problem.paired_values(nodes["m"].to_numpy(), partition.centers(h, nodes["index"].to_numpy()))
        row = NO_COUNTS | {"depth": h, "removed": 0.0, "cut": 0.0}
        row["missed"] = np.mean(deployed[:, h] != optima[:, h])
        row |= {
            "coverage_own": np.mean(np.abs(nodes["mean"] - f) <= nodes["b"]),
            "nodes": (nodes["made"] > 0).sum() / M,
        }
        rows.append(row | {"spent": (nodes["made"].sum() / M + evaluations.made[h]) / horizon})
    return rows


def count_run(experiment: Experiment, run: int) -> list[list]:
    """One row per depth of one run, with the values of CAUSES. The experiment has one of EXPLAINED_ALGORITHMS."""
    (name,), problem = experiment.algorithms, experiment.problem(run)
    partition = experiment.partition(run)
    count = count_phases if name in ELIMINATION_ALGORITHMS else count_trees
    return [[float(row[column]) for column in CAUSES] for row in count(name, problem, experiment.horizon, partition)]


def count_causes(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Count CAUSES at each depth of the runs of EXPLAINED_ALGORITHMS, under all noises of the profile.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters.
    folder : Path
        The folder of stored counts.

    Returns
    -------
    pandas.DataFrame
        One row per noise, algorithm, run and depth, with CAUSES.
    """
    noises = PROFILES[p.profile].noises
    experiments = [p.experiment(noise=noise, algorithms=(name,)) for noise in noises for name in EXPLAINED_ALGORITHMS]
    runs = [(experiment, run) for experiment in experiments for run in range(experiment.n_runs)]
    counted = rows_of_runs(count_run, experiments, p.n_jobs, folder, "depth by depth")
    parts = [
        pd.DataFrame(rows, columns=[*CAUSES]).assign(noise=e.noise, algorithm=e.algorithms[0], run=run)
        for rows, (e, run) in zip(counted, runs, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)[["noise", "algorithm", "run", *CAUSES]]


ROWS_OF_FIGURE = {
    "removed": "optimum removed\n(share of clients)",
    "coverage_own": "covered\n(share of intervals)",
    "nodes": "nodes pulled\nby a client",
    "spent": "share of $T$",
}


@our_style()
def draw_causes(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw removed optima, coverage, pulled nodes and the use of T against depth: one column per noise.

    Parameters
    ----------
    table : pandas.DataFrame
        As `count_causes` returns it; it is written as CSV.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure.
    """
    means = table.drop(columns="run").groupby(["noise", "algorithm", "depth"], sort=False).mean().reset_index()
    means["coverage_own"] = means["coverage_own"].mask(
        means["algorithm"] == "fed-pne", means["coverage_server"]
    )  # its only intervals
    caption = (
        f"Depth by depth, on {TITLES[p.objective]}: M = {p.n_clients} clients, T = {p.horizon:,}, shift {p.shift:g}, "
        f"means of {p.n_runs} runs, with the settings of the paper. First row: the share of clients for which no cell "
        "around their own optimum is left. Second row: the share of confidence intervals that contain the value at "
        "the centre, f_m (for Fed-PNE f-bar); the thin line is PF-PNE's means of all clients, as each client uses "
        "them for its own f_m. A line ends at the last depth that its algorithm finishes. Third row: the nodes that "
        "a client pulls, in finished phases. Fourth row: the share of T that goes to each depth; at a cross most of "
        "it goes to unfinished phases."
    )
    noises = [*dict.fromkeys(table["noise"])]

    size = (PAGE if len(noises) > 1 else COLUMN, 5.4)
    figure, axes = new_figure(size, len(ROWS_OF_FIGURE), len(noises), sharex=True, sharey="row")
    for noise, column in zip(noises, axes.T, strict=True):
        for ax, quantity in zip(column, ROWS_OF_FIGURE, strict=True):
            for algorithm in EXPLAINED_ALGORITHMS:
                rows = means[(means["noise"] == noise) & (means["algorithm"] == algorithm)]
                look = LOOKS[algorithm]
                line = {"color": look.color, "linestyle": look.linestyle, "marker": look.marker}
                ax.plot(rows["depth"], rows[quantity], **line, clip_on=False)
                if quantity == "coverage_own" and algorithm == "pf-pne":
                    ax.plot(rows["depth"], rows["coverage_shared"], color=look.color, linewidth=0.6)
                if quantity == "spent":
                    cut = rows["cut"] > rows["spent"] / 2
                    ax.plot(rows["depth"][cut], rows["spent"][cut], "x", color="black", markersize=5, zorder=4)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        column[0].set_title(noise_in_words(noise))
        column[-1].set_xlabel("depth $h$")
    for ax, (quantity, name) in zip(axes[:, 0], ROWS_OF_FIGURE.items(), strict=True):
        ax.set(ylabel=name, ylim=(0, None if quantity == "nodes" else 1))
    shared = {"color": LOOKS["pf-pne"].color, "linewidth": 0.6, "label": "PF-PNE, shared means"}
    unfinished = {"color": "black", "marker": "x", "markersize": 5, "linestyle": "none", "label": "mostly unfinished"}
    more = [Line2D([], [], **shared), Line2D([], [], **unfinished)]
    legend(
        figure,
        [name for name in LOOKS if name in EXPLAINED_ALGORITHMS],
        len(EXPLAINED_ALGORITHMS) + 2 if len(noises) > 1 else 2,
        more=more,
    )
    return figure_exhibit(figure, "why", caption, table)


def write_causes(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Explain in words why PF-PNE wins or loses: one paragraph per cause, with PF-PNE+'s remedy for it.

    Parameters
    ----------
    table : pandas.DataFrame
        As `count_causes` returns it.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The text, in Markdown.
    """
    noises, settings = [*dict.fromkeys(table["noise"])], FedPNESettings()
    runs = table.groupby(["noise", "algorithm", "run"])
    last = runs.apply(lambda rows: rows.loc[rows["removed"].last_valid_index() or rows.index[0]], include_groups=False)
    summaries = {
        "coverage_own": "mean",
        "coverage_server": "mean",
        "coverage_shared": "last",
        "cut": "sum",
    }  # last: the last that is not nan
    by_run = pd.concat([last["removed"], runs[[*summaries]].agg(summaries)], axis=1)
    means = by_run.groupby(["noise", "algorithm"], sort=False).mean()
    depth = last.xs("pf-pne", level="algorithm")["depth"].groupby("noise").min()  # the last depth that PF-PNE finishes
    at_depth = table[table["depth"] == table["noise"].map(depth)].groupby(["noise", "algorithm"])
    means = means.join(at_depth[["nodes", "missed"]].mean())

    def by_noise(column: str, name: str, form: str = "{:.0%}") -> str:
        """The column of an algorithm, one noise after another."""
        values = [means.at[(noise, name), column] for noise in noises]
        return listed(DASH if np.isnan(x) else form.format(x) for x in values)

    log_term = settings.log_term_for(p.horizon, p.n_clients)
    order = f"In this order: {', '.join(map(noise_in_words, noises))}. " if len(noises) > 1 else ""
    paragraphs = [
        f"{TITLES[p.objective]}, M = {p.n_clients}, T = {p.horizon:,}, shift {p.shift:g}, {p.n_runs} runs. {order}"
        f"The last depth that PF-PNE finishes is {listed(int(depth[noise]) for noise in noises)}.",
        "**It removes what it looks for.** At that depth, no cell around their own optimum is left to"
        f" {by_noise('removed', 'pf-pne')} of PF-PNE's clients. Under Fed-PNE that is so for"
        f" {by_noise('removed', 'fed-pne')}, under PE for {by_noise('removed', 'pe')}.",
        "**The intervals are too narrow for the noise, or the cells vary by more than nu_1 rho^h.** With c ="
        f" {settings.c:g} and log(c_1 T / delta) = {log_term:.1f}, {by_noise('coverage_own', 'pf-pne')} of the"
        " intervals of clients' own means contain the value at the centre of the cell. (For Fed-PNE, and f-bar, it is"
        f" {by_noise('coverage_server', 'fed-pne')}.) The theory asks for c >= 2, and then all contain it except with"
        " probability 2 delta / T^6. If nearly all contain it and optima are lost all the same, then it is the"
        " smoothness that fails.",
        "**A shared mean is not a client's own.** At the nodes that the server keeps, a client takes the mean of all"
        " clients for its own, as if it were no more than b away. At the last of these depths that is true for"
        f" {by_noise('coverage_shared', 'pf-pne')}.",
        "**What the server keeps is never removed again, and splits for ever.** At the last depth that PF-PNE"
        f" finishes, a client pulls {by_noise('nodes', 'pf-pne', '{:.1f}')} nodes. Under PE it pulls"
        f" {by_noise('nodes', 'pe', '{:.1f}')}.",
        "**The longest phase is never finished**, and nothing is learnt from it. It takes"
        f" {by_noise('cut', 'pf-pne')} of T under PF-PNE.",
        "**What PF-PNE+ does about each cause.** Its first stage ends when clients are seen to differ. HCT, which"
        " follows, eliminates nothing for good, so no optimum is removed. Its c follows the noise:"
        f" {by_noise('coverage_own', 'pf-pne+')} of the intervals contain their value, those with shared means"
        f" included. At the same depth a client pulls {by_noise('nodes', 'pf-pne+', '{:.1f}')} nodes, in no phase that"
        " could stay unfinished. The smoothness is still assumed. At that depth, the point that a client would deploy"
        f" is outside the cell around its own optimum for {by_noise('missed', 'pf-pne+')} of the clients (PF-PNE:"
        f" {by_noise('missed', 'pf-pne')}; PE: {by_noise('missed', 'pe')}).",
    ]
    text = "\n\n".join(paragraphs) + "\n"
    return text_exhibit("why_in_words", f"Why, on {TITLES[p.objective]}.", text)
