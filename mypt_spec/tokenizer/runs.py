"""Encodes texts that follow one another as one run, and says which of them each id belongs to.

Input are numbered texts; output are their ids. In Qwen's vocabulary, `}` and a line end after it
are one token, so the texts of a run have other ids than each by itself. A token belongs to the text
in which it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mypt_spec.tokenizer.tokenizer import Tokenizer


def encode_run(run: Sequence[tuple[int, str]], tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Yields (number, id) for the ids of the joined texts. Neighbours may have one number."""
    ids = tokenizer.encode("".join(text for _, text in run)) if run else []
    if ids and run[0][0] == run[-1][0]:
        for i in ids:
            yield run[0][0], i
        return
    ends, end = [], 0
    for _, text in run:
        end += len(text.encode())
        ends.append(end)
    at = which = 0
    for i in ids:
        while ends[which] <= at:
            which += 1
        yield run[which][0], i
        at += tokenizer.length(i)
