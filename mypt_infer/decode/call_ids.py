"""The ids of calls: none is empty, and none stands twice in a message. No table can remember that,
so it is seen to here.

Around another engine. A state is the engine's, and what was read of the list so far (`Ids`); the
two are numbered as they come up. Where nothing of ids is to be remembered a state is the engine's
own, so whatever makes no list is as quick as before. The id `"c1` of `[{"id": "c1` may end in all
ways but those that spell an id of `seen`; see `detour` for what that does to budgets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.compile.vocab import Ints, vocabulary
from mypt_infer.decode.engine import Engine, Options, Place
from mypt_infer.decode.tables import DEAD_STATE, Tables
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import ID, read_body
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.episode import Event
from mypt_spec.episode import Place as At
from mypt_spec.table import LISTS, TEXT

LONGEST = 64  # bytes of an id behind which no more may follow
_KEY = ID.encode()
_ELSEWHERE, _FIRST, _NAMED = 0, 1, 2  # of a call's strings: the first is a key, and behind ID an id


class Ids(NamedTuple):
    """Where a list of calls stops. `depth`: brackets that are open, -1 in a call without id, of
    which nothing matters any more.

    `string`: what was read of the string that is open; deeper than a call's own members only an
    escape. `which` string it is, or that comes next. `due`: a call must have an id here, and has
    none yet.
    """

    seen: frozenset[bytes] = frozenset()
    depth: int = 0
    string: bytes | None = None
    which: int = _ELSEWHERE
    due: bool = False

    def read(self, data: bytes) -> Ids | None:
        """Behind more of the text; None where an id is empty or stands twice."""
        here: Ids | None = self
        for i in range(len(data)):
            if here is None or here.depth < 0:
                break
            here = here._read(data[i : i + 1])
        return here

    def _read(self, byte: bytes) -> Ids | None:
        if self.string is not None:
            if byte == b'"' and not _escaped(self.string):
                return self._closed(self.string)
            return self._replace(
                string=self.string + byte
                if self.depth == 2
                else byte * (byte == b"\\" and not self.string)
            )
        if byte == b'"':
            return self._replace(string=b"")
        if byte in b"[{":
            return self._replace(
                depth=self.depth + 1, which=_FIRST if self.depth == 1 else self.which
            )
        if byte in b"]}":
            return self._replace(depth=self.depth - 1)
        return self._replace(due=True) if byte == b"," and self.depth == 1 else self

    def _closed(self, string: bytes) -> Ids | None:
        here = self._replace(string=None)
        if self.depth != 2 or self.which == _ELSEWHERE:
            return here
        if self.which == _FIRST:
            return here._replace(which=_NAMED, due=True) if string == _KEY else Ids(self.seen, -1)
        if not string or string in self.seen:
            return None
        return here._replace(seen=self.seen | {string}, which=_ELSEWHERE, due=False)

    @property
    def inside(self) -> bytes | None:
        """What was read of the id that is open."""
        return self.string if self.depth == 2 and self.which == _NAMED else None

    @property
    def detour(self) -> int:
        """Tokens that the nearest ending may take more than the engine counts, which would choose
        any id: another character.
        """
        if self.inside is not None:
            return int(not self.inside or self.inside in self.seen)
        begun = self.depth == 2 and self.which == _FIRST and bool(self.string)
        return int(self.due or (begun and _KEY.startswith(self.string or b"")))


class Distinct:
    """An engine, but for ids that are empty or stand twice."""

    whole = False

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self.engine, self.dialect, self.tables = engine, dialect, engine.tables
        self.words = vocabulary(dialect.tokenizer, dialect.table.base_vocabulary).tokens
        self._size = self.tables.size
        self._places: list[tuple[int, Ids]] = []
        self._numbers: dict[tuple[int, Ids], int] = {}
        self._id_of = {word: i for i, word in enumerate(self.words)}
        self._quoted = np.array([b'"' in w for w in self.words])
        self._crossing = np.array([b"}" in w and b"," in w for w in self.words])

    def only(self, tool: int) -> Tables:
        return self.engine.only(tool)

    def begin(self, state: int, events: Sequence[Event]) -> int:
        """The state behind events where the tables are in `state`: ids of the message that is open
        count.
        """
        found: set[bytes] = set()
        table, kinds = self.dialect.table, [""]
        for event in events:
            terminal = table.terminals.get(event.terminal)
            if terminal is not None and terminal.opens:
                kinds.append(terminal.opens)
            elif terminal is not None and terminal.closes and len(kinds) > 1:
                kinds.pop()
            elif event.terminal == TEXT and kinds[-1] and table.openers[kinds[-1]].body in LISTS:
                read = read_body(event.text, table.openers[kinds[-1]].body, table.literals, At())
                found |= {
                    canonical(c[ID], table.literals)[1:-1].encode()
                    for c in read.value or ()
                    if read.text and ID in c
                }
            if len(kinds) == 1:
                found.clear()
        return self._number(state, Ids(frozenset(found)))

    def next(self, state: int, token: int) -> int:
        inner, ids = self._split(state)
        then = self.engine.next(inner, token)
        after = self._after(ids, token, then) if then != DEAD_STATE else None
        if after is None or not self._goes_on(ids, np.array([token]))[0]:
            return DEAD_STATE
        return self._number(then, after)

    def about(self, state: int) -> Place:
        inner, ids = self._split(state)
        found = self.engine.about(inner)
        more = ids.detour
        return found._replace(distance=found.distance + more, to_close=found.to_close + more)

    def allow(self, state: int) -> Options:
        inner, ids = self._split(state)
        found = self.engine.allow(inner)
        if self.engine.about(inner).block != CALLING:
            return found
        keep, more = self._goes_on(ids, found.ids), np.zeros(len(found.ids), dtype=np.int32)
        for at in np.flatnonzero(keep & self._doubtful(ids, found.ids)).tolist():
            after = ids.read(self.words[int(found.ids[at])])
            keep[at] = after is not None
            more[at] = after.detour if after is not None else 0
        return Options(
            found.ids[keep],
            found.block[keep],
            (found.distance + more)[keep],
            (found.to_close + more)[keep],
        )

    # Inside.

    def _doubtful(self, ids: Ids, tokens: Ints) -> npt.NDArray[np.bool_]:
        """Which tokens may end an id, spell one of `seen`, or lead to where one has to come: these
        are looked at one by one.
        """
        ordinary = tokens < len(self.words)
        at = np.where(ordinary, tokens, 0)
        which = self._crossing[at] if ids.depth > 2 else np.full(len(at), ids.depth >= 0)
        if ids.inside is not None:
            rest = [s[len(ids.inside) :] for s in ids.seen if s.startswith(ids.inside)]
            which = self._quoted[at] | np.isin(tokens, [self._id_of.get(r, -1) for r in rest])
        out: npt.NDArray[np.bool_] = ordinary & which
        return out

    def _goes_on(self, ids: Ids, tokens: Ints) -> npt.NDArray[np.bool_]:
        """Which tokens do not make a long id longer."""
        inside = ids.inside
        if inside is None or len(inside) < LONGEST or inside in ids.seen or not _whole(inside):
            return np.ones(len(tokens), bool)
        return np.array([self.words[t][:1] == b'"' for t in tokens.tolist()])

    def _after(self, ids: Ids, token: int, then: int) -> Ids | None:
        if self.engine.about(then).block != CALLING:
            return Ids(ids.seen)
        return ids.read(self.words[token] if token < len(self.words) else b"")

    def _split(self, state: int) -> tuple[int, Ids]:
        if state >= self._size:
            return self._places[state - self._size]
        return state, Ids(depth=-1 if self.tables.block[state] == CALLING else 0)

    def _number(self, inner: int, ids: Ids) -> int:
        if inner < self._size and ids == self._split(inner)[1]:
            return inner
        key = (inner, ids)
        if key not in self._numbers:
            self._numbers[key] = self._size + len(self._places)
            self._places.append(key)
        return self._numbers[key]


def _escaped(text: bytes) -> bool:
    """Whether an escape was begun at the end."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _whole(text: bytes) -> bool:
    """Whether no character and no escape is cut in half at the end of a string's inside."""
    try:
        json.loads(b'"' + text + b'"')
    except ValueError:
        return False
    return True
