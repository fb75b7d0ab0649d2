"""A client in a process of its own, for test_live.py: texts come in and go out over a connection."""

import math
import os
import signal
from pathlib import Path

from pfpne.federation import Task
from pfpne.live import LiveClient
from pfpne.partition import Partition

# As conftest.py has it, in these processes, too: a file need not outlive a power cut, but for a process that is killed.
os.fsync = lambda file: None


def objective(m: int, x) -> float:
    return 0.5 + math.sin(7 * x[0] + m) / 3


def task(M: int, horizon: int) -> Task:
    return Task(Partition([[0.0, 1.0]]), M, horizon, noise=0)


def main(connection, name, M, horizon, m, folder, settings, dies_at=0, fails=(), nan=()):
    """Answer until the connection ends. dies_at: the evaluation in which it kills itself, once; fails, nan: as said."""

    def evaluate(x) -> float:
        t = len(client.journal.read()) + 1
        marker = Path(folder) / f"died-at-{t}"
        if t == dies_at and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if t in fails:
            raise ZeroDivisionError(f"evaluation {t}")
        return math.nan if t in nan else objective(m, x)

    client = LiveClient(name, task(M, horizon), m, evaluate, folder, **settings)
    while True:
        connection.send(client.answer(connection.recv()))
