"""What the command does besides linting: explain, rules, init, completion, watch."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mypt.lint.cli import main
from mypt_lint.settings.config import read
from mypt_spec.findings import RULES
from tests.support.build import assistant, chat, user, write
from tests.support.children import child
from tests.support.linting import ROOT


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "all", "--format", "md"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    assert main(["explain", "blank-content"]) == 0
    assert "Fix: none." in capsys.readouterr().out
    assert main(["explain", "none"]) == 2
    assert "no rule is called 'none'" in capsys.readouterr().err


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_explain_is_laid_out_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every word of every page is there, and no sign of Markdown outside of code."""
    assert main(["explain", "all"]) == 0
    raw = capsys.readouterr().out
    on_a_terminal(monkeypatch)
    assert main(["explain", "all"]) == 0
    out = capsys.readouterr().out
    assert "\x1b[" in out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    letters, expected = ("".join(re.findall(r"\w", t)) for t in (plain, re.sub(r"```\w+", "", raw)))
    assert letters.replace("With", "") == expected.replace("With", "")
    assert "With dialect=usf-omega:" in plain, "what an example needs"
    assert not re.search(r"^#|```", plain, re.MULTILINE)
    assert max(len(row.rstrip()) for row in plain.splitlines()) <= 100
    assert main(["explain", "MYP303", "--format", "md"]) == 0
    assert "\x1b" not in capsys.readouterr().out, "the text itself, where the format is named"


def test_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(RULES)
    assert main(["rules", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["code"]: row["name"] for row in rows} == {
        code: rule.name for code, rule in RULES.items()
    }
    assert main(["rules", "--format", "md"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RULES) + 2


def test_init(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("data/a.jsonl", chat(user(), assistant("Yo")))
    assert main(["init"]) == 0
    assert "written, for OpenAI records (messages)" in capsys.readouterr().out
    assert read("mypt-lint.toml").top["records"] == "openai"
    assert main(["-q", "data"]) == 0
    assert main(["init"]) == 2
    assert "already exists" in capsys.readouterr().err
    path = folder / "mypt-lint.toml"
    rows = path.read_text().splitlines()[1:]
    path.write_text("".join(line.removeprefix("# ") + "\n" for line in rows))
    config = read("mypt-lint.toml")  # each suggestion is a setting as it is written
    assert config.top["severity"] == (("MYP313", "error"),)
    assert config.files[0][1] == {"phase": 3}
    path.unlink()
    assert main(["init", "--dialect", "none"]) == 2


def test_watch(tmp_path: Path) -> None:
    path, changed = tmp_path / "a.jsonl", tmp_path / "changed"
    path.write_text("{\n")
    command = [sys.executable, "-m", "mypt.lint.cli", "--format", "concise", "--watch", str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with child(command, **pipes, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert ":1:2: MYP001" in process.stdout.readline()
        changed.write_text("[]\n[]\n")
        changed.rename(path)  # at once, and of another size, so the clock does not matter
        assert ":1:1: MYP101" in process.stdout.readline()
        assert ":2:1: MYP101" in process.stdout.readline()
        rounds = 0
        while rounds < 2:  # it waits: an interrupt while objects are freed would be ignored
            rounds += "watching" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
