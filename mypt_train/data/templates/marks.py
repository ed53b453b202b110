"""Marks the values that the skeletons of records of `messages` and `tools` leave out.

Input: a record that message_splitter.py splits. Output: `Marked`, the same record with a mark for
each text, id, name, weight and object of arguments, and one tool whose name is a mark. What becomes
of the marks tells where the tokens of a value are (chats.py).
"""

import json
from typing import Any, NamedTuple

from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.message_splitter import Free, begins
from mypt_spec.record_schema import WEIGHT, is_free_weight

_SPOKEN = (*THOUGHTS, "content")  # the texts of a message
_WEIGHTS = 4096  # marks between a weight and the next whole one
MARK = "\ue000{}\ue001"
TOOLS = ("tools",)
SYSTEM = ("system",)  # the path of a system message that a question has in its text
TEXTS = {(key,) for key in _SPOKEN}  # the paths of texts, without the number of the message


class Slot(NamedTuple):
    """Where a record has a value that skeletons leave out.

    `path` leads from the list of messages to it; None on it says that a text is JSON, and the path
    goes on inside. `kind` is "text", "result" (its text), "word" (an id or a name, of letters,
    digits, `.`, `-` and `_`), "object" (of arguments), "weight" (of a message, marked as
    `slot_of_weight` reads it), or "tools": the definitions, with the path `TOOLS`.
    """

    path: tuple[str | int | None, ...]
    kind: str


class Marked(NamedTuple):
    """A record with marks, what each mark is for, and the messages that begin pieces.

    Number n is marked by `MARK.format(n)`. Equal words of a piece have one mark.
    """

    record: dict[str, Any]
    slots: list[Slot]
    starts: list[int]


def with_marks(record: dict[str, Any], free: Free, *, fronted: bool = False) -> Marked:
    """Returns a record with marks where its skeleton has none of its values; see `Marked`.

    `fronted` says that a question has the system message in its text.
    """
    messages = record["messages"]
    starts = begins([message["role"] for message in messages])
    marks, messages_out = _Marks(free, fronted), []
    tools = [marks.tool()] if record.get("tools") is not None else record.get("tools")
    for i, message in enumerate(messages):
        if i in starts:
            marks.words = {}
        messages_out.append(marks.message(message, i))
    tools_entry = {"tools": tools} if "tools" in record else {}
    return Marked(record | {"messages": messages_out} | tools_entry, marks.slots, starts)


class _Marks:
    """Puts marks into messages. `words` has those of the ids and names of one piece."""

    def __init__(self, free: Free, fronted: bool) -> None:
        self.free, self.slots = free, list[Slot]()
        self.fronted = fronted
        self.words: dict[tuple[str, str], str] = {}

    def mark(self, path: tuple[str | int | None, ...], kind: str) -> str:
        self.slots.append(Slot(path, kind))
        return MARK.format(len(self.slots) - 1)

    def word(self, kind: str, value: Any, path: tuple[str | int | None, ...]) -> Any:
        """Returns the mark of an id or a name; another value as it is."""
        words = self.free.ids if kind == "id" else self.free.names
        if value.__class__ is not str or not words.fullmatch(value):
            return value  # no id or name that can be any other in its place
        mark = self.words.get((kind, value))
        if mark is None:
            mark = self.words[kind, value] = self.mark(path, "word")
        return mark

    def tool(self) -> dict[str, Any]:
        """Returns the definition of a tool whose name is a mark, in place of all tools."""
        return {"type": "function", "function": {"name": self.mark(TOOLS, "tools")}}

    def message(self, message: dict[str, Any], i: int) -> dict[str, Any]:
        out = dict(message)
        for key, value in message.items():
            if key in _SPOKEN:
                if value and value.__class__ is str:
                    kind = "result" if message["role"] == "tool" else "text"
                    inside = self.fronted and message["role"] == "system"
                    out[key] = self.mark(SYSTEM if inside else (i, key), kind)
            elif key == "tool_call_id":
                out[key] = self.word("id", value, (i, key))
            elif key == "name":
                out[key] = self.word("name", value, (i, key))
            elif key == "tool_calls" and value.__class__ is list:
                out[key] = [self.call(call, (i, key, n)) for n, call in enumerate(value)]
            elif key == WEIGHT and is_free_weight(value):
                self.mark((i, key), "weight")
                # No weight that is not free is equal to it.
                out[key] = 1 + len(self.slots) / _WEIGHTS
        return out

    def call(self, call: dict[str, Any], at: tuple[str | int | None, ...]) -> dict[str, Any]:
        function, at_function = dict(call["function"]), (*at, "function")
        out = call | {"function": function}
        if "id" in call:
            out["id"] = self.word("id", call["id"], (*at, "id"))
        function["name"] = self.word("name", function["name"], (*at_function, "name"))
        arguments, inside = function["arguments"], (*at_function, "arguments")
        if arguments.__class__ is dict:
            function["arguments"] = {self.mark(inside, "object"): 0}
        elif arguments.startswith("{"):
            function["arguments"] = json.dumps({self.mark((*inside, None), "object"): 0})
        return out


def slot_of_weight(weight: float) -> int | None:
    """Returns the number of the slot that such a weight is the mark of; None for any other."""
    number = (weight - 1) * _WEIGHTS - 1
    return int(number) if number >= 0 and number.is_integer() else None
