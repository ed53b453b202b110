"""Reads bodies of calls with llguidance, for schemas that no table can hold.

Input: a state and a token. Output: the next state, and for a state the ids that may follow. The
parts are in the folder llguidance.

Theory of operation. The tables leave a *hole* for the body of each call: a state before it and one
after it. States inside are numbered from `tables.size` on as they come up; each remembers the state
before it, the token between, the companion's state and an *ending*, tokens that complete the body.
An id is *offered* when two agree:

1. llguidance: the matcher of the tool's grammar takes it. The last matchers are kept; others are
   made again by replaying the tokens of their state.
2. The companion (lexer.py): tables of what llguidance does not know, that strings spell no tag, and
   how strings and numbers are written canonically.

That is a bitmask and a row of a table, whatever the schema. That the body can be ended after an id
is proved (proofs.py) when the id is taken: `next` finds the ending of the new state. The two can
disagree later: after `-0`, llguidance wants no digit for an integer, and the companion a fraction.
So an id that leaves a number unfinished, or that begins what the companion may refuse (`<`) where a
pattern binds the string, is offered only if some next character settles it, or with a proof. Where
a part of a pattern matches nothing but such beginnings (`grammar.doubted`), and few ids may follow,
all are proved before they are offered. An id after which no ending is found is refused when it is
taken, and is not offered again.

How far the end is after an id is known once the id is proved. Until then `offered` assumes that it
adds no more than the largest part of the schema takes (`Rule.spare`). Where fewer tokens are left
than that, the decoder asks for `offered_ids`: endings are searched within a bound of work, and
an id that the bound left out is assumed to come no nearer to the end, until it is taken. The first
token of the state's own ending always is among the ids. So budgets hold, and none that is not
reached refuses an id.

In dialect mypt, a tool `f` has one required argument, `"a": {"type": "integer", "multipleOf": 3}`.
The tables have 1,389 states, so state 1389 is the start of the body: 13 tokens to a legal ending,
and 2 ids may follow. Along `{"name": "f", "a": 3}` the distance falls by one with each token; after
`"a":` 684 ids may follow, ` 3` among them. `}` leads back into the tables, to state 1388, where
only `</myPT_toolcall>` may follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.tools import ToolSpec
from mypt_infer.decode.base.vocab import Ints, Trie
from mypt_infer.decode.compile.call_graph import OPENED
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.nfa import ANY, RESPONSE
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.engine import Engine, Options, StateFacts, table_options
from mypt_infer.decode.llguidance.grammar import ALL, Rule
from mypt_infer.decode.llguidance.ground import ground
from mypt_infer.decode.llguidance.numbered import Numbered
from mypt_infer.decode.llguidance.position import Position, Reading, last_call
from mypt_infer.decode.llguidance.proofs import Offered, Place, ProvenIds, Prover, cleared, marked
from mypt_infer.decode.llguidance.response import Response
from mypt_infer.decode.llguidance.tools import Calls, calls_of
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import ID
from mypt_spec.episode import Event
from mypt_spec.memo import Memo
from mypt_spec.table import IDS_LAST, LISTS

# The number of matchers that are kept, and the bytes of sets of what may follow.
_MAX_ENTRIES, _ROOM = 256, 8 << 20
# The bytes of all matchers; of one, and more with each byte that it has read.
_MATCHERS, _MATCHER, _BYTE = 64 << 20, 12_000, 100
# After so many bytes, a matcher stays where it is, for states that come from there.
_INTERVAL = 256
# The bytes of a state, with what the decoder knows of it, without the tokens of its ending.
_STATE = 1000
# If a pattern binds a string in which no more ids may follow, all are proved before the offer.
_FEW = 1000
# After this many refusals in one state, only what is proved is offered there.
_REFUSALS = 8
# If no more bytes may follow what must come, each is tried.
_PROBES = 8
# Tokens that a token may take beyond the largest part: a comma, a key, the end of a string.
_SLACK = 16


class _BodyState(NamedTuple):
    """A state: its hole, the state before it, the token between (-1 at the start), an ending.

    `read`: the bytes of the body so far. `beside`: states of the tables in which the same tokens
    may end as well: the hole at whose start tags may replace an answer, the place after an answer
    that may end here, and places within a tag that may have begun. An answer that may only end has
    no ending.
    """

    hole: int
    before: int
    token: int
    companion: int
    ending: tuple[int, ...]
    read: int
    beside: tuple[int, ...] = ()


class Guided(Engine):
    """Answers from tables that have a hole for each body, and asks llguidance inside the holes.

    Fills the holes of calls, or with `tables` only that of the answer. Threads may share it, and
    what it shares with others of the same tools.
    """

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[ToolSpec],
        forbidden_blocks: frozenset[str] = frozenset(),
        *,
        response: Response | None = None,
        require_call: bool = False,
        tables: bool = False,
    ) -> None:
        self.dialect, self.ground = dialect, ground(dialect)
        self.kind, self.end = call_ends(dialect)
        self.calls: Calls = calls_of(
            dialect, tools, forbidden_blocks, response=response, require_call=require_call,
            tables=tables,
        )  # fmt: skip
        super().__init__(self.calls.tables)
        self.first, self.endings = self.calls.first, self.calls.endings
        self.size = self.tables.size
        # Plain tuples of numbers: the collector of garbage looks at each once, not each time.
        self.places: Numbered[tuple[int, int, int], tuple[Any, ...]] = Numbered(
            self.size, before=lambda place: int(place[1])
        )
        self._matchers = Memo[int, tuple[Any, bool]](_MAX_ENTRIES, room=_MATCHERS, each=_MATCHER)
        self._offered = Memo[int, Offered](_MAX_ENTRIES, room=_ROOM)
        self._options = Memo[int, ProvenIds](_MAX_ENTRIES, room=_ROOM)
        self._texts = Memo[int, tuple[bytes, Reading]](_MAX_ENTRIES, room=_ROOM)
        self._memos = (self._matchers, self._offered, self._options, self._texts)
        self._refused: dict[int, set[int]] = {}
        self.places.on_forgetting(self._forget)

    @property
    def nbytes(self) -> int:
        return self.tables.nbytes + self.places.size + sum(memo.nbytes for memo in self._memos)

    @cached_property
    def _prover(self) -> Prover:
        """Returns the prover; its tails are endings between calls: all tails of one more call."""
        tails: list[list[int]] = []
        if self.kind in LISTS:
            call = self.dialect.tokenizer.decode_bytes(self.endings[ANY])[len(OPENED) :]
            between = ", {" if self.kind in IDS_LAST else f', {{"{ID}": "0", '
            text = between.encode() + call
            tails = [self.ground.search.tokens(text[i:]) for i in range(len(text))]
        return Prover(self.ground, self.end, tails)

    @cached_property
    def _answers(self) -> Prover:
        assert self.calls.answer is not None
        return Prover(self.calls.answer.ground, self.end, [])

    def _prover_of(self, hole: int) -> Prover:
        """Returns the prover for the body after a hole, with what it knows of texts."""
        return self._answers if self.tables.holes[hole][0] == RESPONSE else self._prover

    # What the decoder asks of an engine.

    def next(self, state: int, token: int) -> int:
        if state >= self.size:
            return self._next(state, token)
        return self._entered(self.tables.next(state, token))

    def begin(self, state: int, events: Sequence[Event]) -> int:
        return self._entered(state)

    def allow(self, state: int) -> Options:
        if state < self.size:
            return super().allow(state)
        offered = self.offered(state)
        return self._inside(state, offered.ids, offered.least)

    def proved_options(self, state: int, *, proved: bool = True) -> Options:
        if state < self.size:
            return super().allow(state)
        if not proved:
            return self._inside(state, *self.offered_ids(state))
        proved_ids = self.proved(state)
        return self._inside(state, proved_ids.ids, proved_ids.least)

    def free(self, state: int) -> tuple[int, int, AllowSet] | None:
        if state < self.size or self._at(state).beside:
            return None
        offered = self.offered(state)
        facts = self._facts(state, offered.most)
        return facts.distance, facts.to_close if facts.block else 0, offered.set

    def inner(self, state: int) -> int | None:
        return state if state < self.size else None

    def forced_bytes(self, state: int, *, beside: bool = False) -> tuple[bytes, bytes]:
        """Returns what llguidance says must follow, as far as the companion takes it."""
        if state < self.size or (self._at(state).beside and not beside):
            return b"", b""
        with self.calls.lock:
            place, here = self._at(state), self._matcher(state).deep_copy()
            forced: bytes = b"" if here.is_accepting() else here.compute_ff_bytes()
            search, lexemes = (ground := self._prover_of(place.hole).ground).search, ground.lexemes
            tokens = [search.id_of[byte] for byte in forced]
            after = lexemes.run(place.companion, tokens)
            if not forced or after == DEAD_STATE or not here.consume_tokens(tokens):
                return b"", b""
            single = search.inside
            ids = single[search.bitmask.some(here, single) & lexemes.allowed(after)[0][single]]
            few = not here.is_accepting() and len(ids) <= _PROBES
            return forced, b"".join(search.vocabulary.tokens[i] for i in ids) if few else b""

    def is_certain(self, state: int) -> bool:
        """Returns whether `next` takes all that is offered. Where few ids are, proves them."""
        if state < self.size:
            return True
        with self.calls.lock:
            offered = self.offered(state)
            if offered.sure is None:
                if offered.count <= _FEW:
                    offered = self._tried(state, self._place(state), offered, offered.bits)
                offered = replace(offered, sure=bool(offered.sure))
                self._offered.keep(state, offered, offered.bits.nbytes)
            return bool(offered.sure)

    def state_facts(self, state: int) -> StateFacts:
        if state < self.size:
            return super().state_facts(state)
        place = self._at(state)
        facts = [super(Guided, self).state_facts(i) for i in place.beside]
        facts += [self._facts(state, len(place.ending))] if place.ending else []
        nearest = min(facts, key=lambda one: one.distance)
        final = place.hole not in place.beside and any(one.final for one in facts)
        return nearest._replace(final=final)

    def only(self, tool: int) -> Tables:
        least = len(self.endings.get(tool + 1, ()))
        return self.tables.with_holes(dict.fromkeys(self.endings, least))

    # Inside.

    def _facts(self, state: int, least: int) -> StateFacts:
        """Returns the facts of a state from which the body takes at least `least` tokens more."""
        hole, (block, distance, to_close, _) = self._at(state).hole, self.tables.lists
        after = self.tables.holes[hole][1]
        return StateFacts(block[hole], False, least + distance[after], least + to_close[after])

    def _inside(self, state: int, ids: Ints, least: Ints) -> Options:
        tables, after = self.tables, self._facts(state, 0)
        block = np.full(len(ids), after.block, dtype=np.int32)
        options = Options(ids, block, least + after.distance, least + after.to_close)
        beside = [table_options(tables, i) for i in self._at(state).beside]
        if not beside:
            return options
        every = [np.concatenate(parts) for parts in zip(options, *beside, strict=True)]
        order = np.lexsort((every[2], every[0]))  # of an id in several, the nearest to the end
        first = np.diff(every[0][order], prepend=-1) > 0
        return Options(*(part[order][first] for part in every))

    def _entered(self, state: int) -> int:
        """Returns a state of the tables, or the state of the body that the tables leave there."""
        if state not in self.tables.holes:
            return state
        ending = self.endings[self.tables.holes[state][0]]
        beside = (state,) if state in self._holes_beside_tags else ()
        with self.calls.lock:
            first = self._prover_of(state).ground.lexemes.first
            return self._number(_BodyState(state, -1, -1, first, ending, 0, beside))

    def _may_end_early(self, state: int) -> bool:
        """Returns whether a body may end where it may also go on: an answer, but for JSON in
        brackets or quotes.
        """
        answer = self.calls.answer
        if answer is None or self.tables.holes[self._at(state).hole][0] != RESPONSE:
            return False
        return not (answer.json and self._read(state)[0][:1] in (b"{", b"[", b'"'))

    @cached_property
    def _holes_beside_tags(self) -> frozenset[int]:
        edges, alive = self.tables.edges, self.tables.alive
        return frozenset(
            hole
            for hole in self.tables.holes
            if any(map(alive, edges.then[slice(*edges.first[hole : hole + 2])].tolist()))
        )

    def _next(self, state: int, token: int) -> int:
        """Returns the state after a token: DEAD_STATE if refused, the tables' if the body ends.

        A refusal of a token that was offered is remembered, and the token is not offered again.
        """
        with self.calls.lock:
            place = self._at(state)
            number = self.places.numbers.get((place.hole, state, token))
            if number is not None:
                return number
            offered = self.offered(state)
            after = [self.tables.next(i, token) for i in place.beside]
            beside = [i for i in after if i != DEAD_STATE]
            is_offered = offered.has(token)
            ending = self._ending(state, token) if is_offered else None
            if ending is None:
                if is_offered:
                    self._refuse(state, [token])
                return self._entered(min(beside, key=self._distance, default=DEAD_STATE))
            offered.lengths[token] = len(ending)
            ground = self._prover_of(place.hole).ground
            companion = ground.lexemes.next(place.companion, token)
            over = not ending
            if self._may_end_early(state):
                here = self._place(state)
                over = over or self._answers.may_end(here, token, companion)
                ending = ending or self._answers.longer(here, token, companion)
            beside += [self.tables.holes[place.hole][1]] if over else []
            if not ending and len(beside) == 1:
                return beside[0]
            length = place.read + len(ground.search.vocabulary.tokens[token])
            return self._number(
                _BodyState(
                    place.hole, state, token, companion, tuple(ending), length, tuple(beside)
                )
            )

    def _distance(self, state: int) -> int:
        return self.tables.lists[1][state]

    def offered(self, state: int) -> Offered:
        """Returns what may follow a state, as far as llguidance and the companion say."""
        with self.calls.lock:
            offered = self._offered.entries.get(state)
            if offered is None:
                offered = self._offer(state)
                self._offered.keep(state, offered, offered.bits.nbytes)
            return offered

    def proved(self, state: int) -> ProvenIds:
        """Returns what may follow a state with a proven ending, within a bound of work."""
        with self.calls.lock:
            proven = self._options.entries.get(state)
            if proven is None:
                place = self._place(state)
                proven = self._proofs(state, place, self._agreed(state, place))
                self._options.keep(state, proven, proven.size)
                if len(proven.none):
                    offered = self.offered(state).without(proven.none.tolist())
                    self._offered.keep(state, offered, offered.bits.nbytes)
            return proven

    def offered_ids(self, state: int) -> tuple[Ints, Ints]:
        """Returns the ids that are offered, and the tokens from after each to the end of the body.

        Ids that the work bound of `proved` left out are assumed to come no nearer to the end.
        """
        with self.calls.lock:
            if not self._at(state).ending:
                return self.offered(state).ids, self.offered(state).least
            proved = self.proved(state)
            offered = replace(self.offered(state), assumed=len(self._at(state).ending))
            ids, least = offered.ids, offered.least
            both = np.isin(proved.ids, ids)
            least[np.searchsorted(ids, proved.ids[both])] = proved.least[both]
            return ids, least

    def _number(self, place: _BodyState) -> int:
        key = (place.hole, place.before, place.token)
        return self.places.number(key, tuple(place), _STATE + 8 * len(place.ending))

    def _at(self, state: int) -> _BodyState:
        return _BodyState._make(self.places[state])

    def _forget(self, numbers: set[int]) -> None:
        for memo in self._memos:
            for number in numbers.intersection(memo.entries):
                memo.forget(number)
        for number in numbers.intersection(self._refused):
            del self._refused[number]

    def tokens(self, state: int) -> list[int]:
        out = []
        while (place := self._at(state)).before >= 0:
            out.append(place.token)
            state = place.before
        return out[::-1]

    def _matcher(self, state: int) -> Any:
        """Returns the matcher of a state. Callers must leave it as it is, and not keep it.

        It is that of the state before, which loses it: a copy takes longer with each byte read. A
        state that is asked again, because several come from it, gets one that stays.
        """
        entry = self._matchers.entries.get(state)
        at, tokens = state, list[int]()
        while entry is None and (place := self._at(at)).before >= 0:
            tokens.append(place.token)
            at = place.before
            entry = self._matchers.entries.get(at)
        if entry is not None and not tokens:
            return entry[0]
        place, again = self._at(state), len(tokens) > 1
        if entry is None:
            matcher = self.first[self.tables.holes[place.hole][0]].deep_copy()
        elif entry[1] or again or place.read // _INTERVAL > self._at(at).read // _INTERVAL:
            matcher = entry[0].deep_copy()
        else:
            matcher = entry[0]
            self._matchers.forget(at)
        if tokens and not matcher.consume_tokens(tokens[::-1]):
            raise RuntimeError(f"llguidance stopped: {matcher.get_error()}")
        self._matchers.keep(state, (matcher, again), _BYTE * place.read)
        return matcher

    def _rule(self, hole: int, text: bytes) -> Rule:
        """Returns what is known of the tool that is called after the beginning of a body."""
        tool = self.tables.holes[hole][0] - 1
        rules = self.calls.rules
        if self.kind in LISTS:
            call = last_call(text)
            if call is None:  # in an id, or before one
                return Rule(frozenset(), True, self._largest)
            text = call
        if tool >= 0:
            return rules[tool]
        rule = next((r for r in rules if text.startswith(r.begins)), None)
        return rule or self._any

    @cached_property
    def _any(self) -> Rule:
        """Returns what is known of a call whose tool is not known yet."""
        doubted = ALL if any(r.doubted for r in self.calls.rules) else frozenset[str]()
        return Rule(ALL, False, self._largest, self.calls.hints, doubted)

    @cached_property
    def _largest(self) -> int:
        return max((r.spare for r in self.calls.rules), default=0)

    @cached_property
    def _call(self) -> int:
        """Returns about the most tokens of one more call in a list, with its id."""
        if self.kind not in LISTS:
            return 0
        return 2 * _SLACK + max(map(len, self.endings.values()), default=0)

    def _read(self, state: int) -> tuple[bytes, Reading]:
        """Returns the text of a body so far, and what was read of it, if it is JSON."""
        entry = self._texts.entries.get(state)
        if entry is None:
            place, answer = self._at(state), self.calls.answer
            before = self._texts.entries.get(place.before)
            if before is not None:
                text = before[0] + self.ground.search.vocabulary.tokens[place.token]
            else:
                text = self.dialect.tokenizer.decode_bytes(self.tokens(state))
            reading = before[1] if before is not None else Reading()
            if self.tables.holes[place.hole][0] != RESPONSE or (answer and answer.json):
                reading = reading.on(text)
            entry = self._texts.keep(state, (text, reading), len(text) + 1000)
        return entry

    def _place(self, state: int) -> Place:
        place, answer = self._at(state), self.calls.answer
        text, reading = self._read(state)
        at = reading.position(text)
        if answer is not None and self.tables.holes[place.hole][0] == RESPONSE:
            rule, at = answer.rule, at if answer.json else Position(False, "")
        else:
            rule = self._rule(place.hole, text)
            rule = rule._replace(spare=rule.spare + _SLACK + self._call)
        matcher = self._matcher(state)
        return Place(matcher, place.companion, text, place.ending, at, reading, rule)

    def _ending(self, state: int, token: int) -> list[int] | None:
        proved = self._options.entries.get(state)
        if proved is not None:
            at = int(np.searchsorted(proved.ids, token))
            if at < len(proved.ids) and proved.ids[at] == token:
                return proved.endings[int(proved.ending[at])]
        here = self._at(state)
        if token == here.ending[0]:
            return list(here.ending[1:])
        return self._prover_of(here.hole).one(self._place(state), token)

    def _refuse(self, state: int, tokens: list[int]) -> None:
        refused = self._refused.setdefault(state, set())
        refused.update(tokens)
        offered = self._offered.entries.get(state)
        if offered is None:
            return
        if len(refused) >= _REFUSALS and not offered.sure:
            remaining = self._offered_from(self.proved(state))
        else:
            remaining = offered.without(tokens)
        self._offered.keep(state, remaining, remaining.bits.nbytes)

    def _agreed(self, state: int, place: Place) -> npt.NDArray[np.uint8]:
        """Returns a bit for each id, lowest first, 1 where both readers take it."""
        first_id, here = place.ending[0], self._at(state)
        if place.matcher.is_error():  # llguidance gave up: only the known ending is left
            bits = np.zeros(-(-self.tables.vocabulary // 32) * 4, dtype=np.uint8)
        else:
            bits = self._prover_of(here.hole).ground.takes(place.companion)[0]
            bits = bits & self.ground.search.bitmask.packed(place.matcher)
            bits = cleared(bits, self._refused.get(state, ()))
        if place.at.key and not place.rule.closed:
            bits = cleared(bits, self._ends_a_known_key(state))
        bits[first_id >> 3] |= 1 << (first_id & 7)
        return bits

    def _ends_a_known_key(self, state: int) -> Iterator[int]:
        """Yields ids that end the open key as one that its object already has."""
        text, reading = self._read(state)
        begun = text[text.find(b'"', reading.upto) + 1 :]
        for key in reading.keys:
            if key.startswith(begun):
                tree: Trie | None = self.ground.search.vocabulary.trie
                for byte in key[len(begun) :] + b'"':
                    tree = tree.below(byte) if tree is not None else None
                yield from tree.all_ids if tree is not None else ()

    def _proofs(
        self, state: int, place: Place, bits: npt.NDArray[np.uint8], *, soon: bool = False
    ) -> ProvenIds:
        """Returns those of some ids, with `own` among them, after which an ending was found."""
        hole = self._at(state).hole
        prover = self._prover_of(hole)
        _, then, stays = prover.ground.lexemes.allowed(place.companion)
        flags = np.unpackbits(bits, bitorder="little")[: len(then)]
        ids = np.flatnonzero(flags).astype(np.int32)
        stay = stays[ids]
        if self.tables.holes[hole][0] == RESPONSE:  # whose companion knows no strings
            inside = prover.ground.search.inside_string(place.companion, place.text)
            stay &= ~prover.ground.opens[ids] & inside
        return prover.all(place, ids, then[ids], stay, soon=soon)

    def _offer(self, state: int) -> Offered:
        place = self._place(state)
        if not place.ending:
            none = np.zeros(-(-self.tables.vocabulary // 32) * 4, dtype=np.uint8)
            return Offered(none, self.tables.vocabulary, 0, {}, True)
        bits = self._agreed(state, place)
        least, first_id = len(place.ending), place.ending[0]
        certain = None if place.is_bound else True
        offered = Offered(
            bits, self.tables.vocabulary, least + place.rule.spare, {first_id: least - 1}, certain
        )
        few = (place.is_bound or place.is_doubted) and offered.count <= _FEW
        if few and place.is_doubted:
            return self._tried(state, place, offered, bits)
        prover = self._prover_of(self._at(state).hole)
        _, unfinished, begun = prover.ground.takes(place.companion)
        candidates = np.concatenate([unfinished, begun]) if few else unfinished
        candidates = candidates[(bits[candidates >> 3] >> (candidates & 7) & 1) > 0]
        doubt = [i for i in candidates.tolist() if i != first_id and not prover.goes_on(place, i)]
        return self._tried(state, place, offered, marked(bits, doubt)) if doubt else offered

    def _tried(
        self, state: int, place: Place, offered: Offered, doubt: npt.NDArray[np.uint8]
    ) -> Offered:
        """Returns what is offered without those of some ids, as bits, that have no ending."""
        is_complete, first_id = doubt is offered.bits, place.ending[0]
        if not is_complete:
            doubt[first_id >> 3] |= 1 << (first_id & 7)
        proved = self._proofs(state, place, doubt, soon=True)
        if is_complete and not proved.cut:
            self._options.keep(state, proved, proved.size)
        certain = False if proved.cut else is_complete or offered.sure
        offered = offered.without(proved.none.tolist())
        offered.lengths.update(zip(proved.ids.tolist(), proved.least.tolist(), strict=True))
        return replace(offered, sure=certain)

    def _offered_from(self, proved: ProvenIds) -> Offered:
        lengths = dict(zip(proved.ids.tolist(), proved.least.tolist(), strict=True))
        flags = np.zeros(-(-self.tables.vocabulary // 32) * 32, bool)
        flags[proved.ids] = True
        packed = np.packbits(flags, bitorder="little")
        return Offered(packed, self.tables.vocabulary, 0, lengths, True)
