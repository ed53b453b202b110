"""Draws ids for a conversation from a model under a decoder.

Input: ids that the conversation adds. Output: the next id. Nothing illegal is drawn, and each turn
ends within its budget.
"""

import random
from collections.abc import Sequence
from typing import Any

import torch

from mypt_infer.controller.source import NoRoom
from mypt_infer.decode.decoder import BudgetError, Decoder
from mypt_infer.generate.loop import Model, check_vocabulary, positions, read
from mypt_infer.generate.sample import Sampling, draw

# The number of ids that a new KV cache has room for.
_LEAST = 512


class ModelSource:
    """A `Source` that draws from a model. Give the decoder the tools of the conversation.

    The model reads each id once, through its KV cache; what the system wrote is read as one chunk
    at the next draw. `refused_mass` holds, for each id that was drawn, the probability that the
    model gave to ids that are not allowed. The same seed draws the same ids. Raises ValueError for
    a model with another vocabulary than the decoder's.
    """

    def __init__(
        self,
        model: Model,
        decoder: Decoder,
        *,
        sampling: Sampling | None = None,
        seed: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        check_vocabulary(model, decoder)
        self.model, self.decoder, self.sampling = model, decoder, sampling or Sampling()
        self.refused_mass: list[float] = []
        self._device, self._chance = device, random.Random(seed)
        self._forbidding = {frozenset[str](): decoder}
        self._ids: list[int] = []
        self._now: list[int | None] = [None]
        self._holder = decoder.hold(self._now)
        self._cache: Any = None
        self._ids_read = self._room = 0

    def forbid(self, kinds: frozenset[str]) -> None:
        """Forbids blocks of these kinds, and those that the decoder was given with, from now on."""
        if kinds not in self._forbidding:
            default = self._forbidding[frozenset()]
            decoder = default.forbidding(default.forbidden_blocks | kinds)
            same = decoder.forbidden_blocks == default.forbidden_blocks
            self._forbidding[kinds] = default if same else decoder
        decoder = self._forbidding[kinds]
        if decoder is not self.decoder:  # states of one decoder mean nothing to another
            self.decoder, self._state = decoder, None
            self._holder = decoder.hold(self._now)

    @property
    def _state(self) -> int | None:
        """Returns the decoder's state after all ids; None if the next draw has to find it."""
        return self._now[0]

    @_state.setter
    def _state(self, state: int | None) -> None:
        self._now[0] = state

    @property
    def context_length(self) -> int | None:
        """Returns the number of ids that the model can see; None if it does not say."""
        return positions(self.model)

    @property
    def held(self) -> int:
        """Returns the number of ids that the model is to see."""
        return len(self._ids)

    def append(self, ids: Sequence[int]) -> None:
        self._ids += ids
        if self._state is None:
            return
        try:
            self._state = self.decoder.run(self._state, ids)
        except ValueError:  # ids of the system: the next draw starts after them
            self._state = None

    def truncate(self, length: int) -> None:
        del self._ids[length:]
        self._state = None
        if length >= self._ids_read:
            return
        rewind = getattr(self.model, "rewind", None)
        if rewind is None or self._cache is None:
            self._cache, self._ids_read = None, 0
        else:
            rewind(self._cache, length)
            self._ids_read = length

    def next(self, left: int) -> int:
        """Returns the next id.

        Raises NoRoom if no legal ending fits, or the model has no further position, and PromptError
        if the model may not write here.
        """
        if self.context_length is not None and len(self._ids) >= self.context_length:
            raise NoRoom(f"the model has {self.context_length} positions")
        if self._state is None or self.decoder.final(self._state):
            try:
                self._state = self.decoder.start(self._ids, max_new_tokens=left)
            except BudgetError as error:
                raise NoRoom(f"{left} tokens are left; an ending takes {error.minimum}") from None
        allow_set = self.decoder.allow(self._state)
        if allow_set.count == 1 and allow_set.only is not None:
            token = int(allow_set.only[0])
        else:
            token, refused_mass, _ = draw(
                self._logits(), self._state, self.decoder, self.sampling, self._chance.random()
            )
            self.refused_mass.append(refused_mass)
        self._state = self.decoder.next(self._state, token)
        self._ids.append(token)
        return token

    def _logits(self) -> torch.Tensor:
        """Returns the logits after the last id, shape (vocabulary,)."""
        if self._cache is None or len(self._ids) > self._room:
            self._room = max(_LEAST, 2 * len(self._ids))
            self._cache, self._ids_read = self.model.begin(1, self._room), 0
        cache, self._cache = self._cache, None  # what a model that fails has read is not known
        logits = read(self.model, [self._ids[self._ids_read :]], cache, self._device)
        self._cache, self._ids_read = cache, len(self._ids)
        return logits[0, : self.decoder.tables.vocabulary]
