r"""Reads what a model wrote as text, and repairs what the format does not allow there.

Input: the ids of a prompt, and the text that a server returned for it. Output: ids, and a
`Repaired` wherever something was put in or left out. Only what is certain is repaired: a missing
tag to which one shortest way of tags leads, a tag that may not stand there, the closing brackets of
a call that ends after a whole value. A call that was cut inside a value stays as it is, and ends
the turn.

>>> import mypt_spec
>>> from mypt_infer.run_format import format_of
>>> from mypt_infer.endpoint.connect import Said
>>> d = mypt_spec.dialect("mypt")
>>> before = "<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user><myPT_assistant>"
>>> said = Said('<myPT_toolcall>{"name": "f", "x": {"y": 1}', True)
>>> ids = [i for e in d.lex(before) for i in run_ids([e], (), d.table, d.tokenizer)[0]]
>>> for drawn in read_text(format_of("mypt"), ids, before, said, frozenset()):
...     if isinstance(drawn, Repaired):
...         print(drawn.message)
a call was cut: '}' was put in at its end
the text ends in a block: '</myPT_toolcall>' was put in
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from mypt_infer.controller.events import Repaired
from mypt_infer.endpoint.connect import EndpointError, Said
from mypt_infer.run_format import Format
from mypt_spec import Dialect
from mypt_spec.damage.cut_tags import STRINGS, in_string
from mypt_spec.encoder import run_ids
from mypt_spec.episode import Event
from mypt_spec.lexer import lex_ids
from mypt_spec.states import open_blocks
from mypt_spec.table import STRAY, TEXT

_log = logging.getLogger(__name__)
_SHOWN = 60
# A JSON value that is whole here: a number might have gone on.
_WHOLE = re.compile(r'(?:["}\]]|true|false|null)\s*\Z')


def prompt_text(dialect: Dialect, ids: Sequence[int]) -> str:
    """Returns the text of ids. Raises EndpointError where a server would read other tags in it."""
    tokenizer, table = dialect.tokenizer, dialect.table
    text = tokenizer.decode(list(ids))
    there = [e.terminal for e in lex_ids(ids, table, tokenizer.decode_bytes, tokenizer.ordinary)[0]]
    if [e.terminal for e in dialect.lex(text)] != there:
        raise EndpointError(
            "a text of the conversation spells a tag of the format; a server that takes no ids "
            "would read it as one. Take the message back, or use a server that takes ids"
        )
    return text


def read_text(
    form: Format, ids: Sequence[int], prompt: str, said: Said, forbidden: frozenset[str]
) -> Iterator[int | Repaired]:
    """Yields the ids of what a model said after a prompt, and what is repaired in it.

    `forbidden` are kinds of block that the model may not open. What it says after its turn is not
    taken, and a warning is logged.
    """
    events = _after(form.dialect, prompt, said.text)
    yield from read_events(form, ids, events, ended=said.ended, forbidden=forbidden)


def read_events(
    form: Format,
    ids: Sequence[int],
    events: Iterable[Event],
    *,
    ended: bool,
    forbidden: frozenset[str],
) -> Iterator[int | Repaired]:
    """Yields the ids of tags and texts that a model said, as `read_text` does.

    `ended`: the model has ended its answer, and not a limit.
    """
    reader = _Reader(form, ids, forbidden)
    for event in events:
        if not reader.read(event):
            break
    reader.end(ended=ended)
    yield from reader.out


def _after(dialect: Dialect, prompt: str, text: str) -> Iterator[Event]:
    """Yields the events of a text that follows a prompt."""
    for event in dialect.lex(prompt + text):
        begin, end = event.at.span or (0, 0)
        if end > len(prompt) and event.terminal == TEXT and begin < len(prompt):
            yield Event(TEXT, event.text[len(prompt) - begin :])
        elif end > len(prompt):
            yield event


class _Reader:
    """Reads events from a state of the grammar on. `out` is what has become certain."""

    def __init__(self, form: Format, ids: Sequence[int], forbidden: frozenset[str]) -> None:
        self.form, self.out = form, list[int | Repaired]()
        d = form.dialect
        self._stacks = open_blocks(d.automaton, d.table)
        openers = {t.name for t in d.table.terminals.values() if t.opens in forbidden}
        self._writes = {s: names - openers for s, names in form.model_writes.items()}
        self._state = d.automaton.start
        self._opener: Event | None = None  # of a call
        self._body = ""
        for event in lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)[0]:
            self._step(event)
        # Events that were not yet made ids, and the state before them.
        self._pending, self._from = list[Event](), self._state

    def read(self, event: Event) -> bool:
        """Takes an event; returns whether the model may go on."""
        own, name = self._writes[self._state], event.terminal
        if not own or (name not in own and self.form.awaits(self._state)):
            _log.warning("left out what the model wrote after its turn: %.80r", event.text)
            return False
        if name not in own:
            if name == TEXT and event.text.isspace():
                return True  # a gap
            way = self._way(name)
            if way is None:
                return self._leave_out(event)
            shown = "a text" if name == TEXT else repr(event.text)
            self._put(way, f"before {shown}")
        self._take(event)
        return True

    def end(self, *, ended: bool) -> None:
        """Completes a text that the model has ended, and not a limit.

        A call, a reference or a thought lacks its end then. The tag by which the model ends its
        turn is in no server's text: that it has ended says so.
        """
        form, table = self.form, self.form.dialect.table
        inner = {*form.calls, *form.citing, *form.thinking}
        while ended and (stack := self._stacks[self._state]) and stack[-1] in inner:
            closer = table.closers.get(stack[-1])
            if closer is None or closer.name not in self._writes[self._state]:
                break
            self._put([Event(closer.name, closer.spell())], "", "the text ends in a block")
        if ended and (self.out or self._pending) and not form.awaits(self._state):
            way = form.ending(self._state) if self._writes[self._state] else [TEXT]
            if all(n in table.terminals and table.terminals[n].by_model for n in way):
                for name in way:
                    self._take(Event(name, table.terminals[name].spell()))
        self._flush()

    def _way(self, name: str) -> list[Event] | None:
        """Returns the shortest way of closing tags and headers to where an event may come."""
        form, table = self.form, self.form.dialect.table
        steps = form.dialect.automaton.steps
        shut = {*form.calls, *form.citing, *form.thinking}
        ways: dict[int, list[Event]] = {self._state: []}
        waiting = deque([self._state])
        while waiting:
            here = waiting.popleft()
            for tag in sorted(self._writes[here] - {TEXT}):
                terminal, there = table.terminals[tag], steps[here][tag]
                if terminal.opens in shut or there in ways:
                    continue
                ways[there] = [*ways[here], Event(tag, terminal.spell())]
                if name in self._writes[there]:
                    return ways[there]
                if not form.awaits(there):
                    waiting.append(there)
        return None

    def _leave_out(self, event: Event) -> bool:
        """Leaves out a tag; returns False at one that only the system writes."""
        table = self.form.dialect.table
        terminal = table.terminals.get(event.terminal)
        expected = " or ".join(table.describe(self._writes[self._state]))
        mine = event.terminal == STRAY or (
            terminal is not None
            and (terminal.by_model or any(event.terminal in w for w in self._writes.values()))
        )
        rest = "it was" if mine else "it and all after it were"
        self._note((), f"{event.text[:_SHOWN]!r} where only {expected} may stand: {rest} left out")
        return mine

    def _put(self, way: Sequence[Event], where: str, why: str = "a tag is missing") -> None:
        """Puts in tags that the model did not write."""
        for tag in way:
            self._mend(tag)
            before = self._state
            self._step(tag)
            ids = self._ids([tag], before)
            place = f" {where}" if where else ""
            self._note(tuple(ids), f"{why}: {tag.text!r} was put in{place}")

    def _take(self, event: Event) -> None:
        self._mend(event)
        self._pending.append(event)
        self._step(event)

    def _mend(self, event: Event) -> None:
        """Completes the body of a call that the next tag closes, if only brackets are missing."""
        table = self.form.dialect.table
        terminal = table.terminals.get(event.terminal)
        opener = self._opener
        if opener is None or terminal is None or event.terminal == TEXT:
            return
        if table.terminals[opener.terminal].opens not in terminal.ends:
            return
        if self.form.read_calls(opener, self._body, "")[0]:
            return
        missing = brackets(self._body)
        if missing and self.form.read_calls(opener, self._body + missing, "")[0]:
            ids = self.form.dialect.tokenizer.encode(missing)
            self._note(tuple(ids), f"a call was cut: {missing!r} was put in at its end")

    def _note(self, ids: tuple[int, ...], message: str) -> None:
        self._flush()
        self.out.append(Repaired(ids, message))

    def _flush(self) -> None:
        """Makes ids of the events that wait."""
        if self._pending:
            self.out += self._ids(self._pending, self._from)
        self._pending, self._from = [], self._state

    def _ids(self, events: Sequence[Event], before: int) -> list[int]:
        """Returns the ids of events that come in a state."""
        d = self.form.dialect
        return [
            i for ids in run_ids(events, self._stacks[before], d.table, d.tokenizer) for i in ids
        ]

    def _step(self, event: Event) -> None:
        self._state = self.form.dialect.automaton.step(self._state, event.terminal)
        terminal = self.form.dialect.table.terminals.get(event.terminal)
        if event.terminal == TEXT:
            self._body += event.text
        elif terminal is not None:
            calling = terminal.opens in self.form.calls
            self._opener, self._body = (event if calling else None), ""


def brackets(text: str) -> str:
    """Returns the brackets that a JSON text lacks at its end; "" if more than these is missing.

    >>> brackets('{"a": [true'), brackets('{"a": 1'), brackets('{"a": "b')
    (']}', '', '')
    """
    if not _WHOLE.search(text) or in_string(text):
        return ""
    missing = ""
    for character in STRINGS.sub("", text):
        if character in "{[":
            missing = "]}"[character == "{"] + missing
        elif character in "}]" and missing:
            missing = missing[1:]
    return missing
