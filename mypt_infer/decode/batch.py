"""Decodes a batch whose rows have decoders of their own, for example each with other tools.

Input: a decoder for each row; rows may share one. Output: what one decoder says of a batch, row by
row.

>>> from mypt_infer.decode import Decoder
>>> plain, short = Decoder("gabgpt"), Decoder("gabgpt", forbidden_blocks=["think"])
>>> batch = BatchDecoder([plain, short, plain])
>>> states = batch.start([[50257]] * 3, max_new_tokens=9)
>>> [batch.decoders[row].ids(state).tolist() for row, state in enumerate(states)]
[[50258, 50259], [50259], [50258, 50259]]
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.allow import AllowSet, Holder, Rows, States
from mypt_infer.decode.decoder import Decoder
from mypt_spec import Episode


class BatchDecoder(Rows):
    """Says for each row of a batch which token may come next, by the row's own decoder.

    All decoders are of one dialect. A state means something to the decoder of its row alone.
    Raises ValueError for no decoders, and for decoders of several dialects.
    """

    def __init__(self, decoders: Sequence[Decoder]) -> None:
        self.decoders = list(decoders)
        if not self.decoders:
            raise ValueError("a batch needs a decoder for each row, got none")
        self.dialect = self.decoders[0].dialect
        for row, decoder in enumerate(self.decoders):
            if decoder.dialect.fingerprint != self.dialect.fingerprint:
                raise ValueError(
                    f"rows 0 and {row} have decoders of other dialects or vocabularies "
                    f"({self.dialect.name}, {decoder.dialect.name}); decode them apart"
                )

    def __len__(self) -> int:
        return len(self.decoders)

    def start(
        self, prompts: Sequence[Episode | Sequence[int]], *, max_new_tokens: int | None = None
    ) -> list[int]:
        """Returns the state of each row after its prompt. Raises what `Decoder.start` raises."""
        self._check(len(prompts), "prompts")
        return [
            decoder.start(prompt, max_new_tokens=max_new_tokens)
            for decoder, prompt in zip(self.decoders, prompts, strict=True)
        ]

    def hold(self, states: Sequence[int | None]) -> Holder:
        """Returns an object that keeps the states of a list from being forgotten while it lives.

        The list may have any states of any rows.
        """
        holder = Holder(states)
        for decoder in dict.fromkeys(self.decoders):  # numbers of another's states mean no harm
            decoder.hold(holder)
        return holder

    @property
    def vocab_size(self) -> int:
        return self.decoders[0].tables.vocabulary

    def allow_each(self, states: Sequence[int] | States) -> list[AllowSet]:
        self._check(len(states), "states")
        return [d.allow(int(state)) for d, state in zip(self.decoders, states, strict=True)]

    def step(
        self, states: Sequence[int] | States, ids: Sequence[int] | npt.NDArray[np.integer]
    ) -> States:
        """Returns the states after one token for each row, int64, shape (rows,).

        Raises ValueError naming the row whose token is refused.
        """
        self._check(len(states), "states")
        self._check(len(ids), "ids")
        out = np.empty(len(states), dtype=np.int64)
        for row, decoder in enumerate(self.decoders):
            try:
                out[row] = decoder.next(int(states[row]), int(ids[row]))
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
        return out

    def _check(self, count: int, noun: str) -> None:
        if count != len(self.decoders):
            raise ValueError(f"{count} {noun} for {len(self.decoders)} decoders, one a row")
