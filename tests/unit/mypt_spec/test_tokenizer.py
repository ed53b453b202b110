"""The tokenizer: data files, ordinary text, long white space."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

import mypt_spec
from mypt_spec.tokenizer import bpe, tokenizer
from mypt_spec.tokenizer.runs import encode_run
from mypt_spec.tokenizer.tokenizer import FILES, VocabularyError, gpt2, gpt2_letters, gpt2_ranks


@pytest.fixture(scope="module")
def mypt() -> mypt_spec.Tokenizer:
    return mypt_spec.dialect("mypt").tokenizer


def test_known_ids(mypt: mypt_spec.Tokenizer) -> None:
    assert mypt.encode("Hello world") == [15496, 995]
    assert mypt.decode([15496, 995]) == "Hello world"
    assert mypt.vocab_size == 50304
    assert mypt.special["<myPT_eot>"] == 50275
    assert mypt.decode([50257, 15496, 50258]) == "<myPT_system>Hello</myPT_system>"


def test_tags_and_end_of_text_are_ordinary_in_text(mypt: mypt_spec.Tokenizer) -> None:
    assert max(mypt.encode("<myPT_user><|endoftext|></myPT_user>")) < 50256


@pytest.mark.parametrize("bad", [50256, 50276, 50303, 50304, -1])
def test_ids_that_mean_nothing(mypt: mypt_spec.Tokenizer, bad: int) -> None:
    with pytest.raises(ValueError, match="means nothing"):
        mypt.decode([bad])


def test_half_a_character(mypt: mypt_spec.Tokenizer) -> None:
    ids = mypt.encode("🙂")
    assert mypt.decode(ids[:1]) == "\ufffd"
    assert mypt.decode(ids) == "🙂"


def test_a_lone_surrogate_is_refused(mypt: mypt_spec.Tokenizer) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        mypt.encode("a\ud800")


@pytest.mark.parametrize("space", [" ", "\n", "\t ", " \u3000", "\r\n"])
@pytest.mark.parametrize("frame", ["{}", "a{}", "{}b", "a{}b", "a{} b{}"])
def test_long_white_space_is_cut_as_tiktoken_cuts_it(
    mypt: mypt_spec.Tokenizer, monkeypatch: pytest.MonkeyPatch, space: str, frame: str
) -> None:
    text = frame.replace("{}", space * 40)
    expected = gpt2().encode_ordinary(text)
    assert mypt.encode(text) == expected
    monkeypatch.setattr(
        bpe, "_LONG_SPACE", re.compile(bpe._LONG_SPACE.pattern.replace("4000", "3"))
    )
    assert mypt.encode(text) == expected


def test_a_megabyte_of_white_space(mypt: mypt_spec.Tokenizer) -> None:
    text = "a" + " " * 1_000_000 + "b"
    assert mypt.decode(mypt.encode(text)) == text


@pytest.mark.parametrize(
    "texts",
    [
        ["Grüße", "\n", "x"],
        ["\n", "\n", "é", "\n", "\n", "a"],
        ["a", "世界 🙂", "\n\n", "b" * 40],
        ["b" * 40, "\n", "🙂🙂", " c"],
        ["alone"],
    ],
)
def test_a_token_belongs_to_the_text_in_which_it_begins(
    mypt: mypt_spec.Tokenizer, texts: list[str]
) -> None:
    """Texts that are encoded as one run: bytes are counted, not characters."""
    joined, owners = b"", list[int]()
    for number, text in enumerate(texts):
        joined += text.encode()
        owners += [number] * len(text.encode())
    expected, at = list[tuple[int, int]](), 0
    for token in mypt.encode(joined.decode()):
        expected.append((owners[at], token))
        at += len(mypt.decode_bytes([token]))
    runs = encode_run([*enumerate(texts)], mypt)
    assert [(number, token) for number, ids in runs for token in ids] == expected


def test_both_files_of_gpt2_follow_from_the_one_that_is_kept() -> None:
    """The bytes of `encoder.json`, made of the ranks, have the SHA-256 that is pinned for it."""
    letters = gpt2_letters()
    spelled = {"".join(letters[b] for b in token): rank for token, rank in gpt2_ranks().items()}
    encoder = json.dumps(spelled | {"<|endoftext|>": 50256})
    assert hashlib.sha256(encoder.encode()).hexdigest() == FILES["encoder.json"]


def test_a_missing_altered_or_torn_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "vocab.bpe.gz"
    data = tokenizer._PACKED.read_bytes()
    monkeypatch.setattr(tokenizer, "_PACKED", copy)
    with pytest.raises(VocabularyError, match=r"cannot read .*vocab.bpe.gz.* pip install"):
        gpt2_ranks()
    for torn in (b"", b"no gzip", data[:1000], data[:-4], data[:2000] + b"xx" + data[2002:]):
        copy.write_bytes(torn)
        with pytest.raises(VocabularyError, match=r"vocab.bpe.gz.* pip install"):
            gpt2_ranks()
    copy.write_bytes(gzip.compress(gzip.decompress(data) + b" "))
    with pytest.raises(VocabularyError, match=r"vocab.bpe.gz was altered .*pip install"):
        gpt2_ranks()
    copy.write_bytes(data)
    assert len(gpt2_ranks()) == 50256


def test_the_temporary_folder_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gpt2.__wrapped__()
    assert list(tmp_path.iterdir()) == []
