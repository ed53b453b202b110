"""Ranks documents and their chunks for a query, by BM25 of the whole, the lead and the best chunk.

Input: the postings of the query's words, and the lengths of all chunks. Output: a score from 0 to 1
for each document that has a word of the query, and one for each chunk. A document's score is the
sum of

    BM25 of its text, 1.5 x BM25 of its lead, BM25 of its best chunk

with one weight for a word in all of them, by the number of documents that have it. The whole says
what a document is about, the lead says it in few words, and a chunk has the query's words close
together. Divided by the most that a document could reach, it is the part of the query that was
found: words that no document has count as missing. The factors are those of `bench/search.py`;
between half and double of each, the judged queries find nearly the same.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.workspace.index.embed import Floats

Ints = npt.NDArray[np.int64]

_LEAD, _CHUNK = 1.5, 1.0
# How soon repetitions stop to count, and how much longer texts are held back (k1 and b of BM25).
_SATURATION, _BY_LENGTH, _BY_LEAD, _BY_CHUNK = 1.5, 0.75, 0.3, 0.5


class Word(NamedTuple):
    """A word of the query: its postings, ascending, and its weight (1: spelled as in the query)."""

    postings: npt.NDArray[np.uint32]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """The documents of an index, by their first chunks, and what BM25 makes of their lengths.

    `doc_of` and `chunk` are by chunk: the place of its document, and how much its length holds its
    score back. The others are by document: its id, its first chunk, the number of its chunks, and
    how much its length, and that of its lead, hold its score back.
    """

    ids: Ints
    first: Ints
    count: Ints
    doc_of: Ints
    chunk: Floats
    total: Floats
    lead: Floats


def lengths(db: sqlite3.Connection) -> Lengths:
    """Reads the lengths of all documents of an index."""
    rows = db.execute("SELECT id, first, lengths, lead FROM docs ORDER BY first").fetchall()
    ids, first, lead = (
        np.array([row[i] for row in rows], dtype=np.int64).reshape(-1) for i in (0, 1, 3)
    )
    counts = np.array([len(row[2]) // 2 for row in rows], dtype=np.int64)
    flat = np.frombuffer(b"".join(row[2] for row in rows), dtype="<u2").astype(np.float32)
    size = int(first[-1] + counts[-1]) if len(rows) else 0
    owner = np.repeat(np.arange(len(rows)), counts)
    starts = np.cumsum(counts) - counts
    places = np.arange(len(flat)) - starts[owner] + first[owner] if len(rows) else owner
    doc_of, chunk = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.float32)
    doc_of[places], chunk[places] = owner, flat
    totals = np.add.reduceat(flat, starts) if len(rows) else flat
    chunk, totals = _held_back(chunk, flat, _BY_CHUNK), _held_back(totals, totals, _BY_LENGTH)
    leads = _held_back(lead.astype(np.float32), lead, _BY_LEAD)
    return Lengths(ids, first, counts, doc_of, chunk, totals, leads)


def rank(words: Iterable[Word], sizes: Lengths) -> tuple[Floats, Floats]:
    """Returns the scores of documents, at least one, by their place, and of chunks, from 0 to 1."""
    count = len(sizes.ids)
    docs = np.zeros(count, dtype=np.float32)
    chunks = np.zeros(len(sizes.chunk), dtype=np.float32)
    reach = 0.0
    for postings, weight in words:
        at = (postings >> 8).astype(np.int64)
        times = (postings >> 3 & 31).astype(np.float32)
        owner = sizes.doc_of[at]
        starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]]) if len(at) else at
        rows = owner[starts]
        rarity = np.float32(np.log(1 + (count - len(rows) + 0.5) / (len(rows) + 0.5)))
        reach += float(rarity)
        if not len(at):
            continue
        rarity *= np.float32(weight)
        total = np.add.reduceat(times, starts)
        docs[rows] += rarity * total / (total + sizes.total[rows])
        chunks[at] += rarity * times / (times + sizes.chunk[at])
        in_lead = (postings & 7).astype(np.float32)
        led = np.flatnonzero(in_lead)
        here = owner[led]
        docs[here] += _LEAD * rarity * in_lead[led] / (in_lead[led] + sizes.lead[here])
    docs += _CHUNK * np.maximum.reduceat(chunks, sizes.first)
    most = np.float32(max(reach, 1e-9) * (1 + _LEAD + _CHUNK))
    return docs / most, chunks / most


def _held_back(length: Floats, every: npt.NDArray[np.generic], share: float) -> Floats:
    """Returns BM25's k1 * (1 - b + b * length / average), where `share` is b."""
    average = max(1.0, float(every.mean(dtype=np.float64))) if len(every) else 1.0
    out: Floats = (_SATURATION * (1 - share + share / average * length)).astype(np.float32)
    return out
