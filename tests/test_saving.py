"""Save and restore: exact, refused when damaged or foreign, and never another's code."""

import ast
import base64
import hashlib
import json
import os
import pickle

import numpy as np
import pytest
from conftest import HORIZONS

import pfpne
from pfpne.algorithms import make_federation
from pfpne.federation import Task
from pfpne.journal import Journal
from pfpne.live.states import FORMAT, _header, from_bytes, to_bytes
from pfpne.partition import Partition
from pfpne.paths import PACKAGE
from pfpne.tuning.searches import SEARCHES

M = 3


def federation(name: str):
    task = Task(Partition([[0.0, 1.0]]), M, HORIZONS.get(name, 60), noise="bernoulli")
    return make_federation(SEARCHES[name], task)


def rewards(m: int, batch) -> np.ndarray:
    return np.repeat(np.sin(9 * batch.points[:, 0] + m) / 2 + 0.5, batch.counts)


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_restored_goes_on_as_if_nothing_had_been(name, tmp_path):
    """The whole federation from a file after each sweep; each client and the server from bytes, each time."""
    plain, whole, apart = (federation(name) for _ in range(3))
    sent = []
    plain.on_mail = lambda t, up, down: sent.append(up)
    while plain.running:
        for run in (plain, whole, apart):
            for m, batch in run.ask():
                run.tell(m, rewards(m, batch))
        whole.on_mail = print
        whole = pfpne.load(pfpne.save(tmp_path / "run", whole))
        assert whole.on_mail is None
        apart.server = from_bytes(to_bytes(apart.server))
        apart.clients = [from_bytes(to_bytes(client)) for client in apart.clients]
        for run in (whole, apart):
            for mine, client in zip(run.clients, plain.clients, strict=True):
                assert mine.t == client.t and np.array_equal(mine.best(), client.best())
                assert np.array_equal(mine.ask().points, client.ask().points)
    assert len([up for up in sent if up]) >= 2 * bool(SEARCHES[name].up)


class Opens:
    def __reduce__(self):
        return os.system, ("echo owned",)


def sealed(content) -> bytes:
    """A state's line before any content, as one would who wants it to be read."""
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return _header(content) + content


def an(kind: str, **content) -> list:
    return ["object", f"pfpne.{kind}", [[name, value] for name, value in content.items()]]


def array(dtype: str, shape: list, content: bytes = b"A" * 8) -> list:
    return ["array", dtype, shape, True, base64.b64encode(content).decode()]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "not a saved state"),
        (b"\x00" * 100, "not a saved state"),
        (pickle.dumps({}), "not a saved state"),
        (sealed(pickle.dumps(Opens())), "cannot be read"),
        (sealed(b"rubbish"), "cannot be read"),
        (sealed(["list", [1]]), "but .1."),
        (sealed(["again", 0]), "must be there before"),
        (sealed(["call", "os.system", "echo owned"]), "what stands in a state must be one of"),
        (sealed(["object", "os.system", [["command", "echo owned"]]]), "must be one of the package's states"),
        (sealed(an("live.LiveClient", folder="made/by/a/stranger")), "must be one of the package's states"),
        (sealed(an("journal.Journal", path="made/by/a/stranger")), "must be one of the package's states"),
        (sealed(an("algorithms.make_federation")), "must be one of the package's states"),
        (sealed(["dict", [["a", array("O", [1])]]]), "an array in a state must be of numbers"),
        (sealed(["dict", [["a", array("S8", [1])]]]), "an array in a state must be of numbers"),
        (sealed(["dict", [["a", array("i8,O", [1])]]]), "an array in a state must be of numbers"),
        (sealed(["dict", [["a", array("b", [7 * 10**9])]]]), "the size of an array must be that of what is there"),
        (sealed(["dict", [["a", array("f8", [-1])]]]), "the size of an array must be that of what is there"),
        (sealed(["dict", [["a", array("f8", [2])]]]), "the size of an array must be that of what is there"),
        (sealed(an("federation.Server", exchange=1)), "what an object holds must be a value"),
        (sealed(an("federation.Server", takes=["tuple", []])), "what an object holds must be a value"),
        (sealed(an("federation.Server", __class__=1)), "what an object holds must be a value"),
        (sealed(["class", "pfpne.federation.Server"]), "is no saved client"),
        (sealed(an("algorithms.pf_pne.NodeMeans", header=0, means=["list", ["a" * 100, ""]])), "must be arrays"),
        (sealed(an("algorithms.pf_pne.PFPNESettings", c=-1.0)), "c must be"),
        (sealed(b"[" * 10**6), "cannot be read"),
        (sealed({}).replace(b"pfpne-state %d " % FORMAT, b"pfpne-state 0 "), "format and version 0"),
        (sealed({}) + b"more", "damaged"),
    ],
    ids=range(27),
)
def test_what_is_no_state_is_refused(content, match, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(ValueError, match=match) as refused:
        pfpne.load(tmp_path / "state")
    assert str(tmp_path / "state") in str(refused.value) and "owned" not in capfd.readouterr().out
    assert len(str(refused.value)) < 800 + len(str(tmp_path)) and [*tmp_path.iterdir()] == [tmp_path / "state"]


def test_a_key_that_takes_for_ever_to_hash_is_refused():
    """Tuples of the same tuple twice, a few levels deep here; 40 levels would be 2^40 steps."""
    tuples = [["tuple", [1, 1]], *(["tuple", [["again", i], ["again", i]]] for i in range(9))]
    with pytest.raises(ValueError, match="cannot be read: a key in a state must be a plain value"):
        from_bytes(sealed(["dict", [["a", ["list", tuples]], ["b", ["dict", [[["again", 9], 1]]]]]]))
    assert from_bytes(sealed(["dict", [[["tuple", [1, "a"]], 1], [None, 2]]])) == {(1, "a"): 1, None: 2}


FORGED = [
    *(("node", "parent", x) for x in (10**9, -2, 5)),
    *(("node", "child", x) for x in (10**7, -2, 0)),
    *(("node", "largest", x) for x in (10**9, -1)),
    *(("node", "depth", x) for x in (-1, 10**6)),
    ("node", "count", np.inf),
    *(("state", "size", x) for x in (2**30, 0, 1)),
    *(("state", name, 2**30) for name in ("t", "epoch", "best", "split", "top")),
    *(("state", name, -5) for name in ("t", "epoch", "best", "split", "top")),
    ("state", "t", 30),
]


@pytest.mark.parametrize(("where", "name", "value"), FORGED)
def test_a_tree_that_leads_out_of_its_arrays_is_refused(where, name, value):
    """Compiled code would read and write there."""
    client = make_federation("hct", Task(Partition([[0.0, 1.0]]), 1, 100, noise="bernoulli")).clients[0]
    for _ in range(20):
        client.tell(rewards(0, client.ask()))
    assert from_bytes(to_bytes(client)).t == 20
    array = getattr(client, where)
    array[name][array["child"] >= 0 if where == "node" and name != "count" else 0] = value
    with pytest.raises(ValueError, match="this saved state cannot be read: .* tree"):
        from_bytes(to_bytes(client))


def test_no_state_changes_a_class():
    before = pfpne.messages.Awaited.accepts, pfpne.messages.Message.check
    for name in ("messages.Awaited", "messages.Message"):
        with pytest.raises(ValueError):
            from_bytes(sealed(["dict", [["a", an(name, accepts=1, check=1, header=0)]]]))
    assert (pfpne.messages.Awaited.accepts, pfpne.messages.Message.check) == before


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "device", tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="and a file is wanted"):
            pfpne.load(path)


def test_nothing_of_pickle_is_used():
    """But by what sends work to other processes of one's own."""
    for path in (PACKAGE / "live" / "states.py", PACKAGE / "journal.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert imported and not imported & {"pickle", "marshal", "shelve", "copyreg"}


def test_a_state_is_on_disk_before_saving_ends(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    path = pfpne.save(tmp_path / "state", federation("pe"))
    assert synced == [path.stat().st_ino, tmp_path.stat().st_ino]


def test_a_damaged_file_is_told():
    content = bytearray(to_bytes(federation("pf-pne")))
    for at in np.random.default_rng(0).integers(0, len(content), 50):
        damaged = bytearray(content)
        damaged[at] ^= 1
        with pytest.raises(ValueError):
            from_bytes(bytes(damaged))
    for end in (10, 120, len(content) - 1):
        with pytest.raises(ValueError):
            from_bytes(bytes(content[:end]))


def test_what_cannot_be_restored_is_not_saved():
    from PyXAB.partition.BinaryPartition import BinaryPartition

    partition = pfpne.PyXABPartition(BinaryPartition, [[0.0, 1.0]], seed=0)
    with pytest.raises(ValueError, match="PyXABPartition cannot be saved"):
        to_bytes(make_federation("pf-pne", Task(partition, 2, 10)))
    with pytest.raises(ValueError, match="a client, a server or a federation"):
        to_bytes([1])


def test_a_state_is_small_and_known():
    content = to_bytes(federation("pf-pne").clients[0])
    line, rest = content.split(b"\n", 1)
    assert line.split()[3].decode() == hashlib.sha256(rest).hexdigest() and len(content) < 2_000
    assert json.loads(rest)[:2] == ["object", "pfpne.algorithms.phases.PhasedClient"]


def test_a_line_of_a_journal_is_on_disk_before_anything_else_happens(tmp_path, monkeypatch):
    journal, synced = Journal(tmp_path / "journal"), []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(journal.path.read_bytes()))
    journal.append(a=1)
    journal.append(b=2)
    assert [len(content.splitlines()) for content in synced] == [1, 2]
    assert [{key: x for key, x in row.items() if key != "crc"} for row in journal.read()] == [{"a": 1}, {"b": 2}]
