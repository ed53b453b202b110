"""Make texts and JSON values of every kind, a choice at a time.

Hypothesis takes four fifths of the time of many comparisons to draw records from strategies of
strategies; a `Maker` takes a twentieth of that. `drawn` makes a strategy of a function of a
`Random`: the quick tests draw its seed, so five examples are five records that have nothing in
common. In `thorough`, Hypothesis draws each choice, and so it can shrink a failing example.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

import mypt_spec
from mypt_spec.damage.cut_tags import fragment, inner_tags
from mypt_spec.damage.near_miss import near_miss
from tests.support.examples import either

Record = dict[str, Any]
Value = TypeVar("Value")

TRICKY = [
    "\u2028", "\x85", "\x00", "\ufeff", "\ufffd", "e\u0301", "\U0001f469\u200d\U0001f4bb", "\U0010ffff", "\\", '"', "\\u003c",
    "<", ">", "</", " ", "\n", "\r\n", "\t", "{", "}", "a",
]  # fmt: skip
TAME = ["Hello.", "Sag Hallo.", "Grüße, 世界 \U0001f600", "a < b", "x\n\n- y", "<b>bold</b>", " lead", "trail ", "12,5 %"]  # fmt: skip
# Arguments that a "call" writes under another key, beside the name of the tool.
NAMED_ARGUMENTS = ["name", "name_", "name__"]
NUMBERS = [0, 1, -7, 2**53, 10**30, -0.0, 0.5, 1.1e-5, 1e16, -1e300, 5e-324]
_PLANES = (0x80, 0x80, 0x250, 0x800, 0xD800, 0x110000)  # most texts are of the first ones
_TRIES = 20  # texts that are drawn before a plain one is taken
RANDOMS: st.SearchStrategy[Random] = either(
    st.integers(0, 2**32 - 1).map(Random), st.randoms(use_true_random=False)
)


@st.composite
def drawn(draw: st.DrawFn, make: Callable[[Random], Value]) -> Value:
    """Draws what a function makes of a generator of random numbers."""
    return make(draw(RANDOMS))


@cache
def fragments(name: str) -> list[str]:
    """Returns what could grow into tags: whole tags, their beginnings and ends, and near misses."""
    tags = [t.shown for t in mypt_spec.dialect(name).table.terminals.values()]
    cut = [
        part
        for tag in tags
        for part in (tag[: len(tag) // 2], tag[len(tag) // 2 :], tag[:-1], tag[1:])
    ]
    return [*tags, *cut, *(tag.upper() for tag in tags), *(tag.replace("_", " ") for tag in tags)]


@cache
def _pieces(name: str) -> list[str]:
    return [*fragments(name), *TRICKY]


@cache
def _is_content(name: str) -> Callable[[str], bool]:
    """Returns a test of whether a text spells no tag of a dialect, nor a piece of one."""
    d = mypt_spec.dialect(name)
    inner = inner_tags(d.table, d.automaton)

    def is_content(text: str) -> bool:
        literal = d.table.literals.search(text)
        return literal is near_miss(text, d.table) is fragment(text, inner) is None

    return is_content


class Maker:
    """Makes the pieces of a record of a dialect.

    Those of a `clean` record have no finding; others may be blank, and strings inside of JSON may
    spell `tags`, or come from `strings`. The first of several choices is the plainest one.
    """

    def __init__(
        self,
        random: Random,
        name: str,
        *,
        clean: bool = True,
        tags: bool | None = None,
        strings: Callable[[], str] | None = None,
    ) -> None:
        self.random, self.name, self.clean = random, name, clean
        self.tags = not clean if tags is None else tags
        self.choice, self.strings = random.choice, strings

    def one_in(self, number: int) -> bool:
        """Returns True once in so many times."""
        return self.random.randrange(number) == number - 1

    def some(self, least: int, most: int) -> range:
        """Returns a range to count through."""
        return range(self.random.randint(least, most))

    def sample(self, choices: Sequence[Value], least: int = 0, most: int | None = None) -> list[Value]:  # fmt: skip
        """Returns some of the choices, none twice, in any order."""
        left = list(choices)
        most = len(left) if most is None else min(most, len(left))
        return [left.pop(self.random.randrange(len(left))) for _ in self.some(least, most)]

    def characters(self, most: int = 20, least: int = 0) -> str:
        """Returns characters of any plane."""
        bound = self.choice(_PLANES)
        points = (self.random.randrange(bound) for _ in self.some(least, self.choice((3, most))))
        return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000) or "a" * least

    def any_text(self, least: int = 0) -> str:
        """Returns a text of any kind: all planes, white space, tags, near tags and fragments."""
        if self.one_in(2):
            return self.characters(least=least)
        pieces = _pieces(self.name)
        return "".join(
            self.characters(3) if self.one_in(3) else self.choice(pieces)
            for _ in self.some(least, 6)
        )

    def text(self, *, empty: int = 0) -> str:
        """Returns a content, which is empty once in so many times."""
        if empty and self.one_in(empty):
            return ""
        fine = _is_content(self.name)
        for _ in range(0 if self.one_in(2) else _TRIES):
            text = self.any_text(1)
            if (text.strip() if self.clean else text) and fine(text):
                return text
        return self.choice(TAME)

    def string(self) -> str:
        """Returns a string for the inside of JSON."""
        if self.strings is not None:
            return self.strings()
        return self.any_text() if self.tags else self.text(empty=9)

    def number(self) -> int | float:
        """Returns a number of any size that JSON can have."""
        kind = self.random.randrange(4)
        if kind == 0:
            return self.choice(NUMBERS)
        if kind == 1:
            return self.random.randint(-300, 300)
        if kind == 2:
            return self.random.randint(-(2**70), 2**70)
        (value,) = struct.unpack("d", self.random.randrange(2**64).to_bytes(8, "little"))
        return value if isfinite(value) else 0.25

    def value(self, depth: int = 2) -> Any:
        """Returns a JSON value."""
        kind = self.random.randrange(9 if depth else 6)
        if kind < 3:
            return self.string()
        if kind < 6:
            return (None, True, False, self.number())[self.random.randrange(4)]
        if kind == 6:
            return [self.value(depth - 1) for _ in self.some(0, 3)]
        return {self.string(): self.value(depth - 1) for _ in self.some(0, 3)}

    def arguments(self, names: Sequence[str] = (), most: int = 2) -> Record:
        """Returns arguments of a call, under some of the names or, without them, any."""
        return {
            self.choice(names) if names else self.string(): self.value() for _ in self.some(0, most)
        }

    def note(self, record: Record, *, language: Sequence[str] = ("de",)) -> Record:
        """Puts metadata into a record here and there, with strings of any kind."""
        tags, self.tags = self.tags, True
        for message in record["messages"]:
            if self.one_in(10):
                message["_note"] = self.value()
        if self.one_in(4):
            record["_meta"] = self.value()
        if self.one_in(4):
            record["language"] = self.choice(language)
        self.tags = tags
        return record


# --- JSON of any kind

LEAVES = ["role", "user", "system", "<myPT_user>", "\ud800", float("nan"), float("inf")]
KEYS = ["role", "content", "name", "arguments", "_x", "\udfff"]


def any_json(
    random: Random, keys: Sequence[str] = KEYS, leaves: Sequence[Any] = LEAVES, depth: int = 3
) -> Any:
    """Returns any value that Python's reader of JSON can return, `NaN` and half characters too.

    Half of the keys, and some of the leaves, are those named.
    """
    make = Maker(random, "mypt")

    def value(depth: int) -> Any:
        kind = random.randrange(8 if depth else 4)
        if kind == 0:
            return random.choice((None, True, False))
        if kind < 3:
            return make.number() if kind == 1 else make.characters()
        if kind == 3:
            return random.choice(leaves)
        if kind < 6:
            return [value(depth - 1) for _ in make.some(0, 4)]
        names = [make.characters(3) if make.one_in(2) else random.choice(keys) for _ in make.some(0, 4)]  # fmt: skip
        return {name: value(depth - 1) for name in names}

    return value(depth)


def line(random: Random, record: Any) -> bytes:
    """Returns a record as a line of JSON, in any spelling of it: separators, escapes."""
    separators = random.choice([(", ", ": "), (",", ":"), (" ,", " :\t")])
    text = json.dumps(record, ensure_ascii=random.choice((False, True)), separators=separators)
    return text.encode("utf-8", "surrogatepass")
