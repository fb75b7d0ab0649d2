"""One's own objectives: any functions, one for each client."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pfpne.problems.base import DEFAULT_MAX_DEPTH, Problem
from pfpne.validation import check


class FunctionsProblem(Problem):
    """A problem made of one's own functions, one for each client.

    Nothing is evaluated before a simulation asks for it. A maximum that is not given is searched for when it is first
    needed, by tens of thousands of evaluations. The search is reliable in one or two dimensions, for functions that
    vary on scales above 1/100 of the width, and not guaranteed otherwise.

    Parameters
    ----------
    functions
        The clients' objectives, each (n, d) -> (n,), with values in [0, 1].
    domain
        The box, shape (d, 2): one [low, high] for each dimension.
    noise
        "bernoulli", or the half-width >= 0 of uniform noise.
    optimum
        The maxima of the functions over the domain, (M,) or one number; None to search for them; NaN to do without, so
        that the regret is NaN.
    global_optimum
        The maximum of the functions' mean: a number, None or NaN, as for optimum.
    name
        A name, which is part of the keys of the random streams.
    seed, run
        Integers >= 0, which name the random streams.
    max_depth
        The depth at which the partition ends, in 0..62.

    Raises
    ------
    ValueError
        If an argument is out of its range, or, later, a value lies outside of [0, 1]. (A simulation raises a
        RuntimeError if a value exceeds its given maximum.)

    Examples
    --------
    >>> import pfpne
    >>> functions = [lambda x, peak=peak: 1 - abs(x[:, 0] - peak) for peak in (0.25, 0.5)]
    >>> problem = pfpne.problem_from_functions(functions, [[0.0, 1.0]], optimum=1.0)
    >>> problem.values([[0.25]])
    array([[1.  ],
           [0.75]])
    >>> pfpne.simulate("hct", problem, horizon=100).regret.shape
    (2, 100)
    """

    def __init__(
        self,
        functions: Sequence[Callable[[np.ndarray], np.ndarray]],
        domain,
        noise: float | str = "bernoulli",
        optimum=None,
        global_optimum: float | None = None,
        name: str = "custom",
        seed: int = 0,
        run: int = 0,
        max_depth: int = DEFAULT_MAX_DEPTH,
    ):
        check(isinstance(name, str) and name != "", "name", "a string that is not empty", name)
        check(isinstance(functions, Iterable), "functions", "a list of functions, one for each client", functions)
        self.functions = list(functions)
        for m, function in enumerate(self.functions):
            check(callable(function), f"functions[{m}]", "callable, (n, d) -> (n,)", function)
        super().__init__(name, domain, len(self.functions), noise, seed, run, max_depth)
        if optimum is not None:
            self.optimum = _given("optimum", optimum, (self.n_clients,))
        if global_optimum is not None:
            self.global_optimum = float(_given("global_optimum", global_optimum, ()))

    def _evaluated(self, clients, x):
        if np.ndim(clients):
            value = np.empty(len(x))
            for m in np.unique(clients):
                value[clients == m] = self.client_values(m, x[clients == m])
            return value
        value = np.asarray(self.functions[clients](x), dtype=float)
        if value.shape != (len(x),):
            raise ValueError(f"functions[{clients}] must return {len(x)} values, shape ({len(x)},); got {value.shape}.")
        wrong = ~((value >= 0) & (value <= 1))
        if wrong.any():
            raise ValueError(
                f"functions[{clients}] must have its values in [0, 1]; it is {float(value[wrong][0])!r} "
                f"at {x[wrong][0].tolist()}. Scale it."
            )
        return value


def _given(name: str, maximum, shape: tuple) -> np.ndarray:
    """Return a maximum that was given, as an array of the shape; ValueError if it cannot be one."""
    maximum = np.array(maximum, dtype=float)
    check(maximum.shape in ((), shape), name, f"a number, or of shape {shape}", maximum.shape)
    check(not ((maximum < 0) | (maximum > 1)).any(), name, "in [0, 1], or NaN where it is not known", maximum.tolist())
    return np.broadcast_to(maximum, shape)


# What a user calls: a function in the way of `make_problem`. Calling it makes a FunctionsProblem.
problem_from_functions = FunctionsProblem
