"""Keeps objects of a store on the disk, within a bound, for all processes of a machine.

Input: a folder of a store, in which one object describes the others. Output: a folder here with the
same names, whose files are whole and have the SHA-256 that is expected. What was used longest ago
goes first when room is needed. Files take their names when they are complete, so a kill leaves
nothing that is read.
"""

import hashlib
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from mypt_cli.atomic import replacing, sha256
from mypt_cli.store.store import Store

try:
    import fcntl
except ImportError:  # processes then may fetch the same file twice
    fcntl = None  # type: ignore[assignment]

LIMIT = 64 << 30
_PART = ".part"
_STALE = 3600.0  # seconds after which a part was left by a kill, where no lock says so
_LOCKS = 64  # files that different processes fetch at once wait for one another by chance alone
_PIECE = 1 << 20


class CacheError(Exception):
    """An object cannot be kept here; the message names it and what to do."""


@dataclass(frozen=True)
class Cache:
    """Where objects of stores are kept, and how many bytes of them.

    `folder` is by default `mypt-tags/shards` in the user's cache folder. Other processes may use it
    at the same time, with the same limit. Files that a process has mapped when they go keep their
    room on the disk until it ends.
    """

    folder: Path | None = None
    limit: int = LIMIT

    @property
    def root(self) -> Path:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return self.folder or Path(home, "mypt-tags", "shards")


class LocalCopy:
    """A folder of a store, as a folder here.

    What is in no folder of its own comes at once and stays, but for the names that `leave` leaves
    out; the rest comes when it is used. `manifest` is
    the object whose bytes decide the others: another manifest is another folder here. Raises
    StoreError, CacheError and OSError.
    """

    def __init__(
        self, url: str, manifest: str, cache: Cache, *, leave: Callable[[str], bool], verify: bool
    ) -> None:
        self.store, self.cache, self.verify = Store.at(url), cache, verify
        self._sound: set[str] = set()
        data = self.store.read(manifest)
        self.folder = cache.root / hashlib.sha256(data).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = self.store.entries()
        self.sizes = {entry.key: entry.size for entry in listed}
        for entry in listed:
            if "/" not in entry.key and not leave(entry.key):
                self._copy(entry.key, entry.size, entry.etag)

    def size(self, name: str) -> int:
        """Returns the bytes of an object."""
        if name not in self.sizes:  # stores may list late
            self.sizes[name] = self.store.head(name).size
        return self.sizes[name]

    def fetch(self, name: str, entry: Mapping[str, Any]) -> Path:
        """Returns the file of an object, fetched if it is not here, with these bytes and SHA-256.

        With `verify`, a file that is here is read once more when it is first used.
        """
        path = self.folder / name
        trusted = name in self._sound or not self.verify
        if trusted and _touched(path, entry["bytes"]):
            return path
        with locked(self.cache.root / f".lock{zlib.crc32(name.encode()) % _LOCKS}"):
            here = _touched(path, entry["bytes"])
            # What is damaged on this disk is fetched again.
            if not here or (self.verify and sha256(path) != entry["sha256"]):
                self._fetch(name, path, entry)
        self._sound.add(name)
        return path

    def _fetch(self, name: str, path: Path, entry: Mapping[str, Any]) -> None:
        size: int = entry["bytes"]
        path.parent.mkdir(parents=True, exist_ok=True)
        part, out = self._room(path, size)
        digest = hashlib.sha256()
        try:
            with out, self.store.open(name) as data:
                while piece := data.read(_PIECE):
                    digest.update(piece)
                    out.write(piece)
                if digest.hexdigest() != entry["sha256"]:
                    raise CacheError(
                        f"{self.store.name(name)}: was altered (SHA-256 {digest.hexdigest()[:12]}, "
                        f"expected {entry['sha256'][:12]}); copy or prepare it again"
                    )
                out.flush()
                if fcntl is None:
                    out.close()
                os.replace(part, path)  # before its lock ends, so that nobody takes it for dead
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise

    def _room(self, path: Path, size: int) -> tuple[Path, BinaryIO]:
        """Returns a new file for `size` bytes, after what was used longest ago has made room."""
        root, limit = self.cache.root, self.cache.limit
        if size > limit:
            raise CacheError(
                f"{self.store.name(path.relative_to(self.folder).as_posix())}: has {size} bytes, "
                f"and the cache {root} may hold {limit}; give it more room"
            )
        with locked(root / ".lock"):
            files, total = [], size
            for file, status in _files(root):
                if file.suffix == _PART and _is_dead(file, status):
                    file.unlink(missing_ok=True)
                elif file.suffix == _PART:  # its name says what it will be
                    total += int(file.stem.rpartition(".")[2])
                else:
                    total += status.st_size
                    files.append((status.st_mtime_ns, status.st_size, file))
            for _, freed, file in sorted(files):
                if total <= limit:
                    break
                with suppress(OSError):  # a system that deletes no open file
                    file.unlink()
                    total -= freed
            part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.{size}{_PART}")
            out = part.open("xb")
            if fcntl is not None:
                fcntl.flock(out, fcntl.LOCK_EX)  # until it is closed, at the latest by a kill
            return part, out

    def _copy(self, name: str, size: int, etag: str) -> None:
        path = self.folder / name
        if not path.exists() or path.stat().st_size != size:
            with replacing(path) as out:
                out.write(self.store.read(name, etag=etag))


def _files(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for file in root.glob("*/*/*"):
        with suppress(FileNotFoundError):
            yield file, file.stat()


def _is_dead(part: Path, status: os.stat_result) -> bool:
    if fcntl is None:
        return time.time() - status.st_mtime > _STALE
    try:
        with part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _touched(path: Path, size: int) -> bool:
    """Returns whether a file of this size is there, and notes that it is used."""
    with suppress(FileNotFoundError):
        if path.stat().st_size == size:
            os.utime(path)
            return True
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets one process in at a time; a lock ends with its process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
