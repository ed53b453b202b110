"""Baselines: a known finding stays known however the data is arranged, and one of an edited episode
does not.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main
from mypt_lint.check.baseline import keys
from mypt_lint.check.checker import Checker
from tests.support.build import lines, native
from tests.support.examples import examples
from tests.support.linting import Findings, Linter, rows
from tests.support.strategies import broken_records, lines_of


def faulty_lines(count: int) -> list[bytes]:
    """Lines of which every third has a fault of another kind, and every episode is another one."""
    records: list[Any] = []
    for i in range(count):
        record = native(f"Q{i}", "A") | {"_id": i}
        if i % 3 == 0:
            record["messages"][1]["content"] = [" ", "<myPT_user>", "A<myPT_eot>"][i // 3 % 3]
        if i % 7 == 0:
            record["messages"][0]["role"] = "robot"
        records.append(record)
    broken = ('{"cut": ', '{"a": 1, "a": 2}', "")
    return [line + b"\n" for line in lines(*records, *broken)]


class Known(NamedTuple):
    """A folder of data, and the baseline that knows its findings."""

    data: list[bytes]
    folder: Path
    file: Path
    linter: Linter

    def lint(self, *options: str) -> tuple[int, Findings, str]:
        return self.linter(
            "--baseline", self.file, "--fail-on", "info", *options, self.folder
        )  # fmt: skip


@pytest.fixture
def known(tmp_path: Path, lint: Linter) -> Known:
    out = Known(faulty_lines(60), tmp_path / "data", tmp_path / "known.jsonl", lint)
    out.folder.mkdir()
    (out.folder / "x.jsonl").write_bytes(b"".join(out.data))
    status, findings, err = lint("--write-baseline", out.file, "--fail-on", "info", out.folder)
    assert (status, findings) == (0, [])
    assert "later runs ignore them" in err
    return out


def test_nothing_new(known: Known) -> None:
    status, findings, err = known.lint()
    assert (status, findings) == (0, [])
    assert "findings known from" in err
    assert "no more" not in err


def test_shuffled_resharded_and_packed(known: Known) -> None:
    (known.folder / "x.jsonl").unlink()
    data = [
        json.dumps(json.loads(raw) | {"_shard": 1}, separators=(",", ":")).encode() + b"\n"
        if raw.startswith(b'{"system')
        else raw
        for raw in known.data
    ]
    random.Random(1).shuffle(data)
    (known.folder / "a.jsonl").write_bytes(b"".join(data[:20]))
    (known.folder / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(data[20:50])))
    (known.folder / "c.ndjson").write_bytes(b"".join(data[50:] + data[:7]))
    for jobs in ("1", "3"):
        assert known.lint("-j", jobs)[:2] == (0, [])


def test_an_edited_episode_is_known_no_more(known: Known) -> None:
    path = known.folder / "x.jsonl"
    path.write_bytes(b"".join(known.data).replace(b'"Q3"', b'"Q3!"'))
    status, findings, err = known.lint()
    assert status == 1
    assert [row for row, _ in rows(findings)] == [4]
    assert "1 entry" in err
    before = known.file.read_bytes()
    assert known.lint("--prune-baseline")[0] == 1
    assert len(known.file.read_bytes().splitlines()) == len(before.splitlines()) - 1
    assert "no more" not in known.lint()[2]
    path.write_bytes(b"".join(known.data))
    assert known.lint()[0] == 1, "what was pruned is new again"


def test_another_fault_of_a_known_episode_is_new(known: Known) -> None:
    data = b"".join(known.data).replace(b'{"cut": \n', b'{"cut": ]\n')
    (known.folder / "x.jsonl").write_bytes(data)
    assert known.lint()[0] == 1


def test_a_fault_is_known_at_its_place_alone() -> None:
    """Two faults of one rule in one episode are two entries."""
    record = native(" ")
    (raw,) = lines(record | {"messages": record["messages"] * 2})
    findings = Checker(mypt_spec.dialect("mypt")).line(raw, row=1, filename="x.jsonl")
    blank = [key for key in keys(findings, raw) if key is not None and key.code == "MYP314"]
    assert [key.pointer for key in blank] == ["/messages/0/content", "/messages/2/content"]


def test_damage_is_never_known(tmp_path: Path, lint: Linter) -> None:
    path, file = tmp_path / "x.jsonl.gz", tmp_path / "known.jsonl"
    path.write_bytes(gzip.compress(b"".join(faulty_lines(300)))[:-30])
    assert lint("-q", "--write-baseline", file, path)[0] == 0
    status, findings, _ = lint("-q", "--baseline", file, path)
    assert (status, [code for _, code in rows(findings)]) == (1, ["MYP003"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]\n",
        '{"mypt-lint-baseline": 9}\n',
        '{"mypt-lint-baseline": 1}\n{"a": 1}\n',
        '{"mypt-lint-baseline": 1}\n["x", ["MYP001"',
        "[" * 100_000,
    ],
)
def test_what_is_no_baseline_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "known.jsonl"
    file.write_text(text)
    assert main(["--baseline", str(file), str(file)]) == 2
    assert str(file) in capsys.readouterr().err


@settings(max_examples=examples(80))
@given(st.data())
def test_keys_do_not_depend_on_spelling(data: st.DataObject) -> None:
    """Nor on the row, nor on metadata."""
    checker = Checker(mypt_spec.dialect("mypt"))
    record = data.draw(broken_records("mypt"))[0]
    one, two = (
        data.draw(lines_of(record).filter(lambda line: b"\n" not in line)) for _ in range(2)
    )
    findings = checker.line(one, row=2, filename=""), checker.line(two, row=900, filename="x")
    codes = {item.finding.code for side in findings for item in side}
    if not codes & {"MYP002", "MYP004", "MYP005", "MYP006", "MYP008", "MYP019"}:
        assert set(keys(findings[0], one)) == set(keys(findings[1], two))
