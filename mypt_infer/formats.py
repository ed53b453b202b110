"""What running a conversation needs to know of a dialect, read off its grammar and its token table."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import mypt_spec
from mypt_spec.body import ARGUMENTS, NAME, read_body
from mypt_spec.episode import Attrs, Event, Message, Part, Place, events_of
from mypt_spec.jsonvalue import canonical
from mypt_spec.repair import open_blocks
from mypt_spec.tokens import CALLS, TEXT, Terminal, pattern
from mypt_spec.truncated import nestings

THINKING = frozenset(
    {"think", "reasoning", "self_reflection"}
)  # kinds of block that a user does not see
CITING = frozenset({"cite"})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that can be run. `raw_block` is its text, tags included."""

    name: str
    arguments: dict[str, Any]
    raw_block: str


@dataclass(frozen=True, eq=False)
class Format:
    """A dialect as one who runs it sees it. Get it with `of(name)`."""

    dialect: mypt_spec.Dialect

    @cached_property
    def calls(self) -> frozenset[str]:
        """The kinds of block that hold tool calls."""
        return frozenset(
            kind for kind, t in self.dialect.table.openers.items() if t.body in (*CALLS, "calls")
        )

    @cached_property
    def thinking(self) -> frozenset[str]:
        """The kinds of block in which the model thinks."""
        return THINKING & set(self.dialect.table.openers)

    @cached_property
    def result(self) -> Terminal | None:
        """What opens the result of a call: what only the system may write behind one. None in a dialect without calls."""
        table, machine = self.dialect.table, self.dialect.automaton
        closers = {table.closers[kind].name for kind in self.calls}
        found: set[str] | None = None
        blocks = open_blocks(machine, table)
        for before, row in enumerate(machine.steps):
            if not all(table.openers[kind].body_loss for kind in blocks[before]):
                continue  # a quotation
            for state in [row[name] for name in closers if name in row]:
                openers = {
                    n
                    for n in self._behind(state)
                    if table.terminals[n].opens and not table.terminals[n].body_loss
                }
                found = openers if found is None else found & openers
        return table.terminals[min(found)] if found else None

    def _behind(self, state: int) -> set[str]:
        """The opening tags of the system that may come next, behind closing tags."""
        table, machine = self.dialect.table, self.dialect.automaton
        seen, waiting, out = {state}, deque([state]), set()
        while waiting:
            for name, following in machine.steps[waiting.popleft()].items():
                terminal = table.terminals.get(name)
                if terminal is None or name == TEXT:
                    continue
                if terminal.closes and following not in seen:
                    seen.add(following)
                    waiting.append(following)
                elif terminal.opens and terminal.origin == "system":
                    out.add(name)
        return out

    @cached_property
    def once(self) -> frozenset[str]:
        """The opening tags that no conversation holds twice: what stands before all turns."""
        machine = self.dialect.automaton
        after: dict[int, set[int]] = {s: set(machine.steps[s].values()) for s in machine.states}
        changed = True
        while changed:
            changed = False
            for reached in after.values():
                more = set().union(*(after[s] for s in reached)) - reached if reached else set()
                reached |= more
                changed = changed or bool(more)
        out = set()
        for name in self.dialect.table.terminals:
            behind = {row[name] for row in machine.steps if name in row}
            everywhere = behind.union(*(after[s] for s in behind))
            if not any(name in machine.steps[s] for s in everywhere):
                out.add(name)
        return frozenset(out)

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        """What in a text would be read as a tag though it is made of ordinary ids."""
        return re.compile(
            "|".join(pattern(t, core=True) for t in self.dialect.table.plain_tags) or r"(?!)"
        )

    def harmless(self, text: str) -> str:
        """A text that cannot be read as a tag of plain text: the first character of what can is written as a `\\u` escape.

        Single-id tags in it are harmless as they are: they become ordinary ids.
        """
        return self._spelled.sub(lambda m: f"\\u{ord(m[0][0]):04x}{m[0][1:]}", text)

    def result_body(self, value: Any) -> str:
        """The text of a result: canonical JSON, or a string as it is where the block holds text."""
        if self.result is None:
            raise ValueError(f"{self.dialect.name} has no tool calls")
        literals = self.dialect.table.literals
        if self.result.body == "json":
            return canonical(value, literals)
        text = value if isinstance(value, str) else canonical(value, literals)
        return literals.sub(lambda m: f"\\u{ord(m[0][0]):04x}{m[0][1:]}", text) or (
            "" if self._may_be_empty else '""'
        )

    @cached_property
    def _may_be_empty(self) -> bool:
        """Whether the block of a result may hold nothing."""
        machine, result = self.dialect.automaton, self.result
        assert result is not None
        closer = self.dialect.table.closers[result.opens].name
        return all(
            closer in machine.steps[row[result.name]] for row in machine.steps if result.name in row
        )

    def result_events(self, name: str, value: Any) -> list[Event]:
        """The events of a result of the tool `name`: a JSON value. Raises ValueError in a dialect without calls."""
        parts = [Part("text", self.result_body(value))]
        assert self.result is not None
        attrs: Attrs = (("name", name),) if "name" in self.result.patterns else ()
        named = next(
            (
                b
                for a, b in nestings(self.dialect.table, self.dialect.automaton)
                if a == self.result.opens and b.endswith("_name")
            ),
            None,
        )
        if named is not None:
            parts.insert(0, Part(named, name))
        return list(
            events_of([Message(self.result.opens, tuple(parts), attrs)], self.dialect.table)
        )

    def read_calls(self, opener: Event, body: str, raw: str) -> tuple[list[ToolCall], str]:
        """The calls of a block, given its opening tag and what it holds; where that is none, nothing and the reason."""
        table = self.dialect.table
        read = read_body(body, table.terminals[opener.terminal].body, table.literals, Place())
        if read.text is None:
            return [], read.findings[0].message
        kind = table.terminals[opener.terminal].body
        if kind == "calls":
            functions = [item["function"] for item in read.value]
            return [ToolCall(f[NAME], f[ARGUMENTS], raw) for f in functions], ""
        if kind == "arguments":
            return [ToolCall(dict(opener.attrs).get("name", ""), read.value, raw)], ""
        if kind == "function":
            return [ToolCall(read.value[NAME], read.value[ARGUMENTS], raw)], ""
        return [
            ToolCall(read.value[NAME], {k: v for k, v in read.value.items() if k != NAME}, raw)
        ], ""


@cache
def of(dialect: str | mypt_spec.Dialect) -> Format:
    """The format of a dialect, or of that name, looked at once. Raises KeyError naming the known ones."""
    return Format(mypt_spec.dialect(dialect) if isinstance(dialect, str) else dialect)


def iter_blocks(
    events: list[Event], kinds: frozenset[str], fmt: Format
) -> Iterator[tuple[int, int]]:
    """Where whole blocks of the given kinds stand among events, that hold one run of text: opening and closing tag."""
    table = fmt.dialect.table
    for i, event in enumerate(events):
        terminal = table.terminals.get(event.terminal)
        if terminal is None or terminal.opens not in kinds or i + 2 >= len(events):
            continue
        if (
            events[i + 1].terminal == TEXT
            and events[i + 2].terminal == table.closers[terminal.opens].name
        ):
            yield i, i + 2
