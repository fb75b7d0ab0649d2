"""Tune functions of one's own, one per client, in one call.

    result = pfpne.tune({"Oslo": f, "Rome": g}, {"C": pfpne.Float(1e-3, 1e3, log=True)}, n_evaluations=100)
    result.deploy  # {"Oslo": {"C": ...}, "Rome": {"C": ...}}

Each function takes a dict of parameters and returns a number. All are called here, in this process; what passes between
the server and the clients is what would pass between sites (pfpne.federation).
"""

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from tqdm.auto import tqdm

from pfpne.tuning.result import HOW, EvaluationError, Tuned
from pfpne.tuning.search import Search, Trial
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
    """For each objective, the parameters that make it best.

    Parameters
    ----------
    objectives: functions, one per client, in a list, or in a dict by any hashable names; each takes {name: value} and
        returns a number within reward_range.
    space: {name: Float, Int, Ordinal or Choice}, or a Space.
    n_evaluations: how often each objective is called, >= 1: no more, and no less unless noise is 0 or the search is
        stopped. (A call that fails before the client has any value is made again.)
    algorithm: a registered name, or "random"; None: gp-shared up to 1,000 evaluations, pf-pne+ beyond.
    reward_range: (low, high), which no value may leave. The narrower, the better the algorithms that compare cells
        can tell them apart. direction: "maximize" or "minimize".
    noise: None if not known; "bernoulli"; or the half-width of uniform noise, in units of the value. 0: equal
        parameters give equal values. Then a point met again, which counts, is not evaluated again.
    seed: of all that is drawn, an integer >= 0.
    history: a file, which is read if it is there and written as the search goes, so that the same call goes on where it
        was stopped; or an earlier result, such as that of an error below. With gp, gp-shared and random a larger
        n_evaluations goes on, too.
    known: {client: [(parameters, value), ...]}, values of before, which cost nothing: gp and gp-shared learn from them,
        and they count when it is decided what to deploy.
    catch: errors of an objective that count as a missing value, so that the search goes on; a value that is no number
        of the range is a ValueError. A missing value counts as the mean of the client's others at that point, else as
        its worst so far. give_up: so many of a client in a row are an EvaluationError all the same.
    n_jobs: how many clients are evaluated at a time, in threads, each function in one at a time; it changes no result.
    timeout: seconds after which no evaluation begins; callbacks: called as callback(search, row) after each, and may
        call search.stop(). Either way what was found so far comes back.
    Delta, nu_1, rho, c, delta, early_descent, settings: the algorithm's own; those in units of the reward, Delta and
        nu_1, in units of the width of the range.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError: for what is wrong in a call, before anything is evaluated.
    EvaluationError, which names the client and the point, if an objective raises an error, or returns no number of the
        range, and catch does not say otherwise; KeyboardInterrupt on Ctrl-C. Both have the result so far.
    """
    listed = isinstance(objectives, (Mapping, Sequence)) and len(objectives) > 0
    check(listed, "objectives", "functions, in a list, or in a dict by the clients' names", objectives)
    names = list(objectives) if isinstance(objectives, Mapping) else [str(m) for m in range(len(objectives))]
    functions = dict(zip(names, objectives.values() if isinstance(objectives, Mapping) else objectives, strict=True))
    for name, function in functions.items():
        check(callable(function), f"the objective of client {name}", "a function of a dict of parameters", function)
    kinds = catch if isinstance(catch, tuple) else (catch,)
    holds = all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
    check(holds, "catch", "a class of errors, or a tuple of them, such as (ValueError,)", catch)
    check_count("n_jobs", n_jobs)
    check(timeout is None or (is_number(timeout) and timeout > 0), "timeout", "a number of seconds > 0", timeout)
    check(
        isinstance(callbacks, Sequence) and all(map(callable, callbacks)), "callbacks", "a list of functions", callbacks
    )
    check(isinstance(progress, bool), "progress", "True or False", progress)
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
        ends = math.inf if timeout is None else time.monotonic() + timeout
        total = search.asked["n_evaluations"] * len(names)
        with tqdm(total=total, desc=search.asked["algorithm"], unit="evaluation", disable=not progress) as bar:
            _drive(search, functions, kinds, n_jobs, ends, callbacks, bar)
    return search.result()


def _drive(search: "Search", functions: dict, catch: tuple, n_jobs: int, ends: float, callbacks, bar) -> None:
    """Evaluate what the search asks for until it is done or stopped, one evaluation of a client at a time."""

    def evaluated(trial: Trial) -> tuple:
        start = time.perf_counter()
        try:
            value, error = search.reward.number(functions[trial.client](dict(trial.parameters))), None
        except Exception as failure:  # whatever an objective may raise
            value, error = None, failure
        return trial, value, error, time.perf_counter() - start

    def told(trial: Trial, value: float | None, error: Exception | None, seconds: float) -> None:
        if error is not None and not isinstance(error, catch):
            message = f"client {trial.client} at {trial.parameters}: {_told(error)}. {HOW}"
            raise EvaluationError(message, search.result()) from error
        row = search.tell(trial, value, seconds=seconds, why="" if error is None else _told(error))
        bar.update(search.done - bar.n)
        for callback in callbacks:
            callback(search, row)

    try:
        if n_jobs == 1:
            while trials := search.ask():
                bar.update(search.done - bar.n)
                for trial in trials:
                    if search.stopped or time.monotonic() > ends:
                        return
                    told(*evaluated(trial))
            bar.update(search.done - bar.n)
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            running, failure = {}, None
            while running or failure is None:
                if failure is None and not search.stopped and time.monotonic() <= ends:
                    for trial in search.ask():
                        if trial.client not in running and len(running) < n_jobs:
                            running[trial.client] = pool.submit(evaluated, trial)
                if not running:
                    break
                done, _ = wait(running.values(), return_when=FIRST_COMPLETED)
                for client in [client for client, future in running.items() if future in done]:
                    try:
                        told(*running.pop(client).result())
                    except EvaluationError as error:  # the others, which are paid for, are told first
                        failure = failure or error
            bar.update(search.done - bar.n)
            if failure is not None:
                failure.result = search.result()
                raise failure
    except KeyboardInterrupt as stop:  # no class of our own: Python ends as after any other Ctrl-C
        stop.args, stop.result = (HOW,), search.result()
        raise


def _told(error: Exception) -> str:
    """What an error says, on one line that is not too long; an error that cannot say anything has its name."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "it gives no message"
    return f"{type(error).__name__}: {text[:500].rstrip('. ')}"
