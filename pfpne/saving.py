"""Save and restore: a client, a server or a whole federation, as bytes or as a file, to go on exactly from there.

    pfpne.save("client.pfpne", client)
    client = pfpne.load("client.pfpne")

The bytes are a line (what they are, their format, the version of the package, SHA-256 of the rest) and a pickle. A
pickle, because a state is a handful of objects that refer to one another, and no second description of each algorithm
has to be kept true. The two faults of pickle are dealt with: it may run anything, so here only the classes of this
package's states and numpy's arrays are read, and no other name is looked up; and it breaks silently when classes
change, so only the version that wrote a state reads it. A file of a stranger can be nonsense; it cannot run their code.
"""

import copy
import hashlib
import io
import json
import os
import pickle
import zlib
from pathlib import Path
from types import FunctionType

import numpy as np

from pfpne import __version__
from pfpne.federation import Client, Federation, Server
from pfpne.paths import write_atomically

FORMAT = 1
NUMPY = {"_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"}  # what arrays and numbers are rebuilt by
STATES = ("pfpne.federation", "pfpne.partition", "pfpne.algorithms.", "pfpne.live")  # where the classes of states are
SAVED = (Client, Server, Federation, dict)


def _is_known(module: str, name: str) -> bool:
    if module.split(".")[0] == "numpy":
        return name in NUMPY
    return module.startswith(STATES)


class _Pickler(pickle.Pickler):
    def reducer_override(self, x):
        named = x if isinstance(x, type | FunctionType) else type(x)
        module, name = named.__module__, named.__qualname__
        if not isinstance(x, np.ndarray | np.generic | np.dtype) and not _is_known(module, name):
            raise ValueError(f"a state that holds {module}.{name} cannot be saved.")
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if _is_known(module, name):
            found = super().find_class(module, name)
            if module.split(".")[0] == "numpy" or (isinstance(found, type) and found.__module__ == module):
                return found
        raise ValueError(f"{module}.{name} has no place in a saved state.")


def _header(content: bytes) -> bytes:
    return f"pfpne-state {FORMAT} {__version__} {hashlib.sha256(content).hexdigest()}\n".encode()


def to_bytes(state: Client | Server | Federation | dict) -> bytes:
    """The state as bytes. A federation's on_mail is not part of it.

    Raises ValueError for a state that holds something else than this package's own, such as a PyXABPartition.
    """
    if not isinstance(state, SAVED):
        raise ValueError(f"a client, a server or a federation is saved; got {type(state).__name__}.")
    if isinstance(state, Federation):
        state = copy.copy(state)
        state.on_mail = None
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(state)
    return _header(file.getvalue()) + file.getvalue()


def from_bytes(content: bytes) -> Client | Server | Federation | dict:
    """The state that `to_bytes` wrote; ValueError for anything else: damaged, of another version, or no state."""
    first, _, rest = content.partition(b"\n")
    wanted, found = _header(rest).split(), first.split()
    if len(found) != 4 or found[0] != wanted[0]:
        raise ValueError("this is not a saved state.")
    if found[1:3] != wanted[1:3]:
        written, here = (b" ".join(line[1:3]).decode(errors="replace") for line in (found, wanted))
        raise ValueError(f"this state has format and version {written}; only those are read here: {here}.")
    if found[3] != wanted[3]:
        raise ValueError("this saved state is damaged: its content is not what was written.")
    try:
        state = _Unpickler(io.BytesIO(rest)).load()
    except Exception as error:  # whatever a made-up pickle may raise
        raise ValueError(f"this saved state cannot be read: {error}") from error
    if not isinstance(state, SAVED):
        raise ValueError(f"this is no saved client, server or federation but a {type(state).__name__}.")
    return state


def save(path: str | Path, state: Client | Server | Federation | dict) -> Path:
    """Write the state to a file, whole or not at all; as `to_bytes`."""
    return write_atomically(Path(path), to_bytes(state))


def load(path: str | Path) -> Client | Server | Federation | dict:
    """The state of a file that `save` wrote; ValueError, naming the file, if it is none."""
    try:
        return from_bytes(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


class Journal:
    """A file of JSON, a dict per line with a checksum, on disk before anything else happens.

    A last line that a crash cut off is written over. Nothing else is: `append` raises an OSError where the file is not
    as this object has read or written it.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path).absolute()  # whoever appends may have changed the working folder meanwhile
        self._size = self._end = 0  # of the file, and of its whole lines

    def check_plain(self) -> None:
        """ValueError unless the path is that of a plain file, or free: a pipe would be waited for, for ever."""
        try:
            plain = self.path.is_file() or not os.path.lexists(self.path)
        except OSError as error:
            raise ValueError(f"{self.path} cannot be a file: {error}") from None
        if not plain:
            raise ValueError(f"{self.path} is a folder, a pipe, a device or a link to nowhere, and a file is wanted.")

    def read(self) -> list[dict]:
        """The lines; ValueError if the path cannot be a file's, or if a line is damaged."""
        self.check_plain()
        content = self.path.read_bytes() if self.path.exists() else b""
        whole, newline, _ = content.rpartition(b"\n")
        self._size, self._end = len(content), len(whole + newline)
        lines = [_unsealed(line) for line in whole.split(b"\n")] if newline else []
        for number, line in enumerate(lines, 1):
            if line is None:
                why = "is not what was written there, or comes of a version that wrote no checksums"
                raise ValueError(f"{self.path} is damaged: line {number} {why}.")
        return lines

    def append(self, **line) -> None:
        with self.path.open("ab") as file:
            if file.tell() != self._size:
                raise OSError(f"{self.path} was changed by somebody else while it was in use.")
            file.truncate(self._end)
            file.write(_sealed(line))
            file.flush()
            os.fsync(file.fileno())
            self._size = self._end = file.tell()


def _sealed(line: dict) -> bytes:
    """The line as JSON, its last entry the CRC-32 of the text without it."""
    text = json.dumps(line, default=repr).encode()
    return b'%s, "crc": "%08x"}\n' % (text[:-1], zlib.crc32(text))


def _unsealed(text: bytes) -> dict | None:
    """The line that `_sealed` made, None if it is another."""
    text, _, crc = text.rpartition(b', "crc": "')
    text += b"}"
    return json.loads(text) if crc == b'%08x"}' % zlib.crc32(text) else None
