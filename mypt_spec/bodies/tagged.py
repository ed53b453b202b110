"""Reads and writes calls whose arguments are tags of text with values between them.

Input is the text of a body of the kind "tagged", or a call; output is the other. The token table
has the tags (`Tags`). "Calls as tags" in docs/custom_format.md says which value a text is, by the
type in the schema of its tool. What would come back as another value has a finding, and so has a
string that spells one of these tags, because no escape could write it.
"""

import json
import re
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from mypt_spec.bodies.call_tags import BareKeys, Keywords, Tags
from mypt_spec.bodies.strict_json import (
    Fault,
    a_kind_of,
    canonical,
    escape,
    faults,
    kind_of,
    loads,
    shortened,
    value_at,
)
from mypt_spec.bodies.type_names import json_type
from mypt_spec.findings import Finding

USUAL = Tags()
# Of ASCII, without the quote and the backslash.
_ESCAPE = re.compile(r"\\\\|\\u(00(?!22|5c)[2-7][0-9a-f])")
STRING = frozenset({"string"})
KINDS = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_PYTHON = {"True": True, "False": False, "None": None}  # as official templates write values
_UNSAYABLE = "remove it, or write it differently: no escape can say it here"
_PARTS = 200  # of a schema, references followed

# The types that each argument of each tool may have.
Types = Mapping[str, Mapping[str, frozenset[str]]]


@lru_cache(maxsize=64)
def with_tags(literals: re.Pattern[str], tags: re.Pattern[str]) -> re.Pattern[str]:
    """Returns a pattern that matches tags of calls, too, so that JSON escapes them."""
    return re.compile(f"{literals.pattern}|{tags.pattern}")


def value_text(value: Any, literals: re.Pattern[str], tags: Tags = USUAL) -> str:
    """Returns the text of a value: a string as it is, any other as canonical JSON."""
    string, other = tags.types or ("", "")
    if isinstance(value, str):
        return string + tags.wrapped(value)
    if tags.python == "values" or (tags.python and (value is None or isinstance(value, bool))):
        return other + str(value)
    return other + canonical(value, with_tags(literals, tags.pattern))


def write_tagged(
    name: str, arguments: Mapping[str, Any], literals: re.Pattern[str], tags: Tags = USUAL
) -> str:
    """Returns the body of a call; `literals` matches the dialect's tags, which JSON escapes.

    >>> print(write_tagged("f", {"q": "Ada", "n": 5}, re.compile("<end>")))
    <function=f>
    <parameter=q>
    Ada
    </parameter>
    <parameter=n>
    5
    </parameter>
    </function>
    """
    before, after, end = tags.function
    return f"{before}{name}{after}{arguments_text(arguments, literals, tags)}{end}"


def read_tagged(text: str, tags: Tags = USUAL) -> tuple[str, dict[str, str]]:
    """Returns the name and the texts of the values. Raises Fault.

    >>> read_tagged("<function=f>\\n<parameter=q>\\n\\n</parameter>\\n</function>")
    ('f', {'q': ''})
    """
    name, at = _name_in(text, 0, tags.function, tags)
    out: dict[str, str] = {}
    closing, last = tags.argument[2], tags.function[2]
    at += len(tags.none) * (text[at:] == tags.none + last)
    while not text.endswith(last) or at != len(text) - len(last):
        begun = at
        if last and text.startswith(last, at):
            raise Fault("MYP304", f"there is more text after `{last}`", at + len(last))
        key, at = _name_in(text, at, tags.argument, tags)
        if key in out:
            raise Fault("MYP004", f"the argument {key!r} occurs twice", begun)
        tag = tags.pattern.search(text, at)
        # A line end that belongs to the tag is also that after the name where nothing is between.
        end = len(closing.lstrip()) - len(closing) + (-1 if tag is None else tag.start())
        if end < at or not text.startswith(closing, end):
            raise _expected(closing, len(text) if tag is None else tag.start())
        out[key] = text[at:end]
        if tags.types and not out[key].startswith(tags.types):
            raise _expected("` or `".join(tags.types), at)
        at = end + len(closing)
    return name, out


def _name_in(text: str, at: int, tag: tuple[str, ...], tags: Tags) -> tuple[str, int]:
    """Returns the name in an opening tag at a place, and the place after it."""
    if not text.startswith(tag[0], at):
        others = f"` or `{tags.function[2]}" if tag is tags.argument and tags.function[2] else ""
        raise _expected(tag[0] + others, at)
    at += len(tag[0])
    match = tags.names.match(text, at)
    if match is None:
        raise Fault("MYP306", f"`{tag[0] or 'the call'}` has no name", at)
    if not text.startswith(tag[1], match.end()):
        raise _expected(tag[1], match.end())
    return match[0], match.end() + len(tag[1])


def _expected(text: str, at: int) -> Fault:
    return Fault("MYP304", f"expected `{text}`".replace("\n", "\\n"), at)


def value_of(text: str, kinds: frozenset[str] = KINDS, tags: Tags = USUAL) -> Any:
    """Returns the value of an argument that may have these types.

    >>> value_of("5"), value_of("5", STRING), value_of("05"), value_of("null", STRING | {"integer"})
    (5, '5', '05', 'null')
    """
    if tags.types and text.startswith(tags.types[0]):
        return text.removeprefix(tags.types[0])
    if tags.types:
        text, kinds = text.removeprefix(tags.types[1]), KINDS - STRING
    if (inner := tags.unwrapped(text)) is not None:
        return inner
    if kinds == STRING:
        return text
    may = tags.python or "string" not in kinds
    if may and text in _PYTHON and kind_of(_PYTHON[text]) in kinds:
        return _PYTHON[text]
    try:
        value = _python_value(text) if tags.python == "values" else loads(text)
    except Fault:
        return text
    is_python = tags.python == "values" and isinstance(value, list | dict)
    if isinstance(value, str) or next(faults(value), None) is not None:
        return text
    spaced = str(value) == text if is_python else _spaced(text)
    if "string" in kinds and not (_fits(value, kinds) and spaced):
        return text
    return value


def _python_value(text: str) -> Any:
    """Returns the value of an array or object in Python's words, or of JSON. Raises Fault."""
    with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = literal_eval(text) if text[:1] in ("[", "{") else None
        if value and json.loads(json.dumps(value)) == value:
            return value
    return loads(text)


def _fits(value: Any, kinds: frozenset[str]) -> bool:
    kind = kind_of(value)
    exact = isinstance(value, float) and value.is_integer()
    also = (kind == "integer" and "number" in kinds) or (exact and "integer" in kinds)
    return kind in kinds or also


def _spaced(text: str) -> bool:
    """Returns whether JSON is spaced as it is written here, escapes of tags aside."""
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[0], text)
    return json.dumps(json.loads(text), ensure_ascii=False) == plain


def typed(name: str, texts: Mapping[str, str], types: Types, tags: Tags = USUAL) -> dict[str, Any]:
    """Returns the arguments of a call, of the texts of their values."""
    kinds = types.get(name, {})
    return {key: value_of(text, kinds.get(key, KINDS), tags) for key, text in texts.items()}


def arguments_text(arguments: Mapping[str, Any], literals: re.Pattern[str], tags: Tags) -> str:
    """Returns the tags and values of arguments, as `write_tagged` writes them."""
    before, after, end = tags.argument
    texts = [
        f"{before}{key}{after}{value_text(value, literals, tags)}{end}"
        for key, value in arguments.items()
    ]
    return "".join(texts) or tags.none


def call_findings(
    function: Mapping[str, Any], pointer: str, types: Types, literals: re.Pattern[str],
    tags: Tags | BareKeys = USUAL,
) -> list[Finding]:  # fmt: skip
    """Returns what such a body cannot say of a function's "name" and "arguments" at a pointer.

    That are names that end a tag and strings that spell one, which are errors, and arguments that
    come back as another value.
    """
    name, arguments = function["name"], function["arguments"]
    out = []
    at = {key: f"{pointer}/arguments/{escape(key)}" for key in arguments}
    names = [(name, f"{pointer}/name"), *((key, at[key]) for key in arguments)]
    written: tuple[str, ...] = ("name(...)", "argument=...")
    if isinstance(tags, Tags):
        written = tuple([f"{a}...{b.strip()}" for a, b, _ in (tags.function, tags.argument)])
    for number, (word, place) in enumerate(names):
        if isinstance(tags, Tags | Keywords) and not tags.names.fullmatch(word):
            message = f"{word!r} cannot be the name in `{written[number > 0]}`"
            out.append(Finding("MYP320", message, place, on_key=number > 0))
    if isinstance(tags, BareKeys):
        odd = [key for key, value in arguments.items() if not tags.is_sayable({key: value})]
        quote = f" ({tags.end})" * (tags.end != "")
        message = f"nothing escapes what ends a key or a string{quote} in an argument"
        return out or [Finding("MYP301", message, at[key], help=_UNSAYABLE) for key in odd]
    texts = {key: value_text(value, literals, tags) for key, value in arguments.items()}
    back, spelled = typed(name, texts, types, tags), with_tags(literals, tags.pattern)
    for key, value in arguments.items():
        match = spelled.search(value if isinstance(value, str) else texts[key])
        if match is not None:
            message = f"`{match[0]}` in the text of the argument {key!r}"
            span = match.span() if isinstance(value, str) else None
            out.append(Finding("MYP301", message, at[key], span, help=_UNSAYABLE))
        elif not _same(value, back[key]):
            text = shortened(json.dumps(back[key], ensure_ascii=False), 40)
            message = f"the argument {key!r} is {a_kind_of(value)}, and its text is read as "
            message += f"{a_kind_of(back[key])}: {text}"
            hint = f"declare {name!r} with the type of {key!r}, or write a value of that type"
            out.append(Finding("MYP362", message, at[key], help=hint))
    return out


def _same(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are the same, with their types."""
    return one == other and json.dumps(one) == json.dumps(other)


def function_of(tool: Any) -> dict[str, Any]:
    """Returns the function in a definition, which may come without a wrapper; else {}."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else {}
    return inner if isinstance(inner, dict) else {}


def types_of(functions: Iterable[Any]) -> Types:
    """Returns the types of the arguments in definitions of functions, with or without wrapper."""
    named = [f for f in map(function_of, functions) if isinstance(f.get("name"), str)]
    return {function["name"]: types_in(function.get("parameters")) for function in named}


def types_in(schema: Any) -> dict[str, frozenset[str]]:
    """Returns the types that the properties of a schema may have."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {key: kinds_in(part, schema) for key, part in properties.items()}


def kinds_in(schema: Any, root: Any, budget: Iterator[int] | None = None) -> frozenset[str]:
    """Returns the types that a schema allows, all where it does not say; `root` has what it names.

    `budget` counts the parts that may still be looked at.

    >>> sorted(kinds_in({"anyOf": [{"type": "string"}, {"enum": [1, None]}]}, {}))
    ['integer', 'null', 'string']
    """
    budget = iter(range(_PARTS)) if budget is None else budget
    if not isinstance(schema, Mapping) or next(budget, None) is None:
        return KINDS
    out = KINDS
    types = schema.get("type")
    if types is not None:
        names = {json_type(k) or "" for k in (types if isinstance(types, list) else [types])}
        names |= {"integer"} if "number" in names else set()
        out = (KINDS & names) or KINDS
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        out &= frozenset(kind_of(value) for value in values)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            out &= frozenset().union(*(kinds_in(part, root, budget) for part in schema[word]))
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        out &= kinds_in(part, root, budget)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        out &= kinds_in(value_at(root, reference[1:]), root, budget)
    return frozenset(out) or KINDS
