"""Finds what is wrong with a file rather than with a record in it.

Input are blocks of a source; output are diagnostics: a line that is too long to be read, data that
is broken off, a file that is empty or lacks its last line end.
"""

from mypt_cli.jsonl.blocks import Block, Source, blocks
from mypt_cli.jsonl.line import is_utf16
from mypt_cli.jsonl.values import unread
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.origins import placed
from mypt_spec.findings import Finding, Fix

MAX_TEXT = 64 << 20  # bytes of a serialised text, which is read whole
BLOCK = 192 << 10  # smaller blocks of lines take longer, and larger ones get new memory each time


def too_long(checker: Checker, block: Block, row: int, path: str) -> list[Diagnostic]:
    """Returns the finding about a line that is not read because of its length."""
    return placed(_about(checker, checker.insist(unread(block)), row, path), block, row)


def broken_off(checker: Checker, block: Block, row: int, path: str) -> list[Diagnostic]:
    """Returns the finding about a damaged file, where the damage is."""
    items = _about(checker, checker.insist(block.finding()), row, path)
    if not (items and block.fault and block.origins):
        return placed(items, block, row)
    first_line = block.origins[0].raw.partition(b"\n")[0].decode("utf-8", "replace")
    item = checker.at(items[0].finding, first_line, 0, len(first_line), row, path)
    return placed([item if first_line else item._replace(snippet=None)], block, row)


def ending(checker: Checker, last: Block | None, base: int, path: str) -> list[Diagnostic]:
    """Returns the findings that only the end of a file shows.

    `last` is its last block, None where it has none; `base` is added to the rows of that block.
    """
    if last is None:
        hint = "delete it, or check what should have written it"
        return _about(checker, Finding("MYP012", "the file is empty", help=hint), 1, path)
    lines = last.lines()
    row = base + last.first_row + max(0, len(lines) - 1)
    if last.broken:
        return [] if last.fault else broken_off(checker, last, row, path)
    if last.kind != "lines":
        empty = not last.data and last.first_row == 1
        hint = "delete it, or check what should have written it"
        fault = Finding("MYP012", "the file has no records", help=hint)
        return _about(checker, fault, 1, path) if empty else []
    if last.data.endswith(b"\n") or last.too_long or is_utf16(lines[-1]):
        return []
    text = lines[-1].decode("utf-8", "replace") if lines else ""
    fix = Fix("end it with LF", True, edits=((len(text), len(text), "\n"),))
    message = "the last line has no line end; was the file cut off?"
    return _about(checker, Finding("MYP013", message, fix=fix), row, path, text)


def whole_text(checker: Checker, source: Source) -> tuple[bytes, int, list[Diagnostic]]:
    """Returns the bytes of a serialised text, their number, and findings if it cannot be read."""
    parts = list(blocks(source, block_size=BLOCK, max_line=MAX_TEXT))
    size = sum(len(b.data) + b.too_long for b in parts)
    if size > MAX_TEXT or any(b.too_long for b in parts):
        message = f"the text has {size:,} bytes; at most {MAX_TEXT:,} are read"
        finding = Finding("MYP007", message, help="split the file")
        return b"", size, _about(checker, finding, 1, source.path)
    broken = next((b for b in parts if b.broken), None)
    if broken is not None:
        finding = Finding("MYP003", broken.broken)
        return b"", size, _about(checker, finding, broken.first_row, source.path)
    return b"".join(b.data for b in parts), size, []


def _about(
    checker: Checker, finding: Finding, row: int, path: str, line: str = ""
) -> list[Diagnostic]:
    """Returns the finding at the end of a line, or about the row alone, if it is selected."""
    if not checker.selects(finding.code):
        return []
    item = checker.at(finding, line, len(line), len(line), row, path)
    return [item if line else item._replace(snippet=None)]
