"""Finds what is wrong with a file rather than with a record in it.

Input are blocks of a source; output are diagnostics: a line that is too long to be read, data that
is broken off, a file that is empty or lacks its last line end.
"""

from __future__ import annotations

from dataclasses import replace

from mypt_cli.jsonl.blocks import Block, Source, blocks
from mypt_cli.jsonl.line import is_utf16
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_spec.findings import Finding, Fix

MAX_LINE = 8 << 20  # bytes; several copies of a line are held while it is read
MAX_TEXT = 64 << 20  # bytes of a serialised text, which is read whole
BLOCK = 96 << 10  # larger pieces of memory go back to the system and come anew, page by page


def too_long(checker: Checker, block: Block, row: int, path: str) -> list[Diagnostic]:
    """Returns the finding about a line that is not read because of its length."""
    message = f"the line has {block.too_long:,} bytes; at most {MAX_LINE:,} are read"
    hint = "split the conversation, or check that lines end in LF"
    return _about(checker, checker.insist(Finding("MYP007", message, help=hint)), row, path)


def broken_off(checker: Checker, block: Block, row: int, path: str) -> list[Diagnostic]:
    """Returns the finding about a damaged file, where it ends."""
    hint = "the file is incomplete or damaged: compress it again from its source"
    return _about(checker, checker.insist(Finding("MYP003", block.broken, help=hint)), row, path)


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
        return broken_off(checker, last, row, path)
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
    return [item if line else replace(item, snippet=None)]
