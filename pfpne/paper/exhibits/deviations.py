"""How much a deviation from the paper changes a curve: R(T)/M under another reading, over R(T)/M under ours.

docs/deviations.md lists the deviations, by number, and has the table that `tabulate` makes of OTHER_READINGS. The
classes are VARIANTS of our algorithms, with one thing changed, which `simulate` runs on the same problems and the same
noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.fed1_ucb import Fed1UCBClient, make_fed1_ucb
from pfpne.algorithms.fn_ucb import gradients, network, train, upper_bound
from pfpne.algorithms.pf_pne import PE, PFPNE, FedPNE, FedPNEServer, PhasedServer, tau
from pfpne.algorithms.phases import PhasedAlgorithm, Pull, lookup_sorted, make_phased
from pfpne.federation import Batch, Server
from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import theory_settings
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.paper.show.export import Exhibit, table_exhibit
from pfpne.paper.show.style import DASH
from pfpne.partition import Partition
from pfpne.rng import stream
from pfpne.simulation.neural import NeuralSimulation, Ridge, simulate_fn_ucb
from pfpne.simulation.noise import noisy
from pfpne.simulation.phased import simulate_phases


class DepthOne(PFPNE):
    """Deviation 3: server, clients and PE start at depth 1, with the root's children. No partition ends at depth 0."""

    @staticmethod
    def start(task):
        return 1, task.partition.children(1)


class DepthOneServer(PhasedServer):
    start_at = staticmethod(DepthOne.start)


class Fresh(PFPNE):
    """Deviation 5: PE takes tau_h new samples of every node that the server eliminated."""

    def pe(self, shared, own):
        protected = {h: lookup_sorted(index, shared[h][0])[0] for h, (index, *_) in own.items()}
        drawn = {h: (index[protected[h]], sums[:, protected[h]], n) for h, (index, sums, n) in own.items()}
        return super().pe(shared, drawn)


class TauServer(PhasedServer):
    """Deviation 6: b takes tau_h for the number of samples, not M ceil(tau_h / M)."""

    def samples(self, h):
        return tau(h, self.log, self.settings.c, self.settings.nu_1, self.settings.rho)


class TauFedPNEServer(TauServer, FedPNEServer):
    """Deviation 6, in Fed-PNE."""


class OwnBest(PFPNE):
    """Deviation 7: PE's arg max leaves out the protected nodes. A mean of -inf is never the largest, and they stay."""

    def pe(self, shared, own):
        never = {h: (index, np.full(len(mean), -np.inf), b) for h, (index, mean, b) in shared.items()}
        return super().pe(never, own)


class NoCutPhase(PhasedAlgorithm):
    """Deviation 9: a phase that the horizon would cut is not begun; the best node known is played instead.

    It goes in front of an algorithm's phases, as in WholePhases.
    """

    def __init__(self, task, settings, S):
        super().__init__(task, settings, S)
        h, index = self.start(task)
        self.t, self.deepest = np.zeros(S, dtype=np.int64), (h, np.repeat(index[:1], S))

    def record_depth(self, h, owners, nodes):
        going = ~self.done[owners]
        if h >= self._best_depth:
            nodes_now = self.deepest[1].copy()
            nodes_now[owners[going]] = nodes[going]
            self.deepest = h, nodes_now
        return super().record_depth(h, owners, nodes)

    def loop(self):
        loop, told = super().loop(), None
        while True:
            want = loop.send(told)
            if not isinstance(want, Pull):
                told = yield want
                continue
            wanted = np.bincount(want.owner, want.counts, self.S).astype(np.int64)
            short = np.flatnonzero((self.t + wanted > self.task.horizon) & (wanted > 0))
            stays, told = ~np.isin(want.owner, short), np.zeros(len(want.owner))
            if len(short):  # for them it is the end
                h, nodes = self.deepest
                yield Pull(h, short, nodes[short], np.full(len(short), self.task.horizon + 1))
            if stays.any():
                told[stays] = yield Pull(want.h, *(column[stays] for column in want[1:]))
            self.t += wanted


class WholePhases(NoCutPhase, PFPNE):
    """Deviation 9, in PF-PNE."""


class WholeFedPNE(NoCutPhase, FedPNE):
    """Deviation 9, in Fed-PNE."""


class WholePE(NoCutPhase, PE):
    """Deviation 9, in PE."""


class WholeFed1UCBClient(Fed1UCBClient):
    """Deviation 9, in Fed1-UCB: the best arm is played instead, the first one if no phase has ended yet."""

    def _ask(self):
        left = self.task.horizon - self.t
        if self.waiting or len(self.active) == 1 or left >= len(self.active) * self.pulls:
            return super()._ask()
        best = self.active[[np.argmax(self.sums[self.active])]]
        return Batch(self.arms[best], np.array([left]))


class LastOfEqual(PFPNE):
    """Deviation 10: of equal means the largest index wins. The server's b are equal: there a tie changes no pull."""

    @staticmethod
    def arg_max(values, start):
        ends = np.append(start[1:], len(values))
        return len(values) - 1 - PFPNE.arg_max(values[::-1], len(values) - ends[::-1])[::-1]


class Mirrored(Partition):
    """The same cells, those of a depth numbered from the other end: increasing index is decreasing, last is first."""

    def _cell(self, h, i):
        return super()._cell(h, self.k**h + 1 - np.asarray(i))


class Drifting(NeuralSimulation):
    """Deviation 24: one theta, whose storage all share. The clients train it in turn, and g is taken where it is."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        M, p = self.theta.shape
        self.own, self.apart = np.zeros((p, p)), np.zeros((p, p))  # sums of g g^T: each client's; all clients' of t = 1
        self.moments = np.zeros((M, p))  # sums of r g, each client's
        self.last = np.empty((0, p)), np.empty(0)  # the g of t = 1, and the share of clients of each

    def _step(self):
        s, M, inputs = self.settings, len(self.theta), self.arms.inputs
        g, alpha, prior = gradients(self.theta[0], inputs, s.width), s.alpha(self.t), s.lambda_ * np.eye(len(self.own))
        alone = self.t < 2  # nothing is communicated after t = 0
        inverse = np.linalg.inv(prior + (self.own if alone else M * self.own + self.apart))
        mean = (self.moments if alone else self.moments.sum(axis=0)) @ inverse @ g.T  # (M, K) or (K,)
        bounds = (1 - alpha) * upper_bound(mean, np.einsum("kp,kp->k", g @ inverse, g), s.nu, s.lambda_)
        if alpha > 0:
            variance = np.einsum("kp,kp->k", g @ self._mean_inverse(prior), g)
            bounds += alpha * upper_bound(self.value, variance, s.nu_2, s.lambda_)
        arms = np.full(M, np.argmax(bounds, axis=-1))
        rewards = self.values[np.arange(M), arms]
        if self.noise != 0:
            rewards = noisy(rewards, self.noise, np.array([rng.random() for rng in self.streams]))
        self.moments += rewards[:, None] * g[arms]
        if self.t == 1:
            different, counts = np.unique(arms, return_counts=True)
            self.last, self.apart = (g[different], counts / M), (g[different].T * counts) @ g[different]
        else:
            self.own += np.outer(g[arms[0]], g[arms[0]])
        if self.t >= s.start:
            self.history[arms[0]] += 1
            self.totals[:, arms[0]] += rewards
        if s.start <= self.t < s.stop:
            for m in range(M):
                train(self.theta[:1], inputs, self.history, self.totals[m : m + 1], s)
            self.value, _ = network(self.theta[0], inputs, s.width)
        if self.t + 1 >= s.stop and s.alpha(self.t + 1) == 1:
            self._settle(prior)
        return arms

    def _mean_inverse(self, prior):
        """The mean over clients of (lambda I + the sum of g g^T over the client's own data)^-1."""
        common = np.linalg.inv(prior + self.own)
        of_one = (common @ self.last[0].T).T  # by Sherman-Morrison, the one play of t = 1
        weight = self.last[1] / (1 + np.einsum("np,np->n", of_one, self.last[0]))
        return common - (of_one.T * weight) @ of_one

    def _settle(self, prior):
        """Nothing drifts any more: the plays go on from counts, those of t = 1 as arms that are never played."""
        g = np.concatenate([gradients(self.theta[0], self.arms.inputs, self.settings.width), self.last[0]])
        inverse, K, none = np.linalg.inv(prior + self.own), len(g), len(self.last[1])
        variance = np.einsum("kp,kp->k", g @ inverse, g)
        self.per_client = Ridge(g, np.zeros(K), variance, np.empty((K, K)), np.full(K, -1), inverse, np.zeros(K))
        self.first_arms = np.arange(K - none, K), self.last[1]
        self.value = np.concatenate([self.value, np.full(none, -np.inf)])


class Centred(NeuralSimulation):
    """Deviation 26: inputs are on [-1, 1]^d over sqrt d, around 0 as those of the public code."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        s, arms = self.settings, self.arms
        arms.inputs[:-1] = self.scaled(arms.inputs[:-1])  # nothing has been played yet
        g = gradients(arms.theta_0, arms.inputs, s.width)
        for ridge in (self.pooled, self.per_client):
            ridge.g[:], ridge.variance[:] = g, (g * g).sum(axis=1) / s.lambda_
        self.value, _ = network(arms.theta_0, arms.inputs, s.width)

    @staticmethod
    def scaled(inputs):
        return 2 * inputs - 1 / np.sqrt(len(inputs))


class Undivided(Centred):
    """Deviation 26: inputs are on [0, 1]^d."""

    @staticmethod
    def scaled(inputs):
        return inputs * np.sqrt(len(inputs))


def make_increasing(task, settings):
    """Deviation 26: Fed1-UCB's arms in increasing order, by their first coordinates first, not in a random one."""
    server, clients = make_fed1_ucb(task, settings)
    for client in clients:
        client.arms = client.arms[np.lexsort(client.arms.T[::-1])]
    return server, clients


def make_whole_fed1_ucb(task, settings):
    """Deviation 9, in Fed1-UCB."""
    server, clients = make_fed1_ucb(task, settings)
    return server, [WholeFed1UCBClient(task, client.arms, client.pulls) for client in clients]


def _phased(base: str, phases=PFPNE, server=PhasedServer) -> Algorithm:
    make, fast = partial(make_phased, phases, server), partial(simulate_phases, phases, server)
    return replace(ALGORITHMS[base], make=make, fast=fast)


_DRIFTING = replace(ALGORITHMS["fn-ucb"], fast=partial(simulate_fn_ucb, simulation=Drifting))
_CENTRED = replace(ALGORITHMS["fn-ucb"], fast=partial(simulate_fn_ucb, simulation=Centred))
_UNDIVIDED = replace(ALGORITHMS["fn-ucb"], fast=partial(simulate_fn_ucb, simulation=Undivided))

# name -> the algorithm that it is a variant of, what simulate runs, on which partition
VARIANTS = {
    "depth one": ("pf-pne", _phased("pf-pne", DepthOne, DepthOneServer), Partition),
    "fresh": ("pf-pne", _phased("pf-pne", Fresh), Partition),
    "decreasing": ("pf-pne", _phased("pf-pne", LastOfEqual), Mirrored),  # ties as ever
    "tau": ("pf-pne", _phased("pf-pne", server=TauServer), Partition),
    "tau, fed-pne": ("fed-pne", _phased("fed-pne", FedPNE, TauFedPNEServer), Partition),
    "own best": ("pf-pne", _phased("pf-pne", OwnBest), Partition),
    "whole phases": ("pf-pne", _phased("pf-pne", WholePhases), Partition),
    "whole phases, fed-pne": ("fed-pne", _phased("fed-pne", WholeFedPNE, FedPNEServer), Partition),
    "whole phases, pe": ("pe", _phased("pe", WholePE, Server), Partition),
    "whole phases, fed1-ucb": ("fed1-ucb", replace(ALGORITHMS["fed1-ucb"], make=make_whole_fed1_ucb), Partition),
    "last": ("pf-pne", _phased("pf-pne", LastOfEqual), Partition),
    "first child, hct": ("hct", "hct", Mirrored),
    "first child, hct-pyxab": ("hct-pyxab", "hct-pyxab", Mirrored),
    "drifting": ("fn-ucb", _DRIFTING, Partition),
    "centred": ("fn-ucb", _CENTRED, Partition),
    "undivided": ("fn-ucb", _UNDIVIDED, Partition),
    "increasing": ("fed1-ucb", replace(ALGORITHMS["fed1-ucb"], make=make_increasing), Partition),
}


@dataclass(frozen=True)
class OtherReading:
    """Another reading of what a deviation (its number) is about, and the algorithm that it is compared with.

    It is a variant, a row of VARIANTS; or a registered algorithm, the same if no other is named, under another noise,
    on other cells or with other settings (or a function of M that gives them); or the same runs, their regret
    against another maximum of each client, maximum(problem), one for all or (M,). noise: of both, but for other_noise.
    """

    deviation: int
    algorithm: str
    change: str
    variant: str = ""
    other: str = ""
    noise: float | str = "bernoulli"
    other_noise: float | str | None = None
    settings: dict | Callable[[int], dict] = field(default_factory=dict)
    cells: str = "random"
    maximum: Callable | None = None
    objectives: tuple[str, ...] = ONE_PER_DIMENSION

    def regret(self, study: Study, objective: str) -> np.ndarray:
        """R(T)/M (runs,) under this reading, run by run paired with ours."""
        n_runs = study.figure_runs
        if self.variant:
            return study.variant(objective, *VARIANTS[self.variant], self.noise, n_runs)
        settings = self.settings(study.n_clients) if callable(self.settings) else self.settings
        noise, other = self.noise if self.other_noise is None else self.other_noise, self.other or self.algorithm
        runs = study.runs(objective, other, noise, n_runs, settings=settings, cells=self.cells)
        regret = runs["regret"].to_numpy()
        if self.maximum is None:
            return regret
        experiment = study.experiment(objective, self.algorithm, self.noise, n_runs)
        problems = [experiment.problem(run) for run in range(n_runs)]
        return regret + [study.horizon * (self.maximum(problem) - problem.optimum).mean() for problem in problems]


def maximum_on_grid(problem) -> np.ndarray:
    """Each client's largest value (M,) on GRID_POINTS points from one end of a domain of one dimension to the other."""
    low, high = problem.domain[0]
    return problem.values(np.linspace(low, high, GRID_POINTS)[:, None]).max(axis=1)


GRID_POINTS = 1_001
OTHER_READINGS = (
    OtherReading(1, "pf-pne", "H_0 = 6, one less", settings={"Delta": 2.0**-6}),
    OtherReading(1, "pf-pne", "the largest h, not the smallest: no transition", settings={"Delta": 0.0}),
    OtherReading(1, "pf-pne", "the minus sign as printed: no federated stage, which is pe", other="pe"),
    OtherReading(3, "pf-pne", "start at depth 1", "depth one"),
    OtherReading(5, "pf-pne", "new samples only", "fresh"),
    OtherReading(5, "pf-pne", "nodes pulled in decreasing index", "decreasing"),
    OtherReading(6, "pf-pne", "tau_h samples in b", "tau"),
    OtherReading(6, "fed-pne", "tau_h samples in b", "tau, fed-pne"),
    OtherReading(7, "pf-pne", "the best of the client's own nodes", "own best"),
    OtherReading(8, "pf-pne", "c = 2, c_1 = (2 M^2)^(1/8)", settings=theory_settings),
    OtherReading(8, "fed-pne", "c = 2, c_1 = (2 M^2)^(1/8)", settings=theory_settings),
    OtherReading(9, "pf-pne", "no phase is begun that T cuts; the best node is played", "whole phases"),
    OtherReading(10, "pf-pne", "the largest index", "last"),
    OtherReading(10, "hct", "the first child", "first child, hct"),
    OtherReading(10, "hct-pyxab", "the first child", "first child, hct-pyxab"),
    OtherReading(
        11, "fed-pne", "no expansion: the pulls of pf-pne with Delta = 0", other="pf-pne", settings={"Delta": 0.0}
    ),
    OtherReading(14, "pf-pne", "1 for the maximum", maximum=lambda problem: 1.0, objectives=("garland",)),
    OtherReading(15, "hct", "hct-pyxab", other="hct-pyxab"),
    OtherReading(
        16,
        "pf-pne",
        f"the maximum of a grid of {GRID_POINTS:,} points",
        maximum=maximum_on_grid,
        objectives=("garland",),
    ),
    OtherReading(17, "pf-pne", "uniform noise on ±0.1", other_noise=0.1),
    OtherReading(17, "pf-pne", "uniform noise on ±2", other_noise=2.0),
    *(
        OtherReading(20, name, "cyclic cells", cells="cyclic", objectives=("himmelblau", "ackley", "rastrigin"))
        for name in ("pf-pne", "fed-pne", "pe", "hct", "hct-pyxab")
    ),
    OtherReading(
        24, "fn-ucb", "theta_0 drifts, as in the public code", "drifting", objectives=("garland", "himmelblau")
    ),
    OtherReading(26, "blin", "the theory's 16 and 4", settings={"c_pulls": 16.0, "c_gap": 4.0}),
    *(
        OtherReading(
            26, "fed1-ucb", f"both with noise ±{a:g}: the public code's sigma", noise=a, settings={"sigma": 0.5}
        )
        for a in (0.1, 2.0)
    ),
    OtherReading(26, "fed1-ucb", "arms in increasing order, not in a random one", "increasing"),
    OtherReading(26, "fn-ucb", "inputs on [-1, 1]^d over sqrt d", "centred", objectives=("garland", "himmelblau")),
    OtherReading(26, "fn-ucb", "inputs on [0, 1]^d, not over sqrt d", "undivided", objectives=("himmelblau",)),
    *(  # where PF-PNE is the smallest of the five
        OtherReading(number, "fn-ucb", f"both with noise ±2: {change}", variant, noise=2.0, objectives=("rastrigin",))
        for number, variant, change in (
            (24, "drifting", "theta_0 drifts"),
            (26, "centred", "inputs on [-1, 1]^d over sqrt d"),
            (26, "undivided", "inputs on [0, 1]^d, not over sqrt d"),
        )
    ),
    OtherReading(26, "hct-pyxab", "delta = 1/M, as PF-PNE's", settings=lambda M: {"delta": 1 / M}),
)
TABLE_COLUMNS = ("deviation", "algorithm", "other reading", "objective", "runs", "ratio", "low", "high")


def measure_deviations(study: Study) -> pd.DataFrame:
    """Measure every other reading: one row per reading and objective.

    ratio: of mean R(T)/M, other reading over ours; low, high: the ends of its 95 % interval.
    """
    rows = []
    for reading in OTHER_READINGS:
        for objective in reading.objectives:
            head = (reading.deviation, reading.algorithm, reading.change, objective)
            runs = study.runs(objective, reading.algorithm, reading.noise, study.figure_runs)
            ours = runs["regret"].to_numpy()
            ratio = stats.ratio_interval(
                reading.regret(study, objective), ours, stream(study.seed, "deviations", *head)
            )
            rows.append((*head, len(ours), *ratio))
    return pd.DataFrame(rows, columns=TABLE_COLUMNS)


def tabulate(study: Study) -> Exhibit:
    """Tabulate what other readings of the paper would change.

    Parameters
    ----------
    study : Study
        The scale of the runs.

    Returns
    -------
    Exhibit
        The table, and what `measure_deviations` returns as CSV.
    """
    table = measure_deviations(study)
    caption = (
        "Mean R(T)/M under another reading of the paper over mean R(T)/M under ours, with a bootstrap 95 % interval. "
        f"M = {study.n_clients}, T = {study.horizon:,}, {study.figure_runs} paired runs, Bernoulli rewards unless "
        "another noise is named."
    )
    return table_exhibit("deviations", caption, table_cells(table), {"deviations": table})


def table_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `measure_deviations` as strings: one row per reading, one column per objective."""
    names = {"deviation": "#", "algorithm": "Algorithm", "other reading": "Other reading"}
    cells = table.assign(deviation=table["deviation"].map("*{}*".format), cell=table.apply(_ratio_in_words, axis=1))
    cells = cells.set_index([*names, "objective"])["cell"].unstack(sort=False, fill_value=DASH)
    return cells[table["objective"].unique()].rename_axis(columns=None).reset_index().rename(columns=names)


def _ratio_in_words(row: pd.Series) -> str:
    if all(f"{row[name]:.6g}" == "1" for name in ("ratio", "low", "high")):  # as the CSV has it
        return "1 in every run"
    return f"{row['ratio']:.3f}" if pd.isna(row["low"]) else "{ratio:.3f} [{low:.3f}, {high:.3f}]".format(**row)
