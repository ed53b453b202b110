"""The runner: any number of processes says the same, in constant memory."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_cli.jsonl.blocks import STDIN, Source
from mypt_cli.jsonl.paths import expand
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run import parallel, runner
from mypt_lint.run.runner import run

CHECKER = Checker(mypt_spec.dialect("mypt"))


def line(number: int, **more: Any) -> bytes:
    """A clean line, told from others by its number."""
    messages = [
        {"role": "user", "content": f"Frage {number}: wie groß?"},
        {"role": "assistant", "content": 'So \\ "groß".\n'},
    ]
    return json.dumps(
        {"system": "S", "messages": messages} | more, ensure_ascii=number % 3 == 0
    ).encode()


FAULTY = {
    "MYP001": b'{"system": "S", ',
    "MYP002": line(1).replace(b"wie", b"w\xffe"),
    "MYP004": line(1).replace(b'"system": "S"', b'"system": "S", "system": "S"'),
    "MYP006": line(1).replace(b"wie", b"\\ud800"),
    "MYP010": line(1) + b"\r",
    "MYP011": b"",
    "MYP103": line(1, colour="blue"),
    "MYP105": line(1).replace(b'"user"', b'"usr"'),
    "MYP111": line(1, language="zz!"),
    "MYP301": line(1).replace(b"wie", b"<myPT_user>x</myPT_user>"),
    "MYP303": line(1).replace(b"wie", b"<MyPT_user>"),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, ranges and the longest line so small that a short file has many.

    Workers inherit them by forking.
    """
    monkeypatch.setattr(runner, "BLOCK", 1 << 10)
    monkeypatch.setattr(parallel, "RANGE", 4 << 10)
    monkeypatch.setattr(runner, "MAX_LINE", 2 << 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with every kind of fault that the runner has a part in."""
    mixed = []
    for number, raw in enumerate(FAULTY.values()):
        mixed += [line(number * 9 + i, _id=i) if i % 4 else line(i) for i in range(9)] + [raw]
    mixed[20] = line(20).replace(b"wie", b"w" * 3000)
    # With a mark, without a last line end.
    (tmp_path / "mixed.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join(mixed))
    (tmp_path / "mixed.jsonl.gz").write_bytes(gzip.compress(b"\n".join(mixed) + b"\n"))
    (tmp_path / "cut.jsonl.gz").write_bytes(
        gzip.compress(b"\n".join(mixed), compresslevel=0)[:-900]
    )
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "clean.jsonl").write_bytes(b"".join(line(i) + b"\n" for i in range(200)))
    return tmp_path


def sources(folder: Path) -> Iterator[Source]:
    yield from expand([str(folder)])
    yield Source(STDIN, stream=io.BytesIO((folder / "mixed.jsonl").read_bytes()))


def outcome(found: Iterator[Source], jobs: int) -> tuple[list[Diagnostic], Summary]:
    items, total = [], Summary()
    for chunk in run(CHECKER, list(found), "record", jobs=jobs):
        items += chunk.found
        total.add(chunk.summary)
    return items, total


@pytest.mark.usefixtures("small")
def test_any_number_of_processes_says_the_same(folder: Path) -> None:
    alone = outcome(sources(folder), 1)
    assert {item.finding.code for item in alone[0]} >= {
        *FAULTY,
        "MYP003",
        "MYP007",
        "MYP009",
        "MYP012",
        "MYP013",
    }
    for jobs in (2, 8):
        assert outcome(sources(folder), jobs) == alone


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", [1, 2])
def test_counts_add_up(folder: Path, jobs: int) -> None:
    found, total = outcome(sources(folder), jobs)
    assert total.files == 6
    assert total.units == total.clean + total.faulty
    assert sum(total.by_severity.values()) == sum(total.by_code.values()) == len(found)
    # Mixed, packed, cut, streamed.
    assert total.by_code["MYP301"] == total.units_by_code["MYP301"] == 4


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_are_those_of_the_file_in_every_range(tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [line(i) if i % 10 else FAULTY["MYP303"] for i in range(400)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert path.stat().st_size > 10 * parallel.RANGE
    found, total = outcome(iter(expand([str(path)])), jobs)
    assert (
        [item.row for item in found]
        == [item.end_row for item in found]
        == [i + 1 for i in range(0, 400, 10)]
    )
    assert (total.units, total.faulty, total.bytes) == (400, 40, path.stat().st_size)


def test_chunks_come_in_order_and_end_each_file(folder: Path) -> None:
    chunks = list(run(CHECKER, expand([str(folder)]), "record", jobs=2))
    paths = [item.filename for chunk in chunks for item in chunk.found]
    assert paths == sorted(paths)
    assert sum(chunk.summary.files for chunk in chunks) == 5
    assert chunks[-1].summary.files == 1


@pytest.mark.parametrize(
    "metadata", [{}, {"_id": "a\\", "_source": {"file": "x.md", "tags": ["<b>", "y"]}}]
)
def test_metadata_is_read_and_says_nothing(tmp_path: Path, metadata: dict[str, Any]) -> None:
    path = tmp_path / "meta.jsonl"
    path.write_bytes(b"".join(line(i, **metadata) + b"\n" for i in range(100)))
    assert outcome(iter(expand([str(path)])), 1)[0] == []


_MEASURE = """
import re, resource, sys
from pathlib import Path
import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.run.runner import run
from mypt_cli.jsonl.paths import expand
for chunk in run(Checker(mypt_spec.dialect("mypt")), expand(sys.argv[2:]), "record", jobs=int(sys.argv[1])):
    assert not chunk.found
# Not ru_maxrss of this process: it begins with that of the process that started it.
own = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, jobs: str) -> None:
    peaks = []
    block = b"".join(line(i) + b"\n" for i in range(5000))
    for megabytes in (10, 60):
        path = tmp_path / f"{megabytes}.jsonl"
        with path.open("wb") as out:
            for _ in range((megabytes << 20) // len(block)):
                out.write(block)
        done = subprocess.run(
            [sys.executable, "-c", _MEASURE, jobs, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(float(done.stdout))
        path.unlink()
    assert peaks[1] < peaks[0] + 8
    assert peaks[1] < 150
