"""Measures search by judged queries over manual pages: recall, time, size, the cost of a change.

    python -m bench.search [--man /usr/share/man] [--documents 3656]

Input: `bench/judged/LANGUAGE.tsv`, in each line a query and its right pages.
`bench/judged/README.md` says where the pages come from. Beside the workspace: bm25s, with and
without Snowball's stemmers, and tantivy, where they are installed, and SQLite's FTS5 with its
porter tokenizer. Each of them has whole documents, and its usual settings; tantivy is also measured
with the lead and the best chunk of a document (`bench.on_tantivy`). Queries are interleaved, one
thread each. Printed are the parts of the queries whose right page is among the first 1, 5 and 10
documents; the median time of a query, and its ratio to the workspace's; the index's size as a part
of the text; how many queries find the same after every tenth document was replaced and put back;
and processor time and memory of a process that indexes one changed document.
"""

from __future__ import annotations

import argparse
import platform
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bench.manual import pages
from bench.on_tantivy import OnTantivy
from mypt_infer.workspace import WorkspaceEngine

JUDGED = Path(__file__).parent / "judged"
MAN = {"english": ".", "german": "de"}
STOP = {"english": "en", "german": "de"}
FIRST = (1, 5, 10)
# Letters and words that no page has.
NOTHING = ("qzxqv wvvkj", "Mietpreisbremse", "brontosaurus gingerbread")
REFRESH = """
import sys, pathlib
from mypt_infer.workspace.build import refresh
report = refresh(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), None)
assert report.changed == 1
status = pathlib.Path("/proc/self/status").read_text()  # getrusage counts the parent's memory
print(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
"""
Search = Callable[[str], list[str]]


class Query(NamedTuple):
    """A query, and the names of the pages that answer it."""

    text: str
    right: frozenset[str]


def judged(language: str) -> list[Query]:
    lines = (JUDGED / f"{language}.tsv").read_text(encoding="utf-8").splitlines()
    parts = (line.split("\t") for line in lines)
    return [Query(text, frozenset(right.split())) for text, right in parts]


def workspace(base: Path, index: Path) -> tuple[WorkspaceEngine, Search]:
    began = time.process_time()
    engine = WorkspaceEngine(base, index)
    print(f"  indexed in {time.process_time() - began:.0f} s of processor time")
    names = {d.doc_id: Path(d.path).stem for d in engine.list_docs()}

    def search(query: str) -> list[str]:
        found = (names[chunk.doc_id] for chunk in engine.search(query, 30))
        return list(dict.fromkeys(found))[: max(FIRST)]

    return engine, search


def updated(
    base: Path, engine: WorkspaceEngine, texts: dict[str, str], queries: list[Query],
    index: OnTantivy, searches: dict[str, Search],
) -> None:  # fmt: skip
    """Prints how many queries find the same after documents were replaced and put back."""
    before = {name: [search(query.text) for query in queries] for name, search in searches.items()}
    names = list(texts)
    wrong = {name: texts[other] for name, other in zip(names[::10], names[5::10], strict=False)}
    for new in (wrong, {name: texts[name] for name in wrong}):
        for name, text in new.items():
            (base / f"{name}.txt").write_text(text, encoding="utf-8")
        engine.refresh()
        index.put(new, at_once=len(new))
    for name, search in searches.items():
        same = sum(search(q.text) == old for q, old in zip(queries, before[name], strict=True))
        print(f"  {len(wrong)} replaced and put back, {name}: {same} queries find the same")


def rivals(texts: dict[str, str], language: str) -> dict[str, Search]:
    """Returns searches of other engines over whole documents, those that are installed."""
    out = {f"FTS5 porter {sqlite3.sqlite_version}": _fts5(texts)}
    try:
        out[f"bm25s {version('bm25s')}"] = _bm25s(texts, language, None)
        import snowballstemmer

        stemmer = snowballstemmer.stemmer(language)
        out["bm25s, Snowball"] = _bm25s(texts, language, stemmer.stemWords)
    except ImportError as error:
        print(f"  not installed: {error.name}")
    try:
        out[f"tantivy {version('tantivy')}"] = _tantivy(texts)
    except ImportError as error:
        print(f"  not installed: {error.name}")
    return out


def _fts5(texts: dict[str, str]) -> Search:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(name UNINDEXED, text, tokenize='porter')")
    db.executemany("INSERT INTO t VALUES (?, ?)", texts.items())

    def search(query: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        rows = db.execute("SELECT name FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (words,))
        return [row[0] for row in rows]

    return search


def _bm25s(texts: dict[str, str], language: str, stemmer: Any) -> Search:
    import bm25s

    names = list(texts)

    def tokens(what: Any) -> Any:
        return bm25s.tokenize(what, stopwords=STOP[language], stemmer=stemmer, show_progress=False)

    engine = bm25s.BM25()
    engine.index(tokens(list(texts.values())), show_progress=False)

    def search(query: str) -> list[str]:
        found, _ = engine.retrieve(tokens(query), k=10, show_progress=False, n_threads=0)
        return [names[i] for i in found[0]]

    return search


def _tantivy(texts: dict[str, str]) -> Search:
    import tantivy

    fields = tantivy.SchemaBuilder()
    fields.add_text_field("text", tokenizer_name="en_stem")
    fields.add_text_field("name", stored=True, tokenizer_name="raw")
    index = tantivy.Index(fields.build())
    writer = index.writer()
    for name, text in texts.items():
        writer.add_document(tantivy.Document(text=text, name=name))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        parsed = index.parse_query(re.sub(r"\W", " ", query), ["text"])
        return [searcher.doc(at)["name"][0] for _, at in searcher.search(parsed, 10).hits]

    return search


def compare(queries: list[Query], searches: dict[str, Search]) -> None:
    """Prints recall and the median time of each search, queries interleaved."""
    hits = {name: [0] * len(FIRST) for name in searches}
    times: dict[str, list[float]] = {name: [] for name in searches}
    for query in queries:
        for name, search in searches.items():
            began = time.thread_time()
            found = search(query.text)
            times[name].append(time.thread_time() - began)
            for i, k in enumerate(FIRST):
                hits[name][i] += not query.right.isdisjoint(found[:k])
    own = statistics.median(times["workspace"])
    print(f"  {'':24} {' '.join(f'R@{k:<4}' for k in FIRST)}    p50, of the workspace's")
    for name, counts in hits.items():
        recall = " ".join(f"{count / len(queries):.3f} " for count in counts)
        middle = statistics.median(times[name])
        print(f"  {name:24} {recall} {middle * 1e3:8.2f} ms {middle / own:6.2f}")


def change(base: Path, index: Path) -> None:
    """Prints what it costs to index one changed document in a fresh process."""
    page = min(base.glob("*.txt"))
    page.write_text(page.read_text(encoding="utf-8") + "\nOne more line.\n", encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", REFRESH, str(base), str(index)]
    megabytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  one document changed: {spent:.2f} s of processor time, {megabytes} MB")


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(language: str, root: Path, most: int, temporary: Path) -> None:
    queries = judged(language)
    texts = pages(root / MAN[language], {name for q in queries for name in q.right}, most)
    there = [query for query in queries if not query.right.isdisjoint(texts)]
    base, index = temporary / language, temporary / f"index-{language}"
    base.mkdir()
    for name, text in texts.items():
        (base / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"{language}: {len(texts)} pages, {len(there)} of {len(queries)} queries")
    if not there:
        return
    engine, search = workspace(base, index)
    print(f"  index: {size(index) / size(base):.2f} of the text")
    searches = {"workspace": search} | rivals(texts, language)
    try:
        on_tantivy = OnTantivy(texts)
        searches["tantivy, lead, chunks"] = on_tantivy.search
    except ImportError:
        on_tantivy = None
    compare(there, searches)
    print(f"  hits for what no page has: {[len(engine.search(q)) for q in NOTHING]}")
    if on_tantivy is not None:
        both = {name: searches[name] for name in ("workspace", "tantivy, lead, chunks")}
        updated(base, engine, texts, there, on_tantivy, both)
    engine.close()
    change(base, index)


def main() -> None:
    options = argparse.ArgumentParser(description="Search, measured with judged queries.")
    options.add_argument("--man", type=Path, default=Path("/usr/share/man"))
    options.add_argument("--documents", type=int, default=3656)
    options.add_argument("--languages", nargs="*", default=list(MAN))
    chosen = options.parse_args()
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    with tempfile.TemporaryDirectory() as temporary:
        for language in chosen.languages:
            measure(language, chosen.man, chosen.documents, Path(temporary))


if __name__ == "__main__":
    main()
