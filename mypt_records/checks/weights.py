"""Finds weights of messages that APIs for fine-tuning refuse."""

from collections.abc import Iterator

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_spec.findings import Finding


@check("MYP133")
def partial_weight(chat: Chat) -> Iterator[Finding]:
    """Finds a `weight` other than 0 and 1: the first of a record."""
    for message in chat.messages:
        weight = message.weight
        if weight is not None and weight.at.endswith("/weight") and weight.value not in (0, 1):
            text = "a weight other than 0 and 1"
            hint = "mypt-prepare takes it; OpenAI and Mistral refuse it"
            yield Finding("MYP133", text, weight.at, help=hint)
            return
