"""Vocabularies are proved once for all processes, and no state of the cache gives another one."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mypt_cli.errors import UsageError
from mypt_lint.template import source
from mypt_lint.template.source import added_tokens
from mypt_spec.tokenizer import proved as module
from mypt_spec.tokenizer.proved import FILES, FOLDER, cached
from mypt_spec.tokenizer.sources import _parse, read_vocabulary
from mypt_spec.tokenizer.vocabulary import Vocabulary, VocabularyError
from tests.support.foreign import path

pytest.importorskip("tokenizers")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "LEAST", 0)
    return tmp_path / "mypt-tags" / FOLDER


Read = Callable[[bytes], Vocabulary]


def reader(kind: str) -> tuple[bytes, Read, list[str]]:
    """The bytes of a file, what reads them, and a list of the times that it did."""
    times = list[str]()

    def read(data: bytes) -> Vocabulary:
        times.append(kind)
        return _parse("here", data)

    return (path(kind) / "tokenizer.json").read_bytes(), read, times


def proved(data: bytes, read: Read) -> Vocabulary:
    """What is proved of a file with these bytes."""
    with tempfile.TemporaryDirectory() as here:
        (file := Path(here) / "tokenizer.json").write_bytes(data)
        return module.proved(file, read)


def values(vocabulary: Vocabulary) -> dict[str, object]:
    out = {f.name: getattr(vocabulary, f.name) for f in dataclasses.fields(vocabulary)}
    return out | {"order": list(vocabulary.ranks), "lacks": vocabulary.lacks}


@pytest.mark.parametrize("kind", ["qwen", "deepseek"])
def test_a_vocabulary_is_proved_once(folder: Path, kind: str) -> None:
    data, read, times = reader(kind)
    first = proved(data, read)
    assert values(proved(data, read)) == values(first) == values(read(data))
    assert times == [kind] * 2  # the second one is this test's
    assert len([*folder.iterdir()]) == 1


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "folder"])
def test_a_damaged_file_is_read_again(folder: Path, damage: str) -> None:
    data, read, times = reader("qwen")
    expected = values(proved(data, read))
    (file,) = folder.iterdir()
    content = file.read_bytes()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
        damaged = {"empty": b"", "cut": content[:-9], "flipped": flipped, "foreign": b"{}\n"}
        file.write_bytes(damaged[damage])
    assert values(proved(data, read)) == expected
    assert values(proved(data, read)) == expected
    assert len(times) == (3 if damage == "folder" else 2)  # a folder there is left alone


def test_other_bytes_and_other_code_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read, times = reader("qwen")
    proved(data, read)
    assert proved(data + b" ", read) is not None
    monkeypatch.setattr(module, "_code", lambda: b"another release")
    proved(data, read)
    assert len(times) == 3


def test_what_is_refused_is_not_kept(folder: Path) -> None:
    data = (path("qwen") / "tokenizer.json").read_bytes().replace(b'"BPE"', b'"Unigram"')
    for _ in range(2):
        with pytest.raises(VocabularyError, match="Unigram"):
            proved(data, partial(_parse, "here"))
    assert not folder.exists()


def test_a_cache_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read, times = reader("qwen")
    folder.parent.parent.mkdir(exist_ok=True)
    folder.parent.write_text("no folder")  # for root, too, who may write anywhere else
    assert values(proved(data, read)) == values(proved(data, read))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    proved(data, read)
    assert len(times) == 3


def test_what_was_used_longest_ago_goes(folder: Path) -> None:
    data, read, times = reader("qwen")
    proved(data, read)
    for number in range(FILES):
        for age, file in enumerate(folder.iterdir()):  # all older than what comes
            os.utime(file, (100 + age, 100 + age))
        proved(data, read)  # used: the youngest
        proved(data + b" " * (number + 1), read)
        assert len([*folder.iterdir()]) == min(number + 2, FILES)
    before = len(times)
    proved(data, read)
    assert len(times) == before == FILES + 1


def test_several_may_write_at_once(folder: Path) -> None:
    data, read, _ = reader("qwen")
    out: list[Vocabulary] = []
    threads = [threading.Thread(target=lambda: out.append(proved(data, read))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({repr(values(vocabulary)) for vocabulary in out}) == 1
    assert len([*folder.iterdir()]) == 1


def test_a_small_file_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data, read, _ = reader("qwen")
    proved(data, read)
    read_vocabulary(path("qwen"))
    assert not [*tmp_path.iterdir()]


def test_a_file_that_is_altered_meanwhile_is_not_kept(folder: Path, tmp_path: Path) -> None:
    (file := tmp_path / "tokenizer.json").write_bytes(b"old")
    before = module.digest_of(file)

    def make(data: bytes) -> bytes:
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "digest_of", lambda _: before)
        file.write_bytes(b"newer")
        assert cached("kind", file, make) == b"newer"
    assert not folder.exists()
    assert cached("kind", file, make) == b"newer"
    assert cached("kind", file, lambda _: b"not called") == b"newer"
    assert cached("another", file, lambda _: b"called") == b"called"
    file.write_bytes(b"changed")
    assert cached("kind", file, make) == b"changed"


def test_added_tokens_are_read_once(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text('{"added_tokens": [{"id": 7, "content": "<a>", "special": true}], "model": {}}')
    tokens = added_tokens(tmp_path)
    assert tokens == [{"id": 7, "content": "<a>"}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_added_tokens", lambda _: [])
        assert added_tokens(tmp_path) == tokens
        file.write_text('{"added_tokens": []}')
        assert added_tokens(tmp_path) == []
    file.write_text('{"added_tokens": [{"id"')
    for _ in range(2):
        with pytest.raises(UsageError, match="added_tokens must be"):
            added_tokens(tmp_path)
