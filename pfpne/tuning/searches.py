"""The algorithms that a search can use, and which one it takes if nobody says."""

from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.random_search import RandomSearchSettings, make_random_search

FEW, DEFAULT, DEFAULT_BEYOND = 1_000, "gp", "pf-pne+"  # up to FEW evaluations the one, beyond the other
_RANDOM = Algorithm(RandomSearchSettings, make_random_search, on_cells=False, anytime=True)
SEARCHES = {**ALGORITHMS, "random": _RANDOM}
NOISELESS = {"c": 1e-9, "noise_aware": False}  # confidence intervals without width: no reason to repeat a point
