"""Keeps the index on disk.

Each change makes a new folder of files, and then points to it, so a reader sees either the old
state or the new one, never half of each.

    index_dir/current                 the name of the folder that is current
    index_dir/<name>/meta.jsonl       a line for each chunk: chunk_id, doc_id, title, path, position
    index_dir/<name>/embeddings.npy   float32, shape (chunks, dimensions); row i belongs to line i
    index_dir/<name>/index.sqlite     documents, chunks, and the full-text tables
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from mypt_cli import atomic

CURRENT = "current"
SQLITE, VECTORS, META = "index.sqlite", "embeddings.npy", "meta.jsonl"
# The version of the schema, of how texts are read, and of how they are cut.
VERSION = "1"
_PREFIX = "index-"

SCHEMA = """
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, doc_id TEXT UNIQUE, path TEXT UNIQUE, title TEXT, digest TEXT,
    created REAL, updated REAL
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, doc INTEGER REFERENCES docs(id), position INTEGER,
    text TEXT, row INTEGER
);
CREATE INDEX chunks_of ON chunks (doc, position);
CREATE INDEX titles ON docs (title);
CREATE INDEX rows ON chunks (row);
CREATE VIEW passages AS
    SELECT chunks.id AS id, docs.title AS title, docs.path AS path, chunks.text AS text
    FROM chunks JOIN docs ON docs.id = chunks.doc;
CREATE VIRTUAL TABLE words USING fts5(
    title, path, text, content='passages', content_rowid='id',
    tokenize='porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE grams USING fts5(
    title, text, content='passages', content_rowid='id', tokenize='trigram'
);
"""


class WorkspaceError(RuntimeError):
    """An index is missing or cannot be read; the message says what to do."""


def default_index(base: Path) -> Path:
    """Returns the folder in which the index of a workspace is kept by default.

    It is in the user's cache folder; its name is that of `base`, for people, and a hash of the path
    of `base`. Raises RuntimeError if the user has no home folder.
    """
    home = Path("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = named if named.is_absolute() else home.expanduser()
    place = base.resolve()
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()
    return cache / "mypt-tags" / f"{place.name}-{digest[:12]}"


def current(index: Path) -> Path | None:
    """Returns the folder that holds the current state of an index, or None."""
    try:
        name = (index / CURRENT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    here = index / name
    return (
        here if name.startswith(_PREFIX) and "/" not in name and (here / SQLITE).is_file() else None
    )


def connect(path: Path, *, write: bool = False) -> sqlite3.Connection:
    """Returns a connection to one SQLite file, read-only unless `write`.

    A connection to `write` keeps no journal, because nobody reads the file before it is whole.
    """
    if write:
        out = sqlite3.connect(path, isolation_level=None)
        out.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
        )
        return out
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False
    )


@contextmanager
def locked(index: Path) -> Iterator[None]:
    """Lets one process at a time write an index. Raises WorkspaceError if another one does.

    Also raises WorkspaceError if the folder cannot be written.
    """
    import fcntl

    try:
        index.mkdir(parents=True, exist_ok=True)
        lock = (index / "lock").open("a")
    except OSError as error:
        raise WorkspaceError(
            f"{index}: cannot be written: {error.strerror or error}; "
            "name another folder for the index with --index-dir"
        ) from None
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WorkspaceError(
                f"{index}: another process is writing this index; try again when it is done"
            ) from None
        yield


@contextmanager
def new_folder(index: Path) -> Iterator[Path]:
    """Yields a folder for the next state of the index.

    The folder becomes the current one when the block ends without an exception.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=index))
    try:
        yield folder
        atomic.sync_files(folder)
        atomic.write(index / CURRENT, [folder.name.encode() + b"\n"])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for old in index.glob(f"{_PREFIX}*"):
        if old != folder and old.is_dir() and not old.is_symlink():
            # Readers of the old state keep its files open.
            shutil.rmtree(old, ignore_errors=True)


def state(connection: sqlite3.Connection) -> dict[str, str]:
    """Returns what the index was made with: the version and the name of the embedder."""
    return dict(connection.execute("SELECT key, value FROM state"))


def usable(folder: Path | None, embedder: str) -> bool:
    """Returns whether an index can be continued: made by this version, with this embedder."""
    if folder is None:
        return False
    try:
        with closing(connect(folder / SQLITE)) as connection:
            return (
                state(connection) == {"version": VERSION, "embedder": embedder}
                and (folder / VECTORS).is_file()
            )
    except sqlite3.Error:
        return False


def embedder_of(index: Path) -> str:
    """Returns the name of the embedder that an index was made with.

    Returns an empty string if there is no index, or none that this version can read.
    """
    folder = current(index)
    try:
        with closing(connect((folder or index) / SQLITE)) as connection:
            found = state(connection)
    except sqlite3.Error:
        return ""
    return found.get("embedder", "") if found.get("version") == VERSION else ""
