"""Writes the output of a command: a file that is whole or not there, or standard output.

Input: a path as the user gave it, and records or bytes. Output: the file, packed if its name ends
in .gz, and a table of the records if it ends in .parquet. A fault is a UsageError that names the
path.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

from mypt_cli.atomic import replacing
from mypt_cli.errors import UsageError, refuse_url


def refuse_input(path: str, inputs: Sequence[str]) -> None:
    """Raises UsageError for an output that is one of the inputs."""
    if any(os.path.realpath(other) == os.path.realpath(path) for other in inputs):
        raise UsageError(f"{path}: is read from, or written twice; name another output")


class Output:
    """A file that takes its name only when it is complete; `-` is standard output.

    Raises UsageError if it cannot be written, and for a file that is among `taken`.
    """

    def __init__(self, path: str, inputs: Sequence[str]) -> None:
        self.path = path
        self._stream: Any = sys.stdout.buffer
        self._stack = ExitStack()
        if path == "-":
            self._stack.callback(self._stream.flush)
            return
        refuse_url(path)
        if path.endswith((".zst", ".arrow")):
            why = f"{path[path.rfind('.') :]} is read, not written"
            raise UsageError(f"{path}: {why}; name a file in .jsonl, .gz or .parquet")
        refuse_input(path, inputs)
        try:
            if os.path.isdir(path):
                raise IsADirectoryError(21, "is a folder")
            self._stream = self._stack.enter_context(replacing(path))
        except OSError as error:
            raise self._cannot(error) from None
        if path.endswith(".gz"):
            # No time in the header, so that equal data makes equal bytes.
            packed = gzip.GzipFile("", "wb", fileobj=self._stream, mtime=0)
            self._stream = self._stack.enter_context(packed)
        elif path.endswith(".parquet"):
            self._stack.enter_context(self._table(self._stream))

    @contextmanager
    def _table(self, out: BinaryIO) -> Iterator[None]:
        """Writes lines elsewhere, and a table when all are known, because they decide its types."""
        from mypt_cli.jsonl.parquet import parquet_module, write_parquet

        parquet_module(self.path)
        with tempfile.TemporaryFile() as self._stream:
            yield
            try:
                write_parquet(self._stream, out, self.path)
            except ValueError as error:  # text that is no UTF-8, for one
                raise UsageError(f"{self.path}: cannot be written: {error}") from None

    def __enter__(self) -> Output:
        return self

    def write(self, record: Any) -> None:
        """Writes a record as a line of JSON."""
        self.write_bytes(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def write_bytes(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            raise self._cannot(error) from None

    def __exit__(self, *details: Any) -> None:
        try:
            self._stack.__exit__(*details)
        except OSError as failure:
            raise self._cannot(failure) from None

    def _cannot(self, error: OSError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return error  # the reader has gone, which is no fault of the call
        return UsageError(f"{self.path}: cannot be written: {error.strerror or error}")
