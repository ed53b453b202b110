"""Family 3, payload: what stands inside the blocks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from mypt_spec.body import read_body
from mypt_spec.episode import Event
from mypt_spec.findings import Finding, rule
from mypt_spec.jsonvalue import escape
from mypt_spec.nearmiss import near_miss
from mypt_spec.placement import name_refusal
from mypt_spec.repair import Repair
from mypt_spec.rules.context import Context, Run
from mypt_spec.surface import lex
from mypt_spec.tokens import TEXT


_UNNAMED = ("MYP211", "MYP212", "MYP214", "MYP220")  # what the grammar says of content that is no structure


def _span(event: Event, start: int, end: int) -> tuple[int, int]:
    base = event.at.span[0] if event.at.span else 0
    return base + start, base + end


@rule("MYP301", "tag-in-content")
def tag_in_content(context: Context) -> Iterator[Finding]:
    """A tag is spelled inside content."""
    for run in context.texts:
        if run.body == "text" and context.table.literals.search(run.event.text):
            yield from _tags(run, context)


def _tags(run: Run, context: Context) -> Iterator[Finding]:
    """One finding a block or stray tag: the closing tag of a spelled block belongs to the finding of its opening tag."""
    table = context.table
    owed: Counter[str] = Counter()
    for event in lex(run.event.text, table):
        if event.terminal == TEXT:
            continue
        terminal = table.terminals[event.terminal]
        if owed[terminal.closes]:
            owed[terminal.closes] -= 1
            continue
        if terminal.opens in table.closers:
            owed[terminal.opens] += 1
        start = event.at.span[0] if event.at.span else 0
        expected = run.expected(context.automaton, behind=start > 0)
        at = run.event.at._replace(span=_span(run.event, *(event.at.span or (0, 0))))
        code, message, cure = name_refusal(event._replace(at=at), expected, run.inside, "", Repair(), table)
        if event.terminal in expected or code[3] != "2" or code in _UNNAMED:  # no name of a misplacement fits
            code, message = "MYP301", f"`{terminal.shown}` in the content of `{table.openers[run.inside].shown}`"
            cure, expected = "text from outside must not spell tags: take it out, or write it differently", frozenset()
        yield Finding(code, message, at.pointer, at.span, table.describe(expected), cure)


@rule("MYP302", "tag-in-json", "warning")
def tag_in_json(context: Context) -> Iterator[Finding]:
    """A string inside a JSON body spells a tag."""
    for run in context.texts:
        if run.body == "text" or "\\u" not in run.event.text:
            continue
        try:
            stack = [("", json.loads(run.event.text))]
        except (ValueError, RecursionError):
            continue
        while stack:
            pointer, value = stack.pop()
            if isinstance(value, dict):
                for key, item in reversed(value.items()):
                    yield from _spelled(key, f"{pointer}/{escape(key)}", run, context, key=True)
                    stack.append((f"{pointer}/{escape(key)}", item))
            elif isinstance(value, list):
                stack += [(f"{pointer}/{i}", v) for i, v in reversed(list(enumerate(value)))]
            elif isinstance(value, str):
                yield from _spelled(value, pointer, run, context)


def _spelled(text: str, pointer: str, run: Run, context: Context, *, key: bool = False) -> Iterator[Finding]:
    match = context.table.literals.search(text)
    if match is None:
        return
    message = f"`{match[0]}` in a JSON string of `{context.table.openers[run.inside].shown}`"
    cure = "it is written with a \\u escape, so it is text and no tag; make sure that this is meant"
    place = run.event.at
    if place.pointer:
        span = None if key else match.span()
        yield Finding("MYP302", message, place.pointer + pointer, span, help=cure, on_key=key)
    else:
        yield Finding("MYP302", message, "", place.span, help=cure)


@rule("MYP303", "near-miss-tag")
def near_miss_tag(context: Context) -> Iterator[Finding]:
    """Text that is almost a tag."""
    for run in context.texts:
        if run.body != "text":
            continue
        found = near_miss(run.event.text, context.table)
        while found is not None:
            span = _span(run.event, found.start, found.end)
            message = f"`{found.text}` is no tag; did you mean `{found.meant}`?"
            yield Finding("MYP303", message, run.event.at.pointer, span, help="correct the spelling, or take it out")
            found = near_miss(run.event.text, context.table, found.end)


@rule("MYP304", "body-not-json")
def body_not_json(context: Context) -> Iterator[Finding]:
    """A tool call or result is not JSON."""
    for run in context.texts:
        if run.body != "text":
            yield from read_body(run.event.text, run.body, context.table.literals, run.event.at).findings


@rule("MYP305", "call-not-an-object")
class CallNotAnObject:
    """A tool call is JSON, but not an object."""


@rule("MYP306", "call-without-name")
class CallWithoutName:
    """A tool call does not name its tool."""


@rule("MYP307", "reserved-argument-name")
class ReservedArgumentName:
    """An argument is called "name"."""


@rule("MYP308", "non-canonical-json", "warning")
class NonCanonicalJson:
    """A JSON body is valid, but not in canonical form."""


@rule("MYP309", "name-not-first", "warning")
class NameNotFirst:
    """A tool call does not begin with its name."""


@rule("MYP310", "result-without-call")
class ResultWithoutCall:
    """A tool result that no call asked for."""


@rule("MYP311", "call-without-result")
class CallWithoutResult:
    """A tool call that is not followed by its result."""


@rule("MYP312", "result-name-mismatch")
class ResultNameMismatch:
    """A tool result carries another name than the call before it."""


@rule("MYP313", "unknown-tool", "warning")
def unknown_tool(context: Context) -> Iterator[Finding]:
    """A call of a tool that is declared nowhere."""
    declared = set(context.limits.tools)
    names = context.table.tool_names
    if names is not None and context.episode.messages:
        for message in context.episode.messages:
            if context.table.openers.get(message.role) is not None and context.table.openers[message.role].quotes:
                declared |= set(names.findall(message.text))
    if not declared:
        return
    for part in context.calls:
        try:
            name = json.loads(part.text)["name"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if name not in declared:
            text = f"the tool {name!r} is declared nowhere"
            yield Finding("MYP313", text, *(part.name_at or part.at), help=f"declared are {', '.join(sorted(declared))}")


@rule("MYP314", "blank-content", "warning")
def blank_content(context: Context) -> Iterator[Finding]:
    """A block holds nothing but white space."""
    openers = context.table.openers
    for message in context.episode.messages:
        text = message.text
        if text.isspace() and message.role in openers:
            place = next(p.at for p in message.parts if p.kind == "text")
            yield Finding("MYP314", f"`{openers[message.role].shown}` holds only white space", place.pointer, place.span)
        for part in message.parts:
            if part.kind != "text" and part.text.isspace():
                yield Finding("MYP314", f"`{openers[part.kind].shown}` holds only white space", *part.at)
