"""pfpne: Personalized Federated X-armed Bandit (PF-PNE), reproducible.

problem = pfpne.make_problem("garland", n_clients=20, shift=0.1, noise="bernoulli", seed=0, run=0)
run = pfpne.simulate("pf-pne", problem, horizon=100_000)

result = pfpne.tune([f, g], {"C": pfpne.Float(1e-3, 1e3, log=True)}, n_evaluations=200)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pfpne.algorithms import make_federation
    from pfpne.algorithms.secure import secured
    from pfpne.federation import Task
    from pfpne.live.states import load, save
    from pfpne.partition import Partition
    from pfpne.problems import make_problem, problem_from_functions
    from pfpne.pyxab import PyXABPartition, to_pyxab
    from pfpne.simulation.simulate import simulate
    from pfpne.tuning.evaluate import tune
    from pfpne.tuning.result import EvaluationError, Tuned
    from pfpne.tuning.search import Search, Trial
    from pfpne.tuning.space import Choice, Float, Int, Ordinal, Reward, Space

__version__ = "0.1.0"

# Where each name lives. It is loaded when it is first used: compilers and tables take longer than the rest.
_NAMES = {
    "algorithms": "make_federation",
    "algorithms.secure": "secured",
    "federation": "Task",
    "partition": "Partition",
    "problems": "make_problem problem_from_functions",
    "pyxab": "PyXABPartition to_pyxab",
    "live.states": "load save",
    "simulation.simulate": "simulate",
    "tuning.evaluate": "tune",
    "tuning.result": "EvaluationError Tuned",
    "tuning.search": "Search Trial",
    "tuning.space": "Choice Float Int Ordinal Reward Space",
}
_WHERE = {name: f"pfpne.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = [
    "Choice",
    "EvaluationError",
    "Float",
    "Int",
    "Ordinal",
    "Partition",
    "PyXABPartition",
    "Reward",
    "Search",
    "Space",
    "Task",
    "Trial",
    "Tuned",
    "load",
    "make_federation",
    "make_problem",
    "problem_from_functions",
    "save",
    "secured",
    "simulate",
    "to_pyxab",
    "tune",
]


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'pfpne' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
