"""No special id is part of an attribute of a tag, such as the name of a tool."""

from __future__ import annotations

import re
from typing import Any

import pytest

import mypt_spec
from mypt_spec.table import TEXT, Terminal, pattern
from tests.support.dialects import ALL

NAMED = [
    pytest.param(d, terminal, id=f"{d.name} {terminal.name}")
    for d in map(mypt_spec.dialect, ALL)
    for terminal in d.table.terminals.values()
    if terminal.patterns and d.table.special
]


@pytest.mark.parametrize(("d", "terminal"), NAMED)
def test_a_special_id_in_a_name(d: Any, terminal: Terminal) -> None:
    """A model may write any id; the name would hold a character that no text can hold."""
    encode, special = d.tokenizer.encode, d.table.special
    for form in (terminal.spelling, *terminal.also):
        for number in special.values():
            ids: list[int] = []
            for piece in form:
                if piece.kind == "attr":
                    ids += [*encode("p"), number, *encode("q")]
                else:
                    ids += (
                        [special[piece.value]] if piece.kind == "special" else encode(piece.value)
                    )
            events, findings = d.lex_ids(ids)
            assert not findings
            values = [value for event in events for _, value in event.attrs]
            assert not re.search("[\ud800-\udfff]", "".join(values))
            assert len(events) > 1, "it is no such tag"
            assert d.parse_ids(ids)[0] is None


def test_a_special_id_ends_a_name_that_could_go_on() -> None:
    """Another spelling of a call, and then one more call before the next white space."""
    d = mypt_spec.dialect("harmony")
    text = (
        " to=functions.f<|channel|>commentary<|message|>{}<|call|>"
        "<|channel|>commentary <|constrain|>json<|message|>"
    )
    parts = re.split(r"(<\|\w+\|>)", text)
    special = d.table.special
    ids = [i for p in parts for i in ([special[p]] if p in special else d.tokenizer.encode(p))]
    first, body, *_ = d.lex_ids(ids)[0]
    assert (first.terminal, first.attrs) == ("CALL_OPEN", (("name", "f"),))
    assert (body.terminal, body.text) == (TEXT, "{}")


@pytest.mark.parametrize(
    ("values", "fine", "wrong"),
    [
        (r"[^<>\s]+", "a]b", "a<"),
        (r"[^]a.]+", "b[", "b]"),
        (r"[]a.^]+", "]a.^", "b"),
        (r"\S+", "ab", "a b"),
        (r"\w\W\D", "a-b", "a-1"),
        (r"a.\.[.]\[", "ab..[", "a\n..["),
        (r"[a-zA-Z0-9_.-]+", "a.b-c", "a b"),
    ],
)
def test_patterns_match_as_before_but_for_special_ids(values: str, fine: str, wrong: str) -> None:
    d = mypt_spec.dialect("harmony")
    opener = d.table.terminals["CALL_OPEN"]
    pieces = [p for p in opener.spelling if p.kind == "attr"]
    tag = Terminal("T", (type(pieces[0])("attr", "name", values),), 0, "model", 1, "")
    narrow = re.compile(pattern(tag, d.table.sentinels))
    assert re.fullmatch(values, fine)
    assert narrow.fullmatch(fine)
    assert not narrow.fullmatch(wrong)
    for at in range(len(fine)):
        assert not narrow.fullmatch(fine[:at] + "\ud800" + fine[at + 1 :])
