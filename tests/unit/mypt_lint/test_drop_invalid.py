"""`--fix --drop-invalid`: what fails is left out, and nothing is lost."""

from __future__ import annotations

import gzip
import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from mypt.lint.cli import main
from tests.support.build import native, write
from tests.support.linting import GOOD, Linter, codes

pytestmark = pytest.mark.usefixtures("folder")
BAD = (json.dumps(native(answer="</myPT_user>")) + "\n").encode()
BROKEN = b'{"no end\n'
FIXABLE = json.dumps(native(), ensure_ascii=False).encode() + b"\r\n"
FIXED = FIXABLE.replace(b"\r", b"")
CLEAN = GOOD.encode()
DATA = CLEAN + BAD + FIXABLE + BROKEN + CLEAN


def test_in_place_the_dropped_lines_are_beside_the_data(lint: Linter) -> None:
    Path("a.jsonl").write_bytes(DATA)
    status, findings, err = lint("--fix", "--drop-invalid", "a.jsonl")
    assert (status, findings) == (0, [])
    assert Path("a.jsonl").read_bytes() == CLEAN + FIXED + CLEAN
    assert Path("a.jsonl.rejects").read_bytes() == BAD + BROKEN
    assert "Dropped 2 records (1 MYP001, 1 MYP301); they are in a.jsonl.rejects.\n" in err
    assert lint("--fix", "--drop-invalid", "a.jsonl")[0] == 0
    assert Path("a.jsonl.rejects").read_bytes() == BAD + BROKEN, "nothing more to drop"


def test_later_rejects_are_appended(lint: Linter) -> None:
    Path("a.jsonl").write_bytes(CLEAN + BAD)
    Path("a.jsonl.rejects").write_bytes(BROKEN.strip())
    assert main(["--fix-only", "--drop-invalid", "a.jsonl"]) == 0
    assert Path("a.jsonl.rejects").read_bytes() == BROKEN + BAD
    assert lint(".")[2].count("rejects") == 0, "folders do not read them as data"


def test_into_another_file(lint: Linter) -> None:
    Path("a.jsonl.gz").write_bytes(gzip.compress(DATA))
    for times in (1, 2):
        assert lint("--fix", "--drop-invalid", "-o", "b.jsonl", "a.jsonl.gz")[:2] == (0, [])
        assert Path("b.jsonl").read_bytes() == CLEAN + FIXED + CLEAN
        assert Path("b.jsonl.rejects").read_bytes() == (BAD + BROKEN) * times, "never overwritten"
    assert gzip.decompress(Path("a.jsonl.gz").read_bytes()) == DATA


def test_a_refused_output_has_no_rejects(lint: Linter) -> None:
    Path("a.jsonl").write_bytes(DATA)
    assert lint("--fix", "--drop-invalid", "-o", "a.jsonl", "a.jsonl")[0] == 2
    assert (Path("a.jsonl").read_bytes(), Path("a.jsonl.rejects").exists()) == (DATA, False)


def test_the_diff_has_no_keys(capfd: pytest.CaptureFixture[str]) -> None:
    key = "sk-proj-Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ6kL3"
    rows = [
        json.dumps({"messages": [{"role": "user", "content": f"{text} caf\xc3\xa9"}]})
        for text in (f"Is it {key}?", "Is it?")
    ]
    Path("k.jsonl").write_text("\n".join(rows) + "\n")
    main(["--diff", "--unsafe-fixes", "k.jsonl"])
    out, err = capfd.readouterr()
    assert (key in out + err, "Is it?" in out) == (False, True)
    assert "1 of its changes hold keys and are not shown" in err


def test_the_diff_writes_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("a.jsonl").write_bytes(DATA)
    assert main(["--diff", "--drop-invalid", "a.jsonl"]) == 1
    out, err = capfdbinary.readouterr()
    assert b"-" + BAD in out
    assert b"-" + BROKEN in out
    assert b"Would drop 2 records (1 MYP001, 1 MYP301).\n" in err
    assert (Path("a.jsonl").read_bytes(), Path("a.jsonl.rejects").exists()) == (DATA, False)


def test_without_the_option_nothing_is_dropped(lint: Linter) -> None:
    Path("a.jsonl").write_bytes(DATA)
    assert codes(lint("--fix", "a.jsonl")[1]) == ["MYP301", "MYP001"]
    assert Path("a.jsonl").read_bytes() == DATA.replace(FIXABLE, FIXED)


def test_what_fails_is_dropped(lint: Linter) -> None:
    """By --fail-on, the baseline and the rules that are selected: what does not fail stays."""
    blank = (json.dumps(native(answer=" ")) + "\n").encode()  # a warning
    Path("a.jsonl").write_bytes(CLEAN + blank)
    lint("--fix", "--drop-invalid", "a.jsonl")
    assert Path("a.jsonl").read_bytes() == CLEAN + blank
    lint("--write-baseline", "known.jsonl", "--fail-on", "warning", "a.jsonl")
    lint("--fix", "--drop-invalid", "--baseline", "known.jsonl", "--fail-on", "warning", "a.jsonl")
    assert Path("a.jsonl").read_bytes() == CLEAN + blank
    lint("--fix", "--drop-invalid", "--fail-on", "warning", "a.jsonl")
    assert Path("a.jsonl").read_bytes() == CLEAN
    assert Path("a.jsonl.rejects").read_bytes() == blank


def test_a_file_is_never_emptied(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.jsonl").write_bytes(BAD + BROKEN)
    assert main(["--fix-only", "--drop-invalid", "a.jsonl"]) == 0
    assert "a.jsonl: not fixed: all of its records would be dropped" in capsys.readouterr().err
    assert Path("a.jsonl").read_bytes() == BAD + BROKEN
    assert not Path("a.jsonl.rejects").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--drop-invalid"], "--drop-invalid needs --fix, --fix-only or --diff"),
        (["--drop-invalid", "--fix-only", "-o", "-"], "name a file"),
        (["--drop-invalid", "--fix", "--kind", "text"], "it needs --kind record"),
    ],
)
def test_where_it_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, write("a.jsonl", native())]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--fix", "-o", "b.jsonl"], ["--diff"]])
def test_a_stream_is_not_read_twice(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(DATA)))
    assert main(["--drop-invalid", *options, "-"]) == 2
    assert "read twice" in capsys.readouterr().err
    assert not Path("b.jsonl").exists()


def test_rejects_are_not_appended_to_what_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.jsonl.rejects").write_bytes(DATA)
    assert main(["--fix-only", "--drop-invalid", "-o", "a.jsonl", "a.jsonl.rejects"]) == 2
    assert "a.jsonl.rejects: is read from" in capsys.readouterr().err
    assert Path("a.jsonl.rejects").read_bytes() == DATA


def test_no_terminal_obeys_the_name_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"messages": [{"role": "user", "content": "Hi"}]}
    for paths in ([write("\x1b[31m.jsonl", record)], ["no\x1b[31m.jsonl"]):
        main(paths)
        err = capsys.readouterr().err
        assert "\\x1b[31m.jsonl" in err
        assert "\x1b" not in err
