"""Makes the vectors that an index lacks.

Input: the folder and the open database of an index, and an embedder. Output: rows of
embeddings.npy. Each batch is kept when it is done, so that a run that was stopped is continued by
the next one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from mypt_infer.workspace.index import rows
from mypt_infer.workspace.index.documents import texts
from mypt_infer.workspace.index.embed import Embedder, vectors_for
from mypt_infer.workspace.index.store import state

# What is called with the name of a step, and how much of how much is done.
Progress = Callable[[str, int, int], None]
# Id, title, first chunk and number of chunks of a document.
Row = tuple[int, str, int, int]
# Texts that are embedded at a time. Documents are kept whole, so large ones take several times.
_BATCH = 64


def silent(_step: str, _done: int, _total: int) -> None:
    """Shows no progress."""


def embed_missing(
    folder: Path, db: sqlite3.Connection, embedder: Embedder | None, progress: Progress
) -> None:
    """Makes the vectors of all documents that have none, or whose vectors were damaged.

    Vectors of another embedder are forgotten once this one has answered. Raises EmbedderError.
    """
    import numpy as np

    now = state(db)
    if embedder is None:
        if now["embedder"]:
            rows.forget_vectors(folder, db, "", 0)
        return
    dimensions = int(now["dimensions"]) if now["embedder"] == embedder.name else 0
    if dimensions:
        mapped = rows.vectors_of(folder, int(now["next"]), dimensions)
        bad = [(key,) for key in rows.damaged(db, mapped)]
        del mapped
        db.executemany("UPDATE docs SET vectors = NULL WHERE id = ?", bad)
    where = "WHERE vectors IS NULL" if dimensions else ""
    missing = db.execute(
        f"SELECT id, title, first, chunks FROM docs {where} ORDER BY path"
    ).fetchall()
    todo, done = sum(chunks for _, _, _, chunks in missing), 0
    for batch in _batches(missing):
        chunks = [
            f"{title}\n{text}" for _, title, first, n in batch for text in texts(db, first, n)
        ]
        pieces = []
        for i in range(0, len(chunks), _BATCH):
            progress("embedding", done + i, todo)
            pieces.append(vectors_for(embedder, chunks[i : i + _BATCH], dimensions or None))
            if not dimensions:
                dimensions = pieces[0].shape[1]
                rows.forget_vectors(folder, db, embedder.name, dimensions)
        vectors = np.concatenate(pieces)
        at, written = 0, []
        for key, _, first, n in batch:
            written.append((rows.set_rows(folder, first, vectors[at : at + n]), key))
            at += n
        db.execute("BEGIN IMMEDIATE")
        db.executemany("UPDATE docs SET vectors = ? WHERE id = ?", written)
        db.execute("COMMIT")
        done += at
    progress("embedding", todo, todo)


def _batches(documents: list[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in documents:
        batch.append(row)
        if sum(chunks for _, _, _, chunks in batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
