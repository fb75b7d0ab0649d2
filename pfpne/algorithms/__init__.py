"""The table of algorithms: the settings of each, how its server and clients are made, what they may send.

A new algorithm is a file beside these, and a row here. If simulating its objects is too slow, register a faster
simulation in pfpne.simulation.fast. An algorithm with max_evaluations, for small budgets, takes no part in the paper's
comparisons.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pfpne.algorithms import blin, fed1_ucb, fn_ucb, gp, hct, hoo
from pfpne.algorithms import pf_pne_plus as plus
from pfpne.algorithms.centralized import CentralizedClient, CentralizedServer, make_centralized
from pfpne.algorithms.pf_pne import (
    PE,
    PFPNE,
    FedPNE,
    FedPNEServer,
    FedPNESettings,
    PFPNEServer,
    PFPNESettings,
)
from pfpne.algorithms.phases import ClientGroup, PhasedClient, make_phased
from pfpne.federation import Client, Federation, Server, Task
from pfpne.validation import check, unknown_name


@dataclass(frozen=True)
class Algorithm:
    """One algorithm, a row of ALGORITHMS.

    Parameters
    ----------
    settings
        The class of its frozen settings.
    make_server_and_clients
        make_server_and_clients(task, settings) returns the server and the list of clients.
    up_kinds, down_kinds
        The kinds of message that the clients may send, and that the server may send.
    uses_task_cells
        Whether it searches the cells of the task's partition.
    fast
        Its own fast simulation, in place of the one that pfpne.simulation.fast registers for
        `make_server_and_clients`. Its arguments are (problem, task, settings, noise_streams, checkpoints,
        global_regret). None for the registered one.
    max_evaluations
        How many evaluations of a client it can take; None for any number.
    ignores_horizon
        Whether its clients' choices are independent of the horizon, so that a shorter run is a prefix of a longer one.
    ignores_reward_range
        Whether its clients' choices are independent of the reward range: only the rewards' order and distances count.
    name
        Its name in messages to the user.
    """

    settings: type
    make_server_and_clients: Callable[..., tuple[Server, Sequence[Client]]]
    up_kinds: tuple = ()
    down_kinds: tuple = ()
    uses_task_cells: bool = True
    fast: Callable | None = None
    max_evaluations: int | None = None
    ignores_horizon: bool = False
    ignores_reward_range: bool = False
    name: str = "this algorithm"

    def federation(self, task: Task, settings) -> Federation:
        """Return the server and the clients that `make_server_and_clients` makes, as a federation."""
        return Federation(*self.make_server_and_clients(task, settings), self.up_kinds, self.down_kinds)


def _phased(
    settings: type, group_class: type[ClientGroup], server_class: type[Server], client=PhasedClient, **fields
) -> Algorithm:
    make = partial(make_phased, group_class, server_class, client=client)
    return Algorithm(settings, make, server_class.receives, group_class.receives, **fields)


_GP = {
    "uses_task_cells": False,
    "max_evaluations": gp.MAX_CLIENT_EVALUATIONS,
    "ignores_horizon": True,
    "ignores_reward_range": True,
}
_ROWS = {
    "pf-pne": _phased(PFPNESettings, PFPNE, PFPNEServer),
    "fed-pne": _phased(FedPNESettings, FedPNE, FedPNEServer),
    "pe": _phased(FedPNESettings, PE, Server),
    "pf-pne+": _phased(plus.PlusSettings, plus.PFPNEPlus, plus.PlusServer, client=plus.PlusClient),
    "hct-noise": _phased(plus.NoiseHCTSettings, plus.HCTNoise, Server, client=plus.PlusClient, ignores_horizon=True),
    "hct": Algorithm(hct.HCTSettings, partial(hct.make_tree_clients, hct.hct_constants), ignores_horizon=True),
    "hct-pyxab": Algorithm(hct.HCTSettings, partial(hct.make_tree_clients, hct.pyxab_constants), ignores_horizon=True),
    "centralized": Algorithm(
        hct.HCTSettings, make_centralized, CentralizedServer.receives, CentralizedClient.receives, ignores_horizon=True
    ),
    "hoo": Algorithm(hct.TreeSettings, partial(hct.make_tree_clients, hoo.hoo_constants)),
    "blin": Algorithm(blin.BLiNSettings, blin.make_blin, uses_task_cells=False),
    "fed1-ucb": Algorithm(
        fed1_ucb.Fed1UCBSettings,
        fed1_ucb.make_fed1_ucb,
        fed1_ucb.Fed1UCBServer.receives,
        fed1_ucb.Fed1UCBClient.receives,
        uses_task_cells=False,
    ),
    "fn-ucb": Algorithm(
        fn_ucb.FNUCBSettings,
        fn_ucb.make_fn_ucb,
        fn_ucb.FNUCBServer.receives,
        fn_ucb.FNUCBClient.receives,
        uses_task_cells=False,
        ignores_horizon=True,
    ),
    "gp": Algorithm(gp.GPSettings, gp.make_gp, **_GP),
    "gp-shared": Algorithm(gp.GPSettings, gp.make_shared_gp, gp.GPServer.receives, gp.SharedGPClient.receives, **_GP),
}
ALGORITHMS = {name: dataclasses.replace(row, name=name) for name, row in _ROWS.items()}
# The algorithms that take any number of evaluations: those of the paper's figures and tables.
UNLIMITED_ALGORITHMS = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.max_evaluations is None)


def get_algorithm(name: str | Algorithm) -> Algorithm:
    """Return the algorithm with this name; an Algorithm is returned as it is.

    An unknown name is a ValueError that suggests the most similar name.
    """
    if isinstance(name, Algorithm):
        return name
    if name not in tuple(ALGORITHMS):
        raise ValueError(unknown_name("algorithm", name, ALGORITHMS))
    return ALGORITHMS[name]


def settings_of(name: str | Algorithm) -> tuple[str, ...]:
    """Return the names of the settings that the algorithm takes."""
    return tuple(f.name for f in dataclasses.fields(get_algorithm(name).settings))


def make_settings(name: str | Algorithm, values: dict, problem=None):
    """Return the algorithm's frozen settings: the values given, and defaults for the rest.

    Delta="true" stands for the Delta of the problem. ValueError for a setting that the algorithm does not take, or a
    value out of its range.
    """
    algorithm, names = get_algorithm(name), settings_of(name)
    for given in values:
        if given not in names:
            raise ValueError(f"{algorithm.name}: {unknown_name('setting', given, names)}")
    Delta = values.get("Delta")
    if isinstance(Delta, str) and Delta == "true":
        if problem is None:
            raise ValueError('Delta="true" needs a problem whose optima are known; give a number here.')
        values = {**values, "Delta": float(problem.Delta)}
    return algorithm.settings(**values)


def make_federation(name: str | Algorithm, task: Task, /, **settings) -> Federation:
    """Make the server and the clients of an algorithm, ready to be asked and told.

    Parameters
    ----------
    name
        The name of an algorithm, a key of pfpne.algorithms.ALGORITHMS, or an Algorithm that `secured` returns.
    task
        The algorithm's knowledge of the problem.
    **settings
        The algorithm's own settings, by name; see the class of its settings.

    Returns
    -------
    Federation
        Server and clients, which share nothing but messages.

    Raises
    ------
    ValueError
        If there is no such algorithm or setting, or a value is out of its range.

    Examples
    --------
    >>> import pfpne
    >>> task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=3, horizon=500)
    >>> federation = pfpne.make_federation("pf-pne", task, c=0.2)
    >>> [(m, batch.points.tolist(), batch.counts.tolist()) for m, batch in federation.ask()]
    [(0, [[0.5]], [1]), (1, [[0.5]], [1]), (2, [[0.5]], [1])]
    """
    algorithm = get_algorithm(name)
    check(isinstance(task, Task), "task", "a Task, such as Task(Partition([[0, 1]]), n_clients=3, horizon=100)", task)
    return algorithm.federation(task, make_settings(name, settings))
