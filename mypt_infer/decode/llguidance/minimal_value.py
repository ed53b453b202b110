"""Guesses a short value that fits a JSON Schema.

Input: a schema. Output: a value, which the caller must check with a real reader of schemas. The
guess is worth it because a search for a first ending takes far longer.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

from mypt_infer.decode.base.work import step
from mypt_infer.decode.compile.table_schemas import MAX_DEPTH
from mypt_infer.decode.llguidance.pattern_text import Unreadable, pattern_text
from mypt_spec.bodies.type_names import KEYWORDS, objects

# The most parts of a value, and characters of a string.
_MOST, _LETTERS = 20_000, 1 << 16
_ANNOTATIONS = KEYWORDS["annotations"]
_READ = _ANNOTATIONS | {
    "$defs", "additionalProperties", "definitions", "exclusiveMaximum", "exclusiveMinimum",
    "format", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum",
    "multipleOf", "pattern", "prefixItems", "properties", "required", "type",
}  # fmt: skip
_SHORT: dict[str, Any] = {"boolean": True, "null": None}
_FORMATS = {
    "date": "2000-01-01", "date-time": "2000-01-01T00:00:00Z", "duration": "P0D", "email": "0@0",
    "hostname": "0", "ipv4": "0.0.0.0",
    "ipv6": "::", "time": "00:00:00Z", "uri": "a:", "uuid": "00000000-0000-0000-0000-000000000000",
}  # fmt: skip


class Unclear(ValueError):
    """The schema does not show its values: it has patterns, conditions, or too many parts."""


def minimal_value(schema: Mapping[str, Any], size: Callable[[Any], int]) -> Any:
    """Returns a value that probably fits, as short as possible; `size` decides between values.

    Raises Unclear if the schema does not show its values.

    >>> schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}}
    >>> minimal_value({**schema, "required": ["a"]}, lambda value: len(str(value)))
    {'a': 3}
    """
    try:
        return _Reader(schema, size).value(schema, 0)
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
        # The schema has bounds that are no numbers, a list for an object, and the like.
        raise error if isinstance(error, Unclear) else Unclear(str(error)) from None


class _Reader:
    def __init__(self, root: Mapping[str, Any], size: Callable[[Any], int]) -> None:
        self.root, self.size, self.remaining = root, size, _MOST

    def value(self, schema: Any, depth: int) -> Any:
        self.remaining -= 1
        step()
        if depth > MAX_DEPTH or self.remaining < 0 or not isinstance(schema, Mapping):
            raise Unclear("no schema, or too much of it")
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._shortest(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if word in schema:
                others = {w: v for w, v in schema.items() if w != word}
                ways = [self._both(others, part) for part in schema[word]]
                return self._any([partial(self.value, way, depth + 1) for way in ways])
        if "allOf" in schema:
            merged = {w: v for w, v in schema.items() if w != "allOf"}
            for part in schema["allOf"]:
                merged = self._both(merged, part)
            return self.value(merged, depth + 1)
        if "$ref" in schema and not set(schema) - _ANNOTATIONS - {"$ref"}:
            _, kind, name = schema["$ref"].split("/")
            return self.value(self.root[kind][name], depth + 1)
        if set(schema) - _READ:
            raise Unclear(f"not read: {', '.join(sorted(set(schema) - _READ))}")
        kinds = schema.get("type", "null")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return self._any([partial(self._typed, kind, schema, depth) for kind in kinds])

    def _both(self, schema: dict[str, Any], part: Any) -> dict[str, Any]:
        """Returns a schema that binds as two do, as far as their keywords differ."""
        if not isinstance(part, Mapping):
            return schema
        both = {**schema, **part}
        for word in ("properties", "$defs", "definitions"):
            if word in schema and word in part:
                both[word] = {**schema[word], **part[word]}
        if "required" in schema and "required" in part:
            both["required"] = [*schema["required"], *part["required"]]
        return both

    def _any(self, ways: list[partial[Any]]) -> Any:
        """Returns the shortest of some values; at least one of them must be clear."""
        values = []
        for way in ways:
            try:
                values.append(way())
            except Unclear:
                continue
        return self._shortest(values)

    def _shortest(self, values: list[Any]) -> Any:
        if not values:
            raise Unclear("no value")
        return min(values, key=self.size) if len(values) > 1 else values[0]

    def _typed(self, kind: str, schema: Mapping[str, Any], depth: int) -> Any:
        if kind in _SHORT:
            return _SHORT[kind]
        if kind == "string":
            if "pattern" in schema:
                try:
                    text = pattern_text(schema["pattern"])
                except Unreadable as error:
                    raise Unclear(str(error)) from None
                return text.ljust(schema.get("minLength", 0), "0")
            if schema.get("minLength", 0) > _LETTERS:
                raise Unclear("a long string")
            zeros = "0" * schema.get("minLength", 0)
            return _FORMATS[schema["format"]] if "format" in schema else zeros
        if kind in ("integer", "number"):
            return _number(schema)
        if kind == "array":
            first = schema.get("prefixItems", [])
            return [
                self.value(first[i] if i < len(first) else schema["items"], depth + 1)
                for i in range(schema.get("minItems", 0))
            ]
        if kind == "object":
            properties, required = schema.get("properties", {}), schema.get("required", ())
            if set(required) - set(properties):
                raise Unclear("members that no schema describes")
            members = {key: part for key, part in properties.items() if key in required}
            return {key: self.value(part, depth + 1) for key, part in members.items()}
        raise Unclear(f"the type {kind!r}")


# The most patterns of a schema that are read, and what JSON writes as it is.
_PATTERNS, _PLAIN = 32, re.compile(r"[ !#-\[\]-~]+")


class Hints:
    """What a search for an ending may try first, read off some schemas.

    `spell` writes a value as the bodies have it, `size` says in how many tokens.

    >>> schema = {"properties": {"a": {"pattern": "[0-9]{4}-[0-9]{2}"}, "b": {"enum": ["xy", 1]}}}
    >>> hints = Hints([schema], lambda value: str(value).encode(), lambda value: len(str(value)))
    >>> hints.texts, hints.values("b")
    ((b'0000-00',), (b'1',))
    """

    def __init__(
        self, schemas: Sequence[Any], spell: Callable[[Any], bytes], size: Callable[[Any], int]
    ) -> None:
        self._schemas, self.spell, self.size = schemas, spell, size
        self._values: dict[str, tuple[bytes, ...]] = {}

    @cached_property
    def texts(self) -> tuple[bytes, ...]:
        """Returns a text for each pattern that shows one, and for each format."""
        texts: dict[bytes, None] = {}
        conditions = [
            (word, part[word])
            for part in objects(list(self._schemas))
            for word in ("pattern", "format")
            if isinstance(part.get(word), str)
        ]
        for word, condition in list(dict.fromkeys(conditions))[:_PATTERNS]:
            with suppress(Unreadable):
                text = pattern_text(condition) if word == "pattern" else _FORMATS.get(condition, "")
                if _PLAIN.fullmatch(text):
                    texts[text.encode()] = None
        return tuple(texts)

    def values(self, key: str) -> tuple[bytes, ...]:
        """Returns a short value for each schema that members of that name have."""
        entry = self._values.get(key)
        if entry is None:
            spellings: dict[bytes, None] = {}
            for root in self._schemas:
                members = [part.get("properties") for part in objects(root)]
                parts = [m[key] for m in members if isinstance(m, Mapping) and key in m]
                for part in parts[:_PATTERNS]:
                    reader = _Reader(root, self.size)
                    with suppress(ValueError, TypeError, AttributeError, LookupError):
                        spellings[self.spell(reader.value(part, 0))] = None
            entry = self._values[key] = tuple(spellings)
        return entry


def _number(schema: Mapping[str, Any]) -> int:
    """Returns the whole number nearest to 0 between the bounds."""
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if "exclusiveMinimum" in schema:
        low = max(low, math.floor(schema["exclusiveMinimum"]) + 1)
    if "exclusiveMaximum" in schema:
        high = min(high, math.ceil(schema["exclusiveMaximum"]) - 1)
    step = schema.get("multipleOf", 1)
    if low > 0:
        return int(math.ceil(low / step) * step)
    return int(math.floor(high / step) * step) if high < 0 else 0


# The length of a string of which only a pattern or a format is known.
_PATTERNED = 40


def most_of_a_part(schema: Any) -> int:
    """Returns about how many tokens the longest of the shortest values of all parts takes.

    A token that begins a part that the nearest ending leaves out makes the ending longer by about
    this many. A token of such a value holds two bytes or more.

    >>> most_of_a_part({"properties": {"a": {"type": "string", "minLength": 50}}})
    26
    """
    most = 0

    def least(part: Any, depth: int) -> int:
        nonlocal most
        length = 2 if not isinstance(part, Mapping) or depth > MAX_DEPTH else shortest(part, depth)
        most = max(most, length)
        return length

    def shortest(part: Mapping[str, Any], depth: int) -> int:
        values = [part["const"]] if "const" in part else part.get("enum")
        if values:
            return min(len(str(v)) for v in values) + 2
        ways = [least(p, depth + 1) for w in ("anyOf", "oneOf", "allOf") for p in part.get(w, ())]
        for word in ("$defs", "definitions", "patternProperties"):
            for one in part.get(word, {}).values():
                least(one, depth + 1)
        length_of_part = 2 + min(int(part.get("minLength", 0)), 1 << 16)
        if "pattern" in part or "format" in part:
            length_of_part += _PATTERNED
        if "multipleOf" in part or "minimum" in part or "maximum" in part:
            length_of_part += 8
        for word in ("items", "additionalProperties"):
            item = least(part[word], depth + 1) if word in part else 2
            if word == "items":
                length_of_part += min(int(part.get("minItems", 0)), 1 << 16) * (item + 2)
        required = set(part.get("required", ()))
        for key, one in part.get("properties", {}).items():
            value = least(one, depth + 1)
            length_of_part += (len(key) + 6 + value) if key in required else 0
        return length_of_part + (max(ways) if ways else 0)

    if isinstance(schema, Mapping):
        shortest(schema, 0)  # what has begun is no part of itself
    return most // 2
