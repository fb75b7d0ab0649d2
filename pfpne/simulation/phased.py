"""PF-PNE, Fed-PNE, PE, PF-PNE+ and HCT-noise for all clients of a simulation at once: their loops, with S = M."""

import numpy as np

from pfpne.algorithms.phases import Pull, cut, firsts, steps
from pfpne.federation import Task
from pfpne.messages import Message
from pfpne.simulation.noise import noisy
from pfpne.simulation.record import Recorder, Traces
from pfpne.simulation.tree import search

BLOCK = 2**15  # pulls whose noise is drawn, turned into rewards and summed in one go: they fit into the cache


class Evaluations:
    """The clients' evaluations, each with its own noise. t (M,): how many each has made."""

    def __init__(self, problem, task: Task, noise_streams: list, recorder: Recorder):
        self.problem, self.task, self.noise_streams, self.recorder = problem, task, noise_streams, recorder
        self.t = np.zeros(task.n_clients, dtype=np.int64)

    def pull(self, want: Pull, done: np.ndarray) -> np.ndarray:
        """Sums (N,) of the rewards; owners whom the horizon cuts become done, and their sums mean nothing."""
        h, owner, index, counts = want
        start, sums = firsts(owner), np.zeros(len(owner))
        left = self.task.horizon - self.t[owner[start]]
        short = np.add.reduceat(counts, start) > left
        if short.any():
            done[owner[start][short]] = True
            counts = cut(counts, start, left)
        at = np.flatnonzero(counts)
        if len(at):
            sums[at] = self._evaluate(owner[at], self.task.partition.centers(h, index[at]), counts[at])
        return sums

    def _evaluate(self, owner: np.ndarray, points: np.ndarray, counts: np.ndarray) -> np.ndarray:
        values, noise, sums = self.problem.paired_values(owner, points), self.problem.noise, np.empty(len(owner))
        for a, b, u in self._uniforms(owner, counts):
            means = values[a:b, None]
            rewards = np.broadcast_to(means, u.shape) if noise == 0 else noisy(means, noise, u)
            rewards.sum(axis=1, out=sums[a:b])
        self.recorder.pulled(owner, values, counts, points)
        np.add.at(self.t, owner, counts)
        return sums

    def _uniforms(self, owner: np.ndarray, counts: np.ndarray):
        """The uniforms of the pulls, each owner's from its own stream, block by block: (a, b, u (b - a, n)).

        A block is nodes a..b-1, pulled n times each, of one or more owners; the next overwrites it. Noise 0 draws none.
        """
        new_block = steps(counts) | steps((np.cumsum(counts) - counts) // BLOCK)
        block = np.flatnonzero(new_block)
        piece = np.flatnonzero(new_block | steps(owner))  # one owner's part of a block
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


def drive(phases, server, problem, task, settings, noise_streams, t, global_regret, kind=Evaluations) -> tuple:
    """Run the loop until all clients are done, or want what is neither a Pull nor a Message.

    The server is asked without messages, which are counted. kind: of Evaluations. Returns those made, and what was
    wanted in the end, or None.
    """
    clients, server, M = phases(task, settings, task.n_clients), server(task, settings), task.n_clients
    recorder = Recorder(problem, t, global_regret)
    evaluations = kind(problem, task, noise_streams, recorder)
    loop, result = clients.loop(), None
    while not clients.done.all():
        want = loop.send(result)
        recorder.bests.append((np.arange(M), evaluations.t.copy(), clients.best.copy()))
        if isinstance(want, Pull):
            result = evaluations.pull(want, clients.done)
        elif isinstance(want, Message):
            result = server.conclude(*want.values)
            recorder.rounds[int(evaluations.t[0])] += (want.numbers, M * result.numbers)
        else:
            return evaluations, want
    return evaluations, None


def simulate_phases(*run) -> Traces:
    """Run the loop of all clients to the horizon; arguments as of `drive`."""
    return drive(*run)[0].recorder.traces()


def simulate_searches(phases, server, problem, task, settings, noise_streams, t, global_regret: bool) -> Traces:
    """Run the loop of all clients up to the trees that it ends with, if it gets there, and then each tree."""
    evaluations, last = drive(phases, server, problem, task, settings, noise_streams, t, global_regret)
    before, start = evaluations.recorder.traces(), int(evaluations.t[0])  # all have made as many pulls
    if last is None or start == task.horizon:
        return before
    regret, simple, best = search(last.trees, problem, task, noise_streams, t, start, evaluations.recorder.total)
    shared = np.hstack([before.global_regret[:, t < start], regret[1]]) if global_regret else None
    simple = np.hstack([before.simple_regret[:, t <= start], simple])
    return Traces(np.hstack([before.regret[:, t < start], regret[0]]), shared, simple, before.rounds, best)
