"""Tune one's own functions, one for each client, in one call.

Each function takes a dict of parameters and returns a number. All functions are called in this process. The server and
the clients exchange the same messages as they would between sites (pfpne.federation).
"""

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from tqdm.auto import tqdm

from pfpne.tuning.result import RESUME_HINT, EvaluationError, Tuned
from pfpne.tuning.search import Search, Trial
from pfpne.tuning.searches import check_argument_names
from pfpne.tuning.space import Space
from pfpne.validation import check, check_count, is_number


def tune(
    objectives: Mapping[Hashable, Callable[[dict], float]] | Sequence[Callable[[dict], float]],
    space: Mapping | Space,
    n_evaluations: int,
    *,
    algorithm: str | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    direction: str = "maximize",
    noise: float | str | None = None,
    seed: int = 0,
    history: str | Path | Tuned | None = None,
    known: Mapping[Hashable, Iterable[tuple[Mapping, float]]] | None = None,
    catch: type[Exception] | tuple[type[Exception], ...] = (),
    give_up: int = 10,
    n_jobs: int = 1,
    timeout: float | None = None,
    callbacks: Sequence[Callable[["Search", dict], object]] = (),
    progress: bool = True,
    Delta: float | None = None,
    nu_1: float | None = None,
    rho: float | None = None,
    c: float | None = None,
    delta: float | None = None,
    early_descent: bool | None = None,
    **settings,
) -> Tuned:
    """Find the parameters that make each objective best.

    Parameters
    ----------
    objectives
        Functions, one for each client, in a list, or in a dict by any hashable names. Each takes {name: value} and
        returns a number within reward_range.
    space
        {name: Float, Int, Ordinal or Choice}, or a `Space`.
    n_evaluations
        The number of calls of each objective, >= 1: not more, and not fewer unless noise is 0 or the search is stopped.
        (A call that fails before the client has any value does not count: it is repeated once, and then made at random
        points until one gives a value.)
    algorithm
        The name of an algorithm, or "random"; None for "gp", which sends nothing, up to 1,000 evaluations, and for
        "pf-pne+" with gaussian_process=True beyond (without it if noise is 0, safe=True or
        optimistic=False).
    reward_range
        (low, high), the range of the values. The narrower it is, the better algorithms can distinguish cells.
    direction
        "maximize" or "minimize".
    noise
        None if it is unknown; "bernoulli" for values 0 and 1; or the half-width >= 0 of uniform noise, in units of the
        value. With 0, equal parameters give equal values: a repeated point counts as an evaluation, and its objective
        is not called again.
    seed
        An integer >= 0, which decides everything that is drawn.
    history
        A file, which is read if it exists, and written during the search, so that the same call continues where it was
        stopped; or an earlier result, such as the result of an `EvaluationError`. With gp, gp-shared and random, a call
        with a larger n_evaluations or another reward_range continues, too.
    known
        {client: [(parameters, value), ...]}: earlier values, which cost no evaluation. gp and gp-shared learn from
        them, and they count in the decision what to deploy.
    catch
        Errors of an objective that count as a missing value, so that the search continues; a value that is no number of
        the range is a ValueError. A missing value counts as the mean of the client's other values at the point; without
        any, as the client's worst value so far.
    give_up
        The number of missing values of a client in a row that raise an `EvaluationError` all the same, >= 1.
    n_jobs
        The number of clients evaluated at a time, in threads; a function is called by one thread at a time. It changes
        no result.
    timeout
        Seconds after which no evaluation begins; None for no limit.
    callbacks
        Functions, called as callback(search, row) after each evaluation; they may call search.stop(). Then, and after
        the timeout, `tune` returns the result so far. The row has client, parameters, value (None if it is missing),
        seconds and why (the reason if it is missing). If a callback raises an error, the error has the result so far.
    progress
        Whether a progress bar is shown.
    Delta, nu_1, rho, c, delta, early_descent, **settings
        The algorithm's own settings. Delta and nu_1 are in units of the width of reward_range.

    Returns
    -------
    Tuned
        What to deploy, and tables of all that was evaluated and sent.

    Raises
    ------
    ValueError
        If an argument is out of its range, before anything is evaluated.
    EvaluationError
        If an objective raises an error, or returns no number of the range, and catch does not say otherwise. It names
        the client and the point, and has the result so far.
    KeyboardInterrupt
        On Ctrl-C, with the result so far.

    Examples
    --------
    >>> import pfpne
    >>> objectives = {"Oslo": lambda p: 1 - (p["x"] - 0.3) ** 2, "Rome": lambda p: 1 - (p["x"] - 0.4) ** 2}
    >>> result = pfpne.tune(objectives, {"x": pfpne.Float(0, 1)}, n_evaluations=15, noise=0, progress=False)
    >>> round(result.deploy["Oslo"]["x"], 1)
    0.3
    """
    is_filled = isinstance(objectives, (Mapping, Sequence)) and len(objectives) > 0
    check(is_filled, "objectives", "functions, in a list, or in a dict by the clients' names", objectives)
    names = list(objectives) if isinstance(objectives, Mapping) else [str(m) for m in range(len(objectives))]
    functions = dict(zip(names, objectives.values() if isinstance(objectives, Mapping) else objectives, strict=True))
    for name, function in functions.items():
        check(callable(function), f"the objective of client {name}", "a function of a dict of parameters", function)
    kinds = catch if isinstance(catch, tuple) else (catch,)
    are_errors = all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
    check(are_errors, "catch", "a class of errors, or a tuple of them, such as (ValueError,)", catch)
    check_count("n_jobs", n_jobs)
    check(timeout is None or (is_number(timeout) and timeout > 0), "timeout", "a number of seconds > 0", timeout)
    check(
        isinstance(callbacks, Sequence) and all(map(callable, callbacks)), "callbacks", "a list of functions", callbacks
    )
    check(isinstance(progress, bool), "progress", "True or False", progress)
    check_argument_names(tune, settings)
    common = {"Delta": Delta, "nu_1": nu_1, "rho": rho, "c": c, "delta": delta, "early_descent": early_descent}
    search = Search(
        names,
        space,
        n_evaluations,
        algorithm=algorithm,
        reward_range=reward_range,
        direction=direction,
        noise=noise,
        seed=seed,
        history=history,
        known=known,
        give_up=give_up,
        **{name: value for name, value in common.items() if value is not None},
        **settings,
    )
    with search:
        end = math.inf if timeout is None else time.monotonic() + timeout
        total = search.request["n_evaluations"] * len(names)
        with tqdm(total=total, desc=search.request["algorithm"], unit="evaluation", disable=not progress) as bar:
            _evaluate_all(search, functions, kinds, n_jobs, end, callbacks, bar)
    return search.result()


def _evaluate_all(search: "Search", functions: dict, catch: tuple, n_jobs: int, end: float, callbacks, bar) -> None:
    """Evaluate the search's trials until it is done or stopped, one evaluation of a client at a time."""

    def evaluate(trial: Trial) -> tuple:
        start = time.perf_counter()
        try:
            value, error = search.reward.number(functions[trial.client](dict(trial.parameters))), None
        except Exception as failure:  # whatever an objective may raise
            value, error = None, failure
        return trial, value, error, time.perf_counter() - start

    def tell(trial: Trial, value: float | None, error: Exception | None, seconds: float) -> None:
        if error is not None and not isinstance(error, catch):
            missing = f"With catch={type(error).__name__} it counts as missing, and the search goes on."
            message = f"client {trial.client} at {trial.parameters}: {_describe(error)}. {missing} {RESUME_HINT}"
            raise EvaluationError(message, search.result()) from error
        row = search.tell(trial, value, seconds=seconds, why="" if error is None else _describe(error))
        bar.update(search.n_evaluated - bar.n)
        try:
            for callback in callbacks:
                callback(search, row)
        except Exception as error:  # its own, not an EvaluationError: whoever wrote the callback may wait for it
            error.add_note(RESUME_HINT)
            error.result = search.result()  # pyright: ignore[reportAttributeAccessIssue]
            raise

    try:
        if n_jobs == 1:
            while trials := search.ask():
                bar.update(search.n_evaluated - bar.n)
                for trial in trials:
                    if search.stopped or time.monotonic() > end:
                        return
                    tell(*evaluate(trial))
            bar.update(search.n_evaluated - bar.n)
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            running, failure = {}, None
            while running or failure is None:
                if failure is None and not search.stopped and time.monotonic() <= end:
                    for trial in search.ask():
                        if trial.client not in running and len(running) < n_jobs:
                            running[trial.client] = pool.submit(evaluate, trial)
                if not running:
                    break
                done, _ = wait(running.values(), return_when=FIRST_COMPLETED)
                for client in [client for client, future in running.items() if future in done]:
                    try:
                        tell(*running.pop(client).result())
                    except Exception as error:  # the others, which are paid for, are told first
                        failure = failure or error
            bar.update(search.n_evaluated - bar.n)
            if failure is not None:
                failure.result = search.result()  # pyright: ignore[reportAttributeAccessIssue]
                raise failure
    except KeyboardInterrupt as stop:  # not replaced by another error: Python ends as after any other Ctrl-C
        stop.args = (RESUME_HINT,)
        stop.result = search.result()  # pyright: ignore[reportAttributeAccessIssue]
        raise


def _describe(error: Exception) -> str:
    """Return an error's message with the name of its class, on one line that is not too long."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "it gives no message"
    return f"{type(error).__name__}: {text[:500].rstrip('. ')}"
