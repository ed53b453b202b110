"""Answers questions about the documents of a folder, and searches them.

Input: ids, titles and queries. Output: documents and chunks. Only `refresh` reads files; all other
answers come from the index, in which an id is a key and never a path, so no argument of a tool can
reach a file outside the folder.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from mypt_infer.workspace import build
from mypt_infer.workspace.build import Progress, silent
from mypt_infer.workspace.index import store
from mypt_infer.workspace.index.documents import texts
from mypt_infer.workspace.index.embed import Embedder, embedder_for
from mypt_infer.workspace.index.model import Chunk, Document, chunk_id
from mypt_infer.workspace.index.searcher import Searcher
from mypt_infer.workspace.index.store import SQLITE, IndexBusyError, WorkspaceError, current, usable

MAX_TOP_K = 50


class WorkspaceEngine:
    """The documents under `base_dir`, indexed in `index_dir`. Safe to use from several threads.

    Without `index_dir` the index is in the user's cache folder (`store.default_index`). An index
    that is missing or damaged, or was made by another version or with another `embedder` than the
    one given, is made at once. An index that exists is used as it is, whoever else writes it: call
    `refresh` to bring it up to date. What another process changes is seen by the next call.

    `embedder` is an Embedder, any function from a list of texts to an array of vectors, or "none",
    which drops the vectors of an index. Raises NotADirectoryError if `base_dir` is not a folder,
    and ValueError if the index has vectors and no `embedder` is given.
    """

    def __init__(
        self,
        base_dir: str | PathLike[str],
        index_dir: str | PathLike[str] | None = None,
        *,
        embedder: Embedder | Callable[[list[str]], Any] | Literal["none"] | None = None,
        progress: Progress = silent,
    ) -> None:
        self.base_dir = Path(base_dir)
        self.index_dir = Path(index_dir or store.default_index(self.base_dir))
        before = store.embedder_of(self.index_dir)
        self.embedder = embedder_for(embedder, before, self.index_dir)
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._version = -1
        if not self.base_dir.is_dir():
            raise NotADirectoryError(
                f"{self.base_dir} is not a folder; a workspace is a folder of documents"
            )
        there = usable(current(self.index_dir))
        if there:
            self._open()
        name = "" if self.embedder is None else self.embedder.name
        if not there or name != before:
            try:
                self.refresh(progress=progress)
            except IndexBusyError:
                if not there:
                    raise

    def refresh(self, *, progress: Progress = silent) -> build.Report:
        """Reads what has changed in the folder; returns what was done.

        `progress` is called with the name of a step, and how many of how many are done. Raises
        IndexBusyError while another process writes the index, and EmbedderError, after which the
        new state can be searched by words.
        """
        try:
            return build.refresh(self.base_dir, self.index_dir, self.embedder, progress=progress)
        finally:
            if usable(current(self.index_dir)):
                self._open()

    def close(self) -> None:
        """Closes the index. All methods but `refresh` raise WorkspaceError then."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def _open(self) -> None:
        for _ in range(3):  # another process may replace the index between two looks at it
            folder = current(self.index_dir)
            try:
                if folder is None:
                    raise FileNotFoundError(self.index_dir)
                db = store.connect(folder / SQLITE)
            except (OSError, sqlite3.Error):
                continue
            with self._lock:
                self.close()
                self._db, self._version = db, -1
                with self._reading():
                    return
        raise self._unreadable()

    def _unreadable(self) -> WorkspaceError:
        return WorkspaceError(
            f"{self.index_dir}: the index cannot be read; delete that folder and run mypt-index"
        )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yields the database, in one state for the whole block. Raises WorkspaceError."""
        with self._lock:
            if self._db is None:
                raise WorkspaceError(f"{self.index_dir}: the index was closed")
            try:
                self._db.execute("BEGIN")
                try:
                    (has_state,) = self._db.execute("SELECT count(*) FROM state").fetchone()
                    (version,) = self._db.execute("PRAGMA data_version").fetchone()
                    if version != self._version and has_state:
                        self._searcher = Searcher(self._db, self.embedder)
                        self._version = version
                    yield self._db
                finally:
                    self._db.execute("COMMIT")
            except (sqlite3.Error, zlib.error) as error:
                raise self._unreadable() from error

    def _all(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._reading() as db:
            return db.execute(query, [*map(_text, values)]).fetchall()

    # Documents

    def _documents(self, condition: str, *values: str) -> list[Document]:
        query = f"SELECT doc_id, title, path, created, updated FROM docs {condition} ORDER BY path"
        return [Document(*row) for row in self._all(query, *values)]

    def list_docs(self) -> list[Document]:
        """Returns all documents, sorted by path."""
        return self._documents("")

    def get_doc(self, doc_id: str) -> Document | None:
        """Returns the document with this id, or None."""
        return next(iter(self._documents("WHERE doc_id = ?", doc_id)), None)

    def find_docs(self, title: str) -> list[Document]:
        """Returns the documents with this title, sorted by path.

        Case and white space are ignored if no title is exactly the same.
        """
        exact = self._documents("WHERE title = ?", title)
        folded = " ".join(title.split()).casefold()
        return exact or [d for d in self.list_docs() if d.title.casefold() == folded]

    def get_doc_text(self, doc_id: str) -> str | None:
        """Returns the whole text of a document as it was indexed, or None for an unknown id."""
        chunks = self.get_chunks(doc_id)
        return "".join(chunk.text for chunk in chunks) if chunks else None

    def get_chunks(self, doc_id: str, begin: int = 0, most: int = -1) -> list[Chunk]:
        """Returns the chunks of a document from position `begin` on; unless negative, `most`."""
        query = "SELECT first, chunks FROM docs WHERE doc_id = ?"
        key, begin = _text(doc_id), max(0, begin)
        with self._reading() as db:
            ((first, chunks),) = db.execute(query, (key,)).fetchall() or [(0, 0)]
            count = chunks - begin if most < 0 else min(most, chunks - begin)
            pieces = texts(db, first + begin, count) if count > 0 else []
        return [Chunk(chunk_id(key, i), key, text, i) for i, text in enumerate(pieces, begin)]

    def count_chunks(self, doc_id: str) -> int:
        """Returns the number of chunks of a document."""
        rows = self._all("SELECT chunks FROM docs WHERE doc_id = ?", doc_id)
        return int(rows[0][0]) if rows else 0

    def get_chunk(self, chunk_id: str) -> Chunk | None:
        """Returns the chunk with this id, or None."""
        doc, _, position = _text(chunk_id).rpartition("#")
        if not (position.isascii() and position.isdigit() and len(position) < 10):
            return None
        chunk = next(iter(self.get_chunks(doc, int(position), 1)), None)
        return chunk if chunk is not None and chunk.chunk_id == chunk_id else None

    # Search

    def search(self, query: str, top_k: int = 5) -> list[Chunk]:
        """Returns the chunks that fit a query best, at most `top_k` (1 to MAX_TOP_K), best first.

        Any text is a query; queries have no syntax. Words are searched for in titles, paths and
        texts; a word that no document has stands for those that are spelled like it. With an
        embedder, the likeness of vectors counts, too. `score` is from 0 to 1. Further chunks of a
        document that was found come later than they would alone, and of chunks with the same text,
        in copies of a document, only the best is returned. Where nothing fits, nothing is returned.
        Raises ValueError for a `top_k` out of bounds, and EmbedderError.
        """
        if not 1 <= top_k <= MAX_TOP_K:
            raise ValueError(f"top_k is {top_k}, expected 1 to {MAX_TOP_K}")
        out: list[Chunk] = []
        shapes: set[str] = set()
        with self._reading() as db:
            for doc, first, chunk, score in self._searcher.hits(db, _text(query), top_k):
                (text,) = texts(db, chunk, 1)
                if (shape := " ".join(text.split())) not in shapes:
                    shapes.add(shape)
                    at = chunk - first
                    out.append(Chunk(chunk_id(doc, at), doc, text, at, score))
                if len(out) == top_k:
                    break
        return out


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode().replace("\0", " ")
