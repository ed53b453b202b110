"""Writes one self-contained page of episodes, as `mypt_cli.page` does, by which no data is markup.

The episodes follow the page's own script, packed in parts, each in base64; a part is unpacked when
one of its episodes is shown.
"""

import base64
import ntpath
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from mypt_cli import page as pages
from mypt_cli.errors import UsageError
from mypt_cli.page import as_json
from mypt_cli.words import notes
from mypt_spec import __version__
from mypt_spec.findings import Finding
from mypt_spec.table import TokenTable
from mypt_view.blocks import Block, Chunk, blocks_of
from mypt_view.items import Item, outline, tools_called
from mypt_view.pieces import pieces

MAX_EPISODES = 100_000
MAX_TEXT = 100_000_000  # code points
_PART = 1 << 18  # characters of JSON, at least, in a part that is not the last
_HEADLINE = 90
_SCRIPTS = ("page.js", "search.js", "overview.js", "steering.js")


class TagTotals:
    """Adds up items of one dialect, by the innermost block of each token, its tags included.

    Marks count by themselves. The rows add up to all tokens.
    """

    def __init__(self) -> None:
        self._rows: dict[str, Counter[str]] = {}
        self._table: TokenTable | None = None

    def add(self, item: Item) -> None:
        """Counts the tokens of an item."""
        table = self._table = item.dialect.table
        for segment in item.segments or ():
            event, inside = segment.event, segment.inside
            terminal = table.terminals.get(event.terminal)
            mark = terminal is not None and (
                terminal.mark or not (terminal.opens or terminal.closes)
            )
            kind = event.terminal.lower() if mark else inside[-1] if inside else ""
            row = self._rows.setdefault(kind, Counter(times=0))
            row["times"] += terminal is not None and (mark or bool(terminal.opens))
            row["tokens"] += len(segment.ids)
            row["trained"] += sum(segment.losses)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each block or mark that occurs, in the order of the token table.

        `times` is how many such blocks or marks there are, `tokens` and `trained` count ids.
        """
        terminals = self._table.terminals.values() if self._table is not None else ()
        shown = {
            t.opens or t.name.lower(): t.shown
            for t in terminals
            if t.opens or t.mark or not t.closes
        }
        return [
            {"kind": kind, "tag": tag, **self._rows[kind]}
            for kind, tag in shown.items()
            if kind in self._rows
        ]


@dataclass(slots=True)
class Collected:
    """What a page shows: a row for each episode, their parts, and the first row of each part."""

    dialect: str = ""
    phases: Sequence[str] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    rules: dict[str, list[str]] = field(default_factory=dict)
    tags: TagTotals = field(default_factory=TagTotals)
    parts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


def collect(items: Iterable[Item]) -> Collected:
    """Collects items of one dialect, as many as a browser can hold; none is kept in memory whole.

    Raises UsageError, which says what to do, when there are more.
    """
    out = Collected()
    part: list[str] = []
    size = 0
    todo = "show a part of the file with FILE:LINE and -n N"
    for item in items:
        events = item.events()
        size += len(item.raw) if events is None else sum(len(event.text) for event in events)
        if len(out.rows) == MAX_EPISODES:
            raise UsageError(f"a page holds at most {MAX_EPISODES:,} episodes; {todo}")
        if size > MAX_TEXT:
            where = f" (reached with episode {len(out.rows) + 1})" if out.rows else ""
            raise UsageError(f"a page holds at most {MAX_TEXT:,} characters of text{where}; {todo}")
        out.dialect, out.phases = item.format, item.dialect.table.phases
        out.tags.add(item)
        out.rules |= {f.code: [f.name, f.severity] for f in item.findings}
        blocks, remaining = blocks_of(item)
        if not part:
            out.starts.append(len(out.rows))
        out.rows.append(_row(item, blocks))
        part.append(as_json(_episode(item, blocks, remaining)))
        if sum(map(len, part)) > _PART:
            out.parts.append(_packed(part))
            part = []
    if part:
        out.parts.append(_packed(part))
    return out


def page(content: Collected, source: str) -> bytes:
    """Returns the page of what was collected from a source, a file by its name."""
    data = {
        "version": __version__,
        "source": source,
        "name": ntpath.basename(source) or source,
        "dialect": content.dialect,
        "phases": list(content.phases),
        "rules": content.rules,
        "tags": content.tags.rows(),
        "starts": content.starts,
        "rows": content.rows,
    }
    parts = "\n".join(
        f'<script type="text/plain" id="part-{n}">{part}</script>'
        for n, part in enumerate(content.parts)
    )
    folder = files("mypt_view") / "assets"
    return pages.page(folder, "page.html", ["page.css"], _SCRIPTS, data, parts=parts)


def _packed(part: Sequence[str]) -> str:
    return base64.b64encode(zlib.compress(f"[{','.join(part)}]".encode())).decode()


def _row(item: Item, blocks: Sequence[Block]) -> dict[str, Any]:
    """Returns the facts about an episode for the list and the overview."""
    turns, phase = outline(item)
    severities = Counter(f.severity for f in item.findings)
    return {
        "label": item.label,
        "headline": _headline(item, blocks),
        "turns": turns,
        "phase": phase,
        "tokens": len(item.ids) if item.segments is not None else None,
        "trained": sum(item.loss),
        "counts": {s: severities[s] for s in ("error", "warning", "info") if severities[s]},
        "rules": sorted({f.code for f in item.findings}),
        "tools": tools_called(item),
        "language": item.episode.language if item.episode is not None else None,
    }


def _episode(item: Item, blocks: Sequence[Block], remaining: Sequence[Finding]) -> dict[str, Any]:
    return {
        "lacks": item.lacks,
        "findings": [_finding(f) for f in remaining],
        "blocks": [_block(block, item) for block in blocks],
    }


def _headline(item: Item, blocks: Sequence[Block]) -> str:
    """Returns the beginning of the first turn."""
    opener = item.dialect.table.turn_opener
    texts = (
        "".join(c.event.text for c in b.chunks if not c.is_tag) for b in blocks if b.kind == opener
    )
    text = " ".join(next((t for t in texts if t.strip()), item.raw)[: 4 * _HEADLINE].split())
    return text if len(text) <= _HEADLINE else text[: _HEADLINE - 1] + "…"


def _finding(finding: Finding) -> dict[str, Any]:
    keys = ("code", "name", "severity", "message")
    at = [("at", finding.pointer)] if finding.pointer else []
    return {key: getattr(finding, key) for key in keys} | {"notes": notes(finding) + at}


def _block(block: Block, item: Item) -> dict[str, Any]:
    return {
        "kind": block.kind,
        "title": block.title,
        "look": block.style_name,
        "model": block.model,
        "nested": block.nested,
        "visible": block.visible,
        "chunks": [_chunk(chunk, block.breaks(chunk), item) for chunk in block.chunks],
        "findings": [_finding(f) for f in block.findings],
    }


def _chunk(chunk: Chunk, breaks: Sequence[tuple[int, int]], item: Item) -> dict[str, Any]:
    """Returns a chunk as JSON.

    Lengths, marks and breaks count UTF-16 units, as strings of the page do. An id that shares its
    characters is in a list.
    """
    text, segment = chunk.event.text, chunk.segment
    out: dict[str, Any] = {"text": text}
    if chunk.is_tag:
        out["tag"] = True
    if chunk.inline:
        out["inline"] = chunk.inline
    at = _offsets(text, {n for a, b, _ in chunk.marks for n in (a, b)} | {n for n, _ in breaks})
    if chunk.marks:
        out["marks"] = [[at[a], at[b], severity] for a, b, severity in chunk.marks]
    if breaks:
        out["breaks"] = [[at[n], depth] for n, depth in breaks]
    if segment is not None:
        out |= {"loss": segment.loss, "inside": "/".join(segment.inside), "ids": [], "lengths": []}
        if segment.trailing:
            out["trailing"] = segment.trailing
        losses, number = segment.losses, 0
        for ids, part in pieces(segment, item.dialect.tokenizer):
            if segment.shares:
                out.setdefault("losses", []).append(losses[number])
            number += len(ids)
            out["ids"].append(ids[0] if len(ids) == 1 else ids)
            out["lengths"].append(_units(part))
    return out


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _offsets(text: str, places: Iterable[int]) -> dict[int, int]:
    """Returns each offset in code points with the same in UTF-16 units."""
    out = {}
    before = units = 0
    for place in sorted(places):
        units += _units(text[before:place])
        out[place], before = units, place
    return out
