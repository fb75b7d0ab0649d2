"""Simulations: one algorithm on one problem, by its objects or by a faster form of the same."""

from functools import partial

from pfpne.algorithms import hct, hoo
from pfpne.algorithms.pf_pne import PE, PFPNE, FedPNE, FedPNEServer, PhasedServer
from pfpne.federation import Server
from pfpne.simulation.neural import simulate_fn_ucb
from pfpne.simulation.phased import simulate_phases

# fast(problem, task, settings, noise_streams, checkpoints, global_regret) -> Traces, equal to the objects; None where
# the objects have to run.
FAST = {
    "pf-pne": partial(simulate_phases, PFPNE, PhasedServer),
    "fed-pne": partial(simulate_phases, FedPNE, FedPNEServer),
    "pe": partial(simulate_phases, PE, Server),
    "hct": hct.fast_hct,
    "hct-pyxab": hct.fast_hct_pyxab,
    "centralized": hct.fast_centralized,
    "hoo": hoo.fast_hoo,
    "fn-ucb": simulate_fn_ucb,
}
