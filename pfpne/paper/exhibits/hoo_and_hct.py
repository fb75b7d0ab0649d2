"""Which difference between HOO and HCT decides on rastrigin: mixtures of parts of HOO and parts of HCT."""

from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms.hct import HCTConstants, HCTSettings, TreeClient, hct_constants
from pfpne.algorithms.hoo import hoo_constants
from pfpne.federation import Task
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.rows import rows_of_runs
from pfpne.partition import Partition
from pfpne.simulation.noise import noise_streams
from pfpne.simulation.tree import ReachedCells, play

# Mixture -> its parts from HOO; it has the others from HCT. The parts are
# - width: the interval of a node, sqrt(2 log T / n) instead of c sqrt(log(1/delta~) / n), c = 0.1;
# - credit: a reward counts at every node above the one pulled, too;
# - splits: a node is split at its first pull, down to the truncation depth, instead of after tau_h pulls.
MIXTURES = {
    "HCT": (),
    "HCT, HOO's width": ("width",),
    "HCT, HOO's credit": ("credit",),
    "HCT, HOO's splits": ("splits",),
    "HOO, HCT's width": ("credit", "splits"),
    "HOO, HCT's credit": ("width", "splits"),
    "HOO, HCT's splits": ("width", "credit"),
    "HOO": ("width", "credit", "splits"),
}


def constants_with_parts(parts: tuple[str, ...], partition: Partition, horizon: int) -> HCTConstants:
    """HCT's constants, with the given parts replaced by HOO's."""
    settings = HCTSettings()
    hct, hoo = (make(settings, partition, horizon) for make in (hct_constants, hoo_constants))
    if "splits" in parts:
        hct = hct._replace(threshold=hoo.threshold)
    if "width" in parts:
        hct = hct._replace(squared_half_width=hoo.squared_half_width)
    return hct._replace(credit_path="credit" in parts)


def _run_mixture(experiment: Experiment, run: int, mixture: str) -> list[float]:
    """Run one of MIXTURES; return means over the clients: R(T), mean and largest depth of a pull, pulled nodes."""
    problem, T, parts = experiment.problem(run), experiment.horizon, MIXTURES[mixture]
    partition = experiment.partition(run)
    task = Task(partition, problem.n_clients, T, problem.noise, problem.candidates, experiment.seed)
    cells = ReachedCells(problem, partition, range(problem.n_clients))
    streams, totals = noise_streams(problem, experiment.seed, run), []
    for m in range(problem.n_clients):
        tree = TreeClient(task, constants_with_parts(parts, partition, T))
        pulled, _ = play(cells, tree, T, range(m, m + 1), streams)
        node = tree.node[: tree.state[0]["size"]]
        pulls = node["count"].copy()
        if "credit" in parts:  # pulls below a node count at the node, too
            np.subtract.at(pulls, node["parent"][1:], node["count"][1:])
        regret = (problem.optimum[m] - cells.value[pulled[0], m]).sum()
        totals.append([regret, pulls @ node["depth"] / T, node["depth"][pulls > 0].max(), (pulls > 0).sum()])
    return np.mean(totals, axis=0).tolist()


def run_mixtures(p: Parameters, folder: Path = RESULTS_FOLDER) -> pd.DataFrame:
    """Run each of MIXTURES once, on rastrigin with Bernoulli rewards: one row each, means over the clients."""
    experiment = p.experiment("rastrigin", "bernoulli", ("hct",), n_runs=1)
    arguments = [(mixture,) for mixture in MIXTURES]
    rows = rows_of_runs(_run_mixture, [experiment], p.n_jobs, folder, "HOO and HCT", arguments)
    table = pd.DataFrame(rows, columns=["regret", "depth", "deepest", "nodes"])
    return table.assign(mixture=[*MIXTURES])[["mixture", *table.columns]]


def three_digits(value: float) -> str:
    """Three significant digits, written out."""
    return f"{float(f'{value:.3g}'):,.0f}"


def mixtures_in_words(mixtures: pd.DataFrame) -> str:
    """The effect of each part of HOO on HCT's regret, and of each part of HCT on HOO's, in three sentences."""
    means = mixtures.set_index("mixture")
    regret = means["regret"]
    into = {part: regret[f"HCT, HOO's {part}"] / regret["HCT"] for part in ("width", "credit", "splits")}
    back = {part: regret[f"HOO, HCT's {part}"] / regret["HOO"] for part in into}

    def listed(ratios: dict) -> str:
        return ", ".join(f"{part} {ratio:.2f}" for part, ratio in ratios.items())

    both = means.loc[["HOO", "HCT"]]
    return (
        f"R(T)/M is {three_digits(regret['HOO'])} with HOO and {three_digits(regret['HCT'])} with HCT, as means"
        " over the clients of one run. If HCT takes one part from HOO, its regret is multiplied by this: "
        f"{listed(into)}. If HOO takes one part from HCT, its regret is multiplied by this: {listed(back)}. On average "
        f"HOO pulls at depth {both['depth'].iloc[0]:.1f} and HCT at depth {both['depth'].iloc[1]:.1f}. A client pulls "
        f"{both['nodes'].iloc[0]:,.0f} nodes with HOO and {both['nodes'].iloc[1]:,.0f} with HCT."
    )
