"""Describes a derived format in plain English, with what is proved of it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from mypt_lint.derive.folder import blocks_of
from mypt_lint.derive.proof import Level
from mypt_lint.derive.shape import IDENT, NAME, Shape


def spec(name: str, shape: Shape, levels: Sequence[Level]) -> str:
    """Returns the text of a SPEC.md, which `spec.jinja` writes."""
    import jinja2

    sandbox = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    sandbox.filters |= {"code": _code, "cell": _cell}
    page = sandbox.from_string(Path(__file__).with_suffix(".jinja").read_text(encoding="utf-8"))
    table = "\n".join(levels_table(levels, shape))
    return page.render(name=name, s=shape, blocks=blocks_of(shape), levels=table)


def levels_table(levels: Sequence[Level], shape: Shape | None) -> Iterator[str]:
    """Yields the lines of a Markdown table of what is proved."""
    yield "| level | proved | equal conversations | refused or different |"
    yield "| --- | --- | --- | --- |"
    for level in levels:
        proved = "yes" if level.is_complete else "in part" if level.is_proved else "no"
        yield _row(level.name, proved, f"{level.equal} of {level.count}", level.reason)
    if shape is not None and (shape.options or shape.lacks):
        proved = "no" if not shape.options else "in part" if shape.lacks else "yes"
        values = (f"{n}: {json.dumps(row['values'])[1:-1]}" for n, row in shape.options.items())
        lacks = f"the format has no {', '.join(shape.lacks)}" if shape.lacks else ""
        yield _row("options", proved, "; ".join(values), lacks)


def _code(text: str) -> str:
    text = text.replace(NAME, "NAME").replace(IDENT, "ID")
    return f"`` {json.dumps(text, ensure_ascii=False)[1:-1]} ``"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"
