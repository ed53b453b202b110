"""Writes an Episode as text. The only serialiser.

Input is an Episode; output is its text in one of the dialect's layouts. Every text is proved by
reading it back, so that no content can become structure (invariant 1).
"""

from mypt_spec.automaton import Automaton
from mypt_spec.damage.untagged import with_tags
from mypt_spec.episode import Episode, Event, events_of, top_level
from mypt_spec.lexer import lex, lex_sentinels
from mypt_spec.table import TEXT, TokenTable
from mypt_spec.validator import Run

LAYOUTS = ("compact", "lines")  # what every dialect can be asked for


def legal_events(
    episode: Episode, table: TokenTable, automaton: Automaton, *, complete: bool = True
) -> list[Event]:
    """Returns the events of an Episode.

    Unless it is `complete`, a last block that may not end after what it holds, such as an answer
    after the result of a call, is left open. Raises ValueError, which names the place, when no
    legal text has these blocks in this order.
    """
    events = list(events_of(episode.messages, table))
    outcome = Run(table, automaton, spaces=False, complete=complete).check(events)
    last = table.terminals.get(events[-1].terminal) if events else None
    if outcome.findings and not complete and last is not None and last.closes:
        begun = events[:-1]
        if not Run(table, automaton, spaces=False, complete=False).check(begun).findings:
            return begun
    if outcome.findings:
        first = outcome.findings[0]
        where = f" at {first.pointer}" if first.pointer else ""
        expected = " or ".join(first.expected)
        raise ValueError(f"{first.code} {first.message}{where}; expected {expected}")
    return events


def to_text(
    episode: Episode, table: TokenTable, automaton: Automaton, *, layout: str = "compact"
) -> str:
    """Returns the text of an Episode in a layout of the table.

    A table that has only one layout writes it for any of `LAYOUTS`. Raises ValueError for an
    unknown layout, and for an Episode that no legal text can express. The latter is proved by
    reading the text back: content that spells a tag, or that joins with its neighbours into one,
    would return as structure.
    """
    if len(table.layouts) == 1 and layout in LAYOUTS:
        layout = next(iter(table.layouts))  # its tags hold the line ends, so there is one way only
    if layout not in table.layouts:
        raise ValueError(f"unknown layout {layout!r}; {table.name} has {', '.join(table.layouts)}")
    events = legal_events(episode, table, automaton)
    prove(events, table)
    events = ended(events, table)
    separator = table.layouts[layout]
    return separator.join("".join(e.text for e in block) for block in top_level(events, table))


def ended(events: list[Event], table: TokenTable) -> list[Event]:
    """Returns the events of a whole conversation, the last one as it is written there."""
    *others, last = events
    terminal = table.terminals.get(last.terminal) if table.bare_end else None
    trail = terminal.trail if terminal is not None else ""
    return [*others, last._replace(text=last.text.removesuffix(trail))]


def prove(events: list[Event], table: TokenTable, *, ids: bool = False) -> str:
    """Returns the compact text of events, once it is proved that reading it returns the events.

    With `ids` the proof is about the text's token ids, where content cannot spell a tag that is a
    single id. Raises ValueError, which names the place, when something else would be read.
    """
    joined = "".join(e.text for e in events)
    joined.encode()  # a lone surrogate, which is no text, raises a kind of ValueError
    other = misread(events, table, ids=ids)
    if other is not None:
        want, got = other
        where = f" at {want.at.pointer}" if want.at.pointer else ""
        message = f"content would be read as {got.terminal} {got.text[:60]!r}"
        raise ValueError(f"no text can say this: {message}{where}")
    return joined


def misread(
    events: list[Event], table: TokenTable, *, ids: bool = False
) -> tuple[Event, Event] | None:
    """Returns (event, what is read in its place) of the first event that is read as another.

    None where reading the compact text of the events, or with `ids` its token ids, returns them.
    """
    special = table.sentinels if ids else None
    texts = [
        e.text if e.terminal == TEXT else table.terminals[e.terminal].spell(e.attrs, special)
        for e in events
    ]
    actual = with_tags((lex_sentinels if ids else lex)("".join(texts), table), table)
    for got, want in zip(actual, _merged(events), strict=False):
        if (got.terminal, got.text, got.attrs) != (want.terminal, want.text, want.attrs):
            return want, got
    return None


def _merged(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        if out and event.terminal == out[-1].terminal == TEXT:
            out[-1] = out[-1]._replace(text=out[-1].text + event.text)
        else:
            out.append(event)
    return out
