"""Caches vocabularies on the disk, because it takes seconds to prove one.

Input: the bytes of a vocabulary's file, and a function that reads them. Output: the Vocabulary. A
file of the cache is named by the SHA-256 of these bytes and of the code that reads them. It begins
with the SHA-256 of the rest: where this differs, as after a crash, the file is replaced. A file has
its name only when it is complete, so several processes may write the same one. What was used
longest ago goes. A cache that cannot be written is left alone.
"""

import hashlib
import marshal
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path

from mypt_spec.table import IdSet
from mypt_spec.tokenizer.vocabulary import Vocabulary

FOLDER = "vocabularies"
FILES = 8  # at most, of some megabytes each
LEAST = 1 << 18  # bytes of a file from which on it is worth it
_DIGEST = 32
_FIELDS = [field.name for field in fields(Vocabulary)]


def proved(data: bytes, read: Callable[[], Vocabulary]) -> Vocabulary:
    """Returns the vocabulary of a file, read at most once. Raises what `read` raises."""
    if len(data) < LEAST:
        return read()
    try:
        file = (
            cache_folder()
            / FOLDER
            / hashlib.sha256(_code() + hashlib.sha256(data).digest()).hexdigest()
        )
    except RuntimeError:  # the user has no home
        return read()
    with suppress(OSError, ValueError):
        return _stored(file)
    vocabulary = read()
    with suppress(OSError):
        _store(vocabulary, file)
    return vocabulary


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


def _stored(file: Path) -> Vocabulary:
    """Returns the vocabulary of a file of the cache. Raises ValueError for a damaged one."""
    content = file.read_bytes()
    rest = memoryview(content)[_DIGEST:]
    if hashlib.sha256(rest).digest() != content[:_DIGEST]:
        raise ValueError(f"{file}: was altered")
    values = dict(zip(_FIELDS, marshal.loads(rest), strict=True))
    values["ids"] = IdSet(tuple(range(*bounds) for bounds in values["ids"]))
    with suppress(OSError):
        os.utime(file)
    return Vocabulary(**values)


def _store(vocabulary: Vocabulary, file: Path) -> None:
    values = {name: getattr(vocabulary, name) for name in _FIELDS}
    values["ids"] = [(run.start, run.stop) for run in vocabulary.ids.ranges]
    values["unfit"] = dict(vocabulary.unfit)
    rest = marshal.dumps([*values.values()])
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
