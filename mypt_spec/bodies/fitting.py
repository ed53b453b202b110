"""Proves that arguments fit the declared parameters of their tools, in little time.

Input are definitions of tools, and the arguments of calls. Output: whether `json_schema.misfits`
finds nothing in them; "not proved" is no fault. Arguments of few calls are proved by what
`plain_schema` knows of most schemas. Those of many calls are proved together by a type that msgspec
makes of a schema, which costs as much as some twenty of the other proofs. What is left is put
before the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import repeat
from operator import or_
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mypt_spec.bodies.definitions import parameters_of
from mypt_spec.bodies.json_schema import SchemaError, misfits, undeclared
from mypt_spec.bodies.plain_schema import written
from mypt_spec.bodies.tagged import NAMES

_MANY = 20  # calls of a tool for which a type is made
# What has no say in whether a value fits.
_SAID = frozenset({"title", "description", "default", "examples", "nullable", "deprecated"})
_TYPED = _SAID | {"type"}
_KNOWN = _TYPED | {
    "additionalProperties", "enum", "items", "maxItems", "maxLength", "maximum", "minItems",
    "minLength", "minimum", "properties", "required",
}  # fmt: skip
_KIND: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
_scalar = {kind: said for kind, said in _KIND.items() if kind not in (list, dict)}.get
_NONE, _ANY = frozenset[str](), frozenset(_KIND.values())
_STRING = frozenset({"string"})
_JSON = "tfnNI"  # letters with which a text that is JSON may begin
Given = Sequence[dict[str, Any]]


class Fitting:
    """The parameters of one list of tools, as JSON or as structs; belongs to one thread.

    `plain` are those that `plain_schema.plain_tools` returns of them, if any.
    """

    __slots__ = ("plain", "tools", "types")  # many are kept

    def __init__(self, tools: Any, plain: dict[str, Any]) -> None:
        self.tools, self.plain = tools, plain
        self.types: dict[str, Any] | None = None  # None where a schema has no such type

    def proves(self, called: Sequence[str], given: Given) -> bool:
        """Returns whether the arguments of calls fit their tools; those of an unknown tool do."""
        if len(given) < _MANY:
            schemas = [self.plain.get(name, False) for name in called]
            if all(map(fits, given, schemas)):
                return True
        return all(self._proves(name, some) for name, some in by_tool(called, given).items())

    def _proves(self, name: str, given: Given) -> bool:
        """Returns whether the arguments of calls of one tool fit."""
        kind = self.types and self.types.get(name)
        if kind is not None and _are_of(kind, given):
            return True
        if len(given) < _MANY and all(map(fits, given, repeat(self.plain.get(name, False)))):
            return True
        raw = self.tools if isinstance(self.tools, bytes) else written(self.tools)
        schema = parameters_of(listed(raw)).get(name)
        if schema is None:
            return True
        self.types = self.types or {}
        if len(given) >= _MANY and name not in self.types:
            kind = self.types[name] = _type_of(schema)
            if kind is not None and _are_of(kind, given):
                return True
        try:
            return not any(misfits(one, schema) or undeclared(one, schema) for one in given)
        except SchemaError:  # the checker says why
            return False


def by_tool(called: Sequence[str], given: Given) -> Mapping[str, Given]:
    """Returns the arguments of calls by the names of their tools."""
    if len({*called}) == 1:
        return {called[0]: given}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in called}
    for name, one in zip(called, given, strict=True):
        found[name].append(one)
    return found


def come_back(given: Given, schema: Any) -> bool:
    """Returns whether arguments are proved to come back from a body "tagged" as they are.

    `schema` is a plain one. That no string in them spells a tag is for the caller to know.
    """
    known = {} if schema is None or schema is UNSET else schema.properties
    kinds = {} if known is UNSET else {key: _kinds(inner) for key, inner in known.items()}
    for one in given:
        for key, value in one.items():
            some = kinds.get(key, _ANY)
            if len(some) == 1 or "string" not in some:
                fine = some == _STRING if value.__class__ is str else some != _STRING and bool(some)
            elif value.__class__ is str:
                fine = "string" in some and value[:1].isalpha() and value[0] not in _JSON
            else:
                fine = value.__class__ in (int, bool) and _KIND[value.__class__] in some
            if not fine or not NAMES.fullmatch(key):
                return False
    return True


def _kinds(schema: Any) -> frozenset[str]:
    """Returns the types that a plain schema takes; none where it is not said by "type" alone."""
    said = schema.type
    if said is UNSET or not schema.anyOf is schema.oneOf is schema.allOf is UNSET:
        return _NONE
    some = frozenset((said,) if said.__class__ is str else said)
    return some if schema.enum is UNSET or some == _STRING else _NONE


def listed(raw: bytes) -> list[Any]:
    """Returns the definitions in JSON, or in JSON of a text that is JSON; none if it is no list."""
    try:
        tools = msgspec.json.decode(raw)
        tools = msgspec.json.decode(tools) if isinstance(tools, str) else tools
    except (ValueError, RecursionError):
        return []
    return tools if isinstance(tools, list) else []


def fits(given: dict[str, Any], schema: Any) -> bool:
    """Returns whether the arguments of a call are proved to fit the plain schema of their tool.

    Most are words and numbers of which a schema says only the type, or the choices: these are
    looked at here, as a call for each takes longer than the look.
    """
    if schema.__class__ is bool or schema is UNSET:
        return _fits(given, schema)
    known, needed, other = schema.properties, schema.required, schema.additionalProperties
    if other is UNSET and known is not UNSET and not given.keys() <= known.keys():
        return False  # `undeclared` knows
    if schema.type != "object":
        return _fits(given, schema)
    if known is UNSET or not schema.enum is schema.anyOf is schema.oneOf is schema.allOf is UNSET:
        return _fits(given, schema)
    if needed is not UNSET and not given.keys() >= needed:
        return False
    for key, value in given.items():
        of = known.get(key, other)
        if of is not other and of.type == _scalar(type(value)) and (
            of.format is of.anyOf is of.oneOf is of.allOf
            is of.minLength is of.maxLength is of.minimum is of.maximum
            is of.exclusiveMinimum is of.exclusiveMaximum is UNSET
        ) and (of.enum is UNSET or (type(value) is str and value in of.enum)):  # fmt: skip
            continue
        if not _fits(value, of):
            return False
    return True


def _fits(value: Any, schema: Any) -> bool:
    """Returns whether a value is proved to fit a plain schema, or one that is UNSET or a bool."""
    if schema is UNSET or schema is True:
        return True
    if schema is False:
        return False
    kind, wanted = _KIND.get(value.__class__, ""), schema.type
    if wanted != kind and wanted is not UNSET:
        some = (wanted,) if wanted.__class__ is str else wanted
        if kind not in some and not (kind == "integer" and "number" in some):
            return False
    if schema.enum is not UNSET and (kind != "string" or value not in schema.enum):
        return False
    if not schema.anyOf is schema.oneOf is schema.allOf is UNSET:
        return False
    if kind == "string":
        within = _within(len(value), schema.minLength, schema.maxLength)
        return within and schema.format is UNSET
    if kind == "object":
        return _fits_object(value, schema)
    if kind == "array":
        within = _within(len(value), schema.minItems, schema.maxItems)
        return (
            within
            and schema.uniqueItems is not True
            and all(map(_fits, value, repeat(schema.items)))
        )
    if kind in ("integer", "number"):
        strict = schema.exclusiveMinimum is schema.exclusiveMaximum is UNSET
        return strict and _within(value, schema.minimum, schema.maximum)
    return bool(kind)


def _fits_object(value: dict[str, Any], schema: Any) -> bool:
    if schema.required is not UNSET and not schema.required <= value.keys():
        return False
    known, other = schema.properties, schema.additionalProperties
    if known is UNSET:
        return other is UNSET or all(map(_fits, value.values(), repeat(other)))
    of = map(known.get, value, repeat(other))
    return all(map(_fits, value.values(), of))


def _within(size: float, least: Any, most: Any) -> bool:
    return (least is UNSET or least <= size) and (most is UNSET or size <= most)


def _are_of(kind: Any, given: Given) -> bool:
    """Returns whether all arguments are of a type."""
    try:
        msgspec.convert(given, list.__class_getitem__(kind))
    except (ValueError, TypeError, RecursionError, OverflowError):
        return False
    return True


class _Unproved(Exception):
    """No type says what a schema says."""


def _type_of(schema: Any) -> Any:
    """Returns a type whose values fit a schema; None where none proves enough."""
    try:
        closed = {"additionalProperties": False} if "properties" in schema else {}
        found = _typed(closed | schema)
        msgspec.convert([], list.__class_getitem__(found))  # some unions have no decoder
    except (_Unproved, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    return found


def _typed(schema: Any) -> Any:
    """Returns what `_type_of` does. Raises _Unproved, or anything else for what is no schema."""
    if schema is True:
        return Any
    if schema.__class__ is not dict or not schema.keys() <= _KNOWN:
        raise _Unproved
    wanted = schema.get("type")
    if "enum" in schema:
        fine = wanted in (None, "string") and schema.keys() <= _TYPED | {"enum"}
        if not fine or not all(isinstance(word, str) for word in schema["enum"]):
            raise _Unproved
        return Literal.__getitem__(tuple(schema["enum"]))
    if wanted is None:
        if schema.keys() <= _SAID:
            return Any
        raise _Unproved
    some = wanted if isinstance(wanted, list) else [wanted]
    return reduce(or_, [_typed_as(kind, schema) for kind in some])


def _typed_as(kind: str, schema: dict[str, Any]) -> Any:
    """Returns the type of the values of one kind that fit a schema."""

    def bound(of: Any, **keys: str) -> Any:
        said = {name: schema[key] for name, key in keys.items() if key in schema}
        made: Any = Annotated
        return made[of, msgspec.Meta(**said)] if said else of

    if kind == "string":
        return bound(str, min_length="minLength", max_length="maxLength")
    if kind in ("integer", "number"):
        return bound(int if kind == "integer" else float, ge="minimum", le="maximum")
    if kind == "array":
        of = list.__class_getitem__(_typed(schema.get("items", True)))
        return bound(of, min_length="minItems", max_length="maxItems")
    if kind == "object":
        return _typed_object(schema)
    return {"boolean": bool, "null": None}[kind]


def _typed_object(schema: dict[str, Any]) -> Any:
    known, needed = schema.get("properties", {}), set(schema.get("required", ()))
    other = schema.get("additionalProperties", True)
    if not needed <= known.keys() or (known and not isinstance(other, bool)):
        raise _Unproved
    if not known and other is not False:
        return dict.__class_getitem__((str, _typed(other)))
    fields: list[Any] = [
        (f"x{i}", _typed(inner), msgspec.field(name=key))
        if key in needed
        else (f"x{i}", _typed(inner) | UnsetType, msgspec.field(name=key, default=UNSET))
        for i, (key, inner) in enumerate(known.items())
    ]
    return msgspec.defstruct(
        "Arguments", fields, forbid_unknown_fields=other is False, gc=False, kw_only=True
    )
