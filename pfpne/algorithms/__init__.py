"""The algorithms, a row each: its frozen settings, how server and clients are made, what they may send.

A new algorithm is a file beside these, a row here and a row of pfpne.paper.show.style.LOOKS; a faster form for
simulations, if it has one, is a row of pfpne.simulation.fast. One that bears few evaluations only, `most` of
a client, has no place in the paper's comparisons, and no look.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pfpne.algorithms import blin, fed1_ucb, fn_ucb, gp, hct, hoo, pf_pne_plus
from pfpne.algorithms.centralized import NextPoint, Reward, make_centralized
from pfpne.algorithms.pf_pne import (
    PE,
    PFPNE,
    FedPNE,
    FedPNEServer,
    Kept,
    KeptIndex,
    NodeMeans,
    PFPNESettings,
    PhasedServer,
    PhasedSettings,
)
from pfpne.algorithms.phases import make_phased
from pfpne.federation import Federation, Server, Task
from pfpne.validation import check, unknown_name


@dataclass(frozen=True)
class Algorithm:
    """settings: its frozen settings. make(task, settings) -> (server, clients). up, down: the messages it declares.

    on_cells: whether it searches the task's partition. fast: of a variant, its form for simulations, as in
    pfpne.simulation.fast. most: the evaluations of a client that it can bear, None for any number. anytime: whether
    what it asks for does not depend on the horizon, so that a longer run begins as a shorter one.
    """

    settings: type
    make: Callable
    up: tuple = ()
    down: tuple = ()
    on_cells: bool = True
    fast: Callable | None = None
    most: int | None = None
    anytime: bool = False


_GP = {"on_cells": False, "most": gp.LONGEST, "anytime": True}
ALGORITHMS = {
    "pf-pne": Algorithm(PFPNESettings, partial(make_phased, PFPNE, PhasedServer), (NodeMeans,), (Kept,)),
    "fed-pne": Algorithm(PhasedSettings, partial(make_phased, FedPNE, FedPNEServer), (NodeMeans,), (KeptIndex,)),
    "pe": Algorithm(PhasedSettings, partial(make_phased, PE, Server)),
    "pf-pne+": Algorithm(
        pf_pne_plus.PlusSettings,
        partial(make_phased, pf_pne_plus.PFPNEPlus, pf_pne_plus.PlusServer, client=pf_pne_plus.PlusClient),
        (pf_pne_plus.RootStatistics, NodeMeans),
        (pf_pne_plus.Shared,),
    ),
    "hct-noise": Algorithm(
        pf_pne_plus.NoiseHCTSettings,
        partial(make_phased, pf_pne_plus.HCTNoise, Server, client=pf_pne_plus.PlusClient),
    ),
    "hct": Algorithm(hct.HCTSettings, partial(hct.make_alone, hct.hct_theory)),
    "hct-pyxab": Algorithm(hct.HCTSettings, partial(hct.make_alone, hct.pyxab_theory)),
    "centralized": Algorithm(hct.HCTSettings, make_centralized, (Reward,), (NextPoint,)),
    "hoo": Algorithm(hct.TreeSettings, partial(hct.make_alone, hoo.hoo_theory)),
    "blin": Algorithm(blin.BLiNSettings, blin.make_blin, on_cells=False),
    "fed1-ucb": Algorithm(
        fed1_ucb.Fed1UCBSettings,
        fed1_ucb.make_fed1_ucb,
        (fed1_ucb.ArmMeans,),
        (fed1_ucb.SurvivingArms,),
        on_cells=False,
    ),
    "fn-ucb": Algorithm(
        fn_ucb.FNUCBSettings,
        fn_ucb.make_fn_ucb,
        (fn_ucb.NeuralStatistics,),
        (fn_ucb.NeuralStatistics, fn_ucb.NewsRequest),
        on_cells=False,
    ),
    "gp": Algorithm(gp.GPSettings, gp.make_gp, **_GP),
    "gp-shared": Algorithm(gp.GPSettings, gp.make_shared_gp, (gp.Beliefs,), (gp.AllBeliefs,), **_GP),
}
NAMES = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.most is None)  # of the paper's comparisons


def get_algorithm(name: str | Algorithm) -> Algorithm:
    """The algorithm of that name (or itself); ValueError, with the nearest name and the list, if there is none."""
    if isinstance(name, Algorithm):
        return name
    if name not in tuple(ALGORITHMS):
        raise ValueError(unknown_name("algorithm", name, ALGORITHMS))
    return ALGORITHMS[name]


def settings_of(name: str | Algorithm) -> tuple[str, ...]:
    """The names of the settings that the algorithm takes."""
    return tuple(f.name for f in dataclasses.fields(get_algorithm(name).settings))


def make_settings(name: str | Algorithm, values: dict, problem=None):
    """The algorithm's frozen settings, defaults where `values` is silent; Delta="true" is the problem's own.

    Raises ValueError for a setting that the algorithm does not take, or a value out of range.
    """
    taken = settings_of(name)
    for given in values:
        if given not in taken:
            raise ValueError(f"{name}: {unknown_name('setting', given, taken)}")
    Delta = values.get("Delta")
    if isinstance(Delta, str) and Delta == "true":
        if problem is None:
            raise ValueError('Delta="true" needs a problem whose optima are known; give a number here.')
        values = {**values, "Delta": float(problem.Delta)}
    return get_algorithm(name).settings(**values)


def make_federation(name: str | Algorithm, task: Task, /, **settings) -> Federation:
    """The server and the clients of an algorithm, ready to be asked and told (see pfpne.federation)."""
    algorithm = get_algorithm(name)
    check(isinstance(task, Task), "task", "a Task, such as Task(Partition([[0, 1]]), n_clients=3, horizon=100)", task)
    return Federation(*algorithm.make(task, make_settings(name, settings)), algorithm.up, algorithm.down)
