"""The engines that encode many texts at once give what tiktoken gives for each, whatever the versions of Unicode they know."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
import pytest
import tiktoken

import mypt_spec
from mypt_spec import bulk
from mypt_spec.ranks import VocabularyError
from mypt_spec.tokenizer import Tokenizer, gpt2

gigatoken = pytest.importorskip("gigatoken")


@pytest.fixture
def fresh() -> Iterator[Tokenizer]:
    """A tokenizer that chooses its engine anew."""
    bulk.engine.cache_clear()
    yield mypt_spec.dialect("mypt").tokenizer
    bulk.engine.cache_clear()


def in_turn(texts: list[str]) -> list[int]:
    return [i for text in texts for i in gpt2().encode_ordinary(text)]


def test_the_faster_one_is_used(fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bulk.engine(gpt2(), 50257).library == "gigatoken"
    bulk.engine.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert bulk.engine(gpt2(), 50257).library == "tiktoken"


def test_ranks_with_gaps_are_for_the_other(fresh: Tokenizer) -> None:
    ranks = {bytes([byte]): 2 * byte for byte in range(256)}
    base = tiktoken.Encoding(
        "gaps", pat_str=gpt2()._pat_str, mergeable_ranks=ranks, special_tokens={}
    )
    found = bulk.engine(base, 1000)
    assert found.library == "tiktoken"
    assert found.encode("ab").tolist() == base.encode_ordinary("ab")


def test_every_character_between_others(fresh: Tokenizer) -> None:
    points = [
        *range(0xD800),
        *range(0xF900, 0x20000),
        *range(0x20000, 0x110000, 97),
    ]  # all planes, and all of those that writing uses
    texts = [f"\n\n{chr(point)}'s" for point in points]
    for begin in range(0, len(texts), 1 << 15):
        some = texts[begin : begin + (1 << 15)]
        ids, lengths = fresh.encode_batch(some)
        each = gpt2().encode_ordinary_batch(some, num_threads=1)
        assert lengths.tolist() == list(map(len, each))
        assert np.array_equal(ids, np.concatenate([np.array(one) for one in each]))


def test_a_character_that_one_library_does_not_know_goes_the_slow_way(
    fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    characters = bulk._characters()
    monkeypatch.setattr(characters, "known", characters.known.copy())
    characters.known[ord("é")] = 2
    assert characters.odd("cafés") == "é"
    texts = ["cafés", "tea", "\n\né's", "日本 é]"]
    ids, _ = fresh.encode_batch(texts)
    assert ids.tolist() == in_turn(texts)
    monkeypatch.setattr(
        bulk.engine(gpt2(), 50257),
        "encode",
        lambda joined: np.array([50257] * joined.count("\0") + [5], np.uint32),
    )
    ids, _ = fresh.encode_batch(
        ["\n\né's", "\0", "&"]
    )  # only "&", whose id is 5, is asked of the engine
    assert ids.tolist() == in_turn(["\n\né's", "\0", "&"])


def test_what_it_remembers_is_bounded(fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_REMEMBERED", 10)
    engine = bulk.engine(gpt2(), 50257)
    assert isinstance(engine, bulk._Giga)
    seen = set()
    for text in ["some words", "and more words", "1", "words \0 and", "some words"]:
        assert engine.encode(text.replace("\0", "")).tolist() == gpt2().encode_ordinary(
            text.replace("\0", "")
        )
        seen.add(id(engine.tokenizer))
        assert engine.spent <= 10 + len(text)
    assert len(seen) > 1


def test_a_library_that_encodes_otherwise_is_found(
    fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bulk.engine(gpt2(), 50257), "encode", lambda joined: np.array([7], np.uint32)
    )
    with pytest.raises(VocabularyError, match="gigatoken encodes 'a' otherwise"):
        fresh.encode_batch(["a"])
