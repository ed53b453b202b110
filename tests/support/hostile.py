"""Episodes whose texts try to be tags."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Episode, Message, Part
from tests.support.strategies import any_text, episodes


@st.composite
def hostile(draw: st.DrawFn, name: str) -> Episode:
    """A legal Episode with the text of every part that is no JSON replaced by anything: tags, near
    tags, fragments.
    """
    openers, text = mypt_spec.dialect(name).table.openers, any_text(name, 1).filter(bool)

    def dirty(role: str, part: Part) -> Part:
        kind = role if part.kind == "text" else part.kind
        free = openers[kind].body == "text" or openers[role].quotes
        return replace(part, text=draw(text)) if free else part

    messages = draw(episodes(name)).messages
    return Episode(name, tuple(Message(m.role, tuple(dirty(m.role, p) for p in m.parts), m.attrs) for m in messages))  # fmt: skip
