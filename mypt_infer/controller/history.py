"""Holds the ids of a conversation, each with its origin.

Input: ids and events as they are written. Output: the context that the model sees: all ids, or the
head and the newest turns. Ids are only appended. What a stopped turn cannot keep is cut off the end
again, and remembered in `dropped`, so that a transcript can be replayed.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import mypt_spec
from mypt_infer.run_format import format_of
from mypt_spec.bodies.tagged import Types
from mypt_spec.encoder import Mask, run_ids, trail_ids
from mypt_spec.episode import Event
from mypt_spec.states import before_tag, open_blocks

PROMPT, SAMPLED, FORCED, INJECTED = "prompt", "sampled", "forced", "injected"
ORIGINS = (PROMPT, SAMPLED, FORCED, INJECTED)
# The attributes of a history that hold its conversation.
_CONTENTS = ("ids", "_origins", "turns", "first", "dropped", "stopped", "calls", "state", "_last")


class Dropped(NamedTuple):
    """Ids that the model drew and the conversation does not keep; `at` was their index."""

    at: int
    ids: tuple[int, ...]


class History:
    """One conversation: its `ids`, the `origins` of them, and the indices where `turns` begin."""

    def __init__(self, dialect: str | mypt_spec.Dialect) -> None:
        self.format = format_of(dialect)
        self.dialect: mypt_spec.Dialect = self.format.dialect
        self.ids: list[int] = []
        self._origins = bytearray()
        self.turns: list[int] = []
        # The index of the oldest turn that the model sees.
        self.first = 0
        self.dropped: list[Dropped] = []
        # Turns, from 0, that were stopped, and why.
        self.stopped: dict[int, str] = {}
        # The number of calls that the model has begun, also of those that were taken off.
        self.calls = 0
        self.state = self.dialect.automaton.start
        # Where the last event begins, and the state before it.
        self._last = 0, self.state
        # The number of ids of the context that are as they were when a source last took them.
        self.unchanged = 0
        self._blocks = open_blocks(self.dialect.automaton, self.dialect.table)

    @property
    def origins(self) -> list[tuple[str, int]]:
        """Returns the origins of the ids in runs: (origin, number)."""
        return [(ORIGINS[code], len(list(run))) for code, run in groupby(self._origins)]

    @cached_property
    def types(self) -> Types:
        """Returns the types of the arguments of tools, where calls do not say them.

        The conversation defines tools where it begins, so what its first call asked holds for all.
        """
        return self.format.types_in(self.dialect.lex_ids(self.ids)[0])

    @property
    def open(self) -> tuple[str, ...]:
        """Returns the kinds of the open blocks, outermost first."""
        return self._blocks[self.state]

    @property
    def head(self) -> int:
        """Returns the number of ids before all turns."""
        return self.turns[0] if self.turns else len(self.ids)

    @property
    def start(self) -> int:
        """Returns the index at which the oldest turn begins that the model sees."""
        return self.turns[self.first] if self.turns else len(self.ids)

    def __len__(self) -> int:
        return self.head + len(self.ids) - self.start

    def context(self) -> list[int]:
        """Returns the ids that the model sees."""
        return self.ids[: self.head] + self.ids[self.start :]

    def add(self, ids: Sequence[int], origin: str) -> None:
        self.ids += ids
        self._origins += bytes([ORIGINS.index(origin)]) * len(ids)

    def write(self, events: Iterable[Event], origin: str) -> int:
        """Appends events; returns the number of ids. Raises ValueError for one out of place."""
        before, batch = len(self.ids), list(events)
        table, tokenizer = self.dialect.table, self.dialect.tokenizer
        for event, ids in zip(batch, run_ids(batch, self.open, table, tokenizer), strict=True):
            self.add(self.trailing_ids, origin)
            self.step(event, len(self.ids))
            self.add(ids, origin)
        return len(self.ids) - before

    @property
    def trailing_ids(self) -> list[int]:
        """Returns the ids of white space after the last tag, which come before anything else."""
        last = self.ids[-1] if self.ids else None
        return trail_ids(last, self.dialect.table, self.dialect.tokenizer)

    def encoded(self, events: Sequence[Event]) -> list[list[int]]:
        """Returns the ids of events that nobody draws, without `trailing_ids` after them."""
        table, kinds = self.dialect.table, self.format.thinking
        return run_ids(events, self.open, table, self.dialect.tokenizer, Mask(prompted=kinds))

    def step(self, event: Event, begin: int) -> None:
        """Steps by an event that begins at index `begin`. Raises ValueError if it may not occur."""
        machine = self.dialect.automaton
        state = machine.step(self.state, event.terminal)
        terminal = self.dialect.table.terminals.get(event.terminal)
        opens = terminal is not None and terminal.opens and event.terminal not in self.format.once
        opens = opens and not before_tag(self.open, self.dialect.table, terminal)
        if opens and (not self.turns or self.state in self.format.between):
            self.turns.append(begin)
        self._last = begin, self.state
        self.state = state

    @property
    def open_state(self) -> int:
        """Returns the state after `reopen`."""
        machine, final = self.dialect.automaton, self.format.final
        before = self._last[1]
        if not final or self.state != machine.steps[before].get(final):
            return self.state
        return machine.step(before, self.format.earlier) if self.format.earlier else before

    def reopen(self) -> None:
        """Cuts off the mark that ends the conversation for good, so that it can continue.

        Where the mark closes a block, the closing tag of an earlier turn is put in its place.
        """
        earlier, state = self.format.earlier, self.open_state
        if state == self.state:
            return
        self.cut_back(*self._last)
        if earlier:
            self.write([Event(earlier, "")], PROMPT)

    def cut_back(self, length: int, state: int) -> None:
        """Cuts off all ids but the first `length`, and returns to `state`, the state there."""
        if length < len(self.ids):
            self.dropped.append(Dropped(length, tuple(self.ids[length:])))
            self.unchanged = min(self.unchanged, self.head + max(0, length - self.start))
        del self.ids[length:], self._origins[length:]
        self.state = state

    def mark(self) -> dict[str, Any]:
        """Returns the present contents, for `back`."""
        return {name: copy(getattr(self, name)) for name in _CONTENTS}

    def back(self, mark: dict[str, Any]) -> None:
        """Returns to the contents at a mark, as if nothing had been said since."""
        ids = mark["ids"]
        length = min(len(self.ids), len(ids))
        same = next((i for i in range(length) if self.ids[i] != ids[i]), length)
        visible = 0 if self.first != mark["first"] else max(0, same - self.start)
        self.unchanged = min(self.unchanged, self.head + visible)
        for name, value in mark.items():
            setattr(self, name, copy(value))

    def forget(self, most: int) -> tuple[int, int]:
        """Hides the oldest turns from the model until it sees at most `most` ids.

        The last turn always stays. Returns the numbers of turns and ids that were hidden.
        """
        first, before = self.first, len(self)
        while len(self) > most and self.first < len(self.turns) - 1:
            self.first += 1
        if self.first > first:
            self.unchanged = min(self.unchanged, self.head)
        return self.first - first, before - len(self)
