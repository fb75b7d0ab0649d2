"""The specification curve: each combination of choices is run as it says, and what is drawn is what the table says."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pfpne.paper.claims.claim_tests import c_of_noise
from pfpne.paper.claims.evidence import IDENTICAL_CLIENT_CHANGES, Study
from pfpne.paper.exhibits import deviations, specification
from pfpne.paper.exhibits.specification import CHOICES, CLAIMED_ORDERINGS, compare_combinations
from pfpne.paper.run.parameters import complete
from pfpne.paper.show.style import TITLES, noise_in_words


@pytest.fixture
def study(tmp_path) -> Study:
    p = complete(
        "10_specification_curve", {"profile": "smoke", "n_clients": 2, "horizon": 60, "n_runs": 1, "n_jobs": 1}
    )
    return replace(Study.from_parameters(p), folder=tmp_path)


def test_every_combination_once(study, monkeypatch):
    asked = []
    monkeypatch.setattr(specification, "_mean_regret", lambda study, *what: asked.append(what) or float(len(asked)))
    table = compare_combinations(study)
    per_cells = int(np.prod([len(values) for name, values in CHOICES.items() if name not in ("cells", "noise")]))
    assert table.groupby("objective").size().to_dict() == {
        "garland": per_cells,
        "himmelblau": 2 * per_cells,
        "rastrigin": 2 * per_cells,
    }
    assert not table[["objective", *CHOICES]].duplicated().any() and set(table["T"]) == {60, 6}
    assert len(asked) == len(set(asked))  # each mean regret once


def test_a_reading_is_run_as_it_says(study, monkeypatch):
    monkeypatch.setattr(specification, "ONE_PER_DIMENSION", ("garland",))
    study = replace(study, claim_conditions=study.claim_conditions[:1])
    first = {name: values[:1] for name, values in CHOICES.items()} | {"noise": ("bernoulli",)}

    def mean(name, **changes):
        return study.summaries("garland", name, "bernoulli", **changes)["regret"].mean()

    table = compare_combinations(study, max_values=2)
    garland = table[table["objective"] == "garland"].set_index([name for name in CHOICES if name != "cells"])
    usual = (60, "bernoulli", 0.1, 0.01, 0.1, "played", "0.1")
    assert {name: values[0] for name, values in first.items()}["c"] == 0.1
    assert garland.loc[usual, "pf-pne"] == mean("pf-pne", shift=0.1) and garland.loc[usual, "pe"] == mean("pe")
    other = (6, "bernoulli", "alike", "true", 0.05, "not begun", "by noise")
    on = {"horizon": 6, **IDENTICAL_CLIENT_CHANGES, "settings": {"c": 0.05, "Delta": "true"}}
    whole = study.variant_regrets("garland", *deviations.DEVIATION_VARIANTS["whole phases"], "bernoulli", 1, **on)
    assert garland.loc[other, "pf-pne"] == whole.mean()
    assert garland.loc[other, "hct-pyxab"] == mean(
        "hct-pyxab", horizon=6, **IDENTICAL_CLIENT_CHANGES, settings={"c": c_of_noise("bernoulli")}
    )
    assert garland.loc[other, "fed-pne"] == mean("fed-pne", horizon=6, **IDENTICAL_CLIENT_CHANGES, settings={"c": 0.05})
    assert garland.loc[other, "fn-ucb"] == mean(
        "fn-ucb", horizon=6, **IDENTICAL_CLIENT_CHANGES
    )  # read off the curve to 60
    on_cells = specification._mean_regret(study, "himmelblau", "pe", "cyclic", 6, "bernoulli", 0.3, (("c", 0.2),), "")
    cyclic = study.summaries("himmelblau", "pe", "bernoulli", cells="cyclic", horizon=6, shift=0.3, settings={"c": 0.2})
    assert on_cells == cyclic["regret"].mean()


def test_shares_count_the_smaller_means():
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe")
    rows = [("garland", 1, 2, 3, 4, 5, 6), ("garland", 3, 2, 3, 4, 5, 6), ("garland", 3, 9, 8, 7, 2, 1)]
    table = pd.DataFrame(rows, columns=["objective", *names])
    assert specification.shares(table)["garland"].tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3, 2 / 3, 1 / 3])
    assert list(specification.claims_held(table)) == list(CLAIMED_ORDERINGS)


def test_a_mean_regret_is_the_mean_over_the_runs():
    """Of FN-UCB at another horizon, of T/10, which is all that is read off its curve."""
    runs = np.array([1.0, 2.0, 6.0])
    study = SimpleNamespace(
        claim_runs=3,
        horizon=100,
        summaries=lambda objective, name, *what, **changes: (
            pd.DataFrame({"regret": 2 * runs, "early_regret": 7 * runs})
            if name == "fn-ucb"
            else pd.DataFrame({"regret": runs * (changes["horizon"] / 100)})
        ),
        variant_regrets=lambda *what, **changes: 5 * runs,
    )
    on = "random", 100, "bernoulli", 0.1, ()
    assert specification._mean_regret(study, "garland", "pe", *on, "") == 3.0
    assert specification._mean_regret(study, "garland", "pf-pne", *on, "whole phases") == 15.0
    assert specification._mean_regret(study, "garland", "fn-ucb", *on, "") == 6.0
    assert specification._mean_regret(study, "garland", "fn-ucb", "random", 10, *on[2:], "") == 21.0


def test_a_choice_in_words():
    said = {
        ("noise", "bernoulli"): "Bernoulli rewards",
        ("noise", 0.5): "noise \N{PLUS-MINUS SIGN}0.5",
        ("clients", 0.1): "clients: shift 0.1",
        ("clients", 0.30): "clients: shift 0.3",
        ("clients", "alike"): "clients: alike",
        ("Delta", 0.01): "Delta: 0.01",
        ("Delta", "true"): "Delta: the clients' own",
        ("T", 100_000): "T: 100,000",
        ("c", 0.05): "c: 0.05",
        ("cells", "cyclic"): "cells: cyclic",
        ("HCT's c", "by noise"): "HCT's c: by noise",
    }
    assert {choice: specification._choice_in_words(*choice) for choice in said} == said


def made_up_readings() -> pd.DataFrame:
    """Readings of two objectives, 9 of one and 6 of the other, that are not crossed with each other; some are ties."""
    rng = np.random.default_rng(5)
    names = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe")
    rows = []
    for k in range(15):
        regret = dict(zip(names, rng.integers(3, 9, size=6) * [0.6, 1, 1, 1, 1, 0.6], strict=True))
        rows.append({"objective": "garland" if k % 5 < 3 else "rastrigin", "n": 4})
        rows[-1] |= {"cells": ("random", "cyclic")[k % 5 == 4], "T": (60, 6)[k % 3 == 1]}
        rows[-1] |= {"noise": ("bernoulli", 0.5, 2.0)[(k // 2) % 3], "clients": (0.1, "alike", 0.3)[k % 4 % 3]}
        rows[-1] |= {"Delta": (0.01, "true")[k % 7 > 3], "c": (0.1, 0.05, 0.2)[k % 11 % 3]}
        rows[-1] |= {"cut phase": ("played", "not begun")[k > 9], "HCT's c": ("0.1", "by noise")[k % 6 < 2], **regret}
    table = pd.DataFrame(rows)
    table.loc[3, "hct-pyxab"] = table.loc[3, "pf-pne"] = 2.0
    return table


def test_what_is_drawn_is_what_the_table_says(monkeypatch):
    """Each curve, mark, bar and number of the figure, counted once more row by row."""
    monkeypatch.setattr(specification, "figure_exhibit", lambda *what: what)
    table = made_up_readings()
    study = SimpleNamespace(n_clients=3, claim_runs=4, horizon=60)
    figure, stem, caption, csv = specification.draw(table, study)
    assert stem == "specification_curve" and "choices: 9 on Garland, 6 on Rastrigin." in caption
    assert "M = 3 clients, means of n = 4 runs" in caption

    rows = table.to_dict("records")
    others = ("hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")
    for row in rows:
        row["ratio"] = row["pf-pne"] / min(row[name] for name in others)
        row["so"] = [
            row["ratio"] < 1,
            *(row["pf-pne"] < row[name] for name in ("hct-pyxab", "fed-pne", "pe")),
            all(row["fed-pne"] < row[name] for name in ("hct-pyxab", "fed1-ucb", "fn-ucb")),
        ]
    assert list(csv) == [*table, *CLAIMED_ORDERINGS] and csv[[*table]].equals(table)
    assert csv[[*CLAIMED_ORDERINGS]].to_numpy().tolist() == [row["so"] for row in rows]

    choices = [(name, value) for name in CHOICES for value in dict.fromkeys(table[name])]
    noises = ["bernoulli", 0.5, 2.0]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [noise_in_words(noise) for noise in noises]
    colors = dict(zip(noises, [handle.get_color() for handle in legend.legend_handles], strict=True))
    assert len(set(colors.values())) == 3
    axes = np.array(figure.axes).reshape(3, 2)
    assert [text.get_text() for text in axes[1, 0].get_yticklabels()] == [
        specification._choice_in_words(*choice) for choice in choices
    ]
    below = [text.get_text().replace("\n", " ") for text in axes[2, 0].get_yticklabels()]
    assert below == [name.replace("PF-PNE has less", "Less") for name in CLAIMED_ORDERINGS]
    for column, objective in enumerate(("garland", "rastrigin")):
        here = [row for row in rows if row["objective"] == objective]
        above, middle, bottom = axes[:, column]
        assert above.get_title() == TITLES[objective]

        *curves, one = above.lines
        assert list(one.get_ydata()) == [1, 1]
        for noise, curve in zip(noises, curves, strict=True):
            ratios = sorted(row["ratio"] for row in here if row["noise"] == noise)
            n = len(ratios)
            assert curve.get_color() == colors[noise] and list(curve.get_ydata()) == pytest.approx(ratios)
            assert list(curve.get_xdata()) == pytest.approx([(k + 0.5) / n for k in range(n)])

        def share(so) -> float:
            return sum(so) / len(so)

        of_all, drawn = share([row["so"][0] for row in here]), []
        for place, (name, value) in enumerate(choices):
            chosen = [row["so"][0] for row in here if row[name] == value]
            if chosen:
                color = colors[value] if name == "noise" else "0.25"
                drawn.append((place, pytest.approx(share(chosen)), f"{share(chosen):.0%}", color))
        marks = [line for line in middle.lines if line.get_marker() == "o"]
        got = [
            (mark.get_ydata()[0], mark.get_xdata()[0], text.get_text(), mark.get_color())
            for mark, text in zip(marks, middle.texts, strict=True)
        ]
        assert got == drawn and [text.xy[1] for text in middle.texts] == [place for place, *_ in drawn]
        segments = [lines.get_segments()[0].tolist() for lines in middle.collections]
        ends = [[[of_all, place], [mark.get_xdata()[0], place]] for (place, *_), mark in zip(drawn, marks, strict=True)]
        assert [sorted(segment) for segment in segments] == [sorted(end) for end in ends]
        whole, *between = [line for line in middle.lines if line.get_marker() != "o"]
        assert list(whole.get_xdata()) == pytest.approx([of_all] * 2)
        changes = [k - 0.5 for k in range(1, len(choices)) if choices[k][0] != choices[k - 1][0]]
        assert [line.get_ydata()[0] for line in between] == changes and len(changes) == len(CHOICES) - 1

        shares = [share([row["so"][k] for row in here]) for k in range(len(CLAIMED_ORDERINGS))]
        assert [bar.get_width() for bar in bottom.patches] == pytest.approx(shares)
        assert [text.get_text() for text in bottom.texts] == [f"{x:.0%}" for x in shares]
        assert [text.xy for text in bottom.texts] == [(pytest.approx(x + 0.02), k) for k, x in enumerate(shares)]


def test_the_figure_is_small():
    study = SimpleNamespace(n_clients=3, claim_runs=4, horizon=60)
    exhibit = specification.draw(made_up_readings(), study)
    assert len(exhibit.files["specification_curve.pdf"]) < 200_000


def test_the_sentences_say_which_choice_moves_most():
    """On Garland PF-PNE is first in 1 of 4 combinations, on Rastrigin in all: there no choice moves anything."""
    first = {name: (values or ("bernoulli",))[0] for name, values in CHOICES.items()} | {"T": 60}
    regrets = dict.fromkeys(("hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne", "pe"), 2.0)
    rows = [
        {"objective": "garland", **first, **regrets, "pf-pne": 3.0},
        {"objective": "garland", **first, **regrets, "pf-pne": 2.0, "noise": 0.5},
        {"objective": "garland", **first, **regrets, "pf-pne": 1.0, "noise": 0.5, "clients": "alike"},
        {"objective": "garland", **first, **regrets, "pf-pne": 3.0},
        {"objective": "rastrigin", **first, **regrets, "pf-pne": 1.0},
    ]
    assert specification.in_words(pd.DataFrame(rows)) == (
        "PF-PNE has the smallest regret of the five in 25% of 4 combinations on Garland and 100% of 1 combinations on "
        "Rastrigin. The choice that changes this share most takes it on Garland from 0% (clients: shift 0.1) to 100% "
        "(clients: alike)."
    )
    assert specification.in_words(pd.DataFrame(rows[4:])) == (
        "PF-PNE has the smallest regret of the five in 100% of 1 combinations on Rastrigin."
    )
