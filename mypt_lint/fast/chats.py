"""Makes skeletons of records of other tools, so that their findings are cached, too.

Input: a decoded record. Output: a `Skeleton`, for findings_cache.py. Most records of a file differ
in their texts alone, and most texts are clean: nothing in them is found by any rule, whatever is
around them. Without a format, this is true of tools that are clean by themselves, too, and of
arguments that fit them: placeholders replace both. A record with other calls, with parts, or with a
text that is not clean has no skeleton.
"""

import math
from collections.abc import Container
from itertools import pairwise
from typing import Any

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import AnyTexts, CleanTexts, longest, text_filter
from mypt_lint.fast.clean_tools import CleanTools
from mypt_lint.fast.skeleton import DEEP, NoSkeletonError, Placeholders, Skeleton
from mypt_records.chat import MEDIA
from mypt_records.checks.arguments import ODD_ARGUMENT
from mypt_records.checks.order import SHORT
from mypt_records.reading import LABELS
from mypt_records.shapes.openai import USERS
from mypt_records.shapes.preference import bare
from mypt_records.shapes.tables import tables
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.message_splitter import unescaped_quotes
from mypt_spec.adapters.splitter import Splitter
from mypt_spec.bodies.strict_json import escape

_LONGEST = 1 << 20  # bytes of a line
_TEXTS = frozenset({"content", "value", "text", "tool_call_id", *THOUGHTS})
_ROLE = frozenset({"from", "role"})
_ASKING = frozenset({"user", *USERS})
# Findings about these depend on their values: the help about a label that is a number names one.
_READ_VALUES = frozenset({"tools", "functions", "language", *LABELS})
_NOT_CACHEABLE = frozenset({"text", "history", "response_format", "rejected_tools"})
_SMALL = 1 << 53
_WRITTEN = (str, bool, type(None))
_OF_CALL = frozenset({"id", "type", "function", "name", "arguments"})


class _AsJson(Splitter):
    """Stands for records whose tools are JSON, of which nothing is lost."""

    tools_as_json = True


class ChatSkeletons:
    """Makes skeletons for one checker of records of other tools; belongs to one thread.

    `longest` is the length in bytes of the longest line that has one.
    """

    def __init__(self, checker: Checker) -> None:
        self.longest = min(_LONGEST, _LONGEST if checker.formatless else longest(checker))
        if checker.shape in tables():
            self.longest = -1  # what is found in a trace may depend on more
        self.checker, d = checker, checker.dialect
        self.texts = None if checker.formatless else CleanTexts(d.table, d.automaton)
        self.tools = CleanTools(checker, _AsJson(), AnyTexts(d.table))
        self.text_filter = text_filter(checker)
        self.encode = msgspec.json.Encoder().encode
        self.decode = msgspec.json.Decoder().decode

    def of(self, record: dict[str, Any]) -> Skeleton:
        """Returns the skeleton of a record that msgspec has decoded. Raises NoSkeletonError."""
        out = Skeleton(strings=len(record))
        placeholders = Placeholders(out)
        calls: list[tuple[str, dict[str, Any]]] = []
        for key, value in record.items():
            out.rest[key] = self._top(key, value, placeholders, calls)
        texts = [*placeholders.texts]
        copies = len({*map(str.strip, texts)}) < len(texts)  # but for white space
        if placeholders.is_repeated or copies or not self._are_clean(texts):
            raise NoSkeletonError
        if self.checker.shape == "preference" and len({*map(bare, texts)}) < len(texts):
            raise NoSkeletonError("answers may be equal but for white space")
        if calls and not (record.get("tools") or record.get("functions")):
            if any(name in text for name, _ in calls for text in texts):
                raise NoSkeletonError("a text may declare a tool")
        elif calls:
            called, values = zip(*calls, strict=True)
            if not out.tools.issuperset(called) or not self.tools.take(
                placeholders.tools, called, values
            ):
                raise NoSkeletonError("something may be found in a call")
        return out

    def _top(self, key: str, value: Any, placeholders: Placeholders, calls: list[Any]) -> Any:
        """Returns a top-level value as it is in the rest; notes the calls of messages."""
        if key in _NOT_CACHEABLE or (key in MEDIA and value):
            raise NoSkeletonError
        out, kind = placeholders.out, value.__class__
        if kind is str:
            out.strings += 1
            return value if key in _READ_VALUES else placeholders.of(value)
        if kind is list and value:
            messages = [item for item in value if item.__class__ is dict]
            if not all(map(_ROLE.isdisjoint, messages)):
                if len(messages) < len(value):
                    raise NoSkeletonError  # its texts stay, but others are compared with them
                placeholders.literal = _repeated_ids(messages)
                return [self._message(item, placeholders, calls) for item in messages]
        elif kind is dict and not _ROLE.isdisjoint(value):
            return self._message(value, placeholders, calls)
        elif kind is int or kind is float:
            if not (-_SMALL < value < _SMALL if kind is int else math.isfinite(value)):
                raise NoSkeletonError
            if key in _READ_VALUES:
                return value
            out.others[f"/{escape(key)}"] = value
            return 0 if kind is int else 0.5
        elif kind in _WRITTEN:
            return value
        encoded = self.encode(value)
        if encoded.count(b"[") + encoded.count(b"{") > DEEP:
            raise NoSkeletonError
        quotes = unescaped_quotes(encoded)
        out.strings += quotes // 2
        if key == "tools" and kind is list and value and self.texts is None:
            strings, names = self.tools.judged(encoded)
            if 2 * strings == quotes and len(names) == len(value):  # clean by themselves
                out.tools, placeholders.tools = names, encoded
                return [placeholders.hidden(value, None)]
            return value
        if key[:1] != "_":
            return value
        out.others[f"/{escape(key)}"] = value
        return 0

    def _are_clean(self, texts: list[str]) -> bool:
        """Returns whether no rule finds anything in any of some texts."""
        doubtful = self.text_filter.doubtful(texts)
        return not doubtful and (self.texts is None or self.texts.are_clean(texts))

    def _message(
        self, message: dict[str, Any], placeholders: Placeholders, calls: list[Any]
    ) -> Any:
        """Returns a message as it is in the rest. Raises NoSkeletonError for unknown values."""
        out: dict[str, Any] = {}
        strings = len(message)
        for key, value in message.items():
            if value.__class__ is str:
                strings += 1
                if key == "name":  # that of a call before has its placeholder
                    out[key] = placeholders.values.get(value, value)
                elif key == "tool_call_id" and value in placeholders.literal:
                    out[key] = value
                else:
                    out[key] = placeholders.of(value) if key in _TEXTS else value
            elif value is None or value.__class__ is bool or value == []:
                out[key] = value
            elif key == "tool_calls" and self.texts is None and value.__class__ is list:
                out[key] = [self._call(call, placeholders, calls) for call in value]
            else:
                raise NoSkeletonError
        placeholders.out.strings += strings
        return out

    def _call(self, call: Any, placeholders: Placeholders, calls: list[Any]) -> Any:
        """Returns a call as it is in the rest, and notes it. Raises NoSkeletonError for others."""
        function: Any = call.get("function") if call.__class__ is dict else None
        if function.__class__ is not dict or {*call, *function} - _OF_CALL:
            raise NoSkeletonError
        name, ident, arguments = function.get("name"), call.get("id"), function.get("arguments", "")
        is_text = arguments.__class__ is str
        value = self.decode(arguments) if is_text else arguments
        if value.__class__ is not dict or None in value.values() or name.__class__ is not str:
            raise NoSkeletonError
        encoded = self.encode(value)
        quotes = unescaped_quotes(encoded)
        if ODD_ARGUMENT.search(encoded):
            raise NoSkeletonError("an argument may be a placeholder")
        if encoded.count(b"[") + encoded.count(b"{") > DEEP or (
            is_text and quotes != unescaped_quotes(arguments.encode())  # a key occurs twice
        ):
            raise NoSkeletonError
        strings = [*call, *call.values(), *function, *function.values()]
        placeholders.out.strings += sum(text.__class__ is str for text in strings)
        placeholders.out.strings += 0 if is_text else quotes // 2
        placeholder = placeholders.hidden(arguments, len(calls))
        calls.append((name, value))
        hidden = placeholder if is_text else {placeholder: 0}
        rest = {"name": placeholders.hidden(name, name), "arguments": hidden}
        out = call | {"function": function | rest}
        if ident.__class__ is str and ident and ident not in placeholders.literal:
            out["id"] = placeholders.of(ident)
        return out


def _repeated_ids(messages: list[dict[str, Any]]) -> Container[str]:
    """Returns the ids that several calls of some messages have: of these, the characters decide.

    Raises NoSkeletonError where a text, or a question and what follows it, come again: their
    lengths decide.
    """
    texts = [str(m.get("value") or m.get("content")) for m in messages]
    long = [text for text in texts if len(text) >= SHORT]
    turns = [
        pair
        for pair, m in zip(pairwise([*texts, ""]), messages, strict=True)
        if str(m.get("from") or m.get("role")).lower() in _ASKING
    ]
    if len({*turns}) < len(turns) or len({*long}) < len(long):
        raise NoSkeletonError("a text may come again")
    lists = [m["tool_calls"] for m in messages if m.get("tool_calls").__class__ is list]
    calls = [call for some in lists for call in some if call.__class__ is dict]
    ids = [call["id"] for call in calls if call.get("id").__class__ is str]
    return () if len({*ids}) == len(ids) else {ident for ident in ids if ids.count(ident) > 1}
