"""`python -m bench.faults` names ground truths that no legal call matches, and faults of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import faults

SCHEMA = {
    "type": "object",
    "properties": {
        "unit": {"type": "string", "enum": ["kg", "Stone-weight"]},
        "count": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
        "of": {"type": "object", "properties": {"size": {"type": "number"}}, "required": ["size"]},
        "flag": {"type": "boolean"},
    },
    "required": ["count"],
}


@pytest.mark.parametrize(
    ("truth", "fault"),
    [
        ({"count": [2]}, ""),
        ({"count": [2.0], "unit": ["stone weight", ""]}, ""),  # texts as BFCL compares them
        ({"count": ["2", 2]}, ""),  # one of several is enough
        ({"count": [2], "unit": ["pound", ""]}, ""),  # may be left out
        ({"count": [2], "extra": ["x", ""]}, ""),
        ({"count": [2], "of": [{"size": [1, 2], "colour": ["red"]}]}, ""),
        ({"count": [2], "names": [[]]}, ""),
        ({"count": [2.5]}, "`count`: 2.5 is not of the type integer"),
        ({"count": [True]}, "`count`: True is not of the type integer"),
        ({"count": ["2"]}, "`count`: '2' is not of the type integer"),
        ({"count": []}, "`count` is required, and no value is listed"),
        ({"count": [""]}, "`count`: it is required, and to be left out"),
        ({"unit": ["kg"]}, "`count` is required, and not in the ground truth"),
        ({"count": [2], "unit": ["pound"]}, "`unit`: 'pound' is not in the enum"),
        ({"count": [2], "names": [["a", 1]]}, "`names`: 1 is not of the type string"),
        ({"count": [2], "of": [{"size": ["x"]}]}, "`of`: `size`: 'x' is not of the type number"),
        ({"count": [2], "of": [{}]}, "`of`: `size` is required, and not in the ground truth"),
        ({"count": [2], "flag": ["true"]}, "`flag`: 'true' is not of the type boolean"),
        ({"count": [2], "extra": ["x"]}, "there is no parameter `extra`"),
    ],
)
def test_ground_truths_that_no_legal_call_matches(truth: dict[str, Any], fault: str) -> None:
    assert faults.illegal(truth, SCHEMA) == fault


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"type": "boolean", "default": False}, ""),
        ({"type": "boolean", "default": "false"}, "the default 'false' is not of the type boolean"),
        ({"type": "boolean", "default": ""}, ""),
        ({"type": "array", "items": {"type": "string"}, "default": [None]}, ""),
        ({"type": "array", "items": {"type": "string"}, "default": ["a"]}, ""),
        ({"type": "string", "enum": ["a"], "default": "b"}, "the default 'b' is not in the enum"),
        ({"type": "array", "enum": ["a"]}, "the enum has 'a', the type is array"),
        ({"type": "string", "enum": ["a", None]}, ""),
        ({"type": "any", "default": 1}, ""),
    ],
)
def test_definitions_that_contradict_themselves(part: dict[str, Any], fault: str) -> None:
    within = {"type": "object", "properties": {"x": {"type": "array", "items": part}}}
    assert [*faults.contradictions(within)] == ([("x[]", fault)] if fault else [])


def test_a_page(tmp_path: Path) -> None:
    number = {"type": "integer", "default": "1"}
    parameters = {"type": "dict", "properties": {"n": number}, "required": ["n"]}
    tools = [{"name": "count_up", "parameters": parameters}]
    (tmp_path / "possible_answer").mkdir()
    for category in faults.CATEGORIES:
        rows = [{"id": f"{category}_{n}", "question": [[]], "function": tools} for n in (0, 1)]
        truths = [[{"count_up": {"n": [1]}}], [{"count_up": {"n": ["one|two"]}}]]
        answers = [row | {"ground_truth": t} for row, t in zip(rows, truths, strict=True)]
        for folder, lines in (("", rows), ("possible_answer/", answers)):
            text = "\n".join(map(json.dumps, lines))
            (tmp_path / f"{folder}BFCL_v4_{category}.json").write_text(text)
    demo = tmp_path / "demo"
    demo.mkdir()
    call = '{"name": "count_up", "arguments": {"n": "x"}}'
    messages = [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": call}]
    messages.append({"from": "observation", "value": "1"})
    messages.append({"from": "gpt", "value": "As an AI language model, I count."})
    record = {"conversations": messages, "tools": json.dumps([tools[0] | {"description": ""}])}
    (demo / "a.json").write_text(json.dumps([record, record], indent=1))
    lines = faults.page("1.0", tmp_path, [("Demo", str(demo), "abc")])
    text = " ".join(" ".join(lines).split())
    assert "For 8 of these calls" in text
    assert "| simple_python_1 | `count_up` | `n`: 'one\\|two' is not of the type integer |" in text
    assert "| `count_up` | `n` | the default '1' is not of the type integer | 16 | " in text
    assert "| Demo | abc | 2 | " in text
    assert "arguments-misfit-myp353) | 1, 2 | " in text
    assert "myp366" not in text
