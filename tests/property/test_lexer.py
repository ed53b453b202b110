"""The lexer jumps from one first character of a tag to the next.

Cut without jumping, every text is the same.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.lexer import lex
from mypt_spec.table import STRAY, TEXT, Piece, TokenTable
from tests.support.examples import examples
from tests.support.strategies import DIALECTS

pytestmark = pytest.mark.parametrize("name", DIALECTS)


def naive(text: str, table: TokenTable) -> list[tuple[str, int, int]]:
    """Terminals and texts with their places: one alternation, white space and all, tried at every
    character.
    """
    parts = []
    bases = [t for t in table.terminals.values() if t.name not in table.joined]
    forms = [(t, i, p) for t in bases for i, p in enumerate((t.spelling, *t.also))]
    for terminal, number, form in sorted(forms, key=lambda f: -len(shown(f[2]))):
        body = ""
        for piece in form:
            if piece.kind == "attr":
                body += piece.pattern
            elif piece.kind != "space":
                body += re.escape(piece.value)
            elif piece.exact:
                after_word = r"(?!\w)" if re.search(r"\w$", body) else ""
                body += f"(?:{re.escape(piece.value)}|{after_word})"
            else:
                body += r"\s*+" if body else r"(?:(?<!\s)\s++)?"
        parts.append(f"(?P<{terminal.name}{f'_or{number}' * bool(number)}>{body})")
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
        name = re.sub(r"_or\d+$", "", match.lastgroup or "")
        base = table.terminals[name].joins if name in table.terminals else ""
        last = table.terminals.get(out[-1][0]) if out else None
        if base and (not out or (last is not None and (last.bare[-1].isspace() or last.opens))):
            out.append((base, *match.span()))
            at = match.end()
            continue
        out.append(
            (STRAY if match["alone"] is not None else name, *match.span())
            if alone
            else (name, *match.span())
        )
        at = match.end()
    return [*out, (TEXT, at, len(text))] if at < len(text) else out


def shown(form: tuple[Piece, ...]) -> str:
    return "".join("..." if p.kind == "attr" else p.value for p in form).strip("\n")


@settings(max_examples=examples(400))
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
    found = [(e.terminal, *(e.at.span or ())) for e in lex(text, table)]
    assert found == naive(text, table)
