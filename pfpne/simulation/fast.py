"""Simulations: one algorithm on one problem, by its objects or by a faster form of the same."""

from functools import partial

from pfpne.algorithms import fn_ucb, pf_pne
from pfpne.algorithms.hct import hct_theory, pyxab_theory
from pfpne.algorithms.hoo import hoo_theory
from pfpne.simulation.tree import simulate_alone, simulate_centralized

# fast(problem, task, settings, noise_streams, checkpoints, global_regret) -> Traces, equal to the objects; None where
# the objects have to run.
FAST = {
    "pf-pne": pf_pne.fast_pf_pne,
    "fed-pne": pf_pne.fast_fed_pne,
    "pe": pf_pne.fast_pe,
    "hct": partial(simulate_alone, hct_theory),
    "hct-pyxab": partial(simulate_alone, pyxab_theory),
    "centralized": simulate_centralized,
    "hoo": partial(simulate_alone, hoo_theory),
    "fn-ucb": fn_ucb.fast,
}
