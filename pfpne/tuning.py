"""Tune functions of one's own, one a client, in one call.

    result = pfpne.tune({"Oslo": f, "Rome": g}, {"C": pfpne.Float(1e-3, 1e3, log=True)}, n_evaluations=200)
    result.deploy  # {"Oslo": {"C": ...}, "Rome": {"C": ...}}

Each function takes a dict of parameters and returns a number. All are called here, in this process, one after another;
what passes between the server and the clients is what would pass between sites (pfpne.federation).
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from pfpne import __version__
from pfpne.algorithms import ALGORITHMS, Algorithm, make_federation, settings_of
from pfpne.algorithms.random_search import RandomSearchSettings, make_random_search
from pfpne.checks import check, check_count, check_integer, check_noise, is_number, unknown
from pfpne.federation import Federation, Task
from pfpne.partition import Partition
from pfpne.rng import stream
from pfpne.saving import Journal
from pfpne.space import Reward, Space

DEFAULT = "pf-pne+"  # neither the noise nor how far the clients differ has to be known
SEARCHES = {**ALGORITHMS, "random": Algorithm(RandomSearchSettings, make_random_search, on_cells=False)}
NOISELESS = {"c": 1e-9, "noise_aware": False}  # confidence intervals without width: no reason to repeat a point
SAFE = 2  # standard errors
HOW = (
    "(Nothing is lost: the same call with history=error.result, error being what was raised, or with its file, goes on "
    "from here. Where nothing caught it, sys.last_value is the error.)"
)
ROW = {"client", "u", "parameters", "value"}  # of a history
COLUMNS = ("client", "evaluation", "evaluations", "choice", "value")  # of the tables, beside the parameters


class EvaluationError(RuntimeError):
    """An objective failed, or returned what is no reward. result (Tuned): what was found before, to go on from."""

    def __init__(self, message: str, result: "Tuned"):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a search found.

    deploy: {client: parameters}, where the client's own mean value, less two standard errors, is best: what to deploy.
    found: the same, where the mean itself is best; of noisy values, partly by luck. summary: a row a client and choice,
    with that mean and of how many evaluations. history: a row a call of an objective: client, evaluation (1, 2, ...
    of that client), the parameters, value. communication: a row a round: t (of the client furthest on), round,
    numbers up, numbers down, bytes. asked: what was asked for; rows: the history as in its file.
    """

    asked: dict
    deploy: dict[str, dict]
    found: dict[str, dict]
    summary: pd.DataFrame
    history: pd.DataFrame
    communication: pd.DataFrame
    rows: list[dict] = field(repr=False)

    def __repr__(self) -> str:
        return f"{self.asked['algorithm']}, {len(self.history)} evaluations\n{self.summary.to_string(index=False)}"


def tune(
    objectives: Mapping[str, Callable[[dict], float]] | Sequence[Callable[[dict], float]],
    space: Mapping | Space,
    n_evaluations: int,
    *,
    algorithm: str = DEFAULT,
    reward_range: tuple[float, float] = (0.0, 1.0),
    direction: str = "maximize",
    noise: float | str | None = None,
    seed: int = 0,
    history: str | Path | Tuned | None = None,
    progress: bool = True,
    **settings,
) -> Tuned:
    """For each objective, the parameters that make it best.

    objectives: functions, one a client, in a list or a dict by name; each takes {name: value} and returns a number
    within reward_range, (low, high). space: {name: Float, Int or Ordinal}. direction: "maximize" or "minimize".
    n_evaluations: how often each objective is called, >= 1: no more, and no less unless noise is 0.
    noise: None if not known; "bernoulli"; or the half-width of uniform noise, in units of the value. 0: equal
    parameters give equal values. Then a point met again, which counts, is not evaluated again, and intervals have no
    width. algorithm: a registered name or "random". settings: its own; those in units of the reward, such as Delta, in
    units of the width of the range. pf-pne alone needs one: no Delta is safe for it.
    history: a file, which is read if it is there and written as the search goes, so that the same call goes on where it
    was stopped; or an earlier result, such as that of an error below.

    Raises ValueError for what is wrong in a call, before anything is evaluated; EvaluationError, which names the client
    and the point, if an objective raises an error, or returns no number of the range; KeyboardInterrupt on Ctrl-C.
    The last two have the result so far, and their messages say how to go on.
    """
    names = _names(objectives)
    functions = list(objectives.values() if isinstance(objectives, Mapping) else objectives)
    for name, function in zip(names, functions, strict=True):
        check(callable(function), f"the objective of client {name}", "a function of a dict of parameters", function)
    space = Space(space)
    for name in space.parameters:
        check(name not in COLUMNS, "the name of a parameter", f"none of {', '.join(COLUMNS)}", name)
    two = isinstance(reward_range, (tuple, list)) and len(reward_range) == 2
    check(two, "reward_range", "(low, high)", reward_range)
    reward = Reward(*reward_range, direction)
    check_integer("n_evaluations", n_evaluations, 1)
    check_count("seed", seed)
    if noise is not None:
        check_noise("noise", noise)
    if not isinstance(algorithm, str) or algorithm not in SEARCHES:
        raise ValueError(unknown("algorithm", algorithm, SEARCHES))
    if algorithm == "pf-pne" and "Delta" not in settings:
        raise ValueError("pf-pne needs Delta, the most that a client's best value differs from the best mean of all.")
    check(algorithm != "random" or not settings, "random", "given no settings", settings)
    asked = {
        "clients": names,
        "space": [[name, repr(parameter)] for name, parameter in space.parameters.items()],
        "n_evaluations": int(n_evaluations),
        "algorithm": algorithm,
        "reward": [reward.low, reward.high, direction],
        "noise": noise,
        "seed": int(seed),
        "settings": {name: repr(value) for name, value in sorted(settings.items())},
    }
    federation = _federation(space, reward, asked, settings)
    with _History(history, asked, space, reward) as rows:
        return _Search(functions, space, reward, asked, federation, rows).run(progress)


def _names(objectives) -> list[str]:
    listed = isinstance(objectives, (Mapping, Sequence)) and len(objectives) > 0
    check(listed, "objectives", "functions, in a list, or in a dict by the clients' names", objectives)
    names = list(objectives) if isinstance(objectives, Mapping) else [str(m) for m in range(len(objectives))]
    for name in names:
        check(isinstance(name, str), "the name of a client", "a string", name)
    return names


def _federation(space: Space, reward: Reward, asked: dict, settings: dict) -> Federation:
    """The server and the clients of a search, on the unit cube and rewards in [0, 1]."""
    seed, noise, name = asked["seed"], asked["noise"], asked["algorithm"]
    cells = int(stream(seed, "tune", "cells").integers(2**64, dtype=np.uint64))
    task = Task(
        Partition(space.domain, seed=cells),
        n_clients=len(asked["clients"]),
        horizon=asked["n_evaluations"],
        noise=noise if noise is None or isinstance(noise, str) else noise / (reward.high - reward.low),
        seed=seed,
        key=("tune",),
    )
    algorithm = SEARCHES[name]
    if noise == 0:
        settings = {key: x for key, x in NOISELESS.items() if key in settings_of(algorithm)} | settings
    return make_federation(name if name in ALGORITHMS else algorithm, task, **settings)


class _History:
    """The evaluations of a search, in order: those of before, which are taken first, and those made now.

    A row: {client, u, parameters, value}; u, the point of the unit cube, tells whether it is the one asked for. As a
    context it holds the lock of its file, so that no other search writes there. Raises ValueError, before anything is
    evaluated, for a file that another search uses, that is damaged, or that is of another search.
    """

    def __init__(self, before: str | Path | Tuned | None, asked: dict, space: Space, reward: Reward):
        check(before is None or isinstance(before, (str, Path, Tuned)), "history", "a path or a result", before)
        self.asked, self.space, self.reward = asked, space, reward
        self.rows, self.taken, self._journal = [], 0, None
        if isinstance(before, Tuned):
            _check_same(before.asked, asked, "the result given as history")
            self.rows = list(before.rows)
        elif before is not None:
            check(str(before) not in ("", "."), "history", "the name of a file", str(before))
            for name, parameter in space.parameters.items():
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

    def __enter__(self) -> "_History":
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
        return self

    def __exit__(self, *error) -> None:
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
        _check_same(lines[0], {"pfpne": __version__, **asked}, path)
        self.rows = [self._checked(row, n) for n, row in enumerate(lines[1:], 1)]

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
        try:
            value = self.reward.number(row["value"])
        except ValueError as error:
            raise ValueError(f"{wrong}: {error}") from None
        return {**row, "parameters": parameters, "value": value}

    def take(self, client: str, u: list[float]) -> float | None:
        """The value of the next evaluation of before, which must be this one; None if there is none left."""
        if self.taken == len(self.rows):
            return None
        row = self.rows[self.taken]
        self.taken += 1
        same = (row["client"], row["u"]) == (client, u)
        check(same, f"evaluation {self.taken} of the history", f"of client {client} at {u}, as now asked for", row)
        return row["value"]

    def add(self, **row) -> None:
        self.rows.append(row)
        self.taken += 1
        if self._journal is not None:
            self._journal.append(**row)

    def check_all_taken(self) -> None:
        """ValueError if there are more evaluations than the search asked for."""
        check(self.taken == len(self.rows), "the history", f"of at most {self.taken} evaluations", len(self.rows))


LASTING = (
    "one that reads the same in every process (a number, a text, a tuple of them): give names, and look them up in the "
    "objective"
)


def _is_lasting(x) -> bool:
    """Whether repr(x) is the same in another process: no address of memory, no order that follows hashes."""
    if isinstance(x, tuple):
        return all(map(_is_lasting, x))
    return not isinstance(x, (set, frozenset)) and re.search(r" at 0x[0-9a-fA-F]+", repr(x)) is None


def _told(error: Exception) -> str:
    """What an error says, on one line that is not too long; an error that cannot say anything has its name."""
    try:
        text = str(error)
    except Exception:
        text = "it gives no message"
    return f"{type(error).__name__}: {text[:500].rstrip('. ')}"


def _check_same(before: dict, asked: dict, where) -> None:
    for name, value in asked.items():
        if before.get(name) != value:
            raise ValueError(
                f"{where} is of another search: {name} was {before.get(name)!r}, and is {value!r} here. Give what was "
                "given then, or another history."
            )


class _Search:
    """One search under way."""

    def __init__(self, functions: list, space: Space, reward: Reward, asked: dict, federation: Federation, history):
        self.functions, self.space, self.reward, self.asked = functions, space, reward, asked
        self.federation, self.history, self.names = federation, history, asked["clients"]
        self.seen = [{} for _ in self.names]  # of each client: parameters -> its values there
        self.rounds = defaultdict(lambda: np.zeros(2, dtype=np.int64))  # t -> numbers up and down
        federation.on_mail = self._on_mail

    def _on_mail(self, t: int, up: list, down: list) -> None:
        self.rounds[t] += [sum(message.numbers for _, message in mail) for mail in (up, down)]

    def run(self, progress: bool) -> Tuned:
        try:
            self._search(progress)
        except KeyboardInterrupt as stop:  # no class of our own: Python ends as after any other Ctrl-C
            stop.args, stop.result = (HOW,), self.result()
            raise
        self.history.check_all_taken()
        return self.result()

    def _search(self, progress: bool) -> None:
        total = self.asked["n_evaluations"] * len(self.names)
        with tqdm(total=total, desc=self.asked["algorithm"], unit="evaluation", disable=not progress) as bar:
            while self.federation.running:
                for m, batch in self.federation.ask():
                    rewards = []
                    for u in np.repeat(batch.points, batch.counts, axis=0):
                        rewards.append(self.reward.scaled(self._value(m, u.tolist())))
                        bar.update()
                    self.federation.tell(m, rewards)

    def _value(self, m: int, u: list[float]) -> float:
        """The value of objective m at u: from memory, from the history of before, or evaluated now."""
        parameters = self.space.point(u)
        values = self.seen[m].setdefault(tuple(parameters.values()), [])
        if values and self.asked["noise"] == 0:
            return values[0]
        value = self.history.take(self.names[m], u)
        if value is None:
            value = self._evaluated(m, parameters)
            try:
                self.history.add(client=self.names[m], u=u, parameters=parameters, value=value)
            except OSError as error:
                values.append(value)
                raise EvaluationError(f"the history cannot be written: {error} {HOW}", self.result()) from error
        values.append(value)
        return value

    def _evaluated(self, m: int, parameters: dict) -> float:
        try:
            return self.reward.number(self.functions[m](dict(parameters)))
        except Exception as error:
            raise EvaluationError(
                f"client {self.names[m]} at {parameters}: {_told(error)}. {HOW}",
                self.result(),
            ) from error

    def result(self) -> Tuned:
        """What is found so far."""
        sign = 1 if self.reward.direction == "maximize" else -1
        deploy, found, summary = {}, {}, []
        for name, seen in zip(self.names, self.seen, strict=True):
            seen = {point: np.array(values) for point, values in seen.items() if values}
            if not seen:
                continue
            mean, error = {point: values.mean() for point, values in seen.items()}, _noise([*seen.values()])
            safe = {point: sign * mean[point] - SAFE * error / np.sqrt(len(values)) for point, values in seen.items()}
            likely = {point: sign * mean[point] for point in seen}
            for choice, chosen, worth in (("deploy", deploy, safe), ("found", found, likely)):
                point = max(worth, key=worth.get)
                chosen[name] = dict(zip(self.space.parameters, point, strict=True))
                at = {"value": float(mean[point]), "evaluations": len(seen[point])}
                summary.append({"client": name, "choice": choice, **chosen[name], **at})
        history = pd.DataFrame(
            [{"client": row["client"], **row["parameters"], "value": row["value"]} for row in self.history.rows],
            columns=["client", *self.space.parameters, "value"],
        )
        history.insert(1, "evaluation", history.groupby("client").cumcount() + 1)
        rounds = [(t, *self.rounds[t]) for t in sorted(self.rounds)]
        communication = pd.DataFrame(rounds, columns=["t", "numbers up", "numbers down"])
        communication.insert(1, "round", np.arange(1, len(rounds) + 1))
        communication["bytes"] = 8 * (communication["numbers up"] + communication["numbers down"])
        summary, rows = pd.DataFrame(summary), list(self.history.rows)
        return Tuned(self.asked, deploy, found, summary, history, communication, rows)


def _noise(values: list[np.ndarray]) -> float:
    """The standard deviation of a value, from those of equal points together; 0 if no point was evaluated twice."""
    more = sum(len(each) - 1 for each in values)
    return float(np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in values) / more)) if more else 0.0
