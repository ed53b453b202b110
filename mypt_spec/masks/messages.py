"""Tells which message of a record each event comes from.

Input: events with their places in the record. Output: a number for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mypt_spec.episode import Event
from mypt_spec.table import TokenTable


def message_numbers(events: Iterable[Event], table: TokenTable, messages: str) -> list[int]:
    """Returns the number of the message in a record that each event was read from, -1 for none.

    `messages` is the key of the messages. None have the marks before the first block, and what was
    read from another key, such as definitions of tools. If a block holds several messages, its
    closing tag belongs to the last of them.
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
        last = max(last, int(match[1])) if match and begun else last
        out.append(last if match and begun else -1)
    return out
