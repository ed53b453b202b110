"""Tokens that were added to a `tokenizer.json`: which are text, which are tags, which are refused."""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.own_format.begin import begin
from mypt_spec import VocabularyError
from mypt_train.export.tokenizer_file import tokenizer_json
from tests.support.foreign import tokenizer

pytestmark = pytest.mark.skipif(
    find_spec("tokenizers") is None,
    reason="tokenizers is not installed: it reads tokenizer.json",
)

SPACES = [" " * n for n in range(24, 1, -1)]
TEXTS = {
    "words": ("qwen", ["hello world", "hello", "covid19", "a.b*", "Müller"]),
    "spaces": ("smollm", SPACES),
    "signs": ("deepseek", ["\n\n", "->", "#", "😀"]),
}


def saved(folder: Path, kind: str, rows: list[tuple[str, dict[str, Any]]]) -> Path:
    """A vocabulary of a kind with these tokens added, each with these flags."""
    from tokenizers import AddedToken

    library = tokenizer(kind)
    for content, flags in rows:
        library.add_tokens([AddedToken(content, **flags)])
    library.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module", params=[*TEXTS, "mixed"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Ours, the library's, and what is added; of "mixed", some are found before the others."""
    from tokenizers import Tokenizer

    kind, words = TEXTS.get(request.param, ("qwen", ["ab", "abc", "bcd", "cd "]))
    mixed = request.param == "mixed"
    rows = [(w, {"normalized": not (mixed and i % 2)}) for i, w in enumerate(words)]
    folder = saved(tmp_path_factory.mktemp(request.param), kind, rows)
    ours = mypt_spec.dialect("mypt", vocabulary=folder)
    return ours, Tokenizer.from_file(str(folder / "tokenizer.json")), words


def test_ids_are_the_librarys(both: Any) -> None:
    ours, library, words = both
    draw = random.Random(1)
    some = [*words, "hello", " wor", "ld", " ", "a", "cd", "b", "x1", "\n", "ü", "."]
    texts = ["".join(draw.choices(some, k=draw.randrange(12))) for _ in range(300)]
    ids = [ours.tokenizer.encode(text) for text in texts]
    assert ids == [e.ids for e in library.encode_batch(texts, add_special_tokens=False)]
    assert [ours.tokenizer.decode(one) for one in ids] == texts
    flat, lengths = ours.tokenizer.encode_batch(texts)
    assert flat.tolist() == [i for one in ids for i in one]
    assert lengths.tolist() == [*map(len, ids)]


def test_each_is_text_with_its_own_id(both: Any) -> None:
    ours, library, words = both
    for word in words:
        assert ours.tokenizer.encode(word) == [library.token_to_id(word)]
        assert library.token_to_id(word) in ours.tokenizer.ordinary


def test_the_export_has_them(both: Any) -> None:
    from tokenizers import Tokenizer

    ours, library, words = both
    exported = Tokenizer.from_str(json.dumps(tokenizer_json(ours)))
    for text in ["".join(words), " x".join(words), "a" + "b".join(words) + "\n   c"]:
        assert exported.encode(text).ids == library.encode(text, add_special_tokens=False).ids


def test_what_looks_like_a_tag_is_no_text(tmp_path: Path) -> None:
    """Special or not: Qwen's <think> is a tag of some formats, and no text becomes it."""
    tags = ["<think>", "[TOOL]", "<|fim_prefix|>", "|||EMAIL|||", "{{x}}", "<｜User｜>"]
    folder = saved(tmp_path, "qwen", [(tag, {"normalized": False}) for tag in tags])
    d = mypt_spec.dialect("qwen3", vocabulary=folder)
    assert d.vocabulary is not None
    for tag in tags:
        i = d.vocabulary.special[tag]
        assert i not in d.tokenizer.ordinary
        assert i not in d.tokenizer.encode(f"a {tag} b")
    assert d.tokenizer.special["<think>"] == d.vocabulary.special["<think>"]


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_text_that_is_found_only_at_some_places_is_refused(tmp_path: Path, flag: str) -> None:
    folder = saved(tmp_path, "qwen", [("hello", {flag: True})])
    with pytest.raises(VocabularyError, match=f"its added token 'hello' is text with {flag}"):
        mypt_spec.dialect("mypt", vocabulary=folder)


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_tags_that_the_library_finds_otherwise_are_refused(tmp_path: Path, flag: str) -> None:
    folder = saved(tmp_path, "own", [("<|im_start|>", {flag: True, "special": True})])
    with pytest.raises(
        VocabularyError, match=rf"the tag '<\|im_start\|>' has {flag} in it: .* set that to false"
    ):
        mypt_spec.dialect("chatml", vocabulary=folder)
    assert mypt_spec.dialect("mypt", vocabulary=folder), "no tag of this format"


def test_a_tag_that_is_text_is_refused(tmp_path: Path) -> None:
    begin(tmp_path / "own")
    table = tmp_path / "own" / "tokens.toml"
    table.write_text(table.read_text().replace("<|end|>", "END:"))
    folder = saved(tmp_path, "qwen", [("END:", {})])
    with pytest.raises(VocabularyError, match="the tag 'END:' is not a special token in it"):
        mypt_spec.dialect(tmp_path / "own", vocabulary=folder)
