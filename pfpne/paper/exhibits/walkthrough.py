"""One run of PF-PNE, drawn depth by depth: the kept nodes, the eliminated ones and by whom, and the communication.

The algorithm's own clients and server run, and the clients record their pulls and the nodes that they keep.
"""

import io
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from pfpne.algorithms import make_settings
from pfpne.paper.claims.watching import nodes_before_elimination, watch
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, our_style
from pfpne.paper.show.style import (
    BLUE,
    CLIENT_LINES,
    CUT_BY_HORIZON,
    ELIMINATED_BY_BOTH,
    ELIMINATED_BY_CLIENT,
    ELIMINATED_BY_SERVER,
    FATES,
    GREY,
    KEPT_BY_CLIENT,
    KEPT_BY_CLIENT_ONLY,
    KEPT_BY_SERVER,
    PAGE,
    noise_in_words,
    title,
)
from pfpne.problems import Problem, make_problem
from pfpne.simulation.record import Run


class Trace(NamedTuple):
    """What happened in one run.

    nodes: one row per node of the server and of each client: who, depth, index, fate (one of FATES), pulls (for the
    server, all clients' pulls before its decision), the mean reward of these pulls (NaN if there are none), and the
    ends low and high of the cell. sent: one row per depth that the server decided on: depth, t, and the numbers sent up
    and down, summed over the clients.
    """

    run: Run
    nodes: pd.DataFrame
    sent: pd.DataFrame


def trace(problem: Problem, horizon: int, seed: int, **settings) -> Trace:
    """Run PF-PNE on a problem of one dimension, and record the fate of each node.

    Parameters
    ----------
    problem : Problem
        A problem of one dimension.
    horizon : int
        T, the evaluations per client.
    seed : int
        The seed of the run.
    **settings
        The algorithm's settings.

    Returns
    -------
    Trace
        The run, the nodes and the messages.
    """
    parts, watched = [], watch("pf-pne", problem, horizon, seed=seed, **settings)
    run, server, shared = watched.run, watched.server, watched.kept_by_server
    sent = [
        (message.header, t, message.n_numbers * (direction == "up"), message.n_numbers * (direction == "down"))
        for t, direction, _, message in run.messages
    ]
    sent = pd.DataFrame(sent, columns=["depth", "t", "up", "down"]).groupby(["depth", "t"], as_index=False).sum()
    partition = server.task.partition
    K = nodes_before_elimination(partition, shared)
    for h, kept in enumerate(shared):
        fate = np.where(np.isin(K[h], kept), KEPT_BY_SERVER, ELIMINATED_BY_SERVER)
        measured = {"pulls": server.n_samples(h), "mean": watched.means[h].mean(axis=0)}
        parts.append({"who": "server", "depth": h, "index": K[h], "fate": fate, **measured})
    for m, (client, kept_alone) in enumerate(zip(watched.clients, watched.kept_alone, strict=True)):
        # kept_alone: the nodes that the client keeps in PE, depth by depth; none if the horizon ends stage 1. The
        # client may have pulled deeper nodes in stage 1, which PE did not reach: down to the last depth of the server.
        kept = shared
        if kept_alone:
            not_reached = shared[len(kept_alone) : -1]  # the last nodes that the server kept have no children here
            kept = [*kept_alone, *not_reached]
        for h, index in enumerate(nodes_before_elimination(partition, kept)):
            by_server, decided = (np.isin(index, level[h] if h < len(sent) else []) for level in (shared, K))
            by_client = np.isin(index, kept_alone[h] if h < len(kept_alone) else [])
            is_cut = np.full(len(index), h >= len(kept_alone))
            cases = {KEPT_BY_SERVER: by_server, CUT_BY_HORIZON: is_cut, KEPT_BY_CLIENT_ONLY: decided & by_client}
            cases |= {ELIMINATED_BY_BOTH: decided, KEPT_BY_CLIENT: by_client}
            fate = np.select(list(cases.values()), list(cases), ELIMINATED_BY_CLIENT)
            pulls, total = np.array([client.pulled.get((h, i), (0, np.nan)) for i in index.tolist()]).T
            measured = {"pulls": pulls.astype(int), "mean": total / np.maximum(pulls, 1)}
            parts.append({"who": f"client {m + 1}", "depth": h, "index": index, "fate": fate, **measured})
    for part in parts:
        part["low"], part["high"] = partition.box(part["depth"], part["index"])[:, 0].T
    return Trace(run, pd.concat(map(pd.DataFrame, parts), ignore_index=True), sent)


@our_style()
def draw(trace: Trace, problem: Problem) -> Exhibit:
    """Draw the functions, and under them the cells of the server and of up to three clients, depth by depth.

    Parameters
    ----------
    trace : Trace
        The run, as `trace` returns it.
    problem : Problem
        The problem of the run.

    Returns
    -------
    Exhibit
        The figure, and the nodes as CSV.
    """
    caption = (
        f"One run of PF-PNE on {title(problem.name)}, {noise_in_words(problem.noise)}: M = {problem.n_clients} clients,"
        f" T = {trace.run.t[-1]:,} evaluations each, Delta = {trace.run.settings['Delta']:g}. Colour says who keeps a"
        " node, hatching who eliminated it. Dots are the clients' optima, and the diamond is that of the mean."
        " Arrowheads point at a client's own optimum. On the right are the numbers sent, up by all clients together and"
        " down to all of them, and the evaluations of each client, in both stages together."
    )
    figure = Figure()
    draw_on(figure, trace, problem)
    return figure_exhibit(figure, "how_it_works", caption, trace.nodes)


def draw_on(figure: Figure, trace: Trace, problem: Problem) -> None:
    """Put the picture on a figure, and give the figure its size."""
    clients, depths = range(min(problem.n_clients, len(CLIENT_LINES))), trace.nodes["depth"].max() + 1
    starts = {name: k * (depths + 2) for k, name in enumerate(["server", *(f"client {m + 1}" for m in clients)])}
    drawn, x = trace.nodes[trace.nodes["who"].isin(starts)], np.linspace(*problem.domain[0], 1001)
    rows = (depths + 2) * len(starts)
    height = 0.125 * rows + 2.3  # inches; all margins are known, which makes a redraw fast
    figure.set_size_inches(PAGE, height)
    figure.set_layout_engine("none")
    left, width, xlim = 0.65 / PAGE, 1 - 1.6 / PAGE, problem.domain[0]
    top = figure.add_axes((left, 1 - 1.1 / height, width, 1 / height), xlim=xlim, ylim=(0, 1), ylabel="value")
    ax = figure.add_axes((left, 1.1 / height, width, 0.125 * rows / height), xlim=xlim, ylim=(rows - 1.2, -1.5))
    for m in clients:
        top.plot(
            x, problem.client_values(m, x[:, None]), CLIENT_LINES[m], color=GREY, linewidth=0.8, label=f"$f_{m + 1}$"
        )
        top.plot(problem.maximisers[m], problem.optimum[m], "o", color=GREY, clip_on=False)
        for marker, y in (("v", -1), ("^", depths)):  # above and below the cells, where they hide none
            ax.plot(problem.maximisers[m], starts[f"client {m + 1}"] + y, marker, color="black", markersize=4)
    top.plot(x, problem.mean_values(x[:, None]), color=BLUE, linewidth=1.6, label="$\\bar{f}$")
    top.plot(problem.global_maximiser, problem.global_optimum, "D", color=BLUE, clip_on=False)
    top.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=2.6)
    top.set(xticks=[], yticks=(0, 0.5, 1))
    for fate, (color, hatch) in FATES.items():
        nodes = drawn[drawn["fate"] == fate]
        y = (nodes["depth"] + nodes["who"].map(starts)).to_numpy()[:, None] + [-0.45, 0.45, 0.45, -0.45]
        corners = np.stack([nodes[["low", "low", "high", "high"]], y], axis=-1)
        look = {"facecolor": color, "hatch": hatch, "edgecolor": GREY, "linewidth": 0.4, "label": fate}
        if len(nodes):
            ax.add_collection(PolyCollection(corners, **look))
    sent, ticks = trace.sent.set_index("depth"), {}
    for owner, start in starts.items():
        pulls = drawn[drawn["who"] == owner].groupby("depth")["pulls"].sum()
        columns = {"evaluations": pulls} if start else {"down \u2193": sent["down"], "up \u2191": sent["up"]}
        for right, (name, column) in zip((1.17, 1.09), columns.items(), strict=False):  # the axes end at 1
            for h, text in [(-1, name), *column.map("{:,}".format).items()]:
                ax.text(right, start + h, text, transform=ax.get_yaxis_transform(), ha="right", va="center", fontsize=7)
        ticks |= {start - 1: owner} | {start + h: h for h in pulls.index[::2]}
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.set(xlabel="$x$, and the cells of each depth", ylabel="depth $h$")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    handles = ax.get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="lower center", ncols=3, columnspacing=1.2, handleheight=1.1)


def in_words(trace: Trace, problem: Problem) -> str:
    """Say what happened in Markdown: one sentence or two about the server and about each client that is drawn.

    Parameters
    ----------
    trace : Trace
        The run, as `trace` returns it.
    problem : Problem
        The problem of the run.

    Returns
    -------
    str
        A list in Markdown.
    """
    nodes, sent = trace.nodes, trace.sent
    fates = nodes["fate"][nodes["who"] == "server"]
    lines = [
        f"- **The server** eliminated {sum(fates == ELIMINATED_BY_SERVER)} of {len(fates)} nodes. To decide this, it "
        f"received {sent['up'].sum() // problem.n_clients} numbers from each client, all in the first "
        f"{max(sent['t'], default=0):,} of {trace.run.t[-1]:,} evaluations."
    ]
    for m, x in enumerate(problem.maximisers[: len(CLIENT_LINES), 0]):
        of_client = nodes[nodes["who"] == f"client {m + 1}"]
        value = problem.client_values(m, trace.run.best[m][None])[0]
        around = of_client[of_client["low"].le(x) & of_client["high"].ge(x)]
        around = around.groupby("fate", sort=False)["depth"].max()
        n_kept = sum(of_client["fate"] == KEPT_BY_CLIENT_ONLY)
        lines.append(
            f"- **Client {m + 1}** kept {n_kept} {'node' if n_kept == 1 else 'nodes'} that the server had eliminated."
            f" The cell around its own optimum was {'; '.join(f'{fate} (to depth {h})' for fate, h in around.items())}."
            f" It would use a point worth {value:.3f}; its optimum is {problem.optimum[m]:.3f}."
        )
    return "\n".join(lines)


def explore(p):
    """Make sliders for Delta, noise, shift and M, and the picture for their values.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters, the initial values of the sliders.

    Returns
    -------
    ipywidgets.VBox
        The sliders and the picture, which is drawn again when one of them is moved.
    """
    import ipywidgets as widgets  # slow, so not before it is needed

    Delta = make_settings("pf-pne", p.settings, p.experiment().problem(0)).Delta
    noises, picture = dict.fromkeys(["bernoulli", 0.0, 0.1, 0.5, 1.0, 2.0, p.noise]), widgets.Image()
    picture.layout.height, picture.layout.object_fit = "68vh", "contain"  # on one screen with the sliders
    sliders = [
        widgets.FloatSlider(Delta, description="Delta", min=0, max=max(0.5, Delta), step=0.01),
        widgets.SelectionSlider(value=p.noise, description="noise", options=list(noises)),
        widgets.FloatSlider(p.shift, description="shift", min=0, max=max(0.3, p.shift), step=0.01),
        widgets.IntSlider(p.n_clients, description="M", min=1, max=max(20, p.n_clients)),
    ]

    def redraw(_=None):
        Delta, noise, shift, M = (slider.value for slider in sliders)
        problem, png = make_problem("garland", M, shift, noise, p.seed), io.BytesIO()
        with our_style():
            figure = Figure(dpi=120)
            draw_on(figure, trace(problem, p.horizon, p.seed, Delta=Delta), problem)
            FigureCanvasAgg(figure).print_png(png, pil_kwargs={"compress_level": 1})  # faster, and as good
        picture.value = png.getvalue()

    redraw()
    for slider in sliders:
        slider.continuous_update = False
        slider.observe(redraw, "value")
    return widgets.VBox([widgets.HBox(sliders[:2]), widgets.HBox(sliders[2:]), picture])
