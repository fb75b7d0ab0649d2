"""The algorithms that a search can use, and the default one."""

import inspect
from collections.abc import Callable, Iterable

from pfpne.algorithms import ALGORITHMS, Algorithm, settings_of
from pfpne.algorithms.random_search import RandomSearchSettings, make_random_search
from pfpne.validation import nearest_name

FEW_EVALUATIONS = 1_000  # up to so many the first default, beyond them the second
DEFAULT_FOR_FEW, DEFAULT_FOR_MANY = "gp", "pf-pne+"
DEFAULT_SETTINGS_FOR_MANY = {"gaussian_process": True}
SEARCHES = {
    **ALGORITHMS,
    "random": Algorithm(
        RandomSearchSettings,
        make_random_search,
        uses_task_cells=False,
        ignores_horizon=True,
        ignores_reward_range=True,
        name="random",
    ),
}
# Without noise there is no reason to repeat a point: confidence intervals have next to no width.
NOISELESS_SETTINGS = {"c": 1e-9, "noise_aware": False}
TUNE_ONLY_ARGUMENTS = ("catch", "n_jobs", "timeout", "callbacks", "progress")  # arguments: about the calls of functions


def default_search(n_evaluations: int, noise: float | str | None, settings: dict) -> tuple[str, dict]:
    """Return the algorithm of a search for which none is named, and its settings with those that were given.

    With safe=True or optimistic=False, which exclude a Gaussian process, PF-PNE+ searches without one. So it does
    without noise: its Gaussian process knows at most 150 points, and HCT goes on to smaller and smaller cells.
    """
    if n_evaluations <= FEW_EVALUATIONS:
        return DEFAULT_FOR_FEW, settings
    is_excluded = settings.get("safe") is True or settings.get("optimistic") is False or noise == 0
    return DEFAULT_FOR_MANY, settings if is_excluded else {**DEFAULT_SETTINGS_FOR_MANY, **settings}


def check_argument_names(function: Callable, settings: Iterable[str]) -> None:
    """Raise a ValueError if one of the settings is rather an argument of `tune` or `Search`, misspelt or misplaced."""
    own = {name for algorithm in SEARCHES.values() for name in settings_of(algorithm)}
    for name in settings:
        if name in own:
            continue
        wrong = f"{function.__name__} has no argument {name!r}."
        if guess := nearest_name(name, inspect.signature(function).parameters):
            raise ValueError(f"{wrong} Did you mean {guess!r}?")
        if name in TUNE_ONLY_ARGUMENTS:
            raise ValueError(f"{wrong} It is one of tune, which calls the objectives; here it is you who evaluates.")
