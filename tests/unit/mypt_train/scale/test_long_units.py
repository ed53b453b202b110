"""A long unit that cannot be cut, a file of gzip for instance."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mypt_cli.jsonl import compression
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, prepare
from mypt_train.scale import run
from tests.support.plans import LINES
from tests.support.shards import episodes_of

SIZE = 700
# Unit files of LINES, so cut.
FILES = -(-sum(map(len, LINES)) // SIZE)


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Makes unit files small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "SIZE", SIZE)
        patch.setattr(run, "BATCH", SIZE)
        patch.setattr(compression, "_GZ_PIECE", 256)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("in") / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(LINES)))
    return str(path)


def test_episodes_have_the_numbers_of_their_lines(small: None, source: str, tmp_path: Path) -> None:
    """Also where a unit file ends within a block of input."""
    out = tmp_path / "out"
    prepare(expand([source]), out, Options(context_length=512, val_fraction=0.3))
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
