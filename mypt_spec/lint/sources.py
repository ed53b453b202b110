"""What to read, and how to cut it into whole lines in constant memory.

Lines end at the byte `\\n` and nowhere else. All file errors come out as `UsageError`; damaged compressed data does
not: it is a fault of the data and arrives in the last `Block`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from types import ModuleType
from typing import BinaryIO, Literal

from mypt_spec.lint.errors import UsageError

Packing = Literal["", "gz", "zst"]
BLOCK_SIZE = 1 << 20
MAX_LINE = 64 << 20
SUFFIXES = (".jsonl", ".ndjson")
STDIN = "<stdin>"
_PACKED: dict[str, Packing] = {".gz": "gz", ".zst": "zst"}
_HEAD = 200  # bytes kept of a line that is too long
_CHUNK = 1 << 16  # compressed bytes read at once
# zstandard cannot bound its output, and four bytes may stand for 128 KiB: this bounds one step to about 32 MiB.
_ZST_PIECE = 1 << 10


@dataclass(frozen=True, slots=True)
class Source:
    """Something to read. `size` is its bytes on disk, None for what is not a regular file (a pipe, stdin).

    `stream` is read instead of the file when it is given, from where it stands, and is left open.
    """

    path: str
    compressed: Packing = ""
    size: int | None = None
    stdin: bool = False
    stream: BinaryIO | None = field(default=None, compare=False, repr=False)

    @property
    def divisible(self) -> bool:
        """Whether parts of it can be read by themselves: a plain regular file."""
        return self.size is not None and not self.compressed and not self.stdin and self.stream is None

    def open(self) -> BinaryIO:
        """The bytes as they lie on disk. Close it only if it is neither `stream` nor stdin."""
        if self.stream is not None:
            return self.stream
        if self.stdin:
            if sys.stdin is None:
                raise UsageError(f"{STDIN}: there is no standard input; name a file or a folder")
            return sys.stdin.buffer
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise _unreadable(self.path, error) from None


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its `\\n` (the last line of a source may lack it).

    `first_row` is the row of its first line, from 1; in a byte range it counts from the start of the range.
    `position` is how far the source is read, in bytes on disk from the start of the file.
    `too_long` is the length in bytes, without `\\n`, of the one line that the block stands for; `data` is then only
    its first 200 bytes. `broken` says why the source ends here before its time; `data` is then the unfinished line that
    came last, maybe empty.
    """

    data: bytes
    first_row: int
    position: int
    too_long: int = 0
    broken: str = ""

    def lines(self) -> list[bytes]:
        """The lines without their `\\n`; row `first_row + i` is item i."""
        found = self.data.split(b"\n")
        if not found[-1] and not self.too_long:
            found.pop()
        return found


class _BrokenData(Exception):
    """Compressed data that is truncated or damaged; the message says how, and at which byte of the file."""


def expand(paths: Sequence[str], *, suffixes: Sequence[str] = SUFFIXES) -> list[Source]:
    """The sources that arguments name, each file once, in the order given, sorted inside a folder or pattern.

    A folder gives the files below it whose name ends in one of `suffixes` (in any case, with or without .gz or .zst),
    without hidden folders and without what is not a regular file. A pattern (`*`, `?`, `[..]`, `**`) gives the files
    and folders that match, unless something has literally that name. `-` is stdin. What is named by itself is read
    whatever it is called. Raises UsageError for what is missing or unreadable, and for a folder or pattern that gives
    nothing.
    """
    wanted = tuple(suffix.lower() + packed for suffix in suffixes for packed in ("", *_PACKED))
    found: dict[str, Source] = {}
    for path in paths:
        if path == "-":
            found.setdefault("-", Source(STDIN, stdin=True))
            continue
        if os.path.isdir(path):
            names = _folder(path, wanted)
            fault = f"no {', '.join(suffixes)} file (nor one in .gz or .zst) in this folder; name the files themselves"
        elif not os.path.lexists(path) and re.search(r"[*?[]", path):
            matches = _glob(path)
            names = [name for match in matches for name in _folder(match, wanted)]
            fault = "the pattern matches no file; in a shell, quote a pattern with ** in it"
        else:
            names, fault = [path], ""
        if not names:
            raise UsageError(f"{path}: {fault}")
        for name in names:
            source = _source(name)
            found.setdefault(os.path.realpath(name), source)
    return list(found.values())


def ranges(source: Source, *, size: int) -> list[tuple[int, int]]:
    """Byte ranges `[start, end)` of about `size` bytes that hold whole lines and together hold them all, for `blocks`.

    Empty for an empty file and for a source that cannot be divided: read that one from end to end.
    """
    if size < 1:
        raise ValueError(f"size of a range is {size}, expected at least 1")
    found: list[tuple[int, int]] = []
    if not source.divisible:
        return found
    with source.open() as stream:
        total = os.fstat(stream.fileno()).st_size
        start = 0
        while start < total:
            # From one byte before, so that a range may end exactly at a newline that lies there.
            reader = _Reader(stream, source.path, start + size - 1)
            end = total
            while data := reader.read(min(_CHUNK, max(size, 512))):
                if (at := data.find(b"\n")) >= 0:
                    end = reader.offset - len(data) + at + 1
                    break
            found.append((start, end))
            start = end
    return found


def blocks(
    source: Source,
    *,
    block_size: int = BLOCK_SIZE,
    max_line: int = MAX_LINE,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Block]:
    """The lines of a source, in blocks of about `block_size` decompressed bytes, or less where a stream gives less.

    Holds a few blocks and one line of at most `max_line` bytes; a longer line is only counted. `start` and `end` are a
    range from `ranges`. Raises UsageError where the file cannot be read.
    """
    if (start or end is not None) and not source.divisible:
        raise ValueError(f"{source.path} cannot be read in parts")
    stream = source.open()
    try:
        reader = _Reader(stream, source.path, start, end)
        cutter = _Cutter(max_line)
        broken = ""
        try:
            for data in _content(source, reader, block_size):
                yield from cutter.feed(data, reader.offset)
        except _BrokenData as error:
            broken = str(error)
        if cutter.length or broken:
            yield cutter.line(reader.offset, broken=broken)
    finally:
        if not source.stdin and source.stream is None:
            stream.close()


class _Cutter:
    """Cuts bytes that come in any pieces into blocks of whole lines; holds at most one unfinished line."""

    def __init__(self, max_line: int) -> None:
        self.max_line = max_line
        self.row = 1
        self.length = 0  # of the unfinished line, whether it is held or too long to be
        self.held = BytesIO()

    def feed(self, data: bytes, position: int) -> Iterator[Block]:
        last = data.rfind(b"\n") + 1
        rest = data[last:]
        if last and 0 < self.length <= min(self.max_line, last - 1):
            data = b"".join((self.held.getvalue(), memoryview(data)[:last]))
            self._forget()
        else:
            data = data[:last]
            if data and self.length:
                first = data.find(b"\n")
                self._hold(data[:first])
                yield self.line(position, ending=b"\n")
                data = data[first + 1 :]
        if len(data) > self.max_line:
            yield from self._sift(data, position)
        elif data:
            yield self._block(data, position)
        self._hold(rest)

    def line(self, position: int, *, ending: bytes = b"", broken: str = "") -> Block:
        """The line that is held, now complete."""
        too_long = self.length if self.length > self.max_line else 0
        if not too_long:
            self.held.write(ending)
        block = Block(self.held.getvalue(), self.row, position, too_long, broken)
        self.row += 1
        self._forget()
        return block

    def _sift(self, data: bytes, position: int) -> Iterator[Block]:
        """Blocks of whole lines among which some may be too long."""
        done = at = 0
        while at < len(data):
            newline = data.index(b"\n", at)
            if newline - at > self.max_line:
                if done < at:
                    yield self._block(data[done:at], position)
                yield Block(data[at : min(at + _HEAD, newline)], self.row, position, too_long=newline - at)
                self.row += 1
                done = newline + 1
            at = newline + 1
        if done < at:
            yield self._block(data[done:], position)

    def _block(self, data: bytes, position: int) -> Block:
        block = Block(data, self.row, position)
        self.row += _newlines(data)
        return block

    def _hold(self, data: bytes) -> None:
        self.length += len(data)
        if self.length <= self.max_line:
            self.held.write(data)
            return
        head = self.held.getvalue()[:_HEAD]
        head += data[: _HEAD - len(head)]
        self.held = BytesIO()
        self.held.write(head)

    def _forget(self) -> None:
        self.held = BytesIO()
        self.length = 0


def _newlines(data: bytes) -> int:
    """As `data.count`, which looks at every byte; `find` jumps from one to the next."""
    count, at = 0, data.find(b"\n")
    while at >= 0:
        count, at = count + 1, data.find(b"\n", at + 1)
    return count


class _Reader:
    """Reads on from `offset`, to `end` if given, and knows how far it is."""

    def __init__(self, stream: BinaryIO, path: str, offset: int = 0, end: int | None = None) -> None:
        # read1 gives what a pipe holds now instead of waiting for a full block.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self.path, self.offset, self.end = path, offset, end
        if offset:
            stream.seek(offset)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        if self.end is not None:
            size = min(size, self.end - self.offset)
        try:
            data = self._read(size) if size > 0 else b""
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"{self.path}: reading failed at byte {self.offset}: {reason}; check the disk") from None
        self.offset += len(data)
        return data


def _content(source: Source, reader: _Reader, size: int) -> Iterator[bytes]:
    """The decompressed bytes, in pieces. Raises _BrokenData behind the last good piece."""
    if source.compressed == "gz":
        yield from _gather(_gunzip(reader, size), size)
    elif source.compressed == "zst":
        yield from _gather(_unzstd(reader), size)
    else:
        while data := reader.read(size):
            yield data


def _gather(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Small pieces joined to at least `size` bytes, with nothing lost when they break off."""
    held: list[bytes] = []
    length = 0
    broken: _BrokenData | None = None
    try:
        for piece in pieces:
            held.append(piece)
            length += len(piece)
            if length >= size:
                joined = held[0] if len(held) == 1 else b"".join(held)
                held, length = [], 0
                yield joined
    except _BrokenData as error:
        broken = error
    if held:
        yield b"".join(held)
    if broken is not None:
        raise broken


def _gunzip(reader: _Reader, size: int) -> Iterator[bytes]:
    """Members of gzip data, one behind the other, with zero padding allowed between and after them, as gzip does."""
    unzip, data = zlib.decompressobj(31), b""
    members, inside = 0, False
    while True:
        if not data:
            data = reader.read(_CHUNK)
            if not data and (inside or not members):
                with contextlib.suppress(zlib.error):
                    yield unzip.flush()
                raise _BrokenData(f"gzip data ends too early, at byte {reader.offset} of the file: it is truncated")
            if not data:
                return
        if members and not inside:
            data = data.lstrip(b"\0")
            if not data:
                continue
        inside = True
        before = unzip.copy()
        try:
            out = unzip.decompress(data, size)
        except zlib.error as error:
            good = yield from _salvage(before, data)
            where = reader.offset - len(data) + good
            raise _BrokenData(f"gzip data is damaged at byte {where} of the file: {_reason(error)}") from None
        if out:
            yield out
        data = unzip.unconsumed_tail
        if unzip.eof:
            data = unzip.unused_data
            unzip, inside, members = zlib.decompressobj(31), False, members + 1


def _salvage(unzip: zlib._Decompress, data: bytes) -> Generator[bytes, None, int]:
    """What a failing call decompressed before it failed (zlib drops that), byte by byte; returns where the fault is."""
    for index in range(len(data)):
        try:
            out = unzip.decompress(data[index : index + 1])
        except zlib.error:
            return index
        if out:
            yield out
    return len(data)


def _unzstd(reader: _Reader) -> Iterator[bytes]:
    """Frames of zstd data. At damage, what the last KiB of input before it stood for is lost with it."""
    zstandard = _zstandard(reader.path)
    unzip = zstandard.ZstdDecompressor()
    frame, inside, frames = unzip.decompressobj(), False, 0
    while data := reader.read(_CHUNK):
        at = 0
        while at < len(data):
            piece = data[at : at + _ZST_PIECE]
            at += len(piece)
            inside = True
            try:
                out = frame.decompress(piece)
            except zstandard.ZstdError as error:
                where = reader.offset - len(data) + at - len(piece)
                raise _BrokenData(f"zstd data is damaged behind byte {where} of the file: {_reason(error)}") from None
            if out:
                yield out
            if frame.eof:
                at -= len(frame.unused_data)
                frame, inside, frames = unzip.decompressobj(), False, frames + 1
    if inside or not frames:
        raise _BrokenData(f"zstd data ends too early, at byte {reader.offset} of the file: it is truncated")


def _reason(error: Exception) -> str:
    """What a library's message says behind its own preamble."""
    return str(error).rpartition(": ")[2]


def _zstandard(path: str) -> ModuleType:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise UsageError(f"{path}: reading .zst needs the package zstandard; run `pip install zstandard`") from None


def _unreadable(path: str, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            return UsageError(f"{path}: a symbolic link to nothing; restore its target or remove the link")
        return UsageError(f"{path}: no such file or folder; name a file, a folder, a pattern ('data/**/*.jsonl') or -")
    return UsageError(f"{path}: cannot be read: {error.strerror or error}; check its permissions and links")


def _source(path: str) -> Source:
    """The source of one file; proves that it can be opened, except for a pipe, which could be opened only once."""
    compressed: Packing = _PACKED.get(os.path.splitext(path)[1].lower(), "")
    if compressed == "zst":
        _zstandard(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return Source(path, compressed)
        with open(path, "rb"):
            return Source(path, compressed, status.st_size)
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError:  # a NUL byte in the name
        raise _unreadable(path, FileNotFoundError()) from None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder or "."))
    except OSError as error:
        raise _unreadable(folder or ".", error) from None


def _walk(folder: str) -> Iterator[tuple[str, bool]]:
    """`(path, is a folder)` for the folder and all below it, depth first, each level sorted, without hidden folders.

    Links are followed, but each real folder is entered once, so that a loop of links ends. A file gives itself.
    """
    seen: set[str] = set()
    stack = [folder]
    while stack:
        path = stack.pop()
        if not os.path.isdir(path or "."):
            yield path, False
            continue
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        yield path, True
        inner = [(name, os.path.join(path, name)) for name in reversed(_names(path))]
        stack.extend(below for name, below in inner if not (name.startswith(".") and os.path.isdir(below)))


def _folder(folder: str, wanted: tuple[str, ...]) -> list[str]:
    """The files in a folder that a wanted suffix ends; of a file, itself."""
    files = (path for path, is_folder in _walk(folder) if not is_folder)
    found = (path for path in files if path == folder or path.lower().endswith(wanted))
    # A pipe in a folder could block for ever; a dangling link stays in the list, to be refused.
    return [path for path in found if os.path.isfile(path) or not os.path.exists(path)]


def _glob(pattern: str) -> list[str]:
    """The paths that match. Not `glob.glob`, whose `**` follows loops of links for exponential time."""
    pattern = pattern.replace(os.sep, "/")
    found = ["/" if pattern.startswith("/") else ""]
    parts = [part for part in pattern.split("/") if part]
    for index, part in enumerate(parts):
        if part == "**":
            # A last `**` is everything below, which is what a folder stands for.
            if index < len(parts) - 1:
                found = [path for base in found for path, is_folder in _walk(base) if is_folder]
        elif re.search(r"[*?[]", part):
            match = re.compile(fnmatch.translate(part)).match
            found = [
                os.path.join(base, name)
                for base in found
                if os.path.isdir(base or ".")
                for name in _names(base)
                if match(name) and (part.startswith(".") or not name.startswith("."))
            ]
        else:
            found = [os.path.join(base, part) for base in found if os.path.lexists(os.path.join(base, part))]
    return list(dict.fromkeys(found))
