"""Puts objects into stores, and a store that fails as stores do: at once, or halfway."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mypt_cli.store import store
from mypt_cli.store.remote import Bucket, Entry, Fault, client_options
from mypt_cli.urls import parts


def put(root: str, key: str, data: bytes) -> None:
    """Writes an object below a URL, as other programs do."""
    scheme, name, prefix = parts(root)
    backend = store._bucket(scheme, name, os.getpid())
    if isinstance(backend, LocalFiles):
        path = Path(backend.folder, prefix, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return
    import obstore
    from obstore.store import from_url

    obstore.put(from_url(root, **client_options(scheme, os.environ)), key, data)


class LocalFiles(Bucket):
    """A folder whose files are objects. Stands in for a bucket."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yields the files below a folder, without hidden ones: those are being written."""
        top = self._path(folder)
        for base, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    path = os.path.join(base, name)
                    key = os.path.relpath(path, self.folder or ".").replace(os.sep, "/")
                    with suppress(FileNotFoundError):  # deleted since it was listed
                        yield _entry(key, os.stat(path))

    def head(self, key: str) -> Entry:
        with _as_faults():
            path = self._path(key)
            if os.path.isdir(path):
                raise FileNotFoundError
            return _entry(key, os.stat(path))

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes]:
        with _as_faults(), open(self._path(key), "rb") as file:
            entry = _entry(key, os.fstat(file.fileno()))
            file.seek(start)
            return entry, file.read(-1 if end is None else max(end - start, 0))

    def _path(self, key: str) -> str:
        if ".." in key.split("/"):
            raise Fault("refused", "a key has no part '..'; name the object in its folder")
        return os.path.join(self.folder, *key.split("/")) if key else self.folder or "."


def _entry(key: str, status: os.stat_result) -> Entry:
    etag = f"{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ino:x}"
    return Entry(key, status.st_size, etag)


@contextmanager
def _as_faults() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise Fault("missing") from None
    except PermissionError as error:
        raise Fault("denied", f"{error.strerror}; check its permissions") from None
    except OSError as error:
        raise Fault("refused", f"{error.strerror or error}; check the disk") from None


class Faulty(Bucket):
    """Does what `backend` does, but for the calls whose number (from 1) is named.

    - `fails`: nothing is done, and an error comes.
    - `cuts`: half of the bytes come.
    """

    def __init__(
        self, backend: Bucket, *, fails: Iterable[int] = (), cuts: Iterable[int] = ()
    ) -> None:
        self.backend = backend
        self.fails, self.cuts = set(fails), set(cuts)
        self.calls = 0

    def _count(self) -> int:
        self.calls += 1
        if self.calls in self.fails:
            raise Fault("transient", "no answer")
        return self.calls

    def entries(self, folder: str) -> Iterator[Entry]:
        self._count()
        return self.backend.entries(folder)

    def head(self, key: str) -> Entry:
        self._count()
        return self.backend.head(key)

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes | memoryview]:
        number = self._count()
        entry, data = self.backend.get(key, start, end)
        return entry, data[: len(data) // 2] if number in self.cuts else data
