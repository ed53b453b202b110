"""Vocabularies from disk: what is read, what is refused, and which ids tags get."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt.prepare.cli import main as prepare
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_spec.table import IdSet
from mypt_spec.tokenizer.bpe import cut
from mypt_spec.tokenizer.probe import PROBE
from mypt_spec.tokenizer.sources import read_vocabulary
from mypt_spec.tokenizer.tokenizer import gpt2_ranks
from mypt_spec.tokenizer.vocabulary import (
    FILE,
    GPT2_PATTERN,
    JSON_FILE,
    VocabularyError,
    from_tokens,
)
from tests.support.build import native, write
from tests.support.foreign import KINDS, QWEN, on, path, tekken, tokenizer
from tests.support.vocabulary import path as small

needs_library = pytest.mark.skipif(
    find_spec("tokenizers") is None,
    reason="tokenizers is not installed: it reads tokenizer.json",
)


@needs_library
@pytest.mark.parametrize("kind", KINDS)
def test_the_copy_says_all(kind: str, tmp_path: Path) -> None:
    """It needs no library to be read, and gives the same dialect."""
    d = on(kind)
    assert d.vocabulary is not None
    file = tmp_path / d.vocabulary.file
    file.write_bytes(d.vocabulary.data)
    again = mypt_spec.dialect("mypt", vocabulary=file)
    assert again.fingerprint == d.fingerprint
    assert again.table == d.table
    assert again.tokenizer.encode(PROBE) == d.tokenizer.encode(PROBE)
    assert again.tokenizer.files == {file.name: d.vocabulary.sha256}


def content_of(kind: str = "qwen") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path(kind) / "tokenizer.json").read_bytes())
    return content


def saved(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder / "tokenizer.json"


@needs_library
def test_a_vocabulary_is_its_tokens_and_not_its_file(tmp_path: Path) -> None:
    content = content_of()
    content["padding"] = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}  # fmt: skip
    content["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}  # fmt: skip
    file = tmp_path / "other.json"
    file.write_text(json.dumps(content, indent=3))
    assert mypt_spec.dialect("mypt", vocabulary=file).fingerprint == on("qwen").fingerprint


@needs_library
def test_ids_of_tags() -> None:
    """A tag that is a special token has its id; the others come after the last id."""
    d = on("own")
    special, own = d.tokenizer.special, d.vocabulary
    assert own is not None
    assert special["<myPT_user>"] == own.special["<myPT_user>"] == 1
    assert special["</myPT_assistant>"] == own.special["</myPT_assistant>"] == 421
    others = [i for tag, i in special.items() if tag not in own.special]
    assert others == list(range(422, 422 + len(special) - 2))
    assert d.tokenizer.pad == own.special["<unused>"] == 0
    assert d.tokenizer.vocab_size == 448
    assert on("llama").tokenizer.pad == 421, "<|finetune_right_pad_id|>"
    assert on("deepseek").tokenizer.pad == 2
    assert on("gpt2").tokenizer.pad == 420


def test_a_vocabulary_without_a_spare_special_token() -> None:
    tags = dict.fromkeys(mypt_spec.dialect("mypt").table.special)
    ranks = {bytes([b]): b + 3 for b in range(256)}
    table = mypt_spec.dialect("mypt").table.with_vocabulary(
        "x", IdSet.from_ids(ranks.values()), {next(iter(tags)): 0}
    )
    assert table.pad == 259
    assert [*table.special.values()] == [0, *range(260, 260 + len(tags) - 1)]


@needs_library
def test_special_tokens_are_no_text() -> None:
    d = on("own")
    user = d.tokenizer.special["<myPT_user>"]
    assert user not in d.tokenizer.encode("<myPT_user>")
    assert d.tokenizer.decode([user]) == "<myPT_user>"
    with pytest.raises(ValueError, match="id 0 means nothing: ordinary ids are 3-419"):
        d.tokenizer.decode([0])
    _, findings = d.parse_ids([0, user, -1, 10**9])
    assert [f.code for f in findings][:3] == ["MYP503"] * 3
    assert "id 0 means nothing in mypt" in findings[0].message


@needs_library
def test_a_text_that_the_library_would_compose_is_found(tmp_path: Path) -> None:
    """The fast path says the same; a vocabulary that composes nothing has nothing against it."""
    apart = native("Cafe\u0301", "Yes")
    for normalizer, expected in ((None, []), ({"type": "NFC"}, ["MYP369"])):
        saved(tmp_path, content_of() | {"normalizer": normalizer})
        d = mypt_spec.dialect("mypt", vocabulary=tmp_path)
        assert [f.code for f in d.check(apart)[1]] == expected
        assert d.check(native("Caf\u00e9", "Yes"))[1] == []
        fast = FastChecker(Checker(d))
        found = fast.block(json.dumps(apart).encode() + b"\n", row=1, filename="x")[1]
        assert [item.finding.code for _, each in found for item in each] == expected


@needs_library
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": {"type": "WordPiece", "vocab": {}}}, "its model is WordPiece; only BPE"),
        ({"model": {"type": "Unigram", "vocab": []}}, "its model is Unigram"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "cuts text with Whitespace and not, in the"),
        ({"pre_tokenizer": None}, "cuts text with nothing and not"),
        ({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}}, "with Metaspace"),
        ({"normalizer": {"type": "Lowercase"}}, "normalises text with Lowercase"),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"}]}},
            "normalises text with Strip",
        ),
        ({"added_tokens": [{"id": 420, "content": "  ", "special": True}]}, r"character \d+ .*; its special token '  '"),
        ({"added_tokens": [{"id": 999, "content": "<a>"}]}, "'<a>' has id 999, the library gives it 420"),
        ({"added_tokens": [{"id": 30, "content": "<a>"}]}, "one id to two tokens <a>"),
        ({"added_tokens": [{"content": "<a>"}]}, "not a complete tokenizer.json: KeyError"),
    ],
)  # fmt: skip
def test_what_cannot_be_reproduced(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    content = content_of() | change
    for row in content["added_tokens"]:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        row |= flags | row
    file = saved(tmp_path, content)
    with pytest.raises(VocabularyError, match=says) as error:
        read_vocabulary(tmp_path)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)


@needs_library
@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("dropout", 0.5, "dropout = 0.5"),
        ("end_of_word_suffix", "</w>", "end_of_word_suffix"),
        ("merges", None, "not a complete tokenizer.json"),
        ("merges", [["a", "no such token"]], "the library tokenizers cannot read it"),
        ("vocab", {}, "has no token for the byte 0x00|cannot read it"),
    ],
)
def test_models_that_cannot_be_reproduced(
    tmp_path: Path, key: str, value: object, says: str
) -> None:
    content = content_of()
    content["model"][key] = value
    file = saved(tmp_path, content)
    with pytest.raises(VocabularyError, match=says):
        read_vocabulary(file)


@needs_library
def test_merges_in_another_order_are_refused(tmp_path: Path) -> None:
    content = content_of()
    vocab, merges = content["model"]["vocab"], content["model"]["merges"]
    first, last = ("".join(merges[i]) for i in (0, -1))
    vocab[first], vocab[last] = vocab[last], vocab[first]
    file = saved(tmp_path, content)
    with pytest.raises(VocabularyError, match=r"comes before that of .* merges in the order of"):
        read_vocabulary(file)


@needs_library
@pytest.mark.parametrize("ignored", [False, True])
def test_tokens_that_no_merge_makes(tmp_path: Path, ignored: bool) -> None:
    """They mean nothing, or are whole pieces only, as in Llama-3's vocabulary."""
    content = content_of()
    content["added_tokens"] = []
    content["model"]["vocab"]["zqxzqx"] = 600
    content["model"]["ignore_merges"] = ignored
    file = saved(tmp_path, content)
    tokens = mypt_spec.dialect("mypt", vocabulary=file).tokenizer
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(str(file))
    for text in ("zqxzqx", "zqxzqxa", "a zqxzqx"):
        assert tokens.encode(text) == theirs.encode(text).ids
    assert (tokens.encode("zqxzqx") == [600]) == ignored
    assert (600 in tokens.ordinary) == ignored


@needs_library
def test_text_that_no_pattern_matches_is_kept(tmp_path: Path) -> None:
    from tokenizers import Regex, pre_tokenizers

    library = tokenizer("qwen")
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}{1,3}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    file = tmp_path / "tokenizer.json"
    library.save(str(file))
    tokens = mypt_spec.dialect("mypt", vocabulary=file).tokenizer
    text = "ab, 12345!! \n c"
    assert tokens.encode(text) == library.encode(text).ids
    assert tokens.decode(tokens.encode(text)) == text


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    file = tmp_path / "tokenizer.json"
    file.write_text('{"model": {"type": "BPE"}, "version": "1.0"}')
    with pytest.raises(VocabularyError, match=r"needs tokenizers: pip install 'mypt-tags\[tok"):
        read_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("x.json", b"{", "is not JSON"),
        ("x.json", b"[" * 9 + b"{", "expected lines of a token"),
        ("x.json", b'{"a": 1}', "is a JSON object of 'a'; expected a file of ranks"),
        ("x.model", b"\x0a\x0b\0\0", "SentencePiece's models are not read"),
        ("tekken.json", b'{"config": {}, "vocab": []}', "not a complete tekken.json: KeyError"),
        (JSON_FILE, b'{"mypt_vocabulary": 2}', "is of version 2, expected 1"),
        (JSON_FILE, b'{"mypt_vocabulary": 1, "tokens": 3}', "is not a complete vocabulary"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(VocabularyError, match=says):
        read_vocabulary(tmp_path / name)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=f"holds none of {FILE}"):
        read_vocabulary(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(VocabularyError, match=r"its tokenizer\.model is read where"):
        read_vocabulary(tmp_path)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(VocabularyError, match="save it once with transformers"):
        read_vocabulary(tmp_path)
    shutil.copyfile(tekken(), tmp_path / "tekken.json")
    assert read_vocabulary(tmp_path) is read_vocabulary(tekken())
    shutil.copyfile(small(), tmp_path / FILE)
    assert read_vocabulary(tmp_path) is read_vocabulary(small())


def test_an_altered_copy_is_refused(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(tekken())
    file = tmp_path / JSON_FILE
    file.write_bytes(vocabulary.data.replace(b'"YQ=="', b'"YQA="', 1))
    with pytest.raises(VocabularyError, match=r"no token for the byte|altered"):
        read_vocabulary(file)
    file.write_bytes(vocabulary.data.replace(b'{"mypt', b'{ "mypt', 1))
    with pytest.raises(VocabularyError, match="was altered"):
        read_vocabulary(file)


def test_tekken() -> None:
    d = mypt_spec.dialect("mypt", vocabulary=tekken())
    own, usual = d.vocabulary, read_vocabulary(small())
    assert own is not None
    assert own.special["[INST]"] == 3
    assert own.special["<SPECIAL_9>"] == 9
    assert own.ranks == {token: i + 10 for token, i in usual.ranks.items()}
    assert own.patterns == (QWEN,)
    assert d.tokenizer.pad == 5
    assert min(d.tokenizer.special.values()) == 390


@given(st.sets(st.integers(0, 60), min_size=1))
def test_a_set_of_ids(ids: set[int]) -> None:
    id_set = IdSet.from_ids(ids)
    assert [*id_set] == sorted(ids)
    assert len(id_set) == len(ids)
    assert [i for i in range(-5, 70) if i in id_set] == sorted(ids)
    assert [i for i in np.arange(-5, 70) if i in id_set] == sorted(ids)
    first, stop, rest = id_set.parts
    assert {*range(first, stop), *rest} == ids


def test_a_set_of_ids_for_people() -> None:
    assert str(IdSet.from_ids([7, 1, 2, 3])) == "1-3, 7"
    assert str(IdSet.from_ids([1, 3, 5, 7])) == "1, 3, 5, ..."
    assert str(IdSet(())) == "not known"
    assert 0 not in IdSet(())


def test_gpt2_itself_is_a_file_of_ranks() -> None:
    vocabulary = from_tokens(gpt2_ranks(), {}, (GPT2_PATTERN,))
    assert vocabulary.file == FILE
    assert from_tokens(gpt2_ranks(), {"<|endoftext|>": 50256}, (GPT2_PATTERN,)).file == JSON_FILE


@pytest.mark.parametrize("space", [" ", "\n", " \n"])
@pytest.mark.parametrize("around", ["{}", "a{}b", "a{}", "{}1 {}"])
def test_long_white_space(space: str, around: str) -> None:
    """tiktoken's engine would run out of stack."""
    tokenizer = mypt_spec.dialect("mypt", vocabulary=tekken()).tokenizer
    short = around.replace("{}", space * 1500)
    pieces = [tokenizer.encode(piece) for piece in cut(short, (QWEN,))]
    assert tokenizer.encode(short) == [i for ids in pieces for i in ids]
    long = around.replace("{}", space * 300_000)
    assert tokenizer.decode(tokenizer.encode(long)) == long


def test_prepare_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "x.jsonl", native())
    assert prepare([file, "--out", str(tmp_path / "o"), "--vocab", str(tmp_path), "-q"]) == 2
    assert "holds none of" in capsys.readouterr().err
