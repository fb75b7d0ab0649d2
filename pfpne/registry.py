"""The algorithms of pfpne.algorithms, loaded: how each is made, what it takes, what its clients and server may send."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass

from pfpne.algorithms import ALGORITHMS, NAMES
from pfpne.checks import check, unknown
from pfpne.federation import Federation, Task


@dataclass(frozen=True)
class Algorithm:
    """How to make one algorithm.

    settings: its frozen settings. modules: where it lives, and what of pfpne it depends on besides the base.
    make(task, settings) -> (server, clients). up, down: the kinds of message that it declares.
    fast(problem, task, settings, noise_streams, checkpoints, global_regret) -> Traces, equal to the objects.
    """

    settings: type
    make: Callable
    up: tuple
    down: tuple
    fast: Callable | None
    modules: tuple[str, ...]


def get_algorithm(name: str) -> Algorithm:
    """The algorithm of that name; ValueError, with the nearest name and the list, if there is none."""
    if name not in NAMES:
        raise ValueError(unknown("algorithm", name, NAMES))
    modules, settings, make, up, down, fast = ALGORITHMS[name]
    module = importlib.import_module(f"pfpne.{modules[0]}")
    return Algorithm(
        settings=getattr(module, settings),
        make=getattr(module, make),
        up=tuple(getattr(module, kind) for kind in up),
        down=tuple(getattr(module, kind) for kind in down),
        fast=getattr(module, fast) if fast else None,
        modules=modules,
    )


def load_all() -> None:
    """Import every algorithm's module, and with it the messages that it declares."""
    for name in NAMES:
        get_algorithm(name)


def settings_of(name: str) -> tuple[str, ...]:
    """The names of the settings that the algorithm takes."""
    return tuple(f.name for f in dataclasses.fields(get_algorithm(name).settings))


def make_settings(name: str, values: dict, problem=None):
    """The algorithm's frozen settings, defaults where `values` is silent; Delta="true" is the problem's own.

    Raises ValueError for a setting that the algorithm does not take, or a value out of range.
    """
    taken = settings_of(name)
    for given in values:
        if given not in taken:
            raise ValueError(f"{name}: {unknown('setting', given, taken)}")
    values = dict(values)
    if values.get("Delta") == "true":
        if problem is None:
            raise ValueError('Delta="true" needs a problem whose optima are known; give a number here.')
        values["Delta"] = float(problem.Delta)
    return get_algorithm(name).settings(**values)


def make_federation(name: str, task: Task, **settings) -> Federation:
    """The server and the clients of algorithm `name`, ready to be asked and told (see pfpne.federation)."""
    algorithm = get_algorithm(name)
    check(isinstance(task, Task), "task", "a Task, such as Task(Partition([[0, 1]]), n_clients=3, horizon=100)", task)
    return Federation(*algorithm.make(task, make_settings(name, settings)), algorithm.up, algorithm.down)
