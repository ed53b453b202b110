"""Legal records of harmony."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.dialects.chatml import text
from tests.support.strategies import Record, any_text, json_values, with_notes

NAME = "harmony"
NAMES = ["f", "get_weather", "workspace.search"]


@st.composite
def records(draw: st.DrawFn, clean: bool = True) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    content = text(NAME, clean=clean) | st.just("")
    said = text(NAME, clean=clean)
    values = json_values(any_text(NAME))
    strings = said if clean else any_text(NAME)
    arguments = st.dictionaries(strings, json_values(strings), max_size=2)
    heads = [role for role in ("system", "developer") if draw(st.booleans())]
    messages: list[Record] = [{"role": role, "content": draw(content)} for role in heads]
    for _ in range(draw(st.integers(1, 3))):
        more = st.fixed_dictionaries({}, optional={"reasoning_content": said})
        messages.append({"role": "user", "content": draw(content)})
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            function = {"name": draw(st.sampled_from(NAMES)), "arguments": draw(arguments)}
            before = st.fixed_dictionaries(
                {}, optional={"reasoning_content": said, "content": said}
            )
            calls = [{"type": "function", "function": function}]
            messages.append({"role": "assistant", **draw(before), "tool_calls": calls})
            result = {"role": "tool", "name": function["name"], "content": draw(content)}
            if draw(st.booleans()):
                calls[0] = {"id": "c1", **calls[0]}
                result = {"role": "tool", "tool_call_id": "c1", **result}
            messages.append(result)
        messages.append({"role": "assistant", **draw(more), "content": draw(content)})
    return with_notes(draw, messages, values)
