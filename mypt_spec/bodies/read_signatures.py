"""Reads the TypeScript that `signatures` writes back into definitions of functions.

Input is text as openai-harmony writes it; output are definitions, each schema in the one form that
the text can say. Nothing in the text is escaped, and a description may go on over lines without
`//`, so what is read is proved: written again, it must be the text.

>>> read_signatures("type f = (_: {\\nn?: number, // default: 1\\n}) => any;\\n\\n} // namespace functions")
[{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', 'properties': {'n': {'type': 'number', 'default': 1}}}}}]
"""  # noqa: E501

import re
from typing import Any

from mypt_spec.bodies.signatures import default_of, write_signatures
from mypt_spec.bodies.strict_json import DefinitionsError, Fault, faults, loads
from mypt_spec.bodies.typescript import Scanner
from mypt_spec.memo import lazy_re
from mypt_spec.patch import in_common

_TYPE = r'(?:string|number|boolean|any|array|object|null)\b|Array<any>|"|\{\n| *// |\n *(?: \||,\n)'
_FUNCTION = lazy_re(r"type (\S+) = \(")
_CHOICE = lazy_re(r'"(.*?)"(?= \| "| \| null|\[\]|,|\)| //|\n|$)')
_WORD = lazy_re(r"Array<any>|(?:string|number|boolean|array|object|null|any)(?![a-z])")
_KINDS = ("string", "number", "boolean", "array", "object", "null")
_DEFAULT = lazy_re(r"(?:(.*) )?default: (.+)", re.DOTALL)


def read_signatures(text: str) -> list[dict[str, Any]]:
    """Returns the definitions in a text, from the first one to the end of the namespace.

    Raises DefinitionsError where the text is not as `write_signatures` writes it.
    """
    tools = _Reader(text).functions()
    again = write_signatures(tools)
    if again != text:
        at = in_common(again, text)
        raise DefinitionsError("these types can be read in several ways", at)
    if next(faults(tools), None) is not None:
        raise DefinitionsError("types nest too deep", 0)
    return tools


class _Reader(Scanner):
    def until(self, pattern: str, want: str) -> str:
        """Returns the text before the next match of a pattern, and goes there."""
        match = re.compile(pattern).search(self.text, self.at)
        if match is None:
            raise self.fail(want)
        begin, self.at = self.at, match.start()
        return self.text[begin : self.at]

    def function(self) -> dict[str, Any]:
        lines = []
        while self.takes("// "):
            lines.append(self.until("\n", "a line end"))
            self.at += 1
        head = self.match(_FUNCTION, "`// ` or `type name = (`")
        out: dict[str, Any] = {"name": head[1]}
        if lines:
            out["description"] = "\n".join(lines) + "\n" * (lines[-1] == "")
        if self.takes("_: "):
            out["parameters"] = self.schema("")
        self.take(") => any;\n\n")
        return out

    def schema(self, pad: str) -> dict[str, Any]:
        """Returns the type that begins here; `pad` is the white space before its inner lines."""
        out: dict[str, Any]
        if self.here(f"\n{pad} | "):
            choices = []
            while self.takes(f"\n{pad} | "):
                end = rf"\n{pad} \| |\) => any;|,\n|\n{pad[:-3]},\n"
                choices.append(self.choice(pad + "   ", end, inner=True))
            return {"oneOf": choices}
        if self.here("{\n") or self.here(f"{pad}// "):
            out = self.object(pad)
        elif self.here('"'):
            out = {"type": "string", "enum": self.choices()}
        else:
            out = self.word()
        while self.takes("[]"):
            out = {"type": "array", "items": out}
        if not isinstance(out.get("type"), list) and self.takes(" | null"):
            out["nullable"] = True
        return out

    def choices(self) -> list[str]:
        out = [self.match(_CHOICE, "a choice in quotes")[1]]
        while self.here(' | "') and self.takes(" | "):
            out.append(self.match(_CHOICE, "a choice in quotes")[1])
        return out

    def word(self) -> dict[str, Any]:
        words = [self.match(_WORD, "a type")[0]]
        while words[-1] in _KINDS and self.takes(" | "):
            words.append(self.match(_WORD, "a type")[0])
        if words[-1] not in _KINDS:
            return {"type": "array"} if words[-1] != "any" else {}
        plain = len(words) == 1 and words[0] in _KINDS[:3]
        return {"type": words[0] if plain else words}

    def object(self, pad: str) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "object"}
        if self.takes(f"{pad}// "):
            out["description"] = self.until(r"\n\{\n", "the end of a description")
            self.at += 1
        self.take("{\n")
        fields: dict[str, Any] = {}
        required = []
        while not self.takes(f"{pad}}}"):
            name, optional, field = self.field(pad)
            if name in fields:
                raise self.fail(f"another field than {name!r}, which occurs twice")
            fields[name] = field
            required += [] if optional else [name]
        return out | {"properties": fields} | ({"required": required} if required else {})

    def field(self, pad: str) -> tuple[str, bool, dict[str, Any]]:
        """Returns (name, whether it is optional, its schema), with the comments around it."""
        begin = self.at
        commented = self.here(f"{pad}//")
        name = r"(?!\s|//)[^\n:?]+?" if commented else r"(?!\s)[^\n]+?"
        match = re.compile(rf"^{pad}({name})(\??):(?: (?={_TYPE})|(?=\n))", re.MULTILINE).search(
            self.text, self.at
        )
        if match is None or (not commented and match.start() != begin):
            raise self.fail("a field or its description")
        notes = self.comments(self.text[begin : match.start()], pad)
        self.at = match.end()
        if self.text[self.at - 1] == ":":
            self.at += 1
            field = self.several(pad, notes)
        else:
            field = _listed(self.schema(pad + "    "))
            if "description" in field and "description" not in notes:
                raise self.fail("a description before the field")
            field |= notes
            self.take(",")
            if self.takes(" // default: "):
                field["default"] = self.default(self.until("\n", "a line end"), field)
            self.take("\n")
        return match[1], bool(match[2]), field

    def comments(self, text: str, pad: str) -> dict[str, Any]:
        """Returns title, description and examples in the comments before a field."""
        out: dict[str, Any] = {}
        title = re.match(rf"{pad}// ((?:.*\n)+?){pad}//\n", text)
        if title is not None:
            out["title"] = title[1][:-1]
            text = text[title.end() :]
        examples = re.search(rf'{pad}// Examples:\n((?:{pad}// - ".*"\n)+)$', text)
        if examples is not None:
            quoted = examples[1].split("\n")[:-1]
            values = [line[len(pad) + 6 : -1] for line in quoted]
            text = text[: examples.start()]
        if text:
            out["description"] = text[len(pad) + 3 : -1]
        if examples is not None:
            out["examples"] = values
        return out

    def several(self, pad: str, notes: dict[str, Any]) -> dict[str, Any]:
        """Returns a field of several types. Its description may come after the examples."""
        begin = notes.get("description", "")
        lines = re.match(rf'Examples:\n((?:{pad}// - ".*"(?:\n|$))+)', begin)
        if lines is not None:
            notes["examples"] = [line[len(pad) + 6 : -1] for line in lines[1].split("\n") if line]
            begin = begin[lines.end() + len(pad) + 3 :]
        notes.pop("description", None)
        default = re.search(rf"(?:^|\n{pad}// )default: (.*)$", begin, re.DOTALL)
        text = begin if default is None else begin[: default.start()]
        field: dict[str, Any] = dict(notes) | ({"description": text} if text else {})
        field["oneOf"] = []
        while self.takes(f"{pad} | "):
            choice = self.choice(pad + "   ", rf"\n{pad} \| |\n{pad},\n", inner=False)
            field["oneOf"].append(choice)
            self.take("\n")
        self.take(f"{pad},\n")
        if default is not None:
            field["default"] = self.default(default[1], field)
        return field

    def choice(self, pad: str, end: str, *, inner: bool) -> dict[str, Any]:
        """Returns one of several types, with the comment after it, which goes on to `end`."""
        out = self.schema(pad)
        if self.takes(" // "):
            text = self.until(end, "the end of a comment")
            match = _DEFAULT.fullmatch(text)
            if match is not None:
                default = self.default(match[2], out, inner=inner)
                again = default_of(out | {"default": default}, inner=inner)
                if again == f"default: {match[2]}":
                    out["default"], text = default, match[1] or ""
            if text:
                out["description"] = text
        return out

    def default(self, text: str, schema: dict[str, Any], *, inner: bool = False) -> Any:
        if "enum" in schema and not inner:
            return text
        if text[:1] == text[-1:] == '"' and len(text) > 1 and "enum" not in schema:
            return text[1:-1]
        try:
            return loads(text)
        except Fault:
            return text


def _listed(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a field without variants: these are then the items of an array."""
    choices = schema.get("oneOf", [])
    if not choices or choices[-1].get("type") != "array" or "items" not in choices[-1]:
        return schema
    last = {key: value for key, value in choices[-1].items() if key not in ("type", "items")}
    items = {"oneOf": [*choices[:-1], choices[-1]["items"] | last]}
    return {"type": "array", "items": _listed(items)}
