"""Compiles the *companion* of a response: tables of the text of an answer.

Input: a dialect. Output: Texts. The companion does not know what the answer has to be, which is
llguidance's. It knows what llguidance does not: that the text spells no tag, cuts no character in
half, and where the tag after it may follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import ROOM, Ints
from mypt_infer.decode.compile.byte_dfa import Symbol
from mypt_infer.decode.compile.grammar_graph import GrammarDfa, GrammarGraph
from mypt_infer.decode.compile.nfa import Node, Place, determinize
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables, tables_of
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_spec import Dialect
from mypt_spec.memo import Memo


@dataclass(frozen=True, eq=False)
class Texts:
    """The companion's tables. It has the methods of `lexer.Lexemes`, and may not end everywhere.

    `first` is its first state. `ends` says of each state whether the text may end there, `rests`
    has the fewest single bytes, as tokens, to such a state.
    """

    tables: Tables
    first: int
    ends: npt.NDArray[np.bool_]
    rests: dict[int, list[int]]
    strings: range = range(0)

    @property
    def unfinished(self) -> npt.NDArray[np.bool_]:
        """Returns for each state whether all that leads there is proved: nowhere."""
        return np.zeros(self.tables.size, bool)

    def next(self, state: int, token: int) -> int:
        """Returns the state after a token of text, 0 if it is refused."""
        then = self.tables.next(state, token)
        return then if self.tables.frame[then] else DEAD_STATE

    def run(self, state: int, tokens: list[int]) -> int:
        """Returns the state after several tokens, 0 if one is refused."""
        for token in tokens:
            state = self.next(state, token)
        return state

    def may_end(self, state: int) -> bool:
        """Returns whether the text may end in a state."""
        return bool(self.ends[state])

    def allowed(self, state: int) -> tuple[npt.NDArray[np.bool_], Ints, npt.NDArray[np.bool_]]:
        """Returns what `Lexemes.allowed` does."""
        tables = self.tables
        then = tables.following(state)
        then = np.where(tables.frame[then] > 0, then, DEAD_STATE)
        allowed = then != DEAD_STATE
        return allowed[tables.classes], then[tables.classes], allowed[tables.classes]


_texts = Memo[str, Texts](16, room=ROOM)


def texts(dialect: Dialect) -> Texts:
    """Returns the companion of the answers of a dialect, compiled once."""
    entry = _texts.known.get(dialect.fingerprint)
    if entry is None:
        built = _compiled(dialect)
        entry = _texts.keep(dialect.fingerprint, built, built.tables.nbytes)
    return entry


def _compiled(dialect: Dialect) -> Texts:
    graph = GrammarGraph(dialect, (), response=True)
    over: Place = (Node(final=True), 0)
    edges: dict[Symbol, Place] = {}
    ways: list[list[int]] = []
    leaves = token_classes(dialect, graph.text)
    byte = leaves.vocabulary.of_byte
    for head in graph.follow():
        symbol: str | int = head.token if head.token >= 0 else head.text
        edges["led" if head.lead else "id" if head.token >= 0 else "tag", symbol] = over
        edges["first led" if head.lead else "first", symbol] = over
        symbols = [byte[b] for b in (head.lead + head.text).encode()]
        ways.append([*symbols, head.token] if head.token >= 0 else symbols)
    inside = Node(edges, leaf=graph.text)
    dfa = determinize([inside])
    tables = tables_of(GrammarDfa(dfa, {0: 0}, graph.text), leaves)
    first = tables.start[0]
    states = range(first, first + graph.text.states)
    ends = np.zeros(tables.size, bool)

    def is_closed(state: int, way: list[int]) -> bool:
        for token in way:
            state = tables.next(state, token)
        return state not in (*states, DEAD_STATE)

    for state in states:
        ends[state] = all(is_closed(state, way) for way in ways)
    return Texts(tables, first, ends, _rests(tables, ends, states, sorted(byte.values())))


def _rests(
    tables: Tables, ends: npt.NDArray[np.bool_], states: range, single: list[int]
) -> dict[int, list[int]]:
    """Returns the fewest tokens of one byte from each state to where the text may end."""
    out: dict[int, list[int]] = {s: [] for s in states if ends[s]}
    while True:
        steps = {
            s: [t, *out[then]]
            for s in states
            if s not in out
            for t in single
            if (then := tables.next(s, t)) in out
        }
        if not steps:
            return {s: ending for s, ending in out.items() if ending}
        out |= steps
