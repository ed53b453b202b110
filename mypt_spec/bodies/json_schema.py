"""Checks JSON values against JSON Schemas, with a bound on time and without network.

Input are a value and a schema as read from JSON; output are the places where they disagree. A
reference to another document is a fault of the schema. The library `jsonschema` does the work; it
is loaded when a schema is first met. Its time is bounded here, because a schema is data, and data
must not be able to stop the linter.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, NamedTuple
from urllib.parse import urljoin

from mypt_spec.bodies.strict_json import escape

MAX_MISFITS = 5  # named for one value
# Processor time for one check: a few references in a small schema can mean billions of steps.
_SECONDS = 1.0
_TOO_LONG = f"checking it takes more than {_SECONDS:g} second, which is the limit"
_ALTOGETHER = 4.0  # for all checks of one record
_FRAMES = 350  # of Python's stack: at its end, a library below panics instead of raising
_REPEATS = 100_000  # product of a pattern's counted repeats, to which the library expands it
_SMALL = 20_000  # characters of a schema that many are kept of, and of a regular expression
# objects in a schema, in so far as they are schemas: in a second, half as many are checked
_PARTS = 50_000
# Keywords that may name properties beside "properties".
_NAMING = frozenset({
    "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "not",
})  # fmt: skip
_DATA = ("enum", "const", "default", "examples")  # what is under these keys is no schema
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")
_clock = threading.local()


class SchemaError(ValueError):
    """Why a schema cannot be used.

    `pointer` is the place in the schema. `in_use`: only a value showed it. `unchecked`: a limit was
    met before anything wrong was.
    """

    def __init__(
        self, message: str, pointer: str = "", *, in_use: bool = False, unchecked: bool = False
    ) -> None:
        super().__init__(message)
        self.pointer, self.in_use, self.unchecked = pointer, in_use, unchecked


class Patience:
    """Bounds the time of all checks of one record; when it is up, each check raises SchemaError."""

    def __init__(self) -> None:
        self.spent = 0.0

    def check_schema(self, schema: Any) -> None:
        """Checks a schema as the function `check_schema` does."""
        self._timed(check_schema, schema)

    def misfits(self, value: Any, schema: Any) -> list[tuple[str, str]]:
        """Returns misfits as the function `misfits` does."""
        found: list[tuple[str, str]] = self._timed(misfits, value, schema)
        return found

    def _timed(self, check: Callable[..., Any], *what: Any) -> Any:
        if self.spent > _ALTOGETHER:
            spent = f"those of this record take more than {_ALTOGETHER:g} seconds together"
            raise SchemaError(spent, in_use=True, unchecked=True)
        began = time.thread_time()
        try:
            return check(*what)
        finally:
            self.spent += time.thread_time() - began


class _Compiled(NamedTuple):
    """A schema with its validator, or with the reason why there is none."""

    validator: Any
    fault: tuple[str, str] | None
    unchecked: bool = False

    def usable(self) -> Any:
        """Returns the validator. Raises SchemaError where there is none."""
        if self.fault is not None:
            raise SchemaError(*self.fault, unchecked=self.unchecked)
        return self.validator


def check_schema(schema: Any) -> None:
    """Raises SchemaError for a value that is no JSON Schema, or takes too long to tell."""
    from mypt_spec.bodies.plain_schema import is_plain  # here: it loads msgspec

    if not is_plain(schema):
        _compiled(schema).usable()


def misfits(value: Any, schema: Any) -> list[tuple[str, str]]:
    """Returns (pointer, message) of each place where a value does not fit a schema.

    There are at most MAX_MISFITS, sorted. Raises SchemaError for a schema that cannot be used.

    >>> misfits({"top": "3"}, {"type": "object", "properties": {"top": {"type": "integer"}}})
    [('/top', "'3' is not of type 'integer'")]
    """
    validator = _compiled(schema).usable()
    _start()
    found = []
    try:
        for error in validator.iter_errors(value):
            found.append((_pointer(error.absolute_path), _short(error.message)))
            if len(found) == MAX_MISFITS:
                break
    except RecursionError:
        raise SchemaError(
            "it refers to itself without end, or nests too deep", in_use=True
        ) from None
    # A reference that leads nowhere, arithmetic on huge numbers: the schema's fault, not ours.
    except Exception as error:
        raise SchemaError(_short(str(error)), in_use=True) from None
    return sorted(found)


def unnamed(value: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Returns the arguments that a schema does not name; none where parts of it may name more."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _NAMING.isdisjoint(schema):
        return []
    if isinstance(schema.get("additionalProperties"), dict):
        return []
    return [key for key in value if key not in properties]


def undeclared(value: Any, schema: Any) -> list[str]:
    """Returns the arguments, not null, that a schema neither names, allows nor forbids."""
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return []
    silent = "additionalProperties" not in schema
    return [key for key in unnamed(value, schema) if value[key] is not None] if silent else []


def _pointer(path: Any) -> str:
    return "".join("/" + escape(str(step)) for step in path)


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _compiled(schema: Any) -> _Compiled:
    if _has_too_many_parts(schema):
        return _Compiled(None, (_TOO_LONG, ""), unchecked=True)
    source = json.dumps(schema)
    return (_remembered if len(source) <= _SMALL else _remembered_large)(source)


def _has_too_many_parts(schema: Any) -> bool:
    """Returns whether a schema is refused for its size, before any of its copies is made."""
    stack, parts = [schema], 0
    while stack and parts <= _PARTS:
        item = stack.pop()
        if isinstance(item, dict):
            parts += 1
            stack += [v for k, v in item.items() if k not in _DATA and isinstance(v, dict | list)]
        else:
            stack += (
                [v for v in item if isinstance(v, dict | list)] if isinstance(item, list) else ()
            )
    return parts > _PARTS


def _compile(source: str) -> _Compiled:
    import jsonschema
    from referencing import Registry

    schema = json.loads(source)
    try:
        marked = schema if isinstance(schema, dict) else {}
        kind = jsonschema.validators.validator_for(marked, default=jsonschema.Draft202012Validator)
        bounded = _bounded(kind)
        _start()
        error = next(bounded(_meta_schema(kind), registry=Registry()).iter_errors(schema), None)
        if error is not None:
            return _Compiled(None, (_short(error.message), _pointer(error.absolute_path)))
        return _Compiled(
            bounded(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER), None
        )
    except RecursionError:
        return _Compiled(None, ("it nests too deep", ""), unchecked=True)
    except TimeoutError as error:
        return _Compiled(None, (str(error), ""), unchecked=True)
    except Exception as error:
        return _Compiled(None, (_short(str(error)), ""))


_remembered = lru_cache(maxsize=512)(_compile)
_remembered_large = lru_cache(maxsize=8)(_compile)


@cache
def _meta_schema(kind: Any) -> Any:
    """Returns the schema of schemas in one piece.

    From 2019-09 on it is a list of vocabularies, each of which walks the whole schema again by a
    reference that is looked up anew at every step: most of the time of a check.
    """
    from jsonschema_specifications import REGISTRY

    meta = kind.META_SCHEMA
    parts = [REGISTRY.contents(urljoin(meta["$id"], p["$ref"])) for p in meta.get("allOf", ())]
    if not parts:
        return meta
    whole = {key: meta[key] for key in ("$schema", "type")}
    for key in ("$defs", "properties"):
        whole[key] = {name: s for part in [*parts, meta] for name, s in part.get(key, {}).items()}
    source = json.dumps(whole)
    for reference in ('"$dynamicRef": "#meta"', '"$recursiveRef": "#"'):
        source = source.replace(reference, '"$ref": "#"')
    return json.loads(re.sub(r'"\$ref": "meta/\w+#', '"$ref": "#', source))


def _start() -> None:
    """Notes when a check begins, and how deep the stack is."""
    _clock.end = time.thread_time() + _SECONDS
    frame = sys._getframe()
    _clock.base = 0
    while frame.f_back is not None:
        frame = frame.f_back
        _clock.base += 1


def _left() -> float:
    """Returns the processor time that this check has left. Raises TimeoutError when it is over."""
    left: float = _clock.end - time.thread_time()
    if left <= 0:
        raise TimeoutError(_TOO_LONG)
    return left


@cache
def _bounded(kind: Any) -> Any:
    """Returns a class of validators that cannot run for ever."""
    import jsonschema

    def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and not _matches(wanted, value):
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")

    def pattern_properties(
        validator: Any, wanted: dict[str, Any], value: Any, schema: Any
    ) -> Iterator[Any]:
        for expression, inner in wanted.items() if isinstance(value, dict) else ():
            for key in [k for k in value if _matches(expression, k)]:
                yield from validator.descend(value[key], inner, path=key, schema_path=expression)

    def additional(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        known, expressions = schema.get("properties", {}), schema.get("patternProperties", {})
        for key in value if isinstance(value, dict) else ():
            if key not in known and not any(_matches(e, key) for e in expressions):
                yield from other(validator, wanted, value, key)

    def unevaluated_properties(
        validator: Any, wanted: Any, value: Any, schema: Any
    ) -> Iterator[Any]:
        if isinstance(value, dict):
            without = {k: s for k, s in schema.items() if k != "unevaluatedProperties"}
            seen = _evaluated(validator, value, without)
            for key in value:
                if key not in seen:
                    yield from other(validator, wanted, value, key)

    def unevaluated_items(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, list):
            without = {k: s for k, s in schema.items() if k != "unevaluatedItems"}
            seen = _evaluated(validator, value, without)
            for at in range(len(value)):
                if at not in seen:
                    yield from other(validator, wanted, value, at)

    def other(validator: Any, wanted: Any, value: Any, key: Any) -> Iterator[Any]:
        if wanted is False:
            what = "a property" if isinstance(value, dict) else "an item"
            yield jsonschema.ValidationError(f"{key!r} is {what} that the schema does not have")
        else:
            yield from validator.descend(value[key], wanted, path=key)

    def form(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
        if wanted == "regex" and isinstance(value, str) and len(value) > _SMALL:
            raise ValueError(f"a pattern is too large to check: {_short(value, 60)!r}")
        return kind.VALIDATORS["format"](validator, wanted, value, schema)

    def unique(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        if wanted and isinstance(value, list):
            told = {json.dumps(_plain(item), sort_keys=True) for item in value}
            if len(told) < len(value):
                yield jsonschema.ValidationError("some items of the array are the same")

    def evolve(validator: Any, **changes: Any) -> Any:
        """Makes the validator of a schema inside, after a look at time and stack.

        Every step into a schema or a reference goes through here. A `$schema` inside must not lead
        out of this class.
        """
        _left()
        with suppress(ValueError):  # the stack is not that deep
            sys._getframe(_clock.base + _FRAMES)
            raise RecursionError
        given = {name: getattr(validator, attribute) for attribute, name in fields}
        return bounded(**given | changes)

    own = {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional,
        "uniqueItems": unique,
        "unevaluatedProperties": unevaluated_properties,
        "unevaluatedItems": unevaluated_items,
        "format": form,
    }
    known = {word: check for word, check in own.items() if word in kind.VALIDATORS}
    bounded = jsonschema.validators.extend(kind, known)
    fields = [(a.name, a.alias) for a in bounded.__attrs_attrs__ if a.init]
    bounded.evolve = evolve
    return bounded


def _evaluated(validator: Any, value: Any, schema: Any) -> set[Any]:
    """Returns the keys of an object, or the positions in an array, that a schema evaluates.

    Replaces the library's own search, which compares all with all and has no limit.
    """
    _left()
    if not isinstance(schema, dict):
        return set()
    found = set(_said(validator, value, schema))
    for there, inner in _in_place(validator, value, schema):
        found |= _evaluated(there, value, inner)
    return found


def _said(validator: Any, value: Any, schema: dict[str, Any]) -> Iterator[Any]:
    """Yields the keys or positions that the schema itself names."""
    if isinstance(value, dict):
        if "additionalProperties" in schema or "unevaluatedProperties" in schema:
            yield from value
        yield from schema.get("properties", {}).keys() & value.keys()
        for expression in schema.get("patternProperties", {}):
            yield from (key for key in value if _matches(expression, key))
        return
    first = schema.get("prefixItems", schema.get("items"))
    further = "items" if "prefixItems" in schema else "additionalItems"
    if isinstance(first, dict | bool) or further in schema or "unevaluatedItems" in schema:
        yield from range(len(value))
    yield from range(len(first) if isinstance(first, list) else 0)
    if "contains" in schema:
        inner = validator.evolve(schema=schema["contains"])
        yield from (at for at, item in enumerate(value) if inner.is_valid(item))


def _in_place(validator: Any, value: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yields the schemas that a schema applies to the same value, as far as the value fits them."""
    from referencing.jsonschema import lookup_recursive_ref

    resolver = validator._resolver
    to = [resolver.lookup(schema[word]) for word in ("$ref", "$dynamicRef") if word in schema]
    to += [lookup_recursive_ref(resolver)] if "$recursiveRef" in schema else []
    for place in to:
        yield (
            validator.evolve(schema=place.contents, _resolver=place.resolver),
            place.contents,
        )
    choices = [s for word in ("allOf", "anyOf", "oneOf") for s in schema.get(word, ())]
    inner = [s for s in choices if validator.evolve(schema=s).is_valid(value)]
    if isinstance(value, dict):
        inner += [s for key, s in schema.get("dependentSchemas", {}).items() if key in value]
    if "if" in schema:
        fits = validator.evolve(schema=schema["if"]).is_valid(value)
        inner += [
            schema[word] for word in (("if", "then") if fits else ("else",)) if word in schema
        ]
    for subschema in inner:
        yield validator, subschema


def _plain(value: Any) -> Any:
    """Returns a value in which equal numbers are written alike: `1.0` is `1` to a schema."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _matches(expression: str, text: str) -> bool:
    import regex

    times = math.prod(
        max(int(n[:9] or 1) for n in counts) or 1 for counts in _COUNTS.findall(expression[:_SMALL])
    )
    if times > _REPEATS or len(expression) > _SMALL:
        raise ValueError(f"a pattern is too large to check: {_short(expression, 60)!r}")
    return regex.search(expression, text, timeout=_left()) is not None
