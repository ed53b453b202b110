"""Reads the files of a workspace without ever leaving its folder.

Input: a folder. Output: the bytes of each file, or why a file is left out. A path is walked name by
name from an open folder, and no link is followed: a link, a device, a pipe, or a folder that is
swapped for a link during the walk, is never read.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

# The most bytes of a file.
MAX_BYTES = 16 << 20
# The most folders within folders.
MAX_DEPTH = 64
# The most characters of a path inside the workspace.
MAX_NAME = 1024
# O_NONBLOCK, so that opening a pipe does not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = _FLAGS | os.O_DIRECTORY


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was read.

    `path` is its path inside the workspace, with `/`; `modified` is in seconds since 1970.
    """

    path: str
    data: bytes
    modified: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that was not read, and why. Odd characters of `path` are escaped."""

    path: str
    reason: str


def walk(base: Path, *, without: Path | None = None) -> Iterator[Found | Skipped]:
    """Yields all files under `base`, sorted by path; the folder `without` is not entered.

    Names that begin with a dot are neither read nor yielded. Raises NotADirectoryError if `base` is
    no folder.
    """
    root = os.open(base, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        avoid = _identity(without)
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            folders: list[tuple[str, ...]] = []
            try:
                with _folder(root, parts) as here:
                    if avoid is not None and _same(here, avoid):
                        continue
                    for name in sorted(os.listdir(here)):
                        if not name.startswith("."):
                            found = _look((*parts, name), here)
                            if found is None:
                                folders.append((*parts, name))
                            else:
                                yield found
            except OSError as error:
                yield Skipped(shown("/".join(parts)), error.strerror or "cannot be read")
            waiting += reversed(folders)
    finally:
        os.close(root)


def _look(parts: tuple[str, ...], folder: int) -> Found | Skipped | None:
    """Reads a name in an open folder; returns None for a folder that is to be entered."""
    path = "/".join(parts)
    reason = odd(path)
    if reason:
        return Skipped(shown(path), reason)
    try:
        kind = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind):
            return (
                None
                if len(parts) <= MAX_DEPTH
                else Skipped(path, f"more than {MAX_DEPTH} folders deep")
            )
        if not stat.S_ISREG(kind):
            return Skipped(path, "a link" if stat.S_ISLNK(kind) else "no regular file")
        return _read(path, parts[-1], folder)
    except OSError as error:
        return Skipped(path, error.strerror or "cannot be read")


def _read(path: str, name: str, folder: int) -> Found | Skipped:
    with closing(os.fdopen(os.open(name, _FLAGS, dir_fd=folder), "rb")) as file:
        # Of the opened file: by now, the name may mean another one.
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return Skipped(path, "no regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return Skipped(path, f"larger than {MAX_BYTES >> 20} MiB")
    return Found(path, data, status.st_mtime)


@contextmanager
def _folder(root: int, parts: tuple[str, ...]) -> Iterator[int]:
    here = os.dup(root)
    try:
        for name in parts:
            inner = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _identity(folder: Path | None) -> tuple[int, int] | None:
    try:
        found = folder.stat() if folder is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def _same(folder: int, identity: tuple[int, int]) -> bool:
    status = os.fstat(folder)
    return (status.st_dev, status.st_ino) == identity


def odd(path: str) -> str:
    """Returns why a path cannot be shown as it is; an empty string if it can."""
    if len(path) > MAX_NAME:
        return f"a path of more than {MAX_NAME} characters"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in path):
        return "a name with characters that cannot be shown"
    return ""


def shown(path: str) -> str:
    """Returns a path for people: odd characters are escaped, and its length is bounded."""
    text = "".join(
        c if not odd(c) else c.encode("unicode_escape", "surrogatepass").decode()
        for c in path[:MAX_NAME]
    )
    return text if len(path) <= MAX_NAME else text + "…"
