"""What server and clients have agreed on, and what each client evaluates. Change it to a problem of your own."""

import time

import numpy as np

from pfpne import Partition, Task

PEAKS = (0.2, 0.4, 0.7)

# What each algorithm needs beside its defaults. pf-pne needs Delta, a bound on how far a client's best value is from
# the common one. c is small because these scores have no noise. "pf-pne+" and the others need nothing.
SETTINGS = {"pf-pne": {"Delta": 0.2, "c": 0.01}, "fed-pne": {"c": 0.01}, "pe": {"c": 0.01}}


def settings(config: dict) -> dict:
    """The settings of the algorithm, the same everywhere."""
    return SETTINGS.get(config["algorithm"], {})


def masks(config: dict) -> dict:
    """Whether messages are masked, and how many clients make an exchange at the deadline: the same everywhere."""
    return {"secure": config.get("secure", False), "quorum": config["quorum"]}


def plan(config: dict) -> tuple[str, Task]:
    """The algorithm and its task, the same everywhere: a parameter in [0, 1]."""
    return config["algorithm"], Task(Partition([[0.0, 1.0]]), config["n-clients"], config["horizon"], noise=0)


def objective(m: int, config: dict):
    """Client m's own: train with parameter x[0] on the data of this site, and return a score in [0, 1]."""

    def evaluate(x: np.ndarray) -> float:
        time.sleep(config["seconds"])
        return 1.0 - abs(float(x[0]) - PEAKS[m % len(PEAKS)])

    return evaluate
