"""One self-contained page with episodes in it: no network, no font, nothing of the data is ever markup.

Data stands as JSON in a script element that is never run, with `<` escaped; the page's own script puts it into the document
as text. A policy in the page allows this one script and this one style sheet, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from mypt_spec import __version__
from mypt_spec.findings import Finding
from mypt_spec.lint.errors import UsageError
from mypt_spec.lint.render.visible import HIDDEN
from mypt_spec.view.blocks import Block, Chunk, blocks_of
from mypt_spec.view.items import Item, outline, text_length
from mypt_spec.view.pieces import pieces
from mypt_spec.view.totals import by_phase, by_tag

MAX_EPISODES = 2_000
MAX_TEXT = 20_000_000  # code points
_HEADLINE = 90


def collect(items: Iterable[Item]) -> list[Item]:
    """The items, if a browser can hold them. Raises UsageError that says what to do when it cannot."""
    held: list[Item] = []
    size = 0
    cure = "show a part of the file with FILE:LINE and -n N"
    for item in items:
        held.append(item)
        size += text_length(item)
        if len(held) > MAX_EPISODES:
            raise UsageError(f"a page holds at most {MAX_EPISODES:,} episodes; {cure}")
        if size > MAX_TEXT:
            where = f" (reached with episode {len(held)})" if len(held) > 1 else ""
            raise UsageError(f"a page holds at most {MAX_TEXT:,} characters of text{where}; {cure}")
    return held


def page(items: Sequence[Item]) -> bytes:
    """The page of these items, all of one dialect."""
    folder = files("mypt_spec.view") / "assets"
    template, style, script = (
        (folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    script = script.replace("HIDDEN_CHARACTERS", _for_script(HIDDEN.pattern))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    slots = {"policy": policy, "style": style, "script": script, "data": _json(_data(items))}
    return re.sub(r"\{\{(\w+)\}\}", lambda m: slots[m[1]], template).encode()


def _for_script(pattern: str) -> str:
    """A character class of Python as one of JavaScript, in ASCII."""
    return "".join(
        char if char.isascii() and char.isprintable() else f"\\u{{{ord(char):x}}}"
        for char in pattern
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which a record may hold
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(items: Sequence[Item]) -> dict[str, Any]:
    return {
        "version": __version__,
        "dialect": items[0].dialect.name if items else "",
        "episodes": [_episode(item) for item in items],
        "tags": [row._asdict() for row in by_tag(items)],
        "phases": [row._asdict() for row in by_phase(items)],
    }


def _episode(item: Item) -> dict[str, Any]:
    blocks, rest = blocks_of(item)
    turns, phase = outline(item)
    out: dict[str, Any] = {
        "label": item.label,
        "headline": _headline(item, blocks),
        "turns": turns,
        "phase": phase,
        "tokens": len(item.ids) if item.segments is not None else None,
        "trained": sum(item.loss),
        "lacks": item.lacks,
        "counts": {
            s: n
            for s in ("error", "warning", "info")
            if (n := sum(f.severity == s for f in item.findings))
        },
        "findings": [_finding(f) for f in rest],
        "blocks": [_block(block, item) for block in blocks],
    }
    return out


def _headline(item: Item, blocks: Sequence[Block]) -> str:
    """What the first turn says."""
    opener = item.dialect.table.turn_opener
    texts = (
        "".join(c.event.text for c in b.chunks if not c.is_tag) for b in blocks if b.kind == opener
    )
    text = " ".join(next((t for t in texts if t.strip()), item.raw)[: 4 * _HEADLINE].split())
    return text if len(text) <= _HEADLINE else text[: _HEADLINE - 1] + "…"


def _finding(finding: Finding) -> dict[str, Any]:
    keys = ("code", "name", "severity", "message", "pointer", "help", "expected")
    return {key: getattr(finding, key) for key in keys if getattr(finding, key)}


def _block(block: Block, item: Item) -> dict[str, Any]:
    return {
        "kind": block.kind,
        "title": block.title,
        "look": block.look,
        "model": block.model,
        "nested": block.nested,
        "visible": block.visible,
        "chunks": [_chunk(chunk, item) for chunk in block.chunks],
        "findings": [_finding(f) for f in block.findings],
    }


def _chunk(chunk: Chunk, item: Item) -> dict[str, Any]:
    """Lengths and marks count UTF-16 units, as strings of the page do. An id that shares its characters is in a list."""
    text, segment = chunk.event.text, chunk.segment
    out: dict[str, Any] = {"text": text}
    if chunk.is_tag:
        out["tag"] = True
    if chunk.inline:
        out["inline"] = chunk.inline
    if chunk.marks:
        out["marks"] = [
            [_units(text[:a]), _units(text[:b]), severity] for a, b, severity in chunk.marks
        ]
    if segment is not None:
        out |= {"loss": segment.loss, "inside": "/".join(segment.inside), "ids": [], "lengths": []}
        for ids, part in pieces(segment, item.dialect.tokenizer):
            out["ids"].append(ids[0] if len(ids) == 1 else ids)
            out["lengths"].append(_units(part))
    return out


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
