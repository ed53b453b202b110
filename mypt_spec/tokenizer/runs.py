"""Encodes texts that follow one another as one run, and says which of them each id belongs to.

Input are texts with keys; output are their ids. In Qwen's vocabulary, `}` and a line end after it
are one token, so the texts of a run have other ids than each by itself. A token belongs to the text
in which it begins. Where the tokenizer composes characters, it composes those of the joined texts.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from mypt_spec.tokenizer.tokenizer import Tokenizer

_Key = TypeVar("_Key")


def encode_run(
    run: Sequence[tuple[_Key, str]], tokenizer: Tokenizer
) -> Iterator[tuple[_Key, list[int]]]:
    """Yields (key, ids) for the ids of the joined texts. Neighbours may have one key."""
    if not run:
        return
    if len(run) == 1:
        yield run[0][0], tokenizer.encode(run[0][1])
        return
    texts = [text for _, text in run]
    joined = "".join(texts)
    composed = tokenizer.composed(joined)
    ids, end = tokenizer.encode_as_written(composed), len(composed.encode())
    if composed == joined:
        borders = [0, *accumulate(len(text.encode()) for text in texts[:-1])]
    else:
        stops = accumulate(map(len, texts[:-1]))
        sizes = (len(tokenizer.composed(joined[:stop]).encode()) for stop in stops)
        borders = [0, *accumulate((min(size, end) for size in sizes), max)]
    # Ids are measured from both sides: mostly, all but one of the texts are short.
    length, half = tokenizer.length, end // 2
    starts = [0] * len(run)
    at = which = 0
    for n, border in enumerate(borders):
        if border > half:
            break
        while at < border:
            at += length(ids[which])
            which += 1
        starts[n] = which
    at, which = end, len(ids)
    for n in range(len(run) - 1, 0, -1):
        if borders[n] <= half:
            break
        while which and at - length(ids[which - 1]) >= borders[n]:
            which -= 1
            at -= length(ids[which])
        starts[n] = which
    for (key, _), begin, stop in zip(run, starts, [*starts[1:], len(ids)], strict=True):
        if begin < stop:
            yield key, ids[begin:stop]
