"""Puts documents into an index, and takes them out.

Input: the open database of an index, within a transaction; documents. Output: rows of all tables.
"""

import sqlite3
import zlib
from array import array
from collections import Counter
from typing import NamedTuple

from mypt_infer.workspace.index.model import cut, doc_id
from mypt_infer.workspace.index.postings import Adder, Postings
from mypt_infer.workspace.index.store import set_state, state
from mypt_infer.workspace.index.terms import language_for, terms_of

# Chunks that are compressed together, and the character between them, which no text holds.
_TOGETHER, _BETWEEN = 8, "\0"
# The letters at the beginning of a text that count as lead.
_LEAD = 200


class Entry(NamedTuple):
    """A document that is to be indexed. `signature` and `modified` are those of `files`."""

    path: str
    title: str
    text: str
    digest: str
    signature: str
    modified: float


class Documents:
    """The documents of an open index."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._next = db, int(state(db)["next"])
        self._adder: Adder | None = None

    def put(self, new: Entry) -> None:
        """Adds a document, in the place of one with its path."""
        query = "SELECT created, doc_id FROM docs WHERE path = ?"
        before = self._db.execute(query, (new.path,)).fetchone()
        self.remove(new.path)
        created, key = before or (new.modified, self._key(new.path))
        chunks, first = [*cut(new.text)], self._next
        language = language_for(new.text)
        self._adder = self._adder or Adder(self._db)
        times, lead = _terms(new.title, new.path, chunks, language)
        for i, counted in enumerate(times):
            self._adder.add(first + i, counted, lead if i == 0 else Counter())
        lengths = array("H", (min(c.total(), 0xFFFF) for c in times)).tobytes()
        row = (
            key, new.path, new.title, new.digest, new.signature, created, new.modified,
            language, first, len(chunks), lengths, lead.total(),
        )  # fmt: skip
        marks = "?, " * len(row)
        self._db.execute(f"INSERT INTO docs VALUES (NULL, {marks}NULL)", row)
        for i in range(0, len(chunks), _TOGETHER):
            data = zlib.compress(_BETWEEN.join(chunks[i : i + _TOGETHER]).encode())
            self._db.execute("INSERT INTO texts VALUES (?, ?)", (first + i, data))
        self._next += len(chunks)

    def remove(self, path: str) -> None:
        """Removes a document, if there is one with this path."""
        query = "SELECT id, title, language, first, chunks FROM docs WHERE path = ?"
        row = self._db.execute(query, (path,)).fetchone()
        if row is None:
            return
        key, title, language, first, chunks = row
        times, lead = _terms(title, path, texts(self._db, first, chunks), language)
        terms = {term for counted in (*times, lead) for term in counted}
        Postings(self._db).remove(terms, first, chunks)
        query = "DELETE FROM texts WHERE first BETWEEN ? AND ?"
        self._db.execute(query, (first, first + chunks - 1))
        self._db.execute("DELETE FROM docs WHERE id = ?", (key,))
        set_state(self._db, written=0)

    def note(self, path: str, signature: str) -> None:
        """Notes the signature of a file that has the same bytes as before."""
        self._db.execute("UPDATE docs SET signature = ? WHERE path = ?", (signature, path))

    def done(self) -> None:
        """Writes what is gathered; the transaction can be committed then."""
        if self._adder is not None:
            self._adder.flush()
            set_state(self._db, next=self._next, written=0)

    def _key(self, path: str) -> str:
        key = doc_id(path)
        # An id that is longer for the sake of another one begins with the same letters.
        query = "SELECT doc_id FROM docs WHERE doc_id BETWEEN ? AND ? || 'g'"
        return doc_id(path, {row[0] for row in self._db.execute(query, (key, key))})


def texts(db: sqlite3.Connection, first: int, chunks: int) -> list[str]:
    """Returns the texts of chunks of one document, from number `first` on. Raises zlib.error."""
    chunk_texts: list[str] = []
    at = first
    query = (
        "SELECT first, data FROM texts WHERE first <= ? AND first >= (SELECT max(first) FROM texts "
        "WHERE first <= ?) ORDER BY first"
    )
    for start, data in db.execute(query, (first + chunks - 1, first)).fetchall():
        here = zlib.decompress(data).decode().split(_BETWEEN)
        chunk_texts += here[max(0, at - start) :]
    return chunk_texts[:chunks]


def _terms(
    title: str, path: str, chunks: list[str], language: str
) -> tuple[list[Counter[str]], Counter[str]]:
    """Returns how often each chunk has each term, and the lead, where stop words may be names."""
    lead = "\n".join((title, path, "".join(chunks[:2]).lstrip()[:_LEAD]))
    times = [Counter(terms_of(chunk, language)) for chunk in chunks]
    return times, Counter(terms_of(lead, language, stop=False))
