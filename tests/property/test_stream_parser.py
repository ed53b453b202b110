"""Ids pushed one at a time return the events that all of them return at once, and nothing is let go
too early.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.stream_parser import Piece, StreamParser
from mypt_spec.lexer import lex_ids
from mypt_spec.table import TEXT
from tests.support.strategies import DIALECTS, episodes

TAGS = {
    n: [t.shown for t in mypt_spec.dialect(n).table.plain_tags]
    + ["\n", "<", "</", ">", '<toolcall name="', "a", "é", "😀"]
    for n in DIALECTS
}


def join_texts(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for terminal, text in pairs:
        if out and terminal == out[-1][0] == TEXT:
            out[-1] = (TEXT, out[-1][1] + text)
        else:
            out.append((terminal, text))
    return out


def feed(name: str, ids: list[int]) -> tuple[list[Piece], StreamParser]:
    parser = StreamParser(mypt_spec.dialect(name))
    pieces: list[Piece] = []
    for i, token in enumerate(ids):
        pieces += parser.push(token)
        assert parser.pushed == i + 1
        assert not pieces or pieces[-1].end == parser.position
    pieces += parser.flush()
    return pieces, parser


def check(name: str, ids: list[int]) -> None:
    d = mypt_spec.dialect(name)
    pieces, parser = feed(name, ids)
    whole, findings = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    assert not findings
    assert join_texts([(p.event.terminal, p.event.text) for p in pieces]) == [
        (e.terminal, e.text) for e in whole
    ]
    assert parser.position == len(ids)


@given(data=st.data(), name=st.sampled_from(DIALECTS))
def test_episodes(data: st.DataObject, name: str) -> None:
    check(name, mypt_spec.dialect(name).encode(data.draw(episodes(name))).ids.tolist())


@given(data=st.data(), name=st.sampled_from(DIALECTS))
def test_letters_of_tags_in_any_order(data: st.DataObject, name: str) -> None:
    d = mypt_spec.dialect(name)
    pieces = data.draw(
        st.lists(
            st.sampled_from([*TAGS[name], *d.table.special]) | st.text(max_size=3), max_size=12
        )
    )
    ids: list[int] = []
    for piece in pieces:  # tokens as no encoder makes them: a model may
        ids += [d.table.special[piece]] if piece in d.table.special else d.tokenizer.encode(piece)
    check(name, ids)


@given(text=st.text(max_size=30), name=st.sampled_from(DIALECTS))
def test_a_text_without_tags_is_let_go_at_once(text: str, name: str) -> None:
    d = mypt_spec.dialect(name)
    parser = StreamParser(d)
    plain = [t.spelling[0] for t in d.table.terminals.values()]
    begins = {piece.value[0] for piece in plain if piece.kind == "text"} | {*"<[\n"}
    clean = "".join(c for c in text if c not in begins)
    let_go = ""
    for token in d.tokenizer.encode(clean):
        let_go += "".join(p.event.text for p in parser.push(token))
        assert parser.position == parser.pushed or not d.tokenizer.decode_bytes([token]).isascii()
    assert let_go == clean


def test_what_is_held_back() -> None:
    d = mypt_spec.dialect("praxis")
    parser = StreamParser(d)
    assert [p.event.text for t in d.tokenizer.encode("Hello") for p in parser.push(t)] == ["Hello"]
    assert not [p for t in d.tokenizer.encode("\n<") for p in parser.push(t)]
    parser = StreamParser(d)
    assert not [p for t in d.tokenizer.encode("<tin>") for p in parser.push(t)]
    assert parser.missing() == "\n"
    assert [p.event.terminal for t in d.tokenizer.encode("\n") for p in parser.push(t)] == [
        "TIN_OPEN"
    ]
    assert parser.missing() == ""


def test_faults_leave_it_as_it_was() -> None:
    d = mypt_spec.dialect("mypt")
    parser = StreamParser(d)
    half = d.tokenizer.encode("😀")[0]
    assert not parser.push(half)
    for token in (d.table.special["<myPT_eot>"], d.tokenizer.encode("a")[0], 50256, -1, 10**9):
        with pytest.raises(ValueError, match=r"nothing|UTF-8|half"):
            parser.push(token)
    assert (parser.position, parser.pushed) == (0, 1)
    assert (
        "".join(p.event.text for t in d.tokenizer.encode("😀")[1:] for p in parser.push(t)) == "😀"
    )


def test_a_tag_that_begins_as_another_waits_for_the_name_in_it() -> None:
    """Llama 4's tag of a call begins with the tag of a text beside calls."""
    d = mypt_spec.dialect("llama4")
    calls = [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}] * 2
    for text in ("", "See."):
        asked = {"role": "assistant", "content": text, "tool_calls": calls}
        episode, _ = d.read({"messages": [{"role": "user", "content": "Go."}, asked]})
        assert episode is not None
        check("llama4", d.encode(episode).ids.tolist())
