"""Brings an index up to date with its folder.

Input: the folder, the index and perhaps an embedder. Output: a new state of the index, and a
Report. A file whose size and times are as before is not read; a file whose bytes have the same
SHA-256 is not cut or embedded again. Words come first: the index can be searched before its vectors
are made.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mypt_infer.workspace.files import Seen, Skipped, Tree
from mypt_infer.workspace.index import rows
from mypt_infer.workspace.index.documents import Documents, Entry
from mypt_infer.workspace.index.embed import Embedder
from mypt_infer.workspace.index.embedding import Progress, embed_missing, silent
from mypt_infer.workspace.index.store import (
    META,
    SCHEMA,
    SQLITE,
    VECTORS,
    VERSION,
    connect,
    current,
    locked,
    new_folder,
    set_state,
    state,
    sweep,
    usable,
    writing,
)
from mypt_infer.workspace.readers import Unreadable, read

# A refresh that changes more than so many documents or bytes is made in a copy of the index, as
# one transaction of it would keep readers waiting.
_MANY, _LARGE = 1000, 32 << 20
# Numbers of chunks that may be lost to changes, beside as many as there are chunks.
_SPARE = 10_000


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
    base: Path, index: Path, embedder: Embedder | None, *, progress: Progress = silent
) -> Report:
    """Indexes a folder, or what has changed in it; returns what was done.

    Either all words of the refresh are indexed or, when anything fails, nothing is. After that, the
    vectors that are missing are made, and kept batch by batch. Raises NotADirectoryError if `base`
    is no folder, IndexBusyError while another process writes the index, and EmbedderError.
    """
    with Tree(base) as tree, locked(index):
        old = current(index)
        sweep(index, old)
        old = old if old is not None and _settled(old) else None
        known = _known(old) if old is not None else {}
        skipped: list[Skipped] = []
        changed: list[Seen] = []
        kept: set[str] = set()
        for seen in tree.walk(without=index):
            if isinstance(seen, Skipped):
                skipped.append(seen)
            elif seen.signature and known.get(seen.path, ("", ""))[0] == seen.signature:
                kept.add(seen.path)
            else:
                changed.append(seen)
        gone = len(known) - len(kept) - sum(seen.path in known for seen in changed)
        size = sum(seen.size for seen in changed)
        large = size > _LARGE or len(changed) + gone > _MANY
        added = replaced = 0
        with _next_state(None if large else old, old, index) as (folder, db):
            documents = Documents(folder, db)
            for i, seen in enumerate(changed):
                progress("reading", i, len(changed))
                entry = _read(tree, seen)
                if isinstance(entry, Skipped):
                    skipped.append(entry)
                    continue
                signature, digest = known.get(seen.path, ("", ""))
                if digest == entry.digest:
                    if signature != seen.signature:
                        documents.note(seen.path, seen.signature)
                else:
                    documents.put(entry)
                    added, replaced = added + (not digest), replaced + bool(digest)
                kept.add(seen.path)
            removed = sorted(known.keys() - kept)
            for path in removed:
                documents.remove(path)
            documents.done()
            count, chunks = db.execute(
                "SELECT count(*), coalesce(sum(chunks), 0) FROM docs"
            ).fetchone()
        folder = current(index) or folder
        with closing(writing(folder / SQLITE, whole=False)) as db:
            rows.settle(folder, db)
            embed_missing(folder, db, embedder, progress)
    skipped.sort(key=lambda left: left.path)
    return Report(count, chunks, added, replaced, len(removed), tuple(skipped))


def _read(tree: Tree, seen: Seen) -> Entry | Skipped:
    found = tree.read(seen.path)
    if isinstance(found, Skipped):
        return found
    digest = hashlib.sha256(found.data).hexdigest()
    try:
        content = read(found.path, found.data)
    except Unreadable as error:
        return Skipped(found.path, str(error))
    return Entry(found.path, content.title, content.text, digest, seen.signature, found.modified)


def _settled(folder: Path) -> bool:
    """Puts right what a killed writer left; returns whether the index can be continued."""
    if not usable(folder):
        return False
    try:
        with closing(writing(folder / SQLITE, whole=False)) as db:
            rows.settle(folder, db)
            (chunks,) = db.execute("SELECT coalesce(sum(chunks), 0) FROM docs").fetchone()
            following = int(state(db)["next"])
    except (sqlite3.Error, OSError, ValueError, KeyError):
        return False
    # The numbers of chunks that are gone are not used again: after many changes, all begins anew.
    return bool(following < 2 * chunks + _SPARE)


def _known(folder: Path) -> dict[str, tuple[str, str]]:
    """Returns signature and digest of all documents, by path."""
    with closing(connect(folder / SQLITE)) as db:
        found = db.execute("SELECT path, signature, digest FROM docs")
        return {path: (signature, digest) for path, signature, digest in found}


@contextmanager
def _next_state(
    here: Path | None, old: Path | None, index: Path
) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """Yields folder and database of the next state of an index, in a transaction.

    The state is made in the folder `here`, or in a new one, a copy of `old`. It is the current one
    when the block ends without an exception.
    """
    if here is not None:
        with closing(writing(here / SQLITE, whole=False)) as db:
            db.execute("BEGIN")
            yield here, db
            db.execute("COMMIT")
        return
    with new_folder(index) as made:
        if old is not None:
            for name in (SQLITE, META, VECTORS):
                shutil.copyfile(old / name, made / name)
        with closing(writing(made / SQLITE, whole=True)) as db:
            if old is None:
                db.executescript(SCHEMA)
                set_state(db, version=VERSION, embedder="", dimensions=0, next=0, meta=0)
            db.execute("BEGIN")
            yield made, db
            db.execute("COMMIT")
            rows.settle(made, db)
