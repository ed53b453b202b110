"""Holds the tokens of text as bytes, grouped by their first byte, and as a trie.

Both forms exist so that automata run over all 50,256 tokens at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mypt_spec.memo import Memo
from mypt_spec.tokenizer.tokenizer import Tokenizer

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens of text. `tokens[i]` are the bytes of id i, none where i is no text.

    Ids from `len(tokens)` to `size` are no text either.
    """

    tokens: tuple[bytes, ...]
    size: int

    @cached_property
    def by_first(self) -> tuple[Ints, ...]:
        """Returns for each byte the ids of the tokens that begin with it."""
        groups: list[list[int]] = [[] for _ in range(256)]
        for i, token in enumerate(self.tokens):
            if token:
                groups[token[0]].append(i)
        return tuple(np.array(g, dtype=np.int32) for g in groups)

    @cached_property
    def firsts(self) -> npt.NDArray[np.uint8]:
        """Returns the first byte of each token, 0 where an id is no text."""
        return np.array([token[0] if token else 0 for token in self.tokens], dtype=np.uint8)

    @cached_property
    def texts(self) -> npt.NDArray[np.bool_]:
        """Returns for each id whether it is text. Shape (size,)."""
        out = np.zeros(self.size, bool)
        out[: len(self.tokens)] = [bool(token) for token in self.tokens]
        return out

    @cached_property
    def of_byte(self) -> dict[int, int]:
        """Returns the id of the token of one byte, by byte."""
        return {token[0]: i for i, token in enumerate(self.tokens) if len(token) == 1}

    @cached_property
    def tails(self) -> tuple[tuple[Ints, npt.NDArray[np.uint8]], ...]:
        """Returns for each byte the tokens of `by_first` without that byte.

        Each entry is (lengths, int32, (n,); bytes, uint8, (n, longest), padded with zeros).
        """
        out = []
        for ids in self.by_first:
            rest = [self.tokens[i][1:] for i in ids]
            longest = max(map(len, rest), default=0)
            joined = b"".join(r.ljust(longest, b"\0") for r in rest)
            table = np.frombuffer(joined, dtype=np.uint8).reshape(len(rest), longest)
            out.append((np.array([len(r) for r in rest], dtype=np.int32), table))
        return tuple(out)

    @cached_property
    def trie(self) -> Trie:
        """Returns the root of the tree of all tokens, built once."""
        root = Trie()
        for i, token in enumerate(self.tokens):
            if not token:
                continue
            node = root
            for byte in token:
                node = node.below.setdefault(byte, Trie())
            node.ids.append(i)
        return root


class Trie:
    """A node of the tree of all tokens: the ids that end here, and the nodes below, by byte."""

    __slots__ = ("below", "ids")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.below: dict[int, Trie] = {}


_vocabularies = Memo[str, Vocabulary](16)


def vocabulary(tokenizer: Tokenizer, base: str) -> Vocabulary:
    """Returns the vocabulary of a tokenizer, read once for each base encoding.

    `base` names the base encoding.
    """
    key = f"{base}/{tokenizer.vocab_size}"
    found = _vocabularies.known.get(key)
    if found is None:
        tokenizer.encode("")  # raises where there is no vocabulary
        listed = [b""] * tokenizer.ordinary.ranges[-1].stop
        for i in tokenizer.ordinary:
            listed[i] = tokenizer.decode_bytes([i])
        tokens = tuple(listed)
        found = _vocabularies.keep(key, Vocabulary(tokens, tokenizer.vocab_size))
    return found
