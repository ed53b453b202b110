"""The allow sets in the validator's words, as a judge of those that the tables have.

Nothing of the tables is used but the states themselves: regular expressions over the text so far,
and the automaton.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import numpy.typing as npt

from mypt_infer.decode import Decoder
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_spec.states import open_blocks
from mypt_spec.table import TEXT
from tests.support.decoding import witnesses


@cache
def everywhere(decoder: Decoder) -> dict[int, tuple[int, list[int]]]:
    """Every state that the model can be in: the grammar's state where it began, and ids that lead
    on from there.
    """
    states: dict[int, tuple[int, list[int]]] = {}
    for grammar_state, first in decoder.tables.start.items():
        if first not in states:
            ways = witnesses(decoder, first, states)
            states |= {state: (grammar_state, ids) for state, ids in ways.items()}
    return states


# Every beginning of a character; the last byte says nothing about those before it, so one character
# in 64 is enough.
BEGINNINGS = {b""} | {
    chr(c).encode()[:n]
    for c in range(0x80, 0x110000, 64)
    if not 0xD800 <= c < 0xE000
    for n in (1, 2, 3)
    if n < len(chr(c).encode())
}


def utf8_so_far(run: bytes) -> bool:
    """Python's incremental decoder would take the beginning of a lone surrogate."""
    try:
        run.decode()
        return True
    except UnicodeDecodeError as error:
        return run[error.start :] in BEGINNINGS


class NaiveSets:
    """Allow sets of a dialect whose tags are single ids without white space."""

    def __init__(self, decoder: Decoder) -> None:
        self.d = decoder.dialect
        table, tokenizer = self.d.table, self.d.tokenizer
        self.words = [
            tokenizer.decode_bytes([i]) if i in tokenizer.ordinary else b""
            for i in range(tokenizer.vocab_size)
        ]
        self.tag = re.compile("|".join(re.escape(t) for t in table.special).encode())
        self.names = {table.special[t.shown]: t.name for t in table.terminals.values()}
        self.stacks = open_blocks(self.d.automaton, table)
        self.texts = np.array([bool(word) and utf8_so_far(word) for word in self.words])
        # A tag that a run does not spell yet is spelled by a word that has its last byte.
        last = {tag.encode()[-1] for tag in table.special}
        self.closing = [i for i, word in enumerate(self.words) if last & {*word}]
        self.known: dict[bytes, npt.NDArray[np.bool_]] = {}

    def after(self, run: bytes) -> npt.NDArray[np.bool_]:
        """Which ordinary ids can follow some text of one run: together they spell no tag, and are
        UTF-8 as far as they go.
        """
        if run not in self.known:
            assert not self.tag.search(run)
            out = self.texts.copy()
            if run.decode("utf-8", "ignore").encode() != run:
                out = np.array([bool(word) and utf8_so_far(run + word) for word in self.words])
            for i in self.closing:
                out[i] &= self.tag.search(run + self.words[i]) is None
            self.known[run] = out
        return self.known[run]

    def row(self, state: int, ids: list[int], size: int) -> npt.NDArray[np.bool_]:
        """The allow set after some ids from a state of the grammar on."""
        table, run = self.d.table, b""
        for i in ids:
            name = self.names.get(i, TEXT)
            state = self.d.automaton.steps[state][name]
            run = b"" if i in self.names else run + self.words[i]
        out = np.zeros(size, bool)
        legal = self.d.automaton.allowed(state)
        if TEXT in legal and all(table.openers[kind].body_loss for kind in self.stacks[state]):
            out[: len(self.words)] = self.after(run)
        whole = run.decode("utf-8", "ignore").encode() == run
        for i, name in self.names.items():
            out[i] = whole and name in legal and table.terminals[name].origin == "model"
        return out


def check_allow_sets(decoder: Decoder) -> None:
    """Every state and every id; bodies of calls are left out: the validator takes any tool there."""
    naive, tables, checked = NaiveSets(decoder), decoder.tables, 0
    for state, (grammar_state, ids) in everywhere(decoder).items():
        if tables.block[state] == CALLING:
            continue
        mine = (tables.following(state) != DEAD_STATE)[tables.classes]
        theirs = naive.row(grammar_state, ids, tables.vocabulary)
        assert (mine == theirs).all(), (ids, np.flatnonzero(mine != theirs)[:10])
        checked += 1
    assert checked > 50
