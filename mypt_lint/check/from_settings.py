"""Builds checkers and converters from settings, the same way for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_lint.check.baseline import Key
from mypt_lint.check.checker import Checker
from mypt_lint.settings.selection import selection
from mypt_lint.settings.settings import Settings
from mypt_records.names import DETECTABLE
from mypt_spec.dialect import Dialect
from mypt_spec.findings import RULES
from mypt_spec.rules.context import ToolSchema

if TYPE_CHECKING:
    from mypt_convert.engine import Converter


def hidden(settings: Settings) -> frozenset[str]:
    """Returns the codes that settings ignore, or do not call errors."""
    milder = {code for code, severity in settings["severity"] or () if severity != "error"}
    return frozenset(RULES) - selection(None, settings["ignore"]) | milder


def checker(
    settings: Settings,
    dialect: Dialect,
    *,
    others: tuple[Dialect, ...] = (),
    misnamed: bool = False,
    baseline: frozenset[Key] | None = None,
    edits: bool = False,
    with_fixes: bool = True,
    formatless: bool = False,
) -> Checker:
    """Returns the checker for some settings, for every command alike.

    Raises UsageError for a phase that the dialect lacks.
    """
    phases = len(dialect.table.phases)
    if settings["phase"] is not None and not 1 <= settings["phase"] <= phases:
        has = f"has phases 1 to {phases}" if phases else "has no phases"
        raise UsageError(f"--phase {settings['phase']}: {dialect.name} {has}")
    tools = settings["tools"] or ()
    schemas = tuple(ToolSchema(*tool) for tool in tools if tool[1] or tool[2])
    limits = mypt_spec.Limits(
        settings["phase"], settings["max-tokens"], frozenset(tool[0] for tool in tools), schemas
    )
    if settings["max-tokens"]:
        dialect.tokenizer.encode("")  # raises now for a missing vocabulary, not at the first line
    return Checker(
        dialect,
        limits,
        selection(settings["select"], settings["ignore"]),
        others,
        misnamed=misnamed,
        baseline=baseline,
        severities=settings["severity"] or (),
        edits=edits,
        with_fixes=with_fixes,
        system=settings["system"],
        shape=settings["records"] if settings["records"] in DETECTABLE else "",
        formatless=formatless,
        allowed=frozenset(settings["metadata"] or ()),
        mask=settings["mask"] or "model",
    )


def source_judge(settings: Settings, source: str) -> Checker | None:
    """Returns the checker of records to convert; None for a shape, which has no dialect."""
    if source in DETECTABLE:
        return None
    return checker(settings, mypt_spec.dialect(source), with_fixes=False)


def converter(settings: Settings, source: str, target: str) -> Converter:
    """Returns a converter that judges as the linter does: what lints clean is converted.

    Raises KeyError for a format that is not known, and UsageError as `checker` does.
    """
    from mypt_convert.engine import Converter  # not loaded at every start

    # Phases and lengths are of the dialect that the settings were written for.
    not_here = ("phase", "max-tokens", "records", "system")
    elsewhere = Settings(tuple(pair for pair in settings.values if pair[0] not in not_here), ())
    to = mypt_spec.dialect(target)
    return Converter(
        source,
        target,
        system=settings["system"],
        judge=checker(elsewhere, to, with_fixes=False),
        source_judge=source_judge(settings, source),
        counting=settings.counting,
    )
