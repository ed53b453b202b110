"""Prepared data in a store: read through a cache on the disk, and trained on."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from mypt_cli.store import Store
from mypt_cli.store.kept import Cache, LocalCopy
from mypt_train import ShardError, ShardReader
from mypt_train.data.shard import Shard
from tests.support.children import child
from tests.support.training import config, data

MANIFEST = "dataset_metadata.json"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data(tmp_path_factory.mktemp("sft") / "sft", tokens_per_shard=600)


@pytest.fixture
def url(s3: str, local: Path) -> str:
    """The same data set in a bucket."""
    store = Store.at(f"{s3}/sft")
    for path in local.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(local).as_posix(), path)
    return f"{s3}/sft"


def arrays(shard: Shard) -> tuple[str, bytes, bytes, bytes]:
    return shard.name, shard.ids.tobytes(), shard.mask.tobytes(), shard.index.tobytes()


def read(reader: ShardReader) -> list[tuple[str, bytes, bytes, bytes]]:
    return [arrays(shard) for shard in reader.shards()]


def sizes_of(folder: Path) -> list[int]:
    """Returns the bytes of each shard of the split train."""
    shards = ShardReader(folder).manifest["splits"]["train"]["shards"]
    return [sum(file["bytes"] for file in shard["files"].values()) for shard in shards]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("shard_*") if path.is_file())


def test_shards_of_a_store_are_those_of_the_folder(
    url: str, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    reader = ShardReader(url, cache=cache)
    assert not files(tmp_path), "shards come when they are used"
    expected = read(ShardReader(local))
    assert len(expected) > 2
    assert read(reader) == expected
    # What is kept is not fetched again, but checked when that is asked for.
    cached = files(tmp_path)
    cached[0].write_bytes(bytes(cached[0].stat().st_size))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "open", None)
        with pytest.raises(TypeError):
            read(ShardReader(url, cache=cache, verify=True))
    assert read(ShardReader(url, cache=cache, verify=True)) == expected
    with monkeypatch.context() as patch:
        patch.setattr(Store, "open", None)
        assert read(ShardReader(url, cache=cache, verify=True)) == expected


def test_all_shards_come_some_at_a_time(
    url: str, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file begins before the first is there; what is told grows to the size."""
    together, fetch = Barrier(2, timeout=300), LocalCopy.fetch

    def fetched(self: LocalCopy, name: str, entry: Any) -> Path:
        if name.endswith(("00000.bin", "00000_mask.bin")) and name.startswith("train"):
            together.wait()
        return fetch(self, name, entry)

    counts: list[int] = []
    reader = ShardReader(url, cache=Cache(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(LocalCopy, "fetch", fetched)
        reader.fetch(counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == reader.size
    with monkeypatch.context() as patch:
        patch.setattr(Store, "open", None)  # nothing is left to fetch
        assert read(reader) == read(ShardReader(local))


def test_the_bound_holds_and_the_oldest_goes_first(url: str, local: Path, tmp_path: Path) -> None:
    sizes, seen = sizes_of(local), []
    cache = Cache(tmp_path, limit=sizes[0] + sizes[1])
    for shard in ShardReader(url, cache=cache).shards():
        seen.append(arrays(shard))
        assert sum(path.stat().st_size for path in files(tmp_path)) <= cache.limit
    assert seen == read(ShardReader(local))
    last = {f"shard_{len(sizes) - i:05}" for i in (1, 2)}
    assert {path.name[:11] for path in files(tmp_path)} == last
    with pytest.raises(ShardError, match=r"shard_00000.*and the cache .* may hold 10; give it"):
        read(ShardReader(url, cache=Cache(tmp_path / "small", limit=10)))


def test_what_was_altered_is_refused(url: str, tmp_path: Path) -> None:
    store = Store.at(url)
    whole = store.read("train/shard_00000.bin")
    store.put("train/shard_00000.bin", whole[:-2])
    with pytest.raises(ShardError, match=rf"{url}/train/shard_00000.bin: has .* bytes, expected"):
        ShardReader(url, cache=Cache(tmp_path))
    store.put("train/shard_00000.bin", whole[:-1] + b"\xff")
    reader = ShardReader(url, cache=str(tmp_path))
    with pytest.raises(ShardError, match=rf"{url}/train/shard_00000.bin: was altered \(SHA-256"):
        read(reader)
    assert not any(path.suffix == ".part" for path in files(tmp_path))
    store.delete("train/shard_00000.bin")
    with pytest.raises(ShardError, match=r"shard_00000.bin: there is no such object"):
        ShardReader(url, cache=Cache(tmp_path))
    store.delete(MANIFEST)
    with pytest.raises(ShardError, match=f"{url}: has no {MANIFEST}; name a folder"):
        ShardReader(url, cache=Cache(tmp_path))


def test_another_process_may_take_the_room(
    url: str, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file goes between its fetching and its mapping, once."""
    taken = []
    fetch = LocalCopy.fetch

    def fetched(self: LocalCopy, name: str, entry: object) -> Path:
        path = fetch(self, name, entry)  # type: ignore[arg-type]
        if not taken:
            taken.append(path)
            path.unlink()
        return path

    monkeypatch.setattr(LocalCopy, "fetch", fetched)
    assert read(ShardReader(url, cache=Cache(tmp_path))) == read(ShardReader(local))


def test_what_is_listed_late_is_read(
    url: str, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = Store.entries
    monkeypatch.setattr(Store, "entries", lambda self: entries(self)[:3])
    assert read(ShardReader(url, cache=Cache(tmp_path))) == read(ShardReader(local))


def test_processes_share_a_cache(url: str, local: Path, tmp_path: Path) -> None:
    """Two at once, with room for less than they read: none sees half a file."""
    code = """
import sys, hashlib
from pathlib import Path
from mypt_train import ShardReader
from mypt_cli.store.kept import Cache
digest = hashlib.sha256()
for _ in range(2):
    for shard in ShardReader(sys.argv[1], cache=Cache(Path(sys.argv[2]), int(sys.argv[3]))).shards():
        digest.update(shard.ids.tobytes() + shard.index.tobytes())
print(digest.hexdigest())
"""
    limit = str(max(path.stat().st_size for path in files(local)) * 5)
    command = [sys.executable, "-c", code, url, str(tmp_path), limit]
    with ExitStack() as ends:
        running = [ends.enter_context(child(command, stdout=subprocess.PIPE)) for _ in range(2)]
        digests = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(digests) == 1
    assert sum(path.stat().st_size for path in files(tmp_path)) <= int(limit)


def test_what_a_kill_has_left_is_taken_away(url: str, local: Path, tmp_path: Path) -> None:
    """A part takes room as long as the process that writes it lives."""
    fcntl = pytest.importorskip("fcntl", reason="locks tell whether a process has ended")
    largest = max(sizes_of(local))
    cache = Cache(tmp_path / "cache", limit=largest)
    part = cache.root / "other" / "train" / f"shard_00000.bin.ab12.{largest}.part"
    part.parent.mkdir(parents=True)
    with part.open("wb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        with pytest.raises(ShardError, match=r"too little for a shard of each process .*--cache-"):
            read(ShardReader(url, cache=cache))
        assert part.exists()
    assert read(ShardReader(url, cache=cache)) == read(ShardReader(local))
    assert not part.exists()


@pytest.mark.numeric
def test_a_model_is_trained_on_a_store(
    url: str, local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="trains")
    from mypt.train import main
    from mypt_train.training.corpus import corpus, open_data
    from mypt_train.training.trainer import train

    cache = Cache(tmp_path / "cache")
    here, there = (corpus(open_data([where], cache=cache), "train") for where in (local, url))
    assert list(map(list, here.rows())) == list(map(list, there.rows()))
    (name,) = (reader.name for reader in open_data([url.rpartition("/")[0]], cache=cache))
    assert name == url, "a folder of data sets"
    report = train(url, config(), tmp_path / "run", steps=1, cache=cache)
    assert np.isfinite(report.loss)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"-of-tests" in data for data in written), "no credentials"
    with pytest.raises(ShardError, match=r"have \d+ bytes in all, .* may hold 100; .*--cache-gb"):
        open_data([url], cache=Cache(tmp_path, limit=100))
    more = ["--config", "tiny", "--cache", str(tmp_path), "--cache-gb", "1"]
    assert main(["--data", f"{url}/none", *more, "--out", str(tmp_path / "no")]) == 2
    assert f"{url}/none: has no {MANIFEST}" in capsys.readouterr().err
