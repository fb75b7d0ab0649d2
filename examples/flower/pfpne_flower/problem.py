"""What server and clients have agreed on, and what each client evaluates: to be changed to a problem of your own."""

import time

import numpy as np

from pfpne import Partition, Task

PEAKS = (0.2, 0.4, 0.7)
# Delta: a client's best is at most this above the best common to all; c: small, as scores are all but noiseless.
SETTINGS = {"Delta": 0.2, "c": 0.01}


def plan(config: dict) -> tuple[str, Task]:
    """The algorithm and its task, the same everywhere: a parameter in [0, 1]."""
    return config["algorithm"], Task(Partition([[0.0, 1.0]]), config["n-clients"], config["horizon"], noise=0)


def objective(m: int, config: dict):
    """Client m's own: train with parameter x[0] on the data of this site, and return a score in [0, 1]."""

    def evaluate(x: np.ndarray) -> float:
        time.sleep(config["seconds"])
        return 1.0 - abs(float(x[0]) - PEAKS[m % len(PEAKS)])

    return evaluate
