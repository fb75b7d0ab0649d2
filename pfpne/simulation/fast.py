"""Maps each `make_server_and_clients` of the table of algorithms to a fast simulation of the objects that it makes."""

from collections.abc import Callable
from functools import partial

from pfpne.algorithms import Algorithm
from pfpne.algorithms.centralized import make_centralized
from pfpne.algorithms.fn_ucb import make_fn_ucb
from pfpne.algorithms.hct import make_alone
from pfpne.algorithms.phases import make_phased
from pfpne.simulation.neural import simulate_fn_ucb
from pfpne.simulation.phased import simulate_phases
from pfpne.simulation.tree import simulate_alone, simulate_centralized

# {make function: fast simulation}. A fast simulation takes the positional arguments that the row of ALGORITHMS has
# bound to its make function, and then (problem, task, settings, noise_streams, checkpoints, global_regret). It returns
# the same Measurements as a simulation of the objects, or None if the objects have to be simulated.
FAST = {
    make_phased: simulate_phases,
    make_alone: simulate_alone,
    make_centralized: simulate_centralized,
    make_fn_ucb: simulate_fn_ucb,
}


def fast_form(algorithm: Algorithm) -> Callable | None:
    """Return the fast simulation of an algorithm: its own, or the one registered for its maker; None if neither."""
    if algorithm.fast is not None:
        return algorithm.fast
    make = partial(algorithm.make_server_and_clients)
    return partial(FAST[make.func], *make.args) if make.func in FAST else None
