"""Types of other languages mean the same to all readers of schemas: one warning, and checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mypt_spec
from mypt_records.checks import findings
from mypt_records.shapes import read, shape_of
from mypt_spec.bodies.json_schema import SchemaError, check_schema, misfits
from mypt_spec.bodies.tagged import types_in
from mypt_spec.findings import Finding

CITY = {"type": "dict", "properties": {"city": {"type": "str"}, "days": {"type": "Float"}}}


def test_values_are_checked_by_what_types_mean() -> None:
    assert misfits({"city": "Oslo", "days": 1.5}, CITY) == []
    assert misfits({"city": 1}, CITY) == [("/city", "1 is not of type 'str'")]
    assert (
        misfits({"a": [1]}, {"properties": {"a": {"type": "tuple", "items": {"type": "any"}}}})
        == []
    )
    shared = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "str"}}}
    assert (misfits("b", shared), len(misfits(1, shared))) == ([], 1)
    check_schema({"type": ["dict", "None"]})
    with pytest.raises(SchemaError, match="strin"):
        check_schema({"type": "dict", "properties": {"a": {"type": "strin"}}})


def test_values_between_tags_are_read_by_what_types_mean() -> None:
    assert types_in(CITY)["city"] == {"string"}
    assert types_in(CITY)["days"] == {"number", "integer"}


def record(*schemas: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": f"f{i}", "parameters": schema}}
        for i, schema in enumerate(schemas)
    ]
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f0", "arguments": json.dumps(arguments)},
    }
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "Yes."},
    ]
    return {"messages": messages, "tools": tools}


def as_chat(item: dict[str, Any]) -> list[Finding]:
    return findings(read(item, shape_of(item)))


def natively(item: dict[str, Any]) -> list[Finding]:
    dialect = mypt_spec.dialect("qwen3")
    episode, in_record = dialect.read(item)
    assert episode is not None
    return [*in_record, *dialect.validate(episode)]


@pytest.mark.parametrize("judge", [as_chat, natively])
def test_one_warning_for_all_tools_and_arguments_are_checked(judge: Any) -> None:
    item = record(CITY, CITY, arguments={"city": 1})
    warning, misfit = (f for f in judge(item) if f.code in ("MYP128", "MYP353"))
    assert (warning.code, warning.severity) == ("MYP128", "warning")
    assert "read 'dict' as object, 'str' as string, 'Float' as number" in warning.message
    assert warning.pointer == "/tools/0/function/parameters/type"
    assert misfit.code == "MYP353"
    assert "1 is not of type 'str'" in misfit.message


def test_one_fix_writes_the_types_of_all_tools() -> None:
    item = record(CITY, CITY, arguments={})
    (warning,) = as_chat(item)
    assert warning.fix is not None
    assert {op["value"] for op in warning.fix.patch} == {"object", "string", "number"}
    assert len(warning.fix.patch) == 6
