"""One run of PF-PNE, watched and drawn depth by depth: what was kept, what was eliminated by whom, what was sent.

What is drawn is what the algorithm did: its own clients and server run; the clients note what passes through them.
"""

import io
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pfpne.algorithms import Algorithm, make_settings
from pfpne.algorithms.pf_pne import PFPNE, Kept, NodeMeans, PFPNESettings, PhasedClient, PhasedServer, make_phased
from pfpne.paper.figures import PAGE, Drawing, _render, _style, noise_in_words
from pfpne.partition import Partition
from pfpne.problems.objectives import Problem, make_problem
from pfpne.simulation.record import Run
from pfpne.simulation.simulate import simulate

FATES = {  # of a node: the colour says who kept it, the hatch who eliminated it
    "kept by the server": ("#004C7F", ""),
    "kept by the client": ("#E69F00", ""),
    "eliminated by the server, kept by the client": ("#E69F00", "//////"),
    "eliminated by the server": ("#F4F4F4", "//////"),
    "eliminated by the client": ("#F4F4F4", "\\\\\\\\\\\\"),
    "eliminated by both": ("#F4F4F4", "xxxxxx"),
    "cut by the horizon": ("white", ""),
}
BY_SERVER, BY_CLIENT, BROUGHT_BACK, NOT_BY_SERVER, NOT_BY_CLIENT, NOT_BY_BOTH, CUT = FATES
LINES = ("-", "--", ":")  # of the clients that are drawn


class _Cells(Partition):
    """A partition that notes of which nodes the children were asked for, one depth after another: of those kept."""

    def children(self, i):
        vars(self).setdefault("kept", []).append(i)
        return super().children(i)


class _Client(PhasedClient):
    """A client that notes what it kept, first with the server, then alone, and pulled[h, i] = (pulls, rewards)."""

    def __init__(self, task, settings, phases):
        self.cells, self.pulled = _Cells(task.partition.domain, max_depth=task.partition.max_depth), {}
        super().__init__(replace(task, partition=self.cells), settings, phases)

    def _tell(self, batch, rewards):
        sums = np.add.reduceat(rewards, np.cumsum(batch.counts) - batch.counts)
        for i, n, total in zip(self._step.index.tolist(), batch.counts, sums, strict=False):  # the horizon may cut some
            before = self.pulled.get((self._step.h, i), (0, 0.0))
            self.pulled[self._step.h, i] = before[0] + n, before[1] + total
        return super()._tell(batch, rewards)


class Trace(NamedTuple):
    """What happened in one run.

    cells: a row a node of the server and of each client; who, depth, index, low, high (its ends), fate (of FATES),
    pulls (the server's: of all clients, when it decided), mean of their rewards (NaN without any).
    sent: a row a depth that the server decided on; depth, t, numbers up and down, of all clients together.
    """

    run: Run
    cells: pd.DataFrame
    sent: pd.DataFrame


def trace(problem: Problem, horizon: int, seed: int, **settings) -> Trace:
    """Run PF-PNE on a problem of one dimension for `horizon` evaluations a client, and note what happened."""
    made, cells = [], []

    def make(task, chosen):
        made.extend(make_phased(PFPNE, PhasedServer, task, chosen, _Client))
        return made

    algorithm = Algorithm(PFPNESettings, make, (NodeMeans,), (Kept,))
    run = simulate(algorithm, problem, horizon, seed=seed, messages=True, **settings)
    sent = [(m.header, t, m.numbers * (way == "up"), m.numbers * (way == "down")) for t, way, _, m in run.messages]
    sent = pd.DataFrame(sent, columns=["depth", "t", "up", "down"]).groupby(["depth", "t"], as_index=False).sum()
    server, clients = made
    partition, shared = server.task.partition, clients[0].cells.kept[: len(sent)]
    K = _levels(partition, shared)
    for h, kept in enumerate(shared):
        means = [message.means for _, way, _, message in run.messages if way == "up" and message.header == h]
        fate = np.where(np.isin(K[h], kept), BY_SERVER, NOT_BY_SERVER)
        cells.append(_rows("server", partition, h, K[h], fate, server.samples(h), np.mean(means, axis=0)))
    for m, client in enumerate(clients):
        own = client.cells.kept[len(sent) :]  # by PE, from the root; empty if the horizon came before
        for h, index in enumerate(_levels(partition, [*own, *shared[len(own) : -1]] if own else shared)):
            protected, seen = (np.isin(index, level[h] if h < len(sent) else []) for level in (shared, K))
            mine, cut = np.isin(index, own[h] if h < len(own) else []), np.full(len(index), h >= len(own))
            cases = {BY_SERVER: protected, CUT: cut, BROUGHT_BACK: seen & mine, NOT_BY_BOTH: seen, BY_CLIENT: mine}
            fate = np.select(list(cases.values()), list(cases), NOT_BY_CLIENT)
            pulls, total = np.array([client.pulled.get((h, i), (0, np.nan)) for i in index.tolist()]).T
            rows = _rows(f"client {m + 1}", partition, h, index, fate, pulls.astype(int), total / np.maximum(pulls, 1))
            cells.append(rows)
    return Trace(run, pd.concat(cells, ignore_index=True), sent)


def _levels(partition: Partition, kept: list) -> list[np.ndarray]:
    """The nodes of each depth before elimination: the root, then the children of those kept."""
    return [np.array([1]), *map(partition.children, kept)]


def _rows(who: str, partition: Partition, h: int, index: np.ndarray, fate, pulls, mean) -> pd.DataFrame:
    low, high = partition.box(h, index)[:, 0].T
    columns = {"low": low, "high": high, "fate": fate, "pulls": pulls, "mean": mean}
    return pd.DataFrame({"who": who, "depth": h, "index": index, **columns})


def draw(trace: Trace, problem: Problem) -> Drawing:
    """The functions, and under them the cells of the server and of up to three clients, depth by depth."""
    caption = (
        f"One run of PF-PNE on {problem.name}, {noise_in_words(problem.noise)}: M = {problem.n_clients} clients, "
        f"T = {trace.run.t[-1]:,} evaluations a client, Delta = {trace.run.settings['Delta']:g}. Colour says who keeps "
        "a node, hatching who eliminated it; arrowheads point at a client's own optimum. At the right the numbers "
        "sent up and down, all clients together, and each client's evaluations."
    )
    with _style():
        return _render(_figure(trace, problem), "how_it_works", caption, trace.cells)


def _figure(trace: Trace, problem: Problem) -> Figure:
    panels, depths = 1 + min(problem.n_clients, len(LINES)), trace.cells["depth"].max() + 1
    rows = max(0.5, 0.125 * depths)  # inches, of one panel; the margins are known too, which makes a redraw fast
    height = 2.3 + panels * (rows + 0.25)
    margins = {"left": 0.65 / PAGE, "right": 1 - 0.95 / PAGE, "top": 1 - 0.1 / height, "bottom": 1.2 / height}
    grid = {"height_ratios": [1.0, *panels * [rows]], "hspace": 0.25 * (1 + panels) / (1.0 + panels * rows)}
    figure = Figure(figsize=(PAGE, height))
    figure.set_layout_engine("none")
    top, *axes = figure.subplots(1 + panels, sharex=True, gridspec_kw=margins | grid)
    x, grey, blue = np.linspace(*problem.domain[0], 1001), "0.35", FATES[BY_SERVER][0]
    edge = {"edgecolor": grey, "linewidth": 0.4}
    for m, ax in enumerate(axes, start=-1):
        who = f"client {m + 1}" if m >= 0 else "server"
        mine = trace.cells[trace.cells["who"] == who]
        for fate, cells in mine.groupby("fate"):
            corners = cells[["low", "low", "high", "high"]], cells[["depth"]].to_numpy() + [-0.45, 0.45, 0.45, -0.45]
            color, hatch = FATES[fate]
            ax.add_collection(PolyCollection(np.stack(corners, axis=-1), facecolor=color, hatch=hatch, **edge))
        ax.set(ylim=(depths - 0.4, -0.6), yticks=range(0, depths, 2), ylabel=f"{who}\ndepth $h$")
        sent = trace.sent.set_index("depth")
        numbers = {"down \u2193": sent["down"], "up \u2191": sent["up"]}
        if m >= 0:
            numbers = {"evaluations": mine.groupby("depth")["pulls"].sum()}
            top.plot(x, problem.client_values(m, x[:, None]), LINES[m], color=grey, linewidth=0.8, label=f"$f_{m + 1}$")
            top.plot(problem.maximisers[m], problem.optimum[m], "o", color=grey, clip_on=False)
            for marker, y in (("v", -0.9), ("^", depths - 0.1)):  # above and below, where they hide no cell
                ax.plot(problem.maximisers[m], y, marker, color="black", markersize=4, clip_on=False)
        place = {"transform": ax.get_yaxis_transform(), "ha": "right", "fontsize": 7}  # x from 0 to 1, y in depths
        for right, (name, column) in zip((1.17, 1.09), numbers.items(), strict=False):
            ax.text(right, -0.7, name, va="bottom", **place)
            for h, n in column.items():
                ax.text(right, h, f"{n:,}", va="center", **place)
    top.plot(x, problem.mean_values(x[:, None]), color=blue, linewidth=1.6, label="$\\bar{f}$")
    top.plot(problem.global_maximiser, problem.global_optimum, "D", color=blue, clip_on=False)
    top.set(xlim=problem.domain[0], ylim=(0, 1), yticks=(0, 0.5, 1), ylabel="value")
    top.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=2.6)
    ax.set_xlabel("$x$, and the cells of each depth")
    for ax in figure.axes:
        ax.yaxis.set_label_coords(-0.055, 0.5)
    shown = [(fate, *look) for fate, look in FATES.items() if fate in set(trace.cells["fate"])]
    handles = [Patch(facecolor=color, hatch=hatch, label=fate, **edge) for fate, color, hatch in shown]
    figure.legend(handles=handles, loc="lower center", ncols=3, columnspacing=1.2, handleheight=1.1)
    return figure


def in_words(trace: Trace, problem: Problem) -> str:
    """What happened, as Markdown: the server, and the clients drawn."""
    cells, sent, T = trace.cells, trace.sent, trace.run.t[-1]
    fates = cells[cells["who"] == "server"]["fate"]
    lines = [
        f"- **The server** eliminated {sum(fates == NOT_BY_SERVER)} of the {len(fates)} nodes of {len(sent)} depths. Each "
        f"client sent it {sent['up'].sum() // problem.n_clients} numbers, the last ones after {sent['t'].max():,} of its "
        f"{T:,} evaluations; in the others nobody sends anything."
    ]
    for m, x in enumerate(problem.maximisers[: len(LINES), 0]):
        mine, best = cells[cells["who"] == f"client {m + 1}"], trace.run.best[m]
        around = mine[(mine["low"] <= x) & (x <= mine["high"])].groupby("fate", sort=False)["depth"].max()
        lines.append(
            f"- **Client {m + 1}** kept {sum(mine['fate'] == BROUGHT_BACK)} of the nodes that the server eliminated. The "
            f"cell of its own optimum: {'; '.join(f'{fate} (to depth {h})' for fate, h in around.items())}. The point "
            f"it would use is worth {problem.client_values(m, best[None])[0]:.3f}, its optimum {problem.optimum[m]:.3f}."
        )
    return "\n".join(lines)


def explore(p):
    """Sliders (ipywidgets) for Delta, noise, shift and M, set to a notebook's parameters, and the picture of each."""
    import ipywidgets as widgets  # slow, so not before it is needed

    Delta = make_settings("pf-pne", p.settings, p.experiment().problem(0)).Delta
    noises, picture = dict.fromkeys(["bernoulli", 0.0, 0.1, 0.5, 1.0, 2.0, p.noise]), widgets.Image(width=840)
    sliders = [
        widgets.FloatSlider(Delta, description="Delta", min=0, max=max(0.5, Delta), step=0.01),
        widgets.SelectionSlider(value=p.noise, description="noise", options=list(noises)),
        widgets.FloatSlider(p.shift, description="shift", min=0, max=max(0.3, p.shift), step=0.01),
        widgets.IntSlider(p.n_clients, description="M", min=1, max=max(20, p.n_clients)),
    ]

    def redraw(_=None):
        Delta, noise, shift, M = (slider.value for slider in sliders)
        problem, png = make_problem("garland", M, shift, noise, p.seed), io.BytesIO()
        with _style():
            FigureCanvasAgg(_figure(trace(problem, p.horizon, p.seed, Delta=Delta), problem)).print_png(png)
        picture.value = png.getvalue()

    redraw()
    for slider in sliders:
        slider.continuous_update = False
        slider.observe(redraw, "value")
    return widgets.VBox([*sliders, picture])
