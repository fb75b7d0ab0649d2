"""Save and restore: exact, refused when damaged or foreign, and never another's code."""

import hashlib
import io
import os
import pickle

import numpy as np
import pytest
from conftest import HORIZONS

import pfpne
from pfpne.algorithms import make_federation
from pfpne.federation import Task
from pfpne.partition import Partition
from pfpne.saving import Journal, _header, from_bytes, to_bytes
from pfpne.tuning import SEARCHES

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


def sealed(content: bytes) -> bytes:
    """A state's line before any content, as one would who wants it to be read."""
    return _header(content) + content


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "not a saved state"),
        (b"\x00" * 100, "not a saved state"),
        (pickle.dumps({}), "not a saved state"),
        (sealed(pickle.dumps(Opens())), "system has no place"),
        (sealed(b"cpfpne.algorithms\nmake_federation\n."), "make_federation has no place"),
        (sealed(b"cbuiltins\neval\n(S'1'\ntR."), "builtins.eval has no place"),
        (sealed(b"cnumpy\nload\n."), "numpy.load has no place"),
        (sealed(pickle.PROTO + b"\x04" + b"\x8c\x10pfpne.federation\x8c\x10json.JSONDecoder\x93."), "no place"),
        (sealed(pickle.dumps([1])), "but a list"),
        (sealed(b"rubbish"), "cannot be read"),
        (sealed(pickle.dumps({})).replace(b"pfpne-state 1 ", b"pfpne-state 0 "), "format and version 0"),
        (sealed(pickle.dumps({})) + b"more", "damaged"),
    ],
    ids=range(12),
)
def test_what_is_no_state_is_refused(content, match, tmp_path, capfd):
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(ValueError, match=match) as refused:
        pfpne.load(tmp_path / "state")
    assert str(tmp_path / "state") in str(refused.value) and "owned" not in capfd.readouterr().out


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


def test_a_pickle_of_a_state_is_small_and_known():
    content = to_bytes(federation("pf-pne").clients[0])
    line, rest = content.split(b"\n", 1)
    assert line.split()[3].decode() == hashlib.sha256(rest).hexdigest() and len(content) < 2_000
    assert pickle.load(io.BytesIO(rest)).t == 0


def test_a_line_of_a_journal_is_on_disk_before_anything_else_happens(tmp_path, monkeypatch):
    journal, synced = Journal(tmp_path / "journal"), []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(journal.path.read_bytes()))
    journal.append(a=1)
    journal.append(b=2)
    assert synced == [b'{"a": 1}\n', b'{"a": 1}\n{"b": 2}\n'] and journal.read() == [{"a": 1}, {"b": 2}]
