"""Reads declared tools: schemas in OpenAI's or MCP's style, or Python functions with type hints.

Input: whatever a caller declares. Output: ToolSpecs, which the decoder, the prompt and the toolbox
share. What engines read of their schemas, `schemas` says.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

_PYTHON = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
# Where a schema of arguments is found: in OpenAI's style, in MCP's and in Anthropic's.
_SCHEMAS = ("parameters", "inputSchema", "input_schema")


class SchemaFault(ValueError):
    """A tool cannot be declared; says which tool, the JSON pointer into its schema, and why."""

    def __init__(self, tool: str, pointer: str, message: str) -> None:
        super().__init__(f"tool {tool!r}{f' at {pointer}' if pointer else ''}: {message}")
        self.tool, self.pointer, self.reason = tool, pointer, message


class ToolSpec(NamedTuple):
    """A tool. `schema` is the JSON Schema of its arguments, an object.

    Where tables hold no other order, arguments are written in that of `properties`.
    """

    name: str
    schema: Mapping[str, Any]
    description: str = ""

    @property
    def properties(self) -> dict[str, Any]:
        return dict(self.schema.get("properties", {}))

    @property
    def required(self) -> frozenset[str]:
        return frozenset(self.schema.get("required", ()))


Declaration = ToolSpec | Mapping[str, Any] | Callable[..., Any]


def declare(tools: Iterable[Declaration]) -> tuple[ToolSpec, ...]:
    """Returns the tools as ToolSpecs.

    Raises SchemaFault for a bad declaration, and for a name that is declared twice.

    >>> def add(a: int, b: int = 0) -> int:
    ...     "Add two numbers."
    >>> declare([add])[0].schema["properties"]
    {'a': {'type': 'integer'}, 'b': {'type': 'integer'}}
    """
    if isinstance(tools, (str, bytes, Mapping)) or callable(tools):
        raise SchemaFault("?", "", f"tools must be a list of tools, got {type(tools).__name__}")
    specs = tuple(
        t
        if isinstance(t, ToolSpec)
        else _from_schema(t)
        if isinstance(t, Mapping)
        else _from_function(t)
        for t in tools
    )
    for i, tool in enumerate(specs):
        if tool.name in [t.name for t in specs[:i]]:
            raise SchemaFault(tool.name, "", "declared twice")
    return specs


def _from_schema(declaration: Mapping[str, Any]) -> ToolSpec:
    function = declaration.get("function", declaration)
    if not isinstance(function, Mapping) or declaration.get("type", "function") != "function":
        problem = 'expected {"type": "function", "function": {"name": ..., "parameters": {...}}}'
        raise SchemaFault(str(declaration.get("name", "?")), "", problem)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaFault(repr(name), "/name", "a tool needs a name, a string that is not empty")
    schemas = {w: function[w] for w in _SCHEMAS if function.get(w) is not None}
    where, schema = next(iter(schemas.items()), ("", {"type": "object", "properties": {}}))
    if any(other != schema for other in schemas.values()):
        raise SchemaFault(name, "", f"{' and '.join(schemas)} differ: keep one of them")
    if not isinstance(schema, Mapping):
        problem = f"expected a JSON Schema of an object, got {type(schema).__name__}"
        raise SchemaFault(name, f"/{where}", problem)
    return ToolSpec(name, schema, str(function.get("description") or ""))


def _from_function(function: Any) -> ToolSpec:
    name = getattr(function, "__name__", None)
    if not callable(function) or name is None:
        problem = "expected a JSON schema, a ToolSpec, or a function with type hints"
        raise SchemaFault(repr(function), "", problem)
    hints = get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            problem = "no *args, **kwargs or positional-only parameters"
            raise SchemaFault(name, f"/{key}", f"arguments are passed by name: {problem}")
        if key not in hints:
            raise SchemaFault(name, f"/{key}", "needs a type hint")
        properties[key] = _of_hint(hints[key], name, key)
        if parameter.default is parameter.empty:
            required.append(key)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return ToolSpec(name, schema, inspect.getdoc(function) or "")


def _of_hint(hint: Any, tool: str, key: str) -> dict[str, Any]:
    if hint in _PYTHON:
        return {"type": _PYTHON[hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list and len(arguments) == 1:
        return {"type": "array", "items": _of_hint(arguments[0], tool, key)}
    if origin in (Union, types.UnionType):
        parts = [_of_hint(a, tool, key) for a in arguments]
        if all(set(p) == {"type"} and isinstance(p["type"], str) for p in parts):
            return {"type": [p["type"] for p in parts]}
    problem = f"the type hint {hint!r} has no schema here; give the tool as a JSON schema"
    raise SchemaFault(tool, f"/{key}", problem)
