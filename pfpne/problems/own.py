"""One's own objectives: any functions, one a client."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pfpne.problems.base import MAX_DEPTH, Problem
from pfpne.validation import check


class FunctionsProblem(Problem):
    """A problem made of one's own functions, one a client, each (n, d) -> (n,) with values in [0, 1].

    domain: (d, 2), [low, high] a dimension. Nothing is evaluated before a simulation asks for it. optimum (M,) or
    one number, global_optimum: the maxima over the domain where they are known; None: searched for when first asked
    for, by tens of thousands of evaluations, which is reliable in one or two dimensions for functions that vary on
    scales above 1/100 of the width, and without warranty otherwise; NaN: done without, and the regret is NaN.
    Raises ValueError where a value is outside [0, 1]; a simulation raises RuntimeError where one is above its maximum.
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
        max_depth: int = MAX_DEPTH,
    ):
        check(isinstance(name, str) and name != "", "name", "a string that is not empty", name)
        check(isinstance(functions, Iterable), "functions", "a list of functions, one a client", functions)
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
    maximum = np.array(maximum, dtype=float)
    check(maximum.shape in ((), shape), name, f"a number, or of shape {shape}", maximum.shape)
    check(not ((maximum < 0) | (maximum > 1)).any(), name, "in [0, 1], or NaN where it is not known", maximum.tolist())
    return np.broadcast_to(maximum, shape)


problem_from_functions = FunctionsProblem  # what it does, beside make_problem
