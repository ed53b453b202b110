"""A long unit that cannot be cut, a file of gzip for instance, goes on after a kill where it was."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_cli.jsonl import compression
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, prepare
from mypt_train.data.units import Encoded
from mypt_train.scale import run
from mypt_train.scale.unit import making
from tests.support.build import contents
from tests.support.examples import examples
from tests.support.plans import LINES
from tests.support.shards import episodes_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SIZE = 700
# Unit files of LINES, so cut.
FILES = -(-sum(map(len, LINES)) // SIZE)


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Makes unit files small, and keeps each second one from a kill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "SIZE", SIZE)
        patch.setattr(run, "BATCH", SIZE)
        patch.setattr(making, "UNITS_PER_NOTE", 2)
        patch.setattr(compression, "_GZ_PIECE", 256)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("in") / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join([_weighed(LINES[0]), *LINES[1:]])))
    return str(path)


@pytest.fixture(scope="module")
def want(small: None, source: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("want") / "out"
    _made(source, out)
    assert (out / "train" / "shard_00000_weights.bin").exists()
    return contents(out)


def _weighed(line: bytes) -> bytes:
    """Returns a record with a weight, which the shards of all lines then have room for."""
    record = json.loads(line)
    record["messages"][1]["weight"] = 0.5
    return json.dumps(record).encode() + b"\n"


def _made(source: str, out: Path, *, resume: bool = False) -> None:
    options = Options(context_length=512, val_fraction=0.3)
    prepare(expand([source]), out, options, resume=resume)


def _killed(source: str, out: Path, after: int) -> None:
    """Prepares, or goes on, in a process that dies when it has made `after` unit files more."""
    child = os.fork()
    if not child:
        try:
            left, head = [after], Encoded.head

            def dying(self: Encoded) -> dict[str, object]:
                if not left[0]:
                    os._exit(9)
                left[0] -= 1
                return head(self)

            Encoded.head = dying  # type: ignore[method-assign]
            _made(source, out, resume=out.exists())
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _encoded(source: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Goes on to the end; returns how many lines were encoded again for that."""
    count, add = [0], Encoded.add

    def counting(self: Encoded, lines: list[bytes], first: int, *, begins: bool) -> None:
        count[0] += len(lines)
        add(self, lines, first, begins=begins)

    with monkeypatch.context() as patch:
        patch.setattr(Encoded, "add", counting)
        _made(source, out, resume=True)
    return count[0]


def test_a_killed_run_keeps_what_it_has_made_of_a_gzip(
    want: dict[str, bytes], source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FILES > 8
    _killed(source, tmp_path / "out", 5)
    _killed(source, tmp_path / "out", 3)  # of those after the first four
    again = _encoded(source, tmp_path / "out", monkeypatch)
    assert again <= len(LINES) * (FILES - 6) / FILES + 2
    assert contents(tmp_path / "out") == want


@given(
    after=st.lists(st.integers(0, FILES // 4), min_size=1, max_size=3),
    lost=st.integers(0, 400),
    damaged=st.none() | st.floats(0, 1),
)
@settings(max_examples=examples(20))
def test_whatever_a_kill_leaves_the_bytes_are_the_same(
    after: list[int],
    lost: int,
    damaged: float | None,
    want: dict[str, bytes],
    source: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    out = tmp_path_factory.mktemp("set") / "out"
    for number in after:
        _killed(source, out, number)
    for notes in out.glob(".work/units/*.parts"):
        notes.write_bytes(notes.read_bytes()[: -lost or None])
    for unit in out.glob(".work/units/*.bin"):
        if damaged is not None and (data := bytearray(unit.read_bytes())):
            data[int(damaged * (len(data) - 1))] ^= 1
            unit.write_bytes(data)
    _made(source, out, resume=True)
    assert contents(out) == want


def test_episodes_have_the_numbers_of_their_lines(small: None, source: str, tmp_path: Path) -> None:
    """Also where a unit file ends within a block of input."""
    out = tmp_path / "out"
    _made(source, out)
    lines, dialect = (
        gzip.decompress(Path(source).read_bytes()).split(b"\n"),
        Options().loaded_dialect,
    )
    episodes = episodes_of(out)
    assert len(episodes) > FILES
    for (_, _, line), (ids, _) in episodes.items():
        episode, _ = dialect.read(json.loads(lines[line - 1]))
        assert episode is not None
        assert ids == dialect.encode(episode).ids.astype("<u2").tobytes(), line


def test_of_what_is_not_whole_nothing_is_taken() -> None:
    unit = making.Making(io.BytesIO())
    before = unit.report(0)
    for part in (b"damaged", b"cut"):
        assert not unit.again(io.BytesIO(part), replace(before, size=7, lines=1))
        assert unit.report(0) == before


def test_progress_moves_within_a_unit(small: None, source: str, tmp_path: Path) -> None:
    shown: list[tuple[str, int, int]] = []

    def show(*now: Any) -> None:
        shown.append(now)

    out, options = tmp_path / "out", Options(context_length=512)
    prepare(expand([source]), out, options, progress=show)
    size = Path(source).stat().st_size
    encoding = [done for what, done, total in shown if what == "encoding" and total == size]
    assert encoding == sorted(encoding)
    assert len(encoding) > 4
    assert 0 < encoding[1] <= encoding[-1] == size
