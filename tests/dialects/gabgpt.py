"""Legal records of gabgpt."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.strategies import Record, any_text, clean_text, json_values, with_notes

NAME = "gabgpt"


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    text = clean_text(NAME, blank=not clean)
    values = json_values(any_text(NAME))
    messages: list[Record] = []
    for _ in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(text | st.just(""))})
        answer: Record = {"role": "assistant", "content": draw(text | st.just(""))}
        if draw(st.booleans()):
            answer["think"] = draw(text | st.just(""))
        messages.append(answer)
    return with_notes(draw, messages, values)
