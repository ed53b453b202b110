"""Looks for fixes that a finding alone does not show.

Input are a record or text and its findings; output are the findings, some with a fix. Such fixes
are for tags typed where the record has a field, messages in place of a field, and tags that are
missing, misspelt or doubled in a text.

Nothing here knows what may follow what. A candidate is made, read again, and kept if its finding is
gone and no other has come. Only text that the model itself writes is ever read as structure: text
of users, documents and tools stays text (invariant 6).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, product
from typing import Any

from mypt_spec.bodies.strict_json import value_at
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode, Event, Message, Part, Place, events_of
from mypt_spec.findings import Finding, Fix
from mypt_spec.lexer import lex
from mypt_spec.parser import messages_of
from mypt_spec.patch import apply
from mypt_spec.table import TEXT
from mypt_spec.validator import Run

# Limits of the search.
_MOST = 8  # findings of one line or text for which a fix is looked for
_TAGS = 100  # tags and texts of one content: there are many ways to move them
_EVENTS = 1000  # tags and texts of a record: every way to read a content anew reads all of them
_LONGEST = 1 << 18  # code points of a text
_Found = list[Finding]


def candidates_of(
    dialect: Dialect,
    record: Any,
    episode: Episode | None,
    findings: _Found,
    check: Callable[[Any], _Found],
    *,
    proposals: bool = False,
) -> _Found:
    """Returns the findings of a record, with fixes for some that have none.

    `check` returns all findings of another record. With `proposals`, beyond the first few, messages
    that belong into the next one and tags that are written anyway have their fix without a proof.
    """
    if all(f.fix is not None or f.severity != "error" for f in findings) or not isinstance(
        record, dict
    ):
        return findings
    own = None if episode is None else _Own(dialect, episode)
    # Findings of one place have the same candidates.
    made: dict[str, tuple[list[Fix], Iterator[Fix]]] = {}

    def candidates(finding: Finding) -> Iterator[Fix]:
        known, more = made.setdefault(
            finding.pointer, ([], _for_record(dialect, record, own, finding.pointer))
        )
        yield from known
        for fix in more:
            known.append(fix)
            yield fix

    found = _with_fixes(findings, candidates, record, check)
    return [_proposed(dialect, record, own, f) for f in found] if proposals else found


@dataclass(frozen=True)
class _Own:
    """An episode, and the texts in it that the model writes: those in blocks that are trained."""

    dialect: Dialect
    episode: Episode

    @cached_property
    def events(self) -> list[Event]:
        return list(events_of(self.episode.messages, self.dialect.table))

    @cached_property
    def parts(self) -> dict[str, dict[Place, str]]:
        """Returns the texts and their places, by pointer."""
        out: dict[str, dict[Place, str]] = {}
        for message in self.episode.messages:
            opener = self.dialect.table.openers.get(message.role)
            if opener is None or not opener.by_model:
                continue
            for part in message.parts:
                if part.kind == "text":
                    out.setdefault(part.at.pointer, {})[part.at] = part.text
        return out

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {}
        for at, event in enumerate(self.events):
            if event.terminal == TEXT and event.at in self.parts.get(event.at.pointer, ()):
                out.setdefault(event.at.pointer, []).append(at)
        return out

    def typed(self, pointer: str) -> Iterator[tuple[int, list[Event], bool]]:
        """Yields (position, events, safe) for each text at a pointer into which tags are typed.

        The position is that of the text among the episode's events; the events are those that it
        spells; `safe` is whether the tags are spelled right.
        """
        texts = self.parts.get(pointer, {}).values()
        if not any(next(_readings(text, self.dialect), None) for text in texts):
            return
        for at in self._places.get(pointer, ()):
            event = self.events[at]
            for text, safe in _readings(event.text, self.dialect):
                spelled = [_within(e, event) for e in islice(lex(text, self.dialect.table), _TAGS)]
                if len(spelled) < _TAGS:
                    yield at, spelled, safe


def _proposed(d: Dialect, record: dict[str, Any], own: _Own | None, finding: Finding) -> Finding:
    """Returns a finding with the fix that it would have if one were looked for."""
    schema, pointer = d.adapter.SCHEMA, finding.pointer
    place = re.match(rf"/{re.escape(schema.messages)}/(\d+)(?:/|$)", pointer)
    if finding.fix is not None or finding.severity != "error" or place is None:
        return finding
    fixes = (
        _folded(record, schema.messages, schema.folded, int(place[1]))
        if own is None
        else chain.from_iterable(_dropped(own.events, *t, record) for t in own.typed(pointer))
    )
    fix = next(fixes, None)
    return finding if fix is None else replace(finding, fix=fix)


def text_candidates(
    dialect: Dialect, text: str, findings: _Found, check: Callable[[str], _Found]
) -> _Found:
    """Returns the findings of a serialised text, with fixes for some that have none."""
    if len(text) > _LONGEST or all(f.fix is not None or f.severity != "error" for f in findings):
        return findings
    return _with_fixes(findings, lambda f: _for_text(dialect, text, f), text, check)


def _with_fixes(
    findings: _Found,
    candidates: Callable[[Finding], Iterator[Fix]],
    data: Any,
    check: Callable[[Any], _Found],
) -> _Found:
    before = Counter(f.code for f in findings)
    tried: dict[str, bool] = {}
    out: _Found = []
    looked = 0
    for finding in findings:
        fix = None
        if finding.fix is None and finding.severity == "error" and looked < _MOST:
            looked += 1
            fix = next(
                (
                    f
                    for f in candidates(finding)
                    if _helps(f, finding.code, before, data, check, tried)
                ),
                None,
            )
        out.append(replace(finding, fix=fix) if fix is not None else finding)
    return out


def _helps(
    fix: Fix,
    code: str,
    before: Counter[str],
    data: Any,
    check: Callable[[Any], _Found],
    tried: dict[str, bool],
) -> bool:
    key = f"{code} {fix!r}"
    if key not in tried:
        try:
            now = Counter(f.code for f in check(apply(data, fix)))
            tried[key] = now < before and now[code] < before[code]
        except ValueError:
            tried[key] = False
    return tried[key]


def _for_record(
    d: Dialect, record: dict[str, Any], own: _Own | None, pointer: str
) -> Iterator[Fix]:
    schema = d.adapter.SCHEMA
    place = re.match(rf"/{re.escape(schema.messages)}/(\d+)(?:/|$)", pointer)
    if place is None:
        return
    index = int(place[1])
    if own is None:
        yield from _folded(record, schema.messages, schema.folded, index)
        return
    base = f"/{schema.messages}/{index}"
    for at, spelled, safe in own.typed(pointer):
        yield from _dropped(own.events, at, spelled, safe, record)
        if len(own.events) <= _EVENTS:
            events = [*own.events[:at], *spelled, *own.events[at + 1 :]]
            yield from _reread(d, own.episode, events, base, index, record, safe)


def _readings(text: str, d: Dialect) -> Iterator[tuple[str, bool]]:
    """Yields the text as it is, and with its misspelt tags corrected, which is a guess."""
    if d.table.literals.search(text):
        yield text, True
    at, out = 0, []
    while (found := near_miss(text, d.table, at)) is not None:
        out += [text[at : found.start], found.meant]
        at = found.end
    if out:
        yield "".join([*out, text[at:]]), False


def _within(event: Event, run: Event) -> Event:
    return event._replace(at=Place(run.at.pointer, event.at.span))


def _folded(
    record: dict[str, Any], key: str, folded: dict[str, tuple[str, str]], index: int
) -> Iterator[Fix]:
    """Yields the fix that makes a message the field of the next message."""
    messages = record.get(key)
    if not isinstance(messages, list) or index + 1 >= len(messages):
        return
    message, following = messages[index], messages[index + 1]
    if (
        not isinstance(message, dict)
        or not isinstance(following, dict)
        or set(message) != {"role", "content"}
    ):
        return
    role, field = folded.get(str(message["role"]), ("", ""))
    if following.get("role") == role and field not in following:
        base = f"/{key}/{index}"
        patch = (
            {"op": "remove", "path": base},
            {"op": "add", "path": f"{base}/{field}", "value": message["content"]},
        )
        yield Fix(f'make it the "{field}" of the {role} message behind it', True, patch=patch)


def _dropped(
    whole: list[Event], at: int, spelled: list[Event], safe: bool, record: Any
) -> Iterator[Fix]:
    """Yields the fix that leaves out tags at the end of a text, if the format writes them there."""
    following = []
    for event in whole[at + 1 :]:
        if event.terminal == TEXT or event.terminal == whole[at].terminal:
            break
        following.append(event.terminal)
    kept = len(spelled)
    while kept and spelled[kept - 1].terminal != TEXT:
        kept -= 1
    tags = [e.terminal for e in spelled[kept:]]
    rest = iter(following)
    if not tags or not kept or not all(tag in rest for tag in tags):
        return
    pointer, span = whole[at].at
    given = value_at(record, pointer)
    if not isinstance(given, str):
        return
    first = span[0] if span else 0
    text = (
        given[:first]
        + "".join(e.text for e in spelled[:kept])
        + given[first + len(whole[at].text) :]
    )
    shown = "".join(e.text for e in spelled[kept:])
    yield Fix(
        f"leave out `{shown}`: it is written there anyway",
        safe,
        patch=({"op": "replace", "path": pointer, "value": text},),
    )


def _reread(
    d: Dialect,
    episode: Episode,
    events: list[Event],
    base: str,
    index: int,
    record: Any,
    safe: bool,
) -> Iterator[Fix]:
    """Yields fixes that read tags typed into a content as the structure that they spell.

    That may be a thought, a citation, a call or a result.
    """
    own = {e.at.pointer for e in events if e.at.pointer.startswith(f"{base}/")}
    marks = [
        i
        for i, e in enumerate(events)
        if e.terminal in {m.name for m in d.table.marks.values()} and e.at.pointer in own
    ]
    ways = chain(
        [(events, safe)],
        ((moved, False) for moved in _moved(events, own, d)),
        [([e for i, e in enumerate(events) if i not in marks], False)],
    )
    for candidate, exact in ways:
        if Run(d.table, d.automaton, spaces=False).check(candidate).findings:
            continue
        messages, _ = messages_of(candidate, d.table)
        same = [m.role for m in messages] == [m.role for m in episode.messages]
        fix = _written(d, episode, messages, base, index, record)
        if fix is not None:
            yield Fix(fix[0], exact and same, patch=fix[1])


def _moved(events: list[Event], own: set[str], d: Dialect) -> Iterator[list[Event]]:
    """Yields the events with an inner block moved to the front of its outer one, or before it."""
    opened: list[int] = []
    for at, event in enumerate(events):
        if event.at.pointer not in own:
            continue
        terminal = d.table.terminals.get(event.terminal)
        if terminal is None:
            continue
        if terminal.opens:
            opened.append(at)
        elif terminal.closes and opened:
            start = opened.pop()
            block = events[start : at + 1]
            for place in (opened[-1] + 1, opened[-1]) if opened else ():
                if place < start:
                    yield [*events[:place], *block, *events[place:start], *events[at + 1 :]]


def _written(
    d: Dialect, episode: Episode, messages: list[Message], base: str, index: int, record: Any
) -> tuple[str, tuple[dict[str, Any], ...]] | None:
    """Returns title and patch that make one message of the record what `messages` hold.

    Other messages are not looked at.
    """
    meta = {(m.role, m.at.pointer): m.meta for m in episode.messages}
    plain = [
        replace(
            m,
            meta=meta.get((m.role, m.at.pointer), {}),
            parts=m.parts if m.at.pointer.startswith(f"{base}/") else _tame(m, d),
        )
        for m in messages
    ]
    try:
        new = d.write(Episode(d.name, tuple(plain)))[d.adapter.SCHEMA.messages]
    except ValueError:
        return None
    old = record[d.adapter.SCHEMA.messages]
    count = len(new) - len(old) + 1
    if count < 1:
        return None
    mine, first = new[index : index + count], old[index]
    patch: list[dict[str, Any]] = [
        {"op": "remove", "path": f"{base}/{key}"} for key in first if key not in mine[0]
    ]
    for key, value in mine[0].items():
        if key not in first or first[key] != value:
            patch.append(
                {
                    "op": "replace" if key in first else "add",
                    "path": f"{base}/{key}",
                    "value": value,
                }
            )
    for offset, message in enumerate(mine[1:], 1):
        patch.append(
            {
                "op": "add",
                "path": f"/{d.adapter.SCHEMA.messages}/{index + offset}",
                "value": message,
            }
        )
    if not patch:
        return None
    fields = [key for key in mine[0] if key not in first]
    if count > 1:
        roles = ", ".join(m["role"] for m in mine)
        return f"make it {count} messages: {roles}", tuple(patch)
    if mine[0]["role"] != d.adapter.SCHEMA.aliases.get(first["role"], first["role"]):
        return f'make it a message of role "{mine[0]["role"]}"', tuple(patch)
    named = " and ".join(f'"{key}"' for key in fields)
    return f"move it to {named}" if named else "put it where it belongs", tuple(patch)


def _tame(message: Message, d: Dialect) -> tuple[Part, ...]:
    """Returns parts that any record can hold.

    They have other words for a text with tags in it, which belongs to another finding.
    """
    return tuple(
        replace(p, text="x") if p.kind == "text" and d.table.literals.search(p.text) else p
        for p in message.parts
    )


def _for_text(d: Dialect, text: str, finding: Finding) -> Iterator[Fix]:
    """Yields fixes that write the expected tag, correct the spelling, or delete the tag."""
    if finding.span is None:
        return
    start, end = finding.span
    miss = near_miss(text[start:end], d.table)
    if miss is not None:
        yield Fix(
            f"write `{miss.meant}`",
            False,
            edits=((start + miss.start, start + miss.end, miss.meant),),
        )
        return
    missing = [
        t
        for t in d.table.terminals.values()
        if t.shown in finding.expected and not t.opens and not t.patterns
    ]
    # A line end before the place may be the layout's.
    places = (start, start - 1) if text.endswith("\n", 0, start) else (start,)
    for terminal, place in product(missing, places):
        yield Fix(f"insert `{terminal.shown}`", False, edits=((place, place, terminal.spell()),))
    tag = text[start:end]
    if d.table.literals.fullmatch(tag):
        # A mark twice in a row means no more than one.
        twice = tag in {mark.shown for mark in d.table.marks.values()} and text[
            :start
        ].rstrip().endswith(tag)
        yield Fix(f"delete `{tag}`", twice, edits=((start, end, ""),))
