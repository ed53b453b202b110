"""Keeps the conversations of a chat in a file of JSONL, one line each, whatever ends the process.

Input: the record of a conversation, after each turn. Output: lines of the file.

Each record replaces the file atomically by one with the conversation as its last line, in place of
the line that it had. So a process that is killed loses the turn in progress at most. Whoever writes
holds a lock on the file, so several chats may share it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mypt_cli import atomic


class Journal:
    """Conversations, one after another: `put` each record of one, then `end` it.

    A file that is no regular file, such as a pipe, gets a conversation only when it ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._replaced = self._written = b""
        # The conversation as it is to be in the file.
        self.line = b""

    def replaces(self, line: bytes) -> None:
        """Makes the next conversation replace a line of the file, if it is there; b"" is none."""
        self._replaced = self._written = line.rstrip(b"\r\n")

    def put(self, record: dict[str, Any] | None) -> None:
        """Writes the record as it is now; None is none. Raises OSError; then the last one stays."""
        text = "" if record is None else json.dumps(record, ensure_ascii=False, allow_nan=False)
        self.line = text.encode()
        # A conversation that is taken back leaves the line that it has replaced.
        line = self.line or self._replaced
        if not self._is_pipe and line != self._written:
            _replace(self.path, self._written, line)
            self._written = line

    def end(self) -> bool:
        """Ends the conversation; returns whether there was one. Raises OSError."""
        line, written, self.line = self.line, self._written, b""
        self.replaces(b"")
        if line and self._is_pipe:
            with self.path.open("ab") as out:
                out.write(line + b"\n")
        elif line and line != written:  # `put` has failed
            _replace(self.path, written, line)
        return bool(line)

    @property
    def _is_pipe(self) -> bool:
        return self.path.exists() and not self.path.is_file()


def _replace(path: Path, old: bytes, new: bytes) -> None:
    """Writes a file without the first line `old`, if it has one, and with `new` as its last."""
    with _locked(path) as lines, atomic.replacing(path) as out:
        for line in lines:
            content = line.rstrip(b"\r\n")
            if old and content == old:
                old = b""
            else:  # also somebody's line without its end
                out.write(line if line.endswith(b"\n") else line + b"\n")
        if new:
            out.write(new + b"\n")


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Yields a file, made if there is none, that nobody else replaces meanwhile."""
    import fcntl

    while True:
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):  # it is still the file
                yield file
                return
