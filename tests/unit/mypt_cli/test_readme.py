"""README and the page of the linter promise nothing that is not there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINTER = (ROOT / "docs" / "linting.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", LINTER, re.MULTILINE | re.DOTALL)


def test_no_repository_or_release_is_named_that_does_not_exist() -> None:
    assert not re.search(r"<owner>|github\.com/[<{]|@v\d|rev: v", README + LINTER)


def test_each_editor_starts_the_server_within_three_lines() -> None:
    code = json.loads("{{{}}}".format(next(b for b in blocks("json") if "glspc" in b)))
    assert [code["glspc.server.command"], *code["glspc.server.commandArguments"]] == [
        "mypt-lint",
        "server",
    ]
    helix = tomllib.loads(next(b for b in blocks("toml") if "language-server" in b))
    server = helix["language-server"]["mypt"]
    assert [server["command"], *server["args"]] == ["mypt-lint", "server"]
    assert '"mypt-lint", "server"' in blocks("lua")[0]
    shown = [b for kind in ("json", "lua", "toml") for b in blocks(kind)]
    assert all(b.count("\n") <= 3 for b in shown if "mypt-lint" in b and "server" in b)


def test_torch_can_be_had_without_gigabytes() -> None:
    line = re.search(r"`(pip install torch [^`]+)`", README)
    assert line is not None
    assert shlex.split(line[1])[-1] == "https://download.pytorch.org/whl/cpu"
