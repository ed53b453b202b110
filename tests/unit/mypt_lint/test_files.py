"""The linter on a JSON array and on Parquet: places of the file, fixes, sums, all commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_cli.jsonl.blocks import Block, Origin
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.origins import placed
from mypt_lint.cli import main
from mypt_lint.run.runner import check_bytes
from mypt_spec.findings import Finding

GOOD = {
    "system": "S",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
}
BAD = {
    "messages": [{"role": "user", "content": "Ü"}, {"role": "assistant", "content": "x <myPT_eot>"}]
}
LONG = {
    "messages": [*GOOD["messages"], {"role": "user", "content": "é"}, {"role": "user", "text": "x"}]
}
RECORDS = [GOOD, GOOD | {"system": "T"}, BAD, LONG]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lines.jsonl").write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    Path("array.json").write_text(json.dumps(RECORDS, indent=2, ensure_ascii=False))
    Path("compact.json").write_text(json.dumps(RECORDS))
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    main(["-q", "--format", "json", *words])
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return items


def test_findings_have_the_places_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    lines = found(capsys, "lines.jsonl")
    array = found(capsys, "array.json")
    rows = Path("array.json").read_text().split("\n")
    assert [(f["code"], f["pointer"], f["span"]) for f in array] == [
        (f["code"], f["pointer"], f["span"]) for f in lines
    ]
    assert [f["record"] for f in array] == [f["location"]["row"] for f in lines]
    (tag,) = [f for f in array if f["code"] == "MYP301"]
    row, begin, end = (
        tag["location"]["row"],
        tag["location"]["column"],
        tag["end_location"]["column"],
    )
    assert rows[row - 1][begin - 1 : end - 1] == "<myPT_eot>"
    (key,) = [f for f in array if f["pointer"] == "/messages/3/text"]
    assert rows[key["location"]["row"] - 1].strip().startswith('"text"')
    (tag,) = [f for f in found(capsys, "compact.json") if f["code"] == "MYP301"]
    text = Path("compact.json").read_text()
    assert text[tag["location"]["column"] - 1 : tag["end_location"]["column"] - 1] == "<myPT_eot>"


def test_an_edit_is_of_the_line_of_the_file() -> None:
    wrong = {"messages": [{"role": "system", "content": "S"}, *GOOD["messages"]]}
    text = json.dumps([GOOD | {"system": "é"}, wrong], ensure_ascii=False)
    (item,) = check_bytes(Checker(mypt_spec.dialect("mypt")), text.encode())
    assert item.edit is not None
    start, end, new = item.edit
    assert json.loads(text[: start - 1] + new + text[end - 1 :])[1] == GOOD
    (item,) = check_bytes(
        Checker(mypt_spec.dialect("mypt")), json.dumps([wrong], indent=1).encode()
    )
    assert item.edit is None


def test_a_finding_between_two_characters_stays_so() -> None:
    block = Block(b"", 1, 0, kind="array", origins=(Origin(3, 2, b'{\n "a": 1}'),))
    item = Diagnostic(Finding("MYP001", "x"), "a.json", 1, 5, 1, 5, "mypt")
    (moved,) = placed([item], block)
    assert (moved.row, moved.column, moved.end_row, moved.end_column) == (4, 3, 4, 3)


def test_a_finding_shows_the_line_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    main(["-q", "array.json"])
    out = capsys.readouterr().out
    assert " | x <myPT_eot>\n" in out
    assert ' |         "text": "x"\n' in out or ' |       "text": "x"\n' in out


def test_the_summary_counts_records(capsys: pytest.CaptureFixture[str]) -> None:
    main(["array.json"])
    assert "2 of 4 records (2 clean, 2 faulty; 1 file)" in capsys.readouterr().err
    main(["lines.jsonl"])
    assert "2 of 4 lines (2 clean, 2 faulty; 1 file)" in capsys.readouterr().err


def test_a_baseline_knows_a_record_in_every_layout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-q", "--write-baseline", "known.jsonl", "lines.jsonl"]) == 0
    assert found(capsys, "--baseline", "known.jsonl", "array.json", "compact.json") == []


def test_copies_are_found_in_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    Path("compact.json").write_text(json.dumps([GOOD, BAD, GOOD]))
    main(["--data-set", "compact.json"])
    assert "in 2 of 3 records (1 clean, 2 faulty; 1 file)" in capsys.readouterr().err
    items = found(capsys, "--data-set", "compact.json")
    assert [(f["record"], f["code"]) for f in items] == [
        (2, "MYP208"),
        (2, "MYP301"),
        (3, "MYP601"),
    ]
    assert items[2]["message"].endswith("stands at compact.json:1")


def test_fixes_of_an_array_go_to_a_file_of_jsonl(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = GOOD | {"messages": [{"role": "system", "content": "S"}, *GOOD["messages"]]}
    del wrong["system"]
    Path("array.json").write_text(json.dumps([GOOD, wrong], indent=4))
    before = Path("array.json").read_bytes()
    for words in (["--fix"], ["--fix-only"], ["--diff"]):
        assert main([*words, "array.json"]) == 2
        assert "-o FIXED.jsonl writes its records" in capsys.readouterr().err
    assert main(["--fix-only", "-o", "fixed.jsonl", "array.json"]) == 0
    assert Path("array.json").read_bytes() == before
    fixed = [json.loads(line) for line in Path("fixed.jsonl").read_text().splitlines()]
    assert fixed == [GOOD, GOOD]
    Path("array.json").write_text(json.dumps([GOOD]) + "x")
    assert main(["--fix-only", "-o", "fixed.jsonl", "array.json"]) == 2
    assert "nothing was written" in capsys.readouterr().err


def test_a_table_is_linted_by_row(capsys: pytest.CaptureFixture[str]) -> None:
    arrow = pytest.importorskip("pyarrow")
    rows = [{"system": None} | row for row in (GOOD, BAD)]
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), "t.parquet")
    assert main(["-q", "--format", "concise", "t.parquet"]) == 1
    out = capsys.readouterr().out
    assert "\nt.parquet:row 2 /messages/1/content: MYP301 tag-in-content" in out
    main(["t.parquet"])
    shown = capsys.readouterr()
    assert " --> t.parquet:row 2  /messages/1/content @2..12\n" in shown.out
    assert "1 of 2 records" in shown.err


def test_an_object_around_the_records_is_one_finding(capsys: pytest.CaptureFixture[str]) -> None:
    Path("array.json").write_text(json.dumps({"data": RECORDS}, indent=2))
    (item,) = found(capsys, "array.json")
    assert (item["code"], item["location"]) == ("MYP016", {"row": 1, "column": 1})
    Path("lines.jsonl").write_text(json.dumps(GOOD, indent=2))
    assert [f["code"] for f in found(capsys, "lines.jsonl")] == ["MYP016"]


@pytest.mark.parametrize("name", ["array.json", "compact.json"])
def test_the_other_commands_read_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from mypt_convert.cli import main as convert
    from mypt_train.commands.prepare import main as prepare
    from mypt_view.cli import main as view

    assert view([f"{name}:2", "--text"]) == 0
    assert "T</myPT_system>" in capsys.readouterr().out
    assert view([f"{name}:9"]) == 2
    assert "no record 9; the file has 4 records" in capsys.readouterr().err
    words = ["--context-length", "64", "--on-error", "reject", "--quiet", "--out"]
    assert [prepare([file, *words, f"{file}.out"]) for file in (name, "lines.jsonl")] == [1, 1]
    for part in ("train", "val"):
        for path in sorted(Path("lines.jsonl.out", part).glob("*.bin")):
            assert Path(f"{name}.out", part, path.name).read_bytes() == path.read_bytes()
    rejects = [
        json.loads(line) for line in Path(f"{name}.out/rejects.jsonl").read_text().split("\n")[:-1]
    ]
    assert [reject["line"] for reject in rejects] == [3, 4]
    capsys.readouterr()
    convert(["--from", "mypt", "--to", "gabgpt", name, "-o", "-"])
    assert "4 records read" in capsys.readouterr().err
