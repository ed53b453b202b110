"""Finds endings of bodies that llguidance reads, and writes them in as few tokens as possible.

Input: a matcher, and a state of the companion. Output: tokens that complete the body. The search
goes byte by byte, because a grammar that accepts a body accepts all its bytes one by one.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.vocab import Ints, Vocabulary
from mypt_infer.decode.llguidance.lexer import Lexemes
from mypt_infer.decode.tables import DEAD_STATE

# The most places that a search looks at, about 0.1 s.
EXPANSIONS = 3000
_WORDS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ .:,"
# The order in which bytes are tried, inside a string and outside.
_INSIDE = [*b'"', *_WORDS, *range(0x100)]
_OUTSIDE = [*b'}]"', *_WORDS, *range(0x100)]


class Bitmask:
    """Unpacks the bitmask of a matcher, with one buffer for all calls."""

    def __init__(self, size: int) -> None:
        import llguidance.numpy as kernels

        self._kernels, self.size = kernels, size
        self._bits = kernels.allocate_token_bitmask(1, size)

    def bits(self, matcher: Any) -> npt.NDArray[np.bool_]:
        """Returns whether each id may follow: bool, shape (size,)."""
        self._kernels.fill_next_token_bitmask(matcher, self._bits)
        return np.unpackbits(self._bits.view(np.uint8), bitorder="little")[: self.size].view(
            np.bool_
        )

    def some(self, matcher: Any, ids: Ints) -> npt.NDArray[np.bool_]:
        """Returns whether each of some ids may follow: bool, shape of `ids`."""
        self._kernels.fill_next_token_bitmask(matcher, self._bits)
        found: npt.NDArray[np.bool_] = (self._bits[0, ids >> 5] >> (ids & 31) & 1).astype(bool)
        return found


class Search:
    """Searches for endings, best first.

    Best is a text that began few members and items, has few containers open, and mostly took the
    first byte in the order of `_INSIDE` and `_OUTSIDE`.
    """

    def __init__(self, lexemes: Lexemes, vocabulary: Vocabulary, bitmask: Bitmask) -> None:
        self.lexemes, self.vocabulary, self.bitmask = lexemes, vocabulary, bitmask
        ids = {token[0]: i for i, token in enumerate(vocabulary.tokens) if len(token) == 1}
        self.id_of = ids
        self.inside, self.outside = (
            np.array([ids[b] for b in dict.fromkeys(order)], dtype=np.int32)
            for order in (_INSIDE, _OUTSIDE)
        )
        self._orders: dict[int, tuple[Ints, list[int], list[int]]] = {}

    def ending(self, matcher: Any, state: int) -> tuple[list[int] | None, int]:
        """Returns (ending, looked): tokens that complete the body, and how many places it took.

        The ending is None if none was found within EXPANSIONS places. `state` is the companion's.
        The matcher is left as it is.
        """
        heap: list[tuple[int, int, bytes, int, int, Any, int]] = [
            (0, 0, b"", state, 0, matcher, -1)
        ]
        count = looked = 0
        while heap and looked < EXPANSIONS:
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
            chosen = np.flatnonzero(self.bitmask.some(here, order)).tolist()
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
        """Returns (ids, states, bytes) of the tokens of one byte that the companion takes.

        They are in the order in which the search tries them."""
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
        """Returns the cost of a byte: members and items cost, open containers cost more."""
        return (
            0
            if at in self.lexemes.strings
            else {44: 3, 91: 4, 123: 4, 93: -3, 125: -3}.get(byte, 0)
        )

    def tokens(self, text: bytes) -> list[int]:
        """Returns a text in as few tokens as possible."""
        # Count of tokens, the last token, and where it begins.
        best: list[tuple[int, int, int]] = [(0, -1, -1)] + [(len(text) + 1, -1, -1)] * len(text)
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
    """Returns, for each state within a character or an escape, the fewest tokens that complete it.

    All tokens are single bytes. States at a whole character are not in the result.
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
