"""Reads the objects of one folder of a bucket, and asks again after faults.

store = Store.at("s3://bucket/data")
store.entries("train")                      what is there, with sizes and ETags
store.read("a.jsonl", 0, 100, etag=tag)     bytes, refused if the object has changed
store.open("a.jsonl", etag=tag)             the same as a file
"""

from __future__ import annotations

import functools
import io
import os
import time
from collections.abc import Callable
from typing import TypeVar

from mypt_cli.errors import UsageError
from mypt_cli.store.ranges import Ranges
from mypt_cli.store.remote import Bucket, Entry, Fault
from mypt_cli.urls import fixed, is_pattern, matcher, parts, redacted

T = TypeVar("T")
TRIES = 6
_FIRST, _LONGEST = 0.2, 20.0  # seconds between two tries
PIECE = 8 << 20  # a request takes as long as some hundred KiB


class StoreError(UsageError):
    """A store did not do what it was asked to; the message names the object and what to do.

    `kind` is "missing", "changed" (its ETag is another one), "denied", "refused", or "transient":
    it failed as often as it was tried.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, str]]:
        return StoreError, (str(self), self.kind)


class Store:
    """The objects below `root`; keys are relative to it, with `/` between their parts.

    Each call is made up to `tries` times, if the fault may pass, and waits longer each time. A
    store may be shared by threads. A process that is forked from one that has used a remote store
    can use none: start it by spawn. All methods raise StoreError.
    """

    def __init__(
        self,
        root: str,
        bucket: Bucket,
        *,
        prefix: str = "",
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.root = root.rstrip("/") or root
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._tries = tries
        self._sleep = sleep

    @classmethod
    def at(cls, root: str) -> Store:
        """Returns the store of a URL, which need not be there yet."""
        try:
            scheme, name, key = parts(root)
            return cls(root, _bucket(scheme, name, os.getpid()), prefix=key)
        except ValueError as error:
            raise StoreError(f"{redacted(root)}: {error}", "refused") from None
        except Fault as fault:
            raise StoreError(f"{redacted(root.rstrip('/'))}: {fault.why}", fault.kind) from None

    def name(self, key: str) -> str:
        """Returns the URL or path of an object, as messages show it."""
        if not key:
            return redacted(self.root)
        return redacted(f"{self.root.rstrip('/')}/{key}" if self.root != "." else key)

    def entries(self, folder: str = "") -> list[Entry]:
        """Returns the objects below a folder, sorted by key.

        Stores may list late: that an object is absent here proves nothing; `head` does.
        """
        under = (self._prefix + folder).strip("/")
        entries = self._call(folder, lambda: list(self._bucket.entries(under)))
        entries.sort(key=lambda entry: entry.key)
        return [Entry(e.key[len(self._prefix) :], e.size, e.etag) for e in entries]

    def glob(self, pattern: str) -> list[Entry]:
        """Returns the objects whose key matches a pattern of `*`, `?`, `[..]` and `**`, sorted."""
        match = matcher(pattern)
        return [entry for entry in self.entries(fixed(pattern)) if match(entry.key)]

    def head(self, key: str) -> Entry:
        """Returns the size and ETag of an object."""
        entry = self._call(key, lambda: self._bucket.head(self._prefix + key))
        return Entry(key, entry.size, entry.etag)

    def read(self, key: str, start: int = 0, end: int | None = None, *, etag: str = "") -> bytes:
        """Returns the bytes of an object from `start` to before `end`, or to its end.

        With `etag`, refuses an object that has another one now.
        """
        return bytes(self._part(key, start, end, etag))

    def _part(self, key: str, start: int, end: int | None, etag: str) -> bytes | memoryview:
        """Returns the bytes that `read` does, not copied from where obstore has them."""
        if end is not None and end <= start:
            return b""

        def part() -> bytes | memoryview:
            header, data = self._bucket.get(self._prefix + key, start, end)
            if etag and header.etag != etag:
                raise Fault("changed")
            expected = max(min(header.size, header.size if end is None else end) - start, 0)
            if len(data) != expected:
                raise Fault("transient", f"{len(data)} of {expected} bytes came")
            return data

        return self._call(key, part)

    def open(
        self, key: str, *, etag: str = "", size: int | None = None, piece: int = PIECE
    ) -> io.BufferedReader:
        """Returns an object as a file to read and seek in, which holds `piece` bytes.

        It refuses to go on when the object changes; with `etag`, also to begin with another one.
        With `etag` and `size`, asks nothing before it is read.
        """
        entry = self.head(key) if size is None or not etag else Entry(key, size, etag)
        if etag and entry.etag != etag:
            raise self._error(key, Fault("changed"))

        def get(start: int, end: int) -> bytes | memoryview:
            return self._part(key, start, end, entry.etag)

        return io.BufferedReader(Ranges(get, entry.size, piece=piece))

    def _call(self, key: str, work: Callable[[], T]) -> T:
        for number in range(1, self._tries + 1):
            try:
                return work()
            except Fault as fault:
                if fault.kind != "transient" or number == self._tries:
                    raise self._error(key, fault) from None
            import random  # only now: each start of a command would take longer

            wait = min(_FIRST * 2 ** (number - 1), _LONGEST)
            self._sleep(wait * random.uniform(0.5, 1))
        raise ValueError(f"tries is {self._tries}, expected at least 1")

    def _error(self, key: str, fault: Fault) -> StoreError:
        why = fault.why or _WHY.get(fault.kind, fault.kind)
        if fault.kind == "transient":
            why = f"failed {self._tries} times: {why}; check the network and the store, try again"
        return StoreError(f"{self.name(key)}: {why}", fault.kind)


_WHY = {
    "missing": "there is no such object; check the name",
    "changed": "has changed since it was listed or opened (its ETag is another one); start again "
    "with the object as it is now",
}


@functools.lru_cache(maxsize=64)
def _bucket(scheme: str, name: str, process: int) -> Bucket:
    return Bucket(scheme, name)


def locate(path: str) -> tuple[Store, str]:
    """Returns the store of the folder that an object is in, and its key there."""
    base, key = _divided(path)
    folder, slash, name = key.rpartition("/")
    return Store.at(f"{base}{folder or slash}"), name


def find(path: str) -> tuple[Store, list[Entry]]:
    """Returns what a URL names, and the store that it is in.

    This is one object, the objects that match a pattern, or those below a folder, sorted by key.
    Raises StoreError if there are none.
    """
    base, key = _divided(path)
    if is_pattern(key):
        folder = fixed(key)
        store = Store.at(base + folder)
        if results := store.glob(key[len(folder) :].lstrip("/") if folder else key):
            return store, results
        raise StoreError(f"{redacted(path)}: the pattern matches no object", "missing")
    store, name = locate(path)
    if name:
        try:
            return store, [store.head(name)]
        except StoreError as error:
            if error.kind != "missing":
                raise
    if not base.startswith("http"):
        store = Store.at(path)
        if results := store.entries():
            return store, results
    raise StoreError(f"{redacted(path)}: {_WHY['missing']}", "missing")


def _divided(path: str) -> tuple[str, str]:
    """Returns a URL as the beginning of its bucket, and a key."""
    try:
        scheme, name, key = parts(path)
    except ValueError as error:
        raise StoreError(f"{redacted(path)}: {error}", "refused") from None
    return f"{scheme}://{name}/", key
