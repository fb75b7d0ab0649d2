"""One run of PF-PNE, watched and drawn depth by depth: who kept which node, who eliminated it, what was sent.

What is drawn is what the algorithm did: its own clients and its own server run, and note what passes through them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pfpne.algorithms import Algorithm
from pfpne.algorithms.pf_pne import PFPNE, Kept, NodeMeans, PFPNESettings, PhasedClient, PhasedServer, make_phased
from pfpne.paper.figures import PAGE, Drawing, _render, _style, noise_in_words
from pfpne.partition import Partition
from pfpne.problems.objectives import Problem, make_problem
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import simulate

# Fate of a node: colour of its cell, hatch. The colour says who kept it, the hatch who eliminated it.
FATES = {
    "kept by the server": ("#004C7F", ""),
    "kept by the client": ("#E69F00", ""),
    "eliminated by the server, kept by the client": ("#E69F00", "//////"),
    "eliminated by the server": ("#F4F4F4", "//////"),
    "eliminated by the client": ("#F4F4F4", "\\\\\\\\\\\\"),
    "eliminated by both": ("#F4F4F4", "xxxxxx"),
    "cut by the horizon": ("white", ""),
}
BY_SERVER, BY_CLIENT, BROUGHT_BACK, NOT_BY_SERVER, NOT_BY_CLIENT, BY_BOTH, CUT = FATES
LINES = ("-", "--", ":")  # of the clients drawn, at most three
GREY = "0.35"


# --- a run that is watched --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Cells(Partition):
    """A partition that notes of which nodes the children were asked for, depth by depth: of those kept."""

    kept: list = field(default_factory=list)

    def children(self, i):
        self.kept.append(i)
        return super().children(i)


class _Phases(PFPNE):
    """PF-PNE's loop. federated: h -> K^h; active: h -> K_m^h, once PE is there; kept: depth by depth, what stays."""

    def __init__(self, task, settings, S):
        cells = _Cells(task.partition.domain, max_depth=task.partition.max_depth)
        super().__init__(replace(task, partition=cells), settings, S)
        self.kept, self.federated, self.in_pe = cells.kept, {}, False

    def pull_each(self, h, index):
        self.federated[h] = index
        return (yield from super().pull_each(h, index))

    def pe(self, shared, own):
        self.kept.clear()
        self.in_pe = True
        yield from super().pe(shared, own)

    def active(self) -> dict[int, np.ndarray]:
        """h -> the client's nodes of that depth, before elimination."""
        if not self.in_pe:
            return self.federated
        h, root = self.start(self.task)
        return {h: root} | {h + 1 + k: Partition.children(self.task.partition, i) for k, i in enumerate(self.kept)}


class _Client(PhasedClient):
    """A client that notes its evaluations: pulled[h, i] = [pulls, sum of the rewards]."""

    def __init__(self, task, settings, phases):
        super().__init__(task, settings, phases)
        self.pulled = {}

    def _tell(self, batch, rewards):
        sums = np.add.reduceat(rewards, np.cumsum(batch.counts) - batch.counts)
        for i, n, total in zip(self._step.index, batch.counts, sums, strict=False):  # the horizon may cut the last
            pulls = self.pulled.setdefault((self._step.h, int(i)), [0, 0.0])
            pulls[:] = pulls[0] + int(n), pulls[1] + total
        return super()._tell(batch, rewards)


class _Server(PhasedServer):
    """A server that notes the global means: h -> the mean over clients of each node of K^h."""

    def __init__(self, task, settings):
        super().__init__(task, settings)
        self.means = {}

    def conclude(self, means):
        self.means[self.h] = means.mean(axis=0)
        return super().conclude(means)


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened in one run.

    cells: a row a node and whose it is; who ("server", "client 1", ...), depth, index, low, high (its box), fate (one
    of FATES), pulls (the server's: of all clients, by the time it decided), mean of their rewards (NaN without pulls).
    sent: a row a depth that the server decided on; depth, t, and numbers up and down, all clients together.
    """

    run: Run
    cells: pd.DataFrame
    sent: pd.DataFrame


def trace(problem: Problem, horizon: int, seed: int, **settings) -> Trace:
    """Run PF-PNE on a problem of one dimension for `horizon` evaluations a client, and note what happened."""
    watched = []

    def make(task, chosen):
        watched[:] = make_phased(_Phases, _Server, task, chosen, _Client)
        return tuple(watched)

    algorithm = Algorithm(PFPNESettings, make, (NodeMeans,), (Kept,))
    run = simulate(algorithm, problem, horizon, seed=seed, messages=True, **settings)
    server, clients = watched
    kept = {message.header: message.index for _, way, _, message in run.messages if way == "down"}
    mail = [(message.header, t, message.numbers * (way == "up"), message.numbers * (way == "down"))
            for t, way, _, message in run.messages]
    sent = pd.DataFrame(mail, columns=["depth", "t", "up", "down"]).groupby(["depth", "t"], as_index=False).sum()
    cells = [_of_server(server, clients[0], kept)]
    cells += [_of_client(f"client {m + 1}", client, kept) for m, client in enumerate(clients)]
    return Trace(run, pd.concat(cells, ignore_index=True), sent)


def _rows(who: str, partition: Partition, h: int, index: np.ndarray, fate, pulls, mean) -> pd.DataFrame:
    low, high = partition.box(h, index)[:, 0].T
    return pd.DataFrame({"who": who, "depth": h, "index": index, "low": low, "high": high, "fate": fate,
                         "pulls": pulls, "mean": mean})


def _of_server(server: _Server, client: _Client, kept: dict) -> pd.DataFrame:
    rows = []
    for h, mean in server.means.items():
        index = client._phases.federated[h]
        fate = np.where(np.isin(index, kept[h]), BY_SERVER, NOT_BY_SERVER)
        rows.append(_rows("server", server.task.partition, h, index, fate, server.samples(h), mean))
    return pd.concat(rows) if rows else pd.DataFrame()


def _of_client(who: str, client: _Client, kept: dict) -> pd.DataFrame:
    phases, rows = client._phases, []
    active = phases.active()
    for h, index in {**phases.federated, **active}.items():
        protected, seen = np.isin(index, kept.get(h, [])), np.isin(index, phases.federated[h] if h in kept else [])
        decided = phases.in_pe and h < len(phases.kept)
        mine = np.isin(index, phases.kept[h] if decided else [])
        cut = np.full(len(index), not decided)
        cases = {BY_SERVER: protected, CUT: cut, BROUGHT_BACK: seen & mine, BY_BOTH: seen, BY_CLIENT: mine}
        fate = np.select(list(cases.values()), list(cases), NOT_BY_CLIENT)
        pulls, total = np.array([client.pulled.get((h, i), (0, 0.0)) for i in index.tolist()]).T
        mean = np.divide(total, pulls, out=np.full(len(index), np.nan), where=pulls > 0)
        rows.append(_rows(who, client.task.partition, h, index, fate, pulls.astype(int), mean))
    return pd.concat(rows)


# --- the picture ------------------------------------------------------------------------------------


def draw(trace: Trace, problem: Problem) -> Drawing:
    """The functions, and under them the cells of the server and of up to three clients, depth by depth."""
    clients = min(problem.n_clients, len(LINES))
    panels = ["server", *(f"client {m + 1}" for m in range(clients))]
    with _style():
        figure = Figure(figsize=(PAGE, 1.9 + 1.1 * len(panels)))
        ratios = {"height_ratios": [1.3, *[1] * len(panels)], "width_ratios": [1, 0.13]}
        axes = figure.subplots(1 + len(panels), 2, sharex="col", gridspec_kw=ratios)
        _draw_functions(axes[0, 0], problem, clients)
        axes[0, 1].set_axis_off()
        handles, labels = axes[0, 0].get_legend_handles_labels()
        axes[0, 1].legend(handles, labels, loc="center left", borderpad=0, handlelength=2.2, fontsize=7.5)
        deepest = trace.cells["depth"].max()
        for who, (ax, side) in zip(panels, axes[1:], strict=True):
            mine = trace.cells[trace.cells["who"] == who]
            _draw_cells(ax, mine, deepest)
            if who == "server":
                numbers = trace.sent.set_index("depth")[["up", "down"]]
                numbers.columns = ["up \N{UPWARDS ARROW}", "down \N{DOWNWARDS ARROW}"]
                ax.set_ylabel("server\ndepth $h$")
            else:
                numbers = mine.groupby("depth")[["pulls"]].sum()
                numbers.columns = ["evaluations"]
                m = panels.index(who) - 1
                ax.axvline(problem.maximisers[m, 0], color="black", linestyle=LINES[m], linewidth=0.7)
                ax.set_ylabel(f"{who}\ndepth $h$")
            _write(side, numbers, deepest)
        axes[-1, 0].set_xlabel("$x$, and the cells of each depth")
        shown = [fate for fate in FATES if fate in set(trace.cells["fate"])]
        patches = [Patch(**_look(fate), label=fate) for fate in shown]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, columnspacing=1.2, handleheight=1.1)
        return _render(figure, "how_it_works", _caption(trace, problem, clients), trace.cells)


def _look(fate: str) -> dict:
    color, hatch = FATES[fate]
    return {"facecolor": color, "edgecolor": GREY, "hatch": hatch, "linewidth": 0.4}


def _draw_functions(ax: Axes, problem: Problem, clients: int) -> None:
    x = np.linspace(*problem.domain[0], 1001)
    curves = [(f"$f_{m + 1}$", problem.client_values(m, x[:, None]), LINES[m], GREY, 0.8) for m in range(clients)]
    tops = [(problem.maximisers[m, 0], problem.optimum[m]) for m in range(clients)]
    curves.append(("$\\bar{f}$", problem.mean_values(x[:, None]), "-", "#004C7F", 1.6))
    tops.append((problem.global_maximiser[0], problem.global_optimum))
    for (label, y, line, color, width), top in zip(curves, tops, strict=True):
        ax.plot(x, y, color=color, linestyle=line, linewidth=width, label=label)
        ax.plot(*top, marker="o" if label.startswith("$f") else "D", color=color, clip_on=False, zorder=3)
    ax.set(xlim=problem.domain[0], ylim=(0, None), ylabel="value")


def _draw_cells(ax: Axes, cells: pd.DataFrame, deepest: int) -> None:
    for (h, fate), mine in cells.groupby(["depth", "fate"], sort=False):
        boxes = list(zip(mine["low"], mine["high"] - mine["low"], strict=True))
        ax.broken_barh(boxes, (h - 0.45, 0.9), **_look(fate))
    ax.set(ylim=(deepest + 0.6, -0.6), yticks=range(0, deepest + 1, 2))


def _write(ax: Axes, numbers: pd.DataFrame, deepest: int) -> None:
    """The numbers of each depth, beside its cells."""
    ax.set(xlim=(0, 1), ylim=(deepest + 0.6, -0.6))
    ax.set_axis_off()
    for k, name in enumerate(numbers.columns):
        right = (k + 1) / len(numbers.columns)
        ax.text(right, -0.7, name, ha="right", va="bottom", fontsize=7)
        for h, n in numbers[name].items():
            ax.text(right, h, f"{n:,}", ha="right", va="center", fontsize=7)


def _caption(trace: Trace, problem: Problem, clients: int) -> str:
    drawn = "" if clients == problem.n_clients else f", the first {clients} of them drawn"
    return (
        f"One run of PF-PNE on {problem.name}, {noise_in_words(problem.noise)}: M = {problem.n_clients} clients{drawn}, "
        f"T = {trace.run.t[-1]:,} evaluations a client, Delta = {trace.run.settings['Delta']:g}. Cells depth by depth: "
        "colour says who keeps a node, hatching who eliminated it. At the right the numbers sent "
        "up and down, all clients together, and a client's evaluations."
    )
