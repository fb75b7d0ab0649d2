"""The notebooks, one row each: the algorithms compared, the parameters, and the values used by a batch."""

import functools
from dataclasses import dataclass

from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.run.parameter_types import PARAMETERS, SETTINGS, WORKERS
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.selections import (
    BEYOND_ALGORITHMS,
    COMMUNICATION_OBJECTIVES,
    COMPARED_ALGORITHMS,
    EXPLAINED_ALGORITHMS,
    MAP_ALGORITHMS,
    MAP_OBJECTIVES,
    PAPER_ALGORITHMS,
    PAPER_SYNTHETIC_OBJECTIVES,
    RANKED_IN_REGRET_TABLES,
    SPECIFICATION_ALGORITHMS,
)
from pfpne.problems import OBJECTIVES, Synthetic


@dataclass(frozen=True)
class Notebook:
    """The parameters that a notebook takes, with their defaults.

    Parameters
    ----------
    group : str
        "paper" if it makes figures or tables of the paper, "evidence" if it goes beyond them, "map" for the map.
    seconds : int
        The time of an execution in the smoke profile, without stored runs, in one batch on two busy processors.
    algorithms : tuple of str
        The algorithms compared by default.
    objectives : tuple of str
        The objectives that it can be run for, one at a time, the first by default; () for a notebook about many.
    without : tuple of str
        The parameters that it does not take.
    uses_claim_runs : bool
        Whether the default of n_runs is the profile's claim_runs.
    narrows_grid : bool
        Whether its parameters of scale (M, T, noise, ...) are None by default. None stands for every value in the grid
        of pfpne.paper.exhibits.regimes; a given value narrows the grid to this value.
    max_runs, max_horizon : int, optional
        Upper limits of the profile's values.
    needs_communication : bool
        Whether it shows only communication, so that at least one of its algorithms must communicate.
    takes_reading : bool
        Whether it shows a figure of the paper, and so takes a reading.
    """

    group: str
    seconds: int
    algorithms: tuple[str, ...]
    objectives: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    uses_claim_runs: bool = False
    narrows_grid: bool = False
    max_runs: int | None = None
    max_horizon: int | None = None
    needs_communication: bool = False
    takes_reading: bool = False

    @functools.cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that the notebook takes."""
        return tuple(
            name for name in PARAMETERS if name not in self.without and (self.takes_reading or name != "reading")
        )

    def default_algorithms(self, reading: str | None) -> tuple[str, ...]:
        """What is compared by default; under "printed", a notebook on regret has the longer RANKED_IN_REGRET_TABLES."""
        has_ranking = self.algorithms == COMPARED_ALGORITHMS and reading == "printed"
        return RANKED_IN_REGRET_TABLES if has_ranking else self.algorithms


# What the walkthrough is run with, in every profile; the notebook has the same numbers.
WALKTHROUGH_PARAMETERS = {"n_clients": 3, "horizon": 10_000, "Delta": 0.1}
SITES_PARAMETERS = {  # the paper's are in the notebook, too
    "smoke": {"n_clients": 3, "horizon": 16, "n_runs": 2},
    "paper": {"n_clients": 3, "horizon": 120, "n_runs": 20},
}
_NOT_IN_WALKTHROUGH = ("objective", "algorithms", "n_runs", *WORKERS, "cells", *SETTINGS[:-1])
_NOT_FOR_MANY = ("objective", "algorithms", "noise", *SETTINGS)  # no parameters where many settings are run
_NEW_OBJECTIVES = tuple(
    f for f, row in OBJECTIVES.items() if isinstance(row, Synthetic) and f not in PAPER_SYNTHETIC_OBJECTIVES
)
NOTEBOOKS = {
    "0_how_it_works": Notebook("paper", 15, ("pf-pne",), ("garland",), without=_NOT_IN_WALKTHROUGH),
    "1_synthetic_regret": Notebook(
        "paper", 32, COMPARED_ALGORITHMS, (*PAPER_SYNTHETIC_OBJECTIVES, *_NEW_OBJECTIVES), takes_reading=True
    ),
    "2_landmine_auc": Notebook(
        "paper", 23, COMPARED_ALGORITHMS, ("landmine",), without=("objective", "shift"), takes_reading=True
    ),
    "3_communication_cost": Notebook(
        "paper",
        14,
        ("fed-pne", "pf-pne"),
        (*PAPER_SYNTHETIC_OBJECTIVES, "landmine"),
        needs_communication=True,
        takes_reading=True,
    ),
    "4_table1": Notebook("paper", 60, UNLIMITED_ALGORITHMS, without=(*_NOT_FOR_MANY, "cells"), uses_claim_runs=True),
    "12_claims": Notebook(
        "evidence", 250, UNLIMITED_ALGORITHMS, without=(*_NOT_FOR_MANY, "cells"), uses_claim_runs=True
    ),
    "5_panels_and_times": Notebook(
        "paper", 36, COMPARED_ALGORITHMS, without=("objective", "noise"), takes_reading=True
    ),
    "10_specification_curve": Notebook(
        "evidence", 49, SPECIFICATION_ALGORITHMS, without=(*_NOT_FOR_MANY, "cells", "shift"), max_runs=5
    ),
    "11_as_printed": Notebook(
        "evidence",
        200,
        PAPER_ALGORITHMS,
        without=(*_NOT_FOR_MANY, "n_clients", "horizon", "seed", "cells", "shift"),
        uses_claim_runs=True,
    ),
    "6_tune_your_own": Notebook(
        "evidence", 46, ("pf-pne+", "hct-noise"), ("digits",), without=(*_NOT_FOR_MANY, "cells", "shift")
    ),
    "7_beyond": Notebook("evidence", 107, BEYOND_ALGORITHMS, without=_NOT_FOR_MANY, max_runs=5, max_horizon=20_000),
    "8_regime_map": Notebook(
        "map",
        66,
        MAP_ALGORITHMS,
        (*MAP_OBJECTIVES, "rastrigin"),
        without=("algorithms", *SETTINGS),
        max_runs=5,
        narrows_grid=True,
    ),
    "9_why": Notebook(
        "evidence",
        56,
        EXPLAINED_ALGORITHMS,
        PAPER_SYNTHETIC_OBJECTIVES,
        without=("algorithms", "noise", *SETTINGS),
        max_runs=5,
    ),
}
NOTEBOOK_GROUPS = ("paper", "evidence", "map", "all")  # what a batch makes: see `group_of`


def group_of(notebook: str, parameters: dict) -> str:
    """Return the group of an execution: the notebook's, or "evidence" for a paper's figure under the reading "model".

    So `make figures` makes each of the paper's figures once.
    """
    return "evidence" if parameters.get("reading") == "model" else NOTEBOOKS[notebook].group


def executions(profile: str) -> list[tuple[str, dict]]:
    """Return a batch's executions in order: (notebook, its parameters besides `profile`).

    A notebook that is not named here is executed once, with the profile's values.
    """
    noises, model = PROFILES[profile].noises, {"reading": "model"}
    planned = [
        ("0_how_it_works", WALKTHROUGH_PARAMETERS),
        *(("1_synthetic_regret", {"objective": f}) for f in PAPER_SYNTHETIC_OBJECTIVES),
        ("2_landmine_auc", {}),
        *(("3_communication_cost", {"objective": f}) for f in COMMUNICATION_OBJECTIVES),
        ("5_panels_and_times", {}),
        *(
            ("1_synthetic_regret", {**model, "objective": f, "noise": a})
            for a in noises
            for f in PAPER_SYNTHETIC_OBJECTIVES
        ),
        ("2_landmine_auc", model),
        *(("3_communication_cost", {**model, "objective": f}) for f in COMMUNICATION_OBJECTIVES),
        ("5_panels_and_times", model),
        ("4_table1", {}),
        ("12_claims", {}),
        ("6_tune_your_own", SITES_PARAMETERS[profile]),
        ("7_beyond", {}),
        ("8_regime_map", {}),
        ("9_why", {}),
        ("10_specification_curve", {}),
        ("11_as_printed", {}),
    ]
    named = {name for name, _ in planned}
    return planned + [(name, {}) for name in NOTEBOOKS if name not in named]
