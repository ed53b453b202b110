"""Prepares a list of tools for the engine "llguidance": a matcher, and a short call, of each.

A tool of which no call is found is refused here, so that all that is offered later has an ending.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.compile.build_tables import build
from mypt_infer.decode.compile.call_graph import OPENED, around, body_of, check_named
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.nfa import ANY, RESPONSE
from mypt_infer.decode.compile.tables import Tables
from mypt_infer.decode.llguidance.answers import Answer, answer
from mypt_infer.decode.llguidance.grammar import Rule, matcher, rule_of, schema_of
from mypt_infer.decode.llguidance.ground import ground
from mypt_infer.decode.llguidance.minimal_value import Hints, Unclear, minimal_value
from mypt_infer.decode.llguidance.response import Response, ResponseError
from mypt_spec import Dialect
from mypt_spec.bodies.call_tags import NO_JSON
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.memo import Memo
from mypt_spec.table import LISTS


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of some tools.

    `tables` have a hole for each body. By hole: `first` is the matcher there, `endings` is one body
    as tokens. `rules` is by tool. `answer` is the response, if there is one: its hole is RESPONSE.
    `hints` is for calls of any tool. Whoever uses a matcher holds `lock`.
    """

    tables: Tables
    first: dict[int, Any]
    endings: dict[int, tuple[int, ...]]
    rules: tuple[Rule, ...]
    hints: Hints | None = None
    answer: Answer | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


# The most places that the search for a first call looks at, some 40 us each.
_MOST = 20_000
# The bytes of llguidance's grammar of a tool or a response, and more with each letter of it.
_GRAMMAR, _LETTER = 120_000, 100
_calls = Memo[tuple[str, str], Calls](32, room=64 << 20)  # by lists of tools


def calls_of(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    forbidden_blocks: frozenset[str] = frozenset(),
    *,
    response: Response | None = None,
    require_call: bool = False,
    tables: bool = False,
) -> Calls:
    """Returns the calls of some tools; no block of `forbidden_blocks` may open.

    With `response`, the text of the answer is another hole; with `tables`, it is the only one, and
    tables hold the calls. Keeps the calls that were asked for last. Raises SchemaFault for a tool
    that cannot be called, ResponseError for a response that cannot be used.
    """
    grammar = response and response.grammar
    options = (sorted(forbidden_blocks), grammar, require_call, tables)
    key = dialect.fingerprint, repr(([(t.name, t.schema) for t in tools], *options))
    calls = _calls.entries.get(key)
    if calls is None:
        opening = _Opening(dialect)
        if tables:
            calls = Calls(build(dialect, tools, forbidden_blocks, response=True), {}, {}, ())
        else:
            calls = opening.calls(
                tools, forbidden_blocks, response=response is not None, require_call=require_call
            )
        if response is not None:
            calls = answered(dialect, calls, response)
        lengths = {hole: len(ending) for hole, ending in calls.endings.items()}
        calls = replace(calls, tables=calls.tables.with_holes(lengths))
        _calls.keep(key, calls, bytes_of(calls, tools, response))
    return calls


def bytes_of(calls: Calls, tools: Sequence[ToolSpec], response: Response | None) -> int:
    """Returns the bytes that the calls of some tools take, about: tables and grammars."""
    letters = [len(json.dumps(tool.schema)) for tool in tools]
    grammars = [
        (len(response.grammar) if response is not None else 0)
        if hole == RESPONSE
        else (sum(letters) if hole == ANY else letters[hole - 1])
        for hole in calls.first
    ]
    endings = 8 * sum(map(len, calls.endings.values()))
    return calls.tables.nbytes + _GRAMMAR * len(grammars) + _LETTER * sum(grammars) + endings


def answered(dialect: Dialect, calls: Calls, response: Response) -> Calls:
    """Returns calls with a body for the hole of the answer."""
    if RESPONSE not in {hole for hole, _ in calls.tables.holes.values()}:
        raise ResponseError(f"no answer can be written in {dialect.name} with these options")
    ready = answer(dialect, response)
    endings = {**calls.endings, RESPONSE: ready.ending}
    first = {**calls.first, RESPONSE: ready.first}
    return replace(calls, first=first, endings=endings, answer=ready)


class _Opening:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.literals, self.ground = dialect, dialect.table.literals, ground(dialect)
        self.kind, self.end = call_ends(dialect)

    def calls(
        self, tools: Sequence[ToolSpec], forbidden_blocks: frozenset[str], **bound: bool
    ) -> Calls:
        """Returns the calls of some tools; the holes of the tables have no lengths yet."""
        for tool in tools:
            if self.kind in NO_JSON:
                problem = 'the engine "llguidance" writes JSON, and no other arguments'
                raise SchemaFault(tool.name, "", problem)
            check_named(tool, self.kind, self.literals)
        schemas = [schema_of(tool, self.kind) for tool in tools]
        avoided, skip = self.ground.pending.avoided, len(OPENED) * (self.kind in LISTS)
        rules = [
            rule_of(schema, self.hints(schema), avoided, self.dialect, self._before(tool)[skip:])
            for tool, schema in zip(tools, schemas, strict=True)
        ]
        tables = build(self.dialect, tools, forbidden_blocks, holes=True, **bound)
        used = {hole for hole, _ in tables.holes.values()} - {RESPONSE}
        first: dict[int, Any] = {}
        endings: dict[int, tuple[int, ...]] = {}
        if ANY in used:
            first[ANY] = matcher(self.dialect, self.end, self.kind, tools)
        for i, tool in enumerate(tools if used else ()):
            if i + 1 in used:
                first[i + 1] = matcher(self.dialect, self.end, self.kind, [tool])
            endings[i + 1] = self._ending(first.get(i + 1, first.get(ANY)), tool)
        endings[ANY] = min(endings.values(), key=len, default=())
        return Calls(tables, first, endings, tuple(rules), self.hints(*schemas))

    def hints(self, *schemas: Mapping[str, Any]) -> Hints:
        return Hints(schemas, lambda value: canonical(value, self.literals).encode(), self._size)

    def _size(self, value: Any) -> int:  # there is nearly always a space before it
        return len(self.ground.search.tokens(f" {canonical(value, self.literals)}".encode()))

    def _before(self, tool: ToolSpec) -> bytes:
        return around(self.kind, tool.name, self.literals)[0].encode()

    def _ending(self, first: Any, tool: ToolSpec) -> tuple[int, ...]:
        """Returns a short body of a call of one tool, as tokens.

        The guess from the schema is tried first: proving it takes a fraction of a millisecond, a
        search several. Raises SchemaFault if no body is found.
        """
        for way in (self.read_off, self.searched):
            body = way(first, tool)
            if body is not None and self.ground.proved(first, body, self.end):
                return tuple(body)
        problem = "no call was found that fits its schema, is canonical JSON and spells no tag"
        raise SchemaFault(tool.name, "", problem)

    def read_off(self, _: Any, tool: ToolSpec) -> list[int] | None:
        """Returns a short body by the schema, as tokens; None if the schema does not show one.

        The caller must prove that the body fits.
        """
        try:
            arguments = minimal_value({**tool.schema, "type": "object"}, self._size)
            text = body_of(self.kind, tool.name, arguments, self.literals).encode()
        except (Unclear, UnicodeEncodeError):
            return None
        return self.ground.search.tokens(text)

    def searched(self, first: Any, tool: ToolSpec) -> list[int] | None:
        """Returns a short body that a search finds, as tokens; None if it finds none."""
        search, companion, before = self.ground.search, self.ground.lexemes, self._before(tool)
        here, tokens = first.deep_copy(), [search.id_of[b] for b in before]
        at = companion.run(companion.first, tokens)
        if not here.consume_tokens(tokens) or not at:
            return None
        hints = self.hints(tool.schema)
        ending = search.ending(here, at, most=_MOST, hints=hints).tokens
        if ending is None:
            return None
        return search.tokens(before + self.dialect.tokenizer.decode_bytes(ending))
