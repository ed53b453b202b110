"""Builds checkers and converters from settings, the same way for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_lint.check.baseline import Key
from mypt_lint.check.checker import Checker
from mypt_lint.settings.selection import selection
from mypt_lint.settings.settings import Settings
from mypt_records.names import FOUND
from mypt_spec.dialect import Dialect
from mypt_spec.findings import RULES
from mypt_spec.rules.context import ToolSchema

if TYPE_CHECKING:
    from mypt_convert.engine import Converter


def hidden(own: Settings) -> frozenset[str]:
    """Returns the codes that settings ignore, or do not call errors."""
    milder = {code for code, severity in own["severity"] or () if severity != "error"}
    return frozenset(RULES) - selection(None, own["ignore"]) | milder


def checker(
    own: Settings,
    dialect: Dialect,
    *,
    others: tuple[Dialect, ...] = (),
    misnamed: bool = False,
    known: frozenset[Key] | None = None,
    edits: bool = False,
    with_fixes: bool = True,
    formatless: bool = False,
) -> Checker:
    """Returns the checker for some settings, for every command alike.

    Raises UsageError for a phase that the dialect lacks.
    """
    phases = len(dialect.table.phases)
    if own["phase"] is not None and not 1 <= own["phase"] <= phases:
        has = f"has phases 1 to {phases}" if phases else "has no phases"
        raise UsageError(f"--phase {own['phase']}: {dialect.name} {has}")
    tools = own["tools"] or ()
    schemas = tuple(ToolSchema(*tool) for tool in tools if tool[1] or tool[2])
    limits = mypt_spec.Limits(
        own["phase"], own["max-tokens"], frozenset(tool[0] for tool in tools), schemas
    )
    if own["max-tokens"]:
        dialect.tokenizer.encode("")  # raises now for a missing vocabulary, not at the first line
    return Checker(
        dialect,
        limits,
        selection(own["select"], own["ignore"]),
        others,
        misnamed=misnamed,
        known=known,
        severities=own["severity"] or (),
        edits=edits,
        with_fixes=with_fixes,
        system=own["system"],
        shape=own["records"] if own["records"] in FOUND else "",
        formatless=formatless,
        allowed=frozenset(own["metadata"] or ()),
        mask=own["mask"] or "model",
    )


def converter(own: Settings, source: str, target: str) -> Converter:
    """Returns a converter that judges as the linter does: what lints clean is converted.

    Raises KeyError for a format that is not known, and UsageError as `checker` does.
    """
    from mypt_convert.engine import Converter  # not loaded at every start
    from mypt_records.shapes import SHAPES

    # Phases and lengths are of the dialect that the settings were written for.
    not_here = ("phase", "max-tokens", "records", "system")
    elsewhere = Settings(tuple(pair for pair in own.values if pair[0] not in not_here), ())
    to = mypt_spec.dialect(target)
    return Converter(
        source,
        target,
        system=own["system"],
        judge=checker(elsewhere, to, with_fixes=False),
        source_judge=None
        if source in SHAPES
        else checker(own, mypt_spec.dialect(source), with_fixes=False),
        counting=own.counting,
    )
