"""Legal records of mistral, and of each dialect of messages and tools."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from tests.dialects.chatml import text
from tests.support.strategies import Record, any_text, json_values

NAME = "mistral"


@st.composite
def tool_chats(draw: st.DrawFn, name: str, clean: bool, *, thoughts: bool = False) -> Record:
    """`clean` records have no finding at all; the others may have warnings."""
    said, strings = text(name, clean=clean), any_text(name)
    maybe = said | st.just("")
    values = json_values(strings, leaves=3)
    numbers = count(draw(st.integers(0, 5)))
    messages: list[Record] = []

    def asked() -> list[Record]:
        arguments = st.dictionaries(strings, values, max_size=2)
        return [
            {
                "id": f"call{next(numbers):05}",
                "type": "function",
                "function": {"name": draw(st.sampled_from(["f", "get_it"])), "arguments": draw(arguments)},
            }
            for _ in range(draw(st.integers(1, 2)))
        ]  # fmt: skip

    def spoken(*, calls: list[Record] | None = None) -> None:
        message: Record = {"role": "assistant"}
        if thoughts and draw(st.integers(0, 2)) == 0:
            message["reasoning_content"] = draw(said)
        if calls is None or draw(st.booleans()):
            message["content"] = draw(said)
        messages.append(message | ({"tool_calls": calls} if calls else {}))

    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(maybe)})
    for _ in range(draw(st.integers(1, 2))):
        messages.append({"role": "user", "content": draw(maybe)})
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            calls = asked()
            spoken(calls=calls)
            for call in calls:
                result = {"role": "tool", "tool_call_id": call["id"], "content": draw(maybe)}
                messages.append(result | ({"name": call["function"]["name"]} if draw(st.booleans()) else {}))  # fmt: skip
        spoken()
    if draw(st.integers(0, 4)) == 0:
        messages.append({"role": "user", "content": draw(maybe)})
        spoken(calls=asked())
    for message in messages:
        if draw(st.integers(0, 9)) == 0:
            message["_note"] = draw(values)
    record: Record = {"messages": messages}
    if draw(st.booleans()):
        record["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool,
                    "description": draw(strings),
                    "parameters": {"type": "object", "properties": {}},
                },
            }
            for tool in ("f", "get_it")
        ]
    if draw(st.integers(0, 3)) == 0:
        record |= {"_meta": draw(values), "language": "de"}
    return record


def records(clean: bool = True) -> st.SearchStrategy[Record]:
    return tool_chats(NAME, clean)
