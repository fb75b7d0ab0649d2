"""The names of the algorithms, and where each is.

Apart from pfpne.registry, which loads them, so that a row more leaves the stored runs of the others valid: a run's
key holds its own row alone.
"""

from __future__ import annotations

_PHASED = ("pf_pne", "bounds")
_HCT = ("hct",)
_FN_UCB = ("fn_ucb", "arms")

# name -> (modules, settings, make, up, down, fast), see registry.Algorithm. The first module is where the rest lives;
# all of them are what a result of the algorithm depends on, besides what every result does (store.COMMON).
ALGORITHMS = {
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
NAMES = tuple(ALGORITHMS)
