"""Holds the tokens of text as bytes, grouped by their first byte, and as a trie.

Both forms exist so that automata run over all 50,256 tokens at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
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
    def data(self) -> npt.NDArray[np.uint8]:
        """Returns the bytes of all tokens, one after the other. `begin` says where each begins."""
        return np.frombuffer(b"".join(self.tokens), dtype=np.uint8)

    @cached_property
    def begin(self) -> Ints:
        """Returns where each token begins in `data`, and where the last one ends."""
        lengths = np.fromiter(map(len, self.tokens), dtype=np.int32, count=len(self.tokens))
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

    @cached_property
    def trie(self) -> Trie:
        """Returns the root of the tree of all tokens."""
        ids = sorted((i for i, t in enumerate(self.tokens) if t), key=self.tokens.__getitem__)
        return Trie(([self.tokens[i] for i in ids], ids), b"", 0, len(ids))


class Trie:
    """A node of the tree of all tokens: those that begin with some bytes.

    They are a range of all tokens in the order of their bytes. The nodes below are made when they
    are asked for: all nodes of 150,000 tokens would take 300 MB.
    """

    __slots__ = ("_all", "_begin", "_below", "_end", "_text", "ids")

    def __init__(self, all_: tuple[list[bytes], list[int]], text: bytes, begin: int, end: int):
        words, ids = all_
        own = begin
        while own < end and len(words[own]) == len(text):
            own += 1
        self._all, self._text, self._begin, self._end = all_, text, own, end
        self._below: dict[int, Trie | None] = {}
        self.ids: list[int] = ids[begin:own]  # of the tokens that are these bytes

    def below(self, byte: int) -> Trie | None:
        """Returns the node of the tokens that go on with a byte; None if there are none."""
        if byte in self._below:
            return self._below[byte]
        words, text = self._all[0], self._text + bytes([byte])
        begin = bisect_left(words, text, self._begin, self._end)
        end = bisect_left(words, _next(text), begin, self._end) if byte < 0xFF else self._end
        found = Trie(self._all, text, begin, end) if begin < end else None
        self._below[byte] = found
        return found

    @property
    def all_ids(self) -> list[int]:
        """Returns the ids of all tokens that begin with these bytes."""
        return self.ids + self._all[1][self._begin : self._end]

    @property
    def bytes(self) -> Iterator[int]:
        """Returns the bytes that tokens go on with."""
        at, words = self._begin, self._all[0]
        while at < self._end:
            byte = words[at][len(self._text)]
            yield byte
            after = self._text + bytes([byte])
            at = bisect_left(words, _next(after), at, self._end) if byte < 0xFF else self._end


def _next(text: bytes) -> bytes:
    """Returns the first text after all that begin with a text; its last byte is below 255."""
    return text[:-1] + bytes([text[-1] + 1])


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
