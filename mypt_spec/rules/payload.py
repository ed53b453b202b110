"""Family 3, payload: finds faults in the content of blocks."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.json_body import (
    ID,
    NAME,
    argument_key,
    called,
    calls_in,
    counting,
    names_called,
    read_body,
    usual_ids,
    value_in,
)
from mypt_spec.bodies.json_schema import Patience, SchemaError
from mypt_spec.bodies.strict_json import Node, lone_surrogate, pointer_to
from mypt_spec.bodies.tagged import with_tags
from mypt_spec.damage.near_miss import near_miss, near_misses
from mypt_spec.damage.untagged import is_body
from mypt_spec.episode import Attrs, Place, patterns_of
from mypt_spec.findings import Finding
from mypt_spec.lexer import lex
from mypt_spec.recovery import Repair
from mypt_spec.rules.context import Context, TextRun, ToolSchema, check
from mypt_spec.rules.declared import misfit_arguments, undeclared_calls
from mypt_spec.serializer import misread
from mypt_spec.table import CALLS, LISTS, TEXT, UNESCAPED
from mypt_spec.tokenizer.sentencepiece import rewrites
from mypt_spec.validator import mistake_of, name_refusal

_LONG = 400  # code points of a body whose result is kept
_BLANK = "write what belongs there, or leave the field or the message out"
_SPELLS = "content must not spell tags: remove it, or write it differently"


@lru_cache(maxsize=1000)
def _faultless(text: str, body: str, literals: re.Pattern[str]) -> bool:
    """Returns whether a body has no findings. Short ones occur again and again."""
    return not read_body(text, body, literals, Place()).findings


def _span(run: TextRun, start: int, end: int) -> tuple[int, int] | None:
    """Returns where a piece of a run is; None in a text that a record has as JSON."""
    if run.body != "text" and run.event.at.pointer:
        return None
    base = run.event.at.span[0] if run.event.at.span else 0
    return base + start, base + end


@check("MYP301")
def tag_in_content(context: Context) -> Iterator[Finding]:
    """Finds tags that are spelled inside content, or by content and the tag beside it."""
    spelled = context.table.literals.search(context.content) is not None
    for run in context.texts if spelled else ():
        if run.body in UNESCAPED and context.table.literals.search(run.event.text):
            yield from _tags(run, context)
    ends, begins = context.table.edges
    table, texts = context.table, [run.event.text for run in context.texts if run.body == "text"]
    odd = (t for t in texts if t.endswith(ends) or t.startswith(begins) or is_body(t, table))
    if spelled or next(odd, None) is None:
        return
    if lone_surrogate(context.content):
        return
    ways = (misread(context.events, context.table, ids=ids) for ids in (False, True))
    other = next(filter(None, ways), None)
    if other is not None:
        event, actual = other
        message = f"the text and the tag beside it would be read as {actual.text[:60]!r}"
        yield Finding("MYP301", message, *event.at, help=_SPELLS)


def _tags(run: TextRun, context: Context) -> Iterator[Finding]:
    """Yields a finding for each block or stray tag; a closing tag belongs to its opening tag."""
    table = context.table
    owed: Counter[str] = Counter()  # blocks whose closing tag is still to come, by kind
    for event in lex(run.event.text, table):
        if event.terminal == TEXT or not event.text:
            continue
        terminal = table.terminals.get(event.terminal)
        ends = terminal.ends if terminal is not None else ()
        paid = next((kind for kind in ends if owed[kind]), "")
        if paid:
            owed[paid] -= 1
            continue
        if terminal is not None and terminal.opens in table.closers:
            owed[terminal.opens] += 1
        start, end = event.at.span or (0, 0)
        text = run.event.text[start:end]
        if terminal is not None and terminal.spaced:  # the white space around it is the content's
            end -= len(text) - len(text.rstrip())
            start += len(text) - len(text.lstrip())
        expected = run.expected(context.automaton, after_text=start > 0)
        at = run.event.at._replace(span=_span(run, start, end))
        code, message, hint = name_refusal(event, expected, run.inside, "", Repair(), table)
        row = mistake_of(event, expected, run.inside, "", table, lesser=False)
        fits = row is not None and row.terminal == event.terminal and code[3] == "2"
        if event.terminal in expected or not fits:  # no misplacement's name fits this very tag
            written = event.text if terminal is None else text if event.other else terminal.shown
            message = f"`{written}` in the content of `{table.openers[run.inside].shown}`"
            code, hint, expected = "MYP301", _SPELLS, frozenset()
        yield Finding(code, message, *at, table.describe(expected), hint)


@check("MYP302")
def tag_in_json(context: Context) -> Iterator[Finding]:
    """Finds strings inside JSON bodies that spell a tag."""
    for run in context.texts:
        tagged = isinstance(run.body, Tags)  # arrays and objects between them are JSON
        if (run.body in UNESCAPED and not tagged) or "\\u" not in run.event.text:
            continue
        value = read_body(run.event.text, run.body, context.table.literals, run.event.at).value
        if tagged and value is not None:
            value = calls_in(value, run.body, ())[0].arguments
        stack: list[tuple[Node, Any]] = [(None, value)]
        while stack:
            node, value = stack.pop()
            if isinstance(value, dict):
                for key, item in reversed(value.items()):
                    yield from _spelled(key, (node, key), run, context, key=True)
                    stack.append(((node, key), item))
            elif isinstance(value, list):
                stack += [((node, i), v) for i, v in reversed(list(enumerate(value)))]
            elif isinstance(value, str):
                yield from _spelled(value, node, run, context)


def _spelled(
    text: str, node: Node, run: TextRun, context: Context, *, key: bool = False
) -> Iterator[Finding]:
    literals, body = context.table.literals, run.body
    match = (with_tags(literals, body.pattern) if isinstance(body, Tags) else literals).search(text)
    if match is None:
        return
    renamed = run.body in ("call", "parameters")
    pointer = pointer_to(_argument_node(node, run.body) if renamed else node)
    message = f"`{match[0]}` in a JSON string of `{context.table.openers[run.inside].shown}`"
    hint = "it is written with a \\u escape, so it is text and no tag; make sure that this is meant"
    place = run.event.at
    if not place.pointer:
        yield Finding("MYP302", message, *place, help=hint)
        return
    name_at = run.event.name_at if node == (None, NAME) else None
    where, span = name_at.pointer if name_at else place.pointer + pointer, match.span()
    yield Finding("MYP302", message, where, None if key else span, help=hint, on_key=key)


def _argument_node(node: Node, body: str) -> Node:
    """Returns a node in a "call", or in "parameters", as it is in the arguments of a record."""
    if node is None:
        return None
    before, key = node
    if before is not None:
        return _argument_node(before, body), key
    return (None, argument_key(str(key))) if body == "call" else None


@check("MYP303")
def near_miss_tag(context: Context) -> Iterator[Finding]:
    """Finds text that is almost a tag."""
    for run in context.texts if near_miss(context.content, context.table) else ():
        if run.body not in UNESCAPED:
            continue
        for miss in near_misses(run.event.text, context.table):
            at = run.event.at._replace(span=_span(run, miss.start, miss.end))
            message = f"`{miss.text}` is not a tag; did you mean `{miss.tag}`?"
            yield Finding("MYP303", message, *at, help="correct the spelling, or remove it")


@check("MYP304")
def body_not_json(context: Context) -> Iterator[Finding]:
    """Finds tool calls and results that are not legal or not canonical."""
    literals = context.table.literals
    for event, body in [(run.event, run.body) for run in context.texts if run.body != "text"]:
        if len(event.text) > _LONG or not _faultless(event.text, body, literals):
            yield from read_body(event.text, body, literals, event.at, event.name_at).findings


@check("MYP312")
def result_name_mismatch(context: Context) -> Iterator[Finding]:
    """Finds tool results that have another name than the call before them."""
    openers, name_called = context.table.openers, ""
    before = False  # whether the message before holds calls; the results of several have an order
    for message in context.episode.messages:
        name = dict(message.attrs).get(NAME) if message.attrs else None
        parts = (called(part, message, context.table) for part in message.parts)
        calls = [p for p in parts if p.kind != "text" and openers[p.kind].body in CALLS]
        if not calls and name_called and name and name != name_called:
            text = f'the result is of "{name}", the call before it is of "{name_called}"'
            at = message.name_at or message.at
            yield Finding("MYP312", text, *at, help=f'write "{name_called}"')
        several = bool(calls) and before and openers[message.role].body in CALLS
        alone = len(calls) == 1 and not several
        name_called = dict(calls[-1].attrs).get(NAME, "") if alone else ""
        before = bool(calls)


@check("MYP313")
def unknown_tool(context: Context) -> Iterator[Finding]:
    """Finds calls of tools that are declared nowhere."""
    yield from undeclared_calls(context)


@check("MYP314")
def blank_content(context: Context) -> Iterator[Finding]:
    """Finds blocks that hold nothing but white space."""
    openers = context.table.openers
    for message in context.episode.messages:
        if not any(part.text.isspace() for part in message.parts):
            continue
        text = message.text
        calls = any(p.kind != "text" and openers[p.kind].body in CALLS for p in message.parts)
        blocks = [(p.kind, p.at) for p in message.parts if p.kind != "text" and p.text.isspace()]
        if text.isspace() and message.role in openers and not calls:
            place = next(p.at for p in message.parts if p.kind == "text")
            blocks.insert(0, (message.role, place))
        for kind, place in blocks:
            problem = f"`{openers[kind].shown}` holds only white space"
            yield Finding("MYP314", problem, *place, help=_BLANK)


@check("MYP320")
def attribute_value(context: Context) -> Iterator[Finding]:
    """Finds attributes whose value the tag cannot hold."""
    table = context.table
    tags = {**table.openers, **table.marks}
    for message in context.episode.messages:
        if message.attrs or patterns_of(message.role, table):
            at, shown = message.name_at or message.at, tags[message.role].shown
            yield from _attributes(shown, patterns_of(message.role, table), message.attrs, at)
        for part in message.parts:
            opener = table.openers.get(part.kind)
            if opener is not None and (part.attrs or patterns_of(part.kind, table)):
                patterns, at = patterns_of(part.kind, table), part.name_at or part.at
                yield from _attributes(opener.shown, patterns, part.attrs, at)


def _attributes(shown: str, patterns: dict[str, str], attrs: Attrs, at: Place) -> Iterator[Finding]:
    remaining = dict(attrs)
    for key, pattern in patterns.items():
        value = remaining.pop(key, None)
        if value is None:
            yield Finding("MYP320", f"`{shown}` has no {key}", *at)
        elif not re.fullmatch(pattern, value):
            problem = f"{value!r} cannot be the {key} of `{shown}`"
            hint = "leave out quotes, angle brackets and line ends" if value else f"give it a {key}"
            yield Finding("MYP320", problem, *at, help=hint)
    for key in remaining:
        yield Finding("MYP320", f"`{shown}` has no place for the attribute {key!r}", *at)


@check("MYP369")
def text_not_composed(context: Context) -> Iterator[Finding]:
    """Finds texts whose ids are other than those of the vocabulary's own tokenizer."""
    for run in context.texts:
        if rewrites(context.table, run.event.text):
            message = "the text is not in NFC: its ids are those of its composed form"
            hint = "normalise texts to NFC where they are made; see MYP609 of --data-set"
            if context.table.spaced:
                message = "the text has U+2581, which the model's own tokenizer takes for a space"
                hint = "write a space, or another sign"
            yield Finding("MYP369", message, *run.event.at, help=hint)


@check("MYP368")
def id_of_another_form(context: Context) -> Iterator[Finding]:
    """Finds ids of calls that models of the format do not take."""
    usual = usual_ids(context.table)
    counted = counting(context.table) is not None
    for number, part in enumerate(context.calls if counted or usual is not None else ()):
        usual = re.compile(str(number)) if counted else usual
        body, ids = context.table.openers[part.kind].body, [dict(part.attrs).get(ID, "")]
        if body in LISTS and _faultless(part.text, body, context.table.literals):
            ids = [call.id for call in calls_in(value_in(part.text, body), body, part.attrs)]
        for ident in ids:
            if usual is not None and ident and usual.fullmatch(ident) is None:
                message = f"the id {ident!r} of a call is none that the models of the format take"
                hint = f"write one that matches {usual.pattern}, in the call and in its result"
                yield Finding("MYP368", message, *part.at, help=hint)


@check("MYP353")
def arguments_misfit(context: Context) -> Iterator[Finding]:
    """Finds arguments that do not fit the tool that their episode declares."""
    yield from misfit_arguments(context)


@check("MYP356")
def result_misfit(context: Context) -> Iterator[Finding]:
    """Finds results that do not fit the schema of their tool."""
    schemas = {schema.name: schema for schema in context.limits.schemas}
    if not schemas:
        return
    patience, latest = Patience(), ""
    for message in context.episode.messages:
        opener = context.table.openers.get(message.role)
        name = dict(message.attrs).get(NAME) or latest
        if opener is not None and opener.body == "json" and name in schemas:
            place = next((p.at for p in message.parts), message.at)
            yield from _misfit(schemas[name], message.text, place, patience)
        for part in message.parts if opener is not None and not opener.quotes else ():
            part = called(part, message, context.table)
            body = context.table.openers[part.kind].body if part.kind != "text" else ""
            if body in CALLS:
                latest = dict(part.attrs).get(NAME) or next(iter(names_called(part.text, body)), "")
            elif body == "json" and latest in schemas:
                yield from _misfit(schemas[latest], part.text, part.at, patience)


def _misfit(tool: ToolSchema, text: str, place: Place, patience: Patience) -> Iterator[Finding]:
    """Yields findings about the text of a result of a tool."""
    if not tool.result:
        return
    noun = f"the result of {tool.name!r}"
    try:
        misfits = patience.misfits(json.loads(text), json.loads(tool.result))
    except (SchemaError, ValueError, RecursionError) as error:
        if isinstance(error, SchemaError):
            yield Finding("MYP128", f"{noun} cannot be checked: {error}", *place)
        return
    for pointer, message in misfits:
        at = place._replace(pointer=place.pointer + pointer, span=None) if place.pointer else place
        yield Finding("MYP356", f"{noun} does not fit: {message}", *at)
