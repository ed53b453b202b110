"""The workspace: documents, search, and files that are never read."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt_infer.workspace import (
    Chunk,
    Document,
    IndexBusyError,
    WorkspaceEngine,
    WorkspaceError,
)
from mypt_infer.workspace import build as building
from mypt_infer.workspace.index.store import META, SQLITE, VECTORS, current, locked
from tests.support.build import contents, write_texts
from tests.support.embedder import HashingEmbedder
from tests.support.tolerance import assert_close

POLICY = "Security Policy v2\n\nPasswords:\n- Minimum 12 characters\n- Rotate every 90 days\n"


FILES = {
    "policy.txt": POLICY,
    "deep/ml.md": "# Intro to ML\n\nMachine learning is the study of algorithms that improve by experience.\n",
    "page.html": "<html><head><title>Größen &amp; Maße</title><script>var secret</script></head><body><p>Ein Kilogramm</p></body></html>",
}  # fmt: skip


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "docs", FILES)


@pytest.fixture
def engine(base: Path, tmp_path: Path) -> WorkspaceEngine:
    return WorkspaceEngine(base, tmp_path / "index")


def ids(engine: WorkspaceEngine) -> dict[str, str]:
    return {d.path: d.doc_id for d in engine.list_docs()}


def test_documents_as_the_seed_has_them(engine: WorkspaceEngine, base: Path) -> None:
    docs = engine.list_docs()
    titles = {"deep/ml.md": "Intro to ML", "page.html": "Größen & Maße", "policy.txt": "Security Policy v2"}  # fmt: skip
    assert {d.path: d.title for d in docs} == titles
    assert [d.path for d in docs] == sorted(titles)
    policy, changed = docs[-1], (base / "policy.txt").stat().st_mtime
    assert policy == Document(policy.doc_id, "Security Policy v2", "policy.txt", changed, changed)
    assert engine.get_doc(policy.doc_id) == policy
    assert engine.get_doc_text(policy.doc_id) == POLICY
    assert engine.find_docs("security  policy V2") == [policy]
    chunk = engine.search("password rotation every 90 days", top_k=1)[0]
    assert chunk == Chunk(f"{policy.doc_id}#0", policy.doc_id, POLICY, 0)
    assert engine.get_chunk(chunk.chunk_id) == chunk
    assert "secret" not in str(engine.get_doc_text(ids(engine)["page.html"]))


def test_ids_are_keys_not_paths(engine: WorkspaceEngine) -> None:
    document = engine.list_docs()[0].doc_id
    for key in ("", "nothing", "../policy.txt", "policy.txt", "/etc/passwd", "#0", "x#1", "\0", "\ud800", "%", "' OR 1=1 --"):  # fmt: skip
        assert engine.get_doc(key) is None
        assert engine.get_doc_text(key) is None
        assert engine.get_chunk(key) is None
        assert engine.get_chunk(f"{document}#{key}") is None
    for position in ("00", "+0", " 0", "٠", "0 ", "9999999999999999999999"):
        assert engine.get_chunk(f"{document}#{position}") is None, "a chunk has one id"


def test_search_falls_back_to_pieces_of_words(engine: WorkspaceEngine) -> None:
    def first(query: str) -> str:
        return engine.search(query, 1)[0].doc_id

    documents = ids(engine)
    assert first("pasword minmum") == documents["policy.txt"]
    assert first("ilogram") == first("größen") == first("GROSSEN") == documents["page.html"]
    assert engine.search("grossen masse") == engine.search("grossen masse"), "the same every time"


def test_a_query_has_no_syntax(engine: WorkspaceEngine) -> None:
    for query in ("", " ", '"', "*", "AND", "a OR", "NEAR(a b)", "title:x", "^x", "(", "-", "_", "\0", "\ud800", "x" * 100_000, "a " * 50_000):  # fmt: skip
        assert len(engine.search(query, 50)) <= 50


def test_top_k_is_bounded(engine: WorkspaceEngine) -> None:
    for top_k in (0, -1, 51):
        with pytest.raises(ValueError, match="1 to 50"):
            engine.search("x", top_k)


def test_links_devices_and_odd_names_are_never_read(base: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("topsecret")
    (base / "link.txt").symlink_to(outside / "secret.txt")
    (base / "linked").symlink_to(outside)
    (base / "up.txt").symlink_to("../outside/secret.txt")
    (base / "loop").symlink_to(base)
    os.mkfifo(base / "pipe.txt")
    (base / "a\nb.txt").write_text("topsecret")
    (base / "\u202egnp.txt").write_text("topsecret")
    (base / ".hidden").write_text("topsecret")
    Path(os.fsdecode(os.fsencode(base) + b"/\xff.txt")).write_text("topsecret")
    (base / "binary.txt").write_bytes(b"topsecret\0")
    (base / "latin.txt").write_bytes("topsecret é".encode("latin-1"))
    (base / "empty.txt").write_text(" \n")
    engine = WorkspaceEngine(base, tmp_path / "index")
    assert len(engine.list_docs()) == 3
    assert all("topsecret" not in c.text for c in engine.search("topsecret", 50))
    assert b"topsecret" not in b"".join(contents(tmp_path / "index").values())
    reasons = {s.path: s.reason for s in engine.refresh().skipped}
    odd = "a name with characters that cannot be shown"
    assert [reasons.pop(name) for name in ("link.txt", "linked", "up.txt", "loop")] == [
        "a link"
    ] * 4
    assert reasons.pop("pipe.txt") == "no regular file"
    names = ("a\\nb.txt", "\\udcff.txt", "\\u202egnp.txt")
    assert [reasons.pop(name) for name in names] == [odd] * 3
    assert "UTF-8" in reasons.pop("latin.txt")
    assert "zero" in reasons.pop("binary.txt")
    assert reasons == {"empty.txt": "empty"}


def test_a_folder_that_becomes_a_link_is_not_followed(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "ml.md").write_text("topsecret")
    opened = os.open
    swapped: list[str] = []

    def swap(path: Any, *rest: Any, **named: Any) -> int:
        if path == "deep" and len(swapped) == times:
            (base / "deep").rename(tmp_path / f"moved-{times}")
            (base / "deep").symlink_to(outside)
        swapped.extend([path] if path == "deep" else [])
        return opened(path, *rest, **named)

    for times in (0, 1):  # before the folder is entered, and before its file is read
        with monkeypatch.context() as patch:
            patch.setattr("os.open", swap)
            engine = WorkspaceEngine(base, tmp_path / f"index-{times}")
        assert len(swapped) > times
        assert [d.path for d in engine.list_docs()] == ["page.html", "policy.txt"]
        (base / "deep").unlink()
        (tmp_path / f"moved-{times}").rename(base / "deep")
        swapped.clear()


def test_a_deep_tree(base: Path, tmp_path: Path) -> None:
    here = os.open(base, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    engine = WorkspaceEngine(base, tmp_path / "index")
    assert [s.reason for s in engine.refresh().skipped] == ["more than 64 folders deep"]
    assert len(engine.list_docs()) == 3


def test_refresh_reads_only_what_changed(base: Path, tmp_path: Path) -> None:
    embedded: list[str] = []

    def embedder(texts: list[str]) -> np.ndarray[Any, Any]:
        embedded.extend(texts)
        return HashingEmbedder().embed(texts)

    engine = WorkspaceEngine(base, tmp_path / "index", embedder=embedder)
    assert len(embedded) == 3
    before, folder = ids(engine), current(engine.index_dir)
    assert engine.refresh() == building.Report(3, 3)
    assert current(engine.index_dir) == folder, "nothing changed, nothing written"
    embedded.clear()
    (base / "policy.txt").write_text("Policy v3\n\nNo passwords.\n")
    (base / "new.txt").write_text("Zeppelin\n")
    (base / "page.html").unlink()
    os.utime(base / "deep" / "ml.md", (1, 1))  # touched, not changed
    report = engine.refresh()
    assert (report.documents, report.added, report.changed, report.removed) == (3, 1, 1, 1)
    assert len(embedded) == 2
    assert ids(engine)["policy.txt"] == before["policy.txt"]
    assert engine.search("zeppelin", 1)[0].text == "Zeppelin\n"
    assert all("Kilogramm" not in c.text for c in engine.search("Kilogramm", 50))
    doc = engine.get_doc(before["policy.txt"])
    assert doc is not None
    assert doc.title == "Policy v3"
    assert doc.updated_at >= doc.created_at
    ml = engine.get_doc(before["deep/ml.md"])
    assert ml is not None
    assert ml.updated_at > 1


def rows(engine: WorkspaceEngine) -> dict[str, tuple[Any, ...]]:
    """Returns lines and vectors of the index's files, by chunk id."""
    folder = current(engine.index_dir)
    assert folder is not None
    lines = [json.loads(line) for line in (folder / META).read_text().splitlines()]
    vectors = np.load(folder / VECTORS)
    assert len(vectors) == len(lines)
    pairs = zip(lines, vectors, strict=True)
    return {line["chunk_id"]: (line, *vector.tolist()) for line, vector in pairs}


@pytest.mark.parametrize("many", [0, 1000])
def test_an_updated_index_is_as_a_new_one(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(building, "_MANY", many)  # in the index itself, or in a copy
    engine = WorkspaceEngine(base, tmp_path / "index", embedder=HashingEmbedder())
    (base / "policy.txt").write_text("Policy v3\n\n" + "No passwords at all. " * 200)
    (base / "aaa.txt").write_text("Zeppelin\n")
    (base / "page.html").unlink()
    engine.refresh()
    new = WorkspaceEngine(base, tmp_path / "other", embedder=HashingEmbedder())
    assert rows(engine) == rows(new)
    for query in ("password", "zeppelin", "machine learning", "pasword", "kilogramm"):
        hits, expected = engine.search(query, 10), new.search(query, 10)
        assert [(c, c.score) for c in hits] == [(c, c.score) for c in expected]


def test_ids_stay_when_the_folder_moves(engine: WorkspaceEngine, base: Path) -> None:
    before = ids(engine)
    moved = base.rename(base.with_name("elsewhere"))
    assert ids(WorkspaceEngine(moved, engine.index_dir)) == before
    assert ids(WorkspaceEngine(moved, base.with_name("fresh"))) == before
    assert WorkspaceEngine(moved, engine.index_dir).refresh() == building.Report(3, 3)


@pytest.mark.numeric
def test_the_seeds_files(base: Path, tmp_path: Path) -> None:
    engine = WorkspaceEngine(base, tmp_path / "index", embedder=HashingEmbedder())
    folder = current(engine.index_dir)
    assert folder is not None
    vectors = np.load(folder / VECTORS)
    lines = [json.loads(line) for line in (folder / META).read_text().splitlines()]
    assert vectors.shape == (3, 4096)
    assert vectors.dtype == np.float32
    assert_close(np.linalg.norm(vectors, axis=1), np.ones(3), terms=512)
    assert list(lines[0]) == ["chunk_id", "doc_id", "title", "path", "position"]
    for line, vector in zip(lines, vectors, strict=True):
        chunk = engine.get_chunk(line["chunk_id"])
        assert chunk is not None
        again = HashingEmbedder().embed([f"{line['title']}\n{chunk.text}"])[0]
        assert_close(again, vector, terms=4096)
    plain = WorkspaceEngine(base, tmp_path / "plain")
    assert np.load((current(plain.index_dir) or Path()) / VECTORS).shape == (3, 0)
    assert len(rows(plain)) == 3


def test_a_refresh_that_fails_changes_nothing(
    engine: WorkspaceEngine, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ids(engine)
    (base / "new.txt").write_text("new")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(building.Documents, "done", fail)
        with pytest.raises(OSError, match="disk full"):
            engine.refresh()
    assert ids(engine) == before
    assert ids(WorkspaceEngine(base, engine.index_dir)) == before
    assert len([p for p in engine.index_dir.iterdir() if p.is_dir()]) == 1
    assert engine.refresh().added == 1


def test_a_reader_needs_no_lock(engine: WorkspaceEngine, base: Path) -> None:
    with locked(engine.index_dir):
        other = WorkspaceEngine(base, engine.index_dir)
        assert other.search("passwords", 1)[0].text == POLICY
        with pytest.raises(IndexBusyError, match="another process"):
            other.refresh()
    (base / "policy.txt").unlink()
    engine.refresh()
    assert ids(other) == ids(engine)
    assert not other.search("passwords", 1)


def test_a_reader_sees_the_old_state_or_the_new_one(engine: WorkspaceEngine, base: Path) -> None:
    """While another thread replaces all documents, again and again, as one transaction."""
    for i in range(20):
        (base / f"{i}.txt").write_text("state 0 zeppelin\n")
    engine.refresh()
    other = WorkspaceEngine(base, engine.index_dir)
    seen: set[tuple[str, ...]] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            texts = {other.get_doc_text(d.doc_id) for d in other.list_docs()}
            seen.add(tuple(sorted(c.text for c in other.search("zeppelin", 50))))
            assert texts

    reader = threading.Thread(target=read)
    reader.start()
    for state in range(1, 6):
        for i in range(20):
            (base / f"{i}.txt").write_text(f"state {state} zeppelin\n")
        engine.refresh()
    done.set()
    reader.join()
    # Copies of a text are one hit, so a state is one text.
    assert all(len(texts) == 1 for texts in seen)
    assert other.search("zeppelin", 1)[0].text == "state 5 zeppelin\n"


@pytest.mark.parametrize("damage", ["current", SQLITE, VECTORS])
def test_an_index_that_is_damaged_is_made_anew(
    engine: WorkspaceEngine, base: Path, damage: str
) -> None:
    folder = current(engine.index_dir)
    assert folder is not None
    before = ids(engine)
    path = engine.index_dir / "current" if damage == "current" else folder / damage
    if damage == VECTORS:
        path.unlink()
    else:
        path.write_bytes(b"../../etc\n" if damage == "current" else b"nonsense" * 1000)
    assert ids(WorkspaceEngine(base, engine.index_dir)) == before


def test_an_index_inside_the_workspace_is_no_document(base: Path) -> None:
    engine = WorkspaceEngine(base, base / "index")
    assert len(engine.list_docs()) == 3
    assert engine.refresh().skipped == ()


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="folder of documents"):
        WorkspaceEngine(tmp_path / "none", tmp_path / "index")
    (tmp_path / "void").mkdir()
    empty = WorkspaceEngine(tmp_path / "void", tmp_path / "index")
    assert empty.list_docs() == empty.search("x") == []
    empty.close()
    with pytest.raises(WorkspaceError, match="closed"):
        empty.list_docs()
