"""Reads and writes the JSON bodies of an episode: calls, results, definitions of functions.

Input is the text of a body and its kind, a value of the `body` column in tokens.toml; output is the
canonical text, the value and findings. Parser, rules and decoder share it, so that a body is legal
for all of them or for none. Implements section 6 of grammar/mypt/SPEC.md and sections 4 and 5 of
grammar/usf_omega/SPEC.md.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mypt_spec.bodies.call_tags import ALONE, BareKeys, Keywords, Tags, value_text
from mypt_spec.bodies.definitions import defines_tools, read_definitions, write_definitions
from mypt_spec.bodies.members import Members
from mypt_spec.bodies.strict_json import (
    DefinitionsError,
    Fault,
    a_kind_of,
    canonical,
    faults,
    kind_of,
    loads,
    shortened,
)
from mypt_spec.bodies.tagged import Types, read_tagged, typed, types_of, write_tagged
from mypt_spec.compiled.toml import load
from mypt_spec.episode import Attrs, Message, Part, Place
from mypt_spec.findings import Finding, Fix
from mypt_spec.memo import lazy_re
from mypt_spec.table import CALLS, LISTS, Terminal, TokenTable

NAME = "name"
ID = "id"
_NAME_KEY = lazy_re(f"{NAME}_*")
_DUPLICATE = 'the key "name" occurs twice: it is the name of the tool'
ARGUMENTS = "arguments"
NO_TYPES: Types = MappingProxyType({})
IDENT = lazy_re(r"[a-zA-Z0-9_\-]+")  # the ids of "functions", which tags of results have, too
# Of a call that is an object of name and arguments: the key of these.
KEYS = {"function": ARGUMENTS, "parameters": "parameters"}
_FUNCTION = '{"name": ..., "arguments": {...}}'
_HELP = load(Path(__file__).with_name("messages.toml"))["help"]


class Body(NamedTuple):
    """A body as read: its canonical text (None if it is not legal), its value, and findings."""

    text: str | None
    value: Any
    findings: list[Finding]


class Call(NamedTuple):
    """A call as it is made: which tool, with which arguments, and its id, if it has one."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


def written(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments under the keys that they have in a "call", beside the name of the tool.

    `name`, and `name` with `_` after it, get one more `_`; any other key stays. `argument_key`
    takes it off, so no argument is lost and no two become one.

    >>> written({"name": "Ada", "name_": 1, "names": 2})
    {'name_': 'Ada', 'name__': 1, 'names': 2}
    """
    if not any(key.startswith(NAME) for key in arguments):
        return arguments
    return {written_key(key): value for key, value in arguments.items()}


def written_key(key: str) -> str:
    """Returns the key of an argument in a "call"."""
    return key + "_" if _NAME_KEY.fullmatch(key) else key


def argument_key(key: str) -> str:
    """Returns the argument's own key of a key in a "call" that is not the name of the tool."""
    return key[:-1] if _NAME_KEY.fullmatch(key) else key


def value_in(text: str, kind: str) -> Any:
    """Returns the value of a legal body of a call. Raises ValueError for one that cannot be read.

    Of "tagged", the arguments are texts: `calls_in` says which values they are.
    """
    if isinstance(kind, BareKeys):
        return kind.read(text)
    if not isinstance(kind, Tags):
        return json.loads(text)
    name, texts = read_tagged(text, kind)
    return {NAME: name, ARGUMENTS: texts}


def calls_in(value: Any, kind: str, attrs: Attrs, types: Types = NO_TYPES) -> list[Call]:
    """Returns the calls in the value of a legal body of `kind`; `attrs` are those of its block.

    `types` are those of the arguments of declared tools, for a body that does not say them.
    """
    if isinstance(kind, Tags):
        return [Call(value[NAME], typed(value[NAME], value[ARGUMENTS], types, kind))]
    if kind in LISTS:
        functions = [(_function_of(item, kind), item.get(ID, "")) for item in value]
        return [Call(f[NAME], f[ARGUMENTS], call) for f, call in functions]
    if kind in ALONE:
        return [Call(dict(attrs).get(NAME, ""), value, dict(attrs).get(ID, ""))]
    if kind in KEYS:
        return [Call(value[NAME], value[KEYS[kind]])]
    return [Call(value[NAME], {argument_key(k): v for k, v in value.items() if k != NAME})]


def call_parts(messages: Iterable[Message], table: TokenTable) -> Iterator[Part]:
    """Yields the parts of messages that hold tool calls, without quoted ones."""
    for message in messages:
        for part in (called(part, message, table) for part in message.parts):
            body = "text" if part.kind == "text" else table.openers[part.kind].body
            if body in (*CALLS, *LISTS) and not table.openers[message.role].quotes:
                yield part


def called(part: Part, message: Message, table: TokenTable) -> Part:
    """Returns a part; the text of a message that is a call by itself as a part of that kind."""
    opener = table.openers.get(message.role)
    if part.kind != "text" or opener is None or opener.body not in (*CALLS, *LISTS):
        return part
    return replace(part, kind=message.role, attrs=message.attrs, name_at=message.name_at)


def calls_of(messages: Iterable[Message], table: TokenTable) -> Iterator[Call]:
    """Yields the calls in messages whose bodies are legal, without quoted ones."""
    messages = list(messages)
    types = declared_types(messages, table)
    for part in call_parts(messages, table):
        body = table.openers[part.kind].body
        yield from calls_in(value_in(part.text, body), body, part.attrs, types)


def declared_types(messages: Iterable[Message], table: TokenTable) -> Types:
    """Returns the types of arguments of readable tools in messages, where calls need them."""
    return types_of(definitions_in(messages, table)) if table.tagged else NO_TYPES


def definitions_in(messages: Iterable[Message], table: TokenTable) -> list[dict[str, Any]]:
    """Returns the tools that messages define in a block of their own; none that cannot be read."""
    for message in messages:
        for part in message.parts:
            opener = table.openers.get(message.role if part.kind == "text" else part.kind)
            if opener is not None and defines_tools(opener.body):
                try:
                    return read_definitions(part.text, opener.body)
                except DefinitionsError:
                    return []
    return []


def counting(table: TokenTable) -> Terminal | None:
    """Returns the tag of calls whose ids are their numbers in the conversation, if there is one."""
    tags = (t for t in table.openers.values() if t.body in CALLS)
    return next((t for t in tags if any(piece.counted for piece in t.spelling)), None)


def usual_ids(table: TokenTable) -> re.Pattern[str] | None:
    """Returns what matches the ids of calls that models of a format take; None for any."""
    pieces = (p for t in table.terminals.values() for p in t.spelling if p.kind == "attr")
    usual = next((p.usual for p in pieces if p.value == ID and p.usual), "")
    return re.compile(usual) if usual else None


def canonical_calls(
    messages: list[Message], table: TokenTable
) -> tuple[list[Message], list[Finding]]:
    """Returns messages with typed arguments in canonical form, and findings about the others."""
    if not table.tagged:
        return messages, []
    types, findings, out = declared_types(messages, table), list[Finding](), list[Message]()
    for message in messages:
        parts = []
        for part in message.parts:
            opener = table.openers.get(message.role if part.kind == "text" else part.kind)
            if opener is not None and isinstance(opener.body, Tags):
                (call,) = calls_in(value_in(part.text, opener.body), opener.body, (), types)
                clean = call_text(call.name, call.arguments, table.literals, opener.body)
                if clean != part.text:
                    text = "an argument of the tool call is not canonical JSON"
                    findings.append(_fixable("MYP308", text, part.at, clean))
                part = replace(part, text=clean)
            parts.append(part)
        out.append(replace(message, parts=tuple(parts)))
    return out, findings


def call_text(
    name: str, arguments: dict[str, Any], literals: re.Pattern[str], kind: str = "call"
) -> str:
    """Returns the canonical body of a call.

    The name comes first, then the arguments, in a "call" under the keys that `written` says; if a
    tag has the name, they are alone. In a list, the body is that of one call without an id.
    """
    if kind == "call":
        return canonical({NAME: name, **written(arguments)}, literals)
    if kind in ALONE:
        return value_text(arguments, literals, kind)
    if isinstance(kind, Tags):
        return write_tagged(name, arguments, literals, kind)
    if kind in LISTS:
        return list_text([Call(name, arguments)], literals, kind)
    return canonical({NAME: name, KEYS.get(kind, ARGUMENTS): arguments}, literals)


def list_text(calls: Iterable[Call], literals: re.Pattern[str], kind: str) -> str:
    """Returns the canonical body of a list of calls."""
    return value_text([_listed(call, kind) for call in calls], literals, kind)


def _listed(call: Call, kind: str) -> dict[str, Any]:
    """Returns a call as an item of a list of this kind, keys in order."""
    ids = {ID: call.id} if call.id else {}
    function = {NAME: call.name, ARGUMENTS: call.arguments}
    if kind != "calls":
        return function | ids
    return ids | {"type": "function", "function": function}


def read_body(
    text: str, kind: str, literals: re.Pattern[str], at: Place, name_at: Place | None = None
) -> Body:
    """Reads the body of a block whose `body` column is `kind`: any kind except "text".

    `literals` matches the dialect's tags, `at` is the place of the body, and `name_at` is where a
    call's name was read, if elsewhere. Never raises.
    """
    if defines_tools(kind):
        return _read_definitions(text, kind, literals, at)
    noun = "tool result" if kind == "json" else "tool call"
    try:
        value = value_in(text, kind) if isinstance(kind, Tags | BareKeys) else loads(text)
    except Fault as fault:
        code, message = fault.code, f"the {noun} is {fault.message}"
        code = "MYP304" if code == "MYP001" else code
        hint = _HELP.get(kind, "")
        if isinstance(kind, Keywords):
            hint = f"write {list_text([Call('name', {'key': 'value'})], literals, kind)}"
        if isinstance(kind, Tags):
            message = f"the tool call is not written as it should be: {fault.message}"
            form = call_text("name", {"key": "value"}, literals, kind).replace("\n", "\\n")
            hint = f"write `{form}`" if code != "MYP004" else ""
        return Body(None, None, [_at(code, message, at, fault.offset, hint=hint)])
    if isinstance(kind, Tags):
        return Body(text, value, [])
    findings = [_fault(f, kind, at) for f in faults(value)]
    if kind == "parameters" and isinstance(value, dict) and value.get("type") == "function":
        value = {key: part for key, part in value.items() if key != "type"}  # Meta writes it
    if kind in CALLS:
        findings += _call_faults(value, kind, at, name_at or at)
    elif kind in LISTS:
        value, faulty = _calls(value, kind, at)
        findings += faulty
    if any(f.severity == "error" for f in findings):
        return Body(None, value, findings)
    if kind in ("call", *KEYS) and next(iter(value)) != NAME:
        value = {NAME: value[NAME], **value}
        clean = canonical(value, literals)
        findings.append(_fixable("MYP309", 'the call does not begin with "name"', at, clean))
    else:
        clean = value_text(value, literals, kind)
        if clean != text:
            findings.append(_fixable("MYP308", f"the {noun} is not canonical JSON", at, clean))
    return Body(clean, value, findings)


def names_called(text: str, kind: str) -> list[str]:
    """Returns the names in the body of a call, or of an array of calls, legal or not.

    `kind` is a value of the `body` column. None of a text that is not JSON, of a call without a
    name, and of arguments alone. Never raises.

    >>> names_called('[{"type": "function", "function": {"name": "f", "arguments": {}}}]', "calls")
    ['f']
    >>> names_called('{"name": "f", "function": {"name": "an argument"}}', "call")
    ['f']
    """
    try:
        value = value_in(text, kind) if isinstance(kind, Tags | BareKeys) else loads(text)
    except Fault:
        return []
    if kind in LISTS:
        items = value if isinstance(value, list) else [value]
        calls = [_function_of(item, kind) for item in items]
    else:
        calls = [] if kind in ALONE else [value]
    names = [call.get(NAME) for call in calls if isinstance(call, dict)]
    return [name for name in names if isinstance(name, str)]


def argument_spans(text: str, kind: str) -> list[tuple[int, int]]:
    """Returns the spans of arguments in the body of a call of this kind, in order.

    >>> argument_spans('{"name": "f", "arguments": {"q": 1}}', "function")
    [(27, 35)]
    >>> argument_spans('{"name": "f", "q": 1}', "call")
    [(12, 20)]
    """
    if kind in ALONE:  # the name is in the tag
        return [(0, len(text))]
    if isinstance(kind, Tags):
        around = write_tagged(value_in(text, kind)[NAME], {}, re.compile(""), kind)
        end = kind.function[2]
        return [(len(around) - len(kind.none + end), len(text) - len(end))]
    if isinstance(kind, Keywords):
        edges = pairwise(token for token in kind.tokens(text) if not token["key"])
        return [(name.end(), end.start()) for name, end in edges]
    members = Members(text, unique=True)
    if kind == "call":  # all members but the name
        name = members.find([NAME])
        return [(name[0].end, len(text) - 1)] if name and name[1] else []
    if kind not in LISTS:
        value = members.find([KEYS.get(kind, ARGUMENTS)])
        return [(value[0].start, value[0].end)] if value and value[1] else []
    spans: list[tuple[int, int]] = []
    inner = [ARGUMENTS] if kind == "functions" else ["function", ARGUMENTS]
    while (value := members.find([str(len(spans)), *inner])) and value[1]:
        spans.append((value[0].start, value[0].end))
    return spans


def _function_of(item: Any, kind: str) -> Any:
    """Returns the call in an item of an array of calls; None where there is none."""
    if not isinstance(item, dict):
        return None
    return item.get("function") if kind == "calls" else item


def _read_definitions(text: str, kind: str, literals: re.Pattern[str], at: Place) -> Body:
    if kind == "template":
        return Body(text, None, [])
    try:
        value = read_definitions(text, kind)
    except DefinitionsError as error:
        message = f"not definitions of functions: {error}"
        hint = _HELP.get(kind, f"write JSON as {kind!r} says")
        return Body(None, None, [_at("MYP340", message, at, error.offset, hint=hint)])
    clean = write_definitions(value, kind, literals)
    if clean == text:
        return Body(clean, value, [])
    message = "the definitions are not in canonical form"
    return Body(clean, value, [_fixable("MYP341", message, at, clean)])


def _calls(value: Any, kind: str, at: Place) -> tuple[Any, list[Finding]]:
    """Returns an array of calls with its keys in order, and findings. `id` may be left out."""
    if not isinstance(value, list) or not value:
        got = kind_of(value) if value != [] else "none"
        return value, [_at("MYP354", f"the tool calls are {got}, expected an array", at)]
    out, findings = [], []
    for i, item in enumerate(value):
        function = _function_of(item, kind)
        if not isinstance(function, dict):
            form = '{"type": "function", "function": {...}}' if kind == "calls" else _FUNCTION
            message = f"call {i} is {a_kind_of(item)}, expected {form}"
            findings.append(_at("MYP305", message, at))
            continue
        name: Any = function.get(NAME)
        arguments: Any = function.get(ARGUMENTS)
        outer = {ID, "type", "function"} if function is not item else {ID, NAME, ARGUMENTS}
        strange = sorted({*item} - outer)
        strange += sorted({*function} - {NAME, ARGUMENTS}) if function is not item else []
        ident, code, message = item.get(ID, "_"), "MYP354", ""
        if not isinstance(name, str) or not name:
            code, message = "MYP306", f'call {i} has no "name"'
        elif not isinstance(arguments, dict):
            message = f'the "arguments" of call {i} must be an object'
        elif item.get("type", "function") != "function" or not isinstance(ident, str) or not ident:
            message = f'call {i} has an "id" or "type" that is none'
        elif kind == "functions" and not IDENT.fullmatch(ident):
            message = f'the "id" of call {i} has other characters than letters, digits, _ and -'
        elif strange:
            message = f"call {i} has an unknown key {strange[0]!r}"
        findings += [_at(code, message, at)] if message else []
        out.append(_listed(Call(name, arguments, item.get(ID, "")), kind))
    return out, findings


def _fault(fault: Fault, kind: str, at: Place) -> Finding:
    if kind == "call" and fault.code == "MYP004" and fault.pointer == f"/{NAME}":
        hint = f'write an argument of that name as "{written_key(NAME)}"'
        return _at("MYP307", _DUPLICATE, at, hint=hint)
    return _at(fault.code, fault.message, at)


def _call_faults(value: Any, kind: str, at: Place, name_at: Place) -> list[Finding]:
    if not isinstance(value, dict):
        return [_at("MYP305", f"the tool call is {a_kind_of(value)}, expected an object", at)]
    if kind in ALONE:
        return []
    if not isinstance(value.get(NAME), str) or not value[NAME]:
        got = kind_of(value[NAME]) if NAME in value and value[NAME] != "" else "nothing"
        message = f'the tool call has no "name": expected a string, got {got}'
        return [_at("MYP306", message, name_at)]
    if kind not in KEYS:
        return []
    key, findings = KEYS[kind], []
    if not isinstance(value.get(key), dict):
        got = kind_of(value[key]) if key in value else "nothing"
        message = f'the tool call has no "{key}": expected an object, got {got}'
        hint = f'write {{}} where there are none: "{key}": {{}}'
        findings.append(_at("MYP332", message, at, hint=hint))
    extra = [k for k in value if k not in (NAME, key)]
    if extra:
        message = f'the tool call has a key {extra[0]!r} beside "{NAME}" and "{key}"'
        findings.append(_at("MYP333", message, at, hint=f'arguments stand inside "{key}"'))
    return findings


def _at(
    code: str, message: str, at: Place, offset: int | None = None, *, hint: str = ""
) -> Finding:
    span = at.span
    if offset is not None and span is not None:
        start = min(span[0] + offset, span[1])
        span = (start, min(start + 1, span[1]))
    return Finding(code, message, at.pointer, span, help=hint)


def _fixable(code: str, message: str, at: Place, clean: str) -> Finding:
    fix = None
    if not at.pointer and at.span is not None:
        fix = Fix("write it as canonical JSON", True, edits=((*at.span, clean),))
    return Finding(code, message, *at, help=f"write {shortened(clean, 80)}", fix=fix)
