"""A file is whole or not there: after errors, after a kill, through links and permissions."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mypt_cli import atomic
from tests.support.build import contents
from tests.support.victims import Victims, victims

OLD, NEW = b"old\n", b"new\n" * 1000

# Each writes half of what it has to write, and is killed there.
WRITERS = {
    "replacing": "with atomic.replacing(path) as out: out.write(half); out.flush(); die()",
    "write": "atomic.write(path, pieces())",
    "Output": "with Output(str(path), ()) as out: out.write_bytes(half); out._stream.flush(); die()",
    "packed": "with Output(f'{path}.gz', ()) as out: out.write_bytes(half); die()",
    "baseline": "os.fsync = lambda _: die(); baseline.write(str(path), KEYS)",
    "folder": "with atomic.folder(path) as made: (made / 'a').write_bytes(half); die()",
}
SCRIPT = """
import os
from pathlib import Path
from mypt_cli import atomic
from mypt_cli.jsonl.output import Output
from mypt_lint.check import baseline

path, half = Path(name), b"half" * 1000

def die():
    os._exit(9)

def pieces():
    yield half
    die()

KEYS = [baseline.Key("e", "MYP201", "/messages/0")]
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Victims]:
    with victims("mypt_lint.check.baseline") as forks:
        yield forks


def kill(forks: Victims, writer: str, path: Path) -> None:
    """Runs a writer up to its middle, and kills it there."""
    assert forks.run(SCRIPT + WRITERS[writer], name=str(path)) is None


@pytest.mark.parametrize("old", [OLD, None])
@pytest.mark.parametrize("name", [name for name in WRITERS if name != "folder"])
def test_a_kill_leaves_the_old_file_or_none(
    tmp_path: Path, forks: Victims, name: str, old: bytes | None
) -> None:
    path = tmp_path / "data"
    target = tmp_path / ("data.gz" if name == "packed" else "data")
    if old is not None:
        target.write_bytes(old)
    kill(forks, name, path)
    assert (target.read_bytes() if target.exists() else None) == old
    atomic.write(target, [NEW])  # and what was left is not in the way
    assert target.read_bytes() == NEW


@pytest.mark.parametrize("old", [True, False])
def test_a_kill_leaves_the_old_folder_or_none(tmp_path: Path, forks: Victims, old: bool) -> None:
    path = tmp_path / "folder"
    if old:
        path.mkdir()
        (path / "a").write_bytes(OLD)
    kill(forks, "folder", path)
    assert path.exists() == old
    if old:
        assert (path / "a").read_bytes() == OLD
    with atomic.folder(path) as made:
        (made / "b").write_bytes(NEW)
    assert [(p.name, p.read_bytes()) for p in path.iterdir()] == [("b", NEW)]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"], "what was left is taken over"


def test_write_joins_its_pieces(tmp_path: Path) -> None:
    atomic.write(tmp_path / "x", [b"ab", memoryview(b"cd")])
    assert (tmp_path / "x").read_bytes() == b"abcd"


@pytest.mark.parametrize("old", [OLD, None])
@pytest.mark.parametrize("failing", ["fsync", "replace", "body", "interrupt"])
def test_an_error_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, old: bytes | None
) -> None:
    path = tmp_path / "x"
    if old is not None:
        path.write_bytes(old)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def pieces() -> Iterator[bytes]:
        yield NEW
        if failing == "body":
            fail()
        if failing == "interrupt":
            raise KeyboardInterrupt

    if failing in ("fsync", "replace"):
        monkeypatch.setattr(atomic.os, failing, fail)

    def files() -> None:
        with atomic.folder(tmp_path / "f") as made:
            for piece in pieces():
                (made / "y").write_bytes(piece)

    with pytest.raises((OSError, KeyboardInterrupt)):
        atomic.write(path, pieces())
    with pytest.raises((OSError, KeyboardInterrupt)):
        files()
    assert contents(tmp_path) == ({} if old is None else {"x": old})


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_permissions_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(OLD)
    path.chmod(mode)
    with atomic.replacing(path) as out:
        out.write(NEW)
        modes = [stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir() if p != path]
    assert modes == [mode], "nobody else may read it while it is written"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        atomic.write(tmp_path / "x", [NEW])
        (tmp_path / "y").write_bytes(NEW)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o666 & ~umask}


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(tmp_path: Path, there: bool) -> None:
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "x", tmp_path / "link"
    if there:
        target.write_bytes(OLD)
    link.symlink_to(target)
    atomic.write(link, [NEW])
    assert link.is_symlink()
    assert target.read_bytes() == NEW
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["data", "link", "x"]


def test_the_data_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, then the name, then the folder that has the name."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renamed(old: Path, new: Path) -> None:
        done.append("name")
        replace(old, new)

    monkeypatch.setattr(atomic.os, "fsync", synced)
    monkeypatch.setattr(atomic.os, "replace", renamed)
    atomic.write(tmp_path / "x", [NEW])
    assert done == ["file", "name", "folder"]
    done.clear()
    with atomic.folder(tmp_path / "f") as made:
        (made / "a").write_bytes(NEW)
        (made / "b").write_bytes(NEW)
    assert done == ["file", "file", "folder", "name", "folder"]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    """The last one that is done wins, as a whole."""
    path = tmp_path / "x"
    with atomic.replacing(path) as one:
        one.write(b"one")
        with atomic.replacing(path) as two:
            two.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"one"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_nobody_may_list(tmp_path: Path) -> None:
    """Such a folder cannot be synced, but files in it can be written."""
    folder = tmp_path / "f"
    folder.mkdir()
    folder.chmod(0o300)
    try:
        atomic.write(folder / "x", [NEW])
        assert (folder / "x").read_bytes() == NEW
    finally:
        folder.chmod(0o700)
