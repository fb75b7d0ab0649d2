"""Tune functions of one's own, one per client, in one call, or asked and told.

    result = pfpne.tune({"Oslo": f, "Rome": g}, {"C": pfpne.Float(1e-3, 1e3, log=True)}, n_evaluations=100)
    result.deploy  # {"Oslo": {"C": ...}, "Rome": {"C": ...}}

Each function takes a dict of parameters and returns a number. All are called here, in this process; what passes between
the server and the clients is what would pass between sites (pfpne.federation). `Search` is the same without functions:
it says what to evaluate, and is told what came of it.
"""

import json
import math
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from pfpne import __version__
from pfpne.algorithms import ALGORITHMS, Algorithm, make_federation, settings_of
from pfpne.algorithms.gp import GPClient
from pfpne.algorithms.pf_pne_plus import PlusClient
from pfpne.algorithms.random_search import RandomSearchSettings, make_random_search
from pfpne.federation import Federation, Task
from pfpne.gaussian import MOST, GaussianProcess, Hyper, Values, with_local_noise
from pfpne.partition import Partition
from pfpne.rng import stream
from pfpne.saving import Journal
from pfpne.space import Reward, Space
from pfpne.validation import check, check_count, check_integer, check_noise, is_number, real, unknown

FEW, DEFAULT, DEFAULT_BEYOND = 1_000, "gp-shared", "pf-pne+"  # up to FEW evaluations the one, beyond the other
_RANDOM = Algorithm(RandomSearchSettings, make_random_search, on_cells=False, anytime=True)
SEARCHES = {**ALGORITHMS, "random": _RANDOM}
NOISELESS = {"c": 1e-9, "noise_aware": False}  # confidence intervals without width: no reason to repeat a point
FEWEST = 4  # points that a model of them is made of
HOW = (
    "(Nothing is lost: the same call with history=error.result, error being what was raised, or with its file, goes on "
    "from here. Where nothing caught it, sys.last_value is the error.)"
)
ROW = {"client", "u", "parameters", "value", "seconds", "why"}  # of a history
COLUMNS = ("client", "evaluation", "evaluations", "choice", "value", "error", "seconds", "stage", "why")  # of tables


class EvaluationError(RuntimeError):
    """An objective failed, or returned what is no reward. result (Tuned): what was found before, to go on from."""

    def __init__(self, message: str, result: "Tuned"):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a search found.

    deploy: {client: parameters}, what to deploy: the evaluated point whose value, by a smooth model of all that the
    client has evaluated, less its standard error, is best. found: the point of the best mean of its own values; of
    noisy values, partly by luck. summary: a row per client and choice, with the value (the model's for deploy, the mean
    for found), its standard error, and of how many evaluations of that point. history: a row per call of an objective:
    client, evaluation (1, 2, ... of that client), the parameters, value (NaN if it is missing), seconds, stage (which
    part of the algorithm asked for it), why (it is missing). communication: a row per round: t (of the client furthest
    on), round, numbers up, numbers down, bytes, single scores: how many of the numbers sent up are a score, digit for
    digit. saved: how many calls noise=0 saved. asked: what was asked for; rows: the history as in its file.
    """

    asked: dict
    deploy: dict[Hashable, dict]
    found: dict[Hashable, dict]
    summary: pd.DataFrame
    history: pd.DataFrame
    communication: pd.DataFrame
    rows: list[dict] = field(repr=False)
    saved: int = 0

    def __repr__(self) -> str:
        missing = int(self.history["value"].isna().sum())
        parts = [f"{self.asked['algorithm']}, {len(self.history)} evaluations"]
        parts += [f"{missing} of them missing"] * (missing > 0)
        parts += [f"{self.saved} calls saved, of points met again"] * (self.saved > 0)
        return f"{', '.join(parts)}\n{self.summary.to_string(index=False)}"

    def plot(self):
        """A matplotlib figure: the best value so far of each client, its evaluations over each parameter, and how many
        numbers were sent. ImportError, which says what to install, without matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("result.plot() needs matplotlib: pip install matplotlib.") from None
        names = [name for name in self.history.columns if name not in COLUMNS]
        figure = Figure(figsize=(3.2 * (len(names) + 2), 3.0), layout="constrained")
        so_far, *over, sent = figure.subplots(1, len(names) + 2)
        lowest = self.asked["reward"][2] == "minimize"
        for client in self.deploy:
            own = self.history[[name == client for name in self.history["client"]]]
            best = own["value"].cummin() if lowest else own["value"].cummax()
            (line,) = so_far.step(own["evaluation"], best, where="post", label=str(client))
            for axes, name in zip(over, names, strict=True):
                plain = pd.api.types.is_numeric_dtype(own[name])
                axes.plot(own[name] if plain else own[name].astype(str), own["value"], ".", color=line.get_color())
        so_far.set(xlabel="evaluation", ylabel="best value so far")
        so_far.legend(fontsize="small")
        for axes, name in zip(over, names, strict=True):
            axes.set(xlabel=name, ylabel="value")
            values = self.history[name]
            if pd.api.types.is_numeric_dtype(values) and (values > 0).all() and values.max() > 100 * values.min():
                axes.set_xscale("log")
        for way in ("numbers up", "numbers down"):
            sent.step(self.communication["t"], self.communication[way].cumsum(), where="post", label=way)
        sent.set(xlabel="evaluations of a client", ylabel="numbers sent so far")
        sent.legend(fontsize="small")
        return figure


@dataclass(frozen=True, eq=False)
class Trial:
    """An evaluation that a search asks for. client: whose; number: its own 1, 2, ...; parameters: {name: value}."""

    client: Hashable
    number: int
    parameters: dict
    u: tuple[float, ...]  # the point of the unit cube


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


class Search:
    """A search that is asked and told: `tune` without the functions.

    with pfpne.Search(["Oslo", "Rome"], space, n_evaluations=100) as search:
        while trials := search.ask():
            for trial in trials:
                search.tell(trial, evaluate(trial.client, trial.parameters))
    search.result().deploy

    clients: their names. Other arguments, and the errors raised: as of `tune`. It holds the lock of its history until
    it is closed, as the end of the context does; without a file there is nothing to close.
    """

    def __init__(
        self,
        clients: Sequence[Hashable],
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
        give_up: int = 10,
        **settings,
    ):
        listed = isinstance(clients, Sequence) and not isinstance(clients, str) and len(clients) > 0
        check(listed, "clients", "a list of names", clients)
        for name in clients:
            check(isinstance(name, Hashable), "the name of a client", "hashable", name)
        check(len(set(clients)) == len(clients), "clients", "names that are all different", clients)
        self.names, self.space = list(clients), Space(space)
        for name in self.space.parameters:
            check(name not in COLUMNS, "the name of a parameter", f"none of {', '.join(COLUMNS)}", name)
        two = isinstance(reward_range, (tuple, list)) and len(reward_range) == 2
        check(two, "reward_range", "(low, high)", reward_range)
        self.reward = Reward(*reward_range, direction)
        check_integer("n_evaluations", n_evaluations, 1)
        check_count("seed", seed)
        check_integer("give_up", give_up, 1)
        if noise is not None:
            check_noise("noise", noise)
        if algorithm is None:
            algorithm = DEFAULT if n_evaluations <= FEW else DEFAULT_BEYOND
        if not isinstance(algorithm, str) or algorithm not in SEARCHES:
            raise ValueError(unknown("algorithm", algorithm, SEARCHES))
        if algorithm == "pf-pne" and "Delta" not in settings:
            raise ValueError(
                "pf-pne needs Delta, the most that a client's best value differs from the best mean of all."
            )
        check(algorithm != "random" or not settings, "random", "given no settings", settings)
        self.known = self._checked_known(known or {})
        self.asked = {
            "clients": self.names if all(isinstance(name, str) for name in self.names) else list(map(repr, self.names)),
            "space": [[name, repr(parameter)] for name, parameter in self.space.parameters.items()],
            "n_evaluations": int(n_evaluations),
            "algorithm": algorithm,
            "reward": [self.reward.low, self.reward.high, direction],
            "noise": noise,
            "seed": int(seed),
            "settings": {name: repr(value) for name, value in sorted(settings.items())},
            "known": [[[u.tolist(), value] for u, _, value in self.known[name]] for name in self.names],
        }
        check(len(set(self.asked["clients"])) == len(self.names), "clients", "names that read differently", self.names)
        self.federation = self._made(algorithm, settings)
        self.history, self.give_up = _History(history, self), give_up
        self.stopped, self.saved = False, 0
        self._values = [defaultdict(list) for _ in self.names]  # of each client: parameters -> its values there
        self._worst = [None] * len(self.names)  # of each client, in [0, 1]
        self._failed = [0] * len(self.names)  # in a row
        self._batch: dict[int, deque] = {}  # of each client: the points of its batch that are still to be evaluated
        self._rewards = defaultdict(list)  # of each client: of its batch, those that have been
        self._stages = [[] for _ in self.names]  # of each client: of its evaluations in history, in their order
        self._rounds = defaultdict(lambda: np.zeros(3, dtype=np.int64))  # t -> numbers up and down, single scores
        self._scores = [set() for _ in self.names]
        self.federation.on_mail = self._on_mail
        for m, name in enumerate(self.names):
            self._learn_known(m, self.known[name])
        self.history.open()

    # --- how it is made ---

    def _checked_known(self, known: Mapping) -> dict:
        holds = isinstance(known, Mapping) and set(known) <= set(self.names)
        check(holds, "known", f"a dict by some of the clients, {self.names}", known)
        checked = {name: [] for name in self.names}
        for name, pairs in known.items():
            for pair in pairs:
                holds = isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], Mapping)
                check(holds, f"known of client {name}", "pairs (parameters, value)", pair)
                u, value = self.space.unit(pair[0]), self.reward.number(pair[1])
                checked[name].append((u, {key: pair[0][key] for key in self.space.parameters}, value))
        return checked

    def _made(self, name: str, settings: dict) -> Federation:
        """The server and the clients, on the unit cube and rewards in [0, 1]."""
        seed, noise = self.asked["seed"], self.asked["noise"]
        cells = int(stream(seed, "tune", "cells").integers(2**64, dtype=np.uint64))
        task = Task(
            Partition(self.space.domain, seed=cells),
            n_clients=len(self.names),
            horizon=self.asked["n_evaluations"],
            noise=noise if noise is None or isinstance(noise, str) else noise / (self.reward.high - self.reward.low),
            seed=seed,
            key=("tune",),
        )
        algorithm = SEARCHES[name]
        if noise == 0:
            settings = {key: x for key, x in NOISELESS.items() if key in settings_of(algorithm)} | settings
        return make_federation(name if name in ALGORITHMS else algorithm, task, **settings)

    def _learn_known(self, m: int, known: list) -> None:
        for _, parameters, value in known:
            self._note(m, parameters, value)
        client = self.federation.clients[m]
        if known and isinstance(client, GPClient):
            client.learn(np.array([u for u, *_ in known]), self.reward.scaled(np.array([value for *_, value in known])))

    def __enter__(self) -> "Search":
        return self

    def __exit__(self, kind, error, trace) -> None:
        self.close()
        if kind is None and not self.stopped and not self.federation.running:
            self.history.check_all_taken()

    def close(self) -> None:
        """Let go of the history's file: another search may go on from it."""
        self.history.close()

    def stop(self) -> None:
        """End the search: `ask` gives nothing any more, and `tune` returns what was found so far."""
        self.stopped = True

    # --- asking and telling ---

    def ask(self) -> list[Trial]:
        """The evaluations wanted now, one of each client that has one; none when all is done, or after `stop`.

        What the history holds is taken from there. Asking twice changes nothing.
        """
        while self.federation.running and not self.stopped:
            for m, batch in self.federation.ask():
                if m not in self._batch:
                    self._batch[m] = deque(map(tuple, np.repeat(batch.points, batch.counts, axis=0).tolist()))
            served = [self._serve(m) for m in sorted(self._batch)]
            if not any(served):
                trials = {m: self._trial(m) for m in self._batch}
                return [trials[m] for m in sorted(trials, key=lambda m: (trials[m].number, m))]
        return []

    @property
    def done(self) -> int:
        """The evaluations of all clients so far, made or saved."""
        return sum(self.history.count(m) for m in range(len(self.names))) + self.saved

    def _trial(self, m: int) -> Trial:
        u = self._batch[m][0]
        return Trial(self.names[m], self.history.count(m) + 1, self.space.point(u), u)

    def _serve(self, m: int) -> bool:
        """Tell client m what is known already of the next points of its batch; whether there was something."""
        parameters = self.space.point(self._batch[m][0])
        values = self._values[m][tuple(parameters.values())]
        if self.asked["noise"] == 0 and values:
            self.saved += 1
            self._go_on(m, self.reward.scaled(values[0]))
            return True
        row = self.history.take(m, list(self._batch[m][0]))
        if row is not None:
            self._take(m, row)
        return row is not None

    def tell(self, trial: Trial, value: float | None, *, seconds: float = math.nan, why: str = "") -> dict:
        """What came of a trial: a number of the range, or None if the evaluation failed. Returns the history's row.

        Raises ValueError, and nothing changes, for a trial that is not asked for now, or a value that is no number of
        the range; EvaluationError after give_up missing values in a row.
        """
        m = self.names.index(trial.client) if trial.client in self.names else -1
        asked = m in self._batch and trial.u == self._batch[m][0] and trial.number == self.history.count(m) + 1
        check(asked, "a trial", "one of those that `ask` gives now", trial)
        if value is not None:
            value = self.reward.number(value)
        row = {"client": self.asked["clients"][m], "u": list(trial.u), "parameters": trial.parameters, "value": value}
        row |= {"seconds": round(real(seconds), 6) if is_number(seconds) else None, "why": why}
        try:
            self.history.add(m, row)
        except OSError as error:
            self._take(m, row)
            raise EvaluationError(f"the history cannot be written: {error} {HOW}", self.result()) from error
        self._take(m, row)
        if self._failed[m] >= self.give_up:
            self._failed[m] = 0
            message = (
                f"client {trial.client}: {self.give_up} evaluations in a row failed, at last: {why or 'missing'}. "
            )
            raise EvaluationError(message + HOW, self.result())
        return row

    def _take(self, m: int, row: dict) -> None:
        """Learn from a row of the history."""
        self._stages[m].append(_stage(self.federation.clients[m]))
        if row["value"] is not None:
            self._failed[m] = 0
            self._note(m, row["parameters"], row["value"])
            self._go_on(m, self.reward.scaled(row["value"]))
            return
        self._failed[m] += 1
        here = self._values[m][tuple(row["parameters"].values())]
        if here:
            self._go_on(m, self.reward.scaled(float(np.mean(here))))
        elif self._worst[m] is not None:
            self._go_on(m, self._worst[m])
        # else nothing is known that it could count as: the point is asked for again

    def _note(self, m: int, parameters: dict, value: float) -> None:
        self._values[m][tuple(parameters.values())].append(value)
        scaled = self.reward.scaled(value)
        self._worst[m] = scaled if self._worst[m] is None else min(self._worst[m], scaled)
        self._scores[m].add(scaled)

    def _go_on(self, m: int, reward: float) -> None:
        """The reward of the first point of the batch of client m, which is told when all are there."""
        self._rewards[m].append(reward)
        self._batch[m].popleft()
        if not self._batch[m]:
            del self._batch[m]
            self.federation.tell(m, self._rewards.pop(m))

    def _on_mail(self, t: int, up: list, down: list) -> None:
        single = sum(x in self._scores[m] for m, message in up for x in _numbers(message))
        numbers = [sum(message.numbers for _, message in mail) for mail in (up, down)]
        self._rounds[t] += [*numbers, single]

    # --- what is found ---

    def _believed(self, m: int, points: list, mean: np.ndarray, count: np.ndarray) -> tuple:
        """The value of client m at its points (n,), and its standard error (n,), by a smooth model of all its
        evaluations; the standard deviation of the noise of one. mean, count (n,): of the values at each point.

        Without noise a value is what it is. A model wants a few points: with fewer nothing is known of the error.
        """
        if self.asked["noise"] == 0 or len(points) < FEWEST:
            error = np.full(len(points), 0.0 if self.asked["noise"] == 0 else np.nan)
            return mean, error, error[0]
        x = np.array([self.space.unit(dict(zip(self.space.parameters, point, strict=True))) for point in points])
        some = np.sort(np.argsort(-count, kind="stable")[:MOST])
        y, own = self.reward.scaled(mean[some]), np.zeros(len(some), dtype=int)
        values = Values(x[some], y, count[some].astype(float), own)
        client = self.federation.clients[m]
        if isinstance(client, GPClient):
            values = client.beside(values)
        model = GaussianProcess(*with_local_noise(values, Hyper.typical(self.space.d)))
        believed, error = model.predict(x)
        width = self.reward.high - self.reward.low
        return self.reward.unscaled(believed), width * error, width * model.noise

    def result(self) -> Tuned:
        """What is found so far."""
        sign = 1 if self.reward.direction == "maximize" else -1
        deploy, found, summary = {}, {}, []
        for m, (name, seen) in enumerate(zip(self.names, self._values, strict=True)):
            points = [point for point, values in seen.items() if values]
            if not points:
                continue
            count = np.array([len(seen[point]) for point in points])
            mean = np.array([np.mean(seen[point]) for point in points])
            believed, error, noise = self._believed(m, points, mean, count)
            for choice, chosen, best, value, errors in (
                ("deploy", deploy, np.argmax(sign * believed - np.nan_to_num(error)), believed, error),
                ("found", found, np.argmax(sign * mean), mean, noise / np.sqrt(count)),
            ):
                chosen[name] = dict(zip(self.space.parameters, points[best], strict=True))
                row = {"value": float(value[best]), "error": float(errors[best]), "evaluations": int(count[best])}
                summary.append({"client": name, "choice": choice, **chosen[name], **row})
        rounds = [(t, *self._rounds[t]) for t in sorted(self._rounds)]
        communication = pd.DataFrame(rounds, columns=["t", "numbers up", "numbers down", "single scores"])
        communication.insert(1, "round", np.arange(1, len(rounds) + 1))
        communication.insert(4, "bytes", 8 * (communication["numbers up"] + communication["numbers down"]))
        rows = [*self.history.rows]
        return Tuned(
            self.asked, deploy, found, pd.DataFrame(summary), self._table(rows), communication, rows, self.saved
        )

    def _table(self, rows: list[dict]) -> pd.DataFrame:
        """The history, a row per call."""
        stages, made = [deque(s) for s in self._stages], [0] * len(self.names)
        at, table = {text: m for m, text in enumerate(self.asked["clients"])}, []
        for row in rows:
            m = at[row["client"]]
            own, made[m] = stages[m], made[m] + 1
            value = math.nan if row["value"] is None else row["value"]
            seconds = math.nan if row["seconds"] is None else row["seconds"]
            more = {"value": value, "seconds": seconds, "stage": own.popleft() if own else "", "why": row["why"]}
            table.append({"client": self.names[m], "evaluation": made[m], **row["parameters"], **more})
        columns = ["client", "evaluation", *self.space.parameters, "value", "seconds", "stage", "why"]
        return pd.DataFrame(table, columns=columns)


def _numbers(message) -> list[float]:
    """The numbers of a message that could be scores."""
    values = (getattr(message, name) for name in message.payload() if name != "counts")
    return [x for array in values if array.dtype.kind == "f" for x in array.ravel().tolist()]


def _stage(client) -> str:
    """Which part of its algorithm asks for the evaluations of a client; "" for those of one part."""
    if isinstance(client, GPClient):
        return client.stage
    return ("together" if client.tree is None else "alone") if isinstance(client, PlusClient) else ""


def _told(error: Exception) -> str:
    """What an error says, on one line that is not too long; an error that cannot say anything has its name."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "it gives no message"
    return f"{type(error).__name__}: {text[:500].rstrip('. ')}"


class _History:
    """The evaluations of a search, in order: those of before, which are taken first, and those made now.

    A row: {client, u, parameters, value, seconds, why}; u, the point of the unit cube, tells whether it is the one
    asked for; value None if it is missing. Open, it holds the lock of its file, so that no other search writes there.
    Raises ValueError, before anything is evaluated, for a file that another search uses, that is damaged, or that is
    of another search.
    """

    def __init__(self, before: str | Path | Tuned | None, search: Search):
        check(before is None or isinstance(before, (str, Path, Tuned)), "history", "a path or a result", before)
        self.asked, self.space, self.reward = search.asked, search.space, search.reward
        self.rows, self._journal = [], None
        self._left = {text: deque() for text in self.asked["clients"]}  # of before, not taken yet
        self._count = dict.fromkeys(self.asked["clients"], 0)  # taken or made
        if isinstance(before, Tuned):
            self._check_same(before.asked, self.asked, "the result given as history")
            self._begin(list(before.rows))
        elif before is not None:
            check(str(before) not in ("", "."), "history", "the name of a file", str(before))
            for name in search.names:
                check(_is_lasting(name), "with a history, the name of a client", LASTING, name)
            for name, parameter in self.space.parameters.items():
                for choice in getattr(parameter, "choices", ()):
                    check(_is_lasting(choice), f"with a history, a choice of {name!r}", LASTING, choice)
            try:
                path = Path(before).resolve()
                path.parent.mkdir(parents=True, exist_ok=True)
                self._journal = Journal(path)
                self._journal.check_plain()
                self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
            except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a file among the folders, a NUL
                raise ValueError(f"history must be the name of a file that can be written; {error}.") from None

    def _begin(self, rows: list[dict]) -> None:
        self.rows = rows
        for row in rows:
            self._left[row["client"]].append(row)

    def open(self) -> None:
        if self._journal is not None:
            try:
                self._lock.acquire()
            except Timeout:
                other = "another search is using it. Wait until that has ended, or give another history"
                raise ValueError(f"history {self._journal.path}: {other}.") from None
            except OSError as error:
                raise ValueError(f"history must be the name of a file that can be written; {error}.") from None
            try:
                self._read()
            except BaseException:
                self._lock.release()
                raise

    def close(self) -> None:
        if self._journal is not None:
            self._lock.release()

    def _read(self) -> None:
        """Take what the file holds, or begin it."""
        path, asked = self._journal.path, json.loads(json.dumps(self.asked))
        try:
            lines = self._journal.read()
            path.open("ab").close()  # that it can be written to is known before anything is evaluated
        except OSError as error:
            raise ValueError(f"history must be the name of a file that can be written; {error}.") from None
        except ValueError as error:
            raise ValueError(f"history must be a file that tune wrote, or a new one; {error}") from None
        right = lines[0].keys() == asked.keys() | {"pfpne"} if lines else path.stat().st_size == 0
        check(right, "history", "a file that tune wrote, or a new one", str(path))
        if not lines:
            self._journal.append(pfpne=__version__, **asked)
            return
        self._check_same(lines[0], {"pfpne": __version__, **asked}, path)
        self._begin([self._checked(row, n) for n, row in enumerate(lines[1:], 1)])

    def _check_same(self, before: dict, asked: dict, where) -> None:
        for name, value in asked.items():
            old = before.get(name)
            if name == "n_evaluations" and SEARCHES[asked["algorithm"]].anytime and old is not None:
                continue  # a longer search begins as a shorter one
            if old != value:
                raise ValueError(
                    f"{where} is of another search: {name} was {old!r}, and is {value!r} here. Give what was given "
                    "then, or another history."
                )

    def _checked(self, row: dict, n: int) -> dict:
        """The row as it was before it was written: of the same objects, not of what JSON makes of them."""
        wrong = f"evaluation {n} of the history"
        check(row.keys() == ROW, wrong, f"a row of {', '.join(sorted(ROW))}", row)
        check(row["client"] in self.asked["clients"], wrong, f"of one of {self.asked['clients']}", row["client"])
        u = row["u"]
        inside = isinstance(u, list) and len(u) == self.space.d and all(is_number(x) and 0 <= x <= 1 for x in u)
        check(inside, wrong, f"at a point of [0, 1]^{self.space.d}", u)
        parameters = self.space.point(u)
        check(row["parameters"] == json.loads(json.dumps(parameters, default=repr)), wrong, f"of {parameters}", row)
        seconds, why = row["seconds"], row["why"]
        check(seconds is None or is_number(seconds), wrong, "of a number of seconds", seconds)
        check(isinstance(why, str), wrong, "of a text that says why it is missing", why)
        try:
            value = None if row["value"] is None else self.reward.number(row["value"])
        except ValueError as error:
            raise ValueError(f"{wrong}: {error}") from None
        return {**row, "parameters": parameters, "value": value}

    def count(self, m: int) -> int:
        """The evaluations of client m so far."""
        return self._count[self.asked["clients"][m]]

    def take(self, m: int, u: list[float]) -> dict | None:
        """The next evaluation of before of client m, which must be the one at u; None if there is none left."""
        client = self.asked["clients"][m]
        if not self._left[client]:
            return None
        row = self._left[client].popleft()
        self._count[client] += 1
        same = f"evaluation {self._count[client]} of client {client} in the history"
        check(row["u"] == u, same, f"at {u}, as now asked for", row["u"])
        return row

    def add(self, m: int, row: dict) -> None:
        self.rows.append(row)
        self._count[self.asked["clients"][m]] += 1
        if self._journal is not None:
            self._journal.append(**row)

    def check_all_taken(self) -> None:
        """ValueError if there are more evaluations than the search asked for."""
        left = sum(map(len, self._left.values()))
        check(not left, "the history", f"of at most {len(self.rows) - left} evaluations", len(self.rows))


LASTING = (
    "one that reads the same in every process (a number, a text, a tuple of them): give names, and look them up in the "
    "objective"
)


def _is_lasting(x) -> bool:
    """Whether repr(x) is the same in another process: no address of memory, no order that follows hashes."""
    if isinstance(x, tuple):
        return all(map(_is_lasting, x))
    return not isinstance(x, (set, frozenset)) and re.search(r" at 0x[0-9a-fA-F]+", repr(x)) is None
