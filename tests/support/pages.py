"""Read the commands of a page of documents, for tests that run them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from mypt.main import main as umbrella


def blocks(page: Path | str, kind: str) -> list[str]:
    """Returns the fenced blocks of a page (a path, or its text) that are marked with a kind."""
    text = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(script: str) -> list[str | list[str]]:
    """Returns the steps of a shell script: our commands as words, other lines as they are."""
    steps: list[str | list[str]] = []
    lines = iter(script.replace("\\\n", " ").splitlines(keepends=True))
    for line in lines:
        if line.startswith("mypt-"):
            steps.append(shlex.split(line, comments=True))
            continue
        if "<<'EOF'" in line:
            for text in lines:
                line += text
                if text == "EOF\n":
                    break
        elif line.startswith("for "):
            for text in lines:
                line += text
                if text.startswith("done"):
                    break
        steps.append(line)
    return steps


def run(step: str | list[str]) -> None:
    """Runs one step: our commands in this process, other lines in a shell."""
    if isinstance(step, str):
        subprocess.run(["sh", "-e"], input=step, text=True, check=True)
    else:
        assert umbrella([step[0].removeprefix("mypt-"), *step[1:]]) == 0, step
