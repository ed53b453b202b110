"""Searches on tantivy as the workspace does: text, lead and best chunk, with Snowball's stemmers.

Input: texts of documents by name, and queries. Output: names, best first. `bench.search` measures
whether the index of the workspace could be built on tantivy. Documents and chunks are two indexes,
because the rarity of a word is counted over all that an index holds. tantivy replaces a document by
deleting it and adding the new one; a deleted document counts in the rarity of words and in the
average length until tantivy merges its segment, which its Python package cannot ask for.
"""

from __future__ import annotations

from typing import Any

from mypt_infer.workspace.index.model import cut
from mypt_infer.workspace.index.terms import STOP, language_for, words_of
from mypt_infer.workspace.readers import read

_LANGUAGES = {"en": "english", "de": "german", "": None}
_DEEP, _HEAP, _LEAD = 400, 15_000_000, 200


class OnTantivy:
    """An index of documents, and one of their chunks, in memory."""

    def __init__(self, texts: dict[str, str]) -> None:
        import tantivy

        self._tantivy = tantivy
        self._analyzers = {name: self._analyzer(name, False) for name in _LANGUAGES}
        fields = tantivy.SchemaBuilder()
        for name in (
            f"{field}_{language}" for language in _LANGUAGES for field in ("text", "lead")
        ):
            fields.add_text_field(name, tokenizer_name=name, index_option="freq")
        fields.add_integer_field("number", indexed=True, fast=True)
        self._schema = fields.build()
        self._indexes = [tantivy.Index(self._schema) for _ in ("documents", "chunks")]
        for index in self._indexes:
            for name in _LANGUAGES:
                # In a lead, stop words count: there, they may be names.
                index.register_tokenizer(f"text_{name}", self._analyzer(name, True))
                index.register_tokenizer(f"lead_{name}", self._analyzers[name])
        self._writers = [index.writer(_HEAP, 1) for index in self._indexes]
        self._names, self._there = list(texts), set[str]()
        self._numbers = {name: number for number, name in enumerate(texts)}
        self.put(texts, at_once=len(texts))

    def _analyzer(self, language: str, stop: bool) -> Any:
        tokenizer, keep = self._tantivy.Tokenizer, self._tantivy.Filter
        out = self._tantivy.TextAnalyzerBuilder(tokenizer.regex(r"[^\W_]+"))
        out = out.filter(keep.remove_long(60)).filter(keep.lowercase())
        if name := _LANGUAGES[language]:
            out = out.filter(keep.stopword(name)) if stop else out
            out = out.filter(keep.stemmer(name))
        return out.filter(keep.ascii_fold()).build()

    def put(self, texts: dict[str, str], *, at_once: int = 1) -> None:
        """Replaces the texts of documents, so many in one commit."""
        for count, (name, source) in enumerate(texts.items(), 1):
            title, text = read(f"{name}.txt", source.encode())
            language, number = language_for(text), self._numbers[name]
            self._there.add(language)
            chunks = [*cut(text)]
            lead = "\n".join((title, f"{name}.txt", "".join(chunks[:2]).lstrip()[:_LEAD]))
            for writer in self._writers:
                writer.delete_documents_by_term("number", number)
            self._add(0, number, **{f"text_{language}": text, f"lead_{language}": lead})
            for chunk in chunks:
                self._add(1, number, **{f"text_{language}": chunk})
            if count % at_once == 0:
                for writer in self._writers:
                    writer.commit()
        for index in self._indexes:
            index.reload()
        self._searchers = [index.searcher() for index in self._indexes]

    def _add(self, which: int, number: int, **fields: str) -> None:
        document = self._tantivy.Document(**fields)
        document.add_integer("number", number)
        self._writers[which].add_document(document)

    def search(self, query: str, most: int = 10) -> list[str]:
        """Returns the names of the documents that fit a query best."""
        stop = frozenset[str]().union(*(STOP.get(name, ()) for name in self._there))
        words = list(dict.fromkeys(words_of(query)))
        words = [word for word in words if word not in stop] or words
        scores = self._best(0, self._query(words, "text", "lead"))
        for number, score in self._best(1, self._query(words, "text")).items():
            scores[number] = scores.get(number, 0.0) + score
        return [self._names[n] for n in sorted(scores, key=lambda n: -scores[n])[:most]]

    def _query(self, words: list[str], *fields: str) -> Any:
        query, should = self._tantivy.Query, self._tantivy.Occur.Should
        terms = [
            (name, t) for word in words for name in self._there for t in self._terms(name, word)
        ]
        return query.boolean_query(
            [
                (should, query.term_query(self._schema, f"{field}_{name}", term))
                for field in fields
                for name, term in dict.fromkeys(terms)
            ]
        )

    def _terms(self, language: str, word: str) -> list[str]:
        terms: list[str] = self._analyzers[language].analyze(word)
        return terms

    def _best(self, which: int, query: Any) -> dict[int, float]:
        searcher = self._searchers[which]
        hits = searcher.search(query, _DEEP).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        out: dict[int, float] = {}
        for (score, _), number in zip(hits, numbers, strict=True):
            out.setdefault(number, score)
        return out
