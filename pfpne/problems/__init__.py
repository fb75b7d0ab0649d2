"""The table of objectives: seven synthetic functions, shifted and clipped, and the landmine grid.

A new synthetic objective is a function (n, d) -> (n,) beside the others and a row here; a new family is a file with
a kind of Problem, and a row. What every problem has is in base.py; how maxima are found, in maxima.py.
"""

from pfpne.problems import smooth, synthetic
from pfpne.problems.base import Objective, Problem
from pfpne.problems.functions import problem_from_functions
from pfpne.problems.landmine import LandmineProblem, LogLandmineProblem
from pfpne.problems.synthetic import KnownPeaksProblem, Rastrigin, ShiftedProblem, Synthetic
from pfpne.validation import check, check_amount, check_count, unknown_name

__all__ = ["OBJECTIVES", "OBJECTIVE_NAMES", "Problem", "make_problem", "problem_from_functions"]

OBJECTIVES: dict[str, Objective] = {
    "garland": Synthetic(synthetic.garland, 0.0, 1.0, synthetic.GARLAND_PEAKS, d=1, problem=KnownPeaksProblem),
    "doublesine": Synthetic(
        synthetic.doublesine, 0.0, 1.0, synthetic.DOUBLESINE_PEAKS, closed_form=False, d=1, problem=KnownPeaksProblem
    ),
    "himmelblau": Synthetic(synthetic.himmelblau, -5.0, 5.0, synthetic.HIMMELBLAU_PEAKS, d=2, problem=ShiftedProblem),
    "ackley": Synthetic(synthetic.ackley, -1.0, 1.0, synthetic.ORIGIN, d=2, problem=ShiftedProblem),
    "rastrigin": Synthetic(synthetic.rastrigin, -1.0, 1.0, synthetic.ORIGIN, d=10, any_d=True, problem=Rastrigin),
    "levy": Synthetic(smooth.levy, -10.0, 10.0, smooth.LEVY_PEAKS, closed_form=False, d=1, problem=ShiftedProblem),
    "styblinski": Synthetic(
        smooth.styblinski, -5.0, 5.0, smooth.STYBLINSKI_PEAKS, closed_form=False, d=1, problem=ShiftedProblem
    ),
    "landmine": Objective(problem=LandmineProblem, d=2),
    "landmine-log": Objective(problem=LogLandmineProblem, d=2),
}
OBJECTIVE_NAMES = tuple(OBJECTIVES)


def make_problem(
    name: str,
    n_clients: int,
    shift: float = 0.1,
    noise: float | str = "bernoulli",
    seed: int = 0,
    run: int = 0,
    d: int | None = None,
    common_shift: float = 0.0,
) -> Problem:
    """Make the clients' objectives for one run.

    Parameters
    ----------
    name
        "garland", "doublesine", "himmelblau", "ackley", "rastrigin", "levy", "styblinski", "landmine" or
        "landmine-log".
    n_clients
        M, in 1..10^6.
    shift
        The standard deviation >= 0 of the clients' own shifts, in units of the domain's width; ignored by landmine.
    noise
        "bernoulli" for rewards 0 and 1, or the half-width >= 0 of uniform noise.
    seed, run
        Integers >= 0, which name the random streams. A client's shift, or its field, does not depend on M.
    d
        The dimension, of rastrigin alone; None for 10.
    common_shift
        The standard deviation >= 0 of the shift that all clients of a run have in common, in the same units as shift.

    Returns
    -------
    Problem
        Its domain (d, 2), its values(x) (M, n) at points x (n, d), without noise, and the clients' maxima optimum (M,).

    Raises
    ------
    ValueError
        If a value is out of its range, or there is no such objective.

    Examples
    --------
    >>> import pfpne
    >>> problem = pfpne.make_problem("garland", n_clients=2, shift=0.0)
    >>> problem.values([[0.5]]).round(4)
    array([[0.7515],
           [0.7515]])
    """
    if name not in tuple(OBJECTIVES):
        raise ValueError(unknown_name("objective", name, OBJECTIVES))
    objective = OBJECTIVES[name]
    for setting, value in (("shift", shift), ("common_shift", common_shift)):
        check_amount(setting, value)
    if d is not None:
        check_count("d", d, ", or None")
    d = objective.d if d is None else int(d)
    check(objective.any_d or d == objective.d, "d", f"{objective.d} (or None), the dimension of {name}", d)
    return objective.problem(objective, name, d, n_clients, shift, common_shift, noise, seed, run)
