"""Knows which characters two libraries take for the same kind, such as a letter.

Input is text; output are its characters that one of them cuts otherwise than the other. Libraries
know other versions of Unicode, so each character is tried, once, between characters of all kinds.

Theory of operation. In a small vocabulary the only tokens, beside bytes, join the last byte of one
character to the first byte of another: in `a`, `é`, the second byte of `é` stays alone, and its
first byte is joined to the `a` where no cut is between the two. So the ids say where a library
cuts. A character that both cut alike on each side of every kind is alike.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt

from mypt_spec.tokenizer.bpe import BETWEEN

# A small letter, a large one, one that is neither, a mark, a number, a sign, spaces.
_KINDS = ("a", "A", "世", "\u0301", "1", ".", " ", "\n")
_AROUND = (
    *(("", kind) for kind in _KINDS),
    *((kind, "") for kind in _KINDS),
    # What belongs to a letter before or after it, and short forms such as 's and 're.
    *((" ", "a"), (".", "a"), ("a", "a"), ("a", "A"), ("A", "a"), (" .", ""), ("  ", "a")),
    *(("a'", ""), ("a'", "a"), ("'", "e"), ("'", "l"), ("a'r", ""), ("a'l", ""), ("a'v", "")),
)
_CHUNK = 256  # characters that are tried at once

Encode = Callable[[str], npt.NDArray[np.uint32]]


def small_ranks() -> dict[bytes, int]:
    """Returns the tokens of the small vocabulary, with ids from 0."""
    heads = [bytes([byte]) for byte in (*range(0x80), *range(0xC2, 0xF5))]
    tails = [bytes([byte]) for byte in range(0xC0)]
    kinds = "".join((*_KINDS, "'", "e", "l", "r", "v")).encode()
    core = {bytes([byte]) for byte in kinds}
    joins = [a + b for a, b in product(tails, heads) if a in core or b in core or a >= b"\x80" <= b]
    return {token: i for i, token in enumerate([bytes([byte]) for byte in range(256)] + joins)}


class Characters:
    """Knows which characters `one` and `other` cut alike, which encode with `small_ranks`.

    Texts that they get are joined by `BETWEEN`, whose id is that after the last token.
    """

    def __init__(self, one: Encode, other: Encode) -> None:
        self.one, self.other = one, other
        self.verdicts = np.zeros(0x110000, np.uint8)  # by code point: 1 alike, 2 not
        self.verdicts[:128] = 1

    def odd(self, text: str) -> str:
        """Returns characters that the two cut otherwise. Raises ValueError for a lone surrogate."""
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        verdicts = self.verdicts[codes]
        if verdicts.all() and verdicts.max() == 1:
            return ""
        new = list(map(chr, np.unique(codes[verdicts == 0]).tolist()))
        for begin in range(0, len(new), _CHUNK):
            some = new[begin : begin + _CHUNK]
            alike = self._alike(some)
            for char in some:
                self.verdicts[ord(char)] = 1 if alike or self._alike([char]) else 2
        return "".join(map(chr, np.unique(codes[self.verdicts[codes] == 2]).tolist()))

    def _alike(self, chars: list[str]) -> bool:
        tried = BETWEEN.join(
            f"{before}{char}{after}" for char in chars for before, after in (*_AROUND, ("", char))
        )
        return np.array_equal(self.one(tried), self.other(tried))
