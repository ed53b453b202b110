"""Holds skeletons of records: a placeholder, one private-use character, replaces each clean text.

Theory of operation. Of a clean text, a rule sees only that it is clean (clean_filter.py rests on
this, too). So records with equal skeletons have the same findings, and the checker judges each
skeleton once (findings_cache.py). Kept are keys, roles, names, and blank or empty texts. Texts
become placeholders from U+E000 on; equal texts get one, as rules may compare texts. A JSON value
becomes a value of the same type that holds a placeholder from U+E800 on.

    user, "content": "Hi"                      "\ue000"
    assistant, "content": "Yo"                 "\ue001"
    a call, "arguments": "{\"n\": 1}"          "\ue800"
    a call, "arguments": {"n": 1}              {"\ue800": 0}

`Skeleton.value` puts the texts and values back. Where the value of a placeholder is not
certain, `NoSkeletonError` sends the record to the checker as it is.
"""

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from mypt_spec.bodies.strict_json import MAX_DEPTH

# Placeholders are characters for private use, which are neither letters nor white space.
_TEXTS, _VALUES, _END = 0xE000, 0xE800, 0xF000
PLACEHOLDER = re.compile(f"[{chr(_TEXTS)}-{chr(_END - 1)}]|\\\\ue")  # or how `repr` writes one
_VALUE = re.compile(f"[{chr(_VALUES)}-{chr(_END - 1)}]")
DEEP = MAX_DEPTH - 20  # brackets of a value
COPY = 20  # code points


class NoSkeletonError(ValueError):
    """The record must be checked as it is."""


@dataclass(slots=True)
class Skeleton:
    """A record in two: `rest`, with placeholders, and the texts and JSON values that these replace.

    Texts are by the code point of the placeholder, JSON values by the placeholder. `others` are
    values, by their pointers, that other values replace. `strings` counts the strings of the
    original record, keys too. `tools` are the names of the tools that a placeholder replaces.
    """

    rest: dict[str, Any] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    strings: int = 0
    tools: frozenset[str] = frozenset()

    def text(self, rest: str) -> str:
        """Returns a text of the rest as it is in the record.

        Raises NoSkeletonError for a text that holds the placeholder of a JSON value.
        """
        if self.values and _VALUE.search(rest):
            raise NoSkeletonError("part of a JSON value")
        return rest.translate(self.texts)

    def moved(self, pointer: str, rest: Any) -> Any:
        """Returns what a fix moves from a pointer as it is in the record."""
        return self.others[pointer] if pointer in self.others else self.value(rest)

    def value(self, rest: Any) -> Any:
        """Returns a JSON value of the rest as it is in the record.

        Raises NoSkeletonError where that is not certain.
        """
        if isinstance(rest, str):
            return self.values[rest] if rest in self.values else self.text(rest)
        if isinstance(rest, dict):
            if len(rest) == 1 and (key := next(iter(rest))) in self.values:
                return self.values[key]
            return {self.text(key): self.value(value) for key, value in rest.items()}
        if isinstance(rest, list):
            if len(rest) == 1 and rest[0].__class__ is str and rest[0] in self.values:
                return self.values[rest[0]]
            return [self.value(value) for value in rest]
        return rest


class Placeholders:
    """Replaces the texts of one record by placeholders; equal texts share one."""

    def __init__(self, out: Skeleton) -> None:
        self.out = out
        self.texts: dict[str, str] = {}  # placeholders by text
        self.is_repeated = False  # whether a text of several words, which may copy one, came twice
        self.values: dict[Any, str] = {}  # placeholders of JSON values, by their keys
        self.literal: Container[str] = ()  # ids that stay
        self.tools = b""  # the definitions that a placeholder replaces, as JSON

    def of(self, text: str) -> str:
        """Returns the placeholder of a text, "" of "". Raises NoSkeletonError for a blank text."""
        if not text:
            return text
        if text.isspace():
            raise NoSkeletonError("blank")
        placeholder = self.texts.get(text)
        if placeholder is None:
            number = _TEXTS + len(self.texts)
            if number >= _VALUES:
                raise NoSkeletonError("too many texts")
            placeholder = self.texts[text] = chr(number)
            self.out.texts[number] = text
        elif len(text) >= COPY and " " in text:
            self.is_repeated = True
        return placeholder

    def hidden(self, value: Any, key: Any) -> Any:
        """Returns the placeholder of a JSON value; values of one key share one."""
        placeholder = self.values.get(key)
        if placeholder is None:
            number = _VALUES + len(self.values)
            if number >= _END:
                raise NoSkeletonError("too many values")
            placeholder = self.values[key] = chr(number)
            self.out.values[placeholder] = value
        return placeholder
