"""Reads blocks that models write without their tags: in Llama 3, a call that is bare JSON.

Input: events of a text or of ids, and the token table, which names such a block (`untagged`);
output: the events with its tags. A text that is alone in the block around, and a whole body, is
that block; and what closes the block around closes it, too. Both are marked as other spellings.

>>> import mypt_spec
>>> d = mypt_spec.dialect("llama3")
>>> text = d.table.openers["assistant"].spell() + '{"name": "f", "parameters": {}}<|eot_id|>'
>>> [event.terminal for event in d.lex(text)]
['ASSISTANT_OPEN', 'CALL_OPEN', 'TEXT', 'CALL_CLOSE']
"""

from collections.abc import Iterable, Iterator

from mypt_spec.bodies.json_body import read_body
from mypt_spec.episode import Event, Place
from mypt_spec.states import Stack, after_tag, before_tag
from mypt_spec.table import TEXT, TokenTable


def is_body(text: str, table: TokenTable) -> bool:
    """Returns whether a text is a whole body of the block that models write without tags."""
    if not table.untagged or not text.lstrip().startswith("{"):
        return False
    body = read_body(text, table.openers[table.untagged].body, table.literals, Place())
    return not any(finding.severity == "error" for finding in body.findings)


def with_tags(events: Iterable[Event], table: TokenTable) -> Iterator[Event]:
    """Yields events with the tags that such blocks lack."""
    if not table.untagged:
        yield from events
        return
    kind, items, inside = table.untagged, list(events), Stack()
    opener, closer = table.openers[kind], table.closers[kind]
    for before, event, after in zip([None, *items], items, [*items[1:], None], strict=False):
        terminal = table.terminals.get(event.terminal)
        if terminal is None:
            around = table.terminals.get(before.terminal) if before else None
            then = table.terminals.get(after.terminal) if after else None
            alone = around and then and around.opens in closer.shared and around.opens in then.ends
            if event.terminal == TEXT and alone and is_body(event.text, table):
                span = event.at.span and (event.at.span[0],) * 2
                at = event.at._replace(span=span)
                yield Event(opener.name, opener.spell(), at, other=True)
                inside = after_tag(inside, opener, table)
        else:
            open_blocks = before_tag(inside, table, terminal)
            if open_blocks[-1:] == (kind,) and {*terminal.ends} & {*closer.shared}:
                other = event.other or terminal is not closer
                event = event._replace(terminal=closer.name, text=closer.spell(), other=other)
                terminal = closer
            inside = after_tag(inside, terminal, table)
        yield event
