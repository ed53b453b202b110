"""Defines documents and chunks, and the ids by which tools name them.

An id depends on the path alone, so it stays the same when a document changes.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# The usual number of characters in a chunk.
CHUNK = 1000
_SLUG = re.compile(r"[^a-z0-9]+")
_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?]\s"), re.compile(r"\s"))


@dataclass(frozen=True, slots=True)
class Document:
    """A document. `path` is its path inside the workspace, with `/`.

    Times are seconds since 1970: `created_at` is when the file was modified as it was first
    indexed, `updated_at` when the file with the present text was modified.
    """

    doc_id: str
    title: str
    path: str
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document's text; `position` counts from 0. All pieces, joined, are the text.

    Of a chunk that a search has found, `score` says how well it fits, from 0 to 1. Two chunks are
    equal whatever their scores are.
    """

    chunk_id: str
    doc_id: str
    text: str
    position: int
    score: float = field(default=0.0, compare=False)


def doc_id(path: str, used_ids: frozenset[str] | set[str] = frozenset()) -> str:
    """Returns the id of a document: its name, and a few digits that tell equal names apart.

    The id depends on `path`, inside the workspace, and on the ids `used_ids` by other documents.

    >>> doc_id("policies/Security Policy v2.md")
    'security-policy-v2-f7bf66'
    """
    name = unicodedata.normalize("NFKD", PurePosixPath(path).stem).encode("ascii", "ignore")
    slug = _SLUG.sub("-", name.decode().lower()).strip("-")[:60].strip("-") or "doc"
    digest = hashlib.sha256(path.encode()).hexdigest()
    return next(key for n in range(6, 65) if (key := f"{slug}-{digest[:n]}") not in used_ids)


def chunk_id(doc: str, position: int) -> str:
    return f"{doc}#{position}"


def cut(text: str, size: int = CHUNK) -> Iterator[str]:
    """Yields a text in pieces of about `size` characters. Nothing is lost.

    A piece ends where a paragraph, a line, a sentence or a word ends, if possible.

    >>> list(cut("One two. Three four.", 12))
    ['One two. ', 'Three four.']
    """
    at = 0
    while len(text) - at > size:
        window = text[at : at + size]
        ends = (max((m.end() for m in end.finditer(window)), default=0) for end in _ENDS)
        at, start = at + next((e for e in ends if e > size // 3), size), at
        yield text[start:at]
    if at < len(text):
        yield text[at:]
