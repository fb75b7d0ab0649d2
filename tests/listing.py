"""The paper's Algorithms 1, 2 and 3, Fed-PNE and Fed1-UCB, written a second time: an oracle for the tests.

It follows the listings one reward at a time, with dicts and lists, and takes nothing from pfpne.algorithms or
pfpne.simulation, so that a wrong line there has no twin here. A node is (h, i). A function returns the clients, with
their evaluations and what they deployed, and the mail: one (t, means sent up by each client, broadcast) per exchange.
"""

import contextlib
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple


class World(NamedTuple):
    """M clients, T evaluations per client, a k-ary partition: node -> centre; reward(m, step, point), steps from 0."""

    M: int
    T: int
    k: int
    max_depth: int
    centre: Callable
    reward: Callable


class Constants(NamedTuple):
    """The constants of the phased algorithms."""

    nu_1: float
    rho: float
    c: float
    c_1: float
    delta: float


class Horizon(Exception):
    """A client is to make one evaluation more than it may."""


class Client:
    """pulls: its points, one per evaluation. deployed: (evaluations so far, point), one per change."""

    def __init__(self, world: World, m: int):
        self.world, self.m, self.pulls = world, m, []
        self.deployed = [(0, world.centre((0, 1)))]
        self.total, self.count = {}, {}

    def pull(self, name, point) -> None:
        """Evaluate the point once, and add the reward to what is known of `name`, a node or an arm."""
        if len(self.pulls) == self.world.T:
            raise Horizon
        reward = self.world.reward(self.m, len(self.pulls), point)
        self.pulls.append(point)
        self.total[name] = self.total.get(name, 0.0) + reward
        self.count[name] = self.count.get(name, 0) + 1

    def mean(self, name) -> float:
        return self.total[name] / self.count[name]

    def deploy(self, point) -> None:
        self.deployed.append((len(self.pulls), point))


def all_pull(clients: list, names: list, points: list, n: int) -> None:
    """Every client pulls every point n times, one point after another; Horizon if that is more than there is left."""
    cut = False
    for client in clients:
        try:
            for name, point in zip(names, points, strict=True):
                for _ in range(n):
                    client.pull(name, point)
        except Horizon:
            cut = True
    if cut:
        raise Horizon


def average(clients: list, name) -> float:
    total = 0.0
    for client in clients:
        total += client.mean(name)
    return total / len(clients)


def children(world: World, nodes: list) -> list:
    """(h + 1, k i - j) for j in 0..k-1, in increasing index."""
    return sorted((h + 1, world.k * i - j) for h, i in nodes for j in range(world.k))


def logarithm(world: World, s: Constants) -> float:
    return max(0.0, math.log(s.c_1 * world.T / s.delta))


def tau(world: World, s: Constants, h: int) -> int:
    """The samples wanted at depth h, at least 1."""
    return max(1, math.ceil(s.c**2 / s.nu_1**2 * logarithm(world, s) / s.rho ** (2 * h)))


def bound(world: World, s: Constants, samples: int) -> float:
    return s.c * math.sqrt(logarithm(world, s) / samples)


def highest(nodes: list, mean: dict):
    """The node of the highest mean; of equal ones the smallest index."""
    return min(nodes, key=lambda node: (-mean[node], node))


def play_on(client: Client, node) -> None:
    """Pull the node to the horizon."""
    while True:
        client.pull(node, client.world.centre(node))


def server_phase(world: World, s: Constants, clients: list, K: list, h: int) -> tuple:
    """Algorithm 1, lines 6-12, after the clients' phase at depth h: the nodes that stay, global means, half-widths."""
    mean = {node: average(clients, node) for node in K}
    samples = world.M * math.ceil(tau(world, s, h) / world.M)
    b = {node: bound(world, s, samples) for node in K}
    best = highest(K, mean)
    eliminated = [node for node in K if mean[node] + b[node] + s.nu_1 * s.rho**h < mean[best] - b[best]]
    return [node for node in K if node not in eliminated], mean, b


def pf_pne(world: World, s: Constants, Delta: float) -> tuple[list, list]:
    """Algorithms 1 and 2, then 3."""
    clients, mail = [Client(world, m) for m in range(world.M)], []
    K, shared, h = [(0, 1)], {}, 0
    try:
        while Delta == 0 or h == 0 or s.nu_1 * s.rho ** (h - 1) > Delta:  # h <= H_0: no smaller depth is within Delta
            all_pull(clients, K, [world.centre(node) for node in K], math.ceil(tau(world, s, h) / world.M))
            up = [[client.mean(node) for node in K] for client in clients]
            K, mean, b = server_phase(world, s, clients, K, h)
            mail.append((len(clients[0].pulls), h, up, ([i for _, i in K], [mean[n] for n in K], [b[n] for n in K])))
            shared[h] = {node: (mean[node], b[node]) for node in K}
            best = highest(K, mean)
            for client in clients:
                client.deploy(world.centre(best))
            if h == world.max_depth:
                all_pull(clients, [best], [world.centre(best)], world.T + 1)
            K, h = children(world, K), h + 1
    except Horizon:
        return clients, mail
    for client in clients:
        personal_elimination(world, s, client, shared)
    return clients, mail


def personal_elimination(world: World, s: Constants, client: Client, shared: dict) -> None:
    """Algorithm 3. shared: depth -> {node: (global mean, half-width)} of the nodes that the server kept."""
    K, h, deepest = [(0, 1)], 0, max(shared, default=-1)
    try:
        while True:
            spared = shared.get(h, {})
            for node in K:
                while node not in spared and client.count.get(node, 0) < tau(world, s, h):
                    client.pull(node, world.centre(node))
            mean, b = {}, {}
            for node in K:
                own = None if node in spared else (client.mean(node), bound(world, s, client.count[node]))
                mean[node], b[node] = own or spared[node]
            best = highest(K, mean)
            edge = mean[best] - b[best]
            eliminated = [n for n in K if n not in spared and mean[n] + b[n] + s.nu_1 * s.rho**h < edge]
            if h >= deepest:
                client.deploy(world.centre(best))
            if h == world.max_depth:
                play_on(client, best)
            K, h = children(world, [node for node in K if node not in eliminated]), h + 1
    except Horizon:
        pass


def pe(world: World, s: Constants) -> tuple[list, list]:
    """Algorithm 3 alone: nothing is spared, nothing is sent."""
    clients = [Client(world, m) for m in range(world.M)]
    for client in clients:
        personal_elimination(world, s, client, {})
    return clients, []


def fed_pne(world: World, s: Constants) -> tuple[list, list]:
    """Stage 1 without end; while one pull of each node by each client would be too many, the nodes are split first."""
    clients, mail = [Client(world, m) for m in range(world.M)], []
    K, h = [(0, 1)], 0
    try:
        while True:
            while h < world.max_depth and len(K) * tau(world, s, h) <= world.M:
                K, h = children(world, K), h + 1
            all_pull(clients, K, [world.centre(node) for node in K], math.ceil(tau(world, s, h) / world.M))
            up = [[client.mean(node) for node in K] for client in clients]
            K, _, _ = server_phase(world, s, clients, K, h)
            mail.append((len(clients[0].pulls), h, up, ([i for _, i in K],)))
            best = [highest(K, {node: client.mean(node) for node in K}) for client in clients]
            for client, node in zip(clients, best, strict=True):
                client.deploy(world.centre(node))
            if h == world.max_depth:
                for client, node in zip(clients, best, strict=True):
                    with contextlib.suppress(Horizon):
                        play_on(client, node)
                return clients, mail
            K, h = children(world, K), h + 1
    except Horizon:
        return clients, mail


def draw_arms(domain, rng, order_rng) -> list:
    """Twenty random values per dimension, all combinations of them, in a random order; for one or two dimensions."""
    axes = [[low + (high - low) * rng.random() for _ in range(20)] for low, high in domain]
    points = list(itertools.product(*axes))
    return [points[arm] for arm in order_rng.permutation(len(points))]


def fed1_ucb(world: World, arms: list, c_pulls: float, sigma: float) -> tuple[list, list]:
    """Shi and Shen (2021), all clients from the first phase on; an arm is named by its position in `arms`."""
    clients, mail = [Client(world, m) for m in range(world.M)], []
    active, phase = list(range(len(arms))), 0
    pulls = max(1, int(c_pulls * math.log(world.T)))
    try:
        while len(active) > 1:
            phase += 1
            all_pull(clients, active, [arms[arm] for arm in active], pulls)
            up = [[client.mean(arm) for arm in active] for client in clients]
            mean = {arm: average(clients, arm) for arm in active}
            B = math.sqrt(4 * sigma**2 * math.log(world.T) / (world.M * phase * pulls))
            top = max(mean.values())
            active = [arm for arm in active if mean[arm] + B >= top - B]
            mail.append((len(clients[0].pulls), phase, up, (active,)))
            for client in clients:
                client.deploy(arms[highest(active, {arm: client.total[arm] for arm in active})])
        all_pull(clients, active, [arms[active[0]]], world.T + 1)
    except Horizon:
        pass
    return clients, mail
