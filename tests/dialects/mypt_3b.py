"""Legal records of mypt-3b."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.strategies import NAMED_ARGUMENTS, Record, any_text, clean_text, json_values

NAME = "mypt-3b"
TOOLS = ["workspace.search", "workspace.list_docs", "a b", "ü/1"]


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    text = clean_text(NAME, blank=not clean)
    strings = clean_text(NAME) | st.just("") if clean else any_text(NAME)
    values = json_values(strings)
    names = st.sampled_from(TOOLS) | st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters='"<>\n'), min_size=1
    )
    messages: list[Record] = []
    for _ in range(draw(st.integers(1, 3))):
        messages += draw(_turn(text, values, strings, names))
    for message in messages:
        if draw(st.integers(0, 9)) == 0:
            message["_note"] = draw(values)
    record: Record = {"messages": messages}
    if draw(st.booleans()):
        record["system"] = draw(text)
    if draw(st.booleans()):
        record["language"] = draw(st.sampled_from(["en", "pt-BR"]))
    if draw(st.integers(0, 3)) == 0:
        record["_meta"] = draw(values)
    return record


@st.composite
def _turn(draw: st.DrawFn, text: Any, values: Any, strings: Any, names: Any) -> list[Record]:
    user = {"role": "user", "content": draw(text)}
    if draw(st.booleans()):
        user["context"] = draw(text)
    out: list[Record] = [user]
    for _ in range(draw(st.integers(0, 2))):
        name = draw(names)
        arguments = draw(
            st.dictionaries(strings | st.sampled_from(NAMED_ARGUMENTS), values, max_size=3)
        )
        out.append({"role": "assistant_toolcall", "name": name, "arguments": arguments})
        out.append({"role": "tool_result", "name": name, "content": draw(values)})
    return [*out, {"role": "assistant", "content": draw(text)}]
