"""Reads what events have from the messages of a record: weights, and the message itself.

Input: the messages of an Episode, whose metadata may have a weight: a number, or for parts of the
text `{"parts": [[begin, end, weight], ...], "rest": weight}`, in code points. Output: weights of
events, texts in pieces, and numbers of messages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mypt_spec.episode import Event, Message, blocks_of
from mypt_spec.memo import lazy_re
from mypt_spec.record_schema import PARTS, REST, WEIGHT, WEIGHTS
from mypt_spec.table import TEXT, TokenTable

_MESSAGE = lazy_re("(?:/messages/[0-9]+)?")
Cuts = Mapping[int, list[tuple[float, str]]]
"""The number of an event -> its text in pieces, each with its weight."""


def weights_of(
    messages: Sequence[Message], table: TokenTable, text: str = "content"
) -> list[float] | None:
    """Returns the weight of each event of messages; None where no message has one.

    Blocks that were read from one message of a record share its weight, as do the marks after it.
    A text with parts, which is under the key `text` of its message, has 1 if any of them is
    trained: `cut_texts` has the weights of these.
    """
    if not any(map(own_weights, messages)):
        return None
    out = []
    for event, weight, source in _weighed(messages, table):
        if pieces := _pieces(event, weight, f"{source}/{text}"):
            out.append(float(any(share for share, _ in pieces)))
        else:
            out.append(float(weight.get(REST, 1) if isinstance(weight, dict) else weight))
    return out


def cut_texts(messages: Sequence[Message], table: TokenTable, text: str) -> Cuts:
    """Returns the texts of events in pieces whose weights differ from those of their events."""
    events = enumerate(_weighed(messages, table))
    cut = {n: _pieces(event, weight, f"{at}/{text}") for n, (event, weight, at) in events}
    return {n: pieces for n, pieces in cut.items() if pieces}


def own_weights(message: Message) -> list[Any]:
    """Returns the weights that messages of a record have whose block this is."""
    weight, several = message.meta.get(WEIGHT), message.meta.get(WEIGHTS, {})
    return [weight, *several.values()] if weight is not None else [*several.values()]


def _weighed(messages: Sequence[Message], table: TokenTable) -> Iterator[tuple[Event, Any, str]]:
    """Yields each event with the weight and the pointer of its message.

    In a block of several messages, a closing tag belongs to the last.
    """
    sources = [m.at.pointer.rpartition("/")[0] for m in messages]
    by_source: dict[str, Any] = {}
    for message, source in zip(messages, sources, strict=True):
        own = message.meta.get(WEIGHT)
        by_source |= {source: own} if source and own is not None else {}
        by_source |= message.meta.get(WEIGHTS, {})
    before: Any = 1.0
    for message, source, events in zip(messages, sources, blocks_of(messages, table), strict=True):
        weight, several = message.meta.get(WEIGHT), WEIGHTS in message.meta
        for event in events:
            terminal = table.terminals.get(event.terminal)
            if several and not (terminal and terminal.closes):
                match = _MESSAGE.match(event.at.pointer)
                source = match[0] if match else source
            usual = before if message.role in table.marks else 1.0
            if event.terminal not in table.stops:  # these end the message before
                before = by_source.get(source, usual) if weight is None else weight
            yield event, before, source


def _pieces(event: Event, weight: Any, pointer: str) -> list[tuple[float, str]]:
    """Returns the text of an event in parts of its weight, the first one with what the block has
    before the text of the record; [] if it has no parts.
    """
    if not isinstance(weight, dict) or event.terminal != TEXT or event.at.pointer != pointer:
        return []
    offset, size, rest = event.at.extent[0], len(event.text), weight.get(REST, 1)
    pieces: list[tuple[float, str]] = []
    at = 0
    for begin, end, share in weight[PARTS]:
        first, last = (min(max(n and n - offset, at), size) for n in (begin, end))
        pieces += [(float(rest), event.text[at:first]), (float(share), event.text[first:last])]
        at = last
    return [(share, text) for share, text in [*pieces, (float(rest), event.text[at:])] if text]


def message_numbers(events: Iterable[Event], table: TokenTable, messages: str) -> list[int]:
    """Returns the number of the message in a record that each event was read from, -1 for none.

    `messages` is the key of the messages. None have the marks before the first block, and what was
    read from another key, such as definitions of tools. If a block holds several messages, its
    closing tag belongs to the last of them; a text of several belongs to the first of these.
    """
    place = re.compile(f"/{re.escape(messages)}/([0-9]+)")
    out: list[int] = []
    begun, last = False, -1
    match, pointer = None, ""
    for event in events:
        if event.at.pointer != pointer:  # many come from one place
            pointer = event.at.pointer
            match = place.match(pointer)
        terminal = table.terminals.get(event.terminal)
        begun = begun or terminal is None or bool(terminal.opens)
        number = int(match[1]) if match and begun else -1
        if number >= 0 and terminal is not None and terminal.closes:
            number = last
        last = number if number >= 0 else last
        out.append(number)
    return out
