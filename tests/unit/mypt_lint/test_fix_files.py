"""`mypt-lint --fix` as people call it: the files it writes and those it leaves alone, its words,
and the exit status.
"""

from __future__ import annotations

import gzip
import io
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from tests.support.linting import Linter, codes
from tests.support.messy import GOOD, LIFTED, LIFTED_FIXED, MESSY, MESSY_FIXED

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def path(folder: Path) -> Path:
    (folder / "x.jsonl").write_bytes(MESSY)
    return Path("x.jsonl")


def test_what_fixing_writes(path: Path, lint: Linter) -> None:
    status, findings, err = lint("--fix", path)
    assert path.read_bytes() == MESSY_FIXED
    assert (status, codes(findings)) == (1, ["MYP001"])
    assert err.splitlines()[-1] == "Found 10 findings (9 fixed, 1 remaining)."
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert lint("--fix", "-q", path)[0] == 1
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before, "nothing to fix or to write"


def test_fix_only_reports_nothing_else(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == MESSY_FIXED
    assert capsys.readouterr() == ("", "Fixed 9 findings in 1 file.\n")


@pytest.mark.skipif(not shutil.which("git"), reason="reads the diff with git apply")
def test_the_diff_is_what_fixing_does(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    files = {"a.jsonl": MESSY, "b.jsonl": GOOD, "c.jsonl": GOOD + b"\n" * 3 + LIFTED[:-1]}
    for name, data in files.items():
        Path(name).write_bytes(data)
    assert main(["--diff", *files]) == 1
    diff, err = capfdbinary.readouterr()
    assert b"Would fix" in err
    assert Path("a.jsonl").read_bytes() == MESSY
    command = ["git", "apply", "-p0", "--unidiff-zero", "--whitespace=nowarn", "-"]
    applied = subprocess.run(command, input=diff, capture_output=True, check=False)
    assert applied.returncode == 0, applied.stderr
    assert Path("a.jsonl").read_bytes() == MESSY_FIXED
    assert Path("c.jsonl").read_bytes() == GOOD + LIFTED_FIXED


def test_a_clean_file_has_no_diff(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(GOOD)
    assert main(["--diff", str(path)]) == 0
    assert capsys.readouterr() == ("", "Nothing would be fixed.\n")


def test_packed_data_and_pipes_go_to_another_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("x.jsonl.gz").write_bytes(gzip.compress(MESSY))
    out = Path("out.jsonl")
    for path in ("x.jsonl.gz", "-"):
        assert main(["--fix", path]) == 2
        assert "name a file for the fixed data with -o" in capsys.readouterr().err
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MESSY)))
        assert main(["--fix-only", "-q", "-o", "out.jsonl", path]) == 0
        assert out.read_bytes() == MESSY_FIXED
    assert main(["--fix", "-q", "-o", "y.jsonl.gz", "x.jsonl.gz"]) == 1
    assert gzip.decompress(Path("y.jsonl.gz").read_bytes()) == MESSY_FIXED
    assert gzip.decompress(Path("x.jsonl.gz").read_bytes()) == MESSY
    capsys.readouterr()
    for options in (
        ["-o", "out.jsonl", "x.jsonl.gz", "out.jsonl"],
        ["--diff", "-o", "out.jsonl", "x.jsonl.gz"],
        ["-o", "-", "x.jsonl.gz"],
    ):
        assert main(["--fix", *options]) == 2
        assert capsys.readouterr().err.startswith("mypt-lint: error: ")
    assert main(["--unsafe-fixes", "out.jsonl"]) == 2


def test_a_file_that_cannot_be_read_to_its_end_is_left_alone(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_lint.fix.files.MAX_LINE", 1000)
    data = LIFTED + b'{"system": "' + b"x" * 2000 + b'"}\n'
    path.write_bytes(data)
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == data
    assert "not fixed: line 2 has 2,014 bytes" in capsys.readouterr().err
    Path("x.jsonl.gz").write_bytes(gzip.compress(LIFTED * 100)[:-20])
    assert main(["--fix-only", "-o", "y.jsonl", "x.jsonl.gz"]) == 2
    assert not Path("y.jsonl").exists()


def test_only_what_is_selected_is_fixed(path: Path) -> None:
    main(["--fix-only", "-q", "--select", "MYP108", str(path)])
    assert path.read_bytes() == MESSY.replace(LIFTED, LIFTED_FIXED)


@pytest.mark.parametrize("data", [b"\n", b"\n \n\t\n", b" ", b""])
def test_a_file_is_not_emptied(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    main(["--fix-only", "-q", str(path)])
    assert path.read_bytes() == data


def test_mode_and_links_stay(path: Path) -> None:
    path.write_bytes(LIFTED)
    path.chmod(0o640)
    link = Path("link.jsonl")
    link.symlink_to(path)
    assert main(["--fix-only", "-q", "--records", "native", str(link)]) == 0
    assert link.is_symlink()
    assert path.read_bytes() == LIFTED_FIXED
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(p.name for p in Path().iterdir()) == ["link.jsonl", "x.jsonl"]


def test_a_failure_in_the_middle_leaves_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(LIFTED * 3)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    assert main(["--fix-only", "-q", "--records", "native", str(path)]) == 2
    assert path.read_bytes() == LIFTED * 3
    assert [p.name for p in Path().iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("blank", ["\n", "\n\n", "\n \n"])
def test_a_blank_line_inside_of_a_text_stays(blank: str, lint: Linter) -> None:
    """Its line ends are not escaped, so the line is an error; the paragraph is not to be lost."""
    text = GOOD.decode() + GOOD.decode().replace('content": "', f'content": "A.\n{blank}', 1)
    path = Path("text.jsonl")
    path.write_text(text + "\n" + GOOD.decode())
    lint("--fix", path)
    assert path.read_text() == text + GOOD.decode(), "one after a record goes"


def test_serialised_text(capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = (
        "<myPT_system>S</myPT_system><myPT_user>Q</myPT_user>"
        f"<myPT_assistant><myPT_toolcall>{call}</myPT_toolcall></myPT_assistant>"
        f"<myPT_toolresult>{result}</myPT_toolresult>"
        "<myPT_assistant>A</myPT_assistant><myPT_eot>\n"
        for call, result in (
            ('{"q":"\\u00fc","name":"t"}', '{"a":1}'),
            ('{"name": "t", "q": "ü"}', '{"a": 1}'),
        )
    )
    path = Path("x.txt")
    path.write_text(bad * 2, encoding="utf-8")
    assert main(["--kind", "text", "--diff", "x.txt"]) == 1
    assert capsys.readouterr().out.count("\n-") == 2
    assert main(["--kind", "text", "--fix", "x.txt"]) == 0
    assert path.read_text(encoding="utf-8") == good * 2
    assert capsys.readouterr().err.splitlines()[-1] == "Found 4 findings (4 fixed, 0 remaining)."
    assert main(["--kind", "generation", "--fix", "x.txt"]) == 2
