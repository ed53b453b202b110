"""Reads the files of a workspace without ever leaving its folder.

Input: a folder. Output: the bytes of files, or why a file is left out. A path is walked name by
name from an open folder, and no link is followed: a link, a device, a pipe, or a folder that is
swapped for a link during the walk, is never read.
"""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

# The most bytes of a file.
MAX_BYTES = 16 << 20
# The most folders within folders.
MAX_DEPTH = 64
# The most characters of a path inside the workspace.
MAX_NAME = 1024
# A file that was changed in the last two seconds may change again within one tick of its times.
_FRESH = 2_000_000_000
_LARGE = f"larger than {MAX_BYTES >> 20} MiB"
# O_NONBLOCK, so that opening a pipe does not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = _FLAGS | os.O_DIRECTORY


class FileEntry(NamedTuple):
    """A file, not read yet: its path inside the workspace, with `/`, and its size in bytes.

    `signature` changes with each change of the file; it is empty if the file is so new that its
    next change could have the same times.
    """

    path: str
    signature: str
    size: int


class FileContent(NamedTuple):
    """The bytes of a file, and when it was modified, in seconds since 1970."""

    data: bytes
    modified: float


class Skipped(NamedTuple):
    """A file or folder that was not read, and why. Odd characters of `path` are escaped."""

    path: str
    reason: str


class Tree:
    """An open folder of documents, as a context. Raises NotADirectoryError if it is none."""

    def __init__(self, base: Path) -> None:
        self._root = os.open(base, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def walk(self, *, without: Path | None = None) -> Iterator[FileEntry | Skipped]:
        """Yields all files, sorted by path, without hidden names and the folder `without`."""
        avoid = None
        with suppress(OSError):
            avoid = without.stat() if without is not None else None
        newest = time.time_ns() - _FRESH
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            prefix = "".join(f"{part}/" for part in parts)
            folders: list[tuple[str, ...]] = []
            try:
                with self._folder(parts) as here:
                    if avoid is not None and os.path.samestat(os.fstat(here), avoid):
                        continue
                    with os.scandir(here) as entries:
                        for entry in sorted(entries, key=lambda entry: entry.name):
                            if entry.name.startswith("."):
                                continue
                            item = _entry(prefix + entry.name, entry, len(parts), newest)
                            if item is None:
                                folders.append((*parts, entry.name))
                            else:
                                yield item
            except OSError as error:
                yield Skipped(printable_path("/".join(parts)), error.strerror or "cannot be read")
            waiting += reversed(folders)

    def read(self, path: str) -> FileContent | Skipped:
        """Reads a file that `walk` has yielded."""
        *parts, name = path.split("/")
        try:
            with self._folder(tuple(parts)) as here:
                file = os.fdopen(os.open(name, _FLAGS, dir_fd=here), "rb")
            with file:
                # Of the opened file: by now, the name may mean another one.
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return Skipped(path, "no regular file")
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            return Skipped(path, error.strerror or "cannot be read")
        if len(data) > MAX_BYTES:
            return Skipped(path, _LARGE)
        return FileContent(data, status.st_mtime)

    @contextmanager
    def _folder(self, parts: tuple[str, ...]) -> Iterator[int]:
        here = os.dup(self._root)
        try:
            for name in parts:
                inner = os.open(name, _FOLDER, dir_fd=here)
                os.close(here)
                here = inner
            yield here
        finally:
            os.close(here)


def _entry(
    path: str, entry: os.DirEntry[str], depth: int, newest: int
) -> FileEntry | Skipped | None:
    """Looks at a name in an open folder; returns None for a folder that is to be entered."""
    reason = odd(path)
    if reason:
        return Skipped(printable_path(path), reason)
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return Skipped(path, error.strerror or "cannot be read")
    kind = status.st_mode
    if stat.S_ISREG(kind):
        if status.st_size > MAX_BYTES:
            return Skipped(path, _LARGE)
        changed, modified = status.st_ctime_ns, status.st_mtime_ns
        new = changed > newest or modified > newest
        signature = "" if new else f"{modified} {changed} {status.st_size} {status.st_ino}"
        return FileEntry(path, signature, status.st_size)
    if stat.S_ISDIR(kind):
        deep = depth >= MAX_DEPTH
        return Skipped(path, f"more than {MAX_DEPTH} folders deep") if deep else None
    return Skipped(path, "a link" if stat.S_ISLNK(kind) else "no regular file")


def odd(path: str) -> str:
    """Returns why a path cannot be shown as it is; an empty string if it can."""
    if len(path) > MAX_NAME:
        return f"a path of more than {MAX_NAME} characters"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in path):
        return "a name with characters that cannot be shown"
    return ""


def printable_path(path: str) -> str:
    """Returns a path for people: odd characters are escaped, and its length is bounded."""
    text = "".join(
        c if not odd(c) else c.encode("unicode_escape", "surrogatepass").decode()
        for c in path[:MAX_NAME]
    )
    return text if len(path) <= MAX_NAME else text + "…"
