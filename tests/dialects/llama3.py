"""Legal records of llama3."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.dialects.chatml import text
from tests.dialects.qwen3 import TOOL_NAMES, tool
from tests.support.strategies import Record, any_text, json_values, with_notes, with_options

NAME = "llama3"


@st.composite
def chats(draw: st.DrawFn, clean: bool) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    content = text(NAME, clean=clean)
    values = json_values(any_text(NAME))
    arguments = st.dictionaries(st.sampled_from(["q", "name", "n m"]), values, max_size=2)
    messages: list[Record] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(content)})

    def called(number: int) -> list[Record]:
        """A message that calls a tool, and the result."""
        given = draw(arguments)
        function = {
            "name": draw(st.sampled_from(TOOL_NAMES)),
            "arguments": json.dumps(given) if draw(st.booleans()) else given,
        }
        named = draw(st.booleans())
        ids = ({"id": f"c{number}"}, {"tool_call_id": f"c{number}"}) if named else ({}, {})
        call = ids[0] | {"type": "function", "function": function}
        result = {"role": "tool"} | ids[1] | {"content": draw(content | st.just(""))}
        return [{"role": "assistant", "tool_calls": [call]}, result]

    for turn in range(draw(st.integers(1, 2))):
        messages.append({"role": "user", "content": draw(content | st.just(""))})
        for number in range(draw(st.sampled_from([0, 0, 1, 2]))):
            messages += called(2 * turn + number)
        messages.append({"role": "assistant", "content": draw(content | st.just(""))})
    if draw(st.integers(0, 4)) == 0:
        messages += [{"role": "user", "content": draw(content)}, called(9)[0]]
    return with_notes(draw, messages, values, tools=[tool(name) for name in TOOL_NAMES])


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    dates = st.just("26 Jul 2024") | text(NAME, clean=clean)
    return with_options(draw, draw(chats(clean)), date_string=dates, tools_in_user_message=st.just(True))  # fmt: skip
