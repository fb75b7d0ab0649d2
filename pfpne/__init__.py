"""pfpne: Personalized Federated X-armed Bandit (PF-PNE), reproducible.

problem = pfpne.make_problem("garland", n_clients=20, shift=0.1, noise="bernoulli", seed=0, run=0)
run = pfpne.simulate("pf-pne", problem, horizon=100_000)
"""

from pfpne.federation import Task
from pfpne.problems import make_problem, problem_from_functions
from pfpne.partition import Partition, PyXABPartition, to_pyxab
from pfpne.algorithms import make_federation
from pfpne.simulation.simulate import simulate

__all__ = [
    "Partition",
    "PyXABPartition",
    "Task",
    "make_federation",
    "make_problem",
    "problem_from_functions",
    "simulate",
    "to_pyxab",
]
