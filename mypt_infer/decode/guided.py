"""The second engine: bodies of calls by llguidance, for schemas that no table holds. States are numbered as they come up.

What may follow is what llguidance and the companion (`lexemes`) both take, and from where an ending is known: every id that is
offered was shown to lead to a complete body in a known number of tokens. So budgets hold, though these numbers are only the
least that was found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.calls import Calls, Rule, calls_of, ground
from mypt_infer.decode.lexemes import Lexemes
from mypt_infer.decode.model import call_ends
from mypt_infer.decode.position import where
from mypt_infer.decode.tables import DEAD_STATE
from mypt_infer.decode.tools import ToolSpec
from mypt_infer.decode.vocab import Ints
from mypt_infer.decode.witness import EXPANSIONS
from mypt_spec import Dialect
from mypt_spec.jsonvalue import Fault, faults, loads

_KEPT = 256  # matchers, and sets of what may follow
_FREE = 1000  # a string in which more ids may follow than this has no list of values
_MORE = 3 * EXPANSIONS  # what all searches of one state may look at


class _Place(NamedTuple):
    """A state: the hole it stands in, the state before it and the token between (-1 at the beginning), and a known ending."""

    hole: int
    before: int
    token: int
    companion: int
    ending: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Options:
    """`ids`: sorted, those that may follow; `least`: tokens from behind each to the end of the body, 0 if it is the end."""

    ids: Ints
    least: Ints
    ending: Ints  # which of `endings`
    endings: list[list[int]]


class Guided:
    """The states of bodies, from `tables.size` on; below are those of the tables, which have a hole for each body."""

    def __init__(
        self, dialect: Dialect, tools: Sequence[ToolSpec], barred: frozenset[str] = frozenset()
    ) -> None:
        self.dialect, self.ground, self.end = dialect, ground(dialect), call_ends(dialect)[1]
        self.calls: Calls = calls_of(dialect, tools, barred)
        self.tables, self.first, self.endings = (
            self.calls.tables,
            self.calls.first,
            self.calls.endings,
        )
        self.size = self.tables.size
        self.spare = [
            self.ground.search.id_of[b] for b in b"0123456789"
        ]  # they make a key another one
        self.places: list[_Place] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._matchers: OrderedDict[int, Any] = OrderedDict()
        self._options: OrderedDict[int, Options] = OrderedDict()

    def least_of(self, tool: int) -> int:
        """The least number of tokens that was found for the body of a call of a tool."""
        return len(self.endings[tool + 1])

    # What the decoder asks of an engine.

    def enter(self, hole: int) -> int:
        """The state at the beginning of the body that a state of the tables leaves to this engine."""
        return self._number(
            _Place(
                hole, -1, -1, self.ground.lexemes.first, self.endings[self.tables.holes[hole][0]]
            )
        )

    def next(self, state: int, token: int) -> int:
        """The state behind a token: DEAD_STATE where it is refused, the tables' state where it completes the body."""
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
            _Place(
                place.hole, state, token, companion, tuple(options.endings[int(options.ending[at])])
            )
        )

    def minimum(self, state: int) -> int:
        """The least number of tokens to the end of the body that is known."""
        return len(self.places[state - self.size].ending)

    def behind(self, state: int) -> int:
        """The tables' state behind the body."""
        return self.tables.holes[self.places[state - self.size].hole][1]

    def options(self, state: int) -> Options:
        """What may follow a state."""
        found = self._options.get(state)
        if found is None:
            found = self._options[state] = self._find(state)
            if len(self._options) > _KEPT:
                self._options.popitem(last=False)
        self._options.move_to_end(state)
        return found

    # Inside.

    def _number(self, place: _Place) -> int:
        key = (place.hole, place.before, place.token)
        if key not in self._numbers:
            self._numbers[key] = self.size + len(self.places)
            self.places.append(place)
        return self._numbers[key]

    def tokens(self, state: int) -> list[int]:
        """The tokens of the body so far."""
        out = []
        while (place := self.places[state - self.size]).before >= 0:
            out.append(place.token)
            state = place.before
        return out[::-1]

    def _matcher(self, state: int) -> Any:
        """The matcher of a state; not to be changed but by what is rolled back."""
        found = self._matchers.get(state)
        if found is None:
            place = self.places[state - self.size]
            before = self._matchers.get(place.before)
            found = (before or self.first[self.tables.holes[place.hole][0]]).deep_copy()
            if place.before >= 0 and not found.consume_tokens(
                [place.token] if before is not None else self.tokens(state)
            ):
                raise RuntimeError(f"llguidance stopped: {found.get_error()}")
            self._matchers[state] = found
            if len(self._matchers) > _KEPT:
                self._matchers.popitem(last=False)
        self._matchers.move_to_end(state)
        return found

    def _rules(self, hole: int, text: bytes) -> tuple[frozenset[str], bool]:
        """Of the tool that is called: the keys of members that patterns bind, and whether all members are named."""
        tool = self.tables.holes[hole][0] - 1
        rules = self.calls.rules
        rule = (
            rules[tool]
            if tool >= 0
            else next(
                (r for r in rules if text.startswith(r.begins)), Rule(b"", frozenset([""]), False)
            )
        )
        return rule.bound, rule.closed

    def _sound(self, text: bytes, before: list[int], ending: list[int]) -> bool:
        """Whether no key stands twice in the whole body, and nothing is nested too deep."""
        try:
            return not list(
                faults(
                    loads((text + self.dialect.tokenizer.decode_bytes([*before, *ending])).decode())
                )
            )
        except (Fault, UnicodeDecodeError):
            return False

    def _find(self, state: int) -> Options:
        place, here = self.places[state - self.size], self._matcher(state)
        both, then, stays = self.ground.lexemes.allowed(place.companion)
        both &= self.ground.packed.bits(here)
        both[len(self.ground.characters) :] = False
        if here.is_error():
            return _only(place.ending)
        both[place.ending[0]] = True
        text = self.dialect.tokenizer.decode_bytes(self.tokens(state))
        at = where(text)
        bound, closed = self._rules(place.hole, text)
        ids = np.flatnonzero(both)
        # In a value that only a length can bind, tokens that leave the companion in one state are alike if they are as long.
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
            if found < 0 and looked < _MORE:
                behind = here.deep_copy()
                ending, count = (
                    self.ground.search.ending(behind, after)
                    if behind.consume_token(token)
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
        ending_of[np.searchsorted(ids, place.ending[0])] = (
            0  # whatever else was tried: this is how the body is known to end
        )
        kept = ending_of >= 0
        lengths = np.array([len(e) for e in tried.list], dtype=np.int32)
        return Options(
            ids[kept].astype(np.int32), lengths[ending_of[kept]], ending_of[kept], tried.list
        )


class _Endings:
    """Endings that are tried behind many tokens in one place; `here` is the matcher there, `end` stands behind a body."""

    def __init__(self, lexemes: Lexemes, here: Any, end: int, endings: list[list[int]]) -> None:
        self.list, self._lexemes, self._here, self._end = endings, lexemes, here, end
        self._tails = [[*e, end] for e in endings]
        self._closes: dict[
            tuple[int, int], bool
        ] = {}  # the companion says the same behind all tokens that leave it in one state

    def fits(self, ending: int, token: int, after: int) -> bool:
        """Whether a token and then an ending, by its number, complete the body. `after` is the companion's state behind the token."""
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
        """The number of the first of other endings that fits, which is kept; -1 if none does."""
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
    """Groups of those that are alike and have one key; the others each alone. The first of each group, and the group of each."""
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


def _only(ending: tuple[int, ...]) -> Options:
    """Where llguidance gave up: nothing but the ending that is known."""
    rest = list(ending[1:])
    one = np.array([ending[0]], dtype=np.int32)
    return Options(one, np.array([len(rest)], dtype=np.int32), np.zeros(1, dtype=np.int32), [rest])
