"""Learns a small vocabulary for a small model: byte-pair encoding, from the texts of episodes.

Input: texts and a size. Output: tokens with their ranks, as `mypt_spec.tokenizer.vocabulary` reads
them. Text is cut into pieces as GPT-2 cuts it. The vocabulary begins with the 256 bytes. Then,
again and again, the most frequent pair of neighbours becomes a token; of equally frequent pairs the
one whose bytes sort first. Pairs are counted by the bytes that they spell together, not by how they
were merged, because encoding merges by bytes, too.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise

# The smallest vocabulary: all bytes.
LEAST = 256


class BpeError(ValueError):
    """A vocabulary of that size cannot be learnt; the message says why."""


def learn(
    texts: Iterable[str], size: int, *, progress: Callable[[int], None] = lambda _: None
) -> dict[bytes, int]:
    """Learns `size` tokens from texts; returns the rank of each.

    `size` is 256 or more: each byte is a token. `progress` is called with the number of tokens so
    far. Raises BpeError for a smaller size, and when the texts do not hold as many tokens.
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
    """Returns the word with each pair of neighbours that spells the token joined, from the left."""
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
