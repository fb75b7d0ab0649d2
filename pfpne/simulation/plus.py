"""PF-PNE+ and HCT-noise for all clients of a simulation at once: their phases as in phased.py, their trees as in tree.py."""

import numpy as np

from pfpne.simulation.phased import Evaluations, drive
from pfpne.simulation.record import Recorder, Traces, gaps
from pfpne.simulation.tree import Cells, play


def simulate_searches(phases, server, problem, task, settings, noise_streams, t, global_regret: bool) -> Traces:
    """Run the loop of all clients up to the trees that it ends with, if it gets there, and then each tree."""
    clients, server = phases(task, settings, task.n_clients), server(task, settings)
    recorder = Recorder(problem, t, global_regret)
    evaluations = Evaluations(problem, task, noise_streams, recorder)
    search = drive(clients, server, evaluations, recorder)
    before = recorder.traces()
    if search is None:
        return before
    start = int(evaluations.t[0])  # all have made as many pulls
    cells, left = Cells(problem, task.partition), task.horizon - start
    played = [play(cells, tree, left, [m], noise_streams) for m, tree in enumerate(search.trees)]
    pulled, deployed = np.concatenate(played, axis=1)
    local, at = gaps(problem.optimum, cells.value[: cells.n]).T, t[t >= start] - start
    regret, shared = np.column_stack([before.regret[:, t < start], recorder.total[0]]), None
    if global_regret:
        gap = gaps(problem.global_optimum, problem.mean_values(cells.point[: cells.n]))
        shared = np.column_stack([before.global_regret[:, t < start], recorder.total[1]])
        shared = _continued(shared, np.broadcast_to(gap, local.shape), pulled, at)
    last = deployed[:, at[at > 0] - 1]
    simple = before.simple_regret[:, : len(t) - last.shape[1]], np.take_along_axis(local, last, axis=1)
    best = cells.point[deployed[:, -1]] if left else before.best
    return Traces(_continued(regret, local, pulled, at), shared, np.hstack(simple), before.rounds, best)


def _continued(before: np.ndarray, gap: np.ndarray, pulled: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Cumulative regret (M, C): before (M, n), the last at the start; then that of the pulls (M, left), at steps from it."""
    sums = [np.cumsum(np.append(b[-1], own[w]))[at] for b, own, w in zip(before, gap, pulled, strict=True)]
    return np.hstack([before[:, :-1], sums])
