"""Summarizes a text without a model: picks the sentences with its most frequent words."""

from __future__ import annotations

import re
from collections import Counter

# The most characters of a summary.
LETTERS = 600
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[.!?]+")
_WORD = re.compile(r"\w{4,}")
# The most characters of a text that are read.
_MOST_READ = 100_000


def extract(text: str) -> str:
    """Returns whole sentences of a text, in their order, at most LETTERS characters. Deterministic.

    >>> extract("Cats sleep. The weather is fine. Cats purr, and sleeping cats dream.")
    'Cats sleep. The weather is fine. Cats purr, and sleeping cats dream.'
    """
    sentences = [s for m in _SENTENCE.finditer(text[:_MOST_READ]) if (s := " ".join(m[0].split()))]
    counts = Counter(w.casefold() for s in sentences for w in _WORD.findall(s))
    scores = {i: _score(s, counts) for i, s in enumerate(sentences)}
    chosen: list[int] = []
    room = LETTERS
    for i in sorted(scores, key=lambda i: (-scores[i], i)):
        if len(sentences[i]) + 1 <= room:
            chosen.append(i)
            room -= len(sentences[i]) + 1
    if not chosen:
        return text.strip()[: LETTERS - 1] + "…" if text.strip() else ""
    return " ".join(sentences[i] for i in sorted(chosen))


def _score(sentence: str, counts: Counter[str]) -> float:
    words = {w.casefold() for w in _WORD.findall(sentence)}
    return sum(counts[w] - 1 for w in words) / (len(words) + 3)
