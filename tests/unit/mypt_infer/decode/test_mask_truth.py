"""`python -m bench.mask_truth` counts what broken engines do, and runs on files of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llguidance", reason="the benchmark compares with it")
from bench import mask_truth
from bench.mask_truth import Judge, Trial

PAIR = {
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


class Bytes:
    """A tokenizer whose ids are bytes."""

    closers = np.isin(np.arange(256), list(b'"}]'))

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")

    def decode_bytes(self, ids: list[int]) -> bytes:
        return bytes(ids)

    def encode_single_byte(self, byte: int) -> int:
        return byte


class Listed:
    """An engine that allows the texts of a list, and after some nothing."""

    claims = True

    def __init__(self, texts: list[str], dead: str = "") -> None:
        self.texts, self.dead, self.first = texts, dead, ""

    def mask(self, state: str) -> Any:
        mask = np.zeros(256, bool)
        for text in (*self.texts, self.dead):
            if text.startswith(state) and text != state:
                mask[ord(text[len(state)])] = True
        return mask

    def next(self, state: str, token: int) -> Any:
        return state + chr(token)

    def ends(self, state: str) -> bool:
        return state in self.texts


def counts(engine: Any, *, walks: int = 0) -> dict[str, int]:
    """Returns what is counted for an engine of PAIR."""
    trial = Trial(engine, Judge(PAIR), Bytes())
    for value, valid in (({"a": 1}, True), ({"b": 2, "a": 1}, True), ({"b": 2}, False)):
        trial.value(value, labelled=valid)
    chance = mask_truth.random.Random(0)
    for _ in range(walks):
        trial.walk(chance)
    return {k: n for k, n in trial.counts.items() if k not in ("valid", "invalid", "walks")}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (['{"a": 1}', '{"b": 2, "a": 1}'], {}),
        (['{"a": 1}', '{"a": 1, "b": 2}'], {"in another order": 1}),
        (['{"a": 1}'], {"wrong refusal": 1}),
        (['{"a": 1}', '{"b": 2}', '{"b": 2, "a": 1}'], {"wrong end of a value": 1}),
    ],
)
def test_values_that_an_engine_judges_otherwise(texts: list[str], expected: Any) -> None:
    assert counts(Listed(texts)) == expected


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        (Listed(['{"a": 1}', '{"a": 1, "b": 2}'], dead='{"b'), "dead end"),
        (Listed(['{"a": 1}', '{"a": 1, "b": 2}', '{"b": 1.5}']), "wrong end of a walk"),
        (Listed(['{"a": 1}', '{"a": 1, "b": 2}', '{"a": 01}']), "wrong end of a walk"),
    ],
)
def test_walks_to_a_wrong_end(engine: Any, kind: str) -> None:
    found = counts(engine, walks=30)
    assert 0 < found[kind] < 30
    assert found.keys() == {"in another order", "walks that end", kind}


def test_what_breaks_a_format_is_counted_apart() -> None:
    judge = Judge({"format": "ipv4"})
    assert [judge.verdict(v) for v in ("1.2.3.4", "x", 5)] == ["valid", "format", "valid"]


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = [{"data": {"a": 1}, "valid": True}, {"data": {"b": 1}, "valid": False}]
    (tmp_path / "a.json").write_text(json.dumps({"schema": PAIR, "tests": tests}))
    (tmp_path / "b.json").write_text(json.dumps({"schema": {"not": {}}, "tests": []}))
    arguments = ["--data", str(tmp_path), "--walks", "1", "--engines", "ours"]
    assert mask_truth.main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    rows = dict(
        line.strip("| ").split(" | ") for line in out if line.startswith("| ") and " | " in line[2:]
    )
    wanted = {
        "claimed": "1",
        "refused": "1",
        "valid": "1",
        "invalid": "1",
        "schemas with a fault": "0",
    }
    assert wanted.items() <= rows.items()
