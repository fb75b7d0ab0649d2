"""Variants of our algorithms, each with one change, for measuring other choices at the deviations.

`simulate` runs them on the same problems and the same noise. DEVIATION_VARIANTS names them; docs/deviations.md explains
each deviation by its number.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.fed1_ucb import Fed1UCBClient, make_fed1_ucb
from pfpne.algorithms.fn_ucb import gradients, network, train, upper_bound
from pfpne.algorithms.pf_pne import PE, PFPNE, FedPNE, FedPNEServer, PFPNEServer, SampledNodes
from pfpne.algorithms.phases import ClientGroup, Pull, lookup_sorted, make_phased
from pfpne.federation import Batch, Server
from pfpne.partition import Partition
from pfpne.simulation.neural import NeuralSimulation, Ridge, simulate_fn_ucb
from pfpne.simulation.noise import noisy


class DepthOne(PFPNE):
    """Deviation 3: server, clients and PE start at depth 1, with the root's children. No partition ends at depth 0."""

    @staticmethod
    def first_nodes(task):
        return 1, task.partition.children(1)


class DepthOneServer(PFPNEServer):
    first_nodes = staticmethod(DepthOne.first_nodes)


class Fresh(PFPNE):
    """Deviation 5: PE takes tau_h new samples of every node that the server eliminated."""

    def pe(self, kept_by_server, sampled_in_stage_1):
        reused = {}
        for h, (index, sums, n_pulls) in sampled_in_stage_1.items():
            is_protected, _ = lookup_sorted(index, kept_by_server[h].index)
            reused[h] = SampledNodes(index[is_protected], sums[:, is_protected], n_pulls)
        return super().pe(kept_by_server, reused)


class TauServer(PFPNEServer):
    """Deviation 6: b takes tau_h for the number of samples, not M ceil(tau_h / M)."""

    def n_samples(self, h):
        return self.settings.tau_at(h, self.log_term)


class TauFedPNEServer(TauServer, FedPNEServer):
    """Deviation 6, in Fed-PNE."""


class OwnBest(PFPNE):
    """Deviation 7: PE's arg max leaves out the protected nodes. A mean of -inf is never the largest, and they stay."""

    def pe(self, kept_by_server, sampled_in_stage_1):
        never = {h: replace(kept, means=np.full(len(kept.means), -np.inf)) for h, kept in kept_by_server.items()}
        return super().pe(never, sampled_in_stage_1)


class NoCutPhase(ClientGroup):
    """Deviation 9: a phase that the horizon would cut is not begun; the best node known is played instead.

    It goes in front of an algorithm's phases, as in WholePhases.
    """

    def __init__(self, task, settings, S):
        super().__init__(task, settings, S)
        h, index = self.first_nodes(task)
        self.t, self.deepest = np.zeros(S, dtype=np.int64), (h, np.repeat(index[:1], S))

    def deploy_best(self, h, owners, best_index):
        unfinished = ~self.is_truncated[owners]
        if h >= self._best_depth:
            nodes_now = self.deepest[1].copy()
            nodes_now[owners[unfinished]] = best_index[unfinished]
            self.deepest = h, nodes_now
        return super().deploy_best(h, owners, best_index)

    def loop(self):
        loop, result = super().loop(), None
        while True:
            step = loop.send(result)
            if not isinstance(step, Pull):
                result = yield step
                continue
            pulls = np.bincount(step.owner, step.counts, self.S).astype(np.int64)
            ending = np.flatnonzero((self.t + pulls > self.task.horizon) & (pulls > 0))  # clients that the horizon cuts
            fits, result = ~np.isin(step.owner, ending), np.zeros(len(step.owner))
            if len(ending):
                h, nodes = self.deepest
                yield Pull(h, ending, nodes[ending], np.full(len(ending), self.task.horizon + 1))
            if fits.any():
                result[fits] = yield Pull(step.h, *(column[fits] for column in step[1:]))
            self.t += pulls


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
    def arg_max(values, first):
        ends = np.append(first[1:], len(values))
        return len(values) - 1 - PFPNE.arg_max(values[::-1], len(values) - ends[::-1])[::-1]


class Mirrored(Partition):
    """The same cells, numbered from the other end of each depth: increasing index is decreasing, last is first."""

    def _cell(self, h, i):
        return super()._cell(h, self.k**h + 1 - np.asarray(i))


class Drifting(NeuralSimulation):
    """Deviation 24: one theta, whose storage all share. The clients train it in turn, and g is taken where it is."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        M, p = self.theta.shape
        # Sums of g g^T: each client's, and all clients' of t = 1.
        self.client_gram, self.first_gram = np.zeros((p, p)), np.zeros((p, p))
        self.moments = np.zeros((M, p))  # sums of r g, each client's
        self.first_gradients = np.empty((0, p)), np.empty(0)  # the g of t = 1, and the share of clients of each

    def _step(self):
        s, M, inputs = self.settings, len(self.theta), self.arms.inputs
        g, alpha, prior = (
            gradients(self.theta[0], inputs, s.width),
            s.alpha(self.t),
            s.lambda_ * np.eye(len(self.client_gram)),
        )
        alone = self.t < 2  # nothing is communicated after t = 0
        inverse = np.linalg.inv(prior + (self.client_gram if alone else M * self.client_gram + self.first_gram))
        mean = (self.moments if alone else self.moments.sum(axis=0)) @ inverse @ g.T  # (M, K) or (K,)
        bounds = (1 - alpha) * upper_bound(mean, np.einsum("kp,kp->k", g @ inverse, g), s.nu, s.lambda_)
        if alpha > 0:
            variance = np.einsum("kp,kp->k", g @ self._mean_inverse(prior), g)
            bounds += alpha * upper_bound(self.value, variance, s.nu_2, s.lambda_)
        arms = np.full(M, np.argmax(bounds, axis=-1))
        rewards = self.values[np.arange(M), arms]
        if self.noise != 0:
            rewards = noisy(rewards, self.noise, np.array([rng.random() for rng in self.streams]), self.slope)
        self.moments += rewards[:, None] * g[arms]
        if self.t == 1:
            different, counts = np.unique(arms, return_counts=True)
            self.first_gradients, self.first_gram = (g[different], counts / M), (g[different].T * counts) @ g[different]
        else:
            self.client_gram += np.outer(g[arms[0]], g[arms[0]])
        if self.t >= s.start:
            self.training_counts[arms[0]] += 1
            self.totals[:, arms[0]] += rewards
        if s.start <= self.t < s.stop:
            for m in range(M):
                train(self.theta[:1], inputs, self.training_counts, self.totals[m : m + 1], s)
            self.value, _ = network(self.theta[0], inputs, s.width)
        if self.t + 1 >= s.stop and s.alpha(self.t + 1) == 1:
            self._settle(prior)
        return arms

    def _mean_inverse(self, prior):
        """The mean over clients of (lambda I + the sum of g g^T over the client's own data)^-1."""
        common = np.linalg.inv(prior + self.client_gram)
        of_one = (common @ self.first_gradients[0].T).T  # by Sherman-Morrison, the one play of t = 1
        weight = self.first_gradients[1] / (1 + np.einsum("np,np->n", of_one, self.first_gradients[0]))
        return common - (of_one.T * weight) @ of_one

    def _settle(self, prior):
        """After theta's last change, continue from counts; the plays of t = 1 become arms that are not played again."""
        g = np.concatenate([gradients(self.theta[0], self.arms.inputs, self.settings.width), self.first_gradients[0]])
        inverse, K, none = np.linalg.inv(prior + self.client_gram), len(g), len(self.first_gradients[1])
        variance = np.einsum("kp,kp->k", g @ inverse, g)
        self.one_client_model = Ridge(g, np.zeros(K), variance, np.empty((K, K)), np.full(K, -1), inverse, np.zeros(K))
        self.first_arms = np.arange(K - none, K), self.first_gradients[1]
        self.value = np.concatenate([self.value, np.full(none, -np.inf)])


class Centred(NeuralSimulation):
    """Deviation 26: inputs are on [-1, 1]^d over sqrt d, centred at 0 as in the public code."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        s, arms = self.settings, self.arms
        arms.inputs[:-1] = self.scaled(arms.inputs[:-1])  # nothing has been played yet
        g = gradients(arms.theta_0, arms.inputs, s.width)
        for ridge in (self.pooled, self.one_client_model):
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


def _phased(base: str, group_class=PFPNE, server_class=PFPNEServer) -> Algorithm:
    return replace(ALGORITHMS[base], make_server_and_clients=partial(make_phased, group_class, server_class))


_DRIFTING = replace(ALGORITHMS["fn-ucb"], fast=partial(simulate_fn_ucb, simulation=Drifting))
_CENTRED = replace(ALGORITHMS["fn-ucb"], fast=partial(simulate_fn_ucb, simulation=Centred))
_UNDIVIDED = replace(ALGORITHMS["fn-ucb"], fast=partial(simulate_fn_ucb, simulation=Undivided))
# name -> (the base algorithm, the variant that simulate runs, the class of its partition)
DEVIATION_VARIANTS = {
    "depth one": ("pf-pne", _phased("pf-pne", DepthOne, DepthOneServer), Partition),
    "fresh": ("pf-pne", _phased("pf-pne", Fresh), Partition),
    "decreasing": ("pf-pne", _phased("pf-pne", LastOfEqual), Mirrored),  # ties as ever
    "tau": ("pf-pne", _phased("pf-pne", server_class=TauServer), Partition),
    "tau, fed-pne": ("fed-pne", _phased("fed-pne", FedPNE, TauFedPNEServer), Partition),
    "own best": ("pf-pne", _phased("pf-pne", OwnBest), Partition),
    "whole phases": ("pf-pne", _phased("pf-pne", WholePhases), Partition),
    "whole phases, fed-pne": ("fed-pne", _phased("fed-pne", WholeFedPNE, FedPNEServer), Partition),
    "whole phases, pe": ("pe", _phased("pe", WholePE, Server), Partition),
    "whole phases, fed1-ucb": (
        "fed1-ucb",
        replace(ALGORITHMS["fed1-ucb"], make_server_and_clients=make_whole_fed1_ucb),
        Partition,
    ),
    "last": ("pf-pne", _phased("pf-pne", LastOfEqual), Partition),
    "first child, hct": ("hct", "hct", Mirrored),
    "first child, hct-pyxab": ("hct-pyxab", "hct-pyxab", Mirrored),
    "drifting": ("fn-ucb", _DRIFTING, Partition),
    "centred": ("fn-ucb", _CENTRED, Partition),
    "undivided": ("fn-ucb", _UNDIVIDED, Partition),
    "increasing": ("fed1-ucb", replace(ALGORITHMS["fed1-ucb"], make_server_and_clients=make_increasing), Partition),
}
