"""PF-PNE+ and HCT-noise for all clients of a simulation: their phases as in phased.py, their trees as in tree.py."""

import numpy as np

from pfpne.simulation.phased import Evaluations, drive
from pfpne.simulation.record import Recorder, Traces
from pfpne.simulation.tree import search


def simulate_searches(phases, server, problem, task, settings, noise_streams, t, global_regret: bool) -> Traces:
    """Run the loop of all clients up to the trees that it ends with, if it gets there, and then each tree."""
    clients, server = phases(task, settings, task.n_clients), server(task, settings)
    recorder = Recorder(problem, t, global_regret)
    evaluations = Evaluations(problem, task, noise_streams, recorder)
    last = drive(clients, server, evaluations, recorder)
    before, start = recorder.traces(), int(evaluations.t[0])  # all have made as many pulls
    if last is None or start == task.horizon:
        return before
    regret, simple, best = search(last.trees, problem, task, noise_streams, t, start, recorder.total)
    shared = np.hstack([before.global_regret[:, t < start], regret[1]]) if global_regret else None
    simple = np.hstack([before.simple_regret[:, t <= start], simple])
    return Traces(np.hstack([before.regret[:, t < start], regret[0]]), shared, simple, before.rounds, best)
