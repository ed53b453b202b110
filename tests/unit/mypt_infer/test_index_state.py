"""The index on the disk: damage is noticed and put right, and a kill loses nothing."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt_infer.workspace import EmbedderError, WorkspaceEngine, WorkspaceError
from mypt_infer.workspace import build as building
from mypt_infer.workspace.index.store import META, SQLITE, VECTORS, current
from tests.support.build import contents, write_texts
from tests.support.embedder import HashingEmbedder
from tests.support.examples import either
from tests.support.victims import Victims, victims

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprstvz" for b in ("a", "e", "io") for c in ("rn", "lt")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    chance = random.Random(1)
    texts = {f"{i:02}.txt": text_of(i, chance) for i in range(40)}
    return write_texts(tmp_path / "docs", texts)


def text_of(number: int, chance: random.Random, note: str = "") -> str:
    words = chance.choices(WORDS, k=chance.randrange(20, 800))
    return f"Document {number}{note}\n\n{' '.join(words)}\n"


def whole(engine: WorkspaceEngine) -> dict[str, str]:
    """Returns the texts of all documents, after a look at all files of the index."""
    folder = current(engine.index_dir)
    assert folder is not None
    lines = [json.loads(line) for line in (folder / META).read_text().splitlines()]
    vectors = np.load(folder / VECTORS)
    assert len(vectors) == len(lines)
    assert [line["chunk_id"] for line in lines if engine.get_chunk(line["chunk_id"]) is None] == []
    assert len(lines) == sum(engine.count_chunks(d.doc_id) for d in engine.list_docs())
    return {d.path: engine.get_doc_text(d.doc_id) or "" for d in engine.list_docs()}


@pytest.mark.parametrize("name", [META, VECTORS])
def test_files_that_are_gone_are_written_again(base: Path, tmp_path: Path, name: str) -> None:
    engine = WorkspaceEngine(base, tmp_path / "index", embedder=HashingEmbedder())
    folder = current(engine.index_dir) or base
    good = (folder / name).read_bytes()
    queries = [" ".join(random.Random(i).choices(WORDS, k=3)) for i in range(20)]
    answers = [[(c, c.score) for c in engine.search(query, 10)] for query in queries]
    (folder / name).unlink()
    engine = WorkspaceEngine(base, tmp_path / "index", embedder=HashingEmbedder())
    assert [[(c, c.score) for c in engine.search(query, 10)] for query in queries] == answers
    engine.refresh()
    assert current(engine.index_dir) == folder, "nothing else was made again"
    assert (folder / name).read_bytes() == good


def test_an_index_in_a_relative_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.12, `mkdtemp` returns an absolute path whatever it is given."""
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **more: os.path.abspath(make(**more)))
    monkeypatch.chdir(base.parent)
    engine = WorkspaceEngine(Path("docs"), Path("index"))
    assert len(whole(engine)) == 40
    (base / "00.txt").write_text("Another text.\n")
    engine.refresh()
    assert whole(engine)["00.txt"] == "Another text.\n"


def test_damaged_texts_are_named(base: Path, tmp_path: Path) -> None:
    engine = WorkspaceEngine(base, tmp_path / "index")
    key = engine.list_docs()[0].doc_id
    with sqlite3.connect((current(engine.index_dir) or base) / SQLITE) as db:
        db.execute("UPDATE texts SET data = substr(data, 1, 20) || x'00' || substr(data, 22)")
    db.close()
    with pytest.raises(WorkspaceError, match="delete that folder"):
        engine.get_doc_text(key)


REFRESH = """
from pathlib import Path
from mypt_infer.workspace import build
from tests.support.embedder import HashingEmbedder
build._MANY = many
build.refresh(Path(base), Path(index), HashingEmbedder())
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Victims]:
    with victims("mypt_infer.workspace", "mypt_infer/workspace") as forks:
        yield forks


@pytest.mark.parametrize("many", [0, 1000])
def test_a_kill_loses_nothing(base: Path, tmp_path: Path, forks: Victims, many: int) -> None:
    """Killed at any line: the documents are those from before or from after, and stay usable."""
    index = tmp_path / "index"
    engine = WorkspaceEngine(base, index, embedder=HashingEmbedder())
    old, chance = whole(engine), random.Random(many)
    names: dict[str, Any] = {"base": str(base), "index": str(index), "many": many}
    write_some(base, chance, "first")
    lines = forks.run(REFRESH, **names)
    assert lines is not None
    old = {path.name: path.read_text() for path in base.iterdir()}
    kills, states = either(8, 36), 0
    for kill in range(kills):
        write_some(base, chance, str(kill))
        new = {path.name: path.read_text() for path in base.iterdir()}
        forks.run(
            REFRESH,
            at=chance.randrange(lines * kill // kills, lines * (kill + 1) // kills) + 1,
            **names,
        )
        reader = WorkspaceEngine(base, index, embedder=HashingEmbedder())
        texts = {d.path: reader.get_doc_text(d.doc_id) for d in reader.list_docs()}
        assert texts in (old, new)
        states += texts == new
        reader.search(" ".join(WORDS[:5]), 10)
        reader.close()
        if kill % 3 == 2:
            engine.refresh()
            old = whole(engine)
            assert old == new
        else:
            old = texts  # type: ignore[assignment]
    fresh = WorkspaceEngine(base, tmp_path / "fresh", embedder=HashingEmbedder())
    engine.refresh()
    for i in range(20):
        query = " ".join(random.Random(i).choices(WORDS, k=3))
        assert engine.search(query, 10) == fresh.search(query, 10)
    assert 0 < states < kills


def write_some(base: Path, chance: random.Random, note: str) -> None:
    """Gives eight documents other texts."""
    numbers = chance.sample(range(40), 8)
    write_texts(base, {f"{i:02}.txt": text_of(i, chance, f", {note}") for i in numbers})


def test_words_can_be_searched_before_vectors_are_made(base: Path, tmp_path: Path) -> None:
    asked = 0

    def fails_later(texts: list[str]) -> np.ndarray[Any, Any]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise EmbedderError("the service went away")
        return HashingEmbedder().embed(texts)

    steps: list[tuple[str, int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mypt_infer.workspace.build._BATCH", 30)
        with pytest.raises(EmbedderError, match="went away"):
            WorkspaceEngine(
                base,
                tmp_path / "index",
                embedder=fails_later,
                progress=lambda *step: steps.append(step),
            )
        done = [step for step in steps if step[0] == "embedding"]
        assert steps[0] == ("reading", 0, 40)
        assert done[0][1] == 0 < done[1][1] < done[1][2]
        engine = WorkspaceEngine(base, tmp_path / "index", embedder=fails_later)
        assert engine.search(WORDS[0], 5)
        engine.refresh()
    assert asked > 3
    assert len(whole(engine)) == 40
    before = asked
    engine.refresh()
    assert asked == before


def test_only_changed_files_are_read(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they are too old to change again within a tick of the times of files."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10_000_000_000)
    engine = WorkspaceEngine(base, tmp_path / "index")
    paths: list[str] = []
    read = building.Tree.read
    monkeypatch.setattr(
        building.Tree, "read", lambda self, path: (paths.append(path), read(self, path))[1]
    )
    before = contents(tmp_path / "index")
    engine.refresh()
    assert paths == []
    assert contents(tmp_path / "index") == before
    os.utime(base / "07.txt", (1, 1))
    text = (base / "09.txt").read_text()
    (base / "09.txt").write_text(text.replace("Document", "Dokument"))
    assert engine.refresh().changed == 1
    assert paths == ["07.txt", "09.txt"]
    engine.refresh()
    assert paths == ["07.txt", "09.txt"]


def test_many_changes_begin_the_numbers_anew(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_SPARE", 5)
    engine = WorkspaceEngine(base, tmp_path / "index")
    for i in range(either(4, 8)):
        for path in base.iterdir():
            path.write_text(path.read_text() + f"again {i}\n")
        engine.refresh()
        folder = current(engine.index_dir) or base
        live = sum(engine.count_chunks(d.doc_id) for d in engine.list_docs())
        assert len(np.load(folder / VECTORS)) == live
        assert len(whole(engine)) == 40
