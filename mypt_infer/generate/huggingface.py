"""The decoder in the generation loop of `transformers`, as a logits processor.

Nothing of that library is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mypt_infer.decode.decoder import Decoder
from mypt_infer.generate.device import DeviceDecoder


class TagLogitsProcessor:
    """For `model.generate(..., logits_processor=[TagLogitsProcessor(decoder, max_new_tokens=64)])`.

    Prompts may be filled up on the left with `pad_token_id`. Where a turn is complete, only
    `eos_token_id` may follow (the base vocabulary's end of text, which no dialect uses): give the
    model the same, and `max_new_tokens` one more than here. Any search may be used; rows may be
    reordered, since states are found by what has been generated.
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
        self.device: DeviceDecoder | None = None
        self.states: dict[
            tuple[int, ...], int | None
        ] = {}  # of what the last call saw; None behind the end
        self.begun = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores, -inf for refused ids; shapes (rows, n) and (rows, vocabulary).

        Raises as `Decoder.start`, at first.
        """
        if self.device is None:
            self.device = DeviceDecoder(self.decoder, scores.device)
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
                self.device.apply_(out[i : i + 1], [state])
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
        """The tokens that were generated in a row of `model.generate`'s output, without the end and
        what fills it up.
        """
        new = [int(i) for i in row[self.begun :]]
        return new[: new.index(self.eos)] if self.eos in new else new
