"""Conversations are kept whatever ends the process: none is lost, none is there twice."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mypt_infer.chat.journal import Journal
from tests.support.build import read, write
from tests.support.examples import either
from tests.support.victims import Victims, victims

FIRST, SECOND, OTHER = ({"messages": [text], "_transcript": {}} for text in ("a" * 50, "b" * 90, "c"))  # fmt: skip


def lines(path: Path) -> list[Any]:
    return read(path) if path.exists() else []


def parts(path: Path) -> list[Path]:
    return [p for p in path.parent.iterdir() if p != path]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.jsonl"


def test_a_conversation_is_one_line(path: Path) -> None:
    journal = Journal(path)
    journal.put(FIRST)
    assert lines(path) == [FIRST]
    journal.put(SECOND)
    assert journal.end()
    journal.put(OTHER)
    assert lines(path) == [SECOND, OTHER]
    assert journal.end()
    assert not journal.end()
    assert lines(path) == [SECOND, OTHER]
    assert not parts(path)


def test_what_was_taken_back_is_not_kept(path: Path) -> None:
    journal = Journal(path)
    journal.put(None)
    assert not path.exists()
    journal.put(FIRST)
    journal.put(None)
    assert not journal.end()
    assert not lines(path)
    journal.put(OTHER)
    journal.end()
    journal.replaces(path.read_bytes())
    journal.put(SECOND)
    journal.put(None)
    assert lines(path) == [OTHER], "the line that it had replaced"


def test_a_line_without_its_end_stays_a_line(path: Path) -> None:
    path.write_text('{"x": 1}')
    journal = Journal(path)
    journal.put(FIRST)
    journal.end()
    assert lines(path) == [{"x": 1}, FIRST]


def test_two_chats_at_once(path: Path) -> None:
    one, two = Journal(path), Journal(path)
    one.put(FIRST)
    two.put(SECOND)
    one.put(OTHER)
    two.end()
    one.end()
    assert lines(path) == [SECOND, OTHER]


def test_a_conversation_takes_the_place_of_a_line(path: Path) -> None:
    for old in (FIRST, OTHER, FIRST):
        journal = Journal(path)
        journal.put(old)
        journal.end()
    journal.replaces(path.read_bytes().splitlines()[0])
    journal.put(SECOND)
    journal.end()
    assert lines(path) == [OTHER, FIRST, SECOND]
    journal.replaces(b"a line that is not there")
    journal.put(OTHER)
    journal.end()
    assert lines(path) == [OTHER, FIRST, SECOND, OTHER]


def test_a_pipe_gets_a_conversation_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    journal = Journal(path)
    journal.put(FIRST)
    assert journal.end()
    assert json.loads(os.read(reader, 999)) == FIRST
    os.close(reader)


def test_a_full_disk_is_said_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path)
    journal.put(FIRST)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.put(SECOND)
        assert lines(path) == [FIRST]
    assert journal.end()
    assert lines(path) == [SECOND]
    journal.put(OTHER)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for call in (lambda: journal.put(FIRST), journal.end):
            with pytest.raises(OSError, match="No space"):
                call()
    assert lines(path) == [SECOND, OTHER]
    assert not parts(path)


# Kills

TALK = """
journal = Journal(Path(path))
journal.replaces(replaced.encode())
journal.put(first)
journal.put(second)
journal.end()
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Victims]:
    with victims("mypt_infer.chat.journal") as forks:
        yield forks


@pytest.mark.parametrize("replaces", [False, True])
def test_killed_at_any_line(tmp_path: Path, forks: Victims, replaces: bool) -> None:
    before = [OTHER, FIRST, OTHER] if replaces else [OTHER]
    names = {"replaced": json.dumps(FIRST) if replaces else "", "first": FIRST, "second": SECOND}
    # The quick suite kills at each second line, with and without a line to replace in turn.
    for at in itertools.count(1 + replaces, either(2, 1)):
        path = tmp_path / str(at) / "chats.jsonl"
        write(path, *before)
        if forks.run(TALK, at=at, path=str(path), **names) is not None:
            break
        rows = lines(path)
        new = [row for row in rows if row != OTHER]
        assert [row for row in rows if row == OTHER] == [r for r in before if r == OTHER], at
        assert new in ([[FIRST], [SECOND]] if replaces else [[], [FIRST], [SECOND]]), at
    assert at > 30
