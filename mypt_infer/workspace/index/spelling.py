"""Finds what a query may mean by a word that no document has.

Input: a word, and the postings. Output: terms that are spelled like it, each with a weight below 1:
a slip of the pen, a part of a compound, or a compound of words that there are.
"""

from __future__ import annotations

from mypt_infer.workspace.index.postings import Postings, trigrams

# Less alike than this, two words are not the same; the share of trigrams of both that both have.
_ALIKE = 0.5
# The most terms for a word.
_MOST = 8
# A part of a compound has so many letters, and this share of the compound's.
_PART, _COVERED = 4, 0.5
# Umlauts written as two letters, and as they are indexed.
_UMLAUTS = (("ae", "a"), ("oe", "o"), ("ue", "u"))


def spelled_like(spellings: list[str], postings: Postings) -> dict[str, float]:
    """Returns the terms that are most like a word or its stems, best first, with their weights.

    Nothing if none is: letters that no document has find nothing.
    """
    likenesses: dict[str, float] = {}
    folded = spellings[0]
    for letters, umlaut in _UMLAUTS:
        folded = folded.replace(letters, umlaut)
    for spelling in dict.fromkeys([*spellings, folded]):
        grams = trigrams(spelling)
        for term, shared in postings.similar_terms(spelling).items():
            likeness = 2 * shared / (len(grams) + len(trigrams(term)))
            shorter, longer = sorted((spelling, term), key=len)
            covered = len(shorter) / len(longer)
            if len(shorter) >= _PART and covered >= _COVERED and shorter in longer:
                likeness = max(likeness, 0.5 + 0.4 * covered)
            if likeness >= _ALIKE:
                likenesses[term] = max(likeness, likenesses.get(term, 0.0))
    best = sorted(likenesses, key=lambda term: (-likenesses[term], term))[:_MOST]
    return {term: round(0.9 * likenesses[term], 3) for term in best}
