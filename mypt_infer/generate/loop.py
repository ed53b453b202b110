"""Reads rows of tokens with a model, as one batch: the loop of everything that samples.

Input: a Model, the tokens that each row begins with, and `choose`, which takes the logits of a row
and returns what the row reads next. Output: none; `choose` keeps what it chose. Each row
has its own place in the KV cache, so each token is read once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from mypt_infer.decode.decoder import Decoder
from mypt_model.shape import fits
from mypt_spec import Dialect


class Model(Protocol):
    """What the loop asks of a model.

    `mypt_infer.generate.llama.Llama` is one, and `plain` makes one of a function.
    """

    @property
    def vocab_size(self) -> int:
        """Returns the number of logits of a row."""

    def begin(self, rows: int, capacity: int) -> Any:
        """Returns an empty KV cache for `rows` rows of at most `capacity` tokens."""

    def __call__(self, ids: Tensor, lengths: Tensor, cache: Any) -> Tensor:
        """Reads the next tokens of each row; returns logits, (rows, vocabulary).

        The logits are those after the last real token.

        `ids`: int64, (rows, n); of each row only the first `lengths` (rows,) are real. A row of
        length 0 stays as it is.
        """


def run(
    model: Model,
    rows: Sequence[Sequence[int] | None],
    capacity: int,
    choose: Callable[[int, Tensor], Sequence[int] | None],
    device: torch.device | str = "cpu",
    *,
    vocabulary: int | None = None,
) -> None:
    """Reads rows, and then what `choose(row, logits)` returns for each, until all have ended.

    None ends a row, and stands for one that never begins. No row reads more than `capacity` tokens.
    Of logits, only the first `vocabulary` are shown.
    """
    cache, pending = model.begin(len(rows), capacity), list(rows)
    while any(tokens is not None for tokens in pending):
        logits = read(model, [tokens or () for tokens in pending], cache, device)[:, :vocabulary]
        pending = [
            None if tokens is None else choose(row, logits[row])
            for row, tokens in enumerate(pending)
        ]


def read(
    model: Model, rows: Sequence[Sequence[int]], cache: Any, device: torch.device | str
) -> Tensor:
    """Returns the logits after the next tokens of each row: (rows, vocabulary), on the CPU."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    with torch.inference_mode():
        return model(ids, lengths, cache).cpu()


def check_vocabulary(model: Model, decoder: Decoder) -> None:
    """Raises ValueError unless a model has a logit for each id of a decoder, and few more."""
    ids = decoder.tables.vocabulary
    if not fits(model.vocab_size, ids):
        raise ValueError(vocabulary_mismatch(model.vocab_size, decoder.dialect, ids))


def vocabulary_mismatch(logits: int, dialect: Dialect, ids: int) -> str:
    """Returns what is wrong with a model of so many logits under a dialect of so many ids."""
    if dialect.vocabulary is None:
        why = "it is on GPT-2's vocabulary, and the model has no vocabulary beside it: put its "
        why += "tokenizer.json there, or name one (--vocab)"
    elif dialect.vocabulary.size <= logits < ids:
        why = "it lacks rows for tags of the format: train it on them first (mypt-prepare --vocab, "
        why += "mypt-train --init-from), or choose a format of the model's own tags"
    else:
        why = "they belong to other vocabularies: use the vocabulary and the weights of one model"
    return f"the model has {logits} logits, {dialect.name} has {ids} ids: {why}"


def positions(model: Model) -> int | None:
    """Returns the number of tokens that a model can read in one row; None if it does not say."""
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return limit if isinstance(limit, int) else None


class _Plain:
    def __init__(self, function: Callable[[Tensor], Tensor], vocab_size: int) -> None:
        self.function, self.vocab_size = function, vocab_size

    def begin(self, rows: int, capacity: int) -> list[list[int]]:
        return [[] for _ in range(rows)]

    def __call__(self, ids: Tensor, lengths: Tensor, cache: list[list[int]]) -> Tensor:
        out = torch.zeros(len(cache), self.vocab_size, device=ids.device)
        for row, (tokens, length) in enumerate(zip(ids.tolist(), lengths.tolist(), strict=True)):
            cache[row] += tokens[:length]
            if length:
                out[row] = self.function(torch.tensor([cache[row]], device=ids.device))[0, -1]
        return out


def plain(function: Callable[[Tensor], Tensor], vocab_size: int) -> Model:
    """Returns a Model made of a function from ids, (1, n), to logits, (1, n, vocabulary).

    It has no KV cache: each step reads the whole row.
    """
    return _Plain(function, vocab_size)
