"""Offers the decoder as a logits processor of `transformers`.

It imports nothing of that library.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.device import DeviceDecoder


class TagLogitsProcessor:
    """For `model.generate(..., logits_processor=[TagLogitsProcessor(decoder, max_new_tokens=64)])`.

    Prompts may be padded on the left with `pad_token_id`. After a complete turn, only
    `eos_token_id` may follow; by default it is the base vocabulary's end of text, which no dialect
    uses. Pass the same `eos_token_id` to the model, and a `max_new_tokens` that is larger by one.
    Each search strategy works, and rows may be reordered, because states are found by the ids that
    were generated.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        max_new_tokens: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
    ) -> None:
        self.decoder, self.budget = decoder, max_new_tokens
        self.eos = decoder.dialect.tokenizer.ordinary if eos_token_id is None else eos_token_id
        self.pad = self.eos if pad_token_id is None else pad_token_id
        self.tensors: DeviceDecoder | None = None
        # The rows that the last call saw -> their states, None after the end.
        self.states: dict[tuple[int, ...], int | None] = {}
        self.begun = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Returns the scores with -inf for refused ids; shapes (rows, n) and (rows, vocabulary).

        The first call raises what `Decoder.start` raises.
        """
        if self.tensors is None:
            self.tensors = DeviceDecoder(self.decoder, scores.device)
        rows = [tuple(row) for row in input_ids.tolist()]
        if not all(row[:-1] in self.states for row in rows):
            self.states, self.begun = (
                {
                    row: self.decoder.start(self._stripped(row), max_new_tokens=self.budget)
                    for row in rows
                },
                len(rows[0]),
            )
        else:
            self.states = {row: self._after(row) for row in rows}
        out = scores.clone()
        for i, row in enumerate(rows):
            state = self.states[row]
            if state is None or self.decoder.final(state):
                kept = out[i, self.eos].item()
                out[i].fill_(-torch.inf)[self.eos] = kept if kept > -torch.inf else 0.0
            else:
                self.tensors.apply_(out[i : i + 1], [state])
        return out

    def _after(self, row: tuple[int, ...]) -> int | None:
        state = self.states[row[:-1]]
        if state is None or self.decoder.final(state):
            return None
        return self.decoder.next(state, row[-1])

    def _stripped(self, row: Sequence[int]) -> list[int]:
        at = next((i for i, token in enumerate(row) if token != self.pad), len(row))
        return list(row[at:])

    def generated(self, row: Sequence[int]) -> list[int]:
        """Returns the tokens that were generated in a row of `model.generate`'s output."""
        new = [int(i) for i in row[self.begun :]]
        return new[: new.index(self.eos)] if self.eos in new else new
