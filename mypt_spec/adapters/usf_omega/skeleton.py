"""Splits a USF Omega record into its skeleton and the values that any clean value can replace.

Records with equal skeletons and clean values have the same findings or none, so the linter judges
one of them (mypt_lint/fast/adapter_scan.py). All that a rule sees of a text is whether it is clean:
not blank, no tag, nothing that is almost one. Tools are judged by themselves, and arguments by
their tool.

    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [
        {"id": "c1", "function": {"name": "f", "arguments": {"q": "x"}}}]}], "_n": 1}

has the skeleton `{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "tool_calls":
[{"id": "0", "function": {"name": "1", "arguments": 0}}]}]}`, the texts "Hi", "c1" and "f", the
arguments, and the metadata value 1. 0 and 1 are the first and second id or name.
"""

from __future__ import annotations

import re
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
from mypt_spec.bodies.plain_schema import arguments
from mypt_spec.bodies.typescript import write_namespace

_TEXT, _ITEMS, _CALLS, _IDENT, _ANSWER, _TOOLS, _FORMAT = range(7)
# What has another key stays in the skeleton.
_KINDS = {
    "content": _TEXT, "text": _TEXT, "self_reflection": _TEXT, "reasoning": _TEXT,
    "model_identity": _TEXT, "assistant": _TEXT, "messages": _ITEMS, "contents": _ITEMS,
    "tool_calls": _CALLS, "tool_call_id": _IDENT, "name": _IDENT,
    "chosen": _ANSWER, "rejected": _ANSWER, "tools": _TOOLS, "functions": _TOOLS,
    "response_schema": _FORMAT, "response_format": _FORMAT, "json_mode": _FORMAT,
}  # fmt: skip
# Formats of the answer that ask for nothing.
_IDLE: list[Any] = [False, {"type": "text"}]
# Texts that are parts of another kind; other texts of an answer are messages.
_MARKED = ("reasoning", "self_reflection")
_FAULTS = (
    WholeRecord, AttributeError, TypeError, ValueError, KeyError, OverflowError, RecursionError,
)  # fmt: skip
_NO_TAG = re.compile(r"(?!)")
_decode = msgspec.json.Decoder().decode
_plain = msgspec.json.Decoder(arguments(METADATA_DEPTH)).decode
_encode = msgspec.json.Encoder().encode


class RecordSplitter(Splitter):
    """Splits records into their skeletons as JSON, their texts and their other values."""

    tools_body = "namespace"

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
                out.more[i] = Split(walk.metadata, walk.values, 0, walk.tools, walk.called)
            except _FAULTS:
                pass  # the checker has words for it
            out.keys.append(key)
            out.ends.append(len(out.texts))
        return out

    def _walk(self, record: Any) -> tuple[_Walk, Any]:
        """Returns the values that are taken out of a record, and what remains of it."""
        if self.opt_out in record:
            raise WholeRecord
        walk = _Walk(record)
        walk.item(record)
        return walk, record

    def keys(self, key: Any) -> list[bytes]:
        """Returns the skeleton: a record is one piece."""
        return [key]

    def pieces(self, raw: bytes) -> list[Piece]:
        """Returns the record as a whole."""
        _, skeleton = self._walk(_decode(raw))
        return [Piece(_decode(raw), skeleton)]

    def tools_text(self, tools: Any) -> str:
        return write_namespace(tools, _NO_TAG)  # tools of which a string spells one are not clean


class _Walk:
    def __init__(self, record: dict[str, Any]) -> None:
        self.texts: list[str] = []
        self.metadata: list[Any] = []
        self.values: list[Any] = []
        self.called: list[str] = []
        self.tools: bytes | None = None
        self.pairs = "chosen" in record or "rejected" in record
        self.contents = set[tuple[str, str]]()  # of the answer of a pair
        self.answers: list[set[tuple[str, str]]] = []
        self.ids: dict[str, str] = {}
        self.budget = record.get("thinking_budget")

    def item(self, item: dict[str, Any]) -> None:
        """Takes the values out of the record, of a message, or of an item of `contents`."""
        if len(item) == 2 and not self.pairs:  # most messages
            text = item.get("content")
            if item.get("role").__class__ is str is text.__class__:
                self.texts.append(text)
                item["content"] = ""
                return
        for key, value in [*item.items()]:
            kind = _KINDS.get(key)
            if kind == _TEXT:
                if value.__class__ is not str or (
                    key == "reasoning"
                    and self.budget is not None
                    and len(value.encode()) > self.budget
                ):
                    raise WholeRecord  # a token is a byte or more
                self.texts.append(value)
                self.contents.add((key if key in _MARKED else "", value))
                item[key] = ""
            elif kind == _ITEMS:
                for one in value:
                    self.item(one)
            elif kind == _CALLS:
                for call in value:
                    self.call(call)
            elif kind == _IDENT:
                item[key] = self.number_of(value)
            elif kind == _ANSWER:
                self.answer(value)
            elif kind == _TOOLS:
                if self.tools is not None:
                    raise WholeRecord
                self.tools, item[key] = _encode(value), 0
            elif kind == _FORMAT:
                if value not in _IDLE:
                    raise WholeRecord  # the answer must be in it
            elif key[:1] == "_" and "type" not in item:  # items of `contents` have no metadata
                shallow(value)
                self.metadata.append(item.pop(key))

    def answer(self, item: dict[str, Any]) -> None:
        """Takes the values out of one of a pair of answers, which must not be the same."""
        self.contents = set()
        self.item(item)
        if self.contents in self.answers:
            raise WholeRecord
        self.answers.append(self.contents)

    def number_of(self, name: str) -> str:
        if name.__class__ is not str:
            raise WholeRecord
        if name not in self.ids:
            self.ids[name] = str(len(self.ids))
            self.texts.append(name)
        return self.ids[name]

    def call(self, call: dict[str, Any]) -> None:
        function = call["function"]
        self.called.append(function["name"])
        self.values.append(_plain(_encode(function["arguments"])))
        if "id" in call:
            call["id"] = self.number_of(call["id"])
        function["name"], function["arguments"] = self.number_of(function["name"]), 0
