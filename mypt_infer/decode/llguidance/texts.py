"""Compiles the *companion* of a response: tables of the text of an answer.

Input: a dialect. Output: Texts. The companion does not know what the answer has to be, which is
llguidance's. It knows what llguidance does not: that the text spells no tag, cuts no character in
half, and where the tag after it may follow.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints, cached_by
from mypt_infer.decode.compile.build_tables import tables_of
from mypt_infer.decode.compile.byte_dfa import Symbol
from mypt_infer.decode.compile.grammar_graph import GrammarDfa, GrammarGraph
from mypt_infer.decode.compile.nfa import Node, Place, determinize
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_infer.decode.llguidance.lexer import Companion
from mypt_spec import Dialect


@dataclass(frozen=True, eq=False)
class Texts(Companion):
    """The companion of texts; `ends` says of each state whether the text may end there.

    No state is inside a string, or in a number.
    """

    ends: npt.NDArray[np.bool_]

    def next(self, state: int, token: int) -> int:
        then = self.tables.next(state, token)
        return then if self.tables.frame[then] else DEAD_STATE

    def may_end(self, state: int) -> bool:
        return bool(self.ends[state])

    def allowed(self, state: int) -> tuple[npt.NDArray[np.bool_], Ints, npt.NDArray[np.bool_]]:
        tables = self.tables
        then = tables.following(state)
        then = np.where(tables.frame[then] > 0, then, DEAD_STATE)
        allowed = then != DEAD_STATE
        return allowed[tables.classes], then[tables.classes], allowed[tables.classes]


@cached_by(lambda dialect, *_: dialect.fingerprint)
def texts(dialect: Dialect) -> Texts:
    """Returns the companion of the answers of a dialect, compiled once."""
    graph = GrammarGraph(dialect, (), response=True)
    over: Place = (Node(final=True), 0)
    edges: dict[Symbol, Place] = {}
    ways: list[list[int]] = []
    leaves = token_classes(dialect, graph.text)
    byte = leaves.vocabulary.of_byte
    for head in graph.follow():
        edges |= {head.symbol(first=first): over for first in (False, True)}
        symbols = [byte[b] for b in (head.lead + head.text).encode()]
        ways.append([*symbols, head.token] if head.token >= 0 else symbols)
    dfa = determinize([Node(edges, leaf=graph.text)])
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
    return Texts(tables, first, range(0), np.zeros(tables.size, bool), ends)
