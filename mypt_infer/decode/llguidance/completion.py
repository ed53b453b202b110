"""Finds endings of bodies that llguidance reads, and writes them in as few tokens as possible.

Input: a matcher, and a state of the companion. Output: tokens that complete the body.

Theory of operation. The search goes byte by byte, because a grammar that accepts a body accepts all
its bytes one by one, and it is greedy: at each place it takes the byte that promises the nearest
end, and comes back to the place only if that leads nowhere. So the work grows with the length of
the ending, not with the number of ways to write it. Outside of strings, closing comes first. Inside
a string that may not close yet (a pattern, a length), bytes that were not possible before come
first, because the pattern went on there, and then those that were written least often.

After `{"a": "x-` with the pattern `^[a-z]+-[0-9]+$`, no quote may follow, `0` makes it possible,
and `"` and `}` are the ending.

A pattern without `^`, such as `[0-9]{4}-[0-9]{2}`, refuses no byte, so no byte promises anything.
So there are *hints*, texts that patterns match: where the end of one makes a quote possible, it is
written. After a key, its shortest value by the schema is tried, which bytes alone do not show.

A matcher takes some hundred bytes more with each byte that it has read, so a long search keeps
those of the last places and of every 64th, and makes the others again when it comes back to them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints, Vocabulary
from mypt_infer.decode.base.work import step
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.llguidance.lexer import Companion
from mypt_infer.decode.llguidance.minimal_value import Hints

# The most places that a search for the ending after an id looks at, some 40 us each.
EXPANSIONS = 600
# The most bytes of an ending.
_LONGEST = 1 << 13
# The matchers that a search keeps: those of so many last places, and of each place of so many.
_MAX_ENTRIES, _EACH = 48, 64
# The bytes back to which a search counts how often it wrote a byte.
_RECENT = 256
_WORDS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ .:,"
# The order in which bytes are tried, inside a string and outside.
_INSIDE = [*b'"', *_WORDS, *range(0x100)]
# A comma before digits: where it may follow, the number is over, and longer ones come no nearer.
_OUTSIDE = [*b'}],"ntf', *_WORDS, *range(0x100)]
_ANYWHERE = [*b'}]"', *_WORDS, *range(0x100)]
_QUOTE = ord('"')
_CLOSING_QUOTE = 1 << _QUOTE
_CLOSING = sum(1 << byte for byte in b"}],")
# After these a value may be over; and how many ends of a known ending are tried there.
_OVER, _TAILS = frozenset(b'}]"el0123456789'), 6
# A key, and the beginning of its value.
_KEYED = re.compile(rb'("(?:[^"\\]|\\.)*"):( ?"?)$', re.DOTALL)
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
_ESCAPED = re.compile(rb"\\.", re.DOTALL)


class Bitmask:
    """Reads the bitmask of a matcher. Each call has its own buffer, so threads may share it."""

    def __init__(self, size: int) -> None:
        import llguidance.numpy as kernels

        self._kernels, self.size = kernels, size

    def _filled(self, matcher: Any) -> npt.NDArray[np.int32]:
        bits: npt.NDArray[np.int32] = self._kernels.allocate_token_bitmask(1, self.size)
        self._kernels.fill_next_token_bitmask(matcher, bits)
        return bits

    def packed(self, matcher: Any) -> npt.NDArray[np.uint8]:
        """Returns a bit for each id, lowest first, 1 where it may follow; whole words of 32."""
        packed: npt.NDArray[np.uint8] = self._filled(matcher)[0].view(np.uint8)
        return packed

    def some(self, matcher: Any, ids: Ints) -> npt.NDArray[np.bool_]:
        """Returns whether each of some ids may follow: bool, shape of `ids`."""
        flags: npt.NDArray[np.bool_] = (
            self._filled(matcher)[0, ids >> 5] >> (ids & 31) & 1
        ).astype(bool)
        return flags


class Ending(NamedTuple):
    """What a search found.

    `tokens` complete the body; None if no ending was found. `looked`: how many places it took.
    `none`: all ways were tried, so there is no ending.
    """

    tokens: list[int] | None
    looked: int
    none: bool


@dataclass(slots=True)
class _Place:
    """A place in the search: its matcher, if it is kept, and what was written so far.

    `ways` are the bytes to try next, as (token, companion's state after, byte); `possible` are all
    bytes that may follow, a bit for each.
    """

    matcher: Any
    text: bytes
    ways: Iterator[tuple[int, int, int]]
    possible: int


class Search:
    """Searches for endings.

    With `end`, the id that follows them, they are those of texts of any kind; else of JSON. With
    `end` and `json` they are JSON, too, whose strings the companion does not know.
    """

    def __init__(
        self,
        lexemes: Companion,
        vocabulary: Vocabulary,
        bitmask: Bitmask,
        *,
        end: int | None = None,
        json: bool = False,
    ) -> None:
        self.end, self.json = end, json or end is None
        self.lexemes, self.vocabulary, self.bitmask = lexemes, vocabulary, bitmask
        self.tokens = vocabulary.fewest
        ids = dict.fromkeys(range(256), vocabulary.nowhere) | vocabulary.of_byte
        self.id_of = ids
        self.inside, self.outside = (
            np.array(
                [ids[b] for b in dict.fromkeys(order) if b in vocabulary.of_byte], dtype=np.int32
            )
            for order in (_INSIDE, _OUTSIDE if self.json else _ANYWHERE)
        )
        self._orders: dict[tuple[int, bool], tuple[Ints, list[tuple[int, int, int]]]] = {}

    def ending(
        self,
        matcher: Any,
        state: int,
        *,
        most: int = EXPANSIONS,
        begun: bytes = b"",
        hints: Hints | None = None,
        earlier: bytes = b"",
    ) -> Ending:
        """Returns an ending, looking at no more than `most` places.

        `state` is the companion's. The matcher is left as it is. `begun` is the body so far.
        `earlier` is an ending of the place before: where a value is over, what it has after one is
        tried.
        """
        tails = [[self.id_of[b] for b in tail] for tail in rests(earlier)] if self.json else []
        read_place = partial(self._read, begun=begun, hints=hints, tails=tails)
        first = read_place(matcher.deep_copy(), state, b"", 0)
        visits, is_cut = 1, False
        if isinstance(first, bytes):
            return Ending(self.tokens(first), visits, False)
        stack = [first] if first is not None else []
        while stack and visits < most:
            place = stack[-1]
            token, after, byte = next(place.ways, (-1, 0, 0))
            if token < 0:
                stack.pop()
                continue
            if len(place.text) >= _LONGEST:
                is_cut = True
                stack.pop()
                continue
            visits += 1
            step()
            here = self._matcher(stack).deep_copy()
            if not here.consume_token(token):
                continue
            then = read_place(here, after, place.text + bytes([byte]), place.possible)
            if isinstance(then, bytes):
                return Ending(self.tokens(then), visits, False)
            if then is not None:
                stack.append(then)
                old = len(stack) - 1 - _MAX_ENTRIES
                if old > 0 and old % _EACH:
                    stack[old].matcher = None
        return Ending(None, visits, not stack and not is_cut)

    def _matcher(self, stack: list[_Place]) -> Any:
        """Returns the matcher of the last place, made again from the nearest that is kept."""
        at = len(stack) - 1
        while stack[at].matcher is None:
            at -= 1
        for before, place in zip(stack[at:], stack[at + 1 :], strict=False):
            place.matcher = before.matcher.deep_copy()
            tail = place.text[len(before.text) :]
            place.matcher.consume_tokens([self.id_of[b] for b in tail])
        return stack[-1].matcher

    def _read(
        self,
        here: Any,
        at: int,
        text: bytes,
        before: int,
        *,
        begun: bytes,
        hints: Hints | None,
        tails: list[list[int]],
    ) -> _Place | bytes | None:
        """Returns the place after some text, or the whole text if the body ends there.

        None if nothing may follow. `before` are the bytes that were possible one place before.
        """
        while True:
            forced = b"" if here.is_accepting() else here.compute_ff_bytes()
            if tails and (ending := self._over(here, at, text or begun[-1:], forced, tails)):
                return text + ending
            if forced:
                tokens = [self.id_of[b] for b in forced]
                at, text = self.lexemes.run(at, tokens), text + forced
                if at == DEAD_STATE or not here.consume_tokens(tokens):
                    return None
            if here.is_accepting() and self.lexemes.may_end(at):
                return text
            forced_text = self._value(here, at, begun[-_RECENT:] + text[-_RECENT:], hints)
            if not forced_text:
                inside = self.json and self.inside_string(at, begun + text)
                order, ways = self._order(at, inside=inside)
                options = [ways[i] for i in np.flatnonzero(self.bitmask.some(here, order)).tolist()]
                possible = sum(1 << byte for _, _, byte in options)
                open_end = inside and not possible & _CLOSING_QUOTE and len(options) > 1
                forced_text = self._hint(here, at, hints) if open_end else b""
                if not forced_text:
                    break
            tokens = [self.id_of[b] for b in forced_text]
            here.consume_tokens(tokens)
            at, text, before = self.lexemes.run(at, tokens), text + forced_text, 0
        recent = text[-_RECENT:]
        new = possible & ~before if before else possible
        if not self.json or open_end:
            options.sort(key=lambda way: (not new >> way[2] & 1, recent.count(way[2])))
            if not self.json or not before:
                options.sort(key=lambda way: not self._closes(here, way))
        elif not inside and not possible & _CLOSING:
            options.sort(key=lambda way: recent.count(way[2]) if 0x30 <= way[2] <= 0x39 else 0)
        return _Place(here, text, iter(options), possible) if options else None

    def _hint(self, here: Any, at: int, hints: Hints | None) -> bytes:
        """Returns the shortest end of a hint after which a quote may follow; b"" if none is so."""
        texts, quote = () if hints is None else hints.texts, self.id_of[_QUOTE]
        for count in range(1, max(map(len, texts), default=0) + 1):
            for hint in texts:
                tokens = [self.id_of[b] for b in hint[-count:]]
                if (
                    count <= len(hint)
                    and here.validate_tokens([*tokens, quote]) == count + 1
                    and self.lexemes.run(at, tokens) != DEAD_STATE
                ):
                    return hint[-count:]
        return b""

    def _value(self, here: Any, at: int, text: bytes, hints: Hints | None) -> bytes:
        """Returns the shortest value, or its rest, that may follow a key; b"" if none is known."""
        keyed = _KEYED.search(text) if self.json else None
        values = hints.values(json.loads(keyed[1])) if keyed and hints is not None else ()
        for value in sorted(values, key=len):
            missing = (b" " + value).removeprefix(keyed[2]) if keyed else b""
            tokens = [self.id_of[b] for b in missing]
            if (
                here.validate_tokens(tokens) == len(tokens)
                and self.lexemes.run(at, tokens) != DEAD_STATE
            ):
                return missing
        return b""

    def _over(
        self, here: Any, at: int, text: bytes, forced: bytes, tails: list[list[int]]
    ) -> bytes:
        """Returns some of the forced bytes and a tail, if these end the body; else b"".

        A tail is tried where a value may be over.
        """
        tokens = [self.id_of[b] for b in forced]
        ends = [n for n in range(len(forced) + 1) if (forced[:n] or text or b" ")[-1] in _OVER]
        for tail in (tokens[:n] + tail for n in ends[:_TAILS] for tail in tails):
            if here.validate_tokens(tail) < len(tail):
                continue
            then = here.deep_copy()
            then.consume_tokens(tail)
            if then.is_accepting() and self.lexemes.may_end(self.lexemes.run(at, tail)):
                return b"".join(self.vocabulary.tokens[i] for i in tail)
        return b""

    def inside_string(self, at: int, text: bytes) -> bool:
        """Returns whether a place is inside a string of JSON. `text` is the body so far."""
        if self.end is None:
            return at in self.lexemes.strings
        return _ESCAPED.sub(b"", text).count(b'"') % 2 == 1

    def _closes(self, here: Any, way: tuple[int, int, int]) -> bool:
        """Returns whether a string, or the text, may close after one more byte."""
        quote = self.id_of[_QUOTE] if self.end is None or self.json else self.end
        return bool(here.validate_tokens([way[0], quote]) == 2)

    def _order(self, at: int, *, inside: bool) -> tuple[Ints, list[tuple[int, int, int]]]:
        """Returns (ids, ways) of the tokens of one byte that the companion takes.

        They are in the order in which the search tries them."""
        entry = self._orders.get((at, inside))
        if entry is None:
            order = self.inside if inside else self.outside
            follows = {int(i): self.lexemes.next(at, int(i)) for i in order}
            order = order[[follows[int(i)] != DEAD_STATE for i in order]]
            ways = [(int(i), follows[int(i)], self.vocabulary.tokens[int(i)][0]) for i in order]
            entry = self._orders[at, inside] = order, ways
        return entry


def rests(ending: bytes) -> list[bytes]:
    """Returns what an ending of JSON has after a value or a member: the first few such ends of it.

    >>> rests(b'"b": [1, 2], "c": ","}}')
    [b', "b": [1, 2], "c": ","}}', b', "c": ","}}', b'}}', b'}']
    """
    endings, depth = [b", " + ending] if ending.startswith(b'"') else [], 0
    for match in _STRUCTURE.finditer(ending):
        opens, closes = match[0] in b"{[", match[0] in b"}]"
        if not depth and not opens and len(match[0]) == 1:
            endings.append(ending[match.start() :])
        depth = max(depth + opens - closes, 0)
        if len(endings) == _TAILS:
            break
    return endings
