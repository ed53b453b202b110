"""Family 5, tokens and shards: finds episodes that train nothing, or are too long."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.encoder import encode_events, weights_of
from mypt_spec.findings import Finding
from mypt_spec.rules.context import Context
from mypt_spec.rules.registry import check


@check("MYP501")
def no_trained_token(context: Context) -> Iterator[Finding]:
    """Finds an episode of which nothing is trained."""
    if context.is_prompt:  # which says more
        return
    terminals = context.table.terminals
    weights = weights_of(context.episode.messages, context.table)
    weighed = zip(context.events, weights or [1.0] * len(context.events), strict=True)
    roles = {event.terminal for event, weight in weighed if weight}
    if not any(
        t.loss or t.body_loss for name, t in terminals.items() if name in roles and not t.closes
    ):
        yield Finding(
            "MYP501",
            "no token of this episode is trained: the model has nothing to learn from it",
            help="give an answer a weight above 0, or drop the record"
            if weights
            else "give it an answer, or leave it out",
        )


@check("MYP502")
def too_many_tokens(context: Context) -> Iterator[Finding]:
    """Finds an episode that is longer than the limit in tokens."""
    limit = context.limits.max_tokens
    if limit is None:
        return
    try:
        length = len(encode_events(context.events, context.table, context.tokenizer))
    except ValueError:  # a lone surrogate, which has its own finding
        return
    if length > limit:
        message = f"the episode has {length} tokens, the limit is {limit}"
        yield Finding(
            "MYP502", message, help="split it after a complete turn, or raise --max-tokens"
        )


@check("MYP514")
def character_without_token(context: Context) -> Iterator[Finding]:
    """Finds characters that the vocabulary has no token for; the first of each text."""
    for event in context.events if context.tokenizer.lacks else ():
        places = context.tokenizer.unspelled(event.text)
        if places:
            at, suffix = places[0], f" (and {len(places) - 1} more)" if len(places) > 1 else ""
            base = event.at.span[0] if event.at.span else 0
            yield Finding(
                "MYP514",
                f"the vocabulary has no token for U+{ord(event.text[at]):04X}{suffix}",
                event.at.pointer,
                (base + at, base + at + 1),
                help="remove the character, or use another vocabulary",
            )
