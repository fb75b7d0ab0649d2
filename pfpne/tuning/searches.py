"""The algorithms that a search can use, and which one it takes if nobody says."""

from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.random_search import RandomSearchSettings, make_random_search

FEW_EVALUATIONS = 1_000  # up to so many the first default, beyond them the second
DEFAULT_FOR_FEW, DEFAULT_FOR_MANY = "gp", "pf-pne+"
_RANDOM = Algorithm(RandomSearchSettings, make_random_search, on_cells=False, anytime=True)
SEARCHES = {**ALGORITHMS, "random": _RANDOM}
# Without noise there is no reason to repeat a point: confidence intervals have next to no width.
NOISELESS_SETTINGS = {"c": 1e-9, "noise_aware": False}
