"""A bucket that is a dictionary, so that tests of stores need no server and no disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from mypt_cli.store.backend import Entry, Fault


class Memory:
    """Keeps objects in `held`. It is killed, once, at the call number `dies` (from 1)."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.calls, self.dies = 0, 0

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.dies:
            raise KilledError

    def _entry(self, key: str) -> Entry:
        if key not in self.held:
            raise Fault("missing")
        data = self.held[key]
        return Entry(key, len(data), hashlib.sha256(data).hexdigest())

    def entries(self, folder: str) -> Iterable[Entry]:
        self._call()
        return [self._entry(key) for key in self.held if f"/{key}".startswith(f"/{folder}")]

    def head(self, key: str) -> Entry:
        self._call()
        return self._entry(key)

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes]:
        self._call()
        return self._entry(key), self.held[key][start:end]

    def put(self, key: str, data: bytes | Path, *, absent: bool) -> None:
        self._call()
        if absent and key in self.held:
            raise Fault("exists")
        self.held[key] = data if isinstance(data, bytes) else data.read_bytes()

    def delete(self, key: str) -> None:
        self._call()
        self.held.pop(key, None)


class KilledError(BaseException):
    """The process was killed: nothing that it was about to do happens."""
