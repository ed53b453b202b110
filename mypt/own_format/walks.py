"""Makes legal episodes of a dialect by chance, from nothing but its automaton and token table."""

import json
import random
import re
from collections import deque
from dataclasses import replace
from functools import cached_property

from mypt_spec import Dialect, Episode
from mypt_spec.adapters.messages import Messages
from mypt_spec.bodies.definitions import layout_of, write_definitions
from mypt_spec.bodies.json_body import ID, call_text, counting
from mypt_spec.episode import Attrs, Event, Message, Part, Place, as_read
from mypt_spec.parser import messages_of
from mypt_spec.states import open_blocks
from mypt_spec.table import CALLS, LISTS, TEXT, Terminal

_STEPS = 30  # tags and texts of an episode, after which it makes for an end
_TEXTS = ("Hello.", "Two\nlines, \u00e4\u6f22\U0001f600.", "a < b", '"quoted"', "x" * 300)
_BODIES = {
    "json": '{"a": [1, "two"]}',
    "arguments": '{"a": 1}',
    "calls": '[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]',
    "tool_tags": "<function>\n<name>f</name>\n<parameters>\n</parameters>\n</function>",
}
_TOOLS = [{"type": "function", "function": {"name": "f"}}]
_VALUES = ("f", "functions.f", "1", "call_1", "abcdefghi", "a", "text")  # of attributes


class Walks:
    """Walks through the automaton by chance, to an accepting state."""

    def __init__(self, dialect: Dialect, chance: random.Random) -> None:
        self.dialect, self.chance = dialect, chance

    def episodes(self, count: int) -> tuple[list[Episode], str]:
        """Returns (episodes, why): legal episodes, none twice, and why another was not."""
        episodes: dict[str, Episode] = {}
        why = "every tag needs an attribute that no example fits"
        for _ in range(2 * count):
            events = self._walk()
            if events is None or len(episodes) == count:
                continue
            messages, findings = messages_of(events, self.dialect.table)
            adapter, last = self.dialect.adapter, messages[-1]
            kinds = adapter.prompted({}) - {part.kind for part in last.parts}
            is_read = isinstance(adapter, Messages) and not adapter.options.only_prompts
            if is_read and last.role not in self.dialect.table.marks:  # the last answer has these
                messages[-1] = replace(last, parts=(*(Part(k, "") for k in kinds), *last.parts))
            episode = Episode(self.dialect.name, tuple(map(self._with_options, messages)))
            episode = as_read(episode, self.dialect.table)
            findings = [
                f for f in [*findings, *self.dialect.validate(episode)] if f.severity == "error"
            ]
            if findings:
                why = f"{findings[0].code} {findings[0].message}"
            else:
                episodes.setdefault(repr(episode), episode)
        return list(episodes.values()), why

    def _with_options(self, message: Message) -> Message:
        """Returns a message with the texts of the template: of options, after tools, a suffix."""
        adapter, opener = self.dialect.adapter, self.dialect.table.openers.get(message.role)
        first, *rest = message.parts or (Part("text", ""),)
        if opener is not None and opener.suffix and first.kind == "text":
            message = replace(message, parts=(Part("text", first.text + opener.suffix), *rest))
        if isinstance(adapter, Messages) and adapter.after_tools and message.parts[1:]:
            tools, text, *rest = message.parts
            if tools.kind == adapter.paths["tools"][-1]:
                text = replace(text, text=adapter.after_tools + text.text)
                return replace(message, parts=(tools, text, *rest))
        if not isinstance(adapter, Messages) or not adapter.options.always:
            return message
        if (message.role,) != adapter.paths[adapter.options.block][:1]:
            return message
        head = Part("text", adapter.options.text({}, tools=False))
        parts = () if adapter.options.system else message.parts
        return replace(message, parts=(head, *parts))

    def _walk(self) -> list[Event] | None:
        """Returns the events of an episode; None where no way leads to an end."""
        machine, state = self.dialect.automaton, self.dialect.automaton.start
        events: list[Event] = []
        if state not in self._ends:
            return None
        while True:
            row = {t: s for t, s in self._ways[state].items() if s in self._ends}
            if events and events[-1].terminal == TEXT:
                row.pop(TEXT, None)
            if machine.accepting(state) and (
                not row or len(events) > _STEPS or self.chance.random() < 0.5
            ):
                return events
            if not row:
                return None
            if len(events) > _STEPS:
                least = min(self._ends[s] for s in row.values())
                row = {t: s for t, s in row.items() if self._ends[s] == least}
            terminal = self.chance.choice(sorted(row))
            events.append(self._event(terminal, state, events))
            state = row[terminal]

    @cached_property
    def _ways(self) -> list[dict[str, int]]:
        """Returns the steps from each state whose terminals can be spelled."""
        terminals = self.dialect.table.terminals
        spelled = {n for n, t in terminals.items() if self._attrs(t) is not None} | {TEXT}
        return [
            {terminal: following for terminal, following in row.items() if terminal in spelled}
            for row in self.dialect.automaton.steps
        ]

    def _attrs(self, terminal: Terminal) -> Attrs | None:
        """Returns values for the attributes of a terminal; None where no example fits one."""
        out = []
        for name, pattern in terminal.patterns.items():
            value = next((v for v in _VALUES if re.fullmatch(pattern, v)), None)
            if value is None:
                return None
            out.append((name, value))
        return tuple(out)

    def _event(self, terminal: str, state: int, before: list[Event]) -> Event:
        if terminal == TEXT:
            return Event(TEXT, self._text(state), Place())
        tags = self.dialect.table.terminals
        tag, attrs = tags[terminal], self._attrs(tags[terminal]) or ()
        if counting(self.dialect.table):
            number = sum(tags[e.terminal].opens == tag.opens for e in before if e.attrs)
            attrs = tuple((key, str(number) if key == ID else value) for key, value in attrs)
        return Event(terminal, tag.spell(attrs), Place(), attrs)

    def _text(self, state: int) -> str:
        """Returns content that the innermost open block may hold."""
        blocks = open_blocks(self.dialect.automaton, self.dialect.table)[state]
        body = self.dialect.table.openers[blocks[-1]].body if blocks else "text"
        if body == "json" and self.dialect.adapter.quoted:
            return json.dumps(self.chance.choice(_TEXTS), ensure_ascii=False)
        if body in (*CALLS, *LISTS) and body not in _BODIES:
            return call_text("f", {"a": 1}, self.dialect.table.literals, body)
        if layout_of(body):
            return write_definitions(_TOOLS, body, self.dialect.table.literals)
        return _BODIES.get(body.removeprefix("ordered_")) or self.chance.choice(_TEXTS)

    @cached_property
    def _ends(self) -> dict[int, int]:
        machine = self.dialect.automaton
        before: dict[int, list[int]] = {}
        for state, row in enumerate(self._ways):
            for following in row.values():
                before.setdefault(following, []).append(state)
        distances = {s: 0 for s in range(len(machine.steps)) if machine.accepting(s)}
        queue = deque(distances)
        while queue:
            here = queue.popleft()
            for state in before.get(here, ()):
                if state not in distances:
                    distances[state] = distances[here] + 1
                    queue.append(state)
        return distances
