"""Makes skeletons of records of other tools, so that their findings are cached, too.

Input: a decoded record. Output: a `Skeleton`, for findings_cache.py. Most records of a file differ
in their texts alone, and most texts are clean: nothing in them is found by any rule, whatever is
around them. A record with calls, with parts, or with a text that is not clean has no skeleton.
"""

import math
from typing import Any

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.answered import longest
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_lint.fast.skeleton import NoSkeletonError, Placeholders, Skeleton
from mypt_records.checks.characters import odd
from mypt_records.checks.control import strings_of
from mypt_records.checks.leftovers import suspicious
from mypt_records.checks.media import LISTS
from mypt_records.checks.wording import worded
from mypt_records.reading import LABELS
from mypt_records.written import CALL
from mypt_spec.bodies.strict_json import escape

_LONGEST = 1 << 20  # bytes of a line
_TEXTS = frozenset({"content", "value", "text", "reasoning_content", "thinking", "reasoning"})
_ROLE = frozenset({"from", "role"})
# Findings about these depend on their values: the help about a label that is a number names one.
_READ_VALUES = frozenset({"tools", "functions", "language", *LABELS})
_NOT_CACHEABLE = frozenset({"text", "history", "response_format"})
_SMALL = 1 << 53
_WRITTEN = (str, bool, type(None))


class ChatSkeletons:
    """Makes skeletons for one checker of records of other tools; belongs to one thread.

    `longest` is the length in bytes of the longest line that has one.
    """

    def __init__(self, checker: Checker) -> None:
        self.longest = min(_LONGEST, _LONGEST if checker.formatless else longest(checker))
        d = checker.dialect
        self.texts = None if checker.formatless else CleanTexts(d.table, d.automaton)
        self.controls = [strings_of(table).pattern for table in ("formats", "thoughts")]
        self.encode = msgspec.json.Encoder().encode

    def of(self, record: dict[str, Any]) -> Skeleton:
        """Returns the skeleton of a record that msgspec has decoded. Raises NoSkeletonError."""
        out = Skeleton(strings=len(record), foreign=True)
        texts = Placeholders(out)
        for key, value in record.items():
            out.rest[key] = self._top(key, value, texts)
        if not self._are_clean(list(texts.signs)):
            raise NoSkeletonError
        return out

    def _top(self, key: str, value: Any, texts: Placeholders) -> Any:
        """Returns a top-level value as it is in the rest."""
        if key in _NOT_CACHEABLE or (key in LISTS and value):
            raise NoSkeletonError
        out, kind = texts.out, value.__class__
        if kind is str:
            out.strings += 1
            return value if key in _READ_VALUES else texts.of(value)
        if kind is list and value:
            messages = [item for item in value if item.__class__ is dict]
            if not all(map(_ROLE.isdisjoint, messages)):
                if len(messages) < len(value):
                    raise NoSkeletonError  # its texts stay, but others are compared with them
                return [_message(item, texts) for item in messages]
        elif kind is dict and not _ROLE.isdisjoint(value):
            return _message(value, texts)
        elif kind is int or kind is float:
            if not (-_SMALL < value < _SMALL if kind is int else math.isfinite(value)):
                raise NoSkeletonError
            if key in _READ_VALUES:
                return value
            out.others[f"/{escape(key)}"] = value
            return 0 if kind is int else 0.5
        elif kind in _WRITTEN:
            return value
        out.strings += unescaped_quotes(self.encode(value)) // 2
        if key[:1] != "_":
            return value
        out.others[f"/{escape(key)}"] = value
        return 0

    def _are_clean(self, texts: list[str]) -> bool:
        """Returns whether no rule finds anything in any of some texts."""
        if not texts:
            return True
        joined = "\n".join(texts)
        if any(pattern.search(joined) for pattern in self.controls) or suspicious(texts, joined):
            return False
        if CALL in joined or odd(joined) or worded(texts, joined):
            return False
        return self.texts is None or self.texts.are_clean(texts)


def _message(message: dict[str, Any], texts: Placeholders) -> dict[str, Any]:
    """Returns a message as it is in the rest. Raises NoSkeletonError if it is more than a text."""
    out: dict[str, Any] = {}
    strings = len(message)
    for key, value in message.items():
        if value.__class__ is str:
            strings += 1
            out[key] = texts.of(value) if key in _TEXTS else value
        elif value is None or value.__class__ is bool or value == []:
            out[key] = value
        else:
            raise NoSkeletonError
    texts.out.strings += strings
    return out
