"""An output that is whole or not there."""

from __future__ import annotations

import gzip
import json
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Any, BinaryIO

from mypt_cli.errors import UsageError


class Output:
    """A file that takes its name only when it is complete; `-` is stdout, and a pipe or device is
    written as it comes.

    Raises UsageError where it cannot be written, and for a file that is among `taken`.
    """

    def __init__(self, path: str, taken: Sequence[str]) -> None:
        self.path = path
        self._stream: Any = sys.stdout.buffer
        self._temporary = ""
        self._file: BinaryIO | None = None
        if path == "-":
            return
        if path.endswith(".zst"):
            raise UsageError(f"{path}: .zst is read, not written; name a file in .jsonl or .gz")
        self._target = os.path.realpath(path)  # a link stays a link
        if any(os.path.realpath(other) == self._target for other in taken):
            raise UsageError(f"{path}: is read from, or written twice; name another output")
        try:
            if os.path.isdir(path):
                raise IsADirectoryError(21, "is a folder")
            self._file = self._opened()
        except OSError as error:
            raise self._cannot(error) from None
        # No time in the header, so that equal data gives equal bytes.
        self._stream = (
            gzip.GzipFile("", "wb", fileobj=self._file, mtime=0)
            if path.endswith(".gz")
            else self._file
        )

    def _opened(self) -> BinaryIO:
        mode = (
            os.stat(self._target).st_mode
            if os.path.exists(self._target)
            else stat.S_IFREG | 0o666 & ~_umask()
        )
        if not stat.S_ISREG(mode):
            return open(self._target, "wb")
        folder, name = os.path.split(self._target)
        handle, self._temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        os.chmod(self._temporary, stat.S_IMODE(mode))
        return os.fdopen(handle, "wb")

    def __enter__(self) -> Output:
        return self

    def write(self, record: Any) -> None:
        self.write_bytes(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def write_bytes(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            raise self._cannot(error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is None:
            self._stream.flush()
            return
        try:
            with self._file:
                if self._stream is not self._file:
                    self._stream.close()
                self._file.flush()
                if self._temporary:
                    os.fsync(self._file.fileno())
            if kind is None and self._temporary:
                os.replace(self._temporary, self._target)
        except OSError as failure:
            raise self._cannot(failure) from None
        finally:
            if self._temporary and os.path.exists(self._temporary):
                os.unlink(self._temporary)

    def _cannot(self, error: OSError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return error  # the reader has gone, which is no fault of the call
        return UsageError(f"{self.path}: cannot be written: {error.strerror or error}")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
