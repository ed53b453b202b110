"""mypt-view on anything: nothing raises, nothing of an episode is left out, and the mask shown is
the mask.
"""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import mypt_spec
from mypt_cli.jsonl.blocks import Source
from mypt_cli.terminal import Display, escape
from mypt_lint.check.checker import Checker
from mypt_spec.table import TEXT
from mypt_view.blocks import blocks_of, line_breaks
from mypt_view.items import Item, outline, read_items, record
from mypt_view.layout import Run, rows
from mypt_view.page import TagTotals, collect, page
from mypt_view.pieces import pieces, quoted
from mypt_view.terminal import Terminal
from tests.support.rendering import texts
from tests.support.strategies import (
    DIALECTS,
    almost_records,
    any_text,
    episodes,
    lines_of,
    mutated,
    records,
)

VIEWS = ["chat", "mask", "ids"]
DISPLAY = Display(io.StringIO())
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)


def shown(item: Item, view: str, width: int = 100, color: bool | None = None) -> str:
    stream = io.StringIO()
    Terminal(stream, color=color, width=width).show(item, view)
    return stream.getvalue()


def item_of(name: str, value: Any) -> Item:
    return record(
        Checker(mypt_spec.dialect(name)),
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        1,
        "f",
    )


def spelled(text: str) -> str:
    """As a bubble spells text: hidden characters escaped, line ends and tabs by themselves."""
    return "".join(unit.text for row in rows([Run(text)], 10**9, DISPLAY) for unit in row.units)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_the_chat_shows_every_character(name: str, data: st.DataObject) -> None:
    value = data.draw(records(name, clean=data.draw(st.booleans())))
    item = item_of(name, value)
    lines = shown(item, "chat").split("\n")
    if blocks_of(item)[0][-1].style_name == "meta":  # the last bubble is not of the text
        lines = lines[: max(n for n, row in enumerate(lines) if row.startswith("╭─ not in the"))]
    inside = [
        row[row.index(side := "│" if "│" in row[:12] else "┊") + 2 :].rsplit(side, 1)[0]
        for row in lines
        if re.match(r" *[│┊]", row)
    ]
    held = "".join(inside).replace(" ", "")
    assert item.segments is not None
    for segment in item.segments:
        if segment.event.terminal == TEXT:
            wanted = spelled(segment.event.text).replace(" ", "")
            assert held.startswith(wanted)
            held = held[len(wanted) :]
    assert not held


@given(texts, st.integers(1, 60), st.booleans())
def test_rows_hold_all_text(text: str, width: int, ends: bool) -> None:
    laid = rows(
        [Run(text[: len(text) // 2], "a"), Run(text[len(text) // 2 :], "b")],
        width,
        DISPLAY,
        ends=ends,
    )
    whole = "".join(text for row in laid for text, _ in row.runs())
    halves = (text[: len(text) // 2], text[len(text) // 2 :])
    expected = "".join(
        "".join(spelled(line) + "↵" * ends for line in half.split("\n"))[: -1 if ends else None]
        for half in halves
    )
    assert whole == expected
    for row in laid:
        assert row.width == sum(unit.width for unit in row.units)
        assert row.width <= width or len(row.units) == 1
        assert "".join(part for part, _ in row.runs()) == "".join(unit.text for unit in row.units)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_ids_and_loss_are_those_of_encode(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    item = item_of(name, data.draw(records(name, clean=False)))
    assert item.episode is not None
    encoded = d.encode(item.episode)
    assert (item.ids, item.loss) == (encoded.ids.tolist(), encoded.loss.tolist())
    found = [
        re.fullmatch(r" *(\d+) +(\d+)  (trained|masked ) +\S+ +(\".*\")", row)
        for row in shown(item, "ids").split("\n")
    ]
    lines = [match for match in found if match is not None]
    assert [int(match[2]) for match in lines] == encoded.ids.tolist()
    assert [int(match[3] == "trained") for match in lines] == encoded.loss.tolist()
    raw = b"".join(unquoted(match[4]) for match in lines)
    assert raw.decode() == d.serialize(item.episode)


def unquoted(text: str) -> bytes:
    """The bytes that `quoted` spelled."""
    out, at = bytearray(), 1
    for match in ESCAPE.finditer(text, 1, len(text) - 1):
        out += text[at : match.start()].encode()
        short = {"n": "\n", "r": "\r", "t": "\t"}
        code = int(match[2] or match[3] or "0", 16)
        out += (
            bytes.fromhex(match[1])
            if match[1]
            else chr(code).encode()
            if code
            else short.get(match[4], match[4]).encode()
        )
        at = match.end()
    return bytes(out + text[at:-1].encode())


@given(st.binary())
def test_quoted_bytes_stay_on_one_line(raw: bytes) -> None:
    text = quoted(raw, DISPLAY)
    assert text.isprintable() or not text.isascii()
    assert "\n" not in text
    assert unquoted(text) == raw


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_the_marks_under_the_text_are_the_mask(name: str, data: st.DataObject) -> None:
    """In plain text: read the marks back, and compare with the loss of each character's tokens."""
    item = item_of(name, data.draw(records(name)))
    lines = shown(item, "mask", 10_000).split("\n")
    got: list[tuple[str, bool]] = []
    for row, below in zip(lines, [*lines[1:], ""], strict=True):
        head = re.match(r" *[│┊] ", row)
        if head is None:
            continue
        marks = below[head.end() :] if re.match(r" *╎ ", below) else ""
        at = 0
        for char in row[head.end() :].rsplit(" ", 1)[0]:
            got += [(char, marks[at : at + 1] == "^")] * (char != " ")
            at += cell_len(char)
    want = []
    for segment in item.segments or ():
        said = segment.event.text.rstrip("\n") if segment.trailing else segment.event.text
        for part, trained in ((said, bool(segment.loss)), (segment.event.text[len(said) :], False)):
            text = "".join(
                u.text for row in rows([Run(part)], 10**9, DISPLAY, ends=True) for u in row.units
            )
            want += [(char, trained) for char in text if char != " "]
    if any(cell_len(char) == 0 for char, _ in want):
        # What takes no cell has no mark under it.
        got, want = ([(c, True) for c, _ in got], [(c, True) for c, _ in want])
    assert got == want


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_pieces_join_to_the_text(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    said = shown = ""
    for segment in d.segments(data.draw(episodes(name, clean=False))):
        found = list(pieces(segment, d.tokenizer))
        assert [i for ids, _ in found for i in ids] == segment.ids
        said += segment.event.text
        shown += "".join(text for _, text in found)
        assert d.table.glue or shown == said, "no token has text of two events"
        assert all(text for _, text in found)
    assert shown == said


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_anything_can_be_shown(name: str, data: st.DataObject) -> None:
    lines = almost_records(name).flatmap(lines_of)
    raw = data.draw(
        st.one_of(
            lines, mutated(records(name, clean=False).flatmap(lines_of)), st.binary(max_size=60)
        )
    ).replace(b"\n", b"")
    item = record(Checker(mypt_spec.dialect(name)), raw, data.draw(st.integers(1, 2)), "f")
    everywhere(item)
    if item.segments is None:
        assert item.lacks


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_any_text_can_be_shown(name: str, data: st.DataObject) -> None:
    raw = data.draw(any_text(name).map(str.encode) | st.binary(max_size=60))
    if raw:
        for item in read_items(
            Checker(mypt_spec.dialect(name)), Source("f", stream=io.BytesIO(raw)), "text", None
        ):
            everywhere(item)


def everywhere(item: Item) -> None:
    blocks, rest = blocks_of(item)
    assert sum(len(b.findings) for b in blocks) + len(rest) == len(item.findings)
    for block in blocks:
        for chunk in block.chunks:
            assert all(0 <= a < b <= len(chunk.event.text) for a, b, _ in chunk.marks)
    for view in VIEWS:
        out = shown(item, view, 40)
        assert "\x1b" not in out
        for finding in item.findings:
            assert f"{finding.severity}[{finding.code}]" in out
        out.encode()
        shown(item, view, 20, color=True)
    html = page(collect([item]), item.label)
    assert html.count(b"<script") == html.count(b"</script>") == 3


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_totals_add_up(name: str, data: st.DataObject) -> None:
    items = [
        item_of(name, value) for value in data.draw(st.lists(records(name), min_size=1, max_size=3))
    ]
    totals = TagTotals()
    for item in items:
        totals.add(item)
    tags = totals.rows()
    tokens, trained = sum(len(item.ids) for item in items), sum(sum(item.loss) for item in items)
    assert sum(row["tokens"] for row in tags) == tokens
    assert sum(row["trained"] for row in tags) == trained
    d = mypt_spec.dialect(name)
    opened = [
        e
        for item in items
        for e in item.events() or ()
        if e.terminal in d.table.terminals and not d.table.terminals[e.terminal].closes
    ]
    assert sum(row["times"] for row in tags) >= len(opened)


@pytest.mark.parametrize("name", [n for n in DIALECTS if mypt_spec.dialect(n).table.phases])
@given(st.data())
def test_the_phase_is_the_first_that_the_linter_allows(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    item = item_of(name, data.draw(records(name)))
    assert item.episode is not None
    allowed = [
        n
        for n in range(1, len(d.table.phases) + 1)
        if not any(f.code.startswith("MYP4") for f in d.validate(item.episode, phase=n))
    ]
    assert outline(item)[1] == allowed[0]


@given(texts)
def test_the_page_gives_every_text_back(text: str) -> None:
    text = json.loads(json.dumps(text))  # two halves of a character are one
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "x"}]
    raw = json.dumps({"system": "S", "messages": messages}).encode()
    item = record(Checker(mypt_spec.dialect("mypt")), raw, 1, "f")
    html = page(collect([item]), text).decode()
    data = html.split('id="data">')[1].split("</script>")[0]
    assert "<" not in data
    assert json.loads(data)["source"] == text
    part = html.split('id="part-0">')[1].split("</script>")[0]
    (episode,) = json.loads(zlib.decompress(base64.b64decode(part)))
    texts = [chunk["text"] for block in episode["blocks"] for chunk in block["chunks"]]
    assert not text or text in texts


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20))  # fmt: skip
def test_json_keeps_its_characters_when_it_is_laid_out(value: Any) -> None:
    """Breaks are only where white space means nothing, in order.

    Each depth is the number of open brackets.
    """
    text = json.dumps(value, ensure_ascii=False)
    breaks = line_breaks(text)
    assert [at for at, _ in breaks] == sorted({at for at, _ in breaks})
    out, done = "", 0
    for at, depth in breaks:
        out += f"{text[done:at]}\n{'  ' * depth}"
        done = at
    assert json.loads(out + text[done:]) == value
    if breaks:
        assert len(text) > 60
        assert breaks[0] == (1, 1)
        assert breaks[-1] == (len(text) - 1, 0)


def test_escapes_are_those_of_the_linter() -> None:
    assert quoted(b"\x1b\n", DISPLAY) == f'"{escape(chr(27))}{escape(chr(10))}"'
