"""The files by which other tools run the linter: pre-commit's hooks and the GitHub action."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.linting import GOOD, ROOT


def script() -> str:
    """The last step of the action, as bash gets it."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    lines = text.split("run: |\n")[1].splitlines()
    return "\n".join(line.removeprefix("        ") for line in lines)


@pytest.mark.skipif(not shutil.which("bash"), reason="runs the step in bash")
def test_the_action(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mypt-lint").write_text(
        '#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n'
    )
    (tmp_path / "bin/mypt-lint").chmod(0o755)

    def run(paths: str, args: str = "", sarif: str = "", html: str = "") -> list[str]:
        environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PATHS": paths, "ARGS": args}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-euo", "pipefail", "-c", script()],
            env=environment | {"SARIF": sarif, "HTML": html},
            capture_output=True,
            text=True,
            check=True,
        )
        return re.sub("[<>]", "", done.stdout).splitlines()

    github = ["--format", "github"]
    assert run("data") == [*github, "data"]
    assert run("a b", "--fail-on warning", "x.sarif") == [
        *github, "--format", "sarif=x.sarif", "--fail-on", "warning", "a", "b",
    ]  # fmt: skip
    assert run("a", html="x.html") == [*github, "--format", "html=x.html", "a"]
    assert run("a\nb  c\n", "-q\n--phase 3\n") == [*github, "-q", "--phase", "3", "a", "b", "c"]
    assert run("$(touch hacked); `id`")[-3:] == ["$(touch", "hacked);", "`id`"]


def test_the_hooks_choose_files() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    ids = re.findall(r"^- id: (.+)$", text, re.M)
    patterns = re.findall(r"^  files: (.+)$", text, re.M)
    assert ids == ["mypt-lint", "mypt-lint-fix"]
    names = ("a.jsonl", "x/a.ndjson.gz", "a.json", "a.jsonl.bak", "a.jsonl.gz")
    chosen = [[name for name in names if re.search(pattern, name)] for pattern in patterns]
    assert chosen == [["a.jsonl", "x/a.ndjson.gz", "a.jsonl.gz"], ["a.jsonl"]]


@pytest.mark.skipif(
    not (shutil.which("pre-commit") and shutil.which("git")), reason="needs pre-commit"
)
def test_with_pre_commit_itself(tmp_path: Path) -> None:
    """With the hooks of this checkout, run from this environment: nothing is installed."""
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    lines = hooks.replace("language: python", "language: system").splitlines()
    entries = [f"      {line}".rstrip() for line in lines if not line.strip().startswith("#")]
    (tmp_path / ".pre-commit-config.yaml").write_text(
        "repos:\n  - repo: local\n    hooks:\n" + "\n".join(entries) + "\n"
    )
    (tmp_path / "a.jsonl").write_text(GOOD.rstrip())
    (tmp_path / "b.jsonl").write_text("{\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)

    def run(hook: str) -> subprocess.CompletedProcess[str]:
        command = ["pre-commit", "run", hook, "--all-files"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    checked = run("mypt-lint")
    assert checked.returncode == 1
    assert "b.jsonl:1:2" in checked.stdout
    fixed = run("mypt-lint-fix")
    assert fixed.returncode == 1
    assert (tmp_path / "a.jsonl").read_text() == GOOD
    (tmp_path / "b.jsonl").unlink()
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    assert run("mypt-lint").returncode == run("mypt-lint-fix").returncode == 0
