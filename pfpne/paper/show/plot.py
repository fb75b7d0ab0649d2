"""The common parts of all figures: our style, a new figure, the legend, lines and ticks, names at line ends.

Drawing code reads from top to bottom, and wears our style from its first line to its last:

    @our_style()
    def draw_something(table: pd.DataFrame) -> Exhibit:
        figure, axes = new_figure((PAGE, 3.0), columns=2)
        ...
        return figure_exhibit(figure, "something", "What is seen.", table)
"""

import io
from collections.abc import Iterable

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from pfpne.paper.show.export import Exhibit, as_csv
from pfpne.paper.show.style import LOOKS, PAGE, STYLE, label

WIDTH_IN_WORDS = f"The figure is as wide as a page: {PAGE:g} inches."
ROUND_STEPS = [1, 2, 2.5, 5, 10]  # ticks on a linear axis are multiples of these, times a power of ten


def our_style():
    """Our looks, and matplotlib's defaults for the rest, whatever the user's own configuration says.

    It decorates a function that draws (`@our_style()`), or is entered (`with our_style():`).
    """
    return matplotlib.style.context(STYLE, after_reset=True)


def new_figure(size: tuple[float, float], rows: int = 1, columns: int = 1, **options) -> tuple[Figure, np.ndarray]:
    """A figure of this size (width and height in inches), and its axes in an array (rows, columns).

    options: as `matplotlib.figure.Figure.subplots` takes them.
    """
    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def figure_exhibit(figure: Figure, stem: str, caption: str, table: pd.DataFrame, digits: int = 10) -> Exhibit:
    """The figure as PDF and PNG, with the table that it was drawn from as CSV, in so many digits.

    The same figure gives the same bytes. `our_style` has to be in force. The caption of a wide figure says its width.
    """
    pdf, png = io.BytesIO(), io.BytesIO()
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    figure.savefig(png, format="png", metadata={"Software": None})
    files = {f"{stem}.pdf": pdf.getvalue(), f"{stem}.png": png.getvalue(), f"{stem}.csv": as_csv(table, digits)}
    caption += f" {WIDTH_IN_WORDS}" if figure.get_figwidth() == PAGE else ""
    return Exhibit(stem, caption, files, {"image/png": png.getvalue()})


def in_order(algorithms: Iterable[str]) -> list[str]:
    """The algorithms, each once, in the order of legends."""
    present = set(algorithms)
    return [name for name in LOOKS if name in present]


def legend(figure: Figure, names: list[str], columns: int, lines: bool = True, more: Iterable[Line2D] = ()) -> None:
    """Put one legend of these algorithms below the axes, where it hides nothing.

    columns: the largest number of columns. lines: False shows markers only. more: handles after the algorithms' own.
    """
    handles = []
    for look in map(LOOKS.get, names):
        line = look.linestyle if lines else "none"
        handles.append(Line2D([], [], color=look.color, linestyle=line, marker=look.marker, label=look.label))
    handles += more
    space = {"columnspacing": 1.2, "handlelength": 2.6 if lines else 1.0, "handletextpad": 0.5}
    rows = -(-len(handles) // columns)
    figure.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // max(1, rows)), **space)


def line_looks(names: list[str]) -> dict:
    """The options by which seaborn gives the line of each algorithm its colour, dashes and marker."""
    looks = {name: LOOKS[name] for name in names}
    return {
        "hue": "algorithm",
        "hue_order": names,
        "palette": {name: look.color for name, look in looks.items()},
        "style": "algorithm",
        "style_order": names,
        "dashes": {name: look.dashes for name, look in looks.items()},
        "markers": {name: look.marker for name, look in looks.items()},
        "markeredgecolor": "auto",  # seaborn's own edge is white
        "markeredgewidth": 1,
        "legend": False,
    }


def in_thousands(x: float, _position: int | None = None) -> str:
    """A number as a tick shows it: 500, 20k, 1.5M."""
    return f"{x / 1e6:g}M" if abs(x) >= 1e6 else f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}"


def linear_ticks(axis: Axis, count: int) -> None:
    """At most about `count` ticks at round numbers, with thousands as 20k."""
    axis.set_major_locator(MaxNLocator(count, steps=ROUND_STEPS))
    axis.set_major_formatter(FuncFormatter(in_thousands))


def log_ticks(axis: Axis, multiples: tuple = (1, 2, 5)) -> None:
    """Ticks at these multiples of powers of ten, written out (0.5, not 5 x 10^-1)."""
    axis.set_major_locator(LogLocator(subs=multiples))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_locator(NullLocator())


def name_line_ends(ax: Axes, last_values: dict[str, float]) -> None:
    """Write each algorithm's name to the right of the end of its line, moved up or down so that no two overlap.

    last_values: {algorithm: the value at the end of its line}.
    """
    low, high = ax.transData.inverted().transform(ax.transAxes.transform([(0, 0), (0, 1)]))[:, 1]
    scale = np.log if ax.get_yscale() == "log" else lambda value: value
    names = sorted(last_values, key=last_values.get)
    heights = [
        float((scale(max(last_values[name], low)) - scale(low)) / (scale(high) - scale(low))) for name in names
    ]  # as shares of the axes
    text_height = 9.0 / (72 * ax.get_figure().get_figheight() / ax.get_gridspec().nrows * 0.72)
    for _ in range(100):  # neighbours that are too near push each other away
        for k in range(len(heights) - 1):
            lack = text_height - (heights[k + 1] - heights[k])
            if lack > 1e-9:
                heights[k], heights[k + 1] = heights[k] - lack / 2, heights[k + 1] + lack / 2
        if heights and heights[0] < 0:
            heights[0] = 0.0
    for name, height in zip(names, heights, strict=True):
        look = {"color": LOOKS[name].color, "fontsize": 7, "va": "center"}
        ax.annotate(label(name), (1.02, height), xycoords="axes fraction", annotation_clip=False, **look)
