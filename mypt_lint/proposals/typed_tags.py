"""Makes fixes for tags typed into a text that the model writes.

Input are an Episode, its record and the pointer of a text; output are patches that write as fields
of the record, or as messages, what the tags spell. None is proved.

Nothing here knows what may follow what. A text is cut into events as if it were serialised; where
the automaton takes these events in place of the text, as they are or with a block moved, the
messages that they make are written as a record again. The answer `<myPT_think>T</myPT_think>A`, for
example, is four events. The automaton takes them after `<myPT_assistant>`, so the fix writes
`{"think": "T", "content": "A"}`.

Only the events of one message are read anew: the state before it is known, and the state after it
says whether the automaton takes the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, takewhile
from typing import Any

from mypt_spec.bodies.strict_json import value_at
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode, Event, Message, Part, Place, events_of
from mypt_spec.findings import Fix
from mypt_spec.lexer import lex
from mypt_spec.parser import messages_of
from mypt_spec.table import TEXT

_TAGS = 100  # tags and texts of one text: there are many ways to move them
_Patch = tuple[dict[str, Any], ...]
_EVENTS = 1000  # tags and texts of one message: every way to read it anew reads all of them


@dataclass(frozen=True)
class TypedTags:
    """An episode, its record, and the tags typed into blocks that are trained."""

    dialect: Dialect
    record: dict[str, Any]
    episode: Episode
    _ends: dict[tuple[int, int], bool] = field(default_factory=dict)

    @cached_property
    def legal(self) -> bool:
        """Returns whether the automaton takes the episode, whatever is typed into its texts."""
        last = self._states[-1]
        return len(self._states) > len(self._events) and self.dialect.automaton.accepting(last)

    def fixes(self, pointer: str) -> Iterator[Fix]:
        """Yields all ways to mend the text at a pointer, the likeliest first; none is proved."""
        for at, spelled, safe in self._typed(pointer):
            yield from self._dropped(at, spelled, safe)
            yield from self._reread(at, spelled, safe)

    def dropped(self, pointer: str) -> Iterator[Fix]:
        """Yields the quickest fixes: those that leave out tags which the format writes anyway."""
        for at, spelled, safe in self._typed(pointer):
            yield from self._dropped(at, spelled, safe)

    @cached_property
    def _events(self) -> list[Event]:
        return list(events_of(self.episode.messages, self.dialect.table))

    @cached_property
    def _states(self) -> list[int]:
        """Returns the state before each event, and after the last, as far as none is refused."""
        machine = self.dialect.automaton
        states = [machine.start]
        for event in self._events:
            following = machine.steps[states[-1]].get(event.terminal)
            if following is None:
                break
            states.append(following)
        return states

    @cached_property
    def _places(self) -> dict[str, set[Place]]:
        """Returns by pointer the texts that the model writes."""
        openers = self.dialect.table.openers
        places: dict[str, set[Place]] = {}
        for message in self.episode.messages:
            if message.role in openers and openers[message.role].body_by_model:
                for part in message.parts:
                    if part.kind == "text":
                        places.setdefault(part.at.pointer, set()).add(part.at)
        return places

    @cached_property
    def _texts(self) -> dict[str, list[int]]:
        indices: dict[str, list[int]] = {}
        for at, event in enumerate(self._events):
            if event.terminal == TEXT and event.at in self._places.get(event.at.pointer, ()):
                indices.setdefault(event.at.pointer, []).append(at)
        return indices

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """Returns the range of events of each message of the record, by its pointer."""
        spans: dict[str, tuple[int, int]] = {}
        for at, event in enumerate(self._events):
            message = _message(event)
            spans[message] = spans.get(message, (at, at))[0], at + 1
        return spans

    def _typed(self, pointer: str) -> Iterator[tuple[int, list[Event], bool]]:
        """Yields (position, events, safe) for each text at a pointer into which tags are typed.

        The position is that of the text among the episode's events; the events are those that it
        spells; `safe` is whether the tags are spelled right.
        """
        for at in self._texts.get(pointer, ()) if pointer in self._places else ():
            run = self._events[at]
            for text, safe in _readings(run.text, self.dialect):
                pieces = islice(lex(text, self.dialect.table), _TAGS)
                spelled = [e._replace(at=Place(pointer, e.at.span)) for e in pieces]
                if len(spelled) < _TAGS:
                    yield at, spelled, safe

    def _dropped(self, at: int, spelled: list[Event], safe: bool) -> Iterator[Fix]:
        """Yields the fix that leaves out tags at the end of a text, if the format writes them."""
        text = self._events[at]
        count = len(spelled)
        while count and spelled[count - 1].terminal != TEXT:
            count -= 1
        after = (event.terminal for event in islice(self._events, at + 1, None))
        following = takewhile(lambda terminal: terminal != TEXT, after)
        if count in (0, len(spelled)) or not all(e.terminal in following for e in spelled[count:]):
            return
        pointer, span = text.at
        value = value_at(self.record, pointer)
        if not isinstance(value, str):
            return
        first = span[0] if span else 0
        new = "".join(e.text for e in spelled[:count])
        dropped = "".join(e.text for e in spelled[count:])
        value = value[:first] + new + value[first + len(text.text) :]
        rows = self.dialect.table.terminals  # a text may speak of the tag, or begin a turn
        is_meant = new.endswith((" ", "\t")) or any(rows[e.terminal].opens for e in spelled[count:])
        yield Fix(
            f"leave out `{dropped}`: it is written there anyway",
            safe and not is_meant,
            patch=({"op": "replace", "path": pointer, "value": value},),
        )

    def _reread(self, at: int, spelled: list[Event], safe: bool) -> Iterator[Fix]:
        """Yields fixes that read tags in a content as thoughts, citations, calls or results."""
        message = _message(spelled[0])
        first, last = self._spans[message]
        inside = [*self._events[first:at], *spelled, *self._events[at + 1 : last]]
        if len(inside) > _EVENTS:
            return
        for way, exact in self._ways(inside, message, safe):
            if self._takes(way, first, last):
                events = [*self._events[:first], *way, *self._events[last:]]
                messages, _ = messages_of(events, self.dialect.table)
                same = [m.role for m in messages] == [m.role for m in self.episode.messages]
                title, patch = self._written(messages, message)
                if patch:
                    yield Fix(title, exact and same, patch=patch)

    def _ways(
        self, inside: list[Event], message: str, safe: bool
    ) -> Iterator[tuple[list[Event], bool]]:
        """Yields (events, safe) for each way to read a message; a guess is not safe.

        An inner block may move to the front of its outer one, or before it; marks may go.
        """
        yield inside, safe
        opened: list[int] = []
        for at, event in enumerate(inside):
            terminal = self.dialect.table.terminals.get(event.terminal)
            if terminal is None or _message(event) != message:
                continue
            if terminal.opens:
                opened.append(at)
            elif terminal.closes and opened:
                start = opened.pop()
                block = inside[start : at + 1]
                for place in (opened[-1] + 1, opened[-1]) if opened else ():
                    if place < start:
                        moved = [*inside[:place], *block, *inside[place:start], *inside[at + 1 :]]
                        yield moved, False
        marks = {mark.name for mark in self.dialect.table.marks.values()}
        without = [e for e in inside if e.terminal not in marks or _message(e) != message]
        if len(without) < len(inside):
            yield without, False

    def _takes(self, events: list[Event], first: int, last: int) -> bool:
        terminals = (event.terminal for event in events)
        start = self._states[first] if first < len(self._states) else None
        state = None if start is None else self.dialect.automaton.run(terminals, start)
        if state is None:
            return False
        if (last, state) not in self._ends:
            self._ends[last, state] = self._goes_on(last, state)
        return self._ends[last, state]

    def _goes_on(self, at: int, state: int) -> bool:
        machine = self.dialect.automaton
        for place in range(at, len(self._events)):
            if place < len(self._states) and self._states[place] == state:
                return self.legal
            following = machine.steps[state].get(self._events[place].terminal)
            if following is None:
                return False
            state = following
        return machine.accepting(state)

    def _written(self, messages: list[Message], message: str) -> tuple[str, _Patch]:
        """Returns title and patch that make one message of the record what `messages` hold.

        Other messages are not looked at. The patch is empty where there is none.
        """
        d, schema = self.dialect, self.dialect.adapter.SCHEMA
        meta = {(m.role, m.at.pointer): m.meta for m in self.episode.messages}
        plain = [
            replace(
                m,
                meta=meta.get((m.role, m.at.pointer), {}),
                parts=m.parts if m.at.pointer.startswith(f"{message}/") else _tame(m, d),
            )
            for m in messages
        ]
        try:
            new = d.write(Episode(d.name, tuple(plain)))[schema.messages]
        except ValueError:
            return "", ()
        old, index = self.record[schema.messages], int(message.rpartition("/")[2])
        count = len(new) - len(old) + 1
        if count < 1:
            return "", ()
        replacement, first = new[index : index + count], old[index]
        patch = [_operation("remove", message, key) for key in first if key not in replacement[0]]
        for key, value in replacement[0].items():
            if key not in first or first[key] != value:
                op = "replace" if key in first else "add"
                patch.append(_operation(op, message, key, value=value))
        for place, added in enumerate(replacement[1:], index + 1):
            patch.append(_operation("add", f"/{schema.messages}", str(place), value=added))
        return (_title(replacement, first, d), tuple(patch)) if patch else ("", ())


def _operation(op: str, owner: str, key: str, **value: Any) -> dict[str, Any]:
    return {"op": op, "path": f"{owner}/{key}", **value}


def _title(new: list[dict[str, Any]], old: dict[str, Any], d: Dialect) -> str:
    """Returns what a fix makes of a message of the record."""
    if len(new) > 1:
        return f"make it {len(new)} messages: {', '.join(m['role'] for m in new)}"
    if new[0]["role"] != d.adapter.SCHEMA.aliases.get(old["role"], old["role"]):
        return f'make it a message of role "{new[0]["role"]}"'
    keys = " and ".join(f'"{key}"' for key in new[0] if key not in old)
    return f"move it to {keys}" if keys else "put it where it belongs"


def _message(event: Event) -> str:
    steps = event.at.pointer.split("/", 3)
    return "/".join(steps[:3]) if len(steps) > 3 else ""


def _readings(text: str, d: Dialect) -> Iterator[tuple[str, bool]]:
    """Yields the text as it is, and with its misspelt tags corrected, which is a guess."""
    if d.table.literals.search(text):
        yield text, True
    at, out = 0, []
    while (near := near_miss(text, d.table, at)) is not None:
        out += [text[at : near.start], near.tag]
        at = near.end
    if out:
        yield "".join([*out, text[at:]]), False


def _tame(message: Message, d: Dialect) -> tuple[Part, ...]:
    """Returns parts that any record can hold: other words for a text that has tags in it."""
    return tuple(
        replace(p, text="x") if p.kind == "text" and d.table.literals.search(p.text) else p
        for p in message.parts
    )
