"""The lexer jumps from one first character of a tag to the next.

Cut without jumping, every text is the same.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.table import STRAY, TEXT, TokenTable
from tests.support.strategies import DIALECTS

pytestmark = pytest.mark.parametrize("name", DIALECTS)


def naive(text: str, table: TokenTable) -> list[tuple[str, int, int]]:
    """Terminals and texts with their places: one alternation, white space and all, tried at every
    character.
    """
    parts = []
    bases = [t for t in table.terminals.values() if t.name not in table.joined]
    for terminal in sorted(bases, key=lambda t: -len(t.shown)):
        body = ""
        for piece in terminal.spelling:
            if piece.kind == "attr":
                body += piece.pattern
            elif piece.kind != "space":
                body += re.escape(piece.value)
            elif piece.exact:
                after_word = r"(?!\w)" if re.search(r"\w$", body) else ""
                body += f"(?:{re.escape(piece.value)}|{after_word})"
            else:
                body += r"\s*+" if body else r"(?:(?<!\s)\s++)?"
        parts.append(f"(?P<{terminal.name}>{body})")
    whole = {
        p[0].value
        for t in table.terminals.values()
        if len(p := [x for x in t.spelling if x.kind != "space"]) == 1
    }
    alone = [re.escape(tag) for tag in table.special if tag not in whole]
    parts += [f"(?P<alone>{'|'.join(alone)})"] if alone else []
    out, at = [], 0
    for match in re.finditer("|".join(parts), text):
        if match.start() > at:
            out.append((TEXT, at, match.start()))
        base = table.terminals[match.lastgroup].joins if match.lastgroup in table.terminals else ""
        before = out[-1][0] if out else ""
        if base and (
            not out or (before not in (TEXT, STRAY) and table.terminals[before].bare[-1].isspace())
        ):
            out.append((base, *match.span()))
            at = match.end()
            continue
        out.append(
            (STRAY if match["alone"] is not None else match.lastgroup or "", *match.span())
            if alone
            else (match.lastgroup or "", *match.span())
        )
        at = match.end()
    return [*out, (TEXT, at, len(text))] if at < len(text) else out


@settings(max_examples=400)
@given(st.data())
def test_jumping_finds_the_same(name: str, data: st.DataObject) -> None:
    table = mypt_spec.dialect(name).table
    tags = [t.spell(tuple((key, "n") for key in t.patterns)) for t in table.terminals.values()]
    pieces = [
        *tags,
        *(t.strip() for t in tags),
        *table.special,
        *(t[:-1] for t in tags),
        *(t[1:] for t in tags),
    ]
    text = "".join(
        data.draw(
            st.lists(
                st.sampled_from([p for p in pieces if p])
                | st.sampled_from(["\n", " ", "\n\n", "a", "<", "[", "\u2028"]),
                max_size=12,
            )
        )
    )
    found = [(e.terminal, *(e.at.span or ())) for e in mypt_spec.dialect(name).lex(text)]
    assert found == naive(text, table)
