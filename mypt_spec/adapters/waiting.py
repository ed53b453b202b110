"""Holds the calls of a conversation that have no result yet, and finds those that never get one.

A conversation may have thousands of calls in one turn: looking through all of them for each result
takes time with the square of their number.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator
from itertools import count, islice
from typing import Generic, TypeVar

from mypt_spec.bodies.json_body import ID, calls_in, value_in
from mypt_spec.episode import Part, Place
from mypt_spec.findings import Finding

Call = TypeVar("Call")
ANY = object()  # in place of an id: all calls


class Waiting(Generic[Call]):
    """Calls without a result, in order; the first one with a key is found at once."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, deque[tuple[int, Call]]] = defaultdict(deque)
        self._open: set[int] = set()
        self._numbers = count()

    def add(self, call: Call, *keys: Hashable) -> None:
        """Adds a call, which has these keys."""
        number = next(self._numbers)
        self._open.add(number)
        for key in keys:
            self._by_key[key].append((number, call))

    def first(self, key: Hashable) -> Call | None:
        """Returns the first call with a key, if there is one."""
        queue = self._by_key[key]
        while queue and queue[0][0] not in self._open:
            queue.popleft()
        return queue[0][1] if queue else None

    def take(self, key: Hashable) -> Call | None:
        """Returns the first call with a key, which waits no longer."""
        call = self.first(key)
        if call is not None:
            self._open.remove(self._by_key[key].popleft()[0])
        return call

    def all(self, key: Hashable) -> Iterator[Call]:
        """Yields the calls with a key, in order."""
        return (call for number, call in self._by_key[key] if number in self._open)


class WaitingById(Waiting[Call]):
    """Calls whose keys are ANY and their id; "" is that of a call without one."""

    def __init__(self) -> None:
        super().__init__()
        self.all_ids: dict[str, None] = {}  # ids of all calls, with or without a result

    def wait(self, call: Call, ident: str | None) -> None:
        """Adds a call. The id of a call that cannot be read is None."""
        self.add(call, ANY, ident)
        self.all_ids |= {ident: None} if ident else {}

    def unasked(self, ident: str, at: Place) -> Finding:
        """Returns the finding of a result whose id no call has, and takes a call in its place."""
        ids = ", ".join(islice((repr(i) for i in self.all_ids if self.first(i)), 10))
        hint = f"open are {ids}" if ids else "give the call that has no id this one"
        self.take("" if self.first("") else ANY)
        return Finding("MYP310", f"no open call has the id {ident!r}", *at, help=hint)


# A call: the name of its tool, its id, and its place. The id of an unreadable call is None.
_PlacedCall = tuple[str, str | None, Place]


def unanswered(
    pieces: Iterable[tuple[str, Part, Place]], body: str, *, ids: bool
) -> Iterator[Finding]:
    """Yields findings where there are more results than calls, or fewer.

    `pieces` are those of a conversation, with the place of the block of each; `body` is the kind
    of body of its calls. With `ids`, these tell which call a result is of, and are checked, too;
    what is wrong with those of a record is said where it is read.
    """
    waiting: WaitingById[_PlacedCall] = WaitingById()
    answered = False
    for piece, part, block in pieces:
        if piece == "result":
            place = block if part.at == Place() else part.at
            call_id: str | None = dict(part.attrs).get(ID, "") if ids else ""
            if waiting.first(ANY) is None:
                if answered:
                    message = "every call before it has its result"
                    yield Finding("MYP310", message, *place, help="delete it")
            elif not call_id:
                waiting.take(ANY)
            elif not (waiting.take(call_id) or waiting.take(None)):
                finding = waiting.unasked(call_id, part.name_at or place)
                yield from () if finding.pointer else (finding,)
            answered = True
        elif piece != "tools":
            if answered:
                yield from _missing(waiting)
                waiting, answered = WaitingById(), False
            for call in _placed_calls(part, body) if piece == "call" else ():
                _, call_id, at = call
                if ids and call_id in waiting.all_ids and not at.pointer:
                    yield twice(call_id, at)
                waiting.wait(call, call_id)
    if answered:
        yield from _missing(waiting)


def twice(ident: str | None, at: Place) -> Finding:
    """Returns the finding of an id that two calls of one message have."""
    return Finding("MYP351", f"the id {ident!r} occurs twice in one message", *at)


def _placed_calls(part: Part, body: str) -> list[_PlacedCall]:
    try:
        calls = calls_in(value_in(part.text, body), body, part.attrs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [("", None, part.at)]  # said where its body is read
    return [(call.name, call.id or dict(part.attrs).get(ID, ""), part.at) for call in calls]


def _missing(waiting: WaitingById[_PlacedCall]) -> Iterator[Finding]:
    hint = "put its result after those of the other calls"
    for name, _, at in waiting.all(ANY):
        yield Finding("MYP311", f"the call of {name!r} has no result", *at, help=hint)
