"""Every column of the tables has a vector: in a shipped format, or in `columns.json`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mypt.own_format
from mypt_spec.dialect import dialects, families, folder, grammar_root
from tests.support.nested import nested

VECTORS = json.loads(Path(__file__).with_name("columns.json").read_text(encoding="utf-8"))
STARTER = Path(mypt.own_format.__file__).with_name("starter")
GLM = Path(__file__).parents[1] / "toy" / "glm"


def columns(table: dict[str, Any], name: str) -> Iterator[str]:
    """Yields the columns that a table uses; `name` is that of the records, or ""."""
    for key, value in table.items():
        rows = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        head = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
        for row in rows:
            kind = "joining" if "joins" in row else key
            yield from (f"{name}{head}.{column}" if name else f"{kind}.{column}" for column in row)
            spelling = row.get("spelling", ()) if isinstance(row, dict) else ()
            yield from (f"piece.{column}" for piece in spelling for column in piece)
        yield f"{name}.{key}" if name and not rows else ""


def used() -> set[str]:
    """Returns the columns of all formats that have vectors."""
    out = {column for vector in VECTORS for column in vector.get("columns", [vector["name"]])}
    places = [*map(folder, dialects()), *families().values(), STARTER, GLM]
    for path in (place / file for place in places for file in ("tokens.toml", "records.toml")):
        if path.is_file():
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            out |= {*columns(table, "records" if path.name[0] == "r" else "")}
    return out


def declared() -> Iterator[str]:
    """Yields the columns of the schemas."""
    tokens, records = (
        json.loads((grammar_root() / f"{name}.schema.json").read_text(encoding="utf-8"))
        for name in ("tokens", "records")
    )
    parts = dict.fromkeys(("dialect", "history"), tokens["properties"])
    parts |= dict.fromkeys(("terminal", "joining", "piece", "mistake"), tokens["$defs"])
    for part, holder in parts.items():
        yield from (f"{part}.{column}" for column in holder[part]["properties"])
    shape = records["$defs"]["messages"]["properties"]
    for key, value in shape.items():
        row = records["$defs"]["option"] if key == "option" else value
        head = "[[option]]" if key == "option" else f"[{key}]"
        if "properties" in row:
            yield from (f"records{head}.{column}" for column in row["properties"])
        else:
            yield f"records.{key}"
    yield from (f"records[[message]].{key}" for key in records["$defs"]["message"]["properties"])


def test_every_column_has_a_vector() -> None:
    in_vocabularies = {"piece.id"}  # with [vocabulary], in test_table_vocabulary.py
    assert sorted({*declared()} - used() - in_vocabularies) == []


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_columns(vector: dict[str, Any], tmp_path: Path) -> None:
    dialect = nested(tmp_path, **vector["format"])
    episode, findings = dialect.check(vector["record"])
    assert episode is not None
    assert findings == []
    (trained,) = dialect.trained(episode, history=vector.get("history", "keep"))
    assert dialect.serialize(trained) == vector["text"]
    encoded = dialect.encode(trained)
    assert dialect.tokenizer.decode(encoded.ids[encoded.loss == 1]) == vector["trained"]
    parsed, findings = dialect.parse(vector["text"])
    assert parsed is not None
    assert findings == []
    if "history" not in vector:
        assert dialect.write(episode) == vector["record"]
        assert dialect.write(parsed) == vector.get("from_text", vector["record"])
