"""Several formats at once, files, and floods of equal findings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mypt_lint.cli import main

ROOT = Path(__file__).parents[3]
GOOD = '{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}\n'


def test_a_flood_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("{\n" * 500 + GOOD.replace("Yo", "</myPT_user>") * 5)
    Path("b.jsonl").write_text("{\n" * 3)
    assert main(["-q", "a.jsonl", "b.jsonl"]) == 1
    out = capsys.readouterr().out
    assert out.count("error[MYP001]") == 6
    assert out.count("error[MYP301]") == 3
    assert "... and 497 more MYP001 invalid-json in a.jsonl (--show-all prints them)\n" in out
    assert "... and 2 more MYP301 tag-in-content in a.jsonl" in out
    assert "in b.jsonl" not in out
    assert out.count("every line is one JSON object") == 2, (
        "what is the same for all of a kind is said once a file"
    )
    main(["-q", "--show-all", "a.jsonl"])
    assert capsys.readouterr().out.count("error[MYP001]") == 500
    main(["-q", "--format", "concise", "a.jsonl"])
    assert len(capsys.readouterr().out.splitlines()) == 505, "formats for programs have all"


def test_every_advice_is_given_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Help that leads on must not vanish after the first findings of the same rule."""
    monkeypatch.chdir(tmp_path)
    record = {"text": 1, "user": "m", "think": "en", "roles": "web", "conversations": []}
    Path("a.jsonl").write_text((json.dumps(record) + "\n") * 9)
    assert main(["-q", "a.jsonl"]) == 1
    out = capsys.readouterr().out
    assert out.count('begin its name with "_"') == 1
    assert out.count("ShareGPT calls the messages so") == 1
    assert out.count("error[MYP103]") == 4, "three, and the first with other advice"
    assert f"... and {9 * 5 - 4} more MYP103 unknown-key" in out
    many = [{"messages": [], "system": "s", f"massages{'x' * i}": 1} for i in range(1, 4)]
    words = ["mesages", "massages", "systm", "sytem", "sistem", "lanuage", "langage"]
    many += [{"messages": [], "system": "s", word: 1} for word in words for _ in range(9)]
    Path("b.jsonl").write_text("".join(json.dumps(record) + "\n" for record in many))
    assert main(["-q", "b.jsonl"]) == 1
    assert capsys.readouterr().out.count("error[MYP103]") <= 10, "of any number of advices"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_statistics_name_the_keys(
    jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    record = json.loads(GOOD)
    record["messages"][0] |= {"a/b~": 1, "weight": 1}
    odd = GOOD.replace('{"system"', '{"\\ud800": 1, "system"')
    path.write_text(
        (json.dumps(record) + "\n") * 3 + GOOD.replace('"system"', '"id": 1, "system"') + odd
    )
    assert main(["-q", "-j", jobs, "--statistics", str(path)]) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["8", "MYP103", "unknown-key"]
    assert second.strip() == r'keys: "a/b~" 3, "weight" 3, "id" 1, "\ud800" 1'
    path.write_text("".join(GOOD.replace('"system"', f'"k{i}": 1, "system"') for i in range(2000)))
    assert main(["-q", "--statistics", str(path)]) == 1
    assert capsys.readouterr().out.splitlines()[1].endswith('"k9" 1 and more')


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_many_equal_mistakes_cost_no_memory_and_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    line = GOOD.replace('"user"', '"usr"')
    path.write_text(line * 60_000)
    code = (
        "import re, sys\nfrom mypt_lint.cli import main\nstatus = main(['-j', '1', sys.argv[1]])\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)\nsys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 1
    *said, peak = done.stderr.splitlines()
    assert len(done.stdout.splitlines()) + len(said) < 20
    assert "59,997 more MYP105" in done.stdout
    assert int(peak) < 150 * 1024


def test_several_formats_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, sarif, log = tmp_path / "x.jsonl", tmp_path / "lint.sarif", tmp_path / "log.txt"
    data.write_text("{\n" * 5)
    assert (
        main(
            [
                "-q",
                "--format",
                "concise",
                "--format",
                f"sarif={sarif}",
                "--format",
                f"json={tmp_path}/x.json",
                str(data),
            ]
        )
        == 1
    )
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert len(json.loads(sarif.read_text())["runs"][0]["results"]) == 5
    assert len(json.loads((tmp_path / "x.json").read_text())) == 5
    assert main(["-q", "--format", "concise", "-o", str(log), str(data)]) == 1
    assert capsys.readouterr().out == ""
    assert len(log.read_text().splitlines()) == 5


def test_outputs_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "x.jsonl"
    data.write_text("{\n")
    for options, said in (
        (["--format", "txt"], "did you mean text?"),
        (["--format", "json", "--format", "text"], "2 formats go to standard output"),
        (["-o", str(data)], "is read from"),
        (["-o", str(tmp_path / "none/x")], "cannot be written"),
    ):
        assert main([*options, str(data)]) == 2
        assert said in capsys.readouterr().err
    assert data.read_text() == "{\n"
