"""Folders of formats that are known to be right, under other names, as a user writes them."""

from __future__ import annotations

import shutil
from pathlib import Path

from mypt_spec.dialect import grammar_root

TOY = Path(__file__).parents[1] / "toy"
TOY_RECORDS = """
[[message]]
role = "ask"

[[message]]
role = "answer"
keys = ["work", "content"]
end = "stop"
"""
MYPT_RECORDS = """
[[message]]
role = "system"

[[message]]
role = "user"
keys = ["context", "content"]
blocks = { context = "user_context" }

[[message]]
role = "assistant_context"

[[message]]
role = "assistant"
keys = ["think", "content", "cite"]
end = "eot"

[[message]]
role = "call"
block = "assistant"
keys = ["think", "toolcall"]

[[message]]
role = "tool"
block = "toolresult"
aliases = ["result"]
"""
GABGPT_RECORDS = """
[[message]]
role = "user"

[[message]]
role = "assistant"
keys = ["think", "content"]
end = "end"
"""


def write_folder(into: Path, name: str, records: str | None) -> Path:
    """Writes a folder with the grammar of a dialect, under another name."""
    source = TOY if name == "toy" else grammar_root() / name
    own = into / f"my_{name}"
    own.mkdir()
    shutil.copy(source / f"{name}.lark", own)
    table = (source / "tokens.toml").read_text(encoding="utf-8")
    (own / "tokens.toml").write_text(table.replace(f'name = "{name}"', f'name = "my-{name}"', 1))
    if records is not None:
        (own / "records.toml").write_text(records)
    return own
