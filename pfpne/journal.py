"""A file that grows line by line and survives a crash: the evaluations of a live client or of a search."""

import json
import os
import zlib
from pathlib import Path

from pfpne.paths import write_error


def check_plain(path: Path) -> None:
    """Raise a ValueError unless the path is free or a plain file: reading a pipe might never end."""
    try:
        plain = path.is_file() or not os.path.lexists(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be a file: {error}") from None
    if not plain:
        raise ValueError(f"{path} is a folder, a pipe, a device or a link to nowhere, and a file is wanted.")


class Journal:
    """A file of JSON lines, each with a checksum, each on disk before `append` returns.

    An unfinished last line, left by a crash, is overwritten; no other line is. `append` raises an OSError if the file
    has changed since this object last read or wrote it.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path).absolute()  # whoever appends may have changed the working folder meanwhile
        self._size = self._end = 0  # the size of the file, and the end of its last complete line

    def check_plain(self) -> None:
        """Raise a ValueError unless the journal's path is free or a plain file."""
        check_plain(self.path)

    def read(self) -> list[dict]:
        """Return the lines; ValueError if the path cannot be a file, or if a line is damaged."""
        self.check_plain()
        content = self.path.read_bytes() if self.path.exists() else b""
        whole, newline, _ = content.rpartition(b"\n")
        self._size, self._end = len(content), len(whole + newline)
        lines = []
        for number, text in enumerate(whole.split(b"\n") if newline else [], 1):
            line = _unsealed(text)
            if line is None:
                why = "is not what was written there, or comes of a version that wrote no checksums"
                raise ValueError(f"{self.path} is damaged: line {number} {why}.")
            lines.append(line)
        return lines

    def append(self, **line) -> None:
        """Write one more line; OSError if somebody else has changed the file."""
        try:
            with self.path.open("ab") as file:
                if file.tell() != self._size:
                    raise OSError(f"{self.path} was changed by somebody else while it was in use.")
                file.truncate(self._end)
                file.write(_sealed(line))
                file.flush()
                os.fsync(file.fileno())
                self._size = self._end = file.tell()
        except OSError as error:
            if error.errno is not None and error.filename is None:
                raise write_error(self.path, error) from None
            raise


def _sealed(line: dict) -> bytes:
    """Return the line as JSON, with the CRC-32 of the rest as its last entry."""
    text = json.dumps(line, default=repr).encode()
    return b'%s, "crc": "%08x"}\n' % (text[:-1], zlib.crc32(text))


def _unsealed(text: bytes) -> dict | None:
    """Return the line that `_sealed` wrote; None for any other text."""
    text, _, crc = text.rpartition(b', "crc": "')
    text += b"}"
    try:
        line = json.loads(text) if crc == b'%08x"}' % zlib.crc32(text) else None
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
