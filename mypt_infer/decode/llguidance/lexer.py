"""Compiles the *companion* of a schema engine: tables of the lexemes of canonical JSON.

Input: a dialect. Output: Lexemes. The companion knows neither nesting nor schemas, which are the
engine's. It knows what an engine for JSON does not: that strings spell no tag, and how strings and
numbers are written canonically.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import ROOM, Ints
from mypt_infer.decode.compile.byte_dfa import QUOTE, ByteDfa, Symbol, number_dfa, string_dfa
from mypt_infer.decode.compile.grammar_graph import GrammarDfa, forbidden_texts
from mypt_infer.decode.compile.nfa import Node, Place, determinize
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables, tables_of
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_spec import Dialect
from mypt_spec.memo import Memo

_STRUCTURE = b"{}[], :truefalsn"


class Companion(Protocol):
    """What the engine asks of a companion: Lexemes for calls, `texts.Texts` for answers."""

    @property
    def tables(self) -> Tables: ...
    @property
    def first(self) -> int: ...
    @property
    def strings(self) -> range: ...
    @property
    def unfinished(self) -> npt.NDArray[np.bool_]: ...
    def next(self, state: int, token: int) -> int: ...
    def run(self, state: int, tokens: list[int]) -> int: ...
    def may_end(self, state: int) -> bool: ...
    def allowed(self, state: int) -> tuple[npt.NDArray[np.bool_], Ints, npt.NDArray[np.bool_]]: ...


@dataclass(frozen=True, eq=False)
class Lexemes:
    """The companion's tables; `first` is its first state, `strings` its states inside a string.

    `ends` are ids of what may follow a number.
    """

    tables: Tables
    first: int
    strings: range
    ends: tuple[int, ...]

    @cached_property
    def unfinished(self) -> npt.NDArray[np.bool_]:
        """Returns for each state whether it is inside a number that may not end there."""
        out = np.ones(self.tables.size, bool)
        out[[DEAD_STATE, self.first, *self.strings]] = False
        for state in np.flatnonzero(out).tolist():
            out[state] = all(self.tables.next(state, i) == DEAD_STATE for i in self.ends)
        return out

    def next(self, state: int, token: int) -> int:
        """Returns the state after a token, 0 if it is refused."""
        return self.tables.next(state, token)

    def run(self, state: int, tokens: list[int]) -> int:
        """Returns the state after several tokens, 0 if one is refused."""
        for token in tokens:
            state = self.tables.next(state, token)
        return state

    def may_end(self, state: int) -> bool:
        """Returns whether a body may end in a state, as far as lexemes say: anywhere."""
        return state != DEAD_STATE

    def allowed(self, state: int) -> tuple[npt.NDArray[np.bool_], Ints, npt.NDArray[np.bool_]]:
        """Returns (allowed, then, stays) for all ids, each of shape (vocabulary,).

        `allowed`: the id may follow. `then`: the state after it. `stays`: it does not leave the
        string.
        """
        tables = self.tables
        then = tables.following(state)
        stays = (tables.after[tables.row[state]] >= 0) & (then != DEAD_STATE)
        return (then != DEAD_STATE)[tables.classes], then[tables.classes], stays[tables.classes]


_lexemes = Memo[str, Lexemes](16, room=ROOM)


def lexemes(dialect: Dialect, text: ByteDfa) -> Lexemes:
    """Returns the companion of a dialect, compiled once. `text` is the leaf of texts."""
    entry = _lexemes.known.get(dialect.fingerprint)
    if entry is None:
        string, number = string_dfa(tuple(forbidden_texts(dialect))), number_dfa(fraction=True)
        between = Node(final=True)
        inside = Node({("byte", QUOTE): (between, 0)}, leaf=string)
        loop: Place = (between, 0)
        digits = Node(dict.fromkeys(number.exits, loop), leaf=number)
        edges: dict[Symbol, Place] = {("byte", b): loop for b in _STRUCTURE}
        between.edges = (
            edges
            | {("byte", QUOTE): (inside, 0)}
            | {("byte", b): (digits, int(q)) for b, q in enumerate(number.step[0]) if q >= 0}
        )
        tables = tables_of(
            GrammarDfa(determinize([between, inside]), {0: 0, 1: 1}, text),
            token_classes(dialect, text),
        )
        at = tables.start[1]
        words = token_classes(dialect, text).vocabulary.tokens
        entry = Lexemes(
            tables,
            tables.start[0],
            range(at, at + string.states),
            tuple(words.index(bytes([b])) for b in b",}]"),
        )
        _lexemes.keep(dialect.fingerprint, entry, tables.nbytes)
    return entry
