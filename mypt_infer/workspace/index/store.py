"""Keeps the index on disk.

    index_dir/current                 the name of the folder that is current
    index_dir/<name>/index.sqlite     documents, their texts, and the postings of their words
    index_dir/<name>/meta.jsonl       a line for each chunk: chunk_id, doc_id, title, path, position
    index_dir/<name>/embeddings.npy   float32, shape (chunks, dimensions); row i belongs to line i

A new index, and one of which much has changed, is a new folder, to which `current` then points. A
small change is one transaction of SQLite, from which the two other files are written (`files`).
Either way a reader sees the old state or the new one, never half of each, and needs no lock.
"""

import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from mypt_cli import atomic
from mypt_spec.tokenizer.proved import cache_folder

CURRENT = "current"
SQLITE, VECTORS, META = "index.sqlite", "embeddings.npy", "meta.jsonl"
# The version of the schema, of how texts are read, cut and taken apart into terms.
VERSION = "3"
_PREFIX = "index-"
# Seconds that a reader waits for a writer's transaction to end, and a writer for readers.
_PATIENCE = 60

SCHEMA = Path(__file__).with_name("schema.sql").read_text("utf-8")


class WorkspaceError(RuntimeError):
    """An index is missing or cannot be read; the message says what to do."""


class IndexBusyError(WorkspaceError):
    """Another process is writing the index."""


def default_index(base: Path) -> Path:
    """Returns the folder in which the index of a workspace is kept by default.

    It is in the user's cache folder; its name is that of `base`, for people, and a hash of the path
    of `base`. Raises RuntimeError if the user has no home folder.
    """
    place = base.resolve()
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()
    return cache_folder() / f"{place.name}-{digest[:12]}"


def current(index: Path) -> Path | None:
    """Returns the folder that holds the current state of an index, or None."""
    try:
        name = (index / CURRENT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    named = name.startswith(_PREFIX) and "/" not in name
    return index / name if named and (index / name / SQLITE).is_file() else None


def connect(path: Path) -> sqlite3.Connection:
    """Returns a connection that reads one SQLite file. Raises sqlite3.Error.

    Where the folder can be written, what a killed writer left undone is rolled back.
    """
    for mode in ("rw", "ro"):
        address = f"file:{quote(str(path))}?mode={mode}"
        out = sqlite3.connect(
            address, uri=True, check_same_thread=False, isolation_level=None, timeout=_PATIENCE
        )
        try:
            out.execute("PRAGMA query_only = ON")
            out.execute("SELECT 1 FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError:
            out.close()
            if mode == "ro":
                raise
        else:
            return out
    raise AssertionError


def writing(path: Path, *, is_new: bool) -> sqlite3.Connection:
    """Returns a connection that writes a file; one that `is_new` needs no journal."""
    out = sqlite3.connect(path, isolation_level=None, timeout=_PATIENCE)
    journal, sync = ("OFF", "OFF") if is_new else ("DELETE", "FULL")
    out.executescript(
        f"PRAGMA journal_mode = {journal}; PRAGMA synchronous = {sync}; "
        "PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;"
    )
    return out


@contextmanager
def locked(index: Path) -> Iterator[None]:
    """Lets one process at a time write an index. Raises IndexBusyError or WorkspaceError."""
    import fcntl

    try:
        index.mkdir(parents=True, exist_ok=True)
        lock = (index / "lock").open("a")
    except OSError as error:
        raise _unwritable(index, error) from None
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise IndexBusyError(
                f"{index}: another process is writing this index; try again when it is done"
            ) from None
        yield


def _unwritable(index: Path, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"{index}: cannot be written: {error.strerror or error}; "
        "name another folder for the index with --index-dir"
    )


@contextmanager
def new_folder(index: Path) -> Iterator[Path]:
    """Yields a folder for the next state of the index, which is current if the block succeeds."""
    try:
        folder = index / Path(tempfile.mkdtemp(prefix=_PREFIX, dir=index)).name
    except OSError as error:
        raise _unwritable(index, error) from None
    try:
        yield folder
        atomic.sync_files(folder)
        atomic.write(index / CURRENT, [folder.name.encode() + b"\n"])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sweep(index, folder)


def sweep(index: Path, folder: Path | None) -> None:
    """Removes what other states and killed writers have left in the folder of an index."""
    for old in index.glob(f"{_PREFIX}*"):
        if old != folder and old.is_dir() and not old.is_symlink():
            # Readers of the old state keep its files open.
            shutil.rmtree(old, ignore_errors=True)


def state(connection: sqlite3.Connection) -> dict[str, str]:
    """Returns what is noted of the index as a whole.

    `version`; `embedder`, a name, and `dimensions`; `next`, the number of the next chunk; and
    `written`, 1 if the other files say what is here.
    """
    return dict(connection.execute("SELECT key, value FROM state"))


def set_state(connection: sqlite3.Connection, **values: str | int) -> None:
    """Notes values of `state`."""
    connection.executemany(
        "INSERT OR REPLACE INTO state VALUES (?, ?)", [(k, str(v)) for k, v in values.items()]
    )


def usable(folder: Path | None) -> bool:
    """Returns whether an index can be read: it was made by this version."""
    return folder is not None and bool(_state_of(folder))


def embedder_of(index: Path) -> str:
    """Returns the name of the embedder of an index; "" for none, and for an unreadable index."""
    return _state_of(current(index) or index).get("embedder", "")


def _state_of(folder: Path) -> dict[str, str]:
    """Returns the state of an index that this version made, an empty dict for any other."""
    try:
        with closing(connect(folder / SQLITE)) as connection:
            values = state(connection)
    except sqlite3.Error:
        return {}
    return values if values.get("version") == VERSION else {}
