"""Keeps objects as files in a local folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mypt_cli.store.backend import Entry, Fault

_COPIED = 1 << 20


class LocalFiles:
    """A folder whose files are objects. It need not be there before the first is written."""

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
