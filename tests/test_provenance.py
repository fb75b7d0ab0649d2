"""Which commit made the figures, and what is said when the numbers in them depend on code that has changed since."""

import hashlib
import json
import subprocess
import warnings

import pytest

from pfpne.paper.run import batch, provenance, sources
from pfpne.paper.run.notebooks import executions
from pfpne.paths import INPUT_ROOT as CHECKOUT


def git(folder, *words: str) -> str:
    identity = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    return subprocess.run(["git", *identity, "-C", folder, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path):
    """A folder under git with one file of the package, one page and one figure, all committed."""
    for name in ("pfpne/code.py", "README.md", "figures/one.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("as committed")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Begin")
    return tmp_path


def test_a_commit_is_named_from_a_clean_tree_only(checkout, tmp_path_factory):
    head = git(checkout, "rev-parse", "HEAD").strip()
    for made in ("README.md", "figures/one.csv", "out.ipynb"):  # what a batch writes, and what decides nothing
        (checkout / made).write_text("made")
    assert provenance.commit(checkout) == head
    for edited in ("pfpne/code.py", "notebooks/new.ipynb"):
        (checkout / edited).parent.mkdir(exist_ok=True)
        (checkout / edited).write_text("edited")
        with pytest.raises(provenance.NoCommit, match=f"^{edited} is not as it was committed: commit it, then"):
            provenance.commit(checkout)
        git(checkout, "add", ".")
        git(checkout, "commit", "-q", "-m", "Edit")
    with pytest.raises(provenance.NoCommit, match="no git checkout"):
        provenance.commit(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def whole_batch(tmp_path, monkeypatch):
    """A whole batch of the paper profile in which nothing has to be executed; returns what may be changed of it."""
    state = {"commits": ["a" * 40, "a" * 40], "whole": {"map": False}}
    every = [("one", {"objective": "garland"}), ("map", {})]
    monkeypatch.setattr(provenance, "PATH", tmp_path / "PROVENANCE.json")

    def commit():
        first, *state["commits"] = state["commits"]
        if first is None:
            raise provenance.NoCommit("pfpne/x.py is not as it was committed: commit it, then run again")
        return first

    monkeypatch.setattr(provenance, "commit", commit)
    monkeypatch.setattr(provenance, "digest", lambda name, parameters: f"digest of {name}")
    monkeypatch.setattr(batch, "EXECUTED_FOLDER", tmp_path / "executed")
    monkeypatch.setattr(batch, "executions", lambda _: every)
    monkeypatch.setattr(batch, "NOTEBOOKS", dict.fromkeys(("one", "map")))
    monkeypatch.setattr(batch, "check_notebook", lambda _: None)
    monkeypatch.setattr(batch, "make_figures", lambda *_: [])
    monkeypatch.setattr(batch, "is_unchanged", lambda execution: state["whole"].get(execution.notebook, True))
    state["written"] = lambda: json.loads(provenance.PATH.read_text())["commits"] if provenance.PATH.exists() else None
    return state


def test_a_whole_batch_names_the_commit_that_made_it(whole_batch, capsys):
    assert batch.run_batch("paper") == 0 and "commit aaaaaaaaaa made them" in capsys.readouterr().out
    assert whole_batch["written"]() == {"a" * 40: {"one_garland": "digest of one"}}
    whole_batch |= {"commits": ["b" * 40] * 2, "whole": {}}  # by now the map was made, too
    assert batch.run_batch("paper") == 0
    assert whole_batch["written"]() == {"b" * 40: {"map": "digest of map", "one_garland": "digest of one"}}
    whole_batch |= {"commits": ["c" * 40] * 2, "whole": {"map": False}}  # the map is of an older commit
    assert batch.run_batch("paper") == 0
    assert whole_batch["written"]() == {"c" * 40: {"one_garland": "digest of one"}, "b" * 40: {"map": "digest of map"}}


@pytest.mark.parametrize(
    ("commits", "said"), [([None, None], "pfpne/x.py is not as"), (["a" * 40, "b" * 40], "another commit")]
)
def test_no_commit_is_named_where_none_made_all(whole_batch, capsys, commits, said):
    whole_batch["commits"] = commits
    assert batch.run_batch("paper") == 0
    shown = capsys.readouterr().out
    assert "is left as it was" in shown and said in shown and whole_batch["written"]() is None


def test_part_of_a_batch_or_a_failed_one_names_no_commit(whole_batch, monkeypatch):
    assert batch.run_batch("paper", only="map") == 0
    assert whole_batch["written"]() is None

    def fail(*_):
        raise batch.FailedNotebook("it failed")

    monkeypatch.setattr(batch, "execute_all", fail)
    assert batch.run_batch("paper") == 1 and whole_batch["written"]() is None


def changed(monkeypatch, module: str, old: str, new: str) -> None:
    edited = sources.Sources()
    assert old.encode() in edited.modules[module]
    edited.modules[module] = edited.modules[module].replace(old.encode(), new.encode())
    monkeypatch.setattr(sources, "LOADED", edited)


def test_what_the_numbers_depend_on_moves_the_digest_and_looks_do_not(monkeypatch):
    one = ("1_synthetic_regret", {"objective": "garland", "noise": "bernoulli"})
    first = provenance.digest(*one)
    assert provenance.digest(one[0], {**one[1], "noise": 0.1}) != first
    with monkeypatch.context() as patch:
        changed(
            patch,
            "pfpne.paper.exhibits.regret",
            '= PAPER_ALGORITHMS, ("pe", "hoo")',
            '= PAPER_ALGORITHMS, ("pe",)',
        )
        assert provenance.digest(*one) == first
    for module, old, new in (
        ("pfpne.algorithms.hct", "def upper_bound(", "def upper_bound(unused, "),
        (
            "pfpne.paper.run.selections",
            'COMPARED_ALGORITHMS = (*PAPER_ALGORITHMS, "hct", "pe")',
            'COMPARED_ALGORITHMS = (*PAPER_ALGORITHMS, "pe")',
        ),
    ):
        with monkeypatch.context() as patch:
            changed(patch, module, old, new)
            assert provenance.digest(*one) != first, module


def moved_on(digests: dict[str, str]) -> dict[str, list[str]]:
    """{commit: executions whose numbers depend on something that has changed since that commit}.

    NoCommit where it cannot be told: there is no such file, or another version of Python wrote it.
    """
    noted = provenance.read()
    if noted["python"] != provenance.python_version():
        python = noted["python"] and f"Python {noted['python']} wrote it"
        raise provenance.NoCommit(f"PROVENANCE.json: {python or '`make figures` has not written it yet'}")
    moved = {
        commit: [name for name, digest in made.items() if digests.get(name) != digest]
        for commit, made in noted["commits"].items()
    }
    return {commit: names for commit, names in moved.items() if names}


def without_commit(digests: dict[str, str]) -> list[str]:
    """The executions that the file names no commit for."""
    return sorted(digests.keys() - {name for made in provenance.read()["commits"].values() for name in made})


def test_what_has_moved_on_is_named(tmp_path, monkeypatch):
    path = tmp_path / "PROVENANCE.json"
    monkeypatch.setattr(provenance, "PATH", path)
    with pytest.raises(provenance.NoCommit, match="`make figures` has not written it yet"):
        moved_on({})
    provenance.write("a" * 40, {"one": "1", "two": "2"})
    assert moved_on({"one": "1", "two": "2"}) == {}
    assert moved_on({"one": "1", "two": "3"}) == {"a" * 40: ["two"]}
    assert moved_on({"one": "1"}) == {"a" * 40: ["two"]}  # no such execution any more
    assert without_commit({"one": "1", "three": "3"}) == ["three"]
    path.write_text(path.read_text().replace('"python": "', '"python": "2.7, not '))
    with pytest.raises(provenance.NoCommit, match="Python 2.7, not .* wrote it"):
        moved_on({})


def test_figures_that_are_not_of_todays_code_are_reported(monkeypatch):
    """No failure: a warning that names them, until `make figures` has made them again from a clean tree."""
    monkeypatch.setattr(provenance, "PATH", CHECKOUT / "figures" / "PROVENANCE.json")  # the tests' own folder has none
    assert provenance.read()["commits"], "figures/PROVENANCE.json names no commit"
    digests = {batch.Execution("paper", *row).name: provenance.digest(*row) for row in executions("paper")}
    assert len(digests) == len(executions("paper"))
    try:
        changed_since = moved_on(digests)
    except provenance.NoCommit as error:
        pytest.skip(f"{error}")
    if names := without_commit(digests):
        warnings.warn(f"figures/PROVENANCE.json names no commit that made {', '.join(names)}", stacklevel=1)
    for commit, names in changed_since.items():
        message = f"code that numbers depend on has changed since commit {commit[:10]} made them: {', '.join(names)}"
        warnings.warn(message, stacklevel=1)


def test_each_manifest_names_the_files_that_are_there():
    """What is written anew from its table takes its manifest with it."""
    folder, named = CHECKOUT / "figures", {}
    for manifest in folder.glob("*.json"):
        named |= json.loads(manifest.read_text(encoding="utf-8")).get("files", {})
    assert len(named) > 200
    assert [name for name, digest in named.items() if file_digest(folder / name) != digest] == []


def file_digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
