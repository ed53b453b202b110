"""Proves that bodies can be ended: which ids may follow a place, with an ending after each.

Input: a Place in a body. Output: endings, as tokens that complete the body, and the ids that are
offered or proved because of them. llguidance knows the schema and the companion how JSON is
written; only an ending that both read shows that they agree.

Theory of operation. What was proved for the place before is tried first: its ending without the
first token, the whole ending (the token only made a string longer), nothing at all (the token ended
the body). Then what completes a character or an escape, then a search. For one token (`Prover.one`)
this takes a fraction of a millisecond. For all tokens of a place (`Prover.all`), ids in a free
string that lead the companion to one state and are equally long are judged together (`groups`), and
what the work bound does not reach is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.llguidance.completion import EXPANSIONS
from mypt_infer.decode.llguidance.grammar import Rule
from mypt_infer.decode.llguidance.ground import Ground
from mypt_infer.decode.llguidance.position import Position, Reading
from mypt_spec.bodies.strict_json import Fault, faults, loads

# A string in which more ids may follow than this is free: it has no list of values.
_FREE = 1000
# The most endings that are tried for all ids of one place, some 3 us each, and the most places that
# all searches of one place look at.
_TRIES, _MORE = 4000, EXPANSIONS // 2
# The same for an offer, which is asked for at each step.
_SOON, _NEAR = 250, 20
# The most bytes after which a number or a character is over, and the tails or ids that are tried.
_SETTLED, _ONWARD = 5, 12
# The rest of an open string.
_OPEN = re.compile(rb'(?:[^"\\]|\\.)*"', re.DOTALL)
_QUOTE = b'"'
# The ones in each byte.
_ONES = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.int64)


class Place(NamedTuple):
    """A place in a body.

    `matcher`: llguidance's, which is not changed. `companion`: its state. `text`: the body so far.
    `ending`: tokens that complete the body from here. `at`: where in the JSON; `reading`: what was
    read of it. `rule`: what binds the values.
    """

    matcher: Any
    companion: int
    text: bytes
    ending: tuple[int, ...]
    at: Position
    reading: Reading
    rule: Rule

    @property
    def is_bound(self) -> bool:
        """Returns whether a pattern may bind the next token."""
        return not self.rule.bound.isdisjoint(("", self.at.member))

    @property
    def is_doubted(self) -> bool:
        """Returns whether the next token may lead to where only a forbidden text may follow."""
        return not self.rule.doubted.isdisjoint(("", self.at.member))


@dataclass(frozen=True, eq=False)
class ProvenIds:
    """The ids that may follow a place, sorted, each with an ending that is proven to fit.

    `least` holds, for each id, the tokens from after it to the end of the body; 0 if it is the end.
    `none`: ids that have no ending at all. `cut`: of some ids neither is known.
    """

    ids: Ints
    least: Ints
    ending: Ints  # which of `endings`
    endings: list[list[int]]
    none: Ints
    cut: bool = False

    @property
    def size(self) -> int:
        return 3 * self.ids.nbytes + sum(8 * len(e) + 64 for e in self.endings)


@dataclass(frozen=True, eq=False)
class Offered:
    """The ids that may follow a state, and the tokens from after each to the end of the body.

    `bits`: uint8, a bit for each id, lowest first. `least` is assumed, but proved for the ids in
    `lengths`. `sure`: all ids are proved, or no pattern binds what follows, so that none can be
    refused for want of an ending; None if that was not tried.
    """

    bits: npt.NDArray[np.uint8]
    size: int
    assumed: int
    lengths: dict[int, int]
    sure: bool | None

    @cached_property
    def count(self) -> int:
        return int(_ONES[self.bits].sum())

    def has(self, token: int) -> bool:
        return 0 <= token < self.size and bool(self.bits[token >> 3] >> (token & 7) & 1)

    @property
    def flags(self) -> npt.NDArray[np.bool_]:
        return np.unpackbits(self.bits, bitorder="little")[: self.size].view(np.bool_)

    @property
    def ids(self) -> Ints:
        return np.flatnonzero(self.flags).astype(np.int32)

    @property
    def set(self) -> AllowSet:
        return AllowSet.of_flags(self.flags)

    @property
    def most(self) -> int:
        """Returns the largest of `least`."""
        longest = max(self.lengths.values(), default=0)
        return longest if len(self.lengths) >= self.count else max(longest, self.assumed)

    def without(self, tokens: Iterable[int]) -> Offered:
        lengths = {i: least for i, least in self.lengths.items() if i not in set(tokens)}
        return replace(self, bits=cleared(self.bits, tokens), lengths=lengths)

    @property
    def least(self) -> Ints:
        """Returns the tokens after each id to the end of the body; 0 if it is the end."""
        ids = self.ids
        out = np.full(len(ids), self.assumed, dtype=np.int32)
        for token, count in tuple(self.lengths.items()):  # another thread may add to them
            out[np.searchsorted(ids, token)] = count
        return out


def cleared(bits: npt.NDArray[np.uint8], ids: Iterable[int]) -> npt.NDArray[np.uint8]:
    """Returns bits without those of some ids."""
    out = bits.copy()
    for i in ids:
        out[i >> 3] &= ~(1 << (i & 7)) & 0xFF
    return out


def marked(bits: npt.NDArray[np.uint8], ids: Iterable[int]) -> npt.NDArray[np.uint8]:
    """Returns bits of the same shape, with those of some ids alone."""
    out = np.zeros_like(bits)
    for i in ids:
        out[i >> 3] |= 1 << (i & 7)
    return out


class Prover:
    """Proves endings in the bodies of some tools.

    `end` is the token that follows a body, `tails` are endings between the calls of a list.
    """

    def __init__(self, ground: Ground, end: int, tails: list[list[int]]) -> None:
        self.ground, self.end, self.tails = ground, end, tails
        # One of these before the rest of a key makes it another key.
        self.spare = [ground.search.id_of[b] for b in b"0123456789"]

    def one(self, place: Place, token: int) -> list[int] | None:
        """Returns an ending after one token that both readers take; None if none was found."""
        after = self.ground.lexemes.next(place.companion, token)
        doubtful = not place.rule.closed and bool(place.at.key or self.ground.opens[token])
        tried = self._endings(place)
        index, _, _ = self._prove(place, tried, token, after, doubtful=doubtful)
        return tried.list[index] if index >= 0 else None

    def may_end(self, place: Place, token: int, after: int) -> bool:
        """Returns whether a body may end after a token, which leads the companion to `after`."""
        return _Endings(self.ground, place.matcher, self.end, [[]]).fits(0, token, after)

    def longer(self, place: Place, token: int, after: int) -> list[int]:
        """Returns tokens that make a body longer that may end after one; none if none was found.

        The ending of the place is tried first; of the ids that may come first, few are.
        """
        if _Endings(self.ground, place.matcher, self.end, [[*place.ending]]).fits(0, token, after):
            return [*place.ending]
        ground, matcher = self.ground, place.matcher.deep_copy()
        if not matcher.consume_token(token):
            return []
        bits = ground.takes(after)[0] & ground.search.bitmask.packed(matcher)
        text = place.text + ground.search.vocabulary.tokens[token]
        longer = place._replace(matcher=matcher, companion=after, text=text, ending=())
        ids = np.flatnonzero(np.unpackbits(bits, bitorder="little"))[:_ONWARD].tolist()
        found = ([i, *ending] for i in ids if (ending := self.one(longer, i)) is not None)
        return next(found, [])

    def goes_on(self, place: Place, token: int) -> bool:
        """Returns whether what a token begins, a number or a character, can be ended at once.

        Then an ending follows, but for places that are doubted. False where it is not seen.
        """
        after = self.ground.lexemes.next(place.companion, token)
        tails = self.ground.settling.get(after)
        if tails is None:
            tails = self.ground.settling[after] = self._settling(after)
        check = place.matcher.validate_tokens
        return any(check([token, *tail]) == len(tail) + 1 for tail in tails)

    def all(
        self,
        place: Place,
        ids: Ints,
        then: Ints,
        stays: npt.NDArray[np.bool_],
        *,
        soon: bool = False,
    ) -> ProvenIds:
        """Returns those of some ids after which an ending was found.

        `then` is the companion's state after each of `ids`; `stays`: it does not leave the string.
        `soon` takes a millisecond or two at most, and leaves out more.
        """
        ground, (tries, more_at_most) = self.ground, (_SOON, _NEAR) if soon else (_TRIES, _MORE)
        # In a string that only a length can bind, tokens of equal length that lead the companion to
        # the same state are alike.
        alike = stays & (ground.characters[ids] > 0)
        if place.at.key or alike.sum() < _FREE or place.is_bound:
            alike[:] = False
        keys = then << 8 | np.minimum(ground.characters[ids], 255)
        first, members = groups(alike, keys)
        tried = self._endings(place)
        which, hints, visits = np.full(len(first), -1, dtype=np.int32), dict[int, int](), 0
        none = np.zeros(len(first), bool)
        doubts = (place.at.key | ground.opens[ids[first]]) & (not place.rule.closed)
        rows = zip(ids[first].tolist(), then[first].tolist(), keys[first].tolist(), strict=True)
        for i, (token, after, hint) in enumerate(rows):
            if tried.count > tries or (soon and visits >= more_at_most):
                break
            which[i], none[i], visited = self._prove(
                place,
                tried,
                token,
                after,
                doubtful=bool(doubts[i]),
                guess=hints.get(hint, 0),
                most=more_at_most - visits,
            )
            visits += visited
            hints[hint] = max(int(which[i]), 0)
        ending_of = which[members]
        # Whatever else was tried, the place's own ending is proven.
        ending_of[np.searchsorted(ids, place.ending[0])] = 0
        has_ending = ending_of >= 0
        lengths = np.array([len(e) for e in tried.list], dtype=np.int32)
        return ProvenIds(
            ids[has_ending].astype(np.int32),
            lengths[ending_of[has_ending]],
            ending_of[has_ending],
            tried.list,
            ids[none[members] & ~has_ending].astype(np.int32),
            bool(((which < 0) & ~none).any()),
        )

    # Inside.

    def _settling(self, state: int) -> list[list[int]]:
        """Returns tails, as tokens, after which nothing is begun that the companion may refuse.

        Those of one byte, or else one of few bytes; after a number with what may end it.
        """
        ground, lexemes = self.ground, self.ground.lexemes
        unsettled = ground.pending.states | lexemes.unfinished
        ends = [[i] for i in map(ground.search.id_of.__getitem__, b",}]")]
        if not lexemes.unfinished[state]:
            ends = [[]]
        tails: list[tuple[list[int], int]] = [([], state)]
        tails_settled: list[list[int]] = []
        for _ in range(_SETTLED):
            tails = [
                ([*tail, i], then)
                for tail, at in tails
                for i in ground.search.inside.tolist()
                if (then := lexemes.next(at, i)) != DEAD_STATE
            ]
            tails_settled = [tail for tail, then in tails if not unsettled[then]]
            if tails_settled:
                break
            tails = tails[:_ONWARD]
        return [[*tail, *end] for tail in tails_settled[:_ONWARD] for end in ends]

    def _endings(self, place: Place) -> _Endings:
        body = list(place.ending)
        return _Endings(self.ground, place.matcher, self.end, [body[1:], body, []])

    def _prove(
        self,
        place: Place,
        tried: _Endings,
        token: int,
        after: int,
        *,
        doubtful: bool,
        guess: int = 0,
        most: int = EXPANSIONS,
    ) -> tuple[int, bool, int]:
        """Returns (ending, none, looked): the number of an ending of `tried` that fits, or -1.

        `none`: there is none at all. `visits`: how many places a search looked at. `doubtful`: the
        token may end a key that occurs twice, or nest too deep.
        """

        def good(ending: list[int]) -> bool:
            return not (doubtful and not self._sound(place.text, [token, *ending]))

        for e in (guess, *range(len(tried.list))):
            if tried.fits(e, token, after) and good(tried.list[e]):
                return e, False, 0
        candidates = tried.rest(token)
        if after in self.ground.fixes:
            candidates += [[*self.ground.fixes[after], *e] for e in tried.list]
        begun = place.text + self.ground.search.vocabulary.tokens[token]
        # Tails are what follows between calls, or among a call's own members.
        if self.tails and len(place.reading.on(begun).stack) <= 2:
            candidates += self.tails
        index = tried.first(candidates, token, after, good)
        beyond = place.matcher.deep_copy() if index < 0 and most > 0 else None
        if beyond is None or not beyond.consume_token(token):
            return index, False, 0
        visits = 0
        # What the known ending has may be a key once more, so the search may have to do without.
        for tail in (tried.ending_of(place), b""):
            ending = self.ground.search.ending(
                beyond,
                after,
                most=min(most - visits, EXPANSIONS),
                begun=begun,
                hints=place.rule.hints,
                earlier=tail,
            )
            visits += ending.looked
            if ending.tokens is None:
                return -1, ending.none, visits
            # The same key once more may be what makes it unsound.
            spare = [[i, *ending.tokens] for i in self.spare] if place.at.key else []
            index = tried.first([ending.tokens, *spare], token, after, good)
            if index >= 0 or visits >= most:
                break
        return index, False, visits

    def _sound(self, text: bytes, tokens: list[int]) -> bool:
        """Returns whether no key of the whole body occurs twice, and nothing is nested too deep.

        A number that no float holds (`1e309`) is no reason: each of its ids was allowed before.
        """
        words = self.ground.search.vocabulary.tokens
        try:
            value = loads((text + b"".join(words[t] for t in tokens)).decode())
            return all(fault.code == "MYP005" for fault in faults(value))
        except (Fault, UnicodeDecodeError):
            return False


class _Endings:
    """Tries endings after many tokens of one place.

    `here` is the matcher of the place, `end` the token that follows a body.
    """

    def __init__(self, ground: Ground, here: Any, end: int, endings: list[list[int]]) -> None:
        self.list, self._lexemes, self._here, self._end = endings, ground.lexemes, here, end
        self._search = ground.search
        self._tails = [[*e, end] for e in endings]
        # The companion's answers, by its state and the ending: many tokens lead to one state.
        self._closes: dict[tuple[int, int], bool] = {}
        self.count = 0

    def ending_of(self, place: Place) -> bytes:
        """Returns the text of the place's own ending, from where no string is open."""
        text = self._bytes
        if place.at.key:
            return place.text[place.text.rfind(b'"') :] + text
        inside = self._search.inside_string(place.companion, place.text)
        opened = _OPEN.match(text) if inside else None
        return text[opened.end() :] if opened else text

    @cached_property
    def _bytes(self) -> bytes:
        return b"".join(self._search.vocabulary.tokens[t] for t in self.list[1])

    def rest(self, token: int) -> list[list[int]]:
        """Returns the place's own ending in other tokens, without as many bytes as a token has.

        The token is its beginning, or is written in the place of that: a value of fixed length,
        such as a UUID, needs as much less after it.
        """
        words = self._search.vocabulary.tokens
        count, size, reach = len(words[token]), 0, 0
        if self._bytes.startswith(words[token]):
            return [self._search.tokens(self._bytes[count:])]
        if count >= len(self._bytes) or _QUOTE in self._bytes[:count]:
            return []
        while size < count:  # the tokens of the ending that these bytes reach into
            size, reach = size + len(words[self.list[1][reach]]), reach + 1
        return [[*self._search.tokens(self._bytes[count:size]), *self.list[1][reach:]]]

    def fits(self, ending: int, token: int, after: int) -> bool:
        """Returns whether a token and then an ending, by its number, complete the body.

        `after` is the companion's state after the token.
        """
        closes = self._closes.get((after, ending))
        if closes is None:
            closes = self._closes[after, ending] = self._lexemes.may_end(
                self._lexemes.run(after, self.list[ending])
            )
        if not closes:
            return False
        tail = self._tails[ending]
        self.count += 1
        return bool(self._here.validate_tokens([token, *tail]) == len(tail) + 1)

    def first(
        self, ways: Iterable[list[int]], token: int, after: int, good: Callable[[list[int]], bool]
    ) -> int:
        """Keeps the first of other endings that fits, and returns its number; -1 if none does."""
        for ending in ways:
            tail = [*ending, self._end]
            self.count += 1
            if (
                self._lexemes.may_end(self._lexemes.run(after, ending))
                and self._here.validate_tokens([token, *tail]) == len(tail) + 1
                and good(ending)
            ):
                self.list.append(ending)
                self._tails.append(tail)
                return len(self.list) - 1
        return -1


def groups(
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
