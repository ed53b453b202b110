"""The files of a workspace, read without ever leaving its folder.

A path is walked name by name from an open folder, and no link is followed: a link, a device, a
pipe, or a folder that is swapped for a link while the walk goes on, is never read. What is left out
is named, with the reason.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 16 << 20  # of one file
MAX_DEPTH = 64  # of folders
MAX_NAME = 1024  # characters of a path inside the workspace
_FLAGS = (
    os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
)  # a pipe must not make the walk wait
_FOLDER = _FLAGS | os.O_DIRECTORY


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was read: its path inside the workspace, with `/`, its bytes, and when it was
    modified (seconds since 1970).
    """

    path: str
    data: bytes
    modified: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not read, and why. `path` is shown with its odd characters escaped."""

    path: str
    reason: str


def walk(base: Path, *, without: Path | None = None) -> Iterator[Found | Skipped]:
    """All files under `base`, in the order of their paths; `without` is a folder that is not
    entered.

    Names that begin with a dot are hidden: neither read nor named. Raises NotADirectoryError when
    `base` is no folder.
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
    """What a name in an open folder is; None for a folder that is to be entered."""
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
        status = os.fstat(
            file.fileno()
        )  # of what was opened: the name may mean something else by now
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
    """Why a path cannot be shown as it is; "" when it can."""
    if len(path) > MAX_NAME:
        return f"a path of more than {MAX_NAME} characters"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in path):
        return "a name with characters that cannot be shown"
    return ""


def shown(path: str) -> str:
    """A path for people: characters that cannot be shown are escaped, and it is not too long."""
    text = "".join(
        c if not odd(c) else c.encode("unicode_escape", "surrogatepass").decode()
        for c in path[:MAX_NAME]
    )
    return text if len(path) <= MAX_NAME else text + "…"
