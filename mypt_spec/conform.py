"""JSON values against JSON Schemas. Total, and without network: a reference to another document is a fault of the schema.

The library `jsonschema` does the work; it is loaded when a schema is first met. Its regular expressions and references are
bounded here, because a schema is data, and data must not be able to stop the linter.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from mypt_spec.jsonvalue import escape

MAX_MISFITS = 5  # named for one value
_STEPS = 20_000  # references followed for one value: a few in a small schema can mean billions
_SECONDS = 0.5  # for one regular expression
_count = threading.local()


class SchemaError(ValueError):
    """Why a schema cannot be used; `pointer` is the place in it. `in_use`: only a value showed it."""

    def __init__(self, message: str, pointer: str = "", *, in_use: bool = False) -> None:
        super().__init__(message)
        self.pointer, self.in_use = pointer, in_use


def check_schema(schema: Any) -> None:
    """Raises SchemaError for what is no JSON Schema."""
    fault = _fault(json.dumps(schema))
    if fault is not None:
        raise SchemaError(*fault)


def misfits(value: Any, schema: Any) -> list[tuple[str, str]]:
    """Where a value does not fit a schema: pointers and messages, at most MAX_MISFITS. Raises SchemaError."""
    check_schema(schema)
    _count.steps = 0
    found = []
    try:
        for error in _validator(json.dumps(schema)).iter_errors(value):
            found.append((_pointer(error.absolute_path), _short(error.message)))
            if len(found) == MAX_MISFITS:
                break
    except RecursionError:
        raise SchemaError("it refers to itself without end, or nests too deep", in_use=True) from None
    except Exception as error:  # a reference that leads nowhere, arithmetic on huge numbers: the schema's fault, not ours
        raise SchemaError(_short(str(error)), in_use=True) from None
    return sorted(found)


def _pointer(path: Any) -> str:
    return "".join("/" + escape(str(step)) for step in path)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


@lru_cache(maxsize=1024)
def _fault(source: str) -> tuple[str, str] | None:
    import jsonschema

    if '"unevaluatedProperties": ' in source and '"patternProperties": ' in source:
        return "unevaluatedProperties beside patternProperties is not supported", ""  # the library would not bound it
    schema = json.loads(source)
    try:
        jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        return _short(error.message), _pointer(error.absolute_path)
    except RecursionError:
        return "it nests too deep", ""
    except Exception as error:
        return _short(str(error)), ""
    return None


@lru_cache(maxsize=1024)
def _validator(source: str) -> Any:
    import jsonschema
    from referencing import Registry

    schema = json.loads(source)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return _bounded(kind)(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


@cache
def _bounded(kind: Any) -> Any:
    """A class of validators that cannot run for ever."""
    import jsonschema

    def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and not _matches(wanted, value):
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: dict[str, Any], value: Any, schema: Any) -> Iterator[Any]:
        for expression, inner in wanted.items() if isinstance(value, dict) else ():
            for key in [k for k in value if _matches(expression, k)]:
                yield from validator.descend(value[key], inner, path=key, schema_path=expression)

    def additional(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        known, expressions = schema.get("properties", {}), schema.get("patternProperties", {})
        for key in value if isinstance(value, dict) else ():
            if key not in known and not any(_matches(e, key) for e in expressions):
                if wanted is False:
                    yield jsonschema.ValidationError(f"{key!r} is a property that the schema does not have")
                else:
                    yield from validator.descend(value[key], wanted, path=key)

    def bounded(follow: Any) -> Any:
        def reference(validator: Any, ref: str, value: Any, schema: Any) -> Iterator[Any]:
            _count.steps += 1
            if _count.steps > _STEPS:
                raise TimeoutError(f"more than {_STEPS} references are followed")
            yield from follow(validator, ref, value, schema) or ()

        return reference

    own = {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional}
    own |= {name: bounded(kind.VALIDATORS[name]) for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in kind.VALIDATORS}
    return jsonschema.validators.extend(kind, own)


def _matches(expression: str, text: str) -> bool:
    import regex

    return regex.search(expression, text, timeout=_SECONDS) is not None
