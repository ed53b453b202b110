"""Brings an index up to date with its folder.

Input: the folder, the index and perhaps an embedder. Output: a new state of the index, and a
Report. A file whose size and times are as before is not read; a file whose bytes have the same
SHA-256 is not cut or embedded again. Words come first: the index can be searched before its vectors
are made. Each batch of vectors is kept when it is done, so that a run that was stopped is continued
by the next one.
"""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mypt_infer.workspace.files import FileEntry, Skipped, Tree
from mypt_infer.workspace.index import store
from mypt_infer.workspace.index.documents import Documents, Entry, texts
from mypt_infer.workspace.index.embed import Embedder, vectors_for
from mypt_infer.workspace.index.files import write_files
from mypt_infer.workspace.index.store import SQLITE, VERSION, current, writing
from mypt_infer.workspace.readers import Unreadable, read

# A refresh that changes more than so many documents or bytes is made in a copy of the index, as
# one transaction of it would keep readers waiting.
_MANY, _LARGE = 1000, 32 << 20
# Numbers of chunks that may be lost to changes, beside as many as there are chunks.
_SPARE = 10_000
# Texts that are embedded at a time. Documents are kept whole, so large ones take several times.
_BATCH = 64
# What is called with the name of a step, and how much of how much is done.
Progress = Callable[[str, int, int], None]
# Id, title, first chunk and number of chunks of a document.
_Row = tuple[int, str, int, int]


def silent(_step: str, _done: int, _total: int) -> None:
    """Shows no progress."""


class Report(NamedTuple):
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
    base: Path, index: Path, embedder: Embedder | None, *, progress: Progress = silent
) -> Report:
    """Indexes a folder, or what has changed in it; returns what was done.

    Either all words of the refresh are indexed or, when anything fails, nothing is. After that, the
    vectors that are missing are made, and kept batch by batch. Raises NotADirectoryError if `base`
    is no folder, IndexBusyError while another process writes the index, and EmbedderError.
    """
    with Tree(base) as tree, store.locked(index):
        old = current(index)
        store.sweep(index, old)
        files = _files_of(old)
        old, old_files = (None, {}) if files is None else (old, files)
        skipped: list[Skipped] = []
        changed: list[FileEntry] = []
        present: set[str] = set()
        for file in tree.walk(without=index):
            if isinstance(file, Skipped):
                skipped.append(file)
            elif file.signature and old_files.get(file.path, ("", ""))[0] == file.signature:
                present.add(file.path)
            else:
                changed.append(file)
        lost = len(old_files) - len(present) - sum(file.path in old_files for file in changed)
        size = sum(file.size for file in changed)
        large = size > _LARGE or len(changed) + lost > _MANY
        added = replaced = 0
        with _next_state(None if large else old, old, index) as (folder, db):
            documents = Documents(db)
            for i, file in enumerate(changed):
                progress("reading", i, len(changed))
                entry = _read(tree, file)
                if isinstance(entry, Skipped):
                    skipped.append(entry)
                    continue
                signature, digest = old_files.get(file.path, ("", ""))
                if digest == entry.digest:
                    if signature != file.signature:
                        documents.note(file.path, file.signature)
                else:
                    documents.put(entry)
                    added, replaced = added + (not digest), replaced + bool(digest)
                present.add(file.path)
            removed = sorted(old_files.keys() - present)
            for path in removed:
                documents.remove(path)
            documents.done()
            count, chunks = db.execute(
                "SELECT count(*), coalesce(sum(chunks), 0) FROM docs"
            ).fetchone()
        with closing(writing(folder / SQLITE, is_new=False)) as db:
            _embed_missing(db, embedder, progress)
            write_files(folder, db)
    skipped.sort(key=lambda skip: skip.path)
    return Report(count, chunks, added, replaced, len(removed), tuple(skipped))


def _read(tree: Tree, item: FileEntry) -> Entry | Skipped:
    file = tree.read(item.path)
    if isinstance(file, Skipped):
        return file
    digest = hashlib.sha256(file.data).hexdigest()
    try:
        return Entry(item.path, *read(item.path, file.data), digest, item.signature, file.modified)
    except Unreadable as error:
        return Skipped(item.path, str(error))


def _files_of(folder: Path | None) -> dict[str, tuple[str, str]] | None:
    """Returns signature and digest of what is indexed, by path; None if it cannot be continued."""
    if folder is None or not store.usable(folder):
        return None
    try:
        with closing(writing(folder / SQLITE, is_new=False)) as db:
            docs = db.execute("SELECT path, signature, digest, chunks FROM docs").fetchall()
            following = int(store.state(db)["next"])
    except (sqlite3.Error, OSError, ValueError, KeyError):
        return None
    # The numbers of chunks that are gone are not used again: after many changes, all begins anew.
    if following >= 2 * sum(doc[3] for doc in docs) + _SPARE:
        return None
    return {path: (signature, digest) for path, signature, digest, _ in docs}


@contextmanager
def _next_state(
    here: Path | None, old: Path | None, index: Path
) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """Yields folder and database of the next state of an index, in a transaction.

    The state is made in the folder `here`, or in a new one, a copy of `old`. It is the current one
    when the block ends without an exception.
    """
    with ExitStack() as stack:
        folder = here or stack.enter_context(store.new_folder(index))
        if old is not None and here is None:
            shutil.copyfile(old / SQLITE, folder / SQLITE)
        db = stack.enter_context(closing(writing(folder / SQLITE, is_new=here is None)))
        if old is None:
            db.executescript(store.SCHEMA)
            store.set_state(db, version=VERSION, embedder="", dimensions=0, next=0, written=0)
        db.execute("BEGIN")
        yield folder, db
        db.execute("COMMIT")
        write_files(folder, db)


def _embed_missing(db: sqlite3.Connection, embedder: Embedder | None, progress: Progress) -> None:
    """Makes the vectors of documents that have none. Raises EmbedderError."""
    now = store.state(db)
    if embedder is None:
        if now["embedder"]:
            _forget_vectors(db, "", 0)
        return
    dimensions = int(now["dimensions"]) if now["embedder"] == embedder.name else 0
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
            if not dimensions:  # the embedder has answered: vectors of another are forgotten
                dimensions = pieces[0].shape[1]
                _forget_vectors(db, embedder.name, dimensions)
        vectors = np.concatenate(pieces)
        at, written = 0, []
        for key, _, _, n in batch:
            written.append((vectors[at : at + n].astype("<f4").tobytes(), key))
            at += n
        db.execute("BEGIN IMMEDIATE")
        db.executemany("UPDATE docs SET vectors = ? WHERE id = ?", written)
        store.set_state(db, written=0)
        db.execute("COMMIT")
        done += at
    progress("embedding", todo, todo)


def _forget_vectors(db: sqlite3.Connection, embedder: str, dimensions: int) -> None:
    """Notes another embedder, whose vectors are still to be made."""
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE docs SET vectors = NULL")
    store.set_state(db, embedder=embedder, dimensions=dimensions, written=0)
    db.execute("COMMIT")


def _batches(documents: list[_Row]) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    for row in documents:
        batch.append(row)
        if sum(chunks for _, _, _, chunks in batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
