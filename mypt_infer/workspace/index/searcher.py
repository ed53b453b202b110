"""Finds the chunks that fit a query, in one state of an index.

Input: a query. Output: chunks with scores, best first. Words and vectors each have a score from 0
to 1 for every document; both are added up, by the embedder's weight.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

import numpy as np

from mypt_infer.workspace.index.embed import Embedder, Floats, vectors_for
from mypt_infer.workspace.index.postings import Postings, trigrams
from mypt_infer.workspace.index.ranking import Word, lengths, rank
from mypt_infer.workspace.index.store import state
from mypt_infer.workspace.index.terms import concepts

# The most words of a query that are searched for, and the most chunks of one document.
_WORDS, _OF_ONE = 48, 50
# What is left of the score of a document's second chunk, of that of its third ...
_NEXT = 0.8
# Less alike than this, two words are not the same; the share of trigrams of both that both have.
_ALIKE = 0.5
# The most terms for a word.
_MOST = 8
# A part of a compound has so many letters, and this share of the compound's.
_PART, _COVERED = 4, 0.5
# Umlauts written as two letters, and as they are indexed.
_UMLAUTS = (("ae", "a"), ("oe", "o"), ("ue", "u"))


class Searcher:
    """What a search needs of an index, in memory."""

    def __init__(self, db: sqlite3.Connection, embedder: Embedder | None) -> None:
        now = state(db)
        self._lengths = lengths(db)
        languages = db.execute("SELECT DISTINCT language FROM docs ORDER BY language")
        self._languages = [row[0] for row in languages] or [""]
        self._dimensions = int(now["dimensions"])
        self._embedder: Embedder | None = None
        if embedder is not None and embedder.name == now["embedder"] and self._dimensions:
            self._embedder = embedder
            size = len(self._lengths.chunk), self._dimensions
            self._vectors = np.zeros(size, dtype=np.float32)  # zeros have no likeness
            query = "SELECT first, chunks, vectors FROM docs WHERE vectors IS NOT NULL"
            for first, chunks, data in db.execute(query):
                vectors = np.frombuffer(data, dtype="<f4").reshape(chunks, -1)
                self._vectors[first : first + chunks] = vectors

    def hits(
        self, db: sqlite3.Connection, query: str, top_k: int
    ) -> Iterator[tuple[str, int, int, float]]:
        """Yields id and first chunk of a document, the number of a chunk of it, and its score.

        The best first, at least `top_k` if so many fit. Raises EmbedderError.
        """
        sizes = self._lengths
        if not len(sizes.ids):
            return
        docs, chunks = rank(self._words(Postings(db), query), sizes)
        if self._embedder is not None:
            likeness = self._likeness(self._embedder, query)
            weight = np.float32(self._embedder.weight)
            doc_likeness = np.maximum.reduceat(likeness, sizes.first)
            docs = ((docs + weight * doc_likeness) / (1 + weight)).astype(np.float32)
            chunks = ((chunks + weight * likeness) / (1 + weight)).astype(np.float32)
        most = min(len(docs), 4 * top_k)
        best = {int(sizes.ids[i]): int(i) for i in np.argpartition(-docs, most - 1)[:most]}
        marks = ",".join(map(str, best))
        names = db.execute(f"SELECT doc_id, id FROM docs WHERE id IN ({marks})").fetchall()
        # Equal scores are in the order of ids, whenever their documents were indexed.
        heap = [(-round(float(docs[best[key]]), 5), name, 0, best[key]) for name, key in names]
        heap = [entry for entry in heap if docs[entry[3]] > 0]
        heapify(heap)
        orders: dict[int, list[int]] = {}
        while heap:
            score, name, nth, doc = heappop(heap)
            first = int(sizes.first[doc])
            chunk_scores = np.round(chunks[first : first + int(sizes.count[doc])], 5)
            if doc not in orders:
                orders[doc] = np.argsort(-chunk_scores, kind="stable")[:_OF_ONE].tolist()
            order = orders[doc]
            yield name, first, first + order[nth], min(1.0, -score)
            if nth + 1 < len(order) and chunk_scores[order[nth + 1]]:
                # A chunk that is not the best of its document scores less by the difference.
                less = float(docs[doc] - chunk_scores[order[0]] + chunk_scores[order[nth + 1]])
                less = round(less * _NEXT ** (nth + 1), 5)
                heappush(heap, (-less, name, nth + 1, doc))

    def _words(self, postings: Postings, query: str) -> Iterator[Word]:
        pairs = concepts(query, self._languages, _WORDS)
        ids = postings.ids({term for _, terms in pairs for term in terms})
        for word, terms in pairs:
            here = _united(postings, [ids[term] for term in terms if term in ids])
            if len(here.postings):
                yield here
            elif len(word) == 1 and not word.isascii():
                yield _united(postings, postings.ids(postings.beginning(word)).values())
            else:
                similar = _spelled_like([word, *terms], postings)
                best = max(similar.values(), default=0)
                alike = postings.ids(term for term in similar if similar[term] >= 0.85 * best)
                yield _united(postings, alike.values())._replace(weight=best)

    def _likeness(self, embedder: Embedder, query: str) -> Floats:
        """Returns the likeness of each chunk's vector to the query's; 0 below the floor."""
        (vector,) = vectors_for(embedder, [query], self._dimensions)
        likeness: Floats = np.array(self._vectors @ vector)
        likeness[likeness < embedder.floor] = 0
        return likeness


def _united(postings: Postings, terms: Iterable[int]) -> Word:
    """Returns the postings of several terms as those of one word."""
    lists = [postings.postings_of(term) for term in terms]
    if len(lists) == 1:
        return Word(lists[0])
    if not lists:
        return Word(np.zeros(0, dtype=np.uint32))
    every = np.sort(np.concatenate(lists))
    # Of a chunk with several of the terms, the one that it has most often counts.
    return Word(every[np.r_[every[1:] >> 8 != every[:-1] >> 8, True]])


def _spelled_like(spellings: list[str], postings: Postings) -> dict[str, float]:
    """Returns terms that a word which no document has, or its stems, may mean, best first.

    Each has a weight below 1: a slip of the pen, a part of a compound, or a compound of words that
    there are. Letters that no document has find nothing.
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
