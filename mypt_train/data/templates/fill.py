"""Encodes the texts of many templates at once, and puts them between their constant tokens.

Input: templates, each with values for its slots. Output: the tokens of each, and how these are
trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_spec.tokenizer.tokenizer import Tokenizer
from mypt_train.data.formats.manifest import TokenIds
from mypt_train.data.shard import SFT
from mypt_train.data.templates.template import Template


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode as tokens.

    - `ids`: uint16 or uint32, see `manifest.dtype_of`, shape (n,). `mask`: uint8, shape (n,), 1
      where the token is a target.
    - `kind`: what the episode is for, as in `shard`.
    - `weights`: float32, shape (n,), how much each token is trained; None if each is 0 or 1.
      `weighed`: whether a message that the mask trains has another weight than 1.
    """

    ids: TokenIds
    mask: npt.NDArray[np.uint8]
    kind: int = SFT
    weights: npt.NDArray[np.float32] | None = None
    weighed: bool = False

    @property
    def digest(self) -> bytes:
        """Returns 16 bytes that are equal for equal ids."""
        ids = self.ids.astype(self.ids.dtype.newbyteorder("<"), copy=False)
        return hashlib.blake2b(ids.data, digest_size=16).digest()


def filled(
    pairs: Sequence[tuple[Template, list[Any]]], tokenizer: Tokenizer, dtype: np.dtype[Any]
) -> Iterator[Sample]:
    """Yields the tokens of templates whose free values are known; equal texts are encoded once.

    Their arrays are parts of larger ones. The first token of each is never a target, because no
    token before it could predict it.
    """
    if not pairs:
        return
    texts = [text for template, values in pairs for text in template.spell(values)]
    numbers: dict[str, int] = {}
    which = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    every_id, lengths = tokenizer.encode_batch(list(numbers))
    starts = np.cumsum(lengths) - lengths
    runs = [template.lengths for template, _ in pairs]
    sizes = np.concatenate(runs)
    is_text, leads = sizes == 0, np.flatnonzero(sizes < 0)
    sizes[is_text] = lengths[which]
    if len(leads):
        led = which[np.cumsum(is_text)[leads + 1] - 1]
        begun = [
            _begun(every_id[start : start + length], lead, tokenizer)
            for start, length, lead in zip(starts[led], lengths[led], -sizes[leads], strict=True)
        ]
        sizes[leads] = begun
        sizes[leads + 1] -= begun
        is_text[leads] = True
    places = np.repeat(is_text, sizes)
    mask = np.repeat(np.concatenate([template.loss for template, _ in pairs]), sizes)
    tokens = np.empty(len(mask), dtype)
    tokens[~places] = np.concatenate([template.ids for template, _ in pairs])
    tokens[places] = every_id[_ranges(starts[which], lengths[which])]
    bounds = np.cumsum(np.add.reduceat(sizes, np.cumsum([0, *map(len, runs[:-1])])))
    firsts = np.append(0, bounds[:-1])
    mask[firsts] = 0
    weights = None
    if any(template.weights is not None for template, _ in pairs):
        weights = np.repeat(np.concatenate([t.weights_of(values) for t, values in pairs]), sizes)
        weights[firsts] = 0
    begin = 0
    for end, (template, _) in zip(bounds.tolist(), pairs, strict=True):
        row_weights = None if template.weights is None or weights is None else weights[begin:end]
        ids, targets = tokens[begin:end], mask[begin:end]
        yield Sample(ids, targets, weights=row_weights, weighed=template.weighed)
        begin = end


def _begun(ids: npt.NDArray[np.uint32], lead: int, tokenizer: Tokenizer) -> int:
    """Returns how many of the ids of a text begin in its first `lead` bytes."""
    at = count = 0
    while at < lead and count < len(ids):
        at += tokenizer.length(int(ids[count]))
        count += 1
    return count


def _ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the numbers from each start on, as many as its length, one after another."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
