"""Derives what running a conversation needs to know of a dialect from its grammar and token table.

Input: a dialect. Output: a Format: which blocks hold calls, where a turn ends, how a result is
written. It exists so that the controller names no tag of any dialect.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import mypt_spec
from mypt_spec import states
from mypt_spec.bodies.definitions import defines_tools, read_definitions
from mypt_spec.bodies.json_body import NO_TYPES, calls_in, read_body
from mypt_spec.bodies.strict_json import DefinitionsError, canonical
from mypt_spec.bodies.tagged import Types, types_of
from mypt_spec.damage.cut_tags import nestings
from mypt_spec.episode import Attrs, Event, Message, Part, Place, events_of, patterns_of
from mypt_spec.table import LISTS, TEXT, WITH_IDS, Terminal, pattern


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that can be run. `raw_block` is its text, tags included."""

    name: str
    arguments: dict[str, Any]
    raw_block: str
    id: str = ""


@dataclass(frozen=True, eq=False)
class Format:
    """A dialect, as the code that runs conversations sees it. Get it by `format_of`."""

    dialect: mypt_spec.Dialect

    @cached_property
    def calls(self) -> frozenset[str]:
        """Returns the kinds of block that hold tool calls."""
        return states.calling_blocks(self.dialect.table)

    @property
    def lists(self) -> bool:
        """Returns whether a block of calls may hold several."""
        return any(self.dialect.table.openers[kind].body in LISTS for kind in self.calls)

    @cached_property
    def ids(self) -> bool:
        """Returns whether calls may have ids, by which results name them."""
        openers = [self.dialect.table.openers[kind] for kind in self.calls]
        return any(opener.body in WITH_IDS or "id" in opener.patterns for opener in openers)

    @cached_property
    def thinking(self) -> frozenset[str]:
        """Returns the kinds of block in which the model thinks."""
        return self.dialect.table.kinds("thought")

    @cached_property
    def citing(self) -> frozenset[str]:
        """Returns the kinds of block that name a source."""
        return self.dialect.table.kinds("citation")

    @cached_property
    def result(self) -> Terminal | None:
        """Returns the terminal that opens the result of a call; None in a dialect without calls."""
        return states.result_opener(self.dialect.automaton, self.dialect.table)

    @cached_property
    def around(self) -> tuple[Terminal, ...]:
        """Returns the tags that open the system's blocks around results, outermost first."""
        return states.around_results(self.dialect.automaton, self.dialect.table)

    def awaits(self, state: int) -> bool:
        """Returns whether a result may come in a state, perhaps after the tags around it."""
        return states.awaits_result(state, self.dialect.automaton, self.dialect.table)

    @cached_property
    def model_writes(self) -> dict[int, frozenset[str]]:
        """Returns the terminals that the model may write in each state."""
        return states.model_writes(self.dialect.automaton, self.dialect.table)

    @cached_property
    def once(self) -> frozenset[str]:
        """Returns the opening tags that no conversation contains twice: those before all turns."""
        rows = self.dialect.automaton.steps

        def comes_again(name: str) -> bool:
            reachable = list({row[name] for row in rows if name in row})
            for state in reachable:
                reachable += set(rows[state].values()).difference(reachable)
            return any(name in rows[state] for state in reachable)

        table = self.dialect.table.terminals
        return frozenset(n for n, t in table.items() if not comes_again(t.joins or n))

    @cached_property
    def final(self) -> str:
        """Returns the mark that ends a conversation for good; "" if the end of a turn is enough."""
        machine = self.dialect.automaton
        for state in machine.states:
            if not machine.accepting(state) and self._must_end_after(state):
                for name, then in machine.steps[state].items():
                    if machine.accepting(then) and not machine.steps[then]:
                        return name
        return ""

    @cached_property
    def earlier(self) -> str:
        """Returns the tag that is in place of `final` where another turn follows; "" for none.

        Where `final` closes a block, that is the closing tag of the block.
        """
        mark = self.dialect.table.terminals.get(self.final)
        return self.dialect.table.closers[mark.closes].name if mark and mark.closes else ""

    def _must_end_after(self, state: int) -> bool:
        """Returns whether a turn may begin and no conversation may end, here or after a closer."""
        machine = self.dialect.automaton
        closers = {t.name for t in self.dialect.table.closers.values()} & set(machine.steps[state])
        return any(
            self._turn_opener in machine.steps[s] and not machine.accepting(s)
            for s in (state, *(machine.steps[state][name] for name in closers))
        )

    @cached_property
    def begins(self) -> frozenset[str]:
        """Returns the marks with which a conversation begins."""
        table, start = self.dialect.table, self.dialect.automaton.start
        rows = {n: table.terminals[n] for n in self.dialect.automaton.steps[start] if n != TEXT}
        return frozenset(n for n, t in rows.items() if not t.opens and not t.closes)

    @cached_property
    def between(self) -> frozenset[int]:
        """Returns the states in which a turn has ended and another may begin."""
        machine, rows = self.dialect.automaton, self.dialect.automaton.steps
        ended = {rows[s].get(self.earlier) for s in machine.states if self.final in rows[s]}
        opening = [s for s in machine.states if states.begins_turn(s, machine, self.dialect.table)]
        return frozenset(
            s for s in opening if machine.accepting(s) or self.final in rows[s] or s in ended
        )

    def ending(self, state: int) -> list[str]:
        """Returns the shortest way from a state to the end of a turn, as terminals.

        The way opens no call and no reference. If possible it leads to a state in which another
        turn may begin. Raises ValueError if there is no way.
        """
        table, machine = self.dialect.table, self.dialect.automaton
        opening = {*self.calls, *self.citing, table.turn_opener} - {""}
        avoided = {t.name for t in table.terminals.values() if t.opens in opening}
        ways: dict[int, list[str]] = {state: []}
        last: list[str] | None = None
        for here in (waiting := [state]):
            if here in self.between and machine.accepting(here):
                return ways[here]
            if self.final in machine.steps[here]:
                resumed = machine.steps[here].get(self.earlier, here)
                if resumed in self.between:
                    return [*ways[here], self.final]
            if machine.accepting(here) and not (machine.steps[here] and self.between):
                last = ways[here] if last is None else last
            for name, following in sorted(
                machine.steps[here].items(), key=lambda item: item[0] == TEXT
            ):
                answers = name == self._turn_opener and not states.begins_turn(here, machine, table)
                if following not in ways and (name not in avoided or answers):
                    ways[following] = [*ways[here], name]
                    waiting.append(following)
        if last is not None:
            return last
        raise ValueError(f"{self.dialect.name}: no legal end can be reached from state {state}")

    @property
    def _turn_opener(self) -> str:
        table = self.dialect.table
        return table.openers[table.turn_opener].name if table.turn_opener else ""

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        """Returns a pattern of what is read as a tag though it is made of ordinary ids."""
        return re.compile(
            "|".join(pattern(t, core=True) for t in self.dialect.table.plain_tags) or r"(?!)"
        )

    def harmless(self, text: str) -> str:
        r"""Returns a text that cannot be read as a tag of plain text.

        The first character of each such spelling is written as a `\u` escape. Tags of one id are
        harmless in a text, because the text becomes ordinary ids.
        """
        return self._spelled.sub(lambda m: f"\\u{ord(m[0][0]):04x}{m[0][1:]}", text)

    def result_body(self, value: Any) -> str:
        """Returns the text of a result: canonical JSON, or, in a block of text, a plain string.

        Raises ValueError in a dialect without tool calls.
        """
        if self.result is None:
            raise ValueError(f"{self.dialect.name} has no tool calls that can be answered here")
        literals = self.dialect.table.literals
        text = value if isinstance(value, str) else canonical(value, literals)
        if self.result.body == "json":
            return canonical(text if self.dialect.adapter.quoted else value, literals)
        return literals.sub(lambda m: f"\\u{ord(m[0][0]):04x}{m[0][1:]}", text) or (
            "" if self._may_be_empty else '""'
        )

    @cached_property
    def _may_be_empty(self) -> bool:
        machine, result = self.dialect.automaton, self.result
        assert result is not None
        closer = self.dialect.table.closers.get(result.opens)
        rows = [machine.steps[row[result.name]] for row in machine.steps if result.name in row]
        return closer is None or all(closer.name in row for row in rows)

    def result_events(
        self, name: str, value: Any, call: str = "", *, first: bool = True, last: bool = True
    ) -> list[Event]:
        """Returns the events of the result of the tool `name`.

        `value` is a JSON value; `call` is the id of the call, if it has one. Of results in a block
        of the system, the `first` opens that block, and the `last` closes it. Raises ValueError in
        a dialect without calls, and for an id that its results cannot name.
        """
        body = self.result_body(value)
        assert self.result is not None
        patterns = patterns_of(self.result.opens, self.dialect.table)
        ids = patterns.get("id")
        if ids is not None and not re.fullmatch(ids, call):
            raise ValueError(
                f"a result of {self.dialect.name} names the id of its call, which is {call!r}; "
                f"expected {ids}"
            )
        values = {"name": name, "id": call}
        attrs: Attrs = tuple((key, values[key]) for key in patterns if key in values)
        nested = nestings(self.dialect.table, self.dialect.automaton)
        inner = sorted(b for a, b in nested if a == self.result.opens)
        says = {"_id": call, "_name": name}  # by the end of the block's name, in this order
        pairs = [(b, text) for end, text in says.items() for b in inner if b.endswith(end)]
        parts = [*(Part(b, text) for b, text in pairs if text), Part("text", body)]
        table = self.dialect.table
        events = list(events_of([Message(self.result.opens, tuple(parts), attrs)], table))
        head = [Event(t.name, t.spell()) for t in self.around if first]
        ends = [table.closers.get(t.opens) for t in reversed(self.around) if last]
        if self.around:
            before = head[-1].terminal if head else table.closers[self.result.opens].name
            joined = table.join(self.result.name, before)
            text = table.terminals[joined].spell(attrs)
            events[0] = events[0]._replace(terminal=joined, text=text)
        return [*head, *events, *(Event(t.name, t.spell()) for t in ends if t is not None)]

    def texts_in(self, events: Iterable[Event]) -> Iterator[tuple[str, str]]:
        """Yields the texts among the events of a conversation, each after the kind of its block."""
        stack: states.Stack = ()
        for event in events:
            if event.terminal == TEXT:
                yield stack[-1] if stack else "", event.text
            else:
                terminal = self.dialect.table.terminals[event.terminal]
                stack = states.after_tag(stack, terminal, self.dialect.table)

    def types_in(self, events: Iterable[Event]) -> Types:
        """Returns the types of arguments of defined tools; none where calls say them."""
        table = self.dialect.table
        if not table.tagged:
            return NO_TYPES
        kind, text = "", ""
        for event in events:
            terminal = table.terminals.get(event.terminal)
            if terminal is None:
                text += event.text if kind else ""
                continue
            if kind and text:
                try:
                    return types_of(read_definitions(text, kind))
                except DefinitionsError:
                    return NO_TYPES
            kind = terminal.body if terminal.opens and defines_tools(terminal.body) else ""
        return NO_TYPES

    def read_calls(
        self, opener: Event, body: str, raw: str, types: Types = NO_TYPES
    ) -> tuple[list[ToolCall], str]:
        """Returns the calls of a block and "", or no calls and the reason why they cannot be read.

        `opener` is the block's opening tag, `body` its content, `raw` its text with tags, `types`
        those of the arguments of its tools, where calls do not say them.
        """
        table = self.dialect.table
        kind = table.terminals[opener.terminal].body
        parsed = read_body(body, kind, table.literals, Place())
        if parsed.text is None:
            return [], parsed.findings[0].message
        calls = calls_in(parsed.value, kind, opener.attrs, types)
        return [ToolCall(call.name, call.arguments, raw, call.id) for call in calls], ""


@cache
def format_of(dialect: str | mypt_spec.Dialect) -> Format:
    """Returns the format of a dialect or a name, derived once. Raises KeyError for other names."""
    return Format(mypt_spec.dialect(dialect) if isinstance(dialect, str) else dialect)
