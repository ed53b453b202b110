"""A file with every common mistake, as a new user sees it: examples/messy.jsonl, and its findings,
to be read aloud.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mypt.lint.cli import main

ROOT = Path(__file__).parents[3]
SAID = (ROOT / "examples/messy.txt").read_text(encoding="utf-8")
FINDINGS = SAID.split("\n\n")


def test_the_page_is_what_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["-q", "--no-config", "--show-all", "examples/messy.jsonl"]) == 1
    assert capsys.readouterr().out == SAID, (
        "python tools/regenerate.py writes it anew; read it aloud"
    )


def test_it_holds_enough_kinds_of_mistakes() -> None:
    assert len({*re.findall(r"^\w+\[(MYP\d+)\]", SAID, re.M)}) >= 20
    assert len(FINDINGS) == len(re.findall(r"^\w+\[MYP", SAID, re.M))


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda text: text.split(":", 1)[0])
def test_every_finding_says_where_what_and_what_to_do(finding: str) -> None:
    head, place, *rest = finding.splitlines()
    assert re.fullmatch(r"(error|warning|info)\[MYP\d{3}\] [a-z0-9-]+: .{8,}", head)
    assert re.fullmatch(r" *--> examples/messy\.jsonl:\d+:\d+(  \S+)?( @\d+\.\.\d+)?", place)
    assert "^" in rest[2], "something is pointed at"
    assert any(re.match(r" *= (help|fix|note): .{8,}", line) for line in rest[3:]), (
        "there is a way out"
    )


def test_what_is_safe_to_fix_is_fixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "messy.jsonl"
    path.write_bytes((ROOT / "examples/messy.jsonl").read_bytes())
    assert main(["--fix-only", str(path)]) == 0
    fixed = capsys.readouterr().err
    safe = re.findall(r"= fix: .*\(safe\)$", SAID, re.M)
    assert fixed == f"Fixed {len(safe)} findings in 1 file.\n"
    once = path.read_bytes()
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == once
