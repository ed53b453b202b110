"""Shortens texts without a model: to the passage that fits a query best, and to a summary."""

import re
from collections import Counter

_WORD = re.compile(r"\w+")
# Characters of scripts without spaces between words: two in a row are searched for.
_DENSE = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
# The letters of a word by which other forms of it are found, too.
_STEM = 5
_END = re.compile(r"[.!?:…] ")
_MARK = "…"
# The most characters of a summary.
LETTERS = 600
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[.!?]+")
_LONG_WORD = re.compile(r"\w{4,}")
# The most characters of a text that are read.
_MOST_READ = 100_000


def snippet(text: str, query: str, letters: int) -> str:
    """Returns at most `letters` characters of a text, around the words of a query.

    White space is collapsed. The passage has as many words of the query as any of that length, the
    rare ones first; it begins where a sentence or a word begins. "…" is where text was left out.

    >>> snippet("Alpha beta gamma. The crane stops at noon. Delta.", "when does the crane stop", 27)
    '…The crane stops at noon.…'
    """
    line = " ".join(text.split())
    if len(line) <= letters:
        return line
    room = letters - 2 * len(_MARK)
    begin = _begin(line, _best(line, _terms(query), room), room)
    if len(line) - begin <= letters - len(_MARK):
        begin = _begin(line, max(0, len(line) - room), 0)
        return f"{_MARK if begin else ''}{line[begin:]}"
    end = begin + room
    last = line.rfind(" ", begin + room // 2, end + 1)
    return f"{_MARK if begin else ''}{line[begin : last if last > 0 else end].strip()}{_MARK}"


def _terms(query: str) -> list[str]:
    """Returns the patterns of what a query asks for."""
    words = dict.fromkeys(word.lower() for word in _WORD.findall(query))
    terms: dict[str, None] = {}
    for word in [*words][:50]:
        if _DENSE.search(word):
            pairs = (word[i : i + 2] for i in range(max(1, len(word) - 1)))
            terms |= dict.fromkeys(re.escape(pair) for pair in pairs)
        else:
            start = r"\b" if len(word) < _STEM else ""
            terms[start + re.escape(word[:_STEM])] = None
    return list(terms)


def _best(line: str, terms: list[str], room: int) -> int:
    """Returns where the passage begins that has most of the terms, each counted by its rarity."""
    places: list[tuple[int, int, float]] = []
    for number, term in enumerate(terms):
        starts = [m.start() for m in re.finditer(term, line, re.IGNORECASE)]
        places += [(at, number, 1 / len(starts)) for at in starts]
    places.sort()
    best, start = 0.0, 0
    for i, (at, _, _) in enumerate(places):
        weights: dict[int, float] = {}
        for other, number, weight in places[i:]:
            if other > at + room * 3 // 4:
                break
            weights[number] = weight
        if sum(weights.values()) > best + 1e-9:
            best, start = sum(weights.values()), at
    return start


def _begin(line: str, at: int, room: int) -> int:
    """Returns where the sentence of a place begins, if that is near; else where its word does."""
    earliest = max(0, at - room // 4)
    ends = [m.end() for m in _END.finditer(line, earliest, at)]
    if ends or earliest == 0:
        return ends[-1] if ends else 0
    return line.rfind(" ", earliest, at) + 1 or at


def extract(text: str) -> str:
    """Returns whole sentences of a text, in their order, at most LETTERS characters. Deterministic.

    >>> extract("Cats sleep. The weather is fine. Cats purr, and sleeping cats dream.")
    'Cats sleep. The weather is fine. Cats purr, and sleeping cats dream.'
    """
    sentences = [s for m in _SENTENCE.finditer(text[:_MOST_READ]) if (s := " ".join(m[0].split()))]
    counts = Counter(w.casefold() for s in sentences for w in _LONG_WORD.findall(s))
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
    words = {w.casefold() for w in _LONG_WORD.findall(sentence)}
    return sum(counts[w] - 1 for w in words) / (len(words) + 3)
