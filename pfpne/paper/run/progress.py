"""A progress bar in the output of a cell, or in the terminal of the batch that executes the notebook."""

import os
import sys
from collections.abc import Callable

from tqdm import tqdm

_bars: list[tqdm] = []  # that are drawn: at most one


def progress(label: str) -> Callable[[int, int], None] | None:
    """Return a progress bar, called with (done, total), or None where there is no place for one.

    It is drawn in the cell's output, or in the terminal named by PFPNE_TERMINAL. `python -m pfpne.paper figures` sets
    PFPNE_TERMINAL to its own terminal, or to nothing when it has none: then there is no bar, and a log stays readable.
    A bar that an interrupt left behind is closed when the next is drawn, which would otherwise be drawn below it.
    """
    terminal = os.environ.get("PFPNE_TERMINAL")
    if terminal == "":
        return None
    bar = None

    def update(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            if done == total:  # all of it was stored
                return
            stream = open(terminal, "w") if terminal else sys.stderr
            while _bars:
                _bars.pop().close()
            bar = tqdm(total=total, initial=done, desc=label, unit="run", file=stream, leave=False)
            _bars.append(bar)
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return update
