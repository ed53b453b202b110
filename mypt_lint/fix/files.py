"""Fixes files: in place, into another file, or only shown as a diff.

Input are groups of sources; output are files, or a diff, and the number of fixes. A file is
replaced as a whole or not at all. Records that no fix makes right may be dropped: their lines are
written to a file beside the data, byte for byte, before the data is written without them.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from mypt_cli.errors import UsageError
from mypt_cli.inputs import refuse_pipe
from mypt_cli.jsonl.blocks import Source, blocks
from mypt_cli.jsonl.line import is_utf16
from mypt_cli.jsonl.output import Output, refuse_input
from mypt_cli.jsonl.paths import source_of
from mypt_cli.jsonl.records import has_lines, holds_json, record_blocks
from mypt_cli.jsonl.values import MAX_LINE
from mypt_cli.progress import Bar
from mypt_lint.check.checker import Checker
from mypt_lint.check.file_faults import BLOCK, MAX_TEXT
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fix.apply import Codes, Fixer
from mypt_lint.run.chunk import MIXED, UNREAD, Chunk
from mypt_lint.run.resolve import Group
from mypt_records.private import private

if TYPE_CHECKING:
    from mypt_lint.fix.dataset import Repairs

Write = Callable[[bytes], object]
_SECRET = ("MYP367", "MYP451")  # rules of values that no diff shows
REJECTS = ".rejects"  # after the name of a file, that of its lines that were dropped
_MOST_BLANK = 1 << 20  # bytes of blank lines at the beginning that are kept until a record comes


@dataclass(slots=True)
class Fixes:
    """What was fixed: findings by code, files that changed, and why others were left alone.

    `dropped` are the records without which the files were written, by the codes of their findings;
    `rejects` the files that have them.
    """

    by_code: Codes = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dropped: Codes = field(default_factory=Counter)
    rejects: list[str] = field(default_factory=list)


_RUN = re.compile(rb'("(?:[^"\\]|\\.)*+"|\n)|[ \t\r]{2,}+')


class Piece(NamedTuple):
    """Lines that stay, one that changes, or a text (row 0): the bytes before and after, with LF.

    A line that is dropped has its errors in `dropped`.
    """

    row: int
    old: bytes
    new: bytes
    codes: Codes
    dropped: frozenset[str] = frozenset()


_Pieces = Callable[[], Iterator[Piece]]  # those of a source, which a call reads from its beginning


class _NotWholeError(Exception):
    """A file of which not every byte can be read, so none is written."""


def fix_sources(
    groups: list[Group],
    *,
    unsafe: bool,
    output: str | None = None,
    diff: Write | None = None,
    repairs: Repairs | None = None,
    drop: Collection[str] = (),
    bar: Bar,
) -> tuple[list[Group], Fixes]:
    """Fixes all sources. Returns the groups to be linted afterwards, and what was done.

    `repairs` are the fixes that only the whole data shows; `bar` shows progress. Records that then
    still have findings of the severities `drop` are left out, into FILE.rejects. With `output` the
    one source is written there; with `diff`, changes go to it and nothing is written. Raises
    UsageError for what can be fixed only into another file.
    """
    sources = [source for group in groups for source in group.sources]
    if any(group.kind in ("generation", "rows") for group in groups):
        raise UsageError(
            "what a model wrote, and rows for a trainer, are not fixed; --fix is for --kind record "
            "and text"
        )
    if output is not None and len(sources) != 1:
        raise UsageError(
            f"-o {output} takes the fixed data of one file, got {len(sources)}; without -o, files "
            "are fixed in place"
        )
    for group in groups if output is None else ():
        for source in group.sources if group.kind == "record" else ():
            if source.divisible and holds_json(source) and not has_lines(source):
                raise UsageError(
                    f"{source.path} is not JSONL, so it is not fixed in place; -o FIXED.jsonl "
                    "writes its records, fixed, as JSONL"
                )
    for source in sources if output is None and diff is None else ():
        if source.remote:
            raise UsageError(
                f"{source.path}: objects of a store are not fixed in place; name a file for the "
                "fixed data with -o, or copy the data here"
            )
        if not source.divisible:
            raise UsageError(
                f"{source.path} cannot be fixed in place; name a file for the fixed data with -o"
            )
    fixes, after = Fixes(), list[Group]()
    for group in groups:
        fixer, clean_filter = Fixer(group.checker, unsafe), CleanFilter(group.checker)
        again = []
        for source in group.sources:
            pieces: _Pieces = partial(_text, fixer, source)
            if group.kind == "record":
                lines = partial(_lines, fixer, clean_filter, source, repairs, drop, bar.at)
                pieces = lines if drop else partial(_not_emptied, lines)
            dropped: Codes = Counter()
            try:
                if drop and output not in (None, "-"):
                    refuse_input(str(output), [source.path])
                if drop:
                    path = None if diff else output or source.path
                    dropped, name = _reject(pieces, source.path, path)
                    fixes.rejects += [name] * bool(name)
                if diff:
                    codes, secret = show_pieces(pieces, source.path, diff)
                    why = f"{secret} of its changes hold keys and are not shown; --fix makes them"
                    fixes.refused += [f"{source.path}: {why}"] * bool(secret)
                else:
                    codes = write_pieces(pieces, source, output)
            except _NotWholeError as why:
                if output is not None:
                    raise UsageError(f"{source.path}: {why}; nothing was written") from None
                fixes.refused.append(f"{source.path}: not fixed: {why}")
                codes, dropped = Counter(), Counter()
            bar.next()
            if codes or dropped:
                fixes.by_code += codes
                fixes.dropped += dropped
                fixes.files.append(source.path)
            again.append(source if output in (None, "-") or diff else source_of(str(output)))
        after.append(group._replace(sources=again))
    return after, fixes


def write_pieces(pieces: _Pieces, source: Source, output: str | None) -> Codes:
    codes: Codes = Counter()
    if output is None and all(piece.old == piece.new for piece in pieces()):
        return codes
    inputs = [] if output is None or source.stdin or source.stream is not None else [source.path]
    with Output(output or source.path, inputs) as out:
        for piece in pieces():
            out.write_bytes(piece.new)
            codes += piece.codes
    return codes


def _reject(pieces: _Pieces, source: str, path: str | None) -> tuple[Codes, str]:
    """Appends the lines that will be dropped to PATH.rejects; returns their codes and that name.

    Without a path, they are counted only. Raises _NotWholeError where no record would be left.
    """
    codes: Codes = Counter()
    is_empty = True
    for piece in pieces():
        codes.update(("", *piece.dropped) if piece.dropped else ())
        is_empty = is_empty and not piece.new
    if not codes or path is None:
        return codes, ""
    if is_empty:
        raise _NotWholeError("all of its records would be dropped")
    name = f"{path}{REJECTS}"
    refuse_pipe(name)
    with Output(name, [source]) as out:
        if os.path.exists(name):
            with open(name, "rb") as before:
                for line in before:
                    out.write_bytes(line.removesuffix(b"\n") + b"\n")
        for piece in pieces():
            if piece.dropped:
                out.write_bytes(piece.old.removesuffix(b"\n") + b"\n")
    return codes, name


def show_pieces(pieces: _Pieces, path: str, write: Write) -> tuple[Codes, int]:
    """Writes a unified diff without context, which `patch` and `git apply --unidiff-zero` take.

    Returns what it fixes, and how many changes it leaves out, as their lines have keys in them.
    """
    codes: Codes = Counter()
    deleted = secret = 0
    for piece in pieces():
        if piece.old == piece.new:
            continue
        if piece.new and next(private(piece.old.decode("utf-8", "replace"), *_SECRET), None):
            secret += 1
            continue
        if not codes:
            write(f"--- {path}\n+++ {path}\n".encode("utf-8", "surrogateescape"))
        codes += piece.codes
        if piece.row == 0:
            _hunks(write, piece)
            continue
        deleted += not piece.new
        write(f"@@ -{piece.row} +{piece.row - deleted}{'' if piece.new else ',0'} @@\n".encode())
        write(_diff_line(b"-", piece.old))
        if piece.new:
            write(_diff_line(b"+", piece.new))
    return codes, secret


def _hunks(write: Write, piece: Piece) -> None:
    before, after = (BytesIO(data).readlines() for data in (piece.old, piece.new))
    hunks = difflib.diff_bytes(difflib.unified_diff, before, after, n=1)
    for line in islice(hunks, 2, None):
        write(line if line.startswith(b"@@") else _diff_line(line[:1], line[1:]))


def _diff_line(sign: bytes, line: bytes) -> bytes:
    ending = b"" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n"
    return sign + line + ending


def _not_emptied(pieces: _Pieces) -> Iterator[Piece]:
    """Yields the pieces; blank lines stay in a file that has nothing else."""
    has_records = False  # whether a line has come that stays
    blank: list[Piece] = []
    size = 0  # bytes of these
    for piece in pieces():
        if not has_records and not piece.new:
            blank.append(piece)
            size += len(piece.old)
            if size <= _MOST_BLANK:
                continue
            blank = [p._replace(new=p.old, codes=Counter()) for p in blank]
        has_records = True
        yield from blank
        if blank[-1:] != [piece]:
            yield piece
        blank = []
    yield from [p._replace(new=p.old, codes=Counter()) for p in blank]


def _lines(
    fixer: Fixer,
    clean_filter: CleanFilter,
    source: Source,
    repairs: Repairs | None,
    drop: Collection[str],
    at: Callable[[int], None],
) -> Iterator[Piece]:
    deleted, untidy = repairs.rows(source.path) if repairs else (set(), set())
    before = b""  # the last line that is not blank
    for block in record_blocks(source, block_size=BLOCK, max_line=MAX_LINE):
        at(block.position)
        if block.broken:
            raise _NotWholeError(block.broken)
        if block.too_long:
            size = f"line {block.first_row} has {block.too_long:,} bytes"
            raise _NotWholeError(f"{size}, more than are read")
        if block.kind != "lines":
            # without runs of white space, as the layout of an array leaves them
            block = block._replace(data=_RUN.sub(lambda run: run[1] or b" ", block.data))
        lines = BytesIO(block.data).readlines()
        doubtful = dict(clean_filter.unproved(block.data)[1])
        if lines and not lines[-1].endswith(b"\n"):
            doubtful[len(lines) - 1] = lines[-1]
        rows = range(block.first_row, block.first_row + len(lines))
        repeated, also = (
            {row - rows.start for row in chosen.intersection(rows)} for chosen in (deleted, untidy)
        )
        doubtful |= {i: lines[i].removesuffix(b"\n") for i in repeated | also}
        written = 0
        for index, raw in sorted(doubtful.items()):
            row = block.first_row + index
            before = (lines[index - 1].rstrip() if index else b"") or before
            if not raw.strip() and before[-1:] not in b"\0}]":
                after = b"".join(lines[index + 1 : index + 9]).lstrip()
                if after[:1] not in b"\0{[":
                    continue  # inside of a text, perhaps, whose line ends are not escaped
            new, codes = (
                (None, Counter({"MYP601": 1})) if index in repeated else fixer.line(raw, row=row)
            )
            if repairs and new is not None and (index in also or (new != raw and repairs.active)):
                new, extra = repairs.tidied(fixer, new, row=row)
                codes += extra
            old = lines[index]
            bare = not old.endswith(b"\n")
            if bare and "MYP013" in fixer.checker.codes and not is_utf16(old):
                codes["MYP013"] += 1
                bare = False
            fresh = b"" if new is None else new + (b"" if bare else b"\n")
            dropped = _errors(fixer.checker, fresh, row, source.path, drop)
            if dropped:
                fresh, codes = b"", Counter()
            if fresh == old:
                continue
            if index > written:
                yield _same(lines[written:index], block.first_row + written)
            yield Piece(row, old, fresh, codes, dropped)
            written = index + 1
        if written < len(lines):
            yield _same(lines[written:], block.first_row + written)
        before = (lines[-1].rstrip() if lines else b"") or before


def _errors(
    checker: Checker, line: bytes, row: int, path: str, drop: Collection[str]
) -> frozenset[str]:
    """Returns the codes for which a line is dropped: of its findings that no baseline knows."""
    if not (drop and line):
        return frozenset()
    raw, chunk = line.removesuffix(b"\n"), Chunk()
    chunk.add(checker.line(raw, row=row, filename=path), raw, checker.baseline)
    once = [o.first for (code, _), o in chunk.once_per_file.items() if code in (MIXED, UNREAD)]
    items = (item.finding for item in (*chunk.findings, *once))
    return frozenset(finding.code for finding in items if finding.severity in drop)


def _same(lines: list[bytes], row: int) -> Piece:
    return Piece(row, data := b"".join(lines), data, Counter())


def _text(fixer: Fixer, source: Source) -> Iterator[Piece]:
    parts = list(blocks(source, block_size=BLOCK, max_line=MAX_TEXT))
    broken = next((part.broken for part in parts if part.broken), "")
    if broken or any(part.too_long for part in parts):
        raise _NotWholeError(broken or "it is too long to be read whole")
    old = b"".join(part.data for part in parts)
    new, codes = fixer.text(old)
    yield Piece(0, old, new, codes)
