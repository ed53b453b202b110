"""Bounds the thoughts of one answer, all together, by the number of tokens that a request names.

Input: the decoder of a request, and the state of a row. Output: states in which no thought may hold
more than remains. Decoders bound each thought alone, so a row counts: its state carries what
remains while a thought is open, and the row itself while none is. What remains refuses no token
that fits, so an answer whose thoughts are shorter is the same without a budget.
"""

from typing import NamedTuple

from mypt_infer.decode.compile.nfa import NO_BLOCK, THINKING
from mypt_infer.decode.compile.token_table import FAR
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.limits import UNBOUNDED, closing_tokens, entries_of
from mypt_spec.states import empty_kinds


class Position(NamedTuple):
    """A state of a decoder, and the tokens that remain for thoughts; None without a budget."""

    state: int
    remaining: int | None


class ThoughtLimits:
    """The decoders of rows with a budget of thoughts. Their states are those of `decoder`."""

    def __init__(self, decoder: Decoder) -> None:
        tables = decoder.tables
        self._closing = closing_tokens(decoder.dialect, THINKING)
        to_close = tables.to_close[entries_of(tables, THINKING)]
        least = int(to_close.max(initial=0))
        self._least = max(1, least - self._closing)  # no thought begins with fewer
        thinking = tables.block == THINKING
        thoughtless = tables.measure(tables.final, thinking)
        outside = (tables.block == NO_BLOCK) & (tables.distance < FAR)
        # If turns need thoughts or data has empty ones, those beyond the budget are the shortest.
        needed = bool((thoughtless[outside] != tables.distance[outside]).any())
        views = (UNBOUNDED - 1, least if needed or empty_kinds(decoder.dialect.table) else 0)
        self._open, self._closed = map(decoder.capping_thoughts, views)

    def decoder(self, remaining: int) -> Decoder:
        """Returns the decoder of a row in which so many tokens remain for thoughts."""
        return self._open if remaining >= self._least else self._closed

    def begin(self, state: int, budget: int) -> Position:
        """Returns the position of a row that begins, perhaps in an open thought."""
        return self._entered(state, budget) if self._thinks(state) else Position(state, budget)

    def next(self, at: Position, token: int) -> Position:
        """Returns the position after a token. Raises ValueError if it is not allowed."""
        assert at.remaining is not None
        state = self.decoder(at.remaining).next(at.state, token)
        thought, thinks = self._thinks(at.state), self._thinks(state)
        if thought == thinks:
            return Position(state, at.remaining)
        if thinks:
            return self._entered(state, at.remaining)
        return Position(state, max(0, (at.state & UNBOUNDED) - 1))

    def _entered(self, state: int, remaining: int) -> Position:
        least = self._open.minimum_of_block(state)
        inside = max(least, min(remaining + self._closing, UNBOUNDED - 1))
        return Position(state ^ (state & UNBOUNDED) | inside, remaining)

    def _thinks(self, state: int) -> bool:
        return self._open.thinking(state)
