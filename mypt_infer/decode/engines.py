"""Picks the engine that reads the bodies of calls, by its name or by what it can hold.

Input: a dialect, tools and a name. Output: an Engine. "table" holds everything in tables;
"llguidance" reads the bodies of calls whose schemas no table can hold.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from mypt_infer.decode.base.schemas import has_free_object, letters_of_values
from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.compile.build_tables import build
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.engine import Engine
from mypt_infer.decode.llguidance.grammar import EngineError
from mypt_infer.decode.llguidance.response import Response
from mypt_spec import Dialect
from mypt_spec.bodies.json_body import counting
from mypt_spec.table import WITH_IDS

ENGINES = ("table", "llguidance", "auto")
# Tables take a second for as many letters of values in lists; llguidance a tenth of that.
_LETTERS = 20_000


def engine_of(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    name: str,
    forbidden_blocks: frozenset[str] = frozenset(),
    response: Response | None = None,
    require_call: bool = False,
) -> Engine:
    """Returns the engine of that name; if calls have ids, the engine keeps them distinct.

    "auto" is the tables, or llguidance if a schema is beyond them, has very many values, or has an
    object whose members it does not name: tables write such an object as {}. Raises SchemaFault for
    tools that the engine cannot hold, EngineError for one that is unknown or not installed.
    """
    engine = _reader(dialect, tools, name, forbidden_blocks, response, require_call)
    if not (tools and (counting(dialect.table) or call_ends(dialect)[0] in WITH_IDS)):
        return engine
    from mypt_infer.decode.call_ids import Distinct

    return Distinct(engine, dialect)


def _reader(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    name: str,
    forbidden_blocks: frozenset[str],
    response: Response | None,
    require_call: bool,
) -> Engine:
    """Returns the engine of that name, without care for the ids of calls."""
    if name not in ENGINES:
        raise EngineError(f"no engine {name!r}; known are {', '.join(ENGINES)}")
    from mypt_infer.decode.guided import Guided

    guided = partial(
        Guided, dialect, tools, forbidden_blocks, response=response, require_call=require_call
    )
    if name == "llguidance":
        return guided(tables=False)
    hard = (has_free_object(t.schema) or letters_of_values(t.schema) > _LETTERS for t in tools)
    if name == "auto" and any(hard):
        # Else the tables, which write such an object as {}.
        with suppress(SchemaFault, EngineError):
            return guided(tables=False)
    try:
        if response is not None:
            return guided(tables=True)
        return Engine(build(dialect, tools, forbidden_blocks, require_call=require_call))
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
