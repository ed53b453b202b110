"""Splits a USF Omega record into the rest that rules see, its free texts and its metadata values.

Records with equal rests and clean texts have the same findings or none, so the linter judges one of
them (mypt_lint/fast/adapter_scan.py). All that a rule sees of a free text is whether it is clean:
not blank, no tag, nothing that is almost one. What more is known of a string stays in the rest:
which ids are equal, and all that a JSON Schema may look at, unless it only asks for a type.

    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [
        {"id": "c1", "function": {"name": "f", "arguments": {"q": "x"}}}]}], "_n": 1}

has the rest `["messages", ["user", ["role", "assistant", "tool_calls", [[0, [], [], "f", 1, ["q",
[""]]]]]], "_n"]`, the texts "Hi", "x", "c1" and "f", and the metadata value 1. 0 and 1 are the
first and second id or name.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from mypt_spec.adapters.splitter import (
    METADATA_DEPTH,
    Piece,
    Split,
    Splits,
    Splitter,
    WholeRecord,
    shallow,
)

_TEXT, _SAME, _ITEMS, _CALLS, _IDENT, _ANSWER = range(6)
_KINDS = {
    "role": _SAME, "content": _TEXT, "messages": _ITEMS, "contents": _ITEMS, "type": _SAME,
    "text": _TEXT, "tool_calls": _CALLS,
    "self_reflection": _TEXT, "reasoning": _TEXT, "tool_call_id": _IDENT, "name": _IDENT,
    "model_identity": _TEXT, "assistant": _TEXT, "tools": _SAME, "functions": _SAME,
    "chosen": _ANSWER, "rejected": _ANSWER, "label": _SAME,
    "search_enabled": _SAME, "citations_enabled": _SAME, "self_reflection_enabled": _SAME,
    "reasoning_effort": _SAME, "language": _SAME,
}  # fmt: skip
# Flags that ask for nothing.
_IDLE: list[tuple[str, Any]] = [("json_mode", False), ("response_format", {"type": "text"})]
# Texts that are parts of another kind; other texts of an answer are messages.
_MARKED = ("reasoning", "self_reflection")
_PLAIN = {"string": "", "integer": 0, "number": 0, "boolean": False}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip
# Keywords that refuse nothing but by type; and those of an object that refuse nothing by value.
_NOTES = frozenset({"type", "description", "title", "default"})
_OBJECT = _NOTES - {"default"} | {"properties", "required", "additionalProperties"}
_FAULTS = (
    WholeRecord, AttributeError, TypeError, ValueError, KeyError, OverflowError, RecursionError,
)  # fmt: skip
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class RecordSplitter(Splitter):
    """Splits records into the rest as JSON, which is all of their skeleton, and their texts."""

    def __init__(self, opt_out: str) -> None:
        self.opt_out = opt_out

    def split(self, lines: list[bytes]) -> Splits:
        out = Splits([], [], [], {})
        for i, raw in enumerate(lines):
            key = None
            try:
                walk, skeleton = self._walk(_decode(raw))
                key = blake2b(_encode(skeleton), digest_size=20).digest()
                out.texts.extend(walk.texts)
                out.more[i] = Split(walk.metadata)
            except _FAULTS:
                pass  # the checker has words for it
            out.keys.append(key)
            out.ends.append(len(out.texts))
        return out

    def _walk(self, record: Any) -> tuple[_Walk, Any]:
        if self.opt_out in record:
            raise WholeRecord
        walk = _Walk(record)
        return walk, walk.item(record)

    def keys(self, key: Any) -> list[bytes]:
        """Returns the skeleton: a record is one piece."""
        return [key]

    def pieces(self, raw: bytes) -> list[Piece]:
        """Returns the record as a whole."""
        record = _decode(raw)
        return [Piece(record, record, self._walk(record)[0].metadata)]


class _Walk:
    def __init__(self, record: dict[str, Any]) -> None:
        self.texts: list[str] = []
        self.metadata: list[Any] = []
        self.pairs = "chosen" in record or "rejected" in record
        self.contents: set[tuple[str, str]] = set()
        self.answers: list[set[tuple[str, str]]] = []
        self.ids: dict[str, int] = {}
        self.frees: dict[str, dict[str, str] | None] = {}
        self.budget = record.get("thinking_budget")
        tools = record.get("tools") or record.get("functions") or ()
        functions = [tool.get("function", tool) for tool in tools]
        self.tools = {function["name"]: function for function in functions}

    def item(self, item: dict[str, Any]) -> Any:
        """Returns the rest of the record, of a message, or of an item of `contents`."""
        if len(item) == 2 and not self.pairs:  # most messages
            role, text = item.get("role"), item.get("content")
            if role.__class__ is str is text.__class__:
                self.texts.append(text)
                return role
        out: list[Any] = []
        add = out.append
        for key, value in item.items():
            kind = _KINDS.get(key)
            add(key)
            if kind == _TEXT:
                if value.__class__ is not str or (
                    key == "reasoning"
                    and self.budget is not None
                    and len(value.encode()) > self.budget
                ):
                    raise WholeRecord  # a token is a byte or more
                self.texts.append(value)
                if self.pairs:
                    self.contents.add((key if key in _MARKED else "", value))
            elif kind == _SAME:
                add(value)
            elif kind == _ITEMS:
                add([self.item(one) for one in value])
            elif kind == _CALLS:
                add([self.call(call) for call in value])
            elif kind == _IDENT:
                add(self.number_of(value))
            elif kind == _ANSWER:
                add(self.answer(value))
            elif kind is None and key[:1] == "_":
                shallow(value)
                self.metadata.append(value)
            elif key == "thinking_budget":
                if value.__class__ is not int or value < 0:
                    raise WholeRecord
                add(value)
            elif (key, value) in _IDLE:
                add(value)
            else:
                raise WholeRecord  # a format of the answer, for one
        return out

    def answer(self, item: dict[str, Any]) -> Any:
        """Returns the rest of one of a pair of answers, which must not be the same."""
        outer, self.contents = self.contents, set()
        out = self.item(item)
        if self.contents in self.answers:
            raise WholeRecord
        self.answers.append(self.contents)
        self.contents = outer
        return out

    def number_of(self, name: str) -> int:
        if name.__class__ is not str:
            raise WholeRecord
        if name not in self.ids:
            self.ids[name] = len(self.ids)
            self.texts.append(name)
        return self.ids[name]

    def call(self, call: dict[str, Any]) -> list[Any]:
        function = call["function"]
        name, arguments = function["name"], function["arguments"]
        if name not in self.frees:
            self.frees[name] = self.free(name)
        free = self.frees[name]
        values = []
        for key, value in arguments.items():
            kind = free.get(key) if free is not None else "any"
            values.append(key)
            if kind == "any":
                values.append([self.any(value, METADATA_DEPTH)])
            elif value.__class__ is str and kind == "string":
                self.texts.append(value or "x")  # an argument may be empty, a text may not
            elif kind is not None and value.__class__ in _TYPES[kind]:
                values.append(_PLAIN[kind])
            else:
                values.append([value])
        others = [[k, v] for k, v in call.items() if k not in ("id", "function")]
        function_extra = [[k, v] for k, v in function.items() if k not in ("name", "arguments")]
        number = self.number_of(call["id"]) if "id" in call else None
        return [number, others, function_extra, name, self.number_of(name), values]

    def any(self, value: Any, depth: int) -> Any:
        """Returns the rest of an argument of which nothing is asked: its strings are free."""
        if value.__class__ is str:
            self.texts.append(value or "x")
            return ""
        if value.__class__ in (dict, list):
            if not depth:
                raise WholeRecord
            inner = value.items() if value.__class__ is dict else enumerate(value)
            return [[key, self.any(one, depth - 1)] for key, one in inner]
        return value

    def free(self, name: str) -> dict[str, str] | None:
        """Returns the types of a tool's arguments of which its parameters only tell a type.

        None where the tool has no parameters.
        """
        parameters = self.tools.get(name, {}).get("parameters")
        if parameters is None:
            return None
        if not parameters or not parameters.keys() <= _OBJECT:
            return {}
        rows = parameters.get("properties", {}).items()
        return {
            key: row["type"]
            for key, row in rows
            if row.__class__ is dict
            and row.keys() <= _NOTES
            and row.get("type").__class__ is str
            and row["type"] in _PLAIN
        }
