"""Keeps the conversations of a chat in a file of JSONL, one line each, whatever ends the process.

Input: the record of a conversation, after each turn. Output: lines of the file.

Theory of operation. While a conversation goes on, the file itself does not change. Each record is
written to a second file, `FILE.<random>.part`, whose last whole line is what was said. When the
conversation ends, that line is added to FILE and the part is removed. A process that is killed
leaves its part, and `recover` adds it when the next chat with FILE begins. So at most the turn in
progress is lost.

Nothing is doubled either: before a line is added, the part notes the size of FILE, `{"at": 4096}`.
Who finds such a part sees whether its line is in FILE, and removes what is there if only half of it
is. The owner of a part holds a lock on it, which ends with the process. Who adds to FILE holds a
lock on FILE.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

from mypt_cli import atomic

_AT, _REPLACES, _NOTHING = b'{"at": ', b'{"replaces": ', b"null"


class Journal:
    """Conversations, one after another: `put` each record of one, then `end` it.

    A file that is no regular file, such as a pipe, gets a conversation only when it ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._part: BinaryIO | None = None
        self._name, self._size = self.path, 0
        self._replaces = b""
        # The conversation as it will be in the file.
        self.line = b""

    @property
    def _direct(self) -> bool:
        return self.path.exists() and not self.path.is_file()

    def recover(self) -> int:
        """Adds what killed processes have left to the file; returns how many conversations."""
        number = 0
        for name in sorted(self.path.parent.glob(f"{escape(self.path.name)}.*{atomic.PART}")):
            with suppress(FileNotFoundError), name.open("r+b") as part:
                if _lock(part, wait=False) and _same(part, name):
                    number += _add(self.path, part)
                    name.unlink()
        return number

    def replaces(self, line: bytes) -> None:
        """Makes the next conversation replace a line of the file, if it is there; b"" is none."""
        self._replaces = _digest(line) if line else b""

    def put(self, record: dict[str, Any] | None) -> None:
        """Keeps the record as it is now; None is none. Raises OSError; then the last one stays."""
        text = "" if record is None else json.dumps(record, ensure_ascii=False, allow_nan=False)
        self.line = text.encode()
        if self._direct or (self._part is None and not self.line):
            return
        if self._part is None:
            self._begin()
        assert self._part is not None
        try:
            _write(self._part, (self.line or _NOTHING) + b"\n")
        except BaseException:  # also a signal's: what follows must not be taken for half a line
            with suppress(OSError):
                self._part.truncate(self._size)
            raise
        self._size = self._part.tell()

    def end(self) -> bool:
        """Adds the conversation to the file; returns whether there was one. Raises OSError."""
        line, self.line = self.line, b""
        if self._direct:
            with self.path.open("ab") as out:
                out.write(line + b"\n" if line else b"")
        elif line and self._part is None:  # no part could be written
            with _locked(self.path) as out:
                _append_to(out, line + b"\n", None)
        part, self._part, self._replaces = self._part, None, b""
        if part is not None:
            with part:
                _add(self.path, part)
                self._name.unlink()
        return bool(line)

    def _begin(self) -> None:
        hidden = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        part = hidden.open("x+b", buffering=0)
        # Nobody sees the part without its lock.
        _lock(part, wait=True)
        self._name = self.path.with_name(f"{hidden.name[1:]}{atomic.PART}")
        hidden.rename(self._name)
        if self._replaces:
            _write(part, _REPLACES + b'"' + self._replaces + b'"}\n')
        self._part, self._size = part, part.tell()


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line.rstrip(b"\r\n")).hexdigest().encode()


def _state(part: BinaryIO) -> tuple[bytes, int | None, bytes]:
    """Returns the line to add, its place, and which line it replaces; cuts off half a last line."""
    part.seek(0)
    line, at, replaces = b"", None, b""
    *lines, half = part.read().split(b"\n")
    part.truncate(part.tell() - len(half))
    for entry in lines:
        if entry.startswith(_AT):
            at = int(json.loads(entry)["at"])
        elif entry.startswith(_REPLACES):
            replaces = json.loads(entry)["replaces"].encode()
        else:
            line, at = (b"" if entry == _NOTHING else entry), None
    return line, at, replaces


def _add(path: Path, part: BinaryIO) -> bool:
    """Adds the last line of a part to a file, unless it is there; returns whether it has one."""
    line, at, replaces = _state(part)
    if not line:
        return False
    line += b"\n"
    with _locked(path) as out:
        size = out.seek(0, os.SEEK_END)
        if at is not None and at <= size:
            out.seek(at)
            there = out.read(len(line))
            if there == line:
                return True
            if line.startswith(there) and at + len(there) == size:
                out.truncate(at)
        if not (replaces and _replace(path, line, replaces, part)):
            _append_to(out, line, part)
    return True


def _append_to(out: BinaryIO, line: bytes, part: BinaryIO | None) -> None:
    at = out.seek(0, os.SEEK_END)
    if at:
        out.seek(at - 1)
        if out.read(1) != b"\n":  # somebody's line, without its end
            out.write(b"\n")
            at += 1
    if part is not None:
        _note(part, at)
    try:
        _write(out, line)
    except OSError:
        with suppress(OSError):
            out.truncate(at)
        raise


def _replace(path: Path, line: bytes, digest: bytes, part: BinaryIO) -> bool:
    """Writes the file without the line of that digest, and with `line`; False if it has none."""
    with path.open("rb") as old:
        match = next((each for each in old if _digest(each) == digest), None)
        if match is None:
            return False
        _note(part, old.seek(0, os.SEEK_END) - len(match))
        old.seek(0)
        with atomic.replacing(path) as new:
            for each in old:
                if each == match:
                    match = None
                else:
                    new.write(each)
            new.write(line)
    return True


def _note(part: BinaryIO, at: int) -> None:
    part.seek(0, os.SEEK_END)
    _write(part, _AT + str(at).encode() + b"}\n")


def _write(out: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view) :]
    out.flush()
    os.fsync(out.fileno())


def _lock(file: BinaryIO, *, wait: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _same(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Yields a file, made if there is none, to which nobody else adds meanwhile."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with open(handle, "r+b", buffering=0) as out:
            _lock(out, wait=True)
            if _same(out, path):  # nobody has replaced it in between
                yield out
                return
