"""Splits third-party records of messages as `MessageSplitter` does those of dialects.

Checks that need no format see a whole conversation, so its skeleton is one piece, judged on the
first record that has it. Besides, these records have top-level keys that other programs added; a
skeleton says which. A record has none if texts, or ids of calls, are equal in it, because rules
compare them, or if it has calls and no tools, because a text may name these.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache, reduce
from operator import attrgetter, or_
from typing import Any

import msgspec
from msgspec import UNSET

from mypt_records.names import OPT_OUT
from mypt_spec.adapters.message_splitter import (
    Free,
    Head,
    MessageSplitter,
    bare_message,
    encode_value,
)
from mypt_spec.adapters.splitter import Piece, Splits, Splitter, shallow, splitter
from mypt_spec.dialect import Dialect
from mypt_spec.extra_keys import CUSTOMARY

_NAMES = re.compile(r"[A-Za-z]\w{0,62}", re.ASCII)
_IDS = re.compile(r"[\w-]+", re.ASCII)
# Customary keys that some shape reads, and those of metadata, which are learnt of messages, too.
_READ = frozenset({"name", "image", "video", *(key for key in CUSTOMARY if key[0] == "_")})
_TEXTS = ("content", "value", "reasoning_content", "thinking", "reasoning")
_MOST = 20  # top-level keys of other programs
# Roles of ShareGPT, whose messages have nothing but a text.
_SHAREGPT = ("human", "gpt", "system", "user", "assistant")


def chat_splitter(shape: str, dialect: Dialect, *, formatless: bool) -> Splitter | None:
    """Returns the splitter of records of a shape that are read in a dialect; None for others.

    `formatless`: the dialect is no matter.
    """
    of_dialect = splitter(dialect.adapter, OPT_OUT)
    if formatless:
        free = Free(_NAMES, _IDS)
        of_dialect = MessageSplitter(free, dialect.table, "", OPT_OUT, indented=True)
        of_dialect.only_chats = False
    if shape not in ("openai", "sharegpt") or not isinstance(of_dialect, MessageSplitter):
        return None
    return ChatSplitter(of_dialect, sharegpt=shape == "sharegpt")


class ChatSplitter(MessageSplitter):
    """Splits records into conversations and values; `of_dialect` is for records of a dialect."""

    by_piece = False

    def __init__(self, of_dialect: MessageSplitter, *, sharegpt: bool) -> None:
        self.sharegpt = sharegpt
        self.top: list[str] = []  # customary keys that some record has
        super().__init__(
            of_dialect.free, of_dialect.table, of_dialect.tools_body, OPT_OUT,
            indented=of_dialect.indented,
        )  # fmt: skip
        self.only_chats = of_dialect.only_chats

    def _compile(self) -> None:
        super()._compile()
        if self.sharegpt:  # none of the types above is in these
            self.decode, self.decode_plain = _sharegpt((*self.top,)), _sharegpt(())
        self.of_top = [attrgetter(f"t{i}") for i in range(len(self.top))]

    def learn(self, raw: bytes) -> bool:
        try:
            record = msgspec.json.decode(raw)
        except (ValueError, RecursionError):
            return False
        keys = record if record.__class__ is dict else ()
        new = [k for k in keys if k in CUSTOMARY and k not in _READ and k not in self.top]
        new = new[: _MOST - len(self.top)]
        self.top += new
        if not self.sharegpt and super().learn(raw):
            return True
        self._compile()
        return bool(new)

    def has_notes(self) -> bool:
        return bool(self.top) or super().has_notes()

    def split(self, lines: list[bytes]) -> Splits:
        splits = super().split(lines)
        begin, keys, texts = 0, splits.keys, [*map(str.strip, splits.texts)]
        sizes = [*map(len, texts)]  # most texts of a record differ in these
        for i, end in enumerate(splits.ends):
            if len({*sizes[begin:end]}) < end - begin > len({*texts[begin:end]}):
                keys[i] = None
            begin = end
        for i, split in splits.more.items():
            if split.called and split.tools is None:
                keys[i] = None
        return splits

    def _notes(self, record: Any, add: Any) -> list[Any]:
        """Returns the metadata values, and adds which keys have some."""
        notes = super()._notes(record, add) if self.learnt or self.nulls else []
        present = 0
        for bit, of in enumerate(self.of_top):
            value = of(record)
            if value is not UNSET:
                shallow(value)
                notes.append(value)
                present |= 1 << bit
        add((present,))
        return notes

    def keys(self, key: Any) -> list[bytes]:
        return [repr(key).encode()]

    def pieces(self, raw: bytes) -> list[Piece]:
        record = msgspec.json.decode(encode_value(self.decode_plain(raw)))
        if record.get("tools") is not None:
            record["tools"] = 0
        messages = "conversations" if self.sharegpt else "messages"
        record[messages] = [bare_message(message) for message in record[messages]]
        judged = msgspec.json.decode(raw)
        with suppress(TypeError, KeyError, AttributeError):  # a key that the types do not have
            judged = _shortened(msgspec.json.decode(raw), messages)
        return [Piece(judged, record)]


def _shortened(record: dict[str, Any], messages: str) -> dict[str, Any]:
    """Returns a record with the same skeleton, which is judged in a fraction of the time.

    Its texts are short, and different; its tools, those that are called, have no parameters.
    """
    called = set[str]()
    for i, message in enumerate(record[messages]):
        message.update({k: f"Text {k} {i}." for k in _TEXTS if message.get(k)})
        for call in message.get("tool_calls") or ():
            function = call["function"]
            called.add(function["name"])
            arguments = function["arguments"]
            if arguments.__class__ is dict or arguments[:1] == "{":
                function["arguments"] = {} if arguments.__class__ is dict else "{}"
    tools = record.get("tools")
    if tools and tools.__class__ is list and all(tool.get("function") for tool in tools):
        names = [tool["function"].get("name") for tool in tools]
        record["tools"] = [_tool(name) for name in names if name in called] or [_tool(names[0])]
    return record


def _tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}}
    function = {"name": name, "description": "A tool.", "parameters": parameters}
    return {"type": "function", "function": function}


@lru_cache(maxsize=8)
def _sharegpt(top: tuple[str, ...]) -> Any:
    """Returns what decodes records of ShareGPT that have these top-level keys."""
    content: Any = ("content", str, msgspec.field(name="value"))
    kinds = [
        msgspec.defstruct(role, [content], gc=False, tag_field="from", tag=role)
        for role in _SHAREGPT
    ]
    message: Any = reduce(or_, kinds)
    fields: list[Any] = [("messages", list[message], msgspec.field(name="conversations"))]
    fields += [(f"t{i}", Any, msgspec.field(default=UNSET, name=k)) for i, k in enumerate(top)]
    return msgspec.json.Decoder(
        msgspec.defstruct("Record", fields, bases=(Head,), gc=False, kw_only=True)
    ).decode
