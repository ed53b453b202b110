"""JSON values against JSON Schemas. Total, and without network: a reference to another document is a fault of the schema.

The library `jsonschema` does the work; it is loaded when a schema is first met. Its time is bounded here, because a schema
is data, and data must not be able to stop the linter.
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

from mypt_spec.jsonvalue import escape

MAX_MISFITS = 5  # named for one value
_SECONDS = 1.0  # of processor time for one check: a few references in a small schema can mean billions of steps
_ALTOGETHER = 4.0  # for all checks of one record
_FRAMES = 350  # of Python's stack: where it ends, a library beneath does not fail but panics
_REPEATS = (
    100_000  # times that counted repeats of a pattern may multiply to: it is expanded to that size
)
_SMALL = 20_000  # characters of a schema that is remembered
_UNBOUNDED = (
    "unevaluatedProperties",
    "patternProperties",
)  # together: the library's own search, which has no limit
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")
_clock = threading.local()


class SchemaError(ValueError):
    """Why a schema cannot be used; `pointer` is the place in it. `in_use`: only a value showed it."""

    def __init__(self, message: str, pointer: str = "", *, in_use: bool = False) -> None:
        super().__init__(message)
        self.pointer, self.in_use = pointer, in_use


class Patience:
    """The checks of one record, and the time they took: when it is spent, every further one raises SchemaError."""

    def __init__(self) -> None:
        self.spent = 0.0

    def check_schema(self, schema: Any) -> None:
        """As the function of that name."""
        self._timed(check_schema, schema)

    def misfits(self, value: Any, schema: Any) -> list[tuple[str, str]]:
        """As the function of that name."""
        found: list[tuple[str, str]] = self._timed(misfits, value, schema)
        return found

    def _timed(self, check: Callable[..., Any], *what: Any) -> Any:
        if self.spent > _ALTOGETHER:
            raise SchemaError("the schemas of this record take too long to check", in_use=True)
        began = time.thread_time()
        try:
            return check(*what)
        finally:
            self.spent += time.thread_time() - began


class _Compiled(NamedTuple):
    """A schema with what checks values against it, or why there is none."""

    validator: Any
    fault: tuple[str, str] | None


def check_schema(schema: Any) -> None:
    """Raises SchemaError for what is no JSON Schema."""
    fault = _compiled(schema).fault
    if fault is not None:
        raise SchemaError(*fault)


def misfits(value: Any, schema: Any) -> list[tuple[str, str]]:
    """Where a value does not fit a schema: pointers and messages, at most MAX_MISFITS. Raises SchemaError."""
    compiled = _compiled(schema)
    if compiled.fault is not None:
        raise SchemaError(*compiled.fault)
    _start()
    found = []
    try:
        for error in compiled.validator.iter_errors(value):
            found.append((_pointer(error.absolute_path), _short(error.message)))
            if len(found) == MAX_MISFITS:
                break
    except RecursionError:
        raise SchemaError(
            "it refers to itself without end, or nests too deep", in_use=True
        ) from None
    except Exception as error:  # a reference that leads nowhere, arithmetic on huge numbers: the schema's fault, not ours
        raise SchemaError(_short(str(error)), in_use=True) from None
    return sorted(found)


def _pointer(path: Any) -> str:
    return "".join("/" + escape(str(step)) for step in path)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


def _compiled(schema: Any) -> _Compiled:
    source = json.dumps(schema)
    return _remembered(source) if len(source) <= _SMALL else _compile(source)


@lru_cache(maxsize=512)
def _remembered(source: str) -> _Compiled:
    return _compile(source)


def _compile(source: str) -> _Compiled:
    import jsonschema
    from referencing import Registry

    if all(f'"{word}": ' in source for word in _UNBOUNDED):
        return _Compiled(None, (f"{' beside '.join(_UNBOUNDED)} is not supported", ""))
    schema = json.loads(source)
    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        bounded = _bounded(kind)
        _start()
        error = next(bounded(kind.META_SCHEMA, registry=Registry()).iter_errors(schema), None)
        if error is not None:
            return _Compiled(None, (_short(error.message), _pointer(error.absolute_path)))
        return _Compiled(
            bounded(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER), None
        )
    except RecursionError:
        return _Compiled(None, ("it nests too deep", ""))
    except Exception as error:
        return _Compiled(None, (_short(str(error)), ""))


def _start() -> None:
    """A check begins: note the time, and how deep the stack is."""
    _clock.end = time.thread_time() + _SECONDS
    frame = sys._getframe()
    _clock.base = 0
    while frame.f_back is not None:
        frame = frame.f_back
        _clock.base += 1


def _left() -> float:
    """The processor time that this check has left. Raises TimeoutError when it is over."""
    left: float = _clock.end - time.thread_time()
    if left <= 0:
        raise TimeoutError(f"checking takes more than {_SECONDS:g} seconds")
    return left


@cache
def _bounded(kind: Any) -> Any:
    """A class of validators that cannot run for ever."""
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
                if wanted is False:
                    yield jsonschema.ValidationError(
                        f"{key!r} is a property that the schema does not have"
                    )
                else:
                    yield from validator.descend(value[key], wanted, path=key)

    def unique(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        if wanted and isinstance(value, list):
            told = {json.dumps(_plain(item), sort_keys=True) for item in value}
            if len(told) < len(value):
                yield jsonschema.ValidationError("some items of the array are the same")

    def evolve(validator: Any, **changes: Any) -> Any:
        """Every step into a schema or a reference goes through here; a `$schema` inside must not lead out of this class."""
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
    }
    bounded = jsonschema.validators.extend(kind, own)
    fields = [(a.name, a.alias) for a in bounded.__attrs_attrs__ if a.init]
    bounded.evolve = evolve
    return bounded


def _plain(value: Any) -> Any:
    """A value in which numbers that are equal are written alike: `1.0` is `1` to a schema."""
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
        raise ValueError(f"the pattern {_short(expression)!r} is too large")
    return regex.search(expression, text, timeout=_left()) is not None
