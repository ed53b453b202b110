"""Writes definitions of functions as the TypeScript of openai-harmony, and says what that loses.

Input are definitions as records have them; output is the text that the library writes of them, byte
for byte. It is meant for models: of a schema it says types, names, choices, defaults, descriptions
and examples, and nothing else. `read_signatures` reads it back, and `lost` names what it has no
place for. Implements section 4 of grammar/harmony/SPEC.md.

>>> city = {"type": "string", "description": "Where."}
>>> tools = [{"type": "function", "function": {"name": "weather", "description": "Says it.",
...     "parameters": {"type": "object", "properties": {"city": city}, "required": ["city"]}}}]
>>> print(write_signatures(tools))
// Says it.
type weather = (_: {
// Where.
city: string,
}) => any;
<BLANKLINE>
} // namespace functions
"""

import json
from collections.abc import Iterator
from typing import Any

TAIL = "} // namespace functions"
_dumps = json.JSONEncoder(ensure_ascii=False).encode
# Types that have a word; all others are `any`, but in a list of types, which is written as it is.
WORDS = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}


def write_signatures(tools: list[dict[str, Any]]) -> str:
    """Returns the text of definitions, from the first one to the end of the namespace."""
    return "".join(_function(tool.get("function", tool)) + "\n\n" for tool in tools) + TAIL


def compact(value: Any) -> str:
    """Returns a JSON value as Rust's serde_json writes it."""
    if isinstance(value, dict):
        items = (f"{compact(str(key))}:{compact(item)}" for key, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    if isinstance(value, float) and "e" in repr(value):
        digits, _, exponent = repr(value).partition("e")
        if int(exponent) == -5:  # Python changes to an exponent one digit earlier
            sign = "-" * digits.startswith("-")
            return f"{sign}0.0000" + digits.removeprefix("-").replace(".", "")
        return f"{digits}e{int(exponent)}"
    return _dumps(value)


def _function(function: dict[str, Any]) -> str:
    text = function.get("description")
    head = "".join(f"// {line}\n" for line in _lines(text)) if isinstance(text, str) else ""
    parameters = function.get("parameters")
    argument = "" if parameters is None else f"_: {_typed(parameters, '')}"
    return f"{head}type {function['name']} = ({argument}) => any;"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines[: len(lines) - (lines[-1] == "")]]


def _typed(schema: Any, pad: str) -> str:
    """Returns a schema as a type; `pad` is the white space before its inner lines."""
    if not isinstance(schema, dict):
        return "any"
    choices, kind = schema.get("oneOf"), schema.get("type")
    if isinstance(choices, list):
        inner = pad + "   "
        texts = (f"{_nullable(c, inner)}{_after(c, inner=True)}" for c in choices)
        return "".join(f"\n{pad} | {text}" for text in texts)
    kinds = [k for k in kind if isinstance(k, str)] if isinstance(kind, list) else []
    if kinds:
        return " | ".join("number" if k == "integer" else k for k in kinds)
    if kind == "object":
        note = schema.get("description")
        head = f"{pad}// {note}\n" if isinstance(note, str) else ""
        return f"{head}{{\n{_properties(schema, pad)}{pad}}}"
    if kind == "string" and isinstance(schema.get("enum"), list):
        words = [f'"{word}"' for word in schema["enum"] if isinstance(word, str)]
        return " | ".join(words) or "string"
    if kind == "array":
        return f"{_typed(schema['items'], pad)}[]" if "items" in schema else "Array<any>"
    return WORDS.get(kind, "any") if isinstance(kind, str) else "any"


def _nullable(schema: Any, pad: str) -> str:
    text = _typed(schema, pad)
    null = isinstance(schema, dict) and schema.get("nullable") is True and "null" not in text
    return f"{text} | null" if null else text


def default_of(schema: dict[str, Any], *, inner: bool = False) -> str:
    """Returns the default of a schema, in quotes unless it is a choice, and never escaped.

    Inside of a type without a name, a choice is JSON, as all other values are.
    """
    value, choices = schema["default"], schema.get("enum")
    chosen = isinstance(choices, list) and bool(choices)
    if isinstance(value, str) and not (chosen and inner):
        return f"default: {value}" if chosen else f'default: "{value}"'
    return f"default: {compact(value)}"


def _after(choice: Any, *, inner: bool = False, but: object = None) -> str:
    """Returns the comment after one of several types; `but` is a description that is left out."""
    if not isinstance(choice, dict):
        return ""
    note = choice.get("description")
    notes = [note] if isinstance(note, str) and note != but else []
    notes += [default_of(choice, inner=inner)] if "default" in choice else []
    return f" // {' '.join(notes)}" if notes else ""


def _properties(schema: dict[str, Any], pad: str) -> str:
    fields, names = schema.get("properties"), schema.get("required")
    needed = {name for name in names if isinstance(name, str)} if isinstance(names, list) else ()
    if not isinstance(fields, dict):
        return ""
    rows = ((f"{name}{'' if name in needed else '?'}:", field) for name, field in fields.items())
    return "".join(_property(name, field, pad) for name, field in rows)


def _property(name: str, field: Any, pad: str) -> str:
    schema = field if isinstance(field, dict) else {}
    title, description, examples = (schema.get(key) for key in ("title", "description", "examples"))
    choices = schema.get("oneOf")
    lines = [f"// {title}", "//"] if isinstance(title, str) else []
    lines += [f"// {description}"] if isinstance(description, str) and "oneOf" not in schema else []
    if isinstance(examples, list) and examples:
        quoted = [f'// - "{example}"' for example in examples if isinstance(example, str)]
        lines += ["// Examples:", *quoted]
    if not isinstance(choices, list):
        after = f" // {default_of(schema)}" if "default" in schema and "oneOf" not in schema else ""
        head = "".join(f"{pad}{line}\n" for line in lines)
        return f"{head}{pad}{name} {_nullable(field, pad + '    ')},{after}\n"
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    above = isinstance(description, str) and first.get("description") != description
    lines += [f"// {description}"] if above else []
    lines += [f"// {default_of(schema)}"] if "default" in schema else []
    lines.append(name)
    for i, choice in enumerate(choices):
        hidden = choice.get("description") if i == 0 and above and choice is first else description
        typed = _nullable(choice, pad + "   ")
        lines.append(f" | {typed}{_after(choice, but=hidden)}")
    return "".join(f"{pad}{line}\n" for line in [*lines, ","])


def lost(tools: list[dict[str, Any]], back: list[dict[str, Any]]) -> list[str]:
    """Returns what of definitions is not in those that are read `back` from their text, in order.

    Each is a key of a schema, or a type; none occurs twice.

    >>> from mypt_spec.bodies.read_signatures import read_signatures
    >>> given = [{"name": "f", "parameters": {"type": "object", "properties":
    ...     {"n": {"type": "integer", "minimum": 1}}}}]
    >>> lost(given, read_signatures(write_signatures(given)))
    ['type "integer"', '"minimum"']
    """
    pairs = zip(tools, back, strict=True)
    names = [name for a, b in pairs for name in _missing(_bare(a), _bare(b))]
    return list(dict.fromkeys(names))


def _bare(tool: dict[str, Any]) -> dict[str, Any]:
    function = dict(tool.get("function", tool))
    if "function" in tool:
        function |= {k: v for k, v in tool.items() if k not in ("type", "function", *function)}
    if "parameters" in function:
        function["parameters"] = _plain(function["parameters"])
    return {key: value for key, value in function.items() if value != "" and value is not None}


def _plain(schema: Any) -> Any:
    """Returns a schema in one of the forms that say the same."""
    if not isinstance(schema, dict):
        return schema
    out = {key: value for key, value in schema.items() if value != "" or key == "default"}
    for key in ("properties", "required"):
        if not out.get(key, True):
            del out[key]
    kind, nullable = out.get("type"), out.pop("nullable", False)
    kinds = kind if isinstance(kind, list) else [kind] if kind else []
    kinds = [*kinds, "null"] if nullable is True and "null" not in kinds else kinds
    if kinds:
        out["type"] = kinds
    if isinstance(out.get("properties"), dict):
        out["properties"] = {k: _plain(v) for k, v in out["properties"].items()}
    if isinstance(out.get("required"), list):
        out["required"] = sorted(map(str, out["required"]))
    if "items" in out:
        out["items"] = _plain(out["items"])
    if isinstance(out.get("oneOf"), list):
        out["oneOf"] = [_plain(choice) for choice in out["oneOf"]]
    return out


def _missing(schema: Any, back: Any, name: str = "", *, fields: bool = False) -> Iterator[str]:
    """Yields what is in one schema and not in the other; by `fields`, keys are names of fields."""
    if schema == back and _dumps(schema) == _dumps(back):  # 1 is True, and 1.0
        return
    if isinstance(schema, dict) and isinstance(back, dict) and name != '"default"':
        for key in [*schema, *(k for k in back if k not in schema)]:
            label = f"the field {key!r}" if fields else f'"{key}"'
            if key in schema and key in back:
                yield from _missing(schema[key], back[key], label, fields=label == '"properties"')
            else:
                yield label
        return
    both = isinstance(schema, list) and isinstance(back, list)
    if name == '"type"' and both:
        yield from (f'type "{kind}"' for kind in schema if kind not in back)
    elif name == '"oneOf"' and both and len(schema) == len(back):
        for a, b in zip(schema, back, strict=True):
            yield from _missing(a, b, name)
    else:
        yield name
