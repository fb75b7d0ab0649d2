"""Figures: what is drawn is what the tables say, in the same bytes twice, whatever the user's own settings are."""

import json
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.claims.evidence import Study
from pfpne.paper.exhibits import communication, forest_plot, regret, table1
from pfpne.paper.run.parameters import complete
from pfpne.paper.run.results import run_experiment
from pfpne.paper.run.versions import library_versions
from pfpne.paper.show import style
from pfpne.paper.show.export import save

TINY = {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 2, "n_jobs": 1}


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    given = {**TINY, "algorithms": "pf-pne,fed-pne,pe", "figures_dir": str(tmp_path_factory.mktemp("figures"))}
    return complete("3_communication_cost", given)


@pytest.fixture(scope="module")
def results(parameters, tmp_path_factory):
    return run_experiment(parameters.experiment(), n_jobs=1, folder=tmp_path_factory.mktemp("runs"))


@pytest.mark.filterwarnings("error")
def test_the_same_bytes_twice_and_small_files(results, parameters):
    for draw, shown in ((regret.draw, results), (communication.draw, [results])):
        exhibit = draw(shown, parameters)
        pdf = exhibit.files[f"{exhibit.stem}.pdf"]
        assert exhibit == draw(shown, parameters)
        assert len(pdf) < 200_000 and b"/Subtype /CIDFontType2" in pdf and b"/Type3" not in pdf  # Type 42
    assert "Nothing is sent by PE. The dotted line is PF-PNE's last round (bold run)" in exhibit.caption


@pytest.mark.filterwarnings("error")
def test_the_users_own_settings_change_nothing(results, parameters):
    plain = regret.draw(results, parameters)
    with matplotlib.rc_context({"font.size": 20, "pdf.fonttype": 3, "axes.grid": True}):
        assert regret.draw(results, parameters) == plain


def test_a_figure_is_written_with_its_manifest(results, parameters, capsys):
    exhibit, folder = communication.draw([results], parameters), parameters.figures_dir
    save(parameters, exhibit)
    assert capsys.readouterr().out == f"{folder / 'communication_garland_printed.pdf'}\n"
    manifest = json.loads((folder / "communication_garland_printed.json").read_text())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {*manifest["files"], "communication_garland_printed.json"} and len(before) == 4
    assert set(manifest["versions"]) == {"python", *library_versions()} and manifest["caption"] == exhibit.caption
    assert manifest["parameters"]["horizon"] == 60 and manifest["parameters"]["c"] is None
    assert manifest["settings"]["pe"]["delta"] == 1 / 2 and "source" not in manifest
    save(parameters, exhibit)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_regret_is_drawn_as_its_table_says(results):
    drawn = regret._thin_out(results.regret, n_points=7)
    assert drawn["t"].nunique() <= 7 and drawn["t"].max() == 60
    table, ax = regret.regret_curves(drawn), Figure().add_subplot()
    regret.draw_regret(ax, table, ("pf-pne", "fed-pne", "pe"))
    for name, line, band in zip(("pf-pne", "fed-pne", "pe"), ax.lines, ax.collections, strict=True):
        curve = table[table["algorithm"] == name]
        np.testing.assert_allclose(line.get_xydata(), curve[["t", "mean"]])
        edges = band.get_paths()[0].vertices
        for sign in (-1, 1):
            assert any(np.allclose(edge, (60, curve["mean"].iloc[-1] + sign * curve["std"].iloc[-1])) for edge in edges)
        assert to_rgb(line.get_color()) == to_rgb(style.LOOKS[name].color) and not line.get_clip_on()
        assert line.get_marker() == style.LOOKS[name].marker
    bands = Figure().add_subplot()
    regret.draw_regret(bands, table, ("pe",))
    assert len(bands.lines) == 3 and len(bands.collections) == 1
    assert to_rgb(bands.collections[0].get_facecolor()[0][:3]) == to_rgb(style.LOOKS["pe"].color)


def test_communication_is_drawn_as_its_table_says(results):
    steps, ax = communication.communication_steps(results.communication), Figure().add_subplot()
    assert list(steps.columns) == ["objective", "noise", "algorithm", "run", "round", "t", "up", "down", "cumulative"]
    assert communication.draw_communication(ax, steps, 60)  # with the line of PF-PNE's last round
    runs = [(name, run) for name in ("pf-pne", "fed-pne") for run in (0, 1)]
    *lines, last = ax.lines
    assert set(last.get_xdata()) == {steps.query("algorithm == 'pf-pne' and run == 0")["t"].max()}
    for (name, run), line in zip(runs, lines, strict=True):
        mine = steps[(steps["algorithm"] == name) & (steps["run"] == run)]
        assert mine["cumulative"].tolist() == (mine["up"] + mine["down"]).cumsum().tolist()
        drawn = np.append(mine[["t", "cumulative"]].to_numpy(), [[60, mine["cumulative"].iloc[-1]]], axis=0)
        np.testing.assert_array_equal(line.get_xydata(), drawn)
        assert line.get_marker() == (style.LOOKS[name].marker if run == 0 else "")


def test_of_many_rounds_some_are_drawn():
    n = 10 * communication.MAX_ROUNDS_PLOTTED
    columns = {"objective": "garland", "noise": 0.1, "algorithm": "fn-ucb", "run": 0, "up": 2, "down": 1, "bytes": 24}
    table = pd.DataFrame({**columns, "round": np.arange(n) + 1, "t": np.arange(n) + 1})
    steps = communication.communication_steps(table)
    assert len(steps) <= communication.MAX_ROUNDS_PLOTTED and steps["t"].iloc[[0, -1]].tolist() == [1, n]
    assert (steps["cumulative"] == 3 * steps["round"]).all()
    assert communication.communication_steps(table[:0]).empty


def test_every_algorithm_has_its_own_look():
    every = list(style.LOOKS.values())
    assert len({look.color for look in every}) == len({look.marker for look in every}) == len(every)
    assert set(UNLIMITED_ALGORITHMS) <= set(style.LOOKS) and all(
        re.fullmatch("#[0-9A-F]{6}", look.color) for look in every
    )


@pytest.mark.filterwarnings("error")
def test_ratios_and_exponents_are_drawn_as_their_tables_say(monkeypatch):
    study = Study.from_parameters(complete("12_claims", {"profile": "paper"}))
    heads = [(r.name, r.cells, f) for r in study.claim_conditions for f in r.objectives]
    rows = [(*head, name, 30, 2.0 + k, 1.0 + k, 3.0 + k) for head in heads for k, name in enumerate(("pe", "fn-ucb"))]
    columns = ["noise", "cells", "objective", "algorithm", "n", "ratio", "low", "high"]
    for module in (forest_plot, table1):  # the figure itself, and what its CSV would be
        monkeypatch.setattr(module, "figure_exhibit", lambda figure, stem, caption, table: (figure, table))
    figure, table = forest_plot.draw(pd.DataFrame(rows, columns=columns), study)
    assert list(table) == columns
    first, *others = figure.axes
    places = [text.get_text() for text in first.get_yticklabels()]
    assert places[:4] == ["Garland", "DoubleSine", "Himmelblau", "Himmelblau, cyclic"] and len(places) == 8
    landmine = others[2]
    assert [text.get_text() for text in landmine.get_yticklabels()] == ["Landmine", "Landmine, cyclic"]
    assert landmine.get_title() == "landmine, no noise"
    for ax, many in ((first, 8), (others[0], 8), (landmine, 2)):
        for k, ratio in enumerate((2.0, 3.0)):
            random, cyclic = ax.lines[2 * k : 2 * k + 2]
            assert len(random.get_xdata()) + len(cyclic.get_xdata()) == many
            assert {*random.get_xdata(), *cyclic.get_xdata()} == {ratio}
            assert cyclic.get_alpha() < random.get_alpha()
    rows = [
        (name, f, T, 10, 0.7, 0.6, 0.8)
        for name in ("hoo", "pf-pne")
        for f in ("garland", "rastrigin")
        for T in (50, 100)
    ]
    table = pd.DataFrame(rows, columns=["algorithm", "objective", "T", "n", "exponent", "low", "high"])
    figure, _ = table1.draw_exponents(table, study)
    assert [line.get_ydata().tolist() for line in figure.axes[0].lines[:2]] == [[0.7, 0.7]] * 2


def test_simple_regret_is_drawn_as_its_table_says(results):
    ax, table = Figure().add_subplot(), regret.regret_curves(results.regret, "simple_regret")
    regret.draw_regret(ax, table, ("pf-pne",), log_scale=True)
    curve, (band,) = table.query("algorithm == 'pf-pne'"), ax.collections
    np.testing.assert_allclose(ax.lines[0].get_xydata(), curve[["t", "mean"]])
    end, std = curve["mean"].iloc[-1], curve["std"].iloc[-1]
    assert any(np.allclose(edge, (60, end + std)) for edge in band.get_paths()[0].vertices)
    assert ax.get_yscale() == "log"
