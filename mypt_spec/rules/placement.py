"""Family 2, placement: finds misplacements that the grammar takes.

Most of this family the grammar refuses; validator.py finds that.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.findings import Finding
from mypt_spec.rules.context import Context
from mypt_spec.rules.registry import check


@check("MYP252")
def prompt_only(context: Context) -> Iterator[Finding]:
    """Finds a conversation that ends before an answer."""
    if context.is_prompt:
        event = context.events[-1]
        text = "the conversation ends before an answer: this is a prompt, for online training"
        yield Finding(
            "MYP252",
            text,
            event.at.pointer,
            event.at.span,
            help="for supervised training, add the answer",
        )
