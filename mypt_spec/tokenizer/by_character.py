"""Encodes text by a vocabulary that joins characters, those without a token as their bytes.

Input is text, output are ids. tiktoken joins bytes in the order of ranks, so here it gets ranks of
its own: first bytes, then the beginnings of characters, then characters, and last what is made of
several characters, in the order of the vocabulary. So all characters are joined before any two of
them are. A beginning that is left over belongs to a character without a token: it becomes its
bytes.
"""

import tiktoken

from mypt_spec.tokenizer.vocabulary import Vocabulary


class CharacterEncoding(tiktoken.Encoding):
    """tiktoken's encoding of a vocabulary that is `by_character`; its ids are the vocabulary's."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.ranks
        characters = [token for token in tokens if len(token) > 1 and len(token.decode()) == 1]
        begun = sorted({c[:n] for c in characters for n in range(2, len(c))}, key=len)
        singles = [bytes([byte]) for byte in range(256)]
        first = {*characters, *singles}
        joined = [token for token in tokens if token not in first]
        order = [*singles, *begun, *characters, *joined]
        super().__init__(
            vocabulary.name,
            pat_str=vocabulary.patterns[-1],
            mergeable_ranks={token: rank for rank, token in enumerate(order)},
            special_tokens={},
        )
        parts = [[token] if token in tokens else [bytes([b]) for b in token] for token in order]
        # A byte without a token is in no text that is encoded.
        self._ids_of = [[tokens[part] for part in each if part in tokens] for each in parts]
        self._bytes_of = {i: token for token, i in tokens.items()}

    def encode_ordinary(self, text: str) -> list[int]:
        return [i for rank in super().encode_ordinary(text) for i in self._ids_of[rank]]

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        ranks = super()._encode_single_piece(text_or_bytes)
        return [i for rank in ranks for i in self._ids_of[rank]]

    def decode_bytes(self, tokens: list[int]) -> bytes:  # type: ignore[override]
        """Returns the bytes of ids. Raises KeyError for an id without any."""
        return b"".join([self._bytes_of[i] for i in tokens])
