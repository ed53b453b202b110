"""Reads how much each event of messages is trained.

Input: the messages of an Episode, whose metadata may have a weight. Output: weights of events.
"""

from __future__ import annotations

from collections.abc import Sequence

from mypt_spec.episode import Message, blocks_of
from mypt_spec.record_schema import WEIGHT
from mypt_spec.table import TokenTable


def weights_of(messages: Sequence[Message], table: TokenTable) -> list[float] | None:
    """Returns the weight of each event of messages; None where no message has one.

    Blocks that were read from one message of a record share its weight, as do the marks after it.
    """
    weights = [message.meta.get(WEIGHT) for message in messages]
    if not any(weight is not None for weight in weights):
        return None
    sources = [m.at.pointer.rpartition("/")[0] for m in messages]
    both = zip(sources, weights, strict=True)
    by_source = {source: w for source, w in both if source and w is not None}
    out: list[float] = []
    before = 1.0
    for message, source, weight, events in zip(
        messages, sources, weights, blocks_of(messages, table), strict=True
    ):
        if weight is None:
            weight = by_source.get(source, before if message.role in table.marks else 1.0)
        before = float(weight)
        out += [before] * len(events)
    return out
