"""Holds what all bodies of a dialect share: the companion, the search, and facts of tokens.

Input: a dialect. Output: its Ground, made once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints, cached_by
from mypt_infer.decode.compile.byte_dfa import QUOTE
from mypt_infer.decode.compile.grammar_graph import GrammarGraph, call_ends
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_infer.decode.llguidance.completion import Bitmask, Search
from mypt_infer.decode.llguidance.grammar import words as words_of
from mypt_infer.decode.llguidance.lexer import Companion, lexemes
from mypt_spec import Dialect
from mypt_spec.memo import Memo

# The bytes of what is kept of all that a companion takes.
_ROOM = 8 << 20


class AcceptedIds(NamedTuple):
    """What a companion takes in a state.

    `bits`: uint8, a bit for each id, lowest first, whole words of 32. Of these ids, `unfinished`
    leave a number unfinished, and after those of `begun` something is pending.
    """

    bits: npt.NDArray[np.uint8]
    unfinished: Ints
    begun: Ints


class Pending(NamedTuple):
    """What a companion may yet refuse inside a string or a text.

    `avoided`: the ASCII characters that may begin what it refuses. `states`: bool, for each of its
    states, whether something of that kind has begun. From the others any characters may follow but
    those avoided, and then the end of the string.
    """

    avoided: str
    states: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ground:
    """What all bodies of a dialect share.

    `characters`: int32, the number of characters in each ordinary token, 0 if it holds a backslash.
    `opens`: bool, whether the token holds a quote or an opening bracket. `pending`: what the
    companion may yet refuse. By its state: `fixes`, the fewest tokens that complete a character or
    an escape; `accepted`, see `takes`; `settling`, see `Prover.goes_on`.
    """

    lexemes: Companion
    search: Search
    characters: Ints
    opens: npt.NDArray[np.bool_]
    fixes: dict[int, list[int]]
    pending: Pending
    accepted: Memo[int, AcceptedIds] = field(default_factory=lambda: Memo(1024, room=_ROOM))
    settling: dict[int, list[list[int]]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Returns the bytes that it takes at most, about, without the companion."""
        arrays = self.characters.nbytes + self.opens.nbytes + self.pending.states.nbytes
        return _ROOM + arrays

    def takes(self, state: int) -> AcceptedIds:
        accepted = self.accepted.entries.get(state)
        if accepted is None:
            flags, then, _ = self.lexemes.allowed(state)
            flags = flags & self.search.vocabulary.texts
            packed = np.packbits(flags, bitorder="little")
            bits = np.zeros(-(-len(flags) // 32) * 4, dtype=np.uint8)
            bits[: len(packed)] = packed
            unfinished, begun = (
                np.flatnonzero(flags & which[then]).astype(np.int32)
                for which in (self.lexemes.unfinished, self.pending.states)
            )
            accepted = AcceptedIds(bits, unfinished, begun)
            self.accepted.keep(state, accepted, sum(part.nbytes for part in accepted))
        return accepted

    def proved(self, first: Any, body: list[int], end: int) -> bool:
        """Returns whether tokens are a whole body that `end` follows; `first` is its matcher."""
        tokens = [*body, end]
        return first.validate_tokens(tokens) == len(tokens) and self.lexemes.may_end(
            self.lexemes.run(self.lexemes.first, body)
        )


def pending(companion: Companion, search: Search, inside: Iterable[int], plain: int) -> Pending:
    """Returns what a companion may yet refuse in the states `inside` a string or a text.

    `plain` is one of these, in which nothing has begun.
    """
    states = list(inside)
    follow = np.zeros((companion.tables.size, 256), dtype=np.int32)
    codes = sorted(search.vocabulary.of_byte)
    single = np.array([search.id_of[byte] for byte in codes])
    for state in states:
        follow[state, codes] = companion.allowed(state)[1][single]
    ascii_ = np.array([b for b in range(0x20, 0x80) if b not in b'"\\'])
    plain_codes = ascii_[follow[plain, ascii_] == plain]  # after these nothing has begun, either
    as_plain = (follow[:, plain_codes] == plain).all(axis=1)
    avoided = ascii_[~as_plain[follow[plain, ascii_]]]
    leading = {*range(0x20, 0x80), *range(0xC2, 0xF5)} & {*codes} - {*avoided.tolist(), 0x5C}
    first = np.array(sorted(leading))
    good = np.zeros(len(follow), bool)
    good[states] = True
    # A character that is cut in half can only be completed, by bytes that do not begin one.
    later = follow[:, 0x80:0xC0]
    leads_on = (later != DEAD_STATE).any(axis=1)
    while True:
        fine = good[follow]
        fine[:, 0x22] = good[follow[:, 0x22]] | ~np.isin(follow[:, 0x22], [*states, DEAD_STATE])
        still_good = good & np.where(
            leads_on,
            (fine[:, 0x80:0xC0] | (later == DEAD_STATE)).all(axis=1),
            fine[:, first].all(axis=1),
        )
        if (still_good == good).all():
            break
        good = still_good
    out = np.zeros(len(follow), bool)
    out[states] = ~good[states]
    return Pending(avoided.astype(np.uint8).tobytes().decode(), out)


@cached_by(lambda dialect, *_: dialect.fingerprint)
def ground(dialect: Dialect) -> Ground:
    """Returns what all bodies of a dialect share, made once.

    Raises EngineError if llguidance is not installed.
    """
    words_of(dialect, call_ends(dialect)[1])  # says how to install what it lacks
    text = GrammarGraph(dialect, ()).text
    words, companion = token_classes(dialect, text).vocabulary, lexemes(dialect, text)
    search = Search(companion, words, Bitmask(words.size))
    counts = [0 if b"\\" in t else sum(b & 0xC0 != 0x80 for b in t) for t in words.tokens]
    opens = np.array([any(b in t for b in b'"{[') for t in words.tokens])
    strings, quote = companion.strings, search.id_of[QUOTE]
    goals = [s for s in strings if companion.next(s, quote) not in (*strings, DEAD_STATE)]
    closing = companion.fixes(strings, goals, search.inside.tolist())
    begun = pending(companion, search, strings, strings[0])
    characters = np.array(counts, dtype=np.int32)
    return Ground(companion, search, characters, opens, closing, begun)
