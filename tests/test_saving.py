"""Save and restore: exact, refused when damaged or foreign, and never another's code."""

import ast
import base64
import hashlib
import json
import os
import pickle
import time
import tracemalloc

import numpy as np
import pytest
from conftest import HORIZONS

import pfpne
from pfpne.algorithms import make_federation
from pfpne.algorithms.phases import ClientGroup
from pfpne.federation import Task
from pfpne.journal import Journal
from pfpne.live.states import FORMAT, _header, classes, from_bytes, to_bytes
from pfpne.partition import Partition
from pfpne.paths import PACKAGE_FOLDER
from pfpne.tuning.searches import SEARCHES

M = 3


def federation(name: str):
    horizons = {**HORIZONS, "centralized": 20}  # it communicates at each evaluation
    task = Task(Partition([[0.0, 1.0]]), M, horizons.get(name, 60), noise="bernoulli")
    return make_federation(SEARCHES[name], task)


def rewards(name: str, m: int, batch) -> np.ndarray:
    """Rewards without noise; for pf-pne+, which would not share them beyond the root, 0 or 1."""
    values = np.sin(9 * batch.points[:, 0] + m) / 2 + 0.5
    return np.repeat(np.round(values) if name == "pf-pne+" else values, batch.counts)


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_restored_goes_on_as_if_nothing_had_been(name, tmp_path):
    """The whole federation from a file after each sweep; each client and the server from bytes, each time."""
    plain, whole, apart = (federation(name) for _ in range(3))
    sent = []
    plain.on_mail = lambda t, up, down: sent.append(up)
    while plain.running:
        for run in (plain, whole, apart):
            for m, batch in run.ask():
                run.tell(m, rewards(name, m, batch))
        whole.on_mail = print
        whole = pfpne.load(pfpne.save(tmp_path / "run", whole))
        assert whole.on_mail is None
        apart.server = from_bytes(to_bytes(apart.server))
        apart.clients = [from_bytes(to_bytes(client)) for client in apart.clients]
        for run in (whole, apart):
            for mine, client in zip(run.clients, plain.clients, strict=True):
                assert mine.t == client.t and np.array_equal(mine.best(), client.best())
                assert np.array_equal(mine.ask().points, client.ask().points)
    assert len([up for up in sent if up]) >= 2 * bool(SEARCHES[name].up_kinds)


def test_saving_changes_nothing_of_the_run(tmp_path):
    """Whoever saves after each sweep, and goes on with the same object, still sees its mail."""
    plain, saved = federation("pf-pne"), federation("pf-pne")
    mail = {plain: [], saved: []}
    for run, sent in mail.items():
        run.on_mail = lambda t, up, down, sent=sent: sent.append((t, [message.to_json() for _, message in up + down]))
        while run.running:
            for m, batch in run.ask():
                run.tell(m, rewards("pf-pne", m, batch))
            if run is saved:
                pfpne.save(tmp_path / "run", run)
    assert mail[saved] == mail[plain] and len(mail[plain]) >= 2


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
        (sealed(an("federation.Server", receives=["tuple", []])), "what an object holds must be a value"),
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
    tuples = [["tuple", [1, 1]], *(["tuple", [["again", i], ["again", i]]] for i in range(7))]
    with pytest.raises(ValueError, match="cannot be read: a key in a state must be a plain value"):
        from_bytes(sealed(["dict", [["a", ["list", tuples]], ["b", ["dict", [[["again", 7], 1]]]]]]))
    assert from_bytes(sealed(["dict", [[["tuple", [1, "a"]], 1], [None, 2]]])) == {(1, "a"): 1, None: 2}


FORGED = [
    *(("node", "parent", x) for x in (10**9, -2, 5)),
    *(("node", "first_child", x) for x in (10**7, -2, 0)),
    *(("node", "largest", x) for x in (10**9, -1)),
    *(("node", "depth", x) for x in (-1, 10**6)),
    ("node", "count", np.inf),
    *(("state", "size", x) for x in (2**30, 0, 1)),
    *(("state", name, 2**30) for name in ("next_step", "epoch", "best", "just_split", "top")),
    *(("state", name, -5) for name in ("next_step", "epoch", "best", "just_split", "top")),
    ("state", "next_step", 30),
]


@pytest.mark.parametrize(("where", "name", "value"), FORGED)
def test_a_tree_that_leads_out_of_its_arrays_is_refused(where, name, value):
    """Compiled code would read and write there."""
    client = make_federation("hct", Task(Partition([[0.0, 1.0]]), 1, 100, noise="bernoulli")).clients[0]
    for _ in range(20):
        client.tell(rewards("hct", 0, client.ask()))
    assert from_bytes(to_bytes(client)).t == 20
    array = getattr(client, where)
    array[name][array["first_child"] >= 0 if where == "node" and name != "count" else 0] = value
    with pytest.raises(ValueError, match="this saved state cannot be read: .* tree"):
        from_bytes(to_bytes(client))


def a_client_in_phases(phases: str, settings: list, k: int = 2, d: int = 1, horizon: int = 10**9, sent: tuple = ()):
    """The state of one that has been sent `sent`."""
    domain = array("f8", [d, 2], np.tile([0.0, 1.0], (d, 1)).tobytes())
    task = an("federation.Task", partition=an("partition.Partition", domain=domain, k=k), n_clients=1, horizon=horizon)
    made_of = ["tuple", [["class", f"pfpne.algorithms.{phases}"], settings]]
    client = "pf_pne_plus.PlusClient" if "plus" in phases else "phases.PhasedClient"
    content = {"task": task, "t": 0, "_batch": None, "_made_of": made_of, "_sent": ["list", list(sent)]}
    return sealed(an(f"algorithms.{client}", **content))


def row(*values) -> list:
    return array("f8", [len(values)], np.array(values, dtype=float).tobytes())


SETTINGS = {
    "pf_pne.PFPNE": an("algorithms.pf_pne.PFPNESettings"),
    "pf_pne.FedPNE": an("algorithms.pf_pne.FedPNESettings"),
    "pf_pne.PE": an("algorithms.pf_pne.FedPNESettings"),
    "pf_pne_plus.PFPNEPlus": an("algorithms.pf_pne_plus.PlusSettings", c=1e9),
    "blin.BLiN": an("algorithms.blin.BLiNSettings", c_pulls=1e9),
}
FIRST = array("i8", [1], b"\1" + bytes(7))
KEPT = an("algorithms.pf_pne.Kept", header=0, index=FIRST, means=row(0.5), half_widths=row(0.5))
LARGE = {  # what a few hundred bytes ask for: 8 GB and more, each
    "the children of the root, by PF-PNE": ("pf_pne.PFPNE", {"k": 2**31, "sent": (row(0.5), KEPT)}),
    "the children of the root, by PE": ("pf_pne.PE", {"k": 2**31, "sent": (row(0.5),)}),
    "the children of the root, by Fed-PNE": ("pf_pne.FedPNE", {"k": 2**31, "sent": (row(0.5), KEPT)}),
    "pulls of the root, one by one, by PF-PNE+": ("pf_pne_plus.PFPNEPlus", {}),
    "pulls of the root, one by one, by BLiN": ("blin.BLiN", {}),
    "the 2^60 parts of the root, by BLiN": ("blin.BLiN", {"d": 60, "sent": (row(*[0.5] * 9),)}),
}


def seconds_and_bytes(content: bytes) -> tuple[float, int]:
    """What it costs to refuse this state."""
    tracemalloc.start()
    start = time.perf_counter()
    with pytest.raises(ValueError, match="this saved state cannot be read"):
        from_bytes(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return time.perf_counter() - start, peak


@pytest.mark.parametrize("what", LARGE)
def test_a_small_file_that_asks_for_much_memory_is_refused_before_it_is_made(what):
    phases, more = LARGE[what]
    settings = an("algorithms.blin.BLiNSettings", c_pulls=1e-9) if "parts" in what else SETTINGS[phases]
    content = a_client_in_phases(phases, settings, **more)
    assert len(content) < 2_500
    with pytest.raises(ValueError, match="what restoring a state makes must be little more than what it holds"):
        from_bytes(content)
    seconds, peak = seconds_and_bytes(content)
    assert seconds < 5 and peak < 10**7


@pytest.mark.parametrize("phases", SETTINGS)
def test_a_client_that_asks_for_little_is_read(phases):
    plus = an("algorithms.pf_pne_plus.PlusSettings")
    settings = {"pf_pne_plus.PFPNEPlus": plus, "blin.BLiN": an("algorithms.blin.BLiNSettings")}.get(phases)
    client = from_bytes(a_client_in_phases(phases, settings or SETTINGS[phases], horizon=1_000))
    assert client.ask().size >= 1


@pytest.mark.parametrize(
    ("made_of", "sent", "match"),
    [
        (["class", "pfpne.algorithms.hct.TreeClient"], (), "a client in phases must be of an algorithm in phases"),
        (["class", "pfpne.partition.Partition"], (), "a client in phases must be of an algorithm in phases"),
        (["class", "pfpne.algorithms.pf_pne.PE"], (["list", []],), "what a client in phases was sent must be sums or"),
        (["class", "pfpne.algorithms.pf_pne.PE"], (row(np.inf),), "what a client in phases was sent must be sums or"),
        (["class", "pfpne.algorithms.pf_pne.PE"], (array("f8", [1, 1]),), "must be sums or"),
    ],
    ids=range(5),
)
def test_a_client_that_no_algorithm_in_phases_makes_is_refused(made_of, sent, match):
    content = a_client_in_phases("pf_pne.PE", an("algorithms.pf_pne.FedPNESettings"), horizon=100, sent=sent)
    plain = json.dumps(["class", "pfpne.algorithms.pf_pne.PE"]).encode()
    with pytest.raises(ValueError, match=match):
        from_bytes(sealed(content.partition(b"\n")[2].replace(plain, json.dumps(made_of).encode())))


def doubled(first: list, kind, last: dict, levels: int = 60) -> list:
    """A list of a thing, what names it twice, what names that twice, and so on, and a task with the last of these."""
    things = [first, *(kind(["again", i], ["again", i]) for i in range(levels))]
    task = {
        "partition": an("partition.Partition", domain=array("f8", [1, 2], bytes(8) + b"\0\0\0\0\0\0\xf0\x3f")),
        **last,
    }
    return ["list", [*things, an("federation.Task", n_clients=1, horizon=1, **task)]]


def values_of_values(one: list, two: list) -> list:
    return an("gaussian.Values", x=one, y=two, count=None, output=None)


COSTLY = {
    "lists of lists, as candidates": lambda: doubled(
        ["list", [0.5, 0.5]], lambda one, two: ["list", [one, two]], {"candidates": ["again", 60]}
    ),
    "objects of objects, shown in an error": lambda: doubled(
        ["list", [0.5]], values_of_values, {"partition": ["again", 60]}
    ),
    "a shape whose product is long": lambda: array("f8", [2**62] * 300_000),
    "keys that all have one hash": lambda: ["dict", [[i * (2**61 - 1), 1] for i in range(60_000)]],
    "one row, sent again and again": lambda: json.loads(
        a_client_in_phases(
            "pf_pne.PE", SETTINGS["pf_pne.PE"], sent=(row(*[0.5] * 30_000), *[["again", 6]] * 30_000)
        ).partition(b"\n")[2]
    ),
}


@pytest.mark.parametrize("what", COSTLY)
def test_a_file_costs_no_more_than_its_size_to_read(what):
    content = sealed(["dict", [["a", COSTLY[what]()]]])
    seconds, peak = seconds_and_bytes(content)
    assert seconds < 10 and peak < 10**7 + 100 * len(content)


def test_the_task_of_a_client_is_a_task():
    """Compiled code relies on it."""
    with pytest.raises(ValueError, match="the task of a client or a server must be a Task"):
        from_bytes(sealed(an("algorithms.hct.TreeClient", task=an("federation.Server", partition=1))))


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
    for path in (PACKAGE_FOLDER / "live" / "states.py", PACKAGE_FOLDER / "journal.py"):
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


def test_what_restoring_a_phased_algorithm_makes_is_bounded_for_each():
    """A new class: judge in `_numbers_made` of pfpne.live.states what its loop makes, and then name it here."""
    groups = {kind.__name__ for kind in classes().values() if issubclass(kind, ClientGroup)}
    bounded = {"PFPNE", "FedPNE", "PE", "PFPNEPlus", "HCTNoise", "BLiN"}
    assert groups - {"ClientGroup", "Elimination"} == bounded
