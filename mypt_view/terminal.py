"""Shows items on a terminal: as chat bubbles, with the mask, or as ids.

User text goes through `Text` objects only, made visible.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from mypt_cli.terminal import Display
from mypt_cli.words import counted, notes
from mypt_lint.report.totals import by_severity
from mypt_spec.encoder import Segment
from mypt_spec.findings import Finding
from mypt_spec.tokenizer.tokenizer import Tokenizer
from mypt_view.blocks import Block, blocks_of
from mypt_view.items import Item, outline
from mypt_view.layout import Run, rows
from mypt_view.pieces import pieces, quoted

_WIDTH = 100  # cells, where there is no terminal
_INDENT = 6  # cells before blocks of the model
SEVERITY = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_POINTED = {"error": "underline red", "warning": "underline yellow", "info": "underline cyan"}
TRAINED, MASKED = "bold green underline", "dim"
TRAINED_MARK, _FINDING_MARK = "^", "~"  # printed under text where there is no colour
_SOLID, _DASHED, _ASCII = "╭─╮│╰╯╎", "╭┄╮┊╰╯╎", "+-+|++:"
_COLOURS = {
    "user": "bright_blue",
    "model": "green",
    "system": "magenta",
    "think": "bright_black",
    "call": "yellow",
    "tool": "cyan",
}


class Terminal:
    """Shows items on one stream, in colour where it is a terminal and NO_COLOR is not set."""

    def __init__(
        self, stream: TextIO, *, color: bool | None = None, width: int | None = None
    ) -> None:
        self._stream = stream
        self.display = Display(stream)
        options: dict[str, Any] = {}
        if color is not None:
            system = "standard" if color else None
            options = {"force_terminal": color, "color_system": system, "no_color": not color}
        self._console = Console(file=stream, markup=False, highlight=False, emoji=False, **options)
        self.plain = self._console.color_system is None or self._console.no_color
        console_width = self._console.width if self._console.is_terminal else _WIDTH
        self._width = max(width or console_width, 20)
        self._fine = self.display.printable(_SOLID) == _SOLID

    def show(self, item: Item, view: str) -> None:
        """Prints one item in one of the views "chat", "mask" and "ids"."""
        blocks, remaining = blocks_of(item)
        has_ids = item.segments is not None
        lacks = {"mask": "loss mask", "ids": "ids"}.get(view, "")
        self._head(item, "" if has_ids else lacks)
        if view == "mask" and has_ids and self.plain:
            self._print(Text(f"  trained tokens are marked {TRAINED_MARK}"))
        elif view == "mask" and has_ids:
            self._print(Text.assemble("  ", ("trained", TRAINED), "  ", ("masked", MASKED)))
        for finding in remaining:
            self._finding(finding)
        if view == "ids" and has_ids:
            for finding in [f for block in blocks for f in block.findings]:
                self._finding(finding)
            for row in self._ids(item):
                self._print(row)
        else:
            self._bubbles(blocks, item.dialect.tokenizer if view == "mask" and has_ids else None)

    def note(self, item: Item, lacks: str = "") -> None:
        """Prints the summary and the findings alone."""
        self._head(item, lacks)
        for finding in item.findings:
            self._finding(finding)

    def _head(self, item: Item, lacks: str) -> None:
        head = Text.assemble((self.display.line(summary(item)), "bold"))
        if lacks:
            head.append(f"\n  no {lacks}: {self.display.line(item.lacks)}", SEVERITY["error"])
        self._print(head)

    def _print(self, text: Text) -> None:
        if self.plain:
            self._stream.write(text.plain + "\n")
        else:
            self._console.print(text, soft_wrap=True)

    def _finding(self, finding: Finding, indent: int = 2) -> None:
        margin, line = " " * indent, self.display.line
        lead = f"{finding.severity}[{finding.code}]", SEVERITY[finding.severity]
        name = f" {finding.name}: ", "bold"
        text = Text.assemble(margin, lead, name, line(finding.message))
        for label, note in notes(finding):
            text.append(f"\n{margin}  = {label}: ", "dim")
            text.append(line(note))
        self._print(text)

    def _bubbles(self, blocks: Iterable[Block], masked_by: Tokenizer | None) -> None:
        """Prints blocks as bubbles, with a tokenizer as what is trained of them."""
        for block in blocks:
            is_shown = block.style_name != "meta" or bool(block.findings)
            if not (is_shown if masked_by else block.visible):
                continue
            indent = _INDENT if block.model else 2 * block.nested
            self._bubble(block, indent, masked_by)
            for finding in block.findings:
                self._finding(finding, indent + 2)

    def _bubble(self, block: Block, indent: int, masked_by: Tokenizer | None) -> None:
        dashed = block.style_name == "think"
        fine = _DASHED if dashed else _SOLID
        corner, line, right, side, low, end, under = tuple(fine if self._fine else _ASCII)
        colour = _COLOURS.get(block.style_name, "white")
        runs = _runs(block, "dim italic" if dashed else "", masked_by)
        room = max(10, self._width - indent - 4 - (0 if block.model else _INDENT))
        laid = rows(runs, room, self.display, ends=masked_by is not None)
        title = f" {self.display.line(block.title)} "[: self._width]
        width = max([row.width for row in laid] + [Text(title).cell_len])
        margin, edge = " " * indent, (side, colour)
        first = (corner + line, colour), (title, f"bold {colour}")
        rest = line * (width - Text(title).cell_len + 1) + right
        self._print(Text.assemble(margin, *first, (rest, colour)))
        for row in laid:
            blank = " " * (width - row.width + 1)
            self._print(Text.assemble(margin, edge, " ", *row.runs(), blank, edge))
            if self.plain and row.marks:
                self._print(Text(f"{margin}{under} {row.marks}"))
        self._print(Text.assemble(margin, (low + line * (width + 2) + end, colour)))

    def _ids(self, item: Item) -> Iterator[Text]:
        tokenizer = item.dialect.tokenizer
        places = [(segment, "/".join(segment.inside) or "-") for segment in item.segments or ()]
        wide = max((len(place) for _, place in places), default=0)
        at = 0
        for segment, place in places:
            for number, trained in zip(segment.ids, segment.losses, strict=True):
                text = quoted(tokenizer.decode_bytes([number]), self.display)
                yield Text.assemble(
                    f"{at:>6} {number:>6}  ",
                    ("trained", TRAINED) if trained else ("masked ", MASKED),
                    (f"  {place:<{wide}}  ", "dim"),
                    (text, "" if number in tokenizer.ordinary else "bold"),
                )
                at += 1


def summary(item: Item) -> str:
    """Returns one line about an item: its dialect, length, share of trained tokens and findings."""
    turns, phase = outline(item)
    words = [item.format + (f" phase {phase}" if phase is not None else "")]
    if item.segments is not None:
        total, trained = len(item.ids), sum(item.loss)
        share = f" ({100 * trained / total:.0f} %)" if total else ""
        words.append(f"{counted(total, 'token')}, {trained} trained{share}")
    if turns is not None:
        words.append(counted(turns, "turn"))
    words.append(by_severity(Counter(f.severity for f in item.findings)) or "no findings")
    return f"{item.label}: {'; '.join(words)}"


def _runs(block: Block, style: str, masked_by: Tokenizer | None) -> Iterator[Run]:
    """Yields what to show of a block: text, and tags with findings; with a tokenizer all tags, and
    what is trained.
    """
    mask = masked_by is not None
    for chunk in block.chunks:
        if chunk.is_tag and not mask and not chunk.marks:
            continue
        if masked_by is not None and chunk.segment is not None and chunk.segment.shares:
            yield from _in_parts(chunk.event.text, chunk.segment, masked_by)
            continue
        trained = bool(mask and chunk.segment is not None and chunk.segment.loss)
        base = (
            (TRAINED if trained else MASKED) if mask else f"{style} bold" if chunk.inline else style
        )
        under = TRAINED_MARK if trained else " "
        text, at = chunk.event.text, 0
        length = len(text)
        if trained and chunk.segment is not None and chunk.segment.trailing:
            text = text.rstrip()
        breaks = [] if mask else block.breaks(chunk)
        for a, b, severity in () if mask else _disjoint(chunk.marks):
            yield Run(_laid_out(text, at, a, breaks), base, under)
            yield Run(_laid_out(text, a, b, breaks), _POINTED[severity], _FINDING_MARK)
            at = b
        yield Run(_laid_out(text, at, len(text), breaks), base, under)
        if len(text) < length:
            yield Run(chunk.event.text[len(text) :], MASKED, " ")


def _in_parts(text: str, segment: Segment, tokenizer: Tokenizer) -> Iterator[Run]:
    """Yields a text of which parts are trained."""
    losses = segment.losses
    at = number = 0
    for ids, part in pieces(segment, tokenizer):
        trained = losses[number]
        number += len(ids)
        end = len(text) if number == len(losses) else at + len(part)
        yield Run(text[at:end], *((TRAINED, TRAINED_MARK) if trained else (MASKED, " ")))
        at = end


def _laid_out(text: str, first: int, last: int, breaks: list[tuple[int, int]]) -> str:
    out = ""
    for at, depth in breaks[bisect(breaks, (first,)) : bisect(breaks, (last,))]:
        out += f"{text[first:at]}\n{'  ' * depth}"
        first = at
    return out + text[first:last]


def _disjoint(marks: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Yields marks in order, cut so that none overlaps another."""
    at = 0
    for a, b, severity in sorted(marks):
        if b > at:
            yield max(a, at), b, severity
            at = b
