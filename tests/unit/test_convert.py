"""mypt-convert: the matrix of docs/conversion.md, and the command."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec.convert import Converter
from mypt_spec.convert.cli import main
from tests.conversion import FEATURES, outcome, sources, table

CELLS = [(f, s, t) for f in FEATURES for s in sources() if s in FEATURES[f] for t in mypt_spec.dialects()]


@pytest.mark.parametrize(("feature", "source", "target"), CELLS)
def test_cell(feature: str, source: str, target: str) -> None:
    cell = outcome(feature, source, target)
    assert cell is not None
    converted = cell.converted
    if cell.word.startswith("refused"):
        assert converted.record is None
        assert all(f.message for f in converted.findings)
        return
    d = mypt_spec.dialect(target)
    episode, findings = d.read(converted.record)
    assert episode is not None
    assert not [f for f in [*findings, *d.validate(episode)] if f.severity == "error"]
    if cell.word == "kept" and source in mypt_spec.dialects():
        one = mypt_spec.dialect(source)
        first, _ = one.read(cell.source)
        assert first is not None
        assert Converter(target, source).record(converted.record).record == one.write(first)
    if cell.word.startswith("loses"):
        assert all(loss.field and loss.reason for loss in converted.losses)


def test_the_matrix_has_all_kinds_of_cells() -> None:
    words = {cell.word.split()[0] for cells in table().values() for cell in cells.values()}
    assert words == {"kept", "loses", "refused:"}
    assert all(cell.word == "kept" for cells in table().values() for (s, t), cell in cells.items() if s == t)


OPENAI: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]},
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "weight": 0}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, {"role": "assistant", "content": "Hello."}]},
]  # fmt: skip


def write(path: Path, *records: Any, tail: bytes = b"") -> str:
    path.write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in records) + tail)
    return str(path)


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def run(*args: str, report: Path) -> tuple[int, dict[str, Any]]:
    status = main([*args, "--report", str(report)])
    return status, json.loads(report.read_text())


@pytest.mark.parametrize(
    ("on_loss", "written", "with_losses"), [("error", 0, 0), ("warn", 2, 2), ("drop", 2, 2)]
)
def test_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str], on_loss: str, written: int, with_losses: int) -> None:
    source = write(tmp_path / "in.jsonl", OPENAI[1], OPENAI[1], OPENAI[2])
    out = tmp_path / "out.jsonl"
    status, report = run(source, "-o", str(out), "--from", "openai", "--to", "gabgpt", "--on-loss", on_loss, report=tmp_path / "r")
    assert status == 1
    assert (report["read"], report["written"], report["with_losses"]) == (3, written, with_losses)
    assert report["read"] == report["written"] + report["refused"] == report["written"] + sum(report["refused_by"].values())
    assert len(read(out)) == written
    err = capsys.readouterr().err
    assert "in.jsonl:3: refused MYP104 /messages/0/content/0: expected a part" in err
    assert ("in.jsonl:1: lost system /messages/0/content: gabgpt has no place for it" in err) == (on_loss == "warn")
    assert ("in.jsonl:2: refused /messages/0/content: would lose system, weight" in err) == (on_loss == "error")
    if written:
        assert report["lost"] == {"system": {"records": 2, "values": 2}, "weight": {"records": 2, "values": 2}}


def test_a_system_prompt_for_those_without(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", OPENAI[0], OPENAI[1])
    out = tmp_path / "out.jsonl"
    assert main([source, "-o", str(out), "--from", "openai", "--to", "mypt"]) == 1
    assert main([source, "-o", str(out), "--from", "openai", "--to", "mypt", "--system", "Mine", "--on-loss", "drop"]) == 0
    assert [r["system"] for r in read(out)] == ["Mine", "S"]


def test_every_line_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.jsonl", OPENAI[0], tail=b'\nnope\n{"a": 1, "a": 2}\n\xff\n{}\n[]\n{"messages": []}')
    out = tmp_path / "out.jsonl"
    status, report = run(source, "-o", str(out), "--from", "openai", "--to", "praxis" if "praxis" in mypt_spec.dialects() else "gabgpt", report=tmp_path / "r")
    assert status == 1
    assert (report["read"], report["written"], report["refused"]) == (8, 1, 7)
    err = capsys.readouterr().err
    for row, code in [(2, "MYP011"), (3, "MYP001"), (4, "MYP004"), (5, "MYP002"), (6, "MYP104"), (7, "MYP101"), (8, "MYP104")]:
        assert f"in.jsonl:{row}: refused {code}" in err


def test_compressed(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl.gz"
    source.write_bytes(gzip.compress(json.dumps(OPENAI[0]).encode() + b"\n"))
    out = tmp_path / "out.jsonl.gz"
    assert main([str(source), "-o", str(out), "--from", "openai", "--to", "gabgpt"]) == 0
    first = out.read_bytes()
    assert json.loads(gzip.decompress(first)) == OPENAI[0]
    assert main([str(source), "-o", str(out), "--from", "openai", "--to", "gabgpt"]) == 0
    assert out.read_bytes() == first, "equal data gives equal bytes"


def test_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl.gz"
    source.write_bytes(gzip.compress(b"".join(json.dumps(OPENAI[0] | {"_n": n}).encode() + b"\n" for n in range(9999)))[:-4000])
    status, report = run(str(source), "-o", str(tmp_path / "o"), "--from", "openai", "--to", "gabgpt", report=tmp_path / "r")
    assert status == 1
    assert report["refused_by"] == {"MYP003": 1}
    assert 0 < report["written"] < 9999
    assert "refused MYP003" in capsys.readouterr().err


def test_streams(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(OPENAI[0]).encode())))
    assert main(["-", "-o", "-", "--from", "openai", "--to", "gabgpt"]) == 0
    out = capfdbinary.readouterr()
    assert json.loads(out.out) == OPENAI[0]
    assert out.err.endswith(b"1 record read: 1 written, 0 refused\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["in.jsonl", "-o", "in.jsonl", "--to", "mypt"], "in.jsonl: is read from"),
        (["in.jsonl", "-o", "no/such/out.jsonl", "--to", "mypt"], "no/such/out.jsonl: cannot be written"),
        (["in.jsonl", "-o", ".", "--to", "mypt"], ".: cannot be written: is a folder"),
        (["missing.jsonl", "-o", "out.jsonl", "--to", "mypt"], "missing.jsonl: no such file"),
        (["in.jsonl", "-o", "out.jsonl", "--to", "openai"], "no dialect 'openai'; known are"),
        (["in.jsonl", "-o", "out.jsonl", "--to", "mypt", "--from", "chatml"], "no format 'chatml'; known are openai,"),
    ],
)
def test_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", OPENAI[0])
    before = sorted(tmp_path.iterdir())
    assert main(args) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before, "nothing is left behind"


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.jsonl", *OPENAI)
    (tmp_path / "out.jsonl").write_text("old\n")

    def interrupt(self: Converter, value: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Converter, "record", interrupt)
    assert main([source, "-o", str(tmp_path / "out.jsonl"), "--from", "openai", "--to", "gabgpt"]) == 130
    assert (tmp_path / "out.jsonl").read_text() == "old\n"
    assert len(list(tmp_path.iterdir())) == 2
    assert "interrupted" in capsys.readouterr().err
