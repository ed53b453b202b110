"""Writes `meta.jsonl` and `embeddings.npy`, by which other programs read an index.

Input: the folder of an index, and its open database, which has all that they say. Line and row i of
the two files belong to one chunk. Chunks are in the order of their numbers.
"""

import json
import sqlite3
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from mypt_cli import atomic
from mypt_infer.workspace.index.model import chunk_id
from mypt_infer.workspace.index.store import META, VECTORS, set_state, state

_FLOAT = 4


def write_files(folder: Path, db: sqlite3.Connection) -> None:
    """Writes both files, unless they are there and nothing has changed; not in a transaction."""
    now = state(db)
    if now["written"] == "1" and (folder / META).is_file() and (folder / VECTORS).is_file():
        return
    atomic.write(folder / META, _lines(db))
    atomic.write(folder / VECTORS, _rows(db, int(now["dimensions"])))
    set_state(db, written=1)


def _lines(db: sqlite3.Connection) -> Iterator[bytes]:
    query = "SELECT doc_id, title, path, chunks FROM docs ORDER BY first"
    for doc, title, path, chunks in db.execute(query):
        of_doc = {"doc_id": doc, "title": title, "path": path}
        for i in range(chunks):
            line = {"chunk_id": chunk_id(doc, i)} | of_doc | {"position": i}
            yield f"{json.dumps(line, ensure_ascii=False)}\n".encode()


def _rows(db: sqlite3.Connection, dimensions: int) -> Iterator[bytes]:
    (count,) = db.execute("SELECT coalesce(sum(chunks), 0) FROM docs").fetchone()
    header, shape = BytesIO(), (count, dimensions)
    described = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    yield header.getvalue()
    for chunks, vectors in db.execute("SELECT chunks, vectors FROM docs ORDER BY first"):
        yield vectors or bytes(chunks * dimensions * _FLOAT)
