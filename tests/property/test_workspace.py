"""No query breaks the search, and no text is lost in the index."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.workspace import WorkspaceEngine
from mypt_infer.workspace.files import odd, printable_path
from mypt_infer.workspace.index.model import cut
from mypt_infer.workspace.readers import Unreadable, read
from tests.support.examples import examples

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
    "\ud800",
    "é",
    "漢字",
    "_",
    "\\",
    " ",
]
QUERIES = st.one_of(
    st.text(st.characters(exclude_categories=[])),
    st.lists(st.sampled_from([*SYNTAX, "alpha", "beta"])).map("".join),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceEngine:
    base = tmp_path_factory.mktemp("docs")
    for name, text in {
        "a.txt": "alpha beta",
        "b.md": "# beta\n\ngamma NEAR title",
        "c.txt": "漢字仮名 \\ _ é",
    }.items():
        (base / name).write_text(text, encoding="utf-8")
    return WorkspaceEngine(base, tmp_path_factory.mktemp("index"))


@settings(max_examples=examples(1000))
@given(query=QUERIES, top_k=st.integers(1, 50))
def test_every_text_is_a_query(engine: WorkspaceEngine, query: str, top_k: int) -> None:
    found = engine.search(query, top_k)
    assert len({c.chunk_id for c in found}) == len(found) <= top_k
    if "alpha" in query.replace("_", " ").split():
        assert found
        assert engine.get_chunk(found[0].chunk_id) == found[0]


@given(key=QUERIES)
def test_every_text_is_a_key(engine: WorkspaceEngine, key: str) -> None:
    assert engine.get_doc(key) is engine.get_doc_text(key) is engine.get_chunk(key) is None
    assert isinstance(engine.find_docs(key), list)


@given(text=st.text(), size=st.integers(3, 50))
def test_pieces_joined_are_the_text(text: str, size: int) -> None:
    pieces = list(cut(text, size))
    assert "".join(pieces) == text
    assert all(0 < len(p) <= size for p in pieces)


@given(
    name=st.sampled_from(["a.txt", "a.md", "a.html", "a", "a.unknown"]),
    data=st.one_of(st.binary(), st.text().map(str.encode)),
)
def test_any_bytes_are_a_document_or_say_why_not(name: str, data: bytes) -> None:
    try:
        content = read(name, data)
    except Unreadable:
        return
    assert content.text.strip()
    assert content.title
    assert "\n" not in content.title


@given(path=st.text(st.characters(exclude_categories=[])))
def test_paths_can_be_shown(path: str) -> None:
    assert not odd(printable_path(path)) or len(path) > 1000
    assert Path(printable_path(path)) == Path(path) or odd(path)
