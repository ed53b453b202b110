"""Holds what an index is made of, all in one SQLite file and two files beside it.

`documents` puts documents in and takes them out. By words: `terms` takes texts apart,
`postings` keeps where terms are, `ranking` scores, `searcher` finds what a word may mean. By
likeness: `rows` keeps the files of vectors, and `build` fills them.

FTS5 was here before. Its BM25 weighs all words of a query alike, it ranks either chunks or
documents, and its time grows with the texts (`docs/workspace_api.md`). tantivy ranks as well as
this, but an index that was updated would answer otherwise than a new one (`bench/RESULTS.md`).
"""
