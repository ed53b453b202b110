"""Puts objects into stores, and a store that fails as stores do: at once, or halfway."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mypt_cli.store.backend import Backend, Entry, Fault
from mypt_cli.store.remote import client_options
from mypt_cli.urls import is_url


def put(root: str, key: str, data: bytes) -> None:
    """Writes an object below a folder or URL, as other programs do."""
    if not is_url(root):
        path = Path(root, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return
    import os

    import obstore
    from obstore.store import from_url

    obstore.put(from_url(root, **client_options(root.partition(":")[0], os.environ)), key, data)


class Faulty:
    """Does what `backend` does, but for the calls whose number (from 1) is named.

    - `fails`: nothing is done, and an error comes.
    - `cuts`: half of the bytes come.
    """

    def __init__(
        self, backend: Backend, *, fails: Iterable[int] = (), cuts: Iterable[int] = ()
    ) -> None:
        self.backend = backend
        self.fails, self.cuts = set(fails), set(cuts)
        self.calls = 0

    def _count(self) -> int:
        self.calls += 1
        if self.calls in self.fails:
            raise Fault("transient", "no answer")
        return self.calls

    def entries(self, folder: str) -> Iterable[Entry]:
        self._count()
        return self.backend.entries(folder)

    def head(self, key: str) -> Entry:
        self._count()
        return self.backend.head(key)

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes | memoryview]:
        number = self._count()
        entry, data = self.backend.get(key, start, end)
        return entry, data[: len(data) // 2] if number in self.cuts else data
