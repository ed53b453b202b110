"""`mypt-lint --launcher`: wherever files are cut, the findings are those of one process."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mypt.lint import cli, launch
from mypt.lint import unit_job as jobs
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.paths import expand
from mypt_cli.store import Store
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run.chunk import Chunk
from mypt_lint.run.plan import Group, planned
from mypt_lint.run.runner import run
from mypt_train.scale.drive import Here, here
from mypt_train.scale.launch.queue import Ended, Engine
from mypt_train.scale.planning import cut
from tests.support.packings import bgzf, seekable
from tests.support.plans import HAS_PARQUET, LINES, inputs
from tests.support.programs import python

RECORD = json.loads(LINES[0])
POOL = [
    *LINES[:3],
    json.dumps({**RECORD, "mood": "good"}).encode() + b"\n",  # a key that is told once a file
    json.dumps({"text": "of another shape"}).encode() + b"\n",
    LINES[0].replace(b'"messages"', b'"message"'),
    b"no record\n",
    b"\n",
    b"\xef\xbb\xbf" + LINES[1],
    b'{"a": "' + b"x" * 2000 + b'"}\n',  # too long, where lines may have 1000 bytes
]
SOME = st.lists(st.sampled_from(POOL), max_size=12)


def _packed(draw: st.DrawFn, whole: bytes, packing: str) -> tuple[str, bytes]:
    """Returns the name of a file and its bytes, packed in pieces that are cut anywhere."""
    at = sorted({0, len(whole), *draw(st.lists(st.integers(0, len(whole)), max_size=5))})
    parts = [whole[a:b] for a, b in pairwise(at)] or [whole]
    if packing == "bgzf":
        return "a.jsonl.gz", bgzf(parts)
    frames = map(zstandard.ZstdCompressor(level=1, write_checksum=True).compress, parts)
    return "a.jsonl.zst", seekable(parts, True) if packing == "table" else b"".join(frames)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file of records, of which some are faulty, and which may be damaged."""
    kinds = ["", "", "zst", "table", "bgzf", "gz", "array", *["rows"] * HAS_PARQUET]
    packing = draw(st.sampled_from(kinds))
    lines = draw(SOME)
    whole = b"".join(lines)
    if draw(st.booleans()):
        whole = whole.removesuffix(b"\n")
    name = "a.jsonl"
    if packing == "array":
        name, whole = "a.json", b"[" + b",\n".join(line.strip() for line in lines) + b"]"
    elif packing == "rows":
        import pyarrow as pa
        import pyarrow.parquet as pq

        roles = draw(st.text("uam", max_size=8))
        rows = [{"system": "s", "messages": [{"role": role}]} for role in roles]
        sink = pa.BufferOutputStream()
        schema = {"system": pa.string(), "messages": pa.list_(pa.struct({"role": pa.string()}))}
        columns = pa.Table.from_pylist(rows, pa.schema(schema))
        pq.write_table(columns, sink, row_group_size=draw(st.integers(1, 4)))
        name, whole = "a.parquet", sink.getvalue().to_pybytes()
    elif packing == "gz":
        name, whole = "a.jsonl.gz", gzip.compress(whole, mtime=0)
    elif packing:
        name, whole = _packed(draw, whole, packing)
    if packing and whole and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(whole) - 1))
        whole = whole[:at] + bytes([whole[at] ^ 1 << draw(st.integers(0, 7))]) + whole[at + 1 :]
    return name, whole


Outcome = tuple[list[Diagnostic], Summary, set[Any], Counter[str]]


def outcome_of(chunks: Iterable[Chunk]) -> Outcome:
    """Returns all that chunks hold, whoever made them: findings, counts, keys and codes."""
    total, items, keys = Summary(), list[Diagnostic](), set[Any]()
    for chunk in chunks:
        total.add(chunk.summary)
        items += chunk.findings
        keys.update(chunk.keys)
    return items, total, keys, Counter(item.finding.code for item in items)


def by_one_process(groups: list[Group]) -> Outcome:
    return outcome_of(c for g in groups for c in run(g.checker, g.sources, g.kind))


def groups_of(paths: list[str], keys: frozenset[Any] | None) -> list[Group]:
    options = cli.main.parser().parse_args([*paths, "--no-config"])
    plan = planned(options)
    return plan.groups(expand(paths), baseline=keys, say=lambda _: None)


@given(st.data())
def test_findings_are_those_of_one_process(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("lint")
    paths = []
    for number, (name, content) in enumerate(data.draw(st.lists(files(), min_size=1, max_size=3))):
        paths.append(folder / f"{number}-{name}")
        paths[-1].write_bytes(content)
    keys = data.draw(st.sampled_from([None, frozenset()]))
    groups = groups_of([str(path) for path in paths], keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "MAX_LINE", 1000)
        patch.setattr("mypt_lint.run.runner.MAX_LINE", 1000)
        patch.setattr(jobs, "MANY", data.draw(st.sampled_from([2, 1000])))
        patch.setattr(cut, "PACKED", 1)
        want = by_one_process(groups)
        size = data.draw(st.integers(1, 4000))
        merged = outcome_of(launch.merged(groups, partial(here, jobs=1), size=size))
    assert merged == want
    shutil.rmtree(folder)


def frames(folder: Path) -> Path:
    """Returns a file of three frames, the second damaged, none of which begins at a whole KiB."""
    rng = random.Random(0)
    parts = [
        b"".join(b"%d %s\n" % (n, rng.randbytes(60).hex().encode()) for n in range(900))
        for _ in range(3)
    ]
    packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
    packed = [bytearray(packer.compress(part)) for part in parts]
    packed[1][len(packed[1]) // 2] ^= 0xFF
    path = folder / "a.jsonl.zst"
    path.write_bytes(b"".join(packed))
    assert len(packed[0]) % 1024
    return path


def table(folder: Path) -> Path:
    """Returns a file of six row groups, the fourth of which is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "a.parquet"
    rows = [{"text": f"{n} " * 20} for n in range(60)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    column = pq.ParquetFile(path).metadata.row_group(3).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + 2] ^= 0xFF
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("make", [frames, pytest.param(table, marks=pytest.mark.extra("pyarrow"))])
def test_nothing_is_read_after_damage(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    groups = groups_of([str(path)], None)
    want = by_one_process(groups)
    assert want[-1]["MYP003"] == 1
    assert want[1].units > 20
    for size in (1, path.stat().st_size // 2, 1 << 30):
        assert outcome_of(launch.merged(groups, partial(here, jobs=1), size=size)) == want


FORMATS = ("concise", "grouped", "json", "jsonl", "junit", "sarif")
KEY, SECRET = "AKIAIOSFODNN7NOBODY", "wJalrXUtnFEMIzK7MDENGqbPxRfiCYNOBODYKEY"
# Units of 900 bytes, so that there are many.
COMMAND = """
import sys
from mypt.lint.cli import main
from mypt.lint import launch
launch._LEAST = launch._MOST = 900
sys.exit(main(sys.argv[1:]))
"""


def written(folder: Path, paths: list[str], *more: str) -> tuple[int, str, str, dict[str, bytes]]:
    """Returns the exit status of the command in a folder, what it printed, and wrote by format."""
    chosen = [f"--format={name}={folder / name}" for name in FORMATS]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *paths, "--no-config", "--format=text", *chosen, *more],
        input=b"".join(POOL), capture_output=True, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    files = {name: (folder / name).read_bytes() for name in FORMATS}
    return done.returncode, done.stdout.decode(), done.stderr.decode(), files


def everything(folder: Path) -> list[str]:
    """Returns files of all kinds, of which one is cut off in its last line, and two are alike."""
    paths = inputs(folder / "in")
    Path(paths[0]).write_bytes(b"".join([*LINES, *POOL, b"no line end"]))
    return [os.path.relpath(path, folder) for path in paths]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home, with temporary files, of a short name: that of a socket has at most 107 bytes."""
    with TemporaryDirectory() as folder:
        for name in ("HOME", "TMPDIR"):
            monkeypatch.setenv(name, folder)
        yield Path(folder)


def test_the_command_writes_the_same_by_processes_and_no_credentials(
    s3: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = everything(tmp_path)
    for path in paths[:4]:
        Store.at(s3).put(path, (tmp_path / path).read_bytes())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    paths = [*paths, f"{s3}/in", "-"]
    want = written(tmp_path, paths, "--data-set")
    assert want[0] == 1
    assert "MYP601" in want[1]
    launched = written(tmp_path, paths, "--data-set", "--launcher=local", "-j2")
    here = "checked here, by one process: <stdin>, what compares all records (--data-set)\n"
    assert launched[2] == f"--launcher local: {here}{want[2]}"
    assert (*launched[:2], *launched[3:]) == (*want[:2], *want[3:])
    places = [*tmp_path.rglob("*"), *home.rglob("*")]
    files = [path.read_bytes() for path in places if path.is_file()]
    job = jobs.packed(launch._job(groups_of([f"{s3}/in"], None), 900))
    for text in (job, *(printed.encode() for printed in launched[1:3]), *files):
        assert KEY.encode() not in text
        assert SECRET.encode() not in text


@pytest.mark.skipif(sys.platform != "linux", reason="sockets have other names elsewhere")
def test_a_folder_whose_name_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ("x" * 100)).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("x" * 100)))
    status, _, errors, _ = written(tmp_path, everything(tmp_path), "--launcher=local", "-j2")
    assert status == 2
    assert "set TMPDIR to a shorter one" in errors


def test_ray_writes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not part of the test extra: nox -s scale")
    paths = everything(tmp_path)
    assert written(tmp_path, paths, "--launcher=ray", "-j2") == written(tmp_path, paths)


class Dying(Here):
    """An engine whose process is killed at the first attempt of each second unit."""

    died: frozenset[int] = frozenset()

    def ended(self) -> Ended:
        if self._unit % 2 and self._unit not in self.died:
            self.died |= {self._unit}
            return Ended(self._unit, error="its process was killed")
        return super().ended()


class Broken(Here):
    """An engine that never ends the second unit."""

    def ended(self) -> Ended:
        return Ended(self._unit, error="no memory") if self._unit == 1 else super().ended()


def test_units_whose_process_dies_are_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(LINES + POOL))
    groups = groups_of([str(path)], None)
    merged = launch.merged(groups, lambda do: nullcontext(Dying(do)), size=900)
    assert outcome_of(merged) == by_one_process(groups)
    with pytest.raises(UsageError, match=f"{path}: checking failed: no memory"):
        list(launch.merged(groups, lambda do: nullcontext(Broken(do)), size=900))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--launcher=local", "--fix"], "--launcher only checks; remove it to fix"),
        (["--launcher=ray"], "the launcher ray needs: pip install 'mypt-tags[ray]'"),
    ],
)
def test_what_a_launcher_cannot_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    why: str,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "a.jsonl").write_bytes(LINES[0])
    assert cli.main([str(tmp_path / "a.jsonl"), *options]) == 2
    assert why in capsys.readouterr().err


def test_a_file_that_goes_away_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(b"".join(LINES))
    groups = groups_of(["a.jsonl"], None)

    def engine(do: Callable[[int], object]) -> AbstractContextManager[Engine]:
        Path("a.jsonl").unlink()
        return here(do, 1)

    with pytest.raises(UsageError, match=r"^a\.jsonl: no such file"):
        list(launch.merged(groups, engine, size=900))


def test_another_version_refuses_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.packed(jobs.Job("", (), (), ()))
    monkeypatch.setattr("mypt_spec.__version__", "0.0.1")
    refused = jobs.check_unit(job, 0)
    assert isinstance(refused, UsageError)
    assert "a machine has version 0.0.1 of mypt-tags" in str(refused)


def test_the_linter_loads_nothing_of_it_without_the_option(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES[0])
    code = """
import sys
from mypt.lint.cli import main
assert main([sys.argv[1], "-q"]) == 0
print(*(name for name in sys.modules if name.startswith(("mypt_train", "ray", "obstore", "torch"))))
"""
    assert python(code, tmp_path / "a.jsonl", check=True).stdout.split() == []
