"""Writes definitions of functions as a TypeScript-style namespace, and reads it back without loss.

A definition is `{"type": "function", "function": {"name", "description"?, "parameters"?,
"strict"?}}`. What TypeScript can express is written in TypeScript. The rest follows the type as
JSON in a comment; this adds to the type, or replaces it where the comment is no object. So models
see types as in their other training data, and no schema is lost. Implements section 4 of
grammar/usf_omega/SPEC.md.

>>> import mypt_spec
>>> literals = mypt_spec.dialect("usf-omega").table.literals
>>> count = {"type": "integer", "minimum": 1}
>>> tools = [{"type": "function", "function": {"name": "find", "description": "Finds documents.",
...     "parameters": {"type": "object", "properties": {"count": count}}}}]
>>> print(write_namespace(tools, literals))
namespace functions {
<BLANKLINE>
// Finds documents.
type find = (_: {
  count?: number /* {"type": "integer", "minimum": 1} */,
}) => any;
<BLANKLINE>
} // namespace functions
>>> read_namespace(write_namespace(tools, literals)) == tools
True
"""

import re
from typing import Any

from mypt_spec.bodies.strict_json import DefinitionsError, canonical, faults, strict_value
from mypt_spec.memo import lazy_re

HEAD, TAIL = "namespace functions {\n\n", "} // namespace functions"
FUNCTION_KEYS = ("name", "description", "parameters", "strict")
_NAME = lazy_re(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WORDS = {word: word for word in ("string", "number", "boolean", "null", "object")}
_WORDS |= {"integer": "number", "array": "any[]"}
_BASES = {word: kind for kind, word in _WORDS.items() if kind != "integer"}
_BASE = re.compile(r"any\[\]|string|number|boolean|null|object")
_STRING = re.compile(r'("(?:[^"\\]|\\.)*")')
_TOKEN = lazy_re(rf"{_BASE.pattern}|Array<|any|\{{|{_STRING.pattern}")
_LINE = lazy_re(r"//([^\n]*)\n")
_COMMENT = lazy_re(r"/\*(.*?)\*/", re.DOTALL)


def write_namespace(tools: list[dict[str, Any]], literals: re.Pattern[str]) -> str:
    """Returns the canonical text of definitions; no string in it spells a tag (`literals`)."""
    writer, functions = _Writer(literals), [tool.get("function", tool) for tool in tools]
    return HEAD + "".join(writer.function(one) + "\n\n" for one in functions) + TAIL


def read_namespace(text: str) -> list[dict[str, Any]]:
    """Returns the definitions in a text, which need not be canonical. Raises DefinitionsError."""
    reader = _Reader(text, " \n")
    for word in ("namespace", "functions", "{"):
        reader.take(word)
    tools = reader.functions()
    if next(faults([tools]), None) is not None:  # each string was strict; only depth can be wrong
        raise DefinitionsError("types nest too deep", 0)
    return tools


class _Writer:
    def __init__(self, literals: re.Pattern[str]) -> None:
        self.literals = literals

    def json(self, value: Any) -> str:
        return canonical(value, self.literals)

    def comment(self, value: Any) -> str:
        source = self.json(value).replace("*/", "*\\u002f")
        return f" /* {source} */"

    def name(self, name: str) -> str:
        return name if _NAME.fullmatch(name) else self.json(name)

    def says(self, text: Any) -> bool:
        """Returns whether a description can be written as line comments."""
        return isinstance(text, str) and text != "" and self.literals.search(text) is None

    def lines(self, text: str, pad: str) -> str:
        return "".join(f"{pad}//{' ' * bool(line)}{line}\n" for line in text.split("\n"))

    def function(self, function: dict[str, Any]) -> str:
        others = {k: function[k] for k in FUNCTION_KEYS if k in function and k != "name"}
        head = parameters = ""
        if self.says(others.get("description")):
            head = self.lines(others.pop("description"), "")
        if "parameters" in others:
            parameters = f"_: {self.typed(others.pop('parameters'), '')}"
        comment = self.comment(others) if others else ""
        return f"{head}type {self.name(function['name'])} = ({parameters}) => any{comment};"

    def typed(self, schema: Any, pad: str, *, but: str = "") -> str:
        """Returns a schema as a type; `but` is a key of it that is written elsewhere."""
        if not isinstance(schema, dict):
            return "any" + self.comment(schema)
        text, keys = self.base(schema, pad)
        others = {k: v for k, v in schema.items() if k != but and (k not in keys or keys[k] != v)}
        return text + (self.comment(others) if others else "")

    def base(self, schema: dict[str, Any], pad: str) -> tuple[str, dict[str, Any]]:
        """Returns TypeScript's type for a schema, and the part of the schema that it covers."""
        kind, choices = schema.get("type"), schema.get("enum")
        texts = isinstance(choices, list) and all(isinstance(c, str) for c in choices)
        if kind == "string" and choices and texts:
            return " | ".join(map(self.json, choices)), {"type": kind, "enum": choices}
        if kind == "array" and "items" in schema:
            items = schema["items"]
            return f"Array<{self.typed(items, pad)}>", {"type": kind, "items": items}
        if kind == "object" and isinstance(schema.get("properties"), dict):
            return self.properties(schema, pad)
        kinds: list[Any] = kind if isinstance(kind, list) else [kind]
        several = kinds is kind
        if len(kinds) > several and all(isinstance(k, str) and k in _WORDS for k in kinds):
            bases = [_BASES[_WORDS[k]] for k in kinds]
            return " | ".join(_WORDS[k] for k in kinds), {"type": bases if several else bases[0]}
        return "any", {}

    def properties(self, schema: dict[str, Any], pad: str) -> tuple[str, dict[str, Any]]:
        fields, listed = schema["properties"], schema.get("required")
        names = {f for f in listed if isinstance(f, str)} if isinstance(listed, list) else set()
        required = [f for f in fields if f in names]
        covered = {"type": "object", "properties": fields}
        covered |= {"required": required} if required else {}
        if not fields:
            return "{}", covered
        inner = pad + "  "
        out = ["{\n"]
        for name, field in fields.items():
            description = field.get("description") if isinstance(field, dict) else None
            but = "description" if self.says(description) else ""
            out.append(self.lines(str(description), inner) if but else "")
            mark = "" if name in names else "?"
            out.append(f"{inner}{self.name(name)}{mark}: {self.typed(field, inner, but=but)},\n")
        return "".join([*out, pad, "}"]), covered


class Scanner:
    """A place in a text of TypeScript; `blank` are characters that may stand before each word."""

    def __init__(self, text: str, blank: str = "") -> None:
        self.text, self.at, self.blank = text, 0, blank

    def fail(self, want: str) -> DefinitionsError:
        got = self.text[self.at : self.at + 20]
        return DefinitionsError(f"expected {want}, got {repr(got) if got else 'the end'}", self.at)

    def here(self, literal: str) -> bool:
        """Returns whether a literal comes next, and goes to it."""
        text, at, blank = self.text, self.at, self.blank
        while blank and at < len(text) and text[at] in blank:
            at += 1
        self.at = at
        return text.startswith(literal, at)

    def takes(self, literal: str) -> bool:
        """Returns whether a literal comes next, and goes past it."""
        if not self.here(literal):
            return False
        self.at += len(literal)
        return True

    def take(self, literal: str) -> None:
        if not self.takes(literal):
            raise self.fail(f"`{literal}`" if literal == literal.strip() else repr(literal))

    def match(self, pattern: re.Pattern[str], want: str) -> re.Match[str]:
        """Returns the match of a pattern that comes next, and goes past it."""
        if self.blank:
            self.here("")
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.fail(want)
        self.at = match.end()
        return match

    def function(self) -> dict[str, Any]:
        raise NotImplementedError

    def functions(self) -> list[dict[str, Any]]:
        """Returns the definitions from here to the end of the namespace."""
        out: dict[str, dict[str, Any]] = {}
        try:
            while not self.takes("}"):
                start = self.at
                function = self.function()
                if function["name"] in out:
                    message = f"the function {function['name']!r} is defined twice"
                    raise DefinitionsError(message, start)
                out[function["name"]] = {"type": "function", "function": function}
        except RecursionError:
            raise DefinitionsError("types nest too deep", self.at) from None
        self.take(TAIL[1:].lstrip(self.blank))
        if self.here("") and self.at < len(self.text):
            raise self.fail("the end")
        if not out:
            raise DefinitionsError("no function is defined", 0)
        return [*out.values()]


class _Reader(Scanner):
    def function(self) -> dict[str, Any]:
        description = self.description()
        self.take("type")
        start = self.at
        out: dict[str, Any] = {"name": self.name()}
        self.take("=")
        self.take("(")
        if description is not None:
            out["description"] = description
        if self.takes("_"):
            self.take(":")
            out["parameters"] = self.schema()
        for literal in (")", "=>", "any"):
            self.take(literal)
        others, kinds = self.comment({}), {"description": str, "strict": bool}
        self.take(";")
        fine = isinstance(others, dict) and isinstance(out.get("parameters", {}), dict)
        if not fine or not all(isinstance(v, kinds.get(k, ())) for k, v in others.items()):
            parts = "a name, a description, parameters that are a schema, and strict"
            raise DefinitionsError(f"a function has {parts}", start)
        out |= others
        return {k: out[k] for k in FUNCTION_KEYS if k in out}

    def description(self) -> str | None:
        lines = []
        while self.here("//"):
            lines.append(self.match(_LINE, "a line end")[1].removeprefix(" "))
        return "\n".join(lines) if lines else None

    def name(self) -> str:
        name: str = self.string() if self.here('"') else self.match(_NAME, "a name")[0]
        if not name:
            raise self.fail("a name")
        return name

    def string(self) -> Any:
        return self.value(self.match(_STRING, "a name"))

    def value(self, match: re.Match[str]) -> Any:
        """Returns the JSON in the last group of a match."""
        return strict_value(match[match.re.groups], match.start(match.re.groups))

    def comment(self, schema: dict[str, Any]) -> Any:
        """Returns the schema of a type, with the JSON comment after it taken in."""
        if not self.here("/*"):
            return schema
        value = self.value(self.match(_COMMENT, "`*/`"))
        return schema | value if isinstance(value, dict) else value

    def schema(self) -> Any:
        match = self.match(_TOKEN, "a type")
        word = match[0]
        schema: dict[str, Any]
        if word[0] == '"':
            choices = [self.value(match)]
            while self.takes("|"):
                choices.append(self.string())
            schema = {"type": "string", "enum": choices}
        elif word == "Array<":
            schema = {"type": "array", "items": self.schema()}
            self.take(">")
        elif word == "{":
            schema = self.properties()
        elif word == "any":
            schema = {}
        else:
            kinds = [_BASES[word]]
            while self.takes("|"):
                kinds.append(_BASES[self.match(_BASE, "a type")[0]])
            schema = {"type": kinds if len(kinds) > 1 else kinds[0]}
        return self.comment(schema)

    def properties(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        required = []
        while not self.takes("}"):
            description = self.description()
            quoted, start = self.here('"'), self.at
            name = self.string() if quoted else self.name()
            optional = self.takes("?")
            self.take(":")
            schema = self.schema()
            self.take(",")
            if name in fields:
                raise DefinitionsError(f"the property {name!r} occurs twice", start)
            if description is not None:
                if not isinstance(schema, dict):
                    raise DefinitionsError("a description of what is not an object", start)
                schema = schema | {"description": description}
            fields[name] = schema
            required += [] if optional else [name]
        out = {"type": "object", "properties": fields}
        return out | ({"required": required} if required else {})
