"""Makes the engine for declared tools, and says which of them it reads.

Input: tools as a caller declares them. Output: `Readable`, the tools that calls can name and their
engine. A list comes from many servers; here is decided what one bad tool means for the others.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mypt_infer.decode.base.schemas import plain_tools, warn_of
from mypt_infer.decode.base.tools import Declaration, SchemaFault, ToolSpec, declare
from mypt_infer.decode.engine import Engine
from mypt_infer.decode.engines import engine_of
from mypt_infer.decode.llguidance.response import Response
from mypt_spec import Dialect


class Skipped(NamedTuple):
    """A tool that was left out, and why."""

    name: str
    reason: str


class Readable(NamedTuple):
    """The tools that calls can name, as declared; the engine that reads them; those left out."""

    tools: tuple[ToolSpec, ...]
    engine: Engine
    skipped: tuple[Skipped, ...]


def readable(
    dialect: Dialect,
    tools: Iterable[Declaration],
    engine: str,
    forbidden_blocks: frozenset[str],
    *,
    strict: bool = False,
    skip_unreadable: bool = False,
    response: Response | None = None,
    require_call: bool = False,
) -> Readable:
    """Returns the tools that an engine reads.

    Warns once, with SchemaWarning, of keywords that were read as nothing and of types of other
    languages. Raises SchemaFault for a tool that cannot be read, unless `skip_unreadable`; with
    `strict`, also for such keywords and types.
    """
    skipped: list[Skipped] = []
    specs = _declared(tools, skipped, strict=strict) if skip_unreadable else declare(tools)
    plain, notes = plain_tools(specs, strict=strict)
    while True:
        try:
            tool_engine = engine_of(
                dialect, plain, engine, forbidden_blocks, response, require_call
            )
            break
        except SchemaFault as fault:
            at = [t.name for t in plain].index(fault.tool) if skip_unreadable else -1
            if at < 0:
                raise
            skipped.append(Skipped(fault.tool, str(fault)))
            specs, plain = specs[:at] + specs[at + 1 :], plain[:at] + plain[at + 1 :]
    warn_of(notes, "the schemas of tools")
    return Readable(specs, tool_engine, tuple(skipped))


def _declared(
    tools: Iterable[Declaration], skipped: list[Skipped], *, strict: bool
) -> tuple[ToolSpec, ...]:
    """Returns the tools that can be declared, and adds the others to `skipped`."""
    declare(tools if isinstance(tools, str | bytes | dict) or callable(tools) else ())
    out: list[ToolSpec] = []
    for tool in tools:
        try:
            one = declare([*out, tool])[-1:]
            plain_tools(one, strict=strict)
        except SchemaFault as fault:
            skipped.append(Skipped(fault.tool, str(fault)))
        else:
            out += one
    return tuple(out)
