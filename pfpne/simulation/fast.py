"""The table of what simulates, in a faster form, the server and the clients that a function of an algorithm makes."""

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

# The function that makes them, and the fast form. The latter is given what the row of ALGORITHMS gives the former by
# position, and then (problem, task, settings, noise_streams, checkpoints, global_regret). It returns Measurements,
# equal to those of the objects, or None where the objects have to run.
FAST = {
    make_phased: simulate_phases,
    make_alone: simulate_alone,
    make_centralized: simulate_centralized,
    make_fn_ucb: simulate_fn_ucb,
}


def fast_form(algorithm: Algorithm) -> Callable | None:
    """Return the fast form of an algorithm: its own, or that of what makes it; None if there is none."""
    if algorithm.fast is not None:
        return algorithm.fast
    make = partial(algorithm.make)
    return partial(FAST[make.func], *make.args) if make.func in FAST else None
