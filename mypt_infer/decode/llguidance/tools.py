"""Prepares a list of tools for the engine "llguidance": a matcher, and a short call, of each.

A tool of which no call is found is refused here, so that all that is offered later has an ending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.call_graph import OPENED, around, body_of, check_named
from mypt_infer.decode.compile.grammar_graph import GrammarGraph, call_ends
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_infer.decode.compile.vocab import Ints
from mypt_infer.decode.llguidance.completion import Bitmask, Search, fixes
from mypt_infer.decode.llguidance.grammar import (
    ANY,
    HoleBodies,
    matcher,
    named,
    patterned,
    schema_of,
)
from mypt_infer.decode.llguidance.grammar import words as words_of
from mypt_infer.decode.llguidance.lexer import Lexemes, lexemes
from mypt_infer.decode.llguidance.minimal_value import Unclear, minimal_value
from mypt_infer.decode.tables import DEAD_STATE, Tables, build
from mypt_infer.decode.tools import SchemaFault, ToolSpec
from mypt_spec import Dialect
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.memo import Memo
from mypt_spec.table import LISTS


class Ground(NamedTuple):
    """What all bodies of a dialect share.

    `characters`: int32, the number of characters in each ordinary token, 0 if it holds a backslash.
    `opens`: bool, whether the token holds a quote or an opening bracket. `fixes`: see `completion`.
    """

    lexemes: Lexemes
    bitmask: Bitmask
    search: Search
    characters: Ints
    opens: npt.NDArray[np.bool_]
    fixes: dict[int, list[int]]

    def proved(self, first: Any, body: list[int], end: int) -> bool:
        """Returns whether tokens are a whole body that `end` follows; `first` is its matcher."""
        tokens = [*body, end]
        return (
            first.validate_tokens(tokens) == len(tokens)
            and self.lexemes.run(self.lexemes.first, body) != DEAD_STATE
        )


class Rule(NamedTuple):
    """What the engine has to know of a tool.

    `begins`: the first bytes of its calls, in a list those after the id. `bound`: the keys of
    members that patterns bind. `closed`: all members are named.
    """

    begins: bytes
    bound: frozenset[str]
    closed: bool


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of some tools.

    `tables` have a hole for each body. By hole: `first` is the matcher there, `endings` is one body
    as tokens. `rules` is by tool.
    """

    tables: Tables
    first: dict[int, Any]
    endings: dict[int, tuple[int, ...]]
    rules: tuple[Rule, ...]


_grounds = Memo[str, Ground](16)
_calls = Memo[tuple[str, str], Calls](32)  # by lists of tools


def ground(dialect: Dialect) -> Ground:
    """Returns what all bodies of a dialect share, made once.

    Raises EngineError if llguidance is not installed.
    """
    found = _grounds.known.get(dialect.fingerprint)
    if found is None:
        words_of(dialect, call_ends(dialect)[1])  # says how to install what it lacks
        text = GrammarGraph(dialect, ()).text
        words, companion = token_classes(dialect, text).vocabulary, lexemes(dialect, text)
        bitmask = Bitmask(words.size)
        counts = [0 if b"\\" in t else sum(b & 0xC0 != 0x80 for b in t) for t in words.tokens]
        search = Search(companion, words, bitmask)
        opens = np.array([any(b in t for b in b'"{[') for t in words.tokens])
        characters, closing = np.array(counts, dtype=np.int32), fixes(companion, search)
        made = Ground(companion, bitmask, search, characters, opens, closing)
        found = _grounds.keep(dialect.fingerprint, made)
    return found


def calls_of(
    dialect: Dialect, tools: Sequence[ToolSpec], forbidden_blocks: frozenset[str] = frozenset()
) -> Calls:
    """Returns the calls of some tools; no block of `forbidden_blocks` may open.

    Keeps the calls that were asked for last. Raises SchemaFault for a tool that cannot be called.
    """
    key = (
        dialect.fingerprint,
        repr(([(t.name, t.schema) for t in tools], sorted(forbidden_blocks))),
    )
    found = _calls.known.get(key)
    return found or _calls.keep(key, _Opening(dialect).calls(tools, forbidden_blocks))


class _Opening:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.literals, self.ground = dialect, dialect.table.literals, ground(dialect)
        self.kind, self.end = call_ends(dialect)

    def calls(self, tools: Sequence[ToolSpec], forbidden_blocks: frozenset[str]) -> Calls:
        for tool in tools:
            check_named(tool, self.kind, self.literals)
        rules = [
            Rule(self._before(tool)[len(OPENED) * (self.kind in LISTS) :], patterned(s), named(s))
            for tool in tools
            for s in [schema_of(tool, self.kind)]
        ]
        base = build(self.dialect, tools, HoleBodies, forbidden_blocks)
        used = {hole for hole, _ in base.holes.values()}
        first: dict[int, Any] = {}
        endings: dict[int, tuple[int, ...]] = {}
        if ANY in used:
            first[ANY] = matcher(self.dialect, self.end, self.kind, tools)
        for i, tool in enumerate(tools if used else ()):
            if i + 1 in used:
                first[i + 1] = matcher(self.dialect, self.end, self.kind, [tool])
            endings[i + 1] = self._ending(first.get(i + 1, first.get(ANY)), tool)
        endings[ANY] = min(endings.values(), key=len, default=())
        return Calls(
            base.with_holes([len(endings.get(i, ())) for i in range(len(tools) + 1)]),
            first,
            endings,
            tuple(rules),
        )

    def _before(self, tool: ToolSpec) -> bytes:
        return around(self.kind, tool.name, self.literals)[0].encode()

    def _ending(self, first: Any, tool: ToolSpec) -> tuple[int, ...]:
        """Returns a short body of a call of one tool, as tokens.

        The guess from the schema is tried first: proving it takes a fraction of a millisecond, a
        search several. Raises SchemaFault if no body is found.
        """
        for way in (self.read_off, self.searched):
            found = way(first, tool)
            if found is not None and self.ground.proved(first, found, self.end):
                return tuple(found)
        raise SchemaFault(
            tool.name,
            "",
            "no call was found that fits its schema, is canonical JSON and spells no tag",
        )

    def read_off(self, _: Any, tool: ToolSpec) -> list[int] | None:
        """Returns a short body by the schema, as tokens; None if the schema does not show one.

        The caller must prove that the body fits.
        """

        def size(value: Any) -> int:  # there is nearly always a space before it
            return len(self.ground.search.tokens(f" {canonical(value, self.literals)}".encode()))

        try:
            arguments = minimal_value({**tool.schema, "type": "object"}, size)
            text = body_of(self.kind, tool.name, arguments, self.literals).encode()
        except (Unclear, UnicodeEncodeError):
            return None
        return self.ground.search.tokens(text)

    def searched(self, first: Any, tool: ToolSpec) -> list[int] | None:
        """Returns a short body that a search finds, as tokens; None if it finds none."""
        search, companion, before = self.ground.search, self.ground.lexemes, self._before(tool)
        here, spelled = first.deep_copy(), [search.id_of[b] for b in before]
        at = companion.run(companion.first, spelled)
        ending, _ = search.ending(here, at) if here.consume_tokens(spelled) and at else (None, 0)
        return (
            None
            if ending is None
            else search.tokens(before + self.dialect.tokenizer.decode_bytes(ending))
        )
