"""Holds compiled tools, which a decoder takes in place of tools and a file can keep."""

from __future__ import annotations

from dataclasses import dataclass

from mypt_infer.decode.base.tools import ToolSpec
from mypt_infer.decode.compile.tables import Tables
from mypt_infer.decode.engine import Engine, TableEngine
from mypt_infer.decode.engines import distinct
from mypt_spec import Dialect


class SavedToolsError(ValueError):
    """A file holds no compiled tools, or those of another dialect, vocabulary or version."""


@dataclass(frozen=True, eq=False)
class CompiledTools:
    """Tools, and the tables that hold them. `fingerprint` is that of the dialect."""

    fingerprint: str
    tools: tuple[ToolSpec, ...]
    forbidden_blocks: frozenset[str]
    tables: Tables

    def engine(self, dialect: Dialect) -> Engine:
        """Returns the engine of these tools. Raises SavedToolsError for another dialect."""
        if dialect.fingerprint != self.fingerprint:
            raise SavedToolsError(
                f"these tools were compiled for another grammar or vocabulary than this one of "
                f"{dialect.name}: compile them again"
            )
        return distinct(TableEngine(self.tables), dialect, self.tools)
