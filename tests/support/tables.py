"""Write token tables of dialects that have a few tags, and folders that hold them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from mypt_spec.dialect import grammar_root

SCHEMA = json.loads((grammar_root() / "tokens.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GPT2 = 'base_vocabulary = "gpt2"\nfirst_special_id = 50257\npad_vocabulary_to = 64'


def head(name: str, *lines: str) -> str:
    """Returns the beginning of a table."""
    about = [f'name = "{name}"', 'title = "T"', 'doc = "A dialect for tests."']
    return "\n".join(["[dialect]", *about, *lines, 'layouts = { compact = "" }']) + "\n"


def row(name: str, *lines: str, loss: int = 0, origin: str = "", doc: str = "D.") -> str:
    """Returns the row of a terminal; `lines` say how it is spelled, and what it opens or closes.

    A terminal with a loss is the model's, if nothing else is said.
    """
    origin = origin or ("model" if loss else "system")
    end = [f"loss = {loss}", f'origin = "{origin}"', "phase = 1", f'doc = "{doc}"']
    return "\n".join(["[[terminal]]", f'name = "{name}"', *lines, *end]) + "\n\n"


def special(tag: str, *more: str) -> str:
    """Returns the spelling of a tag that is one token, with further pieces after it."""
    pieces = ", ".join([f'{{ special = "{tag}" }}', *more])
    return f"spelling = [{pieces}]"


def write_table(folder: Path, grammar: str, table: str, records: str = "") -> Path:
    """Writes the folder of a dialect, which has the name of the folder."""
    folder.mkdir()
    (folder / f"{folder.name}.lark").write_text(grammar, encoding="utf-8")
    (folder / "tokens.toml").write_text(table, encoding="utf-8")
    if records:
        (folder / "records.toml").write_text(records, encoding="utf-8")
    return folder
