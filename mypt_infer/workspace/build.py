"""Brings an index up to date with its folder.

Input: the folder, the index and an embedder. Output: a new state of the index, and a Report. A file
whose bytes have the same SHA-256 as before is not read, cut or embedded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_infer.workspace.embed import Embedder
from mypt_infer.workspace.files import Found, Skipped, walk
from mypt_infer.workspace.model import chunk_id, cut, doc_id
from mypt_infer.workspace.readers import Content, Unreadable, read
from mypt_infer.workspace.store import (
    META,
    SCHEMA,
    SQLITE,
    VECTORS,
    VERSION,
    connect,
    current,
    locked,
    new_folder,
    usable,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# The number of texts that are embedded at a time.
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Report:
    """Counts what a refresh did, in documents.

    `documents` and `chunks` are in the index now. `skipped` names what of the folder is in no
    document, and why.
    """

    documents: int = 0
    chunks: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()


def refresh(
    base: Path,
    index: Path,
    embedder: Embedder,
    *,
    progress: Callable[[str, int], None] | None = None,
) -> Report:
    """Indexes a folder, or what has changed in it; returns what was done.

    Either the whole refresh happens or, when anything fails, nothing. `progress` is called with
    each path that was read and the number of files so far. Raises NotADirectoryError if `base` is
    no folder, and WorkspaceError while another process writes the index.
    """
    skipped: list[Skipped] = []
    seen: set[str] = set()
    added = changed = 0
    with locked(index):
        old = current(index)
        old = old if usable(old, embedder.name) else None
        known = _digests(old) if old is not None else {}
        with ExitStack() as stack:
            new: _Writer | None = None
            for files, found in enumerate(walk(base, without=index)):
                if isinstance(found, Skipped):
                    skipped.append(found)
                    continue
                if progress is not None:
                    progress(found.path, files + 1)
                digest = hashlib.sha256(found.data).hexdigest()
                if known.get(found.path) == digest:
                    seen.add(found.path)
                    continue
                try:
                    content = read(found.path, found.data)
                except Unreadable as error:
                    skipped.append(Skipped(found.path, str(error)))
                    continue
                new = new or stack.enter_context(_writing(old, index, embedder))
                new.put(found, digest, content)
                seen.add(found.path)
                added, changed = added + (found.path not in known), changed + (found.path in known)
            removed = sorted(known.keys() - seen)
            if removed or old is None:
                new = new or stack.enter_context(_writing(old, index, embedder))
                for path in removed:
                    new.forget(path)
        folder = current(index)
        documents, chunks = _count(folder) if folder is not None else (0, 0)
    return Report(documents, chunks, added, changed, len(removed), tuple(skipped))


def _digests(folder: Path) -> dict[str, str]:
    with closing(connect(folder / SQLITE)) as db:
        return dict(db.execute("SELECT path, digest FROM docs"))


def _count(folder: Path) -> tuple[int, int]:
    with closing(connect(folder / SQLITE)) as db:
        documents, chunks = db.execute(
            "SELECT (SELECT count(*) FROM docs), (SELECT count(*) FROM chunks)"
        ).fetchone()
        return documents, chunks


@contextmanager
def _writing(old: Path | None, index: Path, embedder: Embedder) -> Iterator[_Writer]:
    """Yields a writer to the next state of the index, which begins as a copy of the old one.

    The new state replaces the old one when the block ends without an exception.
    """
    with new_folder(index) as folder:
        if old is not None:
            shutil.copyfile(old / SQLITE, folder / SQLITE)
        with closing(connect(folder / SQLITE, write=True)) as db:
            if old is None:
                db.executescript(SCHEMA)
                db.executemany(
                    "INSERT INTO state VALUES (?, ?)",
                    [("version", VERSION), ("embedder", embedder.name)],
                )
            db.execute("BEGIN")
            yield _Writer(db)
            _number(db, old, folder, embedder)
            db.execute("COMMIT")


class _Writer:
    """Adds documents to the tables, and removes documents."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def put(self, found: Found, digest: str, content: Content) -> None:
        before = self.db.execute(
            "SELECT created, doc_id FROM docs WHERE path = ?", (found.path,)
        ).fetchone()
        self.forget(found.path)
        created, key = before or (found.modified, self._key(found.path))
        values = (key, found.path, content.title, digest, created, found.modified)
        doc = self.db.execute(
            "INSERT INTO docs (doc_id, path, title, digest, created, updated) VALUES (?, ?, ?, ?, "
            "?, ?)",
            values,
        ).lastrowid
        for position, text in enumerate(cut(content.text)):
            chunk = self.db.execute(
                "INSERT INTO chunks (doc, position, text) VALUES (?, ?, ?)", (doc, position, text)
            ).lastrowid
            self.db.execute(
                "INSERT INTO words (rowid, title, path, text) VALUES (?, ?, ?, ?)",
                (chunk, content.title, found.path, text),
            )
            self.db.execute(
                "INSERT INTO grams (rowid, title, text) VALUES (?, ?, ?)",
                (chunk, content.title, text),
            )

    def forget(self, path: str) -> None:
        """Removes a document from all tables.

        The full-text tables hold no texts, so they must be told which texts to remove.
        """
        row = self.db.execute("SELECT id, title FROM docs WHERE path = ?", (path,)).fetchone()
        if row is None:
            return
        for chunk, text in self.db.execute(
            "SELECT id, text FROM chunks WHERE doc = ?", (row[0],)
        ).fetchall():
            self.db.execute(
                "INSERT INTO words(words, rowid, title, path, text) VALUES ('delete', ?, ?, ?, ?)",
                (chunk, row[1], path, text),
            )
            self.db.execute(
                "INSERT INTO grams(grams, rowid, title, text) VALUES ('delete', ?, ?, ?)",
                (chunk, row[1], text),
            )
        self.db.execute("DELETE FROM chunks WHERE doc = ?", (row[0],))
        self.db.execute("DELETE FROM docs WHERE id = ?", (row[0],))

    def _key(self, path: str) -> str:
        taken: set[str] = set()
        while self.db.execute(
            "SELECT 1 FROM docs WHERE doc_id = ?", (key := doc_id(path, taken),)
        ).fetchone():
            taken.add(key)
        return key


def _number(db: sqlite3.Connection, old: Path | None, folder: Path, embedder: Embedder) -> None:
    """Numbers all chunks by path and position, and writes the vectors and meta.jsonl.

    Vectors of chunks that were there before are copied; the others are embedded.
    """
    import numpy as np

    query = (
        "SELECT chunks.id, row, doc_id, title, path, position, text FROM chunks JOIN docs ON "
        "docs.id = doc ORDER BY path, position"
    )
    chunks = db.execute(query).fetchall()
    vectors = np.zeros((len(chunks), embedder.dimensions), dtype=np.float32)
    kept = [(i, chunk[1]) for i, chunk in enumerate(chunks) if chunk[1] is not None]
    if old is not None and kept:
        before = np.load(old / VECTORS, mmap_mode="r")
        vectors[[i for i, _ in kept]] = before[[row for _, row in kept]]
    fresh = [i for i, chunk in enumerate(chunks) if chunk[1] is None]
    for batch in _batches(fresh):
        vectors[batch] = _embedded(embedder, [f"{chunks[i][3]}\n{chunks[i][6]}" for i in batch])
    np.save(folder / VECTORS, vectors)
    with (folder / META).open("w", encoding="utf-8") as file:
        for _, _, doc, title, path, position, _ in chunks:
            line = {
                "chunk_id": chunk_id(doc, position),
                "doc_id": doc,
                "title": title,
                "path": path,
                "position": position,
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    db.executemany(
        "UPDATE chunks SET row = ? WHERE id = ?", [(i, chunk[0]) for i, chunk in enumerate(chunks)]
    )


def _embedded(embedder: Embedder, texts: list[str]) -> npt.NDArray[np.float32]:
    out = embedder.embed(texts)
    if out.shape != (len(texts), embedder.dimensions):
        raise ValueError(
            f"the embedder {embedder.name} gave shape {out.shape} for {len(texts)} texts of "
            f"{embedder.dimensions} dimensions"
        )
    return out


def _batches(items: list[int]) -> Iterator[list[int]]:
    for at in range(0, len(items), _BATCH):
        yield items[at : at + _BATCH]
