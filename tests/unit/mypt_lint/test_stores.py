"""`mypt-lint` and `mypt-convert` read objects of stores as they read files."""

from __future__ import annotations

import gzip
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mypt import convert
from mypt.lint import cli
from mypt_cli.store.remote import Bucket
from mypt_lint.report.paths import uri
from tests.support.linting import ROOT
from tests.support.programs import python
from tests.support.stores import put

zstandard = pytest.importorskip("zstandard", reason="reads .zst")
GOOD = (ROOT / "examples" / "phase1.jsonl").read_bytes()
BAD = GOOD + b"no record\n"


@pytest.mark.extra("pyarrow")
def test_findings_name_the_url_and_equal_those_of_a_file(
    s3: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [json.loads(line) for line in GOOD.splitlines()]
    parquet.write_table(pyarrow.Table.from_pylist(rows), "d.parquet")
    files = {
        "a.jsonl": BAD,
        "b.jsonl.zst": zstandard.compress(BAD),
        "c.jsonl.gz": gzip.compress(BAD),
        "d.parquet": Path("d.parquet").read_bytes(),
        "e.json": json.dumps(rows).encode(),
        "raw/f.jsonl": BAD,
        "notes.txt": b"no data",
        "other.json": b"{}",
    }
    for name, data in files.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        put(f"{s3}/data", name, data)
    for chosen in ((), ("--exclude", "f.jsonl")):
        printed = []
        for place in ("data", f"{s3}/data"):
            assert cli.main([place, "--format", "concise", *chosen]) == 1
            out, err = capsys.readouterr()
            printed.append((out.replace(place, "data"), err.replace(place, "data")))
        assert printed[0] == printed[1]
        assert ("raw/f.jsonl" in printed[0][0]) == (not chosen)
    # One process reads, whatever is asked for: a fork of it has no connection.
    assert cli.main(["-j", "2", f"{s3}/data/*.jsonl.zst", f"{s3}/data/d.parquet"]) == 1
    assert f"{s3}/data/b.jsonl.zst:{len(rows) + 1}:" in capsys.readouterr().out
    assert cli.main([f"{s3}/data/b.jsonl.zst", "--fix", "-o", "o.jsonl"]) == 1
    assert convert.main([f"{s3}/data/e.json", "--to", "chatml", "-o", "c"]) == 0
    assert len(Path("c").read_bytes().splitlines()) == len(rows)


@pytest.mark.parametrize(
    ("path", "options", "why"),
    [
        ("a.jsonl", ["--fix"], "a.jsonl: objects of a store are not fixed in place; name a file"),
        ("a.jsonl", ["--watch"], "--watch needs local files, and cannot watch a store"),
        ("b.jsonl", [], "b.jsonl: there is no such object"),
        ("*.zst", [], "*.zst: the pattern matches no object"),
        ("texts", [], "texts: nothing to read; no file to read; name the objects themselves"),
        ("sft", [], "sft: is a prepared data set; copy it here to train on it, or to look at it"),
        ("a.jsonl", ["--fix", "-o", "s3://b/x"], "s3://b/x: is a URL; name a file here"),
    ],
)
def test_bad_input(
    s3: str, capsys: pytest.CaptureFixture[str], path: str, options: list[str], why: str
) -> None:
    put(s3, "a.jsonl", BAD)
    put(s3, "texts/notes.txt", b"")
    put(s3, "sft/dataset_metadata.json", b"{}")
    assert cli.main([f"{s3}/{path}", *options]) == 2
    out, err = capsys.readouterr()
    assert why in err
    assert out == ""


def test_other_faults(s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path, why in (
        ("s3://none-such/a.jsonl", "there is no such bucket"),
        ("ftp://host/a.jsonl", "ftp:// is not a supported store"),
        ("s3://me:hunter2@host/a.jsonl", "s3://***@host/a.jsonl: holds a user"),
    ):
        assert cli.main([path]) == 2
        err = capsys.readouterr().err
        assert why in err
        assert "hunter2" not in err


def test_an_object_that_changes_while_it_is_read(
    s3: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second range has another ETag than the first."""
    data = BAD * (400_000 // len(BAD))
    put(s3, "a.jsonl", data)
    read, calls = Bucket.get, count()

    def changing(self: Bucket, key: str, *part: Any) -> Any:
        if next(calls) == 1:
            put(s3, key, data + b"\n")
        return read(self, key, *part)

    monkeypatch.setattr(Bucket, "get", changing)
    assert cli.main([f"{s3}/a.jsonl", "-q"]) == 2
    assert f"{s3}/a.jsonl: has changed since it was listed" in capsys.readouterr().err


def test_memory_is_bounded_and_files_need_neither_obstore_nor_torch(
    s3: str, tmp_path: Path
) -> None:
    line = b'{"a": "' + b"x" * (1 << 20) + b'"}\n'
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    packed = b"".join(packer.compress(line) for _ in range(100)) + packer.flush()
    put(s3, "a.jsonl.zst", packed)
    (tmp_path / "b.jsonl").write_bytes(GOOD)
    code = """
import resource, sys
from mypt.lint.cli import main
from mypt_cli.jsonl.paths import expand
from mypt_cli.jsonl.records import record_blocks
assert main([sys.argv[2], "-q"]) == 0
assert not {"obstore", "torch"} & {*sys.modules}
(source,) = expand([sys.argv[1]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(len(block.data) for block in record_blocks(source))
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, "torch" in sys.modules)
"""
    done = python(code, f"{s3}/a.jsonl.zst", tmp_path / "b.jsonl", check=True)
    size, used, torch = done.stdout.split()
    assert int(size) == 100 * len(line)
    assert int(used) < 40_000, "kilobytes"
    assert torch == "False"


def test_uris_of_objects() -> None:
    assert uri("s3://b/a b.jsonl") == ("s3://b/a%20b.jsonl", False)
