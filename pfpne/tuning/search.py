"""A search with an ask-and-tell interface: it says what to evaluate, and is told the values."""

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.algorithms import ALGORITHMS, make_federation, settings_of
from pfpne.algorithms.gp import GPClient
from pfpne.algorithms.pf_pne_plus import PlusClient
from pfpne.disclosure import Disclosure, communication_table
from pfpne.federation import Federation, Task
from pfpne.gaussian import MAX_MODEL_VALUES, GaussianProcess, Hyper, Values, with_local_noise
from pfpne.partition import Partition
from pfpne.rng import stream
from pfpne.tuning.history import History
from pfpne.tuning.result import RESERVED_COLUMNS, RESUME_HINT, EvaluationError, Tuned
from pfpne.tuning.searches import NOISELESS_SETTINGS, SEARCHES, check_argument_names, default_search
from pfpne.tuning.space import Ordinal, Reward, Space
from pfpne.validation import check, check_count, check_integer, check_noise, is_number, to_float, unknown_name

MIN_MODEL_POINTS = 4  # the fewest points for a model
MAX_FIRST_TRIES = 2  # tries of a point before a client has any value: the first failure may have been temporary


@dataclass(frozen=True, eq=False)
class Trial:
    """An evaluation that a search asks for.

    Attributes
    ----------
    client
        The name of the client.
    number
        The number of the evaluation among the client's: 1, 2, ...
    parameters
        {name: value}.
    u
        The point of the unit cube, (d,).

    Examples
    --------
    >>> import pfpne
    >>> search = pfpne.Search(["Oslo"], {"n": pfpne.Int(1, 9)}, n_evaluations=10, algorithm="hct")
    >>> search.ask()
    [Trial(client='Oslo', number=1, parameters={'n': 7}, u=(0.75,))]
    """

    client: Hashable
    number: int
    parameters: dict
    u: tuple[float, ...]  # the point of the unit cube


class Search:
    """A search that is asked what to evaluate, and told the values: `tune` without the functions.

    It holds the lock of its history until it is closed, at the end of a `with` block for instance. Without a file there
    is nothing to close.

    Parameters
    ----------
    clients
        Their names: a list of hashable names, all different.
    space, n_evaluations, algorithm, reward_range, direction, noise, seed, history, known, give_up, **settings
        As for `tune`.

    Raises
    ------
    ValueError
        For a wrong argument, or a history that is damaged, in use, or of another search.

    Examples
    --------
    >>> import pfpne
    >>> with pfpne.Search(["Oslo", "Rome"], {"x": pfpne.Float(0, 1)}, n_evaluations=15, noise=0) as search:
    ...     while trials := search.ask():
    ...         for trial in trials:
    ...             row = search.tell(trial, 1 - (trial.parameters["x"] - 0.3) ** 2)
    >>> round(search.result().deploy["Oslo"]["x"], 1)
    0.3
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
        check_argument_names(Search, settings)
        is_list = isinstance(clients, Sequence) and not isinstance(clients, str) and len(clients) > 0
        check(is_list, "clients", "a list of names", clients)
        for name in clients:
            check(isinstance(name, Hashable), "the name of a client", "hashable", name)
        check(len(set(clients)) == len(clients), "clients", "names that are all different", clients)
        self.names, self.space = list(clients), Space(space)
        for name in self.space.parameters:
            check(
                name not in RESERVED_COLUMNS, "the name of a parameter", f"none of {', '.join(RESERVED_COLUMNS)}", name
            )
        is_pair = isinstance(reward_range, (tuple, list)) and len(reward_range) == 2
        check(is_pair, "reward_range", "(low, high)", reward_range)
        self.reward = Reward(*reward_range, direction)
        check_integer("n_evaluations", n_evaluations, 1)
        check_count("seed", seed)
        check_integer("give_up", give_up, 1)
        if noise is not None:
            check_noise("noise", noise)
        if algorithm is None:
            algorithm, settings = default_search(n_evaluations, noise, settings)
        if not isinstance(algorithm, str) or algorithm not in SEARCHES:
            raise ValueError(unknown_name("algorithm", algorithm, SEARCHES))
        if algorithm == "pf-pne" and "Delta" not in settings:
            raise ValueError(
                "pf-pne needs Delta, the most that a client's best value differs from the best mean of all."
            )
        check(algorithm != "random" or not settings, "random", "given no settings", settings)
        self.known = self._checked_known(known or {})
        self.request = {
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
        check(
            len(set(self.request["clients"])) == len(self.names), "clients", "names that read differently", self.names
        )
        self.federation = self._make_federation(algorithm, settings)
        self.history, self.give_up = History(history, self), give_up
        self.stopped, self.n_spared = False, 0  # n_spared: the calls that noise=0 has spared
        self._values = [defaultdict(list) for _ in self.names]  # by client: {parameters: its values there}
        self._worst: list[float | None] = [None] * len(self.names)  # by client, in [0, 1]
        self._failures_in_a_row = [0] * len(self.names)  # by client, of those told: not of a history
        self._failures_before_value = [0] * len(self.names)  # by client: before it has any value
        self._batch: dict[int, deque] = {}  # by client: the points of its batch still to be evaluated
        self._rewards = defaultdict(list)  # by client: the rewards of the points of its batch that have been evaluated
        self._stages = [[] for _ in self.names]  # by client: the stages of its evaluations in the history
        self._rounds = defaultdict(lambda: np.zeros(3, dtype=np.int64))  # t -> numbers up and down, single scores
        self._scaled_values = [set() for _ in self.names]  # by client: to count those sent, see _on_mail
        self._disclosure = Disclosure(len(self.names), exact=noise == 0)
        self.federation.on_mail = self._on_mail
        for m, name in enumerate(self.names):
            self._learn_known(m, self.known[name])
        self.n_read = 0  # how many values came from the history that was there
        self.history.open()

    # --- how it is made ---

    def _checked_known(self, known: Mapping) -> dict:
        are_clients = isinstance(known, Mapping) and set(known) <= set(self.names)
        check(are_clients, "known", f"a dict by some of the clients, {self.names}", known)
        checked = {name: [] for name in self.names}
        for name, pairs in known.items():
            is_iterable = isinstance(pairs, Iterable) and not isinstance(pairs, Mapping)
            check(is_iterable, f"known of client {name}", "a list of pairs (parameters, value)", pairs)
            for n, pair in enumerate(pairs, 1):
                is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], Mapping)
                check(is_pair, f"known of client {name}", "a list of pairs (parameters, value)", pair)
                try:
                    u, value = self.space.unit(pair[0]), self.reward.number(pair[1])
                except ValueError as error:
                    raise ValueError(f"known of client {name}, pair {n}: {error}") from None
                checked[name].append((u, {key: pair[0][key] for key in self.space.parameters}, value))
        return checked

    def _make_federation(self, name: str, settings: dict) -> Federation:
        """Make the server and the clients, for the unit cube and rewards in [0, 1]."""
        seed, noise = self.request["seed"], self.request["noise"]
        cell_seed = int(stream(seed, "tune", "cells").integers(2**64, dtype=np.uint64))
        task = Task(
            Partition(self.space.domain, seed=cell_seed),
            n_clients=len(self.names),
            horizon=self.request["n_evaluations"],
            noise=noise if noise is None or isinstance(noise, str) else noise / (self.reward.high - self.reward.low),
            seed=seed,
            key=("tune",),
        )
        algorithm = SEARCHES[name]
        if noise == 0:
            settings = {key: x for key, x in NOISELESS_SETTINGS.items() if key in settings_of(algorithm)} | settings
        return make_federation(name if name in ALGORITHMS else algorithm, task, **settings)

    def _learn_known(self, m: int, known: list) -> None:
        for _, parameters, value in known:
            self._record_value(m, parameters, value)
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
        """Release the history's file, so that another search may continue from it."""
        self.history.close()

    def stop(self) -> None:
        """End the search: `ask` returns no more trials, and `tune` returns its result so far."""
        self.stopped = True

    # --- asking and telling ---

    def ask(self) -> list[Trial]:
        """Return the evaluations wanted now, one for each client that wants one.

        There are none when the search is done, and after `stop`. Values in the history are not requested again. Asking
        twice changes nothing.
        """
        while self.federation.running and not self.stopped:
            for m, batch in self.federation.ask():
                if m not in self._batch:
                    self._batch[m] = deque(map(tuple, np.repeat(batch.points, batch.counts, axis=0).tolist()))
            answered = [self._answer_without_evaluation(m) for m in sorted(self._batch)]
            if not any(answered):
                trials = {m: self._trial(m) for m in self._batch}
                return [trials[m] for m in sorted(trials, key=lambda m: (trials[m].number, m))]
        return []

    @property
    def n_evaluated(self) -> int:
        """The number of evaluations of all clients so far, made or spared."""
        return sum(self.history.count(m) for m in range(len(self.names))) + self.n_spared

    def _next_point(self, m: int) -> tuple[float, ...]:
        """Return the point of the unit cube that client m evaluates next.

        It is the first point of the client's batch, unless the client has no value yet and this point has failed twice:
        a point where the objective cannot be evaluated would fail for ever. Then it is a random point, a new one after
        each failure.
        """
        n = self._failures_before_value[m]
        if self._worst[m] is not None or n < MAX_FIRST_TRIES:
            return self._batch[m][0]
        return tuple(stream(self.request["seed"], "tune", "instead", m, n).random(self.space.d).tolist())

    def _trial(self, m: int) -> Trial:
        u = self._next_point(m)
        return Trial(self.names[m], self.history.count(m) + 1, self.space.point(u), u)

    def _answer_without_evaluation(self, m: int) -> bool:
        """Tell client m the next value of its batch if that needs no evaluation; return whether it needs none.

        It needs none at a point that was met before if noise is 0, and where the history has the next row already.
        """
        u = self._next_point(m)
        values = self._values[m][tuple(self.space.point(u).values())]
        if self.request["noise"] == 0 and values:
            self.n_spared += 1
            self._add_reward(m, self.reward.scaled(values[0]))
            return True
        row = self.history.take_earlier(m, list(u))
        if row is not None:
            self.n_read += 1
            self._learn_row(m, row)
        return row is not None

    def tell(self, trial: Trial, value: float | None, *, seconds: float = math.nan, why: str = "") -> dict:
        """Take the value of a trial, and return its row of the history.

        Parameters
        ----------
        trial
            One of the trials that `ask` returns now.
        value
            A number of the reward range, or None if the evaluation failed.
        seconds
            The duration of the evaluation.
        why
            The reason for the failure.

        Raises
        ------
        ValueError
            If the trial is not asked for now, or the value is no number of the range; nothing changes then.
        EvaluationError
            After give_up values in a row that are told as missing for the client, and if the history cannot be written.
        """
        m = self.names.index(trial.client) if trial.client in self.names else -1
        is_current = m in self._batch and trial.u == self._next_point(m) and trial.number == self.history.count(m) + 1
        check(is_current, "a trial", "one of those that `ask` gives now", trial)
        if value is not None:
            value = self.reward.number(value)
        row = {"client": self.request["clients"][m], "u": list(trial.u), "parameters": trial.parameters, "value": value}
        row |= {"seconds": round(to_float(seconds), 6) if is_number(seconds) else None, "why": why}
        try:
            self.history.add(m, row)
        except OSError as error:
            self._learn_row(m, row)
            raise EvaluationError(f"the history cannot be written: {error} {RESUME_HINT}", self.result()) from error
        self._learn_row(m, row)
        self._failures_in_a_row[m] = 0 if value is not None else self._failures_in_a_row[m] + 1
        if self._failures_in_a_row[m] >= self.give_up:
            self._failures_in_a_row[m] = 0
            failed = f"client {trial.client}: {self.give_up} evaluations in a row failed"
            raise EvaluationError(f"{failed}, at last: {why or 'missing'}. {RESUME_HINT}", self.result())
        return row

    def _learn_row(self, m: int, row: dict) -> None:
        """Learn from a row of the history."""
        client = self.federation.clients[m]
        self._stages[m].append(_stage(client))
        if row["value"] is not None:
            is_asked_for = self._next_point(m) == self._batch[m][0]
            reward = self.reward.scaled(row["value"])
            self._record_value(m, row["parameters"], row["value"])
            if not is_asked_for and isinstance(client, GPClient):
                client.learn(np.array([row["u"]]), np.array([reward]))
            # If a random point was evaluated in place of a failed one, this reward is told for the failed point. That
            # point counts as the client's worst so far, and this reward is the client's only one so far.
            self._add_reward(m, reward)
            return
        values = self._values[m][tuple(row["parameters"].values())]
        if values:
            self._add_reward(m, self.reward.scaled(float(np.mean(values))))
        elif (worst := self._worst[m]) is not None:
            self._add_reward(m, worst)
        else:  # there is no worst value yet that the failed point could count as: see _next_point
            self._failures_before_value[m] += 1

    def _record_value(self, m: int, parameters: dict, value: float) -> None:
        self._values[m][tuple(parameters.values())].append(value)
        scaled = self.reward.scaled(value)
        worst = self._worst[m]
        self._worst[m] = scaled if worst is None else min(worst, scaled)
        self._scaled_values[m].add(scaled)

    def _add_reward(self, m: int, reward: float) -> None:
        """Add the reward of the first point of client m's batch, and tell the batch when it is complete."""
        self._rewards[m].append(reward)
        self._batch[m].popleft()
        if not self._batch[m]:
            del self._batch[m]
            self.federation.tell(m, self._rewards.pop(m))

    def _on_mail(self, t: int, up: list, down: list) -> None:
        self._disclosure.mail(t, up, down)
        n_single_scores = sum(x in self._scaled_values[m] for m, message in up for x in _possible_scores(message))
        numbers = [sum(message.n_numbers for _, message in mail) for mail in (up, down)]
        self._rounds[t] += [*numbers, n_single_scores]

    # --- the result ---

    def _believed(self, m: int, points: list, mean: np.ndarray, count: np.ndarray) -> tuple:
        """Return client m's values at its points (n,), their standard errors (n,), and the sigma of one evaluation.

        They come from a smooth model of all its evaluations; mean and count (n,) describe the values at each point.
        Without noise a value is exact, with error 0. With too few points for a model, the error is NaN.
        """
        if self.request["noise"] == 0 or len(points) < MIN_MODEL_POINTS:
            error = np.full(len(points), 0.0 if self.request["noise"] == 0 else np.nan)
            return mean, error, error[0]
        x = np.array([self.space.unit(dict(zip(self.space.parameters, point, strict=True))) for point in points])
        used = np.sort(np.argsort(-count, kind="stable")[:MAX_MODEL_VALUES])
        y, output = self.reward.scaled(mean[used]), np.zeros(len(used), dtype=int)
        values = Values(x[used], y, count[used].astype(float), output)
        client = self.federation.clients[m]
        if isinstance(client, GPClient):
            values = client.with_others(values)
        model = GaussianProcess(*with_local_noise(values, Hyper.typical(self.space.d)))
        believed, error = model.predict(x)
        width = self.reward.high - self.reward.low
        return self.reward.unscaled(believed), width * error, width * model.sigma

    def result(self) -> Tuned:
        """Return the result so far, a `Tuned`."""
        sign = 1 if self.reward.direction == "maximize" else -1
        deploy, best_mean, summary = {}, {}, []
        for m, (name, seen) in enumerate(zip(self.names, self._values, strict=True)):
            points = [point for point, values in seen.items() if values]
            if not points:
                continue
            count = np.array([len(seen[point]) for point in points])
            mean = np.array([np.mean(seen[point]) for point in points])
            believed, error, sigma = self._believed(m, points, mean, count)
            for choice, chosen, best, value, errors in (
                ("deploy", deploy, np.argmax(sign * believed - np.nan_to_num(error)), believed, error),
                ("found", best_mean, np.argmax(sign * mean), mean, sigma / np.sqrt(count)),
            ):
                chosen[name] = dict(zip(self.space.parameters, points[best], strict=True))
                row = {"value": float(value[best]), "error": float(errors[best]), "evaluations": int(count[best])}
                summary.append({"client": name, "choice": choice, **chosen[name], **row})
        rounds = [(t, *self._rounds[t]) for t in sorted(self._rounds)]
        rows = [*self.history.rows]
        return Tuned(
            self.request,
            deploy,
            best_mean,
            pd.DataFrame(summary),
            self._table(rows),
            communication_table(rounds, "single scores"),
            rows,
            self.n_spared,
            self._disclosure.table(),
            self.n_read,
            {
                name: tuple(parameter.choices)
                for name, parameter in self.space.parameters.items()
                if isinstance(parameter, Ordinal)
            },
        )

    def _table(self, rows: list[dict]) -> pd.DataFrame:
        """Return the history as a table, with one row for each call."""
        stages, made = [deque(s) for s in self._stages], [0] * len(self.names)
        number, table = {text: m for m, text in enumerate(self.request["clients"])}, []
        for row in rows:
            m = number[row["client"]]
            made[m] += 1
            value = math.nan if row["value"] is None else row["value"]
            seconds = math.nan if row["seconds"] is None else row["seconds"]
            stage = stages[m].popleft() if stages[m] else ""
            result = {"value": value, "seconds": seconds, "stage": stage, "why": row["why"]}
            table.append({"client": self.names[m], "evaluation": made[m], **row["parameters"], **result})
        columns = ["client", "evaluation", *self.space.parameters, "value", "seconds", "stage", "why"]
        return pd.DataFrame(table, columns=columns)


def _possible_scores(message) -> list[float]:
    """Return the numbers of a message that could be scores."""
    values = (getattr(message, name) for name in message.payload() if name != "counts")
    return [x for array in values if array.dtype.kind == "f" for x in array.ravel().tolist()]


def _stage(client) -> str:
    """Return the part of the algorithm that requests the client's evaluations; "" for algorithms of one part."""
    if isinstance(client, GPClient):
        return client.stage
    return ("together" if client.tree is None else "alone") if isinstance(client, PlusClient) else ""
