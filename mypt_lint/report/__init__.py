"""Prints findings in one of several formats, one module each, loaded only when asked for.

A format is a module of `formats/`, named as the user names it, with a class `Report`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, TextIO, cast

if TYPE_CHECKING:
    from mypt_lint.check.diagnostic import Diagnostic, Summary

FORMATS: tuple[str, ...] = (
    "text",
    "concise",
    "grouped",
    "json",
    "jsonl",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "summary",
)


class Renderer(Protocol):
    """Writes findings as they come, in the order given, and an end after the last one."""

    def finding(self, diagnostic: Diagnostic) -> None: ...

    def finish(self, summary: Summary) -> None: ...


def renderer(
    name: str, stream: TextIO, *, color: bool | None = None, width: int | None = None
) -> Renderer:
    """Returns the format called `name`, which writes to `stream`.

    `color` and `width` matter to `text` only; None lets the stream decide (no colour and 100 cells
    off a terminal). Raises ValueError for an unknown format.
    """
    if name not in FORMATS:
        raise ValueError(f"no format is called {name!r}; expected one of {', '.join(FORMATS)}")
    report = importlib.import_module(f"{__name__}.formats.{name}").Report
    result = report(stream, color=color, width=width) if name == "text" else report(stream)
    return cast(Renderer, result)
