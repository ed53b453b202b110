"""Says in words why a value does not fit a JSON Schema.

Input are errors of the library `jsonschema_rs`, the value and the schema; output are places with
messages. The library's own texts quote values as JSON, and whole ones; these are as short as Python
writes them, and the same as those of the library `jsonschema`, which many users know.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from mypt_spec.bodies.strict_json import escape, shortened

# By the keyword; {0} is the value, {1} what the keyword says. _FEW where that is 0 or 1.
_TEXTS = {
    "type": "{0!r} is not of type {1}",
    "enum": "{0!r} is not one of {1!r}",
    "const": "{1!r} was expected",
    "minimum": "{0!r} is less than the minimum of {1!r}",
    "maximum": "{0!r} is greater than the maximum of {1!r}",
    "exclusiveMinimum": "{0!r} is less than or equal to the minimum of {1!r}",
    "exclusiveMaximum": "{0!r} is greater than or equal to the maximum of {1!r}",
    "multipleOf": "{0!r} is not a multiple of {1!r}",
    "minLength": "{0!r} is too short",
    "maxLength": "{0!r} is too long",
    "minItems": "{0!r} is too short",
    "maxItems": "{0!r} is too long",
    "minProperties": "{0!r} does not have enough properties",
    "maxProperties": "{0!r} has too many properties",
    "uniqueItems": "some items of the array are the same",
    "pattern": "{0!r} does not match {1!r}",
    "format": "{0!r} is not a {1!r}",
    "anyOf": "{0!r} is not valid under any of the given schemas",
    "oneOf": "{0!r} is not valid under any of the given schemas",
    "not": "{0!r} should not be valid under {1!r}",
    "falseSchema": "False schema does not allow {0!r}",
    "required": "{1!r} is a required property",
    "contains": "{0!r} does not contain items matching the given schema",
    "minContains": "Too few items match the given schema (expected at least {1!r})",
    "maxContains": "Too many items match the given schema (expected at most {1!r})",
    "additionalItems": "there are more items than the {1!r} that the schema has",
}
_FEW = {("min", 1): "{0!r} should be non-empty", ("max", 0): "{0!r} is expected to be empty"}
_SIZES = ("Length", "Items", "Properties")
_AS_IS = ("const", "contains", "enum", "not")  # the library sorts their keys
_ANY = "{0!r} does not fit"
_OTHER = "{!r} is a property that the schema does not have"


def misfit_texts(errors: Iterable[Any], value: Any, schema: Any) -> Iterator[tuple[str, str]]:
    """Yields (pointer, message) of each error of a value."""
    for error in errors:
        pointer = "".join("/" + escape(str(step)) for step in error.instance_path)
        item, operand = _at(value, error.instance_path), _at(schema, error.schema_path)
        if error.kind.name == "unevaluatedProperties" and operand is not False:
            for key in error.kind.unexpected:
                yield f"{pointer}/{escape(key)}", f"{key!r} does not fit 'unevaluatedProperties'"
            continue
        for text in _texts(error, item, operand):
            yield pointer, shortened(text)


def _texts(error: Any, item: Any, operand: Any) -> Iterator[str]:
    """Yields the messages of an error. `operand` is what the schema says there, None if unknown."""
    word, kind = str(error.schema_path[-1]) if error.schema_path else "", error.kind
    if kind.name == "propertyNames":
        kind, item = kind.error.kind, kind.error.instance
    name: str = kind.name
    limit: Any = next(iter(kind.as_dict().values()), None)
    if name in ("additionalProperties", "unevaluatedProperties"):
        yield from map(_OTHER.format, limit)
    elif name == "falseSchema" and word == "additionalProperties":
        yield from map(_OTHER.format, item)  # it names no properties
    elif name == "unevaluatedItems":
        yield from (f"{one} is an item that the schema does not have" for one in limit)
    elif name == "oneOf" and [] in limit and isinstance(operand, list):
        first, *more = [one for one, faults in zip(operand, limit, strict=True) if not faults]
        yield f"{item!r} is valid under each of {', '.join(map(repr, [*more, first]))}"
    elif name == "type":
        kinds = operand if isinstance(operand, list) else [operand] if operand else limit[::-1]
        yield f"{item!r} is not of type {', '.join(map(repr, kinds))}"
    elif name == "required" and word != "required" and isinstance(operand, dict):
        key = next((key for key, some in operand.items() if key in item and limit in some), "")
        yield f"{limit!r} is a dependency of {key!r}"
    else:
        few = _FEW.get((name[:3], limit)) if name[3:] in _SIZES else None
        text = few or _TEXTS.get(word if name == "contains" else name, _ANY)
        yield text.format(item, operand if name in _AS_IS and operand is not None else limit)


def _at(value: Any, path: list[str | int]) -> Any:
    """Returns the value at a path, None where it leads nowhere."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value
