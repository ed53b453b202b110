"""docs/workspace_api.md is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import mypt_spec
from mypt_infer.parsing import find_last_toolcall
from mypt_infer.toolbox import FAULTS
from mypt_infer.workspace import MAX_TOP_K
from mypt_infer.workspace.index.store import META, SQLITE, VECTORS, default_index
from mypt_infer.workspace.tools import SCHEMAS
from tests.support.build import assistant, chat, user

PAGE = (Path(__file__).parents[3] / "docs" / "workspace_api.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "policy.txt").write_text("The password policy\n\nTwelve characters.\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(block, names)
    assert names["text"] == "The password policy\n\nTwelve characters.\n"
    assert names["chunk"] == names["chunks"][0]  # type: ignore[index]
    files = {p.name for p in default_index(tmp_path / "docs").rglob("*") if p.is_file()}
    assert files == {"current", "lock", META, VECTORS, SQLITE}


def test_the_tables_name_every_tool_argument_and_error() -> None:
    for name, (_, schema) in SCHEMAS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
        for argument in schema["properties"]:
            assert f"`{argument}`" in row
    assert f"1 to {MAX_TOP_K}" in PAGE
    for fault in FAULTS:
        assert f"`{fault}`" in PAGE


def test_the_example_of_training_data() -> None:
    d = mypt_spec.dialect("mypt")
    block = next(b for b in blocks("json") if "assistant_toolcall" in b)
    call, result = map(json.loads, block.splitlines())
    text = blocks("text")[0].strip()
    record = {"system": "S", **chat(user("x"), call, result, assistant("y"))}
    episode, findings = d.read(record)
    assert episode is not None
    assert not findings
    assert text in d.serialize(episode)
    last = find_last_toolcall(text)
    assert last is not None
    assert (last.name, last.arguments) == (call["name"], call["arguments"])
