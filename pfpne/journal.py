"""A file that grows line by line and survives a crash: what a live client or a search has evaluated."""

import json
import os
import zlib
from pathlib import Path


def check_plain(path: Path) -> None:
    """ValueError unless the path is that of a plain file, or free: a pipe would be waited for, for ever."""
    try:
        plain = path.is_file() or not os.path.lexists(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be a file: {error}") from None
    if not plain:
        raise ValueError(f"{path} is a folder, a pipe, a device or a link to nowhere, and a file is wanted.")


class Journal:
    """A file of JSON, a dict per line with a checksum, on disk before anything else happens.

    A last line that a crash cut off is written over. Nothing else is: `append` raises an OSError where the file is not
    as this object has read or written it.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path).absolute()  # whoever appends may have changed the working folder meanwhile
        self._size = self._end = 0  # of the file, and of its whole lines

    def check_plain(self) -> None:
        """As the function of this name, for the journal's path."""
        check_plain(self.path)

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
