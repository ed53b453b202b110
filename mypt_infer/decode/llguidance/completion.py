"""Endings of bodies that llguidance reads: found byte by byte, then written in as few tokens as can
be.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.vocab import Ints, Vocabulary
from mypt_infer.decode.llguidance.lexer import Lexemes
from mypt_infer.decode.tables import DEAD_STATE

EXPANSIONS = 3000  # places that a search looks at, about 0.1 s
_WORDS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ .:,"
_INSIDE = [*b'"', *_WORDS, *range(0x100)]  # a string: what is tried first
_OUTSIDE = [*b'}]"', *_WORDS, *range(0x100)]


class Packed:
    """The allow set of a matcher, unpacked. One buffer, used again."""

    def __init__(self, size: int) -> None:
        import llguidance.numpy as packed

        self._packed, self._mask, self.size = packed, packed.allocate_token_bitmask(1, size), size

    def bits(self, matcher: Any) -> npt.NDArray[np.bool_]:
        """Which ids may follow; shape (size,)."""
        self._packed.fill_next_token_bitmask(matcher, self._mask)
        return np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: self.size].view(
            np.bool_
        )

    def some(self, matcher: Any, ids: Ints) -> npt.NDArray[np.bool_]:
        """Which of some ids may follow."""
        self._packed.fill_next_token_bitmask(matcher, self._mask)
        found: npt.NDArray[np.bool_] = (self._mask[0, ids >> 5] >> (ids & 31) & 1).astype(bool)
        return found


class Search:
    """Looks for endings: where least was begun, least is open, and the first choice was taken most
    often.
    """

    def __init__(self, lexemes: Lexemes, vocabulary: Vocabulary, packed: Packed) -> None:
        self.lexemes, self.vocabulary, self.packed = lexemes, vocabulary, packed
        ids = {token[0]: i for i, token in enumerate(vocabulary.tokens) if len(token) == 1}
        self.id_of = ids
        self.inside, self.outside = (
            np.array([ids[b] for b in dict.fromkeys(order)], dtype=np.int32)
            for order in (_INSIDE, _OUTSIDE)
        )
        self._orders: dict[int, tuple[Ints, list[int], list[int]]] = {}

    def ending(
        self, matcher: Any, state: int, limit: int = EXPANSIONS
    ) -> tuple[list[int] | None, int]:
        """Tokens that complete the body, None if none were found, and how many places were looked
        at.

        `state` is the companion's. The matcher is left as it is.
        """
        heap: list[tuple[int, int, bytes, int, int, Any, int]] = [
            (0, 0, b"", state, 0, matcher, -1)
        ]
        count = looked = 0
        while heap and looked < limit:
            _, _, text, at, cost, before, token = heapq.heappop(heap)
            looked += 1
            here = before.deep_copy()
            if token >= 0 and not here.consume_token(token):
                continue
            forced = here.compute_ff_bytes()
            if forced and not here.is_accepting():
                for byte in forced:
                    cost += self._cost(at, byte)
                    at = self.lexemes.next(at, self.id_of[byte])
                if at == DEAD_STATE or not here.consume_tokens([self.id_of[b] for b in forced]):
                    continue
                text += forced
            if here.is_accepting():
                return self.tokens(text), looked
            order, follows, bytes_ = self._order(at)
            chosen = np.flatnonzero(self.packed.some(here, order)).tolist()
            for rank, (token, then, byte) in enumerate(
                (int(order[i]), follows[i], bytes_[i]) for i in chosen
            ):
                more = cost + self._cost(at, byte) + rank
                count += 1
                heapq.heappush(
                    heap,
                    (
                        more + (then in self.lexemes.strings),
                        -count,
                        text + bytes([byte]),
                        then,
                        more,
                        here,
                        token,
                    ),
                )
        return None, looked

    def _order(self, at: int) -> tuple[Ints, list[int], list[int]]:
        """The tokens of one byte that the companion takes in a state, as they are tried; the states
        behind them; the bytes.
        """
        if at not in self._orders:
            order = self.inside if at in self.lexemes.strings else self.outside
            follows = {int(i): self.lexemes.next(at, int(i)) for i in order}
            order = order[[follows[int(i)] != DEAD_STATE for i in order]]
            self._orders[at] = (
                order,
                [follows[int(i)] for i in order],
                [self.vocabulary.tokens[int(i)][0] for i in order],
            )
        return self._orders[at]

    def _cost(self, at: int, byte: int) -> int:
        """What a byte adds to the search's order: members and items count, open containers more."""
        return (
            0
            if at in self.lexemes.strings
            else {44: 3, 91: 4, 123: 4, 93: -3, 125: -3}.get(byte, 0)
        )

    def tokens(self, text: bytes) -> list[int]:
        """A text in as few tokens as can be."""
        best: list[tuple[int, int, int]] = [(0, -1, -1)] + [(len(text) + 1, -1, -1)] * len(
            text
        )  # count, token, where it began
        for at in range(len(text)):
            tree, count = self.vocabulary.trie, best[at][0] + 1
            for end in range(at, len(text)):
                below = tree.below.get(text[end])
                if below is None:
                    break
                tree = below
                if tree.ids and count < best[end + 1][0]:
                    best[end + 1] = (count, tree.ids[0], at)
        out: list[int] = []
        place = len(text)
        while place:
            _, token, place = best[place]
            out.append(token)
        return out[::-1]


def fixes(lexemes: Lexemes, search: Search) -> dict[int, list[int]]:
    """Of each state inside a string that has half a character or escape behind it: the fewest
    bytes, as tokens, that complete it.
    """
    quote = search.id_of[ord('"')]
    closes = {
        s for s in lexemes.strings if lexemes.next(s, quote) not in (*lexemes.strings, DEAD_STATE)
    }
    out: dict[int, list[int]] = {s: [] for s in closes}
    while more := [s for s in lexemes.strings if s not in out]:
        steps = {
            s: (t, then)
            for s in more
            for t in search.inside.tolist()
            if (then := lexemes.next(s, t)) in out
        }
        if not steps:
            break
        out |= {s: [t, *out[then]] for s, (t, then) in steps.items()}
    return {s: fix for s, fix in out.items() if fix}
