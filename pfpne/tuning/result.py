"""The result of a search, as tables and as a figure, and the error with which a failed evaluation ends it."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pfpne.validation import is_number

RESUME_HINT = (
    "(Nothing is lost: the same call with history=error.result, error being what was raised, or with its file, goes on "
    "from here. Where nothing caught it, sys.last_value is the error.)"
)
MIN_EVALUATIONS_TO_VARY = 5  # evaluations of a client: fewer may all be at one point
# Of the tables, beside the parameters, none of which may be called so.
RESERVED_COLUMNS = ("client", "evaluation", "evaluations", "choice", "value", "error", "seconds", "stage", "why")


class EvaluationError(RuntimeError):
    """An objective failed, or returned a value that is no reward.

    Parameters
    ----------
    message
        The client, the point and the cause.

    Attributes
    ----------
    result
        The `Tuned` so far: give it as history= of the same call, to continue the search.

    Examples
    --------
    >>> import pfpne
    >>> def fail(parameters):
    ...     raise OSError("no disk")
    >>> try:
    ...     pfpne.tune([fail], {"x": pfpne.Float(0, 1)}, n_evaluations=5, progress=False)
    ... except pfpne.EvaluationError as error:
    ...     len(error.result.history)
    0
    """

    def __init__(self, message: str, result: "Tuned"):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of a search: what to deploy, and tables of all that was evaluated and sent.

    Attributes
    ----------
    deploy
        {client: parameters}: the evaluated point to deploy. It has the best value, less one standard error, by a smooth
        model of all the client's evaluations.
    found
        {client: parameters}: the point with the best mean of the client's own values; with noise, partly by luck.
    summary
        A table with one row for each client and choice: the parameters, the value (the model's for deploy, the mean for
        found), its standard error, and the number of evaluations of the point.
    history
        A table with one row for each call of an objective: client, evaluation (1, 2, ... of the client), the
        parameters, value (NaN if it is missing), seconds, stage (the part of the algorithm that requested it), and why
        (the reason if the value is missing).
    communication
        A table with one row for each round: t (the largest of the clients'), round, numbers up, numbers down, bytes,
        and single scores: the number of numbers sent up that equal a score, digit for digit.
    n_spared
        The number of calls that noise=0 has spared.
    request
        The arguments of the search, as plain values and texts.
    rows
        The history as it stands in its file.
    disclosure
        A table with one row for each party: what it could learn about a client from the messages (see
        pfpne.disclosure).
    n_read
        The number of values that came from the given history, and not from a call.
    choices
        {name: choices}, in their order, for the parameters that are one of some choices.

    Examples
    --------
    >>> import pfpne
    >>> objectives = {"Oslo": lambda p: 1 - (p["x"] - 0.3) ** 2, "Rome": lambda p: 1 - (p["x"] - 0.4) ** 2}
    >>> result = pfpne.tune(objectives, {"x": pfpne.Float(0, 1)}, n_evaluations=15, noise=0, progress=False)
    >>> {client: round(parameters["x"], 1) for client, parameters in result.deploy.items()}
    {'Oslo': 0.3, 'Rome': 0.4}
    >>> len(result.history)
    30
    """

    request: dict
    deploy: dict[Hashable, dict]
    found: dict[Hashable, dict]
    summary: pd.DataFrame
    history: pd.DataFrame
    communication: pd.DataFrame
    rows: list[dict] = field(repr=False)
    n_spared: int = 0
    disclosure: pd.DataFrame | None = field(default=None, repr=False)
    n_read: int = 0
    choices: dict[str, tuple] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        values: Any = self.history["value"]
        missing = int(values.isna().sum())
        n, n_asked = len(self.history), self.request["n_evaluations"] * len(self.request["clients"])
        of_all = f" of {n_asked}" * (n + self.n_spared < n_asked)  # it was stopped
        parts = [f"{self.request['algorithm']}, {n}{of_all} evaluations"]
        parts += [f"{self.n_read} of them read from the history"] * (self.n_read > 0)
        parts += [f"{missing} of them missing"] * (missing > 0)
        parts += [f"{self.n_spared} calls saved, of points met again"] * (self.n_spared > 0)
        lines = [", ".join(parts)]
        if n >= MIN_EVALUATIONS_TO_VARY * len(self.deploy) and len({tuple(row["u"]) for row in self.rows}) == 1:
            lines.append("All evaluations are of one point: nothing was searched. A larger nu_1, or gp, spreads them.")
        lines.append(self.summary.to_string(index=False) if self.deploy else "There is no value yet.")
        return "\n".join(lines)

    def plot(self):
        """Draw the search.

        Returns
        -------
        matplotlib.figure.Figure
            The best value so far of each client, its evaluations over each parameter, and the numbers sent. A star
            marks a point to deploy, at its value by the model.

        Raises
        ------
        ImportError
            Without matplotlib; it says what to install.
        ValueError
            If there is no value yet.
        """
        try:
            from matplotlib.figure import Figure
            from matplotlib.ticker import LogLocator, NullFormatter
        except ImportError:
            raise ImportError("result.plot() needs matplotlib: pip install matplotlib.") from None
        names = [name for name in self.history.columns if name not in RESERVED_COLUMNS]
        if not self.deploy:
            raise ValueError("result.plot() needs a value; there is none yet.")
        figure = Figure(figsize=(3.2 * (len(names) + 2), 3.0), layout="constrained")
        so_far, *over, sent = figure.subplots(1, len(names) + 2)
        lowest = self.request["reward"][2] == "minimize"
        labels = {name: choices for name, choices in self.choices.items() if not all(map(is_number, choices))}

        def place(name: str, value):
            """Return where a value is on its axis: choices that are not all numbers stand in their order."""
            return labels[name].index(value) if name in labels else value

        values = self.summary["value"][self.summary["choice"] == "deploy"]
        for (client, chosen), value in zip(self.deploy.items(), values, strict=True):
            own: Any = self.history[[name == client for name in self.history["client"]]]
            best = own["value"].cummin() if lowest else own["value"].cummax()
            (line,) = so_far.step(own["evaluation"], best, where="post", label=str(client))
            for axes, name in zip(over, names, strict=True):
                x = [place(name, self.rows[n]["parameters"][name]) for n in own.index]
                axes.plot(x, own["value"], ".", color=line.get_color())
                star = {"marker": "*", "markeredgecolor": "black", "markersize": 12, "zorder": 3}
                axes.plot(place(name, chosen[name]), value, color=line.get_color(), **star)
        so_far.set(xlabel="evaluation", ylabel="best value so far")
        so_far.legend(fontsize="small")
        parameters = dict(self.request["space"])  # as they read
        for axes, name in zip(over, names, strict=True):
            axes.set(xlabel=name, ylabel="value")
            if name in labels:
                axes.set_xticks(range(len(labels[name])), map(str, labels[name]))
            if parameters[name].endswith("log=True)"):
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
                low, high = axes.get_xlim()
                if high < 100 * low:  # too few powers of ten for labels
                    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                    axes.xaxis.set_major_formatter("{x:g}")
        t = [0, *self.communication["t"]]
        for way in ("numbers up", "numbers down"):
            numbers = [0, *self.communication[way].cumsum()]
            end = max(t[-1], self.history["evaluation"].max())
            sent.step([*t, end], [*numbers, numbers[-1]], where="post", label=way)
        sent.set(xlabel="evaluations of a client", ylabel="numbers sent so far")
        sent.set_ylim(bottom=0, top=None if len(self.communication) else 1)
        sent.legend(fontsize="small")
        return figure
