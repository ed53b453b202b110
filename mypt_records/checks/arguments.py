"""Finds calls of undeclared tools, calls as text, and arguments that are no object or misfit."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from mypt_records.chat import Call, Chat, JsonValue, located
from mypt_records.checks.registry import check, once_per_chat
from mypt_records.checks.tools import null_in, without_null
from mypt_records.fixes import from_python, replaced
from mypt_records.prefilter import prefilter
from mypt_records.reading import closest_key
from mypt_spec.bodies.json_schema import MAX_MISFITS, Patience, SchemaError, unnamed
from mypt_spec.bodies.strict_json import Fault, a_kind_of, escape, faults, loads
from mypt_spec.findings import Finding, regraded
from mypt_spec.memo import lazy_re

# What stands for a value in the notation of templates and forms; of "<city>", the name is compared.
_PLACEHOLDER = lazy_re(
    r" *(?:\{\{[^{}\n\"]{1,40}\}\}|\$\{\w{1,40}\}|[<\[](?P<name>[A-Za-z][\w -]{0,40})[>\]]"
    r"|<?(?i:your)[_-](?i:\w*_)?(?i:key|token|password|id|secret)>?) *"
)
_NEEDED = lazy_re(
    r"(?:^|_|(?<=[a-z])(?=[A-Z]))(?i:city|location|address|country|name|id|email|url|symbol|ticker|date|time"
    r"|user|username|product|phone|number|amount|currency|language)s?$"
)  # names of arguments that say nothing where they are empty
# The same, or more, in JSON that is written without blanks.
ODD_ARGUMENT = lazy_re(
    rb':"(?:(?: |\\[nrt])*"'
    rb'| *(?:\{\{[^{}"]*\}\}|\$\{|[<\[][A-Za-z][^<>"]*[>\]] *"|<?[yY][oO][uU][rR][_-]))'
)
_HINT = 'write an object, as JSON text: "{}" where there are no arguments'


def calls(chat: Chat) -> Iterator[Call]:
    for message in (*chat.messages, *chat.rejected):
        yield from message.calls


@once_per_chat
def _declared(chat: Chat) -> tuple[frozenset[str], bool]:
    """Returns the names of declared tools, and whether a tool has none, such as one for code."""
    names = [tool.name for tool in chat.tools or ()]
    return frozenset(name.text for name in names if name is not None), None in names


def _may_be_built_in(chat: Chat, call: Call) -> bool:
    """Returns whether a call may be of a tool without a name."""
    declared, has_unnamed = _declared(chat)
    return has_unnamed and call.name.text not in declared


@check("MYP313")
def undeclared_tool(chat: Chat) -> Iterator[Finding]:
    """Finds calls of tools that are declared nowhere; silent where no tool is declared.

    A declaration without a name, such as that of a code interpreter, brings names of its own.
    """
    declared, has_unnamed = _declared(chat)
    for call in calls(chat) if declared and not has_unnamed else ():
        if call.name.text not in declared:
            message = f"the tool {call.name.text!r} is declared nowhere"
            hint = f"declared are {', '.join(sorted(declared))}"
            yield located("MYP313", message, call.name, hint=hint)

    choice = chat.extras.get("tool_choice")
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if isinstance(name, str) and declared and not has_unnamed and name not in declared:
        message = f"tool_choice names {name!r}, which is declared nowhere"
        hint = f"declared are {', '.join(sorted(declared))}"
        yield Finding("MYP313", message, "/tool_choice/function/name", help=hint)


@check("MYP139")
def parallel_calls(chat: Chat) -> Iterator[Finding]:
    """Finds several calls in one message of a record that forbids them."""
    forbidden = chat.extras.get("parallel_tool_calls") is False
    for message in chat.messages if forbidden else ():
        if len(message.calls) > 1:
            why = f"{len(message.calls)} calls at once, and parallel_tool_calls is false"
            yield Finding("MYP139", why, message.at)
            break


@prefilter("MYP260", needles=lambda: ['"name"'])
def _may_be_call(text: str) -> bool:
    bare = text.strip()
    return bare[:1] == "{" and bare[-1:] == "}" and '"name"' in bare and '"arguments"' in bare


@check("MYP260")
def call_as_text(chat: Chat) -> Iterator[Finding]:
    """Finds answers that are the JSON of a call of a declared tool, or hold one in tags."""
    for message, after in pairwise(chat.messages):
        call = message.calls[0] if message.calls else None
        if call and call.name.outer and call.name.outer.start and after.answers is not None:
            why = "the call is text between tags, and its result has the id of a call"
            yield Finding("MYP260", why, call.at, help='write it under "tool_calls", with its id')
            return
    for message, text in chat.answers() if chat.tools else ():
        try:
            value = loads(text.text.strip()) if _may_be_call(text.text) else None
        except Fault:
            continue
        name = value.get("name") if isinstance(value, dict) and "arguments" in value else None
        if isinstance(name, str) and name in _declared(chat)[0]:
            why = f"the {message.alias} message is a call of {name!r}, written as text"
            yield Finding("MYP260", why, text.at, help='write it under "tool_calls"')


@check("MYP134")
def calls_without_tools(chat: Chat) -> Iterator[Finding]:
    """Finds calls in a conversation that declares no tool, neither as tools nor in its prompt.

    The message names no tool: records that differ in names share it.
    """
    first = None if chat.tools else next(calls(chat), None)
    if first is None:
        return
    texts = [t.text for m, t in chat.texts(rejected=False) if m.role in ("system", "developer")]
    if not all(any(call.name.text in text for text in texts) for call in calls(chat)):
        yield Finding("MYP134", "a call, and no tools are declared", first.at)


def in_text(source: JsonValue) -> bool:
    """Returns whether arguments are in a JSON text, so that no pointer reaches into them."""
    return isinstance(source.value, str) or source.outer is not None


@once_per_chat
def parsed_arguments(chat: Chat) -> list[tuple[Call, JsonValue, Any]]:
    """Returns the calls that have arguments, with their value, or a Fault for what is no JSON."""
    out = []
    for call in calls(chat):
        if (source := call.arguments) is not None:
            try:
                value = (
                    loads(source.value or "{}") if isinstance(source.value, str) else source.value
                )
            except Fault as fault:
                value = fault
            out.append((call, source, value))
    return out


@once_per_chat
def _schemas(chat: Chat) -> dict[str, dict[str, Any]]:
    """Returns the declared parameters by the names of tools, where these are declared once."""
    by_name: dict[str, list[Any]] = {}
    for tool in chat.tools or ():
        if tool.name is not None:
            by_name.setdefault(tool.name.text, []).append(tool.parameters)
    return {
        name: without_null(values[0].value) if null_in(values[0].value) else values[0].value
        for name, values in by_name.items()
        if len(values) == 1 and values[0] is not None and isinstance(values[0].value, dict)
    }


@check("MYP304")
def arguments_not_json(chat: Chat) -> Iterator[Finding]:
    """Finds arguments that are a text, but no JSON."""
    for call, source, fault in parsed_arguments(chat):
        if isinstance(fault, dict) and isinstance(source.value, str):
            for wrong in faults(fault):
                yield located(wrong.code, f"in the arguments: {wrong.message}", source)
            if not source.value:
                why = f"the arguments of {call.name.text!r} are empty, which is read as {{}}"
                empty = located("MYP304", why, source, hint=_HINT)
                fix = replaced(source.at, "{}", "write {}") if source.outer is None else None
                yield regraded(replace(empty, fix=fix), "warning")
        if not isinstance(fault, Fault) or _may_be_built_in(chat, call):
            continue
        text, at = source.value, fault.offset
        span = None if at is None else (min(at, len(text)), min(at + 1, len(text)))
        why = fault.message.removeprefix("not JSON: ")
        problem = f"arguments of {call.name.text!r} are not valid JSON: {why}"
        hint = _HINT if text.isspace() else "fix the arguments, or drop the record"
        finding = located("MYP304", problem, source, hint=hint)
        finding = replace(finding, fix=from_python(source))
        yield finding if source.outer is not None else replace(finding, span=span)


@check("MYP332")
def arguments_no_object(chat: Chat) -> Iterator[Finding]:
    """Finds arguments that are JSON, but no object, and calls without arguments."""
    for call in calls(chat):
        if call.arguments is None and not _may_be_built_in(chat, call):
            message = f"the call of {call.name.text!r} has no arguments"
            yield Finding("MYP332", message, call.at, help=_HINT)
    for call, source, value in parsed_arguments(chat):
        if not isinstance(value, dict | Fault):
            message = f"the arguments of {call.name.text!r} are {a_kind_of(value)}"
            yield located("MYP332", message, source, hint=_HINT)


@check("MYP353")
def arguments_misfit(chat: Chat) -> Iterator[Finding]:
    """Finds arguments that do not fit the declared parameters of their tool."""
    schemas, patience = _schemas(chat), Patience()
    for call, source, value in parsed_arguments(chat) if schemas else ():
        schema = schemas.get(call.name.text)
        if schema is None or not isinstance(value, dict):
            continue
        extra = unnamed(value, schema)
        if extra and schema.get("additionalProperties") is not True:
            yield from _unnamed(call, source, [k for k in extra if value[k] is not None], schema)
        bare = {key: item for key, item in value.items() if key not in extra}
        try:
            faults = patience.misfits(bare, schema)
        except SchemaError:
            continue  # the check of the schema says so
        for pointer, message in faults:
            where = f" at {pointer}" if pointer and in_text(source) else ""
            fault = f"the arguments of {call.name.text!r} do not fit{where}: {message}"
            yield located("MYP353", fault, source, pointer)


def _unnamed(
    call: Call, source: JsonValue, extra: list[str], schema: dict[str, Any]
) -> Iterator[Finding]:
    """Yields findings about arguments without a parameter; null has one of its own (MYP357)."""
    names = tuple(schema["properties"])
    for key in extra[:MAX_MISFITS]:
        message = f"{call.name.text!r} has no parameter {key!r}"
        close = closest_key(key, names)
        hint = f'did you mean "{close}"?' if close else f"parameters are {', '.join(names[:20])}"
        hint = hint if names else "it takes no arguments"
        finding = located("MYP353", message, source, f"/{escape(key)}", hint=hint, on_key=True)
        yield regraded(finding, "error") if schema.get("additionalProperties") is False else finding


@check("MYP327")
def placeholder_argument(chat: Chat) -> Iterator[Finding]:
    """Finds arguments without a value: placeholders, and required ones that are blank."""
    schemas = _schemas(chat)
    for call, source, value in parsed_arguments(chat):
        schema = schemas.get(call.name.text, {})
        needed = schema.get("required") if isinstance(value, dict) else None
        for key, item in value.items() if isinstance(value, dict) else ():
            is_needed = isinstance(needed, list) and key in needed and _NEEDED.search(key)
            if not isinstance(item, str) or (item.strip() and not _stands_for(key, item)):
                continue
            if item.strip() or is_needed:
                what = f"the placeholder {item.strip()!r}" if item.strip() else "blank"
                why = f"the argument {key!r} of {call.name.text!r} is {what}"
                yield located("MYP327", why, source, f"/{escape(key)}")
                break


def _stands_for(key: str, text: str) -> bool:
    """Returns whether the text of an argument is a placeholder."""
    match = _PLACEHOLDER.fullmatch(text)
    if match is None or not (name := match["name"]):
        return match is not None
    plain, own = (re.sub(r"[\W_]", "", word).lower() for word in (name, key))
    return plain in own or own in plain or plain.startswith(("your", "insert"))


@check("MYP357")
def null_padding(chat: Chat) -> Iterator[Finding]:
    """Finds arguments that are null and belong to other tools."""
    schemas = _schemas(chat)
    for call, source, value in parsed_arguments(chat) if schemas else ():
        schema = schemas.get(call.name.text)
        extra = unnamed(value, schema) if schema is not None and isinstance(value, dict) else []
        padded = [key for key in extra if value[key] is None]
        if padded:
            keys = ", ".join(map(repr, padded[:5])) + ", ..." * (len(padded) > 5)
            message = f"{call.name.text!r} has no parameter {keys}: null pads the arguments"
            yield located("MYP357", message, source, f"/{escape(padded[0])}", on_key=True)
