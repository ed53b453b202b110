"""Legal records of qwen3, and of each dialect whose records are messages and tools."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.dialects.chatml import text
from tests.support.strategies import Record, any_text, json_values, with_notes, with_options

NAME = "qwen3"
TOOL_NAMES = ("f", "get_weather")
_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


def tool(name: str) -> Record:
    function = {"name": name, "description": "What it is for.", "parameters": _SCHEMA}
    return {"type": "function", "function": function}


@st.composite
def tool_chats(draw: st.DrawFn, name: str, clean: bool, developer: bool = False) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    content = text(name, clean=clean)
    values = json_values(any_text(name))
    ids = (f"call_{i}" for i in range(99)) if draw(st.booleans()) else None
    arguments = st.dictionaries(st.sampled_from(["q", "name", "n m"]), values, max_size=2)
    messages: list[Record] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(content)})
    for _ in range(draw(st.integers(1, 2))):
        messages.append({"role": "user", "content": draw(content | st.just(""))})
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            messages += _steps(draw, content, arguments, ids)
        messages.append({"role": "assistant", **_thought(draw, content), "content": draw(content)})
    if draw(st.integers(0, 4)) == 0:
        messages.append({"role": "user", "content": draw(content)})
        messages.append(_steps(draw, content, arguments, ids)[0])
    return with_notes(draw, messages, values, tools=[tool(name) for name in TOOL_NAMES])


def _thought(draw: st.DrawFn, content: Any) -> Record:
    key = draw(st.sampled_from(["", "", "reasoning_content", "thinking", "reasoning"]))
    return {key: draw(content | st.just(""))} if key else {}


def _steps(draw: st.DrawFn, content: Any, arguments: Any, ids: Any) -> list[Record]:
    """Returns a message that calls tools, and their results."""
    calls = []
    for _ in range(draw(st.integers(1, 2))):
        given = draw(arguments)
        quoted = draw(st.booleans())
        function = {
            "name": draw(st.sampled_from(TOOL_NAMES)),
            "arguments": json.dumps(given) if quoted else given,
        }
        calls.append(({"id": next(ids)} if ids else {}) | {"type": "function", "function": function})  # fmt: skip
    said: Record = draw(
        st.just({}) | st.just({"content": None}) | content.map(lambda t: {"content": t})
    )
    out = [{"role": "assistant", **_thought(draw, content), **said, "tool_calls": calls}]
    named = draw(st.booleans())
    return out + [
        {"role": "tool"}
        | ({"tool_call_id": call["id"]} if ids else {})
        | ({"name": call["function"]["name"]} if named else {})
        | {"content": draw(content | st.just(""))}
        for call in calls
    ]


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    return with_options(draw, draw(tool_chats(NAME, clean)), enable_thinking=st.booleans())
