"""Tries the hooks as a user does: in a repository of data whose pre-commit settings name this one.

    python tools/try_hooks.py

Needs git, pip and pre-commit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
GOOD = (
    '{"system": "S", "messages": [{"role": "user", "content": "Hi"}, '
    '{"role": "assistant", "content": "Yo"}]}\n'
)
CONFIG = (
    "repos:\n  - repo: {root}\n    rev: {rev}\n    hooks: [{{id: mypt-lint}}, {{id: "
    "mypt-lint-fix}}]\n"
)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    return done


def main() -> int:
    rev = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".pre-commit-config.yaml").write_text(
            CONFIG.format(root=ROOT, rev=rev), encoding="utf-8"
        )
        (folder / "good.jsonl").write_text(GOOD, encoding="utf-8")
        (folder / "old.jsonl").write_text(
            GOOD.replace('"assistant"', '"assistant", "_n": 1').replace("\n", "\r\n"),
            encoding="utf-8",
            newline="",
        )
        (folder / "notes.json").write_text("{", encoding="utf-8")
        run(folder, "git", "init", "-q")
        run(folder, "git", "add", ".")
        fixed = run(folder, "pre-commit", "run", "mypt-lint-fix", "--all-files")
        assert fixed.returncode == 1, "pre-commit fails when a hook changes files"
        assert b"\r" not in (folder / "old.jsonl").read_bytes()
        run(folder, "git", "add", ".")
        clean = run(folder, "pre-commit", "run", "--all-files")
        assert clean.returncode == 0
        (folder / "bad.jsonl").write_text(GOOD.replace("Yo", "</myPT_user>"), encoding="utf-8")
        run(folder, "git", "add", ".")
        found = run(folder, "pre-commit", "run", "mypt-lint", "--all-files")
        assert found.returncode == 1
        assert "bad.jsonl:1" in found.stdout
        assert "notes.json:" not in found.stdout, "other files are none of its business"
    print("The hooks work.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
