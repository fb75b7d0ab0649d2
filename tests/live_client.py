"""A client in a process of its own, for test_live.py: a line in is what the server says, a line out what it answers."""

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

from pfpne.federation import Task
from pfpne.live import LiveClient
from pfpne.partition import Partition


def objective(m: int, x) -> float:
    return 0.5 + math.sin(7 * x[0] + m) / 3


def task(M: int, horizon: int) -> Task:
    return Task(Partition([[0.0, 1.0]]), M, horizon, noise=0)


def main(name: str, M: int, horizon: int, m: int, folder: str, settings: dict, dies_at=0, sleep=0.0, fails=(), nan=()):
    def evaluate(x) -> float:
        t = len(client.journal.read()) + 1
        marker = Path(folder) / f"died-at-{t}"
        if t == dies_at and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(sleep)
        if t in fails:
            raise ZeroDivisionError(f"evaluation {t}")
        return math.nan if t in nan else objective(m, x)

    client = LiveClient(name, task(M, horizon), m, evaluate, folder, **settings)
    for line in sys.stdin:
        print(client.answer(line.strip()), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
