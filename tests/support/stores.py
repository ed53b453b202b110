"""A store that fails as stores do: not at all, or in the middle, or after it has done its work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mypt_cli.store.backend import Backend, Entry, Fault


class Faulty:
    """Does what `backend` does, but for the calls whose number (from 1) is named.

    - `fails`: nothing is done, and an error comes.
    - `loses`: it is done, and an error comes instead of the answer.
    - `cuts`: half of the bytes come.
    - `repeats`: what is put is put twice, as a proxy may do.
    - `late`: what was put by the last so many calls is not listed.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        fails: Iterable[int] = (),
        loses: Iterable[int] = (),
        cuts: Iterable[int] = (),
        repeats: Iterable[int] = (),
        late: int = 0,
    ) -> None:
        self.backend = backend
        self.fails, self.loses, self.cuts = set(fails), set(loses), set(cuts)
        self.repeats, self.late = set(repeats), late
        self.calls = 0
        self.written: list[str] = []

    def _count(self) -> int:
        self.calls += 1
        if self.calls in self.fails:
            raise Fault("transient", "no answer")
        return self.calls

    def _answer(self, number: int) -> None:
        if number in self.loses:
            raise Fault("transient", "no answer")

    def entries(self, folder: str) -> Iterable[Entry]:
        number = self._count()
        hidden = set(self.written[len(self.written) - self.late :])
        found = [entry for entry in self.backend.entries(folder) if entry.key not in hidden]
        self._answer(number)
        return found

    def head(self, key: str) -> Entry:
        number = self._count()
        found = self.backend.head(key)
        self._answer(number)
        return found

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes]:
        number = self._count()
        entry, data = self.backend.get(key, start, end)
        self._answer(number)
        return entry, data[: len(data) // 2] if number in self.cuts else data

    def put(self, key: str, data: bytes | Path, *, absent: bool) -> None:
        number = self._count()
        self.backend.put(key, data, absent=absent)
        self.written.append(key)
        if number in self.repeats:
            self.backend.put(key, data, absent=absent)
        self._answer(number)

    def delete(self, key: str) -> None:
        number = self._count()
        self.backend.delete(key)
        self._answer(number)


class Changing(Faulty):
    """Writes other data to an object after so many calls."""

    def __init__(self, backend: Backend, *, after: int, key: str, data: bytes) -> None:
        super().__init__(backend)
        self.after, self.key, self.data = after, key, data

    def _count(self) -> int:
        if self.calls == self.after:
            self.backend.put(self.key, self.data, absent=False)
        return super()._count()
