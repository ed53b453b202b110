"""Measures search on manual pages: recall@10 of title queries, and latency against others.

    python -m bench.search [--man /usr/share/man] [--documents 2000] [--queries 500] [--letters N]
    [--embed]

The others are bm25s and tantivy; one thread, interleaved, medians. A page becomes a text file named
by its page, with the title "name - what it does" (of the section NAME) as its first line. Three
kinds of query: the whole title; only what the page does, without its name; and the same where the
pages are indexed without the section NAME, under numbers for names, so that only the body can
answer. A hit: the page, or one with the same title, among the first ten documents.
"""

from __future__ import annotations

import argparse
import gzip
import platform
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from mypt_infer.workspace import Embedder, HashingEmbedder, WorkspaceEngine

_FONT = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\s[-+]?\d|\\[&|^%:/,]")
_CHARS = {
    r"\-": "-",
    r"\(aq": "'",
    r"\(cq": "'",
    r"\(oq": "'",
    r"\(dq": '"',
    r"\e": "\\",
    r"\ ": " ",
    r"\(em": "-",
    r"\(bu": "-",
}
TOP = 10


class Page(NamedTuple):
    name: str
    does: str
    body: str


def plain(source: str) -> str:
    """Returns the text of a manual page, without its macros: good enough to search."""
    lines = []
    for line in source.splitlines():
        if line.startswith(('.\\"', "'\\\"", "..")):
            continue
        if line.startswith((".", "'")):
            macro, _, rest = line[1:].strip().partition(" ")
            line = (
                f"\n{rest}"
                if macro in ("SH", "SS", "Sh", "Ss")
                else ""
                if macro in ("TH", "Dd", "Dt", "Os", "so", "de", "ds", "nr", "if", "ie", "el")
                else rest
            )
        for spelled, char in _CHARS.items():
            line = line.replace(spelled, char)
        lines.append(_FONT.sub("", line).replace('"', ""))
    return "\n".join(lines)


def pages(root: Path, count: int, seed: int) -> list[Page]:
    """Returns a sample of the English pages that say in one line what they are; none twice."""
    out: dict[str, Page] = {}
    files = [
        f
        for folder in sorted(root.glob("man[1-8]"))
        for f in sorted(folder.glob("*.gz"))
        if not f.is_symlink()
    ]
    random.Random(seed).shuffle(files)
    for file in files:
        source = gzip.decompress(file.read_bytes()).decode("utf-8", "replace")
        text = re.split(r"^\.(?:SH|Sh) *\"?NAME\"?.*\n", source, maxsplit=1, flags=re.MULTILINE)
        if len(text) < 2 or len(out) == count:
            continue
        name, _, rest = text[1].partition("\n.SH")
        title = re.fullmatch(r"(\S+(?:, \S+)*) +-+ +(.{8,150})", " ".join(plain(name).split()))
        if title and title[0] not in out:
            out[title[0]] = Page(title[1], title[2], plain(".SH" + rest))
    return list(out.values())


def write(found: list[Page], folder: Path, *, titled: bool) -> dict[str, str]:
    """Writes the pages as files. Returns what each page does, by path."""
    does = {}
    for i, page in enumerate(found):
        path = (
            f"{re.sub(r'[^A-Za-z0-9_.-]', '_', page.name)[:80]}-{i}.txt" if titled else f"{i}.txt"
        )
        (folder / path).write_text(
            f"{page.name} - {page.does}\n\n{page.body}" if titled else f"\n\n\n{page.body}",
            encoding="utf-8",
        )
        does[path] = page.does
    return does


def recall(engine: WorkspaceEngine, does: dict[str, str], asked: list[tuple[str, str]]) -> float:
    """Returns the share of queries for which the wanted page is among the first documents.

    A query comes with what the wanted page does.
    """
    path = {d.doc_id: d.path for d in engine.list_docs()}
    hits = 0
    for query, wanted in asked:
        found = list(dict.fromkeys(c.doc_id for c in engine.search(query, 3 * TOP)))[:TOP]
        hits += any(does[path[key]] == wanted for key in found)
    return hits / len(asked)


def rivals(texts: list[str]) -> dict[str, Callable[[str], Any]]:
    """Returns other engines over the same chunks, those that are installed.

    Each is a function from a query to its first results.
    """
    out: dict[str, Callable[[str], Any]] = {}
    try:
        import bm25s

        retriever = bm25s.BM25()
        retriever.index(
            bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False
        )
        out[f"bm25s {version('bm25s')}"] = lambda q: retriever.retrieve(
            bm25s.tokenize(q, stopwords="en", show_progress=False),
            k=TOP,
            show_progress=False,
            n_threads=0,
        )
    except ImportError:
        pass
    try:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", tokenizer_name="en_stem")
        index = tantivy.Index(builder.build())
        writer = index.writer()
        for text in texts:
            writer.add_document(tantivy.Document(text=text))
        writer.commit()
        index.reload()
        searcher = index.searcher()
        out[f"tantivy {version('tantivy')}"] = lambda q: (
            searcher.search(index.parse_query(re.sub(r"\W", " ", q), ["text"]), TOP).hits
        )
    except (ImportError, PackageNotFoundError):
        pass
    return out


def main() -> None:
    options = argparse.ArgumentParser(
        description="Recall and latency of the workspace's search on manual pages."
    )
    options.add_argument("--man", type=Path, default=Path("/usr/share/man"))
    options.add_argument("--documents", type=int, default=2000)
    options.add_argument("--queries", type=int, default=500)
    options.add_argument(
        "--letters",
        type=int,
        default=1_000_000,
        help="of a page that are taken: vectors of a model take time",
    )
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--embed", action="store_true", help="with MiniLM (extra embed), too")
    chosen = options.parse_args()
    found = [
        p._replace(body=p.body[: chosen.letters])
        for p in pages(chosen.man, chosen.documents, chosen.seed)
    ]
    sample = random.Random(chosen.seed).sample(found, min(chosen.queries, len(found)))
    embedders: list[Embedder] = [HashingEmbedder()]
    if chosen.embed:
        from mypt_infer.workspace.minilm import MiniLM

        embedders.append(MiniLM())
    print(
        f"{len(found)} manual pages, {len(sample)} queries; Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}"
    )
    with tempfile.TemporaryDirectory() as temporary:
        for embedder in embedders:
            compare(found, sample, embedder, Path(temporary))


def compare(found: list[Page], sample: list[Page], embedder: Embedder, temporary: Path) -> None:
    for titled in (True, False):
        folder = temporary / f"{embedder.name}-{titled}"
        folder.mkdir()
        does = write(found, folder, titled=titled)
        began = time.perf_counter()
        engine = WorkspaceEngine(
            folder, temporary / f"index-{embedder.name}-{titled}", embedder=embedder
        )
        print(
            f"{embedder.name}, {'with' if titled else 'without'} the section NAME: indexed in "
            f"{time.perf_counter() - began:.1f} s"
        )
        kinds = (
            {"whole title": [(f"{p.name} - {p.does}", p.does) for p in sample]} if titled else {}
        )
        kinds["what it does"] = [(p.does, p.does) for p in sample]
        for kind, asked in kinds.items():
            print(f"  recall@{TOP}, {kind:13} {recall(engine, does, asked):.3f}")
        if titled:
            latency(engine, [p.does for p in sample[:200]])


def latency(engine: WorkspaceEngine, queries: list[str]) -> None:
    chunks = [
        str(row[0])
        for row in engine._all("SELECT title || char(10) || text FROM passages ORDER BY id")
    ]
    runs: dict[str, Callable[[str], Any]] = {"workspace": lambda q: engine.search(q, TOP)} | rivals(
        chunks
    )
    times: dict[str, list[float]] = {name: [] for name in runs}
    for query in queries:
        for name, run in runs.items():
            began = time.perf_counter()
            run(query)
            times[name].append(time.perf_counter() - began)
    own = statistics.median(times["workspace"])
    for name, spent in times.items():
        middle = statistics.median(spent)
        print(
            f"  p50 of a query, {len(chunks)} chunks: {name:16} {middle * 1e3:7.2f} ms, "
            f"{middle / own:5.2f} of the workspace's"
        )


if __name__ == "__main__":
    main()
