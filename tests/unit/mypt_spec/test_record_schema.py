"""Records against schemas of other words than the dialects use."""

from __future__ import annotations

from mypt_spec.record_schema import STRING, Field, RecordSchema, check_record

TEXT = Field(STRING)
SHAREGPT = RecordSchema(
    top={"system": Field(STRING, required=False), "conversations": Field("array")},
    roles={"human": {"value": TEXT}},
    lifted={"system": "system"},
    messages="conversations",
    tag="from",
    text="value",
)


def test_a_system_message_is_lifted_by_the_words_of_the_schema() -> None:
    turns = [{"from": "system", "value": "S"}, {"from": "human", "value": "Hi"}]
    checked, findings, lifted = check_record({"conversations": turns}, SHAREGPT)
    assert checked == {"system": "S", "conversations": turns[1:]}
    assert lifted == "system"
    assert [(f.code, f.pointer) for f in findings] == [("MYP108", "/conversations/0/from")]
    assert findings[0].fix is not None
    assert findings[0].fix.patch[1]["value"] == "S"


def test_a_second_system_message_is_named_by_the_words_of_the_schema() -> None:
    turns = [{"from": "human", "value": "Hi"}, {"from": "system", "value": "S"}]
    checked, findings, _ = check_record({"conversations": turns}, SHAREGPT)
    assert checked is None
    assert [(f.code, f.pointer) for f in findings] == [("MYP108", "/conversations/1/from")]
