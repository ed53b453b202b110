"""Keeps `meta.jsonl` and `embeddings.npy` in step with the documents in SQLite.

Input: the folder of an index, and its open database. Line and row i of the two files belong to
chunk i. Chunks are only ever added at the end. The line of a chunk that is gone becomes `{}` and
spaces, and its row zeros, so that lines and rows stay where they are. The database says how long
both files are and which lines are gone: what a killed writer left is put right by the next one
(`settle`).
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mypt_cli import atomic
from mypt_infer.workspace.index.embed import Floats
from mypt_infer.workspace.index.model import chunk_id
from mypt_infer.workspace.index.store import META, VECTORS, set_state, state

_HEADER = 128
_FLOAT = 4


def lines(doc: str, title: str, path: str, chunks: int) -> bytes:
    """Returns the lines of a document's chunks."""
    of_doc = {"doc_id": doc, "title": title, "path": path}
    values = ({"chunk_id": chunk_id(doc, i)} | of_doc | {"position": i} for i in range(chunks))
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in values).encode()


def settle(folder: Path, db: sqlite3.Connection) -> None:
    """Makes both files what the database says of them, outside of a transaction.

    Raises ValueError if meta.jsonl is shorter than it was.
    """
    now = state(db)
    removed = db.execute("SELECT first, chunks, at, size FROM gone").fetchall()
    with (folder / META).open("r+b") as file:
        if os.fstat(file.fileno()).st_size < int(now["meta"]):
            raise ValueError(f"{folder / META} was cut short")
        file.truncate(int(now["meta"]))
        for _, _, at, size in removed:
            file.seek(at)
            old = file.read(size)
            file.seek(at)
            file.write(b"".join(b"{}".ljust(len(line)) + b"\n" for line in old.split(b"\n")[:-1]))
    dimensions = int(now["dimensions"])
    size_vectors(folder, int(now["next"]), dimensions)
    with (folder / VECTORS).open("r+b") as file:
        for first, chunks, _, _ in removed if dimensions else ():
            file.seek(_HEADER + first * dimensions * _FLOAT)
            file.write(bytes(chunks * dimensions * _FLOAT))
    if removed:
        db.execute("DELETE FROM gone")


def add_lines(folder: Path, text: bytearray, at: int) -> None:
    """Writes lines into meta.jsonl from a place on, and to the disk."""
    with (folder / META).open("r+b" if at else "wb") as file:
        file.seek(at)
        file.truncate()
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def header(rows: int, dimensions: int) -> bytes:
    """Returns the header of a file of NumPy, of 128 bytes for any shape."""
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}"
    return b"\x93NUMPY\x01\x00v\x00" + shape.encode().ljust(_HEADER - 11) + b"\n"


def size_vectors(folder: Path, rows: int, dimensions: int) -> None:
    """Gives embeddings.npy its shape, if it has another one; new rows are zeros.

    Rows stay if the dimensions do. Otherwise the file is replaced, so that who reads the old one
    goes on with it.
    """
    path, expected = folder / VECTORS, header(rows, dimensions)
    size = _HEADER + rows * dimensions * _FLOAT
    try:
        with path.open("r+b") as file:
            current = file.read(_HEADER)
            if current == expected and os.fstat(file.fileno()).st_size == size:
                return
            if current.partition(b"(")[2].partition(b")")[0].endswith(b", %d" % dimensions):
                file.truncate(size)
                file.seek(0)
                file.write(expected)
                return
    except FileNotFoundError:
        pass
    with atomic.replacing(path) as file:
        file.write(expected)
        file.truncate(size)


def set_rows(folder: Path, first: int, vectors: Floats) -> int:
    """Writes rows of embeddings.npy; returns their CRC-32."""
    data = vectors.astype("<f4").tobytes()
    with (folder / VECTORS).open("r+b") as file:
        file.seek(_HEADER + first * vectors.shape[1] * _FLOAT)
        file.write(data)
    return zlib.crc32(data)


def vectors_of(folder: Path, rows: int, dimensions: int) -> Floats | None:
    """Returns embeddings.npy as an array on the disk, or None if it has another shape."""
    try:
        vectors: Floats = np.load(folder / VECTORS, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None
    fits = vectors.shape == (rows, dimensions) and vectors.dtype == np.float32
    return vectors if fits else None


def damaged(db: sqlite3.Connection, vectors: Floats | None) -> Iterator[int]:
    """Yields the ids of documents whose rows are not those that were written."""
    query = "SELECT id, first, chunks, vectors FROM docs WHERE vectors IS NOT NULL"
    for key, first, chunks, crc in db.execute(query):
        rows = None if vectors is None else vectors[first : first + chunks]
        if rows is None or zlib.crc32(rows.tobytes()) != crc:
            yield key


def forget_vectors(folder: Path, db: sqlite3.Connection, embedder: str, dimensions: int) -> None:
    """Notes another embedder, whose vectors are still to be made."""
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE docs SET vectors = NULL")
    set_state(db, embedder=embedder, dimensions=dimensions)
    db.execute("COMMIT")
    size_vectors(folder, int(state(db)["next"]), dimensions)
