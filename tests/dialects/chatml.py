"""Legal records of chatml, and of each dialect whose records are messages of three roles."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

import mypt_spec
from mypt_spec.damage.cut_tags import fragment, inner_tags
from tests.support.strategies import Record, any_text, clean_text, json_values, with_notes

NAME = "chatml"


@cache
def text(name: str, *, clean: bool = True) -> st.SearchStrategy[str]:
    """Content that spells no tag, and no piece of one."""
    d = mypt_spec.dialect(name)
    tags = inner_tags(d.table, d.automaton)
    return clean_text(name, blank=not clean).filter(lambda t: fragment(t, tags) is None)


@st.composite
def chats(draw: st.DrawFn, name: str, clean: bool, *, empty: bool = True) -> Record:
    """`clean` records have no finding at all; the others may have warnings. Answers may be `empty`."""
    said = text(name, clean=clean)
    content = said | st.just("")
    values = json_values(any_text(name))
    messages: list[Record] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(content)})
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(content)})
        messages.append({"role": "assistant", "content": draw(content if empty else said)})
    return with_notes(draw, messages, values)


def records(clean: bool = True) -> st.SearchStrategy[Record]:
    return chats(NAME, clean)
