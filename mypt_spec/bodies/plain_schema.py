"""Proves definitions of tools, and their schemas, right without looking at them in Python.

Input: JSON. Output: the definitions, if they are of the types below, which say a part of what JSON
Schema allows: the part that definitions of tools use. What is not of them may be right, too;
`json_schema.check_schema` knows. msgspec does the work while it decodes.

A key that these types do not have is refused, lists without repeats are sets here, and schemas nest
`_DEPTH` deep, no deeper: so what is of the types, and keeps all its strings, is a JSON Schema.

>>> tool = '[{"name": "f", "parameters": {"type": "%s"}}]'
>>> [plain_tools((tool % kind).encode()) is not None for kind in ("object", "dict")]
[True, False]
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType, defstruct

_DEPTH = 5  # of schemas in schemas
SAFE = 1 << 53  # integers from here on are no plain ones
_Integer = Annotated[int, Meta(gt=-SAFE, lt=SAFE)]
_Float = Annotated[float, Meta(gt=-SAFE, lt=SAFE)]
# Decoders of lists of definitions; definitions, and parameters.
Decoders: TypeAlias = tuple[Callable[[bytes], Any], ...]
Definitions: TypeAlias = tuple[Any, dict[str, Any]]
Scalar: TypeAlias = str | _Integer | _Float | bool | None
_Count = Annotated[int, Meta(ge=0, lt=SAFE)]
_Word = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_encode = msgspec.json.Encoder().encode


def nested(depth: int, scalar: Any = Scalar) -> Any:
    """Returns the type of JSON values that nest so deep, by default plain ones."""
    kind: Any = scalar
    for _ in range(depth):
        kind = scalar | list[kind] | dict[str, kind]
    return kind


def arguments(depth: int) -> Any:
    """Returns the type of plain JSON objects whose values nest so deep."""
    kind: Any = nested(depth)
    return dict[str, kind]


@cache
def _schema() -> Any:
    number: Any = _Integer | _Float
    count: Any = _Count
    default: Any = nested(2)
    fields: dict[str, Any] = {
        "type": _Word | Annotated[set[_Word], Meta(min_length=1)],
        **dict.fromkeys(("title", "description", "format"), str),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), number),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), count),
        **dict.fromkeys(("uniqueItems", "nullable"), bool),
        "default": default,
        "enum": list[Scalar],
        "examples": list[default],
        "required": set[str],
    }
    inner: Any = None
    for _ in range(_DEPTH):
        # The innermost say nothing of what is in values, so these keys are never there.
        never = ("items", "properties", "anyOf", "oneOf", "allOf")
        extra: dict[str, Any] = {"additionalProperties": bool, **dict.fromkeys(never, UnsetType)}
        if inner is not None:
            extra = {"items": inner, "properties": dict[str, inner]}
            extra["additionalProperties"] = bool | inner
            extra |= dict.fromkeys(("anyOf", "oneOf", "allOf"), several(inner))
        inner = struct("Schema", fields | extra)
    return inner


def parts() -> dict[str, Any]:
    """Returns the types of what a plain schema may have, by key."""
    return {field.name: field.type for field in msgspec.structs.fields(_schema())}


def struct(name: str, fields: dict[str, Any], needed: tuple[str, ...] = (), **options: Any) -> Any:
    """Returns the type of objects with only these keys, some `needed`; `options` are msgspec's."""
    members: list[Any] = [
        (key, kind) if key in needed else (key, kind | UnsetType, UNSET)
        for key, kind in fields.items()
    ]
    return defstruct(name, members, forbid_unknown_fields=True, gc=False, kw_only=True, **options)


def decoders(name: Any, description: Any, parameters: Any) -> Decoders:
    """Returns decoders of lists of definitions, wrapped and bare, by the types of their fields."""
    fields = {"name": name, "description": description, "parameters": parameters, "strict": bool}
    bare = struct("Function", fields, ("name",))
    wrapped = struct("Tool", {"function": bare, "type": Literal["function"]}, ("function",))
    return tuple(msgspec.json.Decoder(several(kind)).decode for kind in (wrapped, bare))


def several(kind: Any) -> Any:
    """Returns the type of lists of values of a type, of one at least."""
    return Annotated[list[kind], Meta(min_length=1)]


@cache
def _decoders() -> Decoders:
    return decoders(str, str, _schema())


def plain_tools(raw: bytes) -> Definitions | None:
    """Returns definitions of tools, and the parameters of each by its name.

    These are schemas with a field for each key, or UNSET. None for definitions that are not plain.
    They are for `written`. Strings that are lost there were repeated: the caller counts them.
    """
    return decoded(raw, _decoders())


def decoded(raw: bytes, some: Decoders) -> Definitions | None:
    """Returns definitions, each with another name, by the first decoder that takes them."""
    for decode in some:
        try:
            tools = decode(raw)
        except (ValueError, RecursionError):
            continue
        return by_name(tools)
    return None


def by_name(tools: Any) -> Definitions | None:
    """Returns definitions that a decoder took, if each has another name."""
    functions = [tool.function for tool in tools] if hasattr(tools[0], "function") else tools
    parameters = {function.name: function.parameters for function in functions}
    return (tools, parameters) if len(parameters) == len(tools) and "" not in parameters else None


def written(value: Any) -> bytes:
    """Returns a JSON value, in which plain definitions may be, as JSON."""
    return _encode(value)
