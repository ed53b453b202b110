"""Cuts inputs into units of about equal work.

Input: sources as the commands list them. Output: `Input` with what pins it, and pieces of it, which
`units_of` joins or keeps apart. Local files are read once, for their SHA-256; of an object of a
store, its beginning is read, and its ETag pins it.
"""

import os
from collections.abc import Callable, Sequence
from threading import Lock
from typing import BinaryIO

from mypt_cli.errors import UsageError, unreadable
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.layout import HEAD, LINES, TABLES, layout_of
from mypt_cli.jsonl.parquet import row_groups
from mypt_cli.run import in_threads
from mypt_cli.store import locate
from mypt_lint.settings.settings import Settings
from mypt_train.scale.planning.pieces import Cut, Input, Piece
from mypt_train.scale.planning.proof import digest, stamp_of

_THREADS = 32  # they wait for a disk or a store, or hash


def cut_inputs(
    sources: Sequence[Source],
    rules: Sequence[Settings],
    *,
    size: int,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[Input], list[list[Piece]]]:
    """Returns the inputs as they are now, and the pieces of each, of about `size` bytes.

    Local inputs get a SHA-256. `progress` is told the bytes of the inputs that are done, by any of
    several threads.

    Raises UsageError for an input that is a stream, or cannot be read.
    """

    lock, done = Lock(), 0

    def count(read: int) -> None:
        nonlocal done
        with lock:
            done += read
            progress(done)

    def some(first: int) -> list[tuple[Input, list[Piece]]]:
        numbers = range(first, min(first + step, len(sources)))
        return [_cut(n, sources[n], rules[n], size, count) for n in numbers]

    step = 1 + len(sources) // (_THREADS * 8)  # for few threads that change over

    cuts = list[tuple[Input, list[Piece]]]()
    for part in in_threads(some, range(0, len(sources), step), _THREADS):
        cuts += part
    return [source for source, _ in cuts], [pieces for _, pieces in cuts]


def units_of(
    inputs: Sequence[Input], pieces: Sequence[list[Piece]], *, size: int
) -> list[tuple[Piece, ...]]:
    """Returns the pieces in units; pieces that follow one another share one up to `size` bytes."""
    out: list[tuple[Piece, ...]] = []
    unit: list[Piece] = []
    room = size
    for source, some in zip(inputs, pieces, strict=True):
        for piece in some:
            size_on_disk = piece.end - piece.start
            if source.cut == "rows":
                size_on_disk = source.bytes // len(some)
            work = size_on_disk * source.expansion
            if unit and work > room:
                out.append(tuple(unit))
                unit, room = [], size
            unit.append(piece)
            room -= work
    return [*out, tuple(unit)] if unit else out


def _cut(
    number: int, source: Source, rules: Settings, size: int, count: Callable[[int], None]
) -> tuple[Input, list[Piece]]:
    if source.remote:
        store, key = locate(source.path)
        length = source.size or 0
        with store.open(key, etag=source.etag, size=length, piece=HEAD) as stream:
            cut, at = _places(source, stream, length, size)
        count(length)
        entry = Input(source.path, length, cut, source.compressed, "", source.etag, rules)
        return entry, [Piece(number, *ends) for ends in at]
    if source.streamed:
        raise UsageError(f"{source.path}: a stream cannot be read twice; write it to a file")
    try:
        with open(source.path, "rb") as stream:
            length = os.fstat(stream.fileno()).st_size
            cut, at = _places(source, stream, length, size)
            before = stamp_of(stream)
            sha256 = digest(stream, length, count)
    except OSError as error:
        raise unreadable(source.path, error) from None
    entry = Input(source.path, length, cut, source.compressed, sha256, "", rules, before)
    return entry, [Piece(number, *ends) for ends in at]


def _places(
    source: Source, stream: BinaryIO, length: int, size: int
) -> tuple[Cut, list[tuple[int, int]]]:
    if not length:
        return "lines", []
    if source.compressed:
        return "whole", [(0, length)]
    stream.seek(0)
    head = stream.read(HEAD)
    if head.startswith(TABLES):
        ends = [0]
        for group in row_groups(stream, source.path):
            ends.append(ends[-1] + group)
        numbers = {end: number for number, end in enumerate(ends)}
        if len(numbers) == len(ends) > 2:
            at = _joined(ends, size)
            return "rows", [(numbers[start], numbers[end]) for start, end in at]
        return "rows", [(0, max(len(ends) - 1, 1))]
    if layout_of(head, ended=True) == LINES:
        return "lines", [(at, min(at + size, length)) for at in range(0, length, size)]
    return "whole", [(0, length)]


def _joined(ends: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Returns ranges of at least `size` bytes, but for the last, which end where `ends` say."""
    out, start = [], ends[0]
    for end in ends[1:]:
        if end - start >= size or end == ends[-1]:
            out.append((start, end))
            start = end
    return out
