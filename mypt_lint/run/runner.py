"""Checks sources: bytes in, findings with their places out, in order. Prints nothing.

Lines are independent, so a file is cut into byte ranges that workers read by themselves; results
come back in the order of the file whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mypt_cli.jsonl.blocks import Block, Source, blocks
from mypt_cli.jsonl.records import record_blocks
from mypt_cli.jsonl.values import MAX_LINE
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.check.file_faults import BLOCK, broken_off, ending, too_long, whole_text
from mypt_lint.check.origins import placed
from mypt_lint.check.texts import generation_line, generation_units, row_line, text_units
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.run.chunk import FAR, ONE_LABEL, Chunk, hold, labels, once
from mypt_spec.findings import Finding


def run(checker: Checker, sources: list[Source], kind: str) -> Iterator[Chunk]:
    """Checks sources in order; `summary.files` is 1 in the last chunk of each."""
    yield from once(_run(checker, sources, kind))


def _run(checker: Checker, sources: list[Source], kind: str) -> Iterator[Chunk]:
    fast = FastChecker(checker)
    for source in sources:
        if kind in ("record", "rows") or (kind == "generation" and _is_jsonl(source.path)):
            yield from check_lines(fast, source, kind=kind)
        else:
            yield _whole_file(checker, source, kind)


def check_lines(
    fast: FastChecker,
    source: Source,
    *,
    kind: str = "record",
    part: tuple[int, int | None] | None = None,
) -> Iterator[Chunk]:
    """Checks a JSONL source line by line, a block at a time; or the part of it in a byte range."""
    for piece in pieces(fast, source, kind=kind, part=part):
        yield piece()


def pieces(
    fast: FastChecker,
    source: Source,
    *,
    kind: str = "record",
    part: tuple[int, int | None] | None = None,
) -> Iterator[Callable[[], Chunk]]:
    """Yields the work of `check_lines`, read but not done; in a range, rows count from `FAR`."""
    start, end = part or (0, None)
    base = FAR if start else 0
    read_blocks = blocks if kind == "generation" else record_blocks
    last: Block | None = None
    for block in read_blocks(source, block_size=BLOCK, max_line=MAX_LINE, start=start, end=end):
        yield partial(checked, fast, block, base + block.first_row, source.path, kind)
        last = block
    if end is None:
        yield partial(ended, fast.checker, last, base, source.path)


def checked(fast: FastChecker, block: Block, row: int, path: str, kind: str) -> Chunk:
    """Checks a block of a file of some kind; `row` is that of its first line."""
    if block.too_long or block.fault:
        return (_too_long if block.too_long else _fault)(fast, block, row, path)
    if kind == "record":
        return _records(fast, block, row, path)
    line = row_line if kind == "rows" else generation_line
    return _each(line, fast, block, row, path)


def _records(fast: FastChecker, block: Block, row: int, path: str) -> Chunk:
    """Checks a block of records; `row` is that of its first line."""
    units, results = fast.block(_complete_lines(block), row=row, filename=path)
    unit = "line" if block.kind == "lines" else "record"
    summary = Summary(units=units, bytes=len(block.data), unit_name=unit)
    chunk = Chunk(summary=summary, position=block.position)
    baseline = fast.checker.known
    if block.kind != "lines":
        results = [(raw, placed(_of_records(items), block, row)) for raw, items in results]
    if fast.checker.shape == "kto" and fast.checker.selects(ONE_LABEL):
        hint = "KTO compares good answers with bad ones: add records with the other label"
        first = block.data.partition(b"\n")[0].decode("utf-8", "replace")
        for label, count in labels(block.data).items():
            finding = Finding(ONE_LABEL, label, help=hint)
            item = fast.checker.at(finding, first, 0, len(first), row, path)
            hold(chunk.once_per_file, item, count)
    return chunk.counted(sum([chunk.add(items, raw, baseline) for raw, items in results]))


def _of_records(items: list[Diagnostic]) -> list[Diagnostic]:
    """Returns findings without those about lines: records of arrays and tables are none."""
    return [item for item in items if item.finding.code != "MYP019"]


def _each(
    check: Callable[..., list[Diagnostic]], fast: FastChecker, block: Block, row: int, path: str
) -> Chunk:
    lines = Block(_complete_lines(block), 1, 0).lines()
    chunk = Chunk(summary=Summary(units=len(lines), bytes=len(block.data)), position=block.position)
    faulty = 0
    for i, raw in enumerate(lines):
        items = check(fast.checker, raw, row=row + i, filename=path)
        faulty += chunk.add(placed(items, block, row), raw, fast.checker.known)
    return chunk.counted(faulty)


def _complete_lines(block: Block) -> bytes:
    """Returns a block without the piece of a line at a damaged end, which is no bad JSON."""
    return block.data[: block.data.rfind(b"\n") + 1] if block.broken else block.data


def _too_long(fast: FastChecker, block: Block, row: int, path: str) -> Chunk:
    chunk = Chunk(summary=Summary(units=1, bytes=len(block.data)), position=block.position)
    items = too_long(fast.checker, block, row, path)
    chunk.add(items, b"%d %b" % (block.too_long, block.data), fast.checker.known)
    return chunk.counted(int(not chunk.summary.known))


def _fault(fast: FastChecker, block: Block, row: int, path: str) -> Chunk:
    """Returns the finding about what is wrong between records."""
    chunk = Chunk(position=block.position)
    chunk.add(broken_off(fast.checker, block, row, path), b"", fast.checker.known)
    return chunk.counted(0)


def ended(checker: Checker, last: Block | None, base: int, path: str) -> Chunk:
    """Returns what only the end of a file shows; `base` is added to rows of its `last` block."""
    chunk = Chunk(summary=Summary(files=1), position=last.position if last else 0)
    chunk.add(ending(checker, last, base, path), b"", checker.known)
    return chunk.counted(0)


def _whole_file(checker: Checker, source: Source, kind: str) -> Chunk:
    """Checks a serialised text, which is read whole: it may span lines."""
    data, size, items = whole_text(checker, source)
    summary = Summary(files=1, bytes=size, unit_name="text", units=1)
    chunk = Chunk(items, summary, source.size or size)
    clean = 0
    if not items:
        outcome = (text_units if kind == "text" else generation_units)(checker, data, source.path)
        chunk.findings, summary.units, clean = outcome.findings, outcome.units, outcome.clean
    return chunk.counted(summary.units - clean)


def _is_jsonl(path: str) -> bool:
    return path.lower().removesuffix(".gz").removesuffix(".zst").endswith((".jsonl", ".ndjson"))
