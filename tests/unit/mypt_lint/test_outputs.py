"""Several formats at once, files, and floods of equal findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mypt.lint.cli import main
from mypt_lint.check.diagnostic import MAX_KEYS, Summary
from mypt_lint.report.totals import fixable_line
from tests.support.build import assistant, chat, native, user, write
from tests.support.examples import either
from tests.support.linting import GOOD
from tests.support.programs import memory_beyond

pytestmark = pytest.mark.usefixtures("folder")


def test_a_flood_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.jsonl").write_text("{\n" * 500 + GOOD.replace("Yo", "</myPT_user>") * 5)
    Path("b.jsonl").write_text("{\n" * 3)
    assert main(["-q", "a.jsonl", "b.jsonl"]) == 1
    out = capsys.readouterr().out
    assert out.count("error[MYP001]") == 6
    assert out.count("error[MYP301]") == 3
    assert "... and 497 more MYP001 invalid-json in a.jsonl (--show-all prints them)\n" in out
    assert "... and 2 more MYP301 tag-in-content in a.jsonl" in out
    assert "in b.jsonl" not in out
    assert out.count("every line is one JSON object") == 2, "what is equal is printed once a file"
    main(["-q", "--show-all", "a.jsonl"])
    assert capsys.readouterr().out.count("error[MYP001]") == 500
    main(["-q", "--format", "concise", "a.jsonl"])
    assert len(capsys.readouterr().out.splitlines()) == 505, "formats for programs have all"


def test_fixes_in_the_summary() -> None:
    for safe, unsafe, line in (
        (0, 2, "No fixes available with --fix (2 with --unsafe-fixes)."),
        (1, 0, "1 fixable with --fix."),
        (1, 2, "1 fixable with --fix (2 more with --unsafe-fixes)."),
    ):
        summary = Summary()
        summary.fixable.update(safe=safe, unsafe=unsafe)
        assert fixable_line(summary) == line


def test_every_advice_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Help that leads on must not vanish after the first findings of the same rule."""
    record = {
        "text": 1,
        "user": "m",
        "think": "en",
        "roles": "web",
        "conversations": [],
        "messages": 1,
    }
    assert main(["-q", write("a.jsonl", *[record] * 9)]) == 1
    out = capsys.readouterr().out
    assert out.count('begin its name with "_"') == 1
    assert out.count("ShareGPT calls the messages so") == 1
    assert out.count("error[MYP103]") == 4, "three, and the first with other advice"
    assert f"... and {9 * 5 - 4} more MYP103 unknown-key" in out
    many = [{"messages": [], "system": "s", f"massages{'x' * i}": 1} for i in range(1, 4)]
    words = ["mesages", "massages", "systm", "sytem", "sistem", "lanuage", "langage"]
    many += [{"messages": [], "system": "s", word: 1} for word in words for _ in range(9)]
    assert main(["-q", write("b.jsonl", *many)]) == 1
    assert capsys.readouterr().out.count("error[MYP103]") <= 10, "of any number of advices"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_statistics_name_the_keys(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = native(answer="Yo")
    record["messages"][0] |= {"a/b~": 1, "weight": 1}
    odd = GOOD.rstrip().replace('{"role"', '{"\\ud800": 1, "role"', 1)
    path = write("x.jsonl", *[record] * 3, {"answer": 1} | native(answer="Yo"), odd)
    assert main(["-q", "-j", jobs, "--statistics", path]) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["8", "MYP103", "unknown-key"]
    assert second.strip() == r'keys: "a/b~" 3, "weight" 3, "answer" 1, "\ud800" 1'


@pytest.mark.parametrize(("count", "end"), [(12, "and 2 more"), (MAX_KEYS + 1, "and more")])
def test_statistics_name_ten_keys(count: int, end: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("x.jsonl", *[chat(user(**{f"k{i}": 1}), assistant(), system="S") for i in range(count)])
    assert main(["-q", "--statistics", "x.jsonl"]) == 1
    assert capsys.readouterr().out.splitlines()[1].endswith(f'"k9" 1 {end}')


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_many_equal_mistakes_cost_no_memory_and_no_lines() -> None:
    line = GOOD.replace('"user"', '"usr"')
    few, many = 1_000, either(10_000, 60_000)
    for name, count in (("few", few), ("many", many)):
        Path(name).write_text(line * count)
    kilobytes, printed = memory_beyond(
        "import sys\nfrom mypt.lint.cli import main",
        "main(['-j', '1', sys.argv[1]])", "print(main(['-j', '1', sys.argv[2]]))",
        Path("few").resolve(), Path("many").resolve(),
    )  # fmt: skip
    assert f"{few - 3} more MYP105" in printed
    assert f"{many - 3:,} more MYP105" in printed
    assert printed.splitlines()[-1] == "1"
    assert len(printed.splitlines()) < 40
    assert kilobytes < 4 * 1024


def test_several_formats_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.jsonl").write_text("{\n" * 5)
    formats = ("concise", "sarif=lint.sarif", "json=x.json")
    words = [word for name in formats for word in ("--format", name)]
    assert main(["-q", *words, "x.jsonl"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert len(json.loads(Path("lint.sarif").read_text())["runs"][0]["results"]) == 5
    assert len(json.loads(Path("x.json").read_text())) == 5
    assert main(["-q", "--format", "concise", "-o", "log.txt", "x.jsonl"]) == 1
    assert capsys.readouterr().out == ""
    assert len(Path("log.txt").read_text().splitlines()) == 5
