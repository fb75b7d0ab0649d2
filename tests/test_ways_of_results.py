"""How far it is from a result to where a reader meets it, in calls of our own functions.

A way is the stack of our own calls between its two ends, when the second end is reached. A stored result is met as a
line on axes; a row of claims.toml is met as a sentence of the README, by way of the committed table of verdicts.
"""

import inspect

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from pfpne.paper.claims import evidence
from pfpne.paper.claims.evidence import RUN_COLUMNS, ClaimSetting, Study
from pfpne.paper.exhibits import findings, pages, regret, verdict_tables
from pfpne.paper.run.parameters import complete
from pfpne.paper.run.results import Results, run_experiment
from pfpne.paths import SHIPPED as CHECKOUT


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


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> tuple[Results, object]:
    given = {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 2, "n_jobs": 1, "algorithms": "pf-pne,pe"}
    p = complete("1_synthetic_regret", given)
    return run_experiment(p.experiment(), n_jobs=1, folder=tmp_path_factory.mktemp("runs")), p


def test_from_a_stored_result_to_a_line_on_the_axes_it_is_seven_calls_at_most(results, monkeypatch):
    stored, p = results
    monkeypatch.setattr(Axes, "plot", stop)
    to_the_axes = way(regret.draw, stored, p)
    monkeypatch.undo()
    monkeypatch.setattr(pd, "concat", stop)  # the end of the table that is drawn
    to_the_table = way(lambda: stored.regret)
    assert to_the_axes[0] == "draw" and to_the_table[0] == "Results.regret"
    assert len(to_the_axes) + len(to_the_table) <= 7, (to_the_table, to_the_axes)


def test_from_a_row_of_the_claims_to_the_readme_it_is_ten_calls_at_most(monkeypatch, tmp_path):
    study = Study(2, 60, 2, 2, (ClaimSetting("bernoulli", "bernoulli", ("garland",)),), n_jobs=1, folder=tmp_path)
    monkeypatch.setattr(evidence, "summarize", stop)
    to_the_runs = way(verdict_tables.tabulate_claims, study)
    monkeypatch.setattr(findings, "sentences", stop)
    to_the_sentence = way(pages.update_pages, tmp_path, CHECKOUT / "figures")
    assert to_the_runs[:2] == ["tabulate_claims", "evaluate_claims"] and to_the_sentence[0] == "update_pages"
    calls = [*to_the_runs, "summarize", *to_the_sentence, "sentences"]
    assert len(calls) <= 10, calls


def test_the_numbers_of_a_run_are_asked_for_in_one_way():
    """Study.runs, one row per run; nothing else of a study gives regret."""
    doors = {name for name, member in vars(Study).items() if callable(member) and not name.startswith("_")}
    assert doors == {"experiment", "runs", "variant_regrets", "per_run"}
    study = Study(2, 60, 2, 2, (), n_jobs=1)
    assert set(inspect.signature(study.runs).parameters) == set(inspect.signature(study.experiment).parameters)
    assert "regret" in RUN_COLUMNS and np.isscalar(study.sweep_runs)
