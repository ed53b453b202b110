"""What a rule's check gets to see."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mypt_spec.automaton import Automaton
from mypt_spec.episode import Episode, Event, Part
from mypt_spec.repair import open_blocks
from mypt_spec.tokenizer import Tokenizer
from mypt_spec.tokens import CALLS, TEXT, TokenTable
from mypt_spec.truncated import inner_tags


class ToolSchema(NamedTuple):
    """What calls of a tool must look like: JSON Schemas of its arguments and its result, as JSON text, "" for none."""

    name: str
    arguments: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user asked for. `tools`: names declared in configuration, beside those that the system prompt declares;
    `schemas`: what is known of some of them.
    """

    phase: int | None = None
    max_tokens: int | None = None
    tools: frozenset[str] = field(default=frozenset())
    schemas: tuple[ToolSchema, ...] = ()


@dataclass(frozen=True)
class Context:
    """One episode with its events; `before` has the automaton's state before each event that it read."""

    episode: Episode
    table: TokenTable
    automaton: Automaton
    tokenizer: Tokenizer
    limits: Limits
    events: list[Event]
    before: dict[int, int]

    @cached_property
    def texts(self) -> list[Run]:
        """Every text run, with its innermost block and the automaton's state before it."""
        out: list[Run] = []
        inside: list[str] = []
        quoting = 0
        for at, event in enumerate(self.events):
            terminal = self.table.terminals.get(event.terminal)
            if terminal is None:
                kind = inside[-1] if inside else ""
                body = self.table.openers[kind].body if kind and not quoting else "text"
                out.append(Run(event, kind, body, self._state(at, tuple(inside))))
            else:
                while inside and inside[-1] not in self.table.closers:
                    inside.pop()
                if terminal.opens:
                    quoting += bool(quoting or (inside and self.table.openers[inside[-1]].quotes))
                    inside.append(terminal.opens)
                elif terminal.closes and inside:
                    inside.pop()
                    quoting -= bool(quoting)
        return out

    @cached_property
    def content(self) -> str:
        """All text runs that are text, a line end between two: what one search of it does not find is in none of them."""
        return "\n".join([run.event.text for run in self.texts if run.body == "text"])

    def _state(self, at: int, inside: tuple[str, ...]) -> int | None:
        """The state before a text run; inside what was skipped, one in which the same blocks are open."""
        state = self.before.get(at)
        if state is not None and TEXT in self.automaton.steps[state]:
            return state
        stacks = open_blocks(self.automaton, self.table)
        return next(
            (
                s
                for s, stack in stacks.items()
                if stack == inside and TEXT in self.automaton.steps[s]
            ),
            None,
        )

    @property
    def is_prompt(self) -> bool:
        """Whether the episode is a prompt: where the format allows that, it ends where the model is to go on."""
        if not self.table.prompts or not self.events:
            return False
        last = self.table.terminals.get(self.events[-1].terminal)
        state = self.automaton.run(e.terminal for e in self.events)
        return (
            last is not None
            and last.origin != "model"
            and state is not None
            and self.automaton.accepting(state)
        )

    @cached_property
    def inner_tags(self) -> tuple[str, ...]:
        """The tags of plain text that stand inside blocks; see truncated.py."""
        return inner_tags(self.table, self.automaton)

    @cached_property
    def calls(self) -> list[Part]:
        """The tool calls of the episode, without quoted ones."""
        return [
            part
            for message in self.episode.messages
            for part in message.parts
            if part.kind != "text"
            and self.table.openers[part.kind].body in CALLS
            and not self.table.openers[message.role].quotes
        ]


@dataclass(frozen=True, slots=True)
class Run:
    """A text run. `body` is "text", "json" or "call"; `state` is the automaton's before it, None where no text may stand."""

    event: Event
    inside: str
    body: str
    state: int | None

    def expected(self, automaton: Automaton, *, behind: bool) -> frozenset[str]:
        """What may stand where the run begins, or `behind` some of it; TEXT where that is unknown."""
        state = self.state
        if state is not None and behind:
            state = automaton.steps[state].get(TEXT)
        return frozenset({TEXT}) if state is None else automaton.expected(state)
