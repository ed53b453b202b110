"""The vectors of every dialect, as data: one folder a dialect, one array a file, each vector with a
name and a doc.

A new dialect adds a folder to tests/conformance, named like its grammar folder; tests then find it.
Files: `valid_records`, `valid_texts`, `invalid_records`, `invalid_texts`, `prefix`, and whatever
has a test of its own (`reference`).
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec.bodies.strict_json import loads
from mypt_spec.findings import Finding

HERE = Path(__file__).parents[1] / "conformance"
KINDS = ("valid_records", "valid_texts", "invalid_records", "invalid_texts", "prefix", "reference")
Vector = dict[str, Any]


def folders() -> list[Path]:
    return sorted(path for path in HERE.iterdir() if path.is_dir() and any(path.glob("*.json")))


def dialect_of(folder: Path) -> mypt_spec.Dialect:
    return mypt_spec.dialect(folder.name.replace("_", "-"))


def load(folder: Path, kind: str) -> list[Vector]:
    path = folder / f"{kind}.json"
    vectors: list[Vector] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return vectors


def cases(kind: str) -> list[Any]:
    """The vectors of a kind as parameters `(dialect, vector)`."""
    return [
        pytest.param(dialect_of(folder), vector, id=f"{folder.name}: {vector['name']}")
        for folder in folders()
        for vector in load(folder, kind)
    ]


def record_of(vector: Vector) -> Any:
    """The record; as `line`, JSON text that another reader would change in silence."""
    return loads(vector["line"]) if "line" in vector else vector["record"]


def limits_of(vector: Vector) -> mypt_spec.Limits:
    given = dict(vector.get("limits", {}))
    return mypt_spec.Limits(**given | {"tools": frozenset(given.get("tools", ()))})


def shown(findings: list[Finding]) -> list[list[Any]]:
    """Findings as the vectors write them."""
    return [
        [f.code, f.pointer, list(f.span) if f.span else None, list(f.expected)] for f in findings
    ]


def lengths(loss: list[int]) -> list[list[int]]:
    """A loss mask as runs `[loss, count]`."""
    runs: list[list[int]] = []
    for value in loss:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def edited(text: str, findings: list[Finding]) -> str:
    """A text with every fix of its findings applied."""
    edits = [edit for f in findings if f.fix for edit in f.fix.edits]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def patched(record: Any, findings: list[Finding]) -> Any:
    """A record with every fix of its findings applied (RFC 6902, the three operations that fixes
    use).
    """
    record = copy.deepcopy(record)
    for operation in [op for f in findings if f.fix for op in f.fix.patch]:
        *way, last = [
            t.replace("~1", "/").replace("~0", "~") for t in operation["path"].split("/")[1:]
        ]
        at = record
        for token in way:
            at = at[int(token)] if isinstance(at, list) else at[token]
        key: Any = int(last) if isinstance(at, list) else last
        if operation["op"] == "remove":
            del at[key]
        elif operation["op"] == "add" and isinstance(at, list):
            at.insert(key, operation["value"])
        else:
            assert operation["op"] == "add" or (
                operation["op"] == "replace"
                and key in (at if isinstance(at, dict) else range(len(at)))
            )
            at[key] = operation["value"]
    return record
