"""Simulations: one algorithm on one problem, by its objects or by a faster form of the same."""

from pfpne.algorithms import fn_ucb, hct, hoo, pf_pne

# fast(problem, task, settings, noise_streams, checkpoints, global_regret) -> Traces, equal to the objects; None where
# the objects have to run.
FAST = {
    "pf-pne": pf_pne.fast_pf_pne,
    "fed-pne": pf_pne.fast_fed_pne,
    "pe": pf_pne.fast_pe,
    "hct": hct.fast_hct,
    "hct-pyxab": hct.fast_hct_pyxab,
    "centralized": hct.fast_centralized,
    "hoo": hoo.fast_hoo,
    "fn-ucb": fn_ucb.fast,
}
