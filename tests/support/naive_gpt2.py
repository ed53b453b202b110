"""GPT-2's byte-pair encoding, written out slowly from the vocabulary files: a second opinion that
does not use tiktoken.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

import regex

_WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


@cache
def _letters() -> dict[int, str]:
    """Maps each byte to the printable character that the vocabulary files have for it."""
    shown = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    letters = {b: chr(b) for b in shown}
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + len(letters) - len(shown))
    return letters


@cache
def _files() -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    path = Path(__file__).parents[2] / "mypt_spec" / "tokenizer" / "gpt2" / "vocab.bpe.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")[1:]
    pairs = [tuple(line.split(" ")) for line in lines if line]
    tokens = [*sorted(_letters().values()), *(a + b for a, b in pairs)]
    return {token: i for i, token in enumerate(tokens)}, {
        (a, b): rank for rank, (a, b) in enumerate(pairs)
    }


def encode(text: str) -> list[int]:
    """Returns the ordinary ids of a text."""
    ids, ranks = _files()
    out = []
    for word in _WORD.findall(text):
        pieces = [_letters()[b] for b in word.encode()]
        while len(pieces) > 1:
            rank, at = min(
                (ranks.get((a, b), len(ranks)), i) for i, (a, b) in enumerate(pairwise(pieces))
            )
            if rank == len(ranks):
                break
            pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
        out += [ids[piece] for piece in pieces]
    return out


@cache
def _pieces() -> dict[int, bytes]:
    back = {letter: b for b, letter in _letters().items()}
    return {i: bytes(back[letter] for letter in piece) for piece, i in _files()[0].items()}


def decode(numbers: Iterable[int]) -> bytes:
    """Returns the bytes of ordinary ids."""
    return b"".join(_pieces()[i] for i in numbers)
