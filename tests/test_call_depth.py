"""How many of our own functions call each other between what a reader asks for and where it happens.

A *way* is the stack of our own calls between its two ends, when the second end is reached. A cell of a notebook ends in
a simulated pull; a stored result in a line on axes; a row of claims.toml in a sentence of the README, by way of the
committed table of verdicts. Short ways make tracebacks that can be read.
"""

import inspect

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from pfpne.paper.claims import evidence
from pfpne.paper.claims.evidence import SUMMARY_COLUMNS, ClaimCondition, Study
from pfpne.paper.exhibits import findings, pages, regret, verdict_tables
from pfpne.paper.run.parameters import Parameters, complete
from pfpne.paper.run.results import Results, run_experiment
from pfpne.paths import INPUT_ROOT as CHECKOUT
from pfpne.simulation.phased import Evaluations

TO_A_PULL = 10  # calls of ours, from the one in a cell to a pull
IN_THE_LIBRARY = 4  # of them: simulate, its faster form, the loop, the pull


def our_calls() -> list[str]:
    """The functions of the package that are being executed, the outermost first, without comprehensions."""
    frames = [info.frame for info in reversed(inspect.stack(context=0))]
    ours = [frame.f_code for frame in frames if frame.f_globals.get("__name__", "").startswith("pfpne.")]
    return [code.co_qualname for code in ours if not code.co_name.startswith("<")]


class Reached(Exception):
    """The second end of a way, with the calls on it."""


def stop(*arguments, **options):
    raise Reached(our_calls())


def way(start, *arguments) -> list[str]:
    """The calls on the way from start(*arguments) to a function that was replaced by `stop`."""
    with pytest.raises(Reached) as reached:
        start(*arguments)
    (calls,) = reached.value.args
    return calls


def calls_of(monkeypatch, owner: type, name: str) -> list[list[str]]:
    """A list to which each call of a method from now on adds the calls on the way to it, with that of the method."""
    ways, method = [], getattr(owner, name)

    def spy(*arguments, **options):
        ways.append([*our_calls(), name])
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, spy)
    return ways


def small(**more) -> Parameters:
    return complete("1_synthetic_regret", {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_jobs": 1, **more})


@pytest.mark.parametrize("method", ["run", "run_with_true_Delta"])
def test_from_a_cell_to_a_pull_it_is_ten_calls_at_most(method, tmp_path, monkeypatch):
    ways = calls_of(monkeypatch, Evaluations, "pull")
    monkeypatch.setattr("pfpne.paper.run.results.run_experiment.__defaults__", (None, None, tmp_path, None))
    getattr(small(n_runs=1, algorithms="pf-pne"), method)()
    calls = next(calls for calls in ways if "_compile" not in calls)
    assert len(calls) <= TO_A_PULL, calls
    assert len(calls[calls.index("simulate") :]) == IN_THE_LIBRARY, calls


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> tuple[Results, Parameters]:
    p = small(n_runs=2, algorithms="pf-pne,pe")
    return run_experiment(p.experiment(), n_jobs=1, folder=tmp_path_factory.mktemp("runs")), p


def test_from_a_stored_result_to_every_line_on_the_axes_it_is_seven_calls_at_most(results, monkeypatch):
    stored, p = results
    to_the_axes = calls_of(monkeypatch, Axes, "plot")
    regret.draw(stored, p)
    monkeypatch.setattr(pd, "concat", stop)  # the end of the table that is drawn
    to_the_table = way(lambda: stored.regret)
    assert to_the_table[0] == "Results.regret" and {calls[0] for calls in to_the_axes} == {"draw"}
    longest = max(to_the_axes, key=len)
    assert len(longest[:-1]) + len(to_the_table) <= 7, (to_the_table, longest)


def test_from_a_row_of_the_claims_to_the_readme_it_is_ten_calls_at_most(monkeypatch, tmp_path):
    study = Study(2, 60, 2, 2, (ClaimCondition("bernoulli", "bernoulli", ("garland",)),), n_jobs=1, folder=tmp_path)
    monkeypatch.setattr(evidence, "summarize", stop)
    to_the_runs = way(verdict_tables.tabulate_claims, study)
    monkeypatch.setattr(findings, "sentences", stop)
    to_the_sentence = way(pages.update_pages, tmp_path, CHECKOUT / "figures")
    assert to_the_runs[:2] == ["tabulate_claims", "evaluate_claims"] and to_the_sentence[0] == "update_pages"
    calls = [*to_the_runs, "summarize", *to_the_sentence, "sentences"]
    assert len(calls) <= 10, calls


def test_the_numbers_of_a_run_are_asked_for_in_one_way():
    """Study.summaries, one row per run; nothing else of a study gives regret."""
    methods = {name for name, member in vars(Study).items() if callable(member) and not name.startswith("_")}
    assert methods == {"experiment", "summaries", "variant_regrets", "per_run"}
    study = Study(2, 60, 2, 2, (), n_jobs=1)
    assert set(inspect.signature(study.summaries).parameters) == set(inspect.signature(study.experiment).parameters)
    assert "regret" in SUMMARY_COLUMNS and np.isscalar(study.sweep_runs)
