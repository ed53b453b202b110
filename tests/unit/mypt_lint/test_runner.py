"""The runner: any number of processes says the same, in constant memory."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_cli.jsonl.blocks import STDIN, Source
from mypt_cli.jsonl.paths import expand
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.run import parallel, runner
from mypt_lint.run.parallel import check_sources
from tests.support.build import assistant, chat, native, user
from tests.support.checked import check_bytes
from tests.support.examples import either
from tests.support.programs import memory_beyond

CHECKER = Checker(mypt_spec.dialect("mypt"))


def line(number: int, **more: Any) -> bytes:
    """A clean line, told from others by its number."""
    record = native(f"Frage {number}: wie groß?", 'So \\ "groß".\n') | more
    return json.dumps(record, ensure_ascii=number % 3 == 0).encode()


def test_equal_lines_in_a_row_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes] = []
    real = Checker.line

    def counting(self: Checker, raw: bytes, *, row: int, filename: str) -> list[Diagnostic]:
        calls.append(raw)
        return real(self, raw, row=row, filename=filename)

    lines = [b"\xef\xbb\xbf{"] * 3 + [b""] * 500 + [b" "] * 500 + [b"{}"] * 2 + [b'{"a'] * 500
    want = [i for row, raw in enumerate(lines, 1) for i in CHECKER.line(raw, row=row, filename="f")]
    monkeypatch.setattr(Checker, "line", counting)
    data = b"\n".join([*lines, b""])
    assert list(check_bytes(CHECKER, data, "f")) == want
    assert len(calls) <= 6


def test_the_first_lines_are_checked_as_all_others() -> None:
    """The filter of clean lines is loaded for the bytes beyond the first."""
    block = b"\n".join([line(1), b"{", b"", line(2, more="x"), b"{}\r", line(3), b""])
    first, later = FastChecker(CHECKER, few=len(block) + 1), FastChecker(CHECKER)
    for row in (1, 8, 15):
        here, there = (fast.block(block, row=row, filename="f") for fast in (first, later))
        assert here[0] == there[0] == 6
        assert [pair for pair in here[1] if pair[1]] == [pair for pair in there[1] if pair[1]]
        assert ("clean_filter" in vars(first)) is (row > 1)


def test_options_that_are_no_utf8_are_an_error_of_the_line() -> None:
    """The options of a template are read as raw JSON, whose strings nothing has decoded."""
    options = b'"chat_template_kwargs": {"\xcax": true, "date_string": "<b>"}}'
    raw = json.dumps(chat(user("q"), assistant("a"))).encode()[:-1] + b", " + options + b"\n"
    dialect = mypt_spec.dialect("llama3")
    assert [d.finding.code for d in check_bytes(Checker(dialect), raw, "f")] == ["MYP002"]


FAULTY = {
    "MYP001": b'{"system": "S", ',
    "MYP002": line(1).replace(b"wie", b"w\xffe"),
    "MYP004": line(1).replace(b'"system": "S"', b'"system": "S", "system": "S"'),
    "MYP006": line(1).replace(b"wie", b"\\ud800"),
    "MYP010": line(1) + b"\r",
    "MYP011": b"",
    "MYP103": line(1, response="blue"),
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
def files(tmp_path: Path) -> Path:
    """A folder of files with every kind of fault that the runner has a part in."""
    mixed = []
    for number, raw in enumerate(FAULTY.values()):
        mixed += [line(number * 9 + i, _id=i) if i % 4 else line(i) for i in range(9)] + [raw]
    mixed[20] = line(20).replace(b"wie", b"w" * 3000)
    data = b"\n".join(mixed)
    # With a mark, without a last line end.
    (tmp_path / "mixed.jsonl").write_bytes(b"\xef\xbb\xbf" + data)
    (tmp_path / "mixed.jsonl.gz").write_bytes(gzip.compress(data + b"\n"))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(data, compresslevel=0)[:-900])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "clean.jsonl").write_bytes(b"".join(line(i) + b"\n" for i in range(200)))
    return tmp_path


def sources(folder: Path) -> list[Source]:
    stream = io.BytesIO((folder / "mixed.jsonl").read_bytes())
    return [*expand([str(folder)]), Source(STDIN, stream=stream)]


def outcome(sources: Iterable[Source], jobs: int) -> tuple[list[Diagnostic], Summary]:
    items, total = [], Summary()
    for chunk in check_sources(CHECKER, list(sources), "record", jobs=jobs):
        items += chunk.findings
        total.add(chunk.summary)
    return items, total


@pytest.mark.usefixtures("small")
def test_any_number_of_processes_says_the_same_and_counts_add_up(files: Path) -> None:
    findings, total = outcome(sources(files), 1)
    about_files = {"MYP003", "MYP007", "MYP009", "MYP012", "MYP013"}
    assert {item.finding.code for item in findings} >= {*FAULTY} | about_files
    assert total.files == 6
    assert total.units == total.clean + total.faulty
    assert sum(total.by_severity.values()) == sum(total.by_code.values()) == len(findings)
    # Mixed, packed, cut, streamed.
    assert total.by_code["MYP301"] == total.units_by_code["MYP301"] == 4
    for jobs in (2, 8):
        assert outcome(sources(files), jobs) == (findings, total)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_are_those_of_the_file_in_every_range(tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [line(i) if i % 10 else FAULTY["MYP303"] for i in range(400)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert path.stat().st_size > 10 * parallel.RANGE
    findings, total = outcome(expand([str(path)]), jobs)
    places = [(item.row, item.end_row) for item in findings]
    assert places == [(i + 1, i + 1) for i in range(0, 400, 10)]
    assert (total.units, total.faulty, total.bytes) == (400, 40, path.stat().st_size)


def test_chunks_come_in_order_and_end_each_file(files: Path) -> None:
    chunks = list(check_sources(CHECKER, expand([str(files)]), "record", jobs=2))
    paths = [item.filename for chunk in chunks for item in chunk.findings]
    assert paths == sorted(paths)
    assert sum(chunk.summary.files for chunk in chunks) == 5
    assert chunks[-1].summary.files == 1


@pytest.mark.parametrize(
    "metadata", [{}, {"_id": "a\\", "_source": {"file": "x.md", "tags": ["<b>", "y"]}}]
)
def test_metadata_has_no_finding(tmp_path: Path, metadata: dict[str, Any]) -> None:
    path = tmp_path / "meta.jsonl"
    path.write_bytes(b"".join(line(i, **metadata) + b"\n" for i in range(100)))
    assert outcome(expand([str(path)]), 1)[0] == []


_CHECK = """
import sys
import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.run.parallel import check_sources
from mypt_cli.jsonl.paths import expand
from tests.support.checked import check_bytes

def check(path):
    checker = Checker(mypt_spec.dialect("mypt"))
    for chunk in check_sources(checker, expand([path]), "record", jobs=int(sys.argv[3])):
        assert not chunk.findings
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("jobs", [1, 2])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, jobs: int) -> None:
    block = b"".join(line(i) + b"\n" for i in range(5000))
    for name, megabytes in (("small", 2), ("large", either(16, 60))):
        with (tmp_path / name).open("wb") as out:
            for _ in range((megabytes << 20) // len(block)):
                out.write(block)
    kilobytes, _ = memory_beyond(
        _CHECK, "check(sys.argv[1])", "check(sys.argv[2])", tmp_path / "small", tmp_path / "large", jobs
    )  # fmt: skip
    assert kilobytes < 4 * 1024
