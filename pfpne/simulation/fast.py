"""Maps each `make_server_and_clients` of the table of algorithms to a fast simulation of the objects that it makes."""

from collections.abc import Callable
from functools import partial

from pfpne.algorithms import Algorithm
from pfpne.algorithms.centralized import make_centralized
from pfpne.algorithms.fn_ucb import make_fn_ucb
from pfpne.algorithms.hct import make_tree_clients
from pfpne.algorithms.phases import make_phased
from pfpne.simulation.neural import simulate_fn_ucb
from pfpne.simulation.phased import simulate_phases
from pfpne.simulation.tree import simulate_centralized, simulate_tree_clients

# {make function: fast simulation}. A fast simulation takes first the positional arguments that the row of ALGORITHMS
# has bound to its make function, without the bound keywords, and then (problem, task, settings, noise_streams,
# checkpoints, global_regret). It returns the same Measurements as a simulation of the objects, or None if the objects
# have to be simulated.
FAST = {
    make_phased: simulate_phases,
    make_tree_clients: simulate_tree_clients,
    make_centralized: simulate_centralized,
    make_fn_ucb: simulate_fn_ucb,
}
# Keywords of make functions that matter only to the objects, such as the class of the clients.
KEYWORDS_OF_OBJECTS = {"client"}


def fast_simulation_of(algorithm: Algorithm) -> Callable | None:
    """Return the fast simulation of an algorithm: its own, or the one registered for its maker; None if neither.

    It is also None if the row of ALGORITHMS binds a keyword that the fast simulation does not know: the objects are
    simulated then.
    """
    if algorithm.fast is not None:
        return algorithm.fast
    make = partial(algorithm.make_server_and_clients)
    if make.func not in FAST or not make.keywords.keys() <= KEYWORDS_OF_OBJECTS:
        return None
    return partial(FAST[make.func], *make.args)
