"""The embedder with meaning. Where its weights are not installed only the message is tested."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from mypt_infer.workspace import WorkspaceEngine
from mypt_infer.workspace.cli import main
from mypt_infer.workspace.embed import HashingEmbedder, named
from mypt_infer.workspace.minilm import PACKAGE, MiniLM

INSTALLED = all(importlib.util.find_spec(name) for name in (PACKAGE, "safetensors", "tokenizers"))
needed = pytest.mark.skipif(
    not INSTALLED, reason="the extra `embed` and its weights are not installed"
)


@needed
def test_the_published_scores() -> None:
    """Those that the authors of the model print in their introduction to semantic search."""
    model = MiniLM()
    query = model.embed(["A man is eating pasta."])[0]
    sentences = ["A man is eating food.", "A man is eating a piece of bread.", "A man is riding a horse.", "A man is riding a white horse on an enclosed ground.", "A cheetah is running behind its prey."]  # fmt: skip
    assert np.allclose(
        model.embed(sentences) @ query, [0.7035, 0.5272, 0.1889, 0.1047, 0.0980], atol=1e-4
    )


@needed
def test_a_text_has_one_vector_whatever_stands_beside_it() -> None:
    model = MiniLM()
    texts = ["", "a", "word " * 400, "\ud800 half", "漢字"]
    together = model.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.allclose(model.embed([text])[0], vector, atol=1e-5)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


@needed
def test_an_index_is_gone_on_with_as_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The cat sleeps.")
    assert main([str(tmp_path / "docs"), "--embedder", "minilm", "--quiet"]) == 0
    (tmp_path / "docs" / "b.txt").write_text("A car drives.")
    assert main([str(tmp_path / "docs"), "--quiet"]) == 0
    engine = WorkspaceEngine(tmp_path / "docs")
    assert engine.embedder.name == MiniLM().name
    assert engine.search("kitten", 1)[0].text == "The cat sleeps."
    assert (
        WorkspaceEngine(tmp_path / "docs", embedder=HashingEmbedder()).embedder.name
        == HashingEmbedder().name
    )


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mypt_infer.workspace import minilm

    minilm._loaded.cache_clear()
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package")
    assert main([str(tmp_path), "--embedder", "minilm"]) == 2
    assert 'pip install "mypt-tags[embed]"' in capsys.readouterr().err
    with pytest.raises(ValueError, match="hashing and minilm"):
        named("other")
    minilm._loaded.cache_clear()
