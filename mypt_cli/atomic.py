"""Writes files and folders that are whole or not there, whenever the process or the machine stops.

Input: a path, and what to write. Output: the file or folder of that name, on the disk. Until all of
it is there, it has another name in the same folder. An error removes what has this name, a kill
leaves it; in both cases the old file or folder is as it was.

    with replacing(path) as out:        a file, written piece by piece
    write(path, pieces)                 a file at once
    with folder(path) as made:          a folder of files
"""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# The ending of a file or folder that is being written, if its name is not random.
PART = ".part"
# What a system answers that cannot sync a folder, or lets nobody list it.
_UNABLE = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP)


@contextmanager
def replacing(path: str | Path, *, part: str | Path | None = None) -> Iterator[BinaryIO]:
    """Yields a file that takes the name `path` when the block ends without an exception.

    It is synced before that, and its folder after. The permissions of an old file are kept. A link
    stays a link: the file that it names is replaced. The temporary name is random, so that two
    writers never meet, unless `part` is given. A pipe or device is written as it comes.
    Raises OSError.
    """
    target = os.path.realpath(path)
    old = os.stat(target).st_mode if os.path.exists(target) else None
    if old is not None and not stat.S_ISREG(old):
        with open(target, "wb") as out:
            yield out
        return
    parent, name = os.path.split(target)
    temporary = part or os.path.join(parent, f".{name}.{os.urandom(4).hex()}")
    mode = 0o666 if old is None else stat.S_IMODE(old)
    out = open(  # noqa: SIM115
        temporary, "wb" if part else "xb", opener=lambda path, flags: os.open(path, flags, mode)
    )
    try:
        with out:
            if old is not None:
                os.chmod(temporary, mode)  # whatever the umask has taken
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(parent)


def write(path: str | Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Writes a file that is whole or not there.

    A kill may leave a file whose name ends in PART; the next `write` to `path` takes it over, so
    only one process may write it. Raises OSError.
    """
    with replacing(path, part=os.path.realpath(path) + PART) as out:
        out.writelines(pieces)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder that takes the name `path` when the block ends without an exception.

    Its files are synced before that, and an old folder is removed. Until then its name ends in
    PART; what a kill has left of such a name is removed. Raises OSError.
    """
    part = path.with_name(path.name + PART)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        sync_files(part)
        shutil.rmtree(path, ignore_errors=True)
        os.replace(part, path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_folder(path.parent)


def sha256(path: str | Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal, read in pieces."""
    with open(path, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def sync_files(path: Path) -> None:
    """Syncs the files in a folder, and in folders in it, to the disk, and their names."""
    for file in path.iterdir():
        if file.is_dir():
            sync_files(file)
            continue
        with file.open("rb") as data:
            os.fsync(data.fileno())
    sync_folder(path)


def sync_folder(path: str | Path) -> None:
    """Syncs the names in a folder to the disk; does nothing where the system cannot."""
    if os.name != "posix":
        return
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
