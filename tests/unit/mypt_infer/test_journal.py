"""Conversations are kept whatever ends the process: none is lost, none is there twice."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mypt_infer.chat import journal as module
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


def test_a_conversation_is_one_line_when_it_ends(path: Path) -> None:
    journal = Journal(path)
    journal.put(FIRST)
    assert not path.exists()
    journal.put(SECOND)
    assert journal.end()
    journal.put(OTHER)
    assert lines(path) == [SECOND]
    assert len(parts(path)) == 1
    assert journal.end()
    assert not journal.end()
    assert lines(path) == [SECOND, OTHER]
    assert not parts(path)


def test_what_was_taken_back_is_not_kept(path: Path) -> None:
    journal = Journal(path)
    journal.put(FIRST)
    journal.put(None)
    assert not journal.end()
    assert not lines(path)
    assert not parts(path)


def test_a_line_without_its_end_stays_a_line(path: Path) -> None:
    path.write_text('{"x": 1}')
    journal = Journal(path)
    journal.put(FIRST)
    journal.end()
    assert lines(path) == [{"x": 1}, FIRST]


def test_two_chats_at_once(path: Path) -> None:
    """Neither takes the other's part for one that was left."""
    one, two = Journal(path), Journal(path)
    one.put(FIRST)
    two.put(SECOND)
    assert Journal(path).recover() == 0
    two.end()
    one.end()
    assert lines(path) == [SECOND, FIRST]


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
    assert journal.recover() == 0
    journal.put(FIRST)
    assert journal.end()
    assert json.loads(os.read(reader, 999)) == FIRST
    os.close(reader)


def test_a_full_disk_is_said_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path)
    journal.put(FIRST)

    def full(out: Any, data: bytes) -> None:
        out.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "_write", full)
        with pytest.raises(OSError, match="No space"):
            journal.put(SECOND)
        with pytest.raises(OSError, match="No space"):
            journal.end()
    assert Journal(path).recover() == 1
    assert lines(path) == [FIRST]


# Kills

TALK = """
journal = Journal(Path(path))
journal.recover()
journal.replaces(replaced.encode())
journal.put(first)
journal.put(second)
journal.end()
"""
RECOVER = "Journal(Path(path)).recover()"
LINES = 90  # more than `recover` runs


@pytest.fixture(scope="module")
def forks() -> Iterator[Victims]:
    with victims("mypt_infer.chat.journal") as forks:
        yield forks


@pytest.mark.parametrize("replaces", [False, True])
def test_killed_at_any_line(tmp_path: Path, forks: Victims, replaces: bool) -> None:
    """Also while what a killed process has left is added."""
    before = [OTHER, FIRST, OTHER] if replaces else [OTHER]
    names = {"replaced": json.dumps(FIRST) if replaces else "", "first": FIRST, "second": SECOND}
    # The quick suite kills at each second line, with and without a line to replace in turn.
    for at in itertools.count(1 + replaces, either(2, 1)):
        path = tmp_path / str(at) / "chats.jsonl"
        write(path, *before)
        if forks.run(TALK, at=at, path=str(path), **names) is not None:
            break
        again = path.parent / "again" / path.name
        again.parent.mkdir()
        for name in filter(Path.is_file, path.parent.iterdir()):
            shutil.copy(name, again.parent)
        forks.run(RECOVER, at=at * 7 % LINES + 1, path=str(again))
        for file in (path, again):
            Journal(file).recover()
            rows = lines(file)
            new = rows[1:] if not replaces else [r for r in rows if r != OTHER]
            assert [r for r in rows if r == OTHER] == [r for r in before if r == OTHER], at
            assert new in (([[FIRST], [SECOND]]) if replaces else [[], [FIRST], [SECOND]]), at
            assert not [p for p in parts(file) if p.suffix == ".part"], at
    assert at > 60


def test_half_a_line_is_completed(path: Path, forks: Victims) -> None:
    """A machine that stops in the middle of a write."""
    line = json.dumps(SECOND).encode() + b"\n"
    part = path.with_name(path.name + ".12ab.part")
    for length in {0, 1, len(line) - 1, len(line)} | {*range(2, len(line), either(13, 1))}:
        step = either(12, 6)
        for at in range(1 + length % step, LINES, step):
            path.write_bytes(b'{"x": 1}\n' + line[:length])
            part.write_bytes(line + b'{"at": 9}\n{"mess')
            forks.run(RECOVER, at=at, path=str(path))
            Journal(path).recover()
            assert lines(path) == [{"x": 1}, SECOND], (length, at)
            assert not part.exists()
    part.write_bytes(json.dumps(FIRST).encode() + b"\n" + line[:20])
    Journal(path).recover()
    assert lines(path) == [{"x": 1}, SECOND, FIRST]


def test_a_line_that_another_follows_is_not_added_again(path: Path) -> None:
    """A chat that was killed after it added its line, before it removed its part."""
    write(path, SECOND, OTHER)
    part = path.with_name(path.name + ".12ab.part")
    part.write_bytes(json.dumps(SECOND).encode() + b'\n{"at": 0}\n')
    Journal(path).recover()
    assert lines(path) == [SECOND, OTHER]
