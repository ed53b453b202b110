"""Defines what the decoder asks of an engine, and the engine that holds everything in tables.

An engine answers for the next state and for what may follow; `engines` picks one by its name.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.llguidance.numbered import Numbered
from mypt_spec.episode import Event


class StateFacts(NamedTuple):
    """What is known of a state.

    `block`: the budget that counts there. `final`: generation may end. `distance`, `to_close`:
    tokens to the nearest legal ending, and to the end of the block.
    """

    block: int
    final: bool
    distance: int
    to_close: int


class Options(NamedTuple):
    """The ids that may follow a state, sorted, and what is known of the state after each.

    All arrays are int32, shape (n,): `block`, `distance` and `to_close` as in StateFacts.
    """

    ids: Ints
    block: Ints
    distance: Ints
    to_close: Ints


class Engine:
    """Says what the decoder asks; this engine answers from tables alone.

    States below `tables.size` are those of the tables; all others are in `places`.
    """

    places: Numbered[Any, Any] | None = None

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    @property
    def tables_only(self) -> bool:
        """Returns whether the tables hold all states."""
        return self.places is None

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the tables, and of what is kept of states now, about."""
        return self.tables.nbytes

    def next(self, state: int, token: int) -> int:
        """Returns the state after a token, 0 if it is refused."""
        return self.tables.next(state, token)

    def begin(self, state: int, events: Sequence[Event]) -> int:
        """Returns the state after a prompt whose events lead the tables to `state`."""
        return state

    def allow(self, state: int) -> Options:
        """Returns what may follow a state, if budgets are ignored.

        Where the engine proves an id only when it is taken, the distances of the others are those
        that it assumes, and `next` may yet refuse an id; it is not allowed again.
        """
        return table_options(self.tables, state)

    def free(self, state: int) -> tuple[int, int, AllowSet] | None:
        """Returns (left, block_left, allow_set): `allow` while more than these tokens remain.

        In all and in the block. None where only `allow` says it.
        """
        return None

    def proved_options(self, state: int, *, proved: bool = True) -> Options:
        """Returns those of `allow` whose distances are proved, for budgets that are nearly used.

        Without `proved` also those of which nothing is known, as if they came no nearer to the end.
        """
        return table_options(self.tables, state)

    def is_certain(self, state: int) -> bool:
        """Returns whether `next` takes all that `allow` has, if budgets are ignored."""
        return True

    def state_facts(self, state: int) -> StateFacts:
        """Returns what is known of a state."""
        blocks, distances, to_close, final = self.tables.lists
        return StateFacts(blocks[state], final[state], distances[state], to_close[state])

    def inner(self, state: int) -> int | None:
        """Returns the state of the tables in which at least the same bytes follow; None if none."""
        return state

    def forced_bytes(self, state: int, *, beside: bool = False) -> tuple[bytes, bytes]:
        """Returns the bytes that must follow a state for which `inner` knows none; b"" if any.

        With them come those that may follow these, if they are few. With `beside`, tags may follow
        in place of the text.
        """
        return b"", b""

    def on_forgetting(self, listener: Callable[[set[int]], None]) -> None:
        """Calls a method with the engine's states whenever it forgets some."""
        if self.places is not None:
            self.places.on_forgetting(listener)

    def hold_used(self, used: Callable[[], Iterable[int]]) -> None:
        """Forgets none of the states that a method returns, as long as the method lives."""
        if self.places is not None:
            self.places.hold_used(used)

    def only(self, tool: int) -> Tables:
        """Returns the tables with this tool alone, if distances depend on the tool."""
        return self.tables


def table_options(tables: Tables, state: int) -> Options:
    if tables.frame[state]:
        following = tables.following(state)[tables.classes]
        ids = np.flatnonzero(following != DEAD_STATE).astype(np.int32)
        states = following[ids]
    else:
        ids, states = tables.listed(state)
    return Options(ids, *tables.facts(states))
