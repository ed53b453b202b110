"""The engines that encode many texts at once return for each what tiktoken returns, whatever the
versions of Unicode they know.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiktoken

import mypt_spec
from mypt_spec.table import IdSet
from mypt_spec.tokenizer import batch
from mypt_spec.tokenizer.characters import small_ranks
from mypt_spec.tokenizer.tokenizer import Tokenizer, gpt2
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, Vocabulary, VocabularyError
from tests.support.examples import examples

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
    assert batch.engine(gpt2(), 50257, GPT2_PATTERN).library == "gigatoken"
    batch.engine.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert batch.engine(gpt2(), 50257, GPT2_PATTERN).library == "tiktoken"


def test_tokens_of_gpt2_need_no_look() -> None:
    assert gpt2().name == batch.GPT2
    assert batch._joined(gpt2())


def of(ranks: dict[bytes, int], pattern: str = GPT2_PATTERN) -> tiktoken.Encoding:
    return tiktoken.Encoding("own", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


BYTES = {bytes([byte]): byte for byte in range(256)}


def test_ranks_with_gaps() -> None:
    base = of({token: 2 * i for token, i in (BYTES | {b"ab": 256}).items()})
    engine = batch.engine(base, 1000, GPT2_PATTERN)
    assert engine.library == "gigatoken"
    assert engine.encode("abc\0b").tolist() == [512, 198, 1000, 196]


def test_a_byte_without_a_token_is_in_no_text() -> None:
    lacks = (b"\0", b"z", b"\xff")
    base = of({token: i for token, i in BYTES.items() if token not in lacks} | {b"ab": 300})
    engine = batch.engine(base, 1000, GPT2_PATTERN)
    assert engine.library == "gigatoken"
    assert engine.encode("abc\0b").tolist() == [300, 99, 1000, 98]


@pytest.mark.parametrize("more", [{b"abc": 256}, {bytes([i, i]): 256 + i for i in range(256)}])
def test_tokens_that_are_not_proved_to_be_made_of_others_are_for_tiktoken(
    more: dict[bytes, int],
) -> None:
    """gigatoken would stop the process. To prove it takes a byte that no long token has."""
    base = of(BYTES | more, batch.QWEN2)
    engine = batch.engine(base, 1000, batch.QWEN2)
    assert engine.library == "tiktoken"
    assert engine.encode("abc").tolist() == base.encode_ordinary("abc")


# Characters of all kinds, next to each other. Each pair of neighbours is a token: the ids say where
# text is cut.
MIXED = "aAsStTlLvVrReEmMdD1.'/ \n\r\t-\x0b\x1c世\u0301\xa0\u3000ǅʰⅷ😀ſ"
BLANKS = "\x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"
PAIRS = BYTES | {
    a + b: i
    for i, (a, b) in enumerate(
        product(*({c.encode()[at] for c in MIXED + BLANKS} for at in (slice(-1, None), slice(1)))),
        256,
    )
}


@pytest.mark.parametrize("library", ["gigatoken", "tiktoken"])
@pytest.mark.parametrize("pattern", batch.SCHEMES, ids=lambda p: batch.SCHEMES[p] or "tekken")
def test_engines_cut_as_the_pattern_does(
    pattern: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = of(PAIRS, pattern)
    if library == "tiktoken" or not batch.SCHEMES[pattern]:
        monkeypatch.setattr(batch, "_joined", lambda base: False)
    engine = batch.engine(base, 5000, pattern)
    rng = random.Random(7)
    texts = ["".join(rng.choices(MIXED, k=rng.randint(0, 7))) for _ in range(examples(6000))]
    doubtful = {*engine.doubtful("\0".join(texts))}
    sure = [text for i, text in enumerate(texts) if i not in doubtful]
    assert len(sure) > len(texts) // 2
    one_by_one = [i for text in sure for i in (5000, *base.encode_ordinary(text))][1:]
    assert engine.encode("\0".join(sure)).tolist() == one_by_one


# Of all planes, most of them those that writing uses.
TRIED = "".join(
    map(chr, (*range(1, 0x600), *range(0x600, 0xD800, 31), *range(0xF900, 0x110000, 2999)))
)


@pytest.mark.parametrize("pattern", [p for p in batch.SCHEMES if batch.SCHEMES[p]])
def test_every_character_between_others(pattern: str) -> None:
    base = of(small_ranks(), pattern)
    characters = batch._characters(pattern)
    odd = characters.odd(TRIED)
    assert len(odd) < len(TRIED) / 50
    assert not {*odd} & {*map(chr, range(0x370))}
    texts = [f"\n\n{char}'s{char}" for char in TRIED if char not in odd]
    ids = batch.engine(base, 9000, pattern).encode("\0".join(texts)).tolist()
    assert ids == [i for text in texts for i in (9000, *base.encode_ordinary(text))][1:]


def test_every_character_of_gpt2(fresh: Tokenizer) -> None:
    texts = [f"\n\n{char}'s" for char in TRIED]
    ids, lengths = fresh.encode_batch(texts)
    each = gpt2().encode_ordinary_batch(texts, num_threads=1)
    assert lengths.tolist() == list(map(len, each))
    assert ids.tolist() == [i for one in each for i in one]


@pytest.mark.parametrize("pattern", [batch.QWEN2, GPT2_PATTERN])
def test_a_large_vocabulary_is_loaded_when_it_pays(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = of(BYTES, pattern)
    monkeypatch.setattr(batch, "_met", Counter[str]())
    monkeypatch.setattr(batch, "_WORTH", 10 / 256)
    engines = [batch.engine_for(base, 300, pattern, size) for size in (9, 1, 0)]
    assert [one.library for one in engines if one] == ["tiktoken", "gigatoken", "gigatoken"]
    assert batch.engine_for(base, 300, r"\w+|\W+", 100) is None


WHITE = ("a", "B", "é", "1", ".", "'s", "\0", " ", " ", "\n", "\r", "\t", "\x1c", "\xa0", "\u3000")


@pytest.mark.parametrize("pattern", batch.SCHEMES, ids=lambda p: batch.SCHEMES[p] or "tekken")
def test_a_vocabulary_cuts_white_space_as_its_pattern_does(pattern: str) -> None:
    """No look-ahead is run; long white space is cut apart, in a text and in many at once."""
    exact, ids = of(PAIRS, pattern), IdSet.from_ids(PAIRS.values())
    own = Vocabulary("own", "", PAIRS, b"", "", {}, (pattern,), ids)
    table = SimpleNamespace(special={}, vocab_size=5002, ordinary=ids, pad=0, composed=False)
    tokenizer = Tokenizer(table, own)  # type: ignore[arg-type]
    rng = random.Random(9)
    texts = ["".join(rng.choices(WHITE, k=rng.randint(0, 9))) for _ in range(examples(6000))]
    texts += [f"a{char * 3}b" for char in BLANKS]
    texts += ["a" + " " * 70_000 + "b", " " * 5000]
    each = [exact.encode_ordinary(text) for text in texts[:-2]]
    each += [
        [97, *exact._encode_single_piece(" " * 69_999), *exact.encode_ordinary(" b")],
        exact._encode_single_piece(" " * 5000),
    ]
    assert [*map(tokenizer.encode, texts)] == each
    joined, lengths = tokenizer.encode_batch(texts)
    assert joined.tolist() == [i for one in each for i in one]
    assert lengths.tolist() == [*map(len, each)]
    for text in ("a  ", "\n\t", "\u3000\u3000"):  # the last text of all
        assert tokenizer.encode_batch(["b", text])[0].tolist() == [98, *tokenizer.encode(text)]


def test_gpt2_without_gigatoken(fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its encoding has the look-ahead; that of many texts has none."""
    monkeypatch.setattr(batch, "engine", batch._simple)
    rng = random.Random(3)
    texts = ["".join(rng.choices(WHITE, k=rng.randint(0, 9))) for _ in range(500)]
    ids, lengths = fresh.encode_batch(texts)
    assert ids.tolist() == in_turn(texts)
    assert lengths.tolist() == [len(gpt2().encode_ordinary(text)) for text in texts]


def test_a_character_that_one_library_does_not_know_goes_the_slow_way(
    fresh: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    characters = batch._characters(GPT2_PATTERN)
    monkeypatch.setattr(characters, "verdicts", characters.verdicts.copy())
    characters.verdicts[ord("é")] = 2
    assert characters.odd("cafés") == "é"
    texts = ["cafés", "tea", "\n\né's", "日本 é]"]
    ids, _ = fresh.encode_batch(texts)
    assert ids.tolist() == in_turn(texts)
    monkeypatch.setattr(
        batch.engine(gpt2(), 50257, GPT2_PATTERN),
        "encode",
        lambda joined: np.array([50257] * joined.count("\0") + [5], np.uint32),
    )
    # Only "&", whose id is 5, is asked of the engine.
    ids, _ = fresh.encode_batch(["\n\né's", "\0", "&"])
    assert ids.tolist() == in_turn(["\n\né's", "\0", "&"])


@pytest.fixture
def giga(fresh: Tokenizer) -> batch._Giga:
    engine = batch.engine(gpt2(), 50257, GPT2_PATTERN)
    assert isinstance(engine, batch._Giga)
    return engine


def loads(giga: batch._Giga, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the vocabulary is loaded anew for each text. The ids are the same either way."""
    load = batch._load
    is_loaded: list[bool] = []

    def counted(*args: Any) -> Any:
        is_loaded[-1] = True
        return load(*args)

    monkeypatch.setattr(batch, "_load", counted)
    for text in texts:
        is_loaded.append(False)
        assert giga.encode(text).tolist() == gpt2().encode_ordinary(text)
    return is_loaded


def test_words_are_forgotten_when_the_process_has_grown(
    giga: batch._Giga, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = batch._GROWTH
    sizes = iter([7, 7 + most, 8 + most, 90, 90 + most, 91 + most, 91, 91])
    monkeypatch.setattr(giga, "empty", 7)
    monkeypatch.setattr(giga, "least", 10)
    monkeypatch.setattr(batch, "_resident", lambda: next(sizes))
    handed_back: list[bool] = []
    monkeypatch.setattr(batch, "_hand_back", lambda: handed_back.append(hasattr(giga, "tokenizer")))
    monkeypatch.setattr(batch, "_REMEMBERED", 0)  # which does not count where the size is known
    assert loads(giga, ["some words"] * 6, monkeypatch) == [False, False, True, False, True, False]
    assert next(sizes, None) is None
    assert handed_back == [False, False], "once the words are gone"


def test_growth_without_characters_is_of_something_else(
    giga: batch._Giga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_resident", lambda: giga.empty + (1 << 40))
    monkeypatch.setattr(giga, "least", 9)
    giga.spent = 0
    assert loads(giga, ["a word", "and", "more"], monkeypatch) == [False, False, True]


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
    calls: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=calls.append))
    batch._hand_back()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    batch._hand_back()
    assert calls == [0]


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
        batch.engine(gpt2(), 50257, GPT2_PATTERN), "encode", lambda joined: np.array([7], np.uint32)
    )
    with pytest.raises(VocabularyError, match="gigatoken encodes 'a' otherwise"):
        fresh.encode_batch(["a"])
