"""Prints findings in one of several formats, one module each, loaded only when asked for.

A format is a module of `formats/`, named as the user names it, with a class `Report`: `finding`
takes findings in the order given, and `finish` the summary after the last one.
"""

import importlib
from typing import Any, TextIO

FORMATS: tuple[str, ...] = (
    "text",
    "concise",
    "json",
    "jsonl",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "summary",
    "html",
)


def renderer(name: str, stream: TextIO, **options: Any) -> Any:
    """Returns the format called `name`, which writes to `stream`.

    `text` has the options `color` and `width`; None lets the stream decide (no colour and 100 cells
    off a terminal). Raises ValueError for an unknown format.
    """
    if name not in FORMATS:
        raise ValueError(f"no format is called {name!r}; expected one of {', '.join(FORMATS)}")
    return importlib.import_module(f"{__name__}.formats.{name}").Report(stream, **options)
