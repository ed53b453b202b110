"""A dialect on a vocabulary of ranks with the special tokens of a model, in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mypt_spec
from mypt_spec.dialect import folder


def on_ranks(
    name: str, ranks: bytes, *, pattern: str, special: dict[str, int]
) -> mypt_spec.Dialect:
    """Returns a dialect by the copy of the vocabulary that prepared data keep."""
    with TemporaryDirectory() as place:
        here = Path(place)
        (here / "own.tiktoken").write_bytes(ranks)
        table = (folder(name) / "tokens.toml").read_text(encoding="utf-8")
        said = {"kind": "ranks", "file": "own.tiktoken", "pattern": pattern, "special": special}
        lines = [f"{k} = {_toml(v)}" for k, v in said.items()]
        for key in ("base_vocabulary", "first_special_id"):
            table = "\n".join(line for line in table.splitlines() if not line.startswith(key))
        table = table.replace(f'name = "{name}"', f'name = "{name}-on-ranks"')
        (here / "tokens.toml").write_text("\n".join([table, "[vocabulary]", *lines]))
        (here / "own.lark").write_text(next(folder(name).glob("*.lark")).read_text())
        kept = mypt_spec.dialect(f"{place}/").vocabulary
        assert kept is not None
        ((file, data),) = kept.copy.items()
        (here / file).write_bytes(data)
        return mypt_spec.dialect(name, vocabulary=here / file)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {v}" for k, v in value.items()) + " }"
    return f"'''{value}'''"
