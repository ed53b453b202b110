"""Holds one conversation as data: Episode, Message and Part, and the events that they are made of.

A *message* is a top-level block or a mark (such as the end of a turn); a *part* is a piece of a
message: a run of text, or a nested block. An *event* is a tag or a run of text. Parser, adapters
and serializer meet here, so that none knows of another. Metadata (`language`, keys that begin with
`_`) and places do not count for equality: the format's text has no room for them, so no text could
return them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, zip_longest
from typing import Any, NamedTuple

from mypt_spec.states import Stack, after_tag, before_tag
from mypt_spec.table import CALLS, TEXT, TokenTable

Attrs = tuple[tuple[str, str], ...]


class Place(NamedTuple):
    """Where something was read.

    `pointer` is an RFC 6901 pointer into the record; `span` is inside the string there, or inside
    the text.
    """

    pointer: str = ""
    span: tuple[int, int] | None = None

    @property
    def extent(self) -> tuple[int, int]:
        """Returns the span; (0, 0) where none is known."""
        return self.span or (0, 0)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message. `kind` is "text" or the name of a nested block.

    `text` is content; of a JSON body, it is canonical JSON. `at` is where the text was read;
    `name_at`, of a call, is where its name was read, if elsewhere.
    """

    kind: str
    text: str
    attrs: Attrs = ()
    at: Place = field(default=Place(), compare=False, repr=False)
    name_at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """A top-level block, whose name is `role`, or a mark such as "eot", which has no parts.

    Adjacent texts are one part, so that equal content makes equal messages. `name_at` is where the
    name among the `attrs` was read, if elsewhere.
    """

    role: str
    parts: tuple[Part, ...] = ()
    attrs: Attrs = ()
    at: Place = field(default=Place(), compare=False, repr=False)
    meta: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    name_at: Place | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.parts) > 1:
            object.__setattr__(self, "parts", merge_text(self.parts))

    @property
    def text(self) -> str:
        """Returns the plain text of the message, without nested blocks."""
        return "".join(p.text for p in self.parts if p.kind == "text")


@dataclass(frozen=True, slots=True)
class Episode:
    """One conversation in one dialect.

    Equal episodes have the same text, and with equal options in `meta` the same token ids.
    """

    dialect: str
    messages: tuple[Message, ...]
    language: str | None = field(default=None, compare=False)
    meta: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


class Event(NamedTuple):
    """A tag or a text run. Of a tag, `text` is its spelling.

    `at` is where it was read; `name_at`, of the body of a call, is where the tool's name was read.
    `spaced` says that a tag was read with other white space than its spelling has, `other` that it
    was read in another spelling than the one that is written.
    """

    terminal: str
    text: str
    at: Place = Place()
    attrs: Attrs = ()
    name_at: Place | None = None
    spaced: bool = False
    other: bool = False

    @property
    def blank(self) -> bool:
        """Returns whether it is a run of white space; between blocks this is a gap."""
        return self.terminal == TEXT and self.text.isspace()


def merge_text(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Returns the parts with adjacent texts joined and empty ones dropped.

    One empty text stays where there is no other text: a finding that the block needs text points to
    it.
    """
    parts = tuple(parts)
    before = ""
    for part in parts:
        if part.kind == "text" and (before == "text" or not part.text):
            break
        before = part.kind
    else:
        return parts
    out: list[Part] = []
    for kind, group in groupby(parts, key=lambda part: part.kind):
        run = list(group)
        if kind == "text" and len(run) > 1:
            run = [Part("text", "".join(p.text for p in run), at=run[0].at)]
        out += run
    some = any(p.kind == "text" and p.text for p in out)
    return tuple(p for p in out if p.kind != "text" or p.text or not some)


def as_read(episode: Episode, table: TokenTable) -> Episode:
    """Returns an Episode with what a model wrote as a record is read: stripped, with a prefix."""

    def parts(message: Message) -> Iterator[Part]:
        inner = [table.openers[part.kind] for part in message.parts if part.kind != "text"]
        beside = next((opener.strip for opener in inner if opener.body in CALLS), "")
        for part in message.parts or (Part("text", ""),):
            opener = table.openers[message.role if part.kind == "text" else part.kind]
            opener = replace(opener, strip=beside) if beside and part.kind == "text" else opener
            text = opener.prefix + opener.stripped(part.text.removeprefix(opener.prefix))
            text = text if opener.body_by_model and opener.body not in CALLS else part.text
            if text or part.kind != "text":
                yield replace(part, text=text)

    marks, messages = table.marks, episode.messages
    read = (m if m.role in marks else replace(m, parts=(*parts(m),)) for m in messages)
    return replace(episode, messages=(*read,))


def events_of(messages: Iterable[Message], table: TokenTable, last: str = "") -> Iterator[Event]:
    """Yields the events of messages, in order. Raises ValueError as `blocks_of` does."""
    return chain.from_iterable(blocks_of(messages, table, last))


def blocks_of(
    messages: Iterable[Message], table: TokenTable, last: str = ""
) -> Iterator[list[Event]]:
    """Yields the events of each message, in order; `last` is the terminal before them, if any.

    Raises ValueError for a role or part that the dialect does not have, for a mark with parts, and
    for a part inside a block that ends at the next tag.
    """
    items, kind = list(messages), ""
    for message, following in zip_longest(items, items[1:]):
        again = message.role == kind and table.closers[kind].name in table.resumed
        kind = message.role * (message.role in table.closers)
        mark = table.marks.get(message.role)
        if mark is None:
            after = table.marks.get(following.role) if following is not None else None
            closed = after is None or message.role not in after.ends
            role, attrs, at = message.role, message.attrs, message.at
            events = _block(role, attrs, message.parts, at, table, closed=closed, again=again)
            events = _joined(events, table, last) if table.followed or table.placed else events
            last = events[-1].terminal
            yield events
            continue
        if message.parts:
            got = f"got {len(message.parts)} parts"
            raise ValueError(f"`{mark.shown}` is a mark and holds nothing, {got}")
        yield [Event(mark.name, mark.spell(message.attrs), message.at, message.attrs)]


def _joined(events: list[Event], table: TokenTable, last: str) -> list[Event]:
    """Returns the events of a block, each tag as it is written after what is before it: `last`."""
    out: list[Event] = []
    for event in events:
        name = table.join(event.terminal, out[-1].terminal if out else last)
        if name != event.terminal:
            text = table.terminals[name].spell(event.attrs)
            event = event._replace(terminal=name, text=text)
        out.append(event)
    return out


def _block(
    kind: str,
    attrs: Attrs,
    parts: tuple[Part, ...],
    at: Place,
    table: TokenTable,
    *,
    closed: bool = True,
    again: bool = False,
) -> list[Event]:
    opener = table.between[kind] if again else table.openers.get(kind)
    if opener is None:
        names = ", ".join([*table.openers, *table.marks])
        raise ValueError(f"{table.name} has no block or mark {kind!r}; it has {names}")
    if table.leaders and parts and not again:
        opener = table.leaders.get((kind, parts[0].kind), opener)
    closer, opening = table.closers.get(kind), attrs
    if attrs and closer is not None and closer.patterns:
        opening = tuple(a for a in attrs if a[0] in opener.patterns or a[0] not in closer.patterns)
    out = [Event(opener.name, opener.spell(attrs), at, opening)]
    end = at
    again = False
    for part, after in zip_longest(parts, parts[1:]):
        if part.kind != "text":
            if closer is None and not table.openers[kind].stops:
                message = f"`{opener.shown}` ends where the next tag stands, so it holds no block"
                raise ValueError(f"{message} {part.kind!r}")
            inner = (Part("text", part.text, (), part.at, part.name_at),)
            ends = after is None or after.kind != part.kind or part.kind not in table.between
            out += _block(part.kind, part.attrs, inner, part.at, table, closed=ends, again=again)
            again = not ends
            continue
        if part.text:
            out.append(Event(TEXT, part.text, part.at, (), part.name_at))
        else:
            end = part.at  # an empty field is noticed when the block closes: point to the field
    # One tag may be the end of both: it closes both, or the conversation may end there.
    last = table.closers.get(parts[-1].kind) if parts else None
    if closer is not None and last is not None:
        closed &= not (last.bare.endswith(closer.bare) or (last.both and kind in last.ends))
    if closer is not None and closed:
        closing = tuple(a for a in attrs if a[0] in closer.patterns) if attrs else ()
        out.append(Event(closer.name, closer.spell(attrs), end, closing))
    return out


def patterns_of(kind: str, table: TokenTable) -> dict[str, str]:
    """Returns the patterns of the attributes that the tags of a block, or a mark, have."""
    opener, closer = table.openers.get(kind) or table.marks[kind], table.closers.get(kind)
    return opener.patterns | closer.patterns if closer is not None else opener.patterns


def top_level(events: Iterable[Event], table: TokenTable) -> list[list[Event]]:
    """Returns the events grouped by top-level block or mark."""
    blocks: list[list[Event]] = []
    stack: Stack = ()
    for event in events:
        terminal = table.terminals.get(event.terminal)
        stack = stack if terminal is None else before_tag(stack, table, terminal)
        if not stack:
            blocks.append([])
        blocks[-1].append(event)
        stack = stack if terminal is None else after_tag(stack, terminal, table)
    return blocks
