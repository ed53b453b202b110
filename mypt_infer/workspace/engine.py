"""Answers questions about the documents of a folder, and searches them.

Input: ids, titles and queries. Output: documents and chunks. Only `refresh` reads files; all other
answers come from the index, in which an id is a key and never a path, so no argument of a tool can
reach a file outside the folder.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_infer.workspace import build
from mypt_infer.workspace.build import Report
from mypt_infer.workspace.embed import Embedder, named
from mypt_infer.workspace.model import Chunk, Document, chunk_id
from mypt_infer.workspace.store import (
    SQLITE,
    VECTORS,
    WorkspaceError,
    connect,
    current,
    default_index,
    embedder_of,
    usable,
)
from mypt_spec.memo import Memo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_TOP_K = 50
# Chunks that each of the two rankings contributes.
_POOL = 100
# The constant of reciprocal rank fusion: the higher, the less the first ranks differ.
_RANK = 60
# The most chunks of one document in a result, while there are others.
_OF_ONE = 3
# The most words of a query that are searched for, and the most letters of a word.
_WORDS, _LETTERS = 48, 60
# A word is common if it is in this many chunks, and in a quarter of all.
_COMMON = 1000
# The number of words whose frequency is kept.
_REMEMBERED = 10_000
_WORD = re.compile(r"\w+")
_DOCUMENT = "SELECT doc_id, title, path, created, updated FROM docs"
_CHUNK = "SELECT doc_id, text, position FROM chunks JOIN docs ON docs.id = doc"


class WorkspaceEngine:
    """The documents under `base_dir`, indexed in `index_dir`. Safe to use from several threads.

    Without `index_dir` the index is in the user's cache folder (`store.default_index`). An index
    that is missing, or was made by another version or with another `embedder` than the one given,
    is made at once. An index that exists is used as it is: call `refresh` to bring it up to date.
    Raises NotADirectoryError if `base_dir` is not a folder.
    """

    def __init__(
        self,
        base_dir: str | PathLike[str],
        index_dir: str | PathLike[str] | None = None,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self.base_dir = Path(base_dir)
        self.index_dir = default_index(self.base_dir) if index_dir is None else Path(index_dir)
        self.embedder: Embedder = embedder or named(embedder_of(self.index_dir) or "hashing")
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        if not self.base_dir.is_dir():
            raise NotADirectoryError(
                f"{self.base_dir} is not a folder; a workspace is a folder of documents"
            )
        if usable(current(self.index_dir), self.embedder.name):
            self._open()
        else:
            self.refresh()

    def refresh(self, *, progress: Callable[[str, int], None] | None = None) -> Report:
        """Reads what has changed in the folder; returns what was done.

        Raises WorkspaceError while another process writes the index.
        """
        report = build.refresh(self.base_dir, self.index_dir, self.embedder, progress=progress)
        self._open()
        return report

    def close(self) -> None:
        """Closes the index. All methods but `refresh` raise WorkspaceError then."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def _open(self) -> None:
        import numpy as np

        for _ in range(3):  # another process may replace the index between two looks at it
            folder = current(self.index_dir)
            try:
                if folder is None:
                    raise FileNotFoundError(self.index_dir)
                vectors = np.load(folder / VECTORS, mmap_mode="r")
                db = connect(folder / SQLITE)
                db.execute("SELECT 1 FROM docs LIMIT 1").fetchone()
            except (OSError, ValueError, sqlite3.Error):
                continue
            with self._lock:
                self.close()
                self._db, self._vectors = db, vectors
                self._frequent = Memo[str, bool](_REMEMBERED)
            return
        raise WorkspaceError(
            f"{self.index_dir}: the index cannot be read; delete that folder and run mypt-index"
        )

    def _all(self, query: str, *values: str | int) -> list[tuple[str | int | float, ...]]:
        with self._lock:
            if self._db is None:
                raise WorkspaceError(f"{self.index_dir}: the index was closed")
            with closing(self._db.execute(query, values)) as cursor:
                return cursor.fetchall()

    # Documents

    def list_docs(self) -> list[Document]:
        """Returns all documents, sorted by path."""
        return [_document(row) for row in self._all(f"{_DOCUMENT} ORDER BY path")]

    def get_doc(self, doc_id: str) -> Document | None:
        """Returns the document with this id, or None."""
        return next(
            (_document(row) for row in self._all(f"{_DOCUMENT} WHERE doc_id = ?", _text(doc_id))),
            None,
        )

    def find_docs(self, title: str) -> list[Document]:
        """Returns the documents with this title, sorted by path.

        Case and white space are ignored if no title is exactly the same.
        """
        exact = [
            _document(row)
            for row in self._all(f"{_DOCUMENT} WHERE title = ? ORDER BY path", _text(title))
        ]
        wanted = " ".join(title.split()).casefold()
        return exact or [d for d in self.list_docs() if d.title.casefold() == wanted]

    def get_doc_text(self, doc_id: str) -> str | None:
        """Returns the whole text of a document as it was indexed, or None for an unknown id."""
        rows = self._all(f"{_CHUNK} WHERE doc_id = ? ORDER BY position", _text(doc_id))
        return "".join(str(row[1]) for row in rows) if rows else None

    def get_chunks(self, doc_id: str, begin: int = 0, most: int = -1) -> list[Chunk]:
        """Returns the chunks of a document from position `begin` on; unless negative, `most`."""
        query = f"{_CHUNK} WHERE doc_id = ? AND position >= ? ORDER BY position LIMIT ?"
        return [_chunk(row) for row in self._all(query, _text(doc_id), begin, most)]

    def count_chunks(self, doc_id: str) -> int:
        """Returns the number of chunks of a document."""
        query = "SELECT count(*) FROM chunks JOIN docs ON docs.id = doc WHERE doc_id = ?"
        return int(self._all(query, _text(doc_id))[0][0])

    def get_chunk(self, chunk_id: str) -> Chunk | None:
        """Returns the chunk with this id, or None."""
        doc, _, position = _text(chunk_id).rpartition("#")
        if not (position.isascii() and position.isdigit() and len(position) < 10):
            return None
        rows = self._all(f"{_CHUNK} WHERE doc_id = ? AND position = ?", doc, int(position))
        found = next((_chunk(row) for row in rows), None)
        return found if found is not None and found.chunk_id == chunk_id else None

    # Search

    def search(self, query: str, top_k: int = 5) -> list[Chunk]:
        """Returns the chunks that fit a query best, at most `top_k` (1 to MAX_TOP_K), best first.

        Any text is a query; queries have no syntax. Words are searched for in titles, paths and
        texts, or, where no word is found anywhere, trigrams of the words. This ranking and the
        ranking by vectors are joined by reciprocal rank fusion. Of chunks with the same text, in
        copies of a document, only the best is returned. Raises ValueError for a `top_k` out of
        bounds.
        """
        if not 1 <= top_k <= MAX_TOP_K:
            raise ValueError(f"top_k is {top_k}, expected 1 to {MAX_TOP_K}")
        with self._lock:  # all from one state of the index
            words = _words(query)
            by_words = self._match(
                "words", [f'"{w}"' for w in self._telling(words)], "8.0, 4.0, 1.0"
            )
            ranked = by_words or self._match("grams", _grams(words), "4.0, 1.0")
            scores: dict[int, float] = {}
            for ranking, weight in ((ranked, 1.0), (self._nearest(query), self.embedder.weight)):
                for rank, chunk in enumerate(ranking):
                    scores[chunk] = scores.get(chunk, 0.0) + weight / (_RANK + rank)
            best = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[: 4 * _POOL]
            found = {row[0]: _chunk(row[1:]) for row in self._by_id(best)}
        return _varied([found[i] for i in best if i in found], top_k)

    def _telling(self, words: list[str]) -> list[str]:
        """Returns the words that are not common, or all words if each is common.

        Common words cost most of the time and hardly change the ranking.
        """
        return [w for w in words if not self._common(w)] or words

    def _common(self, word: str) -> bool:
        known = self._frequent.known.get(word)
        if known is None:
            most = max(_COMMON, len(self._vectors) // 4)
            count = f"SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT {most})"
            known = self._frequent.keep(word, self._all(count, f'"{word}"')[0][0] == most)
        return known

    def _match(self, table: str, terms: list[str], weights: str) -> list[int]:
        if not terms:
            return []
        query = (
            f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}, {weights}), "
            f"rowid LIMIT {_POOL}"
        )
        return [int(row[0]) for row in self._all(query, " OR ".join(terms))]

    def _nearest(self, query: str) -> list[int]:
        import numpy as np

        vector = self.embedder.embed([query.encode("utf-8", "replace").decode()])[0]
        if not len(self._vectors) or not vector.any():
            return []
        likeness: npt.NDArray[np.float32] = self._vectors @ vector
        first = np.argpartition(-likeness, min(_POOL, len(likeness)) - 1)[:_POOL]
        first = first[np.lexsort((first, -likeness[first]))]
        rows = [int(i) for i in first if likeness[i] > 0]
        marks = ",".join(str(row) for row in rows)
        ids = {
            row: int(key)
            for key, row in self._all(f"SELECT id, row FROM chunks WHERE row IN ({marks})")
        }
        return [ids[row] for row in rows if row in ids]

    def _by_id(self, ids: list[int]) -> list[tuple[str | int | float, ...]]:
        marks = ",".join(str(i) for i in ids)
        return self._all(
            "SELECT chunks.id, doc_id, text, position FROM chunks JOIN docs ON docs.id = doc "
            f"WHERE chunks.id IN ({marks})"
        )


def _varied(chunks: list[Chunk], top_k: int) -> list[Chunk]:
    """Returns the first `top_k` chunks: no text twice, few of one document if there are others."""
    first: list[Chunk] = []
    later: list[Chunk] = []
    count: dict[str, int] = {}
    texts: set[str] = set()
    for chunk in chunks:
        text = " ".join(chunk.text.split())
        if text in texts:
            continue
        texts.add(text)
        count[chunk.doc_id] = count.get(chunk.doc_id, 0) + 1
        (first if count[chunk.doc_id] <= _OF_ONE else later).append(chunk)
    return [*first, *later][:top_k]


def _words(query: str) -> list[str]:
    """Returns the words of a query, each once.

    Words are letters and digits alone, so that nothing in them is an operator of the full-text
    search.
    """
    found = (w[:_LETTERS] for w in _WORD.findall(_text(query)))
    return list(dict.fromkeys(w for w in found if any(c.isalnum() for c in w)))[:_WORDS]


def _grams(words: list[str]) -> list[str]:
    """Returns what texts may share with the words: each word, and each of its trigrams."""
    found = [w for w in words if len(w) >= 3]
    grams = [w[i : i + 3] for w in found for i in range(len(w) - 2)]
    return [f'"{term}"' for term in dict.fromkeys([*found, *grams])][:400]


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode().replace("\0", " ")


def _document(row: tuple[str | int | float, ...]) -> Document:
    return Document(str(row[0]), str(row[1]), str(row[2]), float(row[3]), float(row[4]))


def _chunk(row: tuple[str | int | float, ...]) -> Chunk:
    return Chunk(chunk_id(str(row[0]), int(row[2])), str(row[0]), str(row[1]), int(row[2]))
