"""Family 8, damage: finds tags of plain text that a stop cut short, or tore in two.

Nothing is repaired here; damage/cut_tags.py recognises them, and most are found by the parser.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.damage.cut_tags import fragment
from mypt_spec.findings import Finding
from mypt_spec.rules.context import Context
from mypt_spec.rules.registry import check


@check("MYP801")
def truncated_tag(context: Context) -> Iterator[Finding]:
    """Finds pieces of tags of plain text in content."""
    for run in context.texts:
        piece = fragment(run.event.text, context.inner_tags) if run.body == "text" else None
        while piece is not None:
            start, end, tag = piece
            base = run.event.at.span[0] if run.event.at.span else 0
            text = f"`{run.event.text[start:end]}` looks like a piece of `{tag}`"
            yield Finding(
                "MYP801",
                text,
                run.event.at.pointer,
                (base + start, base + end),
                help=f"write `{tag}` where the block ends, or remove it",
            )
            piece = fragment(run.event.text, context.inner_tags, end)
