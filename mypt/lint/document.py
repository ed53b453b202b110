"""Finds what an editor shows of an open document: findings, fixes, and what is trained.

Input is the text of a document and its settings; places are offsets in the whole text, in code
points. Nothing here knows the protocol; server.py does.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mypt_cli.jsonl.blocks import Source
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.texts import text_episodes
from mypt_lint.fix.apply import Fixer
from mypt_lint.places.json_edit import difference
from mypt_lint.places.positions import Places
from mypt_lint.run.resolve import Group
from mypt_lint.run.runner import run
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.encoder import segments
from mypt_spec.episode import Place
from mypt_spec.table import TEXT


class Edit(NamedTuple):
    """Replaces `text[start:end]` by `new`."""

    start: int
    end: int
    new: str


class Trained(NamedTuple):
    """Content of a legal episode, `text[start:end]`, and whether its tokens are trained."""

    start: int
    end: int
    loss: int


@dataclass(frozen=True)
class Document:
    """An open document, linted as a file of its name; its lines begin at `starts`, after an LF."""

    text: str
    group: Group
    findings: list[Diagnostic]
    starts: list[int] = field(repr=False)

    @staticmethod
    def from_text(text: str, group: Group) -> Document:
        """Lints a text with the checker of a group, whose one source has the document's name."""
        source = Source(group.sources[0].path, stream=io.BytesIO(encoded(text)))
        chunks = run(group.checker, [source], group.kind)
        items = [item for chunk in chunks for item in chunk.findings]
        starts = [0]
        while (end := text.find("\n", starts[-1])) >= 0:
            starts.append(end + 1)
        return Document(text, group, items, starts)

    def offset(self, row: int, column: int) -> int:
        """Returns the offset of a row and column, which count from 1, within the line."""
        start = self.starts[min(row, len(self.starts)) - 1]
        return min(start + column - 1, self._end(row))

    def span(self, item: Diagnostic) -> tuple[int, int]:
        return self.offset(item.row, item.column), self.offset(item.end_row, item.end_column)

    def fix(self, item: Diagnostic) -> list[Edit]:
        """Returns the edits that make a finding's fix; none where it has none."""
        if self.group.kind != "record":
            fix = item.finding.fix
            return [] if fix is None else [Edit(*edit) for edit in fix.edits]
        if item.edit is None:
            return []
        start, end, new = item.edit
        edit = Edit(self.offset(item.row, start), self.offset(item.row, end), new)
        line, after = self.starts[item.row - 1], self._end(item.row)
        is_blank = not (self.text[line : edit.start] + new + self.text[edit.end : after]).strip()
        return [Edit(line, min(after + 1, len(self.text)), "")] if is_blank else [edit]

    def fix_all(self) -> list[Edit]:
        """Returns the edits of `mypt-lint --fix`."""
        fixer = Fixer(self.group.checker)
        if self.group.kind == "text":
            fixed = fixer.text(encoded(self.text))[0].decode("utf-8", "replace")
            return _changed(0, self.text, fixed)
        out: list[Edit] = []
        for row in sorted({item.row for item in self.findings if fixer.wants(item.finding)}):
            start, end = self.starts[row - 1], self._end(row)
            old, last = self.text[start:end], end == len(self.text)
            new, _ = fixer.line(encoded(old), row=row)
            ending = "" if last else "\n"
            wants_end = last and "MYP013" in fixer.checker.codes and old
            new_ending = b"\n" if wants_end else ending.encode()
            after = b"" if new is None else new + new_ending
            out += _changed(start, old + ending, after.decode("utf-8", "replace"))
        return out

    def mask(self, start: int = 0, end: int | None = None) -> Iterator[Trained]:
        """Yields what is trained of legal lines or episodes that touch a range, in order."""
        end = len(self.text) if end is None else end
        if self.group.kind == "text":
            yield from self._text_mask(start, end)
        elif self.group.kind == "record":
            for row, first in enumerate(self.starts, 1):
                last = self._end(row)
                if first <= end and start <= last:
                    ranges = self._line_mask(self.text[first:last])
                    yield from _disjoint(
                        Trained(a + first, b + first, loss) for a, b, loss in ranges
                    )

    def _end(self, row: int) -> int:
        return self.starts[row] - 1 if row < len(self.starts) else len(self.text)

    def _line_mask(self, line: str) -> Iterator[Trained]:
        dialect = self.group.checker.dialect
        try:
            episode, faults = dialect.check(loads(line.strip()))
            if episode is None or any(fault.severity == "error" for fault in faults):
                return
            segments = dialect.segments(episode)
        except (Fault, ValueError):
            return
        places = Places(line)
        for segment in segments:
            event = segment.event
            for at in (event.name_at, event.at) if event.terminal == TEXT else ():
                if at is not None and at.pointer:
                    yield Trained(*_inside(places, line, at), segment.loss)

    def _text_mask(self, start: int, end: int) -> Iterator[Trained]:
        checker = self.group.checker
        for unit in text_episodes(checker, self.text):
            if unit.episode is None or unit.start > end or unit.start + len(unit.text) < start:
                continue
            d = checker.dialect
            for segment in segments(d.lex(unit.text), d.table, d.tokenizer):
                is_gap = segment.event.terminal == TEXT and not segment.inside
                if segment.event.at.span is not None and not is_gap:
                    a, b = segment.event.at.span
                    if segment.trailing:
                        b -= len(unit.text[a:b]) - len(unit.text[a:b].rstrip())
                    yield Trained(unit.start + a, unit.start + b, segment.loss)


def encoded(text: str) -> bytes:
    """Returns a text in UTF-8; half a surrogate pair becomes bytes that are a finding."""
    return text.encode("utf-8", "surrogatepass")


def _inside(places: Places, line: str, at: Place) -> tuple[int, int]:
    """Returns the source of a value; of a string, without its quotes."""
    start, end = places.locate(at.pointer, at.span)
    return (start + 1, end - 1) if at.span is None and line.startswith('"', start) else (start, end)


def _disjoint(ranges: Iterator[Trained]) -> Iterator[Trained]:
    """Yields the ranges in order, without those that overlap another."""
    last = 0
    for item in sorted(ranges):
        if item.start >= last and item.end > item.start:
            yield item
            last = item.end


def _changed(start: int, old: str, new: str) -> list[Edit]:
    """Returns the edit that makes the new text of the old, without what both have at their ends."""
    if old == new:
        return []
    first, last, text = difference(old, new)
    return [Edit(start + first, start + last, text)]
