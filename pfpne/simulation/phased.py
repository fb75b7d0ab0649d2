"""PF-PNE, Fed-PNE and PE for all clients of a simulation at once: the loops of pfpne.algorithms.pf_pne, with S = M."""

import numpy as np

from pfpne.algorithms.pf_pne import Pull, cut, firsts, steps
from pfpne.federation import Message, Task
from pfpne.simulation.noise import noisy
from pfpne.simulation.record import Recorder, Traces

BLOCK = 2**15  # pulls whose noise is drawn, turned into rewards and summed in one go: they fit into the cache


def simulate_phases(phases, server, problem, task, settings, noise_streams, checkpoints, global_regret) -> Traces:
    """Run the loop of all clients to the horizon; the server is asked without messages, which are counted."""
    M = task.n_clients
    clients, server = phases(task, settings, M), server(task, settings)
    recorder = Recorder(problem, checkpoints, global_regret)
    evaluations = Evaluations(problem, task, noise_streams, recorder)
    drive(clients, server, evaluations, recorder)
    return recorder.traces()


def drive(clients, server, evaluations, recorder: Recorder):
    """Run the loop until all clients are done, or want what is neither a Pull nor a Message; returns that, or None."""
    loop, result, M = clients.loop(), None, clients.task.n_clients
    while not clients.done.all():
        want = loop.send(result)
        recorder.bests.append((np.arange(M), evaluations.t.copy(), clients.best.copy()))
        if isinstance(want, Pull):
            result = evaluations.pull(want, clients.done)
        elif isinstance(want, Message):
            result = server.conclude(*want.values)
            recorder.rounds[int(evaluations.t[0])] += (want.numbers, M * result.numbers)
        else:
            return want
    return None


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
