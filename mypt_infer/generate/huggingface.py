"""Offers the decoder as a logits processor of `transformers`.

It imports nothing of that library.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.batch import BatchDecoder
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.one_way import TAIL
from mypt_infer.generate.device import Masks
from mypt_infer.generate.loop import vocabulary_mismatch
from mypt_spec.patch import in_common

# Where the decoder proves an id only when it is taken, so many of the likeliest are tried before.
_LIKELIEST = 64


@dataclass(eq=False)
class _Path:
    """A row that was seen: its ids, and the states after its first `begun`, `begun` + 1, ... ids.

    A state is None after the end, and after an id that is refused.
    `ahead`: ids that must follow, which were found with those before them.
    """

    decoder: Decoder
    ids: list[int]
    states: list[int | None]
    ahead: list[int] = field(default_factory=list)

    def go_on(self, token: int) -> None:
        """Takes one more token."""
        self.ids.append(token)
        self.states.append(_after(self.decoder, self.states[-1], token))
        self.ahead = self.ahead[1:] if self.ahead[:1] == [token] else []


class TagLogitsProcessor:
    """For `model.generate(..., logits_processor=[TagLogitsProcessor(decoder, max_new_tokens=64)])`.

    Prompts may be padded on the left with `pad_token_id`. After a complete turn, only
    `eos_token_id` may follow; by default it is the id that fills up rows, which no dialect uses
    (the end of text in GPT-2's vocabulary). Pass the same `eos_token_id` to the model, and a
    `max_new_tokens` that is larger by one. Where only one text may follow, only the encoder's ids
    for it may, unless `jump_forward` is off. Each search strategy works, also those that draft
    tokens and take some back: the state of a row is that of the longest beginning that was seen,
    stepped on. A list of decoders has one for each prompt; beams and several answers
    to a prompt share that of the prompt.
    """

    def __init__(
        self,
        decoder: Decoder | Sequence[Decoder],
        *,
        max_new_tokens: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
        jump_forward: bool = True,
    ) -> None:
        self.batch = BatchDecoder([decoder] if isinstance(decoder, Decoder) else decoder)
        self.budget = max_new_tokens
        self.eos = self.batch.dialect.tokenizer.pad if eos_token_id is None else eos_token_id
        self.pad = self.eos if pad_token_id is None else pad_token_id
        self.jump_forward = jump_forward
        self._masks: Masks | None = None
        self._end = _alone(self.eos)
        # The rows that the last call saw, and the length of their prompts.
        self._paths: list[_Path] = []
        self._holder = self.batch.hold(())
        self.begun = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Returns the scores with -inf for refused ids; shapes (rows, n) and (rows, vocabulary).

        The model may have more logits than the dialect has ids; those are refused.

        The first call raises what `Decoder.start` raises.
        """
        rows = input_ids.tolist()
        each, over = divmod(len(rows), len(self.batch))
        if over:
            raise ValueError(f"{len(rows)} rows for {len(self.batch)} decoders, one a prompt")
        decoders = [self.batch.decoders[i // each] for i in range(len(rows))]
        bodies = not all(decoder.engine.tables_only for decoder in self.batch.decoders)
        if not self._went_on(rows, decoders):
            self._find(rows, decoders, bodies=bodies)
        if bodies:
            self._holder.states = list(chain.from_iterable(path.states for path in self._paths))
        size, wide = self.batch.decoders[0].tables.vocabulary, scores.shape[-1]
        if wide < size:
            raise ValueError(vocabulary_mismatch(wide, self.batch.dialect, size))
        sets: list[AllowSet] = [self._end] * len(rows)
        free: list[tuple[int, int]] = []  # of the only id of a row, whatever its score is
        for i, path in enumerate(self._paths):
            state, decoder = path.states[-1], path.decoder
            if state is None or decoder.final(state):
                if scores[i, self.eos].item() == -torch.inf:
                    free.append((i, self.eos))
            elif forced := self._forced(path, state):
                sets[i] = _alone(forced[0])
                free.append((i, forced[0]))
            else:
                sets[i] = self._proved(decoder, state, scores[i]) or decoder.allow(state)
        return self._masked(scores, sets, size, free)

    def _masked(
        self, scores: Tensor, sets: list[AllowSet], size: int, free: list[tuple[int, int]]
    ) -> Tensor:
        """Returns a copy of the scores: -inf for refused ids, 0 at some places, (row, id)."""
        out = scores.clone()
        masks = self._masks = self._masks or Masks(scores.device)
        for row, allow_set in zip(out, sets, strict=True):
            if allow_set.only is None:
                row[size:] = -torch.inf
            masks.mask(row, allow_set)
        for i, token in free:
            out[i, token] = 0
        return out

    def _went_on(self, rows: list[list[int]], decoders: list[Decoder]) -> bool:
        """Takes one more token in each row, if each is the same row as before with one more.

        So it is without search and drafts. Returns whether it was so.
        """
        same = len(rows) == len(self._paths) and all(
            path.decoder is decoder and len(row) == len(path.ids) + 1 and row[:-1] == path.ids
            for path, row, decoder in zip(self._paths, rows, decoders, strict=True)
        )
        if same:
            for path, row in zip(self._paths, rows, strict=True):
                path.go_on(row[-1])
        return same

    def _find(self, rows: list[list[int]], decoders: list[Decoder], *, bodies: bool) -> None:
        """Finds the path of each row among those that were seen, or begins anew."""
        paths: list[_Path | None] = []
        for pair in zip(rows, decoders, strict=True):
            paths.append(path := self._continued(*pair))
            if path is not None and bodies:  # the next row may make it forgotten
                self._holder.states = [*self._holder.states, *path.states[-2:]]
        if None in paths:
            self.begun = len(rows[0])
            paths = [
                _Path(decoder, row, [self._start(decoder, row)])
                for decoder, row in zip(decoders, rows, strict=True)
            ]
        self._paths = [path for path in paths if path is not None]

    def _start(self, decoder: Decoder, row: Sequence[int]) -> int:
        at = next((i for i, token in enumerate(row) if token != self.pad), len(row))
        return decoder.start(list(row[at:]), max_new_tokens=self.budget)

    def _continued(self, row: list[int], decoder: Decoder) -> _Path | None:
        """Returns the path of a row that begins as one that was seen; None for a new prompt."""
        shared, path = 0, None
        for other in self._paths:
            count = in_common(other.ids, row) if other.decoder is decoder else 0
            if count > shared:
                shared, path = count, other
        if path is None or shared < self.begun:
            return None
        states = path.states[: shared - self.begun + 1]
        for token in row[shared:]:
            states.append(_after(decoder, states[-1], token))
        if states[-1] is None and states[shared - self.begun] is not None and len(row) > shared + 1:
            return None  # more than a token that was refused: the next prompt of a conversation
        return _Path(decoder, row, states)

    def _forced(self, path: _Path, state: int) -> list[int]:
        if self.jump_forward and not path.ahead:
            path.ahead = path.decoder.forced(state, path.ids[-TAIL:])
        return path.ahead

    def _proved(self, decoder: Decoder, state: int, scores: Tensor) -> AllowSet | None:
        """Returns ids that the decoder takes, where it allows others, too; else None.

        The caller cannot draw again, so of ids that are not proved, the likeliest are tried, and
        the others refused.
        """
        if not decoder.unproved(state):
            return None
        allowed = torch.as_tensor(decoder.ids(state), device=scores.device).long()
        order = scores[allowed].topk(min(_LIKELIEST, len(allowed))).indices
        ids = [i for i in allowed[order].tolist() if decoder.takes(state, i)]
        ids = sorted(ids) or decoder.near_ids(state).tolist()
        return AllowSet(len(ids), np.array(ids, np.int32), None)

    def generated(self, row: Sequence[int]) -> list[int]:
        """Returns the tokens that were generated in a row of `model.generate`'s output."""
        new = [int(i) for i in row[self.begun :]]
        return new[: new.index(self.eos)] if self.eos in new else new


def _alone(token: int) -> AllowSet:
    return AllowSet(1, np.array([token], np.int32), None)


def _after(decoder: Decoder, state: int | None, token: int) -> int | None:
    if state is None or decoder.final(state):
        return None
    try:
        return decoder.next(state, token)
    except ValueError:  # a drafted token, or filler of a beam
        return None
