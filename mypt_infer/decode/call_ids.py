"""Keeps the ids of calls distinct: none is empty, and none occurs twice in a message.

Input: another engine. Output: an engine that refuses what the other allows and what would end an
empty or repeated id, or a wrong number of a call. No table can remember which ids were written, so
this engine does.

Theory of operation. A state is a pair: the other engine's state, and an Ids, which says how far the
list of calls was read. Pairs are numbered as they are reached. Where nothing has to be remembered a
state is the other engine's own number, so dialects and turns without lists cost nothing. An id may
continue in all ways but those that would close it as one of `seen`. That may take one more token
than the other engine counts (`detour`), because the nearest ending might close a used id.

After one whole call with the id "c1", the text of a second call repeats it. Its closing quote is
refused, so the distance to an ending grows by one token:

>>> ids = Ids().read(b'[{"id": "c1", "type": "function"}, {"id": "c1')
>>> ids.inside, ids.seen, ids.detour
(b'c1', frozenset({b'c1'}), 1)
>>> ids.read(b'"') is None, ids.read(b'2"').seen == {b"c1", b"c12"}
(True, True)
"""

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.listed_ids import DIGITS, LONGEST, STATE_BYTES, Ids, Number, is_text
from mypt_infer.decode.base.vocab import Ints, vocabulary
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.engine import Engine, Options, StateFacts
from mypt_infer.decode.llguidance.numbered import Numbered
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import ID, counting, read_body
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.episode import Event, Place
from mypt_spec.table import CALLS, IDS_LAST, LISTS, TEXT


class Distinct(Engine):
    """Wraps an engine, and refuses ids that are empty or occur twice."""

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self.engine, self.dialect, self.tables = engine, dialect, engine.tables
        self._last = call_ends(dialect)[0] in IDS_LAST
        self._ids = Number if counting(dialect.table) else Ids
        words = vocabulary(dialect.tokenizer, dialect.table.base_vocabulary)
        self.words, self._texts = words.tokens, words.texts
        self._size = self.tables.size
        self.places: Numbered[tuple[int, Ids], tuple[int, Ids]] = Numbered(self._size)
        engine.on_forgetting(self._forget)
        engine.hold_used(self._used)
        self._lock = threading.RLock()
        self._id_of = {word: i for i, word in enumerate(self.words) if word}
        self._zero = self._id_of[b"0"]
        self._quoted = np.array([b'"' in w for w in self.words])
        self._crossing = np.array([b"}" in w and b"," in w for w in self.words])

    @property
    def nbytes(self) -> int:
        return self.engine.nbytes + self.places.size

    def only(self, tool: int) -> Tables:
        return self.engine.only(tool)

    def begin(self, state: int, events: Sequence[Event]) -> int:
        """Returns the state after a prompt whose events lead the tables to `state`.

        The ids of the message that is open count as seen.
        """
        if self._ids is Number:
            openers = (self.dialect.table.terminals.get(event.terminal) for event in events)
            number = sum(t is not None and t.opens != "" and t.body in CALLS for t in openers)
            return self._number(self.engine.begin(state, events), Number(which=number))
        seen: set[bytes] = set()
        table, kinds = self.dialect.table, [""]
        for event in events:
            terminal = table.terminals.get(event.terminal)
            if terminal is not None and terminal.opens:
                kinds.append(terminal.opens)
            elif terminal is not None and terminal.closes and len(kinds) > 1:
                kinds.pop()
            elif event.terminal == TEXT and kinds[-1] and table.openers[kinds[-1]].body in LISTS:
                body = read_body(event.text, table.openers[kinds[-1]].body, table.literals, Place())
                seen |= {
                    canonical(c[ID], table.literals)[1:-1].encode()
                    for c in body.value or ()
                    if body.text and ID in c
                }
            if len(kinds) == 1 or (self._last and event.terminal != TEXT):
                seen.clear()
        ids = Ids(frozenset(seen), last=self._last)
        return self._number(self.engine.begin(state, events), ids)

    def inner(self, state: int) -> int | None:
        return self.engine.inner(self._split(state)[0])

    def forced_bytes(self, state: int, *, beside: bool = False) -> tuple[bytes, bytes]:
        return self.engine.forced_bytes(self._split(state)[0], beside=beside)

    def next(self, state: int, token: int) -> int:
        inner, ids = self._split(state)
        then = self.engine.next(inner, token)
        after = self._after(ids, token, then) if then != DEAD_STATE else None
        if after is None or not self._goes_on(ids, np.array([token]))[0]:
            return DEAD_STATE
        return self._number(self._counted(then, ids, after), after)

    def _counted(self, then: int, ids: Ids, after: Ids) -> int:
        """Returns the engine's state after the number of a call, which it reads with all digits."""
        if isinstance(after, Number) and after.which > ids.which:
            for _ in range(DIGITS - len(str(ids.which))):
                then = self.engine.next(then, self._zero)
        return then

    def state_facts(self, state: int) -> StateFacts:
        inner, ids = self._split(state)
        facts = self.engine.state_facts(inner)
        detour = ids.detour
        return facts._replace(distance=facts.distance + detour, to_close=facts.to_close + detour)

    def allow(self, state: int) -> Options:
        inner, ids = self._split(state)
        return self._distinct(inner, ids, self.engine.allow(inner))

    def proved_options(self, state: int, *, proved: bool = True) -> Options:
        inner, ids = self._split(state)
        return self._distinct(inner, ids, self.engine.proved_options(inner, proved=proved))

    def is_certain(self, state: int) -> bool:
        return self.engine.is_certain(self._split(state)[0])

    # Inside.

    def _distinct(self, inner: int, ids: Ids, options: Options) -> Options:
        """Returns the options without those that end an id that is empty or occurs twice."""
        if self.engine.state_facts(inner).block != CALLING:
            return options
        keep, still = self._goes_on(ids, options.ids), ids.last and ids.inside is None
        extra = np.full(len(options.ids), ids.detour if still else 0, dtype=np.int32)
        for at in np.flatnonzero(keep & self._doubtful(ids, options.ids)).tolist():
            after = ids.read(self.words[int(options.ids[at])])
            keep[at] = after is not None
            extra[at] = after.detour if after is not None else 0
            if isinstance(after, Number) and after.which > ids.which:
                then = self._counted(self.engine.next(inner, int(options.ids[at])), ids, after)
                extra[at] = self.engine.state_facts(then).distance - options.distance[at]
        ids_, block, distance, to_close = options
        parts = (ids_, block, distance + extra, to_close + extra)
        return Options(*(part[keep] for part in parts))

    def _doubtful(self, ids: Ids, tokens: Ints) -> npt.NDArray[np.bool_]:
        """Returns which tokens have to be read byte by byte.

        These are the tokens that may end an id, spell one of `seen`, or lead to where an id has to
        come.
        """
        at = np.where(tokens < len(self.words), tokens, 0)
        which = self._crossing[at] if ids.depth > 2 else np.full(len(at), ids.depth >= 0)
        if ids.inside is not None:
            endings = [s[len(ids.inside) :] for s in ids.seen if s.startswith(ids.inside)]
            which = self._quoted[at] | np.isin(tokens, [self._id_of.get(r, -1) for r in endings])
        out: npt.NDArray[np.bool_] = self._texts[tokens] & which
        return out

    def _goes_on(self, ids: Ids, tokens: Ints) -> npt.NDArray[np.bool_]:
        """Returns which tokens do not make a long id longer."""
        inside = ids.inside
        if inside is None or len(inside) < LONGEST or inside in ids.seen or not is_text(inside):
            return np.ones(len(tokens), bool)
        return np.array([self.words[t][:1] == b'"' for t in tokens.tolist()])

    def _after(self, ids: Ids, token: int, then: int) -> Ids | None:
        if self.engine.state_facts(then).block != CALLING:
            if self._ids is Number:
                return Number(which=ids.which)
            return Ids(last=True) if self._last else Ids(ids.seen)
        return ids.read(self.words[token] if token < len(self.words) else b"")

    def _split(self, state: int) -> tuple[int, Ids]:
        if state >= self._size:
            return self.places[state]
        depth = -1 if self.tables.block[state] == CALLING else 0
        return state, self._ids(depth=depth, last=self._last)

    def _number(self, inner: int, ids: Ids) -> int:
        if inner < self._size and ids == self._split(inner)[1]:
            return inner
        key = (inner, ids)
        with self._lock:
            return self.places.number(key, key, STATE_BYTES + sum(map(len, ids.seen)))

    def _used(self) -> list[int]:
        """Returns the other engine's states of the pairs that are in use."""
        return [self.places[number][0] for number in self.places.used_numbers()]

    def _forget(self, numbers: set[int]) -> None:
        with self._lock:
            self.places.drop(lambda place: place[0] in numbers)
