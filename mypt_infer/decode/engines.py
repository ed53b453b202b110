"""Picks the engine that reads the bodies of calls, by its name or by what it can hold.

Input: a dialect, tools and a name. Output: an Engine. "table" holds everything in tables;
"llguidance" reads the bodies of calls whose schemas no table can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.schemas import has_free_object, letters_of_values
from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.nfa import NO_BLOCK
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables, build
from mypt_infer.decode.engine import (
    Engine,
    Options,
    StateFacts,
    TableEngine,
    table_facts,
    table_options,
)
from mypt_infer.decode.llguidance.grammar import EngineError, installed
from mypt_infer.decode.llguidance.response import Response
from mypt_spec import Dialect
from mypt_spec.episode import Event
from mypt_spec.table import LISTS

ENGINES = ("table", "llguidance", "auto")
# Tables take a second for as many letters of values in lists; llguidance a tenth of that.
_LETTERS = 20_000


class LlguidanceEngine:
    """Answers from tables that have a hole for each body, and asks llguidance inside the holes."""

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[ToolSpec],
        forbidden_blocks: frozenset[str] = frozenset(),
        *,
        response: Response | None = None,
        tables: bool = False,
    ) -> None:
        """Fills the holes of calls, or with `tables` only that of the answer."""
        from mypt_infer.decode.llguidance.engine import Guided

        self.guided = Guided(dialect, tools, forbidden_blocks, response=response, tables=tables)
        self.tables, self.tables_only = self.guided.tables, False

    @property
    def nbytes(self) -> int:
        return self.tables.nbytes + self.guided.nbytes

    def next(self, state: int, token: int) -> int:
        if state < self.tables.size:
            then = self.tables.next(state, token)
        else:
            hole = self.guided.beside(state)
            then = self.tables.next(hole, token) if hole is not None else DEAD_STATE
            if then == DEAD_STATE:
                return self.guided.next(state, token)
        return self.guided.enter(then) if then in self.tables.holes else then

    def begin(self, state: int, events: Sequence[Event]) -> int:
        return self.guided.enter(state) if state in self.tables.holes else state

    def allow(self, state: int) -> Options:
        if state < self.tables.size:
            return table_options(self.tables, state)
        offered = self.guided.offered(state)
        return self._inside(state, offered.ids, offered.least)

    def proved_options(self, state: int, *, proved: bool = True) -> Options:
        if state < self.tables.size:
            return table_options(self.tables, state)
        if not proved:
            return self._inside(state, *self.guided.offered_ids(state))
        proved_ids = self.guided.proved(state)
        return self._inside(state, proved_ids.ids, proved_ids.least)

    def free(self, state: int) -> tuple[int, int, AllowSet] | None:
        if state < self.tables.size or self.guided.beside(state) is not None:
            return None
        offered, after = self.guided.offered(state), self.guided.after(state)
        tables = self.tables
        inside = offered.most + int(tables.to_close[after])
        if tables.block[self.guided.hole(state)] == NO_BLOCK:
            inside = 0
        return offered.most + int(tables.distance[after]), inside, offered.set

    def inner(self, state: int) -> int | None:
        return state if state < self.tables.size else None

    def forced_bytes(self, state: int, *, beside: bool = False) -> tuple[bytes, bytes]:
        if state < self.tables.size or (not beside and self.guided.beside(state) is not None):
            return b"", b""
        return self.guided.forced_bytes(state)

    def is_certain(self, state: int) -> bool:
        return state < self.tables.size or self.guided.is_certain(state)

    def _inside(self, state: int, ids: Ints, least: Ints) -> Options:
        tables, after, hole = self.tables, self.guided.after(state), self.guided.hole(state)
        block = np.full(len(ids), tables.block[hole], dtype=np.int32)
        options = Options(
            ids, block, least + tables.distance[after], least + tables.to_close[after]
        )
        if self.guided.beside(state) is None:
            return options
        both = [
            np.concatenate(pair) for pair in zip(options, table_options(tables, hole), strict=True)
        ]
        return Options(*(part[np.argsort(both[0])] for part in both))

    def state_facts(self, state: int) -> StateFacts:
        if state < self.tables.size:
            return table_facts(self.tables, state)
        least, after = self.guided.minimum(state), self.guided.after(state)
        tables, hole = self.tables, self.guided.hole(state)
        if self.guided.beside(state) is not None:
            return table_facts(tables, hole)._replace(final=False)
        return StateFacts(
            int(tables.block[hole]),
            False,
            least + int(tables.distance[after]),
            least + int(tables.to_close[after]),
        )

    def on_forgetting(self, listener: Callable[[set[int]], None]) -> None:
        self.guided.places.on_forgetting(listener)

    def hold_used(self, used: Callable[[], Iterable[int]]) -> None:
        self.guided.places.hold_used(used)

    def only(self, tool: int) -> Tables:
        least = self.guided.least_of(tool)
        return self.tables.with_holes(dict.fromkeys(self.guided.endings, least))


def engine_of(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    name: str,
    forbidden_blocks: frozenset[str] = frozenset(),
    response: Response | None = None,
) -> Engine:
    """Returns the engine of that name; if calls have ids, the engine keeps them distinct.

    "auto" is the tables, or llguidance if a schema is beyond them, has very many values, or has an
    object whose members it does not name: tables write such an object as {}. Raises SchemaFault for
    tools that the engine cannot hold, EngineError for one that is unknown or not installed.
    """
    return distinct(_reader(dialect, tools, name, forbidden_blocks, response), dialect, tools)


def distinct(engine: Engine, dialect: Dialect, tools: Sequence[ToolSpec]) -> Engine:
    """Returns an engine that also keeps the ids of calls distinct, if calls have ids."""
    if not tools or call_ends(dialect)[0] not in LISTS:
        return engine
    from mypt_infer.decode.call_ids import Distinct

    return Distinct(engine, dialect)


def _for_llguidance(tool: ToolSpec) -> bool:
    """Returns whether llguidance reads a tool better: it has free objects, or very many values."""
    return has_free_object(tool.schema) or letters_of_values(tool.schema) > _LETTERS


def _reader(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    name: str,
    forbidden_blocks: frozenset[str] = frozenset(),
    response: Response | None = None,
) -> Engine:
    """Returns the engine of that name, without care for the ids of calls."""
    if name not in ENGINES:
        raise EngineError(f"no engine {name!r}; known are {', '.join(ENGINES)}")
    if response is not None and not installed():
        raise EngineError(
            "a response is read by llguidance, which is not installed: "
            "pip install 'mypt-tags[llguidance]'"
        )
    guided = partial(LlguidanceEngine, dialect, tools, forbidden_blocks, response=response)
    if name == "llguidance":
        return guided(tables=False)
    if name == "auto" and any(map(_for_llguidance, tools)) and installed():
        with suppress(SchemaFault):  # else the tables, which write such an object as {}
            return guided(tables=False)
    try:
        if response is not None:
            return guided(tables=True)
        return TableEngine(build(dialect, tools, forbidden_blocks=forbidden_blocks))
    except SchemaFault as fault:
        if name == "table":
            raise
        try:
            return guided(tables=False)
        except SchemaFault as other:
            if other.tool != fault.tool:
                raise  # the tables' reason is another tool's, which llguidance reads
            both = f"{fault.reason}; and {other.reason}"
            reason = both if other.reason != fault.reason else fault.reason
            raise SchemaFault(fault.tool, fault.pointer, reason) from None
