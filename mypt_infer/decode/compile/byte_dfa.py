"""Byte automata of what stands between structure: text, JSON strings and numbers.

A leaf reads bytes. In `step` a value of 0 or more is the next state, DEAD refuses the byte, and any
other is an exit: the leaf hands the symbol `exits[-2 - value]` on to whatever stands around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DEAD = -1
# stands in front of a text as if it were a byte, so that a pattern can say "right at the beginning"
START = 256
# What ends a leaf: ("byte", 44), ("id", 50262), ("tag", "<tin>"); "led", if the white space that
# comes with the tag stands in front of it; "first" and "first led", if no text does.
Symbol = tuple[str, str | int]

# What may follow inside a character of UTF-8: state -> (first byte, last byte, next state); "" is a
# whole character.
_PENDING = {
    "1": [(0x80, 0xBF, "")],
    "2": [(0x80, 0xBF, "1")],
    "3": [(0x80, 0xBF, "2")],
    "E0": [(0xA0, 0xBF, "1")],
    "ED": [(0x80, 0x9F, "1")],
    "F0": [(0x90, 0xBF, "2")],
    "F4": [(0x80, 0x8F, "2")],
}
_LEADS = [(0xC2, 0xDF, "1"), (0xE0, 0xE0, "E0"), (0xE1, 0xEC, "2"), (0xED, 0xED, "ED"),
          (0xEE, 0xEF, "2"),
          (0xF0, 0xF0, "F0"), (0xF1, 0xF3, "3"), (0xF4, 0xF4, "F4")]  # fmt: skip


@dataclass(frozen=True, eq=False)
class ByteDfa:
    """`step`: int32, shape (states, 256). `whole[state]`: no character is cut in half here, so a
    tag may follow.

    `leads[state]`: the ids whose white space was just read; `fresh[state]`: nothing else was. State
    0 is the start.
    """

    name: str
    step: npt.NDArray[np.int32]
    exits: tuple[Symbol, ...]
    whole: npt.NDArray[np.bool_]
    fresh: npt.NDArray[np.bool_]
    leads: tuple[frozenset[int], ...]

    def at_id(self, state: int, token: int) -> Symbol:
        """The exit that a tag of one id is here."""
        if token in self.leads[state]:
            return ("first led" if self.fresh[state] else "led"), token
        return ("id" if state else "first"), token

    @property
    def states(self) -> int:
        return len(self.step)

    def run(self, data: bytes, state: int = 0) -> int:
        """The state after some bytes; DEAD or an exit ends the run."""
        for byte in data:
            state = int(self.step[state, byte])
            if state < 0:
                return state
        return state


def _matcher(patterns: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """All beginnings of the patterns, the empty one first: the states of a search for all of them
    at once.
    """
    return sorted({p[:n] for p in patterns for n in range(len(p) + 1)}, key=lambda p: (len(p), p))


def _longest(read: tuple[int, ...], states: dict[tuple[int, ...], int]) -> int:
    """The state of the longest end of what was read that is the beginning of a pattern."""
    return next(states[read[n:]] for n in range(len(read) + 1) if read[n:] in states)


def _codes(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def text_dfa(
    forbidden: Sequence[str],
    tags: Sequence[str],
    led_tags: dict[str, str],
    led_ids: dict[int, str],
    *,
    name: str = "text",
) -> ByteDfa:
    """Any text in UTF-8 that spells none of `forbidden`.

    `tags` are those among them that may end the text: the last byte of one is an exit. `led_tags`
    (tag -> white space) count only with this white space right at the beginning, `led_ids` (id ->
    white space) with it just in front.
    """
    ends = {_codes(f): f for f in forbidden}
    leads = {_codes(space) for space in led_ids.values()}
    opening: dict[tuple[int, ...], Symbol] = {(START, *_codes(tag)): ("first", tag) for tag in tags}
    opening |= {
        (START, *_codes(space + tag)): ("first led", tag) for tag, space in led_tags.items()
    }
    patterns = [*ends, *leads, *((START, *lead) for lead in leads), *opening, (START,)]
    order = [p for p in _matcher(patterns) if p not in opening and p not in ends and p != (START,)]
    order = [(START,), *order]
    states = {p: i for i, p in enumerate(order)}
    pending = {p: len(order) + i for i, p in enumerate(_PENDING)}
    exits: list[Symbol] = [*(("tag", t) for t in tags), *opening.values()]
    step = np.full((len(order) + len(pending), 256), DEAD, dtype=np.int32)
    for read, state in states.items():
        for byte in range(0x80):
            new = (*read, byte)
            spelled = next((e for e in ends if _ends(new, e)), None)
            if new in opening:
                step[state, byte] = -2 - exits.index(opening[new])
            elif spelled is None:
                step[state, byte] = _longest(new, states)
            elif ends[spelled] in tags:
                step[state, byte] = -2 - exits.index(("tag", ends[spelled]))
        _lead_bytes(step, state, pending)
    _pending_bytes(step, pending, states[()])
    size = len(step)
    whole = np.array([s < len(order) for s in range(size)])
    fresh = np.array(
        [s < len(order) and order[s][1:] in leads and order[s][0] == START for s in range(size)]
    )
    led = [frozenset(i for i, space in led_ids.items() if _ends(p, _codes(space))) for p in order]
    return ByteDfa(
        name, step, tuple(exits), whole, fresh, (*led, *[frozenset[int]()] * len(pending))
    )


def _ends(read: tuple[int, ...], lead: tuple[int, ...]) -> bool:
    return read[-len(lead) :] == lead


def _lead_bytes(step: npt.NDArray[np.int32], state: int, pending: dict[str, int]) -> None:
    for first, last, then in _LEADS:
        step[state, first : last + 1] = pending[then]


def _pending_bytes(step: npt.NDArray[np.int32], pending: dict[str, int], whole: int) -> None:
    for name, rows in _PENDING.items():
        for first, last, then in rows:
            step[pending[name], first : last + 1] = pending[then] if then else whole


_SHORT = b'"\\nrtfb'  # behind a backslash, in canonical JSON
_LONG = b"nrtfb"  # these have short escapes ...
_HAS_SHORT = {0x0A, 0x0D, 0x09, 0x0C, 0x08}  # ... so `\u000a` is not canonical
QUOTE = ord('"')


@lru_cache(maxsize=16)
def string_dfa(forbidden: tuple[str, ...]) -> ByteDfa:
    """The inside of a canonical JSON string that spells none of `forbidden`, up to the closing
    quote: the only exit.
    """
    cut = {_codes(f.partition('"')[0]) for f in forbidden}
    order = [p for p in _matcher(cut) if not any(_ends(p, c) for c in cut)]
    states = {p: i for i, p in enumerate(order)}
    names = ["esc", "u", "u0", "u00", "u000", "u001"]
    more = {n: len(order) + i for i, n in enumerate([*_PENDING, *names])}
    step = np.full((len(order) + len(more), 256), DEAD, dtype=np.int32)
    for read, state in states.items():
        for byte in range(0x20, 0x80):
            new = (*read, byte)
            if not any(_ends(new, c) for c in cut):
                step[state, byte] = _longest(new, states)
        step[state, QUOTE] = -2
        step[state, ord("\\")] = more["esc"]
        _lead_bytes(step, state, more)
    _pending_bytes(step, more, states[()])
    for byte in _SHORT:
        step[more["esc"], byte] = states[()]
    step[more["esc"], ord("u")] = more["u"]
    for at, digit, then in (
        ("u", "0", "u0"),
        ("u0", "0", "u00"),
        ("u00", "0", "u000"),
        ("u00", "1", "u001"),
    ):
        step[more[at], ord(digit)] = more[then]
    for high, at in ((0x00, "u000"), (0x10, "u001")):
        for low in range(16):
            if high + low not in _HAS_SHORT:
                step[more[at], ord(f"{low:x}")] = states[()]
    size = len(step)
    return ByteDfa(
        "string",
        step,
        (("byte", QUOTE),),
        np.zeros(size, bool),
        np.zeros(size, bool),
        (frozenset(),) * size,
    )


# as many as a float keeps; integers and fractions with no more of them are canonical as they stand
DIGITS = 15
_BEHIND = b",}]"  # what can stand behind a number
_SMALL = 3  # zeros behind `0.`; with more, a float is written with an exponent


class _Number(NamedTuple):
    """What was read of a number.

    `zeros`: how many stand right behind `0.`, if nothing else does (-1: something does).
    """

    part: str = ""  # "", "-", "0", "-0", "int", "point" or "fraction"
    used: int = 0  # digits
    zeros: int = -1
    single: bool = False  # one digit stands behind the point
    zero: bool = False  # the last digit is 0

    @property
    def complete(self) -> bool:
        return self.part in ("0", "int") or (
            self.part == "fraction" and (self.single or not self.zero)
        )

    def after(self, byte: int, *, fraction: bool) -> _Number | None:
        if byte == ord("-"):
            return _Number("-") if self.part == "" else None
        if byte == ord("."):
            ready = fraction and self.part in ("0", "-0", "int") and self.used < DIGITS
            return _Number("point", self.used, 0 if self.part != "int" else -1) if ready else None
        zero = byte == ord("0")
        if self.part in ("", "-"):
            return _Number({"": "0", "-": "-0"}[self.part], 1) if zero else _Number("int", 1)
        if self.part == "int":
            return _Number("int", self.used + 1) if self.used < DIGITS else None
        zeros = self.zeros + 1 if zero and self.zeros >= 0 else -1
        if self.part in ("0", "-0") or self.used >= DIGITS or zeros > _SMALL:
            return None
        return _Number("fraction", self.used + 1, zeros, self.part == "point", zero)


@lru_cache(maxsize=2)
def number_dfa(*, fraction: bool) -> ByteDfa:
    """Canonical JSON numbers of at most DIGITS digits, without exponent; whole ones only, unless
    `fraction`.

    A number has no end of its own: it exits on the byte behind it.
    """
    rows: dict[_Number, dict[int, _Number]] = {}
    queue = [_Number()]
    while queue:
        state = queue.pop()
        if state not in rows:
            found = {b: state.after(b, fraction=fraction) for b in b"-.0123456789"}
            rows[state] = {b: then for b, then in found.items() if then is not None}
            queue += rows[state].values()
    alive = {s for s in rows if s.complete}
    while more := {s for s, row in rows.items() if s not in alive and alive & set(row.values())}:
        alive |= more
    order = sorted(alive)
    step = np.full((len(order), 256), DEAD, dtype=np.int32)
    for i, state in enumerate(order):
        for byte, then in rows[state].items():
            step[i, byte] = order.index(then) if then in alive else DEAD
        if state.complete:
            step[i, list(_BEHIND)] = -2 - np.arange(len(_BEHIND))
    none = np.zeros(len(order), bool)
    exits: tuple[Symbol, ...] = tuple(("byte", b) for b in _BEHIND)
    return ByteDfa(
        "number" if fraction else "integer", step, exits, none, none, (frozenset(),) * len(order)
    )
