"""What a search found, as tables and as a figure; and the error that a failed evaluation ends it with."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import pandas as pd

HOW = (
    "(Nothing is lost: the same call with history=error.result, error being what was raised, or with its file, goes on "
    "from here. Where nothing caught it, sys.last_value is the error.)"
)
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
