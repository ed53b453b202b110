"""`mypt-lint --fix` as people call it: the files it writes and those it leaves alone, its words,
and the exit status.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.cli import main

GOOD = b'{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}\n'
LIFTED = (
    rb'{"messages":[{"role":"system","content":"\u00fc\/"},{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}]}'
    b"\n"
)
LIFTED_FIXED = (
    rb'{"system":"\u00fc\/","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}]}'
    b"\n"
)
CALL = (
    '{"system": "ä\\u00e4", "messages": [{"role": "user", "content": "Hi"}, {"role":  "toolcall", "name": "t", "arguments": "{\\"a\\": \\"ö\\"}"}, '
    '{"role": "tool", "name": "t", "content": 1}, {"role": "assistant", "content": "Yo"}]}\n'
).encode()
CALL_FIXED = (
    '{"system": "ä\\u00e4", "messages": [{"role": "user", "content": "Hi"}, {"role":  "assistant_toolcall", "name": "t", "arguments": {"a": "ö"}}, '
    '{"role": "toolresult", "name": "t", "content": 1}, {"role": "assistant", "content": "Yo"}]}\n'
).encode()
BROKEN = b'{"system": "S",\n'
MESSY = b"\xef\xbb\xbf" + GOOD[:-1] + b"\r\n" + LIFTED + b"  \n" + BROKEN + b"\n" + CALL + GOOD[:-1]
MESSY_FIXED = GOOD + LIFTED_FIXED + BROKEN + CALL_FIXED + GOOD


def test_what_fixing_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(MESSY)
    assert main(["--fix", "--format", "concise", str(path)]) == 1
    captured = capsys.readouterr()
    assert path.read_bytes() == MESSY_FIXED
    assert [line.split(": ", 1)[1][:6] for line in captured.out.splitlines()] == ["MYP001"]
    assert (
        captured.err.splitlines()[-1]
        == "Found 6 errors, 3 warnings, 1 info (9 fixed, 1 remaining)."
    )
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert main(["--fix", "-q", "--format", "concise", str(path)]) == 1
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before, (
        "nothing to fix, nothing written"
    )


def test_fix_only_reports_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(MESSY)
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == MESSY_FIXED
    assert capsys.readouterr() == ("", "Fixed 5 errors, 3 warnings, 1 info in 1 file.\n")


@pytest.mark.skipif(not shutil.which("git"), reason="reads the diff with git apply")
def test_the_diff_is_what_fixing_does(tmp_path: Path) -> None:
    for name, data in {
        "a.jsonl": MESSY,
        "b.jsonl": GOOD,
        "c.jsonl": GOOD + b"\n" * 3 + LIFTED[:-1],
    }.items():
        (tmp_path / name).write_bytes(data)
    command = [
        sys.executable,
        "-m",
        "mypt_lint.cli",
        "--diff",
        "a.jsonl",
        "b.jsonl",
        "c.jsonl",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 1
    assert b"Would fix" in done.stderr
    assert (tmp_path / "a.jsonl").read_bytes() == MESSY
    applied = subprocess.run(
        ["git", "apply", "-p0", "--unidiff-zero", "--whitespace=nowarn", "-"],
        input=done.stdout,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr
    assert (tmp_path / "a.jsonl").read_bytes() == MESSY_FIXED
    assert (tmp_path / "c.jsonl").read_bytes() == GOOD + LIFTED_FIXED


def test_a_clean_file_has_no_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(GOOD)
    assert main(["--diff", str(path)]) == 0
    assert capsys.readouterr() == ("", "Nothing would be fixed.\n")


def test_packed_data_and_pipes_go_to_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, out = tmp_path / "x.jsonl.gz", tmp_path / "out.jsonl"
    packed.write_bytes(gzip.compress(MESSY))
    for path in (str(packed), "-"):
        assert main(["--fix", path]) == 2
        assert "name a file for the fixed data with -o" in capsys.readouterr().err
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MESSY)))
        assert main(["--fix-only", "-q", "-o", str(out), path]) == 0
        assert out.read_bytes() == MESSY_FIXED
    assert main(["--fix", "-q", "-o", str(tmp_path / "y.jsonl.gz"), str(packed)]) == 1
    assert gzip.decompress((tmp_path / "y.jsonl.gz").read_bytes()) == MESSY_FIXED
    assert gzip.decompress(packed.read_bytes()) == MESSY
    capsys.readouterr()
    for options in (
        ["-o", str(out), str(packed), str(out)],
        ["--diff", "-o", str(out), str(packed)],
        ["-o", "-", str(packed)],
    ):
        assert main(["--fix", *options]) == 2
        assert capsys.readouterr().err.startswith("mypt-lint: error: ")
    assert main(["--unsafe-fixes", str(out)]) == 2


def test_what_cannot_be_read_whole_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_lint.fix.files.MAX_LINE", 1000)
    path = tmp_path / "x.jsonl"
    data = LIFTED + b'{"system": "' + b"x" * 2000 + b'"}\n'
    path.write_bytes(data)
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == data
    assert "not fixed: line 2 has 2,014 bytes" in capsys.readouterr().err
    cut = tmp_path / "x.jsonl.gz"
    cut.write_bytes(gzip.compress(LIFTED * 100)[:-20])
    assert main(["--fix-only", "-o", str(tmp_path / "y.jsonl"), str(cut)]) == 2
    assert not (tmp_path / "y.jsonl").exists()


def test_only_what_is_selected_is_fixed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(MESSY)
    main(["--fix-only", "-q", "--select", "MYP108", str(path)])
    assert path.read_bytes() == MESSY.replace(LIFTED, LIFTED_FIXED)


@pytest.mark.parametrize("data", [b"\n", b"\n \n\t\n", b" ", b""])
def test_a_file_is_not_emptied(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    main(["--fix-only", "-q", str(path)])
    assert path.read_bytes() == data


def test_mode_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "x.jsonl", tmp_path / "link.jsonl"
    path.write_bytes(LIFTED)
    path.chmod(0o640)
    link.symlink_to(path)
    assert main(["--fix-only", "-q", "--records", "native", str(link)]) == 0
    assert link.is_symlink()
    assert path.read_bytes() == LIFTED_FIXED
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.jsonl", "x.jsonl"]


def test_a_failure_in_the_middle_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(LIFTED * 3)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    assert main(["--fix-only", "-q", "--records", "native", str(path)]) == 2
    assert path.read_bytes() == LIFTED * 3
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]


def test_serialised_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = '<myPT_system>S</myPT_system><myPT_user>Q</myPT_user><myPT_assistant><myPT_toolcall>{"q":"\\u00fc","name":"t"}</myPT_toolcall></myPT_assistant>'
    one += '<myPT_toolresult>{"a":1}</myPT_toolresult><myPT_assistant>A</myPT_assistant><myPT_eot>'
    good = one.replace('{"q":"\\u00fc","name":"t"}', '{"name": "t", "q": "ü"}').replace(
        '{"a":1}', '{"a": 1}'
    )
    path = tmp_path / "x.txt"
    path.write_text(f"{one}\n{one}\n", encoding="utf-8")
    assert main(["--kind", "text", "--diff", str(path)]) == 1
    assert capsys.readouterr().out.count("\n-") == 2
    assert main(["--kind", "text", "--fix", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == f"{good}\n{good}\n"
    assert capsys.readouterr().err.splitlines()[-1] == "Found 4 warnings (4 fixed, 0 remaining)."
    assert main(["--kind", "generation", "--fix", str(path)]) == 2
