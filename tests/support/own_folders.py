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


# As Hugging Face's template of Llama 3.1 writes calls: tags that begin with text.
BARE_CALLS = {
    'name = "llama3"': 'name = "bare-calls"',
    'untagged = "call"\n': "",
    'spelling = [{ special = "<|python_tag|>" }]': """spelling = [{ text = '{"name": "' }, \
{ attr = "name", pattern = '[^"\\\\]+' }, { text = '", "parameters":' }, { space = " ", exact = true }]""",
    'body = "parameters"': 'body = "arguments"',
    'spelling = [{ special = "<|eom_id|>" }]': (
        'spelling = [{ text = "}" }, { special = "<|eot_id|>" }]'
    ),
}


def write_bare_calls(into: Path) -> Path:
    """Writes a folder whose calls are JSON between no tags of their own."""
    own = into / "bare_calls"
    shutil.copytree(grammar_root() / "llama3", own)
    text = (own / "tokens.toml").read_text(encoding="utf-8")
    for before, after in BARE_CALLS.items():
        assert before in text
        text = text.replace(before, after)
    (own / "tokens.toml").write_text(text, encoding="utf-8")
    return own


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
