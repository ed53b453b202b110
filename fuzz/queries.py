"""No query breaks the search of a workspace, and every result can be fetched by its id.

That holds whatever the query means to a query language.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from fuzz.driver import run
from mypt_infer.workspace import WorkspaceEngine

SYNTAX = [
    '"',
    "'",
    "*",
    "^",
    "(",
    ")",
    ":",
    "+",
    "-",
    "{",
    "}",
    "NEAR",
    "AND",
    "OR",
    "NOT",
    "NEAR(",
    "title",
    "rowid",
    "\0",
    "é",
    "漢字",
    "_",
    "\\",
    " ",
    "alpha",
    "beta",
]
STRATEGY = st.one_of(st.text(), st.lists(st.sampled_from(SYNTAX)).map("".join))


@cache
def _engine() -> tuple[WorkspaceEngine, tempfile.TemporaryDirectory[str]]:
    folder = tempfile.TemporaryDirectory()
    base = Path(folder.name) / "docs"
    base.mkdir()
    for name, text in {
        "a.txt": "alpha beta",
        "b.md": "# beta\n\ngamma NEAR title",
        "c.txt": "漢字仮名 \\ _ é",
    }.items():
        (base / name).write_text(text, encoding="utf-8")
    return WorkspaceEngine(base, Path(folder.name) / "index"), folder


def check(query: str) -> None:
    engine, _ = _engine()
    for chunk in engine.search(query, 50):
        assert engine.get_chunk(chunk.chunk_id) == chunk
    assert engine.get_doc(query) is None
    assert engine.get_chunk(query) is None


if __name__ == "__main__":
    run("queries")
