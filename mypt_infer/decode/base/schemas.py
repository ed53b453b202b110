"""Reads the schemas of declared tools as engines need them: what binds a value, and nothing else.

Input: ToolSpecs as declared. Output: ToolSpecs without annotations, and Notes: the keywords that
were read as nothing, and the types that were read as JSON Schema's. Lists of tools come from many
sources, and hold keywords of many tools; a keyword that JSON Schema does not define says nothing of
a value, so it must not refuse a list, and a type such as Python's `dict` has a certain meaning.

>>> spec = ToolSpec("t", {"$schema": "x", "properties": {"a": {"enum": [1, 5], "minimum": 2}}})
>>> plain(spec)
(ToolSpec(name='t', schema={'properties': {'a': {'enum': [5]}}}, description=''), Notes())
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_spec.bodies.strict_json import a_kind_of, shortened
from mypt_spec.bodies.type_names import (
    KEYWORDS,
    KINDS,
    SCHEMAS,
    objects,
    standard_types,
    type_notes,
)

_ANNOTATIONS, _FORMATS, _MANY = (KEYWORDS[kind] for kind in ("annotations", "formats", "lists"))
_ONE = SCHEMAS - _MANY | {"items"}  # keywords whose value is a schema
_KEYWORDS = SCHEMAS | KEYWORDS["by_name"] | KEYWORDS["others"]
_SHARED = ("$defs", "definitions")
_MOST_NESTED = 200


class SchemaWarning(UserWarning):
    """Schemas have keywords or types that JSON Schema does not define."""


class Notes(NamedTuple):
    """What schemas have that JSON Schema does not define.

    `ignored` are keywords that were read as nothing; `renamed` are pairs of a type and what was
    read in its place, "" for any value.
    """

    ignored: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        fields = {"ignored": self.ignored, "renamed": self.renamed}
        return f"Notes({', '.join(f'{k}={v!r}' for k, v in fields.items() if v)})"

    def __or__(self, other: Notes) -> Notes:
        ignored, renamed = {*self.ignored, *other.ignored}, {*self.renamed, *other.renamed}
        return Notes(tuple(sorted(ignored)), tuple(sorted(renamed)))

    def text(self, place: str) -> str:
        """Returns what was read otherwise than it stands in some place; "" for nothing."""
        lines = []
        if self.ignored:
            lines.append(
                f"read as nothing in {place}: {', '.join(self.ignored)}; JSON Schema defines no "
                "such keyword, and a member that no value fits is never written"
            )
        if self.renamed:
            types = type_notes(name for name, _ in self.renamed)
            lines.append(
                f"types of other languages in {place}: {types}; write the types of JSON Schema"
            )
        return "; ".join(lines)

    def refusal(self) -> str:
        """Returns why a strict reader refuses the schemas; "" if it does not."""
        if self.ignored:
            names = ", ".join(map(repr, self.ignored))
            return f"{names} would be read as nothing; remove it, or read this without strict"
        types = ", ".join(f"{a!r} would be read as {b or 'any value'}" for a, b in self.renamed)
        return types and f"{types}; write the type of JSON Schema, or read this without strict"


def warn_of(notes: Notes, place: str) -> None:
    """Warns the caller of a caller of what JSON Schema does not define, if there is anything."""
    if notes != Notes():
        warnings.warn(notes.text(place), SchemaWarning, stacklevel=4)


def plain_tools(
    tools: Iterable[ToolSpec], *, strict: bool = False
) -> tuple[tuple[ToolSpec, ...], Notes]:
    """Returns (tools, notes): the tools as engines read them, and what is not of JSON Schema.

    Raises SchemaFault for what is no schema; with `strict`, for such a keyword or type, too.
    """
    plain_tools_read: list[ToolSpec] = []
    notes = Notes()
    for tool in tools:
        plain_tool, notes_of_tool = plain(tool)
        if strict and (refusal := notes_of_tool.refusal()):
            raise SchemaFault(tool.name, "", refusal)
        plain_tools_read.append(plain_tool)
        notes |= notes_of_tool
    return tuple(plain_tools_read), notes


def plain(tool: ToolSpec) -> tuple[ToolSpec, Notes]:
    """Returns a tool whose schema says only what binds a value, and what is not of JSON Schema.

    The values of `enum` and `const` are those that fit the keywords beside them. Raises SchemaFault
    for what is no schema.
    """
    reader = _Reader(tool.name, tool.schema)
    schema = reader.read()
    if schema.get("type", "object") != "object":
        raise SchemaFault(tool.name, "/type", "the arguments of a tool are an object")
    for word in sorted({"const", "enum"}.intersection(schema)):
        raise SchemaFault(tool.name, f"/{word}", "no engine supports a choice of whole arguments")
    return ToolSpec(tool.name, schema, tool.description), reader.notes


def plain_schema(schema: Any, *, strict: bool = False) -> tuple[Any, Notes]:
    """Returns (schema, notes): the schema of a response that says only what binds a value.

    `notes` are about what is not of JSON Schema. Raises SchemaFault for what is no schema; with
    `strict`, for such a keyword or type, too.
    """
    reader = _Reader("response", schema)
    plain_part = reader.read()
    if strict and (refusal := reader.notes.refusal()):
        raise reader.fault("", refusal)
    return plain_part, reader.notes


class _NoValue(SchemaFault):
    """No value fits a part of a schema."""


class _Reader:
    def __init__(self, tool: str, schema: Any) -> None:
        self.tool, self.ignored = tool, set[str]()
        self.root, self.renamed = standard_types(schema)
        root = self.root if isinstance(self.root, Mapping) else {}
        self.shared = {w: root[w] for w in _SHARED if w in root}
        # References may lead anywhere in the schema, so what they name is kept.
        self.kept, self.anchors = _referenced(root)

    @property
    def notes(self) -> Notes:
        """Returns what JSON Schema does not define of what was read."""
        return Notes(tuple(sorted(self.ignored)), tuple(sorted(self.renamed.items())))

    def fault(self, at: str, message: str) -> SchemaFault:
        return SchemaFault(self.tool, at, message)

    def read(self) -> Any:
        """Returns the schema as engines read it. Raises SchemaFault for what is no schema."""
        return self.schema(self.root, "", 0)

    def schema(self, schema: Any, at: str, depth: int) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise self.fault(at, f"expected a schema, an object; got {a_kind_of(schema)}")
        if depth > _MOST_NESTED:
            raise self.fault(at, f"nested more than {_MOST_NESTED} deep")
        out: dict[str, Any] = {}
        for word, value in schema.items():
            here = f"{at}/{word}"
            if (word in self.kept and not at) or word in self.anchors:
                out[word] = value
            if word in _ANNOTATIONS:
                continue
            if word not in _KEYWORDS:
                self.ignored.add(str(word))
            elif word == "format" and value not in _FORMATS:
                self.ignored.add(f"format: {value}")
            elif word in KEYWORDS["by_name"]:
                left_out = schema.get("required", ()) if word == "properties" else None
                out[word] = self.named(value, here, depth, required=left_out)
            elif word in _MANY and isinstance(value, list):
                out[word] = [self.schema(v, f"{here}/{i}", depth + 1) for i, v in enumerate(value)]
            elif word in _ONE:
                out[word] = self.schema(value, here, depth + 1)
            else:
                out[word] = self.checked(word, value, here)
        return self.values(out, at) if "enum" in out or "const" in out else out

    def named(self, value: Any, at: str, depth: int, *, required: Any) -> dict[str, Any]:
        """Returns schemas by name. A member that need not be written and that no value fits is
        `False`: it is never written, also where any member may be that is not named. `required` is
        None for what are no members.
        """
        if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
            raise self.fault(at, f"expected an object of schemas, got {a_kind_of(value)}")
        out = {}
        for key, part in value.items():
            try:
                out[key] = self.schema(part, f"{at}/{key}", depth + 1)
            except _NoValue as fault:
                if required is None or not isinstance(required, list | tuple) or key in required:
                    raise
                out[key] = False
                self.ignored.add(f"{self.tool}{fault.pointer} (no value fits)")
        return out

    def checked(self, word: str, value: Any, at: str) -> Any:
        """Returns the value of a keyword that holds no schema. Raises SchemaFault for a bad one."""
        if word == "required":
            if not isinstance(value, list | tuple) or not all(isinstance(k, str) for k in value):
                problem = f"expected a list of names of arguments, got {_short(value)}; it is "
                raise self.fault(at, f'{problem}beside "properties", not inside one of them')
            return list(dict.fromkeys(value))
        if word == "type":
            kinds = value if isinstance(value, list) else [value]
            if not kinds or len(set(map(str, kinds))) < len(kinds):
                raise self.fault(at, "expected a type, or a list of different ones")
            for kind in kinds:
                if kind not in KINDS:
                    raise self.fault(at, f"{kind!r} is not a type; known are {', '.join(KINDS)}")
        elif word in _MANY:
            raise self.fault(at, f"expected a list of schemas, got {a_kind_of(value)}")
        elif word == "$ref" and not isinstance(value, str):
            raise self.fault(at, f"expected a reference, a string; got {a_kind_of(value)}")
        elif word.startswith(("min", "max", "exclusive", "multiple")) and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise self.fault(at, f"expected a number, got {_short(value)}")
        return value

    def values(self, schema: dict[str, Any], at: str) -> dict[str, Any]:
        """Returns {"enum": ...} or {"const": ...} of the values that fit the keywords beside."""
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        word = "enum" if "enum" in schema else "const"
        if not isinstance(values, list) or not values:
            raise self.fault(f"{at}/enum", "expected a list of values that is not empty")
        try:
            json.dumps(values, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise self.fault(f"{at}/{word}", f"a value is not a JSON value: {error}") from None
        beside = {w: v for w, v in schema.items() if w != word and w not in _SHARED}
        fit = [v for v in values if not beside or self.fits(v, beside, at)]
        if not fit:
            others = ", ".join(map(repr, beside))
            problem = f"no value fits what is beside it ({others}): {_short(values[0])} does not"
            raise _NoValue(self.tool, f"{at}/{word}", problem)
        shared_parts = {w: schema[w] for w in _SHARED if w in schema}
        return {**shared_parts, **({"const": fit[0]} if word == "const" else {"enum": fit})}

    def fits(self, value: Any, schema: Mapping[str, Any], at: str) -> bool:
        from mypt_spec.bodies.json_schema import SchemaError, misfits

        if set(schema) == {"type"} and isinstance(value, str):
            return "string" in schema["type"]
        try:
            return not misfits(value, {**self.shared, **schema})
        except SchemaError as error:
            raise self.fault(f"{at}{error.pointer}", str(error)) from None


def has_free_object(schema: Any) -> bool:
    """Returns whether a schema of arguments says that members are meant which it does not name.

    It does so by `additionalProperties`, or by an object without any property. Where a schema says
    nothing, arguments that it does not name are never written: a tool takes those that it names.
    """
    is_free = schema.get("additionalProperties", False) is not False
    return is_free or any(map(_free, schema.get("properties", {}).values()))


def _free(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or "enum" in schema or "const" in schema:
        return False
    additional = "object" in schema.get("type", ()) and schema.get("additionalProperties")
    parts = [*schema.get("properties", {}).values(), schema.get("items")]
    unsaid = additional is None and not schema.get("properties")
    return unsaid or (additional is not None and additional is not False) or any(map(_free, parts))


def letters_of_values(schema: Any) -> int:
    """Returns the letters of all values that a schema lists.

    >>> letters_of_values({"properties": {"a": {"enum": ["bees", "wasps"]}, "b": {"enum": [1]}}})
    10
    """
    lists = [part["enum"] for part in objects(schema) if isinstance(part.get("enum"), list)]
    return sum(len(str(value)) for values in lists for value in values)


_ANCHORS = frozenset({"$anchor", "$id", "$schema", "id"})


def _referenced(schema: Any) -> tuple[set[str], frozenset[str]]:
    """Returns what references need: keywords at the top of the schema, and the names of parts."""
    referenced, anchors = set(), frozenset[str]()
    for part in objects(schema):
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            referenced.add(reference.split("/")[1])
        elif isinstance(reference, str) and reference != "#":
            anchors = _ANCHORS
    return referenced - _KEYWORDS, anchors


def _short(value: Any) -> str:
    return shortened(repr(value), 60)
