"""Checks sources: bytes in, findings with their places out, in order. Prints nothing.

Lines are independent, so a file is cut into byte ranges that workers read by themselves; results
come back in the order of the file whatever the number of workers.
"""

from collections.abc import Callable, Iterator
from functools import partial

from mypt_cli.jsonl.blocks import Block, Source, blocks
from mypt_cli.jsonl.records import record_blocks
from mypt_cli.jsonl.values import MAX_LINE
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Summary
from mypt_lint.check.file_faults import BLOCK, broken_off, ending, too_long, whole_text
from mypt_lint.check.origins import placed
from mypt_lint.fast.fast_checker import FEW, FastChecker
from mypt_lint.run.chunk import FAR, FORMS, ONE_LABEL, Chunk, hold, labels, once
from mypt_lint.run.forms import forms
from mypt_spec.findings import Finding


def run(checker: Checker, sources: list[Source], kind: str) -> Iterator[Chunk]:
    """Checks sources in order; `summary.files` is 1 in the last chunk of each."""
    yield from once(_run(checker, sources, kind))


def _run(checker: Checker, sources: list[Source], kind: str) -> Iterator[Chunk]:
    fast = FastChecker(checker, few=FEW)
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
        if block.data == b"\0" and last and last.data.endswith(b"\0\n"):
            continue  # half of the last line end in UTF-16, little-endian
        yield partial(checked, fast, block, base + block.first_row, source.path, kind)
        last = block
    if end is None:
        yield partial(ended, fast.checker, last, base, source.path)


def checked(fast: FastChecker, block: Block, row: int, path: str, kind: str) -> Chunk:
    """Checks a block of a file of some kind; `row` is that of its first line."""
    checker, data = fast.checker, block.data
    chunk = Chunk(position=block.position)
    if block.fault and not block.too_long:  # what is wrong between records
        chunk.add(broken_off(checker, block, row, path), b"", checker.baseline)
        return chunk.counted(0)
    chunk.summary.bytes = len(data)
    if block.too_long:
        items = too_long(checker, block, row, path)
        chunk.summary.units = 1
        chunk.add(items, b"%d %b" % (block.too_long, data), checker.baseline)
        return chunk.counted(int(not chunk.summary.in_baseline))
    if block.broken:  # the piece of a line at a damaged end is no bad JSON
        data = data[: data.rfind(b"\n") + 1]
    if kind == "record":
        chunk.summary.units, results = fast.block(data, row=row, filename=path)
        if checker.profiled:
            from mypt_lint.check.profiler import profiled

            chunk.summary.profile = profiled(checker, data.split(b"\n"))
    else:
        from mypt_lint.check import texts

        check = texts.row_line if kind == "rows" else texts.generation_line
        lines = enumerate(Block(data, 1, 0).lines(), row)
        results = [(raw, check(checker, raw, row=at, filename=path)) for at, raw in lines]
        chunk.summary.units = len(results)
    if block.kind != "lines":
        if kind == "record":  # no line, so findings about lines are not of it
            chunk.summary.unit_name = "record"
            results = [
                (raw, [i for i in items if i.finding.code != "MYP019"]) for raw, items in results
            ]
        results = [(raw, placed(items, block, row)) for raw, items in results]
    if kind == "record" and checker.shape == "kto" and checker.selects(ONE_LABEL):
        hint = "KTO compares good answers with bad ones: add records with the other label"
        first = block.data.partition(b"\n")[0].decode("utf-8", "replace")
        for label, count in labels(block.data).items():
            finding = Finding(ONE_LABEL, label, help=hint)
            item = checker.at(finding, first, 0, len(first), row, path)
            hold(chunk.once_per_file, item, count)
    for key, form, line in forms(block) if kind == "record" and checker.selects(FORMS) else ():
        finding = Finding(FORMS, f'"{key}" is {form}', help="write all of a file in one form")
        item = checker.at(finding, "", 0, 0, row + line, path)
        (item,) = placed([item._replace(snippet=None)], block, row)
        hold(chunk.once_per_file, item)
    return chunk.counted(sum([chunk.add(items, raw, checker.baseline) for raw, items in results]))


def ended(checker: Checker, last: Block | None, base: int, path: str) -> Chunk:
    """Returns what only the end of a file shows; `base` is added to rows of its `last` block."""
    chunk = Chunk(summary=Summary(files=1), position=last.position if last else 0)
    chunk.add(ending(checker, last, base, path), b"", checker.baseline)
    return chunk.counted(0)


def _whole_file(checker: Checker, source: Source, kind: str) -> Chunk:
    """Checks a serialised text, which is read whole: it may span lines."""
    data, size, items = whole_text(checker, source)
    summary = Summary(files=1, bytes=size, unit_name="text", units=1)
    chunk = Chunk(items, summary, source.size or size)
    clean = 0
    if not items:
        from mypt_lint.check import texts

        check = texts.text_units if kind == "text" else texts.generation_units
        outcome = check(checker, data, source.path)
        chunk.findings, summary.units, clean = outcome.findings, outcome.units, outcome.clean
    return chunk.counted(summary.units - clean)


def _is_jsonl(path: str) -> bool:
    return path.lower().removesuffix(".gz").removesuffix(".zst").endswith((".jsonl", ".ndjson"))
