"""What two USF Omega records must share to be judged alike, so that the linter need judge only one of them.

A record is its likeness and its free texts. All that a rule can see of a free text is whether it is clean: not blank, no
tag, nothing that is almost one. What more is known of a string is in the likeness: which ids are equal, and all of what a
JSON Schema may look at, unless it only asks for a type.
"""

from __future__ import annotations

from typing import Any

_TEXTS = frozenset({"content", "self_reflection", "reasoning", "model_identity", "assistant", "text"})
_VERBATIM = frozenset({
    "role", "type", "label", "search_enabled", "citations_enabled", "self_reflection_enabled", "reasoning_effort", "tools", "functions",
})  # fmt: skip
_ANSWERS = frozenset({"chosen", "rejected"})
_PLAIN = {"string": "", "integer": 0, "number": 0, "boolean": False}
_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
_NOTES = frozenset({"type", "description", "title", "default"})  # keywords that refuse nothing but by type
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties", "description", "title"})
_DEPTH = 6  # of metadata


class _Unlike(Exception):
    """The record has something of which too much depends on its text."""


def likeness(record: Any) -> tuple[Any, list[str]] | None:
    """A JSON value that is equal for records alike, and the free texts; None where only the whole record tells.

    `record` was read from strict JSON.
    """
    if not isinstance(record, dict):
        return None
    walk = _Walk(record)
    try:
        return walk.item(record, top=True), walk.texts
    except (_Unlike, AttributeError, TypeError, ValueError, KeyError):
        return None


class _Walk:
    def __init__(self, record: dict[str, Any]) -> None:
        self.texts: list[str] = []
        self.ids: dict[str, int] = {}
        self.budget = record.get("thinking_budget")
        self.tools = record.get("tools") or record.get("functions") or ()

    def item(self, item: dict[str, Any], *, top: bool = False) -> list[Any]:
        """The record, a message, or an item of `contents`."""
        out: list[Any] = []
        for key, value in item.items():
            out.append(key)
            if key in _TEXTS and value.__class__ is str:
                if key == "reasoning" and self.budget is not None and len(value.encode()) > self.budget:
                    raise _Unlike  # a token is a byte or more
                self.texts.append(value)
            elif key in _VERBATIM:
                out.append(value)
            elif key in ("messages", "contents"):
                out.append([self.item(one) for one in value])
            elif key == "tool_calls":
                out.append([self.call(call) for call in value])
            elif key in ("tool_call_id", "name"):
                out.append(self.named(value))
            elif key[:1] == "_":
                _shallow(value, _DEPTH)
            elif top and key in _ANSWERS:
                out.append(self.item(value))
            elif not (top and key == "thinking_budget" and value.__class__ is int and value >= 0):
                raise _Unlike  # a format of the answer, for one
        if top and "rejected" in item:
            out.append(item["rejected"] == item.get("chosen"))
        return out

    def named(self, name: str) -> int:
        """An id or a name: equal ones are told alike."""
        if name not in self.ids:
            self.ids[name] = len(self.ids)
            self.texts.append(name)
        return self.ids[name]

    def call(self, call: dict[str, Any]) -> list[Any]:
        function = call["function"]
        name, arguments = function["name"], function["arguments"]
        free = self.free(name)
        given = []
        for key, value in arguments.items():
            kind = free.get(key)
            given.append(key)
            if value.__class__ is str and kind == "string":
                self.texts.append(value or "x")  # an argument may be empty, a text may not
            elif kind is not None and value.__class__ in _TYPES[kind]:
                given.append(_PLAIN[kind])
            else:
                given.append([value])
        others = [[k, v] for k, v in call.items() if k not in ("id", "function")]
        own = [k for k in function if k not in ("name", "arguments")]
        return [self.named(call["id"]) if "id" in call else None, others, own, name, self.named(name), given]

    def free(self, name: str) -> dict[str, str]:
        """The arguments of a tool of which its parameters say no more than a type."""
        for tool in self.tools:
            function = tool.get("function", tool)
            parameters = function.get("parameters")
            if function["name"] == name and parameters and parameters.keys() <= _OBJECT:
                rows = parameters.get("properties", {}).items()
                return {key: row["type"] for key, row in rows if row.keys() <= _NOTES and row.get("type") in _PLAIN}
        return {}


def _shallow(value: Any, depth: int) -> None:
    """Metadata may hold anything that is not nested too deep."""
    if value.__class__ in (dict, list):
        if not depth:
            raise _Unlike
        for inner in value.values() if value.__class__ is dict else value:
            _shallow(inner, depth - 1)
