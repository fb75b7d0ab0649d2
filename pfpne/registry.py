"""The algorithms by name: how each is made, what it takes, and what its clients and server may send."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pfpne.federation import Federation, Task


def nearest(name: str, names: Iterable[str], what: str) -> str:
    """The message for an unknown name: the nearest valid one and the list of all."""
    names = list(names)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{name!r} is not {what}.{hint} Valid: {', '.join(names)}."


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


# name -> (modules, settings, make, up, down, fast). The first module is where the rest lives; all of them are
# what a result of the algorithm depends on, besides what every result does (store.COMMON).
_PHASED = ("pf_pne", "bounds")
_HCT = ("hct",)
_FN_UCB = ("fn_ucb", "arms")
_ALGORITHMS = {
    "pf-pne": (_PHASED, "PFPNESettings", "make_pf_pne", ("NodeMeans",), ("Kept",), "fast_pf_pne"),
    "fed-pne": (_PHASED, "PhasedSettings", "make_fed_pne", ("NodeMeans",), ("KeptIndex",), "fast_fed_pne"),
    "pe": (_PHASED, "PhasedSettings", "make_pe", (), (), "fast_pe"),
    "hct": (_HCT, "HCTSettings", "make_hct", (), (), "fast_hct"),
    "hct-pyxab": (_HCT, "HCTSettings", "make_hct_pyxab", (), (), "fast_hct_pyxab"),
    "centralized": (_HCT, "HCTSettings", "make_centralized", ("Reward",), ("NextPoint",), "fast_centralized"),
    "hoo": (("hoo", "hct"), "HOOSettings", "make_hoo", (), (), "fast_hoo"),
    "blin": (("blin",), "BLiNSettings", "make", (), (), None),
    "fed1-ucb": (("fed1_ucb", "arms"), "Fed1UCBSettings", "make", ("ArmMeans",), ("SurvivingArms",), None),
    "fn-ucb": (_FN_UCB, "FNUCBSettings", "make", ("NeuralSums",), ("NeuralAggregates", "NewsRequest"), "fast"),
}
NAMES = tuple(_ALGORITHMS)


def get_algorithm(name: str) -> Algorithm:
    """The algorithm of that name; ValueError, with the nearest name and the list, if there is none."""
    if name not in _ALGORITHMS:
        raise ValueError(nearest(name, NAMES, "an algorithm"))
    modules, settings, make, up, down, fast = _ALGORITHMS[name]
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
            raise ValueError(f"{name} does not take it: {nearest(given, taken, f'a setting of {name}')}")
    values = dict(values)
    if values.get("Delta") == "true":
        if problem is None:
            raise ValueError('Delta="true" needs a problem whose optima are known; give a number here.')
        values["Delta"] = float(problem.Delta)
    return get_algorithm(name).settings(**values)


def make_federation(name: str, task: Task, **settings) -> Federation:
    """The server and the clients of algorithm `name`, ready to be asked and told (see pfpne.federation)."""
    algorithm = get_algorithm(name)
    return Federation(*algorithm.make(task, make_settings(name, settings)), algorithm.up, algorithm.down)
