"""Family 5, tokens and shards."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.encode import encode_events
from mypt_spec.findings import Finding, rule
from mypt_spec.rules.context import Context


@rule("MYP501", "no-trained-token")
def no_trained_token(context: Context) -> Iterator[Finding]:
    """Nothing in an episode is trained."""
    terminals = context.table.terminals
    roles = {e.terminal for e in context.events}
    if not any(t.loss for name, t in terminals.items() if name in roles and not t.closes):
        yield Finding("MYP501", "no token of this episode is trained: the model has nothing to learn from it")


@rule("MYP502", "too-many-tokens")
def too_many_tokens(context: Context) -> Iterator[Finding]:
    """An episode is longer than the limit in tokens."""
    limit = context.limits.max_tokens
    if limit is None:
        return
    try:
        length = len(encode_events(context.events, context.table, context.tokenizer))
    except ValueError:  # a lone surrogate, which has its own finding
        return
    if length > limit:
        message = f"the episode has {length} tokens, the limit is {limit}"
        yield Finding("MYP502", message, help="split it after a complete turn, or raise --max-tokens")


@rule("MYP503", "meaningless-id")
class MeaninglessId:
    """A token id that means nothing in the format."""


@rule("MYP504", "split-character")
class SplitCharacter:
    """A run of ordinary ids that is not UTF-8."""
