"""The fast simulation of the phased algorithms: one loop runs all clients, S = M (see pfpne.algorithms.phases)."""

from collections.abc import Iterator

import numpy as np

from pfpne.algorithms.hct import TreeClient
from pfpne.algorithms.phases import Pull, clip_to_budget, first_positions, starts_new_value
from pfpne.federation import Task
from pfpne.messages import Message
from pfpne.simulation.noise import draw_rewards, noisy
from pfpne.simulation.record import Measurements, Recorder, gaps
from pfpne.simulation.tree import play_trees

BLOCK = 2**15  # the number of pulls that are simulated in one go: their rewards fit into the cache


class Evaluations:
    """The clients' evaluations, each with its own noise. t (M,): the number of evaluations of each client so far."""

    def __init__(self, problem, task: Task, noise_streams: list, recorder: Recorder):
        self.problem, self.task, self.noise_streams, self.recorder = problem, task, noise_streams, recorder
        self.t = np.zeros(task.n_clients, dtype=np.int64)

    def pull(self, request: Pull, is_truncated: np.ndarray) -> np.ndarray:
        """Make the evaluations that a loop asks for; return the sums (N,) of their rewards.

        is_truncated (M,) is set for owners whose pulls the horizon truncates: their sums mean nothing.
        """
        h, owner, index, counts = request
        first, sums = first_positions(owner), np.zeros(len(owner))
        noise, slope = self.problem.noise, self.problem.noise_slope
        budget = self.task.horizon - self.t[owner[first]]
        is_cut = np.add.reduceat(counts, first) > budget
        if is_cut.any():
            is_truncated[owner[first][is_cut]] = True
            counts = clip_to_budget(counts, first, budget)
        pulled = np.flatnonzero(counts)
        if len(pulled) == 0:
            return sums
        owner, counts, points = owner[pulled], counts[pulled], self.task.partition.centers(h, index[pulled])
        values, pulled_sums = self.problem.paired_values(owner, points), np.empty(len(pulled))
        for a, b, u in self._uniforms(owner, counts):
            means = values[a:b, None]
            rewards = np.broadcast_to(means, u.shape) if noise == 0 else noisy(means, noise, u, slope)
            rewards.sum(axis=1, out=pulled_sums[a:b])
        self.recorder.record_pulls(owner, values, counts, points)
        np.add.at(self.t, owner, counts)
        sums[pulled] = pulled_sums
        return sums

    def _uniforms(self, owner: np.ndarray, counts: np.ndarray):
        """Yield the uniforms of the pulls, each owner's from its own stream, block by block: (a, b, u (b - a, n)).

        A block is nodes a..b-1, pulled n times each, of one or more owners; the next overwrites it. Noise 0 draws none.
        """
        new_block = starts_new_value(counts) | starts_new_value((np.cumsum(counts) - counts) // BLOCK)
        block = np.flatnonzero(new_block)
        piece = np.flatnonzero(new_block | starts_new_value(owner))  # one owner's part of a block
        size = np.add.reduceat(counts, block)
        pieces = zip(owner[piece].tolist(), np.add.reduceat(counts, piece).tolist(), strict=True)
        u = np.empty(size.max())
        for a, n, pulls in zip(block.tolist(), counts[block].tolist(), size.tolist(), strict=True):
            drawn = pulls if self.problem.noise == 0 else 0
            while drawn < pulls:
                m, k = next(pieces)
                self.noise_streams[m].random(out=u[drawn : drawn + k])
                drawn += k
            yield a, a + pulls // n, u[:pulls].reshape(-1, n)


def run_phases(
    group_class,
    server_class,
    problem,
    task,
    settings,
    noise_streams,
    checkpoints,
    global_regret,
    evaluations_class=Evaluations,
) -> tuple:
    """Run the loop until all clients are done, or until it yields OwnTrees.

    The server is called directly, and the messages that a federation would send are counted. checkpoints (C,): the
    steps at which regret is measured. evaluations_class is Evaluations, or a subclass that also watches the pulls.
    Returns the evaluations, and the OwnTrees or None.
    """
    M, server = task.n_clients, server_class(task, settings)
    clients = group_class(task, settings, M)
    recorder = Recorder(problem, checkpoints, global_regret)
    evaluations = evaluations_class(problem, task, noise_streams, recorder)
    loop, result = clients.loop(), None
    while not clients.is_truncated.all():
        request = loop.send(result)
        recorder.deployments.append((np.arange(M), evaluations.t.copy(), clients.best_points.copy()))
        if isinstance(request, Pull):
            result = evaluations.pull(request, clients.is_truncated)
        elif isinstance(request, Message):
            result = server.conclude(*request.values)
            recorder.rounds[int(evaluations.t[0])] += (request.n_numbers, M * result.n_numbers)
        else:
            return evaluations, request
    return evaluations, None


def simulate_phases(
    group_class, server_class, problem, task, settings, noise_streams, checkpoints, global_regret: bool
) -> Measurements:
    """Run the loop of all clients until the horizon or its OwnTrees; then play each of these trees until the horizon.

    checkpoints (C,): the steps at which regret is measured.
    """
    evaluations, own_trees = run_phases(
        group_class, server_class, problem, task, settings, noise_streams, checkpoints, global_regret
    )
    recorder = evaluations.recorder
    if own_trees is None:
        return recorder.measurements()
    trees, best_of_search = own_trees.trees, None
    if own_trees.tree_after is not None:
        trees, best_of_search = search_alone(own_trees.trees, own_trees.tree_after, evaluations)
    before, t_before = recorder.measurements(), int(evaluations.t[0])  # all clients have made t_before pulls
    if t_before == task.horizon:
        return before
    regret, simple, best_points = play_trees(trees, problem, task, noise_streams, checkpoints, t_before, recorder.total)
    # At a checkpoint t_before, play_trees returns the regret, but no simple regret: its trees recommend nothing before
    # their first pull, so there the recommendation is still that of `before`.
    local, against_f_bar = np.hstack([before.regret[:, checkpoints < t_before], regret[0]]), None
    if before.global_regret is not None:
        against_f_bar = np.hstack([before.global_regret[:, checkpoints < t_before], regret[1]])
    if best_of_search is not None:  # it stays the recommendation
        gap = gaps(problem.optimum, problem.paired_values(np.arange(task.n_clients), best_of_search))
        simple, best_points = np.broadcast_to(gap[:, None], simple.shape), best_of_search
    simple = np.hstack([before.simple_regret[:, checkpoints <= t_before], simple])
    return Measurements(local, against_f_bar, simple, before.rounds, best_points)


def search_alone(searches, tree_after, evaluations: Evaluations) -> tuple[Iterator[TreeClient], np.ndarray | None]:
    """Let each client search by a Gaussian process, as an object.

    Returns the trees with which they go on, and what each search recommends in the end, (M, d). It is None if they do
    not go on, or made no step.
    """
    problem, recorder, trees, best = evaluations.problem, evaluations.recorder, [], []
    for m, search in enumerate(searches):
        while search.steps < search.last_step:
            batch, rng = search.ask(), evaluations.noise_streams[m]
            values = problem.client_values(m, batch.points)
            recorder.record_pulls(np.full(len(values), m), values, batch.counts, batch.points)
            search.tell(draw_rewards(values, batch.counts, problem.noise, rng, problem.noise_slope))
            evaluations.t[m] += batch.size
            recorder.deployments.append(([m], [evaluations.t[m]], search.best()[None]))
        if search.hands_over:
            trees.append(tree_after(m, search))
            best += [search.best()] if search.has_begun else []
    return iter(trees), np.array(best) if best else None
