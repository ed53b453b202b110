"""Holds what all bodies of a dialect share: the companion, the search, and facts of tokens.

Input: a dialect. Output: its Ground, made once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.grammar_graph import GrammarGraph, call_ends
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_infer.decode.compile.vocab import Ints
from mypt_infer.decode.llguidance.completion import Bitmask, Search, fixes
from mypt_infer.decode.llguidance.grammar import words as words_of
from mypt_infer.decode.llguidance.lexer import Companion, lexemes
from mypt_spec import Dialect
from mypt_spec.memo import Memo


class Ground(NamedTuple):
    """What all bodies of a dialect share.

    `characters`: int32, the number of characters in each ordinary token, 0 if it holds a backslash.
    `opens`: bool, whether the token holds a quote or an opening bracket. `ordinary`: bool, shape
    (vocabulary,), whether the id is text. `fixes`: see `completion`. `taken`: what the companion
    takes, by its state (`Guided`).
    """

    lexemes: Companion
    bitmask: Bitmask
    search: Search
    characters: Ints
    opens: npt.NDArray[np.bool_]
    ordinary: npt.NDArray[np.bool_]
    fixes: dict[int, list[int]]
    taken: Memo[int, tuple[npt.NDArray[np.uint8], Ints]]

    def proved(self, first: Any, body: list[int], end: int) -> bool:
        """Returns whether tokens are a whole body that `end` follows; `first` is its matcher."""
        tokens = [*body, end]
        return first.validate_tokens(tokens) == len(tokens) and self.lexemes.may_end(
            self.lexemes.run(self.lexemes.first, body)
        )


def taken() -> Memo[int, tuple[npt.NDArray[np.uint8], Ints]]:
    """Returns a memo of what a companion takes, by its state."""
    return Memo(1024, room=8 << 20)


_grounds = Memo[str, Ground](16)


def ground(dialect: Dialect) -> Ground:
    """Returns what all bodies of a dialect share, made once.

    Raises EngineError if llguidance is not installed.
    """
    found = _grounds.known.get(dialect.fingerprint)
    if found is None:
        words_of(dialect, call_ends(dialect)[1])  # says how to install what it lacks
        text = GrammarGraph(dialect, ()).text
        words, companion = token_classes(dialect, text).vocabulary, lexemes(dialect, text)
        bitmask = Bitmask(words.size)
        counts = [0 if b"\\" in t else sum(b & 0xC0 != 0x80 for b in t) for t in words.tokens]
        search = Search(companion, words, bitmask)
        opens = np.array([any(b in t for b in b'"{[') for t in words.tokens])
        characters, closing = np.array(counts, dtype=np.int32), fixes(companion, search)
        ordinary = np.zeros(words.size, bool)
        ordinary[: len(words.tokens)] = [bool(token) for token in words.tokens]
        made = Ground(companion, bitmask, search, characters, opens, ordinary, closing, taken())
        found = _grounds.keep(dialect.fingerprint, made)
    return found
