"""What the paper's theory supposes of a problem and promises of PF-PNE, looked up run by run.

Each function is of (experiment, run), and returns plain numbers.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from pfpne.algorithms import ALGORITHMS
from pfpne.algorithms.pf_pne import PFPNE, PhasedServer, radius, tau
from pfpne.algorithms.phases import Pull, lookup_sorted
from pfpne.paper.claims.premises import way
from pfpne.paper.run.experiment import Experiment
from pfpne.rng import stream
from pfpne.simulation.phased import simulate_phases
from pfpne.simulation.simulate import partition_of

EVENTS = {
    "means": "means that nodes are eliminated by, the server's and the clients'",
    "outside": "those further from what they estimate than their half-width",
    "lost": "clients whose maximum lies in a node that was eliminated",
}
RANDOM = 1_000  # points drawn


def gap_of_chance(experiment: Experiment, run: int) -> float:
    """f_m* less the mean of f_m at points drawn uniformly from the domain, or of all that it has a value at."""
    problem = experiment.problem(run)
    x = problem.candidates
    if x is None:
        x = stream(experiment.seed, problem.name, run, "chance").uniform(*problem.domain.T, (RANDOM, problem.d))
    return float((problem.optimum - problem.values(x).mean(axis=1)).mean())


def gaps_at_global_maximum(experiment: Experiment, run: int) -> list[float]:
    """f_m* - f_m of each client, at the global objective's maximum."""
    problem = experiment.problem(run)
    return (problem.optimum - problem.values(problem.global_maximiser[None])[:, 0]).tolist()


def gaps_on_the_way(experiment: Experiment, run: int, depth: int) -> list[float]:
    """At each depth to this one, the largest f_m* - f_m(centre) over the clients, of the cell with f_m's maximum."""
    problem = experiment.problem(run)
    partition, owner = partition_of(problem, experiment.cells, experiment.seed, run), np.arange(problem.n_clients)
    nodes = way(partition, problem.maximisers, depth)
    values = [problem.paired_values(owner, partition.centers(h, index)) for h, index in enumerate(nodes)]
    return [float((problem.optimum - value).max()) for value in values]


class Observed(PFPNE):
    """PF-PNE, which looks at what its loop asks for and is told. errors: whether each mean is further from what it
    estimates than its half-width; lost (M,): whose maximum was eliminated.
    """

    def __init__(self, task, settings, S, problem):
        super().__init__(task, settings, S)
        self.problem, self.errors, self.lost = problem, [], np.zeros(S, dtype=bool)
        self.maxima = way(task.partition, problem.maximisers, task.partition.max_depth)
        self.shared = self.own = None  # what PE is given

    def loop(self):
        loop, told, pulled = super().loop(), None, None
        while True:
            want, before = loop.send(told), ~self.done
            told = yield want
            if not isinstance(want, Pull):
                self.together(pulled, want.means)
            elif self.shared is not None and want.h < self.task.partition.max_depth:  # else it plays the best to T
                self.alone(want, told, before)
            pulled = want

    def pe(self, shared, own):
        self.shared, self.own = shared, own
        return super().pe(shared, own)

    def outside(self, mean: np.ndarray, value: np.ndarray, n) -> None:
        self.errors.append(np.abs(mean - value) > radius(n, self.log, self.settings.c))

    def together(self, pulled: Pull, means: np.ndarray) -> None:
        """means (S, n): what the clients send the server of the nodes that they have pulled."""
        points = self.task.partition.centers(pulled.h, pulled.index[: means.shape[1]])
        self.outside(means.mean(axis=0), self.problem.mean_values(points), len(means) * pulled.counts[0])

    def alone(self, pulled: Pull, sums: np.ndarray, before: np.ndarray) -> None:
        """One depth of PE. before (S,): whom the horizon had not cut then; the others know no more."""
        h, owner, index, n = pulled
        s, sums, n, spared = self.settings, sums.copy(), n.copy(), np.zeros(self.S, dtype=bool)
        if h in self.own:
            nodes, drawn, of_each = self.own[h]
            found, column = lookup_sorted(index, nodes)
            sums[found] += drawn[owner[found], column]
            n[found] += of_each
            spared, _ = lookup_sorted(self.maxima[h], self.shared[h][0])
            if of_each >= tau(h, self.log, s.c, s.nu_1, s.rho):
                return  # nodes that were sampled enough together are not pulled, and not seen here
        there = np.isin(np.arange(self.S), owner[index == self.maxima[h][owner]])
        self.lost |= before & ~there & ~spared
        whole = ~self.done[owner]  # what the horizon has not cut
        value = self.problem.paired_values(owner[whole], self.task.partition.centers(h, index[whole]))
        self.outside(sums[whole] / n[whole], value, n[whole])


def of_run(experiment: Experiment, run: int) -> list[int]:
    """The numbers of EVENTS, of PF-PNE with the experiment's settings, run again."""
    problem, made = experiment.problem(run), []

    def watched(*arguments):
        made.append(Observed(*arguments, problem))
        return made[0]

    algorithm = replace(ALGORITHMS["pf-pne"], fast=partial(simulate_phases, watched, PhasedServer))
    experiment.simulate(algorithm, run)
    errors = np.concatenate(made[0].errors)
    return [len(errors), int(errors.sum()), int(made[0].lost.sum())]
