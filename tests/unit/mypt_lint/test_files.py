"""The linter on a JSON array and on Parquet: places of the file, fixes, sums, all commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mypt_spec
from mypt.lint.cli import main
from mypt_cli.jsonl.blocks import Block, Origin
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.origins import placed
from mypt_spec.findings import Finding
from tests.support.build import assistant, chat, native, read, system, user, write
from tests.support.checked import check_bytes
from tests.support.linting import Linter, codes

GOOD = native(answer="Hello.")
BAD = chat(user("Ü"), assistant("x <myPT_eot>"))
LONG = chat(*GOOD["messages"], user("é"), {"role": "user", "text": "x"})
PROMPTED = chat(system(), *GOOD["messages"])  # a safe fix makes GOOD of it
RECORDS = [GOOD, GOOD | {"system": "T"}, BAD, LONG]
MYPT = Checker(mypt_spec.dialect("mypt"))


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write("lines.jsonl", *RECORDS)
    Path("array.json").write_text(json.dumps(RECORDS, indent=2, ensure_ascii=False))
    Path("compact.json").write_text(json.dumps(RECORDS))


def test_findings_have_the_places_of_the_file(lint: Linter) -> None:
    lines, array = lint("lines.jsonl")[1], lint("array.json")[1]
    rows = Path("array.json").read_text().split("\n")
    same = ("code", "pointer", "span")
    assert [[f[key] for key in same] for f in array] == [[f[key] for key in same] for f in lines]
    assert [f["record"] for f in array] == [f["location"]["row"] for f in lines]
    for path in ("array.json", "compact.json"):
        (tag,) = [f for f in lint(path)[1] if f["code"] == "MYP301"]
        row = Path(path).read_text().split("\n")[tag["location"]["row"] - 1]
        start, end = tag["location"]["column"], tag["end_location"]["column"]
        assert row[start - 1 : end - 1] == "<myPT_eot>"
    (key,) = [f for f in array if f["pointer"] == "/messages/3/text"]
    assert rows[key["location"]["row"] - 1].strip().startswith('"text"')


def test_an_edit_is_of_the_line_of_the_file() -> None:
    text = json.dumps([GOOD | {"system": "é"}, PROMPTED], ensure_ascii=False)
    (item,) = check_bytes(MYPT, text.encode())
    assert item.edit is not None
    start, end, new = item.edit
    assert json.loads(text[: start - 1] + new + text[end - 1 :])[1] == GOOD
    (item,) = check_bytes(MYPT, json.dumps([PROMPTED], indent=1).encode())
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


def test_the_summary_counts_records(lint: Linter) -> None:
    assert "2 of 4 records (2 clean, 2 faulty; 1 file)" in lint("array.json")[2]
    assert "2 of 4 lines (2 clean, 2 faulty; 1 file)" in lint("lines.jsonl")[2]


def test_a_baseline_knows_a_record_in_every_layout(lint: Linter) -> None:
    assert main(["-q", "--write-baseline", "known.jsonl", "lines.jsonl"]) == 0
    assert lint("--baseline", "known.jsonl", "array.json", "compact.json")[1] == []


def test_copies_are_found_in_an_array(lint: Linter) -> None:
    Path("compact.json").write_text(json.dumps([GOOD, BAD, GOOD]))
    _, findings, err = lint("--data-set", "compact.json")
    assert "in 2 of 3 records (1 clean, 2 faulty; 1 file)" in err
    assert [(f["record"], f["code"]) for f in findings] == [
        (2, "MYP208"), (2, "MYP301"), (3, "MYP601"),
    ]  # fmt: skip
    assert findings[2]["message"].endswith("is at compact.json:1")


def test_fixes_of_an_array_go_to_a_file_of_jsonl(capsys: pytest.CaptureFixture[str]) -> None:
    array = Path("array.json")
    array.write_text(json.dumps([GOOD, PROMPTED], indent=4))
    before = array.read_bytes()
    for words in (["--fix"], ["--fix-only"], ["--diff"]):
        assert main([*words, "array.json"]) == 2
        assert "-o FIXED.jsonl writes its records" in capsys.readouterr().err
    assert main(["--fix-only", "-o", "fixed.jsonl", "array.json"]) == 0
    assert array.read_bytes() == before
    assert read("fixed.jsonl") == [GOOD, GOOD]
    array.write_text(json.dumps([GOOD]) + "x")
    assert main(["--fix-only", "-o", "fixed.jsonl", "array.json"]) == 2
    assert "nothing was written" in capsys.readouterr().err


@pytest.mark.extra("pyarrow")
def test_a_table_is_linted_by_row(capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    rows = [{"system": None} | row for row in (GOOD, BAD)]
    parquet.write_table(arrow.Table.from_pylist(rows), "t.parquet")
    assert main(["-q", "--format", "concise", "t.parquet"]) == 1
    out = capsys.readouterr().out
    assert "\nt.parquet:row 2 /messages/1/content: MYP301 tag-in-content" in out
    main(["t.parquet"])
    out, err = capsys.readouterr()
    assert " --> t.parquet:row 2  /messages/1/content @2..12\n" in out
    assert "1 of 2 records" in err


def test_an_object_around_the_records_is_one_finding(lint: Linter) -> None:
    Path("array.json").write_text(json.dumps({"data": RECORDS}, indent=2))
    (item,) = lint("array.json")[1]
    assert (item["code"], item["location"]) == ("MYP016", {"row": 1, "column": 1})
    Path("lines.jsonl").write_text(json.dumps(GOOD, indent=2))
    assert codes(lint("lines.jsonl")[1]) == ["MYP016"]


def test_one_record_over_several_lines(lint: Linter) -> None:
    """A file of one object is a record, as of ATIF, but no JSONL; others after it are named."""
    Path("one.json").write_text(json.dumps(BAD, indent=2))
    (item,) = [f for f in lint("one.json")[1] if f["code"] == "MYP301"]
    assert item["location"]["row"] == 9
    Path("one.json").write_text(f"{json.dumps(GOOD, indent=2)}\n" * 3)
    (item,) = lint("one.json")[1]
    assert (item["code"], item["location"]["row"], lint.summary["lines"]) == ("MYP015", 14, 3)
    trajectory = {"schema_version": "ATIF-v1.6", "steps": [
        {"source": "user", "message": "x " * 200_000}, {"source": "agent", "message": "A"},
    ]}  # fmt: skip
    Path("one.json").write_text(json.dumps(trajectory, indent=2))
    assert lint("one.json")[1] == []
    step = {"action": "w", "observation": "x " * 200_000, "messages": GOOD["messages"]}
    history = [{**message, "agent": "main"} for message in GOOD["messages"]]
    Path("one.json").write_text(json.dumps({"trajectory": [step], "history": history}, indent=2))
    assert lint("one.json")[1] == []  # of SWE-agent, whose steps are no records
    for end, code in (("]", "MYP015"), ("x", "MYP015"), ("\n", "")):
        Path("one.json").write_text(json.dumps(GOOD, indent=2) + end)
        assert codes(lint("one.json")[1]) == [code] * bool(code)


def test_messages_and_events_by_themselves(lint: Linter) -> None:
    """What a file of one conversation may hold a line: the help says how to join them."""
    Path("one.json").write_text(json.dumps(GOOD["messages"], indent=1))
    (item,) = lint("one.json")[1]
    assert (item["code"], item["message"]) == (
        "MYP018", "messages by themselves are not read: in 2 of 2 records",
    )  # fmt: skip
    write("lines.jsonl", *({"id": i, "source": "user", "message": "Hi"} for i in range(3)))
    assert codes(lint("lines.jsonl")[1]) == ["MYP018"]


def test_a_part_without_its_text(lint: Linter) -> None:
    write("lines.jsonl", {"messages": [user([{"type": "text", "content": []}]), assistant("A")]})
    (item,) = lint("lines.jsonl", "--records", "openai")[1]
    assert item["message"].endswith("got one of type 'text' without the string \"text\"")


@pytest.mark.parametrize("name", ["array.json", "compact.json"])
def test_the_other_commands_read_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from mypt.convert import main as convert
    from mypt.prepare.cli import main as prepare
    from mypt.view import main as view

    assert view([f"{name}:2", "--text"]) == 0
    assert "T</myPT_system>" in capsys.readouterr().out
    assert view([f"{name}:9"]) == 2
    assert "no record 9; the file has 4 records" in capsys.readouterr().err
    words = ["--context-length", "64", "--on-error", "reject", "--quiet", "--out"]
    assert [prepare([file, *words, f"{file}.out"]) for file in (name, "lines.jsonl")] == [1, 1]
    shards = sorted(Path("lines.jsonl.out").glob("*/*.bin"))
    assert shards
    for shard in shards:
        same = Path(f"{name}.out", shard.parent.name, shard.name)
        assert same.read_bytes() == shard.read_bytes()
    assert [reject["line"] for reject in read(f"{name}.out/rejects.jsonl")] == [3, 4]
    capsys.readouterr()
    convert(["--from", "mypt", "--to", "gabgpt", name, "-o", "-"])
    assert "4 records read" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["--fix-only", "--exit-zero"], ["--show-settings"]])
def test_what_cannot_be_read_in_a_folder_does_not_keep_others_from_being_checked(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from mypt.convert import main as convert

    (folder / "in").mkdir()
    for name in ("loop.jsonl", "loop.json"):
        (folder / "in" / name).symlink_to(name)
    (folder / "in" / "nothing.jsonl").symlink_to("missing")
    write("in/z.jsonl", PROMPTED, BAD)
    for path in ("in", "in/*"):
        assert main([*command, path]) == 2
        out, err = capsys.readouterr()
        assert command or "in/z.jsonl:2:" in out
        assert err.count("mypt-lint: error: in/") == 3
        assert "in/loop.json: cannot be read" in err
        assert "in/nothing.jsonl: a symbolic link to nothing" in err
    assert convert(["--from", "mypt", "--to", "gabgpt", "in", "-o", "out.jsonl"]) == 2


def test_a_finding_about_a_whole_trace_begins_in_column_1(lint: Linter) -> None:
    Path("trace.jsonl").write_text('{"type": "summary", "leafUuid": "s", "summary": "x"}\n')
    (finding,) = lint("trace.jsonl")[1]
    assert (finding["code"], finding["location"]) == ("MYP104", {"row": 1, "column": 1})
