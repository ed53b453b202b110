"""Reads bodies of calls with llguidance, for schemas that no table can hold.

Input: a state and a token. Output: the next state, and for a state the ids that may follow.

Theory of operation. The tables leave a *hole* for the body of each call: a state before it and one
after it. States inside are numbered from `tables.size` on as they come up; each remembers the state
before it, the token between, the companion's state and an *ending*, tokens that complete the body.
An id may follow when three agree:

1. llguidance: the matcher of the tool's grammar takes it. The last matchers are kept; others are
   made again by replaying the tokens of their state.
2. The companion (lexer.py): tables of what llguidance does not know, that strings spell no tag, and
   how strings and numbers are written canonically.
3. An ending is known: for each id that both take, the state's own ending is tried first, then other
   known ones, then a search. An id without a proven ending is not offered.

So each state offers an id, and budgets hold: an ending takes at least as many tokens as the body
needs, though not always the least. Ids in a free string that lead the companion to one state and
are equally long are judged together (`_groups`): they are too many to try one by one.

In dialect mypt, a tool `f` has one required argument, `"a": {"type": "integer", "multipleOf": 3}`.
The tables have 1,389 states, so state 1389 is the start of the body: 13 tokens to a legal ending,
and 2 ids may follow. Along `{"name": "f", "a": 3}` the distance falls by one with each token; after
`"a":` 684 ids may follow, ` 3` among them. `}` leads back into the tables, to state 1388, where
only `</myPT_toolcall>` may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.call_ids import Ids
from mypt_infer.decode.compile.call_graph import OPENED
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.vocab import Ints
from mypt_infer.decode.llguidance.completion import EXPANSIONS
from mypt_infer.decode.llguidance.grammar import ANY
from mypt_infer.decode.llguidance.lexer import Lexemes
from mypt_infer.decode.llguidance.position import last_call, where
from mypt_infer.decode.llguidance.tools import Calls, Rule, calls_of, ground
from mypt_infer.decode.tables import DEAD_STATE
from mypt_infer.decode.tools import ToolSpec
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import ID
from mypt_spec.bodies.strict_json import Fault, faults, loads
from mypt_spec.memo import Memo
from mypt_spec.table import LISTS

# The number of matchers, and of sets of what may follow, that are kept.
_KEPT = 256
# A string in which more ids may follow than this is free: it has no list of values.
_FREE = 1000
# The most places that all searches of one state look at.
_MORE = 3 * EXPANSIONS


class _BodyState(NamedTuple):
    """A state: its hole, the state before it, the token between (-1 at the start), an ending."""

    hole: int
    before: int
    token: int
    companion: int
    ending: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ProvenIds:
    """The ids that may follow a state, sorted, each with an ending that is proven to fit.

    `least` holds, for each id, the tokens from after it to the end of the body; 0 if it is the end.
    """

    ids: Ints
    least: Ints
    ending: Ints  # which of `endings`
    endings: list[list[int]]


class Guided:
    """The states of bodies, from `tables.size` on; lower states are those of the tables."""

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[ToolSpec],
        forbidden_blocks: frozenset[str] = frozenset(),
    ) -> None:
        self.dialect, self.ground = dialect, ground(dialect)
        self.kind, self.end = call_ends(dialect)
        self.calls: Calls = calls_of(dialect, tools, forbidden_blocks)
        self.tables, self.first, self.endings = (
            self.calls.tables,
            self.calls.first,
            self.calls.endings,
        )
        self.size = self.tables.size
        # One of these before the rest of a key makes it another key.
        self.spare = [self.ground.search.id_of[b] for b in b"0123456789"]
        self.places: list[_BodyState] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._matchers = Memo[int, Any](_KEPT)
        self._options = Memo[int, ProvenIds](_KEPT)

    def least_of(self, tool: int) -> int:
        """Returns the least number of tokens that was found for the body of a call of a tool."""
        return len(self.endings[tool + 1])

    @cached_property
    def tails(self) -> list[list[int]]:
        """Returns endings of a list of calls between calls: all tails of one more call."""
        if self.kind not in LISTS:
            return []
        call = self.dialect.tokenizer.decode_bytes(self.endings[ANY])[len(OPENED) :]
        text = f', {{"{ID}": "0", '.encode() + call
        return [self.ground.search.tokens(text[i:]) for i in range(len(text))]

    # What the decoder asks of an engine.

    def enter(self, hole: int) -> int:
        """Returns the state at the start of a body that the tables leave to this engine."""
        return self._number(
            _BodyState(
                hole, -1, -1, self.ground.lexemes.first, self.endings[self.tables.holes[hole][0]]
            )
        )

    def next(self, state: int, token: int) -> int:
        """Returns the state after a token: DEAD_STATE if refused, the tables' if the body ends."""
        options = self.options(state)
        at = int(np.searchsorted(options.ids, token))
        if at >= len(options.ids) or options.ids[at] != token:
            return DEAD_STATE
        place = self.places[state - self.size]
        if options.least[at] == 0:
            return self.tables.holes[place.hole][1]
        known = self._numbers.get((place.hole, state, token))
        if known is not None:
            return known
        companion = self.ground.lexemes.next(place.companion, token)
        return self._number(
            _BodyState(
                place.hole, state, token, companion, tuple(options.endings[int(options.ending[at])])
            )
        )

    def minimum(self, state: int) -> int:
        """Returns the least known number of tokens to the end of the body."""
        return len(self.places[state - self.size].ending)

    def after(self, state: int) -> int:
        """Returns the tables' state after the body."""
        return self.tables.holes[self.places[state - self.size].hole][1]

    def options(self, state: int) -> ProvenIds:
        """Returns what may follow a state."""
        return self._options.known.get(state) or self._options.keep(state, self._find(state))

    # Inside.

    def _number(self, place: _BodyState) -> int:
        key = (place.hole, place.before, place.token)
        if key not in self._numbers:
            self._numbers[key] = self.size + len(self.places)
            self.places.append(place)
        return self._numbers[key]

    def tokens(self, state: int) -> list[int]:
        """Returns the tokens of the body so far."""
        out = []
        while (place := self.places[state - self.size]).before >= 0:
            out.append(place.token)
            state = place.before
        return out[::-1]

    def _matcher(self, state: int) -> Any:
        """Returns the matcher of a state. Callers must leave it as it is."""
        found = self._matchers.known.get(state)
        if found is None:
            place = self.places[state - self.size]
            before = self._matchers.known.get(place.before)
            found = (before or self.first[self.tables.holes[place.hole][0]]).deep_copy()
            if place.before >= 0 and not found.consume_tokens(
                [place.token] if before is not None else self.tokens(state)
            ):
                raise RuntimeError(f"llguidance stopped: {found.get_error()}")
            self._matchers.keep(state, found)
        return found

    def _rules(self, hole: int, text: bytes) -> tuple[frozenset[str], bool]:
        """Returns (bound, closed) for the tool that is called.

        `bound` are the keys of members that patterns bind; `closed`: all members are named.
        """
        tool = self.tables.holes[hole][0] - 1
        rules = self.calls.rules
        if self.kind in LISTS:
            call = last_call(text)
            if call is None:  # in an id, or before one
                return frozenset(), True
            text = call
        rule = (
            rules[tool]
            if tool >= 0
            else next(
                (r for r in rules if text.startswith(r.begins)), Rule(b"", frozenset([""]), False)
            )
        )
        return rule.bound, rule.closed

    def _sound(self, text: bytes, before: list[int], ending: list[int]) -> bool:
        """Returns whether the whole body is strict JSON: no key twice, nothing nested too deep."""
        try:
            return not list(
                faults(
                    loads((text + self.dialect.tokenizer.decode_bytes([*before, *ending])).decode())
                )
            )
        except (Fault, UnicodeDecodeError):
            return False

    def _find(self, state: int) -> ProvenIds:
        place, here = self.places[state - self.size], self._matcher(state)
        both, then, stays = self.ground.lexemes.allowed(place.companion)
        both &= self.ground.bitmask.bits(here)
        both[len(self.ground.characters) :] = False
        if here.is_error():
            return _only(place.ending)
        both[place.ending[0]] = True
        text = self.dialect.tokenizer.decode_bytes(self.tokens(state))
        at, listed = where(text), Ids().read(text)
        bound, closed = self._rules(place.hole, text)
        ids = np.flatnonzero(both)
        # In a string that only a length can bind, tokens of equal length that lead the companion to
        # the same state are alike.
        alike = stays & both
        alike[: len(self.ground.characters)] &= self.ground.characters > 0
        if at.key or alike.sum() < _FREE or "" in bound or at.member in bound:
            alike[:] = False
        first, members = _groups(
            alike[ids], then[ids] << 8 | np.minimum(self.ground.characters[ids], 255)
        )
        tried = _Endings(
            self.ground.lexemes, here, self.end, [list(place.ending)[1:], list(place.ending), []]
        )
        which, hints, looked = np.full(len(first), -1, dtype=np.int32), dict[int, int](), 0
        tokens, afters = ids[first].tolist(), then[ids[first]].tolist()
        doubts = (
            np.full(len(first), not closed) & (at.key | self.ground.opens[ids[first]])
        ).tolist()
        alikes = (then[ids[first]] << 8 | self.ground.characters[ids[first]]).tolist()
        for i, (token, after, doubtful, hint) in enumerate(
            zip(tokens, afters, doubts, alikes, strict=True)
        ):

            def good(ending: list[int], token: int = token, doubtful: bool = doubtful) -> bool:
                return not (doubtful and not self._sound(text, [token], ending))

            guess = hints.get(hint, 0)
            found = guess if tried.fits(guess, token, after) and good(tried.list[guess]) else -1
            if found < 0:
                found = next(
                    (
                        e
                        for e in range(len(tried.list))
                        if tried.fits(e, token, after) and good(tried.list[e])
                    ),
                    -1,
                )
            if found < 0 and after in self.ground.fixes:
                found = tried.first(
                    [[*self.ground.fixes[after], *e] for e in tried.list], token, after, good
                )
            if (
                found < 0
                and self.tails
                and _shallow(listed, self.dialect.tokenizer.decode_bytes([token]))
            ):
                found = tried.first(self.tails, token, after, good)
            if found < 0 and looked < _MORE:
                beyond = here.deep_copy()
                ending, count = (
                    self.ground.search.ending(beyond, after)
                    if beyond.consume_token(token)
                    else (None, 0)
                )
                looked += count
                more = (
                    []
                    if ending is None
                    else [ending, *([i, *ending] for i in self.spare if at.key)]
                )
                found = tried.first(more, token, after, good)
            which[i] = found
            hints[hint] = max(found, 0)
        ending_of = which[members]
        # Whatever else was tried, the state's own ending is proven.
        ending_of[np.searchsorted(ids, place.ending[0])] = 0
        kept = ending_of >= 0
        lengths = np.array([len(e) for e in tried.list], dtype=np.int32)
        return ProvenIds(
            ids[kept].astype(np.int32), lengths[ending_of[kept]], ending_of[kept], tried.list
        )


class _Endings:
    """Tries endings after many tokens of one state.

    `here` is the matcher of the state, `end` the token that follows a body.
    """

    def __init__(self, lexemes: Lexemes, here: Any, end: int, endings: list[list[int]]) -> None:
        self.list, self._lexemes, self._here, self._end = endings, lexemes, here, end
        self._tails = [[*e, end] for e in endings]
        # The companion's answers, by its state and the ending: many tokens lead to one state.
        self._closes: dict[tuple[int, int], bool] = {}

    def fits(self, ending: int, token: int, after: int) -> bool:
        """Returns whether a token and then an ending, by its number, complete the body.

        `after` is the companion's state after the token.
        """
        closes = self._closes.get((after, ending))
        if closes is None:
            closes = self._closes[after, ending] = (
                self._lexemes.run(after, self.list[ending]) != DEAD_STATE
            )
        tail = self._tails[ending]
        return closes and self._here.validate_tokens([token, *tail]) == len(tail) + 1

    def first(
        self, more: Iterable[list[int]], token: int, after: int, good: Callable[[list[int]], bool]
    ) -> int:
        """Keeps the first of other endings that fits, and returns its number; -1 if none does."""
        for ending in more:
            tail = [*ending, self._end]
            if (
                self._lexemes.run(after, ending) != DEAD_STATE
                and self._here.validate_tokens([token, *tail]) == len(tail) + 1
                and good(ending)
            ):
                self.list.append(ending)
                self._tails.append(tail)
                return len(self.list) - 1
        return -1


def _groups(
    alike: npt.NDArray[np.bool_], keys: Ints
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Groups those that are alike by key; each other one is a group alone.

    Returns the first of each group, and the group of each.
    """
    alone, many = np.flatnonzero(~alike), np.flatnonzero(alike)
    first_of = np.full(int(keys.max(initial=0)) + 1, -1, dtype=np.intp)
    first_of[keys[many[::-1]]] = many[::-1]
    used = np.flatnonzero(first_of >= 0)
    group_of = np.zeros(len(first_of), dtype=np.intp)
    group_of[used] = len(alone) + np.arange(len(used))
    members = np.empty(len(keys), dtype=np.intp)
    members[alone] = np.arange(len(alone))
    members[many] = group_of[keys[many]]
    return np.concatenate([alone, first_of[used]]), members


def _shallow(ids: Ids | None, text: bytes) -> bool:
    """Returns whether a text ends between calls or among a call's members, after that of `ids`."""
    after = ids.read(text) if ids is not None else None
    return after is not None and 0 <= after.depth <= 2


def _only(ending: tuple[int, ...]) -> ProvenIds:
    """Returns the known ending alone, where llguidance gave up."""
    rest = list(ending[1:])
    one = np.array([ending[0]], dtype=np.int32)
    return ProvenIds(
        one, np.array([len(rest)], dtype=np.int32), np.zeros(1, dtype=np.int32), [rest]
    )
