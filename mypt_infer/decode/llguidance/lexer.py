"""Compiles the *companion* of a schema engine: tables of the lexemes of canonical JSON.

Input: a dialect. Output: a Companion. It knows neither nesting nor schemas, which are the engine's,
but what an engine for JSON does not: that strings spell no tag, and how strings and numbers are
written canonically.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints, cached_by
from mypt_infer.decode.compile.build_tables import tables_of
from mypt_infer.decode.compile.byte_dfa import QUOTE, ByteDfa, number_dfa, string_dfa
from mypt_infer.decode.compile.grammar_graph import GrammarDfa, forbidden_texts
from mypt_infer.decode.compile.nfa import Node, Place, determinize
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_spec import Dialect

_STRUCTURE = b"{}[], :truefalsn"


@dataclass(frozen=True, eq=False)
class Companion:
    """Tables of lexemes; `first` is the first state, `strings` are the states inside a string.

    `unfinished` says of each state whether it is inside a number that may not end there.
    """

    tables: Tables
    first: int
    strings: range
    unfinished: npt.NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        return self.tables.nbytes

    def next(self, state: int, token: int) -> int:
        """Returns the state after a token, 0 if it is refused."""
        return self.tables.next(state, token)

    def run(self, state: int, tokens: list[int]) -> int:
        """Returns the state after several tokens, 0 if one is refused."""
        for token in tokens:
            state = self.next(state, token)
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

    def fixes(
        self, states: Sequence[int], goals: Iterable[int], single: list[int]
    ) -> dict[int, list[int]]:
        """Returns the fewest tokens of one byte, of `single`, from each state to one of `goals`.

        States of `goals`, and those from which there is no way, are not in the result.
        """
        out: dict[int, list[int]] = {s: [] for s in goals}
        while steps := {
            s: [t, *out[then]]
            for s in states
            if s not in out
            for t in single
            if (then := self.next(s, t)) in out
        }:
            out |= steps
        return {s: ending for s, ending in out.items() if ending}


@cached_by(lambda dialect, *_: dialect.fingerprint)
def lexemes(dialect: Dialect, text: ByteDfa) -> Companion:
    """Returns the companion of a dialect, compiled once. `text` is the leaf of texts."""
    string, number = string_dfa(tuple(forbidden_texts(dialect))), number_dfa(fraction=True)
    between = Node(final=True)
    loop: Place = (between, 0)
    inside = Node({("byte", QUOTE): loop}, leaf=string)
    digits = Node(dict.fromkeys(number.exits, loop), leaf=number)
    between.edges = {
        **{("byte", b): loop for b in _STRUCTURE},
        ("byte", QUOTE): (inside, 0),
        **{("byte", b): (digits, int(q)) for b, q in enumerate(number.step[0]) if q >= 0},
    }
    leaves = token_classes(dialect, text)
    tables = tables_of(GrammarDfa(determinize([between, inside]), {0: 0, 1: 1}, text), leaves)
    first, at = tables.start[0], tables.start[1]
    strings = range(at, at + string.states)
    unfinished = np.ones(tables.size, bool)
    unfinished[[DEAD_STATE, first, *strings]] = False
    ends = [leaves.vocabulary.tokens.index(bytes([b])) for b in b",}]"]
    for state in np.flatnonzero(unfinished).tolist():
        unfinished[state] = all(tables.next(state, i) == DEAD_STATE for i in ends)
    return Companion(tables, first, strings, unfinished)
