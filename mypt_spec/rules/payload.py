"""Family 3, payload: finds faults in the content of blocks.

Calls and results are held to their tools, which an episode declares or the user's limits; the
linter's fast path proves the same of clean records without this (`mypt_lint.fast.clean_tools`).
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.definitions import parameters_of
from mypt_spec.bodies.json_body import (
    ID,
    NAME,
    Call,
    argument_key,
    called,
    calls_in,
    counting,
    names_called,
    read_body,
    usual_ids,
    value_in,
)
from mypt_spec.bodies.json_schema import Patience, SchemaError, undeclared
from mypt_spec.bodies.strict_json import Fault, Node, escape, loads, lone_surrogate, pointer_to
from mypt_spec.bodies.tagged import function_of, with_tags
from mypt_spec.damage.near_miss import near_miss, near_misses
from mypt_spec.damage.untagged import is_body
from mypt_spec.episode import Attrs, Episode, Part, Place, patterns_of
from mypt_spec.findings import Finding
from mypt_spec.lexer import lex
from mypt_spec.recovery import Repair
from mypt_spec.rules.context import Context, TextRun, check
from mypt_spec.serializer import misread
from mypt_spec.table import CALLS, LISTS, TEXT, UNESCAPED, TokenTable
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
    base = run.event.at.extent[0]
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
        start, end = event.at.extent
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


@check("MYP313")
def unknown_tool(context: Context) -> Iterator[Finding]:
    """Finds calls of other tools than are declared; silent where none is."""
    defined = frozenset(function_of(tool)["name"] for tool in context.tools)
    declared = context.limits.tools | declared_tools(context.episode, context.table) | defined
    for name, at in _called_names(context) if declared else ():
        if name not in declared:
            hint = f"declared are {', '.join(sorted(declared))}"
            yield Finding("MYP313", f"the tool {name!r} is declared nowhere", *at, help=hint)


@check("MYP353")
def arguments_misfit(context: Context) -> Iterator[Finding]:
    """Finds arguments that do not fit their tool, by the user's limits or by the episode.

    The limits come first. They need not name all arguments of a tool.
    """
    limits = {s.name: json.loads(s.arguments or "true") for s in context.limits.schemas}
    schemas, patience = parameters_of(context.tools) | limits, Patience()
    for call, at in _calls(context) if schemas else ():
        if call.name in schemas:
            noun, is_limit = f"the arguments of {call.name!r}", call.name in limits
            pair = call.arguments, schemas[call.name]
            yield from _misfits("MYP353", noun, pair, at, patience, is_limit=is_limit)


@check("MYP356")
def result_misfit(context: Context) -> Iterator[Finding]:
    """Finds results that do not fit the schema of their tool in the user's limits."""
    schemas = {s.name: json.loads(s.result) for s in context.limits.schemas if s.result}
    patience, latest = Patience(), ""
    for message in context.episode.messages if schemas else ():
        opener = context.table.openers.get(message.role)
        results: list[tuple[str, str, Place]] = []
        if opener is not None and opener.body == "json":
            place = next((p.at for p in message.parts), message.at)
            results.append((dict(message.attrs).get(NAME) or latest, message.text, place))
        for part in message.parts if opener is not None and not opener.quotes else ():
            part = called(part, message, context.table)
            body = context.table.openers[part.kind].body if part.kind != "text" else ""
            if body in CALLS:
                latest = dict(part.attrs).get(NAME) or next(iter(names_called(part.text, body)), "")
            elif body == "json":
                results.append((latest, part.text, part.at))
        for name, text, place in (result for result in results if result[0] in schemas):
            with suppress(Fault):  # of which the check of bodies says so
                pair = loads(text), schemas[name]
                noun = f"the result of {name!r}"
                yield from _misfits("MYP356", noun, pair, place, patience, is_limit=True)


def _misfits(
    code: str, noun: str, pair: tuple[Any, Any], place: Place, patience: Patience, *, is_limit: bool
) -> Iterator[Finding]:
    """Yields how a value does not fit a schema, which are a pair; `noun` names the value.

    Schemas that are no limits are checked where they are defined, and name all keys.
    """
    try:
        misfits = patience.misfits(*pair)
    except SchemaError as error:
        if is_limit or error.in_use:
            yield Finding("MYP128", f"{noun} cannot be checked: {error}", *place)
        return
    for key in () if is_limit else undeclared(*pair):
        misfits.append((f"/{escape(key)}", f"it has no parameter {key!r}"))
    for pointer, message in misfits:
        at = place._replace(pointer=place.pointer + pointer, span=None) if place.pointer else place
        verb = "do" if code == "MYP353" else "does"
        yield Finding(code, f"{noun} {verb} not fit: {message}", *at)


def declared_tools(episode: Episode, table: TokenTable) -> frozenset[str]:
    """Returns the names of the tools that an Episode declares in the text of its system prompt."""
    names = table.tool_names
    if names is None:
        return frozenset()
    declaring = [
        m.text for m in episode.messages if m.role in table.openers and table.openers[m.role].quotes
    ]
    return frozenset(name for text in declaring for name in names.findall(text))


def _called_names(context: Context) -> Iterator[tuple[str, Place]]:
    """Yields the names of called tools, and where they are; of bodies that are not legal, too."""
    for part in context.calls:
        body, in_tag = context.table.openers[part.kind].body, dict(part.attrs).get(NAME)
        names_of = _names if len(part.text) <= _LONG else names_called
        for n, name in enumerate([in_tag] if in_tag else names_of(part.text, body)):
            yield name, _inside(part, body, n)[0]


_names = lru_cache(maxsize=1000)(names_called)


def _calls(context: Context) -> Iterator[tuple[Call, Place]]:
    """Yields the calls of bodies that can be read, with the places of their arguments."""
    for part in context.calls:
        body = context.table.openers[part.kind].body
        try:
            calls = calls_in(value_in(part.text, body), body, part.attrs, context.types)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        for n, call in enumerate(calls):
            yield call, _inside(part, body, n)[1]


def _inside(part: Part, body: str, number: int) -> tuple[Place, Place]:
    """Returns the places of the name and the arguments of a call in a body."""
    at = part.at
    if body in LISTS and at.pointer:
        function = f"{at.pointer}/{number}/function"
        return Place(f"{function}/name"), Place(f"{function}/arguments")
    arguments = Place(f"{at.pointer}/arguments") if body == "function" and at.pointer else at
    return part.name_at or at, arguments
