"""One word means one thing: from a shell, from YAML, from Python; and folders of one's own figures say what changed."""

import csv
import itertools
import json
import os

import numpy as np
import papermill.cli
import pytest
import yaml

from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.exhibits import maps, panels
from pfpne.paper.run.folders import CUSTOM_FIGURES_FOLDER, FIGURES_FOLDER, SMOKE_FIGURES_FOLDER
from pfpne.paper.run.notebooks import NOTEBOOKS
from pfpne.paper.run.parameter_types import PARAMETERS, SETTINGS, ParameterError
from pfpne.paper.run.parameters import EXPERIMENT_PARAMETERS, complete
from pfpne.paper.show import export, style

NOTEBOOK = "1_synthetic_regret"
REFUSED, USUAL = "refused", "the profile's"

COUNTS = ("n_clients", "horizon", "n_runs", "seed", "n_jobs")
SCALES = ("nu_1", "c", "c_1")
SHARES = ("rho", "delta")
AMOUNTS = ("noise", "shift", "Delta")
TEXTS = ("profile", "objective", "algorithms", "cells", "scheduler", "figures_dir")
TABLE = [  # parameters, what somebody writes, what it means
    *((COUNTS, word, 20) for word in ("20", "20.0", "2e1", "2.0e+1", "+20", "2_0", " 20 ")),
    *(
        ((*COUNTS, *SCALES, *SHARES), word, REFUSED)
        for word in ("true", "True", "yes", "false", "No", "-1", "abc", "1:x")
    ),
    *(
        ((*COUNTS, *SCALES, *SHARES, *AMOUNTS), word, REFUSED)
        for word in ("nan", ".nan", "inf", "-.inf", "1e400", "1e")
    ),
    (COUNTS, "20.5", REFUSED),
    (("horizon",), "1e5", 100_000),
    (("seed",), "9007199254740993", 9007199254740993),  # no float holds it
    *(((*SCALES, *AMOUNTS), word, 2.0) for word in ("2", "2.0", "2e0", "+2")),
    *(((*SHARES, *SCALES, *AMOUNTS), word, 0.25) for word in ("0.25", ".25", "25e-2", "2.5e-1")),
    *((AMOUNTS, word, 0.0) for word in ("0", "0.0", "-0", "-0.0")),
    ((*COUNTS[:3], *SCALES, *SHARES), "-0.0", REFUSED),
    *((("Delta",), word, "true") for word in ("true", "True", "TRUE", "yes", "on")),
    *((("Delta",), word, REFUSED) for word in ("false", "False", "no", "off")),
    *((("noise", "shift"), word, REFUSED) for word in ("true", "False", "-0.1")),
    (("noise",), "bernoulli", "bernoulli"),
    *((("noise",), word, "bernoulli") for word in ("Bernoulli", "BERNOULLI", " bernoulli ")),
    (("noise",), "Bernouli", REFUSED),
    *((tuple(PARAMETERS), word, USUAL) for word in ("null", "Null", "None", "~")),
    (("profile",), "smoke", "smoke"),
    (("objective",), "himmelblau", "himmelblau"),
    (("cells",), "cyclic", "cyclic"),
    (("algorithms",), "pe, hct", ("pe", "hct")),
    (("algorithms",), "['pe', 'hct']", ("pe", "hct")),
    (("scheduler",), "tcp://127.0.0.1:8786", "tcp://127.0.0.1:8786"),
    *((TEXTS, word, REFUSED) for word in ("12", "1e5", "true", "no", "0.5") if word),
]


def doors(word: str) -> list:
    """What the package is handed if somebody writes this in a shell (-p, -r) or in YAML (-y, -f)."""
    return [papermill.cli._resolve_type(word), word, yaml.safe_load(word)]


def meaning(name: str, value):
    """What the notebook takes the value for."""
    try:
        p = complete(NOTEBOOK, {"objective": "garland", name: value})
    except ParameterError as error:
        assert "\n" not in str(error) and str(error).endswith(".")
        return REFUSED
    return p.settings.get(name) if name in SETTINGS else getattr(p, "n_jobs" if name == "scheduler" else name)


@pytest.mark.parametrize(("names", "word", "wanted"), TABLE)
def test_a_word_means_the_same_from_a_shell_and_from_yaml(names, word, wanted):
    for name in names:
        seen = [meaning(name, value) for value in doors(word)]
        if name == "figures_dir" and wanted == REFUSED:  # text may be the name of a folder
            assert [one == REFUSED for one in seen] == [not isinstance(value, str) for value in doors(word)]
            continue
        meant = meaning(name, None) if wanted == USUAL else wanted
        assert seen == [meant] * 3 and {type(value) for value in seen} == {type(meant)}


def test_the_table_is_of_every_parameter():
    assert {name for names, *_ in TABLE for name in names} == set(PARAMETERS)


@pytest.mark.parametrize("make", [int, float, np.int8, np.uint64, np.float32, np.float64, np.longdouble, str, np.str_])
def test_numbers_of_python_and_numpy_mean_the_same(make):
    assert meaning("horizon", make(20)) == 20 and type(meaning("horizon", make(20))) is int
    assert meaning("c", make(2)) == 2.0 and type(meaning("c", make(2))) is float


def test_truth_values_of_numpy_are_truth_values():
    assert meaning("Delta", np.True_) == "true" and meaning("Delta", np.False_) == REFUSED
    assert meaning("n_runs", np.True_) == REFUSED


def test_what_means_the_same_has_the_same_folder_and_command():
    pairs = [({"noise": -0.0}, {"noise": 0}), ({"noise": "5e-1"}, {"noise": 0.5}), ({"Delta": True}, {"Delta": "true"})]
    pairs += [({"horizon": 5e3, "noise": 0.3}, {"horizon": "5000", "noise": 0.30})]
    for one, other in pairs:
        assert complete(NOTEBOOK, one) == complete(NOTEBOOK, other)


# --- folders ----------------------------------------------------------------------------------------


def folder(notebook: str = NOTEBOOK, **asked) -> str:
    home = complete(notebook, asked).figures_dir
    assert home.parent == CUSTOM_FIGURES_FOLDER
    return home.name


def test_a_folder_is_named_after_what_was_changed_numbers_first():
    asked = {"profile": "smoke", "objective": "himmelblau", "algorithms": "pf-pne,hct,pe"}
    assert folder(**asked, noise=0.5, n_clients=12) == "n_clients-12_noise-0.5_pf-pne+hct+pe_smoke"
    assert folder(n_clients=20, noise=0.5) == "noise-0.5"  # 20 is the profile's
    assert folder(noise=2, horizon=5000) == "horizon-5000_noise-2"
    assert folder("3_communication_cost", noise=2) == "noise-2"
    assert folder("9_why", objective="ackley") == "ackley"
    assert folder("0_how_it_works", n_clients=2, horizon=10_000) == "n_clients-2_Delta-default"


CHANGES = (  # one at a time and in pairs, for each notebook that takes them
    *(("profile", "smoke"), ("reading", "model"), ("algorithms", "pf-pne,fed-pne"), ("algorithms", "fed-pne,pf-pne")),
    *(("objective", f) for f in ("himmelblau", "rastrigin", "doublesine", "landmine", "ackley")),
    *(("n_clients", 3), ("n_clients", 20), ("horizon", 1000), ("horizon", 100_000), ("n_runs", 3), ("seed", 1)),
    *(("noise", a) for a in ("bernoulli", 0, 0.1, 0.5, 1, 2)),
    *(("shift", 0.2), ("cells", "cyclic"), ("nu_1", 2), ("rho", 0.6), ("c", 0.2), ("c_1", 2), ("delta", 0.1)),
    *(("Delta", 0.1), ("Delta", "true"), ("n_jobs", 1), ("scheduler", "tcp://127.0.0.1:8786")),
)


def decisive(p) -> str:
    """All that decides a number."""
    return json.dumps([getattr(p, name) for name in ("profile", "reading", *EXPERIMENT_PARAMETERS, "settings")])


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_no_two_sets_of_parameters_share_a_folder_and_a_name(notebook):
    here, most = {}, 1 if notebook.startswith("3_") else 2  # the names of notebook 3 are made as those of 1 and 2 are
    asked = [dict(each) for n in range(most + 1) for each in itertools.combinations(CHANGES, n)]
    for one in asked:
        try:
            p = complete(notebook, one)
        except ParameterError:  # the notebook does not take this
            continue
        stem = panels.name_of_file(p.experiment(), p) if notebook[:2] in ("1_", "2_", "3_") else p.reading
        place = (str(p.figures_dir).lower(), stem)
        assert here.setdefault(place, decisive(p)) == decisive(p), (place, one)
    assert len(here) > 2


def test_the_reading_is_in_the_name_of_the_folder():
    assert folder(noise=0.5, n_runs=3, reading="model") == "n_runs-3_noise-0.5_reading-model"
    assert folder(noise=2, n_runs=3, reading="model", profile="smoke") == "noise-2_reading-model_smoke"
    assert folder("2_landmine_auc", noise=0.5, n_runs=3) != folder(
        "2_landmine_auc", noise=0.5, n_runs=3, reading="model"
    )


def test_a_figure_of_other_parameters_is_never_overwritten(tmp_path):
    def save(text, **asked):
        p = complete(NOTEBOOK, {"figures_dir": str(tmp_path), **asked})
        export.save(p, export.text_exhibit("words", "Words.", text))

    def texts():
        return {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.md")}

    save("first", noise=0.5)
    save("second", noise=0.5, reading="model")
    save("third", noise=0.5, seed=1, n_jobs=1)
    assert texts() == {
        "words.md": "first",
        "noise-0.5_reading-model/words.md": "second",
        "noise-0.5_seed-1/words.md": "third",
    }
    save("again", noise=0.5, n_jobs=2)  # the same parameters: the same figure, drawn anew
    assert texts()["words.md"] == "again" and len(texts()) == 3
    (tmp_path / "words.json").write_text("{")  # whose it is, nobody knows
    save("fourth", noise=0.5)
    assert texts()["words.md"] == "again" and texts()["noise-0.5/words.md"] == "fourth"
    (tmp_path / "words.json").unlink()
    (tmp_path / "noise-0.5" / "words.json").write_text("[]")
    save("fifth", noise=0.5)
    assert texts()["noise-0.5/words.md"] == "fourth" and texts()["noise-0.5_2/words.md"] == "fifth"


@pytest.mark.parametrize("taken", [FIGURES_FOLDER, SMOKE_FIGURES_FOLDER])
def test_a_profiles_folder_is_not_for_changed_parameters(taken):
    profile = "paper" if taken == SMOKE_FIGURES_FOLDER else "smoke"
    for asked in ({"profile": profile}, {"profile": "smoke", "seed": 1}):
        with pytest.raises(ParameterError, match=f"another folder: {taken.name}/ is for the"):
            complete(NOTEBOOK, {"figures_dir": str(taken), **asked})


def test_what_varies_is_never_cut():
    every = {name: 0.3333333333333333 for name in ("shift", "nu_1", "rho", "c", "c_1", "delta")}
    names = [
        folder(**every, algorithms=",".join(UNLIMITED_ALGORITHMS), seed=seed, n_clients=n)
        for seed in (1, 2)
        for n in (3, 4)
    ]
    assert len(set(names)) == 4 and all(len(name) <= 200 for name in names)
    assert names[0].startswith("n_clients-3_") and "_seed-1_" in names[0]
    names = [
        folder(algorithms=",".join(order))
        for order in (UNLIMITED_ALGORITHMS, UNLIMITED_ALGORITHMS[::-1], UNLIMITED_ALGORITHMS[1:])
    ]
    assert len({name.lower() for name in names}) == 3
    longest = [
        folder(**every, noise=0.3333333333333333, seed=2**64 - 1, Delta=x) for x in (0.1234567890123, 0.1234567890124)
    ]
    assert len(set(longest)) == 2 and all(len(name) <= 200 for name in longest)
    assert folder(delta=0.2).lower() != folder(Delta=0.2).lower()


def test_an_index_lists_the_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "CUSTOM_FIGURES_FOLDER", tmp_path)
    for objective, noise in (("rastrigin", 0.5), ("garland", 0.5), ("garland", 0.25)):
        p = complete(NOTEBOOK, {"objective": objective, "noise": noise, "n_runs": 2, "n_jobs": 1})
        object.__setattr__(p, "figures_dir", tmp_path / p.figures_dir.name)
        stem = "some_words" if objective == "garland" else "others"
        export.save(p, export.text_exhibit(stem, "Some words.", "words"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "other.json").write_text("[]")
    os.utime(tmp_path / "n_runs-2_noise-0.5" / "some_words.json", (0, 86_400 * 365))
    export.save(p, export.text_exhibit("some_words", "Some words.", "words"))
    rows = list(csv.DictReader((tmp_path / "index.csv").open()))
    assert [row["folder"] for row in rows] == ["n_runs-2_noise-0.25", *["n_runs-2_noise-0.5"] * 2]
    assert rows[1]["parameters"] == "profile paper objective rastrigin noise 0.5 n_runs 2"
    assert rows[2] == {
        "folder": "n_runs-2_noise-0.5",
        "notebook": NOTEBOOK,
        "parameters": "profile paper objective garland noise 0.5 n_runs 2",
        "date": "1971-01-01",
    }
    manifest = json.loads((tmp_path / rows[0]["folder"] / "some_words.json").read_text())
    assert manifest["parameters"]["noise"] == 0.25 and "source" not in manifest


# --- captions ---------------------------------------------------------------------------------------


def test_a_caption_begins_with_the_algorithm_as_it_is_written(monkeypatch):
    monkeypatch.setattr(maps, "_draw_maps", lambda stem, what, *_: what)
    table = maps.pd.DataFrame({"clients": [2], "horizon": [10]})
    p = complete("8_regime_map", {"profile": "smoke"})
    captions = {quantity: maps.draw_quantity(table, quantity, p) for quantity in maps.QUANTITY_NAMES}
    assert captions["best"] == "Smallest regret. " and captions["federated"] == "PF-PNE / PE. "
    for quantity, (name, *_) in maps.RATIOS.items():
        assert captions[quantity] == f"{name}. "
    assert {style.label(name) for name in ("pf-pne", "pe")} <= {*captions["federated"].rstrip(". ").split(" / ")}
