"""The ways from a cell of a notebook to a simulated pull, and to a line, are short: a traceback can be read."""

import sys

import pytest
from matplotlib.axes import Axes

from pfpne.paper.exhibits import regret
from pfpne.paper.run.parameters import complete
from pfpne.paths import PACKAGE
from pfpne.simulation.phased import Evaluations

MOST = 10  # frames of ours, from the call in a cell to a pull
LIBRARY = 4  # of them: simulate, its faster form, the loop, the pull
LINE = 7  # frames of ours, from the call in a cell that draws to a line on the axes


def own_frames() -> list[str]:
    """The functions of the package that are under way where this is called, the innermost first."""
    names, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(f"{PACKAGE}"):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


@pytest.mark.parametrize("method", ["run", "run_compared"])
def test_the_way_from_a_cell_to_a_pull(method, tmp_path, monkeypatch):
    stacks = []
    pull = Evaluations.pull

    def spy(*arguments):
        stacks.append(["pull", *own_frames()])
        return pull(*arguments)

    monkeypatch.setattr(Evaluations, "pull", spy)
    monkeypatch.setattr("pfpne.paper.run.results.run_experiment.__defaults__", (None, None, tmp_path, None))
    asked = {"profile": "smoke", "algorithms": "pf-pne", "n_clients": 2, "horizon": 60, "n_runs": 1, "n_jobs": 1}
    getattr(complete("1_synthetic_regret", asked), method)()
    run = next(stack for stack in stacks if "_compile" not in stack)
    assert len(run) <= MOST, run
    assert run.index("simulate") == LIBRARY - 1, run


def test_the_way_from_a_stored_result_to_a_line_on_the_axes(tmp_path, monkeypatch):
    stacks = []
    plot = Axes.plot

    def spy(*arguments, **options):
        stacks.append(own_frames())
        return plot(*arguments, **options)

    monkeypatch.setattr("pfpne.paper.run.results.run_experiment.__defaults__", (None, None, tmp_path, None))
    monkeypatch.setattr(Axes, "plot", spy)
    asked = {"profile": "smoke", "algorithms": "pf-pne", "n_clients": 2, "horizon": 60, "n_runs": 1, "n_jobs": 1}
    parameters = complete("1_synthetic_regret", asked)
    regret.draw(parameters.run_compared(), parameters)
    assert stacks and max(map(len, stacks)) <= LINE, stacks
