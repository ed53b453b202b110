"""Reads another vocabulary in place of GPT-2's: a file of ranks, as tiktoken writes them.

A line is a token in base64, a space, and its rank, which is its id. Text is cut into pieces as
GPT-2 cuts it; then, of all neighbours that make a token, those of the lowest rank are joined first.
The grammar is the same on every vocabulary; one id for padding follows those of text, and then the
ids of tags.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from pathlib import Path

FILE = "vocabulary.tiktoken"  # the name of a copy, which is kept with data made with it
_SHAPE = "expected lines of a token in base64 and its rank, as tiktoken writes them"


class VocabularyError(RuntimeError):
    """A vocabulary is missing, altered or damaged; the message says which file, and what to do."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """A vocabulary that was read.

    `name` is made of its SHA-256; `ranks[token]` is the id; `data` are the bytes of the file.
    """

    name: str
    sha256: str
    ranks: dict[bytes, int]
    data: bytes


_known: dict[str, Ranks] = {}


def read_ranks(path: str | Path) -> Ranks:
    """Returns the vocabulary of a file; for equal bytes the same object.

    Raises VocabularyError, which names the line that is wrong.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"{path}: cannot be read: {error.strerror or error}; name a file of ranks ({FILE})"
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if digest not in _known:
        _known[digest] = Ranks(f"ranks-{digest[:16]}", digest, _ranks(data, str(path)), data)
    return _known[digest]


def write_ranks(ranks: dict[bytes, int]) -> bytes:
    """Returns the bytes of a file that holds these ranks."""
    rows = sorted(ranks.items(), key=lambda item: item[1])
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in rows)


def _ranks(data: bytes, path: str) -> dict[bytes, int]:
    out: dict[bytes, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            word, shown = line.split()
            token, rank = base64.b64decode(word, validate=True), int(shown)
        except (ValueError, binascii.Error):
            raise VocabularyError(f"{path}:{number}: {_SHAPE}") from None
        if not token or token in out or rank != len(out):
            what = (
                f"rank {rank} stands where {len(out)} is expected"
                if token and token not in out
                else "the token is empty, or stands twice"
            )
            raise VocabularyError(
                f"{path}:{number}: {what}; ranks count from 0, in order, and every token has one"
            )
        out[token] = rank
    lacks = [byte for byte in range(256) if bytes([byte]) not in out]
    if lacks:
        raise VocabularyError(
            f"{path}: has no token for the byte {lacks[0]:#04x} ({len(lacks)} of 256 bytes lack); "
            f"{_SHAPE}"
        )
    return out
