"""The engines that read the bodies of calls, behind one small interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mypt_infer.decode.guidance import EngineError
from mypt_infer.decode.tables import Tables, build
from mypt_infer.decode.tools import SchemaFault, ToolSpec
from mypt_infer.decode.vocab import Ints
from mypt_spec import Dialect

ENGINES = ("table", "llguidance", "auto")


class Engine(Protocol):
    """What the decoder asks. A state below `tables.size` is the tables'; the others, all of them inside calls, are the engine's.

    `whole`: there are no others.
    """

    whole: bool

    @property
    def tables(self) -> Tables: ...

    def next(self, state: int, token: int) -> int:
        """The state behind a token, 0 where it is refused."""

    def allow(self, state: int) -> tuple[Ints, Ints, Ints]:
        """Of a state of the engine's own: the ids that may follow, sorted, and the `about` of the states behind them."""

    def about(self, state: int) -> tuple[int, int]:
        """Of a state of the engine's own: tokens to the nearest legal ending, and to the end of the block."""

    def only(self, tool: int) -> Tables:
        """The tables with this tool alone, where distances depend on it."""


class TableEngine:
    """Everything is in the tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.whole = tables, True
        self.next = tables.next

    def allow(self, state: int) -> tuple[Ints, Ints, Ints]:
        raise IndexError(f"no state {state}")

    def about(self, state: int) -> tuple[int, int]:
        raise IndexError(f"no state {state}")

    def only(self, tool: int) -> Tables:
        return self.tables


class GuidedEngine:
    """The tables have a hole for each body; what stands there llguidance reads."""

    def __init__(
        self, dialect: Dialect, tools: Sequence[ToolSpec], barred: frozenset[str] = frozenset()
    ) -> None:
        from mypt_infer.decode.guided import Guided

        self.guided = Guided(dialect, tools, barred)
        self.tables, self.whole = self.guided.tables, False

    def next(self, state: int, token: int) -> int:
        if state >= self.tables.size:
            return self.guided.next(state, token)
        then = self.tables.next(state, token)
        return self.guided.enter(then) if then in self.tables.holes else then

    def allow(self, state: int) -> tuple[Ints, Ints, Ints]:
        options, behind = self.guided.options(state), self.guided.behind(state)
        return (
            options.ids,
            options.least + self.tables.distance[behind],
            options.least + self.tables.to_close[behind],
        )

    def about(self, state: int) -> tuple[int, int]:
        least, behind = self.guided.minimum(state), self.guided.behind(state)
        return least + int(self.tables.distance[behind]), least + int(self.tables.to_close[behind])

    def only(self, tool: int) -> Tables:
        return self.tables.with_holes([self.guided.least_of(tool)] * (1 + len(self.guided.first)))


def engine_of(
    dialect: Dialect, tools: Sequence[ToolSpec], name: str, barred: frozenset[str] = frozenset()
) -> Engine:
    """The engine of that name; "auto" is the tables, or llguidance where a schema is beyond them. `barred` kinds of block are not opened.

    Raises SchemaFault for tools that it cannot hold, EngineError when it is not known or not installed.
    """
    if name not in ENGINES:
        raise EngineError(f"no engine {name!r}; known are {', '.join(ENGINES)}")
    if name == "llguidance":
        return GuidedEngine(dialect, tools, barred)
    try:
        return TableEngine(build(dialect, tools, barred=barred))
    except SchemaFault as fault:
        if name == "table":
            raise
        try:
            return GuidedEngine(dialect, tools, barred)
        except SchemaFault as other:
            raise SchemaFault(
                fault.tool, fault.pointer, f"{fault.reason}; and {other.reason}"
            ) from None
