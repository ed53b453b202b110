"""A small vocabulary for a small model: byte-pair encoding, learnt from the texts of episodes.

Text is cut as GPT-2 cuts it. Beginning with the 256 bytes, the two neighbours that stand together
most often become a token, again and again; of equals the one whose bytes come first. Neighbours
count by what they spell together, not by how they were made: that is how text is encoded, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise

LEAST = 256  # the bytes


class BpeError(ValueError):
    """A vocabulary of that size cannot be learnt; the message says why."""


def learn(
    texts: Iterable[str], size: int, *, progress: Callable[[int], None] = lambda _: None
) -> dict[bytes, int]:
    """The ranks of `size` tokens; see `mypt_spec.tokenizer.vocabulary`. Raises BpeError when the
    texts do not hold as many.

    `progress` is told how many there are.
    """
    import regex
    from tiktoken_ext.openai_public import r50k_pat_str

    if size < LEAST:
        raise BpeError(f"size is {size}, expected {LEAST} or more: every byte is a token")
    cut = regex.compile(r50k_pat_str)
    counts = Counter(piece.encode() for text in texts for piece in cut.findall(text))
    words = [[bytes([byte]) for byte in piece] for piece in counts]
    often = list(counts.values())
    ranks = {bytes([byte]): byte for byte in range(LEAST)}
    pairs: Counter[bytes] = Counter()
    where: defaultdict[bytes, set[int]] = defaultdict(set)
    for i, word in enumerate(words):
        _count(pairs, word, often[i])
        for pair in _pairs(word):
            where[pair].add(i)
    while len(ranks) < size:
        most = max(pairs.values(), default=0)
        if most < 1:
            raise BpeError(
                f"the texts hold {len(ranks)} tokens, {size} are asked for; give more text, or ask "
                "for fewer"
            )
        token = min(pair for pair, count in pairs.items() if count == most)
        ranks[token] = len(ranks)
        progress(len(ranks))
        for i in where.pop(token):
            _count(pairs, words[i], -often[i])
            words[i] = _joined(words[i], token)
            _count(pairs, words[i], often[i])
            for pair in _pairs(words[i]):
                where[pair].add(i)
        del pairs[token]
    return ranks


def _pairs(word: list[bytes]) -> list[bytes]:
    return [one + other for one, other in pairwise(word)]


def _count(pairs: Counter[bytes], word: list[bytes], often: int) -> None:
    for pair in _pairs(word):
        pairs[pair] += often


def _joined(word: list[bytes], token: bytes) -> list[bytes]:
    """The word with neighbours that spell the token joined, from the left."""
    out: list[bytes] = []
    at = 0
    while at < len(word):
        if at + 1 < len(word) and word[at] + word[at + 1] == token:
            out.append(token)
            at += 2
        else:
            out.append(word[at])
            at += 1
    return out
