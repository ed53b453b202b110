"""Holds what a rule's check can see: an episode, its events, and the limits that the user set.

A check is registered under its rule's code, with `@check("CODE")`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from mypt_spec.automaton import Automaton
from mypt_spec.bodies.json_body import call_parts, declared_types
from mypt_spec.bodies.tagged import Types, types_in
from mypt_spec.damage.cut_tags import inner_tags
from mypt_spec.episode import Episode, Event, Part
from mypt_spec.findings import Finding, registers
from mypt_spec.states import Stack, after_tag, open_blocks
from mypt_spec.table import TEXT, UNESCAPED, TokenTable
from mypt_spec.tokenizer.tokenizer import Tokenizer


class ToolSchema(NamedTuple):
    """The JSON Schemas of a tool's arguments and of its result, as JSON text; "" for none."""

    name: str
    arguments: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the user asked to be checked, beyond the format.

    `tools` are names declared in configuration, in addition to those that the system prompt
    declares; `schemas` are the schemas of some of these tools.
    """

    phase: int | None = None
    max_tokens: int | None = None
    tools: frozenset[str] = field(default=frozenset())
    schemas: tuple[ToolSchema, ...] = ()


# Returns the definitions of the tools of an Episode, to which rules hold calls.
ToolsOf = Callable[[Episode], list[dict[str, Any]]]


@dataclass(frozen=True)
class Context:
    """One episode with its events; `before` has the automaton's state before each that it read."""

    episode: Episode
    table: TokenTable
    automaton: Automaton
    tokenizer: Tokenizer
    limits: Limits
    events: list[Event]
    before: dict[int, int]
    tools_of: ToolsOf

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """Returns the definitions of tools that the episode has."""
        return self.tools_of(self.episode)

    @cached_property
    def texts(self) -> list[TextRun]:
        """Returns every text run, with its innermost block and the automaton's state before it."""
        out: list[TextRun] = []
        inside: Stack = ()
        for at, event in enumerate(self.events):
            terminal = self.table.terminals.get(event.terminal)
            if terminal is not None:
                inside = after_tag(inside, terminal, self.table)
                continue
            openers = [self.table.openers[kind] for kind in inside]
            quoted = any(t.quotes for t in openers[:-1])
            body = openers[-1].body if openers and not quoted else "text"
            out.append(TextRun(event, inside[-1] if inside else "", body, self._state(at, inside)))
        return out

    @cached_property
    def content(self) -> str:
        """Returns all runs without escapes, joined by line ends: one search covers them all."""
        return "\n".join([run.event.text for run in self.texts if run.body in UNESCAPED])

    def _state(self, at: int, inside: tuple[str, ...]) -> int | None:
        """Returns the state before a text run; in skipped events, one with the same blocks open."""
        state = self.before.get(at)
        if state is not None and TEXT in self.automaton.steps[state]:
            return state
        stacks = open_blocks(self.automaton, self.table).items()
        alike = (s for s, stack in stacks if stack == inside)
        return next((s for s in alike if TEXT in self.automaton.steps[s]), None)

    @property
    def is_prompt(self) -> bool:
        """Returns whether the format has prompts, and the episode is one for the model to go on."""
        if not self.table.prompts or not self.events:
            return False
        last = self.table.terminals.get(self.events[-1].terminal)
        if last is None or last.by_model:
            return False
        return self.automaton.run(e.terminal for e in self.events) in self.automaton.accepts

    @cached_property
    def inner_tags(self) -> tuple[str, ...]:
        """Returns the tags of plain text that may be inside of blocks; see damage/cut_tags.py."""
        return inner_tags(self.table, self.automaton)

    @cached_property
    def types(self) -> Types:
        """Returns the types of the arguments of declared tools, for calls that do not say them.

        Tools that the episode defines come before those of the limits.
        """
        types = {}
        for schema in self.limits.schemas:
            try:
                types[schema.name] = types_in(json.loads(schema.arguments or "{}"))
            except (ValueError, RecursionError):
                continue  # said where the schema is used
        return {**types, **declared_types(self.episode.messages, self.table)}

    @cached_property
    def calls(self) -> list[Part]:
        """Returns the tool calls of the episode, without quoted ones."""
        return [*call_parts(self.episode.messages, self.table)]


class TextRun(NamedTuple):
    """A text run. `body` is a kind of body, such as "text", "json" or "call".

    `state` is the automaton's state before the run, None where no text may be.
    """

    event: Event
    inside: str
    body: str
    state: int | None

    def expected(self, automaton: Automaton, *, after_text: bool) -> frozenset[str]:
        """Returns what may come at the run's start, or `after_text`; TEXT if that is unknown."""
        state = self.state
        if state is not None and after_text:
            state = automaton.steps[state].get(TEXT)
        return frozenset({TEXT}) if state is None else automaton.expected(state)


Check = Callable[[Context], Iterable[Finding]]
CHECKS: dict[str, Check] = {}
check = registers(CHECKS)
