"""Checks sources: bytes in, located findings out, in order. Prints nothing.

Lines are independent, so a file is cut into byte ranges that workers read by themselves; results
come back in the order of the file whatever the number of workers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from mypt_cli.jsonl.blocks import Block, Source, blocks
from mypt_cli.jsonl.line import is_utf16
from mypt_lint.check.checker import Checker, excerpt
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.check.texts import generation_units, text_units
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_lint.fix.json_edit import replacement
from mypt_lint.settings.baseline import Key, keys
from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding, Fix

MAX_LINE = 8 << 20  # bytes; several copies of a line are held while it is read
MAX_TEXT = 64 << 20  # bytes of a serialised text, which is read whole
BLOCK = 96 << 10  # larger pieces of memory go back to the system and come anew, page by page
FAR = 1 << 48  # rows of a range count from here, so that none is taken for the file's first


@dataclass(slots=True)
class Chunk:
    """The outcome for a part of a source, in order.

    `position` is the number of bytes on disk read so far, for progress. `keys` are those of all
    findings, including known ones, which are not among `found`; only with a baseline.
    """

    found: list[Diagnostic]
    summary: Summary
    position: int = 0
    keys: set[Key] = field(default_factory=set)


def check_bytes(checker: Checker, data: bytes, filename: str = "<bytes>") -> list[Diagnostic]:
    """Returns all findings of data held in memory, as JSONL."""
    source = Source(filename, stream=io.BytesIO(data))
    return [
        item for chunk in check_lines(checker, CleanFilter(checker), source) for item in chunk.found
    ]


def run(checker: Checker, sources: list[Source], kind: str, *, jobs: int = 1) -> Iterator[Chunk]:
    """Checks sources in the order given.

    Every chunk belongs to one source; `summary.files` is 1 in its last chunk.
    """
    if kind == "record" and jobs > 1:
        from mypt_lint.run.parallel import run_parallel

        yield from run_parallel(checker, sources, jobs)
        return
    clean_filter = CleanFilter(checker)
    for source in sources:
        if kind == "record" or (kind == "generation" and _is_jsonl(source.path)):
            yield from check_lines(checker, clean_filter, source, kind=kind)
        else:
            yield _whole(checker, source, kind)


def check_lines(
    checker: Checker,
    clean_filter: CleanFilter,
    source: Source,
    *,
    kind: str = "record",
    part: tuple[int, int | None] | None = None,
) -> Iterator[Chunk]:
    """Checks a JSONL source line by line, a block at a time; or the part of it in a byte range."""
    for piece in pieces(checker, clean_filter, source, kind=kind, part=part):
        yield piece()


def pieces(
    checker: Checker,
    clean_filter: CleanFilter,
    source: Source,
    *,
    kind: str = "record",
    part: tuple[int, int | None] | None = None,
) -> Iterator[Callable[[], Chunk]]:
    """Yields the work of `check_lines` in pieces: read, but not yet done.

    In a byte range, rows count from `FAR`.
    """
    start, end = part or (0, None)
    base = FAR if start else 0
    last: Block | None = None
    for block in blocks(source, block_size=BLOCK, max_line=MAX_LINE, start=start, end=end):
        first = base + block.first_row
        yield partial(
            _too_long if block.too_long else _block,
            checker,
            clean_filter,
            block,
            first,
            source.path,
            kind,
        )
        last = block
    if end is None:
        yield partial(_ending, checker, last, base, source.path)


def _block(
    checker: Checker, clean_filter: CleanFilter, block: Block, first: int, path: str, kind: str
) -> Chunk:
    data = block.data
    if block.broken:
        data = data[: data.rfind(b"\n") + 1]  # the piece of a line at a damaged end is no bad JSON
    if kind == "record":
        units, doubtful = clean_filter.unproved(data)
        check = clean_filter.cache.line
    else:
        lines = Block(data, 1, 0).lines()
        units, doubtful = len(lines), list(enumerate(lines))
        check = checker.generation_line
    chunk = Chunk([], Summary(units=units, bytes=len(block.data)), block.position)
    faulty = 0
    for index, raw in doubtful:
        items = settled(checker, check(raw, row=first + index, filename=path), raw, chunk)
        chunk.found += items
        faulty += bool(items)
    return _counted(chunk, faulty)


def settled(
    checker: Checker, items: list[Diagnostic], raw: bytes, chunk: Chunk
) -> list[Diagnostic]:
    """Returns the findings of a line that the baseline does not know; `chunk` counts the others."""
    if checker.known is None or not items:
        return items
    left = []
    for item, key in zip(items, keys(items, raw), strict=True):
        if key is not None:
            chunk.keys.add(key)
        if key in checker.known:
            chunk.summary.known += 1
        else:
            left.append(item)
    return left


def _counted(chunk: Chunk, faulty: int) -> Chunk:
    chunk.summary.faulty = faulty
    chunk.summary.clean = chunk.summary.units - faulty
    tally(chunk.summary, chunk.found)
    return chunk


def tally(summary: Summary, found: Iterable[Diagnostic]) -> None:
    """Counts findings, and the units that each code touches."""
    seen: set[tuple[str, int]] = set()
    for item in found:
        code = item.finding.code
        summary.by_severity[item.finding.severity] += 1
        summary.by_code[code] += 1
        if item.finding.on_key:
            summary.count_key((code, unescape(item.finding.pointer.rpartition("/")[2])))
        if item.finding.fix is not None:
            summary.fixable["safe" if item.finding.fix.safe else "unsafe"] += 1
        if (code, item.row) not in seen:
            seen.add((code, item.row))
            summary.units_by_code[code] += 1


def _place(
    checker: Checker,
    code: str,
    message: str,
    row: int,
    path: str,
    *,
    hint: str = "",
    text: str = "",
    fix: Fix | None = None,
    insist: bool = False,
) -> list[Diagnostic]:
    finding = Finding(code, message, help=hint, fix=fix)
    finding = checker.graded(checker.insist(finding) if insist else finding)
    if not checker.selects(finding.code):
        return []
    column = len(text) + 1
    snippet = excerpt(text, len(text), len(text)) if text else None
    edit = replacement(text, fix) if fix is not None else None
    return [
        Diagnostic(
            finding,
            path,
            row,
            column,
            row,
            column,
            checker.dialect.name,
            snippet,
            edit,
        )
    ]


def too_long(checker: Checker, block: Block, row: int, path: str) -> list[Diagnostic]:
    """Returns the finding about a line that is not read because of its length."""
    message = f"the line has {block.too_long:,} bytes; at most {MAX_LINE:,} are read"
    return _place(
        checker,
        "MYP007",
        message,
        row,
        path,
        hint="split the conversation, or check that lines end in LF",
        insist=True,
    )


def broken_off(checker: Checker, block: Block, row: int, path: str) -> list[Diagnostic]:
    """Returns the finding about a damaged file, where it ends."""
    hint = "the file is incomplete or damaged: compress it again from its source"
    return _place(checker, "MYP003", block.broken, row, path, hint=hint, insist=True)


def _too_long(
    checker: Checker, _: CleanFilter, block: Block, row: int, path: str, __: str
) -> Chunk:
    chunk = Chunk([], Summary(units=1, bytes=len(block.data)), block.position)
    chunk.found = settled(
        checker, too_long(checker, block, row, path), b"%d %b" % (block.too_long, block.data), chunk
    )
    return _counted(chunk, 1 if chunk.found or not chunk.summary.known else 0)


def _ending(checker: Checker, last: Block | None, base: int, path: str) -> Chunk:
    """Returns the findings that only the end of a file shows."""
    summary = Summary(files=1)
    found: list[Diagnostic] = []
    if last is None:
        found = _place(
            checker,
            "MYP012",
            "the file is empty",
            1,
            path,
            hint="delete it, or check what should have written it",
        )
    else:
        lines = last.lines()
        row = base + last.first_row + max(0, len(lines) - 1)
        if last.broken:
            found = broken_off(checker, last, row, path)
        elif not (last.data.endswith(b"\n") or last.too_long or is_utf16(lines[-1])):
            text = lines[-1].decode("utf-8", "replace") if lines else ""
            fix = Fix("end it with LF", True, edits=((len(text), len(text), "\n"),))
            message = "the last line has no line end; was the file cut off?"
            found = _place(checker, "MYP013", message, row, path, text=text, fix=fix)
    chunk = Chunk([], summary, last.position if last else 0)
    chunk.found = settled(checker, found, b"", chunk)
    tally(summary, chunk.found)
    return chunk


def _whole(checker: Checker, source: Source, kind: str) -> Chunk:
    """Checks a serialised text, which is read whole: it may span lines."""
    data, size, found = whole_text(checker, source)
    summary = Summary(files=1, bytes=size, unit_name="text")
    units, clean = 1, 0
    if not found:
        outcome = (text_units if kind == "text" else generation_units)(checker, data, source.path)
        found, units, clean = outcome.found, outcome.units, outcome.clean
    summary.units, summary.clean, summary.faulty = units, clean, units - clean
    tally(summary, found)
    return Chunk(found, summary, source.size or size)


def whole_text(checker: Checker, source: Source) -> tuple[bytes, int, list[Diagnostic]]:
    """Returns the bytes of a serialised text, their number, and findings if it cannot be read."""
    parts = list(blocks(source, block_size=BLOCK, max_line=MAX_TEXT))
    size = sum(len(b.data) + b.too_long for b in parts)
    if size > MAX_TEXT or any(b.too_long for b in parts):
        message = f"the text has {size:,} bytes; at most {MAX_TEXT:,} are read"
        return b"", size, _place(checker, "MYP007", message, 1, source.path, hint="split the file")
    broken = next((b for b in parts if b.broken), None)
    if broken is not None:
        return b"", size, _place(checker, "MYP003", broken.broken, broken.first_row, source.path)
    return b"".join(b.data for b in parts), size, []


def _is_jsonl(path: str) -> bool:
    return path.lower().removesuffix(".gz").removesuffix(".zst").endswith((".jsonl", ".ndjson"))
