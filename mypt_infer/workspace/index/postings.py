"""Keeps in SQLite in which chunks each term is, and how often.

Input: terms of chunks, which are numbered from 0. Output: the postings of a term, an array of
uint32 in ascending order. A posting is

    chunk << 8  |  times in the chunk, at most 31 << 3  |  times in the lead, at most 7

The lead is the title, the path and the beginning of a document; its times are with the document's
first chunk. The postings of a term are cut into rows of at most 4 KB, keyed by term and first
chunk. So adding or removing a document rewrites one short row for each of its terms, however large
the index is, and SQLite's transactions make that all or nothing.

The trigrams of the terms are kept the same way, with terms in the place of chunks: by them,
`similar_terms` finds terms that are spelled like a word.
"""

import json
import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

# The most chunks, and the most terms.
MOST = 1 << 24
MOST_TIMES, MOST_LEAD = 31, 7
_ROW = 1024
# Postings that are gathered in memory before they are written.
_GATHERED = 2_000_000
# Trigrams are terms that begin with this character, which no word holds.
_MARK = "\x01"
# Words of other lengths have no trigrams that tell them from others.
SPELLED = range(3, 25)


def posting(chunk: int, times: int, lead: int = 0) -> int:
    """Returns one posting; see the module's description."""
    return chunk << 8 | min(times, MOST_TIMES) << 3 | min(lead, MOST_LEAD)


def trigrams(term: str) -> list[str]:
    """Returns the trigrams of a term and its ends, each once.

    >>> trigrams("file")
    ['<fi', 'fil', 'ile', 'le>']
    """
    word = f"<{term}>"
    return list(dict.fromkeys(word[i : i + 3] for i in range(len(word) - 2)))


class Postings:
    """The postings in an open database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def ids(self, terms: Iterable[str]) -> dict[str, int]:
        """Returns the numbers of those terms that any document has, or has had."""
        query = "SELECT term, id FROM terms WHERE term IN (SELECT value FROM json_each(?))"
        return dict(self._db.execute(query, (json.dumps(list(terms)),)))

    def postings_of(self, term: int) -> npt.NDArray[np.uint32]:
        """Returns the postings of a term, by its number."""
        rows = self._db.execute(
            "SELECT data FROM postings WHERE id BETWEEN ? AND ? ORDER BY id", _keys(term)
        ).fetchall()
        return np.frombuffer(b"".join(row[0] for row in rows), dtype="<u4")

    def similar_terms(self, word: str) -> Counter[str]:
        """Returns terms that share trigrams with a word, and how many."""
        grams = self.ids(_MARK + gram for gram in trigrams(word))
        lists = [self.postings_of(key) >> 8 for key in grams.values()]
        if not lists:
            return Counter()
        terms, counts = np.unique(np.concatenate(lists), return_counts=True)
        best = np.argsort(-counts, kind="stable")[:200]
        marks = ",".join(str(int(terms[i])) for i in best)
        names = dict(self._db.execute(f"SELECT id, term FROM terms WHERE id IN ({marks})"))
        return Counter({names[int(terms[i])]: int(counts[i]) for i in best})

    def beginning(self, letter: str) -> list[str]:
        """Returns the terms that begin with a letter, at most 200."""
        query = "SELECT term FROM terms WHERE term >= ? AND term < ? ORDER BY term LIMIT 200"
        return [row[0] for row in self._db.execute(query, (letter, letter + "\U0010ffff"))]

    def remove(self, terms: Iterable[str], first: int, chunks: int) -> None:
        """Removes a document: its terms, its first chunk, and the number of its chunks."""
        for term in self.ids(terms).values():
            low, _ = _keys(term)
            rows = self._db.execute(
                "SELECT id, data FROM postings WHERE id <= ? AND id >= coalesce((SELECT max(id) "
                "FROM postings WHERE id BETWEEN ? AND ?), ?)",
                (low + first + chunks - 1, low, low + first, low),
            ).fetchall()
            for key, data in rows:
                old = np.frombuffer(data, dtype="<u4")
                remaining = old[(old >> 8 < first) | (old >> 8 >= first + chunks)]
                if not len(remaining):
                    self._db.execute("DELETE FROM postings WHERE id = ?", (key,))
                elif len(remaining) < len(old):
                    self._db.execute(
                        "UPDATE postings SET data = ? WHERE id = ?", (remaining.tobytes(), key)
                    )


class Adder:
    """Adds postings, in ascending order of chunks; `flush` writes what is gathered."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._postings = db, Postings(db)
        self._numbers: dict[str, int] = {}
        self._gathered: defaultdict[int, array[int]] = defaultdict(lambda: array("I"))
        self._count = 0
        (self._next,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM terms").fetchone()

    def add(self, chunk: int, times: Counter[str], lead: Counter[str]) -> None:
        """Adds the terms of one chunk. Raises ValueError if the index is full."""
        if chunk >= MOST or self._next >= MOST:
            raise ValueError(f"an index holds at most {MOST:,} chunks and words")
        for terms in (times, lead):
            self._number_all(terms)
        for term in times.keys() | lead.keys():
            self._gather(term, posting(chunk, times[term], lead[term]))
        if self._count > _GATHERED:
            self.flush()

    def flush(self) -> None:
        """Writes what is gathered."""
        for term in sorted(self._gathered):
            new = self._gathered[term]
            low, high = _keys(term)
            last = self._db.execute(
                "SELECT id, data FROM postings WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
                (low, high),
            ).fetchone()
            if last is not None and len(last[1]) < 4 * _ROW:
                new = array("I", last[1]) + new
                self._db.execute("DELETE FROM postings WHERE id = ?", (last[0],))
            rows = (new[at : at + _ROW] for at in range(0, len(new), _ROW))
            self._db.executemany(
                "INSERT INTO postings VALUES (?, ?)",
                ((low + (row[0] >> 8), row.tobytes()) for row in rows),
            )
        self._gathered.clear()
        self._count = 0

    def _gather(self, term: str, value: int) -> None:
        self._gathered[self._numbers[term]].append(value)
        self._count += 1

    def _number_all(self, terms: Iterable[str]) -> None:
        """Gives new terms their numbers, and their trigrams postings."""
        grams = {t: [_MARK + g for g in trigrams(t)] for t in self._number(terms)}
        grams = {term: keys for term, keys in grams.items() if len(term) in SPELLED}
        self._number(gram for keys in grams.values() for gram in keys)
        for term, keys in grams.items():
            for gram in keys:
                self._gather(gram, posting(self._numbers[term], 1))

    def _number(self, terms: Iterable[str]) -> list[str]:
        """Gives new terms their numbers, and returns these terms."""
        unknown = {term for term in terms if term not in self._numbers}
        self._numbers.update(self._postings.ids(unknown))
        new = sorted(term for term in unknown if term not in self._numbers)
        self._db.executemany("INSERT INTO terms VALUES (?, ?)", enumerate(new, self._next))
        self._numbers.update((term, key) for key, term in enumerate(new, self._next))
        self._next += len(new)
        return new


def _keys(term: int) -> tuple[int, int]:
    """Returns the least and the greatest key that a row of a term's postings may have."""
    return term << 24, (term + 1 << 24) - 1
