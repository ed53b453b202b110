"""The engines that encode many texts at once return for each what tiktoken returns, whatever the
versions of Unicode they know.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiktoken

import mypt_spec
from mypt_spec.tokenizer import batch
from mypt_spec.tokenizer.tokenizer import Tokenizer, gpt2
from mypt_spec.tokenizer.vocabulary import VocabularyError

gigatoken = pytest.importorskip("gigatoken")


@pytest.fixture
def fresh() -> Iterator[Tokenizer]:
    """A tokenizer that chooses its engine anew."""
    batch.engine.cache_clear()
    yield mypt_spec.dialect("mypt").tokenizer
    batch.engine.cache_clear()


def in_turn(texts: list[str]) -> list[int]:
    return [i for text in texts for i in gpt2().encode_ordinary(text)]


def test_the_faster_one_is_used(fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch.engine(gpt2(), 50257).library == "gigatoken"
    batch.engine.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert batch.engine(gpt2(), 50257).library == "tiktoken"


def test_ranks_with_gaps_are_for_the_other(fresh: Tokenizer) -> None:
    ranks = {bytes([byte]): 2 * byte for byte in range(256)}
    base = tiktoken.Encoding(
        "gaps", pat_str=gpt2()._pat_str, mergeable_ranks=ranks, special_tokens={}
    )
    found = batch.engine(base, 1000)
    assert found.library == "tiktoken"
    assert found.encode("ab").tolist() == base.encode_ordinary("ab")


def test_every_character_between_others(fresh: Tokenizer) -> None:
    # All planes, and all of those that writing uses.
    points = [*range(0xD800), *range(0xF900, 0x20000), *range(0x20000, 0x110000, 97)]
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
    characters = batch._characters()
    monkeypatch.setattr(characters, "known", characters.known.copy())
    characters.known[ord("é")] = 2
    assert characters.odd("cafés") == "é"
    texts = ["cafés", "tea", "\n\né's", "日本 é]"]
    ids, _ = fresh.encode_batch(texts)
    assert ids.tolist() == in_turn(texts)
    monkeypatch.setattr(
        batch.engine(gpt2(), 50257),
        "encode",
        lambda joined: np.array([50257] * joined.count("\0") + [5], np.uint32),
    )
    # Only "&", whose id is 5, is asked of the engine.
    ids, _ = fresh.encode_batch(["\n\né's", "\0", "&"])
    assert ids.tolist() == in_turn(["\n\né's", "\0", "&"])


@pytest.fixture
def giga(fresh: Tokenizer) -> batch._Giga:
    found = batch.engine(gpt2(), 50257)
    assert isinstance(found, batch._Giga)
    return found


def loads(giga: batch._Giga, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the vocabulary is loaded anew for each text. The ids are the same either way."""
    load = batch._load
    found: list[bool] = []

    def counted(*args: Any) -> Any:
        found[-1] = True
        return load(*args)

    monkeypatch.setattr(batch, "_load", counted)
    for text in texts:
        found.append(False)
        assert giga.encode(text).tolist() == gpt2().encode_ordinary(text)
    return found


def test_words_are_forgotten_when_the_process_has_grown(
    giga: batch._Giga, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = batch._GROWTH
    sizes = iter([7, 7 + most, 8 + most, 90, 90 + most, 91 + most, 91, 91])
    monkeypatch.setattr(giga, "empty", 7)
    monkeypatch.setattr(batch, "_resident", lambda: next(sizes))
    handed_back: list[bool] = []
    monkeypatch.setattr(batch, "_hand_back", lambda: handed_back.append(hasattr(giga, "tokenizer")))
    monkeypatch.setattr(batch, "_REMEMBERED", 0)  # which does not count where the size is known
    assert loads(giga, ["some words"] * 6, monkeypatch) == [False, False, True, False, True, False]
    assert next(sizes, None) is None
    assert handed_back == [False, False], "once the words are gone"


def test_words_are_forgotten_after_many_characters_where_no_size_is_known(
    giga: batch._Giga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_resident", lambda: 0)
    monkeypatch.delattr(batch, "_hand_back")  # which only Linux is sure to have
    monkeypatch.setattr(batch, "_REMEMBERED", 10)
    giga._forget()
    texts = ["0123456789", "1", "2", "and more words", "1"]
    assert loads(giga, texts, monkeypatch) == [False, False, True, False, True]


def test_freed_memory_is_handed_back_where_the_c_library_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=asked.append))
    batch._hand_back()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    batch._hand_back()
    assert asked == [0]


def test_the_size_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch._resident() > 1 << 20 or not Path("/proc/self/statm").exists()

    def missing(path: Path) -> bytes:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_bytes", missing)
    assert batch._resident() == 0


def test_a_library_that_encodes_otherwise_is_found(
    fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        batch.engine(gpt2(), 50257), "encode", lambda joined: np.array([7], np.uint32)
    )
    with pytest.raises(VocabularyError, match="gigatoken encodes 'a' otherwise"):
        fresh.encode_batch(["a"])
