"""Why PF-PNE wins or loses, depth by depth: what its elimination removes, what its intervals cover, where T goes."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from pfpne.algorithms import make_settings
from pfpne.algorithms.pf_pne import PhasedSettings, radius
from pfpne.algorithms.pf_pne_plus import PFPNEPlus, PlusServer
from pfpne.federation import Task
from pfpne.paper.claims.premises import way
from pfpne.paper.claims.watch import levels, watch
from pfpne.paper.run import cache
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import unordered
from pfpne.paper.show.export import Exhibit, text_exhibit
from pfpne.paper.show.plot import figure_exhibit, legend, new_figure, our_style
from pfpne.paper.show.style import COLUMN, DASH, LOOKS, PAGE, TITLES, noise_in_words
from pfpne.partition import Partition
from pfpne.problems import Problem
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.phased import Evaluations, run_phases
from pfpne.simulation.simulate import partition_of
from pfpne.simulation.tree import Cells, play

PHASED, SHOWN = ("pf-pne", "fed-pne", "pe"), ("pf-pne", "fed-pne", "pe", "pf-pne+")
COLUMNS = {  # of a depth of a run; nan where there is nothing to count
    "depth": "0, 1, ...",
    "removed": "share of the clients for which no cell around their own optimum is kept",
    "own": "share of the intervals of clients' own means that hold f_m at the centre",
    "global": "share of the server's intervals that hold f-bar at the centre",
    "borrowed": "share of the server's intervals of nodes that stay, as every client uses them, that hold f_m",
    "missed": "share of the clients that would deploy, at T, a point outside the cell around their own optimum",
    "nodes": "nodes that a client pulls, in phases that end before T",
    "spent": "share of T",
    "cut": "share of T in phases that the horizon cuts",
}
NOTHING = dict.fromkeys(COLUMNS, np.nan)


def depths_of_phases(name: str, problem: Problem, horizon: int, partition: Partition) -> list[dict]:
    """A row a depth, COLUMNS, of a run of pf-pne, fed-pne or pe."""
    seen = watch(name, problem, horizon, partition=partition)
    M, s = problem.n_clients, seen.server.settings
    log, kept = s.log_term(seen.server.task), [seen.shared] * M if name == "fed-pne" else seen.own
    pulled = [(m, *of, *what) for m, client in enumerate(seen.clients) for of, what in client.pulled.items()]
    table = pd.DataFrame(pulled, columns=["m", "depth", "index", "n", "total"])
    H = table["depth"].max()
    optima, deployed = (np.transpose(way(partition, xs, H)) for xs in (problem.maximisers, seen.run.best))
    K, rows = levels(partition, seen.shared), []
    for h in range(H + 1):
        of = table[table["depth"] == h]  # nothing where Fed-PNE expands
        row, protected = NOTHING | {"depth": h}, ()
        if h in seen.means:
            mean, b = seen.means[h].mean(axis=0), radius(seen.server.samples(h), log, s.c)
            f, protected = problem.values(partition.centers(h, K[h])), seen.shared[h]
            row["global"] = np.mean(np.abs(mean - f.mean(axis=0)) <= b)
            row["borrowed"] = np.mean(np.abs(mean - f)[:, np.isin(K[h], protected)] <= b)
        row["missed"] = np.mean(deployed[:, h] != optima[:, h])
        done = np.array([h < len(own) for own in kept])  # who ends this phase
        ends = done[of["m"]]
        if done.any():
            row["removed"] = np.mean([optima[m, h] not in kept[m][h] for m in np.flatnonzero(done)])
            row["nodes"] = ends.sum() / done.sum()
        own = of[ends & ~of["index"].isin(protected)]
        if name != "fed-pne" and len(own):
            f = problem.paired_values(own["m"].to_numpy(), partition.centers(h, own["index"].to_numpy()))
            row["own"] = np.mean(np.abs(own["total"] / own["n"] - f) <= radius(own["n"], log, s.c))
        rows.append(row | {"spent": of["n"].sum() / M / horizon, "cut": of["n"][~ends].sum() / M / horizon})
    return rows


class _Noted(Evaluations):
    """Evaluations that note how many a client makes at each depth."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.made = Counter()

    def pull(self, want, done):
        self.made[want.h] += want.counts.sum() / self.task.n_clients
        return super().pull(want, done)


def depths_of_trees(name: str, problem: Problem, horizon: int, partition: Partition) -> list[dict]:
    """The same of pf-pne+, which eliminates nothing for good and has no phase that the horizon cuts.

    own: of the intervals of its trees at T, which hold what the others measured, too.
    """
    settings, M, seed, run = make_settings(name, {}, problem), problem.n_clients, problem.seed, problem.run
    task = Task(partition, M, horizon, problem.noise, problem.candidates, seed, key=(problem.name, run))
    streams = noise_streams(problem, seed, run)
    given = problem, task, settings, streams, np.array([horizon]), False
    evaluations, search = run_phases(PFPNEPlus, PlusServer, *given, kind=_Noted)
    if search is None:  # the horizon came in stage 1
        return [NOTHING | {"depth": h, "spent": n / horizon} for h, n in evaluations.made.items()]
    cells, left, parts, deployed = Cells(problem, partition, range(M)), horizon - int(evaluations.t[0]), [], []
    for m, tree in enumerate(search.trees):
        size = tree.state[0]["size"]
        before = tree.node["count"][:size].copy()
        _, best = play(cells, tree, left, range(m, m + 1), streams)
        deployed.append(cells.point[best[0, -1]])
        node, state = tree.node[: tree.state[0]["size"]], tree.state[0]
        made = node["count"] - np.pad(before, (0, len(node) - size))
        table = pd.DataFrame({"m": m, "depth": node["depth"], "index": node["index"], "made": made})
        table["b"] = np.sqrt(tree.constants.squared_width[state["epoch"]] / np.maximum(node["count"], 1))
        table["mean"] = node["total"] / np.maximum(node["count"], 1)
        parts.append(table[node["count"] > 0])
    table, rows = pd.concat(parts), []
    H = table["depth"].max()
    deployed, optima = (np.transpose(way(partition, np.array(xs), H)) for xs in (deployed, problem.maximisers))
    for h, of in table.groupby("depth"):
        f = problem.paired_values(of["m"].to_numpy(), partition.centers(h, of["index"].to_numpy()))
        row = NOTHING | {"depth": h, "removed": 0.0, "cut": 0.0}
        row["missed"] = np.mean(deployed[:, h] != optima[:, h])
        row |= {"own": np.mean(np.abs(of["mean"] - f) <= of["b"]), "nodes": (of["made"] > 0).sum() / M}
        rows.append(row | {"spent": (of["made"].sum() / M + evaluations.made[h]) / horizon})
    return rows


def _rows(experiment: Experiment, name: str, run: int) -> list[list]:
    problem = experiment.problem(run)
    partition = partition_of(problem, experiment.cells, experiment.seed, run)
    of = depths_of_phases if name in PHASED else depths_of_trees
    return [[float(row[column]) for column in COLUMNS] for row in of(name, problem, experiment.horizon, partition)]


def _stored(experiment: Experiment, name: str, run: int, folder: Path) -> list[list]:
    key = cache.key({"run": experiment.key(name, run)}, _rows)
    return cache.rows(key, lambda: _rows(experiment, name, run), folder)


def measure(p: Parameters, folder: Path = RESULTS) -> pd.DataFrame:
    """A row a depth of a run of each algorithm of SHOWN: noise (all of the profile's), algorithm, run, COLUMNS."""
    experiments = [p.experiment(noise=noise, algorithms=SHOWN) for noise in PROFILES[p.profile].noises]
    jobs = [(e, name, run, folder) for e in experiments for name in SHOWN for run in range(e.n_runs)]
    bar = None if experiments[0].is_small(len(jobs)) else progress("depth by depth")
    found = sorted(unordered(_stored, jobs, p.n_jobs, bar, experiments[0].is_small(len(jobs))))
    parts = [
        pd.DataFrame(rows, columns=[*COLUMNS]).assign(noise=e.noise, algorithm=name, run=run)
        for (_, rows), (e, name, run, _) in zip(found, jobs, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)[["noise", "algorithm", "run", *COLUMNS]]


ROWS = {  # of the figure
    "removed": "optimum removed\n(share of clients)",
    "own": "covered\n(share of intervals)",
    "nodes": "nodes pulled\nby a client",
    "spent": "share of $T$",
}


@our_style()
def draw(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Against depth: one column per noise, rows for what is removed, covered, pulled and spent."""
    means = table.drop(columns="run").groupby(["noise", "algorithm", "depth"], sort=False).mean().reset_index()
    means["own"] = means["own"].mask(means["algorithm"] == "fed-pne", means["global"])  # the only ones that it has
    caption = (
        f"Depth by depth, on {TITLES[p.objective]}: M = {p.n_clients} clients, T = {p.horizon:,}, shift {p.shift:g}, "
        f"means of {p.n_runs} runs, with the settings of the paper. First row: the share of clients for which no cell "
        "around their own optimum is left. Second row: the share of confidence intervals that contain the value at "
        "the centre, f_m (for Fed-PNE f-bar); the thin line is PF-PNE's means of all clients, as each client uses "
        "them for its own f_m. Third row: the nodes that a client pulls, in finished phases. Fourth row: the share "
        "of T that goes to each depth; at a cross most of it goes to unfinished phases."
    )
    noises = [*dict.fromkeys(table["noise"])]

    size = (PAGE if len(noises) > 1 else COLUMN, 5.4)
    figure, axes = new_figure(size, len(ROWS), len(noises), sharex=True, sharey="row")
    for noise, column in zip(noises, axes.T, strict=True):
        for ax, quantity in zip(column, ROWS, strict=True):
            for algorithm in SHOWN:
                rows = means[(means["noise"] == noise) & (means["algorithm"] == algorithm)]
                look = LOOKS[algorithm]
                line = {"color": look.color, "linestyle": look.linestyle, "marker": look.marker}
                ax.plot(rows["depth"], rows[quantity], **line, clip_on=False)
                if quantity == "own" and algorithm == "pf-pne":
                    ax.plot(rows["depth"], rows["borrowed"], color=look.color, linewidth=0.6)
                if quantity == "spent":
                    cut = rows["cut"] > rows["spent"] / 2
                    ax.plot(rows["depth"][cut], rows["spent"][cut], "x", color="black", markersize=5, zorder=4)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        column[0].set_title(noise_in_words(noise))
        column[-1].set_xlabel("depth $h$")
    for ax, (quantity, name) in zip(axes[:, 0], ROWS.items(), strict=True):
        ax.set(ylabel=name, ylim=(0, None if quantity == "nodes" else 1))
    legend(figure, [name for name in LOOKS if name in SHOWN], len(SHOWN) if len(noises) > 1 else 2)
    return figure_exhibit(figure, "why", caption, table)


def _listed(words) -> str:
    *first, end = map(str, words)
    return f"{', '.join(first)} and {end}" if first else end


def in_words(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """The explanation, made of the table: a paragraph a cause, and what PF-PNE+ does about it."""
    noises, settings = [*dict.fromkeys(table["noise"])], PhasedSettings()
    runs = table.groupby(["noise", "algorithm", "run"])
    last = runs.apply(lambda of: of.loc[of["removed"].last_valid_index() or of.index[0]], include_groups=False)
    how = {"own": "mean", "global": "mean", "borrowed": "last", "cut": "sum"}  # last: that is known
    both = pd.concat([last["removed"], runs[[*how]].agg(how)], axis=1)
    means = both.groupby(["noise", "algorithm"], sort=False).mean()
    depth = last.xs("pf-pne", level="algorithm")["depth"].groupby("noise").min()  # the last that PF-PNE finishes
    there = table[table["depth"] == table["noise"].map(depth)].groupby(["noise", "algorithm"])
    means = means.join(there[["nodes", "missed"]].mean())

    def each(column: str, name: str, form: str = "{:.0%}") -> str:
        """The column of an algorithm, a noise after another."""
        found = [means.at[(noise, name), column] for noise in noises]
        return _listed(DASH if np.isnan(x) else form.format(x) for x in found)

    log = settings.log_term(Task(Partition([[0, 1]]), p.n_clients, p.horizon))
    of_noises = f"In this order: {', '.join(map(noise_in_words, noises))}. " if len(noises) > 1 else ""
    paragraphs = [
        f"{TITLES[p.objective]}, M = {p.n_clients}, T = {p.horizon:,}, shift {p.shift:g}, {p.n_runs} runs. {of_noises}"
        f"The last depth that PF-PNE finishes is {_listed(int(depth[noise]) for noise in noises)}.",
        "**It removes what it looks for.** At that depth, no cell around their own optimum is left to "
        f"{each('removed', 'pf-pne')} of PF-PNE's clients. Under Fed-PNE that is so for {each('removed', 'fed-pne')}, "
        "under "
        f"PE for {each('removed', 'pe')}.",
        "**The intervals are too narrow for the noise, or the cells vary by more than nu_1 rho^h.** With c = "
        f"{settings.c:g} and log(c_1 T / delta) = {log:.1f}, {each('own', 'pf-pne')} of the intervals of clients' own "
        "means contain the value at the centre of the cell. (For Fed-PNE, and f-bar, it is "
        f"{each('global', 'fed-pne')}.) The theory asks for c >= 2, and then all contain it except with probability 2 "
        "delta / T^6. If nearly all contain it and "
        "optima are lost all the same, then it is the smoothness that fails.",
        "**A shared mean is not a client's own.** At the nodes that the server keeps, a client takes the mean of all "
        "clients for its own, as if it were no more than b away. At the last of these depths that is true for "
        f"{each('borrowed', 'pf-pne')}.",
        "**What the server keeps is never removed again, and splits for ever.** At the last depth that PF-PNE "
        "finishes, a "
        f"client pulls {each('nodes', 'pf-pne', '{:.1f}')} nodes. Under PE it pulls {each('nodes', 'pe', '{:.1f}')}.",
        f"**The longest phase is never finished**, and nothing is learnt from it. It takes {each('cut', 'pf-pne')} of "
        "T under "
        "PF-PNE.",
        "**What PF-PNE+ does about each cause.** Its first stage ends when clients are seen to differ. HCT, which "
        "follows, eliminates nothing for good, so no optimum is removed. Its c follows the noise: "
        f"{each('own', 'pf-pne+')} of the intervals contain their value, those with shared means included. At the "
        f"same depth a client pulls {each('nodes', 'pf-pne+', '{:.1f}')} nodes, in no phase that could stay "
        "unfinished. The smoothness is still assumed. At that depth, the point that a client would deploy is outside "
        "the cell around its own optimum for "
        f"{each('missed', 'pf-pne+')} of the clients (PF-PNE: {each('missed', 'pf-pne')}; PE: {each('missed', 'pe')}).",
    ]
    text = "\n\n".join(paragraphs) + "\n"
    return text_exhibit("why_in_words", f"Why, on {TITLES[p.objective]}.", text)
