"""The table of algorithms that have a faster form than their objects."""

from functools import partial

from pfpne.algorithms.hct import hct_constants, pyxab_constants
from pfpne.algorithms.hoo import hoo_constants
from pfpne.algorithms.pf_pne import PE, PFPNE, FedPNE, FedPNEServer, PhasedServer
from pfpne.algorithms.pf_pne_plus import HCTNoise, PFPNEPlus, PlusServer
from pfpne.federation import Server
from pfpne.simulation.neural import simulate_fn_ucb
from pfpne.simulation.phased import simulate_phases
from pfpne.simulation.tree import simulate_alone, simulate_centralized

# fast(problem, task, settings, noise_streams, checkpoints, global_regret) -> Measurements, equal to those of the
# objects, or None where the objects have to run.
FAST = {
    "pf-pne": partial(simulate_phases, PFPNE, PhasedServer),
    "fed-pne": partial(simulate_phases, FedPNE, FedPNEServer),
    "pe": partial(simulate_phases, PE, Server),
    "pf-pne+": partial(simulate_phases, PFPNEPlus, PlusServer),
    "hct-noise": partial(simulate_phases, HCTNoise, Server),
    "hct": partial(simulate_alone, hct_constants),
    "hct-pyxab": partial(simulate_alone, pyxab_constants),
    "centralized": simulate_centralized,
    "hoo": partial(simulate_alone, hoo_constants),
    "fn-ucb": simulate_fn_ucb,
}
