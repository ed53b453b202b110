"""Builds byte automata for free content: text, JSON strings and numbers.

Input: what the content may not spell, and what may end it. Output: a ByteDfa, called a *leaf* where
it is part of a graph. Content has no length limit, so structure and content are compiled apart, and
all places with the same kind of content share one leaf.

Theory of operation. A leaf reads bytes. In `step` a value of 0 or more is the next state, DEAD
refuses the byte, and any other value is an *exit*: the content is over, and the graph around it
reads the symbol `exits[-2 - value]`. Text is read by a search for all forbidden spellings at once
(Aho-Corasick): a state is the longest end of what was read that a forbidden spelling begins with,
or a position inside a UTF-8 character. A step that would complete a forbidden spelling is DEAD, or
an exit if the spelling is a tag that may end the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import cached_by
from mypt_spec.bodies.json_body import IDENT

DEAD = -1
# A byte that is assumed before each text, so that a pattern can say "at the very beginning".
START = 256
# What ends a leaf: ("byte", 44), ("id", 50262) or ("tag", "<tin>"). Of the last two, the kind is
# "led" if the white space that comes with the tag was read before it, "first" if the text is empty,
# and "first led" if the text is that white space alone.
Symbol = tuple[str, str | int]

# What may follow inside a character of UTF-8: state -> (first byte, last byte, next state); "" is
# between characters.
_PENDING = {
    "": [(0xC2, 0xDF, "1"), (0xE0, 0xE0, "E0"), (0xE1, 0xEC, "2"), (0xED, 0xED, "ED"),
         (0xEE, 0xEF, "2"), (0xF0, 0xF0, "F0"), (0xF1, 0xF3, "3"), (0xF4, 0xF4, "F4")],
    "1": [(0x80, 0xBF, "")],
    "2": [(0x80, 0xBF, "1")],
    "3": [(0x80, 0xBF, "2")],
    "E0": [(0xA0, 0xBF, "1")],
    "ED": [(0x80, 0x9F, "1")],
    "F0": [(0x90, 0xBF, "2")],
    "F4": [(0x80, 0x8F, "2")],
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ByteDfa:
    """A byte automaton. State 0 is the start.

    - `step`: int32, shape (states, 256): the next state, DEAD, or -2 - i for `exits[i]`.
    - `whole[state]`: no character is cut in half here, so a tag of one id may follow.
    - `leads[state]`: the ids whose white space was just read; `fresh[state]`: nothing else was
      read.
    """

    name: str
    step: npt.NDArray[np.int32]
    exits: tuple[Symbol, ...]
    whole: npt.NDArray[np.bool_]
    fresh: npt.NDArray[np.bool_]
    leads: tuple[frozenset[int], ...]

    def at_id(self, state: int, token: int) -> Symbol:
        """Returns the symbol with which a tag of one id ends the content in a state."""
        if token in self.leads[state]:
            return ("first led" if self.fresh[state] else "led"), token
        return ("id" if state else "first"), token

    @property
    def states(self) -> int:
        return len(self.step)

    @property
    def nbytes(self) -> int:
        return self.step.nbytes + 300 * self.states

    def run(self, data: bytes, state: int = 0) -> int:
        """Returns the state after some bytes; stops at DEAD and at exits."""
        for byte in data:
            state = int(self.step[state, byte])
            if state < 0:
                return state
        return state


def _matcher(patterns: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Returns all beginnings of the patterns, the empty one first: the states of the search."""
    return sorted({p[:n] for p in patterns for n in range(len(p) + 1)}, key=lambda p: (len(p), p))


def _longest(codes: tuple[int, ...], states: dict[tuple[int, ...], int]) -> int:
    """Returns the state of the longest end of `codes` that is the beginning of a pattern."""
    return next(states[codes[n:]] for n in range(len(codes) + 1) if codes[n:] in states)


def _codes(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def text_dfa(
    forbidden: Sequence[str],
    tags: Sequence[str],
    led_tags: dict[str, str],
    led_ids: dict[int, str],
    *,
    only_words: Sequence[str] = (),
    never_first: Sequence[str] = (),
    never_last: Sequence[str] = (),
    name: str = "text",
) -> ByteDfa:
    """Returns the automaton of texts in UTF-8 that spell none of `forbidden`.

    `tags` are those of `forbidden` that may end the text: the last byte of such a tag is an exit.
    `led_tags` (tag -> white space) and `led_ids` (id -> white space) end the text only directly
    after this white space. The text does not begin with any of `never_first`, nor ends with any of
    `never_last` and white space; these are beginnings of forbidden spellings. With those of
    `only_words`, a forbidden spelling or a longer word in ASCII begins.
    """
    ends = {_codes(f): f for f in sorted(forbidden, key=len, reverse=True)}
    leads = {_codes(space) for space in led_ids.values()}
    opening: dict[tuple[int, ...], Symbol] = {(START, *_codes(tag)): ("first", tag) for tag in tags}
    for tag, space in led_tags.items():
        opening[START, *_codes(space + tag)] = ("first led", tag)
        opening[_codes(space + tag)] = ("led", tag)
    refused = {(START, *_codes(piece)) for piece in never_first}
    begun_words = {_codes(word) for word in only_words}
    patterns = [*ends, *leads, *((START, *lead) for lead in leads), *opening, *refused, (START,)]
    patterns += begun_words
    kept_out = {*opening, *ends, *refused, (START,)}
    order = [p for p in _matcher(patterns) if p not in kept_out]
    order = [(START,), *order]
    states = {p: i for i, p in enumerate(order)}
    pending = {p: len(order) + i for i, p in enumerate(_PENDING, -1)} | {"": states[()]}
    exits: list[Symbol] = [*(("tag", t) for t in tags), *opening.values()]
    step = np.full((len(order) + len(pending) - 1, 256), DEAD, dtype=np.int32)
    spelled = {byte for pattern in patterns for byte in pattern if byte != START}
    beyond = spelled - {*range(0x80)}
    for codes, state in states.items():
        in_word = any(_ends(codes, word) for word in begun_words)
        cut = _cut(codes)
        if not in_word:
            _characters(step, state, cut, pending)
        for byte in (*range(0x80 * (not cut)), *beyond):
            goes_on = not in_word or IDENT.fullmatch(chr(byte))
            if byte not in spelled:  # it is in no pattern
                step[state, byte] = states[()] if goes_on else DEAD
                continue
            new, then = (*codes, byte), DEAD
            ending = next((e for e in ends if _ends(new, e)), None)
            if new in opening:
                then = -2 - exits.index(opening[new])
            elif ending is not None and ends[ending] in tags:
                then = -2 - exits.index(("tag", ends[ending]))
            elif ending is None and new not in refused and goes_on:
                then = _longest(new, states)
            if byte < 0x80 or then != states[()]:  # else as in any text
                step[state, byte] = then
    for cut in _PENDING.keys() - {""}:
        _characters(step, pending[cut], cut, pending)
    inner = [False] * (len(pending) - 1)
    whole = np.array([*[not _cut(p) for p in order], *inner])
    fresh = np.array([*[p[1:] in leads and p[0] == START for p in order], *inner])
    led = [frozenset(i for i, space in led_ids.items() if _ends(p, _codes(space))) for p in order]
    leaf = ByteDfa(name, step, tuple(exits), whole, fresh, (*led, *[frozenset[int]()] * len(inner)))
    if not never_last:
        return leaf
    begun = [any(_ends(p, _codes(piece)) for piece in never_last) for p in order]
    firsts = {tag.encode()[0] for tag in tags}
    inside = [not firsts.isdisjoint(p) for p in order]
    return _without_last(leaf, [*begun, *inner], [*inside, *inner], firsts)


# White space, as Python's regular expressions understand it; in UTF-8.
_SPACES = {c.encode() for c in map(chr, range(0x3001)) if c.isspace()}
_PARTS = {space[:n] for space in _SPACES for n in range(1, len(space))}


class _TextState(NamedTuple):
    """A state of the automaton of texts that may not end everywhere.

    `state` is that of all texts. `spaced`: what the text may not end with was read, and after it
    only white space: b"" if that is whole, else the beginning of its last character. `before`: the
    text may not end where the tag begins that is being read.
    """

    state: int
    spaced: bytes | None = None
    before: bool = False


def _without_last(
    leaf: ByteDfa, begun: list[bool], inside: list[bool], firsts: set[int]
) -> ByteDfa:
    """Returns an automaton of texts without exits where a text ends as `begun` says of states.

    Nor where only white space follows such a place. `firsts` are the bytes that tags begin with,
    `inside` says of states whether a tag may have begun.
    """
    numbers = {_TextState(0): 0}
    queue = [_TextState(0)]
    rows: list[npt.NDArray[np.int32]] = []
    for text_state in queue:
        row = leaf.step[text_state.state].copy()
        for byte in np.flatnonzero(row != DEAD).tolist():
            if row[byte] < DEAD:
                row[byte] = DEAD if text_state.before else row[byte]
                continue
            state = int(row[byte])
            before = text_state.before
            if byte in firsts:
                before = begun[text_state.state] or text_state.spaced == b""
            then = _TextState(state, _spaced(text_state, begun, byte), before and inside[state])
            if then not in numbers:
                numbers[then] = len(numbers)
                queue.append(then)
            row[byte] = numbers[then]
        rows.append(row)
    states = [text_state.state for text_state in queue]
    ends = [not (begun[text_state.state] or text_state.spaced is not None) for text_state in queue]
    whole, leads = leaf.whole[states] & ends, tuple(leaf.leads[state] for state in states)
    return ByteDfa(leaf.name, np.array(rows), leaf.exits, whole, leaf.fresh[states], leads)


def _spaced(text_state: _TextState, begun: list[bool], byte: int) -> bytes | None:
    if text_state.spaced is None and not begun[text_state.state]:
        return None
    character = (text_state.spaced or b"") + bytes([byte])
    return b"" if character in _SPACES else character if character in _PARTS else None


def _ends(codes: tuple[int, ...], lead: tuple[int, ...]) -> bool:
    return codes[-len(lead) :] == lead


def _cut(codes: tuple[int, ...]) -> str:
    """Returns where in a character some bytes end; "" if after one."""
    cut = ""
    for byte in codes:
        cut = next((then for first, last, then in _PENDING[cut] if first <= byte <= last), "")
    return cut


def _characters(step: npt.NDArray[np.int32], state: int, cut: str, pending: dict[str, int]) -> None:
    for first, last, then in _PENDING[cut]:
        step[state, first : last + 1] = pending[then]


# What may follow a backslash in canonical JSON, besides `u`.
_SHORT = b'"\\nrtfb'
# Characters with short escapes: `\u000a`, for example, is not canonical.
_HAS_SHORT = {0x0A, 0x0D, 0x09, 0x0C, 0x08}
QUOTE = ord('"')


@cached_by(lambda forbidden: forbidden, 8 << 20)
def string_dfa(forbidden: tuple[str, ...]) -> ByteDfa:
    """Returns the automaton of the inside of a canonical JSON string without `forbidden` spellings.

    The only exit is the closing quote. DEL is refused: llguidance would escape it.
    """
    endings = {_codes(f) for f in forbidden if '"' not in f}  # a quote would be escaped
    order = [p for p in _matcher(endings) if not any(_ends(p, c) for c in endings)]
    states = {p: i for i, p in enumerate(order)}
    names = ["esc", "u", "u0", "u00", "u000", "u001"]
    names_of_states = {n: len(order) + i for i, n in enumerate([*_PENDING, *names], -1)}
    names_of_states[""] = states[()]
    step = np.full((len(order) + len(names_of_states) - 1, 256), DEAD, dtype=np.int32)
    spelled = sorted({byte for codes in endings for byte in codes if byte >= 0x20 and byte != 0x7F})
    for codes, state in states.items():
        cut = _cut(codes)
        _characters(step, state, cut, names_of_states)
        if not cut:
            step[state, 0x20:0x7F] = states[()]
        for byte in spelled:
            new = (*codes, byte)
            if any(_ends(new, c) for c in endings):
                step[state, byte] = DEAD
            elif then := _longest(new, states):  # else as in any text
                step[state, byte] = then
        if not cut:
            step[state, QUOTE], step[state, ord("\\")] = -2, names_of_states["esc"]
    for cut in _PENDING.keys() - {""}:
        _characters(step, names_of_states[cut], cut, names_of_states)
    for byte in _SHORT:
        step[names_of_states["esc"], byte] = states[()]
    step[names_of_states["esc"], ord("u")] = names_of_states["u"]
    for at, digit in (("u", "0"), ("u0", "0"), ("u00", "0"), ("u00", "1")):
        step[names_of_states[at], ord(digit)] = names_of_states[at + digit]
    for high, at in ((0x00, "u000"), (0x10, "u001")):
        for low in range(16):
            if high + low not in _HAS_SHORT:
                step[names_of_states[at], ord(f"{low:x}")] = states[()]
    return _closed("string", step, bytes([QUOTE]))


@cached_by(lambda forbidden, quote="": (forbidden, quote), 8 << 20)
def python_string_dfa(forbidden: tuple[str, ...], quote: str = "") -> ByteDfa:
    """Returns the automaton of the inside of a string in single quotes, as `repr` writes most.

    If it is in a `quote`, that and backslashes and line ends are escaped, and nothing else.
    """
    end = ord(quote or "'")
    leaf = string_dfa(tuple(f.translate({QUOTE: end, end: QUOTE}) for f in forbidden))
    step = leaf.step.copy()
    step[:, [QUOTE, end]] = step[:, [end, QUOTE]]
    step[step[0, ord("\\")], [*(b"utbf" if quote else b"'ubf")]] = DEAD
    if quote:
        plain = [byte for byte in range(0x20) if byte not in b"\r\n"]
        step[np.flatnonzero(step[:, 0x20] >= 0)[:, None], plain] = 0
    return _closed(f"python string {quote}", step, bytes([end]))


def _closed(name: str, step: npt.NDArray[np.int32], ends: bytes) -> ByteDfa:
    """Returns an automaton that no tag ends, only the bytes `ends`."""
    none = np.zeros(len(step), bool)
    exits: tuple[Symbol, ...] = tuple(("byte", b) for b in ends)
    return ByteDfa(name, step, exits, none, none, (frozenset(),) * len(step))


@lru_cache(maxsize=1)
def ident_dfa() -> ByteDfa:
    """Returns the automaton of an id of letters, digits, `_` and `-`, up to the closing quote."""
    step = np.full((2, 256), DEAD, dtype=np.int32)
    step[:, [b for b in range(128) if IDENT.fullmatch(chr(b))]] = 1
    step[1, QUOTE] = -2
    return _closed("ident", step, bytes([QUOTE]))


# The digits that a float keeps: each fraction with at most as many is canonical as it is written.
DIGITS = 15
_WHOLE_DIGITS = 40  # of whole numbers, such as ids: those of 128 bits have 39
# The bytes that can follow a number in JSON.
AFTER_NUMBER = b",}]"
# The most zeros after `0.`: with more, canonical JSON writes an exponent.
_SMALL = 3


class _Number(NamedTuple):
    """The state of reading a number.

    `part` is "", "-", "0", "-0", "int", "point" or "fraction", or one of the states of an exponent.
    `used` counts digits. `zeros` counts the zeros directly after `0.`, -1 if another digit was
    read. `lone`: one digit that is not 0 is before the point, so an exponent may follow.

    A fraction may end with zeros, and an exponent be any of one or two digits, although canonical
    JSON writes `19.9` and 1000000000.0: a model that has begun `19.90` or `1e9` would have to go on
    to another number.
    """

    part: str = ""
    used: int = 0
    zeros: int = -1
    lone: bool = False

    @property
    def complete(self) -> bool:
        return self.part in ("0", "int", "fraction", "e0", "e00")

    def after(self, byte: int, *, fraction: bool) -> _Number | None:
        if self.part in _EXPONENTS or byte in b"e+":
            return self._exponent(chr(byte)) if fraction else None
        if byte == ord("-"):
            return _Number("-") if self.part == "" else None
        lone = self.lone
        if byte == ord("."):
            ready = fraction and self.part in ("0", "-0", "int") and self.used < DIGITS
            zeros = 0 if self.part != "int" else -1
            return _Number("point", self.used, zeros, lone=lone) if ready else None
        zero = byte == ord("0")
        if self.part in ("", "-"):
            if zero:
                return _Number({"": "0", "-": "-0"}[self.part], 1)
            return _Number("int", 1, lone=fraction)
        if self.part == "int":
            return _Number("int", self.used + 1) if self.used < _WHOLE_DIGITS else None
        zeros = self.zeros + 1 if zero and self.zeros >= 0 else -1
        if self.part in ("0", "-0") or self.used >= DIGITS or zeros > _SMALL:
            return None
        return _Number("fraction", self.used + 1, zeros, lone)

    def _exponent(self, letter: str) -> _Number | None:
        if letter == "e":
            return _Number("e") if self.lone and self.part in ("int", "fraction") else None
        for letters, part in _EXPONENTS.get(self.part, ()):
            if letter in letters:
                return _Number(part)
        return None


# What follows in an exponent.
_DIGITS = "0123456789"
_EXPONENTS: dict[str, tuple[tuple[str, str], ...]] = {
    "e": (("+-", "sign"), (_DIGITS, "e0")),
    "sign": ((_DIGITS, "e0"),),
    "e0": ((_DIGITS, "e00"),),
    "e00": (),
}


@lru_cache(maxsize=8)
def number_dfa(*, fraction: bool, ends: bytes = AFTER_NUMBER) -> ByteDfa:
    """Returns the automaton of JSON numbers: of DIGITS digits, or whole ones of more.

    They are canonical, except that fractions may end with zeros, and that an exponent is any of one
    or two digits. Only whole numbers, unless `fraction`. A number is over when a byte follows that
    is none of it, so its exits are the bytes that can follow a number: `ends`.
    """
    rows: dict[_Number, dict[int, _Number]] = {}
    queue = [_Number()]
    while queue:
        state = queue.pop()
        if state not in rows:
            following = {b: state.after(b, fraction=fraction) for b in b"-+.e0123456789"}
            rows[state] = {b: then for b, then in following.items() if then is not None}
            queue += rows[state].values()
    alive = {s for s in rows if s.complete}
    while leading := {s for s, row in rows.items() if s not in alive and alive & set(row.values())}:
        alive |= leading
    order = sorted(alive)
    step = np.full((len(order), 256), DEAD, dtype=np.int32)
    for i, state in enumerate(order):
        for byte, then in rows[state].items():
            step[i, byte] = order.index(then) if then in alive else DEAD
        if state.complete:
            step[i, list(ends)] = -2 - np.arange(len(ends))
    return _closed("number" if fraction else "integer", step, ends)
