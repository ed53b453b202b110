"""Cuts text or token ids into events. The only place that reads spellings.

Input is serialised text, or ids with their vocabulary; output are events with their spans, whether
they are legal or not. The grammar decides on them later.

Theory of operation. One regular expression (`TokenTable.lexer`) has a named group for each
terminal, the longest spelling first. It finds the next tag; all before it is one text run. A tag
that begins with white space is found by what follows the white space, and `_led` looks back for the
rest. A closing tag that begins with text and goes on as another tag does is read in its own block
alone: elsewhere its text is content, and the rest is the other tag.

Ids are cut by the same code. Each special id becomes one lone surrogate, its *sentinel*; runs of
ordinary ids are decoded. In the joined string, tags of a single id are found by their sentinels
alone. Text that spells such a tag is only text there, so text cannot become structure (invariant
6); tags of plain text are found as in a text. Offsets are mapped back to tokens.

>>> import mypt_spec
>>> mypt = mypt_spec.dialect("mypt")
>>> text = "<myPT_user>Say <myPT_eot></myPT_user>"
>>> [(e.terminal, e.text, e.at.span) for e in mypt.lex(text)]  # doctest: +NORMALIZE_WHITESPACE
[('USER_OPEN', '<myPT_user>', (0, 11)), ('TEXT', 'Say ', (11, 15)), ('EOT', '<myPT_eot>', (15, 25)),
 ('USER_CLOSE', '</myPT_user>', (25, 37))]

The ids of the same words, with the mark as ordinary tokens, keep it as text:

>>> tokens = mypt.tokenizer
>>> ids = [tokens.special["<myPT_user>"], *tokens.encode("Say <myPT_eot>")]
>>> events, findings = lex_ids(ids, mypt.table, tokens.decode_bytes, tokens.ordinary)
>>> [(e.terminal, e.text) for e in events]
[('USER_OPEN', '<myPT_user>'), ('TEXT', 'Say <myPT_eot>')]
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mypt_spec.bodies.strict_json import shortened
from mypt_spec.episode import Attrs, Event, Place
from mypt_spec.findings import Finding
from mypt_spec.states import Stack, after_tag, before_tag
from mypt_spec.table import STRAY, TEXT, IdSet, Piece, Terminal, TokenTable, pattern


def lex(
    text: str,
    table: TokenTable,
    last: str = "",
    inside: Stack = (),
    *,
    sentinels: bool = False,
    span: Callable[[int, int], tuple[int, int]] = lambda start, end: (start, end),
) -> Iterator[Event]:
    """Yields the tags and text runs of a text; spans count code points.

    `last` is the terminal of the event before the text, "" where it is the beginning, and `inside`
    are the blocks that are open there. If single-id tags are `sentinels`, content cannot spell
    them. `span` maps a start and an end in the text to those that an event has.
    """
    at = 0
    lexer = table.id_lexer if sentinels else table.lexer
    special = table.sentinels if sentinels else None
    matches = _in_blocks(text, lexer, table, inside) if table.late else lexer.finditer(text)
    for match in matches:
        start, end = match.span()
        name = match.lastgroup or ""
        terminal, other = table.terminals.get(name), False
        if terminal is None:
            terminal, other = table.spelled(name)
        if name in table.followed:
            start = _followed(text, at, start, name, table, last)
            terminal = table.terminals[table.join(name, TEXT if start > at else last)]
        elif terminal is not None and terminal.led:
            start = _led(text, at, start, terminal.spelling[0])
        yield from _run(text, at, start, last, table, span, terminal)
        at, last = end, terminal.name if terminal is not None else name
        if terminal is None:
            spelled = {mark: tag for tag, mark in table.sentinels.items()}.get(match[0], match[0])
            yield Event(STRAY, spelled, Place("", span(start, end)))
            continue
        attrs: Attrs = ()
        if terminal.patterns or terminal.spelling[0].kind == "attr":
            attrs = tuple(
                (k.split("__", 1)[1], v)
                for k, v in match.groupdict().items()
                if v is not None and k.startswith(name + "__")
            )
        spaced = not other and terminal.spaced and text[start:end] != terminal.spell(attrs, special)
        if terminal.trail and end == len(text) and (table.bare_end or (spaced and sentinels)):
            # Where a model stops, or a conversation ends.
            spaced = text[start:end] + terminal.trail != terminal.spell(attrs, special)
        place = Place("", span(start, end))
        spelling = terminal.spell(attrs)
        yield Event(terminal.name, spelling, place, attrs, spaced=spaced, other=other)
    yield from _run(text, at, len(text), last, table, span)


def _run(
    text: str, at: int, end: int, last: str, table: TokenTable,
    span: Callable[[int, int], tuple[int, int]], following: Terminal | None = None,
) -> Iterator[Event]:  # fmt: skip
    """Yields a run of text after the tag `last`, and the tags before it that have no spelling.

    One that goes on with a block is there before what the model writes, too: the tag `following`.
    """
    if (again := table.resumed.get(last)) is not None:
        tag = following if at == end else None
        if tag.by_model and tag.opens != again.opens if tag else text[at:end].strip():
            yield Event(again.name, "", Place("", span(at, at + 1)))
    if at >= end:
        return
    if not last or any(mark.name == last for mark in table.marks.values()):
        for terminal in table.terminals.values():
            if not (terminal.spelling or terminal.again):
                yield Event(terminal.name, "", Place("", span(at, at + 1)))
    yield Event(TEXT, text[at:end], Place("", span(at, end)))


lex_sentinels = partial(lex, sentinels=True)


def lex_ids(
    ids: Sequence[object],
    table: TokenTable,
    decode: Callable[[Sequence[int]], bytes],
    ordinary: IdSet,
) -> tuple[list[Event], list[Finding]]:
    """Cuts token ids into tags and text runs; spans count tokens.

    Ids in `ordinary` are text. Returns events and findings: ids that mean nothing (padding,
    end-of-text, negative, too large) and items that are no integers (MYP503), and runs that are not
    UTF-8 (MYP504).
    """
    numbers = [_integer(item) for item in ids]
    first, stop, others = ordinary.parts
    by_id = {i: table.sentinels[s] for s, i in table.special.items() if i >= 0}
    findings: list[Finding] = []
    chunks: list[str] = []
    offsets: list[int] = []  # where each chunk begins in the joined string
    tokens: list[tuple[int, int]] = []  # the tokens of each chunk
    length = at = 0
    while at < len(numbers):
        start = at
        token = numbers[at]
        if first <= token < stop or token in others:
            while at < len(numbers) and (first <= numbers[at] < stop or numbers[at] in others):
                at += 1
            raw = decode(numbers[start:at])
            chunk = raw.decode("utf-8", errors="replace")
            if "\ufffd" in chunk and chunk.encode() != raw:
                message = f"tokens {start}..{at} are not UTF-8: a character is cut in half"
                findings.append(Finding("MYP504", message, span=(start, at)))
        else:
            at += 1
            chunk = by_id.get(token, "")
            if not chunk:
                tags = f"tags are {min(by_id)}-{max(by_id)}, " if by_id else ""
                message = f"id {_abbreviated(ids[start])} means nothing in {table.name}: {tags}"
                message += f"ordinary text is {ordinary}"
                findings.append(Finding("MYP503", message, span=(start, at)))
                continue
        chunks.append(chunk)
        offsets.append(length)
        tokens.append((start, at))
        length += len(chunk)

    def span(a: int, b: int) -> tuple[int, int]:
        return tokens[bisect_right(offsets, a) - 1][0], tokens[bisect_right(offsets, b - 1) - 1][1]

    events = list(lex_sentinels("".join(chunks), table, span=span))
    stops = {*table.stops, *(table.terminals[name].spelling[0].value for name in table.stops)}
    if events and stops & {*events[-1][:2]} and events[-1].at.span == (at - 1, at):
        events.pop()  # a model stopped there, perhaps at the beginning of a longer tag
    return events, findings


def _integer(item: object) -> int:
    """Returns an item of a list of ids as an int, or -1 for an item that is no integer."""
    try:
        return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        return -1


def _abbreviated(item: object) -> str:
    try:
        return shortened(" ".join(str(item).split()), 60)
    except ValueError:  # Python writes no integer of thousands of digits
        return f"(an {type(item).__name__} that is too large to show)"


def _in_blocks(
    text: str, lexer: re.Pattern[str], table: TokenTable, inside: Stack
) -> Iterator[re.Match[str]]:
    """Yields the tags of a text, those of `table.late` only where the block is open."""
    at, special = 0, table.sentinels if lexer is table.id_lexer else None
    while match := lexer.search(text, at):
        at, name = match.end(), match.lastgroup or ""
        terminal = table.spelled(name)[0]
        if terminal is not None:
            around = before_tag(inside, table, terminal)
            if name in table.late and not {*around[-1:]} & {*terminal.closing}:
                if table.late[name]:
                    at = match.start() + table.late[name]
                    continue
                own = table.closers.get(around[-1], terminal) if around else terminal
                form = re.compile(f"(?P<{own.name}>{pattern(own, special)})")
                if alike := form.match(text, match.start()):
                    match, at, terminal = alike, alike.end(), own
            inside = after_tag(inside, terminal, table)
        yield match


def _followed(text: str, at: int, start: int, name: str, table: TokenTable, last: str) -> int:
    """Returns where a tag begins that has other white space where it follows something."""
    joined = table.joined.get(name)
    if after_text := table.placed.get((name, "text")):
        begun = _led(text, at, start, after_text.spelling[0])
        if at + (last != TEXT) <= begun < start:
            return begun
        if joined is None or last == TEXT or text[at:start] != joined.spelling[0].value:
            return start
    return start if joined is None else _led(text, at, start, joined.spelling[0])


def _led(text: str, at: int, start: int, piece: Piece) -> int:
    """Returns where a tag begins whose spelling starts with white space; `start` is after that.

    The white space from `at` to `start` is the tag's, unless there is nothing else and the tag
    before `at` ends with white space.
    """
    if piece.exact:
        return start - len(piece.value) if text.endswith(piece.value, at, start) else start
    begin = len(text[at:start].rstrip()) + at
    return start if begin == at and at and text[at - 1].isspace() else begin
