"""Runs `mypt-index`: brings the index of a folder up to date, and searches it.

The summary goes to stdout, progress and what was left out to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.progress import Bar

if TYPE_CHECKING:
    from mypt_infer.workspace.build import Report
    from mypt_infer.workspace.engine import WorkspaceEngine
    from mypt_infer.workspace.index.model import Chunk

# The number of characters that are shown of a text that was found.
_WIDTH = 160

PROG = "mypt-index"


def _run(chosen: argparse.Namespace) -> None:
    from mypt_infer.workspace.build import refresh
    from mypt_infer.workspace.engine import WorkspaceEngine
    from mypt_infer.workspace.index.embed import embedder_for
    from mypt_infer.workspace.index.store import default_index, embedder_of

    base = Path(chosen.folder)
    if not base.is_dir():
        raise NotADirectoryError(f"{base} is not a folder")
    index = Path(chosen.index_dir) if chosen.index_dir else default_index(base)
    embedder_for(None, embedder_of(index), index)
    with Bar(0, unit="files", quiet=chosen.quiet) as bar:
        report = refresh(base, index, None, progress=bar.show)
    serves = chosen.mcp or chosen.mcp_port is not None
    if not chosen.quiet:
        # What a client reads on stdout is the protocol's alone.
        with contextlib.redirect_stdout(sys.stderr if serves else sys.stdout):
            _summary(report, index, verbose=chosen.verbose)
    if serves:
        _offer(WorkspaceEngine(base, index), chosen.mcp_port)
    if chosen.search is not None:
        engine = WorkspaceEngine(base, index)
        _hits(engine, engine.search(chosen.search, chosen.top_k))


def _offer(engine: WorkspaceEngine, port: int | None) -> None:
    """Offers the tools of a workspace by the Model Context Protocol, until the client goes."""
    try:
        from mypt_infer.mcp.offer import serve_http, serve_stdio, server_of
    except ImportError:
        raise RuntimeError("--mcp needs the package mcp: pip install 'mypt-tags[mcp]'") from None
    from mypt_infer.workspace.tools import WorkspaceTools, toolbox
    from mypt_spec import __version__

    server = server_of(
        toolbox(WorkspaceTools(engine)), name=PROG, version=__version__, seconds=30.0
    )
    if port is None:
        serve_stdio(server)
    else:
        print(f"{PROG}: http://127.0.0.1:{port}/mcp", file=sys.stderr)
        serve_http(server, port)


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
            end = display.ellipsis if len(text) > _WIDTH else ""
            print(display.line(place), f"    {display.line(text[:_WIDTH])}{end}", sep="\n")


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


main = Command(
    PROG,
    __file__,
    options(__file__),
    _run,
    errors=(ValueError, RuntimeError),
    interrupted="interrupted; the index is whole, and mypt-index goes on where it was stopped",
)

if __name__ == "__main__":
    sys.exit(main())
