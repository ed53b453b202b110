"""Builds an Episode of the events of a text or of ids, and reads its JSON bodies.

Input are events that the validator accepted; output is an Episode with findings. Texts and ids
share this code: only how events are read differs (lexer.py). For a text it also recognises tags
that were cut short or misspelt, which no event shows.
"""

from collections.abc import Sequence
from dataclasses import replace

from mypt_spec.automaton import Automaton
from mypt_spec.bodies.json_body import canonical_calls, read_body
from mypt_spec.bodies.strict_json import faults
from mypt_spec.damage.cut_tags import Cut, cuts, mended
from mypt_spec.damage.near_miss import NearMiss, near_miss
from mypt_spec.damage.untagged import with_tags
from mypt_spec.episode import Attrs, Episode, Event, Message, Part, Place, top_level
from mypt_spec.findings import Finding, Fix
from mypt_spec.lexer import lex
from mypt_spec.states import Stack, after_tag, before_tag
from mypt_spec.table import TEXT, TokenTable
from mypt_spec.validator import MAX_FAULTS, Outcome, Run

_REACH = 200  # characters around a misspelt tag in which the rest of a longer tag is looked for


def parse_text(
    text: str, table: TokenTable, automaton: Automaton, most: int = MAX_FAULTS
) -> tuple[Episode | None, list[Finding]]:
    """Reads serialised text, in any layout, into an Episode; None when a finding is an error.

    Implements "Layouts" and "Content" of grammar/mypt/SPEC.md. With `most` 0, one error is enough.
    """
    broken = [
        Finding(f.code, f.message, span=(f.offset or 0, (f.offset or 0) + 1)) for f in faults(text)
    ]
    events = list(with_tags(lex(text, table), table))
    outcome = Run(table, automaton).check(events, most)
    if outcome.findings and most:
        outcome = _with_cut_tags(events, outcome, table, automaton) or _with_near_misses(
            events, outcome, table, automaton
        )
    episode, findings = build(outcome, table)
    white = [] if episode is None else [*spacing(outcome, edits=True), *_gaps(text, outcome, table)]
    return (None if broken else episode), [*broken, *findings, *white]


def spacing(outcome: Outcome, *, edits: bool = False) -> list[Finding]:
    """Returns findings for tags read with other white space (MYP230) or in other words (MYP233).

    With `edits`, spans are those of a text, and each finding has a fix.
    """
    out = []
    for event in outcome.events:
        if event.at.span is None or not (event.spaced or event.other):
            continue
        code, fixed = "MYP230", "write the white space of the format"
        how = "stands with other white space around it than the format writes"
        if event.other:
            code, fixed = "MYP233", "write the spelling of the format"
            how = "is spelled in another way than the format writes it"
        fix = Fix(fixed, True, edits=((*event.at.span, event.text),)) if edits else None
        message, hint = f"`{event.text.strip()}` {how}", f"write {event.text!r}"
        out.append(Finding(code, message, "", event.at.span, help=hint, fix=fix))
    return out


def _with_cut_tags(
    events: list[Event], outcome: Outcome, table: TokenTable, automaton: Automaton
) -> Outcome | None:
    """Reads cut tags as the tags they were meant to be; None if that explains no finding."""
    cut_tags = cuts(events, table, automaton)
    if not cut_tags:
        return None
    again = Run(table, automaton).check(mended(events, cut_tags))
    # What follows a tag that ends early was refused for that reason alone.
    explained = {
        events[c.last + 1].at.span if c.last + 1 < len(events) else (c.span[1],) * 2
        for c in cut_tags
        if not c.split
    }
    remaining = [f for f in again.findings if f.span not in explained]
    if len(remaining) >= len(outcome.findings):
        return None
    again.findings = sorted([*remaining, *map(_name_cut, cut_tags)], key=_rank)
    return again


def _rank(finding: Finding) -> tuple[tuple[int, int], str]:
    return finding.span or (0, 0), finding.code


def _name_cut(cut: Cut) -> Finding:
    tag = cut.tag.shown
    if not cut.split:
        hint = f"write `{tag}` in full"
        return Finding("MYP801", f"`{tag}` is cut short", "", cut.span, help=hint)
    fix = Fix(f"write `{tag}` in one piece", True, edits=((*cut.span, cut.spelling),))
    message = f"`{tag}` is torn: the block around it was closed and opened again there"
    hint = "remove what is between, and write the tag in one piece"
    return Finding("MYP802", message, "", cut.span, help=hint, fix=fix)


def _with_near_misses(
    events: list[Event], outcome: Outcome, table: TokenTable, automaton: Automaton
) -> Outcome:
    """Reads misspelt tags as the tags they were meant to be, if that explains a finding."""
    spelled: list[Event] = []
    findings = []
    for event in events:
        miss = near_miss(event.text, table) if event.terminal == TEXT else None
        at, start = 0, event.at.extent[0]
        while miss is not None:
            tag, first, last = _corrected(event.text, at, miss, table)
            if first > at:
                place = Place("", (start + at, start + first))
                spelled.append(Event(TEXT, event.text[at:first], place))
            place = Place("", (start + miss.start, start + miss.end))
            spelled.append(tag._replace(at=place, spaced=False, other=False))
            message = f"`{miss.text}` is not a tag; did you mean `{miss.tag}`?"
            findings.append(Finding("MYP303", message, "", place.span, help="correct the spelling"))
            at = last
            miss = near_miss(event.text, table, at)
        if at < len(event.text):
            place = Place("", (start + at, start + len(event.text)))
            spelled.append(event._replace(text=event.text[at:], at=place))
    again = Run(table, automaton).check(spelled) if findings else outcome
    if len(again.findings) >= len(outcome.findings):
        return outcome
    again.findings = sorted(again.findings + findings, key=_rank)
    return again


def _corrected(text: str, at: int, miss: NearMiss, table: TokenTable) -> tuple[Event, int, int]:
    """Returns the tag that a correction makes, and where the tag begins and ends in `text`.

    White space and attributes on either side may belong to it.
    """
    begin = max(at, miss.start - _REACH)
    window = text[begin : miss.start] + miss.tag + text[miss.end : miss.end + _REACH]
    tag = next(e for e in lex(window, table) if e.terminal != TEXT)
    first, last = tag.at.extent
    return tag, begin + first, begin + last + len(miss.text) - len(miss.tag)


def build(outcome: Outcome, table: TokenTable) -> tuple[Episode | None, list[Finding]]:
    """Returns the Episode of accepted events with its JSON bodies; None when there is an error."""
    findings, messages = list(outcome.findings), list[Message]()
    if not any(f.severity == "error" for f in findings):
        messages, body_findings = messages_of(outcome.events, table)
        findings += body_findings
    if any(f.severity == "error" for f in findings):
        return None, findings
    return Episode(table.name, tuple(messages)), findings


def messages_of(events: Sequence[Event], table: TokenTable) -> tuple[list[Message], list[Finding]]:
    """Returns messages of accepted events, JSON bodies in canonical form, and findings."""
    findings: list[Finding] = []
    messages: list[Message] = []
    at = 0
    while at < len(events):
        event = events[at]
        kind = table.terminals[event.terminal].opens
        if not kind:
            messages.append(Message(event.terminal.lower(), (), event.attrs, event.at))
            at += 1
            continue
        end = _end_of(events, at, table)
        quotes = table.terminals[event.terminal].quotes
        parts = _parts(events[at + 1 : end], kind, quotes, table, findings)
        closer = table.terminals[events[end].terminal] if end < len(events) else None
        closed = closer is not None and kind in closer.ends and not closer.mark
        attrs = _attrs(events, at, end) if closed else event.attrs
        messages.append(Message(kind, tuple(parts), attrs, event.at))
        at = end + closed
    if any(f.severity == "error" for f in findings):
        return messages, findings
    messages, call_findings = canonical_calls(messages, table)
    return messages, [*findings, *call_findings]


def _end_of(events: Sequence[Event], at: int, table: TokenTable) -> int:
    """Returns where the block that opens at `at` ends: at its tag, or where the next one begins."""
    stack: Stack = (table.terminals[events[at].terminal].opens,)
    for pos in range(at + 1, len(events)):
        terminal = table.terminals.get(events[pos].terminal)
        if terminal is None:
            continue
        around = before_tag(stack, table, terminal)
        stack = after_tag(stack, terminal, table)
        if not (around and stack):
            return pos
    return len(events)


def _attrs(events: Sequence[Event], start: int, end: int) -> Attrs:
    """Returns the attributes of a block: those of its opening tag, and those of its closing one."""
    first, last = events[start].attrs, events[end].attrs
    return (*dict.fromkeys(first + last),) if last else first


def _parts(
    events: Sequence[Event], kind: str, quotes: bool, table: TokenTable, findings: list[Finding]
) -> list[Part]:
    parts: list[Part] = []
    pos = 0
    while pos < len(events):
        event = events[pos]
        if event.terminal == TEXT:
            opener = table.openers[kind]
            parts.append(_part("text", opener.body, event, (), table, findings))
            pos += 1
            continue
        opener = table.terminals[event.terminal]
        end = _end_of(events, pos, table)
        inner = events[pos + 1 : end]
        text = Event(TEXT, "".join(e.text for e in inner), _join(inner, event))
        body = "text" if quotes else opener.body
        part = _part(opener.opens, body, text, event.attrs, table, findings)
        closed = end < len(events) and opener.opens in table.terminals[events[end].terminal].ends
        if closed and events[end].attrs:
            part = replace(part, attrs=_attrs(events, pos, end))
        parts.append(replace(part, name_at=event.at) if event.attrs else part)
        pos = end + closed
    return parts


def _part(
    kind: str, body: str, event: Event, attrs: Attrs, table: TokenTable, findings: list[Finding]
) -> Part:
    text = event.text
    if body != "text":
        result = read_body(text, body, table.literals, event.at)
        findings += result.findings
        text = text if result.text is None else result.text
    return Part(kind, text, attrs, event.at)


def _join(events: Sequence[Event], opener: Event) -> Place:
    if not events or events[0].at.span is None or events[-1].at.span is None:
        return opener.at
    return Place(opener.at.pointer, (events[0].at.span[0], events[-1].at.span[1]))


def _gaps(text: str, outcome: Outcome, table: TokenTable) -> list[Finding]:
    """Returns a finding (MYP224) for white space between blocks that no layout has.

    Such white space means nothing, but only a known layout comes back byte for byte.
    """
    if not outcome.gaps:
        return []
    spans = [g.at.extent for g in outcome.gaps]
    joints = len(top_level(outcome.events, table)) - 1
    inner = spans[0][0] > 0 and spans[-1][1] < len(text)
    uniform = any({g.text for g in outcome.gaps} == {s} for s in table.layouts.values())
    if inner and len(spans) == joints and uniform:
        return []
    odd = next((g for g in outcome.gaps if g.text not in table.layouts.values()), outcome.gaps[0])
    fix = Fix("write the compact layout", True, edits=tuple((*span, "") for span in spans))
    message = "white space between blocks means nothing and does not come back: "
    message += "this is not a layout of the format"
    hint = f"layouts: {', '.join(table.layouts)}"
    return [Finding("MYP224", message, *odd.at, help=hint, fix=fix)]
