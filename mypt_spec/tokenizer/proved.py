"""Caches vocabularies on the disk, because it takes seconds to prove one.

Input: the file of a vocabulary, and a function that reads its bytes. Output: the Vocabulary, or
another value of it. A file of the cache is named by the SHA-256 of the file and of the code that
reads it. It begins with the SHA-256 of the rest: where this differs, as after a crash, the file is
replaced. A file has its name only when it is complete, so several processes may write the same one.
What was used longest ago goes. A cache that cannot be written is left alone.
"""

import hashlib
import marshal
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from mypt_spec.table import IdSet
from mypt_spec.tokenizer.vocabulary import Vocabulary

FOLDER = "vocabularies"
FILES = 16  # at most, of some megabytes each second one
LEAST = 1 << 18  # bytes of a file from which on it is worth it
_DIGEST = 32
_FIELDS = [field.name for field in fields(Vocabulary)]


def proved(file: Path, read: Callable[[bytes], Vocabulary]) -> Vocabulary:
    """Returns the vocabulary of a file, which `read` makes of its bytes; see `cached`."""

    def pack(data: bytes) -> list[Any]:
        vocabulary = read(data)
        values = {name: getattr(vocabulary, name) for name in _FIELDS}
        values["ids"] = [(run.start, run.stop) for run in vocabulary.ids.ranges]
        return [*(values | {"unfit": dict(vocabulary.unfit)}).values()]

    values = dict(zip(_FIELDS, cached("vocabulary", file, pack), strict=True))
    values["ids"] = IdSet(tuple(range(*bounds) for bounds in values["ids"]))
    return Vocabulary(**values)


def cached(kind: str, file: Path, make: Callable[[bytes], Any]) -> Any:
    """Returns what `make` makes of the bytes of a file, at most once; `marshal` can write it.

    Raises OSError, and what `make` raises.
    """
    size, digest = file.stat().st_size, digest_of(file)
    place = None
    with suppress(RuntimeError):  # the user has no home
        name = hashlib.sha256(_code() + digest + kind.encode()).hexdigest()
        place = cache_folder() / FOLDER / name if size >= LEAST else None
    if place is not None:
        with suppress(OSError, ValueError):
            return _stored(place)
    data = file.read_bytes()
    value = make(data)
    if place is not None and hashlib.sha256(data).digest() == digest:  # nobody wrote it meanwhile
        with suppress(OSError):
            _store(value, place)
    return value


def digest_of(file: Path) -> bytes:
    """Returns the SHA-256 of a file, computed again where it was altered. Raises OSError."""
    facts = file.stat()
    return _digest(file, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=8)
def _digest(file: Path, *_: int) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def cache_folder() -> Path:
    """Returns the folder of all caches. Raises RuntimeError for a user without a home."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return (cache_home if cache_home.is_absolute() else Path.home() / usual) / "mypt-tags"


@cache
def _code() -> bytes:
    """Returns a SHA-256 of the code that reads vocabularies, and of how `marshal` writes."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {marshal.version}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _stored(file: Path) -> Any:
    """Returns the value of a file of the cache. Raises ValueError for a damaged one."""
    content = file.read_bytes()
    rest = memoryview(content)[_DIGEST:]
    if hashlib.sha256(rest).digest() != content[:_DIGEST]:
        raise ValueError(f"{file}: was altered")
    with suppress(OSError):
        os.utime(file)
    return marshal.loads(rest)


def _store(value: Any, file: Path) -> None:
    rest = marshal.dumps(value)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(hashlib.sha256(rest).digest() + rest)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
    ages = [(other.stat().st_mtime_ns, other) for other in file.parent.iterdir()]
    for _, other in sorted(ages)[:-FILES]:
        other.unlink(missing_ok=True)
